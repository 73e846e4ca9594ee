package memory

import (
	"context"
	"fmt"

	"github.com/batchbot/batchbot/bot"
)

// PauseQueue keeps a queue from claiming and landing until somebody resumes it. changed is false when it is paused already.
func (s *Store) PauseQueue(ctx context.Context, queueID int64, by, reason string) (changed bool, err error) {
	err = s.write(ctx, fmt.Sprint("pause queue ", queueID), func(t *tx) error {
		q := t.queue(queueID)
		if changed = q != nil && q.status != bot.QueuePaused; !changed {
			return nil
		}
		change(t, q)
		q.status, q.reason, q.updated = bot.QueuePaused, clip(reason, longText), t.now
		q.version++
		t.tellQueue(queueID)
		t.logQueue(q, by, "pause queue", reason)
		return nil
	})
	return changed, err
}

// ResumeQueue opens a paused or parked queue, and the active batch gets its whole time again. changed is false when the queue is open already.
func (s *Store) ResumeQueue(ctx context.Context, queueID int64, by string) (changed bool, err error) {
	before, _, err := s.ReadQueue(ctx, queueID)
	if err != nil {
		return false, err
	}
	err = s.write(ctx, fmt.Sprint("resume queue ", queueID), func(t *tx) error {
		q := t.queue(queueID)
		if changed = q.status != bot.QueueOpen; !changed {
			return nil
		}
		change(t, q)
		q.status, q.reason, q.updated = bot.QueueOpen, "", t.now
		q.version++
		if b := t.activeBatch(queueID); b != nil && b.status == bot.BatchRunning {
			change(t, b)
			b.deadline, b.updated = max(b.deadline, t.later(before.Settings.Timeout)), t.now
			b.version++
		}
		t.tellQueue(queueID)
		t.logQueue(q, by, "resume queue", before.Reason)
		return nil
	})
	return changed, err
}

// logQueue records who paused or resumed a queue, once per version of its row.
func (t *tx) logQueue(q *queueRow, by, action, detail string) {
	t.log(auditRow{
		dedupe: fmt.Sprintf("queue:%d:%d", q.id, q.version), actor: by, action: action, queueID: q.id, source: "operator", detail: detail,
	})
}

// TryLock takes an advisory lock without waiting; ok false: another holder. held is ctx and ends as well when the lock is lost. release may be
// called more than once, whatever became of either.
func (s *Store) TryLock(ctx context.Context, name string) (held context.Context, release func(), ok bool, err error) {
	if err := s.enter(ctx, "take the advisory lock "+name, false); err != nil {
		return nil, nil, false, err
	}
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	if s.db.locks[name] != nil {
		return nil, nil, false, nil
	}
	held, end := context.WithCancel(ctx)
	mine := &hold{by: s}
	s.db.locks[name] = mine
	return held, func() {
		end()
		s.db.mu.Lock()
		defer s.db.mu.Unlock()
		if s.db.locks[name] == mine {
			delete(s.db.locks, name)
		}
	}, true, nil
}

// Drop frees the advisory locks of this handle, as a database does when an instance's connection is lost. The holder does not hear of it: the next
// one gets the lock while this one still works under it.
func (s *Store) Drop() {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	for name, holder := range s.db.locks {
		if holder.by == s {
			delete(s.db.locks, name)
		}
	}
}
