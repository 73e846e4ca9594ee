package intake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
)

var errDown = errors.New("not reachable")

// noon is the host's clock at the beginning of a test.
var noon = time.Date(2024, 5, 6, 12, 0, 0, 0, time.UTC)

var (
	ada     = bot.Actor{ID: 1, Login: "ada"}     // author of every merge request
	grace   = bot.Actor{ID: 2, Login: "grace"}   // has write access
	mallory = bot.Actor{ID: 3, Login: "mallory"} // has none
)

const (
	first  = "1111111111111111111111111111111111111111"
	second = "2222222222222222222222222222222222222222"
)

// world is one repository on one host, with an applier and what it remembers.
type world struct {
	t       *testing.T
	host    *fakeHost
	rows    *fakeRows
	applier *Applier
	steps   *steps
	nudged  []int64
	repo    bot.Repository
	comment int64 // id of the last comment
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, steps: &steps{}}
	ref := bot.RepositoryRef{Host: "git", ExternalID: 4711, Path: "team/app", Installation: 9, DefaultBranch: "main"}
	w.host = &fakeHost{
		steps: w.steps, mergeCommits: true, refs: []bot.RepositoryRef{ref},
		mrs: make(map[int]bot.MRSnapshot), approvals: make(map[int]bot.Approvals), files: make(map[string]string), reviews: make(map[int][]bot.Comment),
		permissions: map[string]bot.Permission{"grace": bot.PermissionWrite, "mallory": bot.PermissionRead},
	}
	w.rows = &fakeRows{steps: w.steps, handled: make(map[string]bool), batchMRs: make(map[int]bot.Batch), lastCommand: make(map[int]bot.CommandOrder)}
	w.repo, _ = w.rows.UpsertRepository(context.Background(), ref)
	*w.steps = steps{}
	w.applier = NewApplier(ApplierConfig{
		Git:           fakeGit{host: w.host},
		Hosts:         map[string]bot.Host{"git": w.host},
		Records:       w.rows,
		ParseSettings: parseSettings,
		Nudge:         func(id int64) { w.nudged = append(w.nudged, id) },
	})
	return w
}

// parseSettings reads a file of branch names, one to a line.
func parseSettings(content []byte, _ string) (bot.RepositorySettings, error) {
	var s bot.RepositorySettings
	for branch := range strings.FieldsSeq(string(content)) {
		if branch == "broken" {
			return s, errors.New("line 1: unknown key broken")
		}
		q := bot.DefaultQueueSettings(branch)
		q.MaxBatchSize = 7
		s.Queues = append(s.Queues, q)
	}
	return s, nil
}

// opens adds a merge request to main.
func (w *world) opens(number int) {
	w.host.mrs[number] = bot.MRSnapshot{Number: number, Title: "Change", Author: ada, State: bot.MROpen, HeadSHA: first, Target: "main", SourceBranch: "change", UpdatedAt: noon}
}

func (w *world) changes(number int, change func(*bot.MRSnapshot)) {
	mr := w.host.mrs[number]
	change(&mr)
	w.host.mrs[number] = mr
}

func (w *world) pushes(number int, head string) {
	w.changes(number, func(mr *bot.MRSnapshot) { mr.HeadSHA = head })
}

// approves adds an approval of grace at head.
func (w *world) approves(number int, head string) {
	a := w.host.approvals[number]
	a.Reviews = append(a.Reviews, bot.Review{By: grace, State: bot.ReviewApproved, SHA: head, Permission: bot.PermissionWrite})
	w.host.approvals[number] = a
}

// wrote is a new comment.
func (w *world) wrote(by bot.Actor, number int, body string) bot.Comment {
	w.comment++
	return bot.Comment{Kind: bot.CommentIssue, ID: w.comment, Number: number, Author: by, Body: body, CreatedAt: noon.Add(time.Duration(w.comment) * time.Second)}
}

// says delivers a comment.
func (w *world) says(by bot.Actor, number int, body string) {
	w.t.Helper()
	if err := w.hears(w.wrote(by, number, body)); err != nil {
		w.t.Fatalf("%s says %q on %d: %v", by.Login, body, number, err)
	}
}

func (w *world) hears(c bot.Comment) error {
	return w.applier.Apply(context.Background(), "delivery-1", bot.Event{Kind: bot.EventComment, Repository: w.repo.RepositoryRef, Number: c.Number, Comment: &c})
}

// changed delivers a hint about a merge request.
func (w *world) changed(number int) {
	w.t.Helper()
	e := bot.Event{Kind: bot.EventMergeRequest, Repository: w.repo.RepositoryRef, Number: number}
	if err := w.applier.Apply(context.Background(), "delivery-2", e); err != nil {
		w.t.Fatalf("hint about %d: %v", number, err)
	}
}

// stands checks state and pinned head of the newest operation of a merge request.
func (w *world) stands(number int, status bot.OperationStatus, head string) bot.Operation {
	w.t.Helper()
	for _, op := range slices.Backward(w.rows.ops) {
		if op.Number != number {
			continue
		}
		if op.Status != status || op.HeadSHA != head {
			w.t.Fatalf("operation of %d is %s (%s) at %s, want %s at %s", number, op.Status, op.Reason, bot.ShortSHA(op.HeadSHA), status, bot.ShortSHA(head))
		}
		return op
	}
	w.t.Fatalf("%d has no operation, want %s", number, status)
	return bot.Operation{}
}

// rides puts the newest operation of a merge request into a batch in the given phase.
func (w *world) rides(number int, phase bot.BatchPhase) {
	i := w.rows.find(func(op bot.Operation) bool { return op.Number == number })
	w.rows.ops[i].Status, w.rows.ops[i].BatchID, w.rows.ops[i].Version = bot.OperationBatched, 7, w.rows.ops[i].Version+1
	w.rows.batch = &bot.Batch{ID: 7, QueueID: w.rows.ops[i].QueueID, Status: bot.BatchRunning, Phase: phase, Version: 3, MRNumber: 40}
}

// fails ends the newest operation of a merge request as FAILED.
func (w *world) fails(number int) {
	i := w.rows.find(func(op bot.Operation) bool { return op.Number == number })
	w.rows.ops[i].Status, w.rows.ops[i].Reason, w.rows.ops[i].Version = bot.OperationFailed, bot.ReasonCIRed, w.rows.ops[i].Version+1
}

// replies checks that exactly these answers were given since the last check, each containing the words.
func (w *world) replies(words ...string) {
	w.t.Helper()
	var replies []string
	for _, a := range w.rows.answers {
		if a.Reply != "" {
			replies = append(replies, a.Reply)
		}
	}
	w.rows.answers = nil
	if len(replies) != len(words) {
		w.t.Fatalf("%d replies, want %d: %q", len(replies), len(words), replies)
	}
	for i, want := range words {
		if !strings.Contains(replies[i], want) {
			w.t.Errorf("reply %q, want one with %q", replies[i], want)
		}
	}
}

// steps counts the calls a procedure makes and lets one of them fail, before it has an effect or after.
type steps struct {
	mu      sync.Mutex
	calls   []string
	failAt  int      // 1 = the first call; 0 = none
	failing []string // these calls fail always
	after   bool
}

func (s *steps) do(name string, effect func() error) error {
	s.mu.Lock()
	s.calls = append(s.calls, name)
	fail, after := len(s.calls) == s.failAt || slices.Contains(s.failing, name), s.after
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

// count says how often a call was made.
func (s *steps) count(name string) (n int) {
	for _, c := range s.calls {
		if c == name {
			n++
		}
	}
	return n
}

// fakeHost is a host with one repository. Roles nobody here asks for are not there.
type fakeHost struct {
	bot.Host
	steps        *steps
	refs         []bot.RepositoryRef
	archived     bool
	mergeCommits bool
	gone         bool
	mrs          map[int]bot.MRSnapshot
	approvals    map[int]bot.Approvals
	permissions  map[string]bot.Permission
	files        map[string]string // by branch
	deleted      map[string]bool   // branches that are gone
	comments     []bot.Comment
	reviews      map[int][]bot.Comment
	reviewsGone  bool
	most         int      // comments listed at once; 0 = all
	paths        []string // what forks change
}

func (h *fakeHost) ReadMR(_ context.Context, _ bot.Repository, number int) (mr bot.MRSnapshot, err error) {
	err = h.steps.do("ReadMR", func() error {
		var ok bool
		if mr, ok = h.mrs[number]; !ok {
			return bot.ErrNotFound
		}
		return nil
	})
	return mr, err
}

func (h *fakeHost) Permission(_ context.Context, _ bot.Repository, actor bot.Actor) (bot.Permission, error) {
	return cmp.Or(h.permissions[actor.Login], bot.PermissionNone), h.steps.do("Permission", nil)
}

func (h *fakeHost) ReadApprovals(_ context.Context, _ bot.Repository, number int) (bot.Approvals, error) {
	return h.approvals[number], h.steps.do("ReadApprovals", nil)
}

func (h *fakeHost) ReadFile(_ context.Context, _ bot.Repository, branch, _ string) (content []byte, blob string, err error) {
	err = h.steps.do("ReadFile", func() error {
		text, ok := h.files[branch]
		if !ok {
			return bot.ErrNotFound
		}
		content, blob = []byte(text), "blob of "+text
		return nil
	})
	return content, blob, err
}

func (h *fakeHost) ReadBranch(_ context.Context, _ bot.Repository, branch string) (tip string, err error) {
	err = h.steps.do("ReadBranch", func() error {
		if h.deleted[branch] {
			return bot.ErrNotFound
		}
		tip = first
		return nil
	})
	return tip, err
}

func (h *fakeHost) ReadRepository(_ context.Context, repo bot.Repository) (r bot.HostRepository, err error) {
	err = h.steps.do("ReadRepository", func() error {
		for _, ref := range h.refs {
			if ref.ExternalID == repo.ExternalID && !h.gone {
				r = bot.HostRepository{RepositoryRef: ref, Archived: h.archived, MergeCommits: h.mergeCommits}
				return nil
			}
		}
		return bot.ErrGone
	})
	return r, err
}

// fakeGit knows what forks change.
type fakeGit struct {
	bot.Git
	host *fakeHost
}

func (g fakeGit) ChangedPaths(_ context.Context, _ bot.GitRemote, _ string, member bot.BuildMember) (paths []string, known bool, err error) {
	err = g.host.steps.do("ChangedPaths", func() error {
		known = g.host.mrs[member.Number].HeadSHA == member.HeadSHA
		paths = g.host.paths
		return nil
	})
	return paths, known, err
}

func (h *fakeHost) HeadRef(number int) string { return fmt.Sprintf("refs/pull/%d/head", number) }

func (h *fakeHost) GitRemote(context.Context, bot.Repository) (bot.GitRemote, error) {
	return bot.GitRemote{}, h.steps.do("GitRemote", nil)
}

func (h *fakeHost) ReadTargetRules(context.Context, bot.Repository, string) (rules bot.TargetRules, err error) {
	err = h.steps.do("ReadTargetRules", func() error {
		rules.SquashOnly = !h.mergeCommits
		return nil
	})
	return rules, err
}

func (h *fakeHost) ListRepositories(context.Context) ([]bot.RepositoryRef, error) {
	return h.refs, h.steps.do("ListRepositories", nil)
}

func (h *fakeHost) ListUpdatedMRs(_ context.Context, _ bot.Repository, since time.Time) (list []bot.MRSnapshot, err error) {
	err = h.steps.do("ListUpdatedMRs", func() error {
		if h.gone {
			return bot.ErrGone
		}
		for _, n := range slices.Sorted(maps.Keys(h.mrs)) {
			if mr := h.mrs[n]; mr.State == bot.MROpen && !mr.UpdatedAt.Before(since) {
				list = append(list, mr)
			}
		}
		return nil
	})
	return list, err
}

func (h *fakeHost) ListComments(_ context.Context, _ bot.Repository, since time.Time) (list []bot.Comment, err error) {
	err = h.steps.do("ListComments", func() error {
		for _, c := range h.comments {
			if !c.CreatedAt.Before(since) && (h.most == 0 || len(list) < h.most) {
				list = append(list, c)
			}
		}
		return nil
	})
	return list, err
}

func (h *fakeHost) ListReviewComments(_ context.Context, _ bot.Repository, number int) ([]bot.Comment, error) {
	if h.reviewsGone {
		return nil, bot.ErrNotFound
	}
	return h.reviews[number], h.steps.do("ListReviewComments", nil)
}

func (h *fakeHost) MRMark() string { return "#" }

func (h *fakeHost) MRURL(_ bot.Repository, number int) string {
	return fmt.Sprintf("https://git.example/team/app/pull/%d", number)
}
