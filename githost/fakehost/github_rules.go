package fakehost

import (
	"net/http"
)

// protection is classic branch protection. Rules set here show up as rulesets
// (rules/branches) too, as both sources do on a real host.
func (c *call) protection(branch string) (int, any, error) {
	if c.who.inst == nil {
		if err := c.need(RoleAdmin); err != nil {
			return 0, nil, err
		}
	}
	rules, ok := c.repo.rules[branch]
	if !ok {
		return 0, nil, &apiError{status: 404, message: "Branch not protected"}
	}
	url := c.gh.api("/repos/%s/branches/%s/protection", c.repo.fullName(), branch)
	off := object{"enabled": false}
	o := object{
		"url": url, "enforce_admins": object{"url": url + "/enforce_admins", "enabled": false}, "required_linear_history": object{"enabled": rules.Linear},
		"allow_force_pushes": off, "allow_deletions": off, "block_creations": off, "required_conversation_resolution": off, "lock_branch": off, "allow_fork_syncing": off,
	}
	if len(rules.RequiredChecks) > 0 {
		o["required_status_checks"] = object{
			"url": url + "/required_status_checks", "contexts_url": url + "/required_status_checks/contexts", "strict": rules.Strict,
			"contexts": rules.RequiredChecks, "checks": checksOf(rules.RequiredChecks),
		}
	}
	if rules.RequiredApprovals > 0 {
		users, apps := []any{}, []object{}
		for _, login := range rules.Bypass {
			switch u := c.h.addUser(login); u {
			case c.h.bot():
				apps = append(apps, c.gh.app())
			default:
				users = append(users, c.gh.user(u))
			}
		}
		o["required_pull_request_reviews"] = object{
			"url": url + "/required_pull_request_reviews", "dismiss_stale_reviews": rules.DismissStale, "require_code_owner_reviews": false,
			"required_approving_review_count": rules.RequiredApprovals, "require_last_push_approval": false,
			"bypass_pull_request_allowances": object{"users": users, "teams": []object{}, "apps": apps},
		}
	}
	return http.StatusOK, o, nil
}

func getRules(c *call) (int, any, error) {
	branch := c.req.PathValue("branch")
	out := []object{}
	for _, o := range c.rules(branch) {
		o["ruleset_source_type"], o["ruleset_source"], o["ruleset_id"] = "Repository", c.repo.fullName(), c.repo.rulesets[branch]
		out = append(out, o)
	}
	return http.StatusOK, page(c, out), nil
}

// getRuleset answers the ruleset that holds the rules of one branch.
func getRuleset(c *call) (int, any, error) {
	id := c.number("id")
	for branch, x := range c.repo.rules {
		if c.repo.rulesets[branch] != id {
			continue
		}
		can := "never"
		if c.who.user != nil && x.bypasses(c.who.user.Login) {
			can = "always"
		}
		return http.StatusOK, object{
			"id": id, "name": branch, "target": "branch", "source_type": "Repository", "source": c.repo.fullName(), "enforcement": "active",
			"current_user_can_bypass": can, "rules": c.rules(branch),
			"conditions": object{"ref_name": object{"include": []string{"refs/heads/" + branch}, "exclude": []string{}}},
			"created_at": moment(c.repo.Created), "updated_at": moment(c.repo.Updated),
		}, nil
	}
	return 0, nil, errNotFound
}

// rules are the rules of a branch as rulesets show them.
func (c *call) rules(branch string) []object {
	x := c.repo.rules[branch]
	out := []object{}
	add := func(kind string, parameters object) {
		o := object{"type": kind}
		if parameters != nil {
			o["parameters"] = parameters
		}
		out = append(out, o)
	}
	if len(x.RequiredChecks) > 0 {
		add("required_status_checks", object{
			"strict_required_status_checks_policy": x.Strict, "do_not_enforce_on_create": false,
			"required_status_checks": list(x.RequiredChecks, func(n string) object { return object{"context": n} }),
		})
	}
	if x.RequiredApprovals > 0 || len(x.Methods) > 0 {
		methods := x.Methods
		if len(methods) == 0 {
			methods = []string{"merge", "squash", "rebase"}
		}
		add("pull_request", object{
			"required_approving_review_count": x.RequiredApprovals, "dismiss_stale_reviews_on_push": x.DismissStale, "require_code_owner_review": false,
			"require_last_push_approval": false, "required_review_thread_resolution": false, "allowed_merge_methods": methods,
		})
	}
	if x.Linear {
		add("required_linear_history", nil)
	}
	if x.MergeQueue {
		add("merge_queue", object{
			"check_response_timeout_minutes": 60, "grouping_strategy": "ALLGREEN", "max_entries_to_build": 5, "max_entries_to_merge": 5,
			"merge_method": "MERGE", "min_entries_to_merge": 1, "min_entries_to_merge_wait_minutes": 5,
		})
	}
	return out
}
