package curated_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"database/sql"
	"encoding/pem"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/curated"
	"github.com/batchbot/batchbot/githost/fakehost"
	"github.com/batchbot/batchbot/githost/github"
	"github.com/batchbot/batchbot/githost/gitmerge"
	"github.com/batchbot/batchbot/store"
)

const path = "acme/app"

// appKey is one App key for all tests: making one takes a while.
var appKey = sync.OnceValue(func() bot.Secret {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return bot.Secret(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
})

// world is a desk with everything real around it: SQLite, git, and a GitHub in this process.
type world struct {
	t     *testing.T
	fake  *fakehost.Host
	host  bot.Host
	store *store.Store
	rows  *sql.DB // the same database, for looking
	repo  bot.Repository
	queue bot.Queue
	desk  *curated.Desk

	mu     sync.Mutex
	nudged []int64
	made   int // merge requests and operations, for their names
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{t: t}
	var err error
	w.fake, err = fakehost.New(fakehost.Options{Dir: filepath.Join(dir, "host"), ManualDelivery: true})
	w.must(err)
	t.Cleanup(w.fake.Close)
	for _, login := range []string{"ada", "bob", "carol", "rita"} {
		w.fake.AddUser(login)
	}
	w.must(w.fake.AddRepository(fakehost.NewRepository{
		Owner: "acme", Name: "app", Files: map[string]string{"README": "app\n", "shared.txt": "one\n"},
		Permissions: map[string]string{"ada": fakehost.RoleWrite, "bob": fakehost.RoleWrite, "carol": fakehost.RoleWrite, "rita": fakehost.RoleRead},
	}))
	w.host, err = github.New(github.Config{
		Name: "hub", APIURL: "http://fakehost.test", GitURL: filepath.Join(dir, "host"), AppID: 1, PrivateKey: appKey(),
		WebhookSecrets: []bot.Secret{"s3cret"}, HTTPTransport: w.fake.RoundTripper(), WriteSpacing: -1,
	})
	w.must(err)
	merger, err := gitmerge.New(gitmerge.Options{Dir: filepath.Join(dir, "mirrors"), TmpDir: t.TempDir()})
	w.must(err)
	database := filepath.Join(dir, "batchbot.db")
	w.store, err = store.Open(t.Context(), store.Options{Driver: store.SQLite, Path: database})
	w.must(err)
	t.Cleanup(func() { w.store.Close() })
	w.must(w.store.Migrate(t.Context()))
	w.rows, err = sql.Open("sqlite", "file:"+database+"?mode=ro&_pragma=busy_timeout(5000)")
	w.must(err)
	t.Cleanup(func() { w.rows.Close() })
	refs, err := w.host.ListRepositories(t.Context())
	w.must(err)
	w.repo, err = w.store.UpsertRepository(t.Context(), refs[0])
	w.must(err)
	w.settings(func(*bot.QueueSettings) {})
	w.desk = curated.New(curated.Config{
		Store: w.store, Hosts: map[string]bot.Host{"hub": w.host}, Git: merger, NewID: w.newID,
		NudgeQueue: func(id int64) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.nudged = append(w.nudged, id)
		},
	})
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// settings stores other settings of the queue.
func (w *world) settings(edit func(*bot.QueueSettings)) {
	w.t.Helper()
	settings := bot.DefaultQueueSettings("main")
	edit(&settings)
	var err error
	w.queue, err = w.store.UpsertQueue(w.t.Context(), w.repo.ID, settings, "")
	w.must(err)
}

func (w *world) newID() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.made++
	return fmt.Sprintf("00000000-0000-4000-8000-%012d", w.made)
}

func file(name, content string) map[string]string { return map[string]string{name: content} }

// opens opens a merge request that bob approved.
func (w *world) opens(files map[string]string) int {
	w.t.Helper()
	number := w.opensUnapproved(files)
	w.approves(number)
	return number
}

func (w *world) opensUnapproved(files map[string]string) int {
	w.t.Helper()
	name := "change-" + strconv.Itoa(len(files)) + w.newID()[30:]
	number, err := w.fake.OpenMR(path, fakehost.NewMR{Author: "ada", Head: name, Title: "Change " + name, Files: files})
	w.must(err)
	return number
}

func (w *world) approves(number int) {
	w.t.Helper()
	_, err := w.fake.Review(path, number, "bob", fakehost.Approved, "")
	w.must(err)
}

// applies applies a merge request by itself.
func (w *world) applies(number int, admit bool) bot.Operation {
	w.t.Helper()
	mr, err := w.host.ReadMR(w.t.Context(), w.repo, number)
	w.must(err)
	id := w.newID()
	result, err := w.store.Apply(w.t.Context(), bot.Application{
		OperationID: id, QueueID: w.queue.ID, Repository: w.repo, MR: mr, Admit: admit, Lane: bot.LaneNormal, ExpiresIn: 1 << 50,
		Command: bot.CommandRef{RequestID: "hub:issue:" + id, Order: bot.CommandOrder{At: int64(w.made), ID: int64(w.made)}, By: "ada"},
	})
	w.must(err)
	if result.Outcome != bot.ApplyDone {
		w.t.Fatalf("applying !%d: outcome %d", number, result.Outcome)
	}
	return result.Operation
}

// on is a person of the host at the desk.
func on(login string) curated.Asker {
	return curated.Asker{Name: login, Actor: bot.Actor{Login: login}, Source: "test"}
}

// token is a token of the API with the role write.
func token(name string) curated.Asker {
	return curated.Asker{Name: "api:" + name, May: true, Source: "api"}
}

func rowsOf(numbers ...int) []bot.CuratedRow {
	rows := make([]bot.CuratedRow, len(numbers))
	for i, n := range numbers {
		rows[i] = bot.CuratedRow{RowNo: i + 1, Number: n}
	}
	return rows
}

// drafts makes a draft of ada's and returns its id.
func (w *world) drafts(numbers ...int) int64 {
	w.t.Helper()
	result, err := w.desk.Save(w.t.Context(), on("ada"), curated.Draft{QueueID: w.queue.ID, Rows: rowsOf(numbers...)})
	w.must(err)
	w.wantOutcome(result, curated.Done)
	return result.View.Curated.ID
}

// submits submits what has no problem.
func (w *world) submits(id int64) curated.Result {
	w.t.Helper()
	result, err := w.desk.Submit(w.t.Context(), on("ada"), id, 0)
	w.must(err)
	w.wantOutcome(result, curated.Done)
	return result
}

func (w *world) wantOutcome(result curated.Result, want curated.Outcome) {
	w.t.Helper()
	if result.Outcome != want {
		w.t.Fatalf("outcome %d (%s), want %d; problems %v", result.Outcome, result.Reason, want, result.Problems)
	}
}

// problems tells the problems of a refusal.
func problems(result curated.Result) (told []string) {
	for _, p := range result.Problems {
		told = append(told, fmt.Sprintf("%s row %d !%d: %s", p.Kind, p.RowNo, p.Number, p.Text))
	}
	return told
}

func (w *world) wantProblems(result curated.Result, want ...string) {
	w.t.Helper()
	w.wantOutcome(result, curated.Refused)
	if got := problems(result); !slices.Equal(got, want) {
		w.t.Errorf("problems\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// dump is every row of the tables of sets, byte by byte, and how many rows there are of what a write would leave behind.
func (w *world) dump() string {
	w.t.Helper()
	var b strings.Builder
	for _, table := range []string{"approval_request", "draft_row", "curated_row"} {
		w.dumpTable(&b, table)
	}
	for _, table := range []string{"operation", "merge_batch_request", "audit", "outbox", "idempotency"} {
		var n int
		w.must(w.rows.QueryRowContext(w.t.Context(), "SELECT COUNT(*) FROM "+table).Scan(&n))
		fmt.Fprintln(&b, table, n)
	}
	return b.String()
}

func (w *world) dumpTable(b *strings.Builder, table string) {
	w.t.Helper()
	rows, err := w.rows.QueryContext(w.t.Context(), "SELECT * FROM "+table+" ORDER BY id")
	w.must(err)
	defer rows.Close()
	columns, err := rows.Columns()
	w.must(err)
	for rows.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		w.must(rows.Scan(into...))
		fmt.Fprintln(b, table, values)
	}
	w.must(rows.Err())
}

// status is the current status of a merge request's operation with its reason.
func (w *world) status(number int) (status bot.OperationStatus, reason bot.Reason) {
	w.t.Helper()
	views, err := w.store.CurrentOperations(w.t.Context(), w.repo.ID, number)
	w.must(err)
	if len(views) == 0 {
		return 0, ""
	}
	return views[0].Operation.Status, views[0].Operation.Reason
}
