package round

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/lease"
)

// Config is what a Driver needs. Zero durations and functions have defaults.
type Config struct {
	Store       Store
	Locks       Locks
	Hosts       map[string]bot.Host // by configured name
	Git         bot.Git
	Logger      *slog.Logger
	Poll        time.Duration // safety net between looks at all queues with work; default 15 s
	Parallel    int           // queues of one host worked on at once, half of them of one repository at most; default 8
	TickLimit   time.Duration // a tick that takes longer is abandoned between its steps; default 30 min, longer than a first fetch takes
	NudgeOutbox func()        // called after each write that has something to say
	NewToken    func() string // 8 hex digits; default random
}

// Driver works on the queues of this instance. Any number of instances may drive the same queues.
type Driver struct {
	Config
	mu       sync.Mutex
	due      map[int64]time.Time   // queue → when to look; a nudge makes it now
	failures map[int64]int         // consecutive failed ticks, for the back-off
	places   map[int64]lease.Place // queue → whom its ticks call; it never changes
	slots    *lease.Slots
	wake     chan struct{}
}

// New returns a driver with the defaults filled in.
func New(c Config) *Driver {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Poll <= 0 {
		c.Poll = 15 * time.Second
	}
	if c.Parallel <= 0 {
		c.Parallel = 8
	}
	if c.TickLimit <= 0 {
		c.TickLimit = 30 * time.Minute
	}
	if c.NudgeOutbox == nil {
		c.NudgeOutbox = func() {}
	}
	if c.NewToken == nil {
		c.NewToken = randomToken
	}
	return &Driver{
		Config: c, due: make(map[int64]time.Time), failures: make(map[int64]int), wake: make(chan struct{}, 1),
		places: make(map[int64]lease.Place), slots: lease.NewSlots(c.Parallel),
	}
}

// Nudge asks for a look at a queue soon: at once, or in a few seconds where the last look failed, so that a stream of events does not
// hammer a host in trouble. It never blocks.
func (d *Driver) Nudge(queueID int64) {
	at := time.Now()
	d.mu.Lock()
	if d.failures[queueID] > 0 {
		at = at.Add(calm)
	}
	d.mu.Unlock()
	d.schedule(queueID, at)
}

// calm is the least pause before a queue whose last look failed is looked at again because of an event.
const calm = 5 * time.Second

func (d *Driver) schedule(queueID int64, at time.Time) {
	d.mu.Lock()
	if old, ok := d.due[queueID]; !ok || at.Before(old) {
		d.due[queueID] = at
	}
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Result says what one tick of a queue did.
type Result struct {
	Did   string        // for logs: what was done or why nothing was
	Again bool          // something changed: look again at once
	After time.Duration // with Again false: look again after this long; 0 = at the next poll
	Batch int64         // the batch worked on, 0 = none
}

// Run looks at queues until ctx ends, and returns nil then. A tick that is under way when ctx ends is abandoned between its steps; the rows say
// where it stood.
func (d *Driver) Run(ctx context.Context) error {
	var ticks sync.WaitGroup
	defer ticks.Wait()
	running := make(map[int64]bool)
	finished := make(chan int64)
	poll := time.NewTimer(0)
	defer poll.Stop()
	next := time.NewTimer(time.Hour)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			go func() { // the ticks report to nobody any more
				for range finished {
				}
			}()
			ticks.Wait()
			close(finished)
			return nil
		case <-poll.C:
			d.pollQueues(ctx)
			poll.Reset(d.Poll)
		case <-d.wake:
		case <-next.C:
		case id := <-finished:
			delete(running, id)
		}
		due, soonest := d.takeDue(running)
		for _, id := range due {
			running[id] = true
			ticks.Go(func() {
				_ = d.drive(ctx, id) // it has said and planned what follows
				finished <- id
			})
		}
		next.Reset(soonest)
	}
}

// pollQueues makes every queue with work due.
func (d *Driver) pollQueues(ctx context.Context) {
	ids, err := d.Store.QueuesWithWork(ctx)
	if err != nil {
		if ctx.Err() == nil {
			d.Logger.Error("listing queues with work", "error", err)
		}
		return
	}
	now := time.Now()
	for _, id := range ids {
		d.mu.Lock()
		at, scheduled := d.due[id]
		failing := d.failures[id] > 0
		d.mu.Unlock()
		if scheduled && failing && at.After(now) {
			continue // backing off
		}
		d.schedule(id, now)
	}
}

// takeDue removes and returns the queues due now that are not running, and how long until the next one.
func (d *Driver) takeDue(running map[int64]bool) (due []int64, soonest time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	soonest = time.Hour
	for id, at := range d.due {
		switch wait := at.Sub(now); {
		case running[id]: // stays due; looked at again when the tick ends
		case wait <= 0:
			due = append(due, id)
			delete(d.due, id)
		default:
			soonest = min(soonest, wait)
		}
	}
	return due, soonest
}

// Drive ticks queues, several at once, until there is nothing more to do now, beside whatever Run does. Its error joins those of ticks that failed; they
// are planned again as ever.
func (d *Driver) Drive(ctx context.Context, queueIDs []int64) error {
	failed := make([]error, len(queueIDs))
	var ticks sync.WaitGroup
	for i, id := range queueIDs {
		ticks.Go(func() {
			if err := d.drive(ctx, id); err != nil {
				failed[i] = fmt.Errorf("queue %d: %w", id, err)
			}
		})
	}
	ticks.Wait()
	return errors.Join(failed...)
}

// drive ticks one queue until there is nothing more to do now, in a slot of its repository: whose host hangs keeps no other repository waiting.
func (d *Driver) drive(ctx context.Context, queueID int64) error {
	at, err := d.place(ctx, queueID)
	if err != nil {
		if ctx.Err() == nil {
			d.schedule(queueID, time.Now().Add(d.backOff(queueID, err)))
			d.Logger.Warn("tick failed", "queue", queueID, "did", "nothing", "error", err)
		}
		return err
	}
	release, ok := d.slots.Take(ctx, at)
	if !ok {
		return ctx.Err()
	}
	defer release()
	for ctx.Err() == nil {
		result, err := d.limited(ctx, queueID)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		log := d.Logger.With("queue", queueID)
		if result.Batch != 0 {
			log = log.With("batch", result.Batch)
		}
		if err != nil {
			d.schedule(queueID, time.Now().Add(d.backOff(queueID, err)))
			log.Warn("tick failed", "did", result.Did, "error", err)
			return err
		}
		d.mu.Lock()
		delete(d.failures, queueID)
		d.mu.Unlock()
		if !result.Again {
			log.Debug("tick", "did", result.Did, "after", result.After)
			if result.After > 0 {
				d.schedule(queueID, time.Now().Add(result.After))
			}
			return nil
		}
		log.Info("tick", "did", result.Did)
	}
	return ctx.Err()
}

// limited is RunOnce within the time a tick may take.
func (d *Driver) limited(ctx context.Context, queueID int64) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, d.TickLimit)
	defer cancel()
	return d.RunOnce(ctx, queueID)
}

// place finds the repository of a queue.
func (d *Driver) place(ctx context.Context, queueID int64) (lease.Place, error) {
	d.mu.Lock()
	at, known := d.places[queueID]
	d.mu.Unlock()
	if known {
		return at, nil
	}
	queue, repo, err := d.Store.ReadQueue(ctx, queueID)
	if err != nil {
		return lease.Place{}, fmt.Errorf("reading queue %d: %w", queueID, err)
	}
	at = lease.Place{Host: repo.Host, Repository: queue.RepositoryID}
	d.mu.Lock()
	d.places[queueID] = at
	d.mu.Unlock()
	return at, nil
}

// backOff says how long to leave a queue alone after a failed tick: what the host asked for, else doubling from one second to five minutes.
// Either is spread, so that queues and instances that stopped together do not come back together.
func (d *Driver) backOff(queueID int64, err error) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := min(d.failures[queueID], 10)
	d.failures[queueID]++
	wait := min(time.Second<<n, 5*time.Minute)
	if limited, ok := errors.AsType[*bot.RateLimitedError](err); ok {
		wait = max(wait, limited.RetryAfter)
	}
	return wait + lease.Jitter(wait/4)
}

// RunOnce does one tick of a queue: look, decide, do one thing.
func (d *Driver) RunOnce(ctx context.Context, queueID int64) (Result, error) {
	return d.locked(ctx, "queue/"+strconv.FormatInt(queueID, 10), "another instance is at it", func(ctx context.Context) (Result, error) {
		return d.tick(ctx, queueID)
	})
}

// locked does work under an advisory lock. A lock that somebody else has is no reason to wait: look again soon, as the holder may have looked
// before what nudged this tick happened. Where the lock is lost, the work is left between two of its steps.
func (d *Driver) locked(ctx context.Context, lock, busy string, work func(context.Context) (Result, error)) (Result, error) {
	soon := min(d.Poll, time.Second)
	held, release, ok, err := d.Locks.TryLock(ctx, lock)
	if err != nil {
		return Result{Did: "lock"}, err
	}
	if !ok {
		return Result{Did: busy, After: soon}, nil
	}
	defer release()
	result, err := work(held)
	if err != nil && held.Err() != nil && ctx.Err() == nil {
		// Nothing failed, and nothing is undone: whoever has the lock now goes on from the rows.
		return Result{Did: "left between two steps: " + context.Cause(held).Error(), After: soon, Batch: result.Batch}, nil
	}
	return result, err
}

// tick is RunOnce under its lock.
func (d *Driver) tick(ctx context.Context, queueID int64) (Result, error) {
	t, err := d.look(ctx, queueID)
	if err == nil {
		var result Result
		result, err = d.act(ctx, t, decide(t.view))
		result.Batch = t.batch.ID
		if err == nil {
			return result, nil
		}
	}
	if reason, gone := unreachable(err); gone && t.queue.ID != 0 {
		if err := d.Store.ParkQueue(ctx, queueID, reason); err != nil {
			return Result{Did: "park"}, err
		}
		d.NudgeOutbox()
		return Result{Did: "parked: " + reason, Batch: t.batch.ID}, nil
	}
	return Result{Did: "look or act", Batch: t.batch.ID}, err
}

// unreachable tells errors that no retry mends from those that pass.
func unreachable(err error) (reason string, gone bool) {
	switch {
	case errors.Is(err, bot.ErrGone):
		return "the repository is archived, deleted or no longer open to this app; install the app again, then resume the queue", true
	case errors.Is(err, errTargetGone):
		return "the target branch is gone; restore it, then resume the queue", true
	}
	return "", false
}
