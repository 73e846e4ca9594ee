package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/fakehost"
)

// narrator tells what happens, with the time since the start. It remembers what it told.
type narrator struct {
	w       io.Writer
	started time.Time
	bot     string           // its login
	bots    map[int64]string // comment → its headline
	batches map[int64]string // batch → where it stood
	ci      map[string]string
	states  map[int]string
}

func newNarrator(w io.Writer, started time.Time, bot string) *narrator {
	return &narrator{w: w, started: started, bot: bot, bots: map[int64]string{}, batches: map[int64]string{}, ci: map[string]string{}, states: map[int]string{}}
}

func (t *narrator) plain(format string, args ...any) { fmt.Fprintf(t.w, format+"\n", args...) }

func (t *narrator) chapter(title string) { t.plain("\n%s", title) }

func (t *narrator) step(format string, args ...any) {
	t.plain("%6.2fs  %s", time.Since(t.started).Seconds(), fmt.Sprintf(format, args...))
}

func (t *narrator) said(number int, who, what string) { t.step("#%d %s: %s", number, who, what) }

// see tells what is new in the world.
func (t *narrator) see(n snapshot) {
	for _, r := range n.ci {
		t.seeCI(r)
	}
	for _, b := range n.batches {
		t.seeBatch(b)
	}
	for _, m := range n.mrs {
		t.seeMR(m)
	}
}

func (t *narrator) seeCI(r fakehost.CIRun) {
	now := "runs"
	if r.Conclusion != "" {
		now = r.Conclusion
	}
	if key := r.Branch + r.SHA; t.ci[key] != now {
		t.ci[key] = now
		t.step("   CI on %s of %s: %s", bot.ShortSHA(r.SHA), r.Branch, now)
	}
}

func (t *narrator) seeBatch(b demoBatch) {
	var now string
	switch {
	case b.Status == bot.BatchSucceeded:
		now = "SUCCEEDED: landed as " + bot.ShortSHA(b.LandedSHA)
	case b.Status == bot.BatchFailed:
		now = "FAILED: " + string(b.Code)
	case b.Status == bot.BatchBlocked:
		now = "BLOCKED: " + b.Message
	case b.Phase == bot.PhaseClaimed:
		now = "claimed " + list(b.riding())
	case b.Phase == bot.PhaseBuilt:
		now = "built " + bot.ShortSHA(b.HeadSHA) + " from " + list(b.riding())
	case b.Phase == bot.PhaseOpened:
		now = fmt.Sprintf("batch MR #%d at %s holds %s", b.MRNumber, bot.ShortSHA(b.HeadSHA), list(b.riding()))
	default:
		now = "landing"
	}
	if t.batches[b.ID] != now {
		t.batches[b.ID] = now
		t.step("   batch %d: %s", b.ID, now)
	}
}

func (t *narrator) seeMR(m fakehost.MR) {
	for _, c := range m.Comments {
		if c.Author != t.bot {
			continue
		}
		if said := headline(c.Body); t.bots[c.ID] != said {
			t.bots[c.ID] = said
			t.said(m.Number, "batchbot", said)
		}
	}
	if before := t.states[m.Number]; before != m.State {
		t.states[m.Number] = m.State
		if before != "" {
			t.step("   #%d is %s", m.Number, m.State)
		}
	}
}

// markup is what a headline is shown without; of a link the text stays.
var markup = regexp.MustCompile("\\*\\*|`|\\[([^]]*)\\]\\([^)]*\\)")

// headline is the first line of a comment that people see.
func headline(body string) string {
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "<!--") {
			return markup.ReplaceAllString(line, "$1")
		}
	}
	return ""
}

// list writes merge requests as #1 #2 #5, and nobody as a dash.
func list(numbers []int) string {
	if len(numbers) == 0 {
		return "-"
	}
	words := make([]string, len(numbers))
	for i, n := range numbers {
		words[i] = fmt.Sprintf("#%d", n)
	}
	return strings.Join(words, " ")
}
