package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/batchbot/batchbot/githost/fakehost"
)

const e2eRepo = "acme/app"

// process is batchbot as a process of its own.
type process struct {
	*exec.Cmd
	lines chan string // what it prints on the stream that is followed
	mu    sync.Mutex
	log   bytes.Buffer
}

// startProcess starts a command line; followStderr says which of its streams lines follows, the other is kept for messages.
func startProcess(t *testing.T, dir string, followStderr bool, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Cmd: exec.CommandContext(t.Context(), self, args...), lines: make(chan string, 10_000)}
	p.Env = []string{asProgram + "=1", "PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir}
	follow := p.StdoutPipe
	if followStderr {
		follow = p.StderrPipe
	}
	stream, err := follow()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for lines := bufio.NewScanner(stream); lines.Scan(); {
			p.mu.Lock()
			fmt.Fprintln(&p.log, lines.Text())
			p.mu.Unlock()
			select {
			case p.lines <- lines.Text():
			default: // nobody follows any more
			}
		}
		close(p.lines)
	}()
	t.Cleanup(func() {
		_ = p.Process.Kill() // most are gone already
		_ = p.Wait()
		if t.Failed() {
			p.mu.Lock()
			defer p.mu.Unlock()
			t.Logf("%s printed:\n%s", args[0], tail(p.log.String(), 60))
		}
	})
	return p
}

func tail(text string, n int) string {
	lines := strings.Split(text, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// serve starts `batchbot serve` and returns it with its address.
func startServe(t *testing.T, dir, config string) (*process, string) {
	t.Helper()
	p := startProcess(t, dir, true, "serve", "--config", config)
	for line := range p.lines {
		var entry struct{ Msg, Listen string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "started" {
			return p, "http://" + entry.Listen
		}
	}
	t.Fatal("serve ended before it started")
	return nil, ""
}

// emptyMySQL makes a database on the test server that goes with the test.
func emptyMySQL(t *testing.T) (dsn string, db *sql.DB) {
	t.Helper()
	given := os.Getenv("TEST_MYSQL_DSN")
	if given == "" {
		t.Fatal("TEST_MYSQL_DSN names no MySQL server: run `make test`, which starts one")
	}
	cfg, err := mysql.ParseDSN(given)
	if err != nil {
		t.Fatal(err)
	}
	server, err := sql.Open("mysql", cfg.FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	name := "e2e_" + strings.ToLower(rand.Text())
	if _, err := server.ExecContext(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	cfg.DBName = name
	if db, err = sql.Open("mysql", cfg.FormatDSN()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = db.Close()
		if _, err := server.Exec("DROP DATABASE " + name); err != nil { //nolint:noctx // the test's context has ended
			t.Error(err)
		}
		_ = server.Close()
	})
	return cfg.FormatDSN(), db
}

// count reads one number.
func count(t *testing.T, db *sql.DB, query string) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// TestTwelveMergeRequestsLandThroughRealProcesses is the main job with nothing of it inside the test: the serve process, a Git host in
// another process, MySQL, git over HTTP, webhooks over HTTP. Twelve merge requests, of which two cannot both land, go through in batches of at most six;
// then every webhook is delivered a second time and changes nothing.
func TestTwelveMergeRequestsLandThroughRealProcesses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := world{dir: dir, file: filepath.Join(dir, "batchbot.yml")}
	w.writeSecrets(t)
	host := startProcess(t, dir, false, "fakehost", "--listen", "127.0.0.1:0", "--dir", filepath.Join(dir, "git"), "--app-key", filepath.Join(dir, "key.pem"),
		"--webhook-secret-file", filepath.Join(dir, "hook"), "--ci", "delay", "--ci-delay", "200ms")
	url, ok := <-host.lines
	if !ok {
		t.Fatal("fakehost printed no address")
	}
	client := fakehost.NewClient(url, nil)
	dsn, db := emptyMySQL(t)
	w.write(t, "dsn", dsn)
	w.write(t, "batchbot.yml", fmt.Sprintf(`
listen: 127.0.0.1:0
data_dir: %[1]s/data
database: {driver: mysql, dsn_file: %[1]s/dsn}
hosts:
  - name: github
    web_url: %[2]s
    app: {id: 1, private_key_file: %[1]s/key.pem}
    webhook_secret_files: [%[1]s/hook]
    write_spacing: 0s
`, dir, url))

	if code, _, stderr := command(t, nil, "serve", "--config", w.file); code != exitFailed || !strings.Contains(stderr, "batchbot migrate") {
		t.Fatalf("serve on an empty database exits %d and says %q, want the remedy", code, stderr)
	}
	if code, stdout, stderr := command(t, nil, "migrate", "--config", w.file); code != exitDone {
		t.Fatalf("migrate exits %d: %s%s", code, stdout, stderr)
	}
	server, address := startServe(t, dir, w.file)

	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(client.SetWebhook(t.Context(), address+"/webhooks/github", hookSecret))
	must(client.AddRepository(t.Context(), fakehost.NewRepository{
		Owner: "acme", Name: "app", Generate: 30,
		Files:       map[string]string{".batchbot.yml": "queues:\n  - branch: main\n    max_batch_size: 6\n    checks: {required: [ci]}\n", "shared.txt": "as it was\n"},
		Permissions: map[string]string{"ada": fakehost.RoleWrite, "ben": fakehost.RoleWrite, "cleo": fakehost.RoleRead, "rita": fakehost.RoleMaintain},
	}))
	authors := []string{"ada", "ben", "cleo"}
	var numbers []int
	for i := range 12 {
		files := map[string]string{fmt.Sprintf("feature-%d.txt", i): "new\n"}
		if i == 2 || i == 7 { // these two contradict each other
			files["shared.txt"] = fmt.Sprintf("as %d wants it\n", i)
		}
		number, err := client.OpenMR(t.Context(), e2eRepo, fakehost.NewMR{
			Author: authors[i%3], Head: fmt.Sprintf("feature-%d", i), Title: fmt.Sprintf("Feature %d", i), Files: files,
		})
		must(err)
		numbers = append(numbers, number)
	}
	// Half of them are approved first, half of them asked for first; one in a review body.
	for i, n := range numbers {
		ask := func() {
			_, err := client.Comment(t.Context(), e2eRepo, n, authors[i%3], "Looks done to me.\r\n\r\n/batch\r\n")
			must(err)
		}
		approve := func() {
			body := ""
			if i == 4 {
				body = "/batch"
			}
			_, err := client.Review(t.Context(), e2eRepo, n, "rita", fakehost.Approved, body)
			must(err)
		}
		switch {
		case i == 4:
			approve()
		case i%2 == 0:
			ask()
			approve()
		default:
			approve()
			ask()
		}
	}
	loser := numbers[7]
	state := func() fakehost.State {
		t.Helper()
		s, err := client.State(t.Context(), e2eRepo)
		must(err)
		return s
	}
	settled := func() bool {
		merged := 0
		for _, mr := range state().MergeRequests {
			if slices.Contains(numbers, mr.Number) && mr.State == "merged" {
				merged++
			}
		}
		return merged == 11 && count(t, db, `SELECT COUNT(*) FROM merge_batch WHERE status IN (1, 4)`) == 0 &&
			count(t, db, `SELECT COUNT(*) FROM merge_batch_request`) == 0 &&
			// What is still to be said now; landed members are looked at once more after a while.
			count(t, db, `SELECT COUNT(*) FROM outbox WHERE status = 1 AND kind <> 8`) == 0 &&
			count(t, db, `SELECT COUNT(*) FROM delivery WHERE status = 1`) == 0
	}
	within(t, 90*time.Second, "eleven landings and silence", settled)

	for _, mr := range state().MergeRequests {
		switch {
		case mr.Number == loser && mr.State != "open":
			t.Errorf("!%d, which contradicts another one, is %s", mr.Number, mr.State)
		case slices.Contains(numbers, mr.Number) && mr.Number != loser && mr.State != "merged":
			t.Errorf("!%d is %s, want merged", mr.Number, mr.State)
		}
	}
	if n := count(t, db, `SELECT COUNT(*) FROM operation WHERE status = 9 AND reason = 'conflict' AND detail LIKE '%shared.txt%'`); n != 1 {
		t.Errorf("%d operations failed with the conflicting file named, want 1", n)
	}
	succeeded := count(t, db, `SELECT COUNT(*) FROM merge_batch WHERE status = 2`)
	if succeeded < 2 {
		t.Errorf("%d batches landed, want at least 2", succeeded)
	}
	history := firstParents(t, filepath.Join(dir, "git", "acme", "app.git"))
	merges := slices.DeleteFunc(slices.Clone(history), func(c gitCommit) bool { return c.parents < 2 })
	if len(merges) != succeeded {
		t.Errorf("the target's first-parent history has %d merges for %d batches", len(merges), succeeded)
	}
	rows, err := db.QueryContext(t.Context(), `SELECT id, head_sha, landed_sha, code FROM merge_batch WHERE status = 2`)
	must(err)
	defer rows.Close()
	for rows.Next() {
		var id int64
		var head, landed, code string
		must(rows.Scan(&id, &head, &landed, &code))
		git := filepath.Join(dir, "git", "acme", "app.git")
		if code != "LANDED" || tree(t, git, head) != tree(t, git, landed) {
			t.Errorf("batch %d landed %s (%s), tested was %s", id, landed, code, head)
		}
	}
	must(rows.Err())

	before, said := count(t, db, `SELECT COUNT(*) FROM delivery`), comments(state())
	again, err := client.RedeliverAll(t.Context())
	must(err)
	if again < before {
		t.Errorf("%d webhooks were delivered again, but %d are known", again, before)
	}
	within(t, 60*time.Second, "the redelivery to be done with", func() bool {
		deliveries, err := client.Deliveries(t.Context())
		must(err)
		twice := 0
		for _, d := range deliveries {
			if len(d.Attempts) >= 2 {
				twice++
			}
		}
		return twice >= again && settled()
	})
	if n := count(t, db, `SELECT COUNT(*) FROM delivery WHERE status = 4`); n != 0 {
		t.Errorf("%d deliveries failed", n)
	}
	if after := firstParents(t, filepath.Join(dir, "git", "acme", "app.git")); !slices.Equal(after, history) {
		t.Errorf("a redelivery changed the target from\n%v to\n%v", history, after)
	}
	if n := count(t, db, `SELECT COUNT(*) FROM operation`); n != 12 {
		t.Errorf("there are %d operations, want 12", n)
	}
	if now := comments(state()); !maps.Equal(now, said) {
		t.Errorf("a redelivery changed the number of comments from %v to %v", said, now)
	}

	must(server.Process.Signal(syscall.SIGTERM))
	if err := server.Wait(); err != nil {
		t.Errorf("serve ended with %v after SIGTERM", err)
	}
}

// comments counts the comments of each merge request.
func comments(s fakehost.State) map[int]int {
	n := make(map[int]int)
	for _, mr := range s.MergeRequests {
		n[mr.Number] = len(mr.Comments)
	}
	return n
}

type gitCommit struct {
	sha     string
	parents int
}

func firstParents(t *testing.T, git string) []gitCommit {
	t.Helper()
	var list []gitCommit
	for line := range strings.Lines(gitOutput(t, git, "rev-list", "--first-parent", "--parents", "main")) {
		fields := strings.Fields(line)
		list = append(list, gitCommit{fields[0], len(fields) - 1})
	}
	return list
}

func tree(t *testing.T, git, commit string) string {
	t.Helper()
	return gitOutput(t, git, "rev-parse", commit+"^{tree}")
}

func gitOutput(t *testing.T, git string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", append([]string{"--git-dir", git}, args...)...).Output()
	if err != nil {
		t.Fatalf("git %v: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}

// within is eventually for what takes longer.
func within(t *testing.T, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	end := time.NewTimer(limit)
	defer end.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-end.C:
			t.Fatalf("waited %s in vain for %s", limit, what)
		case <-tick.C:
		}
	}
}
