// Package mutant takes single guards of the protocol away, to see whether the schedules of package explore notice. In an ordinary build Is is false
// and what it guards vanishes. A build with the tag mutate can take one guard away at a time, for the whole process.
package mutant

// Some guards have a second one behind them, which killing a process does not reach: a host refuses a second open merge request of one branch, and the
// adapters then look for the first. Without Findable, a bot killed after it opened a batch MR still ends with one as long as that is open; what the look
// is for is one that was closed or merged meanwhile. The explorer's host has no such rule when that guard is gone, and notices.

// Guard is one rule that keeps the invariants, by the words of docs/reliability.md.
type Guard string

// The guards.
const (
	OneActive   Guard = "one active batch per queue"
	ClaimLooks  Guard = "the claim looks at its rows again"
	Fence       Guard = "a batch is written only as it was read"
	Idempotency Guard = "a command is admitted once"
	ReadAgain   Guard = "the host is read again, whatever a webhook says"
	OwnVerdict  Guard = "the verdict is that of the very commit"
	OnlyForward Guard = "the target only moves forwards"
	HostFirst   Guard = "landed is recorded after it landed"
	Intent      Guard = "LANDING is written before the call"
	NoRelease   Guard = "nobody leaves a batch that is LANDING"
	Atomic      Guard = "a settlement is one transaction"
	Findable    Guard = "a batch MR is looked for before it is opened"
	Look        Guard = "the host is looked at besides webhooks"
	NewHead     Guard = "a new head clears a rejection"
	RowsFirst   Guard = "rows are read before the host"
	MergedHead  Guard = "what was merged is the head of the MR"
)

// Guards lists all of them.
var Guards = []Guard{
	OneActive, ClaimLooks, Fence, Idempotency, ReadAgain, OwnVerdict, OnlyForward, HostFirst, Intent, NoRelease, Atomic, Findable, Look, NewHead,
	RowsFirst, MergedHead,
}
