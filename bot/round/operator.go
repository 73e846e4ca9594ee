package round

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/batchbot/batchbot/bot"
)

// ruling is what an operator's word comes to: the one thing to do, or why not and what to do instead.
type ruling struct {
	action
	refused string
	forced  bool // settle by the operator's word alone
}

// Order carries out an operator's word about an active batch: with the looks, decisions and guarded writes of any tick, so it may overlap with ticks of other
// instances and with other operators. What the host and the target contradict is refused.
func (d *Driver) Order(ctx context.Context, o bot.OperatorOrder) (bot.OperatorAnswer, error) {
	t, over, err := d.lookOrdered(ctx, o)
	if err != nil || over != "" {
		return bot.OperatorAnswer{Text: over}, err
	}
	// The lock saves ticks that would find their batch changed. Without it the guards decide alone.
	held, release, ok, err := d.Locks.TryLock(ctx, "queue/"+strconv.FormatInt(t.queue.ID, 10))
	if err != nil {
		return bot.OperatorAnswer{}, fmt.Errorf("locking queue %d: %w", t.queue.ID, err)
	}
	if ok {
		defer release()
		ctx = held
	}
	unasked := d.lookWhole(ctx, &t)
	if unasked != nil && !o.Force {
		return bot.OperatorAnswer{}, fmt.Errorf("the host cannot be asked about batch %d: %w", o.BatchID, unasked)
	}
	r := decideOrder(t.view, o, unasked != nil)
	switch {
	case r.refused != "":
		return bot.OperatorAnswer{Text: r.refused}, nil
	case o.DryRun:
		return bot.OperatorAnswer{Done: true, Text: "would " + r.why}, nil
	}
	return d.rule(ctx, t, o, r)
}

// lookOrdered reads the rows of the batch that an order is about. over says why there is nothing to rule about.
func (d *Driver) lookOrdered(ctx context.Context, o bot.OperatorOrder) (t tick, over string, err error) {
	view, err := d.Store.BatchView(ctx, o.BatchID)
	if err != nil {
		return t, "", fmt.Errorf("reading batch %d: %w", o.BatchID, err)
	}
	t.repo, t.queue = view.Repository, view.Queue
	t.batch, t.members, t.active, err = d.Store.ActiveBatch(ctx, view.Queue.ID)
	if err != nil {
		return t, "", fmt.Errorf("reading the active batch of queue %d: %w", view.Queue.ID, err)
	}
	if !t.active || t.batch.ID != o.BatchID {
		return t, fmt.Sprintf("batch %d is over (%s): there is nothing to settle", o.BatchID, strings.ToLower(view.Batch.Status.String())), nil
	}
	if o.Unblock && t.batch.Status != bot.BatchBlocked {
		return t, notBlocked(t.batch), nil
	}
	host, ok := d.Hosts[t.repo.Host]
	if !ok {
		return t, "", fmt.Errorf("batch %d belongs to host %q, which is not configured: add it to hosts", o.BatchID, t.repo.Host)
	}
	t.host = host
	return t, "", nil
}

func notBlocked(b bot.Batch) string {
	return fmt.Sprintf("batch %d is %s and not blocked, so it goes on by itself", b.ID, strings.ToLower(b.Status.String()))
}

// lookWhole reads everything the host and the target say about a batch, whatever its phase.
func (d *Driver) lookWhole(ctx context.Context, t *tick) error {
	number, err := d.findMR(ctx, *t)
	if err != nil {
		return err
	}
	if number != 0 {
		found := t.batch
		found.MRNumber = number
		look := *t
		look.batch = found
		if err := d.lookMR(ctx, &look); err != nil && !errors.Is(err, bot.ErrNotFound) {
			return err
		}
		t.mr, t.headKnown = look.mr, look.headKnown
	}
	if err := d.lookBranch(ctx, t); err != nil {
		return err
	}
	if err := d.lookTarget(ctx, t); err != nil {
		return err
	}
	return d.lookLanded(ctx, t)
}

// decideOrder holds an operator's word against what is known. It is pure. unasked: the host could not be asked, and the operator insists.
func decideOrder(v view, o bot.OperatorOrder, unasked bool) ruling {
	refuse := func(format string, args ...any) ruling { return ruling{refused: fmt.Sprintf(format, args...)} }
	merged := v.mr.State == bot.MRMerged && v.mr.Target == v.queue.Target
	landed := v.headLanded || merged
	switch o.Word {
	case bot.WordMerged:
		switch {
		case landed && (v.headLanded || !o.Force): // what the host calls merged, git has to show: settleLanded looks
			return ruling{action: action{verb: settleLanded, why: "settle it as landed"}}
		case o.Force:
			return ruling{forced: true, action: action{verb: settleLanded, why: "settle it as landed, although " + v.queue.Target + " does not contain what was tested"}}
		}
		return refuse("%s does not contain the batch's head %s, so it did not land: merge its MR first", v.queue.Target, bot.ShortSHA(v.batch.HeadSHA))
	case bot.WordFailed:
		fails := ruling{action: action{verb: fail, code: bot.CodeClosed, why: "settle it as failed; its members wait again and its queue parks"}}
		switch {
		case landed:
			return refuse("the batch landed: %s contains it. Say merged instead", v.queue.Target)
		case unasked:
			fails.forced, fails.code = true, bot.CodeForced
			return fails
		case v.batch.Status == bot.BatchRunning && v.batch.Code.Fails():
			return refuse("its failure %s is being settled already", v.batch.Code)
		case v.mr.State != bot.MROpen, o.Force, !o.Unblock && v.batch.Phase < bot.PhaseLanding:
			return fails
		case v.batch.Phase == bot.PhaseLanding:
			return refuse("its MR %d reads open and the batch is landing, which only the host and the target end: close the MR first", v.mr.Number)
		}
		return refuse("its MR %d reads open: close it first", v.mr.Number)
	case bot.WordResume:
		switch {
		case v.batch.Status != bot.BatchBlocked:
			return ruling{refused: notBlocked(v.batch)}
		case unasked:
			return refuse("the host cannot be asked about the batch, so nothing can go on yet")
		case landed:
			return refuse("the batch landed: %s contains it. Say merged instead", v.queue.Target)
		case v.mr.State == bot.MRClosed:
			return refuse("its MR %d reads closed: reopen it, or say failed", v.mr.Number)
		case v.mr.State == 0 && !v.branchGone && v.branchTip != v.batch.HeadSHA:
			return refuse("its branch stands at %s, which the bot did not put there: delete the branch", bot.ShortSHA(v.branchTip))
		case v.mr.State == bot.MROpen && !v.headKnown:
			return refuse("its MR %d stands at %s, which the bot did not put there: put the branch back to %s, or close the MR", v.mr.Number, bot.ShortSHA(v.mr.HeadSHA), bot.ShortSHA(v.batch.HeadSHA))
		}
		return ruling{action: action{verb: resume, why: "go on with it, with its whole time again"}}
	}
	return refuse("%q is none of merged, failed and resume", o.Word)
}

// rule does what was decided.
func (d *Driver) rule(ctx context.Context, t tick, o bot.OperatorOrder, r ruling) (bot.OperatorAnswer, error) {
	log := d.Logger.With("repo", t.repo.Path, "queue", t.queue.ID, "batch", t.batch.ID, "by", o.By, "word", string(o.Word), "force", o.Force)
	var result Result
	var err error
	switch {
	case r.forced:
		result, err = d.settle(ctx, t, forced(t, o, r))
	case r.verb == settleLanded:
		t.by, t.source = o.By, o.Source
		result, err = d.settleLanded(ctx, t)
	case r.verb == resume:
		result, err = d.change(ctx, t, r.why, bot.BatchChange{
			Status: bot.BatchRunning, CIConclusion: t.batch.CIConclusion, ExtendBy: t.queue.Settings.Timeout, By: o.By, Source: o.Source,
		}, true)
	default:
		// The word is recorded as a failure like any other, which whoever comes next carries on.
		change := bot.BatchChange{
			Code: r.code, Message: o.By + " ended the batch; ask why, then resume the queue", Refusals: t.batch.Refusals, CIConclusion: t.batch.CIConclusion, ExtendBy: outcomeLimit,
			By: o.By, Source: o.Source,
		}
		if t.batch.Status == bot.BatchBlocked {
			change.Status = bot.BatchRunning
		}
		var ok bool
		if t.batch, ok, err = d.Store.ChangeBatch(ctx, t.batch.Guard(), change); err != nil {
			return bot.OperatorAnswer{}, fmt.Errorf("recording that batch %d is ended: %w", o.BatchID, err)
		}
		if result = stale; ok {
			log.Info("an operator ended a batch")
			if result, err = d.settleFailed(ctx, t); err != nil {
				log.Warn("settling what an operator ended", "error", err)
				text := "recorded; the batch is settled once the host says what became of its MR"
				return bot.OperatorAnswer{Done: true, Text: text}, nil
			}
		}
	}
	if err != nil {
		return bot.OperatorAnswer{}, err
	}
	if !result.Again {
		return bot.OperatorAnswer{Text: result.Did + ": look at it and say it again"}, nil
	}
	log.Info("an operator ruled about a batch", "did", result.Did)
	d.NudgeOutbox()
	now, err := d.Store.BatchView(ctx, o.BatchID) // a batch that was to fail may have landed after all
	if err != nil {
		return bot.OperatorAnswer{}, fmt.Errorf("reading what became of batch %d: %w", o.BatchID, err)
	}
	text := fmt.Sprintf("batch %d goes on", o.BatchID)
	switch now.Batch.Status {
	case bot.BatchSucceeded:
		text = fmt.Sprintf("batch %d is recorded as landed", o.BatchID)
	case bot.BatchFailed:
		text = fmt.Sprintf("batch %d is ended as failed: its members wait again, and its queue is parked until somebody resumes it", o.BatchID)
	}
	return bot.OperatorAnswer{Done: true, Text: text}, nil
}

// forced is a settlement by an operator's word alone. What landed otherwise than it was tested, or not at all, carries the alarm; the MR of what is
// said to have failed is looked at again until it reads closed.
func forced(t tick, o bot.OperatorOrder, r ruling) bot.Settlement {
	s := bot.Settlement{
		Guard: t.batch.Guard(), CIConclusion: t.batch.CIConclusion, DeleteBranch: true, CloseMR: true, By: o.By, Source: o.Source,
	}
	member := bot.MemberOutcome{To: bot.OperationWaiting, Reason: bot.ReasonBatchFailed, Detail: "by force of " + o.By, Cohort: t.batch.Cohort}
	if r.verb == settleLanded {
		s.Status, s.Code, s.LandedDiffers = bot.BatchSucceeded, bot.CodeLandedDiffers, true
		s.Message = o.By + " recorded it as landed by force: " + t.queue.Target + " does not contain what was tested"
		member.To, member.Reason, member.Cohort = bot.OperationMerged, bot.ReasonLanded, 0
	} else {
		s.Status, s.Code = bot.BatchFailed, r.code
		s.Message = o.By + " ended it by force, without the host's word"
		s.ParkQueue = string(s.Code) + ": " + s.Message + "; see that its MR is closed, then resume the queue"
	}
	for _, m := range t.members {
		member.OperationID = m.ID
		s.Members = append(s.Members, member)
	}
	return s
}
