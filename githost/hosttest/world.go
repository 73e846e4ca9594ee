package hosttest

import (
	"net/http"
	"testing"

	"github.com/batchbot/batchbot/bot"
)

// World is a living host that holds one repository. It is public and its default branch is "main", which holds README.md. Its people are
// ada (admin), max (maintain), bob and cleo (write), tess (triage) and dan (a stranger). The bot may write. It has no CI and no rules
// to begin with.
//
// The methods fail the test they were made for when the host refuses.
type World interface {
	// Host is the adapter under test.
	Host() bot.Host
	// Webhooks is its other half.
	Webhooks() bot.Webhooks
	// Repository is the repository as its row would be.
	Repository() bot.Repository

	// OpenMR opens a merge request and returns its number.
	OpenMR(mr NewMR) int
	// OpenIssue opens a plain issue and returns its number.
	OpenIssue(author, title string) int
	// Push adds a commit to a merge request's head and returns it.
	Push(number int, files map[string]string) string
	// Commit adds a commit to a branch, made from main if there is none, and returns it.
	Commit(branch string, files map[string]string) string
	// DeleteBranch removes a branch.
	DeleteBranch(branch string)
	// Close closes a merge request without merging it.
	Close(number int, by string)
	// Merge merges a merge request with a merge commit and returns that.
	Merge(number int, by string) string
	// Retarget changes what a merge request is to be merged into.
	Retarget(number int, by, target string)
	// SetDraft makes a merge request a draft, or ready.
	SetDraft(number int, by string, draft bool)

	// Comment writes in a merge request's or issue's conversation.
	Comment(number int, author, body string) int64
	// EditComment changes what somebody wrote.
	EditComment(id int64, body string)
	// Approve approves a merge request at its present head; body may be empty. What is peculiar to the host decides what kind of comment
	// body is.
	Approve(number int, by, body string)
	// Unapprove takes an approval back, by whatever the host has for that.
	Unapprove(number int, by string)
	// Comments is a conversation as people see it, oldest first.
	Comments(number int) []Comment

	// Report reports a check on a commit.
	Report(sha, name string, state bot.CheckState)
	// RequireChecks makes the host demand checks of merge requests into branch.
	RequireChecks(branch string, names ...string)
	// RequireApprovals makes the host demand approvals of merge requests into branch.
	RequireApprovals(branch string, count int)
	// Statuses lists the bot's own statuses on a commit, oldest first.
	Statuses(sha string) []Status

	// Archive makes the repository read-only.
	Archive()
	// Deliveries lists every webhook so far, in order.
	Deliveries() []Delivery
}

// Peculiar is implemented by a World whose host lacks what no adapter can make up for.
type Peculiar interface{ Peculiarities() Peculiarities }

// Peculiarities say how a host differs.
type Peculiarities struct {
	IssuesApart     bool // issues have numbers of their own, so what is said on one is not heard
	SilentApprovals bool // an approval has no words: what is said with one is a comment beside it
	UnsignedBodies  bool // deliveries carry a secret instead of a signature, so a changed body is not noticed
}

func peculiarities(w World) Peculiarities {
	if p, ok := w.(Peculiar); ok {
		return p.Peculiarities()
	}
	return Peculiarities{}
}

// NewMR is a merge request to open.
type NewMR struct {
	Author string
	Branch string
	Target string // empty: main
	Title  string
	Files  map[string]string // committed on top of the target
	Fork   bool              // from a fork: Branch is not one of the repository
	Draft  bool
}

// Comment is a comment as people see it.
type Comment struct {
	ID        int64
	Author    string
	Body      string
	Reactions []bot.Reaction
}

// Status is a commit status as people see it.
type Status struct {
	State       bot.CheckState
	Description string
}

// Delivery is a webhook as it arrives.
type Delivery struct {
	Header http.Header
	Body   []byte
}

// Run tests an adapter. create makes a fresh world for one test.
func Run(t *testing.T, create func(t *testing.T) World) {
	for name, test := range map[string]func(*testing.T, World){
		"a merge request reads as it is":                         readsMR,
		"a fork's head is served by the repository":              readsFork,
		"a closed merge request is not merged":                   readsClosed,
		"a merged merge request names the commit":                readsMerged,
		"a plain issue is no merge request":                      readsIssue,
		"updated merge requests are listed newest first":         listsUpdated,
		"permissions tell five roles and a stranger apart":       readsPermissions,
		"an approval is bound to the head approved":              readsApprovals,
		"a withdrawn approval is not one":                        readsWithdrawal,
		"the host's own rule has its say":                        readsDecision,
		"checks are reported with their newest state":            readsChecks,
		"no check is not a pending check":                        readsNoChecks,
		"required checks are those the target demands":           readsRequired,
		"what landing on a target takes is read":                 readsRules,
		"a status on a head is written and known as our own":     writesStatus,
		"a batch MR is found in any state":                       findsBatchMR,
		"opening twice is opening once":                          opensOnce,
		"title and body of a batch MR can be changed":            editsBatchMR,
		"a batch MR merges with a merge commit":                  mergesBatchMR,
		"a moved head is not merged":                             guardsHead,
		"a closed batch MR is not merged":                        refusesClosed,
		"a conflict is refused":                                  refusesConflict,
		"a missing approval is needed, not refused":              needsApproval,
		"merging what is merged is done":                         mergesTwice,
		"closing is harmless when it is done already":            closesTwice,
		"a comment written twice is one comment":                 upsertsOnce,
		"a comment somebody deleted from memory is found":        upsertsByMarker,
		"somebody else's copy of a marker is left alone":         upsertsOwnOnly,
		"a reaction acknowledges, and one too many does no harm": reacts,
		"comments are listed from a moment on":                   listsComments,
		"bodies of reviews are listed":                           listsReviewComments,
		"repositories are listed":                                listsRepositories,
		"a repository is read by its id":                         readsRepository,
		"a branch has a tip or is not found":                     readsBranches,
		"a file is read at a branch":                             readsFiles,
		"git gets an address and a way in":                       givesGit,
		"a comment arrives as an event":                          hearsComments,
		"edits and our own words are not heard":                  hearsNoEdits,
		"what happens to a merge request arrives as a hint":      hearsMRs,
		"a review arrives as what it says and what it does":      hearsReviews,
		"checks and branches arrive as hints":                    hearsChecksAndBranches,
		"a delivery with a wrong signature is refused":           refusesForgery,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, create(t))
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ok returns v when err is nil.
func ok[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
