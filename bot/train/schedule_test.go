package train

import (
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
)

func TestDeparturesFollowTheWallClockOfTheirZone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, schedule, zone string
		after                string
		want                 []string // one after the other, UTC
	}{
		{"daily in UTC", "0 9 * * *", "", "2024-05-06T09:00:00Z", []string{"2024-05-07T09:00:00Z", "2024-05-08T09:00:00Z"}},
		{"the minute itself has come", "*/15 * * * *", "", "2024-05-06T09:14:59Z", []string{"2024-05-06T09:15:00Z", "2024-05-06T09:30:00Z"}},
		{"nine in Berlin over the change in spring", "0 9 * * *", "Europe/Berlin", "2024-03-29T12:00:00Z", []string{"2024-03-30T08:00:00Z", "2024-03-31T07:00:00Z", "2024-04-01T07:00:00Z"}},
		{"half past two does not exist once", "30 2 * * *", "Europe/Berlin", "2024-03-30T12:00:00Z", []string{"2024-03-31T01:30:00Z", "2024-04-01T00:30:00Z"}},
		{"half past two comes twice and departs once", "30 2 * * *", "Europe/Berlin", "2024-10-26T12:00:00Z", []string{"2024-10-27T00:30:00Z", "2024-10-28T01:30:00Z"}},
		{"every half hour goes on while the clocks are put back", "*/30 * * * *", "Europe/Berlin", "2024-10-27T00:20:00Z", []string{"2024-10-27T00:30:00Z", "2024-10-27T01:00:00Z", "2024-10-27T01:30:00Z", "2024-10-27T02:00:00Z"}},
		{"an hour after it came twice", "30 3 * * *", "Europe/Berlin", "2024-10-27T00:20:00Z", []string{"2024-10-27T02:30:00Z"}},
		{"on another day in UTC", "30 22 * * MON-FRI", "America/New_York", "2024-03-08T12:00:00Z", []string{"2024-03-09T03:30:00Z", "2024-03-12T02:30:00Z"}},
		{"either day is enough", "0 0 13 * FRI", "", "2024-05-08T00:00:00Z", []string{"2024-05-10T00:00:00Z", "2024-05-13T00:00:00Z", "2024-05-17T00:00:00Z"}},
		{"leap day", "0 0 29 2 *", "", "2024-03-01T00:00:00Z", []string{"2028-02-29T00:00:00Z"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			at, err := time.Parse(time.RFC3339, c.after)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				next, err := Next(bot.TrainPlan{Name: "a", Schedule: c.schedule, TimeZone: c.zone, Seats: 3, BoardingCloses: 20 * time.Minute}, at)
				if err != nil {
					t.Fatal(err)
				}
				if got := next.DepartsAt.Format(time.RFC3339); got != want || next.DepartsAt.Sub(next.ClosesAt) != 20*time.Minute || next.Seats != 3 {
					t.Fatalf("after %s it departs %s, want %s: %+v", at.Format(time.RFC3339), got, want, next)
				}
				at = next.DepartsAt
			}
		})
	}
}

func TestASchedule(t *testing.T) {
	t.Parallel()
	for name, plan := range map[string]bot.TrainPlan{
		"that is none":      {Schedule: "daily"},
		"in no zone":        {Schedule: "0 9 * * *", TimeZone: "Nowhere/Town"},
		"that never comes":  {Schedule: "0 9 31 2 *"},
		"with seconds":      {Schedule: "0 0 9 * * *"},
		"with a descriptor": {Schedule: "@daily"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if next, err := Next(plan, time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)); err == nil {
				t.Errorf("departs %s", next.DepartsAt)
			}
		})
	}
}
