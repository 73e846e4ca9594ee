package fakehost

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// GitLab says how a GitLab behaves where installations and tiers differ. The
// zero value is a Premium installation that does everything at once.
type GitLab struct {
	// Free leaves out what only paid tiers have: approval rules, their endpoints,
	// approvals reset by a push, requested changes that block.
	Free bool `json:"free,omitempty"`
	// ResetAfter is how long after a push approvals are reset. Below 0 it takes RunJobs.
	ResetAfter time.Duration `json:"reset_after,omitempty"`
	// QuietReset sends no webhook for a reset, as older installations.
	QuietReset bool `json:"quiet_reset,omitempty"`
	// MarkAfter is how long after a push the merge requests it brought in read
	// merged. Below 0 it takes RunJobs.
	MarkAfter time.Duration `json:"mark_after,omitempty"`
	// Transient are the values detailed_merge_status goes through, one each time
	// it is looked at, after a merge request is opened or its head moves.
	Transient []string `json:"transient,omitempty"`
	// LateHeadPipeline leaves head_pipeline null.
	LateHeadPipeline bool `json:"late_head_pipeline,omitempty"`
	// AutoDisable stops hooks for a while after four failures in a row.
	AutoDisable bool `json:"auto_disable,omitempty"`
	// SigningToken ("whsec_" and base64) signs the deliveries of the hook that
	// Options.WebhookURL and Options.WebhookSecret describe.
	SigningToken string `json:"-"`
	// Version defaults to 18.0.0-ee.
	Version string `json:"version,omitempty"`
}

// SetGitLab replaces how the GitLab behaves from now on. On a GitHub it does
// nothing.
func (h *Host) SetGitLab(set GitLab) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gl != nil {
		h.gl.set = set
	}
}

// Project are the merge settings of a GitLab project.
type Project struct {
	// MergeMethod is merge (default), rebase_merge (semi-linear) or ff.
	MergeMethod string `json:"merge_method,omitempty"`
	// SquashOption is default_off (default), default_on, always or never.
	SquashOption string `json:"squash_option,omitempty"`
	// PipelineMustSucceed is only_allow_merge_if_pipeline_succeeds.
	PipelineMustSucceed bool `json:"pipeline_must_succeed,omitempty"`
	// SkippedIsFine is allow_merge_on_skipped_pipeline.
	SkippedIsFine bool `json:"skipped_is_fine,omitempty"`
	// MergeTrains is merge_trains_enabled.
	MergeTrains bool `json:"merge_trains,omitempty"`
}

var (
	mergeMethods  = []string{"merge", "rebase_merge", "ff"}
	squashOptions = []string{"default_off", "default_on", "always", "never"}
)

func (p Project) complete() (Project, error) {
	if p.MergeMethod == "" {
		p.MergeMethod = mergeMethods[0]
	}
	if p.SquashOption == "" {
		p.SquashOption = squashOptions[0]
	}
	if !slices.Contains(mergeMethods, p.MergeMethod) {
		return p, &refusal{refusedInvalid, "merge_method", "is not included in the list"}
	}
	if !slices.Contains(squashOptions, p.SquashOption) {
		return p, &refusal{refusedInvalid, "squash_option", "is not included in the list"}
	}
	return p, nil
}

// SetProject replaces the merge settings of a project on a GitLab.
func (h *Host) SetProject(repo string, p Project) error {
	return h.with(repo, func(r *repository) error {
		p, err := p.complete()
		if err != nil {
			return fmt.Errorf("project settings of %s: %w", repo, err)
		}
		r.gl.Project = p
		return nil
	})
}

// Access levels of a GitLab, for Protection.
const (
	NoAccess   = 0
	Developer  = 30
	Maintainer = 40
)

// Protection is who may push and merge to a protected branch, by access level;
// NoAccess admits nobody.
type Protection struct {
	Push  int `json:"push"`
	Merge int `json:"merge"`
}

// Protect protects a branch on a GitLab. Its default branch is protected from
// the start: Maintainers push, Developers merge. Nobody force-pushes.
func (h *Host) Protect(repo, branch string, p Protection) error {
	return h.with(repo, func(r *repository) error {
		r.gl.protected[branch] = p
		return h.protect(r)
	})
}

// gitlabProject is what only a GitLab knows of a repository.
type gitlabProject struct {
	Project
	protected    map[string]Protection
	hooks        []*gitlabHook
	pipelines    []*pipeline
	lastPipeline int
}

// gitlabMR is what only a GitLab knows of a merge request.
type gitlabMR struct {
	versions  []version
	notes     []*comment // written by the system
	fork      int64      // id of the source project of one from a fork
	forkGone  bool
	syncing   bool     // approvals are about to be reset
	transient []string // values of detailed_merge_status to come
	stuck     string   // the one it has until told otherwise
	squash    bool
	squashSHA string
	auto      *user // merges when the pipeline succeeds
}

type version struct {
	id         int64
	base, head string
	created    time.Time
}

var accessLevels = map[string]int{RoleNone: 0, RoleRead: 10, RoleTriage: 20, RoleWrite: 30, RoleMaintain: 40, RoleAdmin: 50}

// level is u's access level as a member; 0 means it is none.
func (g *gitlab) level(r *repository, u *user) int {
	if u == nil || u != g.h.bot() && !g.h.collaborates(r, u) {
		return 0
	}
	if u == g.h.bot() && !r.installed && !g.h.collaborates(r, u) {
		return 0
	}
	return accessLevels[g.h.role(r, u)]
}

// adopt makes a new repository a project with the bot as a member and a hook.
func (g *gitlab) adopt(r *repository, n NewRepository) error {
	r.installed = !n.NotInstalled
	r.gl.Project, _ = Project{}.complete() // the defaults are valid
	if n.SquashOnly {
		r.gl.SquashOption = "always"
	}
	r.gl.protected = map[string]Protection{r.DefaultBranch: {Push: Maintainer, Merge: Developer}}
	r.gl.hooks = []*gitlabHook{{ID: g.h.nextID(), own: true, Created: g.h.now(), TLS: true, Events: map[string]bool{
		hookPush: true, hookNote: true, hookMR: true, hookPipeline: true, hookConfidentialNote: true, hookIssue: true,
	}}}
	return g.h.protect(r)
}

// protection writes the rules for the update hook: pushes are a matter of
// access levels; approvals and pipelines bind merge requests only.
func (g *gitlab) protection(r *repository) string {
	var text strings.Builder
	for branch := range r.rules {
		if _, ok := r.gl.protected[branch]; !ok {
			r.gl.protected[branch] = Protection{Push: Maintainer, Merge: Developer}
		}
	}
	for _, branch := range sortedKeys(r.gl.protected) {
		p := r.gl.protected[branch]
		var may []string
		for _, login := range sortedKeys(g.h.users) {
			if u := g.h.users[login]; p.Push != NoAccess && g.level(r, u) >= p.Push {
				may = append(may, u.Login)
			}
		}
		fmt.Fprintf(&text, "rule refs/heads/%s keep,level %s\n", branch, strings.Join(may, ","))
	}
	return text.String()
}

func (g *gitlab) mayMergeInto(r *repository, branch string, u *user) bool {
	need := Developer
	if p, ok := r.gl.protected[branch]; ok {
		if need = p.Merge; need == NoAccess {
			return false
		}
	}
	return g.level(r, u) >= need
}

// DeleteFork removes the fork a merge request came from: its head stays served
// by the target, but it is not marked merged when its head lands.
func (h *Host) DeleteFork(repo string, number int) error {
	return h.with(repo, func(r *repository) error {
		m, err := r.mr(number)
		if err != nil {
			return err
		}
		if !m.Fork {
			return fmt.Errorf("merge request %d of %s is not from a fork", number, repo)
		}
		m.gl.forkGone = true
		return nil
	})
}

// SetMergeStatus fixes the detailed_merge_status of an open merge request, which
// cannot be merged meanwhile; "" lets it be what it is.
func (h *Host) SetMergeStatus(repo string, number int, status string) error {
	return h.with(repo, func(r *repository) error {
		m, err := r.mr(number)
		if err == nil {
			m.gl.stuck, m.gl.transient = status, nil
		}
		return err
	})
}

// job is what a GitLab does in the background.
type job struct {
	timer *time.Timer
	run   func() error
	done  bool
}

// later does something after d, at once when d is 0, by RunJobs when below.
func (g *gitlab) later(d time.Duration, run func() error) error {
	if d == 0 {
		return run()
	}
	j := &job{run: run}
	g.jobs = append(g.jobs, j)
	if d > 0 {
		j.timer = time.AfterFunc(d, func() {
			g.h.mu.Lock()
			defer g.h.mu.Unlock()
			if g.h.ctx.Err() != nil {
				return
			}
			if err := g.do(j); err != nil {
				g.h.log.Error("running a job", "error", err)
			}
		})
	}
	return nil
}

func (g *gitlab) do(j *job) error {
	if j.done {
		return nil
	}
	j.done = true
	return j.run()
}

func (g *gitlab) stop() {
	for _, j := range g.jobs {
		if j.timer != nil {
			j.timer.Stop()
		}
	}
}

// RunJobs does what a GitLab has yet to do in the background and answers how
// much that was.
func (h *Host) RunJobs() (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	if h.gl == nil {
		return n, nil
	}
	for i := 0; i < len(h.gl.jobs); i++ {
		if j := h.gl.jobs[i]; !j.done {
			n++
			if err := h.gl.do(j); err != nil {
				return n, err
			}
		}
	}
	h.gl.jobs = nil
	return n, nil
}

// resetApprovals takes the approvals of what was there before a push away.
func (g *gitlab) resetApprovals(r *repository, m *mergeRequest, actor *user) error {
	if !g.resets(r) || len(g.approvers(m)) == 0 {
		return nil
	}
	m.gl.syncing = true
	return g.later(g.set.ResetAfter, func() error {
		m.gl.syncing = false
		reset := false
		for _, v := range m.reviews {
			if v.State == Approved && v.SHA != m.Head {
				v.State, reset = Dismissed, true
			}
		}
		if !reset {
			return nil
		}
		m.Updated = g.h.now()
		if !g.set.QuietReset {
			g.h.emit(event{kind: onReview, action: "reset", repo: r, actor: actor, mr: m})
		}
		return nil
	})
}

// markMerged marks the merge requests whose heads a push brought in, but not
// those whose source project is gone.
func (g *gitlab) markMerged(r *repository, open []*mergeRequest, brought map[string]bool, sha string, actor *user) error {
	return g.later(g.set.MarkAfter, func() error {
		for _, m := range open {
			if m.Open && brought[m.Head] && !m.gl.forkGone {
				g.h.merged(r, m, sha, actor)
				g.h.emit(event{kind: onMR, action: "closed", repo: r, actor: actor, mr: m})
			}
		}
		return nil
	})
}
