package storetest

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/store"
)

var jobTests = tests{
	"a tick is taken once, by however many":            jobTickOnce,
	"a run is started, skipped beside, and ended":      jobRuns,
	"a run that is not the last any more ends nothing": jobLateEnd,
	"overdue batches are found, the oldest first":      overdueQueues,
}

func (w *world) job(name string) bot.JobRun {
	w.Helper()
	run, err := w.store.Job(w.Context(), name)
	w.must(err)
	return run
}

func (w *world) start(seen bot.JobRun, by string) bot.JobRun {
	w.Helper()
	run, ok, err := w.store.StartJob(w.Context(), seen, by)
	if err != nil || !ok {
		w.Fatalf("starting %s: %v, %v", seen.Name, ok, err)
	}
	return run
}

func jobTickOnce(t *testing.T, db Database) {
	w := newWorld(t, db)
	stores := []*store.Store{w.store, db.Open(t), db.Open(t)}
	for round := range 3 { // the first finds no row
		seen := w.job("sweep")
		var taken atomic.Int64
		var group sync.WaitGroup
		for i := range 12 {
			group.Go(func() {
				_, ok, err := stores[i%3].StartJob(t.Context(), seen, "")
				if err != nil {
					t.Error(err)
				}
				if ok {
					taken.Add(1)
				}
			})
		}
		group.Wait()
		if n := taken.Load(); n != 1 {
			t.Errorf("%d took one tick", n)
		}
		if now := w.job("sweep"); now.Runs != int64(round+1) || now.Version != seen.Version+1 {
			t.Errorf("%+v", now)
		}
	}
}

func jobRuns(t *testing.T, db Database) {
	w := newWorld(t, db)
	never := w.job("sweep")
	if never.Version != 0 || !never.Tick.IsZero() || never.Now.IsZero() || never.Name != "sweep" {
		t.Errorf("before the first run: %+v", never)
	}
	if _, ok, err := w.store.SkipJob(t.Context(), never); err != nil || ok {
		t.Errorf("nothing runs, and a tick is skipped: %v, %v", ok, err)
	}
	run := w.start(never, "ann")
	if run.Runs != 1 || run.Started.IsZero() || !run.Ended.IsZero() || run.Outcome != 0 || run.By != "ann" || run.Tick.Before(never.Now) {
		t.Errorf("started: %+v", run)
	}
	if _, ok, err := w.store.StartJob(t.Context(), never, ""); err != nil || ok {
		t.Errorf("a tick was taken twice: %v, %v", ok, err)
	}
	skipped, ok, err := w.store.SkipJob(t.Context(), run)
	if err != nil || !ok || skipped.Skipped != 1 || skipped.Runs != 1 || !skipped.Started.Equal(run.Started) || skipped.Tick.Before(run.Tick) {
		t.Errorf("skipped: %+v, %v, %v", skipped, ok, err)
	}
	if _, ok, err := w.store.SkipJob(t.Context(), run); err != nil || ok {
		t.Errorf("a tick was skipped twice: %v, %v", ok, err)
	}
	w.must(w.store.EndJob(t.Context(), run, bot.JobFailed, strings.Repeat("ä", 3000)))
	ended := w.job("sweep")
	if ended.Outcome != bot.JobFailed || ended.Ended.Before(ended.Started) || len([]rune(ended.Summary)) != 2000 {
		t.Errorf("ended: %+v", ended)
	}
	w.must(w.store.EndJob(t.Context(), run, bot.JobDone, "again"))
	if now := w.job("sweep"); now.Outcome != bot.JobFailed || now.Version != ended.Version {
		t.Errorf("ended twice: %+v", now)
	}
	next := w.start(ended, "")
	if next.Runs != 2 || next.Skipped != 1 || !next.Ended.IsZero() || next.Outcome != 0 || next.Summary != "" || next.By != "" {
		t.Errorf("started again: %+v", next)
	}
	w.start(w.job("cleanup"), "")
	list, err := w.store.Jobs(t.Context())
	if err != nil || len(list) != 2 || list[0].Runs+list[1].Runs != 3 {
		t.Errorf("%+v, %v", list, err)
	}
}

func jobLateEnd(t *testing.T, db Database) {
	w := newWorld(t, db)
	first := w.start(w.job("sweep"), "")
	second := w.start(w.job("sweep"), "")
	w.must(w.store.EndJob(t.Context(), first, bot.JobDone, "late"))
	if now := w.job("sweep"); !now.Ended.IsZero() || now.Runs != second.Runs {
		t.Errorf("a run that was over ended the next: %+v", now)
	}
}

func overdueQueues(t *testing.T, db Database) {
	w := newWorld(t, db)
	queues := []bot.Queue{w.queue, w.newQueue("a"), w.newQueue("b"), w.newQueue("c")}
	for i, q := range queues {
		w.admit(q, i+1)
		w.claim(q, 1)
	}
	w.execute(`UPDATE merge_batch SET deadline_at = `+ago(db, time.Second)+` WHERE queue_id = ?`, queues[1].ID)
	w.execute(`UPDATE merge_batch SET deadline_at = `+ago(db, time.Minute)+` WHERE queue_id = ?`, queues[2].ID)
	w.execute(`UPDATE merge_batch SET deadline_at = `+ago(db, time.Hour)+`, status = 4 WHERE queue_id = ?`, queues[3].ID)
	list, err := w.store.OverdueQueues(t.Context())
	if err != nil || len(list) != 2 || list[0] != queues[2].ID || list[1] != queues[1].ID {
		t.Errorf("%v, %v", list, err)
	}
}
