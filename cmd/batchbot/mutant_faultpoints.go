//go:build faultpoints && mutate

package main

import (
	"os"

	"github.com/batchbot/batchbot/bot/mutant"
)

// A proof by killing must be able to fail: FAULT_MUTANT names a guard that this process is to be without.
var _ = func() bool {
	if g := os.Getenv("FAULT_MUTANT"); g != "" {
		mutant.Take(mutant.Guard(g))
	}
	return true
}()
