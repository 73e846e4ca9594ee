package github_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/fakehost"
)

// The webhook is faster than the host's own reads: twice it knows nothing yet.
func TestPitfall04AMergeRequestIsReadOnceTheHostKnowsIt(t *testing.T) {
	t.Parallel()
	appKey()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		number, head := w.batch(1)
		late := func(times int) {
			w.fake.Heal()
			w.must(w.fake.Break(fakehost.Fault{On: "GET /repos/*/pulls/*", Times: times, Do: fakehost.FaultStatus, Status: 404, Message: "Not Found"}))
		}
		late(2)
		if mr, err := w.host.ReadMR(t.Context(), w.repo, number); err != nil || mr.HeadSHA != head {
			t.Errorf("read %+v, %v", mr, err)
		}
		late(9)
		if _, err := w.host.ReadMR(t.Context(), w.repo, number); !errors.Is(err, bot.ErrNotFound) {
			t.Errorf("of what stays unknown: %v", err)
		}
		if asked := w.fake.Broken()[0].Struck; asked != 3 {
			t.Errorf("asked %d times for what is not there", asked)
		}
		w.fake.Close()
	})
}

// A push ends the approvals of what it replaces, be it by the host's rules or because they name another commit.
func TestApprovalsEndWithAPush(t *testing.T) {
	t.Parallel()
	for _, dismissed := range []bool{true, false} {
		w := newWorld(t)
		w.must(w.fake.SetRules(path, "main", fakehost.Rules{RequiredApprovals: 1, DismissStale: dismissed}))
		number, head := w.batch(1)
		w.Approve(number, "ada", "")
		policy := bot.ApprovalPolicy{Count: 1, Minimum: bot.PermissionWrite}
		judge := func(sha string) bool {
			t.Helper()
			approvals, err := w.host.ReadApprovals(t.Context(), w.repo, number)
			w.must(err)
			return bot.JudgeApproval(policy, bot.Actor{ID: 1}, sha, approvals).Sufficient
		}
		if !judge(head) {
			t.Error("it was not approved before the push")
		}
		if now := w.Push(number, map[string]string{"b1.txt": "yy\n"}); judge(now) {
			t.Errorf("dismissed %v: the approval went along with the push", dismissed)
		}
	}
}

// The API is behind git: whoever merges by what it says of the head is told that this is not so, and nothing lands.
func TestAHeadThatTheHostHasNotSeenYetDoesNotLand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	number, before := w.batch(1)
	after := w.Push(number, map[string]string{"b1.txt": "yy\n"})
	w.must(w.fake.Break(fakehost.Fault{On: "GET /repos/*/pulls/*", Times: 1, Do: fakehost.FaultStaleHead}))
	stale, err := w.host.ReadMR(t.Context(), w.repo, number)
	if err != nil || stale.HeadSHA != before {
		t.Fatalf("read %+v, %v", stale, err)
	}
	if answer, err := w.host.MergeMR(t.Context(), w.repo, number, stale.HeadSHA, "Batch 7", ""); err != nil || answer.Outcome != bot.MergeHeadMoved {
		t.Errorf("by the old head: %+v, %v", answer, err)
	}
	if answer, err := w.host.MergeMR(t.Context(), w.repo, number, after, "Batch 7", ""); err != nil || answer.Outcome != bot.MergeDone {
		t.Errorf("by the new one: %+v, %v", answer, err)
	}
}
