package storetest

import (
	"context"
	"strings"
	"testing"

	"github.com/batchbot/batchbot/store"
)

var lockTests = tests{
	"one holder at a time, whoever asks":        lockHeld,
	"locks of one instance are independent":     lockIndependent,
	"closing an instance frees its locks":       lockClosed,
	"a lost connection frees its locks":         lockLost,
	"release works after the context has ended": lockReleaseLate,
	"long names are locks too":                  lockLongName,
}

func tryLock(t testing.TB, s *store.Store, name string, want bool) func() {
	t.Helper()
	release, held, err := s.TryLock(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if held != want {
		t.Fatalf("lock %q: held %v, want %v", name, held, want)
	}
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
	// A server notices the end of a connection a moment later.
	eventually(t, "the lock is free", func() bool {
		_, held, err := b.TryLock(t.Context(), t.Name())
		return held && err == nil
	})
	if _, _, err := a.TryLock(t.Context(), t.Name()); err == nil {
		t.Error("a closed store gave a lock")
	}
}

func lockLost(t *testing.T, db Database) {
	a, b := db.Open(t), db.Open(t)
	lost := tryLock(t, a, t.Name(), true)
	if !db.severalWriters() {
		return // nothing to lose: the lock is in this process
	}
	var holder int64
	if err := db.SQL.QueryRowContext(t.Context(), `SELECT IS_USED_LOCK(?)`, db.LockName("default", t.Name())).Scan(&holder); err != nil {
		t.Fatal(err)
	}
	if _, err := db.SQL.ExecContext(t.Context(), `KILL ?`, holder); err != nil {
		t.Fatal(err)
	}
	var theirs func()
	eventually(t, "the server frees the lock", func() bool {
		release, held, err := b.TryLock(t.Context(), t.Name())
		theirs = release
		return held && err == nil
	})
	tryLock(t, a, "other "+t.Name(), true)() // a new connection takes the place of the lost one
	lost()                                   // must not release what another instance holds now
	tryLock(t, a, t.Name(), false)
	theirs()
	tryLock(t, a, t.Name(), true)()
}

func lockReleaseLate(t *testing.T, db Database) {
	a, b := db.Open(t), db.Open(t)
	ctx, cancel := context.WithCancel(t.Context())
	release, held, err := a.TryLock(ctx, t.Name())
	if err != nil || !held {
		t.Fatal(held, err)
	}
	cancel()
	release()
	tryLock(t, b, t.Name(), true)()
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
