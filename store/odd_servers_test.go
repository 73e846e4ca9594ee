//go:build mariadb

package store_test

import (
	"bufio"
	"context"
	"database/sql"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/batchbot/batchbot/store"
)

// Servers that are really set up in a way that cannot keep the invariants. Their settings are global, so each test starts a server of its own.
func TestRefusesAServerSetUpForSomethingElse(t *testing.T) {
	t.Parallel()
	for engine, c := range map[string]struct{ script, variable, readOnly, transactions string }{
		"MySQL":   {"../scripts/with-mysql.sh", "TEST_MYSQL_DSN", "super_read_only", "transaction_read_only"},
		"MariaDB": {"../scripts/with-mariadb.sh", "TEST_MARIADB_DSN", "read_only", "tx_read_only"},
	} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			cfg := ownServer(t, c.script, c.variable, "--log-bin=log --server-id=1 --binlog-format=STATEMENT")
			cfg.DBName = "batchbot"
			opens := func() error {
				s, err := store.Open(t.Context(), store.Options{Driver: store.MySQL, DSN: cfg.FormatDSN()})
				if err == nil {
					err = s.Close()
				}
				return err
			}
			if err := opens(); err == nil || !strings.Contains(err.Error(), "binlog_format") {
				t.Errorf("a binary log of statements: %v", err)
			}
			cfg.DBName = ""
			db, err := sql.Open("mysql", cfg.FormatDSN())
			if err != nil {
				t.Fatal(err)
			}
			cfg.DBName = "batchbot"
			defer func() { _ = db.Close() }()
			set := func(statement string) {
				t.Helper()
				if _, err := db.ExecContext(t.Context(), statement); err != nil {
					t.Fatalf("%s: %v", statement, err)
				}
			}
			set(`SET GLOBAL binlog_format = 'ROW'`)
			if err := opens(); err != nil {
				t.Errorf("a binary log of rows: %v", err)
			}
			for _, variable := range []string{c.readOnly, c.transactions} {
				set(`SET GLOBAL ` + variable + ` = ON`)
				if err := opens(); err == nil || !strings.Contains(err.Error(), "read-only") {
					t.Errorf("%s: %v", variable, err)
				}
				set(`SET GLOBAL ` + variable + ` = OFF`)
			}
			if c.readOnly == "super_read_only" {
				set(`SET GLOBAL read_only = OFF`) // came with it and stays
			}
			if err := opens(); err != nil {
				t.Errorf("a primary again: %v", err)
			}
		})
	}
}

func TestRefusesAServerWithoutInnoDB(t *testing.T) {
	t.Parallel()
	cfg := ownServer(t, "../scripts/with-mariadb.sh", "TEST_MARIADB_DSN", "--skip-innodb --default-storage-engine=Aria")
	cfg.DBName = "batchbot"
	s, err := store.Open(t.Context(), store.Options{Driver: store.MySQL, DSN: cfg.FormatDSN()})
	if err == nil {
		_ = s.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "no InnoDB") {
		t.Errorf("a server without InnoDB: %v", err)
	}
}

// ownServer starts a server with these options that is gone when the test ends. It has an empty database batchbot.
func ownServer(t *testing.T, script, variable, options string) *mysql.Config {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, script, "bash", "-c", "echo $"+variable+"; exec sleep 300")
	command.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, variable+"=") }), "SERVER_OPTIONS="+options)
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = command.Wait() // ended by a signal
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%s started no server: %v", script, err)
	}
	cfg, err := mysql.ParseDSN(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("mysql", cfg.FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), `CREATE DATABASE batchbot`); err != nil {
		t.Fatal(err)
	}
	return cfg
}
