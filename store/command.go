package store

import (
	"cmp"
	"context"
	"fmt"

	"github.com/batchbot/batchbot/bot"
)

// longestReply keeps a reply within the payload column, whatever its characters become as JSON.
const longestReply = 10_000

// Answer stores what is to be said to a command that changes no state. fresh is false when the command was handled before: then
// nothing is said again.
func (s *Store) Answer(ctx context.Context, a bot.Answer) (fresh bool, err error) {
	if err := checkCommand(a.Command); err != nil {
		return false, err
	}
	err = s.write(ctx, job{name: "answer command " + a.Command.RequestID, run: func(tx *tx) error {
		var err error
		if fresh, err = tx.recordCommand(ctx, a.Command.RequestID, ""); err != nil {
			return err
		}
		if !fresh {
			return errRollback
		}
		if a.TakesTurn {
			// A merge request that has no row yet has no command before this one, and none to come that is older and matters.
			var id int64
			found, err := one(ctx, tx, `SELECT id FROM merge_request WHERE repository_id = ? AND number = ?`, []any{a.Repository.ID, a.Number}, &id)
			if err != nil {
				return err
			}
			if found {
				if _, err := tx.takeTurn(ctx, id, a.Command.Order); err != nil {
					return err
				}
			}
		}
		var errands []errand
		if a.Reply != "" {
			errands = append(errands, errand{kind: bot.ErrandReply, target: a.Command.RequestID, repositoryID: a.Repository.ID, number: a.Number,
				payload: bot.ErrandPayload{Body: clip(a.Reply, longestReply)}})
		}
		if a.Reaction != "" {
			errands = append(errands, reactionErrand(a.Repository, a.Comment, a.Reaction))
		}
		return tx.arm(ctx, errands...)
	}, landed: func(ctx context.Context) (bool, error) { return s.Handled(ctx, a.Command.RequestID) }})
	return fresh, err
}

// Handled reports whether a command was handled before: whether its idempotency row exists.
func (s *Store) Handled(ctx context.Context, requestID string) (bool, error) {
	_, found, err := s.winner(ctx, requestID)
	return found, err
}

// Acknowledge queues a reaction on a comment. Acknowledging twice in the same way is harmless.
func (s *Store) Acknowledge(ctx context.Context, repo bot.Repository, comment bot.Comment, reaction bot.Reaction) error {
	return s.write(ctx, job{name: fmt.Sprintf("acknowledge %s comment %d of %s", comment.Kind, comment.ID, repo.Path), run: func(tx *tx) error {
		return tx.arm(ctx, reactionErrand(repo, comment, reaction))
	}, landed: looksAgain})
}

// reactionErrand acknowledges a comment. The reaction is part of the target: a comment may get one when it is seen and another when
// it is dealt with, and an errand once stored keeps its payload.
func reactionErrand(repo bot.Repository, comment bot.Comment, reaction bot.Reaction) errand {
	return errand{
		kind:         bot.ErrandReaction,
		target:       fmt.Sprintf("%s:%s:%d:%s", repo.Host, comment.Kind, comment.ID, reaction),
		repositoryID: repo.ID,
		number:       comment.Number,
		payload:      bot.ErrandPayload{Kind: comment.Kind, Comment: comment.ID, Reaction: reaction},
	}
}

// winner reads which operation a command made or moved; found false: the command was not handled.
func (s *Store) winner(ctx context.Context, requestID string) (operationID string, found bool, err error) {
	found, err = one(ctx, s, `SELECT operation_id FROM idempotency WHERE request_id = ?`, []any{requestID}, &operationID)
	if err != nil {
		return "", false, fmt.Errorf("look up command %s: %w", requestID, err)
	}
	return operationID, found, nil
}

// recordCommand writes a command's idempotency row. fresh false: it was handled before; roll back, since the duplicate leaves a lock on the
// winner's row.
func (t *tx) recordCommand(ctx context.Context, requestID, operationID string) (fresh bool, err error) {
	_, fresh, err = t.insert(ctx, &keyIdempotency, `INSERT INTO idempotency (request_id, operation_id, expires_at, created_at) VALUES (?, ?, {later}, {now})`,
		requestID, operationID, micros(t.store.keep.Commands))
	return fresh, err
}

// recordRequest writes an API request's idempotency row, and beside it with resource what it made or changed. fresh false: it was handled before;
// roll back, as with recordCommand. Nil is no request.
func (t *tx) recordRequest(ctx context.Context, r *bot.APIRequest, operationID, resource string) (fresh bool, err error) {
	if r == nil {
		return true, nil
	}
	if fresh, err = t.recordCommand(ctx, r.ID, operationID); err != nil || !fresh {
		return false, err
	}
	err = t.recordResource(ctx, *r, cmp.Or(resource, r.Resource))
	return err == nil, err
}

// recordResource writes what an API request made or changed, beside its idempotency row. That row is the guard; a row of this table that outlived
// it, since both are purged one after the other, must not keep its key from being used anew.
func (t *tx) recordResource(ctx context.Context, r bot.APIRequest, resource string) error {
	if _, err := t.exec(ctx, `DELETE FROM api_request WHERE request_id = ?`, r.ID); err != nil {
		return err
	}
	_, err := t.exec(ctx, `INSERT INTO api_request (request_id, fingerprint, resource, expires_at, created_at) VALUES (?, ?, ?, {later}, {now})`,
		r.ID, r.Fingerprint, resource, micros(t.store.keep.Commands))
	return err
}

// HandledRequest reads what is known of an API request; ok is false when it was not handled, or so long ago that it is forgotten.
func (s *Store) HandledRequest(ctx context.Context, id string) (handled bot.HandledRequest, ok bool, err error) {
	ok, err = one(ctx, s, `SELECT r.fingerprint, r.resource, COALESCE(i.operation_id, '') FROM api_request r
		LEFT JOIN idempotency i ON i.request_id = r.request_id WHERE r.request_id = ?`, []any{id}, &handled.Fingerprint, &handled.Resource, &handled.OperationID)
	if err != nil {
		return bot.HandledRequest{}, false, fmt.Errorf("look up API request %s: %w", id, err)
	}
	return handled, ok, nil
}

// takeTurn makes a command the last one of its merge request. ok false: a later one was before it. Several commands of one comment have the
// same order and come in the order of their lines. The row stays locked to the end, so the state-changing commands of one merge request
// happen one after the other; it comes before every other row in the lock order.
func (t *tx) takeTurn(ctx context.Context, mergeRequestID int64, order bot.CommandOrder) (ok bool, err error) {
	n, err := t.exec(ctx, `UPDATE merge_request SET last_command_at = ?, last_command_id = ?, version = version + 1, updated_at = {now}
		WHERE id = ? AND (last_command_at < ? OR (last_command_at = ? AND last_command_id <= ?))`,
		order.At, order.ID, mergeRequestID, order.At, order.At, order.ID)
	return n == 1, err
}

func checkCommand(c bot.CommandRef) error {
	if c.RequestID == "" || c.RequestID != clip(c.RequestID, 200) {
		return fmt.Errorf("command %q: a request id has 1 to 200 characters", clip(c.RequestID, 64))
	}
	return nil
}
