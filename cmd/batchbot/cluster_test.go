//go:build cluster

package main

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/batchbot/batchbot/config"
	"github.com/batchbot/batchbot/githost/fakehost"
	"github.com/batchbot/batchbot/store/clustertest"
)

// Two instances run on a group of three MySQL nodes whose primary is killed twice, each time while a batch is in CI and people go on asking.
// Nothing but the database goes away: the processes are the same at the end, everything has landed once, and everything was said once.
func TestClusterInstancesOutliveTheirPrimary(t *testing.T) {
	cluster := clustertest.Open(t)
	front := clustertest.Follow(t, cluster.Primary)
	t.Setenv("TEST_MYSQL_DSN", cluster.DSN(front.Address, ""))
	s := newStage(t, config.GitHub, "--ci", "delay", "--ci-delay", "3s")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.client.AddRepository(t.Context(), fakehost.NewRepository{
		Owner: "acme", Name: "app", Generate: 30,
		Files:       map[string]string{".batchbot.yml": "queues:\n  - branch: main\n    max_batch_size: 4\n    checks: {required: [ci]}\n"},
		Permissions: map[string]string{"ada": fakehost.RoleWrite, "rita": fakehost.RoleMaintain},
	}))
	var numbers []int
	ask := func(n int) {
		t.Helper()
		for range n {
			i := len(numbers)
			number, err := s.client.OpenMR(t.Context(), e2eRepo, fakehost.NewMR{
				Author: "ada", Head: fmt.Sprintf("feature-%d", i), Title: fmt.Sprintf("Feature %d", i), Files: map[string]string{fmt.Sprintf("feature-%d.txt", i): "new\n"},
			})
			must(err)
			numbers = append(numbers, number)
			_, err = s.client.Comment(t.Context(), e2eRepo, number, "ada", "/batch")
			must(err)
			_, err = s.client.Review(t.Context(), e2eRepo, number, "rita", fakehost.Approved, "")
			must(err)
		}
	}
	landed := func() bool {
		merged := 0
		for _, mr := range s.state(t).MergeRequests {
			if slices.Contains(numbers, mr.Number) && mr.State == "merged" {
				merged++
			}
		}
		return merged == len(numbers)
	}

	if code, stdout, stderr := command(t, nil, "migrate", "--config", s.instance(t, "one", "")); code != exitDone {
		t.Fatalf("migrate exits %d: %s%s", code, stdout, stderr)
	}
	var instances []*process
	var webhooks []string
	for _, name := range []string{"one", "two"} {
		p, address := startServe(t, s.dir, s.instance(t, name, "look: {interval: 1s, max_interval: 1s}\nrounds: {poll: 500ms}\n"))
		instances, webhooks = append(instances, p), append(webhooks, s.webhook(address))
	}
	r := startRelay(t, fine, webhooks...)
	must(s.client.SetWebhook(t.Context(), r.url, hookSecret))

	for _, blow := range []string{"killed", "killed again"} {
		ask(5)
		within(t, time.Minute, "a batch in CI", func() bool {
			return count(t, s.db, `SELECT COUNT(*) FROM merge_batch WHERE status = 1 AND phase = 3`) == 1
		})
		before := count(t, s.db, `SELECT COALESCE(MAX(id), 0) FROM merge_batch`)
		primary, struck := front.Primary(), time.Now()
		cluster.Signal(t, primary, syscall.SIGKILL)
		ask(4) // nobody can take these webhooks
		within(t, 2*time.Minute, "another primary", func() bool {
			now := front.Primary()
			return now != "" && now != primary
		})
		elected := time.Since(struck)
		within(t, time.Minute, "the batch of before to land and another to begin", func() bool {
			return count(t, s.db, fmt.Sprintf(`SELECT COUNT(*) FROM merge_batch WHERE id = %d AND status = 2`, before)) == 1 &&
				count(t, s.db, fmt.Sprintf(`SELECT COUNT(*) FROM merge_batch WHERE id > %d`, before)) > 0
		})
		t.Logf("primary %s: another after %.1f s, the batch in CI had landed and another begun after %.1f s", blow, elected.Seconds(), time.Since(struck).Seconds())
		cluster.Whole(t)
	}
	within(t, 2*time.Minute, "everything to land, and silence", func() bool { return landed() && s.quiet(t) })

	for i, p := range instances {
		if err := p.Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("instance %d did not live: %v", i+1, err)
		}
	}
	if n := count(t, s.db, `SELECT COUNT(*) FROM operation`); n != len(numbers) {
		t.Errorf("%d operations for %d merge requests", n, len(numbers))
	}
	if n := count(t, s.db, `SELECT COUNT(*) FROM merge_batch_member WHERE event = 4`); n != len(numbers) {
		t.Errorf("%d members landed, want %d", n, len(numbers))
	}
	if n := count(t, s.db, `SELECT COUNT(*) FROM delivery WHERE status = 4`); n != 0 {
		t.Errorf("%d deliveries were given up", n)
	}
	if n := count(t, s.db, `SELECT COUNT(*) FROM outbox WHERE status = 3`); n != 0 {
		t.Errorf("%d errands were given up", n)
	}
	batches := s.checkLanded(t)
	said := checkNothingTwice(t, s.state(t))
	received, answers := r.counted()
	t.Logf("%d merge requests landed in %d batches with %d comments; %d webhooks were answered with %v", len(numbers), batches, said, received, answers)
}
