package intake

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/lease"
)

// WorkerConfig is what a Worker needs.
type WorkerConfig struct {
	lease.Pace // what is not set has defaults: 32 deliveries for 60 s, 8 merge requests of a host at once, 20 attempts between 5 s and 15 min
	Inbox      Inbox
	Webhooks   map[string]bot.Webhooks // by configured name of the host
	Apply      func(ctx context.Context, source string, event bot.Event) error
	Logger     *slog.Logger // nil: silent
}

// Worker applies stored deliveries. Any number of workers may share an inbox.
type Worker struct {
	lease.Bell
	config WorkerConfig
	crew   *lease.Crew
}

// NewWorker returns a worker with the defaults filled in.
func NewWorker(c WorkerConfig) *Worker {
	c.Pace = c.Pace.Or(lease.Pace{
		Limit: 32, Parallel: 8, Lease: time.Minute, MaxAttempts: 20,
		RetryBase: 5 * time.Second, RetryLimit: 15 * time.Minute, Poll: 5 * time.Second, Patience: 2 * time.Second, Grace: 5 * time.Second,
	})
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Worker{Bell: lease.NewBell(), config: c, crew: lease.NewCrew(c.Parallel, 4*c.Limit)}
}

// Run works until ctx ends. What is under way then may go on for the grace period. Deliveries of a repository whose host hangs keep nobody waiting.
func (w *Worker) Run(ctx context.Context) {
	var passes sync.WaitGroup
	defer passes.Wait()
	w.Bell.Run(ctx, w.config.Poll, func() bool {
		p, err := w.begin(ctx)
		if err != nil {
			if ctx.Err() == nil {
				w.config.Logger.Error("could not claim deliveries", "error", err)
			}
			return false
		}
		passes.Go(func() { p.Wait() })
		lease.Wait(p.Fresh(), w.config.Patience)
		return p.Claimed == w.config.Limit
	})
}

// Work says what one look at the inbox did.
type Work struct {
	Claimed int
	Applied int // DONE
	Ignored int // not for us
	Retried int // due again later
	Failed  int // given up
	Lost    int // somebody else took it over, or the outcome could not be stored: due again when the lease ends
}

// RunOnce claims due deliveries once, applies them and waits for the last one. An error means that nothing could be claimed; what becomes of a
// single delivery is in its row.
func (w *Worker) RunOnce(ctx context.Context) (Work, error) {
	p, err := w.begin(ctx)
	if err != nil {
		return Work{}, err
	}
	return p.Wait(), nil
}

// begin claims due deliveries and starts to apply them.
func (w *Worker) begin(ctx context.Context) (*lease.Pass[Work], error) {
	claimed := time.Now()
	deliveries, err := w.config.Inbox.ClaimDeliveries(ctx, w.config.Limit, w.config.Lease)
	if err != nil {
		return nil, fmt.Errorf("claiming deliveries: %w", err)
	}
	work, cancel := w.config.During(ctx, claimed)
	p := lease.NewPass(len(deliveries), Work{Claimed: len(deliveries)}, cancel)
	var lanes []lease.Lane
	for _, queue := range w.sort(deliveries) {
		judge := func(d parsed) bot.DeliveryOutcome { return w.outcome(work, d) }
		place := queue[0].place()
		if w.crew.Crowded(place) {
			place = lease.Place{} // nobody is asked
			judge = w.putOff
		}
		lanes = append(lanes, lease.Lane{Place: place, Work: func() {
			for _, d := range queue {
				if ctx.Err() != nil || work.Err() != nil {
					return // the rest is due again when the lease ends
				}
				outcome := judge(d)
				done := w.finish(ctx, d.Delivery, outcome)
				p.Count(func(sum *Work) { sum.count(outcome, done) })
			}
		}})
	}
	p.Begin(work, w.crew, lanes)
	return p, nil
}

// putOff is the outcome of a delivery of a repository where many earlier ones still wait for an answer.
func (w *Worker) putOff(d parsed) bot.DeliveryOutcome {
	return bot.DeliveryOutcome{
		Status: bot.DeliveryDue, RetryIn: max(w.config.BackOff(d.Attempts), w.config.Lease), Error: "earlier deliveries of its repository still wait for the host",
	}
}

func (r *Work) count(outcome bot.DeliveryOutcome, stored bool) {
	switch {
	case !stored:
		r.Lost++
	case outcome.Status == bot.DeliveryDone:
		r.Applied++
	case outcome.Status == bot.DeliveryIgnored:
		r.Ignored++
	case outcome.Status == bot.DeliveryFailed:
		r.Failed++
	default:
		r.Retried++
	}
}

// parsed is a delivery with what it says.
type parsed struct {
	bot.Delivery
	events []bot.Event
	why    string // no events: not for us
	err    error
}

// place is the repository whose host is asked about a delivery.
func (p parsed) place() lease.Place {
	at := lease.Place{Host: p.Host}
	if len(p.events) > 0 {
		at.Repository = p.events[0].Repository.ExternalID
	}
	return at
}

// sort parses deliveries and puts those of one merge request behind each other, in order of arrival.
func (w *Worker) sort(deliveries []bot.Delivery) [][]parsed {
	type key struct {
		host       string
		repository int64
		number     int
		alone      int64 // the delivery itself when it is about no merge request
	}
	var queues [][]parsed
	at := make(map[key]int)
	for _, d := range deliveries {
		p := w.parse(d)
		k := key{alone: d.ID}
		if len(p.events) > 0 && p.events[0].Number != 0 {
			k = key{host: d.Host, repository: p.events[0].Repository.ExternalID, number: p.events[0].Number}
		}
		i, ok := at[k]
		if !ok {
			i = len(queues)
			at[k] = i
			queues = append(queues, nil)
		}
		queues[i] = append(queues[i], p)
	}
	return queues
}

func (w *Worker) parse(d bot.Delivery) (p parsed) {
	p.Delivery = d
	defer func() {
		if caught := recover(); caught != nil {
			p.events, p.err = nil, fmt.Errorf("reading it panicked: %v", caught)
		}
	}()
	hooks, ok := w.config.Webhooks[d.Host]
	if !ok {
		p.err = fmt.Errorf("the host %q is not in the configuration", d.Host)
		return p
	}
	p.events, p.why, p.err = hooks.Parse(d.Event, d.Payload)
	return p
}

// outcome applies one delivery and says how that ended.
func (w *Worker) outcome(ctx context.Context, d parsed) bot.DeliveryOutcome {
	log := w.config.Logger.With("host", d.Host, "delivery", d.Key, "event", d.Event)
	if d.err != nil {
		// The payload stays what it is: trying again cannot help, a newer version can.
		log.Error("could not read a delivery", "error", d.err)
		return bot.DeliveryOutcome{Status: bot.DeliveryFailed, Error: clip("could not be read: " + d.err.Error())}
	}
	if len(d.events) == 0 {
		return bot.DeliveryOutcome{Status: bot.DeliveryIgnored, Error: clip(d.why)}
	}
	for _, event := range d.events {
		err := w.apply(ctx, d.Key, event)
		if err == nil {
			continue
		}
		limited, isLimited := errors.AsType[*bot.RateLimitedError](err)
		switch {
		case errors.Is(ctx.Err(), context.Canceled):
			// Stopped in the middle: not the delivery's fault, and due at once for whoever comes next.
			return bot.DeliveryOutcome{Status: bot.DeliveryDue, Error: "stopped in the middle"}
		case errors.Is(err, bot.ErrGone):
			log.Info("a delivery is about something that is gone", "error", err)
			return bot.DeliveryOutcome{Status: bot.DeliveryIgnored, Error: clip(err.Error())}
		case isLimited:
			// The host is well and said when to come back: that is no reason to give up, however often it says so.
			return bot.DeliveryOutcome{Status: bot.DeliveryDue, Error: clip(err.Error()), RetryIn: limited.RetryAfter + lease.Jitter(w.config.RetryBase)}
		case d.Attempts >= w.config.MaxAttempts && !errors.Is(err, bot.ErrUnavailable):
			log.Error("gave up a delivery", "attempts", d.Attempts, "error", err)
			return bot.DeliveryOutcome{Status: bot.DeliveryFailed, Error: clip(err.Error())}
		}
		log.Warn("a delivery is tried again", "attempts", d.Attempts, "error", err)
		return bot.DeliveryOutcome{Status: bot.DeliveryDue, Error: clip(err.Error()), RetryIn: w.config.BackOff(d.Attempts)}
	}
	return bot.DeliveryOutcome{Status: bot.DeliveryDone}
}

// apply keeps a panic to the delivery that caused it.
func (w *Worker) apply(ctx context.Context, source string, event bot.Event) (err error) {
	defer func() {
		if caught := recover(); caught != nil {
			err = fmt.Errorf("applying it panicked: %v", caught)
		}
	}()
	return w.config.Apply(ctx, source, event)
}

// finish stores an outcome: a slow database has as long as the lease lasts, since an outcome that is lost is found out only when it ends.
// While stopping it has the grace period.
func (w *Worker) finish(ctx context.Context, d bot.Delivery, outcome bot.DeliveryOutcome) bool {
	storing, cancel := w.config.Storing(ctx)
	defer cancel()
	done, err := w.config.Inbox.FinishDelivery(storing, d.ID, d.Attempts, outcome)
	if err != nil {
		w.config.Logger.Error("could not store the outcome of a delivery", "host", d.Host, "delivery", d.Key, "error", err)
	}
	return done && err == nil
}

// clip keeps an error to what a row takes.
func clip(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), 1000)], "")
}
