package store_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/batchbot/batchbot/store"
	"github.com/batchbot/batchbot/store/storetest"
)

func TestSQLite(t *testing.T) {
	t.Parallel()
	storetest.Run(t, newSQLite)
}

func TestMySQL(t *testing.T) {
	t.Parallel()
	storetest.Run(t, mysqlServer.database)
}

// sqliteTemplate is a migrated database file, made once.
var sqliteTemplate = sync.OnceValues(func() ([]byte, error) {
	folder, err := os.MkdirTemp("", "batchbot-store-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	path := filepath.Join(folder, "template.db")
	s, err := store.Open(context.Background(), store.Options{Driver: store.SQLite, Path: path})
	if err != nil {
		return nil, err
	}
	if err := s.Migrate(context.Background()); err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil { // the last connection folds the write-ahead log into the file
		return nil, err
	}
	return os.ReadFile(path)
})

func newSQLite(t testing.TB) storetest.Database {
	template, err := sqliteTemplate()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "batchbot.db")
	if err := os.WriteFile(path, template, 0o600); err != nil {
		t.Fatal(err)
	}
	options := store.Options{Driver: store.SQLite, Path: path}
	direct, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)&_pragma=synchronous(OFF)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = direct.Close() })
	return database(storetest.Database{Driver: store.SQLite, SQL: direct}, options)
}

func database(db storetest.Database, options store.Options) storetest.Database {
	db.Open = func(t testing.TB) *store.Store {
		t.Helper()
		s, err := store.Open(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	db.Intercept, db.Transaction, db.LockTx = store.Intercept, store.Transaction, store.LockTx
	db.MigrateTo, db.Limit = store.MigrateTo, store.Limit
	db.Impatient, db.Keep, db.LockName = store.Impatient, store.Keep, func(env, what string) string {
		if env == "default" && options.Env != "" {
			env = options.Env
		}
		return store.LockName(env, what)
	}
	return db
}
