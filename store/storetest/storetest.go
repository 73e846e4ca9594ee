// Package storetest is the conformance suite of store: every database passes it. Each test has an empty database of its own and may open it
// several times, as several instances do.
package storetest

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/batchbot/batchbot/store"
)

// Database is one migrated, empty database.
type Database struct {
	Driver store.Driver
	SQL    *sql.DB                         // beside the store, to look at rows and to hold locks
	Open   func(t testing.TB) *store.Store // one more instance; closed when the test ends
	// Intercept calls f before every statement, and with "COMMIT" before and "after COMMIT" after it. An error f returns is taken for
	// the database's.
	Intercept func(s *store.Store, f func(statement string, args []any) error)
	// Transaction runs one transaction of the test's own statements; landed looks whether it took effect after all.
	Transaction func(ctx context.Context, s *store.Store, run func(exec func(statement string, args ...any) (int64, error)) error,
		landed func(context.Context) (bool, error)) error
	// LockTx runs one transaction in which the test takes advisory locks.
	LockTx func(ctx context.Context, s *store.Store, run func(lock func(name string, wait time.Duration) (bool, error),
		exec func(statement string, args ...any) (int64, error)) error) error
	// MigrateTo brings the schema to a version, by this program's migrations and more of the test's own: file name → text.
	MigrateTo func(ctx context.Context, s *store.Store, version int64, more map[string]string) error
	Limit     func(s *store.Store, d time.Duration)   // changes how long one read or one try of a transaction takes at most
	Impatient func(t testing.TB, s *store.Store)      // SQLite: no waiting for another writer
	Keep      func(s *store.Store, r store.Retention) // changes how long what was received is kept
	LockName  func(env, what string) string           // MySQL: how the server knows an advisory lock; env "default" is the database's own
}

// severalWriters reports whether transactions of several connections run at the same time. In SQLite a writer has the database to itself.
func (d Database) severalWriters() bool { return d.Driver == store.MySQL }

// tests are named test functions of one file of this package.
type tests map[string]func(t *testing.T, db Database)

// Run runs the suite; newDatabase makes one more migrated, empty database, which goes when its test ends.
func Run(t *testing.T, newDatabase func(t testing.TB) Database) {
	for file, tests := range map[string]tests{
		"batch":      batchTests,
		"apply":      applyTests,
		"move":       moveTests,
		"claim":      claimTests,
		"curated":    curatedTests,
		"admission":  admissionTests,
		"late":       lateTests,
		"lock":       lockTests,
		"operator":   operatorTests,
		"repository": repositoryTests,
		"plan":       planTests,
		"plans":      plansTests,
		"purge":      purgeTests,
		"expire":     expireTests,
		"job":        jobTests,
		"remind":     remindTests,
		"view":       viewTests,
		"outbox":     outboxTests,
		"delivery":   deliveryTests,
		"command":    commandTests,
		"schema":     schemaTests,
		"settle":     settleTests,
		"tx":         txTests,
		"guards":     guardTests,
		"race":       raceTests,
		"train":      trainTests,
		"depart":     departTests,
		"trainrace":  trainRaceTests,
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			for _, name := range slices.Sorted(maps.Keys(tests)) {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					tests[name](t, newDatabase(t))
				})
			}
		})
	}
}
