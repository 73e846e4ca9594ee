package gitmerge

import (
	"context"
	"fmt"
	"strings"
)

// localRefs is where fetched references live in a mirror.
const localRefs = "refs/batchbot/"

// localRef is flat and of fixed length, whatever the remote's name is.
func localRef(name string) string { return localRefs + digest(name) }

// fetched is what one fetch found on the remote.
type fetched struct {
	tip   string            // of the target
	heads map[string]string // reference → commit; a reference that is gone is absent
}

// fetch brings the target branch and the named references with one git process. A missing target is bot.ErrNotFound; a missing head is
// no error.
func (m *mirror) fetch(ctx context.Context, from remote, target string, heads []string) (fetched, error) {
	lock, err := m.lock(ctx)
	if err != nil {
		return fetched{}, err
	}
	defer lock.release()

	branch := "refs/heads/" + target
	names := append([]string{branch}, heads...)
	var specs, locals strings.Builder
	for i, name := range names {
		// A reference named exactly would fail the whole fetch when it is gone. A pattern may match nothing, and asks the remote
		// for no more than names with this prefix. The target stays exact: main* could be hundreds of branches.
		star := "*"
		if i == 0 {
			star = ""
		}
		fmt.Fprintf(&specs, "+%s%s:%s%s\n", name, star, localRef(name), star)
		fmt.Fprintln(&locals, localRef(name))
	}
	c := call{
		args: []string{"fetch", "--quiet", "--prune", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules",
			"--no-auto-maintenance", "--no-show-forced-updates", "--stdin", "--end-of-options", from.url},
		stdin: specs.String(),
		hold:  lock.File,
	}
	got, err := m.over(ctx, from, c)
	if err != nil {
		return fetched{}, err
	}
	if got.code != 0 {
		return fetched{}, fmt.Errorf("fetching %s and %d heads: %w", target, len(heads), remoteFailure(c, got, from))
	}

	// Read under the same lock: the next fetch may move these references again.
	ids, err := m.objectNames(ctx, strings.Fields(locals.String()))
	if err != nil {
		return fetched{}, fmt.Errorf("reading what was fetched: %w", err)
	}
	result := fetched{tip: ids[0], heads: map[string]string{}}
	if result.tip == "" {
		return fetched{}, fmt.Errorf("fetching %s: it is not a commit", target)
	}
	for i, name := range heads {
		if id := ids[i+1]; id != "" {
			result.heads[name] = id
		}
	}
	return result, nil
}

// need brings commits by their ids unless the mirror has them already. Hosts serve a commit by its id as long as it is reachable there.
func (m *mirror) need(ctx context.Context, from remote, what, id string) error {
	ids, err := m.objectNames(ctx, []string{id})
	if err != nil || ids[0] != "" {
		return err
	}
	lock, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.release()
	c := call{
		args: []string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance",
			"--end-of-options", from.url, id},
		hold: lock.File,
	}
	got, err := m.over(ctx, from, c)
	if err != nil {
		return err
	}
	if got.code != 0 {
		return fmt.Errorf("fetching %s %s, which is neither in the mirror nor on a fetched branch: %w", what, id, remoteFailure(c, got, from))
	}
	return nil
}
