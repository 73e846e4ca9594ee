package bot

import (
	"strconv"
	"time"
)

// BatchStatus is the state of a batch. RUNNING and BLOCKED are active: they occupy the queue's slot.
type BatchStatus int

// The batch states. The zero value is invalid. A terminal batch never changes.
const (
	BatchRunning BatchStatus = iota + 1
	BatchSucceeded
	BatchFailed
	BatchBlocked
)

// String returns the name stored in the column comment.
func (s BatchStatus) String() string {
	return nameOf(int(s), "RUNNING", "SUCCEEDED", "FAILED", "BLOCKED")
}

// Active reports whether a batch in this state occupies its queue's slot.
func (s BatchStatus) Active() bool { return s == BatchRunning || s == BatchBlocked }

// BatchPhase is the last durable step of an active batch. An instance that finds a phase knows what was done and does the next step.
type BatchPhase int

// The phases. The zero value is invalid.
const (
	PhaseClaimed BatchPhase = iota + 1 // members are fixed; the branch is to be built (again)
	PhaseBuilt                         // base and head are recorded; the branch may or may not have been pushed
	PhaseOpened                        // the batch MR exists; CI is awaited
	PhaseLanding                       // the landing call may have been made; only what the host says ends this
)

// String returns the name stored in the column comment.
func (p BatchPhase) String() string {
	return nameOf(int(p), "CLAIMED", "BUILT", "OPENED", "LANDING")
}

// BatchKind says why these members ride together.
type BatchKind int

// The kinds. The zero value is invalid.
const (
	BatchFresh   BatchKind = iota + 1 // the front of the waiting set
	BatchProbe                        // a prefix of a suspect cohort
	BatchVerify                       // the last suspect alone
	BatchCurated                      // drafted, submitted and approved as one unit
)

// String returns the name stored in the column comment.
func (k BatchKind) String() string {
	return nameOf(int(k), "FRESH", "PROBE", "VERIFY", "CURATED")
}

// Code says in one stable word why a batch ended, waits or is blocked.
type Code string

// The codes.
const (
	CodeNone          Code = ""
	CodeLanded        Code = "LANDED"
	CodeLandedDiffers Code = "LANDED_DIFFERS" // the landed tree is not the tested tree: an alarm
	CodeLandedEvicted Code = "LANDED_EVICTED" // it brought in somebody who had left it: an alarm
	CodeCIRed         Code = "CI_RED"
	CodeCITimeout     Code = "CI_TIMEOUT"
	CodeCIBroken      Code = "CI_BROKEN" // batches with nothing in common failed CI in a row
	CodeNoCI          Code = "NO_CI"
	CodePushRefused   Code = "PUSH_REFUSED"
	CodeMergeRefused  Code = "MERGE_REFUSED"
	CodeTargetMoving  Code = "TARGET_MOVING"
	CodeHostGone      Code = "HOST_GONE"
	CodeClosed        Code = "CLOSED_BY_PERSON"
	CodeBranchDeleted Code = "BRANCH_DELETED"
	CodeForeignPush   Code = "FOREIGN_PUSH" // the batch branch stands at a commit that is not ours
	CodeAllEvicted    Code = "ALL_EVICTED"
	CodeNeedsApproval Code = "NEEDS_APPROVAL" // waits in OPENED for a person or a bypass
	CodeManual        Code = "MANUAL"         // waits in OPENED for a person to merge
	CodeOverdue       Code = "OVERDUE"        // landing outcome unknown past the deadline
	CodeForced        Code = "FORCED"         // an operator ended it although the host could not be asked
)

// Fails reports whether the code, written on a running batch, means that the batch is to be settled as failed. It is written
// before its MR is closed, so that a crash in between does not make the bot's own closing look like a person's.
func (c Code) Fails() bool {
	switch c {
	case CodeCIRed, CodeCITimeout, CodeCIBroken, CodeNoCI, CodePushRefused, CodeMergeRefused, CodeTargetMoving, CodeHostGone, CodeClosed, CodeBranchDeleted, CodeAllEvicted:
		return true
	}
	return false
}

// Parks reports whether a batch that failed with this code parks its queue: nobody in it is to blame, and starting over would
// fail the same way.
func (c Code) Parks() bool {
	switch c {
	case CodeCIBroken, CodeNoCI, CodePushRefused, CodeMergeRefused, CodeTargetMoving, CodeHostGone, CodeClosed, CodeBranchDeleted:
		return true
	}
	return false
}

// Batch is a row of merge_batch. Ages are taken by the database's clock when the row is read.
type Batch struct {
	ID            int64
	QueueID       int64
	Status        BatchStatus
	Phase         BatchPhase
	Version       int64
	Kind          BatchKind
	Cohort        int64
	Token         string // 8 random hex digits
	Build         int    // builds recorded so far
	BaseSHA       string
	HeadSHA       string
	LandedSHA     string
	MRNumber      int // 0: no batch MR yet
	Code          Code
	Message       string // for people, with the remedy
	Refusals      int    // landing refusals so far
	Restores      int    // times its branch was pushed again because somebody had deleted it
	Size          int    // members claimed
	Tested        int    // members in the build recorded last
	Why           string // why these members, for people
	CreatedAt     time.Time
	UpdatedAt     time.Time
	PhaseAge      time.Duration // since the phase was entered
	Unchanged     time.Duration // since the row was last written
	ChecksQuiet   time.Duration // since the set of checks seen on the head last changed
	Overdue       bool          // past deadline_at
	CIConclusion  string        // "success", "failure" or "none", recorded when CI decided; empty before
	LandedDiffers bool
}

// Branch is the name of the batch's branch on the host: batchbot/<batch id>-<token>/<target>.
func (b Batch) Branch(target string) string {
	return BatchBranchPrefix + strconv.FormatInt(b.ID, 10) + "-" + b.Token + "/" + target
}

// BatchBranchPrefix begins the name of every branch the bot creates.
const BatchBranchPrefix = "batchbot/"

// Guard is what a write to this batch as read must still find.
func (b Batch) Guard() BatchGuard {
	return BatchGuard{BatchID: b.ID, Status: b.Status, Phase: b.Phase, Version: b.Version}
}

// BatchGuard pins the exact state of a batch row. Every write inside a batch begins with one guarded write of that row, so that
// of two writers exactly one wins.
type BatchGuard struct {
	BatchID int64
	Status  BatchStatus
	Phase   BatchPhase
	Version int64
}

// ClaimSpec asks to start a batch.
type ClaimSpec struct {
	QueueID int64
	Kind    BatchKind
	Cohort  int64  // claim only from this cohort; 0 = requests without one
	Limit   int    // members at most
	Why     string // for people
	Token   string
	Timeout time.Duration // sets deadline_at by the database's clock
}

// ClaimOutcome is what became of a claim.
type ClaimOutcome int

// The outcomes. The zero value is invalid.
const (
	ClaimDone         ClaimOutcome = iota + 1
	ClaimNothing                   // nothing is waiting
	ClaimSlotOccupied              // the queue has an active batch
	ClaimQueueBusy                 // somebody else is claiming this queue right now
	ClaimPreempted                 // a waiting row changed between read and write, three times
	ClaimQueueClosed               // paused or parked meanwhile
)

// String returns the outcome in words, for logs.
func (o ClaimOutcome) String() string {
	return nameOf(int(o), "claimed", "nothing waiting", "slot occupied", "queue busy", "preempted", "queue closed")
}

// ClaimResult is the outcome with the batch when there is one.
type ClaimResult struct {
	Outcome ClaimOutcome
	Batch   Batch
	Members []Operation // in batch order
}

// BuildRecord is written before the push: phase BUILT with base and head, and what became of every member.
type BuildRecord struct {
	Result  BuildResult
	Timeout time.Duration // renews deadline_at
	Moves   []MemberOutcome
}

// LandingObstacle says why batches cannot land in this way on a target with these rules, with the remedy, or "" if they can. A batch is made of
// merge commits, each with a member's exact head as a parent: whatever squashes, rebases or tests it again lands something else.
func LandingObstacle(landing Landing, rules TargetRules) string {
	switch {
	case rules.MergeQueue:
		return "the host's own merge queue or merge trains are on for it, which build and test something else than the batch; switch them off for this branch"
	case rules.LinearHistory:
		return "it demands a linear history, and a batch is made of merge commits; remove that rule from the branch"
	case rules.SquashOnly && landing != LandByPush:
		return "merge commits are not allowed or merge requests are squashed by force, so a batch could not land as it was tested; allow merge commits and do not require squashing, or set landing: push in .batchbot.yml and let the bot push to the branch"
	}
	return ""
}

// MemberOutcome is what becomes of one member when it leaves its batch.
type MemberOutcome struct {
	OperationID string
	To          OperationStatus // MERGED, WAITING, PENDING_APPROVAL, FAILED, CLOSED, CANCELLED
	HeadSHA     string          // PENDING_APPROVAL: the new pin; empty keeps it
	Reason      Reason
	Detail      string
	Cohort      int64 // WAITING: the cohort to ride with next, 0 = none
	Notify      bool
}

// BatchChange is a guarded phase or note change of an active batch.
type BatchChange struct {
	Status       BatchStatus   // 0 keeps
	Phase        BatchPhase    // 0 keeps; a change restarts PhaseAge
	MRNumber     int           // 0 keeps
	Code         Code          // always written
	Message      string        // always written
	Refusals     int           // always written
	CIConclusion string        // always written
	ExtendBy     time.Duration // > 0: deadline_at is at least now + this
	Restored     bool          // counts one restore of the batch branch
	By           string        // an operator's login: recorded in the audit with Source; empty: the bot itself
	Source       string
}

// Settlement brings a batch and every remaining member to an end in one transaction.
type Settlement struct {
	Guard         BatchGuard
	Status        BatchStatus // SUCCEEDED or FAILED
	Code          Code
	Message       string
	LandedSHA     string
	LandedDiffers bool
	CIConclusion  string
	Members       []MemberOutcome // exactly the members still in the batch
	FreeCohort    int64           // > 0: waiting requests of this cohort become fresh
	ParkQueue     string          // not empty: the queue parks with this reason and remedy
	DeleteBranch  bool
	CloseMR       bool   // the batch MR was left as it is: look at it again, and close it if it is open
	By            string // an operator's login, for the audit; empty: the bot itself
	Source        string
}
