package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// replay runs one command in the root of the clone and compares what it prints
// with what the README shows. The error, if any, is for the README's author.
func replay(ctx context.Context, clone string, s step, limit time.Duration) error {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(bounded, "bash", "-c", s.command)
	cmd.Dir = clone
	cmd.Env = environment(os.Environ())
	// One writer for both, so that their lines keep the order of a terminal.
	var printed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &printed, &printed
	// A group of its own, so that everything the command started ends with it.
	// It is asked first: a runner of servers has something to put away.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 15 * time.Second
	err := cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}

	got := lines(printed.String())
	switch {
	case errors.Is(bounded.Err(), context.DeadlineExceeded):
		return fmt.Errorf("did not end within %s; it printed:\n%s", limit, strings.Join(got, "\n"))
	case err != nil:
		return fmt.Errorf("%w; it printed:\n%s", err, strings.Join(got, "\n"))
	}
	if what := mismatch(s.want, got); what != "" {
		return fmt.Errorf("%s\nthe whole output, masked:\n%s", what, strings.Join(got, "\n"))
	}
	return nil
}

// environment is what a command of the README sees: the caller's, without what
// an enclosing make or git would tell it, and without colours.
func environment(ours []string) []string {
	var env []string
	for _, pair := range ours {
		name, _, _ := strings.Cut(pair, "=")
		switch name {
		case "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX":
		default:
			env = append(env, pair)
		}
	}
	return append(env, "NO_COLOR=1", "TERM=dumb")
}
