package train

import (
	"context"
	"fmt"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// Create opens a train that departs once, by an operator's word. refusal says in words for people what is wrong with the spec; empty: result
// says what became of it. Without ClosesAt boarding ends with the departure.
func (k *Keeper) Create(ctx context.Context, spec bot.TrainSpec) (result bot.TrainResult, refusal string, err error) {
	spec.Scheduled = false
	if spec.ClosesAt.IsZero() {
		spec.ClosesAt = spec.DepartsAt
	}
	if !bot.IsTrainName(spec.Name) {
		return result, fmt.Sprintf("a train's name is one word of 1 to %d letters, digits and . _ -, beginning with a letter or digit", bot.MaxTrainName), nil
	}
	if refusal, err = k.check(ctx, &spec.Seats, spec.DepartsAt, spec.ClosesAt); err != nil || refusal != "" {
		return result, refusal, err
	}
	if _, _, err := k.config.Store.ReadQueue(ctx, spec.QueueID); err != nil {
		return result, "", err
	}
	if result, err = k.config.Store.OpenTrain(ctx, spec); err != nil {
		return result, "", fmt.Errorf("opening train %q of queue %d: %w", spec.Name, spec.QueueID, err)
	}
	if result.Outcome == bot.TrainThere {
		return result, "a train of this name is open already: change or cancel that one, or choose another name", nil
	}
	return result, "", nil
}

// Change changes or cancels an open train, by an operator's word: from then on it does not follow its schedule, its successor does. A cancelled
// train that followed one is succeeded at once by the departure after it. refusal is as for Create.
func (k *Keeper) Change(ctx context.Context, change bot.TrainChange) (result bot.TrainResult, refusal string, err error) {
	change.FromFile = false
	view, err := k.config.Store.ReadTrain(ctx, change.TrainID)
	if err != nil {
		return result, "", err
	}
	switch timed := !change.DepartsAt.IsZero() || !change.ClosesAt.IsZero(); {
	case change.Cancel && (timed || change.Seats != nil):
		return result, "a train is either cancelled or changed", nil
	case !change.Cancel && !timed && change.Seats == nil:
		return result, "nothing is to be changed: name seats, the time of departure, or both", nil
	case timed:
		if change.DepartsAt.IsZero() {
			change.DepartsAt = view.Train.DepartsAt
		}
		if change.ClosesAt.IsZero() {
			change.ClosesAt = change.DepartsAt.Add(view.Train.ClosesAt.Sub(view.Train.DepartsAt))
		}
		refusal, err = k.check(ctx, change.Seats, change.DepartsAt, change.ClosesAt)
	case change.Seats != nil:
		refusal = checkSeats(*change.Seats)
	}
	if err != nil || refusal != "" {
		return result, refusal, err
	}
	if result, err = k.config.Store.ChangeTrain(ctx, change); err != nil {
		return result, "", fmt.Errorf("changing train %d: %w", change.TrainID, err)
	}
	switch result.Outcome {
	case bot.TrainOver:
		return result, "the train is not open any more", nil
	case bot.TrainWritten:
		k.config.NudgeOutbox()
		if change.Cancel {
			err = k.succeed(ctx, view, change)
		}
	}
	return result, "", err
}

// succeed opens the departure after a cancelled one. Any tick may have opened the very departure that was cancelled meanwhile: that one moves.
func (k *Keeper) succeed(ctx context.Context, cancelled bot.TrainView, change bot.TrainChange) error {
	plan, ok := planOf(cancelled.Queue.Settings, cancelled.Train.Name)
	if !ok {
		return nil
	}
	now, err := k.config.Store.Clock(ctx)
	if err != nil {
		return fmt.Errorf("reading the clock: %w", err)
	}
	after := now
	if cancelled.Train.DepartsAt.After(now) {
		after = cancelled.Train.DepartsAt
	}
	next, err := Next(plan, after)
	if err != nil {
		return err
	}
	result, err := k.config.Store.OpenTrain(ctx, bot.TrainSpec{
		QueueID: cancelled.Queue.ID, Name: plan.Name, DepartsAt: next.DepartsAt, ClosesAt: next.ClosesAt, Seats: next.Seats, By: change.By, Source: change.Source,
	})
	if err == nil && result.Outcome == bot.TrainThere && result.Train.Scheduled && result.Train.DepartsAt.Before(next.DepartsAt) {
		_, err = k.config.Store.ChangeTrain(ctx, bot.TrainChange{
			TrainID: result.Train.ID, DepartsAt: next.DepartsAt, ClosesAt: next.ClosesAt, By: change.By, Source: change.Source,
		})
	}
	if err != nil {
		return fmt.Errorf("opening the train after %d: %w", cancelled.Train.ID, err)
	}
	return nil
}

// check says what is wrong with the seats and times of a train; empty: nothing.
func (k *Keeper) check(ctx context.Context, seats *int, departs, closes time.Time) (refusal string, err error) {
	now, err := k.config.Store.Clock(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the clock: %w", err)
	}
	switch {
	case departs.IsZero():
		return "the time of departure is missing", nil
	case !departs.After(now):
		return "the time of departure, " + departs.UTC().Format(time.RFC3339) + ", has passed", nil
	case closes.After(departs):
		return "boarding ends after the departure: let it end at " + departs.UTC().Format(time.RFC3339) + " or before", nil
	case seats != nil:
		return checkSeats(*seats), nil
	}
	return "", nil
}

func checkSeats(seats int) string {
	if seats < 0 || seats > bot.MaxSeats {
		return fmt.Sprintf("%d seats are out of range: name 0 to %d", seats, bot.MaxSeats)
	}
	return ""
}
