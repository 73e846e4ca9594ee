package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/store"
)

func storedOnce(t *testing.T, db Database) {
	r := newRace(t, db, 3)
	r.rounds(func(n int) {
		var fresh atomic.Int32
		r.each(6, func(s *store.Store, _ int) {
			stored, err := s.InsertDelivery(t.Context(), "forge", fmt.Sprint("k", n), "push", []byte("{}"))
			if err != nil {
				t.Error(err)
			}
			if stored {
				fresh.Add(1)
			}
		})
		if fresh.Load() != 1 || r.value(`SELECT COUNT(*) FROM delivery`) != 1 {
			t.Errorf("fresh for %d", fresh.Load())
		}
	})
}

func takenOnce(t *testing.T, db Database) {
	r := newRace(t, db, 3)
	r.rounds(func(n int) {
		const all = 6
		for i := range all {
			r.deliver(fmt.Sprint("k", n, "-", i))
		}
		var lock sync.Mutex
		taken := map[int64]int{}
		r.each(6, func(s *store.Store, _ int) {
			for {
				deliveries, err := s.ClaimDeliveries(t.Context(), 2, lease)
				if err != nil {
					t.Error(err)
					return
				}
				lock.Lock()
				for _, d := range deliveries {
					taken[d.ID]++
				}
				enough := len(taken) == all
				lock.Unlock()
				if enough || t.Failed() {
					return
				}
			}
		})
		for id, n := range taken {
			if n != 1 {
				t.Errorf("delivery %d was taken %d times", id, n)
			}
		}
	})
}

func errandsTakenOnce(t *testing.T, db Database) {
	r := newRace(t, db, 3)
	r.rounds(func(int) {
		const all = 6
		r.fill(all, `outbox (kind, target, repository_id, number, payload, status, wanted, done, attempts, next_attempt_at, error, created_at, updated_at)`,
			func(int) string {
				return fmt.Sprintf(`(1, '%d', %d, 1, '{}', 1, 1, 0, 0, %[3]s, '', %[3]s, %[3]s)`, r.next(), r.repo.ID, past(db))
			})
		var lock sync.Mutex
		taken := map[int64]int{}
		r.each(3, func(s *store.Store, _ int) {
			for {
				errands, err := s.ClaimErrands(t.Context(), 2, lease)
				if err != nil {
					t.Error(err)
					return
				}
				lock.Lock()
				for _, e := range errands {
					taken[e.ID]++
				}
				enough := len(taken) == all
				lock.Unlock()
				if enough || t.Failed() {
					return
				}
			}
		})
		for id, n := range taken {
			if n != 1 {
				t.Errorf("errand %d was taken %d times", id, n)
			}
		}
	})
}

// Whoever says something finishes with the wish it has read: one that comes meanwhile stays due.
func wishRace(t *testing.T, db Database) {
	r := newRace(t, db, 2)
	r.rounds(func(int) {
		op := r.waiting(r.queue, 1)[0]
		first, second := r.moveTo(op, bot.OperationPendingApproval), r.moveTo(op, bot.OperationWaiting)
		second.From, second.Version = bot.OperationPendingApproval, 2
		if result, err := r.store.Move(t.Context(), first); err != nil || result != bot.MoveDone {
			t.Fatal(result, err)
		}
		errands, err := r.store.ClaimErrands(t.Context(), 10, lease)
		r.must(err)
		r.each(2, func(s *store.Store, i int) {
			if i == 0 {
				if result, err := s.Move(t.Context(), second); err != nil || result != bot.MoveDone {
					t.Error(result, err)
				}
				return
			}
			for _, e := range errands {
				if err := s.FinishErrand(t.Context(), e); err != nil {
					t.Error(err)
				}
			}
		})
		if n := r.value(`SELECT COUNT(*) FROM outbox WHERE status = 1 AND wanted = 2`); n != len(errands) {
			t.Errorf("of %d wishes that came last %d are due", len(errands), n)
		}
	})
}

func expiresOnce(t *testing.T, db Database) {
	r := newRace(t, db, 3)
	r.rounds(func(int) {
		r.seed(r.queue, bot.OperationPendingApproval, r.number+1, 3)
		r.number += 3
		r.execute(`UPDATE binding SET expires_at = ` + ago(db, time.Second))
		var ended atomic.Int64
		r.each(3, func(s *store.Store, _ int) {
			n, err := s.ExpireOperations(t.Context(), 100)
			if err != nil {
				t.Error(err)
			}
			ended.Add(int64(n))
		})
		if ended.Load() != 3 || r.value(`SELECT COUNT(*) FROM binding_history WHERE to_status = ?`, int(bot.OperationExpired)) != 3 {
			t.Errorf("%d ended", ended.Load())
		}
	})
	r.peaceful()
}

func oneRowEach(t *testing.T, db Database) {
	r := newRace(t, db, 3)
	r.rounds(func(n int) {
		external := int64(1000 + n)
		mr := r.application(r.queue, r.next(), true).MR
		r.each(6, func(s *store.Store, _ int) {
			repo, err := s.UpsertRepository(t.Context(), bot.RepositoryRef{Host: "forge", ExternalID: external, Path: fmt.Sprint("fruit/", n), DefaultBranch: "main"})
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := s.UpsertQueue(t.Context(), repo.ID, bot.DefaultQueueSettings("main"), ""); err != nil {
				t.Error(err)
			}
			if _, err := s.RecordMR(t.Context(), repo.ID, mr); err != nil {
				t.Error(err)
			}
		})
		for table, n := range map[string]int{
			"repository":    r.value(`SELECT COUNT(*) FROM repository WHERE external_id = ?`, external),
			"queue":         r.value(`SELECT COUNT(*) FROM queue q JOIN repository r ON r.id = q.repository_id WHERE r.external_id = ?`, external),
			"merge request": r.value(`SELECT COUNT(*) FROM merge_request`),
		} {
			if n != 1 {
				t.Errorf("%d rows for one %s", n, table)
			}
		}
		r.execute(`DELETE FROM queue WHERE repository_id <> ?`, r.repo.ID)
	})
}
