package store_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/batchbot/batchbot/store"
	"github.com/batchbot/batchbot/store/storetest"
)

// server is a real MySQL or MariaDB that tests make their databases on.
type server struct {
	variable string // of the environment, names the server
	remedy   string // what starts one

	mu   sync.Mutex
	idle []lent // migrated, empty databases
}

// lent is a database and its schema as it was migrated.
type lent struct{ name, shape string }

var (
	servers     []*server
	mysqlServer = newServer("TEST_MYSQL_DSN", "make test")
)

func newServer(variable, remedy string) *server {
	s := &server{variable: variable, remedy: remedy}
	servers = append(servers, s)
	return s
}

func TestMain(m *testing.M) {
	if place := os.Getenv(migrateVariable); place != "" {
		os.Exit(migrateAsAProcess(place))
	}
	status := m.Run()
	for _, s := range servers {
		if err := s.dropIdle(); err != nil {
			fmt.Fprintln(os.Stderr, "drop the tests' databases:", err)
			status = max(status, 1)
		}
	}
	os.Exit(status)
}

// config is the server's DSN, without a database.
func (s *server) config() (*mysql.Config, error) {
	dsn := os.Getenv(s.variable)
	if dsn == "" {
		return nil, fmt.Errorf("%s names no server: run `%s`, which starts one", s.variable, s.remedy)
	}
	return mysql.ParseDSN(dsn)
}

// in is the DSN's settings for a database.
func (s *server) in(t testing.TB, database string) *mysql.Config {
	t.Helper()
	cfg, err := s.config()
	if err != nil {
		t.Fatal(err)
	}
	cfg.DBName = database
	return cfg
}

// admin is a connection pool to the server, in no database.
func (s *server) admin(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", s.in(t, "").FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func (s *server) create(t testing.TB) string {
	t.Helper()
	name := "store_test_" + strings.ToLower(rand.Text())
	if _, err := s.admin(t).ExecContext(t.Context(), "CREATE DATABASE "+name+" CHARACTER SET utf8mb4"); err != nil {
		t.Fatal(err)
	}
	return name
}

// empty makes a database without tables that is dropped when the test ends.
func (s *server) empty(t testing.TB) *mysql.Config {
	t.Helper()
	admin := s.admin(t)
	name := s.create(t)
	t.Cleanup(func() {
		if _, err := admin.ExecContext(context.Background(), "DROP DATABASE "+name); err != nil {
			t.Error(err)
		}
	})
	return s.in(t, name)
}

// database lends a migrated, empty database. Making one takes the server many times longer than most tests, so one is handed on
// after its tables were emptied.
func (s *server) database(t testing.TB) storetest.Database {
	t.Helper()
	s.mu.Lock()
	var d lent
	if n := len(s.idle); n > 0 {
		d, s.idle = s.idle[n-1], s.idle[:n-1]
	}
	s.mu.Unlock()
	fresh := d.name == ""
	if fresh {
		d.name = s.create(t)
	}
	cfg := s.in(t, d.name)
	options := store.Options{Driver: store.MySQL, DSN: cfg.FormatDSN(), MaxConns: 12, Env: d.name} // advisory locks are server-wide
	cfg.ParseTime, cfg.InterpolateParams, cfg.ClientFoundRows = true, true, true
	cfg.Params = map[string]string{"time_zone": "'+00:00'", "innodb_lock_wait_timeout": "5", "lock_wait_timeout": "10"}
	direct, err := sql.Open("mysql", cfg.FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.takeBack(t, direct, d)
		_ = direct.Close()
	})
	if fresh {
		s.migrate(t, options)
		if d.shape, err = shape(t.Context(), direct); err != nil {
			t.Fatal(err)
		}
	}
	return database(storetest.Database{Driver: store.MySQL, SQL: direct}, options)
}

func (s *server) migrate(t testing.TB, options store.Options) {
	t.Helper()
	opened, err := store.Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = opened.Close() }()
	if err := opened.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// takeBack empties a database for the next test. One whose schema was changed, or that somebody still works in, is dropped.
func (s *server) takeBack(t testing.TB, direct *sql.DB, d lent) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := clear(ctx, direct, d.shape); err != nil {
		t.Logf("%s is not handed on: %v", d.name, err)
		if _, err := direct.ExecContext(ctx, "DROP DATABASE "+d.name); err != nil {
			t.Error(err)
		}
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = append(s.idle, d)
}

// Tables whose unique values, unlike ids, come again with the next test. A row deleted there stays in the index for a while, and an
// INSERT of its value would lock the gap around it, which a test of locks must not meet.
var comeAgain = []string{"audit", "operation", "merge_batch_request", "idempotency", "delivery", "outbox"}

// clear empties the tables. DELETE is several times faster than TRUNCATE, but also leaves the statistics of a table that was large, on which the
// next test's plans would rest.
func clear(ctx context.Context, db *sql.DB, migrated string) error {
	changed, err := shape(ctx, db)
	if err != nil {
		return err
	}
	if changed != migrated {
		return fmt.Errorf("its schema was changed: %s instead of %s", changed, migrated)
	}
	for _, table := range storetest.Tables() {
		limit := int64(500)
		if slices.Contains(comeAgain, table) {
			limit = 1
		}
		result, err := db.ExecContext(ctx, fmt.Sprintf(`DELETE FROM %s LIMIT %d`, table, limit))
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil {
			return err
		} else if n < limit {
			continue
		}
		if _, err := db.ExecContext(ctx, `TRUNCATE TABLE `+table); err != nil {
			return err
		}
	}
	return nil
}

// shape tells a schema that a test has changed.
func shape(ctx context.Context, db *sql.DB) (shape string, err error) {
	err = db.QueryRowContext(ctx, `SELECT CONCAT((SELECT COUNT(*) FROM goose_db_version), ' migrations, ',
		(SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE()), ' columns, ',
		(SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE()), ' parts of keys')`).Scan(&shape)
	return shape, err
}

func (s *server) dropIdle() error {
	if len(s.idle) == 0 {
		return nil
	}
	cfg, err := s.config()
	if err != nil {
		return err
	}
	db, err := sql.Open("mysql", cfg.FormatDSN())
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	for _, d := range s.idle {
		if _, err := db.ExecContext(context.Background(), "DROP DATABASE "+d.name); err != nil {
			return err
		}
	}
	return nil
}
