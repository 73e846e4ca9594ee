package gitlab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/batchbot/batchbot/bot"
)

// HookSpec is the webhook a project should have.
type HookSpec struct {
	URL          string     // where deliveries go; it names the hook
	Secret       bot.Secret // sent in X-Gitlab-Token; empty: none, then SigningToken is needed
	SigningToken bot.Secret // signs deliveries on a GitLab that can; empty: none
}

// HookOutcome is what EnsureHook did.
type HookOutcome int

// The outcomes. The zero value is invalid.
const (
	HookCreated  HookOutcome = iota + 1
	HookRepaired             // something of it was not as it should be
	HookSet                  // it looked right; its secrets, which nobody can read, were set again
)

// HookResult says what became of a project's webhook.
type HookResult struct {
	ID      int64
	Outcome HookOutcome
	Mended  []string // what was not as it should be; empty unless HookRepaired
}

// hook is a webhook as GitLab shows it. It never shows secrets.
type hook struct {
	ID          int64  `json:"id"`
	URL         string `json:"url"`
	AlertStatus string `json:"alert_status"` // executable, temporarily_disabled or disabled
	hookSwitches
}

// hookSwitches are the settings that decide what is delivered, and whether safely.
type hookSwitches struct {
	Push              bool   `json:"push_events"`
	BranchFilter      string `json:"push_events_branch_filter"`
	MergeRequests     bool   `json:"merge_requests_events"`
	Notes             bool   `json:"note_events"`
	ConfidentialNotes bool   `json:"confidential_note_events"`
	Pipelines         bool   `json:"pipeline_events"`
	Verify            bool   `json:"enable_ssl_verification"`
	Template          string `json:"custom_webhook_template"`
}

// EnsureHook creates a project's webhook or mends the one that has the same address: its events, its secrets, and whether GitLab switched
// it off after failed deliveries. The token needs the role of a maintainer. Doing it twice does no harm.
func (h *Host) EnsureHook(ctx context.Context, repo bot.Repository, spec HookSpec) (HookResult, error) {
	fail := func(err error) (HookResult, error) {
		if errors.Is(err, bot.ErrForbidden) {
			err = fmt.Errorf("%w; its token needs the role of a maintainer", err)
		}
		return HookResult{}, fmt.Errorf("setting the webhook of %s: %w", repo.Path, err)
	}
	u, err := url.Parse(spec.URL)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.User != nil {
		return fail(errors.New("its address is not one: write it like https://batchbot.example.com/webhooks/gitlab"))
	}
	if strings.TrimSpace(spec.Secret.Reveal()) == "" && strings.TrimSpace(spec.SigningToken.Reveal()) == "" {
		return fail(errors.New("it would have no secret: anybody could send deliveries"))
	}
	var list []hook
	err = h.call(ctx, repo, func(project int) (err error) {
		list, err = listAll[hook](ctx, h.client, fmt.Sprintf("projects/%d/hooks", project), nil)
		return err
	})
	if err != nil {
		return fail(err)
	}
	want := hookSwitches{Push: true, MergeRequests: true, Notes: true, Pipelines: true, Verify: u.Scheme == "https"}
	body := struct {
		hookSwitches
		URL          string `json:"url"`
		Token        string `json:"token,omitempty"`
		SigningToken string `json:"signing_token,omitempty"`
	}{want, spec.URL, spec.Secret.Reveal(), spec.SigningToken.Reveal()}
	set := func(method, path string) (made hook, err error) {
		err = h.call(ctx, repo, func(project int) error {
			return h.client.send(ctx, method, fmt.Sprintf("projects/%d/hooks%s", project, path), body, &made)
		})
		return made, err
	}
	for _, found := range list {
		if found.URL != spec.URL {
			continue
		}
		if _, err := set(http.MethodPut, fmt.Sprintf("/%d", found.ID)); err != nil {
			return fail(err)
		}
		result := HookResult{ID: found.ID, Outcome: HookSet, Mended: found.unlike(want)}
		if found.AlertStatus != "" && found.AlertStatus != "executable" {
			result.Mended = append(result.Mended, "it was switched off ("+found.AlertStatus+")")
			h.wake(ctx, repo, found.ID)
		}
		if len(result.Mended) > 0 {
			result.Outcome = HookRepaired
		}
		return result, nil
	}
	made, err := set(http.MethodPost, "")
	if err != nil {
		return fail(err)
	}
	return HookResult{ID: made.ID, Outcome: HookCreated}, nil
}

// unlike lists the settings that differ from want.
func (s hookSwitches) unlike(want hookSwitches) (names []string) {
	for _, one := range []struct {
		name string
		same bool
	}{
		{"push events", s.Push == want.Push},
		{"the branch filter", s.BranchFilter == want.BranchFilter},
		{"merge request events", s.MergeRequests == want.MergeRequests},
		{"comment events", s.Notes == want.Notes},
		{"confidential comment events", s.ConfidentialNotes == want.ConfidentialNotes},
		{"pipeline events", s.Pipelines == want.Pipelines},
		{"SSL verification", s.Verify == want.Verify},
		{"the custom template", s.Template == want.Template},
	} {
		if !one.same {
			names = append(names, one.name)
		}
	}
	return names
}

// wake has GitLab send a test delivery: only one that succeeds switches a disabled hook on again. Best effort, because the bot may not be
// running yet.
func (h *Host) wake(ctx context.Context, repo bot.Repository, id int64) {
	err := h.call(ctx, repo, func(project int) error {
		return h.client.send(ctx, http.MethodPost, fmt.Sprintf("projects/%d/hooks/%d/test/push_events", project, id), nil, nil)
	})
	if err != nil {
		h.log.Warn("the test delivery that would switch the hook on again failed", "repo", repo.Path, "error", err)
	}
}
