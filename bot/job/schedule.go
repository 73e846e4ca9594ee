package job

import (
	"fmt"
	"time"

	"github.com/netresearch/go-cron"
)

// Schedule says when a job is due. The zero value is never.
type Schedule struct {
	text  string
	times interface{ Next(time.Time) time.Time }
}

// Every is due so long after the last tick.
func Every(d time.Duration) Schedule {
	return Schedule{d.String(), every(d)}
}

type every time.Duration

// Next implements cron.Schedule to the microsecond, as the database's clock has it.
func (e every) Next(t time.Time) time.Time { return t.Add(time.Duration(e)) }

// ParseSchedule reads a duration such as 5m, from a second to a week, or five fields of cron in UTC.
func ParseSchedule(text string) (Schedule, error) {
	if d, err := time.ParseDuration(text); err == nil {
		if d < time.Second || d > 7*24*time.Hour {
			return Schedule{}, fmt.Errorf("%s is out of range: write 1s to 168h", text)
		}
		return Every(d), nil
	}
	times, err := cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.DowOrDom).Parse(text)
	if err != nil {
		return Schedule{}, fmt.Errorf("%q is neither a duration such as 5m nor minute, hour, day of month, month and day of week, such as \"0 3 * * *\": %w", text, err)
	}
	if times.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return Schedule{}, fmt.Errorf("%q names a day that never comes", text)
	}
	return Schedule{text, times}, nil
}

// Next is the first time after t at which the job is due; the zero time: never.
func (s Schedule) Next(t time.Time) time.Time {
	if s.times == nil {
		return time.Time{}
	}
	return s.times.Next(t.UTC())
}

// String is the schedule as it was written.
func (s Schedule) String() string {
	if s.times == nil {
		return "never"
	}
	return s.text
}
