package storetest

import (
	"errors"

	"github.com/go-sql-driver/mysql"
)

// eachStepFails lets do fail at its first statement, then at its second and so on to its COMMIT, and wants the tables untouched every time. do
// has not been done when it returns.
func (w *world) eachStepFails(do func() error) {
	w.Helper()
	broken := &mysql.MySQLError{Number: 1290, Message: "the server is read-only"} // whatever the database: an error that says nothing was done
	before := w.snapshot()
	for step := 1; ; step++ {
		n, last := 0, ""
		w.Intercept(w.store, func(statement string, _ []any) error {
			if n++; n == step {
				last = statement
				return broken
			}
			return nil
		})
		err := do()
		if !errors.Is(err, broken) {
			w.Fatalf("step %d: got %v, want the failure", step, err)
		}
		if after := w.snapshot(); after != before {
			w.Fatalf("failing at step %d left a trace\n%s\nbefore:\n%s\nafter:\n%s", step, last, before, after)
		}
		if last == "COMMIT" {
			if step < 8 {
				w.Fatalf("only %d steps were seen", step)
			}
			w.Intercept(w.store, nil)
			return
		}
	}
}
