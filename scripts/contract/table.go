package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// exceptions is what table reads of exceptions.json.
type exceptions struct {
	Undescribed []struct{ Request string }
	Statuses    []unlisted
	Fields      []struct{ In, At string }
}

type unlisted struct {
	Request string
	Status  int
}

// table prints which operations, with which statuses, and which webhooks each
// suite exercised. It is an error if one that is kept was exercised by none, or
// if an exception was needed by none: both lists hold what is used and no more.
func table(l lock, e exceptions, notes string, out io.Writer) error {
	suites, err := filepath.Glob(filepath.Join(notes, "*.txt"))
	if err != nil || len(suites) == 0 {
		return errors.Join(err, fmt.Errorf("no notes in %s: run `make contract`", notes))
	}
	seen := map[string]map[string][]string{} // what → suite → details
	for _, suite := range suites {
		b, err := os.ReadFile(suite)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(b)) {
			what, detail := strings.TrimSpace(line), ""
			if rest, ok := strings.CutPrefix(what, "operation "); ok {
				i := strings.LastIndex(rest, " ")
				what, detail = rest[:i], rest[i+1:]
			} else if rest, ok := strings.CutPrefix(what, "webhook "); ok {
				what, detail = rest, "yes"
			}
			if seen[what] == nil {
				seen[what] = map[string][]string{}
			}
			name := strings.TrimSuffix(filepath.Base(suite), ".txt")
			seen[what][name] = append(seen[what][name], detail)
		}
	}

	var names []string
	for _, suite := range suites {
		names = append(names, strings.TrimSuffix(filepath.Base(suite), ".txt"))
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	var never []string
	for _, s := range l.Sources {
		fmt.Fprintf(w, "\n%s %s\t%s\n", s.Package, s.Version, strings.Join(names, "\t"))
		for _, what := range s.Keep {
			fmt.Fprint(w, what)
			for _, name := range names {
				details := slices.Compact(slices.Sorted(slices.Values(seen[what][name])))
				fmt.Fprintf(w, "\t%s", strings.Join(details, " "))
			}
			fmt.Fprintln(w)
			if len(seen[what]) == 0 {
				never = append(never, what)
			}
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}

	needed := e.notes()
	stale := slices.DeleteFunc(slices.Clone(needed), func(what string) bool { return len(seen[what]) > 0 })
	switch {
	case len(never) > 0:
		return fmt.Errorf("never exercised: %s; test it, or keep it out of sources.json", strings.Join(never, ", "))
	case len(stale) > 0:
		return fmt.Errorf("exceptions that nothing needs any more: %s; take them out of exceptions.json", strings.Join(stale, ", "))
	}
	fmt.Fprintf(out, "\nEverything kept was exercised; all %d exceptions are needed.\n", len(needed))
	return nil
}

// notes are what the tests note of exceptions that they needed.
func (e exceptions) notes() []string {
	var all []string
	for _, u := range e.Undescribed {
		all = append(all, "exception undescribed "+u.Request)
	}
	for _, s := range e.Statuses {
		all = append(all, fmt.Sprintf("exception status %s %d", s.Request, s.Status))
	}
	for _, f := range e.Fields {
		all = append(all, strings.TrimSpace("exception field "+f.In+" "+f.At))
	}
	return all
}
