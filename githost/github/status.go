package github

import (
	"context"
	"fmt"
	"net/http"

	"github.com/google/go-github/v60/github"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost"
)

// ownStatus is the bot's status in the words that either form of it is written in.
type ownStatus struct {
	state       string // of a commit status
	status      string // of a check run
	conclusion  string // of a check run; empty until it is completed
	description string
	url         string
}

// SetCommitStatus writes the bot's status on a commit: an App as a check run, which only Apps may write; with a token as a commit status.
// What is there already is read first, so that writing the same again, or once more after a lost answer, changes nothing.
func (h *Host) SetCommitStatus(ctx context.Context, repo bot.Repository, sha string, status bot.CommitStatus) error {
	fail := func(err error) error {
		return fmt.Errorf("setting the status of %s at %s: %w", repo.Path, bot.ShortSHA(sha), err)
	}
	own := ownStatus{description: githost.Fit(githost.OneLine(status.Description, 1000), 140), url: status.URL}
	switch status.State {
	case bot.CheckPending:
		own.state, own.status = "pending", "in_progress"
	case bot.CheckSuccess:
		own.state, own.status, own.conclusion = "success", "completed", "success"
	case bot.CheckFailure:
		own.state, own.status, own.conclusion = "failure", "completed", "failure"
	}
	if own.state == "" || !isCommitID(sha) {
		return fail(fmt.Errorf("state %d on commit %q is not one that can be written", status.State, githost.OneLine(sha, 70)))
	}
	write := h.writeStatus
	if h.app != nil {
		write = h.writeCheckRun
	}
	if err := write(ctx, repo, sha, own); err != nil {
		return fail(err)
	}
	return nil
}

// writeStatus writes a commit status unless the newest of ours says the same.
func (h *Host) writeStatus(ctx context.Context, repo bot.Repository, sha string, own ownStatus) error {
	return h.call(ctx, repo, func(c *client, owner, name string) error {
		options := &github.ListOptions{PerPage: pageSize}
		for {
			page, resp, err := c.Repositories.GetCombinedStatus(ctx, owner, name, sha, options)
			if err != nil {
				return err
			}
			for _, s := range page.Statuses {
				if s.GetContext() == h.config.StatusContext && s.GetState() == own.state && s.GetDescription() == own.description && s.GetTargetURL() == own.url {
					return nil
				}
			}
			if options.Page = resp.NextPage; options.Page == 0 {
				break
			}
		}
		body := struct {
			State       string `json:"state"`
			Context     string `json:"context"`
			Description string `json:"description"`
			TargetURL   string `json:"target_url,omitempty"`
		}{own.state, h.config.StatusContext, own.description, own.url}
		req, err := c.NewRequest(http.MethodPost, fmt.Sprintf("repos/%s/%s/statuses/%s", owner, name, sha), body)
		if err != nil {
			return err
		}
		_, err = c.Do(ctx, req, nil)
		return err
	})
}

// writeCheckRun writes our check run. One that is completed is not set back: a new one of the same name takes its place.
func (h *Host) writeCheckRun(ctx context.Context, repo bot.Repository, sha string, own ownStatus) error {
	return h.call(ctx, repo, func(c *client, owner, name string) error {
		known, err := h.findCheckRun(ctx, c, owner, name, sha)
		if err != nil {
			return err
		}
		output := &github.CheckRunOutput{Title: &own.description, Summary: &own.description}
		if own.description == "" {
			output = nil // GitHub wants both texts or no output
		}
		switch {
		case known != nil && own.isWritten(known):
			return nil
		case known == nil, known.GetStatus() == "completed" && own.status != "completed":
			_, _, err = c.Checks.CreateCheckRun(ctx, owner, name, github.CreateCheckRunOptions{
				Name: h.config.StatusContext, HeadSHA: sha, DetailsURL: present(own.url), Status: &own.status, Conclusion: present(own.conclusion), Output: output,
			})
		default:
			_, _, err = c.Checks.UpdateCheckRun(ctx, owner, name, known.GetID(), github.UpdateCheckRunOptions{
				Name: h.config.StatusContext, DetailsURL: present(own.url), Status: &own.status, Conclusion: present(own.conclusion), Output: output,
			})
		}
		return err
	})
}

// findCheckRun finds the newest of our check runs on a commit; nil when there is none.
func (h *Host) findCheckRun(ctx context.Context, c *client, owner, name, sha string) (newest *github.CheckRun, err error) {
	latest := "latest"
	options := &github.ListCheckRunsOptions{
		CheckName: &h.config.StatusContext, AppID: &h.config.AppID, Filter: &latest, ListOptions: github.ListOptions{PerPage: pageSize},
	}
	for {
		page, resp, err := c.Checks.ListCheckRunsForRef(ctx, owner, name, sha, options)
		if err != nil {
			return nil, err
		}
		for _, run := range page.CheckRuns {
			// A host that ignores the filters must not make us overwrite somebody else's.
			if run.GetApp().GetID() == h.config.AppID && run.GetName() == h.config.StatusContext && run.GetID() >= newest.GetID() {
				newest = run
			}
		}
		if options.Page = resp.NextPage; options.Page == 0 {
			return newest, nil
		}
	}
}

// isWritten reports whether run says what own does. Without an address of ours GitHub shows its own.
func (own ownStatus) isWritten(run *github.CheckRun) bool {
	return run.GetStatus() == own.status && run.GetConclusion() == own.conclusion && run.GetOutput().GetTitle() == own.description &&
		(own.url == "" || run.GetDetailsURL() == own.url)
}

func present(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
