package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batchbot/batchbot/config"
	"github.com/batchbot/batchbot/githost/fakehost"
)

// asProgram makes the test binary be batchbot, for tests that need a real process.
const asProgram = "BATCHBOT_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Unsetenv(asProgram)
		main()
		return
	}
	os.Exit(m.Run())
}

// appKey is the key of the App in all tests.
var appKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// appKeyPEM is that key as a file holds it.
func appKeyPEM() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(appKey())}))
}

const hookSecret = "the-secret-of-the-hook"

// world is a fakehost and a settings file that points at it.
type world struct {
	kind string // github or gitlab, which is also the host's name
	host *fakehostServer
	dir  string
	file string // the settings
}

func newWorld(t *testing.T) world {
	t.Helper()
	return newWorldOn(t, config.GitHub)
}

// newWorldOn makes a world of a kind.
func newWorldOn(t *testing.T, kind string) world {
	t.Helper()
	dir := t.TempDir()
	host, err := serveFakehost(t.Context(), "127.0.0.1:0", fakehost.Options{
		Face: kind, Dir: filepath.Join(dir, "git"), WebhookSecret: hookSecret, AppPublicKey: &appKey().PublicKey,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(host.close)
	w := world{kind: kind, host: host, dir: dir, file: filepath.Join(dir, "batchbot.yml")}
	w.writeSecrets(t)
	w.configure(t, "")
	return w
}

// writeSecrets writes the App's key and the secret of the webhook.
func (w world) writeSecrets(t *testing.T) {
	t.Helper()
	w.write(t, "key.pem", appKeyPEM())
	w.write(t, "hook", hookSecret+"\n")
	w.write(t, "token", gitlabBot+"-token\n")
}

// bot is the bot's login.
func (w world) bot() string { return demoHosts[w.kind].bot }

// webhook is the address of a program that the host sends webhooks to.
func (w world) webhook(program string) string { return program + webhookPath + w.kind }

// hostSettings is an entry of hosts: in a settings file.
func (w world) hostSettings(name, url string) string {
	credentials := fmt.Sprintf("app: {id: 1, private_key_file: %s/key.pem}", w.dir)
	if w.kind == config.GitLab {
		credentials = fmt.Sprintf("token_file: %s/token", w.dir)
	}
	return fmt.Sprintf(`
  - name: %s
    type: %s
    web_url: %s
    %s
    webhook_secret_files: [%s/hook]
    write_spacing: 0s
`, name, w.kind, url, credentials, w.dir)
}

func (w world) write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// configure writes the settings file, with more at its end.
func (w world) configure(t *testing.T, more string) {
	t.Helper()
	w.write(t, "batchbot.yml", fmt.Sprintf(`
listen: 127.0.0.1:0
data_dir: %[1]s/data
hosts:%[2]s%[3]s`, w.dir, w.hostSettings(w.kind, w.host.url), more))
}

// start builds and runs the program of the settings file; it ends with the test.
func (w world) start(t *testing.T) *program {
	t.Helper()
	return w.startLogging(t, slog.DiscardHandler)
}

// startLogging is start with a log.
func (w world) startLogging(t *testing.T, log slog.Handler) *program {
	t.Helper()
	settings, err := config.Load(w.file, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := build(t.Context(), settings, slog.New(log))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the program ended with %v", err)
		}
		if err := p.close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// command runs a command line and returns what it left.
func command(t *testing.T, environ []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = shell{environ: environ, stdout: &out, stderr: &errs}.run(t.Context(), args)
	return code, out.String(), errs.String()
}

// client is for the tests' own requests.
var client = &http.Client{Timeout: 20 * time.Second}

// get reads a page of the program.
func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
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

// eventually waits for a condition of the world outside the test, which nothing announces.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-limit.C:
			t.Fatalf("waited in vain for %s", what)
		case <-tick.C:
		}
	}
}

func contains(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s does not say %q:\n%s", what, part, text)
		}
	}
}
