package store

import (
	"path/filepath"
	"reflect"
	"testing"

	"github.com/batchbot/batchbot/bot"
)

func TestCounts(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), Options{Driver: SQLite, Path: filepath.Join(t.TempDir(), "batchbot.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c, err := s.Counts(t.Context()); err != nil || !reflect.DeepEqual(c, Counts{}) {
		t.Fatalf("an empty database counts %+v, %v", c, err)
	}
	repo, err := s.UpsertRepository(t.Context(), bot.RepositoryRef{Host: "h", ExternalID: 1, Path: "o/n", DefaultBranch: "main"})
	if err != nil {
		t.Fatal(err)
	}
	queue, err := s.UpsertQueue(t.Context(), repo.ID, bot.DefaultQueueSettings("main"), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "b", "b"} {
		if _, err := s.InsertDelivery(t.Context(), "h", key, "push", []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	batch := `INSERT INTO merge_batch (queue_id, status, phase, kind, cohort, token, size, build, base_sha, head_sha, landed_sha, landed_differs, mr_number, code,
		message, refusals, ci_conclusion, ci_fingerprint, ci_changed_at, phase_at, deadline_at, created_at, updated_at)
		VALUES (?, ?, 1, 1, 0, 't', 1, 0, '', '', '', 0, 0, ?, '', 0, '', '', 0, 0, 0, 0, 0)`
	for _, b := range []struct {
		status bot.BatchStatus
		code   bot.Code
	}{{bot.BatchSucceeded, bot.CodeLanded}, {bot.BatchSucceeded, bot.CodeLanded}, {bot.BatchFailed, bot.CodeCIRed}, {bot.BatchRunning, ""}} {
		if _, err := s.writer.ExecContext(t.Context(), batch, queue.ID, b.status, b.code); err != nil {
			t.Fatal(err)
		}
	}
	for _, claimed := range []any{nil, nil, 4} {
		if _, err := s.writer.ExecContext(t.Context(), `INSERT INTO merge_batch_request (operation_id, queue_id, batch_id, lane, cohort, created_at)
			VALUES ((SELECT COUNT(*) FROM merge_batch_request), ?, ?, 2, 0, 0)`, queue.ID, claimed); err != nil {
			t.Fatal(err)
		}
	}
	want := Counts{Waiting: 2, DeliveriesDue: 2, Batches: []BatchCount{
		{bot.BatchRunning, "", 1}, {bot.BatchSucceeded, bot.CodeLanded, 2}, {bot.BatchFailed, bot.CodeCIRed, 1},
	}}
	if c, err := s.Counts(t.Context()); err != nil || !reflect.DeepEqual(c, want) {
		t.Errorf("got %+v, %v\nwant %+v", c, err, want)
	}
}
