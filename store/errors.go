package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net"
	"strings"

	"github.com/go-sql-driver/mysql"
	"modernc.org/sqlite"

	"github.com/batchbot/batchbot/bot"
)

// ErrAmbiguous says that the connection was lost at COMMIT: the transaction may have taken effect or not. Read before trying again.
var ErrAmbiguous = errors.New("the outcome of a database transaction is unknown")

// ErrMissing says that a row somebody named does not exist.
var ErrMissing error = missingRow{}

// missingRow is also bot.ErrNotFound to who reads through a port and does not know of the store.
type missingRow struct{}

func (missingRow) Error() string        { return "not found" }
func (missingRow) Is(target error) bool { return target == bot.ErrNotFound }

// uniqueKey is a unique key by its two names: MySQL reports the key, SQLite the columns.
type uniqueKey struct{ name, columns string }

var (
	keyRepository       = uniqueKey{"uk_repository", "repository.host, repository.external_id"}
	keyQueue            = uniqueKey{"uk_queue", "queue.repository_id, queue.target_branch"}
	keyMergeRequest     = uniqueKey{"uk_merge_request", "merge_request.repository_id, merge_request.number"}
	keyBinding          = uniqueKey{"uk_binding", "binding.subject_id, binding.target_key"}
	keyRequestOperation = uniqueKey{"uk_request_operation", "merge_batch_request.operation_id"}
	keyActiveBatch      = uniqueKey{"uk_batch_active", "merge_batch.active_slot"}
	keyAudit            = uniqueKey{"uk_audit", "audit.dedupe_key"}
	keyIdempotency      = uniqueKey{"PRIMARY", "idempotency.request_id"}
	keyDelivery         = uniqueKey{"uk_delivery", "delivery.host, delivery.delivery_key"}
	keyOutbox           = uniqueKey{"uk_outbox", "outbox.kind, outbox.target"}
	keyOpenTrain        = uniqueKey{"uk_train_open", "train.queue_id, train.open_name"}
	keyJobRun           = uniqueKey{"PRIMARY", "job_run.name"}
	keyLiveCurated      = uniqueKey{"uk_curated_live", "approval_request.live_mr"}
)

// isDuplicate reports whether err is a violation of exactly this key.
func isDuplicate(err error, key uniqueKey) bool {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		// MySQL puts the table's name before the key's, MariaDB does not.
		return e.Number == 1062 && (strings.HasSuffix(e.Message, "."+key.name+"'") || strings.HasSuffix(e.Message, "'"+key.name+"'"))
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return (e.Code() == 2067 || e.Code() == 1555) && strings.Contains(e.Error(), "failed: "+key.columns+" (")
	}
	return false
}

// isNoTable reports whether a statement named a table that does not exist.
func isNoTable(err error) bool {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number == 1146
	}
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && strings.Contains(e.Error(), "no such table")
}

// failure says what to do about a failed transaction.
type failure int

const (
	failed    failure = iota + 1 // nothing took effect, and trying again would fail again
	retryable                    // nothing took effect; the whole transaction may be run again
	ambiguous                    // it may have taken effect: look first
)

// classify judges an error of a statement inside an open transaction. A transaction whose connection is lost is rolled back by the
// server, so there the outcome is known.
func classify(err error) failure {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return failed
	}
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		switch e.Number {
		case 1213, // deadlock, or a conflict between nodes
			1205,             // lock wait timeout: only the statement is undone, the helper rolls back the rest
			1020,             // MariaDB: the row changed since the snapshot
			3101,             // group replication: certification lost
			1040, 1203, 1226, // too many connections, of all and of this user
			1047,                   // Galera: this node is outside the primary component
			1053,                   // the server is shutting down
			1927,                   // MariaDB: the connection was killed
			3058,                   // a deadlock among advisory locks
			3100,                   // group replication: no majority to commit with
			4031,                   // the server closed an idle connection
			2002, 2003, 2006, 2013, // a proxy's words for a server that it cannot reach or has lost
			9001: // ProxySQL: no server within its patience
			return retryable
		}
		return failed
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		if primary := e.Code() & 0xff; primary == 5 || primary == 6 { // BUSY, LOCKED
			return retryable
		}
		return failed
	}
	if lostConnection(err) || refused(err) {
		return retryable
	}
	return failed
}

// classifyCommit judges an error of COMMIT itself, where a lost connection leaves the outcome open.
func classifyCommit(ctx context.Context, err error) failure {
	if errors.Is(err, sql.ErrTxDone) || (ctx.Err() != nil && errors.Is(err, ctx.Err())) {
		return failed // database/sql gave up before COMMIT was sent and rolled back
	}
	if _, ok := errors.AsType[*sqlite.Error](err); ok {
		return classify(err)
	}
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		switch e.Number {
		case 1020, 1040, 1205, 1213: // rolled back for certain
			return retryable
		case 1180, // a conflict between nodes, or a majority lost in the middle
			1317: // interrupted while it waited for the other nodes
			return ambiguous
		}
		if classify(err) == retryable {
			return ambiguous // 3101 too: a node that is thrown out of its group says it of what the others may have accepted
		}
		return failed
	}
	return ambiguous
}

func lostConnection(err error) bool {
	return errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, driver.ErrBadConn)
}

// refused reports that nobody listened at the address, as a proxy lets its clients know that there is no primary. A connection attempt
// that timed out is not one: it has used up its caller's patience already.
func refused(err error) bool {
	e, ok := errors.AsType[*net.OpError](err)
	return ok && e.Op == "dial" && !e.Timeout()
}
