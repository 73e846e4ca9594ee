package plan

import (
	"slices"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// Choice says what to claim, and, by String, why.
type Choice struct {
	Claim  bool // false: nothing to do now
	Kind   bot.BatchKind
	Cohort int64
	Limit  int           // members
	Wait   time.Duration // with Claim false: look again after this long; 0 = only when something changes

	Of    int   // how many wait of which these are the first: suspects of the cohort, or fresh requests
	Again bool  // a red set is run once more as it is, because a flake may be the cause
	Aside int64 // fresh or curated: rides between two probes of this cohort's suspects; 0 = there are none
	Rates Rates // what the choice rests on

	suspects belief
}

// Runs is how many more CI runs the search is expected to take after this one.
func (c Choice) Runs() float64 { return max(0, c.suspects.runs()-1) }

// Next chooses the next batch of a queue whose slot is free:
//
//  1. after a probe, if exactly one cohort is searched, what a newcomer could ride in;
//  2. else the oldest search;
//  3. else the front of the waiting set.
func Next(settings bot.QueueSettings, w bot.WaitingSet) Choice {
	rates := RatesOf(w.Trials, settings.FlakeRate)
	searches, oldest := 0, bot.Cohort{}
	for _, c := range w.Cohorts {
		if c.Curated || c.Size == 0 {
			continue
		}
		if searches++; searches == 1 {
			oldest = c
		}
	}
	if searches == 0 {
		return front(settings, w, rates)
	}
	if searches == 1 && afterProbe(w.Trials) {
		if aside := front(settings, w, rates); aside.Claim {
			aside.Aside = oldest.ID
			return aside
		}
	}
	return probe(settings, oldest, w.Trials, rates)
}

// afterProbe reports whether the last trial was part of a search.
func afterProbe(trials []bot.Trial) bool {
	return len(trials) > 0 && trials[len(trials)-1].Cohort != 0 && trials[len(trials)-1].Kind != bot.BatchCurated
}

// probe chooses the next step of a search.
func probe(settings bot.QueueSettings, c bot.Cohort, trials []bot.Trial, rates Rates) Choice {
	b := believe(c.ID, c.Size, trials, rates)
	choice := Choice{Claim: true, Kind: bot.BatchProbe, Cohort: c.ID, Limit: min(b.prefix(), settings.MaxBatchSize), Of: c.Size, Rates: rates, suspects: b}
	if c.Size == 1 {
		choice.Kind = bot.BatchVerify
		choice.Again = aloneBefore(c.ID, trials)
	} else {
		choice.Again = choice.Limit == c.Size
	}
	return choice
}

// aloneBefore reports whether the last suspect of a cohort went red alone already.
func aloneBefore(cohort int64, trials []bot.Trial) bool {
	for _, t := range slices.Backward(trials) {
		if t.Root() == cohort {
			return t.Verdict == bot.TrialRed && t.Members == 1
		}
	}
	return false
}

// front chooses what the front of the waiting set is: a curated batch, or as many fresh requests as are best tested together.
func front(settings bot.QueueSettings, w bot.WaitingSet, rates Rates) Choice {
	var curated bot.Cohort
	for _, c := range w.Cohorts {
		if c.Curated && c.Size > 0 && (curated.ID == 0 || c.Age > curated.Age) {
			curated = c
		}
	}
	size := min(settings.MaxBatchSize, rates.size())
	company := w.Fresh > 0 && w.Fresh < size && w.OldestAge < settings.FillWait
	switch {
	case curated.ID != 0 && (w.Fresh == 0 || company || curated.Age >= w.OldestAge):
		return Choice{Claim: true, Kind: bot.BatchCurated, Cohort: curated.ID, Limit: curated.Size, Of: curated.Size, Rates: rates,
			Again: redBefore(curated.ID, w.Trials)}
	case w.Fresh == 0:
		return Choice{Rates: rates}
	case company:
		return Choice{Wait: settings.FillWait - w.OldestAge, Rates: rates}
	}
	return Choice{Claim: true, Kind: bot.BatchFresh, Limit: size, Of: w.Fresh, Rates: rates}
}

// redBefore reports whether a curated batch went red already since it was approved: one that failed, was edited and approved again, is another set.
func redBefore(cohort int64, trials []bot.Trial) bool {
	for _, t := range slices.Backward(trials) {
		if t.Kind == bot.BatchCurated && t.Cohort == cohort && t.Verdict == bot.TrialRed {
			return !t.Rejected
		}
	}
	return false
}
