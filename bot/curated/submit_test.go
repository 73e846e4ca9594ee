package curated_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/curated"
	"github.com/batchbot/batchbot/githost/fakehost"
)

func TestASetIsDraftedEditedAndSubmitted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b, c := w.opens(file("a", "a\n")), w.opens(file("b", "b\n")), w.opens(file("c", "c\n"))
	id := w.drafts(a, b)
	edited, err := w.desk.Save(t.Context(), on("ada"), curated.Draft{ID: id, Rows: rowsOf(c, a, b)})
	w.must(err)
	w.wantOutcome(edited, curated.Done)
	result := w.submits(id)
	set := result.View.Curated
	if set.Status != bot.CuratedPendingApproval || !set.Committed || len(set.Rows) != 3 {
		t.Fatalf("submitted: %+v", set)
	}
	for i, n := range []int{c, a, b} {
		mr, err := w.fake.MR(path, n)
		w.must(err)
		if r := set.Rows[i]; r.RowNo != i+1 || r.Number != n || r.HeadSHA != mr.Head {
			t.Errorf("row %+v, want !%d at %s", r, n, mr.Head)
		}
	}
	if status, _ := w.status(a); status != 0 {
		t.Errorf("a submitted member is %s already", status)
	}
}

func TestADraftIsRefusedWithEachRowNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.drafts(1, 2)
	before := w.dump()
	result, err := w.desk.Save(t.Context(), on("ada"), curated.Draft{ID: id, Rows: []bot.CuratedRow{
		{RowNo: 1, Number: 3}, {Number: 4}, {RowNo: 1, Number: 5}, {RowNo: -2, Number: 6}, {RowNo: 7},
	}})
	w.must(err)
	w.wantProblems(result,
		"rows row -2 !6: the 4th row has the row number -2: number the rows from 1",
		"rows row 0 !4: the 2nd row has the row number 0: number the rows from 1",
		"rows row 1 !5: the row number 1 is there twice: number the rows differently",
		"rows row 7 !0: the 5th row names no merge request: give its number",
	)
	if after := w.dump(); after != before {
		t.Errorf("a refused save wrote something:\n%s\nbefore:\n%s", after, before)
	}
	big, err := w.desk.Save(t.Context(), on("ada"), curated.Draft{ID: id, Rows: rowsOf(make([]int, bot.MaxCurated+1)...)})
	w.must(err)
	if w.wantOutcome(big, curated.Refused); !strings.Contains(problems(big)[0], "1001 rows, and 1000 is the most") {
		t.Errorf("problems %v", problems(big)[0])
	}
	if r, err := w.desk.Save(t.Context(), on("ada"), curated.Draft{ID: 4711, Rows: rowsOf(1)}); err != nil || r.Outcome != curated.NotFound {
		t.Errorf("a set that does not exist: %+v, %v", r, err)
	}
}

// shown is a host that shows merge requests otherwise than they are.
type shown struct {
	bot.Host
	mr func(bot.MRSnapshot) bot.MRSnapshot
}

func (h shown) ReadMR(ctx context.Context, repo bot.Repository, number int) (bot.MRSnapshot, error) {
	mr, err := h.Host.ReadMR(ctx, repo, number)
	if h.mr != nil && err == nil {
		mr = h.mr(mr)
	}
	return mr, err
}

// seated is a store in which one merge request holds a seat on a train.
type seated struct {
	curated.Store
	number int
}

func (s seated) CurrentOperations(ctx context.Context, repositoryID int64, number int) ([]bot.OperationView, error) {
	views, err := s.Store.CurrentOperations(ctx, repositoryID, number)
	if number == s.number && err == nil {
		views[0].Seat = &bot.SeatView{Seat: bot.Seat{Status: bot.SeatConfirmed}, Train: bot.Train{Name: "nightly"}}
	}
	return views, err
}

// Each check has its own message, a refusal tells all of them, and leaves the draft as it was, byte for byte, and editable.
func TestASubmissionTellsEverythingAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	good := w.opens(file("good", "x\n"))
	gone := 4711
	closed := w.opens(file("closed", "x\n"))
	w.must(w.fake.CloseMR(path, closed, "ada"))
	merged := w.opens(file("merged", "x\n"))
	_, err := w.fake.MergeMR(path, merged, "bob")
	w.must(err)
	draft := w.opens(file("draft", "x\n"))
	w.must(w.fake.SetDraft(path, draft, "ada", true))
	w.must(w.fake.SetBranch(path, "release", w.tip("main"), "ada"))
	elsewhere := w.opens(file("shared.txt", "elsewhere\n")) // a conflict, were it merged
	w.must(w.fake.Retarget(path, elsewhere, "ada", "release"))
	_, err = w.fake.Commit(path, "batchbot/7-0a1b2c3d/main", "main", "ada", "Batch", file("batch", "x\n"))
	w.must(err)
	batch, err := w.fake.OpenMR(path, fakehost.NewMR{Author: "ada", Head: "batchbot/7-0a1b2c3d/main", Title: "Batch"})
	w.must(err)
	headless := w.opens(file("headless", "x\n"))
	waiting := w.opens(file("waiting", "x\n"))
	w.applies(waiting, true)
	failed := w.opens(file("failed", "x\n"))
	w.fails(failed)
	onTrain := w.opens(file("train", "x\n"))
	w.applies(onTrain, false)
	pending := w.opens(file("pending", "x\n")) // no problem: it becomes the member's
	w.applies(pending, false)
	stale := w.opens(file("shared.txt", "mine\n"))
	_, err = w.fake.Commit(path, "main", "", "bob", "Change the shared file", file("shared.txt", "theirs\n"))
	w.must(err)
	contained := w.opens(file("contained", "x\n"))
	mr, err := w.fake.MR(path, contained)
	w.must(err)
	w.contains(mr.Head)
	orphan := w.orphan()
	first := w.opens(map[string]string{"both/a": "first\n", "both/b": "first\n"})
	second := w.opens(file("other", "x\n"))
	third := w.opens(map[string]string{"both/a": "third\n", "both/b": "third\n"})

	w.settings(func(s *bot.QueueSettings) { s.MaxBatchSize = 18 })
	w.desk.Hosts["hub"] = shown{w.host, func(mr bot.MRSnapshot) bot.MRSnapshot {
		switch mr.Number {
		case headless:
			mr.HeadSHA = ""
		case contained:
			mr.State = bot.MROpen // its host has not noticed
		}
		return mr
	}}
	w.desk.Store = seated{w.store, onTrain}
	id := w.drafts(good, gone, closed, merged, draft, elsewhere, batch, headless, waiting, failed, onTrain, pending, stale, contained, orphan, first, second, third, good)
	before := w.dump()
	result, err := w.desk.Submit(t.Context(), on("ada"), id, 0)
	w.must(err)
	told := problems(result)
	for i := range told { // numbers are as they come
		_, told[i], _ = strings.Cut(told[i], "row ")
		no, text, _ := strings.Cut(told[i], " !")
		_, text, _ = strings.Cut(text, ": ")
		told[i] = no + ": " + text
	}
	want := []string{
		"0: the set has 19 members and max_batch_size of its queue is 18: make it smaller, or raise that in .batchbot.yml",
		"2: is no merge request of acme/app: correct the number",
		"3: is closed; reopen it first",
		"4: is merged already",
		"5: is a draft; mark it ready first",
		"6: is for release and the set is for main: change its target, or leave it out",
		"7: is a batch that the bot made: name its members instead",
		"8: has no head that the host shows yet: try again in a moment",
		"9: waits for the next batch by itself: comment /batch cancel there first",
		"10: failed and awaits /batch retry: comment /batch cancel there first",
		"11: holds a seat on the train nightly: comment /batch leave there first",
		"13: conflicts with main in shared.txt: merge main into it",
		"14: brings nothing that main does not have: leave it out",
		"15: shares no history with main: rebuild its branch on top of it",
		"18: conflicts with row 16 in both/a, both/b: mend it, change the order, or leave one out",
		"19: is in row 1 as well: name it once",
	}
	if strings.Join(told, "\n") != strings.Join(want, "\n") {
		t.Errorf("problems\n\t%s\nwant\n\t%s", strings.Join(told, "\n\t"), strings.Join(want, "\n\t"))
	}
	w.wantOutcome(result, curated.Refused)
	if after := w.dump(); after != before {
		t.Errorf("a refused submission wrote something:\n%s\nbefore:\n%s", after, before)
	}

	// Still editable; with what is left of it, it goes.
	w.desk.Hosts["hub"], w.desk.Store = w.host, w.store
	edited, err := w.desk.Save(t.Context(), on("ada"), curated.Draft{ID: id, Version: result.View.Curated.Version, Rows: rowsOf(good, pending, first, second)})
	w.must(err)
	w.wantOutcome(edited, curated.Done)
	w.submits(id)
}

// One merge request is no set, and none is less.
func TestASetHasTwoMembersAtLeast(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, numbers := range [][]int{{w.opens(file("a", "a\n"))}, nil} {
		id := w.drafts(numbers...)
		result, err := w.desk.Submit(t.Context(), on("ada"), id, 0)
		w.must(err)
		w.wantProblems(result, "size row 0 !0: a set has at least 2 members: a merge request by itself lands with /batch, together with whatever else waits")
	}
}

func TestMembersOfOtherSetsAndOfBatchesAreBusy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b, c := w.opens(file("a", "a\n")), w.opens(file("b", "b\n")), w.opens(file("c", "c\n"))
	first, second := w.drafts(a, b), w.drafts(b, c)
	w.submits(first)
	w.submits(second) // two may be submitted with the same member: the one approved first has it
	result, err := w.desk.Approve(t.Context(), on("carol"), first, 0)
	w.must(err)
	w.wantOutcome(result, curated.Done)
	result, err = w.desk.Approve(t.Context(), on("carol"), second, 0)
	w.must(err)
	if w.wantOutcome(result, curated.Refused); !strings.Contains(strings.Join(problems(result), "\n"), "waits as a member of curated batch 1: ") {
		t.Errorf("problems %v", problems(result))
	}
	if _, err := w.store.Claim(t.Context(), bot.ClaimSpec{QueueID: w.queue.ID, Kind: bot.BatchCurated, Cohort: bot.CuratedCohort(first), Limit: 2, Token: "0a1b2c3d", Timeout: 1 << 40}); err != nil {
		t.Fatal(err)
	}
	result, err = w.desk.Approve(t.Context(), on("carol"), second, 0)
	w.must(err)
	if w.wantOutcome(result, curated.Refused); !strings.Contains(strings.Join(problems(result), "\n"), "rides in batch 1: ") {
		t.Errorf("problems %v", problems(result))
	}
}

// A double click, or 32: one submits, the others are told that it is done, and nothing happens twice.
func TestOneOfManySubmissionsAtOnceCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.drafts(w.opens(file("a", "a\n")), w.opens(file("b", "b\n")))
	const people = 32
	results := make([]curated.Result, people)
	errs := make([]error, people)
	var all sync.WaitGroup
	for i := range people {
		all.Go(func() { results[i], errs[i] = w.desk.Submit(t.Context(), on("ada"), id, 0) })
	}
	all.Wait()
	counts := make(map[curated.Outcome]int)
	for i := range people {
		w.must(errs[i])
		counts[results[i].Outcome]++
		if results[i].View.Curated.Status != bot.CuratedPendingApproval {
			t.Errorf("somebody is told that it is %s", results[i].View.Curated.Status)
		}
	}
	if counts[curated.Done] != 1 || counts[curated.AlreadySubmitted] != people-1 {
		t.Errorf("outcomes %v, want 1 done and %d already submitted", counts, people-1)
	}
	view, _, err := w.desk.Read(t.Context(), id)
	w.must(err)
	if len(view.Curated.Rows) != 2 {
		t.Errorf("the set has %d rows", len(view.Curated.Rows))
	}
}

// editing is git that lets somebody edit the draft while it is checked.
type editing struct {
	bot.Git
	edit func()
}

func (g editing) Build(ctx context.Context, remote bot.GitRemote, spec bot.BuildSpec) (bot.Build, error) {
	g.edit()
	return g.Git.Build(ctx, remote, spec)
}

// "It changed while it was checked" and "it was submitted already" are two different answers.
func TestADraftThatChangesWhileItIsCheckedIsNotSubmitted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b, c := w.opens(file("a", "a\n")), w.opens(file("b", "b\n")), w.opens(file("c", "c\n"))
	id := w.drafts(a, b)
	git := w.desk.Git
	w.desk.Git = editing{git, func() {
		_, err := w.desk.Save(t.Context(), on("ada"), curated.Draft{ID: id, Rows: rowsOf(a, b, c)})
		w.must(err)
	}}
	result, err := w.desk.Submit(t.Context(), on("ada"), id, 0)
	w.must(err)
	w.wantOutcome(result, curated.Changed)
	if set := result.View.Curated; set.Status != bot.CuratedDraft || len(set.Rows) != 3 {
		t.Errorf("it stands as %+v", set)
	}
	w.desk.Git = git
	if result, err = w.desk.Submit(t.Context(), on("ada"), id, result.View.Curated.Version-1); err != nil || result.Outcome != curated.Changed {
		t.Errorf("an older version: %+v, %v", result, err)
	}
	w.submits(id)
	result, err = w.desk.Submit(t.Context(), on("ada"), id, 0)
	w.must(err)
	w.wantOutcome(result, curated.AlreadySubmitted)
	result, err = w.desk.Save(t.Context(), on("ada"), curated.Draft{ID: id, Rows: rowsOf(a, b)})
	w.must(err)
	w.wantOutcome(result, curated.AlreadySubmitted)
}

// A push in the last instant is seen by git: what was read of the host is not what would be merged.
func TestAPushWhileItIsCheckedIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.opens(file("a", "a\n")), w.opens(file("b", "b\n"))
	id := w.drafts(a, b)
	w.desk.Git = editing{w.desk.Git, func() {
		_, err := w.fake.PushTo(path, b, file("b", "changed\n"))
		w.must(err)
	}}
	result, err := w.desk.Submit(t.Context(), on("ada"), id, 0)
	w.must(err)
	w.wantProblems(result, fmt.Sprintf("head row 2 !%d: was pushed to while it was checked: try again", b))
}

func TestATargetThatIsGoneIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.drafts(w.opens(file("a", "a\n")), w.opens(file("b", "b\n")))
	w.git("update-ref", "-d", "refs/heads/main")
	w.desk.Hosts["hub"] = shown{w.host, func(mr bot.MRSnapshot) bot.MRSnapshot {
		mr.State = bot.MROpen
		return mr
	}}
	result, err := w.desk.Submit(t.Context(), on("ada"), id, 0)
	w.must(err)
	w.wantProblems(result, "merge row 0 !0: the target branch main does not exist: restore it first")
}

func (w *world) tip(branch string) string {
	w.t.Helper()
	sha, err := w.fake.Branch(path, branch)
	w.must(err)
	return sha
}

// git runs git in the host's own repository.
func (w *world) git(args ...string) string {
	w.t.Helper()
	command := exec.CommandContext(w.t.Context(), "git", append([]string{"--git-dir", w.fake.RepoPath("acme", "app"), "-c", "user.name=t", "-c", "user.email=t@t.test"}, args...)...)
	out, err := command.CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// contains moves main to a commit that has head as a parent, without the host merging anything.
func (w *world) contains(head string) {
	w.t.Helper()
	tree := w.git("rev-parse", head+"^{tree}")
	w.must(w.fake.SetBranch(path, "main", w.git("commit-tree", tree, "-p", w.tip("main"), "-p", head, "-m", "Take it in"), "bob"))
}

// orphan opens a merge request that shares no history with main.
func (w *world) orphan() int {
	w.t.Helper()
	w.git("update-ref", "refs/heads/orphan", w.git("commit-tree", w.git("rev-parse", "main^{tree}"), "-m", "Begin"))
	number, err := w.fake.OpenMR(path, fakehost.NewMR{Author: "ada", Head: "orphan", Title: "Orphan"})
	w.must(err)
	return number
}

// fails makes an operation of a merge request that failed by itself.
func (w *world) fails(number int) {
	w.t.Helper()
	op := w.applies(number, true)
	claim, err := w.store.Claim(w.t.Context(), bot.ClaimSpec{QueueID: w.queue.ID, Kind: bot.BatchFresh, Limit: 1000, Token: "0a1b2c3d", Timeout: 1 << 40})
	w.must(err)
	settlement := bot.Settlement{Guard: claim.Batch.Guard(), Status: bot.BatchFailed, Code: bot.CodeCIRed}
	for _, m := range claim.Members {
		o := bot.MemberOutcome{OperationID: m.ID, To: bot.OperationWaiting, Reason: bot.ReasonBatchFailed}
		if m.ID == op.ID {
			o.To, o.Reason = bot.OperationFailed, bot.ReasonCIRed
		}
		settlement.Members = append(settlement.Members, o)
	}
	ok, err := w.store.Settle(w.t.Context(), settlement)
	w.must(err)
	if !ok {
		w.t.Fatal("the batch was not settled")
	}
}
