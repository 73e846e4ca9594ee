package storetest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/store"
)

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
	w.must(w.store.DeactivateRepositories(t.Context(), w.repo.Host, w.repo.Installation, []int64{w.repo.ExternalID}, "uninstalled"))
	if got := names(w.store.DueTrains(t.Context())); got != "" {
		t.Errorf("due in a repository that ended, which nobody can ask: %s", got)
	}
	_, err = w.store.UpsertRepository(t.Context(), w.repo.RepositoryRef)
	w.must(err)
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
	if departed.Train.Status != bot.TrainDeparted || len(departed.Seats) != 1 || departed.Seats[0].Status != bot.SeatDeparted {
		w.Errorf("the departed train: %+v", departed)
	}
	result, err := w.store.Leave(w.Context(), bot.Leaving{OperationID: operationID(5), Version: w.read(operationID(5)).Version, By: "ann"})
	w.must(err)
	if result.Result != bot.MoveDone {
		w.Errorf("leaving the open train: %d", result.Result)
	}
}
