package github_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/fakehost"
	"github.com/batchbot/batchbot/githost/github"
	"github.com/batchbot/batchbot/githost/hosttest"
	"github.com/batchbot/batchbot/githost/hosttest/contract"
)

const (
	path   = "acme/app"
	secret = "s3cret"
)

// appKey is one App key for all tests: making one takes a while.
var appKey = sync.OnceValues(func() (*rsa.PrivateKey, bot.Secret) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	return key, bot.Secret(pem.EncodeToMemory(block))
})

// world is a fake GitHub in this process, without sockets, with the adapter in front of it.
type world struct {
	t    *testing.T
	fake *fakehost.Host
	host *github.Host
	repo bot.Repository
}

var _ hosttest.World = (*world)(nil)

func newWorld(t *testing.T) *world { return newWorldAs(t, func(*github.Config) {}) }

// newWorldAs makes a world whose adapter is configured by edit; without one it acts as an App.
func newWorldAs(t *testing.T, edit func(*github.Config)) *world {
	t.Helper()
	key, pem := appKey()
	dir := t.TempDir()
	fake, err := fakehost.New(fakehost.Options{
		Dir: dir, WebhookSecret: secret, ManualDelivery: true, AppPublicKey: &key.PublicKey, CI: fakehost.CI{Mode: fakehost.CINone},
	})
	w := &world{t: t, fake: fake}
	w.must(err)
	t.Cleanup(func() {
		fake.Close()
		for _, d := range fake.Deliveries() {
			contract.Webhook(t, d.Event, d.Payload)
		}
	})
	fake.AddUser("dan")
	w.must(fake.AddRepository(fakehost.NewRepository{
		Owner: "acme", Name: "app",
		Permissions: map[string]string{"ada": fakehost.RoleAdmin, "max": fakehost.RoleMaintain, "bob": fakehost.RoleWrite, "cleo": fakehost.RoleWrite, "tess": fakehost.RoleTriage},
	}))
	config := github.Config{
		Name: "hub", APIURL: "http://fakehost.test", GitURL: dir, AppID: 1, PrivateKey: pem,
		WebhookSecrets: []bot.Secret{secret}, HTTPTransport: contract.Transport(t, fake.RoundTripper()),
	}
	edit(&config)
	w.host, err = github.New(config)
	w.must(err)
	if config.Token != "" {
		return w // its row is up to the test
	}
	list, err := w.host.ListRepositories(t.Context())
	w.must(err)
	for _, ref := range list {
		if ref.Path == path {
			w.repo = bot.Repository{ID: 1, RepositoryRef: ref, Active: true}
		}
	}
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) Host() bot.Host             { return w.host }
func (w *world) Webhooks() bot.Webhooks     { return w.host }
func (w *world) Repository() bot.Repository { return w.repo }

func (w *world) OpenMR(mr hosttest.NewMR) int {
	w.t.Helper()
	number, err := w.fake.OpenMR(path, fakehost.NewMR{
		Author: mr.Author, Head: mr.Branch, Base: mr.Target, Title: mr.Title, Files: mr.Files, Fork: mr.Fork, Draft: mr.Draft,
	})
	w.must(err)
	return number
}

func (w *world) OpenIssue(author, title string) int {
	w.t.Helper()
	number, err := w.fake.OpenIssue(path, author, title)
	w.must(err)
	return number
}

func (w *world) Push(number int, files map[string]string) string {
	w.t.Helper()
	sha, err := w.fake.PushTo(path, number, files)
	w.must(err)
	return sha
}

func (w *world) Commit(branch string, files map[string]string) string {
	w.t.Helper()
	sha, err := w.fake.Commit(path, branch, "main", "ada", "Change "+branch, files)
	w.must(err)
	return sha
}

func (w *world) DeleteBranch(branch string) {
	w.t.Helper()
	w.must(w.fake.SetBranch(path, branch, "", "ada"))
}

func (w *world) Close(number int, by string) {
	w.t.Helper()
	w.must(w.fake.CloseMR(path, number, by))
}

func (w *world) Merge(number int, by string) string {
	w.t.Helper()
	sha, err := w.fake.MergeMR(path, number, by)
	w.must(err)
	return sha
}

func (w *world) Retarget(number int, by, target string) {
	w.t.Helper()
	w.must(w.fake.Retarget(path, number, by, target))
}

func (w *world) SetDraft(number int, by string, draft bool) {
	w.t.Helper()
	w.must(w.fake.SetDraft(path, number, by, draft))
}

func (w *world) Comment(number int, author, body string) int64 {
	w.t.Helper()
	id, err := w.fake.Comment(path, number, author, body)
	w.must(err)
	return id
}

func (w *world) EditComment(id int64, body string) {
	w.t.Helper()
	w.must(w.fake.EditComment(path, id, body))
}

func (w *world) Approve(number int, by, body string) {
	w.t.Helper()
	_, err := w.fake.Review(path, number, by, fakehost.Approved, body)
	w.must(err)
}

func (w *world) Unapprove(number int, by string) {
	w.t.Helper()
	mr, err := w.fake.MR(path, number)
	w.must(err)
	for _, r := range mr.Reviews {
		if r.Author == by && r.State == fakehost.Approved {
			w.must(w.fake.Dismiss(path, number, r.ID, "ada"))
		}
	}
}

func (w *world) Comments(number int) []hosttest.Comment {
	w.t.Helper()
	seen, err := w.fake.Comments(path, number)
	w.must(err)
	var list []hosttest.Comment
	for _, c := range seen {
		comment := hosttest.Comment{ID: c.ID, Author: c.Author, Body: c.Body}
		for _, r := range c.Reactions {
			comment.Reactions = append(comment.Reactions, bot.Reaction(r.Content))
		}
		list = append(list, comment)
	}
	return list
}

func (w *world) Report(sha, name string, state bot.CheckState) {
	w.t.Helper()
	word := map[bot.CheckState]string{bot.CheckPending: "pending", bot.CheckSuccess: "success", bot.CheckFailure: "failure"}[state]
	w.must(w.fake.SetStatus(path, sha, "ada", word, name))
}

func (w *world) RequireChecks(branch string, names ...string) {
	w.t.Helper()
	w.must(w.fake.SetRules(path, branch, fakehost.Rules{RequiredChecks: names}))
}

func (w *world) RequireApprovals(branch string, count int) {
	w.t.Helper()
	w.must(w.fake.SetRules(path, branch, fakehost.Rules{RequiredApprovals: count}))
}

func (w *world) Statuses(sha string) []hosttest.Status {
	w.t.Helper()
	state, err := w.fake.State(path)
	w.must(err)
	words := map[string]bot.CheckState{"pending": bot.CheckPending, "success": bot.CheckSuccess, "failure": bot.CheckFailure}
	var list []hosttest.Status
	for _, c := range state.Checks {
		if c.SHA == sha && c.Name == "batchbot" && c.App == "batchbot" {
			list = append(list, hosttest.Status{State: map[string]bot.CheckState{"": bot.CheckPending, "success": bot.CheckSuccess, "failure": bot.CheckFailure}[c.Conclusion], Description: c.Title})
		}
	}
	for _, s := range state.Statuses {
		if s.SHA == sha && s.Context == "batchbot" {
			list = append(list, hosttest.Status{State: words[s.State], Description: s.Description})
		}
	}
	return list
}

func (w *world) Archive() {
	w.t.Helper()
	w.must(w.fake.SetArchived(path, true))
}

func (w *world) Deliveries() []hosttest.Delivery {
	w.t.Helper()
	w.must(w.fake.DeliverPending(w.t.Context()))
	var list []hosttest.Delivery
	for _, d := range w.fake.Deliveries() {
		list = append(list, hosttest.Delivery{Header: d.Header, Body: d.Payload})
	}
	return list
}

func TestConformanceAsAnApp(t *testing.T) {
	t.Parallel()
	hosttest.Run(t, func(t *testing.T) hosttest.World { return newWorld(t) })
}

func TestConformanceWithAToken(t *testing.T) {
	t.Parallel()
	hosttest.Run(t, func(t *testing.T) hosttest.World {
		w := newWorldAs(t, func(c *github.Config) {
			c.AppID, c.PrivateKey, c.Token = 0, "", "batcher-token"
			c.HTTPTransport = tokenLists{c.HTTPTransport}
		})
		w.must(w.fake.SetPermission(path, "batcher", fakehost.RoleWrite))
		list, err := w.host.ListRepositories(t.Context())
		w.must(err)
		w.repo = bot.Repository{ID: 1, RepositoryRef: list[0], Active: true}
		return w
	})
}

// tokenLists answers what a token reaches, which the fake does not.
type tokenLists struct{ next http.RoundTripper }

func (l tokenLists) RoundTrip(req *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(req.URL.Path, "/user/repos") {
		return l.next.RoundTrip(req)
	}
	one := req.Clone(req.Context())
	one.URL.Path, one.URL.RawQuery = "/api/v3/repos/"+path, ""
	resp, err := l.next.RoundTrip(one)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return reply(resp.StatusCode, "["+string(body)+"]"), err
}

// The whole adapter works where time is bent: no socket, no goroutine left behind.
func TestTheAdapterWorksInABubble(t *testing.T) {
	t.Parallel()
	appKey()
	synctest.Test(t, func(t *testing.T) {
		w := newWorldAs(t, func(c *github.Config) { c.WriteSpacing = time.Second })
		number := w.OpenMR(hosttest.NewMR{Author: "bob", Branch: "b1", Title: "T", Files: map[string]string{"a.txt": "a\n"}})
		start := time.Now()
		for i := range 3 {
			if _, err := w.host.UpsertComment(t.Context(), w.repo, number, "<!-- m -->", fmt.Sprint("step ", i), 0); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("three writes took %v, want two pauses of a second", took)
		}
		// Installation tokens live an hour; nobody notices.
		time.Sleep(3 * time.Hour)
		if _, err := w.host.ReadMR(t.Context(), w.repo, number); err != nil {
			t.Error(err)
		}
		w.fake.Close()
	})
}

// git itself, over a real connection, gets into a private repository by the header.
func TestGitGetsInByTheHeader(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.fake.AddRepository(fakehost.NewRepository{Owner: "acme", Name: "secret", Private: true}))
	server := httptest.NewServer(contract.Handler(t, w.fake.Handler()))
	defer server.Close()
	_, pem := appKey()
	h, err := github.New(github.Config{
		Name: "hub", APIURL: server.URL, AppID: 1, PrivateKey: pem, WebhookSecrets: []bot.Secret{secret},
	})
	w.must(err)
	list, err := h.ListRepositories(t.Context())
	w.must(err)
	i := slices.IndexFunc(list, func(r bot.RepositoryRef) bool { return r.Path == "acme/secret" })
	if i < 0 {
		t.Fatalf("listed %+v", list)
	}
	remote, err := h.GitRemote(t.Context(), bot.Repository{RepositoryRef: list[i]})
	w.must(err)
	tip, err := w.fake.Branch("acme/secret", "main")
	w.must(err)
	if got := lsRemote(t, remote); got != tip {
		t.Errorf("with the header git saw %q", got)
	}
	remote.Header = "X-Nothing: here"
	if got := lsRemote(t, remote); got != "" {
		t.Errorf("without it git saw %q", got)
	}
}

// lsRemote is what git itself sees of main, empty if it is not let in.
func lsRemote(t *testing.T, remote bot.GitRemote) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "ls-remote", remote.URL, "refs/heads/main")
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=true",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=http.extraHeader", "GIT_CONFIG_VALUE_0="+remote.Header.Reveal())
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	sha, _, _ := strings.Cut(string(out), "\t")
	return sha
}

// servePrefixed puts a host on a real connection below a path; seen lists what was asked for.
func servePrefixed(t *testing.T, fake *fakehost.Host, prefix string) (address string, seen func() []string) {
	t.Helper()
	var (
		mu  sync.Mutex
		all []string
	)
	below := http.StripPrefix(prefix, fake.Handler())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		all = append(all, req.Method+" "+req.URL.Path)
		mu.Unlock()
		below.ServeHTTP(w, req)
	}))
	t.Cleanup(server.Close)
	fake.SetBaseURL(server.URL + prefix)
	return server.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}
