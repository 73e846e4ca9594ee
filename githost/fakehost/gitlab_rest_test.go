package fakehost_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/batchbot/batchbot/githost/fakehost"
	"github.com/batchbot/batchbot/githost/hosttest/contract"
)

// The rest of what is served: each answer is held to the description, and says
// what it is asked for.
func TestTheRestOfTheEndpointsAnswer(t *testing.T) {
	t.Parallel()
	h := newGitLab(t, func(o *fakehost.Options) {
		o.CI, o.WebhookURL = fakehost.CI{}, "https://bot.example/webhooks/gitlab"
		o.Deliver = func(context.Context, fakehost.Delivery) error { return nil }
	})
	n := labMR(t, h, "bob", "one", "one.txt")
	note := get(h.Comment(project, n, "bob", "hello"))(t)
	head := labState(t, h, n).Head
	c := labBot(t, h)
	must(t, h.DeliverPending(ctx))
	pipeline := says(c.Pipelines.ListProjectPipelines(project, nil))(t)[0].ID
	hook := says(c.Projects.ListProjectHooks(project, nil))(t)[0].ID
	me := says(c.Users.CurrentUser())(t).ID
	var delivery int64
	for _, d := range h.Deliveries() {
		if delivery = d.ID; d.Hook != int64(hook) || d.URL != "https://bot.example/webhooks/gitlab" {
			t.Errorf("delivery %d is for hook %d at %s", d.ID, d.Hook, d.URL)
		}
	}
	web := contract.GitLab(t, h.RoundTripper())
	mr := fmt.Sprintf("P/merge_requests/%d", n)
	for _, x := range []struct {
		request, body string
		status        int
		says          string
	}{
		{"GET /version", "", 200, `"version":"18.0.0-ee"`},
		{"GET /metadata", "", 200, `"enterprise":true`},
		{fmt.Sprint("GET /users/", me), "", 200, botLogin},
		{"GET /users/1", "", 404, "404 User Not Found"},
		{"GET P/members/all", "", 200, `"access_level":50`},
		{fmt.Sprint("GET P/members/", me), "", 200, botLogin},
		{"PUT P", `{"merge_method":"ff","squash_option":"never","only_allow_merge_if_pipeline_succeeds":true,"merge_trains_enabled":true}`, 200, `"merge_method":"ff"`},
		{"PUT P", `{"merge_method":"octopus"}`, 400, "merge_method"},
		{"GET P/protected_branches/none", "", 404, "404"},
		{"GET " + mr + "/commits", "", 200, head},
		{"GET " + mr + "/discussions", "", 200, "hello"},
		{"GET " + mr + "/approval_rules", "", 200, "any_approver"},
		{fmt.Sprintf("POST %s/notes/%d/award_emoji", mr, note), `{"name":"rocket"}`, 201, `"name":"rocket"`},
		{fmt.Sprintf("GET %s/notes/%d/award_emoji", mr, note), "", 200, `"awardable_type":"Note"`},
		{fmt.Sprintf("POST %s/notes/%d/award_emoji", mr, note), `{"name":"no emoji"}`, 400, "emoji"},
		{fmt.Sprintf("DELETE %s/notes/%d", mr, note), "", 204, ""},
		{fmt.Sprintf("GET %s/notes/%d", mr, note), "", 404, "404 Note Not Found"},
		{"POST " + mr + "/notes", `{"body":"/ready"}`, 202, "summary"},
		{"POST " + mr + "/unapprove", "", 404, "404"},
		{"POST " + mr + "/approve", `{}`, 201, botLogin},
		{"PUT " + mr + "/merge", `{"squash":true}`, 400, "Squashing is not allowed"},
		{"POST " + mr + "/cancel_merge_when_pipeline_succeeds", "", 201, `"merge_when_pipeline_succeeds":false`},
		{"GET P/pipelines/latest?ref=one", "", 200, head},
		{"GET P/pipelines/latest", "", 404, "404"},
		{fmt.Sprint("GET P/pipelines/", pipeline), "", 200, `"status":"success"`},
		{fmt.Sprintf("POST P/pipelines/%d/retry", pipeline), "", 201, head},
		{"POST P/statuses/" + head, `{"state":"skipped","name":"x"}`, 201, `"status":"skipped"`},
		{"GET P/repository/commits?ref_name=one", "", 200, head},
		{"GET P/repository/commits/" + head + "/merge_requests", "", 200, `"iid":1`},
		{"GET P/repository/commits/none", "", 404, "404 Commit Not Found"},
		{"GET P/repository/compare?from=main&to=none", "", 404, "404 Ref Not Found"},
		{fmt.Sprint("GET P/hooks/", hook), "", 200, "bot.example"},
		{fmt.Sprintf("GET P/hooks/%d/events", hook), "", 200, `"response_status":"200"`},
		{fmt.Sprintf("POST P/hooks/%d/events/%d/resend", hook, delivery), "", 201, ""},
		{"POST P/hooks", `{"url":"ftp://bot.example"}`, 422, "Invalid url given"},
		{"POST P/hooks", `{"url":"https://bot.example","signing_token":"short"}`, 422, "Signing token"},
		{"GET P/merge_requests?updated_after=yesterday", "", 400, "updated_after is invalid"},
		{"GET P/merge_requests/77", "", 404, "404"},
	} {
		method, path, _ := strings.Cut(x.request, " ")
		path = lab + "/api/v4" + strings.Replace(path, "P", "/projects/acme%2Fapps%2Fweb.one", 1)
		req := get(http.NewRequestWithContext(t.Context(), method, path, strings.NewReader(x.body)))(t)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("PRIVATE-TOKEN", botLogin+"-token")
		way := web
		if strings.Contains(x.request, "yesterday") || strings.Contains(x.body, "octopus") {
			way = h.RoundTripper() // not as described, on purpose
		}
		resp := get(way.RoundTrip(req))(t)
		body := string(get(io.ReadAll(resp.Body))(t))
		must(t, resp.Body.Close())
		if resp.StatusCode != x.status || !strings.Contains(body, x.says) {
			t.Errorf("%s answered %d %s, want %d with %q", x.request, resp.StatusCode, body, x.status, x.says)
		}
	}
}

func TestAGitLabInAnotherProcessIsSteered(t *testing.T) {
	t.Parallel()
	h := newGitLab(t)
	server := httptest.NewServer(h.Handler())
	t.Cleanup(server.Close)
	c := fakehost.NewClient(server.URL, nil).GitLab()
	n := get(c.OpenMR(ctx, project, fakehost.NewMR{Author: "bob", Head: "one", Title: "One", Files: map[string]string{"one.txt": "x\n"}}))(t)
	id := get(c.Comment(ctx, project, n, "bob", "/batch"))(t)
	get(c.Review(ctx, project, n, "cleo", fakehost.Approved, "fine"))(t)
	must(t, c.SetGitLab(ctx, fakehost.GitLab{MarkAfter: -1}))
	must(t, c.SetMergeStatus(ctx, project, n, "checking"))
	if err := c.API(ctx, botLogin, http.MethodPut, "/projects/acme%2Fapps%2Fweb.one/merge_requests/1/merge", map[string]any{}, nil); err == nil || !strings.Contains(err.Error(), "405") {
		t.Errorf("merging what is being checked: %v", err)
	}
	must(t, c.SetMergeStatus(ctx, project, n, ""))
	must(t, c.SetProject(ctx, project, fakehost.Project{MergeMethod: "ff"}))
	must(t, c.Protect(ctx, project, "one", fakehost.Protection{Push: fakehost.NoAccess}))
	must(t, c.SetBranch(ctx, project, "main", labState(t, h, n).Head, "ada"))
	if done := get(c.RunJobs(ctx))(t); done != 1 {
		t.Errorf("did %d jobs", done)
	}
	mr := labState(t, h, n)
	if mr.State != "merged" || len(mr.Comments) != 2 || mr.Comments[0].ID != id || len(mr.Reviews) != 1 {
		t.Errorf("in the end %+v", mr)
	}
	if err := c.SetProject(ctx, project, fakehost.Project{MergeMethod: "fast"}); err == nil {
		t.Error("an unknown merge method was taken")
	}
	if err := c.DeleteFork(ctx, project, n); err == nil {
		t.Error("a fork was deleted that is none")
	}
}
