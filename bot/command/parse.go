package command

import (
	"strings"
	"unicode"
)

// Limits of what is read of one comment. A host's own limit for a comment is below MaxBody.
const (
	MaxBody     = 256 << 10 // bytes; the rest is not read
	MaxCommands = 10        // per comment
	maxWord     = 500       // bytes of a verb or argument: a merge request may be named by its address
	maxArgs     = 1001      // one more than the merge requests that any command takes
)

// Word is the first word of every command.
const Word = "/batch"

// Command is one command of a comment.
type Command struct {
	Verb Verb     // lower case; not necessarily known
	Args []string // as written
	Line int      // in the comment, from 1
}

// Parse finds the commands of a comment, in order. more reports that there were more than MaxCommands; they are left out.
func Parse(body string) (commands []Command, more bool) {
	// Most comments hold no command at all.
	if len(body) > MaxBody {
		body = body[:MaxBody]
	}
	if !strings.Contains(strings.ToLower(body), Word) {
		return nil, false
	}
	body = strings.TrimPrefix(body, "\ufeff")
	body = strings.ReplaceAll(strings.ReplaceAll(body, "\r\n", "\n"), "\r", "\n")
	r := reader{lines: strings.Split(body, "\n")}
	// Whether a comment that begins inside a line is one depends on whether it ends anywhere.
	for i, line := range r.lines {
		if strings.Contains(line, "-->") {
			r.lastEnd = i
		}
	}
	for i := range r.lines {
		text, ok := r.next(i)
		if !ok {
			continue
		}
		c, ok := parseLine(text)
		if !ok {
			continue
		}
		if len(commands) == MaxCommands {
			return commands, true
		}
		c.Line = i + 1
		commands = append(commands, c)
	}
	return commands, false
}

// reader follows the blocks of a comment line by line.
type reader struct {
	lines   []string
	lastEnd int // index of the last line with "-->"

	inComment bool
	inPre     bool
	fence     string // the run of "`" or "~" that opened a code block; empty outside
	indent    int    // columns in front of it
}

// next returns line i if a reader sees it as ordinary text.
func (r *reader) next(i int) (text string, ok bool) {
	line := r.lines[i]
	indent, rest := dedent(line)
	switch {
	case r.inComment:
		// What follows the end on the same line still belongs to the comment's block.
		if _, behind, found := strings.Cut(line, "-->"); found {
			r.inComment = false
			r.strip(i, behind)
		}
		return "", false
	case r.fence != "":
		if run := fenceRun(rest); len(run) >= len(r.fence) && run[0] == r.fence[0] && strings.TrimSpace(rest[len(run):]) == "" && indent <= r.indent+3 {
			r.fence = ""
		}
		return "", false
	case r.inPre:
		r.inPre = !strings.Contains(strings.ToLower(line), "</pre>")
		return "", false
	}
	inList, column := listItem(rest)
	if run := fenceRun(inList); run != "" && (run[0] == '~' || !strings.Contains(inList[len(run):], "`")) && indent <= 3 {
		r.fence, r.indent = run, indent+column
		return "", false
	}
	if indent >= 4 || strings.HasPrefix(rest, ">") {
		return "", false
	}
	if opens(rest, "<pre") {
		r.inPre = !strings.Contains(strings.ToLower(line), "</pre>")
		return "", false
	}
	return r.strip(i, rest), true
}

// hidden stands for an HTML comment that was removed from a line.
const hidden = "<!---->"

// strip removes the HTML comments that begin on line i and notes whether one goes on behind it.
func (r *reader) strip(i int, text string) string {
	var out strings.Builder
	for text != "" {
		at := strings.IndexAny(text, "`<")
		if at < 0 {
			break
		}
		out.WriteString(text[:at])
		text = text[at:]
		if text[0] == '`' { // a code span that closes on this line
			run := text[:len(text)-len(strings.TrimLeft(text, "`"))]
			n := len(run)
			if end := closing(text[n:], n); end >= 0 {
				n += end
			}
			out.WriteString(text[:n])
			text = text[n:]
			continue
		}
		if !strings.HasPrefix(text, "<!--") {
			out.WriteByte(text[0])
			text = text[1:]
			continue
		}
		if _, behind, found := strings.Cut(text[len("<!--"):], "-->"); found {
			out.WriteString(" " + hidden + " ")
			text = behind
			continue
		}
		if i < r.lastEnd || strings.TrimSpace(out.String()) == "" {
			r.inComment = true
			return out.String()
		}
		break // it never ends and does not begin the line: text
	}
	return out.String() + text
}

// closing finds the end of the next run of exactly n backticks in text, or -1.
func closing(text string, n int) int {
	for i := 0; i < len(text); {
		if text[i] != '`' {
			i++
			continue
		}
		j := i
		for j < len(text) && text[j] == '`' {
			j++
		}
		if j-i == n {
			return j
		}
		i = j
	}
	return -1
}

// dedent splits a line into the columns of its indentation and the rest.
func dedent(line string) (columns int, rest string) {
	for i, c := range line {
		switch c {
		case ' ':
			columns++
		case '\t':
			columns += 4 - columns%4
		default:
			return columns, line[i:]
		}
	}
	return columns, ""
}

// fenceRun is the run of at least three "`" or "~" that text begins with, or "".
func fenceRun(text string) string {
	for _, mark := range []string{"`", "~"} {
		if n := len(text) - len(strings.TrimLeft(text, mark)); n >= 3 {
			return text[:n]
		}
	}
	return ""
}

// listItem skips the markers of list items, since a code block may begin right behind them, and returns the columns skipped.
func listItem(text string) (rest string, columns int) {
	for {
		marker := strings.TrimLeft(text, "0123456789")
		if len(marker) == len(text) {
			if marker == "" || !strings.ContainsRune("-+*", rune(marker[0])) {
				return text, columns
			}
		} else if marker == "" || !strings.ContainsRune(".)", rune(marker[0])) {
			return text, columns
		}
		behind := strings.TrimLeft(marker[1:], " \t")
		if len(behind) == len(marker)-1 {
			return text, columns
		}
		columns += len(text) - len(behind)
		text = behind
	}
}

// opens reports whether text begins with an HTML tag.
func opens(text, tag string) bool {
	if len(text) < len(tag) || !strings.EqualFold(text[:len(tag)], tag) {
		return false
	}
	return len(text) == len(tag) || strings.ContainsRune(" \t>", rune(text[len(tag)]))
}

// parseLine reads a visible line. An HTML comment in front of the command makes it not the first word; behind it, it is nothing.
func parseLine(text string) (Command, bool) {
	text = strings.TrimSpace(text)
	first, rest := text, ""
	if at := strings.IndexFunc(text, unicode.IsSpace); at >= 0 {
		first, rest = text[:at], text[at:]
	}
	if !strings.EqualFold(first, Word) {
		return Command{}, false
	}
	words := strings.Fields(strings.ReplaceAll(rest, hidden, " "))
	for i, w := range words {
		if len(w) > maxWord {
			words[i] = strings.ToValidUTF8(w[:maxWord], "")
		}
	}
	if len(words) > maxArgs+1 {
		words = words[:maxArgs+1]
	}
	if len(words) == 0 {
		return Command{}, true
	}
	return Command{Verb: Verb(strings.ToLower(words[0])), Args: words[1:]}, true
}
