package explore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/mutant"
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

// access is the host as one instance reaches it: bot.Host.
type access struct {
	*host
	in *instance
}

var _ bot.Host = access{}

// call stops at the gate and then does something on the host.
func (a access) call(ctx context.Context, what kind, name string, do func(v verdict) error) error {
	v, err := a.in.pass(ctx, what, name)
	if err != nil {
		return err
	}
	if v.fault == limited {
		return &bot.RateLimitedError{RetryAfter: 7 * time.Second}
	}
	a.mu.Lock()
	err = do(v)
	a.mu.Unlock()
	switch v.fault {
	case dieAfter:
		a.in.kill()
		return errDead
	case errAfter:
		return errLost
	}
	return err
}

func (a access) ReadMR(ctx context.Context, _ bot.Repository, number int) (mr bot.MRSnapshot, err error) {
	err = a.call(ctx, lookHost, fmt.Sprint("read !", number), func(v verdict) error {
		m := a.mr(number)
		if m == nil {
			return bot.ErrNotFound
		}
		mr = shown(m.versions, v.lag).MRSnapshot
		if told, ok := a.told[actorOf(ctx)]; ok && told.Number == number && mutant.Is(mutant.ReadAgain) {
			mr = told
		}
		return nil
	})
	return mr, err
}

func (a access) HeadRef(number int) string { return pullRef(number) }

func (a access) ListUpdatedMRs(ctx context.Context, _ bot.Repository, since time.Time) (list []bot.MRSnapshot, err error) {
	err = a.call(ctx, lookHost, "list merge requests", func(verdict) error {
		for _, m := range a.mrs {
			if m.State == bot.MROpen && !m.UpdatedAt.Before(since) {
				list = append(list, m.MRSnapshot)
			}
		}
		slices.SortStableFunc(list, func(x, y bot.MRSnapshot) int { return y.UpdatedAt.Compare(x.UpdatedAt) })
		return nil
	})
	return list, err
}

func (a access) Permission(ctx context.Context, _ bot.Repository, actor bot.Actor) (p bot.Permission, err error) {
	err = a.call(ctx, lookHost, "read the permission of "+actor.Login, func(verdict) error {
		p = bot.PermissionWrite
		return nil
	})
	return p, err
}

func (a access) ReadApprovals(ctx context.Context, _ bot.Repository, number int) (approvals bot.Approvals, err error) {
	err = a.call(ctx, lookHost, fmt.Sprint("read the approvals of !", number), func(v verdict) error {
		m := a.mr(number)
		if m == nil {
			return bot.ErrNotFound
		}
		state := shown(m.versions, v.lag)
		approvals = bot.Approvals{Reviews: slices.Clone(state.reviews), Decision: bot.HostDecisionNone}
		a.in.saw(actorOf(ctx), number, state)
		return nil
	})
	return approvals, err
}

func (a access) ReadChecks(ctx context.Context, _ bot.Repository, sha, _ string) (report bot.ChecksReport, err error) {
	err = a.call(ctx, lookHost, "read the checks of "+bot.ShortSHA(sha), func(verdict) error {
		if r := a.runs[sha]; r != nil {
			report.Checks = append(report.Checks, bot.Check{Name: "ci", Source: "runner", State: r.state})
		}
		return nil
	})
	return report, err
}

// SetCommitStatus and React change nothing that anything rests on: no schedule spends a step on them.
func (a access) SetCommitStatus(context.Context, bot.Repository, string, bot.CommitStatus) error {
	return nil
}

func (a access) FindMRs(ctx context.Context, _ bot.Repository, source string) (found []bot.MRSnapshot, err error) {
	err = a.call(ctx, lookHost, "find the merge requests of "+source, func(verdict) error {
		for _, m := range slices.Backward(a.mrs) {
			if m.SourceBranch == source {
				found = append(found, m.MRSnapshot)
			}
		}
		return nil
	})
	return found, err
}

func (a access) OpenMR(ctx context.Context, _ bot.Repository, mr bot.NewMR) (opened bot.MRSnapshot, err error) {
	err = a.call(ctx, writeHost, "open a merge request from "+mr.Source, func(verdict) error {
		if a.git.refs[heads(mr.Source)] == "" {
			return errors.New("there is no such branch")
		}
		for _, m := range a.mrs {
			if m.SourceBranch == mr.Source && m.State == bot.MROpen && !mutant.Is(mutant.Findable) {
				opened = m.MRSnapshot
				return nil
			}
		}
		opened = a.open(theBot, mr.Title, mr.Body, mr.Source, mr.Target).MRSnapshot
		return nil
	})
	return opened, err
}

func (a access) EditMR(ctx context.Context, _ bot.Repository, number int, title, body string) error {
	return a.call(ctx, writeHost, fmt.Sprint("edit !", number), func(verdict) error {
		a.mr(number).Title, a.mr(number).text = title, body
		return nil
	})
}

func (a access) MergeMR(ctx context.Context, _ bot.Repository, number int, head, _, _ string) (answer bot.MergeAnswer, err error) {
	err = a.call(ctx, writeHost, fmt.Sprint("merge !", number), func(v verdict) error {
		m := a.mr(number)
		switch {
		case m.State == bot.MRMerged:
			answer = bot.MergeAnswer{Outcome: bot.MergeDone, SHA: m.MergeSHA}
		case m.State == bot.MRClosed:
			answer = bot.MergeAnswer{Outcome: bot.MergeClosed}
		case m.HeadSHA != head:
			answer = bot.MergeAnswer{Outcome: bot.MergeHeadMoved}
		case v.fault == notReady:
			answer = bot.MergeAnswer{Outcome: bot.MergeNotReady}
		case v.fault == sayRefused:
			answer = bot.MergeAnswer{Outcome: bot.MergeRefused, Message: "not now"}
		default:
			if words := a.merge(m, "merge"); words != "" {
				answer = bot.MergeAnswer{Outcome: bot.MergeRefused, Message: words}
			} else {
				answer = bot.MergeAnswer{Outcome: bot.MergeDone, SHA: m.MergeSHA}
			}
		}
		return nil
	})
	return answer, err
}

func (a access) CloseMR(ctx context.Context, _ bot.Repository, number int) error {
	return a.call(ctx, writeHost, fmt.Sprint("close !", number), func(verdict) error {
		if m := a.mr(number); m.State == bot.MROpen {
			m.State = bot.MRClosed
			m.ClosedBy = theBot.Login
			a.changed(m)
		}
		return nil
	})
}

func (a access) UpsertComment(ctx context.Context, _ bot.Repository, number int, marker, body string, known int64) (id int64, err error) {
	err = a.call(ctx, writeHost, fmt.Sprintf("comment on !%d %s", number, marker), func(verdict) error {
		for i := range a.said {
			if s := &a.said[i]; (s.id == known && known != 0) || (s.number == number && s.marker == marker) {
				s.body = body
				id = s.id
				return nil
			}
		}
		a.lastID++
		id = a.lastID
		a.said = append(a.said, said{id: id, number: number, marker: marker, body: body})
		return nil
	})
	return id, err
}

func (a access) HasComment(ctx context.Context, _ bot.Repository, number int, id int64) (found bool, err error) {
	err = a.call(ctx, lookHost, fmt.Sprintf("look for comment %d on !%d", id, number), func(verdict) error {
		found = slices.ContainsFunc(a.said, func(s said) bool { return s.number == number && s.id == id })
		return nil
	})
	return found, err
}

func (a access) React(context.Context, bot.Repository, int, bot.CommentKind, int64, bot.Reaction) error {
	return nil
}

func (a access) ListComments(ctx context.Context, _ bot.Repository, since time.Time) (list []bot.Comment, err error) {
	err = a.call(ctx, lookHost, "list comments", func(verdict) error {
		for _, c := range a.comments {
			if !c.CreatedAt.Before(since) {
				list = append(list, c)
			}
		}
		return nil
	})
	return list, err
}

func (a access) ListReviewComments(context.Context, bot.Repository, int) ([]bot.Comment, error) {
	return nil, nil
}

func (a access) ListRepositories(context.Context) ([]bot.RepositoryRef, error) {
	return []bot.RepositoryRef{theRepo}, nil
}

func (a access) ReadRepository(context.Context, bot.Repository) (bot.HostRepository, error) {
	return bot.HostRepository{RepositoryRef: theRepo, MergeCommits: true}, nil
}

func (a access) ReadTargetRules(context.Context, bot.Repository, string) (bot.TargetRules, error) {
	return bot.TargetRules{BotBypasses: true}, nil
}

func (a access) ReadBranch(ctx context.Context, _ bot.Repository, branch string) (tip string, err error) {
	err = a.call(ctx, lookHost, "read the branch "+branch, func(v verdict) error {
		versions := a.branches[branch]
		if len(versions) > 0 {
			tip = shown(versions, v.lag)
		}
		if tip == "" {
			return bot.ErrNotFound
		}
		return nil
	})
	return tip, err
}

func (a access) ReadFile(_ context.Context, _ bot.Repository, branch, _ string) ([]byte, string, error) {
	if branch != target {
		return nil, "", bot.ErrNotFound
	}
	return []byte("settings"), "b10b", nil
}

func (a access) MRURL(_ bot.Repository, number int) string {
	return fmt.Sprintf("https://hub.test/%d", number)
}
func (a access) MRMark() string { return "#" }

func (a access) GitRemote(context.Context, bot.Repository) (bot.GitRemote, error) {
	return bot.GitRemote{Key: "hub/4711", URL: "memory"}, nil
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

// gitAccess is git as one instance reaches it: bot.Git behind gates.
type gitAccess struct {
	access
	git bot.Git
}

func (g gitAccess) Build(ctx context.Context, remote bot.GitRemote, spec bot.BuildSpec) (made bot.Build, err error) {
	err = g.call(ctx, lookHost, "build", func(verdict) (err error) {
		made, err = g.git.Build(ctx, remote, spec)
		return err
	})
	if err != nil {
		return nil, err
	}
	return gatedBuild{g, made}, nil
}

type gatedBuild struct {
	gitAccess
	bot.Build
}

func (b gatedBuild) Push(ctx context.Context, branch string, known []string) (out bot.PushOutcome, err error) {
	err = b.call(ctx, writeHost, "push "+branch, func(verdict) (err error) {
		out, err = b.Build.Push(ctx, branch, known)
		return err
	})
	return out, err
}

func (b gatedBuild) PushBase(ctx context.Context, branch string, known []string) (out bot.PushOutcome, err error) {
	err = b.call(ctx, writeHost, "push the base to "+branch, func(verdict) (err error) {
		out, err = b.Build.PushBase(ctx, branch, known)
		return err
	})
	return out, err
}

func (g gitAccess) FastForward(ctx context.Context, remote bot.GitRemote, branch, base, head string) (out bot.PushOutcome, err error) {
	err = g.call(ctx, writeHost, "fast-forward "+branch, func(verdict) (err error) {
		from := g.host.git.refs[heads(branch)]
		out, err = g.git.FastForward(ctx, remote, branch, base, head)
		if to := g.host.git.refs[heads(branch)]; from != to && branch == target {
			g.onLanding("push", from, to)
		}
		return err
	})
	return out, err
}

func (g gitAccess) DeleteBranch(ctx context.Context, remote bot.GitRemote, branch string, known []string) (out bot.PushOutcome, err error) {
	err = g.call(ctx, writeHost, "delete "+branch, func(verdict) (err error) {
		out, err = g.git.DeleteBranch(ctx, remote, branch, known)
		return err
	})
	return out, err
}

func (g gitAccess) ChangedPaths(ctx context.Context, remote bot.GitRemote, branch string, m bot.BuildMember) (paths []string, known bool, err error) {
	err = g.call(ctx, lookHost, "list changed paths", func(verdict) (err error) {
		paths, known, err = g.git.ChangedPaths(ctx, remote, branch, m)
		return err
	})
	return paths, known, err
}

func (g gitAccess) Inspect(ctx context.Context, remote bot.GitRemote, q bot.InspectSpec) (found bot.Inspection, err error) {
	err = g.call(ctx, lookHost, fmt.Sprint("inspect ", q.Target, " for ", q.Heads), func(verdict) (err error) {
		found, err = g.git.Inspect(ctx, remote, q)
		return err
	})
	return found, err
}
