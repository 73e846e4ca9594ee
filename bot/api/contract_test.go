package api_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	description "github.com/batchbot/batchbot/api"
	"github.com/batchbot/batchbot/bot/api"
)

// contract is the OpenAPI document with what the tests have seen of it.
type contract struct {
	doc    *openapi3.T
	router routers.Router

	mu       sync.Mutex
	answered map[string]map[int]bool // by "METHOD path": the statuses
	problems map[string]bool
}

var theContract = sync.OnceValue(func() *contract {
	loader := openapi3.NewLoader()
	doc, err := loader.LoadFromData(description.OpenAPI)
	if err != nil {
		panic(err)
	}
	if err := doc.Validate(loader.Context); err != nil { // the examples too
		panic(err)
	}
	doc.Servers = nil // the tests' servers have addresses of their own
	router, err := legacy.NewRouter(doc)
	if err != nil {
		panic(err)
	}
	return &contract{doc: doc, router: router, answered: make(map[string]map[int]bool), problems: make(map[string]bool)}
})

func (c *contract) operations() map[string]*openapi3.Operation {
	list := make(map[string]*openapi3.Operation)
	for path, item := range c.doc.Paths.Map() {
		for method, op := range item.Operations() {
			list[method+" "+path] = op
		}
	}
	return list
}

// check holds one exchange against the document. The request of an answer that calls it wrong may be wrong; everything else fits.
func (c *contract) check(t testing.TB, request *http.Request, sent string, status int, header http.Header, body []byte) {
	t.Helper()
	failed := func(err error) {
		t.Helper()
		t.Errorf("%s %s, answered %d: %v\n%s\n%s", request.Method, request.URL.Path, status, err, start(sent), start(string(body)))
	}
	if status >= 400 {
		c.checkProblem(request, status, header, body, failed)
	}
	if request.Method == http.MethodHead || status == http.StatusMethodNotAllowed || strings.HasSuffix(request.URL.Path, "/") {
		return // not described; the router would find a path without its last slash
	}
	route, parameters, err := c.router.FindRoute(request)
	if err != nil {
		if status != http.StatusNotFound && status != http.StatusUnauthorized {
			failed(err)
		}
		return
	}
	request = request.Clone(context.Background())
	request.Body = io.NopCloser(strings.NewReader(sent))
	in := &openapi3filter.RequestValidationInput{
		Request: request, PathParams: parameters, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true, MultiError: true},
	}
	if status < 400 || status == http.StatusConflict || status == http.StatusServiceUnavailable {
		if err := openapi3filter.ValidateRequest(context.Background(), in); err != nil {
			failed(err)
		}
	}
	apiIsOff := strings.Contains(string(body), "/problems/api-off")
	if !apiIsOff {
		out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: status, Header: header, Options: in.Options}
		if err := openapi3filter.ValidateResponse(context.Background(), out.SetBodyBytes(body)); err != nil {
			failed(err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	name := route.Method + " " + route.Path
	if c.answered[name] == nil {
		c.answered[name] = make(map[int]bool)
	}
	c.answered[name][status] = true
}

func (c *contract) checkProblem(request *http.Request, status int, header http.Header, body []byte, failed func(error)) {
	if request.Method == http.MethodHead {
		return
	}
	var value any
	var p struct {
		Type, Instance string
		Status         int
	}
	if err := json.Unmarshal(body, &value); err != nil {
		failed(err)
		return
	}
	if err := c.doc.Components.Schemas["Problem"].Value.VisitJSON(value); err != nil {
		failed(err)
	}
	if err := json.Unmarshal(body, &p); err != nil {
		failed(err)
	}
	if p.Status != status || p.Instance != request.URL.EscapedPath() || header.Get("Content-Type") != "application/problem+json" {
		failed(fmt.Errorf("the problem is %+v, as %s", p, header.Get("Content-Type")))
	}
	if (status == http.StatusServiceUnavailable) != (header.Get("Retry-After") != "") {
		failed(fmt.Errorf("Retry-After is %q", header.Get("Retry-After")))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problems[p.Type] = true
}

// TestMain demands, where all tests ran, that everything the document describes was seen.
func TestMain(m *testing.M) {
	status := m.Run()
	if narrowed := flag.Lookup("test.run").Value.String() + flag.Lookup("test.skip").Value.String() + flag.Lookup("test.fuzz").Value.String(); status == 0 && narrowed == "" && flag.Lookup("test.list").Value.String() == "" {
		for _, unseen := range theContract().unseen() {
			fmt.Fprintln(os.Stderr, "described and never exercised by a test:", unseen)
			status = 1
		}
	}
	os.Exit(status)
}

func (c *contract) unseen() (list []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, op := range c.operations() {
		for code := range op.Responses.Map() {
			if code[0] != '2' {
				continue // which problems an operation has in common with all is seen by type
			}
			if !slices.Contains(slices.Collect(maps.Keys(c.answered[name])), atoi(code)) {
				list = append(list, name+" answered "+code)
			}
		}
	}
	for _, kind := range c.doc.Components.Schemas["Problem"].Value.Properties["type"].Value.Enum {
		if !c.problems[kind.(string)] {
			list = append(list, kind.(string))
		}
	}
	slices.Sort(list)
	return list
}

// start is the beginning of a text, for messages.
func start(text string) string { return text[:min(len(text), 500)] }

func atoi(text string) (n int) {
	_, _ = fmt.Sscan(text, &n)
	return n
}

func TestTheDocumentAndTheRoutesAreTheSame(t *testing.T) {
	t.Parallel()
	described := slices.Sorted(maps.Keys(theContract().operations()))
	if routes := api.New(api.Config{}).Routes(); !slices.Equal(slices.Sorted(slices.Values(routes)), described) {
		t.Errorf("the routes are\n%s\nand described are\n%s", strings.Join(slices.Sorted(slices.Values(routes)), "\n"), strings.Join(described, "\n"))
	}
}

func TestTheDocumentAndTheProblemsAreTheSame(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("problem.go")
	if err != nil {
		t.Fatal(err)
	}
	statuses := map[string]int{
		"BadRequest": 400, "Unauthorized": 401, "Forbidden": 403, "NotFound": 404, "MethodNotAllowed": 405, "Conflict": 409, "RequestEntityTooLarge": 413,
		"UnsupportedMediaType": 415, "UnprocessableEntity": 422, "PreconditionRequired": 428, "ServiceUnavailable": 503,
	}
	var kinds []string
	schema := theContract().doc.Components.Schemas["Problem"].Value
	for _, m := range regexp.MustCompile(`kind\{"([a-z-]+)", http\.Status(\w+),`).FindAllStringSubmatch(string(source), -1) {
		kinds = append(kinds, "/problems/"+m[1])
		if line := fmt.Sprintf("- `/problems/%s` (%d): ", m[1], statuses[m[2]]); !strings.Contains(schema.Description, line) {
			t.Errorf("the document does not say %q", line)
		}
	}
	var described []string
	for _, kind := range schema.Properties["type"].Value.Enum {
		described = append(described, kind.(string))
	}
	slices.Sort(kinds)
	slices.Sort(described)
	if len(kinds) == 0 || !slices.Equal(kinds, described) {
		t.Errorf("the problems are\n%s\nand described are\n%s", strings.Join(kinds, "\n"), strings.Join(described, "\n"))
	}
}
