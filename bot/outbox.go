package bot

// ErrandKind is the kind of a host side effect still to be done.
type ErrandKind int

// The kinds. The zero value is invalid. Each row is a projection: the sender reads the rows as they are when it runs, so order
// and repetition do not matter. REPLY and REACTION carry what is to be said, because it answers one comment at one moment.
const (
	ErrandSticky       ErrandKind = iota + 1 // status comment of a merge request; target: merge_request.id
	ErrandNotice                             // a new comment because a person has to act; target: binding_history.id
	ErrandReply                              // answer to one command; target: its request id
	ErrandReaction                           // acknowledgement of one comment; target: host comment kind and id
	ErrandCommitStatus                       // the bot's status on a member's head; target: operation id
	ErrandBatchReport                        // the comment on the batch MR; target: batch id
	ErrandDeleteBranch                       // target: batch id
	ErrandCloseMember                        // close a landed member the host did not mark merged; target: operation id
	ErrandBatchMR                            // look at the MR of a batch that is over: reopened or merged after all; target: batch id
	ErrandBatchNotice                        // a new comment on a batch MR because a person has to act; target: batch id/version
	ErrandReminder                           // a new comment because somebody lets others wait; target: Reminder.Target
)

// String returns the name stored in the column comment.
func (k ErrandKind) String() string {
	return nameOf(int(k), "STICKY", "NOTICE", "REPLY", "REACTION", "COMMIT_STATUS", "BATCH_REPORT", "DELETE_BRANCH", "CLOSE_MEMBER", "BATCH_MR", "BATCH_NOTICE", "REMINDER")
}

// Errand is a row of the outbox.
type Errand struct {
	ID         int64
	Kind       ErrandKind
	Target     string
	Repository Repository
	Number     int // merge request; 0 for DELETE_BRANCH
	Payload    ErrandPayload
	Wanted     int64 // finish with this value: if it grew meanwhile the errand is due again
	Attempts   int
}

// ErrandPayload is stored as JSON.
type ErrandPayload struct {
	Body     string      `json:"body,omitempty"`     // REPLY
	Kind     CommentKind `json:"kind,omitempty"`     // REACTION
	Comment  int64       `json:"comment,omitempty"`  // REACTION
	Reaction Reaction    `json:"reaction,omitempty"` // REACTION
}

// Answer is what the bot says to a command that changes no state: help, status, a refusal.
type Answer struct {
	Command    CommandRef
	TakesTurn  bool // the command would have changed a state: an earlier one that arrives later changes nothing any more
	Repository Repository
	Number     int
	Comment    Comment  // to react to
	Reaction   Reaction // empty: none
	Reply      string   // empty: none
}

// HistoryEntry is one row of binding_history with its operation as it is now.
type HistoryEntry struct {
	ID        int64
	Operation Operation
	From      OperationStatus // 0: applied
	To        OperationStatus
	Reason    Reason
	Detail    string
	HeadSHA   string
	BatchID   int64
	Seat      *SeatView // the seat on a train its operation holds, or held last; nil: it never had one
	Queue     Queue     // with Seat
}

// StickyView is all that the status comment of one merge request shows.
type StickyView struct {
	MergeRequest MergeRequest
	Repository   Repository
	Operations   []OperationView // one per target it was applied to, newest first
	Curated      *Curated        // the set drafted on it that is not over; nil: none
}

// OperationView is an operation with where it stands.
type OperationView struct {
	Operation Operation
	Queue     Queue
	Position  int       // WAITING: 1 = next; 0 otherwise
	Batch     *Batch    // the batch it rides in or rode in last
	Seat      *SeatView // PENDING_APPROVAL: its live seat on a train; nil: none
}

// BatchView is a batch with its queue and everybody who ever was a member, in batch order.
type BatchView struct {
	Batch      Batch
	Queue      Queue
	Repository Repository
	Members    []BatchMember
}

// BatchMember is one membership: the operation as it is now and what the batch's history says of it.
type BatchMember struct {
	Operation Operation
	HeadSHA   string // pinned when claimed
	Event     MemberEvent
	Reason    Reason // of the last event
	Detail    string
}

// MemberEvent is an entry of the append-only membership history.
type MemberEvent int

// The events. The zero value is invalid.
const (
	MemberClaimed    MemberEvent = iota + 1
	MemberBuilt                  // merged into build N at its pinned head
	MemberEvicted                // left before landing
	MemberLanded                 // its pinned head is in the target
	MemberReturned               // batch over, rides again
	MemberFailed                 // batch over, out
	MemberHead                   // not a member: a head recorded for the batch (operation_id is empty)
	MemberLandedLate             // its pinned head is in the target, by a batch that was over when it landed
)

// String returns the name stored in the column comment.
func (e MemberEvent) String() string {
	return nameOf(int(e), "CLAIMED", "BUILT", "EVICTED", "LANDED", "RETURNED", "FAILED", "HEAD", "LANDED_LATE")
}
