package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/fakehost"
)

func (w *world) act(set, verb string) call { return call{release, "POST", set + "/" + verb, "", nil} }

func TestACuratedBatchFromDraftToApproval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mr := w.opens(3)
	set := w.drafts(mr[0], mr[1])
	draft := w.get(set)
	if draft.text("status") != "DRAFT" || draft.text("drafter") != "api:release" || draft.header.Get("ETag") != `"1"` || draft.text("committed") != "false" {
		t.Errorf("the draft is %s with ETag %s", draft.body, draft.header.Get("ETag"))
	}
	put := call{release, "PUT", set + "/rows", `{"rows": ` + rows(mr[0], mr[2]) + `}`, map[string]string{"If-Match": `"1"`}}
	saved := w.wants(200, "", put)
	if saved.text("version") == "1" || !strings.Contains(saved.body, fmt.Sprintf(`{"row_no":2,"mr":%d}`, mr[2])) {
		t.Errorf("the rows are %s", saved.body)
	}
	w.wants(409, "changed", put)
	w.wants(409, "changed", call{release, "POST", set + "/submit", "", map[string]string{"If-Match": `"1"`}})
	w.wants(409, "not-submitted", call{manager, "POST", set + "/approve", "", nil})
	w.wants(409, "not-submitted", call{manager, "POST", set + "/reject", "", nil})

	submitted := w.wants(200, "", call{release, "POST", set + "/submit", "{}", map[string]string{"If-Match": saved.header.Get("ETag")}})
	if submitted.text("status") != "PENDING_APPROVAL" || submitted.text("committed") != "true" || strings.Count(submitted.body, `"head_sha"`) != 2 {
		t.Errorf("submitted, it is %s", submitted.body)
	}
	w.wants(409, "already-submitted", w.act(set, "submit"))
	w.wants(409, "already-submitted", call{release, "PUT", set + "/rows", `{"rows": []}`, whatever})

	rejected := w.wants(200, "", call{manager, "POST", set + "/reject", `{"reason": "after the release"}`, nil})
	if rejected.text("status") != "REJECTED" || rejected.text("reason") != "after the release" || rejected.text("decider") != "api:manager" {
		t.Errorf("rejected, it is %s", rejected.body)
	}
	if r := w.wants(409, "already-decided", w.act(set, "submit")); !strings.Contains(r.text("detail"), "PUT "+set+"/rows") {
		t.Errorf("a rejected set is refused without the remedy: %s", r.body)
	}
	w.wants(200, "", call{release, "PUT", set + "/rows", `{"rows": ` + rows(mr...) + `}`, map[string]string{"If-Match": "*"}})
	w.wants(200, "", w.act(set, "submit"))
	w.wants(403, "may-not-decide", w.act(set, "approve")) // the drafter's own token
	approved := w.wants(200, "", call{manager, "POST", set + "/approve", "", nil})
	if approved.text("status") != "APPROVED" || strings.Count(approved.body, `"operation"`) != 3 {
		t.Errorf("approved, it is %s", approved.body)
	}
	for _, verb := range []string{"submit", "approve", "reject", "cancel"} {
		w.wants(409, "already-decided", call{manager, "POST", set + "/" + verb, "", nil})
	}
	w.wants(409, "already-decided", call{release, "PUT", set + "/rows", `{"rows": []}`, whatever})

	other := w.drafts(w.opens(1)...)
	w.wants(200, "", call{release, "PUT", other + "/rows", `{"rows": []}`, whatever})
	w.wants(409, "changed", call{release, "POST", other + "/cancel", "", map[string]string{"If-Match": `"1"`}})
	if r := w.wants(200, "", w.act(other, "cancel")); r.text("status") != "CANCELLED" {
		t.Errorf("cancelled, it is %s", r.body)
	}
	for query, n := range map[string]int{"": 2, "?live=true": 1, "?limit=1": 1, "?queue=99": 0, fmt.Sprintf("?queue=%d&live=false", w.queue.ID): 2} {
		if list := w.get("/api/v1/curated" + query).field("items").([]any); len(list) != n {
			t.Errorf("curated%s lists %d, want %d", query, len(list), n)
		}
	}
	queue := w.get(fmt.Sprintf("/api/v1/queues/%d", w.queue.ID))
	if queue.text("waiting") != "3" || queue.text("name") != "hub/acme/app:main" || w.get("/api/v1/queues").text("items") != "["+queue.text("")+"]" && len(w.get("/api/v1/queues").field("items").([]any)) != 1 {
		t.Errorf("the queue is %s", queue.body)
	}
}

// Two people edit what they both read: the second is told, and what the first saved is there.
func TestNoEditIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mr := w.opens(3)
	set := w.drafts(mr[0])
	seen := map[string]string{"If-Match": w.get(set).header.Get("ETag")}
	put := func(header map[string]string, members ...int) call {
		return call{release, "PUT", set + "/rows", `{"rows": ` + rows(members...) + `}`, header}
	}
	first := w.wants(200, "", put(seen, mr[0], mr[1]))
	w.wants(409, "changed", put(seen, mr[0], mr[2]))
	if r := w.wants(428, "version-needed", put(nil, mr[0], mr[2])); !strings.Contains(r.text("title"), "If-Match") || !strings.Contains(r.text("detail"), "ETag") || !strings.Contains(r.text("detail"), "*") {
		t.Errorf("who names no version is not told how: %s", r.body)
	}
	if now := w.get(set).body; now != first.body {
		t.Errorf("the first saved %s, and it is %s", first.body, now)
	}
	if r := w.wants(200, "", put(whatever, mr[2])); !strings.Contains(r.body, fmt.Sprintf(`[{"row_no":1,"mr":%d}]`, mr[2])) {
		t.Errorf("whatever it was, it is %s", r.body)
	}
}

// All checks are made and told, each with its row, and the draft stays as it was.
func TestChecksThatFail(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mr := w.opens(3)
	w.must(w.fake.CloseMR(repoPath, mr[1], "ada"))
	clash, err := w.fake.OpenMR(repoPath, fakehost.NewMR{Author: "ada", Head: "clash", Title: "Clash", Files: map[string]string{"README": "mine\n"}})
	w.must(err)
	rival, err := w.fake.OpenMR(repoPath, fakehost.NewMR{Author: "ada", Head: "rival", Title: "Rival", Files: map[string]string{"README": "theirs\n"}})
	w.must(err)
	set := w.drafts(mr[0], mr[1], 99, clash, rival)
	before := w.get(set).body
	r := w.wants(422, "checks-failed", w.act(set, "submit"))
	for _, want := range []string{fmt.Sprintf(`"row":2,"mr":%d,"kind":"open"`, mr[1]), `"row":3,"mr":99,"kind":"there"`, fmt.Sprintf(`"row":5,"mr":%d,"kind":"merge"`, rival)} {
		if !strings.Contains(r.body, want) {
			t.Errorf("the problems do not hold %s: %s", want, r.body)
		}
	}
	if after := w.get(set).body; after != before {
		t.Errorf("the draft was %s and is %s", before, after)
	}

	w.wants(201, "", call{release, "POST", seatOf(w.opensTrain("friday", 3), mr[0]), "", nil})
	busy := w.drafts(mr[0], mr[2])
	if r := w.wants(409, "busy", w.act(busy, "submit")); !strings.Contains(r.body, fmt.Sprintf(`"row":1,"mr":%d,"kind":"busy"`, mr[0])) {
		t.Errorf("who is busy is not named: %s", r.body)
	}
}

func TestBatchesAndOperations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var waiting bot.Operation
	for i, n := range w.opens(2) {
		mr, err := w.host.ReadMR(t.Context(), w.repo, n)
		w.must(err)
		id := w.newID()
		result, err := w.store.Apply(t.Context(), bot.Application{
			OperationID: id, QueueID: w.queue.ID, Repository: w.repo, MR: mr, Admit: true, Lane: bot.LaneNormal, ExpiresIn: time.Hour,
			Command: bot.CommandRef{RequestID: "hub:issue:" + id, Order: bot.CommandOrder{At: int64(i + 1), ID: int64(i + 1)}, By: "ada"},
		})
		w.must(err)
		waiting = result.Operation
	}
	if r := w.get("/api/v1/operations/" + waiting.ID); r.text("status") != "WAITING" || r.text("position") != "2" || r.text("author") != "ada" {
		t.Errorf("the operation is %s", r.body)
	}
	if list := w.get("/api/v1/batches").field("items").([]any); len(list) != 0 {
		t.Errorf("%d batches", len(list))
	}
	claimed, err := w.store.Claim(t.Context(), bot.ClaimSpec{QueueID: w.queue.ID, Kind: bot.BatchFresh, Limit: 2, Why: "2 waiting", Token: "0123abcd", Timeout: time.Hour})
	w.must(err)
	path := fmt.Sprintf("/api/v1/batches/%d", claimed.Batch.ID)
	if r := w.get(path); r.text("status") != "RUNNING" || r.text("phase") != "CLAIMED" || len(r.field("members").([]any)) != 2 {
		t.Errorf("the batch is %s", r.body)
	}
	if r := w.get("/api/v1/operations/" + waiting.ID); r.text("status") != "BATCHED" || r.text("batch.id") != fmt.Sprint(claimed.Batch.ID) {
		t.Errorf("the operation is %s", r.body)
	}
	if r := w.get(fmt.Sprintf("/api/v1/queues/%d", w.queue.ID)); r.text("batch.id") != fmt.Sprint(claimed.Batch.ID) {
		t.Errorf("the queue is %s", r.body)
	}
	if list := w.get(fmt.Sprintf("/api/v1/batches?active=true&queue=%d", w.queue.ID)).field("items").([]any); len(list) != 1 {
		t.Errorf("%d batches are active", len(list))
	}
	document := w.get("/api/v1/openapi.yaml")
	if !strings.HasPrefix(document.body, "openapi:") || document.header.Get("Cache-Control") != "no-store" || document.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("the document begins with %q, with %v", start(document.body)[:20], document.header)
	}
}
