package github

import (
	"context"
	"net/http"
	"strings"
)

// route says what a request is about. Below a repository GitHub's addresses name the resource first; elsewhere they begin with it.
func (h *Host) route(req *http.Request) (repository, resource string) {
	path := strings.Split(strings.TrimPrefix(req.URL.Path, h.api.Path), "/")
	switch {
	case len(path) > 3 && path[0] == "repos":
		return path[1] + "/" + path[2], path[3]
	case len(path) == 3 && path[0] == "repos":
		return path[1] + "/" + path[2], "repos"
	case strings.HasSuffix(req.URL.Path, "/graphql"):
		return "", "graphql"
	}
	return "", path[0]
}

// get reads path as JSON into v, for endpoints go-github does not know well enough.
func (c *client) get(ctx context.Context, path string, v any) error {
	_, err := c.getPage(ctx, path, v)
	return err
}

// getPage is get for lists: it also returns the number of the next page, 0 after the last.
func (c *client) getPage(ctx context.Context, path string, v any) (next int, err error) {
	req, err := c.NewRequest(http.MethodGet, path, nil)
	if err != nil {
		return 0, err
	}
	resp, err := c.Do(ctx, req, v)
	if err != nil {
		return 0, err
	}
	return resp.NextPage, nil
}
