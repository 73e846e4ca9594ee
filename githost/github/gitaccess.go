package github

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/batchbot/batchbot/bot"
)

// gitTokenMargin is how long before its end a token is no longer handed out: what is begun with it may take that long.
const gitTokenMargin = 10 * time.Minute

// gitToken is an installation token for git in one repository.
type gitToken struct {
	installation int64
	value        string
	until        time.Time
}

// GitRemote returns where git finds a repository and the header that lets it in. For an App the token in it reaches this one
// repository and may do what git needs and nothing else. It lives an hour at most: ask again before every fetch and push.
func (h *Host) GitRemote(ctx context.Context, repo bot.Repository) (bot.GitRemote, error) {
	fail := func(err error) (bot.GitRemote, error) {
		return bot.GitRemote{}, fmt.Errorf("preparing git access to %s: %w", repo.Path, err)
	}
	remote := bot.GitRemote{Key: fmt.Sprintf("%s/%d", h.config.Name, repo.ExternalID)}
	var token string
	// A folder has nobody to authenticate to.
	if strings.HasPrefix(h.git, "https://") || strings.HasPrefix(h.git, "http://") {
		if _, _, err := splitPath(repo.Path); err != nil {
			return fail(err)
		}
		var err error
		if token, err = h.gitToken(ctx, repo); err != nil {
			return fail(err)
		}
		basic := base64.StdEncoding.EncodeToString([]byte("x-access-token:" + token))
		remote.Header = bot.Secret("Authorization: Basic " + basic)
	}
	// Last, because asking for a token tells where the repository is now.
	owner, name, err := splitPath(h.pathOf(repo))
	if err != nil {
		return fail(err)
	}
	remote.URL = fmt.Sprintf("%s/%s/%s.git", h.git, owner, name)
	return remote, nil
}

func (h *Host) gitToken(ctx context.Context, repo bot.Repository) (string, error) {
	c, installation, err := h.clientFor(ctx, repo)
	if err != nil {
		return "", err
	}
	if h.app == nil || repo.ExternalID == 0 {
		token, err := c.token(ctx)
		return token, meaning(err)
	}
	h.mu.Lock()
	known := h.gitTokens[repo.ExternalID]
	h.mu.Unlock()
	if known.installation == installation && time.Now().Before(known.until) {
		return known.value, nil
	}
	fresh, path, err := h.mintGitToken(ctx, installation, repo.ExternalID)
	if err != nil {
		return "", err
	}
	h.notePath(repo, path)
	h.mu.Lock()
	h.gitTokens[repo.ExternalID] = fresh
	h.mu.Unlock()
	return fresh.value, nil
}

// mintGitToken asks for a token narrowed to one repository and to contents, and workflows if the App has that permission there: without it
// GitHub takes no push that touches a workflow file. ghinstallation narrows only by another version's types (finding 9).
func (h *Host) mintGitToken(ctx context.Context, installation, repository int64) (token gitToken, path string, err error) {
	inst, _, err := h.app.Apps.GetInstallation(ctx, installation)
	if err != nil {
		return gitToken{}, "", tokenMeaning(err, installation)
	}
	if inst.SuspendedAt != nil {
		return gitToken{}, "", fmt.Errorf("installation %d is suspended: %w", installation, bot.ErrGone)
	}
	write, read := "write", "read"
	options := &github.InstallationTokenOptions{
		RepositoryIDs: []int64{repository},
		Permissions:   &github.InstallationPermissions{Contents: &write, Metadata: &read},
	}
	if inst.GetPermissions().GetWorkflows() == write {
		options.Permissions.Workflows = &write
	}
	minted, resp, err := h.app.Apps.CreateInstallationToken(ctx, installation, options)
	if err != nil {
		return gitToken{}, "", tokenMeaning(err, installation)
	}
	if minted.GetToken() == "" {
		return gitToken{}, "", fmt.Errorf("asking for a git token of installation %d: the answer holds none", installation)
	}
	for _, r := range minted.Repositories {
		if r.GetID() == repository {
			path = r.GetFullName()
		}
	}
	// By the host's clock, so that a skewed one here does no harm.
	now := time.Now()
	life := minted.GetExpiresAt().Sub(now)
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		life = minted.GetExpiresAt().Sub(date)
	}
	return gitToken{installation: installation, value: minted.GetToken(), until: now.Add(life - gitTokenMargin)}, path, nil
}

// tokenMeaning is what it means that the App itself is refused a token.
func tokenMeaning(err error, installation int64) error {
	status, words := refusal(err)
	switch {
	case status == http.StatusNotFound:
		return fmt.Errorf("installation %d is not of this App, or uninstalled: %w", installation, bot.ErrGone)
	case status == http.StatusForbidden && strings.Contains(words, "suspended"):
		return fmt.Errorf("installation %d is suspended: %w", installation, bot.ErrGone)
	case status == http.StatusUnprocessableEntity && strings.Contains(words, "permission"):
		return fmt.Errorf("%s: give the App contents: write and accept it on the account: %w", words, bot.ErrForbidden)
	case status == http.StatusUnprocessableEntity:
		return fmt.Errorf("installation %d does not reach the repository: %w", installation, bot.ErrGone)
	case status == http.StatusUnauthorized:
		return errors.New(appRefused)
	}
	return meaning(err)
}
