package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// fresh makes numbers for n merge requests that no earlier round used.
func (r *race) fresh(n int) []int {
	first := r.number + 1
	r.number += n
	return sequence(first, n)
}

// Without a version the complete sets come one after the other: what stays is one of those that were sent, whole, and row numbers keep their ids.
func curatedSaves(t *testing.T, db Database) {
	r := newRace(t, db, 4)
	r.rounds(func(int) {
		ns := r.fresh(12)
		set := r.draft(ns[0], ns[1], ns[2])
		ids := idsOf(set.Rows)
		sent := make([]string, 8)
		var savers []func()
		for i := range sent {
			rows := rowsOf(ns[0], ns[3+i], ns[2])
			if i%2 == 1 {
				rows = rowsOf(ns[0], ns[1], ns[3+i], ns[2])
			}
			sent[i] = shape(rows)
			savers = append(savers, func() {
				result, err := r.stores[i%len(r.stores)].SaveCurated(t.Context(), bot.CuratedSave{ID: set.ID, Rows: rows, By: "ann"})
				if err != nil || result.Outcome != bot.CuratedWritten || shape(result.Curated.Rows) != sent[i] {
					t.Errorf("%+v, %v", result, err)
				}
			})
		}
		together(savers...)
		now := r.set(set.ID)
		if !slices.Contains(sent, shape(now.Rows)) || now.Version != set.Version+int64(len(sent)) {
			t.Errorf("%s at version %d is none of %q", shape(now.Rows), now.Version, sent)
		}
		for _, row := range now.Rows {
			if row.RowNo < 4 && row.ID != ids[row.RowNo] {
				t.Errorf("row %d was %d and is %d", row.RowNo, ids[row.RowNo], row.ID)
			}
		}
		// With one, exactly one of many that were edited at the same version is written, and the others read again and lose nothing.
		var outcomes tally[bot.CuratedOutcome]
		var edits []func()
		for i := range 4 {
			edits = append(edits, func() {
				mine := ns[4+i]
				for {
					seen, ok, err := r.stores[i].ReadCurated(t.Context(), set.ID)
					if err != nil || !ok {
						t.Error(ok, err)
						return
					}
					rows := append(slices.Clone(seen.Curated.Rows), bot.CuratedRow{RowNo: 100 + i, Number: mine})
					result, err := r.stores[i].SaveCurated(t.Context(), bot.CuratedSave{ID: set.ID, Version: seen.Curated.Version, Rows: rows, By: "ann"})
					if err != nil {
						t.Error(err)
						return
					}
					outcomes.add(result.Outcome)
					if result.Outcome == bot.CuratedWritten {
						return
					}
				}
			})
		}
		together(edits...)
		if rows := r.set(set.ID).Rows; len(rows) != len(now.Rows)+4 {
			t.Errorf("an edit was lost: %s", shape(rows))
		}
		if outcomes.n[bot.CuratedWritten] != 4 {
			t.Errorf("%v", outcomes.n)
		}
	})
}

func curatedSubmitRace(t *testing.T, db Database) {
	r := newRace(t, db, 4)
	r.rounds(func(int) {
		ns := r.fresh(3)
		set := r.draft(ns...)
		var outcomes tally[bot.CuratedOutcome]
		var all []func()
		for i := range 32 {
			all = append(all, func() {
				result, err := r.stores[i%len(r.stores)].SubmitCurated(t.Context(), submission(set))
				if err != nil {
					t.Error(err)
				}
				outcomes.add(result.Outcome)
			})
		}
		together(all...)
		if outcomes.n[bot.CuratedWritten] != 1 || outcomes.n[bot.CuratedAlreadySubmitted] != 31 {
			t.Errorf("%v", outcomes.n)
		}
		if now := r.set(set.ID); now.Version != set.Version+1 || len(now.Rows) != 3 || !now.Committed {
			t.Errorf("%+v", now)
		}
	})
}

func curatedApproveRace(t *testing.T, db Database) {
	r := newRace(t, db, 4)
	r.rounds(func(int) {
		ns := r.fresh(3)
		set := r.submitted(ns...)
		var outcomes tally[bot.CuratedOutcome]
		var all []func()
		for i := range 8 {
			d := r.approval(set, i)
			all = append(all, func() {
				result, err := r.stores[i%len(r.stores)].DecideCurated(t.Context(), d)
				if err != nil {
					t.Error(err)
				}
				outcomes.add(result.Outcome)
			})
		}
		together(all...)
		if outcomes.n[bot.CuratedWritten] != 1 || outcomes.n[bot.CuratedAlreadyDecided] != 7 {
			t.Errorf("%v", outcomes.n)
		}
		if n := value[int](r.world, `SELECT COUNT(*) FROM merge_batch_request WHERE cohort = ?`, set.Cohort()); n != 3 {
			t.Errorf("%d requests", n)
		}
	})
}

func curatedApproveOrCancel(t *testing.T, db Database) {
	r := newRace(t, db, 3)
	r.rounds(func(int) {
		set := r.submitted(r.fresh(3)...)
		d := r.approval(set, 0)
		var outcomes tally[string]
		decide := func(i int, d bot.CuratedDecision) func() {
			return func() {
				result, err := r.stores[i].DecideCurated(t.Context(), d)
				if err != nil {
					t.Error(err)
				}
				if result.Outcome == bot.CuratedWritten {
					outcomes.add(d.To.String())
				} else if result.Outcome != bot.CuratedAlreadyDecided {
					t.Errorf("%s: %+v", d.To, result)
				}
			}
		}
		together(decide(0, d), decide(1, bot.CuratedDecision{ID: set.ID, To: bot.CuratedCancelled, By: "ann"}),
			decide(2, bot.CuratedDecision{ID: set.ID, To: bot.CuratedCancelled, By: "ann"}))
		if len(outcomes.n) != 1 || outcomes.n[r.set(set.ID).Status.String()] != 1 {
			t.Errorf("%v, and the set is %s", outcomes.n, r.set(set.ID).Status)
		}
	})
}

func curatedSaveOrSubmit(t *testing.T, db Database) {
	r := newRace(t, db, 2)
	r.rounds(func(int) {
		ns := r.fresh(4)
		set := r.draft(ns[0], ns[1])
		var saved, sent bot.CuratedResult
		together(func() {
			var err error
			if saved, err = r.stores[0].SaveCurated(t.Context(), bot.CuratedSave{ID: set.ID, Rows: rowsOf(ns[0], ns[2], ns[3]), By: "ann"}); err != nil {
				t.Error(err)
			}
		}, func() {
			var err error
			if sent, err = r.stores[1].SubmitCurated(t.Context(), submission(set)); err != nil {
				t.Error(err)
			}
		})
		now := r.set(set.ID)
		switch {
		case saved.Outcome == bot.CuratedWritten && sent.Outcome == bot.CuratedChanged && now.Status == bot.CuratedDraft && len(now.Rows) == 3:
		case saved.Outcome == bot.CuratedAlreadySubmitted && sent.Outcome == bot.CuratedWritten && now.Status == bot.CuratedPendingApproval && len(now.Rows) == 2:
		default:
			t.Errorf("saved %d, submitted %d, and it is %+v", saved.Outcome, sent.Outcome, now)
		}
	})
}

func curatedTwoCreators(t *testing.T, db Database) {
	r := newRace(t, db, 4)
	r.rounds(func(int) {
		ns := r.fresh(6)
		mr := r.mrRow(ns[0])
		sent := make(map[string]bool)
		var all []func()
		for i := range 4 {
			rows := rowsOf(ns[0], ns[1+i])
			sent[shape(rows)] = true
			all = append(all, func() {
				result, err := r.stores[i].SaveCurated(t.Context(), bot.CuratedSave{QueueID: r.queue.ID, MergeRequestID: mr.ID, Rows: rows, By: "ann"})
				if err != nil || result.Outcome != bot.CuratedWritten {
					t.Errorf("%+v, %v", result, err)
				}
			})
		}
		together(all...)
		set, ok, err := r.store.CuratedOf(t.Context(), mr.ID)
		if err != nil || !ok || set.Version != 4 || !sent[shape(set.Rows)] || value[int](r.world, `SELECT COUNT(*) FROM approval_request`) != 1 {
			t.Errorf("%+v, %v, %v", set, ok, err)
		}
	})
}

func curatedClaimOrLeave(t *testing.T, db Database) {
	r := newRace(t, db, 2)
	r.rounds(func(int) {
		ns := r.fresh(3)
		set := r.approved(ns...)
		m := r.moveTo(r.read(operationID(ns[1])), bot.OperationCancelled)
		spec := claimSpec(r.queue, 3)
		spec.Kind, spec.Cohort = bot.BatchCurated, set.Cohort()
		var claimed bot.ClaimResult
		var left bot.MoveResult
		together(func() {
			var err error
			if claimed, err = r.stores[0].Claim(t.Context(), spec); err != nil {
				t.Error(err)
			}
		}, func() {
			var err error
			if left, err = r.stores[1].Move(t.Context(), m); err != nil {
				t.Error(err)
			}
		})
		if (claimed.Outcome == bot.ClaimDone) == (left == bot.MoveDone) {
			t.Errorf("claim %s, move %d", claimed.Outcome, left)
		}
		if claimed.Outcome == bot.ClaimDone && len(claimed.Members) != 3 {
			t.Errorf("%v ride", numbers(claimed.Members))
		}
	})
}

// waits runs do in another instance while hold is in the middle of its transaction, at a statement that begins with at, and says whether do ended meanwhile.
func (r *race) waits(at string, hold, do func()) (ended bool) {
	r.Helper()
	reached, release, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	first := true
	r.on(r.stores[0], func(statement string, _ []any) error {
		if first && strings.HasPrefix(strings.TrimSpace(statement), at) {
			first = false
			close(reached)
			<-release
		}
		return nil
	})
	held := make(chan struct{})
	go func() { hold(); close(held) }()
	<-reached
	go func() { do(); close(done) }()
	select {
	case <-done:
		ended = true
	case <-time.After(300 * time.Millisecond):
	}
	close(release)
	<-held
	<-done
	r.on(r.stores[0], nil)
	return ended
}

// An approval has its lock and has not written yet: a cancel cannot commit underneath it.
func curatedCancelWaits(t *testing.T, db Database) {
	r := newRace(t, db, 2)
	if !db.severalWriters() {
		return
	}
	set := r.submitted(r.fresh(2)...)
	d := r.approval(set, 0)
	ended := r.waits("UPDATE approval_request", func() {
		if result, err := r.stores[0].DecideCurated(t.Context(), d); err != nil || result.Outcome != bot.CuratedWritten {
			t.Errorf("%+v, %v", result, err)
		}
	}, func() {
		if result, err := r.stores[1].DecideCurated(t.Context(), bot.CuratedDecision{ID: set.ID, To: bot.CuratedCancelled, By: "ann"}); err != nil || result.Outcome != bot.CuratedAlreadyDecided {
			t.Errorf("%+v, %v", result, err)
		}
	})
	if ended {
		t.Error("the cancel did not wait")
	}
	r.invariants()
}

func curatedSaveWaitsForSave(t *testing.T, db Database) {
	r := newRace(t, db, 2)
	if !db.severalWriters() {
		return
	}
	ns := r.fresh(4)
	set := r.draft(ns[0], ns[1])
	save := func(i int, numbers ...int) func() {
		return func() {
			if result, err := r.stores[i].SaveCurated(t.Context(), bot.CuratedSave{ID: set.ID, Rows: rowsOf(numbers...), By: "ann"}); err != nil || result.Outcome != bot.CuratedWritten {
				t.Errorf("%+v, %v", result, err)
			}
		}
	}
	if r.waits("INSERT INTO draft_row", save(0, ns[0], ns[1], ns[2]), save(1, ns[0], ns[1], ns[3], ns[2])) {
		t.Error("the second save did not wait for the first")
	}
	if now := r.set(set.ID); shape(now.Rows) != shape(rowsOf(ns[0], ns[1], ns[3], ns[2])) {
		t.Errorf("%s", shape(now.Rows))
	}
	if n := r.stores[1].Stats().Retries; n != 0 {
		t.Errorf("%d transactions were run again: they met at a unique key, not at the header's row", n)
	}
}

// The rows' unique key stands behind the header's lock.
func curatedUniqueRowNo(t *testing.T, db Database) {
	w := newWorld(t, db)
	set := w.draft(10, 12)
	committed := w.submitted(20, 21)
	for table, id := range map[string]int64{"draft_row": set.ID, "curated_row": committed.ID} {
		columns := slices.DeleteFunc(w.columns(table), func(c string) bool { return c == "id" })
		list := strings.Join(columns, ", ")
		_, err := w.SQL.ExecContext(t.Context(), fmt.Sprintf(`INSERT INTO %s (%s) SELECT %s FROM %s WHERE approval_request_id = %d AND row_no = 1`, table, list, list, table, id))
		if err == nil || !strings.Contains(strings.ToLower(err.Error()), "unique") && !strings.Contains(err.Error(), "Duplicate") {
			t.Errorf("%s took the same row number twice: %v", table, err)
		}
		for _, bad := range []string{"0", "NULL"} {
			if _, err := w.SQL.ExecContext(t.Context(), fmt.Sprintf(`UPDATE %s SET row_no = %s WHERE approval_request_id = %d AND row_no = 1`, table, bad, id)); err == nil {
				t.Errorf("%s took the row number %s", table, bad)
			}
		}
	}
}

// One after the other, as two people do who have the same page open: the second is told, at whatever version it asks.
func curatedApprovalsOneByOne(t *testing.T, db Database) {
	w := newWorld(t, db)
	set := w.submitted(10, 12)
	w.written(w.store.DecideCurated(t.Context(), w.approval(set, 0)))
	before := w.snapshot()
	for _, version := range []int64{set.Version, set.Version + 1} {
		d := w.approval(set, 1)
		d.Version = version
		if result, err := w.store.DecideCurated(t.Context(), d); err != nil || result.Outcome != bot.CuratedAlreadyDecided {
			t.Errorf("%+v, %v", result, err)
		}
	}
	if w.snapshot() != before {
		t.Error("something changed")
	}
}

// Drafts, submissions, approvals, cancels, claims, settlements and members that leave, at random and at once. What must hold is looked at after every
// COMMIT: no part of a set waits or rides, above all.
func curatedEverything(t *testing.T, db Database) {
	r := newRace(t, db, 4)
	r.rounds(func(n int) {
		ns := r.fresh(9)
		sets := []bot.Curated{r.draft(ns[0], ns[1], ns[2]), r.draft(ns[3], ns[4], ns[5])}
		var all []func()
		for i := range r.stores {
			random := rand.New(rand.NewPCG(uint64(n), uint64(i)))
			all = append(all, func() {
				for step := range 12 {
					if err := r.anything(random, i, step, sets[random.IntN(2)].ID, ns); err != nil {
						t.Error(err)
					}
				}
			})
		}
		together(all...)
	})
}

func (r *race) anything(random *rand.Rand, i, step int, id int64, ns []int) error {
	s, ctx := r.stores[i], r.Context()
	view, ok, err := s.ReadCurated(ctx, id)
	if err != nil || !ok {
		return err
	}
	set := view.Curated
	switch random.IntN(8) {
	case 0:
		_, err = s.SaveCurated(ctx, bot.CuratedSave{ID: id, Rows: append(rowsOf(set.Rows[0].Number), bot.CuratedRow{RowNo: 2 + random.IntN(3), Number: ns[random.IntN(len(ns))]}), By: "ann"})
	case 1, 2:
		sub := submission(set)
		if len(sub.Rows) > 1 && sub.Rows[0].Number != sub.Rows[1].Number {
			_, err = s.SubmitCurated(ctx, sub)
		}
	case 3:
		if set.Committed && set.Status == bot.CuratedPendingApproval {
			d := r.approval(set, 0)
			for k := range d.Members {
				d.Members[k].OperationID = fmt.Sprintf("%08x-0000-4000-8000-%04d%04d%04d", random.Uint32(), i, step, k)
			}
			_, err = s.DecideCurated(ctx, d)
		}
	case 4:
		if random.IntN(4) == 0 {
			_, err = s.DecideCurated(ctx, bot.CuratedDecision{ID: id, To: bot.CuratedRejected, By: "ben"})
		}
	case 5, 6:
		batch, members, active, readErr := s.ActiveBatch(ctx, r.queue.ID)
		if readErr != nil {
			return readErr
		}
		claimed := bot.ClaimResult{Batch: batch, Members: members}
		if !active {
			spec := claimSpec(r.queue, len(set.Rows))
			spec.Kind, spec.Cohort = bot.BatchCurated, set.Cohort()
			if claimed, err = s.Claim(ctx, spec); err != nil || claimed.Outcome != bot.ClaimDone {
				return err
			}
		}
		switch random.IntN(3) {
		case 0:
			_, err = s.Settle(ctx, settlementOf(claimed, bot.BatchSucceeded, bot.OperationMerged))
		case 1:
			_, err = s.Settle(ctx, settlementOf(claimed, bot.BatchFailed, bot.OperationWaiting))
		}
		if err != nil && strings.Contains(err.Error(), "the settlement names") {
			err = nil // a member left between the two reads, and the batch's version with it
		}
	case 7:
		if len(set.Rows) == 0 || set.Rows[0].OperationID == "" {
			return nil
		}
		op, readErr := s.OperationView(ctx, set.Rows[random.IntN(len(set.Rows))].OperationID)
		if readErr != nil || !op.Operation.Status.Open() {
			return readErr
		}
		m := bot.Move{OperationID: op.Operation.ID, From: op.Operation.Status, Version: op.Operation.Version, To: bot.OperationPendingApproval, HeadSHA: sha(7777), Reason: bot.ReasonHeadMoved, By: "ann"}
		if m.From == bot.OperationBatched {
			batch, _, active, readErr := s.ActiveBatch(ctx, r.queue.ID)
			if readErr != nil || !active {
				return readErr
			}
			guard := batch.Guard()
			m.Batch = &guard
		}
		if m.From != bot.OperationPendingApproval {
			_, err = s.Move(ctx, m)
		}
	}
	return err
}
