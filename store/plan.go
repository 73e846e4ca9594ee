package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/batchbot/batchbot/bot"
)

// Waiting summarises a queue's waiting set and its last trials for the planner: without a lock, by the database's clock, and without what was
// admitted at this very instant, which a claim would not take either. Trials come with the end of a batch only, so while one is active
// they stand still.
func (s *Store) Waiting(ctx context.Context, queueID int64) (bot.WaitingSet, error) {
	var waiting bot.WaitingSet
	err := s.each(ctx, `SELECT w.cohort, COUNT(*), MIN(w.created_at), {now} FROM merge_batch_request w
		WHERE w.queue_id = ? AND w.batch_id IS NULL AND w.created_at < {now} GROUP BY w.cohort ORDER BY ABS(w.cohort), w.cohort`,
		[]any{queueID}, func(scan scan) error {
			var c bot.Cohort
			var oldest, now instant
			if err := scan(&c.ID, &c.Size, &oldest, &now); err != nil {
				return err
			}
			if c.ID == 0 {
				waiting.Fresh, waiting.OldestAge = c.Size, now.Sub(oldest.Time)
				return nil
			}
			if c.ID < 0 {
				c.Curated, c.Age = true, now.Sub(oldest.Time)
			}
			waiting.Cohorts = append(waiting.Cohorts, c)
			return nil
		})
	if err == nil {
		waiting.Trials, err = s.trials(ctx, queueID)
	}
	if err != nil {
		return bot.WaitingSet{}, fmt.Errorf("read what waits in queue %d: %w", queueID, err)
	}
	return waiting, nil
}

// trials reads what CI said of a queue's last batches. Only a batch that tested one member, or a curated one, may have rejected whom it
// tested, so only there the members are looked at.
func (s *Store) trials(ctx context.Context, queueID int64) ([]bot.Trial, error) {
	var trials []bot.Trial
	err := s.each(ctx, `SELECT b.id, b.kind, b.cohort, b.tested, b.status, b.code, CASE WHEN b.status = 3 AND (b.tested = 1 OR b.kind = 4)
			THEN (SELECT COUNT(*) FROM merge_batch_member m WHERE m.batch_id = b.id AND m.event = 6) ELSE 0 END
		FROM merge_batch b WHERE b.queue_id = ? ORDER BY b.id DESC LIMIT ?`, []any{queueID, bot.TrialsKept}, func(scan scan) error {
		var b bot.Batch
		var failed int
		if err := scan(&b.ID, &b.Kind, &b.Cohort, &b.Tested, &b.Status, &b.Code, &failed); err != nil {
			return err
		}
		if trial, ok := bot.TrialOf(b, failed); ok {
			trials = append(trials, trial)
		}
		return nil
	})
	slices.Reverse(trials)
	return trials, err
}
