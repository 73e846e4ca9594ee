package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/batchbot/batchbot/bot"
)

// CurrentOperations lists the current operation of every target a merge request was applied to, newest first.
func (s *Store) CurrentOperations(ctx context.Context, repositoryID int64, number int) (views []bot.OperationView, err error) {
	err = s.read(ctx, fmt.Sprint("read the operations of merge request ", number), func(t *tables, now int64) error {
		mr := t.findMR(repositoryID, number)
		if mr == nil {
			return nil
		}
		var err error
		views, err = t.operationsOf(mr.id, now)
		return err
	})
	return views, err
}

// FollowedOperations lists the operations of a repository that are PENDING_APPROVAL, WAITING, BATCHED or FAILED, by merge request.
func (s *Store) FollowedOperations(ctx context.Context, repositoryID int64) (ops []bot.Operation, err error) {
	err = s.read(ctx, "list the operations to follow", func(t *tables, _ int64) error {
		for _, o := range t.operations.rows {
			if op, ok := t.joined(o); ok && op.RepositoryID == repositoryID && op.Status.Followed() {
				ops = append(ops, op)
			}
		}
		slices.SortFunc(ops, func(a, b bot.Operation) int { return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.ID, b.ID)) })
		return nil
	})
	return ops, err
}

// StickyView reads what the status comment of a merge request shows.
func (s *Store) StickyView(ctx context.Context, mergeRequestID int64) (view bot.StickyView, err error) {
	err = s.read(ctx, fmt.Sprint("read what the status comment shows of merge request row ", mergeRequestID), func(t *tables, now int64) error {
		mr := t.mr(mergeRequestID)
		if mr == nil {
			return missing("merge request row %d", mergeRequestID)
		}
		repo := t.repository(mr.repositoryID)
		if repo == nil {
			return missing("merge request row %d", mergeRequestID)
		}
		view.MergeRequest, view.Repository = mr.value(), repo.value()
		var err error
		view.Operations, err = t.operationsOf(mr.id, now)
		return err
	})
	return view, err
}

// SaveSticky stores the id of the status comment of a merge request.
func (s *Store) SaveSticky(ctx context.Context, mergeRequestID, commentID int64) error {
	return s.write(ctx, fmt.Sprint("store the status comment of merge request row ", mergeRequestID), func(t *tx) error {
		if mr := t.mr(mergeRequestID); mr != nil {
			change(t, mr)
			mr.sticky, mr.updated = commentID, t.now
			mr.version++
		}
		return nil
	})
}

// OperationView reads one operation with where it stands.
func (s *Store) OperationView(ctx context.Context, operationID string) (view bot.OperationView, err error) {
	err = s.read(ctx, "read where operation "+operationID+" stands", func(t *tables, now int64) error {
		op, found := t.operation(operationID)
		if !found {
			return missing("operation %s", operationID)
		}
		var err error
		view, err = t.standing(op, now)
		return err
	})
	return view, err
}

// operationsOf lists where the current operation of each of a merge request's bindings stands, newest first.
func (t *tables) operationsOf(mrID, now int64) ([]bot.OperationView, error) {
	bindings := t.bindings.all(func(b *bindingRow) bool { return b.subjectID == mrID })
	views := make([]bot.OperationView, 0, len(bindings))
	places := make(map[string]int64, len(bindings))
	for _, b := range bindings {
		op, found := t.operation(b.operationID)
		if !found {
			continue
		}
		view, err := t.standing(op, now)
		if err != nil {
			return nil, err
		}
		views, places[op.ID] = append(views, view), b.id
	}
	slices.SortFunc(views, func(a, b bot.OperationView) int {
		return cmp.Or(b.Operation.CreatedAt.Compare(a.Operation.CreatedAt), cmp.Compare(places[b.Operation.ID], places[a.Operation.ID]))
	})
	return views, nil
}

// standing adds to an operation its queue, its place in the waiting order and the batch it rides in or rode in last.
func (t *tables) standing(op bot.Operation, now int64) (bot.OperationView, error) {
	view := bot.OperationView{Operation: op}
	queue := t.queue(op.QueueID)
	if queue == nil {
		return view, missing("queue %d", op.QueueID)
	}
	view.Queue = queue.value()
	if me := t.requestOf(op.ID); op.Status == bot.OperationWaiting && me != nil && me.batchID == 0 {
		for _, w := range t.requests.rows {
			if w.queueID != me.queueID || w.batchID != 0 {
				continue
			}
			// Suspects are tested before the others, the oldest cohort first.
			if (me.cohort == 0 && w.cohort > 0) || (w.cohort > 0 && w.cohort < me.cohort) || (w.cohort == me.cohort && inOrder(w, me) <= 0) {
				view.Position++
			}
		}
	}
	batchID := op.BatchID
	if batchID == 0 {
		for _, m := range t.members.rows {
			if m.operationID == op.ID {
				batchID = max(batchID, m.batchID)
			}
		}
	}
	if batchID == 0 {
		return view, nil
	}
	b := t.batch(batchID)
	if b == nil {
		return view, missing("batch %d", batchID)
	}
	batch := b.value(now)
	view.Batch = &batch
	return view, nil
}

// HistoryEntry reads one row of binding_history with its operation as it is now.
func (s *Store) HistoryEntry(ctx context.Context, id int64) (entry bot.HistoryEntry, err error) {
	err = s.read(ctx, fmt.Sprint("read history entry ", id), func(t *tables, _ int64) error {
		h := t.history.first(func(h *historyRow) bool { return h.id == id })
		if h == nil {
			return missing("history entry %d", id)
		}
		op, found := t.operation(h.operationID)
		if !found {
			return missing("operation %s", h.operationID)
		}
		entry = bot.HistoryEntry{
			ID: h.id, Operation: op, From: h.from, To: h.to, Reason: h.reason, Detail: h.detail, HeadSHA: h.headSHA, BatchID: h.batchID,
		}
		return nil
	})
	return entry, err
}

// BatchView reads a batch with its queue and everybody who ever was a member, in batch order, with what became of them.
func (s *Store) BatchView(ctx context.Context, batchID int64) (view bot.BatchView, err error) {
	err = s.read(ctx, fmt.Sprint("read batch ", batchID), func(t *tables, now int64) error {
		b := t.batch(batchID)
		if b == nil {
			return missing("batch %d", batchID)
		}
		view.Batch = b.value(now)
		var err error
		if view.Queue, view.Repository, err = t.readQueue(b.queueID); err != nil {
			return err
		}
		index := make(map[string]int)
		for _, m := range t.members.rows {
			if m.batchID != batchID || m.event == bot.MemberHead {
				continue
			}
			i, known := index[m.operationID]
			if !known {
				i, index[m.operationID] = len(view.Members), len(view.Members)
				op, _ := t.operation(m.operationID)
				view.Members = append(view.Members, bot.BatchMember{Operation: op, HeadSHA: m.headSHA})
			}
			v := &view.Members[i]
			v.Event, v.Reason, v.Detail = m.event, m.reason, m.detail
		}
		return nil
	})
	return view, err
}
