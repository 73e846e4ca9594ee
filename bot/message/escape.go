package message

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"
)

// breaker splits what a host would otherwise turn into a mention, reference or link. It is invisible to readers.
const breaker = "\u200b"

const (
	titleLimit  = 120  // runes of a title
	nameLimit   = 200  // runes of a branch or file name
	detailLimit = 1500 // runes of a detail: a list of files, a host's words
)

// Plain makes untrusted text safe for a commit message, a title or a status: one line of at most limit runes in which nothing
// mentions, refers, closes, links or tells CI to skip.
func Plain(text string, limit int) string {
	return disarm(clean(text, limit), func(r rune) string { return string(r) })
}

// inline makes untrusted text safe inside a line of Markdown, table cells included. It never begins a line, so what has a meaning
// there only needs no escape.
func inline(text string, limit int) string {
	return disarm(clean(text, limit), func(r rune) string {
		switch r {
		case '&':
			return "&amp;"
		case '<':
			return "&lt;"
		case '>':
			return "&gt;"
		case '|':
			return "&#124;"
		case '\\', '`', '*', '_', '[', ']', '~', '$':
			return `\` + string(r)
		}
		return string(r)
	})
}

// code shows a branch, file or commit as a code span when it is made of ordinary characters, else as escaped text.
func code(text string) string {
	short := clean(text, nameLimit)
	if short != "" && short == text && !strings.ContainsFunc(text, func(r rune) bool {
		return r > unicode.MaxASCII || (!unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(" ._/@+-,:=~#", r))
	}) {
		return "`" + text + "`"
	}
	return inline(text, nameLimit)
}

// Files names files for a detail, so that a person sees where a conflict is: the first twenty, then how many more.
func Files(files []string) string {
	const most = 20
	if len(files) <= most {
		return strings.Join(files, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(files[:most], ", "), len(files)-most)
}

// detail shows a composed explanation. A word of it that is a whole web address becomes a link, so that a failed check can be
// opened; no file or branch name can be one, since git allows neither "//" in a path nor ":" in a branch.
func detail(text string) string {
	words := strings.Fields(clean(text, detailLimit))
	for i, w := range words {
		bare := strings.TrimRight(w, ".,;")
		if address := safeURL(bare); address != "" {
			words[i] = "<" + address + ">" + w[len(bare):]
			continue
		}
		words[i] = inline(w, detailLimit)
	}
	return strings.Join(words, " ")
}

// link shows label (trusted) as a link, or alone when address is not an ordinary web address.
func link(label, address string) string {
	if address = safeURL(address); address == "" {
		return label
	}
	return "[" + label + "](" + address + ")"
}

func safeURL(address string) string {
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.User != nil || len(address) > 500 {
		return ""
	}
	if strings.ContainsFunc(address, func(r rune) bool {
		return r > unicode.MaxASCII || unicode.IsControl(r) || strings.ContainsRune(" <>()[]\\\"'`|{}", r)
	}) {
		return ""
	}
	return address
}

// clean flattens text to one line of at most limit runes without control, direction and invisible characters.
func clean(text string, limit int) string {
	// A rune is at most four bytes: a huge text is cut before it is looked at rune by rune.
	if len(text) > 8*limit {
		text = text[:8*limit]
	}
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r) || unicode.IsControl(r):
			return ' '
		case unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Co, r) || r == '\u115f' || r == '\u1160' || r == '\u3164' || r == unicode.ReplacementChar:
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) > limit {
		return strings.TrimSpace(string(runes[:limit-1])) + "…"
	}
	return string(runes)
}

// disarm writes text rune by rune through escape and breaks whatever a host reads a meaning into: @mention, #12, !12, $12,
// %milestone, ~label, &epic, [skip ci], GH-12, scheme://, www.
func disarm(text string, escape func(rune) string) string {
	var b strings.Builder
	runes := []rune(text)
	at := func(i int) rune {
		if i < 0 || i >= len(runes) {
			return ' '
		}
		return runes[i]
	}
	word := func(end int, w string) bool {
		start := end - len(w)
		return start >= 0 && strings.EqualFold(string(runes[start:end]), w)
	}
	for i, r := range runes {
		switch {
		case r == '-' && word(i, "gh"), r == '.' && word(i, "www"), r == '/' && at(i-1) == ':':
			b.WriteString(breaker)
		}
		b.WriteString(escape(r))
		switch r {
		case '@', '#', '!', '$', '%', '~', '&', '[', '*', '＠', '＃':
			if !unicode.IsSpace(at(i+1)) && i+1 < len(runes) {
				b.WriteString(breaker)
			}
		}
	}
	return b.String()
}
