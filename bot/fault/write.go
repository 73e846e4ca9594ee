package fault

// Write names a write point: the step of the way from a webhook to a landing that it belongs to, and what is written. The zero value is
// no point.
type Write string

// The write points, in the order of the way.
const (
	Delivery    Write = "W1-delivery"    // a webhook is stored
	Application Write = "W2-application" // an operation is made that waits for approval
	Admission   Write = "W2-admission"   // an operation enters the waiting set
	Claim       Write = "W3-claim"       // a batch takes the slot and its members
	Push        Write = "W4-push"        // host: the batch branch
	Open        Write = "W5-open"        // host: the batch MR
	Opened      Write = "W5-opened"      // its number is recorded
	Build       Write = "W6-build"       // base, head and fates of a build are recorded; comes before W4
	Verdict     Write = "W7-verdict"     // the code of a failure is recorded; that CI is green is recorded by W8
	Landing     Write = "W8-landing"     // the intent to land is recorded
	Land        Write = "W9-land"        // host: the merge call, or the push onto the target
	Done        Write = "W10-done"       // a landed batch and its members end
	Close       Write = "W11-close"      // host: the MR of a failed batch is closed
	Release     Write = "W11-release"    // a failed batch ends and gives its members back
	Evict       Write = "W11-evict"      // one member leaves a batch
	Errand      Write = "W12-errand"     // host: something is said or done for people
	Cleanup     Write = "W12-cleanup"    // host: the batch branch is deleted
	Finish      Write = "W12-finish"     // an errand is recorded as done
)

// Writes lists every write point in the order of the way.
func Writes() []Write {
	return []Write{
		Delivery, Application, Admission, Claim, Push, Open, Opened, Build, Verdict, Landing, Land, Done, Close, Release, Evict, Errand, Cleanup, Finish,
	}
}
