package bot

import (
	"testing"
	"time"
)

func TestQuietHours(t *testing.T) {
	t.Parallel()
	night := QuietHours{From: 20 * time.Hour, To: 8 * time.Hour, TimeZone: "Europe/Berlin"}
	nightAndWeekend := QuietHours{From: 20 * time.Hour, To: 8 * time.Hour, TimeZone: "Europe/Berlin", Weekends: true}
	lunch := QuietHours{From: 12 * time.Hour, To: 13*time.Hour + 30*time.Minute, TimeZone: "America/New_York"}
	changing := QuietHours{From: 2 * time.Hour, To: 2*time.Hour + 30*time.Minute, TimeZone: "Europe/Berlin"} // does not exist on the last Sunday of March, and twice in October
	for _, c := range []struct {
		what string
		q    QuietHours
		at   string
		end  string // empty: not quiet
	}{
		{"none", QuietHours{}, "2026-01-05T00:00:00Z", ""},
		{"from equal to to", QuietHours{From: 8 * time.Hour, To: 8 * time.Hour}, "2026-01-05T08:00:00Z", ""},
		{"before the evening", night, "2026-01-05T18:59:59Z", ""},
		{"in the evening", night, "2026-01-05T19:00:00Z", "2026-01-06T07:00:00Z"},
		{"over midnight", night, "2026-01-06T00:30:15Z", "2026-01-06T07:00:00Z"},
		{"the last second", night, "2026-01-06T06:59:59Z", "2026-01-06T07:00:00Z"},
		{"in the morning", night, "2026-01-06T07:00:00Z", ""},
		{"in summer the clock is one hour ahead", night, "2026-07-06T18:30:00Z", "2026-07-07T06:00:00Z"},
		{"the night the clock goes forward", night, "2026-03-28T19:00:00Z", "2026-03-29T06:00:00Z"},
		{"the night the clock goes back", night, "2026-10-24T18:00:00Z", "2026-10-25T07:00:00Z"},
		{"hours that one night leaves out", changing, "2026-03-29T01:10:00Z", ""},
		{"hours that one night has twice, first", changing, "2026-10-25T00:10:00Z", "2026-10-25T00:30:00Z"},
		{"hours that one night has twice, between", changing, "2026-10-25T00:40:00Z", ""},
		{"hours that one night has twice, second", changing, "2026-10-25T01:10:00Z", "2026-10-25T01:30:00Z"},
		{"Friday at noon", nightAndWeekend, "2026-01-09T12:00:00Z", ""},
		{"Friday evening until Monday morning", nightAndWeekend, "2026-01-09T19:00:00Z", "2026-01-12T07:00:00Z"},
		{"Saturday at noon", nightAndWeekend, "2026-01-10T12:00:00Z", "2026-01-12T07:00:00Z"},
		{"a weekend alone", QuietHours{Weekends: true, TimeZone: "Asia/Tokyo"}, "2026-01-09T15:00:00Z", "2026-01-11T15:00:00Z"},
		{"at lunch, elsewhere", lunch, "2026-01-05T17:10:00Z", "2026-01-05T18:30:00Z"},
		{"after lunch, elsewhere", lunch, "2026-01-05T18:30:00Z", ""},
		{"an unknown zone is UTC", QuietHours{From: 1 * time.Hour, To: 2 * time.Hour, TimeZone: "Nowhere/Land"}, "2026-01-05T01:30:00Z", "2026-01-05T02:00:00Z"},
	} {
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		if quiet := c.q.Is(at); quiet != (c.end != "") {
			t.Errorf("%s: quiet at %s: %v", c.what, c.at, quiet)
		}
		want := c.end
		if want == "" {
			want = c.at
		}
		if end := c.q.End(at).Format(time.RFC3339); end != want {
			t.Errorf("%s: at %s they end at %s, want %s", c.what, c.at, end, want)
		}
	}
}

func TestWhichReminderIsDue(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	p := ReminderPolicy{Approvers: 3 * day, Owners: day, Every: 7 * day}
	for _, c := range []struct {
		policy ReminderPolicy
		state  RemindableState
		since  time.Duration
		count  int64
		due    bool
	}{
		{p, RemindPending, 3*day - 1, 0, false},
		{p, RemindPending, 3 * day, 0, true},
		{p, RemindPending, 10*day - 1, 0, true},
		{p, RemindPending, 10 * day, 1, true},
		{p, RemindFailed, day, 0, true},
		{p, RemindBlocked, 15 * day, 2, true},
		{p, RemindFailed, ReminderLimit + 1, 0, false},
		{ReminderPolicy{Approvers: day}, RemindPending, 80 * day, 0, true},
		{ReminderPolicy{Approvers: day, Every: day}, RemindFailed, 80 * day, 0, false},
		{ReminderPolicy{}, RemindPending, 80 * day, 0, false},
	} {
		if count, due := c.policy.Due(c.state, c.since); count != c.count || due != c.due {
			t.Errorf("%+v after %s in state %d: number %d, due %v", c.policy, c.since, c.state, count, due)
		}
	}
}

func TestTheTargetOfAReminderIsReadBack(t *testing.T) {
	t.Parallel()
	r := Reminder{OperationID: "0b7c1d52-6f0e-4a53-9d55-0c9c7c1f2a10", Entry: "batch7.1767268800000001", Count: 3}
	if back, ok := ParseReminderTarget(r.Target()); !ok || back != r {
		t.Errorf("%q is read as %+v, %v", r.Target(), back, ok)
	}
	for _, target := range []string{"", "7", "a/b", "a/b/c", "/b/1", "a//1", "a/b/-1", "a/b/1/2"} {
		if r, ok := ParseReminderTarget(target); ok {
			t.Errorf("%q is read as %+v", target, r)
		}
	}
}
