package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/batchbot/batchbot/bot"
)

// Depart lets a due train go in one transaction: of several that try, one does. Who is approved and has a seat enters the waiting set in order; seats of
// those who are not are given to the first approved in line; everybody else is seated on the next train in order, before anybody can join it.
// The train that departs holds the unique name until then, so the next one is always of this transaction.
func (s *Store) Depart(ctx context.Context, d bot.Departure) (bot.DepartureResult, error) {
	name := fmt.Sprintf("depart train %d", d.TrainID)
	if d.Next != nil {
		if err := checkTrain(d.Next.Seats, d.Next.DepartsAt, d.Next.ClosesAt); err != nil {
			return bot.DepartureResult{}, fmt.Errorf("%s: the next train: %w", name, err)
		}
	}
	var gone departed
	err := s.write(ctx, job{name: name, run: func(tx *tx) error {
		var err error
		if gone, err = tx.depart(ctx, d); err == nil && !gone.done {
			return errRollback
		}
		return err
	}, landed: func(ctx context.Context) (bool, error) {
		return s.exists(ctx, `SELECT 1 FROM audit WHERE dedupe_key = ? AND detail = ?`, gone.audit, gone.story)
	}})
	if err != nil || !gone.done {
		return bot.DepartureResult{}, err
	}
	result := bot.DepartureResult{Done: true, Carried: gone.carried}
	for chunk := range slices.Chunk(gone.admitted, chunkSize) {
		ops, err := listOperations(ctx, s, `WHERE o.operation_id IN (`+list(len(chunk))+`)`, anys(chunk)...)
		if err != nil {
			return bot.DepartureResult{}, fmt.Errorf("%s: read who departed: %w", name, err)
		}
		result.Admitted = append(result.Admitted, inOrder(chunk, ops)...)
	}
	if gone.next != 0 {
		next, err := s.trainResult(ctx, bot.TrainResult{}, gone.next)
		if err != nil {
			return bot.DepartureResult{}, fmt.Errorf("%s: %w", name, err)
		}
		result.Next = next.Train
	}
	return result, nil
}

// inOrder returns operations in the order of their ids given.
func inOrder(ids []string, ops []bot.Operation) []bot.Operation {
	byID := make(map[string]bot.Operation, len(ops))
	for _, op := range ops {
		byID[op.ID] = op
	}
	sorted := make([]bot.Operation, 0, len(ops))
	for _, id := range ids {
		if op, ok := byID[id]; ok {
			sorted = append(sorted, op)
		}
	}
	return sorted
}

// departed is what a departure did.
type departed struct {
	done         bool
	admitted     []string // operations, in the order of their requests
	carried      []bot.Seat
	next         int64
	audit, story string
}

func (t *tx) depart(ctx context.Context, d bot.Departure) (gone departed, err error) {
	train, found, err := t.holdTrain(ctx, d.TrainID)
	if err != nil || !found {
		return gone, t.fail(missing(err, fmt.Sprintf("train %d", d.TrainID)))
	}
	if !train.Due {
		return gone, nil
	}
	seats, err := liveSeats(ctx, t, train.ID)
	if err != nil {
		return gone, err
	}
	all, err := t.changesOf(ctx, seats, change{by: "batchbot"})
	if err != nil {
		return gone, err
	}
	goes, stays := boards(train.Train, seats, all, d.Approved)

	var leaving, staying []bot.Seat
	var changes []change
	for _, i := range goes {
		c := all[i]
		c.to, c.reason = bot.OperationWaiting, bot.ReasonDeparted
		leaving, changes, gone.admitted = append(leaving, seats[i]), append(changes, c), append(gone.admitted, c.op.ID)
	}
	for _, i := range stays {
		c := all[i]
		c.to, c.reason, c.notify = bot.OperationPendingApproval, bot.ReasonCarriedOver, true
		if d.Next == nil {
			c.to, c.reason = bot.OperationCancelled, bot.ReasonTrainOver
		}
		staying, changes = append(staying, seats[i]), append(changes, c)
	}

	if err := t.empty(ctx, &train, leaving, bot.SeatDeparted); err != nil {
		return gone, err
	}
	if d.Next != nil {
		train.Confirmed = 0 // the rest moves to the next train as it is
	} else if err := t.empty(ctx, &train, staying, bot.SeatCancelled); err != nil {
		return gone, err
	}
	train.Status = bot.TrainDeparted
	if err := t.saveTrain(ctx, &train); err != nil {
		return gone, err
	}
	if d.Next != nil {
		if gone.next, gone.carried, err = t.carryOver(ctx, train, *d.Next, staying); err != nil {
			return gone, err
		}
	}
	if err := t.moveSeated(ctx, train, changes); err != nil {
		return gone, err
	}
	if err := t.admitAll(ctx, train.QueueID, gone.admitted); err != nil {
		return gone, err
	}
	gone.done, gone.audit = true, trainAudit(train.ID, train.Version)
	gone.story = fmt.Sprintf("%s: %d admitted, %d carried over, next train %d", train.Name, len(goes), len(gone.carried), gone.next)
	if err := t.audit(ctx, auditEntry{dedupe: gone.audit, actor: "batchbot", action: "depart train", queueID: train.QueueID, source: "schedule", detail: gone.story}); err != nil {
		return gone, err
	}
	return gone, t.tell(ctx, changes)
}

// boards divides live seats in the order of joining into those that go and those that stay, by index. Who is CONFIRMED and approved goes. The seats of
// who is not are given to the approved in line, as long as fewer than Seats go: a seat too many, which lowering left, is given to nobody.
func boards(train bot.Train, seats []bot.Seat, ops []change, approvals []bot.SeatApproval) (goes, stays []int) {
	approved := make(map[string]int64, len(approvals))
	for _, a := range approvals {
		approved[a.OperationID] = a.Version
	}
	for i, seat := range seats {
		version, ok := approved[seat.OperationID]
		if ok && stands(ops[i].op, version) && (seat.Status == bot.SeatConfirmed || len(goes) < train.Seats) {
			goes = append(goes, i)
		} else {
			stays = append(stays, i)
		}
	}
	return goes, stays
}

// stands reports whether what was looked at when the operation had this version is still so. Moving up in line, or the approval itself, changes nothing
// of it.
func stands(op bot.Operation, version int64) bool {
	return op.Version == version || op.Version == version+1 && (op.Reason == bot.ReasonPromoted || op.Reason == bot.ReasonApproved)
}

// carryOver opens the departure after a train and moves the seats of those who stay to it, in order. Moved and not inserted anew: InnoDB locks the gaps
// around a key that is inserted right after it was taken away, and whoever joins another train would wait for this departure.
func (t *tx) carryOver(ctx context.Context, from heldTrain, next bot.NextTrain, staying []bot.Seat) (id int64, carried []bot.Seat, err error) {
	confirmed := min(len(staying), next.Seats)
	id, fresh, err := t.insertTrain(ctx, from.QueueID, from.Name, true, next.DepartsAt, next.ClosesAt, next.Seats, confirmed, from.nextSeq)
	if err != nil {
		return 0, nil, err
	}
	if !fresh {
		return 0, nil, t.fail(fmt.Errorf("another train %q of queue %d is open: the database was written by something else", from.Name, from.QueueID))
	}
	last := int64(0) // in the order of joining, who still has a seat
	operations := make([]string, 0, len(staying))
	for i, seat := range staying {
		seat.TrainID, seat.Status, seat.Position, seat.Version = id, bot.SeatWaiting, i+1-confirmed, seat.Version+1
		if i < confirmed {
			seat.Status, seat.Position, last = bot.SeatConfirmed, 0, seat.Seq
		}
		carried, operations = append(carried, seat), append(operations, seat.OperationID)
	}
	slices.Sort(operations)
	for chunk := range slices.Chunk(operations, chunkSize) {
		n, err := t.exec(ctx, `UPDATE train_seat SET train_id = ?, status = CASE WHEN queue_seq <= ? THEN ? ELSE ? END, version = version + 1, updated_at = {now}
			WHERE train_id = ? AND live_operation IN (`+list(len(chunk))+`)`,
			append([]any{id, last, bot.SeatConfirmed, bot.SeatWaiting, from.ID}, anys(chunk)...)...)
		if err != nil {
			return 0, nil, err
		}
		if n != int64(len(chunk)) {
			return 0, nil, t.unlessHeldTrain(from, nil)
		}
	}
	return id, carried, nil
}

// admitAll puts operations into the waiting set in their order, each at the tail of its lane.
func (t *tx) admitAll(ctx context.Context, queueID int64, operations []string) error {
	rows := make([][]any, 0, len(operations))
	for chunk := range slices.Chunk(operations, chunkSize) {
		lanes := make(map[string]bot.Lane, len(chunk))
		err := t.each(ctx, `SELECT operation_id, lane FROM operation WHERE operation_id IN (`+list(len(chunk))+`)`, anys(chunk), func(scan scan) error {
			var id string
			var lane bot.Lane
			err := scan(&id, &lane)
			lanes[id] = lane
			return err
		})
		if err != nil {
			return err
		}
		for _, id := range chunk {
			rows = append(rows, []any{id, queueID, lanes[id]})
		}
	}
	_, err := t.insertRows(ctx, nil, `INSERT INTO merge_batch_request (operation_id, queue_id, batch_id, lane, cohort, created_at) VALUES `,
		`(?, ?, NULL, ?, 0, {now})`, rows)
	return err
}
