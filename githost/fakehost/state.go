package fakehost

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// State is everything about one repository, as it is now.
type State struct {
	Repo          string            `json:"repo"`
	DefaultBranch string            `json:"default_branch"`
	Branches      map[string]string `json:"branches"`
	MergeRequests []MR              `json:"merge_requests"`
	Statuses      []Status          `json:"statuses"`
	Checks        []Check           `json:"checks"`
	CIRuns        []CIRun           `json:"ci_runs"`
}

// MR is a merge request as a reader sees it.
type MR struct {
	Number   int       `json:"number"`
	Author   string    `json:"author"`
	Title    string    `json:"title"`
	Body     string    `json:"body,omitempty"`
	State    string    `json:"state"` // open, closed or merged
	Draft    bool      `json:"draft,omitempty"`
	Base     string    `json:"base"`
	Branch   string    `json:"branch"`
	Head     string    `json:"head"`
	MergeSHA string    `json:"merge_sha,omitempty"`
	MergedBy string    `json:"merged_by,omitempty"`
	Reviews  []Review  `json:"reviews,omitempty"`
	Comments []Comment `json:"comments,omitempty"`
}

// Review is one review of a merge request.
type Review struct {
	ID     int64  `json:"id"`
	Author string `json:"author"`
	State  string `json:"state"`
	Body   string `json:"body,omitempty"`
	SHA    string `json:"sha"`
}

// Comment is one comment on a merge request or issue.
type Comment struct {
	ID        int64      `json:"id"`
	Author    string     `json:"author"`
	Body      string     `json:"body"`
	Created   time.Time  `json:"created"`
	Updated   time.Time  `json:"updated"`
	Reactions []Reaction `json:"reactions,omitempty"`
}

// Reaction is one user's reaction to a comment, such as "eyes".
type Reaction struct {
	User    string `json:"user"`
	Content string `json:"content"`
}

// Status is one commit status; older ones of a context are listed too.
type Status struct {
	SHA         string `json:"sha"`
	Context     string `json:"context"`
	State       string `json:"state"`
	Description string `json:"description,omitempty"`
	Creator     string `json:"creator"`
}

// Check is one check run.
type Check struct {
	SHA        string `json:"sha"`
	Name       string `json:"name"`
	App        string `json:"app"`
	Status     string `json:"status"`
	Conclusion string `json:"conclusion,omitempty"`
	Title      string `json:"title,omitempty"`
}

// Commit is one commit of a branch's history.
type Commit struct {
	SHA     string   `json:"sha"`
	Tree    string   `json:"tree"`
	Parents []string `json:"parents"`
	Subject string   `json:"subject"`
	Author  string   `json:"author"`
}

// State dumps a repository.
func (h *Host) State(repo string) (s State, err error) {
	err = h.with(repo, func(r *repository) error {
		s = State{Repo: r.fullName(), DefaultBranch: r.DefaultBranch, Branches: map[string]string{}, MergeRequests: []MR{}, Statuses: []Status{}, Checks: []Check{}, CIRuns: []CIRun{}}
		maps.Copy(s.Branches, r.branches)
		for _, m := range r.mrs() {
			s.MergeRequests = append(s.MergeRequests, r.view(m))
		}
		for _, x := range r.statuses {
			s.Statuses = append(s.Statuses, Status{SHA: x.SHA, Context: x.Context, State: x.State, Description: x.Description, Creator: x.Creator.Login})
		}
		for _, c := range r.checks {
			s.Checks = append(s.Checks, Check{SHA: c.SHA, Name: c.Name, App: c.Suite.App, Status: c.Status, Conclusion: c.Conclusion, Title: c.Title})
		}
		for _, run := range h.runs {
			if run.repo == r {
				s.CIRuns = append(s.CIRuns, run.CIRun)
			}
		}
		return nil
	})
	return s, err
}

func (r *repository) view(m *mergeRequest) MR {
	v := MR{
		Number: m.Number, Author: m.Author.Login, Title: m.Title, Body: m.Body, State: m.state(), Draft: m.Draft,
		Base: m.Base, Branch: m.Branch, Head: m.Head, MergeSHA: m.MergeSHA, Comments: viewComments(r.commentsOn(m.Number)),
	}
	if m.Merged {
		v.State, v.MergedBy = "merged", m.MergedBy.Login
	}
	for _, x := range m.reviews {
		v.Reviews = append(v.Reviews, Review{ID: x.ID, Author: x.Author.Login, State: x.State, Body: x.Body, SHA: x.SHA})
	}
	return v
}

func viewComments(all []*comment) []Comment {
	var list []Comment
	for _, c := range all {
		v := Comment{ID: c.ID, Author: c.Author.Login, Body: c.Body, Created: c.Created, Updated: c.Updated}
		for _, x := range c.Reactions {
			v.Reactions = append(v.Reactions, Reaction{User: x.User.Login, Content: x.Content})
		}
		list = append(list, v)
	}
	return list
}

// MR reads one merge request with its reviews and comments.
func (h *Host) MR(repo string, number int) (v MR, err error) {
	err = h.with(repo, func(r *repository) error {
		m, err := r.mr(number)
		if err == nil {
			v = r.view(m)
		}
		return err
	})
	return v, err
}

// Comments lists the comments of a merge request or issue, oldest first.
func (h *Host) Comments(repo string, number int) (list []Comment, err error) {
	err = h.with(repo, func(r *repository) error {
		list = viewComments(r.commentsOn(number))
		return nil
	})
	return list, err
}

// Branch is the tip of a branch, "" when there is none.
func (h *Host) Branch(repo, branch string) (sha string, err error) {
	err = h.with(repo, func(r *repository) error {
		sha = r.branches[branch]
		return nil
	})
	return sha, err
}

// Log is the first-parent history of a branch, newest first.
func (h *Host) Log(repo, branch string) (list []Commit, err error) {
	err = h.with(repo, func(r *repository) error {
		sha := h.resolve(r, branch)
		if sha == "" {
			return refuse(refusedMissing, "no branch %q in %s", branch, repo)
		}
		for sha != "" {
			c, err := h.commitAt(r, sha)
			if err != nil {
				return err
			}
			subject, _, _ := strings.Cut(c.Message, "\n")
			list = append(list, Commit{SHA: c.SHA, Tree: c.Tree, Parents: slices.Clone(c.Parents), Subject: subject, Author: c.Author.Name})
			if sha = ""; len(c.Parents) > 0 {
				sha = c.Parents[0]
			}
		}
		return nil
	})
	return list, err
}

// Contains tells whether a branch's history holds a commit.
func (h *Host) Contains(repo, branch, sha string) (contains bool, err error) {
	err = h.with(repo, func(r *repository) error {
		missing, err := h.between(r, r.branches[branch], sha)
		contains = len(missing) == 0
		return err
	})
	return contains, err
}
