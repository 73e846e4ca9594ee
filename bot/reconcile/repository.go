package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/batchbot/batchbot/bot"
)

// unknown finds repositories that a host gives access to and that have no active row.
func (f *finder) unknown(ctx context.Context, name string, active []bot.Repository) {
	host := f.config.Hosts[name]
	refs, err := host.ListRepositories(ctx)
	if err != nil {
		f.fails(fmt.Errorf("listing the repositories of %s: %w", name, err))
		return
	}
	for _, ref := range refs {
		if slices.ContainsFunc(active, func(r bot.Repository) bool { return r.ExternalID == ref.ExternalID }) {
			continue
		}
		repo := bot.Repository{RepositoryRef: ref}
		now, err := host.ReadRepository(ctx, repo)
		if errors.Is(err, bot.ErrGone) || errors.Is(err, bot.ErrNotFound) || err == nil && now.Archived {
			continue // listed, and yet of no use
		}
		if f.fails(err) {
			continue
		}
		d := about(RepositoryUnknown, repo)
		d.Rows, d.Found, d.Remedy = "not active", "the bot has access", "its row is made; its queues open again if they were parked for want of access"
		f.refresh(d, repo)
	}
}

// refresh adds a difference that is mended by reading the repository.
func (f *finder) refresh(d Difference, repo bot.Repository) {
	d.task = fmt.Sprintf("repository %s %d", repo.Host, repo.ExternalID)
	d.mend = func(ctx context.Context, _ Actor) error { return f.config.Applier.RefreshRepository(ctx, repo) }
	f.add(d)
}

// repository compares the row of a repository; ended: nothing else can be read of it.
func (f *finder) repository(ctx context.Context, host bot.Host, repo bot.Repository) (ended bool, err error) {
	now, err := host.ReadRepository(ctx, repo)
	switch {
	case errors.Is(err, bot.ErrGone), errors.Is(err, bot.ErrNotFound):
		d := about(RepositoryGone, repo)
		d.Rows, d.Found, d.Remedy = "active", "the bot has no access any more", "its row ends and its queues park; install the app there again to go on"
		f.refresh(d, repo)
		return true, nil
	case err != nil:
		return false, fmt.Errorf("reading repository %s: %w", repo.Path, err)
	case now.Archived:
		d := about(RepositoryGone, repo)
		d.Rows, d.Found, d.Remedy = "active", "archived", "its row ends and its queues park; unarchive it to go on"
		f.refresh(d, repo)
		return true, nil
	}
	for _, part := range []struct{ what, rows, host string }{
		{"path", repo.Path, now.Path},
		{"default branch", repo.DefaultBranch, now.DefaultBranch},
		{"installation", id(repo.Installation), id(now.Installation)},
	} {
		if part.host == "" || part.host == part.rows {
			continue
		}
		d := about(RepositoryMoved, repo)
		d.Rows, d.Found, d.Remedy = part.what+" "+part.rows, part.what+" "+part.host, "its row is refreshed"
		f.refresh(d, repo)
	}
	return false, nil
}

func id(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}
