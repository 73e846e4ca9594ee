package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/batchbot/batchbot/bot"
)

var curatedTests = tests{
	"a save is a difference keyed on the row number":       curatedDifference,
	"a row number that is none is refused and named":       curatedRefusesRows,
	"six hundred autosaves leave the rows that were sent":  curatedAutosaves,
	"a save at an older version is told so":                curatedStaleSave,
	"a merge request has one set that is not over":         curatedOnePerMR,
	"a submission pins what was checked":                   curatedSubmission,
	"changed and submitted already are two answers":        curatedTwoAnswers,
	"a refused submission leaves the rows as they were":    curatedRefusedSubmit,
	"draft rows win over committed ones":                   curatedResolver,
	"a rejected set is a draft again with its rows":        curatedRejected,
	"an emptied draft does not show what was committed":    curatedEmptied,
	"an approval admits every member in order":             curatedApproval,
	"an approval takes over who waits for approval":        curatedTakeover,
	"a member that changed meanwhile is not taken over":    curatedTakeoverLoses,
	"a busy member is named and nothing is written":        curatedBusy,
	"an approval of five hundred takes few statements":     curatedManyStatements,
	"a decision comes at its time only":                    curatedDecisions,
	"a command or request counts once":                     curatedOnce,
	"is found again after a lost commit":                   curatedAmbiguous,
	"rides whole beside others":                            curatedRidesWhole,
	"shows its place in the order":                         curatedPosition,
	"landing ends it":                                      curatedLands,
	"returns as the cohort it is":                          curatedReturns,
	"red for good it is rejected as a whole":               curatedRed,
	"who leaves the waiting set takes the others out":      curatedLeavesWaiting,
	"who leaves the batch takes the others out":            curatedLeavesRiding,
	"who is lost in a build takes the others out":          curatedLostInBuild,
	"part of it in the target is no landing":               curatedLandedInPart,
	"all of it in the target after all is a landing":       curatedLandedLate,
	"a member that moved by itself stops the others":       curatedMemberMoved,
	"every statement is answered by an index":              curatedPlans,
	"leaves no trace when any step fails":                  curatedFails,
	"of an approval and a later save the set stays whole":  curatedSaveAfterApproval,
	"whoever changed the rows is the drafter":              curatedDrafter,
	"a list has newest first and is narrowed":              curatedLists,
	"every write says the status comment anew":             curatedSticky,
	"concurrent saves leave one complete set":              curatedSaves,             // curatedrace.go
	"of many submissions one is written":                   curatedSubmitRace,        // curatedrace.go
	"of many approvals one admits":                         curatedApproveRace,       // curatedrace.go
	"of an approval and a cancel exactly one wins":         curatedApproveOrCancel,   // curatedrace.go
	"of a save and a submission the rows are one's":        curatedSaveOrSubmit,      // curatedrace.go
	"two drafts on one merge request become one set":       curatedTwoCreators,       // curatedrace.go
	"of a claim and a member that leaves exactly one wins": curatedClaimOrLeave,      // curatedrace.go
	"a cancel waits for the approval under way":            curatedCancelWaits,       // curatedrace.go
	"everything at once leaves sets whole":                 curatedEverything,        // curatedrace.go
	"a save waits for the save under way":                  curatedSaveWaitsForSave,  // curatedrace.go
	"the unique key over the row number holds":             curatedUniqueRowNo,       // curatedrace.go
	"a second approval is refused by status and version":   curatedApprovalsOneByOne, // curatedrace.go
}

// mrRow is the row of merge request number, open on the queue's target.
func (w *world) mrRow(number int) bot.MergeRequest {
	w.Helper()
	mr, err := w.store.RecordMR(w.Context(), w.repo.ID, w.application(w.queue, number, true).MR)
	w.must(err)
	return mr
}

// rowsOf numbers merge requests from 1.
func rowsOf(numbers ...int) []bot.CuratedRow {
	var rows []bot.CuratedRow
	for i, n := range numbers {
		rows = append(rows, bot.CuratedRow{RowNo: i + 1, Number: n})
	}
	return rows
}

// written fails the test unless a set was written.
func (w *world) written(result bot.CuratedResult, err error) bot.Curated {
	w.Helper()
	w.must(err)
	if result.Outcome != bot.CuratedWritten {
		w.Fatalf("outcome %d (%s) of %+v", result.Outcome, result.Detail, result.Curated)
	}
	return result.Curated
}

// draft drafts a set on its first member.
func (w *world) draft(numbers ...int) bot.Curated {
	w.Helper()
	return w.written(w.store.SaveCurated(w.Context(), bot.CuratedSave{QueueID: w.queue.ID, MergeRequestID: w.mrRow(numbers[0]).ID, Rows: rowsOf(numbers...),
		By: "ann", Source: "delivery"}))
}

func submission(set bot.Curated) bot.CuratedSubmission {
	rows := slices.Clone(set.Rows)
	for i := range rows {
		rows[i].HeadSHA = sha(rows[i].Number)
	}
	return bot.CuratedSubmission{ID: set.ID, Version: set.Version, Rows: rows, By: "ann", Source: "delivery"}
}

func (w *world) submitted(numbers ...int) bot.Curated {
	w.Helper()
	return w.written(w.store.SubmitCurated(w.Context(), submission(w.draft(numbers...))))
}

// approval approves a set; take makes the ids of its operations differ from those of another.
func (w *world) approval(set bot.Curated, take int) bot.CuratedDecision {
	w.Helper()
	d := bot.CuratedDecision{ID: set.ID, Version: set.Version, To: bot.CuratedApproved, By: "ben", Source: "delivery"}
	for _, r := range set.Rows {
		a := w.application(w.queue, r.Number, true)
		a.OperationID, a.Command = operationID(take*1_000_000+r.Number), bot.CommandRef{}
		d.Members = append(d.Members, a)
	}
	return d
}

func (w *world) approved(numbers ...int) bot.Curated {
	w.Helper()
	return w.written(w.store.DecideCurated(w.Context(), w.approval(w.submitted(numbers...), 0)))
}

func (w *world) set(id int64) bot.Curated {
	w.Helper()
	view, ok, err := w.store.ReadCurated(w.Context(), id)
	w.must(err)
	if !ok || view.Queue.ID != view.Curated.QueueID || view.Repository.ID != w.repo.ID {
		w.Fatalf("set %d: %+v", id, view)
	}
	return view.Curated
}

// claimSet claims a set.
func (w *world) claimSet(set bot.Curated) bot.ClaimResult {
	w.Helper()
	spec := claimSpec(w.queue, len(set.Rows))
	spec.Kind, spec.Cohort = bot.BatchCurated, set.Cohort()
	result, err := w.store.Claim(w.Context(), spec)
	w.must(err)
	if result.Outcome != bot.ClaimDone {
		w.Fatalf("claim of set %d: %s", set.ID, result.Outcome)
	}
	return result
}

// shape is rows as "row:number".
func shape(rows []bot.CuratedRow) string {
	var all []string
	for _, r := range rows {
		all = append(all, fmt.Sprintf("%d:%d", r.RowNo, r.Number))
	}
	return strings.Join(all, " ")
}

func idsOf(rows []bot.CuratedRow) map[int]int64 {
	ids := make(map[int]int64)
	for _, r := range rows {
		ids[r.RowNo] = r.ID
	}
	return ids
}

func curatedDifference(t *testing.T, db Database) {
	w := newWorld(t, db)
	set := w.draft(10, 12, 15)
	if set.Status != bot.CuratedDraft || set.Version != 1 || set.Committed || shape(set.Rows) != "1:10 2:12 3:15" || set.Number != 10 || set.Drafter != "ann" {
		t.Fatalf("%+v", set)
	}
	before := idsOf(set.Rows)
	w.execute(`UPDATE draft_row SET updated_at = ` + past(db))
	// Row 1 stays, 2 changes in place, 3 goes, 5 comes; sent in any order.
	saved := w.written(w.store.SaveCurated(t.Context(), bot.CuratedSave{ID: set.ID, By: "ann", Rows: []bot.CuratedRow{
		{RowNo: 5, Number: 17}, {RowNo: 2, Number: 13}, {RowNo: 1, Number: 10}}}))
	if saved.Version != 2 || shape(saved.Rows) != "1:10 2:13 5:17" {
		t.Errorf("%+v", saved)
	}
	after := idsOf(saved.Rows)
	if after[1] != before[1] || after[2] != before[2] || slices.Contains([]int64{before[1], before[2], before[3]}, after[5]) {
		t.Errorf("ids %v became %v", before, after)
	}
	if untouched := w.rows(`SELECT row_no FROM draft_row WHERE updated_at < ` + past(db) + ` AND version = 1`); fmt.Sprint(untouched) != "[1]" {
		t.Errorf("rows that were not written again: %v", untouched)
	}
	again := w.written(w.store.SaveCurated(t.Context(), bot.CuratedSave{ID: set.ID, Version: 2, By: "ann", Rows: saved.Rows}))
	if again.Version != 3 || fmt.Sprint(idsOf(again.Rows)) != fmt.Sprint(after) {
		t.Errorf("saved again: %+v", again)
	}
	w.invariants()
}

func curatedRefusesRows(t *testing.T, db Database) {
	w := newWorld(t, db)
	set := w.draft(10, 12)
	before := w.snapshot()
	many := make([]int, bot.MaxCurated+1)
	for i := range many {
		many[i] = i + 1
	}
	for name, c := range map[string]struct {
		rows  []bot.CuratedRow
		index int
		words string
	}{
		"missing":          {[]bot.CuratedRow{{RowNo: 1, Number: 10}, {Number: 12}}, 1, "place 2: row_no is 0"},
		"negative":         {[]bot.CuratedRow{{RowNo: -1, Number: 10}}, 0, "place 1: row_no is -1"},
		"twice":            {[]bot.CuratedRow{{RowNo: 4, Number: 10}, {RowNo: 5, Number: 11}, {RowNo: 4, Number: 12}}, 2, "place 3: row_no 4 is at place 1 already"},
		"no merge request": {[]bot.CuratedRow{{RowNo: 1}}, 0, "row_no 1 names no merge request"},
		"too large":        {[]bot.CuratedRow{{RowNo: 1 << 40, Number: 10}}, 0, "row_no is"},
		"too many":         {rowsOf(many...), -1, "1001 rows"},
	} {
		_, err := w.store.SaveCurated(t.Context(), bot.CuratedSave{ID: set.ID, Rows: c.rows, By: "ann"})
		refused, ok := errors.AsType[*bot.RowError](err)
		if !ok || refused.Index != c.index || !strings.Contains(refused.Error(), c.words) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if w.snapshot() != before {
		t.Error("something changed")
	}
	if _, err := w.store.SaveCurated(t.Context(), bot.CuratedSave{ID: set.ID + 77, Rows: rowsOf(10), By: "ann"}); err == nil {
		t.Error("a set that does not exist was saved")
	}
}

func curatedAutosaves(t *testing.T, db Database) {
	w := newWorld(t, db)
	set := w.draft(10, 12, 15)
	ids := idsOf(set.Rows)
	for n := range 600 {
		set = w.written(w.store.SaveCurated(t.Context(), bot.CuratedSave{ID: set.ID, Rows: rowsOf(10, 100+n/60, 15), By: "ann"}))
	}
	if set.Version != 601 || shape(set.Rows) != "1:10 2:109 3:15" || fmt.Sprint(idsOf(set.Rows)) != fmt.Sprint(ids) {
		t.Errorf("%+v, ids were %v", set, ids)
	}
	if n := value[int](w, `SELECT COUNT(*) FROM draft_row`); n != 3 {
		t.Errorf("%d draft rows", n)
	}
	w.invariants()
}

func curatedStaleSave(t *testing.T, db Database) {
	w := newWorld(t, db)
	set := w.draft(10, 12)
	w.written(w.store.SaveCurated(t.Context(), bot.CuratedSave{ID: set.ID, Version: set.Version, Rows: rowsOf(10, 13), By: "ann"}))
	before := w.snapshot()
	result, err := w.store.SaveCurated(t.Context(), bot.CuratedSave{ID: set.ID, Version: set.Version, Rows: rowsOf(11, 12), By: "ben"})
	if err != nil || result.Outcome != bot.CuratedChanged || shape(result.Curated.Rows) != "1:10 2:13" {
		t.Errorf("%+v, %v", result, err)
	}
	if w.snapshot() != before {
		t.Error("something changed")
	}
}

func curatedOnePerMR(t *testing.T, db Database) {
	w := newWorld(t, db)
	set := w.draft(10, 12)
	again := w.draft(10, 15, 16)
	if again.ID != set.ID || again.Version != 2 || shape(again.Rows) != "1:10 2:15 3:16" {
		t.Errorf("%+v", again)
	}
	free := bot.CuratedSave{QueueID: w.queue.ID, Rows: rowsOf(10, 12), By: "api:release"}
	if one, two := w.written(w.store.SaveCurated(t.Context(), free)), w.written(w.store.SaveCurated(t.Context(), free)); one.ID == two.ID || one.MergeRequestID != 0 {
		t.Errorf("drafted through the API: %+v and %+v", one, two)
	}
	w.written(w.store.SubmitCurated(t.Context(), submission(again)))
	save := bot.CuratedSave{QueueID: w.queue.ID, MergeRequestID: set.MergeRequestID, Rows: rowsOf(10, 17), By: "ann"}
	if result, err := w.store.SaveCurated(t.Context(), save); err != nil || result.Outcome != bot.CuratedAlreadySubmitted || result.Curated.ID != set.ID {
		t.Errorf("%+v, %v", result, err)
	}
	w.written(w.store.DecideCurated(t.Context(), bot.CuratedDecision{ID: set.ID, To: bot.CuratedCancelled, By: "ann"}))
	if next := w.written(w.store.SaveCurated(t.Context(), save)); next.ID == set.ID {
		t.Error("a cancelled set was drafted again")
	}
	release := w.newQueue("release")
	save.QueueID = release.ID // its merge request has another target now
	if moved := w.written(w.store.SaveCurated(t.Context(), save)); moved.QueueID != release.ID {
		t.Errorf("%+v", moved)
	}
	w.invariants()
}

func curatedSubmission(t *testing.T, db Database) {
	w := newWorld(t, db)
	set := w.submitted(10, 12, 15)
	if set.Status != bot.CuratedPendingApproval || set.Version != 2 || !set.Committed || shape(set.Rows) != "1:10 2:12 3:15" || set.Rows[1].HeadSHA != sha(12) {
		t.Errorf("%+v", set)
	}
	if n := value[int](w, `SELECT COUNT(*) FROM draft_row`); n != 0 {
		t.Errorf("%d draft rows are left", n)
	}
	for _, s := range []bot.CuratedSubmission{
		{ID: set.ID, Version: 2}, {ID: set.ID, Rows: set.Rows}, {ID: set.ID, Version: 2, Rows: rowsOf(1)},
		{ID: set.ID, Version: 2, Rows: []bot.CuratedRow{{RowNo: 1, Number: 3, HeadSHA: "a"}, {RowNo: 2, Number: 3, HeadSHA: "a"}}},
	} {
		if _, err := w.store.SubmitCurated(t.Context(), s); err == nil {
			t.Errorf("%+v was taken", s)
		}
	}
	other := w.draft(20, 21)
	sub := submission(other)
	sub.Rows[0].Number = 22
	if _, err := w.store.SubmitCurated(t.Context(), sub); err == nil {
		t.Error("other rows than those of the draft were committed")
	}
	w.invariants()
}

func curatedTwoAnswers(t *testing.T, db Database) {
	w := newWorld(t, db)
	set := w.draft(10, 12)
	checked := submission(set)
	set = w.written(w.store.SaveCurated(t.Context(), bot.CuratedSave{ID: set.ID, Rows: rowsOf(10, 13), By: "ben"}))
	before := w.snapshot()
	if result, err := w.store.SubmitCurated(t.Context(), checked); err != nil || result.Outcome != bot.CuratedChanged || shape(result.Curated.Rows) != "1:10 2:13" {
		t.Errorf("changed while it was checked: %+v, %v", result, err)
	}
	if w.snapshot() != before {
		t.Error("something changed")
	}
	w.written(w.store.SubmitCurated(t.Context(), submission(set)))
	before = w.snapshot()
	for _, version := range []int64{set.Version, set.Version + 1} {
		sub := submission(set)
		sub.Version = version
		if result, err := w.store.SubmitCurated(t.Context(), sub); err != nil || result.Outcome != bot.CuratedAlreadySubmitted || result.Curated.Status != bot.CuratedPendingApproval {
			t.Errorf("submitted at version %d already: %+v, %v", version, result, err)
		}
	}
	if w.snapshot() != before {
		t.Error("something changed")
	}
}

func curatedRefusedSubmit(t *testing.T, db Database) {
	w := newWorld(t, db)
	set := w.draft(10, 12, 15)
	var before strings.Builder
	w.dump(&before, "draft_row")
	sub := submission(set)
	sub.Version = 7
	if result, err := w.store.SubmitCurated(t.Context(), sub); err != nil || result.Outcome != bot.CuratedChanged {
		t.Fatalf("%+v, %v", result, err)
	}
	var after strings.Builder
	w.dump(&after, "draft_row")
	if before.String() != after.String() {
		t.Errorf("the rows were\n%sand are\n%s", before.String(), after.String())
	}
	saved := w.written(w.store.SaveCurated(t.Context(), bot.CuratedSave{ID: set.ID, Version: set.Version, Rows: rowsOf(10, 12, 16), By: "ann"}))
	w.written(w.store.SubmitCurated(t.Context(), submission(saved)))
	w.invariants()
}

// stale puts rows beside the draft rows of a set, as an earlier submission left them.
func (w *world) stale(set bot.Curated, numbers ...int) {
	w.Helper()
	for i, n := range numbers {
		w.execute(`INSERT INTO curated_row (approval_request_id, row_no, number, head_sha, operation_id, created_at, updated_at) VALUES (?, ?, ?, ?, '', `+
			past(w.Database)+`, `+past(w.Database)+`)`, set.ID, i+1, n, sha(n))
	}
}

func curatedResolver(t *testing.T, db Database) {
	w := newWorld(t, db)
	set := w.draft(10, 13)
	w.stale(set, 10, 12, 15)
	const want = "1:10 2:13"
	check := func(reader string, got bot.Curated) {
		t.Helper()
		if shape(got.Rows) != want || got.Committed || got.Rows[0].HeadSHA != "" {
			t.Errorf("%s: %+v", reader, got)
		}
	}
	check("ReadCurated", w.set(set.ID))
	of, ok, err := w.store.CuratedOf(t.Context(), set.MergeRequestID)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	check("CuratedOf", of)
	list, err := w.store.ListCurated(t.Context(), bot.CuratedFilter{Limit: 5})
	if err != nil || len(list) != 1 {
		t.Fatal(len(list), err)
	}
	check("ListCurated", list[0].Curated)
	sticky, err := w.store.StickyView(t.Context(), set.MergeRequestID)
	if err != nil || sticky.Curated == nil {
		t.Fatal(sticky.Curated, err)
	}
	check("StickyView", *sticky.Curated)
	saved := w.written(w.store.SaveCurated(t.Context(), bot.CuratedSave{ID: set.ID, Rows: rowsOf(10, 14), By: "ann"}))
	if shape(saved.Rows) != "1:10 2:14" || idsOf(saved.Rows)[2] != idsOf(set.Rows)[2] {
		t.Errorf("saved: %+v", saved)
	}
	committed := w.written(w.store.SubmitCurated(t.Context(), submission(saved)))
	if shape(committed.Rows) != "1:10 2:14" || !committed.Committed {
		t.Errorf("submitted: %+v", committed)
	}
	w.invariants()
	// And a draft of which only the committed copy is left.
	w.execute(`UPDATE approval_request SET status = 1`)
	if only := w.set(set.ID); !only.Committed || shape(only.Rows) != "1:10 2:14" {
		t.Errorf("without draft rows: %+v", only)
	}
}

func curatedRejected(t *testing.T, db Database) {
	w := newWorld(t, db)
	set := w.submitted(10, 12, 15)
	rejected := w.written(w.store.DecideCurated(t.Context(), bot.CuratedDecision{ID: set.ID, To: bot.CuratedRejected, Reason: "not before the release", By: "ben"}))
	if rejected.Status != bot.CuratedRejected || rejected.Reason != "not before the release" || rejected.Decider != "ben" || shape(rejected.Rows) != "1:10 2:12 3:15" {
		t.Errorf("%+v", rejected)
	}
	again := w.written(w.store.SaveCurated(t.Context(), bot.CuratedSave{ID: set.ID, Version: rejected.Version, By: "ann",
		Rows: []bot.CuratedRow{{RowNo: 1, Number: 10}, {RowNo: 3, Number: 16}}}))
	if again.Status != bot.CuratedDraft || again.Reason != "" || again.Decider != "" || again.Committed || shape(again.Rows) != "1:10 3:16" {
		t.Errorf("%+v", again)
	}
	// The rows were copied back and then changed, so the one that changed was written twice.
	if versions := w.rows(`SELECT version FROM draft_row ORDER BY row_no`); fmt.Sprint(versions) != "[1 2]" {
		t.Errorf("versions %v", versions)
	}
	w.written(w.store.SubmitCurated(t.Context(), submission(again)))
	if n := value[int](w, `SELECT COUNT(*) FROM curated_row`); n != 2 {
		t.Errorf("%d committed rows, those of the earlier submission among them", n)
	}
	w.invariants()
}

func curatedEmptied(t *testing.T, db Database) {
	w := newWorld(t, db)
	set := w.submitted(10, 12)
	w.written(w.store.DecideCurated(t.Context(), bot.CuratedDecision{ID: set.ID, To: bot.CuratedRejected, By: "ben"}))
	if empty := w.written(w.store.SaveCurated(t.Context(), bot.CuratedSave{ID: set.ID, By: "ann"})); len(empty.Rows) != 0 || empty.Status != bot.CuratedDraft {
		t.Errorf("%+v", empty)
	}
	if now := w.set(set.ID); len(now.Rows) != 0 {
		t.Errorf("%+v", now)
	}
	w.invariants()
}

func curatedDecisions(t *testing.T, db Database) {
	w := newWorld(t, db)
	draft := w.draft(10, 12)
	decide := func(set bot.Curated, to bot.CuratedStatus, version int64) bot.CuratedOutcome {
		t.Helper()
		d := bot.CuratedDecision{ID: set.ID, Version: version, To: to, By: "ben"}
		if to == bot.CuratedApproved {
			d = w.approval(set, 0)
			d.Version = version
		}
		result, err := w.store.DecideCurated(t.Context(), d)
		w.must(err)
		return result.Outcome
	}
	for _, to := range []bot.CuratedStatus{bot.CuratedApproved, bot.CuratedRejected} {
		if got := decide(draft, to, draft.Version); got != bot.CuratedNotSubmitted {
			t.Errorf("%s of a draft: %d", to, got)
		}
	}
	set := w.written(w.store.SubmitCurated(t.Context(), submission(draft)))
	for _, to := range []bot.CuratedStatus{bot.CuratedApproved, bot.CuratedRejected, bot.CuratedCancelled} {
		if got := decide(set, to, set.Version+1); got != bot.CuratedChanged {
			t.Errorf("%s of another version: %d", to, got)
		}
	}
	approved := w.written(w.store.DecideCurated(t.Context(), w.approval(set, 0)))
	for _, to := range []bot.CuratedStatus{bot.CuratedApproved, bot.CuratedRejected, bot.CuratedCancelled} {
		if got := decide(approved, to, approved.Version); got != bot.CuratedAlreadyDecided {
			t.Errorf("%s of an approved one: %d", to, got)
		}
	}
	if result, err := w.store.SaveCurated(t.Context(), bot.CuratedSave{ID: set.ID, Rows: rowsOf(1), By: "ann"}); err != nil || result.Outcome != bot.CuratedAlreadyDecided {
		t.Errorf("saving an approved one: %+v, %v", result, err)
	}
	if _, err := w.store.DecideCurated(t.Context(), bot.CuratedDecision{ID: set.ID, To: bot.CuratedDone}); err == nil {
		t.Error("a person made a set DONE")
	}
	w.invariants()
}

func curatedOnce(t *testing.T, db Database) {
	w := newWorld(t, db)
	mr := w.mrRow(10)
	command := func(n int, verb string) *bot.CommandRef {
		return &bot.CommandRef{RequestID: fmt.Sprintf("forge:issue:%d:1", 900+n), Order: bot.CommandOrder{At: int64(900 + n), ID: int64(900 + n)}, By: "ann", Verb: verb}
	}
	save := bot.CuratedSave{QueueID: w.queue.ID, MergeRequestID: mr.ID, Rows: rowsOf(10, 12), By: "ann", Command: command(5, "with")}
	set := w.written(w.store.SaveCurated(t.Context(), save))
	before := w.snapshot()
	if result, err := w.store.SaveCurated(t.Context(), save); err != nil || result.Outcome != bot.CuratedDuplicate || result.Curated.Version != 1 {
		t.Errorf("the same command again: %+v, %v", result, err)
	}
	save.Command = command(4, "with")
	if result, err := w.store.SaveCurated(t.Context(), save); err != nil || result.Outcome != bot.CuratedSuperseded {
		t.Errorf("an earlier command: %+v, %v", result, err)
	}
	if w.snapshot() != before {
		t.Error("something changed")
	}
	request := &bot.APIRequest{ID: "api:release:k1", Fingerprint: "f"}
	free := bot.CuratedSave{QueueID: w.queue.ID, Rows: rowsOf(20, 21), By: "api:release", Request: request}
	made := w.written(w.store.SaveCurated(t.Context(), free))
	if result, err := w.store.SaveCurated(t.Context(), free); err != nil || result.Outcome != bot.CuratedDuplicate {
		t.Errorf("the same request again: %+v, %v", result, err)
	}
	handled, ok, err := w.store.HandledRequest(t.Context(), request.ID)
	if err != nil || !ok || handled.Fingerprint != "f" || handled.Resource != fmt.Sprintf("/api/v1/curated/%d", made.ID) {
		t.Errorf("%+v, %v, %v", handled, ok, err)
	}
	if n := value[int](w, `SELECT COUNT(*) FROM approval_request`); n != 2 {
		t.Errorf("%d sets", n)
	}
	sub := submission(set)
	sub.Command = command(6, "submit")
	submitted := w.written(w.store.SubmitCurated(t.Context(), sub))
	if result, err := w.store.SubmitCurated(t.Context(), sub); err != nil || result.Outcome != bot.CuratedDuplicate || result.Curated.Status != bot.CuratedPendingApproval {
		t.Errorf("the same command again: %+v, %v", result, err)
	}
	approve := w.approval(submitted, 0)
	approve.Command = command(7, "approve")
	w.written(w.store.DecideCurated(t.Context(), approve))
	if result, err := w.store.DecideCurated(t.Context(), approve); err != nil || result.Outcome != bot.CuratedDuplicate || result.Curated.Status != bot.CuratedApproved {
		t.Errorf("the same command again: %+v, %v", result, err)
	}
	w.invariants()
}

func curatedAmbiguous(t *testing.T, db Database) {
	w := newWorld(t, db)
	for i, at := range []string{"COMMIT", "after COMMIT"} {
		lose := func() { db.Intercept(w.store, loseConnection(at)) }
		first := 10 * (i + 1)
		mr := w.mrRow(first)
		w.mrRow(first + 1)
		lose()
		set := w.written(w.store.SaveCurated(t.Context(), bot.CuratedSave{QueueID: w.queue.ID, MergeRequestID: mr.ID, Rows: rowsOf(first, first+1), By: "ann"}))
		lose()
		set = w.written(w.store.SaveCurated(t.Context(), bot.CuratedSave{ID: set.ID, Version: set.Version, Rows: rowsOf(first, first+1), By: "ann"}))
		if set.Version != 2 {
			t.Errorf("%s: version %d after two saves", at, set.Version)
		}
		lose()
		set = w.written(w.store.SubmitCurated(t.Context(), submission(set)))
		lose()
		set = w.written(w.store.DecideCurated(t.Context(), w.approval(set, 0)))
		op := w.read(operationID(first))
		lose()
		if result, err := w.store.Move(t.Context(), w.moveTo(op, bot.OperationPendingApproval)); err != nil || result != bot.MoveDone {
			t.Errorf("%s: moving a member: %d, %v", at, result, err)
		}
		lose()
		w.written(w.store.DecideCurated(t.Context(), bot.CuratedDecision{ID: set.ID, To: bot.CuratedCancelled, By: "ann"}))
		w.invariants()
	}
}

func curatedDrafter(t *testing.T, db Database) {
	w := newWorld(t, db)
	set := w.draft(10, 12)
	if same := w.written(w.store.SaveCurated(t.Context(), bot.CuratedSave{ID: set.ID, Rows: rowsOf(10, 12), By: "ben"})); same.Drafter != "ann" {
		t.Errorf("ben changed nothing and is %s", same.Drafter)
	}
	if other := w.written(w.store.SaveCurated(t.Context(), bot.CuratedSave{ID: set.ID, Rows: rowsOf(10, 13), By: "ben"})); other.Drafter != "ben" {
		t.Errorf("ben put other rows in, and the drafter is %s", other.Drafter)
	}
}

func curatedLists(t *testing.T, db Database) {
	w := newWorld(t, db)
	release := w.newQueue("release")
	one, two := w.draft(10, 12), w.submitted(20, 21)
	three := w.written(w.store.SaveCurated(t.Context(), bot.CuratedSave{QueueID: release.ID, Rows: rowsOf(30), By: "api:x"}))
	w.written(w.store.DecideCurated(t.Context(), bot.CuratedDecision{ID: one.ID, To: bot.CuratedCancelled, By: "ann"}))
	for want, filter := range map[string]bot.CuratedFilter{
		fmt.Sprint([]int64{three.ID, two.ID, one.ID}): {Limit: 10},
		fmt.Sprint([]int64{three.ID, two.ID}):         {Limit: 10, Live: true},
		fmt.Sprint([]int64{two.ID, one.ID}):           {Limit: 10, QueueID: w.queue.ID},
		fmt.Sprint([]int64{three.ID}):                 {Limit: 1},
	} {
		list, err := w.store.ListCurated(t.Context(), filter)
		w.must(err)
		var got []int64
		for _, v := range list {
			got = append(got, v.Curated.ID)
			if v.Queue.ID != v.Curated.QueueID || v.Repository.ID != w.repo.ID || len(v.Curated.Rows) == 0 {
				t.Errorf("%+v", v)
			}
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%+v lists %v, want %s", filter, got, want)
		}
	}
	if _, ok, err := w.store.CuratedOf(t.Context(), one.MergeRequestID); ok || err != nil {
		t.Errorf("a cancelled set is found: %v", err)
	}
	if _, ok, err := w.store.ReadCurated(t.Context(), 4711); ok || err != nil {
		t.Errorf("a set that does not exist is found: %v", err)
	}
}

func curatedSticky(t *testing.T, db Database) {
	w := newWorld(t, db)
	mr := w.mrRow(10)
	wanted := func() int {
		return value[int](w, `SELECT wanted FROM outbox WHERE kind = 1 AND target = ?`, fmt.Sprint(mr.ID))
	}
	last := 0
	grew := func(what string) {
		t.Helper()
		if now := wanted(); now <= last {
			t.Errorf("%s: wanted %d times as before", what, now)
		}
		last = wanted()
	}
	set := w.draft(10, 12)
	grew("draft")
	set = w.written(w.store.SubmitCurated(t.Context(), submission(set)))
	grew("submit")
	set = w.written(w.store.DecideCurated(t.Context(), bot.CuratedDecision{ID: set.ID, To: bot.CuratedRejected, By: "ben"}))
	grew("reject")
	set = w.written(w.store.SaveCurated(t.Context(), bot.CuratedSave{ID: set.ID, Rows: rowsOf(12, 13), By: "ann"}))
	grew("save")
	set = w.written(w.store.SubmitCurated(t.Context(), submission(set)))
	grew("submit")
	set = w.written(w.store.DecideCurated(t.Context(), w.approval(set, 0)))
	grew("approve, though it is no member")
	w.settle(w.claimSet(set), bot.BatchSucceeded, bot.OperationMerged)
	grew("land")
	if view, err := w.store.StickyView(t.Context(), mr.ID); err != nil || view.Curated != nil {
		t.Errorf("a set that landed is shown: %+v, %v", view.Curated, err)
	}
}

// meaningOfSets finds the sets of version 2: one that was committed once and is edited since, and one that was rejected.
func meaningOfSets(w *world) {
	set, ok, err := w.store.CuratedOf(w.Context(), 702)
	w.must(err)
	if !ok || set.ID != 1001 || set.Status != bot.CuratedDraft || set.Committed || shape(set.Rows) != "1:2 2:3" || set.Number != 2 || set.Drafter != "ann" {
		w.Errorf("the draft: %+v", set)
	}
	rejected := w.set(1002)
	if rejected.Status != bot.CuratedRejected || !rejected.Committed || shape(rejected.Rows) != "1:1" || rejected.Rows[0].HeadSHA != sha1s || rejected.Reason != "not before the release" {
		w.Errorf("the rejected one: %+v", rejected)
	}
	again := w.written(w.store.SaveCurated(w.Context(), bot.CuratedSave{ID: rejected.ID, Version: rejected.Version, Rows: rejected.Rows, By: "ann"}))
	if again.Status != bot.CuratedDraft || again.Committed || shape(again.Rows) != "1:1" {
		w.Errorf("drafted again: %+v", again)
	}
}

// sha1s is the head in the sample rows.
const sha1s = "1111111111111111111111111111111111111111"
