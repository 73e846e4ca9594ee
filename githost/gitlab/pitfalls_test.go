package gitlab_test

import (
	"os"
	"testing"
	"time"

	"github.com/xanzy/go-gitlab"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/fakehost"
	"github.com/batchbot/batchbot/githost/hosttest"
)

// recorded reads a recorded payload.
func recorded(t *testing.T, name string) []byte {
	t.Helper()
	payload, err := os.ReadFile("testdata/webhooks/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

// parse has a recorded payload read by an adapter of a host that answers.
func parse(t *testing.T, name string) ([]bot.Event, string) {
	t.Helper()
	events, why, err := adapter(t, standing()).Parse(eventOf(t, name), recorded(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return events, why
}

func TestFinding15EveryKindOfApprovalIsAHint(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"approved", "unapproved", "approval", "unapproval", "approvals-reset", "owner-approvals-reset"} {
		if e, _ := parse(t, "merge_request."+name); len(e) != 1 || e[0].Kind != bot.EventMergeRequest || e[0].Number != 7 {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

func TestFinding15APayloadTheLibraryCannotReadIsRead(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"note.created-with-odd-times", "note.on-wiki-page", "pipeline.success"} {
		payload := recorded(t, name)
		if _, err := gitlab.ParseWebhook(gitlab.EventType(eventOf(t, name)), payload); err == nil {
			t.Errorf("%s: the library reads it: it shows nothing", name)
		}
		if _, _, err := standalone(t).Parse(eventOf(t, name), payload); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// What is recorded here is what GitLab sends, as the library knows it.
	for _, name := range []string{"push.branch", "merge_request.open", "merge_request.approved", "note.created"} {
		if _, err := gitlab.ParseWebhook(gitlab.EventType(eventOf(t, name)), recorded(t, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPitfall24AResetOfApprovalsIsNoPersonsDoing(t *testing.T) {
	t.Parallel()
	// Newer hosts tell of it, older ones say nothing but that somebody pushed: both are hints at the same merge request.
	for _, name := range []string{"merge_request.approvals-reset", "merge_request.pushed"} {
		if e, _ := parse(t, name); len(e) != 1 || e[0].Number != 7 {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

func TestPitfall25UpdatesThatChangeNothingForUsAreDropped(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{
		"labelled": 0, "updated-without-changes": 0, "pushed": 1, "retargeted": 1, "drafted": 1, "renamed": 1, "threads-resolved": 1, "changes-requested": 1,
	} {
		if e, why := parse(t, "merge_request."+name); len(e) != want || (why == "") != (want == 1) {
			t.Errorf("%s: %+v, %q", name, e, why)
		}
	}
}

func TestPitfall26StatusesOfOneCommitInTwoMergeRequests(t *testing.T) {
	t.Parallel()
	// The same commit is the head of two: what is reported on it is of both, and a missing head pipeline breaks nothing.
	w := newWorldAs(t, fakehost.GitLab{LateHeadPipeline: true})
	w.fake.SetCI(fakehost.CI{Mode: fakehost.CIImmediate})
	first := w.OpenMR(hosttest.NewMR{Author: "bob", Branch: "b1", Title: "T", Files: map[string]string{"a.txt": "a\n"}})
	mr, err := w.host.ReadMR(t.Context(), w.repo, first)
	w.must(err)
	w.must(w.fake.SetBranch(w.path, "b2", mr.HeadSHA, "bob"))
	w.Report(mr.HeadSHA, "lint", bot.CheckFailure)
	r, err := w.host.ReadChecks(t.Context(), w.repo, mr.HeadSHA, "main")
	w.must(err)
	if got := bot.JudgeChecks(asSeen, r, time.Hour, time.Hour); got.Verdict != bot.CIRed {
		t.Errorf("CI is %v from %+v", got.Verdict, r.Checks)
	}
}

func TestPitfall27TheAnswerToACallIsBelievedNotAReadAfterIt(t *testing.T) {
	t.Parallel()
	// A replica still says open; the merge call itself said merged.
	s := standing().on("GET "+mr7, 200, mr(nil)).on("PUT "+mr7+"/merge", 200, mr(map[string]any{"state": "merged", "merge_commit_sha": other}))
	if answer, err := merge(t, s); err != nil || answer.Outcome != bot.MergeDone || answer.SHA != other || s.times("GET "+mr7) != 1 {
		t.Errorf("got %+v, %v, asked %v", answer, err, s.seen)
	}
	s = standing().on("POST ./merge_requests", 201, mr(nil))
	if got, err := adapter(t, s).OpenMR(t.Context(), scripted, bot.NewMR{Title: "T", Source: "b", Target: "main"}); err != nil || got.Number != 7 || len(s.seen) != 1 {
		t.Errorf("got %+v, %v, asked %v", got, err, s.seen)
	}
}

func TestPitfall28OnlyNotesOnMergeRequestsByPeopleAreHeard(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"on-commit", "on-issue", "on-wiki-page", "on-another-project", "internal", "system", "updated", "by-bot", "by-nobody"} {
		if e, why := parse(t, "note."+name); len(e) != 0 || why == "" {
			t.Errorf("%s: %+v", name, e)
		}
	}
	if head, err := standalone(t).Authenticate(delivery("X-Gitlab-Event", "Confidential Note Hook"), recorded(t, "confidential_note.created")); err != nil || head.Wanted {
		t.Errorf("a confidential note: %+v, %v", head, err)
	}
	for _, name := range []string{"created", "created-before-16.11", "created-on-a-line"} {
		if e, _ := parse(t, "note."+name); len(e) != 1 || e[0].Comment.Body != "Ready.\r\n/batch\r\n" {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

func TestPitfall07WeDoNotHearOurselves(t *testing.T) {
	t.Parallel()
	// Also with a person's token, whose name says nothing.
	s := (&script{}).on("GET user", 200, `{"id":21,"username":"cleo"}`)
	if e, why, err := adapter(t, s).Parse("Note Hook", recorded(t, "note.created")); err != nil || len(e) != 0 || why != "written by ourselves" {
		t.Errorf("got %+v, %q, %v", e, why, err)
	}
	if e, why := parse(t, "pipeline.own-status"); len(e) != 0 || why != "our own status" {
		t.Errorf("our own status: %+v, %q", e, why)
	}
	if e, _ := parse(t, "pipeline.status-from-outside"); len(e) != 1 {
		t.Errorf("somebody's status: %+v", e)
	}
}

func TestPitfall29NestedGroupsAndOddNames(t *testing.T) {
	t.Parallel()
	s := standing().on("GET ./repository/branches/rel%2F1.x%25", 200, `{"name":"rel/1.x%","commit":{"id":"`+head+`"}}`).
		on("GET ./repository/files/dir%2Fa%2Eyml", 200, `{"size":1,"encoding":"base64","content":"YQ==","blob_id":"b"}`)
	h := adapter(t, s)
	if sha, err := h.ReadBranch(t.Context(), scripted, "rel/1.x%"); err != nil || sha != head {
		t.Errorf("got %s, %v, asked %v", sha, err, s.seen)
	}
	if content, blob, err := h.ReadFile(t.Context(), scripted, "main", "dir/a.yml"); err != nil || string(content) != "a" || blob != "b" {
		t.Errorf("got %q, %s, %v, asked %v", content, blob, err, s.seen)
	}
	if url := h.MRURL(scripted, 7); url != "https://gitlab.example/acme/team/app/-/merge_requests/7" {
		t.Errorf("people are sent to %s", url)
	}
}

func TestPitfall31ClosingLeavesTheBranch(t *testing.T) {
	t.Parallel()
	// The batch MR is closed first; its branch goes by its own errand, and stays when GitLab is asked to merge.
	w := newWorld(t)
	batch := openBatch(t, w)
	w.must(w.host.CloseMR(t.Context(), w.repo, batch.Number))
	if sha, err := w.host.ReadBranch(t.Context(), w.repo, batch.SourceBranch); err != nil || sha != batch.HeadSHA {
		t.Errorf("the branch is at %s, %v", sha, err)
	}
	if mr, err := w.host.ReadMR(t.Context(), w.repo, batch.Number); err != nil || mr.State != bot.MRClosed {
		t.Errorf("read %+v, %v", mr, err)
	}
}

func TestPitfall32WhatIsNotForUsIsAnswered(t *testing.T) {
	t.Parallel()
	// Four refusals switch a hook off: only what cannot be authenticated or read is an error.
	w := newWorld(t)
	number := w.OpenMR(hosttest.NewMR{Author: "bob", Branch: "b1", Title: "T", Files: map[string]string{"a.txt": "a\n"}})
	issue := w.OpenIssue("dan", "A question")
	w.Comment(issue, "dan", "/batch")
	w.EditComment(w.Comment(number, "bob", "x"), "y")
	w.Approve(number, "cleo", "")
	w.Close(number, "bob")
	for _, d := range w.Deliveries() {
		head, err := w.host.Authenticate(d.Header, d.Body)
		w.must(err)
		if _, _, err := w.host.Parse(head.Event, d.Body); err != nil {
			t.Errorf("%s: %v", head.Event, err)
		}
	}
}

func TestPitfall36DraftTogglesAreHintsAndReadAsSuch(t *testing.T) {
	t.Parallel()
	for flags, want := range map[[2]bool]bool{{false, false}: false, {true, false}: true, {false, true}: true} {
		s := standing().on("GET "+mr7, 200, mr(map[string]any{"draft": flags[0], "work_in_progress": flags[1]}))
		if got, err := adapter(t, s).ReadMR(t.Context(), scripted, 7); err != nil || got.Draft != want {
			t.Errorf("%v: read %+v, %v", flags, got, err)
		}
	}
}

func TestAMergeRequestIsReadInEveryShape(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		changes map[string]any
		want    func(bot.MRSnapshot) bool
	}{
		"merged by a commit":         {map[string]any{"state": "merged", "merge_commit_sha": other}, func(s bot.MRSnapshot) bool { return s.State == bot.MRMerged && s.MergeSHA == other }},
		"squashed":                   {map[string]any{"state": "merged", "squash_commit_sha": other}, func(s bot.MRSnapshot) bool { return s.MergeSHA == other }},
		"fast-forwarded":             {map[string]any{"state": "merged"}, func(s bot.MRSnapshot) bool { return s.MergeSHA == head }},
		"closed":                     {map[string]any{"state": "closed", "merge_commit_sha": other}, func(s bot.MRSnapshot) bool { return s.State == bot.MRClosed && s.MergeSHA == "" }},
		"being merged":               {map[string]any{"state": "locked"}, func(s bot.MRSnapshot) bool { return s.State == bot.MROpen }},
		"from a fork":                {map[string]any{"source_project_id": 5}, func(s bot.MRSnapshot) bool { return s.FromFork }},
		"Pitfall30 the fork is gone": {map[string]any{"source_project_id": nil}, func(s bot.MRSnapshot) bool { return s.FromFork && s.HeadSHA == head }},
		"by a bot":                   {map[string]any{"author": map[string]any{"id": 30, "username": "project_1_bot_0f"}}, func(s bot.MRSnapshot) bool { return s.Author.Bot }},
		"by nobody":                  {map[string]any{"author": nil}, func(s bot.MRSnapshot) bool { return s.Author.ID == 0 }},
		"with labels in full":        {map[string]any{"labels": []any{map[string]any{"id": 1, "name": "bug"}}, "squash_on_merge": true}, func(s bot.MRSnapshot) bool { return s.Number == 7 }},
		"with fields of tomorrow":    {map[string]any{"imported": true, "title_html": map[string]any{}}, func(s bot.MRSnapshot) bool { return s.Number == 7 }},
	} {
		if got, err := adapter(t, standing().on("GET "+mr7, 200, mr(c.changes))).ReadMR(t.Context(), scripted, 7); err != nil || !c.want(got) {
			t.Errorf("%s: read %+v, %v", name, got, err)
		}
	}
	if got, err := adapter(t, standing().on("GET "+mr7, 200, mr(map[string]any{"sha": nil, "diff_refs": nil}))).ReadMR(t.Context(), scripted, 7); err == nil {
		t.Errorf("without a head: read %+v", got)
	}
	if got, err := adapter(t, standing().on("GET "+mr7, 200, mr(map[string]any{"iid": 8}))).ReadMR(t.Context(), scripted, 7); err == nil {
		t.Errorf("of another one: read %+v", got)
	}
}
