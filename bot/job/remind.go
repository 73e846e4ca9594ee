package job

import (
	"context"
	"errors"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// Waits lists who lets others wait, and keeps what was said about it. Implemented by store.
type Waits interface {
	// RemindingQueues lists the queues of active repositories whose settings have people reminded, with the database's clock.
	RemindingQueues(ctx context.Context) (queues []bot.Queue, now time.Time, err error)
	// Remindables lists up to limit operations of a queue that have been in a state for so long, by operation id, behind after.
	Remindables(ctx context.Context, queue bot.Queue, state bot.RemindableState, age time.Duration, after string, limit int) ([]bot.Remindable, error)
	// WantReminders has reminders said that nobody has had said before and returns how many.
	WantReminders(ctx context.Context, reminders []bot.Reminder) (said int, err error)
}

// Remind has people reminded as the settings of their queues say: not in quiet hours, and each reminder once. What fell due in quiet hours is said
// at the first tick after them; of several only the latest. nudge is called when there is something to say.
func Remind(store Waits, nudge func()) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		queues, now, err := store.RemindingQueues(ctx)
		if err != nil {
			return "", err
		}
		said := 0
		var failed []error
		for _, queue := range queues {
			if queue.Settings.Reminders.Quiet.Is(now) {
				continue
			}
			for _, state := range []bot.RemindableState{bot.RemindPending, bot.RemindFailed, bot.RemindBlocked} {
				n, err := remind(ctx, store, queue, state)
				said += n
				if err != nil {
					failed = append(failed, err)
				}
				if ctx.Err() != nil {
					return "", ctx.Err()
				}
			}
		}
		if said == 0 {
			return "", errors.Join(failed...)
		}
		nudge()
		return counted(said, "reminder", "reminders"), errors.Join(failed...)
	}
}

// remind is Remind for one state in one queue, page by page.
func remind(ctx context.Context, store Waits, queue bot.Queue, state bot.RemindableState) (said int, err error) {
	const page = 500
	policy := queue.Settings.Reminders
	if policy.After(state) <= 0 {
		return 0, nil
	}
	for after := ""; ; {
		list, err := store.Remindables(ctx, queue, state, policy.After(state), after, page)
		if err != nil || len(list) == 0 {
			return said, err
		}
		reminders := make([]bot.Reminder, 0, len(list))
		for _, r := range list {
			after = r.OperationID
			if count, due := policy.Due(state, r.For); due {
				reminders = append(reminders, bot.Reminder{OperationID: r.OperationID, Entry: r.Entry, Count: count, RepositoryID: r.RepositoryID, Number: r.Number})
			}
		}
		n, err := store.WantReminders(ctx, reminders)
		said += n
		if err != nil || len(list) < page {
			return said, err
		}
	}
}
