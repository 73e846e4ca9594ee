package main

import (
	"errors"
	"fmt"
	"strings"
)

// step is one command of a console block with the output the README shows.
type step struct {
	// line is where the command stands in the README, counted from 1.
	line    int
	command string
	want    []string
}

// parse returns the steps of all console blocks in the order of the text. A text
// without any is refused: a check of nothing would always pass.
func parse(text string) ([]step, error) {
	var steps []step
	var fence string // of the block we are in; empty outside
	console, opened, continued := false, 0, false
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		n := i + 1
		marks := fenceOf(line)
		switch {
		case fence == "" && marks != "":
			fence, opened = marks, n
			console = strings.TrimSpace(line[len(marks):]) == "console"
		case fence == "":
		case strings.HasPrefix(marks, fence) && strings.TrimSpace(line[len(marks):]) == "":
			if continued {
				return nil, fmt.Errorf("line %d: the block ends inside a command continued by a backslash", n)
			}
			fence, console = "", false
		case !console:
		case continued:
			last := &steps[len(steps)-1]
			last.command += "\n" + strings.TrimPrefix(line, "> ")
			continued = strings.HasSuffix(line, `\`)
		case strings.HasPrefix(line, "$ "):
			steps = append(steps, step{line: n, command: line[len("$ "):]})
			continued = strings.HasSuffix(line, `\`)
		case len(steps) == 0 || steps[len(steps)-1].line < opened:
			return nil, fmt.Errorf("line %d: a console block begins with a command (\"$ ...\"), not with output", n)
		default:
			last := &steps[len(steps)-1]
			last.want = append(last.want, line)
		}
	}
	if fence != "" {
		return nil, fmt.Errorf("line %d: the block that opens here is never closed", opened)
	}
	if len(steps) == 0 {
		return nil, errors.New("no ```console block with a command: nothing to check")
	}
	return steps, nil
}

// fenceOf returns the back-ticks that open or close a block, or "".
func fenceOf(line string) string {
	marks := line[:len(line)-len(strings.TrimLeft(line, "`"))]
	if len(marks) < 3 {
		return ""
	}
	return marks
}
