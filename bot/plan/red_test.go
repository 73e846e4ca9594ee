package plan

import (
	"slices"
	"testing"

	"github.com/batchbot/batchbot/bot"
)

func TestAfterRed(t *testing.T) {
	t.Parallel()
	// One batch after the other, half of them of no more than one, so that three in a row are nothing to be believed.
	calm := []bot.Trial{green(1, 0, 900), green(2, 0, 900)}
	for _, c := range []struct {
		name   string
		trials []bot.Trial
		batch  bot.Batch
		want   Red
		words  string
	}{
		{
			"a fresh batch", nil, bot.Batch{ID: 7, Kind: bot.BatchFresh, Tested: 5},
			Red{Cohort: 7}, "its 5 members are suspects",
		},
		{
			"a red prefix gives back what is behind it", []bot.Trial{red(7, 0, 9)}, bot.Batch{ID: 8, Kind: bot.BatchProbe, Cohort: 7, Tested: 4},
			Red{Cohort: 7, FreeCohort: 7}, "its 4 members are suspects",
		},
		{
			"alone from the start, it may be a flake", nil, bot.Batch{ID: 7, Kind: bot.BatchFresh, Tested: 1},
			Red{Cohort: 7}, "it was red alone, which may be a flake: the cause with a probability of 67 %, it is tested once more",
		},
		{
			"alone, and alone again", []bot.Trial{red(7, 0, 1)}, bot.Batch{ID: 8, Kind: bot.BatchVerify, Cohort: 7, Tested: 1},
			Red{Cohort: 7, FreeCohort: 7, Fail: true}, "it was red alone and is the cause with a probability of 100 %",
		},
		{
			"the last of a search", []bot.Trial{red(7, 0, 4), green(8, 7, 3)}, bot.Batch{ID: 9, Kind: bot.BatchVerify, Cohort: 7, Tested: 1},
			Red{Cohort: 7, FreeCohort: 7, Fail: true}, "it was red alone and is the cause with a probability of 100 %",
		},
		{
			"the first of a search, run alone already", []bot.Trial{red(7, 0, 2)}, bot.Batch{ID: 8, Kind: bot.BatchProbe, Cohort: 7, Tested: 1},
			Red{Cohort: 7, FreeCohort: 7, Fail: true}, "it was red alone and is the cause with a probability of 99 %",
		},
		{
			"three in a row from a CI that hardly ever fails", append(calm[:2:2], red(3, 0, 9), red(4, 3, 4), red(5, 0, 8)), bot.Batch{ID: 6, Kind: bot.BatchFresh, Tested: 7},
			Red{Broken: []int64{3, 5, 6}},
			"batches with no member in common failed CI in a row (3, 5 and 6) and none passed in between: a runner or the target itself is broken, not the members. " +
				"Mend it, then resume the queue; who failed alone since batch 3 may be innocent: /batch retry",
		},
		{
			"and what waits of the search is fresh again", append(calm[:2:2], red(3, 0, 9), red(4, 0, 8), red(5, 0, 7)), bot.Batch{ID: 6, Kind: bot.BatchProbe, Cohort: 3, Tested: 4},
			Red{Broken: []int64{3, 4, 5}, FreeCohort: 3},
			"batches with no member in common failed CI in a row (3, 4 and 5) and none passed in between: a runner or the target itself is broken, not the members. " +
				"Mend it, then resume the queue; who failed alone since batch 3 may be innocent: /batch retry",
		},
		{
			"one green batch in between clears CI", append(calm[:2:2], red(3, 0, 9), red(4, 0, 8), green(5, 3, 4), red(6, 0, 7)), bot.Batch{ID: 7, Kind: bot.BatchFresh, Tested: 7},
			Red{Cohort: 7}, "its 7 members are suspects",
		},
		{
			"two searches are not several", append(calm[:2:2], red(3, 0, 9), red(4, 3, 4), red(5, 3, 2)), bot.Batch{ID: 6, Kind: bot.BatchFresh, Tested: 5},
			Red{Cohort: 6}, "its 5 members are suspects",
		},
		{
			"nor are three in a queue in which that may well happen", []bot.Trial{red(1, 0, 35), red(2, 1, 17), red(3, 1, 8), red(4, 0, 35), red(5, 1, 4), red(6, 1, 2), rejected(7, 1)},
			bot.Batch{ID: 8, Kind: bot.BatchFresh, Tested: 35},
			Red{Cohort: 8}, "its 35 members are suspects",
		},
		{
			"a curated batch where a flake is likelier", calm, bot.Batch{ID: 9, Kind: bot.BatchCurated, Cohort: -4, Tested: 3},
			Red{Cohort: -4}, "its 3 members are tested once more: CI may have failed for nothing",
		},
		{
			"a curated batch where a culprit is likelier", nil, bot.Batch{ID: 9, Kind: bot.BatchCurated, Cohort: -4, Tested: 3},
			Red{Cohort: -4, Fail: true}, "its 3 members fail together",
		},
		{
			"a curated batch, red again", append(calm[:2:2], curated(8, -4, 3)), bot.Batch{ID: 9, Kind: bot.BatchCurated, Cohort: -4, Tested: 3},
			Red{Cohort: -4, Fail: true}, "its 3 members fail together",
		},
		{
			"a curated batch that failed, was edited and approved again", append(calm[:2:2], curated(6, -4, 3), curatedOut(7, -4, 3), green(8, 0, 9)),
			bot.Batch{ID: 9, Kind: bot.BatchCurated, Cohort: -4, Tested: 3},
			Red{Cohort: -4}, "its 3 members are tested once more: CI may have failed for nothing",
		},
		{
			"a curated batch among several in a row", append(calm[:2:2], red(3, 0, 9), curated(4, -8, 3), red(5, 0, 8)), bot.Batch{ID: 6, Kind: bot.BatchCurated, Cohort: -8, Tested: 3},
			Red{Broken: []int64{3, -8, 5}, Cohort: -8},
			"batches with no member in common failed CI in a row (3, curated batch 8 and 5) and none passed in between: a runner or the target itself is broken, not the members. " +
				"Mend it, then resume the queue; who failed alone since batch 3 may be innocent: /batch retry",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			before := slices.Clone(c.trials)
			got := AfterRed(bot.DefaultQueueSettings("main"), bot.WaitingSet{Trials: c.trials}, c.batch)
			if words := got.String(); words != c.words {
				t.Errorf("it says %q, want %q", words, c.words)
			}
			if !slices.Equal(got.Broken, c.want.Broken) || got.Fail != c.want.Fail || got.Cohort != c.want.Cohort || got.FreeCohort != c.want.FreeCohort {
				t.Errorf("AfterRed = %#v, want %#v", got, c.want)
			}
			if !slices.Equal(c.trials, before) {
				t.Error("the trials were changed")
			}
		})
	}
}
