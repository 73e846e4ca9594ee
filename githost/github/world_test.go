package github_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"sync"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/fakehost"
	"github.com/batchbot/batchbot/githost/github"
	"github.com/batchbot/batchbot/githost/hosttest"
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
	t.Cleanup(fake.Close)
	fake.AddUser("dan")
	w.must(fake.AddRepository(fakehost.NewRepository{
		Owner: "acme", Name: "app",
		Permissions: map[string]string{"ada": fakehost.RoleAdmin, "max": fakehost.RoleMaintain, "bob": fakehost.RoleWrite, "cleo": fakehost.RoleWrite, "tess": fakehost.RoleTriage},
	}))
	config := github.Config{
		Name: "hub", APIURL: "http://fakehost.test", GitURL: dir, AppID: 1, PrivateKey: pem,
		WebhookSecrets: []bot.Secret{secret}, HTTPTransport: fake.RoundTripper(),
	}
	edit(&config)
	w.host, err = github.New(config)
	w.must(err)
	if config.Token != "" {
		return w // its row is up to the test: the fake does not list what a token reaches
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

func TestConformance(t *testing.T) {
	t.Parallel()
	hosttest.Run(t, func(t *testing.T) hosttest.World { return newWorld(t) })
}
