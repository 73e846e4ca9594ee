package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// How long what is received is kept.
const (
	keepPayloads = 7 * 24 * time.Hour  // what a delivery said: long enough to find out why it failed
	keepErrands  = 7 * 24 * time.Hour  // that a side effect was done: for operators who look
	keepKeys     = 90 * 24 * time.Hour // that a delivery or a command was seen: longer than anything can be redelivered
)

const purgeLock = "job/purge"

// PurgeOld deletes payloads, keys, idempotency rows and errands that are done past their time by the database's clock. It works in chunks, each a short
// transaction of its own, so that it never keeps a delivery or a command waiting, and may be stopped and run by several at any time. Of
// several instances that call it at once one does it and the others return; that saves work, nothing depends on it.
func (s *Store) PurgeOld(ctx context.Context) error {
	release, held, err := s.TryLock(ctx, purgeLock)
	if err != nil || !held {
		return err
	}
	defer release()
	if err := s.purgePayloads(ctx); err != nil {
		return err
	}
	err = purge(ctx, s, "purge delivery keys",
		`SELECT id FROM delivery WHERE received_at < {ago} ORDER BY received_at, id LIMIT ?`, []any{micros(keepKeys)},
		`DELETE FROM delivery WHERE received_at < {ago} AND id IN (%s)`, []any{micros(keepKeys)}, new(int64))
	if err != nil {
		return err
	}
	// An errand that is wanted again is a new row; one that is due or given up stays whatever its age.
	err = purge(ctx, s, "purge errands that are done",
		`SELECT id FROM outbox WHERE status = ? AND next_attempt_at < {ago} ORDER BY next_attempt_at, id LIMIT ?`, []any{errandDone, micros(keepErrands)},
		`DELETE FROM outbox WHERE status = ? AND next_attempt_at < {ago} AND id IN (%s)`, []any{errandDone, micros(keepErrands)}, new(int64))
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
	return purge(ctx, s, "purge payloads",
		`SELECT id FROM delivery WHERE received_at < {ago} AND payload IS NOT NULL
			AND received_at >= COALESCE((SELECT d.received_at FROM delivery d WHERE d.received_at < {ago} AND d.payload IS NULL ORDER BY d.received_at DESC LIMIT 1),
				(SELECT MIN(d.received_at) FROM delivery d))
			ORDER BY received_at, id LIMIT ?`, []any{micros(keepPayloads), micros(keepPayloads)},
		// A delivery still due has nothing to work on any more: it ends with a word about why.
		`UPDATE delivery SET payload = NULL, updated_at = {now},
			error = CASE WHEN status = ? THEN 'not applied within 7 days' ELSE error END,
			status = CASE WHEN status = ? THEN ? ELSE status END
			WHERE received_at < {ago} AND id IN (%s)`,
		[]any{bot.DeliveryDue, bot.DeliveryDue, bot.DeliveryFailed, micros(keepPayloads)}, new(int64))
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
