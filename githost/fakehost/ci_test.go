package fakehost_test

import (
	"testing"

	"github.com/batchbot/batchbot/githost/fakehost"
)

func TestCIJudgesThePushedTree(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	openMR(t, h, "ada", "good", "one.txt")
	openMR(t, h, "bob", "bad", "ci.fail")
	openMR(t, h, "bob", "also-bad", "ci.fail.7")
	openMR(t, h, "bob", "deeper", "docs/ci.fail")
	want := map[string]string{"good": "success", "bad": "failure", "also-bad": "failure", "deeper": "success"}
	runs := h.CIRuns()
	for _, r := range runs {
		if r.Conclusion != want[r.Branch] {
			t.Errorf("%s: %s, want %s", r.Branch, r.Conclusion, want[r.Branch])
		}
	}
	if len(runs) != len(want) {
		t.Errorf("%d runs, want one for each of %d branches", len(runs), len(want))
	}
}

func TestCIRunsOnPushesToABranchWithAnOpenMergeRequest(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	get(h.Commit(repo, "loose", "", "ada", "x", map[string]string{"x": "x"}))(t)
	n := openMR(t, h, "ada", "one", "one.txt")
	get(h.PushTo(repo, n, map[string]string{"two.txt": "2\n"}))(t)
	must(t, h.CloseMR(repo, n, "ada"))
	get(h.PushTo(repo, n, map[string]string{"three.txt": "3\n"}))(t)
	if runs := h.CIRuns(); len(runs) != 2 || runs[1].Branch != "one" {
		t.Errorf("runs %+v, want the opening and one push of one", runs)
	}
}

func TestCIByPrefixStyleAndMode(t *testing.T) {
	t.Parallel()
	h := newHost(t, func(o *fakehost.Options) { o.CI = fakehost.CI{BranchPrefix: "batch/", Style: "status"} })
	openMR(t, h, "ada", "one", "one.txt")
	sha := get(h.Commit(repo, "batch/1", "", "ada", "x", map[string]string{"x": "x"}))(t)
	if runs := h.CIRuns(); len(runs) != 1 || runs[0].SHA != sha {
		t.Errorf("runs %+v, want one on batch/1", runs)
	}
	s := get(h.State(repo))(t)
	if len(s.Checks) != 0 || len(s.Statuses) != 2 || s.Statuses[0].State != "pending" || s.Statuses[1].State != "success" {
		t.Errorf("checks %v, statuses %v", s.Checks, s.Statuses)
	}
	h.SetCI(fakehost.CI{Mode: fakehost.CINone})
	get(h.Commit(repo, "batch/2", "", "ada", "x", map[string]string{"x": "x"}))(t)
	if len(h.CIRuns()) != 1 {
		t.Error("CI ran although there is none")
	}
}

func TestSomebodyActsWhileCIRuns(t *testing.T) {
	t.Parallel()
	var h *fakehost.Host
	var seen []string
	h = newHost(t, func(o *fakehost.Options) {
		o.CI = fakehost.CI{Mode: fakehost.CIManual, OnStart: func(run fakehost.CIRun) {
			seen = append(seen, run.SHA)
			if len(seen) == 1 {
				get(h.PushTo(repo, 1, map[string]string{"late.txt": "late\n"}))(t)
			}
			get(h.FinishCI(run.SHA))(t)
		}}
	})
	openMR(t, h, "ada", "one", "one.txt")
	must(t, h.DeliverPending(ctx))
	runs := h.CIRuns()
	if len(seen) != 2 || len(runs) != 2 || runs[0].Conclusion != "success" || runs[1].Conclusion != "success" {
		t.Errorf("saw %v, runs %+v", seen, runs)
	}
}
