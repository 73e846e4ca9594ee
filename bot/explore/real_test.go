package explore

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/gitmerge"
	"github.com/batchbot/batchbot/store"
	"github.com/batchbot/batchbot/store/memory"
)

// Some schedules once more, with SQLite in place of the store in memory and real git in place of the commits in memory. EXPLORE_REAL says how
// many.
func TestSchedulesOnSQLiteAndGit(t *testing.T) {
	t.Parallel()
	for part := range 2 {
		t.Run(fmt.Sprint("part ", part), func(t *testing.T) {
			t.Parallel()
			for i := part; i < number(t, "EXPLORE_REAL", 2) && !t.Failed(); i += 2 {
				seed := uint64(number(t, "EXPLORE_FIRST", 1) + i)
				playReal(t, seed).report(t, seed, 60, "make explore FIRST=%d COUNT=1 REAL=1")
			}
		})
	}
}

func playReal(t *testing.T, seed uint64) (p played) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		path := filepath.Join(dir, fmt.Sprint(seed, ".db"))
		db, err := store.Open(t.Context(), store.Options{Driver: store.SQLite, Path: path})
		must(err)
		defer db.Close()
		must(db.Migrate(t.Context()))
		looking, err := sql.Open("sqlite", "file:"+path+"?mode=ro&_pragma=busy_timeout(5000)")
		must(err)
		defer looking.Close()
		merger, err := gitmerge.New(gitmerge.Options{Dir: filepath.Join(dir, fmt.Sprint(seed, "-mirrors")), TmpDir: dir})
		must(err)
		origin, err := newDisk(filepath.Join(dir, fmt.Sprint(seed, ".git")))
		must(err)

		w := newWorld(t, seed)
		w.git = &diskGit{real: merger, disk: origin, host: w.host}
		w.operator = db
		w.look = func() memory.Rows {
			rows, err := lookSQL(t.Context(), looking, db)
			must(err)
			return rows
		}
		locks := &processLocks{held: make(map[string]*instance)}
		w.open = func(in *instance) (rows, func()) {
			return gated{rows: db, in: in, locks: locks}, func() { locks.drop(in) }
		}
		w.play()
		p = played{w.counts, w.violation, w.story}
	})
	return p
}

// gated stops the writes of a real store at an instance's gates.
type gated struct {
	rows
	in    *instance
	locks *processLocks
}

// do makes one write behind the gate.
func do[A any](ctx context.Context, g gated, name string, write func() (A, error)) (answer A, err error) {
	if err := g.in.seam(ctx, name, true, false); err != nil {
		var none A
		return none, fmt.Errorf("%s: %w", name, err)
	}
	if answer, err = write(); err != nil {
		return answer, err
	}
	if err := g.in.seam(ctx, name, true, true); err != nil {
		var none A
		return none, fmt.Errorf("%s: after commit: %w", name, err)
	}
	return answer, nil
}

func only(err error) (struct{}, error) { return struct{}{}, err }

type batchAnswer struct {
	batch bot.Batch
	ok    bool
}

func (g gated) Claim(ctx context.Context, spec bot.ClaimSpec) (bot.ClaimResult, error) {
	return do(ctx, g, "claim", func() (bot.ClaimResult, error) { return g.rows.Claim(ctx, spec) })
}

func (g gated) RecordBuild(ctx context.Context, guard bot.BatchGuard, record bot.BuildRecord) (bot.Batch, bool, error) {
	a, err := do(ctx, g, fmt.Sprint("record a build of batch ", guard.BatchID), func() (batchAnswer, error) {
		b, ok, err := g.rows.RecordBuild(ctx, guard, record)
		return batchAnswer{b, ok}, err
	})
	return a.batch, a.ok, err
}

func (g gated) ChangeBatch(ctx context.Context, guard bot.BatchGuard, change bot.BatchChange) (bot.Batch, bool, error) {
	a, err := do(ctx, g, fmt.Sprint("change batch ", guard.BatchID), func() (batchAnswer, error) {
		b, ok, err := g.rows.ChangeBatch(ctx, guard, change)
		return batchAnswer{b, ok}, err
	})
	return a.batch, a.ok, err
}

func (g gated) Move(ctx context.Context, m bot.Move) (bot.MoveResult, error) {
	return do(ctx, g, "move operation "+m.OperationID, func() (bot.MoveResult, error) { return g.rows.Move(ctx, m) })
}

func (g gated) Settle(ctx context.Context, s bot.Settlement) (bool, error) {
	return do(ctx, g, fmt.Sprint("settle batch ", s.Guard.BatchID), func() (bool, error) { return g.rows.Settle(ctx, s) })
}

func (g gated) LandedLate(ctx context.Context, batchID int64, landed string, ids []string) (bool, error) {
	return do(ctx, g, fmt.Sprint("record late ", batchID), func() (bool, error) { return g.rows.LandedLate(ctx, batchID, landed, ids) })
}

func (g gated) ParkQueue(ctx context.Context, queueID int64, reason string) error {
	_, err := do(ctx, g, "park", func() (struct{}, error) { return only(g.rows.ParkQueue(ctx, queueID, reason)) })
	return err
}

func (g gated) ClaimDeliveries(ctx context.Context, limit int, lease time.Duration) ([]bot.Delivery, error) {
	return do(ctx, g, "claim deliveries", func() ([]bot.Delivery, error) { return g.rows.ClaimDeliveries(ctx, limit, lease) })
}

func (g gated) FinishDelivery(ctx context.Context, id int64, attempts int, outcome bot.DeliveryOutcome) (bool, error) {
	return do(ctx, g, fmt.Sprint("finish delivery ", id), func() (bool, error) { return g.rows.FinishDelivery(ctx, id, attempts, outcome) })
}

func (g gated) RecordMR(ctx context.Context, repositoryID int64, mr bot.MRSnapshot) (bot.MergeRequest, error) {
	return do(ctx, g, fmt.Sprint("record merge request ", mr.Number), func() (bot.MergeRequest, error) { return g.rows.RecordMR(ctx, repositoryID, mr) })
}

func (g gated) Apply(ctx context.Context, a bot.Application) (bot.ApplyResult, error) {
	return do(ctx, g, fmt.Sprint("apply merge request ", a.MR.Number), func() (bot.ApplyResult, error) { return g.rows.Apply(ctx, a) })
}

func (g gated) Answer(ctx context.Context, a bot.Answer) (bool, error) {
	return do(ctx, g, "answer command "+a.Command.RequestID, func() (bool, error) { return g.rows.Answer(ctx, a) })
}

func (g gated) SaveWatermark(ctx context.Context, repositoryID int64, seen time.Time) error {
	_, err := do(ctx, g, "save how far comments were seen", func() (struct{}, error) { return only(g.rows.SaveWatermark(ctx, repositoryID, seen)) })
	return err
}

func (g gated) ClaimErrands(ctx context.Context, limit int, lease time.Duration) ([]bot.Errand, error) {
	return do(ctx, g, "claim errands", func() ([]bot.Errand, error) { return g.rows.ClaimErrands(ctx, limit, lease) })
}

func (g gated) FinishErrand(ctx context.Context, e bot.Errand) error {
	_, err := do(ctx, g, fmt.Sprint("finish errand ", e.ID), func() (struct{}, error) { return only(g.rows.FinishErrand(ctx, e)) })
	return err
}

func (g gated) PostponeErrand(ctx context.Context, e bot.Errand, d time.Duration, reason string) error {
	_, err := do(ctx, g, fmt.Sprint("postpone errand ", e.ID), func() (struct{}, error) { return only(g.rows.PostponeErrand(ctx, e, d, reason)) })
	return err
}

// processLocks are advisory locks by instance: the instances of a schedule are one process, and share one store here.
type processLocks struct {
	mu   sync.Mutex
	held map[string]*instance
}

func (l *processLocks) drop(in *instance) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, holder := range l.held {
		if holder == in {
			delete(l.held, name)
		}
	}
}

func (g gated) TryLock(ctx context.Context, name string) (context.Context, func(), bool, error) {
	g.locks.mu.Lock()
	defer g.locks.mu.Unlock()
	if g.locks.held[name] != nil {
		return nil, nil, false, nil
	}
	g.locks.held[name] = g.in
	return ctx, func() {
		g.locks.mu.Lock()
		defer g.locks.mu.Unlock()
		if g.locks.held[name] == g.in {
			delete(g.locks.held, name)
		}
	}, true, nil
}

// lookSQL reads what invariants speak of.
func lookSQL(ctx context.Context, db *sql.DB, s *store.Store) (rows memory.Rows, err error) {
	rows.Claimed = make(map[int64]int)
	each := func(query string, read func(scan func(...any) error) error) {
		if err != nil {
			return
		}
		var found *sql.Rows
		if found, err = db.QueryContext(ctx, query); err != nil {
			return
		}
		defer found.Close()
		for found.Next() && err == nil {
			err = read(found.Scan)
		}
		if err == nil {
			err = found.Err()
		}
	}
	each(`SELECT b.id, b.subject_id, b.target_key, b.operation_id, b.status, b.version,
		(SELECT h.to_status FROM binding_history h WHERE h.binding_id = b.id ORDER BY h.id DESC LIMIT 1) FROM binding b ORDER BY b.id`, func(scan func(...any) error) error {
		var b memory.Binding
		err := scan(&b.ID, &b.SubjectID, &b.Target, &b.OperationID, &b.Status, &b.Version, &b.LastHistory)
		rows.Bindings = append(rows.Bindings, b)
		return err
	})
	each(`SELECT operation_id, queue_id, COALESCE(batch_id, 0), cohort FROM merge_batch_request ORDER BY id`, func(scan func(...any) error) error {
		var r memory.Request
		err := scan(&r.OperationID, &r.QueueID, &r.BatchID, &r.Cohort)
		rows.Requests = append(rows.Requests, r)
		return err
	})
	each(`SELECT batch_id, COUNT(*) FROM merge_batch_member WHERE event = 1 GROUP BY batch_id`, func(scan func(...any) error) error {
		var id int64
		var n int
		err := scan(&id, &n)
		rows.Claimed[id] = n
		return err
	})
	each(`SELECT (SELECT COUNT(*) FROM outbox WHERE status = 1), (SELECT COUNT(*) FROM delivery WHERE status = 1)`, func(scan func(...any) error) error {
		return scan(&rows.DueErrands, &rows.DueInbox)
	})
	var operations []string
	each(`SELECT operation_id FROM operation ORDER BY created_at, operation_id`, func(scan func(...any) error) error {
		var id string
		err := scan(&id)
		operations = append(operations, id)
		return err
	})
	var queues []int64
	each(`SELECT id FROM queue ORDER BY id`, func(scan func(...any) error) error {
		var id int64
		err := scan(&id)
		queues = append(queues, id)
		return err
	})
	if err != nil {
		return rows, err
	}
	for _, id := range queues {
		q, _, err := s.ReadQueue(ctx, id)
		if err != nil {
			return rows, err
		}
		rows.Queues = append(rows.Queues, q)
	}
	for _, id := range operations {
		v, err := s.OperationView(ctx, id)
		if err != nil {
			return rows, err
		}
		rows.Operations = append(rows.Operations, v.Operation)
	}
	list, err := s.ListBatches(ctx, bot.BatchFilter{Limit: 10_000})
	for _, v := range slices.Backward(list) {
		rows.Batches = append(rows.Batches, v.Batch)
	}
	return rows, err
}

// diskGit is bot.Git by gitmerge on a repository on disk, which is brought in line with the host's before each call and read after it.
type diskGit struct {
	real bot.Git
	disk *disk
	host *host
}

// around makes one call.
func around[A any](g *diskGit, call func(remote bot.GitRemote) (A, error)) (A, error) {
	var none A
	if err := g.disk.copy(g.host.git); err != nil {
		return none, err
	}
	answer, err := call(g.disk.remote())
	if readErr := g.disk.read(g.host.git); readErr != nil {
		return none, readErr
	}
	return answer, err
}

func (g *diskGit) Build(ctx context.Context, _ bot.GitRemote, spec bot.BuildSpec) (bot.Build, error) {
	made, err := around(g, func(r bot.GitRemote) (bot.Build, error) { return g.real.Build(ctx, r, spec) })
	if err != nil {
		return nil, err
	}
	return diskBuild{made, g}, nil
}

type diskBuild struct {
	bot.Build
	git *diskGit
}

func (b diskBuild) Push(ctx context.Context, branch string, known []string) (bot.PushOutcome, error) {
	return around(b.git, func(bot.GitRemote) (bot.PushOutcome, error) { return b.Build.Push(ctx, branch, known) })
}

func (b diskBuild) PushBase(ctx context.Context, branch string, known []string) (bot.PushOutcome, error) {
	return around(b.git, func(bot.GitRemote) (bot.PushOutcome, error) { return b.Build.PushBase(ctx, branch, known) })
}

func (g *diskGit) FastForward(ctx context.Context, _ bot.GitRemote, branch, base, head string) (bot.PushOutcome, error) {
	return around(g, func(r bot.GitRemote) (bot.PushOutcome, error) { return g.real.FastForward(ctx, r, branch, base, head) })
}

func (g *diskGit) DeleteBranch(ctx context.Context, _ bot.GitRemote, branch string, known []string) (bot.PushOutcome, error) {
	return around(g, func(r bot.GitRemote) (bot.PushOutcome, error) { return g.real.DeleteBranch(ctx, r, branch, known) })
}

func (g *diskGit) ChangedPaths(ctx context.Context, _ bot.GitRemote, branch string, m bot.BuildMember) (paths []string, known bool, err error) {
	_, err = around(g, func(r bot.GitRemote) (_ struct{}, err error) {
		paths, known, err = g.real.ChangedPaths(ctx, r, branch, m)
		return struct{}{}, err
	})
	return paths, known, err
}

func (g *diskGit) Inspect(ctx context.Context, _ bot.GitRemote, q bot.InspectSpec) (bot.Inspection, error) {
	return around(g, func(r bot.GitRemote) (bot.Inspection, error) { return g.real.Inspect(ctx, r, q) })
}

func (d *disk) git(args ...string) (string, error) {
	out, err := exec.Command("git", append([]string{"-C", d.dir}, args...)...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}

// read follows what was pushed to the repository on disk: branches and the commits they brought.
func (d *disk) read(r *repository) error {
	found := make(map[string]string)
	err := filepath.WalkDir(filepath.Join(d.dir, "refs", "heads"), func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(path, ".lock") {
			return err
		}
		name, err := filepath.Rel(d.dir, path)
		if err != nil {
			return err
		}
		id, err := os.ReadFile(path)
		found[filepath.ToSlash(name)] = strings.TrimSpace(string(id))
		return err
	})
	if err != nil {
		return err
	}
	for ref, id := range found {
		if r.refs[ref] == id {
			continue
		}
		if err := d.bring(r, id); err != nil {
			return err
		}
		r.move(ref, id)
	}
	for ref := range r.refs {
		if strings.HasPrefix(ref, "refs/heads/") && found[ref] == "" {
			r.move(ref, "")
		}
	}
	return nil
}

// bring makes a commit on disk, and all before it, known in memory.
func (d *disk) bring(r *repository, id string) error {
	if r.commits[id] != nil {
		return nil
	}
	raw, err := d.git("cat-file", "commit", id)
	if err != nil {
		return err
	}
	c := &commit{id: id, raw: raw, files: files{}}
	for line := range strings.Lines(raw) {
		word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch word {
		case "tree":
			c.tree = rest
		case "parent":
			if err := d.bring(r, rest); err != nil {
				return err
			}
			c.parents = append(c.parents, r.commits[rest])
		}
		if word == "author" {
			break
		}
	}
	listing, err := d.git("ls-tree", "-z", c.tree)
	if err != nil {
		return err
	}
	contents := make(map[string]string, len(r.blobs))
	for content, blob := range r.blobs {
		contents[blob] = content
	}
	for entry := range strings.SplitSeq(strings.TrimSuffix(listing, "\x00"), "\x00") {
		meta, path, _ := strings.Cut(entry, "\t")
		fields := strings.Fields(meta)
		if _, err := hex.DecodeString(fields[2]); err != nil {
			return err
		}
		c.files[path] = contents[fields[2]]
	}
	r.add(c)
	d.copied[id] = true
	return nil
}
