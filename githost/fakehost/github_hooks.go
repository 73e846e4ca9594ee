package fakehost

import "strings"

// payload names an event as GitHub does and renders its webhook.
func (g *github) payload(e event) (name string, body object) {
	name, body = g.specific(e)
	if e.action != "" {
		body["action"] = e.action
	}
	body["sender"] = g.user(e.actor)
	if e.repo != nil && e.kind != onInstalled {
		if _, ok := body["repository"]; !ok {
			body["repository"] = g.repo(e.repo)
		}
		if in := g.h.installationOf(e.repo); in != nil {
			body["installation"] = object{"id": in.ID, "node_id": nodeID("IntegrationInstallation", in.ID)}
		}
	}
	return name, body
}

func (g *github) specific(e event) (string, object) {
	switch e.kind {
	case onPush:
		return "push", g.pushPayload(e)
	case onMR:
		return "pull_request", g.pullPayload(e)
	case onReview:
		v := g.review(e.repo, e.mr, e.review)
		// Webhooks write review states in lower case.
		v["state"] = strings.ToLower(e.review.State)
		v["updated_at"] = moment(e.mr.Updated)
		return "pull_request_review", object{"review": v, "pull_request": g.shortPull(e.repo, e.mr)}
	case onComment:
		o := object{"issue": g.hookIssue(e.repo, e.thread), "comment": g.comment(e.repo, e.comment)}
		if e.action == "edited" {
			o["changes"] = object{"body": object{"from": e.from}}
		}
		return "issue_comment", o
	case onIssue:
		return "issues", object{"issue": g.hookIssue(e.repo, e.thread)}
	case onCheck:
		c := g.check(e.repo, e.check)
		c["check_suite"] = g.suiteOfRun(e.repo, e.check.Suite)
		return "check_run", object{"check_run": c}
	case onSuite:
		return "check_suite", object{"check_suite": g.suite(e.repo, e.suite)}
	case onStatus:
		return "status", g.statusPayload(e)
	case onRepository:
		o := object{}
		switch e.action {
		case "renamed":
			o["changes"] = object{"repository": object{"name": object{"from": e.from}}}
		case "transferred":
			o["changes"] = object{"owner": object{"from": object{"user": g.user(g.h.addUser(e.from))}}}
		}
		return "repository", o
	case onWorkflow:
		return "workflow_run", object{"workflow": g.workflow(e.repo), "workflow_run": g.workflowRun(e.repo, e.suite)}
	case onInstall:
		return "installation", object{"installation": g.installation(e.installation), "repositories": list(e.repos, g.installedRepo), "requester": nil}
	case onInstalled:
		added, removed := []object{}, []object{}
		if e.action == "added" {
			added = list(e.repos, g.installedRepo)
		} else {
			removed = list(e.repos, g.installedRepo)
		}
		return "installation_repositories", object{
			"installation": g.installation(e.installation), "repositories_added": added, "repositories_removed": removed,
			"repository_selection": "selected", "requester": nil,
		}
	default:
		return "ping", g.pingPayload()
	}
}

// hookIssue is an issue as webhooks carry it: they do not say who closed it.
func (g *github) hookIssue(r *repository, t *thread) object {
	o := g.issue(r, t)
	delete(o, "closed_by")
	return o
}

// suiteOfRun is a check suite as the webhook of one of its runs carries it.
func (g *github) suiteOfRun(r *repository, s *suite) object {
	o := g.suite(r, s)
	for _, key := range []string{"head_commit", "rerequestable", "runs_rerequestable", "latest_check_runs_count", "check_runs_url"} {
		delete(o, key)
	}
	return o
}

func (g *github) installedRepo(r *repository) object {
	return object{"id": r.ID, "node_id": nodeID("Repository", r.ID), "name": r.Name, "full_name": r.fullName(), "private": r.Private}
}

func (g *github) pullPayload(e event) object {
	pr := g.fullPull(e.repo, e.mr, false)
	// The repository inside carries its merge settings here.
	for _, side := range []string{"head", "base"} {
		repo := pr[side].(object)["repo"].(object)
		repo["allow_merge_commit"], repo["allow_squash_merge"], repo["allow_rebase_merge"] = e.repo.AllowMerge, e.repo.AllowSquash, false
		repo["allow_auto_merge"], repo["allow_update_branch"], repo["delete_branch_on_merge"] = false, false, e.repo.DeleteOnMerge
		repo["merge_commit_title"], repo["merge_commit_message"] = "MERGE_MESSAGE", "PR_TITLE"
		repo["squash_merge_commit_title"], repo["squash_merge_commit_message"] = "COMMIT_OR_PR_TITLE", "COMMIT_MESSAGES"
		repo["use_squash_pr_title_as_default"] = false
	}
	o := object{"number": e.mr.Number, "pull_request": pr}
	switch e.action {
	case "synchronize":
		o["before"], o["after"] = e.before, e.after
	case "edited":
		o["changes"] = object{"base": object{"ref": object{"from": e.from}, "sha": object{"from": e.fromSHA}}}
	}
	return o
}

func (g *github) pushPayload(e event) object {
	r := e.repo
	repo := g.repo(r)
	// In push payloads alone, times of the repository are Unix seconds and the
	// owner has a name.
	repo["created_at"], repo["pushed_at"] = r.Created.Unix(), r.Updated.Unix()
	repo["master_branch"], repo["stargazers"] = r.DefaultBranch, 0
	owner := g.user(r.Owner).(object)
	owner["name"], owner["email"] = r.Owner.Login, r.Owner.email()
	repo["owner"] = owner
	o := object{
		"ref": e.ref, "before": e.before, "after": e.after, "created": e.before == zeroSHA, "deleted": e.after == zeroSHA, "forced": e.forced,
		"base_ref": nil, "compare": g.web("/%s/compare/%.12s...%.12s", r.fullName(), e.before, e.after), "head_commit": nil,
		"commits": list(e.commits, func(c *commit) object { return g.pushCommit(r, c) }), "repository": repo,
		"pusher": object{"name": e.actor.Login, "email": e.actor.email()},
	}
	if e.head != nil {
		o["head_commit"] = g.pushCommit(r, e.head)
	}
	return o
}

func (g *github) statusPayload(e event) object {
	s, r := e.status, e.repo
	branches := []object{}
	for _, b := range sortedKeys(r.branches) {
		if r.branches[b] == s.SHA {
			branches = append(branches, object{
				"name": b, "protected": false, "commit": object{"sha": s.SHA, "url": g.api("/repos/%s/commits/%s", r.fullName(), s.SHA)},
			})
		}
	}
	o := object{
		"id": s.ID, "sha": s.SHA, "name": r.fullName(), "state": s.State, "context": s.Context, "description": orNull(s.Description),
		"target_url": orNull(s.Link), "avatar_url": nil, "branches": branches, "created_at": moment(s.Created), "updated_at": moment(s.Created),
	}
	if c, err := g.h.commitAt(r, s.SHA); err == nil {
		o["commit"] = g.gitCommit(r, c)
	}
	return o
}

func (g *github) pingPayload() object {
	id := 1000 + g.h.opt.AppID
	return object{
		"zen": "Keep it logically awesome.", "hook_id": id,
		"hook": object{
			"type": "App", "id": id, "name": "web", "active": true, "events": appEvents, "app_id": g.h.opt.AppID,
			"config":     object{"content_type": "json", "insecure_ssl": "0", "url": g.h.opt.WebhookURL},
			"created_at": "2024-01-01T00:00:00Z", "updated_at": "2024-01-01T00:00:00Z",
		},
	}
}
