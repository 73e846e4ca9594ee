package message

import (
	"fmt"
	"slices"
	"strings"

	"github.com/batchbot/batchbot/bot"
)

// bodyLimit is how many bytes of members a description holds: hosts take no more than 65,536 characters.
const bodyLimit = 60_000

// MRText is the title (plain) and description (Markdown) of a merge request.
type MRText struct {
	Title string
	Body  string
}

// BatchMR is the text of the batch MR: the members in batch order. The description begins with BatchMarker. approvers are the logins of who
// approved each member, by operation id.
func BatchMR(batch bot.Batch, queue bot.Queue, members []bot.Operation, approvers map[string][]string, links Links) MRText {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nThese merge requests are tested together and land in %s as one.%s\n\n", BatchMarker(batch), code(queue.Target), whyThese(batch))
	b.WriteString("| merge request | author | pinned commit | approved by |\n|---|---|---|---|\n")
	for i, op := range members {
		row := fmt.Sprintf("| %s %s | %s | %s | %s |\n", links.mr(op.Number), inline(op.Title, titleLimit), author(op.Author),
			code(bot.ShortSHA(op.HeadSHA)), people(approvers[op.ID]))
		if b.Len()+len(row) > bodyLimit {
			fmt.Fprintf(&b, "| and %d more | | | |\n", len(members)-i)
			break
		}
		b.WriteString(row)
	}
	b.WriteString("\nThe branch is built anew whenever a member leaves or the target moves: do not push to it. ")
	b.WriteString("Closing this merge request ends the batch and parks the queue; its members wait again.\n")
	return MRText{
		Title: fmt.Sprintf("Batch %d into %s: %s", batch.ID, Plain(queue.Target, nameLimit), plural(len(members), "merge request")),
		Body:  b.String(),
	}
}

// whyThese says what the planner means by the members of an active batch, as a sentence that follows another.
func whyThese(b bot.Batch) string {
	if b.Why == "" || !b.Status.Active() {
		return ""
	}
	return " Why these: " + sentence(detail(b.Why))
}

// people lists logins, the first few of many.
func people(logins []string) string {
	const most = 5
	var names []string
	for i, login := range logins {
		if i == most {
			names = append(names, fmt.Sprintf("%d more", len(logins)-most))
			break
		}
		names = append(names, author(bot.Actor{Login: login}))
	}
	if len(names) == 0 {
		return "–"
	}
	return strings.Join(names, ", ")
}

// MergeCommit is the message of the commit that lands a batch. Both parts are plain.
func MergeCommit(batch bot.Batch, members []bot.Operation, links Links) (title, body string) {
	const most = 10
	numbers := make([]string, 0, most+1)
	var b strings.Builder
	for i, op := range members {
		switch {
		case i < most:
			numbers = append(numbers, links.plain(op.Number))
		case i == most:
			numbers = append(numbers, fmt.Sprintf("and %d more", len(members)-most))
		}
		fmt.Fprintf(&b, "%s %s (by %s, at %s)\n", links.plain(op.Number), Plain(op.Title, titleLimit), Plain(op.Author.Login, 60), bot.ShortSHA(op.HeadSHA))
	}
	fmt.Fprintf(&b, "\nBatch: %d-%s\n", batch.ID, batch.Token)
	return fmt.Sprintf("Land batch %d: %s", batch.ID, strings.Join(numbers, ", ")), b.String()
}

// BatchReport is the comment on the batch MR that says what became of the batch and of each member. It begins with ReportMarker.
func BatchReport(view bot.BatchView, links Links) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n**%s**", ReportMarker(view.Batch), headline(view))
	if view.Batch.Message != "" {
		fmt.Fprintf(&b, " %s", sentence(upper(detail(view.Batch.Message))))
	}
	b.WriteString(whyThese(view.Batch))
	b.WriteString("\n\n| merge request | author | commit | outcome |\n|---|---|---|---|\n")
	for _, m := range view.Members {
		op := m.Operation
		fmt.Fprintf(&b, "| %s %s | %s | %s | %s |\n", links.mr(op.Number), inline(op.Title, titleLimit), author(op.Author),
			code(bot.ShortSHA(m.HeadSHA)), outcome(m, view.Batch.Kind))
	}
	b.WriteString("\nCI: " + ciWords(view.Batch.CIConclusion))
	if view.Batch.BaseSHA != "" && view.Batch.HeadSHA != "" {
		fmt.Fprintf(&b, ". Built on %s, tested at %s", code(bot.ShortSHA(view.Batch.BaseSHA)), code(bot.ShortSHA(view.Batch.HeadSHA)))
	}
	b.WriteString(".\n")
	return b.String()
}

// Blocked is the comment on the batch MR that a person is needed, and for what.
func Blocked(batch bot.Batch, target string) string {
	s := fmt.Sprintf("%s\n**Batch %d is blocked and needs a person", BlockedMarker(batch, target), batch.ID)
	if c := cause(batch.Code); c != "" {
		s += ": " + c
	}
	s += ".**"
	if batch.Message != "" {
		s += " " + sentence(upper(detail(batch.Message)))
	}
	return s + "\n\nNothing else of its queue lands before. Merge this merge request or close it, and the bot goes on by itself; " +
		"or comment `/batch unblock merged`, `/batch unblock failed` or `/batch unblock resume` (maintainers).\n"
}

// Reopened is the comment with which the MR of a batch that is over is closed again.
func Reopened(batch bot.Batch) string {
	return fmt.Sprintf("%s\nBatch %d is over, so its merge request is closed again: its members wait in the queue or have landed, and what was tested then is not what the "+
		"target branch would become now. Comment `/batch` on a member instead.\n", ReopenedMarker(batch), batch.ID)
}

func headline(view bot.BatchView) string {
	b := view.Batch
	name := fmt.Sprintf("Batch %d", b.ID)
	late := slices.ContainsFunc(view.Members, func(m bot.BatchMember) bool { return m.Event == bot.MemberLandedLate })
	switch {
	case late:
		return name + " was over when it was merged: its members are recorded as landed in " + code(view.Queue.Target) + ". It had ended because " + cause(b.Code) + "."
	case b.Code == bot.CodeLandedEvicted:
		return name + " landed in " + code(view.Queue.Target) + ", and with it what had left it. Look at it now."
	case b.LandedDiffers:
		return name + " landed in " + code(view.Queue.Target) + ", but what landed is not what was tested: somebody pushed at the same moment. Look at it now."
	case b.Status == bot.BatchSucceeded && b.LandedSHA != "":
		return name + " landed in " + code(view.Queue.Target) + " as " + code(bot.ShortSHA(b.LandedSHA)) + "."
	case b.Status == bot.BatchSucceeded:
		return name + " landed in " + code(view.Queue.Target) + "."
	case b.Status == bot.BatchFailed:
		if c := cause(b.Code); c != "" {
			return name + " did not land: " + c + "."
		}
		return name + " did not land."
	case b.Status == bot.BatchBlocked:
		if c := cause(b.Code); c != "" {
			return name + " is blocked and needs a person: " + c + "."
		}
		return name + " is blocked and needs a person."
	}
	return name + " is under way: it " + strings.TrimPrefix(progress(b), "which ") + "."
}

// outcome says what became of one member of a batch.
func outcome(m bot.BatchMember, kind bot.BatchKind) string {
	if kind == bot.BatchCurated && m.Reason == bot.ReasonCIRed {
		return "failed with the others, because " + setOut(m.Reason)
	}
	switch m.Event {
	case bot.MemberLanded:
		if m.Reason == bot.ReasonContained {
			return "landed: the target branch contained it already"
		}
		return "landed"
	case bot.MemberLandedLate:
		return "landed late"
	case bot.MemberEvicted:
		return "left, because " + why(m.Reason, m.Detail)
	case bot.MemberReturned:
		return "waits again, because " + why(m.Reason, m.Detail)
	case bot.MemberFailed:
		return "failed, because " + why(m.Reason, m.Detail)
	}
	return "rides"
}

func ciWords(conclusion string) string {
	switch conclusion {
	case "success":
		return "passed"
	case "failure":
		return "failed"
	case "none":
		return "no check ran"
	}
	return "not decided"
}
