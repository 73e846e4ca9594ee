package round_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/fakehost"
)

// story tells the batches of a queue: kind, members tested, how each ended, and why its members were chosen.
func (w *world) story() (told []string) {
	w.t.Helper()
	rows, err := w.rows.QueryContext(w.t.Context(), `SELECT kind, tested, code, why FROM merge_batch ORDER BY id`)
	w.must(err)
	defer rows.Close()
	for rows.Next() {
		var kind bot.BatchKind
		var tested int
		var code, why string
		w.must(rows.Scan(&kind, &tested, &code, &why))
		told = append(told, fmt.Sprintf("%s %d %s: %s", kind, tested, code, why))
	}
	w.must(rows.Err())
	return told
}

func (w *world) wantStory(want ...string) {
	w.t.Helper()
	if got := w.story(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		w.t.Errorf("it went\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func bad(name string) map[string]string {
	return map[string]string{name: "x\n", "ci.fail." + name: "x\n"}
}

// Every batch of a search tests what the planner says, lands what is green at once, and says why.
func TestASearchLandsItsGreenPartsAndEndsAtTheCulprit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	good := []int{w.waiting(file("a", "a\n")), w.waiting(file("b", "b\n"))}
	culprit := w.waiting(bad("c"))
	good = append(good, w.waiting(file("d", "d\n")))
	w.run()
	w.wantStory(
		"FRESH 4 CI_RED: testing all 4 that wait; 2.0 % of changes break CI here",
		"PROBE 2 LANDED: testing 2 of 4 suspects of batch 1; 1 more run expected",
		"PROBE 1 CI_RED: testing 1 of 2 suspects of batch 1; 1 more run expected",
		"FRESH 1 LANDED: testing the one that waits; 3.8 % of changes break CI here",
	)
	w.wantOnHost("merged", good...)
	w.wantStatus(culprit, bot.OperationFailed, bot.ReasonCIRed)
	w.wantLandings(2)
}

// Who is red alone may have met a flake: one more run tells.
func TestAFlakeBlamesNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
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
	number := w.waiting(file("a", "a\n"))
	w.run()
	w.wantStory(
		"FRESH 1 CI_RED: testing the one that waits; 2.0 % of changes break CI here",
		"VERIFY 1 LANDED: testing the last suspect of batch 1 alone once more: CI may have failed for nothing",
	)
	w.wantOnHost("merged", number)
	w.wantStatus(number, bot.OperationMerged, bot.ReasonLanded)
}

// Batches with nothing in common fail one after the other: the queue parks, and who rides then is nobody's suspect.
func TestARunnerThatFailsEverythingParksTheQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	broken := true
	w.fake.SetCI(fakehost.CI{Verdict: func(fakehost.CIRun) string {
		if broken {
			return "failure"
		}
		return "success"
	}})
	var last int
	for n := 0; ; n++ {
		queue, _, err := w.store.ReadQueue(t.Context(), w.queue.ID)
		w.must(err)
		if queue.State == bot.QueueParked {
			if !strings.HasPrefix(queue.Reason, "CI_BROKEN: batches with no member in common failed CI in a row (1, ") {
				t.Errorf("parked: %q", queue.Reason)
			}
			break
		}
		if n == 8 {
			t.Fatalf("not parked after\n%s", strings.Join(w.story(), "\n"))
		}
		last = w.waiting(file(fmt.Sprint("change-", n), "x\n"))
		w.run()
	}
	w.wantStatus(last, bot.OperationWaiting, bot.ReasonBatchFailed)
	waiting, err := w.store.Waiting(t.Context(), w.queue.ID)
	w.must(err)
	if waiting.Fresh != 1 || len(waiting.Cohorts) != 0 {
		t.Errorf("waiting %+v", waiting)
	}

	broken = false
	_, err = w.store.ResumeQueue(t.Context(), w.queue.ID, "olga")
	w.must(err)
	w.run()
	w.wantStatus(last, bot.OperationMerged, bot.ReasonLanded)
}
