package intake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/lease"
)

// office is an inbox with a worker. A payload is a number, a merge request's; the event names what applying it does.
type office struct {
	inbox  *fakeInbox
	worker *Worker
	apply  func(ctx context.Context, number int) error

	mu      sync.Mutex
	applied []int
}

func newOffice(apply func(ctx context.Context, number int) error) *office {
	o := &office{inbox: &fakeInbox{}, apply: apply}
	o.worker = NewWorker(WorkerConfig{
		Inbox: o.inbox,
		Webhooks: map[string]bot.Webhooks{"git": fakeHooks{parse: func(event string, payload []byte) ([]bot.Event, string, error) {
			switch event {
			case "ping":
				return nil, "event ping is not used", nil
			case "crash":
				panic("reading")
			}
			number, err := strconv.Atoi(string(payload))
			if err != nil {
				return nil, "", fmt.Errorf("the payload is not valid: %w", err)
			}
			return []bot.Event{{Kind: bot.EventMergeRequest, Number: number, Repository: bot.RepositoryRef{Host: "git", ExternalID: 1}}}, "", nil
		}}},
		Apply: func(ctx context.Context, _ string, e bot.Event) error {
			if err := o.apply(ctx, e.Number); err != nil {
				return err
			}
			o.mu.Lock()
			defer o.mu.Unlock()
			o.applied = append(o.applied, e.Number)
			return nil
		},
		Pace: lease.Pace{MaxAttempts: 4},
	})
	return o
}

func (o *office) receives(event, payload string) *stored {
	_, _ = o.inbox.InsertDelivery(context.Background(), "git", fmt.Sprint("k", len(o.inbox.deliveries)), event, []byte(payload))
	o.inbox.mu.Lock()
	defer o.inbox.mu.Unlock()
	return o.inbox.deliveries[len(o.inbox.deliveries)-1]
}

func (o *office) status(d *stored) bot.DeliveryStatus {
	o.inbox.mu.Lock()
	defer o.inbox.mu.Unlock()
	return d.status
}

func (o *office) works(t *testing.T) Work {
	t.Helper()
	work, err := o.worker.RunOnce(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return work
}

func fine(context.Context, int) error { return nil }

func TestDeliveriesEndAsTheirOutcomeSays(t *testing.T) {
	t.Parallel()
	o := newOffice(func(_ context.Context, number int) error {
		switch number {
		case 2:
			return fmt.Errorf("reading it: %w", bot.ErrGone)
		case 3:
			return errDown
		case 4:
			panic("applying")
		case 5:
			return fmt.Errorf("reading it: %w", &bot.RateLimitedError{RetryAfter: time.Hour})
		}
		return nil
	})
	good, gone, down, panics, limited := o.receives("pull_request", "1"), o.receives("pull_request", "2"), o.receives("pull_request", "3"), o.receives("pull_request", "4"), o.receives("pull_request", "5")
	junk, ping, crash := o.receives("pull_request", "{{{"), o.receives("ping", ""), o.receives("crash", "")
	stranger := o.receives("pull_request", "1")
	stranger.Host = "elsewhere"

	if work := o.works(t); work != (Work{Claimed: 9, Applied: 1, Ignored: 2, Retried: 3, Failed: 3}) {
		t.Errorf("work %+v", work)
	}
	for _, c := range []struct {
		name   string
		d      *stored
		status bot.DeliveryStatus
		words  string
	}{
		{"good", good, bot.DeliveryDone, ""},
		{"gone", gone, bot.DeliveryIgnored, "no longer accessible"},
		{"down", down, bot.DeliveryDue, "not reachable"},
		{"panics", panics, bot.DeliveryDue, "applying it panicked"},
		{"limited", limited, bot.DeliveryDue, "pause of 1h"},
		{"junk", junk, bot.DeliveryFailed, "could not be read: the payload is not valid"},
		{"unused", ping, bot.DeliveryIgnored, "not used"},
		{"crash", crash, bot.DeliveryFailed, "reading it panicked"},
		{"unknown host", stranger, bot.DeliveryFailed, `the host "elsewhere" is not in the configuration`},
	} {
		if c.d.status != c.status || !strings.Contains(c.d.err, c.words) {
			t.Errorf("%s: %d %q", c.name, c.d.status, c.d.err)
		}
	}
	if wait := time.Until(limited.due); wait < 59*time.Minute {
		t.Errorf("the host's pause was not kept: %s", wait)
	}
}

func TestPoisonBacksOffIsGivenUpAndStallsNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(func(_ context.Context, number int) error {
			if number == 1 {
				return errDown
			}
			return nil
		})
		poison := o.receives("pull_request", "1")
		o.receives("pull_request", "2")
		var pauses []time.Duration
		for range 4 {
			o.works(t)
			if poison.status != bot.DeliveryDue {
				break
			}
			wait := time.Until(poison.due)
			pauses = append(pauses, wait)
			time.Sleep(wait) // the bubble's clock
		}
		if poison.status != bot.DeliveryFailed || poison.Attempts != 4 || !slices.Equal(o.applied, []int{2}) {
			t.Errorf("poison is %d after %d attempts, applied %v", poison.status, poison.Attempts, o.applied)
		}
		for i, base := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second} {
			if pauses[i] < base*3/4 || pauses[i] > base*5/4 {
				t.Errorf("pause %d is %s, want about %s", i+1, pauses[i], base)
			}
		}
	})
}

// A host in trouble is no fault of a delivery: it is tried until the host is well, however long that takes.
func TestNoDeliveryIsGivenUpForAHostInTrouble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		well := false
		o := newOffice(func(context.Context, int) error {
			if !well {
				return fmt.Errorf("reading it: 502: %w", bot.ErrUnavailable)
			}
			return nil
		})
		d := o.receives("pull_request", "1")
		for range 30 {
			o.works(t)
			time.Sleep(20 * time.Minute)
		}
		if d.status != bot.DeliveryDue || d.Attempts != 30 {
			t.Errorf("after %d tries it is %d: %q", d.Attempts, d.status, d.err)
		}
		well = true
		o.works(t)
		if d.status != bot.DeliveryDone {
			t.Errorf("with the host well it is %d: %q", d.status, d.err)
		}
	})
}

func TestDeliveriesOfOneMergeRequestKeepTheirOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var log []string
		at := 0
		o := newOffice(func(_ context.Context, number int) error {
			mu.Lock()
			at++
			n := at
			log = append(log, fmt.Sprint("begin ", number))
			mu.Unlock()
			if number == 1 {
				time.Sleep(time.Duration(10-n) * time.Second) // the earlier, the slower
			}
			mu.Lock()
			log = append(log, fmt.Sprint("end ", number))
			mu.Unlock()
			return nil
		})
		for range 3 {
			o.receives("pull_request", "1")
		}
		o.receives("pull_request", "2")
		o.works(t)
		ones := slices.DeleteFunc(slices.Clone(log), func(s string) bool { return strings.HasSuffix(s, "2") })
		if !slices.Equal(ones, []string{"begin 1", "end 1", "begin 1", "end 1", "begin 1", "end 1"}) {
			t.Errorf("order %v", log)
		}
		if slices.Index(log, "end 2") > 3 {
			t.Errorf("2 waited for 1: %v", log)
		}
	})
}

func TestRunWorksWhenNudgedAndNowAndThen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(fine)
		ctx, cancel := context.WithCancel(context.Background())
		var ended sync.WaitGroup
		ended.Go(func() { o.worker.Run(ctx) })
		synctest.Wait()

		nudged := o.receives("pull_request", "1")
		begin := time.Now()
		o.worker.Nudge()
		synctest.Wait()
		if o.status(nudged) != bot.DeliveryDone || time.Since(begin) != 0 {
			t.Errorf("after a nudge: status %d", o.status(nudged))
		}
		forgotten := o.receives("pull_request", "2")
		synctest.Wait()
		if o.status(forgotten) != bot.DeliveryDue {
			t.Error("found without a nudge at once")
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if o.status(forgotten) != bot.DeliveryDone {
			t.Error("not found by the timer")
		}
		o.inbox.goes(true)
		time.Sleep(time.Minute)
		o.inbox.goes(false)
		late := o.receives("pull_request", "3")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if o.status(late) != bot.DeliveryDone {
			t.Error("a database that was down for a while ended the loop")
		}
		cancel()
		ended.Wait()
	})
}

func TestAStopLetsWorkFinishOrAbandonsIt(t *testing.T) {
	t.Parallel()
	for _, takes := range []time.Duration{3 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			o := newOffice(func(ctx context.Context, _ int) error {
				select {
				case <-time.After(takes):
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
			d := o.receives("pull_request", "1")
			behind := o.receives("pull_request", "1")
			ctx, cancel := context.WithCancel(context.Background())
			var ended sync.WaitGroup
			ended.Go(func() { o.worker.Run(ctx) })
			synctest.Wait()
			begin := time.Now()
			cancel()
			ended.Wait()
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("stopping took %s", took)
			}
			want := bot.DeliveryDone
			if takes > time.Minute {
				want = bot.DeliveryDue
				if d.due.After(time.Now()) {
					t.Errorf("abandoned work is due in %s, want at once", time.Until(d.due))
				}
			}
			if o.status(d) != want || o.status(behind) != bot.DeliveryDue || len(o.applied) > 1 {
				t.Errorf("work of %s ended as %d, the one behind it as %d", takes, o.status(d), o.status(behind))
			}
		})
	}
}

func TestASlowDeliveryEndsBeforeItsLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(func(ctx context.Context, _ int) error {
			<-ctx.Done()
			return ctx.Err()
		})
		d := o.receives("pull_request", "1")
		begin := time.Now()
		o.works(t)
		if took := time.Since(begin); took >= time.Minute || d.status != bot.DeliveryDue || !strings.Contains(d.err, context.DeadlineExceeded.Error()) {
			t.Errorf("ended after %s as %d: %q", took, d.status, d.err)
		}
	})
}

// What cannot be stored is done again when the lease ends, so a slow database is waited for; but not while stopping.
func TestASlowInboxIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(fine)
		o.inbox.slow = 40 * time.Second
		d := o.receives("pull_request", "1")
		if work := o.works(t); work.Applied != 1 || work.Lost != 0 || d.status != bot.DeliveryDone {
			t.Errorf("work %+v, status %d", work, d.status)
		}
		o.receives("pull_request", "2")
		ctx, cancel := context.WithCancel(context.Background())
		var ended sync.WaitGroup
		ended.Go(func() { o.worker.Run(ctx) })
		synctest.Wait()
		begin := time.Now()
		cancel()
		ended.Wait()
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("stopping took %s", took)
		}
	})
}

func TestWorkThatAnotherInstanceTookOverIsNotRecorded(t *testing.T) {
	t.Parallel()
	o := newOffice(fine)
	d := o.receives("pull_request", "1")
	o.apply = func(context.Context, int) error {
		d.Attempts++ // claimed by somebody else
		return nil
	}
	if work := o.works(t); work.Lost != 1 || d.status != bot.DeliveryDue {
		t.Errorf("work %+v, status %d", work, d.status)
	}
}

func TestAnInboxThatIsDownIsAnError(t *testing.T) {
	t.Parallel()
	o := newOffice(fine)
	o.inbox.down = true
	if _, err := o.worker.RunOnce(context.Background()); !errors.Is(err, errDown) {
		t.Errorf("error %v", err)
	}
}
