package fault_test

import (
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/batchbot/batchbot/bot/fault"
)

// Every step of the way, W1 to W12, has a write point, and no two have the same name.
func TestEveryStepHasAWritePoint(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile(`^W(\d+)-[a-z]+$`)
	steps := make(map[int]bool)
	writes := fault.Writes()
	for i, w := range writes {
		parts := name.FindStringSubmatch(string(w))
		if parts == nil || slices.Contains(writes[:i], w) {
			t.Errorf("write point %q is named twice, or not like W3-claim", w)
			continue
		}
		step, err := strconv.Atoi(parts[1])
		if err != nil {
			t.Fatal(err)
		}
		steps[step] = true
	}
	for step := 1; step <= 12; step++ {
		if !steps[step] {
			t.Errorf("step W%d has no write point", step)
		}
	}
	if len(steps) != 12 {
		t.Errorf("the steps are %v, want W1 to W12", steps)
	}
}
