package intake

import (
	"context"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// Inbox stores deliveries. Implemented by store.
type Inbox interface {
	// InsertDelivery stores a delivery before it is answered. A key seen before stores nothing; if that delivery FAILED it is
	// due again. fresh reports whether there is now something to do.
	InsertDelivery(ctx context.Context, host, key, event string, payload []byte) (fresh bool, err error)
	// ClaimDeliveries takes up to limit due deliveries in order of arrival: next_attempt_at moves lease ahead and attempts grows by one, so
	// that a crash merely makes them due again.
	ClaimDeliveries(ctx context.Context, limit int, lease time.Duration) ([]bot.Delivery, error)
	// FinishDelivery records the outcome if attempts is still what was claimed; done false means somebody else took it over.
	FinishDelivery(ctx context.Context, id int64, attempts int, outcome bot.DeliveryOutcome) (done bool, err error)
}

// Records is what intake reads and writes about merge requests. Implemented by store.
type Records interface {
	// UpsertRepository makes or refreshes the row of a repository; it becomes active. An empty DefaultBranch keeps the stored one.
	UpsertRepository(ctx context.Context, ref bot.RepositoryRef) (bot.Repository, error)
	// FindRepository finds a repository by the host's id; ok false: unknown.
	FindRepository(ctx context.Context, host string, externalID int64) (repo bot.Repository, ok bool, err error)
	// ActiveRepositories lists the active repositories of a host.
	ActiveRepositories(ctx context.Context, host string) ([]bot.Repository, error)
	// DeactivateRepositories ends repositories of an installation: those named, or all when externalIDs is nil. Their queues park
	// with reason.
	DeactivateRepositories(ctx context.Context, host string, installation int64, externalIDs []int64, reason string) error
	// UpsertQueue makes the queue for settings.Branch or stores its new settings; blob is the repository file's git blob id.
	UpsertQueue(ctx context.Context, repositoryID int64, settings bot.QueueSettings, blob string) (bot.Queue, error)
	// FindQueue finds the queue of a target branch; ok false: the branch has none yet.
	FindQueue(ctx context.Context, repositoryID int64, target string) (queue bot.Queue, ok bool, err error)
	// RecordMR makes or refreshes the row of a merge request.
	RecordMR(ctx context.Context, repositoryID int64, mr bot.MRSnapshot) (bot.MergeRequest, error)

	// CurrentOperations lists the current operation of every target a merge request was applied to, newest first.
	CurrentOperations(ctx context.Context, repositoryID int64, number int) ([]bot.OperationView, error)
	// FollowedOperations lists the operations of a repository that are PENDING_APPROVAL, WAITING, BATCHED or FAILED.
	FollowedOperations(ctx context.Context, repositoryID int64) ([]bot.Operation, error)
	// QueuesWatching lists the queues with an active batch whose head, or one of whose members, is sha. Empty sha: all of the repository's queues
	// with an active batch.
	QueuesWatching(ctx context.Context, repositoryID int64, sha string) ([]int64, error)
	// BatchMR finds the batch whose aggregated merge request this is; ok false: it is none of ours.
	BatchMR(ctx context.Context, repositoryID int64, number int) (batch bot.Batch, ok bool, err error)

	// RevisitBatch has the MR of a batch that is over looked at again, soon.
	RevisitBatch(ctx context.Context, batchID int64) error

	// Apply makes an operation, in one transaction with its command's idempotency row.
	Apply(ctx context.Context, application bot.Application) (bot.ApplyResult, error)
	// Move performs one guarded state change, see bot.Move.
	Move(ctx context.Context, move bot.Move) (bot.MoveResult, error)
	// Answer stores what is to be said to a command that changes no state; fresh false: it was answered before.
	Answer(ctx context.Context, answer bot.Answer) (fresh bool, err error)
	// Handled reports whether a command was handled before: its idempotency row exists.
	Handled(ctx context.Context, requestID string) (bool, error)
	// Acknowledge queues a reaction on a comment.
	Acknowledge(ctx context.Context, repo bot.Repository, comment bot.Comment, reaction bot.Reaction) error

	// SaveWatermark stores up to when (host's clock) the comments of a repository were looked at.
	SaveWatermark(ctx context.Context, repositoryID int64, seen time.Time) error
}

// Trains is what intake reads and writes about trains. Implemented by store.
type Trains interface {
	// OpenTrains lists the open trains of a queue by departure.
	OpenTrains(ctx context.Context, queueID int64) ([]bot.Train, error)
	// ReadTrain reads a train with its seats. An error: there is none.
	ReadTrain(ctx context.Context, trainID int64) (bot.TrainView, error)
	// Board gives a seat or a place in line, in one transaction with its command's or request's idempotency row.
	Board(ctx context.Context, boarding bot.Boarding) (bot.BoardingResult, error)
	// Leave gives a live seat up and promotes the first in line, in one transaction.
	Leave(ctx context.Context, leaving bot.Leaving) (bot.LeavingResult, error)
}
