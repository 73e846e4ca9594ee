package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/fakehost"
)

const (
	demoTrain      = "friday"
	demoTrainSeats = 2
)

// demoTrainFile is the train in .batchbot.yml. Its departure is brought forward by an operator: nobody wants to watch a demo until Friday.
const demoTrainFile = `    trains:
      - {name: friday, schedule: "0 16 * * 5", time_zone: Europe/Berlin, seats: 2}
`

// trainChanges become the merge requests of the train's scene.
var trainChanges = []demoChange{
	{author: "ada", title: "Add a page for gift cards", files: map[string]string{"shop/gift-cards.txt": "from: 10\n"}},
	{author: "ben", title: "Show when an order arrives", files: map[string]string{"shop/arrival.txt": "show: date\n"}},
	{author: "cleo", title: "Cache the images of products", files: map[string]string{"shop/images.txt": "cache: 1h\n"}},
	{author: "dan", title: "Name the carrier", files: map[string]string{"shop/carrier.txt": "show: name\n"}},
}

// rideTrain plays a train with two seats: two of four get one, one of them leaves, and the first in line moves up in the same transaction.
func (d *demo) rideTrain(ctx context.Context) (err error) {
	d.tell.chapter(fmt.Sprintf("A train: %s takes %d at a time, and %d want to go", demoTrain, demoTrainSeats, len(trainChanges)))
	if d.passengers, err = d.openScene(trainChanges, "ivy"); err != nil {
		return err
	}
	for i, number := range d.passengers {
		if err := d.comment(number, trainChanges[i].author, "/batch join"); err != nil {
			return err
		}
		want := bot.SeatConfirmed
		if i >= demoTrainSeats {
			want = bot.SeatWaiting
		}
		if err := d.until(ctx, fmt.Sprintf("#%d to have a seat or a place in line", number), func(n snapshot) bool {
			s, ok := n.seat(number)
			return ok && s.Status == want && s.Approved
		}); err != nil {
			return err
		}
	}
	first, promoted := d.passengers[0], d.passengers[demoTrainSeats]
	if err := d.comment(first, trainChanges[0].author, "/batch leave"); err != nil {
		return err
	}
	if err := d.until(ctx, "the first in line to move up", func(n snapshot) bool {
		left, _ := n.seat(first)
		up, _ := n.seat(promoted)
		return left.Status == bot.SeatCancelled && up.Status == bot.SeatConfirmed
	}); err != nil {
		return err
	}
	now, err := d.look(ctx)
	if err != nil {
		return err
	}
	seat, _ := now.seat(promoted)
	d.tell.step("an operator has it depart now, by PATCH /api/v1/trains/%d", seat.Train)
	departs := time.Now().Add(time.Second).UTC().Format(time.RFC3339Nano)
	status, problem, err := d.call(ctx, http.MethodPatch, fmt.Sprintf("/api/v1/trains/%d", seat.Train), map[string]string{"departs_at": departs})
	if err != nil || status != http.StatusOK {
		return fmt.Errorf("having train %d depart: %w", seat.Train, orRefused(err, status, problem))
	}
	return d.until(ctx, "those with a seat to land", func(n snapshot) bool {
		for _, number := range d.passengers[1 : demoTrainSeats+1] {
			if n.status(number) != bot.OperationMerged || n.state(number) != "merged" {
				return false
			}
		}
		return n.quiet()
	})
}

// openScene opens the merge requests of a scene and has all of them approved.
func (d *demo) openScene(changes []demoChange, approver string) (numbers []int, err error) {
	for _, c := range changes {
		number, err := d.openMR(c)
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, number)
	}
	for _, number := range numbers {
		d.tell.said(number, approver, "approves")
		if _, err := d.host.Review(demoRepository, number, approver, fakehost.Approved, ""); err != nil {
			return nil, fmt.Errorf("approving #%d: %w", number, err)
		}
	}
	return numbers, nil
}

// reportTrain is what became of the train's scene.
type reportTrain struct {
	Name        string `json:"name"`
	Seats       int    `json:"seats"`
	Joined      []int  `json:"joined"`       // in this order
	Left        []int  `json:"left"`         // gave their seat up
	Promoted    []int  `json:"promoted"`     // moved up from the line
	Departed    []int  `json:"departed"`     // entered the waiting set with the train
	CarriedOver []int  `json:"carried_over"` // seated on the next one
	Landed      []int  `json:"landed"`
}

func trainReport(n snapshot) reportTrain {
	r := reportTrain{Name: demoTrain, Seats: demoTrainSeats, Joined: []int{}, Left: []int{}, Promoted: []int{}, Departed: []int{}, CarriedOver: []int{}, Landed: []int{}}
	joined := slices.SortedFunc(slices.Values(n.seats), func(a, b demoSeat) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, s := range joined { // who is carried over keeps the place in the order
		r.Joined = append(r.Joined, s.Number)
		if s.TrainStatus == bot.TrainOpen {
			if s.Status.Live() {
				r.CarriedOver = append(r.CarriedOver, s.Number)
			}
			continue
		}
		switch {
		case s.Status == bot.SeatDeparted:
			r.Departed = append(r.Departed, s.Number)
			if n.status(s.Number) == bot.OperationMerged && n.state(s.Number) == "merged" {
				r.Landed = append(r.Landed, s.Number)
			}
		case n.status(s.Number) == bot.OperationCancelled:
			r.Left = append(r.Left, s.Number)
		}
	}
	r.Promoted = append(r.Promoted, n.promoted...)
	slices.Sort(r.Promoted)
	return r
}

// told is the outcome in a sentence.
func (r reportTrain) told() string {
	return fmt.Sprintf("Train %s, %d seats for %s: %s left, %s moved up; %s departed, %s landed, %s has a seat on the next one.", r.Name, r.Seats,
		list(r.Joined), list(r.Left), list(r.Promoted), list(r.Departed), list(r.Landed), list(r.CarriedOver))
}
