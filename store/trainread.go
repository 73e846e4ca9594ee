package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// Clock reads the database's clock: what is computed for a train is computed by it.
func (s *Store) Clock(ctx context.Context) (time.Time, error) {
	var now instant
	if _, err := one(ctx, s, `SELECT {now}`, nil, &now); err != nil {
		return time.Time{}, fmt.Errorf("read the database's clock: %w", err)
	}
	return now.Time, nil
}

// ReadTrain reads a train with all its seats in the order of joining. ErrMissing: there is none.
func (s *Store) ReadTrain(ctx context.Context, trainID int64) (bot.TrainView, error) {
	failed := func(err error) (bot.TrainView, error) {
		return bot.TrainView{}, fmt.Errorf("read train %d: %w", trainID, err)
	}
	train, found, err := readTrain(ctx, s, trainID)
	if err != nil || !found {
		return failed(missing(err, "its row"))
	}
	view := bot.TrainView{Train: train}
	if view.Queue, view.Repository, err = s.ReadQueue(ctx, train.QueueID); err != nil {
		return failed(err)
	}
	seats, err := listSeats(ctx, s, `s.train_id = ? ORDER BY s.queue_seq`, trainID)
	if err != nil {
		return failed(err)
	}
	place := 0
	for _, seat := range seats {
		if seat.Status == bot.SeatWaiting {
			place++
			seat.Position = place
		}
		view.Seats = append(view.Seats, seat.Seat)
	}
	return view, nil
}

// Trains lists trains with their queues, newest first.
func (s *Store) Trains(ctx context.Context, filter bot.TrainFilter) ([]bot.TrainOverview, error) {
	where, args := `WHERE 1 = 1`, []any(nil)
	if filter.QueueID != 0 {
		where, args = where+` AND t.queue_id = ?`, append(args, filter.QueueID)
	}
	if filter.Open {
		where, args = where+` AND t.status = ?`, append(args, bot.TrainOpen)
	}
	trains, err := listTrains(ctx, s, where+` ORDER BY t.id DESC LIMIT ?`, append(args, max(filter.Limit, 1))...)
	if err != nil {
		return nil, fmt.Errorf("list trains: %w", err)
	}
	list := make([]bot.TrainOverview, 0, len(trains))
	for _, train := range trains {
		v := bot.TrainOverview{Train: train}
		if v.Queue, v.Repository, err = s.ReadQueue(ctx, train.QueueID); err != nil {
			return nil, fmt.Errorf("list trains: %w", err)
		}
		list = append(list, v)
	}
	return list, nil
}

// OpenTrains lists the OPEN trains of a queue by departure; queueID 0: of all queues.
func (s *Store) OpenTrains(ctx context.Context, queueID int64) ([]bot.Train, error) {
	rest, args := `WHERE t.queue_id = ? AND t.open_name IS NOT NULL ORDER BY t.departs_at, t.id`, []any{queueID}
	if queueID == 0 {
		rest, args = `WHERE t.status = ? ORDER BY t.departs_at, t.id`, []any{bot.TrainOpen}
	}
	trains, err := listTrains(ctx, s, rest, args...)
	if err != nil {
		return nil, fmt.Errorf("list the open trains of queue %d: %w", queueID, err)
	}
	return trains, nil
}

// DueTrains lists the OPEN trains of active repositories whose departure has come by the database's clock, those that are latest first. All of them: some
// cannot depart as long as their host is away, and must not be in the way of the others.
func (s *Store) DueTrains(ctx context.Context) ([]bot.Train, error) {
	trains, err := listTrains(ctx, s, `WHERE t.status = ? AND t.departs_at <= {now}
		AND EXISTS (SELECT 1 FROM queue q JOIN repository r ON r.id = q.repository_id WHERE q.id = t.queue_id AND r.active = 1)
		ORDER BY t.departs_at, t.id`, bot.TrainOpen)
	if err != nil {
		return nil, fmt.Errorf("list the trains that are due: %w", err)
	}
	return trains, nil
}

// TrainQueues lists the queues of active repositories whose settings name trains, by id.
func (s *Store) TrainQueues(ctx context.Context) ([]bot.Queue, error) {
	var queues []bot.Queue
	err := s.each(ctx, `SELECT `+queueColumns+` FROM queue q JOIN repository r ON r.id = q.repository_id WHERE r.active = 1 ORDER BY q.id`, nil, func(scan scan) error {
		var q bot.Queue
		err := scan(queueFields(&q)...)
		queues = append(queues, q)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the queues with trains: %w", err)
	}
	return slices.DeleteFunc(queues, func(q bot.Queue) bool { return len(q.Settings.Trains) == 0 }), nil
}

// SeatOf reads the live seat of an operation with its train; ok is false when it holds none.
func (s *Store) SeatOf(ctx context.Context, operationID string) (view bot.SeatView, ok bool, err error) {
	failed := func(err error) (bot.SeatView, bool, error) {
		return bot.SeatView{}, false, fmt.Errorf("read the seat of operation %s: %w", operationID, err)
	}
	seat, ok, err := liveSeat(ctx, s, operationID)
	if err != nil || !ok {
		if err != nil {
			return failed(err)
		}
		return bot.SeatView{}, false, nil
	}
	train, found, err := readTrain(ctx, s, seat.TrainID)
	if err != nil || !found {
		return failed(missing(err, fmt.Sprintf("train %d", seat.TrainID)))
	}
	if seat.Position, err = placeInLine(ctx, s, seat.Seat); err != nil {
		return failed(err)
	}
	return bot.SeatView{Seat: seat.Seat, Train: train}, true, nil
}
