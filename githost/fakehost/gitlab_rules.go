package fakehost

import (
	"net/http"
)

// ruled lists the branches whose rules demand something, with an id for each
// rule that stays the same.
func (c *glCall) ruled(demands func(Rules) bool) []string {
	var list []string
	for _, branch := range sortedKeys(c.repo.rules) {
		if demands(c.repo.rules[branch]) {
			list = append(list, branch)
		}
	}
	return list
}

func (c *glCall) branches(names ...string) []object {
	return list(names, func(n string) object { return object{"id": c.repo.rulesets[n], "name": n} })
}

// resets tells whether a push takes approvals away: a GitLab has that for a
// whole project.
func (g *gitlab) resets(r *repository) bool {
	if g.set.Free {
		return false
	}
	for _, x := range r.rules {
		if x.DismissStale {
			return true
		}
	}
	return false
}

// premium refuses what the free edition does not have, as if it did not exist.
func (c *glCall) premium() error {
	if c.gl.set.Free {
		return errGLNoEndpoint
	}
	return nil
}

func glApprovalSettings(c *glCall) (int, any, error) {
	if err := c.premium(); err != nil {
		return 0, nil, err
	}
	return http.StatusOK, object{
		"approvals_before_merge": 0, "reset_approvals_on_push": c.gl.resets(c.repo), "selective_code_owner_removals": false,
		"disable_overriding_approvers_per_merge_request": false, "merge_requests_author_approval": false,
		"merge_requests_disable_committers_approval": false, "require_password_to_approve": false,
	}, nil
}

func glProjectRules(c *glCall) (int, any, error) {
	if err := c.premium(); err != nil {
		return 0, nil, err
	}
	ruled := c.ruled(func(x Rules) bool { return x.RequiredApprovals > 0 })
	return http.StatusOK, list(glPage(c, ruled), func(branch string) object {
		return object{
			"id": c.repo.rulesets[branch], "name": branch, "rule_type": "regular", "report_type": nil, "eligible_approvers": []any{},
			"approvals_required": c.repo.rules[branch].RequiredApprovals, "users": []any{}, "groups": []any{}, "contains_hidden_groups": false,
			"protected_branches": c.branches(branch), "applies_to_all_protected_branches": false,
		}
	}), nil
}

// glStatusChecks lists the checks demanded by name: each of a branch's required
// checks is an external status check of it.
func glStatusChecks(c *glCall) (int, any, error) {
	if err := c.premium(); err != nil {
		return 0, nil, err
	}
	out := []object{}
	for _, branch := range c.ruled(func(x Rules) bool { return len(x.RequiredChecks) > 0 }) {
		for i, name := range c.repo.rules[branch].RequiredChecks {
			out = append(out, object{
				"id": c.repo.rulesets[branch]*100 + int64(i), "project_id": c.repo.ID, "name": name, "external_url": "http://checks.test/" + name, "hmac": false,
				"protected_branches": c.branches(branch),
			})
		}
	}
	return http.StatusOK, glPage(c, out), nil
}

// glMRStatusChecks tells how a merge request's external checks stand: by the
// newest status of their name on its head.
func glMRStatusChecks(c *glCall) (int, any, error) {
	m, err := c.mr()
	if err != nil {
		return 0, nil, err
	}
	if err := c.premium(); err != nil {
		return 0, nil, err
	}
	out := []object{}
	for i, name := range c.repo.rules[m.Base].RequiredChecks {
		status := "pending"
		switch c.h.verdict(c.repo, m.Head, name) {
		case "success":
			status = "passed"
		case "failure", "error":
			status = "failed"
		}
		out = append(out, object{"id": c.repo.rulesets[m.Base]*100 + int64(i), "name": name, "external_url": "http://checks.test/" + name, "status": status})
	}
	return http.StatusOK, glPage(c, out), nil
}

// glReviewers lists who was asked for an opinion or gave one, with the last.
func glReviewers(c *glCall) (int, any, error) {
	m, err := c.mr()
	if err != nil {
		return 0, nil, err
	}
	last := map[*user]*review{}
	var order []*user
	for _, v := range m.reviews {
		if v.State == Pending {
			continue
		}
		if last[v.Author] == nil {
			order = append(order, v.Author)
		}
		last[v.Author] = v
	}
	words := map[string]string{Approved: "approved", ChangesRequested: "requested_changes", Commented: "reviewed", Dismissed: "unapproved"}
	return http.StatusOK, list(glPage(c, order), func(u *user) object {
		return object{"user": c.gl.user(u), "state": words[last[u].State], "created_at": glTime(last[u].Submitted)}
	}), nil
}
