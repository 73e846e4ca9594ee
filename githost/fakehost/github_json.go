package fakehost

import (
	"encoding/base64"
	"fmt"
	"strings"
	"time"
)

// The shapes of GitHub's objects. Every field GitHub's description requires is
// there, so that both strict and lazy clients are served.

func (g *github) api(format string, args ...any) string {
	return g.h.opt.BaseURL + "/api/v3" + fmt.Sprintf(format, args...)
}

func (g *github) web(format string, args ...any) string {
	return g.h.opt.BaseURL + fmt.Sprintf(format, args...)
}

func nodeID(kind string, id int64) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%s:%d", kind, id))
}

// moment is GitHub's time format; the zero time is null.
func moment(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(time.RFC3339)
}

// orNull turns "" into null.
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func list[T any](in []T, f func(T) object) []object {
	out := make([]object, 0, len(in))
	for _, x := range in {
		out = append(out, f(x))
	}
	return out
}

func (g *github) user(u *user) any {
	if u == nil {
		return nil
	}
	kind := "User"
	switch {
	case u.Bot:
		kind = "Bot"
	case u.Org:
		kind = "Organization"
	}
	api := g.api("/users/%s", u.Login)
	return object{
		"login": u.Login, "id": u.ID, "node_id": nodeID("User", u.ID), "type": kind, "site_admin": false, "user_view_type": "public",
		"avatar_url": g.web("/avatars/%d", u.ID), "gravatar_id": "", "url": api, "html_url": g.web("/%s", u.Login),
		"followers_url": api + "/followers", "following_url": api + "/following{/other_user}", "gists_url": api + "/gists{/gist_id}",
		"starred_url": api + "/starred{/owner}{/repo}", "subscriptions_url": api + "/subscriptions", "organizations_url": api + "/orgs",
		"repos_url": api + "/repos", "events_url": api + "/events{/privacy}", "received_events_url": api + "/received_events",
	}
}

// repoLinks are the URL templates of a repository: field, path below its URL.
var repoLinks = [][2]string{
	{"archive_url", "/{archive_format}{/ref}"}, {"assignees_url", "/assignees{/user}"}, {"blobs_url", "/git/blobs{/sha}"},
	{"branches_url", "/branches{/branch}"}, {"collaborators_url", "/collaborators{/collaborator}"}, {"comments_url", "/comments{/number}"},
	{"commits_url", "/commits{/sha}"}, {"compare_url", "/compare/{base}...{head}"}, {"contents_url", "/contents/{+path}"},
	{"contributors_url", "/contributors"}, {"deployments_url", "/deployments"}, {"downloads_url", "/downloads"}, {"events_url", "/events"},
	{"forks_url", "/forks"}, {"git_commits_url", "/git/commits{/sha}"}, {"git_refs_url", "/git/refs{/sha}"}, {"git_tags_url", "/git/tags{/sha}"},
	{"hooks_url", "/hooks"}, {"issue_comment_url", "/issues/comments{/number}"}, {"issue_events_url", "/issues/events{/number}"},
	{"issues_url", "/issues{/number}"}, {"keys_url", "/keys{/key_id}"}, {"labels_url", "/labels{/name}"}, {"languages_url", "/languages"},
	{"merges_url", "/merges"}, {"milestones_url", "/milestones{/number}"}, {"notifications_url", "/notifications{?since,all,participating}"},
	{"pulls_url", "/pulls{/number}"}, {"releases_url", "/releases{/id}"}, {"stargazers_url", "/stargazers"}, {"statuses_url", "/statuses/{sha}"},
	{"subscribers_url", "/subscribers"}, {"subscription_url", "/subscription"}, {"tags_url", "/tags"}, {"teams_url", "/teams"},
	{"trees_url", "/git/trees{/sha}"},
}

func (g *github) repo(r *repository) object {
	api, web := g.api("/repos/%s", r.fullName()), g.web("/%s", r.fullName())
	visibility := "public"
	if r.Private {
		visibility = "private"
	}
	open := 0
	for _, t := range r.threads {
		if t.Open {
			open++
		}
	}
	o := object{
		"id": r.ID, "node_id": nodeID("Repository", r.ID), "name": r.Name, "full_name": r.fullName(), "owner": g.user(r.Owner),
		"private": r.Private, "visibility": visibility, "description": nil, "fork": false, "url": api, "html_url": web,
		"git_url": strings.Replace(web, "http", "git", 1) + ".git", "clone_url": web + ".git", "ssh_url": "git@fakehost:" + r.fullName() + ".git",
		"svn_url": web, "mirror_url": nil, "homepage": nil, "language": nil, "license": nil, "topics": []string{},
		"created_at": moment(r.Created), "updated_at": moment(r.Updated), "pushed_at": moment(r.Updated),
		"size": 1, "default_branch": r.DefaultBranch, "archived": r.Archived, "disabled": false, "is_template": false,
		"has_issues": true, "has_projects": true, "has_downloads": true, "has_wiki": true, "has_pages": false, "has_discussions": false,
		"allow_forking": true, "web_commit_signoff_required": false,
		"forks_count": 0, "stargazers_count": 0, "watchers_count": 0, "open_issues_count": open,
		"forks": 0, "open_issues": open, "watchers": 0,
	}
	for _, l := range repoLinks {
		o[l[0]] = api + l[1]
	}
	return o
}

// fullRepo adds what only GET of one repository answers.
func (g *github) fullRepo(r *repository, caller principal) object {
	o := g.repo(r)
	role := g.h.role(r, caller.user)
	o["permissions"] = permissions(role)
	o["allow_merge_commit"], o["allow_squash_merge"], o["allow_rebase_merge"] = r.AllowMerge, r.AllowSquash, false
	o["delete_branch_on_merge"], o["allow_auto_merge"], o["allow_update_branch"] = r.DeleteOnMerge, false, false
	o["network_count"], o["subscribers_count"] = 0, 0
	o["merge_commit_title"], o["merge_commit_message"] = "MERGE_MESSAGE", "PR_TITLE"
	return o
}

// listedRepo is the form of an installation's list.
func (g *github) listedRepo(r *repository, caller principal) object {
	o := g.fullRepo(r, caller)
	delete(o, "network_count")
	delete(o, "subscribers_count")
	return o
}

func permissions(role string) object {
	return object{
		"admin": atLeast(role, RoleAdmin), "maintain": atLeast(role, RoleMaintain), "push": atLeast(role, RoleWrite),
		"triage": atLeast(role, RoleTriage), "pull": atLeast(role, RoleRead),
	}
}

func (g *github) association(r *repository, u *user) string {
	switch {
	case u == r.Owner:
		return "OWNER"
	case g.h.collaborates(r, u):
		return "COLLABORATOR"
	}
	return "NONE"
}

// shortPull is the form of lists and of review webhooks: without merged,
// mergeable and the counts.
func (g *github) shortPull(r *repository, m *mergeRequest) object {
	api, web := g.api("/repos/%s/pulls/%d", r.fullName(), m.Number), g.web("/%s/pull/%d", r.fullName(), m.Number)
	issue := g.api("/repos/%s/issues/%d", r.fullName(), m.Number)
	statuses := g.api("/repos/%s/statuses/%s", r.fullName(), m.Head)
	href := func(u string) object { return object{"href": u} }
	return object{
		"url": api, "id": m.ID, "node_id": nodeID("PullRequest", m.ID), "html_url": web, "diff_url": web + ".diff", "patch_url": web + ".patch",
		"issue_url": issue, "number": m.Number, "state": m.state(), "locked": false, "active_lock_reason": nil, "title": m.Title,
		"user": g.user(m.Author), "body": orNull(m.Body), "created_at": moment(m.Created), "updated_at": moment(m.Updated),
		"closed_at": moment(m.ClosedAt), "merged_at": moment(m.MergedAt), "merge_commit_sha": g.mergeSHA(m),
		"assignee": nil, "assignees": []object{}, "requested_reviewers": []object{}, "requested_teams": []object{}, "labels": []object{},
		"milestone": nil, "draft": m.Draft, "author_association": g.association(r, m.Author), "auto_merge": nil,
		"commits_url": api + "/commits", "review_comments_url": api + "/comments", "review_comment_url": g.api("/repos/%s/pulls/comments{/number}", r.fullName()),
		"comments_url": issue + "/comments", "statuses_url": statuses,
		"head": g.side(r, m.Branch, m.Head, m.headOwner(r), m.Fork), "base": g.side(r, m.Base, m.BaseSHA, r.Owner, false),
		"_links": object{
			"self": href(api), "html": href(web), "issue": href(issue), "comments": href(issue + "/comments"), "review_comments": href(api + "/comments"),
			"review_comment": href(g.api("/repos/%s/pulls/comments{/number}", r.fullName())), "commits": href(api + "/commits"), "statuses": href(statuses),
		},
	}
}

func (t *thread) state() string {
	if t.Open {
		return "open"
	}
	return "closed"
}

// mergeSHA is the test merge while open, the landed commit when merged.
func (g *github) mergeSHA(m *mergeRequest) any {
	if m.Open {
		return orNull(m.trial.sha)
	}
	return orNull(m.MergeSHA)
}

func (g *github) side(r *repository, branch, sha string, owner *user, fork bool) object {
	repo := g.repo(r)
	if fork {
		// The fork is a name only: its commits live in refs/pull/N/head.
		full := owner.Login + "/" + r.Name
		repo["id"], repo["full_name"], repo["owner"], repo["fork"] = r.ID*1000+owner.ID, full, g.user(owner), true
		repo["url"], repo["html_url"], repo["clone_url"] = g.api("/repos/%s", full), g.web("/%s", full), g.web("/%s.git", full)
	}
	return object{"label": owner.Login + ":" + branch, "ref": branch, "sha": sha, "user": g.user(owner), "repo": repo}
}

// fullPull is the form of single reads and pull_request webhooks. Without
// known mergeability (webhooks), mergeable is null as on the real host.
func (g *github) fullPull(r *repository, m *mergeRequest, known bool) object {
	o := g.shortPull(r, m)
	o["merged"], o["merged_by"] = m.Merged, g.user(m.MergedBy)
	o["commits"], o["additions"], o["deletions"], o["changed_files"] = m.commits, m.additions, m.deletions, m.files
	o["maintainer_can_modify"], o["review_comments"], o["rebaseable"] = false, 0, nil
	o["comments"] = len(r.commentsOn(m.Number))
	o["mergeable"], o["mergeable_state"] = nil, "unknown"
	if known && m.Open {
		o["mergeable"], o["rebaseable"] = m.trial.ok, m.trial.ok
		switch {
		case m.Draft:
			o["mergeable_state"] = "draft"
		case !m.trial.ok:
			o["mergeable_state"] = "dirty"
		case g.h.unmet(r, m, r.rules[m.Base]) != nil:
			o["mergeable_state"] = "blocked"
		default:
			o["mergeable_state"] = "clean"
		}
	}
	return o
}

func (r *repository) commentsOn(number int) []*comment {
	var list []*comment
	for _, c := range r.comments {
		if c.Thread.Number == number {
			list = append(list, c)
		}
	}
	return list
}

func (g *github) issue(r *repository, t *thread) object {
	api := g.api("/repos/%s/issues/%d", r.fullName(), t.Number)
	kind := "issues"
	if t.mr != nil {
		kind = "pull"
	}
	o := object{
		"url": api, "repository_url": g.api("/repos/%s", r.fullName()), "labels_url": api + "/labels{/name}", "comments_url": api + "/comments",
		"events_url": api + "/events", "timeline_url": api + "/timeline", "html_url": g.web("/%s/%s/%d", r.fullName(), kind, t.Number),
		"id": t.ID, "node_id": nodeID("Issue", t.ID), "number": t.Number, "title": t.Title, "user": g.user(t.Author), "labels": []object{},
		"state": t.state(), "state_reason": nil, "locked": false, "assignee": nil, "assignees": []object{}, "milestone": nil,
		"comments": len(r.commentsOn(t.Number)), "created_at": moment(t.Created), "updated_at": moment(t.Updated), "closed_at": moment(t.ClosedAt),
		"closed_by": g.user(t.ClosedBy), "author_association": g.association(r, t.Author), "active_lock_reason": nil, "body": orNull(t.Body),
		"performed_via_github_app": nil, "reactions": g.reactions(api+"/reactions", t.Reactions),
	}
	if m := t.mr; m != nil {
		pr, web := g.api("/repos/%s/pulls/%d", r.fullName(), t.Number), g.web("/%s/pull/%d", r.fullName(), t.Number)
		o["pull_request"] = object{"url": pr, "html_url": web, "diff_url": web + ".diff", "patch_url": web + ".patch", "merged_at": moment(m.MergedAt)}
		o["draft"] = m.Draft
	}
	return o
}

func (g *github) comment(r *repository, c *comment) object {
	api := g.api("/repos/%s/issues/comments/%d", r.fullName(), c.ID)
	kind := "issues"
	if c.Thread.mr != nil {
		kind = "pull"
	}
	var app any
	if c.Author == g.h.bot() && c.Author.Bot {
		app = g.app()
	}
	return object{
		"url": api, "html_url": g.web("/%s/%s/%d#issuecomment-%d", r.fullName(), kind, c.Thread.Number, c.ID),
		"issue_url": g.api("/repos/%s/issues/%d", r.fullName(), c.Thread.Number), "id": c.ID, "node_id": nodeID("IssueComment", c.ID),
		"user": g.user(c.Author), "created_at": moment(c.Created), "updated_at": moment(c.Updated), "author_association": g.association(r, c.Author),
		"body": c.Body, "performed_via_github_app": app, "reactions": g.reactions(api+"/reactions", c.Reactions),
	}
}

func (g *github) reactions(url string, all []*reaction) object {
	o := object{"url": url, "total_count": len(all), "+1": 0, "-1": 0, "laugh": 0, "confused": 0, "heart": 0, "hooray": 0, "rocket": 0, "eyes": 0}
	for _, x := range all {
		o[x.Content] = o[x.Content].(int) + 1
	}
	return o
}

func (g *github) reaction(x *reaction) object {
	return object{"id": x.ID, "node_id": nodeID("Reaction", x.ID), "user": g.user(x.User), "content": x.Content, "created_at": moment(x.Created)}
}

func (g *github) review(r *repository, m *mergeRequest, v *review) object {
	web, pr := g.web("/%s/pull/%d#pullrequestreview-%d", r.fullName(), m.Number, v.ID), g.api("/repos/%s/pulls/%d", r.fullName(), m.Number)
	o := object{
		"id": v.ID, "node_id": nodeID("PullRequestReview", v.ID), "user": g.user(v.Author), "body": v.Body, "state": v.State, "html_url": web,
		"pull_request_url": pr, "author_association": g.association(r, v.Author), "commit_id": v.SHA,
		"_links": object{"html": object{"href": web}, "pull_request": object{"href": pr}},
	}
	if v.State != Pending {
		o["submitted_at"] = moment(v.Submitted)
	}
	return o
}

func (g *github) app() object {
	h := g.h
	return object{
		"id": h.opt.AppID, "slug": h.slug(), "node_id": nodeID("App", h.opt.AppID), "client_id": "Iv1.fakehost", "owner": g.user(h.bot()),
		"name": h.slug(), "description": nil, "external_url": g.web("/apps/%s", h.slug()), "html_url": g.web("/apps/%s", h.slug()),
		"created_at": "2024-01-01T00:00:00Z", "updated_at": "2024-01-01T00:00:00Z", "permissions": g.h.opt.AppPermissions, "events": appEvents,
	}
}

// appOf is the app a check suite belongs to.
func (g *github) appOf(slug string) object {
	o := g.app()
	if slug != g.h.slug() {
		u := g.h.addUser(slug)
		o["id"], o["slug"], o["name"], o["owner"] = u.ID, slug, slug, g.user(u)
		o["html_url"], o["external_url"] = g.web("/apps/%s", slug), g.web("/apps/%s", slug)
	}
	return o
}

var appPermissions = map[string]string{
	"metadata": "read", "contents": "write", "pull_requests": "write", "issues": "write", "checks": "write", "statuses": "write",
	"actions": "read", "administration": "read",
}

var appEvents = []string{"issue_comment", "pull_request", "pull_request_review", "check_suite", "check_run", "status", "push", "workflow_run", "repository"}

func (g *github) installation(in *installation) object {
	var suspended any
	if in.Suspended {
		suspended = moment(in.Created)
	}
	return object{
		"id": in.ID, "account": g.user(in.Account), "app_id": g.h.opt.AppID, "app_slug": g.h.slug(), "client_id": "Iv1.fakehost",
		"target_id": in.Account.ID, "target_type": "User", "repository_selection": "selected", "permissions": g.h.opt.AppPermissions, "events": appEvents,
		"access_tokens_url": g.api("/app/installations/%d/access_tokens", in.ID), "repositories_url": g.api("/installation/repositories"),
		"html_url": g.web("/settings/installations/%d", in.ID), "created_at": moment(in.Created), "updated_at": moment(in.Created),
		"single_file_name": nil, "has_multiple_single_files": false, "single_file_paths": []string{}, "suspended_at": suspended, "suspended_by": nil,
	}
}

// pullsAt are the short references a check carries: open merge requests from
// this repository with that head; empty for heads outside it.
func (g *github) pullsAt(r *repository, sha string) []object {
	repo := object{"id": r.ID, "url": g.api("/repos/%s", r.fullName()), "name": r.Name}
	out := []object{}
	for _, m := range r.mrs() {
		if m.Open && !m.Fork && m.Head == sha {
			out = append(out, object{
				"id": m.ID, "number": m.Number, "url": g.api("/repos/%s/pulls/%d", r.fullName(), m.Number),
				"head": object{"ref": m.Branch, "sha": m.Head, "repo": repo}, "base": object{"ref": m.Base, "sha": m.BaseSHA, "repo": repo},
			})
		}
	}
	return out
}

func (g *github) suite(r *repository, s *suite) object {
	status, conclusion := s.state()
	api := g.api("/repos/%s/check-suites/%d", r.fullName(), s.ID)
	o := object{
		"id": s.ID, "node_id": nodeID("CheckSuite", s.ID), "head_branch": orNull(s.Branch), "head_sha": s.SHA, "status": status,
		"conclusion": orNull(conclusion), "url": api, "before": zeroSHA, "after": s.SHA, "pull_requests": g.pullsAt(r, s.SHA),
		"app": g.appOf(s.App), "created_at": moment(s.Created), "updated_at": moment(s.Updated), "rerequestable": true, "runs_rerequestable": true,
		"latest_check_runs_count": len(s.latest()), "check_runs_url": api + "/check-runs",
	}
	if c, err := g.h.commitAt(r, s.SHA); err == nil {
		o["head_commit"] = g.suiteCommit(c)
	}
	return o
}

func (g *github) check(r *repository, c *check) object {
	api := g.api("/repos/%s/check-runs/%d", r.fullName(), c.ID)
	web := g.web("/%s/runs/%d", r.fullName(), c.ID)
	return object{
		"id": c.ID, "node_id": nodeID("CheckRun", c.ID), "name": c.Name, "head_sha": c.SHA, "external_id": c.ExternalID, "url": api, "html_url": web,
		"details_url": orDefault(c.Link, web), "status": c.Status, "conclusion": orNull(c.Conclusion), "started_at": moment(c.Started),
		"completed_at": moment(c.Completed), "app": g.appOf(c.Suite.App), "check_suite": object{"id": c.Suite.ID}, "pull_requests": g.pullsAt(r, c.SHA),
		"output": object{
			"title": orNull(c.Title), "summary": orNull(c.Summary), "text": orNull(c.Text), "annotations_count": 0, "annotations_url": api + "/annotations",
		},
	}
}

func orDefault(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

func (g *github) status(r *repository, s *status) object {
	return object{
		"url": g.api("/repos/%s/statuses/%s", r.fullName(), s.SHA), "id": s.ID, "node_id": nodeID("StatusContext", s.ID), "state": s.State,
		"context": s.Context, "description": orNull(s.Description), "target_url": orNull(s.Link), "avatar_url": nil, "creator": g.user(s.Creator),
		"created_at": moment(s.Created), "updated_at": moment(s.Created),
	}
}

func (g *github) person(i ident) object {
	return object{"name": i.Name, "email": i.Email, "date": moment(i.When)}
}

// userOf finds the user behind a commit's e-mail address, as the host does.
func (g *github) userOf(i ident) *user {
	for _, u := range g.h.users {
		if u.email() == i.Email {
			return u
		}
	}
	return nil
}

var unverified = object{"verified": false, "reason": "unsigned", "signature": nil, "payload": nil, "verified_at": nil}

// gitCommit is a commit as REST answers it.
func (g *github) gitCommit(r *repository, c *commit) object {
	api, web := g.api("/repos/%s/commits/%s", r.fullName(), c.SHA), g.web("/%s/commit/%s", r.fullName(), c.SHA)
	parents := list(c.Parents, func(p string) object {
		return object{"sha": p, "url": g.api("/repos/%s/commits/%s", r.fullName(), p), "html_url": g.web("/%s/commit/%s", r.fullName(), p)}
	})
	return object{
		"sha": c.SHA, "node_id": nodeID("Commit:"+c.SHA, r.ID), "url": api, "html_url": web, "comments_url": api + "/comments",
		"author": g.user(g.userOf(c.Author)), "committer": g.user(g.userOf(c.Committer)), "parents": parents,
		"commit": object{
			"url": g.api("/repos/%s/git/commits/%s", r.fullName(), c.SHA), "author": g.person(c.Author), "committer": g.person(c.Committer),
			"message": c.Message, "comment_count": 0, "verification": unverified,
			"tree": object{"sha": c.Tree, "url": g.api("/repos/%s/git/trees/%s", r.fullName(), c.Tree)},
		},
	}
}

// suiteCommit is a commit as check suites carry it.
func (g *github) suiteCommit(c *commit) object {
	person := func(i ident) object { return object{"name": i.Name, "email": i.Email} }
	return object{
		"id": c.SHA, "tree_id": c.Tree, "message": c.Message, "timestamp": moment(c.Committer.When), "author": person(c.Author), "committer": person(c.Committer),
	}
}

// pushCommit is a commit as push webhooks carry it.
func (g *github) pushCommit(r *repository, c *commit) object {
	person := func(i ident) object {
		o := object{"name": i.Name, "email": i.Email, "date": moment(i.When)}
		if u := g.userOf(i); u != nil {
			o["username"] = u.Login
		}
		return o
	}
	return object{
		"id": c.SHA, "tree_id": c.Tree, "distinct": true, "message": c.Message, "timestamp": moment(c.Committer.When),
		"url": g.web("/%s/commit/%s", r.fullName(), c.SHA), "author": person(c.Author), "committer": person(c.Committer),
		"added": orEmpty(c.added), "removed": orEmpty(c.removed), "modified": orEmpty(c.modified),
	}
}
