package githost_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What is known to go wrong with hosts and git has a number, and every number a test that is named after it, so that
//
//	go test -list 'Finding|Pitfall' ./githost/...
//
// shows what is covered. This keeps the list whole.
func TestEveryFindingAndPitfallHasATest(t *testing.T) {
	t.Parallel()
	named := map[string][]string{} // "Finding03" → tests
	pattern := regexp.MustCompile(`(?m)^func Test((?:Finding|Pitfall)\d\d)(\w+)\(t \*testing\.T\)`)
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range pattern.FindAllStringSubmatch(string(source), -1) {
			named[m[1]] = append(named[m[1]], m[2])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for kind, last := range map[string]int{"Finding": 16, "Pitfall": 40} {
		for n := 1; n <= last; n++ {
			name := fmt.Sprintf("%s%02d", kind, n)
			if len(named[name]) == 0 && name != "Pitfall21" { // of a call that is never made: to merge later by itself
				t.Errorf("no test is named after %s", name)
			}
		}
	}
}
