package bot

import "time"

// Delivery is one webhook as received: a row of delivery. It is stored before it is answered.
type Delivery struct {
	ID       int64
	Host     string // configured name
	Key      string // the host's id of the delivery; a redelivery repeats it
	Event    string // the host's name of the event
	Payload  []byte
	Attempts int
}

// DeliveryOutcome is how applying a delivery ended.
type DeliveryOutcome struct {
	Status  DeliveryStatus
	Error   string        // what went wrong or why it was ignored, without secrets, at most 1000 bytes
	RetryIn time.Duration // DeliveryDue: when to try again
}

// DeliveryStatus is the state of a delivery.
type DeliveryStatus int

// The states. The zero value is invalid.
const (
	DeliveryDue     DeliveryStatus = iota + 1
	DeliveryDone                   // applied
	DeliveryIgnored                // not for us
	DeliveryFailed                 // given up; a redelivery or an operator makes it due again
)

// EventKind says what an Event hints at.
type EventKind int

// The kinds. The zero value is invalid.
const (
	EventComment      EventKind = iota + 1 // somebody wrote a new comment or review body
	EventMergeRequest                      // something about one merge request changed: read it again
	EventChecks                            // checks or statuses of a commit changed
	EventBranch                            // a branch moved, appeared or vanished
	EventInstallation                      // repositories were added to or taken from the installation
	EventRepository                        // a repository was renamed, archived, deleted or transferred
)

// Event is a delivery in neutral words. But for comments it is a hint only: whoever handles it reads the host again.
type Event struct {
	Kind         EventKind
	Repository   RepositoryRef // zero for EventInstallation
	Number       int           // EventComment, EventMergeRequest
	SHA          string        // EventChecks
	Branch       string        // EventBranch, without refs/heads/
	Comment      *Comment      // EventComment
	Installation *InstallationChange
}

// InstallationChange says which repositories an installation gained or lost.
type InstallationChange struct {
	Host         string
	Installation int64
	Added        []RepositoryRef
	Removed      []RepositoryRef
	RemovedAll   bool // uninstalled or suspended
	ReadAll      bool // the event does not list everything: list the repositories again
}

// CommentKind is the host's kind of comment; ids are unique within a kind only.
type CommentKind string

// The comment kinds.
const (
	CommentIssue  CommentKind = "issue"  // conversation comment
	CommentReview CommentKind = "review" // body of a review
)

// Comment is what somebody wrote on a merge request. Body is untrusted.
type Comment struct {
	Kind      CommentKind
	ID        int64
	Number    int // merge request; 0 if the comment is not on one
	Author    Actor
	Body      string
	CreatedAt time.Time // host's clock
}
