package fakehost_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bradleyfalzon/ghinstallation/v2"
	"github.com/google/go-github/v60/github"

	"github.com/batchbot/batchbot/githost/fakehost"
)

func newKey(t *testing.T) (*rsa.PrivateKey, []byte) {
	t.Helper()
	key := get(rsa.GenerateKey(rand.Reader, 2048))(t)
	return key, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
}

func TestAppFindsItsInstallationAndWorksByItsTokens(t *testing.T) {
	t.Parallel()
	key, pemBytes := newKey(t)
	h := newHost(t, func(o *fakehost.Options) { o.AppID, o.AppPublicKey = 77, &key.PublicKey })
	app := get(ghinstallation.NewAppsTransport(wire(t, h), 77, pemBytes))(t)
	app.BaseURL = "http://fakehost.test/api/v3"
	client := get(github.NewClient(&http.Client{Transport: app}).WithEnterpriseURLs("http://fakehost.test", "http://fakehost.test"))(t)

	if a := answer(client.Apps.Get(ctx, ""))(t); a.GetID() != 77 || a.GetSlug() != "batchbot" {
		t.Errorf("app %v", a)
	}
	all := answer(client.Apps.ListInstallations(ctx, nil))(t)
	in := answer(client.Apps.FindRepositoryInstallation(ctx, "acme", "app"))(t)
	if len(all) != 1 || in.GetID() != all[0].GetID() || in.GetAccount().GetLogin() != "acme" {
		t.Errorf("installations %v, of the repository %v", all, in)
	}
	if _, _, err := client.Apps.FindRepositoryInstallation(ctx, "acme", "other"); err == nil {
		t.Error("found an installation of no repository")
	}

	// ghinstallation posts the body null.
	tr := get(ghinstallation.New(wire(t, h), 77, in.GetID(), pemBytes))(t)
	tr.BaseURL = app.BaseURL
	bot := github.NewClient(&http.Client{Transport: tr})
	repos := answer(bot.Apps.ListRepos(ctx, nil))(t)
	if repos.GetTotalCount() != 1 || repos.Repositories[0].GetFullName() != repo {
		t.Errorf("repositories %v", repos)
	}
	n := openMR(t, h, "bob", "one", "one.txt")
	c := answer(bot.Issues.CreateComment(ctx, "acme", "app", n, &github.IssueComment{Body: github.String("hello")}))(t)
	if c.GetUser().GetLogin() != "batchbot[bot]" {
		t.Errorf("the comment is by %s", c.GetUser().GetLogin())
	}

	narrow := answer(client.Apps.CreateInstallationToken(ctx, in.GetID(), &github.InstallationTokenOptions{RepositoryIDs: []int64{repos.Repositories[0].GetID()}}))(t)
	must(t, h.AddRepository(fakehost.NewRepository{Owner: "acme", Name: "second"}))
	if seen := answer(as(t, h, narrow.GetToken()).Apps.ListRepos(ctx, nil))(t); seen.GetTotalCount() != 1 {
		t.Errorf("a narrowed token sees %v", seen)
	}
	_, _, err := as(t, h, narrow.GetToken()).Git.GetRef(ctx, "acme", "second", "heads/main")
	must(t, err) // public
	_, err = as(t, h, narrow.GetToken()).Git.DeleteRef(ctx, "acme", "second", "heads/main")
	refused(t, err, 403)

	must(t, h.Suspend("acme", true))
	_, _, err = as(t, h, narrow.GetToken()).Apps.ListRepos(ctx, nil)
	refused(t, err, 403)
	fresh := get(ghinstallation.New(wire(t, h), 77, in.GetID(), pemBytes))(t)
	fresh.BaseURL = app.BaseURL
	_, err = fresh.Token(ctx)
	var he *ghinstallation.HTTPError
	if !errors.As(err, &he) || he.Response.StatusCode != 403 {
		t.Errorf("token of a suspended installation: %v", err)
	}
}

func TestAppIsNotBelievedWithoutItsKey(t *testing.T) {
	t.Parallel()
	key, _ := newKey(t)
	_, other := newKey(t)
	h := newHost(t, func(o *fakehost.Options) { o.AppID, o.AppPublicKey = 77, &key.PublicKey })
	for name, id := range map[string]int64{"another key": 77, "another App": 78} {
		tr := get(ghinstallation.NewAppsTransport(wire(t, h), id, other))(t)
		_, _, err := github.NewClient(&http.Client{Transport: tr}).Apps.Get(ctx, "")
		if err == nil || !strings.Contains(err.Error(), "401") {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, _, err := as(t, h, "ada-token").Apps.Get(ctx, "")
	refused(t, err, 401)
	_, _, err = as(t, h, "ghs_unknown").Repositories.Get(ctx, "acme", "app")
	refused(t, err, 401)
}

func TestInstallationTokenLivesAnHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		bot := asBot(t, h)
		answer(bot.Apps.ListRepos(ctx, nil))(t)
		time.Sleep(time.Hour + time.Second)
		_, _, err := bot.Apps.ListRepos(ctx, nil)
		refused(t, err, 401)
	})
}

func TestAppListsAndRepeatsDeliveries(t *testing.T) {
	t.Parallel()
	key, pemBytes := newKey(t)
	h := newHost(t, func(o *fakehost.Options) { o.AppPublicKey = &key.PublicKey })
	client := github.NewClient(&http.Client{Transport: get(ghinstallation.NewAppsTransport(wire(t, h), 1, pemBytes))(t)})
	in := newInbox(t, h)
	must(t, h.DeliverPending(ctx))
	all := answer(client.Apps.ListHookDeliveries(ctx, nil))(t)
	if len(all) != len(h.Deliveries()) || all[0].GetStatus() != "OK" {
		t.Fatalf("deliveries %v", all)
	}
	_, _, err := client.Apps.RedeliverHookDelivery(ctx, all[0].GetID())
	var accepted *github.AcceptedError
	if err != nil && !errors.As(err, &accepted) {
		t.Fatal(err)
	}
	before := len(in.guids)
	must(t, h.DeliverPending(ctx))
	if len(in.guids) != before+1 || in.guids[before] != all[0].GetGUID() {
		t.Errorf("received %v", in.guids)
	}
}
