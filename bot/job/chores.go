package job

import (
	"context"
	"errors"
	"fmt"
)

// Overdue finds the batches whose time is over. Implemented by store.
type Overdue interface {
	// OverdueQueues lists the queues whose batch is RUNNING past its deadline.
	OverdueQueues(ctx context.Context) ([]int64, error)
}

// Sweep has the queue of every overdue batch looked at: drive ticks each of them until there is nothing more to do now. The rounds' own poll finds them as
// well; this one does not depend on what an instance planned.
func Sweep(store Overdue, drive func(ctx context.Context, queues []int64) error) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		queues, err := store.OverdueQueues(ctx)
		if err != nil || len(queues) == 0 {
			return "", err
		}
		return counted(len(queues), "overdue batch", "overdue batches") + " looked at", drive(ctx, queues)
	}
}

// Records ends and deletes what is past its time. Implemented by store.
type Records interface {
	// ExpireOperations ends PENDING_APPROVAL operations past their expires_at by the database's clock, at most limit.
	ExpireOperations(ctx context.Context, limit int) (int, error)
	// PurgeOld deletes payloads, keys, idempotency rows and errands past their time, in bounded chunks.
	PurgeOld(ctx context.Context) error
}

// Cleanup ends operations that waited for their approvals too long, and deletes what is past its time. nudge is called when there is something to say
// of it.
func Cleanup(records Records, nudge func()) func(context.Context) (string, error) {
	const atOnce = 200
	return func(ctx context.Context) (string, error) {
		expired := 0
		var failed error
		for {
			n, err := records.ExpireOperations(ctx, atOnce)
			expired += n
			if failed = err; err != nil || n < atOnce || ctx.Err() != nil {
				break
			}
		}
		summary := ""
		if expired > 0 {
			nudge()
			summary = counted(expired, "operation", "operations") + " expired"
		}
		return summary, errors.Join(failed, records.PurgeOld(ctx))
	}
}

func counted(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}
