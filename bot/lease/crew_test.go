package lease

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestWhoHangsKeepsNobodyElseOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		crew := NewCrew(4, 10)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stuck, fine, elsewhere := Place{"git", 1}, Place{"git", 2}, Place{"other", 1}
		var mu sync.Mutex
		begun := make(map[Place]int)
		note := func(p Place) {
			mu.Lock()
			defer mu.Unlock()
			begun[p]++
		}
		var lanes []Lane
		for range 10 {
			lanes = append(lanes, Lane{stuck, func() { note(stuck); <-ctx.Done() }})
		}
		for _, p := range []Place{fine, fine, elsewhere} {
			lanes = append(lanes, Lane{p, func() { note(p); time.Sleep(time.Second) }})
		}
		ended, fresh := crew.Begin(ctx, lanes)
		if Wait(ended, 2*time.Second) || Wait(fresh, 0) {
			t.Error("it ended, whoever hangs")
		}
		counted := func(p Place) int {
			mu.Lock()
			defer mu.Unlock()
			return begun[p]
		}
		if counted(stuck) != 2 || counted(fine) != 2 || counted(elsewhere) != 1 {
			t.Errorf("%d of those who hang began, %d and %d of the others: want half of a host's slots and all", counted(stuck), counted(fine), counted(elsewhere))
		}
		if !crew.Crowded(stuck) || crew.Crowded(fine) || crew.Crowded(elsewhere) {
			t.Error("who hangs is not told from who does not")
		}
		// Nobody waits a second time for who hangs already.
		start := time.Now()
		again, fresh := crew.Begin(ctx, []Lane{{stuck, func() {}}, {fine, func() { time.Sleep(time.Second) }}})
		if !Wait(fresh, time.Hour) || time.Since(start) != time.Second || Wait(again, 0) {
			t.Errorf("what does not hang ended after %s", time.Since(start))
		}
		cancel()
		<-ended
		if counted(stuck) != 2 || crew.Crowded(stuck) {
			t.Errorf("%d began, want none when nobody waits for it any more", counted(stuck))
		}
	})
}

func TestWhatIsOfOnePlaceBeginsInOrder(t *testing.T) {
	t.Parallel()
	crew := NewCrew(1, 10)
	var mu sync.Mutex
	var got []int
	var lanes []Lane
	for n := range 20 {
		lanes = append(lanes, Lane{Place{"git", 1}, func() {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, n)
		}})
	}
	ended, _ := crew.Begin(t.Context(), lanes)
	<-ended
	if len(got) != 20 || !slices.IsSorted(got) {
		t.Errorf("done in the order %v", got)
	}
}

func TestASlotIsWaitedForNoLongerThanAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slots := NewSlots(1)
		one, two := Place{"git", 1}, Place{"git", 2}
		release, ok := slots.Take(t.Context(), one)
		if !ok {
			t.Fatal("no slot")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for _, p := range []Place{one, two} {
			if _, ok := slots.Take(ctx, p); ok {
				t.Errorf("%v got a slot that is taken", p)
			}
		}
		release()
		// Neither of those who gave up holds anything back.
		for _, p := range []Place{two, one} {
			release, ok := slots.Take(t.Context(), p)
			if !ok {
				t.Fatal("no slot")
			}
			release()
		}
	})
}
