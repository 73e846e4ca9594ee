package gitlab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/xanzy/go-gitlab"

	"github.com/batchbot/batchbot/bot"
)

// mostUpdated bounds one look at updated merge requests: more than that is seen as fast as they are dealt with.
const mostUpdated = 300

// HeadRef names the ref that holds the head of a merge request, forks and deleted forks included.
func (h *Host) HeadRef(number int) string { return fmt.Sprintf("refs/merge-requests/%d/head", number) }

// ReadMR reads one merge request. GitLab may answer "not found" for a moment after the webhook that told of it, so that answer is
// believed only when it is repeated.
func (h *Host) ReadMR(ctx context.Context, repo bot.Repository, number int) (bot.MRSnapshot, error) {
	mr, err := h.readMR(ctx, repo, number)
	for _, wait := range h.notFoundWaits {
		if !errors.Is(err, bot.ErrNotFound) {
			break
		}
		if err := pauseFor(ctx, wait); err != nil {
			return bot.MRSnapshot{}, err
		}
		mr, err = h.readMR(ctx, repo, number)
	}
	if err != nil {
		return bot.MRSnapshot{}, fmt.Errorf("reading %s!%d: %w", repo.Path, number, err)
	}
	return h.snapshot(&mr.MergeRequest), nil
}

// mergeRequest is a merge request with what go-gitlab's type lacks.
type mergeRequest struct {
	gitlab.MergeRequest
	SquashOnMerge bool // what will happen, whatever a merge call asks for
}

// UnmarshalJSON reads both parts: go-gitlab's has a method of its own, which would be all that is called.
func (mr *mergeRequest) UnmarshalJSON(b []byte) error {
	var more struct {
		SquashOnMerge bool `json:"squash_on_merge"`
	}
	if err := json.Unmarshal(b, &more); err != nil {
		return err
	}
	mr.SquashOnMerge = more.SquashOnMerge
	return json.Unmarshal(b, &mr.MergeRequest)
}

func (h *Host) readMR(ctx context.Context, repo bot.Repository, number int) (*mergeRequest, error) {
	var mr *mergeRequest
	err := h.call(ctx, repo, func(project int) error {
		mr = nil
		return h.client.get(ctx, fmt.Sprintf("projects/%d/merge_requests/%d", project, number), &mr)
	})
	switch {
	case err != nil:
		return nil, err
	case mr == nil || mr.IID != number:
		return nil, errors.New("the answer is not that merge request")
	case headOf(&mr.MergeRequest) == "" && mr.State == "opened":
		return nil, errors.New("the host does not know its head yet")
	}
	return mr, nil
}

// ListUpdatedMRs lists open merge requests updated at or after since, newest first.
func (h *Host) ListUpdatedMRs(ctx context.Context, repo bot.Repository, since time.Time) ([]bot.MRSnapshot, error) {
	var list []bot.MRSnapshot
	err := h.call(ctx, repo, func(project int) error {
		list = nil
		options := &gitlab.ListProjectMergeRequestsOptions{
			State: gitlab.Ptr("opened"), OrderBy: gitlab.Ptr("updated_at"), Sort: gitlab.Ptr("desc"),
		}
		if !since.IsZero() {
			options.UpdatedAfter = gitlab.Ptr(since.UTC().Truncate(time.Second))
		}
		return everyPage(func(page int) (int, error) {
			options.ListOptions = gitlab.ListOptions{PerPage: pageSize, Page: page}
			mrs, resp, err := h.client.MergeRequests.ListProjectMergeRequests(project, options, within(ctx)...)
			if err != nil {
				return 0, err
			}
			for _, mr := range mrs {
				s := h.snapshot(mr)
				if s.UpdatedAt.Before(since.Truncate(time.Second)) || len(list) == mostUpdated {
					return 0, nil
				}
				if s.HeadSHA != "" { // else it is being prepared, and will be updated again
					list = append(list, s)
				}
			}
			return resp.NextPage, nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("listing the merge requests of %s: %w", repo.Path, err)
	}
	return list, nil
}

// snapshot converts a merge request, from a list or read by its number.
func (h *Host) snapshot(mr *gitlab.MergeRequest) bot.MRSnapshot {
	s := bot.MRSnapshot{
		Number:       mr.IID,
		Title:        mr.Title,
		Body:         mr.Description,
		Author:       h.user(mr.Author),
		State:        bot.MROpen, // "locked" too: while it is being merged
		Draft:        mr.Draft || mr.WorkInProgress,
		HeadSHA:      headOf(mr),
		SourceBranch: mr.SourceBranch,
		// Without a source project the fork is gone.
		FromFork: mr.SourceProjectID != mr.TargetProjectID,
		Target:   mr.TargetBranch,
		URL:      mr.WebURL,
	}
	if mr.UpdatedAt != nil {
		s.UpdatedAt = mr.UpdatedAt.UTC()
	}
	switch mr.State {
	case "merged":
		s.State, s.MergeSHA = bot.MRMerged, landedAs(mr)
	case "closed":
		s.State = bot.MRClosed
		if mr.ClosedBy != nil {
			s.ClosedBy = mr.ClosedBy.Username
		}
	}
	return s
}

func headOf(mr *gitlab.MergeRequest) string {
	if mr.SHA != "" {
		return mr.SHA
	}
	return mr.DiffRefs.HeadSha
}

// landedAs is the commit that landed a merged merge request: a merge commit, a squashed one, or its own head where it was fast-forwarded
// or found in the target.
func landedAs(mr *gitlab.MergeRequest) string {
	for _, sha := range []string{mr.MergeCommitSHA, mr.SquashCommitSHA} {
		if sha != "" {
			return sha
		}
	}
	return headOf(mr)
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
