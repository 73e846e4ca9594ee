package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// Config is what a Sender needs. Zero numbers and durations have defaults.
type Config struct {
	Store       Store
	Hosts       map[string]bot.Host // by configured name
	Git         bot.Git
	Limit       int           // errands claimed at once; default 32
	Parallel    int           // errands done at once; default 4
	Lease       time.Duration // how long a claimed errand is ours; default 2 min
	MaxAttempts int           // then an errand is given up; default 40
	RetryBase   time.Duration // pause after the first failure, doubled each time; default 5 s
	RetryLimit  time.Duration // longest pause; default 30 min
	Poll        time.Duration // between looks without a nudge; default 5 s
	Grace       time.Duration // how long an errand may go on after a stop; default 5 s
	Logger      *slog.Logger  // nil: silent
}

// Sender does errands. Any number of senders may share an outbox.
type Sender struct {
	config Config
	wake   chan struct{}
}

// New returns a sender with the defaults filled in.
func New(c Config) *Sender {
	set(&c.Limit, 32)
	set(&c.Parallel, 4)
	set(&c.Lease, 2*time.Minute)
	set(&c.MaxAttempts, 40)
	set(&c.RetryBase, 5*time.Second)
	set(&c.RetryLimit, 30*time.Minute)
	set(&c.Poll, 5*time.Second)
	set(&c.Grace, 5*time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Sender{config: c, wake: make(chan struct{}, 1)}
}

func set[T int | time.Duration](value *T, fallback T) {
	if *value <= 0 {
		*value = fallback
	}
}

// Nudge asks for a look at the outbox soon. It never blocks.
func (s *Sender) Nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run sends until ctx ends. What is under way then may go on for the grace period.
func (s *Sender) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		case <-timer.C:
		}
		for ctx.Err() == nil {
			sent, err := s.RunOnce(ctx)
			if err != nil && ctx.Err() == nil {
				s.config.Logger.Error("could not claim errands", "error", err)
			}
			if err != nil || sent.Claimed < s.config.Limit {
				break
			}
		}
		timer.Reset(s.config.Poll)
	}
}

// Sent says what one look at the outbox did.
type Sent struct {
	Claimed   int
	Done      int
	Postponed int // due again later
	GivenUp   int
	Lost      int // the outcome could not be stored: due again when the lease ends
}

// RunOnce claims due errands once and does them. An error means that nothing could be claimed.
func (s *Sender) RunOnce(ctx context.Context) (Sent, error) {
	claimed := time.Now()
	errands, err := s.config.Store.ClaimErrands(ctx, s.config.Limit, s.config.Lease)
	if err != nil {
		return Sent{}, fmt.Errorf("claiming errands: %w", err)
	}
	work, cancel := context.WithDeadline(context.WithoutCancel(ctx), claimed.Add(s.config.Lease*9/10))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(s.config.Grace, cancel) })
	defer stop()

	result := Sent{Claimed: len(errands)}
	var mu sync.Mutex
	var group sync.WaitGroup
	slots := make(chan struct{}, s.config.Parallel)
	for _, e := range errands {
		slots <- struct{}{}
		if ctx.Err() != nil || work.Err() != nil {
			break // the rest is due again when the lease ends
		}
		group.Go(func() {
			defer func() { <-slots }()
			verdict := s.judge(work, e, s.do(work, e))
			stored := s.finish(ctx, e, verdict)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case !stored:
				result.Lost++
			case verdict.giveUp:
				result.GivenUp++
			case verdict.after > 0:
				result.Postponed++
			default:
				result.Done++
			}
		})
	}
	group.Wait()
	return result, nil
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
		return verdict{after: max(limited.RetryAfter, time.Second) + jitter(s.config.RetryBase), reason: err.Error()}
	case errors.Is(err, bot.ErrGone), errors.Is(err, bot.ErrNotFound), errors.Is(err, errPointless), e.Attempts >= s.config.MaxAttempts:
		log.Warn("gave up an errand", "attempts", e.Attempts, "error", err)
		return verdict{giveUp: true, reason: err.Error()}
	}
	log.Warn("an errand is tried again", "attempts", e.Attempts, "error", err)
	return verdict{after: backoff(e.Attempts, s.config.RetryBase, s.config.RetryLimit), reason: err.Error()}
}

// finish stores what became of an errand: a slow database has as long as the lease lasts, since an outcome that is lost is found out only
// when it ends. While stopping it has the grace period.
func (s *Sender) finish(ctx context.Context, e bot.Errand, v verdict) bool {
	storing, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.config.Lease)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(s.config.Grace, cancel) })
	defer stop()
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

// backoff doubles base for every attempt after the first, up to limit, and spreads it by a quarter either way.
func backoff(attempts int, base, limit time.Duration) time.Duration {
	d := base
	for i := 1; i < attempts && d < limit; i++ {
		d *= 2
	}
	d = min(d, limit)
	return d*3/4 + jitter(d/2)
}

func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d)
}
