package gitlab_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/gitlab"
)

var signing = signingToken('k')

// signingToken makes a token of 32 equal bytes.
func signingToken(b byte) bot.Secret {
	return bot.Secret("whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(b), 32))))
}

func sign(key byte, id string, at time.Time, body string) string {
	mac := hmac.New(sha256.New, []byte(strings.Repeat(string(key), 32)))
	fmt.Fprintf(mac, "%s.%d.%s", id, at.Unix(), body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// delivery makes the headers GitLab sends with a secret; edits are name, value pairs, an empty value removes.
func delivery(edits ...string) http.Header {
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set("X-Gitlab-Event", "Note Hook")
	h.Set("X-Gitlab-Token", secret)
	h.Set("X-Gitlab-Webhook-UUID", "1")
	h.Set("X-Gitlab-Event-UUID", "2")
	h.Set("Idempotency-Key", "f5e5f430-f57b-4e6e-9fac-d9128cd7232f")
	for i := 0; i+1 < len(edits); i += 2 {
		if edits[i+1] == "" {
			h.Del(edits[i])
		} else {
			h.Set(edits[i], edits[i+1])
		}
	}
	return h
}

// signed makes the headers of a hook with a signing token only.
func signed(at time.Time, body string, edits ...string) http.Header {
	const id = "f5e5f430-f57b-4e6e-9fac-d9128cd7232f"
	return delivery(append([]string{
		"X-Gitlab-Token", "", "Webhook-Id", id, "Webhook-Timestamp", fmt.Sprint(at.Unix()), "Webhook-Signature", sign('k', id, at, body),
	}, edits...)...)
}

func TestDeliveriesWithTheSecretAreTakenIn(t *testing.T) {
	t.Parallel()
	h := standalone(t)
	head, err := h.Authenticate(delivery(), []byte(`{"a":1}`))
	if err != nil || head.Key != "f5e5f430-f57b-4e6e-9fac-d9128cd7232f" || head.Event != "Note Hook" || !head.Wanted {
		t.Errorf("got %+v, %v", head, err)
	}
	for _, event := range []string{"Confidential Note Hook", "Issue Hook", "Tag Push Hook", "Emoji Hook", "Job Hook", "Something New Hook"} {
		if head, err := h.Authenticate(delivery("X-Gitlab-Event", event), []byte("{}")); err != nil || head.Wanted {
			t.Errorf("%s: got %+v, %v; want it answered and not stored", event, head, err)
		}
	}
}

func TestDeliveriesWithoutTheSecretAreRefused(t *testing.T) {
	t.Parallel()
	h := standalone(t)
	twice := delivery()
	twice.Add("X-Gitlab-Token", "other")
	for name, c := range map[string]struct {
		header http.Header
		says   string
	}{
		"no headers":       {http.Header{}, "no X-Gitlab-Token"},
		"no token":         {delivery("X-Gitlab-Token", ""), "no X-Gitlab-Token"},
		"two tokens":       {twice, "no X-Gitlab-Token"},
		"another token":    {delivery("X-Gitlab-Token", "other"), "does not fit"},
		"part of it":       {delivery("X-Gitlab-Token", secret[:5]), "does not fit"},
		"more than it":     {delivery("X-Gitlab-Token", secret+" "), "does not fit"},
		"a form":           {delivery("Content-Type", "application/x-www-form-urlencoded"), "not JSON"},
		"no event":         {delivery("X-Gitlab-Event", ""), "X-Gitlab-Event"},
		"an odd event":     {delivery("X-Gitlab-Event", "Push\x00Hook"), "X-Gitlab-Event"},
		"a bad signature":  {delivery("Webhook-Signature", "v1,AAAA", "Webhook-Id", "1", "Webhook-Timestamp", fmt.Sprint(time.Now().Unix())), "signature does not fit"},
		"an unsigned form": {delivery("Webhook-Signature", "v2,AAAA", "Webhook-Id", "1", "Webhook-Timestamp", fmt.Sprint(time.Now().Unix())), "no signature of version 1"},
	} {
		_, err := h.Authenticate(c.header, []byte("{}"))
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want it to say %q", name, err, c.says)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error shows the secret: %v", name, err)
		}
	}
}

func TestSignedDeliveries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, err := gitlab.New(gitlab.Config{Name: "lab", Token: token, SigningTokens: []bot.Secret{signingToken('n'), signing}, HTTPTransport: nobody{}})
		if err != nil {
			t.Fatal(err)
		}
		const body, id = `{"a":1}`, "f5e5f430-f57b-4e6e-9fac-d9128cd7232f"
		now := time.Now()
		twice := signed(now, body)
		twice.Add("Webhook-Signature", "v1,AAAA")
		for name, c := range map[string]struct {
			header http.Header
			says   string // empty: taken in
		}{
			"by the old token":         {signed(now, body), ""},
			"by the new token":         {signed(now, body, "Webhook-Signature", sign('n', id, now, body)), ""},
			"by several":               {signed(now, body, "Webhook-Signature", "v1,AAAA v9,x "+sign('k', id, now, body)), ""},
			"almost too old":           {signed(now.Add(-5*time.Minute), body), ""},
			"almost too early":         {signed(now.Add(5*time.Minute), body), ""},
			"too old":                  {signed(now.Add(-5*time.Minute-time.Second), body), "clocks"},
			"too early":                {signed(now.Add(5*time.Minute+time.Second), body), "clocks"},
			"of another body":          {signed(now, body+" "), "does not fit"},
			"of another id":            {signed(now, body, "Webhook-Id", "another"), "does not fit"},
			"of another time":          {signed(now, body, "Webhook-Timestamp", fmt.Sprint(now.Unix()+1)), "does not fit"},
			"by somebody else":         {signed(now, body, "Webhook-Signature", sign('x', id, now, body)), "does not fit"},
			"of no version":            {signed(now, body, "Webhook-Signature", "AAAA"), "version 1"},
			"in two headers":           {twice, "version 1"},
			"without an id":            {signed(now, body, "Webhook-Id", ""), "webhook-id"},
			"without a time":           {signed(now, body, "Webhook-Timestamp", ""), "webhook-timestamp"},
			"with words for a time":    {signed(now, body, "Webhook-Timestamp", "now"), "webhook-timestamp"},
			"not at all":               {delivery("X-Gitlab-Token", ""), "no webhook-signature"},
			"not, but with some token": {delivery(), "no webhook-signature"},
		} {
			head, err := h.Authenticate(c.header, []byte(body))
			if c.says == "" && (err != nil || head.Key != id || !head.Wanted) || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("signed %s: got %+v, %v, want it to say %q", name, head, err, c.says)
			}
		}
	})
}

func TestTheKeyOfADeliveryIsWhatRetriesShare(t *testing.T) {
	t.Parallel()
	h := standalone(t)
	key := func(header http.Header, body string) string {
		t.Helper()
		head, err := h.Authenticate(header, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return head.Key
	}
	// The ids of hook and event are made anew for each attempt.
	first, again := delivery(), delivery("X-Gitlab-Webhook-UUID", "3", "X-Gitlab-Event-UUID", "4")
	if a, b := key(first, "{}"), key(again, "{}"); a != b || a == "" {
		t.Errorf("two attempts have the keys %s and %s", a, b)
	}
	if got := key(delivery("Idempotency-Key", "", "Webhook-Id", "abc"), "{}"); got != "abc" {
		t.Errorf("with webhook-id only the key is %s", got)
	}
	// Before 17.4 there is neither: then what is delivered names it.
	old := delivery("Idempotency-Key", "")
	if a, b := key(old, "{}"), key(old, `{"a":1}`); a == b || len(a) < 64 || a != key(old, "{}") {
		t.Errorf("two deliveries have the keys %s and %s", a, b)
	}
	if a, b := key(old, "{}"), key(delivery("Idempotency-Key", "", "X-Gitlab-Event", "Push Hook"), "{}"); a == b {
		t.Error("two events with the same body have the same key")
	}
	if got := key(delivery("Idempotency-Key", strings.Repeat("a", 101)), "{}"); len(got) > 100 {
		t.Errorf("the key has %d characters", len(got))
	}
	// The signature does not cover Idempotency-Key: a copy under another one is still a copy.
	now := time.Now()
	if a, b := key(signed(now, "{}"), "{}"), key(signed(now, "{}", "Idempotency-Key", "fresh"), "{}"); a != b {
		t.Errorf("a copy has the key %s instead of %s", b, a)
	}
}

func TestTwoSecretsAreActiveWhileTheyAreRotated(t *testing.T) {
	t.Parallel()
	h, err := gitlab.New(gitlab.Config{Name: "lab", Token: token, WebhookSecrets: []bot.Secret{"new", "old"}})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]bool{"new": true, "old": true, "older": false} {
		if _, err := h.Authenticate(delivery("X-Gitlab-Token", key), []byte("{}")); (err == nil) != want {
			t.Errorf("with %s: %v", key, err)
		}
	}
}

func TestPitfall40TheSecretIsFoundWithoutReadingTheBody(t *testing.T) {
	t.Parallel()
	if head, err := standalone(t).Authenticate(delivery(), []byte("not even JSON")); err != nil || head.Event != "Note Hook" {
		t.Errorf("got %+v, %v", head, err)
	}
}

func TestConfigurationsThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	good := gitlab.Config{Name: "lab", Token: token, WebhookSecrets: []bot.Secret{"a"}}
	if _, err := gitlab.New(good); err != nil {
		t.Fatal(err)
	}
	for says, edit := range map[string]func(*gitlab.Config){
		"has no name":               func(c *gitlab.Config) { c.Name = "" },
		"has no token":              func(c *gitlab.Config) { c.Token = " " },
		"no webhook secret":         func(c *gitlab.Config) { c.WebhookSecrets = nil },
		"webhook secret 2 is empty": func(c *gitlab.Config) { c.WebhookSecrets = []bot.Secret{"a", " "} },
		"at most two":               func(c *gitlab.Config) { c.WebhookSecrets = []bot.Secret{"a", "b", "c"} },
		"signing token 1 is not":    func(c *gitlab.Config) { c.SigningTokens = []bot.Secret{"NONSENSE"} },
		"signing token 2 is not":    func(c *gitlab.Config) { c.SigningTokens = []bot.Secret{signing, "whsec_c2hvcnQ="} },
		"api_url":                   func(c *gitlab.Config) { c.APIURL = "gitlab.example.com" },
		"api_url is":                func(c *gitlab.Config) { c.APIURL = "https://user:pass@gitlab.example.com" },
	} {
		config := good
		edit(&config)
		_, err := gitlab.New(config)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want it to say %q", err, says)
		}
		if err != nil && (strings.Contains(err.Error(), "NONSENSE") || strings.Contains(err.Error(), "pass") || strings.Contains(err.Error(), token)) {
			t.Errorf("the error shows a secret: %v", err)
		}
	}
}
