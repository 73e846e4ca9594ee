package github

import (
	"context"
	"fmt"
	"net/http"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost"
)

// SetCommitStatus writes the bot's status on a commit. Unlike a check run it may be written with a token as well as by an App.
func (h *Host) SetCommitStatus(ctx context.Context, repo bot.Repository, sha string, status bot.CommitStatus) error {
	state := map[bot.CheckState]string{bot.CheckPending: "pending", bot.CheckSuccess: "success", bot.CheckFailure: "failure"}[status.State]
	fail := func(err error) error {
		return fmt.Errorf("setting the status of %s at %s: %w", repo.Path, bot.ShortSHA(sha), err)
	}
	if state == "" || !isCommitID(sha) {
		return fail(fmt.Errorf("state %d on commit %q is not one that can be written", status.State, githost.OneLine(sha, 70)))
	}
	body := struct {
		State       string `json:"state"`
		Context     string `json:"context"`
		Description string `json:"description"`
		TargetURL   string `json:"target_url,omitempty"`
	}{state, h.config.StatusContext, githost.Fit(githost.OneLine(status.Description, 1000), 140), status.URL}
	err := h.call(ctx, repo, func(c *client, owner, name string) error {
		req, err := c.NewRequest(http.MethodPost, fmt.Sprintf("repos/%s/%s/statuses/%s", owner, name, sha), body)
		if err != nil {
			return err
		}
		_, err = c.Do(ctx, req, nil)
		return err
	})
	if err != nil {
		return fail(err)
	}
	return nil
}
