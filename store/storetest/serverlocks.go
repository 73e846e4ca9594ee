package storetest

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/batchbot/batchbot/store"
)

// What a server says about the row locks in the test's own database; others use the server at the same time.

// isMariaDB reports whether the server is MariaDB, which shows less of its locks than MySQL, and elsewhere.
func (w *world) isMariaDB() bool {
	w.Helper()
	return w.Driver == store.MySQL && strings.Contains(value[string](w, `SELECT VERSION()`), "MariaDB")
}

// lockWaits is how many transactions wait for a row lock.
func (w *world) lockWaits() int {
	w.Helper()
	if w.isMariaDB() {
		waiting, _ := w.mariaLocks()
		return waiting
	}
	return w.value(`SELECT COUNT(*) FROM performance_schema.data_locks WHERE OBJECT_SCHEMA = DATABASE() AND LOCK_STATUS = 'WAITING'`)
}

// rowLocks is how many row locks there are on a table, by index and mode: "PRIMARY X,REC_NOT_GAP" → 50. MariaDB tells only
// how many there are on all tables: "rows" → 350.
func (w *world) rowLocks(table string) map[string]int {
	w.Helper()
	locks := make(map[string]int)
	if w.isMariaDB() {
		_, locks["rows"] = w.mariaLocks()
		return locks
	}
	rows, err := w.SQL.QueryContext(w.Context(), `SELECT CONCAT(INDEX_NAME, ' ', LOCK_MODE), COUNT(*) FROM performance_schema.data_locks
		WHERE OBJECT_SCHEMA = DATABASE() AND OBJECT_NAME = ? AND LOCK_TYPE = 'RECORD' AND LOCK_STATUS = 'GRANTED' GROUP BY INDEX_NAME, LOCK_MODE`, table)
	w.must(err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var lock string
		var n int
		w.must(rows.Scan(&lock, &n))
		locks[lock] = n
	}
	w.must(rows.Err())
	return locks
}

var (
	threadID = regexp.MustCompile(`thread id (\d+)`)
	rowCount = regexp.MustCompile(`(\d+) row lock`)
)

// mariaLocks reads MariaDB's report: its table of transactions is a copy that is not made anew for somebody who asks often.
func (w *world) mariaLocks() (waiting, rows int) {
	w.Helper()
	ours := w.rows(`SELECT ID FROM information_schema.PROCESSLIST WHERE DB = DATABASE()`)
	var kind, name, report string
	w.must(w.SQL.QueryRowContext(w.Context(), `SHOW ENGINE INNODB STATUS`).Scan(&kind, &name, &report))
	for _, transaction := range strings.Split(report, "---TRANSACTION ")[1:] {
		thread := threadID.FindStringSubmatch(transaction)
		if thread == nil || !slices.Contains(ours, thread[1]) {
			continue
		}
		if strings.Contains(transaction, "LOCK WAIT") {
			waiting++
		}
		if count := rowCount.FindStringSubmatch(transaction); count != nil {
			n, _ := strconv.Atoi(count[1])
			rows += n
		}
	}
	return waiting, rows
}
