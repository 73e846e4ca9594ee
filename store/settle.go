package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/fault"
)

// closeMemberAfter is how long the host has to mark a landed member merged by itself before the bot looks after it.
const closeMemberAfter = 30 * time.Second

// RecordBuild writes base, head and what became of every member before anything is pushed: phase BUILT. Members that leave are brought to
// their outcome in the same transaction. ok is false when the batch is no longer what guard says.
func (s *Store) RecordBuild(ctx context.Context, guard bot.BatchGuard, record bot.BuildRecord) (batch bot.Batch, ok bool, err error) {
	result := record.Result
	err = s.write(ctx, job{
		name:  fmt.Sprintf("record a build of batch %d", guard.BatchID),
		point: fault.Build,
		run: func(tx *tx) error {
			before, _, err := readBatch(ctx, tx, `b.id = ?`, guard.BatchID)
			if err != nil {
				return err
			}
			var set bot.Curated
			broken := false
			if len(record.Moves) > 0 {
				// The set's row comes before the batch's in the lock order.
				if set, broken, err = tx.lockSetOf(ctx, before.Cohort); err != nil {
					return err
				}
			}
			ok, err = tx.guardBatch(ctx, guard, `phase = ?, phase_at = {now}, build = build + 1, base_sha = ?, head_sha = ?, tested = ?, deadline_at = {later},
				code = '', message = '', ci_conclusion = '', ci_fingerprint = '', ci_changed_at = {now}`,
				bot.PhaseBuilt, result.BaseSHA, result.HeadSHA, result.Merged(), micros(record.Timeout))
			if err != nil {
				return err
			}
			if !ok {
				return errRollback
			}
			if batch, _, err = readBatch(ctx, tx, `b.id = ?`, guard.BatchID); err != nil {
				return err
			}
			members, err := membersOf(ctx, tx, batch)
			if err != nil {
				return err
			}
			moves, why := record.Moves, ""
			if broken {
				moves, _, why = setOutcomes(batch, members, record.Moves, false)
			}
			left, err := tx.leave(ctx, batch, members, moves, func(places map[string]int) []memberEntry {
				return buildEntries(batch, places, result)
			})
			if err != nil {
				return err
			}
			if broken {
				if err := tx.endSet(ctx, set, bot.CuratedRejected, why, "batchbot", ""); err != nil {
					return err
				}
			}
			if err := tx.tell(ctx, left); err != nil || !broken {
				return err
			}
			return tx.tellSet(ctx, set)
		},
		landed: func(ctx context.Context) (bool, error) {
			now, found, err := readBatch(ctx, s, `b.id = ?`, guard.BatchID)
			ok = found && now.Version == guard.Version+1 && now.Phase == bot.PhaseBuilt && now.HeadSHA == result.HeadSHA
			return ok, err
		},
	})
	if err != nil || !ok {
		return bot.Batch{}, false, err
	}
	return batch, true, nil
}

// buildEntries says who was in a build, and its head. A build in which nobody merged has no head of its own: its base must never count as a
// commit of this batch.
func buildEntries(batch bot.Batch, places map[string]int, result bot.BuildResult) []memberEntry {
	var entries []memberEntry
	if result.HeadSHA != result.BaseSHA {
		entries = append(entries, memberEntry{batchID: batch.ID, event: bot.MemberHead, build: batch.Build, headSHA: result.HeadSHA})
	}
	for _, m := range result.Members {
		if place := places[m.OperationID]; m.Fate == bot.FateMerged && place > 0 {
			entries = append(entries, memberEntry{
				batchID: batch.ID, operationID: m.OperationID, event: bot.MemberBuilt, build: batch.Build, position: place, headSHA: m.HeadSHA,
			})
		}
	}
	return entries
}

// places reads the place, from 1, that every operation ever claimed by a batch has in it.
func (t *tx) places(ctx context.Context, batchID int64) (map[string]int, error) {
	places := make(map[string]int)
	err := t.each(ctx, `SELECT operation_id, position FROM merge_batch_member WHERE batch_id = ? AND event = ?`, []any{batchID, bot.MemberClaimed}, func(scan scan) error {
		var operation string
		var place int
		err := scan(&operation, &place)
		places[operation] = place
		return err
	})
	return places, err
}

// Settle brings a batch and every remaining member to an end in one transaction. It begins with the guarded write of the batch, so of
// several that settle at once exactly one does; for the others ok is false and nothing happens.
func (s *Store) Settle(ctx context.Context, settlement bot.Settlement) (ok bool, err error) {
	guard := settlement.Guard
	name := fmt.Sprintf("settle batch %d", guard.BatchID)
	if !guard.Status.Active() || settlement.Status == 0 || settlement.Status.Active() {
		return false, fmt.Errorf("%s from %s to %s: a batch goes from RUNNING or BLOCKED to SUCCEEDED or FAILED", name, guard.Status, settlement.Status)
	}
	err = s.write(ctx, job{
		name:  name,
		point: settlePoint(settlement),
		run: func(tx *tx) error {
			var err error
			if ok, err = tx.settle(ctx, settlement); err == nil && !ok {
				return errRollback
			}
			return err
		},
		landed: func(ctx context.Context) (bool, error) {
			now, found, err := readBatch(ctx, s, `b.id = ?`, guard.BatchID)
			ok = found && now.Version == guard.Version+1 && now.Status == settlement.Status && now.Code == settlement.Code
			return ok, err
		},
	})
	return ok && err == nil, err
}

func (t *tx) settle(ctx context.Context, settlement bot.Settlement) (ok bool, err error) {
	before, found, err := readBatch(ctx, t, `b.id = ?`, settlement.Guard.BatchID)
	if err != nil || !found {
		return false, err
	}
	parked := false
	if settlement.ParkQueue != "" {
		// The queue's row comes before the batch's in the lock order; a stale guard undoes this too.
		if parked, err = t.parkQueue(ctx, before.QueueID, settlement.ParkQueue); err != nil {
			return false, err
		}
	}
	set, curated, err := t.lockSetOf(ctx, before.Cohort)
	if err != nil {
		return false, err
	}
	ok, err = t.guardBatch(ctx, settlement.Guard, `status = ?, code = ?, message = ?, landed_sha = ?, landed_differs = ?, ci_conclusion = ?`,
		settlement.Status, settlement.Code, clip(settlement.Message, longText), settlement.LandedSHA, settlement.LandedDiffers, clip(settlement.CIConclusion, 16))
	if err != nil || !ok {
		return false, err
	}
	batch, _, err := readBatch(ctx, t, `b.id = ?`, settlement.Guard.BatchID)
	if err != nil {
		return false, err
	}
	members, err := membersOf(ctx, t, batch)
	if err != nil {
		return false, err
	}
	if len(members) != len(settlement.Members) {
		return false, t.fail(fmt.Errorf("the settlement names %d members and the batch has %d", len(settlement.Members), len(members)))
	}
	outcomes, to, why := settlement.Members, bot.CuratedApproved, ""
	if curated && len(members) > 0 {
		outcomes, to, why = setOutcomes(batch, members, settlement.Members, true)
	}
	// Read before the members return: the cohort that is freed is the one that waited while they rode.
	var freed []int64
	if settlement.FreeCohort > 0 {
		freed, err = ids(ctx, t, `SELECT id FROM merge_batch_request WHERE queue_id = ? AND batch_id IS NULL AND cohort = ? ORDER BY id`,
			batch.QueueID, settlement.FreeCohort)
		if err != nil {
			return false, err
		}
	}
	left, err := t.leave(ctx, batch, members, outcomes, nil)
	if err != nil {
		return false, err
	}
	if to != bot.CuratedApproved {
		if err := t.endSet(ctx, set, to, why, cmp.Or(settlement.By, "batchbot"), settlement.Source); err != nil {
			return false, err
		}
	}
	for chunk := range slices.Chunk(freed, chunkSize) {
		// One that left meanwhile needs no freeing, so the count does not matter.
		if _, err := t.exec(ctx, `UPDATE merge_batch_request {pinned} SET cohort = 0, version = version + 1
			WHERE batch_id IS NULL AND cohort = ? AND id IN (`+list(len(chunk))+`)`, append([]any{settlement.FreeCohort}, anys(chunk)...)...); err != nil {
			return false, err
		}
	}
	if err := t.audit(ctx, auditEntry{
		dedupe: fmt.Sprintf("batch:%d:settle", batch.ID), actor: cmp.Or(settlement.By, "batchbot"), action: "settle", queueID: batch.QueueID, batchID: batch.ID,
		source: settlement.Source,
		detail: fmt.Sprintf("%s %s %s", batch.Status, batch.Code, batch.Message),
	}); err != nil {
		return false, err
	}
	if err := t.tell(ctx, left); err != nil {
		return false, err
	}
	if curated {
		if err := t.tellSet(ctx, set); err != nil {
			return false, err
		}
	}
	if parked {
		if err := t.tellQueue(ctx, batch.QueueID); err != nil {
			return false, err
		}
	}
	repositoryID, err := repositoryOf(ctx, t, batch.QueueID)
	if err != nil {
		return false, err
	}
	var errands []errand
	if batch.MRNumber != 0 {
		errands = append(errands, batchErrand(bot.ErrandBatchReport, batch, repositoryID))
	}
	if settlement.CloseMR && batch.MRNumber != 0 {
		errands = append(errands, batchErrand(bot.ErrandBatchMR, batch, repositoryID))
	}
	if settlement.DeleteBranch {
		errands = append(errands, batchErrand(bot.ErrandDeleteBranch, batch, repositoryID))
	}
	if settlement.Status == bot.BatchSucceeded {
		landed := make(map[string]bool)
		for _, m := range settlement.Members {
			landed[m.OperationID] = m.To == bot.OperationMerged
		}
		for _, op := range members {
			if landed[op.ID] {
				errands = append(errands, errand{
					kind: bot.ErrandCloseMember, target: op.ID, repositoryID: op.RepositoryID, number: op.Number, after: closeMemberAfter,
				})
			}
		}
	}
	return true, t.arm(ctx, errands...)
}

// leave brings members to what became of them, under the guarded write of their batch's row. Those that ride again keep their request row and
// with it their place in the order: deleting and inserting it anew would lock gaps that admissions go into. first, unless nil, is what the
// membership history says before that. What leave returns is to be told.
func (t *tx) leave(ctx context.Context, batch bot.Batch, members []bot.Operation, outcomes []bot.MemberOutcome, first func(places map[string]int) []memberEntry) ([]change, error) {
	if len(outcomes) == 0 && first == nil {
		return nil, nil
	}
	places, err := t.places(ctx, batch.ID)
	if err != nil {
		return nil, err
	}
	riding := make(map[string]bot.Operation, len(members))
	for _, op := range members {
		riding[op.ID] = op
	}
	var changes []change
	var entries []memberEntry
	if first != nil {
		entries = first(places)
	}
	var ended []int64
	again := make(map[int64][]int64) // cohort → requests
	for _, o := range outcomes {
		op, rides := riding[o.OperationID]
		if !rides {
			return nil, t.fail(fmt.Errorf("operation %s does not ride in batch %d", o.OperationID, batch.ID))
		}
		delete(riding, op.ID) // a second outcome of one member is refused
		if o.To == bot.OperationWaiting {
			again[o.Cohort] = append(again[o.Cohort], op.RequestID)
		} else {
			ended = append(ended, op.RequestID)
		}
		changes = append(changes, change{op: op, to: o.To, headSHA: o.HeadSHA, reason: o.Reason, detail: o.Detail, notify: o.Notify, by: "batchbot", batchID: batch.ID})
		entries = append(entries, memberEntry{
			batchID: batch.ID, operationID: op.ID, event: leaving(batch, o), build: batch.Build, position: places[op.ID], headSHA: op.HeadSHA, reason: o.Reason, detail: o.Detail,
		})
	}
	if ok, err := t.transition(ctx, changes); err != nil || !ok {
		return nil, t.unlessHeld(batch, err)
	}
	for cohort, requests := range again {
		slices.Sort(requests)
		for chunk := range slices.Chunk(requests, chunkSize) {
			n, err := t.exec(ctx, `UPDATE merge_batch_request {pinned} SET batch_id = NULL, cohort = ?, version = version + 1
				WHERE batch_id = ? AND id IN (`+list(len(chunk))+`)`, append([]any{cohort, batch.ID}, anys(chunk)...)...)
			if err != nil || n != int64(len(chunk)) {
				return nil, t.unlessHeld(batch, err)
			}
		}
	}
	slices.Sort(ended)
	for chunk := range slices.Chunk(ended, chunkSize) {
		n, err := t.exec(ctx, `DELETE FROM merge_batch_request WHERE batch_id = ? AND id IN (`+list(len(chunk))+`)`,
			append([]any{batch.ID}, anys(chunk)...)...)
		if err != nil || n != int64(len(chunk)) {
			return nil, t.unlessHeld(batch, err)
		}
	}
	return changes, t.addMembers(ctx, entries)
}

// leaving names how a member left its batch.
func leaving(batch bot.Batch, o bot.MemberOutcome) bot.MemberEvent {
	switch {
	case o.To == bot.OperationMerged:
		return bot.MemberLanded
	case batch.Status.Active():
		return bot.MemberEvicted
	case o.To == bot.OperationWaiting:
		return bot.MemberReturned
	case o.To == bot.OperationFailed, o.To == bot.OperationRejected: // the members of a set do not await a retry
		return bot.MemberFailed
	}
	return bot.MemberEvicted
}

// unlessHeld is the error of member rows that changed although the batch's row, which everybody writes first, did not.
func (t *tx) unlessHeld(batch bot.Batch, err error) error {
	if err != nil {
		return err
	}
	return t.fail(fmt.Errorf("members of batch %d changed without its row: the database was written by something else", batch.ID))
}
