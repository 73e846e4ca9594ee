package round

import (
	"context"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// Store is what a round reads and writes. Implemented by store. Every guarded write returns ok false when the batch row is no
// longer what the guard says: somebody else acted, look again.
type Store interface {
	// QueuesWithWork lists the queues that have an active batch or something waiting.
	QueuesWithWork(ctx context.Context) ([]int64, error)
	// ReadQueue reads a queue with its repository.
	ReadQueue(ctx context.Context, queueID int64) (bot.Queue, bot.Repository, error)
	// ActiveBatch reads the batch in the queue's slot with its members in batch order; ok false: the slot is free.
	ActiveBatch(ctx context.Context, queueID int64) (batch bot.Batch, members []bot.Operation, ok bool, err error)
	// Waiting reads what the planner rests on: what waits in a queue and what CI said of its last batches, without a lock, by the database's clock.
	Waiting(ctx context.Context, queueID int64) (bot.WaitingSet, error)
	// Claim starts a batch in one transaction.
	Claim(ctx context.Context, spec bot.ClaimSpec) (bot.ClaimResult, error)

	// RecordBuild writes base, head and what became of every member before anything is pushed: phase CLAIMED → BUILT.
	RecordBuild(ctx context.Context, guard bot.BatchGuard, record bot.BuildRecord) (batch bot.Batch, ok bool, err error)
	// BatchView reads a batch with everybody who ever was a member, in batch order, and what became of each.
	BatchView(ctx context.Context, batchID int64) (bot.BatchView, error)
	// RecordedHeads lists every head ever recorded for a batch, oldest first.
	RecordedHeads(ctx context.Context, batchID int64) ([]string, error)
	// ChangeBatch writes phase, code and message of an active batch.
	ChangeBatch(ctx context.Context, guard bot.BatchGuard, change bot.BatchChange) (batch bot.Batch, ok bool, err error)
	// ObserveChecks notes the fingerprint of the checks seen on the batch head and returns for how long it has not changed.
	ObserveChecks(ctx context.Context, batchID int64, fingerprint string) (quiet time.Duration, err error)
	// Move performs one guarded state change of a member, see bot.Move.
	Move(ctx context.Context, move bot.Move) (bot.MoveResult, error)
	// Settle brings a batch and its members to an end.
	Settle(ctx context.Context, settlement bot.Settlement) (ok bool, err error)
	// LandedLate records that the MR of a batch that is over was merged after all, and whose pinned heads that brought in; fresh false: it
	// was recorded before.
	LandedLate(ctx context.Context, batchID int64, landed string, operationIDs []string) (fresh bool, err error)
	// ParkQueue parks an open queue with reason and remedy; parking a parked queue changes nothing.
	ParkQueue(ctx context.Context, queueID int64, reason string) error
}

// Locks is the try form of an advisory lock: it saves two instances the same work and never carries correctness.
type Locks interface {
	// TryLock takes name without waiting; ok false: another holder. held is ctx and ends as well when the lock is lost. release may be
	// called more than once, whatever became of either.
	TryLock(ctx context.Context, name string) (held context.Context, release func(), ok bool, err error)
}
