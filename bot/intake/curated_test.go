package intake

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/curated"
)

// fakeDesk answers as it is told, and notes what it was asked.
type fakeDesk struct {
	set    *bot.Curated // of merge request 1
	answer curated.Result
	err    error
	asked  []string
	asker  curated.Asker
}

func (d *fakeDesk) did(who curated.Asker, format string, args ...any) (curated.Result, error) {
	d.asker = who
	d.asked = append(d.asked, fmt.Sprintf(format, args...))
	return d.answer, d.err
}

func (d *fakeDesk) Of(_ context.Context, mergeRequestID int64) (bot.Curated, bool, error) {
	if d.set == nil || mergeRequestID != 1 {
		return bot.Curated{}, false, nil
	}
	return *d.set, true, nil
}

func (d *fakeDesk) Save(_ context.Context, who curated.Asker, draft curated.Draft) (curated.Result, error) {
	var numbers []int
	for _, r := range draft.Rows {
		numbers = append(numbers, r.Number)
	}
	return d.did(who, "save %d of queue %d on %d: %v", draft.ID, draft.QueueID, draft.MergeRequestID, numbers)
}

func (d *fakeDesk) Submit(_ context.Context, who curated.Asker, id, version int64) (curated.Result, error) {
	return d.did(who, "submit %d at %d", id, version)
}

func (d *fakeDesk) Approve(_ context.Context, who curated.Asker, id, version int64) (curated.Result, error) {
	return d.did(who, "approve %d at %d", id, version)
}

func (d *fakeDesk) Cancel(_ context.Context, who curated.Asker, id, _ int64) (curated.Result, error) {
	return d.did(who, "cancel %d", id)
}

// desk puts a desk into the world that says yes, with a set in this state on merge request 1; 0: none.
func (w *world) desk(status bot.CuratedStatus) *fakeDesk {
	set := bot.Curated{ID: 4, QueueID: 1, MergeRequestID: 1, Number: 1, Status: status, Version: 3, Drafter: "ada", Decider: "grace",
		Rows: []bot.CuratedRow{{RowNo: 1, Number: 1}, {RowNo: 2, Number: 2}}}
	d := &fakeDesk{answer: curated.Result{Outcome: curated.Done, View: bot.CuratedView{Curated: set, Queue: bot.Queue{ID: 1, Target: "main"}}}}
	if status != 0 {
		d.set = &set
	}
	w.applier.Curated = d
	w.opens(1)
	return d
}

func (d *fakeDesk) wantAsked(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(d.asked, want) {
		t.Errorf("the desk was asked %q, want %q", d.asked, want)
	}
	d.asked = nil
}

func TestADraftNamesItsMembersInOrder(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"/batch with #12 #15":         "[1 12 15]",
		"/batch with 12, 15 1":        "[12 15 1]", // its own place, where that is named
		"/BATCH WITH #12":             "[1 12]",
		"/batch with 12,15,#3 #1 #20": "[12 15 3 1 20]",
		"/batch with https://git.example/team/app/pull/12/files": "[1 12]",
	} {
		w := newWorld(t)
		d := w.desk(0)
		w.says(ada, 1, body)
		d.wantAsked(t, "save 0 of queue 1 on 1: "+want)
		w.replies("Curated batch 4 into `main` is")
		if d.asker.Name != "ada" || d.asker.Command == nil || d.asker.Command.RequestID != "git:issue:1:1" || d.asker.May {
			t.Errorf("asked by %+v", d.asker)
		}
	}
}

func TestADraftThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"/batch with": "Nothing was drafted. Name the merge requests",
		"/batch with #12 and #15 https://git.example/other/app/pull/3": "These are no merge requests of this repository: and, https:",
		"/batch with #12 #15 12": "named more than once: [#12]",
	} {
		w := newWorld(t)
		d := w.desk(0)
		w.says(ada, 1, body)
		d.wantAsked(t)
		w.replies(want)
	}
}

func TestWithoutADeskThereAreNoCuratedBatches(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"with #2", "submit", "approve"} {
		w := newWorld(t)
		w.opens(1)
		w.says(ada, 1, "/batch "+verb)
		w.replies("Curated batches are not available here.")
	}
}

func TestCommandsOfOutsidersDoNotReachTheDesk(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"with #2", "submit", "approve", "cancel"} {
		w := newWorld(t)
		d := w.desk(bot.CuratedDraft)
		w.says(mallory, 1, "/batch "+verb)
		d.wantAsked(t)
		w.replies("only the author of a merge request and people with write access")
	}
}

func TestABranchWithoutAQueueHasNoSets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.desk(0)
	w.changes(1, func(mr *bot.MRSnapshot) { mr.Target = "topic" })
	w.says(ada, 1, "/batch with #2")
	d.wantAsked(t)
	w.replies("`topic` has no queue")
}

func TestEachAnswerOfTheDeskIsSaid(t *testing.T) {
	t.Parallel()
	problem := []bot.CuratedProblem{{Kind: bot.ProblemOpen, RowNo: 2, Number: 2, Text: "is a draft; mark it ready first"}}
	for _, c := range []struct {
		verb     string
		status   bot.CuratedStatus // as it stands
		answer   curated.Result
		asked    string
		reply    string // "": none
		reaction bot.Reaction
	}{
		{"submit", bot.CuratedDraft, curated.Result{Outcome: curated.Done}, "submit 4 at 0", "| 2 |", ""},
		{"submit", bot.CuratedDraft, curated.Result{Outcome: curated.Refused, Problems: problem}, "submit 4 at 0", "Row 2, [#2](https://git.example/team/app/pull/2) is a draft; mark it ready first.", bot.ReactionRefused},
		{"submit", bot.CuratedDraft, curated.Result{Outcome: curated.Changed}, "submit 4 at 0", "changed while it was checked", bot.ReactionRefused},
		{"submit", bot.CuratedPendingApproval, curated.Result{Outcome: curated.AlreadySubmitted}, "submit 4 at 0", "was submitted already", bot.ReactionRefused},
		{"submit", bot.CuratedDraft, curated.Result{Outcome: curated.Superseded}, "submit 4 at 0", "A later command", ""},
		{"submit", bot.CuratedDraft, curated.Result{Outcome: curated.Duplicate}, "submit 4 at 0", "", ""},
		{"submit", bot.CuratedDraft, curated.Result{Outcome: curated.NotFound}, "submit 4 at 0", "No curated batch was drafted", bot.ReactionConfused},
		{"approve", bot.CuratedPendingApproval, curated.Result{Outcome: curated.Done}, "approve 4 at 0", "| 2 |", ""},
		{"approve", bot.CuratedPendingApproval, curated.Result{Outcome: curated.Forbidden, Reason: "whoever drafted it"}, "approve 4 at 0", "Sorry, ada: whoever drafted it.", bot.ReactionRefused},
		{"approve", bot.CuratedDraft, curated.Result{Outcome: curated.NotSubmitted}, "approve 4 at 0", "is still a draft", bot.ReactionRefused},
		{"approve", bot.CuratedApproved, curated.Result{Outcome: curated.AlreadyDecided}, "approve 4 at 0", "was approved already by grace", bot.ReactionRefused},
	} {
		w := newWorld(t)
		d := w.desk(c.status)
		c.answer.View = d.answer.View
		d.answer = c.answer
		w.says(ada, 1, "/batch "+c.verb)
		d.wantAsked(t, c.asked)
		var reaction bot.Reaction
		for _, a := range w.rows.answers {
			reaction = a.Reaction
		}
		if reaction != c.reaction {
			t.Errorf("%s, outcome %d: reaction %q, want %q", c.verb, c.answer.Outcome, reaction, c.reaction)
		}
		if c.reply == "" {
			w.replies()
			continue
		}
		w.replies(c.reply)
	}
}

func TestSubmitAndApproveWithoutASet(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"submit", "approve"} {
		w := newWorld(t)
		d := w.desk(0)
		w.says(ada, 1, "/batch "+verb)
		d.wantAsked(t)
		w.replies("No curated batch was drafted on this merge request.")
	}
}

// Trouble behind the desk makes the command come back; once it is over the command is carried out, and once only.
func TestACommandAtTheDeskComesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.desk(bot.CuratedDraft)
	comment := w.wrote(ada, 1, "/batch submit")
	d.err = errDown
	if err := w.hears(comment); err == nil {
		t.Error("trouble is swallowed")
	}
	d.err, d.answer.Outcome = nil, curated.RetryLater
	if err := w.hears(comment); err == nil {
		t.Error("somebody who is not visible yet is swallowed")
	}
	d.answer.Outcome = curated.Done
	for range 2 {
		if err := w.hears(comment); err != nil {
			t.Fatal(err)
		}
		w.rows.handled["git:issue:1:1"] = true // as the store does in the transaction
	}
	d.wantAsked(t, "submit 4 at 0", "submit 4 at 0", "submit 4 at 0")
	w.replies("Curated batch 4 into `main` is")
}

func TestCancelEndsTheSetAndTheApplication(t *testing.T) {
	t.Parallel()
	// The set alone.
	w := newWorld(t)
	d := w.desk(bot.CuratedPendingApproval)
	d.answer.View.Curated.Status = bot.CuratedCancelled
	w.says(grace, 1, "/batch cancel")
	d.wantAsked(t, "cancel 4")
	if !d.asker.May || d.asker.Command.RequestID != "git:issue:1:1" {
		t.Errorf("asked by %+v", d.asker)
	}
	w.replies("Curated batch 4 is cancelled.")

	// Both: the command is recorded with the application, and the set has an entry of its own beside it.
	w = newWorld(t)
	d = w.desk(bot.CuratedDraft)
	w.says(ada, 1, "/batch")
	w.says(ada, 1, "/batch cancel")
	d.wantAsked(t, "cancel 4")
	if d.asker.Command.RequestID != "git:issue:2:1:set" {
		t.Errorf("the set is cancelled as %q", d.asker.Command.RequestID)
	}
	w.stands(1, bot.OperationCancelled, first)
	w.replies()

	// An approved set ends with its member; so does one that was approved just now.
	for status, outcome := range map[bot.CuratedStatus]curated.Outcome{bot.CuratedApproved: 0, bot.CuratedPendingApproval: curated.AlreadyDecided} {
		w = newWorld(t)
		d = w.desk(status)
		d.answer.Outcome = outcome
		w.says(ada, 1, "/batch")
		w.says(ada, 1, "/batch cancel")
		w.stands(1, bot.OperationCancelled, first)
	}

	// A later command came first: neither is touched.
	w = newWorld(t)
	d = w.desk(bot.CuratedDraft)
	d.answer.Outcome = curated.Superseded
	w.says(ada, 1, "/batch")
	w.says(ada, 1, "/batch cancel")
	w.stands(1, bot.OperationPendingApproval, first)
	w.replies("A later command")
}

func TestTheStatusShowsTheSet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.desk(bot.CuratedDraft)
	w.says(ada, 1, "/batch status")
	w.replies("**Curated batch 4: a draft**")
	if strings.Contains(fmt.Sprint(w.rows.answers), "not applied") {
		t.Error("it says that nothing was applied")
	}
}
