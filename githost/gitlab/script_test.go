package gitlab_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/gitlab"
)

const (
	path   = "acme/team/app"
	secret = "s3cret"
	token  = "glpat-secret"
)

var errNobody = errors.New("nobody answers")

// nobody is a host that cannot be reached.
type nobody struct{}

func (nobody) RoundTrip(*http.Request) (*http.Response, error) { return nil, errNobody }

// script is a host that answers as told, for what a living one does rarely. What it was not told of is not found.
type script struct {
	mu      sync.Mutex
	answers map[string][]func(*http.Request) *http.Response // "METHOD path" → in order, the last one for ever
	seen    []string
}

// on adds an answer to a kind of request; path is below the API's root, and one that begins with a dot is below the project.
func (s *script) on(request string, status int, body string, header ...string) *script {
	return s.call(request, func(*http.Request) *http.Response { return reply(status, body, header...) })
}

func (s *script) call(request string, f func(*http.Request) *http.Response) *script {
	if s.answers == nil {
		s.answers = map[string][]func(*http.Request) *http.Response{}
	}
	request = full(request)
	s.answers[request] = append(s.answers[request], f)
	return s
}

func full(request string) string {
	method, at, _ := strings.Cut(request, " ")
	if rest, ok := strings.CutPrefix(at, "./"); ok {
		at = "projects/4711/" + rest
	}
	return method + " " + at
}

func reply(status int, body string, header ...string) *http.Response {
	resp := &http.Response{StatusCode: status, Status: fmt.Sprint(status, " ", http.StatusText(status)), Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
	for i := 0; i+1 < len(header); i += 2 {
		resp.Header.Set(header[i], header[i+1])
	}
	return resp
}

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer req.Body.Close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	request := req.Method + " " + strings.TrimPrefix(req.URL.EscapedPath(), "/api/v4/")
	s.seen = append(s.seen, request)
	answers := s.answers[request]
	switch len(answers) {
	case 0:
		return reply(404, `{"message":"404 Not found"}`), nil
	case 1:
	default:
		s.answers[request] = answers[1:]
	}
	resp := answers[0](req)
	if resp == nil {
		return nil, errNobody
	}
	resp.Request = req
	return resp, nil
}

// times counts requests of a kind.
func (s *script) times(request string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	var n int
	for _, r := range s.seen {
		if r == full(request) {
			n++
		}
	}
	return n
}

// adapter is an adapter in front of a script.
func adapter(t *testing.T, s http.RoundTripper) *gitlab.Host {
	t.Helper()
	h, err := gitlab.New(gitlab.Config{
		Name: "lab", APIURL: "https://gitlab.example", Token: token, WebhookSecrets: []bot.Secret{secret}, HTTPTransport: s,
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// standing is a host on which the project is, the bot is user 9, and nothing else is.
func standing() *script {
	return (&script{}).on("GET projects/4711", 200, `{"id":4711,"path_with_namespace":"acme/team/app","default_branch":"main"}`).
		on("GET user", 200, `{"id":9,"username":"project_4711_bot_0123"}`).on("GET ./members/all/9", 200, `{"access_level":40,"state":"active"}`)
}

var scripted = bot.Repository{ID: 1, RepositoryRef: bot.RepositoryRef{Host: "lab", ExternalID: 4711, Path: path, DefaultBranch: "main"}}

const (
	head  = "6dcb09b5b57875f334f61aebed695e2e4193db5e"
	other = "9049f1265b7d61be4a8904a9a27120d2064dab3b"
	mr7   = "./merge_requests/7"
)

// mr is the JSON of merge request 7 with changes to its top level.
func mr(changes map[string]any) string {
	v := map[string]any{
		"id": 93, "iid": 7, "project_id": 4711, "state": "opened", "title": "Batch", "description": "", "draft": false,
		"source_branch": "batchbot/7-0badcafe/main", "target_branch": "main", "source_project_id": 4711, "target_project_id": 4711,
		"sha": head, "merge_commit_sha": nil, "squash_commit_sha": nil, "squash": false, "squash_on_merge": false,
		"detailed_merge_status": "mergeable", "merge_status": "can_be_merged", "has_conflicts": false,
		"author": map[string]any{"id": 20, "username": "bob"}, "web_url": "https://gitlab.example/acme/team/app/-/merge_requests/7",
		"updated_at": "2026-03-01T10:00:00.500Z", "created_at": "2026-03-01T10:00:00.000Z",
		"diff_refs": map[string]any{"base_sha": other, "head_sha": head, "start_sha": other},
	}
	maps.Copy(v, changes)
	return encode(v)
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// sent reads the JSON body of a request.
func sent(t *testing.T, req *http.Request) map[string]any {
	t.Helper()
	b, err := io.ReadAll(req.Body)
	var v map[string]any
	if err != nil || json.Unmarshal(b, &v) != nil {
		t.Errorf("sent %q, %v", b, err)
	}
	return v
}
