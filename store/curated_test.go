package store_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/store"
)

// A form is open for ten minutes and saves by itself every second, while somebody types in it: what is left is what was sent last, in the rows that
// were there from the beginning. A client that leaves the row numbers out inserts nothing.
func TestAutosaveLeavesNoGhosts(t *testing.T) {
	t.Parallel()
	template, err := sqliteTemplate()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "batchbot.db")
	if err := os.WriteFile(path, template, 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s, err := store.Open(t.Context(), store.Options{Driver: store.SQLite, Path: path})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		repo, err := s.UpsertRepository(t.Context(), bot.RepositoryRef{Host: "forge", ExternalID: 1, Path: "fruit/basket"})
		if err != nil {
			t.Fatal(err)
		}
		queue, err := s.UpsertQueue(t.Context(), repo.ID, bot.DefaultQueueSettings("main"), "")
		if err != nil {
			t.Fatal(err)
		}
		rows := []bot.CuratedRow{{RowNo: 1, Number: 10}, {RowNo: 2, Number: 12}, {RowNo: 3, Number: 15}}
		made, err := s.SaveCurated(t.Context(), bot.CuratedSave{QueueID: queue.ID, Rows: rows, By: "ann"})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var last bot.CuratedResult
		for second := range 600 {
			time.Sleep(time.Second)
			if second%30 == 0 {
				rows[second/30%3].Number = 100 + second
			}
			if last, err = s.SaveCurated(t.Context(), bot.CuratedSave{ID: made.Curated.ID, Rows: rows, By: "ann"}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.SaveCurated(t.Context(), bot.CuratedSave{ID: made.Curated.ID, Rows: []bot.CuratedRow{{Number: 10}}, By: "ann"}); err == nil {
				t.Fatal("a row without a number was saved")
			}
		}
		set := last.Curated
		if set.Version != 601 || set.UpdatedAt.Sub(began) != 10*time.Minute || !set.CreatedAt.Equal(began) {
			t.Errorf("version %d, created at %v, updated at %v, began at %v", set.Version, set.CreatedAt, set.UpdatedAt, began)
		}
		for i, r := range set.Rows {
			if r.ID != made.Curated.Rows[i].ID || r.RowNo != rows[i].RowNo || r.Number != rows[i].Number {
				t.Errorf("row %+v, sent %+v, was %+v", r, rows[i], made.Curated.Rows[i])
			}
		}
		if len(set.Rows) != 3 {
			t.Errorf("%+v", set.Rows)
		}
	})
}
