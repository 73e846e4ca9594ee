package storetest

import (
	"slices"
	"testing"

	"github.com/batchbot/batchbot/bot"
)

// What the planner reads. That it is read by an index is a matter of plans.go.
var planTests = tests{
	"a search as its rows tell it":                       planSearch,
	"what says nothing about members is no trial":        planNoTrials,
	"a batch is judged by the build that was tested":     planTested,
	"no more than the last batches, and of one queue":    planBounded,
	"the tail is freed, the prefix keeps its cohort":     planFreesTheTail,
	"why these members stays with the batch":             planWhy,
	"a member that left after the verdict is no verdict": planLeaver,
}

// tried claims, builds and opens a batch.
func (w *world) tried(kind bot.BatchKind, cohort int64, limit int) bot.ClaimResult {
	w.Helper()
	spec := claimSpec(w.queue, limit)
	spec.Kind, spec.Cohort = kind, cohort
	claimed, err := w.store.Claim(w.Context(), spec)
	w.must(err)
	var ok bool
	if claimed.Batch, ok, err = w.store.RecordBuild(w.Context(), claimed.Batch.Guard(), build(claimed, 2000+int(claimed.Batch.ID), limit)); err != nil || !ok {
		w.Fatal(ok, err)
	}
	return claimed
}

// turnsRed settles a batch as red: its members wait as suspects of cohort, or fail when that is 0.
func (w *world) turnsRed(claimed bot.ClaimResult, code bot.Code, cohort, free int64) {
	w.Helper()
	settlement := settlementOf(claimed, bot.BatchFailed, bot.OperationWaiting)
	settlement.Code, settlement.FreeCohort = code, free
	for i := range settlement.Members {
		m := &settlement.Members[i]
		if m.Cohort = cohort; cohort == 0 {
			m.To, m.Reason = bot.OperationFailed, bot.ReasonCIRed
		}
	}
	if ok, err := w.store.Settle(w.Context(), settlement); err != nil || !ok {
		w.Fatal(ok, err)
	}
	w.invariants()
}

func (w *world) wantTrials(want ...bot.Trial) bot.WaitingSet {
	w.Helper()
	got, err := w.store.Waiting(w.Context(), w.queue.ID)
	w.must(err)
	if !slices.Equal(got.Trials, want) {
		w.Errorf("trials\n%+v, want\n%+v", got.Trials, want)
	}
	return got
}

func planSearch(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2, 3, 4)
	w.wantTrials()
	fresh := w.tried(bot.BatchFresh, 0, 4)
	root := fresh.Batch.ID
	w.wantTrials() // it is not decided yet
	w.turnsRed(fresh, bot.CodeCIRed, root, 0)
	first := bot.Trial{Batch: root, Kind: bot.BatchFresh, Members: 4, Verdict: bot.TrialRed}
	w.wantTrials(first)

	prefix := w.tried(bot.BatchProbe, root, 3)
	w.settle(prefix, bot.BatchSucceeded, bot.OperationMerged)
	second := bot.Trial{Batch: prefix.Batch.ID, Kind: bot.BatchProbe, Cohort: root, Members: 3, Verdict: bot.TrialGreen}
	w.wantTrials(first, second)

	alone := w.tried(bot.BatchVerify, root, 1)
	w.turnsRed(alone, bot.CodeCITimeout, root, root)
	third := bot.Trial{Batch: alone.Batch.ID, Kind: bot.BatchVerify, Cohort: root, Members: 1, Verdict: bot.TrialRed}
	if got := w.wantTrials(first, second, third); !slices.Equal(got.Cohorts, []bot.Cohort{{ID: root, Size: 1}}) {
		t.Errorf("cohorts %+v", got.Cohorts)
	}

	again := w.tried(bot.BatchVerify, root, 1)
	w.turnsRed(again, bot.CodeCIRed, 0, root)
	w.wantTrials(first, second, third, bot.Trial{Batch: again.Batch.ID, Kind: bot.BatchVerify, Cohort: root, Members: 1, Verdict: bot.TrialRed, Rejected: true})
}

func planNoTrials(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2)
	for _, code := range []bot.Code{bot.CodeNoCI, bot.CodeClosed, bot.CodeMergeRefused, bot.CodeTargetMoving} {
		settlement := settlementOf(w.tried(bot.BatchFresh, 0, 2), bot.BatchFailed, bot.OperationWaiting)
		settlement.Code = code
		if ok, err := w.store.Settle(t.Context(), settlement); err != nil || !ok {
			t.Fatal(ok, err)
		}
	}
	w.wantTrials()
	broken := w.tried(bot.BatchFresh, 0, 2)
	settlement := settlementOf(broken, bot.BatchFailed, bot.OperationWaiting)
	settlement.Code = bot.CodeCIBroken
	if ok, err := w.store.Settle(t.Context(), settlement); err != nil || !ok {
		t.Fatal(ok, err)
	}
	w.wantTrials(bot.Trial{Batch: broken.Batch.ID, Kind: bot.BatchFresh, Members: 2, Verdict: bot.TrialBroken})
}

func planTested(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2, 3)
	claimed := w.claim(w.queue, 3)
	record := build(claimed, 2001, 1)
	record.Moves = outcomes(claimed.Members[1:], bot.OperationFailed, bot.ReasonConflict)
	var ok bool
	var err error
	if claimed.Batch, ok, err = w.store.RecordBuild(t.Context(), claimed.Batch.Guard(), record); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if claimed.Batch.Size != 3 || claimed.Batch.Tested != 1 {
		t.Errorf("%d claimed, %d tested", claimed.Batch.Size, claimed.Batch.Tested)
	}
	claimed.Members = claimed.Members[:1]
	w.turnsRed(claimed, bot.CodeCIRed, 0, 0)
	// The two conflicts were nobody's verdict.
	w.wantTrials(bot.Trial{Batch: claimed.Batch.ID, Kind: bot.BatchFresh, Members: 1, Verdict: bot.TrialRed, Rejected: true})
}

func planLeaver(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2)
	claimed := w.tried(bot.BatchFresh, 0, 2)
	guard := claimed.Batch.Guard()
	member := claimed.Members[0]
	result, err := w.store.Move(t.Context(), bot.Move{
		OperationID: member.ID, From: bot.OperationBatched, Version: member.Version, To: bot.OperationCancelled, Reason: bot.ReasonCancelled, Batch: &guard, By: "author",
	})
	if err != nil || result != bot.MoveDone {
		t.Fatal(result, err)
	}
	claimed.Batch, claimed.Members, _, err = w.store.ActiveBatch(t.Context(), w.queue.ID)
	w.must(err)
	if claimed.Batch.Tested != 2 || len(claimed.Members) != 1 {
		t.Errorf("%d tested, %d stayed", claimed.Batch.Tested, len(claimed.Members))
	}
	w.turnsRed(claimed, bot.CodeCIRed, claimed.Batch.ID, 0)
	w.wantTrials(bot.Trial{Batch: claimed.Batch.ID, Kind: bot.BatchFresh, Members: 2, Verdict: bot.TrialRed})
}

func planBounded(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.years() // hundreds of batches that landed
	w.admit(w.newQueue("release"), 4)
	waiting, err := w.store.Waiting(t.Context(), w.queue.ID)
	w.must(err)
	if n := len(waiting.Trials); n != bot.TrialsKept {
		t.Fatalf("%d trials, want the last %d", n, bot.TrialsKept)
	}
	newest := value[int64](w, `SELECT MAX(id) FROM merge_batch WHERE queue_id = ?`, w.queue.ID)
	for i, trial := range waiting.Trials {
		if want := newest - int64(bot.TrialsKept-1-i); trial.Batch != want || trial.Verdict != bot.TrialGreen {
			t.Fatalf("trial %d is %+v, want batch %d", i, trial, want)
		}
	}
	other, _, err := w.store.ReadQueue(t.Context(), w.read(operationID(4)).QueueID)
	w.must(err)
	if waiting, err := w.store.Waiting(t.Context(), other.ID); err != nil || len(waiting.Trials) != 0 {
		t.Errorf("another queue has %d trials, %v", len(waiting.Trials), err)
	}
}

func planFreesTheTail(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2, 3, 4)
	fresh := w.tried(bot.BatchFresh, 0, 4)
	root := fresh.Batch.ID
	w.turnsRed(fresh, bot.CodeCIRed, root, 0)
	w.admit(w.queue, 5)
	w.turnsRed(w.tried(bot.BatchProbe, root, 2), bot.CodeCIRed, root, root)
	waiting, err := w.store.Waiting(t.Context(), w.queue.ID)
	w.must(err)
	if waiting.Fresh != 3 || !slices.Equal(waiting.Cohorts, []bot.Cohort{{ID: root, Size: 2}}) {
		t.Errorf("waiting %+v", waiting)
	}
	if got := numbers(w.tried(bot.BatchFresh, 0, 9).Members); !slices.Equal(got, []int{3, 4, 5}) {
		t.Errorf("fresh %v, want the freed before who came later", got)
	}
}

func planWhy(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1)
	spec := claimSpec(w.queue, 1)
	spec.Why = "testing the one that waits; 2.0 % of changes break CI here"
	claimed, err := w.store.Claim(t.Context(), spec)
	w.must(err)
	batch, _, _, err := w.store.ActiveBatch(t.Context(), w.queue.ID)
	if err != nil || claimed.Batch.Why != spec.Why || batch.Why != spec.Why {
		t.Errorf("it says %q and %q, %v", claimed.Batch.Why, batch.Why, err)
	}
}
