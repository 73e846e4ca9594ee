package plan

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/batchbot/batchbot/bot"
)

// playBook runs one queue to its end under the rules that hold for every search, whatever CI says.
type playBook struct {
	*queue
	testing.TB
	before Choice
}

func play(t testing.TB, w *world, flake float64) *playBook {
	b := &playBook{queue: newQueue(w, flake), TB: t}
	b.watch = b.rules
	return b
}

// rules checks one batch just before it is run.
func (b *playBook) rules(c Choice, members []change) {
	b.Helper()
	if len(members) == 0 || len(members) > b.settings.MaxBatchSize {
		b.Fatalf("a batch of %d", len(members))
	}
	// Nobody is overtaken: a batch takes the front of what it takes from.
	rest := b.fresh
	if c.Cohort != 0 {
		rest = nil
		for _, x := range b.cohorts {
			switch {
			case x.id == c.Cohort:
				rest = x.members
			case x.id < c.Cohort:
				b.Fatalf("cohort %d is searched although %d is older", c.Cohort, x.id)
			}
		}
	}
	line := slices.Concat(members, rest)
	for i := range line[1:] {
		if line[i].place > line[i+1].place {
			b.Fatalf("batch %d takes %v and leaves %v: out of order", b.batches+1, members, rest)
		}
	}
	// Newcomers pass a search at most once a probe, and never two of them.
	if searches := len(b.cohorts); c.Cohort == 0 && searches > 0 && (searches > 1 || b.before.Cohort == 0) {
		b.Fatalf("a fresh batch while %d cohorts wait, after %s", searches, b.before)
	}
	if c.String() == "" {
		b.Fatal("a choice without words")
	}
	b.before = c
}

// end runs at most so many batches and checks that everybody came out.
func (b *playBook) end(most int) {
	b.Helper()
	for range most {
		if !b.step() {
			if len(b.fresh) > 0 || len(b.cohorts) > 0 {
				b.Fatalf("nothing is chosen although %d are fresh and %d cohorts wait", len(b.fresh), len(b.cohorts))
			}
			return
		}
	}
	b.Fatalf("no end after %d batches: %d fresh, cohorts %v", most, len(b.fresh), b.cohorts)
}

// scripted is a world of n changes in which those in the set are culprits, and CI fails for nothing in the runs of a second set.
func scripted(n int, culprits, flakes uint) *world {
	w := &world{}
	for i := range n {
		w.supply = append(w.supply, change{place: i, culprit: culprits>>i&1 == 1})
	}
	w.flake = func() bool { return w.runs <= 64 && flakes>>(w.runs-1)&1 == 1 }
	return w
}

func count(set uint) (n int) {
	for ; set != 0; set &= set - 1 {
		n++
	}
	return n
}

// Every set of culprits among up to eight: exactly they fail.
func TestEverySetOfCulpritsIsFound(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 8; n++ {
		for culprits := range uint(1) << n {
			b := play(t, scripted(n, culprits, 0), 0.01)
			b.end(6*n + 2)
			if b.landed != n-count(culprits) || b.rejected != count(culprits) || b.wronged != 0 {
				t.Fatalf("%d members, culprits %08b: %d landed, %d failed, %d of them wrongly", n, culprits, b.landed, b.rejected, b.wronged)
			}
		}
	}
}

// Every set of culprits, with each pattern of flakes in the first runs: the search ends, no culprit lands, and who failed wrongly lands when it
// comes back.
func TestFlakesDelayAndNothingElse(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 4; n++ {
		for culprits := range uint(1) << n {
			for flakes := range uint(1) << 8 {
				b := play(t, scripted(n, culprits, flakes), 0.01)
				b.end(10*n + 20)
				if b.landed != n-count(culprits) || b.rejected-b.wronged != count(culprits) {
					t.Fatalf("%d members, culprits %04b, flakes %08b: %d landed, %d failed, %d of them wrongly", n, culprits, flakes, b.landed, b.rejected, b.wronged)
				}
			}
		}
	}
}

// A single flake convicts nobody in a queue without culprits: one red run is never enough.
func TestOneFlakeConvictsNobody(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 40; n++ {
		for at := range 20 {
			b := play(t, scripted(n, 0, 1<<at), 0.01)
			b.end(100)
			if b.rejected != 0 || b.landed != n {
				t.Fatalf("%d members, flake in run %d: %d failed", n, at+1, b.rejected)
			}
		}
	}
}

// Long random histories in which requests also leave while they wait.
func TestWhoLeavesDoesNotStopTheSearch(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		dice := rand.New(rand.NewPCG(seed, 3))
		const n = 400
		b := play(t, newWorld(0.02+0.3*dice.Float64(), 0.1*dice.Float64(), n, seed), 0.1*dice.Float64())
		b.settings.MaxBatchSize = 1 + dice.IntN(60)
		left := 0
		for range 20 * n {
			if dice.IntN(4) == 0 {
				left += b.leave(dice)
			}
			if !b.step() {
				break
			}
		}
		b.end(1)
		if b.landed+b.rejected-b.wronged+left != n {
			t.Errorf("seed %d: of %d changes %d landed, %d failed rightly, %d left", seed, n, b.landed, b.rejected-b.wronged, left)
		}
	}
}

// leave takes one waiting request out, a suspect if there are any.
func (b *playBook) leave(dice *rand.Rand) int {
	from := &b.fresh
	i := 0
	if len(b.cohorts) > 0 {
		i = dice.IntN(len(b.cohorts))
		from = &b.cohorts[i].members
	}
	if len(*from) == 0 {
		return 0
	}
	at := dice.IntN(len(*from))
	*from = append((*from)[:at:at], (*from)[at+1:]...)
	if len(b.cohorts) > 0 && len(*from) == 0 {
		b.cohorts = append(b.cohorts[:i], b.cohorts[i+1:]...)
	}
	return 1
}

// A runner breaks at some moment and fails everything: the queue parks before long, and hardly anybody is blamed.
func TestABrokenRunnerParksTheQueue(t *testing.T) {
	t.Parallel()
	runs, blamed := 0, 0
	const times = 30
	for seed := range uint64(times) {
		for _, p := range []float64{0.005, 0.02, 0.1} {
			w := newWorld(p, 0.01, 20_000, seed)
			q := newQueue(w, 0.01)
			for range 40 + seed {
				q.step()
			}
			q.parked, w.wronged = 0, 0
			begin := w.runs
			w.flake = func() bool { return true }
			for q.parked == 0 && w.runs < begin+60 {
				q.step()
			}
			if q.parked == 0 {
				t.Fatalf("seed %d, p %.3f: not parked after %d red runs in a row", seed, p, w.runs-begin)
			}
			runs += w.runs - begin
			blamed += w.wronged
			if w.wronged > 4 {
				t.Errorf("seed %d, p %.3f: %d were blamed for a broken runner", seed, p, w.wronged)
			}
			// Mended and resumed, the queue goes on as if nothing had been: nobody else fails for it.
			w.flake, w.wronged = func() bool { return false }, 0
			for range 100 {
				q.step()
			}
			if w.wronged > 0 {
				t.Errorf("seed %d, p %.3f: after it was mended %d failed wrongly", seed, p, w.wronged)
			}
		}
	}
	t.Logf("parked after %.1f red runs on average, %.2f blamed", float64(runs)/(3*times), float64(blamed)/(3*times))
	if blamed > 2*3*times {
		t.Errorf("%d blamed in %d outages", blamed, 3*times)
	}
}

// A choice depends on rows alone, so it does not matter who makes it, or how often it is made.
func TestTheSameRowsMeanTheSameChoice(t *testing.T) {
	t.Parallel()
	w := newWorld(0.1, 0.02, 500, 1)
	q := newQueue(w, 0.01)
	q.watch = func(c Choice, _ []change) {
		again := bot.WaitingSet{Fresh: q.waiting.Fresh, Cohorts: q.waiting.Cohorts, Trials: append([]bot.Trial(nil), q.waiting.Trials...)}
		if Next(q.settings, again) != c {
			t.Fatal("another choice from the same rows")
		}
	}
	for w.runs < 2000 && q.step() {
	}
}
