package storetest

import (
	"slices"
	"testing"

	"github.com/batchbot/batchbot/bot"
)

var settleTests = tests{
	"lands a batch and all its members":                 settleLanded,
	"sends suspects back to their place as a cohort":    settleSuspects,
	"ends the culprit and frees its cohort":             settleCulprit,
	"takes every member its own way":                    settleMixed,
	"happens once":                                      settleOnce,
	"leaves no trace when any step fails":               settleFails,
	"is found again after a lost commit":                settleAmbiguous,
	"parks its queue":                                   settleParks,
	"wants exactly the members that still ride":         settleMembers,
	"ends only what is active, and for good":            settleRefuses,
	"keeps its order over many returns of many members": settleKeepsOrder,
	"an empty batch fails":                              settleEmpty,
}

// opened is a claimed batch whose merge request is open.
func (w *world) opened(limit int) bot.ClaimResult {
	w.Helper()
	claimed := w.claim(w.queue, limit)
	batch, ok, err := w.store.RecordBuild(w.Context(), claimed.Batch.Guard(), build(claimed, 2001, limit))
	if err != nil || !ok {
		w.Fatal(ok, err)
	}
	claimed.Batch, ok, err = w.store.ChangeBatch(w.Context(), batch.Guard(), bot.BatchChange{Phase: bot.PhaseOpened, MRNumber: 77})
	if err != nil || !ok {
		w.Fatal(ok, err)
	}
	return claimed
}

func settleLanded(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2)
	claimed := w.opened(2)
	settlement := settlementOf(claimed, bot.BatchSucceeded, bot.OperationMerged)
	settlement.LandedSHA, settlement.CIConclusion, settlement.DeleteBranch, settlement.LandedDiffers = sha(3001), "success", true, true
	if ok, err := w.store.Settle(t.Context(), settlement); err != nil || !ok {
		t.Fatal(ok, err)
	}
	w.invariants()
	if _, _, ok, err := w.store.ActiveBatch(t.Context(), w.queue.ID); ok || err != nil {
		t.Errorf("the slot is still taken: %v", err)
	}
	batch, ok, err := w.store.BatchMR(t.Context(), w.repo.ID, 77)
	if err != nil || !ok || batch.Status != bot.BatchSucceeded || batch.LandedSHA != sha(3001) || batch.CIConclusion != "success" || !batch.LandedDiffers || batch.Code != bot.CodeLanded {
		t.Errorf("batch %+v", batch)
	}
	if n := value[int](w, `SELECT COUNT(*) FROM merge_batch_request`); n != 0 {
		t.Errorf("%d requests are left", n)
	}
	if n := value[int](w, `SELECT COUNT(*) FROM merge_batch_member WHERE event = 4 AND reason = 'landed'`); n != 2 {
		t.Errorf("%d landed in the history", n)
	}
	for kind, want := range map[bot.ErrandKind]int{bot.ErrandBatchReport: 1, bot.ErrandDeleteBranch: 1, bot.ErrandCloseMember: 2, bot.ErrandNotice: 0} {
		if n := value[int](w, `SELECT COUNT(*) FROM outbox WHERE kind = ?`, kind); n != want {
			t.Errorf("%d %s, want %d", n, kind, want)
		}
	}
	if n := value[int](w, `SELECT number FROM outbox WHERE kind = ?`, bot.ErrandBatchReport); n != 77 {
		t.Errorf("the report goes to %d", n)
	}
}

func settleSuspects(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2, 3, 4)
	order := w.rows(`SELECT CONCAT(id, ' ', operation_id) FROM merge_batch_request ORDER BY lane, created_at, id`)
	claimed := w.claim(w.queue, 4)
	w.admit(w.queue, 5)
	settlement := settlementOf(claimed, bot.BatchFailed, bot.OperationWaiting)
	for i := range settlement.Members {
		settlement.Members[i].Cohort = claimed.Batch.ID
	}
	if ok, err := w.store.Settle(t.Context(), settlement); err != nil || !ok {
		t.Fatal(ok, err)
	}
	w.invariants()
	waiting, err := w.store.Waiting(t.Context(), w.queue.ID)
	if err != nil || waiting.Fresh != 1 || len(waiting.Cohorts) != 1 || waiting.Cohorts[0].ID != claimed.Batch.ID || waiting.Cohorts[0].Size != 4 {
		t.Errorf("waiting %+v %v", waiting, err)
	}
	if got := w.rows(`SELECT CONCAT(id, ' ', operation_id) FROM merge_batch_request WHERE cohort > 0 ORDER BY lane, created_at, id`); !slices.Equal(got, order) {
		t.Errorf("order %v, want %v: the rows themselves must survive", got, order)
	}
	if n := value[int](w, `SELECT COUNT(*) FROM merge_batch_member WHERE event = 5 AND reason = 'suspect'`); n != 4 {
		t.Errorf("%d returned in the history", n)
	}

	// The prefix is red again: it becomes the suspects and the rest is fresh, in its old place.
	probe := claimSpec(w.queue, 2)
	probe.Kind, probe.Cohort = bot.BatchProbe, claimed.Batch.ID
	red, err := w.store.Claim(t.Context(), probe)
	w.must(err)
	settlement = settlementOf(red, bot.BatchFailed, bot.OperationWaiting)
	settlement.FreeCohort = claimed.Batch.ID
	for i := range settlement.Members {
		settlement.Members[i].Cohort = red.Batch.ID
	}
	if ok, err := w.store.Settle(t.Context(), settlement); err != nil || !ok {
		t.Fatal(ok, err)
	}
	waiting, err = w.store.Waiting(t.Context(), w.queue.ID)
	if err != nil || waiting.Fresh != 3 || len(waiting.Cohorts) != 1 || waiting.Cohorts[0].ID != red.Batch.ID || waiting.Cohorts[0].Size != 2 {
		t.Errorf("waiting %+v %v", waiting, err)
	}
	if got := numbers(w.claim(w.queue, 10).Members); !slices.Equal(got, []int{3, 4, 5}) {
		t.Errorf("fresh %v, want the freed before who came later", got)
	}
	w.invariants()
}

func settleCulprit(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2, 3)
	w.execute(`UPDATE merge_batch_request SET cohort = 5`)
	spec := claimSpec(w.queue, 1)
	spec.Kind, spec.Cohort = bot.BatchVerify, 5
	alone, err := w.store.Claim(t.Context(), spec)
	w.must(err)
	settlement := settlementOf(alone, bot.BatchFailed, bot.OperationFailed)
	settlement.FreeCohort = 5
	settlement.Members[0].Notify, settlement.Members[0].Reason = true, bot.ReasonCIRed
	if ok, err := w.store.Settle(t.Context(), settlement); err != nil || !ok {
		t.Fatal(ok, err)
	}
	w.invariants()
	if waiting, err := w.store.Waiting(t.Context(), w.queue.ID); err != nil || waiting.Fresh != 2 || len(waiting.Cohorts) != 0 {
		t.Errorf("waiting %+v %v", waiting, err)
	}
	if status := value[int](w, `SELECT status FROM operation WHERE operation_id = ?`, operationID(1)); status != int(bot.OperationFailed) {
		t.Errorf("the culprit is %d", status)
	}
	if n := value[int](w, `SELECT COUNT(*) FROM merge_batch_request WHERE operation_id = ?`, operationID(1)); n != 0 {
		t.Error("the culprit still waits")
	}
	if n := value[int](w, `SELECT COUNT(*) FROM outbox WHERE kind = ?`, bot.ErrandNotice); n != 1 {
		t.Errorf("%d notices", n)
	}
	if n := value[int](w, `SELECT COUNT(*) FROM outbox WHERE kind IN (?, ?)`, bot.ErrandBatchReport, bot.ErrandCloseMember); n != 0 {
		t.Errorf("%d errands about a batch MR that never was", n)
	}
}

func settleMixed(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2, 3, 4, 5, 6)
	claimed := w.claim(w.queue, 6)
	settlement := settlementOf(claimed, bot.BatchFailed, bot.OperationWaiting)
	for i, to := range []bot.OperationStatus{
		bot.OperationMerged, bot.OperationWaiting, bot.OperationPendingApproval, bot.OperationFailed, bot.OperationClosed, bot.OperationCancelled,
	} {
		settlement.Members[i].To = to
	}
	settlement.Members[2].HeadSHA = sha(33)
	if ok, err := w.store.Settle(t.Context(), settlement); err != nil || !ok {
		t.Fatal(ok, err)
	}
	w.invariants()
	if got := w.rows(`SELECT status FROM operation ORDER BY operation_id`); !slices.Equal(got, []string{"4", "2", "1", "9", "7", "6"}) {
		t.Errorf("states %v", got)
	}
	if got := w.rows(`SELECT event FROM merge_batch_member WHERE event <> 1 ORDER BY position`); !slices.Equal(got, []string{"4", "5", "3", "6", "3", "3"}) {
		t.Errorf("history %v", got)
	}
	if got := w.rows(`SELECT operation_id FROM merge_batch_request`); !slices.Equal(got, []string{operationID(2)}) {
		t.Errorf("waiting %v", got)
	}
}

func settleOnce(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2)
	claimed := w.opened(2)
	w.settle(claimed, bot.BatchFailed, bot.OperationWaiting)
	before := w.snapshot()
	for _, again := range []bot.Settlement{
		settlementOf(claimed, bot.BatchFailed, bot.OperationWaiting), settlementOf(claimed, bot.BatchSucceeded, bot.OperationMerged),
	} {
		again.ParkQueue = "should not park"
		if ok, err := w.store.Settle(t.Context(), again); err != nil || ok {
			t.Errorf("settled again: %v %v", ok, err)
		}
	}
	if w.snapshot() != before {
		t.Error("settling twice is not settling once")
	}
}

func settleFails(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2, 3, 4)
	claimed := w.opened(3)
	w.execute(`UPDATE merge_batch_request SET cohort = 9 WHERE batch_id IS NULL`)
	settlement := settlementOf(claimed, bot.BatchFailed, bot.OperationWaiting)
	settlement.Members[0].To, settlement.Members[0].Notify = bot.OperationFailed, true
	settlement.FreeCohort, settlement.ParkQueue, settlement.DeleteBranch = 9, "look here", true
	w.eachStepFails(func() error {
		_, err := w.store.Settle(t.Context(), settlement)
		return err
	})
	if ok, err := w.store.Settle(t.Context(), settlement); err != nil || !ok {
		t.Fatal(ok, err)
	}
	w.invariants()
}

func settleAmbiguous(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2)
	for _, at := range []string{"COMMIT", "after COMMIT"} {
		claimed := w.claim(w.queue, 1)
		db.Intercept(w.store, loseConnection(at))
		w.settle(claimed, bot.BatchSucceeded, bot.OperationMerged)
	}
	if n := value[int](w, `SELECT COUNT(*) FROM merge_batch_member WHERE event = 4`); n != 2 {
		t.Errorf("%d landed in the history, want each once", n)
	}
}

func settleParks(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1)
	settlement := settlementOf(w.claim(w.queue, 1), bot.BatchFailed, bot.OperationWaiting)
	settlement.ParkQueue = "no CI answers; add a workflow and resume"
	if ok, err := w.store.Settle(t.Context(), settlement); err != nil || !ok {
		t.Fatal(ok, err)
	}
	queue, _, err := w.store.ReadQueue(t.Context(), w.queue.ID)
	if err != nil || queue.State != bot.QueueParked || queue.Reason != settlement.ParkQueue {
		t.Errorf("queue %+v %v", queue, err)
	}
	w.expect(claimSpec(w.queue, 1), bot.ClaimQueueClosed)
}

func settleMembers(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2)
	claimed := w.claim(w.queue, 2)
	before := w.snapshot()
	right := settlementOf(claimed, bot.BatchSucceeded, bot.OperationMerged)
	for name, members := range map[string][]bot.MemberOutcome{
		"one is left out":      right.Members[:1],
		"one is named twice":   {right.Members[0], right.Members[0]},
		"a stranger is named":  {right.Members[0], {OperationID: operationID(9), To: bot.OperationMerged}},
		"one goes no real way": {right.Members[0], {OperationID: operationID(2), To: bot.OperationExpired}},
	} {
		settlement := right
		settlement.Members = members
		if ok, err := w.store.Settle(t.Context(), settlement); err == nil {
			t.Errorf("%s: %v", name, ok)
		}
	}
	if w.snapshot() != before {
		t.Error("a refused settlement left a trace")
	}
}

func settleRefuses(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1)
	claimed := w.claim(w.queue, 1)
	blocked, ok, err := w.store.ChangeBatch(t.Context(), claimed.Batch.Guard(), bot.BatchChange{Status: bot.BatchBlocked, Code: bot.CodeOverdue})
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	claimed.Batch = blocked
	for _, to := range []bot.BatchStatus{0, bot.BatchRunning, bot.BatchBlocked} {
		settlement := settlementOf(claimed, to, bot.OperationWaiting)
		if _, err := w.store.Settle(t.Context(), settlement); err == nil {
			t.Errorf("settled to %s", to)
		}
	}
	w.settle(claimed, bot.BatchFailed, bot.OperationWaiting)
	ended := settlementOf(claimed, bot.BatchSucceeded, bot.OperationMerged)
	ended.Guard.Status, ended.Guard.Version = bot.BatchFailed, ended.Guard.Version+1
	if _, err := w.store.Settle(t.Context(), ended); err == nil {
		t.Error("an ended batch was settled again")
	}
}

func settleKeepsOrder(t *testing.T, db Database) {
	w := newWorld(t, db)
	const many = 1100 // three chunks
	w.crowd(many)
	first := w.claim(w.queue, many)
	w.settle(first, bot.BatchFailed, bot.OperationWaiting)
	again := w.claim(w.queue, many)
	if !slices.Equal(numbers(first.Members), numbers(again.Members)) {
		t.Error("the order changed")
	}
	if n := value[int](w, `SELECT COUNT(*) FROM merge_batch_request WHERE version <> 4`); n != 0 {
		t.Errorf("%d requests were not claimed, returned and claimed", n)
	}
	w.settle(again, bot.BatchSucceeded, bot.OperationMerged)
}

func settleEmpty(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1)
	claimed := w.claim(w.queue, 1)
	record := build(claimed, 1000, 0)
	record.Moves = outcomes(claimed.Members, bot.OperationFailed, bot.ReasonConflict)
	batch, ok, err := w.store.RecordBuild(t.Context(), claimed.Batch.Guard(), record)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if ok, err := w.store.Settle(t.Context(), bot.Settlement{Guard: batch.Guard(), Status: bot.BatchFailed, Code: bot.CodeAllEvicted}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	w.invariants()
	w.admit(w.queue, 2)
	w.claim(w.queue, 1)
}
