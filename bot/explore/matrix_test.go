package explore

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/batchbot/batchbot/bot"
)

// What may strike whom while what else happens: write points × modes × races. A cell is one of each, the race less than near steps from the strike.

// point is a write point, as docs/reliability.md tells them.
type point int

const (
	w1Delivery point = iota
	w2Admission
	w3Claim
	w4Push
	w5Open
	w6Build
	w7Verdict
	w8Intent
	w9Landing
	w10Done
	w11Release
	w12Effect
	points
)

// mode is how a write is struck.
type mode int

const (
	m1Before mode = iota // its instance is killed before
	m2After              // its instance is killed after
	m3Lost               // it happened, and nobody is told
	m4Sleep              // its instance sleeps before it for longer than a lease
	m5Server             // the database dies with it
	modes
)

// race is what else happens.
type race int

const (
	e1Twice        race = iota // the same approval or command again
	e2Push                     // to a member
	e3Consent                  // withdrawn, or the merge request closed, drafted, retargeted
	e4ByHand                   // a member is merged
	e5Target                   // somebody pushes to it
	e6Forced                   // the target goes back, or is deleted
	e7CI                       // its result is lost, late, twice, for nothing
	e8Hooks                    // out of order, twice, never
	e9BatchMR                  // closed, reopened, merged or its branch moved or deleted by a person
	e10Settings                // change
	e11Host                    // fails, before or after the effect, or asks for a pause
	e12Credentials             // are refused for a while
	e13Clock                   // the database's jumps
	races
)

const near = 40

// matrix counts what happened in schedules.
type matrix struct {
	strikes []strike
	seen    []sight
	struck  [points][modes]int
	raced   [races]int
	cells   [points][modes][races]int
}

type strike struct {
	step int
	point
	mode
}

type sight struct {
	step int
	race
}

// strikes a write at a point; points that are none are not counted.
func (m *matrix) strike(step int, p point, how mode) {
	if p < points {
		m.strikes = append(m.strikes, strike{step, p, how})
		m.struck[p][how]++
	}
}

func (m *matrix) race(step int, r race) {
	m.seen = append(m.seen, sight{step, r})
	m.raced[r]++
}

// cross counts the cells of one schedule, each once.
func (m *matrix) cross() {
	for _, s := range m.strikes {
		for _, r := range m.seen {
			if d := r.step - s.step; d < near && -d < near {
				m.cells[s.point][s.mode][r.race] = 1
			}
		}
	}
	m.strikes, m.seen = nil, nil
}

func (m *matrix) add(o *matrix) {
	for p := range points {
		for how := range modes {
			m.struck[p][how] += o.struck[p][how]
			for r := range races {
				m.cells[p][how][r] += o.cells[p][how][r]
			}
		}
	}
	for r := range races {
		m.raced[r] += o.raced[r]
	}
}

// exercised counts the cells that occurred in at least so many schedules.
func (m *matrix) exercised(least int) (n int) {
	for p := range points {
		for how := range modes {
			for r := range races {
				if m.cells[p][how][r] >= least {
					n++
				}
			}
		}
	}
	return n
}

func (m *matrix) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%5s%8s%8s%8s%8s%8s\n", "", "M1", "M2", "M3", "M4", "M5")
	for p, row := range m.struck {
		fmt.Fprintf(&b, "%5s", fmt.Sprint("W", p+1))
		for _, n := range row {
			fmt.Fprintf(&b, "%8d", n)
		}
		b.WriteByte('\n')
	}
	for r, n := range m.raced {
		fmt.Fprintf(&b, "E%d %d  ", r+1, n)
	}
	all := int(points) * int(modes) * int(races)
	fmt.Fprintf(&b, "\n%d of %d cells, %d of them in at least 5 schedules", m.exercised(1), all, m.exercised(5))
	return b.String()
}

// enough is how many schedules have to reach what hold asks for.
const enough = 2000

// hold fails the test when that many schedules missed what they are for.
func (m *matrix) hold(t *testing.T) {
	t.Helper()
	for p, row := range m.struck {
		for how, n := range row {
			if n < 10 {
				t.Errorf("write point W%d was struck %d times by M%d, want 10", p+1, n, how+1)
			}
		}
	}
	for r, n := range m.raced {
		if n < 200 {
			t.Errorf("E%d happened %d times, want 200", r+1, n)
		}
	}
	if n, all := m.exercised(1), int(points)*int(modes)*int(races); n < all*9/10 {
		t.Errorf("%d of the %d cells of the fault matrix occurred, want nine of ten", n, all)
	}
}

// pointKey is the context key of the write point of a write of rows that its name does not tell.
type pointKey struct{}

func writing(ctx context.Context, p point) context.Context {
	return context.WithValue(ctx, pointKey{}, p)
}

// pointOf tells the write point of a call; points: none.
func pointOf(ctx context.Context, what kind, name string) point {
	if p, ok := ctx.Value(pointKey{}).(point); ok {
		return p
	}
	if what != writeRows && what != writeHost {
		return points
	}
	loop, _, _ := strings.Cut(actorOf(ctx), " ")
	if loop == loops[outboxLoop] && name != "claim errands" {
		return w12Effect
	}
	for _, p := range []struct {
		prefix string
		point
	}{
		{"apply ", w2Admission}, {"answer command", w2Admission}, {"claim on queue", w3Claim}, {"push ", w4Push}, {"open a merge request", w5Open},
		{"record a build", w6Build}, {"merge !", w9Landing}, {"fast-forward", w9Landing}, {"close !", w11Release},
	} {
		if strings.HasPrefix(name, p.prefix) {
			return p.point
		}
	}
	if strings.HasPrefix(name, "move operation") {
		if loop == loops[roundLoop] {
			return w11Release
		}
		return w2Admission
	}
	return points
}

// changes tells the write point of a change of a batch's row.
func changes(c bot.BatchChange) point {
	switch {
	case c.Code.Fails():
		return w7Verdict
	case c.Phase == bot.PhaseLanding:
		return w8Intent
	case c.MRNumber != 0:
		return w5Open
	case c.Phase == bot.PhaseClaimed:
		return w11Release
	}
	return points
}
