package schema

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestMigrationsAreNumberedAndInBothDialects(t *testing.T) {
	t.Parallel()
	names := make(map[string][]string)
	for dialect, files := range map[string]fs.FS{"mysql": MySQL(), "sqlite": SQLite()} {
		list, err := fs.Glob(files, "*")
		if err != nil {
			t.Fatal(err)
		}
		for i, name := range list {
			if want := fmt.Sprintf("%04d_", i+1); !strings.HasPrefix(name, want) || !strings.HasSuffix(name, ".sql") {
				t.Errorf("%s/%s: the next migration is %sNAME.sql", dialect, name, want)
			}
		}
		if len(list) != Version {
			t.Errorf("%s has %d migrations, Version is %d", dialect, len(list), Version)
		}
		names[dialect] = list
	}
	if !slices.Equal(names["mysql"], names["sqlite"]) {
		t.Errorf("mysql has %v, sqlite %v", names["mysql"], names["sqlite"])
	}
}

func TestMigrationsOnlyAdd(t *testing.T) {
	t.Parallel()
	for dialect, files := range map[string]fs.FS{"mysql": MySQL(), "sqlite": SQLite()} {
		list, err := fs.Glob(files, "*")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range list {
			text, err := fs.ReadFile(files, name)
			if err != nil {
				t.Fatal(err)
			}
			for _, mistake := range mistakes(dialect, string(text)) {
				t.Errorf("%s/%s: %s", dialect, name, mistake)
			}
		}
	}
}

func TestHarmfulMigrationsAreNoticed(t *testing.T) {
	t.Parallel()
	for text, words := range map[string]string{
		"CREATE TABLE a (b INT);":                               "IF NOT EXISTS",
		"CREATE TABLE IF NOT EXISTS a (b INT) ENGINE = MyISAM;": "InnoDB",
		"DROP TABLE queue;":                                     "adds nothing",
		"UPDATE queue SET status = 2;":                          "adds nothing",
		"ALTER TABLE queue DROP COLUMN reason;":                 "only adds",
		"ALTER TABLE queue ADD COLUMN a INT NOT NULL DEFAULT 0, MODIFY COLUMN reason TEXT;": "only adds",
		"ALTER TABLE queue ADD COLUMN a INT NOT NULL;":                                      "DEFAULT",
		"ALTER TABLE queue ADD UNIQUE KEY uk_a (status);":                                   "unique",
		"ALTER TABLE a ADD COLUMN b INT NULL;\nALTER TABLE c ADD COLUMN d INT NULL;":        "one statement",
	} {
		if found := strings.Join(mistakes("mysql", "-- +goose Up\n"+text), "; "); !strings.Contains(found, words) {
			t.Errorf("%s: found %q", text, found)
		}
	}
	for _, text := range []string{
		"CREATE TABLE IF NOT EXISTS a (b INT) ENGINE = InnoDB;\nALTER TABLE queue ADD COLUMN a INT NOT NULL DEFAULT 0, ADD KEY idx_a (a, status);",
		"ALTER TABLE queue ADD COLUMN a DATETIME(6) NULL COMMENT 'NULL = never; DROP it';",
	} {
		if found := mistakes("mysql", "-- +goose Up\n"+text); found != nil {
			t.Errorf("%s: found %q", text, found)
		}
	}
}

var (
	comment  = regexp.MustCompile(`(?m)--.*$`)
	text     = regexp.MustCompile(`'[^']*'`)
	brackets = regexp.MustCompile(`\([^()]*\)`)
	addition = regexp.MustCompile(`^ADD (COLUMN|KEY|INDEX) `)
)

// mistakes says what would break an instance of the version before, which goes on working on the migrated schema, or a migration that is run again
// after it was killed: MySQL keeps every statement that was done.
func mistakes(dialect, file string) (found []string) {
	once := 0 // statements that cannot be run twice
	// Comments and texts are not looked into; what stands in brackets is a list of columns or of definitions.
	plain := text.ReplaceAllString(comment.ReplaceAllString(file, ""), "''")
	for brackets.MatchString(plain) {
		plain = brackets.ReplaceAllString(plain, "")
	}
	for statement := range strings.SplitSeq(plain, ";") {
		statement = strings.Join(strings.Fields(statement), " ")
		changes := strings.SplitN(statement, " ", 4)
		switch {
		case statement == "":
		case strings.HasPrefix(statement, "CREATE TABLE "):
			if dialect == "mysql" && !strings.HasPrefix(statement, "CREATE TABLE IF NOT EXISTS ") {
				found = append(found, "write CREATE TABLE IF NOT EXISTS: a migration that was killed is run again")
			}
			if dialect == "mysql" && !strings.Contains(statement, "ENGINE = InnoDB") {
				found = append(found, "a table names ENGINE = InnoDB: a server's default may be another")
			}
		case dialect == "sqlite" && (strings.HasPrefix(statement, "CREATE INDEX ") || strings.HasPrefix(statement, "CREATE UNIQUE INDEX ")):
		case strings.HasPrefix(statement, "ALTER TABLE ") && len(changes) == 4:
			once++
			for change := range strings.SplitSeq(changes[3], ",") {
				change = strings.TrimSpace(change)
				switch {
				case strings.HasPrefix(change, "ADD UNIQUE"):
					found = append(found, "a unique key on a table that is there refuses what an instance of the version before writes: "+change)
				case !addition.MatchString(change):
					found = append(found, "a migration only adds: "+change)
				case strings.HasPrefix(change, "ADD COLUMN") && strings.Contains(change, "NOT NULL") && !strings.Contains(change, "DEFAULT") && !strings.Contains(change, "GENERATED"):
					found = append(found, "an instance of the version before does not name the column: give it a DEFAULT: "+change)
				}
			}
		default:
			found = append(found, "it adds nothing: "+statement)
		}
	}
	if dialect == "mysql" && once > 1 {
		found = append(found, "one statement besides CREATE TABLE a file: of two, the first would be in the way when the migration is run again")
	}
	return found
}
