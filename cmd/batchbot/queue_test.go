package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/config"
)

// A queue that parked itself is found, understood and opened again from the command line.
func TestAnOperatorOpensAParkedQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	settings, err := config.Load(w.file, nil)
	if err != nil {
		t.Fatal(err)
	}
	db, err := openStore(t.Context(), settings, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	repo, err := db.UpsertRepository(t.Context(), bot.RepositoryRef{Host: "github", ExternalID: 7, Path: "acme/app", DefaultBranch: "main"})
	if err != nil {
		t.Fatal(err)
	}
	queue, err := db.UpsertQueue(t.Context(), repo.ID, bot.DefaultQueueSettings("main"), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := db.ParkQueue(t.Context(), queue.ID, "NO_CI: no check appeared\x1b[2J"); err != nil {
		t.Fatal(err)
	}

	queueCommand := func(args ...string) (int, string, string) {
		return command(t, nil, append([]string{"queue", "--config", w.file}, args...)...)
	}
	code, stdout, stderr := queueCommand("list")
	if code != exitDone || strings.Contains(stdout, "\x1b") {
		t.Errorf("list exits %d: %q %q", code, stdout, stderr)
	}
	contains(t, "queue list", stdout, "QUEUE", "github/acme/app:main", "PARKED", "NO_CI: no check appeared")
	for i, want := range []string{"github/acme/app:main is open\n", "github/acme/app:main is open already\n"} {
		if code, stdout, stderr := queueCommand("resume", "acme/app:main"); code != exitDone || stdout != want {
			t.Errorf("resume %d exits %d and says %q %q, want %q", i+1, code, stdout, stderr, want)
		}
	}
	if code, stdout, _ := queueCommand("pause", "github/acme/app:main", "--reason", "release day"); code != exitDone || stdout != "github/acme/app:main is paused\n" {
		t.Errorf("pause exits %d and says %q", code, stdout)
	}
	code, stdout, _ = queueCommand("list", "--json")
	var lines []queueLine
	if err := json.Unmarshal([]byte(stdout), &lines); err != nil || code != exitDone {
		t.Fatalf("list --json exits %d: %v in %q", code, err, stdout)
	}
	if want := []queueLine{{Queue: "github/acme/app:main", State: "PAUSED", Reason: "release day"}}; !slices.Equal(lines, want) {
		t.Errorf("list --json prints %+v, want %+v", lines, want)
	}

	code, _, stderr = queueCommand("resume", "acme/app:release")
	if want := "batchbot: no queue \"acme/app:release\": `batchbot queue list` shows their names\n"; code != exitFailed || stderr != want {
		t.Errorf("an unknown queue exits %d and says %q, want %q", code, stderr, want)
	}
	code, _, stderr = queueCommand("resume")
	if want := "batchbot: batchbot queue resume wants one queue, OWNER/NAME:BRANCH: `batchbot queue list` shows their names\n"; code != exitUsage || stderr != want {
		t.Errorf("no queue exits %d and says %q, want %q", code, stderr, want)
	}
}

func TestAPathOnTwoHostsNeedsTheHostsName(t *testing.T) {
	t.Parallel()
	list := []bot.QueueOverview{
		{Queue: bot.Queue{ID: 1, Target: "main"}, Repository: bot.Repository{RepositoryRef: bot.RepositoryRef{Host: "github", Path: "a/b"}}},
		{Queue: bot.Queue{ID: 2, Target: "main"}, Repository: bot.Repository{RepositoryRef: bot.RepositoryRef{Host: "work", Path: "a/b"}}},
	}
	if _, err := findQueue(list, "a/b:main"); err == nil || err.Error() != `2 hosts have a queue "a/b:main": write github/a/b:main` {
		t.Errorf("an ambiguous name says %v", err)
	}
	if q, err := findQueue(list, "work/a/b:main"); err != nil || q.Queue.ID != 2 {
		t.Errorf("found %+v, %v", q, err)
	}
}

func TestWebhookPaths(t *testing.T) {
	t.Parallel()
	one, two := config.Host{Name: "github", Type: "github"}, config.Host{Name: "work", Type: "github"}
	if got, want := webhookPaths([]config.Host{one}, one), []string{"/webhooks/github", "/webhooks/github/github"}; !slices.Equal(got, want) {
		t.Errorf("the only host listens at %q, want %q", got, want)
	}
	if got, want := webhookPaths([]config.Host{one, two}, two), []string{"/webhooks/github/work"}; !slices.Equal(got, want) {
		t.Errorf("one of two listens at %q, want %q", got, want)
	}
}
