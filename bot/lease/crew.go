package lease

import (
	"context"
	"sync"
	"time"
)

// Crew works on claimed rows side by side. It is shared by the passes of one loop.
type Crew struct {
	slots *Slots

	mu    sync.Mutex
	lanes map[Place]int // begun and not ended
}

// NewCrew makes a crew that works on perHost lanes of a host at once.
func NewCrew(perHost int) *Crew {
	return &Crew{slots: NewSlots(perHost), lanes: make(map[Place]int)}
}

// Lane is rows that are worked on one after the other, all of one place.
type Lane struct {
	Place
	Work func()
}

// Busy reports whether lanes of an earlier pass are still under way at a place: something hangs there. Rows that are claimed meanwhile would only
// queue up behind it until their lease is over; put them off instead.
func (c *Crew) Busy(at Place) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lanes[at] > 0
}

// Begin starts every lane as soon as it has a slot, those of one place in the order given. ended is closed when the last one is done. What has
// no slot when ctx ends is not worked on.
func (c *Crew) Begin(ctx context.Context, lanes []Lane) (ended <-chan struct{}) {
	at := make(map[Place][]Lane)
	for _, l := range lanes {
		at[l.Place] = append(at[l.Place], l)
	}
	var group sync.WaitGroup
	for place, lanes := range at {
		c.count(place, len(lanes))
		group.Go(func() {
			for i, l := range lanes {
				release, ok := c.slots.Take(ctx, place)
				if !ok {
					c.count(place, i-len(lanes))
					return
				}
				group.Go(func() {
					defer c.count(place, -1)
					defer release()
					l.Work()
				})
			}
		})
	}
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	return done
}

func (c *Crew) count(at Place, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lanes[at] += n; c.lanes[at] == 0 {
		delete(c.lanes, at)
	}
}

// Wait waits until ended is closed, but no longer than patience, and reports whether it was.
func Wait(ended <-chan struct{}, patience time.Duration) bool {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-ended:
		return true
	case <-timer.C:
		return false
	}
}
