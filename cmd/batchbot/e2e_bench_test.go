package main

import (
	"bytes"
	"cmp"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/config"
	"github.com/batchbot/batchbot/githost/fakehost"
)

// bench is a running program and its host in one process, for tests of one odd thing each. The repository acme/app is there, with ada and ben,
// who write, and rita, who maintains.
type bench struct {
	world
	*program
	db   *sql.DB
	log  *logbook
	line *line // between the program and the database, or the host; see benchSettings
}

// benchSettings says how a bench differs from the usual one.
type benchSettings struct {
	kind         string // of the host; "": github
	mysql        bool   // with a line in front
	lineToHost   bool
	branch       string // the default branch; "": main
	files        map[string]string
	ci           fakehost.CI
	maxBatchSize int // 0: 20
}

func newBench(t *testing.T, s benchSettings) *bench {
	t.Helper()
	b := &bench{world: newWorldOn(t, cmp.Or(s.kind, config.GitHub)), log: &logbook{}}
	more := "look: {interval: 1s, max_interval: 2s}\nrounds: {poll: 1s}\n"
	switch {
	case s.mysql:
		var dsn string
		dsn, b.db = emptyMySQL(t)
		before, behind, _ := strings.Cut(dsn, "tcp(")
		address, behind, _ := strings.Cut(behind, ")")
		b.line = startLine(t, address)
		b.write(t, "dsn", before+"tcp("+b.line.address+")"+behind)
		more += fmt.Sprintf("database: {driver: mysql, dsn_file: %s/dsn, migrate: true}\n", b.dir)
	case s.lineToHost:
		b.line = startLine(t, strings.TrimPrefix(b.host.url, "http://"))
		b.host.url = "http://" + b.line.address
		b.host.SetBaseURL(b.host.url)
	}
	b.host.SetCI(s.ci)
	branch := cmp.Or(s.branch, "main")
	files := map[string]string{".batchbot.yml": fmt.Sprintf("queues:\n  - branch: %q\n    max_batch_size: %d\n    checks: {required: [ci]}\n", branch, cmp.Or(s.maxBatchSize, 20))}
	maps.Copy(files, s.files)
	b.must(t, b.host.AddRepository(fakehost.NewRepository{
		Owner: "acme", Name: "app", DefaultBranch: branch, Files: files,
		Permissions: map[string]string{"ada": fakehost.RoleWrite, "ben": fakehost.RoleWrite, "rita": fakehost.RoleMaintain},
	}))
	b.configure(t, more)
	b.program = b.startLogging(t, slog.NewJSONHandler(b.log, nil))
	if b.db == nil {
		rows, err := openDemoRows(filepath.Join(b.dir, "data", "batchbot.db"))
		b.must(t, err)
		t.Cleanup(rows.close)
		b.db = rows.db
	}
	b.host.SetWebhook(b.webhook(b.program.url), hookSecret)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the program logged:\n%s", tail(b.log.String(), 40))
		}
	})
	return b
}

func (b *bench) must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open opens a merge request, by ada unless it says otherwise.
func (b *bench) open(t *testing.T, mr fakehost.NewMR) int {
	t.Helper()
	mr.Author = cmp.Or(mr.Author, "ada")
	if mr.Files == nil {
		mr.Files = map[string]string{"new/" + strings.ReplaceAll(mr.Head, "/", "_") + ".txt": "new\n"}
	}
	mr.Title = cmp.Or(mr.Title, mr.Head)
	number, err := b.host.OpenMR(e2eRepo, mr)
	if err != nil {
		t.Fatalf("opening %+v: %v", mr, err)
	}
	return number
}

func (b *bench) say(t *testing.T, number int, who, text string) int64 {
	t.Helper()
	id, err := b.host.Comment(e2eRepo, number, who, text)
	b.must(t, err)
	return id
}

func (b *bench) approve(t *testing.T, number int, who string) {
	t.Helper()
	_, err := b.host.Review(e2eRepo, number, who, fakehost.Approved, "")
	b.must(t, err)
}

// opened opens a merge request that is applied and approved.
func (b *bench) opened(t *testing.T, branch string) int {
	t.Helper()
	number := b.open(t, fakehost.NewMR{Head: branch})
	b.say(t, number, "ada", "/batch")
	b.approve(t, number, "rita")
	return number
}

// said are the bot's comments on a merge request.
func (b *bench) said(t *testing.T, number int) (bodies []string) {
	t.Helper()
	comments, err := b.host.Comments(e2eRepo, number)
	b.must(t, err)
	for _, c := range comments {
		if c.Author == b.bot() {
			bodies = append(bodies, c.Body)
		}
	}
	return bodies
}

// answered waits until one of the bot's comments says all the words, and returns it.
func (b *bench) answered(t *testing.T, number int, words ...string) (answer string) {
	t.Helper()
	within(t, benchLimit, fmt.Sprintf("%q on !%d", words, number), func() bool {
	next:
		for _, body := range b.said(t, number) {
			for _, w := range words {
				if !strings.Contains(body, w) {
					continue next
				}
			}
			answer = body
			return true
		}
		return false
	})
	return answer
}

// operation is the newest operation of a merge request; the zero value when there is none.
func (b *bench) operation(t *testing.T, number int) (op struct {
	Status bot.OperationStatus
	Reason bot.Reason
	Detail string
}) {
	t.Helper()
	err := b.db.QueryRowContext(t.Context(), fmt.Sprintf(`SELECT o.status, o.reason, o.detail FROM operation o JOIN merge_request m ON m.id = o.merge_request_id
		WHERE m.number = %d ORDER BY o.created_at DESC LIMIT 1`, number)).Scan(&op.Status, &op.Reason, &op.Detail)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		t.Fatal(err)
	}
	return op
}

// becomes waits until a merge request's operation has a status.
func (b *bench) becomes(t *testing.T, number int, status bot.OperationStatus) {
	t.Helper()
	within(t, benchLimit, fmt.Sprintf("!%d to be %s", number, status), func() bool { return b.operation(t, number).Status == status })
}

// batchUnderTest waits until CI runs on a batch and returns the batch's branch.
func (b *bench) batchUnderTest(t *testing.T) (branch string) {
	t.Helper()
	within(t, benchLimit, "CI on a batch", func() bool {
		for _, run := range b.host.CIRuns() {
			if strings.HasPrefix(run.Branch, bot.BatchBranchPrefix) && run.Conclusion == "" {
				branch = run.Branch
				return true
			}
		}
		return false
	})
	return branch
}

func (b *bench) quiet(t *testing.T) bool {
	t.Helper()
	return quiet(t, b.db)
}

// nothingLost checks that no delivery and no errand was given up.
func (b *bench) nothingLost(t *testing.T) {
	t.Helper()
	if n := count(t, b.db, `SELECT COUNT(*) FROM delivery WHERE status = 4`); n != 0 {
		t.Errorf("%d deliveries were given up", n)
	}
	if n := count(t, b.db, `SELECT COUNT(*) FROM outbox WHERE status = 3`); n != 0 {
		t.Errorf("%d errands were given up", n)
	}
}

// logbook keeps a log.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// complaints counts the warnings and errors, and those of them that say words.
func (l *logbook) complaints(words string) (all, saying int) {
	for line := range strings.Lines(l.String()) {
		var entry struct{ Level string }
		if json.Unmarshal([]byte(line), &entry) != nil || entry.Level == "INFO" {
			continue
		}
		all++
		if strings.Contains(line, words) {
			saying++
		}
	}
	return all, saying
}

// line is a connection that can be cut and mended: a TCP proxy.
type line struct {
	address string

	mu      sync.Mutex
	isCut   bool
	refused int // connections while it was cut
	open    map[net.Conn]bool
}

// startLine leads to target until the test ends.
func startLine(t *testing.T, target string) *line {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &line{address: listener.Addr().String(), open: make(map[net.Conn]bool)}
	var carriers sync.WaitGroup
	carriers.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			carriers.Go(func() { l.carry(near, target) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		l.cut()
		carriers.Wait()
	})
	return l
}

func (l *line) carry(near net.Conn, target string) {
	defer near.Close()
	far, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer far.Close()
	l.mu.Lock()
	if l.isCut {
		l.refused++
		l.mu.Unlock()
		return
	}
	l.open[near], l.open[far] = true, true
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.open, near)
		delete(l.open, far)
	}()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(near, far) // either end may hang up
		_ = near.Close()
	})
	_, _ = io.Copy(far, near)
	_ = far.Close()
	back.Wait()
}

// cut ends all connections and lets none come about.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = true
	for c := range l.open {
		_ = c.Close()
	}
}

func (l *line) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = false
}

// refusals is how many connections were tried while it was cut.
func (l *line) refusals() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused
}
