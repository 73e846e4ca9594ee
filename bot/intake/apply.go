package intake

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// ApplierConfig is what an Applier needs. Functions that are nil do nothing, or what their comment says.
type ApplierConfig struct {
	Hosts   map[string]bot.Host // by configured name
	Git     bot.Git             // asked what forks change
	Records Records
	// ParseSettings reads the repository file. Its errors are shown to people.
	ParseSettings func(content []byte, defaultBranch string) (bot.RepositorySettings, error)
	Nudge         func(queueID int64) // something changed for a queue; must not block
	NudgeOutbox   func()              // something is to be said; must not block
	// Order carries out an operator's word about a batch; nil: there is nobody to do it.
	Order func(ctx context.Context, order bot.OperatorOrder) (bot.OperatorAnswer, error)
	// Curated is where curated batches are drafted and decided; nil: they are not available.
	Curated CuratedDesk
	// Trains holds the seats; nil: trains are not available.
	Trains Trains
	// OpenTrains opens the trains the file of a queue names and that are not open yet; nil: those that are open are all there are.
	OpenTrains func(ctx context.Context, queue bot.Queue) error

	NewID     func() string // operation ids; nil: random UUIDs
	ExpiresIn time.Duration // how long an operation waits for approval; 0: 30 days
	Logger    *slog.Logger  // nil: silent
}

// Applier turns events into operations. Doing the same event twice equals doing it once.
type Applier struct {
	ApplierConfig
}

// NewApplier returns an applier with the defaults filled in.
func NewApplier(c ApplierConfig) *Applier {
	if c.Nudge == nil {
		c.Nudge = func(int64) {}
	}
	if c.NudgeOutbox == nil {
		c.NudgeOutbox = func() {}
	}
	if c.NewID == nil {
		c.NewID = newUUID
	}
	if c.ExpiresIn <= 0 {
		c.ExpiresIn = 30 * 24 * time.Hour
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Applier{c}
}

// newUUID is a random UUID (version 4).
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Apply applies one event; source is the key of the delivery it came from. An error means that it is to be applied again later,
// one that wraps bot.ErrGone that there is no use in that.
func (a *Applier) Apply(ctx context.Context, source string, e bot.Event) error {
	if e.Kind == bot.EventInstallation {
		return a.installation(ctx, e.Installation)
	}
	if e.Kind == bot.EventComment && (e.Comment == nil || !holdsCommand(*e.Comment)) {
		return nil // by far the most comments: nothing is read or written for them
	}
	repo, ok, err := a.repository(ctx, e.Repository, e.Kind == bot.EventComment, e.Kind == bot.EventRepository)
	if err != nil || !ok {
		return err
	}
	switch e.Kind {
	case bot.EventComment:
		_, err := a.Comment(ctx, repo, *e.Comment, source)
		return err
	case bot.EventMergeRequest:
		_, err := a.ReconcileMR(ctx, repo, e.Number, source)
		return err
	case bot.EventChecks:
		return a.nudgeWatching(ctx, repo, e.SHA)
	case bot.EventBranch:
		return a.branch(ctx, repo, e.Branch)
	}
	return nil
}

func (a *Applier) host(name string) (bot.Host, error) {
	host, ok := a.Hosts[name]
	if !ok {
		return nil, fmt.Errorf("the host %q is not in the configuration", name)
	}
	return host, nil
}

// repository finds the row of the repository an event names. When the event shows it in another light than the row, when a command names
// one that is not known or was ended, or when reread is set, the host says what is true: events come late and out of order.
// ok false: not ours, or no longer.
func (a *Applier) repository(ctx context.Context, ref bot.RepositoryRef, create, reread bool) (bot.Repository, bool, error) {
	repo, known, err := a.Records.FindRepository(ctx, ref.Host, ref.ExternalID)
	if err != nil {
		return bot.Repository{}, false, fmt.Errorf("finding repository %s: %w", ref.Path, err)
	}
	same := repo.Path == ref.Path && (ref.Installation == 0 || repo.Installation == ref.Installation) &&
		(ref.DefaultBranch == "" || repo.DefaultBranch == ref.DefaultBranch)
	switch {
	case known && repo.Active && same && !reread:
		return repo, true, nil
	case !known && !create, known && !repo.Active && !create && !reread:
		return bot.Repository{}, false, nil
	}
	asked := repo
	asked.RepositoryRef = ref
	if ref.Installation == 0 {
		asked.Installation = repo.Installation
	}
	return a.readRepository(ctx, asked, known && repo.Active)
}

// readRepository asks the host about a repository and makes, refreshes or ends its row.
func (a *Applier) readRepository(ctx context.Context, asked bot.Repository, active bool) (bot.Repository, bool, error) {
	host, err := a.host(asked.Host)
	if err != nil {
		return bot.Repository{}, false, err
	}
	now, err := host.ReadRepository(ctx, asked)
	reason := ""
	switch {
	case errors.Is(err, bot.ErrGone), errors.Is(err, bot.ErrNotFound):
		reason = "it was deleted, moved away or taken from the installation; install the app there again"
	case err != nil:
		return bot.Repository{}, false, fmt.Errorf("reading repository %s: %w", asked.Path, err)
	case now.Archived:
		reason = "it is archived; unarchive it to go on"
	}
	if reason != "" {
		if !active {
			return bot.Repository{}, false, nil
		}
		a.Logger.Info("a repository ended", "host", asked.Host, "repo", asked.Path, "reason", reason)
		err := a.Records.DeactivateRepositories(ctx, asked.Host, asked.Installation, []int64{asked.ExternalID}, reason)
		if err != nil {
			return bot.Repository{}, false, fmt.Errorf("ending repository %s: %w", asked.Path, err)
		}
		return bot.Repository{}, false, nil
	}
	if now.Installation == 0 {
		now.Installation = asked.Installation
	}
	repo, err := a.Records.UpsertRepository(ctx, now.RepositoryRef)
	if err != nil {
		return bot.Repository{}, false, fmt.Errorf("storing repository %s: %w", now.Path, err)
	}
	return repo, true, nil
}

func (a *Applier) installation(ctx context.Context, change *bot.InstallationChange) error {
	if change == nil {
		return nil
	}
	log := a.Logger.With("host", change.Host, "installation", change.Installation)
	switch {
	case change.RemovedAll:
		log.Info("an installation ended")
		err := a.Records.DeactivateRepositories(ctx, change.Host, change.Installation, nil, "the app was uninstalled or suspended; install it again to go on")
		if err != nil {
			return fmt.Errorf("ending the repositories of installation %d: %w", change.Installation, err)
		}
		return nil
	case len(change.Removed) > 0:
		ids := make([]int64, len(change.Removed))
		for i, ref := range change.Removed {
			ids[i] = ref.ExternalID
		}
		log.Info("repositories left an installation", "count", len(ids))
		err := a.Records.DeactivateRepositories(ctx, change.Host, change.Installation, ids, "it was taken from the installation; add it again to go on")
		if err != nil {
			return fmt.Errorf("ending repositories of installation %d: %w", change.Installation, err)
		}
	}
	for _, ref := range change.Added {
		if _, err := a.Records.UpsertRepository(ctx, ref); err != nil {
			return fmt.Errorf("storing repository %s: %w", ref.Path, err)
		}
	}
	if change.ReadAll {
		return a.ListRepositories(ctx, change.Host)
	}
	return nil
}

// ListRepositories makes the rows of a host's repositories what the host says now.
func (a *Applier) ListRepositories(ctx context.Context, hostName string) error {
	host, err := a.host(hostName)
	if err != nil {
		return err
	}
	known, err := a.Records.ActiveRepositories(ctx, hostName)
	if err != nil {
		return fmt.Errorf("listing the known repositories of %s: %w", hostName, err)
	}
	refs, err := host.ListRepositories(ctx)
	if err != nil {
		return fmt.Errorf("listing the repositories of %s: %w", hostName, err)
	}
	listed := make(map[int64]bool, len(refs))
	for _, ref := range refs {
		listed[ref.ExternalID] = true
		if _, err := a.Records.UpsertRepository(ctx, ref); err != nil {
			return fmt.Errorf("storing repository %s: %w", ref.Path, err)
		}
	}
	for _, repo := range known {
		if listed[repo.ExternalID] {
			continue
		}
		// A list may be short for reasons of its own: only the host's word on the very repository ends it.
		if _, _, err := a.readRepository(ctx, repo, true); err != nil {
			return err
		}
	}
	return nil
}

// nudgeWatching wakes the queues whose batch is about sha; empty: all of the repository with a batch.
func (a *Applier) nudgeWatching(ctx context.Context, repo bot.Repository, sha string) error {
	queues, err := a.Records.QueuesWatching(ctx, repo.ID, sha)
	if err != nil {
		return fmt.Errorf("finding the queues of %s that watch %s: %w", repo.Path, bot.ShortSHA(sha), err)
	}
	for _, id := range queues {
		a.Nudge(id)
	}
	return nil
}

// branch handles a branch that moved: the repository file on a target may be another one, and a batch may have to be built anew.
func (a *Applier) branch(ctx context.Context, repo bot.Repository, branch string) error {
	if strings.HasPrefix(branch, bot.BatchBranchPrefix) {
		return a.nudgeWatching(ctx, repo, "")
	}
	queue, ok, err := a.Records.FindQueue(ctx, repo.ID, branch)
	if err != nil {
		return fmt.Errorf("finding the queue of %s of %s: %w", branch, repo.Path, err)
	}
	if !ok {
		return nil // made by the first command that needs it
	}
	// Nudged first: a batch does not wait for a file that cannot be read.
	a.Nudge(queue.ID)
	found, err := a.queue(ctx, repo, branch)
	if err != nil {
		return err
	}
	if found.refusal != "" || found.note != "" {
		a.Logger.Warn("a queue keeps its settings, because the repository file does not say better", "host", repo.Host, "repo", repo.Path, "queue", queue.ID)
	}
	return nil
}
