//go:build faultpoints

package fault

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
)

// Before marks the moment before a write. The process may end here.
func Before(w Write) { pass("before", w) }

// After marks the moment after a write. The process may end here.
func After(w Write) { pass("after", w) }

// plan is what the environment asks for.
type plan struct {
	log *os.File // nil: nobody wants to know

	mu   sync.Mutex
	left map[string]int // "before W3-claim" → times to pass there, this one included, until it kills
}

// environment is read once: a process is told its end when it starts. A mistake there ends it at once, since a proof that kills nothing proves nothing.
var environment = sync.OnceValue(func() *plan {
	p := &plan{left: make(map[string]int)}
	if path := os.Getenv("FAULT_LOG"); path != "" {
		log, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			panic(fmt.Sprintf("FAULT_LOG: %v", err))
		}
		p.log = log
	}
	for asked := range strings.SplitSeq(os.Getenv("FAULT_POINT"), ",") {
		if strings.TrimSpace(asked) == "" {
			continue
		}
		point, left, err := read(asked)
		if err != nil {
			panic(fmt.Sprintf("FAULT_POINT: %v", err))
		}
		p.left[point] = left
	}
	return p
})

// read reads "MOMENT WRITE" or "MOMENT WRITE TIMES".
func read(asked string) (point string, times int, err error) {
	words := strings.Fields(asked)
	times = 1
	if len(words) == 3 {
		if times, err = strconv.Atoi(words[2]); err != nil || times < 1 {
			return "", 0, fmt.Errorf("%q: %q is no number of times", asked, words[2])
		}
		words = words[:2]
	}
	if len(words) != 2 || (words[0] != "before" && words[0] != "after") {
		return "", 0, fmt.Errorf("%q: write before or after, a write point, and how many times", asked)
	}
	for _, w := range Writes() {
		if words[1] == string(w) {
			return words[0] + " " + words[1], times, nil
		}
	}
	return "", 0, fmt.Errorf("%q: no write point %q", asked, words[1])
}

func pass(moment string, w Write) {
	if w == "" {
		return
	}
	point := moment + " " + string(w)
	p := environment()
	if p.log != nil {
		_, _ = p.log.WriteString(point + "\n") // one write is one line, whatever else writes there
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left[point]--; p.left[point] != 0 {
		return
	}
	if p.log != nil {
		_, _ = p.log.WriteString("killed " + point + "\n")
	}
	kill()
}

// kill ends the process as a power cut does: nothing is flushed, closed or rolled back by it.
func kill() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(fmt.Sprintf("killing oneself: %v", err))
	}
	select {} // the signal is on its way
}
