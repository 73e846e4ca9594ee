package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/fault"
)

// The states of an errand, named in the comment of outbox.status.
const (
	errandDue     = 1
	errandDone    = 2
	errandGivenUp = 3
)

// ClaimErrands takes up to limit due errands: next_attempt_at moves lease ahead and attempts grows by one. While the lease lasts
// nobody else is given the errand, even if it is wanted again.
func (s *Store) ClaimErrands(ctx context.Context, limit int, lease time.Duration) ([]bot.Errand, error) {
	var taken []bot.Errand
	err := s.claimDue(ctx, "claim errands", "outbox", errandDue, limit, lease, func(tx *tx, ids []int64) error {
		taken = nil
		return tx.each(ctx, `SELECT o.id, o.kind, o.target, o.number, o.payload, o.wanted, o.attempts, `+repositoryColumns+`
			FROM outbox o JOIN repository r ON r.id = o.repository_id WHERE o.id IN (`+list(len(ids))+`) ORDER BY o.id`,
			anys(ids), func(scan scan) error {
				var e bot.Errand
				var payload []byte
				fields := append([]any{&e.ID, &e.Kind, &e.Target, &e.Number, &payload, &e.Wanted, &e.Attempts}, repositoryFields(&e.Repository)...)
				if err := scan(fields...); err != nil {
					return err
				}
				if err := json.Unmarshal(payload, &e.Payload); err != nil {
					return fmt.Errorf("payload of errand %d: %w", e.ID, err)
				}
				taken = append(taken, e)
				return nil
			})
	})
	if err != nil {
		return nil, err
	}
	return taken, nil
}

// FinishErrand records that the errand was done as of its Wanted. If it was wanted again meanwhile it is due again at once.
func (s *Store) FinishErrand(ctx context.Context, errand bot.Errand) error {
	return s.write(ctx, job{name: fmt.Sprintf("finish errand %d", errand.ID), point: fault.Finish, run: func(tx *tx) error {
		n, err := tx.exec(ctx, `UPDATE outbox SET status = ?, done = ?, attempts = 0, error = '', updated_at = {now} WHERE id = ? AND wanted = ?`,
			errandDone, errand.Wanted, errand.ID, errand.Wanted)
		if err != nil || n == 1 {
			return err
		}
		// The new wish found the errand leased and left it so; whoever holds the lease hands it on. Somebody else's lease stays: attempts
		// differs, or, as it starts again when an errand is done, done does.
		_, err = tx.exec(ctx, `UPDATE outbox SET done = ?, attempts = 0, next_attempt_at = {now}, error = '', updated_at = {now}
			WHERE id = ? AND status = ? AND attempts = ? AND done < ?`, errand.Wanted, errand.ID, errandDue, errand.Attempts, errand.Wanted)
		return err
	}, landed: looksAgain})
}

// PostponeErrand makes the errand due again after d, or gives it up for good with reason when d is 0. A given-up errand stays visible
// to operators and is due again when it is wanted again.
func (s *Store) PostponeErrand(ctx context.Context, errand bot.Errand, d time.Duration, reason string) error {
	return s.write(ctx, job{name: fmt.Sprintf("postpone errand %d", errand.ID), run: func(tx *tx) error {
		if d <= 0 {
			n, err := tx.exec(ctx, `UPDATE outbox SET status = ?, error = ?, updated_at = {now} WHERE id = ? AND status = ? AND attempts = ? AND wanted = ?`,
				errandGivenUp, clip(reason, longText), errand.ID, errandDue, errand.Attempts, errand.Wanted)
			if err != nil || n == 1 {
				return err
			}
		}
		_, err := tx.exec(ctx, `UPDATE outbox SET next_attempt_at = {later}, error = ?, updated_at = {now}
			WHERE id = ? AND status = ? AND attempts = ? AND done < ?`,
			micros(d), clip(reason, longText), errand.ID, errandDue, errand.Attempts, errand.Wanted)
		return err
	}, landed: looksAgain})
}
