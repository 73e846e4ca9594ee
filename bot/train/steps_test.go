package train

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/store"
)

// faulty is a store of which one call fails: it is not made, or it is made and not answered.
type faulty struct {
	*store.Store
	mu     sync.Mutex
	calls  int
	failAt int // 1 = the first
	after  bool
}

func step[T any](f *faulty, name string, call func() (T, error)) (T, error) {
	f.mu.Lock()
	f.calls++
	fails := f.calls == f.failAt
	f.mu.Unlock()
	var none T
	if fails && !f.after {
		return none, fmt.Errorf("%s: %w", name, errDown)
	}
	result, err := call()
	if fails {
		return none, fmt.Errorf("%s was not answered: %w", name, errDown)
	}
	return result, err
}

func (f *faulty) Clock(ctx context.Context) (time.Time, error) {
	return step(f, "Clock", func() (time.Time, error) { return f.Store.Clock(ctx) })
}

func (f *faulty) TrainQueues(ctx context.Context) ([]bot.Queue, error) {
	return step(f, "TrainQueues", func() ([]bot.Queue, error) { return f.Store.TrainQueues(ctx) })
}

func (f *faulty) OpenTrains(ctx context.Context, queueID int64) ([]bot.Train, error) {
	return step(f, "OpenTrains", func() ([]bot.Train, error) { return f.Store.OpenTrains(ctx, queueID) })
}

func (f *faulty) DueTrains(ctx context.Context) ([]bot.Train, error) {
	return step(f, "DueTrains", func() ([]bot.Train, error) { return f.Store.DueTrains(ctx) })
}

func (f *faulty) ReadTrain(ctx context.Context, id int64) (bot.TrainView, error) {
	return step(f, "ReadTrain", func() (bot.TrainView, error) { return f.Store.ReadTrain(ctx, id) })
}

func (f *faulty) OpenTrain(ctx context.Context, spec bot.TrainSpec) (bot.TrainResult, error) {
	return step(f, "OpenTrain", func() (bot.TrainResult, error) { return f.Store.OpenTrain(ctx, spec) })
}

func (f *faulty) ChangeTrain(ctx context.Context, change bot.TrainChange) (bot.TrainResult, error) {
	return step(f, "ChangeTrain", func() (bot.TrainResult, error) { return f.Store.ChangeTrain(ctx, change) })
}

func (f *faulty) Depart(ctx context.Context, d bot.Departure) (bot.DepartureResult, error) {
	return step(f, "Depart", func() (bot.DepartureResult, error) { return f.Store.Depart(ctx, d) })
}

// Every call of a tick that opens one train, changes another and lets a third depart fails once, before or after it was made. The next tick does the rest.
func TestATickThatFailsHalfwayIsMadeUpForByTheNext(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		for failAt, done := 1, false; !done; failAt++ {
			inBubble(t, func(w *world) {
				repo, queue := w.queue("app", nightly, bot.TrainPlan{Name: "weekly", Schedule: "0 9 * * MON", Seats: 1})
				w.ticks()
				train := w.opened(queue, "nightly")
				for n := 1; n <= 3; n++ {
					w.boards(repo, train, n, true)
				}
				w.queue("app", nightly, bot.TrainPlan{Name: "weekly", Schedule: "0 9 * * MON", Seats: 5}, bot.TrainPlan{Name: "noon", Schedule: "0 12 * * *", Seats: 2})
				w.until(w.at(1, 9, 0))
				f := &faulty{Store: w.store, failAt: failAt, after: after}
				keeper := New(Config{Store: f, Applier: w})
				_, err := keeper.Tick(w.Context())
				done = f.calls < failAt
				if done != (err == nil) || (err != nil && !errors.Is(err, errDown)) {
					w.Fatalf("call %d of %d fails: %v", failAt, f.calls, err)
				}
				if done && failAt < 9 {
					w.Errorf("a tick makes %d calls only", f.calls)
				}
				f.failAt = 0
				for range 2 {
					_, err := keeper.Tick(w.Context())
					w.must(err)
				}
				for n := 1; n <= 2; n++ {
					w.stands(n, bot.OperationWaiting, bot.ReasonDeparted)
				}
				w.stands(3, bot.OperationPendingApproval, bot.ReasonCarriedOver)
				w.holds(w.opened(queue, "nightly"), []int{3}, nil)
				trains, err := w.store.OpenTrains(w.Context(), 0)
				w.must(err)
				if len(trains) != 3 || w.opened(queue, "weekly").Seats != 5 || w.opened(queue, "noon").Seats != 2 {
					w.Errorf("call %d failed: open are %+v", failAt, trains)
				}
			})
		}
	}
}
