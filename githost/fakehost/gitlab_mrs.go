package fakehost

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

func (c *glCall) mr() (*mergeRequest, error) { return c.repo.mr(int(c.number("iid"))) }

// answerMR is the full form, mergeability looked at.
func (c *glCall) answerMR(status int, m *mergeRequest) (int, any, error) {
	o, err := c.gl.fullMR(c.repo, m, c.who, meets(c.req, FaultMergeableUnknown))
	return status, o, err
}

func glGetMR(c *glCall) (int, any, error) {
	m, err := c.mr()
	if err != nil {
		return 0, nil, err
	}
	return c.answerMR(http.StatusOK, m)
}

func glListMRs(c *glCall) (int, any, error) {
	found, err := c.selectMRs()
	if err != nil {
		return 0, nil, err
	}
	out := []object{}
	for _, m := range glPage(c, found) {
		status, err := c.gl.mergeStatus(c.repo, m)
		if err != nil {
			return 0, nil, err
		}
		out = append(out, c.gl.shortMR(c.repo, m, status))
	}
	return http.StatusOK, out, nil
}

func (c *glCall) selectMRs() ([]*mergeRequest, error) {
	after, err := c.moment("updated_after")
	if err != nil {
		return nil, err
	}
	before, err := c.moment("updated_before")
	if err != nil {
		return nil, err
	}
	iids, _ := c.params["iids"].([]string)
	state, draft := cmp.Or(c.str("state"), "all"), cmp.Or(c.str("draft"), c.str("wip"))
	var found []*mergeRequest
	for _, m := range c.repo.mrs() {
		switch {
		case state != "all" && state != m.stateGL(),
			c.has("source_branch") && c.str("source_branch") != m.Branch,
			c.has("target_branch") && c.str("target_branch") != m.Base,
			c.has("author_id") && c.str("author_id") != strconv.FormatInt(m.Author.ID, 10),
			c.has("author_username") && !strings.EqualFold(c.str("author_username"), m.Author.Login),
			c.has("source_project_id") && c.str("source_project_id") != strconv.FormatInt(c.repo.ID, 10),
			draft != "" && (draft == "yes" || draft == "true") != m.Draft,
			len(iids) > 0 && !slices.Contains(iids, strconv.Itoa(m.Number)),
			!after.IsZero() && m.Updated.Before(after),
			!before.IsZero() && m.Updated.After(before):
		default:
			found = append(found, m)
		}
	}
	if c.str("order_by") == "updated_at" {
		slices.SortStableFunc(found, func(a, b *mergeRequest) int { return a.Updated.Compare(b.Updated) })
	}
	if c.str("sort") != "asc" {
		slices.Reverse(found)
	}
	return found, nil
}

func (c *glCall) moment(name string) (time.Time, error) {
	s := c.str(name)
	if s == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, &glError{status: 400, message: name + " is invalid", field: "error"}
	}
	return t, nil
}

func glCreateMR(c *glCall) (int, any, error) {
	if err := c.must(RoleWrite); err != nil {
		return 0, nil, err
	}
	if err := c.need("source_branch", "target_branch", "title"); err != nil {
		return 0, nil, err
	}
	source, target := c.str("source_branch"), c.str("target_branch")
	if source == target {
		return 0, nil, &refusal{kind: refusedTaken, message: "You can't use same project/branch for source and target"}
	}
	for _, b := range []struct{ what, name string }{{"Source", source}, {"Target", target}} {
		if c.repo.branches[b.name] == "" {
			return 0, nil, glRefuse(400, []string{b.what + ` branch "` + b.name + `" does not exist`})
		}
	}
	title, draft := splitDraft(c.str("title"))
	m, err := c.h.openMR(c.repo, c.who, &mergeRequest{
		thread: &thread{Title: title, Body: c.str("description")}, Base: target, Branch: source, Head: c.repo.branches[source], Draft: draft,
		gl: gitlabMR{squash: c.yes("squash")},
	})
	if err != nil {
		return 0, nil, err
	}
	return c.answerMR(http.StatusCreated, m)
}

func glUpdateMR(c *glCall) (int, any, error) {
	m, err := c.mr()
	if err != nil {
		return 0, nil, err
	}
	role := RoleWrite
	if c.who == m.Author {
		role = RoleRead
	}
	if err := c.must(role); err != nil {
		return 0, nil, err
	}
	if c.has("squash") {
		m.gl.squash = c.yes("squash")
	}
	c.edit(m)
	if c.has("target_branch") {
		if err := c.h.retarget(c.repo, m, c.who, c.str("target_branch")); err != nil {
			return 0, nil, err
		}
	}
	switch c.str("state_event") {
	case "":
	case "close":
		err = c.h.closeMR(c.repo, m, c.who)
	case "reopen":
		err = c.h.reopenMR(c.repo, m, c.who)
	default:
		err = &glError{status: 400, message: "state_event does not have a valid value", field: "error"}
	}
	if err != nil {
		return 0, nil, err
	}
	return c.answerMR(http.StatusOK, m)
}

// edit changes title (and with it the draft flag) and description, one webhook
// for both.
func (c *glCall) edit(m *mergeRequest) {
	changes := object{}
	changed := func(name string, from, to any) {
		if from != to {
			changes[name] = object{"previous": from, "current": to}
		}
	}
	if c.has("title") {
		was, wasDraft := m.titleGL(), m.Draft
		m.Title, m.Draft = splitDraft(c.str("title"))
		changed("title", was, m.titleGL())
		changed("draft", wasDraft, m.Draft)
	}
	if c.has("description") {
		was := m.Body
		m.Body = c.str("description")
		changed("description", was, m.Body)
	}
	if len(changes) == 0 {
		return
	}
	m.Updated = c.h.now()
	c.h.emit(event{kind: onMR, action: "changed", repo: c.repo, actor: c.who, mr: m, changes: changes})
}

func glMRCommits(c *glCall) (int, any, error) {
	m, err := c.mr()
	if err != nil {
		return 0, nil, err
	}
	shas, err := c.h.between(c.repo, m.BaseSHA, m.Head)
	if err != nil {
		return 0, nil, err
	}
	return c.answerCommits(glPage(c, shas))
}

func (c *glCall) answerCommits(shas []string) (int, any, error) {
	out := []object{}
	for _, sha := range shas {
		k, err := c.h.commitAt(c.repo, sha)
		if err != nil {
			return 0, nil, err
		}
		out = append(out, c.gl.commit(c.repo, k))
	}
	return http.StatusOK, out, nil
}

// glVersions lists what was pushed to a merge request and when, newest first.
func glVersions(c *glCall) (int, any, error) {
	m, err := c.mr()
	if err != nil {
		return 0, nil, err
	}
	newest := slices.Clone(m.gl.versions)
	slices.Reverse(newest)
	return http.StatusOK, list(glPage(c, newest), func(v version) object {
		return object{
			"id": v.id, "head_commit_sha": v.head, "base_commit_sha": v.base, "start_commit_sha": v.base, "created_at": glTime(v.created),
			"merge_request_id": m.ID, "state": "collected", "real_size": "1", "patch_id_sha": nil,
		}
	}), nil
}

// glListEvents lists comments, newest first: the only activity it knows.
func glListEvents(c *glCall) (int, any, error) {
	if a := c.str("action"); a != "" && a != "commented" {
		return http.StatusOK, []object{}, nil
	}
	var after, before time.Time
	for name, t := range map[string]*time.Time{"after": &after, "before": &before} {
		if s := c.str(name); s != "" {
			var err error
			if *t, err = time.Parse(time.DateOnly, s); err != nil {
				return 0, nil, &glError{status: 400, message: name + " is invalid", field: "error"}
			}
		}
	}
	var found []*comment
	for _, x := range c.repo.comments {
		// Both are days, and leave themselves out.
		if !after.IsZero() && x.Created.Before(after.AddDate(0, 0, 1)) || !before.IsZero() && !x.Created.Before(before) || x.Thread.mr == nil {
			continue
		}
		found = append(found, x)
	}
	if c.str("sort") != "asc" {
		slices.Reverse(found)
	}
	return http.StatusOK, list(glPage(c, found), func(x *comment) object {
		return object{
			"id": x.ID, "project_id": c.repo.ID, "action_name": "commented on", "target_id": x.ID, "target_iid": x.ID, "target_type": "Note",
			"author_id": x.Author.ID, "author": c.gl.user(x.Author), "author_username": x.Author.Login, "target_title": x.Thread.Title,
			"created_at": glTime(x.Created), "note": c.gl.note(c.repo, x.Thread.mr, x, false), "imported": false, "imported_from": "none",
		}
	}), nil
}
