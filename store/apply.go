package store

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// applyTries bounds how often Apply begins anew because somebody applied the same merge request at the same moment.
const applyTries = 3

// defaultExpiry is how long an application waits for its approvals when it does not say.
const defaultExpiry = 30 * 24 * time.Hour

// Apply makes an operation, in one transaction with its command's idempotency row: the binding of merge request × target is
// inserted, or reset in place where bot.Reapply allows it. Whatever it does not do leaves no trace, so that the command may still be answered:
// only ApplyDone records the command.
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
		outcome, current, err := s.apply(ctx, a, mr)
		if err != nil {
			return bot.ApplyResult{}, err
		}
		switch outcome {
		case bot.ApplyRetryLater:
			continue // the winner's rows are read now
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

// applied reads the operation that is current now. A command that was answered without making an operation has none.
func (s *Store) applied(ctx context.Context, outcome bot.ApplyOutcome, operationID string) (bot.ApplyResult, error) {
	result := bot.ApplyResult{Outcome: outcome}
	if operationID == "" {
		return result, nil
	}
	op, found, err := readOperation(ctx, s, operationID)
	if err != nil || !found {
		return bot.ApplyResult{}, missing(err, "operation "+operationID)
	}
	result.Operation = op
	return result, nil
}

// apply tries once. current is the operation the answer is about; ApplyRetryLater: somebody was faster, look again.
func (s *Store) apply(ctx context.Context, a bot.Application, mr bot.MergeRequest) (outcome bot.ApplyOutcome, current string, err error) {
	name := fmt.Sprintf("apply merge request %d of %s", a.MR.Number, a.Repository.Path)
	err = s.write(ctx, job{name: name, point: applyPoint(a), run: func(tx *tx) error {
		refuse := func(as bot.ApplyOutcome) error {
			outcome = as
			return errRollback
		}
		current = ""
		if fresh, err := tx.recordCommand(ctx, a.Command.RequestID, a.OperationID); err != nil {
			return err
		} else if !fresh {
			return refuse(bot.ApplyDuplicate)
		}
		if ok, err := tx.takeTurn(ctx, mr.ID, a.Command.Order); err != nil {
			return err
		} else if !ok {
			return refuse(bot.ApplySuperseded)
		}
		target, err := tx.targetOf(ctx, a)
		if err != nil {
			return err
		}
		old, bound, err := tx.bindingOf(ctx, mr.ID, target)
		if err != nil {
			return err
		}
		current = old.operationID
		if bound {
			switch bot.Reapply(old.status, old.head, a.MR.HeadSHA) {
			case bot.ReapplyActive:
				return refuse(bot.ApplyActive)
			case bot.ReapplyNeedsRetry:
				return refuse(bot.ApplyNeedsRetry)
			case bot.ReapplyLanded:
				return refuse(bot.ApplyLanded)
			}
		}

		op := bot.Operation{ID: a.OperationID, Status: bot.OperationPendingApproval, RepositoryID: a.Repository.ID, QueueID: a.QueueID,
			MergeRequestID: mr.ID, Number: mr.Number, HeadSHA: a.MR.HeadSHA, Reason: bot.ReasonApplied}
		if a.Admit {
			op.Status = bot.OperationWaiting
		}
		if ok, err := tx.bind(ctx, a, op, target, old); err != nil {
			return err
		} else if !ok {
			return refuse(bot.ApplyRetryLater)
		}
		outcome, current = bot.ApplyDone, op.ID
		if err := tx.audit(ctx, auditEntry{dedupe: operationAudit(op.ID, 1), actor: a.Command.By, action: "apply", queueID: op.QueueID,
			operationID: op.ID, source: a.Command.Source, detail: op.Status.String()}); err != nil {
			return err
		}
		return tx.arm(ctx, stickyErrand(op.RepositoryID, mr.ID, mr.Number), statusErrand(op))
	}, landed: func(ctx context.Context) (bool, error) {
		return s.exists(ctx, `SELECT 1 FROM operation WHERE operation_id = ?`, a.OperationID)
	}})
	return outcome, current, err
}

// bindingRow is the binding of a merge request × target; the zero value is none.
type bindingRow struct {
	id, version int64
	status      bot.OperationStatus
	operationID string
	head        string // pinned by the operation
}

func (t *tx) bindingOf(ctx context.Context, mergeRequestID int64, target string) (b bindingRow, bound bool, err error) {
	bound, err = one(ctx, t, `SELECT b.id, b.version, b.status, b.operation_id, o.head_sha
		FROM binding b JOIN operation o ON o.operation_id = b.operation_id WHERE b.subject_id = ? AND b.target_key = ?`,
		[]any{mergeRequestID, target}, &b.id, &b.version, &b.status, &b.operationID, &b.head)
	return b, bound, err
}

// bind inserts an operation, and its request when it is WAITING, and gives it the binding of its merge request × target: a new one, or the old one
// reset in place, and says so in the history. ok false: somebody was faster.
func (t *tx) bind(ctx context.Context, a bot.Application, op bot.Operation, target string, old bindingRow) (ok bool, err error) {
	lane, expiry := cmp.Or(a.Lane, bot.LaneNormal), cmp.Or(a.ExpiresIn, defaultExpiry)
	if _, _, err := t.insert(ctx, nil, `INSERT INTO operation
		(operation_id, repository_id, queue_id, merge_request_id, status, requester, head_sha, lane, reason, detail, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, {now}, {now})`,
		op.ID, op.RepositoryID, op.QueueID, op.MergeRequestID, op.Status, clip(a.Command.By, 255), op.HeadSHA, lane, op.Reason, clip(a.Detail, longText)); err != nil {
		return false, err
	}
	bindingID := old.id
	if old.id != 0 {
		n, err := t.exec(ctx, `UPDATE binding SET status = ?, operation_id = ?, expires_at = {later}, version = version + 1, updated_at = {now}
			WHERE id = ? AND status = ? AND version = ?`, op.Status, op.ID, micros(expiry), old.id, old.status, old.version)
		if err != nil || n != 1 {
			return false, err
		}
	} else {
		id, fresh, err := t.insert(ctx, &keyBinding, `INSERT INTO binding
			(subject_id, target_key, operation_id, status, expires_at, created_at, updated_at) VALUES (?, ?, ?, ?, {later}, {now}, {now})`,
			op.MergeRequestID, target, op.ID, op.Status, micros(expiry))
		if err != nil || !fresh {
			return false, err
		}
		bindingID = id
	}
	if op.Status == bot.OperationWaiting {
		if admitted, err := t.admit(ctx, op, lane); err != nil || !admitted {
			return false, err
		}
	}
	return true, t.addHistory(ctx, []historyEntry{{bindingID: bindingID, operationID: op.ID, to: op.Status, reason: op.Reason, detail: a.Detail,
		headSHA: op.HeadSHA, by: a.Command.By}})
}

// targetOf reads the target branch of the queue applied to, and refuses an application that would bind a merge request to a queue of
// another repository or branch.
func (t *tx) targetOf(ctx context.Context, a bot.Application) (string, error) {
	var repositoryID int64
	var target string
	found, err := one(ctx, t, `SELECT repository_id, target_branch FROM queue WHERE id = ?`, []any{a.QueueID}, &repositoryID, &target)
	if err != nil || !found {
		return "", missing(err, fmt.Sprintf("queue %d", a.QueueID))
	}
	if repositoryID != a.Repository.ID || target != a.MR.Target {
		return "", fmt.Errorf("queue %d is for branch %q of repository %d, and the merge request is for %q of %d", a.QueueID, target, repositoryID, a.MR.Target, a.Repository.ID)
	}
	return target, nil
}

// admit puts an operation into the waiting set, at the tail of its lane. admitted false: it is there already.
func (t *tx) admit(ctx context.Context, op bot.Operation, lane bot.Lane) (admitted bool, err error) {
	_, admitted, err = t.insert(ctx, &keyRequestOperation, `INSERT INTO merge_batch_request (operation_id, queue_id, batch_id, lane, cohort, created_at)
		VALUES (?, ?, NULL, ?, 0, {now})`, op.ID, op.QueueID, lane)
	return admitted, err
}

// operationAudit is the audit key of the change that gave an operation this version.
func operationAudit(operationID string, version int64) string {
	return fmt.Sprintf("operation:%s:%d", operationID, version)
}
