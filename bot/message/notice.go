package message

import (
	"fmt"
	"strings"

	"github.com/batchbot/batchbot/bot"
)

// Notice is the comment of its own about one state change, posted because a person has to act: edits of the status comment notify
// nobody. It is empty when the change asks nothing of anybody.
func Notice(entry bot.HistoryEntry, links Links) string {
	text := notice(entry)
	if text == "" {
		return ""
	}
	return NoticeMarker(entry) + "\n" + text + "\n"
}

func notice(entry bot.HistoryEntry) string {
	if text, ok := seatNotice(entry); ok {
		return text
	}
	if text, ok := setNotice(entry); ok {
		return text
	}
	target := code(entry.Operation.Target)
	out := departure(entry)
	extra := ""
	if entry.Detail != "" {
		extra = ": " + detail(entry.Detail)
	}
	var happened, remedy string
	switch entry.Reason {
	case bot.ReasonConflict:
		happened = "It conflicts with " + target + extra + "."
		remedy = "Merge " + target + " into your branch or rebase it, and push."
	case bot.ReasonConflictBatch:
		happened = "It conflicts with an earlier member of the same batch" + extra + "."
		remedy = "Nothing to do yet: it rides again once the other one has landed, and conflicts with " + target + " then unless you mend it before."
	case bot.ReasonUnrelated:
		happened = "It shares no history with " + target + "."
		remedy = "Rebuild your branch on top of " + target + " and push."
	case bot.ReasonPushRefused:
		happened = "The host refuses a push that contains it" + extra + "."
		remedy = "A change of workflow files or protected paths needs to be merged by a person, or the app needs that permission."
	case bot.ReasonHeadMoved:
		happened = "New commits were pushed; it is now pinned at " + code(bot.ShortSHA(entry.HeadSHA)) + extra + "."
		remedy = "Approved at that commit it goes on by itself, at the end of the waiting set."
	case bot.ReasonUnapproved:
		happened = "Its approval was withdrawn or no longer suffices" + extra + "."
		remedy = "Approved again it goes on by itself, at the end of the waiting set."
	case bot.ReasonDrafted:
		happened = "It was turned into a draft."
		remedy = "Marked ready for review and approved, it goes on by itself, at the end of the waiting set."
	case bot.ReasonClosed:
		happened = "It was closed."
		remedy = "Reopen it and comment `/batch` to apply it again."
	case bot.ReasonRetargeted:
		happened = "Its target branch changed" + extra + "."
		remedy = "Comment `/batch` to apply it to its new target."
	case bot.ReasonCIRed:
		happened = "CI failed on it when it was tested alone on top of " + target + extra + "."
		remedy = "Push a fix, or comment `/batch retry` if the failure was not its fault."
	case bot.ReasonExpired:
		happened = "It waited for approval too long."
		remedy = "Comment `/batch` to apply it again."
	case bot.ReasonSuspect:
		happened = "Its batch failed CI" + extra + "."
		remedy = "Nothing to do yet: it is tested again in a smaller batch."
	case bot.ReasonBatchFailed:
		happened = "Its batch ended through nobody's fault" + extra + "."
		remedy = "Nothing to do: it kept its place and rides again."
	case bot.ReasonLandedEvicted:
		happened = "It had left its batch, and yet its commits are in " + target + ": another member of the batch holds them, or an earlier build was merged."
		remedy = "Look at it, and revert it if it must not be there."
	case bot.ReasonCancelled:
		happened = "It was cancelled" + extra + "."
		remedy = "Comment `/batch` to apply it again."
	default:
		return ""
	}
	return strings.Join([]string{"**" + out + "**", happened, remedy}, " ")
}

// departure says where a merge request went, as the first sentence of a notice.
func departure(entry bot.HistoryEntry) string {
	from := "the waiting set"
	switch {
	case entry.From == bot.OperationBatched && entry.BatchID != 0:
		from = fmt.Sprintf("batch %d", entry.BatchID)
	case entry.From == bot.OperationBatched:
		from = "its batch"
	}
	switch entry.To {
	case bot.OperationWaiting:
		return "Back to the waiting set from " + from + "."
	case bot.OperationPendingApproval:
		if entry.From == bot.OperationPendingApproval {
			return "Still waiting for approval."
		}
		return "Taken out of " + from + ", waiting for approval again."
	case bot.OperationFailed:
		return "Failed and taken out of " + from + "."
	case bot.OperationExpired:
		return "Expired."
	case bot.OperationMerged:
		return "Landed without consent."
	}
	if entry.From == bot.OperationPendingApproval {
		return "No longer waiting for approval."
	}
	return "Taken out of " + from + "."
}

// LandedClosing is the comment with which a member is closed that landed without the host noticing.
func LandedClosing(view bot.OperationView, links Links) string {
	return ClosingMarker(view.Operation) + "\nEvery commit of this merge request is in " + code(view.Operation.Target) + landedWith(view, links) +
		". The host did not mark it as merged, so it is closed here.\n"
}

// LandedNewer is the comment on a landed member that has newer commits.
func LandedNewer(view bot.OperationView, head string, links Links) string {
	return ClosingMarker(view.Operation) + "\nThis merge request landed in " + code(view.Operation.Target) + " at " +
		code(bot.ShortSHA(view.Operation.HeadSHA)) + landedWith(view, links) + ", but it has newer commits (now at " + code(bot.ShortSHA(head)) +
		"), so it stays open. Comment `/batch` to apply them.\n"
}

func landedWith(view bot.OperationView, links Links) string {
	if view.Batch == nil {
		return ""
	}
	s := ", landed with " + links.batch(*view.Batch)
	if view.Batch.LandedSHA != "" {
		// The full id, outside of a code span: hosts make it a link to the commit.
		s += " as " + inline(view.Batch.LandedSHA, 64)
	}
	return s
}
