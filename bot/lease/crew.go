package lease

import (
	"context"
	"sync"
	"time"
)

// Crew works on claimed rows side by side. It is shared by the passes of one loop.
type Crew struct {
	slots *Slots
	crowd int

	mu    sync.Mutex
	lanes map[Place]int // begun and not ended
}

// NewCrew makes a crew that works on perHost lanes of a host at once. A place with crowd lanes is crowded.
func NewCrew(perHost, crowd int) *Crew {
	return &Crew{slots: NewSlots(perHost), crowd: crowd, lanes: make(map[Place]int)}
}

// Lane is rows that are worked on one after the other, all of one place.
type Lane struct {
	Place
	Work func()
}

// Crowded reports whether so many lanes of earlier passes are still under way at a place that more would only queue up behind them until their
// lease is over: put their rows off instead.
func (c *Crew) Crowded(at Place) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lanes[at] >= c.crowd
}

// Begin starts every lane as soon as it has a slot, those of one place in the order given. What has no slot when ctx ends is not worked on.
// ended is closed when the last one is done, fresh when the last one of a place is where nothing of an earlier pass was under way: for who
// hangs already nobody has to wait once more.
func (c *Crew) Begin(ctx context.Context, lanes []Lane) (ended, fresh <-chan struct{}) {
	at := make(map[Place][]Lane)
	for _, l := range lanes {
		at[l.Place] = append(at[l.Place], l)
	}
	var all, free sync.WaitGroup
	for place, lanes := range at {
		group := &free
		if c.count(place, len(lanes)) > len(lanes) {
			group = &all
		}
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
	done, freed := make(chan struct{}), make(chan struct{})
	go func() {
		free.Wait()
		close(freed)
		all.Wait()
		close(done)
	}()
	return done, freed
}

// count adds to the lanes of a place and returns how many there are.
func (c *Crew) count(at Place, n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lanes[at] += n
	now := c.lanes[at]
	if now == 0 {
		delete(c.lanes, at)
	}
	return now
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
