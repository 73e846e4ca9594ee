package storetest

import (
	"regexp"
	"strings"
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

// lockOrder is the order in which every transaction takes its first row of each table. Idempotency comes first: it is a command's own row. Tables
// that are appended to stand on one step, as nobody waits for a row that only its writer knows.
var lockOrder = map[string]int{
	"idempotency": 1, "merge_request": 2, "queue": 3, "train": 4, "approval_request": 5, "merge_batch": 6, "operation": 7, "binding": 8, "merge_batch_request": 9,
	"merge_batch_member": 10, "binding_history": 10, "audit": 10, "outbox": 11,
}

var locking = regexp.MustCompile(`^(?:INSERT INTO|UPDATE|DELETE FROM) (\w+)|^SELECT (?s:.*) FROM (\w+) .*FOR UPDATE`)

// oneLockOrder looks at the statements of every kind of transaction that an instance has.
func oneLockOrder(t *testing.T, db Database) {
	w := newWorld(t, db)
	var statements []string
	committed := 0
	db.Intercept(w.store, func(statement string, _ []any) error {
		switch statement {
		case "COMMIT":
			committed++
			w.inOrder(statements)
			statements = nil
		case "after COMMIT":
		default:
			statements = append(statements, strings.Join(strings.Fields(statement), " "))
		}
		return nil
	})
	do := func(what string, f func() (bool, error)) {
		t.Helper()
		statements = nil
		if ok, err := f(); err != nil || !ok {
			t.Fatalf("%s: %v, %v", what, ok, err)
		}
	}
	moved := func(m bot.Move) func() (bool, error) {
		return func() (bool, error) {
			result, err := w.store.Move(t.Context(), m)
			return result == bot.MoveDone, err
		}
	}
	w.admit(w.queue, 1, 2, 3, 4, 5, 6)
	claimed := w.claim(w.queue, 4)
	do("build", func() (ok bool, err error) {
		record := build(claimed, 2001, 3)
		record.Moves = outcomes(claimed.Members[3:], bot.OperationWaiting, bot.ReasonConflictBatch)
		claimed.Batch, ok, err = w.store.RecordBuild(t.Context(), claimed.Batch.Guard(), record)
		claimed.Members = claimed.Members[:3]
		return ok, err
	})
	do("change", func() (ok bool, err error) {
		change := bot.BatchChange{Status: bot.BatchBlocked, MRNumber: 77, Code: bot.CodeOverdue, Message: "look", By: "ann", Source: "test"}
		claimed.Batch, ok, err = w.store.ChangeBatch(t.Context(), claimed.Batch.Guard(), change)
		return ok, err
	})
	do("pause", func() (bool, error) { return w.store.PauseQueue(t.Context(), w.queue.ID, "ann", "a freeze") })
	do("resume", func() (bool, error) { return w.store.ResumeQueue(t.Context(), w.queue.ID, "ann") })
	evict := w.moveTo(w.read(claimed.Members[2].ID), bot.OperationPendingApproval)
	command := w.command(claimed.Members[2], 1, "cancel")
	evict.Command, evict.Notify = &command, true
	do("evict", moved(evict))
	do("cancel", moved(w.moveTo(w.read(operationID(5)), bot.OperationCancelled)))
	do("approve", moved(w.moveTo(w.read(claimed.Members[2].ID), bot.OperationWaiting)))
	w.execute(`UPDATE merge_batch_request SET cohort = 7 WHERE batch_id IS NULL`)
	do("settle", func() (bool, error) {
		settlement := settlementOf(bot.ClaimResult{Batch: w.batch(w.queue.ID), Members: claimed.Members[:2]}, bot.BatchFailed, bot.OperationWaiting)
		settlement.Members[1].To, settlement.Members[1].Notify = bot.OperationFailed, true
		settlement.ParkQueue, settlement.FreeCohort, settlement.DeleteBranch = "no CI ran", 7, true
		return w.store.Settle(t.Context(), settlement)
	})
	do("apply again", func() (bool, error) {
		result, err := w.store.Apply(t.Context(), w.again(w.read(operationID(5)), 2))
		return result.Outcome == bot.ApplyDone, err
	})
	train := w.openTrain(w.queue, "nightly", 1)
	for n := 11; n <= 14; n++ {
		do("join", func() (bool, error) {
			result, err := w.store.Board(t.Context(), w.boarding(train, n, 1, true))
			return result.Outcome == bot.BoardingDone, err
		})
	}
	seats := 2
	do("leave", moved(w.moveTo(w.read(w.seatedOn(train)[0]), bot.OperationCancelled)))
	do("more seats", func() (bool, error) {
		result, err := w.store.ChangeTrain(t.Context(), bot.TrainChange{TrainID: train.ID, Seats: &seats, By: "ann", Source: "test"})
		return len(result.Promoted) == 1, err
	})
	departure := w.departure(train, 1, w.read(w.seatedOn(train)[0]))
	w.past(train, "departs_at")
	do("depart", func() (bool, error) {
		result, err := w.store.Depart(t.Context(), departure)
		return len(result.Admitted) == 1 && len(result.Carried) == 2, err
	})
	if committed < 30 {
		t.Errorf("only %d transactions were seen", committed)
	}
}

// inOrder fails the test unless a transaction's first locks of each table are in order.
func (w *world) inOrder(statements []string) {
	w.Helper()
	last, before, seen := 0, "", map[string]bool{}
	for _, statement := range statements {
		match := locking.FindStringSubmatch(statement)
		if match == nil {
			continue
		}
		table := match[1] + match[2]
		step, ranked := lockOrder[table]
		if !ranked || seen[table] {
			continue
		}
		seen[table] = true
		if step < last {
			w.Errorf("%s is locked after %s:\n%s", table, before, strings.Join(statements, "\n"))
			return
		}
		last, before = step, table
	}
}
