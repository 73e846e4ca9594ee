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

// InsertDelivery stores a delivery before it is answered. A key seen before stores nothing, and if that delivery FAILED it is due
// again, with the payload as it came now. fresh reports whether there is something to do.
func (s *Store) InsertDelivery(ctx context.Context, host, key, event string, payload []byte) (fresh bool, err error) {
	name := fmt.Sprintf("store delivery %q of host %s", clip(key, 64), host)
	if key == "" || key != clip(key, 255) || event != clip(event, 64) {
		return false, fmt.Errorf("%s: a delivery needs a key of 1 to 255 characters and an event of at most 64", name)
	}
	err = s.write(ctx, job{name: name, point: fault.Delivery, run: func(tx *tx) error {
		_, inserted, err := tx.insert(ctx, &keyDelivery, `INSERT INTO delivery
			(host, delivery_key, event, payload, status, attempts, next_attempt_at, error, received_at, updated_at)
			VALUES (?, ?, ?, ?, ?, 0, {now}, '', {now}, {now})`, host, key, event, payload, bot.DeliveryDue)
		if fresh = inserted; err != nil || inserted {
			return err
		}
		// A host that sends one delivery several times at once sends it anew: to write a row that was not FAILED would be a deadlock of those
		// whose duplicates all share its lock, and for nothing.
		var id int64
		if found, err := one(ctx, tx, `SELECT id FROM delivery WHERE host = ? AND delivery_key = ? AND status = ?`,
			[]any{host, key, bot.DeliveryFailed}, &id); err != nil || !found {
			return cmp.Or(err, errRollback)
		}
		// attempts goes on growing: were it to start again, a worker of the earlier life could finish this one.
		n, err := tx.exec(ctx, `UPDATE delivery SET status = ?, event = ?, payload = ?, error = '', next_attempt_at = {now}, received_at = {now},
			updated_at = {now} WHERE host = ? AND delivery_key = ? AND status = ?`,
			bot.DeliveryDue, event, payload, host, key, bot.DeliveryFailed)
		fresh = n == 1
		return err
	}, landed: func(ctx context.Context) (bool, error) {
		// Somebody else's delivery of the same key looks the same: either way it is stored, and due or dealt with.
		found, err := s.exists(ctx, `SELECT 1 FROM delivery WHERE host = ? AND delivery_key = ? AND status <> ?`, host, key, bot.DeliveryFailed)
		fresh = found
		return found, err
	}})
	return fresh, err
}

// ClaimDeliveries takes up to limit due deliveries in order of arrival: next_attempt_at moves lease ahead and attempts grows by one, so
// that a crash merely makes them due again. Which are taken is decided by when they became due, so that those that fail again and again
// cannot keep newer ones waiting.
func (s *Store) ClaimDeliveries(ctx context.Context, limit int, lease time.Duration) ([]bot.Delivery, error) {
	var taken []bot.Delivery
	err := s.claimDue(ctx, "claim deliveries", "delivery", int(bot.DeliveryDue), limit, lease, func(tx *tx, ids []int64) error {
		taken = nil
		return tx.each(ctx, `SELECT id, host, delivery_key, event, payload, attempts FROM delivery {pinned} WHERE id IN (`+list(len(ids))+`) ORDER BY id`,
			anys(ids), func(scan scan) error {
				var d bot.Delivery
				if err := scan(&d.ID, &d.Host, &d.Key, &d.Event, &d.Payload, &d.Attempts); err != nil {
					return err
				}
				taken = append(taken, d)
				return nil
			})
	})
	if err != nil {
		return nil, err
	}
	return taken, nil
}

// FinishDelivery records the outcome if attempts is still what was claimed; done false means that somebody else took it over.
func (s *Store) FinishDelivery(ctx context.Context, id int64, attempts int, outcome bot.DeliveryOutcome) (done bool, err error) {
	err = s.write(ctx, job{name: fmt.Sprintf("finish delivery %d", id), run: func(tx *tx) error {
		n, err := tx.exec(ctx, `UPDATE delivery SET status = ?, error = ?, next_attempt_at = {later}, updated_at = {now}
			WHERE id = ? AND status = ? AND attempts = ?`,
			outcome.Status, clip(outcome.Error, longText), micros(outcome.RetryIn), id, bot.DeliveryDue, attempts)
		done = n == 1
		return err
	}, landed: func(ctx context.Context) (bool, error) {
		landed, err := s.exists(ctx, `SELECT 1 FROM delivery WHERE id = ? AND status = ? AND attempts = ? AND status <> ?`,
			id, outcome.Status, attempts, bot.DeliveryDue)
		done = landed
		return landed, err
	}})
	return done, err
}

// claimDue takes due rows of a table that has status, next_attempt_at and attempts. Workers that meet at the same rows do not take one
// twice: each row is guarded by the attempts that were read.
func (s *Store) claimDue(ctx context.Context, name, table string, due, limit int, lease time.Duration, read func(tx *tx, ids []int64) error) error {
	type row struct {
		id       int64
		attempts int
	}
	var rows []row
	// Outside the transaction: an idle worker asks all the time and has nothing to write.
	err := s.each(ctx, `SELECT id, attempts FROM `+table+` WHERE status = ? AND next_attempt_at <= {now} ORDER BY next_attempt_at, id LIMIT ?`,
		[]any{due, min(limit, chunkSize)}, func(scan scan) error {
			var r row
			if err := scan(&r.id, &r.attempts); err != nil {
				return err
			}
			rows = append(rows, r)
			return nil
		})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if len(rows) == 0 {
		return nil
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(a.id, b.id) })
	// After a lost COMMIT nobody knows who has the rows: they become due again when the lease ends, and the caller just asks again.
	return s.write(ctx, job{name: name, run: func(tx *tx) error {
		var ids []int64
		for _, r := range rows {
			n, err := tx.exec(ctx, `UPDATE `+table+` SET next_attempt_at = {later}, attempts = attempts + 1, updated_at = {now}
				WHERE id = ? AND status = ? AND attempts = ?`, micros(lease), r.id, due, r.attempts)
			if err != nil {
				return err
			}
			if n == 1 {
				ids = append(ids, r.id)
			}
		}
		if len(ids) == 0 {
			return errRollback
		}
		return read(tx, ids)
	}})
}

// exists reports whether a query finds anything, outside any transaction.
func (s *Store) exists(ctx context.Context, query string, args ...any) (bool, error) {
	var any int
	return one(ctx, s, query, args, &any)
}
