package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/batchbot/batchbot/bot"
)

// admission is one member of a set that is approved.
type admission struct {
	bot.Application
	mr bot.MergeRequest

	bound   bool // there is a binding: old, its operation current
	old     binding
	current bot.Operation
	op      bot.Operation // that is admitted: a new one, or the current one taken over
}

// binding is what a new application has to find unchanged.
type binding struct {
	id, version int64
	status      bot.OperationStatus
}

// takeover reports whether the operation there is becomes the member's.
func (m admission) takeover() bool {
	return m.bound && m.current.Status == bot.OperationPendingApproval
}

// recordMembers makes or refreshes the rows of the members' merge requests, writing only what is not there as it is.
func (s *Store) recordMembers(ctx context.Context, members []bot.Application) ([]admission, error) {
	known := make(map[int]bot.MergeRequest, len(members))
	for chunk := range slices.Chunk(members, chunkSize) {
		args := []any{chunk[0].Repository.ID}
		for _, m := range chunk {
			args = append(args, m.MR.Number)
		}
		err := s.each(ctx, `SELECT `+mrColumns+` FROM merge_request m WHERE m.repository_id = ? AND m.number IN (`+list(len(chunk))+`)`, args, func(scan scan) error {
			var mr bot.MergeRequest
			err := scan(mrFields(&mr)...)
			known[mr.Number] = mr
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read the merge requests of the members: %w", err)
		}
	}
	var admissions []admission
	for _, m := range members {
		if m.OperationID == "" || m.MR.HeadSHA == "" || m.Repository.ID != members[0].Repository.ID {
			return nil, fmt.Errorf("merge request %d: a member needs an operation id, a head to pin and the repository of the others", m.MR.Number)
		}
		mr, found := known[m.MR.Number]
		if !found || mr.Title != clip(m.MR.Title, titleText) || mr.Author != m.MR.Author || mr.HeadSHA != m.MR.HeadSHA {
			var err error
			if mr, err = s.RecordMR(ctx, m.Repository.ID, m.MR); err != nil {
				return nil, err
			}
		}
		admissions = append(admissions, admission{Application: m, mr: mr})
	}
	return admissions, nil
}

// admitSet puts the members of a set into the waiting set as one cohort, in the order of the rows. Nothing of it is written one by one: a set of
// hundreds takes a few dozen statements.
func (t *tx) admitSet(ctx context.Context, set bot.Curated, d bot.CuratedDecision, members []admission) error {
	if !set.Committed || len(set.Rows) != len(members) {
		return t.fail(fmt.Errorf("the approval names %d members and the set has %d committed rows", len(members), len(set.Rows)))
	}
	byMR := make(map[int64]*admission, len(members))
	for i := range members {
		m, row := &members[i], set.Rows[i]
		if m.MR.Number != row.Number || m.MR.HeadSHA != row.HeadSHA {
			return t.fail(fmt.Errorf("member %d is merge request %d at %s, and row %d is %d at %s", i+1, m.MR.Number, bot.ShortSHA(m.MR.HeadSHA),
				row.RowNo, row.Number, bot.ShortSHA(row.HeadSHA)))
		}
		m.QueueID, m.bound = set.QueueID, false
		byMR[m.mr.ID] = m
	}
	target, err := t.targetOf(ctx, members[0].Application)
	if err != nil {
		return err
	}
	for _, m := range members {
		if m.MR.Target != target {
			return t.fail(fmt.Errorf("merge request %d is for %q, and the set for %q", m.MR.Number, m.MR.Target, target))
		}
	}
	if err := t.bindingsOf(ctx, target, byMR); err != nil {
		return err
	}
	if err := t.refuseBusy(ctx, members); err != nil {
		return err
	}
	if err := t.newOperations(ctx, d.By, members); err != nil {
		return err
	}
	changes, err := t.takeOver(ctx, d.By, members)
	if err != nil {
		return err
	}
	bound, err := t.bindMembers(ctx, target, members)
	if err != nil {
		return err
	}
	if err := t.admitMembers(ctx, set, members); err != nil {
		return err
	}
	return t.tellAdmitted(ctx, d, members, bound, changes)
}

// bindingsOf reads what the members are bound to now.
func (t *tx) bindingsOf(ctx context.Context, target string, byMR map[int64]*admission) error {
	subjects := make([]int64, 0, len(byMR))
	for id := range byMR {
		subjects = append(subjects, id)
	}
	slices.Sort(subjects)
	var current []string
	owner := make(map[string]*admission)
	for chunk := range slices.Chunk(subjects, chunkSize) {
		err := t.each(ctx, `SELECT id, subject_id, version, status, operation_id FROM binding WHERE target_key = ? AND subject_id IN (`+list(len(chunk))+`)`,
			append([]any{target}, anys(chunk)...), func(scan scan) error {
				var b binding
				var subject int64
				var operation string
				if err := scan(&b.id, &subject, &b.version, &b.status, &operation); err != nil {
					return err
				}
				m := byMR[subject]
				m.bound, m.old = true, b
				current, owner[operation] = append(current, operation), m
				return nil
			})
		if err != nil {
			return err
		}
	}
	for chunk := range slices.Chunk(current, chunkSize) {
		ops, err := listOperations(ctx, t, `WHERE o.operation_id IN (`+list(len(chunk))+`)`, anys(chunk)...)
		if err != nil {
			return err
		}
		for _, op := range ops {
			owner[op.ID].current = op
		}
	}
	return nil
}

// refuseBusy refuses a set of which a member is on its way already. An operation that waits for its approvals is not, unless it holds a
// seat: that is read without a lock, and whoever takes a seat now writes the operation, whose version guards the takeover.
func (t *tx) refuseBusy(ctx context.Context, members []admission) error {
	var pending []string
	for _, m := range members {
		if m.takeover() {
			pending = append(pending, m.current.ID)
		}
	}
	seated := make(map[string]bool)
	for chunk := range slices.Chunk(pending, chunkSize) {
		err := t.each(ctx, `SELECT live_operation FROM train_seat WHERE live_operation IN (`+list(len(chunk))+`)`, anys(chunk), func(scan scan) error {
			var operation string
			err := scan(&operation)
			seated[operation] = true
			return err
		})
		if err != nil {
			return err
		}
	}
	for _, m := range members {
		if !m.bound {
			continue
		}
		busy := ""
		switch bot.Reapply(m.current.Status, m.current.HeadSHA, m.MR.HeadSHA) {
		case bot.ReapplyNeedsRetry:
			busy = "failed and awaits /batch retry"
		case bot.ReapplyLanded:
			busy = "landed at this very commit"
		case bot.ReapplyActive:
			switch {
			case m.current.Status == bot.OperationBatched:
				busy = fmt.Sprintf("rides in batch %d", m.current.BatchID)
			case m.current.Status == bot.OperationWaiting:
				busy = "waits for the next batch"
			case seated[m.current.ID]:
				busy = "holds a seat on a train"
			}
		}
		if busy != "" {
			return setRefusal{bot.CuratedMemberBusy, fmt.Sprintf("%d %s", m.MR.Number, busy)}
		}
	}
	return nil
}

// newOperations inserts an operation for every member without one that waits for its approvals.
func (t *tx) newOperations(ctx context.Context, by string, members []admission) error {
	var rows [][]any
	for i := range members {
		m := &members[i]
		if m.takeover() {
			m.op = m.current
			continue
		}
		m.op = bot.Operation{ID: m.OperationID, Status: bot.OperationWaiting, RepositoryID: m.Repository.ID, QueueID: m.QueueID, MergeRequestID: m.mr.ID,
			Number: m.mr.Number, HeadSHA: m.MR.HeadSHA, Reason: bot.ReasonCurated}
		rows = append(rows, []any{m.op.ID, m.op.RepositoryID, m.op.QueueID, m.mr.ID, m.op.Status, clip(by, 255), m.op.HeadSHA, cmp.Or(m.Lane, bot.LaneNormal), m.op.Reason})
	}
	_, err := t.insertRows(ctx, nil, `INSERT INTO operation
		(operation_id, repository_id, queue_id, merge_request_id, status, requester, head_sha, lane, reason, detail, created_at, updated_at) VALUES `,
		`(?, ?, ?, ?, ?, ?, ?, ?, ?, '', {now}, {now})`, rows)
	return err
}

// takeOver moves the operations that wait for their approvals, guarded by their versions.
func (t *tx) takeOver(ctx context.Context, by string, members []admission) ([]change, error) {
	var changes []change
	for _, m := range members {
		if !m.takeover() {
			continue
		}
		head := m.MR.HeadSHA
		if head == m.current.HeadSHA {
			head = "" // kept: those are written together
		}
		changes = append(changes, change{op: m.current, version: m.current.Version, to: bot.OperationWaiting, headSHA: head, reason: bot.ReasonCurated, by: by})
	}
	if ok, err := t.transition(ctx, changes); err != nil {
		return nil, err
	} else if !ok {
		return nil, refuseSet(bot.CuratedRetryLater)
	}
	return changes, nil
}

// bindMembers binds the new operations, and returns the binding of each.
func (t *tx) bindMembers(ctx context.Context, target string, members []admission) (map[string]int64, error) {
	resets := make(map[binding][]admission) // by state; without an id
	var inserts [][]any
	var fresh []string
	for _, m := range members {
		if m.takeover() {
			continue
		}
		fresh = append(fresh, m.op.ID)
		expiry := micros(cmp.Or(m.ExpiresIn, defaultExpiry))
		if m.bound {
			g := binding{version: m.old.version, status: m.old.status}
			resets[g] = append(resets[g], m)
			continue
		}
		inserts = append(inserts, []any{m.mr.ID, target, m.op.ID, m.op.Status, expiry})
	}
	groups := make([]binding, 0, len(resets))
	for g, group := range resets {
		slices.SortFunc(group, func(a, b admission) int { return cmp.Compare(a.old.id, b.old.id) })
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(a, b binding) int { return cmp.Compare(resets[a][0].old.id, resets[b][0].old.id) })
	for _, g := range groups {
		for chunk := range slices.Chunk(resets[g], chunkSize) {
			args := []any{bot.OperationWaiting}
			var rows []any
			for _, m := range chunk {
				args, rows = append(args, m.old.id, m.op.ID), append(rows, m.old.id)
			}
			args = append(args, micros(cmp.Or(chunk[0].ExpiresIn, defaultExpiry)), g.status, g.version)
			n, err := t.exec(ctx, `UPDATE binding {pinned} SET status = ?, operation_id = CASE id `+strings.Repeat(`WHEN ? THEN ? `, len(chunk))+`END,
				expires_at = {later}, version = version + 1, updated_at = {now} WHERE status = ? AND version = ? AND id IN (`+list(len(rows))+`)`, append(args, rows...)...)
			if err != nil {
				return nil, err
			}
			if n != int64(len(chunk)) {
				return nil, refuseSet(bot.CuratedRetryLater)
			}
		}
	}
	if ok, err := t.insertRows(ctx, &keyBinding, `INSERT INTO binding (subject_id, target_key, operation_id, status, expires_at, created_at, updated_at) VALUES `,
		`(?, ?, ?, ?, {later}, {now}, {now})`, inserts); err != nil {
		return nil, err
	} else if !ok {
		return nil, refuseSet(bot.CuratedRetryLater)
	}
	bound := make(map[string]int64, len(fresh))
	for chunk := range slices.Chunk(fresh, chunkSize) {
		err := t.each(ctx, `SELECT id, operation_id FROM binding WHERE operation_id IN (`+list(len(chunk))+`)`, anys(chunk), func(scan scan) error {
			var id int64
			var operation string
			err := scan(&id, &operation)
			bound[operation] = id
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return bound, nil
}

// admitMembers inserts the requests in the order of the rows, and notes in each row which operation is the member's.
func (t *tx) admitMembers(ctx context.Context, set bot.Curated, members []admission) error {
	lane := cmp.Or(members[0].Lane, bot.LaneNormal) // one for all: they keep their order
	var requests [][]any
	operations := make(map[int64]string, len(members))
	for i, m := range members {
		requests = append(requests, []any{m.op.ID, set.QueueID, lane, set.Cohort()})
		operations[set.Rows[i].ID] = m.op.ID
	}
	if err := t.setEach(ctx, `UPDATE curated_row {pinned} SET operation_id = %s, version = version + 1, updated_at = {now} WHERE id IN (%s)`, set.Rows,
		func(r bot.CuratedRow) any { return operations[r.ID] }); err != nil {
		return err
	}
	if ok, err := t.insertRows(ctx, &keyRequestOperation, `INSERT INTO merge_batch_request (operation_id, queue_id, batch_id, lane, cohort, created_at) VALUES `,
		`(?, ?, NULL, ?, ?, {now})`, requests); err != nil {
		return err
	} else if !ok {
		return refuseSet(bot.CuratedRetryLater)
	}
	return nil
}

// tellAdmitted writes history and audit of the members and arms what is to be said about them.
func (t *tx) tellAdmitted(ctx context.Context, d bot.CuratedDecision, members []admission, bound map[string]int64, changes []change) error {
	var entries []historyEntry
	var audits [][]any
	var errands []errand
	for _, m := range members {
		version := m.op.Version + 1
		if !m.takeover() {
			version = 1
			entries = append(entries, historyEntry{bindingID: bound[m.op.ID], operationID: m.op.ID, to: m.op.Status, reason: m.op.Reason, headSHA: m.op.HeadSHA, by: d.By})
			errands = append(errands, stickyErrand(m.op.RepositoryID, m.mr.ID, m.mr.Number), statusErrand(m.op))
		}
		audits = append(audits, []any{operationAudit(m.op.ID, version), clip(d.By, 255), "admit with its curated batch", m.op.QueueID, m.op.ID, clip(d.Source, 255),
			fmt.Sprintf("curated batch %d", d.ID)})
	}
	if err := t.addHistory(ctx, entries); err != nil {
		return err
	}
	if _, err := t.insertRows(ctx, nil, `INSERT INTO audit (dedupe_key, actor, action, queue_id, operation_id, batch_id, source, detail, created_at) VALUES `,
		`(?, ?, ?, ?, ?, 0, ?, ?, {now})`, audits); err != nil {
		return err
	}
	if err := t.tell(ctx, changes); err != nil {
		return err
	}
	return t.arm(ctx, errands...)
}
