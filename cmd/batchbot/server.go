package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/batchbot/batchbot/bot/api"
	"github.com/batchbot/batchbot/config"
	"github.com/batchbot/batchbot/store"
)

// webhookPath begins every path at which webhooks arrive.
const webhookPath = "/webhooks/"

// webhookPaths lists where a host's webhooks arrive, the one to show first: /webhooks/TYPE while it is the only host of its type, and
// /webhooks/TYPE/NAME always. The path decides whose secret a delivery is checked with, since its body is not trusted yet.
func webhookPaths(hosts []config.Host, h config.Host) []string {
	short := webhookPath + h.Type
	long := short + "/" + h.Name
	for _, other := range hosts {
		if other.Type == h.Type && other.Name != h.Name {
			return []string{long}
		}
	}
	return []string{short, long}
}

// routes is everything the server answers.
func routes(webhooks, rest http.Handler, db *store.Store, m *metrics, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(webhookPath, m.countWebhooks(webhooks))
	mux.Handle(api.Root, rest)
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Timeout: 10 * time.Second, MaxRequestsInFlight: 4}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		// The reason names the database server and goes to the log only: this page may be public.
		if err := db.Ping(ctx); err != nil {
			log.Warn("not ready", "error", err)
			answer(w, http.StatusServiceUnavailable, "the database does not answer")
			return
		}
		if err := db.CheckMigrated(ctx); err != nil {
			log.Warn("not ready", "error", err)
			answer(w, http.StatusServiceUnavailable, "the database's schema does not fit this program")
			return
		}
		answer(w, http.StatusOK, "ready")
	})
	return mux
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n")) // the client may be gone
}

// newServer bounds what a client can hold open.
func newServer(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// baseURL is the address of a listener for clients on this machine.
func baseURL(address net.Addr) string {
	host, port, err := net.SplitHostPort(address.String())
	if err != nil {
		return "http://" + address.String()
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(strings.TrimSpace(host), port)
}

// serveHTTP serves until ctx ends, then stops accepting and lets requests that are under way finish within the grace period.
func serveHTTP(ctx context.Context, server *http.Server, listener net.Listener, grace time.Duration) error {
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err := server.Shutdown(limit); errors.Is(err, context.DeadlineExceeded) {
		_ = server.Close() // what was stored is stored; the host sends the rest again
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
