package gitlab_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/fakehost"
	"github.com/batchbot/batchbot/githost/hosttest"
)

// merge has merge request 7 merged by an adapter in front of s.
func merge(t *testing.T, s *script) (bot.MergeAnswer, error) {
	t.Helper()
	return adapter(t, s).MergeMR(t.Context(), scripted, 7, head, "Batch 7", "#1 and #2")
}

func TestFinding06OnlyAMergeRequestThatSaysSoIsMerged(t *testing.T) {
	t.Parallel()
	merged := mr(map[string]any{"state": "merged", "merge_commit_sha": other})
	for name, c := range map[string]struct {
		answer func(*script) *script
		read   string
		want   bot.MergeOutcome // 0: an error, read again
	}{
		"an empty 200":                 {func(s *script) *script { return s.on("PUT "+mr7+"/merge", 200, "") }, mr(nil), 0},
		"an empty 200, and yet merged": {func(s *script) *script { return s.on("PUT "+mr7+"/merge", 200, "{}") }, merged, bot.MergeDone},
		"200 and still open":           {func(s *script) *script { return s.on("PUT "+mr7+"/merge", 200, mr(nil)) }, mr(nil), 0},
		"200 without a commit": {func(s *script) *script {
			return s.on("PUT "+mr7+"/merge", 200, mr(map[string]any{"state": "merged", "sha": nil, "diff_refs": nil}))
		}, merged, bot.MergeDone},
		"200 of another one": {func(s *script) *script {
			return s.on("PUT "+mr7+"/merge", 200, strings.Replace(merged, `"iid":7`, `"iid":8`, 1))
		}, mr(nil), 0},
		"200 and being merged":                 {func(s *script) *script { return s.on("PUT "+mr7+"/merge", 200, mr(map[string]any{"state": "locked"})) }, mr(map[string]any{"state": "locked"}), bot.MergeNotReady},
		"202":                                  {func(s *script) *script { return s.on("PUT "+mr7+"/merge", 202, mr(nil)) }, mr(nil), 0},
		"a refusal after somebody else merged": {func(s *script) *script { return s.on("PUT "+mr7+"/merge", 405, `{"message":"405 Method Not Allowed"}`) }, merged, bot.MergeDone},
		"a redirect that would have been a success as a read": {func(s *script) *script {
			return s.on("PUT "+mr7+"/merge", 301, "", "Location", "https://gitlab.example/api/v4/projects/4711/merge_requests/7")
		}, mr(nil), 0},
		"an answer that got lost": {func(s *script) *script { return s.on("PUT "+mr7+"/merge", 502, "<html>bad gateway</html>") }, mr(nil), 0},
		"no answer": {func(s *script) *script {
			return s.call("PUT "+mr7+"/merge", func(*http.Request) *http.Response { return nil })
		}, mr(nil), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer, err := merge(t, c.answer(standing().on("GET "+mr7, 200, mr(nil)).on("GET "+mr7, 200, c.read)))
			if answer.Outcome != c.want || (err == nil) != (c.want != 0) {
				t.Errorf("got %+v, %v, want outcome %d", answer, err, c.want)
			}
			if c.want == bot.MergeDone && answer.SHA != other {
				t.Errorf("landed as %q, want %s", answer.SHA, other)
			}
		})
	}
}

func TestPitfall20RefusalsOfAMergeAreToldApartByReadingAgain(t *testing.T) {
	t.Parallel()
	status := func(s string) map[string]any { return map[string]any{"detailed_merge_status": s} }
	for name, c := range map[string]struct {
		status int
		read   map[string]any
		want   bot.MergeOutcome
	}{
		"head moved, told late":         {405, map[string]any{"sha": other}, bot.MergeHeadMoved},
		"head moved":                    {409, map[string]any{"sha": other}, bot.MergeHeadMoved},
		"head moved, and conflicts":     {422, map[string]any{"sha": other, "detailed_merge_status": "conflict"}, bot.MergeHeadMoved},
		"the host lags behind itself":   {409, nil, bot.MergeNotReady},
		"unchecked":                     {405, status("unchecked"), bot.MergeNotReady},
		"checking":                      {405, status("checking"), bot.MergeNotReady},
		"preparing":                     {405, status("preparing"), bot.MergeNotReady},
		"approvals syncing":             {405, status("approvals_syncing"), bot.MergeNotReady},
		"ci still running":              {405, status("ci_still_running"), bot.MergeNotReady},
		"mergeable after all":           {405, status("mergeable"), bot.MergeNotReady},
		"the target moved":              {405, status("need_rebase"), bot.MergeNotReady},
		"an old host says nothing":      {406, status(""), bot.MergeNotReady},
		"closed":                        {405, map[string]any{"state": "closed", "detailed_merge_status": "not_open"}, bot.MergeClosed},
		"draft":                         {405, status("draft_status"), bot.MergeRefused},
		"conflict":                      {406, status("conflict"), bot.MergeRefused},
		"conflict, today's words":       {422, status("conflict"), bot.MergeRefused},
		"nothing in it":                 {422, status("commits_status"), bot.MergeRefused},
		"a hook said no":                {422, map[string]any{"merge_error": "pre-receive hook declined"}, bot.MergeRefused},
		"squashing wanted":              {400, nil, bot.MergeRefused},
		"a status of tomorrow":          {405, status("moon_not_full"), bot.MergeRefused},
		"not approved":                  {405, status("not_approved"), bot.MergeNeeds},
		"changes requested":             {405, status("requested_changes"), bot.MergeNeeds},
		"threads open":                  {405, status("discussions_not_resolved"), bot.MergeNeeds},
		"Pitfall21 no pipeline":         {405, status("ci_must_pass"), bot.MergeNeeds},
		"a check missing":               {405, status("status_checks_must_pass"), bot.MergeNeeds},
		"a policy":                      {405, status("security_policy_violations"), bot.MergeNeeds},
		"the role does not merge there": {401, nil, bot.MergeRefused},
		"the token's scope":             {403, nil, bot.MergeRefused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := standing().on("GET "+mr7, 200, mr(nil)).on("GET "+mr7, 200, mr(c.read)).on("PUT "+mr7+"/merge", c.status, `{"message":"the host's words"}`)
			answer, err := merge(t, s)
			if err != nil || answer.Outcome != c.want {
				t.Errorf("got %+v, %v, want outcome %d", answer, err, c.want)
			}
			if c.want == bot.MergeRefused && !strings.Contains(answer.Message, "the host's words; ") {
				t.Errorf("people are told %q", answer.Message)
			}
			if answer.Message == "" {
				t.Error("nobody learns why")
			}
		})
	}
}

func TestAMergeIsNeverSquashedAndAlwaysGuarded(t *testing.T) {
	t.Parallel()
	var body map[string]any
	s := standing().on("GET "+mr7, 200, mr(nil)).call("PUT "+mr7+"/merge", func(req *http.Request) *http.Response {
		body = sent(t, req)
		return reply(200, mr(map[string]any{"state": "merged", "merge_commit_sha": other}))
	})
	if answer, err := merge(t, s); err != nil || answer.SHA != other {
		t.Fatal(answer, err)
	}
	if body["sha"] != head || body["squash"] != false || body["merge_commit_message"] != "Batch 7\n\n#1 and #2" || body["should_remove_source_branch"] != false || len(body) != 4 {
		t.Errorf("sent %v", body)
	}
	if _, err := adapter(t, s).MergeMR(t.Context(), scripted, 7, "", "Batch 7", ""); err == nil {
		t.Error("merged whatever the head was")
	}
	// A project that forces it would squash all the same.
	s = standing().on("GET "+mr7, 200, mr(map[string]any{"squash_on_merge": true}))
	if answer, err := merge(t, s); err != nil || answer.Outcome != bot.MergeRefused || !strings.Contains(answer.Message, "squash") || s.times("PUT "+mr7+"/merge") != 0 {
		t.Errorf("got %+v, %v, asked %v", answer, err, s.seen)
	}
}

// openBatch pushes a batch branch on top of main and opens its merge request.
func openBatch(t *testing.T, w *world) bot.MRSnapshot {
	t.Helper()
	w.Commit("batchbot/7-0badcafe/main", map[string]string{"a.txt": "a\n"})
	w.Commit("batchbot/7-0badcafe/main", map[string]string{"b.txt": "b\n"})
	mr, err := w.host.OpenMR(t.Context(), w.repo, bot.NewMR{Title: "Batch 7", Body: "Two members.", Source: "batchbot/7-0badcafe/main", Target: "main"})
	w.must(err)
	return mr
}

func TestEveryMergeMethodLandsWhatWasTested(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"merge", "rebase_merge", "ff"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.must(w.fake.SetProject(w.path, fakehost.Project{MergeMethod: method, SquashOption: "default_on"}))
			batch := openBatch(t, w)
			answer, err := w.host.MergeMR(t.Context(), w.repo, batch.Number, batch.HeadSHA, "Batch 7", "")
			w.must(err)
			tip, err := w.host.ReadBranch(t.Context(), w.repo, "main")
			w.must(err)
			read, err := w.host.ReadMR(t.Context(), w.repo, batch.Number)
			w.must(err)
			if answer.Outcome != bot.MergeDone || answer.SHA != tip || read.State != bot.MRMerged || read.MergeSHA != tip {
				t.Errorf("answer %+v, read %+v, target at %s", answer, read, tip)
			}
			if in, err := w.fake.Contains(w.path, "main", batch.HeadSHA); err != nil || !in {
				t.Errorf("the tested commit is in the target: %v, %v", in, err)
			}
			if (method == "ff") != (tip == batch.HeadSHA) {
				t.Errorf("landed as %s, tested was %s", tip, batch.HeadSHA)
			}
		})
	}
}

func TestATargetThatMovedIsNoRefusalOfTheBatch(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"rebase_merge", "ff"} {
		w := newWorld(t)
		w.must(w.fake.SetProject(w.path, fakehost.Project{MergeMethod: method}))
		batch := openBatch(t, w)
		w.Commit("main", map[string]string{"c.txt": "c\n"})
		answer, err := w.host.MergeMR(t.Context(), w.repo, batch.Number, batch.HeadSHA, "Batch 7", "")
		if err != nil || answer.Outcome != bot.MergeNotReady {
			t.Errorf("%s: got %+v, %v", method, answer, err)
		}
	}
}

func TestAProjectThatForcesSquashingIsFoundBeforehand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.fake.SetProject(w.path, fakehost.Project{SquashOption: "always"}))
	rules, err := w.host.ReadTargetRules(t.Context(), w.repo, "main")
	w.must(err)
	repository, err := w.host.ReadRepository(t.Context(), w.repo)
	w.must(err)
	if !rules.SquashOnly || repository.MergeCommits {
		t.Errorf("read %+v, merge commits %v", rules, repository.MergeCommits)
	}
	batch := openBatch(t, w)
	if answer, err := w.host.MergeMR(t.Context(), w.repo, batch.Number, batch.HeadSHA, "Batch 7", ""); err != nil || answer.Outcome != bot.MergeRefused {
		t.Errorf("got %+v, %v", answer, err)
	}
}

func TestTransientStatusesPass(t *testing.T) {
	t.Parallel()
	w := newWorldAs(t, fakehost.GitLab{Transient: []string{"preparing", "unchecked", "checking", "checking", "checking"}})
	batch := openBatch(t, w)
	for range 10 {
		answer, err := w.host.MergeMR(t.Context(), w.repo, batch.Number, batch.HeadSHA, "Batch 7", "")
		w.must(err)
		if answer.Outcome == bot.MergeDone {
			return
		}
		if answer.Outcome != bot.MergeNotReady {
			t.Fatalf("got %+v", answer)
		}
	}
	t.Error("never merged")
}

func TestWhatStandsInTheWayIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	batch := openBatch(t, w)
	for status, want := range map[string]bot.MergeOutcome{
		"discussions_not_resolved": bot.MergeNeeds, "ci_must_pass": bot.MergeNeeds, "draft_status": bot.MergeRefused, "approvals_syncing": bot.MergeNotReady,
	} {
		w.must(w.fake.SetMergeStatus(w.path, batch.Number, status))
		if answer, err := w.host.MergeMR(t.Context(), w.repo, batch.Number, batch.HeadSHA, "Batch 7", ""); err != nil || answer.Outcome != want || answer.Message == "" {
			t.Errorf("%s: got %+v, %v", status, answer, err)
		}
	}
	w.must(w.fake.SetMergeStatus(w.path, batch.Number, ""))
	w.must(w.fake.Protect(w.path, "main", fakehost.Protection{Push: fakehost.NoAccess, Merge: fakehost.NoAccess}))
	if answer, err := w.host.MergeMR(t.Context(), w.repo, batch.Number, batch.HeadSHA, "Batch 7", ""); err != nil || answer.Outcome != bot.MergeRefused || !strings.Contains(answer.Message, "protected branches") {
		t.Errorf("nobody may merge: got %+v, %v", answer, err)
	}
}

func TestPitfall33AnExistingMergeRequestIsAdopted(t *testing.T) {
	t.Parallel()
	const exists = `{"message":["Another open merge request already exists for this source branch: !7"]}`
	wanted := bot.NewMR{Title: "Batch 7", Source: "batchbot/7-0badcafe/main", Target: "main"}
	s := standing().on("POST ./merge_requests", 409, exists).on("GET ./merge_requests", 200, "["+mr(nil)+"]")
	if got, err := adapter(t, s).OpenMR(t.Context(), scripted, wanted); err != nil || got.Number != 7 || got.State != bot.MROpen {
		t.Errorf("got %+v, %v", got, err)
	}
	// One from a fork's branch of that name, into another branch, or closed is not ours.
	for _, foreign := range []map[string]any{{"source_project_id": 1}, {"source_project_id": nil}, {"target_branch": "dev"}, {"state": "closed"}, {"source_branch": "other"}} {
		s := standing().on("POST ./merge_requests", 409, exists).on("GET ./merge_requests", 200, "["+mr(foreign)+"]")
		if got, err := adapter(t, s).OpenMR(t.Context(), scripted, wanted); err == nil || !strings.Contains(err.Error(), "already exists") {
			t.Errorf("adopted %+v, %v", got, err)
		}
	}
	s = standing().on("POST ./merge_requests", 422, `{"message":["Source branch does not exist"]}`)
	if _, err := adapter(t, s).OpenMR(t.Context(), scripted, wanted); err == nil || !strings.Contains(err.Error(), "Source branch does not exist") || s.times("GET ./merge_requests") != 0 {
		t.Errorf("got %v, want the host's words", err)
	}
}

func TestClosingWhatCannotBeClosedAnyMoreIsNoError(t *testing.T) {
	t.Parallel()
	for state, fine := range map[string]bool{"closed": true, "merged": true, "opened": false} {
		s := standing().on("PUT "+mr7, 422, `{"message":"State cannot transition"}`).on("GET "+mr7, 200, mr(map[string]any{"state": state}))
		if err := adapter(t, s).CloseMR(t.Context(), scripted, 7); (err == nil) != fine {
			t.Errorf("%s: got %v", state, err)
		}
	}
}

func TestPitfall30AMemberWhoseForkIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	number := w.OpenMR(hosttest.NewMR{Author: "dan", Branch: "patch-1", Title: "T", Files: map[string]string{"f.txt": "f\n"}, Fork: true})
	w.must(w.fake.DeleteFork(w.path, number))
	mr, err := w.host.ReadMR(t.Context(), w.repo, number)
	if err != nil || !mr.FromFork || mr.HeadSHA == "" || w.host.HeadRef(number) == "" {
		t.Fatalf("read %+v, %v", mr, err)
	}
	// Finding 13: its head reaches the target and it stays open. Whoever landed it has to look, and close it.
	w.must(w.fake.SetBranch(w.path, "main", mr.HeadSHA, "ada"))
	if mr, err = w.host.ReadMR(t.Context(), w.repo, number); err != nil || mr.State != bot.MROpen {
		t.Errorf("read %+v, %v", mr, err)
	}
	w.must(w.host.CloseMR(t.Context(), w.repo, number))
}

func TestFinding13MembersReadMergedSomeTimeAfterTheirHeadsLand(t *testing.T) {
	t.Parallel()
	w := newWorldAs(t, fakehost.GitLab{MarkAfter: -1})
	number := w.OpenMR(hosttest.NewMR{Author: "bob", Branch: "b1", Title: "T", Files: map[string]string{"f.txt": "f\n"}})
	mr, err := w.host.ReadMR(t.Context(), w.repo, number)
	w.must(err)
	w.must(w.fake.SetBranch(w.path, "main", mr.HeadSHA, "ada"))
	if mr, err = w.host.ReadMR(t.Context(), w.repo, number); err != nil || mr.State != bot.MROpen {
		t.Errorf("at once read %+v, %v", mr, err)
	}
	_, err = w.fake.RunJobs()
	w.must(err)
	if mr, err = w.host.ReadMR(t.Context(), w.repo, number); err != nil || mr.State != bot.MRMerged || mr.MergeSHA != mr.HeadSHA {
		t.Errorf("later read %+v, %v", mr, err)
	}
}
