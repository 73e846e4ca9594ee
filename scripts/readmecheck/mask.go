package main

import (
	"regexp"
	"slices"
	"strings"
)

// masks replace what differs from run to run, in this order. CONTRIBUTING.md
// lists them for authors.
var masks = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`), "<uuid>"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?( ?(Z|[+-]\d\d:?\d\d))?)?`), "<when>"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d(\.\d+)?\b`), "<when>"},
	{regexp.MustCompile(`(127\.0\.0\.1|localhost|\[::1\]):\d+`), "$1:<port>"},
	{regexp.MustCompile(`/tmp/[^\s"'` + "`" + `]+`), "<tmp>"},
	{regexp.MustCompile(`-\d+-g[0-9a-f]{7,40}`), "-<commits>"},
	{regexp.MustCompile(`\b[0-9a-f]{7,40}\b`), "<sha>"},
	{regexp.MustCompile(`(<sha>|<commits>)-dirty`), "$1"},
	{regexp.MustCompile(`(_ms": *)\d+`), "$1<time>"},
	{regexp.MustCompile(`\b(\d+(\.\d+)?(h|ms|m|µs|us|ns|s))+\b`), "<time>"},
	{regexp.MustCompile(`\bgo1(\.\d+)+\b`), "<go>"},
}

// mask returns line with everything replaced that differs from run to run, and
// with runs of blanks as one blank, since columns move with what is in them.
func mask(line string) string {
	for _, m := range masks {
		line = m.pattern.ReplaceAllString(line, m.with)
	}
	return strings.Join(strings.Fields(line), " ")
}

// lines splits what a command printed and masks it. Progress of the Go tool is
// dropped: it depends on what the machine has in its caches.
func lines(text string) []string {
	var masked []string
	for line := range strings.SplitSeq(text, "\n") {
		if !strings.HasPrefix(line, "go: downloading ") {
			masked = append(masked, mask(line))
		}
	}
	return trimEnd(masked)
}

func trimEnd(masked []string) []string {
	for len(masked) > 0 && masked[len(masked)-1] == "" {
		masked = masked[:len(masked)-1]
	}
	return masked
}

// anyLines is the line that stands for any number of lines.
const anyLines = "..."

// mismatch compares the masked output with the wanted lines, in which "..."
// stands for any number of lines. It returns "" if they agree, else what is the
// matter, in one line.
func mismatch(want, got []string) string {
	var parts [][]string // of want, between the "..."
	part := []string{}
	for _, line := range want {
		if strings.TrimSpace(line) == anyLines {
			parts = append(parts, part)
			part = []string{}
			continue
		}
		part = append(part, mask(line))
	}
	parts = append(parts, trimEnd(part))

	rest := got
	for i, part := range parts {
		first, last := i == 0, i == len(parts)-1
		switch {
		case first && last:
			if !slices.Equal(part, rest) {
				return difference(part, rest)
			}
		case first:
			if len(rest) < len(part) || !slices.Equal(part, rest[:len(part)]) {
				return difference(part, rest)
			}
			rest = rest[len(part):]
		case last:
			if len(rest) < len(part) {
				return "missing at the end: " + part[0]
			}
			if tail := rest[len(rest)-len(part):]; !slices.Equal(part, tail) {
				return "at the end, " + difference(part, tail)
			}
		default:
			at := find(part, rest)
			if at < 0 {
				return "nowhere after the part before it: " + part[0]
			}
			rest = rest[at+len(part):]
		}
	}
	return ""
}

func find(part, in []string) int {
	for at := 0; at+len(part) <= len(in); at++ {
		if slices.Equal(part, in[at:at+len(part)]) {
			return at
		}
	}
	return -1
}

// difference names the first line in which two texts differ that are known to.
func difference(want, got []string) string {
	for i, line := range want {
		if i >= len(got) {
			return "missing: " + line
		}
		if line != got[i] {
			return "the README shows: " + line + "\n          it is now: " + got[i]
		}
	}
	return "more than the README shows: " + got[len(want)]
}
