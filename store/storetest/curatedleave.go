package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/batchbot/batchbot/bot"
)

func curatedApproval(t *testing.T, db Database) {
	w := newWorld(t, db)
	ended := w.operationIn(bot.OperationCancelled, 12) // its binding is reset in place
	set := w.written(w.store.DecideCurated(t.Context(), w.approval(w.submitted(15, 12, 10), 1)))
	if set.Status != bot.CuratedApproved || set.Decider != "ben" || set.Version != 3 {
		t.Errorf("%+v", set)
	}
	var named []string
	for _, r := range set.Rows {
		named = append(named, r.OperationID)
	}
	if got := w.rows(`SELECT operation_id FROM merge_batch_request WHERE cohort < 0 ORDER BY lane, created_at, id`); !slices.Equal(got, named) {
		t.Errorf("they wait as %v, the rows name %v", got, named)
	}
	for _, r := range set.Rows {
		op := w.read(r.OperationID)
		if op.Status != bot.OperationWaiting || op.HeadSHA != r.HeadSHA || op.Cohort != -set.ID || op.Reason != bot.ReasonCurated || op.Requester != "ben" || op.Number != r.Number {
			t.Errorf("row %d: %+v", r.RowNo, op)
		}
		for _, kind := range []bot.ErrandKind{bot.ErrandSticky, bot.ErrandCommitStatus} {
			target := op.ID
			if kind == bot.ErrandSticky {
				target = fmt.Sprint(op.MergeRequestID)
			}
			if value[int](w, `SELECT COUNT(*) FROM outbox WHERE kind = ? AND target = ?`, kind, target) != 1 {
				t.Errorf("row %d: no %s", r.RowNo, kind)
			}
		}
		if value[int](w, `SELECT COUNT(*) FROM audit WHERE operation_id = ? AND actor = 'ben'`, op.ID) != 1 {
			t.Errorf("row %d: not in the audit", r.RowNo)
		}
	}
	if n := value[int](w, `SELECT COUNT(*) FROM binding WHERE subject_id = ?`, ended.MergeRequestID); n != 1 {
		t.Errorf("%d bindings of a merge request that was applied before", n)
	}
	w.invariants()
}

func curatedTakeover(t *testing.T, db Database) {
	w := newWorld(t, db)
	same := w.apply(w.application(w.queue, 10, false))
	pushed := w.application(w.queue, 12, false)
	pushed.MR.HeadSHA = sha(500)
	other := w.apply(pushed)
	set := w.approved(10, 12, 15)
	if set.Rows[0].OperationID != same.ID || set.Rows[1].OperationID != other.ID || set.Rows[2].OperationID != operationID(15) {
		t.Errorf("%+v", set.Rows)
	}
	if now := w.read(other.ID); now.HeadSHA != sha(12) || now.Status != bot.OperationWaiting || now.Cohort != set.Cohort() {
		t.Errorf("%+v", now)
	}
	if n := value[int](w, `SELECT COUNT(*) FROM operation`); n != 3 {
		t.Errorf("%d operations", n)
	}
	w.invariants()
}

// Between the read of an operation and its takeover somebody gives it a seat: that gives it a new version.
func curatedTakeoverLoses(t *testing.T, db Database) {
	w := newWorld(t, db)
	if !db.severalWriters() {
		return // nothing comes in between where one writer has the database
	}
	op := w.apply(w.application(w.queue, 10, false))
	d := w.approval(w.submitted(10, 12), 0)
	once := false
	db.Intercept(w.store, func(statement string, _ []any) error {
		if strings.HasPrefix(statement, "UPDATE operation") && !once {
			once = true
			w.execute(`UPDATE operation SET version = version + 1 WHERE operation_id = ?`, op.ID)
		}
		return nil
	})
	if result, err := w.store.DecideCurated(t.Context(), d); err != nil || result.Outcome != bot.CuratedRetryLater || result.Curated.Status != bot.CuratedPendingApproval {
		t.Errorf("%+v, %v", result, err)
	}
	w.execute(`UPDATE operation SET version = version - 1 WHERE operation_id = ?`, op.ID) // the test's own
	w.invariants()
}

func curatedBusy(t *testing.T, db Database) {
	w := newWorld(t, db)
	rides := w.operationIn(bot.OperationBatched, 41)
	failed := w.operationIn(bot.OperationFailed, 42)
	for _, op := range []bot.Operation{rides, failed} { // they are bound in queues of their own
		w.execute(`UPDATE queue SET target_branch = ? WHERE id = ?`, fmt.Sprint("was ", op.QueueID), op.QueueID)
		w.execute(`UPDATE binding SET target_key = 'main' WHERE operation_id = ?`, op.ID)
	}
	w.admit(w.queue, 43)
	seated := w.apply(w.application(w.queue, 44, false))
	w.execute(`INSERT INTO train_seat (train_id, subject_id, operation_id, status, approved, queue_seq, created_at, updated_at) VALUES (1, ?, ?, 2, 0, 1, `+
		past(db)+`, `+past(db)+`)`, seated.MergeRequestID, seated.ID)
	member := w.approved(45, 46)
	for number, words := range map[int]string{41: "rides in batch", 42: "failed", 43: "waits", 44: "seat", 46: "waits"} {
		set := w.submitted(60+number, number)
		d := w.approval(set, 1)
		for _, m := range d.Members {
			w.mrRow(m.MR.Number)
		}
		before := w.snapshot()
		result, err := w.store.DecideCurated(t.Context(), d)
		if err != nil || result.Outcome != bot.CuratedMemberBusy || !strings.HasPrefix(result.Detail, fmt.Sprint(number, " ")) || !strings.Contains(result.Detail, words) {
			t.Errorf("%d: %+v, %v", number, result, err)
		}
		if w.snapshot() != before {
			t.Errorf("%d: something changed", number)
		}
	}
	w.settle(w.claimSet(member), bot.BatchSucceeded, bot.OperationMerged)
	if result, err := w.store.DecideCurated(t.Context(), w.approval(w.submitted(70, 46), 1)); err != nil || result.Outcome != bot.CuratedMemberBusy || !strings.Contains(result.Detail, "landed") {
		t.Errorf("%+v, %v", result, err)
	}
}

func curatedManyStatements(t *testing.T, db Database) {
	w := newWorld(t, db)
	const many = 500
	w.seed(w.queue, bot.OperationPendingApproval, 1, many)
	set := w.written(w.store.SaveCurated(t.Context(), bot.CuratedSave{QueueID: w.queue.ID, Rows: rowsOf(sequence(1, many)...), By: "ann"}))
	set = w.written(w.store.SubmitCurated(t.Context(), submission(set)))
	d := w.approval(set, 1)
	for i := range d.Members { // as the rows that seed made say, so that only the approval is counted
		d.Members[i].MR.Title, d.Members[i].MR.Author = "Change", bot.Actor{ID: 1, Login: "author"}
	}
	w.execute(`DELETE FROM binding WHERE subject_id <= 100`)
	w.execute(`DELETE FROM binding_history WHERE binding_id <= 100`)
	w.execute(`DELETE FROM operation WHERE merge_request_id <= 100`)
	statements := 0
	db.Intercept(w.store, func(string, []any) error { statements++; return nil })
	w.written(w.store.DecideCurated(t.Context(), d))
	if statements > 60 {
		t.Errorf("approving %d members took %d statements", many, statements)
	}
	t.Logf("%d statements", statements)
	db.Intercept(w.store, func(string, []any) error { return nil })
	if claimed := w.claimSet(set); len(claimed.Members) != many || !slices.IsSorted(numbers(claimed.Members)) {
		t.Errorf("%d members, in order of the rows: %v", len(claimed.Members), slices.IsSorted(numbers(claimed.Members)))
	}
	w.invariants()
}

// sequence is many numbers from first on.
func sequence(first, many int) []int {
	var ns []int
	for n := first; n < first+many; n++ {
		ns = append(ns, n)
	}
	return ns
}

func curatedRidesWhole(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2)
	set := w.approved(10, 12, 15)
	w.admit(w.queue, 3)
	waiting, err := w.store.Waiting(t.Context(), w.queue.ID)
	if err != nil || waiting.Fresh != 3 || len(waiting.Cohorts) != 1 {
		t.Fatalf("%+v, %v", waiting, err)
	}
	if c := waiting.Cohorts[0]; c.ID != -set.ID || c.Size != 3 || !c.Curated || c.Age <= 0 {
		t.Errorf("%+v", c)
	}
	spec := claimSpec(w.queue, 1) // it rides whole, whatever the limit
	spec.Kind, spec.Cohort = bot.BatchCurated, set.Cohort()
	result, err := w.store.Claim(t.Context(), spec)
	if err != nil || result.Outcome != bot.ClaimDone || fmt.Sprint(numbers(result.Members)) != "[10 12 15]" || result.Batch.Kind != bot.BatchCurated || result.Batch.Size != 3 {
		t.Fatalf("%+v, %v", result, err)
	}
	w.invariants()
	w.settle(result, bot.BatchSucceeded, bot.OperationMerged)
	if next := w.claim(w.queue, 5); fmt.Sprint(numbers(next.Members)) != "[1 2 3]" {
		t.Errorf("then come %v", numbers(next.Members))
	}
	// One of which a request is missing rides never: that no part of it does is more than that it does.
	broken := w.approved(20, 21)
	w.settle(bot.ClaimResult{Batch: w.batch(w.queue.ID), Members: w.members()}, bot.BatchFailed, bot.OperationWaiting)
	w.execute(`DELETE FROM merge_batch_request WHERE operation_id = ?`, operationID(21))
	spec.Cohort = broken.Cohort()
	if result, err := w.store.Claim(t.Context(), spec); err != nil || result.Outcome != bot.ClaimNothing {
		t.Errorf("a part of a set: %s, %v", result.Outcome, err)
	}
}

// members are those of the queue's active batch.
func (w *world) members() []bot.Operation {
	w.Helper()
	_, members, ok, err := w.store.ActiveBatch(w.Context(), w.queue.ID)
	w.must(err)
	if !ok {
		w.Fatal("no batch is active")
	}
	return members
}

func curatedPosition(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1)
	first := w.approved(10, 12)
	w.admit(w.queue, 2)
	second := w.approved(20, 21)
	for number, want := range map[int]int{1: 1, 10: 2, 12: 3, 2: 4, 20: 5, 21: 6} {
		view, err := w.store.OperationView(t.Context(), operationID(number))
		if err != nil || view.Position != want {
			t.Errorf("%d is at %d, want %d: %v", number, view.Position, want, err)
		}
	}
	waiting, err := w.store.Waiting(t.Context(), w.queue.ID)
	if err != nil || len(waiting.Cohorts) != 2 || waiting.Cohorts[0].ID != first.Cohort() || waiting.Cohorts[1].ID != second.Cohort() {
		t.Errorf("%+v, %v", waiting, err)
	}
}

func curatedLands(t *testing.T, db Database) {
	w := newWorld(t, db)
	set := w.approved(10, 12)
	w.settle(w.claimSet(set), bot.BatchSucceeded, bot.OperationMerged)
	if now := w.set(set.ID); now.Status != bot.CuratedDone || now.Version != set.Version+1 {
		t.Errorf("%+v", now)
	}
	// The next set on the same merge request is another one.
	if next := w.draft(10, 12); next.ID == set.ID {
		t.Error("a set that landed was drafted again")
	}
}

func curatedReturns(t *testing.T, db Database) {
	w := newWorld(t, db)
	set := w.approved(10, 12)
	settlement := settlementOf(w.claimSet(set), bot.BatchFailed, bot.OperationWaiting)
	settlement.Code = bot.CodeNoCI
	settlement.Members[0].Cohort = 9 // whoever settles it: they never wait as suspects of a search
	if ok, err := w.store.Settle(t.Context(), settlement); err != nil || !ok {
		t.Fatal(ok, err)
	}
	w.invariants()
	if now := w.set(set.ID); now.Status != bot.CuratedApproved || now.Version != set.Version {
		t.Errorf("%+v", now)
	}
	if again := w.claimSet(set); fmt.Sprint(numbers(again.Members)) != "[10 12]" {
		t.Errorf("%v", numbers(again.Members))
	}
}

func curatedRed(t *testing.T, db Database) {
	w := newWorld(t, db)
	set := w.approved(10, 12)
	settlement := settlementOf(w.claimSet(set), bot.BatchFailed, bot.OperationFailed) // FAILED would await a retry, alone
	for i := range settlement.Members {
		settlement.Members[i].Reason, settlement.Members[i].Detail = bot.ReasonCIRed, "CI failed: unit"
	}
	if ok, err := w.store.Settle(t.Context(), settlement); err != nil || !ok {
		t.Fatal(ok, err)
	}
	w.invariants()
	w.outOf(set, "CI failed: unit", bot.OperationRejected, bot.OperationRejected)
	if n := value[int](w, `SELECT COUNT(*) FROM merge_batch_member WHERE event = 6`); n != 2 {
		t.Errorf("%d failed in the history", n)
	}
}

// outOf checks that a set was taken out as a whole: its reason, and the states of its members in the order of its rows.
func (w *world) outOf(set bot.Curated, reason string, states ...bot.OperationStatus) {
	w.Helper()
	now := w.set(set.ID)
	if now.Status != bot.CuratedRejected || !strings.Contains(now.Reason, reason) {
		w.Errorf("the set is %s because %q, want %q in it", now.Status, now.Reason, reason)
	}
	for i, r := range now.Rows {
		op := w.read(r.OperationID)
		if op.Status != states[i] || op.RequestID != 0 {
			w.Errorf("member %d is %s, want %s; its request is %d", r.Number, op.Status, states[i], op.RequestID)
		}
		if op.Reason == bot.ReasonSetBroken {
			if value[int](w, `SELECT COUNT(*) FROM outbox o JOIN binding_history h ON o.kind = 2 AND o.target = CONCAT(h.id, '') WHERE h.operation_id = ?`, op.ID) != 1 {
				w.Errorf("member %d is not told", r.Number)
			}
			if !strings.Contains(op.Detail, fmt.Sprint(w.numberLost(now))) {
				w.Errorf("member %d reads %q", r.Number, op.Detail)
			}
		}
	}
	w.invariants()
	// It can be edited and submitted again.
	again := w.written(w.store.SaveCurated(w.Context(), bot.CuratedSave{ID: set.ID, Rows: now.Rows, By: "ann"}))
	w.written(w.store.SubmitCurated(w.Context(), submission(again)))
	w.invariants()
}

func (w *world) numberLost(set bot.Curated) int {
	var n int
	_, _ = fmt.Sscan(set.Reason, &n)
	return n
}

func curatedLeavesWaiting(t *testing.T, db Database) {
	w := newWorld(t, db)
	for i, c := range []struct {
		to     bot.OperationStatus
		reason bot.Reason
		words  string
		want   bot.OperationStatus
	}{
		{bot.OperationCancelled, bot.ReasonCancelled, "was cancelled", bot.OperationCancelled},
		{bot.OperationPendingApproval, bot.ReasonHeadMoved, "was pushed to", bot.OperationRejected},
		{bot.OperationPendingApproval, bot.ReasonUnapproved, "is not approved any more", bot.OperationRejected},
		{bot.OperationClosed, bot.ReasonClosed, "was closed", bot.OperationClosed},
		{bot.OperationCancelled, bot.ReasonRetargeted, "got another target", bot.OperationCancelled},
		{bot.OperationMerged, bot.ReasonMergedOutside, "was merged outside", bot.OperationMerged},
	} {
		first := 10 * (i + 1)
		w.admit(w.queue, first+5)
		set := w.approved(first, first+1, first+2)
		m := w.moveTo(w.read(set.Rows[1].OperationID), c.to)
		m.Reason = c.reason
		if c.to == bot.OperationPendingApproval {
			m.HeadSHA = sha(999)
		}
		if result, err := w.store.Move(t.Context(), m); err != nil || result != bot.MoveDone {
			t.Fatalf("%s: %d, %v", c.reason, result, err)
		}
		w.outOf(set, fmt.Sprint(first+1, " ", c.words), bot.OperationRejected, c.want, bot.OperationRejected)
		if op := w.read(operationID(first + 5)); op.Status != bot.OperationWaiting {
			t.Errorf("%s: a stranger is %s", c.reason, op.Status)
		}
	}
}

func curatedLeavesRiding(t *testing.T, db Database) {
	w := newWorld(t, db)
	for i, c := range []struct {
		to   bot.OperationStatus
		want bot.OperationStatus
	}{{bot.OperationCancelled, bot.OperationCancelled}, {bot.OperationPendingApproval, bot.OperationRejected}, {bot.OperationWaiting, bot.OperationRejected}, {bot.OperationClosed, bot.OperationClosed}} {
		first := 10 * (i + 1)
		set := w.approved(first, first+1, first+2)
		claimed := w.claimSet(set)
		batch, ok, err := w.store.RecordBuild(t.Context(), claimed.Batch.Guard(), build(claimed, 2000+i, 3))
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		if result, err := w.store.Move(t.Context(), w.moveTo(w.read(set.Rows[0].OperationID), c.to)); err != nil || result != bot.MoveDone {
			t.Fatalf("%d, %v", result, err)
		}
		w.invariants()
		now := w.batch(w.queue.ID)
		if now.Phase != bot.PhaseClaimed || now.Version != batch.Version+1 || len(w.members()) != 0 {
			t.Errorf("the batch: %+v with %d members", now, len(w.members()))
		}
		if n := value[int](w, `SELECT COUNT(*) FROM merge_batch_member WHERE batch_id = ? AND event = 3`, now.ID); n != 3 {
			t.Errorf("%d left in the history", n)
		}
		ended := settlementOf(bot.ClaimResult{Batch: now}, bot.BatchFailed, bot.OperationWaiting)
		ended.Code = bot.CodeAllEvicted
		if ok, err := w.store.Settle(t.Context(), ended); err != nil || !ok {
			t.Fatal(ok, err)
		}
		w.outOf(set, fmt.Sprint(first, " "), c.want, bot.OperationRejected, bot.OperationRejected)
	}
	// While it lands, nobody leaves.
	set := w.approved(90, 91)
	claimed := w.claimSet(set)
	batch, ok, err := w.store.ChangeBatch(t.Context(), claimed.Batch.Guard(), bot.BatchChange{Phase: bot.PhaseLanding})
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if result, err := w.store.Move(t.Context(), w.moveTo(w.read(set.Rows[0].OperationID), bot.OperationCancelled)); err != nil || result != bot.MoveStale {
		t.Errorf("%d, %v", result, err)
	}
	w.settle(bot.ClaimResult{Batch: batch, Members: claimed.Members}, bot.BatchSucceeded, bot.OperationMerged)
	if now := w.set(set.ID); now.Status != bot.CuratedDone {
		t.Errorf("%+v", now)
	}
}

func curatedLostInBuild(t *testing.T, db Database) {
	w := newWorld(t, db)
	for i, c := range []struct {
		to     bot.OperationStatus
		reason bot.Reason
		words  string
		want   bot.OperationStatus
	}{
		{bot.OperationFailed, bot.ReasonConflict, "conflicts with the target branch (pear.txt)", bot.OperationRejected},
		{bot.OperationWaiting, bot.ReasonConflictBatch, "conflicts with an earlier member (pear.txt)", bot.OperationRejected},
		{bot.OperationPendingApproval, bot.ReasonHeadMoved, "was pushed to", bot.OperationRejected},
		{bot.OperationMerged, bot.ReasonContained, "is in the target branch already", bot.OperationMerged},
		{bot.OperationClosed, bot.ReasonClosed, "was closed", bot.OperationClosed},
	} {
		first := 10 * (i + 1)
		set := w.approved(first, first+1, first+2)
		claimed := w.claimSet(set)
		record := build(claimed, 2000+i, 3)
		record.Result.Members[1].Fate = bot.FateConflict
		record.Moves = []bot.MemberOutcome{{OperationID: claimed.Members[1].ID, To: c.to, Reason: c.reason, Detail: "pear.txt"}}
		batch, ok, err := w.store.RecordBuild(t.Context(), claimed.Batch.Guard(), record)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		w.invariants()
		if len(w.members()) != 0 {
			t.Errorf("%s: %v still ride", c.reason, numbers(w.members()))
		}
		w.settle(bot.ClaimResult{Batch: batch}, bot.BatchFailed, bot.OperationWaiting)
		w.outOf(set, fmt.Sprint(first+1, " ", c.words), bot.OperationRejected, c.want, bot.OperationRejected)
	}
	// Nobody is lost: it rides on.
	set := w.approved(90, 91)
	claimed := w.claimSet(set)
	if _, ok, err := w.store.RecordBuild(t.Context(), claimed.Batch.Guard(), build(claimed, 3000, 2)); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if now := w.set(set.ID); now.Version != set.Version || len(w.members()) != 2 {
		t.Errorf("%+v", now)
	}
}

func curatedLandedInPart(t *testing.T, db Database) {
	w := newWorld(t, db)
	set := w.approved(10, 11, 12)
	settlement := settlementOf(w.claimSet(set), bot.BatchSucceeded, bot.OperationMerged)
	settlement.Members[2].To, settlement.Members[2].Reason = bot.OperationWaiting, bot.ReasonBatchFailed
	if ok, err := w.store.Settle(t.Context(), settlement); err != nil || !ok {
		t.Fatal(ok, err)
	}
	w.outOf(set, "12 did not land with the others", bot.OperationMerged, bot.OperationMerged, bot.OperationRejected)
}

func curatedLandedLate(t *testing.T, db Database) {
	w := newWorld(t, db)
	set := w.approved(10, 11)
	w.settle(w.claimSet(set), bot.BatchFailed, bot.OperationWaiting)
	for i, r := range set.Rows {
		m := w.moveTo(w.read(operationID(r.Number)), bot.OperationMerged)
		m.Reason = bot.ReasonLandedLate
		if result, err := w.store.Move(t.Context(), m); err != nil || result != bot.MoveDone {
			t.Fatalf("%d, %v", result, err)
		}
		w.invariants()
		if now := w.set(set.ID); now.Status != []bot.CuratedStatus{bot.CuratedRejected, bot.CuratedDone}[i] {
			t.Errorf("after %d of 2: %s", i+1, now.Status)
		}
	}
}

// Somebody has got hold of another member between the read of the set and its write: nobody leaves, and whoever wanted it reads again.
func curatedMemberMoved(t *testing.T, db Database) {
	w := newWorld(t, db)
	if !db.severalWriters() {
		return // nothing comes in between where one writer has the database
	}
	set := w.approved(10, 11)
	m := w.moveTo(w.read(operationID(10)), bot.OperationCancelled)
	once := false
	db.Intercept(w.store, func(statement string, _ []any) error {
		if strings.HasPrefix(statement, "UPDATE operation") && !once {
			once = true
			w.execute(`UPDATE operation SET version = version + 1 WHERE operation_id = ?`, operationID(11))
		}
		return nil
	})
	if result, err := w.store.Move(t.Context(), m); err != nil || result != bot.MoveStale {
		t.Errorf("%d, %v", result, err)
	}
	w.execute(`UPDATE operation SET version = version - 1 WHERE operation_id = ?`, operationID(11)) // the test's own
	if now := w.set(set.ID); now.Status != bot.CuratedApproved {
		t.Errorf("%+v", now)
	}
	w.invariants()
}

// Every statement of every write fails once: then everything is as it was.
func curatedFails(t *testing.T, db Database) {
	w := newWorld(t, db)
	boom := errors.New("boom")
	var set bot.Curated
	steps := []struct {
		name string
		do   func() error
	}{
		{"save", func() error {
			result, err := w.store.SaveCurated(w.Context(), bot.CuratedSave{ID: set.ID, By: "ann", Rows: []bot.CuratedRow{{RowNo: 1, Number: 10}, {RowNo: 2, Number: 14}, {RowNo: 4, Number: 15}}})
			set = setAfter(result, set)
			return err
		}},
		{"submit", func() error {
			result, err := w.store.SubmitCurated(w.Context(), submission(set))
			set = setAfter(result, set)
			return err
		}},
		{"approve", func() error {
			result, err := w.store.DecideCurated(w.Context(), w.approval(set, 0))
			set = setAfter(result, set)
			return err
		}},
		{"leave", func() error {
			_, err := w.store.Move(w.Context(), bot.Move{OperationID: operationID(10), From: bot.OperationWaiting, Version: 1, To: bot.OperationCancelled,
				Reason: bot.ReasonCancelled, By: "ann"})
			return err
		}},
	}
	set = w.draft(10, 12, 13)
	for _, n := range []int{10, 14, 15} {
		w.mrRow(n)
	}
	for _, step := range steps {
		for at := 1; ; at++ {
			before, n := w.snapshot(), 0
			db.Intercept(w.store, func(statement string, _ []any) error {
				if n++; n == at && statement != "after COMMIT" {
					return boom
				}
				return nil
			})
			err := step.do()
			db.Intercept(w.store, func(string, []any) error { return nil })
			if err == nil {
				break
			}
			if w.snapshot() != before {
				t.Fatalf("%s: something changed though statement %d failed", step.name, at)
			}
			if at > 100 {
				t.Fatalf("%s does not come to an end", step.name)
			}
		}
		w.invariants()
	}
	if now := w.set(set.ID); now.Status != bot.CuratedRejected {
		t.Errorf("%+v", now)
	}
}

// setAfter is the set that was written, or the one before.
func setAfter(result bot.CuratedResult, before bot.Curated) bot.Curated {
	if result.Outcome == bot.CuratedWritten {
		return result.Curated
	}
	return before
}

func curatedSaveAfterApproval(t *testing.T, db Database) {
	w := newWorld(t, db)
	set := w.approved(10, 12)
	before := w.snapshot()
	if result, err := w.store.SaveCurated(t.Context(), bot.CuratedSave{ID: set.ID, Rows: rowsOf(10), By: "ann"}); err != nil || result.Outcome != bot.CuratedAlreadyDecided {
		t.Errorf("%+v, %v", result, err)
	}
	if result, err := w.store.SubmitCurated(t.Context(), submission(set)); err != nil || result.Outcome != bot.CuratedAlreadyDecided {
		t.Errorf("%+v, %v", result, err)
	}
	if w.snapshot() != before {
		t.Error("something changed")
	}
}

// hotSets are statements about curated batches, and the index that carries each.
var hotSets = map[string]string{
	"JOIN curated_row c ON c.approval_request_id = a.id WHERE a.live_mr = ?": "uk_curated_live",
	"LEFT JOIN draft_row d ON d.approval_request_id = a.id WHERE a.id = ?":   "uk_draft_row",
	"JOIN curated_row c ON c.approval_request_id = a.id WHERE a.id = ?":      "uk_curated_row",
	"FROM curated_row WHERE operation_id = ?":                                "idx_curated_operation",
	"FROM approval_request a WHERE 1 = 1 AND a.queue_id = ?":                 "",
	"FROM train_seat WHERE live_operation IN":                                "uk_seat_live",
	"FROM binding WHERE target_key = ? AND subject_id IN":                    "uk_binding",
}

func curatedPlans(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.years()
	const old = 900
	w.fill(old, `approval_request (id, queue_id, merge_request_id, status, drafter, decider, reason, created_at, updated_at)`, func(i int) string {
		return fmt.Sprintf(`(%d, %d, %d, 4, 'ann', 'ben', '', %[4]s, %[4]s)`, 10_000+i, w.queue.ID, 1+i, past(db))
	})
	w.fill(2*old, `curated_row (approval_request_id, row_no, number, head_sha, operation_id, created_at, updated_at)`, func(i int) string {
		return fmt.Sprintf(`(%d, %d, %d, 'abc', '%s', %[5]s, %[5]s)`, 10_000+i/2, 1+i%2, 1+i, operationID(5_000_000+i), past(db))
	})
	w.fill(old, `draft_row (approval_request_id, row_no, number, created_at, updated_at)`, func(i int) string {
		return fmt.Sprintf(`(%d, 1, %d, %[3]s, %[3]s)`, 20_000+i, 1+i, past(db))
	})
	if w.severalWriters() {
		w.execute(`ANALYZE TABLE approval_request, curated_row, draft_row, operation, binding`)
	}
	seen := make(map[string][]any)
	db.Intercept(w.store, func(statement string, args []any) error {
		seen[statement] = args
		return nil
	})
	w.apply(w.application(w.queue, 3002, false))
	set := w.approved(3001, 3002, 3003)
	if _, _, err := w.store.CuratedOf(t.Context(), set.MergeRequestID); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.ListCurated(t.Context(), bot.CuratedFilter{QueueID: w.queue.ID, Limit: 20}); err != nil {
		t.Fatal(err)
	}
	for _, r := range set.Rows {
		if result, err := w.store.Move(t.Context(), w.moveTo(w.read(r.OperationID), bot.OperationMerged)); err != nil || result != bot.MoveDone {
			t.Fatal(result, err)
		}
	}
	db.Intercept(w.store, func(string, []any) error { return nil })
	unmet := make(map[string]bool)
	for part := range hotSets {
		unmet[part] = true
	}
	for statement, args := range seen {
		if strings.Contains(statement, "COMMIT") || strings.HasPrefix(statement, "INSERT") {
			continue
		}
		plan, full := w.plan(statement, args)
		for _, table := range full {
			if !slices.Contains(small, table) {
				t.Errorf("reads all of %s:\n%s\n%s", table, statement, plan)
			}
		}
		flat := strings.Join(strings.Fields(statement), " ")
		for part, index := range hotSets {
			if strings.Contains(flat, part) {
				delete(unmet, part)
				// A unique key that has no such row is answered before there is a plan.
				if !strings.Contains(plan, index) && !strings.Contains(plan, "const table") {
					t.Errorf("not by %s:\n%s\n%s", index, statement, plan)
				}
			}
		}
	}
	for part := range unmet {
		t.Errorf("no statement has %q any more", part)
	}
}
