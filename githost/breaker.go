package githost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// Route says what a request is about: the repository as its address names it, "" for none, and the resource, one of a few words.
type Route func(*http.Request) (repository, resource string)

// BreakerConfig configures a Breaker.
type BreakerConfig struct {
	Host   string       // its configured name, for the meter
	Route  Route        // nil: no request is about a repository
	Meter  Meter        // nil: nobody counts
	Logger *slog.Logger // nil: discarded
}

const (
	tripAfter    = 3               // failures in a row
	shortestTrip = 2 * time.Second // doubled each time the probe fails too
	longestTrip  = 2 * time.Minute
)

// Breaker holds calls back that would most likely fail: those about a repository after several in a row were answered by a server error or not at
// all, and all of them after several connections in a row did not come about. A call held back is answered at once with *bot.RateLimitedError,
// so who would have waited for it does other things meanwhile. When the pause is over one call goes out as a probe; it ends the pauses or
// makes the next one longer. All credentials of a host share one.
type Breaker struct {
	config BreakerConfig

	mu       sync.Mutex
	circuits map[string]*circuit // by repository; "" for connections to the host
}

// circuit is what is known about one repository. One that is well has none.
type circuit struct {
	failures int       // in a row
	trips    int       // in a row
	until    time.Time // held back until then
	probing  bool      // one call is on its way to find out
}

// NewBreaker makes the breaker of a host.
func NewBreaker(config BreakerConfig) *Breaker {
	if config.Route == nil {
		config.Route = func(*http.Request) (string, string) { return "", "" }
	}
	if config.Meter == nil {
		config.Meter = noMeter{}
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	return &Breaker{config: config, circuits: make(map[string]*circuit)}
}

// Guard puts the breaker in front of next.
func (b *Breaker) Guard(next http.RoundTripper) http.RoundTripper { return guarded{b, next} }

type guarded struct {
	*Breaker
	next http.RoundTripper
}

// RoundTrip sends a request unless it is held back.
func (g guarded) RoundTrip(req *http.Request) (*http.Response, error) {
	repository, _ := g.config.Route(req)
	if err := g.admit(repository); err != nil {
		closeBody(req)
		return nil, err
	}
	resp, err := g.next.RoundTrip(req)
	g.learn(repository, verdictOn(resp, err))
	return resp, err
}

// admit returns why a call is held back.
func (b *Breaker) admit(repository string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	names := []string{""}
	if repository != "" {
		names = append(names, repository)
	}
	for _, name := range names {
		c := b.circuits[name]
		if c == nil || c.trips == 0 {
			continue
		}
		left := c.until.Sub(now)
		if left <= 0 && c.probing {
			left = shortestTrip // the probe is on its way
		}
		if left > 0 {
			return &bot.RateLimitedError{RetryAfter: left, Because: "the last calls " + about(name) + " failed"}
		}
	}
	for _, name := range names {
		if c := b.circuits[name]; c != nil && c.trips > 0 {
			c.probing = true
		}
	}
	return nil
}

func about(name string) string {
	if name == "" {
		return "to the host"
	}
	return "about " + OneLine(name, 200)
}

// verdict is what a call says about whom it called.
type verdict int

const (
	silent      verdict = iota // it says nothing: a pause asked for, no token to call with, a caller who left
	well                       // an answer
	ailing                     // a server error, or no answer
	unreachable                // no connection
)

func verdictOn(resp *http.Response, err error) verdict {
	var unanswered *unansweredError
	var op *net.OpError
	var name *net.DNSError
	switch {
	case err == nil && resp.StatusCode >= 500:
		return ailing
	case err == nil:
		return well
	case errors.Is(err, context.Canceled), !errors.As(err, &unanswered):
		return silent
	case errors.As(err, &op) && op.Op == "dial", errors.As(err, &name):
		return unreachable
	}
	return ailing
}

// learn notes what became of a call.
func (b *Breaker) learn(repository string, v verdict) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch v {
	case well:
		b.close(repository)
		b.close("")
	case ailing:
		b.release("") // there is a connection
		if repository != "" {
			b.fail(repository)
		}
	case unreachable:
		b.release(repository)
		b.fail("")
	case silent:
		b.release(repository)
		b.release("")
	}
	held := 0
	for _, c := range b.circuits {
		if c.trips > 0 {
			held++
		}
	}
	b.config.Meter.HeldBack(b.config.Host, held)
}

// release lets the next call be the probe.
func (b *Breaker) release(name string) {
	if c := b.circuits[name]; c != nil {
		c.probing = false
	}
}

func (b *Breaker) close(name string) {
	if c := b.circuits[name]; c != nil && c.trips > 0 {
		b.config.Logger.Info("calls "+about(name)+" succeed again", "repo", name)
	}
	delete(b.circuits, name)
}

func (b *Breaker) fail(name string) {
	c := b.circuits[name]
	if c == nil {
		c = &circuit{}
		b.circuits[name] = c
	}
	c.failures++
	probe := c.probing
	c.probing = false
	// Calls that were out together fail together: that is one trip.
	if c.failures < tripAfter || c.trips > 0 && !probe {
		return
	}
	wait := min(shortestTrip<<min(c.trips, 10), longestTrip)
	wait += rand.N(wait / 4)
	if c.trips == 0 {
		b.config.Logger.Warn("calls "+about(name)+" are held back for a while, because they fail", "repo", name,
			"failures", c.failures, "for", fmt.Sprint(wait.Round(time.Second)))
	}
	c.trips++
	c.until = time.Now().Add(wait)
}
