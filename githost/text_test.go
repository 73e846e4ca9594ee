package githost_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/batchbot/batchbot/githost"
)

func TestOneLine(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain":                    "plain",
		" two\r\nlines\t":          "two lines",
		"a\x1b[31mred\x00":         "a[31mred",
		"to\u202ethe\u2066left":    "totheleft",
		"broken \xff":              "broken \uFFFD",
		strings.Repeat("ü", 20):    strings.Repeat("ü", 9) + "…",
		strings.Repeat("🚀", 10):    strings.Repeat("🚀", 10),
		"exactly 10":               "exactly 10",
		"\u00a0spaced\u2003words ": "spaced wo…",
	} {
		if got := githost.OneLine(in, 10); got != want {
			t.Errorf("OneLine(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestFit(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"", "short", strings.Repeat("x", 141), strings.Repeat("ü", 100), strings.Repeat("🚀", 50)} {
		got := githost.Fit(in, 140)
		if len(got) > 140 || !utf8.ValidString(got) {
			t.Errorf("Fit(%q) = %q, %d bytes", in, got, len(got))
		}
		if len(in) <= 140 && got != in {
			t.Errorf("Fit(%q) changed it to %q", in, got)
		}
		if len(in) > 140 && !strings.HasSuffix(got, "…") {
			t.Errorf("Fit(%q) = %q does not show that it was cut", in, got)
		}
	}
}
