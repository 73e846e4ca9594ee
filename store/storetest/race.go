package storetest

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/store"
)

// Several instances at the same rows in the same moment. Every test repeats its race in rounds, and after every step, which is every COMMIT of any
// instance, the tables are looked at. `make race-suite` runs hundreds
// of rounds, `make test` a few.
var raceTests = tests{
	// raceclaim.go
	"one of many claimers gets the slot (I1, I2)":        oneSlot,
	"claimers of many queues get a batch each":           manyQueues,
	"a claim and admissions meet (I3)":                   claimAndAdmissions,
	"of cancelling and claiming exactly one happens":     cancelOrClaim,
	"sweep, event and operator settle a batch once (I6)": settledOnce,
	"of evicting and landing exactly one happens":        evictOrLand,
	"two wait for a slot whose holder rolls back":        slotRolledBack,
	"everything at once on several queues":               allAtOnce,
	// raceapply.go
	"one operation is admitted once (I4)":                         admittedOnce,
	"one command by many makes one operation (I4)":                oneCommandMany,
	"the winner of a command vanishes":                            winnerVanishes,
	"many commands for one merge request make one operation (I5)": manyCommands,
	"of re-applying and cancelling the later one holds":           reapplyRace,
	"an ended application is replaced by one of many (I5)":        replacedOnce,
	"retrying and applying what failed":                           retryRace,
	"of the same move by many exactly one happens (I6)":           oneMove,
	// raceorder.go
	"two paths to operation and binding meet without a deadlock": onePathOrder,
	"expiry, approval and claim come from different ends":        differentEnds,
	"a real deadlock ends in a clean outcome":                    txDeadlock,
	// raceinbox.go
	"one delivery by many is stored once":                           storedOnce,
	"no delivery is taken by two":                                   takenOnce,
	"no errand is taken by two":                                     errandsTakenOnce,
	"finishing an errand and wanting it never loses the last wish":  wishRace,
	"of several that look for what expired each ends one only once": expiresOnce,
	"many instances make one row":                                   oneRowEach,
}

// timeVariable is the environment variable that says how long each race is repeated. Without it a race has a few rounds: more take time, and the
// race detector makes everything slow.
const (
	timeVariable = "RACE_TIME"
	fewRounds    = 5
)

// rounding says whether a race goes on after n rounds.
func rounding(t testing.TB) (goesOn func(n int) bool) {
	t.Helper()
	text := os.Getenv(timeVariable)
	if text == "" {
		return func(n int) bool { return n < fewRounds }
	}
	long, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s is %q: a duration such as 2s is needed", timeVariable, text)
	}
	end := time.Now().Add(long)
	return func(n int) bool { return n == 0 || time.Now().Before(end) }
}

// race is a world with several instances.
type race struct {
	*world
	stores []*store.Store
	hooks  map[*store.Store]func(statement string, args []any) error
	film   *film
	number int // of the last merge request
}

func newRace(t *testing.T, db Database, instances int) *race {
	t.Helper()
	r := &race{world: newWorld(t, db), hooks: make(map[*store.Store]func(string, []any) error), film: new(film)}
	for r.stores = append(r.stores, r.store); len(r.stores) < instances; {
		r.stores = append(r.stores, db.Open(t))
	}
	for _, s := range r.stores {
		db.Intercept(s, func(statement string, args []any) error {
			if statement == "after COMMIT" {
				r.step()
			}
			if hook := r.hooks[s]; hook != nil {
				return hook(statement, args)
			}
			return nil
		})
	}
	return r
}

// on calls f before every statement of an instance, as Database.Intercept does; nil ends that. Not while instances run.
func (r *race) on(s *store.Store, f func(statement string, args []any) error) { r.hooks[s] = f }

// step looks at the tables.
func (r *race) step() {
	broken, err := r.film.take(r.Context(), r.SQL)
	if err != nil {
		r.Errorf("look at the tables: %v", err)
	}
	for _, what := range broken {
		r.Error(what)
	}
}

// rounds runs a race round by round. Each begins with tables that hold repository and queues only, so that all of them can be looked at after
// every step; numbers are never used twice.
func (r *race) rounds(round func(n int)) {
	r.Helper()
	n, pictures, goesOn := 0, 0, rounding(r)
	for ; goesOn(n); n++ {
		for _, table := range tables {
			if table != "queue" && r.film.filled[table] {
				r.execute(`DELETE FROM ` + table)
			}
		}
		r.film = new(film)
		round(n)
		r.step()
		pictures += r.film.pictures
		if r.Failed() {
			r.Fatalf("in round %d", n+1)
		}
	}
	retries := int64(0)
	for _, s := range r.stores {
		retries += s.Stats().Retries
	}
	r.Logf("%d rounds, %d looks at the tables, %d transactions run again", n, pictures, retries)
}

// peaceful fails the test if a transaction had to be run again: none of them may have been the victim of a deadlock.
func (r *race) peaceful() {
	r.Helper()
	for i, s := range r.stores {
		if n := s.Stats().Retries; n > 0 {
			r.Errorf("instance %d ran %d transactions again: the lock order was not kept", i, n)
		}
	}
}

// next numbers a merge request that no round had before.
func (r *race) next() int {
	r.number++
	return r.number
}

// waiting puts n new requests into the waiting set of a queue.
func (r *race) waiting(queue bot.Queue, n int) []bot.Operation {
	r.Helper()
	ops := r.seed(queue, bot.OperationWaiting, r.number+1, n)
	r.number += n
	return ops
}

// running is a batch of n new requests.
func (r *race) running(queue bot.Queue, n int) bot.ClaimResult {
	r.Helper()
	r.waiting(queue, n)
	return r.claim(queue, n)
}

// each runs f n times at once, over the instances in turn.
func (r *race) each(n int, f func(s *store.Store, i int)) {
	fs := make([]func(), n)
	for i := range fs {
		fs[i] = func() { f(r.stores[i%len(r.stores)], i) }
	}
	together(fs...)
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

// tally counts answers that are given at the same moment.
type tally[K comparable] struct {
	mu sync.Mutex
	n  map[K]int
}

func (t *tally[K]) add(answer K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == nil {
		t.n = make(map[K]int)
	}
	t.n[answer]++
}

// once calls f before the first statement that begins so.
func once(begin string, f func()) func(string, []any) error {
	var once sync.Once
	return func(statement string, _ []any) error {
		if strings.HasPrefix(statement, begin) {
			once.Do(f)
		}
		return nil
	}
}
