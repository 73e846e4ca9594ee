package lease

import (
	"context"
	"sync"
)

// Pass is the rows of one claim under way. W is what became of them all; whoever works on a row adds to it by Count.
type Pass[W any] struct {
	Claimed int
	ended   <-chan struct{}
	fresh   <-chan struct{} // closed earlier where only what hung before is left
	cancel  context.CancelFunc

	mu   sync.Mutex
	work W
}

// NewPass is a pass over so many rows, of which work says what is known before any of them was worked on. cancel frees its context when the
// last row is done.
func NewPass[W any](claimed int, work W, cancel context.CancelFunc) *Pass[W] {
	return &Pass[W]{Claimed: claimed, work: work, cancel: cancel}
}

// Begin has a crew start the pass's lanes, once. See Crew.Begin.
func (p *Pass[W]) Begin(ctx context.Context, crew *Crew, lanes []Lane) {
	p.ended, p.fresh = crew.Begin(ctx, lanes)
}

// Count adds what became of one row.
func (p *Pass[W]) Count(add func(work *W)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	add(&p.work)
}

// Wait waits for the last row and says what became of all.
func (p *Pass[W]) Wait() W {
	<-p.ended
	p.cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.work
}

// Fresh is closed when nothing is left but what hung already before the pass began.
func (p *Pass[W]) Fresh() <-chan struct{} { return p.fresh }
