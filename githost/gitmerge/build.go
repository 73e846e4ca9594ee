package gitmerge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// Build implements bot.Git. Beside the outcomes in the result there are two errors with a meaning: bot.ErrNotFound (the target does
// not exist on the remote) and bot.ErrForbidden or bot.ErrGone (the remote lets nobody in, or is not there).
func (m *Merger) Build(ctx context.Context, from bot.GitRemote, spec bot.BuildSpec) (bot.Build, error) {
	mirror, to, err := m.open(from)
	if err == nil {
		err = checkSpec(spec)
	}
	if err != nil {
		return nil, fmt.Errorf("building batch %d: %w", spec.BatchID, err)
	}
	started := time.Now()
	b := &build{mirror: mirror, remote: to, spec: spec}
	err = mirror.repaired(ctx, func() error { return b.run(ctx, m.quarantines) })
	if err != nil {
		return nil, fmt.Errorf("building batch %d on %s: %w", spec.BatchID, spec.Target, err)
	}
	mirror.log.Debug("batch built", "batch", spec.BatchID, "members", len(spec.Members), "head", b.result.HeadSHA, "elapsed", time.Since(started))
	return b, nil
}

var tokenPattern = regexp.MustCompile(`^[0-9A-Za-z_-]{1,64}$`)

func checkSpec(spec bot.BuildSpec) error {
	if spec.BatchID <= 0 {
		return fmt.Errorf("the batch id is %d", spec.BatchID)
	}
	if !tokenPattern.MatchString(spec.Token) {
		return fmt.Errorf("the token %q is not 1 to 64 letters and digits", spec.Token)
	}
	if spec.CreatedAt.Unix() <= 0 {
		return errors.New("the batch has no creation time")
	}
	if err := checkBranch("the target branch", spec.Target); err != nil {
		return err
	}
	if spec.Base != "" {
		if err := checkObjectID("the base", spec.Base); err != nil {
			return err
		}
	}
	for _, member := range spec.Members {
		if member.Number <= 0 {
			return fmt.Errorf("a member has the number %d", member.Number)
		}
		if err := checkObjectID(fmt.Sprintf("the head of #%d", member.Number), member.HeadSHA); err != nil {
			return err
		}
		if err := checkRef(fmt.Sprintf("the head reference of #%d", member.Number), member.HeadRef); err != nil {
			return err
		}
	}
	return nil
}

// build is a batch branch in the making, then waiting to be pushed.
type build struct {
	mirror *mirror
	remote remote
	spec   bot.BuildSpec
	result bot.BuildResult

	mu         sync.Mutex // Push and Close
	quarantine *quarantine
}

// Result returns what became of the build.
func (b *build) Result() bot.BuildResult { return b.result }

// Close removes the objects of this build.
func (b *build) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.quarantine == nil {
		return nil
	}
	err := b.quarantine.close()
	b.quarantine = nil
	return err
}

// Push implements bot.Build.
func (b *build) Push(ctx context.Context, branch string, known []string) (bot.PushOutcome, error) {
	return b.push(ctx, branch, b.result.HeadSHA, known)
}

// PushBase implements bot.Build.
func (b *build) PushBase(ctx context.Context, branch string, known []string) (bot.PushOutcome, error) {
	return b.push(ctx, branch, b.result.BaseSHA, known)
}

// Contribution implements bot.Build.
func (b *build) Contribution(ctx context.Context, member bot.BuildMember) (bot.Contribution, error) {
	fail := func(err error) (bot.Contribution, error) {
		return bot.Contribution{}, fmt.Errorf("telling what %s brings: %w", member.HeadSHA, err)
	}
	if err := checkObjectID("the head", member.HeadSHA); err != nil {
		return fail(err)
	}
	news, err := b.mirror.newcomers(ctx, b.result.BaseSHA, []string{member.HeadSHA})
	if err != nil {
		return fail(err)
	}
	commits, _ := news.of(member.HeadSHA)
	files, _, err := b.mirror.changedPaths(ctx, b.result.BaseSHA, member.HeadSHA)
	if err != nil {
		return fail(err)
	}
	return bot.Contribution{Files: files, Commits: commits}, nil
}

func (b *build) push(ctx context.Context, branch, to string, known []string) (bot.PushOutcome, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.quarantine == nil {
		return bot.PushOutcome{}, fmt.Errorf("pushing %s: the build is closed", branch)
	}
	return b.mirror.moveBranch(ctx, b.remote, branch, change{
		to:    to,
		from:  append([]string{""}, known...),
		lease: true,
		env:   b.quarantine.env(b.mirror),
	})
}

func (b *build) run(ctx context.Context, quarantines quarantines) (err error) {
	heads := make([]string, len(b.spec.Members))
	for i, member := range b.spec.Members {
		heads[i] = member.HeadRef
	}
	slices.Sort(heads)
	found, err := b.mirror.fetch(ctx, b.remote, b.spec.Target, slices.Compact(heads))
	if err != nil {
		return err
	}
	base := b.spec.Base
	if base == "" {
		base = found.tip
	} else if base != found.tip {
		if err := b.mirror.need(ctx, b.remote, "the base", base); err != nil {
			return err
		}
	}

	trees, err := b.mirror.objectNames(ctx, []string{base + "^{tree}"})
	if err != nil {
		return err
	}
	if trees[0] == "" {
		return fmt.Errorf("the base %s has no tree: %w", base, errBroken)
	}
	var pinned []string
	for _, member := range b.spec.Members {
		if found.heads[member.HeadRef] == member.HeadSHA {
			pinned = append(pinned, member.HeadSHA)
		}
	}
	news, err := b.mirror.newcomers(ctx, base, pinned)
	if err != nil {
		return err
	}

	if b.quarantine, err = quarantines.open(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	line := &mergeLine{build: b, news: news, base: base, tip: base, tree: trees[0], aboard: map[string]bool{}}
	b.result = bot.BuildResult{BaseSHA: base}
	for _, member := range b.spec.Members {
		fate := bot.MemberBuild{BuildMember: member}
		if stands := found.heads[member.HeadRef]; stands != member.HeadSHA {
			fate.Fate, fate.FoundSHA = bot.FateMoved, stands
		} else if err := line.add(ctx, &fate); err != nil {
			return fmt.Errorf("merging #%d: %w", member.Number, err)
		}
		b.result.Members = append(b.result.Members, fate)
	}
	b.result.HeadSHA, b.result.TreeSHA = line.tip, line.tree
	return nil
}

// mergeLine is the history of a batch as it grows, one member after the other.
type mergeLine struct {
	*build
	news   newcomers
	base   string
	tip    string
	tree   string          // of tip
	aboard map[string]bool // newcomers that merged members brought
}

// add merges a member whose head stands where it is pinned, or says why not.
func (l *mergeLine) add(ctx context.Context, member *bot.MemberBuild) error {
	head := member.HeadSHA
	if l.news.contained(head) {
		member.Fate = bot.FateContained
		return nil
	}
	brings, related := l.news.of(head)
	if !related {
		member.Fate = bot.FateUnrelated
		return nil
	}
	left, err := l.left(brings)
	if err != nil {
		return err
	}
	merged, err := l.merge(ctx, left, head)
	if err != nil {
		return err
	}
	if merged.conflict {
		member.Fate, member.Files = bot.FateConflict, merged.files
		if l.tip == l.base {
			return nil
		}
		alone, err := l.merge(ctx, l.base, head)
		if err != nil {
			return err
		}
		if alone.conflict {
			member.Files = alone.files
		} else {
			member.Fate = bot.FateConflictBatch
		}
		return nil
	}
	commit, err := writeCommit(l.quarantine.objects(), merged.tree, []string{l.tip, head}, l.spec.CreatedAt, mergeMessage(l.spec, member.BuildMember))
	if err != nil {
		return err
	}
	member.Fate, member.MergeCommit = bot.FateMerged, commit
	l.tip, l.tree = commit, merged.tree
	for _, commit := range brings {
		l.aboard[commit] = true
	}
	return nil
}

// left chooses the commit to merge a member with; see the package comment.
func (l *mergeLine) left(brings []string) (string, error) {
	if l.tip == l.base || slices.ContainsFunc(brings, func(commit string) bool { return l.aboard[commit] }) {
		return l.tip, nil
	}
	return writeCommit(l.quarantine.objects(), l.tree, []string{l.base}, l.spec.CreatedAt, "throw-away\n")
}

// merged is the outcome of one merge: a tree, or the files in conflict.
type merged struct {
	tree     string
	conflict bool
	files    []string
}

func (l *mergeLine) merge(ctx context.Context, left, right string) (merged, error) {
	c := call{
		args: []string{"merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", left, right},
		env:  l.quarantine.env(l.mirror),
	}
	got, err := l.mirror.git.run(ctx, c)
	if err != nil {
		return merged{}, err
	}
	tree, rest, _ := bytes.Cut(got.stdout, []byte{0})
	// A missing commit is exit 1 as well, with nothing on stdout: without a tree it is no conflict.
	if got.code > 1 || checkObjectID("the merged tree", string(tree)) != nil {
		return merged{}, failure(c, got, "")
	}
	result := merged{tree: string(tree), conflict: got.code == 1}
	if result.conflict {
		for name := range strings.SplitSeq(string(rest), "\x00") {
			if name != "" {
				result.files = append(result.files, strings.ToValidUTF8(name, "\uFFFD"))
			}
		}
		slices.Sort(result.files)
		result.files = slices.Compact(result.files)
	}
	return result, nil
}
