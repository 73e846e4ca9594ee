package fakehost

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Client steers a host in another process by its control endpoints. What users
// do (comment, review, merge) goes over the host's ordinary API by their
// tokens; API is a short cut for that.
type Client struct {
	base   string
	http   *http.Client
	gitlab bool
}

// NewClient talks to the host at baseURL; a nil client means one
// that gives up on an answer after a minute.
func NewClient(baseURL string, client *http.Client) *Client {
	if client == nil {
		client = &http.Client{Timeout: time.Minute}
	}
	return &Client{base: strings.TrimSuffix(baseURL, "/"), http: client}
}

func (c *Client) control(ctx context.Context, path string, in, out any) error {
	return c.do(ctx, http.MethodPost, controlPrefix+path, "", in, out)
}

func (c *Client) do(ctx context.Context, method, path, token string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encoding the request to %s: %w", path, err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return fmt.Errorf("asking the host for %s: %w", path, err)
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("asking the host for %s: %w", path, err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return fmt.Errorf("reading the host's answer to %s: %w", path, err)
	}
	if res.StatusCode/100 != 2 {
		said := string(bytes.TrimSpace(answer))
		var refused struct{ Error, Message string }
		if json.Unmarshal(answer, &refused) == nil {
			said = cmp.Or(refused.Error, refused.Message, said)
		}
		return fmt.Errorf("%s %s: the host answered %s: %s", method, path, res.Status, said)
	}
	if out == nil || len(answer) == 0 {
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("decoding the host's answer to %s: %w", path, err)
	}
	return nil
}

// API calls a REST endpoint as a user, such as "POST", "/repos/o/r/issues/1/comments",
// or on a GitLab "/projects/o%2Fr/merge_requests/1/notes".
// out may be nil.
func (c *Client) API(ctx context.Context, login, method, path string, in, out any) error {
	root := "/api/v3"
	if c.gitlab {
		root = gitlabAPI
	}
	return c.do(ctx, method, root+path, login+"-token", in, out)
}

// AddRepository makes a repository.
func (c *Client) AddRepository(ctx context.Context, n NewRepository) error {
	return c.control(ctx, "repository", n, nil)
}

// AddUser makes a user with the token login+"-token".
func (c *Client) AddUser(ctx context.Context, login string) error {
	return c.control(ctx, "user", controlRequest{Login: login}, nil)
}

// SetPermission gives login a role in repo.
func (c *Client) SetPermission(ctx context.Context, repo, login, role string) error {
	return c.control(ctx, "permission", controlRequest{Repo: repo, Login: login, Role: role}, nil)
}

// SetRules replaces the rules of one branch.
func (c *Client) SetRules(ctx context.Context, repo, branch string, rules Rules) error {
	return c.control(ctx, "rules", controlRequest{Repo: repo, Branch: branch, Rules: rules}, nil)
}

// Commit pushes a commit to a branch and answers its id.
func (c *Client) Commit(ctx context.Context, p PushRequest) (string, error) {
	var out struct{ SHA string }
	err := c.control(ctx, "commit", p, &out)
	return out.SHA, err
}

// OpenMR opens a merge request and answers its number.
func (c *Client) OpenMR(ctx context.Context, repo string, n NewMR) (int, error) {
	var out struct{ Number int }
	err := c.control(ctx, "mr", controlRequest{Repo: repo, NewMR: n}, &out)
	return out.Number, err
}

// OpenIssue opens a plain issue and answers its number.
func (c *Client) OpenIssue(ctx context.Context, repo, author, title string) (int, error) {
	var out struct{ Number int }
	err := c.control(ctx, "issue", controlRequest{Repo: repo, Login: author, Title: title}, &out)
	return out.Number, err
}

// PushTo commits files on top of a merge request's head, as its author.
func (c *Client) PushTo(ctx context.Context, repo string, number int, files map[string]string) (string, error) {
	var out struct{ SHA string }
	err := c.control(ctx, "push", controlRequest{Repo: repo, Number: number, Files: files}, &out)
	return out.SHA, err
}

// SetDraft turns a merge request into a draft, or marks it ready, as login.
func (c *Client) SetDraft(ctx context.Context, repo string, number int, login string, draft bool) error {
	return c.control(ctx, "draft", controlRequest{Repo: repo, Number: number, Login: login, Draft: draft}, nil)
}

// SetBranch points branch at a commit as by a forced push of login; an empty
// sha deletes the branch.
func (c *Client) SetBranch(ctx context.Context, repo, branch, sha, login string) error {
	return c.control(ctx, "branch", controlRequest{Repo: repo, Branch: branch, SHA: sha, Login: login}, nil)
}

// SetInstalled puts the App on a repository or takes it off.
func (c *Client) SetInstalled(ctx context.Context, repo string, installed bool) error {
	return c.control(ctx, "installed", controlRequest{Repo: repo, Installed: installed}, nil)
}

// Comment writes a comment by its author's token and answers its id.
func (c *Client) Comment(ctx context.Context, repo string, number int, author, body string) (int64, error) {
	if c.gitlab {
		return c.gitLabComment(ctx, repo, number, author, body)
	}
	var out struct{ ID int64 }
	err := c.API(ctx, author, http.MethodPost, fmt.Sprintf("/repos/%s/issues/%d/comments", repo, number), object{"body": body}, &out)
	return out.ID, err
}

// Review submits a review by its author's token: Approved, ChangesRequested or
// Commented.
func (c *Client) Review(ctx context.Context, repo string, number int, author, state, body string) (int64, error) {
	if c.gitlab {
		return c.gitLabReview(ctx, repo, number, author, state, body)
	}
	verb := ""
	for v, s := range reviewStates {
		if s == state {
			verb = v
		}
	}
	var out struct{ ID int64 }
	err := c.API(ctx, author, http.MethodPost, fmt.Sprintf("/repos/%s/pulls/%d/reviews", repo, number), object{"event": verb, "body": body}, &out)
	return out.ID, err
}

// SetWebhook points webhooks at url, signed with secret.
func (c *Client) SetWebhook(ctx context.Context, url, secret string) error {
	return c.control(ctx, "webhook", controlRequest{URL: url, Secret: secret}, nil)
}

// SetCI replaces the CI configuration for runs started from now on.
func (c *Client) SetCI(ctx context.Context, ci CI) error { return c.control(ctx, "ci", ci, nil) }

// FinishCI ends the running CI runs on sha, or all when it is empty.
func (c *Client) FinishCI(ctx context.Context, sha string) (int, error) {
	var out struct{ Finished int }
	err := c.control(ctx, "finish-ci", controlRequest{SHA: sha}, &out)
	return out.Finished, err
}

// SetFaults makes webhooks go missing or come twice from now on.
func (c *Client) SetFaults(ctx context.Context, f Faults) error {
	return c.control(ctx, "faults", f, nil)
}

// SetPushRules replaces what a repository holds every push to.
func (c *Client) SetPushRules(ctx context.Context, repo string, rules PushRules) error {
	return c.control(ctx, "push-rules", controlRequest{Repo: repo, PushRules: rules}, nil)
}

// SetArchived makes a repository read-only, or usable again.
func (c *Client) SetArchived(ctx context.Context, repo string, archived bool) error {
	return c.control(ctx, "archived", controlRequest{Repo: repo, Archived: archived}, nil)
}

// Rename gives a repository another name under the same owner.
func (c *Client) Rename(ctx context.Context, repo, name string) error {
	return c.control(ctx, "rename", controlRequest{Repo: repo, Name: name}, nil)
}

// Transfer gives a repository to another owner.
func (c *Client) Transfer(ctx context.Context, repo, owner string) error {
	return c.control(ctx, "transfer", controlRequest{Repo: repo, Login: owner}, nil)
}

// Delete removes a repository for good.
func (c *Client) Delete(ctx context.Context, repo string) error {
	return c.control(ctx, "delete", controlRequest{Repo: repo}, nil)
}

// Suspend suspends or restores the App's installation on an account.
func (c *Client) Suspend(ctx context.Context, account string, suspended bool) error {
	return c.control(ctx, "suspended", controlRequest{Login: account, Suspended: suspended}, nil)
}

// SetAppPermission grants the App a permission, or takes it away with an empty level.
func (c *Client) SetAppPermission(ctx context.Context, permission, level string) error {
	return c.control(ctx, "app-permission", controlRequest{Name: permission, Level: level}, nil)
}

// Break makes calls and webhooks go wrong, besides the faults in force.
func (c *Client) Break(ctx context.Context, faults ...Fault) error {
	return c.control(ctx, "break", faults, nil)
}

// Heal ends all faults that Break made.
func (c *Client) Heal(ctx context.Context) error { return c.control(ctx, "heal", nil, nil) }

// Broken lists the faults with how often they struck.
func (c *Client) Broken(ctx context.Context) ([]Fault, error) {
	var out []Fault
	err := c.control(ctx, "broken", nil, &out)
	return out, err
}

// Deliveries lists every webhook emitted so far, without bodies.
func (c *Client) Deliveries(ctx context.Context) ([]Delivery, error) {
	var out []Delivery
	err := c.control(ctx, "deliveries", nil, &out)
	return out, err
}

// RedeliverAll queues every webhook emitted so far again and answers how many.
func (c *Client) RedeliverAll(ctx context.Context) (int, error) {
	var out struct{ Queued int }
	err := c.control(ctx, "redeliver", nil, &out)
	return out.Queued, err
}

// State dumps a repository.
func (c *Client) State(ctx context.Context, repo string) (State, error) {
	var out State
	err := c.control(ctx, "state", controlRequest{Repo: repo}, &out)
	return out, err
}
