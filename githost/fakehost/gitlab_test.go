package fakehost_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xanzy/go-gitlab"

	"github.com/batchbot/batchbot/githost/fakehost"
	"github.com/batchbot/batchbot/githost/hosttest/contract"
)

const (
	project = "acme/apps/web.one"
	lab     = "http://fakehost.test"
)

// newGitLab is a GitLab with one project of a nested group.
func newGitLab(t *testing.T, edit ...func(*fakehost.Options)) *fakehost.Host {
	t.Helper()
	opt := fakehost.Options{Dir: t.TempDir(), Face: fakehost.FaceGitLab, WebhookSecret: "s3cret", ManualDelivery: true, CI: fakehost.CI{Mode: fakehost.CINone}}
	for _, f := range edit {
		f(&opt)
	}
	h, err := fakehost.New(opt)
	must(t, err)
	t.Cleanup(func() {
		h.Close()
		for _, d := range h.Deliveries() {
			contract.GitLabWebhook(t, d.Event, d.Payload)
		}
	})
	h.AddUser("dan")
	must(t, h.AddRepository(fakehost.NewRepository{
		Owner: "acme/apps", Name: "web.one", Files: map[string]string{"README.md": "# web\n", "a/b c.txt": "one\n"},
		Permissions: map[string]string{"ada": fakehost.RoleAdmin, "max": fakehost.RoleMaintain, "bob": fakehost.RoleWrite, "cleo": fakehost.RoleWrite, "tess": fakehost.RoleTriage, "gus": fakehost.RoleRead},
	}))
	return h
}

type labClient = gitlab.Client //nolint:staticcheck // deprecated upstream; what users of the fake have

// asUser is a client with a user's token, without sockets.
func asUser(t *testing.T, h *fakehost.Host, login string) *labClient {
	t.Helper()
	web := &http.Client{Transport: contract.GitLab(t, h.RoundTripper())}
	c, err := gitlab.NewClient(login+"-token", gitlab.WithBaseURL(lab), gitlab.WithHTTPClient(web), gitlab.WithoutRetries()) //nolint:staticcheck // as above
	must(t, err)
	return c
}

const botLogin = "group_1_bot_batchbot"

func labBot(t *testing.T, h *fakehost.Host) *labClient { return asUser(t, h, botLogin) }

// says drops go-gitlab's response from a call's results.
func says[T any](v T, _ *gitlab.Response, err error) func(*testing.T) T { return get(v, err) }

// refuses checks the status of a refusal and its words.
func refuses(t *testing.T, resp *gitlab.Response, err error, status int, words string) {
	t.Helper()
	if err == nil || resp == nil || resp.StatusCode != status {
		t.Errorf("got %v, want the status %d", err, status)
		return
	}
	var e *gitlab.ErrorResponse
	if errors.As(err, &e) && !strings.Contains(e.Message, words) {
		t.Errorf("the refusal says %q, want %q", e.Message, words)
	}
}

// askLab calls an endpoint that go-gitlab lacks, or in a way it does not.
func askLab(t *testing.T, h *fakehost.Host, login, method, path, body string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, lab+path, strings.NewReader(body))
	must(t, err)
	req.Header.Set("Content-Type", "application/json")
	if login != "" {
		req.Header.Set("PRIVATE-TOKEN", login+"-token")
	}
	resp, err := h.RoundTripper().RoundTrip(req)
	must(t, err)
	defer resp.Body.Close()
	return resp, string(get(io.ReadAll(resp.Body))(t))
}

func labMR(t *testing.T, h *fakehost.Host, author, branch, file string) int {
	t.Helper()
	return get(h.OpenMR(project, fakehost.NewMR{Author: author, Head: branch, Title: "Add " + file, Files: map[string]string{file: "by " + author + "\n"}}))(t)
}

func labState(t *testing.T, h *fakehost.Host, number int) fakehost.MR {
	t.Helper()
	return get(h.MR(project, number))(t)
}

func TestProjectsAreFoundByPathAndNumber(t *testing.T) {
	t.Parallel()
	h := newGitLab(t)
	must(t, h.AddRepository(fakehost.NewRepository{Owner: "acme", Name: "other", NotInstalled: true, Private: true}))
	c := labBot(t, h)
	p := says(c.Projects.GetProject(project, nil))(t)
	if p.PathWithNamespace != project || p.ID == 0 || p.DefaultBranch != "main" || p.MergeMethod != "merge" || p.SquashOption != "default_off" || p.Archived || p.Namespace.FullPath != "acme/apps" {
		t.Errorf("read %+v", p)
	}
	if same := says(c.Projects.GetProject(p.ID, nil))(t); same.PathWithNamespace != project {
		t.Errorf("by number read %s", same.PathWithNamespace)
	}
	yes := true
	if mine := says(c.Projects.ListProjects(&gitlab.ListProjectsOptions{Membership: &yes}))(t); len(mine) != 1 || mine[0].ID != p.ID {
		t.Errorf("a member of %v", mine)
	}
	_, resp, err := c.Projects.GetProject("acme/other", nil)
	refuses(t, resp, err, 404, "")
	_, resp, err = asUser(t, h, "nobody").Projects.GetProject(project, nil)
	refuses(t, resp, err, 401, "401 Unauthorized")
	must(t, h.SetProject(project, fakehost.Project{MergeMethod: "ff", SquashOption: "always", MergeTrains: true, PipelineMustSucceed: true}))
	must(t, h.SetArchived(project, true))
	p = says(c.Projects.GetProject(project, nil))(t)
	if p.MergeMethod != "ff" || p.SquashOption != "always" || !p.MergeTrainsEnabled || !p.OnlyAllowMergeIfPipelineSucceeds || !p.Archived {
		t.Errorf("read %+v", p)
	}
}

func TestListsAreCutIntoPages(t *testing.T) {
	t.Parallel()
	h := newGitLab(t)
	c := labBot(t, h)
	for i := range 5 {
		get(h.Commit(project, fmt.Sprintf("b%d", i), "main", "bob", "x", map[string]string{"x": fmt.Sprint(i)}))(t)
	}
	var names []string
	opt := &gitlab.ListBranchesOptions{ListOptions: gitlab.ListOptions{PerPage: 4}}
	for {
		page, resp, err := c.Branches.ListBranches(project, opt)
		must(t, err)
		for _, b := range page {
			names = append(names, b.Name)
		}
		if resp.TotalItems != 6 || resp.Header.Get("RateLimit-Remaining") == "" || !strings.Contains(resp.Header.Get("Link"), `rel="first"`) {
			t.Errorf("headers %v", resp.Header)
		}
		if resp.NextPage == 0 {
			break
		}
		opt.Page = resp.NextPage
	}
	if !slices.Equal(names, []string{"b0", "b1", "b2", "b3", "b4", "main"}) {
		t.Errorf("listed %v", names)
	}
}

func TestAMergeRequestIsOpenedReadEditedAndClosed(t *testing.T) {
	t.Parallel()
	h := newGitLab(t)
	c := labBot(t, h)
	get(h.Commit(project, "batch/1", "main", "ada", "change", map[string]string{"x.txt": "x\n"}))(t)
	in := &gitlab.CreateMergeRequestOptions{Title: gitlab.Ptr("Draft: Batch 1"), SourceBranch: gitlab.Ptr("batch/1"), TargetBranch: gitlab.Ptr("main"), Description: gitlab.Ptr("body")}
	mr := says(c.MergeRequests.CreateMergeRequest(project, in))(t)
	if mr.SHA != get(h.Branch(project, "batch/1"))(t) || !mr.Draft || mr.Title != "Draft: Batch 1" || mr.State != "opened" || mr.DetailedMergeStatus != "draft_status" || mr.SourceProjectID != mr.ProjectID || !mr.User.CanMerge || mr.Author.Username != botLogin {
		t.Errorf("created %+v", mr)
	}
	_, resp, err := c.MergeRequests.CreateMergeRequest(project, in)
	refuses(t, resp, err, 409, "Another open merge request already exists for this source branch")
	in.SourceBranch = gitlab.Ptr("nothing")
	_, resp, err = c.MergeRequests.CreateMergeRequest(project, in)
	refuses(t, resp, err, 400, "does not exist")

	mr = says(c.MergeRequests.UpdateMergeRequest(project, mr.IID, &gitlab.UpdateMergeRequestOptions{Title: gitlab.Ptr("Batch 1: ready"), Description: gitlab.Ptr("new")}))(t)
	if mr.Draft || mr.Title != "Batch 1: ready" || mr.Description != "new" || mr.DetailedMergeStatus != "mergeable" {
		t.Errorf("edited %+v", mr)
	}
	list := says(c.MergeRequests.ListProjectMergeRequests(project, &gitlab.ListProjectMergeRequestsOptions{SourceBranch: gitlab.Ptr("batch/1"), State: gitlab.Ptr("opened")}))(t)
	if len(list) != 1 || list[0].IID != mr.IID || list[0].SHA != mr.SHA {
		t.Errorf("listed %v", list)
	}
	if late := says(c.MergeRequests.ListProjectMergeRequests(project, &gitlab.ListProjectMergeRequestsOptions{UpdatedAfter: gitlab.Ptr(time.Now().Add(time.Hour))}))(t); len(late) != 0 {
		t.Errorf("listed %v from later on", late)
	}
	mr = says(c.MergeRequests.UpdateMergeRequest(project, mr.IID, &gitlab.UpdateMergeRequestOptions{StateEvent: gitlab.Ptr("close")}))(t)
	if mr.State != "closed" || mr.DetailedMergeStatus != "not_open" || mr.ClosedBy.Username != botLogin {
		t.Errorf("closed %+v", mr)
	}
	_, resp, err = asUser(t, h, "dan").MergeRequests.UpdateMergeRequest(project, mr.IID, &gitlab.UpdateMergeRequestOptions{StateEvent: gitlab.Ptr("reopen")})
	refuses(t, resp, err, 403, "403 Forbidden")
}

// accept merges as login and answers the state, or the refusal's status.
func accept(t *testing.T, h *fakehost.Host, login string, number int, sha string) (string, int, string) {
	t.Helper()
	mr, resp, err := asUser(t, h, login).MergeRequests.AcceptMergeRequest(project, number, &gitlab.AcceptMergeRequestOptions{SHA: gitlab.Ptr(sha)})
	if e, ok := errors.AsType[*gitlab.ErrorResponse](err); ok {
		return "", resp.StatusCode, e.Message
	}
	must(t, err)
	return mr.State, resp.StatusCode, mr.MergeCommitSHA
}

func TestAcceptChecksInGitLabsOrder(t *testing.T) {
	t.Parallel()
	h := newGitLab(t)
	number := labMR(t, h, "bob", "one", "one.txt")
	wrong := strings.Repeat("a", 40)
	expect := func(what, login, sha string, status int, words string) {
		t.Helper()
		if _, got, said := accept(t, h, login, number, sha); got != status || !strings.Contains(said, words) {
			t.Errorf("%s: answered %d %q, want %d %q", what, got, said, status, words)
		}
	}
	must(t, h.SetDraft(project, number, "bob", true))
	expect("somebody who may not merge, a draft and a wrong SHA", "tess", wrong, 401, "401 Unauthorized")
	expect("a draft and a wrong SHA", botLogin, wrong, 405, "405 Method Not Allowed")
	must(t, h.SetDraft(project, number, "bob", false))
	get(h.Commit(project, "main", "", "ada", "in the way", map[string]string{"one.txt": "other\n"}))(t)
	expect("a conflict and a wrong SHA", botLogin, wrong, 422, "Branch cannot be merged")
	get(h.Commit(project, "main", "", "ada", "out of the way", map[string]string{"one.txt": ""}))(t)
	expect("a wrong SHA", botLogin, wrong, 409, "SHA does not match HEAD of source branch")
	state, _, sha := accept(t, h, botLogin, number, labState(t, h, number).Head)
	if state != "merged" || sha != get(h.Branch(project, "main"))(t) {
		t.Errorf("merged: %s %s", state, sha)
	}
	expect("one that is merged", botLogin, wrong, 405, "")
}

func TestTransientStatusesPassAndHoldMergingUp(t *testing.T) {
	t.Parallel()
	h := newGitLab(t, func(o *fakehost.Options) { o.GitLab.Transient = []string{"preparing", "checking"} })
	number := labMR(t, h, "bob", "one", "one.txt")
	head := labState(t, h, number).Head
	if _, status, _ := accept(t, h, botLogin, number, head); status != 405 {
		t.Errorf("while preparing answered %d", status)
	}
	c := labBot(t, h)
	for _, want := range []string{"checking", "mergeable", "mergeable"} {
		if mr := says(c.MergeRequests.GetMergeRequest(project, number, nil))(t); mr.DetailedMergeStatus != want {
			t.Errorf("status %s, want %s", mr.DetailedMergeStatus, want)
		}
	}
	must(t, h.SetMergeStatus(project, number, "ci_still_running"))
	if _, status, _ := accept(t, h, botLogin, number, head); status != 405 {
		t.Errorf("while CI runs answered %d", status)
	}
	must(t, h.SetMergeStatus(project, number, ""))
	if state, _, _ := accept(t, h, botLogin, number, head); state != "merged" {
		t.Errorf("in the end it is %q", state)
	}
}

func TestEveryMergeMethodLandsItsWay(t *testing.T) {
	t.Parallel()
	for method, parents := range map[string]int{"merge": 2, "rebase_merge": 2, "ff": 1} {
		h := newGitLab(t)
		must(t, h.SetProject(project, fakehost.Project{MergeMethod: method}))
		first, second := labMR(t, h, "bob", "one", "one.txt"), labMR(t, h, "cleo", "two", "two.txt")
		head := labState(t, h, first).Head
		if state, _, sha := accept(t, h, botLogin, first, head); state != "merged" || (sha == "") != (method == "ff") {
			t.Errorf("%s: %s with merge commit %q", method, state, sha)
		}
		log := get(h.Log(project, "main"))(t)
		if len(log[0].Parents) != parents || (log[0].SHA == head) != (method == "ff") {
			t.Errorf("%s: main is at %+v", method, log[0])
		}
		_, status, _ := accept(t, h, botLogin, second, labState(t, h, second).Head)
		if want := map[string]int{"merge": 200, "rebase_merge": 422, "ff": 422}[method]; status != want {
			t.Errorf("%s: one behind the target answered %d, want %d", method, status, want)
		}
	}
}

func TestASquashReplacesTheCommitsAndMembersAreNotMarked(t *testing.T) {
	t.Parallel()
	h := newGitLab(t)
	must(t, h.SetProject(project, fakehost.Project{SquashOption: "always"}))
	member := labMR(t, h, "bob", "one", "one.txt")
	get(h.Commit(project, "batch", "one", "ada", "more", map[string]string{"more.txt": "x\n"}))(t)
	number := get(h.OpenMR(project, fakehost.NewMR{Author: "ada", Head: "batch", Title: "Batch"}))(t)
	if state, _, _ := accept(t, h, botLogin, number, labState(t, h, number).Head); state != "merged" {
		t.Fatalf("state %q", state)
	}
	mr := says(labBot(t, h).MergeRequests.GetMergeRequest(project, number, nil))(t)
	if mr.SquashCommitSHA == "" || labState(t, h, member).State != "open" {
		t.Errorf("squash commit %q, member %s", mr.SquashCommitSHA, labState(t, h, member).State)
	}
}

func TestMembersAreMarkedLaterAndNotWithoutTheirFork(t *testing.T) {
	t.Parallel()
	h := newGitLab(t, func(o *fakehost.Options) { o.GitLab.MarkAfter = -1 })
	inside := labMR(t, h, "bob", "one", "one.txt")
	fork := func(file string) int {
		return get(h.OpenMR(project, fakehost.NewMR{Author: "dan", Head: "patch-" + file, Title: "T", Fork: true, Files: map[string]string{file: "x\n"}}))(t)
	}
	kept, gone := fork("k.txt"), fork("g.txt")
	must(t, h.DeleteFork(project, gone))
	c := labBot(t, h)
	if mr := says(c.MergeRequests.GetMergeRequest(project, gone, nil))(t); mr.SourceProjectID != 0 {
		t.Errorf("the fork is gone, yet its id is %d", mr.SourceProjectID)
	}
	if mr := says(c.MergeRequests.GetMergeRequest(project, kept, nil))(t); mr.SourceProjectID == 0 || mr.SourceProjectID == mr.TargetProjectID {
		t.Errorf("the fork's id is %d", mr.SourceProjectID)
	}
	dir := h.RepoPath("acme/apps", "web.one")
	tip := get(h.Branch(project, "main"))(t)
	for _, n := range []int{inside, kept, gone} {
		head := gitAt(t, dir, "rev-parse", fmt.Sprintf("refs/merge-requests/%d/head", n))
		tree := gitAt(t, dir, "merge-tree", "--write-tree", tip, head)
		tip = gitAt(t, dir, "-c", "user.name=b", "-c", "user.email=b@example.com", "commit-tree", tree, "-p", tip, "-p", head, "-m", "member")
	}
	must(t, h.SetBranch(project, "batch", tip, botLogin))
	number := get(h.OpenMR(project, fakehost.NewMR{Author: botLogin, Head: "batch", Title: "Batch"}))(t)
	if state, _, _ := accept(t, h, botLogin, number, tip); state != "merged" {
		t.Fatalf("the batch is %q", state)
	}
	states := func() string {
		return strings.Join([]string{labState(t, h, inside).State, labState(t, h, kept).State, labState(t, h, gone).State}, " ")
	}
	if got := states(); got != "open open open" {
		t.Errorf("at once: %s", got)
	}
	get(h.RunJobs())(t)
	if got := states(); got != "merged merged open" {
		t.Errorf("later: %s", got)
	}
}

func TestPipelinesFollowCIAndStatuses(t *testing.T) {
	t.Parallel()
	h := newGitLab(t, func(o *fakehost.Options) { o.CI.Mode = fakehost.CIManual })
	must(t, h.SetProject(project, fakehost.Project{PipelineMustSucceed: true}))
	number := labMR(t, h, "bob", "one", "one.txt")
	head := labState(t, h, number).Head
	c := labBot(t, h)
	read := func() *gitlab.MergeRequest { return says(c.MergeRequests.GetMergeRequest(project, number, nil))(t) }
	if mr := read(); mr.HeadPipeline == nil || mr.HeadPipeline.Status != "running" || mr.DetailedMergeStatus != "ci_still_running" {
		t.Errorf("while CI runs: %+v %s", mr.HeadPipeline, mr.DetailedMergeStatus)
	}
	get(h.FinishCI(head))(t)
	list := says(c.Pipelines.ListProjectPipelines(project, &gitlab.ListProjectPipelinesOptions{SHA: gitlab.Ptr(head)}))(t)
	if len(list) != 1 || list[0].Status != "success" || list[0].Ref != "one" || list[0].Source != "push" || read().DetailedMergeStatus != "mergeable" {
		t.Errorf("listed %v, status %s", list, read().DetailedMergeStatus)
	}
	// A status of our own joins the pipeline and makes it run again.
	pending := &gitlab.SetCommitStatusOptions{State: gitlab.Pending, Name: gitlab.Ptr("batchbot"), Description: gitlab.Ptr("waits")}
	says(c.Commits.SetCommitStatus(project, head, pending))(t)
	if read().DetailedMergeStatus != "ci_still_running" {
		t.Errorf("with our own status pending it is %s", read().DetailedMergeStatus)
	}
	_, resp, err := c.Commits.SetCommitStatus(project, head, pending)
	refuses(t, resp, err, 400, "Cannot transition status")
	pending.State = gitlab.Success
	says(c.Commits.SetCommitStatus(project, head, pending))(t)
	statuses := says(c.Commits.GetCommitStatuses(project, head, nil))(t)
	if len(statuses) != 2 || statuses[1].Name != "batchbot" || statuses[1].Status != "success" || statuses[1].Author.Username != botLogin {
		t.Errorf("statuses %v", statuses)
	}
	if jobs := says(c.Jobs.ListPipelineJobs(project, list[0].ID, nil))(t); len(jobs) != 1 || jobs[0].Name != "ci" {
		t.Errorf("jobs %v", jobs)
	}
	// On a commit without a pipeline it makes one.
	sha := get(h.Commit(project, "two", "main", "bob", "x", map[string]string{"y": "y"}))(t)
	says(c.Commits.SetCommitStatus(project, sha, pending))(t)
	if own := says(c.Pipelines.ListProjectPipelines(project, &gitlab.ListProjectPipelinesOptions{SHA: gitlab.Ptr(sha)}))(t); len(own) != 1 || own[0].Source != "external" {
		t.Errorf("made %v", own)
	}
	if mine := says(c.MergeRequests.ListMergeRequestPipelines(project, number))(t); len(mine) != 1 || mine[0].ID != list[0].ID {
		t.Errorf("of the merge request: %v", mine)
	}
}

func TestBranchesFilesAndCommitsAreRead(t *testing.T) {
	t.Parallel()
	h := newGitLab(t)
	c := labBot(t, h)
	sha := get(h.Commit(project, "release/1%+é", "main", "bob", "x", map[string]string{"a/b c.txt": "two\n"}))(t)
	if b := says(c.Branches.GetBranch(project, "release/1%+é"))(t); b.Commit.ID != sha || b.Protected {
		t.Errorf("read %+v", b)
	}
	f := says(c.RepositoryFiles.GetFile(project, "a/b c.txt", &gitlab.GetFileOptions{Ref: gitlab.Ptr("release/1%+é")}))(t)
	if f.Content != "dHdvCg==" || f.BlobID == "" || f.CommitID != sha {
		t.Errorf("read %+v", f)
	}
	if raw := says(c.RepositoryFiles.GetRawFile(project, "a/b c.txt", nil))(t); string(raw) != "one\n" {
		t.Errorf("read %q", raw)
	}
	_, resp, err := c.RepositoryFiles.GetFile(project, "nothing", &gitlab.GetFileOptions{Ref: gitlab.Ptr("main")})
	refuses(t, resp, err, 404, "")
	if x := says(c.Repositories.Compare(project, &gitlab.CompareOptions{From: gitlab.Ptr("main"), To: gitlab.Ptr(sha)}))(t); len(x.Commits) != 1 || len(x.Diffs) != 1 || x.Diffs[0].NewPath != "a/b c.txt" {
		t.Errorf("compared %+v", x)
	}
	if base := says(c.Repositories.MergeBase(project, &gitlab.MergeBaseOptions{Ref: &[]string{"main", sha}}))(t); base.ID != get(h.Branch(project, "main"))(t) {
		t.Errorf("merge base %s", base.ID)
	}
	if k := says(c.Commits.GetCommit(project, sha, nil))(t); k.ID != sha || len(k.ParentIDs) != 1 {
		t.Errorf("read %+v", k)
	}
	if p := says(c.ProtectedBranches.GetProtectedBranch(project, "main"))(t); p.PushAccessLevels[0].AccessLevel != 40 || p.MergeAccessLevels[0].AccessLevel != 30 {
		t.Errorf("protected %+v", p)
	}
	if _, err := c.Branches.DeleteBranch(project, "main"); err == nil {
		t.Error("a protected branch was deleted")
	}
	if _, err := c.Branches.DeleteBranch(project, "release/1%+é"); err != nil {
		t.Error(err)
	}
	_, resp, err = c.Branches.GetBranch(project, "release/1%+é")
	refuses(t, resp, err, 404, "")
}

func TestAMovedProjectRedirectsReadersAndRefusesWriters(t *testing.T) {
	t.Parallel()
	h := newGitLab(t)
	number := labMR(t, h, "bob", "one", "one.txt")
	id := says(labBot(t, h).Projects.GetProject(project, nil))(t).ID
	must(t, h.Rename(project, "web.two"))
	path := fmt.Sprintf("/api/v4/projects/acme%%2Fapps%%2Fweb.one/merge_requests/%d", number)
	resp, _ := askLab(t, h, botLogin, "GET", path, "")
	if resp.StatusCode != 301 || resp.Header.Get("Location") != fmt.Sprintf("%s/api/v4/projects/%d/merge_requests/%d", lab, id, number) {
		t.Errorf("answered %d to %s", resp.StatusCode, resp.Header.Get("Location"))
	}
	if resp, body := askLab(t, h, botLogin, "PUT", path+"/merge", "{}"); resp.StatusCode != 405 || !strings.Contains(body, "Non GET methods are not allowed for moved projects") {
		t.Errorf("answered %d %s", resp.StatusCode, body)
	}
	if p := says(labBot(t, h).Projects.GetProject(id, nil))(t); p.PathWithNamespace != "acme/apps/web.two" {
		t.Errorf("by number it is %s", p.PathWithNamespace)
	}
}

func TestALimitIsPlainText(t *testing.T) {
	t.Parallel()
	h := newGitLab(t)
	must(t, h.Break(fakehost.Fault{On: "GET /user", Times: 1, Do: fakehost.FaultPrimaryLimit, Wait: 30 * time.Second}))
	resp, body := askLab(t, h, botLogin, "GET", "/api/v4/user", "")
	if resp.StatusCode != 429 || body != "Retry later\n" || resp.Header.Get("Retry-After") != "30" || resp.Header.Get("RateLimit-ResetTime") == "" || resp.Header.Get("RateLimit-Remaining") != "0" {
		t.Errorf("answered %d %q %v", resp.StatusCode, body, resp.Header)
	}
	if resp, _ := askLab(t, h, botLogin, "GET", "/api/v4/user", ""); resp.StatusCode != 200 {
		t.Errorf("then answered %d", resp.StatusCode)
	}
}

func TestThePathIsUnescapedOnce(t *testing.T) {
	t.Parallel()
	h := newGitLab(t)
	for path, want := range map[string]int{
		"/api/v4/projects/acme%2Fapps%2Fweb%2Eone": 200,
		"/api/v4/projects/acme%2Fapps%2Fweb.one":   200,
		"/api/v4/projects/acme/apps/web.one":       404,
		"/api/v4/projects/acme%252Fapps":           404,
		"/api/v4/nothing":                          404,
		"/nothing":                                 404,
	} {
		if resp, body := askLab(t, h, "ada", "GET", path, ""); resp.StatusCode != want || !json.Valid([]byte(body)) {
			t.Errorf("%s answered %d %s, want %d", path, resp.StatusCode, body, want)
		}
	}
	if resp, _ := askLab(t, h, "ada", "PATCH", "/api/v4/user", ""); resp.StatusCode != 405 {
		t.Errorf("PATCH /user answered %d", resp.StatusCode)
	}
	resp, _ := askLab(t, h, "ada", "GET", "/api/v4/user", "")
	req, err := http.NewRequestWithContext(context.Background(), "GET", lab+"/api/v4/user", nil)
	must(t, err)
	req.Header.Set("Authorization", "Bearer ada-token")
	req.Header.Set("If-None-Match", resp.Header.Get("ETag"))
	again, err := h.RoundTripper().RoundTrip(req)
	must(t, err)
	if again.StatusCode != http.StatusNotModified {
		t.Errorf("the second time answered %d", again.StatusCode)
	}
}
