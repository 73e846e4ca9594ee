package storetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/batchbot/batchbot/store"
)

// lockTx runs a transaction that takes a lock first and then writes an audit row of that name.
func (w *world) lockTx(ctx context.Context, s *store.Store, name string, wait time.Duration, then func() error) (held bool, err error) {
	err = w.LockTx(ctx, s, func(lock func(string, time.Duration) (bool, error), exec func(string, ...any) (int64, error)) error {
		var err error
		if held, err = lock(name, wait); err != nil {
			return err
		}
		if _, err := exec(auditRow, name); err != nil {
			return err
		}
		return then()
	})
	return held, err
}

func nothing() error { return nil }

const patient = 20 * time.Second

func lockTxWaits(t *testing.T, db Database) {
	w := newWorld(t, db)
	other := db.Open(t)
	inside, finish, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := w.lockTx(context.Background(), w.store, "first", patient, func() error {
			close(inside)
			<-finish
			return nil
		})
		done <- err
	}()
	await(t, "the first has the lock", inside)
	second := make(chan bool, 1)
	go func() {
		err := w.LockTx(context.Background(), other, func(lock func(string, time.Duration) (bool, error), exec func(string, ...any) (int64, error)) error {
			held, err := lock("first", patient)
			if err != nil {
				return err
			}
			n, err := exec(`UPDATE audit SET actor = 'second' WHERE dedupe_key = 'first'`)
			second <- held && n == 1
			return err
		})
		if err != nil {
			t.Error(err)
			second <- false
		}
	}()
	if db.severalWriters() {
		eventually(t, "the second waits", func() bool {
			return value[int](w, `SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock' AND db = DATABASE()`) == 1
		})
	}
	select {
	case <-second:
		t.Error("the second did not wait")
	default:
	}
	close(finish)
	w.must(<-done)
	if !<-second {
		t.Error("the second did not get the lock, or came before the first had committed")
	}
}

// Whatever ends the transaction, the lock is free for everybody, also for another session of the same instance, and its connection
// may be used again.
func lockTxFreed(t *testing.T, db Database) {
	w := newWorld(t, db)
	other := db.Open(t)
	mistake := errors.New("a mistake")
	ending, cancel := context.WithCancel(t.Context())
	for name, c := range map[string]struct {
		ctx  context.Context
		then func() error
		want error
	}{
		"committed":       {t.Context(), nothing, nil},
		"failed":          {t.Context(), func() error { return mistake }, mistake},
		"no longer asked": {ending, func() error { cancel(); return nil }, context.Canceled},
	} {
		held, err := w.lockTx(c.ctx, w.store, name, 0, c.then)
		if !held || !errors.Is(err, c.want) {
			t.Errorf("%s: held %v, ended with %v", name, held, err)
		}
		takeOver(t, other, name)()
		takeOver(t, w.store, name)()
		if w.audited(name) != (c.want == nil) {
			t.Errorf("%s: what it wrote is there: %v", name, c.want != nil)
		}
	}
	db.Intercept(w.store, loseConnection("after COMMIT"))
	if _, err := w.lockTx(t.Context(), w.store, "unknown", 0, nothing); !errors.Is(err, store.ErrAmbiguous) {
		t.Error(err)
	}
	db.Intercept(w.store, nil)
	takeOver(t, other, "unknown")()
	func() {
		defer func() { _ = recover() }()
		_, _ = w.lockTx(t.Context(), w.store, "panicked", 0, func() error { panic("a bug") })
	}()
	takeOver(t, other, "panicked")()
	if pool := w.store.Pools(); pool["main"].InUse > 1 || pool["write"].InUse > 0 { // the lock connection is in use
		t.Errorf("connections stay out: %+v", pool)
	}
}

func lockTxBusy(t *testing.T, db Database) {
	w := newWorld(t, db)
	other := db.Open(t)
	theirs := tryLock(t, other, "busy", true)
	for _, wait := range []time.Duration{0, time.Millisecond} {
		began := time.Now()
		held, err := w.lockTx(t.Context(), w.store, "busy", wait, func() error { return errors.New("enough") })
		if held || err == nil || !strings.HasSuffix(err.Error(), "enough") {
			t.Errorf("held %v, ended with %v", held, err)
		}
		if took := time.Since(began); took < wait {
			t.Errorf("asked to wait %v it waited %v", wait, took)
		}
	}
	if held, err := w.lockTx(t.Context(), w.store, "busy", 0, nothing); held || err != nil || !w.audited("busy") {
		t.Errorf("held %v, %v: the transaction lives on", held, err)
	}
	tryLock(t, w.store, "busy", false) // it was not freed for its holder
	theirs()
	tryLock(t, w.store, "busy", true)()
}

func lockTxRefused(t *testing.T, db Database) {
	w := newWorld(t, db)
	type lockFunc = func(string, time.Duration) (bool, error)
	type execFunc = func(string, ...any) (int64, error)
	var kept lockFunc
	w.must(db.LockTx(t.Context(), w.store, func(lock lockFunc, _ execFunc) error {
		kept = lock
		return nil
	}))
	if held, err := kept("late", 0); held || err == nil || !strings.Contains(err.Error(), "no transaction") {
		t.Errorf("outside a transaction: held %v, %v", held, err)
	}
	for name, c := range map[string]struct {
		wait  time.Duration
		first string
		words string
	}{
		"in its middle":    {0, auditRow, "begun"},
		"endless":          {time.Minute, "", "cannot be waited for"},
		"without patience": {-time.Second, "", "cannot be waited for"},
	} {
		err := db.LockTx(t.Context(), w.store, func(lock lockFunc, exec execFunc) error {
			if c.first != "" {
				if _, err := exec(c.first, name); err != nil {
					return err
				}
			}
			held, err := lock(name, c.wait)
			if held || err == nil || !strings.Contains(err.Error(), c.words) {
				t.Errorf("%s: held %v, %v", name, held, err)
			}
			return nil // whoever swallows the error
		})
		if err == nil || w.audited(name) {
			t.Errorf("%s: the transaction took effect: %v", name, err)
		}
		tryLock(t, db.Open(t), name, true)()
	}
}

// The session that has lock and transaction is killed: both are gone at once, so nobody sees a half of the work, and it is done again as a whole.
func lockTxLost(t *testing.T, db Database) {
	w := newWorld(t, db)
	if !db.severalWriters() {
		return // nothing to lose: the lock is in this process
	}
	other, tries := db.Open(t), 0
	held, err := w.lockTx(t.Context(), w.store, "killed", patient, func() error {
		if tries++; tries == 1 {
			killHolder(t, db, "killed")
			theirs := takeOver(t, other, "killed")
			if w.audited("killed") {
				t.Error("the lock was free before the transaction was undone")
			}
			theirs()
		}
		return nil
	})
	if err != nil && !errors.Is(err, store.ErrAmbiguous) {
		t.Errorf("%d tries: %v", tries, err)
	}
	if !held || w.audited("killed") != (err == nil) {
		t.Errorf("held %v, %d tries, %v, what it wrote is there: %v", held, tries, err, w.audited("killed"))
	}
	takeOver(t, other, "killed")()
}

func lockTxTwice(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.must(db.LockTx(t.Context(), w.store, func(lock func(string, time.Duration) (bool, error), _ func(string, ...any) (int64, error)) error {
		for range 2 {
			if held, err := lock("twice", 0); err != nil || !held {
				t.Errorf("held %v, %v", held, err)
			}
		}
		return nil
	}))
	tryLock(t, db.Open(t), "twice", true)()
}
