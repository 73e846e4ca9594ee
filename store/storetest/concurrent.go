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
	held, release := w.holdAtCommit(claimer)
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
	held, release = w.holdAtCommit(settler)
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

// holdAtCommit stops a store's next transaction before its COMMIT: held is closed when it is there, and closing release lets it go on.
func (w *world) holdAtCommit(s storeHandle) (held, release chan struct{}) {
	held, release = make(chan struct{}), make(chan struct{})
	var once sync.Once
	w.Intercept(s, func(statement string, _ []any) error {
		if statement == "COMMIT" {
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
	held, release := w.holdAtCommit(other.store)
	done := make(chan error, 1)
	go func() {
		_, err := other.store.RecordMR(context.Background(), w.repo.ID, w.application(w.queue, 4, true).MR) // its own commit is held: let it go
		done <- err
	}()
	<-held
	close(release)
	w.must(<-done)

	held, release = w.holdAtCommit(other.store)
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
			request = append(request, fmt.Sprintf("(%d, '%s', %d, NULL, 2, 0, %s)", n, id, w.queue.ID, past(w.Database)))
		}
		w.execute(`INSERT INTO merge_request (id, repository_id, number, title, author_id, author_login, author_bot, head_sha, last_command_at, last_command_id,
			sticky_comment_id, created_at, updated_at) VALUES ` + strings.Join(mr, ", "))
		w.execute(`INSERT INTO operation (operation_id, repository_id, queue_id, merge_request_id, status, requester, head_sha, lane, reason, detail,
			created_at, updated_at) VALUES ` + strings.Join(op, ", "))
		w.execute(`INSERT INTO binding (id, subject_id, target_key, operation_id, status, expires_at, created_at, updated_at) VALUES ` + strings.Join(binding, ", "))
		w.execute(`INSERT INTO binding_history (binding_id, operation_id, from_status, to_status, reason, detail, head_sha, batch_id, actor, created_at) VALUES ` +
			strings.Join(history, ", "))
		w.execute(`INSERT INTO merge_batch_request (id, operation_id, queue_id, batch_id, lane, cohort, created_at) VALUES ` + strings.Join(request, ", "))
	}
}
