package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/user"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/config"
	"github.com/batchbot/batchbot/store"
)

func (s shell) queueCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "queue",
		Short: "List, pause and resume queues",
		Long: `Lists, pauses and resumes queues. A queue is named OWNER/NAME:BRANCH, with HOST/ before it when two hosts share a path.
The commands work on the database, so they may run anywhere that reaches it, whether a server is running or not.`,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	file := c.PersistentFlags().String("config", "batchbot.yml", "settings `FILE`; batchbot.example.yml explains every key")

	list := &cobra.Command{Use: "list", Short: "Show every queue, what waits, what is active and why one stands still", Args: noArguments}
	asJSON := list.Flags().Bool("json", false, "print one JSON array")
	list.RunE = func(c *cobra.Command, _ []string) error {
		return s.withStore(c.Context(), *file, func(db *store.Store) error { return s.queueList(c.Context(), db, *asJSON) })
	}

	pause := &cobra.Command{Use: "pause QUEUE", Short: "Claim nothing and land nothing new; admission goes on", Args: oneQueue}
	reason := pause.Flags().String("reason", "", "`WHY`, for those who look at the queue")
	pause.RunE = func(c *cobra.Command, args []string) error {
		return s.withQueue(c.Context(), *file, args[0], func(db *store.Store, q bot.QueueOverview) error {
			changed, err := db.PauseQueue(c.Context(), q.Queue.ID, operatorName(), *reason)
			return s.report(q, "paused", changed, err)
		})
	}

	resume := &cobra.Command{Use: "resume QUEUE", Short: "Open a paused or parked queue", Args: oneQueue}
	resume.RunE = func(c *cobra.Command, args []string) error {
		return s.withQueue(c.Context(), *file, args[0], func(db *store.Store, q bot.QueueOverview) error {
			changed, err := db.ResumeQueue(c.Context(), q.Queue.ID, operatorName())
			return s.report(q, "open", changed, err)
		})
	}
	c.AddCommand(list, pause, resume)
	return c
}

// oneQueue demands exactly one queue's name.
func oneQueue(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError{fmt.Errorf("%s wants one queue, OWNER/NAME:BRANCH: `batchbot queue list` shows their names", c.CommandPath())}
	}
	return nil
}

// withStore opens the database of a settings file for do.
func (s shell) withStore(ctx context.Context, file string, do func(*store.Store) error) (err error) {
	settings, err := config.Load(file, s.environ)
	if err != nil {
		return err
	}
	db, err := openStore(ctx, settings, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.CheckMigrated(ctx); err != nil {
		return err
	}
	return do(db)
}

// withQueue finds a queue by its name for do.
func (s shell) withQueue(ctx context.Context, file, name string, do func(*store.Store, bot.QueueOverview) error) error {
	return s.withStore(ctx, file, func(db *store.Store) error {
		list, err := db.ListQueues(ctx)
		if err != nil {
			return err
		}
		q, err := findQueue(list, name)
		if err != nil {
			return err
		}
		return do(db, q)
	})
}

// findQueue picks the queue a person means.
func findQueue(list []bot.QueueOverview, name string) (bot.QueueOverview, error) {
	var found []bot.QueueOverview
	for _, q := range list {
		if name == q.Name() || name == strings.TrimPrefix(q.Name(), q.Repository.Host+"/") {
			found = append(found, q)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return bot.QueueOverview{}, fmt.Errorf("no queue %q: `batchbot queue list` shows their names", name)
	}
	return bot.QueueOverview{}, fmt.Errorf("%d hosts have a queue %q: write %s", len(found), name, found[0].Name())
}

// operatorName is who acts, for the audit.
func operatorName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "operator"
}

func (s shell) report(q bot.QueueOverview, state string, changed bool, err error) error {
	if err != nil {
		return err
	}
	already := ""
	if !changed {
		already = " already"
	}
	fmt.Fprintf(s.stdout, "%s is %s%s\n", q.Name(), state, already)
	return nil
}

// queueLine is one queue as `queue list --json` prints it.
type queueLine struct {
	Queue           string     `json:"queue"`
	State           string     `json:"state"`
	Reason          string     `json:"reason"`
	Waiting         int        `json:"waiting"`
	PendingApproval int        `json:"pending_approval"`
	Batch           *batchLine `json:"batch"` // the active one
}

type batchLine struct {
	ID      int64  `json:"id"`
	Status  string `json:"status"`
	Phase   string `json:"phase"`
	Code    string `json:"code"`
	Message string `json:"message"`
	MR      int    `json:"mr"`
	Since   string `json:"since"` // in this phase, as a duration
}

func (s shell) queueList(ctx context.Context, db *store.Store, asJSON bool) error {
	list, err := db.ListQueues(ctx)
	if err != nil {
		return err
	}
	lines := make([]queueLine, 0, len(list))
	for _, q := range list {
		line := queueLine{
			Queue: q.Name(), State: q.Queue.State.String(), Reason: q.Queue.Reason, Waiting: q.Waiting, PendingApproval: q.PendingApproval,
		}
		if b := q.Batch; b != nil {
			line.Batch = &batchLine{
				ID: b.ID, Status: b.Status.String(), Phase: b.Phase.String(), Code: string(b.Code), Message: b.Message, MR: b.MRNumber,
				Since: b.PhaseAge.Round(time.Second).String(),
			}
		}
		lines = append(lines, line)
	}
	if asJSON {
		encoder := json.NewEncoder(s.stdout)
		encoder.SetIndent("", "  ")
		return encoder.Encode(lines)
	}
	table := tabwriter.NewWriter(s.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "QUEUE\tSTATE\tWAITING\tUNAPPROVED\tACTIVE BATCH\tWHY")
	for _, l := range lines {
		active, why := "-", l.Reason
		if b := l.Batch; b != nil {
			active = fmt.Sprintf("%d %s %s for %s", b.ID, b.Status, b.Phase, b.Since)
			if why == "" && b.Message != "" {
				why = b.Message
			}
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%s\t%s\n", l.Queue, l.State, l.Waiting, l.PendingApproval, active, printable(why))
	}
	return table.Flush()
}

// printable keeps a terminal from being steered by what a host said.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
}
