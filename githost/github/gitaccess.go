package github

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/batchbot/batchbot/bot"
)

// GitRemote returns where git finds a repository and the header that lets it in. The token in it lives an hour at most: ask again before every
// fetch and push.
func (h *Host) GitRemote(ctx context.Context, repo bot.Repository) (bot.GitRemote, error) {
	fail := func(err error) (bot.GitRemote, error) {
		return bot.GitRemote{}, fmt.Errorf("preparing git access to %s: %w", repo.Path, err)
	}
	path := h.pathOf(repo)
	owner, name, err := splitPath(path)
	if err != nil {
		return fail(err)
	}
	remote := bot.GitRemote{
		Key: fmt.Sprintf("%s/%d", h.config.Name, repo.ExternalID),
		URL: fmt.Sprintf("%s/%s/%s.git", h.git, owner, name),
	}
	if !strings.HasPrefix(h.git, "https://") && !strings.HasPrefix(h.git, "http://") {
		return remote, nil // a folder: nobody to authenticate to
	}
	c, _, err := h.clientFor(ctx, repo)
	if err != nil {
		return fail(err)
	}
	token, err := c.token(ctx)
	if err = meaning(err); err != nil {
		return fail(err)
	}
	basic := base64.StdEncoding.EncodeToString([]byte("x-access-token:" + token))
	remote.Header = bot.Secret("Authorization: Basic " + basic)
	return remote, nil
}
