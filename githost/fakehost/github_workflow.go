package fakehost

// workflow is the one workflow of a repository, which the fake CI app runs.
func (g *github) workflow(r *repository) object {
	api, path := g.api("/repos/%s/actions/workflows/%d", r.fullName(), r.ID), ".github/workflows/ci.yml"
	return object{
		"id": r.ID, "node_id": nodeID("Workflow", r.ID), "name": "ci", "path": path, "state": "active", "url": api,
		"created_at": moment(r.Created), "updated_at": moment(r.Created), "badge_url": g.web("/%s/workflows/ci/badge.svg", r.fullName()),
		"html_url": g.web("/%s/blob/%s/%s", r.fullName(), r.DefaultBranch, path),
	}
}

// workflowRun is the run of the workflow that a check suite belongs to.
func (g *github) workflowRun(r *repository, s *suite) object {
	status, conclusion := s.state()
	api, w := g.api("/repos/%s/actions/runs/%d", r.fullName(), s.ID), g.workflow(r)
	actor, pulls := g.user(r.Owner), g.pullsAt(r, s.SHA)
	o := object{
		"id": s.ID, "node_id": nodeID("WorkflowRun", s.ID), "name": "ci", "path": w["path"], "display_title": "ci", "event": "push",
		"head_branch": orNull(s.Branch), "head_sha": s.SHA, "run_number": 1, "run_attempt": 1, "status": status, "conclusion": orNull(conclusion),
		"workflow_id": w["id"], "workflow_url": w["url"], "check_suite_id": s.ID, "check_suite_node_id": nodeID("CheckSuite", s.ID),
		"check_suite_url": g.api("/repos/%s/check-suites/%d", r.fullName(), s.ID), "url": api, "html_url": g.web("/%s/actions/runs/%d", r.fullName(), s.ID),
		"jobs_url": api + "/jobs", "logs_url": api + "/logs", "artifacts_url": api + "/artifacts", "cancel_url": api + "/cancel", "rerun_url": api + "/rerun",
		"previous_attempt_url": nil, "pull_requests": pulls, "actor": actor, "triggering_actor": actor, "referenced_workflows": []object{},
		"created_at": moment(s.Created), "updated_at": moment(s.Updated), "run_started_at": moment(s.Created),
		"repository": g.smallRepo(r), "head_repository": g.smallRepo(r),
	}
	if c, err := g.h.commitAt(r, s.SHA); err == nil {
		k := g.pushCommit(r, c)
		o["head_commit"] = object{
			"id": k["id"], "tree_id": k["tree_id"], "message": k["message"], "timestamp": k["timestamp"], "author": k["author"], "committer": k["committer"],
		}
	}
	return o
}

// smallRepo is a repository as it appears inside other objects: who it is and its addresses.
func (g *github) smallRepo(r *repository) object {
	all, o := g.repo(r), object{}
	for _, k := range []string{"id", "node_id", "name", "full_name", "private", "owner", "html_url", "description", "fork", "url"} {
		o[k] = all[k]
	}
	for _, l := range repoLinks {
		o[l[0]] = all[l[0]]
	}
	return o
}
