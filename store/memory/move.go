package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/mutant"
)

// Move performs one guarded state change of one operation with all that follows from it, see bot.Move. Whatever it does not do leaves no
// trace.
func (s *Store) Move(ctx context.Context, m bot.Move) (result bot.MoveResult, err error) {
	name := fmt.Sprintf("move operation %s from %s to %s", m.OperationID, m.From, m.To)
	if !m.From.CanBecome(m.To) || m.To == bot.OperationBatched {
		return 0, fmt.Errorf("%s: there is no such move", name)
	}
	if m.From == bot.OperationBatched && m.Batch == nil {
		return 0, fmt.Errorf("%s: the state of its batch is needed", name)
	}
	if m.Command != nil {
		if err := checkCommand(*m.Command); err != nil {
			return 0, err
		}
	}
	err = s.write(ctx, name, func(t *tx) error {
		var err error
		if result, err = t.move(m); err == nil && result != bot.MoveDone {
			return errRollback
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	return result, nil
}

func (t *tx) move(m bot.Move) (bot.MoveResult, error) {
	op, found := t.operation(m.OperationID)
	if !found {
		return bot.MoveStale, nil
	}
	if m.Command != nil {
		if !t.recordCommand(m.Command.RequestID, op.ID) {
			return bot.MoveDuplicate, nil
		}
		if !t.takeTurn(op.MergeRequestID, m.Command.Order) {
			return bot.MoveSuperseded, nil
		}
	}
	if op.Status != m.From || op.Version != m.Version {
		return bot.MoveStale, nil
	}
	var batch *batchRow
	if m.From == bot.OperationBatched {
		if m.Batch.BatchID != op.BatchID {
			return bot.MoveStale, nil
		}
		if batch = t.reopenBuild(*m.Batch); batch == nil {
			return bot.MoveStale, nil
		}
	}
	moves := []move{{op: op, version: m.Version, to: m.To, headSHA: m.HeadSHA, reason: m.Reason, detail: m.Detail, notify: m.Notify, by: m.By}}
	if batch != nil {
		moves[0].batchID = batch.id
	}
	if ok, err := t.transition(moves); err != nil || !ok {
		return bot.MoveStale, err
	}
	if !t.moveRequest(op, m.To) {
		return bot.MoveStale, nil
	}
	if batch != nil {
		err := t.addMembers(memberRow{
			batchID: batch.id, operationID: op.ID, event: bot.MemberEvicted, build: batch.build, position: t.places(batch.id)[op.ID],
			headSHA: op.HeadSHA, reason: m.Reason, detail: m.Detail,
		})
		if err != nil {
			return 0, err
		}
	}
	t.log(auditRow{
		dedupe: operationAudit(op.ID, m.Version+1), actor: m.By, action: "move", queueID: op.QueueID, operationID: op.ID, batchID: moves[0].batchID,
		source: m.Source, detail: moveStory(m),
	})
	t.tell(moves)
	if batch != nil && batch.mrNumber != 0 {
		t.arm(batchErrand(bot.ErrandBatchReport, batch, op.RepositoryID))
	}
	return bot.MoveDone, nil
}

// reopenBuild sends a batch back to CLAIMED, so that it is built again without the member that leaves. nil: the batch is no longer what the guard
// says, or it is LANDING.
func (t *tx) reopenBuild(g bot.BatchGuard) *batchRow {
	if !g.Status.Active() || (g.Phase >= bot.PhaseLanding && !mutant.Is(mutant.NoRelease)) {
		return nil
	}
	b := t.guard(g)
	if b != nil {
		b.phase, b.phaseAt, b.ciConclusion = bot.PhaseClaimed, t.now, ""
	}
	return b
}

// moveRequest brings the request row in line with the move: exactly the operations WAITING and BATCHED have one. ok false: the row is
// not what the operation's state says.
func (t *tx) moveRequest(op bot.Operation, to bot.OperationStatus) (ok bool) {
	mine := func(r *requestRow) bool {
		return r.id == op.RequestID && r.operationID == op.ID && r.batchID == op.BatchID
	}
	switch {
	case op.Status == bot.OperationBatched && to == bot.OperationWaiting:
		r := t.requests.first(mine)
		if r == nil || op.BatchID == 0 {
			return false
		}
		change(t, r)
		r.batchID = 0
		r.version++
		return true
	case op.Status == bot.OperationBatched, op.Status == bot.OperationWaiting:
		if (op.Status == bot.OperationBatched) != (op.BatchID != 0) {
			return false
		}
		return remove(t, &t.requests, mine) == 1
	case to == bot.OperationWaiting:
		return t.admit(t.operationRow(op.ID))
	}
	return true
}

func moveStory(m bot.Move) string {
	story := fmt.Sprintf("%s → %s: %s", m.From, m.To, m.Reason)
	if m.Detail != "" {
		story += ", " + m.Detail
	}
	return clip(story, longText)
}

// ExpireOperations ends operations that are PENDING_APPROVAL past their expires_at, at most limit, and returns how many this call ended.
func (s *Store) ExpireOperations(ctx context.Context, limit int) (ended int, err error) {
	var found []bot.Operation
	err = s.read(ctx, "look for expired operations", func(t *tables, now int64) error {
		overdue := t.bindings.all(func(b *bindingRow) bool { return b.status == bot.OperationPendingApproval && b.expires < now })
		slices.SortStableFunc(overdue, func(a, b *bindingRow) int { return cmp.Compare(a.expires, b.expires) })
		for _, b := range overdue[:min(len(overdue), limit)] {
			if op, ok := t.operation(b.operationID); ok {
				found = append(found, op)
			}
		}
		return nil
	})
	for _, op := range found {
		result, moveErr := s.Move(ctx, bot.Move{
			OperationID: op.ID, From: bot.OperationPendingApproval, Version: op.Version, To: bot.OperationExpired,
			Reason: bot.ReasonExpired, By: "batchbot", Source: "expiry",
		})
		if moveErr != nil {
			return ended, moveErr
		}
		if result == bot.MoveDone {
			ended++
		}
	}
	return ended, err
}
