package fakehost_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/batchbot/batchbot/githost/fakehost"
)

// Another process plays a team: it makes the world by control calls, speaks as
// users by their tokens and looks at the result.
func TestAnotherProcessSteersTheWorld(t *testing.T) {
	t.Parallel()
	h := newHost(t, func(o *fakehost.Options) { o.ManualDelivery = false })
	base, _ := serve(t, h, "ada")
	in := &inbox{t: t, seen: map[string]bool{}}
	receiver := httptest.NewServer(in)
	t.Cleanup(receiver.Close)
	c := fakehost.NewClient(base, nil)
	const repo = "team/tool"

	must(t, c.SetWebhook(ctx, receiver.URL, "s3cret"))
	must(t, c.SetCI(ctx, fakehost.CI{Mode: fakehost.CIManual}))
	must(t, c.AddUser(ctx, "eve"))
	must(t, c.AddRepository(ctx, fakehost.NewRepository{Owner: "team", Name: "tool", Generate: 200, Permissions: map[string]string{"ada": "admin"}}))
	must(t, c.SetPermission(ctx, repo, "bob", fakehost.RoleWrite))
	must(t, c.SetRules(ctx, repo, "main", fakehost.Rules{RequiredChecks: []string{"ci"}}))
	sha := get(c.Commit(ctx, fakehost.PushRequest{Repo: repo, Branch: "one", Author: "bob", Message: "One", Files: map[string]string{"one.txt": "1\n"}}))(t)
	var pr struct{ Number int }
	must(t, c.API(ctx, "bob", http.MethodPost, "/repos/team/tool/pulls", map[string]any{"title": "One", "head": "one", "base": "main"}, &pr))
	two := get(c.OpenMR(ctx, repo, fakehost.NewMR{Author: "eve", Head: "two", Title: "Two", Fork: true, Files: map[string]string{"two.txt": "2\n"}}))(t)
	issue := get(c.OpenIssue(ctx, repo, "eve", "A question"))(t)
	if pr.Number != 1 || two != 2 || issue != 3 {
		t.Errorf("numbers %d, %d, %d", pr.Number, two, issue)
	}
	get(c.Comment(ctx, repo, 1, "bob", "/batch"))(t)
	get(c.Review(ctx, repo, 1, "ada", fakehost.Approved, ""))(t)
	moved := get(c.PushTo(ctx, repo, two, map[string]string{"two.txt": "22\n"}))(t)
	err := c.API(ctx, "bob", http.MethodPut, "/repos/team/tool/pulls/1/merge", map[string]any{}, nil)
	if err == nil || !strings.Contains(err.Error(), "in progress") {
		t.Errorf("merge while CI runs: %v", err)
	}
	if n := get(c.FinishCI(ctx, sha))(t); n != 1 {
		t.Errorf("%d CI runs finished", n)
	}
	must(t, c.API(ctx, "bob", http.MethodPut, "/repos/team/tool/pulls/1/merge", map[string]any{}, nil))

	s := get(c.State(ctx, repo))(t)
	if m := s.MergeRequests; len(m) != 2 || m[0].State != "merged" || m[0].Comments[0].Body != "/batch" || m[0].Reviews[0].State != fakehost.Approved || m[1].Head != moved {
		t.Errorf("merge requests %+v", m)
	}
	if len(s.CIRuns) != 1 || s.CIRuns[0].Conclusion != "success" {
		t.Errorf("CI runs %+v", s.CIRuns)
	}
	must(t, c.SetDraft(ctx, repo, two, "eve", true))
	must(t, c.SetBranch(ctx, repo, "one", "", "bob"))
	must(t, c.SetInstalled(ctx, repo, false))
	must(t, c.SetInstalled(ctx, repo, true))
	if s := get(c.State(ctx, repo))(t); !s.MergeRequests[1].Draft || s.Branches["one"] != "" {
		t.Errorf("after a draft and a deleted branch: %+v", s)
	}
	limit, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	must(t, h.Flush(limit))
	must(t, c.SetFaults(ctx, fakehost.Faults{DropEvery: 1}))
	get(c.Comment(ctx, repo, 1, "bob", "lost"))(t)
	all := get(c.Deliveries(ctx))(t)
	if last := all[len(all)-1]; last.Event != "issue_comment" || len(last.Attempts) != 0 {
		t.Errorf("the last delivery is %+v, want a lost comment", last)
	}
	if n := get(c.RedeliverAll(ctx))(t); n != len(all) {
		t.Errorf("%d redelivered of %d", n, len(all))
	}
	must(t, h.Flush(limit))
	if got := in.guids[len(in.guids)-1]; got != all[len(all)-1].GUID {
		t.Errorf("last redelivered is %s, want the lost one", got)
	}
}

func TestControlIsForLoopbackAndJSONOnly(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	ask := func(remote, method, contentType string) int {
		req := httptest.NewRequest(method, "/_fakehost/user", strings.NewReader(`{"login":"mallory"}`))
		req.RemoteAddr = remote
		req.Header.Set("Content-Type", contentType)
		w := httptest.NewRecorder()
		h.Handler().ServeHTTP(w, req)
		return w.Code
	}
	for _, x := range []struct {
		remote, method, contentType string
		want                        int
	}{
		{"192.0.2.7:1234", "POST", "application/json", 403},
		{"127.0.0.1:1234", "POST", "text/plain", 415},
		{"127.0.0.1:1234", "GET", "application/json", 415},
		{"127.0.0.1:1234", "POST", "application/json", 200},
		{"[::1]:1234", "POST", "application/json", 200},
	} {
		if got := ask(x.remote, x.method, x.contentType); got != x.want {
			t.Errorf("%s %s from %s answers %d, want %d", x.method, x.contentType, x.remote, got, x.want)
		}
	}
}

func TestControlNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	base, _ := serve(t, h, "ada")
	c := fakehost.NewClient(base, nil)
	for want, err := range map[string]error{
		`no repository "acme/none"`: c.SetPermission(ctx, "acme/none", "ada", "read"),
		`unknown role`:              c.SetPermission(ctx, repo, "ada", "god"),
		`exists already`:            c.AddRepository(ctx, fakehost.NewRepository{Owner: "acme", Name: "app"}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
