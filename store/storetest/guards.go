package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/store"
)

// Guards that the stories of the other files would meet by luck only.
var guardTests = tests{
	"every unique key refuses a second row":                 everyKeyRefuses,
	"a duplicate admission is an answer (I4)":               admittedBeside,
	"a re-application loses to a change in between (I5)":    reapplyLoses,
	"a binding that is elsewhere than its operation stays":  bindingElsewhere,
	"a round trip of a state is noticed (I6)":               roundTrip,
	"a cohort is freed of who waited, not of who rode":      freedWaited,
	"a duplicate of another key is an error":                otherDuplicate,
	"an operation that moved by itself is not claimed":      operationMoved,
	"what does not fit is refused, not cut":                 refusedNotCut,
	"a lost lock is not released on its successor":          lockSuccessor,
	"a write that changes nothing has met its row":          metRow,
	"rows are locked in one order":                          oneLockOrder,
	"a member that vanished stops its settlement":           memberVanished,
	"a request that was claimed meanwhile is not cancelled": claimedMeanwhile,
}

// uniqueKeys are the keys that carry weight: table → the columns that differ between two rows of one key.
var uniqueKeys = map[string][]string{
	"repository": {"id"}, "queue": {"id"}, "merge_request": {"id"}, "binding": {"id"}, "merge_batch_request": {"id"}, "merge_batch": {"id", "active_slot"},
	"merge_batch_member": {"id"}, "audit": {"id"}, "delivery": {"id"}, "outbox": {"id"}, "operation": nil, "idempotency": nil,
}

// A copy of a row under another id is refused in every table, except where history is appended.
func everyKeyRefuses(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1)
	w.claim(w.queue, 1)
	w.deliver("one")
	for _, table := range tables {
		besides, unique := uniqueKeys[table]
		if !unique {
			continue
		}
		columns := slices.DeleteFunc(w.columns(table), func(c string) bool { return slices.Contains(besides, c) })
		if value[int](w, `SELECT COUNT(*) FROM `+table) == 0 {
			t.Errorf("%s is empty: nothing was tried", table)
		}
		list := strings.Join(columns, ", ")
		_, err := w.SQL.ExecContext(t.Context(), fmt.Sprintf(`INSERT INTO %s (%s) SELECT %s FROM %s LIMIT 1`, table, list, list, table))
		if err == nil || !strings.Contains(strings.ToLower(err.Error()), "unique") && !strings.Contains(err.Error(), "Duplicate") {
			t.Errorf("%s took the same row twice: %v", table, err)
		}
	}
}

// columns are the names of a table's columns.
func (w *world) columns(table string) []string {
	w.Helper()
	rows, err := w.SQL.QueryContext(w.Context(), `SELECT * FROM `+table+` LIMIT 1`)
	w.must(err)
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	w.must(err)
	w.must(rows.Err())
	return columns
}

// Somebody who is not the store admits the same operation first: the move that would admit it changes nothing.
func admittedBeside(t *testing.T, db Database) {
	w := newWorld(t, db)
	op := w.apply(w.application(w.queue, 1, false))
	w.execute(`INSERT INTO merge_batch_request (operation_id, queue_id, batch_id, lane, cohort, created_at) VALUES (?, ?, NULL, 2, 0, `+past(db)+`)`, op.ID, w.queue.ID)
	before := w.snapshot()
	if result, err := w.store.Move(t.Context(), w.moveTo(op, bot.OperationWaiting)); err != nil || result != bot.MoveStale {
		t.Errorf("%d, %v; want a plain answer", result, err)
	}
	if w.snapshot() != before {
		t.Error("something changed")
	}
}

// Between the read of a binding and its reset in place the binding moves on: whoever read the old state begins anew.
func reapplyLoses(t *testing.T, db Database) {
	w := newWorld(t, db)
	op := w.operationIn(bot.OperationCancelled, 1)
	if !db.severalWriters() {
		return // nothing comes in between where one writer has the database
	}
	tries := 0
	db.Intercept(w.store, func(statement string, _ []any) error {
		if strings.HasPrefix(statement, "UPDATE binding") {
			if tries++; tries == 1 {
				w.execute(`UPDATE binding SET version = version + 1`)
			}
		}
		return nil
	})
	again := w.again(op, 1)
	result, err := w.store.Apply(t.Context(), again)
	if err != nil || result.Outcome != bot.ApplyDone || result.Operation.ID != again.OperationID {
		t.Errorf("%+v, %v", result, err)
	}
	if tries != 2 {
		t.Errorf("%d tries: what happened in between was overwritten unseen", tries)
	}
	if n := value[int](w, `SELECT COUNT(*) FROM binding_history WHERE from_status IS NULL`); n != 2 {
		t.Errorf("%d applications in the history", n)
	}
	w.execute(`UPDATE binding SET version = version - 1`) // the test's own change has no history
	w.invariants()
}

func bindingElsewhere(t *testing.T, db Database) {
	w := newWorld(t, db)
	op := w.operationIn(bot.OperationWaiting, 1)
	w.execute(`UPDATE binding SET status = 9`)
	before := w.snapshot()
	if result, err := w.store.Move(t.Context(), w.moveTo(op, bot.OperationCancelled)); err != nil || result != bot.MoveStale {
		t.Errorf("%d, %v", result, err)
	}
	if w.snapshot() != before {
		t.Error("something changed")
	}
}

// What went away and came back looks the same but for its version.
func roundTrip(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2)
	claimed := w.claim(w.queue, 1)
	old := claimed.Batch.Guard()
	if _, ok, err := w.store.ChangeBatch(t.Context(), old, bot.BatchChange{Message: "seen"}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	now := w.batch(w.queue.ID).Guard()
	if now.Status != old.Status || now.Phase != old.Phase {
		t.Fatalf("%+v became %+v: no round trip", old, now)
	}
	if _, ok, err := w.store.ChangeBatch(t.Context(), old, bot.BatchChange{Message: "stale"}); err != nil || ok {
		t.Errorf("a batch that changed in between was written: %v %v", ok, err)
	}

	waiting := w.read(operationID(2))
	for _, to := range []bot.OperationStatus{bot.OperationPendingApproval, bot.OperationWaiting} {
		if result, err := w.store.Move(t.Context(), w.moveTo(w.read(waiting.ID), to)); err != nil || result != bot.MoveDone {
			t.Fatal(result, err)
		}
	}
	if result, err := w.store.Move(t.Context(), w.moveTo(waiting, bot.OperationCancelled)); err != nil || result != bot.MoveStale {
		t.Errorf("an operation that left and came back was moved by who had not seen it: %d, %v", result, err)
	}
}

// Members may return into the very cohort that is freed: they keep it, and those that waited meanwhile lose it.
func freedWaited(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2, 3, 4)
	w.execute(`UPDATE merge_batch_request SET cohort = 7`)
	spec := claimSpec(w.queue, 2)
	spec.Kind, spec.Cohort = bot.BatchProbe, 7
	red, err := w.store.Claim(t.Context(), spec)
	w.must(err)
	settlement := settlementOf(red, bot.BatchFailed, bot.OperationWaiting)
	settlement.FreeCohort = 7
	for i := range settlement.Members {
		settlement.Members[i].Cohort = 7
	}
	if ok, err := w.store.Settle(t.Context(), settlement); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if got := w.rows(`SELECT cohort FROM merge_batch_request ORDER BY operation_id`); !slices.Equal(got, []string{"7", "7", "0", "0"}) {
		t.Errorf("cohorts %v, want the two that rode still suspected and the two that waited free", got)
	}
	w.invariants()
}

// An answer is what was asked about: a violation of any other key is a failure and leaves nothing.
func otherDuplicate(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2)
	first := w.claim(w.queue, 1)
	w.settle(first, bot.BatchSucceeded, bot.OperationMerged)
	// A second unique key over the batches, as a database engineer might add one.
	w.execute(`CREATE UNIQUE INDEX uk_beside ON merge_batch (queue_id, token)`)
	drop := `DROP INDEX uk_beside`
	if db.Driver == store.MySQL {
		drop += ` ON merge_batch`
	}
	defer w.execute(drop) // the database may be used again
	before := w.snapshot()
	if result, err := w.store.Claim(t.Context(), claimSpec(w.queue, 1)); err == nil {
		t.Errorf("%s: an unknown key was taken for the slot", result.Outcome)
	}
	if w.snapshot() != before {
		t.Error("something changed")
	}
}

// A guarded write that sets what is there already has not lost a race.
func metRow(t *testing.T, db Database) {
	w := newWorld(t, db)
	n := int64(0)
	w.must(db.Transaction(t.Context(), w.store, func(exec func(string, ...any) (int64, error)) (err error) {
		n, err = exec(`UPDATE queue SET reason = reason WHERE id = ?`, w.queue.ID)
		return err
	}, nil))
	if n != 1 {
		t.Errorf("met %d rows, want 1", n)
	}
}

// Between the claim's read and its write an operation is ended by somebody who leaves its binding and its request alone.
func operationMoved(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1)
	end := func() { w.execute(`UPDATE operation SET status = 6`) }
	if db.severalWriters() {
		var once sync.Once
		db.Intercept(w.store, func(statement string, _ []any) error {
			if strings.HasPrefix(statement, "UPDATE operation") {
				once.Do(end)
			}
			return nil
		})
	} else {
		end()
	}
	if result, err := w.store.Claim(t.Context(), claimSpec(w.queue, 1)); err != nil || result.Outcome != bot.ClaimPreempted {
		t.Errorf("%s, %v", result.Outcome, err)
	}
	if status := value[int](w, `SELECT status FROM operation`); status != 6 {
		t.Errorf("the operation was set to %d", status)
	}
	if n := value[int](w, `SELECT COUNT(*) FROM merge_batch`); n != 0 {
		t.Errorf("%d batches", n)
	}
}

// SQLite knows no lengths; there the store cuts and refuses before it writes.
func refusedNotCut(t *testing.T, db Database) {
	w := newWorld(t, db)
	if !db.severalWriters() {
		return
	}
	err := db.Transaction(t.Context(), w.store, func(exec func(string, ...any) (int64, error)) error {
		_, err := exec(`UPDATE queue SET settings_blob = ?`, strings.Repeat("x", 65))
		return err
	}, nil)
	if err == nil {
		t.Error("a text that does not fit was cut: sql_mode is not strict")
	}
	if blob := value[string](w, `SELECT settings_blob FROM queue`); blob != "" {
		t.Errorf("%q stayed", blob)
	}
}

// A lock is lost with its connection and taken again by the same instance: releasing the lost one must not free the new one.
func lockSuccessor(t *testing.T, db Database) {
	a, b := db.Open(t), db.Open(t)
	lost := tryLock(t, a, t.Name(), true)
	if !db.severalWriters() {
		return // nothing to lose: the lock is in this process
	}
	var holder int64
	if err := db.SQL.QueryRowContext(t.Context(), `SELECT IS_USED_LOCK(?)`, db.LockName("default", t.Name())).Scan(&holder); err != nil {
		t.Fatal(err)
	}
	if _, err := db.SQL.ExecContext(t.Context(), `KILL ?`, holder); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server has ended the connection", func() bool {
		var free bool
		return db.SQL.QueryRowContext(t.Context(), `SELECT IS_FREE_LOCK(?)`, db.LockName("default", t.Name())).Scan(&free) == nil && free
	})
	tryLock(t, a, "another "+t.Name(), true) // notices the loss
	again := tryLock(t, a, t.Name(), true)
	lost()
	tryLock(t, b, t.Name(), false)
	again()
	tryLock(t, b, t.Name(), true)()
}

// Somebody who does not ask for the batch's row takes a member's request away while its batch is settled.
func memberVanished(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2)
	claimed := w.claim(w.queue, 2)
	if !db.severalWriters() {
		return // nothing comes in between where one writer has the database
	}
	for to, begin := range map[bot.OperationStatus]string{bot.OperationWaiting: "UPDATE merge_batch_request", bot.OperationFailed: "DELETE FROM merge_batch_request"} {
		put := func(batch int64) func() {
			return func() {
				w.execute(`UPDATE merge_batch_request SET batch_id = ? WHERE operation_id = ?`, batch, operationID(1))
			}
		}
		db.Intercept(w.store, once(begin, put(999)))
		if ok, err := w.store.Settle(t.Context(), settlementOf(claimed, bot.BatchFailed, to)); err == nil {
			t.Errorf("to %s: %v, and a member of another batch came to an end with this one", to, ok)
		}
		db.Intercept(w.store, nil)
		put(claimed.Batch.ID)()
	}
	w.settle(claimed, bot.BatchFailed, bot.OperationWaiting)
}

// Between a cancel's read and its write somebody who leaves the operation alone claims the request.
func claimedMeanwhile(t *testing.T, db Database) {
	w := newWorld(t, db)
	op := w.operationIn(bot.OperationWaiting, 1)
	if !db.severalWriters() {
		return
	}
	db.Intercept(w.store, once("DELETE FROM merge_batch_request", func() { w.execute(`UPDATE merge_batch_request SET batch_id = 999`) }))
	if result, err := w.store.Move(t.Context(), w.moveTo(op, bot.OperationCancelled)); err != nil || result != bot.MoveStale {
		t.Errorf("%d, %v", result, err)
	}
	if n := w.value(`SELECT COUNT(*) FROM merge_batch_request WHERE batch_id = 999`); n != 1 {
		t.Error("what rides in a batch was taken out of it")
	}
}
