// Package round is the loop of one queue: look, decide, do one thing. It claims, builds, opens, watches, lands and settles.
package round
