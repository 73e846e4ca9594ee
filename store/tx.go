package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/batchbot/batchbot/bot/fault"
)

// source is what a read can run on: the store itself, or a transaction.
type source interface {
	// each runs a query and hands every row to read, which scans it.
	each(ctx context.Context, query string, args []any, read func(scan scan) error) error
}

// scan copies the columns of the current row.
type scan func(dest ...any) error

// one reads at most one row; found is false when there is none.
func one(ctx context.Context, from source, query string, args []any, dest ...any) (found bool, err error) {
	err = from.each(ctx, query, args, func(scan scan) error {
		if found {
			return errors.New("more than one row where one was expected")
		}
		found = true
		return scan(dest...)
	})
	return found, err
}

// errRollback makes a transaction function undo what it did without that being a failure: it decided against it.
var errRollback = errors.New("rolled back on purpose")

// job is one transaction.
type job struct {
	name string // what is being done to which thing, for errors
	// run does the work. It may be called several times, each time on a fresh transaction, so it sets its results anew. errRollback ends
	// the transaction without effect and without error.
	run func(tx *tx) error
	// landed looks, outside any transaction, whether run took effect after all, when the connection was lost at COMMIT. Nil: nobody can
	// tell, the caller gets ErrAmbiguous.
	landed func(ctx context.Context) (bool, error)
	// point is the write point this is; most transactions are none.
	point fault.Write
}

const (
	maxTries  = 12
	firstWait = 4 * time.Millisecond
	lastWait  = 400 * time.Millisecond

	// The longest that one read or one try of a transaction takes, waiting for a connection included. It is far beyond what any of them
	// needs: a statement alone has the time-outs of its connection.
	timeLimit = 2 * time.Minute
)

// write runs a job in one transaction at READ COMMITTED and runs it again as a whole, with jitter, when the database asks for that.
func (s *Store) write(ctx context.Context, j job) error {
	wait := firstWait
	for try := 1; ; try++ {
		outcome, err := s.attempt(ctx, j)
		if err == nil {
			return nil
		}
		err = fmt.Errorf("%s: %w", j.name, err)
		if outcome == ambiguous {
			if j.landed == nil {
				return errors.Join(ErrAmbiguous, err)
			}
			landed, lookErr := j.landed(ctx)
			if lookErr != nil {
				return errors.Join(ErrAmbiguous, err, lookErr)
			}
			if landed {
				return nil
			}
			outcome = retryable
		}
		if outcome != retryable || try == maxTries {
			return err
		}
		s.retries.Add(1)
		if !pause(ctx, wait/2+rand.N(wait)) {
			return err
		}
		wait = min(2*wait, lastWait)
	}
}

// begin opens a transaction at READ COMMITTED. The level is named each time: a default could be somebody else's.
func (s *Store) begin(ctx context.Context) (*tx, error) {
	conn, err := s.writer.Conn(ctx)
	if err != nil {
		return nil, err
	}
	sqlTx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &tx{sql: sqlTx, conn: conn, store: s}, nil
}

// attempt runs a job once.
func (s *Store) attempt(ctx context.Context, j job) (failure, error) {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	tx, err := s.begin(ctx)
	if err != nil {
		return classify(err), fmt.Errorf("begin: %w", err)
	}
	defer tx.close()
	err = j.run(tx)
	if tx.failure != nil {
		err = tx.failure // whatever run made of it
	}
	if err != nil {
		tx.rollback()
		if errors.Is(err, errRollback) && tx.failure == nil {
			return 0, nil
		}
		return classify(err), err
	}
	fault.Before(j.point)
	if err = s.seam("COMMIT", nil); err != nil {
		tx.rollback()
	} else if err = tx.commit(); err == nil {
		fault.After(j.point)
		err = s.seam("after COMMIT", nil)
	}
	if err != nil {
		if errors.Is(err, sql.ErrTxDone) && ctx.Err() != nil {
			err = ctx.Err() // database/sql saw the context end before us and rolled back
		}
		return classifyCommit(ctx, err), fmt.Errorf("commit: %w", err)
	}
	return 0, nil
}

// pause waits for d; false means ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// tx is an open transaction. After the first error that the caller has not named as expected it executes nothing any more: after a
// deadlock the server has ended the transaction, and further statements of the same sql.Tx would commit one by one.
type tx struct {
	sql     *sql.Tx
	conn    *sql.Conn
	store   *Store
	failure error

	begun  bool     // it has run a statement
	ended  bool     // by COMMIT or ROLLBACK, whatever came of it
	locks  []string // advisory locks of the connection's session, see lockTx
	unsure bool     // whether the session has ended the transaction is not known
}

// rollback ends the transaction without effect. The server may be gone or have rolled back already, or the context's end is just about to; either
// way nothing of this transaction stays.
func (t *tx) rollback() {
	t.ended = true
	t.unsure = t.sql.Rollback() != nil
}

func (t *tx) commit() error {
	t.ended = true
	err := t.sql.Commit()
	t.unsure = err != nil
	return err
}

// seam lets a test see a statement, or fail or hold its transaction there.
func (s *Store) seam(statement string, args []any) error {
	if s.intercept == nil {
		return nil
	}
	return s.intercept(statement, args)
}

// exec runs one statement and returns how many rows its WHERE clause met.
func (t *tx) exec(ctx context.Context, statement string, args ...any) (int64, error) {
	result, err := t.run(ctx, statement, args)
	if err != nil {
		return 0, t.fail(err)
	}
	n, err := result.RowsAffected()
	if err != nil {
		return 0, t.fail(err)
	}
	return n, nil
}

// insert inserts one row and returns its id. A duplicate of expected is an answer: fresh is false and the transaction lives on. Without
// expected every error ends it.
func (t *tx) insert(ctx context.Context, expected *uniqueKey, statement string, args ...any) (id int64, fresh bool, err error) {
	result, err := t.run(ctx, statement, args)
	if err != nil {
		if t.failure == nil && expected != nil && isDuplicate(err, *expected) {
			return 0, false, nil
		}
		return 0, false, t.fail(err)
	}
	id, err = result.LastInsertId()
	if err != nil {
		return 0, false, t.fail(err)
	}
	return id, true, nil
}

func (t *tx) run(ctx context.Context, statement string, args []any) (sql.Result, error) {
	if t.failure != nil {
		return nil, t.failure
	}
	t.begun = true
	statement = t.store.dialect.sql(statement)
	if err := t.store.seam(statement, args); err != nil {
		return nil, err
	}
	return t.sql.ExecContext(ctx, statement, args...)
}

// each implements source.
func (t *tx) each(ctx context.Context, query string, args []any, read func(scan scan) error) error {
	if t.failure != nil {
		return t.failure
	}
	t.begun = true
	query = t.store.dialect.sql(query)
	if err := t.store.seam(query, args); err != nil {
		return t.fail(err)
	}
	rows, err := t.sql.QueryContext(ctx, query, args...)
	if err != nil {
		return t.fail(err)
	}
	if err := eachRow(rows, read); err != nil {
		return t.fail(err)
	}
	return nil
}

func (t *tx) fail(err error) error {
	if t.failure == nil {
		t.failure = err
	}
	return err
}

// each implements source, outside any transaction.
func (s *Store) each(ctx context.Context, query string, args []any, read func(scan scan) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	query = s.dialect.sql(query)
	if err := s.seam(query, args); err != nil {
		return err
	}
	rows, err := s.reader.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	return eachRow(rows, read)
}

func eachRow(rows *sql.Rows, read func(scan scan) error) error {
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := read(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
