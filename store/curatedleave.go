package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/batchbot/batchbot/bot"
)

// The members of an approved set land together or not at all. So whatever takes one of them out takes out all of them, in the same transaction: no
// part of a set ever waits or rides.

// lockSetOf locks the set of a cohort, before the batch's row and those of its members. Cohorts of searches have none.
func (t *tx) lockSetOf(ctx context.Context, cohort int64) (set bot.Curated, ok bool, err error) {
	if cohort >= 0 {
		return bot.Curated{}, false, nil
	}
	set, found, err := t.lockSet(ctx, bot.CuratedCohort(cohort))
	if err != nil || !found {
		return bot.Curated{}, false, missing(err, fmt.Sprintf("curated batch %d", bot.CuratedCohort(cohort)))
	}
	return set, true, nil
}

// outOfSet is where a member goes that leaves its set. It may not wait, or wait for approvals or a retry, and land by itself then.
func outOfSet(to bot.OperationStatus) bot.OperationStatus {
	switch to {
	case bot.OperationPendingApproval, bot.OperationWaiting, bot.OperationFailed:
		return bot.OperationRejected
	}
	return to
}

// outOfSetMove is m as it is performed on a member of a set.
func outOfSetMove(m bot.Move) bot.Move {
	if to := outOfSet(m.To); to != m.To {
		m.To, m.HeadSHA, m.Notify = to, "", true
	}
	return m
}

// othersOf reads the members of a set that wait or ride with op.
func (t *tx) othersOf(ctx context.Context, set bot.Curated, op bot.Operation) ([]bot.Operation, error) {
	ops, err := listOperations(ctx, t, `JOIN curated_row c ON c.operation_id = o.operation_id WHERE c.approval_request_id = ? ORDER BY c.row_no`, set.ID)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(ops, func(o bot.Operation) bool { return o.ID == op.ID || o.Cohort != op.Cohort }), nil
}

// leaveWith takes the others of a set out with op, which moves by m: it returns their changes, which are to be written with that of op. Each has its
// version for a guard, so that whoever has got hold of one of them, a claim above all, keeps all.
func leaveWith(others []bot.Operation, op bot.Operation, m bot.Move, batchID int64) []change {
	changes := make([]change, 0, len(others))
	for _, o := range others {
		changes = append(changes, change{op: o, version: o.Version, to: bot.OperationRejected, reason: bot.ReasonSetBroken, detail: lost(op.Number, m.Reason), notify: true,
			by: m.By, batchID: batchID})
	}
	return changes
}

// dropRequests deletes the requests of operations that wait, or ride in a batch. ok false: one of them does not any more.
func (t *tx) dropRequests(ctx context.Context, ops []bot.Operation, batchID int64) (ok bool, err error) {
	var requests []int64
	for _, o := range ops {
		requests = append(requests, o.RequestID)
	}
	slices.Sort(requests)
	where, first := `batch_id IS NULL`, []any(nil)
	if batchID != 0 {
		where, first = `batch_id = ?`, []any{batchID}
	}
	for chunk := range slices.Chunk(requests, chunkSize) {
		n, err := t.exec(ctx, `DELETE FROM merge_batch_request WHERE `+where+` AND id IN (`+list(len(chunk))+`)`, append(slices.Clip(first), anys(chunk)...)...)
		if err != nil || n != int64(len(chunk)) {
			return false, err
		}
	}
	return true, nil
}

// evictOthers appends to the membership history that those who rode with a lost member left as well.
func (t *tx) evictOthers(ctx context.Context, batch bot.Batch, left []change) error {
	if len(left) == 0 {
		return nil
	}
	places, err := t.places(ctx, batch.ID)
	if err != nil {
		return err
	}
	var entries []memberEntry
	for _, c := range left {
		entries = append(entries, memberEntry{batchID: batch.ID, operationID: c.op.ID, event: bot.MemberEvicted, build: batch.Build, position: places[c.op.ID],
			headSHA: c.op.HeadSHA, reason: c.reason, detail: c.detail})
	}
	return t.addMembers(ctx, entries)
}

// endSet brings an approved set to its end: DONE, or REJECTED with a reason for people. Its row is locked. What is to be said about it is said by
// tellSet, at the end: the outbox comes last in the lock order.
func (t *tx) endSet(ctx context.Context, set bot.Curated, to bot.CuratedStatus, reason, by, source string) error {
	n, err := t.exec(ctx, `UPDATE approval_request SET status = ?, reason = ?, version = version + 1, updated_at = {now} WHERE id = ? AND status = ?`,
		to, clip(reason, longText), set.ID, set.Status)
	if err != nil {
		return err
	}
	if n != 1 {
		return t.fail(fmt.Errorf("curated batch %d changed behind its lock", set.ID))
	}
	set.Status, set.Version = to, set.Version+1
	return t.auditSet(ctx, set, by, "end curated batch", source, reason)
}

// setOutcomes is what becomes of the members of a batch that is a set when these are the outcomes of some of them: all land, all wait again as the
// cohort they are, or all leave. why says what the set's end is for, and is empty in the second case.
func setOutcomes(batch bot.Batch, members []bot.Operation, outcomes []bot.MemberOutcome, over bool) (all []bot.MemberOutcome, to bot.CuratedStatus, why string) {
	named := make(map[string]bot.MemberOutcome, len(outcomes))
	landed, waiting := 0, 0
	for _, o := range outcomes {
		named[o.OperationID] = o
		switch o.To {
		case bot.OperationMerged:
			landed++
		case bot.OperationWaiting:
			waiting++
		}
	}
	switch {
	case over && landed == len(members):
		return outcomes, bot.CuratedDone, ""
	case over && waiting == len(members):
		for _, o := range outcomes {
			o.Cohort = batch.Cohort
			all = append(all, o)
		}
		return all, bot.CuratedApproved, ""
	}
	// The first that is lost by itself is the cause, or one that landed without the others, or somebody before them.
	rank := func(o bot.MemberOutcome) int {
		switch {
		case o.Reason == bot.ReasonSetBroken:
			return 1
		case o.To == bot.OperationMerged:
			return 2
		}
		return 3
	}
	var cause bot.Operation
	var because bot.MemberOutcome
	for _, op := range members {
		if o, ok := named[op.ID]; ok && (cause.ID == "" || rank(o) > rank(because)) {
			cause, because = op, o
		}
	}
	why = lost(cause.Number, because.Reason)
	switch {
	case because.Reason == bot.ReasonSetBroken || because.Reason == bot.ReasonCIRed: // of all of them, and nobody's in particular
		why = because.Detail
	case because.Detail != "":
		why += " (" + because.Detail + ")"
	}
	for _, op := range members {
		o, ok := named[op.ID]
		switch {
		case !ok:
			o = bot.MemberOutcome{OperationID: op.ID, To: bot.OperationRejected, Reason: bot.ReasonSetBroken, Detail: lost(cause.Number, because.Reason), Notify: true}
		case outOfSet(o.To) != o.To:
			o.To, o.HeadSHA, o.Cohort, o.Notify = outOfSet(o.To), "", 0, true
		}
		all = append(all, o)
	}
	return all, bot.CuratedRejected, why
}

// landedTogether makes a set DONE when the member that is being recorded as landed is the last of it: the batch of a set that was taken out was merged by
// hand after all. set is that of the operation, locked; a set that is edited again is left alone.
func (t *tx) landedTogether(ctx context.Context, set bot.Curated, by, source string) error {
	if set.Status != bot.CuratedRejected && set.Status != bot.CuratedApproved || !set.Committed {
		return nil
	}
	var others int
	if _, err := one(ctx, t, `SELECT COUNT(*) FROM curated_row c JOIN operation o ON o.operation_id = c.operation_id
		WHERE c.approval_request_id = ? AND o.status <> ?`, []any{set.ID, bot.OperationMerged}, &others); err != nil || others > 0 {
		return err
	}
	return t.endSet(ctx, set, bot.CuratedDone, "", by, source)
}

// setOfLanded finds the set whose committed rows name an operation that is over and turns out to have landed; it is locked.
func (t *tx) setOfLanded(ctx context.Context, op bot.Operation, to bot.OperationStatus) (set bot.Curated, ok bool, err error) {
	if to != bot.OperationMerged || op.Status != bot.OperationRejected {
		return bot.Curated{}, false, nil
	}
	var id int64
	if ok, err = one(ctx, t, `SELECT MAX(approval_request_id) FROM curated_row WHERE operation_id = ? HAVING COUNT(*) > 0`, []any{op.ID}, &id); err != nil || !ok {
		return bot.Curated{}, false, err
	}
	return t.lockSet(ctx, id)
}

// lost says for people why a set lost a member. It begins with the member's number.
func lost(number int, reason bot.Reason) string {
	words := map[bot.Reason]string{
		bot.ReasonCancelled: "was cancelled", bot.ReasonHeadMoved: "was pushed to", bot.ReasonClosed: "was closed", bot.ReasonRetargeted: "got another target branch",
		bot.ReasonDrafted: "was turned into a draft", bot.ReasonUnapproved: "is not approved any more", bot.ReasonConflict: "conflicts with the target branch",
		bot.ReasonConflictBatch: "conflicts with an earlier member", bot.ReasonUnrelated: "shares no history with the target branch",
		bot.ReasonPushRefused: "cannot be pushed: the host refuses it", bot.ReasonContained: "is in the target branch already", bot.ReasonLanded: "landed without the others",
		bot.ReasonMergedOutside: "was merged outside of the batch", bot.ReasonLandedLate: "landed after its batch was over", bot.ReasonBatchFailed: "did not land with the others",
	}
	said, known := words[reason]
	if !known {
		said = "was lost: " + strings.ReplaceAll(string(reason), "_", " ")
	}
	return fmt.Sprintf("%d %s", number, said)
}
