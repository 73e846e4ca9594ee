package fakehost

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

type mergeRequest struct {
	*thread
	ID       int64
	Base     string
	BaseSHA  string // tip of Base when the head last moved
	Branch   string
	Head     string
	was      string // the head before the last push
	Fork     bool
	Draft    bool
	Merged   bool
	MergedAt time.Time
	MergedBy *user
	MergeSHA string
	reviews  []*review
	gl       gitlabMR // what only a GitLab knows of it

	commits, additions, deletions, files int
	trial                                trial
}

// trial is the test merge of one head into one base tip.
type trial struct {
	base, head string
	ok         bool
	sha        string
}

type review struct {
	ID        int64
	Author    *user
	State     string // APPROVED, CHANGES_REQUESTED, COMMENTED, DISMISSED, PENDING
	Body      string
	SHA       string
	Submitted time.Time
}

// refusal is a request the host understood and does not grant; the face turns
// its kind into a status code.
type refusal struct {
	kind    refusalKind
	field   string
	message string
}

type refusalKind int

const (
	refusedInvalid      refusalKind = iota // the request makes no sense
	refusedReview                          // the review makes no sense
	refusedForbidden                       // the actor may not
	refusedMissing                         // no such thing
	refusedHeadMoved                       // the guard names another head
	refusedNotMergeable                    // not now, or not this way
	refusedConflict                        // it cannot be merged at all, as it is
	refusedTaken                           // there is one already
)

func (r *refusal) Error() string { return r.message }

func refuse(kind refusalKind, format string, args ...any) error {
	return &refusal{kind: kind, message: fmt.Sprintf(format, args...)}
}

// lag shows every open merge request as before the last push, until the answer is called.
func (r *repository) lag() (catchUp func()) {
	now := map[*mergeRequest]string{}
	for _, m := range r.mrs() {
		if m.Open && m.was != "" {
			now[m] = m.Head
			m.Head = m.was
		}
	}
	return func() {
		for m, head := range now {
			m.Head = head
		}
	}
}

// NewMR describes a merge request for OpenMR.
type NewMR struct {
	Author string `json:"author"`
	// Head is the branch that holds the change. With Files it is made.
	Head string `json:"head"`
	// Base defaults to the default branch.
	Base  string `json:"base,omitempty"`
	Title string `json:"title"`
	Body  string `json:"body,omitempty"`
	Draft bool   `json:"draft,omitempty"`
	// Files, when given, is committed first, by Author, on top of Base.
	Files map[string]string `json:"files,omitempty"`
	// Fork makes the merge request come from a fork: Files is required and
	// the head exists only as refs/pull/N/head (refs/merge-requests/N/head).
	Fork bool `json:"fork,omitempty"`
}

// OpenMR opens a merge request and returns its number.
func (h *Host) OpenMR(repo string, n NewMR) (number int, err error) {
	err = h.with(repo, func(r *repository) error {
		author, err := h.user(n.Author)
		if err != nil {
			return err
		}
		base := cmp.Or(n.Base, r.DefaultBranch)
		if !n.Fork && len(n.Files) > 0 {
			if _, err := h.commitBranch(r, n.Head, base, n.Author, n.Title, n.Files); err != nil {
				return err
			}
		}
		head := r.branches[n.Head]
		if n.Fork {
			if len(n.Files) == 0 {
				return errors.New("a merge request from a fork needs Files: its branch is nowhere in this repository")
			}
			ref := h.mrRef(r.lastNumber+1, "head")
			if head, err = h.writeCommit(r, ref, r.branches[base], author, n.Title, n.Files); err != nil {
				return err
			}
		}
		m, err := h.openMR(r, author, &mergeRequest{
			thread: &thread{Title: n.Title, Body: n.Body}, Base: base, Branch: n.Head, Head: head, Fork: n.Fork, Draft: n.Draft,
		})
		if err == nil {
			number = m.Number
		}
		return err
	})
	return number, err
}

func (h *Host) openMR(r *repository, author *user, m *mergeRequest) (*mergeRequest, error) {
	m.BaseSHA = r.branches[m.Base]
	if m.BaseSHA == "" {
		return nil, &refusal{refusedInvalid, "base", fmt.Sprintf("no branch %q", m.Base)}
	}
	if m.Head == "" {
		return nil, &refusal{refusedInvalid, "head", fmt.Sprintf("no branch %q", m.Branch)}
	}
	for _, o := range r.mrs() {
		if o.Open && !m.Fork && !o.Fork && o.Branch == m.Branch && o.Base == m.Base {
			if h.gl != nil {
				return nil, refuse(refusedTaken, "Another open merge request already exists for this source branch: !%d", o.Number)
			}
			return nil, refuse(refusedInvalid, "A pull request already exists for %s:%s.", r.Owner.Login, m.Branch)
		}
	}
	if err := h.measure(r, m); err != nil {
		return nil, err
	}
	if m.commits == 0 && h.gl == nil {
		return nil, refuse(refusedInvalid, "No commits between %s and %s", m.Base, m.Branch)
	}
	h.addThread(r, author, m.thread)
	m.ID, m.thread.mr = h.nextID(), m
	if err := writeRef(r.path, h.mrRef(m.Number, "head"), m.Head); err != nil {
		return nil, err
	}
	h.emit(event{kind: onMR, action: "opened", repo: r, actor: author, mr: m})
	return m, h.maybeCI(r, m.Branch, m.Head, m.Fork)
}

// mrRef is the ref under which the repository serves a merge request's head or
// test merge.
func (h *Host) mrRef(number int, kind string) string {
	if h.gl != nil {
		return fmt.Sprintf("refs/merge-requests/%d/%s", number, kind)
	}
	return fmt.Sprintf("refs/pull/%d/%s", number, kind)
}

func (h *Host) addThread(r *repository, author *user, t *thread) {
	r.lastNumber++
	t.ID, t.Number, t.Author, t.Open = h.nextID(), r.lastNumber, author, true
	t.Created, t.Updated = h.now(), h.now()
	r.threads[t.Number] = t
}

// OpenIssue opens a plain issue, which is not a merge request.
func (h *Host) OpenIssue(repo, author, title string) (number int, err error) {
	err = h.with(repo, func(r *repository) error {
		u, err := h.user(author)
		if err != nil {
			return err
		}
		t := &thread{Title: title}
		h.addThread(r, u, t)
		number = t.Number
		h.emit(event{kind: onIssue, action: "opened", repo: r, actor: u, thread: t})
		return nil
	})
	return number, err
}

// measure counts what a merge request changes.
func (h *Host) measure(r *repository, m *mergeRequest) error {
	list, err := h.between(r, m.BaseSHA, m.Head)
	if err != nil {
		return err
	}
	m.commits = len(list)
	if m.commits == 0 {
		return nil
	}
	out, err := h.git(r.path, nil, "diff", "--shortstat", m.BaseSHA+"..."+m.Head)
	var ge *gitError
	if errors.As(err, &ge) && ge.code == 128 {
		return nil // no common history: the counts stay 0
	}
	if err != nil {
		return err
	}
	m.files, m.additions, m.deletions = 0, 0, 0
	for part := range strings.SplitSeq(string(out), ",") {
		f := strings.Fields(part)
		if len(f) < 2 {
			continue
		}
		n, _ := strconv.Atoi(f[0])
		switch {
		case strings.HasPrefix(f[1], "file"):
			m.files = n
		case strings.HasPrefix(f[1], "insertion"):
			m.additions = n
		case strings.HasPrefix(f[1], "deletion"):
			m.deletions = n
		}
	}
	return nil
}

// test merges m with the present tip of its base, once for each pair.
func (h *Host) test(r *repository, m *mergeRequest) error {
	base := r.branches[m.Base]
	if m.trial.base == base && m.trial.head == m.Head {
		return nil
	}
	tree, ok, err := h.mergeTree(r, base, m.Head)
	if err != nil {
		return err
	}
	t := trial{base: base, head: m.Head, ok: ok}
	if ok {
		who := ident{Name: m.Author.name(), Email: m.Author.email(), When: h.now()}
		if t.sha, err = h.commitTree(r, tree, who, "Merge "+m.Head+" into "+base, base, m.Head); err != nil {
			return err
		}
		if err := writeRef(r.path, h.mrRef(m.Number, "merge"), t.sha); err != nil {
			return err
		}
	}
	m.trial = t
	return nil
}

func (r *repository) mrs() []*mergeRequest {
	var list []*mergeRequest
	for _, t := range r.threads {
		if t.mr != nil {
			list = append(list, t.mr)
		}
	}
	slices.SortFunc(list, func(a, b *mergeRequest) int { return a.Number - b.Number })
	return list
}

func (r *repository) mr(number int) (*mergeRequest, error) {
	if t := r.threads[number]; t != nil && t.mr != nil {
		return t.mr, nil
	}
	return nil, refuse(refusedMissing, "no merge request %d in %s", number, r.fullName())
}

// withMR runs f on a merge request as login.
func (h *Host) withMR(repo string, number int, login string, f func(*repository, *mergeRequest, *user) error) error {
	return h.with(repo, func(r *repository) error {
		m, err := r.mr(number)
		if err != nil {
			return err
		}
		u, err := h.user(login)
		if err != nil {
			return err
		}
		return f(r, m, u)
	})
}

// PushTo commits files on top of a merge request's head, as its author.
func (h *Host) PushTo(repo string, number int, files map[string]string) (sha string, err error) {
	err = h.with(repo, func(r *repository) error {
		m, err := r.mr(number)
		if err != nil {
			return err
		}
		if !m.Fork {
			sha, err = h.commitBranch(r, m.Branch, "", m.Author.Login, "Change "+m.Title, files)
			return err
		}
		before := m.Head
		sha, err = h.writeCommit(r, h.mrRef(m.Number, "head"), before, m.Author, "Change "+m.Title, files)
		if err != nil {
			return err
		}
		return h.moveHead(r, m, sha, m.Author)
	})
	return sha, err
}

// CloseMR closes a merge request as login; a closed one stays as it is.
func (h *Host) CloseMR(repo string, number int, login string) error {
	return h.withMR(repo, number, login, h.closeMR)
}

func (h *Host) closeMR(r *repository, m *mergeRequest, u *user) error {
	if !m.Open {
		return nil
	}
	m.Open, m.ClosedAt, m.ClosedBy = false, h.now(), u
	m.Updated = h.now()
	h.emit(event{kind: onMR, action: "closed", repo: r, actor: u, mr: m})
	return nil
}

// ReopenMR opens a closed merge request again; merged ones refuse.
func (h *Host) ReopenMR(repo string, number int, login string) error {
	return h.withMR(repo, number, login, h.reopenMR)
}

func (h *Host) reopenMR(r *repository, m *mergeRequest, u *user) error {
	if m.Open {
		return nil
	}
	if m.Merged {
		return &refusal{refusedInvalid, "state", "state cannot be changed. The pull request is merged."}
	}
	if !m.Fork {
		tip := r.branches[m.Branch]
		if tip == "" {
			return &refusal{refusedInvalid, "state", fmt.Sprintf("state cannot be changed. The %s branch has been deleted.", m.Branch)}
		}
		m.Head = tip
		if err := writeRef(r.path, h.mrRef(m.Number, "head"), m.Head); err != nil {
			return err
		}
	}
	m.Open, m.ClosedAt, m.ClosedBy = true, time.Time{}, nil
	m.Updated = h.now()
	h.emit(event{kind: onMR, action: "reopened", repo: r, actor: u, mr: m})
	return nil
}

// Retarget changes the base of a merge request.
func (h *Host) Retarget(repo string, number int, login, base string) error {
	return h.withMR(repo, number, login, func(r *repository, m *mergeRequest, u *user) error {
		return h.retarget(r, m, u, base)
	})
}

func (h *Host) retarget(r *repository, m *mergeRequest, u *user, base string) error {
	if base == m.Base {
		return nil
	}
	if r.branches[base] == "" {
		return &refusal{refusedInvalid, "base", fmt.Sprintf("Proposed base branch '%s' was not found", base)}
	}
	e := event{kind: onMR, action: "edited", repo: r, actor: u, mr: m, from: m.Base, fromSHA: m.BaseSHA}
	m.Base, m.BaseSHA = base, r.branches[base]
	m.Updated = h.now()
	if err := h.measure(r, m); err != nil {
		return err
	}
	h.emit(e)
	return nil
}

// SetDraft turns a merge request into a draft, or marks it ready.
func (h *Host) SetDraft(repo string, number int, login string, draft bool) error {
	return h.withMR(repo, number, login, func(r *repository, m *mergeRequest, u *user) error {
		h.setDraft(r, m, u, draft)
		return nil
	})
}

func (h *Host) setDraft(r *repository, m *mergeRequest, u *user, draft bool) {
	if m.Draft == draft {
		return
	}
	m.Draft, m.Updated = draft, h.now()
	action := "ready_for_review"
	if draft {
		action = "converted_to_draft"
	}
	h.emit(event{kind: onMR, action: action, repo: r, actor: u, mr: m})
}
