package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// revisitAfter is how long the host has to show everywhere what was just done to a batch MR, its closing by the bot itself above all.
const revisitAfter = 5 * time.Second

// RevisitBatch makes the bot look at the MR of a batch that is over: somebody reopened or merged it. Wanting it twice is one look more.
func (s *Store) RevisitBatch(ctx context.Context, batchID int64) error {
	return s.write(ctx, job{name: fmt.Sprintf("look at the merge request of batch %d again", batchID), run: func(tx *tx) error {
		batch, found, err := readBatch(ctx, tx, `b.id = ?`, batchID)
		if err != nil || !found || batch.MRNumber == 0 {
			return err
		}
		repositoryID, err := repositoryOf(ctx, tx, batch.QueueID)
		if err != nil {
			return err
		}
		e := batchErrand(bot.ErrandBatchMR, batch, repositoryID)
		e.after = revisitAfter
		return tx.arm(ctx, e)
	}, landed: looksAgain})
}

// LandedLate records that the MR of a batch that is over was merged after all, with the operations whose pinned heads it brought in: in the
// batch's history and the audit. The batch itself never changes any more. fresh is false when it was recorded before.
func (s *Store) LandedLate(ctx context.Context, batchID int64, landed string, operationIDs []string) (fresh bool, err error) {
	key := landedLateKey(batchID)
	err = s.write(ctx, job{name: fmt.Sprintf("record that batch %d landed late", batchID), run: func(tx *tx) error {
		batch, found, err := readBatch(ctx, tx, `b.id = ?`, batchID)
		if err != nil || !found {
			return missing(err, "its row")
		}
		if batch.Status.Active() {
			return fmt.Errorf("it is %s, and only a batch that is over can be late", batch.Status)
		}
		_, fresh, err = tx.insert(ctx, &keyAudit, `INSERT INTO audit (dedupe_key, actor, action, queue_id, operation_id, batch_id, source, detail, created_at)
			VALUES (?, 'batchbot', 'landed late', ?, '', ?, '', ?, {now})`, key, batch.QueueID, batchID, clip("LANDED_LATE as "+landed, longText))
		if err != nil {
			return err
		}
		if !fresh {
			return errRollback
		}
		places, err := tx.places(ctx, batchID)
		if err != nil {
			return err
		}
		ids := slices.Sorted(slices.Values(operationIDs))
		var entries []memberEntry
		for _, id := range ids {
			if places[id] == 0 {
				return tx.fail(fmt.Errorf("operation %s never rode in it", id))
			}
			entries = append(entries, memberEntry{batchID: batchID, operationID: id, event: bot.MemberLandedLate, build: batch.Build, position: places[id],
				reason: bot.ReasonLandedLate, detail: landed})
		}
		if err := tx.addMembers(ctx, entries); err != nil {
			return err
		}
		repositoryID, err := repositoryOf(ctx, tx, batch.QueueID)
		if err != nil {
			return err
		}
		return tx.arm(ctx, batchErrand(bot.ErrandBatchReport, batch, repositoryID))
	}, landed: func(ctx context.Context) (bool, error) {
		return s.exists(ctx, `SELECT 1 FROM audit WHERE dedupe_key = ?`, key)
	}})
	return fresh && err == nil, err
}

// landedLateKey is the audit's key of a late landing: it is recorded once.
func landedLateKey(batchID int64) string { return fmt.Sprintf("batch:%d:landed late", batchID) }
