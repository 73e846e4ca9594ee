package gitmerge_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/gitmerge"
)

// origin is the repository on the Git host.
type origin struct {
	t   testing.TB
	dir string
}

func newOrigin(t testing.TB) origin {
	t.Helper()
	o := origin{t, filepath.Join(t.TempDir(), "origin.git")}
	runGit(t, "", "init", "--quiet", "--bare", "--initial-branch=main", o.dir)
	return o
}

// files is a change: path → content. A path with the content "gone" is deleted.
type files map[string]string

// commit makes a commit on parents and lets ref stand at it.
func (o origin) commit(ref string, changes files, parents ...string) string {
	o.t.Helper()
	var stream strings.Builder
	fmt.Fprintf(&stream, "commit %s\nmark :1\ncommitter Ada <ada@example.org> 1700000000 +0000\ndata 7\nchange\n\n", ref)
	for i, parent := range parents {
		fmt.Fprintf(&stream, "%s %s\n", []string{"from", "merge"}[min(i, 1)], parent)
	}
	for _, path := range slices.Sorted(maps.Keys(changes)) {
		if changes[path] == "gone" {
			fmt.Fprintf(&stream, "D %s\n", path)
			continue
		}
		fmt.Fprintf(&stream, "M 100644 inline %s\ndata %d\n%s\n", path, len(changes[path]), changes[path])
	}
	stream.WriteString("get-mark :1\ndone\n")
	if len(parents) == 0 {
		runGit(o.t, "", "-C", o.dir, "update-ref", "-d", ref)
	}
	return runGit(o.t, stream.String(), "-C", o.dir, "fast-import", "--quiet", "--force", "--done")
}

// pull makes a commit that is the head of merge request n.
func (o origin) pull(n int, changes files, parents ...string) bot.BuildMember {
	o.t.Helper()
	return member(n, o.commit(pullRef(n), changes, parents...))
}

func pullRef(n int) string { return fmt.Sprintf("refs/pull/%d/head", n) }

func member(n int, head string) bot.BuildMember {
	return bot.BuildMember{OperationID: fmt.Sprintf("op-%d", n), Number: n, HeadSHA: head, HeadRef: pullRef(n), Title: fmt.Sprintf("Change %d", n)}
}

func (o origin) git(args ...string) string {
	o.t.Helper()
	return runGit(o.t, "", append([]string{"-C", o.dir}, args...)...)
}

// at returns where a branch stands, empty if there is none.
func (o origin) at(branch string) string {
	o.t.Helper()
	return o.git("for-each-ref", "--format=%(objectname)", "refs/heads/"+branch)
}

func (o origin) remote() bot.GitRemote { return bot.GitRemote{Key: "test/1", URL: o.dir} }

// hook installs a hook on the host's side.
func (o origin) hook(name, script string) {
	o.t.Helper()
	writeScript(o.t, filepath.Join(o.dir, "hooks", name), script)
}

func writeScript(t testing.TB, path, script string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
}

// runGit runs git outside of everybody's configuration and returns its trimmed output.
func runGit(t testing.TB, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "LC_ALL=C",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.org", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.org"}
	cmd.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

// instance is one running bot with folders of its own.
type instance struct {
	*gitmerge.Merger
	t        testing.TB
	dir, tmp string
}

func newInstance(t testing.TB) instance {
	t.Helper()
	return reopen(t, t.TempDir(), t.TempDir())
}

func reopen(t testing.TB, dir, tmp string) instance {
	t.Helper()
	m, err := gitmerge.New(gitmerge.Options{Dir: dir, TmpDir: tmp})
	if err != nil {
		t.Fatal(err)
	}
	return instance{m, t, dir, tmp}
}

func (i instance) mirror() string {
	i.t.Helper()
	found, _ := filepath.Glob(filepath.Join(i.dir, "*.git"))
	if len(found) != 1 {
		i.t.Fatalf("mirrors in the folder: %v, want one", found)
	}
	return found[0]
}

func spec(members ...bot.BuildMember) bot.BuildSpec {
	return bot.BuildSpec{BatchID: 7, Token: "0a1b2c3d", CreatedAt: time.Unix(1_750_000_000, 0), Target: "main", Members: members}
}

// build builds and closes the build when the test ends.
func (i instance) build(o origin, s bot.BuildSpec) bot.Build {
	i.t.Helper()
	b, err := i.Build(i.t.Context(), o.remote(), s)
	if err != nil {
		i.t.Fatal(err)
	}
	i.t.Cleanup(func() { b.Close() })
	return b
}

func (i instance) push(b bot.Build, branch string, known ...string) bot.PushOutcome {
	i.t.Helper()
	outcome, err := b.Push(i.t.Context(), branch, known)
	if err != nil {
		i.t.Fatal(err)
	}
	return outcome
}

func wantFates(t testing.TB, result bot.BuildResult, want ...bot.MemberFate) {
	t.Helper()
	var got []bot.MemberFate
	for _, m := range result.Members {
		got = append(got, m.Fate)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("fates are %v, want %v", got, want)
	}
}

func wantPush(t testing.TB, got bot.PushOutcome, want bot.PushResult) {
	t.Helper()
	if got.Result != want {
		t.Fatalf("the push is %+v, want result %d", got, want)
	}
}

func mustContain(t testing.TB, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that says %q", words)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q does not say %q", err, word)
		}
	}
}

func lines(n int, change func(i int) string) string {
	var text strings.Builder
	for i := range n {
		if own := change(i); own != "" {
			fmt.Fprintln(&text, own)
		} else {
			fmt.Fprintf(&text, "line %d\n", i)
		}
	}
	return text.String()
}

// poem is a text of 60 lines of which line n reads differently.
func poem(n int, words string) string {
	return lines(60, func(i int) string {
		if i == n {
			return words
		}
		return ""
	})
}
