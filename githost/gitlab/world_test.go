package gitlab_test

import (
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/fakehost"
	"github.com/batchbot/batchbot/githost/gitlab"
	"github.com/batchbot/batchbot/githost/hosttest"
	"github.com/batchbot/batchbot/githost/hosttest/contract"
)

// world is a fake GitLab in this process, without sockets, with the adapter in front of it.
type world struct {
	t      *testing.T
	fake   *fakehost.Host
	host   *gitlab.Host
	repo   bot.Repository
	path   string
	signed bool
}

var (
	_ hosttest.World    = (*world)(nil)
	_ hosttest.Peculiar = (*world)(nil)
)

func newWorld(t *testing.T) *world { return newWorldAs(t, fakehost.GitLab{}) }

// newWorldAs makes a world on a GitLab of a certain kind; one with a signing token uses no other secret.
func newWorldAs(t *testing.T, kind fakehost.GitLab, edits ...func(*gitlab.Config)) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{t: t, path: path, signed: kind.SigningToken != ""}
	options := fakehost.Options{Dir: dir, ManualDelivery: true, Face: fakehost.FaceGitLab, GitLab: kind, CI: fakehost.CI{Mode: fakehost.CINone}}
	config := gitlab.Config{Name: "lab", APIURL: "http://fakehost.test", GitURL: dir, Token: "group_1_bot_batchbot-token"}
	if w.signed {
		config.SigningTokens = []bot.Secret{bot.Secret(kind.SigningToken)}
	} else {
		options.WebhookSecret = secret
		config.WebhookSecrets = []bot.Secret{secret}
	}
	var err error
	w.fake, err = fakehost.New(options)
	w.must(err)
	t.Cleanup(func() {
		w.fake.Close()
		for _, d := range w.fake.Deliveries() {
			contract.GitLabWebhook(t, d.Event, d.Payload)
		}
	})
	w.fake.AddUser("dan")
	w.must(w.fake.AddRepository(fakehost.NewRepository{
		Owner: "acme/team", Name: "app",
		Permissions: map[string]string{"ada": fakehost.RoleAdmin, "max": fakehost.RoleMaintain, "bob": fakehost.RoleWrite, "cleo": fakehost.RoleWrite, "tess": fakehost.RoleTriage},
	}))
	config.HTTPTransport = contract.GitLab(t, w.fake.RoundTripper())
	for _, edit := range edits {
		edit(&config)
	}
	w.host, err = gitlab.New(config)
	w.must(err)
	list, err := w.host.ListRepositories(t.Context())
	w.must(err)
	if len(list) != 1 || list[0].Path != w.path {
		t.Fatalf("listed %+v", list)
	}
	w.repo = bot.Repository{ID: 1, RepositoryRef: list[0], Active: true}
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) Peculiarities() hosttest.Peculiarities {
	return hosttest.Peculiarities{IssuesApart: true, SilentApprovals: true, UnsignedBodies: !w.signed}
}

func (w *world) Host() bot.Host             { return w.host }
func (w *world) Webhooks() bot.Webhooks     { return w.host }
func (w *world) Repository() bot.Repository { return w.repo }

func (w *world) OpenMR(mr hosttest.NewMR) int {
	w.t.Helper()
	number, err := w.fake.OpenMR(w.path, fakehost.NewMR{
		Author: mr.Author, Head: mr.Branch, Base: mr.Target, Title: mr.Title, Files: mr.Files, Fork: mr.Fork, Draft: mr.Draft,
	})
	w.must(err)
	return number
}

func (w *world) OpenIssue(author, title string) int {
	w.t.Helper()
	number, err := w.fake.OpenIssue(w.path, author, title)
	w.must(err)
	return number
}

func (w *world) Push(number int, files map[string]string) string {
	w.t.Helper()
	sha, err := w.fake.PushTo(w.path, number, files)
	w.must(err)
	return sha
}

func (w *world) Commit(branch string, files map[string]string) string {
	w.t.Helper()
	sha, err := w.fake.Commit(w.path, branch, "main", "ada", "Change "+branch, files)
	w.must(err)
	return sha
}

func (w *world) DeleteBranch(branch string) {
	w.t.Helper()
	w.must(w.fake.SetBranch(w.path, branch, "", "ada"))
}

func (w *world) Close(number int, by string) {
	w.t.Helper()
	w.must(w.fake.CloseMR(w.path, number, by))
}

func (w *world) Merge(number int, by string) string {
	w.t.Helper()
	sha, err := w.fake.MergeMR(w.path, number, by)
	w.must(err)
	return sha
}

func (w *world) Retarget(number int, by, target string) {
	w.t.Helper()
	w.must(w.fake.Retarget(w.path, number, by, target))
}

func (w *world) SetDraft(number int, by string, draft bool) {
	w.t.Helper()
	w.must(w.fake.SetDraft(w.path, number, by, draft))
}

func (w *world) Comment(number int, author, body string) int64 {
	w.t.Helper()
	id, err := w.fake.Comment(w.path, number, author, body)
	w.must(err)
	return id
}

func (w *world) EditComment(id int64, body string) {
	w.t.Helper()
	w.must(w.fake.EditComment(w.path, id, body))
}

func (w *world) Approve(number int, by, body string) {
	w.t.Helper()
	_, err := w.fake.Review(w.path, number, by, fakehost.Approved, body)
	w.must(err)
}

func (w *world) Unapprove(number int, by string) {
	w.t.Helper()
	mr, err := w.fake.MR(w.path, number)
	w.must(err)
	for _, r := range mr.Reviews {
		if r.Author == by && r.State == fakehost.Approved {
			w.must(w.fake.Dismiss(w.path, number, r.ID, by))
		}
	}
}

func (w *world) Comments(number int) []hosttest.Comment {
	w.t.Helper()
	seen, err := w.fake.Comments(w.path, number)
	w.must(err)
	names := map[string]bot.Reaction{"eyes": bot.ReactionSeen, "thumbsup": bot.ReactionDone, "thumbsdown": bot.ReactionRefused, "confused": bot.ReactionConfused}
	var list []hosttest.Comment
	for _, c := range seen {
		comment := hosttest.Comment{ID: c.ID, Author: c.Author, Body: c.Body}
		for _, r := range c.Reactions {
			comment.Reactions = append(comment.Reactions, names[r.Content])
		}
		list = append(list, comment)
	}
	return list
}

func (w *world) Report(sha, name string, state bot.CheckState) {
	w.t.Helper()
	word := map[bot.CheckState]string{bot.CheckPending: "pending", bot.CheckSuccess: "success", bot.CheckFailure: "failure"}[state]
	w.must(w.fake.SetStatus(w.path, sha, "ada", word, name))
}

func (w *world) RequireChecks(branch string, names ...string) {
	w.t.Helper()
	w.must(w.fake.SetRules(w.path, branch, fakehost.Rules{RequiredChecks: names}))
}

func (w *world) RequireApprovals(branch string, count int) {
	w.t.Helper()
	w.must(w.fake.SetRules(w.path, branch, fakehost.Rules{RequiredApprovals: count}))
}

func (w *world) Statuses(sha string) []hosttest.Status {
	w.t.Helper()
	state, err := w.fake.State(w.path)
	w.must(err)
	words := map[string]bot.CheckState{"pending": bot.CheckPending, "success": bot.CheckSuccess, "failure": bot.CheckFailure}
	var list []hosttest.Status
	for _, s := range state.Statuses {
		if s.SHA == sha && s.Context == "batchbot" {
			list = append(list, hosttest.Status{State: words[s.State], Description: s.Description})
		}
	}
	return list
}

func (w *world) Archive() {
	w.t.Helper()
	w.must(w.fake.SetArchived(w.path, true))
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

func TestConformance(t *testing.T) {
	t.Parallel()
	hosttest.Run(t, func(t *testing.T) hosttest.World { return newWorld(t) })
}

func TestConformanceWithASigningToken(t *testing.T) {
	t.Parallel()
	hosttest.Run(t, func(t *testing.T) hosttest.World {
		return newWorldAs(t, fakehost.GitLab{SigningToken: string(signing)})
	})
}

// The whole adapter works where time is bent: no socket, no goroutine left behind.
func TestTheAdapterWorksInABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorldAs(t, fakehost.GitLab{}, func(c *gitlab.Config) { c.WriteSpacing = time.Second })
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
		w.fake.Close()
	})
}

// git itself, over a real connection, gets into a private project by the header.
func TestGitGetsInByTheHeader(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.fake.AddRepository(fakehost.NewRepository{Owner: "acme", Name: "secret", Private: true}))
	server := httptest.NewServer(w.fake.Handler())
	defer server.Close()
	h, err := gitlab.New(gitlab.Config{Name: "lab", APIURL: server.URL, Token: "group_1_bot_batchbot-token", WebhookSecrets: []bot.Secret{secret}})
	w.must(err)
	list, err := h.ListRepositories(t.Context())
	w.must(err)
	if len(list) != 2 || list[1].Path != "acme/secret" {
		t.Fatalf("listed %+v", list)
	}
	remote, err := h.GitRemote(t.Context(), bot.Repository{RepositoryRef: list[1]})
	w.must(err)
	look := func(header string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "git", "ls-remote", remote.URL, "refs/heads/main")
		cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=true",
			"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=http.extraHeader", "GIT_CONFIG_VALUE_0="+header)
		out, err := cmd.Output()
		return string(out), err
	}
	tip, err := w.fake.Branch("acme/secret", "main")
	w.must(err)
	if out, err := look(remote.Header.Reveal()); err != nil || !strings.HasPrefix(out, tip) {
		t.Errorf("with the header git saw %q, %v", out, err)
	}
	if out, err := look("X-Nothing: here"); err == nil {
		t.Errorf("without it git saw %q", out)
	}
}
