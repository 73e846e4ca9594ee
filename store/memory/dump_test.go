package memory

import (
	"encoding/json"
	"fmt"
	"slices"
)

// dump writes every row of every table as SQLite's SELECT * shows it, without the generated column.
func (d *Database) dump() map[string][]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := &d.tables
	out := make(map[string][]string)
	line := func(table string, values ...any) {
		text := ""
		for i, v := range values {
			if i > 0 {
				text += " | "
			}
			switch v := v.(type) {
			case nil:
				text += "NULL"
			case bool:
				text += fmt.Sprint(map[bool]int{false: 0, true: 1}[v])
			default:
				text += fmt.Sprint(v)
			}
		}
		out[table] = append(out[table], text)
	}
	null := func(id int64) any {
		if id == 0 {
			return nil
		}
		return id
	}
	for _, r := range t.repositories.rows {
		line("repository", r.id, r.host, r.externalID, r.path, r.installation, r.defaultBranch, r.active, r.commentsSeenAt, r.version, r.created, r.updated)
	}
	for _, r := range t.queues.rows {
		line("queue", r.id, r.repositoryID, r.target, int(r.status), r.reason, r.settings, r.blob, r.version, r.created, r.updated)
	}
	for _, r := range t.mrs.rows {
		line("merge_request", r.id, r.repositoryID, r.number, r.title, r.author.ID, r.author.Login, r.author.Bot, r.headSHA, r.lastCommandAt, r.lastCommandID,
			r.sticky, r.version, r.created, r.updated)
	}
	for _, r := range t.operations.rows {
		line("operation", r.id, r.repositoryID, r.queueID, r.mrID, int(r.status), r.requester, r.headSHA, int(r.lane), r.reason, r.detail, r.version, r.created, r.updated)
	}
	for _, r := range t.bindings.rows {
		line("binding", r.id, r.subjectID, r.target, r.operationID, int(r.status), r.expires, r.version, r.created, r.updated)
	}
	for _, r := range t.history.rows {
		line("binding_history", r.id, r.bindingID, r.operationID, null(int64(r.from)), int(r.to), r.reason, r.detail, r.headSHA, r.batchID, r.actor, r.created)
	}
	for _, r := range t.requests.rows {
		line("merge_batch_request", r.id, r.operationID, r.queueID, null(r.batchID), int(r.lane), r.cohort, r.version, r.created)
	}
	for _, r := range t.batches.rows {
		line("merge_batch", r.id, r.queueID, int(r.status), int(r.phase), int(r.kind), r.cohort, r.token, r.size, r.tested, r.why, r.build, r.baseSHA, r.headSHA, r.landedSHA,
			r.landedDiffers, r.mrNumber, r.code, r.message, r.refusals, r.restores, r.ciConclusion, r.ciFingerprint, r.ciChanged, r.phaseAt, null(r.blockedAt), r.deadline, r.version, r.created, r.updated)
	}
	for _, r := range t.members.rows {
		line("merge_batch_member", r.id, r.batchID, r.operationID, int(r.event), r.build, r.position, r.headSHA, r.reason, r.detail, r.created)
	}
	for _, r := range t.audit.rows {
		line("audit", r.id, r.dedupe, r.actor, r.action, r.queueID, r.operationID, r.batchID, r.source, r.detail, r.created)
	}
	for _, r := range t.commands.rows {
		line("idempotency", r.requestID, r.operationID, r.expires, r.created)
	}
	for _, r := range t.deliveries.rows {
		var payload any
		if r.payload != nil {
			payload = string(r.payload)
		}
		line("delivery", r.id, r.host, r.key, r.event, payload, int(r.status), r.attempts, r.nextAttempt, r.err, r.received, r.updated)
	}
	for _, r := range t.outbox.rows {
		payload, _ := json.Marshal(r.payload)
		line("outbox", r.id, int(r.kind), r.target, r.repositoryID, r.number, string(payload), r.status, r.wanted, r.done, r.attempts, r.nextAttempt, r.err, r.created, r.updated)
	}
	for _, lines := range out {
		slices.Sort(lines)
	}
	return out
}
