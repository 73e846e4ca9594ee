package config

import (
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
)

func TestRemindersOfAQueue(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bot.ReminderPolicy{
		"": bot.DefaultQueueSettings("").Reminders,
		`reminders: {approvers: 48h, owners: 1h, every: 24h, quiet_hours: {from: "20:00", to: 08:30, time_zone: Europe/Berlin, weekends: true}}`: {
			Approvers: 48 * time.Hour, Owners: time.Hour, Every: 24 * time.Hour,
			Quiet: bot.QuietHours{From: 20 * time.Hour, To: 8*time.Hour + 30*time.Minute, TimeZone: "Europe/Berlin", Weekends: true},
		},
		"reminders: {approvers: 0, owners: 0}":             {Every: 168 * time.Hour},
		"reminders: {every: 0}":                            {Approvers: 72 * time.Hour, Owners: 24 * time.Hour},
		"reminders: {quiet_hours: {weekends: true}}":       {Approvers: 72 * time.Hour, Owners: 24 * time.Hour, Every: 168 * time.Hour, Quiet: bot.QuietHours{Weekends: true}},
		`reminders: {quiet_hours: {from: 0:00, to: 6:05}}`: {Approvers: 72 * time.Hour, Owners: 24 * time.Hour, Every: 168 * time.Hour, Quiet: bot.QuietHours{To: 6*time.Hour + 5*time.Minute}},
	} {
		got, err := ParseRepositoryFile([]byte("queues:\n  - branch: main\n    "+text+"\n"), "main")
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got.Queues[0].Reminders != want {
			t.Errorf("%s:\ngot  %+v\nwant %+v", text, got.Queues[0].Reminders, want)
		}
	}
}

func TestMistakesInReminders(t *testing.T) {
	t.Parallel()
	const where = "queues[0].reminders"
	for text, want := range map[string]string{
		"often":                "line 3, column 16: " + where + " is not a set of keys: write any of approvers, every, owners or quiet_hours, each with a colon and its value",
		"{approver: 72h}":      "line 3, column 17: " + where + `: unknown key "approver": did you mean approvers?`,
		"{approvers: 3d}":      "line 3, column 28: " + where + `.approvers: "3d" is not a duration: write a number with a unit, such as 30s, 5m or 2h`,
		"{owners: 10m}":        "line 3, column 25: " + where + ".owners: 10m is too short: write 1h or more, or 0 for never",
		"{every: 2161h}":       "line 3, column 24: " + where + ".every: 2161h is out of range: write 0 to 2160h",
		"{owners: -1h}":        "line 3, column 25: " + where + ".owners: -1h is out of range: write 0 to 2160h",
		"{quiet_hours: night}": "line 3, column 30: " + where + ".quiet_hours is not a set of keys: write any of from, time_zone, to or weekends, each with a colon and its value",
		`{quiet_hours: {from: "24:00", to: "8:00"}}`:           "line 3, column 37: " + where + `.quiet_hours.from: "24:00" is not a time of the day: write hours and minutes, as in "08:00"`,
		`{quiet_hours: {from: 20, to: "8:00"}}`:                "line 3, column 37: " + where + `.quiet_hours.from: "20" is not a time of the day: write hours and minutes, as in "08:00"`,
		`{quiet_hours: {from: "20:00"}}`:                       "line 3, column 30: " + where + `.quiet_hours: from and to belong together: write both, as in from: "20:00" and to: "08:00"`,
		"{quiet_hours: {time_zone: UTC}}":                      "line 3, column 30: " + where + `.quiet_hours: no hours are quiet: write from and to, as in from: "20:00" and to: "08:00", or weekends: true`,
		"{quiet_hours: {weekends: maybe}}":                     "line 3, column 41: " + where + `.quiet_hours.weekends: "maybe" is neither true nor false`,
		"{quiet_hours: {weekends: true, time_zone: Moon/Sea}}": "line 3, column 58: " + where + `.quiet_hours.time_zone: "Moon/Sea" is not a time zone: write a name such as Europe/Berlin or UTC`,
	} {
		got, err := ParseRepositoryFile([]byte("queues:\n  - branch: main\n    reminders: "+text+"\n"), "develop")
		if err == nil {
			t.Errorf("%s is accepted as %+v", text, got.Queues[0].Reminders)
			continue
		}
		if err.Error() != want {
			t.Errorf("%s: got\n%s\nwant\n%s", text, err, want)
		}
	}
}
