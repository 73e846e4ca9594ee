package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	"modernc.org/sqlite"
)

// SQLite's own clock has milliseconds and knows nothing of testing/synctest. The process is the database server here, so its clock is
// the database's clock. Not deterministic: SQLite must call it anew for every statement.
//
//nolint:gochecknoinits // the driver takes functions for all connections at once, before the first is opened
func init() {
	sqlite.MustRegisterScalarFunction("batchbot_now", 0, func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) {
		return time.Now().UnixMicro(), nil
	})
}

func openSQLite(ctx context.Context, o Options) (*Store, error) {
	if o.Path == "" {
		return nil, fmt.Errorf("the SQLite database needs a path")
	}
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, fmt.Errorf("SQLite database %s: %w", o.Path, err)
	}
	dsn := func(extra ...string) string {
		q := url.Values{"_pragma": {"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)"}}
		for i := 0; i+1 < len(extra); i += 2 {
			q.Add(extra[i], extra[i+1])
		}
		return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode()
	}
	// A transaction that reads first and writes later would be refused when another committed in between; one that begins as a writer never is.
	writer, err := sql.Open("sqlite", dsn("_txlock", "immediate"))
	if err != nil {
		return nil, fmt.Errorf("open SQLite database %s: %w", path, err)
	}
	writer.SetMaxOpenConns(1)
	reader, err := sql.Open("sqlite", dsn("_pragma", "query_only(1)"))
	if err != nil {
		_ = writer.Close()
		return nil, fmt.Errorf("open SQLite database %s: %w", path, err)
	}
	reader.SetMaxOpenConns(4)
	reader.SetMaxIdleConns(4)
	s := &Store{dialect: sqliteDialect, writer: writer, reader: reader, place: "sqlite " + path, limit: timeLimit, keep: o.Retention.withDefaults(), locks: newLockTable(o.Env, nil, path)}
	s.migrate = func(ctx context.Context) error { return migrateSQLite(ctx, writer) }
	// The writer first: it makes the file and switches it to WAL.
	for _, db := range []*sql.DB{writer, reader} {
		if err := db.PingContext(ctx); err != nil {
			_ = s.Close()
			return nil, fmt.Errorf("cannot open SQLite database %s: its folder must exist and be writable: %w", path, err)
		}
	}
	return s, nil
}

// migrateSQLite begins again when another process migrates the same file: each step is one transaction that only one of them gets through, and the
// others find it done.
func migrateSQLite(ctx context.Context, db *sql.DB) error {
	for try := 1; ; try++ {
		err := migrateWith(ctx, db, sqliteDialect)
		if err == nil || try == 5 || !pause(ctx, 100*time.Millisecond) {
			return err
		}
	}
}
