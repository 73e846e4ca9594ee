package gitmerge_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
)

func TestMembersAreMergedInOrderByTheirExactHeads(t *testing.T) {
	t.Parallel()
	o, bot7 := newOrigin(t), newInstance(t)
	root := o.commit("refs/heads/main", files{"a": poem(-1, ""), "b": "b\n"})
	tip := o.commit("refs/heads/main", files{"c": "c\n"}, root)
	one := o.pull(1, files{"a": poem(3, "one")}, root)
	two := o.pull(2, files{"a": poem(50, "two"), "d": "d\n"}, root)

	b := bot7.build(o, spec(one, two))
	result := b.Result()
	wantFates(t, result, bot.FateMerged, bot.FateMerged)
	if result.BaseSHA != tip {
		t.Errorf("built on %s, want the target's tip %s", result.BaseSHA, tip)
	}
	if at := o.at("batchbot/7"); at != "" {
		t.Fatal("Build pushed something")
	}
	wantPush(t, bot7.push(b, "batchbot/7"), bot.PushDone)

	if got := o.at("batchbot/7"); got != result.HeadSHA {
		t.Fatalf("the branch stands at %s, want %s", got, result.HeadSHA)
	}
	first, second := result.Members[0].MergeCommit, result.Members[1].MergeCommit
	want := fmt.Sprintf("%s %s\n%s %s", first, two.HeadSHA, tip, one.HeadSHA)
	if got := o.git("log", "--first-parent", "--format=%P", result.HeadSHA, "^"+tip); got != want || second != result.HeadSHA {
		t.Errorf("parents are\n%s\nwant\n%s", got, want)
	}
	if got := o.git("rev-parse", result.HeadSHA+"^{tree}"); got != result.TreeSHA {
		t.Errorf("the tree is %s, the result says %s", got, result.TreeSHA)
	}
	wantMessage := "batchbot <batchbot@noreply.invalid> 1750000000\nMerge #2: Change 2\n\nBatch: 7-0a1b2c3d"
	if got := o.git("log", "-1", "--format=%an <%ae> %ct%n%B", result.HeadSHA); got != wantMessage {
		t.Errorf("the commit reads\n%s\nwant\n%s", got, wantMessage)
	}
	if got := o.git("log", "-1", "--format=%(trailers:key=Batch,valueonly)", result.HeadSHA); got != "7-0a1b2c3d" {
		t.Errorf("git reads the trailer as %q", got)
	}
	o.git("fsck", "--strict")
}

func TestAGitLabMergeRequestIsNotNamedLikeAnIssue(t *testing.T) {
	t.Parallel()
	o, i := newOrigin(t), newInstance(t)
	root := o.commit("refs/heads/main", files{"a": "a\n"})
	m := member(5, o.commit("refs/merge-requests/5/head", files{"b": "b\n"}, root))
	m.HeadRef = "refs/merge-requests/5/head"
	b := i.build(o, spec(m))
	i.push(b, "batch")
	if got := o.git("log", "-1", "--format=%s", "batch"); got != "Merge !5: Change 5" {
		t.Errorf("subject %q", got)
	}
}

func TestConflictWithTheTarget(t *testing.T) {
	t.Parallel()
	o, i := newOrigin(t), newInstance(t)
	root := o.commit("refs/heads/main", files{"dir/with space.txt": "1\n", "grün/日本.txt": "1\n", "fine": "1\n"})
	o.commit("refs/heads/main", files{"dir/with space.txt": "2\n", "grün/日本.txt": "2\n"}, root)
	bad := o.pull(1, files{"dir/with space.txt": "3\n", "grün/日本.txt": "3\n", "fine": "2\n"}, root)
	good := o.pull(2, files{"other": "2\n"}, root)

	result := i.build(o, spec(good, bad)).Result()
	wantFates(t, result, bot.FateMerged, bot.FateConflict)
	if want := []string{"dir/with space.txt", "grün/日本.txt"}; !slices.Equal(result.Members[1].Files, want) {
		t.Errorf("files in conflict %q, want %q", result.Members[1].Files, want)
	}
	if result.HeadSHA != result.Members[0].MergeCommit {
		t.Error("the conflicting member left a trace in the batch")
	}
}

func TestConflictWithAnEarlierMemberOnly(t *testing.T) {
	t.Parallel()
	o, i := newOrigin(t), newInstance(t)
	root := o.commit("refs/heads/main", files{"a": "0\n", "b": "0\n"})
	first := o.pull(1, files{"a": "1\n"}, root)
	second := o.pull(2, files{"a": "2\n"}, root)
	third := o.pull(3, files{"b": "3\n"}, root)

	result := i.build(o, spec(first, second, third)).Result()
	wantFates(t, result, bot.FateMerged, bot.FateConflictBatch, bot.FateMerged)
	if !slices.Equal(result.Members[1].Files, []string{"a"}) {
		t.Errorf("files in conflict %q", result.Members[1].Files)
	}
	wantFates(t, i.build(o, spec(second, third)).Result(), bot.FateMerged, bot.FateMerged)
}

func TestModifiedHereAndDeletedThereIsAConflict(t *testing.T) {
	t.Parallel()
	o, i := newOrigin(t), newInstance(t)
	root := o.commit("refs/heads/main", files{"a": "0\n", "b": "0\n"})
	o.commit("refs/heads/main", files{"a": "gone"}, root)
	result := i.build(o, spec(o.pull(1, files{"a": "1\n"}, root))).Result()
	wantFates(t, result, bot.FateConflict)
	if !slices.Equal(result.Members[0].Files, []string{"a"}) || result.HeadSHA != result.BaseSHA {
		t.Errorf("result %+v", result)
	}
}

func TestMembersThatMoved(t *testing.T) {
	t.Parallel()
	o, i := newOrigin(t), newInstance(t)
	root := o.commit("refs/heads/main", files{"a": "0\n"})
	pushed := o.pull(1, files{"b": "1\n"}, root)
	newer := o.commit(pullRef(1), files{"b": "2\n"}, pushed.HeadSHA)
	gone := o.pull(2, files{"c": "1\n"}, root)
	o.git("update-ref", "-d", pullRef(2))
	stays := o.pull(3, files{"d": "1\n"}, root)

	result := i.build(o, spec(pushed, gone, stays)).Result()
	wantFates(t, result, bot.FateMoved, bot.FateMoved, bot.FateMerged)
	if result.Members[0].FoundSHA != newer || result.Members[1].FoundSHA != "" {
		t.Errorf("found %q and %q, want %q and none", result.Members[0].FoundSHA, result.Members[1].FoundSHA, newer)
	}

	t.Run("a head that vanishes between two builds is gone, although the mirror knew it", func(t *testing.T) {
		o.git("update-ref", "-d", pullRef(3))
		wantFates(t, i.build(o, spec(stays)).Result(), bot.FateMoved)
	})
}

func TestAMemberInTheTargetIsContained(t *testing.T) {
	t.Parallel()
	o, i := newOrigin(t), newInstance(t)
	root := o.commit("refs/heads/main", files{"a": "0\n"})
	landed := o.pull(1, files{"b": "1\n"}, root)
	tip := o.commit("refs/heads/main", files{"c": "1\n"}, landed.HeadSHA)
	result := i.build(o, spec(landed)).Result()
	wantFates(t, result, bot.FateContained)
	if result.HeadSHA != tip || result.TreeSHA != o.git("rev-parse", tip+"^{tree}") {
		t.Errorf("a batch of nothing is %+v", result)
	}
}

func TestUnrelatedHistory(t *testing.T) {
	t.Parallel()
	o, i := newOrigin(t), newInstance(t)
	root := o.commit("refs/heads/main", files{"a": "0\n"})
	stranger := o.pull(1, files{"x": "1\n"})
	friend := o.pull(2, files{"y": "1\n"}, root)
	adopted := o.pull(3, files{"z": "1\n"}, friend.HeadSHA, stranger.HeadSHA)
	result := i.build(o, spec(stranger, friend, adopted, stranger)).Result()
	wantFates(t, result, bot.FateUnrelated, bot.FateMerged, bot.FateMerged, bot.FateUnrelated)
}

// The second request continues the first: the first's own later change of the same line must not look like a conflict.
func TestStackedMergeRequests(t *testing.T) {
	t.Parallel()
	o, i := newOrigin(t), newInstance(t)
	root := o.commit("refs/heads/main", files{"a": poem(-1, "")})
	lower := o.pull(1, files{"a": poem(9, "lower")}, root)
	upper := o.pull(2, files{"a": poem(9, "upper")}, lower.HeadSHA)
	shared := o.commit("refs/heads/feature", files{"s": "shared\n"}, root)
	left := o.pull(3, files{"s": "left\n"}, shared)
	right := o.pull(4, files{"r": "right\n"}, shared)

	t.Run("lower first", func(t *testing.T) {
		b := i.build(o, spec(lower, upper))
		wantFates(t, b.Result(), bot.FateMerged, bot.FateMerged)
		i.push(b, "stack")
		if got := o.git("show", "stack:a"); !strings.Contains(got, "upper") {
			t.Errorf("the upper change is lost:\n%s", got)
		}
	})
	t.Run("upper first: the lower one rides along and still gets a merge of its own", func(t *testing.T) {
		result := i.build(o, spec(upper, lower)).Result()
		wantFates(t, result, bot.FateMerged, bot.FateMerged)
	})
	t.Run("two requests on one unfinished branch", func(t *testing.T) {
		wantFates(t, i.build(o, spec(left, right)).Result(), bot.FateMerged, bot.FateMerged)
	})
	t.Run("one commit under two numbers", func(t *testing.T) {
		o.git("update-ref", pullRef(9), lower.HeadSHA)
		wantFates(t, i.build(o, spec(lower, member(9, lower.HeadSHA))).Result(), bot.FateMerged, bot.FateMerged)
	})
}

// The throw-away commit must not change what is merged: git merge, one after the other in a work tree, gives the same trees.
func TestTheTreeIsWhatGitMergeGives(t *testing.T) {
	t.Parallel()
	o, i := newOrigin(t), newInstance(t)
	root := o.commit("refs/heads/main", files{"a": poem(-1, ""), "old/name": poem(-1, ""), "old/other": "x\n"})
	middle := o.commit("refs/heads/main", files{"a": poem(0, "main")}, root)
	o.commit("refs/heads/main", files{"a": poem(59, "main") + "end\n"}, middle)
	rename := o.pull(1, files{"old/name": "gone", "new/name": poem(-1, "")}, root)
	edit := o.pull(2, files{"old/name": poem(30, "edited")}, middle)
	base := o.pull(3, files{"a": poem(20, "three")}, root)
	crossed := o.pull(4, files{"q": "4\n"}, base.HeadSHA, middle)
	stacked := o.pull(5, files{"a": poem(22, "five")}, base.HeadSHA)
	members := []bot.BuildMember{rename, edit, base, crossed, stacked}

	result := i.build(o, spec(members...)).Result()
	work := t.TempDir()
	runGit(t, "", "clone", "--quiet", o.dir, work)
	runGit(t, "", "-C", work, "fetch", "--quiet", "origin", "refs/pull/*:refs/pull/*")
	for n, m := range result.Members {
		if m.Fate != bot.FateMerged {
			t.Fatalf("#%d is %v", m.Number, m.Fate)
		}
		runGit(t, "", "-C", work, "merge", "--quiet", "--no-ff", "-m", fmt.Sprint(n), m.HeadSHA)
	}
	if got := runGit(t, "", "-C", work, "rev-parse", "HEAD^{tree}"); got != result.TreeSHA {
		t.Errorf("git merge gives tree %s, the build %s", got, result.TreeSHA)
	}
}

func TestTheSameBatchIsTheSameCommit(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	root := o.commit("refs/heads/main", files{"a": "0\n"})
	tip := o.commit("refs/heads/main", files{"z": "0\n"}, root)
	members := []bot.BuildMember{o.pull(1, files{"b": "1\n"}, root), o.pull(2, files{"c": "1\n"}, root)}
	one, two := newInstance(t), newInstance(t)
	head := one.build(o, spec(members...)).Result().HeadSHA

	if again := two.build(o, spec(members...)).Result().HeadSHA; again != head {
		t.Errorf("another instance builds %s, not %s", again, head)
	}
	onTip := spec(members...)
	onTip.Base = tip
	if again := two.build(o, onTip).Result().HeadSHA; again != head {
		t.Errorf("the same base named explicitly gives %s, not %s", again, head)
	}
	seen := map[string]string{head: "the first"}
	for name, change := range map[string]func(*bot.BuildSpec){
		"another batch":   func(s *bot.BuildSpec) { s.BatchID = 8 },
		"another token":   func(s *bot.BuildSpec) { s.Token = "ffffffff" },
		"another time":    func(s *bot.BuildSpec) { s.CreatedAt = s.CreatedAt.Add(time.Second) },
		"another base":    func(s *bot.BuildSpec) { s.Base = root },
		"another order":   func(s *bot.BuildSpec) { s.Members = []bot.BuildMember{members[1], members[0]} },
		"one member less": func(s *bot.BuildSpec) { s.Members = s.Members[:1] },
	} {
		other := spec(members...)
		change(&other)
		got := one.build(o, other).Result().HeadSHA
		if twin, taken := seen[got]; taken {
			t.Errorf("%s has the commit of %s", name, twin)
		}
		seen[got] = name
	}
}

func TestABaseThatIsNoLongerOnTheTargetIsFetchedByItsID(t *testing.T) {
	t.Parallel()
	o, i := newOrigin(t), newInstance(t)
	root := o.commit("refs/heads/main", files{"a": "0\n"})
	base := o.commit("refs/heads/main", files{"b": "0\n"}, root)
	o.commit("refs/heads/main", files{"c": "0\n"}, root) // forced backwards and on
	s := spec(o.pull(1, files{"d": "0\n"}, root))
	s.Base = base
	result := i.build(o, s).Result()
	wantFates(t, result, bot.FateMerged)
	if result.BaseSHA != base {
		t.Errorf("built on %s, want %s", result.BaseSHA, base)
	}

	s.Base = strings.Repeat("1", 40)
	_, err := i.Build(t.Context(), o.remote(), s)
	mustContain(t, err, "the base", s.Base, "building batch 7")
}

func TestAMissingTargetIsNotFound(t *testing.T) {
	t.Parallel()
	o, i := newOrigin(t), newInstance(t)
	s := spec(o.pull(1, files{"a": "0\n"}, o.commit("refs/heads/main", files{"b": "0\n"})))
	s.Target = "release/1"
	if _, err := i.Build(t.Context(), o.remote(), s); !errors.Is(err, bot.ErrNotFound) {
		t.Errorf("error %v, want bot.ErrNotFound", err)
	}
}

func TestATargetThatBecomesAFolderOfBranches(t *testing.T) {
	t.Parallel()
	o, i := newOrigin(t), newInstance(t)
	root := o.commit("refs/heads/release", files{"a": "0\n"})
	m := o.pull(1, files{"b": "0\n"}, root)
	s := spec(m)
	s.Target = "release"
	i.build(o, s)
	o.git("update-ref", "-d", "refs/heads/release")
	o.git("update-ref", "refs/heads/release/1", root)
	s.Target = "release/1"
	wantFates(t, i.build(o, s).Result(), bot.FateMerged)
}

func TestFiftyMembers(t *testing.T) {
	t.Parallel()
	o, i := newOrigin(t), newInstance(t)
	root := o.commit("refs/heads/main", files{"a": poem(-1, "")})
	var members []bot.BuildMember
	for n := 1; n <= 50; n++ {
		members = append(members, o.pull(n, files{"a": poem(n, fmt.Sprint("by ", n)), fmt.Sprint("f", n): "x\n"}, root))
	}
	b := i.build(o, spec(members...))
	merged, conflicts := 0, 0
	for _, m := range b.Result().Members {
		switch m.Fate {
		case bot.FateMerged:
			merged++
		case bot.FateConflictBatch: // neighbouring lines
			conflicts++
		}
	}
	if merged != 25 || conflicts != 25 {
		t.Errorf("%d merged and %d in conflict, want every other one", merged, conflicts)
	}
	wantPush(t, i.push(b, "batchbot/50"), bot.PushDone)
	o.git("fsck", "--strict")
}

func TestConcurrentBuilds(t *testing.T) {
	t.Parallel()
	o, i := newOrigin(t), newInstance(t)
	sharer := reopen(t, i.dir, i.tmp) // a second process would hold the same folder
	root := o.commit("refs/heads/main", files{"a": "0\n"})
	var members []bot.BuildMember
	for n := 1; n <= 4; n++ {
		members = append(members, o.pull(n, files{fmt.Sprint(n): "x\n"}, root))
	}
	heads := make(chan string, 8)
	for n := range 8 {
		go func() {
			b, err := []instance{i, sharer}[n%2].Build(t.Context(), o.remote(), spec(members...))
			if err != nil {
				heads <- err.Error()
				return
			}
			defer b.Close()
			heads <- b.Result().HeadSHA
		}()
	}
	want := newInstance(t).build(o, spec(members...)).Result().HeadSHA
	for range 8 {
		if got := <-heads; got != want {
			t.Errorf("one of them built %s, want %s", got, want)
		}
	}
}

func TestCloseRemovesTheQuarantine(t *testing.T) {
	t.Parallel()
	o, i := newOrigin(t), newInstance(t)
	root := o.commit("refs/heads/main", files{"a": "0\n"})
	b := i.build(o, spec(o.pull(1, files{"b": "0\n"}, root)))
	if left, _ := os.ReadDir(i.tmp); len(left) != 1 {
		t.Fatalf("%d folders for one open build", len(left))
	}
	for range 2 {
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if left, _ := os.ReadDir(i.tmp); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := b.Push(t.Context(), "batch", nil); err == nil {
		t.Error("a closed build was pushed")
	}
	objects, _ := filepath.Glob(filepath.Join(i.mirror(), "objects", "??", "*"))
	for _, path := range objects {
		if strings.HasSuffix(filepath.Dir(path)+filepath.Base(path), b.Result().HeadSHA[2:]) {
			t.Error("the build wrote into the mirror")
		}
	}
}

// What a member brings, told file by file and commit by commit, names without quoting; and the base alone tells whether the host takes the
// branch at all.
func TestAMembersContribution(t *testing.T) {
	t.Parallel()
	o, i := newOrigin(t), newInstance(t)
	root := o.commit("refs/heads/main", files{"kept": "1\n", "shared": "1\n"})
	tip := o.commit("refs/heads/main", files{"elsewhere": "1\n"}, root)
	first := o.commit("refs/heads/topic", files{"shared": "2\n", "späces": "x\n"}, root)
	member := o.pull(7, files{"dir/deeper": "x\n"}, first)
	b := i.build(o, spec(member))

	got, err := b.Contribution(t.Context(), member)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got.Files)
	slices.Sort(got.Commits)
	commits := []string{first, member.HeadSHA}
	slices.Sort(commits)
	if want := []string{"dir/deeper", "shared", "späces"}; !slices.Equal(got.Files, want) || !slices.Equal(got.Commits, commits) {
		t.Errorf("contribution %q of %q, want %q of %q", got.Files, got.Commits, want, commits)
	}
	outcome, err := b.PushBase(t.Context(), "batchbot/7", nil)
	if err != nil {
		t.Fatal(err)
	}
	wantPush(t, outcome, bot.PushDone)
	if at := o.at("batchbot/7"); at != tip {
		t.Errorf("the branch stands at %s, want the base %s", at, tip)
	}
}
