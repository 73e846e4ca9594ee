package store

import (
	"database/sql"
	"fmt"
	"strings"
	"time"
)

// dialect is all that differs between the databases' statements. Statements are written once, with these marks:
//
//	{now}          the database's clock
//	{later}        that clock plus a parameter in microseconds
//	{ago}          that clock minus a parameter in microseconds
//	{pinned}       after the table's name: use the primary key, whatever the statistics say
//	{pinned text}  the same for a primary key that is a text, which SQLite takes for an index
//	{lock}         at the end of a SELECT: lock the rows read, wait for them
//	{skip locked}  at the end of a SELECT: lock the rows read, leave out what somebody else has locked
type dialect struct {
	name  string
	marks *strings.Replacer
}

var mysqlDialect = dialect{
	name: "mysql",
	marks: strings.NewReplacer(
		"{now}", "CURRENT_TIMESTAMP(6)",
		"{later}", "CURRENT_TIMESTAMP(6) + INTERVAL ? MICROSECOND",
		"{ago}", "CURRENT_TIMESTAMP(6) - INTERVAL ? MICROSECOND",
		"{pinned}", "FORCE INDEX (PRIMARY)",
		"{pinned text}", "FORCE INDEX (PRIMARY)",
		"{lock}", "FOR UPDATE",
		"{skip locked}", "FOR UPDATE SKIP LOCKED",
	),
}

// In SQLite one writer at a time holds the whole database, so there is nothing to lock.
var sqliteDialect = dialect{
	name: "sqlite",
	marks: strings.NewReplacer(
		"{now}", "batchbot_now()",
		"{later}", "batchbot_now() + ?",
		"{ago}", "batchbot_now() - ?",
		"{pinned}", "NOT INDEXED",
		"{pinned text}", "",
		"{lock}", "",
		"{skip locked}", "",
	),
}

func (d dialect) sql(statement string) string { return d.marks.Replace(statement) }

// chunkSize bounds a list of ids in one statement: far beyond it the optimizer leaves the primary key and scans.
const chunkSize = 500

// list returns n placeholders for IN (…).
func list(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

// anys turns ids into arguments.
func anys[T any](ids []T) []any {
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = id
	}
	return args
}

// micros is a duration as the marks {later} and {ago} take it.
func micros(d time.Duration) int64 { return d.Microseconds() }

// instant scans a time column: DATETIME(6) or integer microseconds since 1970. NULL is the zero time.
type instant struct{ time.Time }

// Scan implements sql.Scanner.
func (t *instant) Scan(value any) error {
	switch v := value.(type) {
	case nil:
		t.Time = time.Time{}
	case time.Time:
		t.Time = v.UTC()
	case int64:
		t.Time = time.UnixMicro(v).UTC()
	default:
		return fmt.Errorf("a time column holds a %T", value)
	}
	return nil
}

var _ sql.Scanner = (*instant)(nil)

// clip keeps a text within a column of n characters. SQLite does not check lengths, MySQL refuses what is longer.
func clip(s string, n int) string {
	s = strings.ToValidUTF8(s, "�")
	if len(s) <= n {
		return s
	}
	runes := []rune(s)
	if len(runes) <= n {
		return s
	}
	return string(runes[:n-1]) + "…"
}

const (
	longText  = 2000 // reasons, details, messages, errors
	titleText = 1024
)
