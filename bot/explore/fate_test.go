package explore

import (
	"slices"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// ciFate decides what becomes of a run.
func (w *world) ciFate(r *run) {
	most := 100
	if w.focused {
		most = 10
	}
	r.ends = time.Now().Add(time.Duration(5+w.rng.IntN(most)) * time.Second)
	r.result = bot.CheckSuccess
	if w.host.git.commits[r.sha].red() {
		r.result = bot.CheckFailure
	}
	if !w.flaky {
		return
	}
	w.flaked = true
	n := w.rng.IntN(12)
	if n < 3 {
		w.race(e7CI)
	}
	switch n {
	case 0:
		r.result = bot.CheckFailure
	case 1:
		r.result = bot.CheckCancelled
	case 2:
		r.ends = time.Time{}
	}
}

// judge decides what becomes of a call.
func (w *world) judge(s *stop) verdict {
	if s.kind == lookHost && w.stale && !w.quiet && w.rng.IntN(6) == 0 {
		return verdict{lag: time.Duration(w.rng.IntN(1500)) * time.Millisecond}
	}
	// What a batch writes on its way is rare among all calls, and is what matters most.
	rate := w.faulty
	switch {
	case w8Intent <= s.at && s.at <= w10Done:
		rate /= 8
	case w2Admission < s.at && s.at < w12Effect:
		rate /= 4
	case w.focused:
		rate *= 6
	}
	if w.quiet || w.rng.IntN(rate) > 0 {
		return verdict{}
	}
	var may []fault
	switch s.kind {
	case lookRows:
		may = []fault{errBefore, dieBefore}
	case writeRows:
		may = []fault{errBefore, errAfter, errAfter, dieBefore, dieAfter, dieAfter, sleeps, serverBefore, serverAfter}
	case lookHost:
		may = []fault{errBefore, errBefore, limited, dieBefore}
	case writeHost:
		may = []fault{errBefore, errAfter, errAfter, limited, dieBefore, dieAfter, dieAfter, notReady, sayRefused, sleeps, serverAfter}
	}
	v := verdict{fault: may[w.rng.IntN(len(may))]}
	w.strike(s.in, s.at, v.fault)
	if s.kind == lookHost || s.kind == writeHost {
		switch v.fault {
		case errBefore, errAfter, limited, notReady, sayRefused:
			w.race(e11Host)
		}
	}
	return v
}

// strike lets an instance or the database suffer what is drawn for a write, except for what the write itself has to do.
func (w *world) strike(in *instance, at point, f fault) {
	w.counting.Lock()
	defer w.counting.Unlock()
	step := w.counts.steps
	switch f {
	case dieBefore:
		w.counts.matrix.strike(step, at, m1Before)
		w.counts.kills++
		in.kill()
	case dieAfter:
		w.counts.matrix.strike(step, at, m2After)
		w.counts.kills++
	case errAfter:
		w.counts.matrix.strike(step, at, m3Lost)
		w.counts.errors++
	case sleeps:
		w.counts.matrix.strike(step, at, m4Sleep)
		w.sleep(in, 65, 60)
	case serverBefore, serverAfter:
		w.counts.matrix.strike(step, at, m5Server)
		w.counts.errors++
		w.serverDies()
	default:
		w.counts.errors++
	}
}

// race counts an event. CI's are drawn by whoever pushed, at moments that nothing orders but the clock.
func (w *world) race(r race) {
	w.counting.Lock()
	defer w.counting.Unlock()
	w.counts.matrix.race(w.counts.steps, r)
}

// disturb has people or fate do something.
func (w *world) disturb() {
	switch n := w.rng.IntN(20); {
	case n == 0:
		in := w.instances[w.rng.IntN(len(w.instances))]
		if in != nil && !in.isDead() && !in.asleep {
			w.sleep(in, 5, 300)
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
			w.sleep(s.in, 5, 300) // the others hear of it first
		}
		w.post = append(w.post, w.takeEvents()...)
		w.handOver(len(w.post)-1, false) // that the merge request changed
	case 3:
		w.sleep(s.in, 5, 300)
	default:
		w.deliver()
	}
}

// sleep stops an instance for at least so many seconds: nothing of it runs, and it does not know.
func (w *world) sleep(in *instance, least, more int) {
	in.drop() // its connection is lost meanwhile, and with it its locks
	in.asleep, in.wakes = true, time.Now().Add(time.Duration(least+w.rng.IntN(more))*time.Second)
	w.counts.sleeps++
	w.log("%s sleeps until %s", in, in.wakes.UTC().Format("15:04:05"))
}

// tend wakes who slept long enough, restarts who is dead, and ends the CI runs whose time has come.
func (w *world) tend() {
	now := time.Now()
	w.restoreTarget()
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
