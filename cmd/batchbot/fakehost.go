package main

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/config"
	"github.com/batchbot/batchbot/githost/fakehost"
)

// fakehostFlags configures the fakehost command.
type fakehostFlags struct {
	face          string
	listen        string
	dir           string
	webhookURL    string
	webhookSecret string // file
	appID         int64
	appKey        string // file
	ci            string
	ciDelay       time.Duration
	repositories  []string
	files         int
}

func (s shell) fakehostCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "fakehost",
		Short: "Serve a GitHub or a GitLab to play with, on this machine only",
		Long: `Serves a living GitHub or GitLab: real git repositories, merge requests, reviews, CI and signed webhooks, without users to authenticate
(the token of a user is the login followed by -token; on a GitLab the bot is the user ` + gitlabBot + `). Its first line on stdout is the
address. It ends with Ctrl-C.`,
	}
	var f fakehostFlags
	flags := c.Flags()
	flags.StringVar(&f.face, "face", fakehost.FaceGitHub, "what the host is: github or gitlab")
	flags.StringVar(&f.listen, "listen", "127.0.0.1:8081", "loopback `ADDRESS` to serve on; port 0 takes a free one")
	flags.StringVar(&f.dir, "dir", "", "`FOLDER` of the repositories (default: a temporary one)")
	flags.StringVar(&f.webhookURL, "webhook-url", "", "`URL` that webhooks are sent to")
	flags.StringVar(&f.webhookSecret, "webhook-secret-file", "", "`FILE` with the secret that webhooks are signed with")
	flags.Int64Var(&f.appID, "app-id", 1, "number of the App that is installed on a GitHub")
	flags.StringVar(&f.appKey, "app-key", "", "`FILE` with the App's RSA key as PEM, public or private (default: any key is accepted)")
	flags.StringVar(&f.ci, "ci", string(fakehost.CIDelayed), "when CI ends: immediate, delay, manual or none")
	flags.DurationVar(&f.ciDelay, "ci-delay", 2*time.Second, "how long CI runs with --ci delay")
	flags.StringArrayVar(&f.repositories, "repository", nil, "`OWNER/NAME` of a repository to start with; may be repeated")
	flags.IntVar(&f.files, "files", 20, "generated files in each such repository")
	c.RunE = func(c *cobra.Command, _ []string) error { return s.fakehost(c.Context(), f) }
	return c
}

func (s shell) fakehost(ctx context.Context, f fakehostFlags) (err error) {
	options, err := f.options()
	if err != nil {
		return err
	}
	if options.Dir == "" {
		temporary, err := os.MkdirTemp("", "batchbot-fakehost-")
		if err != nil {
			return fmt.Errorf("making a folder for the repositories: %w", err)
		}
		defer os.RemoveAll(temporary)
		options.Dir = temporary
	}
	server, err := serveFakehost(ctx, f.listen, options)
	if err != nil {
		return err
	}
	defer server.close()
	for _, path := range f.repositories {
		slash := max(0, strings.LastIndex(path, "/")) // a group of a GitLab has slashes of its own
		err := server.AddRepository(fakehost.NewRepository{Owner: path[:slash], Name: strings.TrimPrefix(path[slash:], "/"), Generate: f.files})
		if err != nil {
			return usageError{fmt.Errorf("--repository %s: %w", path, err)}
		}
	}
	fmt.Fprintln(s.stdout, server.url)
	select {
	case <-ctx.Done():
		return nil
	case err := <-server.failed:
		return err
	}
}

// options reads the files the flags name.
func (f fakehostFlags) options() (fakehost.Options, error) {
	host, _, err := net.SplitHostPort(f.listen)
	if ip := net.ParseIP(host); err != nil || (host != "localhost" && (ip == nil || !ip.IsLoopback())) {
		return fakehost.Options{}, usageError{fmt.Errorf("--listen %s: fakehost lets anybody in, so it serves on loopback only: write 127.0.0.1:PORT", f.listen)}
	}
	if f.face != fakehost.FaceGitHub && f.face != fakehost.FaceGitLab {
		return fakehost.Options{}, usageError{fmt.Errorf("--face %s: write github or gitlab", f.face)}
	}
	o := fakehost.Options{Face: f.face, Dir: f.dir, WebhookURL: f.webhookURL, AppID: f.appID}
	switch mode := fakehost.CIMode(f.ci); mode {
	case fakehost.CIImmediate, fakehost.CIDelayed, fakehost.CIManual, fakehost.CINone:
		o.CI = fakehost.CI{Mode: mode, Delay: f.ciDelay}
	default:
		return o, usageError{fmt.Errorf("--ci %s: write immediate, delay, manual or none", f.ci)}
	}
	if f.webhookSecret != "" {
		content, err := os.ReadFile(f.webhookSecret)
		if err != nil {
			return o, fmt.Errorf("--webhook-secret-file: %w", err)
		}
		o.WebhookSecret = strings.TrimSpace(string(content))
		if o.WebhookSecret == "" {
			return o, fmt.Errorf("--webhook-secret-file %s: is empty: put the secret there", f.webhookSecret)
		}
	}
	if f.appKey != "" {
		if o.AppPublicKey, err = readPublicKey(f.appKey); err != nil {
			return o, fmt.Errorf("--app-key %s: %w", f.appKey, err)
		}
	}
	return o, nil
}

// readPublicKey reads an RSA public key, or that of a private one.
func readPublicKey(path string) (*rsa.PublicKey, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if private, err := config.ParsePrivateKey(bot.Secret(content)); err == nil {
		return &private.PublicKey, nil
	}
	if block, _ := pem.Decode(content); block != nil {
		if key, err := x509.ParsePKIXPublicKey(block.Bytes); err == nil {
			if public, ok := key.(*rsa.PublicKey); ok {
				return public, nil
			}
		}
		if public, err := x509.ParsePKCS1PublicKey(block.Bytes); err == nil {
			return public, nil
		}
	}
	return nil, errors.New("holds no RSA key as PEM")
}

// fakehostServer is a fakehost with a listener.
type fakehostServer struct {
	*fakehost.Host
	url    string
	http   *http.Server
	failed chan error // the listener failed
}

func serveFakehost(ctx context.Context, listen string, options fakehost.Options) (*fakehostServer, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w: choose another address with --listen", listen, err)
	}
	options.BaseURL = "http://" + listener.Addr().String()
	host, err := fakehost.New(options)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	s := &fakehostServer{
		Host:   host,
		url:    options.BaseURL,
		http:   &http.Server{Handler: host.Handler(), ReadHeaderTimeout: 10 * time.Second},
		failed: make(chan error, 1),
	}
	go func() {
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- fmt.Errorf("serving the fakehost: %w", err)
		}
	}()
	return s, nil
}

func (s *fakehostServer) close() {
	_ = s.http.Close() // nobody waits for answers any more
	s.Close()
}
