package fakehost_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/batchbot/batchbot/githost/fakehost"
)

// A whole round of review, CI and merge inside a bubble: no sockets, webhooks
// by function, CI that takes half an hour of the bubble's time.
func TestWorldLivesInsideABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, func(o *fakehost.Options) {
			o.ManualDelivery = false
			o.CI = fakehost.CI{Mode: fakehost.CIDelayed, Delay: 30 * time.Minute}
		})
		in := newInbox(t, h)
		start := time.Now()
		n := openMR(t, h, "bob", "one", "one.txt")
		bot := asBot(t, h)
		answer(bot.PullRequests.Get(ctx, "acme", "app", n))(t)
		synctest.Wait()
		if in.heardOf("check_suite/completed") {
			t.Error("CI ended before its time")
		}
		time.Sleep(31 * time.Minute)
		synctest.Wait()
		if !in.heardOf("check_suite/completed") {
			t.Error("CI did not end")
		}
		run := h.CIRuns()[0]
		if run.Conclusion != "success" || run.Completed.Sub(start) != 30*time.Minute {
			t.Errorf("run %+v started at %s", run, start)
		}
		answer(bot.PullRequests.Merge(ctx, "acme", "app", n, "", &github.PullRequestOptions{MergeMethod: "merge"}))(t)
		synctest.Wait()
		if !in.heardOf("pull_request/closed") {
			t.Error("nobody heard of the merge")
		}
		if since := time.Since(start); since != 31*time.Minute {
			t.Errorf("git took %s of the bubble's time", since-31*time.Minute)
		}
	})
}
