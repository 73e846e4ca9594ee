package github

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/google/go-github/v60/github"

	"github.com/batchbot/batchbot/bot"
)

// largestFile is the most ReadFile reads.
const largestFile = 1 << 20

// ListRepositories lists what the App is installed on, or what the token may push to. Archived ones are left out.
func (h *Host) ListRepositories(ctx context.Context) ([]bot.RepositoryRef, error) {
	if h.app == nil {
		refs, err := h.tokenRepositories(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing the token's repositories: %w", err)
		}
		return refs, nil
	}
	var refs []bot.RepositoryRef
	options := &github.ListOptions{PerPage: pageSize}
	for {
		page, resp, err := h.app.Apps.ListInstallations(ctx, options)
		if err = meaning(err); err != nil {
			return nil, fmt.Errorf("listing the installations of App %d: %w", h.config.AppID, err)
		}
		for _, inst := range page {
			if inst.SuspendedAt != nil {
				continue
			}
			found, err := h.installationRepositories(ctx, inst.GetID())
			if errors.Is(err, bot.ErrGone) {
				continue // uninstalled or suspended since the list was made
			}
			if err != nil {
				return nil, fmt.Errorf("listing the repositories of installation %d: %w", inst.GetID(), err)
			}
			refs = append(refs, found...)
		}
		if options.Page = resp.NextPage; options.Page == 0 {
			return refs, nil
		}
	}
}

func (h *Host) installationRepositories(ctx context.Context, id int64) ([]bot.RepositoryRef, error) {
	c, err := h.installation(id)
	if err != nil {
		return nil, err
	}
	var refs []bot.RepositoryRef
	options := &github.ListOptions{PerPage: pageSize}
	for {
		page, resp, err := c.Apps.ListRepos(ctx, options)
		if err != nil {
			return nil, meaning(err)
		}
		for _, r := range page.Repositories {
			if !r.GetArchived() {
				refs = append(refs, h.repositoryRef(r, id))
			}
		}
		if options.Page = resp.NextPage; options.Page == 0 {
			return refs, nil
		}
	}
}

func (h *Host) tokenRepositories(ctx context.Context) ([]bot.RepositoryRef, error) {
	c, err := h.installation(0)
	if err != nil {
		return nil, err
	}
	var refs []bot.RepositoryRef
	options := &github.RepositoryListByAuthenticatedUserOptions{ListOptions: github.ListOptions{PerPage: pageSize}}
	for {
		page, resp, err := c.Repositories.ListByAuthenticatedUser(ctx, options)
		if err != nil {
			return nil, meaning(err)
		}
		for _, r := range page {
			if r.GetPermissions()["push"] && !r.GetArchived() {
				refs = append(refs, h.repositoryRef(r, 0))
			}
		}
		if options.Page = resp.NextPage; options.Page == 0 {
			return refs, nil
		}
	}
}

func (h *Host) repositoryRef(r *github.Repository, installation int64) bot.RepositoryRef {
	return bot.RepositoryRef{
		Host:          h.config.Name,
		ExternalID:    r.GetID(),
		Path:          r.GetFullName(),
		Installation:  installation,
		DefaultBranch: r.GetDefaultBranch(),
	}
}

// ReadRepository reads a repository by its id, which survives renames and transfers, and remembers its path for later calls.
func (h *Host) ReadRepository(ctx context.Context, repo bot.Repository) (bot.HostRepository, error) {
	fail := func(err error) (bot.HostRepository, error) {
		return bot.HostRepository{}, fmt.Errorf("reading repository %s (%d): %w", repo.Path, repo.ExternalID, err)
	}
	var found *github.Repository
	err := h.callAt(ctx, repo, h.pathOf(repo), func(c *client, _, _ string) (err error) {
		found, _, err = c.Repositories.GetByID(ctx, repo.ExternalID)
		return err
	})
	if errors.Is(err, bot.ErrNotFound) {
		return fail(fmt.Errorf("it is deleted, or no longer ours to see: %w", bot.ErrGone))
	}
	if err != nil {
		return fail(err)
	}
	if found.GetID() != repo.ExternalID {
		return fail(errors.New("the answer is another repository"))
	}
	h.notePath(repo, found.GetFullName())
	_, installation, err := h.clientFor(ctx, repo)
	if err != nil {
		return fail(err)
	}
	return bot.HostRepository{
		RepositoryRef: h.repositoryRef(found, installation),
		Archived:      found.GetArchived() || found.GetDisabled(),
		// Shown only to those who may push; then it is what the host enforces anyway.
		MergeCommits: found.AllowMergeCommit == nil || *found.AllowMergeCommit,
	}, nil
}

// ReadBranch returns the tip of a branch. It reads the ref, not the branch: a renamed branch redirects, and that is another branch.
func (h *Host) ReadBranch(ctx context.Context, repo bot.Repository, branch string) (string, error) {
	var ref struct {
		Ref    string `json:"ref"`
		Object struct {
			SHA string `json:"sha"`
		} `json:"object"`
	}
	err := h.call(ctx, repo, func(c *client, owner, name string) error {
		return c.get(ctx, fmt.Sprintf("repos/%s/%s/git/ref/heads/%s", owner, name, escapePath(branch)), &ref)
	})
	if err == nil && (ref.Ref != "refs/heads/"+branch || !isCommitID(ref.Object.SHA)) {
		err = fmt.Errorf("the answer is about another ref: %w", bot.ErrNotFound)
	}
	if err != nil {
		return "", fmt.Errorf("reading branch %s of %s: %w", branch, repo.Path, err)
	}
	return ref.Object.SHA, nil
}

// ReadFile reads a file at the tip of a branch.
func (h *Host) ReadFile(ctx context.Context, repo bot.Repository, branch, path string) ([]byte, string, error) {
	fail := func(err error) ([]byte, string, error) {
		return nil, "", fmt.Errorf("reading %s at %s of %s: %w", path, branch, repo.Path, err)
	}
	var file *github.RepositoryContent
	err := h.call(ctx, repo, func(c *client, owner, name string) (err error) {
		// In full, because a tag may have the branch's name.
		file, _, _, err = c.Repositories.GetContents(ctx, owner, name, path, &github.RepositoryContentGetOptions{Ref: "refs/heads/" + branch})
		return err
	})
	switch {
	case err != nil:
		return fail(err)
	case file == nil || file.GetType() != "file":
		return fail(fmt.Errorf("it is not a file: %w", bot.ErrNotFound))
	case file.GetSize() > largestFile:
		return fail(fmt.Errorf("it has %d bytes: at most %d are read", file.GetSize(), largestFile))
	}
	content, err := file.GetContent()
	if err != nil {
		return fail(err)
	}
	return []byte(content), file.GetSHA(), nil
}

// MRMark is what people write before a number.
func (h *Host) MRMark() string { return "#" }

// MRURL is where people see a pull request.
func (h *Host) MRURL(repo bot.Repository, number int) string {
	return fmt.Sprintf("%s/%s/pull/%d", h.web, h.pathOf(repo), number)
}

// escapePath escapes each segment of a branch name or file path, keeping the slashes.
func escapePath(s string) string {
	parts := strings.Split(s, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}
