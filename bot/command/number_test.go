package command

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestNumbersOfMergeRequests(t *testing.T) {
	t.Parallel()
	hub := func(n int) string { return fmt.Sprintf("https://hub.example/team/app/pull/%d", n) }
	lab := func(n int) string { return fmt.Sprintf("https://lab.example/a/b/42/-/merge_requests/%d", n) }
	for _, c := range []struct {
		text    string
		mark    string
		url     func(int) string
		numbers []int
		others  []string
	}{
		{"#12 #15", "#", hub, []int{12, 15}, nil},
		{"12, 15,#9", "#", hub, []int{12, 15, 9}, nil},
		{"!12 #15", "!", lab, []int{12, 15}, nil},
		{"!12", "#", hub, nil, []string{"!12"}},
		{"https://hub.example/team/app/pull/12 https://hub.example/team/app/pull/13/files#diff-1", "#", hub, []int{12, 13}, nil},
		{"https://hub.example/team/app/pull/12?w=1", "#", hub, []int{12}, nil},
		{"https://hub.example/team/other/pull/12", "#", hub, nil, []string{"https://hub.example/team/other/pull/12"}},
		{"https://evil.example/https://hub.example/team/app/pull/12", "#", hub, nil, []string{"https://evil.example/https://hub.example/team/app/pull/12"}},
		{"https://hub.example/team/app/pull/12x", "#", hub, nil, []string{"https://hub.example/team/app/pull/12x"}},
		{"https://lab.example/a/b/42/-/merge_requests/7", "!", lab, []int{7}, nil},
		{"0 #0 -1 +1 1.5 ##3 1234567890 twelve #", "#", hub, nil, strings.Fields("0 #0 -1 +1 1.5 ##3 1234567890 twelve #")},
		{"#12 and #15", "#", hub, []int{12, 15}, []string{"and"}},
		{", ,,", "#", hub, nil, nil},
	} {
		numbers, others := Numbers(strings.Fields(c.text), c.mark, c.url)
		if !slices.Equal(numbers, c.numbers) || !slices.Equal(others, c.others) {
			t.Errorf("%q: %v and %q, want %v and %q", c.text, numbers, others, c.numbers, c.others)
		}
	}
}

// A set of a thousand is as far as a command goes, and one more is seen to be too many.
func TestALongLineIsNotCutSilently(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("/batch with")
	for n := range 1500 {
		fmt.Fprintf(&b, " #%d", n+1)
	}
	commands, _ := Parse(b.String())
	if len(commands) != 1 || len(commands[0].Args) != maxArgs {
		t.Fatalf("%d commands", len(commands))
	}
}
