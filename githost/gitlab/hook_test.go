package gitlab_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/fakehost"
	"github.com/batchbot/batchbot/githost/gitlab"
)

const hookURL = "https://batchbot.example.com/webhooks/gitlab/lab"

func TestAHookIsCreatedOnceAndDelivers(t *testing.T) {
	t.Parallel()
	w := newWorld(t) // where the bot is a maintainer
	spec := gitlab.HookSpec{URL: hookURL, Secret: secret, SigningToken: signing}
	made, err := w.host.EnsureHook(t.Context(), w.repo, spec)
	if err != nil || made.Outcome != gitlab.HookCreated || made.ID == 0 {
		t.Fatalf("got %+v, %v", made, err)
	}
	again, err := w.host.EnsureHook(t.Context(), w.repo, spec)
	if err != nil || again.Outcome != gitlab.HookSet || again.ID != made.ID || len(again.Mended) != 0 {
		t.Errorf("a second time got %+v, %v", again, err)
	}
	// What it sends is taken in: the host's own hook of this world is sent the same, with another secret only.
	number, err := w.fake.OpenMR(w.path, fakehost.NewMR{Author: "bob", Head: "b1", Title: "T", Files: map[string]string{"a.txt": "a\n"}})
	w.must(err)
	_, err = w.fake.Comment(w.path, number, "bob", "/batch")
	w.must(err)
	h, err := gitlab.New(gitlab.Config{Name: "lab", Token: token, SigningTokens: []bot.Secret{signing}, HTTPTransport: nobody{}})
	w.must(err)
	heard := map[string]int{}
	for _, d := range w.Deliveries() {
		if d.Header.Get("Webhook-Signature") == "" {
			continue
		}
		head, err := h.Authenticate(d.Header, d.Body)
		w.must(err)
		heard[head.Event]++
	}
	if heard["Note Hook"] != 1 || heard["Merge Request Hook"] != 1 || heard["Push Hook"] != 1 || heard["Issue Hook"] != 0 {
		t.Errorf("heard %v", heard)
	}
}

func TestAHookIsMended(t *testing.T) {
	t.Parallel()
	var body map[string]any
	s := standing().
		on("GET ./hooks", 200, `[
			{"id":1,"url":"https://elsewhere.example","push_events":true},
			{"id":2,"url":"`+hookURL+`","push_events":true,"push_events_branch_filter":"main","note_events":false,"confidential_note_events":true,
			 "merge_requests_events":true,"pipeline_events":true,"enable_ssl_verification":false,"alert_status":"disabled","custom_webhook_template":null}]`).
		call("PUT ./hooks/2", func(req *http.Request) *http.Response {
			body = sent(t, req)
			return reply(200, `{"id":2}`)
		}).
		on("POST ./hooks/2/test/push_events", 201, `{"message":"201 Created"}`)
	got, err := adapter(t, s).EnsureHook(t.Context(), scripted, gitlab.HookSpec{URL: hookURL, Secret: secret})
	want := []string{"the branch filter", "comment events", "confidential comment events", "SSL verification", "it was switched off (disabled)"}
	if err != nil || got.Outcome != gitlab.HookRepaired || got.ID != 2 || !slices.Equal(got.Mended, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	for name, want := range map[string]any{
		"url": hookURL, "token": secret, "push_events": true, "merge_requests_events": true, "note_events": true, "confidential_note_events": false,
		"pipeline_events": true, "enable_ssl_verification": true, "push_events_branch_filter": "",
	} {
		if body[name] != want {
			t.Errorf("sent %s %v, want %v", name, body[name], want)
		}
	}
	if _, ok := body["signing_token"]; ok {
		t.Error("sent a signing token nobody gave")
	}
	if s.times("POST ./hooks/2/test/push_events") != 1 {
		t.Error("nothing switches it on again")
	}
}

func TestHooksThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	h := adapter(t, standing())
	for says, spec := range map[string]gitlab.HookSpec{
		"its address":    {URL: "batchbot.example.com/webhooks", Secret: secret},
		"address is":     {URL: "https://user:pass@batchbot.example.com", Secret: secret},
		"no secret":      {URL: hookURL},
		"have no secret": {URL: hookURL, Secret: " "},
	} {
		if _, err := h.EnsureHook(t.Context(), scripted, spec); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "pass") {
			t.Errorf("got %v, want it to say %q", err, says)
		}
	}
	s := standing().on("GET ./hooks", 403, `{"message":"403 Forbidden"}`)
	_, err := adapter(t, s).EnsureHook(t.Context(), scripted, gitlab.HookSpec{URL: hookURL, Secret: secret})
	if !errors.Is(err, bot.ErrForbidden) || !strings.Contains(err.Error(), "maintainer") || strings.Contains(err.Error(), secret) {
		t.Errorf("got %v", err)
	}
}
