package fakehost_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-github/v60/github"

	"github.com/batchbot/batchbot/githost/fakehost"
)

// refused checks that err is GitHub's answer with that status.
func refused(t *testing.T, err error, status int) {
	t.Helper()
	var e *github.ErrorResponse
	if !errors.As(err, &e) || e.Response.StatusCode != status {
		t.Errorf("got %v, want the status %d", err, status)
		return
	}
	if e.Message == "" || e.DocumentationURL == "" {
		t.Errorf("the refusal %+v lacks a message or documentation_url", e)
	}
}

// answer drops go-github's response from a call's results.
func answer[T any](v T, _ *github.Response, err error) func(*testing.T) T { return get(v, err) }

func TestPullRequestIsOpenedReadEditedAndClosed(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	bot := asBot(t, h)
	get(h.Commit(repo, "batch/1", "main", "ada", "change", map[string]string{"x.txt": "x\n"}))(t)
	head := get(h.Branch(repo, "batch/1"))(t)

	in := &github.NewPullRequest{Title: github.String("Batch 1"), Head: github.String("batch/1"), Base: github.String("main"), Body: github.String("body")}
	pr := answer(bot.PullRequests.Create(ctx, "acme", "app", in))(t)
	if pr.GetNumber() != 1 || pr.GetHead().GetSHA() != head || pr.GetUser().GetLogin() != "batchbot[bot]" || pr.Mergeable != nil {
		t.Errorf("created %v", pr)
	}
	_, _, err := bot.PullRequests.Create(ctx, "acme", "app", in)
	refused(t, err, 422)
	if !strings.Contains(err.Error(), "A pull request already exists for acme:batch/1.") {
		t.Errorf("the refusal of a second one says %v", err)
	}
	in.Head = github.String("main")
	_, _, err = bot.PullRequests.Create(ctx, "acme", "app", in)
	refused(t, err, 422)

	found := answer(bot.PullRequests.List(ctx, "acme", "app", &github.PullRequestListOptions{State: "all", Head: "acme:batch/1", Base: "main"}))(t)
	if len(found) != 1 || found[0].GetNumber() != 1 || found[0].Merged != nil || found[0].Mergeable != nil {
		t.Errorf("found %v, want 1 in the short form", found)
	}
	pr = answer(bot.PullRequests.Get(ctx, "acme", "app", 1))(t)
	if !pr.GetMergeable() || pr.GetMergeableState() != "clean" || pr.GetCommits() != 1 || pr.GetChangedFiles() != 1 || pr.GetAdditions() != 1 {
		t.Errorf("read %v", pr)
	}
	if test := git(t, h, "rev-parse", "refs/pull/1/merge"); pr.GetMergeCommitSHA() != test {
		t.Errorf("merge_commit_sha of an open one is %s, want the test merge %s", pr.GetMergeCommitSHA(), test)
	}
	pr = answer(bot.PullRequests.Edit(ctx, "acme", "app", 1, &github.PullRequest{State: github.String("closed"), Title: github.String("Batch one")}))(t)
	if pr.GetState() != "closed" || pr.GetMerged() || pr.GetTitle() != "Batch one" || pr.GetClosedAt().IsZero() {
		t.Errorf("closed %v", pr)
	}
	pr = answer(bot.PullRequests.Edit(ctx, "acme", "app", 1, &github.PullRequest{State: github.String("open")}))(t)
	if pr.GetState() != "open" {
		t.Errorf("reopened %v", pr)
	}
	_, err = bot.Git.DeleteRef(ctx, "acme", "app", "heads/batch/1")
	must(t, err)
	if got := state(t, h, 1).State; got != "closed" {
		t.Errorf("after its branch was deleted it reads %s", got)
	}
	_, _, err = bot.PullRequests.Get(ctx, "acme", "app", 99)
	refused(t, err, 404)
}

func TestMergeIsRefused(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	n := openMR(t, h, "bob", "one", "one.txt")
	bot := asBot(t, h)
	merge := func(client *github.Client, o github.PullRequestOptions) error {
		_, _, err := client.PullRequests.Merge(ctx, "acme", "app", n, "", &o)
		return err
	}
	head := state(t, h, n).Head

	refused(t, merge(as(t, h, "dan-token"), github.PullRequestOptions{}), 403)
	refused(t, merge(bot, github.PullRequestOptions{SHA: strings.Repeat("a", 40)}), 409)
	refused(t, merge(bot, github.PullRequestOptions{MergeMethod: "squash"}), 405)
	must(t, h.SetDraft(repo, n, "bob", true))
	refused(t, merge(bot, github.PullRequestOptions{SHA: head}), 405)
	must(t, h.SetDraft(repo, n, "bob", false))

	must(t, h.SetRules(repo, "main", fakehost.Rules{RequiredChecks: []string{"lint"}, RequiredApprovals: 1}))
	refused(t, merge(bot, github.PullRequestOptions{SHA: head}), 405)
	if pr := answer(bot.PullRequests.Get(ctx, "acme", "app", n))(t); pr.GetMergeableState() != "blocked" {
		t.Errorf("mergeable_state is %s", pr.GetMergeableState())
	}
	must(t, h.SetStatus(repo, head, "ada", "success", "lint"))
	refused(t, merge(bot, github.PullRequestOptions{SHA: head}), 405)
	get(h.Review(repo, n, "dan", fakehost.Approved, ""))(t) // a stranger's does not count
	refused(t, merge(bot, github.PullRequestOptions{SHA: head}), 405)
	get(h.Review(repo, n, "cleo", fakehost.Approved, ""))(t)

	r := answer(bot.PullRequests.Merge(ctx, "acme", "app", n, "message", &github.PullRequestOptions{SHA: head, MergeMethod: "merge", CommitTitle: "Land it"}))(t)
	if !r.GetMerged() || r.GetSHA() != get(h.Branch(repo, "main"))(t) {
		t.Errorf("merged %v", r)
	}
	if subject := git(t, h, "log", "-1", "--format=%s/%b", "main"); subject != "Land it/message" {
		t.Errorf("the merge commit says %q", subject)
	}
	refused(t, merge(bot, github.PullRequestOptions{SHA: head}), 405)
	if _, _, err := bot.PullRequests.IsMerged(ctx, "acme", "app", n); err != nil {
		t.Error(err)
	}
}

func TestConflictingPullRequestIsNotMergeable(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	change := func(author, branch, text string) int {
		return get(h.OpenMR(repo, fakehost.NewMR{Author: author, Head: branch, Title: branch, Files: map[string]string{"a.txt": text}}))(t)
	}
	one, two := change("ada", "one", "ONE\ntwo\nthree\n"), change("bob", "two", "uno\ntwo\nthree\n")
	get(h.MergeMR(repo, one, "ada"))(t)
	pr := answer(asBot(t, h).PullRequests.Get(ctx, "acme", "app", two))(t)
	if pr.Mergeable == nil || pr.GetMergeable() || pr.GetMergeableState() != "dirty" {
		t.Errorf("mergeable is %v, %s", pr.Mergeable, pr.GetMergeableState())
	}
	_, _, err := asBot(t, h).PullRequests.Merge(ctx, "acme", "app", two, "", nil)
	refused(t, err, 405)
}

func TestReviewsArePinnedToTheHead(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	n := openMR(t, h, "bob", "one", "one.txt")
	head := state(t, h, n).Head
	ada, bot := as(t, h, "ada-token"), asBot(t, h)
	approve := &github.PullRequestReviewRequest{Event: github.String("APPROVE")}
	v := answer(ada.PullRequests.CreateReview(ctx, "acme", "app", n, approve))(t)
	if v.GetState() != "APPROVED" || v.GetCommitID() != head {
		t.Errorf("review %v", v)
	}
	_, _, err := as(t, h, "bob-token").PullRequests.CreateReview(ctx, "acme", "app", n, approve)
	refused(t, err, 422)
	bob := as(t, h, "bob-token")
	draft := answer(bob.PullRequests.CreateReview(ctx, "acme", "app", n, &github.PullRequestReviewRequest{Body: github.String("so far")}))(t)
	_, _, err = bob.PullRequests.SubmitReview(ctx, "acme", "app", n, draft.GetID(), approve)
	refused(t, err, 422)
	get(h.PushTo(repo, n, map[string]string{"more.txt": "more\n"}))(t)
	reviews := answer(bot.PullRequests.ListReviews(ctx, "acme", "app", n, nil))(t)
	if len(reviews) != 1 || reviews[0].GetCommitID() != head || reviews[0].GetSubmittedAt().IsZero() {
		t.Errorf("reviews %v, want the one at %s", reviews, head)
	}
	v = answer(ada.PullRequests.DismissReview(ctx, "acme", "app", n, v.GetID(), &github.PullRequestReviewDismissalRequest{Message: github.String("stale")}))(t)
	if v.GetState() != "DISMISSED" {
		t.Errorf("dismissed review reads %s", v.GetState())
	}
}

func TestCommentsAreWrittenEditedListedAndReactedTo(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	n := openMR(t, h, "bob", "one", "one.txt")
	issue := get(h.OpenIssue(repo, "dan", "A question"))(t)
	bot, dan := asBot(t, h), as(t, h, "dan-token")
	c := answer(dan.Issues.CreateComment(ctx, "acme", "app", n, &github.IssueComment{Body: github.String("/batch")}))(t)
	answer(dan.Issues.CreateComment(ctx, "acme", "app", issue, &github.IssueComment{Body: github.String("hello")}))(t)
	mine := answer(bot.Issues.CreateComment(ctx, "acme", "app", n, &github.IssueComment{Body: github.String("status")}))(t)
	if mine.GetUser().GetType() != "Bot" || c.GetAuthorAssociation() != "NONE" {
		t.Errorf("comments %v and %v", mine, c)
	}
	mine = answer(bot.Issues.EditComment(ctx, "acme", "app", mine.GetID(), &github.IssueComment{Body: github.String("status 2")}))(t)
	_, _, err := dan.Issues.EditComment(ctx, "acme", "app", mine.GetID(), &github.IssueComment{Body: github.String("mine")})
	refused(t, err, 403)
	for want, code := range []int{201, 200} {
		_, res, err := bot.Reactions.CreateIssueCommentReaction(ctx, "acme", "app", c.GetID(), "eyes")
		must(t, err)
		if res.StatusCode != code {
			t.Errorf("reaction %d answers %d, want %d", want, res.StatusCode, code)
		}
	}
	onOne := answer(bot.Issues.ListComments(ctx, "acme", "app", n, nil))(t)
	all, res, err := bot.Issues.ListComments(ctx, "acme", "app", 0, &github.IssueListCommentsOptions{
		Sort: github.String("created"), Direction: github.String("asc"), ListOptions: github.ListOptions{PerPage: 2}})
	must(t, err)
	if len(onOne) != 2 || onOne[1].GetBody() != "status 2" || len(all) != 2 || res.NextPage != 2 || res.LastPage != 2 {
		t.Errorf("listed %v and %v, next page %d", onOne, all, res.NextPage)
	}
	if got := state(t, h, n).Comments[0].Reactions; len(got) != 1 || got[0] != (fakehost.Reaction{User: "batchbot[bot]", Content: "eyes"}) {
		t.Errorf("reactions %v", got)
	}
	i := answer(bot.Issues.Get(ctx, "acme", "app", issue))(t)
	if p := answer(bot.Issues.Get(ctx, "acme", "app", n))(t); i.IsPullRequest() || !p.IsPullRequest() {
		t.Error("issues and merge requests are not told apart")
	}
	_, _, err = as(t, h, "").Issues.CreateComment(ctx, "acme", "app", n, &github.IssueComment{Body: github.String("x")})
	refused(t, err, 401)
	_, _, err = dan.Issues.CreateComment(ctx, "acme", "app", n, &github.IssueComment{Body: github.String(strings.Repeat("x", 65537))})
	refused(t, err, 422)
}

func TestPermissionSaysTheCoarseLevelAndTheExactRole(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	bot := asBot(t, h)
	for login, want := range map[string][2]string{
		"acme": {"admin", "admin"}, "bob": {"write", "write"}, "max": {"write", "maintain"}, "tess": {"read", "triage"}, "dan": {"read", "read"},
	} {
		p := answer(bot.Repositories.GetPermissionLevel(ctx, "acme", "app", login))(t)
		if p.GetPermission() != want[0] || p.GetUser().GetRoleName() != want[1] || p.GetUser().GetPermissions()["push"] != (want[0] != "read") {
			t.Errorf("%s: %s, %s, want %v", login, p.GetPermission(), p.GetUser().GetRoleName(), want)
		}
	}
	for _, login := range []string{"batchbot[bot]", "nobody"} {
		_, _, err := bot.Repositories.GetPermissionLevel(ctx, "acme", "app", login)
		refused(t, err, 404)
	}
}

func TestChecksAndStatusesOfACommit(t *testing.T) {
	t.Parallel()
	h := newHost(t, func(o *fakehost.Options) { o.CI.Mode = fakehost.CIManual })
	n := openMR(t, h, "bob", "feature/one", "one.txt")
	head, bot := state(t, h, n).Head, asBot(t, h)

	combined := answer(bot.Repositories.GetCombinedStatus(ctx, "acme", "app", head, nil))(t)
	if combined.GetState() != "pending" || combined.GetTotalCount() != 0 {
		t.Errorf("combined status without statuses: %v", combined)
	}
	runs := answer(bot.Checks.ListCheckRunsForRef(ctx, "acme", "app", "feature/one", nil))(t)
	if runs.GetTotal() != 1 || runs.CheckRuns[0].GetStatus() != "in_progress" || runs.CheckRuns[0].GetApp().GetSlug() != "fake-ci" {
		t.Errorf("check runs %v", runs)
	}
	get(h.FinishCI(head))(t)
	suites := answer(bot.Checks.ListCheckSuitesForRef(ctx, "acme", "app", head, nil))(t)
	bySlug := map[string]*github.CheckSuite{}
	for _, s := range suites.CheckSuites {
		bySlug[s.GetApp().GetSlug()] = s
	}
	if s := bySlug["fake-ci"]; s.GetConclusion() != "success" || len(s.PullRequests) != 1 {
		t.Errorf("the suite of CI: %v", s)
	}
	if s := bySlug["batchbot"]; s.GetStatus() != "queued" {
		t.Errorf("our own suite: %v, want it queued for ever", s)
	}
	st := answer(bot.Repositories.CreateStatus(ctx, "acme", "app", head, &github.RepoStatus{State: github.String("pending"), Context: github.String("batchbot")}))(t)
	combined = answer(bot.Repositories.GetCombinedStatus(ctx, "acme", "app", head, nil))(t)
	if st.GetID() == 0 || combined.GetState() != "pending" || combined.GetTotalCount() != 1 || combined.Statuses[0].GetContext() != "batchbot" {
		t.Errorf("combined status %v", combined)
	}
	own := github.CreateCheckRunOptions{Name: "batch", HeadSHA: head}
	_, _, err := as(t, h, "ada-token").Checks.CreateCheckRun(ctx, "acme", "app", own)
	refused(t, err, 403)
	k := answer(bot.Checks.CreateCheckRun(ctx, "acme", "app", own))(t)
	// GitHub's description forbids to ask for this, so past it.
	rude := github.NewClient(&http.Client{Transport: h.RoundTripper()}).WithAuthToken(get(h.InstallationToken(repo))(t))
	_, _, err = rude.Checks.UpdateCheckRun(ctx, "acme", "app", k.GetID(), github.UpdateCheckRunOptions{Name: "batch", Status: github.String("completed")})
	refused(t, err, 422)
	k = answer(bot.Checks.UpdateCheckRun(ctx, "acme", "app", k.GetID(), github.UpdateCheckRunOptions{Name: "batch", Conclusion: github.String("neutral")}))(t)
	if k.GetStatus() != "completed" || k.GetCompletedAt().IsZero() {
		t.Errorf("completed check run %v", k)
	}
	_, err = bot.Checks.ReRequestCheckSuite(ctx, "acme", "app", bySlug["fake-ci"].GetID())
	must(t, err)
	if runs := h.CIRuns(); len(runs) != 2 || runs[0].Conclusion != "success" || runs[1].Conclusion != "" {
		t.Errorf("CI runs after a re-run: %+v", runs)
	}
}

func TestRepositoryBranchesRulesAndContents(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	bot := asBot(t, h)
	r := answer(bot.Repositories.Get(ctx, "Acme", "app"))(t)
	if !r.GetAllowMergeCommit() || r.GetDefaultBranch() != "main" || !r.GetPermissions()["push"] || r.GetPermissions()["admin"] {
		t.Errorf("repository %v", r)
	}
	if byID := answer(bot.Repositories.GetByID(ctx, r.GetID()))(t); byID.GetFullName() != repo {
		t.Errorf("by id: %v", byID)
	}
	must(t, h.SetBranch(repo, "rel/1", get(h.Branch(repo, "main"))(t), "ada"))
	_, res, err := bot.Repositories.GetBranchProtection(ctx, "acme", "app", "rel/1")
	if !errors.Is(err, github.ErrBranchNotProtected) {
		t.Errorf("unprotected branch answers %v %v", res, err)
	}
	must(t, h.SetRules(repo, "rel/1", fakehost.Rules{RequiredChecks: []string{"ci"}, RequiredApprovals: 2, Linear: true}))
	if rules := answer(bot.Repositories.GetRulesForBranch(ctx, "acme", "app", "rel/1"))(t); len(rules) != 3 {
		t.Errorf("rules %v", rules)
	}
	p := answer(bot.Repositories.GetBranchProtection(ctx, "acme", "app", "rel/1"))(t)
	if (*p.GetRequiredStatusChecks().Checks)[0].Context != "ci" || p.GetRequiredPullRequestReviews().RequiredApprovingReviewCount != 2 {
		t.Errorf("protection %v", p)
	}
	if b := answer(bot.Repositories.GetBranch(ctx, "acme", "app", "rel/1", 0))(t); !b.GetProtected() || b.GetCommit().GetSHA() == "" {
		t.Errorf("branch %v", b)
	}
	if ref := answer(bot.Git.GetRef(ctx, "acme", "app", "heads/rel/1"))(t); ref.GetObject().GetSHA() != get(h.Branch(repo, "rel/1"))(t) {
		t.Errorf("ref %v", ref)
	}
	file, _, _, err := bot.Repositories.GetContents(ctx, "acme", "app", "README.md", &github.RepositoryContentGetOptions{Ref: "rel/1"})
	must(t, err)
	if text := get(file.GetContent())(t); text != "# app\n" || file.GetSHA() != git(t, h, "rev-parse", "main:README.md") {
		t.Errorf("content %q of %s", text, file.GetSHA())
	}
	_, folder, _, err := bot.Repositories.GetContents(ctx, "acme", "app", "", nil)
	must(t, err)
	if len(folder) != 2 {
		t.Errorf("folder %v", folder)
	}
	_, _, _, err = bot.Repositories.GetContents(ctx, "acme", "app", ".batchbot.yml", nil)
	refused(t, err, 404)

	n := openMR(t, h, "bob", "one", "one.txt")
	cmp := answer(bot.Repositories.CompareCommits(ctx, "acme", "app", "main", "one", nil))(t)
	if cmp.GetStatus() != "ahead" || cmp.GetAheadBy() != 1 || cmp.Files[0].GetFilename() != "one.txt" {
		t.Errorf("compare %v", cmp)
	}
	k := answer(bot.Repositories.GetCommit(ctx, "acme", "app", "one", nil))(t)
	if k.GetAuthor().GetLogin() != "bob" || k.GetCommit().GetAuthor().GetName() != "Bob" || k.Files[0].GetStatus() != "added" {
		t.Errorf("commit %v", k)
	}
	if prs := answer(bot.PullRequests.ListPullRequestsWithCommit(ctx, "acme", "app", k.GetSHA(), nil))(t); len(prs) != 1 || prs[0].GetNumber() != n {
		t.Errorf("pull requests of the commit: %v", prs)
	}
	if u := answer(as(t, h, "ada-token").Users.Get(ctx, ""))(t); u.GetLogin() != "ada" {
		t.Errorf("the token's user is %v", u)
	}
	_, _, err = bot.Users.Get(ctx, "")
	refused(t, err, 403)
}

func TestUnchangedAnswerCostsNothing(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	openMR(t, h, "bob", "one", "one.txt")
	client := &http.Client{Transport: wire(t, h)}
	read := func(tag string) *http.Response {
		req := get(http.NewRequest(http.MethodGet, "http://any/api/v3/repos/acme/app/pulls/1", nil))(t)
		req.Header.Set("Authorization", "Bearer ada-token")
		if tag != "" {
			req.Header.Set("If-None-Match", tag)
		}
		res := get(client.Do(req))(t)
		must(t, res.Body.Close())
		return res
	}
	first := read("")
	second := read(first.Header.Get("ETag"))
	if second.StatusCode != 304 || second.Header.Get("X-RateLimit-Used") != first.Header.Get("X-RateLimit-Used") {
		t.Errorf("unchanged: %d, used %s then %s", second.StatusCode, first.Header.Get("X-RateLimit-Used"), second.Header.Get("X-RateLimit-Used"))
	}
	get(h.Comment(repo, 1, "bob", "hello"))(t)
	if third := read(first.Header.Get("ETag")); third.StatusCode != 200 {
		t.Errorf("changed: %d", third.StatusCode)
	}
}

func TestPrivateAndArchivedRepositories(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	must(t, h.AddRepository(fakehost.NewRepository{Owner: "acme", Name: "secret", Private: true}))
	_, _, err := as(t, h, "dan-token").Repositories.Get(ctx, "acme", "secret")
	refused(t, err, 404)
	answer(asBot(t, h).Repositories.Get(ctx, "acme", "secret"))(t)
	must(t, h.SetArchived(repo, true))
	answer(asBot(t, h).Repositories.Get(ctx, "acme", "app"))(t)
	_, _, err = asBot(t, h).Issues.CreateComment(ctx, "acme", "app", 1, &github.IssueComment{Body: github.String("x")})
	refused(t, err, 403)
}

func TestReviewDecisionByGraphQL(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	n := openMR(t, h, "bob", "one", "one.txt")
	bot := get(asBot(t, h).WithEnterpriseURLs("http://fakehost.test", "http://fakehost.test"))(t)
	decision := func() *string {
		var out struct {
			Data struct {
				Repository struct {
					PullRequest struct {
						HeadRefOid     string
						ReviewDecision *string
					}
				}
			}
		}
		req := get(bot.NewRequest("POST", "../graphql", map[string]any{
			"query": "query", "variables": map[string]any{"owner": "acme", "name": "app", "number": n}}))(t)
		if _, err := bot.Do(ctx, req, &out); err != nil {
			t.Fatal(err)
		}
		if out.Data.Repository.PullRequest.HeadRefOid != state(t, h, n).Head {
			t.Errorf("answered %+v", out)
		}
		return out.Data.Repository.PullRequest.ReviewDecision
	}
	get(h.Review(repo, n, "cleo", fakehost.Approved, ""))(t)
	if d := decision(); d != nil {
		t.Errorf("without rules the decision is %s, want null", *d)
	}
	must(t, h.SetRules(repo, "main", fakehost.Rules{RequiredApprovals: 1}))
	if d := decision(); d == nil || *d != "APPROVED" {
		t.Errorf("approved: %v", d)
	}
	get(h.Review(repo, n, "ada", fakehost.ChangesRequested, "no"))(t)
	if d := decision(); d == nil || *d != "CHANGES_REQUESTED" {
		t.Errorf("changes requested: %v", d)
	}
}

func TestStaleApprovalsAreDismissedWhereTheRulesSaySo(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	must(t, h.SetRules(repo, "main", fakehost.Rules{RequiredApprovals: 1, DismissStale: true}))
	n := openMR(t, h, "bob", "one", "one.txt")
	get(h.Review(repo, n, "cleo", fakehost.Approved, ""))(t)
	get(h.PushTo(repo, n, map[string]string{"two.txt": "2\n"}))(t)
	if v := state(t, h, n).Reviews; v[0].State != fakehost.Dismissed {
		t.Errorf("reviews %v", v)
	}
}
