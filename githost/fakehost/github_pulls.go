package fakehost

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
)

func (c *call) mr() (*mergeRequest, error) { return c.repo.mr(int(c.number("number"))) }

// answerPull is a merge request with its mergeability computed now.
func (c *call) answerPull(m *mergeRequest) (object, error) {
	if m.Open {
		if err := c.h.test(c.repo, m); err != nil {
			return nil, err
		}
	}
	return c.gh.fullPull(c.repo, m, !meets(c.req, FaultMergeableUnknown)), nil
}

func getPull(c *call) (int, any, error) {
	m, err := c.mr()
	if err != nil {
		return 0, nil, err
	}
	o, err := c.answerPull(m)
	return http.StatusOK, o, err
}

func listPulls(c *call) (int, any, error) {
	state, head, base := cmp.Or(c.query("state"), "open"), c.query("head"), c.query("base")
	var found []*mergeRequest
	for _, m := range c.repo.mrs() {
		label := m.headOwner(c.repo).Login + ":" + m.Branch
		if (state == "all" || state == m.state()) && (base == "" || base == m.Base) &&
			(head == "" || strings.EqualFold(label, head) || !strings.Contains(head, ":")) {
			found = append(found, m)
		}
	}
	if c.query("sort") == "updated" {
		slices.SortStableFunc(found, func(a, b *mergeRequest) int { return a.Updated.Compare(b.Updated) })
	}
	// Creation order is newest first unless asked; other orders oldest first.
	dir := c.query("direction")
	if dir == "desc" || dir == "" && cmp.Or(c.query("sort"), "created") == "created" {
		slices.Reverse(found)
	}
	return http.StatusOK, list(page(c, found), func(m *mergeRequest) object { return c.gh.shortPull(c.repo, m) }), nil
}

func createPull(c *call) (int, any, error) {
	if err := c.need(RoleRead); err != nil {
		return 0, nil, err
	}
	var in struct {
		Title, Head, Base, Body string
		Draft                   bool
	}
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	owner, branch, found := strings.Cut(in.Head, ":")
	if !found {
		branch = in.Head
	} else if !strings.EqualFold(owner, c.repo.Owner.Login) {
		return 0, nil, &refusal{refusedInvalid, "head", "head is not a branch of this repository"}
	}
	if in.Title == "" {
		return 0, nil, &refusal{refusedInvalid, "title", "title is missing"}
	}
	m, err := c.h.openMR(c.repo, c.who.user, &mergeRequest{
		thread: &thread{Title: in.Title, Body: in.Body}, Base: in.Base, Branch: branch, Head: c.repo.branches[branch], Draft: in.Draft,
	})
	if err != nil {
		return 0, nil, err
	}
	// Mergeability is still being computed when a merge request is new.
	return http.StatusCreated, c.gh.fullPull(c.repo, m, false), nil
}

func editPull(c *call) (int, any, error) {
	m, err := c.mr()
	if err != nil {
		return 0, nil, err
	}
	role := RoleWrite
	if c.who.user == m.Author {
		role = RoleRead
	}
	if err := c.need(role); err != nil {
		return 0, nil, err
	}
	var in struct {
		Title, Body, State, Base *string
	}
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	if in.Title != nil {
		m.Title, m.Updated = *in.Title, c.h.now()
	}
	if in.Body != nil {
		m.Body, m.Updated = *in.Body, c.h.now()
	}
	if in.Base != nil {
		if err := c.h.retarget(c.repo, m, c.who.user, *in.Base); err != nil {
			return 0, nil, err
		}
	}
	if in.State != nil {
		switch *in.State {
		case "closed":
			err = c.h.closeMR(c.repo, m, c.who.user)
		case "open":
			err = c.h.reopenMR(c.repo, m, c.who.user)
		default:
			err = &refusal{refusedInvalid, "state", "state is not open or closed"}
		}
		if err != nil {
			return 0, nil, err
		}
	}
	o, err := c.answerPull(m)
	return http.StatusOK, o, err
}

func isMerged(c *call) (int, any, error) {
	m, err := c.mr()
	if err != nil || !m.Merged {
		return 0, nil, errNotFound
	}
	return http.StatusNoContent, nil, nil
}

func mergePull(c *call) (int, any, error) {
	m, err := c.mr()
	if err != nil {
		return 0, nil, err
	}
	if err := c.need(RoleWrite); err != nil {
		return 0, nil, err
	}
	var in struct {
		SHA     string `json:"sha"`
		Method  string `json:"merge_method"`
		Title   string `json:"commit_title"`
		Message string `json:"commit_message"`
	}
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	method := cmp.Or(in.Method, "merge")
	if !slices.Contains([]string{"merge", "squash", "rebase"}, method) {
		return 0, nil, &refusal{refusedInvalid, "merge_method", "merge_method is not merge, squash or rebase"}
	}
	sha, err := c.h.merge(c.repo, m, c.who.user, mergeOptions{method: method, guard: in.SHA, title: in.Title, message: in.Message})
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, object{"sha": sha, "merged": true, "message": "Pull Request successfully merged"}, nil
}

func listPullCommits(c *call) (int, any, error) {
	m, err := c.mr()
	if err != nil {
		return 0, nil, err
	}
	shas, err := c.h.between(c.repo, m.BaseSHA, m.Head)
	if err != nil {
		return 0, nil, err
	}
	slices.Reverse(shas)
	out := []object{}
	for _, sha := range page(c, shas) {
		k, err := c.h.commitAt(c.repo, sha)
		if err != nil {
			return 0, nil, err
		}
		out = append(out, c.gh.gitCommit(c.repo, k))
	}
	return http.StatusOK, out, nil
}

func listPullFiles(c *call) (int, any, error) {
	m, err := c.mr()
	if err != nil {
		return 0, nil, err
	}
	files, err := c.changed(m.BaseSHA, m.Head)
	return http.StatusOK, page(c, files), err
}

// changed lists the files that differ between the merge base of two commits
// and the second.
func (c *call) changed(base, head string) ([]object, error) {
	out, err := c.h.git(c.repo.path, nil, "diff", "--raw", "-z", "--no-renames", "--no-abbrev", base+"..."+head)
	if err != nil {
		return nil, err
	}
	files := []object{}
	parts := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	for i := 0; i+1 < len(parts); i += 2 {
		f := strings.Fields(parts[i]) // :mode mode sha sha letter
		status, sha := "modified", f[3]
		switch f[4] {
		case "A":
			status = "added"
		case "D":
			status, sha = "removed", f[2]
		}
		path := parts[i+1]
		files = append(files, object{
			"sha": sha, "filename": path, "status": status, "additions": 0, "deletions": 0, "changes": 0,
			"blob_url":     c.gh.web("/%s/blob/%s/%s", c.repo.fullName(), head, path),
			"raw_url":      c.gh.web("/%s/raw/%s/%s", c.repo.fullName(), head, path),
			"contents_url": c.gh.api("/repos/%s/contents/%s?ref=%s", c.repo.fullName(), path, head),
		})
	}
	return files, nil
}

func listReviews(c *call) (int, any, error) {
	m, err := c.mr()
	if err != nil {
		return 0, nil, err
	}
	// A review that was not submitted is seen by its author only.
	seen := slices.DeleteFunc(slices.Clone(m.reviews), func(v *review) bool { return v.State == Pending && v.Author != c.who.user })
	return http.StatusOK, list(page(c, seen), func(v *review) object { return c.gh.review(c.repo, m, v) }), nil
}

var reviewStates = map[string]string{"APPROVE": Approved, "REQUEST_CHANGES": ChangesRequested, "COMMENT": Commented, "": Pending}

func createReview(c *call) (int, any, error) {
	m, err := c.mr()
	if err != nil {
		return 0, nil, err
	}
	if err := c.need(RoleRead); err != nil {
		return 0, nil, err
	}
	var in struct {
		Event, Body string
		CommitID    string `json:"commit_id"`
	}
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	if (in.Event == "REQUEST_CHANGES" || in.Event == "COMMENT") && in.Body == "" {
		return 0, nil, refuse(refusedReview, "Body can't be blank")
	}
	v, err := c.h.review(c.repo, m, c.who.user, reviewStates[in.Event], in.Body, in.CommitID)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, c.gh.review(c.repo, m, v), nil
}

func submitReview(c *call) (int, any, error) {
	m, v, err := c.review()
	if err != nil {
		return 0, nil, err
	}
	if c.who.user != v.Author {
		return 0, nil, errNotFound
	}
	var in struct{ Event, Body string }
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	state := reviewStates[in.Event]
	if v.State != Pending || state == "" || state == Pending {
		return 0, nil, refuse(refusedReview, "The review can not be submitted so")
	}
	if err := m.mayReview(c.who.user, state); err != nil {
		return 0, nil, err
	}
	v.State, v.Body = state, cmp.Or(in.Body, v.Body)
	c.h.submit(c.repo, m, v)
	return http.StatusOK, c.gh.review(c.repo, m, v), nil
}

func dismissReview(c *call) (int, any, error) {
	m, v, err := c.review()
	if err != nil {
		return 0, nil, err
	}
	if err := c.need(RoleWrite); err != nil {
		return 0, nil, err
	}
	var in struct{ Message string }
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	if in.Message == "" {
		return 0, nil, refuse(refusedReview, "Message can't be blank")
	}
	if err := c.h.dismiss(c.repo, m, v.ID, c.who.user); err != nil {
		return 0, nil, err
	}
	return http.StatusOK, c.gh.review(c.repo, m, v), nil
}

func (c *call) review() (*mergeRequest, *review, error) {
	m, err := c.mr()
	if err != nil {
		return nil, nil, err
	}
	v := m.review(c.number("id"))
	if v == nil {
		return nil, nil, errNotFound
	}
	return m, v, nil
}
