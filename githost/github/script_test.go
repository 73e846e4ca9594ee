package github_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/github"
	"github.com/batchbot/batchbot/githost/hosttest/contract"
)

// nobody is a host that cannot be reached.
type nobody struct{}

func (nobody) RoundTrip(*http.Request) (*http.Response, error) { return nil, errNobody }

// script is a host that answers as told, for what a living one does rarely. What it was not told of is not found.
type script struct {
	mu      sync.Mutex
	answers map[string][]func(*http.Request) *http.Response // "METHOD /path" → in order, the last one for ever
	seen    []string
}

// on adds an answer to a kind of request; path is below the API's root.
func (s *script) on(request string, status int, body string, header ...string) *script {
	return s.call(request, func(*http.Request) *http.Response { return reply(status, body, header...) })
}

func (s *script) call(request string, f func(*http.Request) *http.Response) *script {
	if s.answers == nil {
		s.answers = map[string][]func(*http.Request) *http.Response{}
	}
	s.answers[request] = append(s.answers[request], f)
	return s
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
	request := req.Method + " " + strings.TrimPrefix(req.URL.EscapedPath(), "/api/v3")
	s.seen = append(s.seen, request)
	answers := s.answers[request]
	switch len(answers) {
	case 0:
		return reply(404, `{"message":"Not Found"}`), nil
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
		if r == request {
			n++
		}
	}
	return n
}

// tokens answers requests for installation tokens.
func (s *script) tokens(installation int) *script {
	return s.call(fmt.Sprintf("POST /app/installations/%d/access_tokens", installation), func(*http.Request) *http.Response {
		return reply(201, fmt.Sprintf(`{"token":"ghs_secret%d","expires_at":%q}`, installation, time.Now().Add(time.Hour).Format(time.RFC3339)))
	})
}

// adapter is an adapter with a token in front of a script.
func adapter(t *testing.T, s *script) *github.Host {
	t.Helper()
	h, err := github.New(github.Config{
		Name: "hub", APIURL: "https://ghe.example", Token: "ghp_secret", WebhookSecrets: []bot.Secret{secret}, HTTPTransport: contract.Scripted(t, s),
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// appAdapter is an adapter as App 1 in front of a script.
func appAdapter(t *testing.T, s *script) *github.Host {
	t.Helper()
	_, pem := appKey()
	h, err := github.New(github.Config{
		Name: "hub", APIURL: "https://ghe.example", AppID: 1, PrivateKey: pem, WebhookSecrets: []bot.Secret{secret}, HTTPTransport: contract.Scripted(t, s),
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

var scripted = bot.Repository{ID: 1, RepositoryRef: bot.RepositoryRef{Host: "hub", ExternalID: 4711, Path: path, Installation: 5, DefaultBranch: "main"}}

const (
	head  = "6dcb09b5b57875f334f61aebed695e2e4193db5e"
	other = "9049f1265b7d61be4a8904a9a27120d2064dab3b"
	pull7 = "/repos/acme/app/pulls/7"
)

// pulls is the JSON of a list of pull request 7 alone, which is a shorter form.
func pulls(changes map[string]any) string {
	var pr map[string]any
	if err := json.Unmarshal([]byte(pull(changes)), &pr); err != nil {
		panic(err)
	}
	for _, key := range []string{"merged", "mergeable", "mergeable_state"} {
		delete(pr, key)
	}
	b, err := json.Marshal([]any{pr})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// pull is the JSON of pull request 7 with changes to its top level.
func pull(changes map[string]any) string {
	pr := map[string]any{
		"number": 7, "state": "open", "merged": false, "title": "Batch", "draft": false, "mergeable": true, "mergeable_state": "clean",
		"user": map[string]any{"id": 1, "login": "batchbot[bot]", "type": "Bot"},
		"head": map[string]any{"ref": "batchbot/7-0badcafe/main", "sha": head, "repo": map[string]any{"id": 4711}},
		"base": map[string]any{"ref": "main", "sha": other, "repo": map[string]any{"id": 4711}},
	}
	maps.Copy(pr, changes)
	b, err := json.Marshal(pr)
	if err != nil {
		panic(err)
	}
	return string(b)
}
