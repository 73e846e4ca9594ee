package fakehost

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const hookMoment = "2006-01-02 15:04:05 UTC"

func hookTime(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(hookMoment)
}

// emit follows an event and sends it to every hook that wants it.
func (g *gitlab) emit(e event) {
	if e.action == "dismissed" {
		e.actor = e.review.Author // nobody takes back another's approval
	}
	if e.kind == onStatus && g.statusOf(e.repo, e.status.gl.pipeline) == "success" {
		defer g.autoMerged(e.repo, e.status.gl.pipeline)
	}
	g.follow(e)
	if e.repo == nil {
		return
	}
	kind, name, payload := g.payload(e)
	if name == "" {
		return
	}
	if o, ok := payload["object_attributes"].(object); ok {
		e.action, _ = o["action"].(string)
	}
	cause := guid(g.h.nextID())
	for _, k := range e.repo.gl.hooks {
		if k.wants(e.repo, kind) {
			d := g.h.record(e, name, payload)
			d.hook, d.eventID = k, cause
			g.h.dispatch(d)
		}
	}
}

// follow keeps what a GitLab remembers of an event: the versions of a merge
// request and the notes its system writes.
func (g *gitlab) follow(e event) {
	m := e.mr
	if m == nil {
		return
	}
	now := g.at()
	if e.action == "submitted" {
		e.review.Submitted = now
	}
	say := func(format string, args ...any) {
		c := &comment{ID: g.h.nextID(), Thread: m.thread, Author: e.actor, Body: fmt.Sprintf(format, args...), Created: now, Updated: now}
		m.gl.notes = append(m.gl.notes, c)
	}
	moved := func() {
		m.gl.versions = append(m.gl.versions, version{id: g.h.nextID(), base: m.BaseSHA, head: m.Head, created: now})
		m.gl.transient = slices.Clone(g.set.Transient)
	}
	switch e.action {
	case "opened":
		if m.Fork {
			m.gl.fork = g.h.nextID()
		}
		moved()
	case "synchronize":
		m.gl.auto = nil
		moved()
		say("added commits\n\n[Compare with previous version](%s/diffs)", g.mrURL(e.repo, m))
	case "edited":
		moved()
		say("changed target branch from `%s` to `%s`", e.from, m.Base)
	case "converted_to_draft":
		say("marked this merge request as **draft**")
	case "ready_for_review":
		say("marked this merge request as **ready**")
	case "closed":
		say("%s", m.stateGL())
	case "reopened":
		say("reopened")
	case "submitted":
		switch e.review.State {
		case Approved:
			say("approved this merge request")
		case ChangesRequested:
			say("requested changes")
		}
	case "dismissed":
		say("unapproved this merge request")
	case "reset":
		say("reset approvals from the approvers by pushing to the branch")
	}
}

// payload is an event on the wire: what a hook must want to be sent it, its
// X-Gitlab-Event and its body. A name of "" means that a GitLab tells nobody.
func (g *gitlab) payload(e event) (kind, name string, body object) {
	switch e.kind {
	case onPush:
		if g.wide {
			return "", "", nil
		}
		return hookPush, "Push Hook", g.pushPayload(e)
	case onComment:
		if body = g.notePayload(e); body != nil {
			return hookNote, "Note Hook", body
		}
	case onMR, onReview:
		if body = g.mrPayload(e); body != nil {
			return hookMR, "Merge Request Hook", body
		}
	case onStatus:
		p := e.status.gl.pipeline
		if status := g.statusOf(e.repo, p); status != p.told {
			p.told = status
			return hookPipeline, "Pipeline Hook", g.pipelinePayload(e, p)
		}
	}
	return "", "", nil
}

func (g *gitlab) hookUser(u *user) object {
	return object{"id": u.ID, "name": u.name(), "username": u.Login, "avatar_url": nil, "email": "[REDACTED]"}
}

func (g *gitlab) hookProject(r *repository) object {
	url, level := g.web("/%s", r.fullName()), 20
	if r.Private {
		level = 0
	}
	return object{
		"id": r.ID, "name": r.Name, "description": nil, "web_url": url, "avatar_url": nil, "git_ssh_url": g.simpleProject(r)["ssh_url_to_repo"],
		"git_http_url": url + ".git", "namespace": r.Owner.Login, "visibility_level": level, "path_with_namespace": r.fullName(),
		"default_branch": r.DefaultBranch, "ci_config_path": nil, "homepage": url, "url": g.simpleProject(r)["ssh_url_to_repo"],
		"ssh_url": g.simpleProject(r)["ssh_url_to_repo"], "http_url": url + ".git",
	}
}

func (g *gitlab) hookRepository(r *repository) object {
	return object{"name": r.Name, "url": g.simpleProject(r)["ssh_url_to_repo"], "description": nil, "homepage": g.web("/%s", r.fullName())}
}

func (g *gitlab) hookCommit(r *repository, sha string) any {
	c, err := g.h.commitAt(r, sha)
	if err != nil {
		return nil
	}
	title, _, _ := strings.Cut(c.Message, "\n")
	return object{
		"id": c.SHA, "message": c.Message, "title": title, "timestamp": c.Committer.When.UTC().Format(time.RFC3339), "url": g.web("/%s/-/commit/%s", r.fullName(), c.SHA),
		"author": object{"name": c.Author.Name, "email": c.Author.Email},
	}
}

func (g *gitlab) pushPayload(e event) object {
	r := e.repo
	commits := []object{}
	for _, c := range e.commits {
		o, _ := g.hookCommit(r, c.SHA).(object)
		o["added"], o["modified"], o["removed"] = paths(c.added), paths(c.modified), paths(c.removed)
		commits = append(commits, o)
	}
	checkout := any(e.after)
	if e.after == zeroSHA {
		checkout = nil
	}
	return object{
		"object_kind": "push", "event_name": "push", "before": e.before, "after": e.after, "ref": e.ref, "ref_protected": r.gl.protected[strings.TrimPrefix(e.ref, "refs/heads/")] != Protection{},
		"checkout_sha": checkout, "message": nil, "user_id": e.actor.ID, "user_name": e.actor.name(), "user_username": e.actor.Login, "user_email": nil, "user_avatar": nil,
		"project_id": r.ID, "project": g.hookProject(r), "commits": commits, "total_commits_count": len(commits), "push_options": object{}, "repository": g.hookRepository(r),
	}
}

func paths(list []string) []string { return append([]string{}, list...) }

// mrAttributes are a merge request as webhooks show it.
func (g *gitlab) mrAttributes(r *repository, m *mergeRequest) object {
	status, err := g.mergeStatus(r, m)
	if err != nil {
		status = "checking"
	}
	merge := any(nil)
	if m.Merged {
		merge = m.MergeSHA
	}
	head := any(nil)
	if p := g.headPipeline(r, m); p != nil {
		head = p.ID
	}
	return object{
		"id": m.ID, "iid": m.Number, "target_branch": m.Base, "source_branch": m.Branch, "source_project_id": m.sourceProject(r), "target_project_id": r.ID,
		"author_id": m.Author.ID, "assignee_id": nil, "assignee_ids": []any{}, "reviewer_ids": []any{}, "title": m.titleGL(), "description": m.Body,
		"created_at": hookTime(m.Created), "updated_at": hookTime(m.Updated), "last_edited_at": nil, "last_edited_by_id": nil, "milestone_id": nil,
		"state": m.stateGL(), "state_id": map[string]int{"opened": 1, "closed": 2, "merged": 3}[m.stateGL()],
		"merge_status": legacyStatus(status), "detailed_merge_status": status, "merge_error": nil, "merge_params": object{"force_remove_source_branch": "0"},
		"merge_when_pipeline_succeeds": m.gl.auto != nil, "merge_user_id": nil, "merge_commit_sha": merge, "head_pipeline_id": head,
		"url": g.mrURL(r, m), "source": g.hookProject(r), "target": g.hookProject(r), "last_commit": g.hookCommit(r, m.Head),
		"draft": m.Draft, "work_in_progress": m.Draft, "blocking_discussions_resolved": true, "first_contribution": false, "labels": []any{},
		"time_estimate": 0, "total_time_spent": 0, "time_change": 0, "human_time_estimate": nil, "human_total_time_spent": nil, "human_time_change": nil,
		"prepared_at": hookTime(m.Created), "updated_by_id": nil,
	}
}

// mrPayload says what was done to a merge request; nil when a GitLab does not.
func (g *gitlab) mrPayload(e event) object {
	m := e.mr
	o := g.mrAttributes(e.repo, m)
	changes := object{}
	change := func(name string, from, to any) { changes[name] = object{"previous": from, "current": to} }
	switch {
	case e.kind == onReview:
		action := g.vote(e)
		if action == "" {
			return nil
		}
		o["action"] = action
		if e.action == "reset" {
			o["system"], o["system_action"] = true, "approvals_reset_on_push"
		}
	case e.action == "opened":
		o["action"] = "open"
		if o["merge_status"] != "preparing" && len(m.gl.transient) == 0 {
			o["merge_status"], o["detailed_merge_status"] = "checking", "checking"
		}
		change("merge_status", "preparing", "checking")
	case e.action == "synchronize":
		o["action"], o["oldrev"] = "update", e.before
	case e.action == "edited":
		o["action"] = "update"
		change("target_branch", e.from, m.Base)
	case e.action == "changed":
		o["action"] = "update"
		maps.Copy(changes, e.changes)
	case e.action == "converted_to_draft", e.action == "ready_for_review":
		o["action"] = "update"
		other := *m
		other.Draft = !m.Draft
		change("title", other.titleGL(), m.titleGL())
		change("draft", !m.Draft, m.Draft)
	case e.action == "closed" && m.Merged:
		o["action"] = "merge"
		change("state_id", 4, 3)
		change("updated_at", hookTime(m.Updated), hookTime(m.Updated))
	case e.action == "closed":
		o["action"] = "close"
		change("state_id", 1, 2)
	case e.action == "reopened":
		o["action"] = "reopen"
		change("state_id", 2, 1)
	default:
		return nil
	}
	return object{
		"object_kind": "merge_request", "event_type": "merge_request", "user": g.hookUser(e.actor), "project": g.hookProject(e.repo),
		"repository": g.hookRepository(e.repo), "object_attributes": o, "labels": []any{}, "changes": changes, "assignees": []any{}, "reviewers": []any{},
	}
}

// vote tells an approval that decides (approved, unapproved) from one that does
// not (approval, unapproval). Without a rule every one decides.
func (g *gitlab) vote(e event) string {
	required := e.repo.rules[e.mr.Base].RequiredApprovals
	if g.set.Free {
		required = 0
	}
	left := g.left(e.repo, e.mr)
	switch {
	case e.action == "submitted" && e.review.State == Approved:
		if required == 0 || left == 0 {
			return "approved"
		}
		return "approval"
	case e.action == "reset":
		return "unapproved"
	case e.action == "dismissed":
		if required == 0 || left == 1 {
			return "unapproved"
		}
		return "unapproval"
	}
	return ""
}

// notePayload is a note on a merge request or issue. A deleted one is told to
// nobody.
func (g *gitlab) notePayload(e event) object {
	c, r := e.comment, e.repo
	action := map[string]string{"created": "create", "edited": "update"}[e.action]
	if action == "" {
		return nil
	}
	o := object{
		"id": c.ID, "note": c.Body, "noteable_type": "MergeRequest", "author_id": c.Author.ID, "created_at": hookTime(c.Created), "updated_at": hookTime(c.Updated),
		"project_id": r.ID, "attachment": nil, "line_code": nil, "commit_id": "", "noteable_id": e.thread.ID, "system": false, "st_diff": nil, "type": nil,
		"discussion_id": strings.ReplaceAll(guid(c.ID), "-", ""), "description": c.Body, "position": nil, "original_position": nil, "resolved_at": nil,
		"resolved_by_id": nil, "resolved_by_push": nil, "change_position": nil, "updated_by_id": nil, "internal": false, "action": action,
	}
	body := object{
		"object_kind": "note", "event_type": "note", "user": g.hookUser(e.actor), "project_id": r.ID, "project": g.hookProject(r),
		"object_attributes": o, "repository": g.hookRepository(r),
	}
	if m := e.thread.mr; m != nil {
		o["noteable_id"], o["url"] = m.ID, fmt.Sprintf("%s#note_%d", g.mrURL(r, m), c.ID)
		body["merge_request"] = g.mrAttributes(r, m)
		return body
	}
	t := e.thread
	o["noteable_type"], o["url"] = "Issue", g.web("/%s/-/issues/%d#note_%d", r.fullName(), t.Number, c.ID)
	body["issue"] = object{
		"id": t.ID, "iid": t.Number, "title": t.Title, "description": t.Body, "author_id": t.Author.ID, "project_id": r.ID, "state": "opened",
		"created_at": hookTime(t.Created), "updated_at": hookTime(t.Updated), "labels": []any{}, "confidential": false,
	}
	return body
}

func (g *gitlab) pipelinePayload(e event, p *pipeline) object {
	r := e.repo
	status := g.statusOf(r, p)
	finished := any(nil)
	if status != "pending" && status != "running" {
		finished = hookTime(p.Updated)
	}
	builds := []object{}
	for _, s := range g.statuses(r, p) {
		if s.Creator.Login == ciApp {
			builds = append(builds, object{
				"id": s.ID, "stage": "test", "name": s.Context, "status": s.wordGL(), "created_at": hookTime(s.Created), "started_at": hookTime(s.Created),
				"finished_at": finished, "duration": nil, "queued_duration": 0.5, "failure_reason": nil, "when": "on_success", "manual": false, "allow_failure": false,
				"user": g.hookUser(s.Creator), "runner": nil, "artifacts_file": object{"filename": nil, "size": nil}, "environment": nil,
			})
		}
	}
	body := object{
		"object_kind": "pipeline", "merge_request": nil, "user": g.hookUser(p.User), "project": g.hookProject(r), "commit": g.hookCommit(r, p.SHA), "builds": builds,
		"object_attributes": object{
			"id": p.ID, "iid": p.IID, "name": nil, "ref": p.Ref, "tag": false, "sha": p.SHA, "before_sha": zeroSHA, "source": p.Source, "status": status,
			"detailed_status": status, "stages": []string{"test"}, "created_at": hookTime(p.Created), "finished_at": finished, "duration": nil, "queued_duration": nil,
			"variables": []any{}, "url": g.web("/%s/-/pipelines/%d", r.fullName(), p.ID),
		},
	}
	for _, m := range r.mrs() {
		if m.Open && p.Ref == g.h.mrRef(m.Number, "head") {
			body["merge_request"] = object{
				"id": m.ID, "iid": m.Number, "title": m.titleGL(), "source_branch": m.Branch, "source_project_id": m.sourceProject(r), "target_branch": m.Base,
				"target_project_id": r.ID, "state": m.stateGL(), "merge_status": "can_be_merged", "detailed_merge_status": "mergeable", "url": g.mrURL(r, m),
			}
		}
	}
	return body
}
