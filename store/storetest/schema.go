package storetest

import (
	"sync"
	"testing"

	"github.com/batchbot/batchbot/store"
)

var schemaTests = tests{
	"migrating again changes nothing":                schemaAgain,
	"many instances migrate at once":                 schemaAtOnce,
	"a schema one step newer fits, a later does not": schemaNewer,
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
	stores := []*store.Store{db.Open(t), db.Open(t), db.Open(t)}
	// As if nobody had migrated yet.
	for _, table := range append([]string{"goose_db_version"}, tables...) {
		if _, err := db.SQL.ExecContext(t.Context(), `DROP TABLE `+table); err != nil {
			t.Fatal(err)
		}
	}
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
}

func schemaNewer(t *testing.T, db Database) {
	w := newWorld(t, db)
	newer := func() {
		w.execute(`INSERT INTO goose_db_version (version_id, is_applied) SELECT MAX(version_id) + 1, 1 FROM goose_db_version`)
	}
	newer()
	w.must(w.store.CheckMigrated(t.Context()))
	newer()
	if err := w.store.CheckMigrated(t.Context()); err == nil {
		t.Error("a schema two steps newer was taken")
	}
}
