package fakehost

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// maxComment is the host's limit for a comment, in characters.
const maxComment = 65536

// Comment writes a comment on a merge request or issue and returns its id.
func (h *Host) Comment(repo string, number int, author, body string) (id int64, err error) {
	err = h.with(repo, func(r *repository) error {
		u, err := h.user(author)
		if err != nil {
			return err
		}
		c, err := h.comment(r, number, u, body)
		if err == nil {
			id = c.ID
		}
		return err
	})
	return id, err
}

func (h *Host) comment(r *repository, number int, u *user, body string) (*comment, error) {
	t := r.threads[number]
	if t == nil {
		return nil, refuse(refusedMissing, "no issue or merge request %d in %s", number, r.fullName())
	}
	if err := checkBody(body); err != nil {
		return nil, err
	}
	if h.gl != nil {
		if body = h.gl.quickActions(r, t, u, body); strings.TrimSpace(body) == "" {
			return &comment{Thread: t, Author: u}, nil
		}
	}
	c := &comment{ID: h.nextID(), Thread: t, Author: u, Body: body, Created: h.now(), Updated: h.now()}
	r.comments = append(r.comments, c)
	t.Updated = h.now()
	h.emit(event{kind: onComment, action: "created", repo: r, actor: u, thread: t, comment: c})
	return c, nil
}

func checkBody(body string) error {
	if strings.TrimSpace(body) == "" {
		return &refusal{refusedInvalid, "body", "body cannot be blank"}
	}
	if utf8.RuneCountInString(body) > maxComment {
		return &refusal{refusedInvalid, "body", "body is too long (maximum is 65536 characters)"}
	}
	return nil
}

func (h *Host) editComment(r *repository, c *comment, u *user, body string) error {
	if err := checkBody(body); err != nil {
		return err
	}
	from := c.Body
	c.Body, c.Updated = body, h.now()
	h.emit(event{kind: onComment, action: "edited", repo: r, actor: u, thread: c.Thread, comment: c, from: from})
	return nil
}

// EditComment replaces a comment's text, as its author.
func (h *Host) EditComment(repo string, id int64, body string) error {
	return h.with(repo, func(r *repository) error {
		c := r.comment(id)
		if c == nil {
			return refuse(refusedMissing, "no comment %d in %s", id, r.fullName())
		}
		return h.editComment(r, c, c.Author, body)
	})
}

func (r *repository) comment(id int64) *comment {
	for _, c := range r.comments {
		if c.ID == id {
			return c
		}
	}
	return nil
}

func (h *Host) deleteComment(r *repository, c *comment, u *user) {
	r.comments = slices.DeleteFunc(r.comments, func(x *comment) bool { return x == c })
	h.emit(event{kind: onComment, action: "deleted", repo: r, actor: u, thread: c.Thread, comment: c})
}

// react adds a reaction; fresh is false when u had it already.
func (h *Host) react(list *[]*reaction, u *user, content string) (x *reaction, fresh bool, err error) {
	if !slices.Contains([]string{"+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes"}, content) {
		return nil, false, &refusal{refusedInvalid, "content", "content is not a reaction"}
	}
	for _, x := range *list {
		if x.User == u && x.Content == content {
			return x, false, nil
		}
	}
	x = &reaction{ID: h.nextID(), User: u, Content: content, Created: h.now()}
	*list = append(*list, x)
	return x, true, nil
}

// Review states.
const (
	Approved         = "APPROVED"
	ChangesRequested = "CHANGES_REQUESTED"
	Commented        = "COMMENTED"
	Dismissed        = "DISMISSED"
	Pending          = "PENDING"
)

// Review submits a review (Approved, ChangesRequested or Commented) at the
// present head and returns its id.
func (h *Host) Review(repo string, number int, author, state, body string) (id int64, err error) {
	err = h.withMR(repo, number, author, func(r *repository, m *mergeRequest, u *user) error {
		v, err := h.review(r, m, u, state, body, "")
		if err == nil {
			id = v.ID
		}
		return err
	})
	return id, err
}

func (h *Host) review(r *repository, m *mergeRequest, u *user, state, body, sha string) (*review, error) {
	if err := m.mayReview(u, state); err != nil {
		return nil, err
	}
	if !slices.Contains([]string{Approved, ChangesRequested, Commented, Pending}, state) {
		return nil, refuse(refusedReview, "Event is not included in the list")
	}
	if sha == "" {
		sha = m.Head
	} else if h.resolve(r, sha) == "" {
		return nil, refuse(refusedReview, "Commit is not part of the pull request")
	}
	v := &review{ID: h.nextID(), Author: u, State: state, Body: body, SHA: sha}
	m.reviews = append(m.reviews, v)
	if state != Pending {
		h.submit(r, m, v)
	}
	if h.gl != nil && body != "" {
		// A GitLab keeps no words with an opinion: they are a note.
		if _, err := h.comment(r, m.Number, u, body); err != nil {
			return nil, err
		}
		v.Body = ""
	}
	return v, nil
}

// mayReview refuses opinions of authors on their own work.
func (m *mergeRequest) mayReview(u *user, state string) error {
	switch {
	case u == m.Author && state == Approved:
		return refuse(refusedReview, "Can not approve your own pull request")
	case u == m.Author && state == ChangesRequested:
		return refuse(refusedReview, "Can not request changes on your own pull request")
	}
	return nil
}

func (h *Host) submit(r *repository, m *mergeRequest, v *review) {
	v.Submitted, m.Updated = h.now(), h.now()
	h.emit(event{kind: onReview, action: "submitted", repo: r, actor: v.Author, mr: m, review: v})
}

// Dismiss dismisses a review as login.
func (h *Host) Dismiss(repo string, number int, id int64, login string) error {
	return h.withMR(repo, number, login, func(r *repository, m *mergeRequest, u *user) error {
		return h.dismiss(r, m, id, u)
	})
}

func (h *Host) dismiss(r *repository, m *mergeRequest, id int64, u *user) error {
	v := m.review(id)
	if v == nil {
		return refuse(refusedMissing, "no review %d on merge request %d", id, m.Number)
	}
	if v.State != Approved && v.State != ChangesRequested {
		return refuse(refusedReview, "Can not dismiss a %s review", strings.ToLower(v.State))
	}
	v.State, m.Updated = Dismissed, h.now()
	h.emit(event{kind: onReview, action: "dismissed", repo: r, actor: u, mr: m, review: v})
	return nil
}

func (m *mergeRequest) review(id int64) *review {
	for _, v := range m.reviews {
		if v.ID == id {
			return v
		}
	}
	return nil
}

// opinions is the last opinion of each reviewer with write access.
func (h *Host) opinions(r *repository, m *mergeRequest) map[*user]*review {
	last := map[*user]*review{}
	for _, v := range m.reviews {
		if v.State != Commented && v.State != Pending && v.Author != m.Author && atLeast(h.role(r, v.Author), RoleWrite) {
			last[v.Author] = v
		}
	}
	return last
}
