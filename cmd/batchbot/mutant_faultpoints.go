//go:build faultpoints && mutate

package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/batchbot/batchbot/bot/mutant"
)

// inProgram are the guards that bot/round and bot/intake keep; the others are switched in what the explorer puts in place of store, git and host.
var inProgram = []mutant.Guard{
	mutant.OwnVerdict, mutant.HostFirst, mutant.Intent, mutant.NoRelease, mutant.Findable, mutant.Look, mutant.NewHead, mutant.RowsFirst, mutant.MergedHead,
}

// A proof by killing must be able to fail: FAULT_MUTANT names a guard that this process is to be without.
var _ = func() bool {
	if g := os.Getenv("FAULT_MUTANT"); g != "" {
		if !slices.Contains(inProgram, mutant.Guard(g)) {
			panic(fmt.Sprintf("FAULT_MUTANT=%q is no guard that the program can be without: write one of %q", g, inProgram))
		}
		mutant.Take(mutant.Guard(g))
	}
	return true
}()
