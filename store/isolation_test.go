package store_test

import (
	"bytes"
	"database/sql"
	"net"
	"strings"
	"testing"

	"github.com/batchbot/batchbot/store"
)

// A proxy between bot and server may swallow what sets up a session, and the server's own default then is REPEATABLE READ.
func TestRefusesWhereTheIsolationLevelGetsLost(t *testing.T) {
	t.Parallel()
	isolation(t, mysqlServer)
}

func isolation(t *testing.T, server *server) {
	cfg := server.empty(t)
	s := openedOn(t, cfg.FormatDSN(), cfg.DBName)
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.CheckIsolation(t.Context()); err != nil {
		t.Errorf("without a proxy: %v", err)
	}

	asked := []byte("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
	swallowed := []byte("DO 1 #" + strings.Repeat(" ", len(asked)-6))
	cfg.Addr = rewriting(t, cfg.Addr, asked, swallowed)
	cfg.Params = map[string]string{"innodb_lock_wait_timeout": "1"}
	s = openedOn(t, cfg.FormatDSN(), cfg.DBName)
	if err := s.CheckIsolation(t.Context()); err == nil || !strings.Contains(err.Error(), "READ COMMITTED") {
		t.Errorf("behind a proxy that swallows the level: %v", err)
	}
	db, err := sql.Open("mysql", cfg.FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if left := direct(t, db)(`SELECT request_id FROM idempotency`); len(left) != 0 {
		t.Errorf("the check left %v", left)
	}
}

func openedOn(t *testing.T, dsn, env string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{Driver: store.MySQL, DSN: dsn, Env: env})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// rewriting is the address of a proxy that replaces a text on the way to the server by one of the same length.
func rewriting(t *testing.T, server string, old, replacement []byte) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			back, err := net.Dial("tcp", server)
			if err != nil {
				_ = client.Close()
				return
			}
			end := func() { _, _ = client.Close(), back.Close() }
			go func() {
				defer end()
				copyUntil(client, back, func([]byte) bool { return false })
			}()
			go func() {
				defer end()
				copyUntil(back, client, func(packet []byte) bool {
					copy(packet, bytes.ReplaceAll(packet, old, replacement))
					return false
				})
			}()
		}
	}()
	return listener.Addr().String()
}
