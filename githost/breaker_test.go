package githost_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost"
)

// tally is a meter.
type tally struct {
	mu        sync.Mutex
	requests  map[string]int
	remaining map[string]int
	paused    time.Duration
	held      int
}

func newTally() *tally {
	return &tally{requests: make(map[string]int), remaining: make(map[string]int)}
}

func (m *tally) Requested(host, op string, code int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests[fmt.Sprint(host, " ", op, " ", code)]++
}

func (m *tally) Remains(host, credential string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remaining[host+" "+credential] = n
}

func (m *tally) Paused(_ string, d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.paused += d
}

func (m *tally) HeldBack(_ string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = n
}

// route takes /NAME/RESOURCE apart; what begins with a dot is about no repository.
func route(req *http.Request) (repository, resource string) {
	repository, resource, _ = strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/")
	if strings.HasPrefix(repository, ".") {
		return "", repository
	}
	return repository, resource
}

// patient sends requests of a host whose calls end as ends says, and counts those that went out.
type patient struct {
	mu   sync.Mutex
	sent map[string]int // by repository
	ends func(ctx context.Context, repository string) (*http.Response, error)
}

func (p *patient) RoundTrip(req *http.Request) (*http.Response, error) {
	repository, _ := route(req)
	p.mu.Lock()
	p.sent[repository]++
	p.mu.Unlock()
	return p.ends(req.Context(), repository)
}

func (p *patient) out(repository string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent[repository]
}

func guard(t *testing.T, p *patient, meter githost.Meter) *http.Client {
	t.Helper()
	p.sent = make(map[string]int)
	b := githost.NewBreaker(githost.BreakerConfig{Host: "git", Route: route, Meter: meter})
	return githost.NewClient(b.Guard(githost.NewPolite(githost.PoliteConfig{Next: wire(t, p)})))
}

func heldBack(err error) bool {
	limited, ok := errors.AsType[*bot.RateLimitedError](err)
	return ok && limited.Because != ""
}

func TestOneRepositoryThatFailsIsLeftAloneAndNoOther(t *testing.T) {
	t.Parallel()
	for name, failing := range map[string]func(context.Context) (*http.Response, error){
		"it answers 502": func(context.Context) (*http.Response, error) { return answer(502, ""), nil },
		"it never answers": func(ctx context.Context) (*http.Response, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
		"its connections end": func(context.Context) (*http.Response, error) { return nil, errors.New("EOF") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				broken, meter := true, newTally()
				p := &patient{}
				p.ends = func(ctx context.Context, repository string) (*http.Response, error) {
					p.mu.Lock()
					fails := broken && repository == "bad"
					p.mu.Unlock()
					if fails {
						return failing(ctx)
					}
					return answer(200, "fine"), nil
				}
				c := guard(t, p, meter)
				// An hour of somebody who asks every second, and of somebody who asks about another repository.
				var asking sync.WaitGroup
				for end := time.Now().Add(time.Hour); time.Now().Before(end); time.Sleep(time.Second) {
					asking.Go(func() { _, _, _ = send(t, c, http.MethodGet, here+"/bad/pulls") })
					if _, body, err := send(t, c, http.MethodGet, here+"/good/pulls"); err != nil || body != "fine" {
						t.Fatalf("the other repository got %q, %v", body, err)
					}
				}
				asking.Wait()
				if n := p.out("bad"); n < 25 || n > 80 {
					t.Errorf("it was asked %d times in an hour, want first a few and then about every two minutes", n)
				}
				if p.out("good") != 3600 || meter.held != 1 {
					t.Errorf("the other one was asked %d times, %d are held back", p.out("good"), meter.held)
				}
				p.mu.Lock()
				broken = false
				p.mu.Unlock()
				time.Sleep(3 * time.Minute)
				for range 3 {
					if _, body, err := send(t, c, http.MethodGet, here+"/bad/pulls"); err != nil || body != "fine" {
						t.Errorf("mended, it says %q, %v", body, err)
					}
				}
				if meter.held != 0 {
					t.Errorf("%d are held back still", meter.held)
				}
			})
		})
	}
}

func TestAHostThatCannotBeReachedIsLeftAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &patient{ends: func(context.Context, string) (*http.Response, error) {
			return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
		}}
		c := guard(t, p, nil)
		for n := range 100 {
			_, _, err := send(t, c, http.MethodGet, fmt.Sprintf("%s/repository%d/pulls", here, n))
			if err == nil || heldBack(err) != (n >= 3) {
				t.Fatalf("call %d: %v", n, err)
			}
		}
		// The pauses grow and differ: what stopped together does not come back together.
		seen := make(map[time.Duration]bool)
		for range 8 {
			_, _, err := send(t, c, http.MethodGet, here+"/x/pulls")
			wait := retryAfter(t, err)
			seen[wait] = true
			time.Sleep(wait)
			if _, _, err := send(t, c, http.MethodGet, here+"/x/pulls"); err == nil || heldBack(err) {
				t.Errorf("after the pause: %v, want a try", err)
			}
		}
		_, _, err := send(t, c, http.MethodGet, here+"/x/pulls")
		if wait := retryAfter(t, err); wait < 2*time.Minute || wait > 150*time.Second || len(seen) != 8 {
			t.Errorf("the pause is %s after eight that grew: %v", wait, seen)
		}
	})
}

// Whatever a host says that is no server error, it is well: a refusal, a limit, a caller who left.
func TestAnswersAreNoFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &patient{}
		for name, ends := range map[string]func(context.Context, string) (*http.Response, error){
			"not found": func(context.Context, string) (*http.Response, error) { return answer(404, ""), nil },
			"conflict":  func(context.Context, string) (*http.Response, error) { return answer(409, ""), nil },
			"limited":   func(context.Context, string) (*http.Response, error) { return answer(429, "", "Retry-After", "1"), nil },
			"left":      func(context.Context, string) (*http.Response, error) { return nil, context.Canceled },
		} {
			p.ends = ends
			c := guard(t, p, nil)
			for range 10 {
				if _, _, err := send(t, c, http.MethodGet, here+"/x/pulls"); heldBack(err) {
					t.Errorf("%s: %v", name, err)
				}
				time.Sleep(2 * time.Second)
			}
			if p.out("x") != 10 {
				t.Errorf("%s: asked %d times", name, p.out("x"))
			}
		}
	})
}

// While a probe is out nobody else is let through, and one that its caller gave up hands on its place.
func TestOneProbeAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &patient{ends: func(context.Context, string) (*http.Response, error) { return answer(500, ""), nil }}
		c := guard(t, p, nil)
		for range 3 {
			_, _, _ = send(t, c, http.MethodGet, here+"/x/pulls")
		}
		time.Sleep(5 * time.Second)
		p.ends = func(ctx context.Context, _ string) (*http.Response, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		ctx, leave := context.WithCancel(t.Context())
		var probing sync.WaitGroup
		probing.Go(func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, here+"/x/pulls", nil)
			if err != nil {
				t.Error(err)
				return
			}
			if resp, err := c.Do(req); err == nil {
				_ = resp.Body.Close()
			}
		})
		synctest.Wait()
		for range 5 {
			if _, _, err := send(t, c, http.MethodGet, here+"/x/pulls"); !heldBack(err) {
				t.Errorf("beside the probe: %v", err)
			}
		}
		leave()
		probing.Wait()
		p.ends = func(context.Context, string) (*http.Response, error) { return answer(200, "fine"), nil }
		if _, body, err := send(t, c, http.MethodGet, here+"/x/pulls"); err != nil || body != "fine" {
			t.Errorf("after the probe was given up: %q, %v", body, err)
		}
	})
}

func TestTheMeterSeesWhatGoesOverTheWire(t *testing.T) {
	t.Parallel()
	meter := newTally()
	next := server(func(req *http.Request) *http.Response {
		switch req.URL.Path {
		case "/a/pulls":
			return answer(200, "", "X-RateLimit-Remaining", "4321")
		case "/a/issues":
			return answer(403, "", "Retry-After", "60")
		}
		return answer(404, "", "RateLimit-Remaining", "17")
	})
	w := wireWith(t, next, meter)
	c := githost.NewClient(githost.NewPolite(githost.PoliteConfig{Next: w, Identity: "token", Host: "git", Meter: meter}))
	for _, path := range []string{"/.user", "/a/pulls", "/a/pulls", "/a/issues", "/a/pulls"} {
		_, _, _ = send(t, c, http.MethodGet, here+path)
	}
	want := map[string]int{"git GET .user 404": 1, "git GET pulls 200": 2, "git GET issues 403": 1}
	if fmt.Sprint(meter.requests) != fmt.Sprint(want) || meter.remaining["git token"] != 4321 || meter.paused != time.Minute {
		t.Errorf("counted %v, remaining %v, paused %s", meter.requests, meter.remaining, meter.paused)
	}
}

// Requests that were out together are refused together: the pause grows once, not once for each.
func TestOneStrikeForAllThatWereOutTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		next := server(func(*http.Request) *http.Response {
			time.Sleep(time.Second)
			return answer(429, "")
		})
		c := client(t, next)
		together := func() (waits []time.Duration) {
			var mu sync.Mutex
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					_, _, err := send(t, c, http.MethodGet, here)
					wait := retryAfter(t, err)
					mu.Lock()
					defer mu.Unlock()
					waits = append(waits, wait)
				})
			}
			all.Wait()
			return waits
		}
		for _, want := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute} {
			for _, wait := range together() {
				if wait != want {
					t.Fatalf("a pause of %s, want %s", wait, want)
				}
			}
			time.Sleep(want)
		}
	})
}
