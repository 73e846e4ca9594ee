package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
)

var options = &openapi3filter.Options{
	AuthenticationFunc:  openapi3filter.NoopAuthenticationFunc,
	MultiError:          true,
	SkipSettingDefaults: true,
	ExcludeRequestBody:  true, // checked here, with unknown keys
}

// Transport checks every request to next and every answer of it; what is not as
// GitHub describes it fails t.
func Transport(t testing.TB, next http.RoundTripper) http.RoundTripper {
	return transport{t: t, next: next, answer: func(o *operation, resp *http.Response, body []byte) []byte { return body }}
}

// Scripted is [Transport] for answers a test wrote: an object that lacks what
// GitHub always sends gets it with the least value, so that a test states only
// what it is about. An answer is exempt where its header [Broken] says why.
func Scripted(t testing.TB, next http.RoundTripper) http.RoundTripper {
	return transport{t: t, next: next, answer: completed}
}

// Broken is the header of a scripted answer that no GitHub gives, and the
// reason why a test wants it.
const Broken = "X-Broken"

type transport struct {
	t      testing.TB
	next   http.RoundTripper
	answer func(*operation, *http.Response, []byte) []byte
}

func (x transport) RoundTrip(req *http.Request) (*http.Response, error) {
	x.t.Helper()
	d, err := github()
	if err != nil {
		return nil, err
	}
	var sent []byte
	if req.Body != nil && req.Body != http.NoBody {
		if sent, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		if err := req.Body.Close(); err != nil {
			return nil, err
		}
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(bytes.NewReader(sent))
	}
	x.fail(req, d.request(req, sent))
	resp, err := x.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if err := resp.Body.Close(); err != nil {
		return nil, err
	}
	if o, _ := d.find(req); o != nil && resp.Header.Get(Broken) == "" {
		body = x.answer(o, resp, body)
		x.fail(req, d.response(req, resp.StatusCode, resp.Header, body))
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if resp.ContentLength >= 0 {
		resp.ContentLength = int64(len(body))
	}
	return resp, nil
}

func (x transport) fail(req *http.Request, found []finding) {
	x.t.Helper()
	for _, f := range found {
		x.t.Errorf("contract: %s %s: %s", req.Method, req.URL.EscapedPath(), f)
	}
}

// Handler is [Transport] for a host that listens on a socket.
func Handler(t testing.TB, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		d, err := github()
		if err != nil {
			t.Error(err)
			return
		}
		if o, _ := d.find(req); o == nil {
			// git streams.
			x := transport{t: t}
			x.fail(req, d.request(req, nil))
			next.ServeHTTP(w, req)
			return
		}
		through := Transport(t, roundTrip(func(req *http.Request) (*http.Response, error) {
			rec := httptest.NewRecorder()
			next.ServeHTTP(rec, req)
			return rec.Result(), nil
		}))
		resp, err := through.RoundTrip(req)
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		maps.Copy(w.Header(), resp.Header)
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body) // the client may be gone
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// request says what is not as described in a request.
func (d *description) request(req *http.Request, body []byte) []finding {
	o, values := d.find(req)
	if o == nil {
		if d.undescribed(req.Method, apiPath(req.URL)) != nil {
			return nil
		}
		return []finding{{"", "no such operation is kept of GitHub's description; if it is used, keep it (sources.json, make contract-update)"}}
	}
	found := flatten(openapi3filter.ValidateRequest(req.Context(), &openapi3filter.RequestValidationInput{
		Request: req, PathParams: values, Route: o.route, Options: options,
	}))
	for name := range req.URL.Query() {
		if o.route.Operation.Parameters.GetByInAndName("query", name) == nil {
			found = append(found, finding{"", "query parameter " + name + ": GitHub does not know it"})
		}
	}
	found = append(found, sent(o.route.Operation.RequestBody, body)...)
	return slices.DeleteFunc(found, func(f finding) bool { return d.knows(o.name, f) })
}

// sent says what is not as described in the body of a request.
func sent(described *openapi3.RequestBodyRef, body []byte) []finding {
	empty := len(bytes.TrimSpace(body)) == 0
	switch {
	case described == nil && empty:
		return nil
	case described == nil:
		return []finding{{"", "GitHub takes no body here"}}
	case empty && described.Value.Required:
		return []finding{{"", "the body is missing"}}
	case empty:
		return nil
	}
	media := described.Value.Content.Get("application/json")
	if media == nil || media.Schema == nil {
		return nil
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return []finding{{"", "the body is no JSON: " + err.Error()}}
	}
	return violations(media.Schema.Value, value)
}

// response says what is not as described in the answer to a request of a described operation.
func (d *description) response(req *http.Request, status int, header http.Header, body []byte) []finding {
	o, _ := d.find(req)
	note("operation " + o.name + " " + itoa(status))
	schema, found := d.answerOf(o, status, header)
	if found == nil && schema != nil {
		var value any
		if err := json.Unmarshal(body, &value); err != nil {
			return []finding{{"", "answer " + itoa(status) + " is no JSON: " + err.Error()}}
		}
		found = violations(schema, value)
	}
	in := o.name + " " + itoa(status)
	found = slices.DeleteFunc(found, func(f finding) bool { return d.knows(in, f) })
	for i := range found {
		found[i].what = "answer " + itoa(status) + ": " + found[i].what
	}
	return found
}

// answerOf is the schema of an answer; nil where it may be anything.
func (d *description) answerOf(o *operation, status int, header http.Header) (*openapi3.Schema, []finding) {
	described := o.route.Operation.Responses.Status(status)
	if described == nil {
		if !d.allowsStatus(o.name, status) {
			return nil, []finding{{"", "GitHub does not list this status"}}
		}
		// A refusal looks the same everywhere; servers in between fail in their own ways.
		if status < 400 || status >= 500 {
			return nil, nil
		}
		return d.api.Components.Schemas["basic-error"].Value, nil
	}
	if len(described.Value.Content) == 0 {
		return nil, nil
	}
	media := described.Value.Content.Get(header.Get("Content-Type"))
	if media == nil || media.Schema == nil {
		return nil, []finding{{"", fmt.Sprintf("content type %q is not described", header.Get("Content-Type"))}}
	}
	return media.Schema.Value, nil
}
