//go:build !race

package plan

// The race detector makes this grid ten times slower and has nothing to find in it: `make test` runs it without.

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/batchbot/batchbot/bot"
)

const (
	changesPerCell = 100_000
	borsBatch      = 20
)

// cell is one point of the grid: how often changes break CI, and how often CI fails for nothing.
type cell struct {
	p, f           float64
	bound          float64
	set            result // flake_rate left at its default
	known          result // flake_rate set to what it is
	halving, alone result
}

// targets by culprit rate: the cost at most, as a share of the bound and of testing one by one.
var targets = []struct{ p, ofBound, ofSerial float64 }{
	{0.005, 1.25, 0.10}, {0.01, 1.15, 0.10}, {0.02, 1.15, 0.17}, {0.05, 1.15, 0.33}, {0.10, 1.15, 0.55},
}

const (
	ofHalving    = 0.75
	mostWronged  = 3 // good changes rejected, per 1000 landed
	defaultFlake = 0.01
)

// measure runs the grid. Each run has its world to itself, so it does not matter which of the two goroutines it falls to.
func measure() []*cell {
	var grid []*cell
	var jobs []func()
	for _, f := range []float64{0, 0.01, 0.03} {
		for i, target := range targets {
			c := &cell{p: target.p, f: f, bound: bound(target.p, f)}
			grid = append(grid, c)
			world := func() *world { return newWorld(c.p, c.f, changesPerCell, uint64(1000+i)) }
			jobs = append(jobs,
				func() { c.set = ours(world(), defaultFlake) },
				func() { c.halving = halving(world(), borsBatch) },
				func() { c.alone = serial(world()) })
			if f != defaultFlake {
				jobs = append(jobs, func() { c.known = ours(world(), f) })
			}
		}
	}
	next := make(chan func(), len(jobs))
	for _, job := range jobs {
		next <- job
	}
	close(next)
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			for job := range next {
				job()
			}
		})
	}
	group.Wait()
	for _, c := range grid {
		if c.f == defaultFlake {
			c.known = c.set
		}
	}
	return grid
}

// TestTargets holds the planner to what it has to save. It is one test, so that the grid is run once; with SIMULATE=1 it prints the table.
func TestTargets(t *testing.T) {
	t.Parallel()
	if bot.DefaultQueueSettings("main").FlakeRate != defaultFlake {
		t.Fatal("the default flake rate is not the one the targets were set for")
	}
	grid := measure()
	if os.Getenv("SIMULATE") != "" {
		_, _ = os.Stdout.WriteString(table(grid))
	}
	runs, parked := 0, 0
	for i, c := range grid {
		target := targets[i%len(targets)]
		for setting, r := range map[string]result{"by default": c.set, "with the flake rate known": c.known} {
			if ratio := r.perLanded / c.bound; ratio > target.ofBound || ratio < 1 {
				t.Errorf("p %.3f, f %.2f, %s: %.3f times the bound, want 1 to %.2f", c.p, c.f, setting, ratio, target.ofBound)
			}
			if ratio := r.perLanded / c.halving.perLanded; ratio > ofHalving {
				t.Errorf("p %.3f, f %.2f, %s: %.3f of halving, want at most %.2f", c.p, c.f, setting, ratio, ofHalving)
			}
			if ratio := r.perLanded / c.alone.perLanded; ratio > target.ofSerial {
				t.Errorf("p %.3f, f %.2f, %s: %.3f of serial, want at most %.2f", c.p, c.f, setting, ratio, target.ofSerial)
			}
			if r.wronged > mostWronged {
				t.Errorf("p %.3f, f %.2f, %s: %.2f false rejections per 1000, want at most %d", c.p, c.f, setting, r.wronged, mostWronged)
			}
			runs, parked = runs+r.runs, parked+r.parked
		}
	}
	if parked*10_000 > runs {
		t.Errorf("a sound CI was called broken %d times in %d runs, want at most once in 10000", parked, runs)
	}
}

func table(grid []*cell) string {
	var b strings.Builder
	fmt.Fprintf(&b, "CI runs per landed change, %d changes a cell; false: good changes rejected per 1000 landed.\n", changesPerCell)
	fmt.Fprintf(&b, "Ours with flake_rate left at %.0f %%, and known; bors-ng with batches of %d.\n\n", 100*defaultFlake, borsBatch)
	fmt.Fprintf(&b, "%6s %5s %8s | %8s %6s %6s | %8s %6s %6s | %8s %6s %6s | %8s %6s %6s\n",
		"p", "f", "bound", "ours", "ratio", "false", "f known", "ratio", "false", "bors-ng", "ratio", "false", "serial", "ratio", "false")
	for _, c := range grid {
		fmt.Fprintf(&b, "%5.1f%% %4.0f%% %8.4f", 100*c.p, 100*c.f, c.bound)
		for _, r := range []result{c.set, c.known, c.halving, c.alone} {
			fmt.Fprintf(&b, " | %8.4f %6.2f %6.2f", r.perLanded, r.perLanded/c.bound, r.wronged)
		}
		b.WriteString("\n")
	}
	return b.String()
}
