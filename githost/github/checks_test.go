package github_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/hosttest/contract"
)

const (
	runs     = "GET /repos/acme/app/commits/" + head + "/check-runs"
	combined = "GET /repos/acme/app/commits/" + head + "/status"
	rules    = "GET /repos/acme/app/rules/branches/main"
	guard    = "GET /repos/acme/app/branches/main/protection"
	noRuns   = `{"total_count":0,"check_runs":[]}`
	noStatus = `{"state":"pending","total_count":0,"statuses":[]}`
)

// quiet is a host on whose commit nothing is reported and that requires nothing.
func quiet() *script {
	return (&script{}).on("GET /repositories/4711", 200, `{"id":4711,"full_name":"acme/app"}`)
}

func report(t *testing.T, s *script) bot.ChecksReport {
	t.Helper()
	r, err := appAdapter(t, s.tokens(5)).ReadChecks(t.Context(), scripted, head, "main")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestFinding05RulesOfUnknownTypesHideNoCheck(t *testing.T) {
	t.Parallel()
	s := quiet().on(runs, 200, noRuns).on(combined, 200, noStatus).on(rules, 200, `[
		{"type":"merge_queue","parameters":{"check_response_timeout_minutes":5}},
		{"type":"copilot_code_review","parameters":{}}, {"type":"something_new","parameters":[1]}, {"type":"required_linear_history"},
		{"type":"required_status_checks","parameters":{"required_status_checks":[{"context":"build","integration_id":15368},{"context":"lint"}]}}]`,
		contract.Broken, "rules of tomorrow")
	want := []bot.RequiredCheck{{Name: "build", Source: "15368"}, {Name: "lint"}}
	if got := report(t, s).Required; !slices.Equal(got, want) {
		t.Errorf("required %v, want %v", got, want)
	}
}

func TestFinding05ABranchWithASlashIsOneSegment(t *testing.T) {
	t.Parallel()
	s := quiet().on(runs, 200, noRuns).on(combined, 200, noStatus).
		on("GET /repos/acme/app/rules/branches/rel%2F1%23%25", 200, `[{"type":"required_status_checks","parameters":{"required_status_checks":[{"context":"build"}]}}]`)
	r, err := appAdapter(t, s.tokens(5)).ReadChecks(t.Context(), scripted, head, "rel/1#%")
	if err != nil || len(r.Required) != 1 {
		t.Errorf("got %+v, %v, asked %v", r, err, s.seen)
	}
}

func TestRequiredChecksComeFromRulesAndProtection(t *testing.T) {
	t.Parallel()
	const protection = `{"required_status_checks":{"strict":true,"contexts":["build","old"],"checks":[{"context":"build","app_id":15368},{"context":"any","app_id":-1}]}}`
	s := quiet().on(runs, 200, noRuns).on(combined, 200, noStatus).
		on(rules, 200, `[{"type":"required_status_checks","parameters":{"required_status_checks":[{"context":"build","integration_id":15368}]}}]`).
		on(guard, 200, protection)
	want := []bot.RequiredCheck{{Name: "build", Source: "15368"}, {Name: "any"}, {Name: "old"}}
	if got := report(t, s).Required; !slices.Equal(got, want) {
		t.Errorf("required %v, want %v", got, want)
	}
	// Without the right to read protection, the branch tells as much.
	for level, want := range map[string][]bot.RequiredCheck{"everyone": {{Name: "build"}}, "off": nil} {
		s = quiet().on(runs, 200, noRuns).on(combined, 200, noStatus).on(rules, 403, `{"message":"Upgrade to GitHub Pro"}`).
			on(guard, 403, `{"message":"Resource not accessible by integration"}`).
			on("GET /repos/acme/app/branches/main", 200, fmt.Sprintf(`{"protection":{"enabled":true,"required_status_checks":{"enforcement_level":%q,"contexts":["build"],"checks":[]}}}`, level))
		if got := report(t, s).Required; !slices.Equal(got, want) {
			t.Errorf("enforcement %s: required %v, want %v", level, got, want)
		}
	}
}

func TestPitfall05ACommitWithoutStatusesIsNotPending(t *testing.T) {
	t.Parallel()
	s := quiet().on(combined, 200, noStatus).on(runs, 200, `{"total_count":1,"check_runs":[
		{"id":1,"name":"build","status":"completed","conclusion":"success","app":{"id":15368}}]}`)
	got := bot.JudgeChecks(asSeen, report(t, s), time.Hour, time.Hour)
	if got.Verdict != bot.CIGreen {
		t.Errorf("CI is %v", got.Verdict)
	}
}

var asSeen = bot.CheckPolicy{None: bot.WithoutChecksWait, NoneAfter: time.Minute}

func TestEveryStateOfACheckHasAMeaning(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status, conclusion string
		want               bot.CheckState
	}{
		{"queued", "", bot.CheckPending}, {"in_progress", "", bot.CheckPending}, {"waiting", "", bot.CheckPending},
		{"requested", "", bot.CheckPending}, {"pending", "", bot.CheckPending}, {"completed", "", bot.CheckPending},
		{"completed", "success", bot.CheckSuccess}, {"completed", "neutral", bot.CheckSuccess}, {"completed", "skipped", bot.CheckSuccess},
		{"completed", "failure", bot.CheckFailure}, {"completed", "timed_out", bot.CheckFailure},
		{"completed", "action_required", bot.CheckFailure}, {"completed", "startup_failure", bot.CheckFailure},
		{"completed", "cancelled", bot.CheckCancelled}, {"completed", "stale", bot.CheckCancelled},
	} {
		s := quiet().on(combined, 200, noStatus).on(runs, 200, fmt.Sprintf(
			`{"total_count":1,"check_runs":[{"id":1,"name":"build","status":%q,"conclusion":%q,"app":{"id":15368}}]}`, c.status, c.conclusion))
		if got := report(t, s).Checks; len(got) != 1 || got[0].State != c.want || got[0].Source != "15368" || got[0].Own {
			t.Errorf("%s %s: got %+v, want state %d", c.status, c.conclusion, got, c.want)
		}
	}
	for state, want := range map[string]bot.CheckState{"pending": bot.CheckPending, "success": bot.CheckSuccess, "failure": bot.CheckFailure, "error": bot.CheckFailure} {
		s := quiet().on(runs, 200, noRuns).on(combined, 200, fmt.Sprintf(`{"state":"x","statuses":[{"id":3,"context":"ci","state":%q}]}`, state))
		if got := report(t, s).Checks; len(got) != 1 || got[0].State != want || got[0].Source != "status" {
			t.Errorf("status %s: got %+v, want state %d", state, got, want)
		}
	}
}

func TestOurOwnChecksAreMarked(t *testing.T) {
	t.Parallel()
	s := quiet().on(combined, 200, `{"statuses":[{"id":3,"context":"batchbot","state":"pending"}]}`).
		on(runs, 200, `{"total_count":1,"check_runs":[{"id":1,"name":"batchbot","status":"queued","app":{"id":1}}]}`)
	for _, c := range report(t, s).Checks {
		if !c.Own {
			t.Errorf("%+v is not marked", c)
		}
	}
}

func TestAllPagesOfChecksAreRead(t *testing.T) {
	t.Parallel()
	run := func(id int) string {
		return fmt.Sprintf(`{"total_count":2,"check_runs":[{"id":%d,"name":"job %d","status":"completed","conclusion":"success","app":{"id":15368}}]}`, id, id)
	}
	s := quiet().on(combined, 200, noStatus).call(runs, func(req *http.Request) *http.Response {
		if q := req.URL.Query(); q.Get("filter") != "latest" || q.Get("per_page") != "100" {
			t.Errorf("asked for %s", req.URL.RawQuery)
		}
		if req.URL.Query().Get("page") == "2" {
			return reply(200, run(2))
		}
		return reply(200, run(1), "Link", `<https://ghe.example/api/v3/repos/acme/app/commits/x/check-runs?page=2>; rel="next"`)
	})
	if got := report(t, s).Checks; len(got) != 2 || got[1].Name != "job 2" {
		t.Errorf("got %+v", got)
	}
}

func TestAStatusCountsForTheAppThatWroteIt(t *testing.T) {
	t.Parallel()
	required := `[{"type":"required_status_checks","parameters":{"required_status_checks":[{"context":"ci/jenkins","integration_id":77}]}}]`
	for creator, want := range map[string]bot.CIVerdict{"jenkins[bot]": bot.CIGreen, "forger[bot]": bot.CIPending, "ada": bot.CIPending} {
		s := quiet().on(runs, 200, noRuns).on(rules, 200, required).
			on(combined, 200, `{"statuses":[{"id":3,"context":"ci/jenkins","state":"success"}]}`).
			on("GET /repos/acme/app/commits/"+head+"/statuses", 200, fmt.Sprintf(`[{"id":3,"context":"ci/jenkins","state":"success","creator":{"login":%q}}]`, creator)).
			on("GET /apps/jenkins", 200, `{"id":77,"slug":"jenkins"}`).on("GET /apps/forger", 200, `{"id":78,"slug":"forger"}`)
		if got := bot.JudgeChecks(asSeen, report(t, s), time.Hour, time.Hour); got.Verdict != want {
			t.Errorf("written by %s: CI is %v, want %v", creator, got.Verdict, want)
		}
	}
}

func TestACommitIDIsAskedForInFull(t *testing.T) {
	t.Parallel()
	s := quiet()
	h := adapter(t, s)
	for _, sha := range []string{"", "main", "6dcb09b", head + "/../x", strings.ToUpper(head)} {
		if _, err := h.ReadChecks(t.Context(), scripted, sha, "main"); err == nil {
			t.Errorf("read the checks of %q", sha)
		}
		if err := h.SetCommitStatus(t.Context(), scripted, sha, bot.CommitStatus{State: bot.CheckPending}); err == nil {
			t.Errorf("set the status of %q", sha)
		}
	}
	if len(s.seen) != 0 {
		t.Errorf("asked %v", s.seen)
	}
}
