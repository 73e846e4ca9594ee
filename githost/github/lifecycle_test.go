package github_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/fakehost"
	"github.com/batchbot/batchbot/githost/github"
	"github.com/batchbot/batchbot/githost/hosttest"
)

// hints are the events of the webhooks since the last call.
func (w *world) hints(heard *int) (list []bot.Event) {
	w.t.Helper()
	all := w.Deliveries()
	for _, d := range all[*heard:] {
		head, err := w.host.Authenticate(d.Header, d.Body)
		w.must(err)
		if !head.Wanted {
			continue
		}
		events, _, err := w.host.Parse(head.Event, d.Body)
		w.must(err)
		list = append(list, events...)
	}
	*heard = len(all)
	return list
}

// everything calls one of each kind: a read, a write, a read by id, git.
func (w *world) everything(ctx context.Context, number int) map[string]error {
	_, read := w.host.ReadMR(ctx, w.repo, number)
	_, write := w.host.UpsertComment(ctx, w.repo, number, "<!-- m -->", "hello", 0)
	_, byID := w.host.ReadRepository(ctx, w.repo)
	_, git := w.host.GitRemote(ctx, w.repo)
	return map[string]error{"a read": read, "a write": write, "a look by id": byID, "git": git}
}

// newPrivateWorld is a world whose repository only the App's installation shows, with git by address.
func newPrivateWorld(t *testing.T) (w *world, number int, heard *int) {
	t.Helper()
	w = newWorldAs(t, func(c *github.Config) { c.GitURL = "" })
	w.must(w.fake.AddRepository(fakehost.NewRepository{Owner: "acme", Name: "vault", Private: true, Permissions: map[string]string{"bob": fakehost.RoleWrite}}))
	number, err := w.fake.OpenMR("acme/vault", fakehost.NewMR{Author: "bob", Head: "b1", Title: "T", Files: map[string]string{"a.txt": "a\n"}})
	w.must(err)
	list, err := w.host.ListRepositories(t.Context())
	w.must(err)
	for _, ref := range list {
		if ref.Path == "acme/vault" {
			w.repo = bot.Repository{ID: 2, RepositoryRef: ref, Active: true}
		}
	}
	for what, err := range w.everything(t.Context(), number) {
		if err != nil {
			t.Fatalf("before anything happens, %s: %v", what, err)
		}
	}
	heard = new(int)
	w.hints(heard)
	return w, number, heard
}

func TestPitfall12ARenamedRepositoryIsFoundByItsID(t *testing.T) {
	t.Parallel()
	w, number, heard := newPrivateWorld(t)
	w.must(w.fake.Rename("acme/vault", "safe"))
	if e := w.hints(heard); len(e) != 1 || e[0].Kind != bot.EventRepository || e[0].Repository.Path != "acme/safe" || e[0].Repository.ExternalID != w.repo.ExternalID {
		t.Errorf("heard %+v", e)
	}
	for what, err := range w.everything(t.Context(), number) {
		if err != nil {
			t.Errorf("%s by the old path: %v", what, err)
		}
	}
	if remote, err := w.host.GitRemote(t.Context(), w.repo); err != nil || remote.URL != "http://fakehost.test/acme/safe.git" {
		t.Errorf("git goes to %s, %v", remote.URL, err)
	}
	if comments, err := w.fake.Comments("acme/safe", number); err != nil || len(comments) != 1 {
		t.Errorf("there are %d comments, %v", len(comments), err)
	}
}

// unchecked is another adapter of the same world, which nobody holds to the contract.
func (w *world) unchecked() *github.Host {
	w.t.Helper()
	_, pem := appKey()
	h, err := github.New(github.Config{
		Name: "hub", APIURL: "http://fakehost.test", AppID: 1, PrivateKey: pem, WebhookSecrets: []bot.Secret{secret}, HTTPTransport: w.fake.RoundTripper(),
	})
	w.must(err)
	return h
}

// Git alone finds out about a rename too: whoever asks for a token is told where the repository is.
func TestPitfall12GitLearnsOfARenameByItsToken(t *testing.T) {
	t.Parallel()
	w, _, _ := newPrivateWorld(t)
	w.must(w.fake.Rename("acme/vault", "safe"))
	if remote, err := w.unchecked().GitRemote(t.Context(), w.repo); err != nil || remote.URL != "http://fakehost.test/acme/safe.git" {
		t.Errorf("git goes to %s, %v", remote.URL, err)
	}
}

func TestPitfall12ATransferredRepositoryMovesBetweenInstallations(t *testing.T) {
	t.Parallel()
	w, number, heard := newPrivateWorld(t)
	w.must(w.fake.AddRepository(fakehost.NewRepository{Owner: "omega", Name: "base"}))
	w.hints(heard)
	w.must(w.fake.Transfer("acme/vault", "omega"))
	var left bool
	var now bot.RepositoryRef
	for _, e := range w.hints(heard) {
		switch {
		case e.Kind != bot.EventInstallation:
		case e.Installation.Installation == w.repo.Installation:
			left = len(e.Installation.Removed) == 1 && e.Installation.Removed[0].ExternalID == w.repo.ExternalID
		case len(e.Installation.Added) == 1:
			now = e.Installation.Added[0]
		}
	}
	if !left || now.Path != "omega/vault" || now.ExternalID != w.repo.ExternalID || now.Installation == w.repo.Installation {
		t.Errorf("left the old installation: %v, now at %+v", left, now)
	}
	for what, err := range w.everything(t.Context(), number) {
		if what != "git" && !errors.Is(err, bot.ErrGone) { // git has its token for a while
			t.Errorf("%s by the old installation: %v, want that it is gone", what, err)
		}
	}
	w.repo.RepositoryRef = now
	for what, err := range w.everything(t.Context(), number) {
		if err != nil {
			t.Errorf("%s by the new installation: %v", what, err)
		}
	}
}

// What ends: whatever was last known of it, every call says that it is gone, and a webhook tells so.
func TestPitfall13WhatEndedIsGone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		end  func(*fakehost.Host) error
		told func(bot.Event) bool
		back func(*fakehost.Host) error // nil: never
	}{
		"the repository is deleted": {
			func(h *fakehost.Host) error { return h.Delete("acme/vault") },
			func(e bot.Event) bool { return e.Kind == bot.EventRepository && e.Repository.Path == "acme/vault" }, nil,
		},
		"the repository is taken from the installation": {
			func(h *fakehost.Host) error { return h.Uninstall("acme/vault") },
			func(e bot.Event) bool {
				return e.Kind == bot.EventInstallation && len(e.Installation.Removed) == 1 && e.Installation.Removed[0].Path == "acme/vault"
			},
			func(h *fakehost.Host) error { return h.Install("acme/vault") },
		},
		"the installation is suspended": {
			func(h *fakehost.Host) error { return h.Suspend("acme", true) },
			func(e bot.Event) bool { return e.Kind == bot.EventInstallation && e.Installation.RemovedAll },
			func(h *fakehost.Host) error { return h.Suspend("acme", false) },
		},
		"the App is uninstalled": {
			func(h *fakehost.Host) error { return errors.Join(h.Uninstall("acme/app"), h.Uninstall("acme/vault")) },
			func(e bot.Event) bool { return e.Kind == bot.EventInstallation && e.Installation.RemovedAll }, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, number, heard := newPrivateWorld(t)
			w.must(test.end(w.fake))
			// First without the webhook: it may never come.
			for what, err := range w.everything(t.Context(), number) {
				if what != "git" && !errors.Is(err, bot.ErrGone) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if e := w.hints(heard); !slices.ContainsFunc(e, test.told) {
				t.Errorf("heard %+v", e)
			}
			for what, err := range w.everything(t.Context(), number) {
				if !errors.Is(err, bot.ErrGone) && (what != "git" || name == "the App is uninstalled") {
					t.Errorf("%s, once it is told: %v", what, err)
				}
			}
			if test.back == nil {
				return
			}
			w.must(test.back(w.fake))
			w.hints(heard)
			for what, err := range w.everything(t.Context(), number) {
				if err != nil {
					t.Errorf("%s, once it is back: %v", what, err)
				}
			}
		})
	}
}

func TestPitfall13ArchivingIsTold(t *testing.T) {
	t.Parallel()
	w, number, heard := newPrivateWorld(t)
	for _, archived := range []bool{true, false} {
		w.must(w.fake.SetArchived("acme/vault", archived))
		if e := w.hints(heard); len(e) != 1 || e[0].Kind != bot.EventRepository {
			t.Errorf("heard %+v", e)
		}
		if r, err := w.host.ReadRepository(t.Context(), w.repo); err != nil || r.Archived != archived {
			t.Errorf("reads %+v, %v", r, err)
		}
		if err := w.host.CloseMR(t.Context(), w.repo, number); archived != errors.Is(err, bot.ErrGone) {
			t.Errorf("archived %v, closing: %v", archived, err)
		}
	}
}

// Everything the host says and answers behind one prefix of a shared address.
func TestAGitHubBehindAPathIsReachedThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.fake.AddRepository(fakehost.NewRepository{Owner: "acme", Name: "vault", Private: true}))
	server, seen := servePrefixed(t, w.fake, "/hub")
	_, pem := appKey()
	h, err := github.New(github.Config{Name: "hub", APIURL: server + "/hub", AppID: 1, PrivateKey: pem, WebhookSecrets: []bot.Secret{secret}})
	w.must(err)
	list, err := h.ListRepositories(t.Context())
	w.must(err)
	i := slices.IndexFunc(list, func(r bot.RepositoryRef) bool { return r.Path == "acme/vault" })
	if i < 0 {
		t.Fatalf("listed %+v", list)
	}
	vault := bot.Repository{RepositoryRef: list[i]}
	number := w.OpenMR(hosttest.NewMR{Author: "bob", Branch: "b1", Title: "T", Files: map[string]string{"a.txt": "a\n"}})
	_, err = h.ReadApprovals(t.Context(), w.repo, number)
	w.must(err)
	_, err = h.UpsertComment(t.Context(), w.repo, number, "<!-- m -->", "hello", 0)
	w.must(err)
	remote, err := h.GitRemote(t.Context(), vault)
	w.must(err)
	if tip, err := w.fake.Branch("acme/vault", "main"); err != nil || lsRemote(t, remote) != tip {
		t.Errorf("git at %s does not see %s, %v", remote.URL, tip, err)
	}
	if url := h.MRURL(w.repo, number); url != server+"/hub/acme/app/pull/"+"1" {
		t.Errorf("people are sent to %s", url)
	}
	for _, want := range []string{"POST /hub/api/v3/app/installations/", "POST /hub/api/graphql", "GET /hub/api/v3/repos/acme/app/pulls/1/reviews", "GET /hub/acme/vault.git/info/refs"} {
		if !slices.ContainsFunc(seen(), func(s string) bool { return strings.HasPrefix(s, want) }) {
			t.Errorf("nobody asked for %s, but for %v", want, seen())
		}
	}
}
