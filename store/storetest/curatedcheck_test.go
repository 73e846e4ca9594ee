package storetest

import (
	"strings"
	"testing"
)

// ridingSet is an approved set of two that rides in a batch of its own.
func ridingSet() frame {
	f := frame{
		{"approval_request", "3", "3", "4", "1", "9", "9", "ann ben", ""},
		{"curated_row", "3 1", "1", "2", "31", "3", "1", "11", "abc o"},
		{"curated_row", "3 2", "1", "2", "32", "3", "2", "12", "abc p"},
		{"merge_batch", "5", "1", "1", "1", "1", "1 -3", "2", "0"},
		{"audit", "batch:5:claim", "0", "0", "5", "", "claim", "batchbot", "1"},
	}
	for i, op := range []string{"o", "p"} {
		n := []string{"1", "2"}[i]
		f = append(f,
			[]string{"operation", op, "3", "2", "1", "9", "abc"},
			[]string{"binding", n + " main", "3", "2", "4" + n, op},
			[]string{"binding_history", n + "1", "2", "-", "4" + n, op, "0", "abc"},
			[]string{"binding_history", n + "2", "3", "2", "4" + n, op, "5", "abc"},
			[]string{"merge_batch_request", op, "2", "2", "6" + n, "1", "5", "-3"},
			[]string{"merge_batch_member", "5 " + op + " 1 0", "1", "0", "5", op, n, "abc", n})
	}
	return f
}

func TestCheckerNoticesPartsOfSets(t *testing.T) {
	t.Parallel()
	if p := ridingSet().picture(); len(p.broken()) > 0 {
		t.Fatalf("%v", p.broken())
	}
	const request = 9 // of o
	for want, f := range map[string]frame{
		"neither waits nor rides as one":                    ridingSet().without(request),
		"they are in batches map[0:1 5:1]":                  ridingSet().with(request, 6, "-"),
		"operation o of cohort 0 rides in batch 5":          ridingSet().with(request, 7, "0"),
		"rides in batch 5 of cohort 0":                      ridingSet().with(3, 6, "1 0"),
		"set 3 is REJECTED and 2 of it wait or ride":        ridingSet().with(0, 2, "5"),
		"2 requests are of set 3, which does not exist":     ridingSet().without(0),
		"set 3 is APPROVED with 1 draft rows":               ridingSet().and("draft_row", "3 1", "1", "1", "21", "3", "1", "11", ""),
		"set 3 of merge request row 9 is APPROVED":          ridingSet().with(0, 6, "-"),
		`set 3 is DONE, and its member "o" is BATCHED`:      ridingSet().with(0, 2, "4"),
		"unique keys: 2 rows are curated_row 3 1":           ridingSet().and("curated_row", "3 1", "1", "1", "33", "3", "1", "13", "abc "),
		"draft_row of set 4 has row_no 0 and merge request": ridingSet().and("draft_row", "4 0", "1", "1", "21", "4", "0", "11", ""),
		"sets 3 and 4 of merge request row 9 are not over":  ridingSet().and("approval_request", "4", "1", "1", "1", "9", "9", "ann ", ""),
	} {
		p := f.picture()
		if broken := p.broken(); !strings.Contains(strings.Join(broken, "\n"), want) {
			t.Errorf("%q is not among %v", want, broken)
		}
	}
}
