package store

import (
	"context"
	"fmt"

	"github.com/batchbot/batchbot/bot"
)

// Counts says how much of what stands in the tables, for the metrics.
type Counts struct {
	Waiting          int // requests no batch has claimed
	PendingApproval  int // operations that wait for an approval
	ParkedQueues     int // by the bot, with a reason
	Batches          []BatchCount
	DeliveriesDue    int
	DeliveriesFailed int // given up until a redelivery
	ErrandsDue       int
	ErrandsGivenUp   int
}

// BatchCount is how many batches have a status and a code.
type BatchCount struct {
	Status bot.BatchStatus
	Code   bot.Code
	Number int
}

// Counts reads the counts as they are now. They come from several statements, so they need not fit together exactly.
func (s *Store) Counts(ctx context.Context) (Counts, error) {
	var c Counts
	for query, count := range map[string]*int{
		`SELECT COUNT(*) FROM merge_batch_request WHERE batch_id IS NULL`: &c.Waiting,
		`SELECT COUNT(*) FROM operation WHERE status = 1`:                 &c.PendingApproval,
		`SELECT COUNT(*) FROM queue WHERE status = 3`:                     &c.ParkedQueues,
		`SELECT COUNT(*) FROM delivery WHERE status = 1`:                  &c.DeliveriesDue,
		`SELECT COUNT(*) FROM delivery WHERE status = 4`:                  &c.DeliveriesFailed,
		`SELECT COUNT(*) FROM outbox WHERE status = 1`:                    &c.ErrandsDue,
		`SELECT COUNT(*) FROM outbox WHERE status = 3`:                    &c.ErrandsGivenUp,
	} {
		if err := s.each(ctx, query, nil, func(scan scan) error { return scan(count) }); err != nil {
			return Counts{}, fmt.Errorf("count rows: %w", err)
		}
	}
	err := s.each(ctx, `SELECT status, code, COUNT(*) FROM merge_batch GROUP BY status, code ORDER BY status, code`, nil, func(scan scan) error {
		var b BatchCount
		err := scan(&b.Status, &b.Code, &b.Number)
		c.Batches = append(c.Batches, b)
		return err
	})
	if err != nil {
		return Counts{}, fmt.Errorf("count batches: %w", err)
	}
	return c, nil
}
