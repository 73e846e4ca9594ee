package plan

import (
	"fmt"
	"math"
	"testing"

	"github.com/batchbot/batchbot/bot"
)

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*max(1, math.Abs(want)) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// What makes a batch red when the suspects are good, written out for each history.
func TestLuck(t *testing.T) {
	t.Parallel()
	const p, f = 0.1, 0.02
	good := func(n int) float64 { return math.Pow(1-p, float64(n)) }
	for _, c := range []struct {
		name   string
		n      int
		trials []bot.Trial
		want   float64
	}{
		{"nothing is known", 3, nil, 1},
		{"one red batch, all of it suspects", 5, []bot.Trial{red(7, 0, 5)}, f},
		{"red twice", 5, []bot.Trial{red(7, 0, 5), red(8, 7, 5)}, f * f},
		{"who landed is good", 2, []bot.Trial{red(7, 0, 5), green(8, 7, 3)}, f},
		{"a culprit may be in what was given back", 2, []bot.Trial{red(7, 0, 5), red(8, 7, 2)}, f * (1 - good(3)*(1-f))},
		{"given back after some had landed", 1, []bot.Trial{red(7, 0, 9), green(8, 7, 4), red(9, 7, 2), green(10, 7, 1)}, f * (1 - good(3)*(1-f))},
		{"a culprit in the inner tail makes the outer one red as well", 1, []bot.Trial{red(7, 0, 9), red(8, 7, 4), red(9, 7, 1)},
			f*(1-good(3)) + f*f*good(3)*(1-good(5)) + f*f*f*good(3)*good(5)},
		{"who left may have been it", 3, []bot.Trial{red(7, 0, 5)}, 1 - good(2)*(1-f)},
		{"other searches say nothing", 5, []bot.Trial{red(5, 0, 4), red(7, 0, 5), red(8, 0, 3), green(9, 5, 2), red(10, 8, 1)}, f},
		{"nothing before a broken CI counts", 5, []bot.Trial{red(7, 0, 5), broke(8, 0, 3), red(9, 7, 5)}, f},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := believe(7, c.n, c.trials, Rates{Culprit: p, Flake: f})
			near(t, "luck", b.luck, c.want)
			near(t, "guilt", b.guilty(), (1-good(c.n))/(1-good(c.n)+good(c.n)*c.want))
		})
	}
}

// TestPrefixHalves compares with every other prefix.
func TestPrefixHalves(t *testing.T) {
	t.Parallel()
	for _, p := range []float64{0.0005, 0.01, 0.1, 0.38} {
		for _, luck := range []float64{0, 0.001, 0.01} {
			for n := 2; n <= 60; n++ {
				b := belief{rates: Rates{Culprit: p, Flake: 0.01}, n: n, luck: luck}
				k := b.prefix()
				if b.again() {
					if k != n {
						t.Fatalf("p %v, luck %v, n %d: a likely flake, and only %d are tested again", p, luck, n, k)
					}
					continue
				}
				if k < 1 || k >= n {
					t.Fatalf("p %v, luck %v, n %d: prefix %d", p, luck, n, k)
				}
				for other := 1; other < n; other++ {
					if math.Abs(b.clear(other)-0.5) < math.Abs(b.clear(k)-0.5)-1e-12 {
						t.Errorf("p %v, luck %v, n %d: %d halves better than %d", p, luck, n, other, k)
					}
				}
			}
		}
	}
}

func TestRunsExpected(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{1: "1.0", 2: "1.5", 4: "2.5", 8: "3.5", 16: "4.5", 50: "6.1"} {
		b := belief{rates: Rates{Culprit: 0.0005}, n: n}
		if got := fmt.Sprintf("%.1f", b.runs()); got != want {
			t.Errorf("%d suspects: %s runs expected, want %s", n, got, want)
		}
	}
}

func TestRatesOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		flake   float64
		trials  []bot.Trial
		culprit float64
		want    float64
	}{
		{"a new queue", 0.01, nil, 1.0 / 50, 0.01},
		{"what lands is good", 0.01, []bot.Trial{green(1, 0, 30), green(2, 0, 20)}, 1.0 / 100, 0.5 / 52},
		{"a culprit found, behind which a flake may hide", 0.01, []bot.Trial{red(1, 0, 4), green(2, 1, 2), rejected(3, 1)}, 2.0 / 53, 0.5 / 50.5},
		{"a search that found nobody was for a flake", 0, []bot.Trial{red(1, 0, 4), green(2, 1, 2), green(3, 0, 9), green(4, 1, 2)}, 1.0 / 63, 1.0 / 54},
		{"the same set again, and green", 0, []bot.Trial{red(1, 0, 4), red(2, 1, 4), green(3, 1, 4)}, 1.0 / 54, 1.0 / 52},
		{"what was given back may have held the culprit", 0, []bot.Trial{red(1, 0, 4), red(2, 1, 2), green(3, 1, 2)}, 1.0 / 52, 1.0 / 52},
		{"a search under way says nothing yet", 0, []bot.Trial{red(1, 0, 4), green(2, 1, 2), red(3, 0, 9)}, 1.0 / 52, 0},
		{"a broken CI says nothing", 0, []bot.Trial{red(1, 0, 4), broke(2, 0, 3), green(3, 1, 4)}, 1.0 / 54, 0},
		{"a curated batch is not searched", 0, []bot.Trial{curated(9, -3, 4), curatedOut(10, -3, 4), green(11, 0, 4)}, 1.0 / 54, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := RatesOf(c.trials, c.flake)
			near(t, "culprit rate", got.Culprit, c.culprit)
			near(t, "flake rate", got.Flake, c.want)
		})
	}
	if size := (Rates{Culprit: mostCulprit}).size(); size != 1 {
		t.Errorf("where most changes break CI, %d are tested together", size)
	}
}
