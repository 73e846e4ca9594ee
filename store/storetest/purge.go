package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/store"
)

var purgeTests = tests{
	"payloads go after a week, keys after three months": purgeByAge,
	"a delivery still due ends with its payload":        purgeDue,
	"due again, its payload counts as new":              purgeRearmed,
	"commands are remembered up to their time":          purgeCommands,
	"API requests are remembered up to their time":      purgeRequests,
	"the times are settings":                            purgeSettings,
	"it works in small transactions":                    purgeBounded,
	"errands that are done go after a week":             purgeErrands,
	"of several instances one does it":                  purgeOnce,
	"many may purge at once":                            purgeTogether,
}

const day = 24 * time.Hour

// old stores deliveries that came a while ago and are done.
func (w *world) old(n int, age time.Duration, prefix string) {
	w.Helper()
	for start := 0; start < n; start += 100 {
		var rows []string
		for i := start; i < min(start+100, n); i++ {
			rows = append(rows, fmt.Sprintf(`('forge', '%s%d', 'push', '{}', 2, 1, %s, '', %s, %s)`, prefix, i, ago(w.Database, age), ago(w.Database, age), ago(w.Database, age)))
		}
		w.execute(`INSERT INTO delivery (host, delivery_key, event, payload, status, attempts, next_attempt_at, error, received_at, updated_at) VALUES ` + strings.Join(rows, ", "))
	}
}

func purgeByAge(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.old(1, 6*day, "week")
	w.old(1, 8*day, "month")
	w.old(1, 89*day, "quarter")
	w.old(1, 91*day, "year")
	for range 2 {
		w.must(w.store.PurgeOld(t.Context()))
		if keys := strings.Join(w.rows(`SELECT delivery_key FROM delivery ORDER BY id`), " "); keys != "week0 month0 quarter0" {
			t.Errorf("keys %s", keys)
		}
		if keys := strings.Join(w.rows(`SELECT delivery_key FROM delivery WHERE payload IS NOT NULL ORDER BY id`), " "); keys != "week0" {
			t.Errorf("payloads %s", keys)
		}
	}
	w.execute(`UPDATE delivery SET received_at = ` + ago(db, 8*day) + ` WHERE delivery_key = 'week0'`)
	w.old(1, 7*day+time.Minute, "next")
	w.must(w.store.PurgeOld(t.Context()))
	if n := w.value(`SELECT COUNT(*) FROM delivery WHERE payload IS NOT NULL`); n != 0 {
		t.Errorf("%d payloads left behind the mark of the last purge", n)
	}
	if fresh, err := w.store.InsertDelivery(t.Context(), "forge", "quarter0", "push", nil); err != nil || fresh {
		t.Errorf("a key that is kept is not known: %v, %v", fresh, err)
	}
}

func purgeDue(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.deliver("k")
	w.execute(`UPDATE delivery SET received_at = ` + ago(db, 8*day))
	w.must(w.store.PurgeOld(t.Context()))
	if got := w.take(1, lease); len(got) != 0 {
		t.Errorf("an empty delivery is due: %+v", got)
	}
	if reason := value[string](w, `SELECT error FROM delivery WHERE status = ?`, int(bot.DeliveryFailed)); reason == "" {
		t.Error("it ended without a word")
	}
}

func purgeRearmed(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.deliver("k")
	w.finish(w.take(1, lease)[0], bot.DeliveryOutcome{Status: bot.DeliveryFailed, Error: "the host is down"})
	w.execute(`UPDATE delivery SET received_at = ` + ago(db, 8*day))
	w.must(w.store.PurgeOld(t.Context()))
	w.deliver("k")
	w.must(w.store.PurgeOld(t.Context()))
	if got := w.takeOne(t, "k"); string(got.Payload) != `{"key":"k"}` {
		t.Errorf("payload %q", got.Payload)
	}
}

func purgeCommands(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.admit(w.queue, 1, 2)
	w.execute(`UPDATE idempotency SET expires_at = `+ago(db, time.Second)+` WHERE operation_id = ?`, operationID(1))
	w.must(w.store.PurgeOld(t.Context()))
	for n, want := range map[int]bool{1: false, 2: true} {
		if handled, err := w.store.Handled(t.Context(), w.application(w.queue, n, true).Command.RequestID); err != nil || handled != want {
			t.Errorf("command of merge request %d: handled %v, %v", n, handled, err)
		}
	}
}

// What an API request did is forgotten together with its key, in small transactions; then the key is as good as new. A row that outlived its
// idempotency row is in nobody's way.
func purgeRequests(t *testing.T, db Database) {
	w := newWorld(t, db)
	now, err := w.store.Clock(t.Context())
	w.must(err)
	open := func(name, key string) bot.TrainOutcome {
		t.Helper()
		result, err := w.store.OpenTrain(t.Context(), bot.TrainSpec{
			QueueID: w.queue.ID, Name: name, DepartsAt: now.Add(time.Hour), ClosesAt: now.Add(time.Hour), Seats: 1, By: "api:deploy", Source: "api",
			Request: &bot.APIRequest{ID: "api:deploy:" + key, Fingerprint: sha(1)},
		})
		w.must(err)
		return result.Outcome
	}
	for i, key := range []string{"old", "young"} {
		if outcome := open(fmt.Sprint("train", i), key); outcome != bot.TrainWritten {
			t.Fatalf("outcome %d", outcome)
		}
	}
	for _, table := range []string{"idempotency", "api_request"} {
		w.execute(`UPDATE `+table+` SET expires_at = `+ago(db, time.Second)+` WHERE request_id = ?`, "api:deploy:old")
	}
	w.fill(1203, `api_request (request_id, fingerprint, resource, expires_at, created_at)`, func(i int) string {
		return fmt.Sprintf(`('api:deploy:%d', '', '', %s, %s)`, i, ago(db, time.Hour), ago(db, 91*day))
	})
	largest, commits := 0, 0
	db.Intercept(w.store, func(statement string, args []any) error {
		largest = max(largest, len(args))
		if statement == "COMMIT" {
			commits++
		}
		return nil
	})
	w.must(w.store.PurgeOld(t.Context()))
	db.Intercept(w.store, nil)
	if commits != 4 || largest > 510 { // three chunks of requests, one of keys
		t.Errorf("%d transactions, up to %d rows each", commits, largest)
	}
	if left := strings.Join(w.rows(`SELECT request_id FROM api_request`), " "); left != "api:deploy:young" {
		t.Errorf("left are %s", left)
	}
	for key, want := range map[string]bool{"old": false, "young": true} {
		if _, ok, err := w.store.HandledRequest(t.Context(), "api:deploy:"+key); err != nil || ok != want {
			t.Errorf("request %s: known %v, %v", key, ok, err)
		}
	}
	if outcome := open("train2", "old"); outcome != bot.TrainWritten {
		t.Errorf("a key that was forgotten: outcome %d", outcome)
	}
	w.execute(`DELETE FROM idempotency WHERE request_id = ?`, "api:deploy:young")
	if outcome := open("train3", "young"); outcome != bot.TrainWritten {
		t.Errorf("a key whose idempotency row is gone: outcome %d", outcome)
	}
}

func purgeSettings(t *testing.T, db Database) {
	w := newWorld(t, db)
	db.Keep(w.store, store.Retention{Payloads: time.Hour, Deliveries: 4 * day, Commands: 5 * day, Errands: 2 * time.Hour})
	w.old(1, 30*time.Minute, "minutes")
	w.old(1, 3*day, "days")
	w.old(1, 4*day+time.Minute, "week")
	const done = 2
	w.oldErrands(1, time.Hour, "young", done)
	w.oldErrands(1, 3*time.Hour, "old", done)
	w.admit(w.queue, 1)
	w.must(w.store.PurgeOld(t.Context()))
	if keys := strings.Join(w.rows(`SELECT delivery_key FROM delivery ORDER BY id`), " "); keys != "minutes0 days0" {
		t.Errorf("keys %s", keys)
	}
	if keys := strings.Join(w.rows(`SELECT delivery_key FROM delivery WHERE payload IS NOT NULL ORDER BY id`), " "); keys != "minutes0" {
		t.Errorf("payloads %s", keys)
	}
	if left := strings.Join(w.rows(`SELECT target FROM outbox WHERE status = 2 ORDER BY target`), " "); left != "young0" {
		t.Errorf("errands %s", left)
	}
	for _, c := range []struct {
		kept  bool
		after time.Duration
	}{{true, 5*day - time.Minute}, {false, 5*day + time.Minute}} {
		if n := w.value(`SELECT COUNT(*) FROM idempotency WHERE expires_at > ` + ago(db, -c.after)); n == 1 != c.kept {
			t.Errorf("a command is remembered for %v: %v", c.after, !c.kept)
		}
	}
}

func purgeBounded(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.old(1203, 100*day, "old")
	w.old(30, day, "young")
	commits, largest := 0, 0
	db.Intercept(w.store, func(statement string, args []any) error {
		largest = max(largest, len(args))
		if statement == "COMMIT" {
			commits++
		}
		return nil
	})
	w.must(w.store.PurgeOld(t.Context()))
	if commits != 6 || largest > 510 { // three chunks of payloads, three of keys
		t.Errorf("%d transactions, up to %d rows each", commits, largest)
	}
	if n := w.value(`SELECT COUNT(*) FROM delivery`); n != 30 {
		t.Errorf("%d rows left", n)
	}
}

func purgeTogether(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.old(700, 8*day, "old")
	each(w, 4, func(s *store.Store, _ int) {
		if err := s.PurgeOld(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if n := w.value(`SELECT COUNT(*) FROM delivery WHERE payload IS NULL`); n != 700 {
		t.Errorf("%d purged", n)
	}
}

// oldErrands stores side effects that nobody has touched for a while, in one state.
func (w *world) oldErrands(n int, age time.Duration, prefix string, status int) {
	w.Helper()
	w.fill(n, `outbox (kind, target, repository_id, number, payload, status, wanted, done, attempts, next_attempt_at, error, created_at, updated_at)`, func(i int) string {
		return fmt.Sprintf(`(1, '%s%d', %d, 1, '{}', %d, 1, 1, 0, %[5]s, '', %[5]s, %[5]s)`, prefix, i, w.repo.ID, status, ago(w.Database, age))
	})
}

func purgeErrands(t *testing.T, db Database) {
	w := newWorld(t, db)
	const due, done, givenUp = 1, 2, 3
	w.oldErrands(1, 6*day, "fresh", done)
	w.oldErrands(1203, 8*day, "old", done)
	w.oldErrands(1, 8*day, "due", due)
	w.oldErrands(1, 8*day, "hopeless", givenUp)
	largest, commits := 0, 0
	db.Intercept(w.store, func(statement string, args []any) error {
		largest = max(largest, len(args))
		if statement == "COMMIT" {
			commits++
		}
		return nil
	})
	w.must(w.store.PurgeOld(t.Context()))
	db.Intercept(w.store, nil)
	if left := strings.Join(w.rows(`SELECT target FROM outbox ORDER BY target`), " "); left != "due0 fresh0 hopeless0" {
		t.Errorf("left are %s", left)
	}
	if commits != 3 || largest > 510 {
		t.Errorf("%d transactions, up to %d rows each", commits, largest)
	}
}

func purgeOnce(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.old(1, 100*day, "old")
	release := tryLock(t, db.Open(t), "job/purge", true)
	w.must(w.store.PurgeOld(t.Context()))
	if n := w.value(`SELECT COUNT(*) FROM delivery`); n != 1 {
		t.Error("it worked beside another instance")
	}
	release()
	w.must(w.store.PurgeOld(t.Context()))
	if n := w.value(`SELECT COUNT(*) FROM delivery`); n != 0 {
		t.Error("it did not work although no other instance did")
	}
}
