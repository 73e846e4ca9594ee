package gitlab_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost"
	"github.com/batchbot/batchbot/githost/fakehost"
	"github.com/batchbot/batchbot/githost/gitlab"
	"github.com/batchbot/batchbot/githost/hosttest"
)

// witness notes where requests go and with which token.
type witness struct {
	mu   sync.Mutex
	next http.RoundTripper
	saw  []string
}

func (w *witness) RoundTrip(req *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.saw = append(w.saw, req.Method+" "+req.URL.Host+" "+req.Header.Get("PRIVATE-TOKEN"))
	w.mu.Unlock()
	return w.next.RoundTrip(req)
}

func TestFinding07TheTokenFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	for _, to := range []string{
		"https://evil.example/api/v4/projects/4711/merge_requests/7", "http://gitlab.example/api/v4/projects/4711/merge_requests/7",
		"https://gitlab.example/api/v4/projects/4712/merge_requests/7", "//evil.example/x", "/users/sign_in",
	} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			s := standing().on("GET "+mr7, status, "", "Location", to).on("POST "+mr7+"/notes", status, "", "Location", to).on("GET "+mr7+"/notes", 200, "[]")
			w := &witness{next: s}
			h := adapter(t, w)
			_, readErr := h.ReadMR(t.Context(), scripted, 7)
			_, writeErr := h.UpsertComment(t.Context(), scripted, 7, "<!-- m -->", "hello", 0)
			for what, err := range map[string]error{"reading": readErr, "writing": writeErr} {
				var refused *githost.RedirectError
				if !errors.As(err, &refused) || refused.Status != status || strings.Contains(err.Error(), token) {
					t.Errorf("%s, %d to %s: got %v", what, status, to, err)
				}
			}
			for _, saw := range w.saw {
				if !strings.HasSuffix(saw, "gitlab.example "+token) {
					t.Errorf("%d to %s: sent %s", status, to, saw)
				}
			}
			if len(w.saw) != 4 { // the merge request, who we are, the notes, the note
				t.Errorf("%d to %s: sent %v", status, to, w.saw)
			}
		}
	}
}

func TestFinding10NothingIsSentTwice(t *testing.T) {
	t.Parallel()
	for _, status := range []int{500, 502, 503, 504} {
		s := standing().on("GET "+mr7+"/notes", 200, "[]").on("POST "+mr7+"/notes", status, "<html>bad gateway</html>").on("GET "+mr7, status, "")
		h := adapter(t, s)
		if _, err := h.UpsertComment(t.Context(), scripted, 7, "<!-- m -->", "hello", 0); err == nil || strings.Contains(err.Error(), "html") {
			t.Errorf("%d: got %v", status, err)
		}
		if _, err := h.ReadMR(t.Context(), scripted, 7); err == nil {
			t.Errorf("%d: got no error", status)
		}
		if a, b := s.times("POST "+mr7+"/notes"), s.times("GET "+mr7); a != 1 || b != 1 {
			t.Errorf("%d: wrote %d times, read %d times", status, a, b)
		}
	}
}

func TestFinding11APauseIsAsLongAsTheHostSays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const reset = "in 40 s"
		for name, c := range map[string]struct {
			header []string
			body   string
			want   time.Duration
		}{
			"Retry-After":            {[]string{"Retry-After", "30", "RateLimit-Remaining", "0", "RateLimit-Reset", reset}, "Retry later\n", 30 * time.Second},
			"only the reset":         {[]string{"RateLimit-Remaining", "0", "RateLimit-Reset", reset, "Content-Type", "text/plain"}, "Retry later\n", 41 * time.Second},
			"a limit of one kind":    {nil, `{"message":{"error":"This endpoint has been requested too many times. Try again later."}}`, time.Minute},
			"plain text and nothing": {[]string{"Content-Type", "text/plain"}, "Retry later\n", time.Minute},
		} {
			for i, v := range c.header {
				if v == reset {
					c.header[i] = fmt.Sprint(time.Now().Add(40 * time.Second).Unix())
				}
			}
			s := standing().on("GET "+mr7, 429, c.body, c.header...).on("GET "+mr7, 200, mr(nil))
			h := adapter(t, s)
			var limited *bot.RateLimitedError
			if _, err := h.ReadMR(t.Context(), scripted, 7); !errors.As(err, &limited) || limited.RetryAfter != c.want {
				t.Errorf("%s: got %v, want a pause of %v", name, err, c.want)
			}
			time.Sleep(c.want - time.Second)
			if _, err := h.ReadMR(t.Context(), scripted, 7); !errors.As(err, &limited) || limited.RetryAfter != time.Second || s.times("GET "+mr7) != 1 {
				t.Errorf("%s: during the pause got %v, asked %v", name, err, s.seen)
			}
			time.Sleep(time.Second)
			if _, err := h.ReadMR(t.Context(), scripted, 7); err != nil {
				t.Errorf("%s: after the pause got %v", name, err)
			}
		}
	})
}

func TestALivingHostsLimitIsUnderstood(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	number := w.OpenMR(hosttest.NewMR{Author: "bob", Branch: "b1", Title: "T", Files: map[string]string{"a.txt": "a\n"}})
	for _, kind := range []fakehost.FaultKind{fakehost.FaultPrimaryLimit, fakehost.FaultSecondaryLimit} {
		h, err := gitlab.New(gitlab.Config{
			Name: "lab", APIURL: "http://fakehost.test", Token: "group_1_bot_batchbot-token", WebhookSecrets: []bot.Secret{secret}, HTTPTransport: w.fake.RoundTripper(),
		})
		w.must(err)
		w.must(w.fake.Break(fakehost.Fault{On: "GET *", Do: kind, Status: 429, Wait: 20 * time.Second}))
		var limited *bot.RateLimitedError
		if _, err := h.ReadMR(t.Context(), w.repo, number); !errors.As(err, &limited) || limited.RetryAfter < 15*time.Second || limited.RetryAfter > 25*time.Second {
			t.Errorf("%s: got %v", kind, err)
		}
		w.fake.Heal()
	}
}

func TestFinding12ManyAtOnceAreNotSlowedDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := standing().on("GET "+mr7, 200, mr(nil), "RateLimit-Limit", "60", "RateLimit-Remaining", "59")
		h := adapter(t, s)
		start := time.Now()
		var all sync.WaitGroup
		for range 32 { // at once and from the first request on, for the race detector
			all.Go(func() {
				if _, err := h.ReadMR(t.Context(), scripted, 7); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if took := time.Since(start); took != 0 {
			t.Errorf("32 reads took %v", took)
		}
	})
}

func TestPitfall22AProjectIsAddressedByItsNumber(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	number := w.OpenMR(hosttest.NewMR{Author: "bob", Branch: "b1", Title: "T", Files: map[string]string{"a.txt": "a\n"}})
	for _, move := range []func() error{
		func() error { return w.fake.Rename(path, "renamed") },
		func() error { return w.fake.Transfer("acme/team/renamed", "zoo") },
	} {
		w.must(move())
		if _, err := w.host.ReadMR(t.Context(), w.repo, number); err != nil {
			t.Errorf("reading: %v", err)
		}
		if _, err := w.host.UpsertComment(t.Context(), w.repo, number, "<!-- m -->", "hello", 0); err != nil {
			t.Errorf("writing: %v", err)
		}
	}
	got, err := w.host.ReadRepository(t.Context(), w.repo)
	if err != nil || got.Path != "zoo/renamed" || got.ExternalID != w.repo.ExternalID {
		t.Errorf("read %+v, %v", got, err)
	}
	// Its row may not know yet: people and git are sent to where it is.
	if url := w.host.MRURL(w.repo, number); url != fmt.Sprintf("http://fakehost.test/zoo/renamed/-/merge_requests/%d", number) {
		t.Errorf("people are sent to %s", url)
	}
	if remote, err := w.host.GitRemote(t.Context(), w.repo); err != nil || !strings.HasSuffix(remote.URL, "/zoo/renamed.git") {
		t.Errorf("git is sent to %+v, %v", remote, err)
	}
}

func TestIDsAreConverted(t *testing.T) {
	t.Parallel()
	// go-gitlab refuses an int64 when the call is made, and nothing addresses a project that is none.
	h := adapter(t, standing())
	for _, id := range []int64{0, -1} {
		repo := scripted
		repo.ExternalID = id
		if _, err := h.ReadMR(t.Context(), repo, 7); err == nil || !strings.Contains(err.Error(), "not the id of a GitLab project") {
			t.Errorf("%d: got %v", id, err)
		}
	}
}

func TestWhatIsNotFoundInAProjectThatIsGoneIsGone(t *testing.T) {
	t.Parallel()
	s := &script{}
	h := adapter(t, s)
	for range 3 {
		if _, err := h.ReadBranch(t.Context(), scripted, "main"); !errors.Is(err, bot.ErrGone) {
			t.Errorf("got %v, want ErrGone", err)
		}
	}
	if n := s.times("GET projects/4711"); n != 1 {
		t.Errorf("looked the project up %d times within a minute", n)
	}
	if _, err := adapter(t, standing()).ReadBranch(t.Context(), scripted, "main"); !errors.Is(err, bot.ErrNotFound) || errors.Is(err, bot.ErrGone) {
		t.Errorf("in a project that stands: %v, want ErrNotFound", err)
	}
}

func TestAnArchivedProjectTakesNoWrites(t *testing.T) {
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
	// One that is marked for deletion is as good as archived.
	s := (&script{}).on("GET projects/4711", 200, `{"id":4711,"path_with_namespace":"acme/team/app","marked_for_deletion_at":"2026-03-08"}`)
	if got, err := adapter(t, s).ReadRepository(t.Context(), scripted); err != nil || !got.Archived {
		t.Errorf("read %+v, %v", got, err)
	}
}

func TestABotThatWasExpelledIsGone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		self, member string
		status       int
		gone         bool
	}{
		"no member":                     {`{"id":9}`, `{"message":"404 Not found"}`, 404, true},
		"a member, of too low a level":  {`{"id":9}`, `{"access_level":10}`, 200, false},
		"an administrator is no member": {`{"id":9,"is_admin":true}`, `{"message":"404 Not found"}`, 404, false},
		"the host does not say":         {`{"id":9}`, ``, 502, false},
	} {
		s := (&script{}).on("GET projects/4711", 200, `{"id":4711,"path_with_namespace":"acme/team/app"}`).on("GET user", 200, c.self).
			on("GET ./members/all/9", c.status, c.member).on("POST ./statuses/"+head, 403, `{"message":"403 Forbidden"}`)
		err := adapter(t, s).SetCommitStatus(t.Context(), scripted, head, bot.CommitStatus{State: bot.CheckPending})
		if errors.Is(err, bot.ErrGone) != c.gone || errors.Is(err, bot.ErrForbidden) == c.gone {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestARefusedTokenIsNobodysRemoval(t *testing.T) {
	t.Parallel()
	s := (&script{}).on("GET "+mr7, 401, `{"message":"401 Unauthorized"}`).on("GET projects/4711", 401, `{"error":"invalid_token","error_description":"Token is expired."}`)
	h := adapter(t, s)
	_, readErr := h.ReadMR(t.Context(), scripted, 7)
	_, lookErr := h.ReadRepository(t.Context(), scripted)
	for _, err := range []error{readErr, lookErr} {
		if err == nil || errors.Is(err, bot.ErrGone) || errors.Is(err, bot.ErrForbidden) || !strings.Contains(err.Error(), "token is wrong, expired or revoked") || strings.Contains(err.Error(), token) {
			t.Errorf("got %v", err)
		}
	}
}

func TestTheHostsWordsArePassedOn(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"message":"405 Method Not Allowed"}`:                                            "405 Method Not Allowed",
		`{"message":["Another open merge request already exists: !5"]}`:                   "Another open merge request already exists: !5",
		`{"message":{"title":["can't be blank"],"base":["Source and target are equal"]}}`: "Source and target are equal, title can't be blank",
		`{"error":"insufficient_scope","error_description":"needs api"}`:                  "insufficient_scope: needs api",
		`<html>down</html>`:                    "GitLab answers 418: 418 I'm a teapot",
		``:                                     "GitLab answers 418: 418 I'm a teapot",
		"{\"message\":\"two\\nlines\\u202e\"}": "GitLab answers 418: two lines",
	} {
		_, err := adapter(t, standing().on("GET "+mr7, 418, body)).ReadMR(t.Context(), scripted, 7)
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", body, err, want)
		}
	}
}

func TestGitLabMayLiveBelowAPath(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"https://example.org/git/lab", "https://example.org/git/lab/", "https://example.org/git/lab/api/v4", "https://example.org/git/lab/api/v4/"} {
		var asked string
		h, err := gitlab.New(gitlab.Config{
			Name: "lab", APIURL: url, Token: token, WebhookSecrets: []bot.Secret{secret},
			HTTPTransport: (&script{}).call("GET /git/lab/api/v4/projects/4711", func(req *http.Request) *http.Response {
				asked = req.URL.String()
				return reply(200, `{"id":4711,"path_with_namespace":"acme/team/app"}`)
			}),
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.ReadRepository(t.Context(), scripted); err != nil || asked != "https://example.org/git/lab/api/v4/projects/4711" {
			t.Errorf("%s: asked %s, %v", url, asked, err)
		}
		if got := h.MRURL(scripted, 7); got != "https://example.org/git/lab/acme/team/app/-/merge_requests/7" {
			t.Errorf("%s: people are sent to %s", url, got)
		}
	}
}

func TestGitGoesInAsTheToken(t *testing.T) {
	t.Parallel()
	remote, err := adapter(t, standing()).GitRemote(t.Context(), scripted)
	want := "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("oauth2:"+token))
	if err != nil || remote.URL != "https://gitlab.example/acme/team/app.git" || remote.Key != "lab/4711" || remote.Header.Reveal() != want {
		t.Errorf("got %+v, %v", remote, err)
	}
	if s := fmt.Sprintf("%+v %#v", remote, remote); strings.Contains(s, want[21:]) {
		t.Errorf("printed with its secret: %s", s)
	}
	for _, odd := range []string{"app", "-x/app", "a/../b", "a//b", "a/b c", "a/b?c", "https://evil.example/x", ""} {
		repo := scripted
		repo.Path, repo.ExternalID = odd, 1
		if remote, err := adapter(t, &script{}).GitRemote(t.Context(), repo); err == nil {
			t.Errorf("%q: git is sent to %s", odd, remote.URL)
		}
	}
}

func TestPitfall04NotFoundRightAfterAWebhookIsAskedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := standing().on("GET "+mr7, 404, "{}").on("GET "+mr7, 200, mr(nil))
		if got, err := adapter(t, s).ReadMR(t.Context(), scripted, 7); err != nil || got.Number != 7 {
			t.Errorf("got %+v, %v", got, err)
		}
		s = standing()
		if _, err := adapter(t, s).ReadMR(t.Context(), scripted, 7); !errors.Is(err, bot.ErrNotFound) || s.times("GET "+mr7) != 3 {
			t.Errorf("got %v after %v", err, s.seen)
		}
	})
}

func TestOnlyProjectsThatTakeBatchesAreListed(t *testing.T) {
	t.Parallel()
	s := (&script{}).call("GET projects", func(req *http.Request) *http.Response {
		q := req.URL.Query()
		if q.Get("membership") != "true" || q.Get("archived") != "false" || q.Get("min_access_level") != "30" {
			t.Errorf("asked for %s", req.URL.RawQuery)
		}
		if q.Get("page") == "2" {
			return reply(200, `[{"id":3,"path_with_namespace":"a/c","default_branch":"trunk"}]`)
		}
		return reply(200, `[{"id":1,"path_with_namespace":"a/b"},{"id":2,"path_with_namespace":"a/old","archived":true}]`, "X-Next-Page", "2")
	})
	list, err := adapter(t, s).ListRepositories(t.Context())
	if err != nil || len(list) != 2 || list[0].Path != "a/b" || list[1] != (bot.RepositoryRef{Host: "lab", ExternalID: 3, Path: "a/c", DefaultBranch: "trunk"}) {
		t.Errorf("listed %+v, %v", list, err)
	}
}

func TestAFileTooLargeIsAnError(t *testing.T) {
	t.Parallel()
	for _, file := range []string{`{"size":1048577,"encoding":"base64","content":"","blob_id":"x"}`, `{"size":3,"encoding":"text","content":"a: 1","blob_id":"x"}`, `{"size":3,"encoding":"base64","content":"??","blob_id":"x"}`} {
		s := standing().on("GET ./repository/files/%2Ebatchbot%2Eyml", 200, file)
		if _, _, err := adapter(t, s).ReadFile(t.Context(), scripted, "main", ".batchbot.yml"); err == nil || errors.Is(err, bot.ErrNotFound) {
			t.Errorf("%s: got %v", file, err)
		}
	}
}
