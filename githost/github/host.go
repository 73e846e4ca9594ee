package github

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bradleyfalzon/ghinstallation/v2"
	"github.com/google/go-github/v60/github"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost"
)

// Config says which GitHub a Host talks to and as whom: as an App (AppID and PrivateKey) or with a Token.
type Config struct {
	Name string // the configured, stable name of this host; rows refer to it

	APIURL string // empty: github.com; else the address of a GitHub Enterprise Server, with or without /api/v3
	WebURL string // where people see it; empty: derived from APIURL
	GitURL string // where git reaches it, an address or a folder holding owner/name.git; empty: WebURL

	AppID      int64
	PrivateKey bot.Secret // PEM
	Token      bot.Secret // instead of an App

	WebhookSecrets []bot.Secret // one, or two while they are rotated

	StatusContext string            // name of the bot's own commit status; empty: "batchbot"
	UserAgent     string            // empty: "batchbot"
	HTTPTransport http.RoundTripper // nil: one with sane limits
	Timeout       time.Duration     // of one request; 0: 30 s
	WriteSpacing  time.Duration     // between two writes of one credential; 0 on github.com: 1 s; negative: none
	Logger        *slog.Logger      // nil: discarded
	Meter         githost.Meter     // nil: nobody counts
}

// Host is one GitHub. Its methods may be called by several goroutines.
type Host struct {
	config  Config
	secrets [][]byte
	api     *url.URL // ends in a slash
	upload  *url.URL // ends in a slash
	web     string   // no slash at the end
	git     string   // no slash at the end
	log     *slog.Logger
	wire    *githost.Wire
	breaker *githost.Breaker
	cache   *githost.Cache

	app  *github.Client // as the App itself; nil with a token
	self identity

	mu            sync.Mutex
	installations map[int64]*client
	found         map[int64]int64    // repository id → installation, when its row does not say
	moved         map[int64]moved    // repository id → where it is now
	looked        map[int64]look     // repository id → when it was last looked up by id, and what came of it
	apps          map[string]int64   // App slug → its id
	gitTokens     map[int64]gitToken // repository id → its token for git
	notFoundWaits []time.Duration    // between readings of something not found
}

var (
	_ bot.Host     = (*Host)(nil)
	_ bot.Webhooks = (*Host)(nil)
)

// client is a credential in use. It is shared by all goroutines.
type client struct {
	*github.Client
	token func(context.Context) (string, error) // for git
}

// New checks config and makes a Host. It does not talk to the host.
func New(config Config) (*Host, error) {
	h := &Host{
		config:        config,
		log:           config.Logger,
		cache:         githost.NewCache(16 << 20),
		installations: map[int64]*client{},
		found:         map[int64]int64{},
		moved:         map[int64]moved{},
		looked:        map[int64]look{},
		apps:          map[string]int64{},
		gitTokens:     map[int64]gitToken{},
		notFoundWaits: []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond},
	}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	h.log = h.log.With("host", config.Name)
	fail := func(format string, args ...any) (*Host, error) {
		return nil, fmt.Errorf("GitHub host %q: %w", config.Name, fmt.Errorf(format, args...))
	}
	if config.Name == "" {
		return fail("it has no name: give it one that never changes")
	}
	if h.config.StatusContext == "" {
		h.config.StatusContext = "batchbot"
	}
	if err := h.locate(); err != nil {
		return fail("%w", err)
	}
	switch n := len(config.WebhookSecrets); {
	case n == 0:
		return fail("no webhook secret: set one, and the same in the App's or hook's settings")
	case n > 2:
		return fail("%d webhook secrets: at most two are active, the new and the old one", n)
	}
	for i, s := range config.WebhookSecrets {
		if strings.TrimSpace(s.Reveal()) == "" {
			return fail("webhook secret %d is empty: anybody could sign with it", i+1)
		}
		h.secrets = append(h.secrets, []byte(s.Reveal()))
	}
	switch {
	case h.config.WriteSpacing == 0 && h.api.Host == "api.github.com":
		h.config.WriteSpacing = time.Second
	case h.config.WriteSpacing < 0:
		h.config.WriteSpacing = 0
	}
	h.wire = githost.NewWire(githost.WireConfig{
		Origin:    h.api,
		Transport: config.HTTPTransport,
		UserAgent: config.UserAgent,
		Timeout:   config.Timeout,
		Host:      config.Name,
		Route:     h.route,
		Meter:     config.Meter,
	})
	h.breaker = githost.NewBreaker(githost.BreakerConfig{Host: config.Name, Route: h.route, Meter: config.Meter, Logger: h.log})
	switch hasApp, hasToken := config.AppID != 0 || config.PrivateKey != "", config.Token != ""; {
	case hasApp && hasToken:
		return fail("both an App and a token are given: choose one")
	case hasToken:
		token := config.Token.Reveal()
		c := h.client("token", bearer{h.wire, token})
		c.token = func(context.Context) (string, error) { return token, nil }
		h.installations[0] = c
	case config.AppID <= 0:
		return fail("neither a token nor an App: give app_id and private_key, or token")
	default:
		apps, err := ghinstallation.NewAppsTransport(h.wire, config.AppID, []byte(config.PrivateKey.Reveal()))
		if err != nil {
			return fail("the private key of App %d cannot be read: give the PEM file GitHub made, with an RSA key", config.AppID)
		}
		apps.BaseURL = strings.TrimSuffix(h.api.String(), "/")
		h.app = h.client("app", cloning{apps}).Client
	}
	return h, nil
}

// locate derives the addresses.
func (h *Host) locate() error {
	base := h.config.APIURL
	if base == "" {
		base = "https://api.github.com/"
	}
	u, err := url.Parse(strings.TrimSuffix(strings.TrimSuffix(base, "/"), "/api/v3"))
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("api_url is not the address of a GitHub: write it like https://github.example.com")
	}
	// Same rule as go-github: a host of its own for the API has it at the root.
	root := strings.HasPrefix(u.Host, "api.") || strings.Contains(u.Host, ".api.")
	h.web = strings.TrimSuffix(h.config.WebURL, "/")
	if h.web == "" {
		h.web = u.Scheme + "://" + strings.TrimPrefix(u.Host, "api.") + strings.TrimSuffix(u.Path, "/")
	}
	if u.Path = strings.TrimSuffix(u.Path, "/") + "/"; !root {
		u.Path += "api/v3/"
	}
	h.api, h.upload = u, uploads(u, root)
	h.git = strings.TrimSuffix(h.config.GitURL, "/")
	if h.git == "" {
		h.git = h.web
	}
	return nil
}

// uploads is where files are uploaded to, by GitHub's own rules. Nothing here uploads; the client wants the address nevertheless.
func uploads(api *url.URL, root bool) *url.URL {
	u := *api
	if root {
		u.Host = strings.Replace(u.Host, "api.", "uploads.", 1)
	} else {
		u.Path = strings.TrimSuffix(u.Path, "v3/") + "uploads/"
	}
	return &u
}

// Name is the configured, stable name of this host.
func (h *Host) Name() string { return h.config.Name }

// client makes the client of one credential on top of its authentication.
func (h *Host) client(identity string, auth http.RoundTripper) *client {
	c := github.NewClient(githost.NewClient(h.breaker.Guard(githost.NewPolite(githost.PoliteConfig{
		Next:     auth,
		Identity: identity,
		Spacing:  h.config.WriteSpacing,
		Cache:    h.cache,
		Host:     h.config.Name,
		Meter:    h.config.Meter,
	}))))
	c.BaseURL, c.UploadURL = h.api, h.upload
	c.UserAgent = ""
	return &client{Client: c}
}

// installation returns the client of an App's installation, or the token's.
func (h *Host) installation(id int64) (*client, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.app == nil {
		return h.installations[0], nil
	}
	if c, ok := h.installations[id]; ok {
		return c, nil
	}
	// One App transport each: ghinstallation writes to it on every refresh, so sharing it is a race (finding 8).
	itr, err := ghinstallation.New(h.wire, h.config.AppID, id, []byte(h.config.PrivateKey.Reveal()))
	if err != nil {
		return nil, fmt.Errorf("making the transport of installation %d: the private key cannot be read", id)
	}
	itr.BaseURL = strings.TrimSuffix(h.api.String(), "/")
	c := h.client("installation "+strconv.FormatInt(id, 10), itr)
	c.token = itr.Token
	h.installations[id] = c
	return c, nil
}

// forget drops an installation's client and tokens, so that the next ones are asked for anew.
func (h *Host) forget(id int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.app == nil {
		return
	}
	delete(h.installations, id)
	for repo, token := range h.gitTokens {
		if token.installation == id {
			delete(h.gitTokens, repo)
		}
	}
	for repo, found := range h.found {
		if found == id {
			delete(h.found, repo)
		}
	}
}

// clientFor returns the client that reaches repo and the installation it belongs to.
func (h *Host) clientFor(ctx context.Context, repo bot.Repository) (*client, int64, error) {
	id := repo.Installation
	if h.app != nil && id == 0 {
		var err error
		if id, err = h.findInstallation(ctx, repo); err != nil {
			return nil, 0, err
		}
	}
	c, err := h.installation(id)
	return c, id, err
}

// findInstallation asks which installation reaches a repository whose row does not say.
func (h *Host) findInstallation(ctx context.Context, repo bot.Repository) (int64, error) {
	h.mu.Lock()
	id, ok := h.found[repo.ExternalID]
	h.mu.Unlock()
	if ok && repo.ExternalID != 0 {
		return id, nil
	}
	owner, name, err := splitPath(repo.Path)
	if err != nil {
		return 0, err
	}
	inst, _, err := h.app.Apps.FindRepositoryInstallation(ctx, owner, name)
	if err = meaning(err); errors.Is(err, bot.ErrNotFound) {
		return 0, fmt.Errorf("%s has no installation of App %d: %w", repo.Path, h.config.AppID, bot.ErrGone)
	}
	if err != nil {
		return 0, fmt.Errorf("finding the installation on %s: %w", repo.Path, err)
	}
	h.mu.Lock()
	h.found[repo.ExternalID] = inst.GetID()
	h.mu.Unlock()
	return inst.GetID(), nil
}

// identity is who the bot is on this host, asked once.
type identity struct {
	asking sync.Mutex
	login  atomic.Pointer[string] // nil: not known yet
}

// ownLogin returns the login the bot writes as.
func (h *Host) ownLogin(ctx context.Context) (string, error) {
	h.self.asking.Lock()
	defer h.self.asking.Unlock()
	if known := h.self.login.Load(); known != nil {
		return *known, nil
	}
	var login string
	if h.app != nil {
		app, _, err := h.app.Apps.Get(ctx, "")
		if err = meaning(err); err != nil {
			return "", fmt.Errorf("asking who App %d is: %w", h.config.AppID, err)
		}
		login = app.GetSlug() + "[bot]"
	} else {
		c, err := h.installation(0)
		if err != nil {
			return "", err
		}
		user, _, err := c.Users.Get(ctx, "")
		if err = meaning(err); err != nil {
			return "", fmt.Errorf("asking whose the token is: %w", err)
		}
		login = user.GetLogin()
	}
	if login == "" || login == "[bot]" {
		return "", errors.New("the host does not say who the bot is")
	}
	h.self.login.Store(&login)
	return login, nil
}

// knowOurselves finds out who a token belongs to, before our own words are told from others'. An App's user shows that it is one.
func (h *Host) knowOurselves(ctx context.Context) error {
	if h.app != nil {
		return nil
	}
	_, err := h.ownLogin(ctx)
	return err
}

// isOwn reports whether login is the bot's, as far as it is known without asking.
func (h *Host) isOwn(login string) bool {
	known := h.self.login.Load()
	return known != nil && strings.EqualFold(*known, login)
}

// bearer authenticates with a plain token.
type bearer struct {
	next  http.RoundTripper
	token string
}

func (b bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(req)
}

// cloning keeps the transport below from changing the caller's request, as ghinstallation's App transport does.
type cloning struct{ next http.RoundTripper }

func (c cloning) RoundTrip(req *http.Request) (*http.Response, error) {
	return c.next.RoundTrip(req.Clone(req.Context()))
}

// splitPath takes "owner/name" apart.
func splitPath(path string) (owner, name string, err error) {
	owner, name, ok := strings.Cut(path, "/")
	plain := func(s string) bool {
		return s != "" && s != "." && s != ".." && strings.IndexFunc(s, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.')
		}) < 0
	}
	if !ok || !plain(owner) || !plain(name) {
		return "", "", fmt.Errorf("%q is not the path of a GitHub repository: it is written owner/name", githost.OneLine(path, 200))
	}
	return owner, name, nil
}

func actor(u *github.User) bot.Actor {
	return bot.Actor{ID: u.GetID(), Login: u.GetLogin(), Bot: isBot(u.GetType(), u.GetLogin())}
}

func isBot(kind, login string) bool { return kind == "Bot" || strings.HasSuffix(login, "[bot]") }
