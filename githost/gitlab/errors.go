package gitlab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/xanzy/go-gitlab"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost"
)

// meaning turns what a call returned into the core's words. Everything without a meaning of its own stays as it is: transient.
func meaning(err error) error {
	if err == nil {
		return nil
	}
	if limited, ok := errors.AsType[*bot.RateLimitedError](err); ok {
		return limited
	}
	switch status, message := refusal(err); status {
	case 0:
		return err
	case http.StatusUnauthorized:
		return fmt.Errorf("GitLab refuses the credentials (401): the token is wrong, expired or revoked, or lacks the scope api: %s", message)
	case http.StatusNotFound:
		return bot.ErrNotFound
	case http.StatusForbidden:
		return fmt.Errorf("%s: %w", message, bot.ErrForbidden)
	case http.StatusGone, http.StatusUnavailableForLegalReasons:
		return fmt.Errorf("%s: %w", message, bot.ErrGone)
	default:
		return githost.Answered(status, fmt.Errorf("GitLab answers %d: %s", status, message))
	}
}

// refusal returns the status and words of an answer that is an error; 0 when there was no answer.
func refusal(err error) (status int, message string) {
	if errors.Is(err, gitlab.ErrNotFound) { // its body is thrown away
		return http.StatusNotFound, "404 Not Found"
	}
	var answer *gitlab.ErrorResponse
	if !errors.As(err, &answer) || answer.Response == nil {
		return 0, ""
	}
	status = answer.Response.StatusCode
	if message = words(answer.Body); message == "" {
		message = strings.TrimSpace(fmt.Sprint(status, " ", http.StatusText(status)))
	}
	return status, message
}

// words are what an error's body says: {"message": …} with a text, a list or texts by field, or {"error": …}. A page of a proxy says nothing.
func words(body []byte) string {
	var answer struct {
		Message     any    `json:"message"`
		Error       any    `json:"error"`
		Description string `json:"error_description"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return ""
	}
	var said []string
	for _, part := range []any{answer.Message, answer.Error, answer.Description} {
		if s := flatten(part); s != "" {
			said = append(said, s)
		}
	}
	return githost.OneLine(strings.Join(said, ": "), 500)
}

func flatten(v any) string {
	var parts []string
	switch v := v.(type) {
	case string:
		return v
	case []any:
		for _, one := range v {
			parts = append(parts, flatten(one))
		}
	case map[string]any:
		for field, one := range v {
			parts = append(parts, strings.TrimSpace(strings.TrimPrefix(field, "base")+" "+flatten(one)))
		}
		slices.Sort(parts)
	}
	return strings.Join(parts, ", ")
}

// tolerate drops "not found" and "forbidden": none, none that we may see, or not in this edition of GitLab.
func tolerate(err error) error {
	if errors.Is(err, bot.ErrNotFound) || errors.Is(err, bot.ErrForbidden) {
		return nil
	}
	return err
}

// look is a look-up of a project by its id.
type look struct {
	at       time.Time
	path     string
	archived bool
	err      error
}

// call runs f on a project and gives its error a meaning. "Not found" and "forbidden" do not say of what, so then the project itself
// is looked up: it may be gone, or take no writes any more.
func (h *Host) call(ctx context.Context, repo bot.Repository, f func(project int) error) error {
	project := int(repo.ExternalID) // go-gitlab refuses an int64 when the call is made
	if project <= 0 || int64(project) != repo.ExternalID {
		return fmt.Errorf("%d is not the id of a GitLab project", repo.ExternalID)
	}
	err := meaning(f(project))
	forbidden := errors.Is(err, bot.ErrForbidden)
	if !forbidden && !errors.Is(err, bot.ErrNotFound) {
		return err
	}
	switch found := h.lookUp(ctx, repo); {
	case errors.Is(found.err, bot.ErrGone):
		return found.err
	case found.err == nil && found.archived && forbidden:
		return fmt.Errorf("%s is archived: %w", repo.Path, bot.ErrGone)
	case forbidden && h.expelled(ctx, project):
		return fmt.Errorf("the bot is no longer a member of %s: %w", repo.Path, bot.ErrGone)
	}
	return err
}

// expelled reports whether the bot is known to be no member of a project. A public project stays readable to whoever was one.
func (h *Host) expelled(ctx context.Context, project int) bool {
	var self struct {
		ID    int64 `json:"id"`
		Admin bool  `json:"is_admin"` // needs no membership
	}
	if h.client.get(ctx, "user", &self) != nil || self.ID <= 0 || self.Admin {
		return false
	}
	var member struct{}
	return errors.Is(meaning(h.client.get(ctx, fmt.Sprintf("projects/%d/members/all/%d", project, self.ID), &member)), bot.ErrNotFound)
}

// lookUp reads a project, at most once a minute: most things that are not found are simply not there, and GitLab limits how often a
// project may be read.
func (h *Host) lookUp(ctx context.Context, repo bot.Repository) look {
	h.mu.Lock()
	last, ok := h.looked[repo.ExternalID]
	h.mu.Unlock()
	if ok && time.Since(last.at) < time.Minute {
		return last
	}
	found, err := h.ReadRepository(ctx, repo)
	if err != nil && !errors.Is(err, bot.ErrGone) {
		return look{err: err}
	}
	return h.note(repo.ExternalID, look{path: found.Path, archived: found.Archived, err: err})
}

// note remembers what a project was last read as.
func (h *Host) note(project int64, l look) look {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.at = time.Now()
	h.looked[project] = l
	return l
}

// pathOf returns where a project is, as far as known without asking.
func (h *Host) pathOf(repo bot.Repository) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l, ok := h.looked[repo.ExternalID]; ok && l.path != "" {
		return l.path
	}
	return repo.Path
}
