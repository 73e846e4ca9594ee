package intake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/batchbot/batchbot/bot"
)

func TestApplyWaitsForApprovalAndGoesOnByItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opens(1)
	w.says(ada, 1, "Please.\n\n/batch")
	op := w.stands(1, bot.OperationPendingApproval, first)
	if op.Detail == "" || op.Requester != "ada" || len(w.nudged) != 0 {
		t.Errorf("operation %+v, nudged %v", op, w.nudged)
	}
	if !slices.Equal(w.rows.reactions, []bot.Reaction{bot.ReactionSeen}) {
		t.Errorf("reactions %v", w.rows.reactions)
	}
	w.replies()

	w.changed(1)
	w.stands(1, bot.OperationPendingApproval, first)
	w.approves(1, first)
	w.changed(1)
	w.stands(1, bot.OperationWaiting, first)
	if !slices.Equal(w.nudged, []int64{1}) {
		t.Errorf("nudged %v", w.nudged)
	}
}

func TestApplyOfAnApprovedOneWaitsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opens(1)
	w.approves(1, first)
	w.says(grace, 1, "/batch")
	w.stands(1, bot.OperationWaiting, first)
	if !slices.Equal(w.nudged, []int64{1}) {
		t.Errorf("nudged %v", w.nudged)
	}
}

func TestApprovalOfAnEarlierCommitDoesNotCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opens(1)
	w.approves(1, first)
	w.pushes(1, second)
	w.says(ada, 1, "/batch")
	w.stands(1, bot.OperationPendingApproval, second)
}

func TestForksNeedAnApprovalEvenWhereNobodyElseDoes(t *testing.T) {
	t.Parallel()
	for _, fork := range []bool{false, true} {
		w := newWorld(t)
		w.opens(1)
		w.says(ada, 1, "/batch")
		w.rows.queues[0].Settings.Approvals.Count = 0
		w.changes(1, func(mr *bot.MRSnapshot) { mr.FromFork = fork })
		w.changed(1)
		want := bot.OperationWaiting
		if fork {
			want = bot.OperationPendingApproval
		}
		w.stands(1, want, first)
	}
}

// A fork's head runs with the repository's secrets in a batch: where it changes what CI does, a maintainer has to look.
func TestAForkThatChangesCIWaitsForAMaintainer(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bot.OperationStatus{
		"src/main.go":              bot.OperationWaiting,
		".github/workflows/ci.yml": bot.OperationPendingApproval,
		".gitlab-ci.yml":           bot.OperationPendingApproval,
	} {
		w := newWorld(t)
		w.opens(1)
		w.changes(1, func(mr *bot.MRSnapshot) { mr.FromFork = true })
		w.host.paths = []string{"README", path}
		w.approves(1, first)
		w.says(ada, 1, "/batch")
		w.stands(1, want, first)
	}
}

func TestRefusalsSayWhatToDo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		set      func(*world)
		by       bot.Actor
		body     string
		reaction bot.Reaction
		reply    string
	}{
		{"an outsider", func(*world) {}, mallory, "/batch", bot.ReactionRefused, "only the author of a merge request and people with write access"},
		{"a plain issue", func(w *world) { delete(w.host.mrs, 1) }, ada, "/batch", bot.ReactionConfused, "This is not a merge request"},
		{"closed", func(w *world) { w.changes(1, func(mr *bot.MRSnapshot) { mr.State = bot.MRClosed }) }, ada, "/batch", bot.ReactionRefused, "reopen it first"},
		{"merged", func(w *world) { w.changes(1, func(mr *bot.MRSnapshot) { mr.State = bot.MRMerged }) }, ada, "/batch", bot.ReactionRefused, "it is merged already"},
		{"a draft", func(w *world) { w.changes(1, func(mr *bot.MRSnapshot) { mr.Draft = true }) }, ada, "/batch", bot.ReactionRefused, "mark it ready first"},
		{"a branch without a queue", func(w *world) { w.changes(1, func(mr *bot.MRSnapshot) { mr.Target = "topic" }) }, ada, "/batch", bot.ReactionRefused, "`topic` has no queue. Branches with a queue: `main`"},
		{"a branch its file leaves out", func(w *world) { w.host.files["main"] = "release next" }, ada, "/batch", bot.ReactionRefused, "`main` has no queue. Branches with a queue: `release`, `next`"},
		{"a broken file", func(w *world) { w.host.files["main"] = "broken" }, ada, "/batch", bot.ReactionRefused, "line 1: unknown key broken"},
		{"no merge commits", func(w *world) { w.host.mergeCommits = false }, ada, "/batch", bot.ReactionRefused, "allow merge commits"},
		{"a batch", func(w *world) {
			w.changes(1, func(mr *bot.MRSnapshot) { mr.SourceBranch = "batchbot/7-0a1b2c3d/main" })
		}, ada, "/batch", bot.ReactionConfused, "This is a batch"},
		{"nothing to cancel", func(*world) {}, ada, "/batch cancel", bot.ReactionConfused, "nothing to cancel: it was never applied"},
		{"nothing to retry", func(*world) {}, ada, "/batch retry", bot.ReactionConfused, "nothing to retry: it was never applied"},
		{"a mistake", func(*world) {}, ada, "/batch cancle", bot.ReactionConfused, "Did you mean `/batch cancel`?"},
		{"a later version", func(*world) {}, ada, "/batch pause", bot.ReactionConfused, "`/batch pause` is not in this version"},
		{"help", func(*world) {}, mallory, "/batch help", bot.ReactionSeen, "| `/batch cancel` |"},
		{"status", func(*world) {}, ada, "/batch status", bot.ReactionSeen, "was not applied to any queue"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.opens(1)
			c.set(w)
			w.says(c.by, 1, c.body)
			if len(w.rows.ops) != 0 {
				t.Errorf("operations %+v", w.rows.ops)
			}
			if len(w.rows.answers) != 1 || w.rows.answers[0].Reaction != c.reaction || w.rows.answers[0].Number != 1 {
				t.Errorf("answers %+v", w.rows.answers)
			}
			w.replies(c.reply)
		})
	}
}

func TestCommandsOfBotsAndCommentsWithoutOneCostNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opens(1)
	w.says(bot.Actor{ID: 9, Login: "renovate[bot]", Bot: true}, 1, "/batch")
	w.says(ada, 1, "<!-- batchbot:status -->\n/batch")
	w.says(ada, 1, "I would /batch this.")
	w.says(ada, 1, "```\n/batch\n```")
	if len(w.steps.calls) != 0 {
		t.Errorf("calls %v", w.steps.calls)
	}
}

func TestStatusShowsWhereItStands(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opens(1)
	w.says(ada, 1, "/batch")
	w.says(ada, 1, "/batch status")
	w.replies("Waiting for approval: needs 1 more approval")
}

func TestASecondApplicationIsAnsweredAndChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opens(1)
	w.approves(1, first)
	w.says(ada, 1, "/batch")
	w.says(ada, 1, "/batch")
	w.replies("on its way already: approved")
	if len(w.rows.ops) != 1 {
		t.Errorf("%d operations", len(w.rows.ops))
	}
}

func TestAFailedOneNeedsRetryOrAPush(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opens(1)
	w.approves(1, first)
	w.says(ada, 1, "/batch")
	w.fails(1)
	w.says(ada, 1, "/batch")
	w.replies("comment `/batch retry`")
	op := w.stands(1, bot.OperationFailed, first)

	w.says(ada, 1, "/batch retry")
	if again := w.stands(1, bot.OperationWaiting, first); again.ID != op.ID {
		t.Errorf("retry made operation %s of %s", again.ID, op.ID)
	}
	w.replies()

	// A push whose webhook was lost: the next command notices.
	w.fails(1)
	w.pushes(1, second)
	w.says(ada, 1, "/batch")
	w.stands(1, bot.OperationPendingApproval, second)
	w.replies("on its way already: waiting for approval")
}

func TestRetryOfAnUnapprovedOneWaitsForApproval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opens(1)
	w.says(ada, 1, "/batch")
	w.fails(1)
	w.says(ada, 1, "/batch retry")
	w.stands(1, bot.OperationPendingApproval, first)
	w.says(ada, 1, "/batch retry")
	w.replies("nothing to retry: it is waiting for approval")
}

func TestCancelTakesItOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opens(1)
	w.approves(1, first)
	w.says(ada, 1, "/batch")
	w.says(ada, 1, "/batch cancel")
	w.stands(1, bot.OperationCancelled, first)
	w.says(ada, 1, "/batch cancel")
	w.replies("nothing to cancel: it is cancelled")
	w.says(ada, 1, "/batch")
	w.stands(1, bot.OperationWaiting, first)
}

func TestCancelOfAMemberGuardsItsBatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opens(1)
	w.approves(1, first)
	w.says(ada, 1, "/batch")
	w.rides(1, bot.PhaseOpened)
	guard := w.rows.batch.Guard()
	w.nudged = nil
	w.says(grace, 1, "/batch cancel")
	w.stands(1, bot.OperationCancelled, first)
	move := w.rows.moves[len(w.rows.moves)-1]
	if move.Batch == nil || *move.Batch != guard || move.By != "grace" || move.Source != "delivery-1" {
		t.Errorf("move %+v", move)
	}
	if !slices.Contains(w.nudged, 1) {
		t.Error("the queue was not woken to build without it")
	}
}

func TestCancelIsTooLateWhileLanding(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opens(1)
	w.approves(1, first)
	w.says(ada, 1, "/batch")
	w.rides(1, bot.PhaseLanding)
	w.says(ada, 1, "/batch cancel")
	w.stands(1, bot.OperationBatched, first)
	w.replies("too late to cancel")
}

func TestALaterCommandWins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opens(1)
	w.approves(1, first)
	late := w.wrote(ada, 1, "/batch cancel")
	w.says(ada, 1, "/batch")
	if err := w.hears(late); err != nil {
		t.Fatal(err)
	}
	w.stands(1, bot.OperationWaiting, first)
	w.replies("A later command")
}

func TestSeveralCommandsOfOneCommentComeInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opens(1)
	w.approves(1, first)
	w.says(ada, 1, "/batch\n/batch cancel\n/batch\n/batch status")
	w.stands(1, bot.OperationWaiting, first)
	if len(w.rows.ops) != 2 || w.rows.ops[0].Status != bot.OperationCancelled {
		t.Errorf("operations %+v", w.rows.ops)
	}
	w.replies("Approved, in the waiting set")
}

func TestACommentHoldsOnlySoManyCommands(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opens(1)
	body := ""
	for range 100 {
		body += "/batch nonsense\n"
	}
	w.says(ada, 1, body)
	if n := len(w.rows.answers); n != 11 {
		t.Errorf("%d answers", n)
	}
}

func TestTheFileOfTheTargetCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opens(1)
	w.host.files["main"] = "main release"
	w.says(ada, 1, "/batch")
	if q := w.rows.queues[0]; q.Settings.MaxBatchSize != 7 || q.SettingsBlob != "blob of main release" {
		t.Errorf("queue %+v", q)
	}
	// Broken later, the last good settings stay, and the first who applies is told, once.
	w.host.files["main"] = "broken"
	w.opens(2)
	w.opens(3)
	c := w.wrote(ada, 2, "/batch")
	for range 3 {
		if err := w.hears(c); err != nil {
			t.Fatal(err)
		}
	}
	w.says(ada, 3, "/batch")
	w.stands(2, bot.OperationPendingApproval, first)
	w.stands(3, bot.OperationPendingApproval, first)
	w.replies("keeps its last good settings")
	w.says(ada, 3, "/batch")
	w.replies("on its way already")
	if q := w.rows.queues[0]; q.Settings.MaxBatchSize != 7 {
		t.Errorf("queue %+v", q)
	}
}

// A host says of a file on a branch that does not exist, even for a moment, that it is not there. That is no reason to fall back to the defaults, which
// may ask for less than the file did.
func TestATargetThatIsGoneKeepsItsSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host.files["main"] = "main release"
	w.opens(1)
	w.says(ada, 1, "/batch")
	delete(w.host.files, "main")
	w.host.deleted = map[string]bool{"main": true}
	w.opens(2)
	w.says(ada, 2, "/batch")
	w.replies("does not exist")
	if q := w.rows.queues[0]; q.Settings.MaxBatchSize != 7 || q.SettingsBlob != "blob of main release" {
		t.Errorf("queue %+v", q)
	}
	// Without the file on a branch that exists the defaults are meant.
	w.host.deleted = nil
	w.says(ada, 2, "/batch")
	w.stands(2, bot.OperationPendingApproval, first)
	if q := w.rows.queues[0]; q.SettingsBlob != "" {
		t.Errorf("queue %+v", q)
	}
}

func TestTwiceIsOnce(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"/batch", "/batch cancel", "/batch retry", "/batch status", "/batch help", "/batch nonsense"} {
		w := newWorld(t)
		w.opens(1)
		w.approves(1, first)
		w.says(ada, 1, "/batch")
		c := w.wrote(ada, 1, body)
		for range 3 {
			if err := w.hears(c); err != nil {
				t.Fatal(err)
			}
		}
		if len(w.rows.answers) > 1 || len(w.rows.ops) > 1 || len(w.rows.moves) > 1 {
			t.Errorf("%s three times: %d answers, %d operations, %d moves", body, len(w.rows.answers), len(w.rows.ops), len(w.rows.moves))
		}
	}
}

// TestAnyStepMayFail lets every single call of every command fail once, before its effect or after, and delivers the comment again.
func TestAnyStepMayFail(t *testing.T) {
	t.Parallel()
	scenes := map[string]struct {
		set   func(*world)
		by    bot.Actor
		body  string
		check func(*world)
	}{
		"apply": {func(w *world) { w.approves(1, first) }, ada, "/batch", func(w *world) {
			w.stands(1, bot.OperationWaiting, first)
			w.replies()
		}},
		"apply unapproved": {func(*world) {}, grace, "/batch", func(w *world) {
			w.stands(1, bot.OperationPendingApproval, first)
			w.replies()
		}},
		"apply twice": {func(w *world) { w.says(ada, 1, "/batch") }, ada, "/batch", func(w *world) { w.replies("on its way already") }},
		"cancel a member": {func(w *world) {
			w.approves(1, first)
			w.says(ada, 1, "/batch")
			w.rides(1, bot.PhaseBuilt)
		}, grace, "/batch cancel", func(w *world) {
			w.stands(1, bot.OperationCancelled, first)
			w.replies()
		}},
		"retry": {func(w *world) {
			w.approves(1, first)
			w.says(ada, 1, "/batch")
			w.fails(1)
		}, ada, "/batch retry", func(w *world) {
			w.changed(1) // the admission of an approved one may be left to the next hint
			w.stands(1, bot.OperationWaiting, first)
			w.replies()
		}},
		"refused":  {func(*world) {}, mallory, "/batch", func(w *world) { w.replies("only the author") }},
		"no queue": {func(w *world) { w.changes(1, func(mr *bot.MRSnapshot) { mr.Target = "topic" }) }, ada, "/batch", func(w *world) { w.replies("has no queue") }},
		"status":   {func(*world) {}, ada, "/batch status", func(w *world) { w.replies("not applied") }},
		"several": {func(w *world) { w.approves(1, first) }, ada, "/batch\n/batch nonsense\n/batch cancel", func(w *world) {
			w.stands(1, bot.OperationCancelled, first)
			w.replies("no command")
		}},
	}
	for name, scene := range scenes {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, after the effect %t", name, after), func(t *testing.T) {
				t.Parallel()
				for n := 1; ; n++ {
					w := newWorld(t)
					w.opens(1)
					scene.set(w)
					w.rows.answers = nil
					c := w.wrote(scene.by, 1, scene.body)
					*w.steps = steps{failAt: n, after: after}
					err := w.hears(c)
					if len(w.steps.calls) < n {
						if n < 4 {
							t.Fatalf("only %d calls", n)
						}
						return // every call had its turn
					}
					failed := w.steps.calls[n-1]
					if err != nil && !errors.Is(err, errDown) {
						t.Fatalf("%s failed and gave %v", failed, err)
					}
					*w.steps = steps{}
					for range 2 {
						if err := w.hears(c); err != nil {
							t.Fatalf("after %s had failed: %v", failed, err)
						}
					}
					scene.check(w)
					if t.Failed() {
						t.Fatalf("after %s had failed (call %d)", failed, n)
					}
				}
			})
		}
	}
}

func TestACommandMakesItsRepositoryKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opens(1)
	w.rows.repos = nil
	w.says(ada, 1, "/batch")
	w.stands(1, bot.OperationPendingApproval, first)
	if len(w.rows.repos) != 1 || !w.rows.repos[0].Active {
		t.Errorf("repositories %+v", w.rows.repos)
	}
}

func TestACommandFromAGoneRepositoryIsDropped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opens(1)
	w.rows.repos[0].Active, w.host.gone = false, true
	if err := w.hears(w.wrote(ada, 1, "/batch")); err != nil {
		t.Fatal(err)
	}
	if len(w.rows.ops) != 0 || w.rows.repos[0].Active {
		t.Errorf("operations %+v, repositories %+v", w.rows.ops, w.rows.repos)
	}
}

func TestConcurrentApplicationsComeBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opens(1)
	w.applier.Records = &lateRows{w.rows}
	if err := w.hears(w.wrote(ada, 1, "/batch")); !errors.Is(err, errLater) {
		t.Errorf("error %v", err)
	}
}

// lateRows are rows on which somebody else is always just about to apply.
type lateRows struct{ *fakeRows }

func (lateRows) Apply(context.Context, bot.Application) (bot.ApplyResult, error) {
	return bot.ApplyResult{Outcome: bot.ApplyRetryLater}, nil
}
