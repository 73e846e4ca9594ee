package githost_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost"
)

// server answers requests in process: no sockets, so that time can be bent.
type server func(*http.Request) *http.Response

func (s server) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	return s(req), nil
}

func answer(status int, body string, header ...string) *http.Response {
	resp := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
	for i := 0; i+1 < len(header); i += 2 {
		resp.Header.Set(header[i], header[i+1])
	}
	return resp
}

const here = "https://api.example"

func wire(t *testing.T, next http.RoundTripper) *githost.Wire {
	t.Helper()
	u, err := url.Parse(here)
	if err != nil {
		t.Fatal(err)
	}
	return githost.NewWire(githost.WireConfig{Origin: u, Transport: next, MaxAnswer: 1000})
}

// wireWith is a wire with a meter.
func wireWith(t *testing.T, next http.RoundTripper, meter githost.Meter) *githost.Wire {
	t.Helper()
	u, err := url.Parse(here)
	if err != nil {
		t.Fatal(err)
	}
	return githost.NewWire(githost.WireConfig{Origin: u, Transport: next, Host: "git", Route: route, Meter: meter})
}

func client(t *testing.T, next http.RoundTripper) *http.Client {
	t.Helper()
	return githost.NewClient(githost.NewPolite(githost.PoliteConfig{Next: wire(t, next)}))
}

func send(t *testing.T, c *http.Client, method, address string) (int, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

func retryAfter(t *testing.T, err error) time.Duration {
	t.Helper()
	var limited *bot.RateLimitedError
	if !errors.As(err, &limited) {
		t.Fatalf("got %v, want a rate limit", err)
	}
	return limited.RetryAfter
}

func TestFinding06ARedirectedWriteIsAnError(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 302, 307, 308} {
		var seen []string
		c := client(t, server(func(req *http.Request) *http.Response {
			seen = append(seen, req.Method+" "+req.URL.Path)
			return answer(status, "", "Location", here+"/repositories/7/merge")
		}))
		_, _, err := send(t, c, http.MethodPut, here+"/repos/old/merge")
		var redirected *githost.RedirectError
		if !errors.As(err, &redirected) || redirected.Status != status || redirected.Method != http.MethodPut {
			t.Errorf("%d: got %v", status, err)
		}
		if len(seen) != 1 {
			t.Errorf("%d: sent %v", status, seen)
		}
	}
}

func TestFinding07ARedirectElsewhereNeverGetsTheToken(t *testing.T) {
	t.Parallel()
	var stolen atomic.Bool
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stolen.Store(true) }))
	defer thief.Close()
	honest := httptest.NewServer(http.RedirectHandler(thief.URL+"/x", http.StatusFound))
	defer honest.Close()
	u, err := url.Parse(honest.URL)
	if err != nil {
		t.Fatal(err)
	}
	w := githost.NewWire(githost.WireConfig{Origin: u})
	var redirected *githost.RedirectError
	if _, _, err := send(t, githost.NewClient(w), http.MethodGet, honest.URL+"/y"); !errors.As(err, &redirected) {
		t.Errorf("got %v, want that the redirect is refused", err)
	}
	// Even a client that follows redirects cannot get past the wire.
	if _, _, err := send(t, &http.Client{Transport: w}, http.MethodGet, honest.URL+"/y"); err == nil {
		t.Error("the redirect was followed without the client's own check")
	}
	if stolen.Load() {
		t.Error("another host got the request")
	}
}

func TestARedirectedReadIsFollowedWithinTheHost(t *testing.T) {
	t.Parallel()
	c := client(t, server(func(req *http.Request) *http.Response {
		if req.URL.Path == "/repos/old" {
			return answer(301, "", "Location", here+"/repositories/7")
		}
		if req.URL.Path == "/loop" {
			return answer(302, "", "Location", here+"/loop")
		}
		return answer(200, "seven")
	}))
	if _, body, err := send(t, c, http.MethodGet, here+"/repos/old"); err != nil || body != "seven" {
		t.Errorf("got %q, %v", body, err)
	}
	var redirected *githost.RedirectError
	if _, _, err := send(t, c, http.MethodGet, here+"/loop"); !errors.As(err, &redirected) {
		t.Errorf("a loop: got %v", err)
	}
}

func TestFinding03EveryWayToAskForAPauseIsUnderstood(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC()
	soon := strconv.FormatInt(now.Add(90*time.Second).Unix(), 10)
	for name, c := range map[string]struct {
		resp *http.Response
		want time.Duration
	}{
		"429 with seconds":           {answer(429, "", "Retry-After", "7"), 7 * time.Second},
		"429 with a date":            {answer(429, "", "Retry-After", now.Add(30*time.Second).Format(http.TimeFormat), "Date", now.Format(http.TimeFormat)), 31 * time.Second},
		"429 with nothing":           {answer(429, ""), time.Minute},
		"429 with nonsense":          {answer(429, "", "Retry-After", "soon"), time.Minute},
		"403 exhausted":              {answer(403, "", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", soon, "Date", now.Format(http.TimeFormat)), 91 * time.Second},
		"403 exhausted, skewed host": {answer(403, "", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1000090", "Date", time.Unix(1000000, 0).UTC().Format(http.TimeFormat)), 91 * time.Second},
		"403 secondary":              {answer(403, `{"message":"You have exceeded a secondary rate limit."}`), time.Minute},
		"403 with seconds":           {answer(403, "", "Retry-After", "3"), 3 * time.Second},
		"429 for a day":              {answer(429, "", "Retry-After", "86400"), time.Hour},
		"429 for no time":            {answer(429, "", "Retry-After", "0"), time.Second},
		"429 of GitLab":              {answer(429, "", "RateLimit-Remaining", "0", "RateLimit-Reset", soon, "Date", now.Format(http.TimeFormat)), 91 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := send(t, client(t, server(func(*http.Request) *http.Response { return c.resp })), http.MethodGet, here)
			if got := retryAfter(t, err); got != c.want {
				t.Errorf("a pause of %v, want %v", got, c.want)
			}
		})
	}
	forbidden := client(t, server(func(*http.Request) *http.Response {
		return answer(403, `{"message":"Resource not accessible by integration"}`, "X-RateLimit-Remaining", "4000")
	}))
	if status, _, err := send(t, forbidden, http.MethodGet, here); err != nil || status != 403 {
		t.Errorf("a plain refusal came as %d, %v", status, err)
	}
}

func TestFinding04ASecondaryLimitIsNotWaitedOutUntilThePrimaryReset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limited, sent := true, 0
		c := client(t, server(func(*http.Request) *http.Response {
			sent++
			if limited {
				return answer(403, `{"documentation_url":"https://docs.github.com/x#about-secondary-rate-limits","message":"secondary rate limit"}`,
					"X-RateLimit-Remaining", "4000", "X-RateLimit-Reset", strconv.FormatInt(time.Now().Add(50*time.Minute).Unix(), 10))
			}
			return answer(200, "fine")
		}))
		// At least a minute, and longer each time in a row.
		for _, want := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute} {
			before := sent
			_, _, err := send(t, c, http.MethodGet, here)
			if got := retryAfter(t, err); got != want {
				t.Errorf("a pause of %v, want %v", got, want)
			}
			if _, _, err = send(t, c, http.MethodGet, here); retryAfter(t, err) != want || sent != before+1 {
				t.Errorf("during the pause: %v, %d requests", err, sent-before)
			}
			time.Sleep(want)
		}
		limited = false
		if _, body, err := send(t, c, http.MethodGet, here); err != nil || body != "fine" {
			t.Errorf("after the pause: %q, %v", body, err)
		}
		limited = true
		if _, _, err := send(t, c, http.MethodGet, here); retryAfter(t, err) != time.Minute {
			t.Errorf("after a success: %v, want a minute again", err)
		}
	})
}

func TestALimitOnOneCredentialDoesNotStopAnother(t *testing.T) {
	t.Parallel()
	w := wire(t, server(func(req *http.Request) *http.Response {
		if req.URL.Path == "/slow-down" {
			return answer(429, "")
		}
		return answer(200, "fine")
	}))
	one := githost.NewClient(githost.NewPolite(githost.PoliteConfig{Next: w}))
	two := githost.NewClient(githost.NewPolite(githost.PoliteConfig{Next: w}))
	_, _, err := send(t, one, http.MethodGet, here+"/slow-down")
	retryAfter(t, err)
	if _, _, err := send(t, one, http.MethodGet, here+"/x"); retryAfter(t, err) <= 0 {
		t.Error("the limited one goes on")
	}
	if _, _, err := send(t, two, http.MethodGet, here+"/x"); err != nil {
		t.Errorf("the other: %v", err)
	}
}

func TestWritesGoOneByOneWithAPauseBetween(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var (
			mu     sync.Mutex
			at     []time.Duration
			active int
		)
		next := server(func(req *http.Request) *http.Response {
			if req.Method == http.MethodGet || req.URL.Path == "/graphql" {
				return answer(200, "")
			}
			mu.Lock()
			active++
			if active != 1 {
				t.Errorf("%d writes at once", active)
			}
			at = append(at, time.Since(start))
			mu.Unlock()
			time.Sleep(300 * time.Millisecond)
			mu.Lock()
			active--
			mu.Unlock()
			return answer(201, "")
		})
		c := githost.NewClient(githost.NewPolite(githost.PoliteConfig{Next: wire(t, next), Spacing: time.Second}))
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if _, _, err := send(t, c, http.MethodPost, here); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if _, _, err := send(t, c, http.MethodGet, here); err != nil || time.Since(start) != 0 {
			t.Errorf("a read waited for the writes: %v, %v", time.Since(start), err)
		}
		if _, _, err := send(t, c, http.MethodPost, here+"/graphql"); err != nil || time.Since(start) > 400*time.Millisecond {
			t.Errorf("a query waited for the writes: %v, %v", time.Since(start), err)
		}
		all.Wait()
		want := []time.Duration{0, 1300 * time.Millisecond, 2600 * time.Millisecond}
		if fmt.Sprint(at) != fmt.Sprint(want) {
			t.Errorf("written at %v, want %v", at, want)
		}
	})
}

func TestAWaitingWriteCanBeAbandoned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		p := githost.NewPolite(githost.PoliteConfig{Next: wire(t, server(func(*http.Request) *http.Response {
			sent++
			return answer(201, "")
		})), Spacing: time.Hour})
		write := func(ctx context.Context) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, here, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = p.RoundTrip(req)
			return err
		}
		if err := write(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := write(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		// It gave its turn back.
		if err := write(t.Context()); err != nil || sent != 2 {
			t.Errorf("got %v, %d sent", err, sent)
		}
	})
}

func TestReadsAreConditional(t *testing.T) {
	t.Parallel()
	version, full := 1, 0
	next := server(func(req *http.Request) *http.Response {
		etag := fmt.Sprintf(`"%s-%d"`, req.URL.Path, version)
		if req.Header.Get("If-None-Match") == etag {
			return answer(304, "")
		}
		full++
		return answer(200, fmt.Sprintf("%s v%d", req.URL.Path, version), "ETag", etag, "Link", `<x>; rel="next"`)
	})
	cache := githost.NewCache(1 << 20)
	as := func(identity string) *http.Client {
		return githost.NewClient(githost.NewPolite(githost.PoliteConfig{Next: wire(t, next), Identity: identity, Cache: cache}))
	}
	one, two := as("one"), as("two")
	for i, step := range []struct {
		c        *http.Client
		path     string
		want     string
		wantFull int
	}{
		{one, "/a", "/a v1", 1},
		{one, "/a", "/a v1", 1},
		{one, "/b", "/b v1", 2},
		{two, "/a", "/a v1", 3}, // what one may see is not what two may see
		{one, "/a", "/a v1", 3},
	} {
		status, body, err := send(t, step.c, http.MethodGet, here+step.path)
		if err != nil || status != 200 || body != step.want || full != step.wantFull {
			t.Errorf("step %d: %d %q %v, %d full answers", i, status, body, err, full)
		}
	}
	version = 2
	if _, body, err := send(t, one, http.MethodGet, here+"/a"); err != nil || body != "/a v2" {
		t.Errorf("after a change: %q, %v", body, err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, here+"/a", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := one.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.Header.Get("Link") == "" {
		t.Error("a remembered answer lost its next page")
	}
}

func TestTheCacheForgetsTheLeastRecentlyUsed(t *testing.T) {
	t.Parallel()
	asked := map[string]int{} // full answers per path
	next := server(func(req *http.Request) *http.Response {
		if req.Header.Get("If-None-Match") != "" {
			return answer(304, "")
		}
		asked[req.URL.Path]++
		return answer(200, "body", "ETag", `"x"`)
	})
	// Room for about four answers.
	c := githost.NewClient(githost.NewPolite(githost.PoliteConfig{Next: wire(t, next), Cache: githost.NewCache(4500)}))
	for _, path := range []string{"/1", "/2", "/3", "/4", "/1", "/5", "/1", "/2"} {
		if _, body, err := send(t, c, http.MethodGet, here+path); err != nil || body != "body" {
			t.Fatalf("%s: %q, %v", path, body, err)
		}
	}
	if asked["/1"] != 1 || asked["/2"] != 2 {
		t.Errorf("asked in full %v: want /1 kept and /2 forgotten", asked)
	}
}

func TestTheWireBoundsAnswers(t *testing.T) {
	t.Parallel()
	big := client(t, server(func(*http.Request) *http.Response { return answer(200, strings.Repeat("x", 1001)) }))
	if _, _, err := send(t, big, http.MethodGet, here); err == nil || !strings.Contains(err.Error(), "larger than 1000 bytes") {
		t.Errorf("got %v", err)
	}
	elsewhere := client(t, server(func(*http.Request) *http.Response {
		t.Error("it was sent")
		return answer(200, "")
	}))
	if _, _, err := send(t, elsewhere, http.MethodGet, "http://api.example/"); err == nil {
		t.Error("a token would have gone over a connection anybody can read")
	}
}

type stuck struct{}

func (stuck) RoundTrip(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}

func TestARequestThatIsNotAnsweredEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if _, _, err := send(t, client(t, stuck{}), http.MethodGet, here); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(start); took != 30*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func TestTheUserAgentIsOurs(t *testing.T) {
	t.Parallel()
	var agent string
	c := client(t, server(func(req *http.Request) *http.Response {
		agent = req.Header.Get("User-Agent")
		return answer(200, "")
	}))
	if _, _, err := send(t, c, http.MethodGet, here); err != nil || agent != "batchbot" {
		t.Errorf("user agent %q, %v", agent, err)
	}
}
