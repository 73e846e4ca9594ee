package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// Root begins every path of the API.
const Root = "/api/"

// timeLimit is for everything one request takes, host calls and the dry merge of a set included: within the server's time for writing.
const timeLimit = 25 * time.Second

// Role is what a token allows. Each role allows what those before it do.
type Role string

// The roles.
const (
	RoleRead     Role = "read"     // look at everything
	RoleWrite    Role = "write"    // seats and curated batches
	RoleOperator Role = "operator" // trains
)

// includes reports whether r allows what needed allows. A role that is none allows nothing.
func (r Role) includes(needed Role) bool {
	roles := []Role{RoleRead, RoleWrite, RoleOperator}
	have, need := slices.Index(roles, r), slices.Index(roles, needed)
	return have >= 0 && need >= 0 && have >= need
}

// Token is one bearer token.
type Token struct {
	Name   string // who acts: "api:NAME"
	Role   Role
	Secret bot.Secret // 16 characters or more
}

// Config is what an API needs.
type Config struct {
	Tokens   []Token // none: the API is off
	Store    Store
	Seats    Seats
	Trains   Trains
	Desk     Desk
	Document []byte // the OpenAPI document, as served

	IsMissing func(error) bool               // the store's error for a row that does not exist
	Report    func(route string, status int) // called for every answer; route "" is none that exists; nil: nobody
	NewKey    func() string                  // for requests without an Idempotency-Key; nil: random
	Logger    *slog.Logger                   // nil: silent
}

// API answers requests under Root. It is safe for use by several goroutines.
type API struct {
	Config
	mux    *http.ServeMux
	hashes [][sha256.Size]byte // of the tokens' secrets, in their order
}

// New returns an API with the defaults filled in.
func New(c Config) *API {
	if c.IsMissing == nil {
		c.IsMissing = func(err error) bool { return errors.Is(err, bot.ErrNotFound) }
	}
	if c.Report == nil {
		c.Report = func(string, int) {}
	}
	if c.NewKey == nil {
		c.NewKey = randomKey
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	a := &API{Config: c, mux: http.NewServeMux()}
	for _, t := range c.Tokens {
		a.hashes = append(a.hashes, sha256.Sum256([]byte(t.Secret.Reveal())))
	}
	paths := make(map[string]map[string]endpoint)
	for _, r := range a.routes() {
		if paths[r.path] == nil {
			paths[r.path] = make(map[string]endpoint)
		}
		paths[r.path][r.method] = r.endpoint
	}
	for path, methods := range paths {
		a.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { a.serve(w, r, path, methods) })
	}
	a.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { a.serve(w, r, "", nil) })
	return a
}

// route is one operation of the API. The OpenAPI document describes each of them, and a test holds the two together.
type route struct {
	method, path string
	endpoint
}

// endpoint is what answers one route.
type endpoint struct {
	needs Role
	lists bool // reads its own query; everything else takes none
	do    func(ctx context.Context, q *request) (answer, error)
}

func (a *API) routes() []route {
	list := func(do func(context.Context, *request) (answer, error)) endpoint { return endpoint{RoleRead, true, do} }
	read := func(do func(context.Context, *request) (answer, error)) endpoint {
		return endpoint{RoleRead, false, do}
	}
	write := func(do func(context.Context, *request) (answer, error)) endpoint {
		return endpoint{RoleWrite, false, do}
	}
	operate := func(do func(context.Context, *request) (answer, error)) endpoint {
		return endpoint{RoleOperator, false, do}
	}
	return []route{
		{"GET", "/api/v1/openapi.yaml", read(a.document)},
		{"GET", "/api/v1/queues", list(a.listQueues)},
		{"GET", "/api/v1/queues/{id}", read(a.readQueue)},
		{"GET", "/api/v1/batches", list(a.listBatches)},
		{"GET", "/api/v1/batches/{id}", read(a.readBatch)},
		{"GET", "/api/v1/operations/{id}", read(a.readOperation)},

		{"GET", "/api/v1/trains", list(a.listTrains)},
		{"POST", "/api/v1/trains", operate(a.createTrain)},
		{"GET", "/api/v1/trains/{id}", read(a.readTrain)},
		{"PATCH", "/api/v1/trains/{id}", operate(a.changeTrain)},
		{"DELETE", "/api/v1/trains/{id}", operate(a.cancelTrain)},
		{"POST", "/api/v1/trains/{id}/seats/{mr}", write(a.takeSeat)},
		{"DELETE", "/api/v1/trains/{id}/seats/{mr}", write(a.giveUpSeat)},

		{"GET", "/api/v1/curated", list(a.listCurated)},
		{"POST", "/api/v1/curated", write(a.createCurated)},
		{"GET", "/api/v1/curated/{id}", read(a.readCurated)},
		{"PUT", "/api/v1/curated/{id}/rows", write(a.replaceRows)},
		{"POST", "/api/v1/curated/{id}/submit", write(a.submitCurated)},
		{"POST", "/api/v1/curated/{id}/approve", write(a.approveCurated)},
		{"POST", "/api/v1/curated/{id}/reject", write(a.rejectCurated)},
		{"POST", "/api/v1/curated/{id}/cancel", write(a.cancelCurated)},
	}
}

// request is one request that may be answered.
type request struct {
	*http.Request
	token Token
	body  []byte
}

// actor is who acts, as rows and people read it.
func (q *request) actor() string { return "api:" + q.token.Name }

// answer is what a request is answered with.
type answer struct {
	status   int
	value    any // written as JSON
	text     []byte
	media    string // of text
	location string
	version  int64 // of a curated batch, as its ETag; 0: none
	replayed bool
}

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	a.mux.ServeHTTP(w, r)
}

func (a *API) serve(w http.ResponseWriter, r *http.Request, path string, methods map[string]endpoint) {
	ctx, cancel := context.WithTimeout(r.Context(), timeLimit)
	defer cancel()
	token, answer, err := a.answer(ctx, w, r, methods)
	name := r.Method + " " + path
	if path == "" {
		name = ""
	} else if _, ok := methods[lookedUp(r.Method)]; !ok {
		name = path // whatever method a stranger thinks of makes no label
	}
	status := answer.status
	if err != nil {
		p := a.problemOf(r, err)
		p.Instance = r.URL.EscapedPath()
		status = p.Status
		p.write(w)
		a.logWrite(r, token, status, p.Type)
	} else {
		answer.write(w)
		a.logWrite(r, token, status, "")
	}
	a.Report(name, status)
}

// lookedUp is the method whose endpoint answers: HEAD is answered as GET, and net/http leaves out the body.
func lookedUp(method string) string {
	if method == http.MethodHead {
		return http.MethodGet
	}
	return method
}

// answer does everything in order: whether there is an API, who asks, what, and whether the token allows it. A stranger does not learn
// what exists.
func (a *API) answer(ctx context.Context, w http.ResponseWriter, r *http.Request, methods map[string]endpoint) (Token, answer, error) {
	if len(a.Tokens) == 0 {
		return Token{}, answer{}, apiOff.because("name a token under api.tokens in the settings and restart: batchbot.example.yml explains it")
	}
	token, ok := a.authenticate(r.Header)
	if !ok {
		return Token{}, answer{}, unauthorized.because("send Authorization: Bearer TOKEN with a token of api.tokens in the settings").
			with("WWW-Authenticate", `Bearer realm="batchbot"`)
	}
	if methods == nil {
		return token, answer{}, notFound.because("nothing is at this path: GET /api/v1/openapi.yaml describes what there is")
	}
	e, ok := methods[lookedUp(r.Method)]
	if !ok {
		return token, answer{}, methodNotAllowed.because("the methods here are "+allowed(methods)).with("Allow", allowed(methods))
	}
	if !token.Role.includes(e.needs) {
		return token, answer{}, forbidden.because(fmt.Sprintf("it takes a token with the role %s, and %s has the role %s", e.needs, token.Name, token.Role))
	}
	if !e.lists && r.URL.RawQuery != "" {
		name, _, _ := strings.Cut(r.URL.RawQuery, "=")
		return token, answer{}, malformed.because("the parameter " + shown(name) + " is not known here: only lists take any")
	}
	q := &request{Request: r, token: token}
	if lookedUp(r.Method) != http.MethodGet {
		var p *problem
		if q.body, p = readBody(w, r); p != nil {
			return token, answer{}, p
		}
	}
	result, err := e.do(ctx, q)
	return token, result, err
}

// allowed lists the methods of a path.
func allowed(methods map[string]endpoint) string {
	var list []string
	for m := range methods {
		list = append(list, m)
		if m == http.MethodGet {
			list = append(list, http.MethodHead)
		}
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// authenticate finds whose token it is. All tokens are compared, each in constant time and by hashes of the same length, so that the time an
// answer takes tells nothing about any of them.
func (a *API) authenticate(header http.Header) (token Token, ok bool) {
	scheme, secret, _ := strings.Cut(header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || len(header.Values("Authorization")) != 1 {
		return Token{}, false
	}
	hash := sha256.Sum256([]byte(strings.Trim(secret, " ")))
	for i := range a.hashes {
		if subtle.ConstantTimeCompare(hash[:], a.hashes[i][:]) == 1 {
			token, ok = a.Tokens[i], true
		}
	}
	return token, ok
}

// problemOf makes a problem of whatever failed. What is not meant for clients goes to the log only.
func (a *API) problemOf(r *http.Request, err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	if a.IsMissing(err) {
		return notFound.because("there is none with this id")
	}
	a.Logger.Warn("an API request failed", "method", r.Method, "path", r.URL.EscapedPath(), "error", err)
	if limited, ok := errors.AsType[*bot.RateLimitedError](err); ok {
		p := unavailable.because("the Git host asks for a pause: send the request again later")
		p.retryAfter = max(limited.RetryAfter, shortly)
		return p
	}
	return unavailable.because("the database or the Git host did not answer as it should, and the bot's log says why: send the request again later")
}

// logWrite leaves one line about every request that could have written something.
func (a *API) logWrite(r *http.Request, token Token, status int, problem string) {
	if lookedUp(r.Method) == http.MethodGet || token.Name == "" {
		return
	}
	path := r.URL.EscapedPath()
	a.Logger.Info("an API request was answered", "by", "api:"+token.Name, "method", r.Method, "path", path[:min(len(path), 200)], "status", status,
		"problem", cmp.Or(problem, "none"))
}

func (ans answer) write(w http.ResponseWriter) {
	if ans.location != "" {
		w.Header().Set("Location", ans.location)
	}
	if ans.version != 0 {
		w.Header().Set("ETag", etag(ans.version))
	}
	if ans.replayed {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	if ans.text != nil {
		w.Header().Set("Content-Type", ans.media)
		w.WriteHeader(ans.status)
		_, _ = w.Write(ans.text) // the client may be gone
		return
	}
	writeJSON(w, ans.status, "application/json", ans.value)
}

func etag(version int64) string { return fmt.Sprintf(`"%d"`, version) }
