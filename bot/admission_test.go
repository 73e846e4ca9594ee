package bot

import "testing"

func TestReconcile(t *testing.T) {
	t.Parallel()
	approved, unapproved := ApprovalVerdict{Sufficient: true}, ApprovalVerdict{Missing: "needs 1 more approval"}
	mr := MRSnapshot{Number: 4, State: MROpen, HeadSHA: "pinned", Target: "main"}
	with := func(change func(*MRSnapshot)) MRSnapshot {
		m := mr
		change(&m)
		return m
	}
	merged := with(func(m *MRSnapshot) { m.State = MRMerged })
	closed := with(func(m *MRSnapshot) { m.State = MRClosed })
	pushed := with(func(m *MRSnapshot) { m.HeadSHA = "new" })
	retargeted := with(func(m *MRSnapshot) { m.Target = "release" })
	drafted := with(func(m *MRSnapshot) { m.Draft = true })
	for _, c := range []struct {
		name    string
		status  OperationStatus
		mr      MRSnapshot
		verdict ApprovalVerdict
		to      OperationStatus // 0: no move
		reason  Reason
		head    string
	}{
		{"approved in time", OperationPendingApproval, mr, approved, OperationWaiting, ReasonApproved, ""},
		{"still unapproved", OperationPendingApproval, mr, unapproved, 0, "", ""},
		{"nothing changed while waiting", OperationWaiting, mr, approved, 0, "", ""},
		{"nothing changed in the batch", OperationBatched, mr, approved, 0, "", ""},
		{"approval withdrawn", OperationWaiting, mr, unapproved, OperationPendingApproval, ReasonUnapproved, ""},
		{"approval withdrawn in the batch", OperationBatched, mr, unapproved, OperationPendingApproval, ReasonUnapproved, ""},
		{"pushed before approval", OperationPendingApproval, pushed, approved, OperationPendingApproval, ReasonHeadMoved, "new"},
		{"pushed while waiting", OperationWaiting, pushed, approved, OperationPendingApproval, ReasonHeadMoved, "new"},
		{"pushed in the batch", OperationBatched, pushed, unapproved, OperationPendingApproval, ReasonHeadMoved, "new"},
		{"pushed after it failed", OperationFailed, pushed, approved, OperationPendingApproval, ReasonHeadMoved, "new"},
		{"failed and not touched", OperationFailed, mr, approved, 0, "", ""},
		{"closed", OperationWaiting, closed, approved, OperationClosed, ReasonClosed, ""},
		{"closed after it failed", OperationFailed, closed, approved, OperationClosed, ReasonClosed, ""},
		{"merged by hand is recorded, not dropped", OperationBatched, merged, approved, OperationMerged, ReasonMergedOutside, ""},
		{"retargeted", OperationBatched, retargeted, approved, OperationCancelled, ReasonRetargeted, ""},
		{"drafted", OperationWaiting, drafted, approved, OperationPendingApproval, ReasonDrafted, ""},
		{"a draft is not admitted", OperationPendingApproval, drafted, approved, 0, "", ""},
		{"an ended operation is left alone", OperationCancelled, pushed, approved, 0, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			op := Operation{ID: "op", Status: c.status, Version: 3, Target: "main", HeadSHA: "pinned"}
			batch := &Batch{ID: 8, Status: BatchRunning, Phase: PhaseOpened, Version: 5}
			move, needed := Reconcile(op, c.mr, c.verdict, batch)
			if needed != (c.to != 0) || move.To != c.to || move.Reason != c.reason || move.HeadSHA != c.head {
				t.Fatalf("Reconcile = %+v, %t; want %s because %q at %q", move, needed, c.to, c.reason, c.head)
			}
			if !needed {
				return
			}
			if move.From != c.status || move.Version != 3 {
				t.Errorf("the move is not guarded by what was read: %+v", move)
			}
			if (move.Batch != nil) != (c.status == OperationBatched) {
				t.Errorf("a member leaves its batch exactly through the batch row: %+v", move.Batch)
			}
			if !c.status.CanBecome(c.to) {
				t.Errorf("Reconcile asks for %s → %s, which does not exist", c.status, c.to)
			}
		})
	}
}

// Approved again by itself, a member of a curated batch would land without the others.
func TestAMemberOfACuratedBatchDoesNotGoOnByItself(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mr     MRSnapshot
		to     OperationStatus
		reason Reason
	}{
		"pushed":     {MRSnapshot{State: MROpen, HeadSHA: "new", Target: "main"}, OperationRejected, ReasonHeadMoved},
		"drafted":    {MRSnapshot{State: MROpen, HeadSHA: "pinned", Target: "main", Draft: true}, OperationRejected, ReasonDrafted},
		"unapproved": {MRSnapshot{State: MROpen, HeadSHA: "pinned", Target: "main"}, OperationRejected, ReasonUnapproved},
		"closed":     {MRSnapshot{State: MRClosed, HeadSHA: "pinned", Target: "main"}, OperationClosed, ReasonClosed},
		"merged":     {MRSnapshot{State: MRMerged, HeadSHA: "pinned", Target: "main"}, OperationMerged, ReasonMergedOutside},
	} {
		for _, status := range []OperationStatus{OperationWaiting, OperationBatched} {
			op := Operation{ID: "op", Status: status, Version: 3, Target: "main", HeadSHA: "pinned", Cohort: CuratedCohort(4)}
			batch := &Batch{ID: 8, Status: BatchRunning, Phase: PhaseOpened, Version: 5}
			move, needed := Reconcile(op, c.mr, ApprovalVerdict{Missing: "needs 1 more approval"}, batch)
			if !needed || move.To != c.to || move.Reason != c.reason || move.HeadSHA != "" || !status.CanBecome(move.To) {
				t.Errorf("%s while %s: %+v, %t; want %s", name, status, move, needed, c.to)
			}
			if !move.Notify && c.to != OperationMerged {
				t.Errorf("%s while %s: nobody is told", name, status)
			}
		}
	}
}

func TestNothingTakesAMemberOutOfALanding(t *testing.T) {
	t.Parallel()
	op := Operation{Status: OperationBatched, Target: "main", HeadSHA: "pinned"}
	batch := &Batch{Status: BatchRunning, Phase: PhaseLanding}
	for _, mr := range []MRSnapshot{
		{State: MRClosed}, {State: MRMerged}, {State: MROpen, Target: "main", HeadSHA: "new"}, {State: MROpen, Target: "other"},
	} {
		if move, needed := Reconcile(op, mr, ApprovalVerdict{}, batch); needed {
			t.Errorf("%+v moves a member of a landing batch: %+v", mr, move)
		}
	}
}

func TestReapply(t *testing.T) {
	t.Parallel()
	for status, want := range map[OperationStatus]Reapplication{
		OperationPendingApproval: ReapplyActive,
		OperationWaiting:         ReapplyActive,
		OperationBatched:         ReapplyActive,
		OperationRejected:        ReapplyReset,
		OperationCancelled:       ReapplyReset,
		OperationClosed:          ReapplyReset,
		OperationExpired:         ReapplyReset,
		OperationFailed:          ReapplyNeedsRetry,
		OperationMerged:          ReapplyLanded,
	} {
		if got := Reapply(status, "a", "a"); got != want {
			t.Errorf("Reapply(%s) = %d, want %d", status, got, want)
		}
	}
	if got := Reapply(OperationMerged, "a", "b"); got != ReapplyReset {
		t.Errorf("a merged merge request that is open with newer commits is applied again, got %d", got)
	}
}

func TestSecretsRedactThemselves(t *testing.T) {
	t.Parallel()
	s := Secret("hunter2")
	if got := s.String() + s.GoString(); got != "[redacted][redacted]" {
		t.Errorf("printed %q", got)
	}
	if text, _ := s.MarshalText(); string(text) != "[redacted]" {
		t.Errorf("marshalled %q", text)
	}
	if s.Reveal() != "hunter2" {
		t.Error("Reveal hides the secret from the wire too")
	}
}

func TestReconcileSeated(t *testing.T) {
	t.Parallel()
	approved, unapproved := ApprovalVerdict{Sufficient: true}, ApprovalVerdict{Missing: "needs 1 more approval"}
	with := func(change func(*MRSnapshot)) MRSnapshot {
		m := MRSnapshot{Number: 4, State: MROpen, HeadSHA: "pinned", Target: "main"}
		change(&m)
		return m
	}
	mr := with(func(*MRSnapshot) {})
	for _, c := range []struct {
		name    string
		was     bool // approved when last looked at
		mr      MRSnapshot
		verdict ApprovalVerdict
		to      OperationStatus // 0: no move
		reason  Reason
		notify  bool
	}{
		{"not yet approved", false, mr, unapproved, 0, "", false},
		{"an approval arrives and does not admit", false, mr, approved, OperationPendingApproval, ReasonApproved, false},
		{"approved as before", true, mr, approved, 0, "", false},
		{"the approval is withdrawn", true, mr, unapproved, OperationCancelled, ReasonUnapproved, true},
		{"pushed", false, with(func(m *MRSnapshot) { m.HeadSHA = "new" }), unapproved, OperationCancelled, ReasonHeadMoved, true},
		{"pushed and approved there", true, with(func(m *MRSnapshot) { m.HeadSHA = "new" }), approved, OperationCancelled, ReasonHeadMoved, true},
		{"closed", true, with(func(m *MRSnapshot) { m.State = MRClosed }), unapproved, OperationClosed, ReasonClosed, true},
		{"merged by hand", true, with(func(m *MRSnapshot) { m.State = MRMerged }), unapproved, OperationMerged, ReasonMergedOutside, false},
		{"retargeted", false, with(func(m *MRSnapshot) { m.Target = "next" }), approved, OperationCancelled, ReasonRetargeted, true},
		{"drafted", true, with(func(m *MRSnapshot) { m.Draft = true }), approved, OperationCancelled, ReasonDrafted, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			op := Operation{ID: "op", Status: OperationPendingApproval, Version: 3, Target: "main", HeadSHA: "pinned"}
			for _, status := range []SeatStatus{SeatConfirmed, SeatWaiting} {
				move, needed := ReconcileSeated(op, Seat{Status: status, Approved: c.was}, c.mr, c.verdict)
				if needed != (c.to != 0) || move.To != c.to || move.Reason != c.reason || move.Notify != c.notify || move.HeadSHA != "" {
					t.Fatalf("a %s seat: %+v, %t; want %s because %q", status, move, needed, c.to, c.reason)
				}
				if needed && (move.From != op.Status || move.Version != op.Version || !op.Status.CanBecome(move.To)) {
					t.Errorf("the move is not guarded by what was read: %+v", move)
				}
			}
			if move, needed := ReconcileSeated(op, Seat{Status: SeatCancelled}, c.mr, c.verdict); needed {
				t.Errorf("a seat given up moves: %+v", move)
			}
		})
	}
}
