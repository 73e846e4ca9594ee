package reconcile_test

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
	"github.com/batchbot/batchbot/bot/intake"
	"github.com/batchbot/batchbot/bot/outbox"
	"github.com/batchbot/batchbot/bot/reconcile"
	"github.com/batchbot/batchbot/bot/round"
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

// world is a bot with everything real around it, SQLite, git and a GitHub in this process, and nothing that runs by itself: nobody tells the bot
// what happens on the host.
type world struct {
	t          *testing.T
	fake       *fakehost.Host
	host       bot.Host
	store      *store.Store
	rows       *sql.DB // the same database
	repo       bot.Repository
	queue      bot.Queue
	driver     *round.Driver
	sender     *outbox.Sender
	applier    *intake.Applier
	config     reconcile.Config
	reconciler *reconcile.Reconciler
	made       int // merge requests so far, for branch and operation names
}

func newWorld(t *testing.T, target string) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{t: t}
	var err error
	w.fake, err = fakehost.New(fakehost.Options{Dir: filepath.Join(dir, "host"), ManualDelivery: true})
	w.must(err)
	t.Cleanup(w.fake.Close)
	for _, login := range []string{"ada", "bob"} {
		w.fake.AddUser(login)
	}
	w.addRepository("app")
	if target != "main" {
		_, err := w.fake.Commit(path, target, "main", "bob", "Begin "+target, map[string]string{"began": target})
		w.must(err)
	}
	w.host, err = github.New(github.Config{
		Name: "hub", APIURL: "http://fakehost.test", GitURL: filepath.Join(dir, "host"), AppID: 1, PrivateKey: appKey(),
		WebhookSecrets: []bot.Secret{"s3cret"}, HTTPTransport: w.fake.RoundTripper(), WriteSpacing: -1,
	})
	w.must(err)
	git, err := gitmerge.New(gitmerge.Options{Dir: filepath.Join(dir, "mirrors"), TmpDir: t.TempDir()})
	w.must(err)
	database := filepath.Join(dir, "batchbot.db")
	w.store, err = store.Open(t.Context(), store.Options{Driver: store.SQLite, Path: database})
	w.must(err)
	t.Cleanup(func() { w.store.Close() })
	w.must(w.store.Migrate(t.Context()))
	w.rows, err = sql.Open("sqlite", "file:"+database+"?_pragma=busy_timeout(5000)")
	w.must(err)
	t.Cleanup(func() { w.rows.Close() })

	refs, err := w.host.ListRepositories(t.Context())
	w.must(err)
	w.repo, err = w.store.UpsertRepository(t.Context(), refs[0])
	w.must(err)
	settings := bot.DefaultQueueSettings(target)
	settings.Checks.Required = []string{"ci"}
	w.queue, err = w.store.UpsertQueue(t.Context(), w.repo.ID, settings, "")
	w.must(err)
	hosts := map[string]bot.Host{"hub": w.host}
	w.driver = round.New(round.Config{Store: w.store, Locks: w.store, Hosts: hosts, Git: git})
	w.sender = outbox.New(outbox.Config{Store: w.store, Hosts: hosts, Git: git, Revisit: w.driver.Revisit})
	w.applier = intake.NewApplier(intake.ApplierConfig{Records: w.store, Hosts: hosts, Git: git, Order: w.driver.Order})
	w.config = reconcile.Config{
		Store: w.store, Hosts: hosts, Git: git, Applier: w.applier,
		Round: func(ctx context.Context, queueID int64) (bool, error) {
			result, err := w.driver.RunOnce(ctx, queueID)
			return result.Again, err
		},
	}
	w.reconciler = reconcile.New(w.config)
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) addRepository(name string) {
	w.t.Helper()
	w.must(w.fake.AddRepository(fakehost.NewRepository{
		Owner: "acme", Name: name, Files: map[string]string{"README": name + "\n"},
		Permissions: map[string]string{"ada": fakehost.RoleWrite, "bob": fakehost.RoleWrite},
	}))
}

// applied opens a merge request and applies it; approved ones wait.
func (w *world) applied(approved bool) int {
	w.t.Helper()
	w.made++
	name := "change-" + strconv.Itoa(w.made)
	number, err := w.fake.OpenMR(path, fakehost.NewMR{Author: "ada", Head: name, Base: w.queue.Target, Title: name, Files: map[string]string{name: name}})
	w.must(err)
	if approved {
		w.approve(number)
	}
	mr, err := w.host.ReadMR(w.t.Context(), w.repo, number)
	w.must(err)
	operation := fmt.Sprintf("00000000-0000-4000-8000-%012d", w.made)
	result, err := w.store.Apply(w.t.Context(), bot.Application{
		OperationID: operation, QueueID: w.queue.ID, Repository: w.repo, MR: mr, Admit: approved, Lane: bot.LaneNormal, ExpiresIn: 1 << 50,
		Command: bot.CommandRef{RequestID: "hub:issue:" + operation, Order: bot.CommandOrder{At: int64(w.made), ID: int64(w.made)}, By: "ada", Verb: "apply"},
	})
	w.must(err)
	if result.Outcome != bot.ApplyDone {
		w.t.Fatalf("applying !%d: outcome %d", number, result.Outcome)
	}
	return number
}

func (w *world) approve(number int) {
	w.t.Helper()
	_, err := w.fake.Review(path, number, "bob", fakehost.Approved, "")
	w.must(err)
}

// ticks works on the queue until there is nothing to do now.
func (w *world) ticks() {
	w.t.Helper()
	for range 200 {
		result, err := w.driver.RunOnce(w.t.Context(), w.queue.ID)
		w.must(err)
		if !result.Again {
			return
		}
	}
	w.t.Fatal("the queue does not come to rest")
}

// opened has a batch of the merge requests that wait under test, and returns it.
func (w *world) opened() bot.Batch {
	w.t.Helper()
	w.fake.SetCI(fakehost.CI{Mode: fakehost.CIManual})
	w.ticks()
	batch, _, ok, err := w.store.ActiveBatch(w.t.Context(), w.queue.ID)
	w.must(err)
	if !ok || batch.Phase != bot.PhaseOpened {
		w.t.Fatalf("no batch is under test: %+v", batch)
	}
	return batch
}

// says does what is to be said, now: waiting for the host to settle down is put aside.
func (w *world) says() {
	w.t.Helper()
	for range 20 {
		w.exec(`UPDATE outbox SET next_attempt_at = 0 WHERE status = 1`)
		sent, err := w.sender.RunOnce(w.t.Context())
		w.must(err)
		if sent.Claimed == 0 {
			return
		}
	}
	w.t.Fatal("the outbox does not come to rest")
}

func (w *world) exec(query string, args ...any) {
	w.t.Helper()
	_, err := w.rows.ExecContext(w.t.Context(), query, args...)
	w.must(err)
}

// finds lists what differs, and fails the test unless these are the kinds.
func (w *world) finds(want ...reconcile.Kind) []reconcile.Difference {
	w.t.Helper()
	found, err := w.reconciler.Find(w.t.Context(), reconcile.Scope{})
	w.must(err)
	var kinds []reconcile.Kind
	for _, d := range found {
		kinds = append(kinds, d.Kind)
	}
	slices.Sort(kinds)
	slices.Sort(want)
	if !slices.Equal(kinds, want) {
		w.t.Fatalf("found %+v, want %v", found, want)
	}
	return found
}

var operator = reconcile.Actor{By: "ada", Source: "reconcile", Operator: true}

// mends has differences mended, says what is to be said, and fails the test when any of them is still there.
func (w *world) mends(found []reconcile.Difference) {
	w.t.Helper()
	w.reconciler.Mend(w.t.Context(), found, operator)
	w.must(w.reconciler.Check(w.t.Context(), found, reconcile.Scope{}))
	for _, d := range found {
		if d.Outcome != reconcile.Mended {
			w.t.Errorf("%s of %s: %s %s", d.Kind, d.Where(), d.Outcome, d.Error)
		}
	}
	w.says()
	w.finds()
}

func (w *world) status(number int) (status bot.OperationStatus) {
	w.t.Helper()
	w.must(w.rows.QueryRowContext(w.t.Context(), `SELECT o.status FROM operation o JOIN merge_request m ON m.id = o.merge_request_id WHERE m.number = ?`, number).Scan(&status))
	return status
}

func (w *world) wantStatus(number int, want bot.OperationStatus) {
	w.t.Helper()
	if got := w.status(number); got != want {
		w.t.Errorf("!%d is %s, want %s", number, got, want)
	}
}
