package contract

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// SeenFolder is the environment variable that names a folder for notes of what
// was exercised; `make contract` makes its table of them.
const SeenFolder = "CONTRACT_SEEN"

var seen sync.Map

// note remembers that something was exercised, once a process. Each test binary
// has a file of its own, which is complete whenever the binary ends.
func note(what string) {
	dir := os.Getenv(SeenFolder)
	if dir == "" {
		return
	}
	if _, known := seen.LoadOrStore(what, true); known {
		return
	}
	name := filepath.Join(dir, strings.TrimSuffix(filepath.Base(os.Args[0]), ".test")+".txt")
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = f.WriteString(what + "\n") // one write, so lines stay whole
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		panic("noting what was exercised: " + err.Error()) // the table would be wrong
	}
}
