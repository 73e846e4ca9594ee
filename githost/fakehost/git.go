package fakehost

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const zeroSHA = "0000000000000000000000000000000000000000"

// gitEnv isolates git from the machine's and the user's configuration.
var gitEnv = []string{
	"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
	"GIT_NO_REPLACE_OBJECTS=1", "LC_ALL=C", "TZ=UTC",
}

type gitError struct {
	args   []string
	code   int
	stderr string
}

func (e *gitError) Error() string {
	return fmt.Sprintf("git %s: exit %d: %s", e.args[0], e.code, strings.TrimSpace(e.stderr))
}

func (h *Host) git(dir string, stdin []byte, args ...string) ([]byte, error) {
	return h.gitAs(dir, nil, stdin, args...)
}

func (h *Host) gitAs(dir string, env []string, stdin []byte, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(h.ctx, "git", append([]string{"-C", dir}, args...)...)
	cmd.Env = append(append(os.Environ(), gitEnv...), env...)
	if stdin != nil {
		cmd.Stdin = bytes.NewReader(stdin)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return stdout.Bytes(), &gitError{args: args, code: exit.ExitCode(), stderr: stderr.String()}
		}
		return nil, fmt.Errorf("running git %s: %w", args[0], err)
	}
	return stdout.Bytes(), nil
}

// repoConfig: fetching any commit is allowed as on the real host, refs/pull is
// hidden from pushes and so refused, nothing is repacked behind our back.
const repoConfig = `
[http]
	receivepack = true
[uploadpack]
	allowAnySHA1InWant = true
	allowFilter = true
[receive]
	hideRefs = refs/pull
	hideRefs = refs/merge-requests
	autogc = false
[gc]
	auto = 0
[core]
	fsync = none
`

func (h *Host) initRepository(path, defaultBranch string) error {
	if _, err := os.Stat(path); err == nil {
		return fmt.Errorf("repository folder %s exists already: remove it or use another Dir", path)
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	if _, err := h.git(path, nil, "init", "-q", "--bare", "--template=", "--initial-branch="+defaultBranch, "."); err != nil {
		return err
	}
	if err := h.writeHook(path); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(path, "config"), os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(repoConfig); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}

// readBranches reads refs/heads without a child process: it runs before every
// request. Loose refs win over packed ones.
func readBranches(path string) (map[string]string, error) {
	branches := map[string]string{}
	packed, err := os.ReadFile(filepath.Join(path, "packed-refs"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for line := range strings.Lines(string(packed)) {
		if sha, ref, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			if b, ok := strings.CutPrefix(ref, "refs/heads/"); ok && len(sha) == len(zeroSHA) {
				branches[b] = sha
			}
		}
	}
	root := filepath.Join(path, "refs", "heads")
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		// A ref may vanish between listing and reading: then it is gone.
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() || strings.HasSuffix(p, ".lock") {
			return err
		}
		b, err := os.ReadFile(p)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if sha := strings.TrimSpace(string(b)); err == nil && len(sha) == len(zeroSHA) {
			branches[filepath.ToSlash(p[len(root)+1:])] = sha
		}
		return err
	})
	return branches, err
}

// writeRef writes a ref that only this package writes (refs/pull/…), where no
// other git process competes for it.
func writeRef(path, ref, sha string) error {
	file := filepath.Join(path, filepath.FromSlash(ref))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(file+".new", []byte(sha+"\n"), 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// writeCommit puts one commit with the given file changes on a ref in a single
// fast-import. Empty content deletes the file.
func (h *Host) writeCommit(r *repository, ref, parent string, author *user, message string, files map[string]string) (string, error) {
	var in bytes.Buffer
	who := fmt.Sprintf("%s <%s> %d +0000", author.name(), author.email(), h.now().Unix())
	fmt.Fprintf(&in, "commit %s\nmark :1\nauthor %s\ncommitter %s\ndata %d\n%s\n", ref, who, who, len(message), message)
	if parent != "" {
		fmt.Fprintf(&in, "from %s\n", parent)
	}
	for _, path := range sortedKeys(files) {
		if content := files[path]; content == "" {
			fmt.Fprintf(&in, "D %s\n", quotePath(path))
		} else {
			fmt.Fprintf(&in, "M 100644 inline %s\ndata %d\n%s\n", quotePath(path), len(content), content)
		}
	}
	in.WriteString("\nget-mark :1\ndone\n")
	out, err := h.git(r.path, in.Bytes(), "fast-import", "--quiet", "--done")
	if err != nil {
		return "", fmt.Errorf("committing to %s of %s: %w", ref, r.fullName(), err)
	}
	return strings.TrimSpace(string(out)), nil
}

func quotePath(p string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(p) + `"`
}

type ident struct {
	Name, Email string
	When        time.Time
}

type commit struct {
	SHA, Tree         string
	Parents           []string
	Author, Committer ident
	Message           string

	listed                   bool // whether the paths below are known
	added, removed, modified []string
}

// listFiles fills in the paths a commit touches; a merge touches none.
func (h *Host) listFiles(r *repository, c *commit) error {
	if c.listed || len(c.Parents) > 1 {
		return nil
	}
	out, err := h.git(r.path, nil, "diff-tree", "-r", "-z", "--root", "--no-renames", "--name-status", "--no-commit-id", c.SHA)
	if err != nil {
		return fmt.Errorf("listing the files of commit %s of %s: %w", c.SHA, r.fullName(), err)
	}
	c.listed = true
	parts := strings.Split(string(out), "\x00")
	for i := 0; i+1 < len(parts); i += 2 {
		switch parts[i] {
		case "A":
			c.added = append(c.added, parts[i+1])
		case "D":
			c.removed = append(c.removed, parts[i+1])
		default:
			c.modified = append(c.modified, parts[i+1])
		}
	}
	return nil
}

// commitAt reads a commit; commits never change, so they are kept.
func (h *Host) commitAt(r *repository, sha string) (*commit, error) {
	if c, ok := r.commits[sha]; ok {
		return c, nil
	}
	out, err := h.git(r.path, nil, "cat-file", "commit", sha)
	if err != nil {
		return nil, fmt.Errorf("reading commit %s of %s: %w", sha, r.fullName(), err)
	}
	head, message, _ := strings.Cut(string(out), "\n\n")
	c := &commit{SHA: sha, Message: strings.TrimSuffix(message, "\n"), Parents: []string{}}
	for line := range strings.Lines(head) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch key {
		case "tree":
			c.Tree = value
		case "parent":
			c.Parents = append(c.Parents, value)
		case "author":
			c.Author = parseIdent(value)
		case "committer":
			c.Committer = parseIdent(value)
		}
	}
	r.commits[sha] = c
	return c, nil
}

func parseIdent(s string) ident {
	name, rest, _ := strings.Cut(s, " <")
	email, when, _ := strings.Cut(rest, "> ")
	unix, _, _ := strings.Cut(when, " ")
	sec, _ := strconv.ParseInt(unix, 10, 64)
	return ident{Name: name, Email: email, When: time.Unix(sec, 0).UTC()}
}

// resolve turns a branch name, full ref or commit id into a commit id. An
// unknown one answers "".
func (h *Host) resolve(r *repository, rev string) string {
	if sha, ok := r.branches[strings.TrimPrefix(rev, "refs/heads/")]; ok {
		return sha
	}
	if sha, ok := r.branches[strings.TrimPrefix(rev, "heads/")]; ok {
		return sha
	}
	if _, ok := r.commits[rev]; ok {
		return rev
	}
	if rev == "" || strings.HasPrefix(rev, "-") || strings.ContainsAny(rev, " :^~@{}") {
		return ""
	}
	if rev == "HEAD" {
		return r.branches[r.DefaultBranch]
	}
	out, err := h.git(r.path, nil, "rev-parse", "-q", "--verify", rev+"^{commit}")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// between lists the commits in to that are not in from, newest first.
func (h *Host) between(r *repository, from, to string) ([]string, error) {
	args := []string{"rev-list", to}
	if from != "" && from != zeroSHA {
		args = append(args, "^"+from)
	}
	out, err := h.git(r.path, nil, args...)
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(out)), nil
}

// mergeTree merges theirs into ours. ok is false when they conflict or share
// no history. Exit 1 with an empty output is a bad commit, not a conflict.
func (h *Host) mergeTree(r *repository, ours, theirs string) (tree string, ok bool, err error) {
	out, err := h.git(r.path, nil, "merge-tree", "--write-tree", ours, theirs)
	tree, _, _ = strings.Cut(string(out), "\n")
	var ge *gitError
	switch {
	case err == nil:
		return tree, true, nil
	case errors.As(err, &ge) && (ge.code == 1 && tree != "" || ge.code == 128 && strings.Contains(ge.stderr, "unrelated")):
		return "", false, nil
	}
	return "", false, fmt.Errorf("merging %s into %s: %w", theirs, ours, err)
}

func (h *Host) commitTree(r *repository, tree string, author ident, message string, parents ...string) (string, error) {
	args := []string{"commit-tree", tree}
	for _, p := range parents {
		args = append(args, "-p", p)
	}
	date := fmt.Sprintf("%d +0000", author.When.Unix())
	committer := ident{Name: "GitHub", Email: "noreply@github.com"}
	if h.gl != nil {
		committer = author
	}
	env := []string{
		"GIT_AUTHOR_NAME=" + author.Name, "GIT_AUTHOR_EMAIL=" + author.Email, "GIT_AUTHOR_DATE=" + date,
		"GIT_COMMITTER_NAME=" + committer.Name, "GIT_COMMITTER_EMAIL=" + committer.Email, "GIT_COMMITTER_DATE=" + date,
	}
	out, err := h.gitAs(r.path, env, []byte(message), append(args, "-F", "-")...)
	return strings.TrimSpace(string(out)), err
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
