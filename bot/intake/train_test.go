package intake

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/train"
	"github.com/batchbot/batchbot/store"
)

// station is a world with a real database, since seats are its matter, and a queue with trains.
type station struct {
	*world
	store *store.Store
	path  string
}

// heard keeps the answers on their way to the database.
type heard struct {
	*store.Store
	w *world
}

func (h heard) Answer(ctx context.Context, a bot.Answer) (bool, error) {
	fresh, err := h.Store.Answer(ctx, a)
	if fresh {
		h.w.rows.answers = append(h.w.rows.answers, a)
	}
	return fresh, err
}

// newStation opens a queue of main with these trains.
func newStation(t *testing.T, plans ...bot.TrainPlan) *station {
	t.Helper()
	s := &station{world: newWorld(t), path: filepath.Join(t.TempDir(), "batchbot.db")}
	var err error
	s.store, err = store.Open(t.Context(), store.Options{Driver: store.SQLite, Path: s.path})
	s.must(err)
	t.Cleanup(func() { _ = s.store.Close() })
	s.must(s.store.Migrate(t.Context()))
	s.repo, err = s.store.UpsertRepository(t.Context(), s.repo.RepositoryRef)
	s.must(err)
	s.host.files["main"] = "main"
	s.applier.Records, s.applier.Trains = heard{s.store, s.world}, s.store
	s.applier.ParseSettings = func([]byte, string) (bot.RepositorySettings, error) {
		q := bot.DefaultQueueSettings("main")
		q.Trains = plans
		return bot.RepositorySettings{Queues: []bot.QueueSettings{q}}, nil
	}
	s.applier.OpenTrains = train.New(train.Config{Store: s.store, Applier: s.applier}).Open
	return s
}

func (s *station) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// daily is a train with seats, hours away from any departure and a minute from the end of no boarding.
func daily(name string, seats int) bot.TrainPlan {
	return bot.TrainPlan{Name: name, Schedule: fmt.Sprintf("0 %d * * *", time.Now().UTC().Add(6*time.Hour).Hour()), Seats: seats}
}

// view is where a merge request stands on main.
func (s *station) view(number int) bot.OperationView {
	s.t.Helper()
	views, err := s.store.CurrentOperations(s.t.Context(), s.repo.ID, number)
	s.must(err)
	if len(views) != 1 {
		s.t.Fatalf("%d has %d operations, want 1", number, len(views))
	}
	return views[0]
}

// seated checks the place of a merge request; position 0: a seat.
func (s *station) seated(number, position int, approved bool) bot.OperationView {
	s.t.Helper()
	v := s.view(number)
	if v.Seat == nil || v.Seat.Seat.Position != position || (position == 0) != (v.Seat.Seat.Status == bot.SeatConfirmed) || v.Seat.Seat.Approved != approved ||
		v.Operation.Status != bot.OperationPendingApproval {
		s.t.Fatalf("%d is %s with %+v, want place %d, approved %t", number, v.Operation.Status, v.Seat, position, approved)
	}
	return v
}

// ended checks that a merge request holds no place any more.
func (s *station) ended(number int, status bot.OperationStatus, reason bot.Reason) {
	s.t.Helper()
	if v := s.view(number); v.Seat != nil || v.Operation.Status != status || v.Operation.Reason != reason {
		s.t.Fatalf("%d is %s because %s, with %+v; want %s because %s, without a seat", number, v.Operation.Status, v.Operation.Reason, v.Seat, status, reason)
	}
}

// expires is when the application of a merge request expires.
func (s *station) expires(number int) (at int64) {
	s.t.Helper()
	db, err := sql.Open("sqlite", "file:"+s.path+"?mode=ro")
	s.must(err)
	defer db.Close()
	s.must(db.QueryRowContext(s.t.Context(), `SELECT expires_at FROM binding WHERE operation_id = ?`, s.view(number).Operation.ID).Scan(&at))
	return at
}

// boards opens merge requests and has ada join them, one after the other.
func (s *station) boards(numbers ...int) {
	s.t.Helper()
	for _, n := range numbers {
		s.opens(n)
		s.says(ada, n, "/batch join")
	}
	s.rows.answers = nil
}

func TestJoinIsAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	s := newStation(t, daily("nightly", 1))
	s.opens(1)
	s.opens(2)
	s.approves(1, first)
	s.says(ada, 1, "/batch join")
	s.replies("It has a seat on train `nightly`, which departs ")
	s.seated(1, 0, true)
	comment := s.wrote(grace, 2, "/batch join nightly")
	s.must(s.hears(comment))
	s.replies("No seat is free on train `nightly`: it is number 1 in line")
	before := s.seated(2, 1, false)
	if before.Operation.Reason != bot.ReasonJoined || before.Operation.Requester != "grace" {
		t.Errorf("operation %+v", before.Operation)
	}
	// The same comment once more, and another one.
	s.must(s.hears(comment))
	s.replies()
	s.says(ada, 2, "/batch join Nightly")
	s.replies("It joined already, and is number 1 in line for train `nightly`")
	if after := s.seated(2, 1, false); after.Operation.Version != before.Operation.Version || after.Seat.Seat.Seq != before.Seat.Seat.Seq {
		t.Errorf("joining again changed %+v to %+v", before.Seat, after.Seat)
	}
}

func TestLeavingPromotesTheFirstInLine(t *testing.T) {
	t.Parallel()
	s := newStation(t, daily("nightly", 1))
	s.boards(1, 2, 3)
	s.says(ada, 1, "/batch leave")
	s.ended(1, bot.OperationCancelled, bot.ReasonLeft)
	s.seated(2, 0, false)
	s.says(grace, 2, "/batch cancel")
	s.ended(2, bot.OperationCancelled, bot.ReasonLeft)
	s.seated(3, 0, false)
	s.says(ada, 1, "/batch join")
	s.seated(1, 1, false)
	s.rows.answers = nil
	s.says(ada, 2, "/batch leave")
	s.replies("There is no seat to give up: it is cancelled, because it left its train")
}

func TestPlainCommandsOnAMergeRequestWithASeat(t *testing.T) {
	t.Parallel()
	s := newStation(t, daily("nightly", 1))
	s.boards(1)
	s.says(ada, 1, "/batch")
	s.replies("It is on its way already: a seat on train `nightly`")
	s.says(ada, 1, "/batch status")
	s.replies("**A seat on train `nightly`, which departs ")
	s.seated(1, 0, false)
}

func TestAnApplicationThatWaitsForApprovalTakesItsOperationAlong(t *testing.T) {
	t.Parallel()
	s := newStation(t, daily("nightly", 1))
	s.opens(1)
	s.says(ada, 1, "/batch")
	before := s.view(1).Operation
	s.says(ada, 1, "/batch join")
	if after := s.seated(1, 0, false).Operation; after.ID != before.ID {
		t.Errorf("operation %s became %s", before.ID, after.ID)
	}
	// It expires with those that were made for the train.
	s.boards(2)
	if first, second := s.expires(1), s.expires(2); second-first > int64(time.Minute/time.Microsecond) || second < time.Now().Add(30*24*time.Hour+5*time.Hour).UnixMicro() {
		t.Errorf("they expire at %d and %d", first, second)
	}
	// From now on its approval does not admit it.
	s.approves(1, first)
	s.changed(1)
	s.seated(1, 0, true)
}

func TestWhichTrain(t *testing.T) {
	t.Parallel()
	s := newStation(t, daily("nightly", 1), daily("release", 3))
	s.opens(1)
	s.says(ada, 1, "/batch join")
	s.replies("Several trains depart for `main`: say which one")
	s.says(ada, 1, "/batch join hourly")
	s.replies("| `release` | ")
	s.says(ada, 1, "/batch join RELEASE")
	s.replies("It has a seat on train `release`")
	s.says(ada, 1, "/batch join nightly")
	s.replies("A merge request has one place only, and this one has a seat on train `release`")

	none := newStation(t)
	none.opens(1)
	none.says(ada, 1, "/batch join")
	none.replies("No train departs for `main`.")
	none.applier.Trains = nil
	for _, body := range []string{"/batch join", "/batch leave"} {
		none.says(ada, 1, body)
		none.replies("Trains are not available here.")
	}
}

func TestWhoCannotJoin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		set   func(*station)
		by    bot.Actor
		reply string
	}{
		{"an outsider", func(*station) {}, mallory, "only the author of a merge request and people with write access"},
		{"a draft", func(s *station) { s.changes(1, func(mr *bot.MRSnapshot) { mr.Draft = true }) }, ada, "mark it ready first"},
		{"a closed one", func(s *station) { s.changes(1, func(mr *bot.MRSnapshot) { mr.State = bot.MRClosed }) }, ada, "reopen it first"},
		{"one that waits for a batch", func(s *station) { s.approves(1, first); s.says(ada, 1, "/batch") }, ada, "It needs no train: it is approved, number 1 in the waiting set."},
		{"one after the end of boarding", func(s *station) {
			_, err := s.store.UpsertQueue(t.Context(), s.repo.ID, bot.DefaultQueueSettings("main"), "")
			s.must(err)
			queue, _, err := s.store.FindQueue(t.Context(), s.repo.ID, "main")
			s.must(err)
			_, err = s.store.OpenTrain(t.Context(), bot.TrainSpec{
				QueueID: queue.ID, Name: "late", DepartsAt: time.Now().Add(time.Hour), ClosesAt: time.Now().Add(-time.Hour), Seats: 1, By: "ops",
			})
			s.must(err)
		}, ada, "Boarding of train `late` is over"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStation(t)
			if !strings.HasPrefix(c.name, "one after") {
				s = newStation(t, daily("nightly", 1))
			}
			s.opens(1)
			c.set(s)
			s.rows.answers = nil
			s.says(c.by, 1, "/batch join")
			s.replies(c.reply)
			if views, err := s.store.CurrentOperations(t.Context(), s.repo.ID, 1); err != nil || (len(views) > 0 && views[0].Seat != nil) {
				t.Errorf("it has a seat: %+v, %v", views, err)
			}
		})
	}
}

func TestASeatFollowsItsMergeRequest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*station)
		status bot.OperationStatus
		reason bot.Reason
	}{
		{"pushed", func(s *station) { s.pushes(1, second) }, bot.OperationCancelled, bot.ReasonHeadMoved},
		{"closed", func(s *station) { s.changes(1, func(mr *bot.MRSnapshot) { mr.State = bot.MRClosed }) }, bot.OperationClosed, bot.ReasonClosed},
		{"drafted", func(s *station) { s.changes(1, func(mr *bot.MRSnapshot) { mr.Draft = true }) }, bot.OperationCancelled, bot.ReasonDrafted},
		{"retargeted", func(s *station) { s.changes(1, func(mr *bot.MRSnapshot) { mr.Target = "next" }) }, bot.OperationCancelled, bot.ReasonRetargeted},
		{"not approved any more", func(s *station) { s.host.approvals[1] = bot.Approvals{} }, bot.OperationCancelled, bot.ReasonUnapproved},
		{"merged by hand", func(s *station) { s.changes(1, func(mr *bot.MRSnapshot) { mr.State = bot.MRMerged }) }, bot.OperationMerged, bot.ReasonMergedOutside},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStation(t, daily("nightly", 1))
			s.boards(1, 2)
			s.approves(1, first)
			s.changed(1)
			s.seated(1, 0, true)
			c.change(s)
			s.changed(1)
			s.changed(1)
			s.ended(1, c.status, c.reason)
			s.seated(2, 0, false)
		})
	}
}

// The periodic comparison says of a seat what any hint would do, and never that it is to be admitted.
func TestComparingDoesNotFightASeat(t *testing.T) {
	t.Parallel()
	s := newStation(t, daily("nightly", 1))
	s.boards(1)
	s.approves(1, first)
	compared := func(want ...bot.Reason) {
		t.Helper()
		_, moves, err := s.applier.Compare(t.Context(), s.repo, 1)
		s.must(err)
		var got []bot.Reason
		for _, m := range moves {
			if m.To == bot.OperationWaiting {
				t.Errorf("it is to be admitted: %+v", m)
			}
			got = append(got, m.Reason)
		}
		if !slices.Equal(got, want) {
			t.Errorf("compared: %v, want %v", got, want)
		}
	}
	compared(bot.ReasonApproved)
	s.changed(1)
	compared()
	s.pushes(1, second)
	compared(bot.ReasonHeadMoved)
	s.changed(1)
	compared()
}

// Whatever call to the host is not answered, the command comes again and gives one place.
func TestAJoinThatFailsHalfwayIsRepeated(t *testing.T) {
	t.Parallel()
	for failAt := 1; ; failAt++ {
		s := newStation(t, daily("nightly", 1))
		s.opens(1)
		*s.steps = steps{failAt: failAt}
		comment := s.wrote(ada, 1, "/batch join")
		err := s.hears(comment)
		if calls := len(s.steps.calls); err == nil && calls < failAt {
			if failAt < 4 {
				t.Errorf("a join calls the host %d times only", calls)
			}
			return
		}
		if !errors.Is(err, errDown) {
			t.Fatalf("call %d fails: %v", failAt, err)
		}
		s.steps.failAt = 0
		s.must(s.hears(comment))
		s.replies("It has a seat on train `nightly`")
		s.seated(1, 0, false)
	}
}

func TestJoinAndLeaveWithoutAComment(t *testing.T) {
	t.Parallel()
	s := newStation(t, daily("nightly", 1))
	s.boards(1)
	s.opens(2)
	on := s.view(1).Seat.Train
	request := &bot.APIRequest{ID: "api:ops:1", Fingerprint: "f"}
	for _, want := range []bot.BoardingOutcome{bot.BoardingDone, bot.BoardingDuplicate} {
		result, refusal, err := s.applier.Join(t.Context(), s.repo, 2, on.ID, "api:ops", request)
		if err != nil || refusal != "" || result.Outcome != want || result.Seat.Position != 1 || result.Train.ID != on.ID {
			t.Fatalf("joined %+v, %q, %v; want %d", result, refusal, err, want)
		}
	}
	s.seated(2, 1, false)
	result, refusal, err := s.applier.Join(t.Context(), s.repo, 2, on.ID, "api:ops", &bot.APIRequest{ID: "api:ops:2", Fingerprint: "f"})
	if err != nil || refusal != "" || result.Outcome != bot.BoardingHeld || result.Seat.Position != 1 {
		t.Errorf("again: %+v, %q, %v", result, refusal, err)
	}

	left, refusal, err := s.applier.Leave(t.Context(), s.repo, 1, on.ID, "api:ops", request)
	if err != nil || refusal != "" || left.Result != bot.MoveDone || left.Promoted == nil || left.Promoted.Number != 2 {
		t.Errorf("left %+v, %q, %v", left, refusal, err)
	}
	s.seated(2, 0, false)
	if _, refusal, err := s.applier.Leave(t.Context(), s.repo, 1, on.ID, "api:ops", request); err != nil || !strings.Contains(refusal, "no seat to give up") {
		t.Errorf("again: %q, %v", refusal, err)
	}
	s.changes(1, func(mr *bot.MRSnapshot) { mr.Target = "next" })
	for number, want := range map[int]string{1: "departs for `main`, and this merge request has the target `next`", 99: "there is no merge request 99 in "} {
		if _, refusal, err := s.applier.Join(t.Context(), s.repo, number, on.ID, "api:ops", nil); err != nil || !strings.Contains(refusal, want) {
			t.Errorf("%d: %q, %v", number, refusal, err)
		}
	}
	if _, _, err := s.applier.Join(t.Context(), s.repo, 1, 99, "api:ops", nil); !errors.Is(err, store.ErrMissing) {
		t.Errorf("an unknown train: %v", err)
	}
}

func TestTheLookBeforeADepartureSaysWhoIsApproved(t *testing.T) {
	t.Parallel()
	s := newStation(t, daily("nightly", 4))
	s.boards(1, 2, 3, 4)
	s.approves(1, first)
	s.approves(2, first)
	s.pushes(2, second)
	delete(s.host.mrs, 4)
	var approved []int
	for n := 1; n <= 4; n++ {
		approval, ok, err := s.applier.SeatApproval(t.Context(), s.repo, s.view(n).Seat.Seat, "departure")
		s.must(err)
		if ok {
			approved = append(approved, n)
			if now := s.view(n).Operation; approval.OperationID != now.ID || approval.Version != now.Version {
				t.Errorf("%d is approved as %+v, and stands at version %d", n, approval, now.Version)
			}
		}
	}
	if !slices.Equal(approved, []int{1}) {
		t.Errorf("approved are %v", approved)
	}
	s.ended(2, bot.OperationCancelled, bot.ReasonHeadMoved)
	s.steps.failing = []string{"ReadApprovals"}
	if _, _, err := s.applier.SeatApproval(t.Context(), s.repo, s.view(3).Seat.Seat, "departure"); !errors.Is(err, errDown) {
		t.Errorf("a host that is down: %v", err)
	}
}
