package intake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/lease"
	"github.com/batchbot/batchbot/bot/mutant"
)

// LookerConfig is what a Looker needs. Zero durations have defaults.
type LookerConfig struct {
	Applier  *Applier      // what the look finds goes through it; its hosts and records are looked at
	Base     time.Duration // between looks at a busy repository, and between ticks; default 60 s
	Most     time.Duration // between looks at a quiet one; default 10 min
	Overlap  time.Duration // how far behind the watermark a look begins; default 2 min
	Limit    time.Duration // of one look; default 5 min
	Parallel int           // repositories of one host looked at at once; default 4
	Seldom   time.Duration // between listings of all repositories; default 1 h
	Logger   *slog.Logger  // nil: silent

	// Report is told what every look found; nil: nobody is. It must not block.
	Report func(repo bot.Repository, look Look)
}

// Looker looks at every repository from time to time for what no webhook told: commands, pushes, approvals, closings, the state of
// batches. With every delivery lost the bot is slow, not wrong.
type Looker struct {
	config LookerConfig
	slots  *lease.Slots

	mu    sync.Mutex
	plan  map[int64]schedule  // by repository id
	lists map[string]schedule // by host: when its repositories are listed next
}

// schedule says when something is looked at next.
type schedule struct {
	due      time.Time
	interval time.Duration
	underWay bool // it is looked at now
}

// NewLooker returns a looker with the defaults filled in.
func NewLooker(c LookerConfig) *Looker {
	c.Base = cmp.Or(c.Base, time.Minute)
	c.Most = cmp.Or(c.Most, 10*time.Minute)
	c.Overlap = cmp.Or(c.Overlap, 2*time.Minute)
	c.Limit = cmp.Or(c.Limit, 5*time.Minute)
	c.Parallel = cmp.Or(c.Parallel, 4)
	c.Seldom = cmp.Or(c.Seldom, time.Hour)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Report == nil {
		c.Report = func(bot.Repository, Look) {}
	}
	return &Looker{config: c, slots: lease.NewSlots(c.Parallel), plan: make(map[int64]schedule), lists: make(map[string]schedule)}
}

// Run looks until ctx ends. A look that takes long, because its repository or host hangs, goes on beside those that come after it.
func (l *Looker) Run(ctx context.Context) {
	var looks sync.WaitGroup
	defer looks.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		l.begin(ctx, &looks)
		timer.Reset(l.config.Base)
	}
}

// Tick looks once at every repository that is due, and waits for it. What fails is logged and due again.
func (l *Looker) Tick(ctx context.Context) {
	var looks sync.WaitGroup
	l.begin(ctx, &looks)
	looks.Wait()
}

// begin starts the looks that are due, those of each host by themselves.
func (l *Looker) begin(ctx context.Context, looks *sync.WaitGroup) {
	for name := range l.config.Applier.Hosts {
		looks.Go(func() { l.beginHost(ctx, name, looks) })
	}
}

func (l *Looker) beginHost(ctx context.Context, name string, looks *sync.WaitGroup) {
	a := l.config.Applier
	if take(l, l.lists, name) {
		l.list(ctx, name)
	}
	repos, err := a.Records.ActiveRepositories(ctx, name)
	if err != nil {
		l.config.Logger.Warn("could not read the repositories", "host", name, "error", err)
		return
	}
	for _, repo := range repos {
		if !take(l, l.plan, repo.ID) {
			continue
		}
		looks.Go(func() {
			release, ok := l.slots.Take(ctx, lease.Place{Host: name, Repository: repo.ID})
			if !ok {
				return
			}
			defer release()
			l.look(ctx, repo)
		})
	}
}

// take reports whether something is due, and then keeps it from being looked at twice at once.
func take[K comparable](l *Looker, plan map[K]schedule, what K) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := plan[what]
	if s.underWay || time.Now().Before(s.due) {
		return false
	}
	s.underWay = true
	plan[what] = s
	return true
}

// list brings the rows of a host's repositories in line with what the host lists, and plans the next time: at the next tick if that failed.
func (l *Looker) list(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, l.config.Limit)
	defer cancel()
	next := schedule{}
	if err := l.config.Applier.ListRepositories(ctx, name); err != nil {
		l.config.Logger.Warn("could not list repositories", "host", name, "error", err)
	} else {
		next.due = time.Now().Add(l.config.Seldom)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lists[name] = next
}

// look does one look and plans the next.
func (l *Looker) look(ctx context.Context, repo bot.Repository) {
	ctx, cancel := context.WithTimeout(ctx, l.config.Limit)
	defer cancel()
	log := l.config.Logger.With("host", repo.Host, "repo", repo.Path)
	look, err := l.RunOnce(ctx, repo)
	l.config.Report(repo, look)
	if look.Repairs() > 0 {
		log.Info("a look found what no webhook has told yet", "commands", look.Commands, "moves", look.Moved())
	}
	if isLimited(err) {
		log.Info("a look was put off", "error", err)
	} else if err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		log.Warn("a look failed", "error", err)
	}
	l.next(repo.ID, look, err)
}

// next plans the next look: soon after one that found something, later and later while all is quiet or nothing can be read.
func (l *Looker) next(repository int64, look Look, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.plan[repository]
	switch {
	case look.Repairs() > 0 || s.interval == 0:
		s.interval = l.config.Base
	default:
		s.interval = min(2*s.interval, l.config.Most)
	}
	// Looks at many repositories spread instead of marching together; the tick comes each Base, so a little early is on time.
	pause := s.interval - lease.Jitter(l.config.Base/4)
	if limited, ok := errors.AsType[*bot.RateLimitedError](err); ok {
		pause = max(pause, limited.RetryAfter+lease.Jitter(l.config.Base/4))
	}
	s.due, s.underWay = time.Now().Add(pause), false
	l.plan[repository] = s
}

// Look says what one look at a repository found.
type Look struct {
	Commands int                // handled by this look
	Moves    map[bot.Reason]int // operations that changed, by why
	Watched  int                // queues with a batch that were woken
}

// Repairs is how many things a webhook should have told.
func (l Look) Repairs() int { return l.Commands + l.Moved() }

// Moved is how many operations changed.
func (l Look) Moved() (n int) {
	for _, m := range l.Moves {
		n += m
	}
	return n
}

// clocksDiffer is more than our clock and a host's differ.
const clocksDiffer = time.Hour

// unreadable is how many merge requests in a row cannot be read, where the lists could not be read either, until it is taken for the host's
// trouble: the rest is left to the next look instead of asking a host that does not answer hundreds of times.
const unreadable = 3

// RunOnce looks at one repository once. It goes as far as it can: the error joins what failed. The watermark moves only when
// nothing did, and only to times the host has shown, never to our own clock's.
func (l *Looker) RunOnce(ctx context.Context, repo bot.Repository) (Look, error) {
	if mutant.Is(mutant.Look) {
		return Look{}, nil
	}
	a := l.config.Applier
	host, err := a.host(repo.Host)
	if err != nil {
		return Look{}, err
	}
	look := Look{Moves: make(map[bot.Reason]int)}
	var failed []error
	seen, err := l.comments(ctx, host, repo, &look)
	if errors.Is(err, bot.ErrGone) || errors.Is(err, bot.ErrNotFound) {
		// Renamed, archived, deleted or taken away: the host's word on its id says which.
		if _, ours, readErr := a.readRepository(ctx, repo, true); readErr != nil || !ours {
			return look, readErr
		}
	}
	if isLimited(err) {
		return look, err // whatever else is asked now makes it worse
	}
	if err != nil {
		failed = append(failed, err)
	}
	operations, err := a.Records.FollowedOperations(ctx, repo.ID)
	if err != nil {
		failed = append(failed, fmt.Errorf("reading the operations of %s: %w", repo.Path, err))
	}
	done := make(map[int]bool, len(operations))
	listed, inARow := len(failed) == 0, 0
	for _, op := range operations {
		if done[op.Number] || ctx.Err() != nil {
			continue
		}
		done[op.Number] = true
		moved, err := a.ReconcileMR(ctx, repo, op.Number, "look")
		for _, m := range moved {
			look.Moves[m.Reason]++
		}
		if err == nil {
			inARow = 0
			continue
		}
		failed = append(failed, err)
		if inARow++; isLimited(err) || (!listed && inARow == unreadable) {
			break
		}
	}
	queues, err := a.Records.QueuesWatching(ctx, repo.ID, "")
	if err != nil {
		failed = append(failed, fmt.Errorf("finding the batches of %s: %w", repo.Path, err))
	}
	for _, id := range queues {
		a.Nudge(id)
	}
	look.Watched = len(queues)
	if len(failed) == 0 && ctx.Err() == nil && seen.After(repo.CommentsSeenAt) {
		if err := a.Records.SaveWatermark(ctx, repo.ID, seen); err != nil {
			failed = append(failed, fmt.Errorf("storing up to when %s was looked at: %w", repo.Path, err))
		}
	}
	return look, errors.Join(failed...)
}

// comments carries out the commands written since the watermark and returns up to when the host has shown everything.
//
// A repository never looked at begins at its newest change: what was written before the bot came is not meant for it.
// Merge requests are listed before comments, so that a comment no younger than the newest of them cannot be missing.
func (l *Looker) comments(ctx context.Context, host bot.Host, repo bot.Repository, look *Look) (seen time.Time, err error) {
	seen = repo.CommentsSeenAt
	since := time.Time{}
	if !seen.IsZero() {
		since = seen.Add(-l.config.Overlap)
	}
	mrs, err := host.ListUpdatedMRs(ctx, repo, since)
	if err != nil {
		return seen, fmt.Errorf("listing the merge requests of %s: %w", repo.Path, err)
	}
	newest := seen
	for _, mr := range mrs {
		newest = later(newest, mr.UpdatedAt)
	}
	if newest.IsZero() {
		// No merge request, no command, and no time shown either. What is written from now on is meant for us, though, however long it
		// takes until it can be read: our own clock has to do, less more than clocks differ.
		return time.Now().Add(-clocksDiffer), nil
	}
	if seen.IsZero() {
		since = newest.Add(-l.config.Overlap)
	}
	var failed []error
	apply := func(c bot.Comment) {
		if c.CreatedAt.Before(since) {
			return
		}
		newest = later(newest, c.CreatedAt)
		n, err := l.config.Applier.Comment(ctx, repo, c, "look")
		look.Commands += n
		if err != nil {
			failed = append(failed, err)
		}
	}
	// A host lists only so many at once, oldest first: go on from the newest until nothing new comes.
	known := make(map[int64]bool)
	for from := since; ; {
		list, err := host.ListComments(ctx, repo, from)
		if err != nil {
			return seen, errors.Join(append(failed, fmt.Errorf("listing the comments of %s: %w", repo.Path, err))...)
		}
		fresh := false
		for _, c := range list {
			if known[c.ID] {
				continue
			}
			known[c.ID], fresh = true, true
			from = later(from, c.CreatedAt)
			apply(c)
		}
		if !fresh || ctx.Err() != nil {
			break
		}
	}
	for _, mr := range mrs {
		if mr.UpdatedAt.Before(since) {
			continue
		}
		if strings.HasPrefix(mr.SourceBranch, bot.BatchBranchPrefix) && !mr.FromFork {
			// Open, and maybe of a batch that is over.
			if _, err := l.config.Applier.ReconcileMR(ctx, repo, mr.Number, "look"); err != nil {
				failed = append(failed, err)
			}
		}
		reviews, err := host.ListReviewComments(ctx, repo, mr.Number)
		if err != nil {
			failed = append(failed, fmt.Errorf("listing the reviews of %s#%d: %w", repo.Path, mr.Number, err))
			continue
		}
		for _, c := range reviews {
			apply(c)
		}
	}
	return newest, errors.Join(failed...)
}

func isLimited(err error) bool {
	_, ok := errors.AsType[*bot.RateLimitedError](err)
	return ok
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
