package intake

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// fakeHooks knows one secret and reads deliveries as the test says.
type fakeHooks struct {
	parse func(event string, payload []byte) ([]bot.Event, string, error)
}

func (h fakeHooks) Authenticate(header map[string][]string, _ []byte) (bot.WebhookHead, error) {
	head := http.Header(header)
	if head.Get("Secret") != "right" {
		return bot.WebhookHead{}, errors.New("the signature does not fit")
	}
	return bot.WebhookHead{Key: head.Get("Key"), Event: head.Get("Event"), Wanted: head.Get("Event") != "star"}, nil
}

func (h fakeHooks) Parse(event string, payload []byte) ([]bot.Event, string, error) {
	return h.parse(event, payload)
}

// fakeInbox keeps deliveries in memory, by the clock of the test.
type fakeInbox struct {
	mu         sync.Mutex
	down       bool
	slow       time.Duration // how long an outcome takes to store
	deliveries []*stored
}

type stored struct {
	bot.Delivery
	status bot.DeliveryStatus
	err    string
	due    time.Time
}

func (b *fakeInbox) InsertDelivery(ctx context.Context, host, key, event string, payload []byte) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return false, errDown
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	for _, d := range b.deliveries {
		if d.Key == key {
			return false, nil
		}
	}
	b.deliveries = append(b.deliveries, &stored{
		Delivery: bot.Delivery{ID: int64(len(b.deliveries) + 1), Host: host, Key: key, Event: event, Payload: payload}, status: bot.DeliveryDue, due: time.Now(),
	})
	return true, nil
}

func (b *fakeInbox) ClaimDeliveries(_ context.Context, limit int, lease time.Duration) (list []bot.Delivery, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return nil, errDown
	}
	for _, d := range b.deliveries {
		if d.status == bot.DeliveryDue && !d.due.After(time.Now()) && len(list) < limit {
			d.due, d.Attempts = time.Now().Add(lease), d.Attempts+1
			list = append(list, d.Delivery)
		}
	}
	return list, nil
}

func (b *fakeInbox) FinishDelivery(ctx context.Context, id int64, attempts int, o bot.DeliveryOutcome) (bool, error) {
	select {
	case <-time.After(b.slow):
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	d := b.deliveries[id-1]
	if b.down || ctx.Err() != nil {
		return false, errDown
	}
	if d.Attempts != attempts {
		return false, nil
	}
	d.status, d.err, d.due = o.Status, o.Error, time.Now().Add(o.RetryIn)
	return true, nil
}

// goes says whether the database is down from now on.
func (b *fakeInbox) goes(down bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down = down
}

func TestEveryWebhookGetsAClearAnswer(t *testing.T) {
	t.Parallel()
	type request struct {
		method, path, secret, key, event, body string
		length                                 int64
	}
	good := request{method: "POST", path: "/webhooks/github", secret: "right", key: "k1", event: "issue_comment", body: "{}"}
	for _, c := range []struct {
		name   string
		change func(*request)
		down   bool
		twice  bool
		status int
		words  string
		stored int
	}{
		{"stored", func(*request) {}, false, false, 202, "stored", 1},
		{"a redelivery", func(*request) {}, false, true, 200, "known already", 1},
		{"junk is stored, since nothing is parsed here", func(r *request) { r.body = "{{{" }, false, false, 202, "stored", 1},
		{"an unknown event", func(r *request) { r.event = "star" }, false, false, 202, "not used", 0},
		{"a bad signature", func(r *request) { r.secret = "wrong" }, false, false, 401, "must be the same", 0},
		{"no signature", func(r *request) { r.secret = "" }, false, false, 401, "not authentic", 0},
		{"an oversized body", func(r *request) { r.body = strings.Repeat("x", 2000) }, false, false, 413, "larger than 1000 bytes", 0},
		{"an oversized body that does not say so", func(r *request) { r.body, r.length = strings.Repeat("x", 2000), -1 }, false, false, 413, "larger than 1000 bytes", 0},
		{"an oversized body by a stranger", func(r *request) { r.body, r.secret = strings.Repeat("x", 2000), "wrong" }, false, false, 413, "larger", 0},
		{"another method", func(r *request) { r.method = "GET" }, false, false, 405, "POST", 0},
		{"another path", func(r *request) { r.path = "/webhooks/github/other" }, false, false, 404, "payload URL", 0},
		{"a database that is down", func(*request) {}, true, false, 503, "send it again later", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inbox, nudged := &fakeInbox{down: c.down}, 0
			h := NewHandler(HandlerConfig{
				Hosts: map[string]Source{"/webhooks/github": {Name: "git", Webhooks: fakeHooks{}}},
				Inbox: inbox, Nudge: func() { nudged++ }, MaxBody: 1000,
			})
			r := good
			c.change(&r)
			var got *httptest.ResponseRecorder
			times := 1
			if c.twice {
				times = 2
			}
			for range times {
				req := httptest.NewRequest(r.method, r.path, strings.NewReader(r.body))
				if r.length != 0 {
					req.Body, req.ContentLength = io.NopCloser(strings.NewReader(r.body)), r.length
				}
				req.Header.Set("Secret", r.secret)
				req.Header.Set("Key", r.key)
				req.Header.Set("Event", r.event)
				got = httptest.NewRecorder()
				h.ServeHTTP(got, req)
			}
			if got.Code != c.status || !strings.Contains(got.Body.String(), c.words) {
				t.Errorf("answer %d %q, want %d with %q", got.Code, got.Body, c.status, c.words)
			}
			if len(inbox.deliveries) != c.stored || nudged != c.stored {
				t.Errorf("%d stored, %d nudges, want %d", len(inbox.deliveries), nudged, c.stored)
			}
			if c.status == 503 && got.Header().Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
			if c.status == 405 && got.Header().Get("Allow") != "POST" {
				t.Error("no Allow")
			}
		})
	}
}

func TestAHostThatHangsUpHasDelivered(t *testing.T) {
	t.Parallel()
	inbox := &fakeInbox{}
	h := NewHandler(HandlerConfig{Hosts: map[string]Source{"/hook": {Name: "git", Webhooks: fakeHooks{}}}, Inbox: inbox})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	req := httptest.NewRequest("POST", "/hook", strings.NewReader("{}")).WithContext(ctx)
	req.Header.Set("Secret", "right")
	req.Header.Set("Key", "k1")
	h.ServeHTTP(httptest.NewRecorder(), req)
	if len(inbox.deliveries) != 1 {
		t.Error("the delivery was lost")
	}
}

func TestABrokenBodyIsRefused(t *testing.T) {
	t.Parallel()
	h := NewHandler(HandlerConfig{Hosts: map[string]Source{"/hook": {Name: "git", Webhooks: fakeHooks{}}}, Inbox: &fakeInbox{}})
	got := httptest.NewRecorder()
	h.ServeHTTP(got, httptest.NewRequest("POST", "/hook", io.MultiReader(strings.NewReader("{"), brokenReader{})))
	if got.Code != 400 || !strings.Contains(got.Body.String(), "broke off") {
		t.Errorf("answer %d %q", got.Code, got.Body)
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
