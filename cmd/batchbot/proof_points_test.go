//go:build faultpoints

package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/fault"
	"github.com/batchbot/batchbot/githost/fakehost"
)

// TestProofEveryPoint plays one story again and again, each time with a bot that is killed at another write point, before or after the
// write, and started again. The story ends the same each time, and passes every point there is.
func TestProofEveryPoint(t *testing.T) {
	t.Parallel()
	binary := proofBinary(t)
	reference, reached := killedAt(t, binary, "")
	var points []string
	for _, w := range fault.Writes() {
		points = append(points, "before "+string(w), "after "+string(w))
	}
	for _, point := range points {
		if reached[point] == 0 {
			t.Errorf("the story does not pass %s", point)
		}
	}
	for point := range reached {
		if !slices.Contains(points, point) {
			t.Errorf("the story passes %s, which is not in the list", point)
		}
	}
	began := time.Now()
	var killed, odd atomic.Int64
	t.Run("points", func(t *testing.T) {
		for _, point := range points {
			t.Run(point, func(t *testing.T) {
				t.Parallel()
				killed.Add(1)
				t.Cleanup(func() {
					if t.Failed() {
						odd.Add(1)
					}
				})
				end, _ := killedAt(t, binary, point)
				if end != reference {
					t.Errorf("killed %s it ends differently, undisturbed < killed >:\n%s", point, differences(reference, end))
				}
			})
		}
	})
	fmt.Fprintf(os.Stdout, "killed once at each of %d points and started again: %d ends are not as undisturbed; %.0f s\n", killed.Load(), odd.Load(), time.Since(began).Seconds())
}

// killedAt plays the story with a bot that is killed at a point, and returns how everything ends and which points were passed.
func killedAt(t *testing.T, binary, point string) (end string, reached map[string]int) {
	t.Helper()
	s := newPointStory(t, binary)
	ctx, stop := context.WithCancel(t.Context())
	var deaths []death
	var supervising sync.WaitGroup
	supervising.Go(func() {
		err := s.instance.supervise(ctx, func() life {
			if len(deaths) > 0 {
				return life{}
			}
			return life{fault: point}
		}, func(d death) {
			if d.err != nil {
				t.Errorf("the bot ended by itself: %v", d.err)
				stop()
			}
			deaths = append(deaths, d)
		})
		if err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(supervising.Wait)
	t.Cleanup(stop)
	s.play(t)
	end = s.end(t)
	stop()
	supervising.Wait()
	if want := min(1, len(point)); len(deaths) != want {
		t.Errorf("the bot died %d times, want %d at %q", len(deaths), want, point)
	}
	return end, passed(t, s.dir)
}

// pointStory is a small story in which the bot writes everything it can write.
type pointStory struct {
	world
	instance *instance
	rows     *demoRows
}

func newPointStory(t *testing.T, binary string) *pointStory {
	t.Helper()
	s := &pointStory{world: newWorld(t)}
	s.configure(t, "look: {interval: 1s, max_interval: 1s}\nrounds: {poll: 500ms}\n")
	t.Cleanup(func() {
		if log, err := os.ReadFile(filepath.Join(s.dir, "bot.log")); t.Failed() && err == nil {
			t.Logf("the bot logged:\n%s", tail(string(log), 40))
		}
	})
	s.instance = &instance{name: "bot", binary: binary, config: s.file, dir: s.dir}
	s.host.SetDeliver(func(ctx context.Context, d fakehost.Delivery) error {
		return hand(ctx, d, s.instance, webhookPath+s.kind)
	})
	s.must(t, s.host.AddRepository(fakehost.NewRepository{
		Owner: "acme", Name: "app", Files: map[string]string{".batchbot.yml": "queues:\n  - branch: main\n    checks: {required: [ci]}\n", "shared.txt": "old\n"},
		Permissions: map[string]string{"ada": fakehost.RoleWrite, "rita": fakehost.RoleMaintain},
	}))
	return s
}

func (s *pointStory) must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *pointStory) play(t *testing.T) {
	t.Helper()
	until := func(what string, holds func(snapshot) bool) {
		t.Helper()
		within(t, benchLimit, what, func() bool {
			if t.Failed() {
				t.FailNow()
			}
			n, err := s.look(t.Context())
			return err == nil && holds(n)
		})
	}
	becomes := func(number int, status bot.OperationStatus) {
		t.Helper()
		until(fmt.Sprintf("!%d to be %s", number, status), func(n snapshot) bool { return n.status(number) == status })
	}
	open := func(name string, files map[string]string) int {
		t.Helper()
		number, err := s.host.OpenMR(e2eRepo, fakehost.NewMR{Author: "ada", Head: name, Title: name, Files: files})
		s.must(t, err)
		return number
	}
	ask := func(number int) {
		t.Helper()
		_, err := s.host.Comment(e2eRepo, number, "ada", "/batch")
		s.must(t, err)
		becomes(number, bot.OperationPendingApproval)
		_, err = s.host.Review(e2eRepo, number, "rita", fakehost.Approved, "")
		s.must(t, err)
	}
	// The first waits in a batch of its own while the others gather.
	s.host.SetCI(fakehost.CI{Mode: fakehost.CIManual})
	first := open("first", map[string]string{"first.txt": "new\n"})
	good := open("good", map[string]string{"good.txt": "new\n"})
	loser := open("loser", map[string]string{"shared.txt": "mine\n"})
	red := open("red", map[string]string{"ci.fail.txt": "broken\n"})
	mover := open("mover", map[string]string{"mover.txt": "1\n"})
	_, err := s.host.Commit(e2eRepo, "main", "main", "rita", "Theirs", map[string]string{"shared.txt": "theirs\n"})
	s.must(t, err)
	// What was written before the bot came is not meant for it.
	until("the bot's first look", func(snapshot) bool {
		var n int
		err := s.rows.db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM repository WHERE comments_seen_at > 0`).Scan(&n)
		return err == nil && n == 1
	})
	ask(first)
	until("CI on the first batch", s.tests(first))
	for _, number := range []int{good, loser, red, mover} {
		ask(number)
		becomes(number, bot.OperationWaiting)
	}
	_, err = s.host.FinishCI("")
	s.must(t, err)
	until("CI on the second batch", s.tests(good, red, mover))
	_, err = s.host.PushTo(e2eRepo, mover, map[string]string{"mover.txt": "2\n"})
	s.must(t, err)
	until("CI without the one that moved", s.tests(good, red))
	s.host.SetCI(fakehost.CI{Mode: fakehost.CIImmediate})
	_, err = s.host.FinishCI("")
	s.must(t, err)
	// Approved anew only after the search, so that it never meets it.
	becomes(red, bot.OperationFailed)
	becomes(good, bot.OperationMerged)
	_, err = s.host.Review(e2eRepo, mover, "rita", fakehost.Approved, "")
	s.must(t, err)
	becomes(mover, bot.OperationMerged)
	until("silence", func(n snapshot) bool {
		for _, b := range n.batches {
			if b.Status.Active() {
				return false
			}
		}
		return n.unsaid == 0 && n.unheard == 0
	})
}

// tests is the condition that CI runs on a batch of just these members.
func (s *pointStory) tests(numbers ...int) func(snapshot) bool {
	return func(n snapshot) bool {
		for _, b := range n.batches {
			if b.Status == bot.BatchRunning && b.Phase == bot.PhaseOpened && slices.Equal(b.riding(), numbers) &&
				slices.ContainsFunc(s.host.CIRuns(), func(r fakehost.CIRun) bool { return r.SHA == b.HeadSHA && r.Conclusion == "" }) {
				return true
			}
		}
		return false
	}
}

func (s *pointStory) look(ctx context.Context) (snapshot, error) {
	if s.rows == nil {
		rows, err := openDemoRows(filepath.Join(s.dir, "data", "batchbot.db"))
		if err != nil {
			return snapshot{}, err
		}
		s.rows = rows
	}
	return s.rows.read(ctx)
}

// end is how everything ends: batches and operations, merge requests, what the bot said, the target's content and what is left of the bot.
func (s *pointStory) end(t *testing.T) string {
	t.Helper()
	n, err := s.look(t.Context())
	s.must(t, err)
	s.rows.close()
	var b strings.Builder
	for _, x := range n.batches {
		fmt.Fprintf(&b, "batch %d %s %s, %v of %d, MR %d, CI %q, differs %v\n", x.ID, x.Status, x.Code, x.riding(), x.Size, x.MRNumber, x.CIConclusion, x.LandedDiffers)
	}
	for _, o := range n.operations {
		fmt.Fprintf(&b, "operation of !%d %s %s %s\n", o.Number, o.Status, o.Reason, o.Detail)
	}
	state, err := s.host.State(e2eRepo)
	s.must(t, err)
	for _, m := range state.MergeRequests {
		fmt.Fprintf(&b, "host !%d %q %s\n", m.Number, m.Title, m.State)
		for _, c := range m.Comments {
			if c.Author == s.bot() {
				fmt.Fprintf(&b, "says on !%d: %s\n", m.Number, strings.Join(strings.Fields(c.Body), " "))
			}
		}
	}
	fmt.Fprintf(&b, "branches %q\n", slices.Sorted(maps.Keys(state.Branches)))
	git := filepath.Join(s.dir, "git", "acme", "app.git")
	fmt.Fprintf(&b, "content %s\n", gitOutput(t, git, "ls-tree", "-r", "main"))
	fmt.Fprintf(&b, "landings %d\n", len(firstParents(t, git)))
	return unnumbered(neutral(b.String()))
}

var commitNames = regexp.MustCompile(`commit-\d+|\b[0-9a-f]{7}\b`)

// impatient is a host's client: an instance that hangs loses its webhooks.
var impatient = &http.Client{Timeout: 3 * time.Second}

// unnumbered drops which commit is which: branches begin at other moments, and builds at other bases.
func unnumbered(text string) string { return commitNames.ReplaceAllString(text, "commit") }

// hand delivers a webhook to an instance, as the host does: once, and lost when nobody takes it.
func hand(ctx context.Context, d fakehost.Delivery, to *instance, path string) error {
	address := to.serving()
	if address == "" {
		return fmt.Errorf("%s is down", to.name)
	}
	req, err := d.Request(ctx, address+path)
	if err != nil {
		return err
	}
	res, err := impatient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("answered %s", res.Status)
	}
	return nil
}
