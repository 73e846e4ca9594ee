package gitlab_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/gitlab"
	"github.com/batchbot/batchbot/githost/hosttest/contract"
)

var update = flag.Bool("update", false, "write what payloads are read as to testdata/webhooks")

// standalone is an adapter nobody answers.
func standalone(t testing.TB) *gitlab.Host {
	t.Helper()
	h, err := gitlab.New(gitlab.Config{
		Name: "lab", Token: token, WebhookSecrets: []bot.Secret{secret}, SigningTokens: []bot.Secret{signing}, HTTPTransport: nobody{},
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// events are X-Gitlab-Event by what the names of payloads begin with.
var events = map[string]string{
	"note": "Note Hook", "confidential_note": "Confidential Note Hook", "merge_request": "Merge Request Hook", "pipeline": "Pipeline Hook",
	"push": "Push Hook", "tag_push": "Tag Push Hook", "emoji": "Emoji Hook", "job": "Job Hook",
}

// odd are payloads GitLab is not described to send: of old versions, of new ones, or broken.
var odd = map[string]bool{
	"note.created-before-16.11": true, "note.created-without-user-id": true, "note.created-with-odd-times": true, "note.created-without-a-time": true,
	"note.by-nobody": true, "note.on-wiki-page": true, "note.on-commit": true, "note.without-merge-request": true,
	"merge_request.without-number": true, "merge_request.something-new": true, "pipeline.without-commit": true, "push.of-no-project": true,
}

func eventOf(t testing.TB, name string) string {
	t.Helper()
	kind, _, _ := strings.Cut(name, ".")
	event, ok := events[kind]
	if !ok {
		t.Fatalf("%s is of no known event", name)
	}
	return event
}

// describe puts events in words, so that golden files can be read.
func describe(list []bot.Event, why string, err error) string {
	var b strings.Builder
	for _, e := range list {
		switch e.Kind {
		case bot.EventComment:
			c := e.Comment
			fmt.Fprintf(&b, "comment on %d: %s %d on %d by %s (%d, bot %v) at %s: %q\n", e.Number, c.Kind, c.ID, c.Number, c.Author.Login, c.Author.ID, c.Author.Bot, c.CreatedAt.Format(time.RFC3339Nano), c.Body)
		case bot.EventMergeRequest:
			fmt.Fprintf(&b, "merge request %d\n", e.Number)
		case bot.EventChecks:
			fmt.Fprintf(&b, "checks of %s\n", e.SHA)
		case bot.EventBranch:
			fmt.Fprintf(&b, "branch %s\n", e.Branch)
		default:
			fmt.Fprintf(&b, "event of no kind: %+v\n", e)
		}
		fmt.Fprintf(&b, "  in %s %d %s (default branch %q)\n", e.Repository.Host, e.Repository.ExternalID, e.Repository.Path, e.Repository.DefaultBranch)
	}
	if why != "" {
		fmt.Fprintf(&b, "not for us: %s\n", why)
	}
	if err != nil {
		fmt.Fprintf(&b, "error: %v\n", err)
	}
	return b.String()
}

func TestPayloadsAreReadAsRecorded(t *testing.T) {
	t.Parallel()
	h := standalone(t)
	files, err := filepath.Glob("testdata/webhooks/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no payloads", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			payload, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			switch event := eventOf(t, name); event {
			case "Note Hook", "Merge Request Hook", "Pipeline Hook", "Push Hook":
				if !odd[name] {
					contract.GitLabWebhook(t, event, payload)
				}
			}
			got := describe(h.Parse(eventOf(t, name), payload))
			golden := strings.TrimSuffix(file, ".json") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("read as\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestJunkIsAnErrorNotAnEvent(t *testing.T) {
	t.Parallel()
	h := standalone(t)
	for _, payload := range []string{"", "null", "{}", "[]", "{", `{"project":{}}`, `{"project":{"id":1,"path_with_namespace":"a/b"}}`, `{"project":{"id":1,"path_with_namespace":"a/b"},"object_attributes":{}}`, `{"project":{"id":1,"path_with_namespace":"a/b"},"object_attributes":null}`} {
		for _, event := range events {
			list, why, err := h.Parse(event, []byte(payload))
			if len(list) != 0 || (err == nil) == (why == "") {
				t.Errorf("%s %s: %v, %q, %v", event, payload, list, why, err)
			}
		}
	}
}

// A payload may be anything: whatever it is, events are well-formed, or there is a reason why there is none.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/webhooks/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		payload, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(eventOf(f, filepath.Base(file)), payload)
	}
	h := standalone(f)
	f.Fuzz(func(t *testing.T, event string, payload []byte) {
		list, why, err := h.Parse(event, payload)
		if len(list) == 0 && why == "" && err == nil {
			t.Error("nothing, for no reason")
		}
		if len(list) > 0 && (why != "" || err != nil) {
			t.Errorf("events and a reason against them: %q, %v", why, err)
		}
		for _, e := range list {
			valid := false
			switch e.Kind {
			case bot.EventComment:
				valid = e.Number > 0 && e.Comment != nil && e.Comment.ID > 0 && e.Comment.Kind != "" && e.Comment.Author.ID > 0 &&
					e.Comment.Author.Login != "" && !e.Comment.Author.Bot && !e.Comment.CreatedAt.IsZero()
			case bot.EventMergeRequest:
				valid = e.Number > 0
			case bot.EventChecks:
				valid = len(e.SHA) == 40 || len(e.SHA) == 64
			case bot.EventBranch:
				valid = e.Branch != ""
			}
			if !valid || e.Repository.ExternalID <= 0 || e.Repository.Path == "" || e.Repository.Host != "lab" {
				t.Errorf("malformed event %+v", e)
			}
		}
	})
}
