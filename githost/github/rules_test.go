package github_test

import (
	"reflect"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/fakehost"
	"github.com/batchbot/batchbot/githost/github"
)

func TestWhatLandingTakesIsRead(t *testing.T) {
	t.Parallel()
	check := []bot.RequiredCheck{{Name: "ci"}}
	for name, test := range map[string]struct {
		set  fakehost.Rules
		want bot.TargetRules
	}{
		"nothing":              {},
		"reviews and a check":  {fakehost.Rules{RequiredApprovals: 2, RequiredChecks: []string{"ci"}}, bot.TargetRules{RequiredReviews: 2, RequiredChecks: check}},
		"reviews but not ours": {fakehost.Rules{RequiredApprovals: 1, Bypass: []string{"batchbot[bot]"}}, bot.TargetRules{RequiredReviews: 1, BotBypasses: true}},
		"somebody else's bypass": {
			fakehost.Rules{RequiredApprovals: 1, Bypass: []string{"ada"}}, bot.TargetRules{RequiredReviews: 1},
		},
		"linear history": {fakehost.Rules{Linear: true}, bot.TargetRules{LinearHistory: true}},
		"a merge queue":  {fakehost.Rules{MergeQueue: true}, bot.TargetRules{MergeQueue: true}},
		"squash only":    {fakehost.Rules{Methods: []string{"squash"}}, bot.TargetRules{SquashOnly: true}},
		"any way":        {fakehost.Rules{Methods: []string{"squash", "merge"}}, bot.TargetRules{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.Commit("release/1.2", nil)
			w.must(w.fake.SetRules(path, "release/1.2", test.set))
			got, err := w.host.ReadTargetRules(t.Context(), w.repo, "release/1.2")
			if err != nil || !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, %v; want %+v", got, err, test.want)
			}
			if other, err := w.host.ReadTargetRules(t.Context(), w.repo, "main"); err != nil || !reflect.DeepEqual(other, bot.TargetRules{}) {
				t.Errorf("another branch has %+v, %v", other, err)
			}
		})
	}
}

func TestARepositoryWithoutMergeCommitsIsSquashOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.fake.AddRepository(fakehost.NewRepository{Owner: "acme", Name: "flat", SquashOnly: true}))
	list, err := w.host.ListRepositories(t.Context())
	w.must(err)
	for _, ref := range list {
		if ref.Path != "acme/flat" {
			continue
		}
		rules, err := w.host.ReadTargetRules(t.Context(), bot.Repository{RepositoryRef: ref}, "main")
		if err != nil || !rules.SquashOnly {
			t.Errorf("got %+v, %v", rules, err)
		}
	}
}

// Who may be let by is believed only where every rule that wants reviews says so.
func TestABypassThatIsNotCertainIsNone(t *testing.T) {
	t.Parallel()
	const wants = `[{"type":"pull_request","ruleset_id":3,"parameters":{"required_approving_review_count":1}}]`
	for name, test := range map[string]struct {
		rules, ruleset, classic string
		status                  int // of the ruleset
		want                    bool
	}{
		"a ruleset that lets us by":                  {wants, `{"current_user_can_bypass":"pull_requests_only"}`, `{}`, 200, true},
		"a ruleset that does not":                    {wants, `{"current_user_can_bypass":"never"}`, `{}`, 200, false},
		"a ruleset that does not say":                {wants, `{}`, `{}`, 200, false},
		"a ruleset we may not see":                   {wants, `{"message":"no"}`, `{}`, 403, false},
		"classic protection that names our App":      {`[]`, ``, `{"required_pull_request_reviews":{"required_approving_review_count":2,"bypass_pull_request_allowances":{"apps":[{"id":1,"slug":"batchbot"}]}}}`, 200, true},
		"classic protection that names another":      {`[]`, ``, `{"required_pull_request_reviews":{"required_approving_review_count":2,"bypass_pull_request_allowances":{"apps":[{"id":2}]}}}`, 200, false},
		"both, and only one of them lets us by":      {wants, `{"current_user_can_bypass":"always"}`, `{"required_pull_request_reviews":{"required_approving_review_count":2}}`, 200, false},
		"classic protection without anybody allowed": {`[]`, ``, `{"required_pull_request_reviews":{"required_approving_review_count":1}}`, 200, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := (&script{}).tokens(5).
				on("GET /app", 200, `{"id":1,"slug":"batchbot"}`).
				on("GET /repositories/4711", 200, `{"id":4711,"full_name":"acme/app"}`).
				on("GET /repos/acme/app/rules/branches/main", 200, test.rules).
				on("GET /repos/acme/app/branches/main/protection", 200, test.classic).
				on("GET /repos/acme/app/rulesets/3", test.status, test.ruleset)
			rules, err := appAdapter(t, s).ReadTargetRules(t.Context(), scripted, "main")
			if err != nil || rules.BotBypasses != test.want || rules.RequiredReviews == 0 {
				t.Errorf("got %+v, %v", rules, err)
			}
		})
	}
}

// A look that failed is not a branch without rules.
func TestRulesThatCannotBeReadAreAnError(t *testing.T) {
	t.Parallel()
	s := (&script{}).on("GET /repos/acme/app/rules/branches/main", 502, `{"message":"Bad Gateway"}`)
	if rules, err := adapter(t, s).ReadTargetRules(t.Context(), scripted, "main"); err == nil {
		t.Errorf("got %+v", rules)
	}
}

var _ bot.Repositories = (*github.Host)(nil)
