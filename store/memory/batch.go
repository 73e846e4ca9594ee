package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/mutant"
)

// QueuesWithWork lists the queues that have an active batch or something waiting, in order of their ids.
func (s *Store) QueuesWithWork(ctx context.Context) (ids []int64, err error) {
	err = s.read(ctx, "list the queues with work", func(t *tables, _ int64) error {
		for _, q := range t.queues.rows {
			waits := func(r *requestRow) bool { return r.queueID == q.id && r.batchID == 0 }
			if t.activeBatch(q.id) != nil || t.requests.first(waits) != nil {
				ids = append(ids, q.id)
			}
		}
		return nil
	})
	return ids, err
}

// ReadQueue reads a queue with its repository.
func (s *Store) ReadQueue(ctx context.Context, queueID int64) (queue bot.Queue, repo bot.Repository, err error) {
	err = s.read(ctx, fmt.Sprint("read queue ", queueID), func(t *tables, _ int64) error {
		var err error
		queue, repo, err = t.readQueue(queueID)
		return err
	})
	return queue, repo, err
}

func (t *tables) readQueue(queueID int64) (bot.Queue, bot.Repository, error) {
	q := t.queue(queueID)
	if q == nil {
		return bot.Queue{}, bot.Repository{}, missing("queue %d", queueID)
	}
	r := t.repository(q.repositoryID)
	if r == nil {
		return bot.Queue{}, bot.Repository{}, missing("queue %d", queueID)
	}
	return q.value(), r.value(), nil
}

// ActiveBatch reads the batch in the queue's slot with its members in batch order; ok is false when the slot is free.
func (s *Store) ActiveBatch(ctx context.Context, queueID int64) (batch bot.Batch, members []bot.Operation, ok bool, err error) {
	err = s.read(ctx, fmt.Sprint("read the active batch of queue ", queueID), func(t *tables, now int64) error {
		if b := t.activeBatch(queueID); b != nil {
			batch, members, ok = b.value(now), t.membersOf(b), true
		}
		return nil
	})
	return batch, members, ok, err
}

// Waiting summarises a queue's waiting set for the planner, without what was admitted at this very instant.
func (s *Store) Waiting(ctx context.Context, queueID int64) (waiting bot.WaitingSet, err error) {
	err = s.read(ctx, fmt.Sprint("read what waits in queue ", queueID), func(t *tables, now int64) error {
		cohorts := make(map[int64]int)
		oldest := now
		for _, r := range t.requests.rows {
			if r.queueID != queueID || r.batchID != 0 || r.created >= now {
				continue
			}
			cohorts[r.cohort]++
			if r.cohort == 0 {
				oldest = min(oldest, r.created)
			}
		}
		waiting.Fresh, waiting.OldestAge = cohorts[0], since(now, oldest)
		for id, size := range cohorts {
			if id != 0 {
				waiting.Cohorts = append(waiting.Cohorts, bot.Cohort{ID: id, Size: size})
			}
		}
		slices.SortFunc(waiting.Cohorts, func(a, b bot.Cohort) int { return cmp.Compare(a.ID, b.ID) })
		waiting.Trials = t.trials(queueID, now)
		return nil
	})
	return waiting, err
}

// trials says what CI said of a queue's last batches, oldest first.
func (t *tables) trials(queueID, now int64) (trials []bot.Trial) {
	batches := t.batches.all(func(b *batchRow) bool { return b.queueID == queueID })
	for _, b := range batches[max(0, len(batches)-bot.TrialsKept):] {
		failed := t.members.all(func(m *memberRow) bool { return m.batchID == b.id && m.event == bot.MemberFailed })
		if trial, ok := bot.TrialOf(b.value(now), len(failed)); ok {
			trials = append(trials, trial)
		}
	}
	return trials
}

// RecordedHeads lists every head ever recorded for a batch, oldest first.
func (s *Store) RecordedHeads(ctx context.Context, batchID int64) (heads []string, err error) {
	err = s.read(ctx, fmt.Sprint("read the heads recorded for batch ", batchID), func(t *tables, _ int64) error {
		for _, m := range t.members.rows { // in the order of their builds
			if m.batchID == batchID && m.event == bot.MemberHead {
				heads = append(heads, m.headSHA)
			}
		}
		return nil
	})
	return heads, err
}

// QueuesWatching lists the queues of a repository with an active batch whose head, or one of whose members' pinned heads, is sha; empty: all of the
// repository's queues with an active batch.
func (s *Store) QueuesWatching(ctx context.Context, repositoryID int64, sha string) (ids []int64, err error) {
	err = s.read(ctx, "list the queues that watch "+bot.ShortSHA(sha), func(t *tables, _ int64) error {
		for _, q := range t.queues.rows {
			b := t.activeBatch(q.id)
			if q.repositoryID != repositoryID || b == nil {
				continue
			}
			pinned := func(r *requestRow) bool {
				o := t.operationRow(r.operationID)
				return r.queueID == q.id && r.batchID == b.id && o != nil && o.headSHA == sha
			}
			if sha == "" || b.headSHA == sha || t.requests.first(pinned) != nil {
				ids = append(ids, q.id)
			}
		}
		return nil
	})
	return ids, err
}

// BatchMR finds the batch whose aggregated merge request this is; ok is false when it is none of ours.
func (s *Store) BatchMR(ctx context.Context, repositoryID int64, number int) (batch bot.Batch, ok bool, err error) {
	if number <= 0 {
		return bot.Batch{}, false, nil
	}
	err = s.read(ctx, fmt.Sprint("look up the batch of merge request ", number), func(t *tables, now int64) error {
		for _, b := range slices.Backward(t.batches.rows) {
			if q := t.queue(b.queueID); b.mrNumber == number && q != nil && q.repositoryID == repositoryID {
				batch, ok = b.value(now), true
				break
			}
		}
		return nil
	})
	return batch, ok, err
}

// ParkQueue parks an open queue with reason and remedy. A queue that is parked or paused already stays as it is.
func (s *Store) ParkQueue(ctx context.Context, queueID int64, reason string) error {
	return s.write(ctx, fmt.Sprint("park queue ", queueID), func(t *tx) error {
		t.parkQueue(queueID, reason)
		return nil
	})
}

// ObserveChecks notes the fingerprint of the checks seen on the batch head and returns for how long it has not changed.
func (s *Store) ObserveChecks(ctx context.Context, batchID int64, fingerprint string) (quiet time.Duration, err error) {
	same := false
	err = s.read(ctx, fmt.Sprint("read the checks of batch ", batchID), func(t *tables, now int64) error {
		b := t.batch(batchID)
		if b == nil {
			return missing("batch %d", batchID)
		}
		same, quiet = b.ciFingerprint == fingerprint, since(now, b.ciChanged)
		return nil
	})
	if err != nil || same {
		return quiet, err
	}
	err = s.write(ctx, fmt.Sprint("note the checks of batch ", batchID), func(t *tx) error {
		b := t.batch(batchID)
		if b.ciFingerprint != fingerprint { // else somebody saw the same first: that time counts
			change(t, b)
			b.ciFingerprint, b.ciChanged = fingerprint, t.now
		}
		quiet = since(t.now, b.ciChanged)
		return nil
	})
	return quiet, err
}

// guard is the first write of everything that happens inside a batch: of two writers that read the same row exactly one gets past it. It returns the
// row to be written to, nil if it is no longer what the guard says.
func (t *tx) guard(g bot.BatchGuard) *batchRow {
	b := t.batch(g.BatchID)
	if b == nil || (b.status != g.Status || b.phase != g.Phase || b.version != g.Version) && !mutant.Is(mutant.Fence) {
		return nil
	}
	change(t, b)
	b.version++
	b.updated = t.now
	return b
}

// ChangeBatch writes phase, code and message of an active batch.
func (s *Store) ChangeBatch(ctx context.Context, g bot.BatchGuard, c bot.BatchChange) (batch bot.Batch, ok bool, err error) {
	name := fmt.Sprint("change batch ", g.BatchID)
	if !g.Status.Active() || (c.Status != 0 && !c.Status.Active()) {
		return bot.Batch{}, false, fmt.Errorf("%s from %s to %s: only Settle ends a batch, and nothing changes one that ended", name, g.Status, c.Status)
	}
	err = s.write(ctx, name, func(t *tx) error {
		b := t.guard(g)
		if ok = b != nil; !ok {
			return errRollback
		}
		before := *b
		b.code, b.message, b.refusals, b.ciConclusion = c.Code, clip(c.Message, longText), c.Refusals, clip(c.CIConclusion, 16)
		b.status, b.phase, b.mrNumber = cmp.Or(c.Status, b.status), cmp.Or(c.Phase, b.phase), cmp.Or(c.MRNumber, b.mrNumber)
		if b.phase != before.phase {
			b.phaseAt = t.now
		}
		if b.status == bot.BatchBlocked && before.status != bot.BatchBlocked {
			b.blockedAt = t.now
		}
		if c.ExtendBy > 0 {
			b.deadline = max(b.deadline, t.later(c.ExtendBy))
		}
		if c.Restored {
			b.restores++
		}
		batch = b.value(t.now)
		if c.By != "" {
			t.log(auditRow{
				dedupe: fmt.Sprintf("batch:%d:v%d", b.id, b.version), actor: c.By, action: "change batch", queueID: b.queueID, batchID: b.id,
				source: c.Source, detail: fmt.Sprintf("%s → %s %s %s", before.status, b.status, b.code, b.message),
			})
		}
		if b.status == bot.BatchBlocked && before.status != bot.BatchBlocked && b.mrNumber != 0 {
			notice := batchErrand(bot.ErrandBatchNotice, b, t.queue(b.queueID).repositoryID)
			notice.target = fmt.Sprintf("%d/%d", b.id, b.version)
			t.arm(notice)
		}
		said := b.status != before.status || b.code != before.code || b.message != before.message
		if said || b.mrNumber != before.mrNumber {
			t.tellMembers(b, said)
		}
		return nil
	})
	if err != nil || !ok {
		return bot.Batch{}, false, err
	}
	return batch, true, nil
}

// tellMembers says anew what a batch's members show, and on the batch MR what the batch shows when report is set.
func (t *tx) tellMembers(b *batchRow, report bool) {
	var errands []outboxRow
	for _, op := range t.membersOf(b) {
		errands = append(errands, stickyErrand(op.RepositoryID, op.MergeRequestID, op.Number))
	}
	if report && b.mrNumber != 0 {
		errands = append(errands, batchErrand(bot.ErrandBatchReport, b, t.queue(b.queueID).repositoryID))
	}
	t.arm(errands...)
}
