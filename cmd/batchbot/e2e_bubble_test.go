package main

import (
	"context"
	"database/sql"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/intake"
	"github.com/batchbot/batchbot/bot/outbox"
	"github.com/batchbot/batchbot/bot/round"
	"github.com/batchbot/batchbot/config"
	"github.com/batchbot/batchbot/githost/fakehost"
	"github.com/batchbot/batchbot/githost/github"
	"github.com/batchbot/batchbot/githost/gitmerge"
	"github.com/batchbot/batchbot/store"
)

// bubble is the whole bot and its host within a bubble of testing/synctest: no sockets, SQLite, real git, and hours that pass in seconds. All
// loops run at the pace of a server that is configured as it comes.
type bubble struct {
	t     *testing.T
	host  *fakehost.Host
	store *store.Store
	db    *sql.DB
	meter *meter
	log   *logbook
	stop  func()
}

// bubbleSettings says how a bubble differs from the usual one.
type bubbleSettings struct {
	repositories []string // of acme; none: app
	file         string   // .batchbot.yml, empty: one queue that requires the check ci
	ci           fakehost.CI
	git          func(bot.Git) bot.Git // puts something in front of git
}

// inBubble runs a test in a bubble.
func inBubble(t *testing.T, s bubbleSettings, test func(t *testing.T, b *bubble)) {
	t.Helper()
	dir, pem := t.TempDir(), appKeyPEM() // made outside: keys and folders take real time
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, dir, pem, s)
		defer b.stop()
		test(t, b)
	})
}

func newBubble(t *testing.T, dir, pem string, s bubbleSettings) *bubble {
	t.Helper()
	b := &bubble{t: t, meter: newMeter(), log: &logbook{}}
	defaults := config.Defaults()
	log := slog.New(slog.NewJSONHandler(b.log, nil))
	var err error
	b.host, err = fakehost.New(fakehost.Options{Dir: filepath.Join(dir, "host"), WebhookSecret: hookSecret, CI: s.ci})
	b.must(err)
	if s.file == "" {
		s.file = "queues:\n  - branch: main\n    checks: {required: [ci]}\n"
	}
	if len(s.repositories) == 0 {
		s.repositories = []string{"app"}
	}
	for _, name := range s.repositories {
		b.must(b.host.AddRepository(fakehost.NewRepository{
			Owner: "acme", Name: name, Files: map[string]string{".batchbot.yml": s.file},
			Permissions: map[string]string{"ada": fakehost.RoleWrite, "rita": fakehost.RoleMaintain},
		}))
	}
	adapter, err := github.New(github.Config{
		Name: "github", APIURL: "http://fakehost.test", GitURL: filepath.Join(dir, "host"), AppID: 1, PrivateKey: bot.Secret(pem),
		WebhookSecrets: []bot.Secret{hookSecret}, HTTPTransport: b.host.RoundTripper(), WriteSpacing: -1, Meter: b.meter, Logger: log,
	})
	b.must(err)
	merger, err := gitmerge.New(gitmerge.Options{Dir: filepath.Join(dir, "mirrors"), TmpDir: filepath.Join(dir, "quarantine"), Logger: log})
	b.must(err)
	var git bot.Git = merger
	if s.git != nil {
		git = s.git(merger)
	}
	path := filepath.Join(dir, "batchbot.db")
	b.store, err = store.Open(t.Context(), store.Options{Driver: store.SQLite, Path: path})
	b.must(err)
	b.must(b.store.Migrate(t.Context()))
	b.db, err = sql.Open("sqlite", "file:"+path+"?mode=ro&_pragma=busy_timeout(10000)")
	b.must(err)

	hosts := map[string]bot.Host{"github": adapter}
	var driver *round.Driver
	sender := outbox.New(outbox.Config{Store: b.store, Hosts: hosts, Git: git, Logger: log, Revisit: func(ctx context.Context, id int64) error { return driver.Revisit(ctx, id) }})
	driver = round.New(round.Config{Store: b.store, Locks: b.store, Hosts: hosts, Git: git, Logger: log, Poll: defaults.Rounds.Poll, NudgeOutbox: sender.Nudge})
	applier := intake.NewApplier(intake.ApplierConfig{
		Records: b.store, Hosts: hosts, Git: git, ParseSettings: config.ParseRepositoryFile, Nudge: driver.Nudge, NudgeOutbox: sender.Nudge, Order: driver.Order, Logger: log,
	})
	worker := intake.NewWorker(intake.WorkerConfig{Inbox: b.store, Webhooks: map[string]bot.Webhooks{"github": adapter}, Apply: applier.Apply, Logger: log})
	looker := intake.NewLooker(intake.LookerConfig{Applier: applier, Base: defaults.Look.Interval, Most: defaults.Look.MaxInterval, Report: b.meter.looked, Logger: log})
	handler := intake.NewHandler(intake.HandlerConfig{
		Hosts: map[string]intake.Source{"/webhooks/github": {Name: "github", Webhooks: adapter}}, Inbox: b.store, Nudge: worker.Nudge, Logger: log,
	})
	b.host.SetDeliver(fakehost.DeliverTo(handler, "/webhooks/github"))

	ctx, cancel := context.WithCancel(t.Context())
	var loops sync.WaitGroup
	loops.Go(func() { worker.Run(ctx) })
	loops.Go(func() { looker.Run(ctx) })
	loops.Go(func() { sender.Run(ctx) })
	loops.Go(func() { _ = driver.Run(ctx) }) // it returns nil
	b.stop = func() {
		cancel()
		loops.Wait()
		b.host.Close()
		_ = b.db.Close()
		_ = b.store.Close()
		if t.Failed() {
			t.Logf("the bot logged:\n%s", tail(b.log.String(), 400))
		}
	}
	return b
}

func (b *bubble) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// applied opens a merge request and says /batch.
func (b *bubble) applied(repo, branch string) int {
	b.t.Helper()
	number, err := b.host.OpenMR(repo, fakehost.NewMR{Author: "ada", Head: branch, Title: branch, Files: map[string]string{branch + ".txt": branch}})
	b.must(err)
	_, err = b.host.Comment(repo, number, "ada", "/batch")
	b.must(err)
	return number
}

func (b *bubble) approve(repo string, numbers ...int) {
	b.t.Helper()
	for _, n := range numbers {
		_, err := b.host.Review(repo, n, "rita", fakehost.Approved, "")
		b.must(err)
	}
}

// until lets time pass until something holds, and returns how much did.
func (b *bubble) until(limit time.Duration, what string, holds func() bool) time.Duration {
	b.t.Helper()
	start := time.Now()
	for {
		synctest.Wait()
		if holds() {
			return time.Since(start)
		}
		if time.Since(start) > limit {
			b.t.Fatalf("waited %s in vain for %s", limit, what)
		}
		time.Sleep(5 * time.Second)
	}
}

// status is that of the newest operation of a merge request; 0: there is none.
func (b *bubble) status(repo string, number int) (status bot.OperationStatus) {
	b.t.Helper()
	row := b.db.QueryRowContext(b.t.Context(), `SELECT COALESCE((SELECT o.status FROM operation o JOIN merge_request m ON m.id = o.merge_request_id
		JOIN repository r ON r.id = m.repository_id WHERE r.path = ? AND m.number = ? ORDER BY o.created_at DESC LIMIT 1), 0)`, repo, number)
	b.must(row.Scan(&status))
	return status
}

// becomes waits until all of these merge requests have a status.
func (b *bubble) becomes(limit time.Duration, repo string, status bot.OperationStatus, numbers ...int) time.Duration {
	b.t.Helper()
	return b.until(limit, status.String(), func() bool {
		return !slices.ContainsFunc(numbers, func(n int) bool { return b.status(repo, n) != status })
	})
}

// underTest waits until CI runs on a batch of a repository, and returns the batch MR.
func (b *bubble) underTest(limit time.Duration) (mr int) {
	b.t.Helper()
	b.until(limit, "a batch under test", func() bool {
		row := b.db.QueryRowContext(b.t.Context(), `SELECT COALESCE((SELECT mr_number FROM merge_batch WHERE status = 1 AND phase = 3), 0)`)
		b.must(row.Scan(&mr))
		return mr != 0
	})
	return mr
}
