package round_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/fakehost"
)

// order gives an operator's word and returns the answer.
func (w *world) order(o bot.OperatorOrder) bot.OperatorAnswer {
	w.t.Helper()
	if o.BatchID == 0 {
		b, _ := w.active()
		o.BatchID = b.ID
	}
	o.By, o.Source = "olga", "test"
	answer, err := w.driver.Order(w.t.Context(), o)
	w.must(err)
	return answer
}

// refused checks that a word is refused and changes nothing.
func (w *world) refused(o bot.OperatorOrder, words string) {
	w.t.Helper()
	before, _ := w.active()
	if a := w.order(o); a.Done || !strings.Contains(a.Text, words) {
		w.t.Errorf("%s: %+v, want a refusal with %q", o.Word, a, words)
	}
	if after, _ := w.active(); after.Version != before.Version {
		w.t.Errorf("%s was refused, and yet the batch is now %+v", o.Word, after)
	}
}

// accepted checks that a word is carried out.
func (w *world) accepted(o bot.OperatorOrder) {
	w.t.Helper()
	if a := w.order(o); !a.Done {
		w.t.Fatalf("%s is refused: %s", o.Word, a.Text)
	}
}

// blocked is a batch that somebody pushed to.
func blocked(t *testing.T, numbers *[]int) (*world, bot.Batch) {
	t.Helper()
	w := manual(t, fakehost.FaceGitHub)
	*numbers = []int{w.waiting(file("a", "a\n")), w.waiting(file("b", "b\n"))}
	return w, w.block()
}

func TestAnOperatorsWordIsHeldAgainstTheHost(t *testing.T) {
	t.Parallel()
	unblock := func(word bot.OperatorWord) bot.OperatorOrder { return bot.OperatorOrder{Word: word, Unblock: true} }
	t.Run("failed wants the MR closed", func(t *testing.T) {
		t.Parallel()
		var numbers []int
		w, b := blocked(t, &numbers)
		w.refused(unblock(bot.WordFailed), "reads open: close it first")
		w.refused(unblock(bot.WordMerged), "main does not contain the batch's head")
		w.refused(unblock(bot.WordResume), "which the bot did not put there")
		w.must(w.fake.CloseMR(path, b.MRNumber, "bob"))
		dry := unblock(bot.WordFailed)
		dry.DryRun = true
		if a := w.order(dry); !a.Done || !strings.HasPrefix(a.Text, "would settle it as failed") {
			t.Errorf("dry run: %+v", a)
		}
		if now, _ := w.active(); now.Version != b.Version {
			t.Error("a dry run changed the batch")
		}
		w.accepted(unblock(bot.WordFailed))
		w.wantEnded(bot.CodeClosed)
		w.wantStatus(numbers[0], bot.OperationWaiting, bot.ReasonBatchFailed)
		w.wantQueue(bot.QueueParked, "olga ended the batch")
		w.wantAudit("olga", "change batch", 1)
		w.refused(bot.OperatorOrder{BatchID: b.ID, Word: bot.WordFailed}, "is over (failed)")
	})
	t.Run("failed by force closes the MR itself", func(t *testing.T) {
		t.Parallel()
		var numbers []int
		w, b := blocked(t, &numbers)
		w.accepted(bot.OperatorOrder{Word: bot.WordFailed, Unblock: true, Force: true})
		w.wantEnded(bot.CodeClosed)
		w.wantOnHost("closed", b.MRNumber)
	})
	t.Run("merged wants the head in the target", func(t *testing.T) {
		t.Parallel()
		var numbers []int
		w, b := blocked(t, &numbers)
		w.must(w.fake.SetBranch(path, "main", b.HeadSHA, "bob"))
		w.refused(unblock(bot.WordFailed), "Say merged instead")
		w.accepted(unblock(bot.WordMerged))
		w.wantStatus(numbers[0], bot.OperationMerged, bot.ReasonLanded)
		w.wantStatus(numbers[1], bot.OperationMerged, bot.ReasonLanded)
		w.wantAudit("olga", "settle", 1)
	})
	t.Run("merged by force carries the alarm", func(t *testing.T) {
		t.Parallel()
		var numbers []int
		w, _ := blocked(t, &numbers)
		w.accepted(bot.OperatorOrder{Word: bot.WordMerged, Force: true})
		last := w.batches()[0]
		if last.Status != bot.BatchSucceeded || !last.Differs || last.Code != bot.CodeLandedDiffers || !strings.Contains(last.Message, "olga") {
			t.Errorf("the batch ended as %+v", last)
		}
		w.wantStatus(numbers[0], bot.OperationMerged, bot.ReasonLanded)
		w.wantAudit("olga", "settle", 1)
	})
	t.Run("merged by force ends what was taken off the target", func(t *testing.T) {
		t.Parallel()
		w := manual(t, fakehost.FaceGitHub)
		number := w.waiting(file("a", "a\n"))
		b := w.runTo(bot.PhaseOpened)
		_, err := w.fake.MergeMR(path, b.MRNumber, "bob")
		w.must(err)
		w.must(w.fake.SetBranch(path, "main", b.BaseSHA, "bob"))
		w.accepted(bot.OperatorOrder{Word: bot.WordMerged, Force: true})
		if last := w.batches()[0]; last.Status != bot.BatchSucceeded || !last.Differs || !strings.Contains(last.Message, "olga") {
			t.Errorf("the batch ended as %+v", last)
		}
		w.wantStatus(number, bot.OperationMerged, bot.ReasonLanded)
	})
	t.Run("resume goes on where it stood", func(t *testing.T) {
		t.Parallel()
		var numbers []int
		w, b := blocked(t, &numbers)
		w.must(w.fake.SetBranch(path, b.Branch("main"), b.HeadSHA, "bob"))
		w.accepted(unblock(bot.WordResume))
		w.refused(unblock(bot.WordResume), "is running and not blocked")
		w.finishCI()
		w.run()
		w.wantStatus(numbers[0], bot.OperationMerged, bot.ReasonLanded)
		w.wantAudit("olga", "change batch", 1)
		w.wantLandings(1)
	})
	t.Run("a batch under way is ended before it lands", func(t *testing.T) {
		t.Parallel()
		w := manual(t, fakehost.FaceGitHub)
		number := w.waiting(file("a", "a\n"))
		b := w.runTo(bot.PhaseOpened)
		w.refused(unblock(bot.WordFailed), "is running and not blocked")
		w.refused(bot.OperatorOrder{Word: bot.WordMerged}, "does not contain")
		w.accepted(bot.OperatorOrder{Word: bot.WordFailed})
		w.wantEnded(bot.CodeClosed)
		w.wantOnHost("closed", b.MRNumber)
		w.wantStatus(number, bot.OperationWaiting, bot.ReasonBatchFailed)
	})
	t.Run("a landing is not ended by a word", func(t *testing.T) {
		t.Parallel()
		w := manual(t, fakehost.FaceGitHub)
		w.waiting(file("a", "a\n"))
		w.runTo(bot.PhaseOpened)
		w.finishCI()
		w.runTo(bot.PhaseLanding)
		w.refused(bot.OperatorOrder{Word: bot.WordFailed}, "is landing, which only the host and the target end")
	})
}

func (w *world) wantAudit(actor, action string, want int) {
	w.t.Helper()
	if n := w.count(`SELECT COUNT(*) FROM audit WHERE actor = ? AND action = ?`, actor, action); n != want {
		w.t.Errorf("%d entries %q by %s in the audit, want %d", n, action, actor, want)
	}
}

// The host is gone for good: only by force can the batch end, and its MR is looked at once the host is back.
func TestAnOperatorEndsABatchWhoseHostIsGone(t *testing.T) {
	t.Parallel()
	var numbers []int
	w, b := blocked(t, &numbers)
	here := w.driver
	w.driver = w.newDriver(w.store, goneHost{w.host}, w.git, w.store)
	if _, err := w.driver.Order(t.Context(), bot.OperatorOrder{BatchID: b.ID, Word: bot.WordFailed, Unblock: true, By: "olga"}); err == nil {
		t.Fatal("ended without asking the host")
	}
	w.refused(bot.OperatorOrder{Word: bot.WordResume, Unblock: true, Force: true}, "cannot be asked")
	w.accepted(bot.OperatorOrder{Word: bot.WordFailed, Unblock: true, Force: true})
	w.wantEnded(bot.CodeForced)
	w.wantQueue(bot.QueueParked, "FORCED: olga ended it by force")
	w.wantOnHost("open", b.MRNumber)
	w.must(here.Revisit(t.Context(), b.ID))
	w.wantOnHost("closed", b.MRNumber)
	if n := w.count(`SELECT COUNT(*) FROM outbox WHERE kind = ?`, bot.ErrandBatchMR); n != 1 {
		t.Errorf("%d errands look at the MR", n)
	}
}

// goneHost answers nothing about merge requests.
type goneHost struct{ bot.Host }

var errDown = errors.New("502 Bad Gateway")

func (goneHost) ReadMR(context.Context, bot.Repository, int) (bot.MRSnapshot, error) {
	return bot.MRSnapshot{}, errDown
}

func (goneHost) CloseMR(context.Context, bot.Repository, int) error { return errDown }

// Sweeps, events and operators meet over one blocked batch: one of them settles it, and what they all say agrees.
func TestOperatorsAndTicksMayOverlap(t *testing.T) {
	t.Parallel()
	var numbers []int
	w, b := blocked(t, &numbers)
	w.must(w.fake.CloseMR(path, b.MRNumber, "bob"))
	var wg sync.WaitGroup
	for i := range 6 {
		driver := w.newDriver(w.store, w.host, w.git, grantingLocks{})
		wg.Go(func() {
			if i%2 == 0 {
				for range 4 {
					if _, err := driver.RunOnce(t.Context(), w.queue.ID); err != nil {
						t.Error(err)
					}
				}
				return
			}
			if _, err := driver.Order(t.Context(), bot.OperatorOrder{BatchID: b.ID, Word: bot.WordFailed, Unblock: true, By: "olga"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	w.run()
	w.wantEnded(bot.CodeClosed)
	for _, n := range numbers {
		w.wantStatus(n, bot.OperationWaiting, bot.ReasonBatchFailed)
	}
	if n := w.count(`SELECT COUNT(*) FROM audit WHERE action = 'settle'`); n != 1 {
		t.Errorf("settled %d times", n)
	}
}

// Somebody takes the name of a batch branch before the batch has an MR.
func TestAForeignBranchWithoutAnMRKeepsItsBatchBlocked(t *testing.T) {
	t.Parallel()
	w := manual(t, fakehost.FaceGitHub)
	number := w.waiting(file("a", "a\n"))
	b := w.runTo(bot.PhaseBuilt)
	w.deleteBranch(b)
	_, err := w.fake.Commit(path, b.Branch("main"), "main", "bob", "Take the name", file("smuggled", "x\n"))
	w.must(err)
	w.run()
	if b, _ = w.active(); b.Status != bot.BatchBlocked || b.MRNumber != 0 {
		t.Fatalf("not blocked: %+v", b)
	}
	w.refused(bot.OperatorOrder{Word: bot.WordResume, Unblock: true}, "which the bot did not put there: delete the branch")
	w.deleteBranch(b)
	w.accepted(bot.OperatorOrder{Word: bot.WordResume, Unblock: true})
	w.run()
	w.finishCI()
	w.run()
	w.wantStatus(number, bot.OperationMerged, bot.ReasonLanded)
}
