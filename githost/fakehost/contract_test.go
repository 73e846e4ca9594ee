package fakehost_test

import (
	"net/http"
	"testing"

	"github.com/bradleyfalzon/ghinstallation/v2"
	"github.com/google/go-github/v60/github"

	"github.com/batchbot/batchbot/githost/fakehost"
)

// What people and other programs do by the API, and the bot never does. That the answers are GitHub's is checked on the way.
func TestPeoplesSideOfTheAPI(t *testing.T) {
	t.Parallel()
	h := newHost(t, func(o *fakehost.Options) { o.CI.Mode = fakehost.CIManual })
	bob, bot := as(t, h, "bob-token"), asBot(t, h)

	if u := answer(bob.Users.Get(ctx, "cleo"))(t); u.GetLogin() != "cleo" {
		t.Errorf("cleo is %v", u)
	}
	answer(bob.Meta.Get(ctx))(t)
	if limits := answer(bob.RateLimit.Get(ctx))(t); limits.GetCore() == nil || limits.GetCore().Limit == 0 {
		t.Errorf("rate limits %v", limits)
	}

	issue := answer(bob.Issues.Create(ctx, "acme", "app", &github.IssueRequest{Title: github.String("A question"), Body: github.String("Why?")}))(t)
	n := issue.GetNumber()
	if r := answer(bob.Reactions.CreateIssueReaction(ctx, "acme", "app", n, "heart"))(t); r.GetContent() != "heart" {
		t.Errorf("reaction %v", r)
	}
	for _, state := range []string{"closed", "open"} {
		if got := answer(bob.Issues.Edit(ctx, "acme", "app", n, &github.IssueRequest{State: &state}))(t); got.GetState() != state {
			t.Errorf("issue %v, want it %s", got, state)
		}
	}

	said := answer(bob.Issues.CreateComment(ctx, "acme", "app", n, &github.IssueComment{Body: github.String("/batch")}))(t)
	answer(bot.Reactions.CreateIssueCommentReaction(ctx, "acme", "app", said.GetID(), "eyes"))(t)
	if got := answer(bob.Reactions.ListIssueCommentReactions(ctx, "acme", "app", said.GetID(), nil))(t); len(got) != 1 || got[0].GetContent() != "eyes" {
		t.Errorf("reactions %v", got)
	}
	if got := answer(bob.Issues.GetComment(ctx, "acme", "app", said.GetID()))(t); got.GetBody() != "/batch" {
		t.Errorf("comment %v", got)
	}
	_, err := bob.Issues.DeleteComment(ctx, "acme", "app", said.GetID())
	must(t, err)
	_, _, err = bob.Issues.GetComment(ctx, "acme", "app", said.GetID())
	refused(t, err, 404)

	pr := openMR(t, h, "bob", "one", "one.txt")
	if list := answer(bob.PullRequests.ListCommits(ctx, "acme", "app", pr, nil))(t); len(list) != 1 || list[0].GetSHA() != state(t, h, pr).Head {
		t.Errorf("commits %v", list)
	}
	if list := answer(bob.PullRequests.ListFiles(ctx, "acme", "app", pr, nil))(t); len(list) != 1 || list[0].GetFilename() != "one.txt" {
		t.Errorf("files %v", list)
	}
	_, _, err = bob.PullRequests.IsMerged(ctx, "acme", "app", pr)
	must(t, err)

	run := answer(bot.Checks.ListCheckRunsForRef(ctx, "acme", "app", "one", nil))(t).CheckRuns[0]
	if got := answer(bot.Checks.GetCheckRun(ctx, "acme", "app", run.GetID()))(t); got.GetName() != run.GetName() {
		t.Errorf("check run %v", got)
	}
	get(h.FinishCI(state(t, h, pr).Head))(t)
	_, err = bot.Checks.ReRequestCheckRun(ctx, "acme", "app", run.GetID())
	must(t, err)
	if runs := h.CIRuns(); len(runs) != 2 {
		t.Errorf("CI runs after a re-run: %+v", runs)
	}
}

func TestAnInstallationIsReadByItsID(t *testing.T) {
	t.Parallel()
	key, block := newKey(t)
	h := newHost(t, func(o *fakehost.Options) { o.AppPublicKey = &key.PublicKey })
	app := github.NewClient(&http.Client{Transport: get(ghinstallation.NewAppsTransport(wire(t, h), 1, block))(t)})
	all := answer(app.Apps.ListInstallations(ctx, nil))(t)
	if got := answer(app.Apps.GetInstallation(ctx, all[0].GetID()))(t); got.GetID() != all[0].GetID() || got.GetAccount().GetLogin() != "acme" {
		t.Errorf("installation %v of %v", got, all)
	}
}
