package message

import (
	"fmt"
	"strings"

	"github.com/batchbot/batchbot/bot"
)

// A comment shows so many rows of a curated batch at most, and problems up to so many bytes: a reply that is too long would be cut anywhere.
const (
	rowLimit     = 50
	problemLimit = 7000
)

// curatedName names a curated batch inside a sentence.
func curatedName(id int64) string { return fmt.Sprintf("curated batch %d", id) }

// curatedState says in Markdown where a curated batch stands, beginning with a lower-case letter and without a final stop.
func curatedState(set bot.Curated) string {
	switch set.Status {
	case bot.CuratedDraft:
		return "a draft"
	case bot.CuratedPendingApproval:
		return "submitted, waiting for approval"
	case bot.CuratedApproved:
		return "approved by " + inline(set.Decider, 60) + ", on its way"
	case bot.CuratedDone:
		return "landed"
	case bot.CuratedRejected:
		return "not on its way" + curatedReason(set)
	case bot.CuratedCancelled:
		return "cancelled" + curatedReason(set)
	}
	return "in an unknown state"
}

func curatedReason(set bot.Curated) string {
	if set.Reason == "" {
		return ""
	}
	return ": " + detail(set.Reason)
}

// nextCurated says what a person can do about a curated batch, as a sentence of Markdown; empty when there is nothing to do.
func nextCurated(set bot.Curated) string {
	switch set.Status {
	case bot.CuratedDraft:
		return "Comment `/batch submit` to have every member checked and pinned at its commit, or `/batch with` and other numbers to replace the members."
	case bot.CuratedPendingApproval:
		return "Somebody with write access, other than " + inline(set.Drafter, 60) + " who drafted it, comments `/batch approve`. Each member needs its own approvals as well. " +
			"`/batch cancel` ends it."
	case bot.CuratedApproved:
		return "It rides whole, by itself. A member that is pushed to, closed, cancelled or loses its approval takes all of it out."
	case bot.CuratedRejected:
		return "Comment " + again(set) + " to draft it again, with these members or others."
	}
	return ""
}

// again is the command that drafts a set anew. Everywhere "#" is understood.
func again(set bot.Curated) string {
	if len(set.Rows) > 20 {
		return "`/batch with`, and the numbers of its members,"
	}
	var b strings.Builder
	b.WriteString("`/batch with")
	for _, r := range set.Rows {
		fmt.Fprintf(&b, " #%d", r.Number)
	}
	return b.String() + "`"
}

// curatedTable lists the rows of a set; the commits only where they are pinned.
func curatedTable(set bot.Curated, links Links) string {
	var b strings.Builder
	if set.Committed {
		b.WriteString("| row | merge request | pinned commit |\n|---|---|---|\n")
	} else {
		b.WriteString("| row | merge request |\n|---|---|\n")
	}
	for i, r := range set.Rows {
		if i == rowLimit {
			fmt.Fprintf(&b, "| | and %d more |%s\n", len(set.Rows)-i, strings.Repeat(" |", columnsMore(set)))
			break
		}
		fmt.Fprintf(&b, "| %d | %s |", r.RowNo, links.mr(r.Number))
		if set.Committed {
			fmt.Fprintf(&b, " %s |", code(bot.ShortSHA(r.HeadSHA)))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func columnsMore(set bot.Curated) int {
	if set.Committed {
		return 1
	}
	return 0
}

// curatedPart is what the status comment shows of the set drafted on its merge request.
func curatedPart(set bot.Curated, links Links) string {
	s := fmt.Sprintf("**%s: %s**\n\nThese land together or not at all, in this order:\n\n%s", upper(curatedName(set.ID)), curatedState(set), curatedTable(set, links))
	if hint := nextCurated(set); hint != "" {
		s += "\n" + hint + "\n"
	}
	return s
}

// CuratedDone answers a command that changed a set, with the set as it stands now.
func CuratedDone(set bot.Curated, queue bot.Queue, links Links) string {
	if set.Status == bot.CuratedCancelled {
		return upper(curatedName(set.ID)) + " is cancelled. Its members are free again.\n"
	}
	s := fmt.Sprintf("%s into %s is %s. It lands as a whole or not at all, in this order:\n\n%s",
		upper(curatedName(set.ID)), code(queue.Target), curatedState(set), curatedTable(set, links))
	if hint := nextCurated(set); hint != "" {
		s += "\n" + hint + "\n"
	}
	return s
}

// CuratedRefused answers a command about a set that problems stand in the way of: all of them. verb is one of package command's.
func CuratedRefused(verb string, set bot.Curated, problems []bot.CuratedProblem, links Links) string {
	var b strings.Builder
	name := "The set"
	if set.ID != 0 {
		name = upper(curatedName(set.ID))
	}
	switch verb {
	case "submit":
		b.WriteString(name + " is not submitted, and stays a draft as it is. Mend this and comment `/batch submit` again:\n\n")
	case "approve":
		b.WriteString(name + " is not approved, and still waits. Mend this and comment `/batch approve` again; where commits changed, `/batch cancel` it and draft it anew:\n\n")
	default:
		b.WriteString(name + " is not saved:\n\n")
	}
	for i, p := range problems {
		line := "- " + problem(p, links) + "\n"
		if b.Len()+len(line) > problemLimit {
			fmt.Fprintf(&b, "- and %d more\n", len(problems)-i)
			break
		}
		b.WriteString(line)
	}
	return b.String()
}

func problem(p bot.CuratedProblem, links Links) string {
	text := sentence(detail(p.Text))
	switch {
	case p.RowNo > 0 && p.Number > 0:
		return fmt.Sprintf("Row %d, %s %s", p.RowNo, links.mr(p.Number), text)
	case p.Number > 0 && p.Kind != bot.ProblemRows:
		return links.mr(p.Number) + " " + text
	}
	return upper(text)
}

// CuratedForbidden refuses a command about a set to somebody who may not give it; reason is the desk's.
func CuratedForbidden(login, reason string) string {
	return fmt.Sprintf("Sorry, %s: %s\n", inline(login, 60), sentence(detail(reason)))
}

// CuratedChanged answers a command about a set that changed while it was looked at.
func CuratedChanged(set bot.Curated, links Links) string {
	return fmt.Sprintf("%s changed while it was checked, so nothing was done. It is now %s:\n\n%s\nLook at it and comment again.\n",
		upper(curatedName(set.ID)), curatedState(set), curatedTable(set, links))
}

// CuratedSubmittedAlready answers a command that needs a draft.
func CuratedSubmittedAlready(set bot.Curated) string {
	return fmt.Sprintf("%s was submitted already, and waits for its approval. To change it, comment `/batch cancel` and draft it anew.\n", upper(curatedName(set.ID)))
}

// CuratedDecidedAlready answers a command that came after the decision about a set.
func CuratedDecidedAlready(set bot.Curated) string {
	s := fmt.Sprintf("%s is %s", upper(curatedName(set.ID)), curatedState(set))
	if set.Status == bot.CuratedApproved {
		s = fmt.Sprintf("%s was approved already by %s, and is on its way", upper(curatedName(set.ID)), inline(set.Decider, 60))
	}
	s = sentence(s)
	if set.Status == bot.CuratedRejected {
		s += " " + nextCurated(set)
	}
	return s + "\n"
}

// CuratedNotSubmitted answers an approval of a draft.
func CuratedNotSubmitted(set bot.Curated) string {
	return fmt.Sprintf("%s is still a draft: comment `/batch submit` first.\n", upper(curatedName(set.ID)))
}

// NoSet answers a command about the set of a merge request without one.
func NoSet() string {
	return "No curated batch was drafted on this merge request. Comment `/batch with #12 #15` to draft one of this merge request and those.\n"
}

// NoCurated answers a command about sets where there is no desk for them.
func NoCurated() string {
	return "Curated batches are not available here. Comment `/batch` to apply this merge request by itself.\n"
}

// WithUsage answers a draft that cannot be read; others are its arguments that are no merge requests of this repository, twice those named more
// than once.
func WithUsage(others []string, twice []int, links Links) string {
	var b strings.Builder
	if len(others) > 0 {
		b.WriteString("These are no merge requests of this repository: " + listed(others, func(s string) string { return inline(s, 100) }) + ". ")
	}
	if len(twice) > 0 {
		b.WriteString("These are named more than once: " + listed(twice, links.mr) + ". ")
	}
	b.WriteString("Nothing was drafted. Name the merge requests that are to land together with this one, in their order, by number or address: `/batch with #12 #15`.\n")
	return b.String()
}

// listed shows the first few of a list.
func listed[T any](list []T, show func(T) string) string {
	const most = 10
	var parts []string
	for i, v := range list {
		if i == most {
			parts = append(parts, fmt.Sprintf("%d more", len(list)-most))
			break
		}
		parts = append(parts, show(v))
	}
	return strings.Join(parts, ", ")
}

// setOut says why a member of a curated batch was taken out with it: a clause that follows "because". It is plain text.
func setOut(reason bot.Reason) string {
	if reason == bot.ReasonCIRed {
		return "CI failed on all of it together"
	}
	return because(reason)
}

// setNotice is the notice that a member was taken out with its curated batch, without its marker; ok false: the change is not about one.
func setNotice(entry bot.HistoryEntry) (text string, ok bool) {
	if entry.To != bot.OperationRejected {
		return "", false
	}
	happened := upper(setOut(entry.Reason))
	if entry.Detail != "" {
		happened += ": " + detail(entry.Detail)
	}
	from := "the waiting set"
	if entry.From == bot.OperationBatched && entry.BatchID != 0 {
		from = fmt.Sprintf("batch %d", entry.BatchID)
	}
	return strings.Join([]string{
		"**Taken out of " + from + " with its curated batch.**", sentence(happened), "Its members land together or not at all.",
		"Once that is mended, draft and submit the set again; or comment `/batch` to apply this merge request by itself.",
	}, " "), true
}
