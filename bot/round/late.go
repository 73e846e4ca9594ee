package round

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/message"
)

// whoLeft lists those who were members of the batch and left it before it landed.
func (d *Driver) whoLeft(ctx context.Context, t tick) ([]bot.BatchMember, error) {
	view, err := d.Store.BatchView(ctx, t.batch.ID)
	if err != nil {
		return nil, fmt.Errorf("reading who left batch %d: %w", t.batch.ID, err)
	}
	var left []bot.BatchMember
	for _, m := range view.Members {
		if m.Event == bot.MemberEvicted {
			left = append(left, m)
		}
	}
	return left, nil
}

// landedEvicted records as MERGED whoever left the batch and is in the target all the same, before the batch is settled: a crash in between
// leaves a batch that is settled by the next tick, which finds them by their reason. It returns words for the batch, "" without any.
//
// What was merged by itself meanwhile is no alarm. Neither is changed what asks for consent to newer commits: those are not in the target.
func (d *Driver) landedEvicted(ctx context.Context, t tick, left []bot.BatchMember, found bot.Inspection, landed string) (words string, err error) {
	var numbers []string
	for _, m := range left {
		op := m.Operation
		if !found.Contained[m.HeadSHA] || (op.Status == bot.OperationMerged && op.Reason != bot.ReasonLandedEvicted) {
			continue
		}
		numbers = append(numbers, fmt.Sprint(t.host.MRMark(), op.Number))
		if op.Status == bot.OperationMerged || op.HeadSHA != m.HeadSHA {
			continue
		}
		result, err := d.Store.Move(ctx, bot.Move{
			OperationID: op.ID, From: op.Status, Version: op.Version, To: bot.OperationMerged, Reason: bot.ReasonLandedEvicted, Detail: landed,
			Notify: true, By: "batchbot",
		})
		if err != nil {
			return "", fmt.Errorf("recording that !%d landed after it had left batch %d: %w", op.Number, t.batch.ID, err)
		}
		// An operation that ended may have been followed by a new one, which is another consent.
		if result == bot.MoveStale && op.Status.Followed() {
			return "", fmt.Errorf("!%d, which left batch %d and landed with it, changed meanwhile", op.Number, t.batch.ID)
		}
		d.Logger.Error("a member that had left the batch landed with it", "repo", t.repo.Path, "mr", op.Number, "batch", t.batch.ID, "operation", op.ID, "left", string(m.Reason))
	}
	if len(numbers) == 0 {
		return "", nil
	}
	return "it brought in " + strings.Join(numbers, ", ") + ", which had left the batch; look at why, and revert it if it must not be there. ", nil
}

// Revisit looks at the MR of a batch that is over. One that is open again is closed again with a comment. One that was merged after all has brought in its
// members: they are recorded as landed, and the batch's history says so. Doing it twice equals doing it once.
func (d *Driver) Revisit(ctx context.Context, batchID int64) error {
	view, err := d.Store.BatchView(ctx, batchID)
	if err != nil {
		return fmt.Errorf("reading batch %d: %w", batchID, err)
	}
	batch, repo := view.Batch, view.Repository
	if batch.Status.Active() || batch.MRNumber == 0 {
		return nil // its own ticks look after it, or there is nothing to look at
	}
	host, ok := d.Hosts[repo.Host]
	if !ok {
		return fmt.Errorf("batch %d belongs to host %q, which is not configured: add it to hosts", batchID, repo.Host)
	}
	t := tick{view: viewOf(view), repo: repo, host: host}
	if t.mr, err = host.ReadMR(ctx, repo, batch.MRNumber); errors.Is(err, bot.ErrNotFound) {
		return nil
	} else if err != nil {
		return fmt.Errorf("reading the MR !%d of batch %d: %w", batch.MRNumber, batchID, err)
	}
	if t.mr.State == bot.MROpen {
		// Said first: a crash in between leaves an open MR with the explanation, and the next try closes it.
		_, err := host.UpsertComment(ctx, repo, batch.MRNumber, message.ReopenedMarker(batch), message.Reopened(batch), 0)
		if err != nil {
			return fmt.Errorf("saying why the MR !%d of batch %d is closed again: %w", batch.MRNumber, batchID, err)
		}
		if t.mr, err = d.closeMR(ctx, t, batch.MRNumber); err != nil {
			return err
		}
		d.Logger.Info("closed the MR of a batch that is over", "repo", repo.Path, "batch", batchID, "mr", batch.MRNumber)
	}
	if t.mr.State != bot.MRMerged || batch.Status == bot.BatchSucceeded || t.mr.Target != view.Queue.Target {
		return nil
	}
	return d.landedLate(ctx, t, view)
}

// viewOf is a batch view as the helpers of a tick want it.
func viewOf(v bot.BatchView) view { return view{queue: v.Queue, batch: v.Batch} }

// landedLate records what the MR of a failed batch brought in when it was merged after all.
func (d *Driver) landedLate(ctx context.Context, t tick, v bot.BatchView) error {
	question := bot.InspectSpec{Target: t.queue.Target, Heads: []string{t.mr.MergeSHA}}
	for _, m := range v.Members {
		question.Heads = append(question.Heads, m.HeadSHA)
	}
	found, err := d.inspect(ctx, t, question)
	if err != nil {
		return err
	}
	if !found.Contained[t.mr.MergeSHA] {
		return fmt.Errorf("the MR !%d of batch %d reads merged as %s, but %s as fetched does not contain it yet", t.batch.MRNumber, t.batch.ID, bot.ShortSHA(t.mr.MergeSHA), t.queue.Target)
	}
	var landed []string
	for _, m := range v.Members {
		if !found.Contained[m.HeadSHA] {
			continue
		}
		landed = append(landed, m.Operation.ID)
		if err := d.moveLate(ctx, t, m); err != nil {
			return err
		}
	}
	fresh, err := d.Store.LandedLate(ctx, t.batch.ID, t.mr.MergeSHA, landed)
	if err != nil {
		return fmt.Errorf("recording that batch %d landed late: %w", t.batch.ID, err)
	}
	if fresh {
		d.Logger.Error("a batch landed after it was over", "repo", t.repo.Path, "queue", t.queue.ID, "batch", t.batch.ID, "mr", t.batch.MRNumber, "landed", t.mr.MergeSHA, "members", len(landed))
		d.NudgeOutbox()
	}
	return nil
}

// moveLate brings one member of a batch that landed late to MERGED, unless it is that already or asks for consent to newer commits. One that rides
// in another batch by now leaves it; while that one is landing, the member's fate is read from the target with the others'.
func (d *Driver) moveLate(ctx context.Context, t tick, m bot.BatchMember) error {
	op := m.Operation
	if op.Status == bot.OperationMerged || op.HeadSHA != m.HeadSHA {
		return nil
	}
	move := bot.Move{
		OperationID: op.ID, From: op.Status, Version: op.Version, To: bot.OperationMerged, Reason: bot.ReasonLandedLate, Detail: t.mr.MergeSHA, By: "batchbot",
	}
	if op.Status == bot.OperationBatched {
		rides, _, active, err := d.Store.ActiveBatch(ctx, op.QueueID)
		if err != nil {
			return fmt.Errorf("reading the active batch of queue %d: %w", op.QueueID, err)
		}
		if active && rides.Phase == bot.PhaseLanding {
			return nil
		}
		guard := rides.Guard()
		move.Batch = &guard
	}
	result, err := d.Store.Move(ctx, move)
	if err != nil {
		return fmt.Errorf("recording that !%d landed late: %w", op.Number, err)
	}
	if result == bot.MoveStale && op.Status.Followed() {
		return fmt.Errorf("!%d, which landed late with batch %d, changed meanwhile", op.Number, t.batch.ID)
	}
	if move.Batch != nil {
		d.Nudge(op.QueueID)
	}
	return nil
}
