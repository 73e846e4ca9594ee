package gitlab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/xanzy/go-gitlab"

	"github.com/batchbot/batchbot/bot"
)

// Permission reads what actor may do, by direct and inherited membership. A user GitLab does not know has no permission, nor has one whose
// membership is not active.
func (h *Host) Permission(ctx context.Context, repo bot.Repository, who bot.Actor) (bot.Permission, error) {
	fail := func(err error) (bot.Permission, error) {
		return "", fmt.Errorf("reading the permission of %s in %s: %w", who.Login, repo.Path, err)
	}
	if who.Login == "" && who.ID == 0 || who.Bot || botNames.MatchString(who.Login) {
		return bot.PermissionNone, nil
	}
	if who.ID == 0 {
		var err error
		if who.ID, err = h.userID(ctx, who.Login); err != nil {
			return fail(err)
		}
		if who.ID == 0 {
			return bot.PermissionNone, nil
		}
	}
	var member struct {
		AccessLevel int    `json:"access_level"`
		State       string `json:"state"`
	}
	err := h.call(ctx, repo, func(project int) error {
		// Without "all" those who are members of a group would be missing.
		return h.client.get(ctx, fmt.Sprintf("projects/%d/members/all/%d", project, who.ID), &member)
	})
	switch {
	case errors.Is(err, bot.ErrNotFound):
		return bot.PermissionNone, nil
	case err != nil:
		return fail(err)
	case member.State != "" && member.State != "active":
		return bot.PermissionNone, nil
	}
	return permissionOf(member.AccessLevel), nil
}

// permissionOf maps access levels. Between the old ones new ones appear (a planner is 15): each includes the one below it.
func permissionOf(level int) bot.Permission {
	switch {
	case level >= 50: // owner, administrator
		return bot.PermissionAdmin
	case level >= 40: // maintainer
		return bot.PermissionMaintain
	case level >= 30: // developer
		return bot.PermissionWrite
	case level >= 20: // reporter
		return bot.PermissionTriage
	case level >= 10: // guest
		return bot.PermissionRead
	}
	return bot.PermissionNone
}

// userID finds a user by name; 0 when there is none.
func (h *Host) userID(ctx context.Context, login string) (int64, error) {
	var users []struct {
		ID       int64  `json:"id"`
		Username string `json:"username"`
	}
	_, err := h.client.page(ctx, "users", url.Values{"username": {login}}, &users)
	if err = meaning(err); err != nil && !errors.Is(err, bot.ErrNotFound) {
		return 0, fmt.Errorf("finding the user: %w", err)
	}
	for _, u := range users {
		if strings.EqualFold(u.Username, login) {
			return u.ID, nil
		}
	}
	return 0, nil
}

// approvals is what GitLab says about who approved. Free tells only who did; the numbers are of Premium.
type approvals struct {
	Approved   bool `json:"approved"`
	Required   *int `json:"approvals_required"`
	Left       *int `json:"approvals_left"`
	ApprovedBy []struct {
		User       *gitlab.BasicUser `json:"user"`
		ApprovedAt *time.Time        `json:"approved_at"` // not in older versions
	} `json:"approved_by"`
}

// ReadApprovals reads who approved and who asked for changes, who may, and GitLab's own verdict.
//
// An approval names no commit. It counts for the head if the project takes approvals away on a push, or if it was given after the
// head was pushed; else its SHA stays empty. While GitLab is still taking approvals away after a push none counts. The order of
// the reads matters: the head first and its version last, so that a push in between makes approvals count for nothing rather than for
// a commit nobody saw.
func (h *Host) ReadApprovals(ctx context.Context, repo bot.Repository, number int) (bot.Approvals, error) {
	fail := func(err error) (bot.Approvals, error) {
		return bot.Approvals{}, fmt.Errorf("reading the approvals of %s!%d: %w", repo.Path, number, err)
	}
	mr, err := h.readMR(ctx, repo, number)
	if err != nil {
		return fail(err)
	}
	var given approvals
	var opinions []*gitlab.MergeRequestReviewer
	err = h.call(ctx, repo, func(project int) error {
		if err := h.client.get(ctx, fmt.Sprintf("projects/%d/merge_requests/%d/approvals", project, number), &given); err != nil {
			return err
		}
		var err error
		opinions, _, err = h.client.MergeRequests.GetMergeRequestReviewers(project, number, within(ctx)...)
		return tolerate(meaning(err)) // older versions do not say
	})
	if err != nil {
		return fail(err)
	}
	var result bot.Approvals
	result.Decision = verdict(mr.DetailedMergeStatus, given)
	counts := func(*gitlab.BasicUser, *time.Time) bool { return false }
	if mr.DetailedMergeStatus != syncing && len(given.ApprovedBy) > 0 {
		if counts, err = h.countsForHead(ctx, repo, number, headOf(&mr.MergeRequest), given); err != nil {
			return fail(err)
		}
	}
	for _, a := range given.ApprovedBy {
		if a.User == nil {
			continue
		}
		r := bot.Review{By: h.user(a.User), State: bot.ReviewApproved}
		if counts(a.User, a.ApprovedAt) {
			r.SHA = headOf(&mr.MergeRequest)
		}
		result.Reviews = append(result.Reviews, r)
	}
	for _, o := range opinions {
		// Whoever approves afterwards no longer requests changes: then GitLab says so here.
		if o.User != nil && o.State == "requested_changes" {
			result.Reviews = append(result.Reviews, bot.Review{By: h.user(o.User), State: bot.ReviewChangesRequested, SHA: headOf(&mr.MergeRequest)})
		}
	}
	for i := range result.Reviews {
		r := &result.Reviews[i]
		if r.Permission, err = h.Permission(ctx, repo, r.By); err != nil {
			return fail(err)
		}
	}
	return result, nil
}

// syncing is the status of a merge request whose approvals are still being taken away after a push.
const syncing = "approvals_syncing"

// verdict is GitLab's own. In the free edition "approved" only says that somebody did.
func verdict(status string, given approvals) bot.HostDecision {
	switch {
	case status == syncing || status == "not_approved":
		return bot.HostDecisionRequired
	case status == "requested_changes":
		return bot.HostDecisionBlocked
	case given.Required == nil && given.Left == nil:
		return bot.HostDecisionNone
	case !given.Approved || given.Left != nil && *given.Left > 0:
		return bot.HostDecisionRequired
	case given.Required != nil && *given.Required > 0:
		return bot.HostDecisionApproved
	}
	return bot.HostDecisionNone
}

// countsForHead returns the test whether an approval counts for head.
func (h *Host) countsForHead(ctx context.Context, repo bot.Repository, number int, head string, given approvals) (func(*gitlab.BasicUser, *time.Time) bool, error) {
	resets, err := h.resetsApprovals(ctx, repo)
	if err != nil {
		return nil, err
	}
	noted := map[int]time.Time{}
	if !resets {
		for _, a := range given.ApprovedBy {
			if a.ApprovedAt == nil {
				if noted, err = h.approvalNotes(ctx, repo, number); err != nil {
					return nil, err
				}
				break
			}
		}
	}
	since, current, err := h.headSince(ctx, repo, number, head)
	if err != nil {
		return nil, err
	}
	return func(by *gitlab.BasicUser, at *time.Time) bool {
		switch {
		case !current:
			return false // pushed to while we read
		case resets:
			return true
		case at != nil:
			return at.After(since)
		}
		noted, ok := noted[by.ID]
		return ok && noted.After(since)
	}, nil
}

// resetsApprovals reports whether a push takes all approvals away. The free edition has no such setting.
func (h *Host) resetsApprovals(ctx context.Context, repo bot.Repository) (bool, error) {
	var settings struct {
		Resets bool `json:"reset_approvals_on_push"`
	}
	err := h.call(ctx, repo, func(project int) error {
		return h.client.get(ctx, fmt.Sprintf("projects/%d/approvals", project), &settings)
	})
	if err = tolerate(err); err != nil {
		return false, fmt.Errorf("whether pushes take approvals away: %w", err)
	}
	return settings.Resets, nil
}

// headSince returns since when head is the merge request's head; current is false when it is not. Every push makes a version, and so does a
// change of the target: the newest versions may be of one head, and the first of them was its push.
func (h *Host) headSince(ctx context.Context, repo bot.Repository, number int, head string) (since time.Time, current bool, err error) {
	err = h.call(ctx, repo, func(project int) error {
		versions, _, err := h.client.MergeRequests.GetMergeRequestDiffVersions(project, number,
			&gitlab.GetMergeRequestDiffVersionsOptions{PerPage: pageSize}, within(ctx)...)
		if err != nil {
			return err
		}
		// Newest first, but that is not promised.
		slices.SortFunc(versions, func(a, b *gitlab.MergeRequestDiffVersion) int { return cmp.Compare(b.ID, a.ID) })
		since, current = time.Time{}, false
		for _, v := range versions {
			if v.HeadCommitSHA != head || v.CreatedAt == nil {
				break
			}
			since, current = *v.CreatedAt, true
		}
		return nil
	})
	if err != nil {
		return time.Time{}, false, fmt.Errorf("when %s was pushed: %w", bot.ShortSHA(head), err)
	}
	return since, current, nil
}

// approvalNotes reads when users last approved from what GitLab itself notes in the conversation.
func (h *Host) approvalNotes(ctx context.Context, repo bot.Repository, number int) (map[int]time.Time, error) {
	at := map[int]time.Time{}
	err := h.eachNote(ctx, repo, number, newestFirst, func(n *gitlab.Note) bool {
		if _, known := at[n.Author.ID]; n.System && n.Body == "approved this merge request" && !known && n.CreatedAt != nil {
			at[n.Author.ID] = *n.CreatedAt
		}
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("when it was approved: %w", err)
	}
	return at, nil
}
