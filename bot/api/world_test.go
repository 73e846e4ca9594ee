package api_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"database/sql"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	description "github.com/batchbot/batchbot/api"
	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/api"
	"github.com/batchbot/batchbot/bot/curated"
	"github.com/batchbot/batchbot/bot/intake"
	"github.com/batchbot/batchbot/bot/train"
	"github.com/batchbot/batchbot/githost/fakehost"
	"github.com/batchbot/batchbot/githost/github"
	"github.com/batchbot/batchbot/githost/gitmerge"
	"github.com/batchbot/batchbot/store"
)

const repoPath = "acme/app"

// The tokens of all tests.
const (
	board    = "board-token-0123456789"    // read
	release  = "release-token-0123456789"  // write
	manager  = "manager-token-0123456789"  // write
	operator = "operator-token-0123456789" // operator
)

var appKey = sync.OnceValue(func() bot.Secret {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return bot.Secret(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
})

// world is the API behind a real HTTP server, with a store, git and a GitHub in this process.
type world struct {
	testing.TB
	fake  *fakehost.Host
	host  bot.Host
	store *store.Store
	repo  bot.Repository
	queue bot.Queue
	url   string
	path  string // of the database; empty: it is a server
	log   *lines

	mu     sync.Mutex
	counts map[string]int // of answers, by "route status"
	made   int
}

// lines keeps a log.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newWorld(t testing.TB) *world {
	t.Helper()
	path := filepath.Join(t.TempDir(), "batchbot.db")
	w := newWorldOn(t, store.Options{Driver: store.SQLite, Path: path})
	w.path = path
	return w
}

func newWorldOn(t testing.TB, options store.Options) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{TB: t, counts: make(map[string]int), log: &lines{}}
	var err error
	w.fake, err = fakehost.New(fakehost.Options{Dir: filepath.Join(dir, "host"), ManualDelivery: true})
	w.must(err)
	t.Cleanup(w.fake.Close)
	for _, login := range []string{"ada", "bob"} {
		w.fake.AddUser(login)
	}
	w.must(w.fake.AddRepository(fakehost.NewRepository{
		Owner: "acme", Name: "app", Files: map[string]string{"README": "app\n"}, Permissions: map[string]string{"ada": fakehost.RoleWrite, "bob": fakehost.RoleWrite},
	}))
	w.host, err = github.New(github.Config{
		Name: "hub", APIURL: "http://fakehost.test", GitURL: filepath.Join(dir, "host"), AppID: 1, PrivateKey: appKey(),
		WebhookSecrets: []bot.Secret{"s3cret"}, HTTPTransport: w.fake.RoundTripper(), WriteSpacing: -1,
	})
	w.must(err)
	git, err := gitmerge.New(gitmerge.Options{Dir: filepath.Join(dir, "mirrors"), TmpDir: t.TempDir()})
	w.must(err)
	w.store, err = store.Open(t.Context(), options)
	w.must(err)
	t.Cleanup(func() { _ = w.store.Close() })
	w.must(w.store.Migrate(t.Context()))
	refs, err := w.host.ListRepositories(t.Context())
	w.must(err)
	w.repo, err = w.store.UpsertRepository(t.Context(), refs[0])
	w.must(err)
	w.queue, err = w.store.UpsertQueue(t.Context(), w.repo.ID, bot.DefaultQueueSettings("main"), "")
	w.must(err)
	hosts := map[string]bot.Host{"hub": w.host}
	applier := intake.NewApplier(intake.ApplierConfig{
		Hosts: hosts, Git: git, Records: w.store, Trains: w.store, NewID: w.newID,
		ParseSettings: func([]byte, string) (bot.RepositorySettings, error) {
			return bot.RepositorySettings{Queues: []bot.QueueSettings{bot.DefaultQueueSettings("main")}}, nil
		},
	})
	w.serve(api.Config{
		Store: w.store, Seats: applier,
		Trains: train.New(train.Config{Store: w.store, Applier: applier}),
		Desk:   curated.New(curated.Config{Store: w.store, Hosts: hosts, Git: git, NewID: w.newID}),
	})
	return w
}

// serve answers with another API; what c leaves out is as always.
func (w *world) serve(c api.Config) {
	c.Tokens = []api.Token{
		{Name: "board", Role: api.RoleRead, Secret: board}, {Name: "release", Role: api.RoleWrite, Secret: release},
		{Name: "manager", Role: api.RoleWrite, Secret: manager}, {Name: "operator", Role: api.RoleOperator, Secret: operator},
	}
	c.Document = description.OpenAPI
	c.IsMissing = func(err error) bool { return errors.Is(err, store.ErrMissing) }
	c.Logger = slog.New(slog.NewTextHandler(w.log, nil))
	c.Report = func(route string, status int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.counts[fmt.Sprint(route, " ", status)]++
	}
	server := httptest.NewServer(api.New(c))
	w.Cleanup(server.Close)
	w.url = server.URL
}

// newMySQL names a database of the test's own.
func newMySQL(t testing.TB) store.Options {
	t.Helper()
	given := os.Getenv("TEST_MYSQL_DSN")
	if given == "" {
		t.Fatal("TEST_MYSQL_DSN names no MySQL server: run `make test`, which starts one")
	}
	cfg, err := mysql.ParseDSN(given)
	if err != nil {
		t.Fatal(err)
	}
	server, err := sql.Open("mysql", cfg.FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	name := "api_" + strings.ToLower(rand.Text())
	if _, err := server.ExecContext(t.Context(), "CREATE DATABASE "+name+" CHARACTER SET utf8mb4"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := server.ExecContext(context.Background(), "DROP DATABASE "+name); err != nil {
			t.Error(err)
		}
		_ = server.Close()
	})
	cfg.DBName = name
	return store.Options{Driver: store.MySQL, DSN: cfg.FormatDSN(), Env: name[:20]}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) newID() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.made++
	return fmt.Sprintf("00000000-0000-4000-8000-%012d", w.made)
}

// opens opens merge requests of files of their own that bob approved.
func (w *world) opens(n int) (numbers []int) {
	w.Helper()
	for range n {
		name := "change-" + w.newID()[30:]
		number, err := w.fake.OpenMR(repoPath, fakehost.NewMR{Author: "ada", Head: name, Title: "Change " + name, Files: map[string]string{name: name}})
		w.must(err)
		_, err = w.fake.Review(repoPath, number, "bob", fakehost.Approved, "")
		w.must(err)
		numbers = append(numbers, number)
	}
	return numbers
}

// call is a request of a client.
type call struct {
	token, method, path, body string
	header                    map[string]string
}

// whatever overwrites a set as it is.
var whatever = map[string]string{"If-Match": "*"}

// reply is what it was answered, held against the OpenAPI document.
type reply struct {
	status int
	header http.Header
	body   string
}

// field reads a field of the answer, through objects by dots.
func (r reply) field(path string) any {
	var value any
	if json.Unmarshal([]byte(r.body), &value) != nil {
		return nil
	}
	for key := range strings.SplitSeq(path, ".") {
		fields, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = fields[key]
	}
	return value
}

func (r reply) text(path string) string { return fmt.Sprint(r.field(path)) }

func (r reply) id() int64 {
	n, _ := r.field("id").(float64)
	return int64(n)
}

var client = &http.Client{Timeout: 2 * time.Minute}

func (w *world) do(c call) reply {
	w.Helper()
	request, err := http.NewRequestWithContext(w.Context(), c.method, w.url+c.path, strings.NewReader(c.body))
	if err != nil {
		w.Error(err)
		return reply{}
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for name, value := range c.header {
		request.Header.Set(name, value)
		if value == "" && name == "Content-Type" {
			request.Header.Del(name)
		}
	}
	response, err := client.Do(request)
	if err != nil {
		w.Error(err)
		return reply{}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		w.Error(err)
	}
	theContract().check(w, request, c.body, response.StatusCode, response.Header, body)
	for _, secret := range []string{board, release, manager, operator} {
		if strings.Contains(string(body), secret) || strings.Contains(w.log.String(), secret) {
			w.Errorf("a token is shown by the answer or the log: %s", body)
		}
	}
	return reply{response.StatusCode, response.Header, string(body)}
}

// wants does a call and demands a status and, of a problem, its type without /problems/.
func (w *world) wants(status int, problem string, c call) reply {
	w.Helper()
	r := w.do(c)
	if r.status != status || problem != "" && r.text("type") != "/problems/"+problem {
		w.Errorf("%s %s %s is answered %d %s, want %d %s", c.method, c.path, start(c.body), r.status, start(r.body), status, problem)
	}
	return r
}

func (w *world) get(path string) reply {
	w.Helper()
	return w.wants(200, "", call{board, "GET", path, "", nil})
}

// drafts makes a curated batch of merge requests and returns its path.
func (w *world) drafts(numbers ...int) string {
	w.Helper()
	r := w.wants(201, "", call{release, "POST", "/api/v1/curated", fmt.Sprintf(`{"queue": %d, "rows": %s}`, w.queue.ID, rows(numbers...)), nil})
	return r.header.Get("Location")
}

func rows(numbers ...int) string {
	var list []string
	for i, n := range numbers {
		list = append(list, fmt.Sprintf(`{"row_no": %d, "mr": %d}`, i+1, n))
	}
	return "[" + strings.Join(list, ", ") + "]"
}

// opensTrain makes a train that departs in an hour and returns its path.
func (w *world) opensTrain(name string, seats int) string {
	w.Helper()
	now, err := w.store.Clock(w.Context())
	w.must(err)
	r := w.wants(201, "", call{operator, "POST", "/api/v1/trains", fmt.Sprintf(`{"queue": %d, "name": %q, "seats": %d, "departs_at": %q}`,
		w.queue.ID, name, seats, now.Add(time.Hour).Format(time.RFC3339)), nil})
	return r.header.Get("Location")
}

// atOnce does n calls at once.
func (w *world) atOnce(n int, each func(i int) call) []reply {
	w.Helper()
	replies, gate := make([]reply, n), make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-gate
			replies[i] = w.do(each(i))
		})
	}
	close(gate)
	wg.Wait()
	return replies
}
