package main

import "slices"

// Files of the store.
const (
	schemaSQLite = "schema/sqlite/0001_main.sql"
	schemaMySQL  = "schema/mysql/0001_main.sql"
	inTx         = "store/tx.go"
	inErrors     = "store/errors.go"
	inDialect    = "store/dialect.go"
	inMySQL      = "store/mysql.go"
	inClaim      = "store/claim.go"
	inBatch      = "store/batch.go"
	inSettle     = "store/settle.go"
	inEffects    = "store/effects.go"
	inMove       = "store/move.go"
	inApply      = "store/apply.go"
	inCommand    = "store/command.go"
	inDelivery   = "store/delivery.go"
	inOutbox     = "store/outbox.go"
	inLock       = "store/lock.go"
	inDB         = "store/db.go"
	inPurge      = "store/purge.go"
	inJob        = "store/job.go"
	inRemind     = "store/remind.go"
	inLate       = "store/late.go"
	inOperator   = "store/operator.go"
	inReconcile  = "store/reconcile.go"
	inTrain      = "store/train.go"
	inSeat       = "store/trainseat.go"
	inBoard      = "store/trainboard.go"
	inDepart     = "store/traindepart.go"
	schemaLater  = "schema/sqlite/0002_train_and_curated.sql"
	inCurated    = "store/curated.go"
	inSave       = "store/curatedsave.go"
	inDecide     = "store/curateddecide.go"
	inAdmit      = "store/curatedadmit.go"
	inTogether   = "store/curatedleave.go"
	inRows       = "bot/curated.go"
	schemaLaterM = "schema/mysql/0002_train_and_curated.sql"
)

// uniqueKeyGone turns a unique key into an ordinary one.
func uniqueKeyGone(key string) []edit {
	return []edit{{schemaSQLite, "CREATE UNIQUE INDEX " + key + " ", "CREATE INDEX " + key + " "}}
}

const everyKey = "guards/every unique key refuses a second row"

// The freeing of a cohort, which has to be read before the members return.
const (
	readFreed = `	if settlement.FreeCohort > 0 {
		freed, err = ids(ctx, t, ` + "`SELECT id FROM merge_batch_request WHERE queue_id = ? AND batch_id IS NULL AND cohort = ? ORDER BY id`" + `,
			batch.QueueID, settlement.FreeCohort)
		if err != nil {
			return false, err
		}
	}
`
	membersLeave = `	left, err := t.leave(ctx, batch, members, outcomes, nil)
	if err != nil {
		return false, err
	}
`
)

// repeatable is the level that servers have by themselves.
var repeatable = []edit{{inTx, "sql.LevelReadCommitted", "sql.LevelRepeatableRead"}}

// pinnedToOrder makes the statements about requests walk the waiting order, as the optimizer might.
var pinnedToOrder = []edit{{inDialect, `"{pinned}", "FORCE INDEX (PRIMARY)"`, `"{pinned}", "FORCE INDEX (idx_request_order)"`},
	{inEffects, "UPDATE binding {pinned} SET", "UPDATE binding SET"}, {inEffects, "UPDATE outbox {pinned} SET", "UPDATE outbox SET"}}

// impatient is for mutations that make somebody wait for who waits for it: that shall not take a minute.
var impatient = []edit{{inTx, "maxTries  = 12", "maxTries  = 2"}, {inMySQL, "= \"5\" // seconds", "= \"1\" // seconds"}}

// mutations is every guard of the store. docs/database.md shows the same pairs to people.
var mutations = []mutation{
	// I1: at most one active batch per queue.
	{"I1: the unique key over the slot", uniqueKeyGone("uk_batch_active"), "claim/loses the race for the slot to the unique key", "sqlite"},
	{"I1: the unique key over the slot", []edit{{schemaMySQL, "UNIQUE KEY uk_batch_active", "KEY uk_batch_active"}},
		"claim/loses the race for the slot to the unique key", "mysql"},
	{"I1: BLOCKED keeps the slot", []edit{{schemaSQLite, "WHEN status IN (1, 4) THEN", "WHEN status = 1 THEN"}}, "claim/finds the slot occupied", "sqlite"},
	{"I1: a slot for each queue", []edit{{schemaSQLite, "THEN queue_id ELSE", "THEN 1 ELSE"}}, "claim/finds the slot occupied", "sqlite"},
	{"I1: a duplicate slot ends the claim", []edit{{inClaim, "if err != nil || !fresh {\n\t\treturn none(bot.ClaimSlotOccupied, err)", "if _ = fresh; err != nil {\n\t\treturn none(bot.ClaimSlotOccupied, err)"}},
		"claim/loses the race for the slot to the unique key", "mysql"},
	{"I1: a duplicate slot is an answer", []edit{{inClaim, "t.insert(ctx, &keyActiveBatch,", "t.insert(ctx, nil,"}},
		"claim/loses the race for the slot to the unique key", "mysql"},
	{"I1: the queue's row is taken first", []edit{{inDialect, `"{skip locked}", "FOR UPDATE SKIP LOCKED"`, `"{skip locked}", ""`}},
		"claim/leaves a queue that somebody is claiming", "mysql"},
	{"I1: SKIP LOCKED", []edit{{inDialect, `"FOR UPDATE SKIP LOCKED"`, `"FOR UPDATE NOWAIT"`}},
		"claim/leaves a queue that somebody is claiming", "mysql"},
	{"I1: a claim that got nothing undoes its batch", []edit{{inClaim, "err == nil && result.Outcome != bot.ClaimDone {", "err == nil && result.Outcome == bot.ClaimPreempted {"}},
		"claim/leaves what is admitted at this very instant", "sqlite"},

	// I2: a request is claimed by at most one batch.
	{"I2: batch_id IS NULL", []edit{{inClaim, "version = version + 1 WHERE batch_id IS NULL AND id IN (", "version = version + 1 WHERE id IN ("}},
		"claim/leaves alone what somebody took in between (I2)", "mysql"},
	{"I2: the count of claimed rows", []edit{{inClaim, "if err != nil || n != int64(len(chunk)) {", "if _ = n; err != nil {"}},
		"claim/is tried again when a waiting request vanishes", "mysql"},
	{"I2: a preempted claim undoes everything", []edit{{inClaim, "err == nil && result.Outcome != bot.ClaimDone {", "err == nil && result.Outcome == bot.ClaimNothing {"}},
		"claim/is tried again when a waiting request vanishes", "mysql"},
	{"I2: the count of claimed operations", []edit{{inEffects, "if err != nil || n != int64(len(ids)) {", "if _ = n; err != nil {"}},
		"guards/an operation that moved by itself is not claimed", "mysql"},
	{"I2: who returns is still in its batch", []edit{{inSettle, "SET batch_id = NULL, cohort = ?, version = version + 1\n\t\t\t\tWHERE batch_id = ? AND id IN (", "SET batch_id = NULL, cohort = ?, version = version + 1\n\t\t\t\tWHERE batch_id > 0 * ? AND id IN ("}},
		"guards/a member that vanished stops its settlement", "mysql"},
	{"I2: the count of those who return", []edit{{inSettle, "if err != nil || n != int64(len(chunk)) {\n\t\t\t\treturn", "if _ = n; err != nil {\n\t\t\t\treturn"}},
		"guards/a member that vanished stops its settlement", "mysql"},
	{"I2: who ends is still in its batch", []edit{{inSettle, "`DELETE FROM merge_batch_request WHERE batch_id = ? AND id IN (`", "`DELETE FROM merge_batch_request WHERE batch_id > 0 * ? AND id IN (`"}},
		"guards/a member that vanished stops its settlement", "mysql"},
	{"I2: the count of those who end", []edit{{inSettle, "if err != nil || n != int64(len(chunk)) {\n\t\t\treturn", "if _ = n; err != nil {\n\t\t\treturn"}},
		"guards/a member that vanished stops its settlement", "mysql"},
	{"I2: a cancelled request does not ride", []edit{{inMove, "WHERE id = ? AND operation_id = ? AND batch_id IS NULL`", "WHERE id = ? AND operation_id = ?`"}},
		"guards/a request that was claimed meanwhile is not cancelled", "mysql"},
	{"order: lanes", []edit{{inClaim, "ORDER BY lane, created_at, id LIMIT", "ORDER BY created_at, id LIMIT"}}, "claim/takes the front of the waiting set in order", "sqlite"},
	{"order: first come", []edit{{inClaim, "ORDER BY lane, created_at, id LIMIT", "ORDER BY lane, id DESC LIMIT"}}, "claim/takes the front of the waiting set in order", "sqlite"},
	{"order: strictly before now", []edit{{inClaim, " AND created_at < {now} ORDER BY lane", " ORDER BY lane"}}, "claim/leaves what is admitted at this very instant", "sqlite"},
	{"order: one cohort at a time", []edit{{inClaim, "AND batch_id IS NULL AND cohort = ? AND created_at", "AND batch_id IS NULL AND (cohort = ? OR 1 = 1) AND created_at"}},
		"claim/takes one cohort only", "sqlite"},
	{"order: who returns keeps the time of admission", []edit{{inSettle, "SET batch_id = NULL, cohort = ?", "SET batch_id = NULL, created_at = {now}, cohort = ?"}},
		"settle/sends suspects back to their place as a cohort", "sqlite"},

	{"lock order: operation before binding", []edit{{inMove, "	changes := []change{{op: op,", "	if _, err := t.exec(ctx, `UPDATE binding SET updated_at = updated_at WHERE operation_id = ?`, op.ID); err != nil {\n\t\treturn 0, nil, err\n\t}\n\tchanges := []change{{op: op,"}},
		"race/two paths to operation and binding meet without a deadlock", "mysql"},
	{"lock order: the outbox comes last", []edit{{inSettle, "	if parked {\n\t\tif err := t.tellQueue", "	if parked && false {\n\t\tif err := t.tellQueue"}, {inBatch, "	return n == 1, err\n}\n\n// tellQueue", "	if err == nil && n == 1 {\n\t\terr = t.tellQueue(ctx, queueID)\n\t}\n\treturn n == 1, err\n}\n\n// tellQueue"}},
		"guards/rows are locked in one order", "sqlite"},

	// I3: admissions do not wait.
	{"I3: READ COMMITTED", repeatable, "tx/runs at READ COMMITTED and takes UTC for the clock", "mysql"},
	{"I3: the pin to the primary key", []edit{{inDialect, `"{pinned}", "FORCE INDEX (PRIMARY)"`, `"{pinned}", ""`}}, "claim/and settlement write by primary key", "mysql"},
	{"I3: the pin to the primary key", []edit{{inDialect, `"{pinned}", "NOT INDEXED"`, `"{pinned}", ""`}}, "claim/and settlement write by primary key", "sqlite"},
	{"I3: level and pin", slices.Concat(repeatable, pinnedToOrder, impatient),
		"admission/never waits for an open claim or settlement (I3)", "mysql"},
	{"I3: level and pin, beside an open admission", slices.Concat(repeatable, pinnedToOrder, impatient), "admission/is not waited for by a claim (I3)", "mysql"},
	{"I3: lists are cut into chunks", []edit{{inDialect, "const chunkSize = 500", "const chunkSize = 100_000"}},
		"claim/takes thousands in statements that grow with chunks only", "sqlite"},
	{"I3: statements grow with chunks", []edit{{inDialect, "const chunkSize = 500", "const chunkSize = 25"}},
		"claim/takes thousands in statements that grow with chunks only", "sqlite"},

	// I4: the same operation is admitted once; each command, delivery and errand counts once.
	{"I4: the unique key over the operation", uniqueKeyGone("uk_request_operation"), everyKey, "sqlite"},
	{"I4: a duplicate admission is an answer", []edit{{inApply, "t.insert(ctx, &keyRequestOperation,", "t.insert(ctx, nil,"}}, "guards/a duplicate admission is an answer (I4)", "sqlite"},
	{"a command counts once: its key", []edit{{schemaSQLite, "  PRIMARY KEY (request_id)", "  CHECK (request_id <> '')"}}, everyKey, "sqlite"},
	{"a command counts once: its duplicate ends it", []edit{{inApply, "} else if !fresh {\n\t\t\treturn refuse(bot.ApplyDuplicate)", "} else if !fresh && false {\n\t\t\treturn refuse(bot.ApplyDuplicate)"}},
		"race/one command by many makes one operation (I4)", "mysql"},
	{"a refused command leaves nothing", []edit{{inApply, "outcome = as\n\t\t\treturn errRollback", "outcome = as\n\t\t\treturn nil"}}, "apply/a refused command may still be answered", "sqlite"},
	{"commands in comment order", []edit{{inCommand, "AND (last_command_at < ? OR (", "AND (1 = 1 OR last_command_at < ? OR ("}}, "apply/a command older than the last one is superseded", "sqlite"},
	{"a delivery counts once", uniqueKeyGone("uk_delivery"), everyKey, "sqlite"},
	{"an errand is one row", uniqueKeyGone("uk_outbox"), everyKey, "sqlite"},
	{"an audit entry is written once", uniqueKeyGone("uk_audit"), everyKey, "sqlite"},
	{"a membership event is written once", uniqueKeyGone("uk_member"), everyKey, "sqlite"},
	{"one row per repository", uniqueKeyGone("uk_repository"), everyKey, "sqlite"},
	{"one row per queue", uniqueKeyGone("uk_queue"), everyKey, "sqlite"},
	{"one row per merge request", uniqueKeyGone("uk_merge_request"), everyKey, "sqlite"},

	// I5: one row per merge request and target.
	{"I5: the unique key over subject and target", uniqueKeyGone("uk_binding"), everyKey, "sqlite"},
	{"I5: a duplicate binding is an answer", []edit{{inApply, "t.insert(ctx, &keyBinding,", "t.insert(ctx, nil,"}},
		"apply/another binding in the same instant: answered with the winner's", "mysql"},
	{"I5: the reset's version", []edit{{inApply, "WHERE id = ? AND status = ? AND version = ?`, op.Status", "WHERE id = ? AND status = ? AND version > 0 * ?`, op.Status"}},
		"guards/a re-application loses to a change in between (I5)", "mysql"},
	{"I5: the reset's count", []edit{{inApply, "if err != nil || n != 1 {", "if err != nil || n > 1 {"}},
		"guards/a re-application loses to a change in between (I5)", "mysql"},
	{"I5: the binding's operation_id", []edit{{inEffects, "list(len(rows)) + `) AND operation_id IN (` + list(len(ids)) + `)`", "list(len(rows)) + `) AND (1 = 1 OR operation_id IN (` + list(len(ids)) + `))`"}},
		"claim/drops a stale callback on a binding and counts it", "mysql"},
	{"I5: the binding's status", []edit{{inEffects, "` WHERE status = ? AND id IN (` + list(len(rows))", "` WHERE status > 0 * ? AND id IN (` + list(len(rows))"}},
		"guards/a binding that is elsewhere than its operation stays", "sqlite"},
	{"I5: the count of bindings", []edit{{inEffects, "if n != int64(len(ids)) {\n\t\t\t\tt.store.stale", "if n > int64(len(ids)) {\n\t\t\t\tt.store.stale"}},
		"move/a binding of a later application is left alone", "sqlite"},

	// I6: a stale write fails.
	{"I6: the batch's version", []edit{{inBatch, "WHERE id = ? AND status = ? AND phase = ? AND version = ?`, args...)", "WHERE id = ? AND status = ? AND phase = ? AND version > 0 * ?`, args...)"}},
		"batch/a stale write fails (I6)", "sqlite"},
	{"I6: the batch's phase", []edit{{inBatch, "WHERE id = ? AND status = ? AND phase = ? AND version = ?`, args...)", "WHERE id = ? AND status = ? AND phase > 0 * ? AND version = ?`, args...)"}},
		"batch/a stale write fails (I6)", "sqlite"},
	{"I6: the batch's status", []edit{{inBatch, "WHERE id = ? AND status = ? AND phase = ? AND version = ?`, args...)", "WHERE id = ? AND status > 0 * ? AND phase = ? AND version = ?`, args...)"}},
		"batch/a stale write fails (I6)", "sqlite"},
	{"I6: the batch's version grows", []edit{{inBatch, "`UPDATE merge_batch SET `+set+`, version = version + 1,", "`UPDATE merge_batch SET `+set+`,"}},
		"guards/a round trip of a state is noticed (I6)", "sqlite"},
	{"I6: the operation's version", []edit{{inMove, "if op.Status != m.From || op.Version != m.Version {", "if op.Status != m.From {"}, {inEffects, "statement += ` AND version = ?`", "statement += ` AND version > 0 * ?`"}},
		"move/a stale guard changes nothing", "sqlite"},
	{"I6: the operation's state", []edit{{inEffects, "` WHERE status = ? AND operation_id IN (`", "` WHERE status > 0 * ? AND operation_id IN (`"}},
		"guards/an operation that moved by itself is not claimed", "mysql"},
	{"I6: the operation's version grows", []edit{{inEffects, "detail = ?, version = version + 1, updated_at = {now}`", "detail = ?, updated_at = {now}`"}},
		"guards/a round trip of a state is noticed (I6)", "sqlite"},
	{"I6: a stale settlement stops", []edit{{inSettle, "if err != nil || !ok {\n\t\treturn false, err\n\t}\n\tbatch, _, err := readBatch", "if err != nil {\n\t\treturn false, err\n\t}\n\tbatch, _, err := readBatch"}},
		"settle/happens once", "sqlite"},
	{"I6: a stale settlement undoes its parking", []edit{{inSettle, "err == nil && !ok {\n\t\t\t\treturn errRollback", "err == nil && !ok {\n\t\t\t\treturn nil"}},
		"settle/happens once", "sqlite"},
	{"nothing leaves a batch that is LANDING", []edit{{inMove, " || g.Phase >= bot.PhaseLanding {", " {"}}, "move/nothing leaves a batch that is landing", "sqlite"},
	{"a settlement names every member", []edit{{inSettle, "if len(members) != len(settlement.Members) {", "if len(members) < len(settlement.Members) {"}},
		"settle/wants exactly the members that still ride", "sqlite"},
	{"a freed cohort is read before its members return", []edit{{inSettle, readFreed, ""}, {inSettle, membersLeave, membersLeave + readFreed}},
		"guards/a cohort is freed of who waited, not of who rode", "sqlite"},
	{"a deadline is only ever extended", []edit{{inBatch, "CASE WHEN deadline_at < {later} THEN {later} ELSE deadline_at END", "CASE WHEN 1 = 1 OR deadline_at < {later} THEN {later} ELSE deadline_at END"}},
		"late/a deadline is only ever extended", "sqlite"},
	{"resuming keeps the longer deadline", []edit{{inOperator, "CASE WHEN deadline_at < {later} THEN {later} ELSE deadline_at END", "CASE WHEN 1 = 1 OR deadline_at < {later} THEN {later} ELSE deadline_at END"}},
		"late/resuming a queue keeps the longer deadline", "sqlite"},
	{"a late landing is recorded once", []edit{{inLate, "if !fresh {\n\t\t\treturn errRollback", "if false {\n\t\t\treturn errRollback"}},
		"late/a late landing is recorded once, beside its batch", "sqlite"},
	{"only a batch that is over lands late", []edit{{inLate, "if batch.Status.Active() {", "if false {"}},
		"late/a late landing is recorded once, beside its batch", "sqlite"},

	// The transaction helper.
	{"tx: nothing runs after an unexpected error", []edit{{inTx, "if t.failure != nil {\n\t\treturn nil, t.failure", "if false {\n\t\treturn nil, t.failure"}},
		"tx/nothing runs after a real deadlock", "mysql"},
	{"tx: COMMIT cannot lie after an error", []edit{{inTx, "if tx.failure != nil {\n\t\terr = tx.failure", "if false {\n\t\terr = tx.failure"}},
		"tx/nothing runs after an unexpected error", "sqlite"},
	{"tx: 1213 is run again", []edit{{inErrors, "case 1213,", "case 21213,"}}, "race/a real deadlock ends in a clean outcome", "mysql"},
	{"tx: BUSY is run again", []edit{{inErrors, "primary == 5 || primary == 6", "primary == 6"}}, "tx/a busy database is waited for", "sqlite"},
	{"tx: an unknown COMMIT is not repeated blindly", []edit{{inErrors, "return failed\n\t}\n\treturn ambiguous", "return failed\n\t}\n\treturn retryable"}},
		"tx/an unknown outcome is told when nobody can look", "sqlite"},
	{"tx: an unknown COMMIT is looked at", []edit{{inTx, "if landed {\n\t\t\t\treturn nil\n\t\t\t}", "_ = landed"}},
		"tx/an unknown outcome is looked at before trying again", "sqlite"},
	{"tx: work runs in a transaction that can be undone", []edit{{inTx, "if err = s.seam(\"COMMIT\", nil); err != nil {\n\t\ttx.rollback()", "if err = s.seam(\"COMMIT\", nil); err != nil {\n\t\t_ = tx.commit()"}},
		"claim/leaves no trace when any step fails", "sqlite"},
	{"tx: a named duplicate only", []edit{{inErrors, "strings.Contains(e.Error(), \"failed: \"+key.columns+\" (\")", "strings.Contains(e.Error(), \"failed: \")"}},
		"guards/a duplicate of another key is an error", "sqlite"},

	{"tx: no try without an end", []edit{{inTx, "ctx, cancel := context.WithTimeout(ctx, s.limit)\n\tdefer cancel()\n\ttx, err := s.begin(ctx)", "ctx, cancel := context.WithCancel(ctx)\n\tdefer cancel()\n\ttx, err := s.begin(ctx)"}},
		"tx/nothing waits for a connection without end", "sqlite"},

	// Connections.
	{"session: clientFoundRows", []edit{{inMySQL, "cfg.ClientFoundRows = true", "cfg.ClientFoundRows = false"}}, "guards/a write that changes nothing has met its row", "mysql"},
	{"session: UTC", []edit{{inMySQL, `"'+00:00'"`, `"'+02:00'"`}}, "TestMySQLSessions", "mysql"},
	{"session: strict SQL mode", []edit{{inMySQL, `"'TRADITIONAL'"`, `"''"`}}, "guards/what does not fit is refused, not cut", "mysql"},
	{"server: a replica is refused", []edit{{inMySQL, `value != "OFF" && (known || name == "read_only")`, `value == "?" && known`}}, "TestRefusesServersThatCannotKeepTheInvariants", "mysql"},
	{"server: a group with several primaries is refused", []edit{{inMySQL, `settings[singlePrimary] == "OFF"`, `settings[singlePrimary] == "?"`}}, "TestRefusesServersThatCannotKeepTheInvariants", "mysql"},
	{"server: without InnoDB it is refused", []edit{{inMySQL, `settings["InnoDB"] != "DEFAULT" && settings["InnoDB"] != "YES"`, `settings["InnoDB"] == "?"`}}, "TestRefusesServersThatCannotKeepTheInvariants", "mysql"},
	{"server: the isolation level is proven", []edit{{inMySQL, "WHERE request_id = ? {lock}`", "WHERE request_id = ?`"}}, "TestRefusesWhereTheIsolationLevelGetsLost", "mysql"},
	{"server: tables without transactions are refused", []edit{{inDB, "engine <> 'InnoDB' ORDER BY", "engine = '?' ORDER BY"}}, "TestRefusesTablesWithoutTransactions", "mysql"},
	{"schema: a later unknown one is refused", []edit{{inDB, "version.Int64 > schema.Version+1:", "version.Int64 > schema.Version+1000:"}}, "schema/a schema one step newer fits, a later does not", "sqlite"},

	// Leases and locks.
	{"lease: the attempts that were read", []edit{{inDelivery, "WHERE id = ? AND status = ? AND attempts = ?`, micros(lease)", "WHERE id = ? AND status = ? AND attempts >= 0 * ?`, micros(lease)"}},
		"race/no delivery is taken by two", "mysql"},
	{"lease: only its holder finishes a delivery", []edit{{inDelivery, "WHERE id = ? AND status = ? AND attempts = ?`,\n\t\t\toutcome.Status", "WHERE id = ? AND status = ? AND attempts >= 0 * ?`,\n\t\t\toutcome.Status"}},
		"delivery/who lost it cannot finish it", "sqlite"},
	{"lease: a new wish keeps an errand due", []edit{{inOutbox, "updated_at = {now} WHERE id = ? AND wanted = ?`", "updated_at = {now} WHERE id = ? AND wanted >= 0 * ?`"}},
		"outbox/wanted again while it is done, it stays due", "sqlite"},
	{"lease: a new wish leaves a held errand alone", []edit{{inEffects, "next_attempt_at = CASE WHEN status = 1 THEN next_attempt_at ELSE {later} END", "next_attempt_at = {later}"}},
		"outbox/wanted again while it is done, nobody starts beside", "sqlite"},
	{"lease: only what was given up is tried again", []edit{{inReconcile, "WHERE id = ? AND status = ?`, errandDue, id, errandGivenUp)", "WHERE id = ? AND status > 0 * ?`, errandDue, id, errandGivenUp)"}},
		"TestErrandsThatWereGivenUpAreTriedAgainWhenAsked", "sqlite"},
	{"lease: only a failed delivery is tried again", []edit{{inReconcile, "WHERE id = ? AND status = ? AND attempts = ? AND payload", "WHERE id = ? AND status > 0 * ? AND attempts = ? AND payload"}},
		"TestDeliveriesThatFailedAreTriedAgainWhenAsked", "sqlite"},
	{"lease: a purged delivery is not tried again", []edit{{inReconcile, " AND payload IS NOT NULL`", "`"}}, "TestDeliveriesThatFailedAreTriedAgainWhenAsked", "sqlite"},
	{"advisory lock: the map before the session", []edit{{inLock, "if l.held[name] != nil {", "if false {"}}, "lock/one holder at a time, whoever asks", "mysql"},
	{"advisory lock: a lost one is not released", []edit{{inLock, "if l.held[name] != holder {", "if false {"}}, "guards/a lost lock is not released on its successor", "mysql"},
	{"advisory lock: who lost it is told", []edit{{inLock, "if err != nil || !ours.Bool {", "if err != nil && false {"}}, "lock/who lost it is told", "mysql"},
	{"advisory lock: a caller that ends leaves the session alone", []edit{{inLock, "context.WithTimeout(context.WithoutCancel(ctx), lockTime)", "context.WithTimeout(ctx, lockTime)"}},
		"lock/one caller's end costs no other caller's lock", "mysql"},
	{"advisory lock: a transaction's is freed with it", []edit{{inLock, "} else if t.unsure || !releaseOn(t.conn, key) {", "} else if false {"}}, "lock/of a transaction: free after any end", "mysql"},
	{"advisory lock: a transaction's is its first act", []edit{{inLock, "case t.begun:", "case false:"}}, "lock/of a transaction: refused outside and in its middle", "sqlite"},
	{"retention: by the database's clock", []edit{{inPurge, "age := micros(s.keep.Deliveries)", "age := micros(0)"}},
		"purge/payloads go after a week, keys after three months", "sqlite"},

	{"retention: only what is done", []edit{{inPurge, "`SELECT id FROM outbox WHERE status = ? AND", "`SELECT id FROM outbox WHERE status > 0 * ? AND"}, {inPurge, "`DELETE FROM outbox WHERE status = ? AND", "`DELETE FROM outbox WHERE status > 0 * ? AND"}},
		"purge/errands that are done go after a week", "sqlite"},

	{"retention: an API request as long as its key", []edit{{inPurge, "`SELECT request_id FROM api_request WHERE expires_at < {now} ORDER", "`SELECT request_id FROM api_request WHERE expires_at > 0 ORDER"}, {inPurge, "`DELETE FROM api_request WHERE expires_at < {now} AND", "`DELETE FROM api_request WHERE expires_at > 0 AND"}},
		"purge/API requests are remembered up to their time", "sqlite"},
	{"API: what outlived its key is in nobody's way", []edit{{inCommand, "`DELETE FROM api_request WHERE request_id = ?`", "`DELETE FROM api_request WHERE request_id = ? AND 1 = 0`"}},
		"purge/API requests are remembered up to their time", "sqlite"},

	{"retention: reminders are known for as long as they may be said", []edit{{inPurge, "AND kind `+kept.kinds+` ?", "AND kind > 0 * ?"}},
		"remind/what was said is known for as long as it may be said again", "sqlite"},

	// Jobs and reminders.
	{"job: a tick is taken once", []edit{{inJob, "started_by = ?,\n\t\t\ttick_at = {now}, version = version + 1, updated_at = {now} WHERE name = ? AND version = ?`", "started_by = ?,\n\t\t\ttick_at = {now}, version = version + 1, updated_at = {now} WHERE name = ? AND version >= 0 * ?`"}},
		"job/a tick is taken once, by however many", "sqlite"},
	{"job: the first tick is taken once", []edit{{inJob, "tx.insert(ctx, &keyJobRun,", "tx.insert(ctx, nil,"}},
		"job/a tick is taken once, by however many", "sqlite"},
	{"job: a tick is skipped once", []edit{{inJob, "skipped = skipped + 1, tick_at = {now}, version = version + 1, updated_at = {now}\n\t\t\tWHERE name = ? AND version = ?`", "skipped = skipped + 1, tick_at = {now}, version = version + 1, updated_at = {now}\n\t\t\tWHERE name = ? AND version >= 0 * ?`"}},
		"job/a run is started, skipped beside, and ended", "sqlite"},
	{"job: only the last run ends", []edit{{inJob, "WHERE name = ? AND runs = ? AND ended_at IS NULL`", "WHERE name = ? AND runs >= 0 * ? AND ended_at IS NULL`"}},
		"job/a run that is not the last any more ends nothing", "sqlite"},
	{"job: a run ends once", []edit{{inJob, "runs = ? AND ended_at IS NULL`", "runs = ?`"}}, "job/a run is started, skipped beside, and ended", "sqlite"},
	{"reminder: a duplicate is an answer", []edit{{inRemind, "tx.insert(ctx, &keyOutbox, insertErrand+errandRow, row...)", "tx.insert(ctx, nil, insertErrand+errandRow, row...)"}},
		"remind/one reminder is taken once, by however many", "sqlite"},
	{"reminder: by how the state was entered", []edit{{inRemind, " AND (e.from_status IS NULL OR e.from_status <> e.to_status))", ")"}},
		"remind/a state is counted from when it was entered, by any way", "sqlite"},
	{"reminder: nobody who holds a seat", []edit{{inRemind, "AND NOT EXISTS (SELECT 1 FROM train_seat t WHERE t.live_operation = o.operation_id) AND", "AND"}},
		"remind/no draft, and nobody who holds a seat on a train", "sqlite"},
	{"reminder: a batch is blocked since it became so", []edit{{inBatch, "change.Status == bot.BatchBlocked && guard.Status != bot.BatchBlocked {", "change.Status == bot.BatchBlocked {"}},
		"remind/the members of a blocked batch", "sqlite"},

	// Trains.
	{"train: its row is taken first", []edit{{inTrain, "FROM train t WHERE t.id = ? {lock}`", "FROM train t WHERE t.id = ?`"}}, "train/who joins waits for who is joining the same train", "mysql"},
	{"train: one of a name is open", []edit{{schemaLater, "CREATE UNIQUE INDEX uk_train_open", "CREATE INDEX uk_train_open"}}, "train/the tables refuse what no train may be", "sqlite"},
	{"train: a duplicate is an answer", []edit{{inTrain, "t.insert(ctx, &keyOpenTrain,", "t.insert(ctx, nil,"}}, "trainrace/many open the same train", "mysql"},
	{"train: one live seat of an application", []edit{{schemaLater, "CREATE UNIQUE INDEX uk_seat_live", "CREATE INDEX uk_seat_live"}}, "train/the tables refuse what no train may be", "sqlite"},
	{"train: one seat of a merge request", []edit{{schemaLater, "CREATE UNIQUE INDEX uk_seat_subject", "CREATE INDEX uk_seat_subject"}}, "train/the tables refuse what no train may be", "sqlite"},
	{"train: one place in line each", []edit{{schemaLater, "CREATE UNIQUE INDEX uk_seat_seq", "CREATE INDEX uk_seat_seq"}}, "train/the tables refuse what no train may be", "sqlite"},
	{"train: the counter within what is in force", []edit{{schemaLater, " AND confirmed_count <= capacity)", ")"}}, "train/the tables refuse what no train may be", "sqlite"},
	{"train: the application's version when it is seated", []edit{{inBoard, "joined = []change{{op: op, version: op.Version, to:", "joined = []change{{op: op, to:"}}, "train/one application takes one of two seats", "mysql"},
	{"train: a seat while one is free", []edit{{inBoard, "if train.Confirmed < train.Seats {", "if train.Confirmed <= train.Seats {"}}, "train/one seat: who leaves is followed by the first in line", "sqlite"},
	{"train: who joins again goes to the tail", []edit{{inBoard, "approved = ?, queue_seq = ?, version", "approved = ?, queue_seq = queue_seq + 0 * ?, version"}}, "train/one seat: who leaves is followed by the first in line", "sqlite"},
	{"train: who leaves is followed in the same transaction", []edit{{inBoard, "if promoted, changes, err = t.fill(ctx, &train); err != nil {", "if err != nil {"}}, "train/closing, pushing and expiring give the seat up", "sqlite"},
	{"train: the head of the line first", []edit{{inSeat, "ORDER BY s.queue_seq LIMIT ?`", "ORDER BY s.queue_seq DESC LIMIT ?`"}}, "trainrace/sixty-four join and leave at once, and nobody is skipped", "sqlite"},
	{"train: nobody is promoted beyond the seats wanted", []edit{{inSeat, "free := train.Seats - train.Confirmed", "free := train.Capacity - train.Confirmed"}}, "train/more seats promote in order, fewer take nobody's", "sqlite"},
	{"train: who has a seat is admitted by its departure only", []edit{{inMove, "if err != nil || seated && m.To == bot.OperationWaiting || ", "if err != nil || "}}, "train/approval of a seated operation admits nobody", "sqlite"},
	{"train: boarding ends", []edit{{inBoard, "if train.Closed {", "if false {"}}, "train/boarding ends", "sqlite"},
	{"train: departs once, and not before", []edit{{inDepart, "if !train.Due {", "if false {"}}, "depart/waits until it is due, and is done once", "sqlite"},
	{"train: departs with what was looked at", []edit{{inDepart, "if ok && stands(ops[i].op, version) &&", "if _ = version; ok &&"}}, "depart/passes over what changed since it was looked at", "sqlite"},
	{"train: a seat too many departs empty", []edit{{inDepart, "|| len(goes) < train.Seats)", "|| len(goes) < train.Capacity)"}}, "depart/a seat too many is given to nobody", "sqlite"},
	{"train: who is carried over keeps the key of the seat", slices.Concat(impatient, []edit{
		{inDepart, "live_operation IN (`+list(len(chunk))+`)`,\n\t\t\tappend(", "operation_id IN (`+list(len(chunk))+`)`,\n\t\t\tappend("},
		{inDepart, "	for chunk := range slices.Chunk(operations, chunkSize) {\n\t\tn, err :=", "	for chunk := range slices.Chunk(operations, chunkSize) {\n\t\tif _, err := t.exec(ctx, `UPDATE train_seat SET status = 3 WHERE train_id = ? AND operation_id IN (`+list(len(chunk))+`)`, append([]any{from.ID}, anys(chunk)...)...); err != nil {\n\t\t\treturn 0, nil, err\n\t\t}\n\t\tn, err :="},
	}), "train/delays nobody but who wants the same train (I3)", "mysql"},
	{"train: statements grow with chunks", []edit{{inDialect, "const chunkSize = 500", "const chunkSize = 25"}}, "depart/with a thousand seats in statements that grow with chunks", "sqlite"},
	{"train: a join is found after a lost commit", []edit{{inBoard, "WHERE dedupe_key = ? AND action = ?", "WHERE 1 = 0 AND dedupe_key = ? AND action = ?"}}, "train/is found again after a lost commit", "sqlite"},
	{"train: a departure is found after a lost commit", []edit{{inDepart, "WHERE dedupe_key = ? AND detail = ?", "WHERE 1 = 0 AND dedupe_key = ? AND detail = ?"}}, "train/is found again after a lost commit", "sqlite"},
	{"index: the line", []edit{{schemaLater, "CREATE INDEX idx_seat_line ON train_seat (train_id, status, queue_seq)", "CREATE INDEX idx_seat_line ON train_seat (approved)"}}, "depart/every statement is answered by an index", "sqlite"},
	{"index: what departs", []edit{{schemaLater, "CREATE INDEX idx_train_departure ON train (status, departs_at)", "CREATE INDEX idx_train_departure ON train (name)"}}, "depart/every statement is answered by an index", "sqlite"},

	// Curated batches.
	{"curated: the header's row is taken first", []edit{{inCurated, "WHERE id = ? {lock}`", "WHERE id = ?`"}}, "curated/a save waits for the save under way", "mysql"},
	{"curated: a cancel waits for the approval", []edit{{inCurated, "WHERE id = ? {lock}`", "WHERE id = ?`"}}, "curated/a cancel waits for the approval under way", "mysql"},
	{"curated: rows are updated in place", []edit{{inSave, "\t\tcase was.Number != r.Number:\n\t\t\tother = append(other, bot.CuratedRow{ID: was.ID, Number: r.Number})", "\t\tcase was.Number != r.Number:\n\t\t\tthere[-r.RowNo], fresh = was, append(fresh, r)"}}, "curated/a save is a difference keyed on the row number", "sqlite"},
	{"curated: absence deletes", []edit{{inSave, "\t\tabsent = append(absent, r.ID)", "\t\t_ = r"}}, "curated/a save is a difference keyed on the row number", "sqlite"},
	{"curated: a row has a number", []edit{{inRows, "if r.RowNo < 1 || r.RowNo > maxRowNo {", "if r.RowNo < 0 || r.RowNo > maxRowNo {"}}, "curated/a row number that is none is refused and named", "sqlite"},
	{"curated: no row number twice", []edit{{inRows, "twice := seen[r.RowNo]; twice {", "twice := seen[r.RowNo]; twice && false {"}}, "curated/a row number that is none is refused and named", "sqlite"},
	{"curated: the unique key over the row number", []edit{{schemaLater, "CREATE UNIQUE INDEX uk_draft_row", "CREATE INDEX uk_draft_row"}}, "curated/the unique key over the row number holds", "sqlite"},
	{"curated: the unique key over the committed row number", []edit{{schemaLater, "CREATE UNIQUE INDEX uk_curated_row", "CREATE INDEX uk_curated_row"}}, "curated/the unique key over the row number holds", "sqlite"},
	{"curated: row numbers begin at 1", []edit{{schemaLater, "CONSTRAINT ck_draft_row CHECK (row_no >= 1)", "CONSTRAINT ck_draft_row CHECK (row_no >= 0)"}}, "curated/the unique key over the row number holds", "sqlite"},
	{"curated: a save holds its version", []edit{{inSave, "case save.Version != 0 && save.Version != set.Version:", "case false:"}}, "curated/a save at an older version is told so", "sqlite"},
	{"curated: one set of a merge request", []edit{{schemaLaterM, "UNIQUE KEY uk_curated_live", "KEY uk_curated_live"}}, "curated/two drafts on one merge request become one set", "mysql"},
	{"curated: a duplicate set is an answer", []edit{{inSave, "t.insert(ctx, &keyLiveCurated,", "t.insert(ctx, nil,"}}, "curated/two drafts on one merge request become one set", "mysql"},
	{"curated: submitted from DRAFT only", []edit{{inDecide, "WHERE id = ? AND status = ? AND version = ?`, bot.CuratedPendingApproval,", "WHERE id = ? AND status > 0 * ? AND version = ?`, bot.CuratedPendingApproval,"}}, "curated/changed and submitted already are two answers", "sqlite"},
	{"curated: submitted at the version that was checked", []edit{{inDecide, "WHERE id = ? AND status = ? AND version = ?`, bot.CuratedPendingApproval,", "WHERE id = ? AND status = ? AND version >= 0 * ?`, bot.CuratedPendingApproval,"}}, "curated/changed and submitted already are two answers", "sqlite"},
	{"curated: changed is not submitted already", []edit{{inDecide, "return bot.Curated{}, refuseSet(bot.CuratedChanged)\n\t\tcase bot.CuratedPendingApproval:", "return bot.Curated{}, refuseSet(bot.CuratedAlreadySubmitted)\n\t\tcase bot.CuratedPendingApproval:"}}, "curated/changed and submitted already are two answers", "sqlite"},
	{"curated: a duplicate submission is rejected", []edit{{inDecide, "\t\treturn bot.Curated{}, refuseSet(bot.CuratedAlreadySubmitted)\n\t\t}", "\t\treturn set, nil\n\t\t}"}}, "curated/of many submissions one is written", "sqlite"},
	{"curated: what is refused is undone", []edit{{inCurated, "\t\t\treturn errRollback\n", "\t\t\treturn nil\n"}}, "curated/a busy member is named and nothing is written", "sqlite"},
	{"curated: draft rows win", []edit{{inCurated, ", 1, COALESCE(d.id, 0),", ", 3, COALESCE(d.id, 0),"}}, "curated/draft rows win over committed ones", "sqlite"},
	{"curated: what was emptied stays empty", []edit{{inSave, "\tif len(rows) == 0 {", "\tif len(rows) < 0 {"}}, "curated/an emptied draft does not show what was committed", "sqlite"},
	{"curated: an earlier submission is stale", []edit{{inDecide, "[]string{\"curated_row\", \"draft_row\"}", "[]string{\"draft_row\"}"}}, "curated/draft rows win over committed ones", "sqlite"},
	{"curated: approved once", []edit{{inDecide, "\tswitch set.Status {\n\tcase bot.CuratedPendingApproval:\n\tcase bot.CuratedDraft:", "\tswitch set.Status {\n\tcase bot.CuratedPendingApproval, bot.CuratedApproved:\n\tcase bot.CuratedDraft:"}}, "curated/a second approval is refused by status and version", "sqlite"},
	{"curated: decided at the version that was checked", []edit{{inDecide, "if d.Version != 0 && d.Version != set.Version {", "if false {"}}, "curated/a decision comes at its time only", "sqlite"},
	{"curated: who holds a seat is no member", []edit{{inAdmit, "case seated[m.current.ID]:", "case false:"}}, "curated/a busy member is named and nothing is written", "sqlite"},
	{"curated: who waits by itself is no member", []edit{{inAdmit, "\t\tcase bot.ReapplyActive:", "\t\tcase 0:"}}, "curated/a busy member is named and nothing is written", "sqlite"},
	{"curated: a takeover holds its version", []edit{{inAdmit, "change{op: m.current, version: m.current.Version,", "change{op: m.current,"}}, "curated/a member that changed meanwhile is not taken over", "mysql"},
	{"curated: admitted as one cohort", []edit{{inAdmit, "lane, set.Cohort()})", "lane, 0})"}}, "curated/rides whole beside others", "sqlite"},
	{"curated: rides whole", []edit{{inClaim, "return n == members, err", "return n <= members, err"}}, "curated/rides whole beside others", "sqlite"},
	{"curated: no limit but its size", []edit{{inClaim, "limit = bot.MaxCurated", "limit = spec.Limit"}}, "curated/rides whole beside others", "sqlite"},
	{"curated: who leaves takes the others out", []edit{{inMove, "if others, err = t.othersOf(ctx, set, op); err != nil {", "if _, err = t.othersOf(ctx, set, op); err != nil {"}}, "curated/who leaves the waiting set takes the others out", "sqlite"},
	{"curated: who leaves its batch takes the others out", []edit{{inMove, "if others, err = t.othersOf(ctx, set, op); err != nil {", "if _, err = t.othersOf(ctx, set, op); err != nil {"}}, "curated/who leaves the batch takes the others out", "sqlite"},
	{"curated: nobody of a broken set waits by itself", []edit{{inTogether, "case bot.OperationPendingApproval, bot.OperationWaiting, bot.OperationFailed:", "case bot.OperationFailed:"}}, "curated/who leaves the waiting set takes the others out", "sqlite"},
	{"curated: nobody of it awaits a retry", []edit{{inTogether, "case bot.OperationPendingApproval, bot.OperationWaiting, bot.OperationFailed:", "case bot.OperationPendingApproval, bot.OperationWaiting:"}}, "curated/red for good it is rejected as a whole", "sqlite"},
	{"curated: the others hold their versions", []edit{{inTogether, "change{op: o, version: o.Version, to:", "change{op: o, to:"}}, "curated/a member that moved by itself stops the others", "mysql"},
	{"curated: who is lost in a build takes the others out", []edit{{inSettle, "moves, _, why = setOutcomes(batch,", "_, _, why = setOutcomes(batch,"}}, "curated/who is lost in a build takes the others out", "sqlite"},
	{"curated: never suspects of a search", []edit{{inTogether, "\t\t\to.Cohort = batch.Cohort\n", "\t\t\to.Cohort += 0\n"}}, "curated/returns as the cohort it is", "sqlite"},
	{"curated: landed in part is no landing", []edit{{inTogether, "case over && landed == len(members):", "case over && landed > 0:"}}, "curated/part of it in the target is no landing", "sqlite"},
	{"curated: landing ends it", []edit{{inSettle, "\tif to != bot.CuratedApproved {", "\tif to == bot.CuratedRejected {"}}, "curated/landing ends it", "sqlite"},
	{"curated: is found again after a lost commit", []edit{{inDecide, "`SELECT 1 FROM audit WHERE dedupe_key = ?", "`SELECT 1 FROM audit WHERE 1 = 0 AND dedupe_key = ?"}}, "curated/is found again after a lost commit", "sqlite"},
	{"curated: statements grow with chunks", []edit{{inDialect, "const chunkSize = 500", "const chunkSize = 25"}}, "curated/an approval of five hundred takes few statements", "sqlite"},

	// Indexes.
	{"index: the waiting order", []edit{{schemaSQLite, "CREATE INDEX idx_request_order ON merge_batch_request (queue_id, batch_id, lane, created_at, id)", "CREATE INDEX idx_request_order ON merge_batch_request (lane)"}},
		"plans/no statement of an ordinary day reads a whole table", "sqlite"},
	{"index: what is due", []edit{{schemaSQLite, "CREATE INDEX idx_delivery_due ON delivery (status, next_attempt_at)", "CREATE INDEX idx_delivery_due ON delivery (event)"}},
		"plans/no statement of an ordinary day reads a whole table", "sqlite"},
}
