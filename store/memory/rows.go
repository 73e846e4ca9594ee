package memory

import (
	"cmp"
	"slices"

	"github.com/batchbot/batchbot/bot"
)

func (r *repositoryRow) value() bot.Repository {
	repo := bot.Repository{
		ID: r.id,
		RepositoryRef: bot.RepositoryRef{
			Host: r.host, ExternalID: r.externalID, Path: r.path, Installation: r.installation, DefaultBranch: r.defaultBranch,
		},
		Active: r.active,
	}
	if r.commentsSeenAt != 0 {
		repo.CommentsSeenAt = at(r.commentsSeenAt)
	}
	return repo
}

func (r *queueRow) value() bot.Queue {
	q := bot.Queue{
		ID: r.id, RepositoryID: r.repositoryID, Target: r.target, State: r.status, Reason: r.reason, Settings: r.parsed, SettingsBlob: r.blob, Version: r.version,
	}
	q.Settings.Checks.Required = slices.Clone(q.Settings.Checks.Required)
	return q
}

func (r *mrRow) value() bot.MergeRequest {
	return bot.MergeRequest{
		ID: r.id, RepositoryID: r.repositoryID, Number: r.number, Title: r.title, Author: r.author, HeadSHA: r.headSHA, StickyCommentID: r.sticky,
		LastCommand: bot.CommandOrder{At: r.lastCommandAt, ID: r.lastCommandID},
	}
}

func (b *batchRow) value(now int64) bot.Batch {
	return bot.Batch{
		ID: b.id, QueueID: b.queueID, Status: b.status, Phase: b.phase, Version: b.version, Kind: b.kind, Cohort: b.cohort, Token: b.token,
		Build: b.build, BaseSHA: b.baseSHA, HeadSHA: b.headSHA, LandedSHA: b.landedSHA, MRNumber: b.mrNumber, Code: b.code, Message: b.message,
		Refusals: b.refusals, Restores: b.restores, Size: b.size, Tested: b.tested, Why: b.why, CreatedAt: at(b.created), UpdatedAt: at(b.updated), PhaseAge: since(now, b.phaseAt), Unchanged: since(now, b.updated),
		ChecksQuiet: since(now, b.ciChanged), Overdue: b.deadline < now, CIConclusion: b.ciConclusion, LandedDiffers: b.landedDiffers,
	}
}

func (t *tables) repository(id int64) *repositoryRow {
	return t.repositories.first(func(r *repositoryRow) bool { return r.id == id })
}

func (t *tables) queue(id int64) *queueRow {
	return t.queues.first(func(q *queueRow) bool { return q.id == id })
}

func (t *tables) mr(id int64) *mrRow {
	return t.mrs.first(func(m *mrRow) bool { return m.id == id })
}

func (t *tables) findMR(repositoryID int64, number int) *mrRow {
	return t.mrs.first(func(m *mrRow) bool { return m.repositoryID == repositoryID && m.number == number })
}

func (t *tables) batch(id int64) *batchRow {
	return t.batches.first(func(b *batchRow) bool { return b.id == id })
}

// activeBatch is the batch in a queue's slot, nil if the slot is free.
func (t *tables) activeBatch(queueID int64) *batchRow {
	return t.batches.first(func(b *batchRow) bool { return b.queueID == queueID && b.active() })
}

func (t *tables) operationRow(id string) *operationRow {
	return t.operations.first(func(o *operationRow) bool { return o.id == id })
}

func (t *tables) requestOf(operationID string) *requestRow {
	return t.requests.first(func(r *requestRow) bool { return r.operationID == operationID })
}

// operation reads an operation as it is read everywhere: with its queue, its merge request and its request row, if it has one.
func (t *tables) operation(id string) (bot.Operation, bool) {
	o := t.operationRow(id)
	if o == nil {
		return bot.Operation{}, false
	}
	return t.joined(o)
}

func (t *tables) joined(o *operationRow) (bot.Operation, bool) {
	queue, mr := t.queue(o.queueID), t.mr(o.mrID)
	if queue == nil || mr == nil {
		return bot.Operation{}, false
	}
	op := bot.Operation{
		ID: o.id, Status: o.status, Version: o.version, RepositoryID: o.repositoryID, QueueID: o.queueID, Target: queue.target, MergeRequestID: o.mrID,
		Number: mr.number, Title: mr.title, Author: mr.author, Requester: o.requester, HeadSHA: o.headSHA, Reason: o.reason, Detail: o.detail,
		CreatedAt: at(o.created),
	}
	if r := t.requestOf(o.id); r != nil {
		op.RequestID, op.BatchID, op.Cohort = r.id, r.batchID, r.cohort
	}
	return op, true
}

// places lists the place, from 1, that every operation ever claimed by a batch has in it.
func (t *tables) places(batchID int64) map[string]int {
	places := make(map[string]int)
	for _, m := range t.members.rows {
		if m.batchID == batchID && m.event == bot.MemberClaimed {
			places[m.operationID] = m.position
		}
	}
	return places
}

// membersOf lists who rides in a batch now, in batch order.
func (t *tables) membersOf(batch *batchRow) []bot.Operation {
	places := t.places(batch.id)
	var members []bot.Operation
	for _, r := range t.requests.rows {
		if r.queueID != batch.queueID || r.batchID != batch.id || places[r.operationID] == 0 {
			continue
		}
		if op, ok := t.operation(r.operationID); ok {
			members = append(members, op)
		}
	}
	slices.SortStableFunc(members, func(a, b bot.Operation) int { return cmp.Compare(places[a.ID], places[b.ID]) })
	return members
}

// inOrder sorts requests as they ride: lane, first admission, id.
func inOrder(a, b *requestRow) int {
	return cmp.Or(cmp.Compare(a.lane, b.lane), cmp.Compare(a.created, b.created), cmp.Compare(a.id, b.id))
}
