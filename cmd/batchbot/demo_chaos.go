package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchbot/batchbot/bot/lease"
	"github.com/batchbot/batchbot/config"
)

const (
	// chaosKills is how often the bot is killed if the story lasts.
	chaosKills = 6
	// chaosLease replaces the leases of what a killed bot had begun: nobody wants to watch a demo wait for minutes.
	chaosLease = 3 * time.Second
)

// demoBotCommand is the bot of `demo --chaos`: serve, but that rounds wait for a line on stdin, and that the end of stdin ends it, so that
// it does not outlive the demo. Its first line on stdout is its address.
func (s shell) demoBotCommand() *cobra.Command {
	c := &cobra.Command{Use: "demo-bot", Hidden: true, Short: "The bot of demo --chaos"}
	file := configFlag(c)
	listen := c.Flags().String("listen", "127.0.0.1:0", "`ADDRESS` to take webhooks at")
	c.RunE = func(c *cobra.Command, _ []string) error { return s.demoBot(c.Context(), *file, *listen, os.Stdin) }
	return c
}

func (s shell) demoBot(ctx context.Context, file, listen string, orders io.Reader) error {
	// What the environment says is meant for a bot that is no demo.
	settings, err := config.Load(file, nil)
	if err != nil {
		return err
	}
	settings.Listen = listen
	p, err := buildAt(ctx, settings, newLogger(settings.Log, s.stderr), lease.Pace{Lease: chaosLease, RetryBase: time.Second, RetryLimit: chaosLease, Poll: time.Second})
	if err != nil {
		return err
	}
	defer func() { _ = p.close() }()
	rounds := make(chan struct{})
	p.roundsAfter = rounds
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		defer stop()
		for lines, n := bufio.NewScanner(orders), 0; lines.Scan(); n++ {
			if n == 0 {
				close(rounds)
			}
		}
	}()
	fmt.Fprintln(s.stdout, p.url)
	return p.run(ctx)
}

// outerBot is the bot as a process of its own, which is killed now and then and started again on the same database, folder and port.
type outerBot struct {
	file   string
	env    []string
	stderr io.Writer

	url     string
	command *exec.Cmd
	orders  io.WriteCloser
	ended   chan struct{} // this life is over
	err     error         // how; read after ended

	begun    bool
	still    bool // nobody kills any more
	kills    int
	failures int       // lives in a row that ended by themselves
	next     time.Time // when it is killed next
}

// startOuterBot writes the settings down and starts the first life.
func (s shell) startOuterBot(settings config.Settings, dir string, verbose bool) (*outerBot, error) {
	file, err := writeDemoSettings(settings, dir)
	if err != nil {
		return nil, err
	}
	b := &outerBot{file: file, env: s.environ, stderr: io.Discard}
	if verbose {
		b.stderr = s.stderr
	}
	if err := b.start(); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

// writeDemoSettings writes a settings file, with the secrets beside it.
func writeDemoSettings(settings config.Settings, dir string) (string, error) {
	h := settings.Hosts[0]
	credentials := fmt.Sprintf("token_file: %q", filepath.Join(dir, "token"))
	secrets := map[string]string{"token": h.Token.Reveal(), "hook": h.WebhookSecrets[0].Reveal()}
	if h.App.ID != 0 {
		credentials = fmt.Sprintf("app: {id: %d, private_key_file: %q}", h.App.ID, filepath.Join(dir, "app.pem"))
		secrets = map[string]string{"app.pem": h.App.PrivateKey.Reveal(), "hook": h.WebhookSecrets[0].Reveal()}
	}
	secrets["api"] = settings.API.Tokens[0].Token.Reveal()
	for name, secret := range secrets {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(secret), 0o600); err != nil {
			return "", fmt.Errorf("writing the settings of the bot: %w", err)
		}
	}
	file := filepath.Join(dir, "batchbot.yml")
	text := fmt.Sprintf(`data_dir: %q
environment: %s
database: {path: %q}
rounds: {poll: 1s}
look: {interval: 1s, max_interval: 1s}
log: {level: debug, format: text}
jobs: {trains: %s}
api: {tokens: [{name: %s, role: %s, token_file: %q}]}
hosts:
  - name: %s
    type: %s
    web_url: %s
    %s
    webhook_secret_files: [%q]
    write_spacing: 0s
`, dir, settings.Environment, settings.Database.Path, settings.Jobs.Trains, settings.API.Tokens[0].Name, settings.API.Tokens[0].Role, filepath.Join(dir, "api"), h.Name, h.Type, h.WebURL, credentials, filepath.Join(dir, "hook"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("writing the settings of the bot: %w", err)
	}
	return file, nil
}

// start begins a life. The first one takes a port, and those after it the same.
func (b *outerBot) start() error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program to start it as the bot: %w", err)
	}
	args := []string{"demo-bot", "--config", b.file}
	if b.url != "" {
		args = append(args, "--listen", strings.TrimPrefix(b.url, "http://"))
	}
	c := exec.Command(self, args...) //nolint:noctx // it ends with its stdin, or is killed
	c.Env, c.Stderr = b.env, b.stderr
	stdout, err := c.StdoutPipe()
	if err != nil {
		return fmt.Errorf("starting the bot: %w", err)
	}
	orders, err := c.StdinPipe()
	if err != nil {
		return fmt.Errorf("starting the bot: %w", err)
	}
	if err := c.Start(); err != nil {
		return fmt.Errorf("starting the bot: %w", err)
	}
	ended := make(chan struct{})
	b.command, b.orders, b.ended = c, orders, ended
	said := bufio.NewScanner(stdout)
	first := b.url == ""
	if first && said.Scan() {
		b.url = said.Text()
	}
	go func() {
		defer close(ended)
		for said.Scan() {
			continue // nothing of it is wanted but the first line of the first life
		}
		b.err = c.Wait()
	}()
	if first && b.url == "" {
		<-ended
		return fmt.Errorf("the bot did not start: %w", b.err)
	}
	if b.begun {
		b.begin()
	}
	b.next = time.Now().Add(300*time.Millisecond + rand.N(2200*time.Millisecond))
	return nil
}

func (b *outerBot) address() string { return b.url }

func (b *outerBot) begin() {
	b.begun = true
	_, _ = io.WriteString(b.orders, "begin\n") // one that is dead hears it in its next life
}

// stir kills the bot when its time has come, and starts it again when it is dead.
func (b *outerBot) stir(now time.Time, known bool) (string, error) {
	select {
	case <-b.ended:
		// Somebody else may have taken the port in between.
		if b.failures++; b.failures > 20 {
			return "", fmt.Errorf("the bot ended: %w", b.err)
		}
		return "", b.start()
	default:
	}
	if !known || b.still || b.kills >= chaosKills || now.Before(b.next) {
		return "", nil
	}
	if err := b.command.Process.Kill(); err != nil {
		return "", nil //nolint:nilerr // it ended by itself at this very moment; the next look finds out
	}
	<-b.ended
	b.kills++
	b.failures = 0
	return fmt.Sprintf("batchbot is killed (SIGKILL, %d) and started again", b.kills), b.start()
}

func (b *outerBot) calm() { b.still = true }

func (b *outerBot) killed() int { return b.kills }

func (b *outerBot) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-b.ended:
		return errors.Join(errors.New("the bot ended"), b.err)
	}
}

func (b *outerBot) close() {
	if b.command == nil {
		return
	}
	_ = b.orders.Close() // asks it to end
	limit := time.NewTimer(5 * time.Second)
	defer limit.Stop()
	select {
	case <-b.ended:
	case <-limit.C:
		_ = b.command.Process.Kill()
		<-b.ended
	}
}

// demoLog is the log of a bot in the demo's process.
func (s shell) demoLog(verbose bool) *slog.Logger {
	if verbose {
		return newLogger(config.Log{Level: "debug", Format: "text"}, s.stderr)
	}
	return slog.New(slog.DiscardHandler)
}
