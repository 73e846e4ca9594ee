package githost

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// OneLine makes a host's words fit for a log line or an error: valid text, no control or formatting characters, at most limit runes.
func OneLine(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t' || unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	return Truncate(strings.Join(strings.Fields(s), " "), limit)
}

// Truncate cuts s to at most limit runes; what was cut shows as an ellipsis.
func Truncate(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	var n int
	for i := range s {
		if n++; n == limit {
			return s[:i] + "…"
		}
	}
	return s
}

// Fit cuts s to at most limit bytes, never within a rune; what was cut shows as an ellipsis. For limits of which it is not known what
// they count.
func Fit(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	const ellipsis = "…"
	cut := max(limit-len(ellipsis), 0)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + ellipsis
}
