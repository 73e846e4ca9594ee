package github

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/batchbot/batchbot/bot"
)

// demands is what rulesets and classic branch protection want of a branch, together.
type demands struct {
	checks         []bot.RequiredCheck
	reviews        int
	linear, queue  bool
	noMergeCommits bool // a rule lists the ways to merge, and a merge commit is not among them

	reviewRulesets []int64 // rulesets that want reviews
	reviewClassic  bool    // classic protection wants reviews …
	allowance      allowance
}

// allowance is who classic protection lets by without reviews.
type allowance struct {
	Users []struct {
		Login string `json:"login"`
	} `json:"users"`
	Apps []struct {
		ID   int64  `json:"id"`
		Slug string `json:"slug"`
	} `json:"apps"`
}

// ReadTargetRules reads what landing on a branch takes. Whether the bot is let by is asked only where reviews are wanted.
func (h *Host) ReadTargetRules(ctx context.Context, repo bot.Repository, branch string) (bot.TargetRules, error) {
	fail := func(err error) (bot.TargetRules, error) {
		return bot.TargetRules{}, fmt.Errorf("reading the rules of %s of %s: %w", branch, repo.Path, err)
	}
	d, err := h.readDemands(ctx, repo, branch)
	if err != nil {
		return fail(err)
	}
	settings, err := h.ReadRepository(ctx, repo)
	if err != nil {
		return fail(err)
	}
	rules := bot.TargetRules{
		LinearHistory:   d.linear,
		MergeQueue:      d.queue,
		SquashOnly:      d.noMergeCommits || !settings.MergeCommits,
		RequiredReviews: d.reviews,
		RequiredChecks:  d.checks,
	}
	if d.reviews > 0 {
		if rules.BotBypasses, err = h.bypasses(ctx, repo, d); err != nil {
			return fail(err)
		}
	}
	return rules, nil
}

// readDemands reads both kinds of rules.
func (h *Host) readDemands(ctx context.Context, repo bot.Repository, target string) (d demands, err error) {
	if err := h.readRules(ctx, repo, target, &d); err != nil {
		return demands{}, fmt.Errorf("what the rules of %s require: %w", target, err)
	}
	if err := h.readProtection(ctx, repo, target, &d); err != nil {
		return demands{}, fmt.Errorf("what the protection of %s requires: %w", target, err)
	}
	return d, nil
}

// require adds a check, once.
func (d *demands) require(name string, app *int64) {
	r := bot.RequiredCheck{Name: name}
	if app != nil && *app > 0 { // -1: anybody
		r.Source = strconv.FormatInt(*app, 10)
	}
	if name != "" && !slices.Contains(d.checks, r) {
		d.checks = append(d.checks, r)
	}
}

// rule is one rule of a ruleset. Types appear that no library knows.
type rule struct {
	Type       string          `json:"type"`
	Ruleset    int64           `json:"ruleset_id"`
	Parameters json.RawMessage `json:"parameters"`
}

// readRules reads rules as raw JSON: go-github refuses the whole list when it holds one type it does not know (finding 5), and does
// not escape the branch.
func (h *Host) readRules(ctx context.Context, repo bot.Repository, target string, d *demands) error {
	var all []rule
	err := h.call(ctx, repo, func(c *client, owner, name string) error {
		all = nil
		for page := 1; page != 0; {
			var rules []rule
			next, err := c.getPage(ctx, fmt.Sprintf("repos/%s/%s/rules/branches/%s?per_page=%d&page=%d", owner, name, url.PathEscape(target), pageSize, page), &rules)
			if err != nil {
				return err
			}
			all, page = append(all, rules...), next
		}
		return nil
	})
	if err := tolerate(err); err != nil {
		return err
	}
	for _, r := range all {
		if err := d.add(r); err != nil {
			return fmt.Errorf("a rule of type %s: %w", r.Type, err)
		}
	}
	return nil
}

func (d *demands) add(r rule) error {
	switch r.Type {
	case "required_linear_history":
		d.linear = true
	case "merge_queue":
		d.queue = true
	case "required_status_checks":
		var p struct {
			Checks []struct {
				Context       string `json:"context"`
				IntegrationID *int64 `json:"integration_id"`
			} `json:"required_status_checks"`
		}
		if err := json.Unmarshal(r.Parameters, &p); err != nil {
			return err
		}
		for _, check := range p.Checks {
			d.require(check.Context, check.IntegrationID)
		}
	case "pull_request":
		var p struct {
			Reviews int      `json:"required_approving_review_count"`
			Methods []string `json:"allowed_merge_methods"`
		}
		if err := json.Unmarshal(r.Parameters, &p); err != nil {
			return err
		}
		if p.Reviews > 0 {
			d.reviews, d.reviewRulesets = max(d.reviews, p.Reviews), append(d.reviewRulesets, r.Ruleset)
		}
		d.noMergeCommits = d.noMergeCommits || len(p.Methods) > 0 && !slices.Contains(p.Methods, "merge")
	}
	return nil
}

// protection is classic branch protection; the branch itself shows the part about checks to everybody.
type protection struct {
	Checks struct {
		Enforcement string   `json:"enforcement_level"`
		Contexts    []string `json:"contexts"`
		Checks      []struct {
			Context string `json:"context"`
			AppID   *int64 `json:"app_id"`
		} `json:"checks"`
	} `json:"required_status_checks"`
	Reviews struct {
		Count  int       `json:"required_approving_review_count"`
		Bypass allowance `json:"bypass_pull_request_allowances"`
	} `json:"required_pull_request_reviews"`
	Linear struct {
		Enabled bool `json:"enabled"`
	} `json:"required_linear_history"`
}

// readProtection reads classic protection. Without the right to, what the branch itself tells everybody has to do.
func (h *Host) readProtection(ctx context.Context, repo bot.Repository, target string, d *demands) error {
	var found protection
	err := h.call(ctx, repo, func(c *client, owner, name string) error {
		found = protection{}
		branch := fmt.Sprintf("repos/%s/%s/branches/%s", owner, name, url.PathEscape(target))
		err := c.get(ctx, branch+"/protection", &found)
		if status, _ := refusal(err); status != http.StatusForbidden {
			return err
		}
		var summary struct {
			Protection protection `json:"protection"`
		}
		err = c.get(ctx, branch, &summary)
		found = summary.Protection
		return err
	})
	if err := tolerate(err); err != nil {
		return err
	}
	d.linear = d.linear || found.Linear.Enabled
	if n := found.Reviews.Count; n > 0 {
		d.reviews, d.reviewClassic, d.allowance = max(d.reviews, n), true, found.Reviews.Bypass
	}
	if found.Checks.Enforcement == "off" {
		return nil
	}
	named := map[string]bool{}
	for _, check := range found.Checks.Checks {
		named[check.Context] = true
		d.require(check.Context, check.AppID)
	}
	for _, context := range found.Checks.Contexts {
		if !named[context] { // contexts repeat checks without their app
			d.require(context, nil)
		}
	}
	return nil
}

// bypasses reports whether every rule that wants reviews lets the bot by without them. Whatever does not say so does not.
func (h *Host) bypasses(ctx context.Context, repo bot.Repository, d demands) (bool, error) {
	if d.reviewClassic {
		login, err := h.ownLogin(ctx)
		if err != nil {
			return false, err
		}
		if !d.allowance.names(login, h.config.AppID) {
			return false, nil
		}
	}
	for _, id := range d.reviewRulesets {
		var ruleset struct {
			CanBypass string `json:"current_user_can_bypass"`
		}
		err := h.call(ctx, repo, func(c *client, owner, name string) error {
			return c.get(ctx, fmt.Sprintf("repos/%s/%s/rulesets/%d", owner, name, id), &ruleset)
		})
		if errors.Is(err, bot.ErrNotFound) || errors.Is(err, bot.ErrForbidden) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("whether ruleset %d lets the bot by: %w", id, err)
		}
		switch ruleset.CanBypass {
		case "always", "pull_requests_only", "exempt":
		default:
			return false, nil
		}
	}
	return true, nil
}

func (a allowance) names(login string, app int64) bool {
	for _, u := range a.Users {
		if strings.EqualFold(u.Login, login) {
			return true
		}
	}
	for _, x := range a.Apps {
		if app != 0 && x.ID == app {
			return true
		}
	}
	return false
}

// tolerate drops "not found" and "forbidden": no rule, or none that we may see.
func tolerate(err error) error {
	if errors.Is(err, bot.ErrNotFound) || errors.Is(err, bot.ErrForbidden) {
		return nil
	}
	return err
}
