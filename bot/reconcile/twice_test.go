package reconcile_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/reconcile"
	"github.com/batchbot/batchbot/bot/round"
)

// Doing it twice equals doing it once: each mend is broken at its nth write, for every n, done again, and then once more by those who still hold what
// was found at first. Nothing is left, and nothing is there twice: there is as much of everything as after a mend that nobody broke.
func TestAMendIsBrokenAtEachWriteAndDoneTwice(t *testing.T) {
	t.Parallel()
	for kind, begin := range map[reconcile.Kind]func(w *world) (again func()){
		reconcile.RepositoryUnknown: func(w *world) func() {
			made := 0
			return func() {
				made++
				w.addRepository("lib" + strconv.Itoa(made))
			}
		},
		reconcile.RepositoryMoved: func(w *world) func() {
			now, made := path, 0
			return func() {
				made++
				name := "app" + strconv.Itoa(made)
				w.must(w.fake.Rename(now, name))
				now = "acme/" + name
			}
		},
		reconcile.RepositoryGone: func(w *world) func() {
			return func() {
				w.must(w.fake.SetArchived(path, false))
				w.mends(w.find())
				w.must(w.fake.SetArchived(path, true))
			}
		},
		reconcile.OperationStale: func(w *world) func() {
			return func() {
				number := w.applied(false)
				w.says()
				w.approve(number)
			}
		},
		reconcile.OperationLanded: func(w *world) func() {
			return func() {
				number := w.applied(true)
				w.says()
				mr, err := w.fake.MR(path, number)
				w.must(err)
				w.must(w.fake.SetBranch(path, w.queue.Target, mr.Head, "bob"))
			}
		},
		reconcile.BatchStale: func(w *world) func() {
			w.applied(true)
			return func() {
				_, err := w.store.ResumeQueue(w.t.Context(), w.queue.ID, "bob")
				w.must(err)
				batch := w.opened()
				w.says()
				w.must(w.fake.CloseMR(path, batch.MRNumber, "bob"))
			}
		},
		reconcile.BranchMissing: func(w *world) func() {
			// As on a host where an MR stays open without its branch.
			lost := false
			hosts := map[string]bot.Host{"hub": forgetful{w.host, func() bool { return lost && w.restores() == 0 }}}
			w.driver = round.New(round.Config{Store: w.store, Locks: w.store, Hosts: hosts, Git: w.config.Git})
			w.config.Hosts = hosts
			w.reconciler = reconcile.New(w.config)
			w.applied(true)
			return func() {
				lost = false
				if batch, _, ok, err := w.store.ActiveBatch(w.t.Context(), w.queue.ID); err == nil && ok { // of the time before
					w.must(w.fake.CloseMR(path, batch.MRNumber, "bob"))
					w.ticks()
				}
				_, err := w.store.ResumeQueue(w.t.Context(), w.queue.ID, "bob")
				w.must(err)
				w.opened()
				w.says()
				lost = true
			}
		},
		reconcile.BatchReopened: func(w *world) func() {
			batch := w.closed()
			return func() {
				w.must(w.fake.SetBranch(path, batch.Branch(w.queue.Target), batch.HeadSHA, "bob"))
				w.must(w.fake.ReopenMR(path, batch.MRNumber, "bob"))
			}
		},
		reconcile.BranchLeft: func(w *world) func() {
			batch := w.closed()
			return func() { w.must(w.fake.SetBranch(path, batch.Branch(w.queue.Target), batch.HeadSHA, "bob")) }
		},
		reconcile.StickyMissing: func(w *world) func() {
			w.applied(false)
			w.says()
			return func() { w.exec(`UPDATE merge_request SET sticky_comment_id = 123456789`) }
		},
		reconcile.ErrandGivenUp: func(w *world) func() {
			w.applied(false)
			w.says()
			return func() { w.exec(`UPDATE outbox SET status = 3, error = 'the host forbids it' WHERE kind = 1`) }
		},
		reconcile.DeliveryFailed: func(w *world) func() {
			_, err := w.store.InsertDelivery(w.t.Context(), "hub", "k", "push", []byte("{}"))
			w.must(err)
			return func() { w.exec(`UPDATE delivery SET status = 4, error = 'poison'`) }
		},
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			target := "main"
			if kind == reconcile.OperationLanded {
				target = "release" // the host marks nothing there
			}
			w := newWorld(t, target)
			w.says()
			w.breakable()
			differ := begin(w)
			differ() // the first is unlike the others: it makes what they find
			w.mends(w.find())
			mended := func(at int) (writes int, left map[string]int) {
				before := w.counts()
				differ()
				found := w.find()
				if !slices.ContainsFunc(found, func(d reconcile.Difference) bool { return d.Kind == kind }) {
					t.Fatalf("found %+v, want %s", found, kind)
				}
				writes = w.breaksAt(at, func() { w.reconciler.Mend(t.Context(), found, operator) })
				if at > 0 && !slices.ContainsFunc(found, func(d reconcile.Difference) bool { return d.Outcome == reconcile.Failed }) {
					t.Errorf("write %d was broken and nobody noticed", at)
				}
				rest := w.find()
				w.reconciler.Mend(t.Context(), rest, operator)
				w.says()
				w.finds()
				after := w.counts()
				w.reconciler.Mend(t.Context(), found, operator)
				w.reconciler.Mend(t.Context(), rest, operator)
				w.says()
				w.finds()
				for what, n := range w.counts() {
					if what != "audit" && n != after[what] {
						t.Errorf("broken at write %d: mended a second time there are %d more of %s", at, n-after[what], what)
					}
				}
				for what := range after {
					after[what] -= before[what]
				}
				return writes, after
			}
			writes, want := mended(0)
			if writes == 0 {
				t.Fatal("it was mended without a write")
			}
			t.Logf("%d writes, %v", writes, want)
			for at := 1; at <= writes; at++ {
				if _, got := mended(at); !maps.Equal(got, want) {
					t.Errorf("broken at write %d of %d it leaves %v, want %v", at, writes, got, want)
				}
			}
		})
	}
}

// forgetful is a host that knows no batch branch while gone says so.
type forgetful struct {
	bot.Host
	gone func() bool
}

func (f forgetful) ReadBranch(ctx context.Context, repo bot.Repository, branch string) (string, error) {
	if strings.HasPrefix(branch, bot.BatchBranchPrefix) && f.gone() {
		return "", bot.ErrNotFound
	}
	return f.Host.ReadBranch(ctx, repo, branch)
}

// restores is how often the branch of the active batch was pushed again.
func (w *world) restores() int {
	w.t.Helper()
	batch, _, _, err := w.store.ActiveBatch(w.t.Context(), w.queue.ID)
	w.must(err)
	return batch.Restores
}

// closed makes a batch that is over: a person closed its MR, and all of it is cleared away.
func (w *world) closed() bot.Batch {
	w.t.Helper()
	w.applied(true)
	batch := w.opened()
	w.must(w.fake.CloseMR(path, batch.MRNumber, "bob"))
	w.ticks()
	w.says()
	return batch
}

// tables are those with rows of ours.
func (w *world) tables() (names []string) {
	w.t.Helper()
	rows, err := w.rows.QueryContext(w.t.Context(), `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND name NOT IN ('goose_db_version', 'fuse')`)
	w.must(err)
	defer rows.Close()
	for rows.Next() {
		var name string
		w.must(rows.Scan(&name))
		names = append(names, name)
	}
	w.must(rows.Err())
	return names
}

// breakable has every row that is written counted, and the database refuse one of them. What a transaction counted it takes back with itself.
func (w *world) breakable() {
	w.t.Helper()
	w.exec(`CREATE TABLE fuse (left INTEGER NOT NULL)`)
	w.exec(`INSERT INTO fuse VALUES (0)`)
	for _, table := range w.tables() {
		for _, verb := range []string{"INSERT", "UPDATE", "DELETE"} {
			w.exec(fmt.Sprintf(`CREATE TRIGGER fuse_%s_%s AFTER %[2]s ON %[1]s BEGIN
				UPDATE fuse SET left = left - 1;
				SELECT RAISE(ABORT, 'this write is broken') FROM fuse WHERE left = 0;
			END`, table, verb))
		}
	}
}

// breaksAt has the nth row that do writes refused, none when n is 0, and returns how many were written.
func (w *world) breaksAt(n int, do func()) (writes int) {
	w.t.Helper()
	w.exec(`UPDATE fuse SET left = ?`, n)
	do()
	var left int
	w.must(w.rows.QueryRowContext(w.t.Context(), `SELECT left FROM fuse`).Scan(&left))
	w.exec(`UPDATE fuse SET left = 0`)
	return n - left
}

// counts says how much there is of everything: rows, comments and merge requests.
func (w *world) counts() map[string]int {
	w.t.Helper()
	counts := make(map[string]int)
	for _, table := range w.tables() {
		var n int
		w.must(w.rows.QueryRowContext(w.t.Context(), `SELECT COUNT(*) FROM `+table).Scan(&n))
		counts[table] = n
	}
	for number := 1; ; number++ {
		mr, err := w.fake.MR(path, number)
		if err != nil { // no such merge request
			return counts
		}
		counts["merge requests"]++
		counts["comments"] += len(mr.Comments)
	}
}

// find lists what differs.
func (w *world) find() []reconcile.Difference {
	w.t.Helper()
	found, err := w.reconciler.Find(w.t.Context(), reconcile.Scope{})
	w.must(err)
	return found
}
