package explore

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// host is a Git host with one repository, as far as the core can tell it from a real one: merge requests whose heads follow their
// branches, merges guarded by the head, references that move forwards only, CI, comments, reviews that a push dismisses, and webhooks that say
// that something changed.
type host struct {
	mu  sync.Mutex
	git *repository
	// What a schedule decides once and for all.
	marks    bool // merge requests whose commits are in the target become merged by themselves
	dismiss  bool // a push dismisses reviews
	deletion bool // deleting the branch of a merge request closes it

	mrs       []*mergeRequest // by number - 1
	branches  map[string][]version[string]
	runs      map[string]*run // by commit
	order     []*run
	comments  []bot.Comment
	said      []said
	file      []byte // the repository file
	refuses   refusal
	lastID    int64
	taken     int                       // events that are on their way
	events    []bot.Event               // to be delivered, in order of their making
	told      map[string]bot.MRSnapshot // what each webhook said when it was sent, by who applies it
	onLanding func(who, from, to string)
	ci        func(r *run) // decides what becomes of a run
}

// version is what something was from a moment on.
type version[T any] struct {
	at    time.Time
	value T
}

// shown is the newest version that is at least lag old, or the oldest.
func shown[T any](versions []version[T], lag time.Duration) T {
	limit := time.Now().Add(-lag)
	for _, v := range slices.Backward(versions) {
		if !v.at.After(limit) {
			return v.value
		}
	}
	return versions[0].value
}

type mergeRequest struct {
	bot.MRSnapshot
	reviews  []bot.Review
	versions []version[mrState]
	heads    []string // every head it had
	text     string

	reopened bool // by a person, whose it is then
}

type mrState struct {
	bot.MRSnapshot
	reviews []bot.Review
}

// run is the CI of one commit.
type run struct {
	sha    string
	state  bot.CheckState
	began  time.Time
	ends   time.Time // zero: never
	result bot.CheckState
}

// said is a comment of the bot.
type said struct {
	id     int64
	number int
	marker string
	body   string
}

const (
	hostName   = "hub"
	target     = "main"
	otherPlace = "release" // a branch without a queue
)

var (
	theRepo  = bot.RepositoryRef{Host: hostName, ExternalID: 4711, Path: "acme/app", Installation: 1, DefaultBranch: target}
	theBot   = bot.Actor{ID: 1, Login: "batchbot", Bot: true}
	author   = bot.Actor{ID: 2, Login: "ada"}
	reviewer = bot.Actor{ID: 3, Login: "bob"}
	second   = bot.Actor{ID: 4, Login: "eve"}
)

func newHost() *host {
	h := &host{git: newRepository(), branches: make(map[string][]version[string]), runs: make(map[string]*run), told: make(map[string]bot.MRSnapshot)}
	h.git.moved = h.moved
	return h
}

func pullRef(number int) string { return fmt.Sprintf("refs/pull/%d/head", number) }

func (h *host) tell(e bot.Event) {
	e.Repository = theRepo
	h.events = append(h.events, e)
	if m := h.mr(e.Number); m != nil {
		h.told[fmt.Sprint("inbox d", len(h.events)+h.taken)] = m.MRSnapshot
	}
}

func (h *host) mr(number int) *mergeRequest {
	if number < 1 || number > len(h.mrs) {
		return nil
	}
	return h.mrs[number-1]
}

// changed notes a new version of a merge request and tells of it.
func (h *host) changed(m *mergeRequest) {
	m.UpdatedAt = time.Now()
	m.versions = append(m.versions, version[mrState]{time.Now(), mrState{m.MRSnapshot, slices.Clone(m.reviews)}})
	h.tell(bot.Event{Kind: bot.EventMergeRequest, Number: m.Number})
}

// moved follows a reference that moved: heads of merge requests, CI, and what landed with it.
func (h *host) moved(ref, from, to string) {
	branch, ok := strings.CutPrefix(ref, "refs/heads/")
	if !ok {
		return
	}
	h.branches[branch] = append(h.branches[branch], version[string]{time.Now(), to})
	h.tell(bot.Event{Kind: bot.EventBranch, Branch: branch})
	for _, m := range h.mrs {
		if m.SourceBranch != branch || m.State != bot.MROpen {
			continue
		}
		if to == "" {
			if h.deletion {
				m.State = bot.MRClosed
				h.changed(m)
			}
			continue
		}
		h.setHead(m, to)
		h.changed(m)
	}
	if to != "" && strings.HasPrefix(branch, bot.BatchBranchPrefix) {
		h.startCI(to)
	}
	if branch == target && to != "" && h.marks {
		h.markMerged()
	}
}

func (h *host) setHead(m *mergeRequest, to string) {
	m.HeadSHA = to
	m.heads = append(m.heads, to)
	h.git.refs[pullRef(m.Number)] = to
	if h.dismiss {
		for i := range m.reviews {
			m.reviews[i].State = bot.ReviewDismissed
		}
	}
}

// markMerged marks open merge requests into the target merged whose heads it contains.
func (h *host) markMerged() {
	tip := h.git.at(heads(target))
	for _, m := range h.mrs {
		if m.State == bot.MROpen && m.Target == target && tip.contains(h.git.commits[m.HeadSHA]) {
			m.State, m.MergeSHA = bot.MRMerged, m.HeadSHA
			h.changed(m)
		}
	}
}

// startCI begins a run on a commit that has none.
func (h *host) startCI(sha string) {
	if h.runs[sha] != nil {
		return
	}
	r := &run{sha: sha, state: bot.CheckPending, began: time.Now()}
	h.runs[sha] = r
	h.ci(r)
	h.order = append(h.order, r)
}

// red reports whether CI finds fault with a commit: it holds a file that begins with "bad".
func (c *commit) red() bool {
	for _, content := range c.files {
		if strings.HasPrefix(content, "bad") {
			return true
		}
	}
	return false
}

func (h *host) endCI(r *run) {
	r.state = r.result
	h.tell(bot.Event{Kind: bot.EventChecks, SHA: r.sha})
}

// open makes a merge request.
func (h *host) open(by bot.Actor, title, text, source, into string) *mergeRequest {
	number := len(h.mrs) + 1
	m := &mergeRequest{text: text, MRSnapshot: bot.MRSnapshot{
		Number: number, Title: title, Author: by, State: bot.MROpen, SourceBranch: source, Target: into, URL: fmt.Sprintf("https://hub.test/%d", number),
	}}
	h.mrs = append(h.mrs, m)
	h.setHead(m, h.git.refs[heads(source)])
	h.changed(m)
	return m
}

// merge merges a merge request with a merge commit; words say why not.
func (h *host) merge(m *mergeRequest, who string) (words string) {
	tip, head := h.git.at(heads(m.Target)), h.git.commits[m.HeadSHA]
	if tip == nil {
		return "its target is gone"
	}
	if tip.contains(head) {
		return "there is nothing to merge"
	}
	merged, conflicts := h.git.merge(tip.files, tip.past, head.files, head.past)
	if len(conflicts) > 0 {
		return "it conflicts with the target"
	}
	c := h.git.commit(merged, "hub <hub@noreply.invalid>", time.Now(), fmt.Sprintf("Merge pull request #%d\n", m.Number), tip, head)
	m.State, m.MergeSHA = bot.MRMerged, c.id
	h.changed(m)
	h.land(who, m.Target, c.id)
	return ""
}

// land moves a branch for somebody, and has it looked at when it is the target.
func (h *host) land(who, branch, to string) {
	from := h.git.refs[heads(branch)]
	h.git.move(heads(branch), to)
	if branch == target && h.onLanding != nil {
		h.onLanding(who, from, to)
	}
}

// Authenticate implements bot.Webhooks; deliveries come from the schedule, not by HTTP.
func (h *host) Authenticate(map[string][]string, []byte) (bot.WebhookHead, error) {
	return bot.WebhookHead{}, errors.New("nothing comes by HTTP here")
}

// Parse implements bot.Webhooks: a payload is the event itself.
func (h *host) Parse(_ string, payload []byte) ([]bot.Event, string, error) {
	var e bot.Event
	if err := json.Unmarshal(payload, &e); err != nil {
		return nil, "", err
	}
	return []bot.Event{e}, "", nil
}
