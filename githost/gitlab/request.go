package gitlab

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/xanzy/go-gitlab"
)

const pageSize = 100

// route says what a request is about. The bot names projects by their id; below one GitLab's addresses name the resource first.
func (h *Host) route(req *http.Request) (repository, resource string) {
	path := strings.Split(strings.TrimPrefix(req.URL.Path, h.api.Path), "/")
	switch {
	case len(path) > 2 && path[0] == "projects":
		return "projects/" + path[1], path[2]
	case len(path) == 2 && path[0] == "projects":
		return "projects/" + path[1], "projects"
	}
	return "", path[0]
}

// get reads path as JSON into v, for endpoints go-gitlab does not know well enough.
func (c *client) get(ctx context.Context, path string, v any) error {
	return c.send(ctx, http.MethodGet, path, nil, v)
}

// send makes a request of go-gitlab's client; query or body is a struct, nil for none.
func (c *client) send(ctx context.Context, method, path string, in, out any) error {
	req, err := c.NewRequest(method, path, in, within(ctx))
	if err != nil {
		return err
	}
	_, err = c.Do(req, out)
	return err
}

// within is the option every call of go-gitlab needs.
func within(ctx context.Context) []gitlab.RequestOptionFunc {
	return []gitlab.RequestOptionFunc{gitlab.WithContext(ctx)}
}

// everyPage calls list with each page's number until list says there is no next one.
func everyPage(list func(page int) (next int, err error)) error {
	for page := 1; page != 0; {
		next, err := list(page)
		if err != nil {
			return err
		}
		page = next
	}
	return nil
}

// listAll reads all pages of a list; path may hold a query.
func listAll[T any](ctx context.Context, c *client, path string, query url.Values) (all []T, err error) {
	err = everyPage(func(page int) (int, error) {
		q := maps.Clone(query)
		if q == nil {
			q = url.Values{}
		}
		q.Set("per_page", fmt.Sprint(pageSize))
		q.Set("page", fmt.Sprint(page))
		var list []T
		resp, err := c.page(ctx, path, q, &list)
		if err != nil {
			return 0, err
		}
		all = append(all, list...)
		return resp.NextPage, nil
	})
	return all, err
}

func (c *client) page(ctx context.Context, path string, query url.Values, out any) (*gitlab.Response, error) {
	req, err := c.NewRequest(http.MethodGet, path, nil, within(ctx))
	if err != nil {
		return nil, err
	}
	req.URL.RawQuery = query.Encode()
	return c.Do(req, out)
}
