package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/lease"
	"github.com/batchbot/batchbot/bot/message"
)

var errDown = errors.New("not reachable")

const (
	pinned = "1111111111111111111111111111111111111111"
	newer  = "2222222222222222222222222222222222222222"
)

// desk is an outbox with a sender, the rows it renders from and the host it writes to.
type desk struct {
	t      *testing.T
	rows   *fakeRows
	host   *fakeHost
	git    *fakeGit
	steps  *steps
	sender *Sender

	revisited []int64 // batches whose MR was looked at
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	s := &steps{}
	d := &desk{t: t, steps: s, rows: &fakeRows{steps: s}, host: &fakeHost{steps: s, state: bot.MROpen, head: pinned}, git: &fakeGit{steps: s, outcome: bot.PushOutcome{Result: bot.PushDone}}}
	op := bot.Operation{ID: "op-1", Status: bot.OperationMerged, Target: "main", Number: 2, HeadSHA: pinned, Reason: bot.ReasonLanded}
	batch := bot.Batch{ID: 7, Token: "0a1b2c3d", Status: bot.BatchSucceeded, MRNumber: 40, LandedSHA: newer}
	d.rows.view = bot.OperationView{Operation: op, Batch: &batch}
	d.rows.batch = bot.BatchView{Batch: batch, Queue: bot.Queue{Target: "main"}, Members: []bot.BatchMember{{Operation: op, HeadSHA: pinned, Event: bot.MemberLanded}}}
	d.rows.entry = bot.HistoryEntry{ID: 31, Operation: op, From: bot.OperationBatched, To: bot.OperationPendingApproval, Reason: bot.ReasonHeadMoved, HeadSHA: newer, BatchID: 7}
	d.rows.heads = []string{pinned}
	d.sender = New(Config{Store: d.rows, Reminders: d.rows, Hosts: map[string]bot.Host{"git": d.host}, Git: d.git, Pace: lease.Pace{MaxAttempts: 4, Parallel: 1}, Revisit: func(_ context.Context, id int64) error {
		return s.do("Revisit", func() error {
			d.revisited = append(d.revisited, id)
			return nil
		})
	}})
	return d
}

// wants makes an errand due.
func (d *desk) wants(kind bot.ErrandKind, target string) *row {
	d.rows.mu.Lock()
	defer d.rows.mu.Unlock()
	r := &row{Errand: bot.Errand{
		ID: int64(len(d.rows.errands) + 1), Kind: kind, Target: target, Number: 2, Wanted: 1,
		Repository: bot.Repository{ID: 1, RepositoryRef: bot.RepositoryRef{Host: "git", ExternalID: 4711, Path: "team/app"}},
	}, due: time.Now()}
	if kind == bot.ErrandReply {
		r.Payload.Body = "There is nothing to cancel."
	}
	if kind == bot.ErrandReaction {
		r.Payload = bot.ErrandPayload{Kind: bot.CommentIssue, Comment: 99, Reaction: bot.ReactionSeen}
		if target == "hang" {
			r.Payload.Comment = hanging
		}
	}
	d.rows.errands = append(d.rows.errands, r)
	return r
}

func (d *desk) done(r *row) bool {
	d.rows.mu.Lock()
	defer d.rows.mu.Unlock()
	return r.done
}

func (d *desk) sends() Sent {
	d.t.Helper()
	sent, err := d.sender.RunOnce(context.Background())
	if err != nil {
		d.t.Fatal(err)
	}
	return sent
}

// every is an errand of each kind.
var every = map[bot.ErrandKind]string{
	bot.ErrandSticky: "5", bot.ErrandNotice: "31", bot.ErrandReply: "git:issue:99:1", bot.ErrandReaction: "git:issue:99:eyes", bot.ErrandCommitStatus: "op-1",
	bot.ErrandBatchReport: "7", bot.ErrandDeleteBranch: "7", bot.ErrandCloseMember: "op-1",
	bot.ErrandBatchMR: "7", bot.ErrandBatchNotice: "7/12", bot.ErrandReminder: "op-1/31/0",
}

// prepares makes the world one in which an errand of the kind has something to do.
func (d *desk) prepares(kind bot.ErrandKind) {
	switch kind {
	case bot.ErrandCloseMember:
		d.git.contained = []string{pinned}
	case bot.ErrandDeleteBranch: // the batch knows 40 and none of the others
		d.host.ofBranch = map[string][]bot.MRSnapshot{"batchbot/7-0a1b2c3d/main": {
			{Number: 43, State: bot.MROpen}, {Number: 42, State: bot.MRClosed}, {Number: 41, State: bot.MRMerged}, {Number: 40, State: bot.MROpen},
		}}
	case bot.ErrandReminder:
		d.rows.view.Operation.Status, d.rows.view.Queue.Settings.Reminders.Owners = bot.OperationFailed, time.Hour
	case bot.ErrandBatchNotice:
		d.rows.batch.Batch.Status, d.rows.batch.Batch.Code = bot.BatchBlocked, bot.CodeOverdue
	}
}

// did says what is on the host after an errand of the kind.
func (d *desk) did(kind bot.ErrandKind) {
	d.t.Helper()
	comment := func(number int, marker, words string) {
		d.t.Helper()
		if len(d.host.comments) != 1 {
			d.t.Fatalf("%s: %d comments", kind, len(d.host.comments))
		}
		c := d.host.comments[0]
		if c.number != number || c.marker != marker || !strings.Contains(c.body, marker) || !strings.Contains(c.body, words) {
			d.t.Errorf("%s: comment %+v", kind, c)
		}
	}
	switch kind {
	case bot.ErrandSticky:
		comment(2, message.StatusMarker, "Landed with batch 7 ([#40](https://git.example/40))")
		if d.rows.sticky != 1001 {
			d.t.Errorf("the id of the status comment is %d", d.rows.sticky)
		}
	case bot.ErrandNotice:
		comment(2, message.NoticeMarker(d.rows.entry), "New commits were pushed")
	case bot.ErrandReply:
		comment(2, message.ReplyMarker("git:issue:99:1"), "nothing to cancel")
	case bot.ErrandReaction:
		if !slices.Contains(d.host.reactions, "issue 99 eyes") {
			d.t.Errorf("reactions %v", d.host.reactions)
		}
	case bot.ErrandCommitStatus:
		if s, ok := d.host.statuses[pinned]; !ok || len(d.host.statuses) != 1 || s.State != bot.CheckSuccess || s.Description != "Landed in main" {
			d.t.Errorf("statuses %+v", d.host.statuses)
		}
	case bot.ErrandBatchMR:
		if !slices.Contains(d.revisited, 7) {
			d.t.Errorf("looked at again: %v", d.revisited)
		}
	case bot.ErrandBatchNotice:
		comment(2, message.BlockedMarker(d.rows.batch.Batch, "7/12"), "Batch 7 is blocked and needs a person")
	case bot.ErrandReminder:
		comment(2, message.ReminderMarker("op-1/31/0"), "this failed 2 hours ago")
	case bot.ErrandBatchReport:
		comment(40, message.ReportMarker(d.rows.batch.Batch), "Batch 7 landed in `main`")
	case bot.ErrandDeleteBranch:
		if !slices.Contains(d.git.deleted, "batchbot/7-0a1b2c3d/main at [1111111111111111111111111111111111111111]") {
			d.t.Errorf("deleted %v", d.git.deleted)
		}
		if closed := slices.Compact(slices.Clone(d.host.closed)); !slices.Equal(closed, []int{43}) {
			d.t.Errorf("closed %v, want the open one that the batch does not know", closed)
		}
	case bot.ErrandCloseMember:
		comment(2, message.ClosingMarker(d.rows.view.Operation), newer)
		if d.host.state != bot.MRClosed {
			d.t.Error("it is still open")
		}
	}
}

func TestEachErrandIsDoneOnceHoweverOftenItIsTried(t *testing.T) {
	t.Parallel()
	for kind, target := range every {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.prepares(kind)
			e := d.wants(kind, target)
			for range 3 {
				if sent := d.sends(); sent != (Sent{Claimed: 1, Done: 1}) {
					t.Fatalf("sent %+v: %s", sent, e.reason)
				}
				d.did(kind)
				e.done, e.Wanted = false, e.Wanted+1 // wanted again
			}
		})
	}
}

// TestAnyStepOfAnErrandMayFail lets every single call of every errand fail once, before its effect or after.
func TestAnyStepOfAnErrandMayFail(t *testing.T) {
	t.Parallel()
	for kind, target := range every {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, after the effect %t", kind, after), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					for n := 1; ; n++ {
						d := newDesk(t)
						d.prepares(kind)
						e := d.wants(kind, target)
						*d.steps = steps{failAt: n, after: after}
						first, err := d.sender.RunOnce(context.Background())
						if len(d.steps.calls) < n {
							return
						}
						failed := d.steps.calls[n-1]
						if err == nil && first.Done != 0 {
							t.Fatalf("%s failed and the errand was done", failed)
						}
						time.Sleep(3 * time.Minute) // longer than a lease and a pause
						*d.steps = steps{}
						for range 2 {
							if d.sends(); e.done {
								break
							}
							time.Sleep(3 * time.Minute)
						}
						if !e.done {
							t.Fatalf("after %s had failed the errand is not done: %s", failed, e.reason)
						}
						d.did(kind)
					}
				})
			})
		}
	}
}

func TestFailuresAreToldApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			name   string
			err    error
			given  bool
			atMost time.Duration
			least  time.Duration
		}{
			{"gone", bot.ErrGone, true, 0, 0},
			{"not found", bot.ErrNotFound, true, 0, 0},
			{"rate limited", &bot.RateLimitedError{RetryAfter: time.Hour}, false, time.Hour + 5*time.Second, time.Hour},
			{"forbidden", bot.ErrForbidden, false, 7 * time.Second, 3 * time.Second},
			{"down", errDown, false, 7 * time.Second, 3 * time.Second},
		} {
			d := newDesk(t)
			d.host.refuses = c.err
			e := d.wants(bot.ErrandReply, "git:issue:99:1")
			d.sends()
			wait := time.Until(e.due)
			if e.givenUp != c.given || e.done || e.reason == "" || (!c.given && (wait < c.least || wait > c.atMost)) {
				t.Errorf("%s: %+v, due in %s", c.name, e, wait)
			}
		}
	})
}

func TestOneErrandStallsNobodyAndIsGivenUpInTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		poison := d.wants(bot.ErrandKind(99), "?")
		panics := d.wants(bot.ErrandNotice, "31")
		d.rows.panics = true
		elsewhere := d.wants(bot.ErrandReply, "x")
		elsewhere.Repository.Host = "elsewhere"
		good := d.wants(bot.ErrandReaction, "git:issue:99:eyes")
		if sent := d.sends(); sent != (Sent{Claimed: 4, Done: 1, GivenUp: 1, Postponed: 2}) {
			t.Errorf("sent %+v", sent)
		}
		if !good.done || !poison.givenUp || !strings.Contains(panics.reason, "panicked") || !strings.Contains(elsewhere.reason, "not in the configuration") {
			t.Errorf("good %+v, poison %+v, panics %+v", good, poison, panics)
		}
		for range 3 {
			time.Sleep(time.Hour)
			d.sends()
		}
		if !panics.givenUp || !elsewhere.givenUp || panics.Attempts != 4 {
			t.Errorf("panics %+v, elsewhere %+v", panics, elsewhere)
		}
	})
}

func TestALandedMemberIsClosedOnlyWithAllItHolds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		set       func(*desk)
		state     bot.MRState
		words     string // of the comment; empty: none
		inspected bool
	}{
		{"contained", func(d *desk) { d.git.contained = []string{pinned} }, bot.MRClosed, "so it is closed here", true},
		{"newer commits", func(d *desk) { d.host.head = newer }, bot.MROpen, "it has newer commits (now at `2222222`)", true},
		{"merged by the host", func(d *desk) { d.host.state = bot.MRMerged }, bot.MRMerged, "", false},
		{"closed already", func(d *desk) { d.host.state = bot.MRClosed }, bot.MRClosed, "", false},
		{"another target", func(d *desk) { d.host.target = "next" }, bot.MROpen, "", false},
		{"recorded by force of an operator", func(*desk) {}, bot.MROpen, "", true},
		{"applied again", func(d *desk) { d.rows.view.Operation.Status = bot.OperationWaiting }, bot.MROpen, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			c.set(d)
			e := d.wants(bot.ErrandCloseMember, "op-1")
			d.sends()
			if !e.done || d.host.state != c.state || d.git.inspected != c.inspected {
				t.Errorf("errand %+v, state %s, inspected %t", e, d.host.state, d.git.inspected)
			}
			if (c.words == "") != (len(d.host.comments) == 0) || (c.words != "" && !strings.Contains(d.host.comments[0].body, c.words)) {
				t.Errorf("comments %+v", d.host.comments)
			}
		})
	}
}

func TestOnlyOurBranchIsDeleted(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.git.outcome = bot.PushOutcome{Result: bot.PushForeign, Found: newer}
	e := d.wants(bot.ErrandDeleteBranch, "7")
	d.sends()
	if !e.givenUp || !strings.Contains(e.reason, "stands at 2222222, which the bot did not put there") {
		t.Errorf("errand %+v", e)
	}

	d = newDesk(t)
	d.git.outcome = bot.PushOutcome{Result: bot.PushRefused, Message: "protected branch"}
	e = d.wants(bot.ErrandDeleteBranch, "7")
	d.sends()
	if !e.givenUp || !strings.Contains(e.reason, "protected branch") {
		t.Errorf("errand %+v", e)
	}

	d = newDesk(t)
	d.rows.batch.Batch.Status = bot.BatchRunning
	e = d.wants(bot.ErrandDeleteBranch, "7")
	if sent := d.sends(); sent.Postponed != 1 || len(d.git.deleted) != 0 {
		t.Errorf("sent %+v, deleted %v: %+v", sent, d.git.deleted, e)
	}

	d = newDesk(t)
	d.rows.heads = nil
	d.wants(bot.ErrandDeleteBranch, "7")
	if sent := d.sends(); sent.Done != 1 || len(d.git.deleted) != 0 {
		t.Errorf("sent %+v, deleted %v", sent, d.git.deleted)
	}
}

func TestWhatAsksNothingIsNotSaid(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.rows.entry.Reason = bot.ReasonLanded
	d.rows.batch.Batch.MRNumber = 0
	d.wants(bot.ErrandNotice, "31")
	d.wants(bot.ErrandBatchReport, "7")
	d.wants(bot.ErrandBatchNotice, "7/12") // blocked no more
	if sent := d.sends(); sent.Done != 3 || len(d.host.comments) != 0 {
		t.Errorf("sent %+v, comments %+v", sent, d.host.comments)
	}
}

func TestAKnownStatusCommentIsEditedByItsID(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.rows.sticky = 77
	d.wants(bot.ErrandSticky, "5")
	d.sends()
	if d.host.known != 77 {
		t.Errorf("tried comment %d first", d.host.known)
	}
}

func TestTargetsThatAreNoRowAreGivenUp(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, kind := range []bot.ErrandKind{bot.ErrandSticky, bot.ErrandNotice, bot.ErrandBatchReport, bot.ErrandDeleteBranch, bot.ErrandBatchMR, bot.ErrandBatchNotice} {
		d.wants(kind, "x7")
	}
	if sent := d.sends(); sent.GivenUp != 6 {
		t.Errorf("sent %+v", sent)
	}
}

func TestRunSendsWhenNudgedAndNowAndThen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		ctx, cancel := context.WithCancel(context.Background())
		var ended sync.WaitGroup
		ended.Go(func() { d.sender.Run(ctx) })
		synctest.Wait()
		nudged := d.wants(bot.ErrandReaction, "a")
		d.sender.Nudge()
		synctest.Wait()
		if !d.done(nudged) {
			t.Error("not sent after a nudge")
		}
		forgotten := d.wants(bot.ErrandReaction, "b")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if !d.done(forgotten) {
			t.Error("not sent by the timer")
		}
		// Stopped while the host hangs, the errand is abandoned within the grace period.
		stuck := d.wants(bot.ErrandReaction, "hang")
		d.sender.Nudge()
		synctest.Wait()
		begin := time.Now()
		cancel()
		ended.Wait()
		if took := time.Since(begin); took > 5*time.Second || d.done(stuck) {
			t.Errorf("stopping took %s", took)
		}
	})
}

// What cannot be stored is done again when the lease ends, so a slow database is waited for; but not while stopping.
func TestASlowOutboxIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.rows.slow = 100 * time.Second
		r := d.wants(bot.ErrandReaction, "a")
		if sent, err := d.sender.RunOnce(context.Background()); err != nil || sent.Done != 1 || !d.done(r) {
			t.Errorf("sent %+v (%v)", sent, err)
		}
		d.wants(bot.ErrandReaction, "b")
		ctx, cancel := context.WithCancel(context.Background())
		var ended sync.WaitGroup
		ended.Go(func() { d.sender.Run(ctx) })
		synctest.Wait()
		begin := time.Now()
		cancel()
		ended.Wait()
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("stopping took %s", took)
		}
	})
}

func TestAnOutboxThatIsDownIsAnError(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	*d.steps = steps{failAt: 1}
	if _, err := d.sender.RunOnce(context.Background()); !errors.Is(err, errDown) {
		t.Errorf("error %v", err)
	}
}

// A refused push may leave the branch at the commit it was built on: it goes as well.
func TestABranchLeftAtItsBaseIsDeleted(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.rows.batch.Batch.BaseSHA = newer
	d.wants(bot.ErrandDeleteBranch, "7")
	d.sends()
	if want := []string{"batchbot/7-0a1b2c3d/main at [" + strings.Repeat("1", 40) + " " + newer + "]"}; !slices.Equal(d.git.deleted, want) {
		t.Errorf("deleted %v, want %v", d.git.deleted, want)
	}
}
