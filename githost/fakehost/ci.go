package fakehost

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// CIMode says how a CI run ends.
type CIMode string

// CI modes. The zero value is CIImmediate.
const (
	CIImmediate CIMode = "immediate" // within the push that starts it
	CIDelayed   CIMode = "delay"     // CI.Delay later
	CIManual    CIMode = "manual"    // by FinishCI
	CINone      CIMode = "none"      // there is no CI
)

// CI configures the continuous integration every repository has. A run judges
// the pushed tree: a file in its root named ci.fail, or beginning with
// "ci.fail.", makes it a failure, else it is a success.
type CI struct {
	Mode CIMode `json:"mode,omitempty"`
	// Delay is how long a run takes in CIDelayed.
	Delay time.Duration `json:"delay,omitempty"`
	// Style is "checks" (default: one check run named ci by the app fake-ci),
	// "status" (a commit status with the context ci) or "both". On a GitLab a
	// run is a pipeline with one job named ci, of the branch or, when Style is
	// "merge_request", of the merge request.
	Style string `json:"style,omitempty"`
	// BranchPrefix, when set, starts runs on pushes to branches named so,
	// whether or not they have a merge request. Otherwise runs start on
	// branches that have an open merge request.
	BranchPrefix string `json:"branch_prefix,omitempty"`
	// Verdict, when set, decides the conclusion instead of the tree. It is
	// called under the host's lock and must not call the host.
	Verdict func(CIRun) string `json:"-"`
	// OnStart is called for every run after the webhooks that announced it,
	// without any lock: it may call the host, FinishCI among it.
	OnStart func(CIRun) `json:"-"`
}

// CIRun is one run of CI on one commit of one branch.
type CIRun struct {
	Repo       string    `json:"repo"`
	Branch     string    `json:"branch"`
	SHA        string    `json:"sha"`
	Conclusion string    `json:"conclusion"` // "" while it runs
	Started    time.Time `json:"started"`
	Completed  time.Time `json:"completed,omitzero"`
}

type ciRun struct {
	CIRun
	repo    *repository
	verdict string
	check   *check
	timer   *time.Timer

	pipeline *pipeline // on a GitLab
}

type status struct {
	ID                                int64
	SHA                               string
	State, Context, Description, Link string
	Creator                           *user
	Created                           time.Time
	gl                                gitlabStatus
}

// suite groups the check runs of one app on one commit.
type suite struct {
	ID      int64
	SHA     string
	Branch  string // "" for heads outside the repository
	App     string // slug
	Before  string
	Created time.Time
	Updated time.Time
	runs    []*check
}

type check struct {
	ID                 int64
	Suite              *suite
	Name               string
	SHA                string
	Status             string // queued, in_progress, completed
	Conclusion         string
	ExternalID, Link   string
	Title, Summary     string
	Text               string
	Started, Completed time.Time
}

const ciApp = "fake-ci"

// status and conclusion of a suite follow from its runs.
func (s *suite) state() (status, conclusion string) {
	if len(s.runs) == 0 {
		return "queued", ""
	}
	conclusion = "success"
	for _, c := range s.latest() {
		if c.Status != "completed" {
			return "in_progress", ""
		}
		if c.Conclusion != "success" && c.Conclusion != "neutral" && c.Conclusion != "skipped" {
			conclusion = c.Conclusion
		}
	}
	return "completed", conclusion
}

func (s *suite) latest() []*check {
	byName := map[string]*check{}
	for _, c := range s.runs {
		byName[c.Name] = c
	}
	var list []*check
	for _, c := range s.runs {
		if byName[c.Name] == c {
			list = append(list, c)
		}
	}
	return list
}

func (h *Host) suite(r *repository, sha, branch, app string) (s *suite, fresh bool) {
	for _, s := range r.suites {
		if s.SHA == sha && s.App == app {
			return s, false
		}
	}
	s = &suite{ID: h.nextID(), SHA: sha, Branch: branch, App: app, Created: h.now(), Updated: h.now()}
	r.suites = append(r.suites, s)
	return s, true
}

// addCheck adds a check run and announces it.
func (h *Host) addCheck(r *repository, s *suite, c *check, actor *user) error {
	c.ID, c.Suite, c.SHA = h.nextID(), s, s.SHA
	c.Started = laterOf(c.Started, h.now())
	s.runs, s.Updated = append(s.runs, c), h.now()
	r.checks = append(r.checks, c)
	h.emit(event{kind: onCheck, action: "created", repo: r, actor: actor, check: c})
	if c.Status == "completed" {
		return h.checkCompleted(r, c, actor)
	}
	return h.protect(r)
}

func laterOf(t, fallback time.Time) time.Time {
	if t.IsZero() {
		return fallback
	}
	return t
}

func (h *Host) checkCompleted(r *repository, c *check, actor *user) error {
	c.Completed, c.Suite.Updated = laterOf(c.Completed, h.now()), h.now()
	h.emit(event{kind: onCheck, action: "completed", repo: r, actor: actor, check: c})
	if status, _ := c.Suite.state(); status == "completed" {
		h.emit(event{kind: onSuite, action: "completed", repo: r, actor: actor, suite: c.Suite})
		if c.Suite.App == ciApp {
			// The suite says "completed" first, as the real host's may.
			h.emit(event{kind: onWorkflow, action: "completed", repo: r, actor: actor, suite: c.Suite})
		}
	}
	return h.protect(r)
}

func (h *Host) addStatus(r *repository, s *status) error {
	if !slices.Contains([]string{"error", "failure", "pending", "success"}, s.State) {
		return &refusal{refusedInvalid, "state", "state is not included in the list"}
	}
	if s.SHA == "" {
		return refuse(refusedInvalid, "No commit found for SHA")
	}
	if _, err := h.commitAt(r, s.SHA); err != nil {
		return err
	}
	s.ID, s.Context, s.Created = h.nextID(), cmp.Or(s.Context, "default"), h.now()
	r.statuses = append(r.statuses, s)
	if h.gl != nil {
		h.gl.attach(r, s)
	}
	h.emit(event{kind: onStatus, repo: r, actor: s.Creator, status: s})
	return h.protect(r)
}

// SetStatus writes a commit status as login.
func (h *Host) SetStatus(repo, sha, login, state, name string) error {
	return h.with(repo, func(r *repository) error {
		u, err := h.user(login)
		if err != nil {
			return err
		}
		return h.addStatus(r, &status{SHA: h.resolve(r, sha), State: state, Context: name, Creator: u})
	})
}

// verdict is the newest result of a check or status context on a commit:
// a conclusion, "pending", or "" when there is none.
func (h *Host) verdict(r *repository, sha, name string) string {
	v := ""
	for _, s := range r.statuses {
		if s.SHA == sha && s.Context == name {
			v = s.State
		}
	}
	for _, c := range r.checks {
		if c.SHA == sha && c.Name == name {
			if v = c.Conclusion; c.Status != "completed" {
				v = "pending"
			}
		}
	}
	return v
}

// SetCI replaces the CI configuration for runs started from now on. Hooks
// (Verdict, OnStart) left nil keep their present value.
func (h *Host) SetCI(ci CI) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ci.Verdict == nil {
		ci.Verdict = h.ci.Verdict
	}
	if ci.OnStart == nil {
		ci.OnStart = h.ci.OnStart
	}
	h.ci = ci
}

// maybeCI starts what a push of sha to branch starts.
func (h *Host) maybeCI(r *repository, branch, sha string, fork bool) error {
	open := slices.ContainsFunc(r.mrs(), func(m *mergeRequest) bool { return m.Open && m.Branch == branch && m.Head == sha })
	if r.installed && !fork && open && h.gl == nil {
		// Every app with write access to checks gets an empty suite on a push.
		// Ours stays queued for ever: nobody may wait for it.
		if s, fresh := h.suite(r, sha, branch, h.slug()); fresh {
			h.emit(event{kind: onSuite, action: "requested", repo: r, actor: r.Owner, suite: s})
		}
	}
	wanted := open
	if h.ci.BranchPrefix != "" {
		wanted = strings.HasPrefix(branch, h.ci.BranchPrefix)
	}
	if !wanted || fork || h.ci.Mode == CINone {
		return nil
	}
	for _, run := range h.runs {
		if run.repo == r && run.SHA == sha && run.Branch == branch {
			return nil
		}
	}
	return h.startCI(r, branch, sha)
}

func (h *Host) startCI(r *repository, branch, sha string) error {
	run := &ciRun{CIRun: CIRun{Repo: r.fullName(), Branch: branch, SHA: sha, Started: h.now()}, repo: r, verdict: "success"}
	out, err := h.git(r.path, nil, "ls-tree", "--name-only", sha)
	if err != nil {
		return fmt.Errorf("starting CI on %s: %w", sha, err)
	}
	for name := range strings.Lines(string(out)) {
		if name = strings.TrimSpace(name); name == "ci.fail" || strings.HasPrefix(name, "ci.fail.") {
			run.verdict = "failure"
		}
	}
	if h.ci.Verdict != nil {
		run.verdict = h.ci.Verdict(run.CIRun)
	}
	h.runs = append(h.runs, run)
	h.log.Debug("CI started", "repo", r.fullName(), "branch", branch, "sha", sha)
	ci := h.addUser(ciApp)
	if h.gl != nil {
		h.gl.startPipeline(r, run, h.ci.Style)
	}
	if h.ci.Style != "status" && h.gl == nil {
		s, _ := h.suite(r, sha, branch, ciApp)
		run.check = &check{Name: "ci", Status: "in_progress"}
		if err := h.addCheck(r, s, run.check, ci); err != nil {
			return err
		}
	}
	if h.ci.Style == "status" || h.ci.Style == "both" || h.gl != nil {
		if err := h.addStatus(r, &status{SHA: sha, State: "pending", Context: "ci", Creator: ci, gl: gitlabStatus{pipeline: run.pipeline}}); err != nil {
			return err
		}
	}
	if h.ci.OnStart != nil {
		f, started := h.ci.OnStart, run.CIRun
		h.queue.add(func() { f(started) })
	}
	switch h.ci.Mode {
	case CIManual:
	case CIDelayed:
		run.timer = time.AfterFunc(h.ci.Delay, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.ctx.Err() != nil {
				return
			}
			if err := h.finish(run); err != nil {
				h.log.Error("finishing CI", "repo", run.Repo, "sha", run.SHA, "error", err)
			}
		})
	default:
		return h.finish(run)
	}
	return nil
}

func (h *Host) finish(run *ciRun) error {
	if run.Conclusion != "" {
		return nil
	}
	run.Conclusion, run.Completed = run.verdict, h.now()
	h.log.Debug("CI finished", "repo", run.Repo, "branch", run.Branch, "sha", run.SHA, "conclusion", run.Conclusion)
	ci := h.addUser(ciApp)
	if run.check != nil {
		run.check.Status, run.check.Conclusion = "completed", run.verdict
		if err := h.checkCompleted(run.repo, run.check, ci); err != nil {
			return err
		}
	}
	if run.check == nil || h.ci.Style == "both" {
		state := run.verdict
		if state != "success" && state != "failure" {
			state = "error"
		}
		return h.addStatus(run.repo, &status{SHA: run.SHA, State: state, Context: "ci", Creator: ci, gl: gitlabStatus{pipeline: run.pipeline}})
	}
	return nil
}

// FinishCI ends the running CI runs on sha, or all of them when sha is empty,
// and answers how many it ended.
func (h *Host) FinishCI(sha string) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, run := range h.runs {
		if run.Conclusion == "" && (sha == "" || run.SHA == sha) {
			if err := h.finish(run); err != nil {
				return n, err
			}
			n++
		}
	}
	return n, nil
}

// rerun starts CI again on what a check ran on.
func (h *Host) rerun(r *repository, s *suite) error {
	if s.App != ciApp || h.ci.Mode == CINone {
		return nil
	}
	return h.startCI(r, s.Branch, s.SHA)
}

// CIRuns lists all runs in the order they started.
func (h *Host) CIRuns() []CIRun {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []CIRun
	for _, run := range h.runs {
		list = append(list, run.CIRun)
	}
	return list
}
