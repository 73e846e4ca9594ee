package githost

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// longestPause bounds what a host can ask for: a wrong clock or header must not silence an instance for a day.
const longestPause = time.Hour

// pause reports whether an answer asks for a pause, and for how long; 0 means that it does not say.
//
// Hosts say it with 429 or with 403. Retry-After comes first. The reset time counts only when nothing remains: under a secondary
// limit it belongs to the primary one and may lie an hour ahead.
func pause(resp *http.Response, body []byte, now time.Time) (wait time.Duration, asked bool) {
	retryAfter := resp.Header.Get("Retry-After")
	exhausted := firstHeader(resp.Header, "X-RateLimit-Remaining", "RateLimit-Remaining") == "0"
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
	case http.StatusForbidden:
		if retryAfter == "" && !exhausted && !mentionsLimit(body) {
			return 0, false
		}
	default:
		return 0, false
	}
	// The host's own clock, so that a skewed one here does no harm.
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		now = date
	}
	if seconds, err := strconv.ParseInt(strings.TrimSpace(retryAfter), 10, 64); err == nil && seconds >= 0 {
		return bounded(seconds), true
	}
	if at, err := http.ParseTime(retryAfter); err == nil {
		return bounded(int64(at.Sub(now)/time.Second) + 1), true
	}
	if exhausted {
		reset := firstHeader(resp.Header, "X-RateLimit-Reset", "RateLimit-Reset")
		if unix, err := strconv.ParseInt(reset, 10, 64); err == nil {
			return bounded(unix - now.Unix() + 1), true
		}
	}
	return 0, true
}

// bounded turns seconds into a pause from one second to longestPause.
func bounded(seconds int64) time.Duration {
	return time.Duration(min(max(seconds, 1), int64(longestPause/time.Second))) * time.Second
}

func mentionsLimit(body []byte) bool {
	body = bytes.ToLower(body[:min(len(body), 4096)])
	for _, words := range []string{"secondary rate limit", "secondary-rate-limits", "abuse detection", "api rate limit exceeded"} {
		if bytes.Contains(body, []byte(words)) {
			return true
		}
	}
	return false
}

func firstHeader(h http.Header, names ...string) string {
	for _, name := range names {
		if v := h.Get(name); v != "" {
			return v
		}
	}
	return ""
}
