package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/batchbot/batchbot/bot"
)

// saveTries bounds how often SaveCurated begins anew because somebody drafted a set on the same merge request at the same moment.
const saveTries = 4

// SaveCurated makes a draft, or replaces the complete row set of one: whoever saves sends all rows, so a row that is absent is deleted. Under the
// lock of the header's row it is written as a difference keyed on the row number: a row that is there keeps its id, changed or not. Every save gives
// the header a new version, whether or not a row changed. Two saves that name the version they were edited at never overwrite each other: the second
// is CuratedChanged. Without one they come one after the other, each as a whole.
//
// Rows with a number that no row can have are refused with a *bot.RowError, before anything is read.
func (s *Store) SaveCurated(ctx context.Context, save bot.CuratedSave) (bot.CuratedResult, error) {
	if err := bot.CheckRows(save.Rows); err != nil {
		return bot.CuratedResult{}, err
	}
	save.Rows = slices.SortedFunc(slices.Values(save.Rows), byRow)
	name := fmt.Sprintf("save curated batch %d", save.ID)
	where, arg := `a.id = ?`, save.ID
	if save.ID == 0 {
		name = fmt.Sprintf("draft a curated batch on merge request row %d of queue %d", save.MergeRequestID, save.QueueID)
		where, arg = `a.live_mr = ?`, save.MergeRequestID
		if save.QueueID == 0 {
			return bot.CuratedResult{}, fmt.Errorf("%s: a queue is needed", name)
		}
	}
	a := ask{save.By, save.Source, save.Command, save.Request}
	for range saveTries {
		result, err := s.writeSet(ctx, name, a, func(tx *tx) (bot.Curated, error) { return tx.saveSet(ctx, a, save) },
			func(ctx context.Context, set bot.Curated) (bool, error) {
				// Whoever else gave it this version with these very rows did what this save wanted.
				now, found, err := readSet(ctx, s, `a.id = ?`, set.ID)
				return found && now.Status == set.Status && now.Version == set.Version && slices.Equal(now.Rows, set.Rows), err
			})
		if err != nil {
			return bot.CuratedResult{}, err
		}
		if result.Outcome != bot.CuratedRetryLater {
			return s.asItStands(ctx, result, where, arg)
		}
	}
	return bot.CuratedResult{Outcome: bot.CuratedRetryLater}, nil
}

func (t *tx) saveSet(ctx context.Context, a ask, save bot.CuratedSave) (bot.Curated, error) {
	id, mergeRequestID := save.ID, save.MergeRequestID
	var err error
	if id != 0 {
		if mergeRequestID, err = t.draftedOn(ctx, id); err != nil {
			return bot.Curated{}, err
		}
	}
	if err := t.begin(ctx, a, mergeRequestID); err != nil {
		return bot.Curated{}, err
	}
	if id == 0 && mergeRequestID != 0 {
		if _, err := one(ctx, t, `SELECT id FROM approval_request WHERE live_mr = ?`, []any{mergeRequestID}, &id); err != nil {
			return bot.Curated{}, err
		}
	}
	action := ""
	if id == 0 {
		if id, err = t.draftSet(ctx, save); err != nil {
			return bot.Curated{}, err
		}
		action = "draft curated batch"
	}
	set, found, err := t.lockSet(ctx, id)
	switch {
	case err != nil || !found:
		return bot.Curated{}, missing(err, "its row")
	case save.Version != 0 && save.Version != set.Version:
		return bot.Curated{}, refuseSet(bot.CuratedChanged)
	case set.Status == bot.CuratedPendingApproval:
		return bot.Curated{}, refuseSet(bot.CuratedAlreadySubmitted)
	case !set.Status.Editable():
		if save.ID == 0 && (set.Status == bot.CuratedDone || set.Status == bot.CuratedCancelled) {
			return bot.Curated{}, refuseSet(bot.CuratedRetryLater) // it ended since it was found: draft another
		}
		return bot.Curated{}, refuseSet(bot.CuratedAlreadyDecided)
	}
	if set.Status == bot.CuratedRejected {
		action = "draft curated batch again"
	}
	if set.Committed {
		// What was submitted once goes on as a draft: the difference is taken to these rows.
		if err := t.insertDrafts(ctx, id, set.Rows); err != nil {
			return bot.Curated{}, err
		}
		if set, _, err = readSet(ctx, t, `a.id = ?`, id); err != nil {
			return bot.Curated{}, err
		}
	}
	changed, err := t.replaceDrafts(ctx, set, save.Rows)
	if err != nil {
		return bot.Curated{}, err
	}
	drafter := set.Drafter
	if changed {
		drafter = clip(save.By, 255) // who made it what it is does not approve it
	}
	queueID := set.QueueID
	if save.ID == 0 {
		queueID = save.QueueID // its merge request may have another target by now
	}
	if _, err := t.exec(ctx, `UPDATE approval_request SET status = ?, queue_id = ?, drafter = ?, decider = '', reason = '', version = version + 1, updated_at = {now}
		WHERE id = ?`, bot.CuratedDraft, queueID, drafter, id); err != nil {
		return bot.Curated{}, err
	}
	return t.finish(ctx, a, id, action, "")
}

// draftedOn reads the merge request a set was drafted on, which never changes.
func (t *tx) draftedOn(ctx context.Context, id int64) (mergeRequestID int64, err error) {
	found, err := one(ctx, t, `SELECT merge_request_id FROM approval_request WHERE id = ?`, []any{id}, &mergeRequestID)
	if err != nil || !found {
		return 0, missing(err, fmt.Sprintf("curated batch %d", id))
	}
	return mergeRequestID, nil
}

// draftSet inserts the header of a new set. Version 0: the save that makes it gives it version 1.
func (t *tx) draftSet(ctx context.Context, save bot.CuratedSave) (int64, error) {
	id, fresh, err := t.insert(ctx, &keyLiveCurated, `INSERT INTO approval_request
		(queue_id, merge_request_id, status, drafter, decider, reason, version, created_at, updated_at) VALUES (?, ?, ?, ?, '', '', 0, {now}, {now})`,
		save.QueueID, save.MergeRequestID, bot.CuratedDraft, clip(save.By, 255))
	if err != nil {
		return 0, err
	}
	if !fresh {
		// Roll back: the duplicate holds a shared lock on the winner's row, which this save will want to write.
		return 0, refuseSet(bot.CuratedRetryLater)
	}
	return id, nil
}

func (t *tx) insertDrafts(ctx context.Context, id int64, rows []bot.CuratedRow) error {
	values := make([][]any, 0, len(rows))
	for _, r := range rows {
		values = append(values, []any{id, r.RowNo, r.Number})
	}
	_, err := t.insertRows(ctx, nil, `INSERT INTO draft_row (approval_request_id, row_no, number, created_at, updated_at) VALUES `, `(?, ?, ?, {now}, {now})`, values)
	return err
}

// replaceDrafts brings the draft rows of a set whose header is locked to rows, which are complete.
func (t *tx) replaceDrafts(ctx context.Context, set bot.Curated, rows []bot.CuratedRow) (changed bool, err error) {
	there := make(map[int]bot.CuratedRow, len(set.Rows))
	for _, r := range set.Rows {
		there[r.RowNo] = r
	}
	var fresh, other []bot.CuratedRow
	for _, r := range rows {
		was, known := there[r.RowNo]
		delete(there, r.RowNo)
		switch {
		case !known:
			fresh = append(fresh, r)
		case was.Number != r.Number:
			other = append(other, bot.CuratedRow{ID: was.ID, Number: r.Number})
		}
	}
	var absent []int64
	for _, r := range there {
		absent = append(absent, r.ID)
	}
	slices.Sort(absent)
	for chunk := range slices.Chunk(absent, chunkSize) {
		if _, err := t.exec(ctx, `DELETE FROM draft_row WHERE id IN (`+list(len(chunk))+`)`, anys(chunk)...); err != nil {
			return false, err
		}
	}
	if err := t.setEach(ctx, `UPDATE draft_row {pinned} SET number = %s, version = version + 1, updated_at = {now} WHERE id IN (%s)`, other,
		func(r bot.CuratedRow) any { return r.Number }); err != nil {
		return false, err
	}
	if err := t.insertDrafts(ctx, set.ID, fresh); err != nil {
		return false, err
	}
	if len(rows) == 0 {
		// With no draft row left, what was committed once would be current again.
		if _, err := t.exec(ctx, `DELETE FROM curated_row WHERE approval_request_id = ?`, set.ID); err != nil {
			return false, err
		}
	}
	return len(absent)+len(other)+len(fresh) > 0, nil
}

// setEach writes one column of many rows, each its own value: statement has %s for the value and for the ids.
func (t *tx) setEach(ctx context.Context, statement string, rows []bot.CuratedRow, value func(bot.CuratedRow) any) error {
	for chunk := range slices.Chunk(rows, chunkSize) {
		var values, ids []any
		for _, r := range chunk {
			values, ids = append(values, r.ID, value(r)), append(ids, r.ID)
		}
		cases := `CASE id ` + strings.Repeat(`WHEN ? THEN ? `, len(chunk)) + `END`
		n, err := t.exec(ctx, fmt.Sprintf(statement, cases, list(len(ids))), append(values, ids...)...)
		if err != nil {
			return err
		}
		if n != int64(len(chunk)) {
			return t.fail(fmt.Errorf("%d of %d rows were written: the database was written by something else", n, len(chunk)))
		}
	}
	return nil
}
