package store

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// EndedBatches lists up to limit batches of a queue that ended within age, newest first.
func (s *Store) EndedBatches(ctx context.Context, queueID int64, age time.Duration, limit int) ([]bot.EndedBatch, error) {
	var list []bot.EndedBatch
	err := s.each(ctx, `SELECT `+batchColumns+` FROM merge_batch b WHERE b.queue_id = ? AND b.status IN (?, ?) AND b.updated_at > {ago}
		ORDER BY b.id DESC LIMIT ?`, []any{queueID, bot.BatchSucceeded, bot.BatchFailed, micros(age), limit}, func(scan scan) error {
		var b bot.EndedBatch
		err := scanBatch(scan, &b.Batch)
		list = append(list, b)
		return err
	})
	for i := range list {
		if err == nil {
			err = s.stillOpen(ctx, &list[i])
		}
	}
	if err != nil {
		return nil, fmt.Errorf("list the batches of queue %d that are over: %w", queueID, err)
	}
	return list, nil
}

// stillOpen fills in what is known to be open about a batch that is over.
func (s *Store) stillOpen(ctx context.Context, b *bot.EndedBatch) (err error) {
	target := strconv.FormatInt(b.Batch.ID, 10)
	due := func(kind bot.ErrandKind) bool {
		var found bool
		if err == nil {
			found, err = s.exists(ctx, `SELECT 1 FROM outbox WHERE kind = ? AND target = ? AND status = ?`, kind, target, errandDue)
		}
		return found
	}
	b.BranchDue, b.MRDue = due(bot.ErrandDeleteBranch), due(bot.ErrandBatchMR)
	if err == nil {
		b.LandedLate, err = s.exists(ctx, `SELECT 1 FROM audit WHERE dedupe_key = ?`, landedLateKey(b.Batch.ID))
	}
	return err
}

// ErrandDue reports whether an errand is still to be done.
func (s *Store) ErrandDue(ctx context.Context, kind bot.ErrandKind, target string) (bool, error) {
	return s.exists(ctx, `SELECT 1 FROM outbox WHERE kind = ? AND target = ? AND status = ?`, kind, target, errandDue)
}

// GivenUpErrands lists up to limit errands that were given up, oldest first, in a repository or, when repositoryID is 0, everywhere.
func (s *Store) GivenUpErrands(ctx context.Context, repositoryID int64, limit int) ([]bot.GivenUpErrand, error) {
	where, args := `o.status = ?`, []any{errandGivenUp}
	if repositoryID != 0 {
		where, args = where+` AND o.repository_id = ?`, append(args, repositoryID)
	}
	var list []bot.GivenUpErrand
	err := s.each(ctx, `SELECT {now}, o.updated_at, o.error, o.id, o.kind, o.target, o.number, o.wanted, o.attempts, `+repositoryColumns+`
		FROM outbox o JOIN repository r ON r.id = o.repository_id WHERE `+where+` ORDER BY o.id LIMIT ?`, append(args, limit), func(scan scan) error {
		var e bot.GivenUpErrand
		var now, since instant
		fields := []any{&now, &since, &e.Reason, &e.Errand.ID, &e.Errand.Kind, &e.Errand.Target, &e.Errand.Number, &e.Errand.Wanted, &e.Errand.Attempts}
		err := scan(append(fields, repositoryFields(&e.Errand.Repository)...)...)
		e.Age = now.Sub(since.Time)
		list = append(list, e)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the errands that were given up: %w", err)
	}
	return list, nil
}

// FailedDeliveries lists up to limit deliveries that were given up, oldest first.
func (s *Store) FailedDeliveries(ctx context.Context, limit int) ([]bot.FailedDelivery, error) {
	var list []bot.FailedDelivery
	err := s.each(ctx, `SELECT {now}, received_at, error, payload IS NULL, id, host, delivery_key, event, attempts FROM delivery
		WHERE status = ? ORDER BY id LIMIT ?`, []any{bot.DeliveryFailed, limit}, func(scan scan) error {
		var d bot.FailedDelivery
		var now, since instant
		err := scan(&now, &since, &d.Reason, &d.Purged, &d.Delivery.ID, &d.Delivery.Host, &d.Delivery.Key, &d.Delivery.Event, &d.Delivery.Attempts)
		d.Age = now.Sub(since.Time)
		list = append(list, d)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the deliveries that failed: %w", err)
	}
	return list, nil
}

// RetryErrand makes an errand that was given up due again, with all its tries. changed is false when it is not given up any more.
func (s *Store) RetryErrand(ctx context.Context, id int64, by, source string) (changed bool, err error) {
	err = s.write(ctx, job{name: fmt.Sprintf("retry errand %d", id), run: func(tx *tx) error {
		n, err := tx.exec(ctx, `UPDATE outbox SET status = ?, attempts = 0, error = '', wanted = wanted + 1, next_attempt_at = {now}, updated_at = {now}
			WHERE id = ? AND status = ?`, errandDue, id, errandGivenUp)
		if changed = n == 1; err != nil || !changed {
			return err
		}
		var wanted int64
		var kind bot.ErrandKind
		var target string
		if _, err := one(ctx, tx, `SELECT wanted, kind, target FROM outbox WHERE id = ?`, []any{id}, &wanted, &kind, &target); err != nil {
			return err
		}
		return tx.audit(ctx, auditEntry{
			dedupe: fmt.Sprintf("errand:%d:%d", id, wanted), actor: by, action: "retry errand", source: source, detail: kind.String() + " " + target,
		})
	}, landed: looksAgain})
	return changed, err
}

// RetryDelivery makes a delivery that was given up due once more. changed is false when it is not given up any more, or when its payload is gone.
func (s *Store) RetryDelivery(ctx context.Context, id int64, by, source string) (changed bool, err error) {
	err = s.write(ctx, job{name: fmt.Sprintf("retry delivery %d", id), run: func(tx *tx) error {
		var key string
		var attempts int
		if found, err := one(ctx, tx, `SELECT delivery_key, attempts FROM delivery WHERE id = ?`, []any{id}, &key, &attempts); err != nil || !found {
			return missing(err, "its row")
		}
		// attempts stays: were it to start again, a worker of the earlier life could finish this one.
		n, err := tx.exec(ctx, `UPDATE delivery SET status = ?, error = '', next_attempt_at = {now}, updated_at = {now}
			WHERE id = ? AND status = ? AND attempts = ? AND payload IS NOT NULL`, bot.DeliveryDue, id, bot.DeliveryFailed, attempts)
		if changed = n == 1; err != nil || !changed {
			return err
		}
		return tx.audit(ctx, auditEntry{
			dedupe: fmt.Sprintf("delivery:%d:%d", id, attempts), actor: by, action: "retry delivery", source: source, detail: key,
		})
	}, landed: looksAgain})
	return changed, err
}

// WantErrand has something said or done on the host that is not on its way: an errand that is a projection, so without a payload.
func (s *Store) WantErrand(ctx context.Context, e bot.Errand, by, source string) error {
	name := fmt.Sprintf("want %s %s", e.Kind, e.Target)
	if e.Kind == bot.ErrandReply || e.Kind == bot.ErrandReaction {
		return fmt.Errorf("%s: it carries what is to be said, and only whoever has that can want it", name)
	}
	return s.write(ctx, job{name: name, run: func(tx *tx) error {
		if err := tx.arm(ctx, errand{kind: e.Kind, target: e.Target, repositoryID: e.Repository.ID, number: e.Number}); err != nil {
			return err
		}
		var id, wanted int64
		if _, err := one(ctx, tx, `SELECT id, wanted FROM outbox WHERE kind = ? AND target = ?`, []any{e.Kind, e.Target}, &id, &wanted); err != nil {
			return err
		}
		return tx.audit(ctx, auditEntry{
			dedupe: fmt.Sprintf("errand:%d:%d", id, wanted), actor: by, action: "want errand", source: source, detail: e.Kind.String() + " " + e.Target,
		})
	}, landed: looksAgain})
}
