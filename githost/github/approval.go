package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/go-github/v60/github"

	"github.com/batchbot/batchbot/bot"
)

// Permission reads what actor may do. GitHub has no answer about Apps' users and strangers: they have none.
func (h *Host) Permission(ctx context.Context, repo bot.Repository, who bot.Actor) (bot.Permission, error) {
	if who.Login == "" || who.Bot || isBot("", who.Login) {
		return bot.PermissionNone, nil
	}
	var answer struct {
		Permission string `json:"permission"`
		RoleName   string `json:"role_name"`
		User       struct {
			Permissions map[string]bool `json:"permissions"`
		} `json:"user"`
	}
	err := h.call(ctx, repo, func(c *client, owner, name string) error {
		// go-github's type lacks role_name, which tells maintain from write and triage from read.
		return c.get(ctx, fmt.Sprintf("repos/%s/%s/collaborators/%s/permission", owner, name, url.PathEscape(who.Login)), &answer)
	})
	switch {
	case errors.Is(err, bot.ErrNotFound):
		return bot.PermissionNone, nil
	case err != nil:
		return "", fmt.Errorf("reading the permission of %s in %s: %w", who.Login, repo.Path, err)
	}
	// The permission alone is the coarse legacy one; a custom role's name means nothing here, but what it includes does.
	best := coarse(answer.Permission)
	if named := coarse(answer.RoleName); named.AtLeast(best) {
		best = named
	}
	for flag, p := range map[string]bot.Permission{
		"pull": bot.PermissionRead, "triage": bot.PermissionTriage, "push": bot.PermissionWrite,
		"maintain": bot.PermissionMaintain, "admin": bot.PermissionAdmin,
	} {
		if answer.User.Permissions[flag] && !best.AtLeast(p) {
			best = p
		}
	}
	return best, nil
}

func coarse(name string) bot.Permission {
	switch p := bot.Permission(name); p {
	case bot.PermissionRead, bot.PermissionTriage, bot.PermissionWrite, bot.PermissionMaintain, bot.PermissionAdmin:
		return p
	}
	return bot.PermissionNone
}

// ReadApprovals reads all reviews, who may approve, and GitHub's own verdict.
func (h *Host) ReadApprovals(ctx context.Context, repo bot.Repository, number int) (bot.Approvals, error) {
	fail := func(err error) (bot.Approvals, error) {
		return bot.Approvals{}, fmt.Errorf("reading the approvals of %s#%d: %w", repo.Path, number, err)
	}
	reviews, err := h.listReviews(ctx, repo, number)
	if err != nil {
		return fail(err)
	}
	var result bot.Approvals
	latest := map[int64]int{} // reviewer → index of the last opinion
	for _, r := range reviews {
		state, ok := reviewState(r.GetState())
		if !ok {
			continue // pending: seen only by its author
		}
		if state != bot.ReviewCommented {
			latest[r.GetUser().GetID()] = len(result.Reviews)
		}
		result.Reviews = append(result.Reviews, bot.Review{By: actor(r.User), State: state, SHA: r.GetCommitID(), Permission: bot.PermissionNone})
	}
	for id, i := range latest {
		if r := &result.Reviews[i]; id != 0 && r.State != bot.ReviewDismissed {
			if r.Permission, err = h.Permission(ctx, repo, r.By); err != nil {
				return fail(err)
			}
		}
	}
	if result.Decision, err = h.reviewDecision(ctx, repo, number); err != nil {
		return fail(err)
	}
	return result, nil
}

// reviewState reads REST's upper case and the webhooks' lower case alike.
func reviewState(s string) (bot.ReviewState, bool) {
	switch strings.ToUpper(s) {
	case "APPROVED":
		return bot.ReviewApproved, true
	case "CHANGES_REQUESTED":
		return bot.ReviewChangesRequested, true
	case "DISMISSED":
		return bot.ReviewDismissed, true
	case "COMMENTED":
		return bot.ReviewCommented, true
	}
	return 0, false
}

func (h *Host) listReviews(ctx context.Context, repo bot.Repository, number int) (reviews []*github.PullRequestReview, err error) {
	err = h.call(ctx, repo, func(c *client, owner, name string) error {
		reviews = nil
		options := &github.ListOptions{PerPage: pageSize}
		for {
			page, resp, err := c.PullRequests.ListReviews(ctx, owner, name, number, options)
			if err != nil {
				return err
			}
			reviews = append(reviews, page...)
			if options.Page = resp.NextPage; options.Page == 0 {
				return nil
			}
		}
	})
	return reviews, err
}

const reviewDecisionQuery = `query($owner: String!, $name: String!, $number: Int!) {
  repository(owner: $owner, name: $name) { pullRequest(number: $number) { reviewDecision } }
}`

// reviewDecision asks for the one thing only GraphQL knows. A host without it, or one that does not let us ask, has no verdict.
func (h *Host) reviewDecision(ctx context.Context, repo bot.Repository, number int) (bot.HostDecision, error) {
	var answer struct {
		Data struct {
			Repository struct {
				PullRequest *struct {
					ReviewDecision *string `json:"reviewDecision"`
				} `json:"pullRequest"`
			} `json:"repository"`
		} `json:"data"`
		Errors []struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"errors"`
	}
	err := h.call(ctx, repo, func(c *client, owner, name string) error {
		// Relative to the API's address this is right on github.com and on GitHub Enterprise Server.
		req, err := c.NewRequest(http.MethodPost, "../graphql", map[string]any{
			"query":     reviewDecisionQuery,
			"variables": map[string]any{"owner": owner, "name": name, "number": number},
		})
		if err != nil {
			return err
		}
		_, err = c.Do(ctx, req, &answer)
		return err
	})
	if status := errors.Is(err, bot.ErrNotFound) || errors.Is(err, bot.ErrForbidden); status {
		h.log.Debug("no review decision", "repo", repo.Path, "mr", number, "error", err)
		return bot.HostDecisionUnknown, nil
	}
	if err != nil {
		return 0, fmt.Errorf("asking for the review decision: %w", err)
	}
	// GraphQL fails with status 200.
	for _, e := range answer.Errors {
		if e.Type == "RATE_LIMITED" {
			return 0, &bot.RateLimitedError{RetryAfter: graphQLPause}
		}
	}
	pr := answer.Data.Repository.PullRequest
	if len(answer.Errors) > 0 || pr == nil {
		h.log.Debug("no review decision", "repo", repo.Path, "mr", number)
		return bot.HostDecisionUnknown, nil
	}
	if pr.ReviewDecision == nil {
		return bot.HostDecisionNone, nil
	}
	switch *pr.ReviewDecision {
	case "APPROVED":
		return bot.HostDecisionApproved, nil
	case "CHANGES_REQUESTED":
		return bot.HostDecisionBlocked, nil
	case "REVIEW_REQUIRED":
		return bot.HostDecisionRequired, nil
	}
	return bot.HostDecisionUnknown, nil
}
