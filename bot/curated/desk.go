package curated

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// Store is what the desk reads and writes. Implemented by store.
type Store interface {
	// ReadQueue reads a queue with its repository.
	ReadQueue(ctx context.Context, queueID int64) (bot.Queue, bot.Repository, error)
	// CurrentOperations lists the current operation of every target a merge request was applied to, newest first.
	CurrentOperations(ctx context.Context, repositoryID int64, number int) ([]bot.OperationView, error)

	// ReadCurated reads a set with its rows; ok false: there is none of this id.
	ReadCurated(ctx context.Context, id int64) (view bot.CuratedView, ok bool, err error)
	// CuratedOf finds the set drafted on a merge request that is not over; ok false: there is none.
	CuratedOf(ctx context.Context, mergeRequestID int64) (set bot.Curated, ok bool, err error)
	// ListCurated lists sets, newest first.
	ListCurated(ctx context.Context, filter bot.CuratedFilter) ([]bot.CuratedView, error)
	// SaveCurated makes a draft or replaces the rows of one.
	SaveCurated(ctx context.Context, save bot.CuratedSave) (bot.CuratedResult, error)
	// SubmitCurated commits the rows that were checked, guarded by their version.
	SubmitCurated(ctx context.Context, submission bot.CuratedSubmission) (bot.CuratedResult, error)
	// DecideCurated approves, rejects or cancels; an approval admits every member in the same transaction.
	DecideCurated(ctx context.Context, decision bot.CuratedDecision) (bot.CuratedResult, error)
}

// Config is what a Desk needs.
type Config struct {
	Store       Store
	Hosts       map[string]bot.Host // by configured name
	Git         bot.Git             // for the dry merge, and asked what forks change
	NudgeQueue  func(queueID int64) // a set was admitted; must not block; nil: nobody
	NudgeOutbox func()              // something is to be said; must not block; nil: nobody
	NewID       func() string       // operation ids
	ExpiresIn   time.Duration       // how long the operation of a member waits for approval should it ever do so; 0: 30 days
	Logger      *slog.Logger        // nil: silent
}

// Desk is where curated batches are drafted, submitted and decided. Any number of instances may serve the same sets.
type Desk struct {
	Config
}

// New returns a desk with the defaults filled in.
func New(c Config) *Desk {
	if c.NudgeQueue == nil {
		c.NudgeQueue = func(int64) {}
	}
	if c.NudgeOutbox == nil {
		c.NudgeOutbox = func() {}
	}
	if c.ExpiresIn <= 0 {
		c.ExpiresIn = 30 * 24 * time.Hour
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Desk{c}
}

// Asker is who asks, with what makes the request count once.
type Asker struct {
	Name    string          // login, or "api:NAME": what rows and people read
	Actor   bot.Actor       // on the host; zero through the API
	May     bool            // known to have write access, or what counts as such, say the role of a token; false: the host is asked where it matters
	Source  string          // delivery or API request, for the audit
	Command *bot.CommandRef // of these two one at most
	Request *bot.APIRequest
}

// Outcome is what became of a request at the desk.
type Outcome int

// The outcomes. The zero value is invalid. Only Done changed anything.
const (
	Done             Outcome = iota + 1
	Refused                  // Problems says why
	Forbidden                // Reason says why this asker may not
	NotFound                 // there is no such set
	Changed                  // it changed while it was looked at: read it again, and ask again
	AlreadySubmitted         // submitted before: a duplicate is rejected, not replayed
	AlreadyDecided           // approved, rejected, cancelled or landed before
	NotSubmitted             // to be approved or rejected, and still a draft
	Duplicate                // this very command or API request was handled before
	Superseded               // a later command of the same merge request was handled before this one
	RetryLater               // somebody wrote at the same moment and is not visible yet
)

// Result is the outcome of a request.
type Result struct {
	Outcome  Outcome
	View     bot.CuratedView      // the set as it stands now; zero where there is none
	Problems []bot.CuratedProblem // Refused: all of them, by row
	Reason   string               // Forbidden: a sentence's worth for people, without a final stop
}

// Draft is a complete set of rows, for a new set or to replace those of one.
type Draft struct {
	ID             int64 // 0: make one
	QueueID        int64 // when made
	MergeRequestID int64 // when made: the merge request it is drafted on, whose set it replaces if there is one that may be edited; 0: none
	Version        int64 // the version the rows were edited at; 0: whatever it is
	Rows           []bot.CuratedRow
}

// MinRows is the fewest rows a set is submitted with. One merge request needs no set: applied by itself it lands with whatever else waits, and
// a set of one would only make it ride alone.
const MinRows = 2

// Save makes a draft, or replaces the rows of one; a rejected set becomes a draft again. Nothing is asked of the host: a draft may hold
// whatever is being edited. Whether the asker may edit it is the caller's to judge.
func (d *Desk) Save(ctx context.Context, who Asker, draft Draft) (Result, error) {
	view, ok, err := d.draftOn(ctx, draft)
	if err != nil || !ok {
		return Result{Outcome: NotFound}, err
	}
	if problems := checkNumbers(draft.Rows); len(problems) > 0 {
		return Result{Outcome: Refused, View: view, Problems: problems}, nil
	}
	result, err := d.Store.SaveCurated(ctx, bot.CuratedSave{
		ID: draft.ID, QueueID: draft.QueueID, MergeRequestID: draft.MergeRequestID, Version: draft.Version, Rows: draft.Rows,
		By: who.Name, Source: who.Source, Command: who.Command, Request: who.Request,
	})
	if err != nil {
		return Result{}, fmt.Errorf("saving %s: %w", named(view), err)
	}
	return d.written(ctx, who, view, result, "saved")
}

// draftOn reads what a draft is of; ok false: the set does not exist.
func (d *Desk) draftOn(ctx context.Context, draft Draft) (view bot.CuratedView, ok bool, err error) {
	if draft.ID != 0 {
		return d.Read(ctx, draft.ID)
	}
	view.Queue, view.Repository, err = d.Store.ReadQueue(ctx, draft.QueueID)
	if err != nil {
		return view, false, fmt.Errorf("reading queue %d: %w", draft.QueueID, err)
	}
	return view, true, nil
}

// Submit commits a draft with the heads its members have now, if every check passes. version is the one the asker saw; 0: whatever it is.
// Whether the asker may submit it is the caller's to judge.
func (d *Desk) Submit(ctx context.Context, who Asker, id, version int64) (Result, error) {
	view, ok, err := d.Read(ctx, id)
	if err != nil || !ok {
		return Result{Outcome: NotFound}, err
	}
	set := view.Curated
	if result, over := unsubmittable(view, version); over {
		return result, nil
	}
	checked, problems, err := d.check(ctx, view, false)
	if err != nil {
		return Result{}, fmt.Errorf("checking %s: %w", named(view), err)
	}
	if len(problems) > 0 {
		return d.refused(ctx, view, problems, unsubmittable)
	}
	submission := bot.CuratedSubmission{ID: id, Version: set.Version, By: who.Name, Source: who.Source, Command: who.Command, Request: who.Request}
	for _, m := range checked {
		m.row.HeadSHA = m.mr.HeadSHA
		submission.Rows = append(submission.Rows, m.row)
	}
	result, err := d.Store.SubmitCurated(ctx, submission)
	if err != nil {
		return Result{}, fmt.Errorf("submitting %s: %w", named(view), err)
	}
	return d.written(ctx, who, view, result, "submitted")
}

func unsubmittable(view bot.CuratedView, version int64) (result Result, over bool) {
	switch status := view.Curated.Status; {
	case status == bot.CuratedPendingApproval:
		return Result{Outcome: AlreadySubmitted, View: view}, true
	case status != bot.CuratedDraft:
		return Result{Outcome: AlreadyDecided, View: view}, true
	case version != 0 && version != view.Curated.Version:
		return Result{Outcome: Changed, View: view}, true
	}
	return Result{}, false
}

// refused tells what the checks of a set found, unless the set itself went on meanwhile: whoever comes second at the same moment would be told that its
// members are busy, with this very set. over says what to answer to a set as it is now.
func (d *Desk) refused(ctx context.Context, view bot.CuratedView, problems []bot.CuratedProblem,
	over func(bot.CuratedView, int64) (Result, bool)) (Result, error) {
	now, ok, err := d.Read(ctx, view.Curated.ID)
	if err != nil {
		return Result{}, err
	}
	if ok {
		if result, gone := over(now, view.Curated.Version); gone {
			return result, nil
		}
	}
	return Result{Outcome: Refused, View: view, Problems: problems}, nil
}

// Approve admits a submitted set as one cohort, if every check passes again at the pinned heads and each member has its own approvals there. The
// approver has write access now, and is not the drafter.
func (d *Desk) Approve(ctx context.Context, who Asker, id, version int64) (Result, error) {
	view, ok, err := d.Read(ctx, id)
	if err != nil || !ok {
		return Result{Outcome: NotFound}, err
	}
	set := view.Curated
	if result, over := undecidable(view, version); over {
		return result, nil
	}
	if strings.EqualFold(who.Name, set.Drafter) {
		return Result{Outcome: Forbidden, View: view, Reason: "whoever drafted a set does not approve it: somebody else with write access does"}, nil
	}
	if result, err := d.mayDecide(ctx, who, view); err != nil || result.Outcome == Forbidden {
		return result, err
	}
	checked, problems, err := d.check(ctx, view, true)
	if err != nil {
		return Result{}, fmt.Errorf("checking %s again: %w", named(view), err)
	}
	if len(problems) > 0 {
		return d.refused(ctx, view, problems, undecidable)
	}
	decision := bot.CuratedDecision{
		ID: id, Version: set.Version, To: bot.CuratedApproved, By: who.Name, Source: who.Source, Command: who.Command, Request: who.Request,
	}
	for _, m := range checked {
		decision.Members = append(decision.Members, bot.Application{
			OperationID: d.NewID(), QueueID: view.Queue.ID, Repository: view.Repository, MR: m.mr, Admit: true, Lane: bot.LaneNormal, ExpiresIn: d.ExpiresIn,
		})
	}
	result, err := d.Store.DecideCurated(ctx, decision)
	if err != nil {
		return Result{}, fmt.Errorf("approving %s: %w", named(view), err)
	}
	return d.written(ctx, who, view, result, "approved")
}

// Reject sends a submitted set back, with a reason for people: an approver's no, or the drafter's second thought.
func (d *Desk) Reject(ctx context.Context, who Asker, id, version int64, reason string) (Result, error) {
	return d.end(ctx, who, id, version, bot.CuratedRejected, reason)
}

// Cancel ends a set that is not approved: by whoever drafted it, or somebody with write access. One that is approved ends with any of its members.
// version is the one the asker saw; 0: whatever it is.
func (d *Desk) Cancel(ctx context.Context, who Asker, id, version int64) (Result, error) {
	return d.end(ctx, who, id, version, bot.CuratedCancelled, "")
}

// end rejects or cancels.
func (d *Desk) end(ctx context.Context, who Asker, id, version int64, to bot.CuratedStatus, reason string) (Result, error) {
	view, ok, err := d.Read(ctx, id)
	if err != nil || !ok {
		return Result{Outcome: NotFound}, err
	}
	switch status := view.Curated.Status; {
	case to == bot.CuratedRejected:
		if result, over := undecidable(view, version); over {
			return result, nil
		}
	case status == bot.CuratedApproved, status == bot.CuratedDone, status == bot.CuratedCancelled:
		return Result{Outcome: AlreadyDecided, View: view}, nil
	}
	if !strings.EqualFold(who.Name, view.Curated.Drafter) {
		if result, err := d.mayDecide(ctx, who, view); err != nil || result.Outcome == Forbidden {
			return result, err
		}
	}
	result, err := d.Store.DecideCurated(ctx, bot.CuratedDecision{
		ID: id, Version: version, To: to, Reason: reason, By: who.Name, Source: who.Source, Command: who.Command, Request: who.Request,
	})
	if err != nil {
		return Result{}, fmt.Errorf("making %s %s: %w", named(view), to, err)
	}
	return d.written(ctx, who, view, result, strings.ToLower(to.String()))
}

// undecidable answers an approval or rejection of a set that does not wait for one.
func undecidable(view bot.CuratedView, version int64) (result Result, over bool) {
	switch status := view.Curated.Status; {
	case status == bot.CuratedDraft:
		return Result{Outcome: NotSubmitted, View: view}, true
	case status != bot.CuratedPendingApproval:
		return Result{Outcome: AlreadyDecided, View: view}, true
	case version != 0 && version != view.Curated.Version:
		return Result{Outcome: Changed, View: view}, true
	}
	return Result{}, false
}

// mayDecide asks the host, at the moment of use, whether the asker has write access.
func (d *Desk) mayDecide(ctx context.Context, who Asker, view bot.CuratedView) (Result, error) {
	if who.May {
		return Result{}, nil
	}
	refused := Result{Outcome: Forbidden, View: view, Reason: "only people with write access decide about a set"}
	if who.Actor.Login == "" {
		return refused, nil
	}
	host, err := d.host(view)
	if err != nil {
		return Result{}, err
	}
	permission, err := host.Permission(ctx, view.Repository, who.Actor)
	switch {
	case errors.Is(err, bot.ErrNotFound), err == nil && !permission.AtLeast(bot.PermissionWrite):
		return refused, nil
	case err != nil:
		return Result{}, fmt.Errorf("reading the permission of %s: %w", who.Actor.Login, err)
	}
	return Result{}, nil
}

// written translates what the store did, and wakes who has to know.
func (d *Desk) written(ctx context.Context, who Asker, view bot.CuratedView, result bot.CuratedResult, did string) (Result, error) {
	outcomes := map[bot.CuratedOutcome]Outcome{
		bot.CuratedWritten: Done, bot.CuratedChanged: Changed, bot.CuratedAlreadySubmitted: AlreadySubmitted, bot.CuratedAlreadyDecided: AlreadyDecided,
		bot.CuratedNotSubmitted: NotSubmitted, bot.CuratedMemberBusy: Refused, bot.CuratedDuplicate: Duplicate, bot.CuratedSuperseded: Superseded,
		bot.CuratedRetryLater: RetryLater,
	}
	r := Result{Outcome: outcomes[result.Outcome], View: view}
	if result.Curated.ID != 0 {
		r.View.Curated = result.Curated
	}
	if r.View.Curated.QueueID != 0 && r.View.Curated.QueueID != view.Queue.ID { // what was drafted replaced a set of another queue
		var err error
		if r.View.Queue, r.View.Repository, err = d.Store.ReadQueue(ctx, r.View.Curated.QueueID); err != nil {
			return Result{}, fmt.Errorf("reading queue %d: %w", r.View.Curated.QueueID, err)
		}
	}
	switch r.Outcome {
	case Refused: // a member got busy behind its check
		r.Problems = []bot.CuratedProblem{{Kind: bot.ProblemBusy, Text: result.Detail}}
	case Done:
		d.NudgeOutbox()
		if r.View.Curated.Status == bot.CuratedApproved {
			d.NudgeQueue(r.View.Queue.ID)
		}
		d.Logger.Info("a curated batch was "+did, "host", r.View.Repository.Host, "repo", r.View.Repository.Path, "queue", r.View.Queue.ID,
			"curated", r.View.Curated.ID, "rows", len(r.View.Curated.Rows), "by", who.Name, "delivery", who.Source)
	}
	return r, nil
}

// Read reads a set; ok false: there is none.
func (d *Desk) Read(ctx context.Context, id int64) (view bot.CuratedView, ok bool, err error) {
	if view, ok, err = d.Store.ReadCurated(ctx, id); err != nil {
		return view, false, fmt.Errorf("reading curated batch %d: %w", id, err)
	}
	return view, ok, nil
}

// Of finds the set drafted on a merge request that is not over; ok false: there is none.
func (d *Desk) Of(ctx context.Context, mergeRequestID int64) (set bot.Curated, ok bool, err error) {
	if set, ok, err = d.Store.CuratedOf(ctx, mergeRequestID); err != nil {
		return set, false, fmt.Errorf("reading the curated batch of merge request row %d: %w", mergeRequestID, err)
	}
	return set, ok, nil
}

// List lists sets, newest first.
func (d *Desk) List(ctx context.Context, filter bot.CuratedFilter) ([]bot.CuratedView, error) {
	list, err := d.Store.ListCurated(ctx, filter)
	if err != nil {
		return nil, fmt.Errorf("listing curated batches: %w", err)
	}
	return list, nil
}

func (d *Desk) host(view bot.CuratedView) (bot.Host, error) {
	host, ok := d.Hosts[view.Repository.Host]
	if !ok {
		return nil, fmt.Errorf("the host %q is not in the configuration", view.Repository.Host)
	}
	return host, nil
}

// named names a set in errors.
func named(view bot.CuratedView) string {
	if view.Curated.ID == 0 {
		return "a new curated batch of " + view.Repository.Path
	}
	return fmt.Sprintf("curated batch %d of %s", view.Curated.ID, view.Repository.Path)
}
