package store_test

import (
	"database/sql"
	"maps"
	"strings"
	"testing"

	"github.com/batchbot/batchbot/store"
)

// A server's settings are global, and other tests use it: what no session can have is judged as a report of it.
func TestRefusesServersThatCannotKeepTheInvariants(t *testing.T) {
	t.Parallel()
	good := map[string]string{"InnoDB": "DEFAULT", "read_only": "OFF", "sql_mode": "STRICT_TRANS_TABLES,STRICT_ALL_TABLES,TRADITIONAL", "log_bin": "ON", "binlog_format": "ROW"}
	if err := store.CheckSettings(good); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		change map[string]string
		words  string
	}{
		"a replica":                       {map[string]string{"read_only": "ON"}, "read-only"},
		"a MariaDB replica":               {map[string]string{"read_only": "NO_LOCK_NO_ADMIN"}, "read-only"},
		"a lax mode":                      {map[string]string{"sql_mode": "NO_ENGINE_SUBSTITUTION"}, "strict SQL mode"},
		"a binary log of statements":      {map[string]string{"binlog_format": "STATEMENT"}, "binlog_format"},
		"a group with several primaries":  {map[string]string{"group_replication_group_name": "6c616200", "group_replication_single_primary_mode": "OFF"}, "several primaries"},
		"a primary that was fenced":       {map[string]string{"super_read_only": "ON"}, "super_read_only"},
		"InnoDB for reading":              {map[string]string{"innodb_read_only": "ON"}, "innodb_read_only"},
		"transactions for reading":        {map[string]string{"transaction_read_only": "ON"}, "transaction_read_only"},
		"MariaDB's name for that":         {map[string]string{"tx_read_only": "ON"}, "tx_read_only"},
		"no InnoDB":                       {map[string]string{"InnoDB": ""}, "no InnoDB"},
		"InnoDB switched off":             {map[string]string{"InnoDB": "NO"}, "no InnoDB"},
		"nothing said about being a copy": {map[string]string{"read_only": ""}, "read-only"},
	} {
		settings := maps.Clone(good)
		maps.Copy(settings, c.change)
		if err := store.CheckSettings(settings); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v", name, err)
		}
	}
	unlogged := maps.Clone(good)
	unlogged["log_bin"], unlogged["binlog_format"] = "OFF", "STATEMENT"
	if err := store.CheckSettings(unlogged); err != nil {
		t.Errorf("without a binary log its format does not matter: %v", err)
	}
}

func TestRefusesALaxSession(t *testing.T) {
	t.Parallel()
	laxSession(t, mysqlServer)
}

func laxSession(t *testing.T, server *server) {
	cfg := server.empty(t)
	for mode, fits := range map[string]bool{"'TRADITIONAL'": true, "'NO_ENGINE_SUBSTITUTION'": false, "''": false} {
		cfg.Params = map[string]string{"sql_mode": mode}
		db, err := sql.Open("mysql", cfg.FormatDSN())
		if err != nil {
			t.Fatal(err)
		}
		if err := store.CheckSession(t.Context(), db); (err == nil) != fits {
			t.Errorf("sql_mode %s: %v", mode, err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestRefusesTablesWithoutTransactions(t *testing.T) {
	t.Parallel()
	otherEngine(t, mysqlServer)
}

func otherEngine(t *testing.T, server *server) {
	cfg := server.empty(t)
	s, err := store.Open(t.Context(), store.Options{Driver: store.MySQL, DSN: cfg.FormatDSN()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.CheckMigrated(t.Context()); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("mysql", cfg.FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), `ALTER TABLE binding_history ENGINE = MyISAM`); err != nil {
		t.Fatal(err)
	}
	if err := s.CheckMigrated(t.Context()); err == nil || !strings.Contains(err.Error(), "table binding_history in MyISAM") {
		t.Errorf("history is kept in MyISAM: %v", err)
	}
}
