package gitlab

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// The events this package turns into something. Confidential notes are not among them: the bot answers where everybody reads it.
const (
	noteHook         = "Note Hook"
	mergeRequestHook = "Merge Request Hook"
	pipelineHook     = "Pipeline Hook"
	pushHook         = "Push Hook"
)

var wanted = map[string]bool{noteHook: true, mergeRequestHook: true, pipelineHook: true, pushHook: true}

// clockSkew is how far a signed delivery's time may be from ours.
const clockSkew = 5 * time.Minute

// Authenticate checks a delivery's signature where signing tokens are configured, or else its X-Gitlab-Token, in constant time and against
// every active secret. A signature that does not fit is not made good by a token that does.
func (h *Host) Authenticate(header map[string][]string, body []byte) (bot.WebhookHead, error) {
	head := http.Header(header)
	signed := len(h.signers) > 0 && len(head.Values("Webhook-Signature")) > 0
	var err error
	switch {
	case signed:
		err = h.checkSignature(head, body)
	case len(h.secrets) > 0:
		err = h.checkToken(head)
	default:
		err = errors.New("the delivery has no webhook-signature: set the hook's signing token on GitLab")
	}
	if err != nil {
		return bot.WebhookHead{}, err
	}
	kind, _, err := mime.ParseMediaType(single(head, "Content-Type"))
	if err != nil || kind != "application/json" {
		return bot.WebhookHead{}, errors.New("the delivery is not JSON: remove the hook's custom template and Content-Type header on GitLab")
	}
	event := single(head, "X-Gitlab-Event")
	if !printable(event) {
		return bot.WebhookHead{}, errors.New("X-Gitlab-Event is missing or malformed")
	}
	return bot.WebhookHead{Key: deliveryKey(head, signed, event, body), Event: event, Wanted: wanted[event]}, nil
}

func (h *Host) checkToken(head http.Header) error {
	token := single(head, "X-Gitlab-Token")
	if token == "" {
		return errors.New("the delivery has no X-Gitlab-Token: set the hook's secret on GitLab")
	}
	given, fits := sha256.Sum256([]byte(token)), 0
	for _, secret := range h.secrets {
		// Every secret is tried, so that the time taken does not tell which one fits.
		fits |= subtle.ConstantTimeCompare(given[:], secret[:])
	}
	if fits != 1 {
		return errors.New("X-Gitlab-Token does not fit: the hook's secret on GitLab is not the configured one")
	}
	return nil
}

// checkSignature checks the scheme of Standard Webhooks: an HMAC over id, time and body, of which there may be several while a token is
// rotated.
func (h *Host) checkSignature(head http.Header, body []byte) error {
	id, stamp := single(head, "Webhook-Id"), single(head, "Webhook-Timestamp")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if !printable(id) || err != nil {
		return errors.New("webhook-id or webhook-timestamp is missing or malformed")
	}
	if off := time.Since(time.Unix(seconds, 0)); off.Abs() > clockSkew {
		return fmt.Errorf("webhook-timestamp is %v from now: replayed, or one of the two clocks is wrong", off.Abs().Round(time.Second))
	}
	var given [][]byte
	for one := range strings.FieldsSeq(single(head, "Webhook-Signature")) {
		if text, ok := strings.CutPrefix(one, "v1,"); ok && len(given) < 8 {
			if mac, err := base64.StdEncoding.DecodeString(text); err == nil {
				given = append(given, mac)
			}
		}
	}
	if len(given) == 0 {
		return errors.New("webhook-signature holds no signature of version 1")
	}
	fits := false
	for _, key := range h.signers {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + stamp + "."))
		mac.Write(body)
		sum := mac.Sum(nil)
		for _, one := range given {
			fits = hmac.Equal(sum, one) || fits
		}
	}
	if !fits {
		return errors.New("the signature does not fit: the hook's signing token on GitLab is not the configured one")
	}
	return nil
}

// deliveryKey names a delivery. Idempotency-Key is made once for all attempts; GitLab's other ids are made anew for each, or shared by several
// hooks. The signature covers webhook-id, which is the same, and not Idempotency-Key. An old GitLab has neither.
func deliveryKey(head http.Header, signed bool, event string, body []byte) string {
	names := []string{"Idempotency-Key", "Webhook-Id"}
	if signed {
		names = names[1:]
	}
	for _, name := range names {
		if key := single(head, name); plainWord(key) {
			return key
		}
	}
	sum := sha256.New()
	sum.Write([]byte(event + "\n"))
	sum.Write(body)
	return "sha256-" + hex.EncodeToString(sum.Sum(nil))
}

// single returns a header that is there exactly once.
func single(h http.Header, name string) string {
	if v := h.Values(name); len(v) == 1 {
		return v[0]
	}
	return ""
}

// printable accepts what GitLab uses for event names and ids.
func printable(s string) bool {
	return s != "" && len(s) <= 100 && strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}

// plainWord accepts what GitLab uses for delivery keys.
func plainWord(s string) bool {
	return printable(s) && !strings.ContainsAny(s, " '\"\\;")
}
