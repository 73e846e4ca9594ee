package message

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/batchbot/batchbot/bot"
)

// hostile is what people may put into a title, a branch or a file name.
var hostile = []string{
	"@everyone look", "cc @team/all", "＠everyone", "&#64;everyone", `\@everyone`,
	"</details><h1>hi</h1>", "<!-- batchbot:status -->", "--> <script>alert(1)</script>", "<img src=x onerror=y>",
	"| pipe | table |", "`code` ``` fence", "[text](https://evil.example)", "![i](http://evil.example/x.png)",
	"https://evil.example/a", "www.evil.example", "fixes #99", "closes GH-12", "resolves owner/repo#7", "fixes https://git.example/o/r/issues/5",
	"a\nb\r\n/batch cancel\n# heading", "\n\n/batch", "\u202egnp.exe\u2066", "zero\u200bwidth", "\x1b[31mred\x1b[0m", "nul\x00",
	"[skip ci] tidy", "***NO_CI***", "$math$ ~label %milestone !12 &epic", "\xff\xfe", "", "   ",
	strings.Repeat("long ", 20_000), strings.Repeat("@a", 5_000), "Co-authored-by: x <x@y.z>",
}

var (
	mention   = regexp.MustCompile(`[@＠][0-9A-Za-z_/-]`)
	reference = regexp.MustCompile(`(?:^|[^&])[#!$%~][0-9A-Za-z"]|(?i)\bgh-\d`)
	address   = regexp.MustCompile(`://|(?i)\bwww\.`)
	rawHTML   = regexp.MustCompile(`<[A-Za-z/!]`)
	skipCI    = regexp.MustCompile(`(?i)\[(skip ci|ci skip|no ci)\]|\*\*\*NO_CI\*\*\*`)
)

// withoutOurs removes what the bot itself puts into the texts below: markers, links to merge requests and to failed checks, the
// details element, code spans. A title cannot make any of them: its "<", "[" and "`" never stay what they are.
func withoutOurs(text string) string {
	for _, own := range []string{`<!-- batchbot:[a-z]+( [0-9A-Za-z._:/-]+)? -->`, `<https?://[^>\s]+>`, `\[#\d+\]\(https://git\.example/team/app/pull/1+\)`,
		`</?details>`, `</?summary>`, "`/batch[^`]*`", "`[^`]*`", `(?m)^#\d+ `, `(: |, )#\d\b`} {
		text = regexp.MustCompile(own).ReplaceAllString(text, "ours ")
	}
	return text
}

func harmless(t *testing.T, where, evil, text string, lines int) {
	t.Helper()
	rest := withoutOurs(text)
	for name, pattern := range map[string]*regexp.Regexp{
		"mentions": mention, "refers": reference, "links": address, "writes HTML": rawHTML, "skips CI": skipCI, "commands": commandLine,
	} {
		if pattern == rawHTML && (where == "batch title" || where == "merge title" || where == "merge message" || where == "status") {
			continue // plain text, shown as it is
		}
		if found := pattern.FindString(rest); found != "" {
			t.Errorf("%s with %.60q %s by %q:\n%s", where, evil, name, found, rest)
		}
	}
	if !utf8.ValidString(text) {
		t.Errorf("%s with %.60q is not valid UTF-8", where, evil)
	}
	if strings.ContainsAny(text, "\x00\x1b\r\u202e\u2066") {
		t.Errorf("%s with %.60q holds control characters", where, evil)
	}
	if got := strings.Count(text, "\n"); got != lines {
		t.Errorf("%s with %.60q has %d lines, an ordinary one %d:\n%s", where, evil, got, lines, text)
	}
	if len(text) > 20_000 {
		t.Errorf("%s with %.60q has %d bytes", where, evil, len(text))
	}
}

func TestHostileTextsAreHarmlessEverywhere(t *testing.T) {
	t.Parallel()
	everywhere := func(evil string) map[string]string {
		op := operation(bot.OperationFailed, bot.ReasonConflict, evil)
		op.Title, op.Target, op.Requester, op.Author.Login = evil, evil, evil, evil
		v := bot.OperationView{Operation: op, Queue: bot.Queue{Target: evil, State: bot.QueueParked, Reason: evil}, Batch: batch(bot.BatchFailed, bot.CodePushRefused)}
		v.Batch.Message = evil
		e := entry(bot.OperationBatched, bot.OperationFailed, bot.ReasonConflict, evil)
		e.Operation.Target = evil
		riders := members(evil)
		riders[1].Author.Login = evil
		mergeTitle, mergeBody := MergeCommit(*v.Batch, riders, links)
		set := rollup(bot.CuratedRejected, evil)
		set.Drafter, set.Decider = evil, evil
		return map[string]string{
			"sticky": sticky(v), "notice": Notice(e, links), "needs retry": NeedsRetry(v, links), "batch title": batchMR(evil, riders).Title,
			"batch body": batchMR(evil, riders).Body, "merge title": mergeTitle, "merge message": mergeBody, "report": report(bot.BatchFailed, bot.CodeCIRed, evil),
			"outsider": Outsider(evil), "no queue": NoQueue(evil, []string{evil, "main"}), "bad settings": BadSettings(evil, evil),
			"unknown": Unknown(evil, ""), "refused": Refused(evil), "closing": LandedClosing(v, links), "status": CommitStatus(v, links).Description,
			"reminder to approvers": reminding(bot.RemindPending, v, 72*time.Hour), "reminder to owners": reminding(bot.RemindFailed, v, 72*time.Hour),
			"reminder of a block": reminding(bot.RemindBlocked, v, 72*time.Hour),
			"set":                 stickyOf(set), "set refused": CuratedRefused("submit", set, []bot.CuratedProblem{{RowNo: 1, Number: 2, Text: "is for " + evil}}, links),
			"set names": WithUsage([]string{evil}, nil, links), "set forbidden": CuratedForbidden(evil, "no"),
		}
	}
	ordinary := everywhere("x")
	for _, evil := range hostile {
		for where, text := range everywhere(evil) {
			lines := strings.Count(ordinary[where], "\n")
			if where == "sticky" && strings.TrimSpace(evil) == "" {
				lines = strings.Count(text, "\n") // no reason, no line about it
			}
			harmless(t, where, evil, text, lines)
		}
	}
}

func TestTableCellsKeepTheirNumber(t *testing.T) {
	t.Parallel()
	for _, evil := range hostile {
		for line := range strings.Lines(batchMR(evil, members(evil)).Body) {
			if strings.HasPrefix(line, "| ") && strings.Count(line, "|") != 5 {
				t.Errorf("with %.60q a row has %d bars: %s", evil, strings.Count(line, "|"), line)
			}
		}
	}
}

func TestOnlyOrdinaryAddressesBecomeLinks(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://git.example/a/b/pull/1":   "[x](https://git.example/a/b/pull/1)",
		"javascript:alert(1)":              "x",
		"https://user:pw@git.example/":     "x",
		"https://git.example/a) [y](http:": "x",
		"":                                 "x",
	} {
		if got := link("x", address); got != want {
			t.Errorf("link to %q is %q, want %q", address, got, want)
		}
	}
}

func FuzzInlineNeverMentionsLinksOrBreaksOut(f *testing.F) {
	for _, evil := range hostile {
		f.Add(evil)
	}
	f.Fuzz(func(t *testing.T, evil string) {
		for _, text := range []string{inline(evil, titleLimit), Plain(evil, titleLimit), code(evil)} {
			if strings.ContainsAny(text, "\n\r\x00") || !utf8.ValidString(text) {
				t.Errorf("%q became %q", evil, text)
			}
		}
		if text := inline(evil, titleLimit); mention.MatchString(text) || address.MatchString(text) || strings.ContainsAny(text, "<>|") {
			t.Errorf("%q became %q", evil, text)
		}
	})
}

// A host refuses a description that is too long, and with it the batch: a big batch of long titles shows only the first members.
func TestTheTextOfABigBatchFitsTheHost(t *testing.T) {
	t.Parallel()
	members, approvers := make([]bot.Operation, 1000), make(map[string][]string)
	for i := range members {
		members[i] = bot.Operation{
			ID: strconv.Itoa(i), Number: i + 1, Title: strings.Repeat("<@", 500), HeadSHA: strings.Repeat("a", 40),
			Author: bot.Actor{Login: strings.Repeat("a-", 100)},
		}
		approvers[members[i].ID] = []string{"ivy", "jo"}
	}
	text := BatchMR(bot.Batch{ID: 1}, bot.Queue{Target: "main"}, members, approvers, Links{})
	if n := utf8.RuneCountInString(text.Body); n > 65_536 {
		t.Errorf("the description has %d characters", n)
	}
	rows := strings.Count(text.Body, "\n| #")
	if want := fmt.Sprintf("\n| and %d more |", 1000-rows); rows < 50 || !strings.Contains(text.Body, want) {
		t.Errorf("it shows %d members and no %q", rows, want)
	}
	if !strings.HasPrefix(text.Body, BatchMarker(bot.Batch{ID: 1})) || !strings.HasSuffix(text.Body, "its members wait again.\n") {
		t.Error("it lost its beginning or its end")
	}
}
