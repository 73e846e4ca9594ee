package api_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// departs lets a train go, as if its time had come, with these operations approved. Whoever else holds a seat is on the next one, whose path is returned.
func (w *world) departs(train string, approved ...string) (next string) {
	w.Helper()
	var d bot.Departure
	_, err := fmt.Sscanf(train, "/api/v1/trains/%d", &d.TrainID)
	w.must(err)
	db, err := sql.Open("sqlite", "file:"+w.path+"?_pragma=busy_timeout(30000)")
	w.must(err)
	defer db.Close()
	_, err = db.ExecContext(w.Context(), `UPDATE train SET closes_at = 1, departs_at = 1 WHERE id = ?`, d.TrainID)
	w.must(err)
	now, err := w.store.Clock(w.Context())
	w.must(err)
	d.Next = &bot.NextTrain{DepartsAt: now.Add(time.Hour), ClosesAt: now.Add(time.Hour), Seats: 1}
	for _, id := range approved {
		view, err := w.store.OperationView(w.Context(), id)
		w.must(err)
		d.Approved = append(d.Approved, bot.SeatApproval{OperationID: id, Version: view.Operation.Version})
	}
	result, err := w.store.Depart(w.Context(), d)
	w.must(err)
	if !result.Done || len(result.Admitted) != len(approved) {
		w.Fatalf("the departure did %+v", result)
	}
	return fmt.Sprintf("/api/v1/trains/%d", result.Next.ID)
}

// A client whose answer was lost asks again, perhaps behind the departure: it is told of the seat it took, wherever that went.
func TestASeatIsReplayedWhereverItWent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mr := w.opens(2)
	train := w.opensTrain("friday", 1)
	first, second := call{release, "POST", seatOf(train, mr[0]), "", key("first")}, call{release, "POST", seatOf(train, mr[1]), "", key("second")}
	operation := w.wants(201, "", first).text("operation")
	w.wants(201, "", second)
	again := func(c call, seat, train string) {
		t.Helper()
		r := w.wants(201, "", c)
		if r.header.Get("Idempotent-Replayed") != "true" || r.text("status") != seat || "/api/v1/trains/"+r.text("train") != train {
			t.Errorf("sent again, the seat is %s; want it %s on %s", r.body, seat, train)
		}
	}
	again(second, "WAITING", train)
	next := w.departs(train, operation)
	again(first, "DEPARTED", train)
	again(second, "CONFIRMED", next)

	if r := w.wants(404, "no-seat", call{release, "DELETE", seatOf(train, mr[1]), "", nil}); !strings.Contains(r.text("detail"), next) {
		t.Errorf("who rides on %s is told %s", next, r.body)
	}
	w.wants(404, "no-seat", call{release, "DELETE", seatOf(train, mr[0]), "", nil})
	w.wants(200, "", call{release, "DELETE", seatOf(next, mr[1]), "", nil})
	again(second, "CANCELLED", next)
	if r := w.wants(200, "", call{release, "DELETE", seatOf(next, mr[1]), "", nil}); r.body != `{"promoted":false}`+"\n" {
		t.Errorf("given up twice, it is answered %s", r.body)
	}

	// The row is that of another operation once it joins again: then that is what became of the first request's place.
	w.wants(200, "", call{release, "DELETE", seatOf(next, w.joins(next, mr[1])), "", nil})
	w.wants(404, "no-seat", second)
}

// joins seats a merge request, which it returns.
func (w *world) joins(train string, mr int) int {
	w.Helper()
	w.wants(201, "", call{release, "POST", seatOf(train, mr), "", nil})
	return mr
}
