package intake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/batchbot/batchbot/bot"
)

// DefaultMaxBody is the largest delivery taken when nothing else is configured: GitHub never sends more than 25 MB.
const DefaultMaxBody = 25 << 20

// HandlerConfig is what a Handler needs.
type HandlerConfig struct {
	Hosts   map[string]Source // by path: "/webhooks/github", "/webhooks/gitlab/team-a"
	Inbox   Inbox
	Nudge   func()       // called after a delivery was stored; must not block
	MaxBody int64        // bytes; 0: DefaultMaxBody
	Logger  *slog.Logger // nil: silent
}

// Source is where the deliveries of one path come from.
type Source struct {
	Name     string // configured name of the host
	Webhooks bot.Webhooks
}

// Handler takes webhooks. Its answers:
//
//	202 stored, or authentic and of no use
//	200 known already
//	400 the delivery broke off
//	401 not authentic
//	404 no webhook here      405 not a POST      413 too large
//	503 the database is not reachable: the host shows the delivery as failed, and it can be sent again
type Handler struct{ config HandlerConfig }

// NewHandler returns a handler with the defaults filled in.
func NewHandler(c HandlerConfig) *Handler {
	if c.MaxBody <= 0 {
		c.MaxBody = DefaultMaxBody
	}
	if c.Nudge == nil {
		c.Nudge = func() {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Handler{c}
}

// ServeHTTP takes one delivery.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	source, ok := h.config.Hosts[r.URL.Path]
	if !ok {
		answer(w, http.StatusNotFound, "no webhook is configured at this path: compare the payload URL on the host with the hosts in the configuration")
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		answer(w, http.StatusMethodNotAllowed, "webhooks are sent with POST")
		return
	}
	log := h.config.Logger.With("host", source.Name)
	tooLarge := func() {
		log.Warn("refused a webhook that is too large", "limit", h.config.MaxBody)
		answer(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the delivery is larger than %d bytes: send fewer events, or raise the limit in the configuration", h.config.MaxBody))
	}
	if r.ContentLength > h.config.MaxBody {
		tooLarge()
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.config.MaxBody))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			tooLarge()
			return
		}
		answer(w, http.StatusBadRequest, "the delivery broke off before its end")
		return
	}
	head, err := source.Webhooks.Authenticate(r.Header, body)
	if err != nil {
		log.Warn("refused a webhook that is not authentic", "error", err)
		answer(w, http.StatusUnauthorized, "the delivery is not authentic: "+err.Error()+". The secret on the host and the one in the configuration must be the same")
		return
	}
	log = log.With("delivery", head.Key, "event", head.Event)
	if !head.Wanted {
		answer(w, http.StatusAccepted, "not used")
		return
	}
	// The host may hang up as soon as it has sent everything; the delivery is stored all the same.
	fresh, err := h.config.Inbox.InsertDelivery(context.WithoutCancel(r.Context()), source.Name, head.Key, head.Event, body)
	switch {
	case err != nil:
		log.Error("could not store a webhook", "error", err)
		w.Header().Set("Retry-After", "30")
		answer(w, http.StatusServiceUnavailable, "the delivery could not be stored, because the database is not reachable: send it again later")
	case fresh:
		h.config.Nudge()
		answer(w, http.StatusAccepted, "stored")
	default:
		answer(w, http.StatusOK, "known already")
	}
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n")
}
