package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
)

var batchTests = tests{
	"a build records heads and members, and evicts":              buildRecorded,
	"a build in which nobody merged has no head of its own":      buildEmpty,
	"a build is recorded once":                                   buildGuarded,
	"a build leaves no trace when any step fails":                buildFails,
	"a build is recorded again or found after a lost commit":     buildAmbiguous,
	"a change moves phase, number and deadline":                  changeBatch,
	"a change says anew what people read, and only that":         changeSays,
	"a change to or of an ended batch is refused":                changeEnded,
	"a stale write fails (I6)":                                   staleWrites,
	"checks are quiet since the set of them last changed":        observeChecks,
	"queues with an active batch or something waiting have work": queuesWithWork,
	"what waits is counted by cohort":                            waitingCounted,
	"a queue is watched for its head and its members":            queuesWatching,
	"a batch is found by its merge request":                      batchMR,
	"parking is for open queues":                                 parkQueue,
}

// build is the record of a build in which the first merged members merged and the rest did not.
func build(claimed bot.ClaimResult, head int, merged int) bot.BuildRecord {
	record := bot.BuildRecord{Result: bot.BuildResult{BaseSHA: sha(1000), HeadSHA: sha(head)}, Timeout: time.Hour}
	for i, op := range claimed.Members {
		m := bot.MemberBuild{BuildMember: bot.BuildMember{OperationID: op.ID, Number: op.Number, HeadSHA: op.HeadSHA}, Fate: bot.FateMerged}
		if i >= merged {
			m.Fate = bot.FateConflict
		}
		record.Result.Members = append(record.Result.Members, m)
	}
	return record
}

func buildRecorded(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2, 3, 4, 5)
	claimed := w.claim(w.queue, 5)
	record := build(claimed, 2001, 1)
	record.Moves = []bot.MemberOutcome{
		{OperationID: operationID(2), To: bot.OperationFailed, Reason: bot.ReasonConflict, Detail: "pear.txt", Notify: true},
		{OperationID: operationID(3), To: bot.OperationWaiting, Reason: bot.ReasonConflictBatch},
		{OperationID: operationID(4), To: bot.OperationPendingApproval, HeadSHA: sha(44), Reason: bot.ReasonHeadMoved},
		{OperationID: operationID(5), To: bot.OperationMerged, Reason: bot.ReasonContained},
	}
	batch, ok, err := w.store.RecordBuild(t.Context(), claimed.Batch.Guard(), record)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if batch.Phase != bot.PhaseBuilt || batch.Build != 1 || batch.HeadSHA != sha(2001) || batch.BaseSHA != sha(1000) || batch.Version != 2 {
		t.Errorf("batch %+v", batch)
	}
	w.invariants()
	_, members, _, err := w.store.ActiveBatch(t.Context(), w.queue.ID)
	if err != nil || !slices.Equal(numbers(members), []int{1}) {
		t.Errorf("still riding: %v %v", numbers(members), err)
	}
	if got := w.rows(`SELECT o.status FROM operation o JOIN merge_request m ON m.id = o.merge_request_id ORDER BY m.number`); !slices.Equal(got, []string{"3", "9", "2", "1", "4"}) {
		t.Errorf("states %v", got)
	}
	if head := value[string](w, `SELECT head_sha FROM operation WHERE operation_id = ?`, operationID(4)); head != sha(44) {
		t.Errorf("pinned %s, want the new head", head)
	}
	if got := w.rows(`SELECT operation_id FROM merge_batch_request ORDER BY id`); !slices.Equal(got, []string{operationID(1), operationID(3)}) {
		t.Errorf("requests of %v, want of those that ride and that ride again", got)
	}
	if got := w.rows(`SELECT event FROM merge_batch_member WHERE build = 1 ORDER BY position, event`); !slices.Equal(got, []string{"7", "2", "3", "3", "3", "4"}) {
		t.Errorf("history %v, want HEAD, BUILT, EVICTED of three and LANDED", got)
	}
	if n := value[int](w, `SELECT COUNT(*) FROM outbox o WHERE kind = 2 AND EXISTS (SELECT 1 FROM binding_history h
		WHERE CAST(h.id AS CHAR) = o.target AND h.operation_id = ? AND h.to_status = 9)`, operationID(2)); n != 1 {
		t.Errorf("%d notices about the conflict", n)
	}

	again, ok, err := w.store.RecordBuild(t.Context(), batch.Guard(), build(bot.ClaimResult{Members: members}, 2002, 1))
	if err != nil || !ok || again.Build != 2 {
		t.Fatal(again, ok, err)
	}
	if heads, err := w.store.RecordedHeads(t.Context(), batch.ID); err != nil || !slices.Equal(heads, []string{sha(2001), sha(2002)}) {
		t.Errorf("heads %v %v", heads, err)
	}
	if place := value[int](w, `SELECT COUNT(DISTINCT position) FROM merge_batch_member WHERE operation_id = ?`, operationID(1)); place != 1 {
		t.Errorf("%d places of one member in one batch", place)
	}
	w.invariants()
}

func buildEmpty(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1)
	claimed := w.claim(w.queue, 1)
	record := build(claimed, 1000, 0) // the head is the base
	record.Moves = outcomes(claimed.Members, bot.OperationFailed, bot.ReasonConflict)
	if _, ok, err := w.store.RecordBuild(t.Context(), claimed.Batch.Guard(), record); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if heads, err := w.store.RecordedHeads(t.Context(), claimed.Batch.ID); err != nil || len(heads) != 0 {
		t.Errorf("the base counts as a head of the batch: %v %v", heads, err)
	}
}

func buildGuarded(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1)
	claimed := w.claim(w.queue, 1)
	if _, ok, err := w.store.RecordBuild(t.Context(), claimed.Batch.Guard(), build(claimed, 2001, 1)); err != nil || !ok {
		t.Fatal(ok, err)
	}
	before := w.snapshot()
	if _, ok, err := w.store.RecordBuild(t.Context(), claimed.Batch.Guard(), build(claimed, 2002, 1)); err != nil || ok {
		t.Errorf("recorded twice: %v %v", ok, err)
	}
	if w.snapshot() != before {
		t.Error("a stale build left a trace")
	}
	stranger := build(claimed, 2003, 1)
	stranger.Moves = []bot.MemberOutcome{{OperationID: operationID(9), To: bot.OperationFailed}}
	batch, _, _, _ := w.store.ActiveBatch(t.Context(), w.queue.ID)
	if _, _, err := w.store.RecordBuild(t.Context(), batch.Guard(), stranger); err == nil {
		t.Error("an outcome of somebody who does not ride was taken")
	}
	if w.snapshot() != before {
		t.Error("a refused build left a trace")
	}
}

func buildFails(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2, 3)
	claimed := w.claim(w.queue, 3)
	record := build(claimed, 2001, 1)
	record.Moves = []bot.MemberOutcome{
		{OperationID: operationID(2), To: bot.OperationFailed, Reason: bot.ReasonConflict, Notify: true},
		{OperationID: operationID(3), To: bot.OperationWaiting, Reason: bot.ReasonConflictBatch},
	}
	w.eachStepFails(func() error {
		_, _, err := w.store.RecordBuild(t.Context(), claimed.Batch.Guard(), record)
		return err
	})
}

func buildAmbiguous(t *testing.T, db Database) {
	for _, at := range []string{"COMMIT", "after COMMIT"} {
		w := newWorld(t, db)
		w.execute(`UPDATE merge_batch SET status = 3 WHERE status = 1`)
		number := 1 + value[int](w, `SELECT MAX(number) FROM merge_request`)
		w.execute(`DELETE FROM merge_batch_request`)
		w.admit(w.queue, number)
		claimed := w.claim(w.queue, 1)
		db.Intercept(w.store, loseConnection(at))
		batch, ok, err := w.store.RecordBuild(t.Context(), claimed.Batch.Guard(), build(claimed, 2001, 1))
		if err != nil || !ok || batch.Build != 1 {
			t.Errorf("lost %s: build %d %v %v", at, batch.Build, ok, err)
		}
		db.Intercept(w.store, loseConnection(at))
		batch, ok, err = w.store.ChangeBatch(t.Context(), batch.Guard(), bot.BatchChange{Phase: bot.PhaseOpened, MRNumber: 90 + number})
		if err != nil || !ok || batch.Phase != bot.PhaseOpened {
			t.Errorf("lost %s: change %+v %v %v", at, batch, ok, err)
		}
	}
}

func changeBatch(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1)
	claimed := w.claim(w.queue, 1)
	w.execute(`UPDATE merge_batch SET deadline_at = ` + past(db) + `, phase_at = ` + past(db))
	batch, _, ok, err := w.store.ActiveBatch(t.Context(), w.queue.ID)
	if err != nil || !ok || !batch.Overdue || batch.PhaseAge < time.Hour {
		t.Fatalf("batch %+v", batch)
	}
	batch, ok, err = w.store.ChangeBatch(t.Context(), claimed.Batch.Guard(), bot.BatchChange{
		Phase: bot.PhaseOpened, MRNumber: 77, Code: bot.CodeNeedsApproval, Message: "wants a review", Refusals: 2, CIConclusion: "success", ExtendBy: time.Hour,
	})
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if batch.Phase != bot.PhaseOpened || batch.MRNumber != 77 || batch.Code != bot.CodeNeedsApproval || batch.Message != "wants a review" ||
		batch.Refusals != 2 || batch.CIConclusion != "success" || batch.Overdue || batch.PhaseAge > time.Minute {
		t.Errorf("batch %+v", batch)
	}
	kept, ok, err := w.store.ChangeBatch(t.Context(), batch.Guard(), bot.BatchChange{})
	if err != nil || !ok || kept.Phase != bot.PhaseOpened || kept.MRNumber != 77 || kept.Code != "" || kept.Refusals != 0 {
		t.Errorf("batch %+v %v %v, want phase and number kept, the rest written", kept, ok, err)
	}
	w.invariants()
}

func changeSays(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2)
	batch := w.claim(w.queue, 2).Batch
	said := func() int { return value[int](w, `SELECT SUM(wanted) FROM outbox`) }
	for _, step := range []struct {
		change bot.BatchChange
		want   int
	}{
		{bot.BatchChange{Phase: bot.PhaseBuilt}, 0},
		{bot.BatchChange{Phase: bot.PhaseOpened, MRNumber: 77}, 2},
		{bot.BatchChange{Code: bot.CodeNeedsApproval, Message: "wants a review"}, 3}, // and on the batch MR
		{bot.BatchChange{Code: bot.CodeNeedsApproval, Message: "wants a review", Refusals: 1}, 0},
		{bot.BatchChange{Status: bot.BatchBlocked, Code: bot.CodeOverdue, Message: "look"}, 4}, // and in a comment of its own
		{bot.BatchChange{Status: bot.BatchRunning}, 3},
	} {
		before := said()
		var ok bool
		var err error
		if batch, ok, err = w.store.ChangeBatch(t.Context(), batch.Guard(), step.change); err != nil || !ok {
			t.Fatal(ok, err)
		}
		if got := said() - before; got != step.want {
			t.Errorf("%+v says %d things, want %d", step.change, got, step.want)
		}
	}
}

func changeEnded(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1)
	claimed := w.claim(w.queue, 1)
	if _, _, err := w.store.ChangeBatch(t.Context(), claimed.Batch.Guard(), bot.BatchChange{Status: bot.BatchFailed}); err == nil {
		t.Error("a change ended a batch")
	}
	w.settle(claimed, bot.BatchSucceeded, bot.OperationMerged)
	ended := claimed.Batch.Guard()
	ended.Status, ended.Version = bot.BatchSucceeded, 2
	if _, _, err := w.store.ChangeBatch(t.Context(), ended, bot.BatchChange{Status: bot.BatchRunning}); err == nil {
		t.Error("an ended batch was changed")
	}
}

func staleWrites(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1)
	claimed := w.claim(w.queue, 1)
	right := claimed.Batch.Guard()
	before := w.snapshot()
	for name, guard := range map[string]bot.BatchGuard{
		"status":  {BatchID: right.BatchID, Status: bot.BatchBlocked, Phase: right.Phase, Version: right.Version},
		"phase":   {BatchID: right.BatchID, Status: right.Status, Phase: bot.PhaseLanding, Version: right.Version},
		"version": {BatchID: right.BatchID, Status: right.Status, Phase: right.Phase, Version: right.Version + 1},
		"batch":   {BatchID: right.BatchID + 1, Status: right.Status, Phase: right.Phase, Version: right.Version},
	} {
		if _, ok, err := w.store.RecordBuild(t.Context(), guard, build(claimed, 2001, 1)); ok || err != nil {
			t.Errorf("stale %s: build %v %v", name, ok, err)
		}
		if _, ok, err := w.store.ChangeBatch(t.Context(), guard, bot.BatchChange{Phase: bot.PhaseOpened}); ok || err != nil {
			t.Errorf("stale %s: change %v %v", name, ok, err)
		}
		settlement := settlementOf(claimed, bot.BatchSucceeded, bot.OperationMerged)
		settlement.Guard, settlement.ParkQueue = guard, "should not park"
		if ok, err := w.store.Settle(t.Context(), settlement); ok || err != nil {
			t.Errorf("stale %s: settle %v %v", name, ok, err)
		}
	}
	if after := w.snapshot(); after != before {
		t.Errorf("a stale write left a trace\nbefore:\n%s\nafter:\n%s", before, after)
	}
}

func observeChecks(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1)
	claimed := w.claim(w.queue, 1)
	observe := func(fingerprint string) time.Duration {
		quiet, err := w.store.ObserveChecks(t.Context(), claimed.Batch.ID, fingerprint)
		w.must(err)
		return quiet
	}
	if quiet := observe("a"); quiet > time.Minute {
		t.Errorf("a new set is quiet for %v", quiet)
	}
	w.execute(`UPDATE merge_batch SET ci_changed_at = ` + past(db))
	if quiet := observe("a"); quiet < time.Hour {
		t.Errorf("the same set is quiet for %v", quiet)
	}
	if quiet := observe("b"); quiet > time.Minute {
		t.Errorf("another set is quiet for %v", quiet)
	}
	if batch, _, _, _ := w.store.ActiveBatch(t.Context(), w.queue.ID); batch.Version != claimed.Batch.Version {
		t.Error("looking at checks made the round's guard stale")
	}
	if _, err := w.store.ObserveChecks(t.Context(), 999, "a"); err == nil {
		t.Error("the checks of no batch were noted")
	}
}

func queuesWithWork(t *testing.T, db Database) {
	w := newWorld(t, db)
	running, waiting := w.newQueue("running"), w.newQueue("waiting")
	w.newQueue("idle")
	want := func(queues ...int64) {
		t.Helper()
		got, err := w.store.QueuesWithWork(t.Context())
		if err != nil || !slices.Equal(got, queues) {
			t.Errorf("work in %v %v, want %v", got, err, queues)
		}
	}
	want()
	w.admit(running, 1)
	claimed := w.claim(running, 1)
	w.admit(waiting, 2)
	want(running.ID, waiting.ID)
	w.settle(claimed, bot.BatchSucceeded, bot.OperationMerged)
	want(waiting.ID)

	queue, repo, err := w.store.ReadQueue(t.Context(), waiting.ID)
	if err != nil || queue.Target != "waiting" || repo != w.repo || queue.Settings.MaxBatchSize != 50 {
		t.Errorf("queue %+v of %+v: %v", queue, repo, err)
	}
	if _, _, err := w.store.ReadQueue(t.Context(), 999); err == nil {
		t.Error("there is no such queue")
	}
}

func waitingCounted(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2, 3, 4, 5)
	w.admit(w.newQueue("other"), 6)
	w.execute(`UPDATE merge_batch_request SET cohort = 9 WHERE operation_id IN (?, ?)`, operationID(2), operationID(4))
	w.execute(`UPDATE merge_batch_request SET cohort = 3 WHERE operation_id = ?`, operationID(5))
	w.execute(`UPDATE merge_batch_request SET created_at = `+past(db)+` WHERE operation_id = ?`, operationID(3))
	got, err := w.store.Waiting(t.Context(), w.queue.ID)
	w.must(err)
	if got.Fresh != 2 || got.OldestAge < time.Hour || got.OldestAge > 2*time.Hour || !slices.Equal(got.Cohorts, []bot.Cohort{{ID: 3, Size: 1}, {ID: 9, Size: 2}}) {
		t.Errorf("waiting %+v", got)
	}
	w.claim(w.queue, 1)
	if got, err := w.store.Waiting(t.Context(), w.queue.ID); err != nil || got.Fresh != 1 {
		t.Errorf("waiting %+v %v, want the claimed one gone", got, err)
	}
}

func queuesWatching(t *testing.T, db Database) {
	w := newWorld(t, db)
	other := w.newQueue("other")
	w.admit(w.queue, 1)
	w.admit(other, 2, 3)
	mainBatch, otherBatch := w.claim(w.queue, 1), w.claim(other, 1)
	if _, ok, err := w.store.RecordBuild(t.Context(), mainBatch.Batch.Guard(), build(mainBatch, 2001, 1)); err != nil || !ok {
		t.Fatal(ok, err)
	}
	for commit, want := range map[string][]int64{
		"":        {w.queue.ID, other.ID},
		sha(2001): {w.queue.ID},
		sha(2):    {other.ID},
		sha(3):    nil, // waits
		sha(99):   nil,
	} {
		if got, err := w.store.QueuesWatching(t.Context(), w.repo.ID, commit); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q is watched by %v %v, want %v", commit, got, err, want)
		}
	}
	if got, err := w.store.QueuesWatching(t.Context(), w.repo.ID+1, ""); err != nil || len(got) != 0 {
		t.Errorf("another repository: %v %v", got, err)
	}
	w.settle(otherBatch, bot.BatchFailed, bot.OperationFailed)
	if got, err := w.store.QueuesWatching(t.Context(), w.repo.ID, ""); err != nil || !slices.Equal(got, []int64{w.queue.ID}) {
		t.Errorf("after one ended: %v %v", got, err)
	}
}

func batchMR(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1)
	claimed := w.claim(w.queue, 1)
	find := func(repositoryID int64, number int) (int64, bool) {
		batch, ok, err := w.store.BatchMR(t.Context(), repositoryID, number)
		w.must(err)
		return batch.ID, ok
	}
	if _, ok := find(w.repo.ID, 0); ok {
		t.Error("a batch without a merge request was found")
	}
	if _, ok, err := w.store.ChangeBatch(t.Context(), claimed.Batch.Guard(), bot.BatchChange{Phase: bot.PhaseOpened, MRNumber: 77}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if id, ok := find(w.repo.ID, 77); !ok || id != claimed.Batch.ID {
		t.Errorf("found %d %v", id, ok)
	}
	for _, no := range [][2]int64{{w.repo.ID, 1}, {w.repo.ID + 1, 77}} {
		if id, ok := find(no[0], int(no[1])); ok {
			t.Errorf("%v is batch %d", no, id)
		}
	}
}

func parkQueue(t *testing.T, db Database) {
	w := newWorld(t, db)
	park := func(reason string) {
		t.Helper()
		w.must(w.store.ParkQueue(t.Context(), w.queue.ID, reason))
	}
	state := func() (bot.QueueState, string, int64) {
		queue, _, err := w.store.ReadQueue(t.Context(), w.queue.ID)
		w.must(err)
		return queue.State, queue.Reason, queue.Version - w.queue.Version
	}
	park("the runner is broken")
	park("something else")
	if s, reason, writes := state(); s != bot.QueueParked || reason != "the runner is broken" || writes != 1 {
		t.Errorf("%s because %q after %d writes, want the first reason kept", s, reason, writes)
	}
	w.execute(`UPDATE queue SET status = 2, reason = 'by hand'`)
	park("the runner is broken")
	if s, reason, _ := state(); s != bot.QueuePaused || reason != "by hand" {
		t.Errorf("a person's pause became %s because %q", s, reason)
	}
}
