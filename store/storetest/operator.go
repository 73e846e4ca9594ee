package storetest

import (
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
)

var operatorTests = tests{
	"queues are listed with what waits and what is active": listQueues,
	"a parked queue is resumed, once":                      resumeParked,
	"a paused queue is not parked over, and resumes":       pauseAndResume,
	"a resumed batch has its whole time again":             resumeRenewsDeadline,
}

func listQueues(t *testing.T, db Database) {
	w := newWorld(t, db)
	release := w.newQueue("release")
	w.admit(w.queue, 1, 2, 3)
	batch := w.claim(w.queue, 2).Batch
	w.apply(w.application(release, 4, false))
	list, err := w.store.ListQueues(t.Context())
	w.must(err)
	if len(list) != 2 {
		t.Fatalf("%d queues, want 2", len(list))
	}
	first, second := list[0], list[1]
	if first.Name() != "forge/fruit/basket:main" || first.Waiting != 1 || first.PendingApproval != 0 || first.Batch == nil || first.Batch.ID != batch.ID {
		t.Errorf("main: %+v", first)
	}
	if second.Name() != "forge/fruit/basket:release" || second.Waiting != 0 || second.PendingApproval != 1 || second.Batch != nil {
		t.Errorf("release: %+v", second)
	}
}

func resumeParked(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.must(w.store.ParkQueue(t.Context(), w.queue.ID, "NO_CI: no check appeared"))
	for i, want := range []bool{true, false} {
		changed, err := w.store.ResumeQueue(t.Context(), w.queue.ID, "olga")
		w.must(err)
		if changed != want {
			t.Errorf("resume %d: changed %t, want %t", i+1, changed, want)
		}
	}
	queue, _, err := w.store.ReadQueue(t.Context(), w.queue.ID)
	w.must(err)
	if queue.State != bot.QueueOpen || queue.Reason != "" {
		t.Errorf("after resume: %+v", queue)
	}
	if n := value[int](w, `SELECT COUNT(*) FROM audit WHERE actor = 'olga' AND action = 'resume queue' AND detail LIKE 'NO_CI%'`); n != 1 {
		t.Errorf("%d audit rows, want 1", n)
	}
}

func pauseAndResume(t *testing.T, db Database) {
	w := newWorld(t, db)
	changed, err := w.store.PauseQueue(t.Context(), w.queue.ID, "olga", "release day")
	w.must(err)
	if !changed {
		t.Error("an open queue is not paused")
	}
	w.must(w.store.ParkQueue(t.Context(), w.queue.ID, "something else"))
	queue, _, err := w.store.ReadQueue(t.Context(), w.queue.ID)
	w.must(err)
	if queue.State != bot.QueuePaused || queue.Reason != "release day" {
		t.Errorf("after parking: %+v", queue)
	}
	w.admit(w.queue, 1)
	result, err := w.store.Claim(t.Context(), claimSpec(w.queue, 5))
	w.must(err)
	if result.Outcome != bot.ClaimQueueClosed {
		t.Errorf("a paused queue: %s", result.Outcome)
	}
	if changed, err = w.store.ResumeQueue(t.Context(), w.queue.ID, "olga"); err != nil || !changed {
		t.Errorf("resume: %t, %v", changed, err)
	}
	w.claim(w.queue, 5)
}

func resumeRenewsDeadline(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1)
	spec := claimSpec(w.queue, 5)
	spec.Timeout = time.Microsecond
	claimed, err := w.store.Claim(t.Context(), spec)
	w.must(err)
	if _, err = w.store.PauseQueue(t.Context(), w.queue.ID, "olga", ""); err != nil {
		t.Fatal(err)
	}
	before, _, _, err := w.store.ActiveBatch(t.Context(), w.queue.ID)
	w.must(err)
	if !before.Overdue {
		t.Fatal("a deadline of one microsecond is not over")
	}
	if _, err = w.store.ResumeQueue(t.Context(), w.queue.ID, "olga"); err != nil {
		t.Fatal(err)
	}
	after, _, _, err := w.store.ActiveBatch(t.Context(), w.queue.ID)
	w.must(err)
	if after.ID != claimed.Batch.ID || after.Overdue || after.Version <= before.Version {
		t.Errorf("after resume: %+v", after)
	}
}
