package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/store"
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

func trainOpens(t *testing.T, db Database) {
	w := newWorld(t, db)
	train := w.openTrain(w.queue, "nightly", 2)
	if train.Seats != 2 || train.Capacity != 2 || train.Status != bot.TrainOpen || !train.Scheduled || train.Closed || train.Due || train.Version != 1 {
		t.Errorf("%+v", train)
	}
	before := w.snapshot()
	spec := bot.TrainSpec{QueueID: w.queue.ID, Name: "nightly", DepartsAt: train.DepartsAt.Add(time.Hour), ClosesAt: train.ClosesAt, Seats: 9, By: "ann", Source: "test"}
	result, err := w.store.OpenTrain(t.Context(), spec)
	w.must(err)
	if result.Outcome != bot.TrainThere || result.Train != train || w.snapshot() != before {
		t.Errorf("outcome %d, %+v", result.Outcome, result.Train)
	}
	w.openTrain(w.queue, "weekly", 2)
	w.openTrain(w.newQueue("release"), "nightly", 2)
	spec.QueueID = 999
	if _, err := w.store.OpenTrain(t.Context(), spec); !errors.Is(err, store.ErrMissing) {
		t.Errorf("a train of no queue: %v", err)
	}
}

func trainChanges(t *testing.T, db Database) {
	w := newWorld(t, db)
	train := w.openTrain(w.queue, "nightly", 2)
	later := bot.TrainChange{TrainID: train.ID, DepartsAt: train.DepartsAt.Add(time.Hour), ClosesAt: train.DepartsAt, FromFile: true, By: "batchbot", Source: "file"}
	result, err := w.store.ChangeTrain(t.Context(), later)
	w.must(err)
	if tr := result.Train; result.Outcome != bot.TrainWritten || !tr.Scheduled || !tr.DepartsAt.Equal(later.DepartsAt) || !tr.ClosesAt.Equal(later.ClosesAt) || tr.Seats != 2 {
		t.Errorf("outcome %d, %+v", result.Outcome, tr)
	}
	if tr := w.changeSeats(train, 3).Train; tr.Scheduled || !tr.DepartsAt.Equal(later.DepartsAt) {
		t.Errorf("a person's change: %+v", tr)
	}
	later.DepartsAt = later.DepartsAt.Add(time.Hour)
	if result, err = w.store.ChangeTrain(t.Context(), later); err != nil || result.Outcome != bot.TrainThere || result.Train.DepartsAt.Equal(later.DepartsAt) {
		t.Errorf("the file against a person's word: %d, %v", result.Outcome, err)
	}
	later.TrainID = 999
	if _, err := w.store.ChangeTrain(t.Context(), later); !errors.Is(err, store.ErrMissing) {
		t.Errorf("no train: %v", err)
	}
}

func trainCancelled(t *testing.T, db Database) {
	w := newWorld(t, db)
	train := w.openTrain(w.queue, "nightly", 1)
	var ops []string
	for n := 1; n <= 3; n++ {
		ops = append(ops, w.board(train, n, 1, true).Operation.ID)
	}
	cancel := bot.TrainChange{TrainID: train.ID, Cancel: true, By: "ann", Source: "test"}
	result, err := w.store.ChangeTrain(t.Context(), cancel)
	w.must(err)
	if result.Outcome != bot.TrainWritten || result.Train.Status != bot.TrainCancelled || !result.Train.Closed || len(result.Promoted) > 0 {
		t.Errorf("%+v", result)
	}
	w.wantLine(train, "|")
	for _, id := range ops {
		if op := w.read(id); op.Status != bot.OperationCancelled || op.Reason != bot.ReasonTrainOver {
			t.Errorf("%s is %s, %s", id, op.Status, op.Reason)
		}
	}
	w.invariants()
	if n := w.value(`SELECT COUNT(*) FROM outbox WHERE kind = ?`, int(bot.ErrandNotice)); n != 3 {
		t.Errorf("%d of 3 are told", n)
	}
	if result, err = w.store.ChangeTrain(t.Context(), cancel); err != nil || result.Outcome != bot.TrainOver {
		t.Errorf("again: %d, %v", result.Outcome, err)
	}
	board, err := w.store.Board(t.Context(), w.boarding(train, 4, 1, true))
	w.must(err)
	if board.Outcome != bot.BoardingClosed {
		t.Errorf("boarding a cancelled train: %d", board.Outcome)
	}
	w.openTrain(w.queue, "nightly", 1)
}

func trainRequests(t *testing.T, db Database) {
	w := newWorld(t, db)
	request := func(key string) *bot.APIRequest { return &bot.APIRequest{ID: "api:deploy:" + key, Fingerprint: sha(5)} }
	now, err := w.store.Clock(t.Context())
	w.must(err)
	spec := bot.TrainSpec{QueueID: w.queue.ID, Name: "nightly", DepartsAt: now.Add(time.Hour), ClosesAt: now.Add(time.Hour), Seats: 1, By: "api:deploy", Source: "api", Request: request("open")}
	opened, err := w.store.OpenTrain(t.Context(), spec)
	w.must(err)
	train, seats := opened.Train, 2
	change := bot.TrainChange{TrainID: train.ID, Seats: &seats, By: "api:deploy", Source: "api", Request: request("change")}
	_, err = w.store.ChangeTrain(t.Context(), change)
	w.must(err)
	b := w.boarding(train, 1, 1, false)
	b.Request, b.Application.Command = request("join"), bot.CommandRef{By: "api:deploy", Source: "api"}
	joined, err := w.store.Board(t.Context(), b)
	w.must(err)
	if joined.Outcome != bot.BoardingDone || joined.Operation.Requester != "api:deploy" {
		t.Errorf("outcome %d, %+v", joined.Outcome, joined.Operation)
	}
	w.invariants()

	before := w.snapshot()
	again, err := w.store.OpenTrain(t.Context(), spec)
	w.must(err)
	changed, err := w.store.ChangeTrain(t.Context(), change)
	w.must(err)
	b.Application.OperationID = scattered(9)
	held, err := w.store.Board(t.Context(), b)
	w.must(err)
	if again.Outcome != bot.TrainDuplicate || again.Train.ID != train.ID || changed.Outcome != bot.TrainDuplicate || changed.Train.Seats != 2 ||
		held.Outcome != bot.BoardingDuplicate || held.Operation.ID != joined.Operation.ID {
		t.Errorf("%+v, %+v, %+v", again, changed, held)
	}
	if w.snapshot() != before {
		t.Error("a request sent twice left something behind")
	}
}

func trainRefuses(t *testing.T, db Database) {
	w := newWorld(t, db)
	at := time.Now().Add(time.Hour)
	spec := bot.TrainSpec{QueueID: w.queue.ID, Name: "nightly", DepartsAt: at, ClosesAt: at, Seats: 1}
	for want, broken := range map[string]func(s *bot.TrainSpec){
		"name is one word":    func(s *bot.TrainSpec) { s.Name = "two words" },
		"0 to 1000 seats":     func(s *bot.TrainSpec) { s.Seats = -1 },
		"not 1001":            func(s *bot.TrainSpec) { s.Seats = 1001 },
		"needs a departure":   func(s *bot.TrainSpec) { s.DepartsAt = time.Time{} },
		"after the departure": func(s *bot.TrainSpec) { s.ClosesAt = at.Add(time.Second) },
	} {
		s := spec
		broken(&s)
		if _, err := w.store.OpenTrain(t.Context(), s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	train := w.openTrain(w.queue, "nightly", 1)
	seats := 1001
	if _, err := w.store.ChangeTrain(t.Context(), bot.TrainChange{TrainID: train.ID, Seats: &seats}); err == nil {
		t.Error("1001 seats")
	}
	if _, err := w.store.ChangeTrain(t.Context(), bot.TrainChange{TrainID: train.ID, DepartsAt: at}); err == nil {
		t.Error("one time without the other")
	}
	b := w.boarding(train, 1, 1, false)
	b.Application.OperationID = ""
	if _, err := w.store.Board(t.Context(), b); err == nil {
		t.Error("no operation id")
	}
	b = w.boarding(train, 1, 1, false)
	b.Application.Command.RequestID = ""
	if _, err := w.store.Board(t.Context(), b); err == nil {
		t.Error("neither command nor request")
	}
	b = w.boarding(train, 1, 1, false)
	b.TrainID = 999
	if _, err := w.store.Board(t.Context(), b); !errors.Is(err, store.ErrMissing) || !errors.Is(err, bot.ErrNotFound) {
		t.Errorf("no train: %v", err)
	}
	if _, err := w.store.ReadTrain(t.Context(), 999); !errors.Is(err, store.ErrMissing) || !errors.Is(err, bot.ErrNotFound) {
		t.Errorf("no train: %v", err)
	}
	// Leave is for who has a seat.
	op := w.apply(w.application(w.queue, 1, false))
	result, err := w.store.Leave(t.Context(), bot.Leaving{OperationID: op.ID, Version: op.Version, By: "ann"})
	w.must(err)
	if result.Result != bot.MoveStale || w.read(op.ID).Status != bot.OperationPendingApproval {
		t.Errorf("left without a seat: %d", result.Result)
	}
}

func trainLists(t *testing.T, db Database) {
	w := newWorld(t, db)
	settings := bot.DefaultQueueSettings("release")
	settings.Trains = []bot.TrainPlan{{Name: "weekly", Schedule: "0 9 * * 1", Seats: 3}}
	release, err := w.store.UpsertQueue(t.Context(), w.repo.ID, settings, "blob")
	w.must(err)
	queues, err := w.store.TrainQueues(t.Context())
	w.must(err)
	if len(queues) != 1 || queues[0].ID != release.ID || queues[0].Settings.Trains[0].Seats != 3 {
		t.Errorf("queues with trains: %+v", queues)
	}
	nightly, weekly := w.openTrain(w.queue, "nightly", 1), w.openTrain(release, "weekly", 3)
	over := w.openTrain(w.queue, "once", 1)
	_, err = w.store.ChangeTrain(t.Context(), bot.TrainChange{TrainID: over.ID, Cancel: true})
	w.must(err)
	w.past(weekly, "departs_at", "closes_at")
	names := func(trains []bot.Train, err error) string {
		w.must(err)
		var all []string
		for _, tr := range trains {
			all = append(all, tr.Name)
		}
		return strings.Join(all, " ")
	}
	if got := names(w.store.OpenTrains(t.Context(), 0)); got != "weekly nightly" {
		t.Errorf("open: %s", got)
	}
	if got := names(w.store.OpenTrains(t.Context(), w.queue.ID)); got != "nightly" {
		t.Errorf("open on main: %s", got)
	}
	if got := names(w.store.DueTrains(t.Context())); got != "weekly" {
		t.Errorf("due: %s", got)
	}
	for want, filter := range map[string]bot.TrainFilter{
		"once weekly nightly": {Limit: 10}, "once weekly": {Limit: 2}, "once nightly": {QueueID: w.queue.ID, Limit: 10}, "nightly": {QueueID: w.queue.ID, Open: true, Limit: 1},
	} {
		list, err := w.store.Trains(t.Context(), filter)
		var trains []bot.Train
		for _, v := range list {
			trains = append(trains, v.Train)
			if v.Queue.ID != v.Train.QueueID || v.Repository.ID != w.repo.ID {
				t.Errorf("%+v", v)
			}
		}
		if got := names(trains, err); got != want {
			t.Errorf("%+v: %s, want %s", filter, got, want)
		}
	}
	if view, err := w.store.ReadTrain(t.Context(), nightly.ID); err != nil || view.Queue.ID != w.queue.ID || view.Repository.Path != w.repo.Path {
		t.Errorf("%+v, %v", view, err)
	}
}

// meaningOfTrains is what the sample rows of trains mean.
func meaningOfTrains(w *world) {
	open, err := w.store.OpenTrains(w.Context(), 70)
	w.must(err)
	if len(open) != 1 || open[0].ID != 802 || open[0].Confirmed != 1 || open[0].Closed {
		w.Fatalf("open trains: %+v", open)
	}
	w.wantLine(open[0], "5 |")
	seat, ok, err := w.store.SeatOf(w.Context(), operationID(5))
	w.must(err)
	if !ok || seat.Train.ID != 802 || seat.Seat.Status != bot.SeatConfirmed || seat.Seat.Approved {
		w.Errorf("the seat that was carried over: %+v, %v", seat, ok)
	}
	departed, err := w.store.ReadTrain(w.Context(), 801)
	w.must(err)
	if departed.Train.Status != bot.TrainDeparted || len(departed.Seats) != 2 || departed.Seats[0].Status != bot.SeatDeparted || departed.Seats[1].Status != bot.SeatCancelled {
		w.Errorf("the departed train: %+v", departed)
	}
	result, err := w.store.Leave(w.Context(), bot.Leaving{OperationID: operationID(5), Version: w.read(operationID(5)).Version, By: "ann"})
	w.must(err)
	if result.Result != bot.MoveDone {
		w.Errorf("leaving the open train: %d", result.Result)
	}
}
