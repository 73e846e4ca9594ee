package main

import (
	"fmt"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/config"
	"github.com/batchbot/batchbot/githost/fakehost"
)

// landing makes .batchbot.yml with a way to land.
func landing(way string) map[string]string {
	return map[string]string{".batchbot.yml": "queues:\n  - branch: main\n    landing: " + way + "\n    checks: {required: [ci]}\n"}
}

// Whatever the merge method, a batch of two lands as it was tested, also when somebody pushes to the target while CI runs.
func TestEveryMergeMethodLandsWhatWasTested(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind, landing, method string
		merged                bool // the batch is one more merge commit on the target; else the target is moved to the tested commit
	}{
		{config.GitHub, "merge", "", true},
		{config.GitHub, "push", "", false},
		{config.GitLab, "merge", "merge", true},
		{config.GitLab, "merge", "rebase_merge", true},
		{config.GitLab, "merge", "ff", false},
		{config.GitLab, "push", "merge", false},
		{config.GitLab, "push", "ff", false},
	} {
		t.Run(fmt.Sprintf("%s %s %s", test.kind, test.landing, test.method), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, benchSettings{kind: test.kind, files: landing(test.landing), ci: fakehost.CI{Mode: fakehost.CIManual}})
			if test.method != "" {
				b.must(t, b.host.SetProject(e2eRepo, fakehost.Project{MergeMethod: test.method}))
			}
			numbers := []int{b.opened(t, "one"), b.opened(t, "two")}
			b.batchUnderTest(t)
			moved, err := b.host.Commit(e2eRepo, "main", "main", "rita", "Not by a batch", map[string]string{"other.txt": "new\n"})
			b.must(t, err)
			b.host.SetCI(fakehost.CI{Mode: fakehost.CIImmediate})
			_, err = b.host.FinishCI("")
			b.must(t, err)
			for _, n := range numbers {
				b.becomes(t, n, bot.OperationMerged)
			}
			within(t, benchLimit, "silence", func() bool { return b.quiet(t) })
			b.nothingLost(t)

			git := b.host.RepoPath("acme", "app")
			gitOutput(t, git, "merge-base", "--is-ancestor", moved, "main")
			n, err := (&demoRows{b.db}).read(t.Context())
			b.must(t, err)
			last := n.batches[len(n.batches)-1]
			if last.Status != bot.BatchSucceeded || last.LandedDiffers || tree(t, git, last.HeadSHA) != tree(t, git, "main") {
				t.Errorf("the batch is %+v", last)
			}
			if tip := gitOutput(t, git, "rev-parse", "main"); (tip != last.HeadSHA) != test.merged {
				t.Errorf("main is at %s, tested was %s", tip, last.HeadSHA)
			}
			for _, number := range append(numbers, last.MRNumber) {
				mr, err := b.host.MR(e2eRepo, number)
				b.must(t, err)
				if mr.State != "merged" {
					t.Errorf("#%d is %s on the host", number, mr.State)
				}
			}
		})
	}
}

// refusal is a setting that makes landing impossible, and its remedy.
type refusal struct {
	name, kind, landing string
	spoil, mend         func(*fakehost.Host) error
	says                []string
}

// project is a change of a GitLab project's settings.
func project(p fakehost.Project) func(*fakehost.Host) error {
	return func(h *fakehost.Host) error { return h.SetProject(e2eRepo, p) }
}

// protected is a change of who may push and merge to main.
func protected(push, merge int) func(*fakehost.Host) error {
	return func(h *fakehost.Host) error {
		return h.Protect(e2eRepo, "main", fakehost.Protection{Push: push, Merge: merge})
	}
}

// What can be known beforehand is answered to /batch, with the remedy; nothing is built.
func TestWhatCannotLandIsSaidBeforeARound(t *testing.T) {
	t.Parallel()
	for _, test := range []refusal{
		{"squashing is required", config.GitLab, "merge", project(fakehost.Project{SquashOption: "always"}), project(fakehost.Project{}), []string{"do not require squashing", "comment `/batch` again"}},
		{"merge trains", config.GitLab, "merge", project(fakehost.Project{MergeTrains: true}), project(fakehost.Project{}), []string{"merge trains are on", "switch them off", "comment `/batch` again"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, benchSettings{kind: test.kind, files: landing(test.landing)})
			b.must(t, test.spoil(b.host.Host))
			number := b.opened(t, "one")
			b.answered(t, number, test.says...)
			within(t, benchLimit, "silence", func() bool { return b.quiet(t) })
			if n := count(t, b.db, `SELECT COUNT(*) FROM operation`) + count(t, b.db, `SELECT COUNT(*) FROM merge_batch`); n != 0 {
				t.Errorf("%d operations and batches came of it", n)
			}
			b.must(t, test.mend(b.host.Host))
			b.say(t, number, "ada", "/batch")
			b.becomes(t, number, bot.OperationMerged)
		})
	}
}

// What only the landing shows is refused with the reason, tried again after a pause, and lands once it is mended: the batch that was tested.
func TestARefusedLandingSaysWhyAndLandsOnceMended(t *testing.T) {
	t.Parallel()
	for _, test := range []refusal{
		{"nobody may push", config.GitLab, "push", protected(fakehost.NoAccess, fakehost.Maintainer), protected(fakehost.Maintainer, fakehost.Maintainer), []string{"(1 of 3)", "protected branches"}},
		{"nobody may merge", config.GitLab, "merge", protected(fakehost.NoAccess, fakehost.NoAccess), protected(fakehost.Maintainer, fakehost.Maintainer), []string{"(1 of 3)", "let its token's role merge there, in the project's protected branches"}},
		{
			"a push needs an approval", config.GitHub, "push",
			func(h *fakehost.Host) error { return h.SetRules(e2eRepo, "main", fakehost.Rules{RequiredApprovals: 1}) },
			func(h *fakehost.Host) error { return h.SetRules(e2eRepo, "main", fakehost.Rules{}) },
			[]string{"(1 of 3)", "Changes must be made through a pull request"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, benchSettings{kind: test.kind, files: landing(test.landing)})
			b.must(t, test.spoil(b.host.Host))
			number := b.opened(t, "one")
			var refused demoBatch
			within(t, benchLimit, "the landing to be refused", func() bool {
				n, err := (&demoRows{b.db}).read(t.Context())
				b.must(t, err)
				if len(n.batches) == 1 && n.batches[0].Phase == bot.PhaseOpened && n.batches[0].Message != "" {
					refused = n.batches[0]
				}
				return refused.ID != 0
			})
			contains(t, "the batch", refused.Message, test.says...)
			b.must(t, test.mend(b.host.Host))
			b.becomes(t, number, bot.OperationMerged)
			within(t, benchLimit, "silence", func() bool { return b.quiet(t) })
			n, err := (&demoRows{b.db}).read(t.Context())
			b.must(t, err)
			if len(n.batches) != 1 || n.batches[0].HeadSHA != refused.HeadSHA || n.batches[0].LandedDiffers {
				t.Errorf("landed was %+v, refused was %+v", n.batches, refused)
			}
		})
	}
}

// A project that wants a pipeline to succeed and has none is no loop: the batch says what it waits for.
func TestAPipelineThatMustSucceedAndIsNotThereIsNamed(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchSettings{
		kind: config.GitLab, ci: fakehost.CI{Mode: fakehost.CINone},
		files: map[string]string{".batchbot.yml": "queues:\n  - branch: main\n    checks: {none_after: 1s, none: pass}\n"},
	})
	b.must(t, b.host.SetProject(e2eRepo, fakehost.Project{PipelineMustSucceed: true}))
	number := b.opened(t, "one")
	b.answered(t, number, "its pipeline must succeed, and there must be one")
	within(t, benchLimit, "the bot to have said everything", func() bool {
		return count(t, b.db, `SELECT COUNT(*) FROM outbox WHERE status = 1`)+count(t, b.db, `SELECT COUNT(*) FROM delivery WHERE status = 1`) == 0
	})
	if n := count(t, b.db, `SELECT COUNT(*) FROM merge_batch WHERE status = 1 AND phase = 3 AND code = 'NEEDS_APPROVAL' AND refusals = 0`); n != 1 {
		t.Errorf("%d batches wait for the pipeline, want 1", n)
	}
	if n := count(t, b.db, `SELECT COUNT(*) FROM merge_batch`); n != 1 {
		t.Errorf("%d batches were made", n)
	}
}
