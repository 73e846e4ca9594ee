package message

import (
	"fmt"

	"github.com/batchbot/batchbot/bot"
)

// CommitStatus is the bot's own status on the pinned head of an operation. It shows no position, because it is written once per
// state change. What is not on its way shows success: the bot has no objection, and a yellow or red mark that nothing ever
// changes would stay in the way of merging by hand.
func CommitStatus(view bot.OperationView, links Links) bot.CommitStatus {
	op := view.Operation
	s := bot.CommitStatus{State: bot.CheckPending}
	switch op.Status {
	case bot.OperationPendingApproval:
		s.Description = "Waiting for approval"
		if view.Seat != nil && view.Seat.Seat.Status == bot.SeatWaiting {
			s.Description = "In line for train " + Plain(view.Seat.Train.Name, 60)
		} else if view.Seat != nil {
			s.Description = "A seat on train " + Plain(view.Seat.Train.Name, 60)
		}
	case bot.OperationWaiting:
		s.Description = "Approved, in the waiting set of " + Plain(op.Target, 60)
	case bot.OperationBatched:
		s.Description = "In a batch"
		if view.Batch != nil {
			s.Description = fmt.Sprintf("In batch %d", view.Batch.ID)
		}
	case bot.OperationMerged:
		s.State, s.Description = bot.CheckSuccess, "Landed in "+Plain(op.Target, 60)
		if op.Reason == bot.ReasonMergedOutside {
			s.Description = "Merged outside of a batch"
		}
	case bot.OperationFailed:
		s.State, s.Description = bot.CheckFailure, "Failed, because "+because(op.Reason)
	case bot.OperationRejected:
		s.State, s.Description = bot.CheckSuccess, "Taken out with its curated batch: "+setOut(op.Reason)
	default:
		s.State, s.Description = bot.CheckSuccess, "Not on its way: "+because(op.Reason)
	}
	if view.Batch != nil && view.Batch.MRNumber != 0 && links.url != nil &&
		(op.Status == bot.OperationBatched || op.Status == bot.OperationMerged || op.Status == bot.OperationFailed) {
		s.URL = safeURL(links.url(view.Batch.MRNumber))
	}
	if runes := []rune(s.Description); len(runes) > 140 {
		s.Description = string(runes[:139]) + "…"
	}
	return s
}
