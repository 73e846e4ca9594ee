package main

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/batchbot/batchbot/config"
	"github.com/batchbot/batchbot/githost/fakehost"
)

// hookWorld is a GitLab with two projects, and somebody who takes webhooks.
type hookWorld struct {
	world
	taker  *httptest.Server
	taken  atomic.Int32
	answer atomic.Int32 // the status
}

func newHookWorld(t *testing.T) *hookWorld {
	t.Helper()
	w := &hookWorld{world: newWorldOn(t, config.GitLab)}
	w.answer.Store(http.StatusAccepted)
	w.taker = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/webhooks/gitlab" && r.Header.Get("X-Gitlab-Token") == hookSecret {
			w.taken.Add(1)
		}
		rw.WriteHeader(int(w.answer.Load()))
	}))
	t.Cleanup(w.taker.Close)
	for _, owner := range []string{"acme", "acme/tools"} {
		err := w.host.AddRepository(fakehost.NewRepository{Owner: owner, Name: "app", Permissions: map[string]string{"ada": fakehost.RoleWrite}})
		if err != nil {
			t.Fatal(err)
		}
	}
	w.configure(t, "public_url: "+w.taker.URL+"/\n")
	return w
}

// create runs `hook create`.
func (w *hookWorld) create(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return command(t, nil, append([]string{"hook", "create", "--config", w.file}, args...)...)
}

type seenHook struct {
	ID     int64  `json:"id"`
	URL    string `json:"url"`
	Status string `json:"alert_status"`
	Notes  bool   `json:"note_events"`
}

// hooks lists the webhooks of a project.
func (w *hookWorld) hooks(t *testing.T, project string) (list []seenHook) {
	t.Helper()
	err := w.api(t).API(t.Context(), gitlabBot, http.MethodGet, "/projects/"+strings.ReplaceAll(project, "/", "%2F")+"/hooks", nil, &list)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func (w *hookWorld) api(t *testing.T) *fakehost.Client {
	t.Helper()
	return fakehost.NewClient(w.host.url, nil).GitLab()
}

func TestHookCreate(t *testing.T) {
	t.Parallel()
	w := newHookWorld(t)
	address := w.taker.URL + "/webhooks/gitlab"
	for i, test := range []struct{ args, says string }{
		{"acme/app", "gitlab/acme/app  created  " + address + "\n"},
		{"gitlab/acme/app", "gitlab/acme/app  was right, its secret was set again  " + address + "\n"},
		{"--all", "gitlab/acme/app        was right, its secret was set again  " + address + "\ngitlab/acme/tools/app  created                              " + address + "\n"},
	} {
		if code, stdout, stderr := w.create(t, test.args); code != exitDone || stdout != test.says || stderr != "" {
			t.Errorf("%d: hook create %s exits %d: %q, %q, want %q", i, test.args, code, stdout, stderr, test.says)
		}
	}
	for _, project := range []string{"acme/app", "acme/tools/app"} {
		if list := w.hooks(t, project); len(list) != 1 || list[0].URL != address || !list[0].Notes {
			t.Errorf("%s has the webhooks %+v, want one", project, list)
		}
	}
	if _, err := w.host.Commit("acme/app", "topic", "main", "ada", "A change", map[string]string{"a": "b\n"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a webhook with the secret", func() bool { return w.taken.Load() > 0 })
}

// What people changed by hand, or GitLab after failed deliveries, is put right.
func TestHookCreateRepairs(t *testing.T) {
	t.Parallel()
	w := newHookWorld(t)
	if code, _, stderr := w.create(t, "acme/app"); code != exitDone {
		t.Fatalf("exits %d: %s", code, stderr)
	}
	w.host.SetGitLab(fakehost.GitLab{AutoDisable: true})
	w.answer.Store(http.StatusInternalServerError)
	number, err := w.host.OpenMR("acme/app", fakehost.NewMR{Author: "ada", Head: "topic", Title: "A change", Files: map[string]string{"a": "b\n"}})
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if _, err := w.host.Comment("acme/app", number, "ada", "Anybody there?"); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the webhook to be switched off", func() bool { return w.hooks(t, "acme/app")[0].Status == "temporarily_disabled" })
	id := w.hooks(t, "acme/app")[0].ID
	err = w.api(t).API(t.Context(), "acme", http.MethodPut, "/projects/acme%2Fapp/hooks/"+strconv.FormatInt(id, 10), map[string]any{"note_events": false}, nil)
	if err != nil {
		t.Fatal(err)
	}

	w.answer.Store(http.StatusAccepted)
	code, stdout, stderr := w.create(t, "acme/app")
	if want := "gitlab/acme/app  repaired: comment events, it was switched off (temporarily_disabled)  "; code != exitDone || !strings.HasPrefix(stdout, want) {
		t.Errorf("exits %d: %q, %q, want %q", code, stdout, stderr, want)
	}
	eventually(t, "the webhook to be on again", func() bool {
		list := w.hooks(t, "acme/app")
		return len(list) == 1 && list[0].Status == "executable" && list[0].Notes
	})
}

// Whatever stands in the way is one line on stderr.
func TestHookCreateSaysWhatStandsInTheWay(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, says string
		code       int
		args       []string
		prepare    func(*testing.T, *hookWorld)
	}{
		{"an unknown project", `no project "acme/nope": the token of no host of type gitlab gives access to it; its role must be maintainer`, exitFailed, []string{"acme/nope"}, nil},
		{"no address", "public_url is missing: it is the address the webhooks are sent to", exitFailed, []string{"acme/app"}, func(t *testing.T, w *hookWorld) {
			t.Helper()
			w.configure(t, "")
		}},
		{"no GitLab", "no host of type gitlab is configured: a GitHub App has one webhook for all its repositories", exitFailed, []string{"--all"}, func(t *testing.T, w *hookWorld) {
			t.Helper()
			w.kind = config.GitHub
			w.configure(t, "public_url: https://batchbot.example.com\n")
		}},
		{"too small a role", "its token needs the role of a maintainer", exitFailed, []string{"acme/app"}, func(t *testing.T, w *hookWorld) {
			t.Helper()
			if err := w.host.SetPermission("acme/app", gitlabBot, fakehost.RoleWrite); err != nil {
				t.Fatal(err)
			}
		}},
		{"a GitLab that is away", "listing the projects", exitFailed, []string{"acme/app"}, func(_ *testing.T, w *hookWorld) { w.host.close() }},
		{"a revoked token", "the token is wrong, expired or revoked", exitFailed, []string{"acme/app"}, func(t *testing.T, w *hookWorld) {
			t.Helper()
			w.write(t, "token", "nobody's\n")
		}},
		{"no project", "hook create wants projects, GROUP/PROJECT, or --all", exitUsage, nil, nil},
		{"a project and all", "hook create wants projects, GROUP/PROJECT, or --all", exitUsage, []string{"acme/app", "--all"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newHookWorld(t)
			if test.prepare != nil {
				test.prepare(t, w)
			}
			code, stdout, stderr := w.create(t, test.args...)
			if code != test.code || stdout != "" || !strings.HasPrefix(stderr, "batchbot: ") || !strings.Contains(stderr, test.says) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("exits %d: %q, %q, want %q", code, stdout, stderr, test.says)
			}
		})
	}
}
