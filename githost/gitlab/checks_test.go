package gitlab_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/fakehost"
	"github.com/batchbot/batchbot/githost/hosttest"
)

const (
	pipelines = "GET ./pipelines"
	statuses  = "GET ./repository/commits/" + head + "/statuses"
	mrsOfHead = "GET ./repository/commits/" + head + "/merge_requests"
	mrRuns    = "GET " + mr7 + "/pipelines"
)

var asSeen = bot.CheckPolicy{None: bot.WithoutChecksWait, NoneAfter: time.Minute}

func report(t *testing.T, s *script) bot.ChecksReport {
	t.Helper()
	r, err := adapter(t, s).ReadChecks(t.Context(), scripted, head, "main")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func verdict(t *testing.T, s *script) bot.CIVerdict {
	t.Helper()
	return bot.JudgeChecks(asSeen, report(t, s), time.Hour, time.Hour).Verdict
}

func run(id int, status, source, sha string) string {
	return fmt.Sprintf(`{"id":%d,"sha":%q,"status":%q,"source":%q,"web_url":"https://gitlab.example/p/%d"}`, id, sha, status, source, id)
}

func job(id int, name, status string, pipeline int, more string) string {
	return fmt.Sprintf(`{"id":%d,"sha":%q,"name":%q,"status":%q,"pipeline_id":%d,"target_url":null,"coverage":null%s}`, id, head, name, status, pipeline, more)
}

func list(items ...string) string { return "[" + strings.Join(items, ",") + "]" }

func TestTheNewestPipelineOfTheHeadDecides(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		runs, jobs string
		want       bot.CIVerdict
	}{
		"green":                              {list(run(5, "success", "push", head)), list(job(50, "build", "success", 5, "")), bot.CIGreen},
		"red":                                {list(run(5, "failed", "push", head)), list(job(50, "build", "failed", 5, "")), bot.CIRed},
		"red before it had a job":            {list(run(5, "failed", "push", head)), list(), bot.CIRed},
		"red, and a newer one green":         {list(run(6, "success", "web", head), run(5, "failed", "push", head)), list(job(60, "build", "success", 6, ""), job(50, "build", "failed", 5, "")), bot.CIGreen},
		"green, and a newer one runs":        {list(run(6, "running", "merge_request_event", head), run(5, "success", "push", head)), list(job(50, "build", "success", 5, "")), bot.CIPending},
		"in an order nobody promised":        {list(run(5, "failed", "push", head), run(6, "success", "web", head)), list(), bot.CIGreen},
		"of another commit":                  {list(run(5, "failed", "push", other)), list(), bot.CIMissing},
		"part of another":                    {list(run(7, "failed", "parent_pipeline", head), run(5, "success", "push", head)), list(), bot.CIGreen},
		"created, later jobs wait":           {list(run(5, "running", "push", head)), list(job(50, "build", "success", 5, ""), job(51, "deploy", "created", 5, "")), bot.CIPending},
		"a job that may fail":                {list(run(5, "success", "push", head)), list(job(50, "flaky", "failed", 5, `,"allow_failure":true`)), bot.CIGreen},
		"a job nobody has to start":          {list(run(5, "success", "push", head)), list(job(50, "deploy", "manual", 5, `,"allow_failure":true`)), bot.CIGreen},
		"a job somebody has to start":        {list(run(5, "manual", "push", head)), list(job(50, "deploy", "manual", 5, "")), bot.CIPending},
		"skipped":                            {list(run(5, "skipped", "push", head)), list(), bot.CIGreen},
		"cancelled":                          {list(run(5, "canceled", "push", head)), list(job(50, "build", "canceled", 5, "")), bot.CICancelled},
		"being cancelled":                    {list(run(5, "canceling", "push", head)), list(), bot.CIPending},
		"a state of tomorrow":                {list(run(5, "pondering", "push", head)), list(), bot.CIPending},
		"only a status, red":                 {list(run(8, "failed", "external", head)), list(job(80, "coverage", "failed", 8, "")), bot.CIRed},
		"only a status, green":               {list(run(8, "success", "external", head)), list(job(80, "coverage", "success", 8, "")), bot.CIGreen},
		"a status beside a green pipeline":   {list(run(8, "failed", "external", head), run(5, "success", "push", head)), list(job(80, "coverage", "failed", 8, "")), bot.CIRed},
		"our own status":                     {list(run(8, "pending", "external", head)), list(job(80, "batchbot", "pending", 8, "")), bot.CIMissing},
		"our own in the pipeline, pending":   {list(run(5, "running", "push", head)), list(job(50, "build", "success", 5, ""), job(51, "batchbot", "pending", 5, "")), bot.CIGreen},
		"our own in the pipeline, failed":    {list(run(5, "failed", "push", head)), list(job(50, "build", "success", 5, ""), job(51, "batchbot", "failed", 5, "")), bot.CIGreen},
		"our own in a red pipeline":          {list(run(5, "failed", "push", head)), list(job(50, "build", "failed", 5, ""), job(51, "batchbot", "pending", 5, "")), bot.CIRed},
		"our own, and no job yet":            {list(run(5, "pending", "push", head)), list(job(51, "batchbot", "pending", 5, "")), bot.CIPending},
		"our own, done, in a red pipeline":   {list(run(5, "failed", "push", head)), list(job(51, "batchbot", "success", 5, "")), bot.CIRed},
		"Pitfall26 no pipeline, no status":   {list(), list(), bot.CIMissing},
		"a job of a run that counts no more": {list(run(6, "success", "web", head), run(5, "failed", "push", head)), list(job(50, "old", "failed", 5, "")), bot.CIGreen},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := verdict(t, standing().on(pipelines, 200, c.runs).on(statuses, 200, c.jobs)); got != c.want {
				t.Errorf("CI is %v, want %v", got, c.want)
			}
		})
	}
}

func TestAPipelineOfMergedResultsCountsWhenItAddsNothing(t *testing.T) {
	t.Parallel()
	const result, base = "1111111111111111111111111111111111111111", "2222222222222222222222222222222222222222"
	for name, c := range map[string]struct {
		parents, mergeBase string
		mrs                string
		want               bot.CIVerdict
	}{
		"base and head":                  {fmt.Sprintf("[%q,%q]", base, head), base, list(mr(nil)), bot.CIRed},
		"a target that moved and head":   {fmt.Sprintf("[%q,%q]", base, head), other, list(mr(nil)), bot.CIMissing},
		"another head":                   {fmt.Sprintf("[%q,%q]", base, other), base, list(mr(nil)), bot.CIMissing},
		"one parent":                     {fmt.Sprintf("[%q]", head), base, list(mr(nil)), bot.CIMissing},
		"of a closed merge request":      {fmt.Sprintf("[%q,%q]", base, head), base, list(mr(map[string]any{"state": "closed"})), bot.CIMissing},
		"into another target":            {fmt.Sprintf("[%q,%q]", base, head), base, list(mr(map[string]any{"target_branch": "dev"})), bot.CIMissing},
		"Pitfall26 a request further on": {fmt.Sprintf("[%q,%q]", base, head), base, list(mr(map[string]any{"sha": other})), bot.CIMissing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := standing().on(pipelines, 200, "[]").on(statuses, 200, "[]").on(mrsOfHead, 200, c.mrs).
				on(mrRuns, 200, list(run(9, "failed", "merge_request_event", result))).
				on("GET ./repository/commits/"+result, 200, `{"id":"`+result+`","parent_ids":`+c.parents+`}`).
				on("GET ./repository/commits/"+result+"/statuses", 200, list(job(90, "build", "failed", 9, ""))).
				call("GET ./repository/merge_base", func(req *http.Request) *http.Response {
					if refs := req.URL.Query()["refs[]"]; !slices.Equal(refs, []string{base, head}) {
						t.Errorf("asked for the merge base of %v", refs)
					}
					return reply(200, `{"id":"`+c.mergeBase+`"}`)
				})
			r := report(t, s)
			if got := bot.JudgeChecks(asSeen, r, time.Hour, time.Hour); got.Verdict != c.want {
				t.Errorf("CI is %v, want %v", got.Verdict, c.want)
			}
			if named := slices.ContainsFunc(r.Checks, func(c bot.Check) bool { return c.Name == "build" }); named != (c.want == bot.CIRed) {
				t.Errorf("reported %+v", r.Checks)
			}
		})
	}
}

func TestChecksDemandedByNameAreOfTheMergeRequest(t *testing.T) {
	t.Parallel()
	demanded := func() *script {
		return standing().on(pipelines, 200, "[]").on(mrsOfHead, 200, list(mr(nil))).on(mrRuns, 200, "[]").
			on("GET ./external_status_checks", 200, `[{"name":"legal","protected_branches":[]}]`)
	}
	for status, want := range map[string]bot.CIVerdict{"pending": bot.CIPending, "passed": bot.CIGreen, "failed": bot.CIRed, "": bot.CIPending} {
		// Anybody may write a status of that name; it is not the check.
		s := demanded().on(statuses, 200, list(job(80, "legal", "success", 0, ""))).
			on("GET "+mr7+"/status_checks", 200, `[{"id":3,"name":"legal","status":"`+status+`"}]`)
		if got := verdict(t, s); got != want {
			t.Errorf("%q: CI is %v, want %v", status, got, want)
		}
	}
	// Beside them the pipeline counts if it is demanded too.
	for _, must := range []bool{true, false} {
		s := demanded().on(statuses, 200, "[]").on("GET "+mr7+"/status_checks", 200, `[{"id":3,"name":"legal","status":"passed"}]`)
		s.answers[full("GET projects/4711")] = nil
		s.on("GET projects/4711", 200, fmt.Sprintf(`{"id":4711,"path_with_namespace":"acme/team/app","only_allow_merge_if_pipeline_succeeds":%v}`, must))
		if got := verdict(t, s); (got == bot.CIGreen) == must {
			t.Errorf("pipeline demanded %v: CI is %v", must, got)
		}
	}
}

func TestAHostThatFailsHasNoVerdict(t *testing.T) {
	t.Parallel()
	for _, request := range []string{pipelines, statuses, mrsOfHead, mrRuns, "GET ./external_status_checks"} {
		s := standing().on(pipelines, 200, list(run(5, "success", "push", head))).on(statuses, 200, "[]").on(mrsOfHead, 200, list(mr(nil))).on(mrRuns, 200, "[]")
		s.answers[full(request)] = nil
		s.on(request, 502, "")
		if got, err := adapter(t, s).ReadChecks(t.Context(), scripted, head, "main"); err == nil {
			t.Errorf("%s failed, and yet %+v", request, got)
		}
	}
	if _, err := adapter(t, standing()).ReadChecks(t.Context(), scripted, "main", "main"); err == nil {
		t.Error("read the checks of something that is no commit")
	}
}

func TestPipelinesOfALivingHost(t *testing.T) {
	t.Parallel()
	for _, style := range []string{"", "merge_request"} {
		w := newWorld(t)
		w.fake.SetCI(fakehost.CI{Mode: fakehost.CIManual, Style: style})
		batch := openBatch(t, w)
		judge := func() bot.CIVerdict {
			r, err := w.host.ReadChecks(t.Context(), w.repo, batch.HeadSHA, "main")
			w.must(err)
			return bot.JudgeChecks(asSeen, r, time.Hour, time.Hour).Verdict
		}
		if got := judge(); got != bot.CIPending {
			t.Errorf("%q: while it runs CI is %v", style, got)
		}
		_, err := w.fake.FinishCI(batch.HeadSHA)
		w.must(err)
		if got := judge(); got != bot.CIGreen {
			t.Errorf("%q: when it is done CI is %v", style, got)
		}
	}
}

func TestAStatusIsWrittenOnAForksHeadToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	number := w.OpenMR(hosttest.NewMR{Author: "dan", Branch: "patch-1", Title: "T", Files: map[string]string{"f.txt": "f\n"}, Fork: true})
	mr, err := w.host.ReadMR(t.Context(), w.repo, number)
	w.must(err)
	w.must(w.host.SetCommitStatus(t.Context(), w.repo, mr.HeadSHA, bot.CommitStatus{State: bot.CheckPending, Description: "waits"}))
	if seen := w.Statuses(mr.HeadSHA); len(seen) != 1 {
		t.Errorf("people see %+v", seen)
	}
}

func TestAStatusOnACommitOfNoBranchGoesToItsMergeRequest(t *testing.T) {
	t.Parallel()
	var refs []any
	s := standing().on(mrsOfHead, 200, list(mr(nil))).
		call("POST ./statuses/"+head, func(req *http.Request) *http.Response {
			ref := sent(t, req)["ref"]
			refs = append(refs, ref)
			if ref == nil {
				return reply(404, `{"message":"404 References for commit Not Found"}`)
			}
			return reply(201, `{"id":1}`)
		})
	if err := adapter(t, s).SetCommitStatus(t.Context(), scripted, head, bot.CommitStatus{State: bot.CheckSuccess}); err != nil || len(refs) != 2 || refs[1] != "refs/merge-requests/7/head" {
		t.Errorf("sent %v, %v", refs, err)
	}
}

func TestWritingAStatusTwiceIsHarmless(t *testing.T) {
	t.Parallel()
	s := standing().on("POST ./statuses/"+head, 400, `{"message":"Cannot transition status via :enqueue from :pending (Reason(s): Status cannot transition via \"enqueue\")"}`)
	if err := adapter(t, s).SetCommitStatus(t.Context(), scripted, head, bot.CommitStatus{State: bot.CheckPending}); err != nil {
		t.Error(err)
	}
	s = standing().on("POST ./statuses/"+head, 400, `{"error":"state does not have a valid value"}`)
	h := adapter(t, s)
	if err := h.SetCommitStatus(t.Context(), scripted, head, bot.CommitStatus{State: bot.CheckPending}); err == nil || !strings.Contains(err.Error(), "valid value") {
		t.Errorf("got %v", err)
	}
	for _, bad := range []struct {
		sha   string
		state bot.CheckState
	}{{"HEAD", bot.CheckPending}, {head, bot.CheckCancelled}, {head, 0}} {
		if err := h.SetCommitStatus(t.Context(), scripted, bad.sha, bot.CommitStatus{State: bad.state}); err == nil {
			t.Errorf("%+v was written", bad)
		}
	}
}
