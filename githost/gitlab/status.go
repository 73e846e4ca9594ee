package gitlab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost"
)

// longestDescription is the most GitLab keeps of a status's description, in characters.
const longestDescription = 255

// newStatus is a commit status to write.
type newStatus struct {
	State       string `json:"state"`
	Name        string `json:"name"`
	Description string `json:"description"`
	TargetURL   string `json:"target_url,omitempty"`
	Ref         string `json:"ref,omitempty"`
}

// SetCommitStatus writes the bot's status on a commit. GitLab keeps statuses in pipelines, and makes one of source "external" where there is
// none.
func (h *Host) SetCommitStatus(ctx context.Context, repo bot.Repository, sha string, status bot.CommitStatus) error {
	state := map[bot.CheckState]string{bot.CheckPending: "pending", bot.CheckSuccess: "success", bot.CheckFailure: "failed"}[status.State]
	fail := func(err error) error {
		return fmt.Errorf("setting the status of %s at %s: %w", repo.Path, bot.ShortSHA(sha), err)
	}
	if state == "" || !isCommitID(sha) {
		return fail(fmt.Errorf("state %d on commit %q is not one that can be written", status.State, githost.OneLine(sha, 70)))
	}
	body := newStatus{state, h.config.StatusContext, githost.Fit(githost.OneLine(status.Description, 1000), longestDescription), status.URL, ""}
	err := h.postStatus(ctx, repo, sha, body)
	if errors.Is(err, bot.ErrNotFound) {
		// No branch of the project holds it: it is the head of a fork. Its merge request's ref holds it.
		mrs, findErr := h.mrsAt(ctx, repo, sha, "")
		if findErr != nil {
			return fail(findErr)
		}
		if len(mrs) > 0 {
			body.Ref = h.HeadRef(mrs[0])
			err = h.postStatus(ctx, repo, sha, body)
		}
	}
	if err != nil {
		return fail(err)
	}
	return nil
}

// postStatus writes a status. A status that is pending cannot become pending: then it stands as it should.
func (h *Host) postStatus(ctx context.Context, repo bot.Repository, sha string, body newStatus) error {
	var raw error
	err := h.call(ctx, repo, func(project int) error {
		raw = h.client.send(ctx, http.MethodPost, fmt.Sprintf("projects/%d/statuses/%s", project, sha), body, nil)
		return raw
	})
	if status, message := refusal(raw); status == http.StatusBadRequest && strings.Contains(strings.ToLower(message), "cannot transition status") {
		return nil
	}
	return err
}
