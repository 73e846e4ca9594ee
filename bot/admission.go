package bot

// Reconcile compares one operation with its merge request as the host shows it now and returns the move that brings the
// operation back in line, if one is needed. Events, the periodic look and the look right before landing all use it, so that they
// cannot disagree. verdict is the approval at mr.HeadSHA. Apply the move, read the operation again and ask again until there is none.
//
// batch is the operation's batch when it is BATCHED. From LANDING on nothing takes a member out: what landed is read
// afterwards.
//
// A member of a curated batch does not go back to wait for an approval of its own: approved again, it would land without the others. It ends as
// REJECTED, with all of the set.
func Reconcile(op Operation, mr MRSnapshot, verdict ApprovalVerdict, batch *Batch) (Move, bool) {
	if !op.Status.Followed() {
		return Move{}, false
	}
	move := Move{OperationID: op.ID, From: op.Status, Version: op.Version, By: "batchbot"}
	if op.Status == OperationBatched {
		if batch == nil || !batch.Status.Active() || batch.Phase == PhaseLanding {
			return Move{}, false
		}
		guard := batch.Guard()
		move.Batch = &guard
	}
	to := func(status OperationStatus, reason Reason, detail string) (Move, bool) {
		if op.Cohort < 0 && status == OperationPendingApproval {
			status, move.HeadSHA = OperationRejected, ""
			if reason == ReasonHeadMoved {
				detail = "" // what the new head lacks matters no more
			}
		}
		move.To, move.Reason, move.Detail = status, reason, detail
		// Going back from the waiting set or a batch surprises people: say it in a comment of its own.
		move.Notify = op.Status == OperationBatched || (op.Status == OperationWaiting && !status.Open()) ||
			(op.Status == OperationWaiting && status == OperationPendingApproval)
		return move, true
	}
	switch {
	case mr.State == MRMerged:
		m, ok := to(OperationMerged, ReasonMergedOutside, "")
		m.Notify = false
		return m, ok
	case mr.State == MRClosed:
		return to(OperationClosed, ReasonClosed, "")
	case mr.Target != op.Target:
		if op.Status == OperationFailed {
			return Move{}, false
		}
		return to(OperationCancelled, ReasonRetargeted, "the target is now "+mr.Target)
	case mr.HeadSHA != op.HeadSHA:
		move.HeadSHA = mr.HeadSHA
		return to(OperationPendingApproval, ReasonHeadMoved, verdict.Missing)
	case op.Status == OperationFailed:
		return Move{}, false
	case mr.Draft:
		if op.Status == OperationPendingApproval {
			return Move{}, false
		}
		return to(OperationPendingApproval, ReasonDrafted, "")
	case !verdict.Sufficient:
		if op.Status == OperationPendingApproval {
			return Move{}, false
		}
		return to(OperationPendingApproval, ReasonUnapproved, verdict.Missing)
	case op.Status == OperationPendingApproval:
		return to(OperationWaiting, ReasonApproved, "")
	}
	return Move{}, false
}

// ReconcileSeated is Reconcile for an operation that holds a live seat on a train, or a place in line. What would send an application back to wait for
// approval ends it here: pushed, closed, retargeted, drafted, or no longer approved after it was, it loses its seat, and somebody else moves up.
// An approval that arrives is recorded with the seat; only the departure admits.
func ReconcileSeated(op Operation, seat Seat, mr MRSnapshot, verdict ApprovalVerdict) (Move, bool) {
	if op.Status != OperationPendingApproval || !seat.Status.Live() {
		return Move{}, false
	}
	move := Move{OperationID: op.ID, From: op.Status, Version: op.Version, By: "batchbot"}
	ends := func(status OperationStatus, reason Reason, detail string) (Move, bool) {
		move.To, move.Reason, move.Detail = status, reason, detail
		move.Notify = status != OperationMerged
		return move, true
	}
	switch {
	case mr.State == MRMerged:
		return ends(OperationMerged, ReasonMergedOutside, "")
	case mr.State == MRClosed:
		return ends(OperationClosed, ReasonClosed, "")
	case mr.Target != op.Target:
		return ends(OperationCancelled, ReasonRetargeted, "the target is now "+mr.Target)
	case mr.HeadSHA != op.HeadSHA:
		return ends(OperationCancelled, ReasonHeadMoved, "")
	case mr.Draft:
		return ends(OperationCancelled, ReasonDrafted, "")
	case !verdict.Sufficient && seat.Approved:
		return ends(OperationCancelled, ReasonUnapproved, verdict.Missing)
	case verdict.Sufficient && !seat.Approved:
		move.To, move.Reason = OperationPendingApproval, ReasonApproved
		return move, true
	}
	return Move{}, false
}

// Obstacle says why a merge request cannot be applied at all, or "" if it can. Approval is not an obstacle.
func Obstacle(mr MRSnapshot) string {
	switch {
	case mr.State == MRMerged:
		return "it is merged already"
	case mr.State == MRClosed:
		return "it is closed; reopen it first"
	case mr.Draft:
		return "it is a draft; mark it ready first"
	}
	return ""
}
