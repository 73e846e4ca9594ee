package github_test

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"net/http"
	"strings"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/github"
)

func sign(newHash func() hash.Hash, key, body string) string {
	mac := hmac.New(newHash, []byte(key))
	mac.Write([]byte(body))
	return hex.EncodeToString(mac.Sum(nil))
}

// delivery makes the headers GitHub sends; edits are name, value pairs, an empty value removes.
func delivery(body string, edits ...string) http.Header {
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set("X-GitHub-Event", "issue_comment")
	h.Set("X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958")
	h.Set("X-Hub-Signature-256", "sha256="+sign(sha256.New, secret, body))
	h.Set("X-Hub-Signature", "sha1="+sign(sha1.New, secret, body))
	for i := 0; i+1 < len(edits); i += 2 {
		if edits[i+1] == "" {
			h.Del(edits[i])
		} else {
			h.Set(edits[i], edits[i+1])
		}
	}
	return h
}

func TestSignedDeliveriesAreTakenIn(t *testing.T) {
	t.Parallel()
	h := standalone(t)
	head, err := h.Authenticate(delivery(`{"a":1}`), []byte(`{"a":1}`))
	if err != nil || head.Key != "72d3162e-cc78-11e3-81ab-4c9367dc0958" || head.Event != "issue_comment" || !head.Wanted {
		t.Errorf("got %+v, %v", head, err)
	}
	for _, event := range []string{"ping", "star", "pull_request_review_comment", "deployment_review"} {
		if head, err := h.Authenticate(delivery("{}", "X-GitHub-Event", event), []byte("{}")); err != nil || head.Wanted {
			t.Errorf("%s: got %+v, %v; want it answered and not stored", event, head, err)
		}
	}
	if _, err := h.Authenticate(delivery("{}", "Content-Type", "application/json; charset=utf-8"), []byte("{}")); err != nil {
		t.Error(err)
	}
}

func TestUnsignedDeliveriesAreRefused(t *testing.T) {
	t.Parallel()
	h := standalone(t)
	const body = `{"a":1}`
	twice := delivery(body)
	twice.Add("X-Hub-Signature-256", "sha256="+sign(sha256.New, "other", body))
	for name, c := range map[string]struct {
		header http.Header
		says   string
	}{
		"no headers":            {http.Header{}, "no X-Hub-Signature-256"},
		"no signature":          {delivery(body, "X-Hub-Signature-256", "", "X-Hub-Signature", ""), "no X-Hub-Signature-256"},
		"sha1 only":             {delivery(body, "X-Hub-Signature-256", ""), "no X-Hub-Signature-256"},
		"sha1 in its place":     {delivery(body, "X-Hub-Signature-256", "sha1="+sign(sha1.New, secret, body)), "no X-Hub-Signature-256"},
		"sha1 of sha256's name": {delivery(body, "X-Hub-Signature-256", "sha256="+sign(sha1.New, secret, body)), "not a SHA-256 signature"},
		"wrong secret":          {delivery(body, "X-Hub-Signature-256", "sha256="+sign(sha256.New, "other", body)), "does not fit"},
		"empty secret":          {delivery(body, "X-Hub-Signature-256", "sha256="+sign(sha256.New, "", body)), "does not fit"},
		"other body":            {delivery(body + " "), "does not fit"},
		"not hexadecimal":       {delivery(body, "X-Hub-Signature-256", "sha256="+strings.Repeat("z", 64)), "not a SHA-256 signature"},
		"two signatures":        {twice, "no X-Hub-Signature-256"},
		"a form":                {delivery(body, "Content-Type", "application/x-www-form-urlencoded"), "content type"},
		"no delivery id":        {delivery(body, "X-GitHub-Delivery", ""), "X-GitHub-Delivery"},
		"no event":              {delivery(body, "X-GitHub-Event", ""), "X-GitHub-Event"},
		"an odd event":          {delivery(body, "X-GitHub-Event", "push'; --"), "X-GitHub-Event"},
		"an endless id":         {delivery(body, "X-GitHub-Delivery", strings.Repeat("a", 101)), "X-GitHub-Delivery"},
	} {
		_, err := h.Authenticate(c.header, []byte(body))
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want it to say %q", name, err, c.says)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error shows the secret: %v", name, err)
		}
	}
}

func TestTwoSecretsAreActiveWhileTheyAreRotated(t *testing.T) {
	t.Parallel()
	_, pem := appKey()
	h, err := github.New(github.Config{Name: "hub", AppID: 1, PrivateKey: pem, WebhookSecrets: []bot.Secret{"new", "old"}})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]bool{"new": true, "old": true, "older": false} {
		_, err := h.Authenticate(delivery("{}", "X-Hub-Signature-256", "sha256="+sign(sha256.New, key, "{}")), []byte("{}"))
		if (err == nil) != want {
			t.Errorf("signed with %s: %v", key, err)
		}
	}
}

func TestConfigurationsThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	_, pem := appKey()
	good := github.Config{Name: "hub", AppID: 1, PrivateKey: pem, WebhookSecrets: []bot.Secret{"a"}}
	if _, err := github.New(good); err != nil {
		t.Fatal(err)
	}
	for says, edit := range map[string]func(*github.Config){
		"has no name":               func(c *github.Config) { c.Name = "" },
		"no webhook secret":         func(c *github.Config) { c.WebhookSecrets = nil },
		"webhook secret 2 is empty": func(c *github.Config) { c.WebhookSecrets = []bot.Secret{"a", " "} },
		"at most two":               func(c *github.Config) { c.WebhookSecrets = []bot.Secret{"a", "b", "c"} },
		"choose one":                func(c *github.Config) { c.Token = "t" },
		"neither a token nor":       func(c *github.Config) { c.AppID, c.PrivateKey = 0, "" },
		"private key of App 1":      func(c *github.Config) { c.PrivateKey = "-----BEGIN NONSENSE-----" },
		"api_url":                   func(c *github.Config) { c.APIURL = "github.example.com" },
		"api_url is":                func(c *github.Config) { c.APIURL = "https://user:pass@github.example.com" },
	} {
		config := good
		edit(&config)
		_, err := github.New(config)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want it to say %q", err, says)
		}
		if err != nil && (strings.Contains(err.Error(), "NONSENSE") || strings.Contains(err.Error(), "pass")) {
			t.Errorf("the error shows a secret: %v", err)
		}
	}
}
