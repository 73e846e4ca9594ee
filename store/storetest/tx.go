package storetest

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/store"
)

var txTests = tests{
	"runs again as a whole when the database asks":        txRetries,
	"gives up after a bounded number of tries":            txGivesUp,
	"nothing runs after an unexpected error":              txPoisoned,
	"nothing runs after a real deadlock":                  txPoisonedByDeadlock,
	"an unknown outcome is told when nobody can look":     txAmbiguous,
	"an unknown outcome is looked at before trying again": txLooks,
	"a context that ends leaves no ghost":                 txContext,
	"a busy database is waited for":                       txBusy,
	"nothing waits for a connection without end":          txLimit,
	"runs at READ COMMITTED and takes UTC for the clock":  txSession,
	"texts that are too long are cut, not refused":        txClips,
}

const auditRow = `INSERT INTO audit (dedupe_key, actor, action, queue_id, operation_id, batch_id, source, detail, created_at) VALUES (?, '', '', 0, '', 0, '', '', {now})`

func (w *world) audited(key string) bool {
	w.Helper()
	return value[int](w, `SELECT COUNT(*) FROM audit WHERE dedupe_key = ?`, key) == 1
}

func txRetries(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2, 3, 4, 5)
	for i, number := range []uint16{1213, 1205, 1020, 3101, 1040} {
		failed := false
		db.Intercept(w.store, func(statement string, _ []any) error {
			// Late in the transaction, so that much has to be undone first.
			if strings.HasPrefix(statement, "INSERT INTO audit") && !failed {
				failed = true
				return &mysql.MySQLError{Number: number}
			}
			return nil
		})
		before := w.store.Stats().Retries
		claimed := w.claim(w.queue, 1)
		if got := w.store.Stats().Retries - before; got != 1 || claimed.Members[0].Number != i+1 {
			t.Errorf("error %d: tried again %d times, claimed %v", number, got, numbers(claimed.Members))
		}
		db.Intercept(w.store, nil)
		w.settle(claimed, bot.BatchSucceeded, bot.OperationMerged)
	}
}

func txGivesUp(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1)
	deadlock := &mysql.MySQLError{Number: 1213}
	db.Intercept(w.store, func(statement string, _ []any) error {
		if statement == "COMMIT" {
			return deadlock
		}
		return nil
	})
	_, err := w.store.Claim(t.Context(), claimSpec(w.queue, 1))
	if !errors.Is(err, deadlock) || !strings.Contains(err.Error(), fmt.Sprintf("claim on queue %d", w.queue.ID)) {
		t.Errorf("got %v, want the last failure and what it was about", err)
	}
	if n := value[int](w, `SELECT COUNT(*) FROM merge_batch`); n != 0 {
		t.Errorf("%d batches", n)
	}
}

// Two transactions meet in the middle, each holding what the other wants. The claim is the lighter one, so it is the victim: it must begin anew
// and succeed, and nothing of its first try may stay.
func txDeadlock(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1)
	if !db.severalWriters() {
		w.claim(w.queue, 1) // one writer at a time cannot deadlock
		return
	}
	heavy, err := w.SQL.BeginTx(t.Context(), nil)
	w.must(err)
	defer func() { _ = heavy.Rollback() }()
	for n := range 300 {
		if _, err := heavy.ExecContext(t.Context(), strings.ReplaceAll(auditRow, "{now}", "CURRENT_TIMESTAMP(6)"), fmt.Sprintf("heavy %d", n)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := heavy.ExecContext(t.Context(), `UPDATE outbox SET error = 'held'`); err != nil {
		t.Fatal(err)
	}
	there := make(chan struct{})
	var once sync.Once
	db.Intercept(w.store, func(statement string, _ []any) error {
		if strings.HasPrefix(statement, "UPDATE outbox") {
			once.Do(func() { close(there) })
		}
		return nil
	})
	done := make(chan bot.ClaimResult, 1)
	go func() {
		result, err := w.store.Claim(context.Background(), claimSpec(w.queue, 1))
		if err != nil {
			t.Error(err)
		}
		done <- result
	}()
	select {
	case <-there:
	case result := <-done:
		t.Fatalf("the claim ended before it met the other: %s", result.Outcome)
	}
	if _, err := heavy.ExecContext(t.Context(), `UPDATE operation SET detail = 'heavy'`); err != nil {
		t.Errorf("the heavy transaction was the victim: %v", err)
	}
	w.must(heavy.Commit())
	if result := <-done; result.Outcome != bot.ClaimDone || len(result.Members) != 1 {
		t.Errorf("%s", result.Outcome)
	}
	if w.store.Stats().Retries == 0 {
		t.Error("there was no deadlock")
	}
	if n := value[int](w, `SELECT COUNT(*) FROM merge_batch`); n != 1 {
		t.Errorf("%d batches", n)
	}
	w.invariants()
}

func txPoisoned(t *testing.T, db Database) {
	w := newWorld(t, db)
	err := db.Transaction(t.Context(), w.store, func(exec func(string, ...any) (int64, error)) error {
		if _, err := exec(auditRow, "before"); err != nil {
			t.Error(err)
		}
		if _, err := exec(auditRow, "before"); err == nil {
			t.Error("a duplicate that nobody named was taken")
		}
		if _, err := exec(auditRow, "after"); err == nil {
			t.Error("a statement ran after the failure")
		}
		return nil // whoever swallows the error
	}, nil)
	if err == nil {
		t.Error("the transaction committed")
	}
	if w.audited("before") || w.audited("after") {
		t.Error("something stayed")
	}
}

// After 1213 the server has ended the transaction, and what the same sql.Tx runs then would commit by itself.
func txPoisonedByDeadlock(t *testing.T, db Database) {
	w := newWorld(t, db)
	if !db.severalWriters() {
		txPoisoned(t, db)
		return
	}
	first, second := w.queue.ID, w.newQueue("second").ID
	heavy, err := w.SQL.BeginTx(t.Context(), nil)
	w.must(err)
	defer func() { _ = heavy.Rollback() }()
	for n := range 300 {
		if _, err := heavy.ExecContext(t.Context(), strings.ReplaceAll(auditRow, "{now}", "CURRENT_TIMESTAMP(6)"), fmt.Sprintf("heavy %d", n)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := heavy.ExecContext(t.Context(), `UPDATE queue SET reason = 'held' WHERE id = ?`, second); err != nil {
		t.Fatal(err)
	}
	tries := 0
	heavyDone := make(chan struct{})
	err = db.Transaction(t.Context(), w.store, func(exec func(string, ...any) (int64, error)) error {
		if tries++; tries > 1 {
			return nil
		}
		if _, err := exec(`UPDATE queue SET reason = 'light' WHERE id = ?`, first); err != nil {
			return err
		}
		go func() {
			defer close(heavyDone)
			if _, err := heavy.ExecContext(t.Context(), `UPDATE queue SET reason = 'heavy' WHERE id = ?`, first); err != nil {
				t.Errorf("the heavy transaction was the victim: %v", err)
			}
			if err := heavy.Commit(); err != nil {
				t.Error(err)
			}
		}()
		_, err := exec(`UPDATE queue SET reason = 'light' WHERE id = ?`, second)
		if my, ok := errors.AsType[*mysql.MySQLError](err); !ok || my.Number != 1213 {
			t.Errorf("got %v, want a deadlock", err)
		}
		if _, err := exec(auditRow, "ghost"); err == nil {
			t.Error("a statement ran after the deadlock")
		}
		return err
	}, nil)
	w.must(err)
	<-heavyDone
	if tries != 2 || w.audited("ghost") {
		t.Errorf("%d tries, ghost row: %v", tries, w.audited("ghost"))
	}
}

func txAmbiguous(t *testing.T, db Database) {
	w := newWorld(t, db)
	db.Intercept(w.store, loseConnection("after COMMIT"))
	runs := 0
	err := db.Transaction(t.Context(), w.store, func(exec func(string, ...any) (int64, error)) error {
		runs++
		_, err := exec(auditRow, "once")
		return err
	}, nil)
	if !errors.Is(err, store.ErrAmbiguous) || !errors.Is(err, driver.ErrBadConn) || runs != 1 || !w.audited("once") {
		t.Errorf("%d runs, %v; it must not be repeated blindly", runs, err)
	}
}

func txLooks(t *testing.T, db Database) {
	w := newWorld(t, db)
	for _, c := range []struct {
		at   string
		runs int
	}{{"after COMMIT", 1}, {"COMMIT", 2}} {
		db.Intercept(w.store, loseConnection(c.at))
		runs := 0
		err := db.Transaction(t.Context(), w.store, func(exec func(string, ...any) (int64, error)) error {
			runs++
			_, err := exec(auditRow, c.at)
			return err
		}, func(context.Context) (bool, error) { return w.audited(c.at), nil })
		if err != nil || runs != c.runs || !w.audited(c.at) {
			t.Errorf("lost %s: %d runs, want %d: %v", c.at, runs, c.runs, err)
		}
	}
	db.Intercept(w.store, loseConnection("after COMMIT"))
	blind := errors.New("cannot look")
	err := db.Transaction(t.Context(), w.store, func(exec func(string, ...any) (int64, error)) error {
		_, err := exec(auditRow, "unseen")
		return err
	}, func(context.Context) (bool, error) { return false, blind })
	if !errors.Is(err, store.ErrAmbiguous) || !errors.Is(err, blind) {
		t.Errorf("got %v", err)
	}
}

// A context that ends does not stop a server; only a transaction that is never committed leaves nothing.
func txContext(t *testing.T, db Database) {
	w := newWorld(t, db)
	ctx, cancel := context.WithCancel(t.Context())
	err := db.Transaction(ctx, w.store, func(exec func(string, ...any) (int64, error)) error {
		_, err := exec(auditRow, "ghost")
		cancel()
		return err
	}, nil)
	if !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrAmbiguous) {
		t.Errorf("got %v, want a plain cancellation", err)
	}
	if w.audited("ghost") {
		t.Error("a ghost row")
	}
	if !db.severalWriters() {
		return
	}
	// Blocked by somebody else's uncommitted row when the context ends; the blocker goes away later.
	blocker, err := w.SQL.BeginTx(t.Context(), nil)
	w.must(err)
	_, err = blocker.ExecContext(t.Context(), strings.ReplaceAll(auditRow, "{now}", "CURRENT_TIMESTAMP(6)"), "ghost")
	w.must(err)
	ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err = db.Transaction(ctx, w.store, func(exec func(string, ...any) (int64, error)) error {
		_, err := exec(auditRow, "ghost")
		return err
	}, nil)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	w.must(blocker.Rollback())
	// Whoever waits for the same key now gets it only when the abandoned transaction is gone.
	w.must(db.Transaction(t.Context(), w.store, func(exec func(string, ...any) (int64, error)) error {
		_, err := exec(auditRow, "ghost")
		return err
	}, nil))
}

func txBusy(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1)
	if db.severalWriters() {
		return // txDeadlock is its counterpart
	}
	db.Impatient(t, w.store)
	writer, err := w.SQL.BeginTx(t.Context(), nil)
	w.must(err)
	_, err = writer.ExecContext(t.Context(), `UPDATE queue SET reason = 'held'`)
	w.must(err)
	done := make(chan error, 1)
	go func() { done <- w.store.ParkQueue(context.Background(), w.queue.ID, "later") }()
	eventually(t, "the store tries again", func() bool { return w.store.Stats().Retries > 0 })
	w.must(writer.Commit())
	w.must(<-done)
	if queue, _, err := w.store.ReadQueue(t.Context(), w.queue.ID); err != nil || queue.State != bot.QueueParked {
		t.Errorf("queue %+v %v", queue, err)
	}
}

// Every connection is out. Whoever asks for one is told so in time, long before its own context ends.
func txLimit(t *testing.T, db Database) {
	w := newWorld(t, db)
	pool := 1
	if db.severalWriters() {
		pool = w.store.Pools()["main"].MaxOpenConnections
	}
	inside, finish := make(chan struct{}), make(chan struct{})
	var hogs sync.WaitGroup
	for n := range pool {
		hogs.Go(func() {
			err := db.Transaction(context.Background(), w.store, func(exec func(string, ...any) (int64, error)) error {
				_, err := exec(auditRow, fmt.Sprint("hog ", n))
				inside <- struct{}{}
				<-finish
				return err
			}, nil)
			if err != nil {
				t.Error(err)
			}
		})
	}
	for range pool {
		await(t, "every connection is out", inside)
	}
	db.Limit(w.store, 100*time.Millisecond)
	patient, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err := db.Transaction(patient, w.store, func(exec func(string, ...any) (int64, error)) error {
		_, err := exec(auditRow, "late")
		return err
	}, nil)
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, store.ErrAmbiguous) {
		t.Errorf("a transaction: %v", err)
	}
	if db.severalWriters() {
		if _, _, err := w.store.ReadQueue(patient, w.queue.ID); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a read: %v", err)
		}
	}
	if patient.Err() != nil {
		t.Error("they waited to the end of their own patience")
	}
	close(finish)
	hogs.Wait()
	db.Limit(w.store, time.Minute)
	if w.audited("late") || !w.audited("hog 0") {
		t.Error("who waited in vain left something, or who was there did not")
	}
	w.must(w.store.ParkQueue(t.Context(), w.queue.ID, "later"))
}

func txSession(t *testing.T, db Database) {
	w := newWorld(t, db)
	if created := w.apply(w.application(w.queue, 1, false)).CreatedAt; time.Since(created).Abs() > time.Minute || created.Location() != time.UTC {
		t.Errorf("created at %v, now is %v", created, time.Now())
	}
	if !db.severalWriters() {
		return
	}
	w.must(db.Transaction(t.Context(), w.store, func(exec func(string, ...any) (int64, error)) error {
		if _, err := exec(auditRow, "begun"); err != nil {
			return err
		}
		_, err := exec(`UPDATE queue SET reason = (SELECT trx_isolation_level FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = CONNECTION_ID())`)
		return err
	}, nil))
	if level := value[string](w, `SELECT reason FROM queue`); level != "READ COMMITTED" {
		t.Errorf("transactions run at %s, where claims and settlements keep admissions waiting", level)
	}
}

func txClips(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1)
	claimed := w.claim(w.queue, 1)
	long := strings.Repeat("ü", 5000)
	batch, ok, err := w.store.ChangeBatch(t.Context(), claimed.Batch.Guard(), bot.BatchChange{Message: long})
	if err != nil || !ok || len([]rune(batch.Message)) != 2000 || !strings.HasSuffix(batch.Message, "…") {
		t.Errorf("message of %d characters: %v %v", len([]rune(batch.Message)), ok, err)
	}
	claimed.Batch = batch
	settlement := settlementOf(claimed, bot.BatchFailed, bot.OperationFailed)
	settlement.Message, settlement.ParkQueue, settlement.Members[0].Detail = long, long, "\xff"+long
	if ok, err := w.store.Settle(t.Context(), settlement); err != nil || !ok {
		t.Error(ok, err)
	}
}

// eventually polls a condition of another goroutine or server that tells nobody when it is reached.
func eventually(t testing.TB, what string, reached func() bool) {
	t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !reached() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

// await waits for a signal.
func await(t testing.TB, what string, signal <-chan struct{}) {
	t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	select {
	case <-signal:
	case <-deadline.C:
		t.Fatalf("not within 30 s: %s", what)
	}
}
