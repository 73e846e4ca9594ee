package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/batchbot/batchbot/schema"
)

// Driver names a kind of database.
type Driver string

// The drivers.
const (
	MySQL  Driver = "mysql"  // also MariaDB; any number of instances share one database
	SQLite Driver = "sqlite" // a file beside the one instance that uses it
)

// Options says which database to open.
type Options struct {
	Driver    Driver
	DSN       string        // MySQL: USER:PASSWORD@tcp(HOST:PORT)/DATABASE; what correctness rests on is set whatever it says
	Path      string        // SQLite: the database file; its folder must exist
	MaxConns  int           // MySQL: connections at most; 0 = 16
	Patience  time.Duration // how long to wait for a database that does not answer at start; 0 = 15 s
	Retention Retention     // how long what was received is kept
	Env       string        // part of advisory lock names, which are server-wide; 0 to 40 characters, empty = "default"
}

// Store is the database. Its methods may be called by any number of goroutines, and any number of Stores may share one MySQL.
type Store struct {
	dialect   dialect
	writer    *sql.DB // SQLite: one connection
	reader    *sql.DB // MySQL: the same pool as writer
	place     string  // for messages: where the database is, without credentials
	migrate   func(context.Context) error
	locks     *lockTable
	limit     time.Duration // timeLimit, but in tests
	keep      Retention
	retries   atomic.Int64
	stale     atomic.Int64
	intercept func(statement string, args []any) error // tests only, see seam
}

// Open connects to a database and checks that it can keep the invariants. It waits a bounded time for a database that does not answer.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Patience <= 0 {
		o.Patience = 15 * time.Second
	}
	if o.Env == "" {
		o.Env = "default"
	}
	if len(o.Env) > 40 {
		return nil, fmt.Errorf("database environment name %q is longer than 40 characters", o.Env)
	}
	switch o.Driver {
	case MySQL:
		return openMySQL(ctx, o)
	case SQLite:
		return openSQLite(ctx, o)
	}
	return nil, fmt.Errorf("unknown database driver %q: use %q or %q", o.Driver, MySQL, SQLite)
}

// Ping reports whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.reader.PingContext(ctx); err != nil {
		return fmt.Errorf("database %s does not answer: %w", s.place, err)
	}
	return nil
}

// Close ends every connection. Advisory locks held through this Store are released.
func (s *Store) Close() error {
	s.locks.close()
	if s.reader == s.writer {
		return s.writer.Close()
	}
	return errors.Join(s.reader.Close(), s.writer.Close())
}

// Stats counts what the store met since it was opened.
type Stats struct {
	Retries        int64 // transactions run again because the database asked for it
	StaleCallbacks int64 // writes dropped because the binding belongs to another operation by now
}

// Stats returns the counters.
func (s *Store) Stats() Stats {
	return Stats{Retries: s.retries.Load(), StaleCallbacks: s.stale.Load()}
}

// Pools returns the connection pools' statistics by name.
func (s *Store) Pools() map[string]sql.DBStats {
	if s.reader == s.writer {
		return map[string]sql.DBStats{"main": s.writer.Stats()}
	}
	return map[string]sql.DBStats{"write": s.writer.Stats(), "read": s.reader.Stats()}
}

// Migrate brings the schema up to date. Several instances may call it at once: one migrates, the others wait.
func (s *Store) Migrate(ctx context.Context) error {
	if err := s.migrate(ctx); err != nil {
		return fmt.Errorf("migrate database %s: %w", s.place, err)
	}
	return nil
}

// CheckMigrated returns an error with the remedy unless the schema fits this program. Migrations are additive, so a schema one step newer
// fits too and instances can be upgraded one by one.
func (s *Store) CheckMigrated(ctx context.Context) error {
	var version sql.NullInt64
	_, err := one(ctx, s, `SELECT MAX(version_id) FROM goose_db_version WHERE is_applied = 1`, nil, &version)
	switch {
	case err != nil && !isNoTable(err):
		return fmt.Errorf("read the schema version of database %s: %w", s.place, err)
	case version.Int64 < schema.Version:
		return fmt.Errorf("database %s has schema version %d and this program needs %d: run `batchbot migrate`", s.place, version.Int64, schema.Version)
	case version.Int64 > schema.Version+1:
		return fmt.Errorf("database %s has schema version %d, too new for this program (%d): upgrade batchbot", s.place, version.Int64, schema.Version)
	}
	return s.checkEngines(ctx)
}

// checkEngines refuses tables of an engine without transactions: the files name InnoDB, but a dump may have been loaded elsewhere.
func (s *Store) checkEngines(ctx context.Context) error {
	if s.dialect.name != mysqlDialect.name {
		return nil
	}
	var table, engine string
	found, err := one(ctx, s, `SELECT table_name, engine FROM information_schema.tables
		WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE' AND engine <> 'InnoDB' ORDER BY table_name LIMIT 1`, nil, &table, &engine)
	if err != nil {
		return fmt.Errorf("read the storage engines of database %s: %w", s.place, err)
	}
	if found {
		return fmt.Errorf("database %s keeps table %s in %s, which has no transactions: run `ALTER TABLE %s ENGINE = InnoDB`", s.place, table, engine, table)
	}
	return nil
}

func migrateWith(ctx context.Context, db *sql.DB, d dialect) error {
	kind, files := goose.DialectMySQL, schema.MySQL()
	if d.name == "sqlite" {
		kind, files = goose.DialectSQLite3, schema.SQLite()
	}
	provider, err := goose.NewProvider(kind, db, files)
	if err != nil {
		return err
	}
	_, err = provider.Up(ctx)
	return err
}

// untilReachable repeats connect until it works, fails for good, or patience ends. It returns the last failure that was not patience itself.
func untilReachable(ctx context.Context, patience time.Duration, connect func(context.Context) (final bool, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var last error
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		final, err := connect(ctx)
		if err == nil || final {
			return err
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		if !pause(ctx, wait) {
			return last
		}
	}
}
