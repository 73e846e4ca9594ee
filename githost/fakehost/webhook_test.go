package fakehost_test

import (
	"testing"

	"github.com/google/go-github/v60/github"

	"github.com/batchbot/batchbot/githost/fakehost"
)

func lastPull(t *testing.T, h *fakehost.Host, action string) *github.PullRequestEvent {
	t.Helper()
	var last *github.PullRequestEvent
	for _, d := range h.Deliveries() {
		if e, ok := get(github.ParseWebHook(d.Event, d.Payload))(t).(*github.PullRequestEvent); ok && e.GetAction() == action {
			last = e
		}
	}
	if last == nil {
		t.Fatalf("no pull_request webhook with the action %s", action)
	}
	return last
}
