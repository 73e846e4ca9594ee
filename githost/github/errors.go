package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/bradleyfalzon/ghinstallation/v2"
	"github.com/google/go-github/v60/github"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost"
)

const appRefused = "GitHub refuses the App's own signature (401): check app_id, private_key and this machine's clock"

// meaning turns what a call returned into the core's words. Everything without a meaning of its own stays as it is: transient.
func meaning(err error) error {
	if err == nil {
		return nil
	}
	if limited, ok := errors.AsType[*bot.RateLimitedError](err); ok {
		return limited
	}
	// Only the token source returns these: it could not get a token at all.
	var token *ghinstallation.HTTPError
	if errors.As(err, &token) && token.Response != nil {
		switch token.Response.StatusCode {
		case http.StatusNotFound:
			return fmt.Errorf("installation %d is not of this App, or uninstalled: %w", token.InstallationID, bot.ErrGone)
		case http.StatusForbidden:
			return fmt.Errorf("installation %d is suspended: %w", token.InstallationID, bot.ErrGone)
		case http.StatusUnauthorized:
			return errors.New(appRefused)
		}
		return githost.Answered(token.Response.StatusCode, fmt.Errorf("asking for a token of installation %d: %s", token.InstallationID, token.Response.Status))
	}
	status, message := refusal(err)
	switch status {
	case http.StatusUnauthorized:
		return errors.New("GitHub refuses the credentials (401): the token is wrong, expired or revoked")
	case http.StatusNotFound:
		return bot.ErrNotFound
	case http.StatusForbidden:
		if lower := strings.ToLower(message); strings.Contains(lower, "archived") || strings.Contains(lower, "installation has been suspended") {
			return fmt.Errorf("%s: %w", message, bot.ErrGone)
		}
		return fmt.Errorf("%s: %w", message, bot.ErrForbidden)
	case http.StatusGone, http.StatusUnavailableForLegalReasons:
		return fmt.Errorf("%s: %w", message, bot.ErrGone)
	}
	if status != 0 {
		return githost.Answered(status, fmt.Errorf("GitHub answers %d: %s", status, message))
	}
	return err
}

// refusal returns the status and words of an answer that is an error; 0 when there was no answer.
func refusal(err error) (status int, message string) {
	var answer *github.ErrorResponse
	if !errors.As(err, &answer) || answer.Response == nil {
		return 0, ""
	}
	var words []string
	if answer.Message != "" {
		words = append(words, answer.Message)
	}
	for _, e := range answer.Errors {
		switch {
		case e.Message != "":
			words = append(words, e.Message)
		case e.Field != "" || e.Code != "":
			words = append(words, strings.TrimSpace(e.Field+" "+e.Code))
		}
	}
	if len(words) == 0 {
		words = append(words, http.StatusText(answer.Response.StatusCode))
	}
	return answer.Response.StatusCode, githost.OneLine(strings.Join(words, ": "), 500)
}

// moved is a repository whose stored path is out of date.
type moved struct{ from, to string }

// look is a look-up of a repository by its id.
type look struct {
	at   time.Time
	path string
	err  error
}

// call runs f on the repository where it is now, with the client that reaches it. A write that was redirected, or a "not found"
// that a rename would explain, has the repository looked up by its id and f run once more. f's errors need no meaning yet.
func (h *Host) call(ctx context.Context, repo bot.Repository, f func(c *client, owner, name string) error) error {
	path := h.pathOf(repo)
	err := h.callAt(ctx, repo, path, f)
	var redirected *githost.RedirectError
	if err == nil || (!errors.As(err, &redirected) && !errors.Is(err, bot.ErrNotFound)) {
		return err
	}
	found := h.relocate(ctx, repo, redirected != nil)
	switch {
	case errors.Is(found.err, bot.ErrGone):
		return found.err // nothing in it can be found any more
	case found.err != nil || found.path == "" || found.path == path:
		return err
	}
	h.log.Info("repository was renamed or moved", "repo", repo.Path, "now", found.path)
	return h.callAt(ctx, repo, found.path, f)
}

func (h *Host) callAt(ctx context.Context, repo bot.Repository, path string, f func(c *client, owner, name string) error) error {
	owner, name, err := splitPath(path)
	if err != nil {
		return err
	}
	for again := false; ; again = true {
		c, installation, err := h.clientFor(ctx, repo)
		if err != nil {
			return err
		}
		err = f(c, owner, name)
		if status, _ := refusal(err); status != http.StatusUnauthorized {
			return meaning(err)
		}
		// A token ends early when its installation changes or ends: asking for another says which. Nothing was done with this one.
		h.forget(installation)
		if h.app == nil || again {
			return meaning(err)
		}
	}
}

// pathOf returns where repo is, as far as known.
func (h *Host) pathOf(repo bot.Repository) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m, ok := h.moved[repo.ExternalID]; ok && m.from == repo.Path {
		return m.to
	}
	return repo.Path
}

// relocate looks a repository up by its id. Unless it must, it does so at most once a minute, because most things that are not
// found are simply not there.
func (h *Host) relocate(ctx context.Context, repo bot.Repository, must bool) look {
	if repo.ExternalID == 0 {
		return look{}
	}
	h.mu.Lock()
	last, ok := h.looked[repo.ExternalID]
	h.mu.Unlock()
	if ok && !must && time.Since(last.at) < time.Minute {
		return last
	}
	found, err := h.ReadRepository(ctx, repo)
	now := look{at: time.Now(), path: found.Path, err: err}
	if err == nil || errors.Is(err, bot.ErrGone) {
		h.mu.Lock()
		h.looked[repo.ExternalID] = now
		h.mu.Unlock()
	}
	return now
}

// notePath remembers where a repository is when its row says otherwise.
func (h *Host) notePath(repo bot.Repository, now string) {
	if repo.ExternalID == 0 || now == "" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if now == repo.Path {
		delete(h.moved, repo.ExternalID)
		return
	}
	h.moved[repo.ExternalID] = moved{from: repo.Path, to: now}
}
