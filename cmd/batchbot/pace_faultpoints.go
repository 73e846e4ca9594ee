//go:build faultpoints

package main

import (
	"os"
	"time"

	"github.com/batchbot/batchbot/bot/lease"
)

// pace shortens leases, so that a proof by killing need not wait minutes for what a dead instance had claimed. FAULT_LEASE says how
// long they are; without it the loops work as in an ordinary build.
func pace() lease.Pace {
	short, err := time.ParseDuration(os.Getenv("FAULT_LEASE"))
	if err != nil {
		return lease.Pace{}
	}
	return lease.Pace{Lease: short, RetryBase: short / 10, RetryLimit: short, Poll: short / 10}
}
