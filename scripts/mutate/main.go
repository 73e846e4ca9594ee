// Command mutate takes the store's guards away one by one, each in a copy of the
// source, and fails when the test named beside it passes without the guard: such
// a test proves nothing. It fails as well when a text to be replaced is not in
// the source exactly once any more, so that the table follows the code.
//
// Usage: mutate [-run PATTERN] [-except PATTERN] [-limit DURATION] [-mariadb], in the root of the
// checkout, under scripts/with-mysql.sh; with -mariadb under scripts/with-mariadb.sh:
// then what is tested on MySQL is tested there.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// mutation is one guard taken away.
type mutation struct {
	name   string // what is taken away
	edits  []edit
	test   string // FILE/NAME in storetest, or a test function of store by its name
	engine string // sqlite or mysql: on which the test is run
}

// edit replaces a text that occurs exactly once in a file.
type edit struct{ file, old, new string }

// suites are the test functions that run storetest on an engine.
var suites = map[string]string{"sqlite": "TestSQLite", "mysql": "TestMySQL", "mariadb": "TestMariaDB"}

// onMariaDB returns the mutations to try there: those whose test runs on MySQL and MariaDB alike.
func onMariaDB(all []mutation) []mutation {
	var chosen []mutation
	for _, m := range all {
		if m.engine == "mysql" && !strings.HasPrefix(m.test, "Test") {
			m.engine = "mariadb"
			chosen = append(chosen, m)
		}
	}
	return chosen
}

// path is the test's full name as the test binary prints it.
func (m mutation) path() string {
	if strings.HasPrefix(m.test, "Test") {
		return m.test
	}
	return suites[m.engine] + "/" + strings.ReplaceAll(m.test, " ", "_")
}

// pattern selects exactly the test.
func (m mutation) pattern() string {
	parts := strings.Split(m.path(), "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

func main() {
	only := flag.String("run", "", "only mutations whose name matches this regular expression")
	except := flag.String("except", "", "no mutation whose name matches this regular expression; empty: leave none out")
	// Twice what it takes where two cores are idle: on a slow or busy machine a run that is cut off would say nothing.
	limit := flag.Duration("limit", 10*time.Minute, "give up after this time")
	mariadb := flag.Bool("mariadb", false, "on MariaDB, as TEST_MARIADB_DSN names it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, *limit)
	all := mutations
	if *mariadb {
		all = onMariaDB(all)
	}
	err := run(ctx, ".", *only, *except, all, os.Stdout)
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// workers is how many mutations are compiled and tested at once. Compiling one is mostly a chain of single steps.
const workers = 2

func run(ctx context.Context, root, only, except string, all []mutation, out io.Writer) error {
	pick, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	leave, err := regexp.Compile(except)
	if err != nil {
		return fmt.Errorf("-except: %w", err)
	}
	var chosen []mutation
	for _, m := range all {
		if pick.MatchString(m.name) && (except == "" || !leave.MatchString(m.name)) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("no mutation is called %q", only)
	}
	temp, err := os.MkdirTemp("", "batchbot-mutate-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	began := time.Now()
	var trees []tree
	for n := range workers {
		t := tree{dir: filepath.Join(temp, fmt.Sprint("tree", n))}
		if err := t.copyFrom(root); err != nil {
			return err
		}
		trees = append(trees, t)
	}
	// All that is wrong with the table is said before anything is compiled.
	var stale []error
	for _, m := range mutations {
		if _, err := trees[0].mutated(m); err != nil {
			stale = append(stale, err)
		}
	}
	if len(stale) > 0 {
		return errors.Join(stale...)
	}
	if err := trees[0].baseline(ctx, chosen); err != nil {
		return err
	}

	fmt.Fprintf(out, "%-9s%8s  %-7s %-52s %s\n", "verdict", "seconds", "engine", "without", "test")
	caught := make([]bool, len(chosen))
	failures := make([]error, len(chosen))
	next := make(chan int)
	var printing sync.Mutex
	var group sync.WaitGroup
	for _, t := range trees {
		group.Go(func() {
			for i := range next {
				m, start := chosen[i], time.Now()
				caught[i], failures[i] = t.try(ctx, m)
				verdict := "caught"
				if failures[i] != nil {
					verdict = "error"
				} else if !caught[i] {
					verdict = "SURVIVED"
				}
				printing.Lock()
				fmt.Fprintf(out, "%-9s%8.1f  %-7s %-52s %s\n", verdict, time.Since(start).Seconds(), m.engine, m.name, m.test)
				printing.Unlock()
			}
		})
	}
	for i := range chosen {
		next <- i
	}
	close(next)
	group.Wait()

	n := 0
	for _, c := range caught {
		if c {
			n++
		}
	}
	if err := errors.Join(failures...); err != nil {
		fmt.Fprintln(out, err)
	}
	fmt.Fprintf(out, "%.0f s; caught %d/%d\n", time.Since(began).Seconds(), n, len(chosen))
	if n < len(chosen) {
		return fmt.Errorf("%d of %d guards may be taken away without a test noticing", len(chosen)-n, len(chosen))
	}
	return nil
}
