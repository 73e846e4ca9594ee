package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/batchbot/batchbot/bot"
)

// Views are reads for people. They come from several statements outside any transaction, so they need not fit together exactly; whatever
// changes in between arms its own errands, and the view is read again.

// CurrentOperations lists the current operation of every target a merge request was applied to, newest first.
func (s *Store) CurrentOperations(ctx context.Context, repositoryID int64, number int) ([]bot.OperationView, error) {
	var mr bot.MergeRequest
	found, err := findMR(ctx, s, repositoryID, number, &mr)
	if err != nil {
		return nil, fmt.Errorf("read merge request %d of repository %d: %w", number, repositoryID, err)
	}
	if !found {
		return nil, nil
	}
	return s.operationsOf(ctx, mr.ID)
}

// FollowedOperations lists the operations of a repository that are PENDING_APPROVAL, WAITING, BATCHED or FAILED, by merge request.
func (s *Store) FollowedOperations(ctx context.Context, repositoryID int64) ([]bot.Operation, error) {
	ops, err := listOperations(ctx, s, `WHERE o.repository_id = ? AND o.status IN (?, ?, ?, ?) ORDER BY m.number, o.operation_id`, repositoryID,
		bot.OperationPendingApproval, bot.OperationWaiting, bot.OperationBatched, bot.OperationFailed)
	if err != nil {
		return nil, fmt.Errorf("list the operations to follow in repository %d: %w", repositoryID, err)
	}
	return ops, nil
}

// StickyView reads what the status comment of a merge request shows.
func (s *Store) StickyView(ctx context.Context, mergeRequestID int64) (bot.StickyView, error) {
	var view bot.StickyView
	found, err := one(ctx, s, `SELECT `+mrColumns+`, `+repositoryColumns+` FROM merge_request m JOIN repository r ON r.id = m.repository_id WHERE m.id = ?`,
		[]any{mergeRequestID}, append(mrFields(&view.MergeRequest), repositoryFields(&view.Repository)...)...)
	if err != nil || !found {
		return bot.StickyView{}, missing(err, fmt.Sprintf("merge request row %d", mergeRequestID))
	}
	if view.Operations, err = s.operationsOf(ctx, mergeRequestID); err != nil {
		return bot.StickyView{}, err
	}
	set, drafted, err := s.CuratedOf(ctx, mergeRequestID)
	if err != nil {
		return bot.StickyView{}, err
	}
	if drafted {
		view.Curated = &set
	}
	return view, nil
}

// SaveSticky stores the id of the status comment of a merge request.
func (s *Store) SaveSticky(ctx context.Context, mergeRequestID, commentID int64) error {
	return s.write(ctx, job{name: fmt.Sprintf("store the status comment of merge request row %d", mergeRequestID), run: func(tx *tx) error {
		_, err := tx.exec(ctx, `UPDATE merge_request SET sticky_comment_id = ?, version = version + 1, updated_at = {now} WHERE id = ?`, commentID, mergeRequestID)
		return err
	}, landed: looksAgain})
}

// OperationView reads one operation with where it stands.
func (s *Store) OperationView(ctx context.Context, operationID string) (bot.OperationView, error) {
	op, found, err := readOperation(ctx, s, operationID)
	if err != nil || !found {
		return bot.OperationView{}, missing(err, "operation "+operationID)
	}
	return s.standing(ctx, op)
}

// operationsOf lists where the current operation of each of a merge request's bindings stands, newest first.
func (s *Store) operationsOf(ctx context.Context, mergeRequestID int64) ([]bot.OperationView, error) {
	ops, err := listOperations(ctx, s, `JOIN binding b ON b.operation_id = o.operation_id WHERE b.subject_id = ? ORDER BY o.created_at DESC, b.id DESC`, mergeRequestID)
	if err != nil {
		return nil, fmt.Errorf("list the operations of merge request row %d: %w", mergeRequestID, err)
	}
	views := make([]bot.OperationView, 0, len(ops))
	for _, op := range ops {
		view, err := s.standing(ctx, op)
		if err != nil {
			return nil, err
		}
		views = append(views, view)
	}
	return views, nil
}

// standing adds to an operation its queue, its place in the waiting order, its seat on a train and the batch it rides in or rode in last.
func (s *Store) standing(ctx context.Context, op bot.Operation) (bot.OperationView, error) {
	view := bot.OperationView{Operation: op}
	failed := func(err error) (bot.OperationView, error) {
		return bot.OperationView{}, fmt.Errorf("read where operation %s stands: %w", op.ID, err)
	}
	found, err := one(ctx, s, `SELECT `+queueColumns+` FROM queue q WHERE q.id = ?`, []any{op.QueueID}, queueFields(&view.Queue)...)
	if err != nil || !found {
		return failed(missing(err, fmt.Sprintf("queue %d", op.QueueID)))
	}
	if op.Status == bot.OperationWaiting {
		// Suspects are tested before the others, the oldest cohort first. A curated batch takes its turn by the time of its approval.
		err := s.each(ctx, `SELECT COUNT(*) FROM merge_batch_request me JOIN merge_batch_request w ON w.queue_id = me.queue_id AND w.batch_id IS NULL
			WHERE me.id = ? AND me.batch_id IS NULL AND (
				(me.cohort <= 0 AND w.cohort > 0)
				OR (w.cohort > 0 AND w.cohort < me.cohort)
				OR (me.cohort <= 0 AND w.cohort <= 0 AND w.cohort <> me.cohort
					AND (w.created_at < me.created_at OR (w.created_at = me.created_at AND w.cohort < 0 AND (me.cohort = 0 OR w.cohort > me.cohort))))
				OR (w.cohort = me.cohort AND (w.lane < me.lane OR (w.lane = me.lane
					AND (w.created_at < me.created_at OR (w.created_at = me.created_at AND w.id <= me.id))))))`,
			[]any{op.RequestID}, func(scan scan) error { return scan(&view.Position) })
		if err != nil {
			return failed(err)
		}
	}
	if op.Status == bot.OperationPendingApproval {
		seat, seated, err := s.SeatOf(ctx, op.ID)
		if err != nil {
			return failed(err)
		}
		if seated {
			view.Seat = &seat
		}
	}
	batchID := op.BatchID
	if batchID == 0 {
		err := s.each(ctx, `SELECT COALESCE(MAX(batch_id), 0) FROM merge_batch_member WHERE operation_id = ?`, []any{op.ID},
			func(scan scan) error { return scan(&batchID) })
		if err != nil {
			return failed(err)
		}
	}
	if batchID == 0 {
		return view, nil
	}
	batch, found, err := readBatch(ctx, s, `b.id = ?`, batchID)
	if err != nil || !found {
		return failed(missing(err, fmt.Sprintf("batch %d", batchID)))
	}
	view.Batch = &batch
	return view, nil
}

// HistoryEntry reads one row of binding_history with its operation, and the seat that has or had, as they are now.
func (s *Store) HistoryEntry(ctx context.Context, id int64) (bot.HistoryEntry, error) {
	var e bot.HistoryEntry
	var operationID string
	found, err := one(ctx, s, `SELECT id, operation_id, COALESCE(from_status, 0), to_status, reason, detail, head_sha, batch_id FROM binding_history WHERE id = ?`,
		[]any{id}, &e.ID, &operationID, &e.From, &e.To, &e.Reason, &e.Detail, &e.HeadSHA, &e.BatchID)
	if err == nil && found {
		e.Operation, found, err = readOperation(ctx, s, operationID)
	}
	if err != nil || !found {
		return bot.HistoryEntry{}, missing(err, fmt.Sprintf("history entry %d", id))
	}
	failed := func(err error) (bot.HistoryEntry, error) {
		return bot.HistoryEntry{}, fmt.Errorf("read history entry %d: %w", id, err)
	}
	seat, seated, err := s.LastSeat(ctx, operationID)
	if err != nil {
		return failed(err)
	}
	if !seated {
		return e, nil
	}
	if found, err = one(ctx, s, `SELECT `+queueColumns+` FROM queue q WHERE q.id = ?`, []any{e.Operation.QueueID}, queueFields(&e.Queue)...); err != nil || !found {
		return failed(missing(err, fmt.Sprintf("queue %d", e.Operation.QueueID)))
	}
	e.Seat = &bot.SeatView{Seat: seat}
	if e.Seat.Train, found, err = readTrain(ctx, s, seat.TrainID); err != nil || !found {
		return failed(missing(err, fmt.Sprintf("train %d", seat.TrainID)))
	}
	return e, nil
}

// LastSeat reads the live seat of an operation, or else the last one it had: of several trains it was carried over. ok is false when it has none, or the
// merge request joined that train again with another operation.
func (s *Store) LastSeat(ctx context.Context, operationID string) (seat bot.Seat, ok bool, err error) {
	seats, err := listSeats(ctx, s, `s.operation_id = ? ORDER BY s.train_id DESC LIMIT 1`, operationID)
	if err == nil && len(seats) > 0 {
		seat = seats[0].Seat
		seat.Position, err = placeInLine(ctx, s, seat)
	}
	if err != nil {
		return bot.Seat{}, false, fmt.Errorf("read the seat of operation %s: %w", operationID, err)
	}
	return seat, len(seats) > 0, nil
}

// BatchView reads a batch with its queue and everybody who ever was a member, in batch order, with what became of them.
func (s *Store) BatchView(ctx context.Context, batchID int64) (bot.BatchView, error) {
	failed := func(err error) error { return fmt.Errorf("read batch %d: %w", batchID, err) }
	batch, found, err := readBatch(ctx, s, `b.id = ?`, batchID)
	if err != nil || !found {
		return bot.BatchView{}, failed(missing(err, "its row"))
	}
	view := bot.BatchView{Batch: batch}
	if view.Queue, view.Repository, err = s.ReadQueue(ctx, batch.QueueID); err != nil {
		return bot.BatchView{}, failed(err)
	}
	var order []string
	members := make(map[string]*bot.BatchMember)
	// Of each member the first entry is its claim, and the last says what became of it.
	err = s.each(ctx, `SELECT operation_id, event, head_sha, reason, detail FROM merge_batch_member WHERE batch_id = ? AND event <> ? ORDER BY id`,
		[]any{batchID, bot.MemberHead}, func(scan scan) error {
			var id string
			var m bot.BatchMember
			if err := scan(&id, &m.Event, &m.HeadSHA, &m.Reason, &m.Detail); err != nil {
				return err
			}
			if known, ok := members[id]; ok {
				known.Event, known.Reason, known.Detail = m.Event, m.Reason, m.Detail
				return nil
			}
			order, members[id] = append(order, id), &m
			return nil
		})
	if err != nil {
		return bot.BatchView{}, failed(err)
	}
	for chunk := range slices.Chunk(order, chunkSize) {
		ops, err := listOperations(ctx, s, `WHERE o.operation_id IN (`+list(len(chunk))+`)`, anys(chunk)...)
		if err != nil {
			return bot.BatchView{}, failed(err)
		}
		for _, op := range ops {
			members[op.ID].Operation = op
		}
	}
	for _, id := range order {
		view.Members = append(view.Members, *members[id])
	}
	return view, nil
}
