package explore

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// counts is what a schedule did, for the summary.
type counts struct {
	steps, kills, sleeps, errors, lost int
	manual                             int            // batches that a person landed, or refused to
	ends                               map[string]int // batches by how they ended
	matrix                             *matrix
}

func (c *counts) add(o counts) {
	c.steps += o.steps
	c.kills += o.kills
	c.sleeps += o.sleeps
	c.errors += o.errors
	c.lost += o.lost
	c.manual += o.manual
	for k, n := range o.ends {
		c.ends[k] += n
	}
	c.matrix.add(o.matrix)
}

func newCounts() counts { return counts{ends: make(map[string]int), matrix: new(matrix)} }

func (c counts) String() string {
	return fmt.Sprintf("%d steps, %d kills, %d sleeps, %d failed calls, %d webhooks lost, %d landings by hand; batches: %s", c.steps, c.kills, c.sleeps, c.errors, c.lost, c.manual, table(c.ends))
}

func table(m map[string]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprint(k, " ", m[k]))
	}
	return strings.Join(parts, ", ")
}

// played is what became of one schedule.
type played struct {
	counts
	violation string // the first one; empty: all was well
	story     []string
}

// report fails the test if there was a violation.
func (p played) report(t *testing.T, seed uint64, lines int, again string) {
	t.Helper()
	if p.violation != "" {
		t.Errorf("seed %d: %s\nplay it again: %s\n%s", seed, p.violation, fmt.Sprintf(again, seed), strings.Join(p.story[max(0, len(p.story)-lines):], "\n"))
	}
}

// playAll plays the schedules of seeds from first on, side by side on parts workers.
func playAll(t *testing.T, first uint64, number, parts int) {
	t.Helper()
	var mu sync.Mutex
	total := newCounts()
	began := time.Now()
	t.Cleanup(func() {
		t.Logf("%d schedules in %s: %s\n%s", number, time.Since(began).Round(time.Millisecond), total, total.matrix)
		if number >= enough && !t.Failed() {
			total.matrix.hold(t)
			if total.manual < 200 {
				t.Errorf("%d batches waited for a person to land them, want 200", total.manual)
			}
		}
	})
	for part := range parts {
		t.Run(fmt.Sprint("part ", part), func(t *testing.T) {
			t.Parallel()
			sum := newCounts()
			for i := part; i < number && !t.Failed(); i += parts {
				p := play(t, first+uint64(i), false)
				p.report(t, first+uint64(i), 60, "make explore SEED=%d")
				sum.add(p.counts)
			}
			mu.Lock()
			defer mu.Unlock()
			total.add(sum)
		})
	}
}
