package fakehost

import (
	"context"
	"crypto/rsa"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Options says what kind of host New makes. Dir is required.
type Options struct {
	// Dir holds the bare repositories as Dir/owner/name.git. It is created
	// when missing and left to the caller to remove.
	Dir string
	// BaseURL is the address clients use, such as http://127.0.0.1:8081; it is
	// printed into payloads and clone URLs. Default http://fakehost.test.
	BaseURL string

	// WebhookURL receives webhooks by HTTP POST when Deliver is nil. With
	// neither, deliveries are only recorded.
	WebhookURL string
	// WebhookSecret signs webhook bodies. Empty means unsigned.
	WebhookSecret string
	// Deliver replaces the HTTP POST. Its error is recorded as a failed attempt.
	Deliver func(ctx context.Context, d Delivery) error
	// ManualDelivery leaves deliveries queued until DeliverPending; otherwise
	// one background goroutine sends them in order.
	ManualDelivery bool
	// Faults says how many copies of a delivery are sent; nil means one each.
	// See DropEvery and DuplicateEvery. It is called under the host's lock and
	// must not call the host.
	Faults func(Delivery) int

	// Face is the host this is: FaceGitHub (the default) or FaceGitLab.
	Face string
	// GitLab is how a GitLab behaves; SetGitLab changes it later.
	GitLab GitLab

	// BotLogin is the bot's user, by default "batchbot[bot]", the App's, whose
	// slug is the part before "[bot]"; on a GitLab "group_1_bot_batchbot", which
	// a group access token belongs to.
	BotLogin string
	// AppID is the App's number, default 1. A JWT with another issuer is refused.
	AppID int64
	// AppPermissions is what the App was granted, permission to level; nil means
	// all the bot needs but workflows: a push of the bot that touches workflow
	// files is then refused, as on the real host.
	AppPermissions map[string]string
	// AppPublicKey verifies App JWTs; nil accepts any well-formed, unexpired one.
	AppPublicKey *rsa.PublicKey

	// CI configures the continuous integration of every repository.
	CI CI
	// IndirectMergeEverywhere marks merge requests merged by reachability on
	// every branch, not only on the default branch.
	IndirectMergeEverywhere bool

	// Now is the host's clock, default time.Now.
	Now func() time.Time
	// Logger receives what the host does, at debug level; nil discards it.
	Logger *slog.Logger
}

// Faces, for Options.Face.
const (
	FaceGitHub = "github"
	FaceGitLab = "gitlab"
)

// Host is one Git host. All its methods may be called concurrently.
type Host struct {
	opt    Options
	log    *slog.Logger
	ctx    context.Context
	cancel context.CancelFunc
	gh     *github
	gl     *gitlab // nil on a GitHub
	http   http.Handler
	queue  *queue
	client *http.Client // delivers webhooks

	mu            sync.Mutex
	lastID        int64
	users         map[string]*user       // by lower-case login
	repos         map[string]*repository // by lower-case owner/name
	installations map[string]*installation
	tokens        map[string]*installationToken
	rates         map[string]*rate
	deliveries    []*delivery
	ci            CI
	runs          []*ciRun
	renamed       map[string]*repository // by a lower-case owner/name it had
	held          []func()               // webhooks that wait to be overtaken
	timers        []*time.Timer          // of delayed ones

	faults faults
}

// New makes a host with no repositories; the bot is its only user.
func New(opt Options) (*Host, error) {
	if opt.Dir == "" {
		return nil, fmt.Errorf("fakehost: Options.Dir is empty: name a folder for the repositories")
	}
	dir, err := filepath.Abs(opt.Dir)
	if err != nil {
		return nil, fmt.Errorf("fakehost: resolving %s: %w", opt.Dir, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("fakehost: creating the repository folder: %w", err)
	}
	opt.Dir = dir
	if opt.BaseURL == "" {
		opt.BaseURL = "http://fakehost.test"
	}
	opt.BaseURL = strings.TrimSuffix(opt.BaseURL, "/")
	if opt.Face != "" && opt.Face != FaceGitHub && opt.Face != FaceGitLab {
		return nil, fmt.Errorf("fakehost: unknown face %q: use %s or %s", opt.Face, FaceGitHub, FaceGitLab)
	}
	if opt.BotLogin == "" {
		opt.BotLogin = "batchbot[bot]"
		if opt.Face == FaceGitLab {
			opt.BotLogin = "group_1_bot_batchbot"
		}
	}
	if opt.AppID == 0 {
		opt.AppID = 1
	}
	if opt.AppPermissions == nil {
		opt.AppPermissions = appPermissions
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	h := &Host{
		opt:           opt,
		log:           opt.Logger,
		lastID:        1000,
		users:         map[string]*user{},
		repos:         map[string]*repository{},
		installations: map[string]*installation{},
		tokens:        map[string]*installationToken{},
		rates:         map[string]*rate{},
		renamed:       map[string]*repository{},
		ci:            opt.CI,
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.gh = &github{h: h}
	if opt.Face == FaceGitLab {
		h.gl = newGitLab(h)
	}
	h.addUser(opt.BotLogin).Bot = h.gl != nil || strings.HasSuffix(opt.BotLogin, "[bot]")
	h.queue = newQueue()
	h.client = &http.Client{Transport: &http.Transport{}}
	h.http = h.routes()
	if !opt.ManualDelivery {
		h.queue.start(h.ctx)
	}
	return h, nil
}

// Close ends the delivery goroutine, pending CI timers and jobs, and waits for them.
// What is still queued is not delivered. The repositories stay on disk.
func (h *Host) Close() {
	h.mu.Lock()
	for _, r := range h.runs {
		if r.timer != nil {
			r.timer.Stop()
		}
	}
	if h.gl != nil {
		h.gl.stop()
	}
	for _, t := range h.timers {
		t.Stop()
	}
	h.mu.Unlock()
	h.cancel()
	h.queue.close()
	h.client.CloseIdleConnections()
}

// Handler serves the whole host: REST, git over smart HTTP and control.
func (h *Host) Handler() http.Handler { return h.http }

// RepoPath is the bare repository of owner/name on disk.
func (h *Host) RepoPath(owner, name string) string {
	return filepath.Join(h.opt.Dir, owner, name+".git")
}

// SetBaseURL changes the address printed into payloads from now on, for a
// server that learns its port after New.
func (h *Host) SetBaseURL(url string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.opt.BaseURL = strings.TrimSuffix(url, "/")
}

func (h *Host) now() time.Time { return h.opt.Now().UTC() }

func (h *Host) nextID() int64 {
	h.lastID++
	return h.lastID
}

func (h *Host) bot() *user { return h.users[strings.ToLower(h.opt.BotLogin)] }
