package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/batchbot/batchbot/bot"
)

// Seats are read and written under the lock of their train's row. Whatever changes a live seat changes its operation's version too, so that a move
// decided on before is stale.

const seatColumns = `s.id, s.train_id, s.subject_id, m.number, s.operation_id, s.status, s.approved, s.queue_seq, s.version`

// seatRow is a seat with the id of its row.
type seatRow struct {
	bot.Seat
	id int64
}

// listSeats reads seats; where follows the tables' aliases s and m.
func listSeats(ctx context.Context, from source, where string, args ...any) ([]seatRow, error) {
	var seats []seatRow
	err := from.each(ctx, `SELECT `+seatColumns+` FROM train_seat s JOIN merge_request m ON m.id = s.subject_id WHERE `+where, args, func(scan scan) error {
		var s seatRow
		err := scan(&s.id, &s.TrainID, &s.MergeRequestID, &s.Number, &s.OperationID, &s.Status, &s.Approved, &s.Seq, &s.Version)
		seats = append(seats, s)
		return err
	})
	return seats, err
}

// liveSeat reads the live seat of an operation.
func liveSeat(ctx context.Context, from source, operationID string) (seat seatRow, found bool, err error) {
	seats, err := listSeats(ctx, from, `s.live_operation = ?`, operationID)
	if err != nil || len(seats) == 0 {
		return seatRow{}, false, err
	}
	return seats[0], true, nil
}

// liveSeats reads the live seats of a train in the order of joining: everybody CONFIRMED comes before everybody in line.
func liveSeats(ctx context.Context, from source, trainID int64) ([]bot.Seat, error) {
	rows, err := listSeats(ctx, from, `s.train_id = ? AND s.status IN (?, ?) ORDER BY s.queue_seq`, trainID, bot.SeatConfirmed, bot.SeatWaiting)
	seats := make([]bot.Seat, 0, len(rows))
	for _, r := range rows {
		seats = append(seats, r.Seat)
	}
	return seats, err
}

// placeInLine says how many are in line up to a seat, itself included; 0 for a seat that is not WAITING.
func placeInLine(ctx context.Context, from source, seat bot.Seat) (place int, err error) {
	if seat.Status != bot.SeatWaiting {
		return 0, nil
	}
	err = from.each(ctx, `SELECT COUNT(*) FROM train_seat WHERE train_id = ? AND status = ? AND queue_seq <= ?`,
		[]any{seat.TrainID, bot.SeatWaiting, seat.Seq}, func(scan scan) error { return scan(&place) })
	return place, err
}

// writeSeats brings live seats of one status to another, many to a statement.
func (t *tx) writeSeats(ctx context.Context, train heldTrain, from, to bot.SeatStatus, operations []string) error {
	slices.Sort(operations)
	for chunk := range slices.Chunk(operations, chunkSize) {
		n, err := t.exec(ctx, `UPDATE train_seat SET status = ?, version = version + 1, updated_at = {now}
			WHERE train_id = ? AND status = ? AND live_operation IN (`+list(len(chunk))+`)`, append([]any{to, train.ID, from}, anys(chunk)...)...)
		if err != nil {
			return err
		}
		if n != int64(len(chunk)) {
			return t.unlessHeldTrain(train, nil)
		}
	}
	return nil
}

// unlessHeldTrain is the error of seats and seated operations that changed although the row of their train is locked.
func (t *tx) unlessHeldTrain(train heldTrain, err error) error {
	if err != nil {
		return err
	}
	return t.fail(fmt.Errorf("seats of train %d changed under the lock of its row: the database was written by something else", train.ID))
}

// fill promotes the first in line while a seat is free. Nobody is promoted beyond Seats, whatever is in force. The changes are for moveSeated and tell,
// and the train is to be saved.
func (t *tx) fill(ctx context.Context, train *heldTrain) (promoted []bot.Seat, changes []change, err error) {
	free := train.Seats - train.Confirmed
	if free <= 0 {
		return nil, nil, nil
	}
	line, err := listSeats(ctx, t, `s.train_id = ? AND s.status = ? ORDER BY s.queue_seq LIMIT ?`, train.ID, bot.SeatWaiting, free)
	if err != nil || len(line) == 0 {
		return nil, nil, err
	}
	operations := make([]string, 0, len(line))
	for _, s := range line {
		operations = append(operations, s.OperationID)
		s.Status, s.Version = bot.SeatConfirmed, s.Version+1
		promoted = append(promoted, s.Seat)
	}
	if changes, err = t.changesOf(ctx, promoted, change{to: bot.OperationPendingApproval, reason: bot.ReasonPromoted, notify: true, by: "batchbot"}); err != nil {
		return nil, nil, err
	}
	train.Confirmed += len(promoted)
	return promoted, changes, t.writeSeats(ctx, *train, bot.SeatWaiting, bot.SeatConfirmed, operations)
}

// clear gives live seats up and ends their operations. The changes are for moveSeated and tell, and the train is to be saved.
func (t *tx) clear(ctx context.Context, train *heldTrain, seats []bot.Seat, reason bot.Reason, by string) ([]change, error) {
	changes, err := t.changesOf(ctx, seats, change{to: bot.OperationCancelled, reason: reason, notify: true, by: by})
	if err != nil {
		return nil, err
	}
	return changes, t.empty(ctx, train, seats, bot.SeatCancelled)
}

// empty brings live seats to an end.
func (t *tx) empty(ctx context.Context, train *heldTrain, seats []bot.Seat, to bot.SeatStatus) error {
	of := make(map[bot.SeatStatus][]string)
	for _, s := range seats {
		of[s.Status] = append(of[s.Status], s.OperationID)
	}
	train.Confirmed -= len(of[bot.SeatConfirmed])
	if err := t.writeSeats(ctx, *train, bot.SeatConfirmed, to, of[bot.SeatConfirmed]); err != nil {
		return err
	}
	return t.writeSeats(ctx, *train, bot.SeatWaiting, to, of[bot.SeatWaiting])
}

// changesOf makes the same change of every operation that holds one of these seats, in their order.
func (t *tx) changesOf(ctx context.Context, seats []bot.Seat, like change) ([]change, error) {
	operations := make(map[string]bot.Operation, len(seats))
	for chunk := range slices.Chunk(seats, chunkSize) {
		ids := make([]string, 0, len(chunk))
		for _, s := range chunk {
			ids = append(ids, s.OperationID)
		}
		ops, err := listOperations(ctx, t, `WHERE o.operation_id IN (`+list(len(ids))+`)`, anys(ids)...)
		if err != nil {
			return nil, err
		}
		for _, op := range ops {
			operations[op.ID] = op
		}
	}
	changes := make([]change, 0, len(seats))
	for _, s := range seats {
		c := like
		c.op = operations[s.OperationID]
		if c.op.Status != bot.OperationPendingApproval {
			return nil, t.fail(fmt.Errorf("operation %s holds a live seat of train %d and is %s", s.OperationID, s.TrainID, c.op.Status))
		}
		changes = append(changes, c)
	}
	return changes, nil
}

// moveSeated makes changes of operations that hold seats of a held train: its lock is their guard.
func (t *tx) moveSeated(ctx context.Context, train heldTrain, changes []change) error {
	if len(changes) == 0 {
		return nil
	}
	if ok, err := t.transition(ctx, changes); err != nil || !ok {
		return t.unlessHeldTrain(train, err)
	}
	return nil
}
