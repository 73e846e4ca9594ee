package fakehost_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xanzy/go-gitlab"

	"github.com/batchbot/batchbot/githost/fakehost"
)

// heard is one webhook as its reader needs it.
type heard struct {
	ObjectKind string `json:"object_kind"`
	User       struct{ Username string }
	Project    struct {
		ID   int
		Path string `json:"path_with_namespace"`
	}
	Attributes struct {
		IID          int
		Action       string
		State        string
		OldRev       string
		Note         string
		NoteableType string `json:"noteable_type"`
		System       bool
		SystemAction string `json:"system_action"`
		Status       string
		SHA          string
		LastCommit   struct{ ID string } `json:"last_commit"`
		MergeCommit  string              `json:"merge_commit_sha"`
	} `json:"object_attributes"`
	MergeRequest *struct {
		IID    int
		Target string `json:"target_branch"`
	} `json:"merge_request"`
	Changes map[string]struct{ Previous, Current any }
	Ref     string
	After   string
}

// hears reads the webhooks that act brings about. Each has to parse with the
// library too.
func hears(t *testing.T, h *fakehost.Host, act func()) []heard {
	t.Helper()
	before := len(h.Deliveries())
	act()
	must(t, h.DeliverPending(t.Context()))
	var list []heard
	for _, d := range h.Deliveries()[before:] {
		if _, err := gitlab.ParseHook(gitlab.EventType(d.Event), d.Payload); err != nil {
			t.Errorf("parsing %s: %v", d.Event, err)
		}
		var x heard
		must(t, json.Unmarshal(d.Payload, &x))
		if x.Project.Path != project || x.Project.ID == 0 {
			t.Errorf("%s is about project %+v", d.Event, x.Project)
		}
		list = append(list, x)
	}
	return list
}

// actions lists what merge request webhooks say, as action or kind.
func actions(list []heard) string {
	var words []string
	for _, x := range list {
		words = append(words, strings.TrimPrefix(x.ObjectKind+" "+x.Attributes.Action, "merge_request "))
	}
	return strings.Join(words, ", ")
}

func TestWhatHappensToAMergeRequestIsToldInGitLabsWords(t *testing.T) {
	t.Parallel()
	h := newGitLab(t)
	must(t, h.SetRules(project, "main", fakehost.Rules{RequiredApprovals: 2, DismissStale: true}))
	get(h.Commit(project, "dev", "main", "ada", "x", map[string]string{"d": "d"}))(t)
	var n int
	var before string
	review := func(login string) func() {
		return func() { get(h.Review(project, n, login, fakehost.Approved, ""))(t) }
	}
	dismiss := func(login string) func() {
		return func() {
			for _, r := range labState(t, h, n).Reviews {
				if r.Author == login && r.State == fakehost.Approved {
					must(t, h.Dismiss(project, n, r.ID, login))
				}
			}
		}
	}
	for _, step := range []struct {
		name string
		act  func()
		want string
		look func(heard) bool
	}{
		{"opening", func() { n = labMR(t, h, "bob", "one", "one.txt"); before = labState(t, h, n).Head }, "push , open", func(x heard) bool {
			return x.Attributes.IID == n && x.Attributes.State == "opened" && x.User.Username == "bob" && x.Attributes.LastCommit.ID == before
		}},
		{"a vote", review("cleo"), "approval", func(x heard) bool { return x.User.Username == "cleo" }},
		{"the deciding vote", review("ada"), "approved", nil},
		{"a deciding vote less", dismiss("ada"), "unapproved", func(x heard) bool { return x.User.Username == "ada" && !x.Attributes.System }},
		{"a vote less", dismiss("cleo"), "unapproval", nil},
		{"a vote again", review("cleo"), "approval", nil},
		{"a push", func() { get(h.PushTo(project, n, map[string]string{"one.txt": "2\n"}))(t) }, "push , update, unapproved", func(x heard) bool {
			return x.Attributes.System && x.Attributes.SystemAction == "approvals_reset_on_push" && x.User.Username == "bob"
		}},
		{"a draft", func() { must(t, h.SetDraft(project, n, "bob", true)) }, "update", func(x heard) bool {
			return x.Changes["draft"].Current == true && x.Changes["title"].Current == "Draft: Add one.txt"
		}},
		{"ready", func() { must(t, h.SetDraft(project, n, "bob", false)) }, "update", func(x heard) bool { return x.Changes["draft"].Current == false }},
		{"a retarget", func() { must(t, h.Retarget(project, n, "bob", "dev")) }, "update", func(x heard) bool {
			return x.Changes["target_branch"].Previous == "main" && x.Attributes.OldRev == ""
		}},
		{"closing", func() { must(t, h.CloseMR(project, n, "bob")) }, "close", nil},
		{"reopening", func() { must(t, h.ReopenMR(project, n, "bob")) }, "reopen", nil},
		{"a new title", func() {
			says(asUser(t, h, "bob").MergeRequests.UpdateMergeRequest(project, n, &gitlab.UpdateMergeRequestOptions{Title: gitlab.Ptr("Other")}))(t)
		}, "update", func(x heard) bool { return x.Changes["title"].Current == "Other" }},
		{"a note", func() { get(h.Comment(project, n, "dan", "/batch"))(t) }, "note create", func(x heard) bool {
			return x.Attributes.Note == "/batch" && x.Attributes.NoteableType == "MergeRequest" && x.MergeRequest.IID == n && x.MergeRequest.Target == "dev" && x.User.Username == "dan"
		}},
		{"merging", func() { get(h.MergeMR(project, n, "ada"))(t) }, "push , merge", func(x heard) bool {
			return x.Attributes.State == "merged" && x.Attributes.MergeCommit == get(h.Branch(project, "dev"))(t)
		}},
	} {
		list := hears(t, h, step.act)
		if got := actions(list); got != step.want {
			t.Errorf("%s: heard %q, want %q", step.name, got, step.want)
			continue
		}
		if last := list[len(list)-1]; step.look != nil && !step.look(last) {
			t.Errorf("%s: heard %+v", step.name, last)
		}
		if step.name == "a push" && (list[1].Attributes.OldRev != before || list[0].Ref != "refs/heads/one") {
			t.Errorf("a push: heard %+v", list)
		}
	}
}

func TestPipelinesAreTold(t *testing.T) {
	t.Parallel()
	h := newGitLab(t, func(o *fakehost.Options) { o.CI = fakehost.CI{Mode: fakehost.CIManual, Style: "merge_request"} })
	n := labMR(t, h, "bob", "one", "one.txt")
	head := labState(t, h, n).Head
	list := hears(t, h, func() { get(h.FinishCI(head))(t) })
	if len(list) != 1 || list[0].ObjectKind != "pipeline" || list[0].Attributes.Status != "success" || list[0].Attributes.SHA != head || list[0].MergeRequest == nil || list[0].MergeRequest.IID != n {
		t.Errorf("heard %+v", list)
	}
	list = hears(t, h, func() { must(t, h.SetStatus(project, head, "ada", "failure", "lint")) })
	if len(list) != 1 || list[0].Attributes.Status != "failed" {
		t.Errorf("after a failure heard %+v", list)
	}
}

const signingToken = "whsec_" + "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

func TestDeliveriesAreAuthenticatedAndKeptApart(t *testing.T) {
	t.Parallel()
	h := newGitLab(t, func(o *fakehost.Options) { o.GitLab.SigningToken = signingToken })
	get(h.Commit(project, "b", "main", "bob", "x", map[string]string{"x": "x"}))(t)
	must(t, h.DeliverPending(ctx))
	first := h.Deliveries()[0]
	h.RedeliverAll()
	must(t, h.DeliverPending(ctx))
	again := h.Deliveries()[0]
	hd := first.Header
	for name, want := range map[string]string{"X-Gitlab-Event": "Push Hook", "X-Gitlab-Token": "s3cret", "X-Gitlab-Instance": lab, "User-Agent": "GitLab/18.0.0-ee"} {
		if hd.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, hd.Get(name), want)
		}
	}
	key := get(base64.StdEncoding.DecodeString(strings.TrimPrefix(signingToken, "whsec_")))(t)
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", hd.Get("webhook-id"), hd.Get("webhook-timestamp"), first.Payload)
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); hd.Get("webhook-signature") != want {
		t.Errorf("signed %s, want %s", hd.Get("webhook-signature"), want)
	}
	if id := hd.Get("Idempotency-Key"); id == "" || id != hd.Get("webhook-id") || id != again.Header.Get("Idempotency-Key") {
		t.Errorf("idempotency keys %q and %q", id, again.Header.Get("Idempotency-Key"))
	}
	if hd.Get("X-Gitlab-Webhook-UUID") == again.Header.Get("X-Gitlab-Webhook-UUID") || hd.Get("X-Gitlab-Event-UUID") != again.Header.Get("X-Gitlab-Event-UUID") {
		t.Error("the webhook's UUID is new for every send, the event's is not")
	}
}

func TestHooksAreMadeListedAndStopAfterFourFailures(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	h := newGitLab(t, func(o *fakehost.Options) {
		o.GitLab.AutoDisable, o.Now = true, func() time.Time { return now }
	})
	c := labBot(t, h)
	hook := says(c.Projects.AddProjectHook(project, &gitlab.AddProjectHookOptions{
		URL: gitlab.Ptr("https://bot.example/webhooks/gitlab/1"), Token: gitlab.Ptr("own"), NoteEvents: gitlab.Ptr(true), PushEvents: gitlab.Ptr(false),
	}))(t)
	if hook.ID == 0 || !hook.NoteEvents || hook.PushEvents || hook.AlertStatus != "executable" {
		t.Errorf("made %+v", hook)
	}
	_, resp, err := asUser(t, h, "bob").Projects.ListProjectHooks(project, nil)
	refuses(t, resp, err, 403, "403 Forbidden")
	var sent []string
	works := false
	h.SetDeliver(func(_ context.Context, d fakehost.Delivery) error {
		if d.Header.Get("X-Gitlab-Token") != "own" {
			return nil
		}
		sent = append(sent, d.Event)
		if works {
			return nil
		}
		return errors.New("503")
	})
	n := labMR(t, h, "bob", "one", "one.txt")
	comment := func(times int) {
		t.Helper()
		sent = nil
		for range times {
			get(h.Comment(project, n, "bob", "hello"))(t)
		}
		must(t, h.DeliverPending(ctx))
	}
	status := func() string { return says(c.Projects.GetProjectHook(project, hook.ID))(t).AlertStatus }
	if comment(6); len(sent) != 4 || status() != "temporarily_disabled" {
		t.Errorf("sent %d, then it is %s", len(sent), status())
	}
	now = now.Add(time.Minute)
	if comment(2); len(sent) != 1 || status() != "temporarily_disabled" {
		t.Errorf("a minute later sent %d, then it is %s", len(sent), status())
	}
	works, sent = true, nil
	resp2, _ := askLab(t, h, botLogin, "POST", fmt.Sprintf("/api/v4/projects/acme%%2Fapps%%2Fweb.one/hooks/%d/test/push_events", hook.ID), "")
	must(t, h.DeliverPending(ctx))
	if resp2.StatusCode != 201 || !slices.Equal(sent, []string{"Push Hook"}) || status() != "executable" {
		t.Errorf("a test answered %d, sent %v, then it is %s", resp2.StatusCode, sent, status())
	}
	says(c.Projects.EditProjectHook(project, hook.ID, &gitlab.EditProjectHookOptions{NoteEvents: gitlab.Ptr(false), MergeRequestsEvents: gitlab.Ptr(true)}))(t)
	comment(1)
	must(t, h.CloseMR(project, n, "bob"))
	must(t, h.DeliverPending(ctx))
	if !slices.Equal(sent, []string{"Merge Request Hook"}) {
		t.Errorf("sent %v", sent)
	}
	if resp, body := askLab(t, h, botLogin, "PUT", fmt.Sprintf("/api/v4/projects/acme%%2Fapps%%2Fweb.one/hooks/%d", hook.ID), `{"signing_token":"`+signingToken+`"}`); resp.StatusCode != 200 || !strings.Contains(body, `"signing_token_present":true`) || strings.Contains(body, "whsec") {
		t.Errorf("answered %d %s", resp.StatusCode, body)
	}
	h.SetWebhook("https://bot.example/webhooks/gitlab/2", "s3cret")
	if all := says(c.Projects.ListProjectHooks(project, nil))(t); len(all) != 2 || all[0].URL != "https://bot.example/webhooks/gitlab/2" {
		t.Errorf("listed %v", all)
	}
	if _, err := c.Projects.DeleteProjectHook(project, hook.ID); err != nil {
		t.Error(err)
	}
}

func TestGitLabHappensLaterInABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newGitLab(t, func(o *fakehost.Options) {
			o.GitLab = fakehost.GitLab{ResetAfter: 10 * time.Second, MarkAfter: 3 * time.Second}
		})
		must(t, h.SetRules(project, "main", fakehost.Rules{DismissStale: true}))
		n := labMR(t, h, "bob", "one", "one.txt")
		get(h.Review(project, n, "cleo", fakehost.Approved, ""))(t)
		get(h.PushTo(project, n, map[string]string{"one.txt": "2\n"}))(t)
		approved := func() bool {
			return len(says(labBot(t, h).MergeRequestApprovals.GetConfiguration(project, n))(t).ApprovedBy) > 0
		}
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if !approved() {
			t.Error("the approval was reset too early")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if approved() {
			t.Error("the approval was not reset")
		}
		must(t, h.SetBranch(project, "main", labState(t, h, n).Head, "ada"))
		if s := labState(t, h, n).State; s != "open" {
			t.Errorf("at once it is %s", s)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if s := labState(t, h, n).State; s != "merged" {
			t.Errorf("later it is %s", s)
		}
		h.Close()
	})
}

func TestGitOverHTTPTakesAnyNameWithAToken(t *testing.T) {
	t.Parallel()
	h := newGitLab(t)
	must(t, h.AddRepository(fakehost.NewRepository{Owner: "acme/apps", Name: "secret", Private: true}))
	server := httptest.NewServer(h.Handler())
	defer server.Close()
	h.SetBaseURL(server.URL)
	n := labMR(t, h, "bob", "one", "one.txt")
	at := func(who string) string {
		return strings.Replace(server.URL, "http://", "http://"+who+"@", 1) + "/acme/apps/"
	}
	run := func(dir string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=true")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	work := t.TempDir()
	url := at("oauth2:"+botLogin+"-token") + "web.one.git"
	get(run(work, "init", "-q", "."))(t)
	get(run(work, "fetch", "-q", url, "main", fmt.Sprintf("refs/merge-requests/%d/head:refs/mr/1", n)))(t)
	if sha := get(run(work, "rev-parse", "refs/mr/1"))(t); strings.TrimSpace(sha) != labState(t, h, n).Head {
		t.Errorf("the head is served as %s", sha)
	}
	get(run(work, "push", "-q", url, "refs/mr/1:refs/heads/batchbot/1"))(t)
	if sha := get(h.Branch(project, "batchbot/1"))(t); sha != labState(t, h, n).Head {
		t.Errorf("pushed %s", sha)
	}
	for what, push := range map[string][]string{
		"a merge request's ref": {url, "refs/mr/1:refs/merge-requests/1/head"},
		"a protected branch":    {at("x:bob-token") + "web.one.git", "refs/mr/1:refs/heads/main"},
		"as a reporter":         {at("x:tess-token") + "web.one.git", "refs/mr/1:refs/heads/other"},
	} {
		if out, err := run(work, append([]string{"push", "-q"}, push...)...); err == nil {
			t.Errorf("%s was pushed: %s", what, out)
		}
	}
	get(h.Commit(project, "main", "", "ada", "ahead", map[string]string{"ahead": "x"}))(t)
	if out, err := run(work, "push", "-q", "--force", url, "refs/mr/1:refs/heads/main"); err == nil || !strings.Contains(out, "force push") {
		t.Errorf("a protected branch was forced: %v %s", err, out)
	}
	if out, err := run(work, "ls-remote", at("dan:dan-token")+"secret.git"); err == nil {
		t.Errorf("a stranger saw %s", out)
	}
	req := get(http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/acme/apps/secret.git/info/refs?service=git-upload-pack", nil))(t)
	resp := get(server.Client().Do(req))(t)
	_, _ = io.Copy(io.Discard, resp.Body)
	must(t, resp.Body.Close())
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("nobody got %s", resp.Status)
	}
}
