package fakehost

import (
	"net/http"
	"strings"
)

// graphQL answers one kind of question: a pull request by the variables owner,
// name (or repo) and number. It answers all the fields it knows, whatever
// subset the query names.
func graphQL(c *call) (int, any, error) {
	if c.who.user == nil {
		return 0, nil, errUnauthorized
	}
	var in struct {
		Query     string
		Variables struct {
			Owner, Name, Repo string
			Number            int
		}
	}
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	v := in.Variables
	name := orDefault(v.Name, v.Repo)
	r := c.h.repos[strings.ToLower(v.Owner+"/"+name)]
	// GraphQL reports its errors with HTTP 200.
	notFound := func(message string) (int, any, error) {
		return http.StatusOK, object{"data": object{"repository": nil}, "errors": []object{{"type": "NOT_FOUND", "path": []string{"repository"}, "message": message}}}, nil
	}
	if r == nil || c.find(r) != nil {
		return notFound("Could not resolve to a Repository with the name '" + v.Owner + "/" + name + "'.")
	}
	m, err := r.mr(v.Number)
	if err != nil {
		return notFound("Could not resolve to a PullRequest.")
	}
	mergeable := "UNKNOWN"
	if m.Open {
		if err := c.h.test(r, m); err != nil {
			return 0, nil, err
		}
		mergeable = map[bool]string{true: "MERGEABLE", false: "CONFLICTING"}[m.trial.ok]
	}
	state := strings.ToUpper(m.state())
	if m.Merged {
		state = "MERGED"
	}
	return http.StatusOK, object{"data": object{"repository": object{"pullRequest": object{
		"id": nodeID("PullRequest", m.ID), "number": m.Number, "state": state, "merged": m.Merged, "isDraft": m.Draft, "headRefOid": m.Head,
		"headRefName": m.Branch, "baseRefName": m.Base, "baseRefOid": m.BaseSHA, "title": m.Title, "mergeable": mergeable,
		"reviewDecision": c.decision(r, m), "isInMergeQueue": false,
	}}}}, nil
}

// decision is null where the base branch requires no review.
func (c *call) decision(r *repository, m *mergeRequest) any {
	wanted := r.rules[m.Base].RequiredApprovals
	if wanted == 0 {
		return nil
	}
	approvals := 0
	for _, v := range c.h.opinions(r, m) {
		switch v.State {
		case ChangesRequested:
			return "CHANGES_REQUESTED"
		case Approved:
			approvals++
		}
	}
	if approvals < wanted {
		return "REVIEW_REQUIRED"
	}
	return "APPROVED"
}
