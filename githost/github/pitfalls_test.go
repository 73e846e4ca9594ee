package github_test

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/hosttest/contract"
)

// parse reads a recorded payload.
func parse(t *testing.T, name string) []bot.Event {
	t.Helper()
	payload, err := os.ReadFile("testdata/webhooks/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	event, _, _ := strings.Cut(name, ".")
	events, _, err := standalone(t).Parse(event, payload)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func TestPitfall03EveryKindOfFinishedCheckIsAHint(t *testing.T) {
	t.Parallel()
	// The suite may say it is complete before its last run: none of them is the verdict, all of them cause a look.
	for _, name := range []string{"check_run.completed", "check_suite.completed-of-fork", "workflow_run.completed", "status.ci"} {
		if e := parse(t, name); len(e) != 1 || e[0].Kind != bot.EventChecks || e[0].SHA != head {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

func TestPitfall06ChecksOfForksAreKnownByTheirCommit(t *testing.T) {
	t.Parallel()
	// The payload names neither a branch nor a pull request.
	if e := parse(t, "check_suite.completed-of-fork"); len(e) != 1 || e[0].SHA != head || e[0].Number != 0 {
		t.Errorf("got %+v", e)
	}
}

func TestPitfall07OnlyPeopleAreHeard(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"issue_comment.created-by-bot", "issue_comment.created-by-ghost"} {
		if e := parse(t, name); len(e) != 0 {
			t.Errorf("%s: %+v", name, e)
		}
	}
	for _, e := range parse(t, "pull_request_review.submitted-by-bot") {
		if e.Kind == bot.EventComment {
			t.Errorf("a bot's review was heard: %+v", e)
		}
	}
	// A comment on a plain issue is heard, so that its author can be told.
	if e := parse(t, "issue_comment.created-on-issue"); len(e) != 1 || e[0].Number != 8 {
		t.Errorf("on an issue: %+v", e)
	}
}

func TestPitfall08OnlyNewCommentsAreCommands(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"issue_comment.edited", "issue_comment.deleted", "pull_request_review.edited"} {
		if e := parse(t, name); len(e) != 0 {
			t.Errorf("%s: %+v", name, e)
		}
	}
	// What was said is in the event: the comment may be edited away before anybody reads it again.
	if e := parse(t, "issue_comment.created"); len(e) != 1 || e[0].Comment.Body != "Ready.\r\n/batch\r\n" {
		t.Errorf("got %+v", e)
	}
}

func TestPitfall10AReviewSaysNothingAboutTheMerge(t *testing.T) {
	t.Parallel()
	// Its short form of the pull request has no merged flag: only the number is taken from it.
	if e := parse(t, "pull_request_review.submitted"); len(e) != 1 || e[0].Kind != bot.EventMergeRequest || e[0].Number != 7 {
		t.Errorf("got %+v", e)
	}
}

func TestFinding14AClosedPayloadIsOnlyAHint(t *testing.T) {
	t.Parallel()
	// It says "not merged" of one that merged.
	if e := parse(t, "pull_request.closed"); len(e) != 1 || e[0].Kind != bot.EventMergeRequest {
		t.Errorf("got %+v", e)
	}
	s := (&script{}).on("GET "+pull7, 200, pull(map[string]any{"state": "closed", "merged": true, "merge_commit_sha": other}))
	if mr, err := adapter(t, s).ReadMR(t.Context(), scripted, 7); err != nil || mr.State != bot.MRMerged {
		t.Errorf("read %+v, %v", mr, err)
	}
}

func TestPitfall01ATestMergeIsNotALanding(t *testing.T) {
	t.Parallel()
	s := (&script{}).on("GET "+pull7, 200, pull(map[string]any{"mergeable": nil, "mergeable_state": "unknown", "merge_commit_sha": other}))
	if mr, err := adapter(t, s).ReadMR(t.Context(), scripted, 7); err != nil || mr.State != bot.MROpen || mr.MergeSHA != "" {
		t.Errorf("read %+v, %v", mr, err)
	}
}

func TestPitfall16AnAnswerThatWasOnlyAcceptedIsNotAnOutcome(t *testing.T) {
	t.Parallel()
	s := (&script{}).on("PUT "+pull7+"/merge", 202, `{"message":"accepted"}`, contract.Broken, "go-github reports it wherever it comes").on("GET "+pull7, 200, pull(nil))
	if answer, err := adapter(t, s).MergeMR(t.Context(), scripted, 7, head, "Batch 7", ""); err == nil {
		t.Errorf("got %+v, want that it be read again", answer)
	}
}

func TestPitfall18OpenOnesInAListAreReadFromIt(t *testing.T) {
	t.Parallel()
	s := (&script{}).on("GET /repos/acme/app/pulls", 200, pulls(map[string]any{"updated_at": "2026-03-01T10:00:00Z"}))
	at := time.Date(2026, 3, 1, 10, 0, 0, 500, time.UTC)
	list, err := adapter(t, s).ListUpdatedMRs(t.Context(), scripted, at)
	if err != nil || len(list) != 1 || list[0].State != bot.MROpen || len(s.seen) != 1 {
		t.Errorf("got %+v, %v, asked %v", list, err, s.seen)
	}
}

func TestPitfall19NewFieldsAndRulesDoNoHarm(t *testing.T) {
	t.Parallel()
	s := (&script{}).on("GET "+pull7, 200, pull(map[string]any{"stack": map[string]any{"id": 1}, "merge_async": true}), contract.Broken, "fields of tomorrow")
	if _, err := adapter(t, s).ReadMR(t.Context(), scripted, 7); err != nil {
		t.Error(err)
	}
}

func TestPitfall33AnOpenedMRIsFoundByItsBranch(t *testing.T) {
	t.Parallel()
	// The answer to creating it got lost: the branch leads to it.
	s := (&script{}).call("POST /repos/acme/app/pulls", func(*http.Request) *http.Response { return nil }).
		call("GET /repos/acme/app/pulls", func(req *http.Request) *http.Response {
			if q := req.URL.Query(); q.Get("head") != "acme:batchbot/7-0badcafe/main" || q.Get("state") != "all" {
				t.Errorf("asked for %s", req.URL.RawQuery)
			}
			return reply(200, pulls(nil))
		})
	h := adapter(t, s)
	if _, err := h.OpenMR(t.Context(), scripted, bot.NewMR{Title: "Batch 7", Source: "batchbot/7-0badcafe/main", Target: "main"}); !errors.Is(err, errNobody) {
		t.Errorf("got %v", err)
	}
	list, err := h.FindMRs(t.Context(), scripted, "batchbot/7-0badcafe/main")
	if err != nil || len(list) != 1 || list[0].Number != 7 {
		t.Errorf("found %+v, %v", list, err)
	}
}

func TestPitfall36DraftTogglesAreHints(t *testing.T) {
	t.Parallel()
	if e := parse(t, "pull_request.converted_to_draft"); len(e) != 1 || e[0].Number != 7 {
		t.Errorf("got %+v", e)
	}
}

func TestPitfall37TheHeadIsComparedNotItsTime(t *testing.T) {
	t.Parallel()
	// Forced back to an older commit: approvals name commits, and so does the head.
	s := (&script{}).on("GET "+pull7+"/reviews", 200, `[{"id":1,"state":"APPROVED","commit_id":"`+other+`","user":{"id":2,"login":"cleo","type":"User"}}]`).
		on("GET /repos/acme/app/collaborators/cleo/permission", 200, `{"permission":"write","role_name":"write"}`).
		on("POST /api/graphql", 200, `{"data":{"repository":{"pullRequest":{"reviewDecision":null}}}}`)
	approvals, err := adapter(t, s).ReadApprovals(t.Context(), scripted, 7)
	if err != nil {
		t.Fatal(err)
	}
	policy := bot.ApprovalPolicy{Count: 1, Minimum: bot.PermissionWrite}
	for sha, want := range map[string]bool{other: true, head: false} {
		if v := bot.JudgeApproval(policy, bot.Actor{ID: 1}, sha, approvals); v.Sufficient != want {
			t.Errorf("at %s: %+v", sha, v)
		}
	}
}

func TestPitfall39AReactionThatCannotBeGivenIsNoError(t *testing.T) {
	t.Parallel()
	for _, status := range []int{403, 404, 410, 422} {
		s := quiet().on("POST /repos/acme/app/issues/comments/9/reactions", status, `{"message":"no"}`)
		if err := adapter(t, s).React(t.Context(), scripted, 7, bot.CommentIssue, 9, bot.ReactionSeen); err != nil {
			t.Errorf("%d: %v", status, err)
		}
	}
	s := (&script{}).on("POST /repos/acme/app/issues/comments/9/reactions", 502, "")
	if err := adapter(t, s).React(t.Context(), scripted, 7, bot.CommentIssue, 9, bot.ReactionSeen); err == nil {
		t.Error("502: nobody tries again")
	}
}

func TestFinding13WhetherMergeCommitsAreAllowedIsRead(t *testing.T) {
	t.Parallel()
	// Only a merge commit makes the members read merged.
	for answer, want := range map[string]bool{
		`{"id":4711,"full_name":"acme/app","allow_merge_commit":true}`:  true,
		`{"id":4711,"full_name":"acme/app","allow_merge_commit":false}`: false,
		`{"id":4711,"full_name":"acme/app"}`:                            true, // not shown to us: the merge call will tell
	} {
		got, err := adapter(t, (&script{}).on("GET /repositories/4711", 200, answer)).ReadRepository(t.Context(), scripted)
		if err != nil || got.MergeCommits != want {
			t.Errorf("%s: got %+v, %v", answer, got, err)
		}
	}
}

func TestPitfall40TheSecretIsFoundWithoutReadingTheBody(t *testing.T) {
	t.Parallel()
	const body = "not even JSON"
	if head, err := standalone(t).Authenticate(delivery(body), []byte(body)); err != nil || head.Event != "issue_comment" {
		t.Errorf("got %+v, %v", head, err)
	}
}
