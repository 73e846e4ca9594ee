package gitmerge_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchbot/batchbot/bot"
)

// git says "conflict" and "no such commit" with the same exit code: only a tree on its output makes it a conflict.
func TestFinding01ABadCommitIsNotAConflict(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	root := o.commit("refs/heads/main", files{"a": "0\n"})
	member := o.pull(1, files{"b": "1\n"}, root)
	for name, script := range map[string]string{
		"a commit that is not there": `case "$1" in merge-tree) exec git merge-tree --write-tree -z --name-only --no-messages ` + strings.Repeat("1", 40) + ` ` + root + `;; esac`,
		"exit 1 and silence":         `case "$1" in merge-tree) exit 1;; esac`,
		"exit 1 and words":           `case "$1" in merge-tree) echo "merge-tree: not something we can merge"; exit 1;; esac`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := newWrapped(t, script).Build(t.Context(), o.remote(), spec(member))
			if err == nil {
				b.Close()
				t.Fatalf("the members are %+v, want an error", b.Result().Members)
			}
			mustContain(t, err, "merging #1")
		})
	}
	conflict := o.pull(2, files{"a": "2\n"}, root)
	o.commit("refs/heads/main", files{"a": "1\n"}, root)
	wantFates(t, newInstance(t).build(o, spec(conflict)).Result(), bot.FateConflict)
}

// What newer versions of git can do is not relied upon, and one merge's trouble does not silence the next.
func TestFinding02EveryMergeIsAProcessOfItsOwnThatOldGitUnderstands(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	root := o.commit("refs/heads/main", files{"a": "0\n"})
	log := filepath.Join(t.TempDir(), "calls")
	i := newWrapped(t, `case "$1" in merge-tree) echo "$*" >>`+log+`;; esac`)
	members := []bot.BuildMember{
		o.pull(1, files{"b": "1\n"}, root), o.pull(2, files{"c": "2\n"}), o.pull(3, files{"d": "3\n"}, root),
	}
	wantFates(t, i.build(o, spec(members...)).Result(), bot.FateMerged, bot.FateUnrelated, bot.FateMerged)
	calls, err := os.ReadFile(log)
	must(t, err)
	n := 0
	for call := range strings.Lines(string(calls)) {
		n++
		args := strings.Fields(call)
		for _, arg := range args[:len(args)-2] {
			switch arg {
			case "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages":
			default:
				t.Errorf("git 2.38 does not know %s", arg)
			}
		}
		for _, commit := range args[len(args)-2:] {
			if kind := i.kind(o, commit); kind == "tree" {
				t.Errorf("git 2.38 merges no %s: %s", kind, call)
			}
		}
	}
	if n != 2 {
		t.Errorf("%d merges were made for two members that could be merged", n)
	}
}

// kind is what an object is, as far as the origin or the mirror knows it.
func (i instance) kind(o origin, id string) string {
	i.t.Helper()
	for _, dir := range []string{o.dir, i.mirror()} {
		if out := runGit(i.t, id+"\n", "-C", dir, "cat-file", "--batch-check=%(objecttype)"); !strings.Contains(out, "missing") {
			return out
		}
	}
	return "of the build" // only the build's own objects know it
}

// The landing by push names the base it was tested on: a base that moved takes nothing.
func TestPitfall35APushLandsOnTheTestedBaseOnly(t *testing.T) {
	t.Parallel()
	o, i := newOrigin(t), newInstance(t)
	root := o.commit("refs/heads/main", files{"a": "0\n"})
	b := i.build(o, spec(o.pull(1, files{"b": "1\n"}, root)))
	wantPush(t, i.push(b, batchBranch), bot.PushDone)
	moved := o.commit("refs/heads/main", files{"c": "2\n"}, root)
	outcome, err := i.FastForward(t.Context(), o.remote(), "main", b.Result().BaseSHA, b.Result().HeadSHA)
	must(t, err)
	if wantPush(t, outcome, bot.PushForeign); outcome.Found != moved || o.at("main") != moved {
		t.Errorf("found %s, main at %s, want %s", outcome.Found, o.at("main"), moved)
	}
}

// The host may delete a merged branch by itself, before we come to it.
func TestPitfall14ABranchThatIsGoneIsDeleted(t *testing.T) {
	t.Parallel()
	o, i := newOrigin(t), newInstance(t)
	root := o.commit("refs/heads/main", files{"a": "0\n"})
	b := i.build(o, spec(o.pull(1, files{"b": "1\n"}, root)))
	wantPush(t, i.push(b, batchBranch), bot.PushDone)
	o.git("update-ref", "-d", "refs/heads/"+batchBranch)
	for range 2 {
		outcome, err := i.DeleteBranch(t.Context(), o.remote(), batchBranch, []string{b.Result().HeadSHA})
		must(t, err)
		wantPush(t, outcome, bot.PushDone)
	}
}

// A member whose branch was forced back to an older commit is another change, whenever that commit was made.
func TestPitfall37AHeadForcedBackIsNotThePinnedOne(t *testing.T) {
	t.Parallel()
	o, i := newOrigin(t), newInstance(t)
	root := o.commit("refs/heads/main", files{"a": "0\n"})
	older := o.pull(1, files{"b": "1\n"}, root)
	pinned := o.pull(1, files{"b": "2\n"}, older.HeadSHA)
	o.git("update-ref", pullRef(1), older.HeadSHA)
	result := i.build(o, spec(pinned)).Result()
	wantFates(t, result, bot.FateMoved)
	if result.Members[0].FoundSHA != older.HeadSHA || result.HeadSHA != result.BaseSHA {
		t.Errorf("built %+v", result)
	}
}

// The words of a rule name files, and files are named anything: a rule is no trouble that passes.
func TestARuleIsNoPassingTrouble(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	root := o.commit("refs/heads/main", files{"a": "0\n"})
	for _, file := range []string{"ci", "internal-timeout", "temporary", "unable to"} {
		words := "refusing to allow a GitHub App to create or update workflow `.github/workflows/" + file + ".yml` without `workflows` permission"
		i := newWrapped(t, `case "$1" in push) printf '!\t%s:%s\t[remote rejected] (%s)\n' x refs/heads/`+batchBranch+` '`+words+`'; exit 1;; esac`)
		outcome := i.push(i.build(o, spec(o.pull(1, files{"b": "1\n"}, root))), batchBranch)
		if wantPush(t, outcome, bot.PushRefused); !strings.Contains(outcome.Message, words) {
			t.Errorf("%s: said %q", file, outcome.Message)
		}
	}
}
