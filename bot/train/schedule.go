package train

import (
	"fmt"
	"strings"
	"time"

	"github.com/netresearch/go-cron"

	"github.com/batchbot/batchbot/bot"
)

// Next is the first departure of a plan after a time. The five fields are read in the plan's time zone and as everywhere cron is: where both a day of
// month and a day of week are given, either is enough. A time that the clocks skip in spring departs as much later as they skip, and one that they show
// twice in autumn departs the first time only, unless the train goes by the hour.
func Next(plan bot.TrainPlan, after time.Time) (bot.NextTrain, error) {
	failed := func(err error) (bot.NextTrain, error) {
		return bot.NextTrain{}, fmt.Errorf("reading the schedule of train %q: %w", plan.Name, err)
	}
	zone, err := time.LoadLocation(plan.TimeZone)
	if err != nil {
		return failed(err)
	}
	times, err := cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.DowOrDom).Parse(plan.Schedule)
	if err != nil {
		return failed(err)
	}
	departs := times.Next(after.In(zone))
	for hourly := strings.HasPrefix(strings.Fields(plan.Schedule)[1], "*"); !hourly && shownTwice(departs); {
		departs = times.Next(departs)
	}
	if departs.IsZero() {
		return failed(fmt.Errorf("%q names a day that never comes", plan.Schedule))
	}
	departs = departs.UTC()
	return bot.NextTrain{DepartsAt: departs, ClosesAt: departs.Add(-plan.BoardingCloses), Seats: plan.Seats}, nil
}

// shownTwice reports whether the clocks of its zone showed the same time already a little earlier, before they were put back.
func shownTwice(t time.Time) bool {
	if t.IsZero() {
		return false
	}
	_, now := t.Zone()
	_, before := t.Add(-3 * time.Hour).Zone()
	if before <= now {
		return false
	}
	_, then := t.Add(-time.Duration(before-now) * time.Second).Zone()
	return then == before
}

// planOf finds the plan of a train by name; ok false: the file does not name it.
func planOf(settings bot.QueueSettings, name string) (plan bot.TrainPlan, ok bool) {
	for _, p := range settings.Trains {
		if p.Name == name {
			return p, true
		}
	}
	return bot.TrainPlan{}, false
}
