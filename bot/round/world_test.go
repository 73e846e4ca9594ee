package round_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"database/sql"
	"encoding/pem"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/round"
	"github.com/batchbot/batchbot/githost/fakehost"
	"github.com/batchbot/batchbot/githost/github"
	"github.com/batchbot/batchbot/githost/gitlab"
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

// world is a queue with everything real around it: SQLite, git, and a GitHub in this process.
type world struct {
	t       *testing.T
	fake    *fakehost.Host
	host    bot.Host
	store   *store.Store
	rows    *sql.DB // the same database, for looking
	writer  *sql.DB // and for letting time pass
	git     bot.Git
	repo    bot.Repository
	queue   bot.Queue
	driver  *round.Driver
	started int // members made so far, for branch and operation names
}

func newWorld(t *testing.T, edit func(*bot.QueueSettings)) *world {
	t.Helper()
	return newWorldOn(t, fakehost.FaceGitHub, edit)
}

// newWorldOn is newWorld on one of the faces of the fake host.
func newWorldOn(t *testing.T, face string, edit func(*bot.QueueSettings)) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{t: t}
	var err error
	w.fake, err = fakehost.New(fakehost.Options{Dir: filepath.Join(dir, "host"), ManualDelivery: true, Face: face})
	w.must(err)
	t.Cleanup(w.fake.Close)
	for _, login := range []string{"ada", "bob"} {
		w.fake.AddUser(login)
	}
	w.must(w.fake.AddRepository(fakehost.NewRepository{
		Owner: "acme", Name: "app", Files: map[string]string{"README": "app\n", "shared.txt": "one\n"},
		Permissions: map[string]string{"ada": fakehost.RoleWrite, "bob": fakehost.RoleWrite},
	}))
	if face == fakehost.FaceGitLab {
		w.host, err = gitlab.New(gitlab.Config{
			Name: "hub", APIURL: "http://fakehost.test", GitURL: filepath.Join(dir, "host"), Token: "group_1_bot_batchbot-token",
			WebhookSecrets: []bot.Secret{"s3cret"}, HTTPTransport: w.fake.RoundTripper(), WriteSpacing: -1,
		})
	} else {
		w.host, err = github.New(github.Config{
			Name: "hub", APIURL: "http://fakehost.test", GitURL: filepath.Join(dir, "host"), AppID: 1, PrivateKey: appKey(),
			WebhookSecrets: []bot.Secret{"s3cret"}, HTTPTransport: w.fake.RoundTripper(), WriteSpacing: -1,
		})
	}
	w.must(err)
	merger, err := gitmerge.New(gitmerge.Options{Dir: filepath.Join(dir, "mirrors"), TmpDir: t.TempDir()})
	w.must(err)
	w.git = merger
	database := filepath.Join(dir, "batchbot.db")
	w.store, err = store.Open(t.Context(), store.Options{Driver: store.SQLite, Path: database})
	w.must(err)
	t.Cleanup(func() { w.store.Close() })
	w.must(w.store.Migrate(t.Context()))
	w.rows, err = sql.Open("sqlite", "file:"+database+"?mode=ro&_pragma=busy_timeout(5000)")
	w.must(err)
	t.Cleanup(func() { w.rows.Close() })
	w.writer, err = sql.Open("sqlite", "file:"+database+"?_pragma=busy_timeout(5000)")
	w.must(err)
	t.Cleanup(func() { w.writer.Close() })

	refs, err := w.host.ListRepositories(t.Context())
	w.must(err)
	w.repo, err = w.store.UpsertRepository(t.Context(), refs[0])
	w.must(err)
	settings := bot.DefaultQueueSettings("main")
	settings.Checks.Required = []string{"ci"}
	if edit != nil {
		edit(&settings)
	}
	w.queue, err = w.store.UpsertQueue(t.Context(), w.repo.ID, settings, "")
	w.must(err)
	w.driver = w.newDriver(w.store, w.host, w.git, w.store)
	return w
}

func (w *world) newDriver(s round.Store, h bot.Host, g bot.Git, l round.Locks) *round.Driver {
	return round.New(round.Config{Store: s, Locks: l, Hosts: map[string]bot.Host{"hub": h}, Git: g})
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// waiting opens an approved merge request and admits it to the waiting set.
func (w *world) waiting(files map[string]string) int {
	w.t.Helper()
	w.started++
	name := "change-" + strconv.Itoa(w.started)
	number, err := w.fake.OpenMR(path, fakehost.NewMR{Author: "ada", Head: name, Title: "Change " + name, Files: files})
	w.must(err)
	w.approve(number)
	w.admit(number)
	return number
}

func (w *world) approve(number int) {
	w.t.Helper()
	_, err := w.fake.Review(path, number, "bob", fakehost.Approved, "")
	w.must(err)
}

func (w *world) admit(number int) {
	w.t.Helper()
	mr, err := w.host.ReadMR(w.t.Context(), w.repo, number)
	w.must(err)
	w.started++
	id := fmt.Sprintf("00000000-0000-4000-8000-%012d", w.started)
	result, err := w.store.Apply(w.t.Context(), bot.Application{
		OperationID: id, QueueID: w.queue.ID, Repository: w.repo, MR: mr, Admit: true, Lane: bot.LaneNormal, ExpiresIn: 1 << 50,
		Command: bot.CommandRef{RequestID: "hub:issue:" + id, Order: bot.CommandOrder{At: int64(w.started), ID: int64(w.started)}, By: "ada", Verb: "apply"},
	})
	w.must(err)
	if result.Outcome != bot.ApplyDone {
		w.t.Fatalf("applying !%d: outcome %d", number, result.Outcome)
	}
}

// tick runs one tick and fails the test on an error.
func (w *world) tick() round.Result {
	w.t.Helper()
	result, err := w.driver.RunOnce(w.t.Context(), w.queue.ID)
	w.must(err)
	return result
}

// run ticks until there is nothing more to do now and returns what the last tick said.
func (w *world) run() round.Result {
	w.t.Helper()
	for range 200 {
		if r := w.tick(); !r.Again {
			return r
		}
	}
	w.t.Fatal("the queue does not come to rest")
	return round.Result{}
}

// runTo ticks until the active batch is in phase.
func (w *world) runTo(phase bot.BatchPhase) bot.Batch {
	w.t.Helper()
	for range 50 {
		if b, _ := w.active(); b.Phase == phase {
			return b
		}
		w.tick()
	}
	w.t.Fatalf("no batch comes to %s", phase)
	return bot.Batch{}
}

func (w *world) active() (bot.Batch, []bot.Operation) {
	w.t.Helper()
	b, members, _, err := w.store.ActiveBatch(w.t.Context(), w.queue.ID)
	w.must(err)
	return b, members
}

// batchRow is what a test wants to know of a batch that is over.
type batchRow struct {
	ID        int64
	Status    bot.BatchStatus
	Code      bot.Code
	Message   string
	Head      string
	Landed    string
	Differs   bool
	MRNumber  int
	CI        string
	BuildsRun int
}

// batches lists every batch of the queue, oldest first.
func (w *world) batches() []batchRow {
	w.t.Helper()
	rows, err := w.rows.QueryContext(w.t.Context(), `SELECT id, status, code, message, head_sha, landed_sha, landed_differs, mr_number, ci_conclusion, build FROM merge_batch ORDER BY id`)
	w.must(err)
	defer rows.Close()
	var list []batchRow
	for rows.Next() {
		var b batchRow
		w.must(rows.Scan(&b.ID, &b.Status, &b.Code, &b.Message, &b.Head, &b.Landed, &b.Differs, &b.MRNumber, &b.CI, &b.BuildsRun))
		list = append(list, b)
	}
	w.must(rows.Err())
	return list
}

// status is the current status of a merge request's operation with its reason.
func (w *world) status(number int) (status bot.OperationStatus, reason bot.Reason, detail string) {
	w.t.Helper()
	row := w.rows.QueryRowContext(w.t.Context(), `SELECT o.status, o.reason, o.detail FROM operation o JOIN merge_request m ON m.id = o.merge_request_id
		JOIN binding b ON b.operation_id = o.operation_id AND b.status = o.status WHERE m.number = ?`, number)
	w.must(row.Scan(&status, &reason, &detail))
	return status, reason, detail
}

func (w *world) wantStatus(number int, want bot.OperationStatus, why bot.Reason) {
	w.t.Helper()
	if status, reason, _ := w.status(number); status != want || reason != why {
		w.t.Errorf("!%d is %s because %q, want %s because %q", number, status, reason, want, why)
	}
}

func (w *world) wantOnHost(state string, numbers ...int) {
	w.t.Helper()
	for _, n := range numbers {
		mr, err := w.fake.MR(path, n)
		w.must(err)
		if mr.State != state {
			w.t.Errorf("!%d is %s on the host, want %s", n, mr.State, state)
		}
	}
}

// wantLandings checks that the target's first-parent history gained exactly n merges, each of which has the tree that was tested.
func (w *world) wantLandings(n int) {
	w.t.Helper()
	log, err := w.fake.Log(path, "main")
	w.must(err)
	merges := slices.DeleteFunc(log, func(c fakehost.Commit) bool { return len(c.Parents) < 2 })
	if len(merges) != n {
		w.t.Errorf("the target's history has %d merges, want %d: %v", len(merges), n, log)
	}
	for _, b := range w.batches() {
		if b.Status == bot.BatchSucceeded && (b.Differs || b.Code != bot.CodeLanded) {
			w.t.Errorf("batch %d landed something that was not tested: %+v", b.ID, b)
		}
	}
}

// grantingLocks grants every lock to everybody: what an advisory lock is worth when it fails.
type grantingLocks struct{}

func (grantingLocks) TryLock(ctx context.Context, _ string) (context.Context, func(), bool, error) {
	return ctx, func() {}, true, nil
}
