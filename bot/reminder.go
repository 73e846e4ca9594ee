package bot

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Remindable is an operation that lets others wait: PENDING_APPROVAL, FAILED, or a member of a batch that is BLOCKED. Times are the database's clock.
type Remindable struct {
	OperationID  string
	RepositoryID int64
	Number       int
	Entry        string        // names how it came into that state: it differs each time, and stays while only details of the operation change
	For          time.Duration // since then
}

// RemindableState is what an operation is reminded of.
type RemindableState int

// The states. The zero value is invalid.
const (
	RemindPending RemindableState = iota + 1 // PENDING_APPROVAL, no draft and not on a train: approvers let it wait
	RemindFailed                             // FAILED: awaits its owner
	RemindBlocked                            // rides in a batch that is BLOCKED
)

// ReminderLimit is the age of a state beyond which nobody is reminded of it any more: whoever did not act by then will not. It bounds how long it has to
// be kept what was said.
const ReminderLimit = 90 * 24 * time.Hour

// Reminder is one reminder: the Count-th, from 0, since the operation came into its state by Entry.
type Reminder struct {
	OperationID  string
	Entry        string
	Count        int64
	RepositoryID int64
	Number       int
}

// Target is the target of its errand. The outbox takes one only once, so however many instances find it due, it is said once.
func (r Reminder) Target() string {
	return fmt.Sprintf("%s/%s/%d", r.OperationID, r.Entry, r.Count)
}

// ParseReminderTarget reads the target of an errand; RepositoryID and Number stand in the errand itself.
func ParseReminderTarget(target string) (r Reminder, ok bool) {
	parts := strings.Split(target, "/")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" {
		return Reminder{}, false
	}
	count, err := strconv.ParseInt(parts[2], 10, 64)
	return Reminder{OperationID: parts[0], Entry: parts[1], Count: count}, err == nil && count >= 0
}

// After is how long an operation may be in a state before somebody is reminded; 0: for ever.
func (p ReminderPolicy) After(state RemindableState) time.Duration {
	if state == RemindPending {
		return p.Approvers
	}
	return p.Owners
}

// Due says which reminder, from 0, is the current one after so long in a state. Earlier ones that nobody said are not made up for.
func (p ReminderPolicy) Due(state RemindableState, since time.Duration) (count int64, due bool) {
	after := p.After(state)
	if after <= 0 || since < after || since > ReminderLimit {
		return 0, false
	}
	if p.Every > 0 {
		count = int64((since - after) / p.Every)
	}
	return count, true
}

// ReminderView is what a reminder shows, as the rows are now.
type ReminderView struct {
	Operation OperationView
	State     RemindableState // 0: there is nothing to remind of any more
	Entry     string
	For       time.Duration
	Now       time.Time // the database's clock
}

// Is reports whether at lies in the quiet hours. An unknown time zone counts as UTC; config refuses it.
func (q QuietHours) Is(at time.Time) bool {
	zone, err := time.LoadLocation(q.TimeZone)
	if err != nil {
		zone = time.UTC
	}
	return q.in(at.In(zone))
}

// in is Is by the wall clock of local.
func (q QuietHours) in(local time.Time) bool {
	if day := local.Weekday(); q.Weekends && (day == time.Saturday || day == time.Sunday) {
		return true
	}
	hour, minute, second := local.Clock()
	clock := time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute + time.Duration(second)*time.Second
	if q.From <= q.To {
		return q.From <= clock && clock < q.To
	}
	return clock >= q.From || clock < q.To
}

// End is the first minute from at on that is not quiet: at itself when none is. Walking minute by minute, the wall clock of every time zone comes out right.
func (q QuietHours) End(at time.Time) time.Time {
	zone, err := time.LoadLocation(q.TimeZone)
	if err != nil {
		zone = time.UTC
	}
	const longest = 4 * 24 * 60 // a night, a weekend and a night; more only by settings that are quiet for ever, which config refuses
	for range longest {
		if !q.in(at.In(zone)) {
			break
		}
		at = at.Truncate(time.Minute).Add(time.Minute)
	}
	return at
}
