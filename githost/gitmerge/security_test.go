package gitmerge_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/batchbot/batchbot/bot"
)

const canary = "c4n4ry-t0ken"

func secretHeader() bot.Secret {
	return bot.Secret("Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("x-access-token:"+canary)))
}

func leaks(text string) bool {
	encoded := base64.StdEncoding.EncodeToString([]byte("x-access-token:" + canary))
	return strings.Contains(text, canary) || strings.Contains(text, encoded)
}

// serve serves o over smart HTTP to whoever sends the header. refuse may be set to an HTTP status.
func serve(t *testing.T, o origin) (url string, refuse *atomic.Int32) {
	t.Helper()
	o.git("config", "http.receivepack", "true")
	refuse = new(atomic.Int32)
	backend := &cgi.Handler{
		Path: strings.TrimSpace(runGit(t, "", "--exec-path")) + "/git-http-backend",
		Env:  []string{"GIT_PROJECT_ROOT=" + filepath.Dir(o.dir), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null"},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status := refuse.Load(); status != 0 {
			w.WriteHeader(int(status))
			return
		}
		if "Authorization: "+r.Header.Get("Authorization") != secretHeader().Reveal() {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		body, err := io.ReadAll(r.Body) // cgi wants to know the length
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/origin.git", refuse
}

func TestCredentialsTravelInTheEnvironmentOnly(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	root := o.commit("refs/heads/main", files{"a": "0\n"})
	m := o.pull(1, files{"b": "0\n"}, root)
	url, refuse := serve(t, o)
	record := filepath.Join(t.TempDir(), "argv")
	i := newWrapped(t, `tr '\0' ' ' < /proc/$$/cmdline >> `+record+`; echo >> `+record)
	remote := bot.GitRemote{Key: "http/1", URL: url, Header: secretHeader()}

	b, err := i.Build(t.Context(), remote, spec(m))
	must(t, err)
	defer b.Close()
	wantPush(t, i.push(b, batchBranch), bot.PushDone)
	_, err = i.Inspect(t.Context(), remote, bot.InspectSpec{Target: "main"})
	must(t, err)
	outcome, err := i.FastForward(t.Context(), remote, "main", root, b.Result().HeadSHA)
	must(t, err)
	wantPush(t, outcome, bot.PushDone)
	outcome, err = i.DeleteBranch(t.Context(), remote, batchBranch, []string{b.Result().HeadSHA})
	must(t, err)
	wantPush(t, outcome, bot.PushDone)

	argv, err := os.ReadFile(record)
	must(t, err)
	for _, command := range []string{" fetch ", " push ", " ls-remote ", " merge-tree "} {
		if !strings.Contains(string(argv), command) {
			t.Errorf("the record misses %q", command)
		}
	}
	if leaks(string(argv)) {
		t.Error("the credential is in argv")
	}
	must(t, filepath.WalkDir(i.dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if leaks(string(content)) {
			t.Errorf("the credential is in %s", path)
		}
		return err
	}))

	t.Run("errors", func(t *testing.T) {
		for status, want := range map[int32]error{401: bot.ErrForbidden, 403: bot.ErrForbidden, 404: bot.ErrGone, 301: nil, 429: nil, 502: nil} {
			refuse.Store(status)
			_, err := i.Build(t.Context(), remote, spec(m))
			if err == nil || leaks(err.Error()) {
				t.Errorf("%d: %v", status, err)
			}
			if want != nil && !errors.Is(err, want) {
				t.Errorf("%d: %v, want %v", status, err, want)
			}
			if want == nil && (errors.Is(err, bot.ErrForbidden) || errors.Is(err, bot.ErrGone) || errors.Is(err, bot.ErrNotFound)) {
				t.Errorf("%d passes, but the error is %v", status, err)
			}
		}
		refuse.Store(0)
		wrong := remote
		wrong.Header = ""
		if _, err := i.Build(t.Context(), wrong, spec(m)); !errors.Is(err, bot.ErrForbidden) {
			t.Errorf("without a credential: %v, want bot.ErrForbidden", err)
		}
	})
	t.Run("a hook that repeats what it was told", func(t *testing.T) {
		o.hook("pre-receive", `echo "you sent `+secretHeader().Reveal()+` which is `+canary+`" >&2; exit 1`)
		outcome := i.push(b, "again")
		wantPush(t, outcome, bot.PushRefused)
		if leaks(outcome.Message) || !strings.Contains(outcome.Message, "[redacted]") {
			t.Errorf("message %q", outcome.Message)
		}
	})
}

// Not parallel: it changes the environment of this process.
func TestNobodysConfigurationCounts(t *testing.T) {
	home := t.TempDir()
	o := newOrigin(t)
	root := o.commit("refs/heads/main", files{"a": poem(-1, ""), ".gitattributes": "a merge=ours\n"})
	o.commit("refs/heads/main", files{"a": poem(3, "main")}, root)
	m := o.pull(1, files{"a": poem(3, "one")}, root)
	touched := filepath.Join(home, "touched")
	writeScript(t, filepath.Join(home, "hooks", "pre-push"), "touch "+touched)
	writeScript(t, filepath.Join(home, "hooks", "reference-transaction"), "touch "+touched)
	writeScript(t, filepath.Join(home, "askpass"), "touch "+touched)
	must(t, os.WriteFile(filepath.Join(home, "attributes"), []byte("* merge=ours\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(`
[url "/nowhere/"]
	insteadOf = /
[core]
	hooksPath = `+home+`/hooks
	attributesFile = `+home+`/attributes
	askPass = `+home+`/askpass
[merge "ours"]
	driver = touch `+touched+`
[user]
	name = Somebody
`), 0o600))
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", home)
	t.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(home, ".gitconfig"))
	t.Setenv("GIT_CONFIG_SYSTEM", filepath.Join(home, ".gitconfig"))
	t.Setenv("GIT_ASKPASS", filepath.Join(home, "askpass"))
	t.Setenv("GIT_DIR", home)
	t.Setenv("GIT_TRACE", touched)

	i := newInstance(t)
	b := i.build(o, spec(m))
	wantFates(t, b.Result(), bot.FateConflict)
	wantPush(t, i.push(b, batchBranch), bot.PushDone)
	if _, err := os.Stat(touched); err == nil {
		t.Error("something of the user ran")
	}
}

func TestNamesThatMustNotReachGit(t *testing.T) {
	t.Parallel()
	o, i := newOrigin(t), newInstance(t)
	good := o.pull(1, files{"b": "0\n"}, o.commit("refs/heads/main", files{"a": "0\n"}))
	sha := good.HeadSHA
	for _, name := range []string{"", "-upload-pack=x", "a..b", "a b", "a\nb", "a\x00b", "a~1", "a^", "a:b", "a*", "a?", "a[", `a\b`, "a@{1}", "/a", "a/", "a//b",
		".a", "a/.b", "a.lock", "a.lock/b", "a.", strings.Repeat("x", 2000)} {
		s := spec(good)
		s.Target = name
		_, err := i.Build(t.Context(), o.remote(), s)
		mustContain(t, err, "the target branch")
		_, err = i.Inspect(t.Context(), o.remote(), bot.InspectSpec{Target: name})
		mustContain(t, err, "the target branch")
		_, err = i.FastForward(t.Context(), o.remote(), name, sha, sha)
		mustContain(t, err, "the target branch")
		_, err = i.DeleteBranch(t.Context(), o.remote(), name, []string{sha})
		mustContain(t, err, "the branch")
		_, err = i.build(o, spec(good)).Push(t.Context(), name, nil)
		mustContain(t, err, "the branch")
	}
	for _, id := range []string{"HEAD", "--all", sha[:39], sha + "0", strings.ToUpper(sha), strings.Repeat("a", 64), "^" + sha[1:], sha[:39] + "\n"} {
		bad := good
		bad.HeadSHA = id
		_, err := i.Build(t.Context(), o.remote(), spec(bad))
		mustContain(t, err, "the head of #1")
		_, err = i.Inspect(t.Context(), o.remote(), bot.InspectSpec{Target: "main", Heads: []string{id}})
		mustContain(t, err, "a head")
		_, err = i.Inspect(t.Context(), o.remote(), bot.InspectSpec{Target: "main", Trees: []string{id}})
		mustContain(t, err, "a commit")
		_, err = i.FastForward(t.Context(), o.remote(), "main", id, sha)
		mustContain(t, err, "the base")
		_, err = i.DeleteBranch(t.Context(), o.remote(), "x", []string{id})
		mustContain(t, err, "a head of the branch")
	}
	for what, change := range map[string]func(*bot.BuildSpec){
		"the head reference of #1": func(s *bot.BuildSpec) { s.Members[0].HeadRef = "--upload-pack=x" },
		"the base":                 func(s *bot.BuildSpec) { s.Base = "main" },
		"the token":                func(s *bot.BuildSpec) { s.Token = "x\nSigned-off-by: y" },
		"the batch id":             func(s *bot.BuildSpec) { s.BatchID = 0 },
		"creation time":            func(s *bot.BuildSpec) { s.CreatedAt = s.CreatedAt.AddDate(-3000, 0, 0) },
		"the number 0":             func(s *bot.BuildSpec) { s.Members[0].Number = 0 },
	} {
		s := spec(good)
		change(&s)
		_, err := i.Build(t.Context(), o.remote(), s)
		mustContain(t, err, what, "building batch")
	}
}

func TestRemotesThatAreRefused(t *testing.T) {
	t.Parallel()
	i := newInstance(t)
	for url, want := range map[string]string{
		"https://x-access-token:" + canary + "@host/o/r.git": "holds credentials",
		"ssh://git@host/o/r.git":                             "holds credentials",
		"ssh://host/o/r.git":                                 "neither http, https nor a local path",
		"git@host:o/r.git":                                   "cannot be read",
		"ext::sh -c touch% /tmp/x":                           "",
		"--upload-pack=touch":                                "neither",
		"relative/path":                                      "neither",
		"":                                                   "neither",
		"https://host/a\nb":                                  "control characters",
	} {
		_, err := i.Inspect(t.Context(), bot.GitRemote{Key: "k", URL: url}, bot.InspectSpec{Target: "main"})
		mustContain(t, err, want)
		if leaks(err.Error()) {
			t.Errorf("%v", err)
		}
	}
	_, err := i.Inspect(t.Context(), bot.GitRemote{Key: "k", URL: "https://host/x", Header: "Authorization: a\nX: " + canary}, bot.InspectSpec{Target: "main"})
	mustContain(t, err, "not one header line")
	if leaks(err.Error()) {
		t.Error(err)
	}
	_, err = i.Inspect(t.Context(), bot.GitRemote{URL: "/x"}, bot.InspectSpec{Target: "main"})
	mustContain(t, err, "without a key")
}
