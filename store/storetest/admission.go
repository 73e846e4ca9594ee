package storetest

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/store"
)

// I3: an admission waits for nothing that goes on around it, and nothing waits for an admission. None of this is judged by a clock: what is held open
// stays open until the others are done, and one that waited for it would never be.
var admissionTests = tests{
	"never waits for an open claim or settlement (I3)": admissionsBeside,
	"would wait for what the store avoids (I3)":        admissionsBlocked,
	"is not waited for by a claim (I3)":                claimBesideAdmission,
	"is not waited for by a settlement (I3)":           settleBesideAdmission,
}

// holding is a transaction that is done but for its COMMIT, until release is called. It ends with the test.
type holding struct {
	what    string
	release func()
}

// holdAtCommit stops the first transaction of a store that writes requests before its COMMIT: held is closed when it is there, and closing release lets it
// go on.
func (w *world) holdAtCommit(s storeHandle) (held, release chan struct{}) {
	held, release = make(chan struct{}), make(chan struct{})
	var once sync.Once
	wrote := false
	w.Intercept(s, func(statement string, _ []any) error {
		if strings.HasPrefix(statement, "UPDATE merge_batch_request") || strings.HasPrefix(statement, "INSERT INTO merge_batch_request") {
			wrote = true
		}
		if statement == "COMMIT" && wrote {
			once.Do(func() {
				close(held)
				<-release
			})
		}
		return nil
	})
	return held, release
}

// holdOpen runs work on an instance of its own up to its COMMIT.
func (w *world) holdOpen(what string, work func(s *store.Store) error) holding {
	w.Helper()
	s := w.Open(w)
	held, release := w.holdAtCommit(s)
	done := make(chan error, 1)
	go func() { done <- work(s) }()
	select {
	case <-held:
	case err := <-done:
		w.Fatalf("%s came to no COMMIT: %v", what, err)
	}
	end := sync.OnceFunc(func() {
		close(release)
		if err := <-done; err != nil {
			w.Errorf("%s: %v", what, err)
		}
	})
	w.Cleanup(end)
	return holding{what, end}
}

// openClaim claims limit requests.
func (w *world) openClaim(limit int) (claimed *bot.ClaimResult, h holding) {
	w.Helper()
	claimed = new(bot.ClaimResult)
	return claimed, w.holdOpen(fmt.Sprintf("a claim of %d", limit), func(s *store.Store) (err error) {
		*claimed, err = s.Claim(context.Background(), claimSpec(w.queue, limit))
		if err == nil && len(claimed.Members) != limit {
			err = fmt.Errorf("%s of %d", claimed.Outcome, len(claimed.Members))
		}
		return err
	})
}

// openSettlement sends the members of a failed batch back to wait.
func (w *world) openSettlement(claimed bot.ClaimResult) holding {
	w.Helper()
	return w.holdOpen(fmt.Sprintf("a settlement that sends %d back", len(claimed.Members)), func(s *store.Store) error {
		ok, err := s.Settle(context.Background(), settlementOf(claimed, bot.BatchFailed, bot.OperationWaiting))
		if err == nil && !ok {
			err = fmt.Errorf("it found its batch changed")
		}
		return err
	})
}

// openByHand runs statements in a transaction of the test's own.
func (w *world) openByHand(what string, level sql.IsolationLevel, statements ...string) holding {
	w.Helper()
	tx, err := w.SQL.BeginTx(w.Context(), &sql.TxOptions{Isolation: level})
	w.must(err)
	end := sync.OnceFunc(func() { _ = tx.Rollback() })
	w.Cleanup(end)
	for _, statement := range statements {
		if _, err := tx.ExecContext(w.Context(), statement); err != nil {
			w.Fatalf("%s: %.80s…: %v", what, statement, err)
		}
	}
	return holding{what, end}
}

// writers are instances that admit.
type writers struct {
	*world
	stores []*store.Store
	number atomic.Int64 // of the last merge request
}

func (w *world) writers(n int) *writers {
	w.Helper()
	all := &writers{world: w}
	all.number.Store(1_000_000)
	for range n {
		all.stores = append(all.stores, w.Open(w))
	}
	return all
}

// admit lets every writer admit one request after the other while more, and returns how long each took, in order.
func (ws *writers) admit(more func(done int) bool) []time.Duration {
	ws.Helper()
	var lock sync.Mutex
	var took []time.Duration
	var all sync.WaitGroup
	for _, s := range ws.stores {
		all.Go(func() {
			for n := 0; more(n); n++ {
				a := ws.application(ws.queue, int(ws.number.Add(1)), true)
				a.OperationID = scattered(a.MR.Number)
				began := time.Now()
				result, err := s.Apply(ws.Context(), a)
				if err != nil || result.Outcome != bot.ApplyDone {
					ws.Errorf("admission: %d, %v", result.Outcome, err)
					return
				}
				lock.Lock()
				took = append(took, time.Since(began))
				lock.Unlock()
			}
		})
	}
	all.Wait()
	slices.Sort(took)
	return took
}

// scattered is an operation id like a random one: it falls anywhere among the others.
func scattered(number int) string {
	return fmt.Sprintf("%08x-0000-4000-8000-%012d", uint32(number)*2654435761, number)
}

// percentile reads an ordered list.
func percentile(took []time.Duration, percent int) time.Duration {
	if len(took) == 0 {
		return 0
	}
	return took[min(len(took)-1, len(took)*percent/100)]
}

// admissionsBeside holds a claim open over 10,000 waiting requests, and then the settlement that sends 50 of them back, while several instances
// admit. Were one of them to wait, it would wait for the end of the transaction that waits for it, and fail after the lock wait time-out.
func admissionsBeside(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.ids = scattered
	if !db.severalWriters() {
		// One writer at a time: admission goes on while a batch runs, and between transactions.
		w.crowd(1000)
		claimed := w.claim(w.queue, 50)
		w.admit(w.queue, 1_000_001)
		w.settle(claimed, bot.BatchFailed, bot.OperationWaiting)
		w.admit(w.queue, 1_000_002)
		return
	}
	w.crowd(10_000)
	ws := w.writers(4)
	few := func(done int) bool { return done < 15 }
	show := func(beside string, took []time.Duration) {
		t.Logf("%-40s %d admissions, p50 %v, p99 %v", beside+":", len(took), percentile(took, 50), percentile(took, 99))
	}
	beside := func(h holding, rows int) {
		took := ws.admit(few)
		if len(took) != 60 {
			t.Errorf("%s: only %d of 60 admissions were done while it was open", h.what, len(took))
		}
		show("beside "+h.what, took)
		if n := w.lockWaits(); n != 0 {
			t.Errorf("%s: %d transactions wait", h.what, n)
		}
		// The rows it writes, by primary key, without the gaps between them.
		locks := w.rowLocks("merge_batch_request")
		t.Logf("%s holds %v", h.what, locks)
		switch want := map[string]int{"PRIMARY X,REC_NOT_GAP": rows}; {
		case w.isMariaDB() && locks["rows"] > 6*rows: // operation, binding, request and two errands of each, and a few more
			t.Errorf("%s holds %v for %d members", h.what, locks, rows)
		case !w.isMariaDB() && !maps.Equal(locks, want):
			t.Errorf("%s holds %v, want %v", h.what, locks, want)
		}
		h.release()
	}
	show("with nothing open", ws.admit(few))
	claimed, h := w.openClaim(1000)
	beside(h, 1000)
	w.settle(*claimed, bot.BatchFailed, bot.OperationWaiting)
	fifty := w.claim(w.queue, 50)
	beside(w.openSettlement(fifty), 50)
	w.invariants()
}

// avoided are ways to write a claim or a settlement that look alike and keep admissions waiting.
var avoided = []string{
	"FOR UPDATE over the waiting set, REPEATABLE READ",
	"an UPDATE that is not pinned, REPEATABLE READ",
	"WHERE batch_id = ?, REPEATABLE READ",
	"50 deleted and inserted anew, READ COMMITTED",
}

// openAvoided holds one of these open, in a queue where a batch of 50 runs.
func (w *world) openAvoided(i int, fifty bot.ClaimResult) holding {
	w.Helper()
	level, statements := sql.LevelRepeatableRead, []string(nil)
	switch i {
	case 0:
		statements = []string{fmt.Sprintf(`SELECT id FROM merge_batch_request WHERE queue_id = %d AND batch_id IS NULL ORDER BY lane, created_at, id FOR UPDATE`, w.queue.ID)}
	case 1:
		waiting := w.rows(`SELECT id FROM merge_batch_request WHERE batch_id IS NULL`)
		statements = []string{fmt.Sprintf(`UPDATE merge_batch_request SET batch_id = 999 WHERE queue_id = %d AND batch_id IS NULL AND id IN (%s)`,
			w.queue.ID, strings.Join(waiting, ", "))}
	case 2:
		statements = []string{fmt.Sprintf(`UPDATE merge_batch_request SET batch_id = NULL WHERE queue_id = %d AND batch_id = %d`, w.queue.ID, fifty.Batch.ID)}
	case 3:
		var ids, again []string
		for _, op := range fifty.Members {
			ids = append(ids, fmt.Sprint(op.RequestID))
			again = append(again, fmt.Sprintf(`('%s', %d, NULL, 2, 0, %s)`, op.ID, w.queue.ID, past(w.Database)))
		}
		level = sql.LevelReadCommitted
		statements = []string{`DELETE FROM merge_batch_request WHERE id IN (` + strings.Join(ids, ", ") + `)`,
			`INSERT INTO merge_batch_request (operation_id, queue_id, batch_id, lane, cohort, created_at) VALUES ` + strings.Join(again, ", ")}
	}
	return w.openByHand(avoided[i], level, statements...)
}

func admissionsBlocked(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.ids = scattered
	if !db.severalWriters() {
		w.admit(w.queue, 1) // every writer waits for every other, for milliseconds
		return
	}
	w.crowd(600)
	fifty := w.claim(w.queue, 50)
	w.execute(`ANALYZE TABLE merge_batch_request`) // the plans are those of a server that knows its tables
	number := 1_000_000
	for i := range avoided {
		h := w.openAvoided(i, fifty)
		number++
		a := w.application(w.queue, number, true)
		a.OperationID = beforeOne(fifty.Members[number%50])
		done := make(chan error, 1)
		go func() {
			result, err := w.store.Apply(context.Background(), a)
			if err == nil && result.Outcome != bot.ApplyDone {
				err = fmt.Errorf("outcome %d", result.Outcome)
			}
			done <- err
		}()
		eventually(t, "an admission waits for "+h.what, func() bool { return w.lockWaits() > 0 })
		select {
		case err := <-done:
			t.Errorf("%s: the admission was done meanwhile: %v", h.what, err)
			done <- nil
		default:
		}
		t.Logf("%s holds %v", h.what, w.rowLocks("merge_batch_request"))
		h.release()
		if err := <-done; err != nil {
			t.Errorf("after %s: %v", h.what, err)
		}
	}
}

// beforeOne is an operation id that sorts right before that of a member.
func beforeOne(member bot.Operation) string {
	at := strings.LastIndexByte(member.ID, '-')
	return member.ID[:at] + "," + member.ID[at+1:]
}

func claimBesideAdmission(t *testing.T, db Database) {
	w := newWorld(t, db)
	const many = 480 // one chunk, and all there is: a scan would be cheaper, and meet the open row
	w.crowd(many)
	if !db.severalWriters() {
		w.claim(w.queue, many)
		return
	}
	w.execute(`ANALYZE TABLE merge_batch_request, operation, binding`)
	h := w.openAdmission(many + 1)
	if got := len(w.claim(w.queue, 2*many).Members); got != many {
		t.Errorf("claimed %d", got)
	}
	h.release()
	w.invariants()
}

func settleBesideAdmission(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.crowd(30)
	claimed := w.claim(w.queue, 30)
	if !db.severalWriters() {
		w.settle(claimed, bot.BatchFailed, bot.OperationWaiting)
		return
	}
	h := w.openAdmission(31)
	if ok, err := w.store.Settle(t.Context(), settlementOf(claimed, bot.BatchFailed, bot.OperationWaiting)); err != nil || !ok {
		t.Errorf("%v, %v", ok, err)
	}
	h.release()
	w.invariants()
}

// openAdmission admits a merge request.
func (w *world) openAdmission(number int) holding {
	w.Helper()
	a := w.application(w.queue, number, true)
	return w.holdOpen("an admission", func(s *store.Store) error {
		result, err := s.Apply(context.Background(), a)
		if err == nil && result.Outcome != bot.ApplyDone {
			err = fmt.Errorf("outcome %d", result.Outcome)
		}
		return err
	})
}
