package gitmerge_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/gitmerge"
)

// What a crash may leave in the mirror folder, each with the next process's first build.
func TestAMirrorSurvivesCrashes(t *testing.T) {
	t.Parallel()
	touch := func(paths ...string) func(*testing.T, string) {
		return func(t *testing.T, mirror string) {
			for _, path := range paths {
				path = filepath.Join(mirror, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	each := func(pattern string, do func(path string) error) func(*testing.T, string) {
		return func(t *testing.T, mirror string) {
			found, _ := filepath.Glob(filepath.Join(mirror, pattern))
			if len(found) == 0 {
				t.Fatalf("nothing matches %s", pattern)
			}
			for _, path := range found {
				if err := errors.Join(os.Chmod(path, 0o600), do(path)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	empty := func(path string) error { return os.Truncate(path, 0) }
	for name, damage := range map[string]func(t *testing.T, mirror string){
		"an empty folder":         func(t *testing.T, mirror string) { must(t, os.RemoveAll(mirror)); must(t, os.Mkdir(mirror, 0o700)) },
		"no HEAD":                 each("HEAD", os.Remove),
		"no configuration":        each("config", empty),
		"lock files":              touch("packed-refs.lock", "HEAD.lock", "gc.pid", "objects/info/commit-graphs/commit-graph-chain.lock"),
		"a lock on every ref":     each("refs/batchbot/*", func(path string) error { return os.WriteFile(path+".lock", nil, 0o600) }),
		"empty refs":              each("refs/batchbot/*", empty),
		"empty objects":           each("objects/??/*", empty),
		"no objects":              each("objects/??/*", os.Remove),
		"torn objects":            each("objects/??/*", func(path string) error { return os.Truncate(path, 10) }),
		"half a mirror beside it": func(t *testing.T, mirror string) { touch("HEAD")(t, mirror+".half-123") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, first := newOrigin(t), newInstance(t)
			root := o.commit("refs/heads/main", files{"a": "0\n", "dir/b": "0\n"})
			one, two, three := o.pull(1, files{"c": "1\n"}, root), o.pull(2, files{"dir/b": "2\n"}, root), o.pull(3, files{"d": "3\n"}, root)
			first.build(o, spec(one, two, three))
			damage(t, first.mirror())

			// Every kind of write to the mirror follows: new objects, a reference that moves, one that is removed.
			o.commit("refs/heads/main", files{"e": "4\n"}, root)
			two = o.pull(2, files{"dir/b": "5\n"}, root)
			o.git("update-ref", "-d", pullRef(3))
			want := newInstance(t).build(o, spec(one, two, three)).Result().HeadSHA
			next := reopen(t, first.dir, first.tmp)
			result := next.build(o, spec(one, two, three)).Result()
			wantFates(t, result, bot.FateMerged, bot.FateMerged, bot.FateMoved)
			if result.HeadSHA != want {
				t.Errorf("built %s, want %s", result.HeadSHA, want)
			}
			if half, _ := filepath.Glob(filepath.Join(first.dir, "*.half-*")); len(half) > 0 {
				t.Errorf("still there: %v", half)
			}
			runGit(t, "", "--git-dir="+next.mirror(), "fsck", "--strict")
		})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAMirrorThatIsDamagedWhileItIsUsed(t *testing.T) {
	t.Parallel()
	o, i := newOrigin(t), newInstance(t)
	root := o.commit("refs/heads/main", files{"a": poem(-1, "")})
	o.commit("refs/heads/main", files{"a": poem(1, "main")}, root)
	s := spec(o.pull(1, files{"a": poem(40, "one")}, root))
	want := i.build(o, s).Result().HeadSHA

	// The blobs go; commits and references stay, so that only the merge notices.
	for line := range strings.SplitSeq(runGit(t, "", "--git-dir="+i.mirror(), "cat-file", "--batch-check", "--batch-all-objects"), "\n") {
		if fields := strings.Fields(line); fields[1] == "blob" {
			must(t, os.Remove(filepath.Join(i.mirror(), "objects", fields[0][:2], fields[0][2:])))
		}
	}
	if got := i.build(o, s).Result().HeadSHA; got != want {
		t.Errorf("built %s, want %s", got, want)
	}
	runGit(t, "", "--git-dir="+i.mirror(), "fsck", "--strict")
}

func TestRepositoriesHaveMirrorsOfTheirOwn(t *testing.T) {
	t.Parallel()
	i := newInstance(t)
	for _, key := range []string{"host/1", "host-1", "host_1", "../../etc", "höst/1", strings.Repeat("x", 300)} {
		o := newOrigin(t)
		o.commit("refs/heads/main", files{"key": key})
		remote := bot.GitRemote{Key: key, URL: o.dir}
		found, err := i.Inspect(t.Context(), remote, bot.InspectSpec{Target: "main"})
		if err != nil || found.Tip != o.at("main") {
			t.Errorf("%q: %+v, %v", key, found, err)
		}
	}
	if mirrors, _ := filepath.Glob(filepath.Join(i.dir, "*.git")); len(mirrors) != 6 {
		t.Errorf("mirrors %v, want six", mirrors)
	}
}

func TestNewSweepsQuarantinesWhoseOwnerDied(t *testing.T) {
	t.Parallel()
	o, alive := newOrigin(t), newInstance(t)
	b := alive.build(o, spec(o.pull(1, files{"b": "0\n"}, o.commit("refs/heads/main", files{"a": "0\n"}))))

	dead := filepath.Join(alive.tmp, "batchbot-quarantine-dead")
	must(t, os.MkdirAll(filepath.Join(dead, "objects", "ab"), 0o700))
	must(t, os.WriteFile(filepath.Join(dead, "owner"), nil, 0o600))
	unborn := filepath.Join(alive.tmp, "batchbot-quarantine-unborn") // its owner has not locked it yet
	must(t, os.Mkdir(unborn, 0o700))
	stillborn := filepath.Join(alive.tmp, "batchbot-quarantine-stillborn")
	must(t, os.Mkdir(stillborn, 0o700))
	must(t, os.Chtimes(stillborn, time.Time{}, time.Now().Add(-time.Hour)))
	alien := filepath.Join(alive.tmp, "something-else")
	must(t, os.Mkdir(alien, 0o700))

	reopen(t, alive.dir, alive.tmp)
	for path, want := range map[string]bool{dead: false, stillborn: false, unborn: true, alien: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s exists: %v, want %v", filepath.Base(path), err == nil, want)
		}
	}
	wantPush(t, alive.push(b, "batch"), bot.PushDone) // the living one was left alone
}

func TestCancelKillsGitAndItsChildren(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	root := o.commit("refs/heads/main", files{"a": "0\n"})
	s := spec(o.pull(1, files{"b": "1\n"}, root))
	started, ended := filepath.Join(t.TempDir(), "started"), filepath.Join(t.TempDir(), "child")
	must(t, os.WriteFile(started, nil, 0o600))
	i := newWrapped(t, `if [ "$1" = merge-tree ]; then sleep 600 & echo $! > `+ended+`; echo > `+started+`; wait; fi`)

	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("shutting down")
	done := make(chan error, 1)
	go func() {
		_, err := i.Build(ctx, o.remote(), s)
		done <- err
	}()
	waitFor(t, "git to start", func() bool { info, err := os.Stat(started); return err == nil && info.Size() > 0 })
	cancel(reason)
	if err := <-done; !errors.Is(err, reason) {
		t.Errorf("error %v, want the reason of the cancellation", err)
	}
	pid, err := os.ReadFile(ended)
	must(t, err)
	waitFor(t, "the child to end", func() bool {
		state, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
		return err != nil || strings.Contains(string(state), ") Z")
	})
	if left, _ := os.ReadDir(i.tmp); len(left) != 0 {
		t.Errorf("a cancelled build left %v", left)
	}
}

// waitFor polls a condition of real processes.
func waitFor(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("waited in vain for %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// newWrapped is an instance whose git is a script that runs before, then git.
func newWrapped(t testing.TB, before string) instance {
	t.Helper()
	script := filepath.Join(t.TempDir(), "git")
	writeScript(t, script, before+"\nexec git \"$@\"")
	i := instance{t: t, dir: t.TempDir(), tmp: t.TempDir()}
	var err error
	i.Merger, err = gitmerge.New(gitmerge.Options{Dir: i.dir, Git: script, TmpDir: i.tmp})
	must(t, err)
	return i
}

func TestGitVersions(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		"git version 2.30.0":                "2.30",
		"git version 1.9.5":                 "1.9.5",
		"git version 2.37.7 (Apple Git-99)": "too old",
		"bit version 3":                     "does not say its git version",
		"git version 2.38.0":                "",
		"git version 2.45.1.windows.1":      "",
		"git version 3.0":                   "",
	} {
		script := filepath.Join(t.TempDir(), "git")
		writeScript(t, script, "echo '"+answer+"'")
		_, err := gitmerge.New(gitmerge.Options{Dir: t.TempDir(), Git: script, TmpDir: t.TempDir()})
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", answer, err)
			}
			continue
		}
		mustContain(t, err, want, "install git 2.38 or newer")
	}
	_, err := gitmerge.New(gitmerge.Options{Dir: t.TempDir(), Git: "/no/such/git"})
	mustContain(t, err, "git was not found", "/no/such/git", "install git 2.38 or newer")
	_, err = gitmerge.New(gitmerge.Options{})
	mustContain(t, err, "Options.Dir")
}

func TestADefaultTmpDirNeedsNoConfiguration(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	m, err := gitmerge.New(gitmerge.Options{Dir: t.TempDir()})
	must(t, err)
	b, err := m.Build(t.Context(), o.remote(), spec(o.pull(1, files{"b": "0\n"}, o.commit("refs/heads/main", files{"a": "0\n"}))))
	must(t, err)
	wantFates(t, b.Result(), bot.FateMerged)
	must(t, b.Close())
}

// A bot that is killed leaves git running. It keeps the lock, so that nobody takes its lock files for remains.
func TestAGitThatOutlivesItsBotKeepsTheMirrorLocked(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	s := spec(o.pull(1, files{"b": "1\n"}, o.commit("refs/heads/main", files{"a": "0\n"})))
	pidFile := filepath.Join(t.TempDir(), "pid")
	killed := newWrapped(t, `if [ "$1" = fetch ]; then setsid sleep 600 <&- >&- 2>&- & echo $! > `+pidFile+`; fi`)
	killed.build(o, s)
	content, err := os.ReadFile(pidFile)
	must(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	must(t, err)
	orphan, err := os.FindProcess(pid)
	must(t, err)
	defer func() { _ = orphan.Kill() }()

	next := reopen(t, killed.dir, killed.tmp)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = next.Build(ctx, o.remote(), s)
	mustContain(t, err, "waiting for another process to leave the mirror")

	must(t, orphan.Kill())
	wantFates(t, next.build(o, s).Result(), bot.FateMerged)
}
