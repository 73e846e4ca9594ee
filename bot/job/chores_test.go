package job_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/job"
	"github.com/batchbot/batchbot/store"
)

// records expires so many at each call, and purges.
type records struct {
	expired []int
	purged  int
	fails   error
}

func (r *records) ExpireOperations(context.Context, int) (int, error) {
	if len(r.expired) == 0 {
		return 0, r.fails
	}
	n := r.expired[0]
	r.expired = r.expired[1:]
	return n, nil
}

func (r *records) PurgeOld(context.Context) error {
	r.purged++
	return nil
}

func TestCleanup(t *testing.T) {
	t.Parallel()
	nudged := 0
	run := func(r *records) (string, error) {
		return job.Cleanup(r, func() { nudged++ })(t.Context())
	}
	if did, err := run(&records{}); did != "" || err != nil || nudged != 0 {
		t.Errorf("nothing to do: %q, %v, %d nudges", did, err, nudged)
	}
	r := &records{expired: []int{200, 3, 5}}
	if did, err := run(r); did != "203 operations expired" || err != nil || nudged != 1 || r.purged != 1 || len(r.expired) != 1 {
		t.Errorf("%q, %v, %d nudges, %+v", did, err, nudged, r)
	}
	r = &records{expired: []int{200}, fails: errors.New("down")}
	if did, err := run(r); did != "200 operations expired" || err == nil || r.purged != 1 {
		t.Errorf("what fails keeps nothing else from being done: %q, %v, %+v", did, err, r)
	}
}

type overdue []int64

func (o overdue) OverdueQueues(context.Context) ([]int64, error) { return o, nil }

func TestSweep(t *testing.T) {
	t.Parallel()
	var driven []int64
	drive := func(_ context.Context, queues []int64) error {
		driven = append(driven, queues...)
		return nil
	}
	if did, err := job.Sweep(overdue(nil), drive)(t.Context()); did != "" || err != nil || len(driven) != 0 {
		t.Errorf("%q, %v, %v", did, err, driven)
	}
	if did, err := job.Sweep(overdue{7, 3}, drive)(t.Context()); did != "2 overdue batches looked at" || err != nil || !slices.Equal(driven, []int64{7, 3}) {
		t.Errorf("%q, %v, %v", did, err, driven)
	}
}

// office is a database with one queue whose merge requests wait for their approvals.
type office struct {
	*store.Store
	t     *testing.T
	repo  bot.Repository
	queue bot.Queue
	path  string
}

func newOffice(t *testing.T, path string, policy bot.ReminderPolicy) *office {
	t.Helper()
	o := &office{t: t, path: path}
	o.Store = o.open()
	if err := o.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	var err error
	o.repo, err = o.UpsertRepository(t.Context(), bot.RepositoryRef{Host: "forge", ExternalID: 1, Path: "fruit/basket", DefaultBranch: "main"})
	if err != nil {
		t.Fatal(err)
	}
	o.settings(policy)
	return o
}

func (o *office) settings(policy bot.ReminderPolicy) {
	o.t.Helper()
	settings := bot.DefaultQueueSettings("main")
	settings.Reminders = policy
	var err error
	if o.queue, err = o.UpsertQueue(o.t.Context(), o.repo.ID, settings, ""); err != nil {
		o.t.Fatal(err)
	}
}

func (o *office) open() *store.Store {
	o.t.Helper()
	db, err := store.Open(o.t.Context(), store.Options{Driver: store.SQLite, Path: o.path, Env: "test"})
	if err != nil {
		o.t.Fatal(err)
	}
	return db
}

func (o *office) apply(number int) {
	o.t.Helper()
	id := operationID(number)
	result, err := o.Apply(o.t.Context(), bot.Application{
		OperationID: id, QueueID: o.queue.ID, Repository: o.repo, Lane: bot.LaneNormal, ExpiresIn: 30 * 24 * time.Hour, Detail: "1 of 2 approvals",
		MR:      bot.MRSnapshot{Number: number, Title: "Change", Author: bot.Actor{ID: 1, Login: "ann"}, State: bot.MROpen, HeadSHA: "1111111111111111111111111111111111111111", Target: "main"},
		Command: bot.CommandRef{RequestID: "forge:issue:" + id, Order: bot.CommandOrder{At: int64(number), ID: int64(number)}, By: "ann", Verb: "batch", Source: "test"},
	})
	if err != nil || result.Outcome != bot.ApplyDone {
		o.t.Fatal(result, err)
	}
}

func operationID(number int) string {
	return "00000000-0000-4000-8000-00000000000" + string(rune('0'+number))
}

func (o *office) move(number int, to bot.OperationStatus) {
	o.t.Helper()
	view, err := o.OperationView(o.t.Context(), operationID(number))
	if err != nil {
		o.t.Fatal(err)
	}
	op := view.Operation
	result, err := o.Move(o.t.Context(), bot.Move{OperationID: op.ID, From: op.Status, Version: op.Version, To: to, Reason: bot.ReasonUnapproved, By: "ann", Source: "test"})
	if err != nil || result != bot.MoveDone {
		o.t.Fatal(result, err)
	}
}

// remind runs the job once and returns the reminders it had said.
func (o *office) remind() (targets []string) {
	o.t.Helper()
	if _, err := job.Remind(o.Store, func() {})(o.t.Context()); err != nil {
		o.t.Fatal(err)
	}
	return o.said()
}

// said takes the reminders out of the outbox.
func (o *office) said() (targets []string) {
	o.t.Helper()
	errands, err := o.ClaimErrands(o.t.Context(), 100, time.Minute)
	if err != nil {
		o.t.Fatal(err)
	}
	for _, e := range errands {
		if e.Kind == bot.ErrandReminder {
			targets = append(targets, e.Target)
		}
		if err := o.FinishErrand(o.t.Context(), e); err != nil {
			o.t.Fatal(err)
		}
	}
	return targets
}

func inOffice(t *testing.T, policy bot.ReminderPolicy, f func(o *office)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "batchbot.db")
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t, path, policy)
		defer func() { _ = o.Close() }()
		f(o)
	})
}

const hour = time.Hour

func TestAReminderIsSaidOnceAnIntervalAndAgainAfterComingBack(t *testing.T) {
	t.Parallel()
	inOffice(t, bot.ReminderPolicy{Approvers: 72 * hour, Every: 168 * hour}, func(o *office) {
		o.apply(1)
		time.Sleep(71 * hour)
		if said := o.remind(); len(said) != 0 {
			o.t.Errorf("before its time: %v", said)
		}
		time.Sleep(2 * hour)
		first := o.remind()
		if len(first) != 1 {
			o.t.Fatalf("once it is due: %v", first)
		}
		for range 8 * 24 { // the whole interval long, and what is done is purged meanwhile
			time.Sleep(hour)
			if len(o.said())+len(o.remind()) != 0 && time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) < (72+168)*hour {
				o.t.Fatal("said twice in one interval")
			}
			if err := o.PurgeOld(o.t.Context()); err != nil {
				o.t.Fatal(err)
			}
		}
		o.move(1, bot.OperationWaiting)
		o.move(1, bot.OperationPendingApproval)
		if said := o.remind(); len(said) != 0 {
			o.t.Errorf("it came back a moment ago: %v", said)
		}
		time.Sleep(73 * hour)
		if again := o.remind(); len(again) != 1 || again[0] == first[0] {
			o.t.Errorf("after coming back: %v, before %v", again, first)
		}
		o.settings(bot.ReminderPolicy{})
		time.Sleep(200 * hour)
		if said := o.remind(); len(said) != 0 {
			o.t.Errorf("nobody wants reminders: %v", said)
		}
	})
}

func TestWithoutAnIntervalAReminderIsSaidOnce(t *testing.T) {
	t.Parallel()
	inOffice(t, bot.ReminderPolicy{Approvers: hour}, func(o *office) {
		o.apply(1)
		total := 0
		for range 100 {
			time.Sleep(24 * hour)
			total += len(o.remind())
			if err := o.PurgeOld(o.t.Context()); err != nil {
				o.t.Fatal(err)
			}
		}
		if total != 1 {
			o.t.Errorf("said %d times", total)
		}
	})
}

func TestWhatFallsDueInQuietHoursIsSaidWhenTheyEnd(t *testing.T) {
	t.Parallel()
	quiet := bot.QuietHours{From: 20 * hour, To: 8 * hour, TimeZone: "Europe/Berlin", Weekends: true}
	inOffice(t, bot.ReminderPolicy{Approvers: hour, Quiet: quiet}, func(o *office) { // it is a Saturday, 01:00 in Berlin
		o.apply(1)
		for range 54 { // until Monday, 07:00 there
			time.Sleep(hour)
			if said := o.remind(); len(said) != 0 {
				o.t.Fatalf("said at %s", time.Now())
			}
		}
		time.Sleep(hour)
		if said := o.remind(); len(said) != 1 {
			o.t.Errorf("at %s: %v", time.Now(), said)
		}
	})
}

func TestEightInstancesRemindAtOnceAndSayItOnce(t *testing.T) {
	t.Parallel()
	inOffice(t, bot.ReminderPolicy{Approvers: hour, Every: hour}, func(o *office) {
		for n := range 3 {
			o.apply(n + 1)
		}
		time.Sleep(hour + time.Minute)
		var nudged atomic.Int64
		var group sync.WaitGroup
		for range 8 {
			db := o.open()
			defer func() { _ = db.Close() }()
			group.Go(func() {
				if _, err := job.Remind(db, func() { nudged.Add(1) })(o.t.Context()); err != nil {
					o.t.Error(err)
				}
			})
		}
		group.Wait()
		if said := o.said(); len(said) != 3 || nudged.Load() == 0 {
			o.t.Errorf("%v, %d nudges", said, nudged.Load())
		}
	})
}
