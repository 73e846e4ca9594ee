package store

import (
	"context"
	"fmt"

	"github.com/batchbot/batchbot/bot"
)

// Move performs one guarded state change of one operation with all that follows from it, see bot.Move. Whatever it does not do leaves no
// trace: MoveStale, MoveDuplicate and MoveSuperseded roll everything back, the command's row included. A member of a batch that is
// LANDING does not move: that is MoveStale.
func (s *Store) Move(ctx context.Context, m bot.Move) (bot.MoveResult, error) {
	result, _, err := s.performMove(ctx, m)
	return result, err
}

// performMove is Move, and says who moved up on the train whose seat was given up. A move for bot.ReasonLeft is of an operation with a seat only.
func (s *Store) performMove(ctx context.Context, m bot.Move) (result bot.MoveResult, promoted *bot.Seat, err error) {
	name := fmt.Sprintf("move operation %s from %s to %s", m.OperationID, m.From, m.To)
	if !m.From.CanBecome(m.To) || m.To == bot.OperationBatched {
		return 0, nil, fmt.Errorf("%s: there is no such move", name)
	}
	if m.From == bot.OperationBatched && m.Batch == nil {
		return 0, nil, fmt.Errorf("%s: the state of its batch is needed", name)
	}
	if m.Command != nil {
		if err := checkCommand(*m.Command); err != nil {
			return 0, nil, err
		}
	}
	err = s.write(ctx, job{name: name, point: movePoint(m), run: func(tx *tx) error {
		var err error
		if result, promoted, err = tx.move(ctx, m); err == nil && result != bot.MoveDone {
			return errRollback
		}
		return err
	}, landed: func(ctx context.Context) (bool, error) {
		return s.exists(ctx, `SELECT 1 FROM audit WHERE dedupe_key = ? AND actor = ? AND source = ? AND detail IN (?, ?)`,
			operationAudit(m.OperationID, m.Version+1), clip(m.By, 255), clip(m.Source, 255), moveStory(m), moveStory(outOfSetMove(m)))
	}})
	if err != nil {
		return 0, nil, err
	}
	return result, promoted, nil
}

func (t *tx) move(ctx context.Context, m bot.Move) (result bot.MoveResult, promoted *bot.Seat, err error) {
	op, found, err := readOperation(ctx, t, m.OperationID)
	if err != nil || !found {
		return bot.MoveStale, nil, err
	}
	// The command first: sent twice, it finds the operation moved by itself, and that is a duplicate and not a stale guard.
	if m.Command != nil {
		if fresh, err := t.recordCommand(ctx, m.Command.RequestID, op.ID); err != nil || !fresh {
			return bot.MoveDuplicate, nil, err
		}
		if ok, err := t.takeTurn(ctx, op.MergeRequestID, m.Command.Order); err != nil || !ok {
			return bot.MoveSuperseded, nil, err
		}
	}
	if op.Status != m.From || op.Version != m.Version {
		return bot.MoveStale, nil, nil
	}
	set, member, err := t.lockSetOf(ctx, op.Cohort)
	if err != nil {
		return 0, nil, err
	}
	if member {
		m = outOfSetMove(m)
	}
	late, lateMember, err := t.setOfLanded(ctx, op, m.To)
	if err != nil {
		return 0, nil, err
	}
	var batch bot.Batch
	if m.From == bot.OperationBatched {
		if m.Batch.BatchID != op.BatchID {
			return bot.MoveStale, nil, nil
		}
		if batch, found, err = t.reopenBuild(ctx, *m.Batch); err != nil || !found {
			return bot.MoveStale, nil, err
		}
	}
	changes := []change{{op: op, version: m.Version, to: m.To, headSHA: m.HeadSHA, reason: m.Reason, detail: m.Detail, notify: m.Notify,
		by: m.By, batchID: batch.ID}}
	var others []bot.Operation
	if member {
		if others, err = t.othersOf(ctx, set, op); err != nil {
			return 0, nil, err
		}
		changes = append(changes, leaveWith(others, op, m, batch.ID)...)
	}
	if op.Status == bot.OperationPendingApproval {
		// Read without a lock: whoever takes or changes a seat changes the operation's version, which transition guards.
		seat, seated, err := liveSeat(ctx, t, op.ID)
		if err != nil || seated && m.To == bot.OperationWaiting || !seated && m.Reason == bot.ReasonLeft {
			return bot.MoveStale, nil, err // who has a seat is admitted by its departure only
		}
		if seated {
			up, more, ok, err := t.giveUp(ctx, seat, m)
			if err != nil || !ok {
				return bot.MoveStale, nil, err
			}
			changes = append(changes, more...)
			if len(up) > 0 {
				promoted = &up[0]
			}
		}
	}
	if ok, err := t.transition(ctx, changes); err != nil || !ok {
		return bot.MoveStale, nil, err
	}
	if ok, err := t.moveRequest(ctx, op, m.To); err != nil || !ok {
		return bot.MoveStale, nil, err
	}
	if ok, err := t.dropRequests(ctx, others, batch.ID); err != nil || !ok {
		return bot.MoveStale, nil, err
	}
	if m.From == bot.OperationBatched {
		if err := t.evict(ctx, batch, op, m); err != nil {
			return 0, nil, err
		}
		if err := t.evictOthers(ctx, batch, changes[1:]); err != nil {
			return 0, nil, err
		}
	}
	if member {
		if err := t.endSet(ctx, set, bot.CuratedRejected, lost(op.Number, m.Reason), m.By, m.Source); err != nil {
			return 0, nil, err
		}
	}
	if lateMember {
		if err := t.landedTogether(ctx, late, m.By, m.Source); err != nil {
			return 0, nil, err
		}
	}
	if err := t.audit(ctx, auditEntry{dedupe: operationAudit(op.ID, m.Version+1), actor: m.By, action: "move", queueID: op.QueueID,
		operationID: op.ID, batchID: batch.ID, source: m.Source, detail: moveStory(m)}); err != nil {
		return 0, nil, err
	}
	if err := t.tell(ctx, changes); err != nil {
		return 0, nil, err
	}
	if member {
		err = t.tellSet(ctx, set)
	} else if lateMember {
		err = t.tellSet(ctx, late)
	}
	if err != nil || batch.MRNumber == 0 {
		return bot.MoveDone, promoted, err
	}
	return bot.MoveDone, promoted, t.arm(ctx, batchErrand(bot.ErrandBatchReport, batch, op.RepositoryID))
}

// reopenBuild sends a batch back to CLAIMED, so that it is built again without the member that leaves. found false: the batch is no longer
// what the guard says, or it is LANDING: then the host may have what it is about to lose.
func (t *tx) reopenBuild(ctx context.Context, g bot.BatchGuard) (batch bot.Batch, found bool, err error) {
	if !g.Status.Active() || g.Phase >= bot.PhaseLanding {
		return bot.Batch{}, false, nil
	}
	ok, err := t.guardBatch(ctx, g, `phase = ?, phase_at = {now}, ci_conclusion = ''`, bot.PhaseClaimed)
	if err != nil || !ok {
		return bot.Batch{}, false, err
	}
	return readBatch(ctx, t, `b.id = ?`, g.BatchID)
}

// moveRequest brings the request row in line with the move: exactly the operations WAITING and BATCHED have one. ok false: the row is not what
// the operation's state says, so somebody else is at it.
func (t *tx) moveRequest(ctx context.Context, op bot.Operation, to bot.OperationStatus) (ok bool, err error) {
	var n int64
	switch {
	case op.Status == bot.OperationBatched && to == bot.OperationWaiting:
		// In place, so that its place in the order survives.
		n, err = t.exec(ctx, `UPDATE merge_batch_request SET batch_id = NULL, version = version + 1 WHERE id = ? AND operation_id = ? AND batch_id = ?`,
			op.RequestID, op.ID, op.BatchID)
	case op.Status == bot.OperationBatched:
		n, err = t.exec(ctx, `DELETE FROM merge_batch_request WHERE id = ? AND operation_id = ? AND batch_id = ?`, op.RequestID, op.ID, op.BatchID)
	case op.Status == bot.OperationWaiting:
		n, err = t.exec(ctx, `DELETE FROM merge_batch_request WHERE id = ? AND operation_id = ? AND batch_id IS NULL`, op.RequestID, op.ID)
	case to == bot.OperationWaiting:
		var lane bot.Lane
		if found, err := one(ctx, t, `SELECT lane FROM operation WHERE operation_id = ?`, []any{op.ID}, &lane); err != nil || !found {
			return false, err
		}
		return t.admit(ctx, op, lane)
	default:
		return true, nil
	}
	return n == 1, err
}

// evict appends to the membership history that a member left before landing.
func (t *tx) evict(ctx context.Context, batch bot.Batch, op bot.Operation, m bot.Move) error {
	var position int
	_, err := one(ctx, t, `SELECT position FROM merge_batch_member WHERE batch_id = ? AND operation_id = ? AND event = ?`,
		[]any{batch.ID, op.ID, bot.MemberClaimed}, &position)
	if err != nil {
		return err
	}
	return t.addMembers(ctx, []memberEntry{{batchID: batch.ID, operationID: op.ID, event: bot.MemberEvicted, build: batch.Build, position: position,
		headSHA: op.HeadSHA, reason: m.Reason, detail: m.Detail}})
}

// moveStory is a move in one line of the audit.
func moveStory(m bot.Move) string {
	story := fmt.Sprintf("%s → %s: %s", m.From, m.To, m.Reason)
	if m.Detail != "" {
		story += ", " + m.Detail
	}
	return clip(story, longText)
}
