package hosttest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// Fragile is a World whose host can be made to fail, within a bubble of testing/synctest.
type Fragile interface {
	World
	// Calls names the host's calls that go under an errand of the suite, in a form Break understands. The first time each is made,
	// it is made once.
	Calls(errand string) []string
	// Break makes the next such call go wrong.
	Break(call string, trouble Trouble)
	// Heal ends all troubles and reports how many calls went wrong.
	Heal() (struck int)
	// Sent counts the requests the adapter sent.
	Sent() int
	// Secrets are what no error may show.
	Secrets() []string
}

// Mishap is how a call goes wrong.
type Mishap int

// The mishaps. The zero value is invalid.
const (
	MishapStatus         Mishap = iota + 1 // answered with Status
	MishapLost                             // no answer, the connection ends
	MishapHang                             // no answer, the connection stays
	MishapSlow                             // an answer after Wait
	MishapLimit                            // the host asks for a pause of Wait; 0: it does not say how long
	MishapPrimaryLimit                     // the host says that nothing is left until Wait from now
	MishapRedirectedAway                   // the host redirects to another one
)

// Trouble is a mishap in detail.
type Trouble struct {
	Do     Mishap
	Status int           // MishapStatus; MishapRedirectedAway: 301 to 308
	Wait   time.Duration // MishapSlow and the limits
	Late   bool          // the call has its effect first
}

// troubles are the ways of a host that pass.
var troubles = map[string]Trouble{
	"500":                          {Do: MishapStatus, Status: 500},
	"502 after the effect":         {Do: MishapStatus, Status: 502, Late: true},
	"503":                          {Do: MishapStatus, Status: 503},
	"no connection":                {Do: MishapLost},
	"a lost answer":                {Do: MishapLost, Late: true},
	"no answer":                    {Do: MishapHang},
	"no answer after the effect":   {Do: MishapHang, Late: true},
	"a slow answer":                {Do: MishapSlow, Wait: 5 * time.Second},
	"a limit":                      {Do: MishapLimit, Wait: 40 * time.Second},
	"a limit without a time":       {Do: MishapLimit},
	"a limit after the effect":     {Do: MishapLimit, Wait: 9 * time.Second, Late: true},
	"nothing left":                 {Do: MishapPrimaryLimit, Wait: 10 * time.Minute},
	"a redirect away":              {Do: MishapRedirectedAway, Status: 302},
	"a redirect away, kept method": {Do: MishapRedirectedAway, Status: 307},
	"a redirect after the effect":  {Do: MishapRedirectedAway, Status: 301, Late: true},
}

// errand is one method of the adapter. begin prepares the nth round of it: do calls the method, and done says whether the host shows what became
// of it, neither less nor twice.
type errand func(t *testing.T, w World, n int) (do func() error, done func() bool)

// reading is an errand without effects.
func reading(call func(t *testing.T, w World) error) errand {
	return func(t *testing.T, w World, _ int) (func() error, func() bool) {
		return func() error { return call(t, w) }, func() bool { return true }
	}
}

// saw is err, or that an answer without an error is not what is there.
func saw(err error, right bool) error {
	if err == nil && !right {
		return errors.New("the answer is not what is there")
	}
	return err
}

// round opens a merge request of the nth round.
func round(t *testing.T, w World, n int) bot.MRSnapshot {
	t.Helper()
	branch := fmt.Sprint("b", n)
	return read(t, w, w.OpenMR(change("bob", branch, branch+".txt")))
}

const standingMR = 1 // stands before all rounds: bob's, approved and commented on; a check reported on its head

// errands are all methods that talk to the host, by the names Calls is asked for.
var errands = map[string]errand{
	"ReadMR": reading(func(t *testing.T, w World) error {
		mr, err := w.Host().ReadMR(t.Context(), w.Repository(), standingMR)
		return saw(err, mr.Number == standingMR)
	}),
	"ListUpdatedMRs": reading(func(t *testing.T, w World) error {
		list, err := w.Host().ListUpdatedMRs(t.Context(), w.Repository(), time.Time{})
		return saw(err, len(list) > 0)
	}),
	"Permission": reading(func(t *testing.T, w World) error {
		p, err := w.Host().Permission(t.Context(), w.Repository(), bot.Actor{Login: "max"})
		return saw(err, p == bot.PermissionMaintain)
	}),
	"ReadApprovals": reading(func(t *testing.T, w World) error {
		a, err := w.Host().ReadApprovals(t.Context(), w.Repository(), standingMR)
		return saw(err, len(a.Reviews) == 1 && a.Reviews[0].Permission == bot.PermissionAdmin && a.Decision == bot.HostDecisionNone)
	}),
	"ReadChecks": func(t *testing.T, w World, _ int) (func() error, func() bool) {
		head := tip(t, w, "standing")
		return func() error {
			report, err := w.Host().ReadChecks(t.Context(), w.Repository(), head, "main")
			return saw(err, len(report.Checks) > 0 && len(report.Required) == 1)
		}, func() bool { return true }
	},
	"ReadTargetRules": reading(func(t *testing.T, w World) error {
		rules, err := w.Host().ReadTargetRules(t.Context(), w.Repository(), "main")
		return saw(err, len(rules.RequiredChecks) == 1)
	}),
	"FindMRs": reading(func(t *testing.T, w World) error {
		list, err := w.Host().FindMRs(t.Context(), w.Repository(), "standing")
		return saw(err, len(list) == 1)
	}),
	"ListComments": reading(func(t *testing.T, w World) error {
		list, err := w.Host().ListComments(t.Context(), w.Repository(), time.Time{})
		return saw(err, len(list) > 0)
	}),
	"ListRepositories": reading(func(t *testing.T, w World) error {
		list, err := w.Host().ListRepositories(t.Context())
		return saw(err, len(list) == 1)
	}),
	"ReadRepository": reading(func(t *testing.T, w World) error {
		r, err := w.Host().ReadRepository(t.Context(), w.Repository())
		return saw(err, r.Path == w.Repository().Path)
	}),
	"ReadBranch": reading(func(t *testing.T, w World) error {
		tip, err := w.Host().ReadBranch(t.Context(), w.Repository(), "main")
		return saw(err, tip != "")
	}),
	"ReadFile": reading(func(t *testing.T, w World) error {
		text, _, err := w.Host().ReadFile(t.Context(), w.Repository(), "main", "README.md")
		return saw(err, len(text) > 0)
	}),
	"SetCommitStatus": func(t *testing.T, w World, n int) (func() error, func() bool) {
		sha := w.Commit(fmt.Sprint("s", n), map[string]string{fmt.Sprint("s", n): "x\n"})
		return func() error {
				return w.Host().SetCommitStatus(t.Context(), w.Repository(), sha, bot.CommitStatus{State: bot.CheckSuccess, Description: "landed"})
			}, func() bool {
				list := w.Statuses(sha)
				return len(list) > 0 && list[len(list)-1].State == bot.CheckSuccess
			}
	},
	"OpenMR": func(t *testing.T, w World, n int) (func() error, func() bool) {
		branch := fmt.Sprintf("batchbot/%d-0badcafe/main", n)
		w.Commit(branch, map[string]string{fmt.Sprint("o", n): "x\n"})
		return func() error {
				mr, err := w.Host().OpenMR(t.Context(), w.Repository(), bot.NewMR{Title: "Batch", Source: branch, Target: "main"})
				return saw(err, mr.State == bot.MROpen)
			}, func() bool {
				list, err := w.Host().FindMRs(t.Context(), w.Repository(), branch)
				return err == nil && len(list) == 1
			}
	},
	"EditMR": func(t *testing.T, w World, n int) (func() error, func() bool) {
		mr, title := round(t, w, n), fmt.Sprint("Batch ", n)
		return func() error {
				return w.Host().EditMR(t.Context(), w.Repository(), mr.Number, title, "Two members.")
			},
			func() bool { return read(t, w, mr.Number).Title == title }
	},
	"MergeMR": func(t *testing.T, w World, n int) (func() error, func() bool) {
		mr := round(t, w, n)
		w.Report(mr.HeadSHA, "ci", bot.CheckSuccess)
		return func() error {
				answer, err := w.Host().MergeMR(t.Context(), w.Repository(), mr.Number, mr.HeadSHA, "Batch", "Two members.")
				return saw(err, answer.Outcome == bot.MergeDone && answer.SHA == tip(t, w, "main"))
			},
			func() bool { return read(t, w, mr.Number).State == bot.MRMerged }
	},
	"CloseMR": func(t *testing.T, w World, n int) (func() error, func() bool) {
		mr := round(t, w, n)
		return func() error { return w.Host().CloseMR(t.Context(), w.Repository(), mr.Number) },
			func() bool { return read(t, w, mr.Number).State == bot.MRClosed }
	},
	"UpsertComment": func(t *testing.T, w World, n int) (func() error, func() bool) {
		mr := round(t, w, n)
		return func() error {
			_, err := w.Host().UpsertComment(t.Context(), w.Repository(), mr.Number, marker, marker+"\nhello", 0)
			return err
		}, func() bool { return len(w.Comments(mr.Number)) == 1 }
	},
	"React": func(t *testing.T, w World, n int) (func() error, func() bool) {
		mr := round(t, w, n)
		id := w.Comment(mr.Number, "bob", "/batch")
		return func() error {
				return w.Host().React(t.Context(), w.Repository(), mr.Number, bot.CommentIssue, id, bot.ReactionSeen)
			},
			func() bool { return len(w.Comments(mr.Number)[0].Reactions) == 1 }
	},
}

// RunTroubles has every method meet every kind of trouble in every call it makes: the error means what it says, a pause is kept, nothing
// happens twice, nothing is believed that is not so, no secret shows, and once the trouble is over the same call does what it shall. create
// makes a fresh world; it is called within a bubble.
func RunTroubles(t *testing.T, create func(t *testing.T) Fragile) {
	for name, e := range errands {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := create(t)
				if n := w.OpenMR(change("bob", "standing", "a.txt")); n != standingMR {
					t.Fatalf("the first merge request has the number %d", n)
				}
				w.Comment(standingMR, "bob", "hello")
				pass(time.Second) // or the approval would be of the same instant as the head
				w.Approve(standingMR, "ada", "")
				w.Report(tip(t, w, "standing"), "ci", bot.CheckSuccess)
				w.RequireChecks("main", "ci")
				calls := w.Calls(name)
				if len(calls) == 0 {
					t.Fatal("nobody says which calls it makes")
				}
				n := 0
				for _, call := range calls {
					for what, trouble := range troubles {
						n++
						suffer(t, w, e, n, call, trouble, call+": "+what)
					}
				}
			})
		})
	}
}

// pass lets time pass in the bubble.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // in a bubble, sleeping is how time passes
}

// suffer is one round of an errand, with trouble in one of its calls.
func suffer(t *testing.T, w Fragile, e errand, n int, call string, trouble Trouble, what string) {
	t.Helper()
	do, done := e(t, w, n)
	w.Break(call, trouble)
	err := do()
	var limited *bot.RateLimitedError
	switch {
	case trouble.Do == MishapSlow:
		if err != nil {
			t.Errorf("%s: got %v", what, err)
		}
	case trouble.Do == MishapLimit || trouble.Do == MishapPrimaryLimit:
		wait := trouble.Wait
		if wait == 0 {
			wait = time.Minute
		}
		if !errors.As(err, &limited) || limited.RetryAfter < wait || limited.RetryAfter > wait+time.Second {
			t.Errorf("%s: got %v, want a pause of %v", what, err, wait)
			break
		}
		pass(limited.RetryAfter - time.Second)
		before := w.Sent()
		if err := do(); !errors.As(err, &limited) || w.Sent() != before {
			t.Errorf("%s: a second before its end got %v, and sent %d requests", what, err, w.Sent()-before)
		}
		pass(time.Second)
	case err == nil || errors.Is(err, bot.ErrNotFound) || errors.Is(err, bot.ErrGone) || errors.Is(err, bot.ErrForbidden) || errors.As(err, &limited):
		t.Errorf("%s: got %v, want something that passes", what, err)
	}
	if struck := w.Heal(); struck != 1 {
		t.Errorf("%s: %d calls went wrong: the errand makes others", what, struck)
	}
	for _, form := range []string{"%v", "%+v", "%#v"} {
		for _, secret := range w.Secrets() {
			if err != nil && strings.Contains(fmt.Sprintf(form, err), secret) {
				t.Errorf("%s: the error shows a secret", what)
			}
		}
	}
	// Once it is over, and once more, as whoever is not sure would.
	for range 2 {
		if err := do(); err != nil {
			t.Errorf("%s: once it is over: %v", what, err)
		}
		if !done() {
			t.Errorf("%s: the host does not show what was to become of it", what)
		}
	}
}
