package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// What operators do to batches, and what happens to batches that are over.
var lateTests = tests{
	"a deadline is only ever extended":                   onlyExtended,
	"resuming a queue keeps the longer deadline":         resumeKeepsDeadline,
	"a restored branch is counted":                       restoresCounted,
	"an operator's change is audited":                    operatorChange,
	"an operator's settlement is audited":                operatorSettles,
	"each time a batch is blocked is said once":          blockedSaid,
	"batches are listed, the newest first":               listBatches,
	"a batch that is over is looked at again":            revisit,
	"a late landing is recorded once, beside its batch":  landedLate,
	"a late landing leaves no trace when any step fails": landedLateFails,
	"a late landing is found again after a lost commit":  landedLateAmbiguous,
	"an ended operation found in the target is MERGED":   endedLands,
}

// deadline is how far away the active batch's deadline is, in hours.
func (w *world) deadline() int {
	w.Helper()
	query := `SELECT TIMESTAMPDIFF(MINUTE, CURRENT_TIMESTAMP(6), deadline_at) FROM merge_batch WHERE active_slot IS NOT NULL`
	if !w.severalWriters() {
		query = `SELECT (deadline_at - batchbot_now()) / 60000000 FROM merge_batch WHERE active_slot IS NOT NULL`
	}
	return (value[int](w, query) + 30) / 60
}

func onlyExtended(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1)
	batch := w.claim(w.queue, 1).Batch
	for _, step := range []struct {
		by   time.Duration
		want int
	}{{5 * time.Hour, 5}, {time.Hour, 5}, {0, 5}, {7 * time.Hour, 7}} {
		var ok bool
		var err error
		if batch, ok, err = w.store.ChangeBatch(t.Context(), batch.Guard(), bot.BatchChange{ExtendBy: step.by}); err != nil || !ok {
			t.Fatal(ok, err)
		}
		if got := w.deadline(); got != step.want {
			t.Errorf("after extending by %s the deadline is %d hours away, want %d", step.by, got, step.want)
		}
	}
}

func resumeKeepsDeadline(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1)
	batch := w.claim(w.queue, 1).Batch
	if _, ok, err := w.store.ChangeBatch(t.Context(), batch.Guard(), bot.BatchChange{Code: bot.CodeManual, ExtendBy: 100 * time.Hour}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if _, err := w.store.PauseQueue(t.Context(), w.queue.ID, "olga", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.ResumeQueue(t.Context(), w.queue.ID, "olga"); err != nil {
		t.Fatal(err)
	}
	if got := w.deadline(); got != 100 {
		t.Errorf("the deadline is %d hours away, want the 100 a person has", got)
	}
}

func restoresCounted(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1)
	batch := w.opened(1).Batch
	for want, restored := range []bool{false, true, false, true} {
		var ok bool
		var err error
		if batch, ok, err = w.store.ChangeBatch(t.Context(), batch.Guard(), bot.BatchChange{Restored: restored}); err != nil || !ok {
			t.Fatal(ok, err)
		}
		if want = (want + 1) / 2; batch.Restores != want {
			t.Errorf("%d restores, want %d", batch.Restores, want)
		}
	}
}

func operatorChange(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1)
	batch := w.claim(w.queue, 1).Batch
	batch, ok, err := w.store.ChangeBatch(t.Context(), batch.Guard(), bot.BatchChange{Code: bot.CodeClosed, Message: "olga ended it", By: "olga", Source: "cli"})
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if _, ok, err = w.store.ChangeBatch(t.Context(), batch.Guard(), bot.BatchChange{Code: bot.CodeClosed}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if n := value[int](w, `SELECT COUNT(*) FROM audit WHERE action = 'change batch'`); n != 1 {
		t.Errorf("%d entries, want one for the operator and none for the bot", n)
	}
	if n := value[int](w, `SELECT COUNT(*) FROM audit WHERE actor = 'olga' AND source = 'cli' AND batch_id = ? AND detail = 'RUNNING → RUNNING CLOSED_BY_PERSON olga ended it'`, batch.ID); n != 1 {
		t.Errorf("the audit holds %v", w.rows(`SELECT detail FROM audit`))
	}
}

func operatorSettles(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1)
	settlement := settlementOf(w.opened(1), bot.BatchFailed, bot.OperationWaiting)
	settlement.By, settlement.Source, settlement.CloseMR = "olga", "cli", true
	if ok, err := w.store.Settle(t.Context(), settlement); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if n := value[int](w, `SELECT COUNT(*) FROM audit WHERE action = 'settle' AND actor = 'olga' AND source = 'cli'`); n != 1 {
		t.Errorf("%d entries in the audit", n)
	}
	if n := value[int](w, `SELECT COUNT(*) FROM outbox WHERE kind = ? AND number = 77`, bot.ErrandBatchMR); n != 1 {
		t.Errorf("its MR is looked at again %d times", n)
	}
	w.invariants()
}

func blockedSaid(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1)
	batch := w.opened(1).Batch
	for i, status := range []bot.BatchStatus{bot.BatchBlocked, bot.BatchBlocked, bot.BatchRunning, bot.BatchBlocked} {
		var ok bool
		var err error
		if batch, ok, err = w.store.ChangeBatch(t.Context(), batch.Guard(), bot.BatchChange{Status: status, Code: bot.CodeOverdue, Message: fmt.Sprint(i)}); err != nil || !ok {
			t.Fatal(ok, err)
		}
	}
	if n := value[int](w, `SELECT COUNT(*) FROM outbox WHERE kind = ? AND number = 77 AND wanted = 1`, bot.ErrandBatchNotice); n != 2 {
		t.Errorf("said %d times, want twice", n)
	}
}

func listBatches(t *testing.T, db Database) {
	w := newWorld(t, db)
	release := w.newQueue("release")
	w.admit(w.queue, 1, 2)
	w.admit(release, 3, 4)
	first := w.claim(w.queue, 1)
	w.settle(first, bot.BatchSucceeded, bot.OperationMerged)
	second := w.claim(w.queue, 1).Batch
	third := w.claim(release, 2).Batch
	for name, c := range map[string]struct {
		filter bot.BatchFilter
		want   []int64
	}{
		"all":        {bot.BatchFilter{Limit: 10}, []int64{third.ID, second.ID, first.Batch.ID}},
		"the newest": {bot.BatchFilter{Limit: 1}, []int64{third.ID}},
		"of a queue": {bot.BatchFilter{QueueID: w.queue.ID, Limit: 10}, []int64{second.ID, first.Batch.ID}},
		"active":     {bot.BatchFilter{Active: true, Limit: 10}, []int64{third.ID, second.ID}},
	} {
		list, err := w.store.ListBatches(t.Context(), c.filter)
		w.must(err)
		var got []int64
		for _, b := range list {
			got = append(got, b.Batch.ID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if name == "active" && (list[0].Riding != 2 || list[1].Riding != 1 || list[0].QueueName() != "forge/fruit/basket:release") {
			t.Errorf("active: %+v", list)
		}
	}
}

func revisit(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2)
	claimed := w.opened(1)
	w.settle(claimed, bot.BatchFailed, bot.OperationWaiting)
	for range 2 {
		w.must(w.store.RevisitBatch(t.Context(), claimed.Batch.ID))
	}
	if n := value[int](w, `SELECT COUNT(*) FROM outbox WHERE kind = ? AND target = ? AND number = 77 AND wanted = 2 AND status = 1`,
		bot.ErrandBatchMR, fmt.Sprint(claimed.Batch.ID)); n != 1 {
		t.Errorf("%d errands", n)
	}
	never := w.claim(w.queue, 1)
	w.settle(never, bot.BatchFailed, bot.OperationWaiting)
	w.must(w.store.RevisitBatch(t.Context(), never.Batch.ID)) // it never had an MR
	if n := value[int](w, `SELECT COUNT(*) FROM outbox WHERE kind = ?`, bot.ErrandBatchMR); n != 1 {
		t.Errorf("%d errands, want none for a batch without an MR", n)
	}
}

// lateBatch is a failed batch of two.
func (w *world) lateBatch() (batchID int64, members []string) {
	w.Helper()
	w.admit(w.queue, 1, 2)
	claimed := w.opened(2)
	w.settle(claimed, bot.BatchFailed, bot.OperationWaiting)
	return claimed.Batch.ID, []string{claimed.Members[1].ID, claimed.Members[0].ID}
}

func landedLate(t *testing.T, db Database) {
	w := newWorld(t, db)
	batchID, members := w.lateBatch()
	before, err := w.store.BatchView(t.Context(), batchID)
	w.must(err)
	reports := value[int](w, `SELECT wanted FROM outbox WHERE kind = ?`, bot.ErrandBatchReport)
	for i, want := range []bool{true, false} {
		fresh, err := w.store.LandedLate(t.Context(), batchID, sha(3001), members)
		if err != nil || fresh != want {
			t.Errorf("recording it for the %d. time: %t, %v", i+1, fresh, err)
		}
	}
	after, err := w.store.BatchView(t.Context(), batchID)
	w.must(err)
	if after.Batch.Version != before.Batch.Version || after.Batch.Status != bot.BatchFailed {
		t.Errorf("a terminal batch changed: %+v", after.Batch)
	}
	for _, m := range after.Members {
		if m.Event != bot.MemberLandedLate || m.Detail != sha(3001) || m.HeadSHA == "" {
			t.Errorf("member %+v", m)
		}
	}
	if n := value[int](w, `SELECT COUNT(*) FROM audit WHERE batch_id = ? AND action = 'landed late' AND detail = ?`, batchID, "LANDED_LATE as "+sha(3001)); n != 1 {
		t.Errorf("%d entries in the audit", n)
	}
	if n := value[int](w, `SELECT wanted FROM outbox WHERE kind = ?`, bot.ErrandBatchReport); n != reports+1 {
		t.Errorf("the report is wanted %d times, after %d", n, reports)
	}
	if _, err := w.store.LandedLate(t.Context(), batchID+1, sha(3001), nil); err == nil {
		t.Error("a batch that is not there landed late")
	}
	active := w.claim(w.queue, 1)
	if _, err := w.store.LandedLate(t.Context(), active.Batch.ID, sha(3001), nil); err == nil {
		t.Error("an active batch landed late")
	}
	w.invariants()
}

func landedLateFails(t *testing.T, db Database) {
	w := newWorld(t, db)
	batchID, members := w.lateBatch()
	w.eachStepFails(func() error {
		_, err := w.store.LandedLate(t.Context(), batchID, sha(3001), members)
		return err
	})
	if fresh, err := w.store.LandedLate(t.Context(), batchID, sha(3001), members); err != nil || !fresh {
		t.Error(fresh, err)
	}
	if fresh, err := w.store.LandedLate(t.Context(), batchID, sha(3001), []string{operationID(99)}); err != nil || fresh {
		t.Error(fresh, err)
	}
}

func landedLateAmbiguous(t *testing.T, db Database) {
	w := newWorld(t, db)
	batchID, members := w.lateBatch()
	db.Intercept(w.store, loseConnection("after COMMIT"))
	if fresh, err := w.store.LandedLate(t.Context(), batchID, sha(3001), members); err != nil || !fresh {
		t.Error(fresh, err)
	}
	if n := value[int](w, `SELECT COUNT(*) FROM merge_batch_member WHERE event = ?`, bot.MemberLandedLate); n != 2 {
		t.Errorf("%d entries in the history", n)
	}
}

// Somebody cancelled and landed all the same: the only way on from an ended operation. One that was applied again is left alone.
func endedLands(t *testing.T, db Database) {
	w := newWorld(t, db)
	op := w.operationIn(bot.OperationCancelled, 1)
	move := w.moveTo(op, bot.OperationMerged)
	if result, err := w.store.Move(t.Context(), move); err != nil || result != bot.MoveDone {
		t.Errorf("%d, %v", result, err)
	}
	replaced := w.operationIn(bot.OperationCancelled, 2)
	if result, err := w.store.Apply(t.Context(), w.again(replaced, 1)); err != nil || result.Outcome != bot.ApplyDone {
		t.Fatal(result.Outcome, err)
	}
	if result, err := w.store.Move(t.Context(), w.moveTo(replaced, bot.OperationMerged)); err != nil || result != bot.MoveStale {
		t.Errorf("an operation that was followed by another: %d, %v", result, err)
	}
	w.invariants()
}
