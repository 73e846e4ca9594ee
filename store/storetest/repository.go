package storetest

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/store"
)

var repositoryTests = tests{
	"a repository keeps its row when it is renamed":            renamed,
	"an unknown repository is not found":                       unknownRepository,
	"ending a repository parks its open queues":                endRepository,
	"a repository given back opens what its end parked":        givenBack,
	"only the repositories named end":                          endSome,
	"a queue's version grows with its settings only":           settingsVersion,
	"a queue is found by its target":                           queueByTarget,
	"a merge request's row follows the host":                   followsHost,
	"texts of any length and kind are stored":                  longTexts,
	"the watermark never goes back":                            watermark,
	"a repository or a queue without what names it is refused": refusedRows,
}

func renamed(t *testing.T, db Database) {
	w := newWorld(t, db)
	now := bot.RepositoryRef{Host: "forge", ExternalID: 4711, Path: "fruit/bowl", Installation: 8}
	repo, err := w.store.UpsertRepository(t.Context(), now)
	w.must(err)
	now.DefaultBranch = "main" // the stored one is kept
	if repo.ID != w.repo.ID || repo.RepositoryRef != now || !repo.Active {
		t.Errorf("after the rename: %+v", repo)
	}
	found, ok, err := w.store.FindRepository(t.Context(), "forge", 4711)
	w.must(err)
	if !ok || found != repo {
		t.Errorf("found %+v, %v", found, ok)
	}
	all, err := w.store.ActiveRepositories(t.Context(), "forge")
	w.must(err)
	if len(all) != 1 || all[0] != repo {
		t.Errorf("active: %+v", all)
	}
}

func unknownRepository(t *testing.T, db Database) {
	w := newWorld(t, db)
	for _, host := range []string{"forge", "Forge"} {
		if _, ok, err := w.store.FindRepository(t.Context(), host, 1); err != nil || ok {
			t.Errorf("%s: %v, %v", host, ok, err)
		}
	}
	if all, err := w.store.ActiveRepositories(t.Context(), "Forge"); err != nil || len(all) != 0 {
		t.Errorf("names of hosts are told apart by case, got %v, %v", all, err)
	}
}

func endRepository(t *testing.T, db Database) {
	w := newWorld(t, db)
	paused := w.newQueue("paused")
	w.execute(`UPDATE queue SET status = ? WHERE id = ?`, bot.QueuePaused, paused.ID)
	w.must(w.store.DeactivateRepositories(t.Context(), "forge", 0, nil, "uninstalled by somebody"))
	queue, repo, err := w.store.ReadQueue(t.Context(), w.queue.ID)
	w.must(err)
	if repo.Active || queue.State != bot.QueueParked || !strings.Contains(queue.Reason, "uninstalled by somebody") {
		t.Errorf("active %v, queue %s because %q", repo.Active, queue.State, queue.Reason)
	}
	if queue, _, err = w.store.ReadQueue(t.Context(), paused.ID); err != nil || queue.State != bot.QueuePaused {
		t.Errorf("what a person paused became %s, %v", queue.State, err)
	}
	if all, err := w.store.ActiveRepositories(t.Context(), "forge"); err != nil || len(all) != 0 {
		t.Errorf("active: %v, %v", all, err)
	}
}

func givenBack(t *testing.T, db Database) {
	w := newWorld(t, db)
	red := w.newQueue("red")
	w.must(w.store.ParkQueue(t.Context(), red.ID, "no CI ran"))
	w.must(w.store.DeactivateRepositories(t.Context(), "forge", 0, nil, "uninstalled"))
	_, err := w.store.UpsertRepository(t.Context(), w.repo.RepositoryRef)
	w.must(err)
	for id, want := range map[int64]bot.QueueState{w.queue.ID: bot.QueueOpen, red.ID: bot.QueueParked} {
		queue, repo, err := w.store.ReadQueue(t.Context(), id)
		w.must(err)
		if !repo.Active || queue.State != want {
			t.Errorf("queue %s: %s because %q, want %s", queue.Target, queue.State, queue.Reason, want)
		}
	}
}

func endSome(t *testing.T, db Database) {
	w := newWorld(t, db)
	for id, installation := range map[int64]int64{1: 7, 2: 7, 3: 8} {
		_, err := w.store.UpsertRepository(t.Context(), bot.RepositoryRef{Host: "forge", ExternalID: id, Path: "a/b", Installation: installation})
		w.must(err)
	}
	w.must(w.store.DeactivateRepositories(t.Context(), "forge", 7, []int64{}, "nothing named"))
	w.must(w.store.DeactivateRepositories(t.Context(), "forge", 7, []int64{1, 3, 99}, "removed")) // 3 came to another installation
	active, err := w.store.ActiveRepositories(t.Context(), "forge")
	w.must(err)
	var left []int64
	for _, r := range active {
		left = append(left, r.ExternalID)
	}
	if len(left) != 3 || value[int](w, `SELECT active FROM repository WHERE external_id = 1`) != 0 {
		t.Errorf("left: %v", left)
	}
}

func settingsVersion(t *testing.T, db Database) {
	w := newWorld(t, db)
	upsert := func(settings bot.QueueSettings, blob string) bot.Queue {
		t.Helper()
		queue, err := w.store.UpsertQueue(t.Context(), w.repo.ID, settings, blob)
		w.must(err)
		if queue.ID != w.queue.ID || queue.SettingsBlob != blob {
			t.Fatalf("stored %+v", queue)
		}
		return queue
	}
	settings := bot.DefaultQueueSettings("main")
	if q := upsert(settings, ""); q.Version != 1 {
		t.Errorf("the same settings: version %d", q.Version)
	}
	if q := upsert(settings, "b10b"); q.Version != 1 {
		t.Errorf("the same settings from another file: version %d", q.Version)
	}
	settings.MaxBatchSize, settings.FillWait, settings.Checks.Required = 7, time.Minute, []string{"build", "lint"}
	q := upsert(settings, "b10c")
	if q.Version != 2 || q.Settings.MaxBatchSize != 7 || q.Settings.FillWait != time.Minute || len(q.Settings.Checks.Required) != 2 {
		t.Errorf("new settings: %+v", q)
	}
	w.must(w.store.ParkQueue(t.Context(), q.ID, "red"))
	if q := upsert(bot.DefaultQueueSettings("main"), ""); q.State != bot.QueueParked || q.Reason != "red" {
		t.Errorf("new settings opened the queue: %+v", q)
	}
}

func queueByTarget(t *testing.T, db Database) {
	w := newWorld(t, db)
	if q, ok, err := w.store.FindQueue(t.Context(), w.repo.ID, "main"); err != nil || !ok || q.ID != w.queue.ID {
		t.Errorf("main: %+v, %v, %v", q, ok, err)
	}
	if _, ok, err := w.store.FindQueue(t.Context(), w.repo.ID, "Main"); err != nil || ok {
		t.Errorf("branch names differ by case, yet Main: %v, %v", ok, err)
	}
}

func followsHost(t *testing.T, db Database) {
	w := newWorld(t, db)
	snapshot := bot.MRSnapshot{Number: 3, Title: "Pears", Author: bot.Actor{ID: 9, Login: "ann"}, HeadSHA: sha(1), Target: "main", State: bot.MROpen}
	first, err := w.store.RecordMR(t.Context(), w.repo.ID, snapshot)
	w.must(err)
	w.must(w.store.SaveSticky(t.Context(), first.ID, 77))
	snapshot.Title, snapshot.Author.Login, snapshot.HeadSHA = "Pears and plums", "anna", sha(2)
	second, err := w.store.RecordMR(t.Context(), w.repo.ID, snapshot)
	w.must(err)
	want := bot.MergeRequest{ID: first.ID, RepositoryID: w.repo.ID, Number: 3, Title: snapshot.Title, Author: snapshot.Author, HeadSHA: sha(2), StickyCommentID: 77}
	if second != want {
		t.Errorf("got %+v\nwant %+v", second, want)
	}
	before := w.snapshot()
	_, err = w.store.RecordMR(t.Context(), w.repo.ID, snapshot)
	w.must(err)
	if w.snapshot() != before {
		t.Error("recording what is known wrote something")
	}
}

func longTexts(t *testing.T, db Database) {
	w := newWorld(t, db)
	for i, title := range []string{strings.Repeat("é", 3000), "bad \xff\xfe bytes", "🍐 emoji", "zero \x00 byte", "trailing  ", ""} {
		snapshot := bot.MRSnapshot{Number: i + 1, Title: title, HeadSHA: sha(1), Author: bot.Actor{Login: strings.Repeat("x", 400)}}
		for range 2 { // stored, then found unchanged
			if _, err := w.store.RecordMR(t.Context(), w.repo.ID, snapshot); err != nil {
				t.Errorf("title %.20q: %v", title, err)
			}
		}
	}
	if n := value[int](w, `SELECT MAX(version) FROM merge_request`); n != 1 {
		t.Errorf("a clipped text counts as a change: version %d", n)
	}
}

func watermark(t *testing.T, db Database) {
	w := newWorld(t, db)
	late := time.Date(2026, 11, 30, 12, 0, 0, 123456000, time.UTC)
	for _, seen := range []time.Time{late, late.Add(-time.Hour)} {
		w.must(w.store.SaveWatermark(t.Context(), w.repo.ID, seen))
		repo, _, err := w.store.FindRepository(t.Context(), "forge", 4711)
		w.must(err)
		if !repo.CommentsSeenAt.Equal(late) {
			t.Errorf("seen up to %s", repo.CommentsSeenAt)
		}
	}
}

func refusedRows(t *testing.T, db Database) {
	w := newWorld(t, db)
	for _, ref := range []bot.RepositoryRef{{ExternalID: 1, Path: "a/b"}, {Host: "forge", Path: "a/b"}, {Host: "forge", ExternalID: 1}} {
		if _, err := w.store.UpsertRepository(t.Context(), ref); err == nil {
			t.Errorf("stored %+v", ref)
		}
	}
	for _, branch := range []string{"", strings.Repeat("b", 256)} {
		if _, err := w.store.UpsertQueue(t.Context(), w.repo.ID, bot.QueueSettings{Branch: branch}, ""); err == nil {
			t.Errorf("stored a queue for a branch of %d characters", len(branch))
		}
	}
}

// each runs f n times at once, over a few instances of the store, and waits for all.
func each(w *world, n int, f func(s *store.Store, i int)) {
	w.Helper()
	stores := []*store.Store{w.store, w.Open(w), w.Open(w)}
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-start
			f(stores[i%len(stores)], i)
		})
	}
	close(start)
	all.Wait()
}
