package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/batchbot/batchbot/config"
)

// mostSteps bounds what one round does: a queue that never rests is for a server.
const mostSteps = 1000

func (s shell) roundCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "round QUEUE",
		Short: "Work on one queue now, until it waits for something",
		Long: `Does for one queue what a server does at every poll: claims what waits, or takes the active batch as far as it goes now, for example until CI
has to end. It is safe beside running servers. What is to be said on the host is said by them.`,
		Args: oneQueue,
	}
	file := configFlag(c)
	asJSON := c.Flags().Bool("json", false, "print one JSON array")
	c.RunE = func(c *cobra.Command, args []string) error { return s.round(c.Context(), *file, args[0], *asJSON) }
	return c
}

// roundLine is one step as `round --json` prints it.
type roundLine struct {
	Batch int64  `json:"batch"` // 0: none
	Did   string `json:"did"`
	After string `json:"after"` // how long until the next step is worth while, as a duration; empty: when something changes
}

func (s shell) round(ctx context.Context, file, queue string, asJSON bool) (err error) {
	settings, err := config.Load(file, s.environ)
	if err != nil {
		return err
	}
	p := &program{log: slog.New(slog.DiscardHandler), settings: settings}
	defer func() { err = errors.Join(err, p.close()) }()
	if _, err := p.assemble(ctx, false); err != nil {
		return err
	}
	list, err := p.store.ListQueues(ctx)
	if err != nil {
		return err
	}
	q, err := findQueue(list, queue)
	if err != nil {
		return err
	}
	lines := []roundLine{}
	for range mostSteps {
		result, err := p.driver.RunOnce(ctx, q.Queue.ID)
		if err != nil {
			return err
		}
		line := roundLine{Batch: result.Batch, Did: result.Did}
		if result.After > 0 {
			line.After = result.After.String()
		}
		lines = append(lines, line)
		if !asJSON {
			s.roundStep(line)
		}
		if !result.Again {
			break
		}
	}
	if asJSON {
		return printJSON(s.stdout, lines)
	}
	return nil
}

func (s shell) roundStep(l roundLine) {
	batch := ""
	if l.Batch != 0 {
		batch = fmt.Sprintf("batch %d: ", l.Batch)
	}
	fmt.Fprintln(s.stdout, printable(batch+l.Did))
}
