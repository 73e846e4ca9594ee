package fakehost

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// originalPath is the context key of a request's path before prefixes were cut.
type originalPath struct{}

// routes joins git, control and the API, which lives below / and /api/v3/, on a
// GitLab below /api/v4/.
func (h *Host) routes() http.Handler {
	api, control := h.gh.routes(), h.controlRoutes()
	if h.gl != nil {
		api = h.gl.routes()
	}
	return h.faulty(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if repo, service, ok := gitRequest(req.URL.Path); ok {
			h.serveGit(w, req, repo, service)
			return
		}
		if strings.HasPrefix(req.URL.Path, controlPrefix) {
			control.ServeHTTP(w, req)
			return
		}
		if h.gl != nil {
			api.ServeHTTP(w, req)
			return
		}
		req = req.WithContext(context.WithValue(req.Context(), originalPath{}, req.URL.Path))
		for _, prefix := range []string{"/api/v3", "/api"} {
			if strings.HasPrefix(req.URL.Path, prefix+"/") {
				http.StripPrefix(prefix, api).ServeHTTP(w, req)
				return
			}
		}
		api.ServeHTTP(w, req)
	}))
}

const repoPath = "/repos/{owner}/{repo}"

func (g *github) routes() http.Handler {
	const repo = repoPath
	mux, comments := http.NewServeMux(), g.commentRoutes()
	on := func(pattern string, f endpoint) { mux.Handle(pattern, g.handle(f)) }

	on("GET "+repo, getRepo)
	on("GET /repositories/{id}", getRepoByID)
	on("GET "+repo+"/branches/{rest...}", getBranch)
	on("GET "+repo+"/rules/branches/{branch...}", getRules)
	on("GET "+repo+"/rulesets/{id}", getRuleset)
	on("GET "+repo+"/git/ref/{ref...}", getRef)
	on("DELETE "+repo+"/git/refs/{ref...}", deleteRef)
	on("GET "+repo+"/contents/{path...}", getContents)
	on("GET "+repo+"/compare/{range...}", compare)
	on("GET "+repo+"/collaborators/{login}/permission", getPermission)

	on("GET "+repo+"/pulls", listPulls)
	on("POST "+repo+"/pulls", createPull)
	on("GET "+repo+"/pulls/{number}", getPull)
	on("PATCH "+repo+"/pulls/{number}", editPull)
	on("GET "+repo+"/pulls/{number}/merge", isMerged)
	on("PUT "+repo+"/pulls/{number}/merge", mergePull)
	on("GET "+repo+"/pulls/{number}/commits", listPullCommits)
	on("GET "+repo+"/pulls/{number}/files", listPullFiles)
	on("GET "+repo+"/pulls/{number}/reviews", listReviews)
	on("POST "+repo+"/pulls/{number}/reviews", createReview)
	on("POST "+repo+"/pulls/{number}/reviews/{id}/events", submitReview)
	on("PUT "+repo+"/pulls/{number}/reviews/{id}/dismissals", dismissReview)

	on("GET "+repo+"/issues/{number}", getIssue)
	on("PATCH "+repo+"/issues/{number}", editIssue)
	on("POST "+repo+"/issues", createIssue)
	on("GET "+repo+"/issues/{number}/comments", listComments)
	on("POST "+repo+"/issues/{number}/comments", createComment)
	on("POST "+repo+"/issues/{number}/reactions", reactToIssue)

	on("GET "+repo+"/commits/{rest...}", getCommitThing)
	on("POST "+repo+"/statuses/{sha}", createStatus)
	on("POST "+repo+"/check-runs", createCheckRun)
	on("GET "+repo+"/check-runs/{id}", getCheckRun)
	on("PATCH "+repo+"/check-runs/{id}", updateCheckRun)
	on("POST "+repo+"/check-runs/{id}/rerequest", rerequestCheckRun)
	on("POST "+repo+"/check-suites/{id}/rerequest", rerequestCheckSuite)

	on("GET "+repo+"/installation", getRepoInstallation)
	on("GET /app", getApp)
	on("GET /app/installations", listInstallations)
	on("GET /app/installations/{id}", getInstallation)
	on("POST /app/installations/{id}/access_tokens", createToken)
	on("GET /app/hook/deliveries", listHookDeliveries)
	on("POST /app/hook/deliveries/{id}/attempts", redeliverHook)
	on("GET /installation/repositories", listInstallationRepos)

	on("GET /user", getUser)
	on("GET /users/{login}", getUserByLogin)
	on("GET /rate_limit", getRateLimit)
	on("GET /meta", getMeta)
	on("POST /graphql", graphQL)
	on("/", func(*call) (int, any, error) { return 0, nil, errNotFound })
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		req = g.byID(req)
		if p := strings.Split(req.URL.Path, "/"); len(p) > 5 && p[1] == "repos" && p[4] == "issues" && p[5] == "comments" {
			comments.ServeHTTP(w, req)
			return
		}
		mux.ServeHTTP(w, req)
	})
}

// byID turns /repositories/{id}/… into /repos/{owner}/{repo}/…
func (g *github) byID(req *http.Request) *http.Request {
	id, rest, ok := strings.Cut(strings.TrimPrefix(req.URL.EscapedPath(), "/repositories/"), "/")
	if !ok || !strings.HasPrefix(req.URL.Path, "/repositories/") {
		return req
	}
	g.h.mu.Lock()
	defer g.h.mu.Unlock()
	for _, r := range g.h.repos {
		if strconv.FormatInt(r.ID, 10) != id {
			continue
		}
		to, err := url.Parse("/repos/" + r.fullName() + "/" + rest)
		if err != nil {
			return req
		}
		to.RawQuery = req.URL.RawQuery
		req = req.Clone(req.Context())
		req.URL = to
	}
	return req
}

// commentRoutes stand apart: issues/comments/{id} and issues/{number}/comments
// overlap, which one ServeMux refuses.
func (g *github) commentRoutes() http.Handler {
	mux := http.NewServeMux()
	on := func(pattern string, f endpoint) { mux.Handle(pattern, g.handle(f)) }
	const repo = repoPath
	on("GET "+repo+"/issues/comments", listAllComments)
	on("GET "+repo+"/issues/comments/{id}", getComment)
	on("PATCH "+repo+"/issues/comments/{id}", editComment)
	on("DELETE "+repo+"/issues/comments/{id}", deleteComment)
	on("GET "+repo+"/issues/comments/{id}/reactions", listReactions)
	on("POST "+repo+"/issues/comments/{id}/reactions", reactToComment)
	on("/", func(*call) (int, any, error) { return 0, nil, errNotFound })
	return mux
}

// RoundTripper answers requests by calling the handler in the caller's
// goroutine, whatever host they name: no sockets, nothing left behind.
func (h *Host) RoundTripper() http.RoundTripper { return roundTripper{h.http} }

type roundTripper struct{ handler http.Handler }

func (t roundTripper) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	// What a server does when a handler ends the connection.
	defer func() {
		r := recover()
		if ended, ok := r.(error); ok && errors.Is(ended, http.ErrAbortHandler) {
			resp, err = nil, cmp.Or(req.Context().Err(), io.ErrUnexpectedEOF)
		} else if r != nil {
			panic(r)
		}
	}()
	if req.Body != nil {
		defer req.Body.Close()
	}
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	in := req.Clone(req.Context())
	in.RequestURI = req.URL.RequestURI()
	in.RemoteAddr = "127.0.0.1:0"
	if in.Host == "" {
		in.Host = req.URL.Host
	}
	if in.Body == nil {
		in.Body = http.NoBody
	}
	w := &recorder{header: http.Header{}}
	t.handler.ServeHTTP(w, in)
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return &http.Response{
		Status:        fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)),
		StatusCode:    w.status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        w.header,
		Body:          io.NopCloser(bytes.NewReader(w.body.Bytes())),
		ContentLength: int64(w.body.Len()),
		Request:       req,
	}, nil
}

// recorder keeps an answer in memory.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header { return w.header }

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *recorder) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}
