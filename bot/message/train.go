package message

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// train names a train in Markdown.
func train(name string) string { return "train " + code(name) }

// departs says when a train departs: in UTC, and in the zone its schedule is read in where that is another one.
func departs(t bot.Train, q bot.Queue) string {
	const day, minute = "Mon 2 Jan 2006", "15:04"
	utc := t.DepartsAt.UTC()
	s := utc.Format(day+" "+minute) + " UTC"
	i := slices.IndexFunc(q.Settings.Trains, func(p bot.TrainPlan) bool { return p.Name == t.Name })
	if i < 0 || q.Settings.Trains[i].TimeZone == "" {
		return s
	}
	zone, err := time.LoadLocation(q.Settings.Trains[i].TimeZone)
	if err != nil || zone.String() == "UTC" {
		return s
	}
	layout, local := minute, utc.In(zone)
	if local.Format(day) != utc.Format(day) {
		layout = "Mon 2 Jan " + minute
	}
	return s + " (" + local.Format(layout) + " in " + zone.String() + ")"
}

// seat says in Markdown what a merge request has on a train, beginning with a lower-case letter and without a final stop.
func seat(v bot.SeatView, q bot.Queue) string {
	if v.Seat.Status == bot.SeatWaiting {
		return fmt.Sprintf("number %d in line for %s, which departs %s", v.Seat.Position, train(v.Train.Name), departs(v.Train, q))
	}
	return fmt.Sprintf("a seat on %s, which departs %s", train(v.Train.Name), departs(v.Train, q))
}

// holds is seat as what a merge request does: it "has a seat", or "is number 2 in line".
func holds(v bot.SeatView, q bot.Queue) string {
	if v.Seat.Status == bot.SeatWaiting {
		return "is " + seat(v, q)
	}
	return "has " + seat(v, q)
}

// seated is state for an operation that holds a live seat.
func seated(view bot.OperationView) string {
	s := seat(*view.Seat, view.Queue)
	switch {
	case view.Seat.Seat.Approved:
		return s + "; approved"
	case view.Operation.Detail != "":
		return s + "; not approved yet: " + detail(view.Operation.Detail)
	}
	return s + "; not approved yet"
}

// nextSeated is next for an operation that holds a live seat.
func nextSeated(view bot.OperationView) string {
	s := "It departs with the train by itself"
	if !view.Seat.Seat.Approved {
		s = "It departs with the train if it is approved at " + code(bot.ShortSHA(view.Operation.HeadSHA)) + " by then"
	}
	if view.Seat.Seat.Status == bot.SeatWaiting {
		s = strings.Replace(s, "departs with the train", "moves up as soon as a seat becomes free, and then departs", 1)
	}
	return s + ". A push loses the place. Comment `/batch leave` to give it up."
}

// Joined answers a join: what the merge request has now, and what it takes to depart. missing is what its approval lacks; empty: nothing.
func Joined(s bot.SeatView, q bot.Queue, missing string) string {
	var text string
	if s.Seat.Status == bot.SeatWaiting {
		text = fmt.Sprintf("No seat is free on %s: it is number %d in line, and moves up as soon as a seat becomes free. The train departs %s.",
			train(s.Train.Name), s.Seat.Position, departs(s.Train, q))
	} else {
		text = "It " + holds(s, q) + "."
	}
	if missing != "" {
		text += " It departs only if it is approved by then: " + sentence(detail(missing))
	}
	return text + " Comment `/batch leave` to give the place up.\n"
}

// Seated answers a join of a merge request that holds this seat already.
func Seated(s bot.SeatView, q bot.Queue) string {
	return "It joined already, and " + sentence(holds(s, q)) + "\n"
}

// SeatedElsewhere answers a join of a merge request that holds a seat on another train.
func SeatedElsewhere(s bot.SeatView, q bot.Queue) string {
	return "A merge request has one place only, and this one " + sentence(holds(s, q)) + " Comment `/batch leave` first.\n"
}

// RidesAlready answers a join of a merge request that needs no train any more.
func RidesAlready(view bot.OperationView, links Links) string {
	return "It needs no train: it is " + sentence(state(view, links)) + " To take a train instead, comment `/batch cancel` first.\n"
}

// BoardingOver answers a join that came too late for a train.
func BoardingOver(t bot.Train, q bot.Queue) string {
	s := "Boarding of " + train(t.Name) + " is over"
	if t.Status == bot.TrainOpen && !t.DepartsAt.IsZero() {
		s += ": it departs " + departs(t, q)
	}
	if t.Scheduled {
		return s + ". The next one is open right after the departure: comment `/batch join` again then.\n"
	}
	return s + ". Comment `/batch join` to take another train, or `/batch` to go with the next batch.\n"
}

// NoTrain answers a join on a branch from which no train departs.
func NoTrain(target string) string {
	return "No train departs for " + code(target) + ". A maintainer can add one in the file `.batchbot.yml` on that branch, below the queue: " +
		"`trains: [{name: nightly, schedule: \"0 22 * * *\", seats: 10}]`. Without a train, `/batch` is all it takes.\n"
}

// WhichTrain answers a join that does not say which of several trains, or asks for one that is not there.
func WhichTrain(asked string, trains []bot.Train, q bot.Queue) string {
	var b strings.Builder
	switch {
	case asked != "":
		fmt.Fprintf(&b, "There is no open train %s for %s. These are open:\n", code(clean(asked, 70)), code(q.Target))
	default:
		fmt.Fprintf(&b, "Several trains depart for %s: say which one, as in %s.\n", code(q.Target), code("/batch join "+trains[0].Name))
	}
	b.WriteString("\n| train | departs | free seats | in line |\n|---|---|---|---|\n")
	for _, t := range trains {
		free := fmt.Sprint(max(t.Seats-t.Confirmed, 0))
		if t.Closed {
			free = "boarding is over"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %d |\n", code(t.Name), departs(t, q), free, t.Waiting)
	}
	return b.String()
}

// OtherTrain refuses a seat on a train of another queue.
func OtherTrain(t bot.Train, q bot.Queue, target string) string {
	return upper(train(t.Name)) + " departs for " + code(q.Target) + ", and this merge request has the target " + code(target) + ". Name a train of its own target.\n"
}

// NoTrains answers a join where nothing lets trains depart.
func NoTrains() string {
	return "Trains are not available here. Comment `/batch` to go with the next batch.\n"
}

// NotSeated answers a leave without a seat; view is the last operation, nil if there never was one.
func NotSeated(view *bot.OperationView, links Links) string {
	return "There is no seat to give up" + stands(view, links)
}

// seatNotice is the notice of a change of a seat, without its marker; ok false: the change is not about a seat.
func seatNotice(entry bot.HistoryEntry) (text string, ok bool) {
	name := "its train"
	if entry.Seat != nil {
		name = train(entry.Seat.Train.Name)
	}
	say := func(happened string, sentences ...string) (string, bool) {
		return strings.Join(append([]string{"**" + happened + "**"}, sentences...), " "), true
	}
	approve := "It departs if it is approved at " + code(bot.ShortSHA(entry.HeadSHA)) + " by then."
	if entry.Seat != nil && entry.Seat.Seat.Approved {
		approve = "It is approved, and departs by itself."
	}
	stands := "" // now, which may be later than what the entry says
	if entry.Seat != nil && entry.Seat.Seat.Status.Live() {
		stands = "It " + holds(*entry.Seat, entry.Queue) + "."
	}
	switch entry.Reason {
	case bot.ReasonPromoted:
		if stands == "" {
			return say("A seat became free.", "It moved up from the line of "+name+", and does not hold the seat any more.")
		}
		return say("A seat became free.", stands, approve)
	case bot.ReasonCarriedOver:
		why := "Its train departed without it"
		if entry.Detail != "" {
			why += ": " + detail(entry.Detail)
		}
		if stands == "" {
			return say("Carried over.", why+".")
		}
		return say("Carried over.", why+".", stands, approve)
	case bot.ReasonTrainOver:
		why := upper(name) + " ended, and there is no next one"
		if entry.Detail != "" {
			why += ": " + detail(entry.Detail)
		}
		return say("Its train is over.", why+".", "Comment `/batch join` to take another train, or `/batch` to go with the next batch.")
	}
	if entry.From != bot.OperationPendingApproval || (entry.To != bot.OperationCancelled && entry.To != bot.OperationClosed) {
		return "", false
	}
	// A merge request that joined again has a new operation in the same seat.
	join := "comment `/batch join` to take a place at the end of the line."
	switch {
	case entry.Seat == nil && (entry.To == bot.OperationClosed || entry.Reason == bot.ReasonRetargeted):
		return "", false
	case entry.Seat == nil:
	case entry.Seat.Seat.Status != bot.SeatCancelled:
		return "", false
	default:
		join = "comment " + code("/batch join "+entry.Seat.Train.Name) + " to take a place at the end of the line."
	}
	extra := ""
	if entry.Detail != "" {
		extra = ": " + detail(entry.Detail)
	}
	lost := "Its place on " + name + " is lost."
	switch entry.Reason {
	case bot.ReasonHeadMoved:
		return say(lost, "New commits were pushed.", upper(join))
	case bot.ReasonUnapproved:
		return say(lost, "Its approval was withdrawn or no longer suffices"+extra+".", upper(join))
	case bot.ReasonDrafted:
		return say(lost, "It was turned into a draft.", "Mark it ready for review and "+join)
	case bot.ReasonClosed:
		return say(lost, "It was closed.", "Reopen it and "+join)
	case bot.ReasonRetargeted:
		return say(lost, "Its target branch changed"+extra+".", "Comment `/batch join` to take a train there, or `/batch` to go with the next batch.")
	}
	return "", false
}
