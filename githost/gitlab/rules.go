package gitlab

import (
	"context"
	"fmt"

	"github.com/batchbot/batchbot/bot"
)

// ReadTargetRules reads what landing on a branch takes, from the project's settings and approval rules. GitLab lets nobody by the approvals it
// demands. A fast-forward method takes the batch's merge commits as they are, so history is never linear by force.
func (h *Host) ReadTargetRules(ctx context.Context, repo bot.Repository, branch string) (bot.TargetRules, error) {
	fail := func(err error) (bot.TargetRules, error) {
		return bot.TargetRules{}, fmt.Errorf("reading the rules of %s of %s: %w", branch, repo.Path, err)
	}
	settings, err := h.settings(ctx, repo)
	if err != nil {
		return fail(err)
	}
	rules := bot.TargetRules{MergeQueue: settings.MergeTrains, SquashOnly: settings.SquashOption == "always"}
	if rules.RequiredReviews, err = h.requiredApprovals(ctx, repo, branch); err != nil {
		return fail(err)
	}
	if rules.RequiredChecks, err = h.externalChecks(ctx, repo, branch); err != nil {
		return fail(err)
	}
	if settings.PipelineMustSucceed {
		rules.RequiredChecks = append(rules.RequiredChecks, requiredPipeline)
	}
	return rules, nil
}

// requiredApprovals is the most that one approval rule for branch demands: one approver may satisfy several. The free edition has no rules.
func (h *Host) requiredApprovals(ctx context.Context, repo bot.Repository, branch string) (int, error) {
	type rule struct {
		Required int    `json:"approvals_required"`
		Type     string `json:"rule_type"`
		Branches []struct {
			Name string `json:"name"`
		} `json:"protected_branches"`
		AllProtected bool `json:"applies_to_all_protected_branches"`
	}
	var rules []rule
	err := h.call(ctx, repo, func(project int) (err error) {
		rules, err = listAll[rule](ctx, h.client, fmt.Sprintf("projects/%d/approval_rules", project), nil)
		return err
	})
	if err = tolerate(err); err != nil {
		return 0, fmt.Errorf("its approval rules: %w", err)
	}
	most := 0
	for _, r := range rules {
		// Rules of reports apply only when the report finds something.
		applies := r.Type != "report_approver" && (len(r.Branches) == 0 || r.AllProtected)
		for _, b := range r.Branches {
			applies = applies || r.Type != "report_approver" && matches(b.Name, branch)
		}
		if applies {
			most = max(most, r.Required)
		}
	}
	return most, nil
}
