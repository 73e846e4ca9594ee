package fakehost

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

const glMoment = "2006-01-02T15:04:05.000Z"

func glTime(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(glMoment)
}

func (g *gitlab) web(format string, args ...any) string {
	return g.h.opt.BaseURL + fmt.Sprintf(format, args...)
}

func (g *gitlab) user(u *user) any {
	if u == nil {
		return nil
	}
	return object{
		"id": u.ID, "username": u.Login, "name": u.name(), "state": "active", "locked": false, "avatar_url": nil, "web_url": g.web("/%s", u.Login),
	}
}

// account is a user as its own page shows it.
func (g *gitlab) account(u *user) object {
	o := g.user(u).(object)
	o["bot"], o["created_at"], o["public_email"], o["work_information"] = u.Bot, nil, "", nil
	return o
}

func (g *gitlab) simpleProject(r *repository) object {
	namespace := r.Owner.Login
	return object{
		"id": r.ID, "description": nil, "name": r.Name, "name_with_namespace": strings.ReplaceAll(r.fullName(), "/", " / "),
		"path": r.Name, "path_with_namespace": r.fullName(), "created_at": glTime(r.Created), "default_branch": r.DefaultBranch,
		"tag_list": []string{}, "topics": []string{}, "ssh_url_to_repo": "git@" + strings.TrimPrefix(strings.TrimPrefix(g.h.opt.BaseURL, "https://"), "http://") + ":" + r.fullName() + ".git",
		"http_url_to_repo": g.web("/%s.git", r.fullName()), "web_url": g.web("/%s", r.fullName()), "readme_url": nil,
		"forks_count": 0, "avatar_url": nil, "star_count": 0, "last_activity_at": glTime(r.Updated),
		"namespace": object{
			"id": r.Owner.ID, "name": path.Base(namespace), "path": path.Base(namespace), "kind": "group", "full_path": namespace,
			"parent_id": nil, "avatar_url": nil, "web_url": g.web("/groups/%s", namespace),
		},
	}
}

func (g *gitlab) fullProject(r *repository, who *user) object {
	o := g.simpleProject(r)
	visibility := "public"
	if r.Private {
		visibility = "private"
	}
	access := func(level int) any {
		if level == 0 {
			return nil
		}
		return object{"access_level": level, "notification_level": 3}
	}
	maps.Copy(o, object{
		"archived": r.Archived, "visibility": visibility, "empty_repo": false, "issues_enabled": true, "merge_requests_enabled": true, "jobs_enabled": true,
		"creator_id": r.Owner.ID, "import_status": "none", "merge_method": r.gl.MergeMethod, "squash_option": r.gl.SquashOption,
		"only_allow_merge_if_pipeline_succeeds":            g.wantsPipeline(r, r.DefaultBranch),
		"allow_merge_on_skipped_pipeline":                  r.gl.SkippedIsFine,
		"only_allow_merge_if_all_discussions_are_resolved": false,
		"remove_source_branch_after_merge":                 r.DeleteOnMerge,
		"merge_requests_access_level":                      "enabled",
		"repository_access_level":                          "enabled",
		"builds_access_level":                              "enabled",
		"permissions":                                      object{"project_access": access(g.level(r, who)), "group_access": nil},
		"_links":                                           object{"self": g.web("%s/projects/%d", gitlabAPI, r.ID)},
	})
	if !g.set.Free {
		o["merge_pipelines_enabled"], o["merge_trains_enabled"], o["merge_trains_skip_train_allowed"] = r.gl.MergeTrains, r.gl.MergeTrains, false
		o["approvals_before_merge"] = 0
	}
	return o
}

// title carries the draft flag, as it does on a GitLab.
func (m *mergeRequest) titleGL() string {
	if m.Draft {
		return "Draft: " + m.Title
	}
	return m.Title
}

var draftPrefixes = []string{"draft:", "[draft]", "(draft)"}

func splitDraft(title string) (string, bool) {
	for _, p := range draftPrefixes {
		if len(title) >= len(p) && strings.EqualFold(title[:len(p)], p) {
			return strings.TrimSpace(title[len(p):]), true
		}
	}
	return title, false
}

func (m *mergeRequest) stateGL() string {
	switch {
	case m.Open:
		return "opened"
	case m.Merged:
		return "merged"
	}
	return "closed"
}

// sourceProject is where the head comes from: nil once a fork is gone.
func (m *mergeRequest) sourceProject(r *repository) any {
	switch {
	case !m.Fork:
		return r.ID
	case m.gl.forkGone:
		return nil
	}
	return m.gl.fork
}

// merger is who merged a merge request.
func (m *mergeRequest) merger() *user {
	if m.Merged {
		return m.MergedBy
	}
	return nil
}

func (m *mergeRequest) closer() *user {
	if m.Open || m.Merged {
		return nil
	}
	return m.ClosedBy
}

// shortMR is a merge request in a list: nothing is computed for it.
func (g *gitlab) shortMR(r *repository, m *mergeRequest, status string) object {
	closed := m.ClosedAt
	if m.Merged {
		closed = time.Time{}
	}
	merge := any(nil)
	if m.Merged && m.MergeSHA != m.Head {
		merge = m.MergeSHA // ff leaves no merge commit
	}
	return object{
		"id": m.ID, "iid": m.Number, "project_id": r.ID, "title": m.titleGL(), "description": m.Body, "state": m.stateGL(),
		"created_at": glTime(m.Created), "updated_at": glTime(m.Updated), "merged_by": g.user(m.merger()), "merge_user": g.user(m.merger()),
		"merged_at": glTime(m.MergedAt), "closed_by": g.user(m.closer()), "closed_at": glTime(closed),
		"target_branch": m.Base, "source_branch": m.Branch, "user_notes_count": len(r.commentsOn(m.Number)), "upvotes": 0, "downvotes": 0,
		"author": g.user(m.Author), "assignees": []any{}, "assignee": nil, "reviewers": []any{},
		"source_project_id": m.sourceProject(r), "target_project_id": r.ID, "labels": []string{}, "draft": m.Draft, "work_in_progress": m.Draft,
		"milestone": nil, "merge_when_pipeline_succeeds": m.gl.auto != nil, "merge_status": legacyStatus(status), "detailed_merge_status": status,
		"sha": m.Head, "merge_commit_sha": merge, "squash_commit_sha": orNull(m.gl.squashSHA), "discussion_locked": nil,
		"should_remove_source_branch": nil, "force_remove_source_branch": r.DeleteOnMerge, "prepared_at": glTime(m.Created),
		"reference":  fmt.Sprintf("!%d", m.Number),
		"references": object{"short": fmt.Sprintf("!%d", m.Number), "relative": fmt.Sprintf("!%d", m.Number), "full": fmt.Sprintf("%s!%d", r.fullName(), m.Number)},
		"web_url":    g.mrURL(r, m), "squash": m.gl.squash, "squash_on_merge": g.squashes(r, m), "has_conflicts": status == "conflict",
		"blocking_discussions_resolved": true, "approvals_before_merge": nil,
		"task_completion_status": object{"count": 0, "completed_count": 0},
		"time_stats":             object{"time_estimate": 0, "total_time_spent": 0, "human_time_estimate": nil, "human_total_time_spent": nil},
	}
}

func (g *gitlab) mrURL(r *repository, m *mergeRequest) string {
	return g.web("/%s/-/merge_requests/%d", r.fullName(), m.Number)
}

// legacyStatus is merge_status, which the detailed one replaced.
func legacyStatus(status string) string {
	switch status {
	case "unchecked", "checking", "preparing":
		return status
	case "conflict", "commits_status", "not_open":
		return "cannot_be_merged"
	}
	return "can_be_merged"
}

// fullMR is a merge request read by itself; unknown leaves its mergeability out.
func (g *gitlab) fullMR(r *repository, m *mergeRequest, who *user, unknown bool) (object, error) {
	status, err := g.look(r, m)
	if err != nil {
		return nil, err
	}
	if unknown && m.Open {
		status = "checking"
	}
	o := g.shortMR(r, m, status)
	o["subscribed"], o["changes_count"], o["rebase_in_progress"], o["merge_error"] = false, strconv.Itoa(m.files), false, nil
	o["latest_build_started_at"], o["latest_build_finished_at"], o["first_deployed_to_production_at"], o["first_contribution"] = nil, nil, nil, false
	o["diff_refs"] = object{"base_sha": m.BaseSHA, "head_sha": m.Head, "start_sha": m.BaseSHA}
	o["user"] = object{"can_merge": g.mayMergeInto(r, m.Base, who)}
	o["pipeline"], o["head_pipeline"] = nil, nil
	if p := g.headPipeline(r, m); p != nil && !g.set.LateHeadPipeline {
		o["pipeline"], o["head_pipeline"] = g.pipeline(r, p), g.fullPipeline(r, p)
	}
	return o, nil
}

func (g *gitlab) note(r *repository, m *mergeRequest, c *comment, system bool) object {
	return object{
		"id": c.ID, "type": nil, "body": c.Body, "author": g.user(c.Author), "created_at": glTime(c.Created), "updated_at": glTime(c.Updated),
		"system": system, "noteable_id": m.ID, "noteable_type": "MergeRequest", "project_id": r.ID, "resolvable": false, "confidential": false,
		"internal": false, "imported": false, "imported_from": "none", "noteable_iid": m.Number, "commands_changes": object{}, "attachment": nil,
	}
}

func (g *gitlab) emoji(c *comment, x *reaction) object {
	return object{
		"id": x.ID, "name": x.Content, "user": g.user(x.User), "created_at": glTime(x.Created), "updated_at": glTime(x.Created),
		"awardable_id": c.ID, "awardable_type": "Note", "url": nil,
	}
}

func (g *gitlab) commit(r *repository, c *commit) object {
	title, _, _ := strings.Cut(c.Message, "\n")
	return object{
		"id": c.SHA, "short_id": c.SHA[:8], "created_at": glTime(c.Committer.When), "parent_ids": slices.Clone(c.Parents), "title": title, "message": c.Message,
		"author_name": c.Author.Name, "author_email": c.Author.Email, "authored_date": glTime(c.Author.When),
		"committer_name": c.Committer.Name, "committer_email": c.Committer.Email, "committed_date": glTime(c.Committer.When),
		"trailers": object{}, "extended_trailers": object{}, "web_url": g.web("/%s/-/commit/%s", r.fullName(), c.SHA),
	}
}
