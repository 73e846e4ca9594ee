package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/batchbot/batchbot/config"
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
func emptyMySQL(t testing.TB) (dsn string, db *sql.DB) {
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
		if _, err := server.Exec("DROP DATABASE " + name); err != nil {
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

// stage is everything around the bot: a Git host in a process of its own, and an empty MySQL database. Settings of any number of
// instances can be written for it.
type stage struct {
	world
	url    string // of the host
	client *fakehost.Client
	dsn    string
	db     *sql.DB
	git    string // the repository on the host
}

// newStage starts a host of a kind, with more of its flags.
func newStage(t *testing.T, kind string, flags ...string) stage {
	t.Helper()
	dir := t.TempDir()
	s := stage{world: world{kind: kind, dir: dir, file: filepath.Join(dir, "batchbot.yml")}, git: filepath.Join(dir, "git", "acme", "app.git")}
	s.writeSecrets(t)
	host := startProcess(t, dir, false, append([]string{
		"fakehost", "--face", kind, "--listen", "127.0.0.1:0", "--dir", filepath.Join(dir, "git"), "--app-key", filepath.Join(dir, "key.pem"),
		"--webhook-secret-file", filepath.Join(dir, "hook"),
	}, flags...)...)
	url, ok := <-host.lines
	if !ok {
		t.Fatal("fakehost printed no address")
	}
	s.url, s.client = url, fakehost.NewClient(url, nil)
	if kind == config.GitLab {
		s.client = s.client.GitLab()
	}
	s.dsn, s.db = emptyMySQL(t)
	s.write(t, "dsn", s.dsn)
	return s
}

// instance writes the settings of one more instance and returns the file.
func (s stage) instance(t *testing.T, name, more string) (file string) {
	t.Helper()
	s.write(t, name+".yml", fmt.Sprintf(`
listen: 127.0.0.1:0
data_dir: %[1]s/data-%[3]s
database: {driver: mysql, dsn_file: %[1]s/dsn}
hosts:%[2]s%[4]s`, s.dir, s.hostSettings(s.kind, s.url), name, more))
	return filepath.Join(s.dir, name+".yml")
}

// state dumps the repository.
func (s stage) state(t *testing.T) fakehost.State {
	t.Helper()
	state, err := s.client.State(t.Context(), e2eRepo)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// quiet reports whether nothing is under way or waits to be said. Landed members are looked at once more after a while; that does not count.
func quiet(t *testing.T, db *sql.DB) bool {
	t.Helper()
	return count(t, db, `SELECT COUNT(*) FROM merge_batch WHERE status IN (1, 4)`) == 0 &&
		count(t, db, `SELECT COUNT(*) FROM merge_batch_request`) == 0 &&
		count(t, db, `SELECT COUNT(*) FROM outbox WHERE status = 1 AND kind <> 8`) == 0 &&
		count(t, db, `SELECT COUNT(*) FROM delivery WHERE status = 1`) == 0
}

func (s stage) quiet(t *testing.T) bool {
	t.Helper()
	return quiet(t, s.db)
}

// checkLanded compares what landed with what was tested, and the target's history with the batches: one merge for each that succeeded.
// It returns how many did.
func (s stage) checkLanded(t *testing.T) (succeeded int) {
	t.Helper()
	rows, err := s.db.QueryContext(t.Context(), `SELECT id, head_sha, landed_sha, code FROM merge_batch WHERE status = 2`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		var head, landed, code string
		if err := rows.Scan(&id, &head, &landed, &code); err != nil {
			t.Fatal(err)
		}
		succeeded++
		if code != "LANDED" || tree(t, s.git, head) != tree(t, s.git, landed) {
			t.Errorf("batch %d landed %s (%s), tested was %s", id, landed, code, head)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	merges := 0
	for _, c := range firstParents(t, s.git) {
		if c.parents > 1 {
			merges++
		}
	}
	if merges != succeeded {
		t.Errorf("the target's first-parent history has %d merges for %d batches", merges, succeeded)
	}
	return succeeded
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
	limit *= 3 // for machines that do much else meanwhile
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
