package storetest

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/batchbot/batchbot/bot"
)

// picture is what the tables hold at one moment. One statement reads all of it, so it is a state between two transactions, however many run meanwhile.
type picture struct {
	operations []operationRow
	bindings   []bindingRow
	history    []historyRow
	requests   []requestRow
	batches    []batchRow
	sets       setRows // curatedcheck.go
	members    []memberRow
	settled    map[int64]int // batch → entries of the audit that say it was settled
	trains     []trainRow
	seats      []seatRow
	filled     map[string]bool // tables with rows
	keys       map[string]int  // table and unique key → rows with it
	states     []versioned     // rows whose state has a version
	appended   map[string]bool // rows of tables that are appended to only
	outside    []string        // rows with a value that its column does not know
}

type (
	operationRow struct {
		id               string
		status           bot.OperationStatus
		version, queueID int64
	}
	bindingRow struct {
		id, version int64
		status      bot.OperationStatus
		operationID string
	}
	historyRow struct {
		id, bindingID int64
		operationID   string
		from, to      bot.OperationStatus // from 0: applied
	}
	requestRow struct {
		id, queueID, batchID int64 // batchID 0: waiting
		cohort               int64
		operationID          string
	}
	batchRow struct {
		id, queueID, slot int64 // slot 0: NULL
		status            bot.BatchStatus
		size              int
		cohort            int64
	}
	memberRow struct {
		batchID     int64
		operationID string
		event       bot.MemberEvent
	}
	versioned struct {
		row     string // table and id
		version int64
		state   string
	}
)

// look reads every table in one shape: its letter, its unique key, and the columns that rules are about.
const look = `SELECT 'operation', operation_id, status, version, queue_id, merge_request_id, head_sha, 0, 0 FROM operation
	UNION ALL SELECT 'binding', CONCAT(subject_id, ' ', target_key), status, version, id, operation_id, 0, 0, 0 FROM binding
	UNION ALL SELECT 'binding_history', id, to_status, from_status, binding_id, operation_id, batch_id, head_sha, 0 FROM binding_history
	UNION ALL SELECT 'merge_batch_request', operation_id, lane, version, id, queue_id, batch_id, cohort, 0 FROM merge_batch_request
	UNION ALL SELECT 'merge_batch', id, status, version, queue_id, active_slot, CONCAT(phase, ' ', cohort), size, build FROM merge_batch
	UNION ALL SELECT 'merge_batch_member', CONCAT(batch_id, ' ', operation_id, ' ', event, ' ', build), event, 0, batch_id, operation_id, position, head_sha, id FROM merge_batch_member
	UNION ALL SELECT 'audit', dedupe_key, 0, 0, batch_id, operation_id, action, actor, id FROM audit
	UNION ALL SELECT 'queue', CONCAT(repository_id, ' ', target_branch), status, version, id, reason, 0, 0, 0 FROM queue
	UNION ALL SELECT 'merge_request', CONCAT(repository_id, ' ', number), 1, version, id, last_command_at, last_command_id, head_sha, 0 FROM merge_request
	UNION ALL SELECT 'idempotency', request_id, 0, 0, operation_id, 0, 0, 0, 0 FROM idempotency
	UNION ALL SELECT 'delivery', CONCAT(host, ' ', delivery_key), status, attempts, id, 0, 0, 0, 0 FROM delivery
	UNION ALL SELECT 'outbox', CONCAT(kind, ' ', target), status, attempts, wanted, done, id, 0, 0 FROM outbox
	UNION ALL SELECT 'train', id, status, version, queue_id, confirmed_count, capacity, seats, next_seq FROM train
	UNION ALL SELECT 'train_seat', CONCAT(train_id, ' ', subject_id), status, version, train_id, operation_id, queue_seq, approved, id FROM train_seat`

// known is the largest status (of a request: lane) of each table; all begin at 1.
var known = map[string]int64{
	"operation": 9, "binding": 9, "binding_history": 9, "merge_batch_request": 3, "merge_batch": 4, "merge_batch_member": 8, "queue": 3, "merge_request": 1,
	"delivery": 4, "outbox": 3, "approval_request": 6, "train": 3, "train_seat": 4,
}

// ended reports whether a merge request in this state may be applied anew.
func ended(s bot.OperationStatus) bool { return bot.Reapply(s, "pinned", "newer") == bot.ReapplyReset }

func newPicture() picture {
	return picture{settled: make(map[int64]int), filled: make(map[string]bool), keys: make(map[string]int), appended: make(map[string]bool)}
}

func takePicture(ctx context.Context, db *sql.DB) (picture, error) {
	p := newPicture()
	rows, err := db.QueryContext(ctx, look+lookAtSets)
	if err != nil {
		return p, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var table, key string
		var f [7]sql.NullString
		if err := rows.Scan(&table, &key, &f[0], &f[1], &f[2], &f[3], &f[4], &f[5], &f[6]); err != nil {
			return p, err
		}
		p.add(table, key, f)
	}
	return p, rows.Err()
}

func (p *picture) add(table, key string, f [7]sql.NullString) {
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(f[i].String, 10, 64) // NULL is 0
		return n
	}
	row, status, version := table+" "+key, number(0), number(1)
	p.filled[table] = true
	p.keys[row]++
	if most, has := known[table]; has && (status < 1 || status > most) {
		p.outside = append(p.outside, fmt.Sprintf("%s has status %d", row, status))
	}
	var all strings.Builder
	for i := range f {
		fmt.Fprintf(&all, " %s", f[i].String)
	}
	switch table {
	case "operation", "binding", "merge_batch_request", "merge_batch", "queue", "merge_request", "approval_request", "train", "train_seat":
		if version < 1 {
			p.outside = append(p.outside, fmt.Sprintf("%s has version %d", row, version))
		}
		p.states = append(p.states, versioned{row, version, all.String()})
	case "binding_history", "merge_batch_member", "audit", "idempotency":
		p.appended[row+all.String()] = true
	case "outbox":
		if wanted, done := number(2), number(3); wanted < 1 || done < 0 || done > wanted {
			p.outside = append(p.outside, fmt.Sprintf("%s is wanted %d and done %d", row, wanted, done))
		}
	}
	switch table {
	case "approval_request", "draft_row", "curated_row":
		p.sets.add(p, table, key, f, all.String())
	case "operation":
		p.operations = append(p.operations, operationRow{key, bot.OperationStatus(status), version, number(2)})
	case "binding":
		p.bindings = append(p.bindings, bindingRow{number(2), version, bot.OperationStatus(status), f[3].String})
	case "binding_history":
		id, _ := strconv.ParseInt(key, 10, 64)
		p.history = append(p.history, historyRow{id, number(2), f[3].String, bot.OperationStatus(version), bot.OperationStatus(status)})
	case "merge_batch_request":
		p.requests = append(p.requests, requestRow{number(2), number(3), number(4), number(5), key})
	case "merge_batch":
		id, _ := strconv.ParseInt(key, 10, 64)
		p.batches = append(p.batches, batchRow{id, number(2), number(3), bot.BatchStatus(status), int(number(5)), cohortOf(f[4].String)})
	case "merge_batch_member":
		p.members = append(p.members, memberRow{number(2), f[3].String, bot.MemberEvent(status)})
	case "train":
		id, _ := strconv.ParseInt(key, 10, 64)
		p.trains = append(p.trains, trainRow{id, number(6), bot.TrainStatus(status), int(number(3)), int(number(4)), int(number(5))})
	case "train_seat":
		p.seats = append(p.seats, seatRow{number(2), number(4), f[3].String, bot.SeatStatus(status)})
	case "audit":
		if f[4].String == "settle" {
			p.settled[number(2)]++
		}
	}
}

// broken names what must hold at every moment and does not.
func (p *picture) broken() []string {
	var broken []string
	report := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	for _, what := range p.outside {
		report("the tables' constraints: %s", what)
	}
	for key, n := range p.keys {
		if n > 1 {
			report("unique keys: %d rows are %s", n, key) // also I4: requests are by operation; I5: bindings by merge request and target
		}
	}

	batches := make(map[int64]batchRow, len(p.batches))
	active := make(map[int64]int64)
	for _, b := range p.batches {
		batches[b.id] = b
		slot := int64(0)
		if b.status.Active() {
			slot = b.queueID
			if other, taken := active[b.queueID]; taken {
				report("I1: batches %d and %d of queue %d are active", other, b.id, b.queueID)
			}
			active[b.queueID] = b.id
		}
		if b.slot != slot {
			report("I1: batch %d is %s and has slot %d", b.id, b.status, b.slot)
		}
		if ended := !b.status.Active(); ended != (p.settled[b.id] == 1) {
			report("I6: batch %d is %s and was settled %d times", b.id, b.status, p.settled[b.id])
		}
	}

	// A member is in by CLAIMED and out by exactly one of the others.
	type membership struct {
		batchID     int64
		operationID string
	}
	rides, claimed := make(map[membership]int), make(map[int64]int)
	for _, m := range p.members {
		switch m.event {
		case bot.MemberClaimed:
			rides[membership{m.batchID, m.operationID}]++
			claimed[m.batchID]++
		case bot.MemberEvicted, bot.MemberLanded, bot.MemberReturned, bot.MemberFailed:
			rides[membership{m.batchID, m.operationID}]--
		}
	}
	for _, b := range p.batches {
		if claimed[b.id] != b.size {
			report("I2: batch %d claimed %d and says %d", b.id, claimed[b.id], b.size)
		}
	}
	requests := make(map[string]requestRow, len(p.requests))
	for _, r := range p.requests {
		requests[r.operationID] = r
		if r.batchID == 0 {
			continue
		}
		if batches[r.batchID].slot != r.queueID {
			report("I2: request %d of queue %d rides in batch %d, which is not active there", r.id, r.queueID, r.batchID)
		}
		rides[membership{r.batchID, r.operationID}]-- // by a row of its own
	}
	for m, n := range rides {
		if n != 0 {
			report("I2: operation %s joined batch %d %d times more than it left or rides", m.operationID, m.batchID, n)
		}
	}

	operations := make(map[string]operationRow, len(p.operations))
	for _, op := range p.operations {
		operations[op.id] = op
		request, has := requests[op.id]
		switch {
		case has != (op.status == bot.OperationWaiting || op.status == bot.OperationBatched):
			report("I4: operation %s is %s, and it is %v that it has a request", op.id, op.status, has)
		case has && (request.batchID != 0) != (op.status == bot.OperationBatched):
			report("I2: operation %s is %s, and its request is of batch %d", op.id, op.status, request.batchID)
		case has && request.queueID != op.queueID:
			report("I4: operation %s of queue %d waits in %d", op.id, op.queueID, request.queueID)
		}
	}
	for _, r := range p.requests {
		if operations[r.operationID].id == "" {
			report("I4: request %d belongs to no operation", r.id)
		}
	}

	// Every state has its entry in the history, and the entries are one chain: a write over a state that was not read would break it.
	slices.SortFunc(p.history, func(a, b historyRow) int { return cmp.Compare(a.id, b.id) })
	last, states, current := make(map[int64]historyRow), make(map[string]int64), make(map[string]bool)
	entries := make(map[int64]int64)
	for _, h := range p.history {
		before, begun := last[h.bindingID]
		switch {
		case h.from == 0 && begun && !ended(before.to), h.from != 0 && (!begun || before.to != h.from || before.operationID != h.operationID):
			report("I6: history entry %d goes from %s to %s, and before it operation %s became %s", h.id, h.from, h.to, before.operationID, before.to)
		}
		last[h.bindingID] = h
		entries[h.bindingID]++
		states[h.operationID]++
	}
	for _, b := range p.bindings {
		current[b.operationID] = true
		if op := operations[b.operationID]; op.status != b.status {
			report("I5: binding %d is %s and its operation %s is %s", b.id, b.status, b.operationID, op.status)
		}
		if h := last[b.id]; h.to != b.status || h.operationID != b.operationID {
			report("I5: binding %d is %s for %s, its history says %s for %s", b.id, b.status, b.operationID, h.to, h.operationID)
		}
		if entries[b.id] != b.version {
			report("I6: binding %d has version %d after %d changes", b.id, b.version, entries[b.id])
		}
	}
	for _, op := range p.operations {
		if !current[op.id] && !ended(op.status) {
			report("I5: operation %s is %s and no binding is for it", op.id, op.status)
		}
		if states[op.id] != op.version {
			report("I6: operation %s has version %d after %d changes", op.id, op.version, states[op.id])
		}
	}
	p.checkTrains(operations, report)
	broken = append(broken, p.brokenSets(operations)...)
	slices.Sort(broken)
	return broken
}

// invariants fails the test unless the tables hold what they must hold at every moment.
func (w *world) invariants() {
	w.Helper()
	p, err := takePicture(w.Context(), w.SQL)
	w.must(err)
	for _, what := range p.broken() {
		w.Error(what)
	}
}

// film is the pictures of one round in the order in which they were taken.
type film struct {
	mu       sync.Mutex
	pictures int
	versions map[string]int64  // row → its version in the last picture
	states   map[string]string // row and version → state
	appended map[string]bool
	filled   map[string]bool // tables that had rows in the last picture
}

// take takes the next picture and names what does not hold in it, or not after the ones before. It may be called at any moment, by any number at once.
func (f *film) take(ctx context.Context, db *sql.DB) ([]string, error) {
	f.mu.Lock() // pictures have an order
	defer f.mu.Unlock()
	p, err := takePicture(ctx, db)
	if err != nil {
		return nil, err
	}
	return f.add(p), nil
}

func (f *film) add(p picture) []string {
	f.pictures++
	broken := p.broken()
	if f.states == nil {
		f.states = make(map[string]string)
	}
	versions := make(map[string]int64, len(p.states))
	for _, s := range p.states {
		versions[s.row] = s.version
		key := fmt.Sprint(s.row, " in version ", s.version)
		if was, seen := f.states[key]; seen && was != s.state {
			broken = append(broken, fmt.Sprintf("I6: %s was%s and is%s", key, was, s.state))
		}
		f.states[key] = s.state
		if was := f.versions[s.row]; s.version < was {
			broken = append(broken, fmt.Sprintf("I6: %s went back from version %d to %d", s.row, was, s.version))
		}
	}
	for row := range f.appended {
		if !p.appended[row] {
			broken = append(broken, fmt.Sprintf("append-only: %s is gone or changed", row))
		}
	}
	f.versions, f.appended, f.filled = versions, p.appended, p.filled
	return broken
}
