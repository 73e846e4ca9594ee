package reconcile_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/reconcile"
	"github.com/batchbot/batchbot/githost/fakehost"
)

// A bot that is well has no differences: with everything waiting, riding, landed and failed, and all of it said.
func TestABotThatIsWellHasNoDifferences(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "main")
	w.applied(true)
	w.ticks()
	w.says()
	w.finds() // landed
	w.applied(true)
	w.opened()
	w.applied(true)
	w.applied(false)
	w.says()
	w.finds() // one rides, one waits, one has no approval
	_, err := w.fake.FinishCI("failure")
	w.must(err)
	w.ticks()
	w.says()
	w.finds()
}

func TestARepositoryIsComparedWithItsRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "main")
	w.applied(false)
	w.says()
	w.must(w.fake.Rename(path, "application"))
	found := w.finds(reconcile.RepositoryMoved)
	if found[0].Rows != "path acme/app" || found[0].Found != "path acme/application" {
		t.Errorf("it says %+v", found[0])
	}
	w.mends(found)

	w.addRepository("lib")
	w.mends(w.finds(reconcile.RepositoryUnknown))

	w.must(w.fake.SetArchived("acme/application", true))
	w.mends(w.finds(reconcile.RepositoryGone))
	repos, err := w.store.ActiveRepositories(t.Context(), "hub")
	w.must(err)
	if len(repos) != 1 || repos[0].Path != "acme/lib" {
		t.Errorf("active are %+v", repos)
	}
	if queues, err := w.store.ListQueues(t.Context()); err != nil || queues[0].Queue.State != bot.QueueParked {
		t.Errorf("its queue is %+v, %v", queues, err)
	}
}

func TestOperationsAreComparedWithTheirMergeRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "main")
	pushed, closed, merged, drafted := w.applied(true), w.applied(true), w.applied(true), w.applied(true)
	withdrawn, approved := w.applied(true), w.applied(false)
	w.says()
	w.finds()

	_, err := w.fake.PushTo(path, pushed, map[string]string{"more": "more"})
	w.must(err)
	w.must(w.fake.CloseMR(path, closed, "ada"))
	_, err = w.fake.MergeMR(path, merged, "bob")
	w.must(err)
	w.must(w.fake.SetDraft(path, drafted, "ada", true))
	mr, err := w.fake.MR(path, withdrawn)
	w.must(err)
	w.must(w.fake.Dismiss(path, withdrawn, mr.Reviews[0].ID, "bob"))
	w.approve(approved)

	stale, landed := reconcile.OperationStale, reconcile.OperationLanded
	found := w.finds(stale, stale, stale, stale, stale, landed)
	says := make(map[int]string)
	for _, d := range found {
		says[d.MR] = d.Rows + " / " + d.Found + " / " + d.Remedy
	}
	for number, words := range map[int][]string{
		pushed: {"WAITING at", "head ", "becomes PENDING_APPROVAL"}, closed: {"closed", "becomes CLOSED"}, merged: {"main contains", "becomes MERGED"},
		drafted: {"a draft"}, withdrawn: {"not approved: needs 1 more"}, approved: {"PENDING_APPROVAL at", "approved", "becomes WAITING"},
	} {
		for _, word := range words {
			if !strings.Contains(says[number], word) {
				t.Errorf("!%d says %q, want %q in it", number, says[number], word)
			}
		}
	}
	w.mends(found)
	for number, want := range map[int]bot.OperationStatus{
		pushed: bot.OperationPendingApproval, closed: bot.OperationClosed, merged: bot.OperationMerged,
		drafted: bot.OperationPendingApproval, withdrawn: bot.OperationPendingApproval, approved: bot.OperationWaiting,
	} {
		w.wantStatus(number, want)
	}
	var audited int
	w.must(w.rows.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM audit WHERE source = 'reconcile'`).Scan(&audited))
	if audited != 6 {
		t.Errorf("%d entries of the audit say who did it, want 6", audited)
	}
}

// On a branch that is not the default one a GitHub does not mark what landed there.
func TestWhatLandedUnnoticedIsRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "release")
	number := w.applied(true)
	w.says()
	mr, err := w.fake.MR(path, number)
	w.must(err)
	w.must(w.fake.SetBranch(path, "release", mr.Head, "bob"))
	w.mends(w.finds(reconcile.OperationLanded))
	w.wantStatus(number, bot.OperationMerged)
}

func TestAnActiveBatchIsComparedWithItsMR(t *testing.T) {
	t.Parallel()
	t.Run("a person merged it", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, "main")
		number := w.applied(true)
		batch := w.opened()
		w.says()
		_, err := w.fake.MergeMR(path, batch.MRNumber, "bob")
		w.must(err)
		// Its member reads merged as well, which the batch has to record: nothing takes it out before.
		found, err := w.reconciler.Find(t.Context(), reconcile.Scope{})
		w.must(err)
		w.reconciler.Mend(t.Context(), found, operator)
		w.says()
		w.finds()
		w.wantStatus(number, bot.OperationMerged)
		if found[len(found)-1].Kind != reconcile.BatchStale || found[len(found)-1].Found != "its MR is merged" {
			t.Errorf("found %+v", found)
		}
	})
	t.Run("a person closed it", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, "main")
		number := w.applied(true)
		batch := w.opened()
		w.says()
		w.must(w.fake.CloseMR(path, batch.MRNumber, "bob"))
		w.mends(w.finds(reconcile.BatchStale))
		w.wantStatus(number, bot.OperationWaiting)
		queue, _, err := w.store.ReadQueue(t.Context(), w.queue.ID)
		if err != nil || queue.State != bot.QueueParked {
			t.Errorf("the queue is %+v, %v", queue, err)
		}
	})
	t.Run("somebody pushed to it", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, "main")
		w.applied(true)
		batch := w.opened()
		w.says()
		_, err := w.fake.Commit(path, batch.Branch("main"), "", "bob", "Meddle", map[string]string{"meddled": "yes"})
		w.must(err)
		found := w.finds(reconcile.BatchStale)
		w.reconciler.Mend(t.Context(), found, operator)
		w.must(w.reconciler.Check(t.Context(), found, reconcile.Scope{}))
		// BLOCKED is as far as the bot goes: a person has to look.
		if found[0].Outcome != reconcile.Failed {
			t.Errorf("it is %+v", found[0])
		}
		now, _, _, err := w.store.ActiveBatch(t.Context(), w.queue.ID)
		if err != nil || now.Status != bot.BatchBlocked || now.Code != bot.CodeForeignPush {
			t.Errorf("the batch is %+v, %v", now, err)
		}
	})
	t.Run("its MR was never recorded", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, "main")
		w.applied(true)
		batch := w.opened()
		w.says()
		w.exec(`UPDATE merge_batch SET mr_number = 0, phase = 2 WHERE id = ?`, batch.ID) // as a crash right after opening it leaves it
		w.mends(w.finds(reconcile.BatchStale))
		now, _, _, err := w.store.ActiveBatch(t.Context(), w.queue.ID)
		if err != nil || now.MRNumber != batch.MRNumber {
			t.Errorf("the batch is %+v, %v", now, err)
		}
	})
	t.Run("its MR is gone", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, "main")
		w.applied(true)
		batch := w.opened()
		w.says()
		w.exec(`UPDATE merge_batch SET mr_number = 999 WHERE id = ?`, batch.ID)
		if found := w.finds(reconcile.BatchStale); found[0].Found != "its MR is gone" {
			t.Errorf("found %+v", found)
		}
	})
}

// branchless is a host that has lost a branch while its MR stays open, as a GitLab does.
type branchless struct {
	bot.Host
	tip string
}

func (b branchless) ReadBranch(ctx context.Context, repo bot.Repository, branch string) (string, error) {
	if strings.HasPrefix(branch, bot.BatchBranchPrefix) {
		if b.tip == "" {
			return "", bot.ErrNotFound
		}
		return b.tip, nil
	}
	return b.Host.ReadBranch(ctx, repo, branch)
}

func TestABranchThatIsMissingIsFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "main")
	w.applied(true)
	batch := w.opened()
	w.says()
	w.config.Hosts = map[string]bot.Host{"hub": branchless{Host: w.host}}
	w.reconciler = reconcile.New(w.config)
	if found := w.finds(reconcile.BranchMissing); found[0].Rows != "branch "+batch.Branch("main") || !found[0].Mendable() {
		t.Errorf("found %+v", found)
	}
}

func TestWhatIsLeftOfABatchThatIsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "main")
	w.applied(true)
	batch := w.opened()
	w.must(w.fake.CloseMR(path, batch.MRNumber, "bob"))
	w.ticks()
	w.says()
	w.finds()
	branch := batch.Branch("main")

	w.must(w.fake.SetBranch(path, branch, batch.HeadSHA, "bob"))
	w.mends(w.finds(reconcile.BranchLeft))
	if tip, err := w.fake.Branch(path, branch); err != nil || tip != "" {
		t.Errorf("the branch is at %s, %v", tip, err)
	}

	// Somebody else's commit on it is not the bot's to delete.
	foreign, err := w.fake.Commit(path, "elsewhere", "main", "bob", "Foreign", map[string]string{"foreign": "yes"})
	w.must(err)
	w.must(w.fake.SetBranch(path, branch, foreign, "bob"))
	found := w.finds(reconcile.BranchLeft)
	w.reconciler.Mend(t.Context(), found, operator)
	if found[0].Outcome != reconcile.Left || found[0].Mendable() {
		t.Errorf("it is %+v", found[0])
	}

	w.must(w.fake.SetBranch(path, branch, batch.HeadSHA, "bob"))
	w.must(w.fake.ReopenMR(path, batch.MRNumber, "bob"))
	w.mends(w.finds(reconcile.BatchReopened, reconcile.BranchLeft))
	mr, err := w.fake.MR(path, batch.MRNumber)
	if err != nil || mr.State != "closed" {
		t.Errorf("its MR is %s, %v", mr.State, err)
	}
}

func TestABatchThatLandedLateIsRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "main")
	number := w.applied(true)
	batch := w.opened()
	w.must(w.fake.CloseMR(path, batch.MRNumber, "bob"))
	w.ticks()
	w.must(w.fake.ReopenMR(path, batch.MRNumber, "bob"))
	_, err := w.fake.MergeMR(path, batch.MRNumber, "bob")
	w.must(err)
	w.exec(`UPDATE outbox SET status = 2 WHERE kind IN (7, 9)`) // nobody was told
	found, err := w.reconciler.Find(t.Context(), reconcile.Scope{})
	w.must(err)
	kinds := make(map[reconcile.Kind]int)
	for _, d := range found {
		kinds[d.Kind]++
	}
	if kinds[reconcile.BatchReopened] != 1 || kinds[reconcile.OperationLanded] != 1 {
		t.Fatalf("found %+v", found)
	}
	w.reconciler.Mend(t.Context(), found, operator)
	w.says()
	w.finds()
	w.wantStatus(number, bot.OperationMerged)
}

func TestATargetThatMovedBackIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "main")
	before, err := w.fake.Branch(path, "main")
	w.must(err)
	number := w.applied(true)
	w.ticks()
	w.says()
	w.must(w.fake.SetBranch(path, "main", before, "bob"))
	found := w.finds(reconcile.TargetMovedBack)
	w.reconciler.Mend(t.Context(), found, operator)
	if found[0].Outcome != reconcile.Left {
		t.Errorf("it is %+v", found[0])
	}
	w.wantStatus(number, bot.OperationMerged) // nothing is undone
}

func TestAMissingStatusCommentIsWrittenAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "main")
	number := w.applied(false)
	w.finds() // it is about to be written
	w.exec(`DELETE FROM outbox`)
	w.mends(w.finds(reconcile.StickyMissing))
	w.exec(`UPDATE merge_request SET sticky_comment_id = 123456789`) // as if somebody had deleted it
	w.mends(w.finds(reconcile.StickyMissing))
	comments, err := w.fake.Comments(path, number)
	if err != nil || len(comments) != 1 {
		t.Errorf("%d comments, %v", len(comments), err)
	}
}

func TestWhatWasGivenUpIsTriedAgainByAnOperatorsWordOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "main")
	w.applied(false)
	w.says()
	w.exec(`UPDATE outbox SET status = 3, error = 'the host forbids it' WHERE kind = 1`)
	_, err := w.store.InsertDelivery(t.Context(), "hub", "k", "push", []byte("{}"))
	w.must(err)
	w.exec(`UPDATE delivery SET status = 4, error = 'poison'`)
	found := w.finds(reconcile.ErrandGivenUp, reconcile.DeliveryFailed)
	w.reconciler.Mend(t.Context(), found, reconcile.Actor{By: "batchbot", Source: "reconcile"})
	for _, d := range found {
		if d.Outcome != reconcile.Left {
			t.Errorf("without an operator %s is %s", d.Kind, d.Outcome)
		}
	}
	w.mends(w.finds(reconcile.ErrandGivenUp, reconcile.DeliveryFailed))
}

// One that cannot be read hides nothing of the others, and the error says so.
func TestARepositoryThatCannotBeReadHidesNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "main")
	w.applied(false)
	w.says()
	w.addRepository("lib")
	refs, err := w.host.ListRepositories(t.Context())
	w.must(err)
	for _, ref := range refs {
		_, err := w.store.UpsertRepository(t.Context(), ref)
		w.must(err)
	}
	w.must(w.fake.Rename("acme/lib", "library"))
	w.must(w.fake.Break(fakehost.Fault{On: "GET /repos/acme/app*", Do: fakehost.FaultStatus, Status: 502},
		fakehost.Fault{On: "GET /repositories/1", Do: fakehost.FaultStatus, Status: 502}))
	found, err := w.reconciler.Find(t.Context(), reconcile.Scope{})
	if err == nil || len(found) != 1 || found[0].Kind != reconcile.RepositoryMoved {
		t.Errorf("found %+v, %v", found, err)
	}
}

func TestOneQueueAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "main")
	w.approve(w.applied(false))
	w.says()
	_, err := w.fake.Commit(path, "release", "main", "bob", "Begin", map[string]string{"r": "r"})
	w.must(err)
	other, err := w.store.UpsertQueue(t.Context(), w.repo.ID, bot.DefaultQueueSettings("release"), "")
	w.must(err)
	for id, want := range map[int64]int{other.ID: 0, w.queue.ID: 1} {
		if found, err := w.reconciler.Find(t.Context(), reconcile.Scope{QueueID: id}); err != nil || len(found) != want {
			t.Errorf("queue %d: %+v, %v", id, found, err)
		}
	}
	if _, err := w.reconciler.Find(t.Context(), reconcile.Scope{QueueID: 99}); err == nil {
		t.Error("a queue that does not exist is compared")
	}
}

func TestRunMendsAndTellsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "main")
	number := w.applied(false)
	w.says()
	w.approve(number)
	reports := 0
	w.config.Report = func([]reconcile.Difference) { reports++ }
	r := reconcile.New(w.config)
	if did, err := r.Run(t.Context()); did != "differences: 1, mended: 1" || err != nil {
		t.Errorf("%q, %v", did, err)
	}
	w.wantStatus(number, bot.OperationWaiting)
	if did, err := r.Run(t.Context()); did != "" || err != nil || reports != 2 {
		t.Errorf("all is well: %q, %v, %d reports", did, err, reports)
	}
}

// A mend that fails says so and keeps nobody else from being mended; what several differences ask for is done once.
func TestAMendThatFailsSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "main")
	rounds := 0
	w.config.Round = func(context.Context, int64) (bool, error) {
		rounds++
		return false, errors.New("not reachable")
	}
	w.config.Hosts = map[string]bot.Host{"hub": branchless{Host: w.host}}
	w.reconciler = reconcile.New(w.config)
	w.applied(true)
	batch := w.opened()
	waits := w.applied(false)
	w.says()
	_, err := w.fake.Commit(path, "elsewhere", "main", "bob", "Begin", map[string]string{"e": "e"})
	w.must(err)
	w.must(w.fake.Retarget(path, batch.MRNumber, "bob", "elsewhere"))
	w.approve(waits)
	found, err := w.reconciler.Find(t.Context(), reconcile.Scope{})
	w.must(err)
	w.reconciler.Mend(t.Context(), found, operator)
	for _, d := range found {
		want := reconcile.Failed
		if d.Kind == reconcile.OperationStale {
			want = reconcile.Mended
		}
		if d.Outcome != want {
			t.Errorf("%s is %s %s", d.Kind, d.Outcome, d.Error)
		}
	}
	if len(found) != 3 || rounds != 1 {
		t.Errorf("%d differences, %d rounds: %+v", len(found), rounds, found)
	}
}
