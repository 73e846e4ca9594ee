package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/config"
	"github.com/batchbot/batchbot/store"
)

func (s shell) batchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "batch",
		Short: "List and show batches, and say what became of one",
		Long: `Lists and shows batches, and settles what the bot cannot. list and show read the database only. settle and unblock ask the host as well and
do what any instance would do, so they are safe at any moment, whether servers are running or not.`,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	file := c.PersistentFlags().String("config", "batchbot.yml", "settings `FILE`; batchbot.example.yml explains every key")

	list := &cobra.Command{
		Use: "list [QUEUE]", Short: "Show batches, the newest first",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{fmt.Errorf("%s wants one queue at most, OWNER/NAME:BRANCH: `batchbot queue list` shows their names", c.CommandPath())}
			}
			return nil
		},
	}
	active := list.Flags().Bool("active", false, "only those that are RUNNING or BLOCKED")
	limit := list.Flags().Int("limit", 20, "at most `N` batches")
	listJSON := list.Flags().Bool("json", false, "print one JSON array")
	list.RunE = func(c *cobra.Command, args []string) error {
		if *limit < 1 {
			return usageError{fmt.Errorf("--limit %d: 1 or more batches can be listed", *limit)}
		}
		return s.withStore(c.Context(), *file, func(db *store.Store) error {
			return s.batchList(c.Context(), db, strings.Join(args, ""), bot.BatchFilter{Active: *active, Limit: *limit}, *listJSON)
		})
	}

	show := &cobra.Command{Use: "show BATCH", Short: "Show a batch, its members and what became of each", Args: batchAnd()}
	showJSON := show.Flags().Bool("json", false, "print one JSON object")
	show.RunE = func(c *cobra.Command, args []string) error {
		id, err := batchID(c, args[0])
		if err != nil {
			return err
		}
		return s.withStore(c.Context(), *file, func(db *store.Store) error { return s.batchShow(c.Context(), db, id, *showJSON) })
	}

	settle := s.orderCommand(file, "settle BATCH merged|failed", "Settle an active batch: it landed, or it is given up",
		`Settles an active batch by an operator's word, which is held against what the host and the target say.

  merged   the target must contain the batch's head. Its members are recorded as landed.
  failed   it must not. Before it lands its merge request is closed; while it lands or is BLOCKED that must read closed already.
           Its members wait again, in their place, and the queue parks until somebody resumes it.

--force goes further, and is recorded in the audit: failed closes an open merge request too, or settles without the host where that does
not answer; merged records a landing that the target does not show, with the alarm LANDED_DIFFERS.`, false, bot.WordMerged, bot.WordFailed)
	unblock := s.orderCommand(file, "unblock BATCH merged|failed|resume", "Settle or resume a batch that is BLOCKED",
		`Says what became of a batch that is BLOCKED, like /batch unblock in a comment: merged and failed settle it (see batchbot batch settle --help),
resume goes on with it where it stood, with its whole time again.`, true, bot.WordMerged, bot.WordFailed, bot.WordResume)
	c.AddCommand(list, show, settle, unblock)
	return c
}

// orderCommand is a command that takes an operator's word about a batch.
func (s shell) orderCommand(file *string, use, short, long string, unblock bool, words ...bot.OperatorWord) *cobra.Command {
	names := make([]string, 0, len(words))
	for _, w := range words {
		names = append(names, string(w))
	}
	c := &cobra.Command{Use: use, Short: short, Long: long, Args: batchAnd(names...)}
	force := c.Flags().Bool("force", false, "also where the host cannot be asked or says otherwise; audited")
	dryRun := c.Flags().Bool("dry-run", false, "say what would be done, and change nothing")
	asJSON := c.Flags().Bool("json", false, "print one JSON object")
	c.RunE = func(c *cobra.Command, args []string) error {
		id, err := batchID(c, args[0])
		if err != nil {
			return err
		}
		return s.order(c.Context(), *file, bot.OperatorOrder{
			BatchID: id, Word: bot.OperatorWord(args[1]), Unblock: unblock, Force: *force, DryRun: *dryRun, By: operatorName(), Source: "cli",
		}, *asJSON)
	}
	return c
}

// batchAnd demands a batch and, if there are any, one of words.
func batchAnd(words ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(words) == 0 && len(args) != 1:
			return usageError{fmt.Errorf("%s wants the number of one batch: `batchbot batch list` shows them", c.CommandPath())}
		case len(words) == 0:
			return nil
		case len(args) != 2:
			return usageError{fmt.Errorf("%s wants the number of a batch and one of %s: see `%s --help`", c.CommandPath(), strings.Join(words, ", "), c.CommandPath())}
		}
		if slices.Contains(words, args[1]) {
			return nil
		}
		return usageError{fmt.Errorf("%s: %q is none of %s", c.CommandPath(), args[1], strings.Join(words, ", "))}
	}
}

// batchID reads the number of a batch.
func batchID(c *cobra.Command, arg string) (int64, error) {
	id, err := strconv.ParseInt(arg, 10, 64)
	if err != nil || id < 1 {
		return 0, usageError{fmt.Errorf("%s: %q is not the number of a batch: `batchbot batch list` shows them", c.CommandPath(), arg)}
	}
	return id, nil
}

func noBatch(id int64) error {
	return fmt.Errorf("no batch %d: `batchbot batch list` shows them", id)
}

// batchDetail is one batch as `batch list --json` prints it.
type batchDetail struct {
	ID            int64  `json:"id"`
	Queue         string `json:"queue"`
	Status        string `json:"status"`
	Phase         string `json:"phase"`
	Kind          string `json:"kind"`
	Why           string `json:"why"` // these members
	Code          string `json:"code"`
	Message       string `json:"message"`
	MR            int    `json:"mr"`
	Size          int    `json:"size"`   // members claimed
	Riding        int    `json:"riding"` // members in it now
	Builds        int    `json:"builds"`
	CI            string `json:"ci"`
	Base          string `json:"base"`
	Head          string `json:"head"`
	Landed        string `json:"landed"`
	LandedDiffers bool   `json:"landed_differs"`
	Created       string `json:"created"`
	Updated       string `json:"updated"`
	Since         string `json:"since"` // in this phase, as a duration; empty when it is over
}

func detailOf(v bot.BatchOverview) batchDetail {
	b := v.Batch
	d := batchDetail{
		ID: b.ID, Queue: v.QueueName(), Status: b.Status.String(), Phase: b.Phase.String(), Kind: b.Kind.String(), Why: b.Why, Code: string(b.Code), Message: b.Message,
		MR: b.MRNumber, Size: b.Size, Riding: v.Riding, Builds: b.Build, CI: b.CIConclusion, Base: b.BaseSHA, Head: b.HeadSHA, Landed: b.LandedSHA,
		LandedDiffers: b.LandedDiffers, Created: b.CreatedAt.UTC().Format(time.RFC3339), Updated: b.UpdatedAt.UTC().Format(time.RFC3339),
	}
	if b.Status.Active() {
		d.Since = b.PhaseAge.Round(time.Second).String()
	}
	return d
}

func (s shell) batchList(ctx context.Context, db *store.Store, queue string, filter bot.BatchFilter, asJSON bool) error {
	if queue != "" {
		queues, err := db.ListQueues(ctx)
		if err != nil {
			return err
		}
		q, err := findQueue(queues, queue)
		if err != nil {
			return err
		}
		filter.QueueID = q.Queue.ID
	}
	list, err := db.ListBatches(ctx, filter)
	if err != nil {
		return err
	}
	lines := make([]batchDetail, 0, len(list))
	for _, v := range list {
		lines = append(lines, detailOf(v))
	}
	if asJSON {
		return printJSON(s.stdout, lines)
	}
	table := tabwriter.NewWriter(s.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "BATCH\tQUEUE\tSTATUS\tPHASE\tMR\tMEMBERS\tCODE\tUPDATED\tWHY")
	for _, l := range lines {
		phase, members := "-", strconv.Itoa(l.Size)
		if l.Since != "" {
			phase, members = l.Phase+" for "+l.Since, fmt.Sprintf("%d of %d", l.Riding, l.Size)
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", l.ID, l.Queue, l.Status, phase, l.MR, members, orDash(l.Code), l.Updated, printable(l.Message))
	}
	return table.Flush()
}

// memberLine is one member as `batch show --json` prints it.
type memberLine struct {
	MR        int    `json:"mr"`
	Operation string `json:"operation"`
	Author    string `json:"author"`
	Commit    string `json:"commit"` // pinned when it was claimed
	Event     string `json:"event"`  // the last one in the batch's history
	Reason    string `json:"reason"`
	Detail    string `json:"detail"`
	State     string `json:"state"` // of the operation now
}

func (s shell) batchShow(ctx context.Context, db *store.Store, id int64, asJSON bool) error {
	view, err := db.BatchView(ctx, id)
	if errors.Is(err, store.ErrMissing) {
		return noBatch(id)
	}
	if err != nil {
		return err
	}
	overview := bot.BatchOverview{Batch: view.Batch, Queue: view.Queue, Repository: view.Repository}
	members := make([]memberLine, 0, len(view.Members))
	for _, m := range view.Members {
		op := m.Operation
		if op.BatchID == id {
			overview.Riding++
		}
		members = append(members, memberLine{
			MR: op.Number, Operation: op.ID, Author: op.Author.Login, Commit: m.HeadSHA, Event: m.Event.String(), Reason: string(m.Reason),
			Detail: m.Detail, State: op.Status.String(),
		})
	}
	d := detailOf(overview)
	if asJSON {
		return printJSON(s.stdout, struct {
			batchDetail
			Members []memberLine `json:"members"`
		}{d, members})
	}
	facts := tabwriter.NewWriter(s.stdout, 0, 0, 2, ' ', 0)
	for _, fact := range [][2]string{
		{"batch", fmt.Sprintf("%d (%s)", d.ID, d.Kind)}, {"why these", d.Why}, {"queue", d.Queue}, {"status", strings.TrimSpace(d.Status + " " + d.Code)}, {"phase", d.Phase},
		{"in it for", d.Since}, {"MR", strconv.Itoa(d.MR)}, {"message", printable(d.Message)}, {"CI", d.CI}, {"builds", strconv.Itoa(d.Builds)},
		{"base", d.Base}, {"head", d.Head}, {"landed", d.Landed}, {"created", d.Created}, {"updated", d.Updated},
	} {
		if fact[1] != "" && fact[1] != "0" {
			fmt.Fprintf(facts, "%s\t%s\n", fact[0], fact[1])
		}
	}
	if err := facts.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(s.stdout)
	table := tabwriter.NewWriter(s.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "MR\tAUTHOR\tCOMMIT\tIN THE BATCH\tNOW\tWHY")
	for _, m := range members {
		why := m.Reason
		if m.Detail != "" {
			why += ": " + m.Detail
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\n", m.MR, printable(m.Author), bot.ShortSHA(m.Commit), m.Event, m.State, printable(why))
	}
	return table.Flush()
}

// orderLine is what became of an order as --json prints it.
type orderLine struct {
	Batch  int64  `json:"batch"`
	Word   string `json:"word"`
	Done   bool   `json:"done"`
	DryRun bool   `json:"dry_run"`
	Text   string `json:"text"`
}

// order gives an operator's word about a batch.
func (s shell) order(ctx context.Context, file string, o bot.OperatorOrder, asJSON bool) (err error) {
	settings, err := config.Load(file, s.environ)
	if err != nil {
		return err
	}
	p := &program{log: slog.New(slog.DiscardHandler), settings: settings}
	defer func() { err = errors.Join(err, p.close()) }()
	if _, err := p.assemble(ctx, false); err != nil {
		return err
	}
	answer, err := p.driver.Order(ctx, o)
	if errors.Is(err, store.ErrMissing) {
		return noBatch(o.BatchID)
	}
	if err != nil {
		return err
	}
	if asJSON {
		if err := printJSON(s.stdout, orderLine{o.BatchID, string(o.Word), answer.Done, o.DryRun, answer.Text}); err != nil {
			return err
		}
	}
	switch {
	case !answer.Done:
		return fmt.Errorf("batch %d: %s", o.BatchID, answer.Text)
	case !asJSON:
		fmt.Fprintln(s.stdout, printable(answer.Text))
	}
	return nil
}

func printJSON(to io.Writer, what any) error {
	encoder := json.NewEncoder(to)
	encoder.SetIndent("", "  ")
	return encoder.Encode(what)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
