package round_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/round"
)

// TestABuildDoesNotRunBesideAnotherOfItsRepository has somebody else build for another queue of the repository: the batch waits its turn, and keeps
// what it has.
func TestABuildDoesNotRunBesideAnotherOfItsRepository(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	number := w.waiting(file("a", "x\n"))
	claimed := w.runTo(bot.PhaseClaimed)
	_, release, ok, err := w.store.TryLock(t.Context(), fmt.Sprintf("git/%d", w.repo.ID))
	w.must(err)
	if !ok {
		t.Fatal("nobody builds, and the lock is taken")
	}
	for range 3 {
		result := w.tick()
		if batch, _ := w.active(); result.Again || result.After <= 0 || batch.ID != claimed.ID || batch.Phase != bot.PhaseClaimed {
			t.Errorf("beside another build: %+v, the batch is %s", result, batch.Phase)
		}
	}
	release()
	if batch := w.runTo(bot.PhaseOpened); batch.ID != claimed.ID {
		t.Errorf("batch %d was built instead of %d", batch.ID, claimed.ID)
	}
	w.run()
	w.wantOnHost("merged", number)
	w.wantLandings(1)
	if _, release, ok, err = w.store.TryLock(t.Context(), fmt.Sprintf("git/%d", w.repo.ID)); err != nil || !ok {
		t.Fatalf("a build that is over keeps its lock: %v", err)
	}
	release()
}

// losableLocks are the store's, and can be lost.
type losableLocks struct {
	round.Locks
	lost []func()
}

var errLost = errors.New("the advisory lock was lost")

func (l *losableLocks) TryLock(ctx context.Context, name string) (context.Context, func(), bool, error) {
	held, release, ok, err := l.Locks.TryLock(ctx, name)
	if !ok {
		return nil, nil, false, err
	}
	held, end := context.WithCancelCause(held)
	l.lost = append(l.lost, func() {
		end(errLost)
		release()
	})
	return held, func() { end(nil); release() }, true, nil
}

// losingGit loses every lock in the middle of its first builds.
type losingGit struct {
	bot.Git
	locks  *losableLocks
	builds int
}

func (g *losingGit) Build(ctx context.Context, remote bot.GitRemote, spec bot.BuildSpec) (bot.Build, error) {
	if g.builds++; g.builds <= 2 {
		for _, lose := range g.locks.lost {
			lose()
		}
	}
	return g.Git.Build(ctx, remote, spec)
}

// TestALostLockLeavesTheTickBetweenTwoSteps has an instance lose its locks while it builds: it stops without a failure, somebody else goes on from the
// rows, and it may itself come again.
func TestALostLockLeavesTheTickBetweenTwoSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	number := w.waiting(file("a", "x\n"))
	claimed := w.runTo(bot.PhaseClaimed)
	locks := &losableLocks{Locks: w.store}
	first := w.newDriver(w.store, w.host, &losingGit{Git: w.git, locks: locks}, locks)
	for range 2 {
		result, err := first.RunOnce(t.Context(), w.queue.ID)
		if err != nil || result.Again || result.After <= 0 || !strings.Contains(result.Did, errLost.Error()) {
			t.Errorf("after the loss: %+v, %v", result, err)
		}
	}
	if batch, _ := w.active(); batch.ID != claimed.ID || batch.Build != 0 {
		t.Errorf("the batch is %s with %d builds", batch.Phase, batch.Build)
	}
	w.runTo(bot.PhaseOpened) // another instance
	if result, err := first.RunOnce(t.Context(), w.queue.ID); err != nil {
		t.Errorf("coming again: %+v, %v", result, err)
	}
	w.run()
	w.wantOnHost("merged", number)
	w.wantLandings(1)
}
