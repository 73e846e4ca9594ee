package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// ClaimErrands takes up to limit due errands: next_attempt_at moves lease ahead and attempts grows by one.
func (s *Store) ClaimErrands(ctx context.Context, limit int, lease time.Duration) (taken []bot.Errand, err error) {
	var due []dueRow
	err = s.read(ctx, "look for errands", func(t *tables, now int64) error {
		for _, e := range t.outbox.rows {
			if e.status == errandDue && e.nextAttempt <= now {
				due = append(due, dueRow{e.id, e.attempts, e.nextAttempt})
			}
		}
		due = inTurn(due, limit)
		return nil
	})
	if err != nil || len(due) == 0 {
		return nil, err
	}
	err = s.write(ctx, "claim errands", func(t *tx) error {
		taken = nil
		for _, r := range due {
			e := t.outbox.first(func(e *outboxRow) bool { return e.id == r.id && e.status == errandDue && e.attempts == r.attempts })
			if e == nil {
				continue
			}
			change(t, e)
			e.nextAttempt, e.updated = t.later(lease), t.now
			e.attempts++
			errand := bot.Errand{
				ID: e.id, Kind: e.kind, Target: e.target, Number: e.number, Payload: e.payload, Wanted: e.wanted, Attempts: e.attempts,
			}
			repo := t.repository(e.repositoryID)
			if repo == nil {
				continue
			}
			errand.Repository = repo.value()
			taken = append(taken, errand)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return taken, nil
}

func (t *tx) errand(id int64) *outboxRow {
	return t.outbox.first(func(e *outboxRow) bool { return e.id == id })
}

// FinishErrand records that the errand was done as of its Wanted. If it was wanted again meanwhile it is due again at once.
func (s *Store) FinishErrand(ctx context.Context, errand bot.Errand) error {
	return s.write(ctx, fmt.Sprint("finish errand ", errand.ID), func(t *tx) error {
		e := t.errand(errand.ID)
		switch {
		case e == nil:
		case e.wanted == errand.Wanted:
			change(t, e)
			e.status, e.done, e.attempts, e.err, e.updated = errandDone, errand.Wanted, 0, "", t.now
		case e.status == errandDue && e.attempts == errand.Attempts && e.done < errand.Wanted:
			// The new wish found the errand leased and left it so; whoever holds the lease hands it on.
			change(t, e)
			e.done, e.attempts, e.nextAttempt, e.err, e.updated = errand.Wanted, 0, t.now, "", t.now
		}
		return nil
	})
}

// PostponeErrand makes the errand due again after d, or gives it up for good with reason when d is 0.
func (s *Store) PostponeErrand(ctx context.Context, errand bot.Errand, d time.Duration, reason string) error {
	return s.write(ctx, fmt.Sprint("postpone errand ", errand.ID), func(t *tx) error {
		e := t.errand(errand.ID)
		if e == nil || e.status != errandDue || e.attempts != errand.Attempts {
			return nil
		}
		switch {
		case d <= 0 && e.wanted == errand.Wanted:
			change(t, e)
			e.status, e.err, e.updated = errandGivenUp, clip(reason, longText), t.now
		case e.done < errand.Wanted:
			change(t, e)
			e.nextAttempt, e.err, e.updated = t.later(d), clip(reason, longText), t.now
		}
		return nil
	})
}
