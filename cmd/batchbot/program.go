package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/curated"
	"github.com/batchbot/batchbot/bot/intake"
	"github.com/batchbot/batchbot/bot/job"
	"github.com/batchbot/batchbot/bot/lease"
	"github.com/batchbot/batchbot/bot/outbox"
	"github.com/batchbot/batchbot/bot/reconcile"
	"github.com/batchbot/batchbot/bot/round"
	"github.com/batchbot/batchbot/bot/train"
	"github.com/batchbot/batchbot/config"
	"github.com/batchbot/batchbot/githost"
	"github.com/batchbot/batchbot/githost/github"
	"github.com/batchbot/batchbot/githost/gitlab"
	"github.com/batchbot/batchbot/githost/gitmerge"
	"github.com/batchbot/batchbot/store"
)

// program is a running batchbot as a value: build, run, close. serve makes one from a settings file; tests and the demo make theirs in the
// same way and differ in the settings only.
type program struct {
	url string // of this server, for clients on this machine

	log      *slog.Logger
	settings config.Settings
	store    *store.Store
	listener net.Listener
	server   *http.Server
	worker   *intake.Worker
	looker   *intake.Looker
	sender   *outbox.Sender
	driver   *round.Driver
	meter    *meter

	applier    *intake.Applier
	desk       *curated.Desk
	reconciler *reconcile.Reconciler
	trains     *train.Keeper
	scheduler  *job.Scheduler

	pace lease.Pace // of the loops over deliveries and errands; zero: as they see fit

	// roundsAfter holds rounds back until it is closed; nil starts them at once. The demo uses it to let everybody in first.
	roundsAfter <-chan struct{}
}

// build opens and checks everything, and takes the address: when it returns, all that can be wrong with the settings has been
// found. The caller closes the program.
func build(ctx context.Context, settings config.Settings, log *slog.Logger) (*program, error) {
	return buildAt(ctx, settings, log, pace())
}

// buildAt is build with a pace for the loops over deliveries and errands.
func buildAt(ctx context.Context, settings config.Settings, log *slog.Logger, pace lease.Pace) (p *program, err error) {
	p = &program{log: log, settings: settings, pace: pace}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	adapters, err := p.assemble(ctx, settings.Database.Driver == config.SQLite || settings.Database.Migrate)
	if err != nil {
		return p, err
	}
	webhooks, sources := make(map[string]bot.Webhooks), make(map[string]intake.Source)
	for _, h := range settings.Hosts {
		webhooks[h.Name] = adapters[h.Name]
		for _, path := range webhookPaths(settings.Hosts, h) {
			sources[path] = intake.Source{Name: h.Name, Webhooks: adapters[h.Name]}
		}
	}
	if p.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", settings.Listen); err != nil {
		return p, fmt.Errorf("listen: %w: stop what uses this address or choose another", err)
	}
	p.url = baseURL(p.listener.Addr())

	p.worker = intake.NewWorker(intake.WorkerConfig{Pace: pace, Inbox: p.store, Webhooks: webhooks, Apply: p.applier.Apply, Logger: log})
	p.looker = intake.NewLooker(intake.LookerConfig{
		Applier: p.applier, Base: settings.Look.Interval, Most: settings.Look.MaxInterval, Report: p.meter.looked, Logger: log,
	})
	handler := intake.NewHandler(intake.HandlerConfig{Hosts: sources, Inbox: p.store, Nudge: p.worker.Nudge, Logger: log})
	m := newMetrics(p.store, sources, p.meter, log)
	p.server = newServer(routes(handler, p.api(m), p.store, m, log), log)
	return p, nil
}

// assemble opens what acts on rows and hosts: everything but the door. The caller closes the program.
func (p *program) assemble(ctx context.Context, migrate bool) (adapters map[string]adapter, err error) {
	settings, log := p.settings, p.log
	if err := os.MkdirAll(settings.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("data_dir: %w: name a folder that this process may write to", err)
	}
	git, err := gitmerge.New(gitmerge.Options{Dir: filepath.Join(settings.DataDir, "mirrors"), Logger: log})
	if err != nil {
		return nil, err
	}
	p.meter = newMeter()
	adapters, hosts := make(map[string]adapter), make(map[string]bot.Host)
	for _, h := range settings.Hosts {
		host, err := newHost(h, p.meter, log)
		if err != nil {
			return nil, err
		}
		adapters[h.Name], hosts[h.Name] = host, host
	}
	if p.store, err = openStore(ctx, settings, migrate); err != nil {
		return nil, err
	}
	if err := p.store.CheckMigrated(ctx); err != nil {
		return nil, err
	}
	if err := p.store.CheckIsolation(ctx); err != nil {
		return nil, err
	}
	p.sender = outbox.New(outbox.Config{
		Pace: p.pace, Store: p.store, Reminders: p.store, Hosts: hosts, Git: git, Logger: log,
		Revisit: func(ctx context.Context, batchID int64) error { return p.driver.Revisit(ctx, batchID) },
	})
	p.driver = round.New(round.Config{
		Store: p.store, Locks: p.store, Hosts: hosts, Git: git, Logger: log, Poll: settings.Rounds.Poll, NudgeOutbox: p.sender.Nudge,
	})
	p.desk = curated.New(curated.Config{
		Store: p.store, Hosts: hosts, Git: git, NudgeQueue: p.driver.Nudge, NudgeOutbox: p.sender.Nudge,
		NewID: func() string { return p.applier.NewID() }, Logger: log,
	})
	p.applier = intake.NewApplier(intake.ApplierConfig{
		Records: p.store, Hosts: hosts, Git: git, ParseSettings: config.ParseRepositoryFile, Nudge: p.driver.Nudge, NudgeOutbox: p.sender.Nudge,
		Order: p.driver.Order, Logger: log, Trains: p.store, Curated: p.desk,
		OpenTrains: func(ctx context.Context, queue bot.Queue) error { return p.trains.Open(ctx, queue) },
	})
	p.trains = train.New(train.Config{Store: p.store, Applier: p.applier, Nudge: p.driver.Nudge, NudgeOutbox: p.sender.Nudge, Logger: log})
	p.reconciler = reconcile.New(reconcile.Config{
		Store: p.store, Hosts: hosts, Git: git, Applier: p.applier, Report: p.meter.reconciled, Logger: log,
		Round: func(ctx context.Context, queueID int64) (bool, error) {
			result, err := p.driver.RunOnce(ctx, queueID)
			return result.Again, err
		},
	})
	jobs, err := p.jobs()
	if err != nil {
		return nil, err
	}
	p.scheduler = job.New(job.Config{Store: p.store, Jobs: jobs, Ended: p.meter.jobEnded, Missed: p.meter.jobMissed, Logger: log})
	return adapters, nil
}

// adapter is a Git host both ways.
type adapter interface {
	bot.Host
	bot.Webhooks
}

// newHost makes the adapter of one configured host.
func newHost(h config.Host, m githost.Meter, log *slog.Logger) (adapter, error) {
	if h.Type == config.GitLab {
		return newGitLab(h, m, log)
	}
	return github.New(github.Config{
		Name: h.Name, APIURL: h.APIURL, WebURL: h.WebURL, GitURL: h.GitURL,
		AppID: h.App.ID, PrivateKey: h.App.PrivateKey, Token: h.Token,
		WebhookSecrets: h.WebhookSecrets, WriteSpacing: spacing(h), UserAgent: userAgent(), Meter: m, Logger: log,
	})
}

func newGitLab(h config.Host, m githost.Meter, log *slog.Logger) (*gitlab.Host, error) {
	return gitlab.New(gitlab.Config{
		Name: h.Name, APIURL: h.APIURL, WebURL: h.WebURL, GitURL: h.GitURL, Token: h.Token,
		WebhookSecrets: h.WebhookSecrets, SigningTokens: h.SigningTokens, WriteSpacing: spacing(h), UserAgent: userAgent(), Meter: m, Logger: log,
	})
}

// spacing is the configured write spacing as the adapters take it: to them 0 means their own choice.
func spacing(h config.Host) time.Duration {
	if h.WriteSpacing == 0 {
		return -1
	}
	return h.WriteSpacing
}

func userAgent() string { return "batchbot/" + readVersion().Version }

// openStore opens the database and, if asked to, migrates it.
func openStore(ctx context.Context, settings config.Settings, migrate bool) (*store.Store, error) {
	d := settings.Database
	if d.Driver == config.SQLite {
		if err := os.MkdirAll(filepath.Dir(d.Path), 0o700); err != nil {
			return nil, fmt.Errorf("database.path: %w: name a file in a folder that this process may write to", err)
		}
	}
	s, err := store.Open(ctx, store.Options{
		Driver: store.Driver(d.Driver), DSN: d.DSN.Reveal(), Path: d.Path, Patience: d.ConnectTimeout, Env: settings.Environment,
		MaxConns: d.MaxConnections, Retention: store.Retention(settings.Retention),
	})
	if err != nil {
		return nil, err
	}
	if migrate {
		if err := s.Migrate(ctx); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// run serves until ctx ends and returns nil then. What is under way may finish within the shutdown timeout; what does not is abandoned: every step
// is continued from the rows by the next start.
func (p *program) run(ctx context.Context) error {
	for _, h := range p.settings.Hosts {
		address := p.settings.PublicURL
		if address == "" {
			address = p.url
		}
		p.log.Info("ready for webhooks", "host", h.Name, "url", address+webhookPaths(p.settings.Hosts, h)[0])
	}
	p.log.Info("started", "version", readVersion().Version, "listen", p.listener.Addr().String(), "database", p.settings.Database.Driver)

	group, running := errgroup.WithContext(ctx)
	group.Go(func() error {
		// The last part of the grace period belongs to what the requests nudged.
		if err := serveHTTP(running, p.server, p.listener, p.settings.ShutdownTimeout*3/4); err != nil {
			return fmt.Errorf("serving HTTP: %w", err)
		}
		return nil
	})
	group.Go(func() error { p.worker.Run(running); return nil })
	group.Go(func() error { p.looker.Run(running); return nil })
	group.Go(func() error { p.sender.Run(running); return nil })
	group.Go(func() error { p.scheduler.Run(running); return nil })
	group.Go(func() error {
		select {
		case <-running.Done():
			return nil
		case <-opened(p.roundsAfter):
			return p.driver.Run(running)
		}
	})
	ended := make(chan error, 1)
	go func() { ended <- group.Wait() }()
	select {
	case err := <-ended:
		return p.stopped(ctx, err)
	case <-running.Done():
	}
	p.log.Info("stopping", "within", p.settings.ShutdownTimeout.String())
	limit := time.NewTimer(p.settings.ShutdownTimeout)
	defer limit.Stop()
	select {
	case err := <-ended:
		return p.stopped(ctx, err)
	case <-limit.C:
		p.log.Warn("abandoned what did not finish in time; the next start continues it")
		return nil
	}
}

// stopped drops the errors that only say that ctx ended.
func (p *program) stopped(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil
	}
	if err == nil {
		p.log.Info("stopped")
	}
	return err
}

// opened is gate, or a gate that is open when there is none.
func opened(gate <-chan struct{}) <-chan struct{} {
	if gate != nil {
		return gate
	}
	open := make(chan struct{})
	close(open)
	return open
}

// close frees what build took. It is safe on a program that was built in part.
func (p *program) close() error {
	var err error
	if p.listener != nil {
		if e := p.listener.Close(); e != nil && !errors.Is(e, net.ErrClosed) {
			err = e
		}
	}
	if p.store != nil {
		err = errors.Join(err, p.store.Close())
	}
	return err
}
