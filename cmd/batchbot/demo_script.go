package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/fakehost"
)

const (
	demoOwner      = "acme"
	demoName       = "webshop"
	demoRepository = demoOwner + "/" + demoName
	demoTarget     = "main"
	generatedFiles = 200
)

// demoChange is one merge request of the story and what is to become of it.
type demoChange struct {
	author, title string
	files         map[string]string
	approver      string // empty: nobody approves it
	fate          demoFate
}

type demoFate int

const (
	fateLands demoFate = iota
	fateConflicts
	fateMoves // its author pushes while CI runs
	fateUnapproved
	fateBreaks // CI fails with it
)

const (
	movingMR    = 6
	breaking    = "shop/payment-library.txt" // CI fails on what holds this file
	priceList   = "shop/prices.txt"
	priceFormat = "# How prices are shown\n\nformat: %s\ncurrency: EUR\n"
)

// demoChanges become the merge requests 1 to 9.
var demoChanges = []demoChange{
	{"ada", "Show prices with two decimals", map[string]string{priceList: fmt.Sprintf(priceFormat, "0.00")}, "ivy", fateLands},
	{"ben", "Translate the checkout page", map[string]string{"shop/checkout.de.txt": "Zur Kasse\n"}, "ivy", fateLands},
	{"cleo", "Speed up the search", map[string]string{"shop/search.txt": "index: trigram\n"}, "jan", fateLands},
	{"dan", "Log slow requests", map[string]string{"shop/server.txt": "log requests slower than 1s\n"}, "ivy", fateLands},
	{"eve", "Show prices in whole euros", map[string]string{priceList: fmt.Sprintf(priceFormat, "0")}, "jan", fateConflicts},
	{"finn", "Retry failed payments", map[string]string{"shop/payment.txt": "retries: 1\n"}, "ivy", fateMoves},
	{"ada", "Drop the newsletter", map[string]string{"shop/newsletter.txt": ""}, "", fateUnapproved},
	{"gwen", "Explain how to run the shop", map[string]string{"docs/running.md": "Run it with `shop serve`.\n"}, "jan", fateLands},
	{"hal", "Upgrade the payment library", map[string]string{breaking: "version: 2\n"}, "ivy", fateBreaks},
}

// numbersWith lists the merge requests with one of the fates.
func numbersWith(fates ...demoFate) []int {
	var numbers []int
	for i, c := range demoChanges {
		if slices.Contains(fates, c.fate) {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}

// play tells the story. Every step waits for what the step before brought about, so the outcome does not depend on timing.
func (d *demo) play(ctx context.Context) error {
	d.tell.step("%s (a fake of our own) serves at %s, batchbot at %s", d.kind.title, d.host.url, d.bot.address())
	if err := d.openRepository(ctx); err != nil {
		return err
	}
	if err := d.openMergeRequests(); err != nil {
		return err
	}
	// A bot that is killed finds what it missed by looking, and what was written before its first look is not meant for it.
	if err := d.until(ctx, "the bot's first look", func(n snapshot) bool { return n.looked }); err != nil {
		return err
	}
	d.known = true
	d.tell.chapter("The authors comment /batch")
	for i, c := range demoChanges {
		if err := d.comment(i+1, c.author, "/batch"); err != nil {
			return err
		}
		if err := d.until(ctx, fmt.Sprintf("#%d to be applied", i+1), func(n snapshot) bool {
			return n.status(i+1) == bot.OperationPendingApproval
		}); err != nil {
			return err
		}
	}
	d.tell.chapter("All but one are approved")
	for i, c := range demoChanges {
		if c.approver == "" {
			continue
		}
		d.tell.said(i+1, c.approver, "approves")
		if _, err := d.host.Review(demoRepository, i+1, c.approver, fakehost.Approved, ""); err != nil {
			return fmt.Errorf("approving #%d: %w", i+1, err)
		}
		if err := d.until(ctx, fmt.Sprintf("#%d to wait for a batch", i+1), func(n snapshot) bool {
			return n.status(i+1) == bot.OperationWaiting
		}); err != nil {
			return err
		}
	}
	d.tell.chapter("A round starts")
	d.bot.begin()
	if err := d.until(ctx, "CI to run on the batch", d.ciRunsWith(movingMR, true)); err != nil {
		return err
	}
	d.tell.chapter(demoChanges[movingMR-1].author + " pushes while CI runs")
	d.tell.said(movingMR, demoChanges[movingMR-1].author, "pushes one more commit")
	if _, err := d.host.PushTo(demoRepository, movingMR, map[string]string{"shop/payment.txt": "retries: 3\n"}); err != nil {
		return fmt.Errorf("pushing to #%d: %w", movingMR, err)
	}
	if err := d.until(ctx, "the batch to go on without the member that moved", d.ciRunsWith(movingMR, false)); err != nil {
		return err
	}
	d.tell.chapter("CI finishes")
	if err := d.finishCI(); err != nil {
		return err
	}
	err := d.until(ctx, "everything to settle", func(n snapshot) bool { return n.settled() })
	d.bot.calm()
	if err == nil {
		err = d.rideTrain(ctx)
	}
	if err == nil {
		err = d.landCurated(ctx)
	}
	return err
}

// demoVerdict is what CI says of a commit in a repository.
func demoVerdict(repository string) func(fakehost.CIRun) string {
	git := demoGit(repository)
	return func(run fakehost.CIRun) string {
		if _, err := git(context.Background(), "cat-file", "-e", run.SHA+":"+breaking); err == nil {
			return "failure"
		}
		return "success"
	}
}

func (d *demo) openRepository(ctx context.Context) error {
	roles := map[string]string{"ivy": fakehost.RoleMaintain, "jan": fakehost.RoleWrite}
	for _, c := range demoChanges {
		roles[c.author] = fakehost.RoleWrite
	}
	err := d.host.AddRepository(fakehost.NewRepository{
		Owner: demoOwner, Name: demoName, DefaultBranch: demoTarget, Permissions: roles, Generate: generatedFiles,
		Files: map[string]string{
			"README.md":           "# " + demoName + "\n",
			".batchbot.yml":       "queues:\n  - branch: " + demoTarget + "\n    checks: {required: [ci]}\n" + demoTrainFile,
			priceList:             fmt.Sprintf(priceFormat, "0.0"),
			"shop/search.txt":     "index: none\n",
			"shop/newsletter.txt": "every Monday\n",
		},
	})
	if err != nil {
		return fmt.Errorf("making the repository: %w", err)
	}
	d.tell.step("%s has more than %d files; .batchbot.yml on %s asks for one approval and the check ci", demoRepository, generatedFiles, demoTarget)
	if d.kind.app {
		return nil
	}
	d.tell.step("batchbot gives it a webhook, as `batchbot hook create` does")
	return ensureHooks(ctx, d.settings, nil, io.Discard)
}

func (d *demo) openMergeRequests() error {
	d.tell.chapter("Nine merge requests")
	for i, c := range demoChanges {
		number, err := d.openMR(c)
		if err != nil {
			return err
		}
		if number != i+1 {
			return fmt.Errorf("merge request %q got the number %d, not %d", c.title, number, i+1)
		}
	}
	return nil
}

// openMR opens the merge request of one change.
func (d *demo) openMR(c demoChange) (int, error) {
	branch := fmt.Sprintf("%s/%s", c.author, strings.ToLower(strings.ReplaceAll(c.title, " ", "-")))
	number, err := d.host.OpenMR(demoRepository, fakehost.NewMR{Author: c.author, Head: branch, Base: demoTarget, Title: c.title, Files: c.files})
	if err != nil {
		return 0, fmt.Errorf("opening a merge request: %w", err)
	}
	d.tell.said(number, c.author, "opens “"+c.title+"”, which touches "+strings.Join(slices.Sorted(maps.Keys(c.files)), ", "))
	return number, nil
}

func (d *demo) comment(number int, author, text string) error {
	d.tell.said(number, author, "“"+text+"”")
	if _, err := d.host.Comment(demoRepository, number, author, text); err != nil {
		return fmt.Errorf("commenting on #%d: %w", number, err)
	}
	return nil
}

// ciRunsWith is the condition that CI runs on the head of a batch that has number as a member, or has it no longer.
func (d *demo) ciRunsWith(number int, member bool) func(snapshot) bool {
	return func(n snapshot) bool {
		if (n.status(number) == bot.OperationBatched) != member {
			return false
		}
		for _, b := range n.batches {
			if b.Status == bot.BatchRunning && b.Phase == bot.PhaseOpened && slices.ContainsFunc(n.ci, func(r fakehost.CIRun) bool {
				return r.SHA == b.HeadSHA && r.Conclusion == ""
			}) {
				return true
			}
		}
		return false
	}
}

func (d *demo) finishCI() error {
	if _, err := d.host.FinishCI(""); err != nil {
		return fmt.Errorf("finishing CI: %w", err)
	}
	// A batch that comes after this one need not be watched: its CI is as quick as CI can be.
	d.host.SetCI(fakehost.CI{Mode: fakehost.CIImmediate, BranchPrefix: bot.BatchBranchPrefix})
	return nil
}

// until looks at the host and the bot's rows until they are as wanted, and tells everything new it sees.
func (d *demo) until(ctx context.Context, what string, wanted func(snapshot) bool) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		happened, err := d.bot.stir(time.Now(), d.known)
		if err != nil {
			return fmt.Errorf("while the demo waited for %s: %w", what, err)
		}
		if happened != "" {
			d.tell.step("   %s", happened)
		}
		now, err := d.look(ctx)
		if err == nil {
			d.tell.see(now)
			if wanted(now) {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("waited for %s until the time was up: %s", what, now.summary())
			}
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// look reads the world as it is now.
func (d *demo) look(ctx context.Context) (snapshot, error) {
	state, err := d.host.State(demoRepository)
	if err != nil {
		return snapshot{}, err
	}
	n, err := d.rows.read(ctx)
	n.mrs, n.ci = state.MergeRequests, state.CIRuns
	return n, err
}
