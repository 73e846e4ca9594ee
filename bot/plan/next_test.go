package plan

import (
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// The trials of a queue, as its rows would tell them.
func green(batch, cohort int64, members int) bot.Trial {
	return bot.Trial{Batch: batch, Kind: kindOf(cohort, members), Cohort: cohort, Members: members, Verdict: bot.TrialGreen}
}

func red(batch, cohort int64, members int) bot.Trial {
	return bot.Trial{Batch: batch, Kind: kindOf(cohort, members), Cohort: cohort, Members: members, Verdict: bot.TrialRed}
}

func kindOf(cohort int64, members int) bot.BatchKind {
	switch {
	case cohort == 0:
		return bot.BatchFresh
	case members == 1:
		return bot.BatchVerify
	}
	return bot.BatchProbe
}

func rejected(batch, cohort int64) bot.Trial {
	t := red(batch, cohort, 1)
	t.Rejected = true
	return t
}

func curated(batch, cohort int64, members int) bot.Trial {
	t := red(batch, cohort, members)
	t.Kind = bot.BatchCurated
	return t
}

func curatedOut(batch, cohort int64, members int) bot.Trial {
	t := curated(batch, cohort, members)
	t.Rejected = true
	return t
}

func broke(batch, cohort int64, members int) bot.Trial {
	t := red(batch, cohort, members)
	t.Verdict = bot.TrialBroken
	return t
}

func TestNext(t *testing.T) {
	t.Parallel()
	plain := bot.DefaultQueueSettings("main")
	small, patient, sure := plain, plain, plain
	small.MaxBatchSize = 4
	patient.FillWait = time.Minute
	sure.FlakeRate = 0
	many := func(trials ...bot.Trial) []bot.Trial { return trials }
	for _, c := range []struct {
		name     string
		settings bot.QueueSettings
		waiting  bot.WaitingSet
		want     Choice
		words    string
	}{
		{
			"nothing waits", plain, bot.WaitingSet{},
			Choice{}, "nothing waits",
		},
		{
			"a new queue begins with 0.69 over two in a hundred", plain, bot.WaitingSet{Fresh: 90},
			Choice{Claim: true, Kind: bot.BatchFresh, Limit: 35, Of: 90}, "testing the first 35 of 90 that wait; 2.0 % of changes break CI here",
		},
		{
			"no more than the repository allows", small, bot.WaitingSet{Fresh: 4},
			Choice{Claim: true, Kind: bot.BatchFresh, Limit: 4, Of: 4}, "testing all 4 that wait; 2.0 % of changes break CI here",
		},
		{
			"the only one", plain, bot.WaitingSet{Fresh: 1},
			Choice{Claim: true, Kind: bot.BatchFresh, Limit: 35, Of: 1}, "testing the one that waits; 2.0 % of changes break CI here",
		},
		{
			"company is waited for", patient, bot.WaitingSet{Fresh: 2, OldestAge: 20 * time.Second},
			Choice{Wait: 40 * time.Second}, "waiting 40s for company",
		},
		{
			"but not beyond the best size", patient, bot.WaitingSet{Fresh: 35},
			Choice{Claim: true, Kind: bot.BatchFresh, Limit: 35, Of: 35}, "testing all 35 that wait; 2.0 % of changes break CI here",
		},
		{
			"nor beyond the wait", patient, bot.WaitingSet{Fresh: 1, OldestAge: time.Minute},
			Choice{Claim: true, Kind: bot.BatchFresh, Limit: 35, Of: 1}, "testing the one that waits; 2.0 % of changes break CI here",
		},
		{
			"half of the suspects before anything fresh", plain,
			bot.WaitingSet{Fresh: 9, Cohorts: []bot.Cohort{{ID: 12, Size: 14}}, Trials: many(red(12, 0, 14))},
			Choice{Claim: true, Kind: bot.BatchProbe, Cohort: 12, Limit: 7, Of: 14}, "testing 7 of 14 suspects of batch 12; 3 more runs expected",
		},
		{
			"the oldest search first", sure,
			bot.WaitingSet{Cohorts: []bot.Cohort{{ID: 3, Size: 2}, {ID: 8, Size: 6}}, Trials: many(red(3, 0, 2), red(8, 0, 6))},
			Choice{Claim: true, Kind: bot.BatchProbe, Cohort: 3, Limit: 1, Of: 2}, "testing 1 of 2 suspects of batch 3; 1 more run expected",
		},
		{
			"the last suspect alone", plain,
			bot.WaitingSet{Fresh: 1, Cohorts: []bot.Cohort{{ID: 3, Size: 1}}, Trials: many(red(3, 0, 2), green(4, 3, 1), green(5, 0, 7))},
			Choice{Claim: true, Kind: bot.BatchVerify, Cohort: 3, Limit: 1, Of: 1}, "testing the last suspect of batch 3 alone",
		},
		{
			"the last suspect again when it may have been a flake", plain,
			bot.WaitingSet{Cohorts: []bot.Cohort{{ID: 3, Size: 1}}, Trials: many(red(3, 0, 1))},
			Choice{Claim: true, Kind: bot.BatchVerify, Cohort: 3, Limit: 1, Of: 1, Again: true},
			"testing the last suspect of batch 3 alone once more: CI may have failed for nothing",
		},
		{
			"all suspects again where a flake is likelier than a culprit", plain,
			bot.WaitingSet{Cohorts: []bot.Cohort{{ID: 90, Size: 2}}, Trials: many(green(88, 0, 950), red(90, 0, 2))},
			Choice{Claim: true, Kind: bot.BatchProbe, Cohort: 90, Limit: 2, Of: 2, Again: true},
			"testing all 2 suspects of batch 90 once more: CI may have failed for nothing",
		},
		{
			"a fresh batch between two probes", plain,
			bot.WaitingSet{Fresh: 5, Cohorts: []bot.Cohort{{ID: 3, Size: 4}}, Trials: many(red(3, 0, 8), green(4, 3, 4))},
			Choice{Claim: true, Kind: bot.BatchFresh, Limit: 37, Of: 5, Aside: 3}, "testing all 5 that wait while batch 3 is searched; 1.9 % of changes break CI here",
		},
		{
			"and then the next probe", plain,
			bot.WaitingSet{Fresh: 5, Cohorts: []bot.Cohort{{ID: 3, Size: 4}}, Trials: many(red(3, 0, 8), green(4, 3, 4), green(5, 0, 6))},
			Choice{Claim: true, Kind: bot.BatchProbe, Cohort: 3, Limit: 2, Of: 4}, "testing 2 of 4 suspects of batch 3; 1 more run expected",
		},
		{
			"none when two searches wait", plain,
			bot.WaitingSet{Fresh: 5, Cohorts: []bot.Cohort{{ID: 3, Size: 4}, {ID: 5, Size: 6}}, Trials: many(red(3, 0, 8), red(5, 0, 6), green(6, 3, 4))},
			Choice{Claim: true, Kind: bot.BatchProbe, Cohort: 3, Limit: 2, Of: 4}, "testing 2 of 4 suspects of batch 3; 1 more run expected",
		},
		{
			"who waits for company rides in no interleaved batch", patient,
			bot.WaitingSet{Fresh: 5, Cohorts: []bot.Cohort{{ID: 3, Size: 4}}, Trials: many(red(3, 0, 8), green(4, 3, 4))},
			Choice{Claim: true, Kind: bot.BatchProbe, Cohort: 3, Limit: 2, Of: 4}, "testing 2 of 4 suspects of batch 3; 1 more run expected",
		},
		{
			"a curated batch in its turn", plain,
			bot.WaitingSet{Fresh: 5, OldestAge: time.Minute, Cohorts: []bot.Cohort{{ID: -7, Size: 3, Curated: true, Age: time.Hour}}},
			Choice{Claim: true, Kind: bot.BatchCurated, Cohort: -7, Limit: 3, Of: 3}, "testing the 3 members of curated batch 7 together",
		},
		{
			"a curated batch behind who came first", plain,
			bot.WaitingSet{Fresh: 5, OldestAge: time.Hour, Cohorts: []bot.Cohort{{ID: -7, Size: 3, Curated: true, Age: time.Minute}}},
			Choice{Claim: true, Kind: bot.BatchFresh, Limit: 35, Of: 5}, "testing all 5 that wait; 2.0 % of changes break CI here",
		},
		{
			"a curated batch between two probes", plain,
			bot.WaitingSet{Cohorts: []bot.Cohort{{ID: 3, Size: 4}, {ID: -7, Size: 3, Curated: true}}, Trials: many(red(3, 0, 8), green(4, 3, 4))},
			Choice{Claim: true, Kind: bot.BatchCurated, Cohort: -7, Limit: 3, Of: 3, Aside: 3}, "testing the 3 members of curated batch 7 together while batch 3 is searched",
		},
		{
			"a red curated batch once more", plain,
			bot.WaitingSet{Cohorts: []bot.Cohort{{ID: -7, Size: 3, Curated: true}}, Trials: many(curated(9, -7, 3))},
			Choice{Claim: true, Kind: bot.BatchCurated, Cohort: -7, Limit: 3, Of: 3, Again: true},
			"testing the 3 members of curated batch 7 together once more: CI may have failed for nothing",
		},
		{
			"a curated batch that failed, was edited and approved again", plain,
			bot.WaitingSet{Cohorts: []bot.Cohort{{ID: -7, Size: 3, Curated: true}}, Trials: many(curated(9, -7, 3), curatedOut(10, -7, 3))},
			Choice{Claim: true, Kind: bot.BatchCurated, Cohort: -7, Limit: 3, Of: 3}, "testing the 3 members of curated batch 7 together",
		},
		{
			"a curated batch that the queue allows no more rides whole all the same", small,
			bot.WaitingSet{Cohorts: []bot.Cohort{{ID: -7, Size: 9, Curated: true}}},
			Choice{Claim: true, Kind: bot.BatchCurated, Cohort: -7, Limit: 9, Of: 9}, "testing the 9 members of curated batch 7 together",
		},
		{
			"of two curated batches the one that waits longer", plain,
			bot.WaitingSet{Cohorts: []bot.Cohort{{ID: -9, Size: 2, Curated: true, Age: time.Minute}, {ID: -7, Size: 3, Curated: true, Age: time.Hour}}},
			Choice{Claim: true, Kind: bot.BatchCurated, Cohort: -7, Limit: 3, Of: 3}, "testing the 3 members of curated batch 7 together",
		},
		{
			"no curated batch when two searches wait", plain,
			bot.WaitingSet{
				Cohorts: []bot.Cohort{{ID: -7, Size: 3, Curated: true, Age: time.Hour}, {ID: 3, Size: 4}, {ID: 5, Size: 6}},
				Trials:  many(red(3, 0, 8), red(5, 0, 6), green(6, 3, 4)),
			},
			Choice{Claim: true, Kind: bot.BatchProbe, Cohort: 3, Limit: 2, Of: 4}, "testing 2 of 4 suspects of batch 3; 1 more run expected",
		},
		{
			"suspects of whom no red batch is known are tested together", plain,
			bot.WaitingSet{Cohorts: []bot.Cohort{{ID: 3, Size: 5}}, Trials: many(broke(4, 0, 2))},
			Choice{Claim: true, Kind: bot.BatchProbe, Cohort: 3, Limit: 5, Of: 5, Again: true},
			"testing all 5 suspects of batch 3 once more: CI may have failed for nothing",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := Next(c.settings, c.waiting)
			words := got.String()
			got.Rates, got.suspects = Rates{}, belief{}
			if got != c.want {
				t.Errorf("Next = %#v, want %#v", got, c.want)
			}
			if words != c.words {
				t.Errorf("it says %q, want %q", words, c.words)
			}
		})
	}
}
