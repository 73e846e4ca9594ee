package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"github.com/batchbot/batchbot/githost/hosttest"
)

// lab is our description of GitLab: the operations and webhooks used here.
var lab = sync.OnceValues(loadLab)

func loadLab() (*description, error) {
	b, err := hosttest.OpenAPI.ReadFile(folder + "gitlab.yml")
	if err != nil {
		return nil, err
	}
	loader := openapi3.NewLoader()
	d := &description{}
	if d.api, err = loader.LoadFromData(b); err != nil {
		return nil, fmt.Errorf("reading gitlab.yml: %w", err)
	}
	if err := d.api.Validate(loader.Context); err != nil {
		return nil, fmt.Errorf("gitlab.yml is no description: %w", err)
	}
	for path, item := range d.api.Paths.Map() {
		for method, op := range item.Operations() {
			// A project's path and a branch are escaped: no parameter holds a slash.
			o := newOperation(method, path, func(string) bool { return false })
			o.name = "gitlab " + o.name
			o.route = &routers.Route{Spec: d.api, Path: path, PathItem: item, Method: method, Operation: op}
			d.operations = append(d.operations, o)
		}
	}
	slices.SortFunc(d.operations, func(a, b *operation) int { return b.fixed - a.fixed })
	return d, nil
}

// labRoot is where a GitLab has its API, at any depth of the host.
const labRoot = "/api/v4"

// labOperation is what a request asks for. ok is false for what is no API.
func (d *description) labOperation(req *http.Request) (o *operation, values map[string]string, ok bool) {
	_, path, ok := strings.Cut(req.URL.EscapedPath(), labRoot)
	if !ok {
		return nil, nil, false
	}
	for _, o := range d.operations {
		found := o.match.FindStringSubmatch(strings.TrimSuffix(path, "/"))
		if o.route.Method != req.Method || found == nil {
			continue
		}
		values := map[string]string{}
		for i, key := range o.keys {
			value, err := url.PathUnescape(found[i+1])
			if err != nil {
				return nil, nil, true
			}
			values[key] = value
		}
		return o, values, true
	}
	return nil, nil, true
}

// GitLab is [Transport] for GitLab: it checks every request to next and every
// answer of it against gitlab.yml.
func GitLab(t testing.TB, next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		t.Helper()
		d, err := lab()
		if err != nil {
			return nil, err
		}
		o, values, ok := d.labOperation(req)
		if !ok {
			return next.RoundTrip(req)
		}
		if o == nil {
			t.Errorf("contract: %s %s: gitlab.yml has no such operation; if it is used, describe it", req.Method, req.URL.EscapedPath())
			return next.RoundTrip(req)
		}
		var body []byte
		if req.Body != nil && req.Body != http.NoBody {
			if body, err = io.ReadAll(req.Body); err != nil {
				return nil, err
			}
			if err := req.Body.Close(); err != nil {
				return nil, err
			}
			req = req.Clone(req.Context())
			req.Body = io.NopCloser(bytes.NewReader(body))
		}
		tell(t, req, d.labRequest(o, values, req, body))
		resp, err := next.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			return nil, err
		}
		if err := resp.Body.Close(); err != nil {
			return nil, err
		}
		resp.Body = io.NopCloser(bytes.NewReader(answer))
		tell(t, req, d.labAnswer(o, resp, answer))
		return resp, nil
	})
}

func tell(t testing.TB, req *http.Request, found []finding) {
	t.Helper()
	for _, f := range found {
		t.Errorf("contract: %s %s: %s", req.Method, req.URL.EscapedPath(), inLab(f))
	}
}

// inLab words a finding for the host it is about.
func inLab(f finding) string { return strings.ReplaceAll(f.String(), "GitHub", "GitLab") }

func (d *description) labRequest(o *operation, values map[string]string, req *http.Request, body []byte) []finding {
	found := flatten(openapi3filter.ValidateRequest(req.Context(), &openapi3filter.RequestValidationInput{
		Request: req, PathParams: values, Route: o.route, Options: options,
	}))
	for name := range req.URL.Query() {
		if o.route.Operation.Parameters.GetByInAndName("query", name) == nil {
			found = append(found, finding{"", "query parameter " + name + ": gitlab.yml does not know it"})
		}
	}
	if b := bytes.TrimSpace(body); string(b) == "{}" || string(b) == "null" {
		body = nil // a library's way of sending nothing
		if o.route.Operation.RequestBody != nil && o.route.Operation.RequestBody.Value.Required {
			body = []byte("{}")
		}
	}
	return append(found, sent(o.route.Operation.RequestBody, body)...)
}

func (d *description) labAnswer(o *operation, resp *http.Response, body []byte) []finding {
	note("operation " + o.name + " " + itoa(resp.StatusCode))
	status := resp.StatusCode
	described := o.route.Operation.Responses.Status(status)
	if described == nil {
		// The limit answers in plain text, redirects and servers in between as they like.
		if status == http.StatusTooManyRequests || status >= 500 || status/100 == 3 {
			return nil
		}
		if status < 400 {
			return []finding{{"", "answer " + itoa(status) + ": gitlab.yml does not list this status"}}
		}
		described = o.route.Operation.Responses.Default()
	}
	if len(described.Value.Content) == 0 {
		return nil
	}
	media := described.Value.Content.Get(resp.Header.Get("Content-Type"))
	if media == nil {
		return []finding{{"", fmt.Sprintf("answer %d: content type %q is not described", status, resp.Header.Get("Content-Type"))}}
	}
	if described.Value.Content.Get("application/json") == nil {
		return nil // a file
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return []finding{{"", "answer " + itoa(status) + " is no JSON: " + err.Error()}}
	}
	found := violations(media.Schema.Value, value)
	for i := range found {
		found[i].what = "answer " + itoa(status) + ": " + found[i].what
	}
	return found
}

// labHooks are the schemas of webhooks by X-Gitlab-Event.
var labHooks = map[string]string{
	"Note Hook": "NoteHook", "Merge Request Hook": "MergeRequestHook", "Pipeline Hook": "PipelineHook", "Push Hook": "PushHook",
}

// GitLabWebhook is [Webhook] for a payload of an event (X-Gitlab-Event).
func GitLabWebhook(t testing.TB, event string, payload []byte) {
	t.Helper()
	d, err := lab()
	if err != nil {
		t.Fatal(err)
	}
	schema := d.api.Components.Schemas[labHooks[event]]
	var value any
	if err := json.Unmarshal(payload, &value); err != nil || schema == nil {
		t.Errorf("contract: webhook %s: gitlab.yml has none, or it is no JSON: %v", event, err)
		return
	}
	note("webhook gitlab " + event)
	for _, f := range violations(schema.Value, value) {
		t.Errorf("contract: webhook %s: %s", event, inLab(f))
	}
}
