package train

import (
	"fmt"
	"time"

	"github.com/netresearch/go-cron"

	"github.com/batchbot/batchbot/bot"
)

// Next is the first departure of a plan after a time. The five fields are read in the plan's time zone and as everywhere cron is: where both a day of
// month and a day of week are given, either is enough. A time that the clocks skip in spring departs right behind the gap, one that they show twice in
// autumn departs the first time only.
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
	if departs.IsZero() {
		return failed(fmt.Errorf("%q names a day that never comes", plan.Schedule))
	}
	departs = departs.UTC()
	return bot.NextTrain{DepartsAt: departs, ClosesAt: departs.Add(-plan.BoardingCloses), Seats: plan.Seats}, nil
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
