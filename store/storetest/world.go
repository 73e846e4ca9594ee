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
	ids   func(number int) string // names the operations that seed makes; nil: operationID
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

// crowd admits many requests beside the store, in a few statements.
func (w *world) crowd(many int) {
	w.Helper()
	w.seed(w.queue, bot.OperationWaiting, 1, many)
}

// seed makes operations PENDING_APPROVAL or WAITING beside the store, for the merge requests from number first on, as if they had been applied an hour
// ago. Their rows have the numbers for ids.
func (w *world) seed(queue bot.Queue, status bot.OperationStatus, first, many int) []bot.Operation {
	w.Helper()
	name := operationID
	if w.ids != nil {
		name = w.ids
	}
	var ops []bot.Operation
	for start := first; start < first+many; start += 400 {
		var mr, op, binding, history, request []string
		now := later(w.Database)
		for n := start; n < min(start+400, first+many); n++ {
			id := name(n)
			mr = append(mr, fmt.Sprintf("(%d, %d, %d, 'Change', 1, 'author', 0, '%s', 0, 0, 0, %s, %s)", n, w.repo.ID, n, sha(n), now, now))
			op = append(op, fmt.Sprintf("('%s', %d, %d, %d, %d, 'author', '%s', 2, 'applied', '', %s, %s)", id, w.repo.ID, queue.ID, n, status, sha(n), now, now))
			binding = append(binding, fmt.Sprintf("(%d, %d, '%s', '%s', %d, %s, %s, %s)", n, n, queue.Target, id, status, now, now, now))
			history = append(history, fmt.Sprintf("(%d, '%s', NULL, %d, 'applied', '', '%s', 0, 'author', %s)", n, id, status, sha(n), now))
			request = append(request, fmt.Sprintf("(%d, '%s', %d, NULL, 2, 0, %s)", n, id, queue.ID, past(w.Database)))
			ops = append(ops, bot.Operation{ID: id, Status: status, Version: 1, RepositoryID: w.repo.ID, QueueID: queue.ID, Target: queue.Target,
				MergeRequestID: int64(n), Number: n, HeadSHA: sha(n)})
		}
		w.execute(`INSERT INTO merge_request (id, repository_id, number, title, author_id, author_login, author_bot, head_sha, last_command_at, last_command_id,
			sticky_comment_id, created_at, updated_at) VALUES ` + strings.Join(mr, ", "))
		w.execute(`INSERT INTO operation (operation_id, repository_id, queue_id, merge_request_id, status, requester, head_sha, lane, reason, detail,
			created_at, updated_at) VALUES ` + strings.Join(op, ", "))
		w.execute(`INSERT INTO binding (id, subject_id, target_key, operation_id, status, expires_at, created_at, updated_at) VALUES ` + strings.Join(binding, ", "))
		w.execute(`INSERT INTO binding_history (binding_id, operation_id, from_status, to_status, reason, detail, head_sha, batch_id, actor, created_at) VALUES ` +
			strings.Join(history, ", "))
		if status == bot.OperationWaiting {
			w.execute(`INSERT INTO merge_batch_request (id, operation_id, queue_id, batch_id, lane, cohort, created_at) VALUES ` + strings.Join(request, ", "))
		}
	}
	return ops
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
	"merge_batch_member", "audit", "idempotency", "delivery", "outbox", "train", "train_seat", "approval_request", "draft_row", "curated_row", "api_request", "job_run",
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

func now(db Database) string {
	if db.Driver == store.MySQL {
		return `CURRENT_TIMESTAMP(6)`
	}
	return `batchbot_now()`
}

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
