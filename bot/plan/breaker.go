package plan

import (
	"cmp"
	"slices"

	"github.com/batchbot/batchbot/bot"
)

const (
	// several is how many red batches with no member in common, and no green batch since the first, it takes.
	several = 3
	// incredible is the probability of such a row, by the queue's own rates, at which CI is taken for broken. TestTargets allows a sound CI to be
	// called broken once in 10,000 runs.
	incredible = 1e-4
)

// inARow lists the searches and batches that went red since the last green batch, the oldest first. They have no member in common: who is in one
// search is in no other.
func inARow(trials []bot.Trial) (roots []int64) {
	began := make(map[int64]int64) // by its first batch in the row: the number of a curated batch says nothing about when
	for i := len(trials) - 1; i >= 0 && trials[i].Verdict == bot.TrialRed; i-- {
		root := trials[i].Root()
		if began[root] == 0 {
			roots = append(roots, root)
		}
		began[root] = trials[i].Batch
		if root > 0 {
			began[root] = root
		}
	}
	slices.SortFunc(roots, func(a, b int64) int { return cmp.Compare(began[a], began[b]) })
	return roots
}

// unlikely reports whether the red batches since the last green one would hardly be there if CI judged changes.
func unlikely(trials []bot.Trial, rates Rates) bool {
	chance := 1.0
	for i := len(trials) - 1; i >= 0 && trials[i].Verdict == bot.TrialRed; i-- {
		chance *= foretold(trials[:i], &trials[i], rates)
	}
	return chance <= incredible
}

// foretold is the probability, by the trials before it, that a batch goes red.
func foretold(before []bot.Trial, t *bot.Trial, rates Rates) float64 {
	left := 0 // suspects just before
	for i := len(before) - 1; i >= 0 && left <= 0; i-- {
		switch {
		case before[i].Root() != t.Root():
		case before[i].Verdict == bot.TrialGreen:
			left -= before[i].Members
		case before[i].Verdict == bot.TrialRed:
			left += before[i].Members
		}
	}
	if t.Kind == bot.BatchFresh || t.Kind == bot.BatchCurated || left < t.Members {
		return rates.red(t.Members)
	}
	return believe(t.Root(), left, before, rates).red(t.Members)
}
