package fakehost

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
)

// GitLab answers a client for a host whose face is GitLab: what users do goes
// over its API instead of GitHub's.
func (c *Client) GitLab() *Client {
	lab := *c
	lab.gitlab = true
	return &lab
}

// gitLabMR is the API path of a merge request's part.
func gitLabMR(repo string, number int, part string) string {
	return fmt.Sprintf("/projects/%s/merge_requests/%d/%s", url.PathEscape(repo), number, part)
}

func (c *Client) gitLabComment(ctx context.Context, repo string, number int, author, body string) (int64, error) {
	var out struct{ ID int64 }
	err := c.API(ctx, author, http.MethodPost, gitLabMR(repo, number, "notes"), object{"body": body}, &out)
	return out.ID, err
}

// gitLabReview gives an opinion as a GitLab knows it: an approval, its words in a
// note beside it. The id is the note's, 0 without one.
func (c *Client) gitLabReview(ctx context.Context, repo string, number int, author, state, body string) (int64, error) {
	switch state {
	case Approved:
		if err := c.API(ctx, author, http.MethodPost, gitLabMR(repo, number, "approve"), object{}, nil); err != nil {
			return 0, err
		}
	case Commented:
	default:
		return 0, fmt.Errorf("a GitLab's API takes no review that says %s", state)
	}
	if body == "" {
		return 0, nil
	}
	return c.gitLabComment(ctx, repo, number, author, body)
}

// labRequest is the body of the control calls only a GitLab has.
type labRequest struct {
	Repo       string     `json:"repo"`
	Number     int        `json:"number"`
	Branch     string     `json:"branch"`
	Status     string     `json:"status"`
	Project    Project    `json:"project"`
	Protection Protection `json:"protection"`
	GitLab     GitLab     `json:"gitlab"`
}

// labControls are the control calls only a GitLab has.
func (h *Host) labControls() map[string]func(labRequest) (any, error) {
	return map[string]func(labRequest) (any, error){
		"gitlab":       func(in labRequest) (any, error) { h.SetGitLab(in.GitLab); return object{}, nil },
		"project":      func(in labRequest) (any, error) { return object{}, h.SetProject(in.Repo, in.Project) },
		"protect":      func(in labRequest) (any, error) { return object{}, h.Protect(in.Repo, in.Branch, in.Protection) },
		"delete-fork":  func(in labRequest) (any, error) { return object{}, h.DeleteFork(in.Repo, in.Number) },
		"merge-status": func(in labRequest) (any, error) { return object{}, h.SetMergeStatus(in.Repo, in.Number, in.Status) },
		"jobs": func(labRequest) (any, error) {
			n, err := h.RunJobs()
			return object{"done": n}, err
		},
	}
}

// SetGitLab replaces how a GitLab behaves from now on, but for its signing
// token, which goes over no wire.
func (c *Client) SetGitLab(ctx context.Context, set GitLab) error {
	return c.control(ctx, "gitlab", labRequest{GitLab: set}, nil)
}

// SetProject replaces the merge settings of a project on a GitLab.
func (c *Client) SetProject(ctx context.Context, repo string, p Project) error {
	return c.control(ctx, "project", labRequest{Repo: repo, Project: p}, nil)
}

// Protect protects a branch on a GitLab.
func (c *Client) Protect(ctx context.Context, repo, branch string, p Protection) error {
	return c.control(ctx, "protect", labRequest{Repo: repo, Branch: branch, Protection: p}, nil)
}

// DeleteFork removes the fork a merge request came from.
func (c *Client) DeleteFork(ctx context.Context, repo string, number int) error {
	return c.control(ctx, "delete-fork", labRequest{Repo: repo, Number: number}, nil)
}

// SetMergeStatus fixes the detailed_merge_status of an open merge request.
func (c *Client) SetMergeStatus(ctx context.Context, repo string, number int, status string) error {
	return c.control(ctx, "merge-status", labRequest{Repo: repo, Number: number, Status: status}, nil)
}

// RunJobs does what a GitLab has yet to do in the background and answers how
// much that was.
func (c *Client) RunJobs(ctx context.Context) (int, error) {
	var out struct{ Done int }
	err := c.control(ctx, "jobs", labRequest{}, &out)
	return out.Done, err
}
