package plan

import (
	"github.com/batchbot/batchbot/bot"
)

// Red says what becomes of the members of a batch that CI found red, and, by String, why.
type Red struct {
	Broken     []int64 // not empty: CI itself is to blame, by these batches and searches; the members wait again, nobody is suspected
	Fail       bool    // the members fail
	Cohort     int64   // else: the cohort in which they wait
	FreeCohort int64   // > 0: what still waits of this cohort is fresh again

	Kind   bot.BatchKind
	Tested int
	Guilty float64 // probability that a culprit is among the members
}

// AfterRed decides what a red batch means. w is what was known before, without this batch; batch is the batch as it is settled.
//
// The members become the suspects, and what was behind a red prefix rides fresh: nothing is known of it any more. A member that left after the
// verdict took nothing of the suspicion with it: who was tested together with others is not convicted by that.
func AfterRed(settings bot.QueueSettings, w bot.WaitingSet, batch bot.Batch) Red {
	this := bot.Trial{Batch: batch.ID, Kind: batch.Kind, Cohort: batch.Cohort, Members: batch.Tested, Verdict: bot.TrialRed}
	trials := append(w.Trials, this)
	red := Red{Cohort: this.Root(), Kind: batch.Kind, Tested: batch.Tested}
	curated := batch.Kind == bot.BatchCurated
	if !curated {
		red.FreeCohort = batch.Cohort
	}
	row := inARow(trials)
	if batch.Tested > 1 && len(row) < several && !curated {
		return red // the most frequent case needs no numbers
	}
	rates := RatesOf(w.Trials, settings.FlakeRate)
	if len(row) >= several && unlikely(trials, rates) {
		red.Broken, red.Cohort = row, 0
		if curated {
			red.Cohort = batch.Cohort
		}
		return red
	}
	b := believe(red.Cohort, batch.Tested, trials, rates)
	red.Guilty = b.guilty()
	switch {
	case curated:
		red.Fail = red.Guilty >= 0.5 || redBefore(batch.Cohort, w.Trials)
	case batch.Tested == 1:
		red.Fail = red.Guilty >= convicts
	}
	return red
}
