package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/lease"
)

// Job is something to be done from time to time.
type Job struct {
	Name     string
	Schedule Schedule
	// Run does it once, going by what the rows say. It ends soon after ctx does. summary says what it did; empty: there was nothing to do.
	Run   func(ctx context.Context) (summary string, err error)
	Limit time.Duration // the longest that a run takes; default 1 h

	// Patient: one that never ran does not run at the start, when there is nothing for it yet, but where its schedule has it next.
	Patient bool
}

// Store keeps the ticks, by the database's clock, and the locks. Implemented by store.
type Store interface {
	// Job reads what is known of a job; Version 0: it was never due.
	Job(ctx context.Context, name string) (bot.JobRun, error)
	// StartJob takes a tick by starting a run; ok false: the job is not as it was seen, or nobody can tell.
	StartJob(ctx context.Context, seen bot.JobRun, by string) (run bot.JobRun, ok bool, err error)
	// SkipJob takes a tick without a run; ok as in StartJob.
	SkipJob(ctx context.Context, seen bot.JobRun) (run bot.JobRun, ok bool, err error)
	// EndJob writes how a run ended, if it is still the last one.
	EndJob(ctx context.Context, run bot.JobRun, outcome bot.JobOutcome, summary string) error
	// TryLock takes name without waiting; ok false: another holder. held is ctx and ends as well when the lock is lost.
	TryLock(ctx context.Context, name string) (held context.Context, release func(), ok bool, err error)
}

// Config is what a Scheduler needs.
type Config struct {
	Store  Store
	Jobs   []Job
	Spread time.Duration                                                 // the first look comes within so much of the start; default 5 s
	Retry  time.Duration                                                 // until the next look where a job is due and cannot be started; default 5 s
	Ended  func(name string, outcome bot.JobOutcome, took time.Duration) // called after every run; nil: nobody is told
	Missed func(name string)                                             // called for every tick that is skipped; nil: nobody is told
	Logger *slog.Logger                                                  // nil: silent
}

// Scheduler runs jobs when they are due. Any number of instances may run the same.
type Scheduler struct{ config Config }

// New returns a scheduler with the defaults filled in.
func New(c Config) *Scheduler {
	c.Spread = cmp.Or(c.Spread, 5*time.Second)
	c.Retry = cmp.Or(c.Retry, 5*time.Second)
	c.Jobs = slices.Clone(c.Jobs)
	for i := range c.Jobs {
		c.Jobs[i].Limit = cmp.Or(c.Jobs[i].Limit, time.Hour)
	}
	if c.Ended == nil {
		c.Ended = func(string, bot.JobOutcome, time.Duration) {}
	}
	if c.Missed == nil {
		c.Missed = func(string) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Scheduler{c}
}

// Jobs lists the jobs in their order.
func (s *Scheduler) Jobs() []Job { return slices.Clone(s.config.Jobs) }

// Run runs the jobs when they are due until ctx ends, and returns when the last run that was under way has.
func (s *Scheduler) Run(ctx context.Context) {
	began := time.Now()
	var jobs sync.WaitGroup
	defer jobs.Wait()
	for _, j := range s.config.Jobs {
		if j.Schedule.times == nil {
			continue // only when it is asked for
		}
		jobs.Go(func() {
			for wait := lease.Jitter(s.config.Spread); pause(ctx, wait); {
				wait = s.look(ctx, j, began)
			}
		})
	}
}

// look runs a job if it is due and says when to look again. began is when this scheduler did.
func (s *Scheduler) look(ctx context.Context, j Job, began time.Time) (wait time.Duration) {
	log := s.config.Logger.With("job", j.Name)
	later := func(doing string, err error) time.Duration {
		if ctx.Err() == nil {
			log.Warn(doing, "error", err)
		}
		return s.later()
	}
	seen, err := s.config.Store.Job(ctx, j.Name)
	if err != nil {
		return later("could not read when the job was last due", err)
	}
	if wait := untilDue(j, seen); wait > 0 {
		return wait
	}
	if j.Patient && seen.Tick.IsZero() {
		if wait := time.Until(j.Schedule.Next(began)); wait > 0 {
			return wait
		}
	}
	held, release, ok, err := s.config.Store.TryLock(ctx, Lock(j.Name))
	if err != nil {
		return later("could not take the lock of the job", err)
	}
	if !ok {
		return s.later() // another instance takes this tick, or is not done with the one before
	}
	defer release()
	run, ok, err := s.config.Store.StartJob(ctx, seen, "")
	if err != nil {
		return later("could not start the job", err)
	}
	if ok {
		s.perform(held, j, run)
	}
	return 0
}

// Lock names the advisory lock of a job.
func Lock(name string) string { return "job/" + name }

// later spreads instances that found the same in their way.
func (s *Scheduler) later() time.Duration { return s.config.Retry/2 + lease.Jitter(s.config.Retry/2) }

// untilDue is how long it is until the next tick, by the clock the row was read with; 0 or less: it has come.
func untilDue(j Job, seen bot.JobRun) time.Duration {
	if seen.Tick.IsZero() {
		return 0
	}
	next := j.Schedule.Next(seen.Tick)
	if next.IsZero() {
		return 24 * time.Hour // never, as far as the schedule can tell
	}
	return next.Sub(seen.Now)
}

// Ended is how a run ended.
type Ended struct {
	Outcome bot.JobOutcome
	Summary string
	Took    time.Duration
}

// perform does a run that was started, and skips the ticks that come meanwhile.
func (s *Scheduler) perform(held context.Context, j Job, run bot.JobRun) Ended {
	ended := make(chan Ended, 1)
	go func() { ended <- s.do(held, j, run) }()
	tick := time.NewTimer(max(untilDue(j, run), 0))
	if j.Schedule.times == nil {
		tick.Stop()
	}
	defer tick.Stop()
	for {
		select {
		case e := <-ended:
			return e
		case <-tick.C:
		}
		if held.Err() != nil {
			return <-ended // the ticks belong to whoever has the lock now
		}
		tick.Reset(s.skip(held, j, run))
	}
}

// skip takes a tick that came while run is under way, if it did, and returns how long until the next.
func (s *Scheduler) skip(held context.Context, j Job, run bot.JobRun) time.Duration {
	log := s.config.Logger.With("job", j.Name)
	seen, err := s.config.Store.Job(held, j.Name)
	if err == nil && seen.Runs == run.Runs && seen.Ended.IsZero() && untilDue(j, seen) <= 0 {
		var ok bool
		if seen, ok, err = s.config.Store.SkipJob(held, seen); ok {
			log.Warn("a job overruns its interval: this tick is skipped", "schedule", j.Schedule.String(), "running_for", seen.Now.Sub(seen.Started).Round(time.Second).String())
			s.config.Missed(j.Name)
			return untilDue(j, seen)
		}
	}
	if err != nil && held.Err() == nil {
		log.Warn("could not skip a tick of the job", "error", err)
	}
	return max(untilDue(j, seen), s.later())
}

// do does a run and stores its outcome, whatever became of its context.
func (s *Scheduler) do(held context.Context, j Job, run bot.JobRun) Ended {
	log := s.config.Logger.With("job", j.Name)
	began := time.Now()
	e := Ended{Outcome: bot.JobDone}
	summary, err := s.protected(held, j, log)
	e.Took, e.Summary = time.Since(began), summary
	switch {
	case err == nil:
		if summary == "" {
			log.Debug("job done", "took", e.Took.String())
		} else {
			log.Info("job done", "did", summary, "took", e.Took.String())
		}
	case held.Err() != nil:
		e.Outcome, e.Summary = bot.JobStopped, fmt.Sprintf("stopped before it was done: %v", context.Cause(held))
		log.Info("job stopped before it was done", "cause", context.Cause(held), "took", e.Took.String())
	default:
		e.Outcome, e.Summary = bot.JobFailed, strings.TrimPrefix(summary+"; "+err.Error(), "; ")
		log.Warn("job failed", "error", err, "did", summary, "took", e.Took.String())
	}
	storing, cancel := context.WithTimeout(context.WithoutCancel(held), 5*time.Second)
	defer cancel()
	if err := s.config.Store.EndJob(storing, run, e.Outcome, e.Summary); err != nil {
		log.Warn("could not store how the job ended", "error", err)
	}
	s.config.Ended(j.Name, e.Outcome, e.Took)
	return e
}

// protected is Run within its limit, whose panic is its own failure.
func (s *Scheduler) protected(ctx context.Context, j Job, log *slog.Logger) (summary string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, j.Limit, fmt.Errorf("it took longer than %s", j.Limit))
	defer cancel()
	defer func() {
		if caught := recover(); caught != nil {
			log.Error("a job panicked", "panic", fmt.Sprint(caught), "stack", string(debug.Stack()))
			err = fmt.Errorf("it panicked: %v", caught)
		}
	}()
	return j.Run(ctx)
}

// ErrBusy says that a job is being run.
var ErrBusy = errors.New("an instance is running it right now")

// UnknownError says that no job has this name.
type UnknownError struct {
	Name  string
	Known []string
}

func (e UnknownError) Error() string {
	return fmt.Sprintf("no job %q: there are %s", e.Name, strings.Join(e.Known, ", "))
}

// RunNow runs a job at once, whether it is due or not; a schedule of a duration goes on from then. by is who asked for it. An error is an
// UnknownError, ErrBusy, or that of the database: how the run ended is a value.
func (s *Scheduler) RunNow(ctx context.Context, name, by string) (Ended, error) {
	i := slices.IndexFunc(s.config.Jobs, func(j Job) bool { return j.Name == name })
	if i < 0 {
		unknown := UnknownError{Name: name}
		for _, j := range s.config.Jobs {
			unknown.Known = append(unknown.Known, j.Name)
		}
		return Ended{}, unknown
	}
	j := s.config.Jobs[i]
	held, release, ok, err := s.config.Store.TryLock(ctx, Lock(name))
	switch {
	case err != nil:
		return Ended{}, err
	case !ok:
		return Ended{}, fmt.Errorf("job %s: %w", name, ErrBusy)
	}
	defer release()
	for range 3 { // somebody whose lock was lost may write the row between read and start
		seen, err := s.config.Store.Job(ctx, name)
		if err != nil {
			return Ended{}, err
		}
		run, ok, err := s.config.Store.StartJob(ctx, seen, by)
		if err != nil {
			return Ended{}, err
		}
		if ok {
			return s.perform(held, j, run), nil
		}
	}
	return Ended{}, fmt.Errorf("job %s: %w", name, ErrBusy)
}

// pause waits for d; false means that ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}
