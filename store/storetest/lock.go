package storetest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/store"
)

var lockTests = tests{
	"one holder at a time, whoever asks":                     lockHeld,
	"locks of one instance are independent":                  lockIndependent,
	"closing an instance frees its locks":                    lockClosed,
	"a lost connection frees its locks":                      lockLost,
	"who lost it is told":                                    lockTold,
	"two who both believe to hold it do no harm":             lockDoubted,
	"release works after the context has ended":              lockReleaseLate,
	"one caller's end costs no other caller's lock":          lockCallerEnds,
	"long names are locks too":                               lockLongName,
	"of a transaction: waits for the one before":             lockTxWaits,
	"of a transaction: free after any end":                   lockTxFreed,
	"of a transaction: a holder that stays is an answer":     lockTxBusy,
	"of a transaction: refused outside and in its middle":    lockTxRefused,
	"of a transaction: a lost connection ends both":          lockTxLost,
	"of a transaction: taken twice is freed with the second": lockTxTwice,
}

func tryLock(t testing.TB, s *store.Store, name string, want bool) func() {
	t.Helper()
	_, release := hold(t, s, name, want)
	return release
}

func hold(t testing.TB, s *store.Store, name string, want bool) (context.Context, func()) {
	t.Helper()
	held, release, ok, err := s.TryLock(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if ok != want {
		t.Fatalf("lock %q: held %v, want %v", name, ok, want)
	}
	return held, release
}

// killHolder ends the session that holds a lock, as an administrator or a fail-over does; false: the lock is in this process.
func killHolder(t testing.TB, db Database, name string) bool {
	t.Helper()
	if !db.severalWriters() {
		return false
	}
	var holder int64
	if err := db.SQL.QueryRowContext(t.Context(), `SELECT IS_USED_LOCK(?)`, db.LockName("default", name)).Scan(&holder); err != nil {
		t.Fatal(err)
	}
	if _, err := db.SQL.ExecContext(t.Context(), `KILL ?`, holder); err != nil {
		t.Fatal(err)
	}
	return true
}

// takeOver waits until a lock is free and takes it.
func takeOver(t testing.TB, s *store.Store, name string) (release func()) {
	t.Helper()
	eventually(t, "the lock is free", func() bool {
		_, free, ok, err := s.TryLock(t.Context(), name)
		release = free
		return ok && err == nil
	})
	return release
}

func lockHeld(t *testing.T, db Database) {
	a, b := db.Open(t), db.Open(t)
	name := "batch/" + t.Name()
	release := tryLock(t, a, name, true)
	tryLock(t, a, name, false) // the server would let the same session in
	tryLock(t, b, name, false)
	release()
	again := tryLock(t, b, name, true)
	release() // of a lock that somebody else holds by now
	tryLock(t, a, name, false)
	again()
	tryLock(t, a, name, true)()
}

func lockIndependent(t *testing.T, db Database) {
	a, b := db.Open(t), db.Open(t)
	first, second := "one/"+t.Name(), "two/"+t.Name()
	release := tryLock(t, a, first, true)
	tryLock(t, a, second, true)
	release()
	tryLock(t, b, first, true)
	tryLock(t, b, second, false)
}

func lockClosed(t *testing.T, db Database) {
	a, b := db.Open(t), db.Open(t)
	tryLock(t, a, t.Name(), true)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	takeOver(t, b, t.Name())() // a server notices the end of a connection a moment later
	if _, _, _, err := a.TryLock(t.Context(), t.Name()); err == nil {
		t.Error("a closed store gave a lock")
	}
}

func lockLost(t *testing.T, db Database) {
	a, b := db.Open(t), db.Open(t)
	lost := tryLock(t, a, t.Name(), true)
	if !killHolder(t, db, t.Name()) {
		return // nothing to lose
	}
	theirs := takeOver(t, b, t.Name())
	tryLock(t, a, "other "+t.Name(), true)() // a new connection takes the place of the lost one
	lost()                                   // must not release what another instance holds now
	tryLock(t, a, t.Name(), false)
	theirs()
	tryLock(t, a, t.Name(), true)()
}

// Nobody uses the lock's connection when it is killed: who holds the lock is told all the same, and who does not is not.
func lockTold(t *testing.T, db Database) {
	a, b := db.Open(t), db.Open(t)
	held, release := hold(t, a, t.Name(), true)
	calm, releaseCalm := hold(t, b, "other "+t.Name(), true)
	defer releaseCalm()
	if !killHolder(t, db, t.Name()) {
		if err := a.Close(); err != nil { // the only way to lose what is in this process
			t.Fatal(err)
		}
	}
	await(t, "the holder is told", held.Done())
	if cause := context.Cause(held); !errors.Is(cause, store.ErrLockLost) {
		t.Errorf("told %v", cause)
	}
	theirs := tryLock(t, b, t.Name(), true)
	release()
	tryLock(t, db.Open(t), t.Name(), false)
	theirs()

	if calm.Err() != nil {
		t.Errorf("another holder was told %v", context.Cause(calm))
	}
	own, release := hold(t, b, t.Name(), true)
	release()
	if cause := context.Cause(own); !errors.Is(cause, context.Canceled) || errors.Is(cause, store.ErrLockLost) {
		t.Errorf("released, held ended for %v", cause)
	}
}

// The work under a lock is half done when the lock's connection is killed, and another instance takes over before the first one knows. Both
// go on to the end, and what they write is what one alone would have written: the rows decide, not the lock.
func lockDoubted(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2, 3)
	a, b := w.store, db.Open(t)
	release := tryLock(t, a, "queue/1", true)
	claimed, err := a.Claim(t.Context(), claimSpec(w.queue, 2))
	w.must(err)
	if !killHolder(t, db, "queue/1") {
		release() // somebody else's mistake has the same effect
	}
	theirs := takeOver(t, b, "queue/1")
	defer theirs()
	found, members, ok, err := b.ActiveBatch(t.Context(), w.queue.ID)
	w.must(err)
	if !ok || found.ID != claimed.Batch.ID {
		t.Fatalf("the second holder found %+v", found)
	}
	won := make(chan int, 2)
	together(func() {
		ok, err := a.Settle(t.Context(), settlementOf(claimed, bot.BatchSucceeded, bot.OperationMerged))
		if err != nil {
			t.Error(err)
		}
		if ok {
			won <- 1
		}
	}, func() {
		ok, err := b.Settle(t.Context(), settlementOf(bot.ClaimResult{Batch: found, Members: members}, bot.BatchFailed, bot.OperationWaiting))
		if err != nil {
			t.Error(err)
		}
		if ok {
			won <- 2
		}
	})
	if len(won) != 1 {
		t.Errorf("%d settlements took effect", len(won))
	}
	w.invariants()
	release()
	tryLock(t, a, "queue/1", false)
}

func lockReleaseLate(t *testing.T, db Database) {
	a, b := db.Open(t), db.Open(t)
	ctx, cancel := context.WithCancel(t.Context())
	held, release, ok, err := a.TryLock(ctx, t.Name())
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	cancel()
	if held.Err() == nil {
		t.Error("work under the lock outlives its caller")
	}
	release()
	tryLock(t, b, t.Name(), true)()
}

func lockCallerEnds(t *testing.T, db Database) {
	a := db.Open(t)
	held, release := hold(t, a, t.Name(), true)
	defer release()
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		go cancel() // before, during or after
		if _, free, ok, err := a.TryLock(ctx, "other "+t.Name()); ok {
			free()
		} else if err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	if held.Err() != nil {
		t.Errorf("the lock went with somebody else's context: %v", context.Cause(held))
	}
	tryLock(t, db.Open(t), t.Name(), false)
}

func lockLongName(t *testing.T, db Database) {
	a, b := db.Open(t), db.Open(t)
	long := strings.Repeat("Ä", 300) + t.Name()
	release := tryLock(t, a, long, true)
	tryLock(t, b, long, false)
	tryLock(t, b, strings.ToLower(long), true)() // another name
	release()
	tryLock(t, b, long, true)()
}
