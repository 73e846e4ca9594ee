package github_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestACommentThatIsTooLongKeepsItsMarker(t *testing.T) {
	t.Parallel()
	const marker = "<!-- batchbot:sticky -->"
	for name, body := range map[string]string{
		"marker first": marker + strings.Repeat("🚀", 70000),
		"marker last":  strings.Repeat("ü", 70000) + marker,
		"no marker":    strings.Repeat("x", 65530),
	} {
		var sent string
		s := (&script{}).on("GET /user", 200, `{"id":1,"login":"batch-user"}`).
			on("GET /repos/acme/app/issues/7/comments", 200, `[]`).
			call("POST /repos/acme/app/issues/7/comments", func(req *http.Request) *http.Response {
				var in struct{ Body string }
				b, err := io.ReadAll(req.Body)
				if err != nil || json.Unmarshal(b, &in) != nil {
					t.Errorf("%s: sent %q, %v", name, b, err)
				}
				sent = in.Body
				return reply(201, `{"id":9}`)
			})
		id, err := adapter(t, s).UpsertComment(t.Context(), scripted, 7, marker, body, 0)
		if err != nil || id != 9 {
			t.Errorf("%s: %d, %v", name, id, err)
		}
		if utf8.RuneCountInString(sent) > 65536 || !strings.Contains(sent, marker) {
			t.Errorf("%s: sent %d characters, with marker: %v", name, utf8.RuneCountInString(sent), strings.Contains(sent, marker))
		}
	}
}

func TestAnUnchangedCommentIsNotWrittenAgain(t *testing.T) {
	t.Parallel()
	s := (&script{}).on("GET /user", 200, `{"id":1,"login":"batch-user"}`).
		on("GET /repos/acme/app/issues/7/comments", 200, `[{"id":9,"body":"<!-- m --> waiting","user":{"id":1,"login":"Batch-User"}}]`)
	if id, err := adapter(t, s).UpsertComment(t.Context(), scripted, 7, "<!-- m -->", "<!-- m --> waiting", 0); err != nil || id != 9 {
		t.Errorf("got %d, %v", id, err)
	}
}

func TestCommentsOfAllPagesAreListedOldestFirst(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 3, 1, 10, 0, 0, 999, time.UTC)
	comment := func(id int, at string) string {
		return fmt.Sprintf(`{"id":%d,"body":"x","created_at":%q,"issue_url":"https://ghe.example/api/v3/repos/acme/app/issues/7","user":{"id":2,"login":"ada","type":"User"}}`, id, at)
	}
	s := (&script{}).on("GET /user", 200, `{"id":1,"login":"batch-user"}`).
		call("GET /repos/acme/app/issues/comments", func(req *http.Request) *http.Response {
			q := req.URL.Query()
			if q.Get("since") != "2026-03-01T10:00:00Z" || q.Get("sort") != "created" || q.Get("direction") != "asc" {
				t.Errorf("asked for %s", req.URL.RawQuery)
			}
			if q.Get("page") == "2" {
				return reply(200, "["+comment(3, "2026-03-01T10:00:09Z")+"]")
			}
			// The first was written long ago and edited since: it is no new command.
			return reply(200, "["+comment(1, "2026-02-01T10:00:00Z")+","+comment(2, "2026-03-01T10:00:00Z")+"]",
				"Link", `<https://ghe.example/api/v3/repos/acme/app/issues/comments?page=2>; rel="next"`)
		})
	list, err := adapter(t, s).ListComments(t.Context(), scripted, since)
	if err != nil || len(list) != 2 || list[0].ID != 2 || list[1].ID != 3 || list[0].Number != 7 {
		t.Errorf("listed %+v, %v", list, err)
	}
}
