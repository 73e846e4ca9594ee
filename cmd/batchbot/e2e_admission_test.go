package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/intake"
	"github.com/batchbot/batchbot/bot/outbox"
	"github.com/batchbot/batchbot/bot/round"
	"github.com/batchbot/batchbot/config"
	"github.com/batchbot/batchbot/githost/github"
	"github.com/batchbot/batchbot/store"
)

// hung is a host that takes every request and answers none.
type hung struct{ asked *atomic.Int64 }

func (h hung) RoundTrip(req *http.Request) (*http.Response, error) {
	h.asked.Add(1)
	<-req.Context().Done()
	return nil, req.Context().Err()
}

// hungGit never comes back either.
type hungGit struct{ bot.Git }

func (hungGit) Build(ctx context.Context, _ bot.GitRemote, _ bot.BuildSpec) (bot.Build, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (hungGit) Inspect(ctx context.Context, _ bot.GitRemote, _ bot.InspectSpec) (bot.Inspection, error) {
	<-ctx.Done()
	return bot.Inspection{}, ctx.Err()
}

func (hungGit) FastForward(ctx context.Context, _ bot.GitRemote, _, _, _ string) (bot.PushOutcome, error) {
	<-ctx.Done()
	return bot.PushOutcome{}, ctx.Err()
}

// ward is a bot whose host hangs: eight repositories with a queue each, whose batch is in another state each.
type ward struct {
	testing.TB
	store   *store.Store
	asked   atomic.Int64 // requests to the host
	handler *intake.Handler
	queues  []wardQueue
	said    int // commands so far
	start   func() (stop func())
}

type wardQueue struct {
	state string
	repo  bot.Repository
	queue bot.Queue
}

// wardStates are the states a batch can be in while somebody else is admitted, with what brings it there from CLAIMED.
var wardStates = []struct {
	name    string
	changes []bot.BatchChange
}{
	{name: "no batch"},
	{name: "CLAIMED", changes: []bot.BatchChange{}},
	{name: "BUILT", changes: []bot.BatchChange{{Phase: bot.PhaseBuilt}}},
	{name: "OPENED", changes: []bot.BatchChange{{Phase: bot.PhaseOpened, MRNumber: 900}}},
	{name: "waits for an approval", changes: []bot.BatchChange{{Phase: bot.PhaseOpened, MRNumber: 900, Code: bot.CodeNeedsApproval}}},
	{name: "LANDING", changes: []bot.BatchChange{{Phase: bot.PhaseLanding, MRNumber: 900}}},
	{name: "settles as failed", changes: []bot.BatchChange{{Phase: bot.PhaseOpened, MRNumber: 900, Code: bot.CodeCIRed}}},
	{name: "BLOCKED", changes: []bot.BatchChange{{Phase: bot.PhaseOpened, MRNumber: 900}, {Status: bot.BatchBlocked, Code: bot.CodeForeignPush}}},
}

func newWard(t testing.TB, driver string) *ward {
	t.Helper()
	w := &ward{TB: t}
	options := store.Options{Driver: store.SQLite, Path: filepath.Join(t.TempDir(), "batchbot.db")}
	if driver == config.MySQL {
		dsn, _ := emptyMySQL(t)
		options = store.Options{Driver: store.MySQL, DSN: dsn}
	}
	var err error
	w.store, err = store.Open(t.Context(), options)
	w.must(err)
	t.Cleanup(func() { _ = w.store.Close() })
	w.must(w.store.Migrate(t.Context()))
	adapter, err := github.New(github.Config{
		Name: "github", APIURL: "http://hung.test", AppID: 1, PrivateKey: bot.Secret(appKeyPEM()), WebhookSecrets: []bot.Secret{hookSecret}, HTTPTransport: hung{&w.asked},
	})
	w.must(err)
	hosts := map[string]bot.Host{"github": adapter}
	sender := outbox.New(outbox.Config{Store: w.store, Hosts: hosts, Git: hungGit{}})
	rounds := round.New(round.Config{Store: w.store, Locks: w.store, Hosts: hosts, Git: hungGit{}, Poll: time.Second})
	applier := intake.NewApplier(intake.ApplierConfig{Records: w.store, Hosts: hosts, Git: hungGit{}, ParseSettings: config.ParseRepositoryFile})
	worker := intake.NewWorker(intake.WorkerConfig{Inbox: w.store, Webhooks: map[string]bot.Webhooks{"github": adapter}, Apply: applier.Apply})
	looker := intake.NewLooker(intake.LookerConfig{Applier: applier, Base: time.Second})
	w.handler = intake.NewHandler(intake.HandlerConfig{
		Hosts: map[string]intake.Source{"/webhooks/github": {Name: "github", Webhooks: adapter}}, Inbox: w.store, Nudge: worker.Nudge,
	})
	w.start = func() func() {
		ctx, cancel := context.WithCancel(context.Background())
		var loops sync.WaitGroup
		loops.Go(func() { worker.Run(ctx) })
		loops.Go(func() { looker.Run(ctx) })
		loops.Go(func() { sender.Run(ctx) })
		loops.Go(func() { _ = rounds.Run(ctx) }) // it returns nil
		return func() { cancel(); loops.Wait() }
	}
	for i, state := range wardStates {
		w.queues = append(w.queues, w.bed(int64(i+1), state.name, state.changes))
	}
	return w
}

func (w *ward) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// bed makes a repository whose queue has a batch in a state.
func (w *ward) bed(id int64, state string, changes []bot.BatchChange) wardQueue {
	w.Helper()
	repo, err := w.store.UpsertRepository(w.Context(), bot.RepositoryRef{Host: "github", ExternalID: id, Path: fmt.Sprintf("acme/app-%d", id), Installation: 1, DefaultBranch: "main"})
	w.must(err)
	queue, err := w.store.UpsertQueue(w.Context(), repo.ID, bot.DefaultQueueSettings("main"), "")
	w.must(err)
	q := wardQueue{state: state, repo: repo, queue: queue}
	if changes == nil {
		return q
	}
	w.admit(q)
	claim, err := w.store.Claim(w.Context(), bot.ClaimSpec{QueueID: queue.ID, Kind: bot.BatchFresh, Limit: 1, Token: "0badcafe", Timeout: 24 * time.Hour})
	w.must(err)
	batch := claim.Batch
	if len(changes) > 0 {
		var ok bool
		batch, ok, err = w.store.RecordBuild(w.Context(), batch.Guard(), bot.BuildRecord{Result: bot.BuildResult{BaseSHA: commitNumber(1), HeadSHA: commitNumber(2)}, Timeout: 24 * time.Hour})
		if w.must(err); !ok {
			w.Fatal("the build was not recorded")
		}
	}
	for _, change := range changes {
		var ok bool
		batch, ok, err = w.store.ChangeBatch(w.Context(), batch.Guard(), change)
		if w.must(err); !ok {
			w.Fatalf("the batch does not become %+v", change)
		}
	}
	return q
}

func commitNumber(n int) string { return fmt.Sprintf("%040x", n) }

// admit admits one more merge request to a queue.
func (w *ward) admit(q wardQueue) time.Duration {
	w.Helper()
	w.said++
	application := bot.Application{
		OperationID: fmt.Sprintf("00000000-0000-4000-8000-%012d", w.said), QueueID: q.queue.ID, Repository: q.repo, Admit: true, Lane: bot.LaneNormal, ExpiresIn: time.Hour,
		MR:      bot.MRSnapshot{Number: w.said, Title: "Change", Author: bot.Actor{ID: 1, Login: "ada"}, State: bot.MROpen, HeadSHA: commitNumber(w.said), Target: "main"},
		Command: bot.CommandRef{RequestID: fmt.Sprintf("github:issue:%d:1", w.said), Order: bot.CommandOrder{At: int64(w.said), ID: int64(w.said)}, By: "ada", Verb: "batch"},
	}
	begin := time.Now()
	result, err := w.store.Apply(w.Context(), application)
	took := time.Since(begin)
	if err != nil || result.Outcome != bot.ApplyDone || result.Operation.Status != bot.OperationWaiting {
		w.Fatalf("with %s an admission was refused: %+v, %v", q.state, result, err)
	}
	return took
}

// hear takes one webhook in: a comment that says /batch.
func (w *ward) hear(q wardQueue) time.Duration {
	w.Helper()
	w.said++
	body := fmt.Appendf(nil, `{"action":"created","repository":{"id":%d,"full_name":%q},"installation":{"id":1},"issue":{"number":%d,"pull_request":{}},
		"comment":{"id":%d,"body":"/batch","created_at":"2030-01-01T00:00:00Z","user":{"id":1,"login":"ada","type":"User"}},"sender":{"id":1,"login":"ada","type":"User"}}`,
		q.repo.ExternalID, q.repo.Path, w.said, w.said)
	request := httptest.NewRequestWithContext(w.Context(), http.MethodPost, "/webhooks/github", bytes.NewReader(body))
	mac := hmac.New(sha256.New, []byte(hookSecret))
	mac.Write(body)
	request.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-GitHub-Event", "issue_comment")
	request.Header.Set("X-GitHub-Delivery", fmt.Sprintf("00000000-0000-0000-0000-%012d", w.said))
	answer := httptest.NewRecorder()
	begin := time.Now()
	w.handler.ServeHTTP(answer, request)
	took := time.Since(begin)
	if answer.Code != http.StatusAccepted || answer.Body.String() != "stored\n" {
		w.Fatalf("with %s a webhook got %d: %s", q.state, answer.Code, answer.Body)
	}
	return took
}

// quantile is a quantile of durations.
func quantile(list []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// While the host takes every call and answers none, with a batch in each state it can be in and all loops at work: every webhook is stored and
// answered, every admission goes through, and neither waits for the host. What is fast on one machine is slow on another, so the time is
// held against that of the same database in peace.
func TestAdmissionDoesNotWaitForAHostThatHangs(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{config.SQLite, config.MySQL} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			w := newWard(t, driver)
			measure := func(n int) (webhooks, admissions []time.Duration) {
				for range n {
					for _, q := range w.queues {
						webhooks, admissions = append(webhooks, w.hear(q)), append(admissions, w.admit(q))
					}
				}
				return webhooks, admissions
			}
			measure(5)
			peaceful, peacefully := measure(25)
			stop := w.start()
			defer stop()
			within(t, time.Minute, "calls that hang", func() bool { return w.asked.Load() >= 4 })
			webhooks, admissions := measure(100)
			for _, m := range []struct {
				what         string
				peace, hangs []time.Duration
			}{{"webhook", peaceful, webhooks}, {"admission", peacefully, admissions}} {
				t.Logf("%s: p50 %s, p99 %s of %d while the host hangs; p50 %s, p99 %s of %d in peace", m.what, quantile(m.hangs, 0.5), quantile(m.hangs, 0.99), len(m.hangs),
					quantile(m.peace, 0.5), quantile(m.peace, 0.99), len(m.peace))
				// The loops write too, so it is not the same; to wait for a call that hangs would take thirty seconds.
				if slow, usual := quantile(m.hangs, 0.5), quantile(m.peace, 0.5); slow > 30*usual {
					t.Errorf("a %s takes %s while the host hangs, else %s", m.what, slow, usual)
				}
			}
		})
	}
}

// BenchmarkAdmissionWhileTheHostHangs measures webhooks and admissions for each state of a batch: -benchtime=1000x takes a thousand of each.
func BenchmarkAdmissionWhileTheHostHangs(b *testing.B) {
	for _, driver := range []string{config.SQLite, config.MySQL} {
		b.Run(driver, func(b *testing.B) {
			w := newWard(b, driver)
			stop := w.start()
			defer stop()
			for _, q := range w.queues {
				for what, do := range map[string]func(wardQueue) time.Duration{"webhook": w.hear, "admission": w.admit} {
					b.Run(q.state+"/"+what, func(b *testing.B) {
						var took []time.Duration
						for b.Loop() {
							took = append(took, do(q))
						}
						b.ReportMetric(float64(quantile(took, 0.5).Microseconds())/1000, "p50-ms")
						b.ReportMetric(float64(quantile(took, 0.99).Microseconds())/1000, "p99-ms")
					})
				}
			}
		})
	}
}
