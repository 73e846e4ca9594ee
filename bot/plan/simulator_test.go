package plan

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/batchbot/batchbot/bot"
)

// change is a merge request of the simulator.
type change struct {
	place   int // in the order of admission
	culprit bool
}

// world is what the simulated queues share: who is a culprit, and when CI fails for nothing.
type world struct {
	supply []change // not admitted yet
	flake  func() bool

	runs     int
	landed   int
	rejected int // culprits and others
	wronged  int // of these not culprits
}

// newWorld makes n changes of which exactly a share of p, at random places, are culprits: the same ones for everybody with this seed.
func newWorld(p, f float64, n int, seed uint64) *world {
	dice := rand.New(rand.NewPCG(seed, 2))
	w := &world{supply: make([]change, n), flake: func() bool { return dice.Float64() < f }}
	for i := range w.supply {
		w.supply[i] = change{place: i, culprit: i < int(math.Round(p*float64(n)))}
	}
	rand.New(rand.NewPCG(seed, 1)).Shuffle(n, func(i, j int) {
		w.supply[i].culprit, w.supply[j].culprit = w.supply[j].culprit, w.supply[i].culprit
	})
	return w
}

// take admits up to n changes.
func (w *world) take(n int) []change {
	n = min(n, len(w.supply))
	taken := w.supply[:n:n]
	w.supply = w.supply[n:]
	return taken
}

// red runs CI once.
func (w *world) red(batch []change) bool {
	w.runs++
	return w.flake() || slices.ContainsFunc(batch, func(c change) bool { return c.culprit })
}

// reject takes a change out. People find out that it is good, and it comes back behind everything else.
func (w *world) reject(c change) {
	w.rejected++
	if !c.culprit {
		w.wronged++
		w.supply = append(w.supply, change{place: math.MaxInt / 2})
	}
}

// result is what a way to run the queue cost.
type result struct {
	runs      int
	perLanded float64 // CI runs
	wronged   float64 // good changes rejected, per 1000 landed
	parked    int
}

func (w *world) result() result {
	return result{runs: w.runs, perLanded: float64(w.runs) / float64(w.landed), wronged: 1000 * float64(w.wronged) / float64(w.landed)}
}

// queue is a queue that never runs empty, driven by the planner: rows in, choices out.
type queue struct {
	*world
	settings bot.QueueSettings
	fresh    []change
	cohorts  []cohort // ordered by id
	history  []bot.Trial
	waiting  bot.WaitingSet
	batches  int64
	parked   int
	watch    func(c Choice, members []change) // each batch, before it is run; may be nil
}

type cohort struct {
	id      int64
	members []change
}

func newQueue(w *world, flake float64) *queue {
	settings := bot.DefaultQueueSettings("main")
	settings.FlakeRate = flake
	return &queue{world: w, settings: settings}
}

// backlog is how many fresh changes wait at least, while there are enough.
const backlog = 60

// step plans, claims, runs and settles one batch. It returns false when nothing is left.
func (q *queue) step() bool {
	if missing := backlog - len(q.fresh); missing > 0 {
		q.fresh = append(q.fresh, q.take(missing)...)
	}
	q.waiting.Fresh, q.waiting.Cohorts = len(q.fresh), q.waiting.Cohorts[:0]
	for _, c := range q.cohorts {
		q.waiting.Cohorts = append(q.waiting.Cohorts, bot.Cohort{ID: c.id, Size: len(c.members)})
	}
	q.waiting.Trials = q.history[max(0, len(q.history)-bot.TrialsKept):]
	choice := Next(q.settings, q.waiting)
	if !choice.Claim {
		return false
	}
	members := q.claim(choice)
	if q.watch != nil {
		q.watch(choice, members)
	}
	q.batches++
	batch := bot.Batch{ID: q.batches, Status: bot.BatchSucceeded, Kind: choice.Kind, Cohort: choice.Cohort, Tested: len(members)}
	failed := 0
	if q.red(members) {
		batch.Status, batch.Code = bot.BatchFailed, bot.CodeCIRed
		failed = q.afterRed(&batch, members)
	} else {
		q.landed += len(members)
	}
	trial, _ := bot.TrialOf(batch, failed)
	if len(q.history) >= 16*bot.TrialsKept {
		q.history = append(q.history[:0], q.waiting.Trials...)
	}
	q.history = append(q.history, trial)
	return true
}

// claim takes the members of a batch out of what waits.
func (q *queue) claim(c Choice) []change {
	if c.Cohort == 0 {
		n := min(c.Limit, len(q.fresh))
		members := q.fresh[:n:n]
		q.fresh = q.fresh[n:]
		return members
	}
	i := slices.IndexFunc(q.cohorts, func(x cohort) bool { return x.id == c.Cohort })
	members := q.cohorts[i].members[:c.Limit:c.Limit]
	if q.cohorts[i].members = q.cohorts[i].members[c.Limit:]; len(q.cohorts[i].members) == 0 {
		q.cohorts = slices.Delete(q.cohorts, i, i+1)
	}
	return members
}

// afterRed settles a red batch and returns how many failed.
func (q *queue) afterRed(batch *bot.Batch, members []change) (failed int) {
	red := AfterRed(q.settings, q.waiting, *batch)
	if i := slices.IndexFunc(q.cohorts, func(x cohort) bool { return x.id == red.FreeCohort }); i >= 0 {
		q.free(q.cohorts[i].members)
		q.cohorts = slices.Delete(q.cohorts, i, i+1)
	}
	switch {
	case len(red.Broken) > 0:
		batch.Code = bot.CodeCIBroken
		q.parked++ // and somebody resumes it at once
		q.free(members)
	case red.Fail:
		for _, c := range members {
			q.reject(c)
		}
		return len(members)
	default:
		i, _ := slices.BinarySearchFunc(q.cohorts, red.Cohort, func(x cohort, id int64) int { return cmp.Compare(x.id, id) })
		q.cohorts = slices.Insert(q.cohorts, i, cohort{red.Cohort, members})
	}
	return 0
}

// free makes requests fresh again. They keep their place in the order.
func (q *queue) free(members []change) {
	q.fresh = slices.Concat(members, q.fresh)
	slices.SortFunc(q.fresh, func(a, b change) int { return cmp.Compare(a.place, b.place) })
}

// ours runs a world to its end as the planner does. A planner that does not come to an end is far above its targets when it is stopped.
func ours(w *world, flake float64) result {
	q := newQueue(w, flake)
	for most := 4 * len(w.supply); w.runs < most && q.step(); {
	}
	r := w.result()
	r.parked = q.parked
	return r
}

// serial tests one change at a time.
func serial(w *world) result {
	for batch := w.take(1); len(batch) == 1; batch = w.take(1) {
		if w.red(batch) {
			w.reject(batch[0])
		} else {
			w.landed++
		}
	}
	return w.result()
}

// halving is what bors-ng does: batches wait in line; a red one of several is cut into two new batches at the end of the line, the first half
// rounded down; newcomers join the batch that is newest, up to most members.
func halving(w *world, most int) result {
	var line [][]change
	for {
		if len(line) == 0 {
			line = append(line, nil)
		}
		newest := &line[len(line)-1]
		*newest = append(*newest, w.take(most-len(*newest))...)
		batch := line[0]
		line = line[1:]
		switch n := len(batch); {
		case n == 0:
			return w.result()
		case !w.red(batch):
			w.landed += n
		case n == 1:
			w.reject(batch[0])
		default:
			line = append(line, slices.Clone(batch[:n/2]), slices.Clone(batch[n/2:]))
		}
	}
}

// bound is the least number of CI runs per landed change that any way to test could need: the entropy of a change over the capacity of a CI
// that never passes a bad tree and fails a good one with probability f (a Z-channel), for each change that is good.
func bound(p, f float64) float64 {
	entropy := -p*math.Log2(p) - (1-p)*math.Log2(1-p)
	capacity := 1.0
	if f > 0 {
		capacity = math.Log2(1 + (1-f)*math.Pow(f, f/(1-f)))
	}
	return entropy / capacity / (1 - p)
}
