package storetest

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/batchbot/batchbot/bot"
)

var claimTests = tests{
	"takes the front of the waiting set in order":              claimInOrder,
	"moves operations and bindings and says so":                claimEffects,
	"takes one cohort only":                                    claimCohort,
	"finds nothing waiting":                                    claimNothing,
	"leaves what is admitted at this very instant":             claimInstant,
	"finds the slot occupied":                                  claimOccupied,
	"loses the race for the slot to the unique key":            claimLosesRace,
	"leaves a queue that somebody is claiming":                 claimBusy,
	"leaves a paused or parked queue":                          claimClosed,
	"is tried again when a waiting request vanishes":           claimPreempted,
	"leaves no trace when any step fails":                      claimFails,
	"takes thousands in statements that grow with chunks only": claimThousands,
	"leaves alone what somebody took in between (I2)":          claimTaken,
	"drops a stale callback on a binding and counts it":        claimStaleBinding,
	"and settlement write by primary key":                      claimPinned,
	"is found again after a lost commit":                       claimAmbiguous,
	"needs a limit and a token":                                claimRefuses,
}

func claimInOrder(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2)
	low, high := w.application(w.queue, 3, true), w.application(w.queue, 4, true)
	low.Lane, high.Lane = bot.LaneLow, bot.LaneHigh
	w.apply(low)
	w.apply(high)
	w.admit(w.queue, 5)
	w.apply(w.application(w.queue, 6, false)) // waits for an approval, so not in the waiting set

	first := w.claim(w.queue, 3)
	if got := numbers(first.Members); !slices.Equal(got, []int{4, 1, 2}) {
		t.Errorf("claimed %v, want the high lane first, then in order of arrival", got)
	}
	w.invariants()
	w.settle(first, bot.BatchSucceeded, bot.OperationMerged)
	if got := numbers(w.claim(w.queue, 10).Members); !slices.Equal(got, []int{5, 3}) {
		t.Errorf("claimed %v next, want the low lane last", got)
	}
	w.invariants()
}

func claimEffects(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2)
	wanted := value[int](w, `SELECT SUM(wanted) FROM outbox WHERE kind IN (1, 5)`)
	result := w.claim(w.queue, 10)

	b := result.Batch
	if b.Status != bot.BatchRunning || b.Phase != bot.PhaseClaimed || b.Kind != bot.BatchFresh || b.Size != 2 || b.Token != "0badcafe" || b.Version != 1 || b.Overdue {
		t.Errorf("batch %+v", b)
	}
	for _, op := range result.Members {
		if op.Status != bot.OperationBatched || op.BatchID != b.ID || op.Version != 2 || op.Reason != bot.ReasonClaimed {
			t.Errorf("member %+v", op)
		}
	}
	if n := value[int](w, `SELECT COUNT(*) FROM binding_history WHERE from_status = 2 AND to_status = 3 AND batch_id = ?`, b.ID); n != 2 {
		t.Errorf("%d history entries, want 2", n)
	}
	if got := value[int](w, `SELECT SUM(wanted) FROM outbox WHERE kind IN (1, 5)`); got != wanted+4 {
		t.Errorf("outbox wanted %d more, want sticky and commit status of both", got-wanted)
	}
	if n := value[int](w, `SELECT COUNT(*) FROM audit WHERE action = 'claim' AND batch_id = ?`, b.ID); n != 1 {
		t.Errorf("%d audit entries", n)
	}
	active, members, ok, err := w.store.ActiveBatch(t.Context(), w.queue.ID)
	if err != nil || !ok || active.ID != b.ID || !slices.Equal(numbers(members), numbers(result.Members)) {
		t.Errorf("active batch %v of %v: %v %v", active.ID, numbers(members), ok, err)
	}
	w.invariants()
}

func claimCohort(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2, 3)
	w.execute(`UPDATE merge_batch_request SET cohort = 7 WHERE operation_id IN (?, ?)`, operationID(1), operationID(3))
	spec := claimSpec(w.queue, 5)
	spec.Kind, spec.Cohort = bot.BatchProbe, 7
	result, err := w.store.Claim(t.Context(), spec)
	w.must(err)
	if got := numbers(result.Members); !slices.Equal(got, []int{1, 3}) || result.Batch.Cohort != 7 {
		t.Errorf("claimed %v of cohort %d, want the cohort alone", got, result.Batch.Cohort)
	}
	w.invariants()
}

func claimNothing(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.apply(w.application(w.queue, 1, false))
	w.expect(claimSpec(w.queue, 5), bot.ClaimNothing)
	w.admit(w.queue, 2)
	other := claimSpec(w.queue, 5)
	other.Cohort = 3
	w.expect(other, bot.ClaimNothing)
	if n := value[int](w, `SELECT COUNT(*) FROM merge_batch`); n != 0 {
		t.Errorf("%d batches were made", n)
	}
}

// An empty batch would keep the slot, so a claim that finds only what arrived just now must undo its batch.
func claimInstant(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1)
	w.execute(`UPDATE merge_batch_request SET created_at = ` + later(db))
	w.expect(claimSpec(w.queue, 5), bot.ClaimNothing)
	if n := value[int](w, `SELECT COUNT(*) FROM merge_batch`); n != 0 {
		t.Errorf("%d batches keep the slot", n)
	}
	if got, err := w.store.Waiting(t.Context(), w.queue.ID); err != nil || got.Fresh != 0 {
		t.Errorf("the planner is told of %+v, %v", got, err)
	}
}

func claimOccupied(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2)
	first := w.claim(w.queue, 1)
	w.expect(claimSpec(w.queue, 1), bot.ClaimSlotOccupied)
	if _, ok, err := w.store.ChangeBatch(t.Context(), first.Batch.Guard(), bot.BatchChange{Status: bot.BatchBlocked, Code: bot.CodeOverdue}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	w.expect(claimSpec(w.queue, 1), bot.ClaimSlotOccupied) // BLOCKED keeps the slot
	release := w.newQueue("release")
	w.admit(release, 3)
	w.claim(release, 1) // each queue has a slot of its own
	w.invariants()
}

func claimLosesRace(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1)
	insert := insertBatch(db, w.queue, "other")
	if db.severalWriters() {
		// Between the look at the slot and the insert somebody takes it who did not ask for the queue's row.
		var once sync.Once
		db.Intercept(w.store, func(statement string, _ []any) error {
			if strings.HasPrefix(statement, "INSERT INTO merge_batch (") {
				once.Do(func() { w.execute(insert) })
			}
			return nil
		})
	} else {
		w.execute(insert)
	}
	w.expect(claimSpec(w.queue, 1), bot.ClaimSlotOccupied)
	if _, err := w.SQL.ExecContext(t.Context(), insert); err == nil {
		t.Error("the database took a second active batch")
	}
	if n := value[int](w, `SELECT COUNT(*) FROM merge_batch_request WHERE batch_id IS NOT NULL`); n != 0 {
		t.Errorf("the loser claimed %d requests", n)
	}
	w.invariants()
}

func claimBusy(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1)
	if db.severalWriters() {
		other, err := w.SQL.BeginTx(t.Context(), nil)
		w.must(err)
		var id int64
		w.must(other.QueryRowContext(t.Context(), `SELECT id FROM queue WHERE id = ? FOR UPDATE`, w.queue.ID).Scan(&id))
		w.expect(claimSpec(w.queue, 1), bot.ClaimQueueBusy)
		w.must(other.Rollback())
	}
	w.claim(w.queue, 1)
}

func claimClosed(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1)
	w.must(w.store.ParkQueue(t.Context(), w.queue.ID, "the runner is broken; repair it"))
	w.expect(claimSpec(w.queue, 1), bot.ClaimQueueClosed)
	w.execute(`UPDATE queue SET status = 2`)
	w.expect(claimSpec(w.queue, 1), bot.ClaimQueueClosed)
	w.execute(`UPDATE queue SET status = 1`)
	w.claim(w.queue, 1)
}

func claimPreempted(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2, 3, 4, 5, 6)
	if !db.severalWriters() {
		// With one writer at a time nothing can come between a claim's read and its write.
		if got := numbers(w.claim(w.queue, 10).Members); len(got) != 6 {
			t.Errorf("claimed %v", got)
		}
		return
	}
	// Somebody who does not keep to the lock order takes requests away between a claim's read and its write.
	gone := 0
	vanish := func(times int) func(string, []any) error {
		return func(statement string, _ []any) error {
			if strings.HasPrefix(statement, "UPDATE merge_batch_request") && times > 0 {
				times--
				gone++
				w.execute(`DELETE FROM merge_batch_request WHERE operation_id = ?`, operationID(gone))
			}
			return nil
		}
	}
	db.Intercept(w.store, vanish(4))
	result, err := w.store.Claim(t.Context(), claimSpec(w.queue, 10))
	if err != nil || result.Outcome != bot.ClaimPreempted {
		t.Fatalf("%s, %v", result.Outcome, err)
	}
	if n := value[int](w, `SELECT (SELECT COUNT(*) FROM merge_batch) + (SELECT COUNT(*) FROM merge_batch_member)`); n != 0 {
		t.Errorf("a preempted claim left %d rows behind", n)
	}
	db.Intercept(w.store, vanish(1))
	if got := numbers(w.claim(w.queue, 10).Members); !slices.Equal(got, []int{6}) {
		t.Errorf("claimed %v, want what is left after one more vanished", got)
	}
}

// Between the claim's read and its write another batch takes a request: it must stay there.
func claimTaken(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2)
	take := `UPDATE merge_batch_request SET batch_id = 999 WHERE operation_id = '` + operationID(1) + `'`
	if !db.severalWriters() {
		w.execute(take)
		if got := numbers(w.claim(w.queue, 10).Members); !slices.Equal(got, []int{2}) {
			t.Errorf("claimed %v", got)
		}
		return
	}
	var once sync.Once
	db.Intercept(w.store, func(statement string, _ []any) error {
		if strings.HasPrefix(statement, "UPDATE merge_batch_request") {
			once.Do(func() { w.execute(take) })
		}
		return nil
	})
	if got := numbers(w.claim(w.queue, 10).Members); !slices.Equal(got, []int{2}) {
		t.Errorf("claimed %v, want what nobody took", got)
	}
	if batch := value[int](w, `SELECT batch_id FROM merge_batch_request WHERE operation_id = ?`, operationID(1)); batch != 999 {
		t.Errorf("the request was taken from its batch into %d", batch)
	}
}

func claimStaleBinding(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1)
	rebind := `UPDATE binding SET operation_id = 'somebody else'`
	if db.severalWriters() {
		var once sync.Once
		db.Intercept(w.store, func(statement string, _ []any) error {
			if strings.HasPrefix(statement, "UPDATE binding") {
				once.Do(func() { w.execute(rebind) })
			}
			return nil
		})
	} else {
		w.execute(rebind)
	}
	result, err := w.store.Claim(t.Context(), claimSpec(w.queue, 1))
	if err != nil || result.Outcome != bot.ClaimPreempted {
		t.Errorf("%s, %v", result.Outcome, err)
	}
	if n := w.store.Stats().StaleCallbacks; n == 0 {
		t.Error("the stale callback was not counted")
	}
	if status := value[int](w, `SELECT status FROM binding`); status != int(bot.OperationWaiting) {
		t.Errorf("the binding of another operation was set to %d", status)
	}
}

func claimFails(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2, 3)
	w.eachStepFails(func() error {
		_, err := w.store.Claim(t.Context(), claimSpec(w.queue, 10))
		return err
	})
	w.claim(w.queue, 10)
	w.invariants()
}

// A batch of 5,000 takes the statements of ten batches of 500 and no more: they grow with chunks of 500, never with members. A longer list of ids in one
// statement would make the optimizer leave the primary key.
func claimThousands(t *testing.T, db Database) {
	w := newWorld(t, db)
	const few, many = 500, 5000
	w.crowd(few)
	stages := []string{"claim", "build", "settle"}
	count := func(size int) map[string]int {
		statements, longest, stage := map[string]int{}, 0, 0
		db.Intercept(w.store, func(statement string, args []any) error {
			statements[stages[stage]]++
			if !strings.HasPrefix(statement, "INSERT") {
				longest = max(longest, len(args))
			}
			return nil
		})
		defer db.Intercept(w.store, nil)
		claimed := w.claim(w.queue, size)
		if len(claimed.Members) != size {
			t.Fatalf("claimed %d", len(claimed.Members))
		}
		stage++
		var ok bool
		var err error
		if claimed.Batch, ok, err = w.store.RecordBuild(t.Context(), claimed.Batch.Guard(), build(claimed, 2000+size, size)); err != nil || !ok {
			t.Fatal(ok, err)
		}
		stage++
		settlement := settlementOf(claimed, bot.BatchFailed, bot.OperationWaiting)
		for i := 0; i < size; i += 2 { // every second member is out and told so
			settlement.Members[i].To, settlement.Members[i].Notify = bot.OperationFailed, true
		}
		if ok, err := w.store.Settle(t.Context(), settlement); err != nil || !ok {
			t.Fatal(ok, err)
		}
		if longest > 2*500+20 {
			t.Errorf("a statement has %d arguments", longest)
		}
		return statements
	}
	one := count(few)
	w.seed(w.queue, bot.OperationWaiting, few+1, many)
	ten := count(many)
	for _, stage := range stages {
		if ten[stage] > 10*one[stage] || ten[stage] > many/10 {
			t.Errorf("%s: %d statements for %d members, %d for %d: they grow with members", stage, ten[stage], many, one[stage], few)
		}
	}
	t.Logf("statements for %d: %v; for %d: %v", few, one, many, ten)
	w.invariants()
}

func claimAmbiguous(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2)
	// The answer to COMMIT is lost: the batch is there.
	db.Intercept(w.store, loseConnection("after COMMIT"))
	result := w.claim(w.queue, 1)
	if len(result.Members) != 1 || value[int](w, `SELECT COUNT(*) FROM merge_batch`) != 1 {
		t.Errorf("claimed %v", numbers(result.Members))
	}
	w.settle(result, bot.BatchSucceeded, bot.OperationMerged)
	// COMMIT itself is lost: nothing is there, so it is tried again.
	db.Intercept(w.store, loseConnection("COMMIT"))
	if got := numbers(w.claim(w.queue, 1).Members); !slices.Equal(got, []int{2}) {
		t.Errorf("claimed %v", got)
	}
	w.invariants()
}

func claimRefuses(t *testing.T, db Database) {
	w := newWorld(t, db)
	for _, spec := range []bot.ClaimSpec{{QueueID: w.queue.ID, Limit: 0, Token: "x"}, {QueueID: w.queue.ID, Limit: 1}} {
		if _, err := w.store.Claim(t.Context(), spec); err == nil {
			t.Errorf("%+v was taken", spec)
		}
	}
}

// expect claims and wants this outcome.
func (w *world) expect(spec bot.ClaimSpec, want bot.ClaimOutcome) {
	w.Helper()
	result, err := w.store.Claim(w.Context(), spec)
	w.must(err)
	if result.Outcome != want {
		w.Fatalf("claim: %s, want %s", result.Outcome, want)
	}
	w.invariants()
}

// Where a claim takes most of what waits, the optimizer would rather walk the waiting index, or the whole table, and lock where admissions go.
func claimPinned(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.crowd(600)
	w.execute(`UPDATE merge_batch_request SET cohort = 7 WHERE id > 550`)
	if db.severalWriters() {
		w.execute(`ANALYZE TABLE merge_batch_request, operation, binding`)
	}
	writes := make(map[string][]any)
	db.Intercept(w.store, func(statement string, args []any) error {
		if strings.HasPrefix(statement, "UPDATE") && strings.Contains(statement, " IN (") {
			writes[statement] = args
		}
		return nil
	})
	claimed := w.claim(w.queue, 1000)
	settlement := settlementOf(claimed, bot.BatchFailed, bot.OperationWaiting)
	settlement.FreeCohort = 7
	if ok, err := w.store.Settle(t.Context(), settlement); err != nil || !ok {
		t.Fatal(ok, err)
	}
	db.Intercept(w.store, nil)
	if len(writes) < 7 {
		t.Errorf("only %d kinds of write were seen", len(writes))
	}
	for statement, args := range writes {
		plan, full := w.plan(statement, args)
		if len(full) > 0 || strings.Contains(plan, "idx_") || !(strings.Contains(plan, "PRIMARY") || strings.Contains(plan, "sqlite_autoindex_operation_1")) {
			t.Errorf("not by primary key:\n%.300s…\n%s", statement, plan)
		}
	}
}
