package github

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/batchbot/batchbot/bot"
)

// wanted are the events this package turns into something.
var wanted = map[string]bool{
	"issue_comment":             true,
	"pull_request":              true,
	"pull_request_review":       true,
	"check_suite":               true,
	"check_run":                 true,
	"workflow_run":              true,
	"status":                    true,
	"push":                      true,
	"installation":              true,
	"installation_repositories": true,
	"installation_target":       true,
	"repository":                true,
}

// Authenticate checks X-Hub-Signature-256 over body against every active secret, in constant time. The older SHA-1 signature
// does not count, not even when it is the only one.
func (h *Host) Authenticate(header map[string][]string, body []byte) (bot.WebhookHead, error) {
	head := http.Header(header)
	given, ok := strings.CutPrefix(single(head, "X-Hub-Signature-256"), "sha256=")
	if !ok {
		return bot.WebhookHead{}, errors.New("the delivery has no X-Hub-Signature-256: set the webhook's secret on GitHub")
	}
	signature, err := hex.DecodeString(given)
	if err != nil || len(signature) != sha256.Size {
		return bot.WebhookHead{}, errors.New("X-Hub-Signature-256 is not a SHA-256 signature")
	}
	var valid bool
	for _, secret := range h.secrets {
		mac := hmac.New(sha256.New, secret)
		mac.Write(body)
		// Every secret is tried, so that the time taken does not tell which one fits.
		valid = hmac.Equal(mac.Sum(nil), signature) || valid
	}
	if !valid {
		return bot.WebhookHead{}, errors.New("the signature does not fit: the webhook's secret on GitHub is not the configured one")
	}
	kind, _, err := mime.ParseMediaType(single(head, "Content-Type"))
	if err != nil || kind != "application/json" {
		return bot.WebhookHead{}, errors.New("the delivery is not JSON: set the webhook's content type to application/json on GitHub")
	}
	key, event := single(head, "X-GitHub-Delivery"), single(head, "X-GitHub-Event")
	if !plainWord(key) || !plainWord(event) {
		return bot.WebhookHead{}, fmt.Errorf("X-GitHub-Delivery or X-GitHub-Event is missing or malformed")
	}
	return bot.WebhookHead{Key: key, Event: event, Wanted: wanted[event]}, nil
}

// single returns a header that is there exactly once.
func single(h http.Header, name string) string {
	if v := h.Values(name); len(v) == 1 {
		return v[0]
	}
	return ""
}

// plainWord accepts what GitHub uses for delivery ids and event names. The signature does not cover headers.
func plainWord(s string) bool {
	return s != "" && len(s) <= 100 && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == ':' || r == '.')
	}) < 0
}
