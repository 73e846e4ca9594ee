package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/store"
)

var expireTests = tests{
	"only what waits for approval past its time ends": expires,
	"at most so many at once":                         expiresSome,
	"what comes back late is not expired on the spot": comesBackLate,
	"what expired may be applied again":               appliesAgain,
}

// ago is a moment by the database's clock.
func ago(db Database, d time.Duration) string {
	if db.Driver == store.MySQL {
		return fmt.Sprintf(`(CURRENT_TIMESTAMP(6) - INTERVAL %d MICROSECOND)`, d.Microseconds())
	}
	return fmt.Sprintf(`(batchbot_now() - %d)`, d.Microseconds())
}

func (w *world) expire(limit int) int {
	w.Helper()
	n, err := w.store.ExpireOperations(w.Context(), limit)
	w.must(err)
	return n
}

func expires(t *testing.T, db Database) {
	w := newWorld(t, db)
	for i, status := range statuses {
		w.operationIn(status, i+1)
	}
	w.apply(w.application(w.queue, 20, false))
	if n := w.expire(100); n != 0 {
		t.Errorf("%d expired before their time", n)
	}
	w.execute(`UPDATE binding SET expires_at = `+ago(db, time.Second)+` WHERE operation_id <> ?`, operationID(20))
	if n := w.expire(100); n != 1 {
		t.Errorf("%d expired", n)
	}
	for i, status := range statuses {
		want := status
		if status == bot.OperationPendingApproval {
			want = bot.OperationExpired
		}
		if now := w.read(operationID(i + 1)); now.Status != want {
			t.Errorf("%s became %s", status, now.Status)
		}
	}
	if now := w.read(operationID(20)); now.Status != bot.OperationPendingApproval {
		t.Errorf("what has time left became %s", now.Status)
	}
	if n := w.expire(100); n != 0 {
		t.Errorf("%d expired twice", n)
	}
	w.invariants()
}

func expiresSome(t *testing.T, db Database) {
	w := newWorld(t, db)
	for n := range 5 {
		w.apply(w.application(w.queue, n+1, false))
	}
	w.execute(`UPDATE binding SET expires_at = ` + ago(db, time.Second))
	if a, b, c := w.expire(2), w.expire(2), w.expire(2); a != 2 || b != 2 || c != 1 {
		t.Errorf("%d, %d, %d", a, b, c)
	}
}

func comesBackLate(t *testing.T, db Database) {
	w := newWorld(t, db)
	op := w.operationIn(bot.OperationFailed, 1)
	w.execute(`UPDATE binding SET expires_at = ` + ago(db, 30*24*time.Hour))
	m := w.moveTo(op, bot.OperationPendingApproval)
	m.HeadSHA, m.Reason = sha(7), bot.ReasonHeadMoved
	if result, err := w.store.Move(t.Context(), m); err != nil || result != bot.MoveDone {
		t.Fatal(result, err)
	}
	if n := w.expire(100); n != 0 {
		t.Error("expired on the spot")
	}
}

func appliesAgain(t *testing.T, db Database) {
	w := newWorld(t, db)
	op := w.operationIn(bot.OperationPendingApproval, 1)
	w.execute(`UPDATE binding SET expires_at = ` + ago(db, time.Second))
	w.expire(1)
	w.apply(w.again(op, 1))
	if n := w.expire(100); n != 0 {
		t.Error("the new application expired with the old one's time")
	}
	w.invariants()
}
