package explore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/mutant"
)

// repository is a graph with references, as a host keeps it.
type repository struct {
	*graph
	refs map[string]string // full name → commit
	// accept is asked before a reference moves; words refuse it, and an error is a remote that does not answer.
	accept func(ref, from, to string, force bool) (words string, err error)
	moved  func(ref, from, to string)
}

func newRepository() *repository {
	return &repository{graph: newGraph(), refs: make(map[string]string)}
}

func heads(branch string) string { return "refs/heads/" + branch }

// at is where a reference stands, nil if there is none.
func (r *repository) at(ref string) *commit { return r.commits[r.refs[ref]] }

// move lets a reference stand elsewhere; to empty deletes it.
func (r *repository) move(ref, to string) {
	from := r.refs[ref]
	if to == "" {
		delete(r.refs, ref)
	} else {
		r.refs[ref] = to
	}
	if r.moved != nil && from != to {
		r.moved(ref, from, to)
	}
}

// builder is bot.Git on a repository in memory: what gitmerge does with git, by the same rules.
type builder struct{ *repository }

var _ bot.Git = builder{}

const identity = "batchbot <batchbot@noreply.invalid>"

type build struct {
	builder
	result bot.BuildResult
	closed bool
}

// Build implements bot.Git.
func (b builder) Build(_ context.Context, _ bot.GitRemote, spec bot.BuildSpec) (bot.Build, error) {
	target := b.at(heads(spec.Target))
	if target == nil {
		return nil, fmt.Errorf("the target %s: %w", spec.Target, bot.ErrNotFound)
	}
	base := target
	if spec.Base != "" {
		if base = b.commits[spec.Base]; base == nil {
			return nil, fmt.Errorf("the base %s is nowhere", spec.Base)
		}
	}
	line := &mergeLine{builder: b, spec: spec, base: base, tip: base}
	result := bot.BuildResult{BaseSHA: base.id}
	for _, m := range spec.Members {
		fate := bot.MemberBuild{BuildMember: m}
		if stands := b.refs[m.HeadRef]; stands != m.HeadSHA {
			fate.Fate, fate.FoundSHA = bot.FateMoved, stands
		} else {
			line.add(&fate)
		}
		result.Members = append(result.Members, fate)
	}
	result.HeadSHA, result.TreeSHA = line.tip.id, line.tip.tree
	return &build{builder: b, result: result}, nil
}

// mergeLine is the history of a batch as it grows.
type mergeLine struct {
	builder
	spec   bot.BuildSpec
	base   *commit
	tip    *commit
	aboard set // commits that merged members brought
}

func (l *mergeLine) add(m *bot.MemberBuild) {
	head := l.commits[m.HeadSHA]
	switch {
	case l.base.contains(head):
		m.Fate = bot.FateContained
		return
	case !head.past.meets(l.base.past):
		m.Fate = bot.FateUnrelated
		return
	}
	brings := head.past.minus(l.base.past)
	past := l.base.past
	if brings.meets(l.aboard) {
		past = l.tip.past
	}
	merged, conflicts := l.merge(l.tip.files, past, head.files, head.past)
	if len(conflicts) > 0 {
		m.Fate, m.Files = bot.FateConflict, conflicts
		if l.tip == l.base {
			return
		}
		if _, alone := l.merge(l.base.files, l.base.past, head.files, head.past); len(alone) > 0 {
			m.Files = alone
		} else {
			m.Fate = bot.FateConflictBatch
		}
		return
	}
	message := fmt.Sprintf("Merge #%d: %s\n\nBatch: %d-%s\n", m.Number, m.Title, l.spec.BatchID, l.spec.Token)
	l.tip = l.commit(merged, identity, l.spec.CreatedAt, message, l.tip, head)
	l.aboard = l.aboard.with(brings)
	m.Fate, m.MergeCommit = bot.FateMerged, l.tip.id
}

// Result implements bot.Build.
func (b *build) Result() bot.BuildResult { return b.result }

// Close implements bot.Build.
func (b *build) Close() error {
	b.closed = true
	return nil
}

// Push implements bot.Build.
func (b *build) Push(_ context.Context, branch string, known []string) (bot.PushOutcome, error) {
	return b.push(branch, b.result.HeadSHA, known)
}

// PushBase implements bot.Build.
func (b *build) PushBase(_ context.Context, branch string, known []string) (bot.PushOutcome, error) {
	return b.push(branch, b.result.BaseSHA, known)
}

func (b *build) push(branch, to string, known []string) (bot.PushOutcome, error) {
	if b.closed {
		return bot.PushOutcome{}, errors.New("the build is closed")
	}
	return b.moveBranch(branch, to, append([]string{""}, known...), true)
}

// Contribution implements bot.Build.
func (b *build) Contribution(_ context.Context, m bot.BuildMember) (bot.Contribution, error) {
	base, head := b.commits[b.result.BaseSHA], b.commits[m.HeadSHA]
	var brings bot.Contribution
	head.past.minus(base.past).each(func(i int) bool {
		brings.Commits = append(brings.Commits, b.ordered[i].id)
		return true
	})
	brings.Files, _ = b.changed(base, head)
	return brings, nil
}

// changed lists the paths that head changes since its history left the base's; known false: they share none.
func (b builder) changed(base, head *commit) (paths []string, known bool) {
	from := b.bases(base.past, head.past)
	if len(from) == 0 {
		return nil, false
	}
	all := maps.Clone(from[0].files)
	maps.Copy(all, head.files)
	for path := range all {
		if from[0].files[path] != head.files[path] {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths, true
}

// moveBranch moves a branch that stands at one of from; force: also where that is no way forwards.
func (b builder) moveBranch(branch, to string, from []string, force bool) (bot.PushOutcome, error) {
	ref := heads(branch)
	found := b.refs[ref]
	switch {
	case found == to:
		return bot.PushOutcome{Result: bot.PushDone}, nil
	case !slices.Contains(from, found):
		return bot.PushOutcome{Result: bot.PushForeign, Found: found}, nil
	}
	if b.accept != nil {
		words, err := b.accept(ref, found, to, force)
		switch {
		case err != nil:
			return bot.PushOutcome{}, err
		case words != "":
			return bot.PushOutcome{Result: bot.PushRefused, Message: words}, nil
		}
	}
	b.move(ref, to)
	return bot.PushOutcome{Result: bot.PushDone}, nil
}

// FastForward implements bot.Git.
func (b builder) FastForward(_ context.Context, _ bot.GitRemote, target, base, head string) (bot.PushOutcome, error) {
	found := b.refs[heads(target)]
	switch {
	case found == "":
		return bot.PushOutcome{}, fmt.Errorf("the target %s: %w", target, bot.ErrNotFound)
	case found == head:
		return bot.PushOutcome{Result: bot.PushDone}, nil
	case mutant.Is(mutant.OnlyForward):
		b.move(heads(target), head)
		return bot.PushOutcome{Result: bot.PushDone}, nil
	case found != base:
		return bot.PushOutcome{Result: bot.PushForeign, Found: found}, nil
	case b.commits[head] == nil:
		return bot.PushOutcome{}, fmt.Errorf("the head %s is nowhere", head)
	case !b.commits[head].contains(b.commits[base]):
		return bot.PushOutcome{}, fmt.Errorf("git will not push: %s is not ahead of %s", head, base)
	}
	return b.moveBranch(target, head, []string{base}, false)
}

// DeleteBranch implements bot.Git.
func (b builder) DeleteBranch(_ context.Context, _ bot.GitRemote, branch string, known []string) (bot.PushOutcome, error) {
	return b.moveBranch(branch, "", known, true)
}

// ChangedPaths implements bot.Git.
func (b builder) ChangedPaths(_ context.Context, _ bot.GitRemote, target string, m bot.BuildMember) (paths []string, known bool, err error) {
	tip := b.at(heads(target))
	if tip == nil {
		return nil, false, fmt.Errorf("the target %s: %w", target, bot.ErrNotFound)
	}
	if b.refs[m.HeadRef] != m.HeadSHA {
		return nil, false, nil
	}
	paths, known = b.changed(tip, b.commits[m.HeadSHA])
	return paths, known, nil
}

// Inspect implements bot.Git.
func (b builder) Inspect(_ context.Context, _ bot.GitRemote, question bot.InspectSpec) (bot.Inspection, error) {
	tip := b.at(heads(question.Target))
	if tip == nil {
		return bot.Inspection{}, fmt.Errorf("the target %s: %w", question.Target, bot.ErrNotFound)
	}
	found := bot.Inspection{Tip: tip.id, Contained: make(map[string]bool), Trees: make(map[string]string)}
	for _, head := range question.Heads {
		found.Contained[head] = tip.contains(b.commits[head])
	}
	for _, id := range question.Trees {
		if c := b.commits[id]; c != nil {
			found.Trees[id] = c.tree
		}
	}
	return found, nil
}
