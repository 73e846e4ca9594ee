package explore

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
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

	dirty  atomic.Bool
	writer atomic.Pointer[instance] // whose transaction was the last
}

// counts is what a schedule did, for the summary.
type counts struct {
	steps, kills, sleeps, errors, lost int
	ends                               map[string]int // batches by how they ended
	hits                               map[string]int // steps by what they were about
}

func (c *counts) add(o counts) {
	c.steps += o.steps
	c.kills += o.kills
	c.sleeps += o.sleeps
	c.errors += o.errors
	c.lost += o.lost
	for _, into := range []struct{ to, from map[string]int }{{c.ends, o.ends}, {c.hits, o.hits}} {
		for k, n := range into.from {
			into.to[k] += n
		}
	}
}

func newCounts() counts { return counts{ends: make(map[string]int), hits: make(map[string]int)} }

func (c counts) String() string {
	return fmt.Sprintf("%d steps, %d kills, %d sleeps, %d failed calls, %d webhooks lost; batches: %s", c.steps, c.kills, c.sleeps, c.errors, c.lost, table(c.ends))
}

func table(m map[string]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprint(k, " ", m[k]))
	}
	return strings.Join(parts, ", ")
}

// played is what became of one schedule.
type played struct {
	counts
	violation string // the first one; empty: all was well
	story     []string
}

// report fails the test if there was a violation.
func (p played) report(t *testing.T, seed uint64, lines int, again string) {
	t.Helper()
	if p.violation != "" {
		t.Errorf("seed %d: %s\nplay it again: %s\n%s", seed, p.violation, fmt.Sprintf(again, seed), strings.Join(p.story[max(0, len(p.story)-lines):], "\n"))
	}
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
	w.lockless = r.IntN(3) == 0
	w.poison, w.lossy, w.most, w.faulty = 6+r.IntN(20), r.IntN(25), 3+r.IntN(6), 12+r.IntN(40)
	w.settings = bot.DefaultQueueSettings(target)
	w.settings.Landing = []bot.Landing{bot.LandByMerge, bot.LandByPush}[r.IntN(2)]
	w.settings.MaxBatchSize = 2 + r.IntN(4)
	w.settings.FillWait = time.Duration(r.IntN(2)) * 20 * time.Second
	w.settings.Timeout = 20 * time.Minute
	if r.IntN(2) == 0 {
		w.settings.Checks.Required = []string{"ci"}
	}
	w.host.marks, w.host.dismiss, w.host.deletion = r.IntN(3) > 0, r.IntN(2) == 0, r.IntN(2) == 0
	w.host.ci = w.ciFate
	w.host.onLanding = w.landing
	w.watch = newWatch()
	first := w.host.git.commit(files{"README": "app\n"}, "Ada <ada@example.org>", time.Now(), "begin\n")
	w.host.git.move(heads(target), first.id)
	w.host.git.move(heads(otherPlace), first.id)
	return w
}

// ciFate decides what becomes of a run.
func (w *world) ciFate(r *run) {
	r.ends = time.Now().Add(time.Duration(15+w.rng.IntN(100)) * time.Second)
	r.result = bot.CheckSuccess
	if w.host.git.commits[r.sha].red() {
		r.result = bot.CheckFailure
	}
	if !w.flaky {
		return
	}
	w.flaked = true
	switch w.rng.IntN(12) {
	case 0:
		r.result = bot.CheckFailure
	case 1:
		r.result = bot.CheckCancelled
	case 2:
		r.ends = time.Time{}
	}
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
	faultySteps = 600
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
}

// step lets one thing happen.
func (w *world) step() {
	w.counts.steps++
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
	if !w.quiet && w.rng.IntN(9) == 0 || (ready == 0 && !w.quiet && w.rng.IntN(3) > 0) {
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
	w.log("%s %s%s", s.in, s.key, v)
	subject, _, _ := strings.Cut(s.key, "hub:")
	if i := strings.IndexAny(subject, "0123456789!<"); i >= 0 {
		subject = subject[:i]
	}
	w.counts.hits[strings.TrimSpace(subject)]++
	w.gates.remove(s)
	switch v.fault {
	case dieBefore:
		s.in.kill()
	}
	s.on <- v
}

func (v verdict) String() string {
	if v.lag > 0 {
		return fmt.Sprintf(" (as of %s ago)", v.lag)
	}
	return v.fault.String()
}

// judge decides what becomes of a call.
func (w *world) judge(s *stop) verdict {
	if s.kind == lookHost && w.stale && !w.quiet && w.rng.IntN(6) == 0 {
		return verdict{lag: time.Duration(w.rng.IntN(1500)) * time.Millisecond}
	}
	if w.quiet || w.rng.IntN(w.faulty) > 0 {
		return verdict{}
	}
	var may []fault
	switch s.kind {
	case lookRows:
		may = []fault{errBefore, dieBefore}
	case writeRows:
		may = []fault{errBefore, errAfter, dieBefore, dieAfter, dieAfter}
	case lookHost:
		may = []fault{errBefore, errBefore, limited, dieBefore}
	case writeHost:
		may = []fault{errBefore, errAfter, errAfter, limited, dieBefore, dieAfter, dieAfter, notReady, sayRefused}
	}
	v := verdict{fault: may[w.rng.IntN(len(may))]}
	if v.fault == dieBefore || v.fault == dieAfter {
		w.counts.kills++
	} else {
		w.counts.errors++
	}
	return v
}

// disturb has people or fate do something.
func (w *world) disturb() {
	switch n := w.rng.IntN(20); {
	case n == 0:
		in := w.instances[w.rng.IntN(len(w.instances))]
		if in != nil && !in.isDead() && !in.asleep {
			w.sleep(in)
		}
	case n == 1:
		in := w.instances[w.rng.IntN(len(w.instances))]
		if in != nil && !in.isDead() {
			w.counts.kills++
			w.log("%s is killed", in)
			in.kill()
		}
	case n < 6:
		w.deliver()
	default:
		w.act()
	}
}

// meddle does something at the worst moment: right before the landing call.
func (w *world) meddle(s *stop) {
	switch w.rng.IntN(6) {
	case 0:
		w.log("people: %s", w.pushTarget())
	case 1, 2:
		rider, ok := w.members(func(m *mergeRequest) bool {
			return isOpen(m) && slices.ContainsFunc(w.look().Operations, func(o bot.Operation) bool {
				return o.Number == m.Number && o.Status == bot.OperationBatched
			})
		})
		if !ok {
			return
		}
		w.log("people: %s", w.pushTo(rider))
		if w.rng.IntN(2) == 0 {
			w.sleep(s.in) // the others hear of it first
		}
		w.post = append(w.post, w.takeEvents()...)
		w.handOver(len(w.post)-1, false) // that the merge request changed
	case 3:
		w.sleep(s.in)
	default:
		w.deliver()
	}
}

// sleep stops an instance for a while: nothing of it runs, and it does not know.
func (w *world) sleep(in *instance) {
	in.drop() // its connection is lost meanwhile, and with it its locks
	in.asleep, in.wakes = true, time.Now().Add(time.Duration(5+w.rng.IntN(300))*time.Second)
	w.counts.sleeps++
	w.log("%s sleeps until %s", in, in.wakes.UTC().Format("15:04:05"))
}

// tend wakes who slept long enough, restarts who is dead, and ends the CI runs whose time has come.
func (w *world) tend() {
	now := time.Now()
	for i, in := range w.instances {
		switch {
		case in == nil:
		case in.isDead() && w.restarts[i].IsZero():
			w.restarts[i] = now.Add(time.Duration(1+w.rng.IntN(60)) * time.Second)
		case in.isDead() && !w.restarts[i].After(now):
			w.restarts[i] = time.Time{}
			w.instances[i] = w.newInstance(i, in.life+1)
			w.log("%s starts", w.instances[i])
		case in.asleep && !in.wakes.After(now):
			in.asleep = false
			w.log("%s wakes up", in)
		}
	}
	for _, r := range w.host.order {
		if r.state == bot.CheckPending && !r.ends.IsZero() && !r.ends.After(now) {
			w.host.endCI(r)
			w.log("CI of %s ends: %d", bot.ShortSHA(r.sha), r.state)
			if r.state == bot.CheckSuccess {
				w.watch.tested[w.host.git.commits[r.sha].tree] = true
			}
		}
	}
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
		if waits == "" {
			if helped < 12 && w.help() {
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

// playAll plays the schedules of seeds from first on, side by side on parts workers.
func playAll(t *testing.T, first uint64, number, parts int) {
	t.Helper()
	var mu sync.Mutex
	total := newCounts()
	began := time.Now()
	t.Cleanup(func() {
		t.Logf("%d schedules in %s: %s\n%s", number, time.Since(began).Round(time.Millisecond), total, table(total.hits))
	})
	for part := range parts {
		t.Run(fmt.Sprint("part ", part), func(t *testing.T) {
			t.Parallel()
			sum := newCounts()
			for i := part; i < number && !t.Failed(); i += parts {
				p := play(t, first+uint64(i), false)
				p.report(t, first+uint64(i), 60, "make explore SEED=%d")
				sum.add(p.counts)
			}
			mu.Lock()
			defer mu.Unlock()
			total.add(sum)
		})
	}
}
