package storetest

import (
	"database/sql"
	"strings"
	"testing"
)

// frame is rows of the tables as the checker reads them: table, key, and what look selects after them. "-" is NULL.
type frame [][]string

// riding is one operation that was admitted and rides in a batch.
func riding() frame {
	return frame{
		{"operation", "o", "3", "2", "1", "9", "abc"},
		{"binding", "9 main", "3", "2", "4", "o"},
		{"binding_history", "1", "2", "-", "4", "o", "0", "abc"},
		{"binding_history", "2", "3", "2", "4", "o", "5", "abc"},
		{"merge_batch_request", "o", "2", "2", "6", "1", "5", "0"},
		{"merge_batch", "5", "1", "1", "1", "1", "1", "1", "0"},
		{"merge_batch_member", "5 o 1 0", "1", "0", "5", "o", "1", "abc", "1"},
		{"audit", "batch:5:claim", "0", "0", "5", "", "claim", "batchbot", "1"},
		{"outbox", "1 9", "1", "0", "2", "1", "1"},
	}
}

func (f frame) picture() picture {
	p := newPicture()
	for _, row := range f {
		var columns [7]sql.NullString
		for i, v := range row[2:] {
			if v != "-" {
				columns[i] = sql.NullString{String: v, Valid: true}
			}
		}
		p.add(row[0], row[1], columns)
	}
	return p
}

// with sets one column of a row; column 2 is the first that look selects after the key.
func (f frame) with(row, column int, value string) frame {
	f[row][column] = value
	return f
}

func (f frame) without(row int) frame { return append(f[:row:row], f[row+1:]...) }

func (f frame) and(row ...string) frame { return append(f, row) }

func TestCheckerNotices(t *testing.T) {
	t.Parallel()
	if p := riding().picture(); len(p.broken()) > 0 {
		t.Fatalf("%v", p.broken())
	}
	for want, f := range map[string]frame{
		"I1: batches 5 and 7":                                riding().and("merge_batch", "7", "4", "1", "1", "1", "1", "0", "0"),
		"I1: batch 5 is RUNNING and has slot 0":              riding().with(5, 5, "-"),
		"I2: request 6 of queue 1 rides in batch 8":          riding().with(4, 6, "8"),
		"I2: operation o joined batch 5 1 times more":        riding().and("merge_batch_member", "5 o 1 1", "1", "0", "5", "o", "1", "abc", "2"),
		"I2: operation o joined batch 5 -1 times more":       riding().and("merge_batch_member", "5 o 5 0", "5", "0", "5", "o", "1", "abc", "2"),
		"I2: batch 5 claimed 1 and says 2":                   riding().with(5, 7, "2"),
		"I2: operation o is BATCHED":                         riding().with(4, 6, "-"),
		"I4: operation o is BATCHED, and it is false":        riding().without(4),
		"I4: request 6 belongs to no operation":              riding().without(0),
		"unique keys: 2 rows are merge_batch_request o":      riding().and("merge_batch_request", "o", "2", "1", "7", "1", "-", "0"),
		"unique keys: 2 rows are binding 9 main":             riding().and("binding", "9 main", "3", "2", "8", "o"),
		"I5: binding 4 is WAITING and its operation":         riding().with(1, 2, "2"),
		"I5: operation o is BATCHED and no binding is for":   riding().with(1, 5, "x"),
		"I6: binding 4 has version 3 after 2 changes":        riding().with(1, 3, "3"),
		"I6: operation o has version 1 after 2 changes":      riding().with(0, 3, "1"),
		"I6: history entry 2 goes from PENDING_APPROVAL":     riding().with(3, 3, "1"),
		"I6: batch 5 is RUNNING and was settled 1 times":     riding().and("audit", "batch:5:settle", "0", "0", "5", "", "settle", "batchbot", "2"),
		"the tables' constraints: operation o has status 0":  riding().with(0, 2, "0"),
		"the tables' constraints: outbox 1 9 is wanted 2 an": riding().with(8, 5, "3"),
	} {
		p := f.picture()
		if broken := p.broken(); !strings.Contains(strings.Join(broken, "\n"), want) {
			t.Errorf("%q is not among %v", want, broken)
		}
	}
}

func TestFilmNotices(t *testing.T) {
	t.Parallel()
	for want, next := range map[string]frame{
		"I6: merge_batch 5 in version 1 was": riding().with(5, 6, "2"),
		"went back from version 2 to 1":      riding().with(4, 3, "1"),
		"append-only: audit batch:5:claim":   riding().without(7),
		"append-only: binding_history 1":     riding().with(2, 7, "abd"),
	} {
		var f film
		if broken := f.add(riding().picture()); len(broken) > 0 {
			t.Fatal(broken)
		}
		if broken := f.add(next.picture()); !strings.Contains(strings.Join(broken, "\n"), want) {
			t.Errorf("%q is not among %v", want, broken)
		}
	}
}
