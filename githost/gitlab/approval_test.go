package gitlab_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/fakehost"
	"github.com/batchbot/batchbot/githost/hosttest"
)

// reviewed is a host on which cleo, a developer, may have approved merge request 7: given is the JSON of its approvals.
func reviewed(changes map[string]any, given string) *script {
	return reviewedOf(versions(head, "10:00", other, "09:00"), changes, given)
}

func reviewedOf(versions string, changes map[string]any, given string) *script {
	return standing().on("GET "+mr7, 200, mr(changes)).on("GET "+mr7+"/approvals", 200, given).on("GET "+mr7+"/versions", 200, versions).
		on("GET ./members/all/21", 200, `{"id":21,"username":"cleo","access_level":30,"state":"active"}`)
}

// versions is the answer about the versions of a merge request: heads and times of day, newest first.
func versions(headsAndTimes ...string) string {
	var list []string
	for i := 0; i < len(headsAndTimes); i += 2 {
		list = append(list, fmt.Sprintf(`{"id":%d,"head_commit_sha":%q,"created_at":"2026-03-01T%s:00.000Z"}`, len(headsAndTimes)-i, headsAndTimes[i], headsAndTimes[i+1]))
	}
	return "[" + strings.Join(list, ",") + "]"
}

const cleo = `{"user":{"id":21,"username":"cleo"}`

var oneApproval = bot.ApprovalPolicy{Count: 1, Minimum: bot.PermissionWrite}

func judge(t *testing.T, s *script) (bot.ApprovalVerdict, bot.Approvals) {
	t.Helper()
	approvals, err := adapter(t, s).ReadApprovals(t.Context(), scripted, 7)
	if err != nil {
		t.Fatal(err)
	}
	return bot.JudgeApproval(oneApproval, bot.Actor{ID: 20, Login: "bob"}, head, approvals), approvals
}

func TestAnApprovalCountsForTheHeadItWasGivenFor(t *testing.T) {
	t.Parallel()
	at := func(when string) string {
		return `{"approved":true,"approved_by":[` + cleo + `,"approved_at":"` + when + `"}]}`
	}
	note := func(body, when string, system bool) string {
		return fmt.Sprintf(`{"id":1,"body":%q,"system":%v,"created_at":%q,"author":{"id":21,"username":"cleo"}}`, body, system, when)
	}
	const untimed = `{"approved":true,"approved_by":[` + cleo + `}]}`
	for name, c := range map[string]struct {
		script *script
		want   bool
	}{
		"after the head was pushed":  {reviewed(nil, at("2026-03-01T10:00:00.001Z")), true},
		"before the head was pushed": {reviewed(nil, at("2026-03-01T09:59:59.999Z")), false},
		"before its target changed, which is a new version of the same head": {
			reviewedOf(versions(head, "11:00", head, "10:00", other, "09:00"), nil, at("2026-03-01T10:30:00Z")), true},
		"before the head was pushed away and back": {
			reviewedOf(versions(head, "11:00", other, "10:45", head, "10:00"), nil, at("2026-03-01T10:30:00Z")), false},
		"in the same instant": {reviewed(nil, at("2026-03-01T10:00:00.000Z")), false},
		"before, but a push takes them away": {reviewed(nil, at("2026-03-01T09:00:00Z")).
			on("GET ./approvals", 200, `{"reset_approvals_on_push":true}`), true},
		"before, and a push takes none away": {reviewed(nil, at("2026-03-01T09:00:00Z")).
			on("GET ./approvals", 200, `{"reset_approvals_on_push":false}`), false},
		"Pitfall23 while they are being taken away": {reviewed(map[string]any{"detailed_merge_status": "approvals_syncing"}, at("2026-03-01T11:00:00Z")).
			on("GET ./approvals", 200, `{"reset_approvals_on_push":true}`), false},
		"of a head pushed while we read": {reviewed(map[string]any{"sha": other}, at("2026-03-01T11:00:00Z")).
			on("GET ./approvals", 200, `{"reset_approvals_on_push":true}`), false},
		"at a time only the conversation knows": {reviewed(nil, untimed).
			on("GET "+mr7+"/notes", 200, "["+note("approved this merge request", "2026-03-01T10:30:00Z", true)+"]"), true},
		"before, as the conversation knows": {reviewed(nil, untimed).
			on("GET "+mr7+"/notes", 200, "["+note("approved this merge request", "2026-03-01T09:30:00Z", true)+"]"), false},
		"as somebody wrote": {reviewed(nil, untimed).
			on("GET "+mr7+"/notes", 200, "["+note("approved this merge request", "2026-03-01T10:30:00Z", false)+"]"), false},
		"at a time nobody knows": {reviewed(nil, untimed).on("GET "+mr7+"/notes", 200, "[]"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if v, approvals := judge(t, c.script); v.Sufficient != c.want {
				t.Errorf("%+v from %+v, want %v", v, approvals, c.want)
			}
		})
	}
}

func TestPitfall37TheNewestVersionIsTheOneThatCounts(t *testing.T) {
	t.Parallel()
	// Forced back to a commit that was the head before: an approval from then says nothing about what came in between.
	const given = `{"approved":true,"approved_by":[` + cleo + `,"approved_at":"2026-03-01T09:30:00Z"}]}`
	s := standing().on("GET "+mr7, 200, mr(nil)).on("GET "+mr7+"/approvals", 200, given).
		on("GET ./members/all/21", 200, `{"access_level":30}`).
		on("GET "+mr7+"/versions", 200, `[
			{"id":1,"head_commit_sha":"`+head+`","created_at":"2026-03-01T09:00:00.000Z"},
			{"id":2,"head_commit_sha":"`+other+`","created_at":"2026-03-01T10:00:00.000Z"},
			{"id":3,"head_commit_sha":"`+head+`","created_at":"2026-03-01T11:00:00.000Z"}]`)
	if v, _ := judge(t, s); v.Sufficient {
		t.Errorf("got %+v", v)
	}
}

func TestBothEditionsSayWhatTheyDecided(t *testing.T) {
	t.Parallel()
	const by = `"approved_by":[` + cleo + `,"approved_at":"2026-03-01T11:00:00Z"}]`
	for name, c := range map[string]struct {
		status, given string
		want          bot.HostDecision
	}{
		"free, nobody":                {"mergeable", `{"approved":false,"approved_by":[]}`, bot.HostDecisionNone},
		"free, somebody":              {"mergeable", `{"approved":true,` + by + `}`, bot.HostDecisionNone},
		"none demanded, nobody":       {"mergeable", `{"approved":true,"approvals_required":0,"approvals_left":0,"approved_by":[]}`, bot.HostDecisionNone},
		"one demanded, nobody":        {"not_approved", `{"approved":false,"approvals_required":1,"approvals_left":1,"approved_by":[]}`, bot.HostDecisionRequired},
		"one demanded, somebody":      {"mergeable", `{"approved":true,"approvals_required":1,"approvals_left":0,` + by + `}`, bot.HostDecisionApproved},
		"two demanded, one":           {"checking", `{"approved":false,"approvals_required":2,"approvals_left":1,` + by + `}`, bot.HostDecisionRequired},
		"numbers fine, a rule is not": {"checking", `{"approved":false,"approvals_required":1,"approvals_left":0,` + by + `}`, bot.HostDecisionRequired},
		"a draft not approved":        {"draft_status", `{"approved":false,"approvals_required":1,"approvals_left":1,"approved_by":[]}`, bot.HostDecisionRequired},
		"changes requested":           {"requested_changes", `{"approved":true,"approvals_required":1,"approvals_left":0,` + by + `}`, bot.HostDecisionBlocked},
		"syncing":                     {"approvals_syncing", `{"approved":true,"approvals_required":1,"approvals_left":0,` + by + `}`, bot.HostDecisionRequired},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, approvals := judge(t, reviewed(map[string]any{"detailed_merge_status": c.status}, c.given)); approvals.Decision != c.want {
				t.Errorf("got %d, want %d", approvals.Decision, c.want)
			}
		})
	}
}

func TestWhoeverRequestsChangesBlocks(t *testing.T) {
	t.Parallel()
	const given = `{"approved":true,"approved_by":[` + cleo + `,"approved_at":"2026-03-01T11:00:00Z"}]}`
	for opinion, want := range map[string]bool{"requested_changes": false, "approved": true, "unreviewed": true, "reviewed": true} {
		s := reviewed(nil, given).on("GET ./members/all/22", 200, `{"access_level":40,"state":"active"}`).
			on("GET "+mr7+"/reviewers", 200, `[{"user":{"id":22,"username":"max"},"state":"`+opinion+`"}]`)
		if v, _ := judge(t, s); v.Sufficient != want {
			t.Errorf("%s: %+v", opinion, v)
		}
	}
}

func TestAReadThatFailsDecidesNothing(t *testing.T) {
	t.Parallel()
	const given = `{"approved":true,"approved_by":[` + cleo + `}]}`
	for _, request := range []string{"GET " + mr7, "GET " + mr7 + "/approvals", "GET " + mr7 + "/reviewers", "GET ./approvals", "GET " + mr7 + "/notes", "GET " + mr7 + "/versions", "GET ./members/all/21"} {
		s := reviewed(nil, given).on("GET "+mr7+"/notes", 200, "[]")
		s.answers[full(request)] = nil
		s.on(request, 502, "")
		if got, err := adapter(t, s).ReadApprovals(t.Context(), scripted, 7); err == nil {
			t.Errorf("%s failed, and yet %+v", request, got)
		}
	}
}

func TestEveryAccessLevelHasAMeaning(t *testing.T) {
	t.Parallel()
	for level, want := range map[int]bot.Permission{
		0: bot.PermissionNone, 5: bot.PermissionNone, 10: bot.PermissionRead, 15: bot.PermissionRead, 20: bot.PermissionTriage, 25: bot.PermissionTriage,
		30: bot.PermissionWrite, 40: bot.PermissionMaintain, 50: bot.PermissionAdmin, 60: bot.PermissionAdmin,
	} {
		for _, state := range []string{"active", "", "awaiting", "blocked"} {
			s := standing().on("GET ./members/all/21", 200, fmt.Sprintf(`{"access_level":%d,"state":%q}`, level, state))
			got, err := adapter(t, s).Permission(t.Context(), scripted, bot.Actor{ID: 21, Login: "cleo"})
			expect := want
			if state != "active" && state != "" {
				expect = bot.PermissionNone
			}
			if err != nil || got != expect {
				t.Errorf("level %d, %q: got %s, %v, want %s", level, state, got, err, expect)
			}
		}
	}
}

func TestAUserIsFoundByExactlyTheirName(t *testing.T) {
	t.Parallel()
	s := standing().call("GET users", func(req *http.Request) *http.Response {
		if name := req.URL.Query().Get("username"); name != "Cleo&x" {
			t.Errorf("asked for %q", name)
		}
		return reply(200, `[{"id":30,"username":"cleo"},{"id":21,"username":"cleo&X"}]`)
	}).on("GET ./members/all/21", 200, `{"access_level":30}`).on("GET ./members/all/30", 200, `{"access_level":50}`)
	if got, err := adapter(t, s).Permission(t.Context(), scripted, bot.Actor{Login: "Cleo&x"}); err != nil || got != bot.PermissionWrite {
		t.Errorf("got %s, %v", got, err)
	}
	// A host that is down is no stranger.
	s = standing().on("GET ./members/all/21", 502, "")
	if got, err := adapter(t, s).Permission(t.Context(), scripted, bot.Actor{ID: 21, Login: "cleo"}); err == nil {
		t.Errorf("got %s", got)
	}
}

func TestPitfall23ApprovalsAreTakenAwayLate(t *testing.T) {
	t.Parallel()
	w := newWorldAs(t, fakehost.GitLab{ResetAfter: -1})
	w.must(w.fake.SetRules(w.path, "main", fakehost.Rules{RequiredApprovals: 1, DismissStale: true}))
	number := w.OpenMR(hosttest.NewMR{Author: "bob", Branch: "b1", Title: "T", Files: map[string]string{"a.txt": "a\n"}})
	verdict := func() bot.ApprovalVerdict {
		t.Helper()
		mr, err := w.host.ReadMR(t.Context(), w.repo, number)
		w.must(err)
		approvals, err := w.host.ReadApprovals(t.Context(), w.repo, number)
		w.must(err)
		return bot.JudgeApproval(oneApproval, mr.Author, mr.HeadSHA, approvals)
	}
	w.Approve(number, "cleo", "")
	if v := verdict(); !v.Sufficient {
		t.Errorf("approved: %+v", v)
	}
	w.Push(number, map[string]string{"b.txt": "unseen\n"})
	if v := verdict(); v.Sufficient {
		t.Errorf("pushed, and the host is still taking approvals away: %+v", v)
	}
	before := len(w.Deliveries())
	_, err := w.fake.RunJobs()
	w.must(err)
	if v := verdict(); v.Sufficient {
		t.Errorf("taken away: %+v", v)
	}
	// Pitfall 24: newer hosts say so.
	var heard []bot.Event
	for _, d := range w.Deliveries()[before:] {
		events, _, err := w.host.Parse(d.Header.Get("X-Gitlab-Event"), d.Body)
		w.must(err)
		heard = append(heard, events...)
	}
	if len(heard) != 1 || heard[0].Kind != bot.EventMergeRequest || heard[0].Number != number {
		t.Errorf("heard %+v", heard)
	}
	w.Approve(number, "cleo", "")
	if v := verdict(); !v.Sufficient {
		t.Errorf("approved again: %+v", v)
	}
}

func TestTheFreeEditionIsEnough(t *testing.T) {
	t.Parallel()
	w := newWorldAs(t, fakehost.GitLab{Free: true})
	number := w.OpenMR(hosttest.NewMR{Author: "bob", Branch: "b1", Title: "T", Files: map[string]string{"a.txt": "a\n"}})
	w.Approve(number, "cleo", "")
	mr, err := w.host.ReadMR(t.Context(), w.repo, number)
	w.must(err)
	approvals, err := w.host.ReadApprovals(t.Context(), w.repo, number)
	w.must(err)
	if v := bot.JudgeApproval(oneApproval, mr.Author, mr.HeadSHA, approvals); !v.Sufficient || approvals.Decision != bot.HostDecisionNone {
		t.Errorf("got %+v from %+v", v, approvals)
	}
	if rules, err := w.host.ReadTargetRules(t.Context(), w.repo, "main"); err != nil || rules.RequiredReviews != 0 || len(rules.RequiredChecks) != 0 {
		t.Errorf("rules %+v, %v", rules, err)
	}
	if report, err := w.host.ReadChecks(t.Context(), w.repo, mr.HeadSHA, "main"); err != nil || len(report.Required) != 0 {
		t.Errorf("checks %+v, %v", report, err)
	}
}

func TestWhatLandingTakesIsRead(t *testing.T) {
	t.Parallel()
	s := (&script{}).on("GET projects/4711", 200, `{"id":4711,"path_with_namespace":"acme/team/app","merge_method":"ff","squash_option":"always","merge_trains_enabled":true,"only_allow_merge_if_pipeline_succeeds":true}`).
		on("GET ./approval_rules", 200, `[
			{"approvals_required":1,"rule_type":"any_approver","protected_branches":[]},
			{"approvals_required":2,"rule_type":"regular","protected_branches":[{"name":"rel/*"}]},
			{"approvals_required":3,"rule_type":"regular","protected_branches":[{"name":"dev"}]},
			{"approvals_required":9,"rule_type":"report_approver","protected_branches":[]}]`).
		on("GET ./external_status_checks", 200, `[{"name":"legal","protected_branches":[{"name":"rel/*"}]},{"name":"docs","protected_branches":[]},{"name":"dev only","protected_branches":[{"name":"dev"}]}]`)
	got, err := adapter(t, s).ReadTargetRules(t.Context(), scripted, "rel/1/2")
	var names []string
	for _, c := range got.RequiredChecks {
		names = append(names, c.Name)
	}
	if err != nil || !got.MergeQueue || !got.SquashOnly || got.LinearHistory || got.BotBypasses || got.RequiredReviews != 2 || strings.Join(names, " ") != "legal docs pipeline" {
		t.Errorf("read %+v, %v", got, err)
	}
	for _, branch := range []string{"rel", "xrel/1", "develop"} {
		if got, err := adapter(t, s).ReadTargetRules(t.Context(), scripted, branch); err != nil || got.RequiredReviews != 1 || len(got.RequiredChecks) != 2 {
			t.Errorf("%s: read %+v, %v", branch, got, err)
		}
	}
	// A host that fails is no host without rules.
	for _, request := range []string{"GET projects/4711", "GET ./approval_rules", "GET ./external_status_checks"} {
		broken := standing()
		broken.answers[full(request)] = nil
		broken.on(request, 500, "")
		if got, err := adapter(t, broken).ReadTargetRules(t.Context(), scripted, "main"); err == nil {
			t.Errorf("%s failed, and yet %+v", request, got)
		}
	}
}
