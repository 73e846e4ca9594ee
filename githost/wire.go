package githost

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// WireConfig configures a Wire.
type WireConfig struct {
	Origin    *url.URL          // scheme and host: the only place requests may go
	Transport http.RoundTripper // nil: a transport of its own with sane limits
	UserAgent string            // empty: "batchbot"
	Timeout   time.Duration     // for one request and its whole answer; 0: 30 s
	MaxAnswer int64             // bytes; 0: 16 MiB
	Host      string            // its configured name, for the meter
	Route     Route             // names what is counted; nil: the method alone
	Meter     Meter             // nil: nobody counts
}

// Wire is the innermost round tripper of a host, shared by all its credentials. Answers it returns are complete and in memory, so
// a time limit cannot strike later and an answer that nobody closes leaks nothing.
type Wire struct {
	config WireConfig
}

// NewWire makes the innermost round tripper of a host.
func NewWire(config WireConfig) *Wire {
	if config.Transport == nil {
		config.Transport = &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			ForceAttemptHTTP2:     true,
			MaxIdleConns:          64,
			MaxIdleConnsPerHost:   16,
			IdleConnTimeout:       90 * time.Second,
			TLSHandshakeTimeout:   10 * time.Second,
			ExpectContinueTimeout: time.Second,
			// Bounds headers too: the body has MaxAnswer.
			MaxResponseHeaderBytes: 1 << 20,
		}
	}
	if config.UserAgent == "" {
		config.UserAgent = "batchbot"
	}
	if config.Timeout == 0 {
		config.Timeout = 30 * time.Second
	}
	if config.MaxAnswer == 0 {
		config.MaxAnswer = 16 << 20
	}
	if config.Route == nil {
		config.Route = func(*http.Request) (string, string) { return "", "" }
	}
	if config.Meter == nil {
		config.Meter = noMeter{}
	}
	return &Wire{config}
}

// RoundTrip sends one request. An answer that asks for a pause is a *bot.RateLimitedError, whose RetryAfter is 0 if the answer does
// not say how long.
func (w *Wire) RoundTrip(req *http.Request) (*http.Response, error) {
	if at := origin(req.URL); at != origin(w.config.Origin) {
		closeBody(req)
		return nil, fmt.Errorf("refusing to send credentials of %s to %s", origin(w.config.Origin), OneLine(at, 200))
	}
	ctx, cancel := context.WithTimeout(req.Context(), w.config.Timeout)
	defer cancel()
	req = req.Clone(ctx)
	req.Header.Set("User-Agent", w.config.UserAgent)
	code := 0
	defer func() {
		_, resource := w.config.Route(req)
		w.config.Meter.Requested(w.config.Host, strings.TrimSpace(req.Method+" "+resource), code)
	}()
	resp, err := w.config.Transport.RoundTrip(req)
	if err != nil {
		return nil, &unansweredError{err}
	}
	code = resp.StatusCode
	body, err := io.ReadAll(io.LimitReader(resp.Body, w.config.MaxAnswer+1))
	_ = resp.Body.Close()
	if err != nil {
		return nil, &unansweredError{fmt.Errorf("reading the answer: %w", err)}
	}
	if int64(len(body)) > w.config.MaxAnswer {
		return nil, fmt.Errorf("the answer is larger than %d bytes", w.config.MaxAnswer)
	}
	if wait, asked := pause(resp, body, time.Now()); asked {
		return nil, &bot.RateLimitedError{RetryAfter: wait}
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// unansweredError marks what went wrong on the way, so that layers further out can tell it from what the host said. It reads as its cause.
type unansweredError struct{ cause error }

func (e *unansweredError) Error() string { return e.cause.Error() }
func (e *unansweredError) Unwrap() error { return e.cause }

// Is makes it match bot.ErrUnavailable.
func (e *unansweredError) Is(target error) bool { return target == bot.ErrUnavailable }

// Answered is the error of an answer: one of a server error matches bot.ErrUnavailable, and reads as err all the same.
func Answered(status int, err error) error {
	if status >= http.StatusInternalServerError {
		return &serverError{err}
	}
	return err
}

type serverError struct{ cause error }

func (e *serverError) Error() string { return e.cause.Error() }
func (e *serverError) Unwrap() error { return e.cause }

// Is makes it match bot.ErrUnavailable.
func (e *serverError) Is(target error) bool { return target == bot.ErrUnavailable }

// origin is the scheme and authority of a URL.
func origin(u *url.URL) string { return u.Scheme + "://" + u.Host }

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}
