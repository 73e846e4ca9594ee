package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func seatOf(train string, mr int) string { return fmt.Sprintf("%s/seats/%d", train, mr) }

// A train with one seat: A has it, B and C wait; A leaves and B moves up; A joins again behind C.
func TestSeats(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mr := w.opens(4)
	a, b, c := mr[0], mr[1], mr[2]
	train := w.opensTrain("friday", 1)
	take := func(mr int, status int, seat string, position int) {
		t.Helper()
		r := w.wants(status, "", call{release, "POST", seatOf(train, mr), "", nil})
		if r.text("status") != seat || r.text("position") != fmt.Sprint(position) || r.text("mr") != fmt.Sprint(mr) {
			t.Errorf("merge request %d has %s, want %s at %d", mr, r.body, seat, position)
		}
	}
	leave := func(mr int, answer string) {
		t.Helper()
		if r := w.wants(200, "", call{release, "DELETE", seatOf(train, mr), "", nil}); r.body != answer+"\n" {
			t.Errorf("leaving is answered %s, want %s", r.body, answer)
		}
	}
	take(a, 201, "CONFIRMED", 0)
	take(b, 201, "WAITING", 1)
	take(c, 201, "WAITING", 2)
	take(b, 200, "WAITING", 1) // it holds it already
	leave(a, fmt.Sprintf(`{"promoted":true,"mr":%d}`, b))
	take(a, 201, "WAITING", 2)
	leave(a, `{"promoted":false}`)
	leave(a, `{"promoted":false}`) // it is given up already
	w.wants(404, "no-seat", call{release, "DELETE", seatOf(train, mr[3]), "", nil})

	view := w.get(train)
	if view.text("confirmed") != "1" || view.text("waiting") != "1" || view.text("boarding") != "true" {
		t.Errorf("the train is %s", view.body)
	}
	operation := view.field("seat_list").([]any)[0].(map[string]any)["operation"].(string)
	op := w.get("/api/v1/operations/" + operation)
	if op.text("status") != "PENDING_APPROVAL" || op.text("requester") != "api:release" || op.text("seat.status") != "CONFIRMED" {
		t.Errorf("the operation is %s", op.body)
	}
	if log := w.log.String(); !strings.Contains(log, "by=api:release method=POST path="+seatOf(train, a)+" status=201") {
		t.Errorf("the log does not say who joined:\n%s", log)
	}

	// What cannot have a seat.
	w.must(w.fake.CloseMR(repoPath, mr[3], "ada"))
	w.wants(409, "seat-refused", call{release, "POST", seatOf(train, mr[3]), "", nil})
	if r := w.wants(404, "not-found", call{release, "POST", seatOf(train, 99), "", nil}); !strings.Contains(r.text("detail"), "no merge request 99 in acme/app") {
		t.Errorf("a merge request that does not exist is told %s", r.body)
	}
	w.wants(409, "seat-refused", call{release, "POST", seatOf(w.opensTrain("monday", 1), b), "", nil})
}

func TestTrainsAreMadeAndChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mr := w.opens(3)
	train := w.opensTrain("friday", 1)
	for _, n := range mr {
		w.wants(201, "", call{release, "POST", seatOf(train, n), "", nil})
	}
	patch := func(status int, problem, body string) reply {
		t.Helper()
		return w.wants(status, problem, call{operator, "PATCH", train, body, nil})
	}
	if r := patch(200, "", `{"seats": 3}`); r.text("confirmed") != "3" || r.text("waiting") != "0" {
		t.Errorf("more seats promote nobody: %s", r.body)
	}
	if r := patch(200, "", `{"seats": 1}`); r.text("confirmed") != "3" || r.text("capacity") != "3" || r.text("seats") != "1" {
		t.Errorf("fewer seats take somebody's: %s", r.body)
	}
	now, err := w.store.Clock(t.Context())
	w.must(err)
	later := now.Add(3 * time.Hour).Truncate(time.Second)
	zone := time.FixedZone("", 2*60*60)
	closes := later.Add(-10 * time.Minute).Format(time.RFC3339)
	if r := patch(200, "", fmt.Sprintf(`{"departs_at": %q, "boarding_closes_at": %q}`, later.In(zone).Format(time.RFC3339), closes)); r.text("departs_at") != later.Format(time.RFC3339) || r.text("boarding_closes_at") != closes {
		t.Errorf("it departs at %s, want %s; boarding ends at %s, want %s", r.text("departs_at"), later.Format(time.RFC3339), r.text("boarding_closes_at"), closes)
	}
	later = later.Add(time.Hour)
	closes = later.Add(-10 * time.Minute).Format(time.RFC3339)
	if r := patch(200, "", fmt.Sprintf(`{"departs_at": %q}`, later.Format(time.RFC3339))); r.text("departs_at") != later.Format(time.RFC3339) || r.text("boarding_closes_at") != closes {
		t.Errorf("a new departure leaves the end of boarding behind: %s", r.body)
	}
	for _, body := range []string{
		`{}`, `{"seats": -1}`, `{"seats": 1001}`, `{"seats": 1.5}`, `{"seats": null}`, `{"name": "other"}`, `{"departs_at": "tomorrow"}`, `{"departs_at": "2020-01-01T00:00:00Z"}`,
		`{"departs_at": "2030-02-30T00:00:00Z"}`, `{"departs_at": null}`, `{"departs_at": 1893456000}`, `{"departs_at": "0000-01-01T00:00:00Z"}`,
		fmt.Sprintf(`{"boarding_closes_at": %q}`, later.Add(time.Minute).Format(time.RFC3339)),
	} {
		patch(422, "invalid", body)
	}

	create := func(status int, problem, body string) reply {
		t.Helper()
		return w.wants(status, problem, call{operator, "POST", "/api/v1/trains", body, nil})
	}
	spec := fmt.Sprintf(`{"queue": %d, "name": "friday", "seats": 2, "departs_at": %q}`, w.queue.ID, later.Format(time.RFC3339))
	create(409, "train-exists", spec)
	for _, body := range []string{
		`{}`, strings.Replace(spec, "friday", "fri day", 1), strings.Replace(spec, "friday", "", 1), strings.Replace(spec, "friday", strings.Repeat("x", 65), 1),
		strings.Replace(spec, `"seats": 2`, `"seats": 2000`, 1), strings.Replace(spec, `"departs_at"`, `"boarding_closes_at"`, 1),
		strings.Replace(spec, fmt.Sprint(w.queue.ID, ","), "999,", 1), strings.Replace(spec, later.Format(time.RFC3339), "2020-01-01T00:00:00Z", 1),
	} {
		create(422, "invalid", body)
	}
	other := create(201, "", strings.Replace(spec, "friday", "monday", 1))
	if got := other.header.Get("Location"); got != fmt.Sprintf("/api/v1/trains/%d", other.id()) || w.get(got).text("name") != "monday" {
		t.Errorf("the train is said to be at %s: %s", got, other.body)
	}
	if r := w.wants(200, "", call{operator, "DELETE", other.header.Get("Location"), "", nil}); r.text("status") != "CANCELLED" {
		t.Errorf("a cancelled train is %s", r.body)
	}
	w.wants(409, "train-over", call{operator, "DELETE", other.header.Get("Location"), "", nil})
	w.wants(409, "train-over", call{operator, "PATCH", other.header.Get("Location"), `{"seats": 3}`, nil})
	w.wants(409, "boarding-over", call{release, "POST", seatOf(other.header.Get("Location"), w.opens(1)[0]), "", nil})

	names := func(query string) (list []string) {
		for _, item := range w.get("/api/v1/trains" + query).field("items").([]any) {
			list = append(list, item.(map[string]any)["name"].(string))
		}
		return list
	}
	for query, want := range map[string][]string{
		"": {"monday", "friday"}, "?open=true": {"friday"}, "?limit=1": {"monday"}, fmt.Sprintf("?queue=%d&open=false", w.queue.ID): {"monday", "friday"}, "?queue=99": nil,
	} {
		if got := names(query); !slices.Equal(got, want) {
			t.Errorf("trains%s are %q, want %q", query, got, want)
		}
	}
}
