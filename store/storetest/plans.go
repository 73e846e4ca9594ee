package storetest

import (
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/store"
)

var plansTests = tests{
	"no statement of an ordinary day reads a whole table": ordinaryDay,
	"what sweeps and people ask is answered by an index":  asked,
}

// hot statements, by how they begin behind SELECT, UPDATE or DELETE, and the index that carries each.
var hot = map[string]string{
	"FROM delivery WHERE status = ? AND next_attempt_at":                                             "idx_delivery_due",
	"FROM outbox WHERE status = ? AND next_attempt_at":                                               "idx_outbox_due",
	"FROM merge_batch_request WHERE queue_id = ? AND batch_id IS NULL AND cohort = ? AND created_at": "idx_request_order",
	"FROM merge_batch b WHERE b.active_slot = ?":                                                     "uk_batch_active",
	"WHERE b.status = ? AND b.expires_at":                                                            "idx_binding_expiry",
	"WHERE o.repository_id = ? AND o.status IN":                                                      "idx_operation_followed",
	"FROM idempotency WHERE expires_at":                                                              "idx_idempotency_expiry",
	"FROM api_request WHERE expires_at":                                                              "idx_api_request_expiry",
	"FROM delivery WHERE received_at":                                                                "idx_delivery_received",
	"FROM merge_batch_member WHERE operation_id = ?":                                                 "idx_member_operation",
	"FROM merge_batch b WHERE b.queue_id = ? ORDER BY b.id DESC LIMIT":                               "idx_batch_queue",
	// The place in the queue: one's own row by its id, then a walk over those that wait.
	"FROM merge_batch_request me JOIN merge_batch_request w ON w.queue_id = me.queue_id AND w.batch_id IS NULL": "idx_request_order",
	"WHERE b.queue_id = ? AND b.status IN (?, ?) AND b.updated_at":                                              "idx_batch_",
}

// small are tables that hold few rows, whatever the age: repositories, queues, and (w) the requests that wait or ride now, which mostly are of
// one queue.
var small = []string{"queue", "q", "repository", "r", "w"}

// fill inserts n rows; values makes the i-th.
func (w *world) fill(n int, into string, values func(i int) string) {
	w.Helper()
	for start := 0; start < n; start += 500 {
		var rows []string
		for i := start; i < min(start+500, n); i++ {
			rows = append(rows, values(i))
		}
		w.execute(`INSERT INTO ` + into + ` VALUES ` + strings.Join(rows, ", "))
	}
}

// years fills the tables with what a busy repository leaves behind, and a long waiting set.
func (w *world) years() {
	w.Helper()
	const n, waiting = 900, 200
	at := func(i int) string { return ago(w.Database, 100*time.Hour-time.Duration(i)*time.Minute) }
	status := func(i int) bot.OperationStatus {
		if i < waiting {
			return bot.OperationWaiting
		}
		return bot.OperationMerged
	}
	id := func(i int) string { return operationID(5_000_000 + i) }
	w.fill(n, `merge_request (id, repository_id, number, title, author_id, author_login, author_bot, head_sha, last_command_at, last_command_id, sticky_comment_id, created_at, updated_at)`,
		func(i int) string {
			return fmt.Sprintf(`(%d, %d, %d, 'Change', 1, 'ann', 0, '%s', 1, 1, 0, %s, %s)`, 5000+i, w.repo.ID, 5000+i, sha(i), at(i), at(i))
		})
	w.fill(n, `operation (operation_id, repository_id, queue_id, merge_request_id, status, requester, head_sha, lane, reason, detail, created_at, updated_at)`,
		func(i int) string {
			return fmt.Sprintf(`('%s', %d, %d, %d, %d, 'ann', '%s', 2, 'applied', '', %s, %s)`, id(i), w.repo.ID, w.queue.ID, 5000+i, status(i), sha(i), at(i), at(i))
		})
	w.fill(n, `binding (subject_id, target_key, operation_id, status, expires_at, created_at, updated_at)`, func(i int) string {
		return fmt.Sprintf(`(%d, 'main', '%s', %d, %s, %s, %s)`, 5000+i, id(i), status(i), at(i), at(i), at(i))
	})
	w.fill(n, `binding_history (id, binding_id, operation_id, from_status, to_status, reason, detail, head_sha, batch_id, actor, created_at)`, func(i int) string {
		return fmt.Sprintf(`(%d, %d, '%s', NULL, 1, 'applied', '', '%s', 0, 'ann', %s)`, 7000+i, i, id(i), sha(i), at(i))
	})
	w.fill(waiting, `merge_batch_request (operation_id, queue_id, batch_id, lane, cohort, created_at)`, func(i int) string {
		return fmt.Sprintf(`('%s', %d, NULL, 2, 0, %s)`, id(i), w.queue.ID, at(i))
	})
	w.fill(n, `merge_batch (id, queue_id, status, phase, kind, cohort, token, size, build, base_sha, head_sha, landed_sha, landed_differs, mr_number, code, message,
		refusals, ci_conclusion, ci_fingerprint, ci_changed_at, phase_at, deadline_at, created_at, updated_at)`, func(i int) string {
		return fmt.Sprintf(`(%d, %d, 2, 4, 1, 0, 'token', 1, 1, '', '', '', 0, %d, 'LANDED', '', 0, '', '', %[4]s, %[4]s, %[4]s, %[4]s, %[4]s)`,
			7000+i, w.queue.ID, 9000+i, at(i))
	})
	w.fill(n, `merge_batch_member (batch_id, operation_id, event, build, position, head_sha, reason, detail, created_at)`, func(i int) string {
		return fmt.Sprintf(`(%d, '%s', 1, 0, 1, '%s', '', '', %s)`, 7000+i, id(i), sha(i), at(i))
	})
	w.fill(n, `audit (dedupe_key, actor, action, queue_id, operation_id, batch_id, source, detail, created_at)`, func(i int) string {
		return fmt.Sprintf(`('old:%d', 'ann', 'apply', 1, '%s', 0, '', '', %s)`, i, id(i), at(i))
	})
	w.fill(n, `idempotency (request_id, operation_id, expires_at, created_at)`, func(i int) string {
		return fmt.Sprintf(`('old:%d', '%s', %s, %s)`, i, id(i), later(w.Database), at(i))
	})
	w.fill(n, `delivery (host, delivery_key, event, payload, status, attempts, next_attempt_at, error, received_at, updated_at)`, func(i int) string {
		return fmt.Sprintf(`('forge', 'old%d', 'push', '{}', 2, 1, %[2]s, '', %[2]s, %[2]s)`, i, at(i))
	})
	w.fill(n, `api_request (request_id, fingerprint, resource, expires_at, created_at)`, func(i int) string {
		return fmt.Sprintf(`('api:old:%d', '', '/api/v1/trains/1', %s, %s)`, i, ago(w.Database, -80*24*time.Hour+time.Duration(i)*time.Minute), at(i))
	})
	w.fill(n, `outbox (kind, target, repository_id, number, payload, status, wanted, done, attempts, next_attempt_at, error, created_at, updated_at)`, func(i int) string {
		return fmt.Sprintf(`(1, 'old%d', %d, 1, '{}', 2, 1, 1, 0, %[3]s, '', %[3]s, %[3]s)`, i, w.repo.ID, at(i))
	})
	if w.Driver == store.MySQL { // which does so by itself, later; SQLite never does
		w.execute(`ANALYZE TABLE ` + strings.Join(tables, ", "))
	}
}

func ordinaryDay(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.years()
	seen := make(map[string][]any)
	var lock sync.Mutex
	db.Intercept(w.store, func(statement string, args []any) error {
		lock.Lock()
		defer lock.Unlock()
		seen[statement] = args
		return nil
	})
	w.day()
	db.Intercept(w.store, nil)

	unmet := make(map[string]bool)
	for begin := range hot {
		unmet[begin] = true
	}
	for statement, args := range seen {
		if strings.Contains(statement, "COMMIT") || strings.HasPrefix(statement, "INSERT") {
			continue
		}
		plan, full := w.plan(statement, args)
		for _, table := range full {
			if !slices.Contains(small, table) {
				t.Errorf("reads all of %s:\n%s\n%s", table, statement, plan)
			}
		}
		flat := strings.Join(strings.Fields(statement), " ")
		for begin, index := range hot {
			if strings.Contains(flat, begin) {
				delete(unmet, begin)
				if !strings.Contains(plan, index) {
					t.Errorf("not by %s:\n%s\n%s", index, statement, plan)
				}
			}
		}
	}
	for begin := range unmet {
		t.Errorf("an ordinary day has no statement with %q any more", begin)
	}
}

// questions are asked beside the store's own statements: docs/database.md shows them. The last two are about the largest number as a number.
var questions = []struct{ what, query, index string }{
	{"which batches are overdue", `SELECT id, queue_id FROM merge_batch WHERE status = 1 AND deadline_at < {now} ORDER BY deadline_at LIMIT 50`, "idx_batch_deadline"},
	{"which batches ended since", `SELECT id, queue_id FROM merge_batch WHERE status = 2 AND updated_at > {ago} ORDER BY updated_at LIMIT 50`, "idx_batch_updated"},
	{"what is due next", `SELECT id, delivery_key FROM delivery WHERE status = 1 ORDER BY next_attempt_at LIMIT 1`, "idx_delivery_due"},
	{"who changed a batch", `SELECT actor, action FROM audit WHERE batch_id = 7007 ORDER BY id`, "idx_audit_batch"},
	{"the newest merge request", `SELECT number FROM merge_request WHERE repository_id = {repository} ORDER BY number DESC LIMIT 1`, "uk_merge_request"},
	{"the newest batch MR", `SELECT mr_number FROM merge_batch WHERE queue_id = {queue} ORDER BY mr_number DESC LIMIT 1`, "idx_batch_mr"},
}

func asked(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.years()
	w.execute(`UPDATE merge_request SET number = 10000 WHERE number = 5000`) // as a text it would come before 5001
	w.execute(`UPDATE merge_batch SET mr_number = 10000 WHERE mr_number = 9000`)
	marks := strings.NewReplacer("{now}", now(db), "{ago}", ago(db, time.Hour), "{repository}", fmt.Sprint(w.repo.ID), "{queue}", fmt.Sprint(w.queue.ID))
	for _, q := range questions {
		query := marks.Replace(q.query)
		plan, full := w.plan(query, nil)
		if len(full) > 0 || !strings.Contains(plan, q.index) || strings.Contains(plan, "filesort") || strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("%s: not by %s alone:\n%s\n%s", q.what, q.index, query, plan)
		}
	}
	for _, q := range questions[len(questions)-2:] {
		if n := w.value(marks.Replace(q.query)); n != 10000 {
			t.Errorf("%s is %d", q.what, n)
		}
	}
}

// day does everything once that an instance does all day long.
func (w *world) day() {
	w.Helper()
	ctx, s := w.Context(), w.store
	w.deliver("a", "b")
	for _, d := range w.take(10, lease) {
		w.finish(d, bot.DeliveryOutcome{Status: bot.DeliveryDone})
	}
	w.apply(w.application(w.queue, 1, false))
	w.admit(w.queue, 2, 3)
	w.admit(w.newQueue("release"), 4, 5)
	for _, n := range []int{1, 2} {
		op := w.read(operationID(n))
		to := bot.OperationWaiting
		if n == 2 {
			to = bot.OperationCancelled
		}
		m := w.moveTo(op, to)
		command := w.command(op, 1, "cancel")
		m.Command, m.Notify = &command, true
		_, err := s.Move(ctx, m)
		w.must(err)
	}
	queue := bot.Queue{ID: w.read(operationID(4)).QueueID, Target: "release"}
	claimed := w.claim(queue, 10)
	_, err := s.Move(ctx, w.moveTo(claimed.Members[0], bot.OperationPendingApproval))
	w.must(err)
	_, err = s.Answer(ctx, w.answer("words", bot.ReactionSeen))
	w.must(err)
	errands, err := s.ClaimErrands(ctx, 2, lease)
	w.must(err)
	w.must(s.FinishErrand(ctx, errands[0]))
	w.must(s.PostponeErrand(ctx, errands[1], 0, "no"))
	for _, read := range []func() error{
		func() error { _, err := s.Handled(ctx, "old:7"); return err },
		func() error { _, err := s.StickyView(ctx, w.read(operationID(3)).MergeRequestID); return err },
		func() error { _, err := s.CurrentOperations(ctx, w.repo.ID, 5); return err },
		func() error { _, err := s.FollowedOperations(ctx, w.repo.ID); return err },
		func() error { _, err := s.OperationView(ctx, operationID(5_000_001)); return err },
		func() error { _, err := s.HistoryEntry(ctx, 7007); return err },
		func() error { _, err := s.BatchView(ctx, claimed.Batch.ID); return err },
		func() error { _, err := s.QueuesWatching(ctx, w.repo.ID, sha(5)); return err },
		func() error { _, _, err := s.BatchMR(ctx, w.repo.ID, 9005); return err },
		func() error { _, err := s.QueuesWithWork(ctx); return err },
		func() error { _, err := s.Waiting(ctx, w.queue.ID); return err },
		func() error { _, err := s.RecordedHeads(ctx, 7007); return err },
		func() error { _, err := s.ExpireOperations(ctx, 100); return err },
		func() error { _, err := s.EndedBatches(ctx, w.queue.ID, time.Hour, 50); return err },
		func() error { _, _, err := s.HandledRequest(ctx, "api:old:7"); return err },
		func() error { return s.PurgeOld(ctx) },
	} {
		w.must(read())
	}
}

// plan explains a statement and names the tables of which it reads every row.
func (w *world) plan(statement string, args []any) (plan string, full []string) {
	w.Helper()
	explain := `EXPLAIN QUERY PLAN `
	if w.Driver == store.MySQL {
		explain = `EXPLAIN FORMAT=TRADITIONAL `
	}
	rows, err := w.SQL.QueryContext(w.Context(), explain+statement, args...)
	w.must(err)
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	w.must(err)
	for rows.Next() {
		values := make([]sql.NullString, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		w.must(rows.Scan(into...))
		row := make(map[string]string)
		for i, column := range columns {
			row[column] = values[i].String
			plan += values[i].String + " | "
		}
		plan += "\n"
		estimate, _ := strconv.Atoi(row["rows"])
		switch {
		case strings.HasPrefix(row["table"], "<union"): // what its parts found, each by a plan of its own
		case row["type"] == "ALL", row["type"] == "index" && estimate > 500: // a walk along an index that LIMIT ends is none
			full = append(full, row["table"])
		case strings.HasPrefix(row["detail"], "SCAN "):
			full = append(full, strings.Fields(row["detail"])[1])
		}
	}
	w.must(rows.Err())
	return plan, full
}
