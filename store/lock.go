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

// lockName names an advisory lock. Names are server-wide, ignore case on MySQL and fit 64 characters, hence the hash.
func lockName(env, what string) string {
	sum := sha256.Sum256([]byte("batchbot/" + env + "/" + what))
	return "batchbot/" + hex.EncodeToString(sum[:])[:48]
}

// lockTable holds the advisory locks of one Store: a map in front, because GET_LOCK lets one session take a lock it holds already, and one
// connection of its own behind it. The process is the only user of its SQLite file, so there processLocks stands behind the map.
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
type lease struct{ conn *sql.Conn }

// processLocks holds the advisory locks of all SQLite databases of this process: file and name → lockTable.
var processLocks sync.Map

func newLockTable(env string, db *sql.DB, key string) *lockTable {
	return &lockTable{env: env, db: db, key: key, held: make(map[string]*lease)}
}

// TryLock takes an advisory lock without waiting; held false: another holder, in this process or elsewhere. release may be called more than
// once and whatever became of ctx. The lock saves work and never carries correctness: it is lost with its connection, and a
// cluster grants it once per server.
func (s *Store) TryLock(ctx context.Context, name string) (release func(), held bool, err error) {
	release, held, err = s.locks.try(ctx, name)
	if err != nil {
		err = fmt.Errorf("take the advisory lock %q: %w", name, err)
	}
	return release, held, err
}

func (l *lockTable) try(ctx context.Context, what string) (func(), bool, error) {
	name := lockName(l.env, what)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, false, errors.New("the store is closed")
	}
	if holder := l.held[name]; holder != nil && holder == l.lease {
		return nil, false, nil
	}
	holder, held, err := l.take(ctx, name)
	if err != nil || !held {
		return nil, false, err
	}
	l.held[name] = holder
	var once sync.Once
	return func() { once.Do(func() { l.release(name, holder) }) }, true, nil
}

// take asks the server. A connection that was lost meanwhile, and every lock with it, is replaced once.
func (l *lockTable) take(ctx context.Context, name string) (*lease, bool, error) {
	if l.db == nil {
		if l.lease == nil {
			l.lease = &lease{}
		}
		_, busy := processLocks.LoadOrStore(l.key+"\x00"+name, l)
		return l.lease, !busy, nil
	}
	for try := 1; ; try++ {
		if l.conn == nil {
			conn, err := l.db.Conn(ctx)
			if err != nil {
				return nil, false, err
			}
			l.conn, l.lease = conn, &lease{conn: conn}
		}
		var answer sql.NullInt64
		err := l.conn.QueryRowContext(ctx, `SELECT GET_LOCK(?, 0)`, name).Scan(&answer)
		switch {
		case err == nil && !answer.Valid:
			return nil, false, errors.New("the server could not take it")
		case err == nil:
			return l.lease, answer.Int64 == 1, nil
		}
		// Whether the lock was taken is not known; with the session it is gone for certain.
		l.drop()
		if !lostConnection(err) || try > 1 {
			return nil, false, err
		}
	}
}

// drop ends the lock connection for good instead of giving it, and the locks its session holds, back to the pool.
func (l *lockTable) drop() {
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

func (l *lockTable) release(name string, holder *lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[name] != holder || holder != l.lease {
		return // lost with its connection; somebody else may hold it by now
	}
	delete(l.held, name)
	if l.db == nil {
		processLocks.CompareAndDelete(l.key+"\x00"+name, l)
		return
	}
	// The holder's context may have ended; releasing must not depend on it.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var answer sql.NullInt64
	if err := l.conn.QueryRowContext(ctx, `SELECT RELEASE_LOCK(?)`, name).Scan(&answer); err != nil {
		l.drop()
	}
}

func (l *lockTable) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop()
	l.closed = true
}

// discard closes a connection for good; database/sql reuses one unless its user calls it bad.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = conn.Close()
}
