// Package plan decides what a queue tests next. It is pure: what is known of the queue in, a choice out. Everything it knows comes from
// rows (what waits, and what CI said of the last batches), so any instance continues what another began.
//
// One batch is active at a time, so a test is worth as much as it tells. A batch of about 0.69/p members, where a change breaks CI with
// probability p, is green as often as red, and tells most. A red batch of more than one makes its members suspects: one ordered cohort,
// numbered by the batch that went red first. Next comes the prefix of the suspects that is green about as often as red, a probe:
//
//	suspects   a b c d e f g            in order; at least one of them breaks CI, or CI failed for nothing
//	probe      a b c d
//	green      a b c d land at once     the suspects are e f g
//	red        a b c d are the suspects e f g, of which nothing is known any more, are fresh again
//
// Each green probe is a landing and each red one gives back what lies behind it, so the search costs little more than the information it
// yields. It ends at the first culprit. The last suspect is run alone once, unless it was already, and fails once it is the cause with
// a probability of at least 0.95; what else can make a set red is a flake, or a culprit among those that were given back since (belief.go).
// Where a flake is likelier than a culprit, the same set is run again instead of being searched.
//
// Newcomers do not queue behind a search: while exactly one cohort is searched, a fresh batch may follow each probe. If it goes red there are
// two cohorts, and until one of them is done no fresh batch begins.
//
// How often changes break CI and how often CI fails for nothing is counted in the queue's own trials (rates.go). A runner that fails whatever it
// is given looks like one culprit after the other; batches that went red in a row, have nothing in common and would be most unlikely for
// these rates say that it is the runner (breaker.go).
//
// The tests hold the planner to its targets with a simulator: `make simulate` prints its table.
package plan
