package gitlab_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/hosttest"
)

const notes = mr7 + "/notes"

func TestLinesThatGitLabWouldCarryOutAreMadeHarmless(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	number := w.OpenMR(hosttest.NewMR{Author: "bob", Branch: "b1", Title: "T", Files: map[string]string{"a.txt": "a\n"}})
	const text = "<!-- m -->\nYou wrote:\n/close\n  /merge\r\n/approve\nas in a/b and\n/batch why"
	if _, err := w.host.UpsertComment(t.Context(), w.repo, number, "<!-- m -->", text, 0); err != nil {
		t.Fatal(err)
	}
	mr, err := w.host.ReadMR(t.Context(), w.repo, number)
	if err != nil || mr.State != bot.MROpen {
		t.Errorf("read %+v, %v", mr, err)
	}
	if seen := w.Comments(number); len(seen) != 1 || seen[0].Body != "<!-- m -->\nYou wrote:\n\\/close\n  \\/merge\r\n\\/approve\nas in a/b and\n/batch why" {
		t.Errorf("people see %+v", seen)
	}
	// Descriptions are carried out as well.
	var bodies []any
	keep := func(req *http.Request) *http.Response {
		bodies = append(bodies, sent(t, req)["description"])
		return reply(201, `{"iid":7,"sha":"`+head+`"}`)
	}
	h := adapter(t, standing().call("POST ./merge_requests", keep).call("PUT "+mr7, keep))
	if _, err := h.OpenMR(t.Context(), scripted, bot.NewMR{Title: "T", Body: "/close", Source: "b", Target: "main"}); err != nil {
		t.Error(err)
	}
	if err := h.EditMR(t.Context(), scripted, 7, "T", "x\n/close"); err != nil {
		t.Error(err)
	}
	if !slices.Equal(bodies, []any{`\/close`, "x\n\\/close"}) {
		t.Errorf("sent %q", bodies)
	}
}

func TestACommentThatIsTooLongKeepsItsMarker(t *testing.T) {
	t.Parallel()
	const marker = "<!-- batchbot:sticky -->"
	for name, body := range map[string]string{
		"marker first": marker + strings.Repeat("🚀", 1_000_010),
		"marker last":  strings.Repeat("ü", 1_000_010) + marker,
		"no marker":    strings.Repeat("x", 999_990),
	} {
		var text string
		s := standing().on("GET "+notes, 200, "[]").call("POST "+notes, func(req *http.Request) *http.Response {
			text, _ = sent(t, req)["body"].(string)
			return reply(201, `{"id":9}`)
		})
		id, err := adapter(t, s).UpsertComment(t.Context(), scripted, 7, marker, body, 0)
		if err != nil || id != 9 {
			t.Errorf("%s: %d, %v", name, id, err)
		}
		if n := len([]rune(text)); n > 1_000_000 || !strings.Contains(text, marker) {
			t.Errorf("%s: sent %d characters, with marker: %v", name, n, strings.Contains(text, marker))
		}
	}
}

func TestOurNoteIsFoundOnLaterPages(t *testing.T) {
	t.Parallel()
	const copied = `{"id":1,"body":"<!-- m --> mine","author":{"id":21}}`
	const system = `{"id":2,"body":"<!-- m -->","system":true,"author":{"id":9}}`
	for body, edits := range map[string]int{"<!-- m --> waiting": 0, "<!-- m --> riding": 1} {
		s := standing().call("GET "+notes, func(req *http.Request) *http.Response {
			q := req.URL.Query()
			if q.Get("sort") != "asc" || q.Get("order_by") != "created_at" || q.Get("per_page") != "100" {
				t.Errorf("asked for %s", req.URL.RawQuery)
			}
			if q.Get("page") == "2" {
				return reply(200, `[{"id":3,"body":"<!-- m --> waiting","author":{"id":9}}]`)
			}
			return reply(200, list(copied, system), "X-Next-Page", "2")
		}).on("PUT "+notes+"/3", 200, `{"id":3}`)
		if id, err := adapter(t, s).UpsertComment(t.Context(), scripted, 7, "<!-- m -->", body, 0); err != nil || id != 3 || s.times("PUT "+notes+"/3") != edits {
			t.Errorf("%s: got %d, %v, asked %v", body, id, err, s.seen)
		}
	}
}

func TestANoteThatWasNotWrittenIsNoNote(t *testing.T) {
	t.Parallel()
	// GitLab answers 202 without an id when it took the whole text for orders.
	s := standing().on("GET "+notes, 200, "[]").on("POST "+notes, 202, `{"commands_changes":{}}`)
	if id, err := adapter(t, s).UpsertComment(t.Context(), scripted, 7, "<!-- m -->", "x", 0); err == nil {
		t.Errorf("got %d", id)
	}
}

func TestPitfall39AReactionThatCannotBeGivenIsNoError(t *testing.T) {
	t.Parallel()
	const award = "POST " + notes + "/5/award_emoji"
	for _, status := range []int{400, 403, 404, 409, 422} { // 404: given already, or gone
		s := standing().on(award, status, `{"message":"no"}`)
		if err := adapter(t, s).React(t.Context(), scripted, 7, bot.CommentIssue, 5, bot.ReactionSeen); err != nil {
			t.Errorf("%d: %v", status, err)
		}
	}
	if err := adapter(t, standing().on(award, 502, "")).React(t.Context(), scripted, 7, bot.CommentIssue, 5, bot.ReactionSeen); err == nil {
		t.Error("502: nobody tries again")
	}
	for reaction, want := range map[bot.Reaction]string{bot.ReactionSeen: "eyes", bot.ReactionDone: "thumbsup", bot.ReactionRefused: "thumbsdown", bot.ReactionConfused: "confused"} {
		s := standing().call(award, func(req *http.Request) *http.Response {
			if name := sent(t, req)["name"]; name != want {
				t.Errorf("%s is sent as %v", reaction, name)
			}
			return reply(201, `{"id":1}`)
		})
		if err := adapter(t, s).React(t.Context(), scripted, 7, bot.CommentIssue, 5, reaction); err != nil || s.times(award) != 1 {
			t.Errorf("%s: %v", reaction, err)
		}
	}
}

func TestCommentsAreFoundByWhatWasUpdated(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 3, 1, 10, 0, 0, 999, time.UTC)
	note := func(id int, at, more string) string {
		return fmt.Sprintf(`{"id":%d,"body":"x","created_at":%q,"author":{"id":21,"username":"cleo"}%s}`, id, at, more)
	}
	s := standing().call("GET ./merge_requests", func(req *http.Request) *http.Response {
		q := req.URL.Query()
		if q.Get("updated_after") != "2026-03-01T10:00:00Z" || q.Get("state") != "all" || q.Get("order_by") != "updated_at" || q.Get("sort") != "asc" {
			t.Errorf("asked for %s", req.URL.RawQuery)
		}
		return reply(200, list(mr(nil), mr(map[string]any{"iid": 8, "state": "merged"}), mr(map[string]any{"iid": 9})))
	}).
		call("GET "+notes, func(req *http.Request) *http.Response {
			if req.URL.Query().Get("sort") != "desc" || req.URL.Query().Get("page") != "1" {
				t.Errorf("asked for %s", req.URL.RawQuery)
			}
			return reply(200, list(note(14, "2026-03-01T10:00:09.500Z", ""), note(13, "2026-03-01T10:00:05Z", `,"internal":true`),
				note(12, "2026-03-01T10:00:04Z", `,"system":true`), note(10, "2026-03-01T10:00:00.100Z", ""), note(9, "2026-03-01T09:59:59Z", "")), "X-Next-Page", "2")
		}).
		on("GET ./merge_requests/8/notes", 200, list(note(11, "2026-03-01T10:00:00.900Z", ""), `{"id":15,"body":"own","created_at":"2026-03-01T10:00:09Z","author":{"id":9,"username":"batcher"}}`)).
		on("GET ./merge_requests/9/notes", 404, "{}") // deleted since
	got, err := adapter(t, s).ListComments(t.Context(), scripted, since)
	if err != nil {
		t.Fatal(err)
	}
	var ids []int64
	for _, c := range got {
		ids = append(ids, c.ID)
		// A webhook has seconds only: the same comment has the same place in the order.
		if c.CreatedAt.Nanosecond() != 0 || c.Number == 0 || c.Kind != bot.CommentIssue || c.Author.Bot != (c.ID == 15) {
			t.Errorf("listed %+v", c)
		}
	}
	if !slices.Equal(ids, []int64{10, 11, 14, 15}) {
		t.Errorf("listed %v", ids)
	}
}

func TestNothingIsMissedWhileTheListMoves(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	const total = 250
	updated := make([]time.Time, total+1)
	for i := 1; i <= total; i++ {
		updated[i] = start.Add(time.Duration(i/130) * time.Second) // more than a page of one moment
	}
	asked := 0
	s := standing().call("GET ./merge_requests", func(req *http.Request) *http.Response {
		q := req.URL.Query()
		if asked++; asked == 2 { // what was read is updated, and goes to the end
			updated[1], updated[2] = start.Add(time.Hour), start.Add(2*time.Hour)
		}
		var after time.Time
		if v := q.Get("updated_after"); v != "" {
			after, _ = time.Parse(time.RFC3339, v)
		}
		var numbers []int
		for i := 1; i <= total; i++ {
			if !updated[i].Before(after) {
				numbers = append(numbers, i)
			}
		}
		slices.SortStableFunc(numbers, func(a, b int) int { return updated[a].Compare(updated[b]) })
		page, err := strconv.Atoi(q.Get("page"))
		if err != nil {
			t.Error(err)
		}
		from := min((page-1)*100, len(numbers))
		var items []string
		for _, n := range numbers[from:min(from+100, len(numbers))] {
			items = append(items, mr(map[string]any{"iid": n, "updated_at": updated[n].Format(time.RFC3339)}))
		}
		return reply(200, list(items...))
	})
	for i := 1; i <= total; i++ {
		s.on(fmt.Sprintf("GET ./merge_requests/%d/notes", i), 200, fmt.Sprintf(`[{"id":%d,"body":"x","created_at":"2026-03-01T10:00:00Z","author":{"id":21,"username":"cleo"}}]`, i))
	}
	got, err := adapter(t, s).ListComments(t.Context(), scripted, start)
	if err != nil || len(got) != total {
		t.Errorf("listed %d of %d in %d pages, %v", len(got), total, asked, err)
	}
}
