package round_test

import (
	"errors"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/round"
	"github.com/batchbot/batchbot/githost/fakehost"
)

// procedure is something done about a batch in several steps, apart from the ordinary way.
type procedure struct {
	name  string
	steps int                                  // that are seen at least
	face  string                               // of the host
	setUp func(w *world) (b bot.Batch)         // brings a world to where it begins
	do    func(w *world, b bot.Batch) doing    // one try of one instance
	want  func(w *world, b bot.Batch, n []int) // how it ends, however often a step failed
}

type doing func(*round.Driver) (round.Result, error)

// tick is a procedure that ticks do.
func tick(w *world, _ bot.Batch) doing {
	return func(d *round.Driver) (round.Result, error) { return d.RunOnce(w.t.Context(), w.queue.ID) }
}

// says is a procedure that an operator's word does. Said again after it was done, it is refused.
func says(word bot.OperatorWord) func(*world, bot.Batch) doing {
	return func(w *world, b bot.Batch) doing {
		return func(d *round.Driver) (round.Result, error) {
			_, err := d.Order(w.t.Context(), bot.OperatorOrder{BatchID: b.ID, Word: word, Unblock: true, By: "olga", Source: "test"})
			return round.Result{}, err
		}
	}
}

// revisits is a procedure that the errand about a batch that is over does.
func revisits(w *world, b bot.Batch) doing {
	return func(d *round.Driver) (round.Result, error) { return round.Result{}, d.Revisit(w.t.Context(), b.ID) }
}

var procedures = []procedure{
	{
		"a deleted branch is restored", 3, fakehost.FaceGitLab,
		func(w *world) bot.Batch {
			b := w.runTo(bot.PhaseOpened)
			w.deleteBranch(b)
			return b
		}, tick,
		func(w *world, b bot.Batch, n []int) {
			w.finishCI()
			w.run()
			w.wantOnHost("merged", append(n, b.MRNumber)...)
			w.wantLandings(1)
		},
	},
	{
		"a branch deleted with its MR ends the batch", 2, fakehost.FaceGitHub,
		func(w *world) bot.Batch {
			b := w.runTo(bot.PhaseOpened)
			w.deleteBranch(b)
			return b
		}, tick,
		func(w *world, _ bot.Batch, n []int) {
			w.wantEnded(bot.CodeBranchDeleted)
			w.wantStatus(n[0], bot.OperationWaiting, bot.ReasonBatchFailed)
			w.wantQueue(bot.QueueParked, "BRANCH_DELETED")
		},
	},
	{
		"an operator ends a blocked batch", 3, fakehost.FaceGitHub,
		func(w *world) bot.Batch {
			b := w.block()
			w.must(w.fake.CloseMR(path, b.MRNumber, "bob"))
			return b
		}, says(bot.WordFailed),
		func(w *world, _ bot.Batch, n []int) {
			w.wantEnded(bot.CodeClosed)
			w.wantStatus(n[1], bot.OperationWaiting, bot.ReasonBatchFailed)
			w.wantQueue(bot.QueueParked, "olga ended the batch")
			w.wantAudit("olga", "change batch", 1)
		},
	},
	{
		"an operator records a landing", 2, fakehost.FaceGitHub,
		func(w *world) bot.Batch {
			b := w.block()
			w.must(w.fake.SetBranch(path, "main", b.HeadSHA, "bob"))
			return b
		}, says(bot.WordMerged),
		func(w *world, _ bot.Batch, n []int) {
			w.wantStatus(n[0], bot.OperationMerged, bot.ReasonLanded)
			w.wantStatus(n[1], bot.OperationMerged, bot.ReasonLanded)
			w.wantAudit("olga", "settle", 1)
		},
	},
	{
		"an operator resumes a blocked batch", 2, fakehost.FaceGitHub,
		func(w *world) bot.Batch {
			b := w.block()
			w.must(w.fake.SetBranch(path, b.Branch("main"), b.HeadSHA, "bob"))
			return b
		}, says(bot.WordResume),
		func(w *world, _ bot.Batch, n []int) {
			w.finishCI()
			w.run()
			w.wantOnHost("merged", n...)
			w.wantAudit("olga", "change batch", 1)
		},
	},
	{
		"a reopened batch is closed again", 2, fakehost.FaceGitHub,
		func(w *world) bot.Batch {
			b := w.fail()
			w.must(w.fake.ReopenMR(path, b.MRNumber, "bob"))
			return b
		}, revisits,
		func(w *world, b bot.Batch, _ []int) {
			w.wantOnHost("closed", b.MRNumber)
			if list := w.comments(b.MRNumber); len(list) != 1 {
				w.t.Errorf("comments %q", list)
			}
		},
	},
	{
		"a late landing is recorded", 4, fakehost.FaceGitHub,
		func(w *world) bot.Batch {
			b := w.fail()
			w.must(w.fake.ReopenMR(path, b.MRNumber, "bob"))
			_, err := w.fake.MergeMR(path, b.MRNumber, "bob")
			w.must(err)
			return b
		}, revisits,
		func(w *world, b bot.Batch, n []int) {
			mr, err := w.fake.MR(path, b.MRNumber)
			w.must(err)
			w.wantLate(b, mr.MergeSHA, n...)
		},
	},
	{
		"who left and landed is recorded with the landing", 3, fakehost.FaceGitHub,
		func(w *world) bot.Batch {
			w.stack(1)
			w.finishCI()
			w.runTo(bot.PhaseLanding)
			b, _ := w.active()
			return b
		}, tick,
		func(w *world, b bot.Batch, n []int) {
			w.wantStatus(n[0], bot.OperationMerged, bot.ReasonLandedEvicted)
			list := w.batches()
			if last := list[len(list)-1]; last.Status != bot.BatchSucceeded || last.Code != bot.CodeLandedEvicted {
				w.t.Errorf("the batch ended as %+v", last)
			}
			if n := w.count(`SELECT COUNT(*) FROM binding_history WHERE reason = ?`, bot.ReasonLandedEvicted); n != 1 {
				w.t.Errorf("recorded %d times", n)
			}
		},
	},
}

// TestEachStepOfEachProcedureMayFail lets every call of each procedure that has an effect go unanswered, or be made twice. The same procedure, tried again by another
// instance, and the ticks of the queue bring it to the same end.
func TestEachStepOfEachProcedureMayFail(t *testing.T) {
	t.Parallel()
	for _, p := range procedures {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			for _, m := range []mode{after, twice} { // before a step is after the one before it
				for n := 1; ; n++ {
					w := manual(t, p.face)
					numbers := []int{w.waiting(file("a", "a\n")), w.waiting(file("b", "b\n"))}
					b := p.setUp(w)
					driver, f := w.fused(n, m)
					do := p.do(w, b)
					for calm := 0; calm < 3; calm++ {
						result, err := w.lives(&driver, f, do)
						if err != nil && !errors.Is(err, errCrash) || result.Again {
							calm = -1
						}
					}
					w.run()
					p.want(w, b, numbers)
					if t.Failed() {
						t.Fatalf("%s", f.blown)
					}
					if f.blown == "" {
						if n <= p.steps {
							t.Fatalf("only %d steps were seen", n-1)
						}
						break
					}
				}
			}
		})
	}
}

// block is a batch of what waits that somebody pushed to.
func (w *world) block() bot.Batch {
	w.t.Helper()
	b := w.runTo(bot.PhaseOpened)
	_, err := w.fake.Commit(path, b.Branch("main"), "", "bob", "Help the bot", file("smuggled", "x\n"))
	w.must(err)
	w.run()
	b, _ = w.active()
	if b.Status != bot.BatchBlocked || b.Code != bot.CodeForeignPush {
		w.t.Fatalf("not blocked: %+v", b)
	}
	return b
}

// fail is a batch of what waits that a person closed, and that is over.
func (w *world) fail() bot.Batch {
	w.t.Helper()
	b := w.runTo(bot.PhaseOpened)
	w.must(w.fake.CloseMR(path, b.MRNumber, "bob"))
	w.run()
	w.wantEnded(bot.CodeClosed)
	return b
}

// stack has a merge request built on another one ride with it, and takes the lower one out of the batch.
func (w *world) stack(below int) (above int) {
	w.t.Helper()
	mr, err := w.fake.MR(path, below)
	w.must(err)
	_, err = w.fake.Commit(path, "on-top", mr.Branch, "ada", "On top of it", file("top", "top\n"))
	w.must(err)
	above, err = w.fake.OpenMR(path, fakehost.NewMR{Author: "ada", Head: "on-top", Title: "On top"})
	w.must(err)
	w.approve(above)
	w.admit(above)
	w.runTo(bot.PhaseOpened)
	_, err = w.fake.Review(path, below, "bob", fakehost.ChangesRequested, "not yet")
	w.must(err)
	w.finishCI()
	w.run()
	w.wantStatus(below, bot.OperationPendingApproval, bot.ReasonUnapproved)
	return above
}
