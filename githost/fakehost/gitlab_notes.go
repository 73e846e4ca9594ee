package fakehost

import (
	"cmp"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// quickAction is a line GitLab takes for itself; one it does not know stays text.
var quickAction = regexp.MustCompile(`(?m)^/(approve|unapprove|draft|ready|close|reopen|merge|target_branch|title|assign|unassign|label|unlabel|rebase|react|done|todo|subscribe|unsubscribe|lock|unlock|assign_reviewer|request_review|milestone|estimate|spend|shrug|tableflip)\b[ \t]*([^\r\n]*)\r?\n?`)

// quickActions carries out the known quick actions of a note and answers what
// is left of its text. What somebody may not do is left undone, silently.
func (g *gitlab) quickActions(r *repository, t *thread, u *user, body string) string {
	for _, found := range quickAction.FindAllStringSubmatch(body, -1) {
		if t.mr != nil {
			if err := g.quickAction(r, t.mr, u, found[1], strings.TrimSpace(found[2])); err != nil {
				g.h.log.Debug("quick action refused", "action", found[1], "actor", u.Login, "error", err)
			}
		}
	}
	return quickAction.ReplaceAllString(body, "")
}

func (g *gitlab) quickAction(r *repository, m *mergeRequest, u *user, action, argument string) error {
	if g.level(r, u) < Developer && (u != m.Author || action == "approve" || action == "merge") {
		return errGLForbidden
	}
	switch action {
	case "approve":
		_, err := g.h.review(r, m, u, Approved, "", "")
		return err
	case "unapprove":
		for _, v := range g.approvers(m) {
			if v.Author == u {
				return g.h.dismiss(r, m, v.ID, u)
			}
		}
	case "draft":
		g.h.setDraft(r, m, u, !m.Draft)
	case "ready":
		g.h.setDraft(r, m, u, false)
	case "close":
		return g.h.closeMR(r, m, u)
	case "reopen":
		return g.h.reopenMR(r, m, u)
	case "target_branch":
		return g.h.retarget(r, m, u, argument)
	case "merge":
		_, err := g.accept(r, m, u, mergeOptions{})
		return err
	}
	return nil
}

// notes lists what was written on a merge request, by people and the system,
// oldest first.
func (c *glCall) notes(m *mergeRequest) []*comment {
	all := append(slices.Clone(c.repo.commentsOn(m.Number)), m.gl.notes...)
	slices.SortFunc(all, func(a, b *comment) int { return int(a.ID - b.ID) })
	return all
}

func (c *glCall) note(m *mergeRequest, x *comment) object {
	return c.gl.note(c.repo, m, x, slices.Contains(m.gl.notes, x))
}

func glListNotes(c *glCall) (int, any, error) {
	m, err := c.mr()
	if err != nil {
		return 0, nil, err
	}
	all := c.notes(m)
	switch c.str("activity_filter") {
	case "only_comments":
		all = slices.DeleteFunc(all, func(x *comment) bool { return slices.Contains(m.gl.notes, x) })
	case "only_activity":
		all = slices.Clone(m.gl.notes)
	}
	if c.str("order_by") == "updated_at" {
		slices.SortStableFunc(all, func(a, b *comment) int { return a.Updated.Compare(b.Updated) })
	}
	if c.str("sort") != "asc" {
		slices.Reverse(all)
	}
	return http.StatusOK, list(glPage(c, all), func(x *comment) object { return c.note(m, x) }), nil
}

func glDiscussions(c *glCall) (int, any, error) {
	m, err := c.mr()
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, list(glPage(c, c.notes(m)), func(x *comment) object {
		return object{"id": strings.ReplaceAll(guid(x.ID), "-", ""), "individual_note": true, "notes": []object{c.note(m, x)}}
	}), nil
}

// findNote is the note of the path and its merge request.
func (c *glCall) findNote() (*mergeRequest, *comment, error) {
	m, err := c.mr()
	if err != nil {
		return nil, nil, err
	}
	for _, x := range c.notes(m) {
		if x.ID == c.number("note") {
			return m, x, nil
		}
	}
	return nil, nil, glRefuse(404, "404 Note Not Found")
}

func glGetNote(c *glCall) (int, any, error) {
	m, x, err := c.findNote()
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, c.note(m, x), nil
}

func glCreateNote(c *glCall) (int, any, error) {
	m, err := c.mr()
	if err != nil {
		return 0, nil, err
	}
	if err := c.must(RoleRead); err != nil {
		return 0, nil, err
	}
	if err := c.need("body"); err != nil {
		return 0, nil, err
	}
	x, err := c.h.comment(c.repo, m.Number, c.who, c.str("body"))
	if err != nil {
		return 0, nil, err
	}
	if x.ID == 0 {
		return http.StatusAccepted, object{"commands_changes": object{}, "summary": []string{"Commands applied"}}, nil
	}
	return http.StatusCreated, c.note(m, x), nil
}

func glEditNote(c *glCall) (int, any, error) {
	m, x, err := c.findNote()
	if err != nil {
		return 0, nil, err
	}
	if err := c.mayEdit(m, x); err != nil {
		return 0, nil, err
	}
	if err := c.h.editComment(c.repo, x, c.who, c.str("body")); err != nil {
		return 0, nil, err
	}
	return http.StatusOK, c.note(m, x), nil
}

// mayEdit admits the author and Maintainers; nobody edits the system's notes.
func (c *glCall) mayEdit(m *mergeRequest, x *comment) error {
	if slices.Contains(m.gl.notes, x) || c.who != x.Author && c.gl.level(c.repo, c.who) < Maintainer {
		return errGLForbidden
	}
	return nil
}

func glDeleteNote(c *glCall) (int, any, error) {
	m, x, err := c.findNote()
	if err != nil {
		return 0, nil, err
	}
	if err := c.mayEdit(m, x); err != nil {
		return 0, nil, err
	}
	c.h.deleteComment(c.repo, x, c.who)
	return http.StatusNoContent, nil, nil
}

func glListEmoji(c *glCall) (int, any, error) {
	_, x, err := c.findNote()
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, list(glPage(c, x.Reactions), func(r *reaction) object { return c.gl.emoji(x, r) }), nil
}

var emojiName = regexp.MustCompile(`^[a-z0-9_+-]+$`)

func glAwardEmoji(c *glCall) (int, any, error) {
	_, x, err := c.findNote()
	if err != nil {
		return 0, nil, err
	}
	if err := cmp.Or(c.must(RoleRead), c.need("name")); err != nil {
		return 0, nil, err
	}
	name := c.str("name")
	if !emojiName.MatchString(name) {
		return 0, nil, glRefuse(400, "400 Bad request - Name is not a valid emoji name")
	}
	for _, r := range x.Reactions {
		if r.User == c.who && r.Content == name {
			return 0, nil, glRefuse(404, "404 Award Emoji Name has already been taken Not Found")
		}
	}
	r := &reaction{ID: c.h.nextID(), User: c.who, Content: name, Created: c.h.now()}
	x.Reactions = append(x.Reactions, r)
	return http.StatusCreated, c.gl.emoji(x, r), nil
}
