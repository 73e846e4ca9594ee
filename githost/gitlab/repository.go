package gitlab

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"

	"github.com/xanzy/go-gitlab"

	"github.com/batchbot/batchbot/bot"
)

// largestFile is the most ReadFile reads.
const largestFile = 1 << 20

// project is what is used of a project. Settings a reader may not see are absent.
type project struct {
	ID                  int64   `json:"id"`
	Path                string  `json:"path_with_namespace"`
	DefaultBranch       string  `json:"default_branch"`
	Archived            bool    `json:"archived"`
	MarkedForDeletion   *string `json:"marked_for_deletion_at"`
	MergeMethod         string  `json:"merge_method"`  // merge, rebase_merge or ff
	SquashOption        string  `json:"squash_option"` // never, always, default_on or default_off
	MergeTrains         bool    `json:"merge_trains_enabled"`
	PipelineMustSucceed bool    `json:"only_allow_merge_if_pipeline_succeeds"`
}

func (h *Host) ref(p project) bot.RepositoryRef {
	return bot.RepositoryRef{Host: h.config.Name, ExternalID: p.ID, Path: p.Path, DefaultBranch: p.DefaultBranch}
}

// ListRepositories lists the projects the bot is a member of and may write to. Archived ones are left out.
func (h *Host) ListRepositories(ctx context.Context) ([]bot.RepositoryRef, error) {
	projects, err := listAll[project](ctx, h.client, "projects", url.Values{
		"membership": {"true"}, "archived": {"false"}, "min_access_level": {fmt.Sprint(int(gitlab.DeveloperPermissions))}, "order_by": {"id"}, "sort": {"asc"},
	})
	if err = meaning(err); err != nil {
		return nil, fmt.Errorf("listing the token's projects: %w", err)
	}
	var refs []bot.RepositoryRef
	for _, p := range projects {
		if !p.Archived && p.MarkedForDeletion == nil && p.ID > 0 {
			refs = append(refs, h.ref(p))
		}
	}
	return refs, nil
}

// ReadRepository reads a project by its id, which survives renames and moves, and remembers its path for later calls.
//
// Merge commits are allowed by every merge method: a fast-forward takes the batch's own as they are. Only squashing by force would land
// something else.
func (h *Host) ReadRepository(ctx context.Context, repo bot.Repository) (bot.HostRepository, error) {
	p, err := h.settings(ctx, repo)
	if err != nil {
		return bot.HostRepository{}, fmt.Errorf("reading repository %s (%d): %w", repo.Path, repo.ExternalID, err)
	}
	return bot.HostRepository{RepositoryRef: h.ref(p), Archived: p.Archived || p.MarkedForDeletion != nil, MergeCommits: p.SquashOption != "always"}, nil
}

// settings reads a project. It does not go through call, which asks it.
func (h *Host) settings(ctx context.Context, repo bot.Repository) (project, error) {
	var p project
	err := meaning(h.client.get(ctx, fmt.Sprintf("projects/%d", repo.ExternalID), &p))
	switch {
	case errors.Is(err, bot.ErrNotFound):
		err = fmt.Errorf("it is deleted, or no longer ours to see: %w", bot.ErrGone)
		h.note(repo.ExternalID, look{err: err})
		return project{}, err
	case err != nil:
		return project{}, err
	case p.ID != repo.ExternalID || p.Path == "":
		return project{}, errors.New("the answer is another project")
	}
	h.note(repo.ExternalID, look{path: p.Path, archived: p.Archived || p.MarkedForDeletion != nil})
	return p, nil
}

// ReadBranch returns the tip of a branch.
func (h *Host) ReadBranch(ctx context.Context, repo bot.Repository, branch string) (string, error) {
	var answer struct {
		Name   string `json:"name"`
		Commit struct {
			ID string `json:"id"`
		} `json:"commit"`
	}
	err := h.call(ctx, repo, func(project int) error {
		return h.client.get(ctx, fmt.Sprintf("projects/%d/repository/branches/%s", project, url.PathEscape(branch)), &answer)
	})
	if err == nil && (answer.Name != branch || !isCommitID(answer.Commit.ID)) {
		err = fmt.Errorf("the answer is about another branch: %w", bot.ErrNotFound)
	}
	if err != nil {
		return "", fmt.Errorf("reading branch %s of %s: %w", branch, repo.Path, err)
	}
	return answer.Commit.ID, nil
}

// ReadFile reads a file at the tip of a branch.
func (h *Host) ReadFile(ctx context.Context, repo bot.Repository, branch, path string) ([]byte, string, error) {
	fail := func(err error) ([]byte, string, error) {
		return nil, "", fmt.Errorf("reading %s at %s of %s: %w", path, branch, repo.Path, err)
	}
	var file *gitlab.File
	err := h.call(ctx, repo, func(project int) (err error) {
		// In full, because a tag may have the branch's name.
		file, _, err = h.client.RepositoryFiles.GetFile(project, path, &gitlab.GetFileOptions{Ref: gitlab.Ptr("refs/heads/" + branch)}, within(ctx)...)
		return err
	})
	switch {
	case err != nil:
		return fail(err)
	case file.Size > largestFile:
		return fail(fmt.Errorf("it has %d bytes: at most %d are read", file.Size, largestFile))
	case file.Encoding != "base64":
		return fail(fmt.Errorf("its encoding is %q, not base64", file.Encoding))
	}
	content, err := base64.StdEncoding.DecodeString(file.Content)
	if err != nil {
		return fail(err)
	}
	if len(content) > largestFile {
		return fail(fmt.Errorf("it has %d bytes: at most %d are read", len(content), largestFile))
	}
	return content, file.BlobID, nil
}

// MRMark is what people write before a number: "#" would be an issue.
func (h *Host) MRMark() string { return "!" }

// MRURL is where people see a merge request.
func (h *Host) MRURL(repo bot.Repository, number int) string {
	return fmt.Sprintf("%s/%s/-/merge_requests/%d", h.web, h.pathOf(repo), number)
}
