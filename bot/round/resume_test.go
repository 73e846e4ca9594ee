package round_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/round"
)

// mortal is the store of an instance that dies right after it brought a batch to a phase, or settled it.
type mortal struct {
	round.Store
	at   bot.BatchPhase // 0: of nothing
	die  context.CancelFunc
	dead *atomic.Bool
	when *atomic.Int64 // the moment, in nanoseconds of the bubble's clock
}

var errDead = errors.New("the instance is dead")

func (m mortal) ends() {
	m.when.Store(time.Now().UnixNano())
	m.dead.Store(true)
	m.die()
}

func (m mortal) Claim(ctx context.Context, spec bot.ClaimSpec) (bot.ClaimResult, error) {
	result, err := m.Store.Claim(ctx, spec)
	if err == nil && result.Outcome == bot.ClaimDone && m.at == bot.PhaseClaimed {
		m.ends()
		return bot.ClaimResult{}, errDead
	}
	return result, err
}

func (m mortal) RecordBuild(ctx context.Context, guard bot.BatchGuard, record bot.BuildRecord) (bot.Batch, bool, error) {
	batch, ok, err := m.Store.RecordBuild(ctx, guard, record)
	if ok && m.at == bot.PhaseBuilt {
		m.ends()
		return bot.Batch{}, false, errDead
	}
	return batch, ok, err
}

func (m mortal) ChangeBatch(ctx context.Context, guard bot.BatchGuard, change bot.BatchChange) (bot.Batch, bool, error) {
	batch, ok, err := m.Store.ChangeBatch(ctx, guard, change)
	if ok && m.at == change.Phase {
		m.ends()
		return bot.Batch{}, false, errDead
	}
	return batch, ok, err
}

// watched tells when an instance first did something to the batch.
type watched struct {
	round.Locks
	dead  *atomic.Bool
	taken *atomic.Int64
}

func (w watched) TryLock(ctx context.Context, name string) (context.Context, func(), bool, error) {
	held, release, ok, err := w.Locks.TryLock(ctx, name)
	if ok && w.dead.Load() {
		w.taken.CompareAndSwap(0, time.Now().UnixNano())
	}
	return held, release, ok, err
}

// Whatever the phase in which its driver dies, another instance takes a batch up within one poll, from the rows alone: it hears of nothing.
func TestAnotherInstanceContinuesWithinOnePoll(t *testing.T) {
	t.Parallel()
	const poll = 30 * time.Second
	for _, phase := range []bot.BatchPhase{bot.PhaseClaimed, bot.PhaseBuilt, bot.PhaseOpened, bot.PhaseLanding} {
		t.Run(phase.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				var dead atomic.Bool
				var died, taken atomic.Int64
				start := func(ctx context.Context, s round.Store, l round.Locks, all *sync.WaitGroup) *round.Driver {
					d := round.New(round.Config{Store: s, Locks: l, Hosts: map[string]bot.Host{"hub": w.host}, Git: w.git, Poll: poll})
					all.Go(func() {
						if err := d.Run(ctx); err != nil {
							t.Error(err)
						}
					})
					return d
				}
				var all sync.WaitGroup
				living, stop := context.WithCancel(t.Context())
				start(living, w.store, watched{w.store, &dead, &taken}, &all)
				time.Sleep(poll / 3) // out of step
				synctest.Wait()
				number := w.waiting(file("a", "a\n"))
				time.Sleep(time.Second) // what is admitted at the very instant of a claim waits for the next
				mortalContext, die := context.WithCancel(t.Context())
				start(mortalContext, mortal{w.store, phase, die, &dead, &died}, w.store, &all).Nudge(w.queue.ID)
				time.Sleep(poll / 3)
				synctest.Wait()
				if !dead.Load() {
					t.Fatalf("nobody died in %s", phase)
				}
				time.Sleep(poll)
				synctest.Wait()
				if after := time.Duration(taken.Load() - died.Load()); taken.Load() == 0 || after > poll {
					t.Errorf("taken up %s after its driver had died, want %s at most", after, poll)
				}
				w.wantStatus(number, bot.OperationMerged, bot.ReasonLanded)
				w.wantLandings(1)
				stop()
				all.Wait()
			})
		})
	}
}
