package storetest

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/batchbot/batchbot/bot"
)

var applyTests = tests{
	"approved, it waits; not approved, it waits for that":             applyBoth,
	"a binding is reset only where it ended":                          resetOrRefuse,
	"merged, it may come again with newer commits":                    newerCommits,
	"a command older than the last one is superseded":                 supersededApply,
	"commands of one comment come after each other":                   sameComment,
	"a command that was answered makes nothing":                       answeredBefore,
	"a refused command may still be answered":                         refusedStaysOpen,
	"an application for another branch or without a pin is refused":   wrongApplication,
	"another binding in the same instant: answered with the winner's": bindingLost,
	"failing at any step leaves nothing":                              applyFails,
	"repeated at any step it happens once":                            applyRepeats,
}

func applyBoth(t *testing.T, db Database) {
	w := newWorld(t, db)
	waiting := w.apply(w.application(w.queue, 1, true))
	a := w.application(w.queue, 2, false)
	a.Detail = "needs 1 more approval"
	pending := w.apply(a)
	if waiting.Status != bot.OperationWaiting || waiting.RequestID == 0 || waiting.BatchID != 0 || waiting.Version != 1 {
		t.Errorf("approved: %+v", waiting)
	}
	if pending.Status != bot.OperationPendingApproval || pending.RequestID != 0 || pending.Detail != a.Detail || pending.HeadSHA != sha(2) ||
		pending.Requester != "author-2" || pending.Target != "main" || pending.Number != 2 || pending.CreatedAt.IsZero() {
		t.Errorf("not approved: %+v", pending)
	}
	for _, op := range []bot.Operation{waiting, pending} {
		if n := w.errands(bot.ErrandSticky, fmt.Sprint(op.MergeRequestID)) + w.errands(bot.ErrandCommitStatus, op.ID); n != 2 {
			t.Errorf("merge request %d: %d errands", op.Number, n)
		}
		if h := value[string](w, `SELECT reason FROM binding_history WHERE operation_id = ? AND from_status IS NULL`, op.ID); h != "applied" {
			t.Errorf("merge request %d: history begins with %q", op.Number, h)
		}
		if n := value[int](w, `SELECT COUNT(*) FROM audit WHERE operation_id = ? AND action = 'apply'`, op.ID); n != 1 {
			t.Errorf("merge request %d: %d entries in the audit", op.Number, n)
		}
	}
	w.invariants()
}

func resetOrRefuse(t *testing.T, db Database) {
	w := newWorld(t, db)
	for i, status := range statuses {
		w.TB = t
		op := w.operationIn(status, 10+i)
		binding := value[int64](w, `SELECT id FROM binding WHERE operation_id = ?`, op.ID)
		want := map[bot.Reapplication]bot.ApplyOutcome{
			bot.ReapplyReset: bot.ApplyDone, bot.ReapplyActive: bot.ApplyActive, bot.ReapplyNeedsRetry: bot.ApplyNeedsRetry, bot.ReapplyLanded: bot.ApplyLanded,
		}[bot.Reapply(status, op.HeadSHA, op.HeadSHA)]

		a := w.again(op, 1)
		before := w.snapshot()
		result, err := w.store.Apply(t.Context(), a)
		w.must(err)
		if result.Outcome != want {
			t.Errorf("%s: outcome %d, want %d", status, result.Outcome, want)
		}
		if want != bot.ApplyDone {
			if result.Operation.ID != op.ID || result.Operation.Status != status {
				t.Errorf("%s: answered with %s, %s", status, result.Operation.ID, result.Operation.Status)
			}
			if w.snapshot() != before {
				t.Errorf("%s: the refusal left a trace", status)
			}
			continue
		}
		if result.Operation.ID != a.OperationID || value[int64](w, `SELECT id FROM binding WHERE operation_id = ?`, a.OperationID) != binding {
			t.Errorf("%s: the binding was not reset in place", status)
		}
		if n := value[int](w, `SELECT COUNT(*) FROM binding_history WHERE binding_id = ? AND from_status IS NULL`, binding); n != 2 {
			t.Errorf("%s: the history knows %d applications", status, n)
		}
		if old := value[int](w, `SELECT status FROM operation WHERE operation_id = ?`, op.ID); bot.OperationStatus(old) != status {
			t.Errorf("%s: the old operation became %d", status, old)
		}
	}
	w.invariants()
}

func newerCommits(t *testing.T, db Database) {
	w := newWorld(t, db)
	op := w.operationIn(bot.OperationMerged, 1)
	a := w.again(op, 1)
	a.MR.HeadSHA = sha(99)
	if result, err := w.store.Apply(t.Context(), a); err != nil || result.Outcome != bot.ApplyDone || result.Operation.HeadSHA != sha(99) {
		t.Errorf("%+v, %v", result, err)
	}
	w.invariants()
}

func supersededApply(t *testing.T, db Database) {
	w := newWorld(t, db)
	op := w.operationIn(bot.OperationCancelled, 1)
	a := w.again(op, 1)
	w.execute(`UPDATE merge_request SET last_command_at = 2, last_command_id = 3 WHERE id = ?`, op.MergeRequestID)
	before := w.snapshot()
	for _, order := range []bot.CommandOrder{{At: 1, ID: 500}, {At: 2, ID: 2}} {
		a.Command.Order = order
		if result, err := w.store.Apply(t.Context(), a); err != nil || result.Outcome != bot.ApplySuperseded {
			t.Errorf("order %v: outcome %d, %v", order, result.Outcome, err)
		}
	}
	if w.snapshot() != before {
		t.Error("a superseded command left a trace")
	}
	a.Command.Order = bot.CommandOrder{At: 3, ID: 1}
	if result, err := w.store.Apply(t.Context(), a); err != nil || result.Outcome != bot.ApplyDone {
		t.Errorf("later by the host's clock with a smaller id: outcome %d, %v", result.Outcome, err)
	}
}

func sameComment(t *testing.T, db Database) {
	w := newWorld(t, db)
	op := w.operationIn(bot.OperationWaiting, 1)
	cancel := w.command(op, 5, "cancel")
	m := w.moveTo(op, bot.OperationCancelled)
	m.Command = &cancel
	if result, err := w.store.Move(t.Context(), m); err != nil || result != bot.MoveDone {
		t.Fatalf("line 1: %d, %v", result, err)
	}
	a := w.again(op, 5)
	a.Command.RequestID = strings.TrimSuffix(cancel.RequestID, ":1") + ":2"
	if result, err := w.store.Apply(t.Context(), a); err != nil || result.Outcome != bot.ApplyDone {
		t.Errorf("line 2: outcome %d, %v", result.Outcome, err)
	}
}

func answeredBefore(t *testing.T, db Database) {
	w := newWorld(t, db)
	a := w.application(w.queue, 1, true)
	if fresh, err := w.store.Answer(t.Context(), bot.Answer{Command: a.Command, Repository: w.repo, Number: 1, Reply: "not now"}); err != nil || !fresh {
		t.Fatal(fresh, err)
	}
	result, err := w.store.Apply(t.Context(), a)
	if err != nil || result.Outcome != bot.ApplyDuplicate || result.Operation.ID != "" {
		t.Errorf("%+v, %v", result, err)
	}
	if n := value[int](w, `SELECT COUNT(*) FROM operation`); n != 0 {
		t.Errorf("%d operations", n)
	}
}

func refusedStaysOpen(t *testing.T, db Database) {
	w := newWorld(t, db)
	op := w.operationIn(bot.OperationWaiting, 1)
	a := w.again(op, 1)
	if result, err := w.store.Apply(t.Context(), a); err != nil || result.Outcome != bot.ApplyActive {
		t.Fatalf("%+v, %v", result, err)
	}
	if handled, err := w.store.Handled(t.Context(), a.Command.RequestID); err != nil || handled {
		t.Errorf("handled %v, %v", handled, err)
	}
	if fresh, err := w.store.Answer(t.Context(), bot.Answer{Command: a.Command, Repository: w.repo, Number: 1, Reply: "on its way"}); err != nil || !fresh {
		t.Errorf("answer: %v, %v", fresh, err)
	}
}

func wrongApplication(t *testing.T, db Database) {
	w := newWorld(t, db)
	for what, spoil := range map[string]func(*bot.Application){
		"another branch":        func(a *bot.Application) { a.MR.Target = "release" },
		"another repository":    func(a *bot.Application) { a.Repository.ID++ },
		"no such queue":         func(a *bot.Application) { a.QueueID = 999 },
		"no pin":                func(a *bot.Application) { a.MR.HeadSHA = "" },
		"no operation id":       func(a *bot.Application) { a.OperationID = "" },
		"no request id":         func(a *bot.Application) { a.Command.RequestID = "" },
		"an endless request id": func(a *bot.Application) { a.Command.RequestID = strings.Repeat("x", 300) },
	} {
		a := w.application(w.queue, 1, true)
		spoil(&a)
		if _, err := w.store.Apply(t.Context(), a); err == nil {
			t.Errorf("%s: applied", what)
		}
	}
	if n := value[int](w, `SELECT COUNT(*) FROM operation`) + value[int](w, `SELECT COUNT(*) FROM idempotency`); n != 0 {
		t.Errorf("%d rows stayed", n)
	}
}

// The row of the merge request keeps two applications apart, so the duplicate key is met only by a writer that does not take it: the test.
func bindingLost(t *testing.T, db Database) {
	w := newWorld(t, db)
	rival := w.operationIn(bot.OperationPendingApproval, 1)
	if db.severalWriters() {
		w.execute(`DELETE FROM binding`)
		var once sync.Once
		db.Intercept(w.store, func(statement string, _ []any) error {
			if strings.HasPrefix(statement, "INSERT INTO binding\n") {
				once.Do(func() {
					w.execute(`INSERT INTO binding (subject_id, target_key, operation_id, status, expires_at, created_at, updated_at)
						VALUES (?, 'main', ?, 1, NOW(), NOW(), NOW())`, rival.MergeRequestID, rival.ID)
				})
			}
			return nil
		})
	}
	result, err := w.store.Apply(t.Context(), w.again(rival, 1))
	if err != nil || result.Outcome != bot.ApplyActive || result.Operation.ID != rival.ID {
		t.Errorf("%+v, %v", result, err)
	}
	if n := value[int](w, `SELECT COUNT(*) FROM operation`); n != 1 {
		t.Errorf("the loser left its operation: %d", n)
	}
}

var errBroken = errors.New("the database broke")

// failAt lets the statement with this number fail with err, once, and returns whether it came to that.
func (w *world) failAt(step int, err error) (fired func() bool) {
	n := 0
	w.Intercept(w.store, func(statement string, _ []any) error {
		if n++; n == step {
			w.Logf("step %d fails: %.60s", n, strings.Join(strings.Fields(statement), " "))
			return err
		}
		return nil
	})
	return func() bool {
		w.Intercept(w.store, nil)
		return n >= step
	}
}

func applyFails(t *testing.T, db Database) {
	w := newWorld(t, db)
	for step := 1; ; step++ {
		a := w.application(w.queue, step, true)
		_, err := w.store.RecordMR(t.Context(), w.repo.ID, a.MR)
		w.must(err)
		before := w.snapshot()
		fired := w.failAt(step, errBroken)
		result, err := w.store.Apply(t.Context(), a)
		if !fired() {
			if err != nil || result.Outcome != bot.ApplyDone || step < 15 {
				t.Errorf("done after %d steps: outcome %d, %v", step-1, result.Outcome, err)
			}
			break
		}
		// At COMMIT the store looks what became of it; after it the caller hears of an error, and the command was handled.
		happened := w.value(`SELECT COUNT(*) FROM operation WHERE operation_id = ?`, a.OperationID) == 1
		switch {
		case err == nil && (!happened || result.Outcome != bot.ApplyDone), err != nil && !errors.Is(err, errBroken):
			t.Fatalf("step %d: outcome %d, %v", step, result.Outcome, err)
		case !happened && w.snapshot() != before:
			t.Fatalf("failing at step %d left a trace", step)
		}
	}
	w.invariants()
}

func applyRepeats(t *testing.T, db Database) {
	w := newWorld(t, db)
	var done int
	for step := 1; ; step++ {
		a := w.application(w.queue, step, true)
		fired := w.failAt(step, driver.ErrBadConn) // the connection is lost
		result, err := w.store.Apply(t.Context(), a)
		more := fired()
		if err != nil { // it was lost at a read outside the transaction, and intake tries again
			result, err = w.store.Apply(t.Context(), a)
		}
		if err != nil || (result.Outcome != bot.ApplyDone && result.Outcome != bot.ApplyDuplicate) || result.Operation.ID != a.OperationID {
			t.Fatalf("step %d: %+v, %v", step, result, err)
		}
		if result, err := w.store.Apply(t.Context(), a); err != nil || result.Outcome != bot.ApplyDuplicate || result.Operation.ID != a.OperationID {
			t.Fatalf("sent again after step %d: outcome %d, %v", step, result.Outcome, err)
		}
		if done = step; !more {
			break
		}
	}
	for _, table := range []string{"operation", "binding", "binding_history", "merge_batch_request", "idempotency", "audit"} {
		if n := value[int](w, `SELECT COUNT(*) FROM `+table); n != done {
			t.Errorf("%d rows in %s after %d applications", n, table, done)
		}
	}
	w.invariants()
}

var statuses = []bot.OperationStatus{
	bot.OperationPendingApproval, bot.OperationWaiting, bot.OperationBatched, bot.OperationMerged, bot.OperationRejected,
	bot.OperationCancelled, bot.OperationClosed, bot.OperationExpired, bot.OperationFailed,
}

// operationIn brings a new merge request to a state, in a queue of its own when the state needs the queue's slot.
func (w *world) operationIn(status bot.OperationStatus, number int) bot.Operation {
	w.Helper()
	queue := w.queue
	if status == bot.OperationBatched || status == bot.OperationFailed {
		queue = w.newQueue(fmt.Sprintf("of-%d", number))
	}
	waits := slices.Contains([]bot.OperationStatus{bot.OperationWaiting, bot.OperationBatched, bot.OperationFailed}, status)
	op := w.apply(w.application(queue, number, waits))
	if queue.ID != w.queue.ID {
		claimed := w.claim(queue, 1)
		op = claimed.Members[0]
	}
	if op.Status != status {
		m := w.moveTo(op, status)
		if result, err := w.store.Move(w.Context(), m); err != nil || result != bot.MoveDone {
			w.Fatalf("bring merge request %d to %s: %d, %v", number, status, result, err)
		}
		op = w.read(op.ID)
	}
	return op
}

// again applies the merge request of an operation anew, by a later comment.
func (w *world) again(op bot.Operation, later int) bot.Application {
	a := w.application(bot.Queue{ID: op.QueueID, Target: op.Target}, op.Number, true)
	a.MR.HeadSHA = op.HeadSHA
	a.OperationID = operationID(1_000_000 + op.Number)
	a.Command = w.command(op, later, "batch")
	return a
}

// command is a command on an operation's merge request, later than the one that made it.
func (w *world) command(op bot.Operation, later int, verb string) bot.CommandRef {
	id := int64(op.Number + 1_000_000*later)
	return bot.CommandRef{RequestID: fmt.Sprintf("forge:issue:%d:1", id), Order: bot.CommandOrder{At: id, ID: id}, By: "ann", Verb: verb, Source: "delivery 7"}
}

// read reads an operation.
func (w *world) read(id string) bot.Operation {
	w.Helper()
	view, err := w.store.OperationView(w.Context(), id)
	w.must(err)
	return view.Operation
}

// value reads one number beside the store.
func (w *world) value(query string, args ...any) int {
	w.Helper()
	return value[int](w, query, args...)
}

// errands counts how often something is wanted to be said.
func (w *world) errands(kind bot.ErrandKind, target string) int {
	w.Helper()
	return value[int](w, `SELECT wanted FROM outbox WHERE kind = ? AND target = ?`, int(kind), target)
}
