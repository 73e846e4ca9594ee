//go:build faultpoints

package main

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/fault"
	"github.com/batchbot/batchbot/config"
)

// storm is one run of the proof by killing: three instances of the real program on one MySQL, a GitHub and a GitLab with people who
// want things, and somebody who kills all of them but the hosts.
type storm struct {
	seed  uint64
	again string        // the command that runs it once more, with %d for the seed
	mrs   int           // of both hosts together
	span  time.Duration // within which people ask for everything

	// What a life of an instance is, on average, until it is killed from outside.
	life time.Duration
	// How long the database server lives.
	server time.Duration
}

// toll is what a storm cost.
type toll struct {
	kills      map[string]int // by write point; "" at any other moment
	pauses     int
	servers    int // kills of mysqld
	resumed    map[string]int
	flakes     int
	lost       int // webhooks
	batches    int
	differs    int // LANDED_DIFFERS
	looks      int
	reached    map[string]int
	violations []string
	elapsed    time.Duration
}

// TestProofStorm is the bounded storm of `make proof`.
func TestProofStorm(t *testing.T) {
	t.Parallel()
	s := storm{seed: seedOf(t), again: "SEED=%d make proof", mrs: 60, span: 20 * time.Second, life: 2 * time.Second, server: 10 * time.Second}
	result := s.run(t)
	report(os.Stdout, s, []toll{result})
	result.fail(t, s)
}

// TestChaos is `make chaos`: storms of 200 merge requests, COUNT of them.
func TestChaos(t *testing.T) {
	count := 10
	if text := os.Getenv("COUNT"); text != "" {
		var err error
		if count, err = strconv.Atoi(text); err != nil || count < 1 {
			t.Fatalf("COUNT=%s: write a number of storms", text)
		}
	}
	first := seedOf(t)
	var all []toll
	for n := range count {
		s := storm{seed: first + uint64(n), again: "SEED=%d COUNT=1 make chaos", mrs: 200, span: time.Minute, life: 3 * time.Second, server: 15 * time.Second}
		t.Run(fmt.Sprintf("seed %d", s.seed), func(t *testing.T) {
			result := s.run(t)
			all = append(all, result)
			result.fail(t, s)
		})
		report(os.Stdout, s, all)
	}
	kills := make(map[string]int)
	for _, one := range all {
		for point, n := range one.kills {
			kills[point] += n
		}
	}
	for _, point := range faultPoints() {
		if count >= 5 && kills[point] == 0 {
			t.Errorf("nobody died %s: the storms are too short to say anything about it", point)
		}
	}
}

// seedOf is the seed of the first storm: it decides what people want and when, and with it most of what happens.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("SEED")
	if text == "" {
		return uint64(time.Now().UnixMilli())
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("SEED=%s: write a number", text)
	}
	return seed
}

func faultPoints() (points []string) {
	for _, w := range fault.Writes() {
		points = append(points, "before "+string(w), "after "+string(w))
	}
	return points
}

func (result toll) fail(t *testing.T, s storm) {
	t.Helper()
	for _, v := range result.violations {
		t.Error(v)
	}
	if t.Failed() {
		t.Errorf("%d violations; once more: %s", len(result.violations), fmt.Sprintf(s.again, s.seed))
	}
}

// run is the storm. Whatever it finds is in the toll.
func (s storm) run(t *testing.T) toll {
	t.Helper()
	began := time.Now()
	dir := t.TempDir()
	dsn, db := emptyMySQL(t)
	server := findMysqld(t, db)
	// Nothing waits for ever for a server that was killed.
	db.SetConnMaxLifetime(time.Second)

	var instances []*instance
	for _, name := range []string{"one", "two", "three"} {
		instances = append(instances, &instance{name: name, binary: proofBinary(t), config: filepath.Join(dir, name+".yml"), dir: dir})
	}
	towns := []*town{
		newTown(t, config.GitHub, bot.LandByMerge, s.mrs*3/5, s.seed, instances),
		newTown(t, config.GitLab, bot.LandByPush, s.mrs*2/5, s.seed+1, instances),
	}
	var hosts strings.Builder
	for _, w := range towns {
		hosts.WriteString(w.hostSettings(w.kind, w.host.url))
	}
	settings := world{dir: dir}
	settings.write(t, "dsn", dsn)
	for _, i := range instances {
		settings.write(t, i.name+".yml", fmt.Sprintf(`
data_dir: %[1]s/data-%[2]s
database: {driver: mysql, dsn_file: %[1]s/dsn}
look: {interval: 1s, max_interval: 1s}
rounds: {poll: 500ms}
hosts:%[3]s`, dir, i.name, hosts.String()))
	}
	if code, stdout, stderr := command(t, nil, "migrate", "--config", instances[0].config); code != exitDone {
		t.Fatalf("migrate exits %d: %s%s", code, stdout, stderr)
	}

	result := toll{kills: make(map[string]int), resumed: make(map[string]int)}
	found := &violations{}
	w := &watcher{db: db, found: found}
	k := &killer{storm: s, result: &result, found: found, dice: rand.New(rand.NewPCG(s.seed, 4)), calm: make(chan struct{})}
	all, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { stop(); running.Wait() })
	for _, i := range instances {
		running.Go(func() {
			if err := i.supervise(all, k.next, k.died); err != nil {
				t.Error(err)
			}
		})
	}
	running.Go(func() { w.watch(all) })
	running.Go(func() { k.operate(all, t, db, instances[0].config) })
	within(t, time.Minute, "the instances' first look", func() bool {
		var n int
		err := db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM repository WHERE comments_seen_at > 0`).Scan(&n)
		return err == nil && n == len(towns)
	})
	k.begin()
	for _, i := range instances {
		i.kill() // the lives so far had no end
	}
	running.Go(func() { k.killServer(all, server) })
	var people sync.WaitGroup
	for i, w := range towns {
		people.Go(func() { w.live(all, t, s.seed+uint64(i), s.span) })
	}
	people.Wait()
	s.settle(t, db, towns, k, found)
	stop()
	running.Wait()

	result.looks = w.looks
	if w.looks < 20 {
		found.add("the rows could be looked at only %d times", w.looks)
	}
	for _, w := range towns {
		n, err := w.state(t, db)
		if err != nil {
			t.Fatal(err)
		}
		result.differs += w.judge(t, n, found)
		result.batches += len(n.batches)
		result.flakes += w.flakes
		result.lost += w.lost
	}
	for what, query := range map[string]string{
		"deliveries were given up": `SELECT COUNT(*) FROM delivery WHERE status = 4`,
		"errands were given up":    `SELECT COUNT(*) FROM outbox WHERE status = 3`,
	} {
		if n := count(t, db, query); n != 0 {
			found.add("lost: %d %s", n, what)
		}
	}
	result.reached = passed(t, dir)
	result.violations = found.all()
	result.elapsed = time.Since(began)
	if keep := os.Getenv("PROOF_LOGS"); keep != "" && len(result.violations) > 0 {
		if err := os.CopyFS(filepath.Join(keep, fmt.Sprint(s.seed)), os.DirFS(dir)); err != nil {
			t.Log(err)
		}
	}
	return result
}

// settle lets the killing go on until everything is as it should be or the people have been waiting for long, then calms the storm and waits for the
// rest. A person whose merge request landed just before a push asks again.
func (s storm) settle(t *testing.T, db *sql.DB, towns []*town, k *killer, found *violations) {
	t.Helper()
	storming := time.Now().Add(s.span)
	moved, last := time.Now(), ""
	var left []string
	for {
		left = nil
		for _, w := range towns {
			n, err := w.state(t, db)
			if err != nil {
				left = append(left, err.Error())
				continue
			}
			left = append(left, w.unfinished(n)...)
			w.askAgain(t, n)
		}
		if len(left) == 0 || time.Now().After(storming) {
			k.end()
		}
		if len(left) == 0 && stillness(t.Context(), db) {
			return
		}
		if now := progress(t.Context(), db) + strings.Join(left, "; "); now != last {
			moved, last = time.Now(), now
		}
		// A slow machine needs its time: it is over when nothing moves any more.
		if time.Since(moved) > patience {
			for _, l := range left {
				found.add("I9: not settled: %s", l)
			}
			if len(left) == 0 {
				found.add("I9: something is still on its way long after the last kill")
			}
			return
		}
		rest(t.Context(), 500*time.Millisecond)
	}
}

// askAgain has the authors whose older commit landed ask for the newer one, once.
func (w *town) askAgain(t *testing.T, n townState) {
	t.Helper()
	for _, v := range w.wishes {
		ops, mr := n.operations[v.number], n.mrs[v.number]
		if v.fate != fatedMover || len(ops) != 1 || mr.State != "open" || ops[0].status != bot.OperationMerged || ops[0].head == mr.Head {
			continue
		}
		asked := 0
		for _, c := range mr.Comments {
			if c.Author == v.author {
				asked++
			}
		}
		if asked == 1 {
			w.say(t, v, "/batch")
		}
	}
}

// patience is how long nothing may move before a storm counts as not settled: many polls, looks and leases.
const patience = 2 * time.Minute

// progress changes with every batch that moves.
func progress(ctx context.Context, db *sql.DB) string {
	var n, version int64
	if err := db.QueryRowContext(ctx, `SELECT COUNT(*), COALESCE(SUM(version), 0) FROM merge_batch`).Scan(&n, &version); err != nil {
		return ""
	}
	return fmt.Sprintf("%d batches, %d writes: ", n, version)
}

// stillness reports whether nothing is under way or waits to be said; see quiet.
func stillness(ctx context.Context, db *sql.DB) bool {
	var n int
	err := db.QueryRowContext(ctx, `SELECT (SELECT COUNT(*) FROM merge_batch WHERE status IN (1, 4)) + (SELECT COUNT(*) FROM merge_batch_request) +
		(SELECT COUNT(*) FROM outbox WHERE status = 1 AND kind <> 8) + (SELECT COUNT(*) FROM delivery WHERE status = 1)`).Scan(&n)
	return err == nil && n == 0
}

// killer decides who dies when, and counts.
type killer struct {
	storm
	calm chan struct{} // closed: no more
	once sync.Once

	mu      sync.Mutex
	begun   bool
	dice    *rand.Rand
	result  *toll
	found   *violations
	down    time.Time // when the database server was killed last
	refused int
}

func (k *killer) begin() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.begun = true
}

func (k *killer) end() { k.once.Do(func() { close(k.calm) }) }

func (k *killer) over() bool {
	select {
	case <-k.calm:
		return true
	default:
		return false
	}
}

// next arms most lives with some of the points at which fewest died so far, and ends every one from outside if it passes none of them.
func (k *killer) next() life {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over() || !k.begun {
		return life{}
	}
	l := life{kill: time.Duration((0.2 + k.dice.ExpFloat64()) * float64(k.life))}
	switch luck := k.dice.IntN(10); {
	case luck < 7:
		points := faultPoints()
		k.dice.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
		slices.SortStableFunc(points, func(a, b string) int { return cmp.Compare(k.result.kills[a], k.result.kills[b]) })
		l.fault = strings.Join(points[:len(points)/6], ",")
		l.kill *= 2
	case luck == 7:
		// As long as a lease, and a little more or less.
		l.pause = shortLease/2 + time.Duration(k.dice.Int64N(int64(shortLease)))
		k.result.pauses++
	}
	return l
}

func (k *killer) died(d death) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if d.err == nil {
		k.result.kills[d.point]++
		return
	}
	if time.Since(k.down) < 30*time.Second && strings.Contains(d.err.Error(), "database") {
		k.refused++ // it was not there when the instance started, which then says so and ends
		return
	}
	k.found.add("instance %s %v", d.instance, d.err)
}

func (k *killer) killServer(ctx context.Context, server *mysqld) {
	for {
		k.mu.Lock()
		lives := time.Duration((0.5 + k.dice.Float64()) * float64(k.server))
		k.mu.Unlock()
		select {
		case <-k.calm:
			return
		case <-ctx.Done():
			return
		case <-time.After(lives):
		}
		k.mu.Lock()
		k.down = time.Now()
		k.result.servers++
		k.mu.Unlock()
		if err := server.kill(ctx); err != nil && ctx.Err() == nil {
			k.found.add("the database server: %v", err)
			return
		}
	}
}

// operate is the operator, who resumes a queue that parked because of a runner that seems broken. For no other reason may one park.
func (k *killer) operate(ctx context.Context, t *testing.T, db *sql.DB, file string) {
	for rest(ctx, 2*time.Second) {
		for host, reason := range parkedQueues(ctx, db) {
			if code, _, _ := command(t, nil, "queue", "resume", "--config", file, host+"/"+e2eRepo+":main"); code != exitDone {
				continue // the database is down
			}
			k.mu.Lock()
			k.result.resumed[reason]++
			k.mu.Unlock()
			if !mayPark(reason) {
				k.found.add("the queue of %s parked, although nobody did anything: %s", host, reason)
			}
		}
	}
}

// parkedQueues reads why which host's queue is parked; nothing while the database is down.
func parkedQueues(ctx context.Context, db *sql.DB) map[string]string {
	rows, err := db.QueryContext(ctx, `SELECT r.host, q.reason FROM queue q JOIN repository r ON r.id = q.repository_id WHERE q.status = 3`)
	if err != nil {
		return nil
	}
	defer rows.Close()
	parked := make(map[string]string)
	for rows.Next() {
		var host, reason string
		if rows.Scan(&host, &reason) == nil {
			parked[host] = reason
		}
	}
	if rows.Err() != nil {
		return nil
	}
	return parked
}

// mayPark tells the one reason for which a queue of these towns may park: CI that fails now and then whatever it is given.
func mayPark(reason string) bool {
	for _, code := range []bot.Code{
		bot.CodeNoCI, bot.CodePushRefused, bot.CodeMergeRefused, bot.CodeHostGone, bot.CodeClosed, bot.CodeBranchDeleted, bot.CodeForeignPush,
	} {
		if strings.HasPrefix(reason, string(code)) {
			return false
		}
	}
	return !strings.Contains(reason, "repository is archived") && !strings.Contains(reason, "target branch is gone")
}

// report prints what the storms so far cost.
func report(out io.Writer, s storm, all []toll) {
	kills, reached := make(map[string]int), make(map[string]int)
	var sum toll
	resumed := make(map[string]int)
	for _, one := range all {
		for point, n := range one.kills {
			kills[point] += n
		}
		for point, n := range one.reached {
			reached[point] += n
		}
		for reason, n := range one.resumed {
			resumed[reason] += n
		}
		sum.pauses += one.pauses
		sum.servers += one.servers
		sum.flakes += one.flakes
		sum.lost += one.lost
		sum.batches += one.batches
		sum.differs += one.differs
		sum.looks += one.looks
		sum.elapsed += one.elapsed
		sum.violations = append(sum.violations, one.violations...)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\nwrite point\tpassed\tkilled before\tkilled after\t")
	points := 0
	for _, w := range fault.Writes() {
		before, after := kills["before "+string(w)], kills["after "+string(w)]
		points += before + after
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t\n", w, reached["before "+string(w)], before, after)
	}
	fmt.Fprintf(table, "at any moment\t\t\t%d\t\n", kills[""])
	_ = table.Flush()
	fmt.Fprintf(out, "\n%d storms of %d merge requests on a GitHub and a GitLab, 3 instances, %d kills (%d at write points), %d pauses, %d kills of mysqld, %.0f s\n",
		len(all), s.mrs, points+kills[""], points, sum.pauses, sum.servers, sum.elapsed.Seconds())
	fmt.Fprintf(out, "%d batches, %d flaky CI runs, %d webhooks lost, %d landings flagged LANDED_DIFFERS, %d looks at a consistent snapshot\n",
		sum.batches, sum.flakes, sum.lost, sum.differs, sum.looks)
	for _, reason := range slices.Sorted(maps.Keys(resumed)) {
		fmt.Fprintf(out, "queues resumed by the operator: %d: %s\n", resumed[reason], reason)
	}
	fmt.Fprintf(out, "violations: %d; the last seed is %d\n", len(sum.violations), s.seed)
	for _, v := range sum.violations {
		fmt.Fprintln(out, "  "+v)
	}
}
