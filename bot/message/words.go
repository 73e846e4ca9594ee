package message

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/batchbot/batchbot/bot"
)

// Links says how people on a host write a merge request's number, and where they see it. The zero value shows numbers only.
type Links struct {
	mark string
	url  func(number int) string
}

// Numbering is what Links asks of a host.
type Numbering interface {
	MRURL(repo bot.Repository, number int) string
	MRMark() string
}

// LinksOf links the merge requests of one repository.
func LinksOf(repo bot.Repository, host Numbering) Links {
	return Links{mark: host.MRMark(), url: func(number int) string { return host.MRURL(repo, number) }}
}

// plain writes a merge request's number as text.
func (l Links) plain(number int) string { return fmt.Sprintf("%s%d", cmp.Or(l.mark, "#"), number) }

// mr shows a merge request by number.
func (l Links) mr(number int) string {
	if l.url == nil {
		return l.plain(number)
	}
	return link(l.plain(number), l.url(number))
}

// batch shows a batch, with its batch MR once there is one.
func (l Links) batch(b bot.Batch) string {
	if b.MRNumber == 0 {
		return fmt.Sprintf("batch %d", b.ID)
	}
	return fmt.Sprintf("batch %d (%s)", b.ID, l.mr(b.MRNumber))
}

// because says in words why an operation is where it is: a clause that follows "because" or a colon. It is plain text.
func because(reason bot.Reason) string {
	switch reason {
	case bot.ReasonApplied:
		return "it was applied"
	case bot.ReasonApproved:
		return "it was approved"
	case bot.ReasonClaimed:
		return "a batch took it"
	case bot.ReasonCancelled:
		return "it was cancelled"
	case bot.ReasonRetried:
		return "it was retried"
	case bot.ReasonHeadMoved:
		return "new commits were pushed"
	case bot.ReasonClosed:
		return "the merge request was closed"
	case bot.ReasonRetargeted:
		return "its target branch changed"
	case bot.ReasonDrafted:
		return "it was turned into a draft"
	case bot.ReasonUnapproved:
		return "its approval was withdrawn or no longer suffices"
	case bot.ReasonConflict:
		return "it conflicts with the target branch"
	case bot.ReasonConflictBatch:
		return "it conflicts with an earlier member of its batch"
	case bot.ReasonUnrelated:
		return "it shares no history with the target branch"
	case bot.ReasonPushRefused:
		return "the host refuses a push that contains it"
	case bot.ReasonCIRed:
		return "CI failed on it alone"
	case bot.ReasonSuspect:
		return "it rode in a batch that failed CI and is searched for the cause"
	case bot.ReasonBatchFailed:
		return "its batch ended through nobody's fault"
	case bot.ReasonLanded:
		return "its batch landed"
	case bot.ReasonContained:
		return "the target branch contained it already"
	case bot.ReasonMergedOutside:
		return "it was merged outside of a batch"
	case bot.ReasonExpired:
		return "it waited for approval too long"
	case bot.ReasonLandedEvicted:
		return "it landed with the batch it had left"
	case bot.ReasonLandedLate:
		return "its batch was merged after it was over"
	case bot.ReasonJoined:
		return "it joined a train"
	case bot.ReasonPromoted:
		return "a seat on its train became free"
	case bot.ReasonCarriedOver:
		return "its train departed without it"
	case bot.ReasonDeparted:
		return "its train departed"
	case bot.ReasonLeft:
		return "it left its train"
	case bot.ReasonTrainOver:
		return "its train ended"
	case bot.ReasonCurated:
		return "its curated batch was approved"
	case bot.ReasonSetBroken:
		return "another member of its curated batch was lost"
	}
	return "of an unknown reason"
}

// why is because with the detail in brackets behind it.
func why(reason bot.Reason, words string) string {
	if words == "" {
		return because(reason)
	}
	return because(reason) + " (" + detail(words) + ")"
}

// cause says in words why a batch ended, waits or is blocked. It is plain text.
func cause(code bot.Code) string {
	switch code {
	case bot.CodeLanded:
		return "it landed"
	case bot.CodeLandedDiffers:
		return "what landed is not what was tested"
	case bot.CodeCIRed:
		return "CI failed"
	case bot.CodeCITimeout:
		return "CI did not finish in time"
	case bot.CodeCIBroken:
		return "CI fails whatever it is given"
	case bot.CodeNoCI:
		return "no check ever appeared"
	case bot.CodePushRefused:
		return "the host refused the push"
	case bot.CodeMergeRefused:
		return "the host refused the merge"
	case bot.CodeTargetMoving:
		return "the target branch kept moving"
	case bot.CodeHostGone:
		return "the repository is no longer accessible"
	case bot.CodeClosed:
		return "somebody closed the batch merge request"
	case bot.CodeBranchDeleted:
		return "the batch branch was deleted"
	case bot.CodeForeignPush:
		return "somebody pushed to the batch branch"
	case bot.CodeAllEvicted:
		return "every member left"
	case bot.CodeNeedsApproval:
		return "it needs an approval that the bot cannot give"
	case bot.CodeManual:
		return "it is ready for a person to merge"
	case bot.CodeOverdue:
		return "whether it landed could not be found out in time"
	case bot.CodeLandedEvicted:
		return "it brought in what had left it"
	case bot.CodeForced:
		return "an operator ended it without asking the host"
	}
	return ""
}

// state says in Markdown where an operation stands, beginning with a lower-case letter and without a final stop.
func state(view bot.OperationView, links Links) string {
	op := view.Operation
	switch op.Status {
	case bot.OperationPendingApproval:
		if view.Seat != nil {
			return seated(view)
		}
		s := "waiting for approval"
		if r := op.Reason; r != bot.ReasonApplied && r != bot.ReasonRetried && r != "" {
			s += ", because " + because(r)
		}
		if op.Detail != "" {
			s += ": " + detail(op.Detail)
		}
		return s
	case bot.OperationWaiting:
		if op.Cohort < 0 { // it has no place of its own
			s := "approved, in the waiting set as a member of " + curatedName(bot.CuratedCohort(op.Cohort)) + ", which rides whole"
			switch op.Reason {
			case bot.ReasonSuspect:
				s += "; it failed CI, perhaps for nothing, and is tested once more"
			case bot.ReasonBatchFailed:
				s += ", because " + why(op.Reason, op.Detail)
			}
			return s
		}
		s := "approved, in the waiting set"
		if view.Position > 0 {
			s = fmt.Sprintf("approved, number %d in the waiting set", view.Position)
		}
		switch op.Reason {
		case bot.ReasonConflictBatch, bot.ReasonSuspect, bot.ReasonBatchFailed:
			s += ", because " + why(op.Reason, op.Detail)
		}
		return s
	case bot.OperationBatched:
		if view.Batch == nil {
			return "in a batch"
		}
		s := "in " + links.batch(*view.Batch) + ", " + progress(*view.Batch)
		if op.Cohort < 0 {
			s = "with " + curatedName(bot.CuratedCohort(op.Cohort)) + " " + s
		}
		return s
	case bot.OperationMerged:
		switch {
		case op.Reason == bot.ReasonMergedOutside:
			return "merged outside of a batch"
		case op.Reason == bot.ReasonContained:
			return "landed: the target branch contained it already"
		case op.Reason == bot.ReasonLandedEvicted, op.Reason == bot.ReasonLandedLate:
			return "landed, although " + because(op.Reason)
		case view.Batch != nil && view.Batch.LandedSHA != "":
			return "landed with " + links.batch(*view.Batch) + " as " + code(bot.ShortSHA(view.Batch.LandedSHA))
		case view.Batch != nil:
			return "landed with " + links.batch(*view.Batch)
		}
		return "landed"
	case bot.OperationRejected:
		s := "taken out with its curated batch, because " + setOut(op.Reason)
		if op.Detail != "" {
			s += " (" + detail(op.Detail) + ")"
		}
		return s
	case bot.OperationCancelled:
		if op.Reason == bot.ReasonCancelled {
			return "cancelled"
		}
		return "cancelled, because " + why(op.Reason, op.Detail)
	case bot.OperationClosed:
		return "ended, because " + why(op.Reason, op.Detail)
	case bot.OperationExpired:
		return "expired, because " + why(op.Reason, op.Detail)
	case bot.OperationFailed:
		return "failed, because " + why(op.Reason, op.Detail)
	}
	return "in an unknown state"
}

// progress says how far an active batch is.
func progress(b bot.Batch) string {
	var s string
	switch {
	case b.Status == bot.BatchBlocked:
		s = "which is blocked and needs a person"
	case b.Code == bot.CodeNeedsApproval:
		return "which waits for an approval of its batch merge request"
	case b.Code == bot.CodeManual:
		return "which is ready for a person to merge"
	case b.Phase == bot.PhaseClaimed:
		return "which is being built"
	case b.Phase == bot.PhaseBuilt:
		return "which is about to be opened"
	case b.Phase == bot.PhaseOpened:
		s = "which waits for CI"
	case b.Phase == bot.PhaseLanding:
		return "which is landing"
	}
	if c := cause(b.Code); c != "" {
		s += ": " + c
	}
	return s
}

// next says what a person can do, as a sentence of Markdown; empty when there is nothing to do.
func next(view bot.OperationView) string {
	op := view.Operation
	switch op.Status {
	case bot.OperationFailed:
		return "Push a fix, or comment `/batch retry` to try the same commit again."
	case bot.OperationRejected:
		return "Once that is mended, draft and submit the set again; or comment `/batch` to apply this merge request by itself."
	case bot.OperationCancelled, bot.OperationExpired:
		return "Comment `/batch` to apply it again."
	case bot.OperationClosed:
		return "Reopen it and comment `/batch` to apply it again."
	case bot.OperationPendingApproval:
		if view.Seat != nil {
			return nextSeated(view)
		}
		if op.Reason == bot.ReasonDrafted {
			return "Mark it ready for review; it needs to be approved at its pinned commit to go on."
		}
		return "Once it is approved at " + code(bot.ShortSHA(op.HeadSHA)) + " it goes on by itself, at the end of the waiting set."
	}
	return ""
}

// upper begins a sentence.
func upper(s string) string {
	_, size := utf8.DecodeRuneInString(s)
	return strings.ToUpper(s[:size]) + s[size:]
}

func author(a bot.Actor) string {
	if a.Login == "" {
		return "unknown"
	}
	return inline(a.Login, 60)
}

func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
