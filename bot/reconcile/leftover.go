package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// errands lists what was given up in a repository. It is tried again by an operator's word only: it was given up for a reason, and
// without a change it would be given up again.
func (f *finder) errands(ctx context.Context, repo bot.Repository) {
	list, err := f.config.Store.GivenUpErrands(ctx, repo.ID, mostGivenUp)
	if f.fails(err) {
		return
	}
	for _, e := range list {
		d := about(ErrandGivenUp, repo)
		d.MR, d.Row = e.Errand.Number, e.Errand.ID
		d.Rows = fmt.Sprintf("%s %s given up %s ago", e.Errand.Kind, e.Errand.Target, e.Age.Round(time.Second))
		d.Found, d.Remedy, d.operator = e.Reason, "it is tried again", true
		d.task = fmt.Sprintf("errand %d", e.Errand.ID)
		d.mend = func(ctx context.Context, by Actor) error {
			_, err := f.config.Store.RetryErrand(ctx, e.Errand.ID, by.By, by.Source) // unchanged: somebody else did it
			return err
		}
		f.add(d)
	}
}

// deliveries lists the webhooks that were given up. What they told was found by the periodic look since; they are tried again by an operator's
// word only.
func (f *finder) deliveries(ctx context.Context) {
	list, err := f.config.Store.FailedDeliveries(ctx, mostGivenUp)
	if f.fails(err) {
		return
	}
	for _, failed := range list {
		d := Difference{Kind: DeliveryFailed, Host: failed.Delivery.Host, Row: failed.Delivery.ID, Found: failed.Reason}
		d.Rows = fmt.Sprintf("%s %s failed, came %s ago", failed.Delivery.Event, failed.Delivery.Key, failed.Age.Round(time.Second))
		if failed.Purged {
			d.Remedy = "its payload is gone: send it again from the host if it matters, else leave it, the periodic look found what it told"
			f.add(d)
			continue
		}
		d.Remedy, d.operator = "it is applied again", true
		d.task = fmt.Sprintf("delivery %d", failed.Delivery.ID)
		d.mend = func(ctx context.Context, by Actor) error {
			_, err := f.config.Store.RetryDelivery(ctx, failed.Delivery.ID, by.By, by.Source) // unchanged: somebody else did it
			return err
		}
		f.add(d)
	}
}
