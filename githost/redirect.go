package githost

import (
	"fmt"
	"net/http"
)

// RedirectError says that a redirect was not followed. For a write it usually means that the repository was renamed or moved:
// look it up by its id, then call again with the new path.
type RedirectError struct {
	Method string // of the request that was redirected
	Status int    // 301, 302, 303, 307 or 308
	Reason string
}

// Error says what was redirected and why that is refused.
func (e *RedirectError) Error() string {
	return fmt.Sprintf("refusing to follow the redirect (%d) of a %s request: %s", e.Status, e.Method, e.Reason)
}

// NewClient returns a client on top of rt that follows a redirect only if it is of a read, within the same origin, and not the
// sixth in a row. A redirected write would arrive as a read and look like a success; a redirect elsewhere would hand our token to
// whoever answers there, because the layers below authenticate every hop.
func NewClient(rt http.RoundTripper) *http.Client {
	return &http.Client{Transport: rt, CheckRedirect: checkRedirect}
}

func checkRedirect(req *http.Request, via []*http.Request) error {
	first, last := via[0], via[len(via)-1]
	e := &RedirectError{Method: first.Method}
	if req.Response != nil {
		e.Status = req.Response.StatusCode
	}
	switch {
	case first.Method != http.MethodGet && first.Method != http.MethodHead:
		e.Reason = "only reads may be redirected"
	case origin(req.URL) != origin(last.URL):
		e.Reason = "it leads to another host, " + OneLine(origin(req.URL), 200)
	case len(via) > 5:
		e.Reason = "too many in a row"
	default:
		return nil
	}
	return e
}
