package storetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/batchbot/batchbot/bot"
)

var viewTests = tests{
	"the place in the waiting order":                            places,
	"suspects come first, the oldest cohort before the others":  suspectsFirst,
	"an operation shows the batch it rides in or rode in last":  lastBatch,
	"the status comment shows every target, newest first":       stickyTargets,
	"after a new application only the new operation is current": currentOnly,
	"what is followed":                            followed,
	"a batch shows everybody who was in it":       batchMembers,
	"what is not there is an error that names it": notThere,
}

func (w *world) position(number int) int {
	w.Helper()
	view, err := w.store.OperationView(w.Context(), operationID(number))
	w.must(err)
	return view.Position
}

func (w *world) positions(numbers ...int) string {
	w.Helper()
	var places []string
	for _, n := range numbers {
		places = append(places, fmt.Sprint(w.position(n)))
	}
	return strings.Join(places, " ")
}

func places(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2)
	for n, lane := range map[int]bot.Lane{3: bot.LaneHigh, 4: bot.LaneLow} {
		a := w.application(w.queue, n, true)
		a.Lane = lane
		w.apply(a)
	}
	w.admit(w.queue, 5)
	w.admit(w.newQueue("release"), 6) // another queue has its own order
	w.apply(w.application(w.queue, 7, false))
	if got := w.positions(1, 2, 3, 4, 5, 6, 7); got != "2 3 1 5 4 1 0" {
		t.Errorf("places %s", got)
	}
	order := numbers(w.claim(w.queue, 4).Members)
	if fmt.Sprint(order) != "[3 1 2 5]" {
		t.Errorf("and yet claimed were %v", order)
	}
	if got := w.positions(1, 4); got != "0 1" {
		t.Errorf("after the claim: %s", got)
	}
}

func suspectsFirst(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2, 3, 4)
	for range 2 {
		claimed := w.claim(w.queue, 2)
		s := bot.Settlement{Guard: claimed.Batch.Guard(), Status: bot.BatchFailed, Code: bot.CodeCIRed,
			Members: outcomes(claimed.Members, bot.OperationWaiting, bot.ReasonSuspect)}
		for i := range s.Members {
			s.Members[i].Cohort = claimed.Batch.ID
		}
		if ok, err := w.store.Settle(t.Context(), s); err != nil || !ok {
			t.Fatal(ok, err)
		}
	}
	a := w.application(w.queue, 5, true)
	a.Lane = bot.LaneHigh
	w.apply(a)
	w.admit(w.queue, 6)
	if got := w.positions(1, 2, 3, 4, 5, 6); got != "1 2 3 4 5 6" {
		t.Errorf("places %s", got)
	}
}

func lastBatch(t *testing.T, db Database) {
	w := newWorld(t, db)
	op := w.operationIn(bot.OperationWaiting, 1)
	view, err := w.store.OperationView(t.Context(), op.ID)
	w.must(err)
	if view.Batch != nil || view.Queue.Target != "main" || view.Operation != op {
		t.Errorf("waiting: %+v", view)
	}
	claimed := w.claim(w.queue, 1)
	view, err = w.store.OperationView(t.Context(), op.ID)
	w.must(err)
	if view.Batch == nil || view.Batch.ID != claimed.Batch.ID || view.Operation.BatchID != claimed.Batch.ID || view.Position != 0 {
		t.Errorf("riding: %+v", view)
	}
	if ok, err := w.store.Settle(t.Context(), bot.Settlement{Guard: claimed.Batch.Guard(), Status: bot.BatchSucceeded, Code: bot.CodeLanded, LandedSHA: sha(77),
		Members: outcomes(claimed.Members, bot.OperationMerged, bot.ReasonLanded)}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	view, err = w.store.OperationView(t.Context(), op.ID)
	w.must(err)
	if view.Batch == nil || view.Batch.LandedSHA != sha(77) || view.Operation.BatchID != 0 || view.Operation.Status != bot.OperationMerged {
		t.Errorf("landed: %+v", view)
	}
}

func stickyTargets(t *testing.T, db Database) {
	w := newWorld(t, db)
	op := w.operationIn(bot.OperationCancelled, 1)
	release := w.newQueue("release")
	a := w.again(op, 1)
	a.QueueID, a.MR.Target = release.ID, "release"
	w.apply(a)
	w.must(w.store.SaveSticky(t.Context(), op.MergeRequestID, 55))
	view, err := w.store.StickyView(t.Context(), op.MergeRequestID)
	w.must(err)
	if view.Repository != w.repo || view.MergeRequest.Number != 1 || view.MergeRequest.StickyCommentID != 55 || view.MergeRequest.LastCommand != a.Command.Order {
		t.Errorf("view %+v", view)
	}
	var got []string
	for _, o := range view.Operations {
		got = append(got, fmt.Sprintf("%s %s", o.Queue.Target, o.Operation.Status))
	}
	if strings.Join(got, ", ") != "release WAITING, main CANCELLED" {
		t.Errorf("operations %v", got)
	}
}

func currentOnly(t *testing.T, db Database) {
	w := newWorld(t, db)
	op := w.operationIn(bot.OperationClosed, 1)
	now := w.apply(w.again(op, 1))
	views, err := w.store.CurrentOperations(t.Context(), w.repo.ID, 1)
	w.must(err)
	if len(views) != 1 || views[0].Operation != now || views[0].Position != 1 {
		t.Errorf("current: %+v", views)
	}
	if views, err := w.store.CurrentOperations(t.Context(), w.repo.ID, 99); err != nil || len(views) != 0 {
		t.Errorf("of an unknown merge request: %v, %v", views, err)
	}
}

func followed(t *testing.T, db Database) {
	w := newWorld(t, db)
	var want []string
	for i, status := range statuses {
		w.operationIn(status, i+1)
		if status.Followed() {
			want = append(want, fmt.Sprintf("%d %s", i+1, status))
		}
	}
	ops, err := w.store.FollowedOperations(t.Context(), w.repo.ID)
	w.must(err)
	var got []string
	for _, op := range ops {
		got = append(got, fmt.Sprintf("%d %s", op.Number, op.Status))
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if ops, err := w.store.FollowedOperations(t.Context(), w.repo.ID+1); err != nil || len(ops) != 0 {
		t.Errorf("in another repository: %v, %v", ops, err)
	}
}

func batchMembers(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 3, 1, 2)
	claimed := w.claim(w.queue, 3)
	m := w.moveTo(claimed.Members[1], bot.OperationPendingApproval)
	m.HeadSHA, m.Reason, m.Detail = sha(500), bot.ReasonHeadMoved, "pushed"
	if result, err := w.store.Move(t.Context(), m); err != nil || result != bot.MoveDone {
		t.Fatal(result, err)
	}
	batch, members, _, err := w.store.ActiveBatch(t.Context(), w.queue.ID)
	w.must(err)
	batch, ok, err := w.store.RecordBuild(t.Context(), batch.Guard(), bot.BuildRecord{Result: bot.BuildResult{BaseSHA: sha(900), HeadSHA: sha(901)}, Timeout: lease})
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if ok, err := w.store.Settle(t.Context(), bot.Settlement{Guard: batch.Guard(), Status: bot.BatchSucceeded, Code: bot.CodeLanded,
		Members: outcomes(members, bot.OperationMerged, bot.ReasonLanded)}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	view, err := w.store.BatchView(t.Context(), batch.ID)
	w.must(err)
	var got []string
	for _, m := range view.Members {
		got = append(got, fmt.Sprintf("%d %s %s at %s, now %s", m.Operation.Number, m.Event, m.Reason, strings.TrimLeft(m.HeadSHA, "0"), m.Operation.Status))
	}
	want := "3 LANDED landed at 3, now MERGED; 1 EVICTED head_moved at 1, now PENDING_APPROVAL; 2 LANDED landed at 2, now MERGED"
	if strings.Join(got, "; ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "; "), want)
	}
	if view.Batch.Status != bot.BatchSucceeded || view.Queue.ID != w.queue.ID || view.Repository != w.repo || view.Members[1].Detail != "pushed" {
		t.Errorf("view %+v", view)
	}
	if heads, err := w.store.RecordedHeads(t.Context(), batch.ID); err != nil || len(heads) != 1 || heads[0] != sha(901) {
		t.Errorf("heads %v, %v", heads, err)
	}
}

func notThere(t *testing.T, db Database) {
	w := newWorld(t, db)
	for what, read := range map[string]func() error{
		"merge request row 99":         func() error { _, err := w.store.StickyView(t.Context(), 99); return err },
		"history entry 99":             func() error { _, err := w.store.HistoryEntry(t.Context(), 99); return err },
		"batch 99":                     func() error { _, err := w.store.BatchView(t.Context(), 99); return err },
		"operation " + operationID(99): func() error { _, err := w.store.OperationView(t.Context(), operationID(99)); return err },
	} {
		if err := read(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
