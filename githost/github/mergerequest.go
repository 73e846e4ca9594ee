package github

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/batchbot/batchbot/bot"
)

const (
	pageSize = 100
	// mostUpdated bounds one look at updated merge requests: more than that is seen as fast as they are dealt with.
	mostUpdated = 300
)

// HeadRef names the ref that holds the head of a pull request, forks and deleted forks included.
func (h *Host) HeadRef(number int) string { return fmt.Sprintf("refs/pull/%d/head", number) }

// ReadMR reads one pull request. GitHub may answer "not found" for a moment after the webhook that told of it, so that answer is
// believed only when it is repeated.
func (h *Host) ReadMR(ctx context.Context, repo bot.Repository, number int) (bot.MRSnapshot, error) {
	pr, err := h.readPR(ctx, repo, number)
	for _, wait := range h.notFoundWaits {
		if !errors.Is(err, bot.ErrNotFound) {
			break
		}
		if err := pauseFor(ctx, wait); err != nil {
			return bot.MRSnapshot{}, err
		}
		pr, err = h.readPR(ctx, repo, number)
	}
	if err != nil {
		return bot.MRSnapshot{}, fmt.Errorf("reading %s#%d: %w", repo.Path, number, err)
	}
	s := snapshot(pr)
	if s.State == bot.MRClosed && !s.FromFork && strings.HasPrefix(s.SourceBranch, bot.BatchBranchPrefix) {
		if s.ClosedBy, err = h.closedBy(ctx, repo, number); err != nil {
			return bot.MRSnapshot{}, fmt.Errorf("reading who closed %s#%d: %w", repo.Path, number, err)
		}
	}
	return s, nil
}

// closedBy is the login of who closed a pull request: only the issue behind it says so. It is asked about batch MRs alone, whose queues park because
// of it. A closer who is gone has no name.
func (h *Host) closedBy(ctx context.Context, repo bot.Repository, number int) (login string, err error) {
	err = h.call(ctx, repo, func(c *client, owner, name string) error {
		issue, _, err := c.Issues.Get(ctx, owner, name, number)
		login = issue.GetClosedBy().GetLogin()
		return err
	})
	if errors.Is(err, bot.ErrNotFound) || errors.Is(err, bot.ErrForbidden) {
		return "", nil // the pull request is there: this is not what was asked
	}
	return login, err
}

func (h *Host) readPR(ctx context.Context, repo bot.Repository, number int) (pr *github.PullRequest, err error) {
	err = h.call(ctx, repo, func(c *client, owner, name string) error {
		pr, _, err = c.PullRequests.Get(ctx, owner, name, number)
		return err
	})
	if err == nil && (pr.GetNumber() != number || pr.GetHead().GetSHA() == "") {
		return nil, errors.New("the answer is not that pull request")
	}
	return pr, err
}

// ListUpdatedMRs lists open pull requests updated at or after since, newest first.
func (h *Host) ListUpdatedMRs(ctx context.Context, repo bot.Repository, since time.Time) ([]bot.MRSnapshot, error) {
	var list []bot.MRSnapshot
	err := h.call(ctx, repo, func(c *client, owner, name string) error {
		list = nil
		options := &github.PullRequestListOptions{
			State: "open", Sort: "updated", Direction: "desc", ListOptions: github.ListOptions{PerPage: pageSize},
		}
		for {
			page, resp, err := c.PullRequests.List(ctx, owner, name, options)
			if err != nil {
				return err
			}
			for _, pr := range page {
				if pr.GetUpdatedAt().Before(since.Truncate(time.Second)) || len(list) == mostUpdated {
					return nil
				}
				list = append(list, snapshot(pr))
			}
			if options.Page = resp.NextPage; options.Page == 0 {
				return nil
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("listing the merge requests of %s: %w", repo.Path, err)
	}
	return list, nil
}

// snapshot converts a pull request that was read by number, or an open one from a list: a list does not say "merged".
func snapshot(pr *github.PullRequest) bot.MRSnapshot {
	s := bot.MRSnapshot{
		Number:       pr.GetNumber(),
		Title:        pr.GetTitle(),
		Body:         pr.GetBody(),
		Author:       actor(pr.User),
		State:        bot.MROpen,
		Draft:        pr.GetDraft(),
		HeadSHA:      pr.GetHead().GetSHA(),
		SourceBranch: pr.GetHead().GetRef(),
		Target:       pr.GetBase().GetRef(),
		URL:          pr.GetHTMLURL(),
		UpdatedAt:    pr.GetUpdatedAt().UTC(),
	}
	head, base := pr.GetHead().GetRepo(), pr.GetBase().GetRepo()
	s.FromFork = head == nil || head.GetID() != base.GetID()
	switch {
	case pr.GetMerged():
		s.State, s.MergeSHA = bot.MRMerged, pr.GetMergeCommitSHA()
	case pr.GetState() == "closed":
		s.State = bot.MRClosed
	}
	return s
}

func pauseFor(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
