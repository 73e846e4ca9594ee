package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// revisitAfter is how long the host has to show everywhere what was just done to a batch MR.
const revisitAfter = 5 * time.Second

// RevisitBatch makes the bot look at the MR of a batch that is over: somebody reopened or merged it. Wanting it twice is one look more.
func (s *Store) RevisitBatch(ctx context.Context, batchID int64) error {
	return s.write(ctx, fmt.Sprint("look again at the merge request of batch ", batchID), func(t *tx) error {
		if b := t.batch(batchID); b != nil && b.mrNumber != 0 {
			e := batchErrand(bot.ErrandBatchMR, b, t.queue(b.queueID).repositoryID)
			e.nextAttempt = revisitAfter.Microseconds()
			t.arm(e)
		}
		return nil
	})
}

// LandedLate records that the MR of a batch that is over was merged after all, with the operations whose pinned heads it brought in. fresh is
// false when it was recorded before.
func (s *Store) LandedLate(ctx context.Context, batchID int64, landed string, operationIDs []string) (fresh bool, err error) {
	err = s.write(ctx, fmt.Sprintf("record that batch %d landed late", batchID), func(t *tx) error {
		b := t.batch(batchID)
		switch {
		case b == nil:
			return missing("batch %d", batchID)
		case b.active():
			return fmt.Errorf("it is %s, and only a batch that is over can be late", b.status)
		}
		key := fmt.Sprintf("batch:%d:landed late", batchID)
		if fresh = t.audit.first(func(r *auditRow) bool { return r.dedupe == key }) == nil; !fresh {
			return errRollback
		}
		t.log(auditRow{dedupe: key, actor: "batchbot", action: "landed late", queueID: b.queueID, batchID: b.id, detail: "LANDED_LATE as " + landed})
		places := t.places(batchID)
		for _, id := range slices.Sorted(slices.Values(operationIDs)) {
			if places[id] == 0 {
				return fmt.Errorf("operation %s never rode in it", id)
			}
			err := t.addMembers(memberRow{
				batchID: batchID, operationID: id, event: bot.MemberLandedLate, build: b.build, position: places[id], reason: bot.ReasonLandedLate, detail: landed,
			})
			if err != nil {
				return err
			}
		}
		t.arm(batchErrand(bot.ErrandBatchReport, b, t.queue(b.queueID).repositoryID))
		return nil
	})
	return fresh && err == nil, err
}
