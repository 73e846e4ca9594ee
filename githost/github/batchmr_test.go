package github_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/hosttest/contract"
)

func TestFinding06OnlyAPullRequestThatSaysSoIsMerged(t *testing.T) {
	t.Parallel()
	merged := pull(map[string]any{"state": "closed", "merged": true, "merge_commit_sha": other})
	for name, c := range map[string]struct {
		answer func(*script)
		read   string
		want   bot.MergeOutcome // 0: an error, read again
	}{
		"an empty 200": {func(s *script) {
			s.on("PUT "+pull7+"/merge", 200, "", contract.Broken, "go-github takes a read of another path for the merge")
		}, pull(nil), 0},
		"an empty 200, and yet merged": {func(s *script) {
			s.on("PUT "+pull7+"/merge", 200, "", contract.Broken, "go-github takes a read of another path for the merge")
		}, merged, bot.MergeDone},
		"200 that says no":                     {func(s *script) { s.on("PUT "+pull7+"/merge", 200, `{"merged":false,"message":"no"}`) }, pull(nil), 0},
		"200 without a commit":                 {func(s *script) { s.on("PUT "+pull7+"/merge", 200, `{"merged":true}`) }, merged, bot.MergeDone},
		"a refusal after somebody else merged": {func(s *script) { s.on("PUT "+pull7+"/merge", 405, `{"message":"Pull Request is not mergeable"}`) }, merged, bot.MergeDone},
		"a redirect that would have been a success as a read": {func(s *script) {
			s.on("PUT "+pull7+"/merge", 301, "", "Location", "https://ghe.example/api/v3/repositories/4711/pulls/7/merge")
			s.on("GET /repositories/4711/pulls/7/merge", 204, "")
			s.on("GET /repositories/4711", 200, `{"id":4711,"full_name":"acme/app"}`)
		}, pull(nil), 0},
		"an answer that got lost": {func(s *script) { s.on("PUT "+pull7+"/merge", 502, "<html>bad gateway</html>") }, pull(nil), 0},
		"no answer":               {func(s *script) { s.call("PUT "+pull7+"/merge", func(*http.Request) *http.Response { return nil }) }, pull(nil), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := (&script{}).on("GET "+pull7, 200, c.read)
			c.answer(s)
			answer, err := adapter(t, s).MergeMR(t.Context(), scripted, 7, head, "Batch 7", "")
			if answer.Outcome != c.want || (err == nil) != (c.want != 0) {
				t.Errorf("got %+v, %v, want outcome %d", answer, err, c.want)
			}
			if c.want == bot.MergeDone && answer.SHA != other {
				t.Errorf("landed as %q, want %s", answer.SHA, other)
			}
		})
	}
}

func TestRefusalsOfAMergeAreToldApart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status  int
		message string
		read    map[string]any
		want    bot.MergeOutcome
	}{
		"head moved":                     {409, "Head branch was modified. Review and try the merge again.", map[string]any{"head": map[string]any{"sha": other}}, bot.MergeHeadMoved},
		"the host lags behind itself":    {409, "Head branch was modified. Review and try the merge again.", nil, bot.MergeNotReady},
		"base moved":                     {405, "Base branch was modified. Review and try the merge again.", nil, bot.MergeNotReady},
		"Pitfall01 still computing":      {405, "Pull Request is not mergeable", map[string]any{"mergeable": nil, "mergeable_state": "unknown"}, bot.MergeNotReady},
		"conflict":                       {405, "Pull Request is not mergeable", map[string]any{"mergeable": false, "mergeable_state": "dirty"}, bot.MergeRefused},
		"closed":                         {405, "Pull Request is not mergeable", map[string]any{"state": "closed"}, bot.MergeClosed},
		"draft":                          {405, "Pull Request is still a draft", map[string]any{"draft": true, "mergeable_state": "draft"}, bot.MergeRefused},
		"review missing":                 {405, "At least 1 approving review is required by reviewers with write access.", map[string]any{"mergeable_state": "blocked"}, bot.MergeNeeds},
		"check missing":                  {405, `Required status check "ci" is expected.`, map[string]any{"mergeable_state": "blocked"}, bot.MergeNeeds},
		"rules":                          {405, "Repository rule violations found", map[string]any{"mergeable_state": "blocked"}, bot.MergeNeeds},
		"blocked without a word":         {405, "Pull Request is not mergeable", map[string]any{"mergeable_state": "blocked"}, bot.MergeNeeds},
		"merge commits disallowed":       {405, "Merge commits are not allowed on this repository.", nil, bot.MergeRefused},
		"merge queue":                    {405, "Changes must be made through the merge queue", map[string]any{"mergeable_state": "blocked"}, bot.MergeRefused},
		"no permission":                  {403, "Resource not accessible by integration", nil, bot.MergeRefused},
		"no permission, hidden":          {404, "Not Found", nil, bot.MergeRefused},
		"not valid":                      {422, "Validation Failed", nil, bot.MergeRefused},
		"refused and computing, in rule": {405, "Required status check \"ci\" is in progress.", map[string]any{"mergeable": nil, "mergeable_state": "unknown"}, bot.MergeNeeds},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			words, err := json.Marshal(map[string]string{"message": c.message, "documentation_url": "https://docs.github.com/rest"})
			if err != nil {
				t.Fatal(err)
			}
			s := (&script{}).on("GET "+pull7, 200, pull(c.read)).on("PUT "+pull7+"/merge", c.status, string(words)).
				on("GET /repositories/4711", 200, `{"id":4711,"full_name":"acme/app"}`)
			answer, err := adapter(t, s).MergeMR(t.Context(), scripted, 7, head, "Batch 7", "")
			if err != nil || answer.Outcome != c.want || !strings.Contains(answer.Message, c.message) {
				t.Errorf("got %+v, %v, want outcome %d with the host's words", answer, err, c.want)
			}
		})
	}
}

func TestAMergeIsNeverSquashedAndAlwaysGuarded(t *testing.T) {
	t.Parallel()
	var sent map[string]any
	s := (&script{}).call("PUT "+pull7+"/merge", func(req *http.Request) *http.Response {
		body, err := io.ReadAll(req.Body)
		if err != nil || json.Unmarshal(body, &sent) != nil {
			t.Errorf("sent %q, %v", body, err)
		}
		return reply(200, `{"merged":true,"sha":"`+other+`","message":"ok"}`)
	})
	h := adapter(t, s)
	if _, err := h.MergeMR(t.Context(), scripted, 7, head, "Batch 7", "two members"); err != nil {
		t.Fatal(err)
	}
	if sent["sha"] != head || sent["merge_method"] != "merge" || sent["commit_title"] != "Batch 7" || sent["commit_message"] != "two members" || len(sent) != 4 {
		t.Errorf("sent %v", sent)
	}
	if _, err := h.MergeMR(t.Context(), scripted, 7, "", "Batch 7", ""); err == nil {
		t.Error("merged whatever the head was")
	}
}

func TestPitfall15AnExistingPullRequestIsAdopted(t *testing.T) {
	t.Parallel()
	const exists = `{"message":"Validation Failed","errors":[{"resource":"PullRequest","code":"custom","message":"A pull request already exists for acme:batchbot/7-0badcafe/main."}]}`
	wanted := bot.NewMR{Title: "Batch 7", Source: "batchbot/7-0badcafe/main", Target: "main"}
	s := (&script{}).on("POST /repos/acme/app/pulls", 422, exists).on("GET /repos/acme/app/pulls", 200, pulls(nil))
	mr, err := adapter(t, s).OpenMR(t.Context(), scripted, wanted)
	if err != nil || mr.Number != 7 || mr.State != bot.MROpen {
		t.Errorf("got %+v, %v", mr, err)
	}
	// One from a fork's branch of that name, or into another branch, is not ours.
	for _, foreign := range []map[string]any{
		{"head": map[string]any{"ref": wanted.Source, "sha": head, "repo": map[string]any{"id": 1}}},
		{"base": map[string]any{"ref": "dev", "repo": map[string]any{"id": 4711}}},
	} {
		s := (&script{}).on("POST /repos/acme/app/pulls", 422, exists).on("GET /repos/acme/app/pulls", 200, pulls(foreign))
		if mr, err := adapter(t, s).OpenMR(t.Context(), scripted, wanted); err == nil {
			t.Errorf("adopted %+v", mr)
		}
	}
	s = (&script{}).on("POST /repos/acme/app/pulls", 422, `{"message":"Validation Failed","errors":[{"message":"No commits between main and x"}]}`)
	if _, err := adapter(t, s).OpenMR(t.Context(), scripted, wanted); err == nil || !strings.Contains(err.Error(), "No commits between main and x") {
		t.Errorf("got %v, want the host's words", err)
	}
}

func TestPitfall02AListIsNotBelievedAboutMerges(t *testing.T) {
	t.Parallel()
	s := (&script{}).
		on("GET /repos/acme/app/pulls", 200, pulls(map[string]any{"state": "closed", "merged_at": nil})).
		on("GET "+pull7, 200, pull(map[string]any{"state": "closed", "merged": true, "merge_commit_sha": other}))
	list, err := adapter(t, s).FindMRs(t.Context(), scripted, "batchbot/7-0badcafe/main")
	if err != nil || len(list) != 1 || list[0].State != bot.MRMerged || list[0].MergeSHA != other {
		t.Errorf("got %+v, %v", list, err)
	}
}

func TestClosingWhatCannotBeClosedAnyMoreIsNoError(t *testing.T) {
	t.Parallel()
	const invalid = `{"message":"Validation Failed","errors":[{"field":"state","code":"invalid"}]}`
	s := (&script{}).on("PATCH "+pull7, 422, invalid).on("GET "+pull7, 200, pull(map[string]any{"state": "closed"}))
	if err := adapter(t, s).CloseMR(t.Context(), scripted, 7); err != nil {
		t.Error(err)
	}
	s = (&script{}).on("PATCH "+pull7, 422, invalid).on("GET "+pull7, 200, pull(nil))
	if err := adapter(t, s).CloseMR(t.Context(), scripted, 7); err == nil {
		t.Error("it is open, and nobody knows")
	}
}
