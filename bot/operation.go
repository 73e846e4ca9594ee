package bot

import "time"

// OperationStatus is the state of one application of one merge request to one queue.
type OperationStatus int

// The states of an operation and of its binding. The zero value is invalid.
//
//	PENDING_APPROVAL → WAITING → BATCHED → MERGED
//	        ↑  ↑__________↓         ↓ ↑
//	        |_______________________| | batch over, rides again: BATCHED → WAITING
//	FAILED → PENDING_APPROVAL by /batch retry or a push, with the same operation id
//	REJECTED, CANCELLED, CLOSED, EXPIRED: ended; a new /batch makes a new operation in the same binding. Only finding its commits in
//	the target after all changes such an operation: to MERGED
const (
	OperationPendingApproval OperationStatus = iota + 1
	OperationWaiting
	OperationBatched
	OperationMerged
	OperationRejected
	OperationCancelled
	OperationClosed
	OperationExpired
	OperationFailed
)

// String returns the name stored in the column comment.
func (s OperationStatus) String() string {
	return nameOf(int(s), "PENDING_APPROVAL", "WAITING", "BATCHED", "MERGED", "REJECTED", "CANCELLED", "CLOSED", "EXPIRED", "FAILED")
}

// Open reports whether the operation still wants to land.
func (s OperationStatus) Open() bool {
	return s == OperationPendingApproval || s == OperationWaiting || s == OperationBatched
}

// Followed reports whether changes of its merge request still matter to the operation: it is open, or failed and waiting for a push.
func (s OperationStatus) Followed() bool { return s.Open() || s == OperationFailed }

// CanBecome reports whether a transition from s to t exists.
func (s OperationStatus) CanBecome(t OperationStatus) bool {
	switch s {
	case OperationPendingApproval:
		return t != OperationBatched && t != OperationFailed && t != 0
	case OperationWaiting:
		return t != OperationWaiting && t != OperationFailed && t != 0
	case OperationBatched:
		return t != OperationBatched && t != OperationExpired && t != 0
	case OperationFailed:
		switch t {
		case OperationPendingApproval, OperationWaiting, OperationCancelled, OperationClosed, OperationMerged, OperationExpired:
			return true
		}
	case OperationRejected, OperationCancelled, OperationClosed, OperationExpired:
		return t == OperationMerged
	}
	return false
}

// Reapplication is the answer to a new /batch on a merge request that has a binding already.
type Reapplication int

// The answers. The zero value is invalid.
const (
	ReapplyReset      Reapplication = iota + 1 // ended: the binding is reset in place for a new operation
	ReapplyActive                              // already on its way: refuse to overwrite, answer with the current operation
	ReapplyNeedsRetry                          // FAILED awaits recovery: refuse to overwrite, only /batch retry or a push
	ReapplyLanded                              // merged at this very head: nothing to do
)

// Reapply decides whether a new application may reset a binding in this state, pinned at pinnedHead, for newHead.
func Reapply(status OperationStatus, pinnedHead, newHead string) Reapplication {
	switch status {
	case OperationRejected, OperationCancelled, OperationClosed, OperationExpired:
		return ReapplyReset
	case OperationMerged:
		if pinnedHead != newHead {
			return ReapplyReset
		}
		return ReapplyLanded
	case OperationFailed:
		return ReapplyNeedsRetry
	}
	return ReapplyActive
}

// Reason says in one stable word why an operation is where it is. Rows, logs and the API use it; people read a sentence made of it.
type Reason string

// The reasons.
const (
	ReasonApplied       Reason = "applied"
	ReasonApproved      Reason = "approved"
	ReasonClaimed       Reason = "claimed"
	ReasonCancelled     Reason = "cancelled"      // by /batch cancel
	ReasonRetried       Reason = "retried"        // by /batch retry
	ReasonHeadMoved     Reason = "head_moved"     // pushed after the pin
	ReasonClosed        Reason = "closed"         // the merge request was closed
	ReasonRetargeted    Reason = "retargeted"     // its target branch changed
	ReasonDrafted       Reason = "drafted"        // turned into a draft
	ReasonUnapproved    Reason = "unapproved"     // approval withdrawn or insufficient at the pinned head
	ReasonConflict      Reason = "conflict"       // conflicts with the target
	ReasonConflictBatch Reason = "conflict_batch" // conflicts with an earlier member of the same batch only
	ReasonUnrelated     Reason = "unrelated"      // shares no history with the target
	ReasonPushRefused   Reason = "push_refused"   // the host refuses a push that contains it
	ReasonCIRed         Reason = "ci_red"         // alone and tested: CI failed
	ReasonSuspect       Reason = "suspect"        // rode in a red batch; searched next
	ReasonBatchFailed   Reason = "batch_failed"   // its batch ended for a reason that is nobody's fault; rides again
	ReasonLanded        Reason = "landed"         // by its batch
	ReasonContained     Reason = "contained"      // the target contained it already
	ReasonMergedOutside Reason = "merged_outside" // merged on the host, not by a batch
	ReasonExpired       Reason = "expired"
	ReasonLandedEvicted Reason = "landed_evicted" // it had left the batch that brought it in: an alarm
	ReasonLandedLate    Reason = "landed_late"    // its batch was over when somebody merged the batch MR
	ReasonJoined        Reason = "joined"         // holds a seat on a train, or a place in line
	ReasonPromoted      Reason = "promoted"       // moved up from the line to a seat
	ReasonCarriedOver   Reason = "carried_over"   // its train departed without it: seated on the next one
	ReasonDeparted      Reason = "departed"       // its train departed with it
	ReasonLeft          Reason = "left"           // left its train
	ReasonTrainOver     Reason = "train_over"     // its train ended and there is no next one
	ReasonCurated       Reason = "curated"        // admitted as a member of a curated batch
	ReasonSetBroken     Reason = "set_broken"     // another member of its curated batch was lost, and they land together or not at all
)

// Operation is one application of one merge request to one queue, as the rows are now.
type Operation struct {
	ID             string // UUID
	Status         OperationStatus
	Version        int64
	RepositoryID   int64
	QueueID        int64
	Target         string
	MergeRequestID int64
	Number         int
	Title          string // untrusted
	Author         Actor  // of the merge request
	Requester      string // login
	HeadSHA        string // pinned
	Reason         Reason
	Detail         string // for people: conflicting files, a URL
	RequestID      int64  // merge_batch_request.id; 0 when not WAITING or BATCHED
	BatchID        int64  // 0 when not BATCHED
	Cohort         int64  // 0 = none
	CreatedAt      time.Time
}

// Move is one guarded state change of one operation. The store performs it in one transaction together with all that follows
// from it: the request row inserted or deleted, the member evicted from its batch, binding and history, audit, and what is
// to be said (sticky comment, commit status, a notice when Notify is set).
type Move struct {
	OperationID string
	From        OperationStatus // guard, with Version
	Version     int64
	To          OperationStatus
	HeadSHA     string // the new pin; empty keeps it
	Reason      Reason
	Detail      string
	Notify      bool        // a person has to act: a new comment is posted, since edits notify nobody
	Batch       *BatchGuard // required when From is BATCHED: the batch row is written first, its phase goes back to CLAIMED
	By          string      // login, or "batchbot"
	Source      string      // delivery or API request this came from
	Command     *CommandRef // set when a command asked for it: recorded in the same transaction
}

// MoveResult is what became of a Move.
type MoveResult int

// The results. The zero value is invalid.
const (
	MoveDone       MoveResult = iota + 1 // this call changed the state
	MoveStale                            // the rows are no longer what the guard says: read again
	MoveDuplicate                        // this command was handled before
	MoveSuperseded                       // a later command of this merge request was handled before this one
)

// Application asks to apply a merge request to a queue.
type Application struct {
	OperationID string // a new UUID
	QueueID     int64
	Repository  Repository
	MR          MRSnapshot // as read from the host just now; its HeadSHA is pinned
	Admit       bool       // approvals suffice at HeadSHA: WAITING at once, else PENDING_APPROVAL
	Detail      string     // what is missing, when not admitted
	Lane        Lane
	ExpiresIn   time.Duration
	Command     CommandRef
}

// Lane is the coarse order inside a waiting set; smaller rides first.
type Lane int

// The lanes. The zero value is invalid.
const (
	LaneHigh Lane = iota + 1
	LaneNormal
	LaneLow
)

// ApplyOutcome is what became of an Application.
type ApplyOutcome int

// The outcomes. The zero value is invalid.
const (
	ApplyDone       ApplyOutcome = iota + 1 // a new operation exists
	ApplyActive                             // the merge request is on its way already: Operation is the current one
	ApplyNeedsRetry                         // it failed and awaits /batch retry
	ApplyLanded                             // merged at this very head
	ApplyDuplicate                          // this command was handled before: Operation is the winner's
	ApplySuperseded                         // a later command was handled before this one
	ApplyRetryLater                         // somebody applied at the same moment and is not visible yet
)

// ApplyResult is the outcome with the operation that is current now.
type ApplyResult struct {
	Outcome   ApplyOutcome
	Operation Operation
}

// CommandRef identifies one command: one line of one comment.
type CommandRef struct {
	RequestID string // host:comment kind:comment id:line
	Order     CommandOrder
	By        string // login
	Verb      string
	Source    string // delivery it came from, or "look"
}
