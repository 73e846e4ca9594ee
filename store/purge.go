package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// Retention says how long what has been received and done is kept, by the database's clock. History, membership, audit, operations and
// batches are kept for good. Zero durations have defaults.
type Retention struct {
	Payloads   time.Duration // what a delivery said: long enough to find out why it failed; default 7 days
	Deliveries time.Duration // that a delivery came: longer than the host sends it again; default 90 days
	Commands   time.Duration // that a command was dealt with: no shorter than its delivery is known; default 90 days
	Errands    time.Duration // that a side effect was done: for operators who look; default 7 days
}

func (r Retention) withDefaults() Retention {
	const day = 24 * time.Hour
	return Retention{cmp.Or(r.Payloads, 7*day), cmp.Or(r.Deliveries, 90*day), cmp.Or(r.Commands, 90*day), cmp.Or(r.Errands, 7*day)}
}

// PurgeOld deletes payloads, keys, idempotency rows, API requests and errands that are done past their time (Options.Retention). It works in chunks, each a short
// transaction of its own, so that it never keeps a delivery or a command waiting, and may be stopped and run by several at any time. Of
// several instances that call it at once one does it and the others return; that saves work, nothing depends on it.
func (s *Store) PurgeOld(ctx context.Context) error {
	ctx, release, ok, err := s.TryLock(ctx, "job/purge")
	if err != nil || !ok {
		return err
	}
	defer release()
	if err := s.purgePayloads(ctx); err != nil {
		return err
	}
	age := micros(s.keep.Deliveries)
	err = purge(ctx, s, "purge delivery keys",
		`SELECT id FROM delivery WHERE received_at < {ago} ORDER BY received_at, id LIMIT ?`, []any{age},
		`DELETE FROM delivery WHERE received_at < {ago} AND id IN (%s)`, []any{age}, new(int64))
	if err != nil {
		return err
	}
	// An errand that is wanted again is a new row; one that is due or given up stays whatever its age. A reminder must be known for as long as
	// somebody may be reminded of the same, or it would be said again.
	for _, kept := range []struct {
		kinds string
		age   time.Duration
	}{{"<>", s.keep.Errands}, {"=", max(s.keep.Errands, bot.ReminderLimit)}} {
		age = micros(kept.age)
		err = purge(ctx, s, "purge errands that are done",
			`SELECT id FROM outbox WHERE status = ? AND next_attempt_at < {ago} AND kind `+kept.kinds+` ? ORDER BY next_attempt_at, id LIMIT ?`, []any{errandDone, age, bot.ErrandReminder},
			`DELETE FROM outbox WHERE status = ? AND next_attempt_at < {ago} AND id IN (%s)`, []any{errandDone, age}, new(int64))
		if err != nil {
			return err
		}
	}
	err = purge(ctx, s, "purge API requests",
		`SELECT request_id FROM api_request WHERE expires_at < {now} ORDER BY expires_at, request_id LIMIT ?`, nil,
		`DELETE FROM api_request WHERE expires_at < {now} AND request_id IN (%s)`, nil, new(string))
	if err != nil {
		return err
	}
	return purge(ctx, s, "purge idempotency rows",
		`SELECT request_id FROM idempotency WHERE expires_at < {now} ORDER BY expires_at, request_id LIMIT ?`, nil,
		`DELETE FROM idempotency WHERE expires_at < {now} AND request_id IN (%s)`, nil, new(string))
}

// purgePayloads goes from the oldest delivery on and begins at the newest payload purged before, instead of reading again every
// delivery whose key is still kept. A delivery that becomes due again counts as received anew, so none is left behind that mark.
func (s *Store) purgePayloads(ctx context.Context) error {
	age := micros(s.keep.Payloads)
	return purge(ctx, s, "purge payloads",
		`SELECT id FROM delivery WHERE received_at < {ago} AND payload IS NOT NULL
			AND received_at >= COALESCE((SELECT d.received_at FROM delivery d WHERE d.received_at < {ago} AND d.payload IS NULL ORDER BY d.received_at DESC LIMIT 1),
				(SELECT MIN(d.received_at) FROM delivery d))
			ORDER BY received_at, id LIMIT ?`, []any{age, age},
		// A delivery still due has nothing to work on any more: it ends with a word about why.
		`UPDATE delivery SET payload = NULL, updated_at = {now},
			error = CASE WHEN status = ? THEN ? ELSE error END,
			status = CASE WHEN status = ? THEN ? ELSE status END
			WHERE received_at < {ago} AND id IN (%s)`,
		[]any{bot.DeliveryDue, fmt.Sprintf("not applied within %s, after which payloads are deleted", s.keep.Payloads), bot.DeliveryDue, bot.DeliveryFailed, age}, new(int64))
}

// purge repeats: find at most one chunk of keys outside any transaction, end those rows in a short one. key is where a key is scanned to.
func purge[K any](ctx context.Context, s *Store, name, find string, findArgs []any, end string, endArgs []any, key *K) error {
	for {
		var keys []any
		err := s.each(ctx, find, append(slices.Clip(findArgs), chunkSize), func(scan scan) error {
			if err := scan(key); err != nil {
				return err
			}
			keys = append(keys, *key)
			return nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if len(keys) == 0 {
			return nil
		}
		err = s.write(ctx, job{name: name, run: func(tx *tx) error {
			_, err := tx.exec(ctx, fmt.Sprintf(end, list(len(keys))), append(slices.Clip(endArgs), keys...)...)
			return err
		}, landed: looksAgain})
		if err != nil {
			return err
		}
		if len(keys) < chunkSize {
			return nil
		}
	}
}
