package github_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/fakehost"
	"github.com/batchbot/batchbot/githost/github"
)

// mint answers for installation 5 with those permissions and counts what is asked of its tokens.
func mint(t *testing.T, permissions string, life time.Duration) (s *script, asked *[]map[string]any) {
	t.Helper()
	asked = &[]map[string]any{}
	s = quiet().on("GET /app/installations/5", 200, `{"id":5,"permissions":`+permissions+`}`)
	s.call("POST /app/installations/5/access_tokens", func(req *http.Request) *http.Response {
		var body map[string]any
		if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
			t.Errorf("the request for a token: %v", err)
		}
		*asked = append(*asked, body)
		return reply(201, fmt.Sprintf(`{"token":"ghs_narrow%d","expires_at":%q,"repositories":[{"id":4711,"full_name":"acme/app"}]}`,
			len(*asked), time.Now().Add(life).UTC().Format(time.RFC3339)))
	})
	return s, asked
}

func TestFinding09GitGetsATokenForOneRepositoryAndWhatItNeeds(t *testing.T) {
	t.Parallel()
	for granted, want := range map[string]map[string]any{
		`{"contents":"write","checks":"write","metadata":"read"}`:    {"contents": "write", "metadata": "read"},
		`{"contents":"write","workflows":"write","metadata":"read"}`: {"contents": "write", "metadata": "read", "workflows": "write"},
	} {
		s, asked := mint(t, granted, time.Hour)
		if _, err := appAdapter(t, s).GitRemote(t.Context(), scripted); err != nil {
			t.Fatal(err)
		}
		if len(*asked) != 1 || fmt.Sprint((*asked)[0]["permissions"]) != fmt.Sprint(want) || fmt.Sprint((*asked)[0]["repository_ids"]) != "[4711]" {
			t.Errorf("asked for %v", *asked)
		}
	}
}

func TestFinding09AGitTokenIsKeptUntilShortlyBeforeItsEnd(t *testing.T) {
	t.Parallel()
	appKey()
	synctest.Test(t, func(t *testing.T) {
		s, asked := mint(t, `{"contents":"write"}`, time.Hour)
		h := appAdapter(t, s)
		remote := func() string {
			t.Helper()
			r, err := h.GitRemote(t.Context(), scripted)
			if err != nil {
				t.Fatal(err)
			}
			return r.Header.Reveal()
		}
		first := remote()
		time.Sleep(49 * time.Minute)
		if remote() != first || len(*asked) != 1 {
			t.Errorf("asked for %d tokens in 49 minutes", len(*asked))
		}
		time.Sleep(2 * time.Minute)
		if remote() == first || len(*asked) != 2 {
			t.Error("a token was handed out that ends in nine minutes")
		}
		// Another repository has another one, and a change of the installation ends them all.
		second := scripted
		second.ExternalID = 4712
		if _, err := h.GitRemote(t.Context(), second); err != nil || len(*asked) != 3 {
			t.Errorf("asked for %d tokens, %v", len(*asked), err)
		}
		if _, _, err := h.Parse("installation", []byte(`{"action":"new_permissions_accepted","installation":{"id":5}}`)); err != nil {
			t.Fatal(err)
		}
		if remote(); len(*asked) != 4 {
			t.Errorf("after a change of permissions asked for %d tokens", len(*asked))
		}
	})
}

// A clock of ours that is wrong by half an hour makes no token outlive itself.
func TestFinding09AGitTokensLifeIsMeasuredByTheHostsClock(t *testing.T) {
	t.Parallel()
	appKey()
	synctest.Test(t, func(t *testing.T) {
		var n int
		s := quiet().on("GET /app/installations/5", 200, `{"id":5,"permissions":{"contents":"write"}}`)
		s.call("POST /app/installations/5/access_tokens", func(*http.Request) *http.Response {
			n++
			ahead := time.Now().Add(30 * time.Minute).UTC()
			return reply(201, fmt.Sprintf(`{"token":"ghs_t%d","expires_at":%q}`, n, ahead.Add(time.Hour).Format(time.RFC3339)), "Date", ahead.Format(http.TimeFormat))
		})
		h := appAdapter(t, s)
		for range 2 {
			if _, err := h.GitRemote(t.Context(), scripted); err != nil {
				t.Fatal(err)
			}
			time.Sleep(51 * time.Minute)
		}
		if n != 2 {
			t.Errorf("asked for %d tokens, want a new one after 51 minutes", n)
		}
	})
}

func TestWhyThereIsNoGitTokenIsSaid(t *testing.T) {
	t.Parallel()
	installed := `{"id":5,"permissions":{"contents":"write"}}`
	for name, test := range map[string]struct {
		look, token int
		body        string
		want        error
		words       string
	}{
		"uninstalled":                 {404, 0, `{"message":"Not Found"}`, bot.ErrGone, "uninstalled"},
		"suspended":                   {200, 0, `{"id":5,"suspended_at":"2026-03-01T10:00:00Z"}`, bot.ErrGone, "suspended"},
		"suspended since":             {200, 403, `{"message":"This installation has been suspended"}`, bot.ErrGone, "suspended"},
		"the repository is not in it": {200, 422, `{"message":"There is at least one repository that does not exist or is not accessible to the parent installation."}`, bot.ErrGone, "does not reach"},
		"no contents permission":      {200, 422, `{"message":"The permissions requested are not granted to this installation."}`, bot.ErrForbidden, "contents: write"},
		"a wrong key":                 {401, 0, `{"message":"A JSON web token could not be decoded"}`, nil, "clock"},
		"trouble":                     {200, 502, `{"message":"Bad Gateway"}`, nil, "502"},
		"an answer without a token":   {200, 201, `{"expires_at":"2026-03-01T10:00:00Z"}`, nil, "holds none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := quiet()
			if test.token == 0 {
				s.on("GET /app/installations/5", test.look, test.body)
			} else {
				s.on("GET /app/installations/5", 200, installed).on("POST /app/installations/5/access_tokens", test.token, test.body)
			}
			_, err := appAdapter(t, s).GitRemote(t.Context(), scripted)
			if err == nil || !strings.Contains(err.Error(), test.words) {
				t.Fatalf("got %v, want one that says %q", err, test.words)
			}
			for _, meaning := range []error{bot.ErrGone, bot.ErrForbidden, bot.ErrNotFound} {
				if wanted := test.want != nil && errors.Is(meaning, test.want); errors.Is(err, meaning) != wanted {
					t.Errorf("got %v, want %v", err, test.want)
				}
			}
		})
	}
}

// On a living host: the token reaches its own repository and no other.
func TestFinding09AGitTokenOpensNoOtherDoor(t *testing.T) {
	t.Parallel()
	w := newWorldAs(t, func(c *github.Config) { c.GitURL = "" })
	for _, name := range []string{"one", "two"} {
		w.must(w.fake.AddRepository(fakehost.NewRepository{Owner: "acme", Name: name, Private: true}))
	}
	server, _ := servePrefixed(t, w.fake, "")
	list, err := w.host.ListRepositories(t.Context())
	w.must(err)
	i := slices.IndexFunc(list, func(r bot.RepositoryRef) bool { return r.Path == "acme/one" })
	remote, err := w.host.GitRemote(t.Context(), bot.Repository{RepositoryRef: list[i]})
	w.must(err)
	for name, opens := range map[string]bool{"one": true, "two": false} {
		remote.URL = server + "/acme/" + name + ".git"
		if got := lsRemote(t, remote); (got != "") != opens {
			t.Errorf("%s: git saw %q", name, got)
		}
	}
}
