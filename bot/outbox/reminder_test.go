package outbox

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// reminded is what an operation is reminded of, by the clock of the test.
type reminded struct{ view bot.ReminderView }

func (r *reminded) ReminderView(context.Context, string) (bot.ReminderView, error) {
	view := r.view
	view.Now = time.Now()
	return view, nil
}

func inOffice(t *testing.T, change func(*reminded), then func(d *desk, e *row)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		op := bot.Operation{ID: "op-1", Status: bot.OperationPendingApproval, Target: "main", Number: 2, HeadSHA: pinned, Detail: "needs 1 more approval"}
		r := &reminded{bot.ReminderView{State: bot.RemindPending, Entry: "31", For: 73 * time.Hour, Operation: bot.OperationView{Operation: op}}}
		r.view.Operation.Queue.Settings.Reminders = bot.ReminderPolicy{Approvers: 72 * time.Hour}
		change(r)
		d.sender.config.Reminders = r
		then(d, d.wants(bot.ErrandReminder, "op-1/31/0"))
	})
}

func TestAReminderIsSaidWhileItIsTrue(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*reminded)
		said   bool
	}{
		"it still waits":                  {func(*reminded) {}, true},
		"there is nothing to remind of":   {func(r *reminded) { r.view.State = 0 }, false},
		"it left the state and came back": {func(r *reminded) { r.view.Entry = "32" }, false},
		"nobody wants reminders any more": {func(r *reminded) { r.view.Operation.Queue.Settings.Reminders.Approvers = 0 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inOffice(t, test.change, func(d *desk, e *row) {
				d.sends()
				if !e.done || (len(d.host.comments) == 1) != test.said {
					t.Errorf("done %v, said %v", e.done, d.host.comments)
				}
				if test.said && !strings.Contains(d.host.comments[0].body, "Needs 1 more approval") {
					t.Errorf("says %s", d.host.comments[0].body)
				}
			})
		})
	}
}

func TestAReminderWaitsForTheEndOfQuietHours(t *testing.T) {
	t.Parallel()
	inOffice(t, func(r *reminded) { // it is midnight
		r.view.Operation.Queue.Settings.Reminders.Quiet = bot.QuietHours{From: 20 * time.Hour, To: 8 * time.Hour}
	}, func(d *desk, e *row) {
		for range 3 {
			time.Sleep(150 * time.Minute)
			d.sends()
		}
		if e.done || e.givenUp || len(d.host.comments) != 0 {
			t.Errorf("at %s: done %v, given up %v, said %v", time.Now(), e.done, e.givenUp, d.host.comments)
		}
		time.Sleep(30*time.Minute + time.Second)
		d.sends()
		if !e.done || len(d.host.comments) != 1 {
			t.Errorf("at %s: %+v, said %v", time.Now(), e, d.host.comments)
		}
	})
}

func TestAReminderThatIsNoneIsGivenUp(t *testing.T) {
	t.Parallel()
	inOffice(t, func(*reminded) {}, func(d *desk, _ *row) {
		bad := d.wants(bot.ErrandReminder, "op-1")
		d.sends()
		if !bad.givenUp || bad.done {
			t.Errorf("%+v", bad)
		}
	})
}
