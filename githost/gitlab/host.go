package gitlab

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xanzy/go-gitlab"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost"
)

// Config says which GitLab a Host talks to and as whom.
type Config struct {
	Name string // the configured, stable name of this host; rows refer to it

	APIURL string // empty: gitlab.com; else the address of a GitLab, with or without /api/v4
	WebURL string // where people see it; empty: derived from APIURL
	GitURL string // where git reaches it, an address or a folder holding group/name.git; empty: WebURL

	Token bot.Secret // of a project, a group or a person; scopes api and write_repository

	// A delivery is taken in if X-Gitlab-Token is one of WebhookSecrets or its signature is by one of SigningTokens. Of each kind
	// one, or two while they are rotated; one kind is enough.
	WebhookSecrets []bot.Secret
	SigningTokens  []bot.Secret // as GitLab takes them: whsec_ and 32 bytes in base64

	StatusContext string            // name of the bot's own commit status; empty: "batchbot"
	UserAgent     string            // empty: "batchbot"
	HTTPTransport http.RoundTripper // nil: one with sane limits
	Timeout       time.Duration     // of one request; 0: 30 s
	WriteSpacing  time.Duration     // between two writes; 0 on gitlab.com: 200 ms; negative: none
	Logger        *slog.Logger      // nil: discarded
	Meter         githost.Meter     // nil: nobody counts
}

// Host is one GitLab. Its methods may be called by several goroutines.
type Host struct {
	config  Config
	secrets [][sha256.Size]byte // hashes, so that comparing takes the same time for every length
	signers [][]byte
	api     *url.URL // ends in a slash
	web     string   // no slash at the end
	git     string   // no slash at the end
	log     *slog.Logger
	client  *client
	self    identity

	mu            sync.Mutex
	looked        map[int64]look // project id → when it was last looked up, and what came of it
	notFoundWaits []time.Duration
}

var (
	_ bot.Host     = (*Host)(nil)
	_ bot.Webhooks = (*Host)(nil)
)

// New checks config and makes a Host. It does not talk to the host.
func New(config Config) (*Host, error) {
	h := &Host{
		config:        config,
		log:           config.Logger,
		looked:        map[int64]look{},
		notFoundWaits: []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond},
	}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	h.log = h.log.With("host", config.Name)
	fail := func(format string, args ...any) (*Host, error) {
		return nil, fmt.Errorf("GitLab host %q: %w", config.Name, fmt.Errorf(format, args...))
	}
	if config.Name == "" {
		return fail("it has no name: give it one that never changes")
	}
	if strings.TrimSpace(config.Token.Reveal()) == "" || strings.ContainsAny(config.Token.Reveal(), "\r\n") {
		return fail("it has no token: make one for the project or group, with the scopes api and write_repository")
	}
	if h.config.StatusContext == "" {
		h.config.StatusContext = "batchbot"
	}
	if err := h.locate(); err != nil {
		return fail("%w", err)
	}
	if err := h.takeSecrets(); err != nil {
		return fail("%w", err)
	}
	switch {
	case h.config.WriteSpacing == 0 && h.api.Host == "gitlab.com":
		h.config.WriteSpacing = 200 * time.Millisecond // a user may write 300 notes a minute
	case h.config.WriteSpacing < 0:
		h.config.WriteSpacing = 0
	}
	var err error
	if h.client, err = h.newClient(); err != nil {
		return fail("making its client: %w", err)
	}
	return h, nil
}

// takeSecrets checks what deliveries are authenticated with.
func (h *Host) takeSecrets() error {
	secrets, signers := h.config.WebhookSecrets, h.config.SigningTokens
	if len(secrets)+len(signers) == 0 {
		return errors.New("no webhook secret: set one, and the same as the hook's secret or signing token")
	}
	if n := max(len(secrets), len(signers)); n > 2 {
		return fmt.Errorf("%d webhook secrets of one kind: at most two are active, the new and the old one", n)
	}
	for i, s := range secrets {
		if strings.TrimSpace(s.Reveal()) == "" {
			return fmt.Errorf("webhook secret %d is empty: anybody could send it", i+1)
		}
		h.secrets = append(h.secrets, sha256.Sum256([]byte(s.Reveal())))
	}
	for i, s := range signers {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(s.Reveal(), "whsec_"))
		if err != nil || len(key) < 24 || !strings.HasPrefix(s.Reveal(), "whsec_") {
			return fmt.Errorf("signing token %d is not one: it is written whsec_ and then 32 bytes in base64", i+1)
		}
		h.signers = append(h.signers, key)
	}
	return nil
}

// locate derives the addresses.
func (h *Host) locate() error {
	base := h.config.APIURL
	if base == "" {
		base = "https://gitlab.com"
	}
	u, err := url.Parse(strings.TrimSuffix(strings.TrimSuffix(base, "/"), "/api/v4"))
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("api_url is not the address of a GitLab: write it like https://gitlab.example.com")
	}
	root := strings.TrimSuffix(u.String(), "/") // a GitLab may live below a path
	h.web = strings.TrimSuffix(h.config.WebURL, "/")
	if h.web == "" {
		h.web = root
	}
	h.git = strings.TrimSuffix(h.config.GitURL, "/")
	if h.git == "" {
		h.git = h.web
	}
	h.api, err = url.Parse(root + "/api/v4/")
	return err
}

// Name is the configured, stable name of this host.
func (h *Host) Name() string { return h.config.Name }

// client is the API as the bot uses it. go-gitlab is frozen, and says so wherever a client is made or named; it is named here only,
// so that what replaces it has one place to go.
type client struct {
	*gitlab.Client
}

// newClient makes the client: our own transport authenticates and paces, and go-gitlab neither retries, which would repeat writes (finding
// 10), nor limits.
func (h *Host) newClient() (*client, error) {
	wire := githost.NewWire(githost.WireConfig{
		Origin:    h.api,
		Transport: h.config.HTTPTransport,
		UserAgent: h.config.UserAgent,
		Timeout:   h.config.Timeout,
		Host:      h.config.Name,
		Route:     h.route,
		Meter:     h.config.Meter,
	})
	breaker := githost.NewBreaker(githost.BreakerConfig{Host: h.config.Name, Route: h.route, Meter: h.config.Meter, Logger: h.log})
	web := githost.NewClient(breaker.Guard(githost.NewPolite(githost.PoliteConfig{
		Next:     private{wire, h.config.Token.Reveal()},
		Identity: "token",
		Spacing:  h.config.WriteSpacing,
		Cache:    githost.NewCache(16 << 20),
		Host:     h.config.Name,
		Meter:    h.config.Meter,
	})))
	web.CheckRedirect = refuseRedirects
	// Without a token: go-gitlab would put it into a header that net/http carries along to wherever it is sent (finding 7).
	c, err := gitlab.NewClient("", gitlab.WithBaseURL(h.api.String()), gitlab.WithHTTPClient(web), //nolint:staticcheck // deprecated upstream, kept behind this package
		gitlab.WithoutRetries(), gitlab.WithCustomLimiter(unlimited{}))
	if err != nil {
		return nil, err
	}
	return &client{c}, nil
}

// unlimited lets every request go at once: Polite keeps to the limits. go-gitlab's own limiter is a data race on first use, and then slows
// down to two thirds of what the host allows (finding 12).
type unlimited struct{}

// Wait waits for nothing.
func (unlimited) Wait(ctx context.Context) error { return ctx.Err() }

// private authenticates with a token.
type private struct {
	next  http.RoundTripper
	token string
}

func (p private) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("PRIVATE-TOKEN", p.token)
	return p.next.RoundTrip(req)
}

// refuseRedirects follows no redirect at all: by its id a project is where it is.
func refuseRedirects(req *http.Request, via []*http.Request) error {
	e := &githost.RedirectError{Method: via[0].Method, Reason: "a GitLab that is addressed right redirects nobody; check api_url"}
	if req.Response != nil {
		e.Status = req.Response.StatusCode
	}
	return e
}

// identity is who the bot is on this host, asked once.
type identity struct {
	asking sync.Mutex
	id     atomic.Int64 // 0: not known yet
}

// ownID returns the id of the user the bot writes as.
func (h *Host) ownID(ctx context.Context) (int64, error) {
	if id := h.self.id.Load(); id != 0 {
		return id, nil
	}
	h.self.asking.Lock()
	defer h.self.asking.Unlock()
	if id := h.self.id.Load(); id != 0 {
		return id, nil
	}
	var user struct {
		ID int64 `json:"id"`
	}
	if err := meaning(h.client.get(ctx, "user", &user)); err != nil {
		return 0, fmt.Errorf("asking whose the token is: %w", err)
	}
	if user.ID <= 0 {
		return 0, errors.New("the host does not say who the bot is")
	}
	h.self.id.Store(user.ID)
	return user.ID, nil
}

// isOwn reports whether a user is the bot, as far as it is known without asking.
func (h *Host) isOwn(id int64) bool { return id != 0 && h.self.id.Load() == id }

// botNames are the users GitLab makes for tokens and for itself; nothing else tells them from people.
var botNames = regexp.MustCompile(`^((project|group)_[0-9]+_bot([0-9]*|_[0-9a-zA-Z]+)|service_account_(group_|project_)?[0-9a-zA-Z_]+|(alert|support|security|visual-review|migration|automation|duo-code-review)-bot[0-9]*|GitLab-Security-Bot|GitLabDuo)$`)

// actor is a person, or a program if its name or our own id says so.
func (h *Host) actor(id int64, login string) bot.Actor {
	return bot.Actor{ID: id, Login: login, Bot: botNames.MatchString(login) || h.isOwn(id)}
}

func (h *Host) user(u *gitlab.BasicUser) bot.Actor {
	if u == nil {
		return bot.Actor{}
	}
	return h.actor(int64(u.ID), u.Username)
}
