package gitmerge

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/batchbot/batchbot/bot"
)

func TestSubjectTitle(t *testing.T) {
	t.Parallel()
	for title, want := range map[string]string{
		"Fix the parser":                         "Fix the parser",
		"  two\n\nBatch: 1-x\r\nSigned-off-by: ": "two Batch: 1-x Signed-off-by:",
		"bell\a and \x1b[31mred\x1b[0m":          "bell and [31mred[0m",
		"nul\x00byte":                            "nulbyte",
		"line\u2028separator\u0085next":          "line separator next",
		"abc\u202Etxt.exe\u2066":                 "abctxt.exe",
		"broken \xff\xfe text":                   "broken \uFFFD text",
		"grün 日本 👩‍🚀":                            "grün 日本 👩‍🚀",
		"":                                       "",
		"\n\t ":                                  "",
	} {
		if got := subjectTitle(title); got != want {
			t.Errorf("%q becomes %q, want %q", title, got, want)
		}
	}
	if got := mergeMessage(bot.BuildSpec{BatchID: 3, Token: "t"}, bot.BuildMember{Number: 4, Title: " "}); got != "Merge #4\n\nBatch: 3-t\n" {
		t.Errorf("message %q", got)
	}
}

func FuzzMergeMessage(f *testing.F) {
	for _, seed := range []string{"x", "a\n\nBatch: 9-9", "\xff\x00\r", "\u2028\u202e", strings.Repeat("é", 500), "🧑‍🚀 " + strings.Repeat("x ", 300)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, title string) {
		message := mergeMessage(bot.BuildSpec{BatchID: 3, Token: "t"}, bot.BuildMember{Number: 4, Title: title})
		if !utf8.ValidString(message) {
			t.Fatalf("%q is not UTF-8", message)
		}
		lines := strings.Split(message, "\n")
		if len(lines) != 4 || lines[1] != "" || lines[2] != "Batch: 3-t" || lines[3] != "" {
			t.Fatalf("the title broke out of its line: %q", message)
		}
		if !strings.HasPrefix(lines[0], "Merge #4") || utf8.RuneCountInString(lines[0]) > titleLimit+len("Merge #4: ") {
			t.Fatalf("subject %q", lines[0])
		}
		if strings.ContainsFunc(lines[0], func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }) {
			t.Fatalf("invisible characters in %q", lines[0])
		}
	})
}
