package bot

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// SaysWhatCIDoes reports whether a path is a definition of CI on one of the hosts, or a part of one.
func SaysWhatCIDoes(path string) bool {
	return strings.HasPrefix(path, ".github/workflows/") || strings.HasPrefix(path, ".github/actions/") ||
		strings.HasPrefix(path, ".gitlab/ci/") || path == ".gitlab-ci.yml" || strings.HasSuffix(path, "/.gitlab-ci.yml")
}

// ForkSource is what MarkFork asks of a host.
type ForkSource interface {
	GitAccess
	HeadRef(number int) string
}

// MarkFork fills ChangesCI of an open merge request that comes from a fork. In a batch its head runs with the repository's own secrets, so
// git is asked what it changes, at the very commit that was read, and what cannot be told counts as changing CI: the head moved meanwhile, or shares
// no history with its target. Other merge requests are left as they are.
func MarkFork(ctx context.Context, git Git, host ForkSource, repo Repository, mr *MRSnapshot) error {
	if !mr.FromFork || mr.State != MROpen {
		return nil
	}
	remote, err := host.GitRemote(ctx, repo)
	if err != nil {
		return fmt.Errorf("getting git access to %s: %w", repo.Path, err)
	}
	paths, known, err := git.ChangedPaths(ctx, remote, mr.Target, BuildMember{Number: mr.Number, HeadSHA: mr.HeadSHA, HeadRef: host.HeadRef(mr.Number)})
	if err != nil {
		return fmt.Errorf("asking what the fork's !%d changes: %w", mr.Number, err)
	}
	mr.ChangesCI = !known || slices.ContainsFunc(paths, SaysWhatCIDoes)
	return nil
}

// ApprovalSource is what ReadApprovals asks of a host.
type ApprovalSource interface {
	ForkSource
	ReadApprovals(ctx context.Context, repo Repository, number int) (Approvals, error)
}

// ReadApprovals reads who approved a merge request, and what else JudgeMR wants to know of it: see MarkFork.
func ReadApprovals(ctx context.Context, git Git, host ApprovalSource, repo Repository, mr *MRSnapshot) (Approvals, error) {
	approvals, err := host.ReadApprovals(ctx, repo, mr.Number)
	if err != nil {
		return Approvals{}, fmt.Errorf("reading the approvals of %s#%d: %w", repo.Path, mr.Number, err)
	}
	return approvals, MarkFork(ctx, git, host, repo, mr)
}
