package plan

import (
	"math"

	"github.com/batchbot/batchbot/bot"
)

const (
	// convicts is the probability of being the cause at which the last suspect fails.
	convicts = 0.95
	// suspects is the probability of a culprit in a red set below which the set is run again as it is.
	suspects = 0.6
)

// belief is what is believed of the suspects of one cohort.
type belief struct {
	rates Rates
	n     int     // suspects
	luck  float64 // probability that all its batches went red although every suspect is good
}

// believe weighs the red batches of a cohort, of which n suspects are left.
//
// They are nested: each one's members are the suspects it left, in which the next one lies. So they are walked from the inside out. If the
// suspects are good, a batch went red by a flake or by a culprit among those it had beside the next inner one: the tail that was given
// back, or who left the queue meanwhile. Who landed is good. A culprit found on the way makes all further out red too.
func believe(cohort int64, n int, trials []bot.Trial, rates Rates) belief {
	lucky, culprit := 1.0, 0.0 // the batches so far are red: by flakes alone; by a culprit outside of the suspects
	inner, landed := n, 0
	for i := len(trials) - 1; i >= 0; i-- {
		t := &trials[i]
		if t.Verdict == bot.TrialBroken {
			break // CI failed whatever it was given: that is no evidence
		}
		if t.Root() != cohort {
			continue
		}
		if t.Kind == bot.BatchCurated && t.Rejected {
			break // of the set as it was before
		}
		if t.Verdict == bot.TrialGreen {
			landed += t.Members
			continue
		}
		good := rates.allGood(max(0, t.Members-landed-inner))
		culprit += lucky * (1 - good)
		lucky *= good * rates.Flake
		inner, landed = t.Members, 0
		if t.Batch == cohort {
			break
		}
	}
	return belief{rates: rates, n: n, luck: lucky + culprit}
}

// guilty is the probability that a culprit is among the suspects.
func (b belief) guilty() float64 {
	good := b.rates.allGood(b.n)
	return (1 - good) / (1 - good + good*b.luck)
}

// again reports whether to run the suspects as they are: a flake is likely enough to make that the better test.
func (b belief) again() bool { return b.guilty() < suspects }

// clear is the probability that none of the first k suspects breaks CI.
func (b belief) clear(k int) float64 {
	good := b.rates.allGood(b.n)
	return (b.rates.allGood(k) - good + good*b.luck) / (1 - good + good*b.luck)
}

// red is the probability that a run of the first k suspects is red.
func (b belief) red(k int) float64 { return 1 - (1-b.rates.Flake)*b.clear(k) }

// prefix is how many suspects to test: those of which it is an even chance that the first culprit is among them.
func (b belief) prefix() int {
	if b.n < 2 || b.again() {
		return b.n
	}
	good := b.rates.allGood(b.n)
	even := math.Log((1+good*(1-b.luck))/2) / math.Log(1-b.rates.Culprit) // clear(even) is a half
	k := min(max(int(even), 1), b.n-1)
	if k+1 < b.n && b.clear(k)-0.5 > 0.5-b.clear(k+1) {
		k++
	}
	return k
}

// runs is how many runs the search takes on average until it ends, the next one included. Flakes are left out.
func (b belief) runs() float64 {
	known := make(map[int]float64)
	var left func(n int, alone bool) float64
	left = func(n int, alone bool) float64 {
		switch {
		case n < 1, n == 1 && alone:
			return 0
		case n == 1:
			return 1
		}
		if r, ok := known[n]; ok {
			return r
		}
		sure := belief{rates: b.rates, n: n}
		k := sure.prefix()
		red := (1 - b.rates.allGood(k)) / (1 - b.rates.allGood(n))
		r := 1 + red*left(k, k == 1) + (1-red)*left(n-k, false)
		known[n] = r
		return r
	}
	if b.n > 1 && b.again() {
		return 1 + b.guilty()*left(b.n, false)
	}
	return left(b.n, false)
}
