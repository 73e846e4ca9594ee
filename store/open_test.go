package store_test

import (
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/store"
)

// fails opens a database that cannot be opened and wants one line that holds these words and no secret.
func fails(t *testing.T, o store.Options, words ...string) {
	t.Helper()
	o.Patience = time.Second
	began := time.Now()
	s, err := store.Open(t.Context(), o)
	if err == nil {
		_ = s.Close()
		t.Fatalf("%v was opened", words)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v to say so", took)
	}
	line := err.Error()
	for _, word := range words {
		if !strings.Contains(line, word) {
			t.Errorf("%q does not say %q", line, word)
		}
	}
	if strings.Contains(line, "\n") || strings.Contains(line, "s3cret") {
		t.Errorf("not one line without the password: %q", line)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for name, c := range map[string]struct {
		options store.Options
		words   []string
	}{
		"an unknown driver": {store.Options{Driver: "postgres"}, []string{`"postgres"`, "mysql", "sqlite"}},
		"a server that is not there": {store.Options{Driver: store.MySQL, DSN: "bot:s3cret@tcp(" + nobody + ")/batchbot"},
			[]string{nobody + "/batchbot", "cannot be reached", "connection refused", "check that the server runs"}},
		"a host that is not there": {store.Options{Driver: store.MySQL, DSN: "bot:s3cret@tcp(db.invalid:3306)/batchbot"},
			[]string{"db.invalid:3306/batchbot", "cannot be reached"}},
		"a DSN that is none":          {store.Options{Driver: store.MySQL, DSN: "mysql://bot:s3cret@db/batchbot"}, []string{"USER:PASSWORD@tcp(HOST:3306)/DATABASE"}},
		"a DSN without a database":    {store.Options{Driver: store.MySQL, DSN: "bot:s3cret@tcp(db:3306)/"}, []string{"db:3306", "names no database"}},
		"a file without a path":       {store.Options{Driver: store.SQLite}, []string{"path"}},
		"a file in no folder":         {store.Options{Driver: store.SQLite, Path: filepath.Join(folder, "none", "batchbot.db")}, []string{"none/batchbot.db", "folder must exist"}},
		"a folder for a file":         {store.Options{Driver: store.SQLite, Path: folder}, []string{folder}},
		"an endless environment name": {store.Options{Driver: store.SQLite, Env: strings.Repeat("x", 41)}, []string{"40 characters"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fails(t, c.options, c.words...)
		})
	}
}

func TestOpenMySQLRefusesWrongPasswordAndMissingDatabase(t *testing.T) {
	t.Parallel()
	cfg := mysqlServer.empty(t)
	missing := cfg.Clone()
	missing.DBName = "no_such_database"
	fails(t, store.Options{Driver: store.MySQL, DSN: missing.FormatDSN()}, cfg.Addr+"/no_such_database", "refuses", "check the user")
	wrong := cfg.Clone()
	wrong.Passwd = "s3cret"
	fails(t, store.Options{Driver: store.MySQL, DSN: wrong.FormatDSN()}, cfg.Addr, "refuses", "check the user")
}

// The server comes up after the bot: it is waited for.
func TestOpenMySQLWaitsForTheServer(t *testing.T) {
	t.Parallel()
	cfg := mysqlServer.empty(t)
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = front.Close() }()
	server := cfg.Addr
	cfg.Addr = front.Addr().String()
	go func() {
		for n := 0; ; n++ {
			conn, err := front.Accept()
			if err != nil {
				return
			}
			if n < 2 {
				_ = conn.Close() // not yet
				continue
			}
			go pipe(conn, server)
		}
	}()
	s, err := store.Open(t.Context(), store.Options{Driver: store.MySQL, DSN: cfg.FormatDSN(), Patience: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func pipe(conn net.Conn, server string) {
	defer func() { _ = conn.Close() }()
	back, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer func() { _ = back.Close() }()
	done := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{conn, back}, {back, conn}} {
		go func() {
			buffer := make([]byte, 64<<10)
			for {
				n, err := way[1].Read(buffer)
				if n > 0 {
					if _, err := way[0].Write(buffer[:n]); err != nil {
						break
					}
				}
				if err != nil {
					break
				}
			}
			done <- struct{}{}
		}()
	}
	<-done
}

func TestDatabaseWithoutTablesSaysMigrate(t *testing.T) {
	t.Parallel()
	for _, o := range []store.Options{
		{Driver: store.SQLite, Path: filepath.Join(t.TempDir(), "100% new?.db")},
		{Driver: store.MySQL, DSN: mysqlServer.empty(t).FormatDSN()},
	} {
		s, err := store.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.CheckMigrated(t.Context()); err == nil || !strings.Contains(err.Error(), "run `batchbot migrate`") {
			t.Errorf("%s: %v", o.Driver, err)
		}
		if err := s.Migrate(t.Context()); err != nil {
			t.Error(err)
		}
		if err := s.CheckMigrated(t.Context()); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Ping(t.Context()); err == nil {
			t.Errorf("%s: a closed store answers", o.Driver)
		}
	}
}

func TestMySQLSessions(t *testing.T) {
	t.Parallel()
	sessions(t, mysqlServer)
}

// sessions: what correctness rests on is set whatever the DSN says.
func sessions(t *testing.T, server *server) {
	cfg := server.empty(t)
	cfg.ParseTime, cfg.ClientFoundRows = false, false
	cfg.Params = map[string]string{"time_zone": "'+05:00'", "sql_mode": "''"}
	s, err := store.Open(t.Context(), store.Options{Driver: store.MySQL, DSN: cfg.FormatDSN()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	repo, err := s.UpsertRepository(t.Context(), bot.RepositoryRef{Host: "forge", ExternalID: 1, Path: "fruit/basket"})
	if err != nil {
		t.Fatal(err)
	}
	// A long name is refused by the strict mode, not cut; clientFoundRows and the clock show in the other tests' figures.
	if _, err := s.UpsertRepository(t.Context(), bot.RepositoryRef{Host: strings.Repeat("h", 65), ExternalID: 2, Path: "x/y"}); err == nil {
		t.Error("a host name was cut: sql_mode is not strict")
	}
	queue, err := s.UpsertQueue(t.Context(), repo.ID, bot.DefaultQueueSettings("main"), "")
	if err != nil {
		t.Fatal(err)
	}
	result, err := s.Apply(t.Context(), bot.Application{
		OperationID: "one", QueueID: queue.ID, Repository: repo, Lane: bot.LaneNormal, ExpiresIn: time.Hour,
		MR:      bot.MRSnapshot{Number: 1, HeadSHA: "abc", Target: "main", State: bot.MROpen},
		Command: bot.CommandRef{RequestID: "forge:issue:1:1", By: "ann", Verb: "batch"},
	})
	if err != nil || time.Since(result.Operation.CreatedAt).Abs() > time.Minute {
		t.Errorf("created at %v, now is %v: %v", result.Operation.CreatedAt, time.Now(), err)
	}
}

func TestSchemaHasOneShape(t *testing.T) {
	t.Parallel()
	oneShape(t, mysqlServer)
}

// oneShape: the two dialects' files describe one schema, down to the defaults that instances of the version before rely on.
func oneShape(t *testing.T, server *server) {
	shapes := make(map[store.Driver][]string)
	for _, db := range []struct {
		driver  store.Driver
		columns string
		indexes string
		rows    func(query string) []string
	}{
		{store.SQLite,
			`SELECT m.name || '.' || c.name || ' ' || c.type || CASE WHEN c."notnull" OR c.pk THEN '' ELSE ' NULL' END || CASE WHEN c.hidden THEN ' GENERATED' ELSE '' END ||
				CASE WHEN c.dflt_value IS NULL THEN '' ELSE ' DEFAULT ' || TRIM(c.dflt_value, '''') END
			 FROM sqlite_schema m, pragma_table_xinfo(m.name) c WHERE m.type = 'table'`,
			`SELECT m.name || ' ' || i.name || CASE WHEN i."unique" THEN ' UNIQUE' ELSE '' END || ' ' ||
				(SELECT group_concat(c.name, ',') FROM pragma_index_info(i.name) c)
			 FROM sqlite_schema m, pragma_index_list(m.name) i WHERE m.type = 'table' AND i.origin = 'c'`,
			direct(t, newSQLite(t).SQL)},
		{store.MySQL,
			`SELECT CONCAT(table_name, '.', column_name,
				CASE WHEN data_type IN ('varchar', 'text') THEN ' TEXT' WHEN data_type = 'longblob' THEN ' BLOB'
					WHEN data_type IN ('bigint', 'int', 'tinyint', 'datetime') THEN ' INTEGER' ELSE data_type END,
				IF(is_nullable = 'YES', ' NULL', ''), IF(generation_expression <> '', ' GENERATED', ''),
				IF(column_default IS NULL OR column_default = 'NULL', '', CONCAT(' DEFAULT ', TRIM(BOTH '''' FROM column_default))))
			 FROM information_schema.columns WHERE table_schema = DATABASE()`,
			`SELECT CONCAT(table_name, ' ', index_name, IF(MAX(non_unique) = 0, ' UNIQUE', ''), ' ', GROUP_CONCAT(column_name ORDER BY seq_in_index))
			 FROM information_schema.statistics WHERE table_schema = DATABASE() AND index_name <> 'PRIMARY' GROUP BY table_name, index_name`,
			direct(t, server.database(t).SQL)},
	} {
		shape := append(db.rows(db.columns), db.rows(db.indexes)...)
		shape = slices.DeleteFunc(shape, func(s string) bool {
			return strings.HasPrefix(s, "goose") || strings.HasPrefix(s, "sqlite")
		})
		slices.Sort(shape)
		shapes[db.driver] = shape
	}
	for _, only := range []struct{ in, out store.Driver }{{store.SQLite, store.MySQL}, {store.MySQL, store.SQLite}} {
		for _, part := range shapes[only.in] {
			if !slices.Contains(shapes[only.out], part) {
				t.Errorf("only %s has %q", only.in, part)
			}
		}
	}
	if len(shapes[store.MySQL]) < 150 {
		t.Errorf("only %d columns and keys were seen", len(shapes[store.MySQL]))
	}
}
