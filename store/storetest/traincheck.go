package storetest

import (
	"cmp"
	"slices"

	"github.com/batchbot/batchbot/bot"
)

type (
	trainRow struct {
		id, nextSeq                int64
		status                     bot.TrainStatus
		confirmed, capacity, seats int
	}
	seatRow struct {
		trainID, seq int64
		operationID  string
		status       bot.SeatStatus
	}
)

// checkTrains names what does not hold of trains: the counter is the number of CONFIRMED rows, and no more than what is in force; nobody waits while
// a seat is free; the line is behind the seats; an operation has one live seat at most, and is PENDING_APPROVAL as long as it has; who departed was
// admitted.
func (p *picture) checkTrains(operations map[string]operationRow, report func(format string, args ...any)) {
	slices.SortFunc(p.seats, func(a, b seatRow) int { return cmp.Or(cmp.Compare(a.trainID, b.trainID), cmp.Compare(a.seq, b.seq)) })
	admitted := make(map[string]bool)
	for _, h := range p.history {
		if h.to == bot.OperationWaiting {
			admitted[h.operationID] = true
		}
	}
	type line struct {
		confirmed, waiting int
		last               int64
	}
	lines, live := make(map[int64]line), make(map[string]int64)
	for _, s := range p.seats {
		l := lines[s.trainID]
		if s.seq == l.last {
			report("unique keys: two seats of train %d have place %d", s.trainID, s.seq)
		}
		l.last = s.seq
		switch s.status {
		case bot.SeatConfirmed:
			l.confirmed++
			if l.waiting > 0 {
				report("trains: on train %d operation %s has a seat and joined behind one who waits", s.trainID, s.operationID)
			}
		case bot.SeatWaiting:
			l.waiting++
		case bot.SeatDeparted:
			if !admitted[s.operationID] {
				report("trains: operation %s departed with train %d and was not admitted", s.operationID, s.trainID)
			}
		}
		lines[s.trainID] = l
		if !s.status.Live() {
			continue
		}
		if other, seated := live[s.operationID]; seated {
			report("trains: operation %s has live seats of trains %d and %d", s.operationID, other, s.trainID)
		}
		live[s.operationID] = s.trainID
		if op := operations[s.operationID]; op.status != bot.OperationPendingApproval {
			report("trains: operation %s has a live seat of train %d and is %s", s.operationID, s.trainID, op.status)
		}
	}
	for _, t := range p.trains {
		l := lines[t.id]
		switch {
		case t.confirmed != l.confirmed:
			report("trains: train %d counts %d confirmed seats and has %d", t.id, t.confirmed, l.confirmed)
		case t.confirmed > t.capacity || t.capacity != max(t.seats, t.confirmed):
			report("trains: train %d has %d of %d seats confirmed and %d in force", t.id, t.confirmed, t.seats, t.capacity)
		case l.waiting > 0 && l.confirmed < t.seats:
			report("trains: %d wait for train %d, which has %d of %d seats confirmed", l.waiting, t.id, l.confirmed, t.seats)
		case t.status != bot.TrainOpen && l.confirmed+l.waiting > 0:
			report("trains: train %d is %s and has live seats", t.id, t.status)
		}
		if l.last >= t.nextSeq {
			report("trains: train %d gives place %d next and has given %d", t.id, t.nextSeq, l.last)
		}
	}
}
