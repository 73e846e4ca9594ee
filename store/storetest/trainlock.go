package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/store"
)

// seated seats merge requests from number first on beside the store: the first ones CONFIRMED, as many as there are seats. Of those that approved says, the
// seat knows it.
func (w *world) seated(train bot.Train, first, many int) []bot.Operation {
	w.Helper()
	queue, _, err := w.store.ReadQueue(w.Context(), train.QueueID)
	w.must(err)
	ops := w.seed(queue, bot.OperationPendingApproval, first, many)
	confirmed := min(many, train.Seats)
	w.fill(many, `train_seat (train_id, subject_id, operation_id, status, approved, queue_seq, created_at, updated_at)`, func(i int) string {
		status := bot.SeatConfirmed
		if i >= confirmed {
			status = bot.SeatWaiting
		}
		return fmt.Sprintf(`(%d, %d, '%s', %d, 0, %d, %s, %s)`, train.ID, ops[i].MergeRequestID, ops[i].ID, status, i+1, past(w.Database), past(w.Database))
	})
	w.execute(`UPDATE train SET confirmed_count = ?, next_seq = ? WHERE id = ?`, confirmed, many+1, train.ID)
	return ops
}

// statements counts what a store sends while do runs.
func (w *world) statements(s *store.Store, do func()) (n int) {
	w.Helper()
	w.Intercept(s, func(string, []any) error {
		n++
		return nil
	})
	defer w.Intercept(s, nil)
	do()
	return n
}

func trainStatements(t *testing.T, db Database) {
	w := newWorld(t, db)
	short, long := w.openTrain(w.queue, "short", 1), w.openTrain(w.queue, "long", 1)
	few, many := w.seated(short, 1001, 3), w.seated(long, 2001, 400)
	joins := func(train bot.Train, number int) int {
		b := w.boarding(train, number, 1, false)
		return w.statements(w.store, func() {
			_, err := w.store.Board(t.Context(), b)
			w.must(err)
		})
	}
	leaves := func(op bot.Operation) int {
		return w.statements(w.store, func() {
			_, err := w.store.Leave(t.Context(), bot.Leaving{OperationID: op.ID, Version: op.Version, By: "ann"})
			w.must(err)
		})
	}
	if a, b := joins(short, 1), joins(long, 2); a != b {
		t.Errorf("joining takes %d statements, and %d where the line is long", a, b)
	} else {
		t.Logf("joining takes %d statements", a)
	}
	if a, b := leaves(few[0]), leaves(many[0]); a != b {
		t.Errorf("leaving takes %d statements, and %d where the line is long", a, b)
	} else {
		t.Logf("leaving takes %d statements, with a promotion", a)
	}
	w.invariants()
}

// holdJoin stops a join of a train before its COMMIT.
func (w *world) holdJoin(train bot.Train, number int) holding {
	w.Helper()
	b := w.boarding(train, number, 1, false)
	return w.holdTrainAt(fmt.Sprintf("a join of train %d", train.ID), func(s *store.Store) error {
		result, err := s.Board(context.Background(), b)
		if err == nil && result.Outcome != bot.BoardingDone {
			err = fmt.Errorf("outcome %d", result.Outcome)
		}
		return err
	})
}

// holdTrainAt runs work on an instance of its own up to the COMMIT behind its write of a train.
func (w *world) holdTrainAt(what string, work func(s *store.Store) error) holding {
	w.Helper()
	s := w.Open(w)
	held, release := make(chan struct{}), make(chan struct{})
	wrote := false
	w.Intercept(s, func(statement string, _ []any) error {
		wrote = wrote || strings.HasPrefix(statement, "UPDATE train SET")
		if statement == "COMMIT" && wrote {
			close(held)
			<-release
			wrote = false
		}
		return nil
	})
	done := make(chan error, 1)
	go func() { done <- work(s) }()
	select {
	case <-held:
	case err := <-done:
		w.Fatalf("%s came to no COMMIT: %v", what, err)
	}
	end := sync.OnceFunc(func() {
		close(release)
		if err := <-done; err != nil {
			w.Errorf("%s that was held: %v", what, err)
		}
	})
	w.Cleanup(end)
	return holding{what, end}
}

// Whoever reads a train to write it waits for who does the same, and reads what is then.
func trainOneByOne(t *testing.T, db Database) {
	w := newWorld(t, db)
	train := w.openTrain(w.queue, "nightly", 1)
	if !db.severalWriters() {
		w.board(train, 1, 1, false)
		w.board(train, 2, 1, false)
		w.wantLine(train, "1 | 2")
		return
	}
	h := w.holdJoin(train, 1)
	b := w.boarding(train, 2, 1, false)
	done := make(chan error, 1)
	go func() {
		result, err := w.store.Board(context.Background(), b)
		if err == nil && result.Outcome != bot.BoardingDone {
			err = fmt.Errorf("outcome %d", result.Outcome)
		}
		done <- err
	}()
	eventually(t, "the second join waits", func() bool { return w.lockWaits() > 0 })
	h.release()
	if err := <-done; err != nil {
		t.Errorf("the second join: %v", err)
	}
	w.wantLine(train, "1 | 2")
	w.invariants()
}

// A train's row is locked by who wants that train. Admissions, a claim, and joins of another train of the same queue are done while it is held, by a join and
// by a departure with many to carry over, and were one of them to wait, it would wait for the end of the transaction that waits for it.
func trainBeside(t *testing.T, db Database) {
	w := newWorld(t, db)
	train, other := w.openTrain(w.queue, "nightly", 10), w.openTrain(w.queue, "weekly", 10)
	if !db.severalWriters() {
		w.board(train, 1, 1, false)
		w.admit(w.queue, 2)
		w.claim(w.queue, 1)
		return
	}
	w.ids = scattered
	ops := w.seated(train, 2001, 50)
	w.crowd(100)
	ws := w.writers(4)
	joined := ws.number.Load() + 500_000
	joins := func() []time.Duration {
		var lock sync.Mutex
		var took []time.Duration
		var all sync.WaitGroup
		for _, s := range ws.stores {
			var boardings []bot.Boarding
			for range 5 {
				joined++
				b := w.boarding(other, int(joined), 1, false)
				b.Application.OperationID = scattered(int(joined)) // anywhere among those that hold a seat
				boardings = append(boardings, b)
			}
			all.Go(func() {
				for _, b := range boardings {
					began := time.Now()
					result, err := s.Board(w.Context(), b)
					if err != nil || result.Outcome != bot.BoardingDone {
						t.Errorf("joining the other train: %d, %v", result.Outcome, err)
					}
					lock.Lock()
					took = append(took, time.Since(began))
					lock.Unlock()
				}
			})
		}
		all.Wait()
		slices.Sort(took)
		return took
	}
	few := func(done int) bool { return done < 10 }
	show := func(what string, took []time.Duration) {
		t.Logf("%-45s %d, p50 %v, p99 %v", what+":", len(took), percentile(took, 50), percentile(took, 99))
	}
	show("admissions with nothing open", ws.admit(few))
	show("joins of the other train with nothing open", joins())
	h := w.holdJoin(train, 1_900_000)
	show("admissions beside "+h.what, ws.admit(few))
	show("joins of the other train beside it", joins())
	w.claim(w.queue, 50)
	if n := w.lockWaits(); n != 0 {
		t.Errorf("%d transactions wait", n)
	}
	h.release()

	d := w.departure(train, 5, ops[:4]...)
	w.past(train, "departs_at", "closes_at")
	h = w.holdTrainAt(fmt.Sprintf("a departure of train %d", train.ID), func(s *store.Store) error {
		result, err := s.Depart(context.Background(), d)
		if err == nil && (len(result.Admitted) != 4 || len(result.Carried) != 47) {
			err = fmt.Errorf("%d admitted, %d carried over", len(result.Admitted), len(result.Carried))
		}
		return err
	})
	show("admissions beside "+h.what, ws.admit(few))
	show("joins of the other train beside it", joins())
	if n := w.lockWaits(); n != 0 {
		t.Errorf("%d transactions wait", n)
	}
	h.release()
	w.invariants()
}

func trainFails(t *testing.T, db Database) {
	w := newWorld(t, db)
	train := w.openTrain(w.queue, "nightly", 1)
	var ops []bot.Operation
	for n := 1; n <= 3; n++ {
		ops = append(ops, w.board(train, n, 1, false).Operation)
	}
	first := w.read(ops[0].ID)
	w.eachStepFails(func() error {
		_, err := w.store.Leave(t.Context(), bot.Leaving{OperationID: first.ID, Version: first.Version, By: "ann"})
		return err
	})
	two := 2
	w.eachStepFails(func() error {
		_, err := w.store.ChangeTrain(t.Context(), bot.TrainChange{TrainID: train.ID, Seats: &two, By: "ann"})
		return err
	})
	w.eachStepFails(func() error {
		_, err := w.store.ChangeTrain(t.Context(), bot.TrainChange{TrainID: train.ID, Cancel: true, By: "ann"})
		return err
	})
	departure := w.departure(train, 1, ops...)
	w.past(train, "departs_at", "closes_at")
	w.eachStepFails(func() error {
		_, err := w.store.Depart(t.Context(), departure)
		return err
	})
	w.wantLine(train, "1 | 2 3")
}

// The answer to COMMIT is lost: what was done is found and not done twice.
func trainAmbiguous(t *testing.T, db Database) {
	w := newWorld(t, db)
	lost := func() { db.Intercept(w.store, loseConnection("after COMMIT")) }
	kept := func() { db.Intercept(w.store, nil) }
	lost()
	train := w.openTrain(w.queue, "nightly", 1)
	kept()
	b := w.boarding(train, 1, 1, false)
	_, err := w.store.RecordMR(t.Context(), w.repo.ID, b.Application.MR)
	w.must(err)
	nth := 0
	db.Intercept(w.store, func(statement string, _ []any) error {
		if statement == "after COMMIT" {
			if nth++; nth == 2 { // RecordMR's is the first
				return loseConnection(statement)(statement, nil)
			}
		}
		return nil
	})
	joined, err := w.store.Board(t.Context(), b)
	w.must(err)
	kept()
	if joined.Outcome != bot.BoardingDone || nth != 2 {
		t.Errorf("joined: outcome %d after %d", joined.Outcome, nth)
	}
	applied := w.apply(w.application(w.queue, 2, false))
	b = w.boarding(train, 2, 1, false)
	nth = 0
	db.Intercept(w.store, func(statement string, _ []any) error {
		if statement == "after COMMIT" {
			if nth++; nth == 2 {
				return loseConnection(statement)(statement, nil)
			}
		}
		return nil
	})
	again, err := w.store.Board(t.Context(), b)
	w.must(err)
	if again.Outcome != bot.BoardingDone || again.Operation.ID != applied.ID {
		t.Errorf("joined with the application there was: %+v", again)
	}
	two := 2
	lost()
	changed, err := w.store.ChangeTrain(t.Context(), bot.TrainChange{TrainID: train.ID, Seats: &two, By: "ann", Source: "test"})
	w.must(err)
	if changed.Outcome != bot.TrainWritten || len(changed.Promoted) != 1 {
		t.Errorf("changed: %+v", changed)
	}
	kept()
	w.board(train, 3, 1, false)
	lost()
	left := w.disembark(joined.Operation.ID)
	if left.Promoted == nil || left.Promoted.Number != 3 {
		t.Errorf("left, and promoted %+v", left.Promoted)
	}
	kept()
	w.past(train, "departs_at", "closes_at")
	departure := w.departure(train, 1, w.read(applied.ID))
	lost()
	departed, err := w.store.Depart(t.Context(), departure)
	w.must(err)
	if !departed.Done || len(departed.Admitted) != 1 || len(departed.Carried) != 1 {
		t.Errorf("departed: %+v", departed)
	}
	kept()
	w.invariants()
}
