package intake

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// A repository whose host never answers has far more deliveries than a worker claims at once; those of another are applied all the same, as soon
// as they come.
func TestARepositoryThatHangsDelaysNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const hangs, fine = 1, 2
		inbox := &fakeInbox{}
		var mu sync.Mutex
		applied := make(map[int]time.Time) // merge requests of the repository that is fine
		worker := NewWorker(WorkerConfig{
			Inbox: inbox,
			Webhooks: map[string]bot.Webhooks{"git": fakeHooks{parse: func(_ string, payload []byte) (events []bot.Event, why string, err error) {
				e := bot.Event{Kind: bot.EventMergeRequest, Repository: bot.RepositoryRef{Host: "git"}}
				_, err = fmt.Sscan(string(payload), &e.Repository.ExternalID, &e.Number)
				return []bot.Event{e}, "", err
			}}},
			Apply: func(ctx context.Context, _ string, e bot.Event) error {
				if e.Repository.ExternalID == hangs {
					<-ctx.Done()
					return ctx.Err()
				}
				mu.Lock()
				defer mu.Unlock()
				applied[e.Number] = time.Now()
				return nil
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		ended.Go(func() { worker.Run(ctx) })
		n := 0
		comes := func(repository, number int) {
			n++
			_, _ = inbox.InsertDelivery(ctx, "git", fmt.Sprint(n), "x", fmt.Appendf(nil, "%d %d", repository, number))
		}
		for number := range 200 {
			comes(hangs, number+1)
		}
		for minute := range 10 {
			comes(hangs, 1000+minute)
			came := time.Now()
			comes(fine, minute+1)
			worker.Nudge()
			time.Sleep(time.Minute)
			synctest.Wait()
			mu.Lock()
			at, ok := applied[minute+1]
			mu.Unlock()
			if minute == 0 {
				inbox.mu.Lock()
				held, putOff := inbox.deliveries[100], inbox.deliveries[150]
				inbox.mu.Unlock()
				if held.err != "" || !strings.Contains(putOff.err, "earlier deliveries of its repository") {
					t.Errorf("of a crowd the hundredth says %q and the 150th %q, want that only the latter is put off", held.err, putOff.err)
				}
			}
			// The first one comes behind seven claims of what hangs, of which only the first is waited for; the last find a crowd.
			if took := at.Sub(came); !ok || took > 5*time.Second {
				t.Errorf("minute %d: applied %v, after %s", minute, ok, took)
			}
		}
		cancel()
		ended.Wait()
		inbox.mu.Lock()
		defer inbox.mu.Unlock()
		for _, d := range inbox.deliveries[:200] {
			if d.status != bot.DeliveryDue {
				t.Fatalf("a delivery of the repository that hangs ended as %d after %d tries", d.status, d.Attempts)
			}
		}
	})
}

// hangingHost answers nothing about one of its repositories, or nothing at all.
type hangingHost struct {
	*fakeHost
	repository int64 // by external id; 0: all
}

func (h hangingHost) hang(ctx context.Context, repo bot.Repository) error {
	if h.repository == 0 || h.repository == repo.ExternalID {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (h hangingHost) ListRepositories(ctx context.Context) ([]bot.RepositoryRef, error) {
	if h.repository == 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return h.fakeHost.ListRepositories(ctx)
}

func (h hangingHost) ListUpdatedMRs(ctx context.Context, repo bot.Repository, since time.Time) ([]bot.MRSnapshot, error) {
	if err := h.hang(ctx, repo); err != nil {
		return nil, err
	}
	return h.fakeHost.ListUpdatedMRs(ctx, repo, since)
}

// Looks at a repository, or at a whole host, that hangs take their five minutes each; looks elsewhere come when they are due.
func TestALookThatHangsDelaysNoOther(t *testing.T) {
	t.Parallel()
	for name, hanging := range map[string]int64{"one repository": 4712, "a whole host": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				bad := hangingHost{fakeHost: w.host, repository: hanging}
				if hanging != 0 {
					w.host.refs = append(w.host.refs, bot.RepositoryRef{Host: "git", ExternalID: hanging, Path: "team/lib", Installation: 9})
					_, _ = w.rows.UpsertRepository(t.Context(), w.host.refs[1])
					w.applier.Hosts = map[string]bot.Host{"git": bad}
				} else {
					w.applier.Hosts["down"] = bad
				}
				ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute+30*time.Second)
				defer cancel()
				looker := w.looker()
				looker.config.Most = time.Minute
				looker.Run(ctx)
				if n := w.steps.count("ListUpdatedMRs"); n < 4 || n > 5 {
					t.Errorf("%d looks in four and a half minutes, want one at once and one a minute", n)
				}
				if n := w.steps.count("ActiveRepositories"); n != (1+5)*len(w.applier.Hosts) { // listing them on the host reads them once, too
					t.Errorf("%d ticks of %d hosts, want one at once and one a minute", n, len(w.applier.Hosts))
				}
			})
		})
	}
}
