package store_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/store"
)

// direct returns a function that reads the first column of a query.
func direct(t *testing.T, db *sql.DB) func(query string) []string {
	return func(query string) []string {
		rows, err := db.QueryContext(t.Context(), query)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		defer func() { _ = rows.Close() }()
		var all []string
		for rows.Next() {
			var one string
			if err := rows.Scan(&one); err != nil {
				t.Fatal(err)
			}
			all = append(all, one)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		return all
	}
}

// With SQLite the process is the database server: in a bubble its clock is the bubble's.
func TestSQLiteFollowsFakeTime(t *testing.T) {
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
		applied, err := s.Apply(t.Context(), bot.Application{
			OperationID: "one", QueueID: queue.ID, Repository: repo, Admit: true, Lane: bot.LaneNormal, ExpiresIn: time.Hour,
			MR:      bot.MRSnapshot{Number: 1, HeadSHA: "abc", Target: "main", State: bot.MROpen},
			Command: bot.CommandRef{RequestID: "forge:issue:1:1", By: "ann", Verb: "batch"},
		})
		if err != nil || !applied.Operation.CreatedAt.Equal(time.Now()) {
			t.Errorf("created at %v, the bubble's clock says %v: %v", applied.Operation.CreatedAt, time.Now(), err)
		}
		spec := bot.ClaimSpec{QueueID: queue.ID, Kind: bot.BatchFresh, Limit: 1, Token: "0badcafe", Timeout: 2 * time.Hour}
		if result, err := s.Claim(t.Context(), spec); err != nil || result.Outcome != bot.ClaimNothing {
			t.Errorf("at the very instant of the admission: %s, %v", result.Outcome, err)
		}
		time.Sleep(time.Microsecond)
		if result, err := s.Claim(t.Context(), spec); err != nil || result.Outcome != bot.ClaimDone {
			t.Fatalf("a microsecond later: %s, %v", result.Outcome, err)
		}
		for _, hour := range []struct {
			age     time.Duration
			overdue bool
		}{{time.Hour, false}, {2 * time.Hour, false}, {3 * time.Hour, true}} {
			time.Sleep(time.Hour)
			batch, _, ok, err := s.ActiveBatch(t.Context(), queue.ID)
			if err != nil || !ok || batch.PhaseAge != hour.age || batch.Overdue != hour.overdue {
				t.Errorf("after %v: age %v, overdue %v, %v %v", hour.age, batch.PhaseAge, batch.Overdue, ok, err)
			}
		}
	})
}
