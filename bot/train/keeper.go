package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/lease"
)

// Store is what a Keeper reads and writes. Implemented by store.
type Store interface {
	// Clock reads the database's clock.
	Clock(ctx context.Context) (time.Time, error)
	// TrainQueues lists the queues of active repositories whose settings name trains.
	TrainQueues(ctx context.Context) ([]bot.Queue, error)
	// ReadQueue reads a queue with its repository. An error: there is none.
	ReadQueue(ctx context.Context, queueID int64) (bot.Queue, bot.Repository, error)
	// OpenTrains lists the open trains of a queue by departure; queueID 0: of all queues.
	OpenTrains(ctx context.Context, queueID int64) ([]bot.Train, error)
	// DueTrains lists the open trains whose departure has come.
	DueTrains(ctx context.Context) ([]bot.Train, error)
	// ReadTrain reads a train with its seats. An error: there is none.
	ReadTrain(ctx context.Context, trainID int64) (bot.TrainView, error)

	// OpenTrain opens a train; of one queue and name at most one is open.
	OpenTrain(ctx context.Context, spec bot.TrainSpec) (bot.TrainResult, error)
	// ChangeTrain changes an open train, or cancels it.
	ChangeTrain(ctx context.Context, change bot.TrainChange) (bot.TrainResult, error)
	// Depart lets a due train go, once.
	Depart(ctx context.Context, departure bot.Departure) (bot.DepartureResult, error)
}

// Applier looks at merge requests. Implemented by intake.
type Applier interface {
	// SeatApproval looks at the merge request of a live seat and brings its operation in line. approved: it holds its seat, and is approved as of
	// the version that is returned.
	SeatApproval(ctx context.Context, repo bot.Repository, seat bot.Seat, source string) (approval bot.SeatApproval, approved bool, err error)
}

// Config is what a Keeper needs. Functions that are nil do nothing.
type Config struct {
	Store       Store
	Applier     Applier
	Nudge       func(queueID int64) // something waits in a queue; must not block
	NudgeOutbox func()              // something is to be said; must not block

	AtOnce   int           // merge requests looked at at once on one host, half of them in one repository; 0: 8
	Limit    time.Duration // for looking at all seats of one train, which those that fall due meanwhile wait for; 0: 2 minutes
	Patience time.Duration // after so long, merge requests that cannot be read, while others can, no longer hold their train; 0: 30 minutes
	Logger   *slog.Logger  // nil: silent
}

// Keeper keeps trains. It is safe for use by several goroutines, and any number of keepers may share a store.
type Keeper struct {
	config Config
	slots  *lease.Slots
}

// New returns a keeper with the defaults filled in.
func New(c Config) *Keeper {
	if c.Nudge == nil {
		c.Nudge = func(int64) {}
	}
	if c.NudgeOutbox == nil {
		c.NudgeOutbox = func() {}
	}
	c.AtOnce = cmp.Or(c.AtOnce, 8)
	c.Limit = cmp.Or(c.Limit, 2*time.Minute)
	c.Patience = cmp.Or(c.Patience, 30*time.Minute)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Keeper{config: c, slots: lease.NewSlots(c.AtOnce)}
}

// Result is what a tick did.
type Result struct {
	Opened   []bot.Train
	Changed  []bot.Train // brought in line with their file
	Departed []Departed
}

// Departed is one departure.
type Departed struct {
	Train    bot.Train
	Admitted []bot.Operation // in the order of their requests
	Carried  []bot.Seat      // on Next, in order
	Next     bot.Train       // zero: none
}

// String says in one line what a tick did; empty: nothing.
func (r Result) String() string {
	var parts []string
	for _, d := range r.Departed {
		parts = append(parts, fmt.Sprintf("%s departed with %d, %d carried over", d.Train.Name, len(d.Admitted), len(d.Carried)))
	}
	for _, group := range []struct {
		what   string
		trains []bot.Train
	}{{"opened", r.Opened}, {"changed", r.Changed}} {
		var names []string
		for _, t := range group.trains {
			names = append(names, t.Name)
		}
		if len(names) > 0 {
			parts = append(parts, group.what+" "+strings.Join(names, ", "))
		}
	}
	return strings.Join(parts, "; ")
}

// Tick does what is to be done about trains now. It goes as far as it can: the error joins what failed, and the next tick does that.
func (k *Keeper) Tick(ctx context.Context) (Result, error) {
	var result Result
	departed, departErr := k.depart(ctx)
	result.Departed = departed
	queues, err := k.config.Store.TrainQueues(ctx)
	if err != nil {
		return result, errors.Join(departErr, fmt.Errorf("listing the queues with trains: %w", err))
	}
	opened, changed, err := k.align(ctx, queues, 0)
	result.Opened, result.Changed = opened, changed
	return result, errors.Join(departErr, err)
}

// Open opens the trains the file of a queue names and that are not open yet, and brings the others in line with it.
func (k *Keeper) Open(ctx context.Context, queue bot.Queue) error {
	_, _, err := k.align(ctx, []bot.Queue{queue}, queue.ID)
	return err
}

// align brings the open trains of some queues in line with their settings. A train that a person made or changed stays as it is, and one that the
// file does not name any more departs once more.
func (k *Keeper) align(ctx context.Context, queues []bot.Queue, queueID int64) (opened, changed []bot.Train, failed error) {
	if len(queues) == 0 {
		return nil, nil, nil
	}
	trains, err := k.config.Store.OpenTrains(ctx, queueID)
	if err != nil {
		return nil, nil, fmt.Errorf("listing the open trains: %w", err)
	}
	now, err := k.config.Store.Clock(ctx) // after the rows, see the package
	if err != nil {
		return nil, nil, fmt.Errorf("reading the clock: %w", err)
	}
	for _, queue := range queues {
		for _, plan := range queue.Settings.Trains {
			i := slices.IndexFunc(trains, func(t bot.Train) bool { return t.QueueID == queue.ID && t.Name == plan.Name })
			var train *bot.Train
			if i >= 0 {
				train = &trains[i]
			}
			if err := k.alignOne(ctx, queue, plan, train, now, &opened, &changed); err != nil {
				failed = errors.Join(failed, fmt.Errorf("train %q of queue %d: %w", plan.Name, queue.ID, err))
			}
		}
	}
	if len(changed) > 0 {
		k.config.NudgeOutbox()
	}
	return opened, changed, failed
}

func (k *Keeper) alignOne(ctx context.Context, queue bot.Queue, plan bot.TrainPlan, train *bot.Train, now time.Time, opened, changed *[]bot.Train) error {
	next, err := Next(plan, now)
	if err != nil {
		return err
	}
	log := k.config.Logger.With("queue", queue.ID, "name", plan.Name, "departs", next.DepartsAt, "seats", next.Seats)
	switch {
	case train == nil:
		result, err := k.config.Store.OpenTrain(ctx, bot.TrainSpec{
			QueueID: queue.ID, Name: plan.Name, Scheduled: true, DepartsAt: next.DepartsAt, ClosesAt: next.ClosesAt, Seats: next.Seats, By: "batchbot", Source: settingsSource,
		})
		if err != nil {
			return fmt.Errorf("opening it: %w", err)
		}
		if result.Outcome == bot.TrainWritten {
			*opened = append(*opened, result.Train)
			log.Info("a train opened", "train", result.Train.ID)
		}
	case !train.Scheduled, !train.DepartsAt.After(now):
		// A person's, or about to depart.
	case !train.DepartsAt.Equal(next.DepartsAt), !train.ClosesAt.Equal(next.ClosesAt), train.Seats != next.Seats:
		result, err := k.config.Store.ChangeTrain(ctx, bot.TrainChange{
			TrainID: train.ID, Seats: &next.Seats, DepartsAt: next.DepartsAt, ClosesAt: next.ClosesAt, FromFile: true, By: "batchbot", Source: settingsSource,
		})
		if err != nil {
			return fmt.Errorf("bringing it in line with the repository file: %w", err)
		}
		if result.Outcome == bot.TrainWritten {
			*changed = append(*changed, result.Train)
			log.Info("a train follows its file", "train", train.ID, "promoted", len(result.Promoted))
		}
	}
	return nil
}

// settingsSource is where the trains of a file come from, for the audit.
const settingsSource = "repository file"
