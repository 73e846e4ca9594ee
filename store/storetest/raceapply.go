package storetest

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/store"
)

// Several instances hear of the approval.
func admittedOnce(t *testing.T, db Database) {
	r := newRace(t, db, 4)
	r.rounds(func(int) {
		op := r.seed(r.queue, bot.OperationPendingApproval, r.next(), 1)[0]
		results := r.moves(4, func(s *store.Store, _ int) (bot.MoveResult, error) {
			return s.Move(t.Context(), r.moveTo(op, bot.OperationWaiting))
		})
		if results[bot.MoveDone] != 1 || results[bot.MoveStale] != 3 || r.value(`SELECT COUNT(*) FROM merge_batch_request`) != 1 {
			t.Errorf("results %v", results)
		}
	})
	r.peaceful()
}

func oneCommandMany(t *testing.T, db Database) {
	r := newRace(t, db, 4)
	r.rounds(func(int) {
		number := r.next()
		var lock sync.Mutex
		made, answers := "", map[string]int{}
		r.each(4, func(s *store.Store, i int) {
			a := r.application(r.queue, number, true)
			a.OperationID = operationID(10_000_000*(i+1) + number)
			result, err := s.Apply(t.Context(), a)
			lock.Lock()
			defer lock.Unlock()
			switch {
			case err != nil:
				t.Error(err)
			case result.Outcome == bot.ApplyDone && made == "" && result.Operation.ID == a.OperationID:
				made = a.OperationID
			case result.Outcome != bot.ApplyDuplicate:
				t.Errorf("outcome %d", result.Outcome)
			}
			answers[result.Operation.ID]++
		})
		if made == "" || answers[made] != 4 {
			t.Errorf("%q was made, and the answers name %v", made, answers)
		}
		r.onlyOne()
	})
}

func manyCommands(t *testing.T, db Database) {
	r := newRace(t, db, 4)
	r.rounds(func(int) {
		number := r.next()
		var lock sync.Mutex
		made := ""
		told := map[string]int{}
		r.each(4, func(s *store.Store, i int) {
			a := r.application(r.queue, number, true)
			a.OperationID, a.Command.RequestID, a.Command.Order.ID = operationID(10_000_000*(i+1)+number), fmt.Sprintf("forge:issue:%d:%d", number, i), int64(100+i)
			result, err := s.Apply(t.Context(), a)
			lock.Lock()
			defer lock.Unlock()
			switch {
			case err != nil:
				t.Error(err)
			case result.Outcome == bot.ApplyDone && made == "":
				made = a.OperationID
			case result.Outcome == bot.ApplyActive:
				told[result.Operation.ID]++
			case result.Outcome != bot.ApplySuperseded:
				t.Errorf("outcome %d", result.Outcome)
			}
		})
		delete(told, made)
		if made == "" || len(told) != 0 {
			t.Errorf("%q was made, and others were told of %v", made, told)
		}
		r.onlyOne()
	})
}

// onlyOne fails the test unless one application left exactly its rows.
func (w *world) onlyOne() {
	w.Helper()
	for _, table := range []string{"operation", "binding", "binding_history", "merge_batch_request", "idempotency", "audit"} {
		if n := value[int](w, `SELECT COUNT(*) FROM `+table); n != 1 {
			w.Errorf("%d rows in %s", n, table)
		}
	}
	if n := value[int](w, `SELECT MAX(wanted) FROM outbox`); n != 1 {
		w.Errorf("said %d times", n)
	}
}

// The row that a command lost to is gone when it looks: it begins anew, and says "later" when that goes on.
func winnerVanishes(t *testing.T, db Database) {
	r := newRace(t, db, 3)
	if !db.severalWriters() {
		r.apply(r.application(r.queue, 1, true)) // nothing comes between look and insert
		return
	}
	r.rounds(func(int) {
		a := r.application(r.queue, r.next(), true)
		vanish := func(times int) func(string, []any) error {
			there := false
			return func(statement string, _ []any) error {
				switch {
				case strings.HasPrefix(statement, "INSERT INTO idempotency") && times > 0:
					times--
					there = true
					r.execute(`INSERT INTO idempotency (request_id, operation_id, expires_at, created_at) VALUES (?, 'gone', NOW(), NOW())`, a.Command.RequestID)
				case strings.HasPrefix(statement, "SELECT operation_id FROM idempotency") && there:
					there = false
					r.execute(`DELETE FROM idempotency WHERE operation_id = 'gone'`)
				}
				return nil
			}
		}
		r.on(r.store, vanish(100))
		if result, err := r.store.Apply(t.Context(), a); err != nil || result.Outcome != bot.ApplyRetryLater {
			t.Errorf("%+v, %v", result, err)
		}
		r.on(r.store, vanish(1))
		if result, err := r.store.Apply(t.Context(), a); err != nil || result.Outcome != bot.ApplyDone || result.Operation.ID != a.OperationID {
			t.Errorf("%+v, %v", result, err)
		}
		r.on(r.store, nil)
		r.onlyOne()
		// The same comment once more, by others at the same time: the winner is there now.
		r.each(3, func(s *store.Store, _ int) {
			if result, err := s.Apply(t.Context(), a); err != nil || result.Outcome != bot.ApplyDuplicate || result.Operation.ID != a.OperationID {
				t.Errorf("%+v, %v", result, err)
			}
		})
	})
}

// A cancel and a new application of the same merge request: cancelled first, the application makes a new operation; applied first, it is told
// of the one that is, which then ends.
func reapplyRace(t *testing.T, db Database) {
	r := newRace(t, db, 2)
	made := 0
	r.rounds(func(int) {
		op := r.waiting(r.queue, 1)[0]
		again := r.again(op, 1)
		var applied bot.ApplyResult
		var moved bot.MoveResult
		r.each(2, func(s *store.Store, i int) {
			var err error
			if i == 0 {
				moved, err = s.Move(t.Context(), r.moveTo(op, bot.OperationCancelled))
			} else {
				applied, err = s.Apply(t.Context(), again)
			}
			if err != nil {
				t.Error(err)
			}
		})
		if moved != bot.MoveDone {
			t.Errorf("the cancel came to %d, and nobody else moved the operation", moved)
		}
		switch current := value[string](r.world, `SELECT operation_id FROM binding`); {
		case applied.Outcome == bot.ApplyDone && current == again.OperationID:
			made++
		case applied.Outcome == bot.ApplyActive && current == op.ID:
		default:
			t.Errorf("outcome %d, and %s is current", applied.Outcome, current)
		}
	})
	r.peaceful()
	t.Logf("the cancel came first in %d rounds", made)
}

// Several apply what has ended: the row of the binding is reset in place by one of them, and the others are told of its operation.
func replacedOnce(t *testing.T, db Database) {
	r := newRace(t, db, 3)
	r.rounds(func(int) {
		op := r.waiting(r.queue, 1)[0]
		if moved, err := r.store.Move(t.Context(), r.moveTo(op, bot.OperationCancelled)); err != nil || moved != bot.MoveDone {
			t.Fatal(moved, err)
		}
		binding := r.value(`SELECT id FROM binding`)
		var made tally[string]
		r.each(3, func(s *store.Store, i int) {
			a := r.again(op, i+1)
			a.OperationID = operationID(10_000_000*(i+1) + op.Number)
			result, err := s.Apply(t.Context(), a)
			switch {
			case err != nil:
				t.Error(err)
			case result.Outcome == bot.ApplyDone:
				made.add(result.Operation.ID)
			case result.Outcome != bot.ApplyActive && result.Outcome != bot.ApplySuperseded:
				t.Errorf("outcome %d", result.Outcome)
			}
		})
		current := value[string](r.world, `SELECT operation_id FROM binding`)
		if len(made.n) != 1 || made.n[current] != 1 || r.value(`SELECT id FROM binding`) != binding {
			t.Errorf("made %v, and %s is current", made.n, current)
		}
	})
	r.peaceful()
}

// What failed waits for its retry: a new application may not overwrite it, whichever comes first.
func retryRace(t *testing.T, db Database) {
	r := newRace(t, db, 2)
	r.rounds(func(int) {
		claimed := r.running(r.queue, 1)
		r.settle(claimed, bot.BatchFailed, bot.OperationFailed)
		op := r.read(claimed.Members[0].ID)
		again := r.again(op, 1)
		r.each(2, func(s *store.Store, i int) {
			if i == 0 {
				if moved, err := s.Move(t.Context(), r.moveTo(op, bot.OperationPendingApproval)); err != nil || moved != bot.MoveDone {
					t.Errorf("retry: %d, %v", moved, err)
				}
				return
			}
			if applied, err := s.Apply(t.Context(), again); err != nil || applied.Outcome != bot.ApplyNeedsRetry && applied.Outcome != bot.ApplyActive {
				t.Errorf("apply: %d, %v", applied.Outcome, err)
			}
		})
		if now := r.read(op.ID); now.Status != bot.OperationPendingApproval || value[string](r.world, `SELECT operation_id FROM binding`) != op.ID {
			t.Errorf("the operation is %s", now.Status)
		}
	})
	r.peaceful()
}

func oneMove(t *testing.T, db Database) {
	r := newRace(t, db, 3)
	r.rounds(func(n int) {
		var op bot.Operation
		switch n % 3 {
		case 0:
			op = r.seed(r.queue, bot.OperationPendingApproval, r.next(), 1)[0]
		case 1:
			op = r.waiting(r.queue, 1)[0]
		case 2:
			op = r.running(r.queue, 1).Members[0]
		}
		var moves []bot.Move
		for _, to := range []bot.OperationStatus{bot.OperationClosed, bot.OperationPendingApproval, bot.OperationMerged} {
			moves = append(moves, r.moveTo(op, to)) // close, push and merge at once: whoever is first wins, whatever it wants
		}
		results := r.moves(3, func(s *store.Store, i int) (bot.MoveResult, error) { return s.Move(t.Context(), moves[i]) })
		if results[bot.MoveDone] != 1 || results[bot.MoveStale] != 2 {
			t.Errorf("from %s: %v", op.Status, results)
		}
		if n := r.value(`SELECT COUNT(*) FROM audit WHERE operation_id = ? AND action = 'move'`, op.ID); n != 1 {
			t.Errorf("from %s: %d entries in the audit", op.Status, n)
		}
	})
	r.peaceful()
}

// moves runs f n times at once over the instances and counts the results.
func (r *race) moves(n int, f func(s *store.Store, i int) (bot.MoveResult, error)) map[bot.MoveResult]int {
	r.Helper()
	var results tally[bot.MoveResult]
	r.each(n, func(s *store.Store, i int) {
		result, err := f(s, i)
		if err != nil {
			r.Error(err)
		}
		results.add(result)
	})
	return results.n
}
