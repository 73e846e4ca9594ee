//go:build mariadb

package store_test

import (
	"testing"

	"github.com/batchbot/batchbot/store/storetest"
)

var mariaDB = newServer("TEST_MARIADB_DSN", "make test-databases")

func TestMariaDB(t *testing.T) {
	t.Parallel()
	storetest.Run(t, mariaDB.database)
}

func TestMariaDBSessions(t *testing.T) {
	t.Parallel()
	sessions(t, mariaDB)
}

func TestMariaDBSchemaHasOneShape(t *testing.T) {
	t.Parallel()
	oneShape(t, mariaDB)
}

func TestMariaDBRefuses(t *testing.T) {
	t.Parallel()
	laxSession(t, mariaDB)
	otherEngine(t, mariaDB)
}

func TestMariaDBRefusesWhereTheIsolationLevelGetsLost(t *testing.T) {
	t.Parallel()
	isolation(t, mariaDB)
}

func TestMariaDBProcessesMigrateAtOnce(t *testing.T) {
	t.Parallel()
	processes(t, mariaDB)
}

func TestMariaDBConnectionCutAtCommit(t *testing.T) {
	t.Parallel()
	cutAtCommit(t, mariaDB)
}

func BenchmarkAdmissionMariaDB(b *testing.B) { storetest.BenchmarkAdmission(b, mariaDB.database) }
