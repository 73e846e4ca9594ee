package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// mysqlConfig reads a DSN and sets what correctness rests on, whatever the DSN says. The isolation level is not here: every
// transaction names it, and the variable's name differs between servers. Errors never quote the DSN, it holds a password.
func mysqlConfig(dsn string) (*mysql.Config, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, errors.New("the database DSN cannot be read: it must look like USER:PASSWORD@tcp(HOST:3306)/DATABASE")
	}
	if cfg.DBName == "" {
		return nil, fmt.Errorf("the database DSN for %s names no database: it must look like USER:PASSWORD@tcp(HOST:3306)/DATABASE", cfg.Addr)
	}
	cfg.ParseTime, cfg.Loc = true, time.UTC
	cfg.ClientFoundRows = true   // a guarded write that sets what is there already has met its row
	cfg.InterpolateParams = true // half the round trips, no limit of 65,535 placeholders
	cfg.MultiStatements = false
	cfg.RejectReadOnly = true // behind a fail-over address: drop connections to a server that became a replica
	cfg.Logger = &mysql.NopLogger{}
	if err := cfg.Apply(mysql.TimeTruncate(time.Microsecond), mysql.Charset("utf8mb4", "utf8mb4_bin")); err != nil {
		return nil, fmt.Errorf("database settings: %w", err)
	}
	if cfg.Params == nil {
		cfg.Params = make(map[string]string)
	}
	cfg.Params["time_zone"] = "'+00:00'"
	cfg.Params["sql_mode"] = "'TRADITIONAL'"
	if cfg.Params["innodb_lock_wait_timeout"] == "" {
		cfg.Params["innodb_lock_wait_timeout"] = "5" // seconds; the server's default of 50 outlives every caller
	}
	for _, t := range []struct {
		setting *time.Duration
		value   time.Duration
	}{{&cfg.Timeout, 5 * time.Second}, {&cfg.ReadTimeout, 30 * time.Second}, {&cfg.WriteTimeout, 30 * time.Second}} {
		if *t.setting == 0 {
			*t.setting = t.value
		}
	}
	return cfg, nil
}

func openMySQL(ctx context.Context, o Options) (*Store, error) {
	cfg, err := mysqlConfig(o.DSN)
	if err != nil {
		return nil, err
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("database settings for %s/%s: %w", cfg.Addr, cfg.DBName, err)
	}
	db := sql.OpenDB(connector)
	conns := o.MaxConns
	if conns <= 0 {
		conns = 16
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	db.SetConnMaxIdleTime(5 * time.Minute)
	db.SetConnMaxLifetime(time.Hour)
	place := fmt.Sprintf("mysql %s/%s", cfg.Addr, cfg.DBName)
	if err := checkServer(ctx, db, place, o.Patience); err != nil {
		_ = db.Close()
		return nil, err
	}
	s := &Store{dialect: mysqlDialect, writer: db, reader: db, place: place, limit: timeLimit, keep: o.Retention.withDefaults(), locks: newLockTable(o.Env, db, "")}
	s.migrate = func(ctx context.Context) error { return migrateMySQL(ctx, cfg) }
	return s, nil
}

// checkServer waits for the server and refuses one that cannot keep the invariants.
func checkServer(ctx context.Context, db *sql.DB, place string, patience time.Duration) error {
	var version string
	err := untilReachable(ctx, patience, func(ctx context.Context) (bool, error) {
		err := db.QueryRowContext(ctx, `SELECT VERSION()`).Scan(&version)
		answered, _ := errors.AsType[*mysql.MySQLError](err)
		return answered != nil && answered.Number != 1040, err // too many connections passes by itself
	})
	if answered, ok := errors.AsType[*mysql.MySQLError](err); ok && answered.Number == 1193 && strings.Contains(answered.Message, "innodb") {
		return fmt.Errorf("database %s %w", place, errNoInnoDB) // its settings are unknown
	} else if ok {
		return fmt.Errorf("database %s refuses: %s: check the user, the password and that the database exists", place, answered.Message)
	}
	if err != nil {
		reason := "no answer within " + patience.String()
		if e, ok := errors.AsType[*net.OpError](err); ok {
			reason = e.Err.Error()
		}
		return fmt.Errorf("database %s cannot be reached (%s): check that the server runs and that host and port in the DSN are right", place, reason)
	}
	if err := checkVersion(version); err != nil {
		return fmt.Errorf("database %s %w", place, err)
	}
	settings, err := readSettings(ctx, db)
	if err != nil {
		return fmt.Errorf("read the settings of database %s: %w", place, err)
	}
	if err := checkSettings(settings); err != nil {
		return fmt.Errorf("database %s %w", place, err)
	}
	return nil
}

// readOnly are the settings that make a server refuse writes: of replicas, of clusters and by default.
var readOnly = []string{"read_only", "super_read_only", "innodb_read_only", "transaction_read_only", "tx_read_only"}

// A group that is configured has a name; the plugin may be loaded without one.
const groupName, singlePrimary = "group_replication_group_name", "group_replication_single_primary_mode"

// readSettings returns what checkSettings judges, by name: the session's variables, and how far the engine InnoDB is there. SHOW, because not
// every server knows every name.
func readSettings(ctx context.Context, db *sql.DB) (map[string]string, error) {
	names := append([]string{"sql_mode", "log_bin", "binlog_format", groupName, singlePrimary}, readOnly...)
	rows, err := db.QueryContext(ctx, `SHOW VARIABLES WHERE Variable_name IN (`+list(len(names))+`)`, anys(names)...)
	if err != nil {
		return nil, err
	}
	settings := make(map[string]string)
	err = eachRow(rows, func(scan scan) error {
		var name, value string
		err := scan(&name, &value)
		settings[name] = value
		return err
	})
	if err != nil {
		return nil, err
	}
	rows, err = db.QueryContext(ctx, `SELECT support FROM information_schema.engines WHERE engine = 'InnoDB'`)
	if err != nil {
		return nil, err
	}
	err = eachRow(rows, func(scan scan) error {
		var support string
		err := scan(&support)
		settings["InnoDB"] = support
		return err
	})
	return settings, err
}

var errNoInnoDB = errors.New("has no InnoDB, the engine with transactions: start it with InnoDB")

// checkSettings refuses a server that cannot keep the invariants as it is set up. sql_mode was set with the connection; a proxy may have
// dropped that.
func checkSettings(settings map[string]string) error {
	for _, name := range readOnly {
		if value, known := settings[name]; value != "OFF" && (known || name == "read_only") {
			return fmt.Errorf("is read-only (%s is %s), as a replica is: name the primary in the DSN, or set it OFF", name, cmp.Or(value, "not told"))
		}
	}
	switch {
	case settings["InnoDB"] != "DEFAULT" && settings["InnoDB"] != "YES":
		return errNoInnoDB
	case !strings.Contains(settings["sql_mode"], "STRICT_"):
		return errors.New("does not run in strict SQL mode although the connection asks for it: let no proxy change sql_mode")
	case settings["log_bin"] == "ON" && settings["binlog_format"] == "STATEMENT":
		return errors.New("has binlog_format STATEMENT, which forbids writing at READ COMMITTED: set it to ROW")
	case settings[groupName] != "" && settings[singlePrimary] == "OFF":
		return errors.New("is in a group with several primaries, which share no row locks: run `SELECT group_replication_switch_to_single_primary_mode()`")
	}
	return nil
}

// CheckIsolation proves, by two transactions that it undoes, that transactions run at READ COMMITTED whatever stands between here and the
// server: behind a proxy that drops the level, or that gives a session's statements to several connections, claims would keep admissions waiting
// and nothing would say why. It needs the tables.
func (s *Store) CheckIsolation(ctx context.Context) error {
	if s.dialect.name != mysqlDialect.name {
		return nil // SQLite's writers come one after another
	}
	const name = "check the isolation level of database %s: %w"
	reading, err := s.begin(ctx)
	if err != nil {
		return fmt.Errorf(name, s.place, err)
	}
	defer reading.close()
	// Under REPEATABLE READ, and above, this locks the gap in which the key would be, and under READ COMMITTED nothing.
	key := "check/isolation/" + rand.Text()
	if _, err := one(ctx, reading, `SELECT operation_id FROM idempotency WHERE request_id = ? {lock}`, []any{key}, new(string)); err != nil {
		return fmt.Errorf(name, s.place, err)
	}
	writing, err := s.begin(ctx)
	if err != nil {
		return fmt.Errorf(name, s.place, err)
	}
	defer writing.close()
	_, _, err = writing.insert(ctx, nil, `INSERT INTO idempotency (request_id, operation_id, expires_at, created_at) VALUES (?, '', {now}, {now})`, key)
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok && e.Number == 1205 {
		return fmt.Errorf("database %s does not run transactions at READ COMMITTED although they ask for it, so that claims would keep admissions waiting: "+
			"let no proxy change the isolation level, or multiplex connections", s.place)
	}
	if err != nil {
		return fmt.Errorf(name, s.place, err)
	}
	return nil
}

// checkVersion refuses servers without SKIP LOCKED, which came with MySQL 8.0 and MariaDB 10.6.
func checkVersion(version string) error {
	name, number, major, minor := "MySQL", version, 8, 0
	if strings.Contains(version, "MariaDB") {
		// Old clients expect 5.x, so MariaDB may put "5.5.5-" before its version.
		name, number, major, minor = "MariaDB", strings.TrimPrefix(version, "5.5.5-"), 10, 6
	}
	parts := strings.SplitN(number, ".", 3)
	if len(parts) < 2 {
		return fmt.Errorf("says it is version %q, which is unknown", version)
	}
	a, errA := strconv.Atoi(parts[0])
	b, errB := strconv.Atoi(strings.TrimRight(parts[1], "abcdefghijklmnopqrstuvwxyz-"))
	if errA != nil || errB != nil {
		return fmt.Errorf("says it is version %q, which is unknown", version)
	}
	if a < major || (a == major && b < minor) {
		return fmt.Errorf("is %s %d.%d, which cannot skip locked rows: use MySQL 8.0 or MariaDB 10.6 or newer", name, a, b)
	}
	return nil
}

// migrateMySQL runs on a connection pool of its own, since a migration may take longer than any statement may otherwise, and under an
// advisory lock, since MySQL commits every table definition at once.
func migrateMySQL(ctx context.Context, cfg *mysql.Config) error {
	cfg = cfg.Clone()
	cfg.ReadTimeout, cfg.WriteTimeout = 0, 0
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer func() { _ = db.Close() }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	name := lockName(cfg.DBName, "migrate")
	var held sql.NullInt64
	if err := conn.QueryRowContext(ctx, `SELECT GET_LOCK(?, 120)`, name).Scan(&held); err != nil {
		return fmt.Errorf("wait for another migration: %w", err)
	}
	if held.Int64 != 1 {
		return errors.New("another instance has been migrating for 2 minutes")
	}
	// Closing the pool ends the session and with it the lock.
	return migrateWith(ctx, db, mysqlDialect)
}
