package bot

import "time"

// WaitingSet is what the planner rests on: what waits in a queue, and what CI said of the queue's last batches.
type WaitingSet struct {
	Fresh     int           // requests without a cohort
	OldestAge time.Duration // age of the oldest fresh request, by the database's clock
	Cohorts   []Cohort      // ordered by id: the oldest search first
	Trials    []Trial       // in the order of the batches, the newest last; at most TrialsKept
}

// Empty reports whether nothing waits.
func (w WaitingSet) Empty() bool { return w.Fresh == 0 && len(w.Cohorts) == 0 }

// Cohort is a group of requests that waits: the suspects of a red batch, or a curated batch.
type Cohort struct {
	ID      int64         // suspects: the batch that went red first; curated: see CuratedCohort
	Size    int           // waiting members
	Curated bool          // rides whole, and is not searched
	Age     time.Duration // curated: since its oldest member was admitted
}

// TrialsKept is how many of a queue's last batches the planner learns from: enough for a few dozen culprits, few enough to follow a queue
// that changes.
const TrialsKept = 256

// TrialVerdict is what a trial says of its members.
type TrialVerdict int

// The verdicts. The zero value is invalid.
const (
	TrialGreen  TrialVerdict = iota + 1 // they landed
	TrialRed                            // CI failed, or did not finish
	TrialBroken                         // CI failed like the batches before it, which says nothing of any member
)

// Trial is one batch that ended and says something about its members.
type Trial struct {
	Batch    int64
	Kind     BatchKind
	Cohort   int64 // the search it was part of; 0 = none
	Members  int   // in the build that CI judged
	Verdict  TrialVerdict
	Rejected bool // the only member failed by this verdict; of a curated batch: all of them did, and what follows under its cohort is another set
}

// Root is the search that the trial belongs to or, when red, begins.
func (t *Trial) Root() int64 {
	if t.Cohort != 0 {
		return t.Cohort
	}
	return t.Batch
}

// TrialOf reads a batch as a trial; failed is how many of its members failed when it was settled. ok is false for a batch that is active,
// or that ended for a reason that says nothing about its members.
func TrialOf(b Batch, failed int) (trial Trial, ok bool) {
	trial = Trial{Batch: b.ID, Kind: b.Kind, Cohort: b.Cohort, Members: b.Tested}
	switch {
	case b.Status == BatchSucceeded:
		trial.Verdict = TrialGreen
	case b.Status == BatchFailed && (b.Code == CodeCIRed || b.Code == CodeCITimeout):
		trial.Verdict, trial.Rejected = TrialRed, (b.Tested == 1 && failed == 1) || (b.Kind == BatchCurated && failed > 0)
	case b.Status == BatchFailed && b.Code == CodeCIBroken:
		trial.Verdict = TrialBroken
	default:
		return Trial{}, false
	}
	return trial, true
}
