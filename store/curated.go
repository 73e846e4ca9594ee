package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/batchbot/batchbot/bot"
)

// A set as it is read everywhere: its header with whom it was drafted on.
const (
	setColumns = `a.id, a.queue_id, a.merge_request_id, COALESCE(m.number, 0), a.status, a.version, a.drafter, a.decider, a.reason, a.created_at, a.updated_at`
	setTables  = ` FROM approval_request a LEFT JOIN merge_request m ON m.id = a.merge_request_id `
)

// setFields are where setColumns are scanned to; done copies the times over.
func setFields(c *bot.Curated) (fields []any, done func()) {
	var created, updated instant
	fields = []any{&c.ID, &c.QueueID, &c.MergeRequestID, &c.Number, &c.Status, &c.Version, &c.Drafter, &c.Decider, &c.Reason, &created, &updated}
	return fields, func() { c.CreatedAt, c.UpdatedAt = created.Time, updated.Time }
}

// readSets reads the sets that where, which follows the alias a, selects, newest first, with the rows that are current. It is the only reader of
// rows, and so the one place for the rule: two tables can hold a version of the same set, and an older set may have rows in both, those that were
// committed once and those that are edited since. Draft rows win wherever there are some; committed ones count only when there are none.
//
// One statement reads headers and rows: a submission in between would show a set without any.
func readSets(ctx context.Context, from source, where string, args ...any) ([]bot.Curated, error) {
	query := `SELECT ` + setColumns + `, 1, COALESCE(d.id, 0), COALESCE(d.row_no, 0), COALESCE(d.number, 0), '', ''` + setTables +
		`LEFT JOIN draft_row d ON d.approval_request_id = a.id WHERE ` + where + `
		UNION ALL SELECT ` + setColumns + `, 2, c.id, c.row_no, c.number, c.head_sha, c.operation_id` + setTables +
		`JOIN curated_row c ON c.approval_request_id = a.id WHERE ` + where + `
		ORDER BY 1 DESC, 12, 14`
	var sets []bot.Curated
	err := from.each(ctx, query, append(append([]any(nil), args...), args...), func(scan scan) error {
		var c bot.Curated
		var kind int
		var r bot.CuratedRow
		fields, done := setFields(&c)
		if err := scan(append(fields, &kind, &r.ID, &r.RowNo, &r.Number, &r.HeadSHA, &r.OperationID)...); err != nil {
			return err
		}
		done()
		if len(sets) == 0 || sets[len(sets)-1].ID != c.ID {
			sets = append(sets, c)
		}
		set := &sets[len(sets)-1]
		committed := kind == 2
		switch {
		case r.ID == 0: // a header without draft rows
		case len(set.Rows) > 0 && set.Committed != committed: // stale: its draft rows came first
		default:
			set.Rows, set.Committed = append(set.Rows, r), committed
		}
		return nil
	})
	return sets, err
}

// readSet reads one set.
func readSet(ctx context.Context, from source, where string, args ...any) (set bot.Curated, ok bool, err error) {
	sets, err := readSets(ctx, from, where, args...)
	if err != nil || len(sets) == 0 {
		return bot.Curated{}, false, err
	}
	return sets[0], true, nil
}

// ReadCurated reads a set with the rows that are current; ok is false when there is none of this id.
func (s *Store) ReadCurated(ctx context.Context, id int64) (view bot.CuratedView, ok bool, err error) {
	set, ok, err := readSet(ctx, s, `a.id = ?`, id)
	if err == nil && ok {
		view.Curated = set
		view.Queue, view.Repository, err = s.ReadQueue(ctx, set.QueueID)
	}
	if err != nil {
		return bot.CuratedView{}, false, fmt.Errorf("read curated batch %d: %w", id, err)
	}
	return view, ok, nil
}

// CuratedOf finds the set drafted on a merge request that is not over; ok is false when there is none.
func (s *Store) CuratedOf(ctx context.Context, mergeRequestID int64) (set bot.Curated, ok bool, err error) {
	set, ok, err = readSet(ctx, s, `a.live_mr = ?`, mergeRequestID)
	if err != nil {
		return bot.Curated{}, false, fmt.Errorf("read the curated batch of merge request row %d: %w", mergeRequestID, err)
	}
	return set, ok, nil
}

// ListCurated lists sets, newest first.
func (s *Store) ListCurated(ctx context.Context, filter bot.CuratedFilter) ([]bot.CuratedView, error) {
	failed := func(err error) error { return fmt.Errorf("list curated batches: %w", err) }
	where, args := `1 = 1`, []any(nil)
	if filter.QueueID != 0 {
		where, args = where+` AND a.queue_id = ?`, append(args, filter.QueueID)
	}
	if filter.Live {
		where, args = where+` AND a.status NOT IN (?, ?)`, append(args, bot.CuratedDone, bot.CuratedCancelled)
	}
	found, err := ids(ctx, s, `SELECT a.id FROM approval_request a WHERE `+where+` ORDER BY a.id DESC LIMIT ?`, append(args, max(filter.Limit, 1))...)
	if err != nil {
		return nil, failed(err)
	}
	var views []bot.CuratedView
	for len(found) > 0 {
		chunk := found[:min(len(found), chunkSize)]
		found = found[len(chunk):]
		sets, err := readSets(ctx, s, `a.id IN (`+list(len(chunk))+`)`, anys(chunk)...)
		if err != nil {
			return nil, failed(err)
		}
		for _, set := range sets {
			view := bot.CuratedView{Curated: set}
			if n := len(views); n > 0 && views[n-1].Queue.ID == set.QueueID {
				view.Queue, view.Repository = views[n-1].Queue, views[n-1].Repository
			} else if view.Queue, view.Repository, err = s.ReadQueue(ctx, set.QueueID); err != nil {
				return nil, failed(err)
			}
			views = append(views, view)
		}
	}
	return views, nil
}

// lockSet locks the header's row for the rest of the transaction and reads the set behind that lock; found false: there is none. Whoever is about to
// write to a set in any other way than by one guarded statement takes it, so that a save, a cancel and an approval come one after the other.
func (t *tx) lockSet(ctx context.Context, id int64) (set bot.Curated, found bool, err error) {
	var locked int64
	if found, err = one(ctx, t, `SELECT id FROM approval_request WHERE id = ? {lock}`, []any{id}, &locked); err != nil || !found {
		return bot.Curated{}, false, err
	}
	return readSet(ctx, t, `a.id = ?`, id)
}

// ask is what all writes of people to a set have in common.
type ask struct {
	by      string
	source  string
	command *bot.CommandRef
	request *bot.APIRequest
}

func (a ask) check() error {
	if a.command != nil {
		return checkCommand(*a.command)
	}
	return nil
}

// setRefusal is an outcome that rolls back.
type setRefusal struct {
	outcome bot.CuratedOutcome
	detail  string
}

func (r setRefusal) Error() string { return fmt.Sprintf("curated batch: outcome %d", r.outcome) }

func refuseSet(outcome bot.CuratedOutcome) error { return setRefusal{outcome: outcome} }

// begin writes the idempotency row of whoever asks and takes the command's turn.
func (t *tx) begin(ctx context.Context, a ask, mergeRequestID int64) error {
	if a.command != nil {
		if fresh, err := t.recordCommand(ctx, a.command.RequestID, ""); err != nil {
			return err
		} else if !fresh {
			return refuseSet(bot.CuratedDuplicate)
		}
		if ok, err := t.takeTurn(ctx, mergeRequestID, a.command.Order); err != nil {
			return err
		} else if !ok {
			return refuseSet(bot.CuratedSuperseded)
		}
	}
	if a.request != nil {
		if fresh, err := t.recordCommand(ctx, a.request.ID, ""); err != nil {
			return err
		} else if !fresh {
			return refuseSet(bot.CuratedDuplicate)
		}
	}
	return nil
}

// finish stores what an API request was about, records what was done and arms what is to be said. It returns the set as it stands now.
func (t *tx) finish(ctx context.Context, a ask, id int64, action, detail string) (bot.Curated, error) {
	set, found, err := readSet(ctx, t, `a.id = ?`, id)
	if err != nil || !found {
		return bot.Curated{}, missing(err, "its row")
	}
	if a.request != nil {
		if err := t.recordResource(ctx, *a.request, curatedPath(id)); err != nil {
			return bot.Curated{}, err
		}
	}
	if action != "" {
		if err := t.auditSet(ctx, set, a.by, action, a.source, detail); err != nil {
			return bot.Curated{}, err
		}
	}
	return set, t.tellSet(ctx, set)
}

// curatedPath is where the API has a set.
func curatedPath(id int64) string { return fmt.Sprintf("/api/v1/curated/%d", id) }

// auditSet records who changed a set, once per version.
func (t *tx) auditSet(ctx context.Context, set bot.Curated, by, action, source, detail string) error {
	return t.audit(ctx, auditEntry{dedupe: setAudit(set.ID, set.Version), actor: by, action: action, queueID: set.QueueID, source: source,
		detail: strings.TrimSpace(fmt.Sprintf("curated batch %d: %s, %d rows. %s", set.ID, set.Status, len(set.Rows), detail))})
}

// setAudit is the audit's key of the change that gave a set this version.
func setAudit(id, version int64) string { return fmt.Sprintf("curated:%d:%d", id, version) }

// tellSet says anew what the status comment of the set's merge request shows.
func (t *tx) tellSet(ctx context.Context, set bot.Curated) error {
	if set.MergeRequestID == 0 {
		return nil
	}
	repositoryID, err := repositoryOf(ctx, t, set.QueueID)
	if err != nil {
		return err
	}
	return t.arm(ctx, stickyErrand(repositoryID, set.MergeRequestID, set.Number))
}

// writeSet runs a write of people to a set. run returns the set as it stands then, or a setRefusal. landed looks whether it took effect after all.
func (s *Store) writeSet(ctx context.Context, name string, a ask, run func(tx *tx) (bot.Curated, error), landed func(ctx context.Context, set bot.Curated) (bool, error)) (bot.CuratedResult, error) {
	if err := a.check(); err != nil {
		return bot.CuratedResult{}, err
	}
	var result bot.CuratedResult
	err := s.write(ctx, job{name: name, run: func(tx *tx) error {
		result = bot.CuratedResult{Outcome: bot.CuratedWritten}
		set, err := run(tx)
		if refusal, ok := errors.AsType[setRefusal](err); ok {
			result = bot.CuratedResult{Outcome: refusal.outcome, Detail: refusal.detail}
			return errRollback
		}
		result.Curated = set
		return err
	}, landed: func(ctx context.Context) (bool, error) { return landed(ctx, result.Curated) }})
	if err != nil {
		return bot.CuratedResult{}, err
	}
	return result, nil
}

// asItStands adds to a refusal the set as it is now, for whoever reads the answer.
func (s *Store) asItStands(ctx context.Context, result bot.CuratedResult, where string, args ...any) (bot.CuratedResult, error) {
	if result.Outcome == bot.CuratedWritten {
		return result, nil
	}
	set, _, err := readSet(ctx, s, where, args...)
	if err != nil {
		return bot.CuratedResult{}, fmt.Errorf("read the curated batch that was not written: %w", err)
	}
	result.Curated = set
	return result, nil
}

// byRow orders rows as they merge.
func byRow(a, b bot.CuratedRow) int { return cmp.Compare(a.RowNo, b.RowNo) }
