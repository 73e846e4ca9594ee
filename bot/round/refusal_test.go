package round_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/fakehost"
)

// refusePushes lets the host refuse every push whose tree holds a path that matches, with these words.
func (w *world) refusePushes(match, words string) {
	w.t.Helper()
	hook := fmt.Sprintf(`#!/bin/sh
while read old new ref; do
	for path in $(git ls-tree -r --name-only "$new" | grep -E '%s'); do
		echo "%s"
		exit 1
	done
done
`, match, words)
	folder := filepath.Join(w.fake.RepoPath("acme", "app"), "hooks")
	w.must(os.MkdirAll(folder, 0o755))
	w.must(os.WriteFile(filepath.Join(folder, "pre-receive"), []byte(hook), 0o755))
}

// The host takes no push with a workflow file from the bot, and names the file: that member is out with the host's words, the rest lands.
func TestAMemberTheHostNamesIsEvictedAndTheRestLands(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.refusePushes("^.github/workflows/", "refusing to allow a GitHub App to create or update workflow \\`$path\\` without \\`workflows\\` permission")
	good := []int{w.waiting(file("a", "a\n"))}
	culprit := w.waiting(file(".github/workflows/ci.yml", "on: push\n"))
	good = append(good, w.waiting(file("b", "b\n")))
	w.run()
	w.wantOnHost("merged", good...)
	w.wantStatus(culprit, bot.OperationFailed, bot.ReasonPushRefused)
	if _, _, detail := w.status(culprit); !strings.Contains(detail, "without `workflows` permission") {
		t.Errorf("the host's words are lost: %q", detail)
	}
	w.wantLandings(1)
	w.wantQueue(bot.QueueOpen, "")
}

// Where the host names nobody the member is found by halving; nobody else suffers.
func TestAMemberTheHostDoesNotNameIsFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.refusePushes("^forbidden$", "this push breaks a rule")
	var good []int
	var culprit int
	for n := range 5 {
		if n == 3 {
			culprit = w.waiting(file("forbidden", "x\n"))
			continue
		}
		good = append(good, w.waiting(file(fmt.Sprint("file-", n), "x\n")))
	}
	w.run()
	w.wantOnHost("merged", good...)
	w.wantStatus(culprit, bot.OperationFailed, bot.ReasonPushRefused)
	w.wantQueue(bot.QueueOpen, "")
}

// Where the host takes no branch of the bot at all, nobody is to blame.
func TestAHostThatTakesNothingParksTheQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.refusePushes(".", "branches may be created by maintainers only")
	one, two := w.waiting(file("a", "a\n")), w.waiting(file("b", "b\n"))
	w.run()
	w.wantStatus(one, bot.OperationWaiting, bot.ReasonBatchFailed)
	w.wantStatus(two, bot.OperationWaiting, bot.ReasonBatchFailed)
	w.wantQueue(bot.QueueParked, "branches may be created by maintainers only")
}

// A target on which batches cannot land is found before the round, explained once, and not tried again.
func TestATargetThatTakesNoBatchParksBeforeTheRound(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string]fakehost.Rules{
		"a linear history":     {Linear: true},
		"the host's own queue": {MergeQueue: true},
		"squash only":          {Methods: []string{"squash"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			number := w.waiting(file("a", "a\n"))
			w.must(w.fake.SetRules(path, "main", rules))
			w.run()
			w.wantStatus(number, bot.OperationWaiting, bot.ReasonApplied)
			w.wantQueue(bot.QueueParked, "batches cannot land on the target")
			if n := len(w.batches()); n != 0 {
				t.Errorf("%d batches were begun", n)
			}
			w.must(w.fake.SetRules(path, "main", fakehost.Rules{}))
			_, err := w.store.ResumeQueue(t.Context(), w.queue.ID, "olga")
			w.must(err)
			w.run()
			w.wantOnHost("merged", number)
		})
	}
}

func (w *world) wantQueue(state bot.QueueState, reason string) {
	w.t.Helper()
	queue, _, err := w.store.ReadQueue(w.t.Context(), w.queue.ID)
	w.must(err)
	if queue.State != state || !strings.Contains(queue.Reason, reason) {
		w.t.Errorf("the queue is %s: %q; want %s: %q", queue.State, queue.Reason, state, reason)
	}
}

// In a batch a fork's head runs with the repository's secrets: what changes CI rides with a maintainer's approval only.
func TestAForkThatChangesCINeedsAMaintainer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.fake.AddUser("stranger")
	w.fake.AddUser("mona")
	w.must(w.fake.SetPermission(path, "mona", fakehost.RoleMaintain))
	fork := func(head string, files map[string]string, approver string) int {
		number, err := w.fake.OpenMR(path, fakehost.NewMR{Author: "stranger", Head: head, Title: head, Files: files, Fork: true})
		w.must(err)
		_, err = w.fake.Review(path, number, approver, fakehost.Approved, "")
		w.must(err)
		w.admit(number)
		return number
	}
	plain := fork("plain", file("a", "a\n"), "bob")
	sly := fork("sly", file(".gitlab-ci.yml", "x\n"), "bob")
	seen := fork("seen", file(".gitlab/ci/build.yml", "x\n"), "mona")
	w.run()
	w.wantOnHost("merged", plain, seen)
	w.wantOnHost("open", sly)
	w.wantStatus(sly, bot.OperationPendingApproval, bot.ReasonUnapproved)
	if _, _, detail := w.status(sly); !strings.Contains(detail, "maintain access, because it comes from a fork and changes what CI does") {
		t.Errorf("it does not say why: %q", detail)
	}
}
