package clustertest

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Front is a TCP proxy whose address always leads to the primary. When there is another, or none, it closes every connection, as routers do
// that a bot should be run with; while there is none it closes new connections at once.
type Front struct {
	Address string // host:port

	mu      sync.Mutex
	primary string // where connections lead, empty: nowhere
	open    map[net.Conn]struct{}
}

// Follow starts a proxy that asks find for the primary all the time, until the test ends.
func Follow(t testing.TB, find func(context.Context) (address string)) *Front {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed at the end of the test
	if err != nil {
		t.Fatal(err)
	}
	f := &Front{Address: listener.Addr().String(), open: make(map[net.Conn]struct{})}
	ctx, stop := context.WithCancel(context.Background()) // connections end after the test's own clean-up, which may need them
	var running sync.WaitGroup
	running.Go(func() { f.follow(ctx, find) })
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { f.serve(client) })
		}
	})
	t.Cleanup(func() {
		stop()
		_ = listener.Close()
		f.lead("")
		running.Wait()
	})
	f.lead(find(ctx))
	return f
}

func (f *Front) follow(ctx context.Context, find func(context.Context) string) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.lead(find(ctx))
		}
	}
}

// lead makes connections go to a primary from now on, and ends those to another.
func (f *Front) lead(primary string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.primary == primary {
		return
	}
	f.primary = primary
	for conn := range f.open {
		_ = conn.Close() // its other end follows
	}
	clear(f.open)
}

// Primary is where connections lead now, empty if nowhere.
func (f *Front) Primary() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.primary
}

// enter takes a connection that leads to primary into the books; false: meanwhile another one leads.
func (f *Front) enter(primary string, conn net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.primary != primary {
		return false
	}
	f.open[conn] = struct{}{}
	return true
}

func (f *Front) leave(conn net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, conn)
}

func (f *Front) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	primary := f.Primary()
	if primary == "" {
		return
	}
	server, err := net.DialTimeout("tcp", primary, time.Second) //nolint:noctx // bounded by the time-out
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	if !f.enter(primary, client) {
		return
	}
	defer f.leave(client)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(client, server) // however it ends, both ends are closed
		_ = client.Close()
	}()
	_, _ = io.Copy(server, client)
	_ = server.Close()
	<-ended
}
