package fakehost_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchbot/batchbot/githost/fakehost"
)

// ask calls the API as ada, without sockets.
func ask(ctx context.Context, h *fakehost.Host, method, path, body string) (*http.Response, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://fakehost.test/api/v3"+path, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	req.Header.Set("Authorization", "token ada-token")
	resp, err := h.RoundTripper().RoundTrip(req)
	if err != nil {
		return nil, "", err
	}
	said, err := io.ReadAll(resp.Body)
	return resp, string(said), err
}

const comments = "/repos/acme/app/issues/1/comments"

// Whatever goes wrong with a call, it is known whether it had its effect.
func TestCallsGoWrongBeforeOrAfterTheirEffect(t *testing.T) {
	t.Parallel()
	for _, f := range []fakehost.Fault{
		{Do: fakehost.FaultStatus, Status: 503},
		{Do: fakehost.FaultStatus, Status: 404, Message: "Not Found"},
		{Do: fakehost.FaultDrop},
		{Do: fakehost.FaultHang},
		{Do: fakehost.FaultSecondaryLimit, Status: 429, Wait: 7 * time.Second},
		{Do: fakehost.FaultSecondaryLimit},
		{Do: fakehost.FaultPrimaryLimit, Wait: time.Minute},
		{Do: fakehost.FaultRedirect, Status: 307, To: "http://elsewhere.test"},
	} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprint(f.Do, f.Status, " late ", late), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					h := newHost(t)
					openMR(t, h, "bob", "one", "one.txt")
					f := f
					f.On, f.Times, f.Late = "POST "+comments, 1, late
					must(t, h.Break(f))
					ctx, cancel := context.WithTimeout(ctx, time.Minute)
					defer cancel()
					resp, said, err := ask(ctx, h, "POST", comments, `{"body":"hello"}`)
					switch f.Do {
					case fakehost.FaultDrop:
						if !errors.Is(err, io.ErrUnexpectedEOF) {
							t.Errorf("got %v", err)
						}
					case fakehost.FaultHang:
						if !errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("got %v", err)
						}
					default:
						must(t, err)
						if want := max(f.Status, 403); resp.StatusCode/100 == 2 || f.Status != 0 && resp.StatusCode != f.Status || f.Status == 0 && resp.StatusCode != want || !strings.Contains(said, "message") {
							t.Errorf("answered %d %s", resp.StatusCode, said)
						}
						checkLimit(t, f, resp)
					}
					written := get(h.Comments(repo, 1))(t)
					if (len(written) == 1) != late || len(written) > 1 {
						t.Errorf("%d comments were written", len(written))
					}
					if resp, said, err := ask(ctx, h, "POST", comments, `{"body":"hello"}`); f.Do != fakehost.FaultHang && (err != nil || resp.StatusCode != 201) {
						t.Errorf("afterwards: %v %s", err, said)
					}
					if struck := h.Broken()[0].Struck; struck != 1 {
						t.Errorf("struck %d times", struck)
					}
				})
			})
		}
	}
}

// checkLimit looks at the headers by which a client knows how long to be silent.
func checkLimit(t *testing.T, f fakehost.Fault, resp *http.Response) {
	t.Helper()
	after, left := resp.Header.Get("Retry-After"), resp.Header.Get("X-RateLimit-Remaining")
	switch f.Do {
	case fakehost.FaultSecondaryLimit:
		if (after != "") != (f.Wait > 0) || left == "0" || left == "" {
			t.Errorf("Retry-After %q, %q remain", after, left)
		}
	case fakehost.FaultPrimaryLimit:
		if reset := fmt.Sprint(time.Now().Add(f.Wait).Unix()); after != "" || left != "0" || resp.Header.Get("X-RateLimit-Reset") != reset {
			t.Errorf("Retry-After %q, %q remain until %q", after, left, resp.Header.Get("X-RateLimit-Reset"))
		}
	case fakehost.FaultRedirect:
		if to := resp.Header.Get("Location"); to != "http://elsewhere.test/api/v3"+comments {
			t.Errorf("sent to %q", to)
		}
	}
}

func TestAFaultSaysWhichCallsAndHowOften(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	openMR(t, h, "bob", "one", "one.txt")
	broken := func(method, path string) bool {
		resp, _, err := ask(ctx, h, method, path, "")
		must(t, err)
		return resp.StatusCode == 500
	}
	must(t, h.Break(fakehost.Fault{On: "GET /repos/*/pulls/*", Skip: 1, Every: 2, Times: 2, Do: fakehost.FaultStatus, Status: 500}))
	var seen []bool
	for range 8 {
		seen = append(seen, broken("GET", "/repos/acme/app/pulls/1"))
	}
	if want := []bool{false, false, true, false, true, false, false, false}; !slices.Equal(seen, want) {
		t.Errorf("struck %v, want %v", seen, want)
	}
	h.Heal()
	must(t, h.Break(fakehost.Fault{On: "* /repos/acme/app/branches/*", Do: fakehost.FaultStatus, Status: 500}))
	if broken("GET", "/repos/acme/app") || broken("GET", "/repos/acme/app/pulls/1") || !broken("GET", "/repos/acme/app/branches/main") {
		t.Error("the fault struck another call")
	}
	h.Heal()
	if broken("GET", "/repos/acme/app/branches/main") {
		t.Error("the fault was not healed")
	}
	for _, wrong := range []fakehost.Fault{
		{On: "GET /x", Do: "explode"}, {On: "GET /x", Do: fakehost.FaultLose}, {On: "HOOK push/", Do: fakehost.FaultDrop},
		{On: "pulls", Do: fakehost.FaultDrop}, {On: "GET /x", Do: fakehost.FaultStatus, Status: 7},
	} {
		if err := h.Break(wrong); err == nil {
			t.Errorf("%+v was taken", wrong)
		}
	}
}

func TestTheWorldLagsBehindItself(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	n := openMR(t, h, "bob", "one", "one.txt")
	before := state(t, h, n).Head
	after := get(h.PushTo(repo, n, map[string]string{"one.txt": "22\n"}))(t)
	must(t, h.Break(
		fakehost.Fault{On: "GET /repos/acme/app/pulls/1", Times: 1, Do: fakehost.FaultStaleHead},
		fakehost.Fault{On: "GET /repos/acme/app/pulls/1", Times: 1, Do: fakehost.FaultMergeableUnknown},
		fakehost.Fault{On: "PUT /repos/*/merge", Times: 1, Do: fakehost.FaultStaleHead},
		fakehost.BaseMoved(1),
	))
	bot := asBot(t, h)
	read := func(head string, known bool) {
		t.Helper()
		pr := answer(bot.PullRequests.Get(ctx, "acme", "app", n))(t)
		if pr.GetHead().GetSHA() != head || (pr.Mergeable != nil) != known {
			t.Errorf("reads head %s, mergeable %v", pr.GetHead().GetSHA(), pr.Mergeable)
		}
	}
	read(before, true)
	read(after, false)
	read(after, true)
	merge := func(words string, status int) {
		t.Helper()
		resp, said, err := ask(ctx, h, "PUT", "/repos/acme/app/pulls/1/merge", fmt.Sprintf(`{"sha":%q}`, after))
		must(t, err)
		if resp.StatusCode != status || !strings.Contains(said, words) {
			t.Errorf("merge answered %d %s", resp.StatusCode, said)
		}
	}
	merge("Head branch was modified", 409)
	merge("Base branch was modified", 405)
	merge("successfully merged", 200)
}

func TestWebhooksAreLostDoubledDelayedAndOvertaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, func(o *fakehost.Options) { o.ManualDelivery = false })
		synctest.Wait() // what told of the repository is gone
		var (
			mu  sync.Mutex
			got []string
		)
		h.SetDeliver(func(_ context.Context, d fakehost.Delivery) error {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, d.Event)
			return nil
		})
		n := openMR(t, h, "bob", "one", "one.txt")
		synctest.Wait()
		issue := func() { get(h.OpenIssue(repo, "bob", "A question"))(t) }
		comment := func() { get(h.Comment(repo, n, "bob", "hello"))(t) }
		heard := func(want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(got, want) {
				t.Errorf("heard %v, want %v", got, want)
			}
			got = nil
			h.Heal()
		}
		heard("push", "pull_request", "check_suite", "check_run", "check_run", "check_suite", "workflow_run")

		must(t, h.Break(fakehost.Fault{On: "HOOK issue_comment/created", Every: 2, Do: fakehost.FaultLose}))
		comment()
		comment()
		comment()
		heard("issue_comment", "issue_comment")

		must(t, h.Break(fakehost.Fault{On: "HOOK *", Times: 1, Do: fakehost.FaultTwice}))
		comment()
		issue()
		heard("issue_comment", "issue_comment", "issues")

		must(t, h.Break(fakehost.Fault{On: "HOOK issue_comment/*", Do: fakehost.FaultDelay, Wait: time.Hour}))
		comment()
		issue()
		heard("issues")
		time.Sleep(time.Hour)
		heard("issue_comment")

		must(t, h.Break(fakehost.Fault{On: "HOOK issue_comment/*", Do: fakehost.FaultOvertake}))
		comment()
		issue()
		heard("issues", "issue_comment")
		must(t, h.Break(fakehost.Fault{On: "HOOK issue_comment/*", Do: fakehost.FaultOvertake}))
		comment()
		heard()
		time.Sleep(time.Second)
		heard("issue_comment")
	})
}

// Faults strike the real connection too, and another process can set them.
func TestAnotherProcessBreaksThings(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	server := httptest.NewServer(h.Handler())
	t.Cleanup(server.Close)
	c := fakehost.NewClient(server.URL, nil)
	openMR(t, h, "bob", "one", "one.txt")
	must(t, c.Break(ctx,
		fakehost.Fault{On: "POST " + comments, Times: 1, Do: fakehost.FaultDrop, Late: true},
		fakehost.Fault{On: "POST " + comments, Times: 1, Do: fakehost.FaultHang},
		fakehost.Fault{On: "POST " + comments, Times: 1, Do: fakehost.FaultSlow, Wait: time.Millisecond},
	))
	if _, err := c.Comment(ctx, repo, 1, "bob", "one"); err == nil {
		t.Error("the dropped call was answered")
	}
	limit, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := c.Comment(limit, repo, 1, "bob", "two"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the hanging call: %v", err)
	}
	get(c.Comment(ctx, repo, 1, "bob", "three"))(t)
	var bodies []string
	for _, x := range get(h.Comments(repo, 1))(t) {
		bodies = append(bodies, x.Body)
	}
	if !slices.Equal(bodies, []string{"one", "three"}) {
		t.Errorf("comments %v", bodies)
	}
	for _, f := range get(c.Broken(ctx))(t) {
		if f.Struck != 1 {
			t.Errorf("%s struck %d times", f.Do, f.Struck)
		}
	}
	must(t, c.Heal(ctx))
	if left := get(c.Broken(ctx))(t); len(left) != 0 {
		t.Errorf("left are %v", left)
	}
	if err := c.Break(ctx, fakehost.Fault{On: "GET /x", Do: "explode"}); err == nil || !strings.Contains(err.Error(), "explode") {
		t.Errorf("an unknown fault: %v", err)
	}
}
