package store

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// What a failing statement and a failing COMMIT mean. A transaction that is not committed is gone, whatever ended it; a COMMIT that was sent
// is only known to have done nothing where the server that is asked decides alone.
func TestClassify(t *testing.T) {
	t.Parallel()
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for name, c := range map[string]struct {
		err               error
		statement, commit failure
	}{
		"a deadlock":                          {&mysql.MySQLError{Number: 1213}, retryable, retryable},
		"a lock wait":                         {&mysql.MySQLError{Number: 1205}, retryable, retryable},
		"a row that changed":                  {&mysql.MySQLError{Number: 1020}, retryable, retryable},
		"too many connections":                {&mysql.MySQLError{Number: 1040}, retryable, retryable},
		"too many connections of one user":    {&mysql.MySQLError{Number: 1203}, retryable, ambiguous},
		"a deadlock among advisory locks":     {&mysql.MySQLError{Number: 3058}, retryable, ambiguous},
		"a lost certification":                {&mysql.MySQLError{Number: 3101}, retryable, ambiguous},
		"no majority":                         {&mysql.MySQLError{Number: 3100}, retryable, ambiguous},
		"a conflict found late":               {&mysql.MySQLError{Number: 1180}, failed, ambiguous},
		"a node outside the component":        {&mysql.MySQLError{Number: 1047}, retryable, ambiguous},
		"a server shutting down":              {&mysql.MySQLError{Number: 1053}, retryable, ambiguous},
		"a killed connection":                 {&mysql.MySQLError{Number: 1927}, retryable, ambiguous},
		"an idle connection closed":           {&mysql.MySQLError{Number: 4031}, retryable, ambiguous},
		"an interrupted query":                {&mysql.MySQLError{Number: 1317}, failed, ambiguous},
		"a proxy that lost its server":        {&mysql.MySQLError{Number: 2013}, retryable, ambiguous},
		"a proxy without a server":            {&mysql.MySQLError{Number: 2003}, retryable, ambiguous},
		"ProxySQL without a server":           {&mysql.MySQLError{Number: 9001}, retryable, ambiguous},
		"a lost connection":                   {mysql.ErrInvalidConn, retryable, ambiguous},
		"a server that became read-only":      {driver.ErrBadConn, retryable, ambiguous}, // the driver says so of 1290, 1792 and 1836
		"nobody listening":                    {dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), retryable, ambiguous},
		"a connection attempt that timed out": {dial(os.ErrDeadlineExceeded), failed, ambiguous},
		"a duplicate key":                     {&mysql.MySQLError{Number: 1062}, failed, failed},
		"a missing column":                    {&mysql.MySQLError{Number: 1054}, failed, failed},
		"a table without a primary key":       {&mysql.MySQLError{Number: 3098}, failed, failed},
		"a transaction that ended":            {sql.ErrTxDone, failed, failed},
		"anything else":                       {errors.New("else"), failed, ambiguous},
	} {
		wrapped := fmt.Errorf("claim: %w", c.err)
		if got := classify(wrapped); got != c.statement {
			t.Errorf("%s in a statement: %d, want %d", name, got, c.statement)
		}
		if got := classifyCommit(t.Context(), wrapped); got != c.commit {
			t.Errorf("%s at COMMIT: %d, want %d", name, got, c.commit)
		}
	}
}
