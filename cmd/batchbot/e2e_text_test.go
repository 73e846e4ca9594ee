package main

import (
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/fakehost"
)

// longestComment is what the host takes, in characters.
const longestComment = 65_536

// fill makes a comment of the longest length that ends in text.
func fill(with, text string) string {
	return strings.Repeat(with, longestComment-utf8.RuneCountInString(text)) + text
}

// dangerous is what nothing the bot writes may hold, wherever it took it from, and rawHTML what no Markdown of the bot may hold.
var (
	dangerous = regexp.MustCompile(`(?i)@everyone|@acme/|\bcloses #\d|\[skip ci\]|https://evil`)
	rawHTML   = regexp.MustCompile(`<img|<script`)
)

// Names and texts that people can choose, through the real program and MySQL: each lands like any other, is stored as it is, and
// is shown as text only.
func TestNamesAndTextsOfAllKindsLand(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchSettings{mysql: true, maxBatchSize: 50, files: map[string]string{
		"документ 🧨.txt": "as it was\n", "--help": "as it was\n",
	}})
	quoted := "Ready 🎉\r\n\r\n> /batch cancel\r\n\r\n```\r\n/batch cancel\r\n```\r\n\r\n<!--\r\n/batch cancel\r\n-->\r\n\r\n    /batch cancel\r\n\r\n/batch\r\n"
	type odd struct {
		fakehost.NewMR
		comment string // "": /batch
		loses   string // the file that conflicts
	}
	var cases []odd
	for _, branch := range []string{
		"-x", "--upload-pack=touch-pwned", "feature/#42", "100%", "a%2e%2e/b", "a+b", "ünï/cödé", "日本語/枝", "🚀/🧪", "quote'\"`$(touch-pwned)`", "refs/heads/main",
		"HEAD/x", "batchbot-not-ours", strings.Repeat("l", 200) + "/" + strings.Repeat("m", 200), strings.Repeat("ß", 120),
	} {
		cases = append(cases, odd{NewMR: fakehost.NewMR{Head: branch, Files: map[string]string{fmt.Sprintf("branch/%d.txt", len(cases)): "new\n"}}})
	}
	for _, title := range []string{
		"@everyone <img src=x onerror=alert(1)>", "closes #1 <!-- batchbot:status -->", "[skip ci] @acme/all", "</details><script>alert(1)</script>", "https://evil.example | a | b",
		strings.Repeat("𝕏", 256), strings.Repeat("🧨", 3000), strings.Repeat("<@everyone", 25), "🧨" + "e\u0301\u202e" + "\u200b", "--title", "`", "x" + strings.Repeat(" ", 100) + "y",
	} {
		i := len(cases)
		cases = append(cases, odd{NewMR: fakehost.NewMR{Head: fmt.Sprintf("title-%d", i), Title: title, Files: map[string]string{fmt.Sprintf("title/%d.txt", i): "new\n"}}})
	}
	for _, file := range []string{"ünï 🧨/файл.txt", "-rf", "a\tb\"c\\d", "quote'.txt", "branch/.gitattributes"} {
		i := len(cases)
		cases = append(cases, odd{NewMR: fakehost.NewMR{Head: fmt.Sprintf("file-%d", i), Files: map[string]string{file: "new\n"}}})
	}
	for _, comment := range []string{quoted, fill("x", "\n/batch"), fill("𝕏", "\r\n/batch"), "\ufeff/batch", "/BATCH\u00a0"} {
		i := len(cases)
		cases = append(cases, odd{
			NewMR:   fakehost.NewMR{Head: fmt.Sprintf("comment-%d", i), Files: map[string]string{fmt.Sprintf("comment/%d.txt", i): "new\n"}},
			comment: comment,
		})
	}
	for _, file := range []string{"документ 🧨.txt", "--help"} {
		i := len(cases)
		cases = append(cases, odd{NewMR: fakehost.NewMR{Head: fmt.Sprintf("conflict-%d", i), Files: map[string]string{file: "mine\n"}}, loses: file})
	}
	numbers := make([]int, len(cases))
	for i, c := range cases {
		numbers[i] = b.open(t, c.NewMR)
	}
	_, err := b.host.Commit(e2eRepo, "main", "main", "rita", "Theirs", map[string]string{"документ 🧨.txt": "theirs\n", "--help": "theirs\n"})
	b.must(t, err)
	for i, c := range cases {
		comment := c.comment
		if comment == "" {
			comment = "/batch"
		}
		b.approve(t, numbers[i], "rita")
		b.say(t, numbers[i], "ada", comment)
	}
	for i, c := range cases {
		want := bot.OperationMerged
		if c.loses != "" {
			want = bot.OperationFailed
		}
		what := fmt.Sprintf("!%d (branch %.40q, title %.40q)", numbers[i], c.Head, c.Title)
		within(t, benchLimit, what+" to be "+want.String(), func() bool { return b.operation(t, numbers[i]).Status == want })
		mr, err := b.host.MR(e2eRepo, numbers[i])
		b.must(t, err)
		if merged := mr.State == "merged"; merged != (c.loses == "") {
			t.Errorf("%s is %s", what, mr.State)
		}
		var title string
		b.must(t, b.db.QueryRowContext(t.Context(), `SELECT title FROM merge_request WHERE number = ?`, numbers[i]).Scan(&title))
		if !strings.HasPrefix(mr.Title, strings.TrimSuffix(title, "…")) || utf8.RuneCountInString(title) < min(utf8.RuneCountInString(mr.Title), 1000) {
			t.Errorf("%s is stored with the title %q", what, title)
		}
		if c.loses == "" {
			continue
		}
		if op := b.operation(t, numbers[i]); op.Reason != bot.ReasonConflict || op.Detail != c.loses {
			t.Errorf("%s failed by %s: %q, want the conflict in %q", what, op.Reason, op.Detail, c.loses)
		}
	}
	within(t, benchLimit, "silence", func() bool { return b.quiet(t) })
	b.nothingLost(t)

	state, err := b.host.State(e2eRepo)
	b.must(t, err)
	checkNothingTwice(t, state)
	for _, mr := range state.MergeRequests {
		texts := b.said(t, mr.Number)
		if strings.HasPrefix(mr.Branch, bot.BatchBranchPrefix) {
			texts = append(texts, mr.Title, mr.Body)
		}
		for _, text := range texts {
			if found := dangerous.FindString(text) + rawHTML.FindString(text); found != "" {
				t.Errorf("the bot wrote %q on !%d:\n%s", found, mr.Number, text)
			}
		}
	}
	history := gitOutput(t, filepath.Join(b.dir, "git", "acme", "app.git"), "log", "--merges", "--format=%B", "main")
	if found := dangerous.FindString(history); found != "" {
		t.Errorf("the history says %q:\n%s", found, history)
	}
	b.must(t, filepath.WalkDir(b.dir, func(path string, _ fs.DirEntry, err error) error {
		// Branches are folders on the host; nothing else may be called so.
		if strings.Contains(filepath.Base(path), "pwned") && !strings.Contains(path, "refs") && !strings.Contains(path, "logs") {
			t.Errorf("somebody made %s", path)
		}
		return err
	}))
}

// What is answered stays short, whatever it answers to.
func TestAHugeCommandGetsAShortAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchSettings{mysql: true})
	number := b.open(t, fakehost.NewMR{Head: "topic"})
	b.say(t, number, "ada", "/batch "+strings.Repeat("𝕏", longestComment-len("/batch ")))
	if answer := b.answered(t, number, "`/batch help`"); utf8.RuneCountInString(answer) > 1000 {
		t.Errorf("the answer has %d characters:\n%s", utf8.RuneCountInString(answer), answer)
	}
	b.say(t, number, "ada", strings.Repeat("/batch status\n", longestComment/len("/batch status\n")))
	b.answered(t, number, "the rest of this one was ignored")
	within(t, benchLimit, "silence", func() bool { return b.quiet(t) })
	b.nothingLost(t)
	if n := len(b.said(t, number)); n != 12 {
		t.Errorf("the bot wrote %d comments, want one to the unknown command, ten to those carried out and one to the rest", n)
	}
}

// Targets with names of all kinds have queues like any other; what cannot be the name of a queue is refused in words.
func TestTargetsOfAllNames(t *testing.T) {
	t.Parallel()
	const main = "größe/haupt+1%#🚀"
	b := newBench(t, benchSettings{mysql: true, branch: main})
	b.becomes(t, b.opened(t, "topic"), bot.OperationMerged)

	for _, test := range []struct{ target, says string }{
		{"-x", "cannot be the name of a branch"},
		{"--upload-pack=touch-pwned", "cannot be the name of a branch"},
		{strings.Repeat("x", 200) + "/" + strings.Repeat("y", 200), "255 bytes"},
		{"batchbot/mine", "own branches"},
	} {
		_, err := b.host.Commit(e2eRepo, test.target, main, "rita", "Settings", map[string]string{".batchbot.yml": fmt.Sprintf("queues: [{branch: %q}]\n", test.target)})
		b.must(t, err)
		number := b.open(t, fakehost.NewMR{Head: fmt.Sprintf("to-%d", len(test.target)), Base: test.target})
		b.say(t, number, "ada", "/batch")
		b.answered(t, number, test.says)
	}
	target := "release/ü#1%+🧪"
	_, err := b.host.Commit(e2eRepo, target, main, "rita", "Settings", map[string]string{".batchbot.yml": fmt.Sprintf("queues: [{branch: %q, checks: {required: [ci]}}]\n", target)})
	b.must(t, err)
	number := b.open(t, fakehost.NewMR{Head: "to-release", Base: target})
	b.say(t, number, "ada", "/batch")
	b.approve(t, number, "rita")
	b.becomes(t, number, bot.OperationMerged)
	mr, err := b.host.MR(e2eRepo, number)
	b.must(t, err)
	if contained, err := b.host.Contains(e2eRepo, target, mr.Head); err != nil || !contained {
		t.Errorf("%s does not contain what landed there (%v)", target, err)
	}
}

// What vanishes while the bot looks at something else: branches, comments and people.
func TestWhatIsDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchSettings{ci: fakehost.CI{Mode: fakehost.CIManual}})
	b.must(t, b.host.Break(
		fakehost.Fault{On: "GET /repos/*/collaborators/ghost/permission", Do: fakehost.FaultStatus, Status: http.StatusNotFound, Message: "ghost is not a user"},
		fakehost.Fault{On: "HOOK issue_comment/created", Do: fakehost.FaultDelay, Wait: 300 * time.Millisecond},
	))
	b.host.AddUser("ghost")

	// The branch of one that waits for approval, and of one in a batch: both end as closed, the other member rides on.
	waiting := b.open(t, fakehost.NewMR{Head: "waiting"})
	b.say(t, waiting, "ada", "/batch")
	b.becomes(t, waiting, bot.OperationPendingApproval)
	queue := count(t, b.db, `SELECT id FROM queue`)
	_, err := b.store.PauseQueue(t.Context(), int64(queue), "rita", "so that two enter together")
	b.must(t, err)
	leaving, staying := b.opened(t, "leaving"), b.opened(t, "staying")
	b.becomes(t, leaving, bot.OperationWaiting)
	b.becomes(t, staying, bot.OperationWaiting)
	_, err = b.store.ResumeQueue(t.Context(), int64(queue), "rita")
	b.must(t, err)
	b.becomes(t, leaving, bot.OperationBatched)
	b.becomes(t, staying, bot.OperationBatched)
	b.must(t, b.host.SetBranch(e2eRepo, "waiting", "", "ada"))
	b.must(t, b.host.SetBranch(e2eRepo, "leaving", "", "ada"))
	b.becomes(t, waiting, bot.OperationClosed)
	b.becomes(t, leaving, bot.OperationClosed)
	within(t, benchLimit, "the other one to land", func() bool {
		_, err := b.host.FinishCI("")
		b.must(t, err)
		return b.operation(t, staying).Status == bot.OperationMerged
	})

	// A comment that is gone before it is heard of: its command counts, and there is nothing to react to.
	number := b.open(t, fakehost.NewMR{Head: "unsaid"})
	id := b.say(t, number, "ada", "/batch")
	b.must(t, fakehost.NewClient(b.host.url, nil).API(t.Context(), "ada", http.MethodDelete, fmt.Sprintf("/repos/%s/issues/comments/%d", e2eRepo, id), nil, nil))
	b.becomes(t, number, bot.OperationPendingApproval)

	// People who are gone may nothing, and their approvals count nothing.
	b.say(t, number, "ghost", "/batch cancel")
	b.answered(t, number, "ghost", "write access")
	b.approve(t, number, "ghost")
	b.say(t, number, "ada", "/batch status")
	b.answered(t, number, "waiting for approval")
	if op := b.operation(t, number); op.Status != bot.OperationPendingApproval {
		t.Errorf("with the approval of a ghost it is %s", op.Status)
	}
	within(t, benchLimit, "silence", func() bool {
		_, err := b.host.FinishCI("")
		b.must(t, err)
		return b.quiet(t)
	})
	b.nothingLost(t)
}
