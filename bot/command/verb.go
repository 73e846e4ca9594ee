package command

import (
	"slices"
	"strings"
)

// Verb is the word behind /batch, in lower case.
type Verb string

// The verbs of this version.
const (
	Apply   Verb = "" // /batch alone
	Cancel  Verb = "cancel"
	Retry   Verb = "retry"
	Status  Verb = "status"
	Help    Verb = "help"
	Join    Verb = "join" // with the name of a train, where there are several
	Leave   Verb = "leave"
	Unblock Verb = "unblock" // operators; with merged, failed or resume
	With    Verb = "with"    // drafts a curated batch; with merge requests, see Numbers
	Submit  Verb = "submit"
	Approve Verb = "approve"
)

// ours are the verbs this version carries out, later those it knows and does not.
var (
	ours  = []Verb{Cancel, Retry, Status, Help, Join, Leave, Unblock, With, Submit, Approve}
	later = []Verb{"why", "priority", "alone", "now", "pause", "resume"}
)

// Standing says what the bot can do with a verb.
type Standing int

// The standings. The zero value is invalid.
const (
	Ours    Standing = iota + 1 // carried out
	Later                       // known, not in this version
	Unknown                     // a mistake
)

// Standing reports what the bot can do with the verb.
func (v Verb) Standing() Standing {
	switch {
	case v == Apply, slices.Contains(ours, v):
		return Ours
	case slices.Contains(later, v):
		return Later
	}
	return Unknown
}

// Nearest is the known verb that v was probably meant to be, or "" when none is near. A beginning counts as near, else at most two
// wrong, missing, superfluous or swapped letters, and never more than a third of the word. Of equally near ones a verb of this
// version wins.
func (v Verb) Nearest() Verb {
	word := strings.Trim(string(v), ".,;:!?'\"`-/")
	if word == "" || len(word) > 20 {
		return ""
	}
	best, bestDistance := Verb(""), 3
	for _, known := range slices.Concat(ours, later) {
		d := distance(word, string(known))
		if len(word) >= 2 && strings.HasPrefix(string(known), word) {
			d = min(d, 1)
		}
		if d < bestDistance && 3*d <= len(known) {
			best, bestDistance = known, d
		}
	}
	return best
}

// distance is the number of letters to change, insert, delete or swap with their neighbour to turn a into b.
func distance(a, b string) int {
	table := make([][]int, len(a)+1)
	for i := range table {
		table[i] = make([]int, len(b)+1)
		table[i][0] = i
	}
	for j := range table[0] {
		table[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			table[i][j] = min(table[i-1][j]+1, table[i][j-1]+1, table[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				table[i][j] = min(table[i][j], table[i-2][j-2]+1)
			}
		}
	}
	return table[len(a)][len(b)]
}
