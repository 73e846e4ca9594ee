// Command batchbot lands many approved merge requests as one. See the README for what it does and `batchbot --help` for how.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // schedules have time zones, and not every machine has their files
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks to stop; from then on signals have their ordinary effect, so a second one kills.
	context.AfterFunc(ctx, stop)
	os.Exit(shell{environ: os.Environ(), stdout: os.Stdout, stderr: os.Stderr}.run(ctx, os.Args[1:]))
}
