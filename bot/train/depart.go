package train

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/lease"
)

// depart lets every train depart that is due, side by side.
func (k *Keeper) depart(ctx context.Context) (departed []Departed, failed error) {
	due, err := k.config.Store.DueTrains(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the trains that are due: %w", err)
	}
	results, errs := make([]*Departed, len(due)), make([]error, len(due))
	var all sync.WaitGroup
	for i, train := range due {
		all.Go(func() {
			d, err := k.departOne(ctx, train.ID)
			if err != nil {
				errs[i] = fmt.Errorf("departure of train %d, %q: %w", train.ID, train.Name, err)
			}
			results[i] = d
		})
	}
	all.Wait()
	for _, d := range results {
		if d != nil {
			departed = append(departed, *d)
		}
	}
	return departed, errors.Join(errs...)
}

// departOne looks at every live seat and lets the train go. nil: somebody else did, or its repository is not ours any more and it waits.
func (k *Keeper) departOne(ctx context.Context, id int64) (*Departed, error) {
	view, err := k.config.Store.ReadTrain(ctx, id)
	if err != nil {
		return nil, err
	}
	if view.Train.Status != bot.TrainOpen || !view.Repository.Active {
		return nil, nil
	}
	now, err := k.config.Store.Clock(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the clock: %w", err)
	}
	log := k.config.Logger.With("host", view.Repository.Host, "repo", view.Repository.Path, "queue", view.Queue.ID, "train", id, "name", view.Train.Name)
	approved, err := k.look(ctx, view, now.Sub(view.Train.DepartsAt) > k.config.Patience)
	if err != nil {
		log.Warn("a train departs later: its merge requests could not be read", "error", err)
		return nil, err
	}
	departure := bot.Departure{TrainID: id, Approved: approved}
	if plan, ok := planOf(view.Queue.Settings, view.Train.Name); ok {
		next, err := Next(plan, now)
		if err != nil {
			return nil, err
		}
		departure.Next = &next
	}
	result, err := k.config.Store.Depart(ctx, departure)
	if err != nil {
		return nil, err
	}
	if !result.Done {
		return nil, nil
	}
	k.config.NudgeOutbox()
	if len(result.Admitted) > 0 {
		k.config.Nudge(view.Queue.ID)
	}
	log.Info("a train departed", "admitted", len(result.Admitted), "carried", len(result.Carried), "next", result.Next.ID)
	return &Departed{Train: view.Train, Admitted: result.Admitted, Carried: result.Carried, Next: result.Next}, nil
}

// look asks the host about every live seat, and returns those that are approved in the order of joining. The first that cannot be read ends it, unless
// the train is late: then those that cannot be read are passed over, as long as any can.
func (k *Keeper) look(ctx context.Context, view bot.TrainView, late bool) ([]bot.SeatApproval, error) {
	ctx, cancel := context.WithTimeout(ctx, k.config.Limit)
	defer cancel()
	live := slices.DeleteFunc(slices.Clone(view.Seats), func(s bot.Seat) bool { return !s.Status.Live() })
	type answer struct {
		approval bot.SeatApproval
		approved bool
		err      error
	}
	answers := make([]answer, len(live))
	at := lease.Place{Host: view.Repository.Host, Repository: view.Repository.ID}
	var all sync.WaitGroup
	for i, seat := range live {
		release, ok := k.slots.Take(ctx, at)
		if !ok {
			for j := i; j < len(live); j++ {
				answers[j].err = ctx.Err()
			}
			break
		}
		all.Go(func() {
			defer release()
			a := &answers[i]
			if a.approval, a.approved, a.err = k.config.Applier.SeatApproval(ctx, view.Repository, seat, source(view.Train)); a.err != nil && !late {
				cancel()
			}
		})
	}
	all.Wait()
	var approved []bot.SeatApproval
	var failed []error
	for _, a := range answers {
		switch {
		case a.err != nil:
			failed = append(failed, a.err)
		case a.approved:
			approved = append(approved, a.approval)
		}
	}
	if len(failed) > 0 && (!late || len(failed) == len(live)) {
		// What was cancelled because of the first one says nothing of its own.
		if i := slices.IndexFunc(failed, func(err error) bool { return !errors.Is(err, context.Canceled) }); i >= 0 {
			return nil, failed[i]
		}
		return nil, failed[0]
	}
	for _, err := range failed {
		k.config.Logger.Warn("a merge request cannot be read and does not depart", "train", view.Train.ID, "error", err)
	}
	return approved, nil
}

// source is where the moves of a look before a departure come from, for the audit.
func source(t bot.Train) string { return fmt.Sprintf("departure of train %d", t.ID) }
