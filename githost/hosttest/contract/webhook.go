package contract

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// Webhook checks a payload of an event (X-GitHub-Event).
func Webhook(t testing.TB, event string, payload []byte) {
	t.Helper()
	d, err := github()
	if err != nil {
		t.Fatal(err)
	}
	name, found := d.webhook(event, payload)
	for _, f := range found {
		t.Errorf("contract: webhook %s: %s", name, f)
	}
}

// Excerpt is [Webhook] for a payload that was cut to what a test is about. It
// returns the payload with all that GitHub always sends.
func Excerpt(t testing.TB, event string, payload []byte) []byte {
	t.Helper()
	d, err := github()
	if err != nil {
		t.Fatal(err)
	}
	var value map[string]any
	if err := json.Unmarshal(payload, &value); err != nil {
		t.Fatal(err)
	}
	if schema := d.payload(webhookName(event, value)); schema != nil {
		if payload, err = json.Marshal(complete(schema, value)); err != nil {
			t.Fatal(err)
		}
	}
	Webhook(t, event, payload)
	return payload
}

// webhookName is how GitHub's description names a webhook: pull-request-closed.
func webhookName(event string, payload map[string]any) string {
	if action, ok := payload["action"].(string); ok {
		event += "-" + action
	}
	return strings.ReplaceAll(event, "_", "-")
}

// payload is the schema of a webhook, nil when there is none.
func (d *description) payload(name string) *openapi3.Schema {
	item := d.webhooks.Webhooks[name]
	if item == nil {
		return nil
	}
	return item.Post.RequestBody.Value.Content.Get("application/json").Schema.Value
}

// webhook says what is not as described in a payload, and the webhook's name.
func (d *description) webhook(event string, payload []byte) (string, []finding) {
	var value map[string]any
	if err := json.Unmarshal(payload, &value); err != nil {
		return event, []finding{{"", "no JSON object: " + err.Error()}}
	}
	name := webhookName(event, value)
	schema := d.payload(name)
	if schema == nil {
		return name, []finding{{"", "no such webhook is kept of GitHub's description; if it is used, keep it (sources.json, make contract-update)"}}
	}
	note("webhook " + name)
	found := violations(schema, value)
	return name, slices.DeleteFunc(found, func(f finding) bool { return d.knows(name, f) })
}
