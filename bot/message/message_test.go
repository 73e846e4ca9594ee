package message

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/batchbot/batchbot/bot"
)

var update = flag.Bool("update", false, "write the golden files")

const (
	operationID = "0b7c1d52-6f0e-4a53-9d55-0c9c7c1f2a10"
	headSHA     = "1111111111111111111111111111111111111111"
	landedSHA   = "9f8e7d6c5b4a39281706f5e4d3c2b1a009182736"
)

var links = Links{mark: "#", url: func(number int) string {
	return "https://git.example/team/app/pull/" + strings.Repeat("1", number)
}}

// operation is an ordinary operation in the state a case is about.
func operation(status bot.OperationStatus, reason bot.Reason, words string) bot.Operation {
	return bot.Operation{
		ID: operationID, Status: status, Target: "main", Number: 2, Title: "Add a retry to the uploader",
		Author: bot.Actor{ID: 7, Login: "ada"}, Requester: "ada", HeadSHA: headSHA, Reason: reason, Detail: words,
	}
}

func view(status bot.OperationStatus, reason bot.Reason, words string) bot.OperationView {
	v := bot.OperationView{Operation: operation(status, reason, words), Queue: bot.Queue{ID: 1, Target: "main", State: bot.QueueOpen}}
	switch status {
	case bot.OperationWaiting:
		v.Position = 3
	case bot.OperationBatched:
		v.Batch = batch(bot.BatchRunning, bot.CodeNone)
	case bot.OperationMerged:
		v.Batch = batch(bot.BatchSucceeded, bot.CodeLanded)
	}
	return v
}

func batch(status bot.BatchStatus, code bot.Code) *bot.Batch {
	b := &bot.Batch{
		ID: 7, Token: "0a1b2c3d", Status: status, Phase: bot.PhaseOpened, Code: code, MRNumber: 4, CIConclusion: "success",
		BaseSHA: strings.Repeat("b", 40), HeadSHA: strings.Repeat("c", 40), Why: "testing 7 of 14 suspects of batch 5; 3 more runs expected",
	}
	if status == bot.BatchSucceeded {
		b.LandedSHA = landedSHA
	}
	return b
}

func sticky(views ...bot.OperationView) string {
	return Sticky(bot.StickyView{MergeRequest: bot.MergeRequest{ID: 5, Number: 2}, Operations: views}, links)
}

// members is a batch of two, the first with the title a case is about.
func members(title string) []bot.Operation {
	first, second := operation(bot.OperationBatched, bot.ReasonClaimed, ""), operation(bot.OperationBatched, bot.ReasonClaimed, "")
	first.Title = title
	second.ID, second.Number, second.Title, second.Author = "op-2", 3, "Document the uploader", bot.Actor{ID: 8, Login: "grace"}
	return []bot.Operation{first, second}
}

func batchMR(target string, members []bot.Operation) MRText {
	return BatchMR(*batch(bot.BatchRunning, ""), bot.Queue{Target: target}, members, map[string][]string{members[0].ID: {"rita", "omar"}}, links)
}

func report(status bot.BatchStatus, code bot.Code, title string) string {
	member := func(n int, event bot.MemberEvent, reason bot.Reason, words string) bot.BatchMember {
		op := operation(bot.OperationWaiting, reason, words)
		op.Number, op.Title = n, title
		return bot.BatchMember{Operation: op, HeadSHA: headSHA, Event: event, Reason: reason, Detail: words}
	}
	v := bot.BatchView{Batch: *batch(status, code), Queue: bot.Queue{Target: "main"}, Members: []bot.BatchMember{
		member(1, bot.MemberEvicted, bot.ReasonConflict, "a.go, dir/b.go"),
		member(2, bot.MemberEvicted, bot.ReasonHeadMoved, ""),
	}}
	if status == bot.BatchSucceeded {
		v.Members = append(v.Members, member(3, bot.MemberLanded, bot.ReasonLanded, ""), member(4, bot.MemberLanded, bot.ReasonContained, ""))
	} else {
		v.Members = append(v.Members, member(3, bot.MemberReturned, bot.ReasonSuspect, ""), member(4, bot.MemberFailed, bot.ReasonCIRed, "https://ci.example/run/9"))
	}
	return BatchReport(v, links)
}

func entry(from, to bot.OperationStatus, reason bot.Reason, words string) bot.HistoryEntry {
	return bot.HistoryEntry{ID: 31, Operation: operation(to, reason, words), From: from, To: to, Reason: reason, Detail: words, HeadSHA: headSHA, BatchID: 7}
}

// texts is every text the bot can write, by golden file.
func texts() map[string]string {
	parked := view(bot.OperationWaiting, bot.ReasonApproved, "")
	parked.Queue.State, parked.Queue.Reason = bot.QueueParked, "no check ever appeared on batch 7; configure CI for branches that begin with batchbot/"
	blocked := view(bot.OperationBatched, bot.ReasonClaimed, "")
	blocked.Batch = batch(bot.BatchBlocked, bot.CodeForeignPush)
	blocked.Batch.Message = "the branch stands at abc; delete it or settle the batch by hand"
	landing := view(bot.OperationBatched, bot.ReasonClaimed, "")
	landing.Batch.Phase = bot.PhaseLanding
	needs := view(bot.OperationBatched, bot.ReasonClaimed, "")
	needs.Batch.Code = bot.CodeNeedsApproval
	release := view(bot.OperationCancelled, bot.ReasonRetargeted, "the target is now main")
	release.Operation.Target = "release/1.2"
	failed := view(bot.OperationFailed, bot.ReasonCIRed, "https://ci.example/run/9")
	failed.Batch = batch(bot.BatchFailed, bot.CodeCIRed)
	missing := "needs 1 more approval at 1111111 from somebody with write access"
	lateView := bot.BatchView{Batch: *batch(bot.BatchFailed, bot.CodeClosed), Queue: bot.Queue{Target: "main"}, Members: []bot.BatchMember{
		{Operation: operation(bot.OperationMerged, bot.ReasonLandedLate, ""), HeadSHA: headSHA, Event: bot.MemberLandedLate},
	}}
	late := BatchReport(lateView, links)
	differs := bot.BatchView{Batch: *batch(bot.BatchSucceeded, bot.CodeLandedDiffers), Queue: bot.Queue{Target: "main"}}
	differs.Batch.LandedDiffers = true
	pending := view(bot.OperationPendingApproval, bot.ReasonApplied, missing)
	waiting := view(bot.OperationWaiting, bot.ReasonApproved, "")
	cancelled := view(bot.OperationCancelled, bot.ReasonCancelled, "")

	mergeTitle, mergeBody := MergeCommit(*batch(bot.BatchRunning, ""), members("Add a retry to the uploader"), links)

	all := map[string]string{
		"sticky_pending":        sticky(pending),
		"sticky_moved":          sticky(view(bot.OperationPendingApproval, bot.ReasonHeadMoved, missing)),
		"sticky_waiting":        sticky(waiting),
		"sticky_parked":         sticky(parked),
		"sticky_batched":        sticky(view(bot.OperationBatched, bot.ReasonClaimed, "")),
		"sticky_needs_approval": sticky(needs),
		"sticky_blocked":        sticky(blocked),
		"sticky_merged":         sticky(view(bot.OperationMerged, bot.ReasonLanded, "")),
		"sticky_failed":         sticky(failed),
		"sticky_conflict":       sticky(view(bot.OperationFailed, bot.ReasonConflict, "a.go, dir/b.go")),
		"sticky_two_targets":    sticky(waiting, release),
		"sticky_nothing":        sticky(),

		"notice_conflict":       Notice(entry(bot.OperationBatched, bot.OperationFailed, bot.ReasonConflict, "a.go, dir/b.go"), links),
		"notice_conflict_batch": Notice(entry(bot.OperationBatched, bot.OperationWaiting, bot.ReasonConflictBatch, "a.go"), links),
		"notice_head_moved":     Notice(entry(bot.OperationBatched, bot.OperationPendingApproval, bot.ReasonHeadMoved, missing), links),
		"notice_ci_red":         Notice(entry(bot.OperationBatched, bot.OperationFailed, bot.ReasonCIRed, "https://ci.example/run/9"), links),
		"notice_closed":         Notice(entry(bot.OperationWaiting, bot.OperationClosed, bot.ReasonClosed, ""), links),
		"notice_unapproved":     Notice(entry(bot.OperationWaiting, bot.OperationPendingApproval, bot.ReasonUnapproved, missing), links),
		"notice_drafted":        Notice(entry(bot.OperationBatched, bot.OperationPendingApproval, bot.ReasonDrafted, ""), links),
		"notice_retargeted":     Notice(entry(bot.OperationWaiting, bot.OperationCancelled, bot.ReasonRetargeted, "the target is now next"), links),
		"notice_unrelated":      Notice(entry(bot.OperationBatched, bot.OperationFailed, bot.ReasonUnrelated, ""), links),
		"notice_push_refused":   Notice(entry(bot.OperationBatched, bot.OperationFailed, bot.ReasonPushRefused, "workflow files need a permission"), links),
		"notice_suspect":        Notice(entry(bot.OperationBatched, bot.OperationWaiting, bot.ReasonSuspect, ""), links),
		"notice_batch_failed":   Notice(entry(bot.OperationBatched, bot.OperationWaiting, bot.ReasonBatchFailed, "the target branch kept moving"), links),
		"notice_expired":        Notice(entry(bot.OperationPendingApproval, bot.OperationExpired, bot.ReasonExpired, ""), links),
		"notice_landed_evicted": Notice(entry(bot.OperationPendingApproval, bot.OperationMerged, bot.ReasonLandedEvicted, landedSHA), links),
		"notice_cancelled":      Notice(entry(bot.OperationBatched, bot.OperationCancelled, bot.ReasonCancelled, ""), links),

		"reply_help":            Help(),
		"reply_outsider":        Outsider("mallory"),
		"reply_not_mr":          NotMergeRequest(),
		"reply_batch_mr":        BatchMRCommand(),
		"reply_closed":          Refused(bot.Obstacle(bot.MRSnapshot{State: bot.MRClosed})),
		"reply_draft":           Refused(bot.Obstacle(bot.MRSnapshot{State: bot.MROpen, Draft: true})),
		"reply_no_queue":        NoQueue("feature/x", []string{"main", "release/1.2"}),
		"reply_no_queue_at_all": NoQueue("main", nil),
		"reply_no_target":       NoTarget("main"),
		"reply_bad_settings":    BadSettings("main", "line 3: unknown key max_batchsize"),
		"reply_kept_settings":   KeptSettings("main", "line 3: unknown key max_batchsize"),
		"reply_unsuitable":      Unsuitable("main", bot.LandingObstacle(bot.LandByMerge, bot.TargetRules{SquashOnly: true})),
		"reply_superseded":      Superseded(),
		"reply_active":          AlreadyActive(waiting, links),
		"reply_needs_retry":     NeedsRetry(failed, links),
		"reply_landed":          AlreadyLanded(view(bot.OperationMerged, bot.ReasonLanded, ""), links),
		"reply_cancel_nothing":  NothingToCancel(&cancelled, links),
		"reply_cancel_never":    NothingToCancel(nil, links),
		"reply_cancel_landing":  Landing(*landing.Batch, links),
		"reply_retry_nothing":   NothingToRetry(&cancelled, links),
		"reply_retry_waiting":   NothingToRetry(&waiting, links),
		"reply_not_yet":         NotYet("pause"),
		"reply_not_operator":    NotOperator("mallory"),
		"reply_unblock_usage":   UnblockUsage(),
		"reply_unblock_nothing": NothingToUnblock(),
		"reply_ruled":           Ruled(bot.OperatorAnswer{Text: "its MR 4 reads open: close it first"}),
		"reply_unknown":         Unknown("cancle", "cancel"),
		"reply_unknown_far":     Unknown("deploy", ""),
		"reply_too_many":        TooMany(10),
		"reply_status":          Status(bot.StickyView{Operations: []bot.OperationView{pending}}, links),

		"batch_blocked":        Blocked(*blocked.Batch, "7/12"),
		"batch_reopened":       Reopened(*batch(bot.BatchFailed, bot.CodeCIRed)),
		"batch_report_late":    late,
		"batch_report_evicted": report(bot.BatchSucceeded, bot.CodeLandedEvicted, "Add a retry to the uploader"),
		"batch_title":          batchMR("main", members("Add a retry to the uploader")).Title + "\n",
		"batch_body":           batchMR("main", members("Add a retry to the uploader")).Body,
		"batch_merge_commit":   mergeTitle + "\n\n" + mergeBody,
		"batch_report_landed":  report(bot.BatchSucceeded, bot.CodeLanded, "Add a retry to the uploader"),
		"batch_report_failed":  report(bot.BatchFailed, bot.CodeCIRed, "Add a retry to the uploader"),
		"batch_report_running": report(bot.BatchRunning, bot.CodeNone, "Add a retry to the uploader"),
		"batch_report_blocked": report(bot.BatchBlocked, bot.CodeOverdue, "Add a retry to the uploader"),
		"batch_report_differs": BatchReport(differs, links),

		"member_closed": LandedClosing(view(bot.OperationMerged, bot.ReasonLanded, ""), links),
		"member_newer":  LandedNewer(view(bot.OperationMerged, bot.ReasonLanded, ""), strings.Repeat("2", 40), links),
	}
	maps.Copy(all, trainTexts())
	maps.Copy(all, curatedTexts())
	maps.Copy(all, reminderTexts())
	return all
}

func TestEveryTextReadsAsAgreed(t *testing.T) {
	t.Parallel()
	for name, text := range texts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join("testdata", name+".md")
			if *update {
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatalf("read the golden file (go test -update writes it): %v", err)
			}
			if text != string(want) {
				t.Errorf("text changed; got:\n%s\nwant:\n%s", text, want)
			}
		})
	}
}

var (
	shout       = regexp.MustCompile(`\b[A-Z]{3,}\b|[A-Z]+_[A-Z]+|!\s|!$`)
	commandLine = regexp.MustCompile(`(?mi)^\s*/batch`)
)

func TestNoTextShoutsOrCommandsTheBot(t *testing.T) {
	t.Parallel()
	for name, text := range texts() {
		visible := regexp.MustCompile(`<!--.*?-->|`+"`[^`]*NAME`"+`|\d UTC`).ReplaceAllString(text, "")
		if found := shout.FindString(visible); found != "" {
			t.Errorf("%s shouts %q:\n%s", name, found, visible)
		}
		if commandLine.MatchString(text) {
			t.Errorf("%s begins a line with a command:\n%s", name, text)
		}
		if strings.Contains(visible, "unknown reason") || strings.Contains(visible, "unknown state") || strings.Contains(visible, "%!") {
			t.Errorf("%s does not know its words:\n%s", name, visible)
		}
	}
}

func TestEveryReasonAndCodeHasWords(t *testing.T) {
	t.Parallel()
	for _, r := range []bot.Reason{
		bot.ReasonApplied, bot.ReasonApproved, bot.ReasonClaimed, bot.ReasonCancelled, bot.ReasonRetried, bot.ReasonHeadMoved, bot.ReasonClosed,
		bot.ReasonRetargeted, bot.ReasonDrafted, bot.ReasonUnapproved, bot.ReasonConflict, bot.ReasonConflictBatch, bot.ReasonUnrelated,
		bot.ReasonPushRefused, bot.ReasonCIRed, bot.ReasonSuspect, bot.ReasonBatchFailed, bot.ReasonLanded, bot.ReasonContained,
		bot.ReasonMergedOutside, bot.ReasonExpired, bot.ReasonLandedEvicted, bot.ReasonLandedLate,
		bot.ReasonJoined, bot.ReasonPromoted, bot.ReasonCarriedOver, bot.ReasonDeparted, bot.ReasonLeft, bot.ReasonTrainOver,
		bot.ReasonCurated, bot.ReasonSetBroken,
	} {
		if because(r) == because("") {
			t.Errorf("reason %q has no words", r)
		}
	}
	for _, c := range []bot.Code{
		bot.CodeLanded, bot.CodeLandedDiffers, bot.CodeCIRed, bot.CodeCITimeout, bot.CodeNoCI, bot.CodePushRefused, bot.CodeMergeRefused,
		bot.CodeTargetMoving, bot.CodeHostGone, bot.CodeClosed, bot.CodeBranchDeleted, bot.CodeForeignPush, bot.CodeAllEvicted,
		bot.CodeNeedsApproval, bot.CodeManual, bot.CodeOverdue, bot.CodeLandedEvicted, bot.CodeForced,
	} {
		if cause(c) == "" {
			t.Errorf("code %q has no words", c)
		}
	}
}

func TestChangesThatAskNothingOfAnybodyHaveNoNotice(t *testing.T) {
	t.Parallel()
	for _, r := range []bot.Reason{bot.ReasonApplied, bot.ReasonApproved, bot.ReasonClaimed, bot.ReasonLanded, bot.ReasonMergedOutside, bot.ReasonContained} {
		if text := Notice(entry(bot.OperationWaiting, bot.OperationBatched, r, ""), links); text != "" {
			t.Errorf("%s: notice %q", r, text)
		}
	}
}

func TestCommitStatusSaysOneThingPerState(t *testing.T) {
	t.Parallel()
	for status, want := range map[bot.OperationStatus]bot.CheckState{
		bot.OperationPendingApproval: bot.CheckPending, bot.OperationWaiting: bot.CheckPending, bot.OperationBatched: bot.CheckPending,
		bot.OperationMerged: bot.CheckSuccess, bot.OperationFailed: bot.CheckFailure,
		bot.OperationCancelled: bot.CheckSuccess, bot.OperationClosed: bot.CheckSuccess, bot.OperationExpired: bot.CheckSuccess, bot.OperationRejected: bot.CheckSuccess,
	} {
		v := view(status, bot.ReasonClosed, "")
		v.Operation.Target = strings.Repeat("界", 300)
		got := CommitStatus(v, links)
		if got.State != want || got.Description == "" || utf8.RuneCountInString(got.Description) > 140 {
			t.Errorf("%s: %v %q (%d runes)", status, got.State, got.Description, utf8.RuneCountInString(got.Description))
		}
		if strings.Contains(got.Description, "3") {
			t.Errorf("%s: the position shows in %q", status, got.Description)
		}
	}
}

func TestLongListsAreCut(t *testing.T) {
	t.Parallel()
	files, many := make([]string, 1000), make([]bot.Operation, 50)
	for i := range files {
		files[i] = "file.go"
	}
	if got := Files(files); !strings.HasSuffix(got, " and 980 more") {
		t.Errorf("files: %q", got)
	}
	if title, _ := MergeCommit(bot.Batch{ID: 7}, many, links); !strings.HasSuffix(title, ", and 40 more") {
		t.Errorf("merge title: %q", title)
	}
	if got := NoQueue("x", files); !strings.Contains(got, ", 980 more.") {
		t.Errorf("no queue: %q", got)
	}
}

func TestMarkersCannotBeEndedEarly(t *testing.T) {
	t.Parallel()
	m := ReplyMarker("host--> <b>:issue:1:2\n")
	if strings.Count(m, "-->") != 1 || !strings.HasSuffix(m, " -->") || strings.ContainsAny(m, "\n") || !IsOwn("\n "+m+"\ntext") {
		t.Errorf("marker %q", m)
	}
	if IsOwn("quoted " + m) {
		t.Error("a marker inside somebody's comment made it ours")
	}
}

// Where "#" means an issue, a batch must not mention issues that happen to have its members' numbers.
func TestNumbersAreWrittenAsTheHostsPeopleDo(t *testing.T) {
	t.Parallel()
	there := Links{mark: "!", url: links.url}
	title, body := MergeCommit(*batch(bot.BatchRunning, ""), members("Add a retry to the uploader"), there)
	text := BatchMR(*batch(bot.BatchRunning, ""), bot.Queue{Target: "main"}, members("Add a retry to the uploader"), nil, there).Body
	for _, said := range []string{title, body, text, Sticky(bot.StickyView{Operations: []bot.OperationView{
		{Operation: operation(bot.OperationBatched, bot.ReasonClaimed, ""), Batch: batch(bot.BatchRunning, "")},
	}}, there)} {
		if strings.Contains(said, "#") || !strings.Contains(said, "!") {
			t.Errorf("numbers are written as %q", said)
		}
	}
}
