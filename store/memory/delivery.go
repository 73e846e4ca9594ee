package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// InsertDelivery stores a delivery before it is answered. A key seen before stores nothing, and if that delivery FAILED it is due
// again, with the payload as it came now. fresh reports whether there is something to do.
func (s *Store) InsertDelivery(ctx context.Context, host, key, event string, payload []byte) (fresh bool, err error) {
	name := "store delivery " + clip(key, 64)
	if key == "" || key != clip(key, 255) || event != clip(event, 64) {
		return false, fmt.Errorf("%s: a delivery needs a key of 1 to 255 characters and an event of at most 64", name)
	}
	err = s.write(ctx, name, func(t *tx) error {
		d := t.deliveries.first(func(d *deliveryRow) bool { return d.host == host && d.key == key })
		if fresh = d == nil; fresh {
			d = &deliveryRow{host: host, key: key, status: bot.DeliveryDue}
			insert(t, &t.deliveries, d, &d.id)
		} else if fresh = d.status == bot.DeliveryFailed; fresh {
			change(t, d)
		}
		if fresh {
			// attempts goes on growing: were it to start again, a worker of the earlier life could finish this one.
			d.status, d.event, d.payload, d.err = bot.DeliveryDue, event, slices.Clone(payload), ""
			d.nextAttempt, d.received, d.updated = t.now, t.now, t.now
		}
		return nil
	})
	return fresh, err
}

// ClaimDeliveries takes up to limit due deliveries in order of arrival: next_attempt_at moves lease ahead and attempts grows by one.
func (s *Store) ClaimDeliveries(ctx context.Context, limit int, lease time.Duration) (taken []bot.Delivery, err error) {
	var due []dueRow
	err = s.read(ctx, "look for deliveries", func(t *tables, now int64) error {
		for _, d := range t.deliveries.rows {
			if d.status == bot.DeliveryDue && d.nextAttempt <= now {
				due = append(due, dueRow{d.id, d.attempts, d.nextAttempt})
			}
		}
		due = inTurn(due, limit)
		return nil
	})
	if err != nil || len(due) == 0 {
		return nil, err
	}
	err = s.write(ctx, "claim deliveries", func(t *tx) error {
		taken = nil
		for _, r := range due {
			d := t.deliveries.first(func(d *deliveryRow) bool {
				return d.id == r.id && d.status == bot.DeliveryDue && d.attempts == r.attempts
			})
			if d == nil {
				continue
			}
			change(t, d)
			d.nextAttempt, d.updated = t.later(lease), t.now
			d.attempts++
			taken = append(taken, bot.Delivery{ID: d.id, Host: d.host, Key: d.key, Event: d.event, Payload: slices.Clone(d.payload), Attempts: d.attempts})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return taken, nil
}

// dueRow is a row that is due as it was read; attempts guards its taking.
type dueRow struct {
	id       int64
	attempts int
	next     int64
}

// inTurn keeps those that became due first, ordered by id.
func inTurn(due []dueRow, limit int) []dueRow {
	slices.SortFunc(due, func(a, b dueRow) int { return cmp.Or(cmp.Compare(a.next, b.next), cmp.Compare(a.id, b.id)) })
	due = due[:min(len(due), limit)]
	slices.SortFunc(due, func(a, b dueRow) int { return cmp.Compare(a.id, b.id) })
	return due
}

// FinishDelivery records the outcome if attempts is still what was claimed; done false means that somebody else took it over.
func (s *Store) FinishDelivery(ctx context.Context, id int64, attempts int, outcome bot.DeliveryOutcome) (done bool, err error) {
	err = s.write(ctx, fmt.Sprint("finish delivery ", id), func(t *tx) error {
		d := t.deliveries.first(func(d *deliveryRow) bool { return d.id == id && d.status == bot.DeliveryDue && d.attempts == attempts })
		if done = d != nil; done {
			change(t, d)
			d.status, d.err, d.nextAttempt, d.updated = outcome.Status, clip(outcome.Error, longText), t.later(outcome.RetryIn), t.now
		}
		return nil
	})
	return done, err
}

// How long what is received is kept.
const (
	keepPayloads = 7 * 24 * time.Hour
	keepErrands  = 7 * 24 * time.Hour
)

// PurgeOld deletes payloads, keys, idempotency rows and errands that are done past their time.
func (s *Store) PurgeOld(ctx context.Context) error {
	return s.write(ctx, "purge what is old", func(t *tx) error {
		for _, d := range t.deliveries.rows {
			if d.received < t.now-keepPayloads.Microseconds() && d.payload != nil {
				change(t, d)
				d.payload, d.updated = nil, t.now
				if d.status == bot.DeliveryDue {
					d.status, d.err = bot.DeliveryFailed, fmt.Sprintf("not applied within %s, after which payloads are deleted", keepPayloads)
				}
			}
		}
		remove(t, &t.deliveries, func(d *deliveryRow) bool { return d.received < t.now-keepKeys.Microseconds() })
		remove(t, &t.outbox, func(o *outboxRow) bool {
			return o.status == errandDone && o.nextAttempt < t.now-keepErrands.Microseconds()
		})
		remove(t, &t.commands, func(c *idempotencyRow) bool { return c.expires < t.now })
		return nil
	})
}
