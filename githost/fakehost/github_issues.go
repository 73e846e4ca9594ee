package fakehost

import (
	"net/http"
	"slices"
	"time"
)

func (c *call) thread() (*thread, error) {
	if t := c.repo.threads[int(c.number("number"))]; t != nil {
		return t, nil
	}
	return nil, errNotFound
}

func getIssue(c *call) (int, any, error) {
	t, err := c.thread()
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, c.gh.issue(c.repo, t), nil
}

func createIssue(c *call) (int, any, error) {
	if err := c.need(RoleRead); err != nil {
		return 0, nil, err
	}
	var in struct{ Title, Body string }
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	if in.Title == "" {
		return 0, nil, &refusal{refusedInvalid, "title", "title is missing"}
	}
	t := &thread{Title: in.Title, Body: in.Body}
	c.h.addThread(c.repo, c.who.user, t)
	c.h.emit(event{kind: onIssue, action: "opened", repo: c.repo, actor: c.who.user, thread: t})
	return http.StatusCreated, c.gh.issue(c.repo, t), nil
}

func editIssue(c *call) (int, any, error) {
	t, err := c.thread()
	if err != nil {
		return 0, nil, err
	}
	if t.mr != nil {
		if _, _, err := editPull(c); err != nil {
			return 0, nil, err
		}
		return http.StatusOK, c.gh.issue(c.repo, t), nil
	}
	role := RoleTriage
	if c.who.user == t.Author {
		role = RoleRead
	}
	if err := c.need(role); err != nil {
		return 0, nil, err
	}
	var in struct{ State *string }
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	if in.State != nil && t.Open != (*in.State == "open") {
		t.Open, t.Updated = *in.State == "open", c.h.now()
		t.ClosedAt, t.ClosedBy = time.Time{}, nil
		action := "reopened"
		if !t.Open {
			t.ClosedAt, t.ClosedBy, action = c.h.now(), c.who.user, "closed"
		}
		c.h.emit(event{kind: onIssue, action: action, repo: c.repo, actor: c.who.user, thread: t})
	}
	return http.StatusOK, c.gh.issue(c.repo, t), nil
}

// since keeps what was updated at or after the query's since.
func (c *call) since(all []*comment) ([]*comment, error) {
	s := c.query("since")
	if s == "" {
		return all, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return nil, &apiError{status: 422, message: "since is not an ISO 8601 time"}
	}
	// The API's clock shows whole seconds, so it compares whole seconds.
	return slices.DeleteFunc(slices.Clone(all), func(x *comment) bool { return x.Updated.Truncate(time.Second).Before(t) }), nil
}

func (c *call) comments(all []*comment) (int, any, error) {
	all, err := c.since(all)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, list(page(c, all), func(x *comment) object { return c.gh.comment(c.repo, x) }), nil
}

func listComments(c *call) (int, any, error) {
	t, err := c.thread()
	if err != nil {
		return 0, nil, err
	}
	return c.comments(c.repo.commentsOn(t.Number))
}

// listAllComments orders by id unless sort is given; direction counts only
// with sort, as GitHub has it.
func listAllComments(c *call) (int, any, error) {
	all := slices.Clone(c.repo.comments)
	if sort := c.query("sort"); sort != "" {
		slices.SortStableFunc(all, func(a, b *comment) int {
			if sort == "updated" {
				return a.Updated.Compare(b.Updated)
			}
			return a.Created.Compare(b.Created)
		})
		if c.query("direction") != "asc" {
			slices.Reverse(all)
		}
	}
	return c.comments(all)
}

func createComment(c *call) (int, any, error) {
	t, err := c.thread()
	if err != nil {
		return 0, nil, err
	}
	if err := c.need(RoleRead); err != nil {
		return 0, nil, err
	}
	var in struct{ Body string }
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	x, err := c.h.comment(c.repo, t.Number, c.who.user, in.Body)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, c.gh.comment(c.repo, x), nil
}

func (c *call) comment() (*comment, error) {
	if x := c.repo.comment(c.number("id")); x != nil {
		return x, nil
	}
	return nil, errNotFound
}

func getComment(c *call) (int, any, error) {
	x, err := c.comment()
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, c.gh.comment(c.repo, x), nil
}

// ownComment is the call's comment if the caller may change it.
func (c *call) ownComment() (*comment, error) {
	x, err := c.comment()
	if err != nil {
		return nil, err
	}
	role := RoleWrite
	if c.who.user == x.Author {
		role = RoleRead
	}
	return x, c.need(role)
}

func editComment(c *call) (int, any, error) {
	x, err := c.ownComment()
	if err != nil {
		return 0, nil, err
	}
	var in struct{ Body string }
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	if err := c.h.editComment(c.repo, x, c.who.user, in.Body); err != nil {
		return 0, nil, err
	}
	return http.StatusOK, c.gh.comment(c.repo, x), nil
}

func deleteComment(c *call) (int, any, error) {
	x, err := c.ownComment()
	if err != nil {
		return 0, nil, err
	}
	c.h.deleteComment(c.repo, x, c.who.user)
	return http.StatusNoContent, nil, nil
}

func listReactions(c *call) (int, any, error) {
	x, err := c.comment()
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, list(page(c, x.Reactions), c.gh.reaction), nil
}

func reactToComment(c *call) (int, any, error) {
	x, err := c.comment()
	if err != nil {
		return 0, nil, err
	}
	return c.react(&x.Reactions)
}

func reactToIssue(c *call) (int, any, error) {
	t, err := c.thread()
	if err != nil {
		return 0, nil, err
	}
	return c.react(&t.Reactions)
}

func (c *call) react(to *[]*reaction) (int, any, error) {
	if err := c.need(RoleRead); err != nil {
		return 0, nil, err
	}
	var in struct{ Content string }
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	x, fresh, err := c.h.react(to, c.who.user, in.Content)
	if err != nil {
		return 0, nil, err
	}
	if !fresh {
		return http.StatusOK, c.gh.reaction(x), nil
	}
	return http.StatusCreated, c.gh.reaction(x), nil
}
