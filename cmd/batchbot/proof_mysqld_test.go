//go:build faultpoints

package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// mysqld is the database server, which is killed and comes back on the same data and port; scripts/with-mysql.sh sees to that.
type mysqld struct {
	db      *sql.DB
	pidFile string
}

func findMysqld(t *testing.T, db *sql.DB) *mysqld {
	t.Helper()
	var dir, file string
	var flush int
	if err := db.QueryRowContext(t.Context(), `SELECT @@datadir, @@pid_file, @@innodb_flush_log_at_trx_commit`).Scan(&dir, &file, &flush); err != nil {
		t.Fatal(err)
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	s := &mysqld{db: db, pidFile: file}
	if _, err := s.pid(); err != nil || flush != 1 || os.Getenv("SERVER_SURVIVES") == "" {
		t.Fatalf("the database server cannot be killed here (%v): run this as `make proof` or `make chaos` do, with SERVER_SURVIVES=1 scripts/with-mysql.sh", err)
	}
	return s
}

func (s *mysqld) pid() (int, error) {
	text, err := os.ReadFile(s.pidFile)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// kill ends the server without a warning, and returns when its successor answers.
func (s *mysqld) kill(ctx context.Context) error {
	old, err := s.pid()
	if err != nil {
		return err
	}
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		return fmt.Errorf("killing mysqld %d: %w", old, err)
	}
	limit := time.Now().Add(time.Minute)
	for rest(ctx, 100*time.Millisecond) {
		if now, err := s.pid(); err == nil && now != old && s.db.PingContext(ctx) == nil {
			return nil
		}
		if time.Now().After(limit) {
			return fmt.Errorf("no mysqld came back within a minute")
		}
	}
	return ctx.Err()
}
