package memory

import (
	"slices"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// The rows are those of schema/sqlite, column by column: the same order, times as microseconds since 1970 UTC.

type repositoryRow struct {
	id, externalID int64
	host, path     string
	installation   int64
	defaultBranch  string
	active         bool
	commentsSeenAt int64
	version        int64
	created        int64
	updated        int64
}

type queueRow struct {
	id, repositoryID int64
	target           string
	status           bot.QueueState
	reason           string
	settings         string
	blob             string
	version          int64
	created, updated int64

	parsed bot.QueueSettings // of settings
}

type mrRow struct {
	id, repositoryID             int64
	number                       int
	title                        string
	author                       bot.Actor
	headSHA                      string
	lastCommandAt, lastCommandID int64
	sticky                       int64
	version                      int64
	created, updated             int64
}

type operationRow struct {
	id                    string
	repositoryID, queueID int64
	mrID                  int64
	status                bot.OperationStatus
	requester, headSHA    string
	lane                  bot.Lane
	reason                bot.Reason
	detail                string
	version               int64
	created, updated      int64
}

type bindingRow struct {
	id, subjectID    int64
	target           string
	operationID      string
	status           bot.OperationStatus
	expires          int64
	version          int64
	created, updated int64
}

type historyRow struct {
	id, bindingID int64
	operationID   string
	from, to      bot.OperationStatus // from 0: NULL
	reason        bot.Reason
	detail        string
	headSHA       string
	batchID       int64
	actor         string
	created       int64
}

type requestRow struct {
	id          int64
	operationID string
	queueID     int64
	batchID     int64 // 0: NULL
	lane        bot.Lane
	cohort      int64
	version     int64
	created     int64
}

type batchRow struct {
	id, queueID                 int64
	status                      bot.BatchStatus
	phase                       bot.BatchPhase
	kind                        bot.BatchKind
	cohort                      int64
	token                       string
	why                         string
	size, tested, build         int
	baseSHA, headSHA, landedSHA string
	landedDiffers               bool
	mrNumber                    int
	code                        bot.Code
	message                     string
	refusals, restores          int
	ciConclusion, ciFingerprint string
	ciChanged, phaseAt          int64
	blockedAt                   int64 // 0: never
	deadline                    int64
	version                     int64
	created, updated            int64
}

// active reports whether the row occupies its queue's slot: the generated column active_slot.
func (b *batchRow) active() bool { return b.status.Active() }

type memberRow struct {
	id, batchID     int64
	operationID     string
	event           bot.MemberEvent
	build, position int
	headSHA         string
	reason          bot.Reason
	detail          string
	created         int64
}

type auditRow struct {
	id            int64
	dedupe        string
	actor, action string
	queueID       int64
	operationID   string
	batchID       int64
	source        string
	detail        string
	created       int64
}

type idempotencyRow struct {
	requestID, operationID string
	expires, created       int64
}

type deliveryRow struct {
	id                int64
	host, key, event  string
	payload           []byte
	status            bot.DeliveryStatus
	attempts          int
	nextAttempt       int64
	err               string
	received, updated int64
}

// The states of an errand, as in the comment of outbox.status.
const (
	errandDue     = 1
	errandDone    = 2
	errandGivenUp = 3
)

type outboxRow struct {
	id               int64
	kind             bot.ErrandKind
	target           string
	repositoryID     int64
	number           int
	payload          bot.ErrandPayload
	status           int
	wanted, done     int64
	attempts         int
	nextAttempt      int64
	err              string
	created, updated int64
}

// table keeps its rows in the order of their ids.
type table[R any] struct {
	rows []*R
	last int64 // id given last
}

// first finds the first row that is as wanted, nil if there is none.
func (t *table[R]) first(wanted func(*R) bool) *R {
	for _, r := range t.rows {
		if wanted(r) {
			return r
		}
	}
	return nil
}

// all lists the rows that are as wanted.
func (t *table[R]) all(wanted func(*R) bool) []*R {
	var found []*R
	for _, r := range t.rows {
		if wanted(r) {
			found = append(found, r)
		}
	}
	return found
}

type tables struct {
	repositories table[repositoryRow]
	queues       table[queueRow]
	mrs          table[mrRow]
	operations   table[operationRow]
	bindings     table[bindingRow]
	history      table[historyRow]
	requests     table[requestRow]
	batches      table[batchRow]
	members      table[memberRow]
	audit        table[auditRow]
	commands     table[idempotencyRow]
	deliveries   table[deliveryRow]
	outbox       table[outboxRow]
}

// tx is an open transaction: the tables, the clock as it began, and how to undo what was done.
type tx struct {
	*tables
	store *Store
	now   int64
	undo  []func()
}

// change notes a row as it is, to be put back if the transaction is rolled back, and returns it to be written to.
func change[R any](t *tx, row *R) *R {
	before := *row
	t.undo = append(t.undo, func() { *row = before })
	return row
}

// insert appends a row; id, which becomes the table's next, is nil for a table that is not numbered.
func insert[R any](t *tx, in *table[R], row *R, id *int64) {
	rows, last := in.rows, in.last
	t.undo = append(t.undo, func() { in.rows, in.last = rows, last })
	if id != nil {
		in.last++
		*id = in.last
	}
	in.rows = append(in.rows, row)
}

// remove deletes the rows that are as wanted and returns how many those were.
func remove[R any](t *tx, in *table[R], wanted func(*R) bool) int {
	rows := in.rows
	kept := slices.DeleteFunc(slices.Clone(rows), wanted)
	if len(kept) == len(rows) {
		return 0
	}
	t.undo = append(t.undo, func() { in.rows = rows })
	in.rows = kept
	return len(rows) - len(kept)
}

func (t *tx) rollback() {
	for _, undo := range slices.Backward(t.undo) {
		undo()
	}
	t.undo = nil
}

func (t *tx) later(d time.Duration) int64 { return t.now + d.Microseconds() }
