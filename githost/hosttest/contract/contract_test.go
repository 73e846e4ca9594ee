package contract

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/batchbot/batchbot/githost/hosttest"
)

// recorder is a test that remembers what failed it.
type recorder struct {
	testing.TB
	said []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.said = append(r.said, fmt.Sprintf(format, args...))
}

const api = "https://ghe.example/api/v3/repos/acme/app"

// exchange sends a request to a host that gives an answer, and returns what failed.
func exchange(t *testing.T, wrap func(testing.TB, http.RoundTripper) http.RoundTripper, method, url, body string, status int, answer string) []string {
	t.Helper()
	r := &recorder{TB: t}
	way := wrap(r, roundTrip(func(*http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(status)
		_, err := w.WriteString(answer)
		return w.Result(), err
	}))
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, in)
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := way.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return r.said
}

const merged = `{"sha":"6dcb09b5b57875f334f61aebed695e2e4193db5e","merged":true,"message":"Pull Request successfully merged"}`

func TestWhatGitHubDescribesPasses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, url, body string
		status            int
		answer            string
	}{
		{"PUT", api + "/pulls/7/merge", `{"sha":"6dcb09b","merge_method":"merge","commit_title":"Batch 7"}`, 200, merged},
		{"PUT", "https://api.github.com/repos/acme/app/pulls/7/merge", `{"merge_method":"squash"}`, 409, `{"message":"Head branch was modified","documentation_url":"https://docs.github.com/rest","status":"409"}`},
		{"GET", api + "/git/ref/heads/batchbot/7-0badcafe/main", "", 404, `{"message":"Not Found"}`},
		{"GET", api + "/commits/feature%2Fone/check-runs?filter=latest&per_page=100", "", 200, `{"total_count":0,"check_runs":[]}`},
		{"GET", api + "/rules/branches/rel%2F1", "", 200, `[{"type":"required_linear_history"}]`},
		{"GET", "https://ghe.example/api/v3/repositories/4711", "", 200, `{"anything":true}`},
		{"POST", "https://ghe.example/api/graphql", `{"query":"{}"}`, 200, `{"data":null}`},
		{"GET", api + "/pulls/7/reviews", "", 502, ``},
	} {
		if said := exchange(t, Transport, c.method, c.url, c.body, c.status, c.answer); len(said) > 0 {
			t.Errorf("%s %s: %v", c.method, c.url, said)
		}
	}
}

func TestWhatGitHubDoesNotDescribeFails(t *testing.T) {
	t.Parallel()
	run := `{"name":"batch","head_sha":"6dcb09b","output":{"title":"t","summary":"s","colour":"red"}}`
	for name, c := range map[string]struct {
		method, url, body string
		status            int
		answer            string
		says              string
	}{
		"a wrong enum":              {"PUT", api + "/pulls/7/merge", `{"merge_method":"fast-forward"}`, 200, merged, "/merge_method: value is not one of the allowed values"},
		"a wrong type":              {"PUT", api + "/pulls/7/merge", `{"sha":7}`, 200, merged, "/sha: value must be a string"},
		"an unknown key":            {"PUT", api + "/pulls/7/merge", `{"expected_head":"6dcb09b"}`, 200, merged, "/expected_head: GitHub does not know this key"},
		"an unknown key below":      {"POST", api + "/check-runs", run, 403, `{"message":"no"}`, "/output/colour: GitHub does not know this key"},
		"a missing key":             {"POST", api + "/issues/7/comments", `{}`, 403, `{"message":"no"}`, `property "body" is missing`},
		"a missing body":            {"POST", api + "/pulls", "", 403, `{"message":"no"}`, "the body is missing"},
		"a body too many":           {"DELETE", api + "/issues/comments/9", `{"why":"x"}`, 404, `{"message":"Not Found"}`, "GitHub takes no body here"},
		"an unknown parameter":      {"GET", api + "/pulls?branch=main", "", 200, `[]`, "query parameter branch: GitHub does not know it"},
		"a wrong parameter":         {"GET", api + "/pulls?state=merged", "", 200, `[]`, "query parameter state: value is not one of the allowed values"},
		"a number that is none":     {"GET", api + "/pulls/seven", "", 404, `{"message":"Not Found"}`, "path parameter pull_number"},
		"no such operation":         {"POST", api + "/pulls/7/land", `{}`, 200, `{}`, "no such operation"},
		"a missing field":           {"PUT", api + "/pulls/7/merge", `{}`, 200, `{"sha":"6dcb09b","merged":true}`, `answer 200: property "message" is missing`},
		"a field GitHub has not":    {"PUT", api + "/pulls/7/merge", `{}`, 200, merged[:len(merged)-1] + `,"tree":"x"}`, "/tree: answer 200: GitHub does not know this key"},
		"an unlisted status":        {"PUT", api + "/pulls/7/merge", `{}`, 201, merged, "answer 201: GitHub does not list this status"},
		"no body where one belongs": {"PUT", api + "/pulls/7/merge", `{}`, 200, "", "answer 200 is no JSON"},
		"a refusal without words":   {"POST", api + "/pulls", `{"head":"b1","base":"main","title":"T"}`, 422, `{"errors":[]}`, `property "message" is missing`},
	} {
		said := exchange(t, Transport, c.method, c.url, c.body, c.status, c.answer)
		if !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, c.says) }) {
			t.Errorf("%s: said %q, want %q", name, said, c.says)
		}
	}
}

func TestAScriptedAnswerIsCompletedAndStillChecked(t *testing.T) {
	t.Parallel()
	if said := exchange(t, Scripted, "GET", api+"/pulls/7", "", 200, `{"number":7,"state":"open"}`); len(said) > 0 {
		t.Errorf("said %q", said)
	}
	for answer, says := range map[string]string{
		`{"number":7,"state":"merged"}`:           "/state: answer 200: value is not one of the allowed values",
		`{"number":"7"}`:                          "/number: answer 200: value must be an integer",
		`{"number":7,"is_merged":true}`:           "/is_merged: answer 200: GitHub does not know this key",
		`{"number":7,"base":{"branch":"main"}}`:   "/base/branch: answer 200: GitHub does not know this key",
		`{"number":7,"mergeable_state":["dirty"]`: "is no JSON",
	} {
		said := exchange(t, Scripted, "GET", api+"/pulls/7", "", 200, answer)
		if !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, says) }) {
			t.Errorf("%s: said %q, want %q", answer, said, says)
		}
	}
}

func TestAHostOnASocketIsChecked(t *testing.T) {
	t.Parallel()
	r := &recorder{TB: t}
	server := httptest.NewServer(Handler(r, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"total_count":0}`)
	})))
	defer server.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/repos/acme/app/commits/main/check-runs", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.Body.Close() != nil || string(body) != `{"total_count":0}` {
		t.Errorf("answered %q, %v", body, err)
	}
	if len(r.said) != 1 || !strings.Contains(r.said[0], `property "check_runs" is missing`) {
		t.Errorf("said %q", r.said)
	}
}

func TestAWebhookThatLacksSomethingFails(t *testing.T) {
	t.Parallel()
	full := Excerpt(t, "issue_comment", []byte(`{"action":"created","comment":{"body":"/batch"}}`))
	for name, c := range map[string]struct {
		event string
		edit  func(payload map[string]any)
		says  string
	}{
		"nothing":         {"issue_comment", func(map[string]any) {}, ""},
		"a missing field": {"issue_comment", func(p map[string]any) { delete(p["comment"].(map[string]any), "user") }, `property "user" is missing`},
		"a wrong enum":    {"issue_comment", func(p map[string]any) { p["issue"].(map[string]any)["state"] = "merged" }, "not one of the allowed values"},
		"an unknown key":  {"issue_comment", func(p map[string]any) { p["comment"].(map[string]any)["text"] = "x" }, "/comment/text: GitHub does not know this key"},
		"another action":  {"issue_comment", func(p map[string]any) { p["action"] = "approved" }, "no such webhook"},
		"another event":   {"pull_request", func(map[string]any) {}, "no such webhook"},
	} {
		var payload map[string]any
		if err := json.Unmarshal(full, &payload); err != nil {
			t.Fatal(err)
		}
		c.edit(payload)
		body, err := json.Marshal(payload)
		if err != nil {
			t.Fatal(err)
		}
		r := &recorder{TB: t}
		Webhook(r, c.event, body)
		if said := strings.Join(r.said, "\n"); (said == "") != (c.says == "") || !strings.Contains(said, c.says) {
			t.Errorf("%s: said %q, want %q", name, said, c.says)
		}
	}
}

// What lies in the folder is what the update wrote, and every exception has a reason.
func TestTheDescriptionsAreAsTheUpdateWroteThem(t *testing.T) {
	t.Parallel()
	b, err := hosttest.OpenAPI.ReadFile(folder + "sources.json")
	if err != nil {
		t.Fatal(err)
	}
	var lock struct {
		Sources []struct {
			To   string   `json:"to"`
			SHA  string   `json:"to_sha256"`
			Keep []string `json:"keep"`
		} `json:"sources"`
	}
	if err := json.Unmarshal(b, &lock); err != nil {
		t.Fatal(err)
	}
	d, err := github()
	if err != nil {
		t.Fatal(err)
	}
	var have, want []string
	for _, o := range d.operations {
		have = append(have, o.name)
	}
	have = slices.AppendSeq(have, maps.Keys(d.webhooks.Webhooks))
	for _, s := range lock.Sources {
		file, err := hosttest.OpenAPI.ReadFile(folder + s.To)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(file); hex.EncodeToString(sum[:]) != s.SHA {
			t.Errorf("%s was edited by hand: change sources.json or exceptions.json, and run `make contract-update`", s.To)
		}
		want = append(want, s.Keep...)
	}
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Errorf("described: %v\nsources.json keeps: %v", have, want)
	}
	if err := d.api.Validate(t.Context()); err != nil {
		t.Error(err)
	}
	for _, u := range d.exceptions.Undescribed {
		if u.Why == "" {
			t.Errorf("nobody says why %s is undescribed", u.Request)
		}
	}
	for _, s := range d.exceptions.Statuses {
		if s.Why == "" {
			t.Errorf("nobody says why %s answers %d", s.Request, s.Status)
		}
	}
	for _, f := range d.exceptions.Fields {
		if f.Why == "" {
			t.Errorf("nobody says why %s in %s is odd", f.At, f.In)
		}
	}
}
