package github_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/fakehost"
	"github.com/batchbot/batchbot/githost/github"
	"github.com/batchbot/batchbot/githost/hosttest"
)

// What a living host says to a merge, and what the adapter makes of it. Nothing but MergeDone changes the target.
func TestWhyAMergeIsNotDone(t *testing.T) {
	t.Parallel()
	rules := func(r fakehost.Rules) func(*world, int) error {
		return func(w *world, _ int) error { return w.fake.SetRules(path, "main", r) }
	}
	bypass := []string{"batchbot[bot]"}
	for name, test := range map[string]struct {
		before func(w *world, number int) error
		want   bot.MergeOutcome
		says   string
	}{
		"nothing in the way":         {func(*world, int) error { return nil }, bot.MergeDone, ""},
		"a review is missing":        {rules(fakehost.Rules{RequiredApprovals: 1}), bot.MergeNeeds, "approving review"},
		"reviews do not bind us":     {rules(fakehost.Rules{RequiredApprovals: 1, Bypass: bypass}), bot.MergeDone, ""},
		"a check is missing":         {rules(fakehost.Rules{RequiredChecks: []string{"ci"}}), bot.MergeNeeds, `"ci" is expected`},
		"checks do not bind us":      {rules(fakehost.Rules{RequiredChecks: []string{"ci"}, Bypass: bypass}), bot.MergeDone, ""},
		"a merge queue":              {rules(fakehost.Rules{MergeQueue: true}), bot.MergeRefused, "merge queue"},
		"linear history":             {rules(fakehost.Rules{Linear: true}), bot.MergeRefused, "must not contain merge commits"},
		"squashing only, by a rule":  {rules(fakehost.Rules{Methods: []string{"squash"}}), bot.MergeRefused, "must not contain merge commits"},
		"a draft":                    {func(w *world, n int) error { return w.fake.SetDraft(path, n, "bob", true) }, bot.MergeRefused, "draft"},
		"closed":                     {func(w *world, n int) error { return w.fake.CloseMR(path, n, "ada") }, bot.MergeClosed, ""},
		"merged by somebody already": {func(w *world, n int) error { _, err := w.fake.MergeMR(path, n, "ada"); return err }, bot.MergeDone, ""},
		"pushed to": {func(w *world, n int) error {
			_, err := w.fake.PushTo(path, n, map[string]string{"b1.txt": "yy\n"})
			return err
		}, bot.MergeHeadMoved, ""},
		"in conflict": {func(w *world, _ int) error {
			_, err := w.fake.Commit(path, "main", "", "ada", "Conflict", map[string]string{"b1.txt": "other\n"})
			return err
		}, bot.MergeRefused, "conflicts"},
		"the base moved in that instant": {func(w *world, _ int) error { return w.fake.Break(fakehost.BaseMoved(1)) }, bot.MergeNotReady, "Base branch was modified"},
		"the host lags behind itself": {func(w *world, n int) error {
			// A push that was taken back: the head is the one given again, but the host has not seen it.
			mr, err := w.fake.MR(path, n)
			w.must(err)
			_, err = w.fake.PushTo(path, n, map[string]string{"b1.txt": "yy\n"})
			w.must(err)
			w.must(w.fake.SetBranch(path, mr.Branch, mr.Head, "bob"))
			return w.fake.Break(fakehost.Fault{On: "PUT /repos/*/merge", Times: 1, Do: fakehost.FaultStaleHead})
		}, bot.MergeNotReady, "Head branch was modified"},
		"mergeability is not known yet": {func(w *world, _ int) error {
			return w.fake.Break(
				fakehost.Fault{On: "PUT /repos/*/merge", Times: 1, Do: fakehost.FaultStatus, Status: 405, Message: "Pull Request is not mergeable"},
				fakehost.Fault{On: "GET /repos/*/pulls/*", Times: 1, Do: fakehost.FaultMergeableUnknown},
			)
		}, bot.MergeNotReady, "not mergeable"},
		"we are not let in": {func(w *world, _ int) error {
			return w.fake.Break(fakehost.Fault{On: "PUT /repos/*/merge", Do: fakehost.FaultStatus, Status: 403, Message: "Resource not accessible by integration"})
		}, bot.MergeRefused, "contents: write"},
		"it changes a workflow": {func(w *world, n int) error {
			_, err := w.fake.PushTo(path, n, map[string]string{".github/workflows/ci.yml": "on: push\n"})
			return err
		}, bot.MergeRefused, "workflows: write"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			number, head := w.batch(1)
			w.must(test.before(w, number))
			if strings.HasPrefix(name, "it changes") {
				mr, err := w.fake.MR(path, number)
				w.must(err)
				head = mr.Head
			}
			tip, err := w.fake.Branch(path, "main")
			w.must(err)
			answer, err := w.host.MergeMR(t.Context(), w.repo, number, head, "Batch 7", "Two members.")
			if err != nil || answer.Outcome != test.want || !strings.Contains(answer.Message, test.says) {
				t.Errorf("got %+v, %v; want outcome %d that says %q", answer, err, test.want, test.says)
			}
			now, err := w.fake.Branch(path, "main")
			w.must(err)
			if landed := now != tip || answer.SHA == tip; landed != (test.want == bot.MergeDone) || landed && answer.SHA != now {
				t.Errorf("main went from %s to %s, told %s", tip, now, answer.SHA)
			}
		})
	}
}

func TestPitfall35TheBaseThatMovedIsNoticedByWhatLanded(t *testing.T) {
	t.Parallel()
	// The host guards the head only: the merge is done, and its first parent tells that it is not the base that was tested.
	w := newWorld(t)
	tested, err := w.fake.Branch(path, "main")
	w.must(err)
	number, head := w.batch(1)
	w.Commit("main", map[string]string{"somebody.txt": "else\n"})
	answer, err := w.host.MergeMR(t.Context(), w.repo, number, head, "Batch 7", "")
	if err != nil || answer.Outcome != bot.MergeDone {
		t.Fatalf("got %+v, %v", answer, err)
	}
	log, err := w.fake.Log(path, "main")
	w.must(err)
	if log[0].SHA != answer.SHA || log[0].Parents[0] == tested || log[0].Parents[1] != head {
		t.Errorf("landed %+v", log[0])
	}
}

func TestPitfall14AStackedMergeRequestOutlivesTheBatchBranch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	batch := openBatchMR(t, w)
	stacked := w.OpenMR(hosttest.NewMR{Author: "cleo", Branch: "stacked", Target: batch.SourceBranch, Title: "On top", Files: map[string]string{"s.txt": "s\n"}})
	if answer, err := w.host.MergeMR(t.Context(), w.repo, batch.Number, batch.HeadSHA, "Batch 7", ""); err != nil || answer.Outcome != bot.MergeDone {
		t.Fatalf("got %+v, %v", answer, err)
	}
	w.DeleteBranch(batch.SourceBranch)
	mr, err := w.host.ReadMR(t.Context(), w.repo, stacked)
	if err != nil || mr.State != bot.MROpen || mr.Target != "main" {
		t.Errorf("the stacked one reads %+v, %v", mr, err)
	}
	var told bool
	for _, e := range w.hints(new(int)) {
		told = told || e.Kind == bot.EventMergeRequest && e.Number == stacked
	}
	if !told {
		t.Error("nobody heard that it has another target")
	}
	// Auto-delete may have been faster, and the batch MR still tells what became of it.
	if list, err := w.host.FindMRs(t.Context(), w.repo, batch.SourceBranch); err != nil || len(list) != 1 || list[0].State != bot.MRMerged {
		t.Errorf("found %+v, %v", list, err)
	}
}

// openBatchMR is a batch MR opened by the adapter.
func openBatchMR(t *testing.T, w *world) bot.MRSnapshot {
	t.Helper()
	const branch = "batchbot/7-0badcafe/main"
	w.Commit(branch, map[string]string{"m.txt": "m\n"})
	mr, err := w.host.OpenMR(t.Context(), w.repo, bot.NewMR{Title: "Batch 7", Body: "Two members.", Source: branch, Target: "main"})
	w.must(err)
	return mr
}

func TestPitfall34DeliveriesMayComeTwiceAndInAnyOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	number, head := w.batch(1)
	w.Comment(number, "bob", "/batch")
	w.Approve(number, "ada", "")
	w.Push(number, map[string]string{"b1.txt": "yy\n"})
	w.Report(head, "ci", bot.CheckSuccess)
	w.Merge(number, "ada")
	all := w.Deliveries()
	tell := func(i int) string {
		d := all[i]
		known, err := w.host.Authenticate(d.Header, d.Body)
		w.must(err)
		events, why, err := w.host.Parse(known.Event, d.Body)
		w.must(err)
		for _, e := range events {
			// A hint says where to look, never what is there: then its order does not matter.
			if e.Kind != bot.EventComment && e.Comment != nil || e.Kind == bot.EventMergeRequest && (e.SHA != "" || e.Number != number) {
				t.Errorf("%s carries state: %+v", known.Event, e)
			}
		}
		said := known.Key + why
		for _, e := range events {
			said += fmt.Sprintf(" %d/%d/%s/%s", e.Kind, e.Number, e.SHA, e.Branch)
			if e.Comment != nil {
				said += fmt.Sprintf("/%d/%s/%s", e.Comment.ID, e.Comment.Body, e.Comment.CreatedAt)
			}
		}
		return said
	}
	first := map[int]string{}
	for i := range all {
		first[i] = tell(i)
	}
	for i := range all {
		last := len(all) - 1 - i
		if again := tell(last); again != first[last] {
			t.Errorf("told again in another order: %s, first %s", again, first[last])
		}
	}
	keys := map[string]bool{}
	for _, d := range all {
		keys[d.Header.Get("X-GitHub-Delivery")] = true
	}
	if len(keys) != len(all) {
		t.Errorf("%d deliveries have %d keys", len(all), len(keys))
	}
}

// Answers that do not pass have a meaning of their own.
func TestAnswersThatDoNotPassHaveAMeaning(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status  int
		message string
		want    error
	}{
		"not found":             {404, "Not Found", bot.ErrNotFound},
		"forbidden":             {403, "Resource not accessible by integration", bot.ErrForbidden},
		"archived":              {403, "Repository was archived so is read-only.", bot.ErrGone},
		"suspended":             {403, "This installation has been suspended", bot.ErrGone},
		"gone":                  {410, "Gone", bot.ErrGone},
		"taken down":            {451, "Repository access blocked", bot.ErrGone},
		"an address of no use":  {422, "Validation Failed", nil},
		"a conflict":            {409, "Git Repository is empty.", nil},
		"a host that is broken": {500, "Server Error", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			h := w.unchecked() // GitHub lists few of these
			w.must(w.fake.Break(fakehost.Fault{On: "* /repos/acme/app/*", Do: fakehost.FaultStatus, Status: test.status, Message: test.message}))
			_, read := h.ReadBranch(t.Context(), w.repo, "main")
			edit := h.EditMR(t.Context(), w.repo, 1, "Batch 7", "")
			for _, err := range []error{read, edit} {
				for _, meaning := range []error{bot.ErrNotFound, bot.ErrForbidden, bot.ErrGone} {
					if wanted := test.want != nil && errors.Is(meaning, test.want); err == nil || errors.Is(err, meaning) != wanted {
						t.Errorf("got %v, want %v", err, test.want)
					}
				}
			}
		})
	}
}

// Every request the adapter makes is one that GitHub describes: the world's wire checks it.
func TestFinding16EveryRequestIsAsGitHubDescribesIt(t *testing.T) {
	t.Parallel()
	for name, e := range errands {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorldAs(t, func(c *github.Config) { c.GitURL = "" })
			number, head := w.batch(0)
			w.Comment(number, "bob", "hello")
			w.Approve(number, "ada", "looks good")
			w.must(w.fake.SetStatus(path, head, "ada", "success", "ci"))
			w.RequireChecks("main", "ci")
			do, effects := e.begin(w, 1)
			if err := do(t.Context()); err != nil {
				t.Error(err)
			}
			if got := effects(); got != 1 {
				t.Errorf("%d effects", got)
			}
		})
	}
}
