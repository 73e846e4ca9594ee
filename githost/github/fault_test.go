package github_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost"
	"github.com/batchbot/batchbot/githost/fakehost"
	"github.com/batchbot/batchbot/githost/github"
	"github.com/batchbot/batchbot/githost/hosttest"
)

// errand is one method of the adapter and the call of the host that goes wrong under it.
type errand struct {
	on string
	// begin prepares the nth round of it: do calls the method, and effects counts what became of it on the host, which shall be one.
	begin func(w *world, n int) (do func(context.Context) error, effects func() int)
}

// reading is an errand without effects.
func reading(on string, call func(ctx context.Context, w *world) error) errand {
	return errand{on, func(w *world, _ int) (func(context.Context) error, func() int) {
		return func(ctx context.Context) error { return call(ctx, w) }, func() int { return 1 }
	}}
}

// batch opens a merge request of the nth round.
func (w *world) batch(n int) (number int, head string) {
	w.t.Helper()
	branch := fmt.Sprint("b", n)
	number = w.OpenMR(hosttest.NewMR{Author: "bob", Branch: branch, Title: "T", Files: map[string]string{branch + ".txt": "x\n"}})
	mr, err := w.fake.MR(path, number)
	w.must(err)
	return number, mr.Head
}

// countMRs counts the merge requests that fit.
func (w *world) countMRs(fits func(fakehost.MR) bool) (n int) {
	w.t.Helper()
	state, err := w.fake.State(path)
	w.must(err)
	for _, mr := range state.MergeRequests {
		if fits(mr) {
			n++
		}
	}
	return n
}

const errandMR = 1 // stands before all rounds; ada approved it

var errands = map[string]errand{
	"ReadMR": reading("GET /repos/acme/app/pulls/1", func(ctx context.Context, w *world) error {
		mr, err := w.host.ReadMR(ctx, w.repo, errandMR)
		return saw(err, mr.Number == errandMR)
	}),
	"ListUpdatedMRs": reading("GET /repos/acme/app/pulls", func(ctx context.Context, w *world) error {
		list, err := w.host.ListUpdatedMRs(ctx, w.repo, time.Time{})
		return saw(err, len(list) > 0)
	}),
	"Permission": reading("GET /repos/acme/app/collaborators/max/permission", func(ctx context.Context, w *world) error {
		p, err := w.host.Permission(ctx, w.repo, bot.Actor{ID: 5, Login: "max"})
		return saw(err, p == bot.PermissionMaintain)
	}),
	"ReadApprovals by its reviews": reading("GET /repos/acme/app/pulls/1/reviews", readApprovals),
	"ReadApprovals by its verdict": reading("POST /api/graphql", readApprovals),
	"ReadChecks by its runs":       reading("GET /repos/acme/app/commits/*/check-runs", readChecks),
	"ReadChecks by its statuses":   reading("GET /repos/acme/app/commits/*/status", readChecks),
	"ReadChecks by the rules":      reading("GET /repos/acme/app/rules/branches/main", readChecks),
	"ReadChecks by the protection": reading("GET /repos/acme/app/branches/main/protection", readChecks),
	"ReadTargetRules": reading("GET /repos/acme/app/rules/branches/main", func(ctx context.Context, w *world) error {
		rules, err := w.host.ReadTargetRules(ctx, w.repo, "main")
		return saw(err, len(rules.RequiredChecks) == 1)
	}),
	"FindMRs": reading("GET /repos/acme/app/pulls", func(ctx context.Context, w *world) error {
		list, err := w.host.FindMRs(ctx, w.repo, "b0")
		return saw(err, len(list) == 1)
	}),
	"ListComments": reading("GET /repos/acme/app/issues/comments", func(ctx context.Context, w *world) error {
		list, err := w.host.ListComments(ctx, w.repo, time.Time{})
		return saw(err, len(list) > 0)
	}),
	"ListReviewComments": reading("GET /repos/acme/app/pulls/1/reviews", func(ctx context.Context, w *world) error {
		list, err := w.host.ListReviewComments(ctx, w.repo, errandMR)
		return saw(err, len(list) == 1)
	}),
	"ListRepositories": reading("GET /app/installations", func(ctx context.Context, w *world) error {
		list, err := w.host.ListRepositories(ctx)
		return saw(err, len(list) == 1)
	}),
	"ReadRepository": reading("GET /repositories/*", func(ctx context.Context, w *world) error {
		r, err := w.host.ReadRepository(ctx, w.repo)
		return saw(err, r.Path == path)
	}),
	"ReadBranch": reading("GET /repos/acme/app/git/ref/heads/main", func(ctx context.Context, w *world) error {
		tip, err := w.host.ReadBranch(ctx, w.repo, "main")
		return saw(err, tip != "")
	}),
	"ReadFile": reading("GET /repos/acme/app/contents/README.md", func(ctx context.Context, w *world) error {
		text, _, err := w.host.ReadFile(ctx, w.repo, "main", "README.md")
		return saw(err, len(text) > 0)
	}),
	"GitRemote": {"POST /app/installations/*/access_tokens", func(w *world, n int) (func(context.Context) error, func() int) {
		// Another repository each time, because a token is kept.
		name := fmt.Sprint("r", n)
		w.must(w.fake.AddRepository(fakehost.NewRepository{Owner: "acme", Name: name}))
		list, err := w.host.ListRepositories(w.t.Context())
		w.must(err)
		var repo bot.Repository
		for _, ref := range list {
			if ref.Path == "acme/"+name {
				repo.RepositoryRef = ref
			}
		}
		return func(ctx context.Context) error {
			remote, err := w.host.GitRemote(ctx, repo)
			return saw(err, strings.HasPrefix(remote.Header.Reveal(), "Authorization: Basic "))
		}, func() int { return 1 }
	}},
	"SetCommitStatus": {"POST /repos/acme/app/check-runs", func(w *world, n int) (func(context.Context) error, func() int) {
		sha := w.Commit(fmt.Sprint("s", n), map[string]string{fmt.Sprint("s", n): "x\n"})
		return func(ctx context.Context) error {
			return w.host.SetCommitStatus(ctx, w.repo, sha, bot.CommitStatus{State: bot.CheckSuccess, Description: "landed"})
		}, func() int { return len(w.Statuses(sha)) }
	}},
	"OpenMR": {"POST /repos/acme/app/pulls", func(w *world, n int) (func(context.Context) error, func() int) {
		branch := fmt.Sprint("batchbot/", n)
		w.Commit(branch, map[string]string{fmt.Sprint("o", n): "x\n"})
		return func(ctx context.Context) error {
			mr, err := w.host.OpenMR(ctx, w.repo, bot.NewMR{Title: "Batch", Source: branch, Target: "main"})
			return saw(err, mr.State == bot.MROpen)
		}, func() int { return w.countMRs(func(mr fakehost.MR) bool { return mr.Branch == branch }) }
	}},
	"EditMR": {"PATCH /repos/acme/app/pulls/*", func(w *world, n int) (func(context.Context) error, func() int) {
		number, _ := w.batch(n)
		title := fmt.Sprint("Batch ", n)
		return func(ctx context.Context) error { return w.host.EditMR(ctx, w.repo, number, title, "Two members.") },
			func() int { return w.countMRs(func(mr fakehost.MR) bool { return mr.Title == title }) }
	}},
	"MergeMR": {"PUT /repos/acme/app/pulls/*/merge", func(w *world, n int) (func(context.Context) error, func() int) {
		number, head := w.batch(n)
		before, err := w.fake.Log(path, "main")
		w.must(err)
		w.must(w.fake.SetStatus(path, head, "ada", "success", "ci"))
		return func(ctx context.Context) error {
				answer, err := w.host.MergeMR(ctx, w.repo, number, head, "Batch", "Two members.")
				return saw(err, answer.Outcome == bot.MergeDone && answer.SHA != "")
			}, func() int {
				after, err := w.fake.Log(path, "main")
				w.must(err)
				return len(after) - len(before)
			}
	}},
	"CloseMR": {"PATCH /repos/acme/app/pulls/*", func(w *world, n int) (func(context.Context) error, func() int) {
		number, _ := w.batch(n)
		return func(ctx context.Context) error { return w.host.CloseMR(ctx, w.repo, number) },
			func() int {
				return w.countMRs(func(mr fakehost.MR) bool { return mr.Number == number && mr.State == "closed" })
			}
	}},
	"UpsertComment": {"POST /repos/acme/app/issues/*/comments", func(w *world, n int) (func(context.Context) error, func() int) {
		number, _ := w.batch(n)
		return func(ctx context.Context) error {
			_, err := w.host.UpsertComment(ctx, w.repo, number, "<!-- m -->", "hello", 0)
			return err
		}, func() int { return len(w.Comments(number)) }
	}},
	"React": {"POST /repos/acme/app/issues/comments/*/reactions", func(w *world, n int) (func(context.Context) error, func() int) {
		number, _ := w.batch(n)
		id := w.Comment(number, "bob", "/batch")
		return func(ctx context.Context) error {
				return w.host.React(ctx, w.repo, number, bot.CommentIssue, id, bot.ReactionSeen)
			},
			func() int { return len(w.Comments(number)[0].Reactions) }
	}},
}

// saw is err, or that an answer without an error is not what is there.
func saw(err error, right bool) error {
	if err == nil && !right {
		return errors.New("the answer is not what is there")
	}
	return err
}

func readApprovals(ctx context.Context, w *world) error {
	a, err := w.host.ReadApprovals(ctx, w.repo, errandMR)
	return saw(err, len(a.Reviews) == 1 && a.Reviews[0].Permission == bot.PermissionAdmin && a.Decision == bot.HostDecisionNone)
}

func readChecks(ctx context.Context, w *world) error {
	mr, err := w.fake.MR(path, errandMR)
	w.must(err)
	report, err := w.host.ReadChecks(ctx, w.repo, mr.Head, "main")
	return saw(err, len(report.Checks) == 1 && len(report.Required) == 1)
}

// trouble is a fault and what the adapter makes of it.
type trouble struct {
	fakehost.Fault
	wait time.Duration // the pause it asks for; 0: none
	fine bool          // for reads nothing is wrong
}

const elsewhere = "http://elsewhere.test"

// troubles are the ways of a host that pass.
var troubles = map[string]trouble{
	"500":                           {Fault: fakehost.Fault{Do: fakehost.FaultStatus, Status: 500}},
	"502 after the effect":          {Fault: fakehost.Fault{Do: fakehost.FaultStatus, Status: 502, Late: true}},
	"503":                           {Fault: fakehost.Fault{Do: fakehost.FaultStatus, Status: 503, Message: "Service Unavailable"}},
	"no connection":                 {Fault: fakehost.Fault{Do: fakehost.FaultDrop}},
	"a lost answer":                 {Fault: fakehost.Fault{Do: fakehost.FaultDrop, Late: true}},
	"no answer":                     {Fault: fakehost.Fault{Do: fakehost.FaultHang}},
	"no answer after the effect":    {Fault: fakehost.Fault{Do: fakehost.FaultHang, Late: true}},
	"a slow answer":                 {Fault: fakehost.Fault{Do: fakehost.FaultSlow, Wait: 20 * time.Second}},
	"a secondary limit":             {Fault: fakehost.Fault{Do: fakehost.FaultSecondaryLimit, Wait: 40 * time.Second}, wait: 40 * time.Second},
	"a secondary limit by 429":      {Fault: fakehost.Fault{Do: fakehost.FaultSecondaryLimit, Status: 429, Wait: 7 * time.Second}, wait: 7 * time.Second},
	"a secondary limit, no time":    {Fault: fakehost.Fault{Do: fakehost.FaultSecondaryLimit}, wait: time.Minute},
	"a 429 without a time":          {Fault: fakehost.Fault{Do: fakehost.FaultSecondaryLimit, Status: 429}, wait: time.Minute},
	"a limit after the effect":      {Fault: fakehost.Fault{Do: fakehost.FaultSecondaryLimit, Wait: 9 * time.Second, Late: true}, wait: 9 * time.Second},
	"the primary limit":             {Fault: fakehost.Fault{Do: fakehost.FaultPrimaryLimit, Wait: 10 * time.Minute}, wait: 10*time.Minute + time.Second},
	"the primary limit by 429":      {Fault: fakehost.Fault{Do: fakehost.FaultPrimaryLimit, Status: 429, Wait: time.Minute}, wait: time.Minute + time.Second},
	"a redirect":                    {Fault: fakehost.Fault{Do: fakehost.FaultRedirect, Status: 307}, fine: true},
	"a redirect elsewhere":          {Fault: fakehost.Fault{Do: fakehost.FaultRedirect, Status: 302, To: elsewhere}},
	"a redirect after the effect":   {Fault: fakehost.Fault{Do: fakehost.FaultRedirect, Status: 301, Late: true}, fine: true},
	"a redirect elsewhere with 308": {Fault: fakehost.Fault{Do: fakehost.FaultRedirect, Status: 308, To: elsewhere}},
}

// watcher sees every request on its way out.
type watcher struct {
	next http.RoundTripper
	mu   sync.Mutex
	seen []string // scheme, host and path
}

func (w *watcher) RoundTrip(req *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.seen = append(w.seen, req.Method+" "+req.URL.String())
	w.mu.Unlock()
	return w.next.RoundTrip(req)
}

func (w *watcher) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.seen)
}

// Every method under every kind of trouble: the error means what it says, a pause is kept, nothing happens twice, nothing is
// believed that is not so, no secret shows, and once the trouble is over the same call does what it shall.
func TestEveryMethodKeepsItsContractUnderEveryTrouble(t *testing.T) {
	t.Parallel()
	appKey()
	for name, e := range errands {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				out := &watcher{}
				w := newWorldAs(t, func(c *github.Config) {
					out.next, c.HTTPTransport, c.GitURL = c.HTTPTransport, out, ""
				})
				number, head := w.batch(0)
				w.Comment(number, "bob", "hello")
				w.Approve(number, "ada", "looks good")
				w.must(w.fake.SetStatus(path, head, "ada", "success", "ci"))
				w.RequireChecks("main", "ci")
				n := 0
				for what, trouble := range troubles {
					n++
					w.suffer(e, what, trouble, n, out)
				}
				for _, seen := range out.seen {
					if strings.Contains(seen, elsewhere) {
						t.Errorf("asked %s", seen)
					}
				}
				w.fake.Close()
			})
		})
	}
}

// suffer is one errand under one trouble.
func (w *world) suffer(e errand, what string, trouble trouble, n int, out *watcher) {
	t := w.t
	t.Helper()
	do, effects := e.begin(w, n)
	fault := trouble.Fault
	fault.On, fault.Times = e.on, 1
	w.must(w.fake.Break(fault))
	defer w.fake.Heal()
	err := do(t.Context())
	if struck := w.fake.Broken()[0].Struck; struck != 1 {
		t.Errorf("%s: the fault struck %d times: the test asks for another call", what, struck)
	}
	write := !strings.HasPrefix(e.on, "GET ")
	switch {
	case fault.Do == fakehost.FaultSlow, trouble.fine && !write:
		if err != nil {
			t.Errorf("%s: got %v", what, err)
		}
	case trouble.wait > 0:
		w.keepsPause(do, what, err, trouble.wait, out)
	default:
		if err == nil || errors.Is(err, bot.ErrNotFound) || errors.Is(err, bot.ErrGone) || errors.Is(err, bot.ErrForbidden) || errors.As(err, new(*bot.RateLimitedError)) {
			t.Errorf("%s: got %v, want something that passes", what, err)
		}
		if fault.Do == fakehost.FaultRedirect && !errors.As(err, new(*githost.RedirectError)) {
			t.Errorf("%s: got %v, want a refused redirect", what, err)
		}
	}
	if err != nil {
		w.keepsSecrets(what, err)
		if again := do(t.Context()); again != nil {
			t.Errorf("%s: once it is over: %v", what, again)
		}
	}
	// And once more, as whoever is not sure would.
	if again := do(t.Context()); again != nil {
		t.Errorf("%s: done again: %v", what, again)
	}
	if got := effects(); got != 1 {
		t.Errorf("%s: %d effects", what, got)
	}
}

// keepsPause checks that a limit is told, kept without asking, and over in time.
func (w *world) keepsPause(do func(context.Context) error, what string, err error, wait time.Duration, out *watcher) {
	w.t.Helper()
	var limited *bot.RateLimitedError
	if !errors.As(err, &limited) || limited.RetryAfter != wait {
		w.t.Errorf("%s: got %v, want a pause of %v", what, err, wait)
		return
	}
	time.Sleep(wait - time.Second)
	asked := out.count()
	if err := do(w.t.Context()); !errors.As(err, &limited) || limited.RetryAfter != time.Second {
		w.t.Errorf("%s: a second before its end: %v", what, err)
	}
	if n := out.count(); n != asked {
		w.t.Errorf("%s: asked during the pause: %v", what, out.seen[asked:])
	}
	time.Sleep(time.Second)
}

// keepsSecrets looks for credentials in an error.
func (w *world) keepsSecrets(what string, err error) {
	w.t.Helper()
	for _, form := range []string{"%v", "%+v", "%#v"} {
		for _, sign := range []string{"ghs_", "Bearer", "PRIVATE KEY", "eyJ", secret} {
			if said := fmt.Sprintf(form, err); strings.Contains(said, sign) {
				w.t.Errorf("%s: the error shows %q: %s", what, sign, said)
			}
		}
	}
}
