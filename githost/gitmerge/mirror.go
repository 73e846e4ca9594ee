package gitmerge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// mirror is this process's handle on the bare mirror of one repository.
type mirror struct {
	git runner
	dir string // the bare repository
	log *slog.Logger

	turn    chan struct{} // held by the goroutine that has, or waits for, the lock file
	checked bool          // guarded by turn: the folder was found sound, or made, by this process

	mu        sync.Mutex
	condemned time.Time // when the mirror was last found damaged
}

// repairEvery bounds how often a mirror is made again, so that a fault that is not its own does not fetch everything over and over.
const repairEvery = 10 * time.Minute

func newMirror(git runner, parent, name string, log *slog.Logger) *mirror {
	dir := filepath.Join(parent, name+".git")
	git.env = append(slices.Clip(git.env), "GIT_DIR="+dir)
	return &mirror{git: git, dir: dir, log: log, turn: make(chan struct{}, 1)}
}

// local runs a git command that reads the mirror alone.
func (m *mirror) local(ctx context.Context, c call) (answer, error) {
	got, err := m.git.run(ctx, c)
	if err == nil && got.code != 0 {
		err = failure(c, got, "")
	}
	return got, err
}

// lock waits for the right to write to the mirror, and sees to it that there is a sound one. The caller closes the file it gets,
// and passes it to the git processes that write.
func (m *mirror) lock(ctx context.Context) (*lockFile, error) {
	select {
	case m.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for the mirror: %w", context.Cause(ctx))
	}
	held, err := m.lockFile(ctx)
	if err != nil {
		<-m.turn
		return nil, err
	}
	lock := &lockFile{File: held, turn: m.turn}
	if err := m.ensure(ctx, held); err != nil {
		lock.release()
		return nil, err
	}
	return lock, nil
}

// lockFile is the held lock of a mirror.
type lockFile struct {
	*os.File
	turn chan struct{}
}

func (l *lockFile) release() {
	l.File.Close()
	<-l.turn
}

func (m *mirror) lockFile(ctx context.Context) (*os.File, error) {
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		file, err := m.tryLockFile()
		if !errors.Is(err, errBusy) {
			return file, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for another process to leave the mirror: %w", context.Cause(ctx))
		}
	}
}

var errBusy = errors.New("another process writes to the mirror")

func (m *mirror) tryLockFile() (*os.File, error) {
	path := strings.TrimSuffix(m.dir, ".git") + ".lock"
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the mirror's lock: %w", err)
	}
	for {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return file, nil
		}
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errBusy
		}
		return nil, fmt.Errorf("locking the mirror (%s): %w", path, err)
	}
}

// ensure is called under the lock. The first call of a process looks at what it found; a mirror it cannot trust is made again.
func (m *mirror) ensure(ctx context.Context, hold *os.File) error {
	m.sweep(lockPatterns)
	if m.checked {
		if _, err := os.Stat(filepath.Join(m.dir, "HEAD")); err == nil {
			return nil
		}
	}
	m.checked = false
	m.sweep(append([]string{"../" + m.halfMade()}, garbagePatterns...))
	if _, err := os.Stat(m.dir); err == nil {
		problem, err := m.examine(ctx)
		if err != nil {
			return fmt.Errorf("examining the mirror: %w", err)
		}
		if problem == "" {
			m.checked = true
			return nil
		}
		m.log.Warn("mirror damaged, making it again", "problem", problem)
		if err := os.RemoveAll(m.dir); err != nil {
			return fmt.Errorf("removing a damaged mirror: %w", err)
		}
	}
	if err := m.make(ctx, hold); err != nil {
		return fmt.Errorf("making the mirror: %w", err)
	}
	m.checked = true
	return nil
}

// examine finds what a crash of the machine leaves: a folder without its files, empty or torn references and tips.
func (m *mirror) examine(ctx context.Context) (problem string, err error) {
	for _, args := range [][]string{
		{"rev-parse", "--is-bare-repository"},
		{"for-each-ref", "--format=%(objecttype)", localRefs},
	} {
		got, err := m.git.run(ctx, call{args: args})
		if err != nil {
			return "", err
		}
		if got.code != 0 || got.stderr != "" || args[0] == "rev-parse" && strings.TrimSpace(string(got.stdout)) != "true" {
			return fmt.Sprintf("git %s: exit %d %s", args[0], got.code, clean(got.stderr, "")), nil
		}
	}
	return "", nil
}

// make builds an empty mirror aside and renames it, so that there is never half of one.
func (m *mirror) make(ctx context.Context, hold *os.File) error {
	half, err := os.MkdirTemp(filepath.Dir(m.dir), m.halfMade())
	if err != nil {
		return err
	}
	defer os.RemoveAll(half)
	// GIT_DIR says where; the last one of the environment counts.
	c := call{args: []string{"init", "--quiet", "--bare", "--template=", "--initial-branch=none", "--object-format=sha1"}, env: []string{"GIT_DIR=" + half}, hold: hold}
	got, err := m.git.run(ctx, c)
	if err != nil {
		return err
	}
	if got.code != 0 {
		return failure(c, got, "")
	}
	if err := os.Mkdir(filepath.Join(half, "refs", "batchbot"), 0o700); err != nil {
		return err
	}
	return os.Rename(half, m.dir)
}

func (m *mirror) halfMade() string { return filepath.Base(m.dir) + ".half-*" }

// Git's lock files stop the next git; the rest of what a killed git leaves only takes room.
var (
	lockPatterns    = []string{"*.lock", "gc.pid", "refs/batchbot/*.lock", "objects/info/*.lock", "objects/info/commit-graphs/*.lock"}
	garbagePatterns = []string{"objects/tmp_objdir-*", "objects/??/tmp_obj_*", "objects/pack/tmp_*", "objects/pack/.tmp-*", "objects/info/commit-graphs/tmp_*"}
)

// sweep removes what killed git processes left. Under the lock nobody can be using it: a process that writes holds the lock.
func (m *mirror) sweep(patterns []string) {
	for _, pattern := range patterns {
		left, _ := filepath.Glob(filepath.Join(m.dir, pattern))
		for _, path := range left {
			m.log.Info("removing what an interrupted git left", "path", path)
			if err := os.RemoveAll(path); err != nil {
				m.log.Warn("cannot remove what an interrupted git left", "path", path, "error", err)
			}
		}
	}
}

// repaired runs work, and once more with a new mirror if it failed on a damaged one.
func (m *mirror) repaired(ctx context.Context, work func() error) error {
	err := work()
	if !errors.Is(err, errBroken) || !m.condemn(ctx, err) {
		return err
	}
	return work()
}

// condemn removes a damaged mirror; false: that was tried already, or cannot be done. Others who read it fail and try again.
func (m *mirror) condemn(ctx context.Context, reason error) bool {
	m.mu.Lock()
	recently := !m.condemned.IsZero() && time.Since(m.condemned) < repairEvery
	if !recently {
		m.condemned = time.Now()
	}
	m.mu.Unlock()
	if recently {
		return false
	}
	lock, err := m.lock(ctx)
	if err != nil {
		return false
	}
	defer lock.release()
	m.log.Warn("mirror damaged, making it again", "problem", reason)
	m.checked = false
	return os.RemoveAll(m.dir) == nil
}

// objectNames answers one question a line ("name" → object id, "" if there is no such object) in the order asked, with one process.
// Only commits, or what is asked for as ^{tree}, count.
func (m *mirror) objectNames(ctx context.Context, names []string) ([]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	got, err := m.local(ctx, call{
		args:  []string{"cat-file", "--batch-check=%(objectname) %(objecttype)"},
		stdin: strings.Join(names, "\n") + "\n",
	})
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSuffix(string(got.stdout), "\n"), "\n")
	if len(lines) != len(names) {
		return nil, fmt.Errorf("git cat-file answered %d of %d questions", len(lines), len(names))
	}
	ids := make([]string, len(names))
	for i, line := range lines {
		id, kind, _ := strings.Cut(line, " ")
		if kind == "commit" || kind == "tree" && strings.HasSuffix(names[i], "^{tree}") {
			ids[i] = id
		}
	}
	return ids, nil
}

// over runs a git command that talks to the remote.
func (m *mirror) over(ctx context.Context, to remote, c call) (answer, error) {
	c.config = to.config
	return m.git.run(ctx, c)
}

// remoteFailure says what kind of failure a remote's answer is, in the words of the core.
func remoteFailure(c call, got answer, to remote) error {
	err := failure(c, got, to.secret)
	words := strings.ToLower(got.stderr)
	has := func(signs ...string) bool {
		for _, sign := range signs {
			if strings.Contains(words, sign) {
				return true
			}
		}
		return false
	}
	switch {
	case has("couldn't find remote ref"):
		return fmt.Errorf("%w: %w", bot.ErrNotFound, err)
	case has("could not read username", "could not read password", "authentication failed", "returned error: 401", "returned error: 403"):
		return fmt.Errorf("%w: %w", bot.ErrForbidden, err)
	case has("repository '"+strings.ToLower(to.url)+"/' not found", "repository '"+strings.ToLower(to.url)+"' not found", "repository not found",
		"does not appear to be a git repository"):
		return fmt.Errorf("%w: %w", bot.ErrGone, err)
	}
	return err
}
