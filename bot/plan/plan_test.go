package plan

import (
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
)

func TestNext(t *testing.T) {
	t.Parallel()
	settings := bot.DefaultQueueSettings("main")
	settings.MaxBatchSize = 4
	patient := settings
	patient.FillWait = time.Minute
	for _, c := range []struct {
		name     string
		settings bot.QueueSettings
		waiting  bot.WaitingSet
		want     Choice
	}{
		{"nothing waits", settings, bot.WaitingSet{}, Choice{}},
		{"the front of the waiting set, up to the limit", settings, bot.WaitingSet{Fresh: 9}, Choice{Claim: true, Kind: bot.BatchFresh, Limit: 4}},
		{"one half of the suspects before anything fresh", settings, bot.WaitingSet{Fresh: 9, Cohorts: []bot.Cohort{{ID: 3, Size: 5}}}, Choice{Claim: true, Kind: bot.BatchProbe, Cohort: 3, Limit: 3}},
		{"the oldest search first", settings, bot.WaitingSet{Cohorts: []bot.Cohort{{ID: 3, Size: 2}, {ID: 8, Size: 6}}}, Choice{Claim: true, Kind: bot.BatchProbe, Cohort: 3, Limit: 1}},
		{"the last suspect alone", settings, bot.WaitingSet{Fresh: 1, Cohorts: []bot.Cohort{{ID: 3, Size: 1}}}, Choice{Claim: true, Kind: bot.BatchVerify, Cohort: 3, Limit: 1}},
		{"company is waited for", patient, bot.WaitingSet{Fresh: 2, OldestAge: 20 * time.Second}, Choice{Wait: 40 * time.Second}},
		{"but not beyond a full batch", patient, bot.WaitingSet{Fresh: 4}, Choice{Claim: true, Kind: bot.BatchFresh, Limit: 4}},
		{"nor beyond the wait", patient, bot.WaitingSet{Fresh: 1, OldestAge: time.Minute}, Choice{Claim: true, Kind: bot.BatchFresh, Limit: 4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := Next(c.settings, c.waiting); got != c.want {
				t.Errorf("Next = %+v, want %+v", got, c.want)
			}
		})
	}
}

// TestTheSearchEnds plays every position of a single culprit among up to nine members to the end: exactly the culprit fails, everybody else lands.
func TestTheSearchEnds(t *testing.T) {
	t.Parallel()
	settings := bot.DefaultQueueSettings("main")
	for n := 1; n <= 9; n++ {
		for culprit := range n {
			cohort := make(map[int]int64) // member → cohort, in order of key
			for m := range n {
				cohort[m] = 0
			}
			var failed []int
			for id := int64(1); len(cohort) > 0; id++ {
				if id > 40 {
					t.Fatalf("%d members, culprit %d: no end after 40 batches", n, culprit)
				}
				w := summarise(cohort, n)
				choice := Next(settings, w)
				var members []int
				for m := range n {
					if c, waits := cohort[m]; waits && c == choice.Cohort && len(members) < choice.Limit {
						members = append(members, m)
					}
				}
				batch := bot.Batch{ID: id, Cohort: choice.Cohort}
				red := false
				for _, m := range members {
					red = red || m == culprit
				}
				for _, m := range members {
					delete(cohort, m)
				}
				if !red {
					continue
				}
				verdict := AfterRed(batch, len(members))
				for m, c := range cohort {
					if verdict.FreeCohort != 0 && c == verdict.FreeCohort {
						cohort[m] = 0
					}
				}
				if verdict.Fail {
					failed = append(failed, members...)
					continue
				}
				for _, m := range members {
					cohort[m] = verdict.Cohort
				}
			}
			if len(failed) != 1 || failed[0] != culprit {
				t.Errorf("%d members, culprit %d: %v failed", n, culprit, failed)
			}
		}
	}
}

func summarise(cohort map[int]int64, n int) bot.WaitingSet {
	var w bot.WaitingSet
	sizes := make(map[int64]int)
	for m := range n {
		if c, waits := cohort[m]; waits && c == 0 {
			w.Fresh++
		} else if waits {
			sizes[c]++
		}
	}
	for id := int64(1); id <= 40; id++ {
		if sizes[id] > 0 {
			w.Cohorts = append(w.Cohorts, bot.Cohort{ID: id, Size: sizes[id]})
		}
	}
	return w
}
