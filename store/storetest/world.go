package storetest

import (
	"database/sql"
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/store"
)

// world is a database with one repository and one queue, and the store that most tests work through.
type world struct {
	testing.TB
	Database
	store *store.Store
	repo  bot.Repository
	queue bot.Queue
}

func newWorld(t testing.TB, db Database) *world {
	t.Helper()
	w := &world{TB: t, Database: db, store: db.Open(t)}
	var err error
	w.repo, err = w.store.UpsertRepository(t.Context(), bot.RepositoryRef{Host: "forge", ExternalID: 4711, Path: "fruit/basket", DefaultBranch: "main"})
	w.must(err)
	w.queue = w.newQueue("main")
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) newQueue(target string) bot.Queue {
	w.Helper()
	queue, err := w.store.UpsertQueue(w.Context(), w.repo.ID, bot.DefaultQueueSettings(target), "")
	w.must(err)
	return queue
}

// sha is a commit id made of a number.
func sha(n int) string { return fmt.Sprintf("%040x", n) }

// application asks to apply merge request number to queue, by a comment of its own.
func (w *world) application(queue bot.Queue, number int, admit bool) bot.Application {
	return bot.Application{
		OperationID: operationID(number), QueueID: queue.ID, Repository: w.repo, Admit: admit, Lane: bot.LaneNormal,
		MR: bot.MRSnapshot{
			Number: number, Title: fmt.Sprintf("Change %d", number), Author: bot.Actor{ID: int64(number), Login: fmt.Sprintf("author-%d", number)},
			State: bot.MROpen, HeadSHA: sha(number), Target: queue.Target,
		},
		ExpiresIn: 24 * time.Hour,
		Command: bot.CommandRef{
			RequestID: fmt.Sprintf("forge:issue:%d:1", number), Order: bot.CommandOrder{At: int64(number), ID: int64(number)},
			By: fmt.Sprintf("author-%d", number), Verb: "batch", Source: "delivery",
		},
	}
}

// operationID is the operation that application makes for a merge request.
func operationID(number int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", number) }

// admit applies merge requests that are approved already, in this order.
func (w *world) admit(queue bot.Queue, numbers ...int) {
	w.Helper()
	for _, n := range numbers {
		w.apply(w.application(queue, n, true))
	}
}

func (w *world) apply(a bot.Application) bot.Operation {
	w.Helper()
	result, err := w.store.Apply(w.Context(), a)
	w.must(err)
	if result.Outcome != bot.ApplyDone {
		w.Fatalf("applying merge request %d: outcome %d", a.MR.Number, result.Outcome)
	}
	return result.Operation
}

// claim claims up to limit fresh requests, and fails the test unless it gets a batch.
func (w *world) claim(queue bot.Queue, limit int) bot.ClaimResult {
	w.Helper()
	result, err := w.store.Claim(w.Context(), claimSpec(queue, limit))
	w.must(err)
	if result.Outcome != bot.ClaimDone {
		w.Fatalf("claim on %s: %s", queue.Target, result.Outcome)
	}
	return result
}

func claimSpec(queue bot.Queue, limit int) bot.ClaimSpec {
	return bot.ClaimSpec{QueueID: queue.ID, Kind: bot.BatchFresh, Limit: limit, Token: "0badcafe", Timeout: time.Hour}
}

// numbers are the merge requests of operations, in order.
func numbers(ops []bot.Operation) []int {
	var ns []int
	for _, op := range ops {
		ns = append(ns, op.Number)
	}
	return ns
}

// outcomes brings all members to one state.
func outcomes(members []bot.Operation, to bot.OperationStatus, reason bot.Reason) []bot.MemberOutcome {
	var out []bot.MemberOutcome
	for _, op := range members {
		out = append(out, bot.MemberOutcome{OperationID: op.ID, To: to, Reason: reason})
	}
	return out
}

// value reads one value beside the store. NULL, and no row, are the zero value.
func value[T any](w *world, query string, args ...any) T {
	w.Helper()
	var v sql.Null[T]
	if err := w.SQL.QueryRowContext(w.Context(), query, args...).Scan(&v); err != nil && err != sql.ErrNoRows {
		w.Fatalf("%s: %v", query, err)
	}
	return v.V
}

// rows reads the first column of every row as text.
func (w *world) rows(query string) []string {
	w.Helper()
	rows, err := w.SQL.QueryContext(w.Context(), query)
	w.must(err)
	defer func() { _ = rows.Close() }()
	var out []string
	for rows.Next() {
		var v string
		w.must(rows.Scan(&v))
		out = append(out, v)
	}
	w.must(rows.Err())
	return out
}

// execute writes beside the store.
func (w *world) execute(query string, args ...any) {
	w.Helper()
	if _, err := w.SQL.ExecContext(w.Context(), query, args...); err != nil {
		w.Fatalf("%s: %v", query, err)
	}
}

// invariants fails the test unless the tables hold what they must hold at every moment.
func (w *world) invariants() {
	w.Helper()
	for rule, query := range map[string]string{
		"I1: at most one active batch per queue": `SELECT COUNT(*) FROM (SELECT queue_id FROM merge_batch WHERE status IN (1, 4)
			GROUP BY queue_id HAVING COUNT(*) > 1) x`,
		"I2: a claimed request rides in an active batch of its queue": `SELECT COUNT(*) FROM merge_batch_request r WHERE r.batch_id IS NOT NULL
			AND NOT EXISTS (SELECT 1 FROM merge_batch b WHERE b.id = r.batch_id AND b.active_slot = r.queue_id)`,
		"a request belongs to a WAITING or BATCHED operation": `SELECT COUNT(*) FROM merge_batch_request r
			JOIN operation o ON o.operation_id = r.operation_id WHERE o.status <> CASE WHEN r.batch_id IS NULL THEN 2 ELSE 3 END`,
		"a WAITING or BATCHED operation has a request": `SELECT COUNT(*) FROM operation o WHERE o.status IN (2, 3)
			AND NOT EXISTS (SELECT 1 FROM merge_batch_request r WHERE r.operation_id = o.operation_id)`,
		"I5: a binding says what its operation says": `SELECT COUNT(*) FROM binding b JOIN operation o ON o.operation_id = b.operation_id
			WHERE b.status <> o.status`,
		"an active batch claimed somebody": `SELECT COUNT(*) FROM merge_batch b WHERE b.size <> (SELECT COUNT(*) FROM merge_batch_member m
			WHERE m.batch_id = b.id AND m.event = 1)`,
		"every state of a binding is in its history": `SELECT COUNT(*) FROM binding b WHERE b.status <> (SELECT h.to_status FROM binding_history h
			WHERE h.binding_id = b.id ORDER BY h.id DESC LIMIT 1)`,
	} {
		if n := value[int](w, query); n != 0 {
			w.Errorf("%s: broken by %d rows", rule, n)
		}
	}
}

// snapshot is everything in the tables, to compare before and after.
func (w *world) snapshot() string {
	w.Helper()
	var all strings.Builder
	for _, table := range tables {
		w.dump(&all, table)
	}
	return all.String()
}

func (w *world) dump(all *strings.Builder, table string) {
	w.Helper()
	rows, err := w.SQL.QueryContext(w.Context(), `SELECT * FROM `+table+` ORDER BY 1`)
	w.must(err)
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	w.must(err)
	for rows.Next() {
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new(any)
		}
		w.must(rows.Scan(values...))
		fmt.Fprintf(all, "%s:", table)
		for i, v := range values {
			fmt.Fprintf(all, " %s=%v", columns[i], *v.(*any))
		}
		all.WriteString("\n")
	}
	w.must(rows.Err())
}

// Tables are all tables that hold the bot's rows.
func Tables() []string { return slices.Clone(tables) }

var tables = []string{
	"repository", "queue", "merge_request", "operation", "binding", "binding_history", "merge_batch_request", "merge_batch",
	"merge_batch_member", "audit", "idempotency", "delivery", "outbox",
}

// settle brings a claimed batch and all its members to an end.
func (w *world) settle(claimed bot.ClaimResult, status bot.BatchStatus, members bot.OperationStatus) {
	w.Helper()
	ok, err := w.store.Settle(w.Context(), settlementOf(claimed, status, members))
	w.must(err)
	if !ok {
		w.Fatalf("batch %d was no longer what it was", claimed.Batch.ID)
	}
	w.invariants()
}

func settlementOf(claimed bot.ClaimResult, status bot.BatchStatus, members bot.OperationStatus) bot.Settlement {
	code, reason := bot.CodeLanded, bot.ReasonLanded
	if status == bot.BatchFailed {
		code, reason = bot.CodeCIRed, bot.ReasonSuspect
	}
	return bot.Settlement{Guard: claimed.Batch.Guard(), Status: status, Code: code, Members: outcomes(claimed.Members, members, reason)}
}

// storeHandle is one of several instances on the database.
type storeHandle = *store.Store

// later and past are moments by the database's clock, an hour away.
func later(db Database) string {
	if db.Driver == store.MySQL {
		return `(CURRENT_TIMESTAMP(6) + INTERVAL 1 HOUR)`
	}
	return `(batchbot_now() + 3600000000)`
}

func past(db Database) string {
	if db.Driver == store.MySQL {
		return `(CURRENT_TIMESTAMP(6) - INTERVAL 1 HOUR)`
	}
	return `(batchbot_now() - 3600000000)`
}

// loseConnection breaks the connection once, at a statement.
func loseConnection(at string) func(string, []any) error {
	lost := false
	return func(statement string, _ []any) error {
		if statement == at && !lost {
			lost = true
			return driver.ErrBadConn
		}
		return nil
	}
}
