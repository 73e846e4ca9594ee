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
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/batchbot/batchbot/bot"
)

// graphQLPause is how long to wait when GraphQL says it is exhausted: its headers are not kept.
const graphQLPause = time.Minute

// statusSource is the source of commit statuses: the combined status does not say who wrote one.
const statusSource = "status"

// ReadChecks reads check runs, statuses, and what the target requires.
func (h *Host) ReadChecks(ctx context.Context, repo bot.Repository, sha, target string) (bot.ChecksReport, error) {
	fail := func(err error) (bot.ChecksReport, error) {
		return bot.ChecksReport{}, fmt.Errorf("reading the checks of %s at %s: %w", repo.Path, bot.ShortSHA(sha), err)
	}
	if !isCommitID(sha) {
		return fail(errors.New("that is not a commit id"))
	}
	runs, err := h.listCheckRuns(ctx, repo, sha)
	if err != nil {
		return fail(err)
	}
	statuses, err := h.listStatuses(ctx, repo, sha)
	if err != nil {
		return fail(err)
	}
	required, err := h.requiredChecks(ctx, repo, target)
	if err != nil {
		return fail(err)
	}
	if err := h.attribute(ctx, repo, sha, runs, statuses, required); err != nil {
		return fail(err)
	}
	return bot.ChecksReport{Checks: append(runs, statuses...), Required: required}, nil
}

// attribute finds out which App wrote a status where the target wants that check from a certain App: the combined status does not say,
// and without knowing the check would be waited for for ever.
func (h *Host) attribute(ctx context.Context, repo bot.Repository, sha string, runs, statuses []bot.Check, required []bot.RequiredCheck) error {
	var open []int // indices of statuses to attribute
	for i, s := range statuses {
		if slices.ContainsFunc(required, func(r bot.RequiredCheck) bool {
			return r.Name == s.Name && r.Source != "" && !slices.ContainsFunc(runs, func(c bot.Check) bool { return c.Name == r.Name && c.Source == r.Source })
		}) {
			open = append(open, i)
		}
	}
	if len(open) == 0 {
		return nil
	}
	var written []*github.RepoStatus
	err := h.call(ctx, repo, func(c *client, owner, name string) (err error) {
		written, _, err = c.Repositories.ListStatuses(ctx, owner, name, sha, &github.ListOptions{PerPage: pageSize})
		return err
	})
	if err != nil {
		return fmt.Errorf("who wrote the statuses: %w", err)
	}
	for _, i := range open {
		for _, s := range written {
			slug, isApp := strings.CutSuffix(s.GetCreator().GetLogin(), "[bot]")
			if s.GetID() != statuses[i].Order || !isApp {
				continue
			}
			id, err := h.appID(ctx, repo, slug)
			if err != nil {
				return err
			}
			if id != 0 {
				statuses[i].Source = strconv.FormatInt(id, 10)
			}
		}
	}
	return nil
}

// appID returns the id of an App, 0 when it cannot be seen.
func (h *Host) appID(ctx context.Context, repo bot.Repository, slug string) (int64, error) {
	h.mu.Lock()
	id, known := h.apps[slug]
	h.mu.Unlock()
	if known {
		return id, nil
	}
	err := h.call(ctx, repo, func(c *client, _, _ string) error {
		var app struct {
			ID int64 `json:"id"`
		}
		err := c.get(ctx, "apps/"+url.PathEscape(slug), &app)
		id = app.ID
		return err
	})
	if err = tolerate(err); err != nil {
		return 0, fmt.Errorf("which App %s is: %w", slug, err)
	}
	h.mu.Lock()
	h.apps[slug] = id
	h.mu.Unlock()
	return id, nil
}

func (h *Host) listCheckRuns(ctx context.Context, repo bot.Repository, sha string) (checks []bot.Check, err error) {
	latest := "latest"
	err = h.call(ctx, repo, func(c *client, owner, name string) error {
		checks = nil
		options := &github.ListCheckRunsOptions{Filter: &latest, ListOptions: github.ListOptions{PerPage: pageSize}}
		for {
			page, resp, err := c.Checks.ListCheckRunsForRef(ctx, owner, name, sha, options)
			if err != nil {
				return err
			}
			for _, run := range page.CheckRuns {
				checks = append(checks, bot.Check{
					Name:   run.GetName(),
					Source: strconv.FormatInt(run.GetApp().GetID(), 10),
					Own:    h.config.AppID != 0 && run.GetApp().GetID() == h.config.AppID,
					State:  runState(run.GetStatus(), run.GetConclusion()),
					URL:    run.GetHTMLURL(),
					Order:  run.GetID(),
				})
			}
			if options.Page = resp.NextPage; options.Page == 0 {
				return nil
			}
		}
	})
	return checks, err
}

// runState maps a check run. Whatever is neither finished nor known is pending: new words for "not yet" appear.
func runState(status, conclusion string) bot.CheckState {
	if status != "completed" {
		return bot.CheckPending
	}
	switch conclusion {
	case "success", "neutral", "skipped":
		return bot.CheckSuccess
	case "cancelled", "stale":
		return bot.CheckCancelled
	case "failure", "timed_out", "action_required", "startup_failure":
		return bot.CheckFailure
	}
	return bot.CheckPending
}

// listStatuses reads the newest status of each context. The combined state is not looked at: it is pending when there is none.
func (h *Host) listStatuses(ctx context.Context, repo bot.Repository, sha string) (checks []bot.Check, err error) {
	err = h.call(ctx, repo, func(c *client, owner, name string) error {
		checks = nil
		options := &github.ListOptions{PerPage: pageSize}
		for {
			page, resp, err := c.Repositories.GetCombinedStatus(ctx, owner, name, sha, options)
			if err != nil {
				return err
			}
			for _, s := range page.Statuses {
				checks = append(checks, bot.Check{
					Name:   s.GetContext(),
					Source: statusSource,
					Own:    s.GetContext() == h.config.StatusContext,
					State:  statusState(s.GetState()),
					URL:    s.GetTargetURL(),
					Order:  s.GetID(),
				})
			}
			if options.Page = resp.NextPage; options.Page == 0 {
				return nil
			}
		}
	})
	return checks, err
}

func statusState(s string) bot.CheckState {
	switch s {
	case "success":
		return bot.CheckSuccess
	case "failure", "error":
		return bot.CheckFailure
	}
	return bot.CheckPending
}

// requiredChecks is what rulesets and classic branch protection demand together.
func (h *Host) requiredChecks(ctx context.Context, repo bot.Repository, target string) ([]bot.RequiredCheck, error) {
	var required []bot.RequiredCheck
	seen := map[bot.RequiredCheck]bool{}
	add := func(name string, app *int64) {
		r := bot.RequiredCheck{Name: name}
		if app != nil && *app > 0 { // -1: anybody
			r.Source = strconv.FormatInt(*app, 10)
		}
		if name != "" && !seen[r] {
			seen[r] = true
			required = append(required, r)
		}
	}
	if err := h.ruleChecks(ctx, repo, target, add); err != nil {
		return nil, fmt.Errorf("what the rules of %s require: %w", target, err)
	}
	if err := h.protectionChecks(ctx, repo, target, add); err != nil {
		return nil, fmt.Errorf("what the protection of %s requires: %w", target, err)
	}
	return required, nil
}

// ruleChecks reads rules as raw JSON: go-github refuses the whole list when it holds one type it does not know (finding 5), and does
// not escape the branch.
func (h *Host) ruleChecks(ctx context.Context, repo bot.Repository, target string, add func(string, *int64)) error {
	type rule struct {
		Type       string          `json:"type"`
		Parameters json.RawMessage `json:"parameters"`
	}
	err := h.call(ctx, repo, func(c *client, owner, name string) error {
		for page := 1; page != 0; {
			var rules []rule
			next, err := c.getPage(ctx, fmt.Sprintf("repos/%s/%s/rules/branches/%s?per_page=%d&page=%d", owner, name, url.PathEscape(target), pageSize, page), &rules)
			if err != nil {
				return err
			}
			for _, r := range rules {
				if r.Type != "required_status_checks" {
					continue
				}
				var p struct {
					Checks []struct {
						Context       string `json:"context"`
						IntegrationID *int64 `json:"integration_id"`
					} `json:"required_status_checks"`
				}
				if err := json.Unmarshal(r.Parameters, &p); err != nil {
					return fmt.Errorf("a rule of type %s: %w", r.Type, err)
				}
				for _, check := range p.Checks {
					add(check.Context, check.IntegrationID)
				}
			}
			page = next
		}
		return nil
	})
	return tolerate(err)
}

// protectionChecks reads classic protection. Without the right to, what the branch itself tells everybody has to do.
func (h *Host) protectionChecks(ctx context.Context, repo bot.Repository, target string, add func(string, *int64)) error {
	type requirement struct {
		Enforcement string   `json:"enforcement_level"`
		Contexts    []string `json:"contexts"`
		Checks      []struct {
			Context string `json:"context"`
			AppID   *int64 `json:"app_id"`
		} `json:"checks"`
	}
	type protection struct {
		Checks requirement `json:"required_status_checks"`
	}
	var found requirement
	err := h.call(ctx, repo, func(c *client, owner, name string) error {
		branch := fmt.Sprintf("repos/%s/%s/branches/%s", owner, name, url.PathEscape(target))
		var full protection
		err := c.get(ctx, branch+"/protection", &full)
		found = full.Checks
		if status, _ := refusal(err); status != http.StatusForbidden {
			return err
		}
		var summary struct {
			Protection protection `json:"protection"`
		}
		err = c.get(ctx, branch, &summary)
		found = summary.Protection.Checks
		return err
	})
	if err := tolerate(err); err != nil {
		return err
	}
	if found.Enforcement == "off" {
		return nil
	}
	named := map[string]bool{}
	for _, check := range found.Checks {
		named[check.Context] = true
		add(check.Context, check.AppID)
	}
	for _, context := range found.Contexts {
		if !named[context] { // contexts repeat checks without their app
			add(context, nil)
		}
	}
	return nil
}

// tolerate drops "not found" and "forbidden": no rule, or none that we may see.
func tolerate(err error) error {
	if errors.Is(err, bot.ErrNotFound) || errors.Is(err, bot.ErrForbidden) {
		return nil
	}
	return err
}
