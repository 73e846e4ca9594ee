package round_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/round"
	"github.com/batchbot/batchbot/githost/fakehost"
)

// errCrash is where an instance died.
var errCrash = errors.New("the instance dies here")

// mode is what happens to one call.
type mode string

const (
	before mode = "before" // the instance dies and nothing took effect
	after  mode = "after"  // the instance dies and nobody knows that it took effect
	twice  mode = "twice"  // the answer is lost and the call made again: the second answer counts
)

// modes is every way a step may go wrong.
var modes = []mode{before, after, twice}

// fuse lets the nth call to a port go wrong, once.
type fuse struct {
	mode  mode
	left  int
	blown string // the call that went wrong
}

// call runs a call to a port through the fuse.
func call[T any](f *fuse, name string, do func() (T, error)) (T, error) {
	var zero T
	f.left--
	switch {
	case f.left != 0:
		return do()
	case f.mode == before:
		f.blown = "before " + name
		return zero, errCrash
	}
	f.blown = string(f.mode) + " " + name
	if result, err := do(); err != nil {
		return result, err
	}
	if f.mode == twice {
		return do()
	}
	return zero, errCrash
}

type fusedStore struct {
	round.Store
	*fuse
}

func (s fusedStore) Claim(ctx context.Context, spec bot.ClaimSpec) (bot.ClaimResult, error) {
	return call(s.fuse, "Claim", func() (bot.ClaimResult, error) { return s.Store.Claim(ctx, spec) })
}

func (s fusedStore) RecordBuild(ctx context.Context, guard bot.BatchGuard, record bot.BuildRecord) (batch bot.Batch, ok bool, err error) {
	batch, err = call(s.fuse, "RecordBuild", func() (b bot.Batch, err error) {
		b, ok, err = s.Store.RecordBuild(ctx, guard, record)
		return b, err
	})
	return batch, ok, err
}

func (s fusedStore) ChangeBatch(ctx context.Context, guard bot.BatchGuard, change bot.BatchChange) (batch bot.Batch, ok bool, err error) {
	name := fmt.Sprintf("ChangeBatch to %s %s", change.Phase, change.Code)
	batch, err = call(s.fuse, name, func() (b bot.Batch, err error) {
		b, ok, err = s.Store.ChangeBatch(ctx, guard, change)
		return b, err
	})
	return batch, ok, err
}

func (s fusedStore) Move(ctx context.Context, move bot.Move) (bot.MoveResult, error) {
	return call(s.fuse, "Move", func() (bot.MoveResult, error) { return s.Store.Move(ctx, move) })
}

func (s fusedStore) Settle(ctx context.Context, settlement bot.Settlement) (bool, error) {
	return call(s.fuse, "Settle", func() (bool, error) { return s.Store.Settle(ctx, settlement) })
}

func (s fusedStore) LandedLate(ctx context.Context, batchID int64, landed string, ids []string) (bool, error) {
	return call(s.fuse, "LandedLate", func() (bool, error) { return s.Store.LandedLate(ctx, batchID, landed, ids) })
}

type fusedHost struct {
	bot.Host
	*fuse
}

func (h fusedHost) OpenMR(ctx context.Context, repo bot.Repository, mr bot.NewMR) (bot.MRSnapshot, error) {
	return call(h.fuse, "OpenMR", func() (bot.MRSnapshot, error) { return h.Host.OpenMR(ctx, repo, mr) })
}

func (h fusedHost) EditMR(ctx context.Context, repo bot.Repository, number int, title, body string) error {
	_, err := call(h.fuse, "EditMR", func() (struct{}, error) { return struct{}{}, h.Host.EditMR(ctx, repo, number, title, body) })
	return err
}

func (h fusedHost) MergeMR(ctx context.Context, repo bot.Repository, number int, head, title, message string) (bot.MergeAnswer, error) {
	return call(h.fuse, "MergeMR", func() (bot.MergeAnswer, error) { return h.Host.MergeMR(ctx, repo, number, head, title, message) })
}

func (h fusedHost) CloseMR(ctx context.Context, repo bot.Repository, number int) error {
	_, err := call(h.fuse, "CloseMR", func() (struct{}, error) { return struct{}{}, h.Host.CloseMR(ctx, repo, number) })
	return err
}

func (h fusedHost) UpsertComment(ctx context.Context, repo bot.Repository, number int, marker, body string, known int64) (int64, error) {
	return call(h.fuse, "UpsertComment", func() (int64, error) { return h.Host.UpsertComment(ctx, repo, number, marker, body, known) })
}

type fusedGit struct {
	bot.Git
	*fuse
}

func (g fusedGit) Build(ctx context.Context, remote bot.GitRemote, spec bot.BuildSpec) (bot.Build, error) {
	built, err := call(g.fuse, "Build", func() (bot.Build, error) { return g.Git.Build(ctx, remote, spec) })
	if err != nil {
		return nil, err
	}
	return fusedBuild{built, g.fuse}, nil
}

func (g fusedGit) FastForward(ctx context.Context, remote bot.GitRemote, target, base, head string) (bot.PushOutcome, error) {
	return call(g.fuse, "FastForward", func() (bot.PushOutcome, error) { return g.Git.FastForward(ctx, remote, target, base, head) })
}

func (g fusedGit) Inspect(ctx context.Context, remote bot.GitRemote, question bot.InspectSpec) (bot.Inspection, error) {
	return call(g.fuse, "Inspect", func() (bot.Inspection, error) { return g.Git.Inspect(ctx, remote, question) })
}

type fusedBuild struct {
	bot.Build
	*fuse
}

func (b fusedBuild) Push(ctx context.Context, branch string, known []string) (bot.PushOutcome, error) {
	return call(b.fuse, "Push", func() (bot.PushOutcome, error) { return b.Build.Push(ctx, branch, known) })
}

// driveThroughCrash works on the queue until it rests, while the nth call goes wrong. The instance that crashed is replaced by another.
// It returns the call that went wrong, "" when there were fewer calls.
func (w *world) driveThroughCrash(n int, m mode) string {
	w.t.Helper()
	driver, f := w.fused(n, m)
	for range 300 {
		if result, err := w.lives(&driver, f, func(d *round.Driver) (round.Result, error) { return d.RunOnce(w.t.Context(), w.queue.ID) }); err == nil && !result.Again {
			if f.mode == twice && f.blown != "" {
				f.mode = after // whoever lost a race against itself looks again
				continue
			}
			return f.blown
		}
	}
	w.t.Fatalf("%s: the queue does not come to rest", f.blown)
	return ""
}

// fused is an instance whose nth call goes wrong.
func (w *world) fused(n int, m mode) (*round.Driver, *fuse) {
	f := &fuse{mode: m, left: n}
	return w.newDriver(fusedStore{w.store, f}, fusedHost{w.host, f}, fusedGit{w.git, f}, w.store), f
}

// lives lets an instance do something; should it die, another takes its place. What it says after a call that was made twice may be an error that passes.
func (w *world) lives(driver **round.Driver, f *fuse, do func(*round.Driver) (round.Result, error)) (round.Result, error) {
	w.t.Helper()
	result, err := do(*driver)
	switch {
	case errors.Is(err, errCrash):
		*driver = w.driver
	case err != nil && (f.mode != twice || f.blown == ""):
		w.t.Fatalf("%s: %v", f.blown, err)
	}
	return result, err
}

// TestACrashAtAnyStepLosesNothing lets an instance die before and after every call that has an effect, on the way to a landing. Another
// instance continues from the rows: everything lands exactly once and what landed is what was tested.
func TestACrashAtAnyStepLosesNothing(t *testing.T) {
	t.Parallel()
	for _, landing := range []bot.Landing{bot.LandByMerge, bot.LandByPush} {
		for _, m := range modes {
			if m == before && landing == bot.LandByPush {
				continue // up to the landing the same as by merge
			}
			t.Run(fmt.Sprintf("%s, %s", landing, m), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, func(s *bot.QueueSettings) { s.Landing = landing })
				for n := 1; ; n++ {
					name := fmt.Sprintf("file-%d", n)
					one := w.waiting(file(name, "one\n"))
					two := w.waiting(file(name+"-too", "two\n"))
					gone := w.waiting(file(name, "conflicts with one\n"))
					w.must(w.fake.CloseMR(path, gone, "ada")) // evicted when the members are read again
					blown := w.driveThroughCrash(n, m)
					w.wantOnHost("merged", one, two)
					w.wantStatus(one, bot.OperationMerged, bot.ReasonLanded)
					w.wantStatus(two, bot.OperationMerged, bot.ReasonLanded)
					if list := w.batches(); list[len(list)-1].Status.Active() {
						t.Errorf("a crash %s leaves an active batch: %+v", blown, list[len(list)-1])
					}
					if landing == bot.LandByMerge {
						w.wantLandings(n)
					}
					if t.Failed() {
						t.Fatalf("after a crash %s", blown)
					}
					if blown == "" {
						if n < 8 {
							t.Fatalf("only %d calls were seen: the fuse does not stand where the effects are", n-1)
						}
						return
					}
				}
			})
		}
	}
}

// TestACrashWhileARedBatchIsClosedBlamesTheRightOne lets an instance die at every step of settling a red batch: the bot's own closing is never
// taken for a person's.
func TestACrashWhileARedBatchIsClosedBlamesTheRightOne(t *testing.T) {
	t.Parallel()
	for _, m := range modes {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			for n := 1; ; n++ {
				if n%3 == 0 {
					w.waiting(file(fmt.Sprintf("good-%d", n), "x\n")) // CI that is never green would be taken for broken
					w.run()
				}
				culprit := w.waiting(map[string]string{fmt.Sprintf("file-%d", n): "x\n", "ci.fail": "yes\n"})
				blown := w.driveThroughCrash(n, m)
				w.wantStatus(culprit, bot.OperationFailed, bot.ReasonCIRed)
				queue, _, err := w.store.ReadQueue(t.Context(), w.queue.ID)
				w.must(err)
				if queue.State != bot.QueueOpen || t.Failed() {
					t.Fatalf("a crash %s leaves the queue %s: %s", blown, queue.State, queue.Reason)
				}
				if blown == "" {
					return
				}
			}
		})
	}
}

// TestTwoInstancesWithoutALockLandOnce lets two instances work on one queue at once although the advisory lock keeps nobody out.
func TestTwoInstancesWithoutALockLandOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *bot.QueueSettings) { s.MaxBatchSize = 2 })
	var numbers []int
	for n := range 6 {
		numbers = append(numbers, w.waiting(file(fmt.Sprintf("file-%d", n), "x\n")))
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			driver := w.newDriver(w.store, w.host, w.git, grantingLocks{})
			for idle := 0; idle < 3; {
				result, err := driver.RunOnce(t.Context(), w.queue.ID)
				switch {
				case err != nil: // the other instance took the MR or the branch away: look again
				case result.Again, result.After > 0:
					idle = 0
					continue
				}
				idle++
			}
		})
	}
	wg.Wait()
	w.run()
	w.wantOnHost("merged", numbers...)
	w.wantLandings(3)
}

// TestRunFollowsNudges has the loop itself land what is admitted, without waiting for its poll.
func TestRunFollowsNudges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx, stop := context.WithCancel(t.Context())
	landed := make(chan struct{})
	driver := round.New(round.Config{
		Store: settledStore{w.store, landed}, Locks: w.store, Hosts: map[string]bot.Host{"hub": w.host}, Git: w.git, Poll: time.Hour,
	})
	ended := make(chan error, 1)
	go func() { ended <- driver.Run(ctx) }()
	w.fake.SetCI(fakehost.CI{Mode: fakehost.CIImmediate})
	number := w.waiting(file("a", "a\n"))
	driver.Nudge(w.queue.ID)
	<-landed
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run ended with %v", err)
	}
	w.wantOnHost("merged", number)
}

// settledStore signals the first settlement.
type settledStore struct {
	round.Store
	settled chan struct{}
}

func (s settledStore) Settle(ctx context.Context, settlement bot.Settlement) (bool, error) {
	ok, err := s.Store.Settle(ctx, settlement)
	if ok {
		close(s.settled)
	}
	return ok, err
}

// failingStore cannot list or read anything.
type failingStore struct {
	round.Store
	looks chan struct{}
}

func (s failingStore) QueuesWithWork(context.Context) ([]int64, error) { return nil, nil }

func (s failingStore) ReadQueue(context.Context, int64) (bot.Queue, bot.Repository, error) {
	s.looks <- struct{}{}
	return bot.Queue{}, bot.Repository{}, errors.New("the database is gone")
}

// TestEventsDoNotHammerWhatIsInTrouble sends a stream of nudges at a queue whose looks fail.
func TestEventsDoNotHammerWhatIsInTrouble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		looks := make(chan struct{}, 1000)
		driver := round.New(round.Config{Store: failingStore{looks: looks}, Locks: grantingLocks{}, Poll: time.Hour})
		ended := make(chan error, 1)
		go func() { ended <- driver.Run(ctx) }()
		for range 600 {
			driver.Nudge(1)
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		if n := len(looks); n < 5 || n > 25 {
			t.Errorf("%d looks in a minute of events, want about one in five seconds", n)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
