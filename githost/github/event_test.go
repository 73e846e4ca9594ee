package github_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/github"
	"github.com/batchbot/batchbot/githost/hosttest/contract"
)

var update = flag.Bool("update", false, "write what payloads are read as to testdata/webhooks")

// standalone is an adapter nobody answers.
func standalone(t testing.TB) *github.Host {
	t.Helper()
	_, pem := appKey()
	h, err := github.New(github.Config{Name: "hub", AppID: 1, PrivateKey: pem, WebhookSecrets: []bot.Secret{secret}, HTTPTransport: nobody{}})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// describe puts events in words, so that golden files can be read.
func describe(events []bot.Event, why string, err error) string {
	var b strings.Builder
	ref := func(r bot.RepositoryRef) string {
		return fmt.Sprintf("%s %d %s (installation %d, default branch %q)", r.Host, r.ExternalID, r.Path, r.Installation, r.DefaultBranch)
	}
	for _, e := range events {
		switch e.Kind {
		case bot.EventComment:
			c := e.Comment
			fmt.Fprintf(&b, "comment on %d: %s %d on %d by %s (%d, bot %v) at %s: %q\n", e.Number, c.Kind, c.ID, c.Number, c.Author.Login, c.Author.ID, c.Author.Bot, c.CreatedAt.Format(time.RFC3339), c.Body)
		case bot.EventMergeRequest:
			fmt.Fprintf(&b, "merge request %d\n", e.Number)
		case bot.EventChecks:
			fmt.Fprintf(&b, "checks of %s\n", e.SHA)
		case bot.EventBranch:
			fmt.Fprintf(&b, "branch %s\n", e.Branch)
		case bot.EventRepository:
			fmt.Fprintf(&b, "repository\n")
		case bot.EventInstallation:
			i := e.Installation
			fmt.Fprintf(&b, "installation %d of %s: removed all %v, read all %v\n", i.Installation, i.Host, i.RemovedAll, i.ReadAll)
			for _, r := range i.Added {
				fmt.Fprintf(&b, "  added %s\n", ref(r))
			}
			for _, r := range i.Removed {
				fmt.Fprintf(&b, "  removed %s\n", ref(r))
			}
			continue
		default:
			fmt.Fprintf(&b, "event of no kind: %+v\n", e)
		}
		fmt.Fprintf(&b, "  in %s\n", ref(e.Repository))
	}
	if why != "" {
		fmt.Fprintf(&b, "not for us: %s\n", why)
	}
	if err != nil {
		fmt.Fprintf(&b, "error: %v\n", err)
	}
	return b.String()
}

// undescribed payloads are not as GitHub describes them, and why there are such.
var undescribed = map[string]string{
	"check_run.completed-odd-time": "a time in a form GitHub does not describe must not cost the event",
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
			event, _, _ := strings.Cut(name, ".")
			got := describe(h.Parse(event, payload))
			// The files hold what is read of a payload; nothing else in it changes that.
			if undescribed[name] == "" {
				if full := describe(h.Parse(event, contract.Excerpt(t, event, payload))); full != got {
					t.Errorf("with all that GitHub sends read as\n%s\nwithout as\n%s", full, got)
				}
			}
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
	for _, payload := range []string{"", "null", "{}", "[]", "{", `{"repository":{}}`, `{"repository":{"id":1,"full_name":"a/b"},"action":"created"}`, `{"installation":null}`} {
		for _, event := range []string{"issue_comment", "pull_request_review", "check_run", "status", "installation"} {
			events, why, err := h.Parse(event, []byte(payload))
			if len(events) != 0 || (err == nil) == (why == "") {
				t.Errorf("%s %s: %v, %q, %v", event, payload, events, why, err)
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
		event, _, _ := strings.Cut(filepath.Base(file), ".")
		f.Add(event, payload)
	}
	h := standalone(f)
	f.Fuzz(func(t *testing.T, event string, payload []byte) {
		events, why, err := h.Parse(event, payload)
		if len(events) == 0 && why == "" && err == nil {
			t.Error("nothing, for no reason")
		}
		if len(events) > 0 && (why != "" || err != nil) {
			t.Errorf("events and a reason against them: %q, %v", why, err)
		}
		for _, e := range events {
			valid := false
			switch e.Kind {
			case bot.EventComment:
				valid = e.Number > 0 && e.Comment != nil && e.Comment.ID != 0 && e.Comment.Kind != "" && e.Comment.Author.Login != "" && !e.Comment.Author.Bot
			case bot.EventMergeRequest:
				valid = e.Number > 0
			case bot.EventChecks:
				valid = len(e.SHA) == 40 || len(e.SHA) == 64
			case bot.EventBranch:
				valid = e.Branch != ""
			case bot.EventInstallation:
				valid = e.Installation != nil && e.Installation.Installation != 0
			case bot.EventRepository:
				valid = true
			}
			if e.Kind != bot.EventInstallation {
				valid = valid && e.Repository.ExternalID != 0 && e.Repository.Path != "" && e.Repository.Host == "hub"
			}
			if !valid {
				t.Errorf("malformed event %+v", e)
			}
		}
	})
}

var errNobody = errors.New("nobody answers")
