package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/store"
)

func oneSlot(t *testing.T, db Database) {
	r := newRace(t, db, 4)
	r.rounds(func(int) {
		r.waiting(r.queue, 3)
		var outcomes tally[bot.ClaimOutcome]
		r.each(4, func(s *store.Store, _ int) {
			result, err := s.Claim(t.Context(), claimSpec(r.queue, 2))
			if err != nil {
				t.Error(err)
			}
			if result.Outcome == bot.ClaimDone && len(result.Members) != 2 {
				t.Errorf("a batch of %d", len(result.Members))
			}
			outcomes.add(result.Outcome)
		})
		if outcomes.n[bot.ClaimDone] != 1 || outcomes.n[bot.ClaimDone]+outcomes.n[bot.ClaimSlotOccupied]+outcomes.n[bot.ClaimQueueBusy] != 4 {
			t.Errorf("outcomes %v", outcomes.n)
		}
	})
	r.peaceful()
}

// Here InnoDB may find victims: the slot that a batch gave back stays in the index until it is purged, and who takes it again locks the gap beside it,
// which is where the next queue's slot goes.
func manyQueues(t *testing.T, db Database) {
	r := newRace(t, db, 3)
	queues := []bot.Queue{r.queue, r.newQueue("release"), r.newQueue("next")}
	r.rounds(func(int) {
		for _, q := range queues {
			r.waiting(q, 2)
		}
		var won tally[int64]
		var fs []func()
		for _, s := range r.stores {
			for _, q := range queues {
				fs = append(fs, func() {
					result, err := s.Claim(t.Context(), claimSpec(q, 2))
					if err != nil {
						t.Error(err)
					}
					if result.Outcome == bot.ClaimDone {
						won.add(q.ID)
					}
				})
			}
		}
		together(fs...)
		for _, q := range queues {
			if won.n[q.ID] != 1 {
				t.Errorf("queue %s: %d batches", q.Target, won.n[q.ID])
			}
		}
	})
}

// Whoever was admitted before the claim rides; whoever comes meanwhile rides or waits, and nobody is lost or kept waiting.
func claimAndAdmissions(t *testing.T, db Database) {
	r := newRace(t, db, 3)
	r.rounds(func(int) {
		before := r.waiting(r.queue, 2)
		fs := []func(){func() {
			result, err := r.stores[0].Claim(t.Context(), claimSpec(r.queue, 10))
			if err != nil || result.Outcome != bot.ClaimDone {
				t.Errorf("claim: %s, %v", result.Outcome, err)
			}
			for _, op := range before {
				if !slices.Contains(numbers(result.Members), op.Number) {
					t.Errorf("%d waited and was left behind by %v", op.Number, numbers(result.Members))
				}
			}
		}}
		for i := range 3 {
			a := r.application(r.queue, r.next(), true)
			fs = append(fs, func() {
				if result, err := r.stores[i].Apply(t.Context(), a); err != nil || result.Outcome != bot.ApplyDone {
					t.Errorf("admission: %d, %v", result.Outcome, err)
				}
			})
		}
		together(fs...)
		if n := r.value(`SELECT COUNT(*) FROM merge_batch_request`); n != 5 {
			t.Errorf("%d wait or ride, want 5", n)
		}
	})
	r.peaceful()
}

func cancelOrClaim(t *testing.T, db Database) {
	r := newRace(t, db, 2)
	r.rounds(func(int) {
		ops := r.waiting(r.queue, 4)
		var lock sync.Mutex
		var rides []bot.Operation
		cancelled := map[string]bool{}
		r.each(4, func(s *store.Store, i int) {
			if i >= 2 {
				result, err := s.Claim(t.Context(), claimSpec(r.queue, 4))
				lock.Lock()
				defer lock.Unlock()
				if err != nil {
					t.Error(err)
				}
				rides = append(rides, result.Members...)
				return
			}
			result, err := s.Move(t.Context(), r.moveTo(ops[i], bot.OperationCancelled))
			lock.Lock()
			defer lock.Unlock()
			if err != nil {
				t.Error(err)
			}
			cancelled[ops[i].ID] = result == bot.MoveDone
		})
		for _, op := range rides {
			if cancelled[op.ID] {
				t.Errorf("merge request %d was cancelled and rides", op.Number)
			}
		}
		for _, op := range ops {
			if now := r.read(op.ID); (now.Status == bot.OperationCancelled) != cancelled[op.ID] {
				t.Errorf("merge request %d is %s", op.Number, now.Status)
			}
		}
	})
	r.peaceful()
}

// The sweep finds the batch overdue, an event says that it landed, an operator ends it: one of them decides, and what it decided is what stands.
func settledOnce(t *testing.T, db Database) {
	r := newRace(t, db, 3)
	r.rounds(func(int) {
		claimed := r.running(r.queue, 3)
		event := settlementOf(claimed, bot.BatchSucceeded, bot.OperationMerged)
		sweep := settlementOf(claimed, bot.BatchFailed, bot.OperationWaiting)
		sweep.Code = bot.CodeCITimeout
		operator := settlementOf(claimed, bot.BatchFailed, bot.OperationFailed)
		operator.ParkQueue = "ended by ann"
		paths := []bot.Settlement{event, sweep, operator}
		var won tally[int]
		r.each(3, func(s *store.Store, i int) {
			ok, err := s.Settle(t.Context(), paths[i])
			if err != nil {
				t.Error(err)
			}
			if ok {
				won.add(i)
			}
		})
		if len(won.n) != 1 {
			t.Fatalf("settled by %v", won.n)
		}
		for i, n := range won.n {
			members := paths[i].Members[0].To
			if n != 1 || r.value(`SELECT COUNT(*) FROM merge_batch WHERE status = ? AND code = ?`, int(paths[i].Status), string(paths[i].Code)) != 1 ||
				r.value(`SELECT COUNT(*) FROM operation WHERE status = ?`, int(members)) != 3 {
				t.Errorf("path %d settled, and that is not what stands", i)
			}
			if parked := r.value(`SELECT COUNT(*) FROM queue WHERE status = 3`); (parked == 1) != (i == 2) {
				t.Errorf("path %d settled, and %d queues are parked", i, parked)
			}
		}
		r.execute(`UPDATE queue SET status = 1, reason = '', version = version + 1 WHERE status = 3`)
	})
	r.peaceful()
}

// A member is pushed to while the batch is about to land: either it is out and the batch is built again, or it lands with the others.
func evictOrLand(t *testing.T, db Database) {
	r := newRace(t, db, 4)
	won := map[string]int{}
	r.rounds(func(int) {
		claimed := r.running(r.queue, 2)
		guard := claimed.Batch.Guard()
		var happened tally[string]
		r.each(4, func(s *store.Store, i int) {
			if i%2 == 0 {
				_, ok, err := s.ChangeBatch(t.Context(), guard, bot.BatchChange{Phase: bot.PhaseLanding})
				if err != nil {
					t.Error(err)
				}
				if ok {
					happened.add("landing")
				}
				return
			}
			m := r.moveTo(claimed.Members[0], bot.OperationPendingApproval)
			m.Batch = &guard
			result, err := s.Move(t.Context(), m)
			if err != nil {
				t.Error(err)
			}
			if result == bot.MoveDone {
				happened.add("evicted")
			}
		})
		batch, members, _, err := r.store.ActiveBatch(t.Context(), r.queue.ID)
		r.must(err)
		switch landing, evicted := happened.n["landing"], happened.n["evicted"]; {
		case landing == 1 && evicted == 0 && batch.Phase == bot.PhaseLanding && len(members) == 2:
			won["landing"]++
		case landing == 0 && evicted == 1 && batch.Phase == bot.PhaseClaimed && len(members) == 1:
			won["evicted"]++
		default:
			t.Errorf("landing %d, evicted %d: phase %s with %d members", landing, evicted, batch.Phase, len(members))
		}
		r.settle(bot.ClaimResult{Batch: batch, Members: members}, bot.BatchSucceeded, bot.OperationMerged)
	})
	t.Log(won)
	r.peaceful()
}

// insertBatch takes a queue's slot as the claim does, without asking for the queue's row.
func insertBatch(db Database, queue bot.Queue, token string) string {
	now := past(db)
	return fmt.Sprintf(`INSERT INTO merge_batch (queue_id, status, phase, kind, cohort, token, size, build, base_sha, head_sha, landed_sha, landed_differs,
			mr_number, code, message, refusals, ci_conclusion, ci_fingerprint, ci_changed_at, phase_at, deadline_at, created_at, updated_at)
		VALUES (%d, 1, 1, 1, 0, '%s', 0, 0, '', '', '', 0, 0, '', '', 0, '', '', %s)`, queue.ID, token, strings.Join([]string{now, now, now, now, now}, ", "))
}

// A holder of the slot rolls back while two wait for it: InnoDB gives both a shared lock on what is gone, each then waits for the other, and one is
// a deadlock's victim. The queue's row keeps claimers from this, so one of the two is a claim, and the other a writer that does not ask for that
// row, as a claimer on another node of a cluster would be. Whoever is the victim begins anew: one has the slot, and the other is told so.
func slotRolledBack(t *testing.T, db Database) {
	r := newRace(t, db, 2)
	if !db.severalWriters() {
		r.running(r.queue, 1) // nobody waits inside a transaction of another
		return
	}
	claimer, other := r.stores[0], r.stores[1]
	deadlocks := 0
	r.rounds(func(n int) {
		r.waiting(r.queue, 1)
		holder, err := r.SQL.BeginTx(t.Context(), nil)
		r.must(err)
		defer func() { _ = holder.Rollback() }()
		_, err = holder.ExecContext(t.Context(), insertBatch(db, r.queue, "gone"))
		r.must(err)
		var arrived sync.WaitGroup
		arrived.Add(2)
		r.on(claimer, once("INSERT INTO merge_batch (", arrived.Done))
		r.on(other, once("INSERT INTO merge_batch (", arrived.Done))
		var result bot.ClaimResult
		inserted := false
		before := claimer.Stats().Retries + other.Stats().Retries
		together(func() {
			arrived.Wait()
			if n < 3 { // it takes a server a while to tell; the other rounds take their chance
				eventually(t, "both wait for the slot", func() bool { return r.lockWaits() == 2 })
			}
			if err := holder.Rollback(); err != nil {
				t.Error(err)
			}
		}, func() {
			var err error
			if result, err = claimer.Claim(t.Context(), claimSpec(r.queue, 1)); err != nil {
				t.Error(err)
			}
		}, func() {
			err := db.Transaction(t.Context(), other, func(exec func(string, ...any) (int64, error)) error {
				_, err := exec(insertBatch(db, r.queue, "other"))
				return err
			}, nil)
			inserted = err == nil
			if err != nil && !strings.Contains(err.Error(), "uk_batch_active") {
				t.Error(err)
			}
		})
		again := claimer.Stats().Retries + other.Stats().Retries - before
		deadlocks += int(again)
		if n < 3 && again == 0 {
			t.Error("two waited and there was no deadlock: this is not what the test is about")
		}
		if want := map[bool]bot.ClaimOutcome{false: bot.ClaimDone, true: bot.ClaimSlotOccupied}[inserted]; result.Outcome != want {
			t.Errorf("the claim came to %s, and that the other has the slot is %v", result.Outcome, inserted)
		}
	})
	t.Logf("%d deadlocks", deadlocks)
}

// Claims, admissions, cancels, landings and settlements meet in every round. Who wins does not matter, what the tables say does.
func allAtOnce(t *testing.T, db Database) {
	r := newRace(t, db, 3)
	queues := []bot.Queue{r.queue, r.newQueue("release")}
	r.rounds(func(int) {
		var fs []func()
		for _, q := range queues {
			r.running(q, 2)
			waiting := r.waiting(q, 2)
			for n, s := range r.stores {
				a := r.application(q, r.next(), true)
				fs = append(fs, func() { raceEnd(t, s, q, n) }, func() {
					if _, err := s.Claim(t.Context(), claimSpec(q, 2)); err != nil {
						t.Errorf("claim: %v", err)
					}
				})
				if n == 0 {
					fs = append(fs, func() {
						if result, err := s.Apply(t.Context(), a); err != nil || result.Outcome != bot.ApplyDone {
							t.Errorf("admission: %d, %v", result.Outcome, err)
						}
					}, func() {
						if op := r.read(waiting[0].ID); op.Status == bot.OperationWaiting {
							if _, err := s.Move(t.Context(), r.moveTo(op, bot.OperationCancelled)); err != nil {
								t.Errorf("cancel: %v", err)
							}
						}
					})
				}
			}
		}
		together(fs...)
	})
}

// raceEnd settles what it finds active, as a sweep, an event and an operator do at the same time.
func raceEnd(t *testing.T, s *store.Store, q bot.Queue, n int) {
	batch, members, found, err := s.ActiveBatch(t.Context(), q.ID)
	if err != nil {
		t.Errorf("look: %v", err)
		return
	}
	if !found || len(members) != batch.Size {
		return
	}
	claimed := bot.ClaimResult{Batch: batch, Members: members}
	settlement := settlementOf(claimed, bot.BatchSucceeded, bot.OperationMerged)
	if n%2 == 1 {
		settlement = settlementOf(claimed, bot.BatchFailed, bot.OperationWaiting)
	}
	if _, err := s.Settle(t.Context(), settlement); err != nil {
		t.Errorf("settle: %v", err)
	}
}
