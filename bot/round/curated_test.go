package round_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/curated"
	"github.com/batchbot/batchbot/githost/fakehost"
)

// approved opens an approved merge request and applies nothing.
func (w *world) approved(files map[string]string) int {
	w.t.Helper()
	w.started++
	name := "change-" + strconv.Itoa(w.started)
	number, err := w.fake.OpenMR(path, fakehost.NewMR{Author: "ada", Head: name, Title: "Change " + name, Files: files})
	w.must(err)
	w.approve(number)
	return number
}

func (w *world) desk() *curated.Desk {
	return curated.New(curated.Config{
		Store: w.store, Hosts: map[string]bot.Host{"hub": w.host}, Git: w.git,
		NewID: func() string {
			w.started++
			return "00000000-0000-4000-8000-" + strings.Repeat("0", 9) + strconv.Itoa(100+w.started)
		},
	})
}

// set drafts, submits and approves a curated batch of these merge requests, in this order.
func (w *world) set(numbers ...int) int64 {
	w.t.Helper()
	return w.setAgain(0, numbers...)
}

// setAgain is set with a set that was drafted before.
func (w *world) setAgain(id int64, numbers ...int) int64 {
	w.t.Helper()
	draft := curated.Draft{ID: id, QueueID: w.queue.ID}
	for i, n := range numbers {
		draft.Rows = append(draft.Rows, bot.CuratedRow{RowNo: i + 1, Number: n})
	}
	desk, ada := w.desk(), curated.Asker{Name: "ada"}
	result, err := desk.Save(w.t.Context(), ada, draft)
	w.must(err)
	id = result.View.Curated.ID
	for _, do := range []func() (curated.Result, error){
		func() (curated.Result, error) { return desk.Submit(w.t.Context(), ada, id, 0) },
		func() (curated.Result, error) {
			return desk.Approve(w.t.Context(), curated.Asker{Name: "bob", Actor: bot.Actor{Login: "bob"}}, id, 0)
		},
	} {
		if result, err = do(); err != nil || result.Outcome != curated.Done {
			w.t.Fatalf("the set %v: outcome %d, %v, %v", numbers, result.Outcome, result.Problems, err)
		}
	}
	return id
}

func (w *world) wantSet(id int64, status bot.CuratedStatus, reason string) {
	w.t.Helper()
	view, ok, err := w.store.ReadCurated(w.t.Context(), id)
	w.must(err)
	if set := view.Curated; !ok || set.Status != status || !strings.Contains(set.Reason, reason) {
		w.t.Errorf("the set is %s because %q, want %s because %q", set.Status, set.Reason, status, reason)
	}
}

// branchOf is the branch of a batch on the host.
func (w *world) branchOf(batchID int64) string {
	w.t.Helper()
	view, err := w.store.BatchView(w.t.Context(), batchID)
	w.must(err)
	return view.Batch.Branch(w.queue.Target)
}

// rode lists who was ever claimed by each batch, in order.
func (w *world) rode() (batches [][]int) {
	w.t.Helper()
	for _, b := range w.batches() {
		view, err := w.store.BatchView(w.t.Context(), b.ID)
		w.must(err)
		var numbers []int
		for _, m := range view.Members {
			numbers = append(numbers, m.Operation.Number)
		}
		batches = append(batches, numbers)
	}
	return batches
}

func TestACuratedBatchLandsAsAWholeAndWithNobodyElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	first := w.waiting(file("first", "x\n"))
	a, b, c := w.approved(file("a", "a\n")), w.approved(file("b", "b\n")), w.approved(file("c", "c\n"))
	id := w.set(c, a, b)
	last := w.waiting(file("last", "x\n"))
	w.run()
	w.wantStory(
		"FRESH 2 LANDED: testing all 2 that wait; 2.0 % of changes break CI here",
		"CURATED 3 LANDED: testing the 3 members of curated batch 1 together",
	)
	if rode := w.rode(); !slices.Equal(rode[0], []int{first, last}) || !slices.Equal(rode[1], []int{c, a, b}) {
		t.Errorf("rode %v", rode)
	}
	for _, n := range []int{a, b, c} {
		w.wantStatus(n, bot.OperationMerged, bot.ReasonLanded)
	}
	w.wantOnHost("merged", first, last, a, b, c)
	w.wantSet(id, bot.CuratedDone, "")
	w.wantLandings(2)
}

// Settings that shrink after a set was approved do not keep it waiting for ever: it rides as it was approved.
func TestASetThatTheQueueWouldNotTakeAnyMoreRidesWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	id := w.set(w.approved(file("a", "a\n")), w.approved(file("b", "b\n")), w.approved(file("c", "c\n")))
	settings := w.queue.Settings
	settings.MaxBatchSize = 1
	_, err := w.store.UpsertQueue(t.Context(), w.repo.ID, settings, "")
	w.must(err)
	w.run()
	w.wantStory("CURATED 3 LANDED: testing the 3 members of curated batch 1 together")
	w.wantSet(id, bot.CuratedDone, "")
}

// The target moved after the approval, and one member conflicts with it now: nothing of the set lands, and nobody else waits for it.
func TestAConflictTakesTheWholeSetOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	a, stale, c := w.approved(file("a", "a\n")), w.approved(file("shared.txt", "mine\n")), w.approved(file("c", "c\n"))
	id := w.set(a, stale, c)
	_, err := w.fake.Commit(path, "main", "", "bob", "Change the shared file", file("shared.txt", "theirs\n"))
	w.must(err)
	other := w.waiting(file("other", "x\n"))
	w.run()
	w.wantOnHost("open", a, stale, c)
	w.wantOnHost("merged", other)
	w.wantStatus(stale, bot.OperationRejected, bot.ReasonConflict)
	for _, n := range []int{a, c} {
		w.wantStatus(n, bot.OperationRejected, bot.ReasonSetBroken)
	}
	w.wantSet(id, bot.CuratedRejected, strconv.Itoa(stale)+" conflicts with the target branch (shared.txt)")
	w.wantStory(
		"CURATED 2 ALL_EVICTED: testing the 3 members of curated batch 1 together",
		"FRESH 1 LANDED: testing the one that waits; 2.0 % of changes break CI here",
	)
	if sha, err := w.fake.Branch(path, w.branchOf(1)); err != nil || sha != "" {
		t.Errorf("what was left of the set was pushed as %s, %v", sha, err)
	}
	for _, b := range w.batches() {
		if b.Code == bot.CodeAllEvicted && (b.MRNumber != 0 || !strings.Contains(b.Message, "a member of curated batch 1 was lost")) {
			t.Errorf("the batch of the set: %+v", b)
		}
	}
	w.wantLandings(1)
}

// flaky is a queue in which a red batch is rather a flake.
func flaky(s *bot.QueueSettings) { s.FlakeRate = 0.2 }

func TestASetThatIsRedForNothingLandsInItsSecondRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, flaky)
	runs := 0
	w.fake.SetCI(fakehost.CI{Verdict: func(run fakehost.CIRun) string {
		if !strings.HasPrefix(run.Branch, bot.BatchBranchPrefix) {
			return "success"
		}
		if runs++; runs == 1 {
			return "failure"
		}
		return "success"
	}})
	a, b := w.approved(file("a", "a\n")), w.approved(file("b", "b\n"))
	id := w.set(a, b)
	w.run()
	w.wantStory(
		"CURATED 2 CI_RED: testing the 2 members of curated batch 1 together",
		"CURATED 2 LANDED: testing the 2 members of curated batch 1 together once more: CI may have failed for nothing",
	)
	w.wantSet(id, bot.CuratedDone, "")
	w.wantOnHost("merged", a, b)
}

// Red twice it fails as a whole and is never searched. Mended it is submitted again, and its past does not count.
func TestASetThatStaysRedIsRejectedAndComesAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, flaky)
	a, culprit, c := w.approved(file("a", "a\n")), w.approved(map[string]string{"b": "b\n", "ci.fail": "yes\n"}), w.approved(file("c", "c\n"))
	id := w.set(a, culprit, c)
	w.run()
	w.wantOnHost("open", a, culprit, c)
	for _, n := range []int{a, culprit, c} {
		w.wantStatus(n, bot.OperationRejected, bot.ReasonCIRed)
		if _, _, detail := w.status(n); !strings.Contains(detail, "CI failed: ci (http") {
			t.Errorf("!%d does not say where: %q", n, detail)
		}
	}
	w.wantSet(id, bot.CuratedRejected, "CI failed: ci (http")
	w.wantLandings(0)

	mended := w.approved(file("b", "b\n"))
	w.setAgain(id, a, mended, c)
	runs := 0
	w.fake.SetCI(fakehost.CI{Verdict: func(run fakehost.CIRun) string {
		if strings.HasPrefix(run.Branch, bot.BatchBranchPrefix) {
			if runs++; runs == 1 {
				return "failure"
			}
		}
		return "success"
	}})
	w.run()
	w.wantStory(
		"CURATED 3 CI_RED: testing the 3 members of curated batch 1 together",
		"CURATED 3 CI_RED: testing the 3 members of curated batch 1 together once more: CI may have failed for nothing",
		"CURATED 3 CI_RED: testing the 3 members of curated batch 1 together",
		"CURATED 3 LANDED: testing the 3 members of curated batch 1 together once more: CI may have failed for nothing",
	)
	w.wantOnHost("merged", a, mended, c)
	w.wantOnHost("open", culprit)
	w.wantSet(id, bot.CuratedDone, "")
}

// Where a culprit is likelier than a flake, one run is enough.
func TestASetIsNotRunAgainWhereACulpritIsLikelier(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	id := w.set(w.approved(file("a", "a\n")), w.approved(bad("b")))
	w.run()
	w.wantStory("CURATED 2 CI_RED: testing the 2 members of curated batch 1 together")
	w.wantSet(id, bot.CuratedRejected, "CI failed")
}

// Whatever happens to one member while the set rides takes all of it out, and nothing of it lands.
func TestAMemberThatIsLostWhileTheSetRidesEndsTheBatch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lose   func(w *world, number int)
		status bot.OperationStatus
		reason bot.Reason
		words  string
	}{
		"pushed to": {func(w *world, number int) {
			_, err := w.fake.PushTo(path, number, file("b", "changed\n"))
			w.must(err)
			w.approve(number) // even so: nothing of it goes on by itself
		}, bot.OperationRejected, bot.ReasonHeadMoved, "was pushed to"},
		"closed":  {func(w *world, number int) { w.must(w.fake.CloseMR(path, number, "ada")) }, bot.OperationClosed, bot.ReasonClosed, "was closed"},
		"drafted": {func(w *world, number int) { w.must(w.fake.SetDraft(path, number, "ada", true)) }, bot.OperationRejected, bot.ReasonDrafted, "was turned into a draft"},
		"unapproved": {func(w *world, number int) {
			mr, err := w.fake.MR(path, number)
			w.must(err)
			w.must(w.fake.Dismiss(path, number, mr.Reviews[0].ID, "bob"))
		}, bot.OperationRejected, bot.ReasonUnapproved, "is not approved any more"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.fake.SetCI(fakehost.CI{Mode: fakehost.CIManual})
			a, lost, d := w.approved(file("a", "a\n")), w.approved(file("b", "b\n")), w.approved(file("d", "d\n"))
			id := w.set(a, lost, d)
			riding := w.runTo(bot.PhaseOpened)
			c.lose(w, lost)
			w.finishCI()
			w.run()
			w.wantStatus(lost, c.status, c.reason)
			for _, n := range []int{a, d} {
				w.wantStatus(n, bot.OperationRejected, bot.ReasonSetBroken)
			}
			w.wantSet(id, bot.CuratedRejected, strconv.Itoa(lost)+" "+c.words)
			list := w.batches()
			if len(list) != 1 || list[0].Status != bot.BatchFailed || list[0].Code != bot.CodeAllEvicted || list[0].BuildsRun != 1 {
				t.Errorf("batches %+v", list)
			}
			w.wantOnHost("open", a, d)
			w.wantOnHost("closed", riding.MRNumber)
			w.wantLandings(0)
		})
	}
}

// The host refuses what one member brings: named or not, there is no smaller batch to try.
func TestAPushThatIsRefusedTakesTheWholeSetOut(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ path, match, words, want string }{
		"named":     {".github/workflows/ci.yml", "^.github/workflows/", "refusing \\`$path\\`", "cannot be pushed: the host refuses it"},
		"not named": {"forbidden", "^forbidden$", "this push breaks a rule", "which member is meant, the host does not say"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			a, b := w.approved(file("a", "a\n")), w.approved(file(c.path, "x\n"))
			id := w.set(a, b)
			w.refusePushes(c.match, c.words)
			w.run()
			w.wantOnHost("open", a, b)
			for _, n := range []int{a, b} {
				if status, reason, _ := w.status(n); status != bot.OperationRejected || (reason != bot.ReasonPushRefused && reason != bot.ReasonSetBroken) {
					t.Errorf("!%d is %s because %q", n, status, reason)
				}
			}
			view, _, err := w.store.ReadCurated(t.Context(), id)
			w.must(err)
			_, _, detail := w.status(a)
			if name == "named" {
				detail = view.Curated.Reason
			}
			if view.Curated.Status != bot.CuratedRejected || !strings.Contains(detail, c.want) {
				t.Errorf("the set is %s: %q, %q", view.Curated.Status, view.Curated.Reason, detail)
			}
			if list := w.batches(); len(list) != 1 || list[0].Code != bot.CodeAllEvicted {
				t.Errorf("batches %+v", list)
			}
			w.wantQueue(bot.QueueOpen, "")
		})
	}
}

// What is nobody's fault sends the set back whole, in its place, and it rides again whole.
func TestASetThatWasClosedByAPersonRidesAgainWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.fake.SetCI(fakehost.CI{Mode: fakehost.CIManual})
	a, b := w.approved(file("a", "a\n")), w.approved(file("b", "b\n"))
	id := w.set(a, b)
	riding := w.runTo(bot.PhaseOpened)
	w.must(w.fake.CloseMR(path, riding.MRNumber, "bob"))
	w.run()
	w.wantSet(id, bot.CuratedApproved, "")
	waiting, err := w.store.Waiting(t.Context(), w.queue.ID)
	w.must(err)
	if waiting.Fresh != 0 || len(waiting.Cohorts) != 1 || waiting.Cohorts[0].Size != 2 || !waiting.Cohorts[0].Curated {
		t.Errorf("waiting %+v", waiting)
	}
	_, err = w.store.ResumeQueue(t.Context(), w.queue.ID, "olga")
	w.must(err)
	w.fake.SetCI(fakehost.CI{})
	w.run()
	w.wantOnHost("merged", a, b)
	w.wantSet(id, bot.CuratedDone, "")
	w.wantLandings(1)
}

// A target that moves while CI runs has the whole set built anew, and what lands is what was tested.
func TestASetIsRebuiltWholeOnATargetThatMoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.fake.SetCI(fakehost.CI{Mode: fakehost.CIManual})
	a, b := w.approved(file("a", "a\n")), w.approved(file("b", "b\n"))
	id := w.set(a, b)
	w.runTo(bot.PhaseOpened)
	_, err := w.fake.Commit(path, "main", "", "bob", "Push past it", file("past", "x\n"))
	w.must(err)
	w.run()
	w.finishCI()
	w.run()
	w.wantSet(id, bot.CuratedDone, "")
	w.wantOnHost("merged", a, b)
	w.wantLandings(1)
	if list := w.batches(); len(list) != 1 || list[0].BuildsRun != 2 {
		t.Errorf("batches %+v", list)
	}
}
