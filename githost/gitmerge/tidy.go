package gitmerge

import (
	"context"
	"os"
	"path/filepath"
	"time"
)

// Limits beyond which a mirror is repacked. They bound how many files a git process has to open.
const (
	packLimit  = 20
	looseLimit = 16  // in one of 256 folders
	refLimit   = 500 // loose references
	tidyTime   = 2 * time.Minute
)

// tidy joins packs and loose objects and keeps the commit graph up to date, if that is worth it and nobody is writing to the mirror.
// It drops nothing, so builds go on reading meanwhile: every object that was ever fetched stays. What it cannot do it leaves.
func (m *mirror) tidy(ctx context.Context) {
	if !m.untidy() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tidyTime)
	defer cancel()
	select {
	case m.turn <- struct{}{}:
	default:
		return
	}
	held, err := m.tryLockFile()
	if err != nil {
		<-m.turn
		return
	}
	lock := &lockFile{File: held, turn: m.turn}
	defer lock.release()

	started := time.Now()
	for _, args := range [][]string{
		{"pack-refs", "--all"},
		{"repack", "-d", "-l", "-q", "--geometric=2"},
		{"commit-graph", "write", "--reachable", "--split", "--no-progress"},
	} {
		if _, err := m.local(ctx, call{args: args, hold: held}); err != nil {
			m.log.Warn("mirror not tidied", "error", err)
			return
		}
	}
	m.log.Debug("mirror tidied", "elapsed", time.Since(started))
}

func (m *mirror) untidy() bool {
	count := func(pattern string) int {
		found, _ := filepath.Glob(filepath.Join(m.dir, pattern))
		return len(found)
	}
	_, err := os.Stat(filepath.Join(m.dir, "objects", "info", "commit-graphs"))
	return err != nil || count("objects/pack/*.pack") > packLimit || count("objects/17/*") > looseLimit || count(localRefs+"*") > refLimit
}
