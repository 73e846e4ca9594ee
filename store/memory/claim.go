package memory

import (
	"context"
	"fmt"
	"slices"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/mutant"
)

// Claim starts a batch on a queue in one transaction: it takes the slot, and with it up to spec.Limit waiting requests in order.
func (s *Store) Claim(ctx context.Context, spec bot.ClaimSpec) (result bot.ClaimResult, err error) {
	name := fmt.Sprint("claim on queue ", spec.QueueID)
	if spec.Limit < 1 || spec.Token == "" {
		return result, fmt.Errorf("%s: a limit of at least 1 and a token are needed", name)
	}
	waits := false
	var seen []string
	err = s.read(ctx, "look what waits in the queue", func(t *tables, now int64) error {
		if mutant.Is(mutant.ClaimLooks) {
			for _, r := range t.waiting(spec, now) {
				seen = append(seen, r.operationID)
			}
		}
		waits = t.requests.first(func(r *requestRow) bool {
			return r.queueID == spec.QueueID && r.batchID == 0 && r.cohort == spec.Cohort
		}) != nil
		return nil
	})
	if err != nil {
		return bot.ClaimResult{}, err
	}
	if !waits {
		return bot.ClaimResult{Outcome: bot.ClaimNothing}, nil
	}
	err = s.write(ctx, name, func(t *tx) error {
		var err error
		if mutant.Is(mutant.ClaimLooks) {
			t.mutantAdmits(spec, seen)
		}
		if result, err = t.claim(spec); err == nil && result.Outcome != bot.ClaimDone {
			return errRollback
		}
		return err
	})
	if err != nil {
		return bot.ClaimResult{}, err
	}
	return result, nil
}

func (t *tx) claim(spec bot.ClaimSpec) (bot.ClaimResult, error) {
	none := func(outcome bot.ClaimOutcome) (bot.ClaimResult, error) { return bot.ClaimResult{Outcome: outcome}, nil }
	queue := t.queue(spec.QueueID)
	switch {
	case queue == nil:
		return none(bot.ClaimQueueBusy)
	case queue.status != bot.QueueOpen:
		return none(bot.ClaimQueueClosed)
	case t.activeBatch(spec.QueueID) != nil && !mutant.Is(mutant.OneActive):
		return none(bot.ClaimSlotOccupied)
	}
	batch := &batchRow{
		queueID: spec.QueueID, status: bot.BatchRunning, phase: bot.PhaseClaimed, kind: spec.Kind, cohort: spec.Cohort, why: clip(spec.Why, 500), token: spec.Token,
		ciChanged: t.now, phaseAt: t.now, deadline: t.later(spec.Timeout), version: 1, created: t.now, updated: t.now,
	}
	insert(t, &t.batches, batch, &batch.id)

	waiting := t.waiting(spec, t.now)
	if len(waiting) == 0 {
		return none(bot.ClaimNothing)
	}
	var moves []move
	for _, r := range waiting {
		op, found := t.operation(r.operationID)
		if !found || op.Status != bot.OperationWaiting {
			return none(bot.ClaimPreempted)
		}
		moves = append(moves, move{op: op, to: bot.OperationBatched, reason: bot.ReasonClaimed, by: "batchbot", batchID: batch.id})
	}
	if ok, err := t.transition(moves); err != nil || !ok {
		return bot.ClaimResult{Outcome: bot.ClaimPreempted}, err
	}
	for i, r := range waiting {
		change(t, r)
		r.batchID = batch.id
		r.version++
		err := t.addMembers(memberRow{
			batchID: batch.id, operationID: r.operationID, event: bot.MemberClaimed, position: i + 1, headSHA: moves[i].op.HeadSHA, reason: bot.ReasonClaimed,
		})
		if err != nil {
			return bot.ClaimResult{}, err
		}
	}
	batch.size = len(waiting)
	t.log(auditRow{
		dedupe: fmt.Sprintf("batch:%d:claim", batch.id), actor: "batchbot", action: "claim", queueID: spec.QueueID, batchID: batch.id,
		detail: fmt.Sprintf("%s, %d members", spec.Kind, len(waiting)),
	})
	t.tell(moves)
	return bot.ClaimResult{Outcome: bot.ClaimDone, Batch: batch.value(t.now), Members: t.membersOf(batch)}, nil
}

// waiting lists what a claim takes, in order; what was admitted at this very instant waits for the next round.
func (t *tables) waiting(spec bot.ClaimSpec, now int64) []*requestRow {
	waiting := t.requests.all(func(r *requestRow) bool {
		return r.queueID == spec.QueueID && r.batchID == 0 && r.cohort == spec.Cohort && r.created < now
	})
	slices.SortFunc(waiting, inOrder)
	return waiting[:min(len(waiting), spec.Limit)]
}
