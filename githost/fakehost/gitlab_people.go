package fakehost

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

func glVersion(c *glCall) (int, any, error) {
	if c.who == nil {
		return 0, nil, errGLUnauthorized
	}
	return http.StatusOK, object{"version": cmp.Or(c.gl.set.Version, "18.0.0-ee"), "revision": "fakehost", "enterprise": !c.gl.set.Free}, nil
}

func glMe(c *glCall) (int, any, error) {
	if c.who == nil {
		return 0, nil, errGLUnauthorized
	}
	return http.StatusOK, c.gl.account(c.who), nil
}

func (g *gitlab) userByID(id string) *user {
	for _, u := range g.h.users {
		if strconv.FormatInt(u.ID, 10) == id {
			return u
		}
	}
	return nil
}

func glGetUser(c *glCall) (int, any, error) {
	if u := c.gl.userByID(c.vars["user"]); u != nil {
		return http.StatusOK, c.gl.account(u), nil
	}
	return 0, nil, glRefuse(404, "404 User Not Found")
}

func glListUsers(c *glCall) (int, any, error) {
	var found []*user
	for _, login := range sortedKeys(c.h.users) {
		if name := c.str("username"); name == "" || strings.EqualFold(name, login) {
			found = append(found, c.h.users[login])
		}
	}
	return http.StatusOK, list(glPage(c, found), func(u *user) object { return c.gl.user(u).(object) }), nil
}

func glListProjects(c *glCall) (int, any, error) {
	var found []*repository
	for _, path := range sortedKeys(c.h.repos) {
		r := c.h.repos[path]
		level := c.gl.level(r, c.who)
		least, _ := strconv.Atoi(c.str("min_access_level"))
		switch {
		case c.h.role(r, c.who) == RoleNone, c.yes("membership") && level == 0, level < least,
			c.has("archived") && c.yes("archived") != r.Archived,
			c.has("search") && !strings.Contains(path, strings.ToLower(c.str("search"))):
		default:
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b *repository) int { return int(b.ID - a.ID) })
	if c.str("sort") == "asc" {
		slices.Reverse(found)
	}
	return http.StatusOK, list(glPage(c, found), func(r *repository) object {
		if c.yes("simple") {
			return c.gl.simpleProject(r)
		}
		return c.gl.fullProject(r, c.who)
	}), nil
}

func glGetProject(c *glCall) (int, any, error) {
	return http.StatusOK, c.gl.fullProject(c.repo, c.who), nil
}

func glEditProject(c *glCall) (int, any, error) {
	if err := c.must(RoleMaintain); err != nil {
		return 0, nil, err
	}
	p := c.repo.gl.Project
	if c.has("merge_method") {
		p.MergeMethod = c.str("merge_method")
	}
	if c.has("squash_option") {
		p.SquashOption = c.str("squash_option")
	}
	if c.has("only_allow_merge_if_pipeline_succeeds") {
		p.PipelineMustSucceed = c.yes("only_allow_merge_if_pipeline_succeeds")
	}
	if c.has("merge_trains_enabled") && !c.gl.set.Free {
		p.MergeTrains = c.yes("merge_trains_enabled")
	}
	p, err := p.complete()
	if err != nil {
		return 0, nil, err
	}
	c.repo.gl.Project = p
	return http.StatusOK, c.gl.fullProject(c.repo, c.who), nil
}

func (g *gitlab) member(r *repository, u *user) object {
	o := g.user(u).(object)
	o["access_level"], o["created_at"], o["expires_at"], o["membership_state"] = g.level(r, u), glTime(r.Created), nil, "active"
	return o
}

func glListMembers(c *glCall) (int, any, error) {
	var found []*user
	for _, login := range sortedKeys(c.h.users) {
		if u := c.h.users[login]; c.gl.level(c.repo, u) > 0 {
			found = append(found, u)
		}
	}
	return http.StatusOK, list(glPage(c, found), func(u *user) object { return c.gl.member(c.repo, u) }), nil
}

func glGetMember(c *glCall) (int, any, error) {
	u := c.gl.userByID(c.vars["user"])
	if u == nil || c.gl.level(c.repo, u) == 0 {
		return 0, nil, errGLNotFound
	}
	return http.StatusOK, c.gl.member(c.repo, u), nil
}

func (c *glCall) protected(branch string) object {
	p := c.repo.gl.protected[branch]
	level := func(n int) []object {
		name := map[int]string{NoAccess: "No one", Developer: "Developers + Maintainers", Maintainer: "Maintainers"}[n]
		return []object{{"id": n + 1, "access_level": n, "access_level_description": name, "user_id": nil, "group_id": nil}}
	}
	return object{
		"id": c.repo.ID, "name": branch, "push_access_levels": level(p.Push), "merge_access_levels": level(p.Merge), "unprotect_access_levels": []object{},
		"allow_force_push": false, "code_owner_approval_required": false, "inherited": false,
	}
}

func glListProtected(c *glCall) (int, any, error) {
	if err := c.must(RoleTriage); err != nil {
		return 0, nil, err
	}
	return http.StatusOK, list(glPage(c, sortedKeys(c.repo.gl.protected)), c.protected), nil
}

func glGetProtected(c *glCall) (int, any, error) {
	if err := c.must(RoleTriage); err != nil {
		return 0, nil, err
	}
	branch := c.vars["branch"]
	if _, ok := c.repo.gl.protected[branch]; !ok {
		return 0, nil, errGLNotFound
	}
	return http.StatusOK, c.protected(branch), nil
}

func (g *gitlab) approval(m *mergeRequest) []object {
	return list(g.approvers(m), func(v *review) object { return object{"user": g.user(v.Author), "approved_at": glTime(v.Submitted)} })
}

// left is how many approvals a merge request still wants.
func (g *gitlab) left(r *repository, m *mergeRequest) int {
	if g.set.Free {
		return 0
	}
	n := r.rules[m.Base].RequiredApprovals
	for _, v := range g.approvers(m) {
		if g.level(r, v.Author) >= Developer {
			n--
		}
	}
	return max(0, n)
}

func (c *glCall) approvals(m *mergeRequest) object {
	has := slices.ContainsFunc(c.gl.approvers(m), func(v *review) bool { return v.Author == c.who })
	o := object{
		"user_has_approved": has, "user_can_approve": !has && c.who != m.Author && c.gl.level(c.repo, c.who) >= Developer,
		"approved": len(c.gl.approvers(m)) > 0, "approved_by": c.gl.approval(m),
	}
	if c.gl.set.Free {
		return o
	}
	required, left := c.repo.rules[m.Base].RequiredApprovals, c.gl.left(c.repo, m)
	maps.Copy(o, object{
		"id": m.ID, "iid": m.Number, "project_id": c.repo.ID, "title": m.titleGL(), "description": m.Body, "state": m.stateGL(),
		"created_at": glTime(m.Created), "updated_at": glTime(m.Updated), "merge_status": "can_be_merged", "approved": left == 0,
		"approvals_required": required, "approvals_left": left, "require_password_to_approve": false, "suggested_approvers": []any{},
		"approvers": []any{}, "approver_groups": []any{}, "approval_rules_left": []any{}, "has_approval_rules": required > 0,
		"merge_request_approvers_available": true, "multiple_approval_rules_available": true, "invalid_approvers_rules": []any{},
	})
	return o
}

func glApprovals(c *glCall) (int, any, error) {
	m, err := c.mr()
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, c.approvals(m), nil
}

func (c *glCall) approvalRules(m *mergeRequest) []object {
	required := c.repo.rules[m.Base].RequiredApprovals
	users := []object{}
	for _, v := range c.gl.approvers(m) {
		users = append(users, c.gl.user(v.Author).(object))
	}
	return []object{{
		"id": m.ID, "name": "All Members", "rule_type": "any_approver", "report_type": nil, "eligible_approvers": []any{}, "approvals_required": required,
		"users": []any{}, "groups": []any{}, "contains_hidden_groups": false, "section": nil, "source_rule": nil, "overridden": false,
		"code_owner": false, "approved_by": users, "approved": c.gl.left(c.repo, m) == 0,
	}}
}

func glApprovalState(c *glCall) (int, any, error) {
	m, err := c.mr()
	if err != nil {
		return 0, nil, err
	}
	if c.gl.set.Free {
		return 0, nil, errGLNoEndpoint
	}
	return http.StatusOK, object{"approval_rules_overwritten": false, "rules": c.approvalRules(m)}, nil
}

func glApprovalRules(c *glCall) (int, any, error) {
	m, err := c.mr()
	if err != nil {
		return 0, nil, err
	}
	if c.gl.set.Free {
		return 0, nil, errGLNoEndpoint
	}
	return http.StatusOK, c.approvalRules(m), nil
}

func glApprove(c *glCall) (int, any, error) {
	m, err := c.mr()
	if err != nil {
		return 0, nil, err
	}
	if o := c.approvals(m); o["user_can_approve"] != true {
		return 0, nil, errGLUnauthorized
	}
	if sha := c.str("sha"); sha != "" && sha != m.Head {
		return 0, nil, refuse(refusedHeadMoved, "SHA does not match HEAD of source branch: %s", m.Head)
	}
	if _, err := c.h.review(c.repo, m, c.who, Approved, "", ""); err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, c.approvals(m), nil
}

func glUnapprove(c *glCall) (int, any, error) {
	m, err := c.mr()
	if err != nil {
		return 0, nil, err
	}
	for _, v := range c.gl.approvers(m) {
		if v.Author == c.who {
			if err := c.h.dismiss(c.repo, m, v.ID, c.who); err != nil {
				return 0, nil, err
			}
			return http.StatusCreated, c.approvals(m), nil
		}
	}
	return 0, nil, errGLNotFound
}
