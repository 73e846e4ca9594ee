package fakehost_test

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/batchbot/batchbot/githost/fakehost"
)

// lastPull is the newest pull_request webhook with an action.
func lastPull(t *testing.T, h *fakehost.Host, action string) *github.PullRequestEvent {
	t.Helper()
	var last *github.PullRequestEvent
	for _, d := range h.Deliveries() {
		if e, ok := get(github.ParseWebHook(d.Event, d.Payload))(t).(*github.PullRequestEvent); ok && e.GetAction() == action {
			last = e
		}
	}
	if last == nil {
		t.Fatalf("no pull_request webhook with the action %s", action)
	}
	return last
}

// inbox receives webhooks as the real receiver does: by header and signature.
type inbox struct {
	t      *testing.T
	mu     sync.Mutex // for tests that look while deliveries go on
	events []any
	guids  []string
	seen   map[string]bool // event/action
}

func (in *inbox) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := github.ValidatePayload(req, []byte("s3cret"))
	if err != nil {
		in.t.Errorf("delivery of %s: %v", github.WebHookType(req), err)
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	e, err := github.ParseWebHook(github.WebHookType(req), body)
	if err != nil {
		in.t.Errorf("parsing %s: %v", github.WebHookType(req), err)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.events = append(in.events, e)
	in.guids = append(in.guids, github.DeliveryID(req))
	key := github.WebHookType(req)
	if a, ok := e.(interface{ GetAction() string }); ok && a.GetAction() != "" {
		key += "/" + a.GetAction()
	}
	in.seen[key] = true
	if a, ok := e.(interface{ GetInstallation() *github.Installation }); ok && key != "ping" && a.GetInstallation().GetID() == 0 {
		in.t.Errorf("%s does not name its installation", key)
	}
	if a, ok := e.(interface{ GetSender() *github.User }); ok && a.GetSender().GetLogin() == "" && key != "ping" {
		in.t.Errorf("%s does not name its sender", key)
	}
	w.WriteHeader(http.StatusAccepted)
}

func (in *inbox) heardOf(key string) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.seen[key]
}

func newInbox(t *testing.T, h *fakehost.Host) *inbox {
	in := &inbox{t: t, seen: map[string]bool{}}
	h.SetDeliver(fakehost.DeliverTo(in, "/webhooks/github"))
	return in
}

func TestEverythingThatHappensIsToldSignedAndParses(t *testing.T) {
	t.Parallel()
	h := newHost(t, func(o *fakehost.Options) { o.CI.Style = "both" })
	in := newInbox(t, h)
	h.Ping()
	must(t, h.AddRepository(fakehost.NewRepository{Owner: "acme", Name: "second"}))
	n := openMR(t, h, "bob", "one", "one.txt")
	get(h.Comment(repo, n, "bob", "/batch"))(t)
	id := get(h.Review(repo, n, "cleo", fakehost.Approved, "fine"))(t)
	must(t, h.Dismiss(repo, n, id, "cleo"))
	get(h.PushTo(repo, n, map[string]string{"one.txt": "again\n"}))(t)
	must(t, h.SetDraft(repo, n, "bob", true))
	must(t, h.SetDraft(repo, n, "bob", false))
	must(t, h.SetBranch(repo, "release", get(h.Branch(repo, "main"))(t), "ada"))
	must(t, h.Retarget(repo, n, "bob", "release"))
	must(t, h.CloseMR(repo, n, "bob"))
	must(t, h.ReopenMR(repo, n, "bob"))
	get(h.MergeMR(repo, n, "ada"))(t)
	must(t, h.Suspend("acme", true))
	must(t, h.Suspend("acme", false))
	must(t, h.Uninstall("acme/second"))
	must(t, h.Uninstall(repo))
	must(t, h.DeliverPending(ctx))
	for want := range strings.FieldsSeq(`ping installation/created installation_repositories/added pull_request/opened issue_comment/created
		pull_request_review/submitted pull_request_review/dismissed pull_request/synchronize push pull_request/converted_to_draft
		pull_request/ready_for_review pull_request/edited pull_request/closed pull_request/reopened check_suite/requested check_run/created
		check_run/completed check_suite/completed status installation/suspend installation/unsuspend installation_repositories/removed installation/deleted`) {
		if !in.heardOf(want) {
			t.Errorf("nothing told of %s", want)
		}
	}
}

func TestWebhooksCarryWhatTheirReadersNeed(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	in := newInbox(t, h)
	n := openMR(t, h, "bob", "one", "one.txt")
	get(h.Comment(repo, n, "dan", "/batch"))(t)
	get(h.Review(repo, n, "cleo", fakehost.Approved, "fine"))(t)
	must(t, h.SetBranch(repo, "release", get(h.Branch(repo, "main"))(t), "ada"))
	must(t, h.Retarget(repo, n, "bob", "release"))
	must(t, h.DeliverPending(ctx))
	head := state(t, h, n).Head
	for _, e := range in.events {
		switch e := e.(type) {
		case *github.IssueCommentEvent:
			if !e.GetIssue().IsPullRequest() || e.GetIssue().GetNumber() != n || e.GetComment().GetUser().GetLogin() != "dan" || e.GetRepo().GetFullName() != repo || e.GetRepo().GetID() == 0 {
				t.Errorf("comment %v", e)
			}
		case *github.PullRequestReviewEvent:
			if e.GetReview().GetState() != "approved" || e.GetReview().GetCommitID() != head || e.GetPullRequest().Merged != nil {
				t.Errorf("review %v: want it approved at %s, the merge request in the short form", e.GetReview(), head)
			}
		case *github.PullRequestEvent:
			if e.GetPullRequest().Mergeable != nil || e.GetPullRequest().Merged == nil || e.GetNumber() != n {
				t.Errorf("pull request %v: want mergeable unknown and merged known", e.GetPullRequest())
			}
			if e.GetAction() == "edited" && e.GetChanges().GetBase().GetRef().GetFrom() != "main" {
				t.Errorf("changes %v", e.GetChanges())
			}
		case *github.PushEvent:
			if e.GetRef() == "refs/heads/one" && (!e.GetCreated() || e.GetHeadCommit().GetID() != head || len(e.Commits) != 1 || e.GetPusher().GetName() != "bob") {
				t.Errorf("push %v", e)
			}
		case *github.CheckSuiteEvent:
			if e.GetCheckSuite().GetHeadSHA() != head || e.GetCheckSuite().GetHeadBranch() != "one" {
				t.Errorf("check suite %v", e.GetCheckSuite())
			}
		}
	}
}

func TestWebhooksGoMissingAndComeTwice(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	must(t, h.DeliverPending(ctx))
	in := newInbox(t, h)
	n := openMR(t, h, "bob", "one", "one.txt")
	must(t, h.DeliverPending(ctx))
	in.guids = nil

	h.SetFaults(fakehost.DropEvery(2))
	for range 4 {
		get(h.Comment(repo, n, "bob", "hello"))(t)
	}
	must(t, h.DeliverPending(ctx))
	if len(in.guids) != 2 {
		t.Errorf("%d of 4 arrived with every second one lost", len(in.guids))
	}
	h.SetFaults(fakehost.DuplicateEvery(2))
	in.guids = nil
	for range 2 {
		get(h.Comment(repo, n, "bob", "hello"))(t)
	}
	must(t, h.DeliverPending(ctx))
	if g := in.guids; len(g) != 3 || g[0] == g[1] || g[1] != g[2] {
		t.Errorf("with every second one doubled arrived %v", g)
	}
}

func TestRedeliveryRepeatsGUIDsAndBodies(t *testing.T) {
	t.Parallel()
	h := newHost(t, func(o *fakehost.Options) { o.Faults = fakehost.DropEvery(3) })
	in := newInbox(t, h)
	n := openMR(t, h, "bob", "one", "one.txt")
	get(h.Comment(repo, n, "bob", "/batch"))(t)
	must(t, h.DeliverPending(ctx))
	all := h.Deliveries()
	first := in.events
	in.guids, in.events = nil, nil

	if queued := h.RedeliverAll(); queued != len(all) {
		t.Errorf("%d queued of %d", queued, len(all))
	}
	must(t, h.DeliverPending(ctx))
	var want []string
	for _, d := range all {
		want = append(want, d.GUID)
	}
	if !reflect.DeepEqual(in.guids, want) {
		t.Errorf("redelivered %v, want every one, lost ones included: %v", in.guids, want)
	}
	if !reflect.DeepEqual(in.events[0], first[0]) {
		t.Error("the body changed")
	}
	if got := h.Deliveries(); len(got) != len(all) {
		t.Errorf("redelivery made %d new deliveries", len(got)-len(all))
	}
	must(t, h.Redeliver(all[0].ID))
	if h.Redeliver(-1) == nil {
		t.Error("an unknown delivery was redelivered")
	}
}

func TestFailedDeliveryIsRecordedAndNotRetried(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	must(t, h.DeliverPending(ctx))
	calls := 0
	h.SetDeliver(func(context.Context, fakehost.Delivery) error { calls++; return errors.New("connection refused") })
	h.Ping()
	must(t, h.DeliverPending(ctx))
	all := h.Deliveries()
	if a := all[len(all)-1].Attempts; calls != 1 || len(a) != 1 || a[0].Error != "connection refused" {
		t.Errorf("%d calls, attempts %v", calls, a)
	}
}

func TestNothingIsToldOfRepositoriesWithoutTheApp(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	must(t, h.AddRepository(fakehost.NewRepository{Owner: "acme", Name: "quiet", NotInstalled: true}))
	get(h.Commit("acme/quiet", "x", "", "ada", "x", map[string]string{"x": "x"}))(t)
	for _, d := range h.Deliveries() {
		if d.Repo == "acme/quiet" {
			t.Errorf("%s was told", d.Event)
		}
	}
}

func TestBackgroundDeliveryKeepsOrderAndEndsWithTheHost(t *testing.T) {
	t.Parallel()
	var in *inbox
	h := newHost(t, func(o *fakehost.Options) { o.ManualDelivery = false })
	limit, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	must(t, h.Flush(limit))
	in = newInbox(t, h)
	n := openMR(t, h, "bob", "one", "one.txt")
	get(h.Comment(repo, n, "bob", "/batch"))(t)
	must(t, h.Flush(limit))
	all := h.Deliveries()
	for i, g := range in.guids {
		if d := all[len(all)-len(in.guids)+i]; d.GUID != g {
			t.Errorf("delivery %d is %s, want %s", i, g, d.GUID)
		}
	}
	if len(in.guids) == 0 {
		t.Error("nothing was delivered")
	}
}
