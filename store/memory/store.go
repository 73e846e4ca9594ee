package memory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Database holds the tables that several Stores share.
type Database struct {
	mu     sync.Mutex
	tables tables
	locks  map[string]*hold // advisory locks by name
	ahead  time.Duration    // how far its clock is ahead
}

// hold is one taking of an advisory lock.
type hold struct{ by *Store }

// New returns an empty database.
func New() *Database { return &Database{locks: make(map[string]*hold)} }

// Jump moves the database's clock ahead.
func (d *Database) Jump(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ahead += by
}

// now is the database's clock in microseconds. The caller holds mu.
func (d *Database) now() int64 { return time.Now().Add(d.ahead).UnixMicro() }

// Seam is called before every transaction, every read outside of one and every advisory lock (done false), and after every commit (done true).
// An error before means that nothing happened; one after it that everything did and the caller does not know. name says what is being done to
// which thing.
type Seam func(ctx context.Context, name string, write, done bool) error

// Open returns one more instance's handle. seam may be nil.
func (d *Database) Open(seam Seam) *Store {
	if seam == nil {
		seam = func(context.Context, string, bool, bool) error { return nil }
	}
	return &Store{db: d, seam: seam}
}

// Store is one instance's handle on a Database. It implements the ports of round, intake and outbox, and what operators call.
type Store struct {
	db   *Database
	seam Seam
}

// errRollback makes a transaction undo what it did without that being a failure.
var errRollback = errors.New("rolled back on purpose")

// write runs one transaction: as a whole, or not at all.
func (s *Store) write(ctx context.Context, name string, run func(t *tx) error) error {
	if err := s.enter(ctx, name, true); err != nil {
		return err
	}
	s.db.mu.Lock()
	t := &tx{tables: &s.db.tables, store: s, now: s.db.now()}
	err := run(t)
	if err != nil {
		t.rollback()
	}
	s.db.mu.Unlock()
	switch {
	case errors.Is(err, errRollback):
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := s.seam(ctx, name, true, true); err != nil {
		return fmt.Errorf("%s: after commit: %w", name, err)
	}
	return nil
}

// read looks at the tables outside any transaction.
func (s *Store) read(ctx context.Context, name string, look func(t *tables, now int64) error) error {
	if err := s.enter(ctx, name, false); err != nil {
		return err
	}
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	if err := look(&s.db.tables, s.db.now()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (s *Store) enter(ctx context.Context, name string, write bool) error {
	err := s.seam(ctx, name, write, false)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// missing is the error of a read that had to find something.
func missing(what string, args ...any) error {
	return fmt.Errorf(what+": not found", args...)
}

func at(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

func since(now, then int64) time.Duration { return time.Duration(now-then) * time.Microsecond }

// clip keeps a text within a column of n characters.
func clip(s string, n int) string {
	s = strings.ToValidUTF8(s, "�")
	if len(s) <= n {
		return s
	}
	runes := []rune(s)
	if len(runes) <= n {
		return s
	}
	return string(runes[:n-1]) + "…"
}

const (
	longText  = 2000 // reasons, details, messages, errors
	titleText = 1024
)
