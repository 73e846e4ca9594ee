package api

import (
	"context"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/curated"
)

// Store is what is looked at. Implemented by store. A row that does not exist is an error that Config.IsMissing recognises.
type Store interface {
	// ListQueues lists every queue with what waits in it and its active batch.
	ListQueues(ctx context.Context) ([]bot.QueueOverview, error)
	// ReadQueue reads a queue with its repository.
	ReadQueue(ctx context.Context, queueID int64) (bot.Queue, bot.Repository, error)
	// ListBatches lists batches, newest first.
	ListBatches(ctx context.Context, filter bot.BatchFilter) ([]bot.BatchOverview, error)
	// BatchView reads a batch with everybody who ever was a member.
	BatchView(ctx context.Context, batchID int64) (bot.BatchView, error)
	// OperationView reads one operation with where it stands.
	OperationView(ctx context.Context, operationID string) (bot.OperationView, error)
	// Trains lists trains, newest first.
	Trains(ctx context.Context, filter bot.TrainFilter) ([]bot.TrainOverview, error)
	// ReadTrain reads a train with its seats.
	ReadTrain(ctx context.Context, trainID int64) (bot.TrainView, error)
	// LastSeat reads the live seat of an operation, or else the last one it had; ok false: there is none any more.
	LastSeat(ctx context.Context, operationID string) (seat bot.Seat, ok bool, err error)
	// HandledRequest reads what is known of an API request; ok false: it was not handled.
	HandledRequest(ctx context.Context, id string) (handled bot.HandledRequest, ok bool, err error)
}

// Seats gives seats and takes them back. Implemented by intake.Applier. A refusal is for people; empty: the result says what became of it.
type Seats interface {
	// Join wants a seat, or a place in line, for a merge request on a train.
	Join(ctx context.Context, repo bot.Repository, number int, trainID int64, actor string, request *bot.APIRequest) (result bot.BoardingResult, refusal string, err error)
	// Leave gives the seat up.
	Leave(ctx context.Context, repo bot.Repository, number int, trainID int64, actor string, request *bot.APIRequest) (result bot.LeavingResult, refusal string, err error)
}

// Trains takes an operator's word about trains. Implemented by train.Keeper. A refusal is for people, as above.
type Trains interface {
	// Create opens a train that departs once.
	Create(ctx context.Context, spec bot.TrainSpec) (result bot.TrainResult, refusal string, err error)
	// Change changes or cancels an open train.
	Change(ctx context.Context, change bot.TrainChange) (result bot.TrainResult, refusal string, err error)
}

// Desk is where curated batches are drafted and decided. Implemented by curated.Desk.
type Desk interface {
	// List lists sets, newest first.
	List(ctx context.Context, filter bot.CuratedFilter) ([]bot.CuratedView, error)
	// Read reads a set; ok false: there is none.
	Read(ctx context.Context, id int64) (view bot.CuratedView, ok bool, err error)
	// Save makes a draft, or replaces the rows of one.
	Save(ctx context.Context, who curated.Asker, draft curated.Draft) (curated.Result, error)
	// Submit commits a draft if every check passes.
	Submit(ctx context.Context, who curated.Asker, id, version int64) (curated.Result, error)
	// Approve admits a submitted set if every check passes again.
	Approve(ctx context.Context, who curated.Asker, id, version int64) (curated.Result, error)
	// Reject sends a submitted set back.
	Reject(ctx context.Context, who curated.Asker, id, version int64, reason string) (curated.Result, error)
	// Cancel ends a set that is not approved.
	Cancel(ctx context.Context, who curated.Asker, id, version int64) (curated.Result, error)
}
