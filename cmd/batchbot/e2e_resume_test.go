package main

import (
	"syscall"
	"testing"
	"time"

	"github.com/batchbot/batchbot/config"
	"github.com/batchbot/batchbot/githost/fakehost"
)

// Two processes on one MySQL. The one that hears every webhook is killed while CI runs on its batch; the other, which hears nothing and looks at
// the repository once an hour, goes on from the rows by its poll.
func TestAnotherProcessContinuesABatch(t *testing.T) {
	t.Parallel()
	s := newStage(t, config.GitHub)
	const deaf = "look: {interval: 1h, max_interval: 1h}\nrounds: {poll: 1s}\n"
	first, second := s.instance(t, "first", deaf), s.instance(t, "second", deaf)
	if code, stdout, stderr := command(t, nil, "migrate", "--config", first); code != exitDone {
		t.Fatalf("migrate exits %d: %s%s", code, stdout, stderr)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.client.SetCI(t.Context(), fakehost.CI{Mode: fakehost.CIManual}))
	must(s.client.AddRepository(t.Context(), fakehost.NewRepository{
		Owner: "acme", Name: "app", Files: map[string]string{".batchbot.yml": "queues:\n  - branch: main\n    checks: {required: [ci]}\n"},
		Permissions: map[string]string{"ada": fakehost.RoleWrite, "rita": fakehost.RoleMaintain},
	}))
	server, address := startServe(t, s.dir, first)
	must(s.client.SetWebhook(t.Context(), s.webhook(address), hookSecret))
	number, err := s.client.OpenMR(t.Context(), e2eRepo, fakehost.NewMR{Author: "ada", Head: "one", Title: "One", Files: map[string]string{"one.txt": "new\n"}})
	must(err)
	_, err = s.client.Review(t.Context(), e2eRepo, number, "rita", fakehost.Approved, "")
	must(err)
	_, err = s.client.Comment(t.Context(), e2eRepo, number, "ada", "/batch")
	must(err)
	within(t, benchLimit, "a batch that waits for CI", func() bool {
		return count(t, s.db, `SELECT COUNT(*) FROM merge_batch WHERE status = 1 AND phase = 3`) == 1
	})
	startServe(t, s.dir, second)
	must(server.Process.Signal(syscall.SIGKILL))
	_ = server.Wait()
	killed := time.Now()
	_, err = s.client.FinishCI(t.Context(), "")
	must(err)
	within(t, benchLimit, "the landing", func() bool {
		return count(t, s.db, `SELECT COUNT(*) FROM operation WHERE status = 4`) == 1
	})
	t.Logf("landed %s after the first process had died; the second polls once a second", time.Since(killed).Round(10*time.Millisecond))
	within(t, benchLimit, "silence", func() bool { return s.quiet(t) })
	if n := s.checkLanded(t); n != 1 {
		t.Errorf("%d batches landed, want 1", n)
	}
	if n := count(t, s.db, `SELECT COUNT(*) FROM merge_batch`); n != 1 {
		t.Errorf("%d batches were made for one merge request", n)
	}
}
