package memory

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/mutant"
)

const (
	applyTries    = 3
	defaultExpiry = 30 * 24 * time.Hour
	keepKeys      = 90 * 24 * time.Hour
)

func checkCommand(c bot.CommandRef) error {
	if c.RequestID == "" || c.RequestID != clip(c.RequestID, 200) {
		return fmt.Errorf("command %q: a request id has 1 to 200 characters", clip(c.RequestID, 64))
	}
	return nil
}

// Apply makes an operation, in one transaction with its command's idempotency row. Whatever it does not do leaves no trace.
func (s *Store) Apply(ctx context.Context, a bot.Application) (bot.ApplyResult, error) {
	if err := checkCommand(a.Command); err != nil {
		return bot.ApplyResult{}, err
	}
	if a.OperationID == "" || a.MR.HeadSHA == "" {
		return bot.ApplyResult{}, fmt.Errorf("command %s: an application needs an operation id and a head to pin", a.Command.RequestID)
	}
	winner, handled, err := s.winner(ctx, a.Command.RequestID)
	if err != nil {
		return bot.ApplyResult{}, err
	}
	if handled {
		return s.applied(ctx, bot.ApplyDuplicate, winner)
	}
	mr, err := s.RecordMR(ctx, a.Repository.ID, a.MR)
	if err != nil {
		return bot.ApplyResult{}, err
	}
	for range applyTries {
		outcome, current, err := s.apply(ctx, a, mr.ID)
		if err != nil {
			return bot.ApplyResult{}, err
		}
		switch outcome {
		case bot.ApplyRetryLater:
			continue
		case bot.ApplyDuplicate:
			winner, handled, err := s.winner(ctx, a.Command.RequestID)
			if err != nil {
				return bot.ApplyResult{}, err
			}
			if !handled {
				continue
			}
			current = winner
		}
		return s.applied(ctx, outcome, current)
	}
	return bot.ApplyResult{Outcome: bot.ApplyRetryLater}, nil
}

// winner reads which operation a command made or moved; found false: the command was not handled.
func (s *Store) winner(ctx context.Context, requestID string) (operationID string, found bool, err error) {
	err = s.read(ctx, "look up command "+requestID, func(t *tables, _ int64) error {
		if row := t.command(requestID); row != nil {
			operationID, found = row.operationID, true
		}
		return nil
	})
	return operationID, found, err
}

func (t *tables) command(requestID string) *idempotencyRow {
	if mutant.Is(mutant.Idempotency) {
		return nil
	}
	return t.commands.first(func(r *idempotencyRow) bool { return r.requestID == requestID })
}

func (s *Store) applied(ctx context.Context, outcome bot.ApplyOutcome, operationID string) (bot.ApplyResult, error) {
	result := bot.ApplyResult{Outcome: outcome}
	if operationID == "" {
		return result, nil
	}
	err := s.read(ctx, "read operation "+operationID, func(t *tables, _ int64) error {
		op, found := t.operation(operationID)
		if !found {
			return missing("operation %s", operationID)
		}
		result.Operation = op
		return nil
	})
	if err != nil {
		return bot.ApplyResult{}, err
	}
	return result, nil
}

// apply tries once. current is the operation the answer is about; ApplyRetryLater: somebody was faster, look again.
func (s *Store) apply(ctx context.Context, a bot.Application, mrID int64) (outcome bot.ApplyOutcome, current string, err error) {
	err = s.write(ctx, fmt.Sprint("apply merge request ", a.MR.Number), func(t *tx) error {
		refuse := func(as bot.ApplyOutcome) error {
			outcome = as
			return errRollback
		}
		current = ""
		if !t.recordCommand(a.Command.RequestID, a.OperationID) {
			return refuse(bot.ApplyDuplicate)
		}
		if !t.takeTurn(mrID, a.Command.Order) {
			return refuse(bot.ApplySuperseded)
		}
		queue := t.queue(a.QueueID)
		switch {
		case queue == nil:
			return missing("queue %d", a.QueueID)
		case queue.repositoryID != a.Repository.ID || queue.target != a.MR.Target:
			return fmt.Errorf("queue %d is for branch %q of repository %d, and the merge request is for %q of %d",
				a.QueueID, queue.target, queue.repositoryID, a.MR.Target, a.Repository.ID)
		}
		bound := t.bindings.first(func(b *bindingRow) bool { return b.subjectID == mrID && b.target == queue.target })
		if mutant.Is(mutant.Idempotency) {
			bound = nil
		}
		if bound != nil {
			current = bound.operationID
			old := t.operationRow(current)
			switch bot.Reapply(bound.status, old.headSHA, a.MR.HeadSHA) {
			case bot.ReapplyActive:
				return refuse(bot.ApplyActive)
			case bot.ReapplyNeedsRetry:
				return refuse(bot.ApplyNeedsRetry)
			case bot.ReapplyLanded:
				return refuse(bot.ApplyLanded)
			}
		}
		if t.operationRow(a.OperationID) != nil {
			return fmt.Errorf("operation %s exists", a.OperationID)
		}
		status := bot.OperationPendingApproval
		if a.Admit {
			status = bot.OperationWaiting
		}
		op := &operationRow{
			id: a.OperationID, repositoryID: a.Repository.ID, queueID: a.QueueID, mrID: mrID, status: status, requester: clip(a.Command.By, 255),
			headSHA: a.MR.HeadSHA, lane: cmp.Or(a.Lane, bot.LaneNormal), reason: bot.ReasonApplied, detail: clip(a.Detail, longText),
			version: 1, created: t.now, updated: t.now,
		}
		insert(t, &t.operations, op, nil)
		expires := t.later(cmp.Or(a.ExpiresIn, defaultExpiry))
		if bound != nil {
			change(t, bound)
			bound.status, bound.operationID, bound.expires, bound.updated = status, op.id, expires, t.now
			bound.version++
		} else {
			bound = &bindingRow{
				subjectID: mrID, target: queue.target, operationID: op.id, status: status, expires: expires, version: 1, created: t.now, updated: t.now,
			}
			insert(t, &t.bindings, bound, &bound.id)
		}
		if a.Admit && !t.admit(op) {
			return refuse(bot.ApplyRetryLater)
		}
		outcome, current = bot.ApplyDone, op.id
		t.addHistory(historyRow{
			bindingID: bound.id, operationID: op.id, to: status, reason: bot.ReasonApplied, detail: a.Detail, headSHA: op.headSHA, actor: a.Command.By,
		})
		t.log(auditRow{
			dedupe: operationAudit(op.id, 1), actor: a.Command.By, action: "apply", queueID: op.queueID, operationID: op.id, source: a.Command.Source,
			detail: status.String(),
		})
		made, _ := t.joined(op)
		t.arm(stickyErrand(a.Repository.ID, mrID, made.Number), statusErrand(made))
		return nil
	})
	return outcome, current, err
}

// admit puts an operation into the waiting set, at the tail of its lane. admitted false: it is there already.
func (t *tx) admit(op *operationRow) (admitted bool) {
	if t.requestOf(op.id) != nil {
		return false
	}
	row := &requestRow{operationID: op.id, queueID: op.queueID, lane: op.lane, version: 1, created: t.now}
	insert(t, &t.requests, row, &row.id)
	return true
}

// recordCommand writes a command's idempotency row. fresh false: it was handled before.
func (t *tx) recordCommand(requestID, operationID string) (fresh bool) {
	if t.command(requestID) != nil {
		return false
	}
	insert(t, &t.commands, &idempotencyRow{requestID: requestID, operationID: operationID, expires: t.later(keepKeys), created: t.now}, nil)
	return true
}

// takeTurn makes a command the last one of its merge request. ok false: a later one was before it.
func (t *tx) takeTurn(mrID int64, order bot.CommandOrder) (ok bool) {
	mr := t.mr(mrID)
	if mr == nil || (bot.CommandOrder{At: order.At, ID: order.ID}).Before(bot.CommandOrder{At: mr.lastCommandAt, ID: mr.lastCommandID}) {
		return false
	}
	change(t, mr)
	mr.lastCommandAt, mr.lastCommandID, mr.updated = order.At, order.ID, t.now
	mr.version++
	return true
}

func operationAudit(operationID string, version int64) string {
	return fmt.Sprintf("operation:%s:%d", operationID, version)
}

// Answer stores what is to be said to a command that changes no state. fresh is false when the command was handled before.
func (s *Store) Answer(ctx context.Context, a bot.Answer) (fresh bool, err error) {
	if err := checkCommand(a.Command); err != nil {
		return false, err
	}
	err = s.write(ctx, "answer command "+a.Command.RequestID, func(t *tx) error {
		if fresh = t.recordCommand(a.Command.RequestID, ""); !fresh {
			return errRollback
		}
		if a.TakesTurn {
			if mr := t.findMR(a.Repository.ID, a.Number); mr != nil {
				t.takeTurn(mr.id, a.Command.Order)
			}
		}
		var errands []outboxRow
		if a.Reply != "" {
			errands = append(errands, outboxRow{
				kind: bot.ErrandReply, target: a.Command.RequestID, repositoryID: a.Repository.ID, number: a.Number,
				payload: bot.ErrandPayload{Body: clip(a.Reply, 10_000)},
			})
		}
		if a.Reaction != "" {
			errands = append(errands, reactionErrand(a.Repository, a.Comment, a.Reaction))
		}
		t.arm(errands...)
		return nil
	})
	return fresh, err
}

// Handled reports whether a command was handled before: whether its idempotency row exists.
func (s *Store) Handled(ctx context.Context, requestID string) (bool, error) {
	_, found, err := s.winner(ctx, requestID)
	return found, err
}

// Acknowledge queues a reaction on a comment. Acknowledging twice in the same way is harmless.
func (s *Store) Acknowledge(ctx context.Context, repo bot.Repository, comment bot.Comment, reaction bot.Reaction) error {
	return s.write(ctx, fmt.Sprint("acknowledge comment ", comment.ID), func(t *tx) error {
		t.arm(reactionErrand(repo, comment, reaction))
		return nil
	})
}

func reactionErrand(repo bot.Repository, comment bot.Comment, reaction bot.Reaction) outboxRow {
	return outboxRow{
		kind: bot.ErrandReaction, target: fmt.Sprintf("%s:%s:%d:%s", repo.Host, comment.Kind, comment.ID, reaction), repositoryID: repo.ID,
		number: comment.Number, payload: bot.ErrandPayload{Kind: comment.Kind, Comment: comment.ID, Reaction: reaction},
	}
}
