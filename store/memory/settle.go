package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/mutant"
)

// closeMemberAfter is how long the host has to mark a landed member merged by itself.
const closeMemberAfter = 30 * time.Second

// RecordBuild writes base, head and what became of every member before anything is pushed: phase BUILT.
func (s *Store) RecordBuild(ctx context.Context, g bot.BatchGuard, record bot.BuildRecord) (batch bot.Batch, ok bool, err error) {
	result := record.Result
	err = s.write(ctx, fmt.Sprint("record a build of batch ", g.BatchID), func(t *tx) error {
		b := t.guard(g)
		if ok = b != nil; !ok {
			return errRollback
		}
		b.phase, b.phaseAt, b.baseSHA, b.headSHA = bot.PhaseBuilt, t.now, result.BaseSHA, result.HeadSHA
		b.build++
		b.tested = result.Merged()
		b.deadline, b.code, b.message, b.ciConclusion = t.later(record.Timeout), "", "", ""
		b.ciFingerprint, b.ciChanged = "", t.now
		batch = b.value(t.now)
		members, places := t.membersOf(b), t.places(b.id)
		if result.HeadSHA != result.BaseSHA {
			if err := t.addMembers(memberRow{batchID: b.id, event: bot.MemberHead, build: b.build, headSHA: result.HeadSHA}); err != nil {
				return err
			}
		}
		for _, m := range result.Members {
			place := places[m.OperationID]
			if m.Fate != bot.FateMerged || place == 0 {
				continue
			}
			err := t.addMembers(memberRow{
				batchID: b.id, operationID: m.OperationID, event: bot.MemberBuilt, build: b.build, position: place, headSHA: m.HeadSHA,
			})
			if err != nil {
				return err
			}
		}
		return t.leave(b, members, record.Moves)
	})
	if err != nil || !ok {
		return bot.Batch{}, false, err
	}
	return batch, true, nil
}

// Settle brings a batch and every remaining member to an end in one transaction. ok is false when somebody else did.
func (s *Store) Settle(ctx context.Context, settlement bot.Settlement) (ok bool, err error) {
	g := settlement.Guard
	name := fmt.Sprint("settle batch ", g.BatchID)
	if !g.Status.Active() || settlement.Status == 0 || settlement.Status.Active() {
		return false, fmt.Errorf("%s from %s to %s: a batch goes from RUNNING or BLOCKED to SUCCEEDED or FAILED", name, g.Status, settlement.Status)
	}
	if mutant.Is(mutant.Atomic) {
		return s.mutantSettle(ctx, settlement)
	}
	err = s.write(ctx, name, func(t *tx) error {
		b := t.guard(g)
		if ok = b != nil; !ok {
			return errRollback
		}
		return t.settle(b, settlement)
	})
	return ok && err == nil, err
}

func (t *tx) settle(b *batchRow, settlement bot.Settlement) error {
	members := t.membersOf(b)
	if len(members) != len(settlement.Members) {
		return fmt.Errorf("the settlement names %d members and the batch has %d", len(settlement.Members), len(members))
	}
	if settlement.ParkQueue != "" {
		t.parkQueue(b.queueID, settlement.ParkQueue)
	}
	b.status, b.code, b.message, b.landedSHA = settlement.Status, settlement.Code, clip(settlement.Message, longText), settlement.LandedSHA
	b.landedDiffers, b.ciConclusion = settlement.LandedDiffers, clip(settlement.CIConclusion, 16)
	var freed []*requestRow
	if settlement.FreeCohort > 0 {
		freed = t.requests.all(func(r *requestRow) bool {
			return r.queueID == b.queueID && r.batchID == 0 && r.cohort == settlement.FreeCohort
		})
	}
	if err := t.leave(b, members, settlement.Members); err != nil {
		return err
	}
	for _, r := range freed {
		change(t, r)
		r.cohort = 0
		r.version++
	}
	t.log(auditRow{
		dedupe: fmt.Sprintf("batch:%d:settle", b.id), actor: cmp.Or(settlement.By, "batchbot"), action: "settle", queueID: b.queueID, batchID: b.id,
		source: settlement.Source, detail: fmt.Sprintf("%s %s %s", b.status, b.code, b.message),
	})
	repositoryID := t.queue(b.queueID).repositoryID
	var errands []outboxRow
	if b.mrNumber != 0 {
		errands = append(errands, batchErrand(bot.ErrandBatchReport, b, repositoryID))
	}
	if settlement.CloseMR && b.mrNumber != 0 {
		errands = append(errands, batchErrand(bot.ErrandBatchMR, b, repositoryID))
	}
	if settlement.DeleteBranch {
		errands = append(errands, batchErrand(bot.ErrandDeleteBranch, b, repositoryID))
	}
	if settlement.Status == bot.BatchSucceeded {
		for _, op := range members {
			landed := func(m bot.MemberOutcome) bool { return m.OperationID == op.ID && m.To == bot.OperationMerged }
			if slices.ContainsFunc(settlement.Members, landed) {
				errands = append(errands, outboxRow{
					kind: bot.ErrandCloseMember, target: op.ID, repositoryID: op.RepositoryID, number: op.Number, nextAttempt: closeMemberAfter.Microseconds(),
				})
			}
		}
	}
	t.arm(errands...)
	return nil
}

// leave brings members to what became of them, under the guarded write of their batch's row. Those that ride again keep their request row and
// with it their place in the order.
func (t *tx) leave(b *batchRow, members []bot.Operation, outcomes []bot.MemberOutcome) error {
	places := t.places(b.id)
	riding := make(map[string]bot.Operation, len(members))
	for _, op := range members {
		riding[op.ID] = op
	}
	var moves []move
	var entries []memberRow
	for _, o := range outcomes {
		op, rides := riding[o.OperationID]
		if !rides {
			return fmt.Errorf("operation %s does not ride in batch %d", o.OperationID, b.id)
		}
		delete(riding, op.ID) // a second outcome of one member is refused
		moves = append(moves, move{
			op: op, to: o.To, headSHA: o.HeadSHA, reason: o.Reason, detail: o.Detail, notify: o.Notify, by: "batchbot", batchID: b.id,
		})
		entries = append(entries, memberRow{
			batchID: b.id, operationID: op.ID, event: leaving(b, o), build: b.build, position: places[op.ID], headSHA: op.HeadSHA,
			reason: o.Reason, detail: o.Detail,
		})
	}
	if ok, err := t.transition(moves); err != nil || !ok {
		return t.unlessHeld(b, err)
	}
	for i, o := range outcomes {
		mine := func(r *requestRow) bool { return r.id == moves[i].op.RequestID && r.batchID == b.id }
		if o.To != bot.OperationWaiting {
			if remove(t, &t.requests, mine) != 1 {
				return t.unlessHeld(b, nil)
			}
			continue
		}
		r := t.requests.first(mine)
		if r == nil {
			return t.unlessHeld(b, nil)
		}
		change(t, r)
		r.batchID, r.cohort = 0, o.Cohort
		r.version++
	}
	if err := t.addMembers(entries...); err != nil {
		return err
	}
	t.tell(moves)
	return nil
}

// leaving names how a member left its batch.
func leaving(b *batchRow, o bot.MemberOutcome) bot.MemberEvent {
	switch {
	case o.To == bot.OperationMerged:
		return bot.MemberLanded
	case b.active():
		return bot.MemberEvicted
	case o.To == bot.OperationWaiting:
		return bot.MemberReturned
	case o.To == bot.OperationFailed:
		return bot.MemberFailed
	}
	return bot.MemberEvicted
}

// unlessHeld is the error of member rows that changed although the batch's row, which everybody writes first, did not.
func (t *tx) unlessHeld(b *batchRow, err error) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("members of batch %d changed without its row: the database was written by something else", b.id)
}
