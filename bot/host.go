package bot

import (
	"context"
	"errors"
	"time"
)

// Host is all that the core asks of a Git host: an adapter implements it, and rooms ask for the role they use.
//
// Errors that wrap ErrNotFound, ErrGone, ErrForbidden or ErrRateLimited have that meaning; any other error is transient: the caller
// tries again later. Expected outcomes are values.
type Host interface {
	MergeRequests
	Approvers
	CI
	BatchMRs
	Comments
	Repositories
	GitAccess
}

// Errors every adapter maps its host's answers to.
var (
	ErrNotFound  = errors.New("not found on the host")
	ErrGone      = errors.New("no longer accessible: uninstalled, suspended, archived or deleted")
	ErrForbidden = errors.New("the host forbids it")

	// ErrUnavailable marks trouble that is the host's alone: no answer, or a server error. It passes, however long it takes.
	ErrUnavailable = errors.New("the host is in trouble")
)

// RateLimitedError says that nothing was called, and that nothing is to be called for a while: the host asked for a pause, or calls are held
// back because the last ones failed. It matches errors.As.
type RateLimitedError struct {
	RetryAfter time.Duration
	Because    string // empty: the host asked
}

// Error names the pause and who wants it.
func (e *RateLimitedError) Error() string {
	pause := e.RetryAfter.Round(time.Second).String()
	if e.Because != "" {
		return e.Because + ": not tried again for " + pause
	}
	return "the host asks for a pause of " + pause
}

// MRState is the state of a merge request on the host.
type MRState int

// The states. The zero value is invalid.
const (
	MROpen MRState = iota + 1
	MRClosed
	MRMerged
)

// String returns the state in lower case.
func (s MRState) String() string { return nameOf(int(s), "open", "closed", "merged") }

// MRSnapshot is a merge request as the host shows it now. Texts and branch names are untrusted.
type MRSnapshot struct {
	Number       int
	Title        string
	Body         string
	Author       Actor
	State        MRState
	Draft        bool
	HeadSHA      string
	SourceBranch string
	FromFork     bool // also when the fork is gone
	ChangesCI    bool // a fork's: it changes files that say what CI does (also when that cannot be told)
	Target       string
	MergeSHA     string // the commit that landed it, only when MRMerged
	ClosedBy     string // login of who closed it, only of a batch MR that is MRClosed, and where the host says so
	URL          string
	UpdatedAt    time.Time
}

// MergeRequests reads merge requests.
type MergeRequests interface {
	// ReadMR reads one merge request. ErrNotFound: there is none, or the number is a plain issue.
	ReadMR(ctx context.Context, repo Repository, number int) (MRSnapshot, error)
	// HeadRef names the ref under which the repository serves the head of a merge request, forks included.
	HeadRef(number int) string
	// ListUpdatedMRs lists open merge requests updated at or after since (host's clock), newest first, at most a few hundred.
	ListUpdatedMRs(ctx context.Context, repo Repository, since time.Time) ([]MRSnapshot, error)
}

// Permission is what an actor may do in a repository.
type Permission string

// The permissions, from least to most.
const (
	PermissionNone     Permission = "none"
	PermissionRead     Permission = "read"
	PermissionTriage   Permission = "triage"
	PermissionWrite    Permission = "write"
	PermissionMaintain Permission = "maintain"
	PermissionAdmin    Permission = "admin"
)

// AtLeast reports whether p includes q.
func (p Permission) AtLeast(q Permission) bool { return p.rank() >= q.rank() }

func (p Permission) rank() int {
	switch p {
	case PermissionRead:
		return 1
	case PermissionTriage:
		return 2
	case PermissionWrite:
		return 3
	case PermissionMaintain:
		return 4
	case PermissionAdmin:
		return 5
	}
	return 0
}

// Approvers reads who may do what and who approved what.
type Approvers interface {
	// Permission reads what login may do in repo; somebody unknown has PermissionNone (or PermissionRead on a public repository).
	Permission(ctx context.Context, repo Repository, actor Actor) (Permission, error)
	// ReadApprovals reads every review of a merge request in the order given, with the reviewer's permission filled in for
	// every reviewer whose latest opinion counts, and the host's own verdict.
	ReadApprovals(ctx context.Context, repo Repository, number int) (Approvals, error)
}

// CI reads and writes what is known about a commit.
type CI interface {
	// ReadChecks reads every check and status on sha, and what the host requires for target.
	ReadChecks(ctx context.Context, repo Repository, sha, target string) (ChecksReport, error)
	// SetCommitStatus writes the bot's own status on a commit. Writing the same twice is harmless.
	SetCommitStatus(ctx context.Context, repo Repository, sha string, status CommitStatus) error
}

// CommitStatus is the bot's own status on a member's head.
type CommitStatus struct {
	State       CheckState // CheckPending, CheckSuccess or CheckFailure
	Description string     // at most 140 characters
	URL         string
}

// NewMR asks for a batch MR.
type NewMR struct {
	Title  string
	Body   string
	Source string
	Target string
}

// MergeOutcome is what the host answered to a merge call, after a re-read where its answer alone cannot be trusted.
type MergeOutcome int

// The outcomes. The zero value is invalid. A call that was not answered is an error: read the MR again before anything else.
const (
	MergeDone      MergeOutcome = iota + 1 // merged; SHA is the commit on the target
	MergeHeadMoved                         // the head is not the one given
	MergeRefused                           // the host said no; Message says why
	MergeNeeds                             // rules want a review or check the bot cannot give; Message says which, and where to set it
	MergeNotReady                          // the host is still computing: ask again shortly
	MergeClosed                            // the MR is closed and not merged
)

// MergeAnswer is the outcome of MergeMR.
type MergeAnswer struct {
	Outcome MergeOutcome
	SHA     string
	Message string
}

// BatchMRs opens, finds, merges and closes aggregated merge requests.
type BatchMRs interface {
	// FindMRs lists the merge requests from source (a branch of the repository itself) in any state, newest first.
	FindMRs(ctx context.Context, repo Repository, source string) ([]MRSnapshot, error)
	// OpenMR creates a merge request; if one from that source is open already, it returns that one.
	OpenMR(ctx context.Context, repo Repository, mr NewMR) (MRSnapshot, error)
	// EditMR replaces title and body of a merge request of ours.
	EditMR(ctx context.Context, repo Repository, number int, title, body string) error
	// MergeMR merges with a merge commit, guarded by head; never squash, never rebase.
	MergeMR(ctx context.Context, repo Repository, number int, head, title, message string) (MergeAnswer, error)
	// CloseMR closes a merge request; closing a closed or merged one is no error. Read it again to know what became of it.
	CloseMR(ctx context.Context, repo Repository, number int) error
}

// Reaction is an acknowledgement on a comment.
type Reaction string

// The reactions.
const (
	ReactionSeen     Reaction = "eyes"
	ReactionDone     Reaction = "+1"
	ReactionRefused  Reaction = "-1"
	ReactionConfused Reaction = "confused"
)

// Comments writes and lists comments.
type Comments interface {
	// UpsertComment edits our comment that holds marker, or writes one: known is tried first when not 0, then the thread is
	// searched by marker and author. It returns the comment's id.
	UpsertComment(ctx context.Context, repo Repository, number int, marker, body string, known int64) (int64, error)
	// HasComment reports whether a comment of ours on merge request number is still there.
	HasComment(ctx context.Context, repo Repository, number int, id int64) (bool, error)
	// React acknowledges a comment on merge request number, best effort; a comment that is gone or cannot take reactions is no error.
	React(ctx context.Context, repo Repository, number int, kind CommentKind, id int64, reaction Reaction) error
	// ListComments lists conversation comments of the whole repository written at or after since (host's clock), oldest first.
	ListComments(ctx context.Context, repo Repository, since time.Time) ([]Comment, error)
	// ListReviewComments lists the review bodies of one merge request that are not empty, oldest first.
	ListReviewComments(ctx context.Context, repo Repository, number int) ([]Comment, error)
}

// HostRepository is a repository's state on the host.
type HostRepository struct {
	RepositoryRef
	Archived     bool
	MergeCommits bool // merge commits are allowed
}

// TargetRules is what the host demands of whatever lands on a branch, by all its kinds of rules together. Rules that the bot may not
// see are not in it.
type TargetRules struct {
	LinearHistory   bool // merge commits may not be on the branch at all
	MergeQueue      bool // only the host's own queue may land
	SquashOnly      bool // merge requests may not be landed with a merge commit, by the repository's settings or a rule
	RequiredReviews int  // approvals that every merge request needs, the batch MR too
	RequiredChecks  []RequiredCheck
	BotBypasses     bool // the bot may land without the required reviews; false when that is unknown
}

// Repositories reads repositories, branches and files.
type Repositories interface {
	// ListRepositories lists every repository this host's credentials give access to.
	ListRepositories(ctx context.Context) ([]RepositoryRef, error)
	// ReadRepository reads a repository by its external id, so that a rename is found out. ErrGone when it is no longer ours.
	ReadRepository(ctx context.Context, repo Repository) (HostRepository, error)
	// ReadTargetRules reads what landing on a branch takes. A branch without rules, or that does not exist yet, has zero TargetRules
	// but for what the repository's settings say.
	ReadTargetRules(ctx context.Context, repo Repository, branch string) (TargetRules, error)
	// ReadBranch returns the tip of a branch; ErrNotFound if there is none.
	ReadBranch(ctx context.Context, repo Repository, branch string) (string, error)
	// ReadFile reads a file at a branch, at most 1 MiB, with its git blob id; ErrNotFound if there is none.
	ReadFile(ctx context.Context, repo Repository, branch, path string) (content []byte, blob string, err error)
	// MRURL is where people see a merge request.
	MRURL(repo Repository, number int) string
	// MRMark is what people here write before the number of a merge request: "#", or "!" where "#" means an issue.
	MRMark() string
}

// GitAccess gives access to a repository by git.
type GitAccess interface {
	// GitRemote returns where and with which fresh credentials to fetch and push.
	GitRemote(ctx context.Context, repo Repository) (GitRemote, error)
}

// Webhooks authenticates and reads the deliveries of one host.
type Webhooks interface {
	// Authenticate checks the signature over body in constant time. It looks at nothing of the body but its bytes.
	Authenticate(header map[string][]string, body []byte) (WebhookHead, error)
	// Parse turns a stored delivery into events. No events and no error: not for us, and why says so.
	Parse(event string, payload []byte) (events []Event, why string, err error)
}

// WebhookHead is what the headers of a delivery say.
type WebhookHead struct {
	Key    string // unique per delivery, stable over redeliveries
	Event  string
	Wanted bool // false: an event we never use; answer and do not store
}
