package githost_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/batchbot/batchbot/githost"
)

// stopped is the context of a process that was stopped past the end of its time, at the moment it wakes up: no timer has gone off yet.
type stopped struct{ context.Context }

func (stopped) Deadline() (time.Time, bool) { return time.Now().Add(-time.Second), true }

// Whoever took over the work meanwhile may have written the same, so a write that is late is not sent.
func TestAProcessThatWakesUpLateWritesNothing(t *testing.T) {
	t.Parallel()
	var writes int
	p := githost.NewPolite(githost.PoliteConfig{Next: server(func(*http.Request) *http.Response {
		writes++
		return answer(http.StatusCreated, "{}")
	})})
	for _, test := range []struct {
		ctx  context.Context
		sent int
		want error
	}{{stopped{t.Context()}, 0, context.DeadlineExceeded}, {t.Context(), 1, nil}} {
		req, err := http.NewRequestWithContext(test.ctx, http.MethodPost, here+"/comments", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := p.RoundTrip(req)
		if err == nil {
			_ = res.Body.Close()
		}
		if !errors.Is(err, test.want) || writes != test.sent {
			t.Errorf("it sent %d writes and says %v, want %d and %v", writes, err, test.sent, test.want)
		}
	}
}
