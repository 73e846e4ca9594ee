package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/job"
	"github.com/batchbot/batchbot/config"
	"github.com/batchbot/batchbot/store"
)

func (s shell) jobCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "job",
		Short: "List the scheduled jobs, and run one now",
		Long: `Lists the jobs that servers run by themselves, each tick on one instance, and runs one at once. The commands are safe at any moment, whether servers
are running or not.`,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	file := c.PersistentFlags().String("config", "batchbot.yml", "settings `FILE`; batchbot.example.yml explains every key")

	list := &cobra.Command{Use: "list", Short: "Show every job, when it ran last, what came of it, and when it is due next", Args: noArguments}
	asJSON := list.Flags().Bool("json", false, "print one JSON array")
	list.RunE = func(c *cobra.Command, _ []string) error { return s.jobList(c.Context(), *file, *asJSON) }

	run := &cobra.Command{
		Use: "run JOB", Short: "Run a job now, whether it is due or not",
		Long: `Runs one job in this process, under the lock that servers run it under. What is to be said on the host is said by a running server.

Exit status: 0 it was done, 1 it failed, or an instance is running it right now.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("%s wants one job: `batchbot job list` shows their names", c.CommandPath())}
			}
			return nil
		},
	}
	runJSON := run.Flags().Bool("json", false, "print one JSON object")
	run.RunE = func(c *cobra.Command, args []string) error { return s.jobRun(c.Context(), *file, args[0], *runJSON) }
	c.AddCommand(list, run)
	return c
}

// jobLine is one job as `job list --json` prints it. Times are the database's clock.
type jobLine struct {
	Job      string `json:"job"`
	Schedule string `json:"schedule"` // a duration, five fields of cron, or "never"
	Started  string `json:"started"`  // of the last run; empty: it never ran
	Outcome  string `json:"outcome"`  // DONE, FAILED, STOPPED; RUNNING; DIED: its process did before it was done; UNFINISHED: one of the two, as SQLite's locks end with the process
	Took     string `json:"took"`     // a duration; of a run that is not over, so far
	Summary  string `json:"summary"`  // what it did, or why it failed
	By       string `json:"by"`       // who had it run; empty: the schedule
	Skipped  int64  `json:"skipped"`  // ticks that came while it ran
	Next     string `json:"next"`     // when it is due; empty: never
}

func (s shell) jobList(ctx context.Context, file string, asJSON bool) error {
	settings, err := config.Load(file, s.environ)
	if err != nil {
		return err
	}
	jobs, err := schedules(settings)
	if err != nil {
		return err
	}
	return s.withStore(ctx, file, func(db *store.Store) error {
		lines := make([]jobLine, 0, len(jobs))
		var now time.Time
		for _, j := range jobs {
			run, err := db.Job(ctx, j.Name)
			if err != nil {
				return err
			}
			line, err := s.jobLine(ctx, db, settings.Database.Driver != config.SQLite, j, run)
			if err != nil {
				return err
			}
			lines, now = append(lines, line), run.Now
		}
		if asJSON {
			return printJSON(s.stdout, lines)
		}
		table := tabwriter.NewWriter(s.stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "JOB\tSCHEDULE\tLAST RUN\tOUTCOME\tTOOK\tNEXT\tSUMMARY")
		for _, l := range lines {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.Job, l.Schedule, orDash(l.Started), orDash(l.Outcome), orDash(l.Took), orDash(l.Next), orDash(printable(l.Summary)))
		}
		if err := table.Flush(); err != nil {
			return err
		}
		fmt.Fprintf(s.stdout, "it is %s by the database's clock\n", now.Format(time.RFC3339))
		return nil
	})
}

// jobLine says how a job stands; shared: other processes see each other's locks.
func (s shell) jobLine(ctx context.Context, db *store.Store, shared bool, j job.Job, run bot.JobRun) (jobLine, error) {
	line := jobLine{Job: j.Name, Schedule: j.Schedule.String(), Summary: run.Summary, By: run.By, Skipped: run.Skipped}
	if run.Runs > 0 {
		line.Started = run.Started.Format(time.RFC3339)
		end := run.Ended
		switch {
		case !end.IsZero():
			line.Outcome = run.Outcome.String()
		default:
			end, line.Outcome = run.Now, "RUNNING"
			// The lock says whether somebody is at it. Taking it for a moment is no harm: an instance that finds it taken looks again.
			_, release, free, err := db.TryLock(ctx, job.Lock(j.Name))
			if err != nil {
				return jobLine{}, err
			}
			if free {
				release()
				// It may have ended between the two looks.
				again, err := db.Job(ctx, j.Name)
				if err != nil {
					return jobLine{}, err
				}
				if !again.Ended.IsZero() || again.Runs != run.Runs {
					return s.jobLine(ctx, db, shared, j, again)
				}
				if line.Outcome = "UNFINISHED"; shared {
					line.Outcome = "DIED"
				}
			}
		}
		if line.Outcome != "DIED" && line.Outcome != "UNFINISHED" {
			line.Took = end.Sub(run.Started).Round(time.Millisecond).String()
		}
	}
	if next := j.Schedule.Next(run.Tick); !next.IsZero() {
		if run.Tick.IsZero() || next.Before(run.Now) {
			next = run.Now
		}
		line.Next = next.UTC().Format(time.RFC3339)
	}
	return line, nil
}

// jobEnd is what `job run --json` prints.
type jobEnd struct {
	Job     string `json:"job"`
	Outcome string `json:"outcome"`
	Summary string `json:"summary"`
	Took    string `json:"took"`
}

func (s shell) jobRun(ctx context.Context, file, name string, asJSON bool) (err error) {
	settings, err := config.Load(file, s.environ)
	if err != nil {
		return err
	}
	p := &program{log: slog.New(slog.DiscardHandler), settings: settings}
	defer func() { err = errors.Join(err, p.close()) }()
	if _, err := p.assemble(ctx, false); err != nil {
		return err
	}
	ended, err := p.scheduler.RunNow(ctx, name, operatorName())
	if err != nil {
		return err
	}
	if asJSON {
		err = printJSON(s.stdout, jobEnd{Job: name, Outcome: ended.Outcome.String(), Summary: ended.Summary, Took: ended.Took.Round(time.Millisecond).String()})
		if err != nil {
			return err
		}
	}
	if ended.Outcome != bot.JobDone {
		return fmt.Errorf("job %s %s: %s", name, strings.ToLower(ended.Outcome.String()), printable(ended.Summary))
	}
	if !asJSON {
		did := ended.Summary
		if did == "" {
			did = "there was nothing to do"
		}
		fmt.Fprintf(s.stdout, "%s: %s\n", name, printable(did))
	}
	return nil
}
