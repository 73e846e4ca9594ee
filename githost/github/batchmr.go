package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/go-github/v60/github"

	"github.com/batchbot/batchbot/bot"
)

// FindMRs lists the pull requests from a branch of the repository itself, newest first. Closed ones are read again, because a list
// does not say whether they were merged.
func (h *Host) FindMRs(ctx context.Context, repo bot.Repository, source string) ([]bot.MRSnapshot, error) {
	fail := func(err error) ([]bot.MRSnapshot, error) {
		return nil, fmt.Errorf("finding the merge requests of %s from %s: %w", repo.Path, source, err)
	}
	var found []*github.PullRequest
	err := h.call(ctx, repo, func(c *client, owner, name string) error {
		found = nil
		options := &github.PullRequestListOptions{
			State: "all", Head: owner + ":" + source, Sort: "created", Direction: "desc",
			ListOptions: github.ListOptions{PerPage: pageSize},
		}
		for {
			page, resp, err := c.PullRequests.List(ctx, owner, name, options)
			if err != nil {
				return err
			}
			for _, pr := range page {
				// A host that ignores the filter, and forks with the same branch name, must not be mistaken for ours.
				if pr.GetHead().GetRef() == source && !snapshot(pr).FromFork {
					found = append(found, pr)
				}
			}
			if options.Page = resp.NextPage; options.Page == 0 {
				return nil
			}
		}
	})
	if err != nil {
		return fail(err)
	}
	list := make([]bot.MRSnapshot, 0, len(found))
	for _, pr := range found {
		if pr.GetState() != "open" {
			if pr, err = h.readPR(ctx, repo, pr.GetNumber()); err != nil {
				return fail(err)
			}
		}
		list = append(list, snapshot(pr))
	}
	return list, nil
}

// OpenMR creates a pull request, or returns the open one that a lost answer left behind.
func (h *Host) OpenMR(ctx context.Context, repo bot.Repository, mr bot.NewMR) (bot.MRSnapshot, error) {
	var (
		pr      *github.PullRequest
		refused error
	)
	err := h.call(ctx, repo, func(c *client, owner, name string) (err error) {
		pr, _, err = c.PullRequests.Create(ctx, owner, name, &github.NewPullRequest{
			Title: &mr.Title, Head: &mr.Source, Base: &mr.Target, Body: &mr.Body,
		})
		refused = err
		return err
	})
	if err == nil {
		return snapshot(pr), nil
	}
	if status, message := refusal(refused); status == http.StatusUnprocessableEntity && strings.Contains(message, "already exists") {
		list, findErr := h.FindMRs(ctx, repo, mr.Source)
		if findErr != nil {
			return bot.MRSnapshot{}, findErr
		}
		for _, found := range list {
			if found.State == bot.MROpen && found.Target == mr.Target {
				return found, nil
			}
		}
	}
	return bot.MRSnapshot{}, fmt.Errorf("opening a merge request of %s from %s into %s: %w", repo.Path, mr.Source, mr.Target, err)
}

// EditMR replaces title and body.
func (h *Host) EditMR(ctx context.Context, repo bot.Repository, number int, title, body string) error {
	err := h.call(ctx, repo, func(c *client, owner, name string) error {
		_, _, err := c.PullRequests.Edit(ctx, owner, name, number, &github.PullRequest{Title: &title, Body: &body})
		return err
	})
	if err != nil {
		return fmt.Errorf("editing %s#%d: %w", repo.Path, number, err)
	}
	return nil
}

// MergeMR merges a pull request with a merge commit if its head is still head. Whatever GitHub answers, only a pull request that says so
// itself is merged: a successful answer may be none (finding 6), and a refusal may come after somebody else merged.
func (h *Host) MergeMR(ctx context.Context, repo bot.Repository, number int, head, title, message string) (bot.MergeAnswer, error) {
	fail := func(err error) (bot.MergeAnswer, error) {
		return bot.MergeAnswer{}, fmt.Errorf("merging %s#%d: %w", repo.Path, number, err)
	}
	if !isCommitID(head) {
		return fail(errors.New("it needs the full commit id of the head"))
	}
	var (
		result *github.PullRequestMergeResult
		raw    error
	)
	err := h.call(ctx, repo, func(c *client, owner, name string) error {
		result, _, raw = c.PullRequests.Merge(ctx, owner, name, number, message, &github.PullRequestOptions{
			SHA: head, MergeMethod: "merge", CommitTitle: title, DontDefaultIfBlank: true,
		})
		return raw
	})
	if err == nil && result.GetMerged() && isCommitID(result.GetSHA()) {
		return bot.MergeAnswer{Outcome: bot.MergeDone, SHA: result.GetSHA()}, nil
	}
	status, words := refusal(raw)
	if err != nil && (status == 0 || status == http.StatusUnauthorized || status >= 500 || errors.Is(err, bot.ErrGone)) {
		return fail(err)
	}
	pr, readErr := h.readPR(ctx, repo, number)
	if readErr != nil {
		return fail(readErr)
	}
	if err == nil && !pr.GetMerged() {
		return fail(errors.New("the host's answer says neither yes nor no"))
	}
	return judgeMerge(pr, head, status, words), nil
}

// judgeMerge decides what a refusal means, from the pull request as it reads afterwards.
func judgeMerge(pr *github.PullRequest, head string, status int, words string) bot.MergeAnswer {
	lower := strings.ToLower(words)
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(lower, p) {
				return true
			}
		}
		return false
	}
	answer := bot.MergeAnswer{Outcome: bot.MergeRefused, Message: words}
	switch {
	case pr.GetMerged():
		answer = bot.MergeAnswer{Outcome: bot.MergeDone, SHA: pr.GetMergeCommitSHA()}
	case pr.GetState() == "closed":
		answer.Outcome = bot.MergeClosed
	case pr.GetHead().GetSHA() != head:
		answer.Outcome = bot.MergeHeadMoved
	case status == http.StatusConflict || has("was modified"):
		// The head is the one given, so the base moved under the call or the host lags behind itself.
		answer.Outcome = bot.MergeNotReady
	case has("not allowed", "merge queue", "draft", "squash", "rebase", "must not contain merge commits"):
		// no waiting helps
	case has("without `workflows` permission"):
		answer.Message = words + "; give the App the workflows: write permission, or land this change by hand"
	case status == http.StatusForbidden, status == http.StatusNotFound: // GitHub hides what one may not do
		answer.Message = words + "; the bot needs the contents: write permission, and if the target restricts who may merge, a place on its bypass list"
	case pr.GetMergeableState() == "dirty":
		answer.Message = words + " (it conflicts with the target)"
	case has("review", "status check", "required", "rule violation", "conversation", "deployment", "signature", "protected branch"),
		pr.GetMergeableState() == "blocked":
		answer.Outcome = bot.MergeNeeds
		switch {
		case has("status check", "deployment"):
			answer.Message = words + "; let that check run on this pull request or on the branches batchbot/**, or drop it from the rule for the target (Settings → Rules, or Settings → Branches)"
		default:
			answer.Message = words + "; approve this pull request, or let the App past that rule: in the bypass list of its ruleset (Settings → Rules), or under \"Allow specified actors to bypass required pull requests\" (Settings → Branches)"
		}
	case pr.Mergeable == nil || pr.GetMergeableState() == "unknown":
		answer.Outcome = bot.MergeNotReady
	}
	return answer
}

// CloseMR closes a pull request. One that is closed or merged already stays as it is.
func (h *Host) CloseMR(ctx context.Context, repo bot.Repository, number int) error {
	closed := "closed"
	var raw error
	err := h.call(ctx, repo, func(c *client, owner, name string) error {
		_, _, raw = c.PullRequests.Edit(ctx, owner, name, number, &github.PullRequest{State: &closed})
		return raw
	})
	if status, _ := refusal(raw); status == http.StatusUnprocessableEntity {
		if pr, readErr := h.readPR(ctx, repo, number); readErr == nil && pr.GetState() == closed {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("closing %s#%d: %w", repo.Path, number, err)
	}
	return nil
}
