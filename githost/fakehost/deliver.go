package fakehost

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

type eventKind string

// What happens in the world, in its own words; the face knows their wire names.
const (
	onPing       eventKind = "ping"
	onPush       eventKind = "push"
	onMR         eventKind = "merge request"
	onIssue      eventKind = "issue"
	onComment    eventKind = "comment"
	onReview     eventKind = "review"
	onStatus     eventKind = "status"
	onCheck      eventKind = "check"
	onSuite      eventKind = "suite"
	onInstall    eventKind = "installation"
	onInstalled  eventKind = "installed repositories"
	onRepository eventKind = "repository"
	onWorkflow   eventKind = "workflow run"
)

// event is one thing that happened. Only the fields of its kind are set.
type event struct {
	kind          eventKind
	action        string
	repo          *repository
	actor         *user
	mr            *mergeRequest
	thread        *thread
	comment       *comment
	review        *review
	status        *status
	check         *check
	suite         *suite
	installation  *installation
	repos         []*repository
	ref           string
	before, after string
	forced        bool
	commits       []*commit
	head          *commit
	from, fromSHA string
	changes       object // on a GitLab, in its words
}

// Delivery is one webhook: the same GUID and body at every attempt.
type Delivery struct {
	ID      int64       `json:"id"`
	GUID    string      `json:"guid"`
	Event   string      `json:"event"`
	Action  string      `json:"action,omitempty"`
	Repo    string      `json:"repo,omitempty"`
	Header  http.Header `json:"-"`
	Payload []byte      `json:"-"`
	Created time.Time   `json:"created"`
	// Hook is the number of the webhook it is for and URL that one's address, on
	// a GitLab, where a project may have several.
	Hook     int64     `json:"hook,omitempty"`
	URL      string    `json:"url,omitempty"`
	Attempts []Attempt `json:"attempts"`
}

// Attempt is one try to hand over a delivery.
type Attempt struct {
	At    time.Time `json:"at"`
	Error string    `json:"error,omitempty"` // "" when it was accepted
}

// Request is the delivery as an HTTP request to url, signed.
func (d Delivery) Request(ctx context.Context, url string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(d.Payload))
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, d.Header)
	return req, nil
}

type delivery struct {
	Delivery
	repoID int64

	hook    *gitlabHook // whose it is, on a GitLab
	eventID string
	test    bool // asked for by hand: sent even to a hook that was stopped
}

// emit renders an event as it is now and queues it. An event of a repository
// without the App reaches nobody.
func (h *Host) emit(e event) {
	if h.gl != nil {
		h.gl.emit(e)
		return
	}
	if e.repo != nil && !e.repo.installed && e.kind != onInstalled {
		return
	}
	name, payload := h.gh.payload(e)
	h.dispatch(h.record(e, name, payload))
}

// record keeps an event as the webhook it is.
func (h *Host) record(e event, name string, payload any) *delivery {
	body, err := json.Marshal(payload)
	if err != nil {
		// Payloads are maps of plain values: this is a mistake in this package.
		panic(fmt.Sprintf("fakehost: encoding a %s webhook: %v", name, err))
	}
	id := h.nextID()
	d := &delivery{Delivery: Delivery{ID: id, GUID: guid(id), Event: name, Action: e.action, Payload: body, Created: h.now(), Attempts: []Attempt{}}}
	if e.repo != nil {
		d.Repo, d.repoID = e.repo.fullName(), e.repo.ID
	}
	h.deliveries = append(h.deliveries, d)
	return d
}

func (h *Host) dispatch(d *delivery) {
	copies := 1
	if h.opt.Faults != nil {
		copies = h.opt.Faults(d.Delivery)
	}
	h.enqueue(d, copies)
}

func guid(id int64) string {
	s := sha256.Sum256([]byte("delivery " + strconv.FormatInt(id, 10)))
	x := hex.EncodeToString(s[:16])
	return x[:8] + "-" + x[8:12] + "-11f0-" + x[16:20] + "-" + x[20:32]
}

func (h *Host) send(d *delivery) {
	h.mu.Lock()
	deliver, url := h.opt.Deliver, h.opt.WebhookURL
	if h.gl != nil {
		if !d.test && h.gl.alert(d.hook) != "executable" {
			h.mu.Unlock()
			return
		}
		url, d.Header = h.gl.address(d)
		d.Hook, d.URL = d.hook.ID, url
	} else {
		d.Header = h.gh.header(d, h.opt.WebhookSecret)
	}
	sent := d.Delivery
	h.mu.Unlock()
	if deliver == nil {
		if url == "" {
			return
		}
		deliver = func(ctx context.Context, d Delivery) error { return h.post(ctx, d, url) }
	}
	a := Attempt{At: h.now()}
	if err := deliver(h.ctx, sent); err != nil {
		a.Error = err.Error()
		h.log.Debug("webhook failed", "delivery", d.GUID, "event", d.Event, "error", err)
	}
	h.mu.Lock()
	d.Attempts = append(d.Attempts, a)
	if h.gl != nil {
		h.gl.judge(d.hook, a)
	}
	h.mu.Unlock()
}

func (h *Host) post(ctx context.Context, d Delivery, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := d.Request(ctx, url)
	if err != nil {
		return err
	}
	res, err := h.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("webhook receiver answered %s", res.Status)
	}
	return nil
}

func sign(secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// DeliverTo hands webhooks to a handler in process, as POSTs to path. An answer
// outside 2xx is a failed attempt.
func DeliverTo(handler http.Handler, path string) func(context.Context, Delivery) error {
	return func(ctx context.Context, d Delivery) error {
		req, err := d.Request(ctx, "http://receiver.test"+path)
		if err != nil {
			return err
		}
		res, err := roundTripper{handler}.RoundTrip(req)
		if err != nil {
			return err
		}
		if err := res.Body.Close(); err != nil {
			return err
		}
		if res.StatusCode/100 != 2 {
			return fmt.Errorf("webhook receiver answered %s", res.Status)
		}
		return nil
	}
}

// SetWebhook points webhooks, queued ones included, at url with secret.
func (h *Host) SetWebhook(url, secret string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.opt.WebhookURL, h.opt.WebhookSecret = url, secret
}

// SetDeliver replaces Options.Deliver.
func (h *Host) SetDeliver(f func(context.Context, Delivery) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.opt.Deliver = f
}

// SetFaults replaces Options.Faults.
func (h *Host) SetFaults(f func(Delivery) int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.opt.Faults = f
}

// DropEvery loses every nth delivery; n < 1 loses none.
func DropEvery(n int) func(Delivery) int { return everyNth(n, 0) }

// DuplicateEvery sends every nth delivery twice; n < 1 duplicates none.
func DuplicateEvery(n int) func(Delivery) int { return everyNth(n, 2) }

// everyNth is called under the host's lock only.
func everyNth(n, copies int) func(Delivery) int {
	seen := 0
	return func(Delivery) int {
		if seen++; n > 0 && seen%n == 0 {
			return copies
		}
		return 1
	}
}

// Ping emits the webhook a host sends when a hook is made.
func (h *Host) Ping() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.emit(event{kind: onPing, actor: h.bot()})
}

// Deliveries lists every webhook emitted so far, lost ones included, in order.
func (h *Host) Deliveries() []Delivery {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []Delivery
	for _, d := range h.deliveries {
		// The attempts still grow.
		seen := d.Delivery
		seen.Attempts = slices.Clone(d.Attempts)
		list = append(list, seen)
	}
	return list
}

// Redeliver queues a recorded webhook again, with the same GUID and body.
func (h *Host) Redeliver(id int64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range h.deliveries {
		if d.ID == id {
			h.queue.add(func() { h.send(d) })
			return nil
		}
	}
	return fmt.Errorf("no delivery %d", id)
}

// RedeliverAll queues every webhook emitted so far again, in order, and
// answers how many.
func (h *Host) RedeliverAll() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range h.deliveries {
		h.queue.add(func() { h.send(d) })
	}
	return len(h.deliveries)
}

// DeliverPending sends what is queued, and what that brings about, in the
// calling goroutine until nothing is left. It is for ManualDelivery.
func (h *Host) DeliverPending(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		f := h.queue.take()
		if f == nil {
			h.release()
			if f = h.queue.take(); f == nil {
				return nil
			}
		}
		f()
	}
}

// Flush waits until what is queued now has been sent by the background
// goroutine, or ctx is done.
func (h *Host) Flush(ctx context.Context) error {
	h.release()
	done := make(chan struct{})
	h.queue.add(func() { close(done) })
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// queue runs functions one at a time in order; it never blocks who adds.
type queue struct {
	mu     sync.Mutex
	more   *sync.Cond
	items  []func()
	closed bool
	done   chan struct{}
}

func newQueue() *queue {
	q := &queue{}
	q.more = sync.NewCond(&q.mu)
	return q
}

func (q *queue) add(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = append(q.items, f)
	q.more.Signal()
}

func (q *queue) take() func() {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pop()
}

func (q *queue) pop() func() {
	if len(q.items) == 0 || q.closed {
		return nil
	}
	f := q.items[0]
	q.items = q.items[1:]
	return f
}

func (q *queue) wait() func() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.items) == 0 && !q.closed {
		q.more.Wait()
	}
	return q.pop()
}

func (q *queue) start(ctx context.Context) {
	q.done = make(chan struct{})
	go func() {
		defer close(q.done)
		for f := q.wait(); f != nil && ctx.Err() == nil; f = q.wait() {
			f()
		}
	}()
}

func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.more.Broadcast()
	q.mu.Unlock()
	if q.done != nil {
		<-q.done
	}
}
