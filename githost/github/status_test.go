package github_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/fakehost"
	"github.com/batchbot/batchbot/githost/github"
)

// checks lists the check runs on a commit as people see them.
func (w *world) checks(sha string) (list []fakehost.Check) {
	w.t.Helper()
	state, err := w.fake.State(path)
	w.must(err)
	for _, c := range state.Checks {
		if c.SHA == sha {
			list = append(list, c)
		}
	}
	return list
}

func TestAnAppsStatusIsACheckRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sha := w.Commit("b1", map[string]string{"a.txt": "a\n"})
	heard := new(int)
	for i, step := range []struct {
		state bot.CheckState
		text  string
		want  fakehost.Check
		runs  int
	}{
		{bot.CheckPending, "waiting for an approval", fakehost.Check{Status: "in_progress", Title: "waiting for an approval"}, 1},
		{bot.CheckPending, "waiting for an approval", fakehost.Check{Status: "in_progress", Title: "waiting for an approval"}, 1},
		{bot.CheckPending, "in batch 7", fakehost.Check{Status: "in_progress", Title: "in batch 7"}, 1},
		{bot.CheckFailure, "the batch failed", fakehost.Check{Status: "completed", Conclusion: "failure", Title: "the batch failed"}, 1},
		{bot.CheckPending, "in batch 8", fakehost.Check{Status: "in_progress", Title: "in batch 8"}, 2}, // what ended is not set back
		{bot.CheckSuccess, "landed", fakehost.Check{Status: "completed", Conclusion: "success", Title: "landed"}, 2},
		{bot.CheckSuccess, "landed", fakehost.Check{Status: "completed", Conclusion: "success", Title: "landed"}, 2},
	} {
		w.hints(heard)
		w.must(w.host.SetCommitStatus(t.Context(), w.repo, sha, bot.CommitStatus{State: step.state, Description: step.text, URL: fmt.Sprintf("https://bot.example/%s", step.text[:2])}))
		runs := w.checks(sha)
		step.want.SHA, step.want.Name, step.want.App = sha, "batchbot", "batchbot"
		if len(runs) != step.runs || runs[len(runs)-1] != step.want {
			t.Errorf("step %d: people see %+v", i, runs)
		}
		if hints := w.hints(heard); len(hints) != 0 {
			t.Errorf("step %d: our own check was heard as %+v", i, hints)
		}
	}
	report, err := w.host.ReadChecks(t.Context(), w.repo, sha, "main")
	if err != nil || len(report.Checks) != 1 || !report.Checks[0].Own {
		t.Errorf("read %+v, %v", report, err)
	}
}

// Another App's check run of the same name is not ours to change, nor to overlook.
func TestAnotherAppsCheckIsLeftAlone(t *testing.T) {
	t.Parallel()
	const runs = "GET /repos/acme/app/commits/" + head + "/check-runs"
	s := quiet().tokens(5).
		on(runs, 200, `{"total_count":1,"check_runs":[{"id":8,"name":"batchbot","status":"completed","conclusion":"success","app":{"id":2},"head_sha":"`+head+`"}]}`).
		on("GET /repos/acme/app/commits/"+head+"/status", 200, `{"state":"pending","total_count":0,"statuses":[]}`).
		on("POST /repos/acme/app/check-runs", 201, `{"id":9}`)
	h := appAdapter(t, s)
	if err := h.SetCommitStatus(t.Context(), scripted, head, bot.CommitStatus{State: bot.CheckSuccess, Description: "landed"}); err != nil {
		t.Error(err)
	}
	if s.times("POST /repos/acme/app/check-runs") != 1 {
		t.Errorf("asked %v", s.seen)
	}
	if report, err := h.ReadChecks(t.Context(), scripted, head, "main"); err != nil || len(report.Checks) != 1 || report.Checks[0].Own {
		t.Errorf("read %+v, %v", report, err)
	}
}

func TestATokensStatusIsACommitStatusWrittenOnce(t *testing.T) {
	t.Parallel()
	w := newWorldAs(t, func(c *github.Config) { c.AppID, c.PrivateKey, c.Token = 0, "", "bob-token" })
	w.repo = bot.Repository{RepositoryRef: bot.RepositoryRef{Path: path}}
	sha := w.Commit("b1", map[string]string{"a.txt": "a\n"})
	for _, text := range []string{"waiting", "waiting", "in batch 7", "in batch 7", "waiting"} {
		w.must(w.host.SetCommitStatus(t.Context(), w.repo, sha, bot.CommitStatus{State: bot.CheckPending, Description: text, URL: "https://bot.example/7"}))
	}
	var seen []string
	for _, s := range w.Statuses(sha) {
		seen = append(seen, s.Description)
	}
	if fmt.Sprint(seen) != "[waiting in batch 7 waiting]" || len(w.checks(sha)) != 0 {
		t.Errorf("people see %q and the checks %v", seen, w.checks(sha))
	}
	report, err := w.host.ReadChecks(t.Context(), w.repo, sha, "main")
	if err != nil || len(report.Checks) != 1 || !report.Checks[0].Own {
		t.Errorf("read %+v, %v", report, err)
	}
}

func TestAnAppWithoutThePermissionIsForbiddenToReport(t *testing.T) {
	t.Parallel()
	s := quiet().tokens(5).
		on("GET /repos/acme/app/commits/"+head+"/check-runs", 200, `{"total_count":0,"check_runs":[]}`).
		on("POST /repos/acme/app/check-runs", 403, `{"message":"Resource not accessible by integration"}`)
	err := appAdapter(t, s).SetCommitStatus(t.Context(), scripted, head, bot.CommitStatus{State: bot.CheckPending, Description: "waiting"})
	if !errors.Is(err, bot.ErrForbidden) {
		t.Errorf("got %v", err)
	}
}
