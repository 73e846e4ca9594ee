package explore

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

func text(name string) string { return os.Getenv(name) }

// number reads a whole number from the environment.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := text(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s=%q is not a whole number", name, text)
	}
	return n
}

// Random schedules of three instances against everything that goes wrong: EXPLORE_SCHEDULES says how many, EXPLORE_SEED plays one of
// them alone and tells every step.
func TestSchedules(t *testing.T) {
	t.Parallel()
	if seed := number(t, "EXPLORE_SEED", 0); seed != 0 {
		p := play(t, uint64(seed), true)
		t.Log("\n" + strings.Join(p.story, "\n"))
		p.report(t, uint64(seed), 5, "make explore SEED=%d")
		return
	}
	playAll(t, uint64(number(t, "EXPLORE_FIRST", 1)), number(t, "EXPLORE_SCHEDULES", 60), 2)
}

// A seed is a schedule: played twice, every step is the same.
func TestSeedIsSchedule(t *testing.T) {
	t.Parallel()
	for seed := range uint64(number(t, "EXPLORE_TWICE", 5)) {
		once, again := play(t, 100+seed, false).story, play(t, 100+seed, false).story
		for i := range min(len(once), len(again)) {
			if once[i] != again[i] {
				t.Fatalf("seed %d, step %d:\n%s\nthe second time:\n%s", 100+seed, i, once[i], again[i])
			}
		}
		if len(once) != len(again) {
			t.Errorf("seed %d: %d steps, the second time %d", 100+seed, len(once), len(again))
		}
	}
}
