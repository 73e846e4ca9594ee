package fakehost

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// gitlab is GitLab's face of the world. Unlike GitHub's it has a little of its
// own to keep: how it behaves, and what it does later (jobs).
type gitlab struct {
	h     *Host
	set   GitLab
	table []glRoute
	jobs  []*job
	last  time.Time // see at
	wide  bool      // the push being followed touches more branches than hooks are told of
}

func newGitLab(h *Host) *gitlab {
	g := &gitlab{h: h, set: h.opt.GitLab}
	g.table = g.endpoints()
	return g
}

// at is now, but never what it was before, to the millisecond that GitLab shows:
// what came first can be told.
func (g *gitlab) at() time.Time {
	now := g.h.now()
	if next := g.last.Add(time.Millisecond); now.Before(next) {
		now = next
	}
	g.last = now
	return now
}

// glCall is one API request, answered under the host's lock.
type glCall struct {
	h      *Host
	gl     *gitlab
	req    *http.Request
	header http.Header
	vars   map[string]string // from the path, unescaped
	params map[string]any    // from the query, a form or a JSON body
	who    *user
	repo   *repository
	text   []byte // answered instead of JSON when not nil
}

type glEndpoint func(*glCall) (status int, body any, err error)

// glError is an answer outside 2xx: {"message": …}, or {"error": …} where the
// answer comes from GitLab's API framework.
type glError struct {
	status  int
	message any
	field   string
}

func (e *glError) Error() string { return fmt.Sprint(e.message) }

func glRefuse(status int, message any) error { return &glError{status: status, message: message} }

var (
	errGLUnauthorized = &glError{status: 401, message: "401 Unauthorized"}
	errGLForbidden    = &glError{status: 403, message: "403 Forbidden"}
	errGLNoProject    = &glError{status: 404, message: "404 Project Not Found"}
	errGLNotFound     = &glError{status: 404, message: "404 Not found"}
	errGLNoEndpoint   = &glError{status: 404, message: "404 Not Found", field: "error"}
	errGLMoved        = errors.New("the project moved")
)

// pushHookLimit is the most branches one push may change and be told of.
const pushHookLimit = 3

const gitlabAPI = "/api/v4"

// routes serves the REST API. A path is matched escaped and unescaped once, so
// that a project's path or a branch is one segment, as GitLab has it.
func (g *gitlab) routes() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxRequest))
		if err != nil {
			http.Error(w, `{"message":"Request body too large or unreadable"}`, http.StatusRequestEntityTooLarge)
			return
		}
		g.h.mu.Lock()
		c := &glCall{h: g.h, gl: g, req: req, header: w.Header(), vars: map[string]string{}}
		status, answer := c.run(body)
		raw := c.text
		if raw == nil && status != http.StatusNoContent {
			if raw, err = json.Marshal(answer); err != nil {
				g.h.log.Error("encoding an answer", "path", req.URL.Path, "error", err)
				status = http.StatusInternalServerError
			}
			w.Header().Set("Content-Type", "application/json")
		}
		if status == http.StatusOK && req.Method == http.MethodGet {
			status = c.conditional(raw)
		}
		g.h.mu.Unlock()
		w.Header().Set("X-Request-Id", "01FAKE")
		w.Header().Set("X-Gitlab-Meta", `{"version":"1"}`)
		w.WriteHeader(status)
		if status != http.StatusNoContent && status != http.StatusNotModified && req.Method != http.MethodHead {
			_, _ = w.Write(raw) // the client may be gone; nothing is lost
		}
	})
}

func (c *glCall) run(body []byte) (int, any) {
	status, answer, err := c.try(body)
	var ge *glError
	var ref *refusal
	switch {
	case err == nil:
		return status, answer
	case errors.Is(err, errGLMoved):
		return c.redirect()
	case errors.As(err, &ge):
	case errors.As(err, &ref):
		ge = glRefusal(ref)
	default:
		c.h.log.Error("request failed", "method", c.req.Method, "path", c.req.URL.Path, "error", err)
		ge = &glError{status: 500, message: "500 Internal Server Error: " + err.Error()}
	}
	if ge.field == "" {
		return ge.status, object{"message": ge.message}
	}
	return ge.status, object{ge.field: ge.message}
}

func glRefusal(r *refusal) *glError {
	switch r.kind {
	case refusedForbidden:
		return errGLUnauthorized
	case refusedMissing:
		return errGLNotFound
	case refusedHeadMoved:
		return &glError{status: 409, message: r.message}
	case refusedTaken:
		return &glError{status: 409, message: []string{r.message}}
	case refusedConflict:
		return &glError{status: 422, message: r.message}
	case refusedNotMergeable:
		return &glError{status: 405, message: "405 Method Not Allowed"}
	}
	if r.field != "" {
		return &glError{status: 400, message: object{r.field: []string{r.message}}}
	}
	return &glError{status: 400, message: []string{r.message}}
}

func (c *glCall) try(body []byte) (int, any, error) {
	token := c.token()
	c.rate(token)
	path, ok := strings.CutPrefix(c.req.URL.EscapedPath(), gitlabAPI+"/")
	if !ok {
		return 0, nil, errGLNoEndpoint
	}
	f, err := c.gl.match(c.req.Method, strings.TrimSuffix(path, "/"), c.vars)
	if err != nil {
		return 0, nil, err
	}
	p, known := c.h.authenticate(token)
	if !known || p.app || p.inst != nil {
		return 0, nil, errGLUnauthorized
	}
	c.who = p.user
	if err := c.read(body); err != nil {
		return 0, nil, err
	}
	if id, ok := c.vars["id"]; ok {
		if err := c.find(id); err != nil {
			return 0, nil, err
		}
	}
	if c.repo != nil && meets(c.req, FaultStaleHead) {
		defer c.repo.lag()()
	}
	return f(c)
}

// token is the caller's, from any place a GitLab takes one.
func (c *glCall) token() string {
	if t := c.req.Header.Get("PRIVATE-TOKEN"); t != "" {
		return t
	}
	if t, ok := strings.CutPrefix(c.req.Header.Get("Authorization"), "Bearer "); ok {
		return strings.TrimSpace(t)
	}
	return c.req.URL.Query().Get("private_token")
}

// read joins query, form and JSON body: an endpoint takes a parameter from
// wherever it comes.
func (c *glCall) read(body []byte) error {
	c.params = map[string]any{}
	values := func(v url.Values) {
		for name, all := range v {
			if name, ok := strings.CutSuffix(name, "[]"); ok {
				c.params[name] = all
				continue
			}
			c.params[name] = all[len(all)-1]
		}
	}
	values(c.req.URL.Query())
	if len(body) == 0 {
		return nil
	}
	kind, _, _ := mime.ParseMediaType(c.req.Header.Get("Content-Type"))
	if kind == "application/x-www-form-urlencoded" {
		form, err := url.ParseQuery(string(body))
		values(form)
		if err != nil {
			return &glError{status: 400, message: "400 Bad request: " + err.Error()}
		}
		return nil
	}
	in := map[string]any{}
	if err := json.Unmarshal(body, &in); err != nil {
		return &glError{status: 400, message: "400 Bad request: message body does not match declared format", field: "error"}
	}
	maps.Copy(c.params, in)
	return nil
}

func (c *glCall) has(name string) bool { return c.params[name] != nil }

func (c *glCall) str(name string) string {
	switch v := c.params[name].(type) {
	case nil:
		return ""
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return fmt.Sprint(v)
	}
}

func (c *glCall) yes(name string) bool { s := c.str(name); return s == "true" || s == "1" }

func (c *glCall) number(name string) int64 {
	n, err := strconv.ParseInt(c.vars[name], 10, 64)
	if err != nil {
		return 0 // no id is 0, so this ends as not found
	}
	return n
}

// need names what is missing as GitLab's parameter check does.
func (c *glCall) need(names ...string) error {
	for _, n := range names {
		if c.str(n) == "" {
			return &glError{status: 400, message: n + " is missing", field: "error"}
		}
	}
	return nil
}

// find makes the project with that id or path the call's.
func (c *glCall) find(id string) error {
	r, moved := c.gl.project(id)
	if r == nil || c.h.role(r, c.who) == RoleNone {
		if c.who == nil {
			return errGLUnauthorized
		}
		return errGLNoProject
	}
	c.repo = r
	if moved {
		return errGLMoved
	}
	if c.req.Method != http.MethodGet {
		if c.who == nil {
			return errGLUnauthorized
		}
		if r.Archived {
			return errGLForbidden
		}
	}
	return c.h.scan(r, c.h.bot())
}

// project finds a project by number or path; moved tells that it is not there
// any more.
func (g *gitlab) project(id string) (r *repository, moved bool) {
	if n, err := strconv.ParseInt(id, 10, 64); err == nil {
		for _, r := range g.h.repos {
			if r.ID == n {
				return r, false
			}
		}
		return nil, false
	}
	if r := g.h.repos[strings.ToLower(id)]; r != nil {
		return r, false
	}
	r = g.h.renamed[strings.ToLower(id)]
	return r, r != nil
}

func (c *glCall) redirect() (int, any) {
	if c.req.Method != http.MethodGet {
		return http.StatusMethodNotAllowed, object{"message": "Non GET methods are not allowed for moved projects"}
	}
	parts := strings.Split(c.req.URL.EscapedPath(), "/") // "", api, v4, projects, id
	parts[4] = strconv.FormatInt(c.repo.ID, 10)
	to := c.h.opt.BaseURL + strings.Join(parts, "/")
	if c.req.URL.RawQuery != "" {
		to += "?" + c.req.URL.RawQuery
	}
	c.header.Set("Location", to)
	return http.StatusMovedPermanently, object{"message": "This resource has been moved permanently to " + to}
}

// must refuses a caller without the role in the call's project.
func (c *glCall) must(role string) error {
	switch {
	case c.who == nil:
		return errGLUnauthorized
	case !atLeast(c.h.role(c.repo, c.who), role):
		return errGLForbidden
	}
	return nil
}

// glPage cuts a list as page and per_page ask, and says so in the headers.
func glPage[T any](c *glCall, list []T) []T {
	per, err := strconv.Atoi(c.str("per_page"))
	if err != nil || per < 1 {
		per = 20
	}
	per = min(per, 100)
	n, err := strconv.Atoi(c.str("page"))
	if err != nil || n < 1 {
		n = 1
	}
	last := max(1, (len(list)+per-1)/per)
	var links []string
	link := func(n int, rel string) {
		q := c.req.URL.Query()
		q.Set("page", strconv.Itoa(n))
		q.Set("per_page", strconv.Itoa(per))
		links = append(links, fmt.Sprintf("<%s%s?%s>; rel=%q", c.h.opt.BaseURL, c.req.URL.EscapedPath(), q.Encode(), rel))
	}
	next, prev := "", ""
	if n > 1 {
		prev = strconv.Itoa(n - 1)
		link(n-1, "prev")
	}
	if n < last {
		next = strconv.Itoa(n + 1)
		link(n+1, "next")
	}
	link(1, "first")
	link(last, "last")
	for name, v := range map[string]string{
		"Link": strings.Join(links, ", "), "X-Page": strconv.Itoa(n), "X-Per-Page": strconv.Itoa(per), "X-Next-Page": next, "X-Prev-Page": prev,
		"X-Total": strconv.Itoa(len(list)), "X-Total-Pages": strconv.Itoa(last),
	} {
		c.header.Set(name, v)
	}
	from := min(len(list), (n-1)*per)
	return list[from:min(len(list), from+per)]
}

func (c *glCall) conditional(body []byte) int {
	sum := sha256.Sum256(body)
	tag := `W/"` + hex.EncodeToString(sum[:16]) + `"`
	c.header.Set("ETag", tag)
	c.header.Set("Cache-Control", "max-age=0, private, must-revalidate")
	if c.req.Header.Get("If-None-Match") == tag {
		return http.StatusNotModified
	}
	return http.StatusOK
}

const gitlabRate = 2000 // requests a minute

func (c *glCall) rate(token string) {
	r := c.h.rates[token]
	if r == nil || !c.h.now().Before(r.reset) {
		r = &rate{reset: c.h.now().Add(time.Minute)}
		c.h.rates[token] = r
	}
	r.used++
	c.header.Set("RateLimit-Limit", strconv.Itoa(gitlabRate))
	c.header.Set("RateLimit-Name", "throttle_authenticated_api")
	c.header.Set("RateLimit-Observed", strconv.Itoa(r.used))
	c.header.Set("RateLimit-Remaining", strconv.Itoa(max(0, gitlabRate-r.used)))
	c.header.Set("RateLimit-Reset", strconv.FormatInt(r.reset.Unix(), 10))
}

// fail gives a fault of the limits GitLab's form: the request limit is plain
// text with headers, the limits of single endpoints JSON without them.
func (g *gitlab) fail(w http.ResponseWriter, f Fault) {
	retry := strconv.Itoa(int(f.Wait / time.Second))
	if f.Wait > 0 {
		w.Header().Set("Retry-After", retry)
	}
	if f.Do == FaultPrimaryLimit {
		reset := g.h.now().Add(f.Wait)
		w.Header().Set("RateLimit-Limit", strconv.Itoa(gitlabRate))
		w.Header().Set("RateLimit-Name", "throttle_authenticated_api")
		w.Header().Set("RateLimit-Observed", strconv.Itoa(gitlabRate+1))
		w.Header().Set("RateLimit-Remaining", "0")
		w.Header().Set("RateLimit-Reset", strconv.FormatInt(reset.Unix(), 10))
		w.Header().Set("RateLimit-ResetTime", reset.Format(http.TimeFormat))
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, "Retry later\n") // the client may be gone
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusTooManyRequests)
	_, _ = io.WriteString(w, `{"message":{"error":"This endpoint has been requested too many times. Try again later."}}`)
}
