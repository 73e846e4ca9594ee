package fakehost

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// scan compares the branches on disk with those last seen and makes of every
// difference what a push by actor means. It is the only way a branch change
// enters the world, whoever made it: a verb, the merge API or git itself.
func (h *Host) scan(r *repository, actor *user) error {
	now, err := readBranches(r.path)
	if err != nil {
		return fmt.Errorf("reading the refs of %s: %w", r.fullName(), err)
	}
	var changed []string
	for b, sha := range now {
		if r.branches[b] != sha {
			changed = append(changed, b)
		}
	}
	for b := range r.branches {
		if now[b] == "" {
			changed = append(changed, b)
		}
	}
	slices.Sort(changed)
	if h.gl != nil {
		h.gl.wide = len(changed) > pushHookLimit
		defer func() { h.gl.wide = false }()
	}
	for _, b := range changed {
		before, after := cmp.Or(r.branches[b], zeroSHA), cmp.Or(now[b], zeroSHA)
		if after == zeroSHA {
			delete(r.branches, b)
		} else {
			r.branches[b] = after
		}
		if err := h.pushed(r, b, before, after, actor); err != nil {
			return fmt.Errorf("following the push to %s of %s: %w", b, r.fullName(), err)
		}
	}
	return nil
}

func (h *Host) pushed(r *repository, branch, before, after string, actor *user) error {
	h.log.Debug("push", "repo", r.fullName(), "branch", branch, "before", before, "after", after, "actor", actor.Login)
	r.Updated = h.now()
	e := event{kind: onPush, repo: r, actor: actor, ref: "refs/heads/" + branch, before: before, after: after}
	if err := h.describePush(r, &e); err != nil {
		return err
	}
	h.emit(e)
	if after == zeroSHA {
		return h.branchDeleted(r, branch, actor)
	}
	for _, m := range r.mrs() {
		if m.Open && !m.Fork && m.Branch == branch && m.Head != after {
			if err := h.moveHead(r, m, after, actor); err != nil {
				return err
			}
		}
	}
	if err := h.markMerged(r, branch, before, after, actor); err != nil {
		return err
	}
	return h.maybeCI(r, branch, after, false)
}

// maxPushCommits bounds the commits listed in a push event.
const maxPushCommits = 20

func (h *Host) describePush(r *repository, e *event) error {
	if e.after == zeroSHA {
		return nil
	}
	from := e.before
	if from == zeroSHA {
		from = r.branches[r.DefaultBranch]
	}
	list, err := h.between(r, from, e.after)
	if err != nil {
		return err
	}
	if e.before != zeroSHA {
		lost, err := h.between(r, e.after, e.before)
		if err != nil {
			return err
		}
		e.forced = len(lost) > 0
	}
	slices.Reverse(list)
	for _, sha := range list[max(0, len(list)-maxPushCommits):] {
		c, err := h.commitAt(r, sha)
		if err != nil {
			return err
		}
		if err := h.listFiles(r, c); err != nil {
			return err
		}
		e.commits = append(e.commits, c)
	}
	e.head, err = h.commitAt(r, e.after)
	return err
}

func (h *Host) moveHead(r *repository, m *mergeRequest, sha string, actor *user) error {
	e := event{kind: onMR, action: "synchronize", repo: r, actor: actor, mr: m, before: m.Head, after: sha}
	m.was, m.Head, m.BaseSHA, m.Updated = m.Head, sha, r.branches[m.Base], h.now()
	if err := h.measure(r, m); err != nil {
		return err
	}
	if err := writeRef(r.path, h.mrRef(m.Number, "head"), sha); err != nil {
		return err
	}
	h.emit(e)
	if h.gl != nil {
		return h.gl.resetApprovals(r, m, actor)
	}
	if r.rules[m.Base].DismissStale {
		for _, v := range m.reviews {
			if v.State == Approved {
				if err := h.dismiss(r, m, v.ID, actor); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// markMerged marks the merge requests into branch whose heads the update
// brought in: on the default branch only, as the real host documents.
func (h *Host) markMerged(r *repository, branch, before, after string, actor *user) error {
	if branch != r.DefaultBranch && !h.opt.IndirectMergeEverywhere && h.gl == nil {
		return nil
	}
	var open []*mergeRequest
	for _, m := range r.mrs() {
		if m.Open && m.Base == branch {
			open = append(open, m)
		}
	}
	if len(open) == 0 {
		return nil
	}
	list, err := h.between(r, before, after)
	if err != nil {
		return err
	}
	brought := map[string]bool{}
	for _, sha := range list {
		brought[sha] = true
	}
	if h.gl != nil {
		return h.gl.markMerged(r, open, brought, after, actor)
	}
	for _, m := range open {
		if brought[m.Head] {
			h.merged(r, m, after, actor)
			h.emit(event{kind: onMR, action: "closed", repo: r, actor: actor, mr: m})
		}
	}
	return nil
}

func (h *Host) merged(r *repository, m *mergeRequest, sha string, actor *user) {
	m.Open, m.Merged, m.MergedAt, m.MergedBy, m.MergeSHA = false, true, h.now(), actor, sha
	m.ClosedAt, m.ClosedBy, m.Updated = h.now(), actor, h.now()
	h.log.Debug("merged", "repo", r.fullName(), "mr", m.Number, "sha", sha)
}

// branchDeleted closes the merge requests from and into a deleted branch; those
// into the head branch of a merged one are retargeted to where it went.
func (h *Host) branchDeleted(r *repository, branch string, actor *user) error {
	if h.gl != nil {
		return nil // they stay open, broken
	}
	heir := ""
	for _, m := range r.mrs() {
		if m.Merged && !m.Fork && m.Branch == branch {
			heir = m.Base
		}
	}
	for _, m := range r.mrs() {
		switch {
		case !m.Open:
		case !m.Fork && m.Branch == branch, m.Base == branch && r.branches[heir] == "":
			if err := h.closeMR(r, m, actor); err != nil {
				return err
			}
		case m.Base == branch:
			if err := h.retarget(r, m, actor, heir); err != nil {
				return err
			}
		}
	}
	return nil
}

// MergeMR merges a merge request as login with a merge commit, subject to the
// branch's rules, and answers the merge commit.
func (h *Host) MergeMR(repo string, number int, login string) (sha string, err error) {
	err = h.withMR(repo, number, login, func(r *repository, m *mergeRequest, u *user) error {
		sha, err = h.merge(r, m, u, mergeOptions{method: "merge"})
		return err
	})
	return sha, err
}

type mergeOptions struct {
	method, guard, title, message string

	squashMessage string // these two on a GitLab
	removeSource  bool
}

func (h *Host) merge(r *repository, m *mergeRequest, u *user, o mergeOptions) (string, error) {
	if h.gl != nil {
		return h.gl.accept(r, m, u, o)
	}
	if err := h.mayMerge(r, m, u, o); err != nil {
		return "", err
	}
	base := r.branches[m.Base]
	tree, ok, err := h.mergeTree(r, base, m.Head)
	if err != nil {
		return "", err
	}
	if !ok {
		return "", refuse(refusedNotMergeable, "Pull Request is not mergeable")
	}
	title := cmp.Or(o.title, fmt.Sprintf("Merge pull request #%d from %s/%s", m.Number, m.headOwner(r).Login, m.Branch))
	message := cmp.Or(o.message, m.Title)
	parents := []string{base, m.Head}
	if o.method == "squash" {
		title, parents = cmp.Or(o.title, fmt.Sprintf("%s (#%d)", m.Title, m.Number)), parents[:1]
	}
	who := ident{Name: u.name(), Email: u.email(), When: h.now().Truncate(time.Second)}
	sha, err := h.commitTree(r, tree, who, title+"\n\n"+message+"\n", parents...)
	if err != nil {
		return "", err
	}
	// The old value makes a push by path in this instant win.
	if _, err := h.git(r.path, nil, "update-ref", "refs/heads/"+m.Base, sha, base); err != nil {
		return "", refuse(refusedHeadMoved, "Base branch was modified. Review and try the merge again.")
	}
	h.merged(r, m, sha, u)
	if err := h.scan(r, u); err != nil {
		return "", err
	}
	h.emit(event{kind: onMR, action: "closed", repo: r, actor: u, mr: m})
	if r.DeleteOnMerge && !m.Fork && r.branches[m.Branch] != "" {
		return sha, h.moveBranch(r, m.Branch, "", u)
	}
	return sha, nil
}

func (m *mergeRequest) headOwner(r *repository) *user {
	if m.Fork {
		return m.Author
	}
	return r.Owner
}

func (h *Host) mayMerge(r *repository, m *mergeRequest, u *user, o mergeOptions) error {
	switch {
	case !atLeast(h.role(r, u), RoleWrite):
		return refuse(refusedForbidden, "Must have write access to merge")
	case !m.Open:
		return refuse(refusedNotMergeable, "Pull Request is not mergeable")
	case m.Draft:
		return refuse(refusedNotMergeable, "Pull Request is still a draft")
	case o.guard != "" && o.guard != m.Head:
		return refuse(refusedHeadMoved, "Head branch was modified. Review and try the merge again.")
	case o.method == "merge" && !r.AllowMerge:
		return refuse(refusedNotMergeable, "Merge commits are not allowed on this repository.")
	case o.method == "squash" && !r.AllowSquash:
		return refuse(refusedNotMergeable, "Squash merges are not allowed on this repository.")
	case o.method == "rebase":
		return refuse(refusedNotMergeable, "Rebase merges are not allowed on this repository.")
	}
	if err := h.mayTouchWorkflows(r, m, u); err != nil {
		return err
	}
	rules := r.rules[m.Base]
	switch {
	case rules.bypasses(u.Login):
		return nil
	case rules.MergeQueue:
		return refuse(refusedNotMergeable, "Changes must be made through the merge queue")
	case rules.Linear && o.method == "merge", len(rules.Methods) > 0 && !slices.Contains(rules.Methods, o.method):
		return refuse(refusedNotMergeable, "Repository rule violations found\n\nThis branch must not contain merge commits.")
	}
	return h.unmet(r, m, rules)
}

// mayTouchWorkflows refuses the App without the permission what it may not push either.
func (h *Host) mayTouchWorkflows(r *repository, m *mergeRequest, u *user) error {
	if h.gl != nil || u != h.bot() || !u.Bot || h.opt.AppPermissions["workflows"] == "write" {
		return nil
	}
	out, err := h.git(r.path, nil, "diff", "--name-only", "-z", m.BaseSHA+"..."+m.Head, "--", ".github/workflows")
	if err != nil {
		return err
	}
	if file, _, ok := strings.Cut(string(out), "\x00"); ok {
		return refuse(refusedForbidden, "refusing to allow a GitHub App to create or update workflow `%s` without `workflows` permission", file)
	}
	return nil
}

// unmet answers the first of the branch's rules that m does not satisfy.
func (h *Host) unmet(r *repository, m *mergeRequest, rules Rules) error {
	if err := h.missingCheck(r, m.Head, rules); err != nil {
		return err
	}
	if rules.Strict {
		missing, err := h.between(r, m.Head, r.branches[m.Base])
		if err != nil {
			return err
		}
		if len(missing) > 0 {
			return refuse(refusedNotMergeable, "The head branch is not up to date with the base branch.")
		}
	}
	approvals := 0
	for _, v := range h.opinions(r, m) {
		if v.State == ChangesRequested && rules.RequiredApprovals > 0 {
			return refuse(refusedNotMergeable, "Changes have been requested on this pull request.")
		}
		if v.State == Approved {
			approvals++
		}
	}
	if approvals < rules.RequiredApprovals {
		return refuse(refusedNotMergeable, "At least %d approving review is required by reviewers with write access.", rules.RequiredApprovals)
	}
	return nil
}
