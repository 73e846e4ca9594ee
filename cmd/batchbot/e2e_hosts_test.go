package main

import (
	"bufio"
	"database/sql"
	_ "embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/config"
	"github.com/batchbot/batchbot/githost/fakehost"
)

//go:embed testdata/scenario.txt
var scenario string

// TestAScenarioEndsInTheSameStateOnBothHosts plays one week on a GitHub and on a GitLab and compares what the database, the host and the
// people's threads hold afterwards. Ids, commits and names that hosts and chance give are numbered in the order they appear.
func TestAScenarioEndsInTheSameStateOnBothHosts(t *testing.T) {
	t.Parallel()
	ends := make(map[string]string)
	t.Run("hosts", func(t *testing.T) {
		results := make(chan [2]string, 2)
		for _, kind := range []string{config.GitHub, config.GitLab} {
			t.Run(kind, func(t *testing.T) {
				t.Parallel()
				p := &play{bench: newBench(t, benchSettings{kind: kind, ci: fakehost.CI{Mode: fakehost.CIManual, BranchPrefix: bot.BatchBranchPrefix}})}
				p.host.AddUser("mallory")
				lines := bufio.NewScanner(strings.NewReader(scenario))
				for n := 1; lines.Scan(); n++ {
					if line := strings.TrimSpace(lines.Text()); line != "" && !strings.HasPrefix(line, "#") {
						p.line, p.text = n, line
						p.step(t)
					}
				}
				p.nothingLost(t)
				results <- [2]string{kind, p.end(t)}
			})
		}
		t.Cleanup(func() { // after both
			close(results)
			for r := range results {
				ends[r[0]] = r[1]
			}
		})
	})
	if t.Failed() {
		return
	}
	hub, lab := ends[config.GitHub], ends[config.GitLab]
	if n := strings.Count(hub, "\n"); n < 150 {
		t.Fatalf("only %d rows are compared:\n%s", n, hub)
	}
	// What happens side by side may come in another order.
	if d := differences(hub, lab); d != "" {
		t.Errorf("the hosts end differently, GitHub < GitLab >:\n%s", d)
	}
}

// play is a scenario under way.
type play struct {
	*bench
	line    int // of the scenario
	text    string
	numbers map[int]int // as the scenario has them → as the host has them
}

// step does one line.
func (p *play) step(t *testing.T) {
	t.Helper()
	words := strings.Fields(p.text)
	verb, rest := words[0], words[1:]
	word := func(i int) string {
		if i >= len(rest) {
			t.Fatalf("line %d: %q lacks a word", p.line, p.text)
		}
		return rest[i]
	}
	number := func() int {
		n, err := strconv.Atoi(word(0))
		if err != nil || p.numbers[n] == 0 {
			t.Fatalf("line %d: %q names no merge request", p.line, p.text)
		}
		return p.numbers[n]
	}
	done := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("line %d: %q: %v", p.line, p.text, err)
		}
	}
	switch verb {
	case "commit":
		_, err := p.host.Commit(e2eRepo, word(0), "main", "rita", "Change "+word(0), filesIn(rest[1:]))
		done(err)
	case "open":
		n, err := p.host.OpenMR(e2eRepo, fakehost.NewMR{Author: word(1), Head: "change-" + word(0), Title: "Change " + word(0), Files: filesIn(rest[2:])})
		done(err)
		if p.numbers == nil {
			p.numbers = make(map[int]int)
		}
		as, err := strconv.Atoi(word(0))
		done(err)
		p.numbers[as] = n
	case "say":
		_, err := p.host.Comment(e2eRepo, number(), word(1), strings.Join(rest[2:], " "))
		done(err)
	case "approve":
		_, err := p.host.Review(e2eRepo, number(), word(1), fakehost.Approved, "")
		done(err)
	case "unapprove":
		mr, err := p.host.MR(e2eRepo, number())
		done(err)
		i := slices.IndexFunc(mr.Reviews, func(r fakehost.Review) bool { return r.Author == word(1) && r.State == fakehost.Approved })
		done(p.host.Dismiss(e2eRepo, mr.Number, mr.Reviews[i].ID, word(1)))
	case "push":
		_, err := p.host.PushTo(e2eRepo, number(), filesIn(rest[1:]))
		done(err)
	case "close":
		done(p.host.CloseMR(e2eRepo, number(), word(1)))
	case "reopen":
		done(p.host.ReopenMR(e2eRepo, number(), word(1)))
	case "retarget":
		done(p.host.Retarget(e2eRepo, number(), word(1), word(2)))
	case "draft", "ready":
		done(p.host.SetDraft(e2eRepo, number(), word(1), verb == "draft"))
	case "pause", "resume":
		p.hold(t, verb == "pause")
	case "ci":
		p.host.SetCI(fakehost.CI{Mode: fakehost.CIMode(word(0)), BranchPrefix: bot.BatchBranchPrefix})
	case "finish":
		_, err := p.host.FinishCI("")
		done(err)
	case "testing":
		p.testing(t, rest)
	case "expect":
		n, want := number(), word(1)+" "+word(2)
		got := ""
		defer func() {
			if got != want {
				t.Logf("line %d: !%d is %s", p.line, n, got)
			}
		}()
		within(t, time.Minute, fmt.Sprintf("line %d, %s", p.line, p.text), func() bool {
			op := p.operation(t, n)
			got = op.Status.String() + " " + string(op.Reason)
			return got == want
		})
	case "quiet":
		within(t, time.Minute, "silence", func() bool { return p.quiet(t) })
	default:
		t.Fatalf("line %d: %q is no step", p.line, p.text)
	}
}

// filesIn reads path=content; without content the file is deleted.
func filesIn(words []string) map[string]string {
	files := make(map[string]string)
	for _, w := range words {
		path, content, _ := strings.Cut(w, "=")
		if content != "" {
			content += "\n"
		}
		files[path] = content
	}
	return files
}

// hold pauses the queue of main, or resumes it.
func (p *play) hold(t *testing.T, pause bool) {
	t.Helper()
	list, err := p.store.ListQueues(t.Context())
	p.must(t, err)
	for _, q := range list {
		if pause {
			_, err = p.store.PauseQueue(t.Context(), q.Queue.ID, "rita", "the scenario goes on")
		} else {
			_, err = p.store.ResumeQueue(t.Context(), q.Queue.ID, "rita")
		}
		p.must(t, err)
		p.driver.Nudge(q.Queue.ID)
	}
}

// testing waits until CI runs on a batch of just these members.
func (p *play) testing(t *testing.T, members []string) {
	t.Helper()
	within(t, time.Minute, fmt.Sprintf("line %d, %s", p.line, p.text), func() bool {
		n, err := (&demoRows{p.db}).read(t.Context())
		p.must(t, err)
		for _, b := range n.batches {
			riding := make([]string, 0, len(members))
			for as := range len(p.numbers) + 1 {
				if slices.Contains(b.riding(), p.numbers[as]) {
					riding = append(riding, strconv.Itoa(as))
				}
			}
			if b.Status == bot.BatchRunning && b.Phase == bot.PhaseOpened && slices.Equal(riding, members) && slices.ContainsFunc(p.host.CIRuns(), func(r fakehost.CIRun) bool {
				return r.SHA == b.HeadSHA && r.Conclusion == ""
			}) {
				return true
			}
		}
		return false
	})
}

// endQueries are the rows that must be the same, with a name for each. Rows of different merge requests are written in any order, those of
// one in the order of what happened. An operation is named by its merge request and by which of its operations it is.
var endQueries = []struct{ name, query string }{
	{"operation", `SELECT m.number, o.n, o.status, o.requester, o.head_sha, o.lane, o.reason, o.detail, m.title, m.author_login, m.author_bot, m.head_sha
		FROM op o JOIN merge_request m ON m.id = o.merge_request_id ORDER BY m.number, o.n`},
	{"binding", `SELECT m.number, b.target_key, o.n, b.status FROM binding b JOIN merge_request m ON m.id = b.subject_id
		JOIN op o ON o.operation_id = b.operation_id ORDER BY m.number, b.target_key`},
	{"history", `SELECT m.number, o.n, h.from_status, h.to_status, h.reason, h.detail, h.head_sha, h.batch_id, h.actor FROM binding_history h
		JOIN op o ON o.operation_id = h.operation_id JOIN merge_request m ON m.id = o.merge_request_id ORDER BY m.number, h.id`},
	{"batch", `SELECT id, status, phase, kind, cohort, size, build, base_sha, head_sha, landed_sha, landed_differs, mr_number, code, message, refusals, ci_conclusion
		FROM merge_batch ORDER BY id`},
	{"member", `SELECT h.batch_id, m.number, o.n, h.event, h.build, h.position, h.head_sha, h.reason, h.detail FROM merge_batch_member h
		LEFT JOIN op o ON o.operation_id = h.operation_id LEFT JOIN merge_request m ON m.id = o.merge_request_id ORDER BY h.batch_id, h.id`},
	{"waiting", `SELECT operation_id, queue_id, batch_id, lane, cohort FROM merge_batch_request ORDER BY id`},
	{"queue", `SELECT target_branch, status, reason, settings, settings_blob FROM queue ORDER BY id`},
	{"audit", `SELECT m.number, o.n, a.actor, a.action, a.batch_id, a.detail FROM audit a LEFT JOIN op o ON o.operation_id = a.operation_id
		LEFT JOIN merge_request m ON m.id = o.merge_request_id ORDER BY m.number, a.id`},
}

// end is what is left: the rows, the host's merge requests, and what the bot wrote to people.
func (p *play) end(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	const op = `WITH op AS (SELECT *, ROW_NUMBER() OVER (PARTITION BY merge_request_id ORDER BY created_at) AS n FROM operation) `
	for _, q := range endQueries {
		p.dump(t, &b, q.name, op+q.query)
	}
	state, err := p.host.State(e2eRepo)
	p.must(t, err)
	for _, m := range state.MergeRequests {
		fmt.Fprintf(&b, "host #%d by %s %q is %s, draft %v, %s into %s, head %s\n", m.Number, m.Author, m.Title, m.State, m.Draft, m.Branch, m.Base, m.Head)
		for _, c := range m.Comments {
			if c.Author != p.bot() {
				continue
			}
			for line := range strings.Lines(c.Body) {
				fmt.Fprintf(&b, "says on #%d: %s\n", m.Number, strings.TrimSpace(line))
			}
		}
	}
	return neutral(strings.ReplaceAll(b.String(), p.bot(), "BOT"))
}

// dump writes each row as a line.
func (p *play) dump(t *testing.T, b *strings.Builder, name, query string) {
	t.Helper()
	rows, err := p.db.QueryContext(t.Context(), query)
	p.must(t, err)
	defer rows.Close()
	columns, err := rows.Columns()
	p.must(t, err)
	for rows.Next() {
		values, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		p.must(t, rows.Scan(into...))
		b.WriteString(name)
		for i, v := range values {
			fmt.Fprintf(b, " %s=%q", columns[i], v.String)
		}
		b.WriteString("\n")
	}
	p.must(t, rows.Err())
}

var (
	webAddress  = regexp.MustCompile(`https?:\x{200b}?//[^\s)"\\]+`) // with the joint that keeps it from becoming a link
	mrMark      = regexp.MustCompile(`!(\d+)\b`)                     // what people on GitLab write for #
	markerText  = regexp.MustCompile(`<!-- batchbot:.*-->`)
	batchBranch = regexp.MustCompile(`batchbot/(\d+)-[0-9a-f]+/`)
	operationID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	commitID    = regexp.MustCompile(`\b[0-9a-f]{40}\b`)
)

// neutral replaces what differs by chance.
func neutral(text string) string {
	text = webAddress.ReplaceAllString(text, "link")
	text = mrMark.ReplaceAllString(text, "#$1")
	text = markerText.ReplaceAllString(text, "<!-- marker -->")
	text = batchBranch.ReplaceAllString(text, "batchbot/$1-token/")
	text = operationID.ReplaceAllString(text, "operation-id")
	var ids []string
	for _, id := range commitID.FindAllString(text, -1) {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	for i, id := range ids {
		text = strings.ReplaceAll(text, id, fmt.Sprintf("commit-%d", i+1))
		text = strings.ReplaceAll(text, bot.ShortSHA(id), fmt.Sprintf("commit-%d", i+1))
	}
	return text
}

// differences lists the lines that one of two texts has more often than the other, whatever their order.
func differences(a, b string) string {
	more := make(map[string]int) // in a than in b
	for line := range strings.Lines(a) {
		more[line]++
	}
	for line := range strings.Lines(b) {
		more[line]--
	}
	var d strings.Builder
	for _, line := range slices.Sorted(maps.Keys(more)) {
		switch n := more[line]; {
		case n > 0:
			d.WriteString("< " + line)
		case n < 0:
			d.WriteString("> " + line)
		}
	}
	return d.String()
}
