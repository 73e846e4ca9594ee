package store

import (
	"context"

	"github.com/batchbot/batchbot/bot"
)

// An operation as it is read everywhere: with its queue, its merge request and its request row, if it has one.
const (
	operationColumns = `o.operation_id, o.status, o.version, o.repository_id, o.queue_id, q.target_branch, o.merge_request_id, m.number, m.title,
	m.author_id, m.author_login, m.author_bot, o.requester, o.head_sha, o.reason, o.detail,
	COALESCE(w.id, 0), COALESCE(w.batch_id, 0), COALESCE(w.cohort, 0), o.created_at`
	operationJoins = ` JOIN queue q ON q.id = o.queue_id JOIN merge_request m ON m.id = o.merge_request_id
	LEFT JOIN merge_batch_request w ON w.operation_id = o.operation_id `
)

// scanOperation scans operationColumns and what more a query selects after them.
func scanOperation(scan scan, o *bot.Operation, more ...any) error {
	var created instant
	fields := []any{&o.ID, &o.Status, &o.Version, &o.RepositoryID, &o.QueueID, &o.Target, &o.MergeRequestID, &o.Number, &o.Title,
		&o.Author.ID, &o.Author.Login, &o.Author.Bot, &o.Requester, &o.HeadSHA, &o.Reason, &o.Detail,
		&o.RequestID, &o.BatchID, &o.Cohort, &created}
	err := scan(append(fields, more...)...)
	o.CreatedAt = created.Time
	return err
}

// readOperation reads one operation.
func readOperation(ctx context.Context, from source, id string) (op bot.Operation, found bool, err error) {
	err = from.each(ctx, `SELECT `+operationColumns+` FROM operation o`+operationJoins+`WHERE o.operation_id = ?`, []any{id}, func(scan scan) error {
		found = true
		return scanOperation(scan, &op)
	})
	return op, found, err
}

// listOperations reads operations; rest follows the joins.
func listOperations(ctx context.Context, from source, rest string, args ...any) ([]bot.Operation, error) {
	var ops []bot.Operation
	err := from.each(ctx, `SELECT `+operationColumns+` FROM operation o`+operationJoins+rest, args, func(scan scan) error {
		var op bot.Operation
		err := scanOperation(scan, &op)
		ops = append(ops, op)
		return err
	})
	return ops, err
}

// A batch as it is read everywhere. Its ages are taken by the database's clock, which is read with it.
const batchColumns = `{now}, b.id, b.queue_id, b.status, b.phase, b.version, b.kind, b.cohort, b.token, b.build, b.base_sha, b.head_sha, b.landed_sha,
	b.mr_number, b.code, b.message, b.refusals, b.restores, b.size, b.tested, b.why, b.created_at, b.updated_at, b.phase_at, b.ci_changed_at, b.deadline_at,
	b.ci_conclusion, b.landed_differs`

// scanBatch scans batchColumns and what more a query selects after them.
func scanBatch(scan scan, b *bot.Batch, more ...any) error {
	var now, created, updated, phase, checks, deadline instant
	fields := []any{&now, &b.ID, &b.QueueID, &b.Status, &b.Phase, &b.Version, &b.Kind, &b.Cohort, &b.Token, &b.Build, &b.BaseSHA, &b.HeadSHA, &b.LandedSHA,
		&b.MRNumber, &b.Code, &b.Message, &b.Refusals, &b.Restores, &b.Size, &b.Tested, &b.Why, &created, &updated, &phase, &checks, &deadline,
		&b.CIConclusion, &b.LandedDiffers}
	err := scan(append(fields, more...)...)
	b.CreatedAt, b.UpdatedAt = created.Time, updated.Time
	b.PhaseAge, b.ChecksQuiet, b.Unchanged = now.Sub(phase.Time), now.Sub(checks.Time), now.Sub(updated.Time)
	b.Overdue = deadline.Before(now.Time)
	return err
}

// readBatch reads the one batch that where, which follows the table's alias b, selects.
func readBatch(ctx context.Context, from source, where string, args ...any) (batch bot.Batch, found bool, err error) {
	err = from.each(ctx, `SELECT `+batchColumns+` FROM merge_batch b WHERE `+where, args, func(scan scan) error {
		found = true
		return scanBatch(scan, &batch)
	})
	return batch, found, err
}
