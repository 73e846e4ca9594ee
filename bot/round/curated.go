package round

import (
	"fmt"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/message"
)

// wholeSet makes the departure of some members of a curated batch that of all: they land together or not at all. Nobody of them goes on by
// itself, to wait for an approval or for another batch: the set is edited and approved anew.
func wholeSet(result bot.BuildResult, departures []bot.MemberOutcome) []bot.MemberOutcome {
	why := make(map[string]bot.MemberOutcome, len(departures))
	for _, o := range departures {
		why[o.OperationID] = o
	}
	var first bot.MemberBuild // in whom the set broke
	for _, m := range result.Members {
		if _, leaves := why[m.OperationID]; leaves {
			first = m
			break
		}
	}
	lost := why[first.OperationID]
	broken := fmt.Sprintf("%d: %s", first.Number, message.Because(lost.Reason, lost.Detail))
	all := make([]bot.MemberOutcome, 0, len(result.Members))
	for _, m := range result.Members {
		o, leaves := why[m.OperationID]
		switch {
		case !leaves:
			o = bot.MemberOutcome{OperationID: m.OperationID, To: bot.OperationRejected, Reason: bot.ReasonSetBroken, Detail: broken, Notify: true}
		case o.To != bot.OperationMerged && o.To != bot.OperationClosed:
			o.To, o.HeadSHA, o.Notify = bot.OperationRejected, "", true
		}
		all = append(all, o)
	}
	return all
}

// outOfSet is what becomes of a member of a curated batch that is over and did not land with it.
func outOfSet(m bot.Operation, reason bot.Reason, detail string) bot.MemberOutcome {
	return bot.MemberOutcome{OperationID: m.ID, To: bot.OperationRejected, Reason: reason, Detail: detail, Notify: true}
}
