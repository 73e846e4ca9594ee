package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/batchbot/batchbot/config"
	"github.com/batchbot/batchbot/githost/fakehost"
)

// post sends a webhook, signed with secret.
func post(t *testing.T, url, secret, key, event string, body []byte) (status int, answer string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-GitHub-Event", event)
	request.Header.Set("X-GitHub-Delivery", key)
	request.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(content)
}

func TestWhatTheServerAnswers(t *testing.T) {
	t.Parallel()
	p := newWorld(t).start(t)
	hook := p.url + webhookPath + "github"

	for path, want := range map[string]string{"/healthz": "ok\n", "/readyz": "ready\n"} {
		if status, body := get(t, p.url+path); status != http.StatusOK || body != want {
			t.Errorf("%s answers %d %q", path, status, body)
		}
	}
	for _, test := range []struct {
		what, url, secret, event string
		body                     []byte
		status                   int
		says                     string
	}{
		{"a wrong secret", hook, "guessed", "push", []byte("{}"), 401, "must be the same"},
		{"another path", p.url + webhookPath + "gitlab", hookSecret, "push", []byte("{}"), 404, "no webhook is configured at this path"},
		{"an unknown event", hook, hookSecret, "star", []byte("{}"), 202, "not used"},
		{"a ping", hook, hookSecret, "ping", []byte("{}"), 202, ""},
		{"junk instead of JSON", hook, hookSecret, "issue_comment", []byte("{junk"), 202, "stored"},
		{"too much", hook, hookSecret, "push", make([]byte, 25<<20+1), 413, "larger than"},
	} {
		status, answer := post(t, test.url, test.secret, strings.ReplaceAll(test.what, " ", "-"), test.event, test.body)
		if status != test.status || !strings.Contains(answer, test.says) {
			t.Errorf("%s is answered %d %q, want %d and %q", test.what, status, answer, test.status, test.says)
		}
	}
	var metrics string
	eventually(t, "the junk to be given up", func() bool {
		_, metrics = get(t, p.url+"/metrics")
		return strings.Contains(metrics, `batchbot_deliveries{status="failed"} 1`)
	})
	contains(t, "/metrics", metrics,
		`batchbot_webhook_requests_total{host="github",status="401"} 1`,
		`batchbot_webhook_requests_total{host="",status="404"} 1`,
		`batchbot_webhook_requests_total{host="github",status="413"} 1`,
		"batchbot_database_up 1", "batchbot_waiting_requests 0", `batchbot_active_batches{status="RUNNING"} 0`, "batchbot_build_info{")
}

// A server whose database went away is alive and not ready, and says so without naming the database.
func TestReadinessFollowsTheDatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	settings, err := config.Load(w.file, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := build(t.Context(), settings, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.run(ctx) }()
	if status, _ := get(t, p.url+"/readyz"); status != http.StatusOK {
		t.Errorf("/readyz answers %d with a database", status)
	}
	if err := p.store.Close(); err != nil {
		t.Fatal(err)
	}
	if status, body := get(t, p.url+"/readyz"); status != http.StatusServiceUnavailable || body != "the database does not answer\n" {
		t.Errorf("/readyz answers %d %q without a database", status, body)
	}
	if status, _ := get(t, p.url+"/healthz"); status != http.StatusOK {
		t.Errorf("/healthz answers %d without a database", status)
	}
	if _, metrics := get(t, p.url+"/metrics"); !strings.Contains(metrics, "batchbot_database_up 0") {
		t.Errorf("/metrics does not say that the database is away:\n%s", metrics)
	}
	if status, answer := post(t, p.url+webhookPath+"github", hookSecret, "d", "push", []byte("{}")); status != http.StatusServiceUnavailable {
		t.Errorf("a webhook is answered %d %q without a database", status, answer)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// From a comment to the bot's answer, by HTTP in both directions.
func TestACommentIsAnswered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.start(t)
	w.host.SetWebhook(p.url+webhookPath+"github", hookSecret)
	if err := w.host.AddRepository(fakehost.NewRepository{Owner: "o", Name: "n", Permissions: map[string]string{"ann": fakehost.RoleWrite}}); err != nil {
		t.Fatal(err)
	}
	number, err := w.host.OpenMR("o/n", fakehost.NewMR{Author: "ann", Head: "topic", Title: "A change", Files: map[string]string{"a": "b\n"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.host.Comment("o/n", number, "ann", "/batch help"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an answer of the bot", func() bool {
		comments, err := w.host.Comments("o/n", number)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range comments {
			if c.Author == demoBot && strings.Contains(c.Body, "/batch cancel") {
				return true
			}
		}
		return false
	})
}

func TestAStoppedProgramReleasesItsAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	settings, err := config.Load(w.file, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second one listens where the first did
		p, err := build(t.Context(), settings, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.run(ctx) }()
		if status, _ := get(t, p.url+"/healthz"); status != http.StatusOK {
			t.Errorf("/healthz answers %d", status)
		}
		settings.Listen = strings.TrimPrefix(p.url, "http://")
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := p.close(); err != nil {
			t.Error(err)
		}
	}
}

// The real process: its log is JSON with stable keys, and one signal ends it with exit code 0.
func TestASignalStopsTheProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self, "serve", "--config", w.file)
	c.Env = []string{asProgram + "=1", "PATH=" + os.Getenv("PATH"), "HOME=" + w.dir}
	stderr, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var messages []string
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		var entry struct{ Time, Level, Msg, Host, URL string }
		if err := json.Unmarshal(lines.Bytes(), &entry); err != nil || entry.Time == "" || entry.Level == "" {
			t.Errorf("%q is no log entry: %v", lines.Text(), err)
		}
		messages = append(messages, entry.Msg)
		if entry.Msg == "ready for webhooks" && (entry.Host != "github" || !strings.HasSuffix(entry.URL, "/webhooks/github")) {
			t.Errorf("the webhook address is logged as %q of host %q", entry.URL, entry.Host)
		}
		if entry.Msg == "started" {
			if err := c.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.Wait(); err != nil {
		t.Errorf("after SIGTERM the process ended with %v; it logged %q", err, messages)
	}
	if last := messages[len(messages)-1]; last != "stopped" {
		t.Errorf("the last message is %q", last)
	}
}

func TestFakehost(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ face, repository, path string }{
		{"github", "o/n", "/repos/o/n"},
		{"gitlab", "g/sub/n", "/api/v4/projects/g%2Fsub%2Fn"},
	} {
		t.Run(test.face, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			reader, writer := io.Pipe()
			code := make(chan int, 1)
			go func() {
				code <- shell{stdout: writer, stderr: io.Discard}.run(ctx, []string{"fakehost", "--face", test.face, "--listen", "127.0.0.1:0",
					"--app-key", w.dir + "/key.pem", "--webhook-secret-file", w.dir + "/hook", "--repository", test.repository, "--files", "3"})
			}()
			url, err := bufio.NewReader(reader).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			status, body := get(t, strings.TrimSpace(url)+test.path)
			if status != http.StatusOK || !strings.Contains(body, `"`+test.repository+`"`) {
				t.Errorf("the repository reads %d %s", status, body)
			}
			cancel()
			if c := <-code; c != exitDone {
				t.Errorf("exit code %d", c)
			}
		})
	}
}

// A client that never finishes its request cannot keep a stopping program: the rest of the grace period is given up.
func TestAnUnfinishedRequestIsAbandoned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.configure(t, "shutdown_timeout: 200ms")
	settings, err := config.Load(w.file, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := build(t.Context(), settings, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.run(ctx) }()
	connection, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if _, err := io.WriteString(connection, "POST /webhooks/github HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(connection).ReadString('\n'); err != nil || !strings.Contains(line, "100") {
		t.Fatalf("the server does not wait for the body: %q, %v", line, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := p.close(); err != nil {
		t.Error(err)
	}
}

// What cannot be done is answered in the thread, with what to do instead.
func TestWhatIsRefusedIsExplained(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.start(t)
	w.host.SetWebhook(p.url+webhookPath+"github", hookSecret)
	const repo = "o/n"
	must := func(number int, err error) int {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return number
	}
	must(0, w.host.AddRepository(fakehost.NewRepository{Owner: "o", Name: "n", Permissions: map[string]string{"ann": fakehost.RoleWrite}}))
	w.host.AddUser("mallory")
	_, err := w.host.Commit(repo, "old", "main", "ann", "an old branch", map[string]string{"x": "y\n"})
	must(0, err)
	open := func(branch, base string) int {
		return must(w.host.OpenMR(repo, fakehost.NewMR{Author: "ann", Head: branch, Base: base, Title: branch, Files: map[string]string{branch: "b\n"}}))
	}
	byStranger, closed, elsewhere := open("one", "main"), open("two", "main"), open("three", "old")
	must(0, w.host.CloseMR(repo, closed, "ann"))
	issue := must(w.host.OpenIssue(repo, "ann", "no merge request"))
	for _, c := range []struct {
		number int
		author string
	}{{issue, "ann"}, {byStranger, "mallory"}, {closed, "ann"}, {elsewhere, "ann"}} {
		if _, err := w.host.Comment(repo, c.number, c.author, "/batch"); err != nil {
			t.Fatal(err)
		}
	}
	answer := func(number int) string {
		comments, err := w.host.Comments(repo, number)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range comments {
			if c.Author == demoBot {
				return c.Body
			}
		}
		return ""
	}
	for _, test := range []struct {
		what   string
		number int
		says   string
	}{
		{"a plain issue", issue, "on a merge request instead"},
		{"an outsider", byStranger, "write access"},
		{"a closed merge request", closed, "reopen it"},
		{"a branch without a queue", elsewhere, ".batchbot.yml"},
	} {
		eventually(t, "an answer about "+test.what, func() bool { return answer(test.number) != "" })
		contains(t, "the answer about "+test.what, answer(test.number), test.says)
	}
}
