package github

import (
	"context"
	"errors"
	"fmt"
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
	demands, err := h.readDemands(ctx, repo, target)
	if err != nil {
		return fail(err)
	}
	required := demands.checks
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
