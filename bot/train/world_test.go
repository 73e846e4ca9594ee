package train

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/store"
)

var errDown = errors.New("not reachable")

// world is a database in a bubble, in which time passes as the test says, and keepers on it. Midnight of the first of January 2000 is when it begins.
type world struct {
	*testing.T
	store  *store.Store
	path   string
	said   int // commands so far
	nudged *sync.Map

	mu       sync.Mutex
	approved map[int]bool // by number
	down     map[int64]bool
	missing  map[int]bool // merge requests that cannot be read
	looks    int
}

// inBubble runs a test with a world.
func inBubble(t *testing.T, test func(*world)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "batchbot.db")
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, path: path, nudged: &sync.Map{}, approved: make(map[int]bool), down: make(map[int64]bool), missing: make(map[int]bool)}
		w.store = w.open()
		defer w.store.Close()
		w.must(w.store.Migrate(t.Context()))
		test(w)
	})
}

func (w *world) open() *store.Store {
	w.Helper()
	s, err := store.Open(w.Context(), store.Options{Driver: store.SQLite, Path: w.path})
	w.must(err)
	return s
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// keeper returns another keeper, as another instance has it.
func (w *world) keeper(s *store.Store) *Keeper {
	return New(Config{Store: s, Applier: w, Nudge: func(id int64) { w.nudged.Store(id, true) }})
}

// SeatApproval is what the host says.
func (w *world) SeatApproval(ctx context.Context, repo bot.Repository, seat bot.Seat, _ string) (bot.SeatApproval, bool, error) {
	w.mu.Lock()
	w.looks++
	down, missing, approved := w.down[repo.ID], w.missing[seat.Number], w.approved[seat.Number]
	w.mu.Unlock()
	if down || missing {
		return bot.SeatApproval{}, false, fmt.Errorf("reading %d: %w", seat.Number, errDown)
	}
	view, err := w.store.OperationView(ctx, seat.OperationID)
	return bot.SeatApproval{OperationID: seat.OperationID, Version: view.Operation.Version}, approved, err
}

// queue makes, or changes, the queue of main of a repository.
func (w *world) queue(name string, plans ...bot.TrainPlan) (bot.Repository, bot.Queue) {
	w.Helper()
	repo, err := w.store.UpsertRepository(w.Context(), bot.RepositoryRef{Host: "forge", ExternalID: int64(len(name)), Path: "team/" + name, DefaultBranch: "main"})
	w.must(err)
	settings := bot.DefaultQueueSettings("main")
	settings.Trains = plans
	queue, err := w.store.UpsertQueue(w.Context(), repo.ID, settings, "")
	w.must(err)
	return repo, queue
}

// boards takes a place for a merge request; approved: it is by then.
func (w *world) boards(repo bot.Repository, train bot.Train, number int, approved bool) bot.BoardingResult {
	w.Helper()
	w.said++
	w.mu.Lock()
	w.approved[number] = approved
	w.mu.Unlock()
	result, err := w.store.Board(w.Context(), bot.Boarding{TrainID: train.ID, Application: bot.Application{
		OperationID: fmt.Sprintf("operation-%d", number), QueueID: train.QueueID, Repository: repo, Admit: approved, Lane: bot.LaneNormal, ExpiresIn: 1000 * time.Hour,
		MR:      bot.MRSnapshot{Number: number, Title: "Change", State: bot.MROpen, HeadSHA: fmt.Sprintf("%040d", number), Target: "main", Author: bot.Actor{ID: 1, Login: "ada"}},
		Command: bot.CommandRef{RequestID: fmt.Sprint("forge:issue:1:", w.said), Order: bot.CommandOrder{At: int64(w.said)}, By: "ada", Verb: "join", Source: "test"},
	}})
	w.must(err)
	if result.Outcome != bot.BoardingDone {
		w.Fatalf("%d boards %s: %d", number, train.Name, result.Outcome)
	}
	return result
}

// ticks has a keeper do what is to be done now.
func (w *world) ticks() Result {
	w.Helper()
	result, err := w.keeper(w.store).Tick(w.Context())
	w.must(err)
	return result
}

// opened is the open train of a name.
func (w *world) opened(queue bot.Queue, name string) bot.Train {
	w.Helper()
	trains, err := w.store.OpenTrains(w.Context(), queue.ID)
	w.must(err)
	i := slices.IndexFunc(trains, func(t bot.Train) bool { return t.Name == name })
	if i < 0 {
		w.Fatalf("no train %s is open: %+v", name, trains)
	}
	return trains[i]
}

// holds checks who has a seat or a place in line on a train, in this order.
func (w *world) holds(train bot.Train, confirmed, waiting []int) {
	w.Helper()
	view, err := w.store.ReadTrain(w.Context(), train.ID)
	w.must(err)
	var got [2][]int
	for _, s := range view.Seats {
		switch s.Status {
		case bot.SeatConfirmed:
			got[0] = append(got[0], s.Number)
		case bot.SeatWaiting:
			got[1] = append(got[1], s.Number)
		}
	}
	if !slices.Equal(got[0], confirmed) || !slices.Equal(got[1], waiting) {
		w.Errorf("on train %d are %v and in line %v, want %v and %v", train.ID, got[0], got[1], confirmed, waiting)
	}
}

// stands checks where a merge request is.
func (w *world) stands(number int, status bot.OperationStatus, reason bot.Reason) {
	w.Helper()
	view, err := w.store.OperationView(w.Context(), fmt.Sprintf("operation-%d", number))
	w.must(err)
	if view.Operation.Status != status || view.Operation.Reason != reason {
		w.Errorf("%d is %s, because %s; want %s, because %s", number, view.Operation.Status, view.Operation.Reason, status, reason)
	}
}

func numbers[T any](list []T, number func(T) int) []int {
	out := make([]int, 0, len(list))
	for _, x := range list {
		out = append(out, number(x))
	}
	return out
}

// departs checks one departure.
func (w *world) departs(result Result, name string, admitted, carried []int) Departed {
	w.Helper()
	if len(result.Departed) != 1 || result.Departed[0].Train.Name != name {
		w.Fatalf("departed: %+v, want %s", result.Departed, name)
	}
	d := result.Departed[0]
	in, over := numbers(d.Admitted, func(o bot.Operation) int { return o.Number }), numbers(d.Carried, func(s bot.Seat) int { return s.Number })
	if !slices.Equal(in, admitted) || !slices.Equal(over, carried) {
		w.Fatalf("%s departed with %v and carried over %v, want %v and %v", name, in, over, admitted, carried)
	}
	return d
}

// until lets time pass.
func (w *world) until(at time.Time) { time.Sleep(time.Until(at)) }
