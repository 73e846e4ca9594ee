package outbox

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// steps counts calls and lets one of them fail, before it has an effect or after.
type steps struct {
	mu     sync.Mutex
	calls  []string
	failAt int // 1 = the first call; 0 = none
	after  bool
}

func (s *steps) do(name string, effect func() error) error {
	s.mu.Lock()
	s.calls = append(s.calls, name)
	fail, after := len(s.calls) == s.failAt, s.after
	s.mu.Unlock()
	if fail && !after {
		return fmt.Errorf("%s: %w", name, errDown)
	}
	if effect != nil {
		if err := effect(); err != nil {
			return err
		}
	}
	if fail {
		return fmt.Errorf("%s was not answered: %w", name, errDown)
	}
	return nil
}

// row is an errand in the outbox.
type row struct {
	bot.Errand
	due     time.Time
	done    bool
	givenUp bool
	reason  string
}

// fakeRows is an outbox in memory, by the clock of the test, with one row of everything.
type fakeRows struct {
	steps   *steps
	mu      sync.Mutex // over the errands
	errands []*row
	view    bot.OperationView
	batch   bot.BatchView
	entry   bot.HistoryEntry
	heads   []string
	sticky  int64
	slow    time.Duration // how long an outcome takes to store
	panics  bool
}

func (r *fakeRows) ClaimErrands(_ context.Context, limit int, lease time.Duration) (list []bot.Errand, err error) {
	err = r.steps.do("ClaimErrands", func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, e := range r.errands {
			if !e.done && !e.givenUp && !e.due.After(time.Now()) && len(list) < limit {
				e.due, e.Attempts = time.Now().Add(lease), e.Attempts+1
				list = append(list, e.Errand)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

func (r *fakeRows) FinishErrand(ctx context.Context, e bot.Errand) error {
	select {
	case <-time.After(r.slow):
	case <-ctx.Done():
		return ctx.Err()
	}
	return r.steps.do("FinishErrand", func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		row := r.errands[e.ID-1]
		row.done, row.due, row.Attempts = row.Wanted == e.Wanted, time.Now(), 0
		return nil
	})
}

func (r *fakeRows) PostponeErrand(_ context.Context, e bot.Errand, d time.Duration, reason string) error {
	return r.steps.do("PostponeErrand", func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		row := r.errands[e.ID-1]
		row.due, row.givenUp, row.reason = time.Now().Add(d), d == 0, reason
		return nil
	})
}

func (r *fakeRows) StickyView(context.Context, int64) (bot.StickyView, error) {
	view := bot.StickyView{MergeRequest: bot.MergeRequest{ID: 5, Number: 2, StickyCommentID: r.sticky}, Operations: []bot.OperationView{r.view}}
	return view, r.steps.do("StickyView", nil)
}

func (r *fakeRows) SaveSticky(_ context.Context, _, commentID int64) error {
	return r.steps.do("SaveSticky", func() error {
		r.sticky = commentID
		return nil
	})
}

func (r *fakeRows) HistoryEntry(context.Context, int64) (bot.HistoryEntry, error) {
	if r.panics {
		panic("rendering")
	}
	return r.entry, r.steps.do("HistoryEntry", nil)
}

func (r *fakeRows) OperationView(context.Context, string) (bot.OperationView, error) {
	return r.view, r.steps.do("OperationView", nil)
}

func (r *fakeRows) ReminderView(context.Context, string) (bot.ReminderView, error) {
	view := bot.ReminderView{Operation: r.view, State: bot.RemindFailed, Entry: "31", For: 2 * time.Hour, Now: time.Now()}
	return view, r.steps.do("ReminderView", nil)
}

func (r *fakeRows) BatchView(context.Context, int64) (bot.BatchView, error) {
	return r.batch, r.steps.do("BatchView", nil)
}

func (r *fakeRows) RecordedHeads(context.Context, int64) ([]string, error) {
	return r.heads, r.steps.do("RecordedHeads", nil)
}

// hanging is a comment on which the host never answers.
const hanging = 13

// fakeHost is a host with one merge request.
type fakeHost struct {
	bot.Host
	steps     *steps
	refuses   error
	state     bot.MRState
	head      string
	target    string // empty: main
	comments  []comment
	known     int64
	reactions []string
	statuses  map[string]bot.CommitStatus
	ofBranch  map[string][]bot.MRSnapshot
	closed    []int
}

type comment struct {
	number       int
	marker, body string
}

func (h *fakeHost) UpsertComment(_ context.Context, _ bot.Repository, number int, marker, body string, known int64) (id int64, err error) {
	err = h.steps.do("UpsertComment", func() error {
		if h.refuses != nil {
			return h.refuses
		}
		h.known = known
		i := slices.IndexFunc(h.comments, func(c comment) bool { return c.number == number && c.marker == marker })
		if i < 0 {
			i = len(h.comments)
			h.comments = append(h.comments, comment{})
		}
		h.comments[i] = comment{number, marker, body}
		id = int64(1001 + i)
		return nil
	})
	return id, err
}

func (h *fakeHost) React(ctx context.Context, _ bot.Repository, _ int, kind bot.CommentKind, id int64, reaction bot.Reaction) error {
	if id == hanging {
		<-ctx.Done()
		return ctx.Err()
	}
	return h.steps.do("React", func() error {
		h.reactions = append(h.reactions, fmt.Sprintf("%s %d %s", kind, id, reaction))
		return nil
	})
}

func (h *fakeHost) SetCommitStatus(_ context.Context, _ bot.Repository, sha string, status bot.CommitStatus) error {
	return h.steps.do("SetCommitStatus", func() error {
		if h.statuses == nil {
			h.statuses = make(map[string]bot.CommitStatus)
		}
		h.statuses[sha] = status
		return nil
	})
}

func (h *fakeHost) ReadMR(_ context.Context, _ bot.Repository, number int) (bot.MRSnapshot, error) {
	mr := bot.MRSnapshot{Number: number, State: h.state, HeadSHA: h.head, Target: "main"}
	if h.target != "" {
		mr.Target = h.target
	}
	return mr, h.steps.do("ReadMR", nil)
}

func (h *fakeHost) CloseMR(_ context.Context, _ bot.Repository, number int) error {
	return h.steps.do("CloseMR", func() error {
		h.state = bot.MRClosed
		h.closed = append(h.closed, number)
		return nil
	})
}

func (h *fakeHost) FindMRs(_ context.Context, _ bot.Repository, source string) ([]bot.MRSnapshot, error) {
	return h.ofBranch[source], h.steps.do("FindMRs", nil)
}

func (h *fakeHost) GitRemote(context.Context, bot.Repository) (bot.GitRemote, error) {
	return bot.GitRemote{Key: "git/4711"}, h.steps.do("GitRemote", nil)
}

func (h *fakeHost) MRMark() string { return "#" }

func (h *fakeHost) MRURL(_ bot.Repository, number int) string {
	return fmt.Sprintf("https://git.example/%d", number)
}

// fakeGit answers about one target.
type fakeGit struct {
	bot.Git
	steps     *steps
	outcome   bot.PushOutcome
	contained []string
	inspected bool
	deleted   []string
}

func (g *fakeGit) DeleteBranch(_ context.Context, _ bot.GitRemote, branch string, heads []string) (bot.PushOutcome, error) {
	return g.outcome, g.steps.do("DeleteBranch", func() error {
		g.deleted = append(g.deleted, fmt.Sprintf("%s at %v", branch, heads))
		return nil
	})
}

func (g *fakeGit) Inspect(_ context.Context, _ bot.GitRemote, question bot.InspectSpec) (bot.Inspection, error) {
	g.inspected = true
	found := bot.Inspection{Contained: make(map[string]bool)}
	for _, head := range question.Heads {
		found.Contained[head] = slices.Contains(g.contained, head)
	}
	return found, g.steps.do("Inspect", nil)
}
