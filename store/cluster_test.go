//go:build cluster

package store_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/store"
	"github.com/batchbot/batchbot/store/clustertest"
	"github.com/batchbot/batchbot/store/storetest"
)

// The primary of a group of three goes away in the middle of work, again and again: killed, frozen, replaced by hand. Four instances admit, claim
// and settle all the time, through one address that leads to the primary, and keep their handles. What was acknowledged is there, nothing is
// claimed twice, the invariants hold at every look, and every instance goes on by itself.
func TestClusterLosesItsPrimary(t *testing.T) {
	cluster := clustertest.Open(t)
	front := clustertest.Follow(t, cluster.Primary)
	load := newLoad(t, cluster, front)
	load.start(4)
	load.progress("work before anything happens")
	signal := func(s syscall.Signal) func(string) {
		return func(primary string) { cluster.Signal(t, primary, s) }
	}
	for _, blow := range []struct {
		name   string
		strike func(primary string)
		heal   func(primary string) // when all is well again
	}{
		{"killed", signal(syscall.SIGKILL), nil},
		{"killed again", signal(syscall.SIGKILL), nil},
		{"frozen, and thawed later", signal(syscall.SIGSTOP), signal(syscall.SIGCONT)},
		{"replaced by hand", func(string) { cluster.Replace(t) }, nil},
	} {
		primary := front.Primary()
		load.mark()
		struck := time.Now()
		blow.strike(primary)
		clustertest.Eventually(t, 2*time.Minute, "another primary", func() bool {
			now := front.Primary()
			return now != "" && now != primary
		})
		elected := time.Since(struck)
		load.progress("work on the new primary")
		longest, last := load.outage()
		storetest.CheckInvariants(t, load.database)
		if blow.heal != nil {
			blow.heal(primary)
		}
		cluster.Whole(t)
		t.Logf("primary %s: another after %.1f s, no write acknowledged for %.1f s, the last of %d instances back after %.1f s, three nodes again after %.0f s",
			blow.name, elected.Seconds(), longest.Seconds(), len(load.stores), last.Seconds(), time.Since(struck).Seconds())
		load.progress("work on three nodes")
		storetest.CheckInvariants(t, load.database)
	}
	load.finish()
	load.compare()
}

// load is several instances at work, and what they were told.
type load struct {
	testing.TB
	ctx      context.Context // of the work; ends with the test at the latest
	database storetest.Database
	options  store.Options
	stores   []*store.Store
	repo     bot.Repository
	queues   []bot.Queue

	admitting context.Context // ends first
	close     context.CancelFunc
	stop      context.CancelFunc
	workers   sync.WaitGroup

	mu         sync.Mutex
	admitted   []int
	deliveries []string
	claimed    map[int64][]string // batch → its members
	settled    map[int64]bot.BatchStatus
	failures   map[string]int // what the store said meanwhile → how often
	busy       []pulse        // of each instance
	all        pulse
}

// pulse is when writes were acknowledged.
type pulse struct {
	last    time.Time
	longest time.Duration // between two, since the mark
	writes  int           // since the mark
	batches int
}

func (p *pulse) beat(now time.Time, batch bool) {
	p.longest = max(p.longest, now.Sub(p.last))
	p.last = now
	p.writes++
	if batch {
		p.batches++
	}
}

func newLoad(t testing.TB, cluster *clustertest.Cluster, front *clustertest.Front) *load {
	t.Helper()
	name := "cluster_test_" + strings.ToLower(rand.Text())
	if _, err := cluster.Connect(t, front.Address, "").ExecContext(t.Context(), "CREATE DATABASE "+name+" CHARACTER SET utf8mb4"); err != nil {
		t.Fatal(err)
	}
	l := &load{
		TB: t, options: store.Options{Driver: store.MySQL, DSN: cluster.DSN(front.Address, name), MaxConns: 6, Env: name},
		claimed: make(map[int64][]string), settled: make(map[int64]bot.BatchStatus), failures: make(map[string]int),
	}
	l.database = storetest.Database{Driver: store.MySQL, SQL: cluster.Connect(t, front.Address, name)}
	l.ctx, l.stop = context.WithCancel(t.Context())
	l.admitting, l.close = context.WithCancel(l.ctx)
	return l
}

// start migrates through the address and lets instances begin.
func (l *load) start(instances int) {
	l.Helper()
	for i := range instances {
		s, err := store.Open(l.ctx, l.options)
		if err != nil {
			l.Fatal(err)
		}
		l.Cleanup(func() { _ = s.Close() })
		if i == 0 {
			l.prepare(s)
		}
		l.stores = append(l.stores, s)
	}
	l.busy = make([]pulse, instances)
	l.mark()
	for i, s := range l.stores {
		l.workers.Go(func() { l.admit(i, s) })
		for _, q := range l.queues {
			l.workers.Go(func() { l.batch(i, s, q) })
		}
	}
	l.Cleanup(func() {
		l.stop()
		l.workers.Wait()
	})
}

func (l *load) prepare(s *store.Store) {
	l.Helper()
	if err := s.Migrate(l.ctx); err != nil {
		l.Fatal(err)
	}
	if err := s.CheckMigrated(l.ctx); err != nil {
		l.Fatal(err)
	}
	var err error
	if l.repo, err = s.UpsertRepository(l.ctx, bot.RepositoryRef{Host: "forge", ExternalID: 4711, Path: "fruit/basket", DefaultBranch: "main"}); err != nil {
		l.Fatal(err)
	}
	for _, target := range []string{"main", "release"} {
		q, err := s.UpsertQueue(l.ctx, l.repo.ID, bot.DefaultQueueSettings(target), "")
		if err != nil {
			l.Fatal(err)
		}
		l.queues = append(l.queues, q)
	}
}

// rest is the pause before a worker tries again; false: the work is over.
func rest(ctx context.Context) bool {
	timer := time.NewTimer(50 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// told books an acknowledged write of an instance.
func (l *load) told(instance int, batch bool, book func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.busy[instance].beat(now, batch)
	l.all.beat(now, batch)
	book()
}

// failed books what the store said, without what differs from time to time.
func (l *load) failed(what string, err error) {
	if l.ctx.Err() != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	text := err.Error()
	if _, after, found := strings.Cut(text, ": "); found {
		text = after
	}
	l.failures[what+": "+text]++
}

// admit stores a webhook and applies a merge request, as the intake does, and repeats each until it is answered.
func (l *load) admit(instance int, s *store.Store) {
	for n := instance + 1; rest(l.admitting); n += len(l.stores) {
		key := fmt.Sprintf("delivery-%d", n)
		for {
			_, err := s.InsertDelivery(l.ctx, "forge", key, "comment", []byte("{}"))
			if err == nil {
				l.told(instance, false, func() { l.deliveries = append(l.deliveries, key) })
				break
			}
			if l.failed("webhook", err); !rest(l.ctx) {
				return
			}
		}
		q := l.queues[n%len(l.queues)]
		application := bot.Application{
			OperationID: fmt.Sprintf("00000000-0000-4000-8000-%012d", n), QueueID: q.ID, Repository: l.repo, Admit: true, Lane: bot.LaneNormal,
			MR:      bot.MRSnapshot{Number: n, HeadSHA: fmt.Sprintf("%040x", n), Target: q.Target, State: bot.MROpen},
			Command: bot.CommandRef{RequestID: fmt.Sprintf("forge:issue:%d:1", n), Order: bot.CommandOrder{At: int64(n), ID: int64(n)}, By: "ann", Verb: "batch"},
		}
		application.ExpiresIn = 24 * time.Hour
		for {
			result, err := s.Apply(l.ctx, application)
			switch {
			case err != nil:
				l.failed("admission", err)
			case (result.Outcome == bot.ApplyDone || result.Outcome == bot.ApplyDuplicate) && result.Operation.ID == application.OperationID:
				l.told(instance, false, func() { l.admitted = append(l.admitted, n) })
			case result.Outcome != bot.ApplyRetryLater:
				l.Errorf("application of %d: outcome %d, operation %q", n, result.Outcome, result.Operation.ID)
				return
			}
			if err == nil && result.Outcome != bot.ApplyRetryLater {
				break
			}
			if !rest(l.ctx) {
				return
			}
		}
	}
}

// batch claims what waits in a queue and settles what is active, whoever claimed it.
func (l *load) batch(instance int, s *store.Store, q bot.Queue) {
	for rest(l.ctx) {
		claimed, err := s.Claim(l.ctx, bot.ClaimSpec{QueueID: q.ID, Kind: bot.BatchFresh, Limit: 8, Token: rand.Text()[:16], Timeout: time.Hour})
		switch {
		case err != nil:
			l.failed("claim", err)
		case claimed.Outcome == bot.ClaimDone:
			var members []string
			for _, op := range claimed.Members {
				members = append(members, op.ID)
			}
			l.told(instance, true, func() {
				if before, twice := l.claimed[claimed.Batch.ID]; twice {
					l.Errorf("batch %d was given to two claimers, with %v and %v", claimed.Batch.ID, before, members)
				}
				l.claimed[claimed.Batch.ID] = members
			})
			l.settle(instance, s, claimed)
		case claimed.Outcome == bot.ClaimSlotOccupied:
			batch, members, found, err := s.ActiveBatch(l.ctx, q.ID)
			if err != nil {
				l.failed("look", err)
			} else if found && len(members) == batch.Size {
				l.settle(instance, s, bot.ClaimResult{Batch: batch, Members: members})
			}
		}
	}
}

// settle lands two batches of three and sends the members of the third back.
func (l *load) settle(instance int, s *store.Store, claimed bot.ClaimResult) {
	settlement := bot.Settlement{Guard: claimed.Batch.Guard(), Status: bot.BatchSucceeded, Code: bot.CodeLanded}
	to, reason := bot.OperationMerged, bot.ReasonLanded
	if claimed.Batch.ID%3 == 0 {
		settlement.Status, settlement.Code, to, reason = bot.BatchFailed, bot.CodeTargetMoving, bot.OperationWaiting, bot.ReasonSuspect
	}
	for _, op := range claimed.Members {
		settlement.Members = append(settlement.Members, bot.MemberOutcome{OperationID: op.ID, To: to, Reason: reason})
	}
	done, err := s.Settle(l.ctx, settlement)
	switch {
	case err != nil:
		l.failed("settlement", err) // whoever finds the batch active next settles it
	case done:
		l.told(instance, true, func() { l.settled[claimed.Batch.ID] = settlement.Status })
	}
}

// mark begins to measure anew.
func (l *load) mark() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for i := range l.busy {
		l.busy[i] = pulse{last: now}
	}
	l.all = pulse{last: now}
}

// outage is for how long nobody had a write acknowledged, and for how long the instance that took longest.
func (l *load) outage() (longest, last time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.busy {
		last = max(last, p.longest)
	}
	return l.all.longest, last
}

// progress waits until every instance has got on with admissions and batches.
func (l *load) progress(what string) {
	l.Helper()
	writes := func() (least, batches int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		least = l.busy[0].writes
		for _, p := range l.busy {
			least = min(least, p.writes)
			batches += p.batches
		}
		return least, batches
	}
	least, batches := writes()
	clustertest.Eventually(l, 3*time.Minute, what, func() bool {
		nowLeast, nowBatches := writes()
		return nowLeast >= least+30 && nowBatches >= batches+20
	})
}

// finish lets everything that was admitted land, and the instances end.
func (l *load) finish() {
	l.Helper()
	l.close()
	clustertest.Eventually(l, 3*time.Minute, "everything to land", func() bool {
		var waiting int
		if err := l.database.SQL.QueryRowContext(l.Context(), `SELECT COUNT(*) FROM merge_batch_request`).Scan(&waiting); err != nil {
			l.Fatal(err)
		}
		return waiting == 0
	})
	l.stop()
	l.workers.Wait()
}

// texts are the first columns of a query's rows.
func (l *load) texts(query string) []string {
	l.Helper()
	rows, err := l.database.SQL.QueryContext(l.Context(), query)
	if err != nil {
		l.Fatalf("%s: %v", query, err)
	}
	defer func() { _ = rows.Close() }()
	var all []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			l.Fatal(err)
		}
		all = append(all, text)
	}
	if err := rows.Err(); err != nil {
		l.Fatal(err)
	}
	return all
}

// compare holds what the instances were told against the tables.
func (l *load) compare() {
	l.Helper()
	storetest.CheckInvariants(l, l.database)
	missing := func(what string, told, kept []string) {
		l.Helper()
		there := make(map[string]bool, len(kept))
		for _, k := range kept {
			there[k] = true
		}
		for _, key := range told {
			if !there[key] {
				l.Errorf("%s %s was acknowledged and is not there", what, key)
			}
		}
	}
	missing("webhook", l.deliveries, l.texts(`SELECT delivery_key FROM delivery`))
	var admitted, claims, settlements []string
	for _, n := range l.admitted {
		admitted = append(admitted, fmt.Sprintf("%d landed", n))
	}
	missing("merge request", admitted, l.texts(`SELECT CONCAT(m.number, ' landed') FROM operation o JOIN merge_request m ON m.id = o.merge_request_id WHERE o.status = 4`))
	for batch, members := range l.claimed {
		for _, member := range members {
			claims = append(claims, fmt.Sprintf("%d of %s", batch, member))
		}
	}
	missing("claim", claims, l.texts(`SELECT CONCAT(batch_id, ' of ', operation_id) FROM merge_batch_member WHERE event = 1`))
	for batch, status := range l.settled {
		settlements = append(settlements, fmt.Sprintf("%d as %d", batch, status))
	}
	missing("settlement", settlements, l.texts(`SELECT CONCAT(id, ' as ', status) FROM merge_batch`))

	for what, query := range map[string]string{
		"landed twice": `SELECT operation_id FROM merge_batch_member WHERE event = 4 GROUP BY operation_id HAVING COUNT(*) > 1`,
		"in two batches that did not send it back": `SELECT m.operation_id FROM merge_batch_member m JOIN merge_batch b ON b.id = m.batch_id
			WHERE m.event = 1 AND b.status <> 3 GROUP BY m.operation_id HAVING COUNT(*) > 1`,
		"applied twice": `SELECT CONCAT('merge request ', merge_request_id) FROM operation GROUP BY merge_request_id HAVING COUNT(*) > 1`,
	} {
		for _, operation := range l.texts(query) {
			l.Errorf("operation %s was %s", operation, what)
		}
	}
	retries := int64(0)
	for _, s := range l.stores {
		retries += s.Stats().Retries
	}
	l.Logf("acknowledged and there: %d webhooks, %d admissions, %d claims, %d settlements; %d transactions run again",
		len(l.deliveries), len(l.admitted), len(l.claimed), len(l.settled), retries)
	for _, failure := range slices.Sorted(maps.Keys(l.failures)) {
		l.Logf("%d × %s", l.failures[failure], failure)
	}
}
