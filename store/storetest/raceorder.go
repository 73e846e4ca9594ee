package storetest

import (
	"sync"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/store"
)

// A cancel stops before it writes its operation, and a claim when it has written that and not the binding yet. Both go to the operation first, so the
// cancel has nothing that the claim wants. Beside it, what the order is for: a writer that takes the binding first meets the claim in the same
// way, and one of the two is the victim of a deadlock.
func onePathOrder(t *testing.T, db Database) {
	r := newRace(t, db, 2)
	if !db.severalWriters() {
		r.running(r.queue, 1) // one writer at a time cannot deadlock
		return
	}
	claimer, other := r.stores[0], r.stores[1]
	// meet runs another path up to its write of the operation, then a claim up to its write of the binding, then both to their ends.
	meet := func(path func() error) {
		otherThere, claimHolds := make(chan struct{}), make(chan struct{})
		arrive := sync.OnceFunc(func() { close(otherThere) })
		hold := sync.OnceFunc(func() { close(claimHolds) })
		r.on(claimer, once("UPDATE binding", hold))
		r.on(other, once("UPDATE operation", func() {
			arrive()
			<-claimHolds
		}))
		together(func() {
			<-otherThere
			defer hold()
			if result, err := claimer.Claim(t.Context(), claimSpec(r.queue, 1)); err != nil || result.Outcome != bot.ClaimDone {
				t.Errorf("claim: %s, %v", result.Outcome, err)
			}
		}, func() {
			defer arrive()
			if err := path(); err != nil {
				t.Error(err)
			}
		})
		r.on(claimer, nil)
		r.on(other, nil)
	}
	r.rounds(func(int) {
		cancel := r.moveTo(r.waiting(r.queue, 1)[0], bot.OperationCancelled)
		meet(func() error {
			moved, err := other.Move(t.Context(), cancel)
			if moved != bot.MoveStale {
				t.Errorf("the cancel came to %d although the claim was first", moved)
			}
			return err
		})
	})
	r.peaceful()

	op := r.waiting(r.newQueue("reversed"), 1)[0]
	r.queue.ID = op.QueueID
	meet(func() error {
		return db.Transaction(t.Context(), other, func(exec func(string, ...any) (int64, error)) error {
			if _, err := exec(`UPDATE binding SET updated_at = updated_at WHERE id = ?`, op.Number); err != nil {
				return err
			}
			_, err := exec(`UPDATE operation SET updated_at = updated_at WHERE operation_id = ?`, op.ID)
			return err
		}, nil)
	})
	if claimer.Stats().Retries+other.Stats().Retries == 0 {
		t.Error("a writer that takes the binding first met the claim without a deadlock: this is not what the test is about")
	}
	r.step()
}

// The expiry finds bindings and goes to their operations, an approval has the operation and goes to its binding, a claim has a request and goes to
// both: they read in different orders and write in one.
func differentEnds(t *testing.T, db Database) {
	r := newRace(t, db, 3)
	r.rounds(func(int) {
		var pending []bot.Operation
		for range 3 {
			pending = append(pending, r.seed(r.queue, bot.OperationPendingApproval, r.next(), 1)...)
		}
		r.execute(`UPDATE binding SET expires_at = ` + ago(db, time.Second))
		r.waiting(r.queue, 1)
		r.each(6, func(s *store.Store, i int) {
			var err error
			switch i % 3 {
			case 0:
				_, err = s.ExpireOperations(t.Context(), 10)
			case 1:
				for _, op := range pending {
					if _, err = s.Move(t.Context(), r.moveTo(op, bot.OperationWaiting)); err != nil {
						break
					}
				}
			case 2:
				_, err = s.Claim(t.Context(), claimSpec(r.queue, 10))
			}
			if err != nil {
				t.Error(err)
			}
		})
		for _, op := range pending {
			if now := r.read(op.ID); now.Status == bot.OperationPendingApproval {
				t.Errorf("merge request %d is still PENDING_APPROVAL", op.Number)
			}
		}
	})
	r.peaceful()
}
