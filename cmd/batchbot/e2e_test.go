package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batchbot/batchbot/config"
	"github.com/batchbot/batchbot/githost/fakehost"
)

// TestTwelveMergeRequestsLandThroughRealProcesses is the main job with nothing of it inside the test: the serve process, a Git host in
// another process, MySQL, git over HTTP, webhooks over HTTP. Twelve merge requests, of which two cannot both land, go through in batches of at most six;
// then every webhook is delivered a second time and changes nothing.
func TestTwelveMergeRequestsLandThroughRealProcesses(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{config.GitHub, config.GitLab} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			landTwelve(t, newStage(t, kind, "--ci", "delay", "--ci-delay", "200ms"))
		})
	}
}

func landTwelve(t *testing.T, s stage) {
	t.Helper()
	client, db := s.client, s.db
	file := s.instance(t, "one", "")

	if code, _, stderr := command(t, nil, "serve", "--config", file); code != exitFailed || !strings.Contains(stderr, "batchbot migrate") {
		t.Fatalf("serve on an empty database exits %d and says %q, want the remedy", code, stderr)
	}
	if code, stdout, stderr := command(t, nil, "migrate", "--config", file); code != exitDone {
		t.Fatalf("migrate exits %d: %s%s", code, stdout, stderr)
	}
	server, address := startServe(t, s.dir, file)

	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(client.SetWebhook(t.Context(), s.webhook(address), hookSecret))
	must(client.AddRepository(t.Context(), fakehost.NewRepository{
		Owner: "acme", Name: "app", Generate: 30,
		Files:       map[string]string{".batchbot.yml": "queues:\n  - branch: main\n    max_batch_size: 6\n    checks: {required: [ci]}\n", "shared.txt": "as it was\n"},
		Permissions: map[string]string{"ada": fakehost.RoleWrite, "ben": fakehost.RoleWrite, "cleo": fakehost.RoleRead, "rita": fakehost.RoleMaintain},
	}))
	authors := []string{"ada", "ben", "cleo"}
	var numbers []int
	for i := range 12 {
		files := map[string]string{fmt.Sprintf("feature-%d.txt", i): "new\n"}
		if i == 2 || i == 7 { // these two contradict each other
			files["shared.txt"] = fmt.Sprintf("as %d wants it\n", i)
		}
		number, err := client.OpenMR(t.Context(), e2eRepo, fakehost.NewMR{
			Author: authors[i%3], Head: fmt.Sprintf("feature-%d", i), Title: fmt.Sprintf("Feature %d", i), Files: files,
		})
		must(err)
		numbers = append(numbers, number)
	}
	// Half of them are approved first, half of them asked for first; one in a review body.
	for i, n := range numbers {
		ask := func() {
			_, err := client.Comment(t.Context(), e2eRepo, n, authors[i%3], "Looks done to me.\r\n\r\n/batch\r\n")
			must(err)
		}
		approve := func() {
			body := ""
			if i == 4 {
				body = "/batch"
			}
			_, err := client.Review(t.Context(), e2eRepo, n, "rita", fakehost.Approved, body)
			must(err)
		}
		switch {
		case i == 4:
			approve()
		case i%2 == 0:
			ask()
			approve()
		default:
			approve()
			ask()
		}
	}
	loser := numbers[7]
	settled := func() bool {
		merged := 0
		for _, mr := range s.state(t).MergeRequests {
			if slices.Contains(numbers, mr.Number) && mr.State == "merged" {
				merged++
			}
		}
		return merged == 11 && s.quiet(t)
	}
	within(t, 90*time.Second, "eleven landings and silence", settled)

	for _, mr := range s.state(t).MergeRequests {
		switch {
		case mr.Number == loser && mr.State != "open":
			t.Errorf("!%d, which contradicts another one, is %s", mr.Number, mr.State)
		case slices.Contains(numbers, mr.Number) && mr.Number != loser && mr.State != "merged":
			t.Errorf("!%d is %s, want merged", mr.Number, mr.State)
		}
	}
	if n := count(t, db, `SELECT COUNT(*) FROM operation WHERE status = 9 AND reason = 'conflict' AND detail LIKE '%shared.txt%'`); n != 1 {
		t.Errorf("%d operations failed with the conflicting file named, want 1", n)
	}
	if n := s.checkLanded(t); n < 2 {
		t.Errorf("%d batches landed, want at least 2", n)
	}
	history := firstParents(t, s.git)

	before, said := count(t, db, `SELECT COUNT(*) FROM delivery`), comments(s.state(t))
	again, err := client.RedeliverAll(t.Context())
	must(err)
	if again < before {
		t.Errorf("%d webhooks were delivered again, but %d are known", again, before)
	}
	within(t, 60*time.Second, "the redelivery to be done with", func() bool {
		deliveries, err := client.Deliveries(t.Context())
		must(err)
		twice := 0
		for _, d := range deliveries {
			if len(d.Attempts) >= 2 {
				twice++
			}
		}
		return twice >= again && settled()
	})
	if n := count(t, db, `SELECT COUNT(*) FROM delivery WHERE status = 4`); n != 0 {
		t.Errorf("%d deliveries failed", n)
	}
	if after := firstParents(t, s.git); !slices.Equal(after, history) {
		t.Errorf("a redelivery changed the target from\n%v to\n%v", history, after)
	}
	if n := count(t, db, `SELECT COUNT(*) FROM operation`); n != 12 {
		t.Errorf("there are %d operations, want 12", n)
	}
	if now := comments(s.state(t)); !maps.Equal(now, said) {
		t.Errorf("a redelivery changed the number of comments from %v to %v", said, now)
	}

	must(server.Process.Signal(syscall.SIGTERM))
	if err := server.Wait(); err != nil {
		t.Errorf("serve ended with %v after SIGTERM", err)
	}
}
