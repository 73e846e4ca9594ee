package lease

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A pass counts what becomes of every row, whoever works on it, and frees its context only when the last one is done.
func TestAPassIsOverWhenItsLastRowIs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		p := NewPass(20, 100, cancel)
		var lanes []Lane
		for n := range 20 {
			lanes = append(lanes, Lane{Place{"git", int64(n % 3)}, func() {
				time.Sleep(time.Duration(n) * time.Second)
				if ctx.Err() != nil {
					t.Error("a row is worked on after the pass's context ended")
				}
				p.Count(func(sum *int) { *sum += n })
			}})
		}
		p.Begin(ctx, NewCrew(4, 100), lanes)
		if Wait(p.Fresh(), time.Second) {
			t.Error("nothing is left, while rows are worked on")
		}
		if got := p.Wait(); got != 100+190 {
			t.Errorf("the rows come to %d, want 290", got)
		}
		if ctx.Err() == nil || !Wait(p.Fresh(), time.Second) {
			t.Error("the pass is over and holds on to its context, or says that something is left")
		}
	})
}
