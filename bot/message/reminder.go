package message

import (
	"fmt"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// ReminderMarker marks one reminder; target is that of its errand.
func ReminderMarker(target string) string { return marker("reminder", target) }

// Reminder is the comment that somebody lets others wait: approvers, the owner of what failed, or whoever can unblock a batch. target is that of
// its errand. It is empty when there is nothing to remind of any more.
func Reminder(view bot.ReminderView, target string, links Links) string {
	op := view.Operation.Operation
	since := lasting(view.For)
	extra := ""
	if op.Detail != "" {
		extra = ": " + detail(op.Detail)
	}
	var text string
	switch view.State {
	case bot.RemindPending:
		missing := "It needs an approval at " + code(bot.ShortSHA(op.HeadSHA)) + "."
		if op.Detail != "" {
			missing = upper(sentence(detail(op.Detail)))
		}
		text = "**A friendly reminder: this has been waiting for approval for " + since + ", to land in " + code(op.Target) + ".** " + missing +
			" Then it goes on by itself. Comment `/batch cancel` if it is not wanted any more."
	case bot.RemindFailed:
		text = "**A friendly reminder: this failed " + since + " ago and waits for its author.** It did not land in " + code(op.Target) + ", because " + because(op.Reason) + extra +
			". " + next(view.Operation) + " Comment `/batch cancel` if it is not wanted any more."
	case bot.RemindBlocked:
		b := view.Operation.Batch
		if b == nil {
			return ""
		}
		text = "**A friendly reminder: this rides in " + links.batch(*b) + ", which has been blocked for " + since + " and needs a person"
		if c := cause(b.Code); c != "" {
			text += ": " + c
		}
		text += ".**"
		if b.Message != "" {
			text += " " + sentence(upper(detail(b.Message)))
		}
		text += " Nothing else lands in " + code(op.Target) + " before. A person merges or closes its merge request, or comments `/batch unblock merged`, `/batch unblock failed` or " +
			"`/batch unblock resume` (maintainers)."
	default:
		return ""
	}
	return ReminderMarker(target) + "\n" + text + "\n"
}

// lasting says how long something has lasted, roughly.
func lasting(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= 2*day:
		return fmt.Sprintf("%d days", d/day)
	case d >= 2*time.Hour:
		return fmt.Sprintf("%d hours", d/time.Hour)
	}
	return "more than an hour"
}
