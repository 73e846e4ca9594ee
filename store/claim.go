package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/fault"
)

// preemptedTries is how often a claim is tried when a waiting row changes between its read and its write.
const preemptedTries = 4

// Claim starts a batch on a queue in one transaction: it takes the slot, and with it up to spec.Limit waiting requests in order. The unique key
// over active_slot is what allows one active batch; the queue's row only keeps claimers from racing on it, which would end in deadlocks.
// Admission touches neither, so it never waits for a claim.
func (s *Store) Claim(ctx context.Context, spec bot.ClaimSpec) (bot.ClaimResult, error) {
	if spec.Limit < 1 || spec.Token == "" {
		return bot.ClaimResult{}, fmt.Errorf("claim on queue %d: limit %d and token %q: a limit of at least 1 and a token are needed", spec.QueueID, spec.Limit, spec.Token)
	}
	// Without a lock and outside the transaction: an idle queue costs one look at an index.
	var waits int
	found, err := one(ctx, s, `SELECT 1 FROM merge_batch_request WHERE queue_id = ? AND batch_id IS NULL AND cohort = ? LIMIT 1`,
		[]any{spec.QueueID, spec.Cohort}, &waits)
	if err != nil {
		return bot.ClaimResult{}, fmt.Errorf("look what waits in queue %d: %w", spec.QueueID, err)
	}
	if !found {
		return bot.ClaimResult{Outcome: bot.ClaimNothing}, nil
	}
	for try := 1; ; try++ {
		result, err := s.claimOnce(ctx, spec)
		if err != nil || result.Outcome != bot.ClaimPreempted || try == preemptedTries {
			return result, err
		}
	}
}

func (s *Store) claimOnce(ctx context.Context, spec bot.ClaimSpec) (result bot.ClaimResult, err error) {
	err = s.write(ctx, job{
		name:  fmt.Sprintf("claim on queue %d", spec.QueueID),
		point: fault.Claim,
		run: func(tx *tx) error {
			var err error
			if result, err = tx.claim(ctx, spec); err == nil && result.Outcome != bot.ClaimDone {
				return errRollback
			}
			return err
		},
		landed: func(ctx context.Context) (bool, error) {
			_, found, err := readBatch(ctx, s, `b.id = ? AND b.token = ?`, result.Batch.ID, spec.Token)
			return found, err
		},
	})
	if err != nil {
		return bot.ClaimResult{}, err
	}
	return result, nil
}

// claim is the body of the claim transaction. Every outcome but ClaimDone is to be rolled back at once: the loser of a duplicate key holds
// a shared lock on the winner's slot, and an empty batch would keep the slot.
func (t *tx) claim(ctx context.Context, spec bot.ClaimSpec) (bot.ClaimResult, error) {
	none := func(outcome bot.ClaimOutcome, err error) (bot.ClaimResult, error) {
		return bot.ClaimResult{Outcome: outcome}, err
	}

	var state bot.QueueState
	found, err := one(ctx, t, `SELECT status FROM queue WHERE id = ? {skip locked}`, []any{spec.QueueID}, &state)
	switch {
	case err != nil || !found:
		return none(bot.ClaimQueueBusy, err)
	case state != bot.QueueOpen:
		return none(bot.ClaimQueueClosed, nil)
	}

	var active int64
	if found, err = one(ctx, t, `SELECT id FROM merge_batch WHERE active_slot = ?`, []any{spec.QueueID}, &active); err != nil || found {
		return none(bot.ClaimSlotOccupied, err)
	}
	batchID, fresh, err := t.insert(ctx, &keyActiveBatch, `INSERT INTO merge_batch (queue_id, status, phase, kind, cohort, why, token, size, build,
			base_sha, head_sha, landed_sha, landed_differs, mr_number, code, message, refusals, ci_conclusion, ci_fingerprint,
			ci_changed_at, phase_at, deadline_at, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, 0, 0, '', '', '', 0, 0, '', '', 0, '', '', {now}, {now}, {later}, {now}, {now})`,
		spec.QueueID, bot.BatchRunning, bot.PhaseClaimed, spec.Kind, spec.Cohort, clip(spec.Why, 500), spec.Token, micros(spec.Timeout))
	if err != nil || !fresh {
		return none(bot.ClaimSlotOccupied, err)
	}

	requests, operations, err := t.waiting(ctx, spec)
	if err != nil || len(requests) == 0 {
		return none(bot.ClaimNothing, err)
	}
	if whole, err := t.isWhole(ctx, spec.Cohort, len(requests)); err != nil || !whole {
		return none(bot.ClaimNothing, err)
	}

	// Operations and bindings before requests, as everywhere: a cancel holds them in that order.
	changes := make([]change, 0, len(operations))
	for _, op := range operations {
		if op.Status != bot.OperationWaiting {
			return none(bot.ClaimPreempted, nil)
		}
		changes = append(changes, change{op: op, to: bot.OperationBatched, reason: bot.ReasonClaimed, by: "batchbot", batchID: batchID})
	}
	if len(operations) != len(requests) {
		return none(bot.ClaimPreempted, nil)
	}
	if ok, err := t.transition(ctx, changes); err != nil || !ok {
		return none(bot.ClaimPreempted, err)
	}
	for chunk := range slices.Chunk(slices.Sorted(slices.Values(requests)), chunkSize) {
		n, err := t.exec(ctx, `UPDATE merge_batch_request {pinned} SET batch_id = ?, version = version + 1 WHERE batch_id IS NULL AND id IN (`+list(len(chunk))+`)`,
			append([]any{batchID}, anys(chunk)...)...)
		if err != nil || n != int64(len(chunk)) {
			return none(bot.ClaimPreempted, err)
		}
	}

	entries := make([]memberEntry, 0, len(operations))
	for i, op := range operations {
		entries = append(entries, memberEntry{batchID: batchID, operationID: op.ID, event: bot.MemberClaimed, position: i + 1, headSHA: op.HeadSHA, reason: bot.ReasonClaimed})
	}
	if err := t.addMembers(ctx, entries); err != nil {
		return none(0, err)
	}
	if _, err := t.exec(ctx, `UPDATE merge_batch SET size = ? WHERE id = ?`, len(operations), batchID); err != nil {
		return none(0, err)
	}
	if err := t.audit(ctx, auditEntry{
		dedupe: fmt.Sprintf("batch:%d:claim", batchID), actor: "batchbot", action: "claim", queueID: spec.QueueID, batchID: batchID,
		detail: fmt.Sprintf("%s, %d members", spec.Kind, len(operations)),
	}); err != nil {
		return none(0, err)
	}
	if err := t.tell(ctx, changes); err != nil {
		return none(0, err)
	}
	batch, _, err := readBatch(ctx, t, `b.id = ?`, batchID)
	if err != nil {
		return none(0, err)
	}
	members, err := membersOf(ctx, t, batch)
	return bot.ClaimResult{Outcome: bot.ClaimDone, Batch: batch, Members: members}, err
}

// isWhole reports whether n requests are all members of a curated batch: it rides whole. Of other cohorts a claim takes what it likes.
func (t *tx) isWhole(ctx context.Context, cohort int64, n int) (bool, error) {
	if cohort >= 0 {
		return true, nil
	}
	var members int
	_, err := one(ctx, t, `SELECT COUNT(*) FROM curated_row WHERE approval_request_id = ?`, []any{bot.CuratedCohort(cohort)}, &members)
	return n == members, err
}

// waiting reads what a claim takes, in order, without a locking read: a lock on this range is a lock on where new requests go. What was admitted
// at this very instant waits for the next round. A curated batch has no other limit than its size.
func (t *tx) waiting(ctx context.Context, spec bot.ClaimSpec) (requests []int64, operations []bot.Operation, err error) {
	var names []string
	limit := spec.Limit
	if spec.Cohort < 0 {
		limit = bot.MaxCurated
	}
	err = t.each(ctx, `SELECT id, operation_id FROM merge_batch_request
		WHERE queue_id = ? AND batch_id IS NULL AND cohort = ? AND created_at < {now} ORDER BY lane, created_at, id LIMIT ?`,
		[]any{spec.QueueID, spec.Cohort, limit}, func(scan scan) error {
			var id int64
			var name string
			if err := scan(&id, &name); err != nil {
				return err
			}
			requests, names = append(requests, id), append(names, name)
			return nil
		})
	if err != nil {
		return nil, nil, err
	}
	found := make(map[string]bot.Operation, len(names))
	for chunk := range slices.Chunk(names, chunkSize) {
		ops, err := listOperations(ctx, t, `WHERE o.operation_id IN (`+list(len(chunk))+`)`, anys(chunk)...)
		if err != nil {
			return nil, nil, err
		}
		for _, op := range ops {
			found[op.ID] = op
		}
	}
	for _, name := range names {
		if op, ok := found[name]; ok {
			operations = append(operations, op)
		}
	}
	return requests, operations, nil
}
