package github

import (
	"context"
	"net/http"
)

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
