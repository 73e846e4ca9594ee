package storetest

import (
	"sync"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// heldFor is how long a transaction is held open while others admit.
const heldFor = 2 * time.Second

// BenchmarkAdmission measures how long four instances take to admit a request, in a queue where 10,000 wait: alone, beside a claim and a settlement of the
// store's that are held open for two seconds, and beside what the store avoids. One that waits for such a transaction takes two seconds.
//
//	admitted  requests, by all four, while it was open
//	waiting   of the four at its end, for a lock of it
//	locks     of rows that it held; on MySQL of the waiting set, on MariaDB of all tables
//	p50-ms    and p99-ms: of the admissions, those that it kept waiting included
//
// In SQLite one transaction writes at a time, so nothing is held open: claims and settlements follow each other, each as short as it is.
func BenchmarkAdmission(b *testing.B, newDatabase func(t testing.TB) Database) {
	measure := func(name string, open func(w *world) holding) {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				w := newWorld(b, newDatabase(b))
				w.ids = scattered
				w.crowd(10_000)
				w.beside(b, open(w))
			}
		})
	}
	nothing := func(*world) holding { return holding{"nothing", func() {}} }
	measure("nothing open", nothing)
	if db := newDatabase(b); !db.severalWriters() {
		measure("claims in turn", (*world).claimsInTurn)
		return
	}
	measure("a claim of 5000", func(w *world) holding {
		_, h := w.openClaim(5000)
		return h
	})
	measure("a settlement of 50 that ride again", func(w *world) holding { return w.openSettlement(w.claim(w.queue, 50)) })
	for i, what := range avoided {
		measure("AVOIDED "+what, func(w *world) holding {
			fifty := w.claim(w.queue, 50)
			w.execute(`ANALYZE TABLE merge_batch_request`)
			return w.openAvoided(i, fifty)
		})
	}
}

// beside lets four instances admit for as long as a transaction is held open, and reports what came of it.
func (w *world) beside(b *testing.B, h holding) {
	w.Helper()
	ws := w.writers(4)
	end := make(chan struct{})
	held := time.AfterFunc(heldFor, func() { close(end) })
	defer held.Stop()
	b.ResetTimer()
	var took []time.Duration
	var all sync.WaitGroup
	all.Go(func() {
		took = ws.admit(func(int) bool {
			select {
			case <-end:
				return false
			default:
				return true
			}
		})
	})
	<-end
	waiting, locks := 0, 0
	if w.severalWriters() {
		waiting = w.lockWaits()
		for _, n := range w.rowLocks("merge_batch_request") {
			locks += n
		}
	}
	h.release()
	all.Wait()
	b.StopTimer()
	milliseconds := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(len(took)-waiting), "admitted")
	b.ReportMetric(float64(waiting), "waiting")
	b.ReportMetric(float64(locks), "locks")
	b.ReportMetric(milliseconds(percentile(took, 50)), "p50-ms")
	b.ReportMetric(milliseconds(percentile(took, 99)), "p99-ms")
}

// claimsInTurn claims 50 and sends them back, over and over.
func (w *world) claimsInTurn() holding {
	w.Helper()
	s := w.Open(w)
	end := make(chan struct{})
	var claims sync.WaitGroup
	claims.Go(func() {
		for {
			select {
			case <-end:
				return
			default:
			}
			claimed, err := s.Claim(w.Context(), claimSpec(w.queue, 50))
			if err == nil && claimed.Outcome == bot.ClaimDone {
				_, err = s.Settle(w.Context(), settlementOf(claimed, bot.BatchFailed, bot.OperationWaiting))
			}
			if err != nil {
				w.Error(err)
				return
			}
		}
	})
	stop := sync.OnceFunc(func() {
		close(end)
		claims.Wait()
	})
	w.Cleanup(stop)
	return holding{"claims in turn", stop}
}
