package store

import (
	"context"
	"fmt"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// membersOf reads who rides in a batch now, in batch order.
func membersOf(ctx context.Context, from source, batch bot.Batch) ([]bot.Operation, error) {
	var members []bot.Operation
	err := from.each(ctx, `SELECT `+operationColumns+`
		FROM merge_batch_request w
		JOIN merge_batch_member c ON c.batch_id = w.batch_id AND c.operation_id = w.operation_id AND c.event = 1 AND c.build = 0
		JOIN operation o ON o.operation_id = w.operation_id
		JOIN merge_request m ON m.id = o.merge_request_id
		JOIN queue q ON q.id = o.queue_id
		WHERE w.queue_id = ? AND w.batch_id = ? ORDER BY c.position`, []any{batch.QueueID, batch.ID}, func(scan scan) error {
		var op bot.Operation
		if err := scanOperation(scan, &op); err != nil {
			return err
		}
		members = append(members, op)
		return nil
	})
	return members, err
}

// QueuesWithWork lists the queues that have an active batch or something waiting, in order of their ids.
func (s *Store) QueuesWithWork(ctx context.Context) ([]int64, error) {
	ids, err := ids(ctx, s, `SELECT q.id FROM queue q
		WHERE EXISTS (SELECT 1 FROM merge_batch b WHERE b.active_slot = q.id)
		   OR EXISTS (SELECT 1 FROM merge_batch_request w WHERE w.queue_id = q.id AND w.batch_id IS NULL)
		ORDER BY q.id`)
	if err != nil {
		return nil, fmt.Errorf("list the queues with work: %w", err)
	}
	return ids, nil
}

// ids reads one column of ids.
func ids(ctx context.Context, from source, query string, args ...any) ([]int64, error) {
	var ids []int64
	err := from.each(ctx, query, args, func(scan scan) error {
		var id int64
		if err := scan(&id); err != nil {
			return err
		}
		ids = append(ids, id)
		return nil
	})
	return ids, err
}

// ReadQueue reads a queue with its repository.
func (s *Store) ReadQueue(ctx context.Context, queueID int64) (bot.Queue, bot.Repository, error) {
	var queue bot.Queue
	var repo bot.Repository
	found, err := one(ctx, s, `SELECT `+queueColumns+`, `+repositoryColumns+` FROM queue q JOIN repository r ON r.id = q.repository_id WHERE q.id = ?`,
		[]any{queueID}, append(queueFields(&queue), repositoryFields(&repo)...)...)
	if err != nil || !found {
		return bot.Queue{}, bot.Repository{}, missing(err, fmt.Sprintf("queue %d", queueID))
	}
	return queue, repo, nil
}

// ActiveBatch reads the batch in the queue's slot with its members in batch order; ok is false when the slot is free. A batch that
// changes between the two reads is caught by the guard of whatever is decided on them.
func (s *Store) ActiveBatch(ctx context.Context, queueID int64) (batch bot.Batch, members []bot.Operation, ok bool, err error) {
	batch, ok, err = readBatch(ctx, s, `b.active_slot = ?`, queueID)
	if err == nil && ok {
		members, err = membersOf(ctx, s, batch)
	}
	if err != nil {
		return bot.Batch{}, nil, false, fmt.Errorf("read the active batch of queue %d: %w", queueID, err)
	}
	return batch, members, ok, nil
}

// RecordedHeads lists every head ever recorded for a batch, oldest first.
func (s *Store) RecordedHeads(ctx context.Context, batchID int64) ([]string, error) {
	var heads []string
	err := s.each(ctx, `SELECT head_sha FROM merge_batch_member WHERE batch_id = ? AND operation_id = '' AND event = ? ORDER BY build`,
		[]any{batchID, bot.MemberHead}, func(scan scan) error {
			var head string
			if err := scan(&head); err != nil {
				return err
			}
			heads = append(heads, head)
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("read the heads recorded for batch %d: %w", batchID, err)
	}
	return heads, nil
}

// QueuesWatching lists the queues of a repository with an active batch whose head, or one of whose members' pinned heads, is sha. An empty sha
// lists all queues of the repository with an active batch.
func (s *Store) QueuesWatching(ctx context.Context, repositoryID int64, sha string) ([]int64, error) {
	queues, err := ids(ctx, s, `SELECT q.id FROM queue q JOIN merge_batch b ON b.active_slot = q.id
		WHERE q.repository_id = ? AND (? = '' OR b.head_sha = ? OR EXISTS (
			SELECT 1 FROM merge_batch_request w JOIN operation o ON o.operation_id = w.operation_id
			WHERE w.queue_id = q.id AND w.batch_id = b.id AND o.head_sha = ?))
		ORDER BY q.id`, repositoryID, sha, sha, sha)
	if err != nil {
		return nil, fmt.Errorf("list the queues of repository %d that watch %s: %w", repositoryID, bot.ShortSHA(sha), err)
	}
	return queues, nil
}

// BatchMR finds the batch whose aggregated merge request this is; ok is false when it is none of ours.
func (s *Store) BatchMR(ctx context.Context, repositoryID int64, number int) (batch bot.Batch, ok bool, err error) {
	if number <= 0 {
		return bot.Batch{}, false, nil // 0 is how a batch says that it has none
	}
	batch, ok, err = readBatch(ctx, s, `b.queue_id IN (SELECT id FROM queue WHERE repository_id = ?) AND b.mr_number = ? ORDER BY b.id DESC LIMIT 1`,
		repositoryID, number)
	if err != nil {
		return bot.Batch{}, false, fmt.Errorf("look up the batch of merge request %d of repository %d: %w", number, repositoryID, err)
	}
	return batch, ok, nil
}

// ParkQueue parks an open queue with reason and remedy. A queue that is parked or paused already stays as it is.
func (s *Store) ParkQueue(ctx context.Context, queueID int64, reason string) error {
	return s.write(ctx, job{name: fmt.Sprintf("park queue %d", queueID), run: func(tx *tx) error {
		parked, err := tx.parkQueue(ctx, queueID, reason)
		if err != nil || !parked {
			return err
		}
		return tx.tellQueue(ctx, queueID)
	}, landed: looksAgain})
}

// parkQueue writes the queue's row. What is to be said when it parked is said by tellQueue, at the end: the outbox comes last in the lock order.
func (t *tx) parkQueue(ctx context.Context, queueID int64, reason string) (parked bool, err error) {
	n, err := t.exec(ctx, `UPDATE queue SET status = ?, reason = ?, version = version + 1, updated_at = {now} WHERE id = ? AND status = ?`,
		bot.QueueParked, clip(reason, longText), queueID, bot.QueueOpen)
	return n == 1, err
}

// tellQueue says the queue's new state to those who wait in it or ride, the first few hundred of them.
func (t *tx) tellQueue(ctx context.Context, queueID int64) error {
	var errands []errand
	err := t.each(ctx, `SELECT m.repository_id, m.id, m.number FROM merge_batch_request w
		JOIN operation o ON o.operation_id = w.operation_id JOIN merge_request m ON m.id = o.merge_request_id
		WHERE w.queue_id = ? ORDER BY w.batch_id, w.lane, w.created_at, w.id LIMIT ?`, []any{queueID, chunkSize},
		func(scan scan) error {
			var repositoryID, id int64
			var number int
			err := scan(&repositoryID, &id, &number)
			errands = append(errands, stickyErrand(repositoryID, id, number))
			return err
		})
	if err != nil {
		return err
	}
	return t.arm(ctx, errands...)
}

// ObserveChecks notes the fingerprint of the checks seen on the batch head and returns for how long it has not changed. It is no state
// of the batch: nobody's guard notices it.
func (s *Store) ObserveChecks(ctx context.Context, batchID int64, fingerprint string) (time.Duration, error) {
	name := fmt.Sprintf("note the checks of batch %d", batchID)
	look := func(from source) (seen string, quiet time.Duration, err error) {
		var changed, now instant
		found, err := one(ctx, from, `SELECT ci_fingerprint, ci_changed_at, {now} FROM merge_batch WHERE id = ?`, []any{batchID}, &seen, &changed, &now)
		if err != nil || !found {
			return "", 0, missing(err, fmt.Sprintf("batch %d", batchID))
		}
		return seen, now.Sub(changed.Time), nil
	}
	seen, quiet, err := look(s)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	if seen == fingerprint {
		return quiet, nil
	}
	err = s.write(ctx, job{name: name, run: func(tx *tx) error {
		// The guard keeps the time of whoever saw the same checks first.
		_, err := tx.exec(ctx, `UPDATE merge_batch SET ci_fingerprint = ?, ci_changed_at = {now} WHERE id = ? AND ci_fingerprint <> ?`,
			fingerprint, batchID, fingerprint)
		if err == nil {
			_, quiet, err = look(tx)
		}
		return err
	}, landed: looksAgain})
	return quiet, err
}

// guardBatch is the first write of everything that happens inside a batch: of two writers that read the same row exactly one gets past it.
// set names the columns to write, with their arguments.
func (t *tx) guardBatch(ctx context.Context, g bot.BatchGuard, set string, args ...any) (ok bool, err error) {
	args = append(args, g.BatchID, g.Status, g.Phase, g.Version)
	n, err := t.exec(ctx, `UPDATE merge_batch SET `+set+`, version = version + 1, updated_at = {now}
		WHERE id = ? AND status = ? AND phase = ? AND version = ?`, args...)
	return n == 1, err
}

// ChangeBatch writes phase, code and message of an active batch. Its members' status comments are said anew when something a person reads there
// changed.
func (s *Store) ChangeBatch(ctx context.Context, guard bot.BatchGuard, change bot.BatchChange) (batch bot.Batch, ok bool, err error) {
	name := fmt.Sprintf("change batch %d", guard.BatchID)
	if !guard.Status.Active() || (change.Status != 0 && !change.Status.Active()) {
		return bot.Batch{}, false, fmt.Errorf("%s from %s to %s: only Settle ends a batch, and nothing changes one that ended", name, guard.Status, change.Status)
	}
	set := `code = ?, message = ?, refusals = ?, ci_conclusion = ?`
	args := []any{change.Code, clip(change.Message, longText), change.Refusals, clip(change.CIConclusion, 16)}
	if change.Status != 0 {
		if change.Status == bot.BatchBlocked && guard.Status != bot.BatchBlocked {
			set += `, blocked_at = {now}`
		}
		set, args = set+`, status = ?`, append(args, change.Status)
	}
	if change.Phase != 0 {
		set, args = set+`, phase = ?`, append(args, change.Phase)
		if change.Phase != guard.Phase {
			set += `, phase_at = {now}`
		}
	}
	if change.MRNumber != 0 {
		set, args = set+`, mr_number = ?`, append(args, change.MRNumber)
	}
	if change.ExtendBy > 0 {
		set += `, deadline_at = CASE WHEN deadline_at < {later} THEN {later} ELSE deadline_at END`
		args = append(args, micros(change.ExtendBy), micros(change.ExtendBy))
	}
	if change.Restored {
		set += `, restores = restores + 1`
	}
	err = s.write(ctx, job{name: name, point: changePoint(change), run: func(tx *tx) error {
		before, _, err := readBatch(ctx, tx, `b.id = ?`, guard.BatchID)
		if err != nil {
			return err
		}
		if ok, err = tx.guardBatch(ctx, guard, set, args...); err != nil {
			return err
		}
		if !ok {
			return errRollback
		}
		if batch, _, err = readBatch(ctx, tx, `b.id = ?`, guard.BatchID); err != nil {
			return err
		}
		if change.By != "" {
			if err := tx.audit(ctx, auditEntry{
				dedupe: fmt.Sprintf("batch:%d:v%d", batch.ID, batch.Version), actor: change.By, action: "change batch", queueID: batch.QueueID, batchID: batch.ID,
				source: change.Source, detail: fmt.Sprintf("%s → %s %s %s", before.Status, batch.Status, batch.Code, batch.Message),
			}); err != nil {
				return err
			}
		}
		if batch.Status == bot.BatchBlocked && before.Status != bot.BatchBlocked && batch.MRNumber != 0 {
			if err := tx.tellBlocked(ctx, batch); err != nil {
				return err
			}
		}
		if batch.Status == before.Status && batch.Code == before.Code && batch.Message == before.Message && batch.MRNumber == before.MRNumber {
			return nil
		}
		// What a batch waits for is said on its MR, where people look for it.
		return tx.tellMembers(ctx, batch, batch.Status != before.Status || batch.Code != before.Code || batch.Message != before.Message)
	}, landed: func(ctx context.Context) (bool, error) {
		now, found, err := readBatch(ctx, s, `b.id = ?`, guard.BatchID)
		ok = found && now.Version == guard.Version+1 && now.Phase == batch.Phase && now.Code == batch.Code && now.MRNumber == batch.MRNumber
		return ok, err
	}})
	if err != nil || !ok {
		return bot.Batch{}, false, err
	}
	return batch, true, nil
}

// tellMembers says anew what a batch's members show, and on the batch MR what the batch shows when report is set.
func (t *tx) tellMembers(ctx context.Context, batch bot.Batch, report bool) error {
	members, err := membersOf(ctx, t, batch)
	if err != nil {
		return err
	}
	var errands []errand
	for _, op := range members {
		errands = append(errands, stickyErrand(op.RepositoryID, op.MergeRequestID, op.Number))
	}
	if report && batch.MRNumber != 0 {
		repositoryID, err := repositoryOf(ctx, t, batch.QueueID)
		if err != nil {
			return err
		}
		errands = append(errands, batchErrand(bot.ErrandBatchReport, batch, repositoryID))
	}
	return t.arm(ctx, errands...)
}

// tellBlocked says on the batch MR that a person is needed, in a comment of its own each time.
func (t *tx) tellBlocked(ctx context.Context, batch bot.Batch) error {
	repositoryID, err := repositoryOf(ctx, t, batch.QueueID)
	if err != nil {
		return err
	}
	e := batchErrand(bot.ErrandBatchNotice, batch, repositoryID)
	e.target = fmt.Sprintf("%d/%d", batch.ID, batch.Version)
	return t.arm(ctx, e)
}

func repositoryOf(ctx context.Context, from source, queueID int64) (id int64, err error) {
	found, err := one(ctx, from, `SELECT repository_id FROM queue WHERE id = ?`, []any{queueID}, &id)
	if err != nil || !found {
		return 0, missing(err, fmt.Sprintf("queue %d", queueID))
	}
	return id, nil
}
