package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

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
	"of several instances one wins every round (I1, I2)":       claimRace,
	"held open keeps no admission waiting (I3)":                claimHeldOpen,
	"does not wait for an admission held open":                 claimBesideAdmission,
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
	now := past(db)
	insert := `INSERT INTO merge_batch (queue_id, status, phase, kind, cohort, token, size, build, base_sha, head_sha, landed_sha, landed_differs,
			mr_number, code, message, refusals, ci_conclusion, ci_fingerprint, ci_changed_at, phase_at, deadline_at, created_at, updated_at)
		VALUES (?, 1, 1, 1, 0, 'other', 0, 0, '', '', '', 0, 0, '', '', 0, '', '', ` + strings.Join([]string{now, now, now, now, now}, ", ") + `)`
	if db.severalWriters() {
		// Between the look at the slot and the insert somebody takes it who did not ask for the queue's row.
		var once sync.Once
		db.Intercept(w.store, func(statement string, _ []any) error {
			if strings.HasPrefix(statement, "INSERT INTO merge_batch (") {
				once.Do(func() { w.execute(insert, w.queue.ID) })
			}
			return nil
		})
	} else {
		w.execute(insert, w.queue.ID)
	}
	w.expect(claimSpec(w.queue, 1), bot.ClaimSlotOccupied)
	if _, err := w.SQL.ExecContext(t.Context(), insert, w.queue.ID); err == nil {
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
		w.must(other.QueryRow(`SELECT id FROM queue WHERE id = ? FOR UPDATE`, w.queue.ID).Scan(&id))
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

// eachStepFails lets do fail at its first statement, then at its second and so on to its COMMIT, and wants the tables untouched every time. do
// has not been done when it returns.
func (w *world) eachStepFails(do func() error) {
	w.Helper()
	broken := &mysql.MySQLError{Number: 1290, Message: "the server is read-only"} // whatever the database: an error that says nothing was done
	before := w.snapshot()
	for step := 1; ; step++ {
		n, last := 0, ""
		w.Intercept(w.store, func(statement string, _ []any) error {
			if n++; n == step {
				last = statement
				return broken
			}
			return nil
		})
		err := do()
		if !errors.Is(err, broken) {
			w.Fatalf("step %d: got %v, want the failure", step, err)
		}
		if after := w.snapshot(); after != before {
			w.Fatalf("failing at step %d left a trace\n%s\nbefore:\n%s\nafter:\n%s", step, last, before, after)
		}
		if last == "COMMIT" {
			if step < 8 {
				w.Fatalf("only %d steps were seen", step)
			}
			w.Intercept(w.store, nil)
			return
		}
	}
}

func claimRace(t *testing.T, db Database) {
	w := newWorld(t, db)
	const instances, rounds = 3, 12
	stores := []*world{w}
	for len(stores) < instances {
		other := *w
		other.store = db.Open(t)
		stores = append(stores, &other)
	}
	next := 0
	for r := range rounds {
		for range 3 {
			next++
			w.admit(w.queue, next)
		}
		var won, settled atomic.Int32
		var batch atomic.Pointer[bot.ClaimResult]
		arriving := next + 1
		next++
		var group sync.WaitGroup
		start := make(chan struct{})
		for _, s := range stores {
			group.Go(func() {
				<-start
				result, err := s.store.Claim(context.Background(), claimSpec(w.queue, 2))
				switch {
				case err != nil:
					t.Errorf("round %d: %v", r, err)
				case result.Outcome == bot.ClaimDone:
					won.Add(1)
					batch.Store(&result)
				case result.Outcome != bot.ClaimSlotOccupied && result.Outcome != bot.ClaimQueueBusy:
					t.Errorf("round %d: %s", r, result.Outcome)
				}
			})
		}
		group.Go(func() {
			<-start
			if result, err := w.store.Apply(context.Background(), w.application(w.queue, arriving, true)); err != nil || result.Outcome != bot.ApplyDone {
				t.Errorf("round %d: admission: %v %v", r, result.Outcome, err)
			}
		})
		close(start)
		group.Wait()
		if won.Load() != 1 {
			t.Fatalf("round %d: %d instances got a batch", r, won.Load())
		}
		w.invariants()

		// Event, sweep and operator settle at once.
		settlement := settlementOf(*batch.Load(), bot.BatchSucceeded, bot.OperationMerged)
		start = make(chan struct{})
		for _, s := range stores {
			group.Go(func() {
				<-start
				ok, err := s.store.Settle(context.Background(), settlement)
				if err != nil {
					t.Errorf("round %d: settle: %v", r, err)
				}
				if ok {
					settled.Add(1)
				}
			})
		}
		close(start)
		group.Wait()
		if settled.Load() != 1 {
			t.Fatalf("round %d: settled %d times", r, settled.Load())
		}
		w.invariants()
	}
	if twice := w.rows(`SELECT operation_id FROM merge_batch_member WHERE event = 1 GROUP BY operation_id HAVING COUNT(*) > 1`); len(twice) > 0 {
		t.Errorf("claimed twice: %v", twice)
	}
}

func claimHeldOpen(t *testing.T, db Database) {
	w := newWorld(t, db)
	if !db.severalWriters() {
		// One writer at a time: admission goes on while a batch runs, and between transactions.
		w.admit(w.queue, 1)
		w.claim(w.queue, 1)
		w.admit(w.queue, 2)
		return
	}
	for n := range 60 {
		w.admit(w.queue, n+1)
	}
	claimer := db.Open(t)
	held, release := w.holdAt(claimer, "COMMIT")
	done := make(chan bot.ClaimResult, 1)
	go func() {
		result, err := claimer.Claim(context.Background(), claimSpec(w.queue, 50))
		if err != nil {
			t.Error(err)
		}
		done <- result
	}()
	<-held
	w.admitWhile("a claim of 50 of 60", 101)
	close(release)
	result := <-done
	if result.Outcome != bot.ClaimDone || len(result.Members) != 50 {
		t.Fatalf("%s, %d members", result.Outcome, len(result.Members))
	}
	w.invariants()

	// A settlement that sends 50 members back, and one that frees a cohort, are held open in the same way.
	settler := db.Open(t)
	held, release = w.holdAt(settler, "COMMIT")
	settlement := settlementOf(result, bot.BatchFailed, bot.OperationWaiting)
	settled := make(chan bool, 1)
	go func() {
		ok, err := settler.Settle(context.Background(), settlement)
		if err != nil {
			t.Error(err)
		}
		settled <- ok
	}()
	<-held
	w.admitWhile("a settlement of 50 members that ride again", 201)
	close(release)
	if !<-settled {
		t.Error("the settlement found its batch changed")
	}
	w.invariants()
}

// holdAt stops a store's next transaction at a statement: held is closed when it is there, and closing release lets it go on.
func (w *world) holdAt(s storeHandle, prefix string) (held, release chan struct{}) {
	held, release = make(chan struct{}), make(chan struct{})
	var once sync.Once
	w.Intercept(s, func(statement string, _ []any) error {
		if strings.HasPrefix(statement, prefix) {
			once.Do(func() {
				close(held)
				<-release
			})
		}
		return nil
	})
	return held, release
}

// admitWhile admits 20 requests while something is held open. One that had to wait for its end would wait for ever: it fails after the lock
// wait time-out of 5 s.
func (w *world) admitWhile(what string, first int) {
	w.Helper()
	const bound = 3 * time.Second
	var slowest time.Duration
	for n := first; n < first+20; n++ {
		began := time.Now()
		w.admit(w.queue, n)
		slowest = max(slowest, time.Since(began))
	}
	if slowest > bound {
		w.Errorf("while %s is open an admission took %v", what, slowest)
	}
	w.Logf("while %s is open the slowest of 20 admissions took %v", what, slowest)
}

func claimBesideAdmission(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2, 3)
	if !db.severalWriters() {
		w.claim(w.queue, 3)
		return
	}
	other := *w
	other.store = db.Open(t)
	held, release := w.holdAt(other.store, "COMMIT")
	done := make(chan error, 1)
	go func() {
		_, err := other.store.RecordMR(context.Background(), w.repo.ID, w.application(w.queue, 4, true).MR) // its own commit is held: let it go
		done <- err
	}()
	<-held
	close(release)
	w.must(<-done)

	held, release = w.holdAt(other.store, "COMMIT")
	go func() {
		_, err := other.store.Apply(context.Background(), w.application(w.queue, 4, true))
		done <- err
	}()
	<-held
	if got := numbers(w.claim(w.queue, 10).Members); !slices.Equal(got, []int{1, 2, 3}) {
		t.Errorf("claimed %v", got)
	}
	close(release)
	w.must(<-done)
	w.invariants()
}

func claimThousands(t *testing.T, db Database) {
	w := newWorld(t, db)
	const many = 1200
	w.crowd(many)
	count := func(limit int) (statements int) {
		db.Intercept(w.store, func(string, []any) error { statements++; return nil })
		result := w.claim(w.queue, limit)
		db.Intercept(w.store, nil)
		if len(result.Members) != limit {
			t.Fatalf("claimed %d", len(result.Members))
		}
		w.settle(result, bot.BatchFailed, bot.OperationWaiting)
		return statements
	}
	few, lots := count(10), count(many)
	if chunks := (many + 499) / 500; lots > few*chunks {
		t.Errorf("%d statements for %d members, %d for 10: they grow with members", lots, many, few)
	}
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

// crowd admits many requests beside the store, in a few statements.
func (w *world) crowd(many int) {
	w.Helper()
	now := later(w.Database)
	for first := 1; first <= many; first += 400 {
		var mr, op, binding, history, request []string
		for n := first; n < first+400 && n <= many; n++ {
			id := operationID(n)
			mr = append(mr, fmt.Sprintf("(%d, %d, %d, 'Change', 1, 'author', 0, '%s', 0, 0, 0, %s, %s)", n, w.repo.ID, n, sha(n), now, now))
			op = append(op, fmt.Sprintf("('%s', %d, %d, %d, 2, 'author', '%s', 2, 'approved', '', %s, %s)", id, w.repo.ID, w.queue.ID, n, sha(n), now, now))
			binding = append(binding, fmt.Sprintf("(%d, %d, 'main', '%s', 2, %s, %s, %s)", n, n, id, now, now, now))
			history = append(history, fmt.Sprintf("(%d, '%s', NULL, 2, 'applied', '', '%s', 0, 'author', %s)", n, id, sha(n), now))
			request = append(request, fmt.Sprintf("('%s', %d, NULL, 2, 0, %s)", id, w.queue.ID, past(w.Database)))
		}
		w.execute(`INSERT INTO merge_request (id, repository_id, number, title, author_id, author_login, author_bot, head_sha, last_command_at, last_command_id,
			sticky_comment_id, created_at, updated_at) VALUES ` + strings.Join(mr, ", "))
		w.execute(`INSERT INTO operation (operation_id, repository_id, queue_id, merge_request_id, status, requester, head_sha, lane, reason, detail,
			created_at, updated_at) VALUES ` + strings.Join(op, ", "))
		w.execute(`INSERT INTO binding (id, subject_id, target_key, operation_id, status, expires_at, created_at, updated_at) VALUES ` + strings.Join(binding, ", "))
		w.execute(`INSERT INTO binding_history (binding_id, operation_id, from_status, to_status, reason, detail, head_sha, batch_id, actor, created_at) VALUES ` +
			strings.Join(history, ", "))
		w.execute(`INSERT INTO merge_batch_request (operation_id, queue_id, batch_id, lane, cohort, created_at) VALUES ` + strings.Join(request, ", "))
	}
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
