package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/config"
	"github.com/batchbot/batchbot/githost/fakehost"
)

// For hours not one webhook arrives. Commands, approvals, pushes, closings, and what people do to batch MRs are found all the same: within the
// longest pause between two looks, or the poll of a batch.
func TestWithoutWebhooksEverythingIsFound(t *testing.T) {
	t.Parallel()
	const look, poll = 12 * time.Minute, 2 * time.Minute // what the defaults promise, and the time it takes
	inBubble(t, bubbleSettings{ci: fakehost.CI{Mode: fakehost.CIManual, BranchPrefix: bot.BatchBranchPrefix}}, func(t *testing.T, b *bubble) {
		b.must(b.host.Break(fakehost.Fault{On: "HOOK *", Do: fakehost.FaultLose}))
		start := time.Now()
		time.Sleep(20 * time.Minute) // it is quiet, so looks are as rare as they get

		one, two, shut := b.applied(e2eRepo, "one"), b.applied(e2eRepo, "two"), b.applied(e2eRepo, "shut")
		t.Logf("commands were found after %s", b.becomes(look, e2eRepo, bot.OperationPendingApproval, one, two, shut))
		b.must(b.host.CloseMR(e2eRepo, shut, "ada"))
		b.approve(e2eRepo, one, two)
		t.Logf("approvals and a closing were found after %s",
			b.becomes(look, e2eRepo, bot.OperationBatched, one, two)+b.becomes(look, e2eRepo, bot.OperationClosed, shut))

		// A push takes one member out of the batch; CI of the rest ends, and it lands.
		b.underTest(poll)
		_, err := b.host.PushTo(e2eRepo, two, map[string]string{"two.txt": "better"})
		b.must(err)
		t.Logf("a push to a member was found after %s", b.becomes(look, e2eRepo, bot.OperationPendingApproval, two))
		b.underTest(poll)
		_, err = b.host.FinishCI("")
		b.must(err)
		t.Logf("the end of CI was found after %s", b.becomes(poll, e2eRepo, bot.OperationMerged, one))

		// A person merges a batch MR before CI has ended, and closes the next.
		b.approve(e2eRepo, two)
		b.becomes(look, e2eRepo, bot.OperationBatched, two)
		_, err = b.host.MergeMR(e2eRepo, b.underTest(poll), "rita")
		b.must(err)
		t.Logf("a batch MR merged by hand was found after %s", b.becomes(poll, e2eRepo, bot.OperationMerged, two))
		three := b.applied(e2eRepo, "three")
		b.approve(e2eRepo, three)
		b.becomes(2*look, e2eRepo, bot.OperationBatched, three)
		b.must(b.host.CloseMR(e2eRepo, b.underTest(poll), "rita"))
		t.Logf("a batch MR closed by hand was found after %s", b.becomes(poll, e2eRepo, bot.OperationWaiting, three))

		if since := time.Since(start); since < time.Hour {
			time.Sleep(time.Hour - since)
		}
		if n := count(t, b.db, `SELECT COUNT(*) FROM delivery`); n != 0 {
			t.Errorf("%d webhooks arrived", n)
		}
		if n := count(t, b.db, `SELECT COUNT(*) FROM queue WHERE status = 3 AND reason LIKE 'CLOSED_BY_PERSON%'`); n != 1 {
			t.Error("the queue did not park")
		}
		if n := count(t, b.db, `SELECT COUNT(*) FROM outbox WHERE status = 3`); n != 0 {
			t.Errorf("%d errands were given up", n)
		}
		for kind, want := range map[string]float64{"command": 4, "approved": 4, "head_moved": 1, "closed": 1} {
			// A batch finds a push by itself when its CI ends first; what is approved goes on at once or by the look.
			if n := counted64(t, b.meter.repairs, "github", kind); n > want || n == 0 {
				t.Errorf("%v repairs of the kind %s are counted, want at most %v", n, kind, want)
			}
		}
	})
}

// counted64 is what a counter with labels stands at.
func counted64(t *testing.T, c *prometheus.CounterVec, labels ...string) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			same := len(m.GetLabel()) == len(labels)
			for i, l := range m.GetLabel() {
				same = same && l.GetValue() == labels[i]
			}
			if same {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// gitOf hangs while it is asked about the repository with an external id.
type gitOf struct {
	bot.Git
	broken *atomic.Int64 // 0: none
}

func (g gitOf) wait(ctx context.Context, remote bot.GitRemote) error {
	for strings.HasSuffix(remote.Key, fmt.Sprintf("/%d", g.broken.Load())) {
		again := time.NewTimer(time.Second)
		select {
		case <-ctx.Done():
			again.Stop()
			return ctx.Err()
		case <-again.C:
		}
	}
	return nil
}

func (g gitOf) Build(ctx context.Context, remote bot.GitRemote, spec bot.BuildSpec) (bot.Build, error) {
	if err := g.wait(ctx, remote); err != nil {
		return nil, err
	}
	return g.Git.Build(ctx, remote, spec)
}

func (g gitOf) Inspect(ctx context.Context, remote bot.GitRemote, question bot.InspectSpec) (bot.Inspection, error) {
	if err := g.wait(ctx, remote); err != nil {
		return bot.Inspection{}, err
	}
	return g.Git.Inspect(ctx, remote, question)
}

// For an hour one repository is broken in one way or another, with a batch under way and commands coming in. Another one lands its batches in the
// same time as ever; and once it is mended, nothing of the first is lost.
func TestABrokenRepositoryDelaysNoOther(t *testing.T) {
	t.Parallel()
	const broken, fine = "acme/app", "acme/lib"
	for name, fault := range map[string]fakehost.Fault{
		"it never answers":  {On: "* /repos/acme/app*", Do: fakehost.FaultHang},
		"it answers 502":    {On: "* /repos/acme/app*", Do: fakehost.FaultStatus, Status: http.StatusBadGateway},
		"its lines are cut": {On: "* /repos/acme/app*", Do: fakehost.FaultDrop},
		"its git hangs":     {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var gitBroken atomic.Int64
			inBubble(t, bubbleSettings{
				repositories: []string{"app", "lib"}, ci: fakehost.CI{Mode: fakehost.CIDelayed, Delay: time.Minute, BranchPrefix: bot.BatchBranchPrefix},
				git: func(g bot.Git) bot.Git { return gitOf{g, &gitBroken} },
			}, func(t *testing.T, b *bubble) {
				land := func(n int) time.Duration {
					number := b.applied(fine, fmt.Sprintf("change-%d", n))
					b.approve(fine, number)
					return b.becomes(5*time.Minute, fine, bot.OperationMerged, number)
				}
				usual := max(land(0), land(1))
				var theirs []int
				for n := range 5 {
					theirs = append(theirs, b.applied(broken, fmt.Sprintf("before-%d", n)))
				}
				b.approve(broken, theirs...)
				b.underTest(time.Minute)
				if fault.Do == "" {
					gitBroken.Store(int64(count(t, b.db, `SELECT external_id FROM repository WHERE path = 'acme/app'`)))
				} else {
					b.must(b.host.Break(fault))
				}
				worst := time.Duration(0)
				for n := range 5 {
					theirs = append(theirs, b.applied(broken, fmt.Sprintf("meanwhile-%d", n)))
					b.approve(broken, theirs[len(theirs)-1])
					took := land(n + 2)
					worst = max(worst, took)
					time.Sleep(12*time.Minute - took)
				}
				t.Logf("a batch took %s as a rule, at most %s while another repository was broken", usual, worst)
				if worst > usual+10*time.Second {
					t.Errorf("a batch took %s while another repository was broken, else %s", worst, usual)
				}
				if fault.Do != "" {
					// Each probe is one call, every two minutes; without a breaker it would be hundreds.
					if n := b.host.Broken()[0].Struck; n == 0 || n > 150 {
						t.Errorf("it was asked %d times in an hour", n)
					}
				}
				b.host.Heal()
				gitBroken.Store(0)
				if n := count(t, b.db, `SELECT COUNT(*) FROM operation o JOIN queue q ON q.id = o.queue_id JOIN repository r ON r.id = q.repository_id
					WHERE r.path = 'acme/app' AND o.status = 4`); n > 0 {
					t.Errorf("%d of its merge requests landed while it was broken", n)
				}
				t.Logf("mended, it had landed everything after %s", b.becomes(90*time.Minute, broken, bot.OperationMerged, theirs...))
			})
		})
	}
}

// One real process, and a host in another that delivers no webhook at all: everything lands.
func TestARealProcessNeedsNoWebhooks(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{config.GitHub, config.GitLab} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, kind, "--ci", "delay", "--ci-delay", "100ms")
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			file := s.instance(t, "one", "look: {interval: 1s, max_interval: 2s}\nrounds: {poll: 1s}\n")
			if code, _, stderr := command(t, nil, "migrate", "--config", file); code != exitDone {
				t.Fatalf("migrate: %s", stderr)
			}
			must(s.client.Break(t.Context(), fakehost.Fault{On: "HOOK *", Do: fakehost.FaultLose}))
			must(s.client.AddRepository(t.Context(), fakehost.NewRepository{
				Owner: "acme", Name: "app", Files: map[string]string{".batchbot.yml": "queues:\n  - branch: main\n    checks: {required: [ci]}\n"},
				Permissions: map[string]string{"ada": fakehost.RoleWrite, "rita": fakehost.RoleMaintain},
			}))
			// Repositories are listed at the start and then each hour.
			_, address := startServe(t, s.dir, file)
			must(s.client.SetWebhook(t.Context(), s.webhook(address), hookSecret))
			var numbers []int
			for n := range 4 {
				number, err := s.client.OpenMR(t.Context(), e2eRepo, fakehost.NewMR{
					Author: "ada", Head: fmt.Sprintf("change-%d", n), Title: fmt.Sprintf("Change %d", n), Files: map[string]string{fmt.Sprintf("%d.txt", n): "new\n"},
				})
				must(err)
				numbers = append(numbers, number)
				_, err = s.client.Comment(t.Context(), e2eRepo, number, "ada", "/batch")
				must(err)
				_, err = s.client.Review(t.Context(), e2eRepo, number, "rita", fakehost.Approved, "")
				must(err)
			}
			within(t, 3*time.Minute, "four merged members and silence", func() bool {
				return count(t, s.db, `SELECT COUNT(*) FROM operation WHERE status = 4`) == len(numbers) && s.quiet(t)
			})
			s.checkLanded(t)
			checkNothingTwice(t, s.state(t))
			if n := count(t, s.db, `SELECT COUNT(*) FROM delivery`); n != 0 {
				t.Errorf("%d webhooks arrived", n)
			}
		})
	}
}

// Every way in which a GitHub asks for a pause, in the middle of the work: not one request goes out until it is over, and then the work goes on.
func TestAPauseTheHostAsksForIsKept(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault fakehost.Fault
		pause time.Duration
	}{
		"a secondary limit without a time": {fakehost.Fault{Do: fakehost.FaultSecondaryLimit}, time.Minute},
		"a secondary limit with a time":    {fakehost.Fault{Do: fakehost.FaultSecondaryLimit, Wait: 3 * time.Minute}, 3 * time.Minute},
		"a secondary limit by 429":         {fakehost.Fault{Do: fakehost.FaultSecondaryLimit, Status: http.StatusTooManyRequests, Wait: 2 * time.Minute}, 2 * time.Minute},
		"the primary limit":                {fakehost.Fault{Do: fakehost.FaultPrimaryLimit, Wait: 20 * time.Minute}, 20 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, bubbleSettings{ci: fakehost.CI{Mode: fakehost.CIDelayed, Delay: time.Minute, BranchPrefix: bot.BatchBranchPrefix}}, func(t *testing.T, b *bubble) {
				first := b.applied(e2eRepo, "first")
				b.approve(e2eRepo, first)
				b.underTest(time.Minute)
				fault := test.fault
				fault.On, fault.Times = "GET /repos/acme/app/*", 1
				b.must(b.host.Break(fault))
				b.until(time.Minute, "the limit", func() bool { return b.host.Broken()[0].Struck == 1 })
				asked := b.meter.sum(t)
				second := b.applied(e2eRepo, "second") // its webhook arrives in the middle
				b.approve(e2eRepo, second)
				time.Sleep(test.pause - 10*time.Second)
				synctest.Wait()
				if n := b.meter.sum(t); n != asked {
					t.Errorf("%v requests went out while the host wanted peace", n-asked)
				}
				if n := counted64(t, b.meter.pauses, "github"); n != 1 {
					t.Errorf("%v pauses are counted", n)
				}
				b.becomes(10*time.Minute, e2eRepo, bot.OperationMerged, first, second)
			})
		})
	}
}

// sum is how many requests went out.
func (m *meter) sum(t *testing.T) (n float64) {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(m.requests)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, metric := range f.GetMetric() {
			n += metric.GetCounter().GetValue()
		}
	}
	return n
}

func TestMetricsShowWhatHostsAreAsked(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchSettings{})
	b.becomes(t, b.opened(t, "first"), bot.OperationMerged)
	status, body := get(t, b.program.url+"/metrics")
	if status != http.StatusOK {
		t.Fatalf("/metrics answers %d", status)
	}
	contains(t, "/metrics", body, `batchbot_host_requests_total{code="200",host="github",op="GET pulls"}`, `batchbot_host_requests_total{code="201",host="github",op="POST issues"}`,
		`batchbot_host_ratelimit_remaining{credential="installation `, `batchbot_host_held_back{host="github"} 0`)
}
