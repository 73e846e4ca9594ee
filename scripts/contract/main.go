// Command contract keeps the contract with a Git host: the descriptions a host
// publishes of its API and its webhooks, cut to what is used here.
//
//	contract update         fetches the packages that sources.json pins, with npm, and cuts them anew
//	contract table FOLDER   says which operations and webhooks the tests exercised, as they noted in FOLDER
//
// sources.json is edited by people (package, version, integrity, what to keep);
// update fills in the hashes. Running it twice changes nothing.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

const (
	folder = "githost/hosttest/testdata/openapi"
	cache  = ".cache/contract"
)

// lock is sources.json.
type lock struct {
	Sources []*source `json:"sources"`
}

// source is one description: where it comes from, and what is kept of it.
type source struct {
	Package   string `json:"package"`
	Version   string `json:"version"`
	License   string `json:"license"`
	Integrity string `json:"integrity"` // of the package, as the registry states it
	From      string `json:"from"`      // the file in the package
	FromSHA   string `json:"from_sha256"`
	To        string `json:"to"` // the file beside sources.json
	ToSHA     string `json:"to_sha256"`

	// Keep names operations ("GET /app") or webhooks ("push").
	Keep []string `json:"keep"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "contract:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var l lock
	if err := read("sources.json", &l); err != nil {
		return err
	}
	switch {
	case len(args) == 1 && args[0] == "update":
		for _, s := range l.Sources {
			if err := update(ctx, s, out); err != nil {
				return fmt.Errorf("%s %s: %w", s.Package, s.Version, err)
			}
		}
		b, err := json.MarshalIndent(l, "", "  ")
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(folder, "sources.json"), append(b, '\n'), 0o644)
	case len(args) == 2 && args[0] == "table":
		var e exceptions
		if err := read("exceptions.json", &e); err != nil {
			return err
		}
		return table(l, e, args[1], out)
	}
	return errors.New("usage: contract update | contract table FOLDER")
}

// read reads a file of the folder.
func read(name string, v any) error {
	b, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		return fmt.Errorf("%w (run this in the root of the checkout)", err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	return nil
}
