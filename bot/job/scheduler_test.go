package job_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/job"
	"github.com/batchbot/batchbot/store"
)

func nothing(context.Context) (string, error) { return "", nil }

// hold is a job that works until its context ends.
func hold(ctx context.Context) (string, error) {
	<-ctx.Done()
	return "", ctx.Err()
}

func TestAJobRunsSoonAfterTheStartAndThenBySchedule(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, began, ran := newTicks(), time.Now(), new(tally)
		stop := start(t, job.New(job.Config{Store: db, Jobs: []job.Job{{Name: "sweep", Schedule: job.Every(time.Minute), Run: func(context.Context) (string, error) {
			ran.add(began)
			return "3 swept", nil
		}}}}))
		time.Sleep(4*time.Minute + 30*time.Second)
		synctest.Wait()
		at := ran.seconds()
		if len(at) != 5 || at[0] > 5 || at[4]-at[0] != 240 {
			t.Errorf("ran at %v", at)
		}
		if run := db.row("sweep"); run.Outcome != bot.JobDone || run.Summary != "3 swept" || run.Runs != 5 || run.Skipped != 0 || run.By != "" {
			t.Errorf("%+v", run)
		}
		stop()
		// The next process finds when it was last due, and goes on from there.
		time.Sleep(10 * time.Second)
		stop = start(t, job.New(job.Config{Store: db, Jobs: []job.Job{{Name: "sweep", Schedule: job.Every(time.Minute), Run: nothing}}}))
		defer stop()
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if run := db.row("sweep"); run.Runs != 5 {
			t.Errorf("a restart ran it before its time: %+v", run)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if run := db.row("sweep"); run.Runs != 6 {
			t.Errorf("%+v", run)
		}
	})
}

func TestAPatientJobWaitsForItsFirstTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, began, ran := newTicks(), time.Now(), new(tally)
		stop := start(t, job.New(job.Config{Store: db, Jobs: []job.Job{{Name: "reconcile", Schedule: job.Every(time.Minute), Patient: true, Run: func(context.Context) (string, error) {
			ran.add(began)
			return "", nil
		}}}}))
		defer stop()
		time.Sleep(2*time.Minute + 30*time.Second)
		synctest.Wait()
		if at := ran.seconds(); len(at) != 2 || at[0] < 60 || at[1]-at[0] != 60 {
			t.Errorf("ran at %v", at)
		}
	})
}

func TestAnotherScheduleCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // the bubble begins at midnight UTC on the first day of 2000
		schedule, err := job.ParseSchedule("30 3 * * *")
		if err != nil {
			t.Fatal(err)
		}
		db, began, ran := newTicks(), time.Now(), new(tally)
		defer start(t, job.New(job.Config{Store: db, Jobs: []job.Job{{Name: "cleanup", Schedule: schedule, Run: func(context.Context) (string, error) {
			ran.add(began)
			return "", nil
		}}}}))()
		time.Sleep(52 * time.Hour)
		synctest.Wait()
		at := ran.seconds()
		if len(at) != 4 || at[1] != 3*3600+1800 || at[2] != at[1]+86400 || at[3] != at[2]+86400 {
			t.Errorf("ran at %v", at)
		}
	})
}

// However many instances, and whether their locks can be relied on or not.
func TestEachTickIsRunByOneInstance(t *testing.T) {
	t.Parallel()
	for name, doubt := range map[string]bool{"with locks": false, "with locks that everybody gets": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db := newTicks()
				db.doubt = doubt
				var ran, ended atomic.Int64
				var schedulers []*job.Scheduler
				for range 8 {
					schedulers = append(schedulers, job.New(job.Config{Store: db, Jobs: []job.Job{{Name: "sweep", Schedule: job.Every(time.Minute), Run: func(context.Context) (string, error) {
						ran.Add(1)
						time.Sleep(time.Second)
						return "", nil
					}}}, Ended: func(string, bot.JobOutcome, time.Duration) { ended.Add(1) }}))
				}
				stop := start(t, schedulers...)
				time.Sleep(time.Hour - 10*time.Second)
				stop()
				if n := ran.Load(); n != 60 || ended.Load() != n {
					t.Errorf("ran %d times in an hour, ended %d times", n, ended.Load())
				}
				if run := db.row("sweep"); run.Runs != 60 || run.Skipped != 0 {
					t.Errorf("%+v", run)
				}
			})
		})
	}
}

// The same on the real store, and with ticks of several jobs at the same moments.
func TestEachTickIsRunByOneInstanceOnADatabase(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "batchbot.db")
	synctest.Test(t, func(t *testing.T) {
		var schedulers []*job.Scheduler
		var ran [3]atomic.Int64
		for i := range 4 {
			db, err := store.Open(t.Context(), store.Options{Driver: store.SQLite, Path: path, Env: "test"})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			if i == 0 {
				if err := db.Migrate(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			var jobs []job.Job
			for k := range ran {
				jobs = append(jobs, job.Job{Name: fmt.Sprint("job-", k), Schedule: job.Every(time.Minute), Run: func(context.Context) (string, error) {
					ran[k].Add(1)
					return "", nil
				}})
			}
			schedulers = append(schedulers, job.New(job.Config{Store: db, Jobs: jobs}))
		}
		stop := start(t, schedulers...)
		time.Sleep(20*time.Minute - 10*time.Second)
		stop()
		for k := range ran {
			if n := ran[k].Load(); n != 20 {
				t.Errorf("job %d ran %d times in 20 minutes", k, n)
			}
		}
	})
}

func TestAJobThatOverrunsItsIntervalSkips(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, began, ran, missed := newTicks(), time.Now(), new(tally), new(tally)
		config := job.Config{Store: db, Missed: func(string) { missed.add(began) }, Jobs: []job.Job{{Name: "reconcile", Schedule: job.Every(time.Minute), Run: func(context.Context) (string, error) {
			ran.add(began)
			if len(ran.seconds()) == 1 {
				time.Sleep(150 * time.Second)
			}
			return "", nil
		}}}}
		stop := start(t, job.New(config), job.New(config))
		time.Sleep(4*time.Minute + 30*time.Second)
		stop()
		at, skipped := ran.seconds(), missed.seconds()
		if len(at) != 3 || at[1]-at[0] != 180 || at[2]-at[1] != 60 {
			t.Errorf("ran at %v", at)
		}
		if len(skipped) != 2 || skipped[0]-at[0] != 60 || skipped[1]-at[0] != 120 {
			t.Errorf("skipped at %v, after a start at %d", skipped, at[0])
		}
		if run := db.row("reconcile"); run.Skipped != 2 || run.Runs != 3 || run.Outcome != bot.JobDone {
			t.Errorf("%+v", run)
		}
	})
}

func TestALostLockEndsTheRunAndFreesTheNextTick(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newTicks()
		var cause atomic.Value
		outcomes := make(chan bot.JobOutcome, 10)
		stop := start(t, job.New(job.Config{Store: db, Ended: func(_ string, o bot.JobOutcome, _ time.Duration) { outcomes <- o }, Jobs: []job.Job{{Name: "sweep", Schedule: job.Every(time.Minute),
			Run: func(ctx context.Context) (string, error) {
				if cause.Load() != nil {
					return "done", nil
				}
				<-ctx.Done()
				cause.Store(context.Cause(ctx))
				return "half", ctx.Err()
			}}}}))
		time.Sleep(30 * time.Second)
		db.lose("job/sweep")
		synctest.Wait()
		if o := <-outcomes; o != bot.JobStopped || !errors.Is(cause.Load().(error), errLost) {
			t.Errorf("%s, for %v", o, cause.Load())
		}
		if run := db.row("sweep"); run.Outcome != bot.JobStopped || !strings.Contains(run.Summary, errLost.Error()) {
			t.Errorf("%+v", run)
		}
		time.Sleep(time.Minute)
		stop()
		if o := <-outcomes; o != bot.JobDone || db.row("sweep").Runs != 2 {
			t.Errorf("the next tick: %s, %+v", o, db.row("sweep"))
		}
	})
}

func TestWhatARunMayEndWith(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		run     func(context.Context) (string, error)
		outcome bot.JobOutcome
		summary string
	}{
		"something done":  {func(context.Context) (string, error) { return "2 departures", nil }, bot.JobDone, "2 departures"},
		"an error":        {func(context.Context) (string, error) { return "1 departure", errors.New("host down") }, bot.JobFailed, "1 departure; host down"},
		"a panic":         {func(context.Context) (string, error) { panic("nil map") }, bot.JobFailed, "it panicked: nil map"},
		"no end in sight": {hold, bot.JobFailed, "context deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db := newTicks()
				s := job.New(job.Config{Store: db, Jobs: []job.Job{{Name: "trains", Schedule: job.Every(time.Hour), Limit: time.Minute, Run: test.run}}})
				ended, err := s.RunNow(t.Context(), "trains", "ann")
				if err != nil || ended.Outcome != test.outcome || ended.Summary != test.summary {
					t.Errorf("%+v, %v", ended, err)
				}
				if run := db.row("trains"); run.Outcome != test.outcome || run.Summary != test.summary || run.By != "ann" || run.Ended.IsZero() {
					t.Errorf("%+v", run)
				}
			})
		})
	}
}

func TestStoppingEndsTheRunsAndStoresIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newTicks()
		stop := start(t, job.New(job.Config{Store: db, Jobs: []job.Job{{Name: "sweep", Schedule: job.Every(time.Minute), Run: hold}}}))
		time.Sleep(30 * time.Second)
		stop()
		if run := db.row("sweep"); run.Outcome != bot.JobStopped || run.Ended.IsZero() {
			t.Errorf("%+v", run)
		}
	})
}

func TestADatabaseThatIsAwayIsAskedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newTicks()
		db.fails = errors.New("gone")
		stop := start(t, job.New(job.Config{Store: db, Jobs: []job.Job{{Name: "sweep", Schedule: job.Every(time.Hour), Run: nothing}}}))
		time.Sleep(time.Minute)
		db.mu.Lock()
		db.fails = nil
		db.mu.Unlock()
		time.Sleep(10 * time.Second)
		stop()
		if run := db.row("sweep"); run.Runs != 1 {
			t.Errorf("%+v", run)
		}
	})
}

func TestRunningAJobByHand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newTicks()
		never := job.Schedule{}
		s := job.New(job.Config{Store: db, Jobs: []job.Job{{Name: "sweep", Schedule: job.Every(time.Minute), Run: hold}, {Name: "reconcile", Schedule: never, Run: nothing}}})
		stop := start(t, s)
		time.Sleep(30 * time.Second)
		if _, err := s.RunNow(t.Context(), "sweep", "ann"); !errors.Is(err, job.ErrBusy) {
			t.Errorf("beside another run: %v", err)
		}
		if _, err := s.RunNow(t.Context(), "swep", "ann"); err == nil || err.Error() != `no job "swep": there are sweep, reconcile` {
			t.Errorf("%v", err)
		}
		if run := db.row("reconcile"); run.Runs != 0 {
			t.Errorf("a job without a schedule ran: %+v", run)
		}
		if ended, err := s.RunNow(t.Context(), "reconcile", "ann"); err != nil || ended.Outcome != bot.JobDone {
			t.Errorf("%+v, %v", ended, err)
		}
		stop()
	})
}

func TestSchedules(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 5, 6, 7, 8000, time.UTC)
	for text, want := range map[string]string{
		"5m":           "2026-03-04T05:11:07.000008Z",
		"1s":           "2026-03-04T05:06:08.000008Z",
		"*/10 * * * *": "2026-03-04T05:10:00Z",
		"0 3 * * *":    "2026-03-05T03:00:00Z",
		"0 9 * * MON":  "2026-03-09T09:00:00Z",
	} {
		s, err := job.ParseSchedule(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := s.Next(at.In(time.FixedZone("far", 7*3600))).Format(time.RFC3339Nano); got != want {
			t.Errorf("%s: next %s, want %s", text, got, want)
		}
	}
	for _, text := range []string{"", "soon", "500ms", "0s", "-5m", "200h", "* * * *", "0 0 31 2 *", "61 * * * *", "@daily", "0 0 0 * * *"} {
		if s, err := job.ParseSchedule(text); err == nil {
			t.Errorf("%q is taken for %s", text, s)
		}
	}
	if never := (job.Schedule{}); !never.Next(at).IsZero() || never.String() != "never" {
		t.Error("the zero schedule is due")
	}
}
