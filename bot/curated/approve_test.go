package curated_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/curated"
	"github.com/batchbot/batchbot/githost/fakehost"
)

// submitted is a set of ada's of two approved members that waits for its approval.
func (w *world) submitted() (id int64, numbers []int) {
	w.t.Helper()
	numbers = []int{w.opens(file("a", "a\n")), w.opens(file("b", "b\n"))}
	id = w.drafts(numbers...)
	w.submits(id)
	return id, numbers
}

func TestAnApprovedSetIsAdmittedAsOneCohort(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, numbers := w.submitted()
	result, err := w.desk.Approve(t.Context(), on("carol"), id, 0)
	w.must(err)
	w.wantOutcome(result, curated.Done)
	set := result.View.Curated
	if set.Status != bot.CuratedApproved || set.Decider != "carol" {
		t.Errorf("approved: %+v", set)
	}
	for i, n := range numbers {
		if status, reason := w.status(n); status != bot.OperationWaiting || reason != bot.ReasonCurated {
			t.Errorf("!%d is %s because %q", n, status, reason)
		}
		if set.Rows[i].OperationID == "" {
			t.Errorf("row %d has no operation", i+1)
		}
	}
	waiting, err := w.store.Waiting(t.Context(), w.queue.ID)
	w.must(err)
	if waiting.Fresh != 0 || len(waiting.Cohorts) != 1 || waiting.Cohorts[0].ID != bot.CuratedCohort(id) || waiting.Cohorts[0].Size != 2 || !waiting.Cohorts[0].Curated {
		t.Errorf("waiting %+v", waiting)
	}
	if !slices.Equal(w.nudged, []int64{w.queue.ID}) {
		t.Errorf("nudged %v", w.nudged)
	}
}

func TestWhoApproves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, _ := w.submitted()
	before := w.dump()
	for _, c := range []struct {
		who    curated.Asker
		reason string
	}{
		{on("ada"), "whoever drafted a set does not approve it: somebody else with write access does"},
		{on("ADA"), "whoever drafted a set does not approve it: somebody else with write access does"},
		{on("rita"), "only people with write access decide about a set"},
		{on("nobody"), "only people with write access decide about a set"},
		{curated.Asker{Name: "api:reader"}, "only people with write access decide about a set"},
	} {
		result, err := w.desk.Approve(t.Context(), c.who, id, 0)
		w.must(err)
		if w.wantOutcome(result, curated.Forbidden); result.Reason != c.reason {
			t.Errorf("%s is told %q, want %q", c.who.Name, result.Reason, c.reason)
		}
	}
	if after := w.dump(); after != before {
		t.Error("a refused approval wrote something")
	}
	result, err := w.desk.Approve(t.Context(), token("release"), id, 0)
	w.must(err)
	w.wantOutcome(result, curated.Done)

	// The one who edited it last drafted it.
	numbers := []int{w.opens(file("c", "c\n")), w.opens(file("d", "d\n"))}
	id = w.drafts(numbers[0])
	edited, err := w.desk.Save(t.Context(), token("release"), curated.Draft{ID: id, Rows: rowsOf(numbers...)})
	w.must(err)
	w.wantOutcome(edited, curated.Done)
	w.submits(id)
	if result, err = w.desk.Approve(t.Context(), token("release"), id, 0); err != nil || result.Outcome != curated.Forbidden {
		t.Errorf("by the token that drafted it: %+v, %v", result, err)
	}
}

// The approval of a set stands beside those of its members.
func TestAMemberNeedsItsOwnApproval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.opens(file("a", "a\n")), w.opensUnapproved(file("b", "b\n"))
	fork, err := w.fake.OpenMR(path, fakehost.NewMR{Author: "ada", Head: "fork", Title: "Fork", Files: file(".github/workflows/ci.yml", "on: push\n"), Fork: true})
	w.must(err)
	w.approves(fork)
	id := w.drafts(a, b, fork)
	w.submits(id) // asked for when it is approved
	before := w.dump()
	result, err := w.desk.Approve(t.Context(), on("carol"), id, 0)
	w.must(err)
	told := problems(result)
	if w.wantOutcome(result, curated.Refused); len(told) != 2 || !strings.Contains(told[0], "approvals row 2") || !strings.Contains(told[0], "is not approved by itself: needs 1 more approval at ") ||
		!strings.Contains(told[1], "approvals row 3") || !strings.Contains(told[1], "because it comes from a fork and changes what CI does") {
		t.Errorf("problems %q", told)
	}
	if after := w.dump(); after != before {
		t.Error("a refused approval wrote something")
	}
	if waiting, err := w.store.Waiting(t.Context(), w.queue.ID); err != nil || !waiting.Empty() {
		t.Errorf("waiting %+v, %v", waiting, err)
	}
}

// What was submitted is what is approved: a push in between is named, even one that was approved, and the set is submitted anew.
func TestAPushBetweenSubmissionAndApproval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, numbers := w.submitted()
	old, err := w.fake.MR(path, numbers[1])
	w.must(err)
	head, err := w.fake.PushTo(path, numbers[1], file("b", "changed\n"))
	w.must(err)
	w.approves(numbers[1])
	w.must(w.fake.CloseMR(path, numbers[0], "ada"))
	result, err := w.desk.Approve(t.Context(), on("carol"), id, 0)
	w.must(err)
	told := problems(result)
	w.wantOutcome(result, curated.Refused)
	if len(told) != 2 || !strings.Contains(told[0], "open row 1") ||
		!strings.Contains(told[1], "was pushed to since the set was submitted: it stands at "+bot.ShortSHA(head)+" and was submitted at "+bot.ShortSHA(old.Head)) {
		t.Errorf("problems %q", told)
	}
	w.must(w.fake.ReopenMR(path, numbers[0], "ada"))
	rejected, err := w.desk.Reject(t.Context(), on("ada"), id, 0, "it changed")
	w.must(err)
	if w.wantOutcome(rejected, curated.Done); rejected.View.Curated.Status != bot.CuratedRejected || rejected.View.Curated.Reason != "it changed" {
		t.Errorf("withdrawn: %+v", rejected.View.Curated)
	}
	if r, err := w.desk.Submit(t.Context(), on("ada"), id, 0); err != nil || r.Outcome != curated.AlreadyDecided {
		t.Errorf("a rejected set is submitted without being drafted again: %+v, %v", r, err)
	}
	again, err := w.desk.Save(t.Context(), on("ada"), curated.Draft{ID: id, Rows: rowsOf(numbers...)})
	w.must(err)
	w.wantOutcome(again, curated.Done)
	if set := w.submits(id).View.Curated; set.Rows[1].HeadSHA != head {
		t.Errorf("pinned at %s, want %s", set.Rows[1].HeadSHA, head)
	}
	approved, err := w.desk.Approve(t.Context(), on("carol"), id, 0)
	w.must(err)
	w.wantOutcome(approved, curated.Done)
}

// The target may have moved between the two, so that what merged does no longer.
func TestAnApprovalMergesAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.opens(file("a", "a\n")), w.opens(file("shared.txt", "mine\n"))
	id := w.drafts(a, b)
	w.submits(id)
	_, err := w.fake.Commit(path, "main", "", "bob", "Change the shared file", file("shared.txt", "theirs\n"))
	w.must(err)
	result, err := w.desk.Approve(t.Context(), on("carol"), id, 0)
	w.must(err)
	if w.wantOutcome(result, curated.Refused); len(result.Problems) != 1 || result.Problems[0].Kind != bot.ProblemMerge || result.Problems[0].RowNo != 2 {
		t.Errorf("problems %q", problems(result))
	}
}

func TestTwoFinalApprovalsAdmitOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, numbers := w.submitted()
	people := []string{"bob", "carol", "bob", "carol", "bob", "carol"}
	results, errs := make([]curated.Result, len(people)), make([]error, len(people))
	var all sync.WaitGroup
	for i, login := range people {
		all.Go(func() { results[i], errs[i] = w.desk.Approve(t.Context(), on(login), id, 0) })
	}
	all.Wait()
	var winner string
	for i := range people {
		w.must(errs[i])
		if results[i].Outcome == curated.Done {
			if winner != "" {
				t.Error("two approvals count")
			}
			winner = people[i]
		}
	}
	for i := range people {
		switch r := results[i]; r.Outcome {
		case curated.Done:
		case curated.AlreadyDecided:
			if r.View.Curated.Decider != winner {
				t.Errorf("the others are told that %q approved it, and it was %q", r.View.Curated.Decider, winner)
			}
		default:
			t.Errorf("outcome %d", r.Outcome)
		}
	}
	later, err := w.desk.Approve(t.Context(), on("bob"), id, 0)
	w.must(err)
	if w.wantOutcome(later, curated.AlreadyDecided); later.View.Curated.Decider != winner {
		t.Errorf("approved by %q, want %q", later.View.Curated.Decider, winner)
	}
	waiting, err := w.store.Waiting(t.Context(), w.queue.ID)
	w.must(err)
	if len(waiting.Cohorts) != 1 || waiting.Cohorts[0].Size != len(numbers) {
		t.Errorf("waiting %+v", waiting)
	}
}

func TestApprovalsOfWhatIsNotSubmitted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.drafts(1, 2)
	for name, ask := range map[string]func() (curated.Result, error){
		"approve": func() (curated.Result, error) { return w.desk.Approve(t.Context(), on("carol"), id, 0) },
		"reject":  func() (curated.Result, error) { return w.desk.Reject(t.Context(), on("carol"), id, 0, "no") },
	} {
		if r, err := ask(); err != nil || r.Outcome != curated.NotSubmitted {
			t.Errorf("%s a draft: %+v, %v", name, r, err)
		}
	}
	cancelled, err := w.desk.Cancel(t.Context(), on("ada"), id, 0)
	w.must(err)
	if w.wantOutcome(cancelled, curated.Done); cancelled.View.Curated.Status != bot.CuratedCancelled {
		t.Errorf("cancelled: %+v", cancelled.View.Curated)
	}
	for name, ask := range map[string]func(id int64) (curated.Result, error){
		"submit":  func(id int64) (curated.Result, error) { return w.desk.Submit(t.Context(), on("ada"), id, 0) },
		"approve": func(id int64) (curated.Result, error) { return w.desk.Approve(t.Context(), on("carol"), id, 0) },
		"reject":  func(id int64) (curated.Result, error) { return w.desk.Reject(t.Context(), on("carol"), id, 0, "no") },
		"cancel":  func(id int64) (curated.Result, error) { return w.desk.Cancel(t.Context(), on("carol"), id, 0) },
	} {
		if r, err := ask(id); err != nil || r.Outcome != curated.AlreadyDecided {
			t.Errorf("%s a cancelled one: %+v, %v", name, r, err)
		}
		if r, err := ask(4711); err != nil || r.Outcome != curated.NotFound {
			t.Errorf("%s none: %+v, %v", name, r, err)
		}
	}
}

func TestWhoRejectsAndCancels(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, _ := w.submitted()
	for name, ask := range map[string]func(who curated.Asker) (curated.Result, error){
		"reject": func(who curated.Asker) (curated.Result, error) { return w.desk.Reject(t.Context(), who, id, 0, "no") },
		"cancel": func(who curated.Asker) (curated.Result, error) { return w.desk.Cancel(t.Context(), who, id, 0) },
	} {
		if r, err := ask(on("rita")); err != nil || r.Outcome != curated.Forbidden {
			t.Errorf("rita may %s: %+v, %v", name, r, err)
		}
	}
	rejected, err := w.desk.Reject(t.Context(), on("carol"), id, 0, "not this week")
	w.must(err)
	if w.wantOutcome(rejected, curated.Done); rejected.View.Curated.Decider != "carol" || rejected.View.Curated.Reason != "not this week" {
		t.Errorf("rejected: %+v", rejected.View.Curated)
	}
	cancelled, err := w.desk.Cancel(t.Context(), on("carol"), id, 0)
	w.must(err)
	w.wantOutcome(cancelled, curated.Done)
	list, err := w.desk.List(t.Context(), bot.CuratedFilter{Live: true, Limit: 10})
	w.must(err)
	if len(list) != 0 {
		t.Errorf("%d sets are live", len(list))
	}
}

// Somebody applies a member by itself while the set is merged for a try.
func TestAMemberThatGetsBusyBehindItsCheck(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, numbers := w.submitted()
	git := w.desk.Git
	w.desk.Git = editing{git, func() { w.applies(numbers[1], true) }}
	result, err := w.desk.Approve(t.Context(), on("carol"), id, 0)
	w.must(err)
	w.wantOutcome(result, curated.Refused)
	if p := result.Problems[0]; p.Kind != bot.ProblemBusy || p.Text != fmt.Sprint(numbers[1], " waits for the next batch") {
		t.Errorf("problems %q", problems(result))
	}
	if status, reason := w.status(numbers[0]); status != 0 {
		t.Errorf("!%d is %s because %q", numbers[0], status, reason)
	}
}

// asked is a host that somebody else is faster than.
type asked struct {
	bot.Host
	first func()
}

func (a asked) Permission(ctx context.Context, repo bot.Repository, actor bot.Actor) (bot.Permission, error) {
	a.first()
	return a.Host.Permission(ctx, repo, actor)
}

// The members of a set that somebody approved during the checks are busy, with this very set.
func TestAnApprovalDuringTheChecksIsAnApproval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, _ := w.submitted()
	faster := *w.desk
	slower := faster
	slower.Hosts = map[string]bot.Host{"hub": asked{w.host, func() {
		result, err := faster.Approve(t.Context(), on("bob"), id, 0)
		w.must(err)
		w.wantOutcome(result, curated.Done)
	}}}
	result, err := slower.Approve(t.Context(), on("carol"), id, 0)
	w.must(err)
	if w.wantOutcome(result, curated.AlreadyDecided); result.View.Curated.Decider != "bob" {
		t.Errorf("approved by %q", result.View.Curated.Decider)
	}
}

// failing is a host that cannot be asked.
type failing struct{ bot.Host }

func (failing) Permission(context.Context, bot.Repository, bot.Actor) (bot.Permission, error) {
	return "", bot.ErrUnavailable
}

// Trouble of the host is no answer: nobody is let through, and nothing is said that may be wrong.
func TestAHostInTroubleIsAnError(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, _ := w.submitted()
	w.desk.Hosts["hub"] = failing{w.host}
	before := w.dump()
	if r, err := w.desk.Approve(t.Context(), on("carol"), id, 0); err == nil {
		t.Errorf("approved without asking: %+v", r)
	}
	if after := w.dump(); after != before {
		t.Error("something was written")
	}
}
