package storetest

import (
	"strings"
	"sync"
	"testing"

	"github.com/batchbot/batchbot/schema"
	"github.com/batchbot/batchbot/store"
)

var schemaTests = tests{
	"migrating again changes nothing":                schemaAgain,
	"many instances migrate at once":                 schemaAtOnce,
	"a migration killed in its middle is run again":  schemaKilled,
	"a schema one step newer fits, a later does not": schemaNewer,
	"a schema one step newer works":                  schemaOneNewer,
	"what each step finds comes through all later":   schemaSteps,
	"a step that changes what is there is noticed":   schemaStepNoticed,
}

func schemaAgain(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1)
	before := w.snapshot()
	w.must(w.store.Migrate(t.Context()))
	w.must(w.store.CheckMigrated(t.Context()))
	w.must(w.store.Ping(t.Context()))
	if w.snapshot() != before {
		t.Error("migrating again changed rows")
	}
}

func schemaAtOnce(t *testing.T, db Database) {
	w := emptied(t, db)
	stores := []*store.Store{w.store, db.Open(t), db.Open(t), db.Open(t)}
	var group sync.WaitGroup
	for _, s := range stores {
		group.Go(func() {
			if err := s.Migrate(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	for _, s := range stores {
		if err := s.CheckMigrated(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if ran := w.value(`SELECT COUNT(*) FROM goose_db_version WHERE version_id > 0`); ran != schema.Version {
		t.Errorf("%d migrations were run", ran)
	}
}

// A migration was killed in its middle; MySQL has kept what it had done by then. Running it again finishes it.
func schemaKilled(t *testing.T, db Database) {
	w := emptied(t, db)
	w.must(w.store.Migrate(t.Context()))
	w.execute(`DELETE FROM goose_db_version WHERE version_id > 0`)
	for _, table := range w.tables()[3:] {
		w.execute(`DROP TABLE ` + table)
	}
	if !db.severalWriters() {
		for _, table := range w.tables() { // there a step is one transaction
			w.execute(`DROP TABLE ` + table)
		}
	}
	if err := w.store.CheckMigrated(t.Context()); err == nil {
		t.Error("half a schema was taken")
	}
	w.must(w.store.Migrate(t.Context()))
	w.must(w.store.CheckMigrated(t.Context()))
	if n := len(w.tables()); n != len(tables) {
		t.Errorf("%d tables", n)
	}
}

func schemaNewer(t *testing.T, db Database) {
	w := newWorld(t, db)
	newer := func() {
		w.execute(`INSERT INTO goose_db_version (version_id, is_applied) SELECT MAX(version_id) + 1, 1 FROM goose_db_version`)
	}
	newer()
	w.must(w.store.CheckMigrated(t.Context()))
	newer()
	if err := w.store.CheckMigrated(t.Context()); err == nil || !strings.Contains(err.Error(), "too new for this program") || !strings.Contains(err.Error(), "upgrade batchbot") {
		t.Errorf("a schema two steps newer: %v", err)
	}
}
