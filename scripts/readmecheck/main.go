// Command readmecheck replays the console blocks of README.md in a fresh clone
// of the checkout and fails where the output no longer is what the README shows.
//
// In a block that opens with ```console, a line that begins with "$ " is a
// command and the lines up to the next one are the output it must have, standard
// output and standard error together. "..." alone on a line stands for any
// number of lines. What differs from run to run is masked on both sides; see
// [mask]. Blocks of any other kind are not replayed.
//
// The clone holds the commit that is checked out; the README comes from the
// working tree, so that it can be mended before it is committed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, ".", os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "readme-check:", err)
		os.Exit(1)
	}
}

// run checks the README of the checkout that dir belongs to and reports each
// command to out.
func run(ctx context.Context, dir string, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("readmecheck", flag.ContinueOnError)
	name := flags.String("readme", "README.md", "the file to check, relative to the checkout")
	limit := flags.Duration("timeout", 180*time.Second, "how long each command may take")
	if err := flags.Parse(args); err != nil {
		return err
	}

	top, err := output(ctx, dir, "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return fmt.Errorf("finding the checkout: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(top, *name))
	if err != nil {
		return err
	}
	steps, err := parse(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", *name, err)
	}

	folder, err := os.MkdirTemp("", "readme-check-")
	if err != nil {
		return err
	}
	defer removeAll(folder)
	clone := filepath.Join(folder, "clone")
	if _, err := output(ctx, top, "git", "clone", "--quiet", "--no-hardlinks", top, clone); err != nil {
		return fmt.Errorf("cloning the checkout: %w", err)
	}
	if err := os.WriteFile(filepath.Join(clone, *name), text, 0o644); err != nil {
		return err
	}

	failed := 0
	for _, s := range steps {
		began := time.Now()
		err := replay(ctx, clone, s, *limit)
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		verdict := "holds"
		if err != nil {
			failed++
			verdict = "FAILS"
		}
		fmt.Fprintf(out, "%s:%d: $ %s: %s (%.1fs)\n", *name, s.line, s.command, verdict, time.Since(began).Seconds())
		if err != nil {
			fmt.Fprintf(out, "%s\n", indent(err.Error()))
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d commands no longer do what %s shows", failed, len(steps), *name)
	}
	fmt.Fprintf(out, "readme-check: %d commands do what %s shows\n", len(steps), *name)
	return nil
}

// output runs a program that is expected to succeed and returns what it printed,
// without the last line break.
func output(ctx context.Context, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	got, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return "", fmt.Errorf("%s %s: %w: %s", program, args[0], err, strings.TrimSpace(string(exit.Stderr)))
	}
	return strings.TrimSuffix(string(got), "\n"), err
}

// removeAll removes a folder in which a command may have built a Go module
// cache, whose folders are write-protected.
func removeAll(folder string) {
	if os.RemoveAll(folder) == nil {
		return
	}
	_ = filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return os.Chmod(path, 0o755)
		}
		return nil
	})
	_ = os.RemoveAll(folder)
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(text, "\n", "\n    ")
}
