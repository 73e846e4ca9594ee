package bot

import (
	"context"
	"time"
)

// Git builds batch branches and answers questions about histories, with real git in a bare mirror per repository.
// It is the port that bot/round uses and githost/gitmerge implements. Every method may be called by several goroutines and
// instances; calls for one repository may wait for each other.
type Git interface {
	// Build merges the members into one history on top of the target and leaves the result ready to push. Nothing has
	// been pushed when it returns. Moved and conflicting members are outcomes in the plan's result, not errors.
	// The caller closes the Build, whatever becomes of it.
	Build(ctx context.Context, remote GitRemote, spec BuildSpec) (Build, error)

	// FastForward moves target from base to head by a plain push that is not forced, so the host refuses it if the
	// target moved meanwhile. The head must be on the remote already (the batch branch).
	FastForward(ctx context.Context, remote GitRemote, target, base, head string) (PushOutcome, error)

	// DeleteBranch removes branch if it still stands at one of heads; a branch that is gone already is PushDone, one that
	// stands elsewhere is PushForeign.
	DeleteBranch(ctx context.Context, remote GitRemote, branch string, heads []string) (PushOutcome, error)

	// ChangedPaths fetches target and a member's head and lists the paths the head changes since its history left the target's. known is
	// false when that cannot be told: the reference stands elsewhere or is gone, or they share no history.
	ChangedPaths(ctx context.Context, remote GitRemote, target string, member BuildMember) (paths []string, known bool, err error)

	// Inspect fetches target and reports what it contains.
	Inspect(ctx context.Context, remote GitRemote, question InspectSpec) (Inspection, error)
}

// GitRemote is how to reach one repository by git.
type GitRemote struct {
	Key    string // names the mirror folder: stable for the repository's life, e.g. "github-main/4711"
	URL    string // without credentials: https://host/owner/name.git, or a local path
	Header Secret // value of one HTTP header line ("Authorization: Basic …"), empty for none; never in argv or on disk
}

// Secret is text that redacts itself when printed or logged.
type Secret string

// String returns a placeholder, never the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "[redacted]"
}

// GoString returns a placeholder, never the secret.
func (s Secret) GoString() string { return s.String() }

// MarshalText returns a placeholder, so that JSON and slog cannot show the secret.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Reveal returns the secret itself. Call it only where it is put on the wire.
func (s Secret) Reveal() string { return string(s) }

// BuildSpec says what a batch branch is made of.
type BuildSpec struct {
	BatchID   int64
	Token     string    // the batch row's token; part of the commits' identity
	CreatedAt time.Time // the batch row's creation time: author and committer date of every merge commit
	Target    string    // branch name without refs/heads/
	Base      string    // commit to build on; empty: the target's tip as fetched
	Members   []BuildMember
}

// BuildMember is one merge request to be merged, in batch order.
type BuildMember struct {
	OperationID string
	Number      int
	HeadSHA     string // pinned: the only commit that may be merged
	HeadRef     string // refs/pull/N/head or refs/merge-requests/N/head
	Title       string // for the commit message; untrusted text
}

// MemberFate is what became of a member in a build.
type MemberFate int

// The fates. The zero value is invalid.
const (
	FateMerged        MemberFate = iota + 1 // merged by a commit whose second parent is the pinned head
	FateContained                           // the target contained the pinned head already; no merge made
	FateMoved                               // the head ref is not the pinned SHA (or is gone)
	FateConflict                            // conflicts with the target itself
	FateConflictBatch                       // merges with the target alone, conflicts with members merged before it
	FateUnrelated                           // shares no history with the target
)

// String returns the fate in lower-case words.
func (f MemberFate) String() string {
	switch f {
	case FateMerged:
		return "merged"
	case FateContained:
		return "contained"
	case FateMoved:
		return "moved"
	case FateConflict:
		return "conflict"
	case FateConflictBatch:
		return "conflict with an earlier member"
	case FateUnrelated:
		return "unrelated history"
	}
	return "invalid fate"
}

// MemberBuild is the fate of one member.
type MemberBuild struct {
	BuildMember
	Fate        MemberFate
	FoundSHA    string   // FateMoved: where the head stands now, empty if gone
	MergeCommit string   // FateMerged: the merge commit made
	Files       []string // conflict fates: the files in conflict, sorted
}

// BuildResult is the outcome of a build: the same base and merged members always give the same HeadSHA, another batch never does.
type BuildResult struct {
	BaseSHA string
	HeadSHA string // equal to BaseSHA when no member merged
	TreeSHA string // tree of HeadSHA
	Members []MemberBuild
}

// Merged counts the members that ride in the build.
func (r BuildResult) Merged() (n int) {
	for _, m := range r.Members {
		if m.Fate == FateMerged {
			n++
		}
	}
	return n
}

// Build is a batch branch built but not yet pushed.
type Build interface {
	Result() BuildResult
	// Push sends the head to branch with a lease: it succeeds only if the branch is absent or stands at one of known heads.
	Push(ctx context.Context, branch string, known []string) (PushOutcome, error)
	// PushBase sends the base instead of the head, with the same lease. When the head was refused it tells whether the host refuses
	// this branch or what is in it.
	PushBase(ctx context.Context, branch string, known []string) (PushOutcome, error)
	// Contribution tells what a member brings that the base does not have, to find out whom a refusal of the host is about.
	Contribution(ctx context.Context, member BuildMember) (Contribution, error)
	// Close drops what was not pushed. It may be called twice.
	Close() error
}

// Contribution is what a member brings to its base.
type Contribution struct {
	Files   []string // paths it changes since its history left the base's
	Commits []string
}

// PushResult classifies what a remote said to a push.
type PushResult int

// The push results. The zero value is invalid. A push that was not answered is an error, not a result.
const (
	PushDone    PushResult = iota + 1 // the branch stands where it was meant to (also when it already did)
	PushForeign                       // the branch stands at a commit that is not ours, or the target moved
	PushRefused                       // the host refused (hook, protected branch, workflow files); Message says why
)

// PushOutcome is the answer to a push.
type PushOutcome struct {
	Result  PushResult
	Found   string // PushForeign: where the branch stands, if known
	Message string // PushRefused: the host's words, credentials and control characters removed
}

// InspectSpec asks what a target contains.
type InspectSpec struct {
	Target string   // branch name without refs/heads/
	Heads  []string // commits that may be contained
	Trees  []string // commits whose tree ids are wanted (they must be reachable from the target or fetched before)
}

// Inspection answers an InspectSpec.
type Inspection struct {
	Tip       string // the target's tip
	Contained map[string]bool
	Trees     map[string]string // commit → tree id; a commit that is unknown here is absent
}
