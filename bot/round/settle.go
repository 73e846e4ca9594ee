package round

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/fault"
	"github.com/batchbot/batchbot/bot/mutant"
	"github.com/batchbot/batchbot/bot/plan"
)

// settleLanded settles a batch whose MR reads merged or whose head the target contains. What became of each member is read from
// the target, not assumed: a pinned head that is an ancestor is MERGED, any other rides again. The landed tree is compared with
// the tested one in the same breath, so that the queue starts nothing before a difference is on record. So are those who left the batch
// before: whose head was brought in all the same, say inside of another member's, is MERGED too, and that is an alarm.
func (d *Driver) settleLanded(ctx context.Context, t tick) (Result, error) {
	var err error
	// A crash may have kept the number from being recorded, and what landed is only known by the MR that somebody merged.
	if t.batch.MRNumber, err = d.findMR(ctx, t); err != nil {
		return Result{}, err
	}
	if t.mr.State != bot.MRMerged && t.batch.MRNumber != 0 {
		mr, err := t.host.ReadMR(ctx, t.repo, t.batch.MRNumber)
		if err != nil {
			return Result{}, fmt.Errorf("reading the MR !%d of batch %d: %w", t.batch.MRNumber, t.batch.ID, err)
		}
		t.mr = mr
	}
	// The head that was merged is the MR's: when somebody merged it while the batch was sent back and built anew, the row has a newer one, which may
	// be nothing but the landing itself. A head that was never recorded is somebody else's, and nobody tested it.
	tested, ours := t.batch.HeadSHA, true
	if t.mr.State == bot.MRMerged && t.mr.HeadSHA != tested && !mutant.Is(mutant.MergedHead) {
		heads, err := d.Store.RecordedHeads(ctx, t.batch.ID)
		if err != nil {
			return Result{}, fmt.Errorf("reading the heads of batch %d: %w", t.batch.ID, err)
		}
		if ours = slices.Contains(heads, t.mr.HeadSHA); ours {
			tested = t.mr.HeadSHA
		}
	}
	question := bot.InspectSpec{Target: t.queue.Target, Heads: []string{tested}, Trees: []string{tested}}
	for _, m := range t.members {
		question.Heads = append(question.Heads, m.HeadSHA)
	}
	left, err := d.whoLeft(ctx, t)
	if err != nil {
		return Result{}, err
	}
	for _, m := range left {
		question.Heads = append(question.Heads, m.HeadSHA)
	}
	landed := tested
	if t.mr.State == bot.MRMerged && t.mr.MergeSHA != "" {
		landed = t.mr.MergeSHA
		question.Heads = append(question.Heads, landed)
		question.Trees = append(question.Trees, landed)
	}
	found, err := d.inspect(ctx, t, question)
	if err != nil {
		return Result{}, err
	}
	if !found.Contained[landed] {
		return d.cannotSettle(ctx, t, fmt.Errorf("batch %d reads merged as %s, but %s as fetched does not contain it", t.batch.ID, bot.ShortSHA(landed), t.queue.Target))
	}
	// Git may show a landing before the host's API does, and only the API says by which commit it came. Until it does, or time is up, nothing but a
	// target that stands at the very head is certain.
	if t.mr.State == bot.MROpen && found.Tip != tested && !t.batch.Overdue {
		return Result{Did: "the target contains the batch, and the host does not say yet by which commit", After: settleDown}, nil
	}
	s := bot.Settlement{
		Guard:        t.batch.Guard(),
		Status:       bot.BatchSucceeded,
		Code:         bot.CodeLanded,
		LandedSHA:    landed,
		CIConclusion: t.batch.CIConclusion,
		DeleteBranch: true,
	}
	if s.Message, err = d.landedEvicted(ctx, t, left, found, landed); err != nil {
		return Result{}, err
	}
	if s.Message != "" {
		s.Code = bot.CodeLandedEvicted
	}
	if tree, ok := found.Trees[landed]; !ours || !ok || tree != found.Trees[tested] {
		s.LandedDiffers, s.Code = true, bot.CodeLandedDiffers
		s.Message += "what landed as " + bot.ShortSHA(landed) + " is not what was tested as " + bot.ShortSHA(tested) + ": somebody pushed to the target or the batch branch in the last instant, or the batch MR was not merged with a merge commit"
		d.Logger.Error("landed tree differs from the tested tree", "repo", t.repo.Path, "batch", t.batch.ID, "landed", landed, "tested", tested)
	}
	for _, m := range t.members {
		o := bot.MemberOutcome{OperationID: m.ID, To: bot.OperationMerged, Reason: bot.ReasonLanded, Detail: landed}
		if !found.Contained[m.HeadSHA] {
			o = bot.MemberOutcome{OperationID: m.ID, To: bot.OperationWaiting, Reason: bot.ReasonBatchFailed, Detail: "its commits are not in " + t.queue.Target}
		}
		s.Members = append(s.Members, o)
	}
	return d.settle(ctx, t, s)
}

// settleFailed settles a batch whose failing code is written: close its MR if that is still open, then read again; merged wins over whatever
// was decided before.
func (d *Driver) settleFailed(ctx context.Context, t tick) (Result, error) {
	number, err := d.findMR(ctx, t)
	if err != nil {
		return Result{}, err
	}
	if number != 0 {
		t.batch.MRNumber = number
		mr, err := d.closeMR(ctx, t, number)
		if err != nil {
			return d.cannotSettle(ctx, t, err)
		}
		t.mr = mr
		if mr.State == bot.MRMerged && mr.Target == t.queue.Target {
			return d.settleLanded(ctx, t)
		}
		if err := d.lookLanded(ctx, &t); err != nil {
			return d.cannotSettle(ctx, t, err)
		}
		if t.headLanded {
			return d.settleLanded(ctx, t)
		}
	}
	s := bot.Settlement{
		Guard:        t.batch.Guard(),
		Status:       bot.BatchFailed,
		Code:         t.batch.Code,
		Message:      t.batch.Message,
		CIConclusion: t.batch.CIConclusion,
		DeleteBranch: true,
	}
	red := plan.Red{Cohort: t.batch.Cohort}
	reason := bot.ReasonBatchFailed
	if s.Code == bot.CodeCIRed || s.Code == bot.CodeCITimeout {
		known, err := d.Store.Waiting(ctx, t.queue.ID)
		if err != nil {
			return Result{}, fmt.Errorf("reading what CI said before batch %d: %w", t.batch.ID, err)
		}
		red = plan.AfterRed(t.queue.Settings, known, t.batch)
		d.Logger.Info("red", "queue", t.queue.ID, "repo", t.repo.Path, "batch", t.batch.ID, "plan", red.String())
		reason = bot.ReasonSuspect
		s.FreeCohort = red.FreeCohort
		if len(red.Broken) > 0 {
			reason, s.Code, s.Message = bot.ReasonBatchFailed, bot.CodeCIBroken, red.String()+". The last: "+s.Message
		}
	}
	if s.Code.Parks() {
		s.ParkQueue = string(s.Code) + ": " + s.Message
	}
	for _, m := range t.members {
		o := bot.MemberOutcome{OperationID: m.ID, To: bot.OperationWaiting, Reason: reason, Cohort: red.Cohort}
		switch {
		case red.Fail: // of a curated batch the store makes it REJECTED: a retry by itself would land it without the others
			o = bot.MemberOutcome{OperationID: m.ID, To: bot.OperationFailed, Reason: bot.ReasonCIRed, Detail: t.batch.Message, Notify: true}
		case s.Code == bot.CodeAllEvicted: // somebody left a curated batch, and the others are here still
			o = bot.MemberOutcome{OperationID: m.ID, To: bot.OperationRejected, Reason: bot.ReasonSetBroken, Detail: t.batch.Message, Notify: true}
		}
		s.Members = append(s.Members, o)
	}
	return d.settle(ctx, t, s)
}

// findMR returns the number of the batch MR. A crash between opening it and recording its number leaves one that only its branch
// tells.
func (d *Driver) findMR(ctx context.Context, t tick) (int, error) {
	if t.batch.MRNumber != 0 || t.batch.Build == 0 {
		return t.batch.MRNumber, nil
	}
	found, err := t.host.FindMRs(ctx, t.repo, t.batch.Branch(t.queue.Target))
	if err != nil {
		return 0, fmt.Errorf("looking for the MR of batch %d: %w", t.batch.ID, err)
	}
	if len(found) == 0 {
		return 0, nil
	}
	return found[0].Number, nil
}

// closeMR closes the batch MR unless it is shut, and reads what became of it.
func (d *Driver) closeMR(ctx context.Context, t tick, number int) (bot.MRSnapshot, error) {
	mr, err := t.host.ReadMR(ctx, t.repo, number)
	if err != nil {
		return mr, fmt.Errorf("reading the MR !%d of batch %d: %w", number, t.batch.ID, err)
	}
	if mr.State != bot.MROpen {
		return mr, nil
	}
	fault.Before(fault.Close)
	err = t.host.CloseMR(ctx, t.repo, number)
	fault.After(fault.Close)
	if err != nil {
		return mr, fmt.Errorf("closing the MR !%d of batch %d: %w", number, t.batch.ID, err)
	}
	mr, err = t.host.ReadMR(ctx, t.repo, number)
	if err != nil {
		return mr, fmt.Errorf("reading the MR !%d of batch %d after closing it: %w", number, t.batch.ID, err)
	}
	if mr.State == bot.MROpen {
		return mr, fmt.Errorf("the MR !%d of batch %d still reads open after it was closed", number, t.batch.ID)
	}
	return mr, nil
}

// outOfTime reports whether the host had its time to say what became of a batch MR. A batch that fails after it waited for a person has a deadline that may
// be days ahead: it gets the queue's timeout from the failure on, which is the last that was written.
func outOfTime(b bot.Batch, timeout time.Duration) bool {
	return b.Overdue || (b.Code.Fails() && b.Unchanged >= max(outcomeLimit, timeout))
}

// cannotSettle keeps a batch RUNNING while nobody can tell what became of its MR, and past its time asks for a person:
// the slot stays occupied, so nothing can land twice.
func (d *Driver) cannotSettle(ctx context.Context, t tick, cause error) (Result, error) {
	if !outOfTime(t.batch, t.queue.Settings.Timeout) || t.batch.Status == bot.BatchBlocked {
		return Result{}, cause
	}
	message := "what became of the batch MR cannot be told"
	if t.batch.Code.Fails() {
		message += " after " + string(t.batch.Code) + " (" + t.batch.Message + ")"
	}
	result, err := d.change(ctx, t, "blocked: cannot tell what became of the batch MR", bot.BatchChange{
		Status: bot.BatchBlocked, Code: bot.CodeHostGone, Refusals: t.batch.Refusals, CIConclusion: t.batch.CIConclusion,
		Message: message + ", see the log for why; close or merge it by hand, or say what became of it with `batchbot batch settle`",
	}, false)
	if err != nil {
		return result, fmt.Errorf("%w (while: %w)", err, cause)
	}
	return result, nil
}

func (d *Driver) settle(ctx context.Context, t tick, s bot.Settlement) (Result, error) {
	if s.By == "" {
		s.By, s.Source = t.by, t.source
	}
	ok, err := d.Store.Settle(ctx, s)
	if err != nil {
		return Result{}, fmt.Errorf("settling batch %d: %w", t.batch.ID, err)
	}
	if !ok {
		return stale, nil
	}
	d.NudgeOutbox()
	d.Logger.Info("settled", "queue", t.queue.ID, "repo", t.repo.Path, "batch", t.batch.ID, "status", s.Status.String(), "code", string(s.Code), "members", len(s.Members))
	return Result{Did: "settled " + s.Status.String() + " " + string(s.Code), Again: true}, nil
}
