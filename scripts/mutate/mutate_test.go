package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The document for database people names every guard and its test, and nothing that is no longer there.
func TestDocumentShowsTheTable(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "database.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "| without this guard | on | this test fails |\n|---|---|---|\n")
	if !found {
		t.Fatal("docs/database.md has no table of guards")
	}
	var want []string
	for _, m := range mutations {
		want = append(want, m.row())
	}
	if got := strings.TrimRight(table, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("docs/database.md must end with these rows:\n%s", strings.Join(want, "\n"))
	}
}

// Who changes a guarded line hears of it here, and not from a run of all mutations.
func TestTextsAreInTheSource(t *testing.T) {
	t.Parallel()
	for _, m := range mutations {
		if _, err := (tree{filepath.Join("..", "..")}).mutated(m); err != nil {
			t.Error(err)
		}
	}
}

func TestStaleTextsAreTold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte("one two two"), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, old := range map[string]string{"not there": "three", "there twice": "two"} {
		if _, err := (tree{dir}).mutated(mutation{name: "x", edits: []edit{{"a.go", old, ""}}}); err == nil || !strings.Contains(err.Error(), "a.go") {
			t.Errorf("%s: %v", what, err)
		}
	}
	texts, err := (tree{dir}).mutated(mutation{edits: []edit{{"a.go", "one", "three"}, {"a.go", "three", "four"}}})
	if err != nil || texts["a.go"] != "four two two" {
		t.Errorf("%q, %v", texts, err)
	}
	m := mutation{test: "race/one command (I4)", engine: "mysql"}
	if m.path() != "TestMySQL/race/one_command_(I4)" || m.pattern() != `^TestMySQL$/^race$/^one_command_\(I4\)$` {
		t.Errorf("%s is run by %s", m.path(), m.pattern())
	}
}

func TestMariaDBTriesWhatMySQLTries(t *testing.T) {
	t.Parallel()
	all := []mutation{{name: "a", test: "f/a", engine: "sqlite"}, {name: "b", test: "f/b", engine: "mysql"}, {name: "c", test: "TestC", engine: "mysql"}}
	if got := onMariaDB(all); len(got) != 1 || got[0].path() != "TestMariaDB/f/b" {
		t.Errorf("%+v", got)
	}
}

// row is how docs/database.md shows a mutation.
func (m mutation) row() string {
	return fmt.Sprintf("| %s | %s | `%s` |", m.name, m.engine, m.test)
}
