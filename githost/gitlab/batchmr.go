package gitlab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/xanzy/go-gitlab"

	"github.com/batchbot/batchbot/bot"
)

// FindMRs lists the merge requests from a branch of the project itself, newest first.
func (h *Host) FindMRs(ctx context.Context, repo bot.Repository, source string) ([]bot.MRSnapshot, error) {
	var found []bot.MRSnapshot
	err := h.call(ctx, repo, func(project int) error {
		found = nil
		options := &gitlab.ListProjectMergeRequestsOptions{SourceBranch: &source, State: gitlab.Ptr("all"), Scope: gitlab.Ptr("all")}
		return everyPage(func(page int) (int, error) {
			options.ListOptions = gitlab.ListOptions{PerPage: pageSize, Page: page}
			mrs, resp, err := h.client.MergeRequests.ListProjectMergeRequests(project, options, within(ctx)...)
			if err != nil {
				return 0, err
			}
			for _, mr := range mrs {
				// A host that ignores the filter, and forks with the same branch name, must not be mistaken for ours.
				if mr.SourceBranch == source && mr.SourceProjectID == project {
					found = append(found, h.snapshot(mr))
				}
			}
			return resp.NextPage, nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("finding the merge requests of %s from %s: %w", repo.Path, source, err)
	}
	slices.SortFunc(found, func(a, b bot.MRSnapshot) int { return cmp.Compare(b.Number, a.Number) })
	return found, nil
}

// OpenMR creates a merge request, or returns the open one that a lost answer left behind.
func (h *Host) OpenMR(ctx context.Context, repo bot.Repository, mr bot.NewMR) (bot.MRSnapshot, error) {
	var (
		opened  *gitlab.MergeRequest
		refused error
	)
	body := harmless(mr.Body)
	err := h.call(ctx, repo, func(project int) error {
		opened, _, refused = h.client.MergeRequests.CreateMergeRequest(project, &gitlab.CreateMergeRequestOptions{
			Title: &mr.Title, Description: &body, SourceBranch: &mr.Source, TargetBranch: &mr.Target,
			Squash: gitlab.Ptr(false), RemoveSourceBranch: gitlab.Ptr(false),
		}, within(ctx)...)
		return refused
	})
	if err == nil {
		if opened.SHA != "" {
			return h.snapshot(opened), nil
		}
		// It is still being prepared.
		return h.ReadMR(ctx, repo, opened.IID)
	}
	if status, _ := refusal(refused); status == http.StatusConflict {
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
	body = harmless(body)
	err := h.call(ctx, repo, func(project int) error {
		_, _, err := h.client.MergeRequests.UpdateMergeRequest(project, number, &gitlab.UpdateMergeRequestOptions{Title: &title, Description: &body}, within(ctx)...)
		return err
	})
	if err != nil {
		return fmt.Errorf("editing %s!%d: %w", repo.Path, number, err)
	}
	return nil
}

// MergeMR merges a merge request by the project's merge method if its head is still head. Whatever GitLab answers, only a merge request
// that says so itself is merged: a successful answer may be none (finding 6), and a refusal may come after somebody else merged.
//
// It is read before the call as well, because a project that forces squashing squashes whatever the call asks for.
func (h *Host) MergeMR(ctx context.Context, repo bot.Repository, number int, head, title, message string) (bot.MergeAnswer, error) {
	fail := func(err error) (bot.MergeAnswer, error) {
		return bot.MergeAnswer{}, fmt.Errorf("merging %s!%d: %w", repo.Path, number, err)
	}
	if !isCommitID(head) {
		return fail(errors.New("it needs the full commit id of the head"))
	}
	before, err := h.readMR(ctx, repo, number)
	if err != nil {
		return fail(err)
	}
	if answer, settled := settledMerge(before, head); settled {
		return answer, nil
	}
	if before.SquashOnMerge {
		return bot.MergeAnswer{Outcome: bot.MergeRefused, Message: "the project or the merge request squashes when merging; choose another way to squash than \"Require\" in the project's merge request settings"}, nil
	}
	if message != "" {
		title += "\n\n" + message
	}
	var (
		after *gitlab.MergeRequest
		raw   error
	)
	err = h.call(ctx, repo, func(project int) error {
		after, _, raw = h.client.MergeRequests.AcceptMergeRequest(project, number, &gitlab.AcceptMergeRequestOptions{
			SHA: &head, Squash: gitlab.Ptr(false), MergeCommitMessage: &title, ShouldRemoveSourceBranch: gitlab.Ptr(false),
		}, within(ctx)...)
		return raw
	})
	if err == nil && after.IID == number && after.State == "merged" && isCommitID(landedAs(after)) {
		return bot.MergeAnswer{Outcome: bot.MergeDone, SHA: landedAs(after)}, nil
	}
	status, words := refusal(raw)
	if err != nil && (status == 0 || status >= 500 || errors.Is(err, bot.ErrGone)) {
		return fail(err)
	}
	read, readErr := h.readMR(ctx, repo, number)
	if readErr != nil {
		return fail(readErr)
	}
	if answer, settled := settledMerge(read, head); settled {
		return answer, nil
	}
	if err == nil {
		return fail(errors.New("the host's answer says neither yes nor no"))
	}
	answer := judgeRefusal(read, status, words)
	h.log.Debug("merge refused", "repo", repo.Path, "mr", number, "status", status, "merge_status", read.DetailedMergeStatus, "answer", words)
	return answer, nil
}

// settledMerge is what a merge request says by itself about being merged with head, if it says anything.
func settledMerge(mr *mergeRequest, head string) (bot.MergeAnswer, bool) {
	switch {
	case mr.State == "merged":
		return bot.MergeAnswer{Outcome: bot.MergeDone, SHA: landedAs(&mr.MergeRequest)}, true
	case mr.State == "closed":
		return bot.MergeAnswer{Outcome: bot.MergeClosed, Message: "it is closed"}, true
	case mr.State == "locked":
		return bot.MergeAnswer{Outcome: bot.MergeNotReady, Message: "the host is merging it"}, true
	case headOf(&mr.MergeRequest) != head:
		return bot.MergeAnswer{Outcome: bot.MergeHeadMoved, Message: "its head is " + headOf(&mr.MergeRequest)}, true
	}
	return bot.MergeAnswer{}, false
}

// notYet are the statuses of a merge request that pass by themselves, and need_rebase, after which the target is found to have moved.
var notYet = map[string]bool{
	"": true, "unchecked": true, "checking": true, "preparing": true, syncing: true, "ci_still_running": true, "mergeable": true, "need_rebase": true,
}

// needs are the statuses that somebody or something else than the bot can change.
var needs = map[string]string{
	"not_approved":                   "it needs approvals: approve it, or exempt the branches batchbot/* from the approval rule (Settings → Merge requests)",
	"requested_changes":              "a reviewer requested changes",
	"discussions_not_resolved":       "its threads must be resolved, or \"All threads must be resolved\" switched off (Settings → Merge requests)",
	"ci_must_pass":                   "its pipeline must succeed, and there must be one: let CI run for merge requests or for the branches batchbot/*, or switch off \"Pipelines must succeed\" (Settings → Merge requests)",
	"status_checks_must_pass":        "its external status checks must pass (Settings → Merge requests)",
	"external_status_checks":         "its external status checks must pass",
	"merge_request_blocked":          "another merge request blocks it",
	"merge_time":                     "it may not be merged before a certain time",
	"policies_denied":                "a security policy wants approvals",
	"security_policy_violations":     "a security policy is violated",
	"security_policy_pipeline_check": "a security policy wants a pipeline",
	"jira_association_missing":       "its title or description must name a Jira issue",
	"locked_paths":                   "somebody locked files it changes",
	"locked_lfs_files":               "somebody locked LFS files it changes",
}

// judgeRefusal decides what a refusal of an open merge request with the right head means, from how it reads afterwards.
func judgeRefusal(mr *mergeRequest, status int, words string) bot.MergeAnswer {
	state := mr.DetailedMergeStatus
	answer := bot.MergeAnswer{Outcome: bot.MergeRefused, Message: words}
	explain := func(why string) { answer.Message += "; " + why }
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusNotFound:
		explain("the bot may not merge into " + mr.TargetBranch + ": let its token's role merge there, in the project's protected branches")
	case needs[state] != "":
		answer.Outcome = bot.MergeNeeds
		explain(needs[state])
	case mr.MergeError != "" && status == http.StatusUnprocessableEntity:
		explain(mr.MergeError) // it tried
	case notYet[state] && status != http.StatusBadRequest:
		// It changed its mind meanwhile, or lags behind itself.
		answer.Outcome = bot.MergeNotReady
		explain("its merge status is " + cmp.Or(state, "unknown"))
	case state == "conflict":
		explain("it conflicts with " + mr.TargetBranch)
	default:
		explain("its merge status is " + cmp.Or(state, "unknown")) // the list of them grows
	}
	return answer
}

// CloseMR closes a merge request. One that is closed or merged already stays as it is.
func (h *Host) CloseMR(ctx context.Context, repo bot.Repository, number int) error {
	var raw error
	err := h.call(ctx, repo, func(project int) error {
		_, _, raw = h.client.MergeRequests.UpdateMergeRequest(project, number, &gitlab.UpdateMergeRequestOptions{StateEvent: gitlab.Ptr("close")}, within(ctx)...)
		return raw
	})
	if status, _ := refusal(raw); status >= 400 && status < 500 {
		if mr, readErr := h.readMR(ctx, repo, number); readErr == nil && (mr.State == "closed" || mr.State == "merged") {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("closing %s!%d: %w", repo.Path, number, err)
	}
	return nil
}
