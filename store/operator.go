package store

import (
	"context"
	"fmt"

	"github.com/batchbot/batchbot/bot"
)

// ListQueues lists every queue with what waits in it and its active batch, ordered by host, path and target.
func (s *Store) ListQueues(ctx context.Context) ([]bot.QueueOverview, error) {
	var list []bot.QueueOverview
	err := s.each(ctx, `SELECT `+queueColumns+`, `+repositoryColumns+`,
		(SELECT COUNT(*) FROM merge_batch_request w WHERE w.queue_id = q.id AND w.batch_id IS NULL),
		(SELECT COUNT(*) FROM operation o WHERE o.repository_id = q.repository_id AND o.status = ? AND o.queue_id = q.id)
		FROM queue q JOIN repository r ON r.id = q.repository_id ORDER BY r.host, r.path, q.target_branch`,
		[]any{bot.OperationPendingApproval}, func(scan scan) error {
			var v bot.QueueOverview
			fields := append(queueFields(&v.Queue), repositoryFields(&v.Repository)...)
			err := scan(append(fields, &v.Waiting, &v.PendingApproval)...)
			list = append(list, v)
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("list the queues: %w", err)
	}
	for i := range list {
		batch, found, err := readBatch(ctx, s, `b.active_slot = ?`, list[i].Queue.ID)
		if err != nil {
			return nil, fmt.Errorf("read the active batch of queue %d: %w", list[i].Queue.ID, err)
		}
		if found {
			list[i].Batch = &batch
		}
	}
	return list, nil
}

// PauseQueue keeps a queue from claiming and landing until somebody resumes it; a landing under way ends. changed is false when it is
// paused already. Pausing a parked queue keeps it from being opened by what parked it.
func (s *Store) PauseQueue(ctx context.Context, queueID int64, by, reason string) (changed bool, err error) {
	err = s.write(ctx, job{name: fmt.Sprintf("pause queue %d", queueID), run: func(tx *tx) error {
		n, err := tx.exec(ctx, `UPDATE queue SET status = ?, reason = ?, version = version + 1, updated_at = {now} WHERE id = ? AND status <> ?`,
			bot.QueuePaused, clip(reason, longText), queueID, bot.QueuePaused)
		changed = n == 1
		if err != nil || !changed {
			return err
		}
		if err := tx.auditQueue(ctx, queueID, by, "pause queue", reason); err != nil {
			return err
		}
		return tx.tellQueue(ctx, queueID)
	}, landed: looksAgain})
	return changed, err
}

// ResumeQueue opens a paused or parked queue. Its deadline stood still meanwhile, so the active batch gets its whole time again, or keeps
// the longer one it had to wait for a person.
// changed is false when the queue is open already.
func (s *Store) ResumeQueue(ctx context.Context, queueID int64, by string) (changed bool, err error) {
	queue, _, err := s.ReadQueue(ctx, queueID)
	if err != nil {
		return false, err
	}
	err = s.write(ctx, job{name: fmt.Sprintf("resume queue %d", queueID), run: func(tx *tx) error {
		n, err := tx.exec(ctx, `UPDATE queue SET status = ?, reason = '', version = version + 1, updated_at = {now} WHERE id = ? AND status <> ?`,
			bot.QueueOpen, queueID, bot.QueueOpen)
		changed = n == 1
		if err != nil || !changed {
			return err
		}
		batch, found, err := readBatch(ctx, tx, `b.active_slot = ?`, queueID)
		if err != nil {
			return err
		}
		if found && batch.Status == bot.BatchRunning {
			// A batch that settles at this moment has no deadline any more: nothing to do then.
			if _, err := tx.exec(ctx, `UPDATE merge_batch SET deadline_at = CASE WHEN deadline_at < {later} THEN {later} ELSE deadline_at END,
				version = version + 1, updated_at = {now} WHERE id = ? AND status = ? AND version = ?`,
				micros(queue.Settings.Timeout), micros(queue.Settings.Timeout), batch.ID, bot.BatchRunning, batch.Version); err != nil {
				return err
			}
		}
		if err := tx.auditQueue(ctx, queueID, by, "resume queue", queue.Reason); err != nil {
			return err
		}
		return tx.tellQueue(ctx, queueID)
	}, landed: looksAgain})
	return changed, err
}

// auditQueue records who paused or resumed a queue, once per version of its row.
func (t *tx) auditQueue(ctx context.Context, queueID int64, by, action, detail string) error {
	var version int64
	if _, err := one(ctx, t, `SELECT version FROM queue WHERE id = ?`, []any{queueID}, &version); err != nil {
		return err
	}
	return t.audit(ctx, auditEntry{
		dedupe: fmt.Sprintf("queue:%d:%d", queueID, version), actor: by, action: action, queueID: queueID, source: "operator", detail: detail,
	})
}

// ListBatches lists batches, newest first.
func (s *Store) ListBatches(ctx context.Context, filter bot.BatchFilter) ([]bot.BatchOverview, error) {
	where, args := `WHERE 1 = 1`, []any(nil)
	if filter.QueueID != 0 {
		where, args = where+` AND b.queue_id = ?`, append(args, filter.QueueID)
	}
	if filter.Active {
		where += ` AND b.active_slot IS NOT NULL`
	}
	var list []bot.BatchOverview
	err := s.each(ctx, `SELECT `+batchColumns+`, (SELECT COUNT(*) FROM merge_batch_request w WHERE w.queue_id = b.queue_id AND w.batch_id = b.id)
		FROM merge_batch b `+where+` ORDER BY b.id DESC LIMIT ?`, append(args, max(filter.Limit, 1)), func(scan scan) error {
		var v bot.BatchOverview
		err := scanBatch(scan, &v.Batch, &v.Riding)
		list = append(list, v)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list batches: %w", err)
	}
	for i := range list {
		if list[i].Queue, list[i].Repository, err = s.ReadQueue(ctx, list[i].Batch.QueueID); err != nil {
			return nil, fmt.Errorf("list batches: %w", err)
		}
	}
	return list, nil
}
