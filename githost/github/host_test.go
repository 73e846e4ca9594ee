package github_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/github"
	"github.com/batchbot/batchbot/githost/hosttest"
	"github.com/batchbot/batchbot/githost/hosttest/contract"
)

func TestFinding08InstallationsAreServedAtTheSameTime(t *testing.T) {
	t.Parallel()
	s := &script{}
	for i := range 8 {
		s.tokens(i + 1)
	}
	s.on("GET /repositories/4711", 200, `{"id":4711,"full_name":"acme/app"}`)
	h := appAdapter(t, s)
	var all sync.WaitGroup
	for i := range 32 { // four goroutines an installation, for the race detector
		all.Go(func() {
			repo := scripted
			repo.Installation = int64(i%8 + 1)
			if _, err := h.ReadRepository(t.Context(), repo); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for i := range 8 {
		if n := s.times(fmt.Sprintf("POST /app/installations/%d/access_tokens", i+1)); n != 1 {
			t.Errorf("installation %d asked for %d tokens", i+1, n)
		}
	}
}

func TestALimitOnOneInstallationDoesNotStopAnother(t *testing.T) {
	t.Parallel()
	s := (&script{}).tokens(5).tokens(6).
		on("GET /repositories/4711", 403, `{"message":"You have exceeded a secondary rate limit"}`).
		on("GET /repositories/4712", 200, `{"id":4712,"full_name":"acme/lib"}`)
	h := appAdapter(t, s)
	one, two := scripted, scripted
	two.Installation, two.ExternalID = 6, 4712
	var limited *bot.RateLimitedError
	for range 2 {
		if _, err := h.ReadRepository(t.Context(), one); !errors.As(err, &limited) || limited.RetryAfter <= 0 || limited.RetryAfter > time.Minute {
			t.Errorf("got %v", err)
		}
	}
	if n := s.times("GET /repositories/4711"); n != 1 {
		t.Errorf("asked %d times during the pause", n)
	}
	if _, err := h.ReadRepository(t.Context(), two); err != nil {
		t.Errorf("the other installation: %v", err)
	}
}

func TestPitfall13AnInstallationThatEndedIsGone(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]error{404: bot.ErrGone, 403: bot.ErrGone} {
		s := (&script{}).on("POST /app/installations/5/access_tokens", status, `{"message":"no"}`)
		if _, err := appAdapter(t, s).ReadMR(t.Context(), scripted, 7); !errors.Is(err, want) {
			t.Errorf("%d: got %v", status, err)
		}
	}
	// A wrong key or clock is nobody's removal: it must not park every repository.
	s := (&script{}).on("POST /app/installations/5/access_tokens", 401, `{"message":"'Expiration time' claim is too far in the future"}`)
	_, err := appAdapter(t, s).ReadMR(t.Context(), scripted, 7)
	if errors.Is(err, bot.ErrGone) || err == nil || !strings.Contains(err.Error(), "clock") {
		t.Errorf("401: got %v", err)
	}
	// Nor is a rate limit.
	s = (&script{}).on("POST /app/installations/5/access_tokens", 403, `{"message":"API rate limit exceeded"}`, "Retry-After", "9")
	var limited *bot.RateLimitedError
	if _, err := appAdapter(t, s).ReadMR(t.Context(), scripted, 7); !errors.As(err, &limited) || limited.RetryAfter != 9*time.Second {
		t.Errorf("limited: got %v", err)
	}
}

func TestPitfall13AnArchivedRepositoryTakesNoWrites(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	number := w.OpenMR(hosttest.NewMR{Author: "bob", Branch: "b1", Title: "T", Files: map[string]string{"a.txt": "a\n"}})
	w.Archive()
	if _, err := w.host.UpsertComment(t.Context(), w.repo, number, "<!-- m -->", "hello", 0); !errors.Is(err, bot.ErrGone) {
		t.Errorf("got %v, want ErrGone", err)
	}
	if _, err := w.host.ReadMR(t.Context(), w.repo, number); err != nil {
		t.Errorf("reading: %v", err)
	}
}

func TestPitfall13ARevokedTokenIsAskedForAgain(t *testing.T) {
	t.Parallel()
	s := (&script{}).tokens(5).on("GET "+pull7, 401, `{"message":"Bad credentials"}`).on("GET "+pull7, 200, pull(nil))
	h := appAdapter(t, s)
	if mr, err := h.ReadMR(t.Context(), scripted, 7); err != nil || mr.Number != 7 {
		t.Errorf("got %+v, %v", mr, err)
	}
	if n := s.times("POST /app/installations/5/access_tokens"); n != 2 {
		t.Errorf("asked for %d tokens", n)
	}
}

func TestPitfall12AWriteToARenamedRepositoryGoesToItsNewPath(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 307, 308, 404} {
		s := (&script{}).
			on("PATCH "+pull7, status, `{"message":"Moved"}`, "Location", "https://ghe.example/api/v3/repositories/4711/pulls/7").
			on("GET /repositories/4711/pulls/7", 200, pull(nil)).
			on("GET /repositories/4711", 200, `{"id":4711,"full_name":"acme/renamed"}`).
			on("PATCH /repos/acme/renamed/pulls/7", 200, pull(nil))
		h := adapter(t, s)
		for range 2 {
			if err := h.EditMR(t.Context(), scripted, 7, "Batch", "Two members."); err != nil {
				t.Fatalf("%d: %v", status, err)
			}
		}
		if n := s.times("PATCH /repos/acme/renamed/pulls/7"); n != 2 || s.times("PATCH "+pull7) != 1 || s.times("GET /repositories/4711/pulls/7") != 0 {
			t.Errorf("%d: asked %v", status, s.seen)
		}
		if url := h.MRURL(scripted, 7); url != "https://ghe.example/acme/renamed/pull/7" {
			t.Errorf("%d: people are sent to %s", status, url)
		}
		// Once the row knows, what was remembered does not matter.
		known := scripted
		known.Path = "acme/renamed"
		if url := h.MRURL(known, 7); url != "https://ghe.example/acme/renamed/pull/7" {
			t.Errorf("%d: with the new path people are sent to %s", status, url)
		}
	}
}

func TestWhatIsNotFoundInARepositoryThatIsGoneIsGone(t *testing.T) {
	t.Parallel()
	s := (&script{}).on("GET /repositories/4711", 404, `{"message":"Not Found"}`)
	h := adapter(t, s)
	for range 3 {
		if _, err := h.ReadBranch(t.Context(), scripted, "main"); !errors.Is(err, bot.ErrGone) {
			t.Errorf("got %v, want ErrGone", err)
		}
	}
	if n := s.times("GET /repositories/4711"); n != 1 {
		t.Errorf("looked the repository up %d times within a minute", n)
	}
}

func TestPitfall04NotFoundRightAfterAWebhookIsAskedAgain(t *testing.T) {
	t.Parallel()
	s := quiet().on("GET "+pull7, 404, `{"message":"Not Found"}`).on("GET "+pull7, 200, pull(nil))
	mr, err := adapter(t, s).ReadMR(t.Context(), scripted, 7)
	if err != nil || mr.HeadSHA != head {
		t.Errorf("got %+v, %v", mr, err)
	}
}

func TestPitfall11AForkThatIsGoneIsStillAFork(t *testing.T) {
	t.Parallel()
	s := (&script{}).on("GET "+pull7, 200, pull(map[string]any{"head": map[string]any{"ref": "patch-1", "sha": head, "repo": nil}}))
	mr, err := adapter(t, s).ReadMR(t.Context(), scripted, 7)
	if err != nil || !mr.FromFork || mr.HeadSHA != head {
		t.Errorf("got %+v, %v", mr, err)
	}
}

func TestPitfall17GraphQLFailsWithStatus200(t *testing.T) {
	t.Parallel()
	const graphql = "POST /api/graphql"
	read := func(answer string) (bot.Approvals, error) {
		s := (&script{}).on("GET "+pull7+"/reviews", 200, `[]`).on(graphql, 200, answer)
		return adapter(t, s).ReadApprovals(t.Context(), scripted, 7)
	}
	for answer, want := range map[string]bot.HostDecision{
		`{"data":{"repository":{"pullRequest":{"reviewDecision":"APPROVED"}}}}`:                            bot.HostDecisionApproved,
		`{"data":{"repository":{"pullRequest":{"reviewDecision":"CHANGES_REQUESTED"}}}}`:                   bot.HostDecisionBlocked,
		`{"data":{"repository":{"pullRequest":{"reviewDecision":"REVIEW_REQUIRED"}}}}`:                     bot.HostDecisionRequired,
		`{"data":{"repository":{"pullRequest":{"reviewDecision":null}}}}`:                                  bot.HostDecisionNone,
		`{"data":{"repository":{"pullRequest":{"reviewDecision":"NEWER"}}}}`:                               bot.HostDecisionUnknown,
		`{"data":null,"errors":[{"type":"FORBIDDEN","message":"Resource not accessible by integration"}]}`: bot.HostDecisionUnknown,
		`{"data":{"repository":null},"errors":[{"type":"NOT_FOUND","message":"x"}]}`:                       bot.HostDecisionUnknown,
	} {
		if got, err := read(answer); err != nil || got.Decision != want {
			t.Errorf("%s: got %d, %v, want %d", answer, got.Decision, err, want)
		}
	}
	var limited *bot.RateLimitedError
	if _, err := read(`{"data":null,"errors":[{"type":"RATE_LIMITED","message":"API rate limit exceeded"}]}`); !errors.As(err, &limited) {
		t.Errorf("exhausted: got %v", err)
	}
}

func TestPitfall09ReviewsAreReadAsTheyCount(t *testing.T) {
	t.Parallel()
	review := func(login string, id int, state string) string {
		return fmt.Sprintf(`{"id":%d,"state":%q,"commit_id":%q,"body":"","user":{"id":%d,"login":%q,"type":"User"}}`, id, state, head, id, login)
	}
	list := "[" + strings.Join([]string{
		review("cleo", 1, "APPROVED"), review("cleo", 1, "COMMENTED"), review("max", 2, "APPROVED"), review("max", 2, "DISMISSED"),
		review("ada", 3, "approved"), review("eve", 4, "PENDING"), `{"id":9,"state":"APPROVED","commit_id":null,"user":null}`,
	}, ",") + "]"
	s := (&script{}).on("GET "+pull7+"/reviews", 200, list).
		on("POST /api/graphql", 404, `{}`).on("GET /repositories/4711", 200, `{"id":4711,"full_name":"acme/app"}`).
		on("GET /repos/acme/app/collaborators/cleo/permission", 200, `{"permission":"write","role_name":"maintain"}`).
		on("GET /repos/acme/app/collaborators/ada/permission", 200, `{"permission":"write","role_name":"release-managers","user":{"permissions":{"pull":true,"push":true,"maintain":true}}}`)
	got, err := adapter(t, s).ReadApprovals(t.Context(), scripted, 7)
	if err != nil || len(got.Reviews) != 6 {
		t.Fatalf("got %+v, %v", got, err)
	}
	for i, want := range []bot.Permission{bot.PermissionMaintain, bot.PermissionNone, bot.PermissionNone, bot.PermissionNone, bot.PermissionMaintain, bot.PermissionNone} {
		if got.Reviews[i].Permission != want {
			t.Errorf("review %d: %+v, want permission %s", i, got.Reviews[i], want)
		}
	}
	// Whose word no longer counts is not asked about.
	if n := s.times("GET /repos/acme/app/collaborators/max/permission"); n != 0 {
		t.Errorf("asked %d times about a dismissed reviewer", n)
	}
}

func TestPitfall38AppUsersAreNotAskedAbout(t *testing.T) {
	t.Parallel()
	s := &script{}
	p, err := adapter(t, s).Permission(t.Context(), scripted, bot.Actor{Login: "renovate[bot]"})
	if err != nil || p != bot.PermissionNone || len(s.seen) != 0 {
		t.Errorf("got %s, %v, asked %v", p, err, s.seen)
	}
}

func TestAddressesOfGitHubsOwnAndOthers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ api, rest, graphql, web, git string }{
		{"", "https://api.github.com/", "https://api.github.com/graphql", "https://github.com", "https://github.com"},
		{"https://ghe.example", "https://ghe.example/api/v3/", "https://ghe.example/api/graphql", "https://ghe.example", "https://ghe.example"},
		{"https://ghe.example/api/v3/", "https://ghe.example/api/v3/", "https://ghe.example/api/graphql", "https://ghe.example", "https://ghe.example"},
		{"https://api.octo.ghe.com", "https://api.octo.ghe.com/", "https://api.octo.ghe.com/graphql", "https://octo.ghe.com", "https://octo.ghe.com"},
	} {
		seen := map[string]bool{}
		_, pem := appKey()
		h, err := github.New(github.Config{
			Name: "hub", APIURL: c.api, AppID: 1, PrivateKey: pem, WebhookSecrets: []bot.Secret{secret},
			HTTPTransport: roundTrip(func(req *http.Request) (*http.Response, error) {
				seen[req.Method+" "+req.URL.String()] = true
				switch {
				case strings.HasSuffix(req.URL.Path, "/access_tokens"):
					return reply(201, fmt.Sprintf(`{"token":"ghs_secret","expires_at":%q}`, time.Now().Add(time.Hour).Format(time.RFC3339))), nil
				case strings.HasSuffix(req.URL.Path, "/reviews"):
					return reply(200, `[]`), nil
				}
				return reply(200, `{"data":{"repository":{"pullRequest":{"reviewDecision":null}}}}`), nil
			}),
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.ReadApprovals(t.Context(), scripted, 7); err != nil {
			t.Errorf("%s: %v", c.api, err)
		}
		for _, want := range []string{
			"POST " + c.rest + "app/installations/5/access_tokens",
			"GET " + c.rest + "repos/acme/app/pulls/7/reviews?per_page=100",
			"POST " + c.graphql,
		} {
			if !seen[want] {
				t.Errorf("%q: asked %v, want %s", c.api, seen, want)
			}
		}
		if got := h.MRURL(scripted, 7); got != c.web+"/acme/app/pull/7" {
			t.Errorf("%q: people are sent to %s", c.api, got)
		}
		remote, err := h.GitRemote(t.Context(), scripted)
		if err != nil || remote.URL != c.git+"/acme/app.git" || remote.Key != "hub/4711" {
			t.Errorf("%q: git is sent to %+v, %v", c.api, remote, err)
		}
		basic := base64.StdEncoding.EncodeToString([]byte("x-access-token:ghs_secret"))
		if remote.Header.Reveal() != "Authorization: Basic "+basic || strings.Contains(fmt.Sprintf("%v %+v %#v", remote, remote, remote), basic) {
			t.Errorf("%q: git gets in by %q, shown as %+v", c.api, remote.Header.Reveal(), remote)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestAFolderOfRepositoriesNeedsNoToken(t *testing.T) {
	t.Parallel()
	h, err := github.New(github.Config{
		Name: "hub", GitURL: "/srv/git", Token: "ghp_secret", WebhookSecrets: []bot.Secret{secret}, HTTPTransport: nobody{},
	})
	if err != nil {
		t.Fatal(err)
	}
	remote, err := h.GitRemote(t.Context(), scripted)
	if err != nil || remote.URL != "/srv/git/acme/app.git" || remote.Header != "" {
		t.Errorf("got %+v, %v", remote, err)
	}
}

func TestPathsThatAreNoneAreRefused(t *testing.T) {
	t.Parallel()
	s := &script{}
	h := adapter(t, s)
	for _, path := range []string{"", "app", "a/b/c", "../x", "a/..", "a/b c", "-/", "a/b?x=1", "a/b\n"} {
		repo := bot.Repository{RepositoryRef: bot.RepositoryRef{Path: path}}
		if _, err := h.ReadMR(t.Context(), repo, 7); err == nil {
			t.Errorf("read from %q", path)
		}
		if _, err := h.GitRemote(t.Context(), repo); err == nil {
			t.Errorf("git access to %q", path)
		}
	}
	if len(s.seen) != 0 {
		t.Errorf("asked %v", s.seen)
	}
}

func TestNoErrorShowsASecret(t *testing.T) {
	t.Parallel()
	for _, f := range []func(*http.Request) *http.Response{
		func(*http.Request) *http.Response { return nil },
		func(*http.Request) *http.Response { return reply(401, `{"message":"Bad credentials"}`) },
		func(*http.Request) *http.Response { return reply(500, "{}") },
		func(*http.Request) *http.Response { return reply(302, "", "Location", "https://evil.example/") },
		func(*http.Request) *http.Response { return reply(200, "{", contract.Broken, "cut off") },
	} {
		for _, make := range []func(*testing.T, *script) *github.Host{adapter, appAdapter} {
			_, err := make(t, (&script{}).tokens(5).call("GET "+pull7, f)).ReadMR(t.Context(), scripted, 7)
			if err == nil {
				t.Error("no error at all")
			} else if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "eyJ") {
				t.Errorf("%v", err)
			}
		}
	}
}

func TestWithATokenTheBotKnowsItself(t *testing.T) {
	t.Parallel()
	w := newWorldAs(t, func(c *github.Config) { c.AppID, c.PrivateKey, c.Token = 0, "", "cleo-token" })
	ref, err := newRef(w)
	if err != nil {
		t.Fatal(err)
	}
	w.repo = bot.Repository{ID: 1, RepositoryRef: ref, Active: true}
	number := w.OpenMR(hosttest.NewMR{Author: "bob", Branch: "b1", Title: "T", Files: map[string]string{"a.txt": "a\n"}})
	w.Comment(number, "bob", "/batch")
	first, err := w.host.UpsertComment(t.Context(), w.repo, number, "<!-- m -->", "waiting", 0)
	if err != nil {
		t.Fatal(err)
	}
	second, err := w.host.UpsertComment(t.Context(), w.repo, number, "<!-- m -->", "riding", 0)
	if err != nil || second != first {
		t.Errorf("wrote %d and then %d, %v", first, second, err)
	}
	list, err := w.host.ListComments(t.Context(), w.repo, time.Time{})
	if err != nil || len(list) != 2 || list[0].Author.Bot || !list[1].Author.Bot {
		t.Errorf("listed %+v, %v: want our own marked", list, err)
	}
	for _, d := range w.Deliveries() {
		events, _, err := w.host.Parse(d.Header.Get("X-GitHub-Event"), d.Body)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if e.Kind == bot.EventComment && e.Comment.Author.Login != "bob" {
				t.Errorf("heard ourselves: %+v", e.Comment)
			}
		}
	}
}

func TestATokenListsWhatItMayPushTo(t *testing.T) {
	t.Parallel()
	s := (&script{}).on("GET /user/repos", 200, `[
		{"id":1,"full_name":"acme/app","default_branch":"main","permissions":{"push":true}},
		{"id":2,"full_name":"acme/read","permissions":{"pull":true,"push":false}},
		{"id":3,"full_name":"acme/old","archived":true,"permissions":{"push":true}}]`)
	list, err := adapter(t, s).ListRepositories(t.Context())
	want := bot.RepositoryRef{Host: "hub", ExternalID: 1, Path: "acme/app", DefaultBranch: "main"}
	if err != nil || len(list) != 1 || list[0] != want {
		t.Errorf("got %+v, %v", list, err)
	}
}

func TestSuspendedInstallationsAreNotListed(t *testing.T) {
	t.Parallel()
	s := (&script{}).tokens(5).
		on("GET /app/installations", 200, `[{"id":5},{"id":6,"suspended_at":"2026-03-01T10:00:00Z"},{"id":7}]`).
		on("GET /installation/repositories", 200, `{"total_count":1,"repositories":[{"id":1,"full_name":"acme/app","default_branch":"main"}]}`)
	list, err := appAdapter(t, s).ListRepositories(t.Context())
	if err != nil || len(list) != 1 || list[0].Installation != 5 {
		t.Errorf("got %+v, %v: want one; 6 is suspended, 7 was just uninstalled", list, err)
	}
}

func TestAFileTooLargeIsAnError(t *testing.T) {
	t.Parallel()
	s := (&script{}).on("GET /repos/acme/app/contents/.batchbot.yml", 200, `{"type":"file","size":1048577,"encoding":"none","content":"","sha":"x"}`)
	if _, _, err := adapter(t, s).ReadFile(t.Context(), scripted, "main", ".batchbot.yml"); err == nil || errors.Is(err, bot.ErrNotFound) || !strings.Contains(err.Error(), "at most 1048576") {
		t.Errorf("got %v", err)
	}
}

func TestAnInstallationNobodyRecordedIsFound(t *testing.T) {
	t.Parallel()
	s := (&script{}).tokens(5).on("GET /repos/acme/app/installation", 200, `{"id":5}`).on("GET "+pull7, 200, pull(nil))
	h := appAdapter(t, s)
	repo := scripted
	repo.Installation = 0
	for range 2 {
		if _, err := h.ReadMR(t.Context(), repo, 7); err != nil {
			t.Error(err)
		}
	}
	if n := s.times("GET /repos/acme/app/installation"); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// newRef finds the repository's id by what a person may read.
func newRef(w *world) (bot.RepositoryRef, error) {
	req, err := http.NewRequest(http.MethodGet, "http://fakehost.test/api/v3/repos/"+path, nil)
	if err != nil {
		return bot.RepositoryRef{}, err
	}
	req.Header.Set("Authorization", "token cleo-token")
	resp, err := w.fake.RoundTripper().RoundTrip(req)
	if err != nil {
		return bot.RepositoryRef{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return bot.RepositoryRef{}, err
	}
	var r struct {
		ID int64 `json:"id"`
	}
	return bot.RepositoryRef{Host: "hub", ExternalID: r.ID, Path: path, DefaultBranch: "main"}, json.Unmarshal(body, &r)
}
