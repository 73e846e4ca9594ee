package storetest

import (
	"context"
	"fmt"
	"testing"

	"github.com/batchbot/batchbot/bot"
)

// The database itself refuses a second open train, a second live seat, a place that is taken, and a counter beyond what is in force.
func trainKeys(t *testing.T, db Database) {
	w := newWorld(t, db)
	one, other := w.openTrain(w.queue, "nightly", 1), w.openTrain(w.queue, "weekly", 1)
	op := w.board(one, 1, 1, false).Operation
	w.board(one, 2, 1, false)
	seat := func(train bot.Train, subject int64, operation string, status bot.SeatStatus, seq int) string {
		return fmt.Sprintf(`INSERT INTO train_seat (train_id, subject_id, operation_id, status, approved, queue_seq, created_at, updated_at)
			VALUES (%d, %d, '%s', %d, 0, %d, %[6]s, %[6]s)`, train.ID, subject, operation, status, seq, now(db))
	}
	for what, statement := range map[string]string{
		"a second open train of the name": fmt.Sprintf(`INSERT INTO train (queue_id, name, status, scheduled, departs_at, closes_at, seats, capacity, created_at, updated_at)
			VALUES (%d, 'nightly', 1, 0, %[2]s, %[2]s, 1, 1, %[2]s, %[2]s)`, w.queue.ID, now(db)),
		"a second live seat of an operation":   seat(other, op.MergeRequestID, op.ID, bot.SeatWaiting, 1),
		"a second seat of a merge request":     seat(one, op.MergeRequestID, "another", bot.SeatCancelled, 7),
		"a place that is taken":                seat(one, 77, "another", bot.SeatWaiting, 2),
		"more confirmed than is in force":      fmt.Sprintf(`UPDATE train SET confirmed_count = 2 WHERE id = %d`, one.ID),
		"fewer than nobody confirmed":          fmt.Sprintf(`UPDATE train SET confirmed_count = -1 WHERE id = %d`, one.ID),
		"fewer seats than none":                fmt.Sprintf(`UPDATE train SET seats = -1 WHERE id = %d`, one.ID),
		"a seat that is given to a seated one": fmt.Sprintf(`UPDATE train_seat SET operation_id = '%s' WHERE train_id = %d`, op.ID, one.ID),
	} {
		if _, err := w.SQL.ExecContext(t.Context(), statement); err == nil {
			t.Errorf("the tables took %s", what)
		}
	}
	w.execute(`UPDATE train SET next_seq = 2 WHERE id = ?`, other.ID)
	w.execute(seat(other, op.MergeRequestID, op.ID, bot.SeatCancelled, 1)) // any number of seats that are over
	w.invariants()
}

// Between the read of an application and the write that seats it, it takes a seat on another train. Requests through the API take no turn, so nothing but the
// application's version tells.
func trainOneOfTwo(t *testing.T, db Database) {
	w := newWorld(t, db)
	one, other := w.openTrain(w.queue, "nightly", 1), w.openTrain(w.queue, "weekly", 1)
	op := w.apply(w.application(w.queue, 1, false))
	request := func(train bot.Train, key string) bot.Boarding {
		b := w.boarding(train, 1, 1, true)
		b.Request, b.Application.Command = &bot.APIRequest{ID: "api:deploy:" + key}, bot.CommandRef{By: "api:deploy", Source: "api"}
		return b
	}
	first, second := request(one, "one"), request(other, "other")
	if !db.severalWriters() {
		_, err := w.store.Board(t.Context(), first)
		w.must(err)
	} else {
		beside := db.Open(t)
		db.Intercept(w.store, once("UPDATE operation", func() {
			result, err := beside.Board(context.Background(), first)
			if err != nil || result.Outcome != bot.BoardingDone {
				t.Errorf("the first: %d, %v", result.Outcome, err)
			}
		}))
	}
	result, err := w.store.Board(t.Context(), second)
	w.must(err)
	if result.Outcome != bot.BoardingElsewhere || result.Seat.TrainID != one.ID || result.Operation.ID != op.ID {
		t.Errorf("the second: %d, seat %+v", result.Outcome, result.Seat)
	}
	w.wantLine(one, "1 |")
	w.wantLine(other, "|")
	w.invariants()
	for _, table := range []string{"idempotency", "api_request"} {
		if known := w.rows(`SELECT request_id FROM ` + table + ` WHERE request_id LIKE 'api:deploy:%'`); len(known) != 1 || known[0] != "api:deploy:one" {
			t.Errorf("%s knows %v, want the request that was done", table, known)
		}
	}
}
