package lease

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestPausesDoubleUpToTheLimit(t *testing.T) {
	t.Parallel()
	p := Pace{RetryBase: time.Second, RetryLimit: 10 * time.Second}
	for attempts, middle := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 4: 8 * time.Second, 5: 10 * time.Second, 500: 10 * time.Second} {
		for range 50 {
			if d := p.BackOff(attempts); d < middle*3/4 || d >= middle*5/4 {
				t.Fatalf("after %d attempts: %s, want about %s", attempts, d, middle)
			}
		}
	}
}

func TestWorkEndsBeforeTheLeaseAndOutlivesAStopByTheGrace(t *testing.T) {
	t.Parallel()
	p := Pace{Lease: time.Minute, Grace: 5 * time.Second}
	for name, want := range map[string]struct {
		stopAfter, lasts time.Duration
	}{
		"nobody stops":         {time.Hour, 54 * time.Second},
		"stopped early":        {10 * time.Second, 15 * time.Second},
		"stopped near its end": {52 * time.Second, 54 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithTimeout(t.Context(), want.stopAfter)
				defer stop()
				start := time.Now()
				work, cancel := p.During(ctx, start)
				defer cancel()
				<-work.Done()
				if lasted := time.Since(start); lasted != want.lasts {
					t.Errorf("the work may go on for %s, want %s", lasted, want.lasts)
				}
			})
		})
	}
}

func TestALoopLooksAtOnceAfterANudgeAndWhenThePollHasPassed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		bell := NewBell()
		// Nothing orders a read here before a look that only the clock starts.
		var looks atomic.Int32
		more := 2
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			bell.Run(ctx, time.Minute, func() bool {
				looks.Add(1)
				more--
				return more > 0
			})
		}()
		expect := func(when string, want int32) {
			t.Helper()
			synctest.Wait()
			if n := looks.Load(); n != want {
				t.Errorf("%s: %d looks, want %d", when, n, want)
			}
		}
		expect("at once, and again while there is more", 2)
		bell.Nudge()
		expect("after a nudge", 3)
		time.Sleep(59 * time.Second)
		expect("before the poll", 3)
		time.Sleep(time.Second)
		expect("after the poll", 4)
		stop()
		<-ended
	})
}
