package explore

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/store/memory"
)

// world is one schedule under way.
type world struct {
	t    *testing.T
	seed uint64
	rng  *rand.Rand

	gates    gates
	nudges   sync.Mutex // guards what calls set from outside of the schedule: due times, and what was read
	host     *host
	git      bot.Git
	open     func(in *instance) (store rows, drop func())
	look     func() memory.Rows
	operator interface {
		rows
		ResumeQueue(ctx context.Context, queueID int64, by string) (bool, error)
		PauseQueue(ctx context.Context, queueID int64, by, reason string) (bool, error)
	}
	instances []*instance
	restarts  []time.Time // of dead instances

	// Drawn once.
	settings bot.QueueSettings
	lockless bool // advisory locks are granted to everybody
	fine     bool // reads of rows stop at gates too
	stale    bool // the host shows old states
	flaky    bool // CI fails for nothing, hangs, or is cancelled
	poison   int  // one change in so many is bad
	lossy    int  // per cent of the webhooks that are lost
	most     int  // merge requests
	focused  bool // little happens but to what a batch writes: more batches land before the last fault
	faulty   int  // one call in so many goes wrong

	quiet     bool // the last fault is over
	opened    int
	written   int
	post      []letter
	sent      int
	watch     watch
	story     []string
	verbose   bool
	failed    bool
	violation string
	flaked    bool // CI failed for nothing at least once
	counts    counts
	counting  sync.Mutex // the steps and the matrix of counts

	jump    func(by time.Duration) // of the database's clock; nil: it cannot
	gone    string                 // where the deleted target stood
	returns time.Time              // when it is put back
	down    atomic.Int64           // until when the database is down, in ns
	dirty   atomic.Bool
	writer  atomic.Pointer[instance] // whose transaction was the last
}

// play plays one schedule, up to its first violation.
func play(t *testing.T, seed uint64, verbose bool) (p played) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		w := newWorld(t, seed)
		w.verbose = verbose
		w.git = builder{w.host.git}
		w.look = db.Look
		w.jump = db.Jump
		w.operator = db.Open(nil)
		w.open = func(in *instance) (rows, func()) {
			s := db.Open(in.seam)
			return s, s.Drop
		}
		w.play()
		p = played{w.counts, w.violation, w.story}
	})
	return p
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{counts: newCounts(), t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 0x6261746368626f74)), host: newHost()}
	r := w.rng
	w.fine, w.stale, w.flaky = r.IntN(4) == 0, r.IntN(3) == 0, r.IntN(4) == 0
	w.lockless, w.focused = r.IntN(3) == 0, r.IntN(2) == 0
	w.poison, w.lossy, w.most, w.faulty = 6+r.IntN(20), r.IntN(25), 3+r.IntN(6), 12+r.IntN(40)
	w.settings = bot.DefaultQueueSettings(target)
	w.settings.Landing = landings[r.IntN(len(landings))]
	w.settings.MaxBatchSize = 2 + r.IntN(4)
	w.settings.FillWait = time.Duration(r.IntN(2)) * 20 * time.Second
	w.settings.Timeout = 20 * time.Minute
	if w.focused {
		w.settings.Checks.QuietTime = 2 * time.Second
	}
	if r.IntN(2) == 0 {
		w.settings.Checks.Required = []string{"ci"}
	}
	w.saveSettings()
	w.host.marks, w.host.dismiss, w.host.deletion = r.IntN(3) > 0, r.IntN(2) == 0, r.IntN(2) == 0
	w.host.ci = w.ciFate
	w.host.onLanding = w.landing
	w.watch = newWatch()
	first := w.host.git.commit(files{"README": "app\n"}, "Ada <ada@example.org>", time.Now(), "begin\n")
	w.host.git.move(heads(target), first.id)
	w.watch.ever = first.past
	w.host.git.move(heads(otherPlace), first.id)
	return w
}

func (w *world) log(format string, args ...any) {
	line := time.Now().UTC().Format("15:04:05.000 ") + fmt.Sprintf(format, args...)
	w.nudges.Lock()
	defer w.nudges.Unlock()
	w.story = append(w.story, line)
}

// logger makes what the core logs part of the story, when it is told.
func (w *world) logger(in *instance) *slog.Logger {
	if !w.verbose {
		return nil
	}
	return slog.New(slog.NewTextHandler(storyWriter{w, in}, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

type storyWriter struct {
	*world
	in *instance
}

func (s storyWriter) Write(line []byte) (int, error) {
	s.log("  %s says %s", s.in, strings.TrimSpace(string(line)))
	return len(line), nil
}

// violate ends the schedule.
func (w *world) violate(format string, args ...any) {
	if !w.failed {
		w.failed, w.violation = true, fmt.Sprintf(format, args...)
	}
}

const (
	faultySteps = 900
	calmSteps   = 20000
	calmTime    = 4 * time.Hour
)

func (w *world) play() {
	ctx := w.t.Context()
	if _, err := w.operator.UpsertRepository(ctx, theRepo); err != nil {
		w.t.Fatal(err)
	}
	w.instances, w.restarts = make([]*instance, 3), make([]time.Time, 3)
	for i := range w.instances {
		w.instances[i] = w.newInstance(i, 0)
	}
	for range faultySteps {
		if w.step(); w.failed {
			break
		}
	}
	w.calm()
	for _, in := range w.instances {
		if in != nil {
			in.kill()
		}
	}
	synctest.Wait()
	w.counts.matrix.cross()
}

// step lets one thing happen.
func (w *world) step() {
	w.counting.Lock()
	w.counts.steps++
	w.counting.Unlock()
	synctest.Wait() // whoever was let go has come to rest: one thing at a time, or a seed is no schedule
	time.Sleep(time.Duration(1+w.rng.IntN(20000)) * time.Microsecond)
	synctest.Wait()
	w.check()
	if w.failed {
		return
	}
	w.tend()
	stops := w.gates.list()
	type start struct {
		in   *instance
		loop int
	}
	var starts []start
	for _, in := range w.instances {
		for loop := range loops {
			if in != nil && !in.isDead() && !in.asleep && in.isDue(loop) {
				starts = append(starts, start{in, loop})
			}
		}
	}
	if !w.quiet && w.rng.IntN(3) == 0 {
		for _, s := range stops {
			if strings.HasPrefix(s.key, "round: merge !") || strings.HasPrefix(s.key, "round: fast-forward ") {
				w.meddle(s)
				return
			}
		}
	}
	ready := len(stops) + len(starts)
	often, idle := 9, 60 // how rarely something happens that nobody waits for, and of a hundred moments in which all wait
	if w.focused {
		often, idle = 35, 15
	}
	if !w.quiet && (w.rng.IntN(often) == 0 || (ready == 0 && w.rng.IntN(100) < idle)) {
		w.disturb()
		return
	}
	if w.rng.IntN(6) == 0 || ready == 0 {
		w.deliver()
	}
	if ready == 0 {
		w.pass()
		return
	}
	// Rounds are what is explored most: their calls go on three times as often as the others.
	var order []int
	for i, s := range stops {
		order = append(order, i)
		if strings.HasPrefix(s.key, loops[roundLoop]) {
			order = append(order, i, i)
		}
	}
	for i := range starts {
		order = append(order, len(stops)+i)
	}
	n := order[w.rng.IntN(len(order))]
	if n >= len(stops) {
		s := starts[n-len(stops)]
		s.in.begin(s.loop)
		return
	}
	s := stops[n]
	v := w.judge(s)
	if v.fault == sleeps { // it waits where it is
		return
	}
	w.log("%s %s%s", s.in, s.key, v)
	w.gates.remove(s)
	s.on <- v
}

func (v verdict) String() string {
	if v.lag > 0 {
		return fmt.Sprintf(" (as of %s ago)", v.lag)
	}
	return v.fault.String()
}

// pass lets time pass until something is due.
func (w *world) pass() {
	now := time.Now()
	next := now.Add(30 * time.Second)
	sooner := func(at time.Time) {
		if !at.IsZero() && at.After(now) && at.Before(next) {
			next = at
		}
	}
	w.nudges.Lock()
	for i, in := range w.instances {
		switch {
		case in.isDead():
			sooner(w.restarts[i])
		case in.asleep:
			sooner(in.wakes)
		default:
			for loop := range loops {
				if !in.busy[loop].Load() {
					sooner(in.due[loop])
				}
			}
		}
	}
	w.nudges.Unlock()
	for _, r := range w.host.order {
		if r.state == bot.CheckPending {
			sooner(r.ends)
		}
	}
	time.Sleep(next.Sub(now))
}

// calm ends all faults and wants everything to settle.
func (w *world) calm() {
	if w.failed {
		return
	}
	w.log("from here on nothing fails any more")
	w.quiet, w.flaky = true, false
	w.down.Store(0)
	w.host.refuse(refusal{})
	for i, in := range w.instances {
		in.asleep = false
		if in.isDead() {
			w.restarts[i] = time.Now()
		}
	}
	for _, r := range w.host.order {
		if r.state == bot.CheckPending && r.ends.IsZero() { // somebody restarts the runner
			r.ends = time.Now().Add(time.Minute)
		}
	}
	began := time.Now()
	looked, helped := began, 0
	for range calmSteps {
		if w.step(); w.failed {
			return
		}
		if time.Since(looked) < time.Minute {
			continue
		}
		looked = time.Now()
		waits := w.unsettled()
		if waits != "" && time.Since(began) > calmTime/4 && w.putBackLost() {
			continue
		}
		if waits == "" {
			if helped < 30 && w.help() {
				helped++
				continue
			}
			w.final()
			return
		}
		if time.Since(began) > calmTime {
			w.violate("I9: not settled %s after the last fault: %s", calmTime, waits)
			return
		}
	}
	w.violate("I9: not settled after %d steps without a fault (%s): %s", calmSteps, time.Since(began), w.unsettled())
}
