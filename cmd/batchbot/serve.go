package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/batchbot/batchbot/config"
)

func (s shell) serveCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the bot",
		Long: `Runs the bot until it is asked to stop (SIGTERM or Ctrl-C): it then finishes what it does within shutdown_timeout and exits 0; a
second signal ends it at once. Any number of instances may share one MySQL database.`,
	}
	file := configFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error { return s.serve(c.Context(), *file) }
	return c
}

func (s shell) serve(ctx context.Context, file string) error {
	settings, err := config.Load(file, s.environ)
	if err != nil {
		return err
	}
	p, err := build(ctx, settings, newLogger(settings.Log, s.stderr))
	if err != nil {
		return err
	}
	defer func() { _ = p.close() }() // what matters is committed; nothing can be done about a connection that does not close
	return p.run(ctx)
}
