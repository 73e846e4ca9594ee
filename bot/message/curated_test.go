package message

import (
	"regexp"
	"strings"
	"testing"

	"github.com/batchbot/batchbot/bot"
)

// rollup is a set of three in a state a case is about.
func rollup(status bot.CuratedStatus, reason string) bot.Curated {
	set := bot.Curated{ID: 4, QueueID: 1, MergeRequestID: 5, Number: 2, Status: status, Version: 3, Drafter: "ada", Reason: reason}
	for i, n := range []int{2, 12, 15} {
		row := bot.CuratedRow{ID: int64(i + 1), RowNo: i + 1, Number: n}
		if status != bot.CuratedDraft {
			row.HeadSHA, set.Committed = strings.Repeat(string(rune('1'+i)), 40), true
		}
		set.Rows = append(set.Rows, row)
	}
	if status == bot.CuratedApproved || status == bot.CuratedRejected {
		set.Decider = "grace"
	}
	return set
}

func stickyOf(set bot.Curated, views ...bot.OperationView) string {
	return Sticky(bot.StickyView{MergeRequest: bot.MergeRequest{ID: 5, Number: 2}, Operations: views, Curated: &set}, links)
}

// curatedTexts is every text about curated batches, by golden file.
func curatedTexts() map[string]string {
	main := bot.Queue{ID: 1, Target: "main"}
	draft, submitted, approved := rollup(bot.CuratedDraft, ""), rollup(bot.CuratedPendingApproval, ""), rollup(bot.CuratedApproved, "")
	rejected := rollup(bot.CuratedRejected, "12 was pushed to")
	waiting := view(bot.OperationWaiting, bot.ReasonCurated, "")
	waiting.Operation.Cohort = bot.CuratedCohort(4)
	again := waiting
	again.Operation.Reason, again.Operation.Detail = bot.ReasonSuspect, ""
	riding := view(bot.OperationBatched, bot.ReasonClaimed, "")
	riding.Operation.Cohort = bot.CuratedCohort(4)
	riding.Batch.Why = "testing the 3 members of curated batch 4 together"
	broken := view(bot.OperationRejected, bot.ReasonSetBroken, "12 was pushed to")
	red := bot.BatchView{Batch: *batch(bot.BatchFailed, bot.CodeCIRed), Queue: main, Members: []bot.BatchMember{
		{Operation: operation(bot.OperationRejected, bot.ReasonCIRed, ""), HeadSHA: headSHA, Event: bot.MemberFailed, Reason: bot.ReasonCIRed, Detail: "https://ci.example/run/9"},
	}}
	red.Batch.Kind = bot.BatchCurated
	problems := []bot.CuratedProblem{
		{Kind: bot.ProblemSize, Text: "the set has 3 members and max_batch_size of its queue is 2: make it smaller, or raise that in .batchbot.yml"},
		{Kind: bot.ProblemOpen, RowNo: 2, Number: 12, Text: "is a draft; mark it ready first"},
		{Kind: bot.ProblemMerge, RowNo: 3, Number: 15, Text: "conflicts with row 1 in a.go, dir/b.go: mend it, change the order, or leave one out"},
		{Kind: bot.ProblemBusy, Number: 15, Text: "waits for the next batch by itself"},
		{Kind: bot.ProblemRows, Number: 7, Text: "the row number 2 is there twice: number the rows differently"},
	}
	return map[string]string{
		"sticky_curated_draft":     stickyOf(draft),
		"sticky_curated_submitted": stickyOf(submitted, view(bot.OperationPendingApproval, bot.ReasonApplied, "needs 1 more approval")),
		"sticky_curated_approved":  stickyOf(approved, waiting),
		"sticky_curated_riding":    stickyOf(approved, riding),
		"sticky_curated_rejected":  stickyOf(rejected, broken),
		"sticky_curated_again":     sticky(again),
		"sticky_curated_member":    sticky(broken),
		"sticky_curated_red":       sticky(view(bot.OperationRejected, bot.ReasonCIRed, "https://ci.example/run/9")),

		"notice_set_broken": Notice(entry(bot.OperationWaiting, bot.OperationRejected, bot.ReasonSetBroken, "12 was pushed to"), links),
		"notice_set_red":    Notice(entry(bot.OperationBatched, bot.OperationRejected, bot.ReasonCIRed, "CI failed: test (https://ci.example/run/9)"), links),
		"notice_set_moved":  Notice(entry(bot.OperationBatched, bot.OperationRejected, bot.ReasonHeadMoved, ""), links),

		"batch_report_curated_red": BatchReport(red, links),

		"reply_curated_draft":             CuratedDone(draft, main, links),
		"reply_curated_submitted":         CuratedDone(submitted, main, links),
		"reply_curated_approved":          CuratedDone(approved, main, links),
		"reply_curated_cancelled":         CuratedDone(rollup(bot.CuratedCancelled, ""), main, links),
		"reply_curated_not_submitted":     CuratedNotSubmitted(draft),
		"reply_curated_changed":           CuratedChanged(draft, links),
		"reply_curated_submitted_already": CuratedSubmittedAlready(submitted),
		"reply_curated_approved_already":  CuratedDecidedAlready(approved),
		"reply_curated_rejected_already":  CuratedDecidedAlready(rejected),
		"reply_curated_landed_already":    CuratedDecidedAlready(rollup(bot.CuratedDone, "")),
		"reply_curated_forbidden":         CuratedForbidden("mallory", "only people with write access decide about a set"),
		"reply_curated_refused_submit":    CuratedRefused("submit", draft, problems, links),
		"reply_curated_refused_approve":   CuratedRefused("approve", submitted, problems[2:4], links),
		"reply_curated_refused_with":      CuratedRefused("with", bot.Curated{}, problems[4:], links),
		"reply_curated_none":              NoSet(),
		"reply_curated_unavailable":       NoCurated(),
		"reply_curated_usage":             WithUsage([]string{"and", "https://git.example/other/app/pull/3"}, []int{12}, links),
		"reply_curated_usage_nothing":     WithUsage(nil, nil, links),
	}
}

// A set may have a thousand members, and as many problems: what is said about it fits a comment, and a reply its column.
func TestTheTextOfABigSetFitsTheHost(t *testing.T) {
	t.Parallel()
	set := bot.Curated{ID: 4, Status: bot.CuratedRejected, Committed: true, Drafter: "ada"}
	var problems []bot.CuratedProblem
	for n := range bot.MaxCurated {
		set.Rows = append(set.Rows, bot.CuratedRow{RowNo: n + 1, Number: 1 + n%9, HeadSHA: headSHA})
		problems = append(problems, bot.CuratedProblem{RowNo: n + 1, Number: 1 + n%9, Text: strings.Repeat("<@", 500)})
	}
	for name, text := range map[string]string{
		"sticky": stickyOf(set), "done": CuratedDone(set, bot.Queue{Target: "main"}, links), "refused": CuratedRefused("submit", set, problems, links),
	} {
		if len(text) > 10_000 {
			t.Errorf("%s has %d bytes", name, len(text))
		}
		if !regexp.MustCompile(`and 9\d\d more`).MatchString(text) {
			t.Errorf("%s does not say how many it leaves out:\n%s", name, text)
		}
	}
}
