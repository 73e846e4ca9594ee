package fakehost

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// github is GitHub's face of the world: it translates, and keeps no state.
type github struct{ h *Host }

// object is a JSON object.
type object = map[string]any

// call is one API request, answered under the host's lock.
type call struct {
	h       *Host
	gh      *github
	req     *http.Request
	path    string // as requested, before prefixes were cut
	header  http.Header
	body    []byte
	who     principal
	repo    *repository
	rawBody []byte // answered instead of JSON when set
}

type endpoint func(*call) (status int, body any, err error)

// apiError is an answer outside 2xx.
type apiError struct {
	status  int
	message string
	errors  []any
}

func (e *apiError) Error() string { return e.message }

var (
	errNotFound       = &apiError{status: 404, message: "Not Found"}
	errUnauthorized   = &apiError{status: 401, message: "Requires authentication"}
	errBadCredentials = &apiError{status: 401, message: "Bad credentials"}
	errNotByApp       = &apiError{status: 403, message: "Resource not accessible by integration"}
)

const maxRequest = 32 << 20

// handle wraps an endpoint: authentication, the repository named in the path,
// rate headers, conditional requests and GitHub's error shape.
func (g *github) handle(f endpoint) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxRequest))
		if err != nil {
			http.Error(w, `{"message":"Request body too large or unreadable"}`, http.StatusRequestEntityTooLarge)
			return
		}
		path := req.URL.Path
		if orig, ok := req.Context().Value(originalPath{}).(string); ok {
			path = orig
		}
		g.h.mu.Lock()
		c := &call{h: g.h, gh: g, req: req, path: path, header: w.Header(), body: body}
		status, answer := c.run(f)
		raw := c.rawBody
		if raw == nil && status != http.StatusNoContent {
			if raw, err = json.Marshal(answer); err != nil {
				g.h.log.Error("encoding an answer", "path", path, "error", err)
				status = http.StatusInternalServerError
			}
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
		}
		status = c.conditional(status, raw)
		c.rate(status)
		g.h.mu.Unlock()
		w.Header().Set("X-GitHub-Media-Type", "github.v3; format=json")
		w.WriteHeader(status)
		if status != http.StatusNoContent && status != http.StatusNotModified && req.Method != http.MethodHead {
			_, _ = w.Write(raw) // the client may be gone; nothing is lost
		}
	}
}

func (c *call) run(f endpoint) (int, any) {
	status, answer, err := c.try(f)
	if err == nil {
		return status, answer
	}
	var ae *apiError
	var ref *refusal
	switch {
	case errors.As(err, &ae):
	case errors.As(err, &ref):
		ae = refusalAnswer(ref)
	default:
		c.h.log.Error("request failed", "method", c.req.Method, "path", c.path, "error", err)
		ae = &apiError{status: 500, message: "Server Error: " + err.Error()}
	}
	o := object{"message": ae.message, "documentation_url": "https://docs.github.com/rest", "status": strconv.Itoa(ae.status)}
	if ae.errors != nil {
		o["errors"] = ae.errors
	}
	return ae.status, o
}

func refusalAnswer(r *refusal) *apiError {
	switch r.kind {
	case refusedForbidden:
		return &apiError{status: 403, message: r.message}
	case refusedMissing:
		return errNotFound
	case refusedHeadMoved:
		return &apiError{status: 409, message: r.message}
	case refusedNotMergeable:
		return &apiError{status: 405, message: r.message}
	case refusedReview:
		return &apiError{status: 422, message: "Unprocessable Entity", errors: []any{r.message}}
	}
	detail := object{"resource": "PullRequest", "code": "custom", "message": r.message}
	if r.field != "" {
		detail["code"], detail["field"] = "invalid", r.field
	}
	return &apiError{status: 422, message: "Validation Failed", errors: []any{detail}}
}

func (c *call) try(f endpoint) (int, any, error) {
	token, err := credentials(c.req)
	if err != nil {
		return 0, nil, errBadCredentials
	}
	var ok bool
	if c.who, ok = c.h.authenticate(token); !ok {
		return 0, nil, errBadCredentials
	}
	if c.who.inst != nil && c.who.inst.installation.Suspended {
		return 0, nil, &apiError{status: 403, message: "This installation has been suspended"}
	}
	if owner := c.req.PathValue("owner"); owner != "" {
		path := strings.ToLower(owner + "/" + c.req.PathValue("repo"))
		if r := c.h.renamed[path]; r != nil && c.h.repos[path] == nil {
			return 0, nil, c.movedTo(r)
		}
		if err := c.find(c.h.repos[path]); err != nil {
			return 0, nil, err
		}
	}
	if c.repo != nil && meets(c.req, FaultStaleHead) {
		defer c.repo.lag()()
	}
	return f(c)
}

// movedTo redirects to where a renamed repository's objects are found for ever.
func (c *call) movedTo(r *repository) error {
	rest := ""
	if parts := strings.SplitN(strings.TrimPrefix(c.req.URL.EscapedPath(), "/repos/"), "/", 3); len(parts) == 3 {
		rest = "/" + parts[2]
	}
	if c.req.URL.RawQuery != "" {
		rest += "?" + c.req.URL.RawQuery
	}
	c.header.Set("Location", c.gh.api("/repositories/%d", r.ID)+rest)
	if c.req.Method == http.MethodGet || c.req.Method == http.MethodHead {
		return &apiError{status: http.StatusMovedPermanently, message: "Moved Permanently"}
	}
	return &apiError{status: http.StatusTemporaryRedirect, message: "Temporary Redirect"}
}

// find makes r the call's repository if the caller may see it.
func (c *call) find(r *repository) error {
	if r == nil || c.who.inst != nil && r.Private && !c.h.covers(c.who.inst, r) {
		return errNotFound
	}
	if c.h.role(r, c.who.user) == RoleNone && !c.who.app {
		return errNotFound
	}
	c.repo = r
	if c.req.Method != http.MethodGet && r.Archived {
		return &apiError{status: 403, message: "Repository was archived so is read-only."}
	}
	return c.h.scan(r, c.h.bot())
}

// credentials takes the token out of an Authorization header: token, Bearer,
// or the password of Basic (the user name when there is no password).
func credentials(req *http.Request) (string, error) {
	auth := req.Header.Get("Authorization")
	if auth == "" {
		return "", nil
	}
	if user, password, ok := req.BasicAuth(); ok {
		if password == "" || password == "x-oauth-basic" {
			return user, nil
		}
		return password, nil
	}
	scheme, token, _ := strings.Cut(auth, " ")
	if s := strings.ToLower(scheme); (s == "token" || s == "bearer") && token != "" {
		return strings.TrimSpace(token), nil
	}
	return "", errors.New("unknown authorization scheme")
}

// need refuses a caller without the role in the call's repository.
func (c *call) need(role string) error {
	switch {
	case c.who.user == nil && !c.who.app:
		return errUnauthorized
	case c.who.app, c.who.inst != nil && !c.h.covers(c.who.inst, c.repo):
		return errNotByApp
	case !atLeast(c.h.role(c.repo, c.who.user), role):
		return &apiError{status: 403, message: "Must have " + role + " access to the repository."}
	}
	return nil
}

func (c *call) decode(v any) error {
	if len(bytes.TrimSpace(c.body)) == 0 {
		return nil
	}
	if err := json.Unmarshal(c.body, v); err != nil {
		return &apiError{status: 400, message: "Problems parsing JSON"}
	}
	return nil
}

func (c *call) number(name string) int64 {
	n, err := strconv.ParseInt(c.req.PathValue(name), 10, 64)
	if err != nil {
		return 0 // no id is 0, so this ends as Not Found
	}
	return n
}

func (c *call) query(name string) string { return c.req.URL.Query().Get(name) }

// page cuts a list as page and per_page ask, and sets the Link header.
func page[T any](c *call, list []T) []T {
	per, err := strconv.Atoi(c.query("per_page"))
	if err != nil || per < 1 {
		per = 30
	}
	per = min(per, 100)
	n, err := strconv.Atoi(c.query("page"))
	if err != nil || n < 1 {
		n = 1
	}
	last := max(1, (len(list)+per-1)/per)
	var links []string
	link := func(n int, rel string) {
		q := c.req.URL.Query()
		q.Set("page", strconv.Itoa(n))
		u := url.URL{Path: c.path, RawQuery: q.Encode()}
		links = append(links, fmt.Sprintf("<%s%s>; rel=%q", c.h.opt.BaseURL, u.String(), rel))
	}
	if n > 1 {
		link(n-1, "prev")
	}
	if n < last {
		link(n+1, "next")
		link(last, "last")
	}
	if n > 1 {
		link(1, "first")
	}
	if links != nil {
		c.header.Set("Link", strings.Join(links, ", "))
	}
	from := min(len(list), (n-1)*per)
	return list[from:min(len(list), from+per)]
}

// conditional sets the ETag of a successful read and answers 304 when the
// caller has it already.
func (c *call) conditional(status int, body []byte) int {
	if c.req.Method != http.MethodGet || status != http.StatusOK {
		return status
	}
	sum := sha256.Sum256(body)
	tag := `"` + hex.EncodeToString(sum[:]) + `"`
	c.header.Set("ETag", "W/"+tag)
	c.header.Set("Cache-Control", "private, max-age=60, s-maxage=60")
	for have := range strings.SplitSeq(c.req.Header.Get("If-None-Match"), ",") {
		if strings.TrimPrefix(strings.TrimSpace(have), "W/") == tag {
			return http.StatusNotModified
		}
	}
	return status
}

const rateLimit = 15000 // requests an hour, as for an installation in a large organisation

type rate struct {
	used  int
	reset time.Time
}

// rate counts a request against its caller's hour. An answer 304 is free.
func (c *call) rate(status int) {
	key := c.req.Header.Get("Authorization")
	r := c.h.rates[key]
	if r == nil || !c.h.now().Before(r.reset) {
		r = &rate{reset: c.h.now().Add(time.Hour)}
		c.h.rates[key] = r
	}
	if status != http.StatusNotModified {
		r.used++
	}
	c.header.Set("X-RateLimit-Limit", strconv.Itoa(rateLimit))
	c.header.Set("X-RateLimit-Remaining", strconv.Itoa(max(0, rateLimit-r.used)))
	c.header.Set("X-RateLimit-Used", strconv.Itoa(r.used))
	c.header.Set("X-RateLimit-Reset", strconv.FormatInt(r.reset.Unix(), 10))
	c.header.Set("X-RateLimit-Resource", "core")
}

// header are the headers of a webhook.
func (g *github) header(d *delivery, secret string) http.Header {
	hd := http.Header{}
	hd.Set("Content-Type", "application/json")
	hd.Set("User-Agent", "GitHub-Hookshot/fakehost")
	hd.Set("X-GitHub-Event", d.Event)
	hd.Set("X-GitHub-Delivery", d.GUID)
	hd.Set("X-GitHub-Hook-ID", strconv.FormatInt(1000+g.h.opt.AppID, 10))
	hd.Set("X-GitHub-Hook-Installation-Target-Type", "integration")
	hd.Set("X-GitHub-Hook-Installation-Target-ID", strconv.FormatInt(g.h.opt.AppID, 10))
	if secret != "" {
		hd.Set("X-Hub-Signature-256", sign(secret, d.Payload))
	}
	return hd
}
