package bot

import "time"

// TrainStatus is the state of one scheduled departure.
type TrainStatus int

// The states of a train. The zero value is invalid.
const (
	TrainOpen      TrainStatus = iota + 1 // boarding, or waiting to depart
	TrainDeparted                         // its confirmed and approved seats entered the waiting set
	TrainCancelled                        // ended without a departure: nobody was admitted
)

// String returns the name stored in the column comment.
func (s TrainStatus) String() string { return nameOf(int(s), "OPEN", "DEPARTED", "CANCELLED") }

// Train is a departure of a queue with limited seats: a row of train. Times and what follows from them are the database's clock.
type Train struct {
	ID        int64
	QueueID   int64
	Name      string // at most one train of a queue and name is OPEN
	Status    TrainStatus
	Scheduled bool // follows the schedule in the repository file; else made by an operator
	DepartsAt time.Time
	ClosesAt  time.Time // end of boarding, at or before DepartsAt
	Seats     int       // as wanted, 0 to MaxSeats
	Capacity  int       // in force: Seats, or more while more are confirmed. Nobody is promoted beyond Seats
	Confirmed int       // seats that are CONFIRMED, never more than Capacity
	Waiting   int       // seats that are WAITING
	Version   int64
	Closed    bool // boarding is over
	Due       bool // OPEN, and its departure has come
}

// Limits of a train.
const (
	MaxSeats     = 1000
	MaxTrainName = 64 // bytes
)

// IsTrainName reports whether a train may have this name: 1 to MaxTrainName letters, digits and ". _ -", the first a letter or digit, so that it can be
// typed behind a command and stand in an address.
func IsTrainName(name string) bool {
	for i, r := range name {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		case i > 0 && (r == '.' || r == '_' || r == '-'):
		default:
			return false
		}
	}
	return name != "" && len(name) <= MaxTrainName
}

// SeatStatus is the state of one merge request on one train.
type SeatStatus int

// The states of a seat. The zero value is invalid.
const (
	SeatConfirmed SeatStatus = iota + 1
	SeatWaiting              // in line; promoted in the order of joining
	SeatCancelled            // left or lost
	SeatDeparted             // entered the waiting set
)

// String returns the name stored in the column comment.
func (s SeatStatus) String() string {
	return nameOf(int(s), "CONFIRMED", "WAITING", "CANCELLED", "DEPARTED")
}

// Live reports whether it holds a seat or a place in line.
func (s SeatStatus) Live() bool { return s == SeatConfirmed || s == SeatWaiting }

// Seat is one merge request on one train: a row of train_seat, reused when it joins again, and moved to the next train when it is carried over. Its
// operation is PENDING_APPROVAL as long as the seat is live, and has no request: the waiting set does not know of trains.
type Seat struct {
	TrainID        int64
	MergeRequestID int64
	Number         int
	OperationID    string
	Status         SeatStatus
	Approved       bool  // when last looked at; a seat that was approved is lost when that ends
	Seq            int64 // order of joining; kept when it is carried over
	Position       int   // WAITING: place in line, 1 is promoted next; else 0
	Version        int64
}

// TrainView is a train with everything a reader wants to know.
type TrainView struct {
	Train      Train
	Queue      Queue
	Repository Repository
	Seats      []Seat // all of them in the order of Seq, those that are not live included; who was carried over is on the next train
}

// TrainFilter narrows a list of trains.
type TrainFilter struct {
	QueueID int64 // 0 = of all queues
	Open    bool  // OPEN only
	Limit   int   // at most so many, newest first; 1 or more
}

// TrainOverview is one line of a list of trains.
type TrainOverview struct {
	Train      Train
	Queue      Queue
	Repository Repository
}

// SeatView is a live seat with its train, as an OperationView shows it.
type SeatView struct {
	Seat  Seat
	Train Train
}

// TrainSpec asks for a train to be open.
type TrainSpec struct {
	QueueID   int64
	Name      string
	Scheduled bool
	DepartsAt time.Time
	ClosesAt  time.Time
	Seats     int
	By        string      // login, "api:NAME", or "batchbot"
	Source    string      // for the audit
	Request   *APIRequest // an operator's request through the API
}

// TrainOutcome is what became of a write to a train.
type TrainOutcome int

// The outcomes. The zero value is invalid.
const (
	TrainWritten   TrainOutcome = iota + 1
	TrainThere                  // one of this queue and name is open already, or follows a person's word and not the file any more: it stays as it is
	TrainOver                   // it is not OPEN any more
	TrainDuplicate              // this API request was handled before: the train is returned as it is now
)

// TrainResult is the outcome with the train as it is now.
type TrainResult struct {
	Outcome  TrainOutcome
	Train    Train
	Promoted []Seat // by more seats, in order; told by the outbox
}

// TrainChange changes an OPEN train. More seats promote in the order of joining, in the same transaction; fewer take nobody's seat away: then
// those that are given up are not filled again until Seats is reached.
type TrainChange struct {
	TrainID   int64
	Seats     *int // nil keeps
	DepartsAt time.Time
	ClosesAt  time.Time // both zero: keep
	FromFile  bool      // what the repository file says now; else it is a person's word, and the train does not follow the schedule any more
	Cancel    bool      // the train ends: every live seat is given up and its operation is CANCELLED
	By        string
	Source    string
	Request   *APIRequest
}

// Boarding asks for a seat. Application applies the merge request (its Admit says that it is approved now; there is no request before the
// departure all the same). A merge request with a PENDING_APPROVAL operation keeps that one.
type Boarding struct {
	TrainID     int64
	Application Application
	Request     *APIRequest // where it came through the API: Application.Command has then By and Source, and no RequestID
}

// BoardingOutcome is what became of a Boarding.
type BoardingOutcome int

// The outcomes. The zero value is invalid.
const (
	BoardingDone       BoardingOutcome = iota + 1 // a seat or a place in line: Seat says which
	BoardingHeld                                  // it holds a live seat on this train already: nothing changed
	BoardingElsewhere                             // it holds a live seat on another train: Seat is that one
	BoardingRides                                 // it waits for the next batch or rides in one: Operation is that application
	BoardingNeedsRetry                            // it failed and awaits /batch retry
	BoardingLanded                                // merged at this very head
	BoardingClosed                                // boarding is over, or the train is not OPEN
	BoardingDuplicate                             // this command or API request was handled before: Operation and Seat are as they stand
	BoardingSuperseded                            // a later command was handled before this one
	BoardingRetryLater                            // somebody applied at the same moment and is not visible yet
	BoardingNotFound                              // the host knows no such merge request: the store was not asked
)

// BoardingResult is the outcome with what stands now.
type BoardingResult struct {
	Outcome   BoardingOutcome
	Train     Train
	Operation Operation
	Seat      Seat
}

// Leaving gives a live seat up: its operation ends as CANCELLED.
type Leaving struct {
	OperationID string
	Version     int64 // of the operation
	By          string
	Source      string
	Command     *CommandRef // set when a command asked for it
}

// LeavingResult is what became of a Leaving. Promoted is meaningful for MoveDone only.
type LeavingResult struct {
	Result   MoveResult
	Promoted *Seat // who moved up in the same transaction; nil: nobody
}

// Departure lets a due train go, guarded by it being OPEN. Approved are the operations whose approval was read from the host just now; of
// those that still stand at this version with a live seat, or have only moved up or been approved since, the confirmed ones and then, while fewer than Seats go, the waiting ones in order enter the
// waiting set. Whoever holds another live seat is seated on the next train first, in order; without a next train their operations
// are CANCELLED.
type Departure struct {
	TrainID  int64
	Approved []SeatApproval
	Next     *NextTrain // nil: none
}

// SeatApproval pins what was approved when it was looked at.
type SeatApproval struct {
	OperationID string
	Version     int64
}

// NextTrain is the departure after this one, of the same queue and name.
type NextTrain struct {
	DepartsAt time.Time
	ClosesAt  time.Time
	Seats     int
}

// DepartureResult says what a departure did.
type DepartureResult struct {
	Done     bool        // false: it was not OPEN any more, or not due: somebody else did it
	Admitted []Operation // in the order of their requests
	Carried  []Seat      // on the next train, in order
	Next     Train       // zero: none
}
