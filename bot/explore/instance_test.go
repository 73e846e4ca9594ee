package explore

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/intake"
	"github.com/batchbot/batchbot/bot/job"
	"github.com/batchbot/batchbot/bot/lease"
	"github.com/batchbot/batchbot/bot/outbox"
	"github.com/batchbot/batchbot/bot/round"
)

// rows is the store as an instance has it.
type rows interface {
	round.Store
	round.Locks
	intake.Inbox
	intake.Records
	job.Records
	outbox.Store
}

// steady takes the chance out of the pauses between tries, which the core spreads: a seed has to be the same schedule every time.
type steady struct {
	rows
	in *instance
}

func steadily(d time.Duration, attempts int) time.Duration {
	if d%time.Second == 0 { // not spread
		return d
	}
	return time.Duration(3*min(attempts, 10)) * time.Second
}

// TryLock grants every lock to everybody in some schedules, as a cluster may.
func (s steady) TryLock(ctx context.Context, name string) (context.Context, func(), bool, error) {
	if s.in.world.lockless {
		return ctx, func() {}, true, nil
	}
	return s.rows.TryLock(ctx, name)
}

// ReadQueue notes how many approvals the queue wants where it is looked at.
func (s steady) ReadQueue(ctx context.Context, queueID int64) (bot.Queue, bot.Repository, error) {
	q, repo, err := s.rows.ReadQueue(ctx, queueID)
	if actorOf(ctx) == loops[roundLoop] {
		s.in.wants = q.Settings.Approvals.Count
	}
	return q, repo, err
}

func (s steady) ChangeBatch(ctx context.Context, guard bot.BatchGuard, change bot.BatchChange) (bot.Batch, bool, error) {
	return s.rows.ChangeBatch(writing(ctx, changes(change)), guard, change)
}

func (s steady) Settle(ctx context.Context, settlement bot.Settlement) (bool, error) {
	p := w11Release
	if settlement.Status == bot.BatchSucceeded {
		p = w10Done
	}
	return s.rows.Settle(writing(ctx, p), settlement)
}

func (s steady) Claim(ctx context.Context, spec bot.ClaimSpec) (bot.ClaimResult, error) {
	return s.rows.Claim(writing(ctx, w3Claim), spec)
}

func (s steady) FinishDelivery(ctx context.Context, id int64, attempts int, outcome bot.DeliveryOutcome) (bool, error) {
	outcome.RetryIn = steadily(outcome.RetryIn, attempts)
	return s.rows.FinishDelivery(ctx, id, attempts, outcome)
}

func (s steady) PostponeErrand(ctx context.Context, e bot.Errand, d time.Duration, reason string) error {
	return s.rows.PostponeErrand(ctx, e, steadily(d, e.Attempts), reason)
}

// loops are the loops of an instance. Each runs once at a time, when it is due: the dull goroutines around RunOnce are what a schedule replaces.
var loops = [...]string{"round", "inbox", "outbox", "look"}

const (
	roundLoop = iota
	inboxLoop
	outboxLoop
	lookLoop
)

// How often a loop runs without a nudge.
var polls = [...]time.Duration{roundLoop: time.Minute, inboxLoop: time.Minute, outboxLoop: time.Minute, lookLoop: 2 * time.Minute}

// instance is one bot: everything real, behind gates.
type instance struct {
	world *world
	id    int // place in the world; a restart keeps it
	life  int // restarts so far

	store  rows
	drop   func() // frees its advisory locks
	driver *round.Driver
	worker *intake.Worker
	sender *outbox.Sender
	looker *intake.Looker
	apply  *intake.Applier

	ctx    context.Context
	cancel context.CancelFunc
	dead   atomic.Bool
	died   chan struct{}
	asleep bool
	wakes  time.Time // when asleep
	after  verdict   // of the transaction under way

	due      [len(loops)]time.Time
	busy     [len(loops)]atomic.Bool
	failures int
	minted   int
	wants    int                // approvals, as the queue read last in a round wants them
	reads    map[string]mrState // loop and number → approvals as read last
}

func (w *world) newInstance(id, life int) *instance {
	in := &instance{world: w, id: id, life: life, died: make(chan struct{}), reads: make(map[string]mrState)}
	in.ctx, in.cancel = context.WithCancel(context.Background())
	store, drop := w.open(in)
	in.store, in.drop = steady{store, in}, drop
	at := access{host: w.host, in: in}
	git := gitAccess{access: at, git: w.git}
	hosts := map[string]bot.Host{hostName: at}
	nudgeOutbox := func() { in.nudge(outboxLoop) }
	in.driver = round.New(round.Config{
		Store: in.store, Locks: in.store, Hosts: hosts, Git: git, NudgeOutbox: nudgeOutbox, Logger: w.logger(in),
		NewToken: func() string { return fmt.Sprintf("%08x", in.mint()) },
	})
	in.apply = intake.NewApplier(intake.ApplierConfig{
		Hosts: hosts, Git: git, Records: in.store, NudgeOutbox: nudgeOutbox, Logger: w.logger(in),
		ParseSettings: parseSettings,
		Nudge:         func(int64) { in.nudge(roundLoop) },
		Order:         in.driver.Order,
		NewID:         func() string { return fmt.Sprintf("%08x-0000-4000-8000-%012x", in.id*1000+in.life, in.mint()) },
	})
	pace := lease.Pace{Lease: time.Minute, MaxAttempts: 1000, Limit: 16}
	in.worker = intake.NewWorker(intake.WorkerConfig{
		Pace: pace, Inbox: in.store, Webhooks: map[string]bot.Webhooks{hostName: w.host}, Logger: w.logger(in),
		Apply: func(ctx context.Context, source string, e bot.Event) error {
			// Deliveries are applied side by side: what they want has to be told apart.
			return in.apply.Apply(context.WithValue(ctx, actorKey{}, "inbox "+source), source, e)
		},
	})
	in.sender = outbox.New(outbox.Config{Pace: pace, Store: in.store, Hosts: hosts, Git: git, Revisit: in.driver.Revisit, Logger: w.logger(in)})
	in.looker = intake.NewLooker(intake.LookerConfig{Applier: in.apply, Logger: w.logger(in)})
	for i := range loops {
		in.due[i] = time.Now().Add(time.Duration(i) * time.Second)
	}
	return in
}

// mint counts what an instance makes up, in its own number range.
func (in *instance) mint() int {
	in.minted++
	return (in.id+1)*1_000_000 + in.life*10_000 + in.minted
}

func (in *instance) String() string {
	if in.life == 0 {
		return fmt.Sprint("bot", in.id)
	}
	return fmt.Sprintf("bot%d.%d", in.id, in.life)
}

func (in *instance) isDead() bool { return in.dead.Load() }

// kill ends an instance where it stands: nothing it has begun goes on, and its database connection is gone.
func (in *instance) kill() {
	if in.dead.Swap(true) {
		return
	}
	close(in.died)
	in.cancel()
	in.drop()
}

func (in *instance) nudge(loop int) {
	in.world.nudges.Lock()
	defer in.world.nudges.Unlock()
	if now := time.Now(); in.due[loop].After(now) {
		in.due[loop] = now
	}
}

func (in *instance) schedule(loop int, at time.Time) {
	in.world.nudges.Lock()
	defer in.world.nudges.Unlock()
	if at.Before(in.due[loop]) {
		in.due[loop] = at
	}
}

func (in *instance) isDue(loop int) bool {
	in.world.nudges.Lock()
	defer in.world.nudges.Unlock()
	return !in.busy[loop].Load() && !in.due[loop].After(time.Now())
}

// begin starts one pass of a loop.
func (in *instance) begin(loop int) {
	in.world.nudges.Lock()
	in.due[loop] = time.Now().Add(polls[loop])
	in.world.nudges.Unlock()
	in.busy[loop].Store(true)
	ctx := context.WithValue(in.ctx, actorKey{}, loops[loop])
	go func() {
		defer in.busy[loop].Store(false)
		switch loop {
		case roundLoop:
			in.round(ctx)
		case inboxLoop:
			if work, err := in.worker.RunOnce(ctx); err == nil && work.Claimed > 0 {
				in.nudge(inboxLoop)
			}
		case outboxLoop:
			if sent, err := in.sender.RunOnce(ctx); err == nil && sent.Claimed > 0 {
				in.nudge(outboxLoop)
			}
		case lookLoop:
			in.look(ctx)
		}
	}()
}

// round is one tick of every queue with work, and says when to tick again.
func (in *instance) round(ctx context.Context) {
	queues, err := in.store.QueuesWithWork(ctx)
	for _, id := range queues {
		var result round.Result
		if result, err = in.driver.RunOnce(ctx, id); err != nil {
			break
		}
		in.failures = 0
		switch {
		case result.Again:
			in.nudge(roundLoop)
		case result.After > 0:
			in.schedule(roundLoop, time.Now().Add(result.After))
		}
	}
	if err != nil {
		in.failures++
		in.schedule(roundLoop, time.Now().Add(time.Second<<min(in.failures, 6)))
		in.complain("round", err)
	}
}

// complain makes an error part of the story, unless it is that of an instance that ends: there all loops end at once, in any order.
func (in *instance) complain(loop string, err error) {
	if !in.isDead() {
		in.world.log("%s %s: %v", in, loop, err)
	}
}

// look is one look at the repository, and what the clean-up does beside.
func (in *instance) look(ctx context.Context) {
	repos, err := in.store.ActiveRepositories(ctx, hostName)
	if err != nil {
		return
	}
	for _, repo := range repos {
		if _, err := in.looker.RunOnce(ctx, repo); err != nil {
			in.complain("look", err)
		}
	}
	if n, err := in.store.ExpireOperations(ctx, 100); err == nil && n > 0 {
		in.nudge(outboxLoop)
	}
}

// saw notes what a loop was shown of a merge request's approvals.
func (in *instance) saw(loop string, number int, state mrState) {
	in.world.nudges.Lock()
	defer in.world.nudges.Unlock()
	in.reads[fmt.Sprint(loop, number)] = state
}
