package store

import (
	"context"
	"fmt"

	"github.com/batchbot/batchbot/bot"
)

// ExpireOperations ends operations that are PENDING_APPROVAL past their expires_at by the database's clock, at most limit, and returns how
// many this call ended. Who has an approval and a place on a train waits for a departure, and does not expire. Of several instances that find some at once one ends them; that saves work, nothing depends on it.
func (s *Store) ExpireOperations(ctx context.Context, limit int) (int, error) {
	type overdue struct {
		operationID string
		version     int64
	}
	var found []overdue
	err := s.each(ctx, `SELECT b.operation_id, o.version FROM binding b JOIN operation o ON o.operation_id = b.operation_id
		WHERE b.status = ? AND b.expires_at < {now} AND NOT EXISTS (SELECT 1 FROM train_seat s WHERE s.live_operation = b.operation_id AND s.approved = 1)
		ORDER BY b.expires_at, b.id LIMIT ?`, []any{bot.OperationPendingApproval, limit}, func(scan scan) error {
		var o overdue
		err := scan(&o.operationID, &o.version)
		found = append(found, o)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("look for expired operations: %w", err)
	}
	if len(found) == 0 {
		return 0, nil
	}
	ctx, release, ok, err := s.TryLock(ctx, "job/expire")
	if err != nil || !ok {
		return 0, err
	}
	defer release()
	ended := 0
	for _, o := range found {
		// An approval, a push or a cancel since the read changed the version, and wins.
		result, err := s.Move(ctx, bot.Move{OperationID: o.operationID, From: bot.OperationPendingApproval, Version: o.version, To: bot.OperationExpired,
			Reason: bot.ReasonExpired, By: "batchbot", Source: "expiry"})
		if err != nil {
			return ended, err
		}
		if result == bot.MoveDone {
			ended++
		}
	}
	return ended, nil
}
