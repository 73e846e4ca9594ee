package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
)

var trainTests = tests{
	"one seat: who leaves is followed by the first in line":       trainFlow,
	"joining twice is joining once":                               trainJoinTwice,
	"who rides, failed or landed does not board":                  trainBoardsNobodyElse,
	"an application that waits for its approval keeps its id":     trainKeepsOperation,
	"a seat on one train is none on another":                      trainElsewhere,
	"boarding ends":                                               trainCloses,
	"more seats promote in order, fewer take nobody's":            trainSeats,
	"closing, pushing and expiring give the seat up":              trainLost,
	"approval of a seated operation admits nobody":                trainApproval,
	"the first approved are promoted and told":                    trainTold,
	"opening finds the one that is open":                          trainOpens,
	"a change by a person ends the schedule's say":                trainChanges,
	"a cancelled train ends its applications":                     trainCancelled,
	"a request through the API counts once":                       trainRequests,
	"is found again after a lost commit":                          trainAmbiguous,
	"leaves no trace when any step fails":                         trainFails,
	"refuses what no train can be":                                trainRefuses,
	"lists and views":                                             trainLists,
	"the tables refuse what no train may be":                      trainKeys,
	"one application takes one of two seats":                      trainOneOfTwo,
	"joins and leaves in a few statements, however long the line": trainStatements,
	"who joins waits for who is joining the same train":           trainOneByOne,
	"delays nobody but who wants the same train (I3)":             trainBeside,
}

// openTrain opens a train that departs in an hour.
func (w *world) openTrain(queue bot.Queue, name string, seats int) bot.Train {
	w.Helper()
	now, err := w.store.Clock(w.Context())
	w.must(err)
	result, err := w.store.OpenTrain(w.Context(), bot.TrainSpec{QueueID: queue.ID, Name: name, Scheduled: true, DepartsAt: now.Add(time.Hour), ClosesAt: now.Add(time.Hour),
		Seats: seats, By: "batchbot", Source: "test"})
	w.must(err)
	if result.Outcome != bot.TrainWritten {
		w.Fatalf("opening train %s: outcome %d", name, result.Outcome)
	}
	return result.Train
}

// boarding asks for a seat by the nth command of a merge request.
func (w *world) boarding(train bot.Train, number, nth int, approved bool) bot.Boarding {
	w.Helper()
	queue, _, err := w.store.ReadQueue(w.Context(), train.QueueID)
	w.must(err)
	a := w.application(queue, number, approved)
	order := int64(number + 1_000_000*nth)
	a.OperationID = fmt.Sprintf("00000000-0000-4000-%04d-%012d", nth, number)
	a.Command.RequestID, a.Command.Order, a.Command.Verb = fmt.Sprintf("forge:issue:%d:1", order), bot.CommandOrder{At: order, ID: order}, "join"
	return bot.Boarding{TrainID: train.ID, Application: a}
}

// board joins and fails the test unless that gives a seat or a place in line.
func (w *world) board(train bot.Train, number, nth int, approved bool) bot.BoardingResult {
	w.Helper()
	result, err := w.store.Board(w.Context(), w.boarding(train, number, nth, approved))
	w.must(err)
	if result.Outcome != bot.BoardingDone {
		w.Fatalf("merge request %d joining train %d: outcome %d", number, train.ID, result.Outcome)
	}
	w.invariants()
	return result
}

// disembark gives up the seat of an operation.
func (w *world) disembark(operationID string) bot.LeavingResult {
	w.Helper()
	op := w.read(operationID)
	result, err := w.store.Leave(w.Context(), bot.Leaving{OperationID: op.ID, Version: op.Version, By: "ann", Source: "test"})
	w.must(err)
	if result.Result != bot.MoveDone {
		w.Fatalf("operation %s leaving: result %d", operationID, result.Result)
	}
	w.invariants()
	return result
}

// line is who holds a live seat of a train, in order: "1 2 | 3" is 1 and 2 on seats, 3 in line.
func (w *world) line(train bot.Train) string {
	w.Helper()
	view, err := w.store.ReadTrain(w.Context(), train.ID)
	w.must(err)
	var seats, waiting []string
	for _, s := range view.Seats {
		switch s.Status {
		case bot.SeatConfirmed:
			seats = append(seats, fmt.Sprint(s.Number))
		case bot.SeatWaiting:
			waiting = append(waiting, fmt.Sprint(s.Number))
			if s.Position != len(waiting) {
				w.Errorf("merge request %d is at place %d, want %d", s.Number, s.Position, len(waiting))
			}
		}
	}
	if view.Train.Confirmed != len(seats) || view.Train.Waiting != len(waiting) {
		w.Errorf("train %d counts %d and %d, and has %v and %v", train.ID, view.Train.Confirmed, view.Train.Waiting, seats, waiting)
	}
	return strings.TrimSpace(strings.Join(seats, " ") + " | " + strings.Join(waiting, " "))
}

// seatedOn lists the operations with live seats of a train, in order.
func (w *world) seatedOn(train bot.Train) (operations []string) {
	w.Helper()
	view, err := w.store.ReadTrain(w.Context(), train.ID)
	w.must(err)
	for _, s := range view.Seats {
		if s.Status.Live() {
			operations = append(operations, s.OperationID)
		}
	}
	return operations
}

func (w *world) wantLine(train bot.Train, want string) {
	w.Helper()
	if got := w.line(train); got != want {
		w.Errorf("on train %d: %q, want %q", train.ID, got, want)
	}
}

func trainFlow(t *testing.T, db Database) {
	w := newWorld(t, db)
	train := w.openTrain(w.queue, "nightly", 1)
	const a, b, c = 1, 2, 3
	first, second, third := w.board(train, a, 1, false), w.board(train, b, 1, false), w.board(train, c, 1, true)
	w.wantLine(train, "1 | 2 3")
	if first.Seat.Status != bot.SeatConfirmed || first.Seat.Position != 0 || second.Seat.Position != 1 || third.Seat.Position != 2 || !third.Seat.Approved {
		t.Errorf("seats %+v, %+v, %+v", first.Seat, second.Seat, third.Seat)
	}
	if op := third.Operation; op.Status != bot.OperationPendingApproval || op.Reason != bot.ReasonJoined || op.RequestID != 0 {
		t.Errorf("approved, and with a seat: %+v", op)
	}

	left := w.disembark(first.Operation.ID)
	w.wantLine(train, "2 | 3")
	if p := left.Promoted; p == nil || p.Number != b || p.Status != bot.SeatConfirmed || p.OperationID != second.Operation.ID {
		t.Errorf("promoted %+v", left.Promoted)
	}
	if op := w.read(first.Operation.ID); op.Status != bot.OperationCancelled || op.Reason != bot.ReasonLeft {
		t.Errorf("who left is %s, %s", op.Status, op.Reason)
	}
	w.disembark(second.Operation.ID)
	w.wantLine(train, "3 |")
	again := w.board(train, a, 2, false)
	w.wantLine(train, "3 | 1")
	if again.Seat.Seq <= third.Seat.Seq || again.Operation.ID == first.Operation.ID {
		t.Errorf("joined again at %d behind %d", again.Seat.Seq, third.Seat.Seq)
	}
	if n := w.value(`SELECT COUNT(*) FROM train_seat`); n != 3 {
		t.Errorf("%d rows for three merge requests", n)
	}
	if left := w.disembark(again.Operation.ID); left.Promoted != nil {
		t.Errorf("leaving the line promoted %+v", left.Promoted)
	}
	if left := w.disembark(third.Operation.ID); left.Promoted != nil {
		t.Errorf("nobody is in line, and %+v was promoted", left.Promoted)
	}
	w.wantLine(train, "|")
}

func trainJoinTwice(t *testing.T, db Database) {
	w := newWorld(t, db)
	train := w.openTrain(w.queue, "nightly", 1)
	joined := w.board(train, 1, 1, false)
	before := w.snapshot()
	for want, b := range map[bot.BoardingOutcome]bot.Boarding{
		bot.BoardingDuplicate: w.boarding(train, 1, 1, false),
		bot.BoardingHeld:      w.boarding(train, 1, 2, false),
	} {
		b.Application.OperationID = scattered(7)
		result, err := w.store.Board(t.Context(), b)
		w.must(err)
		if result.Outcome != want || result.Operation.ID != joined.Operation.ID || result.Seat != joined.Seat || result.Train.ID != train.ID {
			t.Errorf("outcome %d, %+v on %+v", result.Outcome, result.Seat, result.Train)
		}
	}
	if w.snapshot() != before {
		t.Error("joining again left something behind")
	}
	// Older than the last command of its merge request.
	w.disembark(w.board(train, 2, 5, false).Operation.ID)
	result, err := w.store.Board(t.Context(), w.boarding(train, 2, 3, false))
	w.must(err)
	if result.Outcome != bot.BoardingSuperseded {
		t.Errorf("an older command: outcome %d", result.Outcome)
	}
}

func trainBoardsNobodyElse(t *testing.T, db Database) {
	w := newWorld(t, db)
	train := w.openTrain(w.queue, "nightly", 5)
	w.admit(w.queue, 1, 2, 3, 4)
	claimed := w.claim(w.queue, 2) // 1 and 2 ride, 3 and 4 wait
	expect := func(number int, want bot.BoardingOutcome) {
		t.Helper()
		result, err := w.store.Board(t.Context(), w.boarding(train, number, 9, true))
		w.must(err)
		if result.Outcome != want || result.Operation.ID != operationID(number) || result.Seat.OperationID != "" {
			t.Errorf("merge request %d: outcome %d about %s, want %d", number, result.Outcome, result.Operation.ID, want)
		}
	}
	expect(1, bot.BoardingRides)
	expect(3, bot.BoardingRides)
	settlement := settlementOf(claimed, bot.BatchSucceeded, bot.OperationMerged)
	settlement.Status, settlement.Code = bot.BatchFailed, bot.CodeCIRed
	settlement.Members[0].To = bot.OperationFailed
	_, err := w.store.Settle(t.Context(), settlement)
	w.must(err)
	expect(1, bot.BoardingNeedsRetry)
	expect(2, bot.BoardingLanded)
	w.wantLine(train, "|")
	w.invariants()
}

func trainKeepsOperation(t *testing.T, db Database) {
	w := newWorld(t, db)
	train := w.openTrain(w.queue, "nightly", 1)
	applied := w.apply(w.application(w.queue, 1, false))
	b := w.boarding(train, 1, 1, true)
	b.Application.MR.HeadSHA = sha(77)
	result, err := w.store.Board(t.Context(), b)
	w.must(err)
	op := result.Operation
	if result.Outcome != bot.BoardingDone || op.ID != applied.ID || op.Version != applied.Version+1 || op.HeadSHA != sha(77) || op.Reason != bot.ReasonJoined {
		t.Errorf("outcome %d, %+v", result.Outcome, op)
	}
	w.invariants()
	// What was decided before it had a seat is late.
	moved, err := w.store.Move(t.Context(), w.moveTo(applied, bot.OperationWaiting))
	w.must(err)
	if moved != bot.MoveStale {
		t.Errorf("admitted from before: %d", moved)
	}
	w.wantLine(train, "1 |")
}

func trainElsewhere(t *testing.T, db Database) {
	w := newWorld(t, db)
	one, other := w.openTrain(w.queue, "nightly", 1), w.openTrain(w.queue, "weekly", 1)
	w.board(one, 1, 1, false)
	result, err := w.store.Board(t.Context(), w.boarding(other, 1, 2, false))
	w.must(err)
	if result.Outcome != bot.BoardingElsewhere || result.Seat.TrainID != one.ID || result.Train.ID != one.ID {
		t.Errorf("outcome %d, seat %+v", result.Outcome, result.Seat)
	}
	b := w.boarding(one, 2, 1, false)
	b.TrainID = w.openTrain(w.newQueue("release"), "nightly", 1).ID
	if _, err := w.store.Board(t.Context(), b); err == nil || !strings.Contains(err.Error(), "it is of queue") {
		t.Errorf("a train of another queue: %v", err)
	}
	w.invariants()
}

// past brings a train's times to the past; boarding only, or the departure too.
func (w *world) past(train bot.Train, columns ...string) {
	w.Helper()
	for _, column := range columns {
		w.execute(`UPDATE train SET `+column+` = `+past(w.Database)+` WHERE id = ?`, train.ID)
	}
}

func trainCloses(t *testing.T, db Database) {
	w := newWorld(t, db)
	train := w.openTrain(w.queue, "nightly", 1)
	first := w.board(train, 1, 1, false)
	w.board(train, 2, 1, false)
	w.past(train, "closes_at")
	for number, want := range map[int]bot.BoardingOutcome{1: bot.BoardingHeld, 3: bot.BoardingClosed} {
		result, err := w.store.Board(t.Context(), w.boarding(train, number, 4, false))
		w.must(err)
		if result.Outcome != want || !result.Train.Closed || result.Train.Due {
			t.Errorf("merge request %d: outcome %d, train %+v", number, result.Outcome, result.Train)
		}
	}
	w.disembark(first.Operation.ID) // leaving and moving up go on
	w.wantLine(train, "2 |")
	if due, err := w.store.DueTrains(t.Context()); err != nil || len(due) > 0 {
		t.Errorf("due: %v, %v", due, err)
	}
}

func (w *world) changeSeats(train bot.Train, seats int) bot.TrainResult {
	w.Helper()
	result, err := w.store.ChangeTrain(w.Context(), bot.TrainChange{TrainID: train.ID, Seats: &seats, By: "ann", Source: "test"})
	w.must(err)
	if result.Outcome != bot.TrainWritten {
		w.Fatalf("changing train %d: outcome %d", train.ID, result.Outcome)
	}
	w.invariants()
	return result
}

func trainSeats(t *testing.T, db Database) {
	w := newWorld(t, db)
	train := w.openTrain(w.queue, "nightly", 1)
	var ops []string
	for n := 1; n <= 6; n++ {
		ops = append(ops, w.board(train, n, 1, false).Operation.ID)
	}
	w.wantLine(train, "1 | 2 3 4 5 6")
	raised := w.changeSeats(train, 4)
	if len(raised.Promoted) != 3 || raised.Promoted[0].Number != 2 || raised.Promoted[2].Number != 4 {
		t.Errorf("promoted %+v", raised.Promoted)
	}
	w.wantLine(train, "1 2 3 4 | 5 6")
	lowered := w.changeSeats(train, 2)
	if tr := lowered.Train; tr.Seats != 2 || tr.Capacity != 4 || tr.Confirmed != 4 {
		t.Errorf("lowered below who is confirmed: %+v", tr)
	}
	w.wantLine(train, "1 2 3 4 | 5 6")
	for i, want := range []string{"2 3 4 | 5 6", "3 4 | 5 6", "4 5 | 6"} {
		w.disembark(ops[i])
		w.wantLine(train, want)
	}
	w.changeSeats(train, 0)
	w.disembark(ops[3])
	w.disembark(ops[4])
	w.wantLine(train, "| 6")
	w.changeSeats(train, bot.MaxSeats)
	w.wantLine(train, "6 |")
	same := w.changeSeats(train, bot.MaxSeats)
	if again := w.changeSeats(train, bot.MaxSeats); again.Train.Version != same.Train.Version {
		t.Error("changing nothing wrote the train")
	}
}

func trainLost(t *testing.T, db Database) {
	w := newWorld(t, db)
	train := w.openTrain(w.queue, "nightly", 1)
	var ops []string
	for n := 1; n <= 5; n++ {
		ops = append(ops, w.board(train, n, 1, false).Operation.ID)
	}
	for i, to := range []bot.OperationStatus{bot.OperationClosed, bot.OperationCancelled, bot.OperationMerged} {
		result, err := w.store.Move(t.Context(), w.moveTo(w.read(ops[i]), to))
		w.must(err)
		if result != bot.MoveDone {
			t.Errorf("to %s: %d", to, result)
		}
		w.invariants()
		w.wantLine(train, []string{"2 | 3 4 5", "3 | 4 5", "4 | 5"}[i])
	}
	w.execute(`UPDATE binding SET expires_at = `+past(db)+` WHERE operation_id = ?`, ops[3])
	if n, err := w.store.ExpireOperations(t.Context(), 10); n != 1 || err != nil {
		t.Errorf("expired %d, %v", n, err)
	}
	w.invariants()
	w.wantLine(train, "5 |")
	if promoted := w.rows(`SELECT operation_id FROM binding_history WHERE reason = 'promoted' ORDER BY id`); !slices.Equal(promoted, ops[1:]) {
		t.Errorf("promoted %v", promoted)
	}
}

func trainApproval(t *testing.T, db Database) {
	w := newWorld(t, db)
	train := w.openTrain(w.queue, "nightly", 1)
	op := w.board(train, 1, 1, false).Operation
	admission := w.moveTo(op, bot.OperationWaiting)
	if result, err := w.store.Move(t.Context(), admission); err != nil || result != bot.MoveStale {
		t.Errorf("admitted before the departure: %d, %v", result, err)
	}
	approved := func(reason bot.Reason) bool {
		m := w.moveTo(w.read(op.ID), bot.OperationPendingApproval)
		m.Reason = reason
		result, err := w.store.Move(t.Context(), m)
		w.must(err)
		if result != bot.MoveDone {
			t.Errorf("%s: %d", reason, result)
		}
		w.invariants()
		view, err := w.store.OperationView(t.Context(), op.ID)
		w.must(err)
		if view.Seat == nil || view.Seat.Train.ID != train.ID || view.Seat.Seat.OperationID != op.ID {
			t.Fatalf("%s: the view has %+v", reason, view.Seat)
		}
		return view.Seat.Seat.Approved
	}
	if !approved(bot.ReasonApproved) || approved(bot.ReasonUnapproved) {
		t.Error("the seat does not know whether it is approved")
	}
	if seat, ok, err := w.store.SeatOf(t.Context(), op.ID); err != nil || !ok || seat.Seat.Status != bot.SeatConfirmed {
		t.Errorf("%+v, %v, %v", seat, ok, err)
	}
	if _, ok, err := w.store.SeatOf(t.Context(), "nobody"); ok || err != nil {
		t.Errorf("a seat of nobody: %v", err)
	}
}

// What is to be said stands in the outbox in the transaction that makes it true: the promoted get a comment of their own.
func trainTold(t *testing.T, db Database) {
	w := newWorld(t, db)
	train := w.openTrain(w.queue, "nightly", 1)
	first, second := w.board(train, 1, 1, false).Operation, w.board(train, 2, 1, false).Operation
	sticky := w.errands(bot.ErrandSticky, fmt.Sprint(second.MergeRequestID))
	w.disembark(first.ID)
	entry := value[int64](w, `SELECT id FROM binding_history WHERE operation_id = ? AND reason = 'promoted'`, second.ID)
	if n := w.errands(bot.ErrandNotice, fmt.Sprint(entry)); n != 1 {
		t.Errorf("the promotion is told %d times", n)
	}
	if n := w.errands(bot.ErrandSticky, fmt.Sprint(second.MergeRequestID)); n != sticky+1 {
		t.Errorf("the status comment is wanted %d times, before %d", n, sticky)
	}
	if op := w.read(second.ID); op.Reason != bot.ReasonPromoted || op.Version != second.Version+1 {
		t.Errorf("%+v", op)
	}
}
