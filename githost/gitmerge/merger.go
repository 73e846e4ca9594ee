package gitmerge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// Options configures a Merger.
type Options struct {
	Dir    string       // where the mirrors live; made if it is missing
	Git    string       // the git program; empty: "git" from PATH
	TmpDir string       // where builds keep new objects until they are pushed; empty: memory if it has room, else a folder in Dir
	Logger *slog.Logger // nil: silent
}

// Merger implements bot.Git with one mirror per repository. It is safe for use by several goroutines.
type Merger struct {
	dir         string
	git         runner
	quarantines quarantines
	log         *slog.Logger

	mu      sync.Mutex
	mirrors map[string]*mirror
}

var _ bot.Git = (*Merger)(nil)

// New checks that git is there and new enough, makes Dir, and removes what crashed builds left behind.
func New(options Options) (*Merger, error) {
	if options.Dir == "" {
		return nil, errors.New("gitmerge: no folder for the mirrors: set Options.Dir")
	}
	dir, err := filepath.Abs(options.Dir)
	if err != nil {
		return nil, fmt.Errorf("finding the mirror folder %q: %w", options.Dir, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the mirror folder: %w", err)
	}
	log := options.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	git, err := findGit(options.Git)
	if err != nil {
		return nil, err
	}
	m := &Merger{dir: dir, git: git, log: log, mirrors: map[string]*mirror{}}
	if m.quarantines, err = newQuarantines(options.TmpDir, dir); err != nil {
		return nil, err
	}
	m.quarantines.sweep(log)
	return m, nil
}

// The oldest git with merge-tree --write-tree.
const oldestMajor, oldestMinor = 2, 38

func findGit(name string) (runner, error) {
	if name == "" {
		name = "git"
	}
	const remedy = "install git 2.38 or newer, or name the path of one in the configuration"
	path, err := exec.LookPath(name)
	if err != nil {
		return runner{}, fmt.Errorf("git was not found (%w): %s", err, remedy)
	}
	git := newRunner(path)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	got, err := git.run(ctx, call{args: []string{"--version"}})
	if err != nil {
		return runner{}, fmt.Errorf("asking %s for its version: %w", path, err)
	}
	version := clean(string(got.stdout), "")
	var major, minor int
	if _, err := fmt.Sscanf(version, "git version %d.%d", &major, &minor); err != nil || got.code != 0 {
		return runner{}, fmt.Errorf("%s does not say its git version (it answers %q): %s", path, version, remedy)
	}
	if major < oldestMajor || major == oldestMajor && minor < oldestMinor {
		return runner{}, fmt.Errorf("%s is too old (%s; 2.38 brought merge-tree --write-tree): %s", path, version, remedy)
	}
	return git, nil
}

// open finds the mirror and checks the remote of a call.
func (m *Merger) open(from bot.GitRemote) (*mirror, remote, error) {
	to, err := newRemote(from)
	if err != nil {
		return nil, remote{}, err
	}
	name := folderName(from.Key)
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.mirrors[name]
	if found == nil {
		found = newMirror(m.git, m.dir, name, m.log.With("repo", from.Key))
		m.mirrors[name] = found
	}
	return found, to, nil
}
