package round_test

import (
	"strings"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/fakehost"
)

func file(name, content string) map[string]string { return map[string]string{name: content} }

func TestManyLandAsOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	var numbers []int
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		numbers = append(numbers, w.waiting(file(name, name+"\n")))
	}
	w.run()
	w.wantLandings(1)
	w.wantOnHost("merged", numbers...)
	for _, n := range numbers {
		w.wantStatus(n, bot.OperationMerged, bot.ReasonLanded)
	}
	b := w.batches()[0]
	if b.Status != bot.BatchSucceeded || b.CI != "success" || b.Landed == "" {
		t.Errorf("the batch ended as %+v", b)
	}
	w.wantOnHost("merged", b.MRNumber)
}

func TestOnlyAsManyAsTheQueueAllows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *bot.QueueSettings) { s.MaxBatchSize = 2 })
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		w.waiting(file(name, name+"\n"))
	}
	w.run()
	w.wantLandings(3)
}

func TestAConflictIsEvictedWithItsFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	good := w.waiting(file("a", "a\n"))
	stale := w.waiting(file("shared.txt", "mine\n"))
	_, err := w.fake.Commit(path, "main", "", "bob", "Change the shared file", file("shared.txt", "theirs\n"))
	w.must(err)
	w.run()
	w.wantOnHost("merged", good)
	w.wantOnHost("open", stale)
	w.wantStatus(stale, bot.OperationFailed, bot.ReasonConflict)
	if _, _, detail := w.status(stale); !strings.Contains(detail, "shared.txt") {
		t.Errorf("the conflict does not name its file: %q", detail)
	}
	w.wantLandings(1)
}

func TestAConflictWithAnEarlierMemberWaitsForTheNextBatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	first := w.waiting(file("shared.txt", "first\n"))
	second := w.waiting(file("shared.txt", "second\n"))
	b := w.runTo(bot.PhaseOpened)
	w.wantStatus(second, bot.OperationWaiting, bot.ReasonConflictBatch)
	w.run()
	w.wantOnHost("merged", first)
	// Alone against the new target it is a plain conflict.
	w.wantStatus(second, bot.OperationFailed, bot.ReasonConflict)
	if list := w.batches(); len(list) != 2 || list[1].Code != bot.CodeAllEvicted || list[0].ID != b.ID {
		t.Errorf("batches: %+v", list)
	}
	w.wantLandings(1)
}

func TestAPushWhileCIRunsEvictsOneMemberOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.fake.SetCI(fakehost.CI{Mode: fakehost.CIManual})
	stays := w.waiting(file("a", "a\n"))
	moves := w.waiting(file("b", "b\n"))
	before := w.runTo(bot.PhaseOpened)
	_, err := w.fake.PushTo(path, moves, file("b", "changed\n"))
	w.must(err)
	w.finishCI()
	w.run() // reads the members again, evicts, rebuilds, and waits for CI of the new head
	w.wantStatus(moves, bot.OperationPendingApproval, bot.ReasonHeadMoved)
	after, members := w.active()
	if after.ID != before.ID || after.HeadSHA == before.HeadSHA || len(members) != 1 {
		t.Fatalf("the batch was not rebuilt without the member: %+v with %d members", after, len(members))
	}
	w.finishCI()
	w.run()
	w.wantOnHost("merged", stays)
	w.wantOnHost("open", moves)
	w.wantLandings(1)
}

func (w *world) finishCI() {
	w.t.Helper()
	_, err := w.fake.FinishCI("")
	w.must(err)
}

func TestTheCulpritOfARedBatchIsFoundAndTheRestLands(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	good := []int{w.waiting(file("a", "a\n")), w.waiting(file("b", "b\n"))}
	culprit := w.waiting(map[string]string{"c": "c\n", "ci.fail": "yes\n"})
	good = append(good, w.waiting(file("d", "d\n")))
	w.run()
	w.wantOnHost("merged", good...)
	w.wantOnHost("open", culprit)
	w.wantStatus(culprit, bot.OperationFailed, bot.ReasonCIRed)
	for _, b := range w.batches() {
		if b.Status == bot.BatchFailed {
			w.wantOnHost("closed", b.MRNumber)
			if b.Code != bot.CodeCIRed || b.CI != "failure" {
				t.Errorf("a red batch ended as %+v", b)
			}
		}
	}
}

func TestAMovedTargetMeansARebuild(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.fake.SetCI(fakehost.CI{Mode: fakehost.CIManual})
	number := w.waiting(file("a", "a\n"))
	before := w.runTo(bot.PhaseOpened)
	tip, err := w.fake.Commit(path, "main", "", "bob", "Push past the bot", file("other", "x\n"))
	w.must(err)
	w.finishCI()
	w.run()
	after, _ := w.active()
	if after.BaseSHA != tip || after.HeadSHA == before.HeadSHA || after.MRNumber != before.MRNumber {
		t.Fatalf("not rebuilt on the new target in the same batch MR: %+v", after)
	}
	w.finishCI()
	w.run()
	w.wantOnHost("merged", number)
	w.wantLandings(1)
}

func TestEachWayToLand(t *testing.T) {
	t.Parallel()
	t.Run("push", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, func(s *bot.QueueSettings) { s.Landing = bot.LandByPush })
		number := w.waiting(file("a", "a\n"))
		w.run()
		w.wantOnHost("merged", number)
		b := w.batches()[0]
		if tip, _ := w.fake.Branch(path, "main"); b.Landed != b.Head || tip != b.Head {
			t.Errorf("the tested commit %s is not the target's tip %s: %+v", b.Head, tip, b)
		}
	})
	t.Run("manual", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, func(s *bot.QueueSettings) { s.Landing = bot.LandManually })
		number := w.waiting(file("a", "a\n"))
		w.run()
		b, _ := w.active()
		if b.Code != bot.CodeManual || b.Phase != bot.PhaseOpened {
			t.Fatalf("the batch does not wait for a person: %+v", b)
		}
		_, err := w.fake.MergeMR(path, b.MRNumber, "bob")
		w.must(err)
		w.run()
		w.wantStatus(number, bot.OperationMerged, bot.ReasonLanded)
		w.wantLandings(1)
	})
}

func TestAPersonClosesTheBatchMR(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.fake.SetCI(fakehost.CI{Mode: fakehost.CIManual})
	number := w.waiting(file("a", "a\n"))
	b := w.runTo(bot.PhaseOpened)
	w.must(w.fake.CloseMR(path, b.MRNumber, "bob"))
	w.run()
	w.wantStatus(number, bot.OperationWaiting, bot.ReasonBatchFailed)
	queue, _, err := w.store.ReadQueue(t.Context(), w.queue.ID)
	w.must(err)
	if queue.State != bot.QueueParked || !strings.Contains(queue.Reason, string(bot.CodeClosed)) {
		t.Errorf("the queue is %s: %q", queue.State, queue.Reason)
	}
	w.wantLandings(0)
}

func TestMergedWinsOverAFailureThatWasDecided(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	number := w.waiting(map[string]string{"a": "a\n", "ci.fail": "yes\n"})
	var b bot.Batch
	for b.Code != bot.CodeCIRed {
		w.tick()
		b, _ = w.active()
	}
	_, err := w.fake.MergeMR(path, b.MRNumber, "bob")
	w.must(err)
	w.run()
	w.wantStatus(number, bot.OperationMerged, bot.ReasonLanded)
	if got := w.batches()[0]; got.Status != bot.BatchSucceeded {
		t.Errorf("the batch ended as %+v", got)
	}
}

func TestAForeignPushBlocksUntilThePersonClosesIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.fake.SetCI(fakehost.CI{Mode: fakehost.CIManual})
	number := w.waiting(file("a", "a\n"))
	b := w.runTo(bot.PhaseOpened)
	_, err := w.fake.Commit(path, b.Branch("main"), "", "bob", "Help the bot", file("smuggled", "x\n"))
	w.must(err)
	w.finishCI()
	w.run()
	if b, _ = w.active(); b.Status != bot.BatchBlocked || b.Code != bot.CodeForeignPush {
		t.Fatalf("a foreign push does not block: %+v", b)
	}
	w.wantLandings(0)
	w.must(w.fake.CloseMR(path, b.MRNumber, "bob"))
	w.run()
	w.wantStatus(number, bot.OperationWaiting, bot.ReasonBatchFailed)
}

func TestAReviewOnlyPeopleCanGiveIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	number := w.waiting(file("a", "a\n"))
	w.must(w.fake.SetRules(path, "main", fakehost.Rules{RequiredApprovals: 1}))
	w.run()
	b, _ := w.active()
	if b.Code != bot.CodeNeedsApproval || b.Status != bot.BatchRunning || b.Refusals != 0 {
		t.Fatalf("the batch does not wait for an approval: %+v", b)
	}
	for _, words := range []string{"approving review", "bypass list of its ruleset (Settings → Rules)"} {
		if !strings.Contains(b.Message, words) {
			t.Errorf("it does not say what is missing and where to set it: %q", b.Message)
		}
	}
	w.wantOnHost("open", number)
	w.wantLandings(0)
}

func TestNobodyLeftEndsTheBatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	number := w.waiting(file("a", "a\n"))
	w.must(w.fake.CloseMR(path, number, "ada"))
	w.run()
	w.wantStatus(number, bot.OperationClosed, bot.ReasonClosed)
	if got := w.batches()[0]; got.Status != bot.BatchFailed || got.Code != bot.CodeAllEvicted {
		t.Errorf("the batch ended as %+v", got)
	}
	queue, _, err := w.store.ReadQueue(t.Context(), w.queue.ID)
	w.must(err)
	if queue.State != bot.QueueOpen {
		t.Errorf("the queue is %s", queue.State)
	}
}

// The target moves so that the only member conflicts: nothing was landed, although the batch's last build is the target's own tip.
func TestABatchThatLosesItsLastMemberToTheTargetFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.fake.SetCI(fakehost.CI{Mode: fakehost.CIManual})
	number := w.waiting(file("shared.txt", "mine\n"))
	b := w.runTo(bot.PhaseOpened)
	_, err := w.fake.Commit(path, "main", "", "bob", "Change the shared file", file("shared.txt", "theirs\n"))
	w.must(err)
	w.run()
	w.wantStatus(number, bot.OperationFailed, bot.ReasonConflict)
	if got := w.batches()[0]; got.Status != bot.BatchFailed || got.Code != bot.CodeAllEvicted || got.Landed != "" {
		t.Errorf("the batch ended as %+v", got)
	}
	w.wantOnHost("closed", b.MRNumber)
}

// The culprit leaves between the red verdict and the settlement: who stays was not tested alone, so it is no culprit.
func TestWhoStaysAfterARedVerdictIsTestedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	culprit := w.waiting(map[string]string{"a": "a\n", "ci.fail": "yes\n"})
	innocent := w.waiting(file("b", "b\n"))
	var b bot.Batch
	var members []bot.Operation
	for b.Code != bot.CodeCIRed {
		w.tick()
		b, members = w.active()
	}
	guard := b.Guard()
	result, err := w.store.Move(t.Context(), bot.Move{
		OperationID: members[0].ID, From: members[0].Status, Version: members[0].Version, To: bot.OperationCancelled,
		Reason: bot.ReasonCancelled, By: "ada", Batch: &guard,
	})
	if err != nil || result != bot.MoveDone || members[0].Number != culprit {
		t.Fatalf("cancelling !%d: %d, %v", members[0].Number, result, err)
	}
	w.run()
	w.wantStatus(innocent, bot.OperationMerged, bot.ReasonLanded)
	w.wantOnHost("merged", innocent)
	w.wantOnHost("open", culprit)
}
