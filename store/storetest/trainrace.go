package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/store"
)

// Several instances at the same train in the same moment. The tables are looked at after every COMMIT, see race.
var trainRaceTests = tests{
	"sixty-four join and leave at once, and nobody is skipped": crowdedTrain,
	"of eight that let a train depart one does":                departRace,
	"trains of many queues depart at the same time":            departTogether,
	"a departure meets who leaves, joins and is approved":      departMeets,
	"one merge request joins two trains at once":               twoTrains,
	"many open the same train":                                 openRace,
}

// replay follows the history of one train's queue from the first join on: who joins takes a free seat only when nobody waits, a seat that is given up goes to the
// head of the line in the same breath, and nobody else is ever promoted. It returns who sits and who waits at the end.
func (w *world) replay(seats int) (sitting, waiting []string) {
	w.Helper()
	p, err := takePicture(w.Context(), w.SQL)
	w.must(err)
	slices.SortFunc(p.history, func(a, b historyRow) int { return int(a.id - b.id) })
	reasons := make(map[int64]string)
	for _, row := range w.rows(`SELECT CONCAT(id, ' ', reason) FROM binding_history`) {
		var id int64
		var reason string
		_, err := fmt.Sscan(row, &id, &reason)
		w.must(err)
		reasons[id] = reason
	}
	owed := false // a seat is free, and the head of the line has to have it before anything else happens
	for _, h := range p.history {
		promotion := bot.Reason(reasons[h.id]) == bot.ReasonPromoted
		if owed != promotion {
			w.Errorf("history entry %d: operation %s, %s; a promotion is due: %v", h.id, h.operationID, reasons[h.id], owed)
			return nil, nil
		}
		switch {
		case promotion:
			if waiting[0] != h.operationID {
				w.Errorf("history entry %d promotes %s over the head of %s", h.id, h.operationID, waiting[0])
			}
			sitting, waiting = append(sitting, waiting[0]), waiting[1:]
		case bot.Reason(reasons[h.id]) == bot.ReasonJoined && len(sitting) < seats:
			sitting = append(sitting, h.operationID)
		case bot.Reason(reasons[h.id]) == bot.ReasonJoined:
			waiting = append(waiting, h.operationID)
		case h.to != bot.OperationPendingApproval:
			is := func(id string) bool { return id == h.operationID }
			sitting, waiting = slices.DeleteFunc(sitting, is), slices.DeleteFunc(waiting, is)
		}
		owed = len(sitting) < seats && len(waiting) > 0
	}
	if owed {
		w.Errorf("at the end a seat is free and %d wait", len(waiting))
	}
	return sitting, waiting
}

func crowdedTrain(t *testing.T, db Database) {
	// Without a look at every COMMIT, which would keep the crowd apart.
	r := &race{world: newWorld(t, db)}
	w := r.world
	const people, seats = 64, 5
	r.stores = []*store.Store{w.store, db.Open(t), db.Open(t), db.Open(t)}
	train := w.openTrain(w.queue, "nightly", seats)
	held := make([]string, people) // the operation with which each is on the train; empty: it is not
	goesOn := rounding(t)
	for round := 0; goesOn(round); round++ {
		r.each(people, func(s *store.Store, i int) {
			if held[i] == "" {
				result, err := s.Board(t.Context(), w.boarding(train, i+1, round+1, i%2 == 0))
				if err != nil || result.Outcome != bot.BoardingDone {
					t.Errorf("%d joining: %d, %v", i, result.Outcome, err)
				}
				held[i] = result.Operation.ID
				return
			}
			if (i+round)%3 == 0 {
				return
			}
			// Promotions change it all the time: read again, as everybody does.
			for {
				view, err := s.OperationView(t.Context(), held[i])
				if err != nil {
					t.Error(err)
					return
				}
				m := w.moveTo(view.Operation, bot.OperationClosed)
				var result bot.MoveResult
				if i%2 == 0 {
					result, err = s.Move(t.Context(), m)
				} else {
					var left bot.LeavingResult
					left, err = s.Leave(t.Context(), bot.Leaving{OperationID: m.OperationID, Version: m.Version, By: "ann", Source: "test"})
					result = left.Result
				}
				if err != nil || result == bot.MoveDone {
					if err != nil {
						t.Errorf("%d leaving: %v", i, err)
					}
					held[i] = ""
					return
				}
			}
		})
		w.invariants()
		sitting, waiting := w.replay(seats)
		view, err := w.store.ReadTrain(t.Context(), train.ID)
		w.must(err)
		var sits, waits []string
		for _, s := range view.Seats {
			switch s.Status {
			case bot.SeatConfirmed:
				sits = append(sits, s.OperationID)
			case bot.SeatWaiting:
				waits = append(waits, s.OperationID)
			}
		}
		if !slices.Equal(sits, sitting) || !slices.Equal(waits, waiting) {
			t.Errorf("round %d: the order of joining is\n%v\n%v, and the seats are\n%v\n%v", round, sitting, waiting, sits, waits)
		}
		if t.Failed() {
			return
		}
	}
	retries := int64(0)
	for _, s := range r.stores {
		retries += s.Stats().Retries
	}
	t.Logf("transactions run again: %d", retries)
}

func departRace(t *testing.T, db Database) {
	r := newRace(t, db, 4)
	r.rounds(func(int) {
		train := r.openTrain(r.queue, "nightly", 2)
		var approved []bot.Operation
		for range 5 {
			r.number++
			op := r.board(train, r.number, 1, true).Operation
			if r.number%2 == 0 {
				approved = append(approved, op)
			}
		}
		d := r.departure(train, 2, approved...)
		r.past(train, "departs_at", "closes_at")
		var departed atomic.Int32
		r.each(8, func(s *store.Store, _ int) {
			result, err := s.Depart(t.Context(), d)
			if err != nil {
				t.Error(err)
			}
			if result.Done {
				departed.Add(1)
			}
		})
		if departed.Load() != 1 {
			t.Errorf("departed %d times", departed.Load())
		}
		if n, want := r.value(`SELECT COUNT(*) FROM merge_batch_request`), min(2, len(approved)); n != want {
			t.Errorf("%d of %d were admitted", n, want)
		}
	})
}

// The usual hour: every queue has a nightly train. Their next trains take neighbouring entries of one unique key, which a departure has just given back.
func departTogether(t *testing.T, db Database) {
	r := newRace(t, db, 4)
	queues := []bot.Queue{r.queue}
	for i := range 5 {
		queues = append(queues, r.newQueue(fmt.Sprint("release-", i)))
	}
	r.rounds(func(int) {
		var departures []bot.Departure
		for _, q := range queues {
			train := r.openTrain(q, "nightly", 2)
			var approved []bot.Operation
			for range 4 {
				if op := r.board(train, r.next(), 1, true).Operation; r.number%2 == 0 {
					approved = append(approved, op)
				}
			}
			departures = append(departures, r.departure(train, 2, approved...))
			r.past(train, "departs_at", "closes_at")
		}
		r.each(len(departures), func(s *store.Store, i int) {
			result, err := s.Depart(t.Context(), departures[i])
			if err != nil || !result.Done || len(result.Admitted) != 2 || len(result.Carried) != 2 || result.Next.QueueID != queues[i].ID {
				t.Errorf("%s: %+v, %v", queues[i].Target, result, err)
			}
		})
	})
}

func departMeets(t *testing.T, db Database) {
	r := newRace(t, db, 4)
	r.rounds(func(int) {
		train := r.openTrain(r.queue, "nightly", 2)
		var ops []bot.Operation
		for range 4 {
			r.number++
			ops = append(ops, r.board(train, r.number, 1, true).Operation)
		}
		ops[2] = r.read(ops[2].ID)
		d := r.departure(train, 2, ops...)
		leaver, approval := r.read(ops[0].ID), r.moveTo(ops[1], bot.OperationPendingApproval)
		approval.Reason = bot.ReasonApproved
		r.number++
		newcomer := r.boarding(train, r.number, 1, true)
		r.past(train, "departs_at") // boarding goes on to the last moment
		var left bot.LeavingResult
		var joined bot.BoardingResult
		var departed bot.DepartureResult
		work := []func(s *store.Store) error{
			func(s *store.Store) (err error) { departed, err = s.Depart(context.Background(), d); return err },
			func(s *store.Store) (err error) {
				left, err = s.Leave(context.Background(), bot.Leaving{OperationID: leaver.ID, Version: leaver.Version, By: "ann"})
				return err
			},
			func(s *store.Store) (err error) { joined, err = s.Board(context.Background(), newcomer); return err },
			func(s *store.Store) error { _, err := s.Move(context.Background(), approval); return err },
		}
		r.each(len(work), func(s *store.Store, i int) {
			if err := work[i](s); err != nil {
				t.Error(err)
			}
		})
		if !departed.Done {
			t.Error("the train did not depart")
		}
		// Who left is out of it, who departed did not leave.
		went := slices.ContainsFunc(departed.Admitted, func(op bot.Operation) bool { return op.ID == leaver.ID })
		if went == (left.Result == bot.MoveDone) {
			t.Errorf("it departed: %v, it left: %d", went, left.Result)
		}
		if joined.Outcome != bot.BoardingDone && joined.Outcome != bot.BoardingClosed {
			t.Errorf("joining at the last moment: %d", joined.Outcome)
		}
		// Somebody took every seat: those that were looked at and did not change wait in line for it.
		if len(departed.Admitted) != 2 {
			t.Errorf("%d of 2 seats departed: %v", len(departed.Admitted), numbers(departed.Admitted))
		}
	})
}

func twoTrains(t *testing.T, db Database) {
	r := newRace(t, db, 4)
	r.rounds(func(int) {
		trains := []bot.Train{r.openTrain(r.queue, "nightly", 1), r.openTrain(r.queue, "weekly", 1)}
		r.number++
		var boardings []bot.Boarding
		for i := range 4 {
			boardings = append(boardings, r.boarding(trains[i%2], r.number, 1, true))
			boardings[i].Application.OperationID = scattered(r.number + 1000*i)
			boardings[i].Application.Command.RequestID += fmt.Sprint("/", i)
		}
		var done atomic.Int32
		r.each(4, func(s *store.Store, i int) {
			result, err := s.Board(t.Context(), boardings[i])
			if err != nil {
				t.Error(err)
			}
			if result.Outcome == bot.BoardingDone {
				done.Add(1)
			}
		})
		if n := r.value(`SELECT COUNT(*) FROM train_seat WHERE live_operation IS NOT NULL`); n != 1 || done.Load() != 1 {
			t.Errorf("%d live seats, %d joined", n, done.Load())
		}
	})
}

func openRace(t *testing.T, db Database) {
	r := newRace(t, db, 4)
	r.rounds(func(int) {
		at, err := r.store.Clock(t.Context())
		r.must(err)
		var opened atomic.Int32
		ids := make([]int64, 8)
		r.each(8, func(s *store.Store, i int) {
			result, err := s.OpenTrain(context.Background(), bot.TrainSpec{QueueID: r.queue.ID, Name: "nightly", DepartsAt: at, ClosesAt: at, Seats: i, By: "batchbot"})
			if err != nil {
				t.Error(err)
			}
			if result.Outcome == bot.TrainWritten {
				opened.Add(1)
			}
			ids[i] = result.Train.ID
		})
		if opened.Load() != 1 || len(slices.Compact(ids)) != 1 {
			t.Errorf("opened %d times: %v", opened.Load(), ids)
		}
	})
}
