package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/reconcile"
	"github.com/batchbot/batchbot/config"
	"github.com/batchbot/batchbot/githost/fakehost"
)

// An operator looks at what differs, has it mended, and looks again. The servers are busy meanwhile; here their look is out of the way.
func TestAnOperatorReconciles(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchSettings{})
	waits := b.open(t, fakehost.NewMR{Head: "first"})
	b.say(t, waits, "ada", "/batch")
	b.becomes(t, waits, bot.OperationPendingApproval)
	within(t, benchLimit, "silence", func() bool {
		return b.quiet(t) && strings.Contains(strings.Join(b.said(t, waits), "\n"), "approval")
	})

	run := func(args ...string) (int, string, string) {
		t.Helper()
		return command(t, nil, append([]string{"reconcile", "--config", b.file}, args...)...)
	}
	if code, stdout, stderr := run(); code != exitDone || stdout != "no differences\n" {
		t.Errorf("it exits %d: %q %q", code, stdout, stderr)
	}
	if code, stdout, _ := run("--json", "--all"); code != exitDone || strings.TrimSpace(stdout) != "[]" {
		t.Errorf("--json exits %d: %q", code, stdout)
	}

	// A comment that was given up, with words that would steer a terminal.
	rows, err := sql.Open("sqlite", "file:"+filepath.Join(b.dir, "data", "batchbot.db")+"?_pragma=busy_timeout(10000)")
	b.must(t, err)
	defer rows.Close()
	_, err = rows.ExecContext(t.Context(), `UPDATE outbox SET status = 3, error = 'refused `+"\x1b[2J"+`' WHERE kind = 1`)
	b.must(t, err)
	code, stdout, stderr := run()
	contains(t, "reconcile", stdout, "WHAT", "errand_given_up", "github/acme/app !1", "STICKY 1 given up", "refused", "it is tried again")
	if want := "batchbot: 1 difference: --apply mends 1 of them\n"; code != exitDiffer || stderr != want || strings.Contains(stdout, "\x1b") {
		t.Errorf("it exits %d and says %q, want %q", code, stderr, want)
	}
	code, stdout, _ = run("--apply", "--json")
	var list []reconcile.Difference
	if err := json.Unmarshal([]byte(stdout), &list); err != nil || code != exitDone || len(list) != 1 || list[0].Outcome != reconcile.Mended || list[0].Kind != reconcile.ErrandGivenUp {
		t.Errorf("--apply exits %d: %v in %s", code, err, stdout)
	}
	if n := count(t, b.db, `SELECT COUNT(*) FROM audit WHERE action = 'retry errand' AND source = 'reconcile' AND actor = '`+operatorName()+`'`); n != 1 {
		t.Errorf("the audit has %d entries", n)
	}
	within(t, benchLimit, "silence", func() bool { return b.quiet(t) })

	// The queue by its name; a host that cannot be read is an error, not a difference.
	if code, stdout, stderr := run("acme/app:main"); code != exitDone || stdout != "no differences\n" {
		t.Errorf("one queue exits %d: %q %q", code, stdout, stderr)
	}
	b.must(t, b.host.Break(fakehost.Fault{On: "GET /repos/acme/app*", Do: fakehost.FaultStatus, Status: 502}, fakehost.Fault{On: "GET /repositories/*", Do: fakehost.FaultStatus, Status: 502}))
	if code, _, stderr := run("acme/app:main"); code != exitFailed || !strings.Contains(stderr, "not everything could be compared") || !strings.Contains(stderr, "502") {
		t.Errorf("a broken host exits %d: %q", code, stderr)
	}
	b.host.Heal()
	for _, test := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"acme/app:release"}, exitFailed, "no queue \"acme/app:release\": `batchbot queue list` shows their names"},
		{[]string{"acme/app:main", "--all"}, exitUsage, "name a queue or say --all, not both"},
		{[]string{"a", "b"}, exitUsage, "wants one queue at most"},
	} {
		if code, _, stderr := run(test.args...); code != test.code || !strings.Contains(stderr, test.says) {
			t.Errorf("%v exits %d: %q", test.args, code, stderr)
		}
	}
}

// On either host a bot that is well has no differences, right after it landed something.
func TestNothingDiffersAfterALanding(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{config.GitHub, config.GitLab} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, benchSettings{kind: kind})
			landed, waits := b.opened(t, "first"), b.open(t, fakehost.NewMR{Head: "second"})
			b.becomes(t, landed, bot.OperationMerged)
			b.say(t, waits, "ada", "/batch")
			b.becomes(t, waits, bot.OperationPendingApproval)
			within(t, benchLimit, "silence", func() bool { return b.quiet(t) })
			if code, stdout, stderr := command(t, nil, "reconcile", "--config", b.file); code != exitDone || stdout != "no differences\n" {
				t.Errorf("it exits %d: %q %q", code, stdout, stderr)
			}
		})
	}
}

func TestProgressIsSaidOnceItTakesLong(t *testing.T) {
	t.Parallel()
	repo := bot.Repository{RepositoryRef: bot.RepositoryRef{Host: "github", Path: "acme/app"}}
	var stderr bytes.Buffer
	quick := shell{stderr: &stderr}.progress(time.Hour)
	quick(repo)
	quick(repo)
	if stderr.Len() != 0 {
		t.Errorf("it says %q at once", stderr.String())
	}
	slow := shell{stderr: &stderr}.progress(0)
	slow(repo)
	if want := "comparing repository 1, github/acme/app\n"; stderr.String() != want {
		t.Errorf("it says %q, want %q", stderr.String(), want)
	}
}
