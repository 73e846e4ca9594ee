package reconcile

import (
	"context"
	"fmt"

	"github.com/batchbot/batchbot/bot"
)

// Kind says in one stable word what differs.
type Kind string

// The kinds.
const (
	RepositoryUnknown Kind = "repository_unknown" // the host gives access to one that has no active row
	RepositoryMoved   Kind = "repository_moved"   // its path, default branch or installation is another one
	RepositoryGone    Kind = "repository_gone"    // archived, deleted or taken from the bot
	OperationStale    Kind = "operation_stale"    // the merge request's state, head, target or approval is not what its operation says
	OperationLanded   Kind = "operation_landed"   // its pinned head is in the target, and that is not recorded
	BatchStale        Kind = "batch_stale"        // the MR of an active batch is not what the batch says
	BranchMissing     Kind = "branch_missing"     // the branch of an active batch is gone, or not at its head
	BatchReopened     Kind = "batch_reopened"     // the MR of a batch that is over is open, or was merged although the batch failed
	BranchLeft        Kind = "branch_left"        // the branch of a batch that is over is still there
	TargetMovedBack   Kind = "target_moved_back"  // what landed is not in the target any more
	StickyMissing     Kind = "sticky_missing"     // a merge request that was applied has no status comment
	ErrandGivenUp     Kind = "errand_given_up"    // something could not be said or done on the host
	DeliveryFailed    Kind = "delivery_failed"    // a webhook could not be applied
)

// Outcome says what became of a difference.
type Outcome string

// The outcomes. The zero value: it was found, and nothing was done about it.
const (
	Mended Outcome = "mended" // done, or handed to the outbox
	Left   Outcome = "left"   // it takes a person, or an operator's word
	Failed Outcome = "failed" // it was tried; Error says why it did not work
)

// Difference is one thing in which rows and host differ.
type Difference struct {
	Kind      Kind    `json:"kind"`
	Host      string  `json:"host"`
	Repo      string  `json:"repo"`      // path; empty: of no repository
	Queue     string  `json:"queue"`     // target branch; empty: of no queue
	MR        int     `json:"mr"`        // 0: of none
	Batch     int64   `json:"batch"`     // 0: of none
	Operation string  `json:"operation"` // empty: of none
	Row       int64   `json:"row"`       // id of the errand or delivery, else 0
	Rows      string  `json:"rows"`      // what the rows say, for people; untrusted words may be in it
	Found     string  `json:"found"`     // what the host says, for people; untrusted words may be in it
	Remedy    string  `json:"remedy"`    // what mending does, or what a person has to do
	Outcome   Outcome `json:"outcome"`
	Error     string  `json:"error"`

	mend     func(ctx context.Context, by Actor) error // nil: only a person can
	task     string                                    // names mend: what several differences ask for is done once
	operator bool                                      // mended by an operator's word only
}

// Mendable reports whether Mend can do something about it.
func (d Difference) Mendable() bool { return d.mend != nil }

// Where names what it is about, for people.
func (d Difference) Where() string {
	where := d.Host
	if d.Repo != "" {
		where += "/" + d.Repo
	}
	if d.Queue != "" {
		where += ":" + d.Queue
	}
	if d.Batch != 0 {
		where += fmt.Sprintf(" batch %d", d.Batch)
	}
	if d.MR != 0 {
		where += fmt.Sprintf(" !%d", d.MR)
	}
	return where
}

// same identifies a difference over several runs.
func (d Difference) same() string {
	return fmt.Sprintf("%s %s %s %d", d.Kind, d.Where(), d.Operation, d.Row)
}

// Actor is who has something mended, for the audit.
type Actor struct {
	By       string // login, or "batchbot"
	Source   string // "reconcile"
	Operator bool   // a person asked: what was given up is tried again
}

// about begins a difference in a repository.
func about(kind Kind, repo bot.Repository) Difference {
	return Difference{Kind: kind, Host: repo.Host, Repo: repo.Path}
}
