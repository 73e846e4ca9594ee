package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/batchbot/batchbot/bot"
)

// What the audit calls the writes of people.
const submitted = "submit curated batch"

var decided = map[bot.CuratedStatus]string{
	bot.CuratedApproved: "approve curated batch", bot.CuratedRejected: "reject curated batch", bot.CuratedCancelled: "cancel curated batch",
}

// SubmitCurated commits the rows that were checked: one guarded write of the header, DRAFT at the version checked, and in the same transaction the rows go
// over to the committed table with their heads and the draft rows go. Everything that can fail was checked before, outside: what is refused here
// leaves the draft as it was. A draft that changed meanwhile and one that was submitted meanwhile are two different answers.
func (s *Store) SubmitCurated(ctx context.Context, sub bot.CuratedSubmission) (bot.CuratedResult, error) {
	name := fmt.Sprintf("submit curated batch %d", sub.ID)
	sub.Rows = slices.SortedFunc(slices.Values(sub.Rows), byRow)
	if err := checkSubmission(sub); err != nil {
		return bot.CuratedResult{}, fmt.Errorf("%s: %w", name, err)
	}
	a := ask{sub.By, sub.Source, sub.Command, sub.Request}
	result, err := s.writeSet(ctx, name, a, func(tx *tx) (bot.Curated, error) { return tx.submitSet(ctx, a, sub) }, s.setWritten(a, submitted))
	if err != nil {
		return bot.CuratedResult{}, err
	}
	return s.asItStands(ctx, result, `a.id = ?`, sub.ID)
}

func checkSubmission(sub bot.CuratedSubmission) error {
	if sub.Version < 1 || len(sub.Rows) == 0 {
		return fmt.Errorf("the version that was checked, and rows, are needed")
	}
	if err := bot.CheckRows(sub.Rows); err != nil {
		return err
	}
	named := make(map[int]int, len(sub.Rows))
	for _, r := range sub.Rows {
		if r.HeadSHA == "" {
			return fmt.Errorf("row %d has no head to pin", r.RowNo)
		}
		if first, twice := named[r.Number]; twice {
			return fmt.Errorf("merge request %d is in rows %d and %d", r.Number, first, r.RowNo)
		}
		named[r.Number] = r.RowNo
	}
	return nil
}

func (t *tx) submitSet(ctx context.Context, a ask, sub bot.CuratedSubmission) (bot.Curated, error) {
	mergeRequestID, err := t.draftedOn(ctx, sub.ID)
	if err != nil {
		return bot.Curated{}, err
	}
	if err := t.begin(ctx, a, mergeRequestID); err != nil {
		return bot.Curated{}, err
	}
	n, err := t.exec(ctx, `UPDATE approval_request SET status = ?, decider = '', reason = '', version = version + 1, updated_at = {now}
		WHERE id = ? AND status = ? AND version = ?`, bot.CuratedPendingApproval, sub.ID, bot.CuratedDraft, sub.Version)
	if err != nil {
		return bot.Curated{}, err
	}
	set, _, err := readSet(ctx, t, `a.id = ?`, sub.ID)
	if err != nil {
		return bot.Curated{}, err
	}
	if n == 0 {
		switch set.Status {
		case bot.CuratedDraft:
			return bot.Curated{}, refuseSet(bot.CuratedChanged)
		case bot.CuratedPendingApproval:
			return bot.Curated{}, refuseSet(bot.CuratedAlreadySubmitted)
		}
		return bot.Curated{}, refuseSet(bot.CuratedAlreadyDecided)
	}
	same := slices.EqualFunc(set.Rows, sub.Rows, func(a, b bot.CuratedRow) bool { return a.RowNo == b.RowNo && a.Number == b.Number })
	if !same {
		return bot.Curated{}, t.fail(fmt.Errorf("the rows to commit are not those of version %d", sub.Version))
	}
	// What an earlier submission left is stale.
	for _, table := range []string{"curated_row", "draft_row"} {
		if _, err := t.exec(ctx, `DELETE FROM `+table+` WHERE approval_request_id = ?`, sub.ID); err != nil {
			return bot.Curated{}, err
		}
	}
	values := make([][]any, 0, len(sub.Rows))
	for _, r := range sub.Rows {
		values = append(values, []any{sub.ID, r.RowNo, r.Number, r.HeadSHA})
	}
	if _, err := t.insertRows(ctx, nil, `INSERT INTO curated_row (approval_request_id, row_no, number, head_sha, operation_id, created_at, updated_at) VALUES `,
		`(?, ?, ?, ?, '', {now}, {now})`, values); err != nil {
		return bot.Curated{}, err
	}
	return t.finish(ctx, a, sub.ID, submitted, "")
}

// DecideCurated approves, rejects or cancels a set, under the lock of its header's row: of an approval and a cancel, or of two approvals, exactly
// one is CuratedWritten. An approval admits every member in the same transaction, in the order of the rows; when one of them is busy nothing is
// written. An approved set is not cancelled: it ends with any of its members.
func (s *Store) DecideCurated(ctx context.Context, d bot.CuratedDecision) (bot.CuratedResult, error) {
	name := fmt.Sprintf("make curated batch %d %s", d.ID, d.To)
	a := ask{d.By, d.Source, d.Command, d.Request}
	var members []admission
	switch d.To {
	case bot.CuratedApproved:
		if d.Version < 1 || len(d.Members) == 0 {
			return bot.CuratedResult{}, fmt.Errorf("%s: the version that was checked, and members, are needed", name)
		}
		// As Apply does: rows of merge requests are no part of the decision.
		var err error
		if members, err = s.recordMembers(ctx, d.Members); err != nil {
			return bot.CuratedResult{}, fmt.Errorf("%s: %w", name, err)
		}
	case bot.CuratedRejected, bot.CuratedCancelled:
	default:
		return bot.CuratedResult{}, fmt.Errorf("%s: a decision approves, rejects or cancels", name)
	}
	result, err := s.writeSet(ctx, name, a, func(tx *tx) (bot.Curated, error) { return tx.decideSet(ctx, a, d, members) }, s.setWritten(a, decided[d.To]))
	if err != nil {
		return bot.CuratedResult{}, err
	}
	return s.asItStands(ctx, result, `a.id = ?`, d.ID)
}

func (t *tx) decideSet(ctx context.Context, a ask, d bot.CuratedDecision, members []admission) (bot.Curated, error) {
	mergeRequestID, err := t.draftedOn(ctx, d.ID)
	if err != nil {
		return bot.Curated{}, err
	}
	if err := t.begin(ctx, a, mergeRequestID); err != nil {
		return bot.Curated{}, err
	}
	set, found, err := t.lockSet(ctx, d.ID)
	if err != nil || !found {
		return bot.Curated{}, missing(err, "its row")
	}
	if outcome := decidable(set, d); outcome != bot.CuratedWritten {
		return bot.Curated{}, refuseSet(outcome)
	}
	n, err := t.exec(ctx, `UPDATE approval_request SET status = ?, decider = ?, reason = ?, version = version + 1, updated_at = {now}
		WHERE id = ? AND status = ? AND version = ?`, d.To, clip(d.By, 255), clip(d.Reason, longText), d.ID, set.Status, set.Version)
	if err != nil {
		return bot.Curated{}, err
	}
	if n != 1 {
		return bot.Curated{}, t.fail(fmt.Errorf("its row changed behind its lock"))
	}
	if d.To == bot.CuratedApproved {
		if err := t.admitSet(ctx, set, d, members); err != nil {
			return bot.Curated{}, err
		}
	}
	return t.finish(ctx, a, d.ID, decided[d.To], d.Reason)
}

// decidable says whether a decision may be written over a set as it stands: CuratedWritten, or why not.
func decidable(set bot.Curated, d bot.CuratedDecision) bot.CuratedOutcome {
	switch set.Status {
	case bot.CuratedPendingApproval:
	case bot.CuratedDraft:
		if d.To != bot.CuratedCancelled {
			return bot.CuratedNotSubmitted
		}
	case bot.CuratedRejected:
		if d.To != bot.CuratedCancelled {
			return bot.CuratedAlreadyDecided
		}
	default:
		return bot.CuratedAlreadyDecided
	}
	if d.Version != 0 && d.Version != set.Version {
		return bot.CuratedChanged
	}
	return bot.CuratedWritten
}

// setWritten looks whether a write that has this entry in the audit took effect.
func (s *Store) setWritten(a ask, action string) func(ctx context.Context, set bot.Curated) (bool, error) {
	return func(ctx context.Context, set bot.Curated) (bool, error) {
		return s.exists(ctx, `SELECT 1 FROM audit WHERE dedupe_key = ? AND action = ? AND actor = ? AND source = ?`,
			setAudit(set.ID, set.Version), action, clip(a.by, 255), clip(a.source, 255))
	}
}
