//go:build !faultpoints

package main

import "github.com/batchbot/batchbot/bot/lease"

// pace is how the loops over deliveries and errands work: as they see fit.
func pace() lease.Pace { return lease.Pace{} }
