package lease

import (
	"context"
	"sync"
)

// Place is where work is done: one repository of one host. Repository is whatever id tells it from others there; 0: none in particular.
type Place struct {
	Host       string
	Repository int64
}

// Slots bounds how much is done at once without letting anybody who hangs keep others out: every host has slots of its own, and one
// repository gets at most half of them.
type Slots struct {
	host, repository int

	mu     sync.Mutex
	hosts  map[string]chan struct{}
	places map[Place]chan struct{}
}

// NewSlots makes slots for perHost pieces of work at once on each host.
func NewSlots(perHost int) *Slots {
	perHost = max(perHost, 1)
	return &Slots{host: perHost, repository: (perHost + 1) / 2, hosts: make(map[string]chan struct{}), places: make(map[Place]chan struct{})}
}

// Take waits for a slot; ok false: ctx ended first. Who has one calls release once.
func (s *Slots) Take(ctx context.Context, at Place) (release func(), ok bool) {
	s.mu.Lock()
	host, place := s.hosts[at.Host], s.places[at]
	if host == nil {
		host = make(chan struct{}, s.host)
		s.hosts[at.Host] = host
	}
	if place == nil {
		place = make(chan struct{}, s.repository)
		s.places[at] = place
	}
	s.mu.Unlock()
	// The repository's first: whoever waits for one of the host's is then one of few of its repository.
	for i, slots := range []chan struct{}{place, host} {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			if i == 1 {
				<-place
			}
			return nil, false
		}
	}
	return func() { <-host; <-place }, true
}
