package bot

import (
	"fmt"
	"time"
)

// CuratedStatus is the state of a curated batch before and while it rides: a row of approval_request.
type CuratedStatus int

// The states. The zero value is invalid.
//
//	DRAFT → PENDING_APPROVAL → APPROVED → DONE
//	  ↑            ↓              ↓
//	  |_________REJECTED_________/          editing a rejected one makes it a draft again, with its rows
//	CANCELLED from DRAFT, PENDING_APPROVAL and REJECTED
const (
	CuratedDraft           CuratedStatus = iota + 1
	CuratedPendingApproval               // submitted: its rows are committed with pinned heads
	CuratedApproved                      // admitted as one cohort
	CuratedDone                          // it landed
	CuratedRejected                      // an approver said no, or it was taken out: Reason says why
	CuratedCancelled
)

// String returns the name stored in the column comment.
func (s CuratedStatus) String() string {
	return nameOf(int(s), "DRAFT", "PENDING_APPROVAL", "APPROVED", "DONE", "REJECTED", "CANCELLED")
}

// Editable reports whether its rows may be replaced.
func (s CuratedStatus) Editable() bool { return s == CuratedDraft || s == CuratedRejected }

// Curated is a hand-picked, ordered set of merge requests that land together or not at all, drafted, submitted and approved as one unit.
type Curated struct {
	ID             int64
	QueueID        int64
	MergeRequestID int64 // the merge request it was drafted on, which has at most one set that is not over; 0: drafted through the API
	Number         int   // of that merge request; 0 without
	Status         CuratedStatus
	Version        int64
	Drafter        string // login, or "api:NAME"
	Decider        string // who approved or rejected it last; empty before
	Reason         string // why it was rejected or cancelled, for people
	Rows           []CuratedRow
	Committed      bool // Rows is the committed copy, with pinned heads; else the draft
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

// Cohort is the number under which the requests of an approved curated batch wait and ride: below zero, so that it is never that of a red
// batch.
func (c Curated) Cohort() int64 { return CuratedCohort(c.ID) }

// CuratedCohort is the cohort of curated batch id, and the curated batch of such a cohort.
func CuratedCohort(id int64) int64 { return -id }

// CuratedRow is one row of a draft or of its committed copy.
type CuratedRow struct {
	ID          int64 // of the row: kept when the set is saved again
	RowNo       int   // from 1, unique in the set; the order of merging
	Number      int   // merge request
	HeadSHA     string
	OperationID string // once approved
}

// MaxCurated is the most members a curated batch may have; the queue's max_batch_size may allow fewer.
const MaxCurated = 1000

// CuratedView is a curated batch with where it belongs.
type CuratedView struct {
	Curated    Curated
	Queue      Queue
	Repository Repository
}

// CuratedFilter narrows a list.
type CuratedFilter struct {
	QueueID int64 // 0 = of all queues
	Live    bool  // not DONE and not CANCELLED
	Limit   int   // at most so many, newest first; 1 or more
}

// CuratedSave makes a draft or replaces the complete row set of one, as a diff keyed on the row number under the header's row lock: rows keep
// their identity. The set on a merge request that has one already is replaced. A REJECTED one becomes a DRAFT.
type CuratedSave struct {
	ID             int64 // 0: make one
	QueueID        int64 // when made
	MergeRequestID int64 // when made; 0: through the API
	Version        int64 // guard; 0: whatever it is
	Rows           []CuratedRow
	By             string
	Source         string
	Command        *CommandRef
	Request        *APIRequest
}

// CuratedSubmission commits the rows that were checked at Version, with the heads that were read.
type CuratedSubmission struct {
	ID      int64
	Version int64
	Rows    []CuratedRow
	By      string
	Source  string
	Command *CommandRef
	Request *APIRequest
}

// CuratedDecision approves, rejects or cancels. An approval admits every member in the same transaction, as one cohort; Members are the
// applications of the rows in order, as read and judged just now: each makes a new operation, or takes over the PENDING_APPROVAL one there is.
type CuratedDecision struct {
	ID      int64
	Version int64 // guard; 0: whatever it is (reject and cancel only)
	To      CuratedStatus
	Members []Application // their Command is not used
	Reason  string        // reject, cancel
	By      string
	Source  string
	Command *CommandRef
	Request *APIRequest
}

// CuratedOutcome is what became of a write to a curated batch.
type CuratedOutcome int

// The outcomes. The zero value is invalid.
const (
	CuratedWritten          CuratedOutcome = iota + 1
	CuratedChanged                         // it changed while it was checked: read it again
	CuratedAlreadySubmitted                // submitted before: a duplicate is rejected, not replayed
	CuratedAlreadyDecided                  // approved, rejected, cancelled or landed before
	CuratedNotSubmitted                    // approve, reject: it is a draft
	CuratedMemberBusy                      // approve: Detail names the member that waits, rides, failed or holds a seat; nothing was written
	CuratedDuplicate                       // this command or API request was handled before: Curated is as it stands
	CuratedSuperseded                      // a later command was handled before this one
	CuratedRetryLater                      // somebody wrote at the same moment and is not visible yet
)

// CuratedResult is the outcome with the set as it stands now.
type CuratedResult struct {
	Outcome CuratedOutcome
	Curated Curated
	Detail  string // for people
}

// CuratedProblem is one thing that stands in the way of a curated batch.
type CuratedProblem struct {
	Kind   ProblemKind
	RowNo  int    // 0: the set as a whole
	Number int    // merge request of that row; 0 without
	Text   string // for people, a clause without a final stop that reads behind the merge request's number. It may hold names that strangers chose
}

// ProblemKind names, in one stable word, the check that found a problem.
type ProblemKind string

// The kinds.
const (
	ProblemRows      ProblemKind = "rows"      // a row number or merge request number that is none, or comes twice
	ProblemSize      ProblemKind = "size"      // too few or too many rows
	ProblemTwice     ProblemKind = "twice"     // a merge request in two rows
	ProblemThere     ProblemKind = "there"     // no such merge request
	ProblemOpen      ProblemKind = "open"      // closed, merged or a draft
	ProblemTarget    ProblemKind = "target"    // of another queue
	ProblemBatchMR   ProblemKind = "batch_mr"  // made by the bot
	ProblemHead      ProblemKind = "head"      // its head is not known, or moved since it was pinned
	ProblemBusy      ProblemKind = "busy"      // waits, rides, holds a seat, failed or landed
	ProblemMerge     ProblemKind = "merge"     // conflicts, or there is nothing to merge
	ProblemApprovals ProblemKind = "approvals" // its own approvals do not suffice at the pinned head
)

// RowError refuses the rows of a draft and names the first one that no table could hold.
type RowError struct {
	Index int // from 0, as sent; -1: the rows as a whole
	Row   CuratedRow
	Text  string // for people
}

// Error implements error.
func (e *RowError) Error() string { return "curated batch: " + e.Text }

// CheckRows refuses what no draft can hold, as a *RowError: a row number that is missing, not positive or there twice, a row without a merge
// request, and more rows than MaxCurated. A missing row number arrives as 0. A unique key alone would not do: it does not constrain what is NULL.
func CheckRows(rows []CuratedRow) error {
	if len(rows) > MaxCurated {
		return &RowError{Index: -1, Text: fmt.Sprintf("%d rows, and %d is the most", len(rows), MaxCurated)}
	}
	seen := make(map[int]int, len(rows))
	for i, r := range rows {
		refuse := func(format string, args ...any) error {
			return &RowError{Index: i, Row: r, Text: fmt.Sprintf("row at place %d: ", i+1) + fmt.Sprintf(format, args...)}
		}
		if r.RowNo < 1 || r.RowNo > maxRowNo {
			return refuse("row_no is %d: number the rows from 1", r.RowNo)
		}
		if first, twice := seen[r.RowNo]; twice {
			return refuse("row_no %d is at place %d already: number the rows differently", r.RowNo, first+1)
		}
		if r.Number < 1 {
			return refuse("row_no %d names no merge request: give its number", r.RowNo)
		}
		seen[r.RowNo] = i
	}
	return nil
}

// maxRowNo is what the column holds.
const maxRowNo = 1<<31 - 1
