package round_test

import (
	"strings"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/fakehost"
)

// failed is a batch of two that a person closed, and that is over.
func failed(t *testing.T) (w *world, b bot.Batch, numbers []int) {
	t.Helper()
	w = manual(t, fakehost.FaceGitHub)
	numbers = []int{w.waiting(file("a", "a\n")), w.waiting(file("b", "b\n"))}
	return w, w.fail(), numbers
}

// comments are what the bot wrote on a merge request.
func (w *world) comments(number int) (list []string) {
	w.t.Helper()
	mr, err := w.fake.MR(path, number)
	w.must(err)
	for _, c := range mr.Comments {
		list = append(list, c.Body)
	}
	return list
}

func TestAReopenedBatchIsClosedAgain(t *testing.T) {
	t.Parallel()
	w, b, _ := failed(t)
	w.must(w.fake.ReopenMR(path, b.MRNumber, "bob"))
	for range 2 { // twice is once
		w.must(w.driver.Revisit(t.Context(), b.ID))
		w.wantOnHost("closed", b.MRNumber)
	}
	if list := w.comments(b.MRNumber); len(list) != 1 || !strings.Contains(list[0], "is over, so its merge request is closed again") {
		t.Errorf("comments %q", list)
	}
	w.wantEnded(bot.CodeClosed)
}

func TestABatchThatLandedLateIsRecorded(t *testing.T) {
	t.Parallel()
	w, b, numbers := failed(t)
	w.must(w.fake.ReopenMR(path, b.MRNumber, "bob"))
	sha, err := w.fake.MergeMR(path, b.MRNumber, "bob")
	w.must(err)
	for range 2 {
		w.must(w.driver.Revisit(t.Context(), b.ID))
	}
	w.wantLate(b, sha, numbers...)
	w.run()
	w.wantLandings(1)
}

// wantLate checks that a batch and its members are recorded as landed late, once.
func (w *world) wantLate(b bot.Batch, sha string, numbers ...int) {
	w.t.Helper()
	for _, n := range numbers {
		w.wantStatus(n, bot.OperationMerged, bot.ReasonLandedLate)
	}
	w.wantEnded(bot.CodeClosed) // the batch itself never changes
	if n := w.count(`SELECT COUNT(*) FROM merge_batch_member WHERE batch_id = ? AND event = ? AND detail = ?`, b.ID, bot.MemberLandedLate, sha); n != len(numbers) {
		w.t.Errorf("%d members landed late in the history of the batch, want %d", n, len(numbers))
	}
	if n := w.count(`SELECT COUNT(*) FROM audit WHERE batch_id = ? AND action = 'landed late' AND detail LIKE 'LANDED_LATE%'`, b.ID); n != 1 {
		w.t.Errorf("%d entries in the audit", n)
	}
}

// By the time somebody merges the MR of a batch that is over, its members ride in the next one: they leave it as landed.
func TestMembersThatRideAgainLeaveWhenTheirOldBatchLands(t *testing.T) {
	t.Parallel()
	w, b, numbers := failed(t)
	_, err := w.store.ResumeQueue(t.Context(), w.queue.ID, "olga")
	w.must(err)
	next := w.runTo(bot.PhaseOpened)
	if next.ID == b.ID {
		t.Fatal("no second batch")
	}
	w.must(w.fake.ReopenMR(path, b.MRNumber, "bob"))
	sha, err := w.fake.MergeMR(path, b.MRNumber, "bob")
	w.must(err)
	// Each member that leaves takes the batch one version further, which the next one must see.
	w.must(w.driver.Revisit(t.Context(), b.ID))
	for _, n := range numbers {
		w.wantStatus(n, bot.OperationMerged, bot.ReasonLandedLate)
	}
	w.run()
	list := w.batches()
	if last := list[len(list)-1]; last.Status != bot.BatchFailed || last.Code != bot.CodeAllEvicted {
		t.Errorf("the second batch ended as %+v", last)
	}
	if n := w.count(`SELECT COUNT(*) FROM audit WHERE batch_id = ? AND detail = ?`, b.ID, "LANDED_LATE as "+sha); n != 1 {
		t.Errorf("%d entries in the audit", n)
	}
	w.wantLandings(1)
}
