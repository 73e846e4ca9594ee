package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
)

var departTests = tests{
	"admits the approved in order and carries the rest over":     departs,
	"without a next train ends the applications of the rest":     departsLast,
	"waits until it is due, and is done once":                    departsOnce,
	"passes over what changed since it was looked at":            departsPinned,
	"a seat too many is given to nobody":                         departsLowered,
	"with a thousand seats in statements that grow with chunks":  departsThousand,
	"what departs rides, and may board again when that is over":  departsRides,
	"every statement is answered by an index":                    departPlans,
	"the next train is there before anybody can join under that": departsNext,
}

// departure lets a train go with these operations approved as they are now, and seats on the next one.
func (w *world) departure(train bot.Train, seats int, approved ...bot.Operation) bot.Departure {
	w.Helper()
	now, err := w.store.Clock(w.Context())
	w.must(err)
	d := bot.Departure{TrainID: train.ID, Next: &bot.NextTrain{DepartsAt: now.Add(24 * time.Hour), ClosesAt: now.Add(23 * time.Hour), Seats: seats}}
	for _, op := range approved {
		op = w.read(op.ID)
		d.Approved = append(d.Approved, bot.SeatApproval{OperationID: op.ID, Version: op.Version})
	}
	return d
}

func (w *world) depart(d bot.Departure) bot.DepartureResult {
	w.Helper()
	w.past(bot.Train{ID: d.TrainID}, "departs_at", "closes_at")
	result, err := w.store.Depart(w.Context(), d)
	w.must(err)
	if !result.Done {
		w.Fatalf("train %d did not depart", d.TrainID)
	}
	w.invariants()
	return result
}

func departs(t *testing.T, db Database) {
	w := newWorld(t, db)
	train := w.openTrain(w.queue, "nightly", 3)
	ops := make([]bot.Operation, 9)
	for n := 1; n <= 8; n++ {
		ops[n] = w.board(train, n, 1, n == 2).Operation
	}
	w.wantLine(train, "1 2 3 | 4 5 6 7 8")
	// 1 and 3 are not approved: 5 and 6 take their seats, 7 comes too late, 4 is passed over.
	result := w.depart(w.departure(train, 2, ops[7], ops[6], ops[5], ops[2]))
	if got := numbers(result.Admitted); !slices.Equal(got, []int{2, 5, 6}) {
		t.Errorf("admitted %v", got)
	}
	w.wantLine(train, "|")
	w.wantLine(result.Next, "1 3 | 4 7 8")
	if tr := result.Next; tr.Name != "nightly" || !tr.Scheduled || tr.Seats != 2 || tr.Confirmed != 2 || tr.Waiting != 3 || tr.Closed {
		t.Errorf("next %+v", tr)
	}
	for i, want := range []int{1, 3, 4, 7, 8} {
		if s := result.Carried[i]; s.Number != want || s.TrainID != result.Next.ID || s.Position != max(0, i-1) {
			t.Errorf("carried over at %d: %+v", i, s)
		}
	}
	for n, want := range map[int]bot.Reason{1: bot.ReasonCarriedOver, 2: bot.ReasonDeparted, 5: bot.ReasonDeparted, 8: bot.ReasonCarriedOver} {
		if op := w.read(ops[n].ID); op.Reason != want || (op.Status == bot.OperationWaiting) != (want == bot.ReasonDeparted) {
			t.Errorf("merge request %d is %s, %s", n, op.Status, op.Reason)
		}
	}
	if notices := w.value(`SELECT COUNT(*) FROM outbox WHERE kind = ?`, int(bot.ErrandNotice)); notices != 5 {
		t.Errorf("%d of 5 are told that they are carried over", notices)
	}
	if got := numbers(w.claim(w.queue, 10).Members); !slices.Equal(got, []int{2, 5, 6}) {
		t.Errorf("the batch is %v", got)
	}
	departed, err := w.store.ReadTrain(t.Context(), train.ID)
	w.must(err)
	if tr := departed.Train; tr.Status != bot.TrainDeparted || tr.Confirmed != 0 || tr.Due || !tr.Closed {
		t.Errorf("the departed train: %+v", tr)
	}
}

func departsLast(t *testing.T, db Database) {
	w := newWorld(t, db)
	train := w.openTrain(w.queue, "once", 1)
	first, second := w.board(train, 1, 1, true).Operation, w.board(train, 2, 1, true).Operation
	d := w.departure(train, 1, first)
	d.Next = nil
	result := w.depart(d)
	if len(result.Admitted) != 1 || len(result.Carried) != 0 || result.Next.ID != 0 {
		t.Errorf("%+v", result)
	}
	if op := w.read(second.ID); op.Status != bot.OperationCancelled || op.Reason != bot.ReasonTrainOver {
		t.Errorf("who was in line is %s, %s", op.Status, op.Reason)
	}
	if n := w.value(`SELECT COUNT(*) FROM outbox WHERE kind = ?`, int(bot.ErrandNotice)); n != 1 {
		t.Errorf("%d notices", n)
	}
}

func departsOnce(t *testing.T, db Database) {
	w := newWorld(t, db)
	train := w.openTrain(w.queue, "nightly", 1)
	op := w.board(train, 1, 1, true).Operation
	d, before := w.departure(train, 1, op), w.snapshot()
	if result, err := w.store.Depart(t.Context(), d); err != nil || result.Done || w.snapshot() != before {
		t.Errorf("departed before it is due: %+v, %v", result, err)
	}
	w.depart(d)
	before = w.snapshot()
	if result, err := w.store.Depart(t.Context(), d); err != nil || result.Done || w.snapshot() != before {
		t.Errorf("departed twice: %+v, %v", result, err)
	}
	d.TrainID = 999
	if _, err := w.store.Depart(t.Context(), d); err == nil {
		t.Error("no train departed")
	}
	d.TrainID, d.Next.Seats = train.ID, -1
	if _, err := w.store.Depart(t.Context(), d); err == nil || !strings.Contains(err.Error(), "the next train") {
		t.Errorf("a next train of -1 seats: %v", err)
	}
}

// An approval is of what was looked at: who was pushed to since, left, or lost the approval is not admitted by it.
func departsPinned(t *testing.T, db Database) {
	w := newWorld(t, db)
	train := w.openTrain(w.queue, "nightly", 3)
	var ops []bot.Operation
	for n := 1; n <= 4; n++ {
		ops = append(ops, w.board(train, n, 1, true).Operation)
	}
	d := w.departure(train, 3, ops...)
	lost := w.moveTo(w.read(ops[0].ID), bot.OperationPendingApproval)
	lost.Reason = bot.ReasonUnapproved
	_, err := w.store.Move(t.Context(), lost)
	w.must(err)
	moved := w.moveTo(w.read(ops[1].ID), bot.OperationPendingApproval)
	moved.HeadSHA, moved.Reason = sha(99), bot.ReasonHeadMoved
	_, err = w.store.Move(t.Context(), moved)
	w.must(err)
	w.disembark(ops[2].ID) // 4 moves up, and that changes nothing of what was looked at
	result := w.depart(d)
	if got := numbers(result.Admitted); !slices.Equal(got, []int{4}) {
		t.Errorf("admitted %v", got)
	}
	w.wantLine(result.Next, "1 2 |")
}

// Seats were lowered while more were confirmed: all of these depart, but what one of them does not use is gone.
func departsLowered(t *testing.T, db Database) {
	w := newWorld(t, db)
	train := w.openTrain(w.queue, "nightly", 3)
	ops := make([]bot.Operation, 6)
	for n := 1; n <= 5; n++ {
		ops[n] = w.board(train, n, 1, true).Operation
	}
	w.changeSeats(train, 1)
	result := w.depart(w.departure(train, 1, ops[2], ops[3], ops[4]))
	if got := numbers(result.Admitted); !slices.Equal(got, []int{2, 3}) {
		t.Errorf("admitted %v", got)
	}
	w.wantLine(result.Next, "1 | 4 5")
}

func departsThousand(t *testing.T, db Database) {
	w := newWorld(t, db)
	count := func(name string, first, many int) int {
		train := w.openTrain(w.queue, name, many)
		ops := w.seated(train, first, 2*many)
		d := w.departure(train, many)
		for _, op := range ops[:many/2] {
			d.Approved = append(d.Approved, bot.SeatApproval{OperationID: op.ID, Version: 1})
		}
		for _, op := range ops[many : many+many/2] {
			d.Approved = append(d.Approved, bot.SeatApproval{OperationID: op.ID, Version: 1})
		}
		w.past(train, "departs_at", "closes_at")
		return w.statements(w.store, func() {
			result, err := w.store.Depart(t.Context(), d)
			w.must(err)
			if len(result.Admitted) != many || len(result.Carried) != many {
				t.Errorf("%s: admitted %d and carried over %d of %d", name, len(result.Admitted), len(result.Carried), many)
			}
		})
	}
	few, many := count("small", 1001, 4), count("large", 2001, bot.MaxSeats)
	t.Logf("a departure of 4 takes %d statements, one of %d with as many in line %d", few, bot.MaxSeats, many)
	if many > 3*few+20 { // each at most a few chunks
		t.Errorf("%d statements for a train of 4, and %d for one of %d", few, many, bot.MaxSeats)
	}
	w.invariants()
}

func departsRides(t *testing.T, db Database) {
	w := newWorld(t, db)
	train := w.openTrain(w.queue, "nightly", 1)
	op := w.board(train, 1, 1, true).Operation
	next := w.depart(w.departure(train, 1, op)).Next
	result, err := w.store.Board(t.Context(), w.boarding(next, 1, 2, true))
	w.must(err)
	if result.Outcome != bot.BoardingRides {
		t.Errorf("boarding while it waits: %d", result.Outcome)
	}
	w.settle(w.claim(w.queue, 1), bot.BatchFailed, bot.OperationRejected)
	w.board(next, 1, 3, true)
	w.wantLine(next, "1 |")
}

// Whoever opens a train while one of its name departs finds the one that the departure opened.
func departsNext(t *testing.T, db Database) {
	w := newWorld(t, db)
	train := w.openTrain(w.queue, "nightly", 1)
	w.board(train, 1, 1, false)
	next := w.depart(w.departure(train, 2)).Next
	result, err := w.store.OpenTrain(t.Context(), bot.TrainSpec{QueueID: w.queue.ID, Name: "nightly", DepartsAt: next.DepartsAt, ClosesAt: next.ClosesAt, Seats: 7})
	w.must(err)
	if result.Outcome != bot.TrainThere || result.Train.ID != next.ID {
		t.Errorf("outcome %d, %+v", result.Outcome, result.Train)
	}
	w.wantLine(next, "1 |")
}

// hotTrains are the statements about trains that grow with years of trains, and the index that carries each.
var hotTrains = map[string]string{
	"WHERE s.live_operation = ?":                           "uk_seat_live",
	"s.train_id = ? AND s.status = ? ORDER BY s.queue_seq": "idx_seat_line",
	"WHERE s.train_id = ? ORDER BY s.queue_seq":            "uk_seat_seq",
	"t.status = ? AND t.departs_at <=":                     "idx_train_departure",
	"t.queue_id = ? AND t.open_name IS NOT NULL":           "train_",
	"queue_id = ? AND open_name = ?":                       "uk_train_open",
	"WHERE train_id = ? AND subject_id = ? AND status = ?": "uk_seat_subject",
	"WHERE train_id = ? AND live_operation IN":             "_seat_",
}

func departPlans(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.years()
	const old = 600
	w.fill(old, `train (id, queue_id, name, status, scheduled, departs_at, closes_at, seats, capacity, created_at, updated_at)`, func(i int) string {
		return fmt.Sprintf(`(%d, %d, 'nightly', 2, 1, %[3]s, %[3]s, 5, 5, %[3]s, %[3]s)`, 10_000+i, w.queue.ID, past(db))
	})
	for round := range 5 {
		w.fill(old, `train_seat (train_id, subject_id, operation_id, status, approved, queue_seq, created_at, updated_at)`, func(i int) string {
			return fmt.Sprintf(`(%d, %d, '%s', 4, 1, %d, %[5]s, %[5]s)`, 10_000+i, 5000+round, operationID(5_000_000+round), round+1, past(db))
		})
	}
	train := w.openTrain(w.queue, "weekly", 2)
	w.seated(train, 2001, 40)
	if w.severalWriters() {
		w.execute(`ANALYZE TABLE train, train_seat, operation, binding`)
	}
	departure := w.departure(train, 2, w.read(operationID(2003)))
	seen := make(map[string][]any)
	db.Intercept(w.store, func(statement string, args []any) error {
		seen[statement] = args
		return nil
	})
	joined := w.boarding(train, 1, 1, true)
	for _, do := range []func() error{
		func() error { _, err := w.store.Board(t.Context(), joined); return err },
		func() error {
			_, err := w.store.Leave(t.Context(), bot.Leaving{OperationID: operationID(2001), Version: 1, By: "ann"})
			return err
		},
		func() error { _, err := w.store.DueTrains(t.Context()); return err },
		func() error { _, err := w.store.OpenTrains(t.Context(), w.queue.ID); return err },
		func() error { _, err := w.store.ReadTrain(t.Context(), train.ID); return err },
		func() error { _, _, err := w.store.SeatOf(t.Context(), operationID(2007)); return err },
		func() error {
			_, err := w.store.OpenTrain(t.Context(), bot.TrainSpec{QueueID: w.queue.ID, Name: "weekly", DepartsAt: train.DepartsAt, ClosesAt: train.ClosesAt})
			return err
		},
		func() error {
			w.past(train, "departs_at", "closes_at")
			_, err := w.store.Depart(t.Context(), departure)
			return err
		},
	} {
		w.must(do())
	}
	db.Intercept(w.store, nil)
	unmet := make(map[string]bool)
	for part := range hotTrains {
		unmet[part] = true
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
		for part, index := range hotTrains {
			if strings.Contains(flat, part) {
				delete(unmet, part)
				if !strings.Contains(plan, index) {
					t.Errorf("not by %s:\n%s\n%s", index, statement, plan)
				}
			}
		}
	}
	for part := range unmet {
		t.Errorf("no statement has %q any more", part)
	}
}
