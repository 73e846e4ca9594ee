package storetest

import (
	"bytes"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/store"
)

var deliveryTests = tests{
	"the largest webhook a host sends is stored whole":    largestDelivery,
	"a delivery is stored as it came":                     storedAsItCame,
	"redelivered, it changes nothing":                     redelivered,
	"one that failed is due again when it is redelivered": rearmed,
	"they are taken in order of arrival":                  inOrder,
	"a crash makes it due again when the lease ends":      leaseEnds,
	"who lost it cannot finish it":                        staleFinish,
	"put off, it is due later":                            putOff,
	"poison does not stall the others":                    poison,
	"a delivery without a key is refused":                 refusedDeliveries,
	"a lost connection at any step loses nothing":         deliverySteps,
}

// lease is longer than any test.
const lease = time.Hour

func (w *world) deliver(keys ...string) {
	w.Helper()
	for _, key := range keys {
		fresh, err := w.store.InsertDelivery(w.Context(), "forge", key, "push", []byte(`{"key":"`+key+`"}`))
		if w.must(err); !fresh {
			w.Fatalf("delivery %s is not fresh", key)
		}
	}
}

func (w *world) take(limit int, lease time.Duration) []bot.Delivery {
	w.Helper()
	taken, err := w.store.ClaimDeliveries(w.Context(), limit, lease)
	w.must(err)
	return taken
}

func (w *world) finish(d bot.Delivery, outcome bot.DeliveryOutcome) bool {
	w.Helper()
	done, err := w.store.FinishDelivery(w.Context(), d.ID, d.Attempts, outcome)
	w.must(err)
	return done
}

func keysOf(deliveries []bot.Delivery) string {
	var keys []string
	for _, d := range deliveries {
		keys = append(keys, d.Key)
	}
	return strings.Join(keys, " ")
}

func storedAsItCame(t *testing.T, db Database) {
	w := newWorld(t, db)
	payload := []byte("{\"text\":\"\xff\x00 as it came\"}")
	if fresh, err := w.store.InsertDelivery(t.Context(), "forge", "k1", "issue_comment", payload); err != nil || !fresh {
		t.Fatal(fresh, err)
	}
	taken := w.take(10, lease)
	if len(taken) != 1 || taken[0].Host != "forge" || taken[0].Key != "k1" || taken[0].Event != "issue_comment" || taken[0].Attempts != 1 || !bytes.Equal(taken[0].Payload, payload) {
		t.Errorf("got %+v", taken)
	}
	if again := w.take(10, lease); len(again) != 0 {
		t.Errorf("taken twice: %+v", again)
	}
}

func redelivered(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.deliver("due", "taken", "done", "ignored")
	for _, d := range w.take(10, lease) {
		switch d.Key {
		case "done":
			w.finish(d, bot.DeliveryOutcome{Status: bot.DeliveryDone})
		case "ignored":
			w.finish(d, bot.DeliveryOutcome{Status: bot.DeliveryIgnored, Error: "not for us"})
		case "due":
			w.finish(d, bot.DeliveryOutcome{Status: bot.DeliveryDue, RetryIn: time.Hour})
		}
	}
	before := w.snapshot()
	for _, key := range []string{"due", "taken", "done", "ignored"} {
		if fresh, err := w.store.InsertDelivery(t.Context(), "forge", key, "push", []byte("other")); err != nil || fresh {
			t.Errorf("%s: fresh %v, %v", key, fresh, err)
		}
	}
	if w.snapshot() != before {
		t.Error("something changed")
	}
	if fresh, err := w.store.InsertDelivery(t.Context(), "elsewhere", "done", "push", nil); err != nil || !fresh {
		t.Errorf("the same key of another host: fresh %v, %v", fresh, err)
	}
}

func rearmed(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.deliver("k")
	first := w.take(1, lease)[0]
	w.finish(first, bot.DeliveryOutcome{Status: bot.DeliveryFailed, Error: "the host is down"})
	var fresh atomic.Int32
	each(w, 6, func(s *store.Store, _ int) {
		again, err := s.InsertDelivery(t.Context(), "forge", "k", "push", []byte("anew"))
		if err != nil {
			t.Error(err)
		}
		if again {
			fresh.Add(1)
		}
	})
	if fresh.Load() != 1 {
		t.Errorf("fresh for %d", fresh.Load())
	}
	second := w.take(1, lease)
	if len(second) != 1 || second[0].ID != first.ID || string(second[0].Payload) != "anew" || second[0].Attempts <= first.Attempts {
		t.Fatalf("taken again: %+v", second)
	}
	if w.finish(first, bot.DeliveryOutcome{Status: bot.DeliveryDone}) {
		t.Error("a worker of the earlier life finished it")
	}
	if !w.finish(second[0], bot.DeliveryOutcome{Status: bot.DeliveryDone}) {
		t.Error("its own worker could not finish it")
	}
}

func inOrder(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.deliver("a", "b", "c", "d", "e")
	if got := keysOf(w.take(2, lease)) + " | " + keysOf(w.take(10, lease)); got != "a b | c d e" {
		t.Errorf("got %s", got)
	}
}

func leaseEnds(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.deliver("k")
	first := w.take(1, 0)
	second := w.take(1, lease)
	if len(first) != 1 || len(second) != 1 || second[0].Attempts != 2 {
		t.Errorf("first %+v, second %+v", first, second)
	}
}

func staleFinish(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.deliver("k")
	first, second := w.take(1, 0)[0], w.take(1, lease)[0]
	before := w.snapshot()
	for _, status := range []bot.DeliveryStatus{bot.DeliveryDone, bot.DeliveryFailed, bot.DeliveryDue} {
		if w.finish(first, bot.DeliveryOutcome{Status: status}) {
			t.Errorf("finished as %d by who lost it", status)
		}
	}
	if w.snapshot() != before {
		t.Error("something changed")
	}
	if !w.finish(second, bot.DeliveryOutcome{Status: bot.DeliveryDone}) || w.finish(second, bot.DeliveryOutcome{Status: bot.DeliveryDone}) {
		t.Error("finishing works once")
	}
}

func putOff(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.deliver("soon", "later")
	for _, d := range w.take(2, lease) {
		outcome := bot.DeliveryOutcome{Status: bot.DeliveryDue, Error: strings.Repeat("é", 5000)}
		if d.Key == "later" {
			outcome.RetryIn = time.Hour
		}
		if !w.finish(d, outcome) {
			t.Fatal("not finished")
		}
	}
	if got := w.take(2, lease); keysOf(got) != "soon" || got[0].Attempts != 2 {
		t.Errorf("got %+v", got)
	}
}

func poison(t *testing.T, db Database) {
	w := newWorld(t, db)
	w.deliver("p1", "p2", "p3")
	for range 4 { // they fail again and again, and are due again at once
		for _, d := range w.take(3, lease) {
			w.finish(d, bot.DeliveryOutcome{Status: bot.DeliveryDue, Error: "cannot be applied"})
		}
	}
	w.deliver("good")
	for range 2 {
		for _, d := range w.take(2, lease) {
			if d.Key == "good" {
				return
			}
			w.finish(d, bot.DeliveryOutcome{Status: bot.DeliveryDue, Error: "cannot be applied"})
		}
	}
	t.Error("the good one waits behind the others")
}

func refusedDeliveries(t *testing.T, db Database) {
	w := newWorld(t, db)
	for _, d := range []struct{ key, event string }{{"", "push"}, {strings.Repeat("k", 256), "push"}, {"k", strings.Repeat("e", 65)}, {"\xff", "push"}} {
		if _, err := w.store.InsertDelivery(t.Context(), "forge", d.key, d.event, nil); err == nil {
			t.Errorf("stored a key of %d bytes with an event of %d", len(d.key), len(d.event))
		}
	}
}

func deliverySteps(t *testing.T, db Database) {
	w := newWorld(t, db)
	for step := 1; ; step++ {
		key := fmt.Sprint("k", step)
		fired := w.failAt(step, driver.ErrBadConn)
		fresh, err := w.store.InsertDelivery(t.Context(), "forge", key, "push", []byte("{}"))
		if err != nil || !fresh {
			t.Fatalf("step %d of storing: fresh %v, %v", step, fresh, err)
		}
		inserting := fired()
		d := w.takeOne(t, key)
		fired = w.failAt(step, driver.ErrBadConn)
		done, err := w.store.FinishDelivery(t.Context(), d.ID, d.Attempts, bot.DeliveryOutcome{Status: bot.DeliveryDone})
		if err != nil || !done {
			t.Fatalf("step %d of finishing: done %v, %v", step, done, err)
		}
		if !fired() && !inserting {
			break
		}
	}
	// A claim whose COMMIT is lost may have happened: its rows are due again when the lease ends, and none is lost.
	w.deliver("last")
	for step := 1; ; step++ {
		fired := w.failAt(step, driver.ErrBadConn)
		taken, err := w.store.ClaimDeliveries(t.Context(), 1, 0)
		if err != nil && !errors.Is(err, store.ErrAmbiguous) && !errors.Is(err, driver.ErrBadConn) {
			t.Fatalf("step %d of claiming: %v", step, err)
		}
		if !fired() {
			if keysOf(taken) != "last" {
				t.Errorf("got %+v", taken)
			}
			break
		}
	}
}

// takeOne claims the one delivery that is due.
func (w *world) takeOne(t *testing.T, key string) bot.Delivery {
	t.Helper()
	taken := w.take(1, lease)
	if keysOf(taken) != key {
		t.Fatalf("took %s, want %s", keysOf(taken), key)
	}
	return taken[0]
}

// GitHub sends up to 25 MiB. Quotes are the worst of it: on the way to MySQL each takes two bytes.
func largestDelivery(t *testing.T, db Database) {
	w := newWorld(t, db)
	payload := bytes.Repeat([]byte(`"'`), 25<<20/2)
	fresh, err := w.store.InsertDelivery(t.Context(), "forge", "large", "push", payload)
	if err != nil || !fresh {
		t.Fatalf("stored: %t, %v", fresh, err)
	}
	if got := w.take(1, time.Minute); len(got) != 1 || !bytes.Equal(got[0].Payload, payload) {
		t.Errorf("%d deliveries were taken, and what was stored is not what was sent", len(got))
	}
}
