package round

import (
	"context"

	"github.com/batchbot/batchbot/bot"
)

// What mutants of this package do, see package mutant: wrong on purpose, and never called in an ordinary build.

// mutantRecordsFirst records a landing before it is made.
func (d *Driver) mutantRecordsFirst(ctx context.Context, t tick) (Result, error) {
	s := bot.Settlement{Guard: t.batch.Guard(), Status: bot.BatchSucceeded, Code: bot.CodeLanded, LandedSHA: t.batch.HeadSHA, DeleteBranch: true}
	for _, m := range t.members {
		s.Members = append(s.Members, bot.MemberOutcome{OperationID: m.ID, To: bot.OperationMerged, Reason: bot.ReasonLanded})
	}
	if result, err := d.settle(ctx, t, s); err != nil || !result.Again {
		return result, err
	}
	return d.land(ctx, t)
}

// mutantHead is the first head a batch had, whatever it has now.
func (d *Driver) mutantHead(ctx context.Context, batch bot.Batch) string {
	heads, err := d.Store.RecordedHeads(ctx, batch.ID)
	if err != nil || len(heads) == 0 {
		return batch.HeadSHA
	}
	return heads[0]
}
