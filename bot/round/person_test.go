package round_test

import (
	"strings"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/fakehost"
)

// What people do to a batch's branch and MR, and to its members, while it is under way.

func manual(t *testing.T, face string) *world {
	t.Helper()
	w := newWorldOn(t, face, nil)
	w.fake.SetCI(fakehost.CI{Mode: fakehost.CIManual})
	return w
}

// deleteBranch is a person's deletion of the batch branch.
func (w *world) deleteBranch(b bot.Batch) {
	w.t.Helper()
	w.must(w.fake.SetBranch(path, b.Branch("main"), "", "bob"))
}

func TestADeletedBranchIsRestoredOnce(t *testing.T) {
	t.Parallel()
	w := manual(t, fakehost.FaceGitLab)
	number := w.waiting(file("a", "a\n"))
	b := w.runTo(bot.PhaseOpened)
	w.deleteBranch(b)
	w.run()
	after, _ := w.active()
	if tip, _ := w.fake.Branch(path, b.Branch("main")); tip != b.HeadSHA || after.Restores != 1 || after.Phase != bot.PhaseOpened || after.MRNumber != b.MRNumber {
		t.Fatalf("the branch stands at %q: %+v", tip, after)
	}
	w.finishCI()
	w.run()
	w.wantStatus(number, bot.OperationMerged, bot.ReasonLanded)
	w.wantOnHost("merged", number, b.MRNumber)
	w.wantLandings(1)
}

func TestABranchDeletedAgainEndsTheBatch(t *testing.T) {
	t.Parallel()
	w := manual(t, fakehost.FaceGitLab)
	number := w.waiting(file("a", "a\n"))
	b := w.runTo(bot.PhaseOpened)
	w.deleteBranch(b)
	w.run()
	w.deleteBranch(b)
	if r := w.run(); r.After == 0 {
		t.Fatalf("a host that lags is not waited for: %+v", r)
	}
	w.ages("phase_at")
	w.run()
	w.wantEnded(bot.CodeBranchDeleted)
	w.wantStatus(number, bot.OperationWaiting, bot.ReasonBatchFailed)
	w.wantQueue(bot.QueueParked, "BRANCH_DELETED: somebody deleted the batch branch again")
	w.wantOnHost("closed", b.MRNumber)
}

// ages sets one of the active batch's times an hour back.
func (w *world) ages(column string) {
	w.t.Helper()
	_, err := w.writer.ExecContext(w.t.Context(), `UPDATE merge_batch SET `+column+` = `+column+` - 3600000000 WHERE active_slot IS NOT NULL`)
	w.must(err)
}

// wantEnded checks that the newest batch failed with a code.
func (w *world) wantEnded(code bot.Code) {
	w.t.Helper()
	list := w.batches()
	if last := list[len(list)-1]; last.Status != bot.BatchFailed || last.Code != code {
		w.t.Errorf("the batch ended as %+v, want %s", last, code)
	}
}

// GitHub closes a pull request whose branch is deleted: that is no person's closing.
func TestAnMRThatTheHostClosedWithItsBranch(t *testing.T) {
	t.Parallel()
	w := manual(t, fakehost.FaceGitHub)
	number := w.waiting(file("a", "a\n"))
	b := w.runTo(bot.PhaseOpened)
	w.deleteBranch(b)
	w.wantOnHost("closed", b.MRNumber)
	w.run()
	w.wantEnded(bot.CodeBranchDeleted)
	w.wantStatus(number, bot.OperationWaiting, bot.ReasonBatchFailed)
	w.wantQueue(bot.QueueParked, "BRANCH_DELETED: bob deleted the batch branch")
}

// Where the host says who closed a batch MR, the queue does too.
func TestWhoClosedABatchIsNamed(t *testing.T) {
	t.Parallel()
	for _, face := range []string{fakehost.FaceGitHub, fakehost.FaceGitLab} {
		t.Run(face, func(t *testing.T) {
			t.Parallel()
			w := manual(t, face)
			w.waiting(file("a", "a\n"))
			b := w.runTo(bot.PhaseOpened)
			w.must(w.fake.CloseMR(path, b.MRNumber, "bob"))
			w.run()
			w.wantEnded(bot.CodeClosed)
			w.wantQueue(bot.QueueParked, "CLOSED_BY_PERSON: bob closed the batch MR")
		})
	}
}

// A person retargets the batch MR and merges it somewhere else: nothing of it landed.
func TestABatchMergedIntoAnotherBranchDidNotLand(t *testing.T) {
	t.Parallel()
	w := manual(t, fakehost.FaceGitHub)
	number := w.waiting(file("a", "a\n"))
	b := w.runTo(bot.PhaseOpened)
	_, err := w.fake.Commit(path, "side", "main", "bob", "Another branch", file("side", "x\n"))
	w.must(err)
	w.must(w.fake.Retarget(path, b.MRNumber, "bob", "side"))
	_, err = w.fake.MergeMR(path, b.MRNumber, "bob")
	w.must(err)
	w.run()
	w.wantEnded(bot.CodeClosed)
	w.wantStatus(number, bot.OperationWaiting, bot.ReasonBatchFailed)
	w.wantQueue(bot.QueueParked, "merged the batch MR into side")
	w.wantLandings(0)
}

// Whatever takes one member out, the batch is built again without it, and the rest lands.
func TestEachWayToLeaveCostsOneMember(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		leave  func(w *world, number int)
		status bot.OperationStatus
		reason bot.Reason
	}{
		"pushed to": {func(w *world, n int) {
			_, err := w.fake.PushTo(path, n, file("b", "more\n"))
			w.must(err)
		}, bot.OperationPendingApproval, bot.ReasonHeadMoved},
		"closed":     {func(w *world, n int) { w.must(w.fake.CloseMR(path, n, "ada")) }, bot.OperationClosed, bot.ReasonClosed},
		"retargeted": {func(w *world, n int) { w.must(w.fake.Retarget(path, n, "ada", "side")) }, bot.OperationCancelled, bot.ReasonRetargeted},
		"drafted":    {func(w *world, n int) { w.must(w.fake.SetDraft(path, n, "ada", true)) }, bot.OperationPendingApproval, bot.ReasonDrafted},
		"un-approved": {func(w *world, n int) {
			_, err := w.fake.Review(path, n, "bob", fakehost.ChangesRequested, "no")
			w.must(err)
		}, bot.OperationPendingApproval, bot.ReasonUnapproved},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := manual(t, fakehost.FaceGitHub)
			_, err := w.fake.Commit(path, "side", "main", "bob", "Another branch", file("side", "x\n"))
			w.must(err)
			stays, leaves := w.waiting(file("a", "a\n")), w.waiting(file("b", "b\n"))
			before := w.runTo(bot.PhaseOpened)
			c.leave(w, leaves)
			w.finishCI()
			w.run()
			w.wantStatus(leaves, c.status, c.reason)
			after, members := w.active()
			if after.ID != before.ID || len(members) != 1 || after.HeadSHA == before.HeadSHA {
				t.Fatalf("not built again without it: %+v with %d members", after, len(members))
			}
			w.finishCI()
			w.run()
			w.wantStatus(stays, bot.OperationMerged, bot.ReasonLanded)
			w.wantOnHost("merged", stays)
			w.wantOnHost("open", w.open(leaves)...)
			w.wantLandings(1)
		})
	}
}

// open is the number in a list if it is open on the host.
func (w *world) open(number int) []int {
	w.t.Helper()
	mr, err := w.fake.MR(path, number)
	w.must(err)
	if mr.State != "open" {
		return nil
	}
	return []int{number}
}

// A member that left rides in all the same, inside of another member that is built on it: an alarm, and it is recorded as landed.
func TestWhoLeftAndLandedAllTheSameIsAnAlarm(t *testing.T) {
	t.Parallel()
	w := manual(t, fakehost.FaceGitHub)
	below := w.waiting(file("a", "a\n"))
	above := w.stack(below)
	w.finishCI()
	w.run()
	w.wantStatus(above, bot.OperationMerged, bot.ReasonLanded)
	w.wantStatus(below, bot.OperationMerged, bot.ReasonLandedEvicted)
	b := w.batches()[0]
	if b.Status != bot.BatchSucceeded || b.Code != bot.CodeLandedEvicted || !strings.Contains(b.Message, "#1, which had left the batch") {
		t.Errorf("the batch ended as %+v", b)
	}
	if n := w.count(`SELECT COUNT(*) FROM outbox WHERE kind = ? AND number = ?`, bot.ErrandNotice, below); n != 2 {
		t.Errorf("%d notices, want one for leaving and one for landing", n)
	}
}

func (w *world) count(query string, args ...any) (n int) {
	w.t.Helper()
	w.must(w.rows.QueryRowContext(w.t.Context(), query, args...).Scan(&n))
	return n
}

// A batch that is green when its deadline has just passed is landed, not blocked: the deadline of a landing is its own.
func TestGreenAtTheDeadlineLands(t *testing.T) {
	t.Parallel()
	w := manual(t, fakehost.FaceGitHub)
	number := w.waiting(file("a", "a\n"))
	w.runTo(bot.PhaseOpened)
	w.finishCI()
	w.ages("deadline_at")
	w.ages("deadline_at")
	w.ages("deadline_at")
	w.run()
	w.wantStatus(number, bot.OperationMerged, bot.ReasonLanded)
	w.wantLandings(1)
}

// A failure decided by the deadline is not blocked at once because of one answer that did not come.
func TestOneBadAnswerAtTheDeadlineBlocksNothing(t *testing.T) {
	t.Parallel()
	w := manual(t, fakehost.FaceGitHub)
	number := w.waiting(file("a", "a\n"))
	w.runTo(bot.PhaseOpened)
	for range 3 {
		w.ages("deadline_at")
	}
	w.tick()
	b, _ := w.active()
	if b.Code != bot.CodeCITimeout {
		t.Fatalf("not timed out: %+v", b)
	}
	here := w.driver
	w.driver = w.newDriver(w.store, goneHost{w.host}, w.git, w.store)
	if _, err := w.driver.RunOnce(t.Context(), w.queue.ID); err == nil {
		t.Fatal("the host was not asked to close the MR")
	}
	if b, _ = w.active(); b.Status != bot.BatchRunning {
		t.Fatalf("one bad answer blocks the batch: %+v", b)
	}
	w.ages("deadline_at")
	w.fails()
	if b, _ = w.active(); b.Status != bot.BatchBlocked || b.Code != bot.CodeHostGone || !strings.Contains(b.Message, "CI_TIMEOUT") {
		t.Fatalf("a host that never answers does not block: %+v", b)
	}
	w.driver = here
	w.finishCI()
	w.run()
	w.wantStatus(number, bot.OperationMerged, bot.ReasonLanded)
}

// fails runs one tick whatever it says.
func (w *world) fails() {
	w.t.Helper()
	_, _ = w.driver.RunOnce(w.t.Context(), w.queue.ID)
}
