// Package outbox does what is still to be done or said on the host.
package outbox
