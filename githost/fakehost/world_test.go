package fakehost_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/google/go-github/v60/github"

	"github.com/batchbot/batchbot/githost/fakehost"
	"github.com/batchbot/batchbot/githost/hosttest/contract"
)

const repo = "acme/app"

// newHost is a host with acme/app, ada (admin), bob and cleo (write) and dan
// (a stranger). Nothing is delivered unless the test asks.
func newHost(t *testing.T, edit ...func(*fakehost.Options)) *fakehost.Host {
	t.Helper()
	opt := fakehost.Options{Dir: t.TempDir(), WebhookSecret: "s3cret", ManualDelivery: true}
	for _, f := range edit {
		f(&opt)
	}
	h, err := fakehost.New(opt)
	must(t, err)
	t.Cleanup(func() {
		h.Close()
		for _, d := range h.Deliveries() {
			contract.Webhook(t, d.Event, d.Payload)
		}
	})
	h.AddUser("dan")
	must(t, h.AddRepository(fakehost.NewRepository{
		Owner: "acme", Name: "app",
		Files:       map[string]string{"README.md": "# app\n", "a.txt": "one\ntwo\nthree\n"},
		Permissions: map[string]string{"ada": fakehost.RoleAdmin, "bob": fakehost.RoleWrite, "cleo": fakehost.RoleWrite, "tess": fakehost.RoleTriage, "max": fakehost.RoleMaintain},
	}))
	return h
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func get[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return v
	}
}

// wire is the way to a host without sockets, checked against what GitHub publishes.
func wire(t *testing.T, h *fakehost.Host) http.RoundTripper {
	return contract.Transport(t, h.RoundTripper())
}

// as is a client with a user's token, without sockets.
func as(t *testing.T, h *fakehost.Host, token string) *github.Client {
	return github.NewClient(&http.Client{Transport: wire(t, h)}).WithAuthToken(token)
}

// asBot is a client with an installation token.
func asBot(t *testing.T, h *fakehost.Host) *github.Client {
	t.Helper()
	return as(t, h, get(h.InstallationToken(repo))(t))
}

func openMR(t *testing.T, h *fakehost.Host, author, branch, path string) int {
	t.Helper()
	return get(h.OpenMR(repo, fakehost.NewMR{Author: author, Head: branch, Title: "Add " + path, Files: map[string]string{path: "by " + author + "\n"}}))(t)
}

func state(t *testing.T, h *fakehost.Host, number int) fakehost.MR {
	t.Helper()
	return get(h.MR(repo, number))(t)
}

var ctx = context.Background()

func TestMergeRequestsMergedByReachabilityWithTheDefaultBranch(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	one, two := openMR(t, h, "ada", "one", "one.txt"), openMR(t, h, "bob", "two", "two.txt")
	left := openMR(t, h, "bob", "left", "left.txt")

	batch := carry(t, h, "batch", "main", one, two)
	sha := get(h.MergeMR(repo, batch, "ada"))(t)

	for _, n := range []int{one, two, batch} {
		if m := state(t, h, n); m.State != "merged" || m.MergedBy != "ada" {
			t.Errorf("merge request %d reads %s by %q, want merged by ada", n, m.State, m.MergedBy)
		}
	}
	if m := state(t, h, left); m.State != "open" {
		t.Errorf("merge request %d was not carried and reads %s", left, m.State)
	}
	log := get(h.Log(repo, "main"))(t)
	if log[0].SHA != sha || len(log[0].Parents) != 2 || len(log) != 2 {
		t.Errorf("first-parent history of main is %+v, want the merge %s on the first commit", log, sha)
	}
	merged := 0
	for _, d := range h.Deliveries() {
		if e, ok := get(github.ParseWebHook(d.Event, d.Payload))(t).(*github.PullRequestEvent); ok && e.GetAction() == "closed" {
			if !e.GetPullRequest().GetMerged() || e.GetPullRequest().GetMergedAt().IsZero() {
				t.Errorf("closed webhook of %d does not say merged", e.GetNumber())
			}
			merged++
		}
	}
	if merged != 3 {
		t.Errorf("%d closed webhooks, want one for each of 3", merged)
	}
}

func TestReachabilityOnAnotherBranchMarksNothingUnlessAsked(t *testing.T) {
	t.Parallel()
	for everywhere, want := range map[bool]string{false: "open", true: "merged"} {
		h := newHost(t, func(o *fakehost.Options) { o.IndirectMergeEverywhere = everywhere })
		must(t, h.SetBranch(repo, "release/1", get(h.Branch(repo, "main"))(t), "ada"))
		one := get(h.OpenMR(repo, fakehost.NewMR{Author: "bob", Head: "one", Base: "release/1", Title: "One", Files: map[string]string{"one.txt": "1\n"}}))(t)
		batch := carry(t, h, "batch", "release/1", one)
		get(h.MergeMR(repo, batch, "ada"))(t)
		if got := state(t, h, one).State; got != want {
			t.Errorf("with IndirectMergeEverywhere %v the member reads %s, want %s", everywhere, got, want)
		}
		if got := state(t, h, batch).State; got != "merged" {
			t.Errorf("the merge request merged by the API reads %s", got)
		}
	}
}

// carry opens a merge request into base whose branch merges the given ones.
func carry(t *testing.T, h *fakehost.Host, branch, base string, numbers ...int) int {
	t.Helper()
	tip := get(h.Branch(repo, base))(t)
	for _, n := range numbers {
		head := state(t, h, n).Head
		tree := git(t, h, "merge-tree", "--write-tree", tip, head)
		tip = git(t, h, "commit-tree", tree, "-p", tip, "-p", head, "-m", "Merge")
	}
	git(t, h, "update-ref", "refs/heads/"+branch, tip)
	return get(h.OpenMR(repo, fakehost.NewMR{Author: "ada", Head: branch, Base: base, Title: "Batch"}))(t)
}

// Everybody at once: users by the API, the bot by path, verbs and readers.
func TestWorldStaysWholeUnderConcurrency(t *testing.T) {
	t.Parallel()
	h := newHost(t, func(o *fakehost.Options) { o.ManualDelivery = false })
	in := newInbox(t, h)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			branch := fmt.Sprintf("b%d", i)
			n, err := h.OpenMR(repo, fakehost.NewMR{Author: "ada", Head: branch, Title: branch, Files: map[string]string{branch + ".txt": "x\n"}})
			if err != nil {
				t.Error(err)
				return
			}
			bob := as(t, h, "bob-token")
			if _, _, err := bob.Issues.CreateComment(ctx, "acme", "app", n, &github.IssueComment{Body: github.String("/batch")}); err != nil {
				t.Error(err)
			}
			if _, _, err := bob.PullRequests.CreateReview(ctx, "acme", "app", n, &github.PullRequestReviewRequest{Event: github.String("APPROVE")}); err != nil {
				t.Error(err)
			}
			if _, _, err := bob.PullRequests.Get(ctx, "acme", "app", n); err != nil {
				t.Error(err)
			}
			if _, err := h.MergeMR(repo, n, "ada"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	must(t, h.Flush(ctx))
	s := get(h.State(repo))(t)
	for _, m := range s.MergeRequests {
		if m.State != "merged" || len(m.Comments) != 1 || len(m.Reviews) != 1 {
			t.Errorf("merge request %+v", m)
		}
	}
	if log := get(h.Log(repo, "main"))(t); len(log) != 9 || len(s.MergeRequests) != 8 {
		t.Errorf("%d first-parent commits and %d merge requests, want 9 and 8", len(log), len(s.MergeRequests))
	}
	if !in.heardOf("pull_request/closed") {
		t.Error("nobody heard of the merges")
	}
}

func TestDeletedBranchesCloseOrRetargetTheirMergeRequests(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	lower := openMR(t, h, "ada", "lower", "lower.txt")
	stack := func(base string) int {
		return get(h.OpenMR(repo, fakehost.NewMR{Author: "bob", Head: "on-" + base, Base: base, Title: "On " + base, Files: map[string]string{base + "2.txt": "x\n"}}))(t)
	}
	upper := stack("lower")
	get(h.MergeMR(repo, lower, "ada"))(t)
	must(t, h.SetBranch(repo, "lower", "", "ada"))
	if m := state(t, h, upper); m.State != "open" || m.Base != "main" {
		t.Errorf("the one stacked on a merged branch is %s into %s, want it open into main", m.State, m.Base)
	}
	must(t, h.SetBranch(repo, "side", get(h.Branch(repo, "main"))(t), "ada"))
	orphan := stack("side")
	must(t, h.SetBranch(repo, "side", "", "ada"))
	if m := state(t, h, orphan); m.State != "closed" {
		t.Errorf("the one into a deleted branch is %s", m.State)
	}
	if err := h.ReopenMR(repo, lower, "ada"); err == nil {
		t.Error("a merged one was reopened")
	}
}

func TestForkExistsOnlyAsAHeadRef(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	n := get(h.OpenMR(repo, fakehost.NewMR{Author: "dan", Head: "fix", Title: "Fix", Fork: true, Files: map[string]string{"fix.txt": "x\n"}}))(t)
	moved := get(h.PushTo(repo, n, map[string]string{"fix.txt": "y\n"}))(t)
	pr := answer(asBot(t, h).PullRequests.Get(ctx, "acme", "app", n))(t)
	if pr.GetHead().GetRepo().GetFullName() != "dan/app" || !pr.GetHead().GetRepo().GetFork() || pr.GetHead().GetLabel() != "dan:fix" || pr.GetHead().GetSHA() != moved {
		t.Errorf("head %v", pr.GetHead())
	}
	if sha := get(h.Branch(repo, "fix"))(t); sha != "" || git(t, h, "rev-parse", "refs/pull/1/head") != moved {
		t.Errorf("branch fix is at %q, want it only as refs/pull/1/head", sha)
	}
	get(h.MergeMR(repo, n, "ada"))(t)
	if !get(h.Contains(repo, "main", moved))(t) {
		t.Error("the fork's commit is not in main")
	}
}
