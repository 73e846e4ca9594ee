package gitmerge

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/batchbot/batchbot/bot"
)

// ChangedPaths implements bot.Git. A target that is gone is bot.ErrNotFound.
func (m *Merger) ChangedPaths(ctx context.Context, from bot.GitRemote, target string, member bot.BuildMember) (paths []string, known bool, err error) {
	mirror, to, err := m.open(from)
	if err == nil {
		err = errors.Join(checkBranch("the target branch", target), checkRef("the head reference", member.HeadRef), checkObjectID("the head", member.HeadSHA))
	}
	if err == nil {
		err = mirror.repaired(ctx, func() error {
			paths, known = nil, false
			found, err := mirror.fetch(ctx, to, target, []string{member.HeadRef})
			if err != nil || found.heads[member.HeadRef] != member.HeadSHA {
				return err
			}
			paths, known, err = mirror.changedPaths(ctx, found.tip, member.HeadSHA)
			return err
		})
	}
	if err != nil {
		return nil, false, fmt.Errorf("listing what %s changes: %w", member.HeadSHA, err)
	}
	return paths, known, nil
}

// changedPaths lists the paths that head changes since its history left the base's. Both are in the mirror. known is false when they
// share no history. Where both have merged each other there are several places where it left, for which diff-tree fails; any of them is in the base
// and does.
func (m *mirror) changedPaths(ctx context.Context, base, head string) (paths []string, known bool, err error) {
	c := call{args: []string{"merge-base", base, head}}
	got, err := m.git.run(ctx, c)
	switch {
	case err != nil:
		return nil, false, err
	case got.code == 1:
		return nil, false, nil
	case got.code != 0:
		return nil, false, failure(c, got, "")
	}
	left := strings.TrimSpace(string(got.stdout))
	c = call{args: []string{"diff-tree", "-r", "-z", "--name-only", "--no-renames", left, head}}
	got, err = m.git.run(ctx, c)
	switch {
	case err != nil:
		return nil, false, err
	case got.code != 0:
		return nil, false, failure(c, got, "")
	}
	return strings.FieldsFunc(string(got.stdout), func(r rune) bool { return r == 0 }), true, nil
}
