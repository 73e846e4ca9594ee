package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/fault"
	"github.com/batchbot/batchbot/bot/lease"
)

// Config is what a Sender needs.
type Config struct {
	lease.Pace // what is not set has defaults: 32 errands for 2 min, 8 of a host at once, 40 attempts between 5 s and 30 min
	Store      Store
	Hosts      map[string]bot.Host // by configured name
	Git        bot.Git
	Reminders  Reminders                                      // nil: reminders are given up
	Revisit    func(ctx context.Context, batchID int64) error // looks at the MR of a batch that is over
	Logger     *slog.Logger                                   // nil: silent
}

// Sender does errands. Any number of senders may share an outbox.
type Sender struct {
	lease.Bell
	config Config
	crew   *lease.Crew
}

// New returns a sender with the defaults filled in.
func New(c Config) *Sender {
	c.Pace = c.Pace.Or(lease.Pace{
		Limit: 32, Parallel: 8, Lease: 2 * time.Minute, MaxAttempts: 40,
		RetryBase: 5 * time.Second, RetryLimit: 30 * time.Minute, Poll: 5 * time.Second, Patience: 2 * time.Second, Grace: 5 * time.Second,
	})
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Sender{Bell: lease.NewBell(), config: c, crew: lease.NewCrew(c.Parallel, 4*c.Limit)}
}

// Run sends until ctx ends. What is under way then may go on for the grace period. Errands of a repository whose host hangs keep nobody waiting.
func (s *Sender) Run(ctx context.Context) {
	var passes sync.WaitGroup
	defer passes.Wait()
	s.Bell.Run(ctx, s.config.Poll, func() bool {
		p, err := s.begin(ctx)
		if err != nil {
			if ctx.Err() == nil {
				s.config.Logger.Error("could not claim errands", "error", err)
			}
			return false
		}
		passes.Go(func() { p.Wait() })
		lease.Wait(p.Fresh(), s.config.Patience)
		return p.Claimed == s.config.Limit
	})
}

// Sent says what one look at the outbox did.
type Sent struct {
	Claimed   int
	Done      int
	Postponed int // due again later
	GivenUp   int
	Lost      int // the outcome could not be stored: due again when the lease ends
}

// RunOnce claims due errands once, does them and waits for the last one. An error means that nothing could be claimed.
func (s *Sender) RunOnce(ctx context.Context) (Sent, error) {
	p, err := s.begin(ctx)
	if err != nil {
		return Sent{}, err
	}
	return p.Wait(), nil
}

// count adds what became of one errand.
func (n *Sent) count(v verdict, stored bool) {
	switch {
	case !stored:
		n.Lost++
	case v.giveUp:
		n.GivenUp++
	case v.after > 0:
		n.Postponed++
	default:
		n.Done++
	}
}

// begin claims due errands and starts to do them.
func (s *Sender) begin(ctx context.Context) (*lease.Pass[Sent], error) {
	claimed := time.Now()
	errands, err := s.config.Store.ClaimErrands(ctx, s.config.Limit, s.config.Lease)
	if err != nil {
		return nil, fmt.Errorf("claiming errands: %w", err)
	}
	work, cancel := s.config.During(ctx, claimed)
	p := lease.NewPass(len(errands), Sent{Claimed: len(errands)}, cancel)
	lanes := make([]lease.Lane, len(errands))
	for i, e := range errands {
		place := lease.Place{Host: e.Repository.Host, Repository: e.Repository.ID}
		do := func() verdict {
			fault.Before(fault.Errand)
			v := s.judge(work, e, s.do(work, e))
			fault.After(fault.Errand)
			return v
		}
		if s.crew.Crowded(place) {
			place = lease.Place{} // nobody is asked
			do = func() verdict {
				return verdict{after: max(s.config.BackOff(e.Attempts), s.config.Lease), reason: "earlier errands of its repository still wait for the host"}
			}
		}
		lanes[i] = lease.Lane{Place: place, Work: func() {
			if ctx.Err() != nil || work.Err() != nil {
				return // due again when the lease ends
			}
			v := do()
			stored := s.finish(ctx, e, v)
			p.Count(func(sum *Sent) { sum.count(v, stored) })
		}}
	}
	p.Begin(work, s.crew, lanes)
	return p, nil
}

// verdict says what becomes of an errand that was tried. The zero value: done.
type verdict struct {
	after  time.Duration // > 0: try again
	giveUp bool
	reason string
}

// putOff is the outcome of an errand that is not due yet.
type putOff struct {
	after  time.Duration
	reason string
}

func (p putOff) Error() string { return p.reason }

// errPointless marks an errand that cannot be done, whatever is tried.
var errPointless = errors.New("given up")

func (s *Sender) judge(ctx context.Context, e bot.Errand, err error) verdict {
	log := s.config.Logger.With("host", e.Repository.Host, "repo", e.Repository.Path, "mr", e.Number, "errand", e.Kind.String(), "target", e.Target)
	limited, isLimited := errors.AsType[*bot.RateLimitedError](err)
	off, isOff := errors.AsType[putOff](err)
	switch {
	case err == nil:
		return verdict{}
	case errors.Is(ctx.Err(), context.Canceled):
		// Stopped in the middle: not the errand's fault, and due soon for whoever comes next.
		return verdict{after: time.Second, reason: "stopped in the middle"}
	case isOff:
		return verdict{after: max(off.after, time.Second), reason: off.reason}
	case isLimited:
		log.Info("an errand is put off", "error", err)
		return verdict{after: max(limited.RetryAfter, time.Second) + lease.Jitter(s.config.RetryBase), reason: err.Error()}
	case errors.Is(err, bot.ErrGone), errors.Is(err, bot.ErrNotFound), errors.Is(err, errPointless),
		e.Attempts >= s.config.MaxAttempts && !errors.Is(err, bot.ErrUnavailable): // a host in trouble is no reason, however long it takes
		log.Warn("gave up an errand", "attempts", e.Attempts, "error", err)
		return verdict{giveUp: true, reason: err.Error()}
	}
	log.Warn("an errand is tried again", "attempts", e.Attempts, "error", err)
	return verdict{after: s.config.BackOff(e.Attempts), reason: err.Error()}
}

// finish stores what became of an errand: a slow database has as long as the lease lasts, since an outcome that is lost is found out only
// when it ends. While stopping it has the grace period.
func (s *Sender) finish(ctx context.Context, e bot.Errand, v verdict) bool {
	storing, cancel := s.config.Storing(ctx)
	defer cancel()
	var err error
	switch {
	case v.giveUp:
		err = s.config.Store.PostponeErrand(storing, e, 0, v.reason)
	case v.after > 0:
		err = s.config.Store.PostponeErrand(storing, e, v.after, v.reason)
	default:
		err = s.config.Store.FinishErrand(storing, e)
	}
	if err != nil {
		s.config.Logger.Error("could not store the outcome of an errand", "errand", e.Kind.String(), "target", e.Target, "error", err)
	}
	return err == nil
}
