package train

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/store"
)

// nightly departs at nine, with two seats.
var nightly = bot.TrainPlan{Name: "nightly", Schedule: "0 9 * * *", Seats: 2, BoardingCloses: 10 * time.Minute}

func (w *world) at(day, hour, minute int) time.Time {
	return time.Date(2000, 1, day, hour, minute, 0, 0, time.UTC)
}

func TestATrainIsOpenFromTheFirstTickOn(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		_, queue := w.queue("app", nightly)
		w.queue("website") // without trains
		if got := w.ticks().String(); got != "opened nightly" {
			w.Errorf("the first tick: %q", got)
		}
		train := w.opened(queue, "nightly")
		if !train.DepartsAt.Equal(w.at(1, 9, 0)) || !train.ClosesAt.Equal(w.at(1, 8, 50)) || train.Seats != 2 || !train.Scheduled {
			w.Errorf("the train is %+v", train)
		}
		if got := w.ticks().String(); got != "" {
			w.Errorf("the second tick: %q", got)
		}
	})
}

func TestWhoWantsToJoinDoesNotWaitForATick(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		_, queue := w.queue("app", nightly)
		for range 2 {
			w.must(w.keeper(w.store).Open(w.Context(), queue))
		}
		trains, err := w.store.OpenTrains(w.Context(), 0)
		w.must(err)
		if len(trains) != 1 || trains[0].Name != "nightly" {
			w.Errorf("open are %+v", trains)
		}
	})
}

func TestADepartureAtItsMinute(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		repo, queue := w.queue("app", nightly)
		w.ticks()
		train := w.opened(queue, "nightly")
		w.boards(repo, train, 1, false)
		w.boards(repo, train, 2, true)
		w.boards(repo, train, 3, true)
		w.boards(repo, train, 4, true)
		w.holds(train, []int{1, 2}, []int{3, 4})

		w.until(w.at(1, 8, 59))
		if result := w.ticks(); len(result.Departed) != 0 {
			w.Fatalf("a minute early: %s", result)
		}
		w.until(w.at(1, 9, 0))
		result := w.ticks()
		d := w.departs(result, "nightly", []int{2, 3}, []int{1, 4})
		if got := result.String(); got != "nightly departed with 2, 2 carried over" {
			w.Errorf("it says %q", got)
		}
		for _, n := range []int{2, 3} {
			w.stands(n, bot.OperationWaiting, bot.ReasonDeparted)
		}
		w.stands(1, bot.OperationPendingApproval, bot.ReasonCarriedOver)
		if _, nudged := w.nudged.Load(queue.ID); !nudged {
			w.Error("the queue does not know that somebody waits")
		}
		next := w.opened(queue, "nightly")
		if next.ID != d.Next.ID || !next.DepartsAt.Equal(w.at(2, 9, 0)) || !next.Scheduled {
			w.Errorf("next is %+v", next)
		}
		w.holds(next, []int{1, 4}, nil)
		if again := w.ticks(); again.String() != "" {
			w.Errorf("once more: %s", again)
		}
	})
}

func TestManyKeepersLetATrainDepartOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		repo, queue := w.queue("app", nightly)
		w.ticks()
		train := w.opened(queue, "nightly")
		w.boards(repo, train, 1, true)
		w.boards(repo, train, 2, true)
		w.boards(repo, train, 3, true)
		w.until(w.at(1, 9, 0))
		const instances = 6
		stores, results, errs := make([]*store.Store, instances), make([]Result, instances), make([]error, instances)
		for i := range stores {
			stores[i] = w.open()
			defer stores[i].Close()
		}
		start := make(chan struct{})
		var all sync.WaitGroup
		for i, s := range stores {
			all.Go(func() {
				<-start
				results[i], errs[i] = w.keeper(s).Tick(w.Context())
			})
		}
		close(start)
		all.Wait()
		w.must(errors.Join(errs...))
		var sum Result
		for _, r := range results {
			sum.Departed, sum.Opened, sum.Changed = append(sum.Departed, r.Departed...), append(sum.Opened, r.Opened...), append(sum.Changed, r.Changed...)
		}
		w.departs(sum, "nightly", []int{1, 2}, []int{3})
		if len(sum.Opened) != 0 || len(sum.Changed) != 0 {
			w.Errorf("besides: %s", sum)
		}
		w.holds(w.opened(queue, "nightly"), []int{3}, nil)
	})
}

func TestAHostThatIsDownHoldsItsOwnTrainsOnly(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		repo, queue := w.queue("app", nightly)
		other, otherQueue := w.queue("website", bot.TrainPlan{Name: "daily", Schedule: "0 9 * * *", Seats: 1})
		w.ticks()
		w.boards(repo, w.opened(queue, "nightly"), 1, true)
		w.boards(other, w.opened(otherQueue, "daily"), 2, true)
		w.down[repo.ID] = true
		w.until(w.at(1, 9, 0))
		result, err := w.keeper(w.store).Tick(w.Context())
		if !errors.Is(err, errDown) {
			w.Errorf("the tick says %v", err)
		}
		w.departs(result, "daily", []int{2}, nil)
		w.stands(1, bot.OperationPendingApproval, bot.ReasonJoined)
		// However long it takes: nothing is known of anybody on it.
		w.until(w.at(1, 12, 0))
		if result, err := w.keeper(w.store).Tick(w.Context()); err == nil || len(result.Departed) != 0 {
			w.Errorf("three hours later: %s, %v", result, err)
		}
		delete(w.down, repo.ID)
		w.until(w.at(1, 12, 1))
		w.departs(w.ticks(), "nightly", []int{1}, nil)
		if next := w.opened(queue, "nightly"); !next.DepartsAt.Equal(w.at(2, 9, 0)) {
			w.Errorf("next departs %s", next.DepartsAt)
		}
	})
}

func TestOneThatCannotBeReadHoldsTheTrainForAWhile(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		long := nightly
		long.Seats = 12
		repo, queue := w.queue("app", long)
		w.ticks()
		train := w.opened(queue, "nightly")
		var others []int
		for n := 1; n <= 12; n++ {
			w.boards(repo, train, n, true)
			if n > 1 {
				others = append(others, n)
			}
		}
		w.missing[1] = true
		for _, minute := range []int{0, 1, 30} {
			w.until(w.at(1, 9, minute))
			if result, err := w.keeper(w.store).Tick(w.Context()); !errors.Is(err, errDown) || len(result.Departed) != 0 {
				w.Fatalf("at 9:%02d: %s, %v", minute, result, err)
			}
		}
		w.until(w.at(1, 9, 31))
		w.departs(w.ticks(), "nightly", others, []int{1})
	})
}

func TestALateDepartureIsOneDeparture(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		repo, queue := w.queue("app", nightly)
		w.ticks()
		train := w.opened(queue, "nightly")
		for n := 1; n <= 3; n++ {
			w.boards(repo, train, n, true)
		}
		w.until(w.at(4, 15, 0)) // nobody ran for days
		w.departs(w.ticks(), "nightly", []int{1, 2}, []int{3})
		if next := w.opened(queue, "nightly"); !next.DepartsAt.Equal(w.at(5, 9, 0)) {
			w.Errorf("next departs %s", next.DepartsAt)
		}
	})
}

func TestAnOpenTrainFollowsItsFile(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		repo, queue := w.queue("app", nightly)
		w.ticks()
		train := w.opened(queue, "nightly")
		for n := 1; n <= 4; n++ {
			w.boards(repo, train, n, true)
		}
		more := nightly
		more.Seats, more.Schedule, more.TimeZone = 3, "0 9 * * *", "Europe/Berlin"
		w.queue("app", more)
		if got := w.ticks().String(); got != "changed nightly" {
			w.Errorf("the tick says %q", got)
		}
		w.holds(train, []int{1, 2, 3}, []int{4})
		if now := w.opened(queue, "nightly"); now.ID != train.ID || !now.DepartsAt.Equal(w.at(1, 8, 0)) || !now.ClosesAt.Equal(w.at(1, 7, 50)) {
			w.Errorf("the train is %+v", now)
		}
		// Fewer seats take nobody's away.
		more.Seats = 1
		w.queue("app", more)
		w.ticks()
		w.holds(train, []int{1, 2, 3}, []int{4})
		if got := w.ticks().String(); got != "" {
			w.Errorf("nothing changed, and a tick says %q", got)
		}
	})
}

func TestATrainThatIsTakenOutOfItsFileDepartsOnceMore(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		repo, queue := w.queue("app", nightly)
		w.ticks()
		train := w.opened(queue, "nightly")
		w.boards(repo, train, 1, true)
		w.boards(repo, train, 2, false)
		w.queue("app")
		if got := w.ticks().String(); got != "" {
			w.Errorf("the tick says %q", got)
		}
		w.until(w.at(1, 9, 0))
		d := w.departs(w.ticks(), "nightly", []int{1}, nil)
		if d.Next.ID != 0 {
			w.Errorf("it has a successor: %+v", d.Next)
		}
		w.stands(2, bot.OperationCancelled, bot.ReasonTrainOver)
		if trains, err := w.store.OpenTrains(w.Context(), queue.ID); err != nil || len(trains) != 0 {
			w.Errorf("open are %+v: %v", trains, err)
		}
	})
}

func TestAPausedQueueDoesNotHoldItsTrain(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		repo, queue := w.queue("app", nightly)
		w.ticks()
		w.boards(repo, w.opened(queue, "nightly"), 1, true)
		_, err := w.store.PauseQueue(w.Context(), queue.ID, "rita", "freeze")
		w.must(err)
		w.until(w.at(1, 9, 0))
		w.departs(w.ticks(), "nightly", []int{1}, nil)
		w.stands(1, bot.OperationWaiting, bot.ReasonDeparted)
	})
}

func TestARepositoryThatIsGoneKeepsItsTrainsWaiting(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		repo, queue := w.queue("app", nightly)
		w.ticks()
		w.boards(repo, w.opened(queue, "nightly"), 1, true)
		w.must(w.store.DeactivateRepositories(w.Context(), "forge", 0, []int64{repo.ExternalID}, "gone"))
		w.until(w.at(1, 9, 0))
		if got := w.ticks().String(); got != "" || w.looks != 0 {
			w.Errorf("the tick says %q after %d looks", got, w.looks)
		}
		w.queue("app", nightly)
		w.departs(w.ticks(), "nightly", []int{1}, nil)
	})
}

func TestAnOperatorsTrain(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		repo, queue := w.queue("app")
		keeper := w.keeper(w.store)
		spec := bot.TrainSpec{QueueID: queue.ID, Name: "hotfix", DepartsAt: w.at(1, 12, 0), Seats: 1, By: "api:ops", Source: "test"}
		created, refusal, err := keeper.Create(w.Context(), spec)
		if err != nil || refusal != "" || created.Outcome != bot.TrainWritten || created.Train.Scheduled || !created.Train.ClosesAt.Equal(w.at(1, 12, 0)) {
			w.Fatalf("created %+v, %q, %v", created, refusal, err)
		}
		if _, refusal, err := keeper.Create(w.Context(), spec); err != nil || refusal == "" {
			w.Errorf("twice: %q, %v", refusal, err)
		}
		w.boards(repo, created.Train, 1, true)
		w.boards(repo, created.Train, 2, true)
		two := 2
		changed, refusal, err := keeper.Change(w.Context(), bot.TrainChange{TrainID: created.Train.ID, Seats: &two, DepartsAt: w.at(1, 13, 0), By: "api:ops", Source: "test"})
		if err != nil || refusal != "" || !slices.Equal(numbers(changed.Promoted, func(s bot.Seat) int { return s.Number }), []int{2}) {
			w.Errorf("changed %+v, %q, %v", changed, refusal, err)
		}
		w.until(w.at(1, 12, 0))
		if got := w.ticks().String(); got != "" {
			w.Errorf("an hour early: %q", got)
		}
		w.until(w.at(1, 13, 0))
		if d := w.departs(w.ticks(), "hotfix", []int{1, 2}, nil); d.Next.ID != 0 {
			w.Errorf("it has a successor: %+v", d.Next)
		}
		if _, refusal, err := keeper.Change(w.Context(), bot.TrainChange{TrainID: created.Train.ID, Seats: &two, By: "api:ops"}); err != nil || refusal != "the train is not open any more" {
			w.Errorf("after the departure: %q, %v", refusal, err)
		}
	})
}

func TestAPersonsChangeStaysUntilTheDeparture(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		repo, queue := w.queue("app", nightly)
		w.ticks()
		train := w.opened(queue, "nightly")
		for n := 1; n <= 3; n++ {
			w.boards(repo, train, n, true)
		}
		three := 3
		if _, refusal, err := w.keeper(w.store).Change(w.Context(), bot.TrainChange{TrainID: train.ID, Seats: &three, By: "api:ops"}); err != nil || refusal != "" {
			w.Fatalf("%q, %v", refusal, err)
		}
		if got := w.ticks().String(); got != "" {
			w.Errorf("the file undoes it: %q", got)
		}
		w.until(w.at(1, 9, 0))
		w.departs(w.ticks(), "nightly", []int{1, 2, 3}, nil)
		if next := w.opened(queue, "nightly"); next.Seats != 2 || !next.Scheduled {
			w.Errorf("its successor is %+v", next)
		}
	})
}

func TestACancelledDepartureDoesNotComeBack(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		repo, queue := w.queue("app", nightly)
		w.ticks()
		train := w.opened(queue, "nightly")
		w.boards(repo, train, 1, true)
		if _, refusal, err := w.keeper(w.store).Change(w.Context(), bot.TrainChange{TrainID: train.ID, Cancel: true, By: "api:ops"}); err != nil || refusal != "" {
			w.Fatalf("%q, %v", refusal, err)
		}
		w.stands(1, bot.OperationCancelled, bot.ReasonTrainOver)
		w.ticks()
		if next := w.opened(queue, "nightly"); next.ID == train.ID || !next.DepartsAt.Equal(w.at(2, 9, 0)) {
			w.Errorf("next is %+v", next)
		}
		w.until(w.at(1, 9, 0))
		if got := w.ticks().String(); got != "" {
			w.Errorf("at the time of the cancelled one: %q", got)
		}
	})
}

func TestAnOperatorsMistakesAreNamed(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		_, queue := w.queue("app", nightly)
		w.ticks()
		keeper, train := w.keeper(w.store), w.opened(queue, "nightly")
		good := bot.TrainSpec{QueueID: queue.ID, Name: "hotfix", DepartsAt: w.at(1, 12, 0), Seats: 1, By: "api:ops"}
		for want, spoil := range map[string]func(*bot.TrainSpec){
			"a train's name is one word of 1 to 64 letters, digits and . _ -, beginning with a letter or digit": func(s *bot.TrainSpec) { s.Name = "two words" },
			"1001 seats are out of range: name 0 to 1000":                                                       func(s *bot.TrainSpec) { s.Seats = 1001 },
			"the time of departure is missing":                                                                  func(s *bot.TrainSpec) { s.DepartsAt = time.Time{} },
			"the time of departure, 1999-12-31T12:00:00Z, has passed":                                           func(s *bot.TrainSpec) { s.DepartsAt = w.at(0, 12, 0) },
			"boarding ends after the departure: let it end at 2000-01-01T12:00:00Z or before":                   func(s *bot.TrainSpec) { s.ClosesAt = w.at(1, 12, 1) },
			"a train of this name is open already: change or cancel that one, or choose another name":           func(s *bot.TrainSpec) { s.Name = "nightly" },
		} {
			spec := good
			spoil(&spec)
			if _, refusal, err := keeper.Create(w.Context(), spec); err != nil || refusal != want {
				w.Errorf("got %q, %v, want %q", refusal, err, want)
			}
		}
		spec := good
		spec.QueueID = 99
		if _, _, err := keeper.Create(w.Context(), spec); !errors.Is(err, store.ErrMissing) {
			w.Errorf("an unknown queue: %v", err)
		}
		if _, _, err := keeper.Change(w.Context(), bot.TrainChange{TrainID: 99, Cancel: true}); !errors.Is(err, store.ErrMissing) {
			w.Errorf("an unknown train: %v", err)
		}
		minus := -1
		for want, change := range map[string]bot.TrainChange{
			"-1 seats are out of range: name 0 to 1000":                                       {Seats: &minus},
			"a train is either cancelled or changed":                                          {Cancel: true, DepartsAt: w.at(1, 12, 0)},
			"nothing is to be changed: name seats, the time of departure, or both":            {},
			"the time of departure, 1999-12-31T12:00:00Z, has passed":                         {DepartsAt: w.at(0, 12, 0)},
			"boarding ends after the departure: let it end at 2000-01-01T09:00:00Z or before": {ClosesAt: w.at(1, 10, 0)},
		} {
			change.TrainID, change.By = train.ID, "api:ops"
			if _, refusal, err := keeper.Change(w.Context(), change); err != nil || refusal != want {
				w.Errorf("got %q, %v, want %q", refusal, err, want)
			}
		}
	})
}

// Whoever is approved and in line waits for a departure, however long; whoever is not is at an end some time.
func TestAPlaceInLineDoesNotExpire(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		repo, queue := w.queue("app", bot.TrainPlan{Name: "yearly", Schedule: "0 9 1 6 *", Seats: 1})
		w.ticks()
		train := w.opened(queue, "yearly")
		w.boards(repo, train, 1, true)
		w.boards(repo, train, 2, true)
		w.boards(repo, train, 3, false)
		w.until(w.at(60, 0, 0)) // they were to wait for a thousand hours
		n, err := w.store.ExpireOperations(w.Context(), 10)
		w.must(err)
		if n != 1 {
			w.Errorf("%d expired", n)
		}
		w.stands(3, bot.OperationExpired, bot.ReasonExpired)
		w.holds(train, []int{1}, []int{2})
	})
}
