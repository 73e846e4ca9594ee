package store

import (
	"context"
	"database/sql"
	"io/fs"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/batchbot/batchbot/schema"
)

// Intercept calls f before every statement, and with "COMMIT" before and "after COMMIT" after it. An error f returns is taken for the database's.
func Intercept(s *Store, f func(statement string, args []any) error) { s.intercept = f }

// Transaction runs one transaction of the test's own statements; landed as in job.
func Transaction(ctx context.Context, s *Store, run func(exec func(statement string, args ...any) (int64, error)) error, landed func(context.Context) (bool, error)) error {
	return s.write(ctx, job{name: "test", run: func(tx *tx) error {
		return run(func(statement string, args ...any) (int64, error) { return tx.exec(ctx, statement, args...) })
	}, landed: landed})
}

// LockTx runs one transaction in which the test takes advisory locks.
func LockTx(ctx context.Context, s *Store, run func(lock func(name string, wait time.Duration) (bool, error), exec func(statement string, args ...any) (int64, error)) error) error {
	return s.write(ctx, job{name: "test", run: func(tx *tx) error {
		return run(func(name string, wait time.Duration) (bool, error) { return tx.lockTx(ctx, name, wait) },
			func(statement string, args ...any) (int64, error) { return tx.exec(ctx, statement, args...) })
	}})
}

// MigrateTo brings the schema to a version, by the migrations of this program and more of the test's own: file name → text.
func MigrateTo(ctx context.Context, s *Store, version int64, more map[string]string) error {
	kind, files := goose.DialectMySQL, schema.MySQL()
	if s.dialect.name == sqliteDialect.name {
		kind, files = goose.DialectSQLite3, schema.SQLite()
	}
	all := make(fstest.MapFS)
	for name, text := range more {
		all[name] = &fstest.MapFile{Data: []byte(text)}
	}
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return err
	}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		all[name] = &fstest.MapFile{Data: text}
	}
	provider, err := goose.NewProvider(kind, s.writer, all)
	if err != nil {
		return err
	}
	_, err = provider.UpTo(ctx, version)
	return err
}

// Impatient makes a SQLite store give up at once where another writer holds the database.
func Impatient(t testing.TB, s *Store) {
	if _, err := s.writer.ExecContext(t.Context(), `PRAGMA busy_timeout = 0`); err != nil {
		t.Fatal(err)
	}
}

// Limit changes how long one read or one try of a transaction takes at most.
func Limit(s *Store, d time.Duration) { s.limit = d }

// Keep changes how long what was received is kept.
func Keep(s *Store, r Retention) { s.keep = r.withDefaults() }

// LockName is how the server knows an advisory lock.
func LockName(env, what string) string { return lockName(env, what) }

// CheckSession judges the settings that a connection of db has.
func CheckSession(ctx context.Context, db *sql.DB) error {
	settings, err := readSettings(ctx, db)
	if err != nil {
		return err
	}
	return checkSettings(settings)
}

// CheckSettings judges settings.
func CheckSettings(settings map[string]string) error { return checkSettings(settings) }
