package api_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	description "github.com/batchbot/batchbot/api"
	"github.com/batchbot/batchbot/bot/api"
)

func TestWhoIsLetIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for what, authorization := range map[string]string{
		"nobody": "", "a guess": "Bearer board-token-012345678", "a prefix": "Bearer board-token", "more": "Bearer " + board + "0", "another scheme": "Basic " + board,
		"no scheme": board, "nothing": "Bearer ", "two": "Bearer " + board + " " + release,
	} {
		for _, path := range []string{"/api/v1/queues", "/api/v1/openapi.yaml", "/api/v1/nothing", "/api/"} {
			r := w.wants(401, "unauthorized", call{"", "GET", path, "", map[string]string{"Authorization": authorization}})
			if got := r.header.Get("WWW-Authenticate"); got != `Bearer realm="batchbot"` {
				t.Errorf("%s at %s is told %q", what, path, got)
			}
		}
	}
	for _, header := range []string{"bearer " + board, "Bearer  " + board} {
		w.wants(200, "", call{"", "GET", "/api/v1/queues", "", map[string]string{"Authorization": header}})
	}
	two, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/api/v1/queues", nil)
	w.must(err)
	two.Header["Authorization"] = []string{"Bearer " + board, "Bearer " + operator}
	response, err := client.Do(two)
	w.must(err)
	_ = response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("two Authorization headers are answered %d", response.StatusCode)
	}

	set, trainPath := w.drafts(w.opens(1)...), w.opensTrain("friday", 1)
	for _, c := range []struct {
		call
		needs string
	}{
		{call{board, "POST", "/api/v1/curated", `{}`, nil}, "write"},
		{call{board, "PUT", set + "/rows", `{"rows": []}`, whatever}, "write"},
		{call{board, "POST", set + "/submit", "", nil}, "write"},
		{call{board, "POST", set + "/approve", "", nil}, "write"},
		{call{board, "POST", set + "/reject", "", nil}, "write"},
		{call{board, "POST", set + "/cancel", "", nil}, "write"},
		{call{board, "POST", trainPath + "/seats/1", "", nil}, "write"},
		{call{board, "DELETE", trainPath + "/seats/1", "", nil}, "write"},
		{call{release, "POST", "/api/v1/trains", `{}`, nil}, "operator"},
		{call{release, "PATCH", trainPath, `{"seats": 3}`, nil}, "operator"},
		{call{release, "DELETE", trainPath, "", nil}, "operator"},
	} {
		if r := w.wants(403, "forbidden", c.call); !strings.Contains(r.text("detail"), "role "+c.needs+",") {
			t.Errorf("%s %s does not say which role it takes: %s", c.method, c.path, r.body)
		}
	}
	if w.get(set).text("status") != "DRAFT" || w.get(trainPath).text("seats") != "1" {
		t.Error("what was refused changed something")
	}
}

// Without tokens there is no API, and the answer says how there would be one.
func TestWithoutTokensItIsOff(t *testing.T) {
	t.Parallel()
	w := &world{TB: t, log: &lines{}}
	server := httptest.NewServer(api.New(api.Config{Document: description.OpenAPI}))
	t.Cleanup(server.Close)
	w.url = server.URL
	for _, path := range []string{"/api/v1/queues", "/api/v1/openapi.yaml", "/api/v1/trains", "/api/other"} {
		for _, token := range []string{"", board} {
			if r := w.wants(404, "api-off", call{token, "GET", path, "", nil}); !strings.Contains(r.text("detail"), "api.tokens") {
				t.Errorf("%s does not say how it is turned on: %s", path, r.body)
			}
		}
	}
}

func TestMethodsAndPaths(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	set := w.drafts(w.opens(1)...)
	for _, c := range []struct{ method, path, allow string }{
		{"POST", "/api/v1/queues", "GET, HEAD"}, {"PUT", "/api/v1/trains", "GET, HEAD, POST"}, {"GET", set + "/submit", "POST"}, {"HEAD", set + "/submit", "POST"},
		{"POST", set + "/rows", "PUT"}, {"OPTIONS", set, "GET, HEAD"}, {"PATCH", "/api/v1/trains/1/seats/2", "DELETE, POST"}, {"BREW", "/api/v1/trains/1", "DELETE, GET, HEAD, PATCH"},
	} {
		problem := "method-not-allowed"
		if c.method == "HEAD" {
			problem = ""
		}
		if r := w.wants(405, problem, call{operator, c.method, c.path, "", nil}); r.header.Get("Allow") != c.allow {
			t.Errorf("%s %s allows %q, want %q", c.method, c.path, r.header.Get("Allow"), c.allow)
		}
	}
	if r := w.wants(200, "", call{board, "HEAD", "/api/v1/queues", "", nil}); r.body != "" {
		t.Errorf("HEAD has the body %q", r.body)
	}
	for _, path := range []string{
		"/api/v1", "/api/v1/", "/api/v2/queues", "/api/v1/queues/", "/api/v1/queues/0", "/api/v1/queues/01", "/api/v1/queues/+1", "/api/v1/queues/one", "/api/v1/queues/99",
		"/api/v1/queues/99999999999999999999", "/api/v1/batches/7", "/api/v1/operations/7", "/api/v1/operations/" + strings.Repeat("7", 300), "/api/v1/trains/7", "/api/v1/curated/777",
	} {
		w.wants(404, "not-found", call{board, "GET", path, "", nil})
	}
	for _, path := range []string{"/api/v1/curated/777/submit", "/api/v1/trains/7/seats/1", "/api/v1/curated/777/cancel", "/api/v1/curated/777/approve", "/api/v1/curated/777/reject"} {
		w.wants(404, "not-found", call{release, "POST", path, "", nil})
	}
	for _, path := range []string{"/api/v1/trains/1/seats/0", "/api/v1/trains/1/seats/3000000000", "/api/v1/trains/7/seats/1"} {
		w.wants(404, "not-found", call{release, "DELETE", path, "", nil})
	}
	w.wants(404, "not-found", call{release, "PUT", "/api/v1/curated/777/rows", `{"rows": []}`, whatever})
	w.wants(404, "not-found", call{operator, "PATCH", "/api/v1/trains/7", `{"seats": 1}`, nil})
	w.wants(404, "not-found", call{operator, "DELETE", "/api/v1/trains/7", "", nil})

	for route := range w.counts {
		if strings.Contains(route, "BREW") || strings.Contains(route, "/7") || strings.Contains(route, "v2") {
			t.Errorf("what a client asked for became the label %q", route)
		}
	}
	if w.counts["GET /api/v1/queues 200"] != 0 || w.counts["HEAD /api/v1/queues 200"] != 1 || w.counts[" 404"] == 0 {
		t.Errorf("the answers were counted as %v", w.counts)
	}
}

func TestParametersOfLists(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, query := range []string{"limit=0", "limit=201", "limit=x", "limit=1&limit=2", "limmit=1", "queue=0", "queue=x", "live=maybe", "active=true", "%zz", "a;b"} {
		w.wants(400, "malformed", call{board, "GET", "/api/v1/curated?" + query, "", nil})
	}
	w.wants(400, "malformed", call{board, "GET", "/api/v1/queues?queue=1", "", nil})
	w.wants(400, "malformed", call{board, "GET", "/api/v1/batches?open=true", "", nil})
	w.wants(400, "malformed", call{board, "GET", "/api/v1/trains?live=true", "", nil})
}

// Only lists take parameters. Ignored, one would say that it was heeded.
func TestNothingElseTakesParameters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	set, trainPath := w.drafts(w.opens(1)...), w.opensTrain("friday", 1)
	paths := strings.NewReplacer("/curated/{id}", strings.TrimPrefix(set, "/api/v1"), "/trains/{id}", strings.TrimPrefix(trainPath, "/api/v1"), "{mr}", "1", "{id}", "1")
	lists := []string{"GET /api/v1/queues", "GET /api/v1/batches", "GET /api/v1/trains", "GET /api/v1/curated"}
	for _, route := range api.New(api.Config{}).Routes() {
		if slices.Contains(lists, route) {
			continue
		}
		method, path, _ := strings.Cut(route, " ")
		for _, query := range []string{"dry_run=true", "limit=1", "%zz"} {
			r := w.wants(400, "malformed", call{operator, method, paths.Replace(path) + "?" + query, "", whatever})
			if name, _, _ := strings.Cut(query, "="); !strings.Contains(r.text("detail"), name) {
				t.Errorf("%s does not name %s: %s", route, name, r.body)
			}
		}
	}
	if w.get(set).text("status") != "DRAFT" || w.get(trainPath).text("status") != "OPEN" {
		t.Error("what was refused changed something")
	}
}
