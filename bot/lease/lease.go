// Package lease is what the loops over leased rows share: the worker that applies deliveries and the sender that does errands. A row is
// claimed for a while by moving its next_attempt_at ahead; what is not finished while the lease lasts is due again for whoever comes
// next, so a crash needs no repair. Any number of loops may share a table.
package lease

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"
)

// Pace is how such a loop works.
type Pace struct {
	Limit       int           // rows claimed at once
	Parallel    int           // worked on at once on one host; one repository gets at most half of it
	Lease       time.Duration // how long a claimed row is ours
	MaxAttempts int           // then a row is given up
	RetryBase   time.Duration // pause after the first failure, doubled each time
	RetryLimit  time.Duration // longest pause
	Poll        time.Duration // between looks without a nudge
	Patience    time.Duration // how long the next rows wait for those before; what hangs goes on beside them
	Grace       time.Duration // how long work may go on after a stop
}

// Or returns p with what is not set taken from defaults.
func (p Pace) Or(defaults Pace) Pace {
	return Pace{
		Limit:       cmp.Or(p.Limit, defaults.Limit),
		Parallel:    cmp.Or(p.Parallel, defaults.Parallel),
		Lease:       cmp.Or(p.Lease, defaults.Lease),
		MaxAttempts: cmp.Or(p.MaxAttempts, defaults.MaxAttempts),
		RetryBase:   cmp.Or(p.RetryBase, defaults.RetryBase),
		RetryLimit:  cmp.Or(p.RetryLimit, defaults.RetryLimit),
		Poll:        cmp.Or(p.Poll, defaults.Poll),
		Patience:    cmp.Or(p.Patience, defaults.Patience),
		Grace:       cmp.Or(p.Grace, defaults.Grace),
	}
}

// BackOff is the pause after the given number of attempts: RetryBase doubled for every one after the first, up to RetryLimit, spread by a
// quarter either way.
func (p Pace) BackOff(attempts int) time.Duration {
	d := p.RetryBase
	for i := 1; i < attempts && d < p.RetryLimit; i++ {
		d *= 2
	}
	d = min(d, p.RetryLimit)
	return d*3/4 + Jitter(d/2)
}

// Jitter is a random pause of less than d, so that what stopped together does not come back together.
func Jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d)
}

// During returns a context for work on rows claimed at a moment. It ends before the lease does, since somebody else would then do the same
// at the same time, and outlives ctx by the grace period.
func (p Pace) During(ctx context.Context, claimed time.Time) (context.Context, context.CancelFunc) {
	return p.outlive(ctx, claimed.Add(p.Lease*9/10))
}

// Storing returns a context for storing an outcome: a slow database has as long as the lease lasts, and after a stop the grace period.
func (p Pace) Storing(ctx context.Context) (context.Context, context.CancelFunc) {
	return p.outlive(ctx, time.Now().Add(p.Lease))
}

func (p Pace) outlive(ctx context.Context, end time.Time) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithDeadline(context.WithoutCancel(ctx), end)
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(p.Grace, cancel) })
	return longer, func() { stop(); cancel() }
}

// Bell wakes a loop. The zero value is not usable; NewBell makes one.
type Bell chan struct{}

// NewBell returns a bell that nobody has rung.
func NewBell() Bell { return make(Bell, 1) }

// Nudge asks for a look soon. It never blocks.
func (b Bell) Nudge() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// Run calls look at once, after each nudge, and when poll has passed without one, until ctx ends. It repeats look while that reports that
// there may be more to do.
func (b Bell) Run(ctx context.Context, poll time.Duration, look func() (more bool)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-b:
		case <-timer.C:
		}
		for ctx.Err() == nil && look() {
		}
		timer.Reset(poll)
	}
}
