package storetest

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/store"
)

var moveTests = tests{
	"every move there is, and no other":                    everyMove,
	"a stale guard changes nothing":                        staleMoves,
	"a push pins the new head":                             pinsNewHead,
	"the way back into the set is at its tail":             tail,
	"thrown out of a batch, it keeps its place in the set": keepsPlace,
	"an eviction has the batch built again":                evicts,
	"nothing leaves a batch that is landing":               landingHolds,
	"a claim that meets a cancel in its middle goes on":    cancelBeforeClaim,
	"a command moves once, and not after a later one":      moveCommands,
	"a person who has to act gets a comment of its own":    notifies,
	"a binding of a later application is left alone":       staleCallback,
	"failing at any step leaves nothing":                   moveFails,
	"repeated at any step it happens once":                 moveRepeats,
}

// moveTo is the move that brings an operation from where it is to a state.
func (w *world) moveTo(op bot.Operation, to bot.OperationStatus) bot.Move {
	w.Helper()
	m := bot.Move{OperationID: op.ID, From: op.Status, Version: op.Version, To: to, Reason: bot.ReasonClosed, Detail: "as the test wants", By: "ann", Source: "test"}
	if op.Status == bot.OperationBatched {
		guard := w.batch(op.QueueID).Guard()
		m.Batch = &guard
	}
	return m
}

// batch reads the active batch of a queue.
func (w *world) batch(queueID int64) bot.Batch {
	w.Helper()
	batch, _, ok, err := w.store.ActiveBatch(w.Context(), queueID)
	w.must(err)
	if !ok {
		w.Fatalf("queue %d has no active batch", queueID)
	}
	return batch
}

func everyMove(t *testing.T, db Database) {
	w := newWorld(t, db)
	number := 0
	for _, from := range statuses {
		number++
		stays := w.operationIn(from, number)
		before := w.snapshot()
		for _, to := range statuses {
			if from.CanBecome(to) && to != bot.OperationBatched {
				continue
			}
			if _, err := w.store.Move(t.Context(), w.moveTo(stays, to)); err == nil {
				t.Errorf("%s → %s: no error", from, to)
			}
		}
		if w.snapshot() != before {
			t.Errorf("from %s: refused, and yet something changed", from)
		}
	}
	for _, from := range statuses {
		for _, to := range statuses {
			if !from.CanBecome(to) || to == bot.OperationBatched {
				continue
			}
			number++
			op := w.operationIn(from, number)
			m := w.moveTo(op, to)
			stickies := w.errands(bot.ErrandSticky, fmt.Sprint(op.MergeRequestID))
			result, err := w.store.Move(t.Context(), m)
			if err != nil || result != bot.MoveDone {
				t.Errorf("%s → %s: %d, %v", from, to, result, err)
				continue
			}
			now := w.read(op.ID)
			if now.Status != to || now.Version != op.Version+1 || now.Reason != m.Reason || now.Detail != m.Detail || now.HeadSHA != op.HeadSHA {
				t.Errorf("%s → %s: %+v", from, to, now)
			}
			if (now.RequestID != 0) != (to == bot.OperationWaiting) || now.BatchID != 0 {
				t.Errorf("%s → %s: request %d, batch %d", from, to, now.RequestID, now.BatchID)
			}
			if n := w.errands(bot.ErrandSticky, fmt.Sprint(op.MergeRequestID)); n != stickies+1 {
				t.Errorf("%s → %s: the status comment is wanted %d times, after %d", from, to, n, stickies)
			}
			if n := w.value(`SELECT COUNT(*) FROM binding_history WHERE operation_id = ? AND from_status = ? AND to_status = ? AND actor = 'ann'`, op.ID, int(from), int(to)); n != 1 {
				t.Errorf("%s → %s: %d entries in the history", from, to, n)
			}
			if n := w.value(`SELECT COUNT(*) FROM audit WHERE operation_id = ? AND action = 'move' AND actor = 'ann' AND source = 'test' AND dedupe_key = ?`,
				op.ID, fmt.Sprintf("operation:%s:%d", op.ID, now.Version)); n != 1 {
				t.Errorf("%s → %s: %d entries in the audit", from, to, n)
			}
			if n := w.value(`SELECT COUNT(*) FROM merge_batch_member WHERE operation_id = ? AND event = ? AND position = 1`, op.ID, int(bot.MemberEvicted)); (n == 1) != (from == bot.OperationBatched || from == bot.OperationFailed) {
				t.Errorf("%s → %s: evicted %d times", from, to, n)
			}
			if result, err := w.store.Move(t.Context(), m); err != nil || result != bot.MoveStale {
				t.Errorf("%s → %s once more: %d, %v", from, to, result, err)
			}
		}
	}
	w.invariants()
}

func staleMoves(t *testing.T, db Database) {
	w := newWorld(t, db)
	waiting, batched := w.operationIn(bot.OperationWaiting, 1), w.operationIn(bot.OperationBatched, 2)
	other := w.operationIn(bot.OperationBatched, 3)
	otherGuard := w.batch(other.QueueID).Guard()
	before := w.snapshot()
	for what, m := range map[string]bot.Move{
		"an old version":         {OperationID: waiting.ID, From: bot.OperationWaiting, Version: waiting.Version - 1, To: bot.OperationCancelled},
		"a newer version":        {OperationID: waiting.ID, From: bot.OperationWaiting, Version: waiting.Version + 1, To: bot.OperationCancelled},
		"another state":          {OperationID: waiting.ID, From: bot.OperationPendingApproval, Version: waiting.Version, To: bot.OperationCancelled},
		"no such operation":      {OperationID: operationID(9), From: bot.OperationWaiting, Version: 1, To: bot.OperationCancelled},
		"another batch":          {OperationID: batched.ID, From: bot.OperationBatched, Version: batched.Version, To: bot.OperationCancelled, Batch: &otherGuard},
		"the batch changed":      w.withGuard(batched, func(g *bot.BatchGuard) { g.Version-- }),
		"the batch's phase":      w.withGuard(batched, func(g *bot.BatchGuard) { g.Phase = bot.PhaseOpened }),
		"the batch's status":     w.withGuard(batched, func(g *bot.BatchGuard) { g.Status = bot.BatchBlocked }),
		"the batch ended before": w.withGuard(batched, func(g *bot.BatchGuard) { g.Status = bot.BatchFailed }),
	} {
		if result, err := w.store.Move(t.Context(), m); err != nil || result != bot.MoveStale {
			t.Errorf("%s: %d, %v", what, result, err)
		}
		if w.snapshot() != before {
			t.Fatalf("%s: something changed", what)
		}
	}
	m := w.moveTo(batched, bot.OperationCancelled)
	m.Batch = nil
	if _, err := w.store.Move(t.Context(), m); err == nil {
		t.Error("a member moved without its batch")
	}
}

func (w *world) withGuard(op bot.Operation, spoil func(*bot.BatchGuard)) bot.Move {
	m := w.moveTo(op, bot.OperationCancelled)
	spoil(m.Batch)
	return m
}

// race runs f n times at once over several instances and counts the results.
func (w *world) race(n int, f func(s *store.Store, i int) (bot.MoveResult, error)) map[bot.MoveResult]int {
	w.Helper()
	var lock sync.Mutex
	results := make(map[bot.MoveResult]int)
	each(w, n, func(s *store.Store, i int) {
		result, err := f(s, i)
		if err != nil {
			w.Error(err)
		}
		lock.Lock()
		defer lock.Unlock()
		results[result]++
	})
	return results
}

func pinsNewHead(t *testing.T, db Database) {
	w := newWorld(t, db)
	for i, from := range []bot.OperationStatus{bot.OperationPendingApproval, bot.OperationWaiting, bot.OperationBatched, bot.OperationFailed} {
		op := w.operationIn(from, i+1)
		m := w.moveTo(op, bot.OperationPendingApproval)
		m.HeadSHA, m.Reason = sha(1000+i), bot.ReasonHeadMoved
		if result, err := w.store.Move(t.Context(), m); err != nil || result != bot.MoveDone {
			t.Fatalf("from %s: %d, %v", from, result, err)
		}
		if now := w.read(op.ID); now.HeadSHA != sha(1000+i) || now.ID != op.ID || now.Cohort != 0 {
			t.Errorf("from %s: %+v", from, now)
		}
		if n := w.errands(bot.ErrandCommitStatus, op.ID); n < 2 {
			t.Errorf("from %s: the new head gets no commit status", from)
		}
		if h := value[string](w, `SELECT head_sha FROM binding_history WHERE operation_id = ? ORDER BY id DESC LIMIT 1`, op.ID); h != sha(1000+i) {
			t.Errorf("from %s: the history says %s", from, h)
		}
		if from == bot.OperationBatched {
			if h := value[string](w, `SELECT head_sha FROM merge_batch_member WHERE operation_id = ? AND event = ?`, op.ID, int(bot.MemberEvicted)); h != op.HeadSHA {
				t.Errorf("evicted at %s, it rode at %s", h, op.HeadSHA)
			}
		}
	}
}

func tail(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2, 3)
	for _, to := range []bot.OperationStatus{bot.OperationPendingApproval, bot.OperationWaiting} {
		result, err := w.store.Move(t.Context(), w.moveTo(w.read(operationID(1)), to))
		if err != nil || result != bot.MoveDone {
			t.Fatal(result, err)
		}
	}
	if order := numbers(w.claim(w.queue, 9).Members); fmt.Sprint(order) != "[2 3 1]" {
		t.Errorf("order %v", order)
	}
}

func keepsPlace(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2)
	claimed := w.claim(w.queue, 1)
	w.admit(w.queue, 3)
	if result, err := w.store.Move(t.Context(), w.moveTo(claimed.Members[0], bot.OperationWaiting)); err != nil || result != bot.MoveDone {
		t.Fatal(result, err)
	}
	now := w.read(operationID(1))
	if now.RequestID != claimed.Members[0].RequestID {
		t.Error("its request row was made anew")
	}
	if view, err := w.store.OperationView(t.Context(), now.ID); err != nil || view.Position != 1 {
		t.Errorf("position %d, %v", view.Position, err)
	}
}

func evicts(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2, 3)
	claimed := w.claim(w.queue, 3)
	batch, ok, err := w.store.ChangeBatch(t.Context(), claimed.Batch.Guard(), bot.BatchChange{Phase: bot.PhaseOpened, MRNumber: 40, CIConclusion: "success"})
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	m := w.moveTo(claimed.Members[1], bot.OperationCancelled)
	if result, err := w.store.Move(t.Context(), m); err != nil || result != bot.MoveDone {
		t.Fatal(result, err)
	}
	now, members, _, err := w.store.ActiveBatch(t.Context(), w.queue.ID)
	w.must(err)
	if now.Phase != bot.PhaseClaimed || now.Version != batch.Version+1 || now.CIConclusion != "" || now.MRNumber != 40 {
		t.Errorf("the batch: %+v", now)
	}
	if fmt.Sprint(numbers(members)) != "[1 3]" {
		t.Errorf("members %v", numbers(members))
	}
	if p := w.value(`SELECT position FROM merge_batch_member WHERE event = ? AND operation_id = ?`, int(bot.MemberEvicted), operationID(2)); p != 2 {
		t.Errorf("evicted from place %d", p)
	}
	if n := w.errands(bot.ErrandBatchReport, fmt.Sprint(now.ID)); n != 1 {
		t.Errorf("the batch MR is told %d times", n)
	}
	w.invariants()
}

func landingHolds(t *testing.T, db Database) {
	w := newWorld(t, db)
	op := w.operationIn(bot.OperationBatched, 1)
	guard := w.batch(op.QueueID).Guard()
	if _, ok, err := w.store.ChangeBatch(t.Context(), guard, bot.BatchChange{Phase: bot.PhaseLanding}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	before := w.snapshot()
	for _, to := range statuses {
		if !bot.OperationBatched.CanBecome(to) {
			continue
		}
		if result, err := w.store.Move(t.Context(), w.moveTo(op, to)); err != nil || result != bot.MoveStale {
			t.Errorf("→ %s: %d, %v", to, result, err)
		}
	}
	if w.snapshot() != before {
		t.Error("something changed")
	}
}

// The cancel holds its rows while the claim wants them; the claim, which has read them as waiting, then takes the others.
func cancelBeforeClaim(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2, 3)
	claimer := db.Open(t)
	cancelHolds, claimArrived := make(chan struct{}), make(chan struct{})
	var once, arrived sync.Once
	db.Intercept(w.store, func(statement string, _ []any) error {
		if strings.HasPrefix(statement, "DELETE FROM merge_batch_request") {
			once.Do(func() { close(cancelHolds) })
			if db.severalWriters() {
				<-claimArrived
			}
		}
		return nil
	})
	db.Intercept(claimer, func(statement string, _ []any) error {
		if strings.HasPrefix(statement, "UPDATE operation") {
			arrived.Do(func() { close(claimArrived) })
		}
		return nil
	})
	var result bot.ClaimResult
	var claimErr error
	var claim sync.WaitGroup
	claim.Go(func() {
		<-cancelHolds
		result, claimErr = claimer.Claim(t.Context(), claimSpec(w.queue, 9))
		arrived.Do(func() { close(claimArrived) })
	})
	moved, err := w.store.Move(t.Context(), w.moveTo(w.read(operationID(2)), bot.OperationCancelled))
	once.Do(func() { close(cancelHolds) }) // also when the move failed before it came to that
	claim.Wait()
	if err != nil || claimErr != nil || moved != bot.MoveDone || result.Outcome != bot.ClaimDone || fmt.Sprint(numbers(result.Members)) != "[1 3]" {
		t.Errorf("cancel: %d, %v; claim: %s of %v, %v", moved, err, result.Outcome, numbers(result.Members), claimErr)
	}
	w.invariants()
}

func moveCommands(t *testing.T, db Database) {
	w := newWorld(t, db)
	op := w.operationIn(bot.OperationWaiting, 1)
	cancel := w.command(op, 2, "cancel")
	m := w.moveTo(op, bot.OperationCancelled)
	m.Command = &cancel

	late := m
	early := w.command(op, 0, "cancel")
	early.RequestID, early.Order = "forge:issue:0:1", bot.CommandOrder{At: 0, ID: 9}
	late.Command = &early
	before := w.snapshot()
	if result, err := w.store.Move(t.Context(), late); err != nil || result != bot.MoveSuperseded {
		t.Errorf("before the application: %d, %v", result, err)
	}
	stale := m
	stale.Version++
	if result, err := w.store.Move(t.Context(), stale); err != nil || result != bot.MoveStale {
		t.Errorf("a stale guard: %d, %v", result, err)
	}
	if w.snapshot() != before {
		t.Error("a command that did nothing left a trace")
	}

	results := w.race(6, func(s *store.Store, _ int) (bot.MoveResult, error) { return s.Move(t.Context(), m) })
	if results[bot.MoveDone] != 1 || results[bot.MoveDuplicate] != 5 {
		t.Errorf("one command by many: %v", results)
	}
	if handled, err := w.store.Handled(t.Context(), cancel.RequestID); err != nil || !handled {
		t.Errorf("handled %v, %v", handled, err)
	}
	a := w.again(op, 1)
	if result, err := w.store.Apply(t.Context(), a); err != nil || result.Outcome != bot.ApplySuperseded {
		t.Errorf("a /batch written before the cancel: %d, %v", result.Outcome, err)
	}
	a = w.again(op, 1)
	a.Command = cancel
	if result, err := w.store.Apply(t.Context(), a); err != nil || result.Outcome != bot.ApplyDuplicate || result.Operation.ID != op.ID {
		t.Errorf("the same command as an application: %+v, %v", result, err)
	}
}

func notifies(t *testing.T, db Database) {
	w := newWorld(t, db)
	op := w.operationIn(bot.OperationWaiting, 1)
	m := w.moveTo(op, bot.OperationPendingApproval)
	m.Notify, m.Reason, m.Detail = true, bot.ReasonUnapproved, "needs 1 more approval"
	if result, err := w.store.Move(t.Context(), m); err != nil || result != bot.MoveDone {
		t.Fatal(result, err)
	}
	target := value[string](w, `SELECT target FROM outbox WHERE kind = ?`, int(bot.ErrandNotice))
	entry, err := w.store.HistoryEntry(t.Context(), value[int64](w, `SELECT MAX(id) FROM binding_history`))
	w.must(err)
	if target != fmt.Sprint(entry.ID) || entry.From != bot.OperationWaiting || entry.To != bot.OperationPendingApproval || entry.Reason != bot.ReasonUnapproved ||
		entry.Detail != m.Detail || entry.HeadSHA != op.HeadSHA || entry.Operation.ID != op.ID {
		t.Errorf("notice %s, history %+v", target, entry)
	}
}

func staleCallback(t *testing.T, db Database) {
	w := newWorld(t, db)
	op := w.operationIn(bot.OperationWaiting, 1)
	w.execute(`UPDATE binding SET operation_id = ? WHERE operation_id = ?`, operationID(9), op.ID)
	before := w.snapshot()
	if result, err := w.store.Move(t.Context(), w.moveTo(op, bot.OperationCancelled)); err != nil || result != bot.MoveStale {
		t.Errorf("%d, %v", result, err)
	}
	if w.snapshot() != before {
		t.Error("something changed")
	}
	if n := w.store.Stats().StaleCallbacks; n != 1 {
		t.Errorf("%d stale callbacks counted", n)
	}
}

// evictionByCommand is the longest move: a command takes a member out of a batch whose MR is open.
func (w *world) evictionByCommand(number int) bot.Move {
	w.Helper()
	op := w.operationIn(bot.OperationBatched, number)
	_, ok, err := w.store.ChangeBatch(w.Context(), w.batch(op.QueueID).Guard(), bot.BatchChange{Phase: bot.PhaseOpened, MRNumber: 900 + number})
	if w.must(err); !ok {
		w.Fatal("the batch changed")
	}
	m := w.moveTo(op, bot.OperationCancelled)
	command := w.command(op, 1, "cancel")
	m.Command, m.Notify = &command, true
	return m
}

func moveFails(t *testing.T, db Database) {
	w := newWorld(t, db)
	for step := 1; ; step++ {
		m := w.evictionByCommand(step)
		before := w.snapshot()
		fired := w.failAt(step, errBroken)
		result, err := w.store.Move(t.Context(), m)
		if !fired() {
			if err != nil || result != bot.MoveDone || step < 20 {
				t.Errorf("done after %d steps: %d, %v", step-1, result, err)
			}
			break
		}
		happened := w.read(m.OperationID).Status == bot.OperationCancelled
		switch {
		case err == nil && (!happened || result != bot.MoveDone), err != nil && !errors.Is(err, errBroken):
			t.Fatalf("step %d: %d, %v", step, result, err)
		case !happened && w.snapshot() != before:
			t.Fatalf("failing at step %d left a trace", step)
		}
	}
	w.invariants()
}

func moveRepeats(t *testing.T, db Database) {
	w := newWorld(t, db)
	var done int
	for step := 1; ; step++ {
		m := w.evictionByCommand(step)
		fired := w.failAt(step, driver.ErrBadConn) // the connection is lost
		if result, err := w.store.Move(t.Context(), m); err != nil || result != bot.MoveDone {
			t.Fatalf("step %d: %d, %v", step, result, err)
		}
		more := fired()
		if result, err := w.store.Move(t.Context(), m); err != nil || result != bot.MoveDuplicate {
			t.Fatalf("sent again after step %d: %d, %v", step, result, err)
		}
		if n := w.value(`SELECT COUNT(*) FROM binding_history WHERE operation_id = ? AND to_status = ?`, m.OperationID, int(m.To)); n != 1 {
			t.Fatalf("step %d: it happened %d times", step, n)
		}
		if done = step; !more {
			break
		}
	}
	if n := w.value(`SELECT COUNT(*) FROM outbox WHERE kind = ?`, int(bot.ErrandNotice)); n != done {
		t.Errorf("%d notices after %d evictions", n, done)
	}
	w.invariants()
}
