package command

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// found shows commands as "line:verb args".
func found(body string) []string {
	commands, _ := Parse(body)
	var out []string
	for _, c := range commands {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%d:%s %s", c.Line, c.Verb, strings.Join(c.Args, " "))))
	}
	return out
}

func TestCommandsAreFoundWhereReadersSeeThem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		body string
		want []string
	}{
		{"alone", "/batch", []string{"1:"}},
		{"with a verb", "/batch cancel", []string{"1:cancel"}},
		{"verb in any case", "/batch CaNcEl", []string{"1:cancel"}},
		{"word in any case", "/Batch", []string{"1:"}},
		{"arguments as written", "/batch with #12 #15", []string{"1:with #12 #15"}},
		{"spaces around", "  /batch   retry  ", []string{"1:retry"}},
		{"no-break space", "/batch\u00a0status", []string{"1:status"}},
		{"byte order mark", "\ufeff/batch", []string{"1:"}},
		{"on a later line", "Looks good.\n\n/batch\nThanks.", []string{"3:"}},
		{"carriage returns", "Hi\r\n/batch cancel\r\n", []string{"2:cancel"}},
		{"old Mac line ends", "Hi\r/batch cancel\r", []string{"2:cancel"}},
		{"several", "/batch cancel\ntext\n/batch\n/batch status", []string{"1:cancel", "3:", "4:status"}},
		{"below a quote", "> /batch cancel\n\n/batch", []string{"3:"}},
		{"after a closed fence", "```\n/batch cancel\n```\n/batch", []string{"4:"}},
		{"after a closed comment", "<!--\n/batch cancel\n-->\n/batch", []string{"4:"}},
		{"comment behind it", "/batch <!-- now --> cancel", []string{"1:cancel"}},
		{"below a code span that looks like a comment", "see `<!--` there\n/batch", []string{"2:"}},
		{"below a comment mark that never ends", "a <!-- b\n/batch", []string{"2:"}},
		{"unknown verb", "/batch frobnicate", []string{"1:frobnicate"}},

		{"in a sentence", "please /batch this", nil},
		{"a longer word", "/batched\n/batch-cancel\n/batch,", nil},
		{"another slash", "//batch\n\\/batch", nil},
		{"in a code span", "`/batch`", nil},
		{"quoted", "> /batch\n>/batch\n   > /batch\n> > /batch", nil},
		{"fenced", "```\n/batch\n```", nil},
		{"fenced with a language", "```sh\n/batch\n```", nil},
		{"fenced with tildes", "~~~\n/batch\n```\n/batch\n~~~", nil},
		{"longer fence", "````\n```\n/batch\n```\n/batch\n````", nil},
		{"fence that never closes", "```\n/batch", nil},
		{"fence closed by something with words behind", "```\n``` no\n/batch\n```", nil},
		{"fence in a list", "- ```\n  /batch\n  ```\n", nil},
		{"fence in a numbered list", "1. ```\n   /batch\n   ```\n", nil},
		{"indented code", "text\n\n    /batch\n\t/batch\n  \t/batch", nil},
		{"preformatted", "<pre>\n/batch\n</pre>", nil},
		{"comment", "<!-- /batch -->", nil},
		{"comment over lines", "<!--\n/batch\n-->", nil},
		{"comment that begins in a line", "text <!-- hidden\n/batch\nstill --> text", nil},
		{"comment that never ends", "<!--\n/batch", nil},
		{"behind the end of a comment", "<!--\n--> /batch", nil},
		{"behind a comment", "<!-- x --> /batch", nil},
		{"two comments", "<!-- a --> <!-- b\n/batch\n-->", nil},
		{"list item", "- /batch\n* /batch\n1. /batch", nil},
		{"empty", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := found(c.body); !slices.Equal(got, c.want) {
				t.Errorf("found %q in %q, want %q", got, c.body, c.want)
			}
		})
	}
}

func TestInputIsBounded(t *testing.T) {
	t.Parallel()
	commands, more := Parse(strings.Repeat("/batch\n", 100))
	if len(commands) != MaxCommands || !more {
		t.Errorf("of 100 commands %d were read, more %t", len(commands), more)
	}
	if _, more := Parse(strings.Repeat("/batch\n", MaxCommands)); more {
		t.Error("a comment with exactly as many as allowed holds no more")
	}
	if got := found(strings.Repeat("x\n", MaxBody) + "/batch"); got != nil {
		t.Errorf("read past the limit: %q", got)
	}
	commands, _ = Parse("/batch " + strings.Repeat("w", 100_000) + strings.Repeat(" a", 1000))
	if len(commands) != 1 || len(commands[0].Verb) > maxWord || len(commands[0].Args) > maxArgs {
		t.Errorf("a huge line became %d commands", len(commands))
	}
}

func TestVerbsHaveAStanding(t *testing.T) {
	t.Parallel()
	for verb, want := range map[Verb]Standing{
		"": Ours, "cancel": Ours, "retry": Ours, "status": Ours, "help": Ours, "unblock": Ours, "join": Ours, "leave": Ours,
		"why": Later, "priority": Later, "alone": Later, "now": Later, "pause": Later, "resume": Later,
		"with": Ours, "submit": Ours, "approve": Ours,
		"cancle": Unknown, "merge": Unknown,
	} {
		if got := verb.Standing(); got != want {
			t.Errorf("%q stands at %d, want %d", verb, got, want)
		}
	}
}

func TestMistakesFindTheNearestVerb(t *testing.T) {
	t.Parallel()
	for verb, want := range map[Verb]Verb{
		"cancle": "cancel", "canel": "cancel", "cancel.": "cancel", "cance": "cancel", "retyr": "retry", "statsu": "status",
		"stat": "status", "hlep": "help", "approv": "approve", "prio": "priority", "resum": "resume",
		"deploy": "", "x": "", "please": "", Verb(strings.Repeat("cancel", 10)): "",
	} {
		if got := verb.Nearest(); got != want {
			t.Errorf("%q is nearest to %q, want %q", verb, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"/batch", "```\n/batch\n```", "<!-- \n/batch -->", "> /batch", "- ~~~\n/batch", "a `` ` `<!--` /batch", "\t/batch\r\n/batch x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		commands, more := Parse(body)
		if len(commands) > MaxCommands || (more && len(commands) != MaxCommands) {
			t.Fatalf("%d commands, more %t", len(commands), more)
		}
		lines := strings.Split(strings.ReplaceAll(strings.ReplaceAll(strings.TrimPrefix(body, "\ufeff"), "\r\n", "\n"), "\r", "\n"), "\n")
		last := 0
		for _, c := range commands {
			if c.Line <= last || c.Line > len(lines) {
				t.Fatalf("line %d after %d of %d", c.Line, last, len(lines))
			}
			last = c.Line
			if line := strings.TrimSpace(lines[c.Line-1]); !strings.EqualFold(line[:min(len(line), len(Word))], Word) {
				t.Fatalf("line %d is no command: %q", c.Line, line)
			}
			c.Verb.Nearest()
		}
		// What is fenced or quoted as a whole holds no command.
		if !strings.ContainsAny(body, "`~\r") {
			if hidden, _ := Parse("```\n" + body + "\n```"); len(hidden) > 0 {
				t.Fatalf("found %v inside a fence", hidden)
			}
		}
		if quoted, _ := Parse("> " + strings.NewReplacer("\r\n", "\n> ", "\n", "\n> ", "\r", "\n> ").Replace(body)); len(quoted) > 0 {
			t.Fatalf("found %v inside a quote", quoted)
		}
	})
}
