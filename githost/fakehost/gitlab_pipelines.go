package fakehost

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// pipeline groups the statuses of one commit on one ref. CI's own job and
// statuses written by others are the same kind of thing, and a status that finds
// no pipeline makes one.
type pipeline struct {
	ID      int64
	IID     int
	SHA     string
	Ref     string
	Source  string // push, merge_request_event or external
	User    *user
	Created time.Time
	Updated time.Time
	told    string // the status last sent as a webhook
}

// gitlabStatus is what only a GitLab knows of a commit status.
type gitlabStatus struct {
	pipeline *pipeline
	ref      string
	word     string // its state in GitLab's words
}

func (s *status) wordGL() string {
	switch {
	case s.gl.word != "":
		return s.gl.word
	case s.State == "failure":
		return "failed"
	case s.State == "error":
		return "canceled"
	case s.State == "pending" && s.Creator.Login == ciApp:
		return "running"
	}
	return s.State
}

func (g *gitlab) newPipeline(r *repository, sha, ref, source string, u *user) *pipeline {
	r.gl.lastPipeline++
	p := &pipeline{ID: g.h.nextID(), IID: r.gl.lastPipeline, SHA: sha, Ref: ref, Source: source, User: u, Created: g.h.now(), Updated: g.h.now()}
	r.gl.pipelines = append(r.gl.pipelines, p)
	return p
}

// startPipeline makes the pipeline of a CI run.
func (g *gitlab) startPipeline(r *repository, run *ciRun, style string) {
	ref, source := run.Branch, "push"
	if style == "merge_request" {
		for _, m := range r.mrs() {
			if m.Open && m.Branch == run.Branch && m.Head == run.SHA {
				ref, source = g.h.mrRef(m.Number, "head"), "merge_request_event"
			}
		}
	}
	run.pipeline = g.newPipeline(r, run.SHA, ref, source, g.h.addUser(ciApp))
}

// attach puts a status into a pipeline: the newest of its commit and ref. One
// that still runs is changed in place, so it keeps its id.
func (g *gitlab) attach(r *repository, s *status) {
	if s.gl.pipeline == nil {
		for _, p := range r.gl.pipelines {
			if p.SHA == s.SHA && (s.gl.ref == "" || p.Ref == s.gl.ref) {
				s.gl.pipeline = p
			}
		}
	}
	if s.gl.pipeline == nil {
		s.gl.pipeline = g.newPipeline(r, s.SHA, cmp.Or(s.gl.ref, g.refOf(r, s.SHA)), "external", s.Creator)
	}
	s.gl.pipeline.Updated = g.h.now()
	if old := g.running(r, s.gl.pipeline, s); old != nil {
		s.ID, s.Created = old.ID, old.Created
	}
}

// refOf is a branch whose tip a commit is, or the default branch.
func (g *gitlab) refOf(r *repository, sha string) string {
	for _, b := range sortedKeys(r.branches) {
		if r.branches[b] == sha {
			return b
		}
	}
	return r.DefaultBranch
}

// running is the status that s replaces, if there is one and it still runs.
func (g *gitlab) running(r *repository, p *pipeline, s *status) *status {
	for _, old := range g.statuses(r, p) {
		if old != s && old.Context == s.Context && (old.wordGL() == "pending" || old.wordGL() == "running") {
			return old
		}
	}
	return nil
}

// statuses are the newest of each name in a pipeline, oldest first.
func (g *gitlab) statuses(r *repository, p *pipeline) []*status {
	newest := map[string]*status{}
	for _, s := range r.statuses {
		if s.gl.pipeline == p {
			newest[s.Context] = s
		}
	}
	var list []*status
	for _, s := range r.statuses {
		if newest[s.Context] == s && s.gl.pipeline == p {
			list = append(list, s)
		}
	}
	return list
}

// statusOf is a pipeline's status, which follows from what is in it.
func (g *gitlab) statusOf(r *repository, p *pipeline) string {
	have := map[string]int{}
	all := g.statuses(r, p)
	for _, s := range all {
		have[s.wordGL()]++
	}
	switch {
	case len(all) == 0:
		return "pending"
	case have["running"] > 0, have["pending"] > 0 && have["pending"] < len(all):
		return "running"
	}
	for _, word := range []string{"pending", "failed", "canceled", "success"} {
		if have[word] > 0 {
			return word
		}
	}
	return "skipped"
}

// headPipeline is the newest pipeline of a merge request's head.
func (g *gitlab) headPipeline(r *repository, m *mergeRequest) *pipeline {
	var head *pipeline
	for _, p := range r.gl.pipelines {
		if p.SHA == m.Head && g.concerns(m, p) {
			head = p
		}
	}
	return head
}

func (g *gitlab) concerns(m *mergeRequest, p *pipeline) bool {
	return p.Ref == m.Branch && !m.Fork || p.Ref == g.h.mrRef(m.Number, "head") || p.Source == "external" && p.SHA == m.Head
}

func (g *gitlab) pipeline(r *repository, p *pipeline) object {
	return object{
		"id": p.ID, "iid": p.IID, "project_id": r.ID, "sha": p.SHA, "ref": p.Ref, "status": g.statusOf(r, p), "source": p.Source, "name": nil,
		"created_at": glTime(p.Created), "updated_at": glTime(p.Updated), "web_url": g.web("/%s/-/pipelines/%d", r.fullName(), p.ID),
	}
}

func (g *gitlab) fullPipeline(r *repository, p *pipeline) object {
	o := g.pipeline(r, p)
	status := g.statusOf(r, p)
	finished := any(nil)
	if status != "pending" && status != "running" {
		finished = glTime(p.Updated)
	}
	o["before_sha"], o["tag"], o["yaml_errors"], o["user"] = zeroSHA, false, nil, g.user(p.User)
	o["started_at"], o["finished_at"], o["committed_at"], o["duration"], o["queued_duration"], o["coverage"] = glTime(p.Created), finished, nil, nil, nil, nil
	o["archived"] = false
	o["detailed_status"] = object{"icon": "status_" + status, "text": status, "label": status, "group": status, "tooltip": status, "has_details": true, "details_path": fmt.Sprintf("/%s/-/pipelines/%d", r.fullName(), p.ID), "illustration": nil, "favicon": ""}
	return o
}

func glListPipelines(c *glCall) (int, any, error) {
	var found []*pipeline
	for _, p := range c.repo.gl.pipelines {
		switch {
		case c.has("sha") && c.str("sha") != p.SHA, c.has("ref") && c.str("ref") != p.Ref, c.has("source") && c.str("source") != p.Source,
			c.has("status") && c.str("status") != c.gl.statusOf(c.repo, p):
		default:
			found = append(found, p)
		}
	}
	return c.answerPipelines(found)
}

// answerPipelines answers a page, newest first.
func (c *glCall) answerPipelines(found []*pipeline) (int, any, error) {
	if c.str("order_by") == "updated_at" {
		slices.SortStableFunc(found, func(a, b *pipeline) int { return a.Updated.Compare(b.Updated) })
	}
	if c.str("sort") != "asc" {
		slices.Reverse(found)
	}
	return http.StatusOK, list(glPage(c, found), func(p *pipeline) object { return c.gl.pipeline(c.repo, p) }), nil
}

func glMRPipelines(c *glCall) (int, any, error) {
	m, err := c.mr()
	if err != nil {
		return 0, nil, err
	}
	heads := map[string]bool{}
	for _, v := range m.gl.versions {
		heads[v.head] = true
	}
	var found []*pipeline
	for _, p := range c.repo.gl.pipelines {
		if heads[p.SHA] && c.gl.concerns(m, p) {
			found = append(found, p)
		}
	}
	return c.answerPipelines(found)
}

func (c *glCall) findPipeline() (*pipeline, error) {
	for _, p := range c.repo.gl.pipelines {
		if p.ID == c.number("pipeline") {
			return p, nil
		}
	}
	return nil, errGLNotFound
}

func glGetPipeline(c *glCall) (int, any, error) {
	p, err := c.findPipeline()
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, c.gl.fullPipeline(c.repo, p), nil
}

func glLatestPipeline(c *glCall) (int, any, error) {
	ref := cmp.Or(c.str("ref"), c.repo.DefaultBranch)
	for _, p := range slices.Backward(c.repo.gl.pipelines) {
		if p.Ref == ref && p.SHA == c.repo.branches[ref] {
			return http.StatusOK, c.gl.fullPipeline(c.repo, p), nil
		}
	}
	return 0, nil, errGLNotFound
}

// glRetryPipeline starts CI's job again.
func glRetryPipeline(c *glCall) (int, any, error) {
	p, err := c.findPipeline()
	if err != nil {
		return 0, nil, err
	}
	if err := c.must(RoleWrite); err != nil {
		return 0, nil, err
	}
	for _, run := range c.h.runs {
		if run.pipeline == p {
			if err := c.h.startCI(c.repo, run.Branch, run.SHA); err != nil {
				return 0, nil, err
			}
			return http.StatusCreated, c.gl.fullPipeline(c.repo, c.repo.gl.pipelines[len(c.repo.gl.pipelines)-1]), nil
		}
	}
	return 0, nil, errGLForbidden
}

// glJobs lists CI's jobs; statuses from elsewhere are no jobs.
func glJobs(c *glCall) (int, any, error) {
	p, err := c.findPipeline()
	if err != nil {
		return 0, nil, err
	}
	own := slices.DeleteFunc(c.gl.statuses(c.repo, p), func(s *status) bool { return s.Creator.Login != ciApp })
	return http.StatusOK, list(glPage(c, own), func(s *status) object {
		return object{
			"id": s.ID, "name": s.Context, "stage": "test", "status": s.wordGL(), "ref": p.Ref, "tag": false, "allow_failure": false,
			"created_at": glTime(s.Created), "started_at": glTime(s.Created), "finished_at": nil, "duration": nil, "user": c.gl.user(s.Creator),
			"pipeline": c.gl.pipeline(c.repo, p), "web_url": c.gl.web("/%s/-/jobs/%d", c.repo.fullName(), s.ID),
		}
	}), nil
}

func (g *gitlab) status(s *status) object {
	finished := any(nil)
	if w := s.wordGL(); w != "pending" && w != "running" {
		finished = glTime(s.Created)
	}
	return object{
		"id": s.ID, "sha": s.SHA, "ref": s.gl.pipeline.Ref, "status": s.wordGL(), "name": s.Context, "target_url": orNull(s.Link), "description": orNull(s.Description),
		"created_at": glTime(s.Created), "started_at": glTime(s.Created), "finished_at": finished, "allow_failure": false, "coverage": nil,
		"pipeline_id": s.gl.pipeline.ID, "author": g.user(s.Creator),
	}
}

func glListStatuses(c *glCall) (int, any, error) {
	sha := c.h.resolve(c.repo, c.vars["sha"])
	if sha == "" {
		return 0, nil, glRefuse(404, "404 Commit Not Found")
	}
	var found []*status
	for _, p := range c.repo.gl.pipelines {
		if p.SHA == sha && (!c.has("ref") || c.str("ref") == p.Ref) {
			found = append(found, c.gl.statuses(c.repo, p)...)
		}
	}
	if c.yes("all") {
		found = slices.DeleteFunc(slices.Clone(c.repo.statuses), func(s *status) bool { return s.SHA != sha })
	}
	found = slices.DeleteFunc(found, func(s *status) bool { return c.has("name") && c.str("name") != s.Context })
	return http.StatusOK, list(glPage(c, found), c.gl.status), nil
}

// states maps GitLab's words to the world's.
var states = map[string]string{
	"pending": "pending", "running": "pending", "success": "success", "skipped": "success", "failed": "failure", "canceled": "error",
}

func glSetStatus(c *glCall) (int, any, error) {
	if err := cmp.Or(c.must(RoleWrite), c.need("state")); err != nil {
		return 0, nil, err
	}
	word := c.str("state")
	if states[word] == "" {
		return 0, nil, &glError{status: 400, message: "state does not have a valid value", field: "error"}
	}
	sha := c.h.resolve(c.repo, c.vars["sha"])
	if sha == "" || sha != c.vars["sha"] {
		return 0, nil, glRefuse(404, "404 Commit Not Found")
	}
	s := &status{
		SHA: sha, State: states[word], Context: cmp.Or(c.str("name"), c.str("context"), "default"), Description: c.str("description"), Link: c.str("target_url"),
		Creator: c.who, gl: gitlabStatus{ref: c.str("ref"), word: word},
	}
	for _, p := range c.repo.gl.pipelines {
		if p.SHA != sha || c.has("pipeline_id") && c.str("pipeline_id") != strconv.FormatInt(p.ID, 10) || s.gl.ref != "" && s.gl.ref != p.Ref {
			continue
		}
		s.gl.pipeline = p
	}
	if s.gl.pipeline != nil {
		if old := c.gl.running(c.repo, s.gl.pipeline, s); old != nil && (word == "pending" || old.wordGL() == word) {
			verb := map[string]string{"pending": "enqueue", "running": "run"}[word]
			return 0, nil, glRefuse(400, fmt.Sprintf("Cannot transition status via :%s from :%s (Reason(s): Status cannot transition via %q)", verb, old.wordGL(), verb))
		}
	}
	if err := c.h.addStatus(c.repo, s); err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, c.gl.status(s), nil
}
