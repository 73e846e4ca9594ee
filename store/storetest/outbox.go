package storetest

import (
	"database/sql/driver"
	"fmt"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
)

var outboxTests = tests{
	"an errand is done once":                              errandOnce,
	"wanted again while it is done, it stays due":         wantedMeanwhile,
	"wanted again while it is done, nobody starts beside": nobodyBeside,
	"put off, it is due later":                            errandPutOff,
	"given up, it stays visible until it is wanted again": givenUp,
	"wanted again, it is not given up":                    wantedNotGivenUp,
	"who lost an errand does not touch whoever has it":    staleErrand,
	"a crash makes it due again when the lease ends":      errandLeaseEnds,
	"a lost connection at any step loses nothing":         errandSteps,
}

// want makes the status comment of merge request 1 due by a change of its operation.
func (w *world) want() {
	w.Helper()
	op := w.read(operationID(1))
	to := bot.OperationWaiting
	if op.Status == bot.OperationWaiting {
		to = bot.OperationPendingApproval
	}
	if result, err := w.store.Move(w.Context(), w.moveTo(op, to)); err != nil || result != bot.MoveDone {
		w.Fatal(result, err)
	}
}

// withSticky is a world in which only the status comment of merge request 1 is due.
func withSticky(t *testing.T, db Database) *world {
	w := newWorld(t, db)
	w.admit(w.queue, 1)
	w.execute(`DELETE FROM outbox WHERE kind <> ?`, int(bot.ErrandSticky))
	return w
}

func (w *world) sticky(lease time.Duration) (bot.Errand, bool) {
	w.Helper()
	errands, err := w.store.ClaimErrands(w.Context(), 100, lease)
	w.must(err)
	for _, e := range errands {
		if e.Kind == bot.ErrandSticky {
			return e, true
		}
	}
	return bot.Errand{}, false
}

func errandOnce(t *testing.T, db Database) {
	w := withSticky(t, db)
	e, ok := w.sticky(lease)
	if !ok || e.Repository != w.repo || e.Number != 1 || e.Attempts != 1 || e.Wanted != 1 || e.Target != fmt.Sprint(w.read(operationID(1)).MergeRequestID) {
		t.Fatalf("claimed %+v", e)
	}
	if _, ok := w.sticky(lease); ok {
		t.Error("taken twice")
	}
	w.must(w.store.FinishErrand(t.Context(), e))
	if n := w.value(`SELECT COUNT(*) FROM outbox WHERE status = 2 AND done = wanted`); n != 1 {
		t.Errorf("%d done", n)
	}
	w.must(w.store.FinishErrand(t.Context(), e))
	if _, ok := w.sticky(lease); ok {
		t.Error("due after it was done")
	}
	w.want()
	if e, ok := w.sticky(lease); !ok || e.Wanted != 2 || e.Attempts != 1 {
		t.Errorf("wanted again: %v, %+v", ok, e)
	}
}

func wantedMeanwhile(t *testing.T, db Database) {
	w := withSticky(t, db)
	first, _ := w.sticky(lease)
	w.want()
	w.must(w.store.FinishErrand(t.Context(), first))
	second, ok := w.sticky(lease)
	if !ok || second.Wanted != 2 || second.Attempts != 1 {
		t.Errorf("after it was wanted again: %v, %+v", ok, second)
	}
}

func nobodyBeside(t *testing.T, db Database) {
	w := withSticky(t, db)
	w.sticky(lease)
	w.want()
	if e, ok := w.sticky(lease); ok {
		t.Errorf("a second sender got %+v while the first one works", e)
	}
}

func errandPutOff(t *testing.T, db Database) {
	w := withSticky(t, db)
	e, _ := w.sticky(lease)
	w.must(w.store.PostponeErrand(t.Context(), e, time.Hour, "the host asks for a pause"))
	if _, ok := w.sticky(lease); ok {
		t.Error("due at once")
	}
	if reason := value[string](w, `SELECT error FROM outbox`); reason != "the host asks for a pause" {
		t.Errorf("reason %q", reason)
	}
	w.must(w.store.PostponeErrand(t.Context(), e, time.Microsecond, "soon"))
	if again, ok := w.sticky(lease); !ok || again.Attempts != 2 {
		t.Errorf("not due: %+v", again)
	}
}

func givenUp(t *testing.T, db Database) {
	w := withSticky(t, db)
	e, _ := w.sticky(lease)
	w.must(w.store.PostponeErrand(t.Context(), e, 0, "the host forbids it"))
	if _, ok := w.sticky(lease); ok {
		t.Error("due after it was given up")
	}
	if n := w.value(`SELECT COUNT(*) FROM outbox WHERE status = 3 AND error = 'the host forbids it'`); n != 1 {
		t.Error("operators do not see it")
	}
	w.want()
	if again, ok := w.sticky(lease); !ok || again.Attempts != 1 {
		t.Errorf("wanted again: %v, %+v", ok, again)
	}
}

func wantedNotGivenUp(t *testing.T, db Database) {
	w := withSticky(t, db)
	e, _ := w.sticky(lease)
	w.want()
	w.must(w.store.PostponeErrand(t.Context(), e, 0, "the host forbids it"))
	if again, ok := w.sticky(lease); !ok || again.Wanted != 2 {
		t.Errorf("the new wish was given up with the old one: %v, %+v", ok, again)
	}
}

func staleErrand(t *testing.T, db Database) {
	w := withSticky(t, db)
	lost, _ := w.sticky(0)
	has, _ := w.sticky(lease)
	w.want()
	w.must(w.store.PostponeErrand(t.Context(), lost, time.Microsecond, "late"))
	w.must(w.store.FinishErrand(t.Context(), lost)) // it was done as of then, and is wanted again
	if e, ok := w.sticky(lease); ok {
		t.Errorf("a second sender got %+v while %+v has it", e, has)
	}
	w.must(w.store.FinishErrand(t.Context(), has))
	last, ok := w.sticky(lease)
	if !ok {
		t.Fatal("the last wish was lost")
	}
	// attempts began again: now it is done that tells the lives apart.
	w.want()
	w.must(w.store.PostponeErrand(t.Context(), bot.Errand{ID: lost.ID, Wanted: lost.Wanted, Attempts: last.Attempts}, time.Microsecond, "very late"))
	w.must(w.store.FinishErrand(t.Context(), bot.Errand{ID: lost.ID, Wanted: lost.Wanted, Attempts: last.Attempts}))
	if e, ok := w.sticky(lease); ok {
		t.Errorf("a second sender got %+v", e)
	}
}

func errandLeaseEnds(t *testing.T, db Database) {
	w := withSticky(t, db)
	w.sticky(0)
	if e, ok := w.sticky(lease); !ok || e.Attempts != 2 {
		t.Errorf("%v, %+v", ok, e)
	}
}

func errandSteps(t *testing.T, db Database) {
	w := withSticky(t, db)
	for step := 1; ; step++ {
		first, ok := w.sticky(lease)
		if !ok {
			t.Fatal("nothing is due")
		}
		w.want()
		fired := w.failAt(step, driver.ErrBadConn)
		w.must(w.store.FinishErrand(t.Context(), first))
		more := fired()
		second, ok := w.sticky(lease)
		if !ok || second.Wanted != first.Wanted+1 {
			t.Fatalf("step %d: %v, %+v", step, ok, second)
		}
		fired = w.failAt(step, driver.ErrBadConn)
		w.must(w.store.PostponeErrand(t.Context(), second, time.Microsecond, "not now"))
		if !fired() && !more {
			break
		}
	}
}
