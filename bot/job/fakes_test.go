package job_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/job"
)

// ticks keeps the rows of jobs and their locks in memory, by the clock of the test. Its locks may be unreliable.
type ticks struct {
	mu    sync.Mutex
	rows  map[string]bot.JobRun
	locks map[string]context.CancelCauseFunc
	doubt bool // every caller is given every lock, as a cluster may do
	fails error
}

func newTicks() *ticks {
	return &ticks{rows: make(map[string]bot.JobRun), locks: make(map[string]context.CancelCauseFunc)}
}

func (s *ticks) Job(_ context.Context, name string) (bot.JobRun, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	run := s.rows[name]
	run.Name, run.Now = name, time.Now()
	return run, s.fails
}

func (s *ticks) take(seen bot.JobRun, change func(*bot.JobRun)) (bot.JobRun, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	run := s.rows[seen.Name]
	if run.Version != seen.Version || s.fails != nil {
		return bot.JobRun{}, false, s.fails
	}
	run.Name, run.Now, run.Tick = seen.Name, time.Now(), time.Now()
	run.Version++
	change(&run)
	s.rows[seen.Name] = run
	return run, true, nil
}

func (s *ticks) StartJob(_ context.Context, seen bot.JobRun, by string) (bot.JobRun, bool, error) {
	return s.take(seen, func(r *bot.JobRun) {
		r.Runs++
		r.Started, r.Ended, r.Outcome, r.Summary, r.By = r.Tick, time.Time{}, 0, "", by
	})
}

func (s *ticks) SkipJob(_ context.Context, seen bot.JobRun) (bot.JobRun, bool, error) {
	return s.take(seen, func(r *bot.JobRun) { r.Skipped++ })
}

func (s *ticks) EndJob(ctx context.Context, run bot.JobRun, outcome bot.JobOutcome, summary string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.rows[run.Name]; now.Runs == run.Runs && now.Ended.IsZero() {
		now.Ended, now.Outcome, now.Summary = time.Now(), outcome, summary
		now.Version++
		s.rows[run.Name] = now
	}
	return ctx.Err()
}

func (s *ticks) TryLock(ctx context.Context, name string) (context.Context, func(), bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.locks[name] != nil && !s.doubt {
		return nil, nil, false, nil
	}
	held, end := context.WithCancelCause(ctx)
	s.locks[name] = end
	return held, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		end(context.Canceled)
		delete(s.locks, name)
	}, true, nil
}

var errLost = errors.New("the lock was lost")

// lose takes a lock away from its holder.
func (s *ticks) lose(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locks[name](errLost)
	delete(s.locks, name)
}

func (s *ticks) row(name string) bot.JobRun {
	run, _ := s.Job(context.Background(), name)
	return run
}

// tally counts, and notes at which second of the test.
type tally struct {
	mu sync.Mutex
	at []int
}

func (c *tally) add(since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = append(c.at, int(time.Since(since)/time.Second))
}

func (c *tally) seconds() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]int(nil), c.at...)
}

// start runs schedulers until the test is done with them.
func start(t *testing.T, schedulers ...*job.Scheduler) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, s := range schedulers {
		running.Go(func() { s.Run(ctx) })
	}
	return func() {
		cancel()
		running.Wait()
	}
}
