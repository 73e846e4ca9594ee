package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// Store is what reconcile reads, and the guarded writes it asks for. Implemented by store.
type Store interface {
	// ListQueues lists every queue with its repository.
	ListQueues(ctx context.Context) ([]bot.QueueOverview, error)
	// ActiveRepositories lists the active repositories of a host.
	ActiveRepositories(ctx context.Context, host string) ([]bot.Repository, error)
	// FollowedOperations lists the operations of a repository that are PENDING_APPROVAL, WAITING, BATCHED or FAILED.
	FollowedOperations(ctx context.Context, repositoryID int64) ([]bot.Operation, error)
	// StickyView reads a merge request with its status comment.
	StickyView(ctx context.Context, mergeRequestID int64) (bot.StickyView, error)
	// ActiveBatch reads the batch in the queue's slot; ok false: the slot is free.
	ActiveBatch(ctx context.Context, queueID int64) (batch bot.Batch, members []bot.Operation, ok bool, err error)
	// RecordedHeads lists every head ever recorded for a batch.
	RecordedHeads(ctx context.Context, batchID int64) ([]string, error)
	// EndedBatches lists up to limit batches of a queue that ended within age, newest first.
	EndedBatches(ctx context.Context, queueID int64, age time.Duration, limit int) ([]bot.EndedBatch, error)
	// ErrandDue reports whether an errand is still to be done.
	ErrandDue(ctx context.Context, kind bot.ErrandKind, target string) (bool, error)
	// GivenUpErrands lists errands that were given up, in a repository or, when that is 0, everywhere.
	GivenUpErrands(ctx context.Context, repositoryID int64, limit int) ([]bot.GivenUpErrand, error)
	// FailedDeliveries lists deliveries that were given up.
	FailedDeliveries(ctx context.Context, limit int) ([]bot.FailedDelivery, error)

	// Move performs one guarded state change, see bot.Move.
	Move(ctx context.Context, move bot.Move) (bot.MoveResult, error)
	// WantErrand has something said or done on the host.
	WantErrand(ctx context.Context, errand bot.Errand, by, source string) error
	// RetryErrand makes an errand that was given up due again; changed false: it is not given up any more.
	RetryErrand(ctx context.Context, id int64, by, source string) (changed bool, err error)
	// RetryDelivery makes a delivery that was given up due again; changed false: it is not given up any more.
	RetryDelivery(ctx context.Context, id int64, by, source string) (changed bool, err error)
}

// Applier brings rows in line with the host. Implemented by intake.
type Applier interface {
	// Compare says what ReconcileMR would do first, and does nothing.
	Compare(ctx context.Context, repo bot.Repository, number int) (mr bot.MRSnapshot, moves []bot.Move, err error)
	// ReconcileMR brings the operations of one merge request in line with the host; the MR of a batch is looked at again.
	ReconcileMR(ctx context.Context, repo bot.Repository, number int, source string) (moved []bot.Move, err error)
	// RefreshRepository makes, refreshes or ends the row of a repository.
	RefreshRepository(ctx context.Context, repo bot.Repository) error
}

// Config is what a Reconciler needs. Functions that are nil do nothing.
type Config struct {
	Store   Store
	Hosts   map[string]bot.Host // by configured name
	Git     bot.Git
	Applier Applier
	Round   func(ctx context.Context, queueID int64) (again bool, err error) // one tick of a queue

	Recent time.Duration                  // batches that ended longer ago are not looked at any more; 0: a day
	Calm   time.Duration                  // Run leaves a batch that came into its phase less than this ago to its driver; 0: a minute
	Report func(differences []Difference) // called after every run of Run
	Logger *slog.Logger                   // nil: silent
}

// Scope says what is looked at.
type Scope struct {
	QueueID  int64                     // 0: everything
	Progress func(repo bot.Repository) // called before a repository is looked at; nil: nobody waits

	calm time.Duration
}

// Reconciler compares rows and hosts.
type Reconciler struct {
	config Config
	known  map[string]bool // what the last run of Run found
}

// New returns a reconciler with the defaults filled in.
func New(c Config) *Reconciler {
	c.Recent = cmp.Or(c.Recent, 24*time.Hour)
	c.Calm = cmp.Or(c.Calm, time.Minute)
	if c.Report == nil {
		c.Report = func([]Difference) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Reconciler{config: c}
}

const (
	mostBatches = 20  // that are over, looked at in one queue
	mostGivenUp = 500 // errands and deliveries listed
)

// Find lists the differences. It goes as far as it can: the error joins what could not be read.
func (r *Reconciler) Find(ctx context.Context, scope Scope) ([]Difference, error) {
	if scope.Progress == nil {
		scope.Progress = func(bot.Repository) {}
	}
	queues, err := r.config.Store.ListQueues(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the queues: %w", err)
	}
	if scope.QueueID != 0 {
		queues = slices.DeleteFunc(queues, func(q bot.QueueOverview) bool { return q.Queue.ID != scope.QueueID })
		if len(queues) == 0 {
			return nil, fmt.Errorf("queue %d does not exist", scope.QueueID)
		}
	}
	f := &finder{Reconciler: r, Scope: scope, all: scope.QueueID == 0}
	for _, name := range slices.Sorted(maps.Keys(r.config.Hosts)) {
		if err := ctx.Err(); err != nil {
			f.failed = append(f.failed, err)
			break
		}
		f.host(ctx, name, queues)
	}
	if f.all {
		f.deliveries(ctx)
	}
	return f.found, errors.Join(f.failed...)
}

// finder is one run of Find.
type finder struct {
	*Reconciler
	Scope
	all    bool
	found  []Difference
	failed []error
}

func (f *finder) add(d Difference) { f.found = append(f.found, d) }

// fails notes an error and reports whether there was one.
func (f *finder) fails(err error) bool {
	if err != nil {
		f.failed = append(f.failed, err)
	}
	return err != nil
}

// host looks at the repositories of one host: at all of them, or at that of the one queue.
func (f *finder) host(ctx context.Context, name string, queues []bot.QueueOverview) {
	repos, err := f.config.Store.ActiveRepositories(ctx, name)
	if f.fails(err) {
		return
	}
	of := make(map[int64][]bot.QueueOverview)
	for _, q := range queues {
		of[q.Queue.RepositoryID] = append(of[q.Queue.RepositoryID], q)
	}
	if f.all {
		f.unknown(ctx, name, repos)
	}
	for _, repo := range repos {
		if !f.all && len(of[repo.ID]) == 0 || ctx.Err() != nil {
			continue
		}
		f.Progress(repo)
		if ended, err := f.repository(ctx, f.config.Hosts[name], repo); f.fails(err) || ended {
			continue // whatever else is asked about it fails the same way
		}
		f.operations(ctx, f.config.Hosts[name], repo, of[repo.ID])
		for _, q := range of[repo.ID] {
			f.batch(ctx, f.config.Hosts[name], q)
			f.ended(ctx, f.config.Hosts[name], q)
		}
		f.errands(ctx, repo)
	}
}

// Mend has everything mended that can be, as far as the actor's word goes, and fills in the outcomes.
func (r *Reconciler) Mend(ctx context.Context, found []Difference, by Actor) {
	done := make(map[string]error)
	for i := range found {
		d := &found[i]
		if d.mend == nil || d.operator && !by.Operator {
			d.Outcome = Left
			continue
		}
		err, tried := done[d.task]
		if !tried {
			err = d.mend(ctx, by)
			done[d.task] = err
		}
		if d.Outcome = Mended; err != nil {
			d.Outcome, d.Error = Failed, err.Error()
		}
	}
}

// Check finds once more, and takes the word back of what was mended and is still there.
func (r *Reconciler) Check(ctx context.Context, mended []Difference, scope Scope) error {
	again, err := r.Find(ctx, scope)
	still := make(map[string]bool, len(again))
	for _, d := range again {
		still[d.same()] = true
	}
	for i := range mended {
		if d := &mended[i]; d.Outcome == Mended && still[d.same()] {
			d.Outcome, d.Error = Failed, "it is still there"
		}
	}
	return err
}

// Run finds and mends once, as the scheduled job does: a person who has to act is told once of each difference, in the log. Of several instances one at a
// time should; that saves work, nothing depends on it.
func (r *Reconciler) Run(ctx context.Context) (summary string, err error) {
	found, err := r.Find(ctx, Scope{calm: r.config.Calm})
	r.Mend(ctx, found, Actor{By: "batchbot", Source: "reconcile"})
	known := make(map[string]bool, len(found))
	mended := 0
	for _, d := range found {
		known[d.same()] = true
		if d.Outcome == Mended {
			mended++
		}
		if r.known[d.same()] && d.Outcome == Left {
			continue // it was said
		}
		r.config.Logger.Warn("rows and host differ", "kind", string(d.Kind), "host", d.Host, "repo", d.Repo, "queue", d.Queue, "mr", d.MR, "batch", d.Batch,
			"operation", d.Operation, "rows", d.Rows, "found", d.Found, "outcome", string(d.Outcome), "remedy", d.Remedy, "error", d.Error)
	}
	r.known = known
	r.config.Report(found)
	if len(found) > 0 {
		summary = fmt.Sprintf("differences: %d, mended: %d", len(found), mended)
	}
	if err != nil {
		err = fmt.Errorf("not everything could be compared: %w", err)
	}
	return summary, err
}
