//go:build faultpoints

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/fakehost"
)

// fate is what a merge request of a proof is made for.
type fate int

const (
	fated      fate = iota // lands
	fatedClash             // conflicts with the target
	fatedRival             // conflicts with the next one: one of the two lands
	fatedRed               // breaks CI
	fatedAlone             // nobody approves it
	fatedMover             // its author pushes on the way; it is approved again and lands
	fatedGone              // its author cancels on the way, maybe too late
	fatedShut              // its author closes it on the way, maybe too late
)

// wish is one merge request of a proof.
type wish struct {
	fate
	number, rival int
	author, head  string

	once  sync.Once
	rides chan struct{} // closed when CI runs on a batch with it
}

// town is a Git host with a repository and its people.
type town struct {
	world
	landing bot.Landing
	repo    string // its folder
	wishes  []*wish

	mu     sync.Mutex
	dice   *rand.Rand      // of webhooks and CI
	pushed map[string]bool // commits people put on the target directly
	flakes int
	lost   int // webhooks
}

// newTown makes a town of n merge requests. Nobody has asked for anything yet.
func newTown(t *testing.T, kind string, landing bot.Landing, n int, seed uint64, instances []*instance) *town {
	t.Helper()
	w := &town{
		world: newWorldOn(t, kind), landing: landing, pushed: make(map[string]bool), dice: rand.New(rand.NewPCG(seed, 1)),
	}
	w.repo = filepath.Join(w.dir, "git", "acme", "app.git")
	w.host.SetWebhook("http://nobody.invalid", hookSecret) // a GitLab sends to a hook only; where to, deliver says
	w.host.SetDeliver(func(ctx context.Context, d fakehost.Delivery) error { return w.deliver(ctx, d, instances) })
	w.host.SetCI(fakehost.CI{Mode: fakehost.CIDelayed, Delay: 400 * time.Millisecond, BranchPrefix: bot.BatchBranchPrefix, Verdict: w.verdict, OnStart: w.started})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(w.host.AddRepository(fakehost.NewRepository{
		Owner: "acme", Name: "app", Generate: 20,
		Files: map[string]string{
			".batchbot.yml": fmt.Sprintf("queues:\n  - branch: main\n    max_batch_size: 25\n    landing: %s\n    checks: {required: [ci]}\n", landing),
			"prices.txt":    "as it was\n",
		},
		Permissions: map[string]string{"ada": fakehost.RoleWrite, "ben": fakehost.RoleWrite, "cleo": fakehost.RoleRead, "rita": fakehost.RoleMaintain, "sam": fakehost.RoleMaintain},
	}))
	plans := rand.New(rand.NewPCG(seed, 2))
	// Of every twenty: one of each kind, two rivals, and the rest lands.
	order := plans.Perm(n)
	fates := make([]fate, n)
	for i, at := range order {
		if i%20 < int(fatedShut) {
			fates[at] = fate(i%20 + 1)
		}
	}
	for i, f := range fates {
		v := &wish{fate: f, author: []string{"ada", "ben", "cleo"}[i%3]}
		files := map[string]string{fmt.Sprintf("feature-%d.txt", i): "new\n"}
		switch f {
		case fatedClash:
			files["prices.txt"] = fmt.Sprintf("as %d wants it\n", i)
		case fatedRed:
			files[fmt.Sprintf("ci.fail.%d.txt", i)] = "breaks the build\n"
		case fatedRival:
			files[fmt.Sprintf("seat-%d.txt", i)] = "mine\n"
		}
		open := func(v *wish, branch string) {
			number, err := w.host.OpenMR(e2eRepo, fakehost.NewMR{Author: v.author, Head: branch, Title: "Change " + branch, Files: files, Fork: f == fated && i%10 == 0})
			must(err)
			mr, err := w.host.MR(e2eRepo, number)
			must(err)
			v.number, v.head, v.rides = number, mr.Head, make(chan struct{})
			w.wishes = append(w.wishes, v)
		}
		open(v, fmt.Sprintf("feature-%d", i))
		if f == fatedRival {
			files[fmt.Sprintf("seat-%d.txt", i)] = "no, mine\n"
			other := &wish{fate: f, author: "ben", rival: v.number}
			open(other, fmt.Sprintf("rival-%d", i))
			v.rival = other.number
		}
	}
	w.push(t.Context(), t, "prices.txt", "higher\n")
	return w
}

// push has rita put a commit on the target.
func (w *town) push(ctx context.Context, t *testing.T, file, content string) {
	sha, err := w.host.Commit(e2eRepo, "main", "main", "rita", "Change "+file, map[string]string{file: content})
	if err != nil {
		if ctx.Err() == nil {
			t.Errorf("pushing to main: %v", err)
		}
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pushed[sha] = true
}

// verdict is CI's: red with a reason, and now and then without one, though never on a merge request that is tested alone, so that every fate is
// certain.
func (w *town) verdict(run fakehost.CIRun) string {
	git := func(args ...string) string {
		out, err := exec.Command("git", append([]string{"--git-dir", w.repo}, args...)...).Output()
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(out))
	}
	if strings.Contains("\n"+git("ls-tree", "--name-only", run.SHA), "\nci.fail.") {
		return "failure"
	}
	members, _ := strconv.Atoi(git("rev-list", "--count", "--first-parent", run.SHA, "^main"))
	w.mu.Lock()
	defer w.mu.Unlock()
	if members > 1 && w.dice.IntN(12) == 0 {
		w.flakes++
		return "failure"
	}
	return "success"
}

// deliver hands a webhook to some instance: some are lost, some come twice, some late.
func (w *town) deliver(ctx context.Context, d fakehost.Delivery, instances []*instance) error {
	w.mu.Lock()
	luck, to := w.dice.IntN(20), instances[w.dice.IntN(len(instances))]
	also := instances[w.dice.IntN(len(instances))]
	w.mu.Unlock()
	path := webhookPath + w.kind
	var err error
	switch luck {
	case 0:
		err = fmt.Errorf("lost")
	case 1:
		_ = hand(ctx, d, also, path)
		err = hand(ctx, d, to, path)
	case 2:
		time.AfterFunc(2*time.Second, func() { _ = hand(ctx, d, to, path) })
	default:
		err = hand(ctx, d, to, path)
	}
	if err != nil {
		w.mu.Lock()
		w.lost++
		w.mu.Unlock()
	}
	return err
}

// live lets the people ask, approve and change their minds within about span, and returns when all of them did.
func (w *town) live(ctx context.Context, t *testing.T, seed uint64, span time.Duration) {
	dice := rand.New(rand.NewPCG(seed, 3))
	var people sync.WaitGroup
	defer people.Wait()
	for _, i := range dice.Perm(len(w.wishes)) {
		v := w.wishes[i]
		begin := time.Duration(dice.Int64N(int64(span)))
		pause := time.Duration(dice.Int64N(int64(time.Second)))
		mind := time.Duration(dice.Int64N(int64(300 * time.Millisecond)))
		approvedFirst := dice.IntN(2) == 0
		people.Go(func() {
			if !rest(ctx, begin) {
				return
			}
			steps := []func(){func() { w.say(t, v, "/batch") }, func() { w.approve(t, v, "rita") }}
			if approvedFirst {
				steps[0], steps[1] = steps[1], steps[0]
			}
			for _, step := range steps {
				step()
				if !rest(ctx, pause) {
					return
				}
			}
			if v.fate >= fatedMover && v.waits(ctx, span) && rest(ctx, mind) {
				w.changeMind(ctx, t, v)
			}
		})
	}
	people.Go(func() {
		for n := range 5 {
			if !rest(ctx, span/6) {
				return
			}
			w.push(ctx, t, fmt.Sprintf("notes-%d.txt", n), "written on main\n")
		}
	})
}

// started has everybody who rides in what CI begins to test, and is to change their mind, do so while it runs.
func (w *town) started(run fakehost.CIRun) {
	out, err := exec.Command("git", "--git-dir", w.repo, "log", "--first-parent", "--format=%P", run.SHA, "^main").Output()
	if err != nil {
		return // the branch is gone already
	}
	for _, v := range w.wishes {
		if v.fate >= fatedMover && strings.Contains(string(out), v.head) {
			v.once.Do(func() { close(v.rides) })
		}
	}
}

// waits until a merge request rides, which is when a change of mind hurts most; some do not wait for it, and nobody for ever. It returns false
// when ctx ended.
func (v *wish) waits(ctx context.Context, longest time.Duration) bool {
	if v.number%4 == 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(longest)
	defer timer.Stop()
	select {
	case <-v.rides:
	case <-timer.C:
	case <-ctx.Done():
		return false
	}
	return true
}

// changeMind does what a fate asks for on the way.
func (w *town) changeMind(ctx context.Context, t *testing.T, v *wish) {
	switch v.fate {
	case fatedMover:
		if mr, err := w.host.MR(e2eRepo, v.number); err != nil || mr.State != "open" {
			return
		}
		if _, err := w.host.PushTo(e2eRepo, v.number, map[string]string{fmt.Sprintf("again-%d.txt", v.number): "better\n"}); err != nil && ctx.Err() == nil {
			t.Logf("%s: pushing to !%d: %v", w.kind, v.number, err) // it landed in between
		}
		if rest(ctx, time.Second) {
			w.approve(t, v, "sam")
		}
	case fatedGone:
		w.say(t, v, "/batch cancel")
	case fatedShut:
		if err := w.host.CloseMR(e2eRepo, v.number, v.author); err != nil && ctx.Err() == nil {
			t.Logf("%s: closing !%d: %v", w.kind, v.number, err) // it landed in between
		}
	}
}

func (w *town) say(t *testing.T, v *wish, text string) {
	if _, err := w.host.Comment(e2eRepo, v.number, v.author, text); err != nil {
		t.Errorf("%s: commenting on !%d: %v", w.kind, v.number, err)
	}
}

func (w *town) approve(t *testing.T, v *wish, who string) {
	if v.fate == fatedAlone {
		return
	}
	if _, err := w.host.Review(e2eRepo, v.number, who, fakehost.Approved, ""); err != nil {
		t.Logf("%s: approving !%d: %v", w.kind, v.number, err) // it landed in between
	}
}

// rest waits; false: ctx ended first.
func rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// ended compares what became of a merge request with its fate: "" or what is not as it must be.
func (v *wish) ended(w *town, n townState) string {
	mr, ops := n.mrs[v.number], n.operations[v.number]
	if len(ops) == 0 {
		// Closed before anybody heard of it, or cancelled by a command that was heard first: that is what was answered.
		if v.fate == fatedShut && mr.State == "closed" || v.fate == fatedGone && mr.State == "open" {
			return ""
		}
		return fmt.Sprintf("!%d (%d) was applied and has no operation", v.number, v.fate)
	}
	op := ops[len(ops)-1]
	now := fmt.Sprintf("%s %s %s", mr.State, op.status, op.reason)
	var right []string
	switch v.fate {
	case fated:
		right = []string{landed}
	case fatedClash:
		right = []string{conflicts}
	case fatedRed:
		right = []string{red}
	case fatedAlone:
		right = []string{notApproved}
	case fatedMover:
		right = []string{landed}
	case fatedGone:
		right = []string{landed, "open CANCELLED cancelled"}
	case fatedShut:
		// Closed while its batch was landing, it has landed all the same, and a host does not mark what is closed as merged.
		right = []string{landed, "closed CLOSED closed", "closed MERGED landed"}
	case fatedRival:
		other := n.operations[v.rival]
		right = []string{landed}
		if len(other) > 0 && other[len(other)-1].status == bot.OperationMerged {
			right = []string{conflicts}
		}
	}
	if slices.Contains(right, now) {
		return ""
	}
	return fmt.Sprintf("!%d is %s, not %s", v.number, now, strings.Join(right, " or "))
}
