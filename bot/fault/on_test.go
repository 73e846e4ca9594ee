//go:build faultpoints

package fault_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/batchbot/batchbot/bot/fault"
)

func TestMain(m *testing.M) {
	if os.Getenv("FAULT_TEST_PASSES") != "" {
		for range 3 {
			fault.Before(fault.Claim)
			fault.After(fault.Claim)
			fault.After("")
		}
		return
	}
	os.Exit(m.Run())
}

// The process dies by SIGKILL where its environment says, at the time it says, and the log tells how far it came.
func TestAPointKills(t *testing.T) {
	t.Parallel()
	const once = "before W3-claim\nafter W3-claim\n"
	for _, test := range []struct{ asked, log, says string }{
		{"", once + once + once, ""},
		{"before W3-claim", "before W3-claim\nkilled before W3-claim\n", ""},
		{"after W3-claim 2", once + once + "killed after W3-claim\n", ""},
		{"after W3-claim 4", once + once + once, ""},
		{"after W4-push, after W3-claim 3,before W3-claim 2", once + "before W3-claim\nkilled before W3-claim\n", ""},
		{"after W4-push", once + once + once, ""},
		{"while W3-claim", "", "write before or after"},
		{"before W3-clam", "", `no write point "W3-clam"`},
		{"before W3-claim 0", "", `"0" is no number of times`},
	} {
		t.Run(test.asked, func(t *testing.T) {
			t.Parallel()
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "log")
			c := exec.CommandContext(t.Context(), self)
			c.Env = []string{"FAULT_TEST_PASSES=1", "FAULT_POINT=" + test.asked, "FAULT_LOG=" + file}
			said, err := c.CombinedOutput()
			log, readErr := os.ReadFile(file)
			if readErr != nil {
				t.Fatal(readErr)
			}
			if string(log) != test.log || !strings.Contains(string(said), test.says) {
				t.Errorf("the log is %q and it said %q", log, said)
			}
			killed := false
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				killed = exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
			}
			if want := strings.Contains(test.log, "killed"); killed != want || (err != nil) != (want || test.says != "") {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}
