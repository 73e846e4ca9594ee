package gitmerge

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// quarantines makes folders for new objects, in the first of its parents that can take one.
type quarantines struct{ parents []string }

const (
	memory       = "/dev/shm"
	memoryNeeded = 256 << 20 // bytes free; a container's default of 64 MiB is too little to rely on
	quarantined  = "batchbot-quarantine-"
	ownerFile    = "owner"
)

func newQuarantines(parent, mirrors string) (quarantines, error) {
	parents := []string{memory, filepath.Join(mirrors, "quarantine")}
	if parent != "" {
		own, err := filepath.Abs(parent)
		if err != nil {
			return quarantines{}, fmt.Errorf("finding the folder for new objects %q: %w", parent, err)
		}
		parents = []string{own}
	}
	if err := os.MkdirAll(parents[len(parents)-1], 0o700); err != nil {
		return quarantines{}, fmt.Errorf("making the folder for new objects: %w", err)
	}
	return quarantines{parents: parents}, nil
}

// quarantine is a folder of objects that are not in the mirror. Its owner holds a lock on a file in it as long as it lives.
type quarantine struct {
	dir   string
	owner *os.File
}

func (q quarantines) open() (*quarantine, error) {
	var failed error
	for _, parent := range q.parents {
		if parent == memory && !hasRoom(parent) {
			continue
		}
		made, err := openQuarantine(parent)
		if err == nil {
			return made, nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, fmt.Errorf("making a quarantine folder: %w", failed)
}

func hasRoom(dir string) bool {
	var stat syscall.Statfs_t
	//nolint:unconvert // the fields have other types elsewhere
	return syscall.Statfs(dir, &stat) == nil && uint64(stat.Bavail)*uint64(stat.Bsize) >= memoryNeeded
}

func openQuarantine(parent string) (*quarantine, error) {
	dir, err := os.MkdirTemp(parent, quarantined)
	if err != nil {
		return nil, err
	}
	// Locked before it has its name: a sweep never sees a live owner without a lock.
	early := filepath.Join(dir, ownerFile+".new")
	owner, err := os.OpenFile(early, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = errors.Join(
			syscall.Flock(int(owner.Fd()), syscall.LOCK_EX|syscall.LOCK_NB),
			os.Rename(early, filepath.Join(dir, ownerFile)),
			os.Mkdir(filepath.Join(dir, "objects"), 0o700))
	}
	made := &quarantine{dir: dir, owner: owner}
	if err != nil {
		made.close()
		return nil, err
	}
	return made, nil
}

func (q *quarantine) objects() string { return filepath.Join(q.dir, "objects") }

// env makes git write to the quarantine and read the mirror too.
func (q *quarantine) env(m *mirror) []string {
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(filepath.Join(m.dir, "objects"))
	return []string{
		"GIT_OBJECT_DIRECTORY=" + q.objects(),
		`GIT_ALTERNATE_OBJECT_DIRECTORIES="` + quoted + `"`, // in quotes a colon is not a separator
	}
}

func (q *quarantine) close() error {
	err := os.RemoveAll(q.dir)
	if q.owner != nil {
		q.owner.Close()
	}
	if err != nil {
		return fmt.Errorf("removing a quarantine: %w", err)
	}
	return nil
}

// sweep removes quarantines whose owner died. A parent may be shared with other instances and other users.
func (q quarantines) sweep(log *slog.Logger) {
	for _, parent := range q.parents {
		found, _ := filepath.Glob(filepath.Join(parent, quarantined+"*"))
		for _, dir := range found {
			if !abandoned(dir) {
				continue
			}
			log.Info("removing the quarantine of a build that was interrupted", "path", dir)
			if err := os.RemoveAll(dir); err != nil {
				log.Warn("cannot remove an abandoned quarantine", "path", dir, "error", err)
			}
		}
	}
}

// abandoned reports whether dir is a quarantine of ours that nobody owns any more.
func abandoned(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return false
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != os.Geteuid() {
		return false
	}
	owner, err := os.OpenFile(filepath.Join(dir, ownerFile), os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return time.Since(info.ModTime()) > time.Minute // just being made, or left by a crash within its first moment
	}
	if err != nil {
		return false
	}
	defer owner.Close()
	return syscall.Flock(int(owner.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
