package intake

import (
	"context"
	"regexp"
	"slices"
	"testing"

	"github.com/batchbot/batchbot/bot"
)

func (w *world) tell(e bot.Event) {
	w.t.Helper()
	if e.Kind != bot.EventInstallation && e.Repository.ExternalID == 0 {
		e.Repository = w.repo.RepositoryRef
	}
	if err := w.applier.Apply(context.Background(), "delivery-3", e); err != nil {
		w.t.Fatalf("event %+v: %v", e, err)
	}
}

func TestAPushEvictsAndNotifies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opens(1)
	w.approves(1, first)
	w.says(ada, 1, "/batch")
	w.rides(1, bot.PhaseOpened)
	w.pushes(1, second)
	w.changed(1)
	op := w.stands(1, bot.OperationPendingApproval, second)
	move := w.rows.moves[len(w.rows.moves)-1]
	if op.Reason != bot.ReasonHeadMoved || !move.Notify || move.Batch == nil || move.Source != "delivery-2" {
		t.Errorf("operation %+v by %+v", op, move)
	}
	// Approved before the push was noticed: it goes straight on.
	w.approves(1, second)
	w.changed(1)
	w.stands(1, bot.OperationWaiting, second)
}

func TestWhatTheHostShowsIsFollowed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*bot.MRSnapshot)
		want   bot.OperationStatus
		reason bot.Reason
	}{
		{"closed", func(mr *bot.MRSnapshot) { mr.State = bot.MRClosed }, bot.OperationClosed, bot.ReasonClosed},
		{"merged by hand", func(mr *bot.MRSnapshot) { mr.State = bot.MRMerged }, bot.OperationMerged, bot.ReasonMergedOutside},
		{"retargeted", func(mr *bot.MRSnapshot) { mr.Target = "next" }, bot.OperationCancelled, bot.ReasonRetargeted},
		{"drafted", func(mr *bot.MRSnapshot) { mr.Draft = true }, bot.OperationPendingApproval, bot.ReasonDrafted},
		{"nothing", func(*bot.MRSnapshot) {}, bot.OperationWaiting, bot.ReasonApplied},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.opens(1)
			w.approves(1, first)
			w.says(ada, 1, "/batch")
			w.changes(1, c.change)
			for range 3 {
				w.changed(1)
			}
			if op := w.stands(1, c.want, first); op.Reason != c.reason {
				t.Errorf("reason %s", op.Reason)
			}
			if len(w.rows.moves) > 1 {
				t.Errorf("moves %+v", w.rows.moves)
			}
		})
	}
}

func TestALandingBatchLosesNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opens(1)
	w.approves(1, first)
	w.says(ada, 1, "/batch")
	w.rides(1, bot.PhaseLanding)
	w.changes(1, func(mr *bot.MRSnapshot) { mr.State = bot.MRMerged })
	w.nudged = nil
	w.changed(1)
	w.stands(1, bot.OperationBatched, first)
	if !slices.Contains(w.nudged, 1) {
		t.Error("the queue was not woken to record the landing")
	}
}

func TestApprovalsAreReadOncePerHead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opens(1)
	w.approves(1, second)
	w.says(ada, 1, "/batch")
	w.pushes(1, second)
	*w.steps = steps{}
	w.changed(1)
	w.stands(1, bot.OperationWaiting, second) // two moves
	if n := w.steps.count("ReadApprovals"); n != 1 {
		t.Errorf("approvals were read %d times", n)
	}
}

func TestHintsAboutStrangersCostNoHostCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opens(1)
	w.changed(1)
	w.tell(bot.Event{Kind: bot.EventBranch, Branch: "topic"})
	w.tell(bot.Event{Kind: bot.EventMergeRequest, Number: 1, Repository: bot.RepositoryRef{Host: "git", ExternalID: 5, Path: "some/other"}})
	for _, call := range w.steps.calls {
		switch call {
		case "FindRepository", "BatchMR", "CurrentOperations", "FindQueue":
		default:
			t.Errorf("call of %s", call)
		}
	}
}

func TestEventsWakeTheQueuesTheyMatterTo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opens(1)
	w.says(ada, 1, "/batch")
	w.rows.watching = []int64{1, 5}
	w.rows.batchMRs[40] = bot.Batch{ID: 7, QueueID: 8}

	w.tell(bot.Event{Kind: bot.EventChecks, SHA: second})
	if w.rows.watched != second || !slices.Equal(w.nudged, []int64{1, 5}) {
		t.Errorf("checks: asked for %q, nudged %v", w.rows.watched, w.nudged)
	}
	w.nudged = nil
	w.tell(bot.Event{Kind: bot.EventBranch, Branch: "batchbot/7-0a1b2c3d/main"})
	if w.rows.watched != "" || !slices.Equal(w.nudged, []int64{1, 5}) {
		t.Errorf("batch branch: asked for %q, nudged %v", w.rows.watched, w.nudged)
	}
	w.nudged = nil
	w.changed(40)
	if !slices.Equal(w.nudged, []int64{8}) {
		t.Errorf("batch MR: nudged %v", w.nudged)
	}
	w.nudged = nil
	w.host.files["main"] = "main"
	w.tell(bot.Event{Kind: bot.EventBranch, Branch: "main"})
	if !slices.Equal(w.nudged, []int64{1}) || w.rows.queues[0].Settings.MaxBatchSize != 7 {
		t.Errorf("target: nudged %v, queue %+v", w.nudged, w.rows.queues[0])
	}
	w.host.files["main"] = "broken"
	w.tell(bot.Event{Kind: bot.EventBranch, Branch: "main"})
	if w.rows.queues[0].Settings.MaxBatchSize != 7 {
		t.Errorf("a broken file changed the queue to %+v", w.rows.queues[0])
	}
}

func TestInstallationsMakeAndEndRepositories(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := bot.RepositoryRef{Host: "git", ExternalID: 4712, Path: "team/lib", Installation: 9}
	active := func() (paths []string) {
		for _, r := range w.rows.repos {
			if r.Active {
				paths = append(paths, r.Path)
			}
		}
		return paths
	}
	change := func(c bot.InstallationChange) {
		c.Host, c.Installation = "git", 9
		w.tell(bot.Event{Kind: bot.EventInstallation, Installation: &c})
	}
	change(bot.InstallationChange{Added: []bot.RepositoryRef{other}})
	if got := active(); !slices.Equal(got, []string{"team/app", "team/lib"}) {
		t.Errorf("after adding: %v", got)
	}
	change(bot.InstallationChange{Removed: []bot.RepositoryRef{other}})
	if got := active(); !slices.Equal(got, []string{"team/app"}) {
		t.Errorf("after taking one: %v", got)
	}
	change(bot.InstallationChange{RemovedAll: true})
	if got := active(); len(got) != 0 {
		t.Errorf("after uninstalling: %v", got)
	}
	w.host.refs = append(w.host.refs, other)
	change(bot.InstallationChange{ReadAll: true})
	if got := active(); !slices.Equal(got, []string{"team/app", "team/lib"}) {
		t.Errorf("after installing: %v", got)
	}
	w.host.refs = w.host.refs[:1]
	change(bot.InstallationChange{ReadAll: true})
	if got := active(); !slices.Equal(got, []string{"team/app"}) {
		t.Errorf("after a list without one that is gone: %v", got)
	}
}

func TestRenamesAreReadFromTheHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host.refs[0].Path = "team/renamed"
	w.tell(bot.Event{Kind: bot.EventRepository})
	if got := w.rows.repos[0].Path; got != "team/renamed" {
		t.Errorf("path %q", got)
	}
	// A late event that still knows the old name does not bring it back.
	w.tell(bot.Event{Kind: bot.EventChecks, SHA: first})
	if got := w.rows.repos[0].Path; got != "team/renamed" {
		t.Errorf("path %q after a late event", got)
	}
	w.host.archived = true
	w.tell(bot.Event{Kind: bot.EventRepository})
	if w.rows.repos[0].Active {
		t.Error("archived and still active")
	}
	w.host.archived = false
	w.tell(bot.Event{Kind: bot.EventRepository})
	if !w.rows.repos[0].Active {
		t.Error("unarchived and still not active")
	}
}

func TestOperationIDsAreUUIDs(t *testing.T) {
	t.Parallel()
	a, b := newUUID(), newUUID()
	if a == b || !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(a) {
		t.Errorf("ids %q and %q", a, b)
	}
}
