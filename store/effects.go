package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// change is one state change of one operation and of its binding.
type change struct {
	op      bot.Operation // as read; its ID and Status are the guard
	version int64         // > 0: the operation must have this version too; 0: its batch's row is the guard
	to      bot.OperationStatus
	headSHA string // the new pin; empty keeps it
	reason  bot.Reason
	detail  string
	notify  bool   // a person has to act: a comment of its own
	by      string // login, or "batchbot"
	batchID int64  // the batch involved; 0 = none

	bindingID int64 // found by transition
}

// leastExpiry is how long an operation that comes back to wait for its approvals may at least do so.
const leastExpiry = 7 * 24 * time.Hour

// head is the pinned commit after the change.
func (c change) head() string { return cmp.Or(c.headSHA, c.op.HeadSHA) }

// transition writes operations, then their bindings, in lock order. ok is false when one of them is no longer what its guard says: roll
// back. A binding that belongs to another operation by now makes the change a stale callback, which is counted. What follows from the
// changes is said by tell, after the request rows are written.
func (t *tx) transition(ctx context.Context, changes []change) (ok bool, err error) {
	type group struct {
		from, to bot.OperationStatus
		version  int64
		headSHA  string
		reason   bot.Reason
		detail   string
	}
	operations := make(map[group][]string)
	bindings := make(map[group][]string)
	for _, c := range changes {
		if !c.op.Status.CanBecome(c.to) {
			return false, t.fail(fmt.Errorf("operation %s cannot become %s from %s", c.op.ID, c.to, c.op.Status))
		}
		g := group{c.op.Status, c.to, c.version, c.headSHA, c.reason, clip(c.detail, longText)}
		operations[g] = append(operations[g], c.op.ID)
		b := group{from: c.op.Status, to: c.to}
		bindings[b] = append(bindings[b], c.op.ID)
	}
	for _, g := range inKeyOrder(operations) {
		for ids := range slices.Chunk(operations[g], chunkSize) {
			statement := `UPDATE operation {pinned text} SET status = ?, reason = ?, detail = ?, version = version + 1, updated_at = {now}`
			args := []any{g.to, g.reason, g.detail}
			if g.headSHA != "" {
				statement += `, head_sha = ?`
				args = append(args, g.headSHA)
			}
			statement += ` WHERE status = ? AND operation_id IN (` + list(len(ids)) + `)`
			args = append(append(args, g.from), anys(ids)...)
			if g.version > 0 {
				statement += ` AND version = ?`
				args = append(args, g.version)
			}
			n, err := t.exec(ctx, statement, args...)
			if err != nil || n != int64(len(ids)) {
				return false, err
			}
		}
	}
	found := make(map[string]int64, len(changes))
	for _, g := range inKeyOrder(bindings) {
		for ids := range slices.Chunk(bindings[g], chunkSize) {
			var rows []int64
			err := t.each(ctx, `SELECT id, operation_id FROM binding WHERE operation_id IN (`+list(len(ids))+`) ORDER BY id`, anys(ids), func(scan scan) error {
				var id int64
				var operation string
				if err := scan(&id, &operation); err != nil {
					return err
				}
				rows, found[operation] = append(rows, id), id
				return nil
			})
			if err != nil {
				return false, err
			}
			n := int64(0)
			if len(rows) == len(ids) {
				statement := `UPDATE binding {pinned} SET status = ?, version = version + 1, updated_at = {now}`
				args := []any{g.to}
				if g.to == bot.OperationPendingApproval {
					// Who comes back after a long time, say by a push to what failed last month, is not expired on the spot.
					statement += `, expires_at = CASE WHEN expires_at < {later} THEN {later} ELSE expires_at END`
					args = append(args, micros(leastExpiry), micros(leastExpiry))
				}
				statement += ` WHERE status = ? AND id IN (` + list(len(rows)) + `) AND operation_id IN (` + list(len(ids)) + `)`
				args = append(append(append(args, g.from), anys(rows)...), anys(ids)...)
				n, err = t.exec(ctx, statement, args...)
				if err != nil {
					return false, err
				}
			}
			if n != int64(len(ids)) {
				t.store.stale.Add(1)
				return false, nil
			}
		}
	}
	for i := range changes {
		changes[i].bindingID = found[changes[i].op.ID]
	}
	return true, nil
}

// inKeyOrder sorts every group's ids and returns the groups ordered by their first id, so that transactions meet rows in one order.
func inKeyOrder[G comparable](groups map[G][]string) []G {
	keys := make([]G, 0, len(groups))
	for g, ids := range groups {
		slices.Sort(ids)
		keys = append(keys, g)
	}
	slices.SortFunc(keys, func(a, b G) int { return cmp.Compare(groups[a][0], groups[b][0]) })
	return keys
}

// tell records changes made by transition and arms what is to be said about them: status comments, commit statuses and, where a person has to
// act, comments of their own.
func (t *tx) tell(ctx context.Context, changes []change) error {
	entries := make([]historyEntry, 0, len(changes))
	for _, c := range changes {
		entries = append(entries, historyEntry{
			bindingID: c.bindingID, operationID: c.op.ID, from: c.op.Status, to: c.to, reason: c.reason, detail: c.detail,
			headSHA: c.head(), batchID: c.batchID, by: c.by,
		})
	}
	if err := t.addHistory(ctx, entries); err != nil {
		return err
	}
	var errands []errand
	var noticed []string
	byID := make(map[string]change, len(changes))
	for _, c := range changes {
		byID[c.op.ID] = c
		errands = append(errands, stickyErrand(c.op.RepositoryID, c.op.MergeRequestID, c.op.Number), statusErrand(c.op))
		if c.notify {
			noticed = append(noticed, c.op.ID)
		}
	}
	for ids := range slices.Chunk(noticed, chunkSize) {
		// The operations' rows are locked, so the newest entry of each is the one just written.
		err := t.each(ctx, `SELECT operation_id, MAX(id) FROM binding_history WHERE operation_id IN (`+list(len(ids))+`) GROUP BY operation_id`, anys(ids),
			func(scan scan) error {
				var operation string
				var id int64
				if err := scan(&operation, &id); err != nil {
					return err
				}
				op := byID[operation].op
				errands = append(errands, errand{kind: bot.ErrandNotice, target: strconv.FormatInt(id, 10), repositoryID: op.RepositoryID, number: op.Number})
				return nil
			})
		if err != nil {
			return err
		}
	}
	return t.arm(ctx, errands...)
}

// historyEntry is one row for binding_history.
type historyEntry struct {
	bindingID   int64
	operationID string
	from        bot.OperationStatus // 0: applied
	to          bot.OperationStatus
	reason      bot.Reason
	detail      string
	headSHA     string
	batchID     int64
	by          string
}

// addHistory appends to binding_history.
func (t *tx) addHistory(ctx context.Context, entries []historyEntry) error {
	rows := make([][]any, 0, len(entries))
	for _, e := range entries {
		var from any
		if e.from != 0 {
			from = e.from
		}
		rows = append(rows, []any{e.bindingID, e.operationID, from, e.to, e.reason, clip(e.detail, longText), e.headSHA, e.batchID, clip(e.by, 255)})
	}
	_, err := t.insertRows(ctx, nil, `INSERT INTO binding_history
		(binding_id, operation_id, from_status, to_status, reason, detail, head_sha, batch_id, actor, created_at) VALUES `,
		`(?, ?, ?, ?, ?, ?, ?, ?, ?, {now})`, rows)
	return err
}

// insertRows inserts many rows, several to a statement. A duplicate of expected is an answer: fresh is false, the statement it is in has
// inserted nothing, and those after it were not run.
func (t *tx) insertRows(ctx context.Context, expected *uniqueKey, into, row string, rows [][]any) (fresh bool, err error) {
	for chunk := range slices.Chunk(rows, chunkSize) {
		statement, args := into, []any(nil)
		for i, values := range chunk {
			if i > 0 {
				statement += ", "
			}
			statement += row
			args = append(args, values...)
		}
		if _, fresh, err := t.insert(ctx, expected, statement, args...); err != nil || !fresh {
			return false, err
		}
	}
	return true, nil
}

// auditEntry is one row for audit.
type auditEntry struct {
	dedupe      string // unique: an entry made twice is kept as first written
	actor       string
	action      string
	queueID     int64
	operationID string
	batchID     int64
	source      string
	detail      string
}

// audit appends to the audit; a duplicate is an answer and overwrites nothing.
func (t *tx) audit(ctx context.Context, e auditEntry) error {
	_, _, err := t.insert(ctx, &keyAudit, `INSERT INTO audit (dedupe_key, actor, action, queue_id, operation_id, batch_id, source, detail, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, {now})`,
		clip(e.dedupe, 255), clip(e.actor, 255), clip(e.action, 64), e.queueID, e.operationID, e.batchID, clip(e.source, 255), clip(e.detail, longText))
	return err
}

// errand is something to be said or done on the host.
type errand struct {
	kind         bot.ErrandKind
	target       string
	repositoryID int64
	number       int
	payload      bot.ErrandPayload
	after        time.Duration // not before this from now
}

// stickyErrand renders the status comment of a merge request anew.
func stickyErrand(repositoryID, mergeRequestID int64, number int) errand {
	return errand{kind: bot.ErrandSticky, target: strconv.FormatInt(mergeRequestID, 10), repositoryID: repositoryID, number: number}
}

// statusErrand writes the bot's commit status on an operation's head anew.
func statusErrand(op bot.Operation) errand {
	return errand{kind: bot.ErrandCommitStatus, target: op.ID, repositoryID: op.RepositoryID, number: op.Number}
}

// batchErrand is an errand about a batch.
func batchErrand(kind bot.ErrandKind, batch bot.Batch, repositoryID int64) errand {
	return errand{kind: kind, target: strconv.FormatInt(batch.ID, 10), repositoryID: repositoryID, number: batch.MRNumber}
}

// arm makes errands due: a known one is wanted once more, a new one inserted. One that a sender holds or that waits for its next try keeps
// that time, so that no second sender starts beside the first; the sender sees that it was wanted again when it finishes.
func (t *tx) arm(ctx context.Context, errands ...errand) error {
	errands = slices.Clone(errands)
	order := func(a, b errand) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.target, b.target)) }
	slices.SortStableFunc(errands, order)
	errands = slices.CompactFunc(errands, func(a, b errand) bool { return order(a, b) == 0 })
	for start := 0; start < len(errands); {
		end := start + 1
		for end < len(errands) && end-start < chunkSize && errands[end].kind == errands[start].kind {
			end++
		}
		if err := t.armKind(ctx, errands[start:end]); err != nil {
			return err
		}
		start = end
	}
	return nil
}

// armKind arms errands of one kind: many at once, and one by one where somebody inserts or purges the same rows meanwhile.
func (t *tx) armKind(ctx context.Context, errands []errand) error {
	targets := make([]string, len(errands))
	for i, e := range errands {
		targets[i] = e.target
	}
	known := make(map[string]bool, len(errands))
	var ids []int64
	err := t.each(ctx, `SELECT id, target FROM outbox WHERE kind = ? AND target IN (`+list(len(targets))+`) ORDER BY id`,
		append([]any{errands[0].kind}, anys(targets)...), func(scan scan) error {
			var id int64
			var target string
			if err := scan(&id, &target); err != nil {
				return err
			}
			ids, known[target] = append(ids, id), true
			return nil
		})
	if err != nil {
		return err
	}
	if len(ids) > 0 {
		args := append([]any{micros(errands[0].after)}, anys(ids)...)
		n, err := t.exec(ctx, `UPDATE outbox {pinned} SET `+wantAgain+` WHERE id IN (`+list(len(ids))+`)`, args...)
		if err != nil {
			return err
		}
		if n != int64(len(ids)) {
			// Some were purged since they were read. Wanting the others twice is harmless.
			return t.armEach(ctx, errands)
		}
	}
	fresh := slices.DeleteFunc(slices.Clone(errands), func(e errand) bool { return known[e.target] })
	rows := make([][]any, 0, len(fresh))
	for _, e := range fresh {
		row, err := e.row()
		if err != nil {
			return t.fail(err)
		}
		rows = append(rows, row)
	}
	inserted, err := t.insertRows(ctx, &keyOutbox, insertErrand, errandRow, rows)
	if err != nil || inserted {
		return err
	}
	return t.armEach(ctx, fresh)
}

// MySQL assigns from left to right and reads what it has assigned, so status comes last.
const wantAgain = `wanted = wanted + 1, error = '', updated_at = {now},
	attempts = CASE WHEN status = 1 THEN attempts ELSE 0 END,
	next_attempt_at = CASE WHEN status = 1 THEN next_attempt_at ELSE {later} END,
	status = 1`

const (
	insertErrand = `INSERT INTO outbox (kind, target, repository_id, number, payload, status, wanted, done, attempts, error,
		next_attempt_at, created_at, updated_at) VALUES `
	errandRow = `(?, ?, ?, ?, ?, 1, 1, 0, 0, '', {later}, {now}, {now})`
)

func (e errand) row() ([]any, error) {
	payload, err := json.Marshal(e.payload)
	if err != nil {
		return nil, fmt.Errorf("encode the payload of %s %s: %w", e.kind, e.target, err)
	}
	return []any{e.kind, e.target, e.repositoryID, e.number, string(payload), micros(e.after)}, nil
}

func (t *tx) armEach(ctx context.Context, errands []errand) error {
	for _, e := range errands {
		row, err := e.row()
		if err != nil {
			return t.fail(err)
		}
		for tries := 0; ; tries++ {
			_, fresh, err := t.insert(ctx, &keyOutbox, insertErrand+errandRow, row...)
			if err != nil {
				return err
			}
			if fresh {
				break
			}
			n, err := t.exec(ctx, `UPDATE outbox SET `+wantAgain+` WHERE kind = ? AND target = ?`, micros(e.after), e.kind, e.target)
			if err != nil {
				return err
			}
			if n == 1 {
				break
			}
			if tries == 3 {
				return t.fail(fmt.Errorf("the outbox row for %s %s comes and goes", e.kind, e.target))
			}
		}
	}
	return nil
}

// memberEntry is one row for merge_batch_member.
type memberEntry struct {
	batchID     int64
	operationID string // empty for bot.MemberHead
	event       bot.MemberEvent
	build       int
	position    int // from 1; 0 for bot.MemberHead
	headSHA     string
	reason      bot.Reason
	detail      string
}

// addMembers appends to the membership history.
func (t *tx) addMembers(ctx context.Context, entries []memberEntry) error {
	rows := make([][]any, 0, len(entries))
	for _, e := range entries {
		rows = append(rows, []any{e.batchID, e.operationID, e.event, e.build, e.position, e.headSHA, e.reason, clip(e.detail, longText)})
	}
	_, err := t.insertRows(ctx, nil, `INSERT INTO merge_batch_member
		(batch_id, operation_id, event, build, position, head_sha, reason, detail, created_at) VALUES `, `(?, ?, ?, ?, ?, ?, ?, ?, {now})`, rows)
	return err
}
