package explore

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// What happens to the surroundings: the target goes back or away, the settings change, credentials are refused, the database dies or its clock jumps.

// rewind takes the newest commits off the target, as a person with the right to do so can.
func (w *world) rewind() string {
	tip := w.host.git.at(heads(target))
	if tip == nil || len(tip.parents) == 0 {
		return ""
	}
	to := tip.parents[0]
	if len(to.parents) > 0 && w.rng.IntN(3) == 0 {
		to = to.parents[0]
	}
	w.host.git.move(heads(target), to.id)
	w.watch.rewound = true
	w.race(e6Forced)
	return "force the target back to " + bot.ShortSHA(to.id)
}

// putBack brings a commit that was taken off the target into it again; "" when it is there.
func (w *world) putBack(id string) string {
	lost, tip := w.host.git.commits[id], w.host.git.at(heads(target))
	if tip == nil || tip.contains(lost) {
		return ""
	}
	merged, conflicts := w.host.git.merge(tip.files, tip.past, lost.files, lost.past)
	for _, path := range conflicts { // solved in favour of what was there
		merged[path] = tip.files[path]
		if merged[path] == "" {
			delete(merged, path)
		}
	}
	w.written++
	c := w.host.git.commit(merged, "Bob <bob@example.org>", time.Now(), fmt.Sprintf("put back %d\n", w.written), tip, lost)
	w.host.land("person", target, c.id)
	return "put " + bot.ShortSHA(id) + " back into the target"
}

// putBackLost puts back what the MR of a failed batch merged, where the bot asks for it again and again.
func (w *world) putBackLost() bool {
	for _, b := range w.look().Batches {
		m := w.batchMR(b)
		if b.Status != bot.BatchFailed || m == nil || m.State != bot.MRMerged || m.Target != target {
			continue
		}
		if did := w.putBack(m.MergeSHA); did != "" {
			w.log("people: %s, for batch %d", did, b.ID)
			return true
		}
	}
	return false
}

// deleteTarget deletes the target; somebody puts it back soon.
func (w *world) deleteTarget() string {
	tip := w.host.git.at(heads(target))
	if tip == nil {
		return ""
	}
	w.gone, w.returns = tip.id, time.Now().Add(time.Duration(5+w.rng.IntN(40))*time.Second)
	w.host.git.move(heads(target), "")
	w.race(e6Forced)
	return "delete the target"
}

// restoreTarget puts a deleted target back when its time has come.
func (w *world) restoreTarget() {
	if w.gone == "" || (time.Now().Before(w.returns) && !w.quiet) {
		return
	}
	w.host.git.move(heads(target), w.gone)
	w.log("people: put the target back to %s", bot.ShortSHA(w.gone))
	w.gone = ""
}

// changeSettings changes the repository file.
func (w *world) changeSettings() string {
	s := &w.settings
	switch w.rng.IntN(4) {
	case 0:
		s.MaxBatchSize = 1 + w.rng.IntN(6)
	case 1:
		s.Landing = landings[w.rng.IntN(len(landings))]
	case 2:
		s.Approvals.Count = 3 - s.Approvals.Count
	default:
		s.FillWait = time.Duration(w.rng.IntN(3)) * 10 * time.Second
	}
	w.saveSettings()
	w.race(e10Settings)
	return fmt.Sprintf("settings: %d members, %s, %d approvals, wait %s", s.MaxBatchSize, s.Landing, s.Approvals.Count, s.FillWait)
}

var landings = []bot.Landing{bot.LandByMerge, bot.LandByPush, bot.LandByMerge, bot.LandByPush, bot.LandManually}

// saveSettings writes the repository file.
func (w *world) saveSettings() {
	content, err := json.Marshal(w.settings)
	if err != nil {
		panic(err)
	}
	w.host.mu.Lock()
	defer w.host.mu.Unlock()
	w.host.file = content
}

func parseSettings(content []byte, _ string) (bot.RepositorySettings, error) {
	var s bot.QueueSettings
	err := json.Unmarshal(content, &s)
	return bot.RepositorySettings{Queues: []bot.QueueSettings{s}}, err
}

// refusal is how the host refuses the bot's credentials for a while.
type refusal struct {
	until  time.Time
	writes bool // only what changes something, with ErrForbidden
}

var errUnauthorized = errors.New("the host refuses the credentials (401)")

// refuseCredentials makes the host refuse whatever the bot asks, or wants to change.
func (w *world) refuseCredentials() string {
	r := refusal{time.Now().Add(time.Duration(5+w.rng.IntN(50)) * time.Second), w.rng.IntN(3) == 0}
	w.host.refuse(r)
	w.race(e12Credentials)
	return fmt.Sprintf("the bot's credentials are refused until %s, writes only: %v", r.until.UTC().Format("15:04:05"), r.writes)
}

// refuse begins a refusal, or ends one with the zero value. Instances that were let go may be about to ask.
func (h *host) refuse(r refusal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refuses = r
}

// refused is the answer of a host that refuses the credentials, nil where it does not.
func (h *host) refused(what kind) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch r := h.refuses; {
	case !time.Now().Before(r.until):
		return nil
	case !r.writes:
		return errUnauthorized
	case what == writeHost:
		return bot.ErrForbidden
	}
	return nil
}

// jumpClock moves the database's clock ahead.
func (w *world) jumpClock() string {
	if w.jump == nil {
		return ""
	}
	by := time.Duration(1+w.rng.IntN(20)) * time.Minute
	w.jump(by)
	w.race(e13Clock)
	return "the database's clock jumps by " + by.String()
}

// serverDies stops the database for a while: nobody reaches it, and all locks are free.
func (w *world) serverDies() {
	w.down.Store(time.Now().Add(time.Duration(1+w.rng.IntN(20)) * time.Second).UnixNano())
	for _, in := range w.instances {
		if in != nil && !in.isDead() {
			in.drop()
		}
	}
}

// isDown reports whether the database is down.
func (w *world) isDown() bool { return time.Now().UnixNano() < w.down.Load() }
