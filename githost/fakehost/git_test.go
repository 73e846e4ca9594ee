package fakehost_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/batchbot/batchbot/githost/fakehost"
)

func gitIn(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
	cmd.Env = append(os.Environ(),
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com")
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// git runs in the bare repository on disk.
func git(t *testing.T, h *fakehost.Host, args ...string) string {
	t.Helper()
	return gitAt(t, h.RepoPath("acme", "app"), args...)
}

func gitAt(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := gitIn(dir, args...)
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return out
}

// serve puts the host on loopback and answers the URL of acme/app for login.
func serve(t *testing.T, h *fakehost.Host, login string) (base, remote string) {
	t.Helper()
	s := httptest.NewServer(h.Handler())
	t.Cleanup(s.Close)
	h.SetBaseURL(s.URL)
	return s.URL, strings.Replace(s.URL, "http://", "http://"+login+":"+login+"-token@", 1) + "/acme/app.git"
}

func TestPushOverHTTPMovesTheHeadOfItsMergeRequest(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	n := openMR(t, h, "bob", "feature/x", "x.txt")
	_, remote := serve(t, h, "bob")
	work := t.TempDir()
	gitAt(t, work, "clone", "-q", "-b", "feature/x", remote, ".")

	// Incompressible, so that the push is chunked: git does that above 1 MiB.
	var big bytes.Buffer
	for sum := sha256.Sum256([]byte("seed")); big.Len() < 10<<20; sum = sha256.Sum256(sum[:]) {
		big.WriteString(hex.EncodeToString(sum[:]))
	}
	must(t, os.WriteFile(filepath.Join(work, "big.txt"), big.Bytes(), 0o644))
	gitAt(t, work, "add", ".")
	gitAt(t, work, "commit", "-q", "-m", "Five mebibytes")
	before := state(t, h, n).Head
	gitAt(t, work, "push", "-q", "origin", "feature/x")

	head := gitAt(t, work, "rev-parse", "HEAD")
	if got := state(t, h, n).Head; got != head {
		t.Fatalf("head reads %s after the push of %s", got, head)
	}
	if got := git(t, h, "rev-parse", "refs/pull/1/head"); got != head {
		t.Errorf("refs/pull/1/head is %s, want %s", got, head)
	}
	e := lastPull(t, h, "synchronize")
	if e.GetBefore() != before || e.GetAfter() != head || e.GetSender().GetLogin() != "bob" {
		t.Errorf("synchronize says %s..%s by %s", e.GetBefore(), e.GetAfter(), e.GetSender().GetLogin())
	}
}

func TestPushIsRefused(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	openMR(t, h, "bob", "x", "x.txt")
	base, bob := serve(t, h, "bob")
	work := t.TempDir()
	gitAt(t, work, "clone", "-q", bob, ".")
	anonymous := base + "/acme/app.git"
	dan := strings.Replace(bob, "bob:bob-token", "dan:dan-token", 1)
	for name, args := range map[string][]string{
		"without a token":           {anonymous, "HEAD:refs/heads/y"},
		"without write access":      {dan, "HEAD:refs/heads/y"},
		"to a merge request's head": {bob, "HEAD:refs/pull/1/head"},
	} {
		if out, err := gitIn(work, append([]string{"push"}, args...)...); err == nil {
			t.Errorf("push %s went through: %s", name, out)
		}
	}
	if sha := get(h.Branch(repo, "y"))(t); sha != "" {
		t.Errorf("branch y exists at %s", sha)
	}
	gitAt(t, work, "fetch", "-q", anonymous, "refs/pull/1/head")
}

func TestPushByTheAppWithABearerHeader(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	base, _ := serve(t, h, "bob")
	token := get(h.InstallationToken(repo))(t)
	work := t.TempDir()
	gitAt(t, work, "clone", "-q", base+"/acme/app.git", ".")
	gitAt(t, work, "-c", "http.extraHeader=Authorization: Bearer "+token, "push", "-q", "origin", "HEAD:refs/heads/batchbot/1")
	gitAt(t, work, "push", "-q", strings.Replace(base, "http://", "http://x-access-token:"+token+"@", 1)+"/acme/app.git", "HEAD:refs/heads/batchbot/2")
	for _, b := range []string{"batchbot/1", "batchbot/2"} {
		if get(h.Branch(repo, b))(t) == "" {
			t.Errorf("branch %s is missing", b)
		}
	}
}

func TestPushByPathCountsFromTheNextLook(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	one := openMR(t, h, "bob", "one", "one.txt")
	git(t, h, "update-ref", "refs/heads/main", state(t, h, one).Head)
	if m := state(t, h, one); m.State != "merged" || m.MergedBy != "batchbot[bot]" {
		t.Errorf("after a fast-forward of main the merge request reads %s by %q", m.State, m.MergedBy)
	}
}

func TestPushObeysTheRulesOfItsBranch(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	one, two := openMR(t, h, "bob", "one", "one.txt"), openMR(t, h, "bob", "two", "two.txt")
	head := state(t, h, one).Head
	_, bob := serve(t, h, "bob")
	work := t.TempDir()
	gitAt(t, work, "clone", "-q", bob, ".")
	push := func(sha string) (string, error) { return gitIn(work, "push", "-q", "origin", sha+":refs/heads/main") }

	must(t, h.SetRules(repo, "main", fakehost.Rules{RequiredApprovals: 1, Bypass: []string{"cleo"}}))
	if out, err := push(head); err == nil || !strings.Contains(out, "Changes must be made through a pull request.") {
		t.Errorf("push past the reviews: %v %s", err, out)
	}
	must(t, h.SetRules(repo, "main", fakehost.Rules{RequiredChecks: []string{"lint"}}))
	if out, err := push(head); err == nil || !strings.Contains(out, "Required status checks are expected.") {
		t.Errorf("push past the checks: %v %s", err, out)
	}
	must(t, h.SetStatus(repo, head, "ada", "success", "lint"))
	if out, err := push(head); err != nil {
		t.Errorf("push of a checked commit: %v %s", err, out)
	}
	if got := state(t, h, one).State; got != "merged" {
		t.Errorf("the pushed merge request reads %s", got)
	}

	// By path it is the bot's push.
	must(t, h.SetRules(repo, "main", fakehost.Rules{RequiredApprovals: 1}))
	next := carry(t, h, "batch", "main", two)
	gitAt(t, work, "fetch", "-q", "origin", "batch")
	byPath := func() error {
		_, err := gitIn(work, "push", "-q", h.RepoPath("acme", "app"), "FETCH_HEAD:refs/heads/main")
		return err
	}
	if byPath() == nil {
		t.Error("the bot pushed past the reviews")
	}
	must(t, h.SetRules(repo, "main", fakehost.Rules{RequiredApprovals: 1, Bypass: []string{"batchbot[bot]"}}))
	must(t, byPath())
	for _, n := range []int{two, next} {
		if got := state(t, h, n).State; got != "merged" {
			t.Errorf("after the landing by push %d reads %s", n, got)
		}
	}
}

// A fetch that names many commits is compressed by git.
func TestFetchIntoAnUnrelatedHistory(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	base, _ := serve(t, h, "bob")
	work := t.TempDir()
	gitAt(t, work, "init", "-q", ".")
	tree := gitAt(t, work, "write-tree")
	tip := gitAt(t, work, "commit-tree", tree, "-m", "0")
	for i := range 60 {
		tip = gitAt(t, work, "commit-tree", tree, "-p", tip, "-m", strconv.Itoa(i))
	}
	gitAt(t, work, "update-ref", "refs/heads/other", tip)
	gitAt(t, work, "fetch", "-q", base+"/acme/app.git", "main")
	if got, want := gitAt(t, work, "rev-parse", "FETCH_HEAD"), get(h.Branch(repo, "main"))(t); got != want {
		t.Errorf("fetched %s, want %s", got, want)
	}
	sha := get(h.Branch(repo, "main"))(t)
	gitAt(t, work, "fetch", "-q", base+"/acme/app.git", sha)
}
