package memory

import (
	"github.com/batchbot/batchbot/bot"
)

// Rows is what the tables hold at one moment, as far as invariants speak of it.
type Rows struct {
	Queues     []bot.Queue
	Operations []bot.Operation
	Bindings   []Binding
	Requests   []Request
	Batches    []bot.Batch
	Claimed    map[int64]int // batch → members it ever claimed
	DueErrands int
	DueInbox   int
}

// Binding is a row of binding.
type Binding struct {
	ID, SubjectID int64
	Target        string
	OperationID   string
	Status        bot.OperationStatus
	Version       int64
	LastHistory   bot.OperationStatus // the newest entry of its history
}

// Request is a row of merge_batch_request.
type Request struct {
	OperationID string
	QueueID     int64
	BatchID     int64 // 0: waits
	Cohort      int64
}

// Look copies what is in the tables.
func (d *Database) Look() Rows {
	d.mu.Lock()
	defer d.mu.Unlock()
	t, now := &d.tables, d.now()
	rows := Rows{Claimed: make(map[int64]int, len(t.batches.rows))}
	for _, q := range t.queues.rows {
		rows.Queues = append(rows.Queues, q.value())
	}
	for _, o := range t.operations.rows {
		op, _ := t.joined(o)
		rows.Operations = append(rows.Operations, op)
	}
	last := make(map[int64]bot.OperationStatus, len(t.bindings.rows))
	for _, h := range t.history.rows {
		last[h.bindingID] = h.to
	}
	for _, b := range t.bindings.rows {
		rows.Bindings = append(rows.Bindings, Binding{b.id, b.subjectID, b.target, b.operationID, b.status, b.version, last[b.id]})
	}
	for _, r := range t.requests.rows {
		rows.Requests = append(rows.Requests, Request{r.operationID, r.queueID, r.batchID, r.cohort})
	}
	for _, b := range t.batches.rows {
		rows.Batches = append(rows.Batches, b.value(now))
	}
	for _, m := range t.members.rows {
		if m.event == bot.MemberClaimed {
			rows.Claimed[m.batchID]++
		}
	}
	for _, e := range t.outbox.rows {
		if e.status == errandDue {
			rows.DueErrands++
		}
	}
	for _, e := range t.deliveries.rows {
		if e.status == bot.DeliveryDue {
			rows.DueInbox++
		}
	}
	return rows
}
