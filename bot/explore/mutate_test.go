//go:build mutate

package explore

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot/mutant"
)

// Each guard is taken away in turn: some schedule has to notice, or it guards nothing that is looked at.
func TestMutants(t *testing.T) {
	most := number(t, "EXPLORE_SCHEDULES", 3000)
	caught, chosen := 0, 0
	only := strings.ToLower(text("EXPLORE_GUARD"))
	for _, guard := range mutant.Guards {
		if !strings.Contains(strings.ToLower(string(guard)), only) {
			continue
		}
		chosen++
		mutant.Take(guard)
		began := time.Now()
		seed, words, tried := hunt(t, most)
		if words == "" {
			t.Errorf("%-50s SURVIVED %d schedules", guard, tried)
			continue
		}
		caught++
		fmt.Fprintf(os.Stdout, "%-50s seed %-5d %5.1fs  %.150s\n", guard, seed, time.Since(began).Seconds(), words)
	}
	mutant.Take("")
	if chosen == 0 {
		t.Fatalf("no guard has %q in its name: bot/mutant lists them", only)
	}
	fmt.Fprintf(os.Stdout, "caught %d/%d\n", caught, chosen)
}

// hunt plays schedules until one has a violation.
func hunt(t *testing.T, most int) (seed uint64, words string, tried int) {
	var mu sync.Mutex
	next := uint64(1)
	t.Run("hunt", func(t *testing.T) {
		for part := range 2 {
			t.Run(fmt.Sprint("part ", part), func(t *testing.T) {
				t.Parallel()
				for {
					mu.Lock()
					mine, done := next, words != "" || tried == most
					if !done {
						next++
						tried++
					}
					mu.Unlock()
					if done {
						return
					}
					p := play(t, mine, false)
					mu.Lock()
					if p.violation != "" && (words == "" || mine < seed) {
						seed, words = mine, p.violation
					}
					mu.Unlock()
				}
			})
		}
	})
	return seed, words, tried
}
