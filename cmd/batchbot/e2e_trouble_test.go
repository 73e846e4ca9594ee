package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/fakehost"
)

// benchLimit bounds every wait of these tests: what failed once is tried again after five seconds, then after ten.
const benchLimit = 2 * time.Minute

// While the host is in trouble a batch is under way, a command is written and CI ends. Nothing of it is lost; meanwhile the host is left in peace,
// and the log says what is wrong.
func TestTroubleAtTheHostLosesNothing(t *testing.T) {
	t.Parallel()
	everything := func(status int) fakehost.Fault {
		return fakehost.Fault{On: "* /*", Do: fakehost.FaultStatus, Status: status}
	}
	for _, test := range []struct {
		name  string
		fault fakehost.Fault // none: the line is cut
		says  string
	}{
		{"the token is revoked", everything(http.StatusUnauthorized), "check app_id, private_key and this machine's clock"},
		{"the host is broken", everything(http.StatusBadGateway), "502"},
		{"the host is not reachable", fakehost.Fault{}, "/api/v3/repos/acme/app"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, benchSettings{lineToHost: test.fault.On == "", ci: fakehost.CI{Mode: fakehost.CIManual}})
			first := b.opened(t, "first")
			b.batchUnderTest(t)

			struck := func() int { return b.line.refusals() }
			if b.line == nil {
				b.must(t, b.host.Break(test.fault))
				struck = func() int { return b.host.Broken()[0].Struck }
			} else {
				b.line.cut()
			}
			second := b.opened(t, "second")
			_, err := b.host.FinishCI("")
			b.must(t, err)
			within(t, benchLimit, "the command to be tried a second time", func() bool {
				return count(t, b.db, `SELECT COUNT(*) FROM delivery WHERE status = 1 AND attempts >= 2 AND event = 'issue_comment'`) > 0
			})
			all, saying := b.log.complaints(test.says)
			if saying == 0 || all > 40 {
				t.Errorf("%d complaints are in the log, %d of them say %q", all, saying, test.says)
			}
			if n := struck(); n == 0 || n > 100 {
				t.Errorf("the host was asked %d times while it could not answer", n)
			}

			b.host.SetCI(fakehost.CI{Mode: fakehost.CIImmediate})
			if b.line == nil {
				b.host.Heal()
			} else {
				b.line.mend()
			}
			b.becomes(t, first, bot.OperationMerged)
			b.becomes(t, second, bot.OperationMerged)
			within(t, benchLimit, "silence", func() bool { return b.quiet(t) })
			b.nothingLost(t)
			state, err := b.host.State(e2eRepo)
			b.must(t, err)
			checkNothingTwice(t, state)
		})
	}
}

// The database goes away under a running batch. Webhooks are refused meanwhile, so that the host knows that they did not arrive; once it is back
// everything goes on, what was refused included.
func TestADatabaseThatComesBackFindsEverythingGoingOn(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchSettings{mysql: true, ci: fakehost.CI{Mode: fakehost.CIManual}})
	first := b.opened(t, "first")
	b.batchUnderTest(t)
	// What is claimed when the database goes is due again when its lease ends, which takes longer than a test should.
	within(t, benchLimit, "nothing claimed", func() bool {
		return count(t, b.db, `SELECT COUNT(*) FROM delivery WHERE status = 1`)+count(t, b.db, `SELECT COUNT(*) FROM outbox WHERE status = 1`) == 0
	})

	b.line.cut()
	second := b.opened(t, "second")
	_, err := b.host.FinishCI("")
	b.must(t, err)
	refused := func() (n int) {
		for _, d := range b.host.Deliveries() {
			for _, a := range d.Attempts {
				if strings.Contains(a.Error, "503") {
					n++
				}
			}
		}
		return n
	}
	within(t, benchLimit, "refused webhooks", func() bool { return refused() >= 3 })
	if status, _ := get(t, b.program.url+"/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("/readyz answers %d", status)
	}
	if status, _ := get(t, b.program.url+"/healthz"); status != http.StatusOK {
		t.Errorf("/healthz answers %d", status)
	}
	if n := b.line.refusals(); n > 300 {
		t.Errorf("the database was tried %d times", n)
	}

	b.host.SetCI(fakehost.CI{Mode: fakehost.CIImmediate})
	b.line.mend()
	within(t, benchLimit, "readiness", func() bool {
		status, _ := get(t, b.program.url+"/readyz")
		return status == http.StatusOK
	})
	b.becomes(t, first, bot.OperationMerged)
	b.becomes(t, second, bot.OperationMerged)
	within(t, benchLimit, "silence", func() bool { return b.quiet(t) })
	b.nothingLost(t)
	state, err := b.host.State(e2eRepo)
	b.must(t, err)
	checkNothingTwice(t, state)
}

// A repository file that cannot be used is said once, by whichever command meets it first; the last good one counts.
func TestABrokenRepositoryFileIsSaidOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchSettings{})
	b.becomes(t, b.opened(t, "before"), bot.OperationMerged)
	write := func(file string) {
		_, err := b.host.Commit(e2eRepo, "main", "main", "rita", "Settings", map[string]string{".batchbot.yml": file})
		b.must(t, err)
	}
	numbers := make([]int, 0, 6)
	complaints := func(about string) (n int) {
		for _, number := range numbers {
			for _, body := range b.said(t, number) {
				if strings.Contains(body, "keeps its last good settings") && strings.Contains(body, about) {
					n++
				}
			}
		}
		return n
	}
	land := func(branches ...string) {
		var these []int
		for _, branch := range branches {
			these = append(these, b.opened(t, branch))
		}
		numbers = append(numbers, these...)
		for _, number := range these {
			b.becomes(t, number, bot.OperationMerged)
		}
		within(t, benchLimit, "silence", func() bool { return b.quiet(t) })
	}
	write("queues:\n  - branch: main\n    max_batch_syze: 3\n    checks: {required: [ci]}\n")
	land("one", "two", "three")
	if n := complaints("syze"); n != 1 {
		t.Errorf("the first mistake is said %d times", n)
	}
	write("queues: [\n")
	land("four", "five")
	if n := complaints("not YAML"); n != 1 {
		t.Errorf("the second mistake is said %d times", n)
	}
	write("queues:\n  - branch: main\n    max_batch_size: 3\n    checks: {required: [ci]}\n")
	land("six")
	if n := complaints(""); n != 2 {
		t.Errorf("with the file mended there are %d complaints, want the 2 of before", n)
	}
	if n := count(t, b.db, `SELECT COUNT(*) FROM queue WHERE settings LIKE '%"max_batch_size":3,%'`); n != 1 {
		t.Error("the mended file is not what the queue has")
	}
}
