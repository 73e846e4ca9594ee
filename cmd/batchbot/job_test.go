package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/job"
	"github.com/batchbot/batchbot/config"
	"github.com/batchbot/batchbot/store"
)

// openedStore is the migrated database of a world.
func openedStore(t *testing.T, w world) *store.Store {
	t.Helper()
	settings, err := config.Load(w.file, nil)
	if err != nil {
		t.Fatal(err)
	}
	db, err := openStore(t.Context(), settings, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestAnOperatorListsAndRunsJobs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.configure(t, "jobs: {cleanup: 0 3 * * *}\nreconcile: {interval: 0}")
	db := openedStore(t, w)
	jobCommand := func(args ...string) (int, string, string) {
		return command(t, nil, append([]string{"job", "--config", w.file}, args...)...)
	}
	listed := func() map[string]jobLine {
		t.Helper()
		code, stdout, stderr := jobCommand("list", "--json")
		var lines []jobLine
		if err := json.Unmarshal([]byte(stdout), &lines); err != nil || code != exitDone || len(lines) != 5 {
			t.Fatalf("list --json exits %d: %v, %s %s", code, err, stdout, stderr)
		}
		byName := make(map[string]jobLine)
		for _, l := range lines {
			byName[l.Job] = l
		}
		return byName
	}
	before := listed()
	if l := before["cleanup"]; l.Schedule != "0 3 * * *" || l.Started != "" || l.Outcome != "" || l.Next == "" {
		t.Errorf("before any run: %+v", l)
	}
	if l := before["reconcile"]; l.Schedule != "never" || l.Next != "" {
		t.Errorf("a job without an interval: %+v", l)
	}

	if code, stdout, stderr := jobCommand("run", "cleanup"); code != exitDone || stdout != "cleanup: there was nothing to do\n" || stderr != "" {
		t.Errorf("run exits %d: %q %q", code, stdout, stderr)
	}
	if l := listed()["cleanup"]; l.Outcome != "DONE" || l.By != operatorName() || l.Took == "" || !strings.HasSuffix(l.Next, "T03:00:00Z") {
		t.Errorf("after a run: %+v", l)
	}
	code, stdout, _ := jobCommand("list")
	if code != exitDone {
		t.Errorf("list exits %d", code)
	}
	contains(t, "job list", stdout, "JOB", "LAST RUN", "cleanup", "DONE", "never", "by the database's clock")
	code, stdout, _ = jobCommand("run", "reminders", "--json")
	var end jobEnd
	if err := json.Unmarshal([]byte(stdout), &end); err != nil || code != exitDone || end.Job != "reminders" || end.Outcome != "DONE" {
		t.Errorf("run --json exits %d: %v, %+v", code, err, end)
	}

	// Somebody is at it; somebody died of it.
	_, release, ok, err := db.TryLock(t.Context(), job.Lock("cleanup"))
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	seen, err := db.Job(t.Context(), "cleanup")
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := db.StartJob(t.Context(), seen, ""); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if l := listed()["cleanup"]; l.Outcome != "RUNNING" {
		t.Errorf("while it runs: %+v", l)
	}
	if code, stdout, stderr := jobCommand("run", "cleanup"); code != exitFailed || stdout != "" || stderr != "batchbot: job cleanup: an instance is running it right now\n" {
		t.Errorf("beside a run it exits %d: %q %q", code, stdout, stderr)
	}
	release()
	if l := listed()["cleanup"]; l.Outcome != "UNFINISHED" || l.Took != "" {
		t.Errorf("after a crash: %+v", l)
	}

	for line, want := range map[string]string{
		"run clenup":   "batchbot: no job \"clenup\": there are sweep, reconcile, trains, cleanup, reminders\n",
		"run":          "batchbot: batchbot job run wants one job: `batchbot job list` shows their names\n",
		"run a b":      "batchbot: batchbot job run wants one job: `batchbot job list` shows their names\n",
		"list cleanup": "batchbot: batchbot job list takes no argument such as \"cleanup\": see `batchbot job list --help`\n",
	} {
		if code, stdout, stderr := jobCommand(strings.Fields(line)...); code == exitDone || stdout != "" || stderr != want {
			t.Errorf("%s exits %d: %q %q", line, code, stdout, stderr)
		}
	}
	w.configure(t, "jobs: {sweep: often}")
	for _, args := range []string{"list", "run sweep"} {
		if code, _, stderr := jobCommand(strings.Fields(args)...); code != exitFailed || !strings.HasPrefix(stderr, `batchbot: jobs.sweep: "often" is neither a duration such as 5m nor minute`) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("with a schedule that is none %s exits %d: %q", args, code, stderr)
		}
	}
}

func TestAnOperatorKeepsTrains(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db := openedStore(t, w)
	repo, err := db.UpsertRepository(t.Context(), bot.RepositoryRef{Host: "github", ExternalID: 7, Path: "acme/app", DefaultBranch: "main"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.UpsertQueue(t.Context(), repo.ID, bot.DefaultQueueSettings("main"), ""); err != nil {
		t.Fatal(err)
	}
	trainCommand := func(args ...string) (int, string, string) {
		return command(t, nil, append([]string{"train", "--config", w.file}, args...)...)
	}
	in := func(d time.Duration) string {
		return time.Now().Add(d).UTC().Truncate(time.Second).Format(time.RFC3339)
	}
	departs, later := in(48*time.Hour), in(72*time.Hour)
	code, stdout, stderr := trainCommand("create", "acme/app:main", "hotfix", "--departs", departs, "--closes", in(47*time.Hour), "--seats", "2", "--json")
	var made trainLine
	if err := json.Unmarshal([]byte(stdout), &made); err != nil || code != exitDone || made.Name != "hotfix" || made.Departs != departs || made.Seats != 2 || made.Status != "OPEN" {
		t.Fatalf("create exits %d: %v, %s %s", code, err, stdout, stderr)
	}
	id := fmt.Sprint(made.ID)
	code, stdout, _ = trainCommand("list", "acme/app:main")
	if code != exitDone {
		t.Errorf("list exits %d", code)
	}
	contains(t, "train list", stdout, "TRAIN", "github/acme/app:main", "hotfix", "OPEN", departs)
	if code, stdout, stderr := trainCommand("change", id, "--seats", "3", "--departs", later); code != exitDone || stdout != fmt.Sprintf("train %s, hotfix, is changed: departs %s with 3 seats, 0 taken, 0 in line\n", id, later) {
		t.Errorf("change exits %d: %q %q", code, stdout, stderr)
	}
	code, stdout, _ = trainCommand("show", id)
	if code != exitDone {
		t.Errorf("show exits %d", code)
	}
	contains(t, "train show", stdout, "train "+id+", hotfix, of github/acme/app:main: OPEN", "3 seats", "POSITION")
	if code, stdout, stderr := trainCommand("cancel", id); code != exitDone || !strings.Contains(stdout, "is cancelled") {
		t.Errorf("cancel exits %d: %q %q", code, stdout, stderr)
	}
	code, stdout, _ = trainCommand("list", "--json")
	if code != exitDone || strings.TrimSpace(stdout) != "[]" {
		t.Errorf("list exits %d: %s", code, stdout)
	}
	code, stdout, _ = trainCommand("list", "--all", "--json")
	var all []trainLine
	if err := json.Unmarshal([]byte(stdout), &all); err != nil || code != exitDone || len(all) != 1 || all[0].Status != "CANCELLED" || all[0].Queue != "github/acme/app:main" {
		t.Errorf("list --all exits %d: %v, %s", code, err, stdout)
	}

	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"change", id, "--seats", "1"}, exitFailed, "the train is not open any more"},
		{[]string{"cancel", "99"}, exitFailed, "no train 99: `batchbot train list --all` shows their numbers"},
		{[]string{"show", "x"}, exitUsage, "batchbot train show wants the number of one train: `batchbot train list` shows them"},
		{[]string{"create", "acme/app:main", "late", "--departs", in(-time.Hour), "--seats", "1"}, exitFailed, "has passed"},
		{[]string{"create", "acme/app:main", "late", "--departs", "tonight", "--seats", "1"}, exitUsage, "--departs tonight is not a time: write it as 2026-12-31T22:30:00Z"},
		{[]string{"create", "acme/app:main", "late"}, exitUsage, "wants --departs TIME and --seats N"},
		{[]string{"create", "acme/app:gone", "late", "--departs", departs, "--seats", "1"}, exitFailed, `no queue "acme/app:gone"`},
		{[]string{"list", "a", "b"}, exitUsage, "wants one queue at most"},
	} {
		if code, stdout, stderr := trainCommand(c.args...); code != c.code || stdout != "" || !strings.Contains(stderr, c.says) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v exits %d: %q %q", c.args, code, stdout, stderr)
		}
	}
}
