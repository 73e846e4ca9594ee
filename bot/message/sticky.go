package message

import (
	"fmt"
	"strings"

	"github.com/batchbot/batchbot/bot"
)

// Sticky is the status comment of a merge request. It is edited in place and notifies nobody.
func Sticky(view bot.StickyView, links Links) string {
	return StatusMarker + "\n" + Status(view, links)
}

// Status is what the status comment shows, without its marker: the answer to the status command.
func Status(view bot.StickyView, links Links) string {
	if len(view.Operations) == 0 && view.Curated != nil {
		return curatedPart(*view.Curated, links)
	}
	if len(view.Operations) == 0 {
		return "This merge request was not applied to any queue. Comment `/batch` to apply it.\n"
	}
	var b strings.Builder
	current := view.Operations[0]
	fmt.Fprintf(&b, "**%s**\n\n", upper(state(current, links)))
	b.WriteString("| target | state | commit |\n|---|---|---|\n")
	for _, v := range view.Operations {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", code(v.Operation.Target), state(v, links), code(bot.ShortSHA(v.Operation.HeadSHA)))
	}
	if hint := next(current); hint != "" {
		fmt.Fprintf(&b, "\n%s\n", hint)
	}
	for _, v := range view.Operations {
		if note := queueNote(v.Queue); note != "" && v.Operation.Status.Followed() {
			fmt.Fprintf(&b, "\n%s\n", note)
		}
	}
	if view.Curated != nil {
		b.WriteString("\n" + curatedPart(*view.Curated, links))
	}
	b.WriteString("\n<details><summary>Details</summary>\n\n")
	for _, v := range view.Operations {
		op := v.Operation
		fmt.Fprintf(&b, "- Target %s: applied by %s, pinned at %s", code(op.Target), inline(op.Requester, 60), code(bot.ShortSHA(op.HeadSHA)))
		if v.Batch != nil {
			fmt.Fprintf(&b, "; %s %s, %s", last(op), links.batch(*v.Batch), batchState(*v.Batch))
			if v.Batch.Message != "" {
				fmt.Fprintf(&b, " (%s)", detail(v.Batch.Message))
			}
			if v.Batch.Why != "" && op.Status == bot.OperationBatched {
				fmt.Fprintf(&b, " (%s)", detail(v.Batch.Why))
			}
		}
		fmt.Fprintf(&b, "; operation %s\n", code(op.ID))
	}
	fmt.Fprintf(&b, "- Only the pinned commit is ever landed. %s\n", pushed(view.Operations))
	b.WriteString("- Commands: `/batch`, `/batch cancel`, `/batch retry`, `/batch status`, `/batch help`\n")
	b.WriteString("\n</details>\n")
	return b.String()
}

// pushed says what a push does to the newest application.
func pushed(views []bot.OperationView) string {
	switch {
	case len(views) > 0 && views[0].Seat != nil:
		return "A push loses the place on the train."
	case len(views) > 0 && views[0].Operation.Cohort < 0:
		return "A push takes the whole curated batch out."
	}
	return "A push makes the approval start over."
}

func last(op bot.Operation) string {
	if op.Status == bot.OperationBatched {
		return "rides in"
	}
	return "last rode in"
}

// queueNote says that a queue does not start batches, and why.
func queueNote(q bot.Queue) string {
	var s string
	switch q.State {
	case bot.QueuePaused:
		s = "The queue of " + code(q.Target) + " is paused: no batch starts."
	case bot.QueueParked:
		s = "The queue of " + code(q.Target) + " is parked: no batch starts until its trouble is mended."
	default:
		return ""
	}
	if q.Reason != "" {
		s += " " + upper(sentence(detail(q.Reason)))
	}
	return s
}

// batchState says where a batch stands or how it ended.
func batchState(b bot.Batch) string {
	switch b.Status {
	case bot.BatchSucceeded:
		if b.LandedSHA == "" {
			return "which landed"
		}
		return "which landed as " + code(bot.ShortSHA(b.LandedSHA))
	case bot.BatchFailed:
		if c := cause(b.Code); c != "" {
			return "which failed: " + c
		}
		return "which failed"
	}
	return progress(b)
}

func sentence(s string) string {
	if s == "" || strings.HasSuffix(s, ".") {
		return s
	}
	return s + "."
}
