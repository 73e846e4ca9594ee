package storetest

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/store"
)

// Several instances at the same rows in the same moment. `make race-suite` repeats these; the tables are looked at after every round.
var raceTests = tests{
	"one instance wins the slot, one settles (I1, I2, I3)":          claimRace,
	"everything at once on several queues":                          allAtOnce,
	"two wait for a slot whose holder rolls back":                   slotRolledBack,
	"of re-applying and cancelling the later one holds":             reapplyRace,
	"one command by many makes one operation (I4)":                  oneCommandMany,
	"many commands for one merge request make one operation (I5)":   manyCommands,
	"the winner of a command vanishes":                              winnerVanishes,
	"of the same move by many exactly one happens (I6)":             oneMove,
	"of evicting and landing exactly one happens":                   evictOrLand,
	"of evicting and landing one wins, and the batch is settled":    settleAgainstEvict,
	"of cancelling and claiming exactly one happens":                cancelOrClaim,
	"a real deadlock ends in a clean outcome":                       txDeadlock,
	"one delivery by many is stored once":                           storedOnce,
	"no delivery is taken by two":                                   takenOnce,
	"no errand is taken by two":                                     errandsTakenOnce,
	"finishing an errand and wanting it never loses the last wish":  wishRace,
	"of several that look for what expired each ends one only once": expiresOnce,
	"many instances make one row":                                   oneRowEach,
}

// crew is several instances on one database.
func (w *world) crew(n int) []*store.Store {
	w.Helper()
	stores := []*store.Store{w.store}
	for len(stores) < n {
		stores = append(stores, w.Open(w))
	}
	return stores
}

// together runs functions at the same moment and waits for all.
func together(fs ...func()) {
	start := make(chan struct{})
	var all sync.WaitGroup
	for _, f := range fs {
		all.Go(func() {
			<-start
			f()
		})
	}
	close(start)
	all.Wait()
}

// Claims, admissions, cancels, landings and settlements meet in every round. Who wins does not matter, what the tables say does; and the lock order
// keeps it from being a heap of deadlocks that use up the tries.
func allAtOnce(t *testing.T, db Database) {
	w := newWorld(t, db)
	queues := []bot.Queue{w.queue, w.newQueue("release"), w.newQueue("next")}
	stores := w.crew(3)
	number := 0
	for range 6 {
		var waiting []bot.Operation
		for _, q := range queues {
			for range 3 {
				number++
				waiting = append(waiting, w.apply(w.application(q, number, true)))
			}
		}
		var fs []func()
		for i, q := range queues {
			for n, s := range stores {
				number++
				application := w.application(q, number, true)
				victim := waiting[3*i+n]
				fs = append(fs, func() {
					if _, err := s.Claim(t.Context(), claimSpec(q, 2)); err != nil {
						t.Errorf("claim: %v", err)
					}
				}, func() {
					if result, err := s.Apply(t.Context(), application); err != nil || result.Outcome != bot.ApplyDone {
						t.Errorf("admission: %d, %v", result.Outcome, err)
					}
				}, func() { raceEnd(t, s, q, n) })
				if n == 0 {
					fs = append(fs, func() {
						if _, err := s.Move(t.Context(), w.moveTo(victim, bot.OperationCancelled)); err != nil {
							t.Errorf("cancel: %v", err)
						}
					})
				}
			}
		}
		together(fs...)
		w.invariants()
	}
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

// A holder of the slot that does not ask for the queue's row rolls back while several want the slot: InnoDB may then pick victims among those that
// wait. One of them gets a batch, nobody fails.
func slotRolledBack(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2)
	stores := w.crew(3)
	holder, err := w.SQL.BeginTx(t.Context(), nil)
	w.must(err)
	defer func() { _ = holder.Rollback() }()
	if db.severalWriters() {
		_, err = holder.ExecContext(t.Context(), `INSERT INTO merge_batch (queue_id, status, phase, kind, cohort, token, size, build, base_sha, head_sha,
			landed_sha, landed_differs, mr_number, code, message, refusals, ci_conclusion, ci_fingerprint, ci_changed_at, phase_at, deadline_at, created_at, updated_at)
			VALUES (?, 1, 1, 1, 0, 'gone', 0, 0, '', '', '', 0, 0, '', '', 0, '', '', NOW(), NOW(), NOW(), NOW(), NOW())`, w.queue.ID)
		w.must(err)
	}
	var lock sync.Mutex
	outcomes := map[bot.ClaimOutcome]int{}
	arrived := make(chan struct{})
	var once sync.Once
	for _, s := range stores {
		db.Intercept(s, func(statement string, _ []any) error {
			if strings.HasPrefix(statement, "INSERT INTO merge_batch (") {
				once.Do(func() { close(arrived) })
			}
			return nil
		})
	}
	fs := []func(){func() {
		<-arrived
		if err := holder.Rollback(); err != nil {
			t.Error(err)
		}
	}}
	if !db.severalWriters() {
		w.must(holder.Rollback())
		fs = nil
	}
	for _, s := range stores {
		fs = append(fs, func() {
			result, err := s.Claim(context.Background(), claimSpec(w.queue, 1))
			if err != nil {
				t.Error(err)
			}
			lock.Lock()
			defer lock.Unlock()
			outcomes[result.Outcome]++
		})
	}
	together(fs...)
	if outcomes[bot.ClaimDone] != 1 || outcomes[bot.ClaimQueueBusy]+outcomes[bot.ClaimSlotOccupied] != 2 {
		t.Errorf("outcomes %v", outcomes)
	}
	w.invariants()
}

// A cancel and a new application of the same merge request: cancelled first, the application makes a new operation; applied first, it is told
// of the one that is, which then ends.
func reapplyRace(t *testing.T, db Database) {
	w := newWorld(t, db)
	stores := w.crew(2)
	made := 0
	for round := range 12 {
		op := w.apply(w.application(w.queue, round+1, true))
		again := w.again(op, 1)
		var applied bot.ApplyResult
		var moved bot.MoveResult
		together(func() {
			var err error
			if applied, err = stores[0].Apply(t.Context(), again); err != nil {
				t.Error(err)
			}
		}, func() {
			var err error
			if moved, err = stores[1].Move(t.Context(), w.moveTo(op, bot.OperationCancelled)); err != nil {
				t.Error(err)
			}
		})
		if moved != bot.MoveDone {
			t.Errorf("round %d: the cancel came to %d, and nobody else moved the operation", round, moved)
		}
		switch current := value[string](w, `SELECT b.operation_id FROM binding b JOIN operation o ON o.merge_request_id = b.subject_id WHERE o.operation_id = ?`, op.ID); {
		case applied.Outcome == bot.ApplyDone && current == again.OperationID:
			made++
		case applied.Outcome == bot.ApplyActive && current == op.ID:
		default:
			t.Errorf("round %d: outcome %d, and %s is current", round, applied.Outcome, current)
		}
		w.invariants()
	}
	t.Logf("the cancel came first in %d of 12 rounds", made)
}

// The row that a command lost to is gone when it looks: it begins anew, and says "later" when that goes on.
func winnerVanishes(t *testing.T, db Database) {
	w := newWorld(t, db)
	a := w.application(w.queue, 1, true)
	if !db.severalWriters() {
		w.apply(a) // nothing comes between look and insert
		return
	}
	vanish := func(times int) func(string, []any) error {
		there := false
		return func(statement string, _ []any) error {
			switch {
			case strings.HasPrefix(statement, "INSERT INTO idempotency") && times > 0:
				times--
				there = true
				w.execute(`INSERT INTO idempotency (request_id, operation_id, expires_at, created_at) VALUES (?, 'gone', NOW(), NOW())`, a.Command.RequestID)
			case strings.HasPrefix(statement, "SELECT operation_id FROM idempotency") && there:
				there = false
				w.execute(`DELETE FROM idempotency`)
			}
			return nil
		}
	}
	db.Intercept(w.store, vanish(100))
	if result, err := w.store.Apply(t.Context(), a); err != nil || result.Outcome != bot.ApplyRetryLater {
		t.Errorf("%+v, %v", result, err)
	}
	db.Intercept(w.store, vanish(1))
	if result, err := w.store.Apply(t.Context(), a); err != nil || result.Outcome != bot.ApplyDone || result.Operation.ID != a.OperationID {
		t.Errorf("%+v, %v", result, err)
	}
	w.onlyOne()
}
