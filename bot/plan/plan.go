// Package plan decides what a queue tests next. It is pure: state in, choice out.
//
// A red batch of more than one member makes its members suspects: one ordered cohort, numbered by the batch that went red
// first. The suspects are then tested one half at a time, oldest half first: a green half lands at once, a red half becomes the
// suspects and frees the rest, and the last suspect fails after it was red alone. Everything is derived from rows, so any instance
// continues the search.
package plan

import (
	"time"

	"github.com/batchbot/batchbot/bot"
)

// Choice says what to claim.
type Choice struct {
	Claim  bool // false: nothing to do now
	Kind   bot.BatchKind
	Cohort int64
	Limit  int
	Wait   time.Duration // with Claim false: look again after this long; 0 = only when something changes
}

// Next chooses the next batch of a queue whose slot is free.
func Next(settings bot.QueueSettings, w bot.WaitingSet) Choice {
	for _, c := range w.Cohorts {
		switch {
		case c.Size == 1:
			return Choice{Claim: true, Kind: bot.BatchVerify, Cohort: c.ID, Limit: 1}
		case c.Size > 1:
			return Choice{Claim: true, Kind: bot.BatchProbe, Cohort: c.ID, Limit: (c.Size + 1) / 2}
		}
	}
	if w.Fresh == 0 {
		return Choice{}
	}
	if w.Fresh < settings.MaxBatchSize && w.OldestAge < settings.FillWait {
		return Choice{Wait: settings.FillWait - w.OldestAge}
	}
	return Choice{Claim: true, Kind: bot.BatchFresh, Limit: settings.MaxBatchSize}
}

// Red says what becomes of the members of a batch that CI found red.
type Red struct {
	Fail       bool  // the only member is the culprit
	Cohort     int64 // else: the members wait as suspects of this cohort
	FreeCohort int64 // > 0: the waiting rest of this cohort is fresh again
}

// AfterRed decides what a red batch of size members means. The members become the suspects; what was behind a red prefix is
// innocent as far as known and rides fresh.
func AfterRed(batch bot.Batch, size int) Red {
	if size == 1 {
		return Red{Fail: true, FreeCohort: batch.Cohort}
	}
	return Red{Cohort: batch.ID, FreeCohort: batch.Cohort}
}
