package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/config"
	"github.com/batchbot/batchbot/githost/fakehost"
)

// demoLimit bounds the story. It takes a few seconds; on a machine so busy that it does not, the demo says what it waited for.
// With --chaos everything that was under way at a kill takes a moment more.
const (
	demoLimit  = 2 * time.Minute
	chaosLimit = 4 * time.Minute
)

// demoFlags configures the demo command.
type demoFlags struct {
	host    string
	once    bool
	json    bool
	chaos   bool
	dir     string
	verbose bool
}

func (s shell) demoCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show the bot at work on this machine, with git and nothing else",
		Long: `Starts a GitHub or a GitLab of its own and the bot on loopback, plays the people of a small project, and shows what happens on stderr.
On a terminal it then stays up until Ctrl-C, so that you can look around.`,
	}
	var f demoFlags
	c.Flags().StringVar(&f.host, "host", config.GitHub, "what the host is: github or gitlab")
	c.Flags().BoolVar(&f.once, "once", false, "end when everything is settled, also on a terminal")
	c.Flags().BoolVar(&f.json, "json", false, "print one JSON object about the outcome on stdout instead of a summary")
	c.Flags().BoolVar(&f.chaos, "chaos", false, "run the bot as a process, kill it with SIGKILL at random moments and start it again; the result is the same")
	c.Flags().StringVar(&f.dir, "dir", "", "keep the database and the repositories in `DIR`")
	c.Flags().BoolVar(&f.verbose, "verbose", false, "show the bot's log on stderr too")
	c.RunE = func(c *cobra.Command, _ []string) error { return s.demo(c.Context(), f) }
	return c
}

// demo plays the story, reports, and stays up if somebody is there to look. Whatever happens, it leaves nothing running behind.
func (s shell) demo(ctx context.Context, f demoFlags) error {
	if _, known := demoHosts[f.host]; !known {
		return usageError{fmt.Errorf("--host %s: write github or gitlab", f.host)}
	}
	started := time.Now()
	d, err := s.startDemo(ctx, f, started)
	if err != nil {
		return err
	}
	defer d.close()

	limit := demoLimit
	if f.chaos {
		limit = chaosLimit
	}
	limited, cancel := context.WithDeadline(ctx, started.Add(limit))
	defer cancel()
	story := d.play(limited)
	if ctx.Err() != nil {
		return errors.New("the demo was interrupted")
	}
	report, err := d.report(ctx, time.Since(started))
	if err != nil {
		return errors.Join(story, err)
	}
	if f.json {
		err = report.writeJSON(s.stdout)
	} else {
		err = report.writeTable(s.stdout)
	}
	if err == nil {
		err = report.deviations()
	}
	if err = errors.Join(story, err); err != nil || f.once || !isTerminal(s.stdout) {
		return err
	}
	d.invite()
	return d.bot.wait(ctx)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// demo is a host, the bot and the reader of the bot's rows.
type demo struct {
	kind     demoHost
	host     *fakehostServer
	bot      demoedBot
	settings config.Settings
	rows     *demoRows
	tell     *narrator
	known    bool // the bot has looked at the repository

	passengers  []int              // merge requests of the train's scene, in the order of joining
	set         []int              // of the curated batch, in its order
	submissions []reportSubmission // of it

	closers []func() // called in reverse
}

func (d *demo) close() {
	for _, end := range slices.Backward(d.closers) {
		end()
	}
}

// startDemo starts everything the story needs. On failure nothing is left.
func (s shell) startDemo(ctx context.Context, f demoFlags, started time.Time) (d *demo, err error) {
	d = &demo{kind: demoHosts[f.host]}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	temporary, err := os.MkdirTemp("", "batchbot-demo-")
	if err != nil {
		return d, fmt.Errorf("making a folder for the demo: %w", err)
	}
	d.closers = append(d.closers, func() { _ = os.RemoveAll(temporary) })
	kept := temporary
	if f.dir != "" {
		kept = f.dir
		if err := prepareDir(kept); err != nil {
			return d, err
		}
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return d, fmt.Errorf("making the App's key: %w", err)
	}
	secret := rand.Text()
	d.host, err = serveFakehost(ctx, "127.0.0.1:0", fakehost.Options{
		Dir:           filepath.Join(kept, "git"),
		WebhookSecret: secret,
		AppPublicKey:  &key.PublicKey,
		Face:          f.host,
		BotLogin:      d.kind.bot,
		// The story finishes CI itself, so that nothing depends on how long anything takes.
		CI: fakehost.CI{Mode: fakehost.CIManual, BranchPrefix: bot.BatchBranchPrefix, Verdict: demoVerdict(filepath.Join(kept, "git", demoOwner, demoName+".git"))},
	})
	if err != nil {
		return d, err
	}
	d.closers = append(d.closers, d.host.close)

	d.settings = d.demoSettings(f.host, key, secret, temporary, filepath.Join(kept, demoDatabase))
	if f.chaos {
		d.bot, err = s.startOuterBot(d.settings, temporary, f.verbose)
	} else {
		d.bot, err = startInnerBot(ctx, d.settings, s.demoLog(f.verbose))
	}
	if err != nil {
		return d, err
	}
	d.closers = append(d.closers, d.bot.close)
	d.settings.PublicURL = d.bot.address()
	if d.kind.app { // a GitLab has a webhook for each project; see openRepository
		d.host.SetWebhook(d.bot.address()+webhookPaths(d.settings.Hosts, d.settings.Hosts[0])[0], secret)
	}

	if d.rows, err = openDemoRows(d.settings.Database.Path); err != nil {
		return d, err
	}
	d.closers = append(d.closers, d.rows.close)
	d.tell = newNarrator(s.stderr, started, d.kind.bot)
	return d, nil
}

// demoHost is what differs between the hosts of the demo.
type demoHost struct {
	title string
	bot   string // its login
	list  string // where the API lists the merge requests
	app   bool   // the bot is an App; else it has a token
}

var demoHosts = map[string]demoHost{
	config.GitHub: {"GitHub", demoBot, "/repos/" + demoRepository + "/pulls?state=all", true},
	config.GitLab: {"GitLab", gitlabBot, "/api/v4/projects/" + demoOwner + "%2F" + demoName + "/merge_requests", false},
}

const (
	demoBot      = "batchbot[bot]"
	gitlabBot    = "group_1_bot_batchbot"
	demoDatabase = "batchbot.db"
)

// prepareDir makes the folder for --dir, or refuses one that holds an earlier demo.
func prepareDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("--dir %s: %w", dir, err)
	}
	for _, name := range []string{demoDatabase, "git"} {
		switch _, err := os.Lstat(filepath.Join(dir, name)); {
		case err == nil:
			return fmt.Errorf("--dir %s: it holds %s already: remove that or name another folder", dir, name)
		case !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("--dir %s: %w", dir, err)
		}
	}
	return nil
}

// demoSettings is what a settings file for the demo's host would say.
func (d *demo) demoSettings(kind string, key *rsa.PrivateKey, secret, temporary, database string) config.Settings {
	s := config.Defaults()
	s.Listen = "127.0.0.1:0"
	s.DataDir = temporary
	s.Environment = "demo-" + hex.EncodeToString([]byte(rand.Text()[:6]))
	s.Database.Path = database
	s.Rounds.Poll = time.Second
	s.Jobs.Trains = "1s"
	s.API.Tokens = []config.APIToken{{Name: "operator", Role: "operator", Token: bot.Secret(rand.Text())}}
	s.Look.Interval = time.Second // the repository comes after the bot's start: a first look that was too early is soon made again
	h := config.Host{Name: kind, Type: kind, WebURL: d.host.url, GitURL: d.host.url, WebhookSecrets: []bot.Secret{bot.Secret(secret)}}
	if d.kind.app {
		h.APIURL = d.host.url + "/api/v3"
		h.App = config.App{ID: 1, PrivateKey: bot.Secret(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))}
	} else {
		h.APIURL = d.host.url + "/api/v4"
		h.Token = bot.Secret(d.kind.bot + "-token")
	}
	s.Hosts = []config.Host{h}
	return s
}

// invite says where to look.
func (d *demo) invite() {
	d.tell.plain("\nEverything stays up until Ctrl-C. To look around:")
	d.tell.plain("  git clone %s/%s.git", d.host.url, demoRepository)
	d.tell.plain("  curl '%s%s'", d.host.url, d.kind.list)
	d.tell.plain("  curl %s/metrics", d.bot.address())
}
