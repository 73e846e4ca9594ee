package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/batchbot/batchbot/bot"
)

type train struct {
	ID               int64  `json:"id"`
	Queue            int64  `json:"queue"`
	QueueName        string `json:"queue_name"`
	Name             string `json:"name"`
	Status           string `json:"status"`
	Scheduled        bool   `json:"scheduled"`
	DepartsAt        string `json:"departs_at"`
	BoardingClosesAt string `json:"boarding_closes_at"`
	Seats            int    `json:"seats"`
	Capacity         int    `json:"capacity"`
	Confirmed        int    `json:"confirmed"`
	Waiting          int    `json:"waiting"`
	Boarding         bool   `json:"boarding"`
	Version          int64  `json:"version"`
	SeatList         []seat `json:"seat_list,omitempty"` // in the order of joining
}

func trainOf(t bot.Train, queueName string) train {
	return train{
		ID: t.ID, Queue: t.QueueID, QueueName: queueName, Name: t.Name, Status: t.Status.String(), Scheduled: t.Scheduled, DepartsAt: when(t.DepartsAt),
		BoardingClosesAt: when(t.ClosesAt), Seats: t.Seats, Capacity: t.Capacity, Confirmed: t.Confirmed, Waiting: t.Waiting,
		Boarding: t.Status == bot.TrainOpen && !t.Closed, Version: t.Version,
	}
}

type seat struct {
	Train     int64  `json:"train"`
	MR        int    `json:"mr"`
	Operation string `json:"operation"`
	Status    string `json:"status"`
	Position  int    `json:"position"` // in line; 0 unless WAITING
	Approved  bool   `json:"approved"`
}

func seatOf(s bot.Seat) seat {
	return seat{Train: s.TrainID, MR: s.Number, Operation: s.OperationID, Status: s.Status.String(), Position: s.Position, Approved: s.Approved}
}

// promotion answers whoever gives a seat up.
type promotion struct {
	Promoted bool `json:"promoted"`
	MR       int  `json:"mr,omitempty"` // who moved up
}

func trainPath(id int64) string { return fmt.Sprintf("/api/v1/trains/%d", id) }

func (a *API) listTrains(ctx context.Context, q *request) (answer, error) {
	filter, p := queryOf(q, "open")
	if p != nil {
		return answer{}, p
	}
	trains, err := a.Store.Trains(ctx, bot.TrainFilter{QueueID: filter.queue, Open: filter.flag, Limit: filter.limit})
	return listed(trains, filter.limit, func(v bot.TrainOverview) train { return trainOf(v.Train, nameOf(v.Queue, v.Repository)) }), err
}

func (a *API) readTrain(ctx context.Context, q *request) (answer, error) {
	id, p := idOf(q, "id", "a train")
	if p != nil {
		return answer{}, p
	}
	return a.showTrain(ctx, id, http.StatusOK)
}

func (a *API) showTrain(ctx context.Context, id int64, status int) (answer, error) {
	view, err := a.Store.ReadTrain(ctx, id)
	if err != nil {
		return answer{}, err
	}
	t := trainOf(view.Train, nameOf(view.Queue, view.Repository))
	t.SeatList = make([]seat, 0, len(view.Seats))
	for _, s := range view.Seats {
		t.SeatList = append(t.SeatList, seatOf(s))
	}
	ans := answer{status: status, value: t}
	if status == http.StatusCreated {
		ans.location = trainPath(id)
	}
	return ans, nil
}

func (a *API) createTrain(ctx context.Context, q *request) (answer, error) {
	spec := bot.TrainSpec{By: q.actor()}
	o, p := parse(q.body, "queue", "name", "seats", "departs_at", "boarding_closes_at")
	if p == nil {
		spec.QueueID, p = o.integer("queue", 1, 1<<53)
	}
	if p == nil {
		spec.Name, p = o.text("name", 1, bot.MaxTrainName)
	}
	if p == nil {
		var seats int64
		seats, p = o.integer("seats", 0, bot.MaxSeats)
		spec.Seats = int(seats)
	}
	if p == nil && !o.has("departs_at") {
		p = refuse("departs_at", "is missing")
	}
	if p == nil {
		spec.DepartsAt, p = o.moment("departs_at")
	}
	if p == nil {
		spec.ClosesAt, p = o.moment("boarding_closes_at")
	}
	if p != nil {
		return answer{}, p
	}
	if _, _, err := a.Store.ReadQueue(ctx, spec.QueueID); err != nil {
		if a.IsMissing(err) {
			return answer{}, refuse("queue", fmt.Sprintf("is %d, and there is no such queue: GET /api/v1/queues lists them", spec.QueueID))
		}
		return answer{}, err
	}
	return a.once(ctx, q, "", func(name *bot.APIRequest, given bool) (answer, error) {
		spec.Request, spec.Source = remembered(name, given), name.ID
		result, refusal, err := a.Trains.Create(ctx, spec)
		switch {
		case err != nil:
			return answer{}, err
		case result.Outcome == bot.TrainDuplicate:
			return answer{}, errDuplicate
		case result.Outcome == bot.TrainThere:
			return answer{}, trainExists.because(refusal)
		case refusal != "":
			return answer{}, invalid.because(refusal)
		}
		return a.showTrain(ctx, result.Train.ID, http.StatusCreated)
	}, func(handled bot.HandledRequest) (answer, error) {
		var id int64
		if _, err := fmt.Sscanf(handled.Resource, "/api/v1/trains/%d", &id); err != nil {
			return answer{}, fmt.Errorf("the request made %q, which is no train", handled.Resource)
		}
		return a.showTrain(ctx, id, http.StatusCreated)
	})
}

func (a *API) changeTrain(ctx context.Context, q *request) (answer, error) {
	id, p := idOf(q, "id", "a train")
	if p != nil {
		return answer{}, p
	}
	change := bot.TrainChange{TrainID: id}
	o, p := parse(q.body, "seats", "departs_at", "boarding_closes_at")
	if p == nil && o.has("seats") {
		var n int64
		n, p = o.integer("seats", 0, bot.MaxSeats)
		seats := int(n)
		change.Seats = &seats
	}
	if p == nil {
		change.DepartsAt, p = o.moment("departs_at")
	}
	if p == nil {
		change.ClosesAt, p = o.moment("boarding_closes_at")
	}
	if p != nil {
		return answer{}, p
	}
	return a.applyChange(ctx, q, change)
}

func (a *API) cancelTrain(ctx context.Context, q *request) (answer, error) {
	id, p := idOf(q, "id", "a train")
	if p == nil {
		_, p = parse(q.body)
	}
	if p != nil {
		return answer{}, p
	}
	return a.applyChange(ctx, q, bot.TrainChange{TrainID: id, Cancel: true})
}

func (a *API) applyChange(ctx context.Context, q *request, change bot.TrainChange) (answer, error) {
	name, given, p := a.apiRequest(q, trainPath(change.TrainID))
	if p != nil {
		return answer{}, p
	}
	change.By, change.Source, change.Request = q.actor(), name.ID, remembered(name, given)
	result, refusal, err := a.Trains.Change(ctx, change)
	switch {
	case err != nil:
		return answer{}, err
	case result.Outcome == bot.TrainOver:
		return answer{}, trainOver.because(refusal)
	case refusal != "":
		return answer{}, invalid.because(refusal)
	}
	return a.showTrain(ctx, change.TrainID, http.StatusOK)
}

// seatPath reads which merge request wants what of which train.
func (a *API) seatPath(ctx context.Context, q *request) (view bot.TrainView, mr int, err error) {
	id, p := idOf(q, "id", "a train")
	if p != nil {
		return view, 0, p
	}
	number, p := idOf(q, "mr", "a merge request")
	if p == nil && number > mostNumber {
		p = notFound.because("there is no merge request of this number")
	}
	if p == nil {
		_, p = parse(q.body)
	}
	if p != nil {
		return view, 0, p
	}
	view, err = a.Store.ReadTrain(ctx, id)
	return view, int(number), err
}

func (a *API) takeSeat(ctx context.Context, q *request) (answer, error) {
	view, mr, err := a.seatPath(ctx, q)
	if err != nil {
		return answer{}, err
	}
	id := view.Train.ID
	path := fmt.Sprintf("%s/seats/%d", trainPath(id), mr)
	return a.once(ctx, q, path, func(name *bot.APIRequest, _ bool) (answer, error) {
		result, refusal, err := a.Seats.Join(ctx, view.Repository, mr, id, q.actor(), name)
		switch {
		case err != nil:
			return answer{}, err
		case result.Outcome == bot.BoardingDuplicate:
			return answer{}, errDuplicate
		case result.Outcome == bot.BoardingNotFound:
			return answer{}, notFound.because(refusal)
		case result.Outcome == bot.BoardingClosed:
			return answer{}, boardingOver.because(refusal)
		case refusal != "":
			return answer{}, seatRefused.because(refusal)
		case result.Outcome == bot.BoardingHeld:
			return a.showSeat(ctx, id, mr, result.Operation.ID, http.StatusOK)
		}
		return a.showSeat(ctx, id, mr, result.Operation.ID, http.StatusCreated)
	}, func(handled bot.HandledRequest) (answer, error) {
		return a.showSeat(ctx, id, mr, handled.OperationID, http.StatusCreated)
	})
}

// showSeat shows the seat that an operation has or had, as it is now: on another train, where that is the one it was carried over to. An operation whose
// seat is another's by now shows that of its merge request on the train.
func (a *API) showSeat(ctx context.Context, trainID int64, mr int, operationID string, status int) (answer, error) {
	if operationID != "" {
		seat, ok, err := a.Store.LastSeat(ctx, operationID)
		if err != nil || ok {
			return answer{status: status, value: seatOf(seat)}, err
		}
	}
	view, err := a.Store.ReadTrain(ctx, trainID)
	if err != nil {
		return answer{}, err
	}
	for _, s := range view.Seats {
		if s.Number == mr {
			return answer{status: status, value: seatOf(s)}, nil
		}
	}
	return answer{}, noSeat.because("the seat was given up, and the merge request has taken another on a later train: GET /api/v1/trains lists them")
}

func (a *API) giveUpSeat(ctx context.Context, q *request) (answer, error) {
	view, mr, err := a.seatPath(ctx, q)
	if err != nil {
		return answer{}, err
	}
	name, _, p := a.apiRequest(q, trainPath(view.Train.ID))
	if p != nil {
		return answer{}, p
	}
	result, refusal, err := a.Seats.Leave(ctx, view.Repository, mr, view.Train.ID, q.actor(), name)
	if err != nil {
		return answer{}, err
	}
	if refusal != "" {
		// Given up before, say by this very request whose answer was lost: it is as it should be.
		view, err := a.Store.ReadTrain(ctx, view.Train.ID)
		if err != nil {
			return answer{}, err
		}
		if slices.ContainsFunc(view.Seats, func(s bot.Seat) bool { return s.Number == mr && s.Status == bot.SeatCancelled }) {
			return shows(promotion{}), nil
		}
		return answer{}, noSeat.because(refusal)
	}
	var moved promotion
	if result.Promoted != nil {
		moved = promotion{Promoted: true, MR: result.Promoted.Number}
	}
	return shows(moved), nil
}
