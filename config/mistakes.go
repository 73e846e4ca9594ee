package config

import (
	"fmt"
	"slices"
	"strings"
)

// Mistakes is everything found wrong with a file, one line each.
type Mistakes []string

// Error returns the lines.
func (m Mistakes) Error() string { return strings.Join(m, "\n") }

func (m *Mistakes) add(format string, args ...any) { *m = append(*m, fmt.Sprintf(format, args...)) }

// quoted shows what somebody wrote, bounded and without control characters.
func quoted(text string) string {
	const most = 60
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return fmt.Sprintf("%q", text)
}

// unknownKey says that nobody reads key and which of known is meant, if one is near.
func unknownKey(key string, known []string) string {
	if near, ok := nearest(key, known); ok {
		return fmt.Sprintf("unknown key %s: did you mean %s?", quoted(key), near)
	}
	return fmt.Sprintf("unknown key %s: the keys here are %s", quoted(key), strings.Join(known, ", "))
}

// nearest finds the word that differs least from the one written, if it is near enough to be meant.
func nearest(written string, words []string) (string, bool) {
	if len(written) > 100 {
		return "", false
	}
	best, least := "", 1+max(2, len(written)/3)
	for _, w := range words {
		if d := distance(strings.ToLower(written), w); d < least {
			best, least = w, d
		}
	}
	return best, best != ""
}

// distance counts the insertions, deletions, replacements and swaps of neighbours that turn a into b.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replace := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, replace)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

// oneOf lists alternatives for people.
func oneOf(words []string) string {
	switch n := len(words); n {
	case 0:
		return ""
	case 1:
		return words[0]
	default:
		return strings.Join(slices.Clone(words[:n-1]), ", ") + " or " + words[n-1]
	}
}
