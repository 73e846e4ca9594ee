//go:build faultpoints

package main

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// violations collects what must never be. Any number of watchers may add to it.
type violations struct {
	mu   sync.Mutex
	list []string
	seen map[string]bool
}

// add notes a violation once.
func (v *violations) add(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.seen[text] {
		return
	}
	if v.seen == nil {
		v.seen = make(map[string]bool)
	}
	v.seen[text] = true
	v.list = append(v.list, time.Now().Format(time.TimeOnly+".000 ")+text)
}

func (v *violations) all() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]string(nil), v.list...)
}

// watcher reads the rows on a consistent snapshot, again and again, while everything goes on, and compares each with the one before.
type watcher struct {
	db    *sql.DB
	found *violations

	looks   int
	batches map[int64]watchedBatch
	ops     map[string]watchedOperation
}

type watchedBatch struct {
	queue, version int64
	status         bot.BatchStatus
	phase          bot.BatchPhase
	code           bot.Code
	message        string
	overdue        bool
}

type watchedOperation struct {
	status  bot.OperationStatus
	version int64
	head    string
	current bool // of its binding
	request int64
	batch   int64
}

// watch looks until ctx ends. What it cannot read, since the database is down, it reads the next time.
func (w *watcher) watch(ctx context.Context) {
	for rest(ctx, 50*time.Millisecond) {
		_ = w.look(ctx)
	}
}

// look reads and judges one snapshot. An error says that it could not read.
func (w *watcher) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	tx, err := w.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	batches, ops := make(map[int64]watchedBatch), make(map[string]watchedOperation)
	read := func(query string, row func(scan func(...any) error) error) {
		if err != nil {
			return
		}
		var rows *sql.Rows
		if rows, err = tx.QueryContext(ctx, query); err != nil {
			return
		}
		defer rows.Close()
		for rows.Next() && err == nil {
			err = row(rows.Scan)
		}
		if err == nil {
			err = rows.Err()
		}
	}
	read(`SELECT id, queue_id, version, status, phase, code, message, deadline_at < UTC_TIMESTAMP(6) FROM merge_batch`, func(scan func(...any) error) error {
		var id int64
		var b watchedBatch
		err := scan(&id, &b.queue, &b.version, &b.status, &b.phase, &b.code, &b.message, &b.overdue)
		batches[id] = b
		return err
	})
	read(`SELECT o.operation_id, o.status, o.version, o.head_sha, COALESCE(b.status, 0), COALESCE(r.id, 0), COALESCE(r.batch_id, 0)
		FROM operation o LEFT JOIN binding b ON b.operation_id = o.operation_id LEFT JOIN merge_batch_request r ON r.operation_id = o.operation_id`,
		func(scan func(...any) error) error {
			var id string
			var o watchedOperation
			var bound bot.OperationStatus
			err := scan(&id, &o.status, &o.version, &o.head, &bound, &o.request, &o.batch)
			o.current = bound != 0
			if _, twice := ops[id]; twice {
				w.found.add("I2: operation %s has two rows in the waiting set or two bindings", id)
			}
			if o.current && bound != o.status {
				w.found.add("I5: operation %s is %s and its binding %s", id, o.status, bound)
			}
			ops[id] = o
			return err
		})
	read(`SELECT r.operation_id FROM merge_batch_request r LEFT JOIN operation o ON o.operation_id = r.operation_id WHERE o.operation_id IS NULL`,
		func(scan func(...any) error) error {
			var id string
			err := scan(&id)
			w.found.add("I4: a request of operation %s, which there is not", id)
			return err
		})
	read(`SELECT operation_id FROM merge_batch_member WHERE event = 4 GROUP BY operation_id HAVING COUNT(*) > 1`, func(scan func(...any) error) error {
		var id string
		err := scan(&id)
		w.found.add("I7: operation %s landed twice", id)
		return err
	})
	if err != nil {
		return err
	}
	w.judge(batches, ops)
	w.batches, w.ops, w.looks = batches, ops, w.looks+1
	return nil
}

// judge compares a snapshot with itself and with the one before.
func (w *watcher) judge(batches map[int64]watchedBatch, ops map[string]watchedOperation) {
	active := make(map[int64]int64)
	for id, b := range batches {
		before, known := w.batches[id]
		switch {
		case known && b.version < before.version:
			w.found.add("I6: batch %d went back from version %d to %d", id, before.version, b.version)
		case known && !before.status.Active() && b != before && (b.version != before.version || b.status != before.status):
			w.found.add("I6: batch %d was %s and changed to %s", id, before.status, b.status)
		case b.status == bot.BatchBlocked:
			w.found.add("batch %d is BLOCKED although nobody did anything to it: %s %s", id, b.code, b.message)
		case b.status == bot.BatchRunning && b.overdue:
			w.found.add("I9: batch %d is overdue", id)
		}
		if !b.status.Active() {
			continue
		}
		if other := active[b.queue]; other != 0 {
			w.found.add("I1: batches %d and %d of queue %d are active at once", other, id, b.queue)
		}
		active[b.queue] = id
	}
	for id := range w.batches {
		if _, there := batches[id]; !there {
			w.found.add("batch %d is gone", id)
		}
	}
	for id, o := range ops {
		before, known := w.ops[id]
		switch rides := o.batch != 0; {
		case known && o.version < before.version:
			w.found.add("I6: operation %s went back from version %d to %d", id, before.version, o.version)
		case known && before.status == bot.OperationMerged && o.status != bot.OperationMerged:
			w.found.add("I6: operation %s was MERGED and became %s", id, o.status)
		case o.status.Open() && !o.current:
			w.found.add("I5: operation %s is %s and not the current one of its binding", id, o.status)
		case (o.status == bot.OperationBatched) != rides:
			w.found.add("I2: operation %s is %s and its request says batch %d", id, o.status, o.batch)
		case (o.status == bot.OperationBatched || o.status == bot.OperationWaiting) != (o.request != 0):
			w.found.add("I4: operation %s is %s and has request %d", id, o.status, o.request)
		case rides && !batches[o.batch].status.Active():
			w.found.add("I2: operation %s rides in batch %d, which is %s", id, o.batch, batches[o.batch].status)
		}
	}
	for id := range w.ops {
		if _, there := ops[id]; !there {
			w.found.add("operation %s is gone", id)
		}
	}
}
