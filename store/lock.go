package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrLockLost is the cause for which the context of a lock's holder ends when the lock is no longer its own.
var ErrLockLost = errors.New("the advisory lock was lost")

const (
	lockTime  = 5 * time.Second  // the longest that one statement about a lock takes; none of them waits for a holder
	lockPulse = 2 * time.Second  // between two looks whether the locks are still held
	lockWait  = 20 * time.Second // the longest that a transaction waits for a lock: shorter than the time-out of a read
)

// lockName names an advisory lock. Names are server-wide, ignore case on MySQL and fit 64 characters, hence the hash.
func lockName(env, what string) string {
	sum := sha256.Sum256([]byte("batchbot/" + env + "/" + what))
	return "batchbot/" + hex.EncodeToString(sum[:])[:48]
}

// lockTable holds the locks that TryLock gave out through one Store: a map in front, because GET_LOCK lets one session take a lock it holds
// already, and one connection of its own behind it. The process is the only user of its SQLite file, so there processLocks stands behind the map.
type lockTable struct {
	env string
	db  *sql.DB // nil: SQLite
	key string  // SQLite: the file, which Stores of one process may share

	mu     sync.Mutex
	conn   *sql.Conn // nil until the first lock, and after it was lost
	lease  *lease    // of conn
	held   map[string]*lease
	closed bool
}

// lease is the life of one lock connection: locks taken on a lost one are gone and must not be released on its successor.
type lease struct {
	life context.Context // ends with ErrLockLost
	end  context.CancelCauseFunc
}

// processLocks holds the advisory locks of all SQLite databases of this process: file and name → the lockTable or transaction that has it.
var processLocks sync.Map

func newLockTable(env string, db *sql.DB, key string) *lockTable {
	return &lockTable{env: env, db: db, key: key, held: make(map[string]*lease)}
}

// TryLock takes an advisory lock without waiting; ok false: another holder, in this process or elsewhere. Work under the lock runs with held,
// which is ctx and ends as well, for ErrLockLost, when the lock is lost; that is noticed within seconds. release may be called more than once and
// whatever became of either; it ends held.
//
// The lock saves work and never carries correctness: it goes with its connection, the holder hears of it later than the next one gets it, and a
// cluster grants it once per server. It is for scheduled jobs, the work on one queue and git work on one repository.
func (s *Store) TryLock(ctx context.Context, name string) (held context.Context, release func(), ok bool, err error) {
	holder, err := s.locks.try(ctx, name)
	if err != nil {
		return nil, nil, false, fmt.Errorf("take the advisory lock %q: %w", name, err)
	}
	if holder == nil {
		return nil, nil, false, nil
	}
	held, end := context.WithCancelCause(ctx)
	deaf := context.AfterFunc(holder.life, func() { end(context.Cause(holder.life)) })
	return held, sync.OnceFunc(func() {
		deaf()
		end(context.Canceled)
		s.locks.release(name, holder)
	}), true, nil
}

// try returns the lease a lock was taken on, nil: it has another holder.
func (l *lockTable) try(ctx context.Context, what string) (*lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// Abandoning the statement in its middle would cost everybody's locks, and it does not wait: one caller's end is not worth that.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockTime)
	defer cancel()
	name := lockName(l.env, what)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errors.New("the store is closed")
	}
	if l.held[name] != nil {
		return nil, nil
	}
	held, err := l.take(ctx, name)
	if err != nil || !held {
		return nil, err
	}
	l.held[name] = l.lease
	return l.lease, nil
}

// take asks the server. A connection that was lost meanwhile, and every lock with it, is replaced once.
func (l *lockTable) take(ctx context.Context, name string) (bool, error) {
	if l.db == nil {
		if l.lease == nil {
			l.lease = newLease()
		}
		_, busy := processLocks.LoadOrStore(l.key+"\x00"+name, l)
		return !busy, nil
	}
	for try := 1; ; try++ {
		if l.conn == nil {
			conn, err := l.db.Conn(ctx)
			if err != nil {
				return false, err
			}
			l.conn, l.lease = conn, newLease()
			go l.watch(l.lease)
		}
		var answer sql.NullInt64
		err := l.conn.QueryRowContext(ctx, `SELECT GET_LOCK(?, 0)`, name).Scan(&answer)
		switch {
		case err == nil && !answer.Valid:
			return false, errNoLock
		case err == nil:
			return answer.Int64 == 1, nil
		}
		// Whether the lock was taken is not known; with the session it is gone for certain.
		l.drop()
		if !lostConnection(err) || try > 1 {
			return false, err
		}
	}
}

var errNoLock = errors.New("the server could not take it")

func newLease() *lease {
	life, end := context.WithCancelCause(context.Background())
	return &lease{life, end}
}

// watch notices the end of a lock connection that nobody uses: a session that was killed, or a server that is gone, tells nobody.
func (l *lockTable) watch(of *lease) {
	pulse := time.NewTicker(lockPulse)
	defer pulse.Stop()
	for {
		select {
		case <-of.life.Done():
			return
		case <-pulse.C:
			l.confirm(of)
		}
	}
}

// confirm drops a lease that the server knows nothing of. One of its locks stands for all: they belong to one session.
func (l *lockTable) confirm(of *lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lease != of {
		return
	}
	for name := range l.held {
		ctx, cancel := context.WithTimeout(context.Background(), lockTime)
		defer cancel()
		var ours sql.NullBool // NULL: nobody has it
		err := l.conn.QueryRowContext(ctx, `SELECT IS_USED_LOCK(?) = CONNECTION_ID()`, name).Scan(&ours)
		if err != nil || !ours.Bool {
			l.drop()
		}
		return
	}
}

// drop ends the lock connection for good instead of giving it, and the locks its session holds, back to the pool. The holders are told.
func (l *lockTable) drop() {
	if l.lease != nil {
		l.lease.end(ErrLockLost)
	}
	if l.conn != nil {
		discard(l.conn)
	}
	if l.db == nil {
		for name := range l.held {
			processLocks.CompareAndDelete(l.key+"\x00"+name, l)
		}
	}
	l.conn, l.lease = nil, nil
	clear(l.held)
}

func (l *lockTable) release(what string, holder *lease) {
	name := lockName(l.env, what)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[name] != holder {
		return // lost with its connection; somebody else may hold it by now
	}
	delete(l.held, name)
	if l.db == nil {
		processLocks.CompareAndDelete(l.key+"\x00"+name, l)
		return
	}
	if !releaseOn(l.conn, name) {
		l.drop()
	}
}

func (l *lockTable) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop()
	l.closed = true
}

// releaseOn frees a lock of a connection's session and reports whether that is certain.
func releaseOn(conn *sql.Conn, name string) bool {
	// The holder's context may have ended; releasing must not depend on it.
	ctx, cancel := context.WithTimeout(context.Background(), lockTime)
	defer cancel()
	var answer sql.NullInt64
	err := conn.QueryRowContext(ctx, `SELECT RELEASE_LOCK(?)`, name).Scan(&answer)
	return err == nil && answer.Int64 == 1
}

// discard closes a connection for good; database/sql reuses one unless its user calls it bad.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = conn.Close()
}

// lockTx takes an advisory lock for a transaction and waits for it, at most wait (0 to 20 s, on MySQL in whole seconds, rounded up). held
// false: somebody else has had it all that time; the transaction lives on. The lock is on the transaction's own connection and is freed after COMMIT
// or ROLLBACK, whatever the end; where freeing it is not certain the connection is closed, and the server frees it.
//
// It must be the transaction's first act: whoever waits for it then holds no row that its holder may want. It is for work that should be
// done by one at a time and has no row of its own to lock, such as making one that must not be made twice. A name belongs to one of the two
// shapes of lock: in SQLite a transaction that waits for a holder of TryLock has the database to itself meanwhile. As TryLock it saves work and
// never carries correctness.
func (t *tx) lockTx(ctx context.Context, name string, wait time.Duration) (held bool, err error) {
	defer func() {
		if err != nil {
			err = t.fail(fmt.Errorf("take the advisory lock %q: %w", name, err))
		}
	}()
	switch {
	case t.failure != nil:
		return false, t.failure
	case t.ended:
		return false, errors.New("there is no transaction")
	case t.begun:
		return false, errors.New("the transaction has begun its work")
	case wait < 0 || wait > lockWait:
		return false, fmt.Errorf("it cannot be waited for %s: 0 to %s", wait, lockWait)
	}
	key := lockName(t.store.locks.env, name)
	if t.store.locks.db == nil {
		held, err = t.lockHere(ctx, key, wait)
	} else {
		seconds := int64((wait + time.Second - 1) / time.Second)
		var answer sql.NullInt64
		err = t.sql.QueryRowContext(ctx, `SELECT GET_LOCK(?, ?)`, key, seconds).Scan(&answer)
		if err == nil && !answer.Valid {
			err = errNoLock
		}
		held = answer.Int64 == 1
	}
	if held || err != nil { // after an error it may be held
		t.locks = append(t.locks, key)
	}
	return held, err
}

// lockHere is lockTx within this process.
func (t *tx) lockHere(ctx context.Context, key string, wait time.Duration) (bool, error) {
	for end := time.Now().Add(wait); ; {
		if holder, busy := processLocks.LoadOrStore(t.store.locks.key+"\x00"+key, t); !busy || holder == t {
			return true, nil
		}
		if !time.Now().Before(end) {
			return false, nil
		}
		if !pause(ctx, 5*time.Millisecond) {
			return false, ctx.Err()
		}
	}
}

// close gives the connection back after the transaction's end, without the locks of lockTx.
func (t *tx) close() {
	if !t.ended {
		t.rollback() // nobody wanted to keep it, or a panic is on its way through
	}
	for _, key := range t.locks {
		if t.store.locks.db == nil {
			processLocks.CompareAndDelete(t.store.locks.key+"\x00"+key, t)
		} else if t.unsure || !releaseOn(t.conn, key) {
			discard(t.conn) // and the rest goes with the session
			return
		}
	}
	_ = t.conn.Close()
}
