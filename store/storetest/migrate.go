package storetest

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/schema"
	"github.com/batchbot/batchbot/store"
)

//go:embed testdata/*.sql
var samples embed.FS

// meanings is, by version of the schema, what its sample rows (testdata/NNNN.sql) mean to a program that has gone through every later
// migration. The rows are put in right after that version's step, as whoever ran it left them, and are never edited after its release.
var meanings = map[int64]func(w *world){
	1: meaningOf1,
	2: meaningOf2,
}

// Each step is followed by sample rows, and these come through every later step, one that this program does not know included: column by column as
// they were, and with the meaning they had.
func schemaSteps(t *testing.T, db Database) {
	w := emptied(t, db)
	var kept []content
	for version := int64(1); version <= schema.Version+1; version++ {
		w.must(db.MigrateTo(t.Context(), w.store, version, newer(db)))
		for _, c := range kept {
			c.check(w, fmt.Sprintf("after migration %d", version))
		}
		if version > schema.Version {
			break
		}
		w.sample(version)
		for _, table := range w.tables() {
			kept = append(kept, w.content(table, version))
		}
	}
	w.must(w.store.CheckMigrated(t.Context()))
	for version := int64(1); version <= schema.Version; version++ {
		meaning, ok := meanings[version]
		if !ok {
			t.Fatalf("nothing says what the sample rows of version %d mean", version)
		}
		meaning(w)
	}
}

// What schemaSteps compares would notice a migration that changes what is there.
func schemaStepNoticed(t *testing.T, db Database) {
	w := emptied(t, db)
	w.must(w.store.Migrate(t.Context()))
	w.sample(1)
	before := w.content("queue", 1)
	harm := "-- +goose Up\nUPDATE queue SET version = version + 1 WHERE id = 70;\n"
	w.must(db.MigrateTo(t.Context(), w.store, schema.Version+1, map[string]string{fmt.Sprintf("%04d_harm.sql", schema.Version+1): harm}))
	if before.same(w) {
		t.Error("a row was changed, and nobody noticed")
	}
}

// newer is a migration that this program does not know: one that adds, as all do.
func newer(db Database) map[string]string {
	text := `-- +goose Up
CREATE TABLE newer (id BIGINT NOT NULL AUTO_INCREMENT, name VARCHAR(64) NOT NULL, PRIMARY KEY (id)) ENGINE = InnoDB;
ALTER TABLE queue ADD COLUMN newer BIGINT NOT NULL DEFAULT 7, ADD KEY idx_newer (newer);
`
	if db.Driver == store.SQLite {
		text = `-- +goose Up
CREATE TABLE newer (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL);
ALTER TABLE queue ADD COLUMN newer INTEGER NOT NULL DEFAULT 7;
CREATE INDEX idx_newer ON queue (newer);
`
	}
	return map[string]string{fmt.Sprintf("%04d_newer.sql", schema.Version+1): text}
}

// emptied is a world whose database has no tables.
func emptied(t *testing.T, db Database) *world {
	t.Helper()
	w := &world{TB: t, Database: db, store: db.Open(t)}
	for _, table := range append(w.tables(), "goose_db_version") {
		w.execute(`DROP TABLE ` + table)
	}
	return w
}

// tables are the tables there are, the list of migrations left out.
func (w *world) tables() []string {
	w.Helper()
	query := `SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name <> 'goose_db_version' ORDER BY table_name`
	if !w.severalWriters() {
		query = `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND name <> 'goose_db_version' ORDER BY name`
	}
	return w.rows(query)
}

var sampleDay = regexp.MustCompile(`\{day (\d+)\}`)

// sample puts in the sample rows of a version.
func (w *world) sample(version int64) {
	w.Helper()
	text, err := samples.ReadFile(fmt.Sprintf("testdata/%04d.sql", version))
	if err != nil {
		w.Fatalf("version %d has no sample rows: %v", version, err)
	}
	moment := "(CAST('2026-01-01 12:00:00.000001' AS DATETIME(6)) + INTERVAL $1 DAY)"
	if !w.severalWriters() {
		moment = "(1767268800000001 + $1 * 86400000000)"
	}
	for statement := range strings.SplitSeq(sampleDay.ReplaceAllString(string(text), moment), ";\n") {
		if strings.TrimSpace(statement) != "" {
			w.execute(statement)
		}
	}
}

// content is what a table held at one moment, in the columns that it had then.
type content struct {
	version int64
	table   string
	columns []string
	rows    string
}

func (w *world) content(table string, version int64) content {
	w.Helper()
	c := content{version: version, table: table, columns: w.columns(table)}
	c.rows = c.read(w)
	return c
}

func (c content) read(w *world) string {
	w.Helper()
	rows, err := w.SQL.QueryContext(w.Context(), `SELECT `+strings.Join(c.columns, ", ")+` FROM `+c.table+` ORDER BY 1`)
	w.must(err)
	defer func() { _ = rows.Close() }()
	var all strings.Builder
	for rows.Next() {
		values := make([]sql.NullString, len(c.columns))
		into := make([]any, len(values))
		for i := range values {
			into[i] = &values[i]
		}
		w.must(rows.Scan(into...))
		for i, v := range values {
			fmt.Fprintf(&all, " %s=%q/%v", c.columns[i], v.String, v.Valid)
		}
		all.WriteString("\n")
	}
	w.must(rows.Err())
	return all.String()
}

func (c content) same(w *world) bool {
	w.Helper()
	return c.read(w) == c.rows
}

func (c content) check(w *world, when string) {
	w.Helper()
	if !c.same(w) {
		w.Errorf("%s the rows of %s that version %d left are\n%s\ninstead of\n%s", when, c.table, c.version, c.read(w), c.rows)
	}
}

// meaningOf1 goes on where version 1 stopped.
func meaningOf1(w *world) {
	ctx := w.Context()
	for id, want := range map[int64]struct {
		state  bot.QueueState
		reason string
		land   bot.Landing
	}{70: {bot.QueueOpen, "", bot.LandByPush}, 71: {bot.QueuePaused, "paused by ann: freeze", bot.LandByMerge}, 72: {bot.QueueParked, "NO_CI: make CI run", bot.LandManually}} {
		queue, repo, err := w.store.ReadQueue(ctx, id)
		w.must(err)
		if queue.State != want.state || queue.Reason != want.reason || queue.Settings.Landing != want.land || repo.Path != "fruit/basket" || !repo.Active {
			w.Errorf("queue %d of %s: %+v", id, repo.Path, queue)
		}
		if id == 70 {
			w.queue, w.repo = queue, repo
		}
	}
	if s := w.queue.Settings; s.MaxBatchSize != 20 || s.FillWait != time.Minute || s.Approvals.Count != 2 || strings.Join(s.Checks.Required, " ") != "ci" {
		w.Errorf("settings %+v", s)
	}
	batch, members, ok, err := w.store.ActiveBatch(ctx, 70)
	w.must(err)
	if !ok || batch.ID != 31 || batch.Phase != bot.PhaseOpened || batch.MRNumber != 21 || fmt.Sprint(numbers(members)) != "[1 2]" || members[0].HeadSHA != strings.Repeat("1", 40) {
		w.Errorf("active batch %+v with %v", batch, numbers(members))
	}
	if heads, err := w.store.RecordedHeads(ctx, 31); err != nil || len(heads) != 1 || heads[0] != batch.HeadSHA {
		w.Errorf("heads %v, %v", heads, err)
	}
	if handled, err := w.store.Handled(ctx, "forge:issue:901:1"); err != nil || !handled {
		w.Errorf("a command is not known any more: %v", err)
	}
	if fresh, err := w.store.InsertDelivery(ctx, "forge", "key-done", "issue_comment", nil); err != nil || fresh {
		w.Errorf("a webhook is not known any more: %v", err)
	}
	if taken, err := w.store.ClaimDeliveries(ctx, 10, time.Minute); err != nil || len(taken) != 1 || string(taken[0].Payload) != `{"key":"key-due"}` || taken[0].Attempts != 2 {
		w.Errorf("webhooks that are due: %+v, %v", taken, err)
	}
	w.expect(claimSpec(w.queue, 5), bot.ClaimSlotOccupied)
	w.settle(bot.ClaimResult{Batch: batch, Members: members}, bot.BatchSucceeded, bot.OperationMerged)
	if next := w.claim(w.queue, 5); fmt.Sprint(numbers(next.Members)) != "[4 3]" {
		w.Errorf("next come %v", numbers(next.Members))
	}
	if current, err := w.store.CurrentOperations(ctx, 7, 5); err != nil || len(current) != 1 || current[0].Operation.Status != bot.OperationPendingApproval {
		w.Errorf("who asks for approval: %+v, %v", current, err)
	}
}

// meaningOf2 finds the train and the sets of version 2.
func meaningOf2(w *world) {
	meaningOfTrains(w)
	meaningOfSets(w)
}

// A program of today on the schema of tomorrow: it migrates nothing, and everything works.
func schemaOneNewer(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.must(db.MigrateTo(context.Background(), w.store, schema.Version+1, newer(db)))
	w.must(w.store.Migrate(t.Context())) // as a start does
	w.must(w.store.CheckMigrated(t.Context()))
	w.queue = w.newQueue("release")
	w.admit(w.queue, 1, 2)
	w.deliver("k")
	claimed := w.claim(w.queue, 2)
	w.settle(claimed, bot.BatchFailed, bot.OperationWaiting)
	w.settle(w.claim(w.queue, 2), bot.BatchSucceeded, bot.OperationMerged)
	w.must(w.store.PurgeOld(t.Context()))
	if n := w.value(`SELECT COUNT(*) FROM queue WHERE newer = 7`); n != 2 {
		t.Errorf("%d rows have the new column's default", n)
	}
}
