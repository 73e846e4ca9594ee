package store_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/batchbot/batchbot/store"
	"github.com/batchbot/batchbot/store/storetest"
)

func TestSQLite(t *testing.T) {
	t.Parallel()
	storetest.Run(t, newSQLite)
}

func TestMySQL(t *testing.T) {
	t.Parallel()
	mysqlDSN(t)
	storetest.Run(t, newMySQL)
}

// mysqlDSN is the server that the tests make their databases on.
func mysqlDSN(t testing.TB) string {
	dsn := os.Getenv("TEST_MYSQL_DSN")
	if dsn == "" {
		t.Fatal("TEST_MYSQL_DSN names no MySQL server: run `make test`, which starts one")
	}
	return dsn
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
	direct, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = direct.Close() })
	return database(storetest.Database{Driver: store.SQLite, SQL: direct}, options)
}

func newMySQL(t testing.TB) storetest.Database {
	options := store.Options{Driver: store.MySQL, DSN: emptyMySQL(t), MaxConns: 12}
	cfg, err := mysql.ParseDSN(options.DSN)
	if err != nil {
		t.Fatal(err)
	}
	cfg.ParseTime, cfg.InterpolateParams, cfg.ClientFoundRows = true, true, true
	cfg.Params = map[string]string{"time_zone": "'+00:00'", "innodb_lock_wait_timeout": "5"}
	direct, err := sql.Open("mysql", cfg.FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = direct.Close() })
	s, err := store.Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return database(storetest.Database{Driver: store.MySQL, SQL: direct}, options)
}

// emptyMySQL makes a database that is dropped when the test ends, and returns its DSN.
func emptyMySQL(t testing.TB) string {
	cfg, err := mysql.ParseDSN(mysqlDSN(t))
	if err != nil {
		t.Fatal(err)
	}
	admin, err := sql.Open("mysql", cfg.FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	name := "store_test_" + strings.ToLower(rand.Text())
	if _, err := admin.ExecContext(t.Context(), "CREATE DATABASE "+name+" CHARACTER SET utf8mb4"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := admin.ExecContext(context.Background(), "DROP DATABASE "+name); err != nil {
			t.Error(err)
		}
		_ = admin.Close()
	})
	cfg.DBName = name
	return cfg.FormatDSN()
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
	db.Intercept, db.Transaction = store.Intercept, store.Transaction
	db.Impatient, db.LockName = store.Impatient, store.LockName
	return db
}
