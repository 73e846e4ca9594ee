package round

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/fault"
	"github.com/batchbot/batchbot/bot/message"
	"github.com/batchbot/batchbot/bot/mutant"
)

// act does the one thing decided. Every write is guarded by the batch row as it was looked at: when another instance acted meanwhile,
// nothing is written and the next tick looks again.
func (d *Driver) act(ctx context.Context, t tick, a action) (Result, error) {
	switch a.verb {
	case park:
		if err := d.Store.ParkQueue(ctx, t.queue.ID, a.why); err != nil {
			return Result{}, fmt.Errorf("parking queue %d: %w", t.queue.ID, err)
		}
		d.NudgeOutbox()
		return Result{Did: "parked: " + a.why}, nil
	case claim:
		return d.claim(ctx, t, a)
	case build, push:
		do := d.build
		if a.verb == push {
			do = d.pushAgain
		}
		// Two builds of one repository fetch and merge the same histories, and slow each other down.
		return d.locked(ctx, "git/"+strconv.FormatInt(t.repo.ID, 10), "a build of another queue of this repository is under way", func(ctx context.Context) (Result, error) {
			return do(ctx, t)
		})
	case open:
		return d.open(ctx, t)
	case restore:
		return d.change(ctx, t, a.why, bot.BatchChange{
			Phase: bot.PhaseBuilt, Restored: true, Message: a.why, Refusals: t.batch.Refusals, CIConclusion: t.batch.CIConclusion,
		}, true)
	case note:
		return d.change(ctx, t, a.why, bot.BatchChange{
			Code: a.code, Message: a.why, Refusals: t.batch.Refusals, CIConclusion: t.batch.CIConclusion, ExtendBy: a.extend,
		}, false)
	case lookAgain:
		if err := d.lookMembers(ctx, &t); err != nil {
			return Result{}, err
		}
		return d.act(ctx, t, decide(t.view))
	case evict:
		return d.evictAll(ctx, t, t.moves)
	case rebuild:
		change := bot.BatchChange{Phase: bot.PhaseClaimed, Refusals: t.batch.Refusals}
		if a.resumed {
			change.Status, change.ExtendBy = bot.BatchRunning, t.queue.Settings.Timeout
		}
		return d.change(ctx, t, a.why, change, true)
	case enterLanding:
		switch {
		case mutant.Is(mutant.Intent):
			return d.land(ctx, t)
		case mutant.Is(mutant.HostFirst):
			return d.mutantRecordsFirst(ctx, t)
		}
		change := bot.BatchChange{Phase: bot.PhaseLanding, Refusals: t.batch.Refusals, CIConclusion: a.concl, ExtendBy: outcomeLimit}
		if t.batch.Code == bot.CodeNeedsApproval { // one more try: what people read stays until it is known to be over
			change.Code, change.Message = t.batch.Code, t.batch.Message
		}
		return d.change(ctx, t, a.why, change, true)
	case leaveLanding:
		return d.change(ctx, t, a.why, bot.BatchChange{Phase: bot.PhaseOpened, Refusals: t.batch.Refusals, CIConclusion: t.batch.CIConclusion}, true)
	case resume:
		return d.change(ctx, t, a.why, bot.BatchChange{
			Status: bot.BatchRunning, CIConclusion: t.batch.CIConclusion, ExtendBy: t.queue.Settings.Timeout,
		}, true)
	case land:
		return d.land(ctx, t)
	case fail:
		// The deadline that may have led here must not be the one for closing the MR.
		change := bot.BatchChange{Code: a.code, Message: a.why, Refusals: t.batch.Refusals, CIConclusion: a.concl, ExtendBy: outcomeLimit}
		if t.batch.Status == bot.BatchBlocked {
			change.Status = bot.BatchRunning
		}
		return d.change(ctx, t, string(a.code)+": "+a.why, change, true)
	case settleFailed:
		return d.settleFailed(ctx, t)
	case settleLanded:
		return d.settleLanded(ctx, t)
	case block:
		return d.change(ctx, t, "blocked: "+a.why, bot.BatchChange{
			Status: bot.BatchBlocked, Code: a.code, Message: a.why, Refusals: t.batch.Refusals, CIConclusion: t.batch.CIConclusion,
		}, false)
	}
	return Result{Did: a.why, After: a.after}, nil
}

// change writes one guarded change of the batch row.
func (d *Driver) change(ctx context.Context, t tick, did string, c bot.BatchChange, again bool) (Result, error) {
	_, ok, err := d.Store.ChangeBatch(ctx, t.batch.Guard(), c)
	if err != nil {
		return Result{}, fmt.Errorf("writing %q to batch %d: %w", did, t.batch.ID, err)
	}
	if !ok {
		return stale, nil
	}
	d.NudgeOutbox()
	return Result{Did: did, Again: again}, nil
}

// stale is the result of a tick that another instance or an event got ahead of.
var stale = Result{Did: "the batch changed meanwhile", After: 100 * time.Millisecond}

func (d *Driver) claim(ctx context.Context, t tick, a action) (Result, error) {
	result, err := d.Store.Claim(ctx, bot.ClaimSpec{
		QueueID: t.queue.ID,
		Kind:    a.choice.Kind,
		Cohort:  a.choice.Cohort,
		Limit:   a.choice.Limit,
		Why:     a.choice.String(),
		Token:   d.NewToken(),
		Timeout: t.queue.Settings.Timeout,
	})
	if err != nil {
		return Result{}, fmt.Errorf("claiming queue %d: %w", t.queue.ID, err)
	}
	did := "claim: " + result.Outcome.String()
	if result.Outcome != bot.ClaimDone {
		return Result{Did: did}, nil
	}
	d.NudgeOutbox()
	d.Logger.Info("claimed", "queue", t.queue.ID, "repo", t.repo.Path, "batch", result.Batch.ID, "kind", result.Batch.Kind.String(), "members", len(result.Members), "plan", result.Batch.Why)
	return Result{Did: did, Again: true}, nil
}

// build makes the batch branch on the target's tip, records it, and pushes it. A crash after the record leaves phase BUILT, from which the same commit
// is built again.
func (d *Driver) build(ctx context.Context, t tick) (Result, error) {
	built, err := d.runBuild(ctx, t, "")
	if err != nil {
		return Result{}, err
	}
	defer built.Close()
	result := built.Result()
	moves := departures(result)
	batch, ok, err := d.Store.RecordBuild(ctx, t.batch.Guard(), bot.BuildRecord{Result: result, Timeout: t.queue.Settings.Timeout, Moves: moves})
	if err != nil {
		return Result{}, fmt.Errorf("recording the build of batch %d: %w", t.batch.ID, err)
	}
	if !ok {
		return stale, nil
	}
	d.NudgeOutbox()
	did := fmt.Sprintf("built %s on %s, %d of %d members", bot.ShortSHA(result.HeadSHA), bot.ShortSHA(result.BaseSHA), len(t.members)-len(moves), len(t.members))
	if len(moves) == len(t.members) || (t.batch.Kind == bot.BatchCurated && len(moves) > 0) { // one of a set that leaves takes all out
		return Result{Did: did, Again: true}, nil // nothing to push; the next tick settles ALL_EVICTED
	}
	t.batch = batch
	return d.push(ctx, t, built, did)
}

// pushAgain builds the recorded build once more: the same base and members give the same commit. If they do not any more (a member
// moved, the base is gone), the batch is built anew.
func (d *Driver) pushAgain(ctx context.Context, t tick) (Result, error) {
	if t.batch.Phase == bot.PhaseLanding {
		return d.restoreLanding(ctx, t)
	}
	built, err := d.runBuild(ctx, t, t.batch.BaseSHA)
	if err != nil {
		return Result{}, err
	}
	defer built.Close()
	if built.Result().HeadSHA != t.batch.HeadSHA {
		return d.change(ctx, t, "the recorded build cannot be repeated", bot.BatchChange{Phase: bot.PhaseClaimed, Refusals: t.batch.Refusals}, true)
	}
	return d.push(ctx, t, built, "pushed "+bot.ShortSHA(t.batch.HeadSHA)+" again")
}

// restoreLanding puts a deleted branch back under a landing, without leaving LANDING: only what the host and the target say ends that.
func (d *Driver) restoreLanding(ctx context.Context, t tick) (Result, error) {
	built, err := d.runBuild(ctx, t, t.batch.BaseSHA)
	if err != nil {
		return Result{}, err
	}
	defer built.Close()
	if built.Result().HeadSHA != t.batch.HeadSHA {
		return Result{}, fmt.Errorf("the branch of batch %d is gone while it lands, and building it again gives another commit", t.batch.ID)
	}
	heads, err := d.Store.RecordedHeads(ctx, t.batch.ID)
	if err != nil {
		return Result{}, fmt.Errorf("reading the heads of batch %d: %w", t.batch.ID, err)
	}
	fault.Before(fault.Push)
	outcome, err := built.Push(ctx, t.batch.Branch(t.queue.Target), heads)
	fault.After(fault.Push)
	if err != nil {
		return Result{}, fmt.Errorf("pushing the branch of batch %d again: %w", t.batch.ID, err)
	}
	if outcome.Result != bot.PushDone {
		return Result{}, fmt.Errorf("the branch of batch %d is gone while it lands, and the host does not take it again: %s", t.batch.ID, outcome.Message)
	}
	return Result{Did: "pushed the deleted branch again", Again: true}, nil
}

func (d *Driver) runBuild(ctx context.Context, t tick, base string) (bot.Build, error) {
	remote, err := t.host.GitRemote(ctx, t.repo)
	if err != nil {
		return nil, fmt.Errorf("getting git access to %s: %w", t.repo.Path, err)
	}
	spec := bot.BuildSpec{BatchID: t.batch.ID, Token: t.batch.Token, CreatedAt: t.batch.CreatedAt, Target: t.queue.Target, Base: base}
	for _, m := range t.members {
		spec.Members = append(spec.Members, bot.BuildMember{
			OperationID: m.ID, Number: m.Number, HeadSHA: m.HeadSHA, HeadRef: t.host.HeadRef(m.Number),
			// A commit message can close issues and keep CI from running: nothing of a title may do that.
			Title: message.Plain(m.Title, 120),
		})
	}
	built, err := d.Git.Build(ctx, remote, spec)
	if errors.Is(err, bot.ErrNotFound) {
		return nil, fmt.Errorf("building batch %d on %s: %w", t.batch.ID, t.queue.Target, errTargetGone)
	}
	if err != nil {
		return nil, fmt.Errorf("building batch %d: %w", t.batch.ID, err)
	}
	return built, nil
}

// departures lists the members that do not ride in a build, and what becomes of each.
func departures(result bot.BuildResult) []bot.MemberOutcome {
	var out []bot.MemberOutcome
	for _, m := range result.Members {
		o := bot.MemberOutcome{OperationID: m.OperationID, Notify: true}
		switch m.Fate {
		case bot.FateMerged:
			continue
		case bot.FateContained:
			o.To, o.Reason, o.Notify = bot.OperationMerged, bot.ReasonContained, false
		case bot.FateMoved:
			o.To, o.Reason, o.HeadSHA = bot.OperationPendingApproval, bot.ReasonHeadMoved, m.FoundSHA
			if m.FoundSHA == "" {
				o.To, o.Reason = bot.OperationClosed, bot.ReasonClosed
			}
		case bot.FateConflict:
			o.To, o.Reason, o.Detail = bot.OperationFailed, bot.ReasonConflict, message.Files(m.Files)
		case bot.FateConflictBatch:
			o.To, o.Reason, o.Detail, o.Notify = bot.OperationWaiting, bot.ReasonConflictBatch, message.Files(m.Files), false
		default:
			o.To, o.Reason = bot.OperationFailed, bot.ReasonUnrelated
		}
		out = append(out, o)
	}
	return out
}

// push sends the recorded head to the batch's own branch. Only an absent branch or one of the recorded heads is overwritten.
func (d *Driver) push(ctx context.Context, t tick, built bot.Build, did string) (Result, error) {
	heads, err := d.Store.RecordedHeads(ctx, t.batch.ID)
	if err != nil {
		return Result{}, fmt.Errorf("reading the heads of batch %d: %w", t.batch.ID, err)
	}
	branch := t.batch.Branch(t.queue.Target)
	fault.Before(fault.Push)
	outcome, err := built.Push(ctx, branch, heads)
	fault.After(fault.Push)
	if err == nil && outcome.Result == bot.PushForeign && outcome.Found != "" {
		// A branch that stands at a commit of the target holds nobody's work: a crash may have left it there while a refusal was looked into.
		found, lookErr := d.inspect(ctx, t, bot.InspectSpec{Target: t.queue.Target, Heads: []string{outcome.Found}})
		if lookErr != nil {
			return Result{}, lookErr
		}
		if found.Contained[outcome.Found] {
			outcome, err = built.Push(ctx, branch, append(heads, outcome.Found))
		}
	}
	if errors.Is(err, bot.ErrForbidden) {
		why := "the host forbids the bot to push its batch branch; give the app write access to contents, then resume the queue"
		return d.act(ctx, t, action{verb: fail, code: bot.CodePushRefused, why: why})
	}
	if err != nil {
		return Result{}, fmt.Errorf("pushing %s: %w", branch, err)
	}
	switch outcome.Result {
	case bot.PushForeign:
		why := "the branch " + branch + " stands at " + bot.ShortSHA(outcome.Found) + ", which the bot did not put there; delete the branch or close its MR"
		return d.act(ctx, t, action{verb: block, code: bot.CodeForeignPush, why: why})
	case bot.PushRefused:
		return d.pushRefused(ctx, t, built, heads, outcome.Message)
	}
	return Result{Did: did, Again: true}, nil
}

// open finds the batch MR by its branch in any state, or creates it, and records its number.
func (d *Driver) open(ctx context.Context, t tick) (Result, error) {
	branch := t.batch.Branch(t.queue.Target)
	approvers, err := d.approvers(ctx, t)
	if err != nil {
		return Result{}, err
	}
	text := message.BatchMR(t.batch, t.queue, t.members, approvers, message.LinksOf(t.repo, t.host))
	mr := bot.MRSnapshot{Number: t.batch.MRNumber}
	did := "went on with the batch MR"
	if mr.Number == 0 {
		found, err := t.host.FindMRs(ctx, t.repo, branch)
		if err != nil {
			return Result{}, fmt.Errorf("looking for the MR of %s: %w", branch, err)
		}
		if len(found) > 0 && !mutant.Is(mutant.Findable) {
			mr, did = found[0], "adopted the batch MR"
		}
	}
	if mr.Number == 0 {
		fault.Before(fault.Open)
		mr, err = t.host.OpenMR(ctx, t.repo, bot.NewMR{Title: text.Title, Body: text.Body, Source: branch, Target: t.queue.Target})
		fault.After(fault.Open)
		if err != nil {
			return Result{}, fmt.Errorf("opening the MR of %s: %w", branch, err)
		}
		did = "opened the batch MR"
	} else if err := t.host.EditMR(ctx, t.repo, mr.Number, text.Title, text.Body); err != nil {
		// After a rebuild the table of members is another one. It is read by people only: a failure delays it to the next build.
		d.Logger.Warn("editing the batch MR", "batch", t.batch.ID, "mr", mr.Number, "error", err)
	}
	result, err := d.change(ctx, t, fmt.Sprintf("%s !%d", did, mr.Number), bot.BatchChange{
		Phase: bot.PhaseOpened, MRNumber: mr.Number, Refusals: t.batch.Refusals,
	}, true)
	if err == nil && !result.Again {
		return result, d.closeStray(ctx, t, mr.Number)
	}
	return result, err
}

// closeStray closes an MR that was opened from the batch branch when the batch was over already, or had one: whoever looks, sleeps and then opens
// comes too late. While the batch goes on without one, the next look finds it.
func (d *Driver) closeStray(ctx context.Context, t tick, number int) error {
	view, err := d.Store.BatchView(ctx, t.batch.ID)
	if err != nil {
		return fmt.Errorf("reading what became of batch %d: %w", t.batch.ID, err)
	}
	if b := view.Batch; b.MRNumber == number || (b.MRNumber == 0 && b.Status.Active()) {
		return nil
	}
	if err := t.host.CloseMR(ctx, t.repo, number); err != nil {
		return fmt.Errorf("closing the MR !%d that batch %d does not know: %w", number, t.batch.ID, err)
	}
	return nil
}

// land makes the landing call. LANDING stands in the row; whatever happens from here on, the next look at the host and the
// target says what became of it.
func (d *Driver) land(ctx context.Context, t tick) (Result, error) {
	if t.queue.Settings.Landing == bot.LandByPush {
		return d.landByPush(ctx, t)
	}
	title, body := message.MergeCommit(t.batch, t.members, message.LinksOf(t.repo, t.host))
	fault.Before(fault.Land)
	answer, err := t.host.MergeMR(ctx, t.repo, t.batch.MRNumber, t.batch.HeadSHA, title, body)
	fault.After(fault.Land)
	if err != nil {
		return Result{}, fmt.Errorf("merging the MR !%d of batch %d: %w", t.batch.MRNumber, t.batch.ID, err)
	}
	switch answer.Outcome {
	case bot.MergeDone, bot.MergeClosed:
		return Result{Did: "made the merge call", Again: true}, nil
	case bot.MergeNotReady:
		return Result{Did: "the host is still computing the merge", After: settleDown}, nil
	case bot.MergeHeadMoved:
		return d.act(ctx, t, action{verb: leaveLanding, why: "the batch MR stands at another head"})
	case bot.MergeNeeds:
		change := bot.BatchChange{
			Phase: bot.PhaseOpened, Code: bot.CodeNeedsApproval, Refusals: t.batch.Refusals, CIConclusion: t.batch.CIConclusion,
			Message: "the host wants something on the batch MR that the bot cannot give: " + answer.Message,
		}
		if t.batch.Code != bot.CodeNeedsApproval { // asking again and again does not make the wait longer
			change.ExtendBy = personLimit
		}
		return d.change(ctx, t, "the batch MR needs an approval", change, false)
	}
	return d.refused(ctx, t, answer.Message)
}

func (d *Driver) landByPush(ctx context.Context, t tick) (Result, error) {
	remote, err := t.host.GitRemote(ctx, t.repo)
	if err != nil {
		return Result{}, fmt.Errorf("getting git access to %s: %w", t.repo.Path, err)
	}
	fault.Before(fault.Land)
	outcome, err := d.Git.FastForward(ctx, remote, t.queue.Target, t.batch.BaseSHA, t.batch.HeadSHA)
	fault.After(fault.Land)
	if err != nil {
		return Result{}, fmt.Errorf("pushing batch %d onto %s: %w", t.batch.ID, t.queue.Target, err)
	}
	if outcome.Result == bot.PushRefused {
		return d.refused(ctx, t, outcome.Message)
	}
	if outcome.Result == bot.PushForeign {
		return d.act(ctx, t, action{verb: rebuild, why: "the target moved before the batch landed"})
	}
	// The host may take a moment to show its API what its git has.
	return d.settleLanded(ctx, t)
}

// refused handles an answered refusal, which a second look at the batch MR confirms: back to OPENED with the reason, and
// after the third a person is asked.
func (d *Driver) refused(ctx context.Context, t tick, said string) (Result, error) {
	mr, err := t.host.ReadMR(ctx, t.repo, t.batch.MRNumber)
	if err != nil && !errors.Is(err, bot.ErrNotFound) {
		return Result{}, fmt.Errorf("reading the MR !%d after a refusal: %w", t.batch.MRNumber, err)
	}
	if mr.State == bot.MRMerged {
		return Result{Did: "refused, but it reads merged", Again: true}, nil
	}
	refusals := t.batch.Refusals + 1
	change := bot.BatchChange{
		Phase: bot.PhaseOpened, Refusals: refusals, CIConclusion: t.batch.CIConclusion,
		Message: fmt.Sprintf("the host refused to land the batch (%d of %d): %s", refusals, maxRefusals, said),
	}
	if refusals >= maxRefusals {
		change.Status, change.Code = bot.BatchBlocked, bot.CodeMergeRefused
		change.Message += "; merge or close the batch MR by hand, or mend it and comment /batch unblock resume"
	}
	result, err := d.change(ctx, t, change.Message, change, false)
	if err == nil && refusals < maxRefusals && !result.Again {
		result.After = pause(refusals)
	}
	return result, err
}

func randomToken() string {
	b := make([]byte, 4)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
