package gitlab

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/batchbot/batchbot/bot"
)

// The sources of checks. A pipeline is a check of its own beside its jobs: it may fail before it has any, and it knows which failures are
// allowed.
const (
	pipelineSource = "pipeline"
	jobSource      = "job"
	statusSource   = "status"       // a commit status from outside
	externalSource = "status check" // an external status check, which is of a merge request

	pipelineName = "pipeline"
)

// pipeline is one run of CI; commit statuses from outside sit in one too, of source "external", if there is no other.
type pipeline struct {
	ID     int64  `json:"id"`
	SHA    string `json:"sha"`
	Status string `json:"status"`
	Source string `json:"source"`
	WebURL string `json:"web_url"`
}

// commitStatus is a job or a commit status: GitLab lists both together.
type commitStatus struct {
	ID           int64  `json:"id"`
	SHA          string `json:"sha"`
	Name         string `json:"name"`
	Status       string `json:"status"`
	TargetURL    string `json:"target_url"`
	AllowFailure bool   `json:"allow_failure"`
	PipelineID   int64  `json:"pipeline_id"`
}

// ReadChecks reads the newest pipeline for sha with its jobs, statuses from outside, and external status checks.
//
// A pipeline is for sha if it ran on it, or on a merge of it into a target it already contained: then the tree is the same.
func (h *Host) ReadChecks(ctx context.Context, repo bot.Repository, sha, target string) (bot.ChecksReport, error) {
	fail := func(err error) (bot.ChecksReport, error) {
		return bot.ChecksReport{}, fmt.Errorf("reading the checks of %s at %s: %w", repo.Path, bot.ShortSHA(sha), err)
	}
	if !isCommitID(sha) {
		return fail(errors.New("that is not a commit id"))
	}
	pipelines, err := h.pipelinesOf(ctx, repo, sha)
	if err != nil {
		return fail(err)
	}
	mrs, err := h.mrsAt(ctx, repo, sha, target)
	if err != nil {
		return fail(err)
	}
	for _, mr := range mrs {
		merged, err := h.mergedResults(ctx, repo, mr, sha)
		if err != nil {
			return fail(err)
		}
		pipelines = append(pipelines, merged...)
	}
	statuses, err := h.statusesOf(ctx, repo, sha)
	if err != nil {
		return fail(err)
	}
	newest := newestRun(pipelines)
	if newest.ID != 0 && newest.SHA != sha {
		jobs, err := h.statusesOf(ctx, repo, newest.SHA)
		if err != nil {
			return fail(err)
		}
		statuses = append(statuses, jobs...)
	}
	var report bot.ChecksReport
	report.Checks = h.checksOf(newest, pipelines, statuses)
	if report.Required, err = h.externalChecks(ctx, repo, target); err != nil {
		return fail(err)
	}
	if len(report.Required) > 0 {
		for _, mr := range mrs {
			found, err := h.externalResults(ctx, repo, mr)
			if err != nil {
				return fail(err)
			}
			report.Checks = append(report.Checks, found...)
		}
		demanded, err := h.settings(ctx, repo)
		if err != nil {
			return fail(err)
		}
		// Where checks are demanded by name the others do not count, unless they are demanded too.
		if demanded.PipelineMustSucceed {
			report.Required = append(report.Required, requiredPipeline)
		}
	}
	return report, nil
}

var requiredPipeline = bot.RequiredCheck{Name: pipelineName, Source: pipelineSource}

// aside are pipelines that say nothing about a commit: those that only hold statuses, parts of others, and what is run beside them.
var aside = map[string]bool{
	"external": true, "parent_pipeline": true, "webide": true, "ondemand_dast_scan": true, "ondemand_dast_validation": true,
	"security_orchestration_policy": true, "container_registry_push": true,
}

// newestRun returns the pipeline that counts; its ID is 0 when there is none.
func newestRun(pipelines []pipeline) (newest pipeline) {
	for _, p := range pipelines {
		if !aside[p.Source] && p.ID > newest.ID {
			newest = p
		}
	}
	return newest
}

// checksOf makes checks of a pipeline, its jobs, and the statuses that belong to no other run.
func (h *Host) checksOf(newest pipeline, pipelines []pipeline, statuses []commitStatus) []bot.Check {
	var checks []bot.Check
	holdsOwn := false
	for _, s := range statuses {
		check := bot.Check{Name: s.Name, Source: statusSource, State: stateOf(s.Status, s.AllowFailure), URL: s.TargetURL, Order: s.ID}
		check.Own = s.Name == h.config.StatusContext
		if s.PipelineID != 0 && s.PipelineID == newest.ID {
			if !check.Own {
				check.Source = jobSource
			}
			holdsOwn = holdsOwn || check.Own && check.State != bot.CheckSuccess
			if check.URL == "" {
				check.URL = newest.WebURL
			}
		} else if slices.ContainsFunc(pipelines, func(p pipeline) bool { return p.ID == s.PipelineID && !aside[p.Source] }) {
			continue // of a run that no longer counts
		}
		checks = append(checks, check)
	}
	// A pipeline that our own status keeps open, or red, says only what its jobs say.
	hasJobs := slices.ContainsFunc(checks, func(c bot.Check) bool { return c.Source == jobSource })
	if newest.ID != 0 && !(holdsOwn && hasJobs) {
		checks = append(checks, bot.Check{
			Name: pipelineName, Source: pipelineSource, State: stateOf(newest.Status, false), URL: newest.WebURL, Order: newest.ID,
		})
	}
	return checks
}

// stateOf maps the state of a pipeline, job or commit status. Whatever is neither finished nor known is pending: new words for "not yet" appear.
func stateOf(status string, mayFail bool) bot.CheckState {
	switch status {
	case "success", "skipped":
		return bot.CheckSuccess
	case "failed":
		if mayFail {
			return bot.CheckSuccess
		}
		return bot.CheckFailure
	case "canceled":
		if mayFail {
			return bot.CheckSuccess
		}
		return bot.CheckCancelled
	case "manual":
		if mayFail { // somebody may start it, nobody has to
			return bot.CheckSuccess
		}
	}
	return bot.CheckPending
}

// pipelinesOf lists the pipelines that ran on a commit.
func (h *Host) pipelinesOf(ctx context.Context, repo bot.Repository, sha string) (list []pipeline, err error) {
	err = h.call(ctx, repo, func(project int) (err error) {
		list, err = listAll[pipeline](ctx, h.client, fmt.Sprintf("projects/%d/pipelines", project), url.Values{"sha": {sha}})
		return err
	})
	// The jobs of somebody's commit do not leak in from a host that ignores the filter. A project without CI forbids the question.
	list = slices.DeleteFunc(list, func(p pipeline) bool { return p.SHA != sha })
	return list, tolerate(err)
}

// statusesOf lists the latest of each job and status of a commit.
func (h *Host) statusesOf(ctx context.Context, repo bot.Repository, sha string) (list []commitStatus, err error) {
	err = h.call(ctx, repo, func(project int) (err error) {
		list, err = listAll[commitStatus](ctx, h.client, fmt.Sprintf("projects/%d/repository/commits/%s/statuses", project, sha), nil)
		return err
	})
	return list, tolerate(err)
}

// mrsAt lists the numbers of the open merge requests into target whose head is sha.
func (h *Host) mrsAt(ctx context.Context, repo bot.Repository, sha, target string) (numbers []int, err error) {
	var mrs []struct {
		IID             int    `json:"iid"`
		State           string `json:"state"`
		SHA             string `json:"sha"`
		TargetBranch    string `json:"target_branch"`
		TargetProjectID int64  `json:"target_project_id"`
	}
	err = h.call(ctx, repo, func(project int) error {
		return h.client.get(ctx, fmt.Sprintf("projects/%d/repository/commits/%s/merge_requests", project, sha), &mrs)
	})
	if err = tolerate(err); err != nil {
		return nil, fmt.Errorf("which merge requests it is the head of: %w", err)
	}
	for _, mr := range mrs {
		if mr.State == "opened" && mr.SHA == sha && (target == "" || mr.TargetBranch == target) && (mr.TargetProjectID == 0 || mr.TargetProjectID == repo.ExternalID) {
			numbers = append(numbers, mr.IID)
		}
	}
	return numbers, nil
}

// mergedResults lists the pipelines of a merge request that ran on a merge of head into what head already contains.
func (h *Host) mergedResults(ctx context.Context, repo bot.Repository, number int, head string) (valid []pipeline, err error) {
	err = h.call(ctx, repo, func(project int) error {
		valid = nil
		all, err := listAll[pipeline](ctx, h.client, fmt.Sprintf("projects/%d/merge_requests/%d/pipelines", project, number), nil)
		if err != nil {
			return err
		}
		for _, p := range all {
			if p.SHA == head || aside[p.Source] || !isCommitID(p.SHA) {
				continue
			}
			same, err := h.addsNothing(ctx, project, p.SHA, head)
			if err != nil {
				return err
			}
			if same {
				valid = append(valid, p)
				return nil // newest first: the older ones do not matter
			}
		}
		return nil
	})
	if err = tolerate(err); err != nil {
		return nil, fmt.Errorf("the pipelines of !%d: %w", number, err)
	}
	return valid, nil
}

// addsNothing reports whether a commit is a merge of head into one of head's own ancestors.
func (h *Host) addsNothing(ctx context.Context, project int, sha, head string) (bool, error) {
	var commit struct {
		Parents []string `json:"parent_ids"`
	}
	if err := tolerate(meaning(h.client.get(ctx, fmt.Sprintf("projects/%d/repository/commits/%s", project, sha), &commit))); err != nil {
		return false, err
	}
	if len(commit.Parents) != 2 || commit.Parents[1] != head || !isCommitID(commit.Parents[0]) {
		return false, nil
	}
	var base struct {
		ID string `json:"id"`
	}
	_, err := h.client.page(ctx, fmt.Sprintf("projects/%d/repository/merge_base", project), url.Values{"refs[]": {commit.Parents[0], head}}, &base)
	return base.ID == commit.Parents[0], tolerate(meaning(err))
}

// externalChecks lists the external status checks demanded of merge requests into target. Only the dearest edition has them.
func (h *Host) externalChecks(ctx context.Context, repo bot.Repository, target string) ([]bot.RequiredCheck, error) {
	type check struct {
		Name     string `json:"name"`
		Branches []struct {
			Name string `json:"name"`
		} `json:"protected_branches"`
	}
	var checks []check
	err := h.call(ctx, repo, func(project int) (err error) {
		checks, err = listAll[check](ctx, h.client, fmt.Sprintf("projects/%d/external_status_checks", project), nil)
		return err
	})
	if err = tolerate(err); err != nil {
		return nil, fmt.Errorf("which status checks are demanded: %w", err)
	}
	var required []bot.RequiredCheck
	for _, c := range checks {
		applies := len(c.Branches) == 0
		for _, b := range c.Branches {
			applies = applies || matches(b.Name, target)
		}
		if applies && c.Name != "" {
			required = append(required, bot.RequiredCheck{Name: c.Name, Source: externalSource})
		}
	}
	return required, nil
}

// externalResults reads how a merge request's external status checks stand.
func (h *Host) externalResults(ctx context.Context, repo bot.Repository, number int) ([]bot.Check, error) {
	type result struct {
		ID     int64  `json:"id"`
		Name   string `json:"name"`
		Status string `json:"status"`
		URL    string `json:"external_url"`
	}
	var results []result
	err := h.call(ctx, repo, func(project int) (err error) {
		results, err = listAll[result](ctx, h.client, fmt.Sprintf("projects/%d/merge_requests/%d/status_checks", project, number), nil)
		return err
	})
	if err = tolerate(err); err != nil {
		return nil, fmt.Errorf("the status checks of !%d: %w", number, err)
	}
	var checks []bot.Check
	for _, r := range results {
		state := map[string]bot.CheckState{"passed": bot.CheckSuccess, "failed": bot.CheckFailure}[r.Status]
		if state == 0 {
			state = bot.CheckPending
		}
		checks = append(checks, bot.Check{Name: r.Name, Source: externalSource, State: state, URL: r.URL, Order: r.ID})
	}
	return checks, nil
}

// matches reports whether a protected branch's name, in which a star stands for anything, is that of branch.
func matches(pattern, branch string) bool {
	parts := strings.Split(pattern, "*")
	rest, ok := strings.CutPrefix(branch, parts[0])
	if len(parts) == 1 {
		return ok && rest == ""
	}
	for _, part := range parts[1 : len(parts)-1] {
		var found bool
		_, rest, found = strings.Cut(rest, part)
		ok = ok && found
	}
	return ok && strings.HasSuffix(rest, parts[len(parts)-1])
}
