package fakehost

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// FaultKind says how a call goes wrong.
type FaultKind string

// The faults of calls, API and git alike.
const (
	FaultStatus         FaultKind = "status"          // answered with Status and Message
	FaultDrop           FaultKind = "drop"            // the connection ends without an answer
	FaultHang           FaultKind = "hang"            // no answer until the client gives up
	FaultSlow           FaultKind = "slow"            // answered after Wait
	FaultSecondaryLimit FaultKind = "secondary-limit" // Status 403 or 429; Wait is the Retry-After, 0: none is given. GitLab: an endpoint's own limit
	FaultPrimaryLimit   FaultKind = "primary-limit"   // Status 403 or 429; nothing remains until Wait from now, without a Retry-After. GitLab: 429, plain text, with one
	FaultRedirect       FaultKind = "redirect"        // Status 301, 302, 307 or 308, to the same path below To
)

// The faults of the world behind the API: the call itself is answered.
const (
	FaultMergeableUnknown FaultKind = "mergeable-unknown" // mergeability is still being computed
	FaultStaleHead        FaultKind = "stale-head"        // merge requests show their head before the last push
)

// The faults of webhooks.
const (
	FaultLose     FaultKind = "lose"     // never sent
	FaultTwice    FaultKind = "twice"    // sent twice
	FaultDelay    FaultKind = "delay"    // sent Wait later
	FaultOvertake FaultKind = "overtake" // sent after the next one, or Wait later (0: a second) if there is none
)

// Fault makes some calls or webhooks go wrong. The first rule that strikes a call decides about it.
type Fault struct {
	// On says which: "METHOD /path" below the API's root for API and git calls, as in "PUT /repos/*/pulls/*/merge" and
	// "POST /acme/app.git/git-receive-pack", or "HOOK event/action" for webhooks. A star stands for any text.
	On string `json:"on"`
	// Skip lets that many of them through first.
	Skip int `json:"skip,omitempty"`
	// Every strikes each nth of those that follow; 0 and 1: all.
	Every int `json:"every,omitempty"`
	// Times ends the fault after it struck so often; 0: never.
	Times int `json:"times,omitempty"`

	Do FaultKind `json:"do"`
	// Late lets a call have its effect before it goes wrong.
	Late    bool          `json:"late,omitempty"`
	Status  int           `json:"status,omitempty"` // 0: what is usual for the kind
	Message string        `json:"message,omitempty"`
	Wait    time.Duration `json:"wait,omitempty"`
	To      string        `json:"to,omitempty"` // address without path; empty: this host

	// Struck counts; it is for reading.
	Struck int `json:"struck,omitempty"`
	seen   int
}

// BaseMoved is the answer of a merge call that lost a race for the base.
func BaseMoved(times int) Fault {
	return Fault{On: "PUT /repos/*/merge", Times: times, Do: FaultStatus, Status: http.StatusMethodNotAllowed, Message: "Base branch was modified. Review and try the merge again."}
}

// check refuses what would never strike, or strike without a sense.
func (f Fault) check() error {
	hook := strings.HasPrefix(f.On, "HOOK ")
	switch f.Do {
	case FaultStatus:
		if f.Status != 0 && (f.Status < 200 || f.Status > 599) {
			return fmt.Errorf("fault on %q: status %d is none: use 200 to 599", f.On, f.Status)
		}
	case FaultDrop, FaultHang, FaultSlow, FaultSecondaryLimit, FaultPrimaryLimit, FaultRedirect, FaultMergeableUnknown, FaultStaleHead:
	case FaultLose, FaultTwice, FaultDelay, FaultOvertake:
		if !hook {
			return fmt.Errorf("fault %q is one of webhooks: write on as \"HOOK event/action\", not %q", f.Do, f.On)
		}
		return nil
	default:
		return fmt.Errorf("unknown fault %q on %q", f.Do, f.On)
	}
	if hook || !strings.Contains(f.On, " /") && !strings.Contains(f.On, "*") {
		return fmt.Errorf("fault %q is one of calls: write on as \"METHOD /path\", not %q", f.Do, f.On)
	}
	return nil
}

// faults are the rules in force.
type faults struct {
	mu    sync.Mutex
	rules []*Fault
}

// strike answers the fault that a call or webhook meets; ok is false when it meets none.
func (s *faults) strike(what string) (f Fault, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.rules {
		if f.Times > 0 && f.Struck >= f.Times || !glob(f.On, what) {
			continue
		}
		if f.seen++; f.seen > f.Skip && (f.seen-f.Skip)%max(f.Every, 1) == 0 {
			f.Struck++
			return *f, true
		}
	}
	return Fault{}, false
}

// glob matches s against a pattern in which a star stands for any text.
func glob(pattern, s string) bool {
	first, rest, starred := strings.Cut(pattern, "*")
	if !starred {
		return pattern == s
	}
	if !strings.HasPrefix(s, first) {
		return false
	}
	for s = s[len(first):]; ; s = s[1:] {
		if glob(rest, s) {
			return true
		}
		if s == "" {
			return false
		}
	}
}

// Break adds faults, after those in force.
func (h *Host) Break(add ...Fault) error {
	for _, f := range add {
		if err := f.check(); err != nil {
			return err
		}
	}
	h.faults.mu.Lock()
	defer h.faults.mu.Unlock()
	for _, f := range add {
		f.Struck, f.seen = 0, 0
		h.faults.rules = append(h.faults.rules, &f)
	}
	return nil
}

// Heal ends all faults added by Break.
func (h *Host) Heal() {
	h.faults.mu.Lock()
	defer h.faults.mu.Unlock()
	h.faults.rules = nil
}

// Broken lists the faults in force and those that ended, with how often they struck.
func (h *Host) Broken() []Fault {
	h.faults.mu.Lock()
	defer h.faults.mu.Unlock()
	list := make([]Fault, 0, len(h.faults.rules))
	for _, f := range h.faults.rules {
		list = append(list, *f)
	}
	return list
}

// worldFault is the context key of a fault of the world that a call meets.
type worldFault struct{}

// meets reports whether a request is to see the world with a fault.
func meets(req *http.Request, kind FaultKind) bool { return req.Context().Value(worldFault{}) == kind }

// faulty puts the faults in front of everything but control.
func (h *Host) faulty(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		path := strings.TrimPrefix(strings.TrimPrefix(req.URL.Path, "/api/v3"), gitlabAPI)
		f, ok := Fault{}, false
		if !strings.HasPrefix(req.URL.Path, controlPrefix) {
			f, ok = h.faults.strike(req.Method + " " + path)
		}
		if !ok {
			next.ServeHTTP(w, req)
			return
		}
		h.log.Debug("fault", "on", f.On, "do", f.Do, "method", req.Method, "path", path)
		switch f.Do {
		case FaultMergeableUnknown, FaultStaleHead:
			next.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), worldFault{}, f.Do)))
			return
		case FaultSlow:
			if h.pause(req, f.Wait) {
				next.ServeHTTP(w, req)
			}
			return
		}
		if f.Late {
			next.ServeHTTP(&recorder{header: http.Header{}}, req)
		} else {
			// The server notices a client that gives up only when the request was read.
			_, _ = io.Copy(io.Discard, req.Body)
		}
		h.fail(w, req, f)
	})
}

// fail answers as f says, or not at all.
func (h *Host) fail(w http.ResponseWriter, req *http.Request, f Fault) {
	if h.gl != nil && (f.Do == FaultPrimaryLimit || f.Do == FaultSecondaryLimit) {
		h.gl.fail(w, f)
		return
	}
	status, message := cmp.Or(f.Status, http.StatusBadGateway), f.Message
	switch f.Do {
	case FaultDrop:
		panic(http.ErrAbortHandler)
	case FaultHang:
		h.pause(req, 0)
		panic(http.ErrAbortHandler)
	case FaultSecondaryLimit:
		status = cmp.Or(f.Status, http.StatusForbidden)
		message = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
		if f.Wait > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(f.Wait/time.Second)))
		}
		// What remains is of the primary limit, and of no use.
		h.limits(w.Header(), rateLimit-1, time.Hour)
	case FaultPrimaryLimit:
		status = cmp.Or(f.Status, http.StatusForbidden)
		message = "API rate limit exceeded for installation."
		h.limits(w.Header(), 0, f.Wait)
	case FaultRedirect:
		status = cmp.Or(f.Status, http.StatusMovedPermanently)
		message = "Moved Permanently"
		h.mu.Lock()
		w.Header().Set("Location", cmp.Or(f.To, h.opt.BaseURL)+req.URL.RequestURI())
		h.mu.Unlock()
	}
	w.Header().Set("Date", h.now().Format(http.TimeFormat))
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	o := object{"message": cmp.Or(message, http.StatusText(status))}
	if h.gl == nil {
		o["documentation_url"], o["status"] = "https://docs.github.com/rest", strconv.Itoa(status)
	}
	_ = json.NewEncoder(w).Encode(o) // the client may be gone
}

func (h *Host) limits(header http.Header, remaining int, reset time.Duration) {
	for _, prefix := range []string{"X-RateLimit-", "RateLimit-"} {
		header.Set(prefix+"Limit", strconv.Itoa(rateLimit))
		header.Set(prefix+"Remaining", strconv.Itoa(remaining))
		header.Set(prefix+"Reset", strconv.FormatInt(h.now().Add(reset).Unix(), 10))
	}
}

// pause waits until the client gives up, the host closes, or d is over if it is not 0; only then it answers true.
func (h *Host) pause(req *http.Request, d time.Duration) bool {
	var over <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-over:
		return true
	case <-req.Context().Done():
	case <-h.ctx.Done():
	}
	return false
}

// enqueue queues a webhook as often and as late as the faults let it. It is called under the host's lock.
func (h *Host) enqueue(d *delivery, copies int) {
	send := func() { h.send(d) }
	f, ok := h.faults.strike("HOOK " + d.Event + "/" + d.Action)
	switch {
	case !ok:
	case f.Do == FaultLose:
		return
	case f.Do == FaultTwice:
		copies *= 2
	case f.Do == FaultDelay:
		h.later(f.Wait, func() {
			for range copies {
				h.queue.add(send)
			}
		})
		return
	case f.Do == FaultOvertake:
		h.held = append(h.held, slices.Repeat([]func(){send}, copies)...)
		h.later(cmp.Or(f.Wait, time.Second), h.release)
		return
	}
	for range copies {
		h.queue.add(send)
	}
	h.letGo()
}

// later runs f after d unless the host closes before.
func (h *Host) later(d time.Duration, f func()) {
	h.timers = append(h.timers, time.AfterFunc(d, func() {
		if h.ctx.Err() == nil {
			f()
		}
	}))
}

// release queues what waits to be overtaken.
func (h *Host) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.letGo()
}

func (h *Host) letGo() {
	for _, send := range h.held {
		h.queue.add(send)
	}
	h.held = nil
}
