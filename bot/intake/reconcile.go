package intake

import (
	"context"
	"errors"
	"fmt"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/mutant"
)

// reading is a merge request as the host shows it now, with its approvals once somebody asked for them: they are read once per
// head, whatever number of operations is judged by them.
type reading struct {
	repo      bot.Repository
	mr        bot.MRSnapshot
	approvals *bot.Approvals
	row       bot.MergeRequest // of a command that changes states
}

// verdict judges the approvals of an open merge request at the head that was read.
func (a *Applier) verdict(ctx context.Context, r *reading, policy bot.ApprovalPolicy) (bot.ApprovalVerdict, error) {
	if r.approvals == nil {
		host, err := a.host(r.repo.Host)
		if err != nil {
			return bot.ApprovalVerdict{}, err
		}
		approvals, err := bot.ReadApprovals(ctx, a.Git, host, r.repo, &r.mr)
		if err != nil {
			return bot.ApprovalVerdict{}, err
		}
		r.approvals = &approvals
	}
	return bot.JudgeMR(policy, r.mr, *r.approvals), nil
}

// ReconcileMR brings the operations of one merge request in line with what the host shows, and wakes the queue when it is a batch
// MR. source is the delivery that hinted at it, or which look found it. It returns the moves that were made.
func (a *Applier) ReconcileMR(ctx context.Context, repo bot.Repository, number int, source string) (moved []bot.Move, err error) {
	batch, ok, err := a.Records.BatchMR(ctx, repo.ID, number)
	if err != nil {
		return nil, fmt.Errorf("looking up the batch of %s#%d: %w", repo.Path, number, err)
	}
	if ok {
		return nil, a.batchMR(ctx, repo, batch)
	}
	views, err := a.current(ctx, repo, number)
	if err != nil || !anyFollowed(views) {
		return nil, err // most merge requests were never applied: no host call for them
	}
	host, err := a.host(repo.Host)
	if err != nil {
		return nil, err
	}
	mr, err := host.ReadMR(ctx, repo, number)
	if errors.Is(err, bot.ErrNotFound) {
		// Deleted with all it held, or not visible for a moment: the look asks again, and a batch finds out by its git ref.
		a.Logger.Warn("a merge request that was applied is not found", "host", repo.Host, "repo", repo.Path, "mr", number)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s#%d: %w", repo.Path, number, err)
	}
	_, moved, err = a.reconcile(ctx, &reading{repo: repo, mr: mr}, views, source)
	return moved, err
}

// batchMR follows a hint about the MR of a batch. That of a batch that is over is looked at again when it is open, or was merged although the batch
// had failed.
func (a *Applier) batchMR(ctx context.Context, repo bot.Repository, batch bot.Batch) error {
	a.Nudge(batch.QueueID)
	if batch.Status.Active() {
		return nil
	}
	host, err := a.host(repo.Host)
	if err != nil {
		return err
	}
	mr, err := host.ReadMR(ctx, repo, batch.MRNumber)
	if errors.Is(err, bot.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the MR %s#%d of batch %d: %w", repo.Path, batch.MRNumber, batch.ID, err)
	}
	if mr.State == bot.MRClosed || (mr.State == bot.MRMerged && batch.Status == bot.BatchSucceeded) {
		return nil
	}
	if err := a.Records.RevisitBatch(ctx, batch.ID); err != nil {
		return fmt.Errorf("having the MR of batch %d looked at: %w", batch.ID, err)
	}
	a.NudgeOutbox()
	return nil
}

// reconcile moves every followed operation of a merge request until none asks for a move, and returns what is current then. The rows come
// before the host: known was read before r, so what somebody moved since has another version, and an old reading never undoes what a newer one
// did. Where something did change, both are read again, in this order.
func (a *Applier) reconcile(ctx context.Context, r *reading, known []bot.OperationView, source string) (views []bot.OperationView, moved []bot.Move, err error) {
	views = known
	if mutant.Is(mutant.RowsFirst) {
		if views, err = a.current(ctx, r.repo, r.mr.Number); err != nil {
			return nil, nil, err
		}
	}
	recorded := false
	// Each operation needs two moves at most; more than this means that somebody changes them all the time.
	for range 10 {
		if !anyFollowed(views) {
			return views, moved, nil
		}
		if !recorded {
			if _, err := a.Records.RecordMR(ctx, r.repo.ID, r.mr); err != nil {
				return nil, moved, fmt.Errorf("recording %s#%d: %w", r.repo.Path, r.mr.Number, err)
			}
			recorded = true
		}
		again, overtaken := false, false
		ours := make(map[string]int64, len(views)) // operation → its version, unless somebody else moves it
		for _, view := range views {
			move, stale, err := a.reconcileOne(ctx, r, view, source)
			if err != nil {
				return nil, moved, err
			}
			ours[view.Operation.ID] = view.Operation.Version
			if move != nil {
				moved = append(moved, *move)
				ours[view.Operation.ID]++
			}
			again, overtaken = again || move != nil, overtaken || stale
		}
		if !again && !overtaken {
			return views, moved, nil
		}
		if views, err = a.current(ctx, r.repo, r.mr.Number); err != nil {
			return nil, moved, err
		}
		for _, view := range views {
			overtaken = overtaken || ours[view.Operation.ID] != view.Operation.Version
		}
		if overtaken && !mutant.Is(mutant.RowsFirst) {
			if err := a.readAgain(ctx, r); err != nil {
				return nil, moved, err
			}
			recorded = false
		}
	}
	return nil, moved, fmt.Errorf("the operations of %s#%d kept changing", r.repo.Path, r.mr.Number)
}

// readAgain makes a reading a new one.
func (a *Applier) readAgain(ctx context.Context, r *reading) error {
	host, err := a.host(r.repo.Host)
	if err != nil {
		return err
	}
	mr, err := host.ReadMR(ctx, r.repo, r.mr.Number)
	if err != nil {
		return fmt.Errorf("reading %s#%d again: %w", r.repo.Path, r.mr.Number, err)
	}
	r.mr, r.approvals = mr, nil
	return nil
}

// reconcileOne makes at most one move. stale: the rows were no longer as read.
func (a *Applier) reconcileOne(ctx context.Context, r *reading, view bot.OperationView, source string) (moved *bot.Move, stale bool, err error) {
	op := view.Operation
	move, ok, err := a.wanted(ctx, r, view)
	if err != nil {
		return nil, false, err
	}
	if op.Status == bot.OperationBatched {
		a.Nudge(op.QueueID) // also when nothing moves: a member that reads merged is news for a landing batch
	}
	if !ok {
		return nil, false, nil
	}
	move.Source = source
	result, err := a.Records.Move(ctx, move)
	if err != nil {
		return nil, false, fmt.Errorf("moving operation %s to %s: %w", op.ID, move.To, err)
	}
	if result != bot.MoveDone {
		return nil, true, nil
	}
	a.moved(r.repo, op, move)
	return &move, false, nil
}

// wanted is the move that brings an operation in line with its merge request; ok false: it is.
func (a *Applier) wanted(ctx context.Context, r *reading, view bot.OperationView) (move bot.Move, ok bool, err error) {
	if !view.Operation.Status.Followed() {
		return bot.Move{}, false, nil
	}
	var verdict bot.ApprovalVerdict
	if r.mr.State == bot.MROpen {
		if verdict, err = a.verdict(ctx, r, view.Queue.Settings.Approvals); err != nil {
			return bot.Move{}, false, err
		}
	}
	if view.Seat != nil {
		move, ok = bot.ReconcileSeated(view.Operation, view.Seat.Seat, r.mr, verdict)
		return move, ok, nil
	}
	move, ok = bot.Reconcile(view.Operation, r.mr, verdict, view.Batch)
	switch {
	case mutant.Is(mutant.NewHead) && view.Operation.Status == bot.OperationFailed:
		ok = false
	case mutant.Is(mutant.NoRelease) && view.Batch != nil && view.Batch.Phase == bot.PhaseLanding:
		opened, guard := *view.Batch, view.Batch.Guard()
		opened.Phase = bot.PhaseOpened
		move, ok = bot.Reconcile(view.Operation, r.mr, verdict, &opened)
		move.Batch = &guard
	}
	return move, ok, nil
}

// Compare says what ReconcileMR would do first to the operations of one merge request, and does nothing. An error that wraps bot.ErrNotFound
// means that the merge request is not there.
func (a *Applier) Compare(ctx context.Context, repo bot.Repository, number int) (mr bot.MRSnapshot, moves []bot.Move, err error) {
	views, err := a.current(ctx, repo, number)
	if err != nil || !anyFollowed(views) {
		return bot.MRSnapshot{}, nil, err
	}
	host, err := a.host(repo.Host)
	if err != nil {
		return bot.MRSnapshot{}, nil, err
	}
	if mr, err = host.ReadMR(ctx, repo, number); err != nil {
		return mr, nil, fmt.Errorf("reading %s#%d: %w", repo.Path, number, err)
	}
	r := &reading{repo: repo, mr: mr}
	for _, view := range views {
		move, ok, err := a.wanted(ctx, r, view)
		if err != nil {
			return mr, nil, err
		}
		if ok {
			moves = append(moves, move)
		}
	}
	return mr, moves, nil
}

// RefreshRepository makes, refreshes or ends the row of a repository, as the host says of it now.
func (a *Applier) RefreshRepository(ctx context.Context, repo bot.Repository) error {
	_, _, err := a.readRepository(ctx, repo, repo.Active)
	return err
}

// moved says what changed and wakes who has to know.
func (a *Applier) moved(repo bot.Repository, op bot.Operation, move bot.Move) {
	a.Logger.Info("an operation moved", "host", repo.Host, "repo", repo.Path, "mr", op.Number, "queue", op.QueueID, "operation", op.ID,
		"from", move.From.String(), "to", move.To.String(), "reason", string(move.Reason), "by", move.By, "delivery", move.Source)
	a.NudgeOutbox()
	if move.From == bot.OperationBatched || move.To == bot.OperationWaiting {
		a.Nudge(op.QueueID)
	}
}

func (a *Applier) current(ctx context.Context, repo bot.Repository, number int) ([]bot.OperationView, error) {
	views, err := a.Records.CurrentOperations(ctx, repo.ID, number)
	if err != nil {
		return nil, fmt.Errorf("reading the operations of %s#%d: %w", repo.Path, number, err)
	}
	return views, nil
}

func anyFollowed(views []bot.OperationView) bool {
	for _, v := range views {
		if v.Operation.Status.Followed() {
			return true
		}
	}
	return false
}
