package bot

import "time"

// RepositoryRef is a repository as a host names it. ExternalID survives renames; Path does not.
type RepositoryRef struct {
	Host          string // the configured, stable name of the host
	ExternalID    int64  // the host's numeric id
	Path          string // "owner/name", for people and for hosts that address by path
	Installation  int64  // GitHub: the App installation that gives access; 0 with a plain token
	DefaultBranch string // empty when the source of this value does not say
}

// Repository is an installed repository: a row of the table repository.
type Repository struct {
	ID int64
	RepositoryRef
	Active         bool
	CommentsSeenAt time.Time // host's clock: comments up to here were looked at; zero: never looked
}

// QueueState says whether rounds may start on a queue.
type QueueState int

// The queue states. The zero value is invalid.
const (
	QueueOpen   QueueState = iota + 1
	QueuePaused            // by a person
	QueueParked            // by the bot, with reason and remedy
)

// String returns the name stored in the column comment.
func (s QueueState) String() string {
	return nameOf(int(s), "OPEN", "PAUSED", "PARKED")
}

// Queue is repository × target branch: the partition in which at most one batch is active.
type Queue struct {
	ID           int64
	RepositoryID int64
	Target       string // branch name without refs/heads/
	State        QueueState
	Reason       string // why it is paused or parked, with the remedy
	Settings     QueueSettings
	SettingsBlob string // git blob id of the repository file the settings came from; empty: defaults
	Version      int64
}

// MergeRequest is a merge request known to us: a row of merge_request. What the host says now is an MRSnapshot.
type MergeRequest struct {
	ID              int64
	RepositoryID    int64
	Number          int
	Title           string // untrusted
	Author          Actor
	HeadSHA         string // last head seen
	StickyCommentID int64  // 0: none yet
	LastCommand     CommandOrder
}

// CommandOrder orders the commands of one merge request by the host's clock, then by comment id: GitHub numbers
// issue comments and reviews independently, so the id alone does not order them.
type CommandOrder struct {
	At int64 // microseconds since 1970 UTC, the host's clock
	ID int64
}

// Before reports whether o comes before p.
func (o CommandOrder) Before(p CommandOrder) bool {
	if o.At != p.At {
		return o.At < p.At
	}
	return o.ID < p.ID
}

// Actor is a person or program on a host.
type Actor struct {
	ID    int64
	Login string
	Bot   bool
}

func nameOf(value int, names ...string) string {
	if value < 1 || value > len(names) {
		return "INVALID"
	}
	return names[value-1]
}
