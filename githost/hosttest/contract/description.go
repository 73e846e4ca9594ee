package contract

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers"

	"github.com/batchbot/batchbot/githost/hosttest"
)

const folder = "testdata/openapi/"

// description is what GitHub publishes, and what is known to be wrong with it.
type description struct {
	api        *openapi3.T
	webhooks   *openapi3.T
	operations []*operation
	exceptions exceptions
}

// operation is one method of one path.
type operation struct {
	name  string // "GET /app"
	match *regexp.Regexp
	keys  []string
	fixed int // literal segments: the more, the more exactly it says what it means
	route *routers.Route
}

var github = sync.OnceValues(load)

func load() (*description, error) {
	d := &description{}
	for file, doc := range map[string]**openapi3.T{"github.json": &d.api, "github-webhooks.json": &d.webhooks} {
		b, err := hosttest.OpenAPI.ReadFile(folder + file)
		if err != nil {
			return nil, err
		}
		if *doc, err = openapi3.NewLoader().LoadFromData(b); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
	}
	b, err := hosttest.OpenAPI.ReadFile(folder + "exceptions.json")
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &d.exceptions); err != nil {
		return nil, fmt.Errorf("reading exceptions.json: %w", err)
	}
	for path, item := range d.api.Paths.Map() {
		for method, op := range item.Operations() {
			o := newOperation(method, path, func(name string) bool {
				p := op.Parameters.GetByInAndName("path", name)
				return p != nil && p.Extensions["x-multi-segment"] == true
			})
			o.route = &routers.Route{Spec: d.api, Path: path, PathItem: item, Method: method, Operation: op}
			d.operations = append(d.operations, o)
		}
	}
	slices.SortFunc(d.operations, func(a, b *operation) int { return b.fixed - a.fixed })
	for _, u := range d.exceptions.Undescribed {
		method, path, _ := strings.Cut(u.Request, " ")
		u.operation = newOperation(method, path, func(name string) bool { return strings.HasSuffix(name, "+") })
	}
	return d, nil
}

var parameter = regexp.MustCompile(`\{([^}]+)\}`)

// newOperation makes the matcher of a path; a parameter that is deep may contain slashes.
func newOperation(method, path string, deep func(parameter string) bool) *operation {
	o := &operation{name: method + " " + path}
	pattern, rest := "^", path
	for _, p := range parameter.FindAllStringSubmatch(path, -1) {
		literal, after, _ := strings.Cut(rest, p[0])
		rest = after
		pattern += regexp.QuoteMeta(literal)
		if deep(p[1]) {
			pattern += "(.+)"
		} else {
			pattern += "([^/]+)"
		}
		o.keys = append(o.keys, p[1])
	}
	o.match = regexp.MustCompile(pattern + regexp.QuoteMeta(rest) + "$")
	o.fixed = strings.Count(path, "/") - len(o.keys)
	return o
}

// find returns the operation a request asks for, and its path's parameters.
func (d *description) find(req *http.Request) (*operation, map[string]string) {
	path := apiPath(req.URL)
	for _, o := range d.operations {
		if o.route.Method != req.Method {
			continue
		}
		found := o.match.FindStringSubmatch(path)
		if found == nil {
			continue
		}
		values := map[string]string{}
		for i, key := range o.keys {
			value, err := url.PathUnescape(found[i+1])
			if err != nil {
				value = found[i+1]
			}
			values[key] = value
		}
		return o, values
	}
	return nil, nil
}

// apiPath is a request's path below the root of the API, which an Enterprise Server has at /api/v3.
func apiPath(u *url.URL) string {
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	for _, prefix := range []string{"/api/v3/", "/api/"} {
		if rest, ok := strings.CutPrefix(path, prefix); ok {
			return "/" + rest
		}
	}
	return path
}
