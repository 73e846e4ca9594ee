package memory

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// move is one state change of one operation and of its binding.
type move struct {
	op      bot.Operation // as read; its ID and Status are the guard
	version int64         // > 0: the operation must have this version too; 0: its batch's row is the guard
	to      bot.OperationStatus
	headSHA string // the new pin; empty keeps it
	reason  bot.Reason
	detail  string
	notify  bool
	by      string
	batchID int64

	bindingID int64 // found by transition
}

// leastExpiry is how long an operation that comes back to wait for its approvals may at least do so.
const leastExpiry = 7 * 24 * time.Hour

// transition writes operations and their bindings. ok is false when one of them is no longer what its guard says: roll back.
func (t *tx) transition(moves []move) (ok bool, err error) {
	for i := range moves {
		m := &moves[i]
		if !m.op.Status.CanBecome(m.to) {
			return false, fmt.Errorf("operation %s cannot become %s from %s", m.op.ID, m.to, m.op.Status)
		}
		row := t.operationRow(m.op.ID)
		if row == nil || row.status != m.op.Status || (m.version > 0 && row.version != m.version) {
			return false, nil
		}
		o := change(t, row)
		o.status, o.reason, o.detail, o.updated = m.to, m.reason, clip(m.detail, longText), t.now
		o.version++
		if m.headSHA != "" {
			o.headSHA = m.headSHA
		}
		bound := t.bindings.first(func(b *bindingRow) bool { return b.operationID == m.op.ID })
		if bound == nil || bound.status != m.op.Status {
			return false, nil // the binding belongs to another operation by now: a stale callback
		}
		b := change(t, bound)
		b.status, b.updated = m.to, t.now
		b.version++
		if m.to == bot.OperationPendingApproval {
			b.expires = max(b.expires, t.later(leastExpiry))
		}
		m.bindingID = b.id
	}
	return true, nil
}

// tell records moves made by transition and arms what is to be said about them.
func (t *tx) tell(moves []move) {
	var errands, notices []outboxRow
	for _, m := range moves {
		id := t.addHistory(historyRow{
			bindingID: m.bindingID, operationID: m.op.ID, from: m.op.Status, to: m.to, reason: m.reason, detail: m.detail,
			headSHA: cmp.Or(m.headSHA, m.op.HeadSHA), batchID: m.batchID, actor: m.by,
		})
		errands = append(errands, stickyErrand(m.op.RepositoryID, m.op.MergeRequestID, m.op.Number), statusErrand(m.op))
		if m.notify {
			notices = append(notices, outboxRow{kind: bot.ErrandNotice, target: strconv.FormatInt(id, 10), repositoryID: m.op.RepositoryID, number: m.op.Number})
		}
	}
	t.arm(append(errands, notices...)...)
}

func (t *tx) addHistory(h historyRow) int64 {
	h.detail, h.actor, h.created = clip(h.detail, longText), clip(h.actor, 255), t.now
	insert(t, &t.history, &h, &h.id)
	return h.id
}

// log appends to the audit; a duplicate is an answer and overwrites nothing.
func (t *tx) log(a auditRow) {
	a.dedupe, a.actor, a.action = clip(a.dedupe, 255), clip(a.actor, 255), clip(a.action, 64)
	a.source, a.detail, a.created = clip(a.source, 255), clip(a.detail, longText), t.now
	if t.audit.first(func(r *auditRow) bool { return r.dedupe == a.dedupe }) == nil {
		insert(t, &t.audit, &a, &a.id)
	}
}

// arm makes errands due: a known one is wanted once more, a new one inserted. nextAttempt of what is handed in is a delay in microseconds.
// One that a sender holds or that waits for its next try keeps that time, so that no second sender starts beside the first.
func (t *tx) arm(errands ...outboxRow) {
	order := func(a, b outboxRow) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.target, b.target)) }
	slices.SortStableFunc(errands, order)
	errands = slices.CompactFunc(errands, func(a, b outboxRow) bool { return order(a, b) == 0 })
	for _, e := range errands {
		known := t.outbox.first(func(r *outboxRow) bool { return r.kind == e.kind && r.target == e.target })
		if known == nil {
			e.status, e.wanted, e.nextAttempt, e.created, e.updated = errandDue, 1, t.now+e.nextAttempt, t.now, t.now
			insert(t, &t.outbox, &e, &e.id)
			continue
		}
		r := change(t, known)
		r.wanted++
		r.err, r.updated = "", t.now
		if r.status != errandDue {
			r.status, r.attempts, r.nextAttempt = errandDue, 0, t.now+e.nextAttempt
		}
	}
}

func stickyErrand(repositoryID, mrID int64, number int) outboxRow {
	return outboxRow{kind: bot.ErrandSticky, target: strconv.FormatInt(mrID, 10), repositoryID: repositoryID, number: number}
}

func statusErrand(op bot.Operation) outboxRow {
	return outboxRow{kind: bot.ErrandCommitStatus, target: op.ID, repositoryID: op.RepositoryID, number: op.Number}
}

func batchErrand(kind bot.ErrandKind, batch *batchRow, repositoryID int64) outboxRow {
	return outboxRow{kind: kind, target: strconv.FormatInt(batch.id, 10), repositoryID: repositoryID, number: batch.mrNumber}
}

// addMembers appends to the membership history.
func (t *tx) addMembers(entries ...memberRow) error {
	for _, e := range entries {
		e.detail, e.created = clip(e.detail, longText), t.now
		same := func(m *memberRow) bool {
			return m.batchID == e.batchID && m.operationID == e.operationID && m.event == e.event && m.build == e.build
		}
		if t.members.first(same) != nil {
			return fmt.Errorf("duplicate entry of %q in batch %d", e.operationID, e.batchID)
		}
		insert(t, &t.members, &e, &e.id)
	}
	return nil
}

// parkQueue parks an open queue; one that is parked or paused already stays as it is.
func (t *tx) parkQueue(queueID int64, reason string) {
	q := t.queue(queueID)
	if q == nil || q.status != bot.QueueOpen {
		return
	}
	change(t, q)
	q.status, q.reason, q.updated = bot.QueueParked, clip(reason, longText), t.now
	q.version++
	t.tellQueue(queueID)
}

// tellQueue says the queue's new state to those who wait in it or ride.
func (t *tx) tellQueue(queueID int64) {
	var errands []outboxRow
	for _, r := range t.requests.all(func(r *requestRow) bool { return r.queueID == queueID }) {
		if op, ok := t.operation(r.operationID); ok {
			errands = append(errands, stickyErrand(op.RepositoryID, op.MergeRequestID, op.Number))
		}
	}
	t.arm(errands...)
}
