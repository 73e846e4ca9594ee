package fakehost_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/xanzy/go-gitlab"

	"github.com/batchbot/batchbot/githost/fakehost"
)

func detailedStatus(t *testing.T, h *fakehost.Host, number int) string {
	t.Helper()
	return says(labBot(t, h).MergeRequests.GetMergeRequest(project, number, nil))(t).DetailedMergeStatus
}

func TestRulesShowAsRulesOfTheProject(t *testing.T) {
	t.Parallel()
	h := newGitLab(t)
	get(h.Commit(project, "dev", "main", "ada", "x", map[string]string{"d": "d"}))(t)
	must(t, h.SetRules(project, "main", fakehost.Rules{RequiredChecks: []string{"build"}}))
	must(t, h.SetRules(project, "dev", fakehost.Rules{RequiredApprovals: 2, DismissStale: true}))
	c := labBot(t, h)
	rules := says(c.Projects.GetProjectApprovalRules(project, nil))(t)
	if len(rules) != 1 || rules[0].ApprovalsRequired != 2 || len(rules[0].ProtectedBranches) != 1 || rules[0].ProtectedBranches[0].Name != "dev" {
		t.Errorf("rules %v", rules)
	}
	if settings := says(c.Projects.GetApprovalConfiguration(project))(t); !settings.ResetApprovalsOnPush {
		t.Errorf("settings %+v", settings)
	}
	checks := says(c.ExternalStatusChecks.ListProjectStatusChecks(project, nil))(t)
	if len(checks) != 1 || checks[0].Name != "build" || checks[0].ProtectedBranches[0].Name != "main" {
		t.Errorf("checks %v", checks)
	}
	if p := says(c.ProtectedBranches.ListProtectedBranches(project, nil))(t); len(p) != 2 {
		t.Errorf("protected %v", p)
	}
	n := labMR(t, h, "bob", "one", "one.txt")
	result := func() string {
		return says(c.ExternalStatusChecks.ListMergeStatusChecks(project, n, nil))(t)[0].Status
	}
	if s := detailedStatus(t, h, n); s != "status_checks_must_pass" || result() != "pending" {
		t.Errorf("before the check it is %s, %s", s, result())
	}
	must(t, h.SetStatus(project, labState(t, h, n).Head, "ada", "success", "build"))
	if s := detailedStatus(t, h, n); s != "mergeable" || result() != "passed" {
		t.Errorf("after it it is %s, %s", s, result())
	}
	get(h.Review(project, n, "cleo", fakehost.ChangesRequested, "no"))(t)
	opinions := says(c.MergeRequests.GetMergeRequestReviewers(project, n))(t)
	if s := detailedStatus(t, h, n); s != "requested_changes" || len(opinions) != 1 || opinions[0].State != "requested_changes" {
		t.Errorf("with changes requested it is %s, %v", s, opinions)
	}

	h.SetGitLab(fakehost.GitLab{Free: true})
	if _, resp, err := c.Projects.GetProjectApprovalRules(project, nil); err == nil || resp.StatusCode != 404 {
		t.Errorf("rules for free: %v", err)
	}
	if p := says(c.Projects.GetProject(project, nil))(t); !p.OnlyAllowMergeIfPipelineSucceeds || detailedStatus(t, h, n) != "mergeable" {
		t.Errorf("for free a check by name is any pipeline, yet %v, %s", p.OnlyAllowMergeIfPipelineSucceeds, detailedStatus(t, h, n))
	}
}

func TestAnAutomaticMergeWaitsForThePipeline(t *testing.T) {
	t.Parallel()
	h := newGitLab(t, func(o *fakehost.Options) { o.CI.Mode = fakehost.CINone })
	n := labMR(t, h, "bob", "one", "one.txt")
	auto := func() (*gitlab.MergeRequest, *gitlab.Response, error) {
		return labBot(t, h).MergeRequests.AcceptMergeRequest(project, n, &gitlab.AcceptMergeRequestOptions{MergeWhenPipelineSucceeds: gitlab.Ptr(true)})
	}
	_, resp, err := auto()
	refuses(t, resp, err, 405, "405 Method Not Allowed")
	head := labState(t, h, n).Head
	must(t, h.SetStatus(project, head, "ada", "pending", "build"))
	if mr := says(auto())(t); mr.State != "opened" || !mr.MergeWhenPipelineSucceeds {
		t.Errorf("while the pipeline runs it is %+v", mr)
	}
	list := hears(t, h, func() { must(t, h.SetStatus(project, head, "ada", "success", "build")) })
	if mr := labState(t, h, n); mr.State != "merged" || mr.MergedBy != botLogin {
		t.Errorf("then it is %+v", mr)
	}
	if got := actions(list); got != "pipeline , push , merge" {
		t.Errorf("heard %q", got)
	}
}

func TestAPushOfManyBranchesIsNotTold(t *testing.T) {
	t.Parallel()
	h := newGitLab(t)
	dir := h.RepoPath("acme/apps", "web.one")
	tip := get(h.Branch(project, "main"))(t)
	push := func(names ...string) int {
		return len(hears(t, h, func() {
			for _, n := range names {
				gitAt(t, dir, "update-ref", "refs/heads/"+n, tip)
			}
			get(h.Branch(project, "main"))(t)
		}))
	}
	if told := push("a", "b", "c"); told != 3 {
		t.Errorf("three branches: told of %d", told)
	}
	if told := push("d", "e", "f", "g"); told != 0 {
		t.Errorf("four branches: told of %d", told)
	}
}

func TestAGitLabHasFaultsOfItsOwnShape(t *testing.T) {
	t.Parallel()
	h := newGitLab(t)
	n := labMR(t, h, "bob", "one", "one.txt")
	old := labState(t, h, n).Head
	get(h.PushTo(project, n, map[string]string{"one.txt": "2\n"}))(t)
	at := fmt.Sprintf("/projects/%s/merge_requests/%d", project, n)
	must(t, h.Break(
		fakehost.Fault{On: "GET " + at, Times: 1, Do: fakehost.FaultStaleHead},
		fakehost.Fault{On: "GET " + at, Times: 1, Do: fakehost.FaultMergeableUnknown},
		fakehost.Fault{On: "POST " + at + "/notes", Times: 1, Do: fakehost.FaultSecondaryLimit},
		fakehost.Fault{On: "POST " + at + "/notes", Times: 1, Do: fakehost.FaultStatus, Status: http.StatusBadGateway},
	))
	c := labBot(t, h)
	if mr := says(c.MergeRequests.GetMergeRequest(project, n, nil))(t); mr.SHA != old {
		t.Errorf("a lagging replica shows %s, want %s", mr.SHA, old)
	}
	if s := detailedStatus(t, h, n); s != "checking" {
		t.Errorf("it is %s", s)
	}
	if s := detailedStatus(t, h, n); s != "mergeable" {
		t.Errorf("then it is %s", s)
	}
	path := strings.Replace("/api/v4"+at+"/notes", project, "acme%2Fapps%2Fweb.one", 1)
	resp, body := askLab(t, h, botLogin, "POST", path, `{"body":"x"}`)
	if resp.StatusCode != 429 || resp.Header.Get("RateLimit-Limit") != "" || !strings.Contains(body, "requested too many times") {
		t.Errorf("answered %d %s", resp.StatusCode, body)
	}
	if resp, body := askLab(t, h, botLogin, "POST", path, `{"body":"x"}`); resp.StatusCode != 502 || strings.Contains(body, "github") {
		t.Errorf("answered %d %s", resp.StatusCode, body)
	}
	if resp, _ := askLab(t, h, botLogin, "POST", path, `{"body":"x"}`); resp.StatusCode != 201 {
		t.Errorf("then answered %d", resp.StatusCode)
	}
}

func TestATransferredProjectKeepsItsMembersAndHooks(t *testing.T) {
	t.Parallel()
	h := newGitLab(t)
	must(t, h.Transfer(project, "other/group"))
	if p := says(labBot(t, h).Projects.GetProject("other/group/web.one", nil))(t); p.Permissions.ProjectAccess.AccessLevel != 40 {
		t.Errorf("the bot has %+v", p.Permissions)
	}
	before := len(h.Deliveries())
	get(h.Commit("other/group/web.one", "b", "main", "bob", "x", map[string]string{"x": "x"}))(t)
	if len(h.Deliveries()) != before+1 {
		t.Error("its hook is not told any more")
	}
}
