package gitmerge

import (
	"context"
	"fmt"
	"strings"
)

// newcomers holds the commits that are reachable from some heads and not from a base: commit → parents.
type newcomers map[string][]string

// newcomers asks with one process, however many heads there are. The base and all heads are in the mirror.
func (m *mirror) newcomers(ctx context.Context, base string, heads []string) (newcomers, error) {
	news := newcomers{}
	if len(heads) == 0 {
		return news, nil
	}
	got, err := m.local(ctx, call{
		args:  []string{"rev-list", "--parents", "--stdin"},
		stdin: "^" + base + "\n" + strings.Join(heads, "\n") + "\n",
	})
	if err != nil {
		return nil, fmt.Errorf("listing the commits that are not in %s: %w", base, err)
	}
	for line := range strings.Lines(string(got.stdout)) {
		commit, parents, _ := strings.Cut(strings.TrimSpace(line), " ")
		news[commit] = strings.Fields(parents)
	}
	return news, nil
}

// contained reports whether the base contains head.
func (n newcomers) contained(head string) bool {
	_, new := n[head]
	return !new
}

// of returns the newcomers that head brings, and whether they grow out of the base's history: a member whose commits all end in roots
// of their own shares nothing with the base.
func (n newcomers) of(head string) (commits []string, related bool) {
	seen := map[string]bool{head: true}
	commits = []string{head}
	for i := 0; i < len(commits); i++ {
		for _, parent := range n[commits[i]] {
			if n.contained(parent) {
				related = true
			} else if !seen[parent] {
				seen[parent] = true
				commits = append(commits, parent)
			}
		}
	}
	return commits, related
}
