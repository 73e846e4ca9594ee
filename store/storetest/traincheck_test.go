package storetest

import (
	"strings"
	"testing"
)

// boardingTrain is a train with one of one seats taken and one in line.
func boardingTrain() frame {
	f := frame{
		{"train", "7", "1", "3", "1", "1", "1", "1", "3"},
		{"train_seat", "7 1", "1", "1", "7", "o", "1", "0", "71"},
		{"train_seat", "7 2", "2", "1", "7", "p", "2", "0", "72"},
	}
	for i, op := range []string{"o", "p"} {
		n := []string{"1", "2"}[i]
		f = append(f,
			[]string{"operation", op, "1", "1", "1", "9", "abc"},
			[]string{"binding", n + " main", "1", "1", "4" + n, op},
			[]string{"binding_history", n + "1", "1", "-", "4" + n, op, "0", "abc"})
	}
	return f
}

func TestCheckerNoticesSeats(t *testing.T) {
	t.Parallel()
	if p := boardingTrain().picture(); len(p.broken()) > 0 {
		t.Fatalf("%v", p.broken())
	}
	const first, second, operation, binding = 1, 2, 3, 4
	for want, f := range map[string]frame{
		"train 7 counts 0 confirmed seats and has 1":              boardingTrain().with(0, 5, "0"),
		"train 7 has 1 of 1 seats confirmed and 0 in force":       boardingTrain().with(0, 6, "0"),
		"train 7 has 1 of 0 seats confirmed and 2 in force":       boardingTrain().with(0, 7, "0").with(0, 6, "2"),
		"1 wait for train 7, which has 1 of 2 seats confirmed":    boardingTrain().with(0, 7, "2").with(0, 6, "2"),
		"train 7 is DEPARTED and has live seats":                  boardingTrain().with(0, 2, "2"),
		"train 7 gives place 2 next and has given 2":              boardingTrain().with(0, 8, "2"),
		"two seats of train 7 have place 2":                       boardingTrain().with(first, 6, "2"),
		"has a seat and joined behind one who waits":              boardingTrain().with(first, 6, "3").with(0, 8, "4"),
		"operation o departed with train 7 and was not admitted":  boardingTrain().with(first, 2, "4"),
		"operation o has live seats of trains 7 and 7":            boardingTrain().with(second, 5, "o"),
		"operation o has a live seat of train 7 and is CANCELLED": boardingTrain().with(operation, 2, "6").with(binding, 2, "6"),
	} {
		p := f.picture()
		if broken := p.broken(); !strings.Contains(strings.Join(broken, "\n"), want) {
			t.Errorf("%q is not among %v", want, broken)
		}
	}
}
