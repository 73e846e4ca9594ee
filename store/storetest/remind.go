package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/store"
)

var remindTests = tests{
	"who has been in a state for long enough, and no longer than that": remindsByAge,
	"a state is counted from when it was entered, by any way":          remindsByEntry,
	"no draft, and nobody who holds a seat on a train":                 remindsNoDraftNoSeat,
	"the members of a blocked batch":                                   remindsBlocked,
	"page by page":                                                     remindsInPages,
	"one reminder is taken once, by however many":                      remindsOnce,
	"what was said is known for as long as it may be said again":       remindersKept,
	"queues whose settings remind":                                     remindingQueues,
	"by an index, however many operations there were":                  remindPlan,
}

// remindables lists who is to be reminded: merge requests by number.
func (w *world) remindables(queue bot.Queue, state bot.RemindableState, age time.Duration) (found map[int]bot.Remindable) {
	w.Helper()
	list, err := w.store.Remindables(w.Context(), queue, state, age, "", 100)
	w.must(err)
	found = make(map[int]bot.Remindable, len(list))
	for _, r := range list {
		found[r.Number] = r
	}
	return found
}

// entered moves the moment at which an operation came into its states.
func (w *world) entered(op bot.Operation, age time.Duration) {
	w.Helper()
	w.execute(`UPDATE binding_history SET created_at = `+ago(w.Database, age)+` WHERE operation_id = ?`, op.ID)
}

func remindsByAge(t *testing.T, db Database) {
	w := newWorld(t, db)
	elsewhere := w.newQueue("elsewhere")
	for i, age := range []time.Duration{2 * time.Hour, 4 * time.Hour, bot.ReminderLimit + time.Hour} {
		w.entered(w.apply(w.application(w.queue, i+1, false)), age)
	}
	w.entered(w.apply(w.application(elsewhere, 4, false)), 5*time.Hour)
	for i, status := range statuses {
		op := w.operationIn(status, 10+i)
		w.entered(op, 5*time.Hour)
		found := w.remindables(bot.Queue{ID: op.QueueID, RepositoryID: w.repo.ID}, bot.RemindFailed, 3*time.Hour)
		if _, is := found[10+i]; is != (status == bot.OperationFailed) || len(found) > 1 {
			t.Errorf("%s: FAILED %v", status, found)
		}
	}
	found := w.remindables(w.queue, bot.RemindPending, 3*time.Hour)
	if len(found) != 2 || found[10].OperationID != operationID(10) {
		t.Errorf("PENDING_APPROVAL for three hours: %v", found)
	}
	if r := found[2]; r.OperationID != operationID(2) || r.RepositoryID != w.repo.ID || r.For < 4*time.Hour || r.For > 5*time.Hour || r.Entry == "" {
		t.Errorf("%+v", r)
	}
}

// What changes about an operation within its state is no new entry; leaving the state and coming back is.
func remindsByEntry(t *testing.T, db Database) {
	w := newWorld(t, db)
	op := w.apply(w.application(w.queue, 1, false))
	w.entered(op, 4*time.Hour)
	before := w.remindables(w.queue, bot.RemindPending, 3*time.Hour)[1]
	move := func(to bot.OperationStatus, head int) {
		t.Helper()
		m := w.moveTo(w.read(op.ID), to)
		m.HeadSHA, m.Reason = sha(head), bot.ReasonHeadMoved
		if result, err := w.store.Move(t.Context(), m); err != nil || result != bot.MoveDone {
			t.Fatal(result, err)
		}
	}
	move(bot.OperationPendingApproval, 8)
	pushed := w.remindables(w.queue, bot.RemindPending, 3*time.Hour)[1]
	if before.Entry == "" || pushed.Entry != before.Entry || pushed.For < before.For {
		t.Errorf("a push made %+v of %+v", pushed, before)
	}
	view, err := w.store.ReminderView(t.Context(), op.ID)
	if err != nil || view.State != bot.RemindPending || view.Entry != before.Entry || view.For < 4*time.Hour || view.Now.IsZero() {
		t.Errorf("%+v, %v", view, err)
	}
	move(bot.OperationWaiting, 8)
	if view, err := w.store.ReminderView(t.Context(), op.ID); err != nil || view.State != 0 {
		t.Errorf("once approved there is nothing to remind of: %+v, %v", view, err)
	}
	move(bot.OperationPendingApproval, 9)
	if found := w.remindables(w.queue, bot.RemindPending, 3*time.Hour); len(found) != 0 {
		t.Errorf("it is back since a moment: %v", found)
	}
	if again := w.remindables(w.queue, bot.RemindPending, 0)[1]; again.Entry == "" || again.Entry == before.Entry {
		t.Errorf("back again as %q, before as %q", again.Entry, before.Entry)
	}
}

func remindsNoDraftNoSeat(t *testing.T, db Database) {
	w := newWorld(t, db)
	for n := range 3 {
		w.entered(w.apply(w.application(w.queue, n+1, false)), 4*time.Hour)
	}
	w.execute(`UPDATE operation SET reason = ? WHERE operation_id = ?`, string(bot.ReasonDrafted), operationID(2))
	seat := `INSERT INTO train_seat (train_id, subject_id, operation_id, status, approved, queue_seq, created_at, updated_at) VALUES (1, ?, ?, ?, 0, ?, ` + now(db) + `, ` + now(db) + `)`
	w.execute(seat, 101, operationID(3), int(bot.SeatWaiting), 1)
	w.execute(seat, 102, operationID(1), int(bot.SeatCancelled), 2) // it left the train
	if found := w.remindables(w.queue, bot.RemindPending, time.Hour); len(found) != 1 || found[1].OperationID == "" {
		t.Errorf("%v", found)
	}
	if view, err := w.store.ReminderView(t.Context(), operationID(2)); err != nil || view.State != 0 {
		t.Errorf("a draft: %+v, %v", view, err)
	}
}

func remindsBlocked(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2, 3)
	claimed := w.claim(w.queue, 2)
	change := func(c bot.BatchChange) {
		t.Helper()
		_, ok, err := w.store.ChangeBatch(t.Context(), w.batch(w.queue.ID).Guard(), c)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
	}
	remindable := func() map[int]bot.Remindable { return w.remindables(w.queue, bot.RemindBlocked, 0) }
	if found := remindable(); len(found) != 0 {
		t.Errorf("a running batch: %v", found)
	}
	change(bot.BatchChange{Status: bot.BatchBlocked, Code: bot.CodeForeignPush, Message: "look at it"})
	first := remindable()
	if len(first) != 2 || first[1].Entry == "" || first[1].Entry != first[2].Entry || !strings.HasPrefix(first[1].Entry, fmt.Sprintf("batch%d.", claimed.Batch.ID)) {
		t.Errorf("%v", first)
	}
	// The message changes: blocked as ever, since then.
	w.execute(`UPDATE merge_batch SET blocked_at = ` + ago(db, 4*time.Hour))
	first = remindable()
	change(bot.BatchChange{Status: bot.BatchBlocked, Code: bot.CodeForeignPush, Message: "still"})
	if now := remindable(); now[1].Entry != first[1].Entry || now[1].For < 4*time.Hour {
		t.Errorf("%v became %v", first, now)
	}
	if found := w.remindables(w.queue, bot.RemindBlocked, 5*time.Hour); len(found) != 0 {
		t.Errorf("before its time: %v", found)
	}
	view, err := w.store.ReminderView(t.Context(), operationID(2))
	if err != nil || view.State != bot.RemindBlocked || view.Entry != first[2].Entry || view.Operation.Batch == nil || view.For < 4*time.Hour {
		t.Errorf("%+v, %v", view, err)
	}
	change(bot.BatchChange{Status: bot.BatchRunning})
	if found := remindable(); len(found) != 0 {
		t.Errorf("it runs again: %v", found)
	}
	if view, err := w.store.ReminderView(t.Context(), operationID(2)); err != nil || view.State != 0 {
		t.Errorf("%+v, %v", view, err)
	}
	change(bot.BatchChange{Status: bot.BatchBlocked, Code: bot.CodeForeignPush})
	if again := remindable(); len(again) != 2 || again[1].Entry == first[1].Entry {
		t.Errorf("blocked once more: %v, before %v", again, first)
	}
}

func remindsInPages(t *testing.T, db Database) {
	w := newWorld(t, db)
	for n := range 5 {
		w.apply(w.application(w.queue, n+1, false))
	}
	var all []string
	for after := ""; ; {
		page, err := w.store.Remindables(t.Context(), w.queue, bot.RemindPending, 0, after, 2)
		w.must(err)
		for _, r := range page {
			all, after = append(all, r.OperationID), r.OperationID
		}
		if len(page) < 2 {
			break
		}
	}
	if len(all) != 5 || !slices.IsSorted(all) {
		t.Errorf("%v", all)
	}
}

func remindsOnce(t *testing.T, db Database) {
	w := newWorld(t, db)
	var due []bot.Reminder
	for n := range 600 { // more than fit one statement
		due = append(due, bot.Reminder{OperationID: operationID(n), Entry: "7", Count: int64(n % 3), RepositoryID: w.repo.ID, Number: n + 1})
	}
	if said, err := w.store.WantReminders(t.Context(), due[:3]); err != nil || said != 3 {
		t.Fatal(said, err)
	}
	stores := []*store.Store{w.store, db.Open(t), db.Open(t), db.Open(t)}
	var said atomic.Int64
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			n, err := stores[i%4].WantReminders(t.Context(), due)
			if err != nil {
				t.Error(err)
			}
			said.Add(int64(n))
		})
	}
	group.Wait()
	if n := said.Load(); n != 597 {
		t.Errorf("%d said, want 597", n)
	}
	if n := w.value(`SELECT COUNT(*) FROM outbox WHERE kind = ? AND wanted = 1 AND status = 1`, int(bot.ErrandReminder)); n != 600 {
		t.Errorf("%d errands", n)
	}
}

func remindersKept(t *testing.T, db Database) {
	w := newWorld(t, db)
	errand := func(kind bot.ErrandKind, target string, age time.Duration) {
		w.execute(`INSERT INTO outbox (kind, target, repository_id, number, payload, status, wanted, done, attempts, next_attempt_at, error, created_at, updated_at)
			VALUES (?, ?, 1, 1, '{}', 2, 1, 1, 0, `+ago(db, age)+`, '', `+now(db)+`, `+now(db)+`)`, int(kind), target)
	}
	const day = 24 * time.Hour
	errand(bot.ErrandSticky, "old", 8*day)
	errand(bot.ErrandReminder, "old", 8*day)
	errand(bot.ErrandReminder, "older", bot.ReminderLimit-day)
	errand(bot.ErrandReminder, "oldest", bot.ReminderLimit+day)
	w.must(w.store.PurgeOld(t.Context()))
	if left := w.rows(`SELECT target FROM outbox ORDER BY target`); strings.Join(left, " ") != "old older" {
		t.Errorf("left: %v", left)
	}
	if n := w.value(`SELECT COUNT(*) FROM outbox WHERE kind = ?`, int(bot.ErrandSticky)); n != 0 {
		t.Error("another errand stayed beyond its time")
	}
}

func remindingQueues(t *testing.T, db Database) {
	w := newWorld(t, db)
	silent, owners := bot.DefaultQueueSettings("silent"), bot.DefaultQueueSettings("owners")
	silent.Reminders = bot.ReminderPolicy{Every: time.Hour}
	owners.Reminders = bot.ReminderPolicy{Owners: time.Hour, Quiet: bot.QuietHours{From: 20 * time.Hour, To: 8 * time.Hour, TimeZone: "Europe/Berlin", Weekends: true}}
	w.execute(`DELETE FROM queue`)
	for _, settings := range []bot.QueueSettings{silent, owners} {
		_, err := w.store.UpsertQueue(t.Context(), w.repo.ID, settings, "")
		w.must(err)
	}
	queues, clock, err := w.store.RemindingQueues(t.Context())
	if err != nil || len(queues) != 1 || queues[0].Target != "owners" || queues[0].Settings.Reminders != owners.Reminders || clock.IsZero() {
		t.Errorf("%+v at %s, %v", queues, clock, err)
	}
	w.execute(`UPDATE repository SET active = 0`)
	if queues, _, err := w.store.RemindingQueues(t.Context()); err != nil || len(queues) != 0 {
		t.Errorf("of a repository that ended: %+v, %v", queues, err)
	}
}

// However much history there is: the operations that are followed, and their own history, are all that is read.
func remindPlan(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.years()
	w.apply(w.application(w.queue, 1, false))
	statements := make(map[string][]any)
	db.Intercept(w.store, func(statement string, args []any) error {
		if strings.HasPrefix(statement, "SELECT") {
			statements[statement] = args
		}
		return nil
	})
	for _, state := range []bot.RemindableState{bot.RemindPending, bot.RemindFailed, bot.RemindBlocked} {
		w.remindables(w.queue, state, time.Minute)
	}
	_, err := w.store.WantReminders(t.Context(), []bot.Reminder{{OperationID: operationID(1), Entry: "1", RepositoryID: w.repo.ID, Number: 1}})
	w.must(err)
	_, err = w.store.OverdueQueues(t.Context())
	w.must(err)
	db.Intercept(w.store, nil)
	if len(statements) != 5 {
		t.Errorf("%d statements", len(statements))
	}
	for statement, args := range statements {
		plan, full := w.plan(statement, args)
		full = slices.DeleteFunc(full, func(table string) bool { return slices.Contains(small, table) || table == "t" }) // t: the seats of trains, of which there are none here
		if len(full) > 0 || strings.Contains(statement, "FROM operation o") && !strings.Contains(plan, "idx_operation_followed") {
			t.Errorf("reads all of %v:\n%s\n%s", full, statement, plan)
		}
	}
}
