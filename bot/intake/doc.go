// Package intake turns webhooks into operations: deliveries are stored before they are answered, read as neutral events, and applied.
package intake
