package store

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// RemindingQueues lists the queues of active repositories whose settings have people reminded, with the database's clock.
func (s *Store) RemindingQueues(ctx context.Context) (queues []bot.Queue, now time.Time, err error) {
	var clock instant
	err = s.each(ctx, `SELECT {now}, `+queueColumns+` FROM queue q JOIN repository r ON r.id = q.repository_id WHERE r.active = 1 ORDER BY q.id`, nil, func(scan scan) error {
		var q bot.Queue
		if err := scan(append([]any{&clock}, queueFields(&q)...)...); err != nil {
			return err
		}
		if p := q.Settings.Reminders; p.Approvers > 0 || p.Owners > 0 {
			queues = append(queues, q)
		}
		return nil
	})
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("list the queues that remind: %w", err)
	}
	return queues, clock.Time, nil
}

// entered joins to an operation o the row h of its history by which it came into the state it is in: not one that only changed its pin, its reason or its
// seat.
const entered = ` JOIN binding_history h ON h.id = (SELECT MAX(e.id) FROM binding_history e
	WHERE e.operation_id = o.operation_id AND e.to_status = o.status AND (e.from_status IS NULL OR e.from_status <> e.to_status))`

// Remindables lists up to limit operations of a queue that have been in a state for so long, by the database's clock, and no longer than
// bot.ReminderLimit; those whose id comes behind after, in the order of their ids.
func (s *Store) Remindables(ctx context.Context, queue bot.Queue, state bot.RemindableState, age time.Duration, after string, limit int) ([]bot.Remindable, error) {
	const columns = `SELECT {now}, o.operation_id, o.repository_id, m.number, `
	const window = ` > {ago} AND o.operation_id > ? ORDER BY o.operation_id LIMIT ?`
	args := []any{micros(age), micros(bot.ReminderLimit), after, limit}
	var query string
	switch state {
	case bot.RemindPending:
		query = columns + `h.id, h.created_at FROM operation o JOIN merge_request m ON m.id = o.merge_request_id` + entered + `
			WHERE o.repository_id = ? AND o.status = ? AND o.queue_id = ? AND o.reason <> ?
			AND NOT EXISTS (SELECT 1 FROM train_seat t WHERE t.live_operation = o.operation_id) AND h.created_at <= {ago} AND h.created_at` + window
		args = append([]any{queue.RepositoryID, bot.OperationPendingApproval, queue.ID, bot.ReasonDrafted}, args...)
	case bot.RemindFailed:
		query = columns + `h.id, h.created_at FROM operation o JOIN merge_request m ON m.id = o.merge_request_id` + entered + `
			WHERE o.repository_id = ? AND o.status = ? AND o.queue_id = ? AND h.created_at <= {ago} AND h.created_at` + window
		args = append([]any{queue.RepositoryID, bot.OperationFailed, queue.ID}, args...)
	case bot.RemindBlocked:
		query = columns + `b.id, b.blocked_at FROM merge_batch b JOIN merge_batch_request r ON r.queue_id = b.queue_id AND r.batch_id = b.id
			JOIN operation o ON o.operation_id = r.operation_id JOIN merge_request m ON m.id = o.merge_request_id
			WHERE b.active_slot = ? AND b.status = ? AND b.blocked_at <= {ago} AND b.blocked_at` + window
		args = append([]any{queue.ID, bot.BatchBlocked}, args...)
	default:
		return nil, fmt.Errorf("%d is no state that anybody is reminded of", state)
	}
	var list []bot.Remindable
	err := s.each(ctx, query, args, func(scan scan) error {
		var r bot.Remindable
		var id int64
		var now, since instant
		if err := scan(&now, &r.OperationID, &r.RepositoryID, &r.Number, &id, &since); err != nil {
			return err
		}
		r.Entry, r.For = entry(state, id, since.Time), now.Sub(since.Time)
		list = append(list, r)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list who lets others wait in queue %d: %w", queue.ID, err)
	}
	return list, nil
}

// entry names how an operation came into a state: the row of its history, or its batch and the moment that was blocked, as a batch may be so again.
func entry(state bot.RemindableState, id int64, since time.Time) string {
	if state == bot.RemindBlocked {
		return fmt.Sprintf("batch%d.%d", id, since.UnixMicro())
	}
	return strconv.FormatInt(id, 10)
}

// WantReminders has reminders said that nobody has had said before and returns how many. UNIQUE (kind, target) is the guard: of several instances
// that find one due at once, one inserts it.
func (s *Store) WantReminders(ctx context.Context, reminders []bot.Reminder) (said int, err error) {
	for start := 0; start < len(reminders); start += chunkSize {
		n, err := s.wantReminders(ctx, reminders[start:min(start+chunkSize, len(reminders))])
		if err != nil {
			return said, err
		}
		said += n
	}
	return said, nil
}

func (s *Store) wantReminders(ctx context.Context, reminders []bot.Reminder) (said int, err error) {
	targets := make([]string, len(reminders))
	for i, r := range reminders {
		targets[i] = r.Target()
	}
	known := make(map[string]bool)
	err = s.each(ctx, `SELECT target FROM outbox WHERE kind = ? AND target IN (`+list(len(targets))+`)`, append([]any{bot.ErrandReminder}, anys(targets)...),
		func(scan scan) error {
			var target string
			err := scan(&target)
			known[target] = true
			return err
		})
	if err != nil {
		return 0, fmt.Errorf("look for reminders said before: %w", err)
	}
	if len(known) == len(reminders) {
		return 0, nil
	}
	err = s.write(ctx, job{name: "have reminders said", run: func(tx *tx) error {
		said = 0
		for i, r := range reminders {
			if known[targets[i]] {
				continue
			}
			row, err := errand{kind: bot.ErrandReminder, target: targets[i], repositoryID: r.RepositoryID, number: r.Number}.row()
			if err != nil {
				return tx.fail(err)
			}
			// A duplicate is an answer: somebody else had it said, just now.
			_, fresh, err := tx.insert(ctx, &keyOutbox, insertErrand+errandRow, row...)
			if err != nil {
				return err
			}
			if fresh {
				said++
			}
		}
		return nil
	}, landed: looksAgain})
	return said, err
}

// ReminderView reads what a reminder of an operation shows.
func (s *Store) ReminderView(ctx context.Context, operationID string) (view bot.ReminderView, err error) {
	failed := func(err error) (bot.ReminderView, error) {
		return bot.ReminderView{}, fmt.Errorf("read what operation %s is reminded of: %w", operationID, err)
	}
	// The way into the state first: one that is left meanwhile does not fit what is read after it.
	var status bot.OperationStatus
	var id int64
	var now, since instant
	found, err := one(ctx, s, `SELECT {now}, o.status, h.id, h.created_at FROM operation o`+entered+` WHERE o.operation_id = ?`, []any{operationID}, &now, &status, &id, &since)
	if err != nil || !found {
		return failed(missing(err, "its history"))
	}
	if view.Operation, err = s.OperationView(ctx, operationID); err != nil {
		return failed(err)
	}
	view.Now = now.Time
	op := view.Operation.Operation
	switch {
	case op.Status != status:
		return view, nil
	case status == bot.OperationPendingApproval && op.Reason != bot.ReasonDrafted && view.Operation.Seat == nil:
		view.State = bot.RemindPending
	case status == bot.OperationFailed:
		view.State = bot.RemindFailed
	case status == bot.OperationBatched:
		found, err := one(ctx, s, `SELECT id, blocked_at FROM merge_batch WHERE id = ? AND status = ?`, []any{op.BatchID, bot.BatchBlocked}, &id, &since)
		if err != nil {
			return failed(err)
		}
		if !found || since.IsZero() {
			return view, nil
		}
		view.State = bot.RemindBlocked
	default:
		return view, nil
	}
	view.Entry, view.For = entry(view.State, id, since.Time), now.Sub(since.Time)
	return view, nil
}
