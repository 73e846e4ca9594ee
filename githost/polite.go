package githost

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// PoliteConfig configures a Polite.
type PoliteConfig struct {
	Next     http.RoundTripper // authenticates, then Wire
	Identity string            // names the credential in the cache and for the meter; not a secret
	Spacing  time.Duration     // least time from the end of one write to the start of the next; 0: none
	Cache    *Cache            // shared between credentials; nil: no conditional reads
	Host     string            // its configured name, for the meter
	Meter    Meter             // nil: nobody counts
}

// Polite keeps one credential within what a host asks of well-behaved programs. It never repeats a request.
type Polite struct {
	config PoliteConfig
	turn   chan struct{} // holds one token: whoever writes has taken it

	mu        sync.Mutex
	until     time.Time // silence until then
	strikes   int       // pauses in a row without a duration
	lastWrite time.Time // its end; guarded by turn, not by mu
}

// NewPolite makes the layer of one credential.
func NewPolite(config PoliteConfig) *Polite {
	if config.Meter == nil {
		config.Meter = noMeter{}
	}
	p := &Polite{config: config, turn: make(chan struct{}, 1)}
	p.turn <- struct{}{}
	return p
}

// RoundTrip sends a request when it may. While the host asks for a pause it answers *bot.RateLimitedError by itself.
func (p *Polite) RoundTrip(req *http.Request) (*http.Response, error) {
	if !isWrite(req) {
		if err := p.silent(); err != nil {
			closeBody(req)
			return nil, err
		}
		return p.observe(p.read(req))
	}
	if err := p.takeTurn(req.Context()); err != nil {
		closeBody(req)
		return nil, err
	}
	defer func() {
		p.lastWrite = time.Now()
		p.turn <- struct{}{}
	}()
	// A process that was stopped for a while wakes up before its timers do, and somebody else may have taken over what it was about to write.
	if end, limited := req.Context().Deadline(); limited && time.Now().After(end) {
		closeBody(req)
		return nil, context.DeadlineExceeded
	}
	return p.observe(p.config.Next.RoundTrip(req))
}

// isWrite reports whether a request may create something. A GraphQL request is a POST, but adapters only query.
func isWrite(req *http.Request) bool {
	return req.Method != http.MethodGet && req.Method != http.MethodHead && !strings.HasSuffix(req.URL.Path, "/graphql")
}

// takeTurn waits until this is the only write and the last one is far enough away.
func (p *Polite) takeTurn(ctx context.Context) error {
	if err := p.silent(); err != nil {
		return err
	}
	select {
	case <-p.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	err := sleep(ctx, p.config.Spacing-time.Since(p.lastWrite))
	if err == nil {
		err = p.silent() // asked for while we waited
	}
	if err != nil {
		p.turn <- struct{}{}
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// silent returns what is left of the pause the host asked for.
func (p *Polite) silent() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if left := time.Until(p.until); left > 0 {
		return &bot.RateLimitedError{RetryAfter: left}
	}
	return nil
}

// observe notes a pause and hides the headers from which client libraries would conclude one of their own.
func (p *Polite) observe(resp *http.Response, err error) (*http.Response, error) {
	var limited *bot.RateLimitedError
	switch {
	case errors.As(err, &limited):
		p.mu.Lock()
		defer p.mu.Unlock()
		wait := limited.RetryAfter
		if wait <= 0 {
			// Requests that were out together are refused together: that is one strike.
			if wait = time.Until(p.until); wait <= 0 {
				// At least a minute, then ever longer, as the hosts ask. Who comes back adds what keeps instances apart.
				wait = min(time.Minute<<min(p.strikes, 4), 15*time.Minute)
				p.strikes++
			}
		}
		if until := time.Now().Add(wait); until.After(p.until) {
			p.until = until
		}
		p.config.Meter.Paused(p.config.Host, wait)
		return nil, &bot.RateLimitedError{RetryAfter: wait}
	case err != nil:
		return nil, err
	}
	p.mu.Lock()
	if !time.Now().Before(p.until) { // else it was out before the host asked
		p.strikes = 0
	}
	p.mu.Unlock()
	if n, err := strconv.Atoi(firstHeader(resp.Header, "X-RateLimit-Remaining", "RateLimit-Remaining")); err == nil {
		p.config.Meter.Remains(p.config.Host, p.config.Identity, n)
	}
	for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
		resp.Header.Del(name)
	}
	return resp, nil
}

// read sends a read, conditionally if its last answer is known.
func (p *Polite) read(req *http.Request) (*http.Response, error) {
	cache := p.config.Cache
	if cache == nil || req.Method != http.MethodGet || req.Header.Get("If-None-Match") != "" {
		return p.config.Next.RoundTrip(req)
	}
	key := p.config.Identity + "\n" + req.URL.String() + "\n" + req.Header.Get("Accept")
	known := cache.get(key)
	if known != nil {
		req = req.Clone(req.Context())
		req.Header.Set("If-None-Match", known.etag)
	}
	resp, err := p.config.Next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	switch etag := resp.Header.Get("ETag"); {
	case resp.StatusCode == http.StatusNotModified && known != nil:
		_ = resp.Body.Close()
		return known.answer(req, resp), nil
	case resp.StatusCode == http.StatusOK && etag != "":
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			return nil, err
		}
		resp.Body = io.NopCloser(bytes.NewReader(body))
		cache.put(key, &cached{etag: etag, header: resp.Header.Clone(), body: body})
	}
	return resp, nil
}
