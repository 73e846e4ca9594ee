package outbox

import (
	"context"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// Reminders reads what reminders show. Implemented by store.
type Reminders interface {
	// ReminderView reads what an operation is reminded of, as the rows are now.
	ReminderView(ctx context.Context, operationID string) (bot.ReminderView, error)
}

// Store is the outbox and the rows the sender renders from. Implemented by store.
type Store interface {
	// ClaimErrands takes up to limit due errands: next_attempt_at moves lease ahead and attempts grows by one.
	ClaimErrands(ctx context.Context, limit int, lease time.Duration) ([]bot.Errand, error)
	// FinishErrand records that the errand was done as of its Wanted; if it was wanted again meanwhile it stays due.
	FinishErrand(ctx context.Context, errand bot.Errand) error
	// PostponeErrand makes the errand due again after d, or gives it up for good with reason when d is 0; a given-up errand is visible to operators.
	PostponeErrand(ctx context.Context, errand bot.Errand, d time.Duration, reason string) error

	// StickyView reads what the status comment of a merge request shows.
	StickyView(ctx context.Context, mergeRequestID int64) (bot.StickyView, error)
	// SaveSticky stores the id of the status comment.
	SaveSticky(ctx context.Context, mergeRequestID, commentID int64) error
	// HistoryEntry reads one row of binding_history with its operation.
	HistoryEntry(ctx context.Context, id int64) (bot.HistoryEntry, error)
	// OperationView reads one operation with where it stands.
	OperationView(ctx context.Context, operationID string) (bot.OperationView, error)
	// BatchView reads a batch with its queue and everybody who ever was a member, in batch order, with what became of them.
	BatchView(ctx context.Context, batchID int64) (bot.BatchView, error)
	// RecordedHeads lists every head ever recorded for a batch, oldest first.
	RecordedHeads(ctx context.Context, batchID int64) ([]string, error)
}
