package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
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
		for _, chaos := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, chaos %t", test.title, chaos), func(t *testing.T) {
				t.Parallel()
				testDemo(t, test.host, test.title, test.heads, chaos)
			})
		}
	}
}

func testDemo(t *testing.T, host, title, heads string, chaos bool) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	// The bot that is killed is this very program once more.
	environ := append(os.Environ(), asProgram+"=1")
	code, stdout, stderr := command(t, environ, "demo", "--host", host, "--once", "--json", "--dir", dir, fmt.Sprintf("--chaos=%t", chaos))
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
	if r.Repository != "acme/webshop" || r.Target != "main" || len(r.MergeRequests) != 9 || r.ElapsedMS <= 0 || (r.Kills > 0) != chaos {
		t.Errorf("repository %s, target %s, %d merge requests, %d ms, %d kills", r.Repository, r.Target, len(r.MergeRequests), r.ElapsedMS, r.Kills)
	}
	for what, pair := range map[string][2]any{
		"landed":               {r.Landed, []int{1, 2, 3, 4, 8}},
		"waiting for approval": {r.WaitingForApproval, []int{6, 7}},
		"evicted":              {r.Evicted, []reportEvict{{5, "conflict", []string{"shop/prices.txt"}}, {6, "head_moved", []string{}}}},
		"landed equals tested": {r.LandedEqualsTested, true},
		"rejected":             {len(r.Rejected), 1},
		"who joined":           {len(r.Train.Joined), 4},
		"members of the set":   {len(r.Curated.Members), 3},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s: %v, want %v", what, pair[0], pair[1])
		}
	}
	// Two seats: the first and second of four have one, the first leaves, and the third moves up although the fourth may have asked last.
	if j := r.Train.Joined; len(j) == 4 {
		want := reportTrain{Name: "friday", Seats: 2, Joined: j, Left: j[:1], Promoted: j[2:3], Departed: j[1:3], CarriedOver: j[3:], Landed: j[1:3]}
		if !reflect.DeepEqual(r.Train, want) {
			t.Errorf("the train: %+v, want %+v", r.Train, want)
		}
	}
	want := reportCurated{Members: r.Curated.Members, Submissions: []reportSubmission{{200, ""}, {409, "/problems/already-submitted"}}, Status: "DONE",
		Batch: r.Curated.Batch, Landed: r.Curated.Members}
	if !reflect.DeepEqual(r.Curated, want) {
		t.Errorf("the curated batch: %+v, want %+v", r.Curated, want)
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
	var landings []reportBatch
	rode := make(map[int]int) // red batches
	for _, x := range r.Batches {
		switch {
		case x.Status == "SUCCEEDED" && x.CI == "success":
			landings = append(landings, x)
		case x.Status != "FAILED":
			t.Errorf("batch %d is %s, CI %s", x.ID, x.Status, x.CI)
		case x.CI == "failure":
			for _, number := range x.Members {
				rode[number]++
			}
		}
	}
	for _, x := range r.Batches {
		if x.ID == r.Curated.Batch && !reflect.DeepEqual(x.Members, r.Curated.Members) {
			t.Errorf("the curated batch rode with others: %v", x.Members)
		}
	}
	// One of nine is found among six: whatever order they are tested in, that takes no more than one run for each.
	if want := (reportRed{9, "ci_red", rode[9]}); r.Rejected[0] != want || want.Runs < 1 || r.CIRuns > 10 {
		t.Errorf("rejected is %+v, want %+v, after %d CI runs", r.Rejected[0], want, r.CIRuns)
	}
	history := strings.Fields(run("rev-list", "--first-parent", "main"))
	if len(history) != len(landings)+1 {
		t.Errorf("main has %d commits on its first-parent history for %d batches", len(history), len(landings))
	}
	for i, x := range landings {
		if history[len(landings)-1-i] != x.LandedSHA || run("rev-parse", x.HeadSHA+"^{tree}") != run("rev-parse", x.LandedSHA+"^{tree}") {
			t.Errorf("batch %d landed as %s, which is not what was tested, or not on main", x.ID, x.LandedSHA)
		}
	}
	if files := strings.Count(run("ls-tree", "-r", "--name-only", "main"), "\n") + 1; files < 200 {
		t.Errorf("the repository has %d files", files)
	}
	if branches := run("for-each-ref", "--format=%(refname)", "refs/heads/batchbot/"); branches != "" {
		t.Errorf("branches of the bot are left: %s", branches)
	}
	for _, number := range slices.Concat(r.Train.Landed, r.Curated.Landed) {
		if head := run("rev-parse", fmt.Sprintf("%s%d/head", heads, number)); run("merge-base", head, "main") != head {
			t.Errorf("#%d is said to have landed, and its head is not in main", number)
		}
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
	contains(t, "the narration", stderr, title+" (a fake of our own) serves at", "#1 ada: “/batch”", "#6 finn: pushes one more commit", "#5 batchbot: ", "SUCCEEDED: landed as", "“/batch join”", "No seat is free on train friday: it is number 1 in line", "“/batch with ", "answered 409 /problems/already-submitted", "#9 batchbot: Failed and taken out of batch ")

	code, stdout, stderr = command(t, nil, "demo", "--host", host, "--once", "--json", "--dir", dir, fmt.Sprintf("--chaos=%t", chaos))
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
	r := demoReport{Landed: []int{1, 2}, Rejected: []reportRed{{9, "ci_red", 3}}, WaitingForApproval: []int{6, 7}, LandedEqualsTested: true,
		Train: reportTrain{Name: "friday", Seats: 2, Joined: []int{14, 15, 16, 17}, Left: []int{14}, Promoted: []int{16}, Departed: []int{15, 16}, CarriedOver: []int{17}, Landed: []int{15, 16}},
		Curated: reportCurated{Members: []int{19, 20, 21}, Submissions: []reportSubmission{{200, ""}, {409, "/problems/already-submitted"}}, Status: "DONE", Batch: 7,
			Landed: []int{19, 20, 21}},
		Evicted: []reportEvict{{5, "conflict", []string{priceList}}, {6, "head_moved", []string{}}}}
	err := r.deviations()
	if want := "not as expected: landed is [1 2], should be [1 2 3 4 8]"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	var b bytes.Buffer
	if err := r.writeTable(&b); err != nil {
		t.Error(err)
	}
	contains(t, "the summary", b.String(), "7 merge requests landed", "What landed is what CI tested.")
}
