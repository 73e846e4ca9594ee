package round

import (
	"strings"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// opened is a batch that waits for CI with everything in order.
func opened() view {
	return view{
		queue:     bot.Queue{ID: 1, State: bot.QueueOpen, Target: "main", Settings: bot.DefaultQueueSettings("main")},
		active:    true,
		batch:     bot.Batch{ID: 7, Status: bot.BatchRunning, Phase: bot.PhaseOpened, BaseSHA: "base", HeadSHA: "head", MRNumber: 9, Build: 1, Size: 2},
		members:   []bot.Operation{{ID: "a", Number: 1}, {ID: "b", Number: 2}},
		mr:        bot.MRSnapshot{Number: 9, State: bot.MROpen, HeadSHA: "head", Target: "main"},
		headKnown: true,
		targetTip: "base",
		checks:    bot.CIJudgement{Verdict: bot.CIPending},
	}
}

func landing() view {
	v := opened()
	v.batch.Phase = bot.PhaseLanding
	return v
}

func TestDecide(t *testing.T) {
	t.Parallel()
	with := func(base func() view, change func(*view)) view {
		v := base()
		change(&v)
		return v
	}
	free := func() view {
		return view{queue: opened().queue, waiting: bot.WaitingSet{Fresh: 3}}
	}
	claimed := func() view {
		v := opened()
		v.batch.Phase, v.mr = bot.PhaseClaimed, bot.MRSnapshot{}
		return v
	}
	built := func() view {
		v := claimed()
		v.batch.Phase = bot.PhaseBuilt
		return v
	}
	green := func(v *view) { v.checks.Verdict = bot.CIGreen }
	for _, c := range []struct {
		name string
		view view
		want verb
		code bot.Code
	}{
		{"a free slot and something waiting starts a batch", free(), claim, ""},
		{"a part of a curated batch is not built", with(claimed, func(v *view) { v.batch.Kind, v.batch.Size = bot.BatchCurated, 3 }), fail, bot.CodeAllEvicted},
		{"nor landed", with(opened, func(v *view) { green(v); v.batch.Kind, v.batch.Size, v.looked = bot.BatchCurated, 3, true }), fail, bot.CodeAllEvicted},
		{"the whole of it is", with(claimed, func(v *view) { v.batch.Kind = bot.BatchCurated }), build, ""},
		{"nothing starts on a paused queue", with(free, func(v *view) { v.queue.State = bot.QueuePaused }), rest, ""},
		{"nothing starts on a parked queue", with(free, func(v *view) { v.queue.State = bot.QueueParked }), rest, ""},
		{"company is waited for", with(free, func(v *view) { v.queue.Settings.FillWait = time.Minute }), rest, ""},

		{"claimed members are built", claimed(), build, ""},
		{"a batch that everybody left fails", with(claimed, func(v *view) { v.members = nil }), fail, bot.CodeAllEvicted},
		{"a batch that cannot be built in time gives its members back", with(claimed, func(v *view) { v.batch.Overdue = true }), fail, bot.CodeHostGone},
		{"the deadline stands still while the queue is paused", with(claimed, func(v *view) { v.batch.Overdue, v.queue.State = true, bot.QueuePaused }), build, ""},
		{"a recorded build that is not on the host is pushed", built(), push, ""},
		{"a recorded build that is on the host is opened", with(built, func(v *view) { v.branchTip = "head" }), open, ""},

		{"pending CI is waited for", opened(), rest, ""},
		{"red CI fails the batch", with(opened, func(v *view) { v.checks.Verdict = bot.CIRed }), fail, bot.CodeCIRed},
		{"green CI has the members read again", with(opened, green), lookAgain, ""},
		{"green CI and members in order land", with(opened, func(v *view) { green(v); v.looked = true }), enterLanding, ""},
		{"a member that changed is evicted before landing", with(opened, func(v *view) { green(v); v.looked, v.moves = true, []bot.Move{{}} }), evict, ""},
		{"a green batch of a paused queue does not land", with(opened, func(v *view) { green(v); v.looked, v.queue.State = true, bot.QueuePaused }), rest, ""},
		{"a green batch waits for a person where people land", with(opened, func(v *view) { green(v); v.looked, v.queue.Settings.Landing = true, bot.LandManually }), note, bot.CodeManual},
		{"no CI at all is waited for", with(opened, func(v *view) { v.checks.Verdict = bot.CIMissing }), note, ""},
		{"no CI at all passes where the repository says so", with(opened, func(v *view) { v.checks.Verdict, v.queue.Settings.Checks.None = bot.CIMissing, bot.WithoutChecksPass }), lookAgain, ""},
		{"no CI in time", with(opened, func(v *view) { v.checks.Verdict, v.batch.Overdue = bot.CIMissing, true }), fail, bot.CodeNoCI},
		{"CI too slow", with(opened, func(v *view) { v.batch.Overdue = true }), fail, bot.CodeCITimeout},
		{"closed by a person at the deadline", with(opened, func(v *view) { v.batch.Overdue, v.mr.State, v.checks.Verdict = true, bot.MRClosed, 0 }), fail, bot.CodeClosed},
		{"a target that moved at the deadline", with(opened, func(v *view) { v.batch.Overdue, v.targetTip, v.checks.Verdict = true, "other", 0 }), rebuild, ""},
		{"a host that lags until the deadline blames nobody", with(opened, func(v *view) { v.batch.Overdue, v.mr.HeadSHA, v.checks.Verdict = true, "earlier", 0 }), fail, bot.CodeHostGone},
		{"green at the deadline still lands", with(opened, func(v *view) { green(v); v.batch.Overdue = true }), lookAgain, ""},
		{"a cancelled check blames nobody", with(opened, func(v *view) { v.checks.Verdict = bot.CICancelled }), note, ""},
		{"nor when nobody ran it again in time", with(opened, func(v *view) { v.batch.Overdue, v.checks.Verdict = true, bot.CICancelled }), fail, bot.CodeNoCI},
		{"the target moved", with(opened, func(v *view) { v.targetTip = "other" }), rebuild, ""},
		{"the target moves for ever", with(claimed, func(v *view) { v.batch.Build = 12 }), fail, bot.CodeTargetMoving},
		{"as many moves of the target as allowed are followed", with(claimed, func(v *view) { v.batch.Build = 11 }), build, ""},
		{"merged by a person", with(opened, func(v *view) { v.mr.State = bot.MRMerged }), settleLanded, ""},
		{"landed by a push although its MR reads closed", with(opened, func(v *view) { v.mr.State, v.headLanded = bot.MRClosed, true }), settleLanded, ""},
		{"closed by a person", with(opened, func(v *view) { v.mr.State = bot.MRClosed }), fail, bot.CodeClosed},
		{"merged by a person into another branch", with(opened, func(v *view) { v.mr.State, v.mr.Target = bot.MRMerged, "other" }), fail, bot.CodeClosed},
		{"a deleted branch is restored", with(opened, func(v *view) { v.branchGone = true }), restore, ""},
		{"a restored branch need not show everywhere at once", with(opened, func(v *view) { v.branchGone, v.batch.Restores = true, 1 }), rest, ""},
		{"a branch deleted again ends the batch", with(opened, func(v *view) { v.branchGone, v.batch.Restores, v.batch.PhaseAge = true, 1, time.Minute }), fail, bot.CodeBranchDeleted},
		{"an MR that the host closed with its branch", with(opened, func(v *view) { v.mr.State, v.branchGone = bot.MRClosed, true }), fail, bot.CodeBranchDeleted},
		{"an MR that the host closed before its branch was back", with(opened, func(v *view) { v.mr.State, v.batch.Restores = bot.MRClosed, 1 }), fail, bot.CodeBranchDeleted},
		{"a branch deleted after its batch landed is no matter", with(opened, func(v *view) { v.branchGone, v.headLanded, v.targetTip = true, true, "head" }), settleLanded, ""},
		{"the host lags behind its git", with(opened, func(v *view) { v.mr.HeadSHA = "earlier" }), rest, ""},
		{"a person pushed to the batch branch", with(opened, func(v *view) { v.mr.HeadSHA, v.headKnown = "foreign", false }), block, bot.CodeForeignPush},
		{"an approval is not asked for in every tick", with(opened, func(v *view) { green(v); v.batch.Code = bot.CodeNeedsApproval }), rest, ""},
		{"a review that is missing is not asked for at all", with(opened, func(v *view) {
			green(v)
			v.batch.Code, v.batch.PhaseAge, v.decision = bot.CodeNeedsApproval, time.Hour, bot.HostDecisionRequired
		}), rest, ""},
		{"a refused landing is not tried again at once, whatever nudges", with(opened, func(v *view) { green(v); v.batch.Refusals, v.batch.PhaseAge = 1, 3*time.Second }), rest, ""},
		{"a refused landing is tried again after a pause", with(opened, func(v *view) { green(v); v.batch.Refusals, v.batch.PhaseAge = 1, 4*time.Second }), lookAgain, ""},
		{"an approval is asked for again after a while", with(opened, func(v *view) { green(v); v.batch.Code, v.batch.PhaseAge = bot.CodeNeedsApproval, time.Hour }), lookAgain, ""},
		{"a failure that is written is settled, whatever the MR says", with(opened, func(v *view) { v.batch.Code, v.mr.State = bot.CodeCIRed, bot.MRClosed }), settleFailed, ""},

		{"landing is tried", landing(), land, ""},
		{"landing goes on though the queue is paused", with(landing, func(v *view) { v.queue.State = bot.QueuePaused }), land, ""},
		{"landing ends when the MR reads merged", with(landing, func(v *view) { v.mr.State = bot.MRMerged }), settleLanded, ""},
		{"landing ends when the target contains the head", with(landing, func(v *view) { v.targetTip, v.headLanded = "head", true }), settleLanded, ""},
		{"landing ends when the target moved without it", with(landing, func(v *view) { v.targetTip = "other" }), rebuild, ""},
		{"landing ends when the MR reads closed and its head is not in the target", with(landing, func(v *view) { v.mr.State = bot.MRClosed }), fail, bot.CodeClosed},
		{"an overdue landing is blocked, never failed", with(landing, func(v *view) { v.batch.Overdue = true }), block, bot.CodeOverdue},
		{"an overdue landing that landed is a success", with(landing, func(v *view) { v.batch.Overdue, v.mr.State = true, bot.MRMerged }), settleLanded, ""},
		{"a landing whose MR a person retargeted goes back", with(landing, func(v *view) { v.mr.Target = "other" }), leaveLanding, ""},
		{"a landing by push goes on whatever a person did to the MR's target", with(landing, func(v *view) {
			v.queue.Settings.Landing, v.mr.Target = bot.LandByPush, "other"
		}), land, ""},
		{"a landing by push goes on whatever a person pushed to the batch branch", with(landing, func(v *view) {
			v.queue.Settings.Landing, v.mr.HeadSHA, v.headKnown = bot.LandByPush, "foreign", false
		}), land, ""},
		{"a landing by merge whose MR stands at another head goes back", with(landing, func(v *view) { v.mr.HeadSHA, v.headKnown = "foreign", false }), leaveLanding, ""},
		{"a landing whose MR a person merged into another branch failed", with(landing, func(v *view) { v.mr.State, v.mr.Target = bot.MRMerged, "other" }), fail, bot.CodeClosed},
		{"a landing whose branch is deleted is pushed again, however often", with(landing, func(v *view) { v.branchGone, v.batch.Restores = true, 1 }), push, ""},
		{"a landing whose MR the host closed with its branch failed", with(landing, func(v *view) { v.mr.State, v.branchGone = bot.MRClosed, true }), fail, bot.CodeBranchDeleted},
		{"no members left changes nothing about a landing", with(landing, func(v *view) { v.members = nil }), land, ""},

		{"a blocked batch keeps its slot", with(opened, func(v *view) { v.batch.Status = bot.BatchBlocked; green(v) }), rest, ""},
		{"a blocked batch that a person merged is a success", with(opened, func(v *view) { v.batch.Status, v.mr.State = bot.BatchBlocked, bot.MRMerged }), settleLanded, ""},
		{"a blocked batch that a person closed fails", with(opened, func(v *view) { v.batch.Status, v.mr.State = bot.BatchBlocked, bot.MRClosed }), fail, bot.CodeClosed},
		{"a blocked batch whose head is in the target is a success, whatever its MR says", with(opened, func(v *view) { v.batch.Status, v.headLanded = bot.BatchBlocked, true }), settleLanded, ""},
		{"a foreign push that was undone lets its batch go on", with(opened, func(v *view) { v.batch.Status, v.batch.Code = bot.BatchBlocked, bot.CodeForeignPush }), resume, ""},
		{"a foreign push that stands keeps its batch blocked", with(opened, func(v *view) {
			v.batch.Status, v.batch.Code, v.mr.HeadSHA = bot.BatchBlocked, bot.CodeForeignPush, "foreign"
		}), rest, ""},
		{"a host that answers again lets its batch go on", with(opened, func(v *view) { v.batch.Status, v.batch.Code = bot.BatchBlocked, bot.CodeHostGone }), resume, ""},
		{"a refused landing waits for a person", with(opened, func(v *view) { v.batch.Status, v.batch.Code = bot.BatchBlocked, bot.CodeMergeRefused }), rest, ""},
		{"a foreign branch that went away lets its batch go on", with(built, func(v *view) { v.batch.Status, v.batch.MRNumber = bot.BatchBlocked, 0 }), rebuild, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := decide(c.view)
			if got.verb != c.want || got.code != c.code {
				t.Errorf("decided verb %d, code %q (%s); want verb %d, code %q", got.verb, got.code, got.why, c.want, c.code)
			}
			if got.verb == fail && got.code.Parks() && !strings.HasSuffix(got.why, "then resume the queue") {
				t.Errorf("a queue parks without its remedy: %q", got.why)
			}
		})
	}
}

func TestNotesAreWrittenOnce(t *testing.T) {
	t.Parallel()
	endless := bot.Check{Name: strings.Repeat("é", 3000)}
	for _, checks := range []bot.CIJudgement{{Verdict: bot.CIMissing}, {Verdict: bot.CICancelled, Checks: []bot.Check{endless}}} {
		v := opened()
		v.checks = checks
		first := decide(v)
		if first.verb != note || len([]rune(first.why)) > 2000 {
			t.Errorf("%s: decided %+v", checks.Verdict, first)
		}
		v.batch.Message = first.why
		if again := decide(v); again.verb != rest {
			t.Errorf("the same note is written again: %+v", again)
		}
	}
}

// Whoever waited for a person has time until tomorrow; once it fails, nobody wants to wait that long to hear that its end cannot be told.
func TestAFailureHasItsOwnTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		batch bot.Batch
		want  bool
	}{
		{"its deadline has passed", bot.Batch{Overdue: true}, true},
		{"it is under way", bot.Batch{Unchanged: 20 * time.Hour}, false},
		{"it failed a moment ago", bot.Batch{Code: bot.CodeAllEvicted, Unchanged: time.Minute}, false},
		{"it failed so long ago as the queue gives a batch", bot.Batch{Code: bot.CodeAllEvicted, Unchanged: time.Hour}, true},
	} {
		if got := outOfTime(c.batch, time.Hour); got != c.want {
			t.Errorf("%s: out of time %t", c.name, got)
		}
	}
	if outOfTime(bot.Batch{Code: bot.CodeCIRed, Unchanged: outcomeLimit - 1}, time.Minute) {
		t.Error("a short timeout leaves the host less than it needs")
	}
}
