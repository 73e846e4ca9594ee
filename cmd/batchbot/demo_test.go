package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// The demo is the product in small: what its JSON says is checked against the repository it leaves. It is the same on both hosts.
func TestDemo(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ host, title, heads string }{
		{"github", "GitHub", "refs/pull/"},
		{"gitlab", "GitLab", "refs/merge-requests/"},
	} {
		t.Run(test.title, func(t *testing.T) {
			t.Parallel()
			testDemo(t, test.host, test.title, test.heads)
		})
	}
}

func testDemo(t *testing.T, host, title, heads string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := command(t, nil, "demo", "--host", host, "--once", "--json", "--dir", dir)
	if code != exitDone {
		t.Fatalf("exit %d\n%s", code, stderr)
	}
	decoder := json.NewDecoder(strings.NewReader(stdout))
	decoder.DisallowUnknownFields()
	var r demoReport
	if err := decoder.Decode(&r); err != nil {
		t.Fatalf("%v in %s", err, stdout)
	}
	if rest := strings.TrimSpace(stdout[decoder.InputOffset():]); rest != "" {
		t.Errorf("stdout holds more than one object: %s", rest)
	}
	if r.Repository != "acme/webshop" || r.Target != "main" || len(r.MergeRequests) != 8 || r.ElapsedMS <= 0 || r.ElapsedMS > 60_000 {
		t.Errorf("repository %s, target %s, %d merge requests, %d ms", r.Repository, r.Target, len(r.MergeRequests), r.ElapsedMS)
	}
	for what, pair := range map[string][2]any{
		"landed":               {r.Landed, []int{1, 2, 3, 4, 8}},
		"waiting for approval": {r.WaitingForApproval, []int{6, 7}},
		"evicted":              {r.Evicted, []reportEvict{{5, "conflict", []string{"shop/prices.txt"}}, {6, "head_moved", []string{}}}},
		"landed equals tested": {r.LandedEqualsTested, true},
		"ci runs":              {r.CIRuns, 2},
		"batches":              {len(r.Batches), 2},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s: %v, want %v", what, pair[0], pair[1])
		}
	}
	git := demoGit(filepath.Join(dir, "git", "acme", "webshop.git"))
	run := func(args ...string) string {
		t.Helper()
		out, err := git(t.Context(), args...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	landed := r.Batches[0]
	if landed.Status != "SUCCEEDED" || landed.CI != "success" || !reflect.DeepEqual(landed.Members, r.Landed) {
		t.Errorf("the first batch is %+v", landed)
	}
	if tip := run("rev-parse", "main"); tip != landed.LandedSHA {
		t.Errorf("main stands at %s, the batch landed as %s", tip, landed.LandedSHA)
	}
	if run("rev-parse", landed.HeadSHA+"^{tree}") != run("rev-parse", "main^{tree}") {
		t.Error("what landed is not what was tested")
	}
	if first := run("rev-list", "--first-parent", "--count", landed.BaseSHA+"..main"); first != "1" {
		t.Errorf("the batch is %s commits on the first-parent history of main", first)
	}
	if files := strings.Count(run("ls-tree", "-r", "--name-only", "main"), "\n") + 1; files < 200 {
		t.Errorf("the repository has %d files", files)
	}
	if branches := run("for-each-ref", "--format=%(refname)", "refs/heads/batchbot/"); branches != "" {
		t.Errorf("branches of the bot are left: %s", branches)
	}
	for _, m := range r.MergeRequests {
		head := run("rev-parse", heads+string(rune('0'+m.Number))+"/head")
		base := run("merge-base", head, "main")
		if (m.State == "merged") != (base == head) {
			t.Errorf("#%d reads %s, but its head in main: %v", m.Number, m.State, base == head)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "batchbot.db")); err != nil {
		t.Error(err)
	}
	contains(t, "the narration", stderr, title+" (a fake of our own) serves at", "#1 ada: “/batch”", "#6 finn: pushes one more commit", "#5 batchbot: ", "batch 1: SUCCEEDED")

	code, stdout, stderr = command(t, nil, "demo", "--host", host, "--once", "--json", "--dir", dir)
	if want := "batchbot: --dir " + dir + ": it holds batchbot.db already: remove that or name another folder\n"; code != exitFailed || stdout != "" || stderr != want {
		t.Errorf("a second demo in the same folder: exit %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestDemoRefusesAFolderWithRepositories(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "git"), 0o700); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := command(t, nil, "demo", "--once", "--dir", dir)
	if want := "batchbot: --dir " + dir + ": it holds git already: remove that or name another folder\n"; code != exitFailed || stderr != want {
		t.Errorf("exit %d, stderr %q, want %q", code, stderr, want)
	}
	if _, err := os.Stat(filepath.Join(dir, demoDatabase)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a refused demo left a database: %v", err)
	}
}

func TestDemoKnowsTwoHosts(t *testing.T) {
	t.Parallel()
	for flag, args := range map[string][]string{"--host svn": {"demo", "--once", "--host", "svn"}, "--face svn": {"fakehost", "--face", "svn"}} {
		code, stdout, stderr := command(t, nil, args...)
		if want := "batchbot: " + flag + ": write github or gitlab\n"; code != exitUsage || stdout != "" || stderr != want {
			t.Errorf("%v: exit %d, stdout %q, stderr %q, want %q", args, code, stdout, stderr, want)
		}
	}
}

func TestAReportThatIsNotAsExpectedSaysHow(t *testing.T) {
	t.Parallel()
	r := demoReport{Landed: []int{1, 2}, WaitingForApproval: []int{6, 7}, LandedEqualsTested: true,
		Evicted: []reportEvict{{5, "conflict", []string{priceList}}, {6, "head_moved", []string{}}}}
	err := r.deviations()
	if want := "not as expected: landed is [1 2], should be [1 2 3 4 8]"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	var b bytes.Buffer
	if err := r.writeTable(&b); err != nil {
		t.Error(err)
	}
	contains(t, "the summary", b.String(), "2 merge requests landed", "What landed is what CI tested.")
}
