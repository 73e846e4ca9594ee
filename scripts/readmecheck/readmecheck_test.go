package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestParseFindsCommandsAndTheirOutput(t *testing.T) {
	t.Parallel()
	got, err := parse(strings.Join([]string{
		"# Title",
		"```sh", "$ not replayed", "```",
		"```console",
		"$ make demo", "first", "", "...", "last",
		"$ echo \\", "> two", "one", "two",
		"```",
		"````md", "```console", "$ only quoted", "```", "````",
		"```console", "$ true", "```",
	}, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []step{
		{line: 6, command: "make demo", want: []string{"first", "", "...", "last"}},
		{line: 11, command: "echo \\\ntwo", want: []string{"one", "two"}},
		{line: 22, command: "true"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %#v\nwant %#v", got, want)
	}
}

func TestParseRefusesWhatChecksNothing(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no block at all":     "# Title\n",
		"no console block":    "```sh\n$ make\n```\n",
		"output only":         "```console\nhello\n```\n",
		"second without":      "```console\n$ true\n```\n```console\nhello\n```\n",
		"never closed":        "```console\n$ true\n",
		"backslash at an end": "```console\n$ true \\\n```\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if steps, err := parse(text); err == nil {
				t.Errorf("accepted as %v", steps)
			}
		})
	}
}

func TestMaskHidesWhatDiffersFromRunToRun(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"  3.2s  landed in 1m2.5s (450ms)":                       "<time> landed in <time> (<time>)",
		"* 1a2b3c4 Merge #1":                                     "* <sha> Merge #1",
		"da39a3ee5e6b4b0d3255bfef95601890afd80709":               "<sha>",
		"http://127.0.0.1:34567/acme/shop and localhost:8":       "http://127.0.0.1:<port>/acme/shop and localhost:<port>",
		"at 2026-03-01T10:11:12.5Z or 10:11:12":                  "at <when> or <when>",
		"on 2026-03-01 10:11:12 +0000 UTC":                       "on <when> UTC",
		"operation 123e4567-e89b-12d3-a456-426614174000 waiting": "operation <uuid> waiting",
		`  "elapsed_ms": 1234,`:                                  `"elapsed_ms": <time>,`,
		"kept in /tmp/batchbot-demo-12/git":                      "kept in <tmp>",
		"batchbot v0.1.0-12-g1a2b3c4-dirty go1.26.8":             "batchbot v0.1.0-<commits> <go>",
		"batchbot 1a2b3c4-dirty":                                 "batchbot <sha>",
		"branch batchbot/7-0badcafe/main":                        "branch batchbot/7-<sha>/main",
		"8 merge requests, 5 landed, 2 batches":                  "8 merge requests, 5 landed, 2 batches",
	} {
		if got := mask(line); got != want {
			t.Errorf("mask(%q)\n got %q\nwant %q", line, got, want)
		}
	}
}

func TestMismatch(t *testing.T) {
	t.Parallel()
	text := func(s string) []string { return strings.Split(s, "|") }
	for _, c := range []struct {
		name, want, got string
		holds           bool
	}{
		{"the same", "a|b", "a|b", true},
		{"masked on both sides", "took 3s|abcdef1", "took 12.5s|1234567", true},
		{"another word", "a|b", "a|c", false},
		{"a line less", "a|b", "a", false},
		{"a line more", "a", "a|b", false},
		{"other order", "a|b", "b|a", false},
		{"anything", "...", "a|b|c", true},
		{"beginning and end", "a|...|d", "a|b|c|d", true},
		{"nothing between", "a|...|b", "a|b", true},
		{"a middle", "...|c|...", "a|b|c|d", true},
		{"middle is missing", "...|x|...", "a|b|c|d", false},
		{"wrong beginning", "x|...", "a|b", false},
		{"wrong end", "a|...|x", "a|b|c", false},
		{"end is used up", "a|...|a", "a", false},
		{"middles in other order", "...|c|...|b|...", "a|b|c", false},
		{"a second try in the middle", "...|a|b|...|z", "a|x|a|b|y|z", true},
		{"a different number", "landed 5 of 8", "landed 4 of 8", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			what := mismatch(text(c.want), lines(strings.Join(text(c.got), "\n")))
			if (what == "") != c.holds {
				t.Errorf("mismatch = %q, want holds = %v", what, c.holds)
			}
		})
	}
}

func TestReplay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, command string
		want          []string
		complaint     string // empty: none
	}{
		{"both outputs in order", "echo one; echo two >&2; echo three", []string{"one", "two", "three"}, ""},
		{"several lines", "printf '%s\\n' \\\na b", []string{"a", "b"}, ""},
		{"no output shown, none there", "true", nil, ""},
		{"no output shown, some there", "echo surprise", nil, "more than the README shows: surprise"},
		{"progress of the go tool", "echo 'go: downloading x v1' >&2; echo a", []string{"a"}, ""},
		{"drift", "echo 4 landed", []string{"5 landed"}, "it is now: 4 landed"},
		{"right output, failing command", "echo a; exit 3", []string{"a"}, "exit status 3"},
		{"no make around", `echo "[$MAKELEVEL]"`, []string{"[]"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := replay(t.Context(), t.TempDir(), step{command: c.command, want: c.want}, time.Minute)
			switch {
			case c.complaint == "" && err != nil:
				t.Error(err)
			case c.complaint != "" && (err == nil || !strings.Contains(err.Error(), c.complaint)):
				t.Errorf("got %v, want %q", err, c.complaint)
			}
		})
	}
}

func TestReplayEndsWhatTakesTooLong(t *testing.T) {
	t.Parallel()
	began := time.Now()
	err := replay(t.Context(), t.TempDir(), step{command: "sleep 600 & wait"}, time.Second)
	if err == nil || !strings.Contains(err.Error(), "did not end within 1s") {
		t.Errorf("got %v", err)
	}
	// The child holds the pipe that replay reads: an early return shows its end.
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("returned after %s: a child of the command lived on", took)
	}
}

// TestRunReplaysTheWorkingTreesReadmeInAClone shows that the check passes on a
// README that holds, fails on the same one after a drift, and works on a clone.
func TestRunReplaysTheWorkingTreesReadmeInAClone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	write("README.md", "```console\n$ cat committed\nyes\n```\n")
	write("committed", "yes\n")
	git("init", "--quiet")
	git("add", ".")
	git("commit", "--quiet", "--message", "first")
	write("uncommitted", "no\n")

	var out strings.Builder
	check := func() error {
		out.Reset()
		return run(t.Context(), dir, nil, &out)
	}
	if err := check(); err != nil {
		t.Fatalf("a README that holds: %v\n%s", err, &out)
	}
	write("README.md", "```console\n$ cat committed\nyes\n$ ls uncommitted || true\n...\n$ touch left-over\n$ cat committed\nno\n```\n")
	err := check()
	if err == nil || !strings.Contains(err.Error(), "1 of 4 commands") {
		t.Errorf("after a drift: got %v\n%s", err, &out)
	}
	if !strings.Contains(out.String(), "README.md:7: $ cat committed: FAILS") {
		t.Errorf("the report does not name the place:\n%s", &out)
	}
	if _, err := os.Stat(filepath.Join(dir, "left-over")); err == nil {
		t.Error("a command ran in the checkout instead of a clone")
	}
	write("README.md", "```console\n$ test -e uncommitted\n```\n")
	if err := check(); err == nil {
		t.Error("the clone holds a file that was never committed")
	}
}

func TestRunStopsWhenInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, ".", nil, &strings.Builder{}); err == nil {
		t.Error("a cancelled check passed")
	}
}
