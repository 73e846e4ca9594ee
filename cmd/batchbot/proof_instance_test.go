//go:build faultpoints

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// shortLease replaces the leases of deliveries and errands in a proof: a minute or two would be most of its time.
const shortLease = 10 * time.Second

// proofBinary is the real program, built with fault points.
func proofBinary(t *testing.T) string {
	t.Helper()
	path := os.Getenv("PROOF_BINARY")
	if path == "" {
		t.Fatal("PROOF_BINARY names no batchbot built with -tags faultpoints: run `make proof` or `make chaos`, which build one")
	}
	return path
}

// life is what is to become of one start of an instance.
type life struct {
	fault string        // the points at which it kills itself, whichever it passes first; empty: none
	kill  time.Duration // somebody kills it this long after it started to serve; 0: nobody does
	pause time.Duration // it is stopped for so long instead, and lives on: to the others it is as dead, and then it is not
}

// death is how one life ended.
type death struct {
	instance string
	point    string // one of life.fault; empty: killed from outside
	err      error  // it ended by itself, which it must not
}

// instance is `batchbot serve` under a supervisor that starts it again whenever it ends.
type instance struct {
	name, binary, config, dir string

	mu      sync.Mutex
	address string // while it serves
	process *os.Process
	struck  bool // the process was killed from outside
	lives   int
}

// kill ends the present life.
func (i *instance) kill() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.process != nil && i.process.Kill() == nil {
		i.struck = true
	}
}

// serving is where the instance takes requests, "" while it is down.
func (i *instance) serving() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.address
}

// supervise starts the instance again and again until ctx ends: next says how it is to live, died hears how it ended. It leaves nothing running.
func (i *instance) supervise(ctx context.Context, next func() life, died func(death)) error {
	for ctx.Err() == nil {
		d, err := i.live(ctx, next())
		if err != nil {
			return fmt.Errorf("instance %s: %w", i.name, err)
		}
		if ctx.Err() == nil {
			died(d)
		}
	}
	return nil
}

// live is one life.
func (i *instance) live(ctx context.Context, l life) (death, error) {
	i.mu.Lock()
	i.lives++
	passed := filepath.Join(i.dir, fmt.Sprintf("passed-%s-%d", i.name, i.lives))
	i.mu.Unlock()
	c := exec.Command(i.binary, "serve", "--config", i.config)
	c.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + i.dir, "TMPDIR=" + i.dir, "FAULT_POINT=" + l.fault, "FAULT_LOG=" + passed,
		"FAULT_LEASE=" + shortLease.String(), "FAULT_MUTANT=" + os.Getenv("MUTANT"), fmt.Sprintf("BATCHBOT_LISTEN=127.0.0.1:%d", freePort()),
	}
	stderr, err := c.StderrPipe()
	if err != nil {
		return death{}, err
	}
	book, err := os.OpenFile(filepath.Join(i.dir, i.name+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return death{}, err
	}
	defer book.Close()
	if err := c.Start(); err != nil {
		return death{}, err
	}
	fmt.Fprintf(book, "{\"msg\":\"begins\",\"at\":%q,\"pid\":%d,\"fault\":%q}\n", time.Now().Format(time.TimeOnly+".000"), c.Process.Pid, l.fault)
	i.setProcess(c.Process)

	serves, last := make(chan struct{}), ""
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			last = lines.Text()
			fmt.Fprintln(book, last)
			var entry struct{ Msg, Listen string }
			if json.Unmarshal([]byte(last), &entry) == nil && entry.Msg == "started" {
				i.setAddress("http://" + entry.Listen)
				close(serves)
			}
		}
	}()
	ended := make(chan struct{})
	var killer sync.WaitGroup
	killer.Go(func() { i.strike(ctx, c.Process, l, serves, ended) })
	<-read
	err = c.Wait()
	close(ended)
	killer.Wait()
	i.setAddress("")
	outside := i.setProcess(nil)
	d := death{instance: i.name}
	if log, readErr := os.ReadFile(passed); readErr == nil {
		if _, point, killed := strings.Cut(string(log), "killed "); killed {
			d.point = strings.TrimSpace(point)
			return d, nil
		}
	}
	if !outside {
		d.err = fmt.Errorf("ended with %w: %s", err, last)
	}
	return d, nil
}

// strike does from outside what life says, and ends the process when ctx does.
func (i *instance) strike(ctx context.Context, p *os.Process, l life, serves, ended <-chan struct{}) {
	wait := func(d time.Duration) (over, gone bool) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return true, false
		case <-ctx.Done():
			return true, false
		case <-ended:
			return false, true
		}
	}
	select {
	case <-serves:
	case <-ctx.Done():
	case <-ended:
		return
	}
	if l.kill == 0 {
		l.kill = time.Hour
	}
	if _, gone := wait(l.kill); gone {
		return
	}
	for l.pause > 0 && ctx.Err() == nil {
		_ = p.Signal(syscall.SIGSTOP)
		_, gone := wait(l.pause)
		_ = p.Signal(syscall.SIGCONT)
		if gone {
			return
		}
		l.pause = 0
		if _, gone := wait(l.kill); gone {
			return
		}
	}
	i.kill()
}

func (i *instance) setAddress(a string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.address = a
}

// setProcess says which process is the instance now, and whether the one before was killed from outside.
func (i *instance) setProcess(p *os.Process) (struck bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	struck = i.struck
	i.process, i.struck = p, false
	return struck
}

// passed counts how often each point was passed, by all instances that logged to dir.
func passed(t *testing.T, dir string) map[string]int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "passed-*"))
	if err != nil {
		t.Fatal(err)
	}
	counts := make(map[string]int)
	for _, file := range files {
		log, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(log)) {
			counts[strings.TrimSpace(line)]++
		}
	}
	return counts
}

// freePort finds a port below those of outgoing connections, so that nobody takes it by accident between two lives.
func freePort() int {
	for {
		port := 10_000 + rand.IntN(10_000)
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			_ = l.Close()
			return port
		}
	}
}
