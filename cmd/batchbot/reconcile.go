package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/reconcile"
	"github.com/batchbot/batchbot/config"
)

func (s shell) reconcileCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "reconcile [QUEUE|--all]",
		Short: "Compare the rows with the host, and mend what differs",
		Long: `Compares what the database says with what the host shows: repositories, operations, batches and what is left of those that are over,
status comments, and what was given up. Nothing is changed unless --apply is given; then the same code mends it that would have done so in time,
so it is safe at any moment, whether servers are running or not.

QUEUE is OWNER/NAME:BRANCH, with HOST/ before it when two hosts share a path; without it everything is compared.

Exit status: 0 no difference is left, 1 something could not be read, 2 the command line is wrong, 3 there are differences (or, with --apply, some
are left).`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{fmt.Errorf("%s wants one queue at most, OWNER/NAME:BRANCH: `batchbot queue list` shows their names", c.CommandPath())}
			}
			return nil
		},
	}
	file := configFlag(c)
	all := c.Flags().Bool("all", false, "everything, which is also what it does without a QUEUE")
	apply := c.Flags().Bool("apply", false, "mend what differs; without it nothing is changed")
	asJSON := c.Flags().Bool("json", false, "print one JSON array")
	c.RunE = func(c *cobra.Command, args []string) error {
		if *all && len(args) > 0 {
			return usageError{fmt.Errorf("%s: name a queue or say --all, not both", c.CommandPath())}
		}
		return s.reconcile(c.Context(), *file, strings.Join(args, ""), *apply, *asJSON)
	}
	return c
}

// differError says that rows and host differ still.
type differError struct{ error }

func (s shell) reconcile(ctx context.Context, file, queue string, apply, asJSON bool) (err error) {
	settings, err := config.Load(file, s.environ)
	if err != nil {
		return err
	}
	p := &program{log: slog.New(slog.DiscardHandler), settings: settings}
	defer func() { err = errors.Join(err, p.close()) }()
	if _, err := p.assemble(ctx, false); err != nil {
		return err
	}
	scope := reconcile.Scope{Progress: s.progress(time.Second)}
	if queue != "" {
		list, err := p.store.ListQueues(ctx)
		if err != nil {
			return err
		}
		q, err := findQueue(list, queue)
		if err != nil {
			return err
		}
		scope.QueueID = q.Queue.ID
	}
	found, unread := p.reconciler.Find(ctx, scope)
	if apply && len(found) > 0 {
		p.reconciler.Mend(ctx, found, reconcile.Actor{By: operatorName(), Source: "reconcile", Operator: true})
		unread = errors.Join(unread, p.reconciler.Check(ctx, found, scope))
	}
	if err := s.printDifferences(found, asJSON); err != nil {
		return err
	}
	if unread != nil {
		return fmt.Errorf("not everything could be compared: %w", unread)
	}
	return left(found, apply)
}

// left says what remains to be done.
func left(found []reconcile.Difference, apply bool) error {
	left, mendable := 0, 0
	for _, d := range found {
		if d.Outcome != reconcile.Mended {
			left++
		}
		if d.Mendable() {
			mendable++
		}
	}
	switch {
	case left == 0:
		return nil
	case apply:
		return differError{fmt.Errorf("%s left: the last column says what to do", counted(left, "is", "are"))}
	case mendable == 0:
		return differError{fmt.Errorf("%s: the last column says what to do", counted(left, "", ""))}
	}
	return differError{fmt.Errorf("%s: --apply mends %d of them", counted(left, "", ""), mendable)}
}

func counted(n int, is, are string) string {
	if n == 1 {
		return strings.TrimSpace("1 difference " + is)
	}
	return strings.TrimSpace(fmt.Sprintf("%d differences %s", n, are))
}

// progress says on stderr which repository is looked at, once it takes longer than patience and then at most as often.
func (s shell) progress(patience time.Duration) func(bot.Repository) {
	last, n := time.Now(), 0
	return func(repo bot.Repository) {
		n++
		if time.Since(last) < patience {
			return
		}
		last = time.Now()
		fmt.Fprintf(s.stderr, "comparing repository %d, %s\n", n, printable(repo.Host+"/"+repo.Path))
	}
}

func (s shell) printDifferences(found []reconcile.Difference, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(s.stdout)
		encoder.SetIndent("", "  ")
		if found == nil {
			found = []reconcile.Difference{}
		}
		return encoder.Encode(found)
	}
	if len(found) == 0 {
		fmt.Fprintln(s.stdout, "no differences")
		return nil
	}
	table := tabwriter.NewWriter(s.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "WHAT\tWHERE\tROWS\tHOST\tOUTCOME\tREMEDY")
	for _, d := range found {
		outcome := string(d.Outcome)
		switch {
		case d.Error != "":
			outcome += ": " + d.Error
		case outcome == "":
			outcome = "-"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", d.Kind, printable(d.Where()), printable(d.Rows), printable(d.Found), printable(outcome), printable(d.Remedy))
	}
	return table.Flush()
}
