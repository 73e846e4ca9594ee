package round

import (
	"fmt"
	"strings"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/plan"
)

// verb is what a tick does about its view.
type verb int

const (
	rest         verb = iota + 1
	park              // the queue starts nothing more until somebody resumes it
	claim             // start a batch
	build             // build, record, push
	push              // build the recorded build again and push it
	restore           // back to BUILT, whose push puts the deleted branch back
	open              // find or open the batch MR
	note              // write code and message, wait on
	lookAgain         // read the members before landing
	evict             // perform the view's moves
	rebuild           // back to CLAIMED
	enterLanding      // write LANDING
	land              // the landing call
	leaveLanding      // back to OPENED: the batch MR is not what the batch says
	resume            // a blocked batch goes on where it stood
	fail              // write the failing code, then settle it
	settleFailed      // settle the failing code that is written
	settleLanded
	block
)

// action is the one thing a tick does.
type action struct {
	verb    verb
	why     string        // for logs and, with note, fail and block, for people: the batch's message
	after   time.Duration // rest, note: when to look again; 0 = at the next poll
	choice  plan.Choice   // claim
	code    bot.Code      // note, fail, block
	extend  time.Duration // note: how far the deadline moves
	concl   string        // enterLanding, fail: what CI said
	resumed bool          // rebuild: of a blocked batch
}

const (
	// personLimit is how long a batch waits for a person: a manual landing, or an approval that only people can give.
	personLimit = 7 * 24 * time.Hour
	// askAgain is the least time between two landing calls that are refused for want of an approval.
	askAgain = 20 * time.Second
	// settleDown is how long the host may lag behind its own git.
	settleDown = 2 * time.Second
	// branchLag is how long a host may take to show everywhere a branch that it has shown once.
	branchLag = 10 * time.Second
	// outcomeLimit is how long the host may take at least to say what became of a landing, or of the MR of a failed batch, before a person
	// is asked.
	outcomeLimit = 15 * time.Minute
	// maxTargetMoves bounds the rebuilds of one batch because its target moved.
	maxTargetMoves = 10
	// maxRefusals is how often the host may refuse a landing before a person is asked.
	maxRefusals = 3
)

// decide maps a view to the one thing to do. It is pure.
func decide(v view) action {
	switch {
	case !v.active:
		return decideFree(v)
	case v.batch.Status == bot.BatchBlocked:
		return decideBlocked(v)
	case v.batch.Phase == bot.PhaseLanding && !v.batch.Code.Fails():
		return decideLanding(v)
	case v.batch.Code.Fails():
		return action{verb: settleFailed, why: "settling " + string(v.batch.Code)}
	case v.mr.State == bot.MRMerged:
		return decideMerged(v)
	case len(v.members) == 0:
		return action{verb: fail, code: bot.CodeAllEvicted, why: allLeft(v.batch)}
	case v.batch.Kind == bot.BatchCurated && len(v.members) < v.batch.Size:
		// Who leaves takes the others along in the same write; whatever made it otherwise, no part of the set is built.
		return action{verb: fail, code: bot.CodeAllEvicted, why: allLeft(v.batch)}
	case overdue(v):
		return decideOverdue(v)
	}
	switch v.batch.Phase {
	case bot.PhaseClaimed:
		// Each member can leave once; every other build is owed to the target.
		if v.batch.Build >= maxTargetMoves+v.batch.Size {
			return action{verb: fail, code: bot.CodeTargetMoving, why: "the target keeps moving faster than CI; protect it from other pushes, then resume the queue"}
		}
		return action{verb: build, why: "building"}
	case bot.PhaseBuilt:
		if v.branchTip == v.batch.HeadSHA {
			return action{verb: open, why: "opening the batch MR"}
		}
		return action{verb: push, why: "pushing the batch branch"}
	}
	return decideOpened(v)
}

func decideFree(v view) action {
	if v.queue.State != bot.QueueOpen {
		return action{verb: rest, why: "the queue is " + strings.ToLower(v.queue.State.String())}
	}
	if v.obstacle != "" {
		return action{verb: park, why: "batches cannot land on the target: " + v.obstacle + ", then resume the queue"}
	}
	choice := plan.Next(v.queue.Settings, v.waiting)
	if !choice.Claim {
		return action{verb: rest, why: choice.String(), after: choice.Wait}
	}
	return action{verb: claim, choice: choice, why: "claiming"}
}

// allLeft says why a batch has nobody to land.
func allLeft(b bot.Batch) string {
	if b.Kind == bot.BatchCurated {
		return fmt.Sprintf("a member of curated batch %d was lost, and they land together or not at all", bot.CuratedCohort(b.Cohort))
	}
	return "every member left the batch"
}

// decideMerged decides about a batch MR that reads merged: into the target, or by a person's retargeting somewhere else.
func decideMerged(v view) action {
	if v.mr.Target != v.queue.Target && !v.headLanded {
		return action{verb: fail, code: bot.CodeClosed, why: "a person merged the batch MR into " + v.mr.Target + "; ask why, then resume the queue"}
	}
	return action{verb: settleLanded, why: "the batch MR reads merged"}
}

// decideClosed tells a person's closing of the batch MR from the host's, which closes it with its branch.
func decideClosed(v view) action {
	by := "a person"
	if v.mr.ClosedBy != "" {
		by = v.mr.ClosedBy
	}
	if v.branchGone || v.batch.Restores > 0 {
		return action{verb: fail, code: bot.CodeBranchDeleted, why: by + " deleted the batch branch, and the batch MR is closed; leave branches batchbot/* alone, then resume the queue"}
	}
	return action{verb: fail, code: bot.CodeClosed, why: by + " closed the batch MR; ask why, then resume the queue"}
}

// decideBlocked lets a person's hand on the host resolve a blocked batch: merged or closed, or the foreign push undone. A host that answers again
// resolves what it could not be asked about.
func decideBlocked(v view) action {
	ours := v.mr.State == bot.MROpen && v.mr.HeadSHA == v.batch.HeadSHA
	switch {
	case v.headLanded:
		return action{verb: settleLanded, why: "the blocked batch landed"}
	case v.mr.State == bot.MRMerged:
		return decideMerged(v)
	case v.batch.MRNumber == 0 && (v.branchTip == "" || v.branchTip == v.batch.HeadSHA):
		return action{verb: rebuild, resumed: true, why: "the branch is free again"}
	case v.mr.State == bot.MRClosed:
		return decideClosed(v)
	case ours && v.batch.Code == bot.CodeForeignPush:
		return action{verb: resume, why: "the batch branch stands again where the bot put it"}
	case ours && v.batch.Code == bot.CodeHostGone:
		return action{verb: resume, why: "the host answers again"}
	}
	return action{verb: rest, why: "blocked: " + string(v.batch.Code)}
}

// overdue reports whether the deadline counts: it stands still while the queue is paused or parked.
func overdue(v view) bool {
	return v.batch.Overdue && v.queue.State == bot.QueueOpen
}

func decideOverdue(v view) action {
	if v.batch.Phase != bot.PhaseOpened {
		return action{verb: fail, code: bot.CodeHostGone, why: "the batch could not be built or opened in time; see the log for what the host answered, then resume the queue"}
	}
	switch {
	case v.batch.Code == bot.CodeNeedsApproval || v.batch.Code == bot.CodeManual:
		return action{verb: fail, code: bot.CodeMergeRefused, why: "nobody did what the batch MR waited for: " + v.batch.Message + "; see to that in time, then resume the queue"}
	case v.checks.Verdict == 0 && v.mr.State == bot.MROpen && v.headKnown && v.mr.HeadSHA != v.batch.HeadSHA && v.targetTip == v.batch.BaseSHA:
		return action{verb: fail, code: bot.CodeHostGone, why: "the host never showed the batch head on the batch MR; see its status page, then resume the queue"}
	case v.checks.Verdict == 0:
		return decideOpened(v) // something else than CI is the matter
	case v.checks.Verdict == bot.CIMissing:
		return action{verb: fail, code: bot.CodeNoCI, concl: "none", why: "no check appeared on the batch head; set checks.none to pass if the target has no CI, then resume the queue"}
	case v.checks.Verdict == bot.CIGreen:
		return decideOpened(v)
	case v.checks.Verdict == bot.CICancelled:
		// As CI_TIMEOUT it would make suspects of members of whom it says nothing.
		return action{verb: fail, code: bot.CodeNoCI, why: "a check was cancelled and nobody ran it again" + naming(v.checks.Checks) + "; see why, then resume the queue"}
	}
	return action{verb: fail, code: bot.CodeCITimeout, why: "CI did not finish in time" + naming(v.checks.Checks)}
}

// decideOpened decides while CI is awaited.
func decideOpened(v view) action {
	switch {
	case v.headLanded:
		return action{verb: settleLanded, why: "the target contains the batch head"}
	case v.mr.State == bot.MRClosed:
		return decideClosed(v)
	case v.mr.Target != v.queue.Target:
		return action{verb: fail, code: bot.CodeClosed, why: "a person retargeted the batch MR to " + v.mr.Target + "; ask why, then resume the queue"}
	case v.mr.HeadSHA != v.batch.HeadSHA && v.headKnown:
		return action{verb: rest, after: settleDown, why: "the host still shows an earlier head"}
	case v.mr.HeadSHA != v.batch.HeadSHA:
		return action{verb: block, code: bot.CodeForeignPush, why: "somebody pushed " + bot.ShortSHA(v.mr.HeadSHA) + " to the batch branch; put it back to " + bot.ShortSHA(v.batch.HeadSHA) + ", close the batch MR to give its members back, or merge it as it is"}
	case v.branchGone && v.batch.Restores == 0:
		return action{verb: restore, why: "somebody deleted the batch branch: it is pushed again, once"}
	case v.branchGone && v.batch.PhaseAge < branchLag:
		return action{verb: rest, after: branchLag - v.batch.PhaseAge, why: "the host does not show the batch branch everywhere yet"}
	case v.branchGone:
		return action{verb: fail, code: bot.CodeBranchDeleted, why: "somebody deleted the batch branch again after it had been restored; leave branches batchbot/* alone, then resume the queue"}
	case v.targetTip != v.batch.BaseSHA:
		return action{verb: rebuild, why: "the target moved to " + bot.ShortSHA(v.targetTip)}
	}
	switch v.checks.Verdict {
	case bot.CIRed:
		return action{verb: fail, code: bot.CodeCIRed, concl: "failure", why: "CI failed" + naming(v.checks.Checks)}
	case bot.CIGreen:
		return decideGreen(v, "success")
	case bot.CIMissing:
		if v.queue.Settings.Checks.None == bot.WithoutChecksPass {
			return decideGreen(v, "none")
		}
		return noteOnce(v, bot.CodeNone, "no check has appeared on the batch head yet; the batch waits for one until its timeout", 0)
	case bot.CICancelled:
		return noteOnce(v, bot.CodeNone, "a check was cancelled"+naming(v.checks.Checks)+"; run it again, the batch waits until its timeout", 0)
	}
	after := v.queue.Settings.Checks.QuietTime - v.batch.ChecksQuiet
	if len(v.checks.Checks) > 0 || after < 0 {
		after = 0
	}
	return action{verb: rest, after: after, why: "waiting for CI"}
}

// pause is how long the host is left alone after it refused to land a batch so often.
func pause(refusals int) time.Duration { return settleDown << refusals }

// decideGreen decides about a tested batch: look at every member once more, then land.
func decideGreen(v view, conclusion string) action {
	switch {
	case v.queue.State != bot.QueueOpen:
		return action{verb: rest, why: "green, but the queue is " + strings.ToLower(v.queue.State.String())}
	case v.batch.Code == bot.CodeNeedsApproval && (v.decision == bot.HostDecisionRequired || v.decision == bot.HostDecisionBlocked):
		return action{verb: rest, why: "waiting for an approval of the batch MR"}
	case v.batch.Code == bot.CodeNeedsApproval && v.batch.PhaseAge < askAgain:
		return action{verb: rest, after: askAgain - v.batch.PhaseAge, why: "waiting for an approval of the batch MR"}
	case v.batch.Refusals > 0 && v.batch.PhaseAge < pause(v.batch.Refusals):
		// Whatever nudges meanwhile: a few events in a row must not use up all tries.
		return action{verb: rest, after: pause(v.batch.Refusals) - v.batch.PhaseAge, why: "the host refused: a pause before the next try"}
	case !v.looked:
		return action{verb: lookAgain, why: "reading the members again"}
	case len(v.moves) > 0:
		return action{verb: evict, why: "a member changed"}
	case v.queue.Settings.Landing == bot.LandManually:
		return noteOnce(v, bot.CodeManual, "CI passed: the batch waits for a person to merge it, with a merge commit", personLimit)
	}
	return action{verb: enterLanding, concl: conclusion, why: "landing"}
}

// noteOnce writes a note unless it stands there already. It is cut to what the row keeps whole: else it would look new in every tick.
func noteOnce(v view, code bot.Code, message string, extend time.Duration) action {
	const most = 1500 // bytes
	if len(message) > most {
		message = strings.ToValidUTF8(message[:most], "") + "…"
	}
	if v.batch.Code == code && v.batch.Message == message {
		return action{verb: rest, why: message}
	}
	return action{verb: note, code: code, why: message, extend: extend}
}

// decideLanding decides past the point of no return: only what the host and the target say counts.
func decideLanding(v view) action {
	// Whoever lands by push moves the target to the tested commit whatever the batch MR shows, and may be about to: nothing a person does to the MR's
	// branch or target ends that. The host's merge is guarded by the head.
	pushes := v.queue.Settings.Landing == bot.LandByPush
	switch {
	case v.headLanded:
		return action{verb: settleLanded, why: "landed"}
	case v.mr.State == bot.MRMerged:
		return decideMerged(v)
	case v.mr.State == bot.MRClosed:
		return decideClosed(v)
	case v.targetTip != v.batch.BaseSHA:
		return action{verb: rebuild, why: "the target moved to " + bot.ShortSHA(v.targetTip) + " before the batch landed"}
	case v.mr.HeadSHA != v.batch.HeadSHA && !v.headKnown && !pushes:
		return action{verb: leaveLanding, why: "the batch MR stands at another head"}
	case v.mr.Target != v.queue.Target && !pushes:
		return action{verb: leaveLanding, why: "a person retargeted the batch MR to " + v.mr.Target}
	case v.mr.HeadSHA != v.batch.HeadSHA && !pushes:
		return action{verb: rest, after: settleDown, why: "the host still shows an earlier head"}
	case v.batch.Overdue:
		return action{verb: block, code: bot.CodeOverdue, why: "the landing did not come to an end in time; merge or close the batch MR by hand, or comment /batch unblock resume to try it again"}
	case v.branchGone:
		return action{verb: push, why: "somebody deleted the batch branch: pushing it again"}
	}
	return action{verb: land, why: "landing"}
}

// naming lists checks for people, with links where there are some.
func naming(checks []bot.Check) string {
	if len(checks) == 0 {
		return ""
	}
	var parts []string
	for i, c := range checks {
		if i == 5 {
			parts = append(parts, fmt.Sprintf("%d more", len(checks)-i))
			break
		}
		part := c.Name
		if c.URL != "" {
			part += " (" + c.URL + ")"
		}
		parts = append(parts, part)
	}
	return ": " + strings.Join(parts, ", ")
}
