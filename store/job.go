package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/batchbot/batchbot/bot"
)

const jobColumns = `{now}, j.name, j.tick_at, j.runs, j.skipped, j.started_at, j.ended_at, j.outcome, j.summary, j.started_by, j.version`

func scanJob(scan scan, j *bot.JobRun) error {
	var now, tick, started, ended instant
	err := scan(&now, &j.Name, &tick, &j.Runs, &j.Skipped, &started, &ended, &j.Outcome, &j.Summary, &j.By, &j.Version)
	j.Now, j.Tick, j.Started, j.Ended = now.Time, tick.Time, started.Time, ended.Time
	return err
}

// Job reads what is known of a scheduled job, with the database's clock. Of a job that was never due Version is 0.
func (s *Store) Job(ctx context.Context, name string) (bot.JobRun, error) {
	run, err := readJob(ctx, s, name)
	if err != nil {
		return bot.JobRun{}, fmt.Errorf("read the last run of job %s: %w", name, err)
	}
	return run, nil
}

func readJob(ctx context.Context, from source, name string) (bot.JobRun, error) {
	var run bot.JobRun
	err := from.each(ctx, `SELECT `+jobColumns+` FROM job_run j WHERE j.name = ?`, []any{name}, func(scan scan) error { return scanJob(scan, &run) })
	if err != nil || run.Version != 0 {
		return run, err
	}
	var now instant
	err = from.each(ctx, `SELECT {now}`, nil, func(scan scan) error { return scan(&now) })
	return bot.JobRun{Name: name, Now: now.Time}, err
}

// StartJob takes a tick of a job by starting a run; seen is the job as it was read. ok false: somebody else took it, or the job is not as it
// was. The run as it stands is returned. Of any number of callers that saw the same, one gets ok, whether they hold a lock or not.
func (s *Store) StartJob(ctx context.Context, seen bot.JobRun, by string) (run bot.JobRun, ok bool, err error) {
	return s.tick(ctx, "start job "+seen.Name, seen, func(tx *tx) (bool, error) {
		if seen.Version == 0 {
			_, fresh, err := tx.insert(ctx, &keyJobRun, `INSERT INTO job_run (name, tick_at, runs, skipped, started_at, outcome, summary, started_by, created_at, updated_at)
				VALUES (?, {now}, 1, 0, {now}, 0, '', ?, {now}, {now})`, seen.Name, clip(by, 255))
			return fresh, err
		}
		n, err := tx.exec(ctx, `UPDATE job_run SET runs = runs + 1, started_at = {now}, ended_at = NULL, outcome = 0, summary = '', started_by = ?,
			tick_at = {now}, version = version + 1, updated_at = {now} WHERE name = ? AND version = ?`, clip(by, 255), seen.Name, seen.Version)
		return n == 1, err
	})
}

// SkipJob takes a tick of a job without a run, because the last one is under way still. It answers as StartJob does.
func (s *Store) SkipJob(ctx context.Context, seen bot.JobRun) (run bot.JobRun, ok bool, err error) {
	return s.tick(ctx, "skip a tick of job "+seen.Name, seen, func(tx *tx) (bool, error) {
		n, err := tx.exec(ctx, `UPDATE job_run SET skipped = skipped + 1, tick_at = {now}, version = version + 1, updated_at = {now}
			WHERE name = ? AND version = ?`, seen.Name, seen.Version)
		return n == 1, err
	})
}

func (s *Store) tick(ctx context.Context, name string, seen bot.JobRun, take func(*tx) (bool, error)) (run bot.JobRun, ok bool, err error) {
	err = s.write(ctx, job{name: name, run: func(tx *tx) (err error) {
		if ok, err = take(tx); err != nil {
			return err
		}
		if !ok {
			return errRollback
		}
		run, err = readJob(ctx, tx, seen.Name)
		return err
	}})
	if errors.Is(err, ErrAmbiguous) {
		// Whose tick it became nobody can tell: it is left to the next one.
		return bot.JobRun{}, false, nil
	}
	if err != nil || !ok {
		return bot.JobRun{}, false, err
	}
	return run, true, nil
}

// EndJob writes how a run ended. A run that is not the last any more, because its lock was lost and another began, changes nothing.
func (s *Store) EndJob(ctx context.Context, run bot.JobRun, outcome bot.JobOutcome, summary string) error {
	return s.write(ctx, job{name: "end job " + run.Name, run: func(tx *tx) error {
		_, err := tx.exec(ctx, `UPDATE job_run SET outcome = ?, summary = ?, ended_at = {now}, version = version + 1, updated_at = {now}
			WHERE name = ? AND runs = ? AND ended_at IS NULL`, outcome, clip(summary, longText), run.Name, run.Runs)
		return err
	}, landed: looksAgain})
}

// Jobs reads what is known of the scheduled jobs, by name.
func (s *Store) Jobs(ctx context.Context) (list []bot.JobRun, err error) {
	err = s.each(ctx, `SELECT `+jobColumns+` FROM job_run j`, nil, func(scan scan) error {
		var run bot.JobRun
		err := scanJob(scan, &run)
		list = append(list, run)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the runs of jobs: %w", err)
	}
	return list, nil
}

// OverdueQueues lists the queues whose batch is RUNNING past its deadline by the database's clock, the longest overdue first.
func (s *Store) OverdueQueues(ctx context.Context) ([]int64, error) {
	list, err := ids(ctx, s, `SELECT queue_id FROM merge_batch WHERE status = ? AND deadline_at < {now} ORDER BY deadline_at, id`, bot.BatchRunning)
	if err != nil {
		return nil, fmt.Errorf("list the queues with an overdue batch: %w", err)
	}
	return list, nil
}
