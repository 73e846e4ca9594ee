package fakehost_test

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-github/v60/github"

	"github.com/batchbot/batchbot/githost/fakehost"
)

func TestARenamedRepositoryRedirects(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	in := newInbox(t, h)
	n := openMR(t, h, "bob", "one", "one.txt")
	id := answer(asBot(t, h).Repositories.Get(ctx, "acme", "app"))(t).GetID()
	must(t, h.Rename(repo, "tool"))
	for method, status := range map[string]int{"GET": 301, "PATCH": 307} {
		resp, _, err := ask(ctx, h, method, "/repos/acme/app/pulls/1?x=1", "{}")
		must(t, err)
		if to := resp.Header.Get("Location"); resp.StatusCode != status || !strings.HasSuffix(to, "/pulls/1?x=1") || !strings.Contains(to, "/repositories/") {
			t.Errorf("%s: %d to %q", method, resp.StatusCode, to)
		}
	}
	bot := as(t, h, get(h.InstallationToken("acme/tool"))(t))
	if r := answer(bot.Repositories.GetByID(ctx, id))(t); r.GetFullName() != "acme/tool" {
		t.Errorf("by id it is %s", r.GetFullName())
	}
	// A client that follows redirects finds it, as GitHub's own documentation says.
	client := github.NewClient(&http.Client{Transport: h.RoundTripper()}).WithAuthToken("ada-token")
	if pr := answer(client.PullRequests.Get(ctx, "acme", "app", n))(t); pr.GetNumber() != n {
		t.Errorf("followed to %+v", pr)
	}
	base, _ := serve(t, h, "bob")
	if out, err := gitIn(t.TempDir(), "ls-remote", base+"/acme/app.git", "refs/heads/main"); err != nil || out == "" {
		t.Errorf("git by the old address: %v %s", err, out)
	}
	must(t, h.DeliverPending(ctx))
	if !in.heardOf("repository/renamed") {
		t.Error("nobody heard of it")
	}
	if _, err := os.Stat(h.RepoPath("acme", "app")); !os.IsNotExist(err) {
		t.Errorf("the old folder: %v", err)
	}
	// The name is free again, and then it leads to the new one.
	must(t, h.AddRepository(fakehost.NewRepository{Owner: "acme", Name: "app"}))
	if r := answer(bot.Repositories.Get(ctx, "acme", "app"))(t); r.GetID() == id {
		t.Error("the old name still leads to the renamed one")
	}
}

func TestATransferredRepositoryChangesItsInstallation(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	in := newInbox(t, h)
	must(t, h.Transfer(repo, "other"))
	must(t, h.DeliverPending(ctx))
	if !in.heardOf("installation_repositories/removed") || in.heardOf("repository/transferred") {
		t.Errorf("heard %v", in.seen)
	}
	if _, err := h.InstallationToken("other/app"); err == nil {
		t.Error("the App reaches a repository of an account it is not installed on")
	}
	must(t, h.AddRepository(fakehost.NewRepository{Owner: "third", Name: "has"}))
	must(t, h.Install("other/app"))
	must(t, h.Transfer("other/app", "third"))
	must(t, h.DeliverPending(ctx))
	if !in.heardOf("repository/transferred") {
		t.Errorf("heard %v", in.seen)
	}
	get(h.InstallationToken("third/app"))(t)
}

func TestADeletedRepositoryIsGone(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	in := newInbox(t, h)
	bot := asBot(t, h)
	id := answer(bot.Repositories.Get(ctx, "acme", "app"))(t).GetID()
	must(t, h.Delete(repo))
	_, _, err := bot.Repositories.GetByID(ctx, id)
	refused(t, err, 404)
	must(t, h.DeliverPending(ctx))
	if !in.heardOf("repository/deleted") {
		t.Error("nobody heard of it")
	}
}

func TestPushesAreHeldToRules(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	base, bob := serve(t, h, "bob")
	app := strings.Replace(base, "http://", "http://x-access-token:"+get(h.InstallationToken(repo))(t)+"@", 1) + "/acme/app.git"
	work := t.TempDir()
	gitAt(t, work, "clone", "-q", bob, ".")
	change := func(file, content string) {
		t.Helper()
		gitAt(t, work, "checkout", "-q", "-B", "change", "origin/main")
		must(t, os.MkdirAll(work+"/.github/workflows", 0o755))
		must(t, os.WriteFile(work+"/"+file, []byte(content), 0o644))
		gitAt(t, work, "add", ".")
		gitAt(t, work, "commit", "-q", "-m", "Change "+file)
	}
	push := func(to string) string {
		t.Helper()
		out, err := gitIn(work, "push", "-f", to, "HEAD:refs/heads/change")
		if err == nil {
			return ""
		}
		return out
	}
	const words = "refusing to allow a GitHub App to create or update workflow `.github/workflows/ci.yml` without `workflows` permission"
	change(".github/workflows/ci.yml", "on: push\n")
	if said := push(app); !strings.Contains(said, words) {
		t.Errorf("the App without the permission: %s", said)
	}
	if said := push(h.RepoPath("acme", "app")); !strings.Contains(said, words) {
		t.Errorf("by path, as the bot: %s", said)
	}
	if said := push(bob); said != "" {
		t.Errorf("a person: %s", said)
	}
	n := get(h.OpenMR(repo, fakehost.NewMR{Author: "bob", Head: "change", Title: "Workflow"}))(t)
	_, _, err := asBot(t, h).PullRequests.Merge(ctx, "acme", "app", n, "", nil)
	refused(t, err, 403)
	must(t, h.SetBranch(repo, "change", "", "bob"))
	must(t, h.SetAppPermission("workflows", "write"))
	if said := push(app); said != "" {
		t.Errorf("the App with the permission: %s", said)
	}
	must(t, h.SetPushRules(repo, fakehost.PushRules{Paths: []string{"secret/*", "*.pem"}, MaxFileSize: 1000}))
	change("key.pem", "x")
	if said := push(app); !strings.Contains(said, "GH013") || !strings.Contains(said, "File path is restricted: key.pem") {
		t.Errorf("a restricted path: %s", said)
	}
	change("big.bin", strings.Repeat("x", 1001))
	if said := push(bob); !strings.Contains(said, "GH001") || !strings.Contains(said, "big.bin") {
		t.Errorf("a big file: %s", said)
	}
	change("small.txt", "x")
	if said := push(app); said != "" {
		t.Errorf("an ordinary file: %s", said)
	}
	gitAt(t, work, "push", "-q", app, ":refs/heads/change")
}
