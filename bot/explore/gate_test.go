package explore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"
)

// kind is what a call stopped at a gate is about to do.
type kind int

const (
	lookRows  kind = iota + 1 // read the store
	writeRows                 // one transaction
	lookHost                  // read the host, or git
	writeHost                 // change something there
)

// verdict is what a schedule lets become of a call.
type verdict struct {
	fault fault
	lag   time.Duration // lookHost: how old what it shows is
}

type fault int

const (
	none         fault = iota
	errBefore          // fails, and nothing happened
	errAfter           // fails, although it happened
	limited            // the host asks for a pause
	dieBefore          // the instance is killed right before
	dieAfter           // the instance is killed right after
	notReady           // writeHost: the host is still computing
	sayRefused         // writeHost: the host says no for no reason
	sleeps             // the instance sleeps before it for longer than its leases
	serverBefore       // writes: the database dies right before
	serverAfter        // writes: the database dies right after
)

func (f fault) String() string {
	return []string{"", " ✗ fails", " ✗ fails after it happened", " ✗ rate limited", " ☠ killed before", " ☠ killed after", " … not ready", " ✗ refused", " … sleeps", " ☠ the database dies before", " ☠ the database dies after"}[f]
}

var (
	errDead = errors.New("this instance was killed")
	errLost = errors.New("the connection was lost")
)

// stop is one call that waits at a gate.
type stop struct {
	in   *instance
	key  string // who wants what: sorts the stops of one moment, so that a seed means the same in every run
	kind kind
	at   point
	on   chan verdict
}

// gates holds the calls that wait to be let go.
type gates struct {
	mu      sync.Mutex
	waiting []*stop
}

func (g *gates) add(s *stop) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(g.waiting, s)
}

func (g *gates) remove(s *stop) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = slices.DeleteFunc(g.waiting, func(w *stop) bool { return w == s })
}

// list returns the waiting calls of instances that are awake, in a stable order.
func (g *gates) list() []*stop {
	g.mu.Lock()
	defer g.mu.Unlock()
	var awake []*stop
	for _, s := range g.waiting {
		if !s.in.asleep {
			awake = append(awake, s)
		}
	}
	slices.SortStableFunc(awake, func(a, b *stop) int { return cmp.Or(cmp.Compare(a.in.id, b.in.id), strings.Compare(a.key, b.key)) })
	return awake
}

// actorKey is the context key under which calls carry which loop of an instance they belong to.
type actorKey struct{}

func actorOf(ctx context.Context) string {
	name, _ := ctx.Value(actorKey{}).(string)
	return name
}

// pass stops a call at the gate until the schedule lets it go, its context ends, or its instance dies.
func (in *instance) pass(ctx context.Context, what kind, name string) (verdict, error) {
	if in.isDead() {
		return verdict{}, errDead
	}
	if err := ctx.Err(); err != nil {
		return verdict{}, err
	}
	if (what == lookRows || what == writeRows) && in.world.isDown() {
		return verdict{}, errLost
	}
	// Errands are done side by side, and nothing tells their reads apart.
	if what == lookRows && (!in.world.fine || actorOf(ctx) == loops[outboxLoop]) {
		return verdict{}, nil
	}
	s := &stop{in: in, key: actorOf(ctx) + ": " + name, kind: what, at: pointOf(ctx, what, name), on: make(chan verdict, 1)}
	in.world.gates.add(s)
	select {
	case v := <-s.on:
		switch v.fault {
		case errBefore, serverBefore:
			return v, errLost
		case dieBefore:
			return v, errDead
		}
		return v, nil
	case <-ctx.Done():
		in.world.gates.remove(s)
		return verdict{}, ctx.Err()
	case <-in.died:
		in.world.gates.remove(s)
		return verdict{}, errDead
	}
}

// seam is the gate around the transactions of one instance's store.
func (in *instance) seam(ctx context.Context, name string, write, done bool) error {
	if done {
		v := in.after
		in.after = verdict{}
		in.world.wrote(in, actorOf(ctx), name)
		switch v.fault {
		case dieAfter:
			in.kill()
			return errDead
		case errAfter, serverAfter:
			return errLost
		}
		return nil
	}
	what := lookRows
	if write {
		what = writeRows
	}
	v, err := in.pass(ctx, what, name)
	if what == writeRows && err == nil {
		in.after = v
	}
	return err
}
