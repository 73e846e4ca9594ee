package fakehost

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// look is mergeStatus for somebody who looks: transient values pass by.
func (g *gitlab) look(r *repository, m *mergeRequest) (string, error) {
	status, err := g.mergeStatus(r, m)
	if m.Open && m.gl.stuck == "" && len(m.gl.transient) > 0 {
		m.gl.transient = m.gl.transient[1:]
	}
	return status, err
}

// mergeStatus is detailed_merge_status: what stands in the way of merging, the
// first of it.
func (g *gitlab) mergeStatus(r *repository, m *mergeRequest) (string, error) {
	switch {
	case !m.Open:
		return "not_open", nil
	case m.gl.stuck != "":
		return m.gl.stuck, nil
	case len(m.gl.transient) > 0:
		return m.gl.transient[0], nil
	case m.gl.syncing:
		return "approvals_syncing", nil
	case m.Draft:
		return "draft_status", nil
	}
	if why := g.ciStatus(r, m); why != "" {
		return why, nil
	}
	if !g.set.Free {
		approvals := 0
		for u, v := range g.opinions(m) {
			if v.State == ChangesRequested {
				return "requested_changes", nil
			}
			if v.State == Approved && g.level(r, u) >= Developer {
				approvals++
			}
		}
		if approvals < r.rules[m.Base].RequiredApprovals {
			return "not_approved", nil
		}
	}
	if m.commits == 0 || r.branches[m.Base] == "" || !m.Fork && r.branches[m.Branch] == "" {
		return "commits_status", nil
	}
	if err := g.h.test(r, m); err != nil {
		return "", err
	}
	if !m.trial.ok {
		return "conflict", nil
	}
	if r.gl.MergeMethod != "merge" || r.rules[m.Base].Strict {
		missing, err := g.h.between(r, m.Head, r.branches[m.Base])
		if err != nil {
			return "", err
		}
		if len(missing) > 0 {
			return "need_rebase", nil
		}
	}
	return "mergeable", nil
}

// wantsPipeline tells whether merging into a branch takes a pipeline that
// succeeded. A free GitLab cannot demand checks by name, so there a rule that
// does is this.
func (g *gitlab) wantsPipeline(r *repository, branch string) bool {
	return r.gl.PipelineMustSucceed || g.set.Free && len(r.rules[branch].RequiredChecks) > 0
}

func (g *gitlab) ciStatus(r *repository, m *mergeRequest) string {
	if !g.set.Free && g.h.missingCheck(r, m.Head, r.rules[m.Base]) != nil {
		return "status_checks_must_pass"
	}
	if !g.wantsPipeline(r, m.Base) {
		return ""
	}
	p := g.headPipeline(r, m)
	if p == nil {
		return "ci_must_pass"
	}
	switch status := g.statusOf(r, p); {
	case status == "pending" || status == "running":
		return "ci_still_running"
	case status == "success" && g.h.missingCheck(r, m.Head, r.rules[m.Base]) != nil:
		return "ci_must_pass"
	case status == "success", status == "skipped" && r.gl.SkippedIsFine:
		return ""
	}
	return "ci_must_pass"
}

// opinions is the last opinion of each reviewer.
func (g *gitlab) opinions(m *mergeRequest) map[*user]*review {
	last := map[*user]*review{}
	for _, v := range m.reviews {
		if v.State != Commented && v.State != Pending {
			last[v.Author] = v
		}
	}
	return last
}

// approvers lists the approvals in force, oldest first.
func (g *gitlab) approvers(m *mergeRequest) []*review {
	var list []*review
	for _, v := range g.opinions(m) {
		if v.State == Approved {
			list = append(list, v)
		}
	}
	slices.SortFunc(list, func(a, b *review) int { return int(a.ID - b.ID) })
	return list
}

func (g *gitlab) squashes(r *repository, m *mergeRequest) bool {
	switch r.gl.SquashOption {
	case "always":
		return true
	case "never":
		return false
	}
	return m.gl.squash
}

// accept merges as the merge API does. Its checks come in GitLab's order, so a
// head that moved is told only when nothing else stands in the way.
func (g *gitlab) accept(r *repository, m *mergeRequest, u *user, o mergeOptions) (string, error) {
	if !g.mayMergeInto(r, m.Base, u) {
		return "", refuse(refusedForbidden, "401 Unauthorized")
	}
	status, err := g.look(r, m)
	if err != nil {
		return "", err
	}
	switch status {
	case "mergeable":
	case "conflict", "need_rebase", "commits_status":
		return "", refuse(refusedConflict, "Branch cannot be merged")
	default:
		return "", refuse(refusedNotMergeable, "%s", status)
	}
	if o.guard != "" && o.guard != m.Head {
		return "", refuse(refusedHeadMoved, "SHA does not match HEAD of source branch: %s", m.Head)
	}
	base := r.branches[m.Base]
	sha, err := g.mergeCommit(r, m, u, base, o)
	if err != nil {
		return "", err
	}
	// The old value makes a push by path in this instant win.
	if _, err := g.h.git(r.path, nil, "update-ref", "refs/heads/"+m.Base, sha, base); err != nil {
		return "", refuse(refusedConflict, "Branch cannot be merged")
	}
	g.h.merged(r, m, sha, u)
	if err := g.h.scan(r, u); err != nil {
		return "", err
	}
	g.h.emit(event{kind: onMR, action: "closed", repo: r, actor: u, mr: m})
	return sha, g.retire(r, m, u, o.removeSource)
}

// mergeCommit makes what the target's tip becomes, by the project's method.
func (g *gitlab) mergeCommit(r *repository, m *mergeRequest, u *user, base string, o mergeOptions) (string, error) {
	head := m.Head
	who := ident{Name: u.name(), Email: u.email(), When: g.h.now().Truncate(time.Second)}
	tree, ok, err := g.h.mergeTree(r, base, head)
	if err != nil {
		return "", err
	}
	if !ok {
		return "", refuse(refusedConflict, "Branch cannot be merged")
	}
	if g.squashes(r, m) && m.commits > 1 {
		message := cmp.Or(o.squashMessage, m.Title)
		if head, err = g.h.commitTree(r, tree, who, message+"\n", base); err != nil {
			return "", err
		}
		m.gl.squashSHA = head
	}
	if r.gl.MergeMethod == "ff" {
		return head, nil
	}
	message := o.message
	if message == "" {
		message = fmt.Sprintf("Merge branch '%s' into '%s'\n\n%s\n\nSee merge request %s!%d", m.Branch, m.Base, m.Title, r.fullName(), m.Number)
	}
	return g.h.commitTree(r, tree, who, message+"\n", base, head)
}

// retire removes the source branch of what was merged, if it is to be, and
// retargets those that were to be merged into it.
func (g *gitlab) retire(r *repository, m *mergeRequest, u *user, remove bool) error {
	if m.Fork || !remove && !r.DeleteOnMerge || r.branches[m.Branch] == "" || r.gl.protected[m.Branch] != (Protection{}) {
		return nil
	}
	for _, o := range r.mrs() {
		if o.Open && o.Base == m.Branch {
			if err := g.h.retarget(r, o, u, m.Base); err != nil {
				return err
			}
		}
	}
	return g.h.moveBranch(r, m.Branch, "", u)
}

func glAccept(c *glCall) (int, any, error) {
	m, err := c.mr()
	if err != nil {
		return 0, nil, err
	}
	if c.who == nil {
		return 0, nil, errGLUnauthorized
	}
	if c.has("squash") {
		if c.yes("squash") && c.repo.gl.SquashOption == "never" {
			return 0, nil, glRefuse(400, "Squashing is not allowed in this project")
		}
		m.gl.squash = c.yes("squash")
	}
	o := mergeOptions{guard: c.str("sha"), message: c.str("merge_commit_message"), squashMessage: c.str("squash_commit_message"), removeSource: c.yes("should_remove_source_branch")}
	if c.yes("auto_merge") || c.yes("merge_when_pipeline_succeeds") {
		return c.autoMerge(m, o)
	}
	if _, err := c.gl.accept(c.repo, m, c.who, o); err != nil {
		return 0, nil, err
	}
	return c.answerMR(http.StatusOK, m)
}

// autoMerge merges once the pipeline succeeds; without a pipeline that runs
// there is nothing to wait for.
func (c *glCall) autoMerge(m *mergeRequest, o mergeOptions) (int, any, error) {
	p := c.gl.headPipeline(c.repo, m)
	switch {
	case !c.gl.mayMergeInto(c.repo, m.Base, c.who):
		return 0, nil, errGLUnauthorized
	case p == nil || !m.Open || m.Draft:
		return 0, nil, refuse(refusedNotMergeable, "nothing to wait for")
	}
	switch c.gl.statusOf(c.repo, p) {
	case "pending", "running":
		if o.guard != "" && o.guard != m.Head {
			return 0, nil, refuse(refusedHeadMoved, "SHA does not match HEAD of source branch: %s", m.Head)
		}
		m.gl.auto = c.who
	case "success":
		if _, err := c.gl.accept(c.repo, m, c.who, o); err != nil {
			return 0, nil, err
		}
	default:
		return 0, nil, refuse(refusedNotMergeable, "the pipeline failed")
	}
	return c.answerMR(http.StatusOK, m)
}

func glCancelAuto(c *glCall) (int, any, error) {
	m, err := c.mr()
	if err != nil {
		return 0, nil, err
	}
	if !c.gl.mayMergeInto(c.repo, m.Base, c.who) {
		return 0, nil, errGLUnauthorized
	}
	m.gl.auto = nil
	return c.answerMR(http.StatusCreated, m)
}

// autoMerged does what was promised for when the pipeline succeeds.
func (g *gitlab) autoMerged(r *repository, p *pipeline) {
	for _, m := range r.mrs() {
		if m.Open && m.gl.auto != nil && g.headPipeline(r, m) == p {
			u := m.gl.auto
			m.gl.auto = nil
			if _, err := g.accept(r, m, u, mergeOptions{}); err != nil {
				g.h.log.Debug("automatic merge refused", "repo", r.fullName(), "mr", m.Number, "error", err)
			}
		}
	}
}
