package message

import (
	"strings"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// nightly departs at half past ten in the evening of New York, which is the next day in UTC.
func nightly() bot.Train {
	return bot.Train{
		ID: 4, QueueID: 1, Name: "nightly", Status: bot.TrainOpen, Scheduled: true, DepartsAt: time.Date(2024, 3, 6, 3, 30, 0, 0, time.UTC),
		ClosesAt: time.Date(2024, 3, 6, 3, 0, 0, 0, time.UTC), Seats: 2, Capacity: 2, Confirmed: 2, Waiting: 1,
	}
}

func trainQueue() bot.Queue {
	q := bot.Queue{ID: 1, Target: "main", State: bot.QueueOpen, Settings: bot.DefaultQueueSettings("main")}
	q.Settings.Trains = []bot.TrainPlan{{Name: "nightly", Schedule: "30 22 * * *", TimeZone: "America/New_York", Seats: 2}, {Name: "noon", Schedule: "0 12 * * *"}}
	return q
}

func seatOf(status bot.SeatStatus, approved bool) *bot.SeatView {
	s := bot.Seat{TrainID: 4, Number: 2, OperationID: operationID, Status: status, Approved: approved, Seq: 3}
	if status == bot.SeatWaiting {
		s.Position = 1
	}
	return &bot.SeatView{Seat: s, Train: nightly()}
}

// rider is a merge request on a train.
func rider(status bot.SeatStatus, approved bool, missing string) bot.OperationView {
	return bot.OperationView{Operation: operation(bot.OperationPendingApproval, bot.ReasonJoined, missing), Queue: trainQueue(), Seat: seatOf(status, approved)}
}

// seatEntry is a change of a merge request that has, or had, a seat.
func seatEntry(to bot.OperationStatus, reason bot.Reason, words string, seat *bot.SeatView) bot.HistoryEntry {
	e := entry(bot.OperationPendingApproval, to, reason, words)
	e.BatchID, e.Queue, e.Seat = 0, trainQueue(), seat
	return e
}

// trainTexts is every text about trains, by golden file.
func trainTexts() map[string]string {
	const pending, cancelled = bot.OperationPendingApproval, bot.OperationCancelled
	missing := "needs 1 more approval at 1111111 from somebody with write access"
	confirmed, waiting, lost := seatOf(bot.SeatConfirmed, true), seatOf(bot.SeatWaiting, false), seatOf(bot.SeatCancelled, false)
	noon := bot.Train{
		ID: 5, QueueID: 1, Name: "noon", Status: bot.TrainOpen, DepartsAt: time.Date(2024, 3, 6, 12, 0, 0, 0, time.UTC), Seats: 5, Capacity: 5, Confirmed: 1, Closed: true,
	}
	riding := view(bot.OperationBatched, bot.ReasonClaimed, "")
	ended := view(cancelled, bot.ReasonLeft, "")
	return map[string]string{
		"sticky_seat":          sticky(rider(bot.SeatConfirmed, true, "")),
		"sticky_seat_pending":  sticky(rider(bot.SeatConfirmed, false, missing)),
		"sticky_line":          sticky(rider(bot.SeatWaiting, true, "")),
		"sticky_line_pending":  sticky(rider(bot.SeatWaiting, false, missing)),
		"sticky_left":          sticky(ended),
		"reply_joined":         Joined(*confirmed, trainQueue(), ""),
		"reply_joined_pending": Joined(*confirmed, trainQueue(), missing),
		"reply_joined_line":    Joined(*waiting, trainQueue(), missing),
		"reply_seated":         Seated(*confirmed, trainQueue()),
		"reply_seated_line":    Seated(*waiting, trainQueue()),
		"reply_elsewhere":      SeatedElsewhere(*waiting, trainQueue()),
		"reply_rides":          RidesAlready(riding, links),
		"reply_boarding_over":  BoardingOver(nightly(), trainQueue()),
		"reply_no_train":       NoTrain("main"),
		"reply_which_train":    WhichTrain("", []bot.Train{nightly(), noon}, trainQueue()),
		"reply_unknown_train":  WhichTrain("hourly", []bot.Train{nightly(), noon}, trainQueue()),
		"reply_no_trains":      NoTrains(),
		"reply_other_train":    OtherTrain(nightly(), trainQueue(), "next"),
		"reply_leave_nothing":  NotSeated(&ended, links),
		"reply_leave_never":    NotSeated(nil, links),
		"reply_apply_seated":   AlreadyActive(rider(bot.SeatWaiting, true, ""), links),

		"notice_promoted":          Notice(seatEntry(pending, bot.ReasonPromoted, "", confirmed), links),
		"notice_promoted_pending":  Notice(seatEntry(pending, bot.ReasonPromoted, "", seatOf(bot.SeatConfirmed, false)), links),
		"notice_promoted_and_gone": Notice(seatEntry(pending, bot.ReasonPromoted, "", lost), links),
		"notice_carried_over":      Notice(seatEntry(pending, bot.ReasonCarriedOver, "it was not approved", seatOf(bot.SeatConfirmed, false)), links),
		"notice_carried_to_line":   Notice(seatEntry(pending, bot.ReasonCarriedOver, "", waiting), links),
		"notice_train_over":        Notice(seatEntry(cancelled, bot.ReasonTrainOver, "", lost), links),
		"notice_seat_pushed":       Notice(seatEntry(cancelled, bot.ReasonHeadMoved, "", lost), links),
		"notice_seat_joined_again": Notice(seatEntry(cancelled, bot.ReasonHeadMoved, "", nil), links),
		"notice_seat_unapproved":   Notice(seatEntry(cancelled, bot.ReasonUnapproved, missing, lost), links),
		"notice_seat_drafted":      Notice(seatEntry(cancelled, bot.ReasonDrafted, "", lost), links),
		"notice_seat_closed":       Notice(seatEntry(bot.OperationClosed, bot.ReasonClosed, "", lost), links),
		"notice_seat_retargeted":   Notice(seatEntry(cancelled, bot.ReasonRetargeted, "the target is now next", lost), links),
	}
}

func TestNothingIsSaidOfASeatThatAsksNothingOfAnybody(t *testing.T) {
	t.Parallel()
	for _, r := range []bot.Reason{bot.ReasonJoined, bot.ReasonApproved, bot.ReasonDeparted, bot.ReasonLeft} {
		if text := Notice(seatEntry(bot.OperationPendingApproval, r, "", seatOf(bot.SeatConfirmed, true)), links); text != "" {
			t.Errorf("%s: notice %q", r, text)
		}
	}
}

// Who departed and comes back from a batch lost a batch, not a seat.
func TestASeatThatDepartedIsNotLostLater(t *testing.T) {
	t.Parallel()
	e := seatEntry(bot.OperationClosed, bot.ReasonClosed, "", seatOf(bot.SeatDeparted, true))
	if text := Notice(e, links); strings.Contains(text, "nightly") || !strings.Contains(text, "`/batch`") {
		t.Errorf("notice %q", text)
	}
}

func TestCommitStatusOfASeatShowsNoPosition(t *testing.T) {
	t.Parallel()
	for status, want := range map[bot.SeatStatus]string{bot.SeatConfirmed: "A seat on train nightly", bot.SeatWaiting: "In line for train nightly"} {
		if got := CommitStatus(rider(status, true, ""), links); got.State != bot.CheckPending || got.Description != want {
			t.Errorf("%s: %v %q", status, got.State, got.Description)
		}
	}
}

func TestHostileTextsAboutTrainsAreHarmless(t *testing.T) {
	t.Parallel()
	everywhere := func(evil string) map[string]string {
		v := rider(bot.SeatWaiting, false, evil)
		v.Operation.Title, v.Operation.Target, v.Operation.Requester, v.Queue.Target = evil, evil, evil, evil
		v.Seat.Train.Name = evil
		lost := seatOf(bot.SeatCancelled, false)
		lost.Train.Name = evil
		unapproved, carried := seatEntry(bot.OperationCancelled, bot.ReasonUnapproved, evil, lost), seatEntry(bot.OperationPendingApproval, bot.ReasonCarriedOver, evil, v.Seat)
		unapproved.Operation.Target = evil
		return map[string]string{
			"sticky": sticky(v), "joined": Joined(*v.Seat, v.Queue, evil), "elsewhere": SeatedElsewhere(*v.Seat, v.Queue), "over": BoardingOver(v.Seat.Train, v.Queue),
			"no train": NoTrain(evil), "other train": OtherTrain(v.Seat.Train, v.Queue, evil), "which": WhichTrain(evil+"x", []bot.Train{v.Seat.Train}, v.Queue), "lost": Notice(unapproved, links), "carried": Notice(carried, links),
			"status": CommitStatus(v, links).Description,
		}
	}
	ordinary := everywhere("x")
	for _, evil := range hostile {
		for where, text := range everywhere(evil) {
			harmless(t, where, evil, text, strings.Count(ordinary[where], "\n"))
		}
	}
}
