package main

import (
	"bytes"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// hook is one webhook as the host sent it.
type hook struct {
	header http.Header
	body   []byte
}

// weather says what becomes of the webhooks that arrived within one moment: which of them are passed on, how often and in what order.
type weather func([]hook) []hook

// relay stands between the host and the instances like an ingress in bad weather: it takes every webhook, and passes on what the weather
// leaves, to the instances in turn.
type relay struct {
	url     string
	weather weather

	mu       sync.Mutex
	held     []hook
	sending  bool
	received int
	answers  map[int]int // status code → how often an instance gave it
}

// startRelay passes on once a moment until the test ends, to the addresses at which servers take webhooks.
func startRelay(t *testing.T, w weather, servers ...string) *relay {
	t.Helper()
	r := &relay{weather: w, answers: make(map[int]int)}
	front := httptest.NewServer(r)
	r.url = front.URL
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		moment := time.NewTicker(100 * time.Millisecond)
		defer moment.Stop()
		for {
			select {
			case <-stop:
				return
			case <-moment.C:
			}
			hooks := r.take()
			var passing sync.WaitGroup
			for i, server := range servers {
				passing.Go(func() {
					for n := i; n < len(hooks); n += len(servers) {
						r.pass(hooks[n], server)
					}
				})
			}
			passing.Wait()
			r.rest()
		}
	}()
	t.Cleanup(func() {
		front.Close()
		close(stop)
		<-stopped
	})
	return r
}

func (r *relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.received++
	r.held = append(r.held, hook{header: req.Header.Clone(), body: body})
	w.WriteHeader(http.StatusAccepted)
}

func (r *relay) take() []hook {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := r.held
	r.held, r.sending = nil, true
	return r.weather(held)
}

func (r *relay) rest() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sending = false
}

// pass hands one webhook to an instance. One that cannot be handed over is lost, as on the real host.
func (r *relay) pass(h hook, server string) {
	status := 0
	if req, err := http.NewRequest(http.MethodPost, server, bytes.NewReader(h.body)); err == nil {
		req.Header = h.header.Clone()
		if res, err := client.Do(req); err == nil {
			status = res.StatusCode
			_ = res.Body.Close()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers[status]++
}

// idle reports whether everything that arrived is passed on.
func (r *relay) idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.held) == 0 && !r.sending
}

// counted returns how many webhooks arrived and how often instances answered with a status.
func (r *relay) counted() (received int, answers map[int]int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.received, maps.Clone(r.answers)
}

func fine(hooks []hook) []hook { return hooks }

// halfLost loses webhooks by the throw of a coin.
func halfLost() weather {
	coin := rand.New(rand.NewPCG(3, 5))
	return func(hooks []hook) (left []hook) {
		for _, h := range hooks {
			if coin.IntN(2) == 0 {
				left = append(left, h)
			}
		}
		return left
	}
}

// twiceInAnyOrder passes everything on twice: shuffled with what came within the same moment, and the second time some moments later,
// among younger ones.
func twiceInAnyOrder() weather {
	dice := rand.New(rand.NewPCG(7, 11))
	var later [5][]hook
	return func(hooks []hook) []hook {
		now := append(append([]hook(nil), hooks...), later[0]...)
		copy(later[:], later[1:])
		later[len(later)-1] = nil
		for _, h := range hooks {
			i := dice.IntN(len(later))
			later[i] = append(later[i], h)
		}
		dice.Shuffle(len(now), func(i, j int) { now[i], now[j] = now[j], now[i] })
		return now
	}
}
