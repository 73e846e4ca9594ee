package memory

import (
	"cmp"
	"context"
	"fmt"

	"github.com/batchbot/batchbot/bot"
)

// What mutants of this package do, see package mutant: wrong on purpose, and never called in an ordinary build.

// mutantAdmits gives those a claim saw waiting before its transaction their places back, whatever became of them since.
func (t *tx) mutantAdmits(spec bot.ClaimSpec, seen []string) {
	for _, id := range seen {
		o := change(t, t.operationRow(id))
		r := t.requestOf(id)
		if r == nil {
			r = &requestRow{operationID: id, queueID: spec.QueueID, lane: o.lane, cohort: spec.Cohort, version: 1, created: t.now - 1}
			insert(t, &t.requests, r, &r.id)
		}
		if r.batchID == 0 {
			o.status = bot.OperationWaiting
			if b := t.bindings.first(func(b *bindingRow) bool { return b.operationID == id }); b != nil {
				change(t, b).status = bot.OperationWaiting
			}
		}
	}
}

// mutantSettle ends a batch in one transaction and gives its members back in a second one.
func (s *Store) mutantSettle(ctx context.Context, settlement bot.Settlement) (ok bool, err error) {
	var members []bot.Operation
	err = s.write(ctx, fmt.Sprint("settle batch ", settlement.Guard.BatchID), func(t *tx) error {
		b := t.guard(settlement.Guard)
		if ok = b != nil; !ok {
			return errRollback
		}
		members = t.membersOf(b)
		b.status, b.code, b.message = settlement.Status, settlement.Code, cmp.Or(settlement.Message, b.message)
		return nil
	})
	if err != nil || !ok {
		return false, err
	}
	err = s.write(ctx, fmt.Sprint("give back the members of batch ", settlement.Guard.BatchID), func(t *tx) error {
		return t.leave(t.batch(settlement.Guard.BatchID), members, settlement.Members)
	})
	return err == nil, err
}
