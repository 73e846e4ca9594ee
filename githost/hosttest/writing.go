package hosttest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
)

const batchBranch = "batchbot/7-0badcafe/main"

// openBatch pushes a batch branch and has the adapter open its merge request.
func openBatch(t *testing.T, w World, files map[string]string) bot.MRSnapshot {
	t.Helper()
	w.Commit(batchBranch, files)
	return ok[bot.MRSnapshot](t)(w.Host().OpenMR(t.Context(), w.Repository(), bot.NewMR{
		Title: "Batch 7", Body: "Two members.", Source: batchBranch, Target: "main",
	}))
}

func merge(t *testing.T, w World, mr bot.MRSnapshot) bot.MergeAnswer {
	t.Helper()
	return ok[bot.MergeAnswer](t)(w.Host().MergeMR(t.Context(), w.Repository(), mr.Number, mr.HeadSHA, "Batch 7", "#1 and #2"))
}

func writesStatus(t *testing.T, w World) {
	sha := w.Commit("b1", map[string]string{"a.txt": "a\n"})
	for _, status := range []bot.CommitStatus{
		{State: bot.CheckPending, Description: "waits for an approval"},
		{State: bot.CheckSuccess, Description: strings.Repeat("groß ", 60), URL: "https://bot.example/batches/7"},
		{State: bot.CheckSuccess, Description: strings.Repeat("groß ", 60), URL: "https://bot.example/batches/7"},
	} {
		must(t, w.Host().SetCommitStatus(t.Context(), w.Repository(), sha, status))
		seen := w.Statuses(sha)
		if len(seen) == 0 || seen[len(seen)-1].State != status.State || !strings.HasPrefix(seen[len(seen)-1].Description, status.Description[:10]) {
			t.Errorf("people see %+v, want %+v last", seen, status)
		}
	}
	report := ok[bot.ChecksReport](t)(w.Host().ReadChecks(t.Context(), w.Repository(), sha, "main"))
	for _, c := range report.Checks {
		if !c.Own {
			t.Errorf("%+v is not known as our own", c)
		}
	}
	if got := bot.JudgeChecks(asSeen, report, time.Minute, time.Hour); got.Verdict != bot.CIPending {
		t.Errorf("with only our own status CI is %v", got.Verdict)
	}
}

func findsBatchMR(t *testing.T, w World) {
	find := func() []bot.MRSnapshot {
		t.Helper()
		return ok[[]bot.MRSnapshot](t)(w.Host().FindMRs(t.Context(), w.Repository(), batchBranch))
	}
	if list := find(); len(list) != 0 {
		t.Errorf("before there is one found %v", list)
	}
	w.OpenMR(change("bob", "b1", "x.txt"))
	mr := openBatch(t, w, map[string]string{"a.txt": "a\n"})
	if list := find(); len(list) != 1 || list[0].Number != mr.Number || list[0].State != bot.MROpen || list[0].HeadSHA != mr.HeadSHA {
		t.Errorf("open: found %+v", list)
	}
	w.Close(mr.Number, "ada")
	if list := find(); len(list) != 1 || list[0].State != bot.MRClosed {
		t.Errorf("closed: found %+v", list)
	}
	again := openBatch(t, w, map[string]string{"b.txt": "b\n"})
	if list := find(); len(list) != 2 || list[0].Number != again.Number {
		t.Errorf("opened again: found %+v", list)
	}
	w.Merge(again.Number, "ada")
	if list := find(); len(list) != 2 || list[0].State != bot.MRMerged || list[1].State != bot.MRClosed {
		t.Errorf("merged: found %+v", list)
	}
}

func opensOnce(t *testing.T, w World) {
	mr := openBatch(t, w, map[string]string{"a.txt": "a\n"})
	if mr.State != bot.MROpen || mr.SourceBranch != batchBranch || mr.Target != "main" || mr.HeadSHA != tip(t, w, batchBranch) {
		t.Errorf("opened %+v", mr)
	}
	again := ok[bot.MRSnapshot](t)(w.Host().OpenMR(t.Context(), w.Repository(), bot.NewMR{
		Title: "Batch 7", Body: "Two members.", Source: batchBranch, Target: "main",
	}))
	if again.Number != mr.Number {
		t.Errorf("opened %d, and then %d", mr.Number, again.Number)
	}
}

func editsBatchMR(t *testing.T, w World) {
	mr := openBatch(t, w, map[string]string{"a.txt": "a\n"})
	must(t, w.Host().EditMR(t.Context(), w.Repository(), mr.Number, "Batch 7: 1 of 2", "One left."))
	if got := read(t, w, mr.Number); got.Title != "Batch 7: 1 of 2" || got.Body != "One left." || got.State != bot.MROpen || got.Target != "main" {
		t.Errorf("read %+v", got)
	}
}

func mergesBatchMR(t *testing.T, w World) {
	mr := openBatch(t, w, map[string]string{"a.txt": "a\n"})
	answer := merge(t, w, mr)
	if answer.Outcome != bot.MergeDone || answer.SHA != tip(t, w, "main") || answer.SHA == mr.HeadSHA {
		t.Errorf("answer %+v, target at %s", answer, tip(t, w, "main"))
	}
	if got := read(t, w, mr.Number); got.State != bot.MRMerged || got.MergeSHA != answer.SHA {
		t.Errorf("read %+v", got)
	}
}

func guardsHead(t *testing.T, w World) {
	mr := openBatch(t, w, map[string]string{"a.txt": "a\n"})
	before := tip(t, w, "main")
	w.Commit(batchBranch, map[string]string{"b.txt": "sneaked in\n"})
	if answer := merge(t, w, mr); answer.Outcome != bot.MergeHeadMoved {
		t.Errorf("answer %+v, want head moved", answer)
	}
	if now := tip(t, w, "main"); now != before {
		t.Error("the target moved")
	}
}

func refusesClosed(t *testing.T, w World) {
	mr := openBatch(t, w, map[string]string{"a.txt": "a\n"})
	w.Close(mr.Number, "ada")
	if answer := merge(t, w, mr); answer.Outcome != bot.MergeClosed {
		t.Errorf("answer %+v, want closed", answer)
	}
}

func refusesConflict(t *testing.T, w World) {
	mr := openBatch(t, w, map[string]string{"README.md": "ours\n"})
	w.Commit("main", map[string]string{"README.md": "theirs\n"})
	// The host may need a moment to find out.
	answer := merge(t, w, mr)
	if answer.Outcome != bot.MergeRefused && answer.Outcome != bot.MergeNotReady {
		t.Errorf("answer %+v, want refused", answer)
	}
	if answer.Message == "" {
		t.Error("nobody learns why")
	}
}

func needsApproval(t *testing.T, w World) {
	mr := openBatch(t, w, map[string]string{"a.txt": "a\n"})
	w.RequireApprovals("main", 1)
	if answer := merge(t, w, mr); answer.Outcome != bot.MergeNeeds || answer.Message == "" {
		t.Errorf("answer %+v, want that something is needed, and what", answer)
	}
	w.Approve(mr.Number, "ada", "")
	if answer := merge(t, w, mr); answer.Outcome != bot.MergeDone {
		t.Errorf("approved: answer %+v", answer)
	}
}

func mergesTwice(t *testing.T, w World) {
	mr := openBatch(t, w, map[string]string{"a.txt": "a\n"})
	first := merge(t, w, mr)
	second := merge(t, w, mr)
	if first.Outcome != bot.MergeDone || second != first {
		t.Errorf("first %+v, second %+v", first, second)
	}
}

func closesTwice(t *testing.T, w World) {
	closed := openBatch(t, w, map[string]string{"a.txt": "a\n"})
	merged := w.OpenMR(change("bob", "b1", "x.txt"))
	w.Merge(merged, "ada")
	for range 2 {
		must(t, w.Host().CloseMR(t.Context(), w.Repository(), closed.Number))
		must(t, w.Host().CloseMR(t.Context(), w.Repository(), merged))
	}
	if got := read(t, w, closed.Number).State; got != bot.MRClosed {
		t.Errorf("the closed one reads %v", got)
	}
	if got := read(t, w, merged).State; got != bot.MRMerged {
		t.Errorf("the merged one reads %v", got)
	}
}

const marker = "<!-- batchbot:sticky -->"

func upsert(t *testing.T, w World, number int, body string, known int64) int64 {
	t.Helper()
	return ok[int64](t)(w.Host().UpsertComment(t.Context(), w.Repository(), number, marker, marker+"\n"+body, known))
}

func upsertsOnce(t *testing.T, w World) {
	number := w.OpenMR(change("bob", "b1", "a.txt"))
	id := upsert(t, w, number, "waiting", 0)
	if again := upsert(t, w, number, "riding", id); again != id {
		t.Errorf("wrote comment %d, then %d", id, again)
	}
	for known, want := range map[int64]bool{id: true, id + 1_000_000: false} {
		if has := ok[bool](t)(w.Host().HasComment(t.Context(), w.Repository(), number, known)); has != want {
			t.Errorf("comment %d is there: %v", known, has)
		}
	}
	if seen := w.Comments(number); len(seen) != 1 || seen[0].ID != id || !strings.Contains(seen[0].Body, "riding") {
		t.Errorf("people see %+v", seen)
	}
}

func upsertsByMarker(t *testing.T, w World) {
	number := w.OpenMR(change("bob", "b1", "a.txt"))
	id := upsert(t, w, number, "waiting", 0)
	w.Comment(number, "bob", "thanks")
	for _, known := range []int64{0, id + 1_000_000} {
		if again := upsert(t, w, number, "landed", known); again != id {
			t.Errorf("knowing %d it wrote %d, want %d", known, again, id)
		}
	}
	if seen := w.Comments(number); len(seen) != 2 || !strings.Contains(seen[0].Body, "landed") {
		t.Errorf("people see %+v", seen)
	}
}

func upsertsOwnOnly(t *testing.T, w World) {
	number := w.OpenMR(change("bob", "b1", "a.txt"))
	w.Comment(number, "dan", marker+" mine")
	upsert(t, w, number, "waiting", 0)
	seen := w.Comments(number)
	if len(seen) != 2 || seen[0].Body != marker+" mine" || !strings.Contains(seen[1].Body, "waiting") {
		t.Errorf("people see %+v", seen)
	}
}

func reacts(t *testing.T, w World) {
	number := w.OpenMR(change("bob", "b1", "a.txt"))
	id := w.Comment(number, "bob", "/batch")
	for range 2 {
		must(t, w.Host().React(t.Context(), w.Repository(), number, bot.CommentIssue, id, bot.ReactionSeen))
	}
	if seen := w.Comments(number); !slices.Equal(seen[0].Reactions, []bot.Reaction{bot.ReactionSeen}) {
		t.Errorf("people see %v", seen[0].Reactions)
	}
	must(t, w.Host().React(t.Context(), w.Repository(), number, bot.CommentIssue, id+1_000_000, bot.ReactionSeen))
	must(t, w.Host().React(t.Context(), w.Repository(), number, bot.CommentReview, 1, bot.ReactionDone))
}

func listsComments(t *testing.T, w World) {
	first, second := w.OpenMR(change("bob", "b1", "a.txt")), w.OpenMR(change("cleo", "b2", "b.txt"))
	one := w.Comment(first, "bob", "/batch")
	two := w.Comment(second, "cleo", "/batch\r\nplease 🚀")
	list := ok[[]bot.Comment](t)(w.Host().ListComments(t.Context(), w.Repository(), time.Time{}))
	if len(list) != 2 || list[0].ID != one || list[0].Number != first || list[0].Author.Login != "bob" || list[0].Kind != bot.CommentIssue ||
		list[1].ID != two || list[1].Number != second || list[1].Body != "/batch\r\nplease 🚀" {
		t.Fatalf("listed %+v", list)
	}
	if at := ok[[]bot.Comment](t)(w.Host().ListComments(t.Context(), w.Repository(), list[1].CreatedAt)); len(at) == 0 || at[len(at)-1].ID != two {
		t.Errorf("from the moment of the last one on listed %+v", at)
	}
	later := list[1].CreatedAt.Add(time.Hour)
	if after := ok[[]bot.Comment](t)(w.Host().ListComments(t.Context(), w.Repository(), later)); len(after) != 0 {
		t.Errorf("from a later moment on listed %+v", after)
	}
}

func listsReviewComments(t *testing.T, w World) {
	number := w.OpenMR(change("bob", "b1", "a.txt"))
	w.Approve(number, "cleo", "")
	w.Approve(number, "ada", "fine\n/batch")
	if peculiarities(w).SilentApprovals {
		all := ok[[]bot.Comment](t)(w.Host().ListComments(t.Context(), w.Repository(), time.Time{}))
		if len(all) != 1 || all[0].Body != "fine\n/batch" || all[0].Author.Login != "ada" || all[0].Number != number {
			t.Errorf("listed %+v", all)
		}
		if list := ok[[]bot.Comment](t)(w.Host().ListReviewComments(t.Context(), w.Repository(), number)); len(list) != 0 {
			t.Errorf("listed %+v a second time", list)
		}
		return
	}
	list := ok[[]bot.Comment](t)(w.Host().ListReviewComments(t.Context(), w.Repository(), number))
	if len(list) != 1 || list[0].Kind != bot.CommentReview || list[0].Body != "fine\n/batch" || list[0].Author.Login != "ada" || list[0].Number != number || list[0].CreatedAt.IsZero() {
		t.Errorf("listed %+v", list)
	}
}
