package main

import (
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/config"
	"github.com/batchbot/batchbot/githost/fakehost"
)

// TestOneProgramServesThreeHosts is a mixed deployment: one program, one GitHub and two GitLabs, on which repositories have the same path and merge
// requests the same number. On each one merge request lands, and what is said on one host is about that host only.
func TestOneProgramServesThreeHosts(t *testing.T) {
	t.Parallel()
	hosts := []struct {
		name, webhook string
		world
	}{
		{"github", "/webhooks/github", newWorldOn(t, config.GitHub)},
		{"office", "/webhooks/gitlab/office", newWorldOn(t, config.GitLab)},
		{"lab", "/webhooks/gitlab/lab", newWorldOn(t, config.GitLab)},
	}
	dir := t.TempDir()
	var entries strings.Builder
	for _, h := range hosts {
		entries.WriteString(h.hostSettings(h.name, h.host.url))
	}
	one := world{dir: dir, file: filepath.Join(dir, "batchbot.yml")}
	// The periodic look is far away: what arrives arrives by webhook.
	one.write(t, "batchbot.yml", "listen: 127.0.0.1:0\ndata_dir: "+dir+"/data\nlook: {interval: 10m, max_interval: 10m}\nhosts:"+entries.String())
	var log logbook
	p := one.startLogging(t, slog.NewJSONHandler(&log, nil))
	settings := p.settings
	settings.PublicURL = p.url

	numbers := make([]int, len(hosts))
	for _, h := range hosts {
		err := h.host.AddRepository(fakehost.NewRepository{
			Owner: "acme", Name: "app", Files: map[string]string{".batchbot.yml": "queues:\n  - branch: main\n    checks: {required: [ci]}\n"},
			Permissions: map[string]string{"ada": fakehost.RoleWrite, "rita": fakehost.RoleMaintain},
		})
		if err != nil {
			t.Fatal(err)
		}
		if h.kind == config.GitHub {
			h.host.SetWebhook(p.url+h.webhook, hookSecret)
		}
	}
	var made strings.Builder
	if err := ensureHooks(t.Context(), settings, nil, &made); err != nil {
		t.Fatal(err)
	}
	contains(t, "hook create", made.String(), "office/acme/app  created  "+p.url+"/webhooks/gitlab/office\n", "lab/acme/app     created  "+p.url+"/webhooks/gitlab/lab\n")

	for i, h := range hosts {
		n, err := h.host.OpenMR(e2eRepo, fakehost.NewMR{Author: "ada", Head: "topic", Title: "For " + h.name, Files: map[string]string{h.name + ".txt": "new\n"}})
		if err != nil {
			t.Fatal(err)
		}
		if numbers[i] = n; n != numbers[0] {
			t.Fatalf("the merge requests have different numbers: %v", numbers)
		}
		if _, err := h.host.Comment(e2eRepo, n, "ada", "/batch"); err != nil {
			t.Fatal(err)
		}
		if _, err := h.host.Review(e2eRepo, n, "rita", fakehost.Approved, ""); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := openDemoRows(settings.Database.Path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rows.close)
	within(t, benchLimit, "three landings and silence", func() bool {
		for i, h := range hosts {
			if mr, err := h.host.MR(e2eRepo, numbers[i]); err != nil || mr.State != "merged" {
				return false
			}
		}
		return quiet(t, rows.db)
	})

	for i, h := range hosts {
		files := strings.Fields(gitOutput(t, h.host.RepoPath("acme", "app"), "ls-tree", "-r", "--name-only", "main"))
		if want := []string{".batchbot.yml", h.name + ".txt"}; !slices.Equal(files, want) {
			t.Errorf("main of %s holds %v, want %v", h.name, files, want)
		}
		comments, err := h.host.Comments(e2eRepo, numbers[i])
		if err != nil {
			t.Fatal(err)
		}
		landed := false
		for _, c := range comments {
			landed = landed || c.Author == h.bot() && strings.Contains(c.Body, "Landed with batch") && strings.Contains(c.Body, h.host.url)
			for _, other := range hosts {
				if other.name != h.name && strings.Contains(c.Body, other.host.url) {
					t.Errorf("on %s something of %s is said: %s", h.name, other.name, c.Body)
				}
			}
		}
		if !landed {
			t.Errorf("on %s nothing says that it landed: %+v", h.name, comments)
		}
		var n int
		err = rows.db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM merge_batch b JOIN queue q ON q.id = b.queue_id JOIN repository r ON r.id = q.repository_id
			WHERE r.host = ? AND b.status = ? AND b.size = 1`, h.name, bot.BatchSucceeded).Scan(&n)
		if err != nil || n != 1 {
			t.Errorf("%s has %d batches that landed (%v), want 1", h.name, n, err)
		}
	}
	if _, saying := log.complaints(""); saying != 0 {
		t.Errorf("the log complains:\n%s", tail(log.String(), 30))
	}
}
