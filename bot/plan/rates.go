package plan

import (
	"math"

	"github.com/batchbot/batchbot/bot"
)

// Rates is how often two things happen in a queue.
type Rates struct {
	Culprit float64 // p: a change breaks CI with every tree that contains it
	Flake   float64 // f: CI fails on a good tree
}

// What is believed of a queue without a history, as if it had been counted.
const (
	priorCulprits = 1 // in
	priorChanges  = 50
	priorRuns     = 50 // of which flake_rate were flakes
)

// hides says how often a rejection is a flake taken for a culprit, as a share of the flake rate: those flakes are not seen. The simulator tells.
const hides = 0.5

const leastCulprit, mostCulprit = 0.0005, 0.38 // from 0.38 on testing one by one is best

// RatesOf counts culprits and flakes in a queue's trials. flake is what is believed of CI before there are any.
//
// A culprit shows when it is rejected. A flake shows when the members of a red batch all landed in the search that followed: then nothing was wrong
// with them.
func RatesOf(trials []bot.Trial, flake float64) Rates {
	culprits, changes := float64(priorCulprits), float64(priorChanges)
	flakes, runs := flake*priorRuns, float64(priorRuns)
	hidden := 0.0
	var open []search
	for i := range trials {
		t := &trials[i]
		if t.Verdict == bot.TrialGreen && t.Cohort == 0 {
			changes += float64(t.Members)
			runs++
			continue
		}
		at := indexOf(open, t.Root())
		switch {
		case t.Verdict == bot.TrialBroken:
			open = open[:0]
		case t.Verdict == bot.TrialGreen:
			changes += float64(t.Members)
			runs++
			if at < 0 {
				continue
			}
			if open[at].left -= t.Members; open[at].left == 0 {
				flakes++
				runs++
				open = without(open, at)
			}
		case t.Kind == bot.BatchCurated: // not searched: it shows neither
		case t.Rejected:
			culprits++
			changes++
			hidden += hides
			if at >= 0 {
				open = without(open, at)
			}
		case at >= 0:
			open[at].left = t.Members
		default:
			open = append(open, search{t.Root(), t.Members})
		}
	}
	return Rates{
		Culprit: min(max(culprits/changes, leastCulprit), mostCulprit),
		Flake:   flakes / max(runs-hidden, runs/2),
	}
}

// search is a red batch whose members have not all landed yet: the innermost of its cohort.
type search struct {
	root int64
	left int
}

func indexOf(open []search, root int64) int {
	for i := range open {
		if open[i].root == root {
			return i
		}
	}
	return -1
}

func without(open []search, i int) []search { return append(open[:i], open[i+1:]...) }

// size is how many fresh changes a batch tests at best: it is then green as often as red.
func (r Rates) size() int {
	if r.Culprit >= mostCulprit {
		return 1
	}
	return int(math.Round(math.Ln2 / r.Culprit))
}

// allGood is the probability that none of n changes, of which nothing is known, breaks CI.
func (r Rates) allGood(n int) float64 { return math.Pow(1-r.Culprit, float64(n)) }

// red is the probability that a batch of n changes, of which nothing is known, is red.
func (r Rates) red(n int) float64 { return 1 - (1-r.Flake)*r.allGood(n) }
