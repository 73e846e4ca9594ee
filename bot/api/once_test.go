package api_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/api"
	"github.com/batchbot/batchbot/bot/curated"
	"github.com/batchbot/batchbot/store"
)

const clients = 32

func key(k string) map[string]string { return map[string]string{"Idempotency-Key": k} }

// databases are those on which the outcomes are shown, with clients at once.
func databases(t *testing.T, test func(t *testing.T, w *world)) {
	for name, options := range map[string]func(t testing.TB) store.Options{
		"sqlite": nil, "mysql": newMySQL,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if options == nil {
				test(t, newWorld(t))
				return
			}
			test(t, newWorldOn(t, options(t)))
		})
	}
}

// tally counts answers by status, or the type of the problem, and whether they were replays.
func tally(replies []reply) map[string]int {
	counts := make(map[string]int)
	for _, r := range replies {
		what := fmt.Sprint(r.status)
		if r.status >= 400 {
			what = strings.TrimPrefix(r.text("type"), "/problems/")
		}
		if r.header.Get("Idempotent-Replayed") != "" {
			what += " replayed"
		}
		counts[what]++
	}
	return counts
}

func wantTally(t *testing.T, what string, replies []reply, want map[string]int) {
	t.Helper()
	if got := tally(replies); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: the answers are %v, want %v", what, got, want)
	}
}

// patient sends a request again while it is told to.
func (w *world) patient(c call) reply {
	for range 100 {
		if r := w.do(c); r.status != 503 {
			return r
		}
	}
	return w.do(c)
}

func TestSubmittedByManyAtOnce(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		set := w.drafts(w.opens(2)...)
		replies := w.atOnce(clients, func(i int) call { return call{release, "POST", set + "/submit", "", key(fmt.Sprint("key-", i))} })
		wantTally(t, "different keys", replies, map[string]int{"200": 1, "already-submitted": clients - 1})

		set = w.drafts(w.opens(2)...)
		replies = w.atOnce(clients, func(int) call { return call{release, "POST", set + "/submit", "", key("one key")} })
		wantTally(t, "a key with a blank", replies, map[string]int{"malformed": clients})
		replies = w.atOnce(clients, func(int) call { return call{release, "POST", set + "/submit", "", key("one-key")} })
		wantTally(t, "the same key", replies, map[string]int{"200": 1, "200 replayed": clients - 1})

		// Whoever approves twice, admits once.
		replies = w.atOnce(clients, func(i int) call { return call{manager, "POST", set + "/approve", "", key(fmt.Sprint("approval-", i))} })
		wantTally(t, "approvals", replies, map[string]int{"200": 1, "already-decided": clients - 1})
		if n := w.get(fmt.Sprintf("/api/v1/queues/%d", w.queue.ID)).text("waiting"); n != "2" {
			t.Errorf("%s requests wait, want those of 2 members", n)
		}
	})
}

// What is made under one key by many at once is made once, and all are told where it is.
func TestMadeByManyAtOnce(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		mr := w.opens(2)
		now, err := w.store.Clock(t.Context())
		w.must(err)
		train := fmt.Sprintf(`{"queue": %d, "name": "friday", "seats": 1, "departs_at": %q}`, w.queue.ID, now.Add(time.Hour).Format(time.RFC3339))
		set := fmt.Sprintf(`{"queue": %d, "rows": %s}`, w.queue.ID, rows(mr...))
		for _, c := range []call{{operator, "POST", "/api/v1/trains", train, key("make")}, {release, "POST", "/api/v1/curated", set, key("make")}} {
			replies := w.atOnce(clients/2, func(int) call { return c })
			for i, r := range replies {
				if r.status == 503 {
					r = w.patient(c)
				}
				if r.status != 201 || r.id() != replies[0].id() && replies[0].status == 201 || r.header.Get("Location") == "" {
					t.Errorf("%s: client %d is answered %d %s", c.path, i, r.status, start(r.body))
				}
			}
			counts := tally(replies)
			if counts["201"] != 1 || counts["201"]+counts["201 replayed"]+counts["retry-later"] != len(replies) {
				t.Errorf("%s: the answers are %v", c.path, counts)
			}
			if list := w.get(c.path).field("items").([]any); len(list) != 1 {
				t.Errorf("%s: %d were made", c.path, len(list))
			}
		}
		seat := call{release, "POST", seatOf("/api/v1/trains/"+fmt.Sprint(w.get("/api/v1/trains").field("items").([]any)[0].(map[string]any)["id"]), mr[0]), "", key("seat")}
		replies := w.atOnce(clients/2, func(int) call { return seat })
		counts := tally(replies)
		if counts["201"] != 1 || counts["201"]+counts["201 replayed"]+counts["retry-later"]+counts["unavailable"] != len(replies) {
			t.Errorf("seats: the answers are %v", counts)
		}
		if r := w.patient(seat); r.status != 201 || r.text("status") != "CONFIRMED" || r.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("sent again, the seat is answered %d %s", r.status, r.body)
		}
	})
}

func TestAReplayShowsTheThingAsItIsNow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mr := w.opens(2)
	body := fmt.Sprintf(`{"queue": %d, "rows": %s}`, w.queue.ID, rows(mr...))
	create := call{release, "POST", "/api/v1/curated", body, key("k1")}
	made := w.wants(201, "", create)
	set := made.header.Get("Location")
	submit := call{release, "POST", set + "/submit", "", key("k2")}
	w.wants(200, "", submit)
	w.wants(200, "", call{manager, "POST", set + "/approve", "", key("k3")})
	for _, c := range []struct {
		call
		status int
	}{{create, 201}, {submit, 200}, {call{manager, "POST", set + "/approve", "", key("k3")}, 200}} {
		r := w.wants(c.status, "", c.call)
		if r.header.Get("Idempotent-Replayed") != "true" || r.text("status") != "APPROVED" || r.id() != made.id() {
			t.Errorf("%s is replayed as %s", c.path, r.body)
		}
	}
	if got := w.wants(201, "", create).header.Get("Location"); got != set {
		t.Errorf("replayed, it is at %s", got)
	}

	// Another request under the key, and the key of another token.
	w.wants(422, "key-reused", call{release, "POST", "/api/v1/curated", body + " ", key("k1")})
	w.wants(422, "key-reused", call{release, "POST", set + "/submit", "", key("k1")})
	w.wants(422, "key-reused", call{release, "POST", set + "/cancel", "", key("k2")})
	if r := w.wants(201, "", call{manager, "POST", "/api/v1/curated", body, key("k1")}); r.id() == made.id() || r.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("another token's key is answered %s", r.body)
	}
	for _, k := range []string{strings.Repeat("k", 129), "with blank", "täg", ""} {
		w.wants(400, "malformed", call{release, "POST", set + "/submit", "", key(k)})
	}
	long := strings.Repeat("~", 128)
	w.wants(201, "", call{release, "POST", "/api/v1/curated", body, key(long)})
	w.wants(201, "", call{release, "POST", "/api/v1/curated", body, key(long)})
}

// A refusal is not remembered: corrected, the request goes through under the same key.
func TestARefusedRequestLeavesItsKeyFree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mr := w.opens(2)
	w.must(w.fake.CloseMR(repoPath, mr[1], "ada"))
	wrong := fmt.Sprintf(`{"queue": %d, "rows": [{"mr": 1}]}`, w.queue.ID)
	w.wants(422, "invalid", call{release, "POST", "/api/v1/curated", wrong, key("k")})
	r := w.wants(201, "", call{release, "POST", "/api/v1/curated", fmt.Sprintf(`{"queue": %d, "rows": %s}`, w.queue.ID, rows(mr...)), key("k")})
	if r.header.Get("Idempotent-Replayed") != "" {
		t.Error("what was refused is replayed")
	}
	submit := call{release, "POST", r.header.Get("Location") + "/submit", "", key("s")}
	w.wants(422, "checks-failed", submit)
	w.must(w.fake.ReopenMR(repoPath, mr[1], "ada"))
	if r := w.wants(200, "", submit); r.header.Get("Idempotent-Replayed") != "" {
		t.Error("what was refused is replayed")
	}
}

// forgetful is a desk and a store that say what no store says at will.
type forgetful struct {
	api.Store
	api.Desk
	outcome curated.Outcome
	err     error
}

func (f forgetful) HandledRequest(context.Context, string) (bot.HandledRequest, bool, error) {
	return bot.HandledRequest{}, false, nil
}

func (f forgetful) Submit(context.Context, curated.Asker, int64, int64) (curated.Result, error) {
	return curated.Result{Outcome: f.outcome}, f.err
}

func TestLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	secret := errors.New("dial tcp 10.0.0.7:3306: Access denied for user 'batchbot' (SELECT * FROM approval_request)")
	for _, c := range []struct {
		what, problem, wait string
		outcome             curated.Outcome
		err                 error
	}{
		{"the winner is gone", "retry-later", "2", curated.Duplicate, nil},
		{"somebody is not visible yet", "retry-later", "2", curated.RetryLater, nil},
		{"the database fails", "unavailable", "2", 0, secret},
		{"the host asks for a pause", "unavailable", "61", 0, fmt.Errorf("reading it: %w", &bot.RateLimitedError{RetryAfter: 60*time.Second + time.Millisecond})},
		{"an outcome nobody knows", "unavailable", "2", 99, nil},
	} {
		w.serve(api.Config{Store: w.store, Desk: forgetful{outcome: c.outcome, err: c.err}})
		if c.problem == "retry-later" {
			w.serve(api.Config{Store: forgetful{}, Desk: forgetful{outcome: c.outcome, err: c.err}})
		}
		for _, header := range []map[string]string{nil, key("k")} {
			r := w.wants(503, c.problem, call{release, "POST", "/api/v1/curated/1/submit", "", header})
			if r.header.Get("Retry-After") != c.wait {
				t.Errorf("%s: Retry-After is %s, want %s", c.what, r.header.Get("Retry-After"), c.wait)
			}
			if strings.Contains(r.body, "10.0.0.7") || strings.Contains(r.body, "SELECT") {
				t.Errorf("%s: the answer shows what it should not: %s", c.what, r.body)
			}
		}
	}
	w.serve(api.Config{Store: w.store})
	w.must(w.store.Close())
	for _, path := range []string{"/api/v1/queues", "/api/v1/batches", "/api/v1/trains", "/api/v1/operations/1", "/api/v1/queues/1", "/api/v1/batches/1", "/api/v1/trains/1"} {
		w.wants(503, "unavailable", call{board, "GET", path, "", nil})
	}
}
