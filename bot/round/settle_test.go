package round_test

import (
	"slices"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/fakehost"
)

// What becomes of members and queue, code by code. Whoever rides again keeps the request row, and with it the place in the order.
func TestEachCodeOfAFailure(t *testing.T) {
	t.Parallel()
	for code, c := range map[bot.Code]struct {
		reason  bot.Reason
		suspect bool
		queue   bot.QueueState
	}{
		bot.CodeCIRed:         {bot.ReasonSuspect, true, bot.QueueOpen},
		bot.CodeCITimeout:     {bot.ReasonSuspect, true, bot.QueueOpen},
		bot.CodeNoCI:          {bot.ReasonBatchFailed, false, bot.QueueParked},
		bot.CodePushRefused:   {bot.ReasonBatchFailed, false, bot.QueueParked},
		bot.CodeMergeRefused:  {bot.ReasonBatchFailed, false, bot.QueueParked},
		bot.CodeTargetMoving:  {bot.ReasonBatchFailed, false, bot.QueueParked},
		bot.CodeHostGone:      {bot.ReasonBatchFailed, false, bot.QueueParked},
		bot.CodeClosed:        {bot.ReasonBatchFailed, false, bot.QueueParked},
		bot.CodeBranchDeleted: {bot.ReasonBatchFailed, false, bot.QueueParked},
	} {
		t.Run(string(code), func(t *testing.T) {
			t.Parallel()
			w := manual(t, fakehost.FaceGitHub)
			numbers := []int{w.waiting(file("a", "a\n")), w.waiting(file("b", "b\n"))}
			place := w.places()
			b := w.runTo(bot.PhaseOpened)
			if _, ok, err := w.store.ChangeBatch(t.Context(), b.Guard(), bot.BatchChange{Code: code, Message: "so it is"}); err != nil || !ok {
				t.Fatal(ok, err)
			}
			w.tick()
			w.wantEnded(code)
			w.wantOnHost("closed", b.MRNumber)
			for _, n := range numbers {
				w.wantStatus(n, bot.OperationWaiting, c.reason)
			}
			if got := w.places(); !slices.Equal(got, place) {
				t.Errorf("the requests are %v, were %v", got, place)
			}
			if n := w.count(`SELECT COUNT(*) FROM merge_batch_request WHERE cohort = ?`, b.ID); (n == 2) != c.suspect {
				t.Errorf("%d suspects", n)
			}
			words := ""
			if c.queue == bot.QueueParked {
				words = string(code) + ": so it is"
			}
			w.wantQueue(c.queue, words)
		})
	}
}

// places are the waiting requests, by their rows and in their order.
func (w *world) places() (ids []int) {
	w.t.Helper()
	rows, err := w.rows.QueryContext(w.t.Context(), `SELECT id FROM merge_batch_request ORDER BY lane, created_at, id`)
	w.must(err)
	defer rows.Close()
	for rows.Next() {
		var id int
		w.must(rows.Scan(&id))
		ids = append(ids, id)
	}
	w.must(rows.Err())
	return ids
}
