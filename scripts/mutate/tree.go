package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// tree is a copy of the source in which one mutation at a time is made.
type tree struct{ dir string }

// sources is what the store's tests are compiled from.
var sources = []string{"go.mod", "go.sum", "bot", "schema", "store"}

func (t tree) copyFrom(root string) error {
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return err
	}
	for _, name := range sources {
		from, to := filepath.Join(root, name), filepath.Join(t.dir, name)
		info, err := os.Stat(from)
		if err != nil {
			return fmt.Errorf("run this in the root of the checkout: %w", err)
		}
		if info.IsDir() {
			if err := os.CopyFS(to, os.DirFS(from)); err != nil {
				return err
			}
			continue
		}
		text, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := os.WriteFile(to, text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// mutated returns the files that a mutation changes, with their changed texts.
func (t tree) mutated(m mutation) (map[string]string, error) {
	texts := make(map[string]string)
	for _, e := range m.edits {
		text, seen := texts[e.file]
		if !seen {
			read, err := os.ReadFile(filepath.Join(t.dir, e.file))
			if err != nil {
				return nil, fmt.Errorf("%q: %w", m.name, err)
			}
			text = string(read)
		}
		if n := strings.Count(text, e.old); n != 1 {
			return nil, fmt.Errorf("%q: its text is in %s %d times instead of once; follow the code in scripts/mutate/table.go: %q", m.name, e.file, n, e.old)
		}
		texts[e.file] = strings.Replace(text, e.old, e.new, 1)
	}
	return texts, nil
}

// baseline wants every named test to exist and to pass while nothing is taken away.
func (t tree) baseline(ctx context.Context, ms []mutation) error {
	binary, err := t.compile(ctx)
	if err != nil {
		return fmt.Errorf("before any mutation: %w", err)
	}
	var patterns []string
	for _, m := range ms {
		patterns = append(patterns, m.pattern())
	}
	printed, err := t.test(ctx, binary, strings.Join(patterns, "|"))
	if err != nil {
		return fmt.Errorf("before any mutation the tests fail: %w\n%s", err, printed)
	}
	var missing []error
	for _, m := range ms {
		if !strings.Contains(printed, "--- PASS: "+m.path()+" (") {
			missing = append(missing, fmt.Errorf("%q: there is no test %s", m.name, m.path()))
		}
	}
	return errors.Join(missing...)
}

// try makes a mutation, runs its test and undoes the mutation. caught is true when that very test failed; anything else that goes
// wrong, such as a mutation that does not compile, is an error.
func (t tree) try(ctx context.Context, m mutation) (caught bool, err error) {
	texts, err := t.mutated(m)
	if err != nil {
		return false, err
	}
	for file, text := range texts {
		path := filepath.Join(t.dir, file)
		before, err := os.ReadFile(path)
		if err != nil {
			return false, err
		}
		defer func() { err = errors.Join(err, os.WriteFile(path, before, 0o600)) }()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return false, err
		}
	}
	binary, err := t.compile(ctx)
	if err != nil {
		return false, fmt.Errorf("%q does not compile: %w", m.name, err)
	}
	printed, err := t.test(ctx, binary, m.pattern())
	switch {
	case err == nil && strings.Contains(printed, "--- PASS: "+m.path()+" ("):
		return false, nil
	case err != nil && strings.Contains(printed, "--- FAIL: "+m.path()+" ("):
		return true, nil
	}
	return false, fmt.Errorf("%q: its test came to no end of its own: %w\n%s", m.name, err, printed)
}

// unoptimised keeps what each mutation compiles anew from being optimised, which takes several times longer than compiling it.
const unoptimised = "-gcflags=github.com/batchbot/batchbot/store/...=-N -l"

// compile builds the store's test binary. With -trimpath the build cache does not care where the copy lies.
func (t tree) compile(ctx context.Context) (binary string, err error) {
	binary = filepath.Join(t.dir, "store.test")
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-tags", "mariadb", "-trimpath", "-ldflags=-s -w", unoptimised, "-o", binary, "./store")
	cmd.Dir, cmd.WaitDelay = t.dir, 5*time.Second
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if printed, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, printed)
	}
	return binary, nil
}

func (t tree) test(ctx context.Context, binary, pattern string) (printed string, err error) {
	cmd := exec.CommandContext(ctx, binary, "-test.v", "-test.timeout=2m", "-test.run", pattern)
	cmd.Dir, cmd.WaitDelay = filepath.Join(t.dir, "store"), 5*time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}
