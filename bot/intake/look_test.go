package intake

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// posts writes a comment of which no webhook comes.
func (w *world) posts(by bot.Actor, number int, body string) bot.Comment {
	c := w.wrote(by, number, body)
	w.host.comments = append(w.host.comments, c)
	w.changes(number, func(mr *bot.MRSnapshot) { mr.UpdatedAt = c.CreatedAt })
	return c
}

func (w *world) looker() *Looker { return NewLooker(LookerConfig{Applier: w.applier}) }

// looks looks once at the repository as its row is now.
func (w *world) looks() Look {
	w.t.Helper()
	look, err := w.looker().RunOnce(context.Background(), w.rows.repos[0])
	if err != nil {
		w.t.Fatal(err)
	}
	return look
}

func (w *world) watermark(want time.Time) {
	w.t.Helper()
	if got := w.rows.repos[0].CommentsSeenAt; !got.Equal(want) {
		w.t.Errorf("looked up to %s, want %s", got, want)
	}
}

func TestALookFindsWhatNoWebhookTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opens(1)
	w.looks()
	c := w.posts(ada, 1, "/batch")
	if look := w.looks(); look.Commands != 1 || look.Repairs() == 0 {
		t.Errorf("look %+v", look)
	}
	w.stands(1, bot.OperationPendingApproval, first)
	w.watermark(c.CreatedAt)

	w.approves(1, first)
	if look := w.looks(); look.Commands != 0 || look.Moved() != 1 || look.Moves[bot.ReasonApproved] != 1 {
		t.Errorf("look %+v", look)
	}
	w.stands(1, bot.OperationWaiting, first)
	if look := w.looks(); look.Repairs() != 0 {
		t.Errorf("a quiet look found %+v", look)
	}
	if len(w.rows.ops) != 1 {
		t.Errorf("operations %+v", w.rows.ops)
	}
}

func TestALookFindsCommandsInReviews(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opens(1)
	w.looks()
	review := w.wrote(grace, 1, "Fine.\n/batch")
	review.Kind = bot.CommentReview
	w.host.reviews[1] = []bot.Comment{{Kind: bot.CommentReview, ID: 900, Number: 1, Author: grace, Body: "/batch cancel", CreatedAt: noon.Add(-time.Hour)}, review}
	w.changes(1, func(mr *bot.MRSnapshot) { mr.UpdatedAt = review.CreatedAt })
	if look := w.looks(); look.Commands != 1 {
		t.Errorf("look %+v", look)
	}
	w.stands(1, bot.OperationPendingApproval, first)
	w.watermark(review.CreatedAt)
}

func TestTheFirstLookDoesNotDigUpThePast(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opens(1)
	w.host.comments = []bot.Comment{{Kind: bot.CommentIssue, ID: 800, Number: 1, Author: ada, Body: "/batch", CreatedAt: noon.Add(-time.Hour)}}
	recent := w.posts(ada, 1, "/batch")
	w.looks()
	if len(w.rows.ops) != 1 || !w.rows.handled["git:issue:1:1"] || w.rows.handled["git:issue:800:1"] {
		t.Errorf("handled %v", w.rows.handled)
	}
	w.watermark(recent.CreatedAt)
}

// Whatever is written after the bot came is meant for it, also where nothing was there to show the host's time, and when the host cannot be read
// for long afterwards.
func TestARepositoryWithoutMergeRequestsIsLookedAtFromNowOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	came := time.Now()
	w.looks()
	if seen := w.rows.repos[0].CommentsSeenAt; seen.Before(came.Add(-2*time.Hour)) || seen.After(came) {
		t.Errorf("looked up to %s, came at %s", seen, came)
	}
	if w.steps.count("ListComments") != 0 {
		t.Error("comments were listed without a merge request")
	}
	for n := range 3 {
		w.opens(n + 1)
		c := w.wrote(ada, n+1, "/batch")
		c.CreatedAt = came.Add(time.Duration(n) * 24 * time.Hour) // the host was down for days
		w.host.comments = append(w.host.comments, c)
		w.changes(n+1, func(mr *bot.MRSnapshot) { mr.UpdatedAt = c.CreatedAt })
	}
	if look := w.looks(); look.Commands != 3 {
		t.Errorf("look %+v", look)
	}
}

func TestLooksOverlap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opens(1)
	w.rows.repos[0].CommentsSeenAt = noon.Add(time.Minute)
	// The host showed this one late, after a younger one was seen.
	w.posts(ada, 1, "/batch")
	if look := w.looks(); look.Commands != 1 {
		t.Errorf("look %+v", look)
	}
	w.watermark(noon.Add(time.Minute)) // never back
}

func TestALongListIsReadInParts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opens(1)
	w.looks()
	w.host.most = 2
	for range 5 {
		w.posts(ada, 1, "/batch nonsense")
	}
	if look := w.looks(); look.Commands != 5 {
		t.Errorf("look %+v", look)
	}
}

func TestTheWatermarkStaysWhenAnythingFails(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		for n := 1; ; n++ {
			w := newWorld(t)
			w.opens(1)
			w.approves(1, first)
			w.looks()
			w.watermark(noon)
			c := w.posts(ada, 1, "/batch")
			*w.steps = steps{failAt: n, after: after}
			_, err := w.looker().RunOnce(context.Background(), w.rows.repos[0])
			if len(w.steps.calls) < n {
				break
			}
			failed := w.steps.calls[n-1]
			// After its effect, a call that had found nothing says so still: that is no failure.
			if err == nil && !(after && failed == "ReadFile") {
				t.Errorf("%s failed and the look did not", failed)
			}
			if got := w.rows.repos[0].CommentsSeenAt; err != nil && failed != "SaveWatermark" && !got.Equal(noon) {
				t.Errorf("%s failed and the watermark moved to %s", failed, got)
			}
			*w.steps = steps{}
			w.looks()
			w.stands(1, bot.OperationWaiting, first)
			w.watermark(c.CreatedAt)
			if len(w.rows.ops) != 1 {
				t.Fatalf("after %s had failed: operations %+v", failed, w.rows.ops)
			}
		}
	}
}

func TestALookWakesTheQueuesWithABatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.rows.watching = []int64{3, 4}
	if look := w.looks(); look.Watched != 2 || !slices.Equal(w.nudged, []int64{3, 4}) {
		t.Errorf("look %+v, nudged %v", look, w.nudged)
	}
}

func TestALookEndsARepositoryThatIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host.gone = true
	w.looks()
	if w.rows.repos[0].Active {
		t.Error("gone and still active")
	}
}

func TestSomethingThatIsGoneDoesNotEndALook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opens(1)
	w.says(ada, 1, "/batch")
	w.approves(1, first)
	w.host.reviewsGone = true
	look, err := w.looker().RunOnce(context.Background(), w.rows.repos[0])
	if !errors.Is(err, bot.ErrNotFound) || look.Moved() != 1 || !w.rows.repos[0].Active {
		t.Errorf("look %+v, error %v, repository %+v", look, err, w.rows.repos[0])
	}
	w.stands(1, bot.OperationWaiting, first)
	w.watermark(time.Time{})
}

func TestOneFailureDoesNotHideTheOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for n := range 3 {
		w.opens(n + 1)
		w.says(ada, n+1, "/batch")
		w.approves(n+1, first)
	}
	*w.steps = steps{}
	w.looks() // counts nothing, but says which calls there are
	failAt := slices.Index(w.steps.calls, "ReadMR") + 1

	w = newWorld(t)
	for n := range 3 {
		w.opens(n + 1)
		w.says(ada, n+1, "/batch")
		w.approves(n+1, first)
	}
	*w.steps = steps{failAt: failAt}
	look, err := w.looker().RunOnce(context.Background(), w.rows.repos[0])
	if !errors.Is(err, errDown) || look.Moved() != 2 {
		t.Errorf("look %+v, error %v", look, err)
	}
}

func TestLooksComeRarerWhileAllIsQuietAndSoonAfterAFind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.opens(1)
		looker := w.looker()
		looksIn := func(d time.Duration) int {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Minute) {
				looker.Tick(context.Background())
			}
			n := w.steps.count("ListUpdatedMRs")
			w.steps.calls = nil
			return n
		}
		if n := looksIn(time.Minute); n != 1 {
			t.Errorf("%d looks at the start", n)
		}
		looksIn(time.Hour)
		if n := looksIn(time.Hour); n < 6 || n > 7 {
			t.Errorf("%d looks in a quiet hour", n)
		}
		w.posts(ada, 1, "/batch")
		for range 11 {
			if looksIn(time.Minute); len(w.rows.ops) > 0 {
				break
			}
		}
		w.stands(1, bot.OperationPendingApproval, first)
		if n := looksIn(3 * time.Minute); n != 2 {
			t.Errorf("%d looks in three minutes after a find, want one after one minute and one two later", n)
		}
	})
}

func TestRunTicksUntilItIsStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, cancel := context.WithTimeout(context.Background(), 150*time.Second)
		defer cancel()
		w.looker().Run(ctx)
		if n := w.steps.count("ActiveRepositories"); n != 1+3 { // listing them on the host reads them once, too
			t.Errorf("%d ticks, want one at once and one a minute", n)
		}
	})
}

func TestTicksListRepositoriesNowAndThen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.host.refs = append(w.host.refs, bot.RepositoryRef{Host: "git", ExternalID: 4712, Path: "team/lib", Installation: 9})
		looker := w.looker()
		looker.Tick(context.Background())
		if len(w.rows.repos) != 2 {
			t.Errorf("%d repositories", len(w.rows.repos))
		}
		looker.Tick(context.Background())
		if w.steps.count("ListRepositories") != 1 {
			t.Error("listed again at once")
		}
		time.Sleep(time.Hour)
		looker.Tick(context.Background())
		if w.steps.count("ListRepositories") != 2 {
			t.Error("not listed again after an hour")
		}
	})
}

// Where nothing can be read, a look does not ask for every merge request there is; where only some cannot be read, it does.
func TestALookAtAHostThatDoesNotAnswerIsShort(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const applied = 20
	for n := 1; n <= applied; n++ {
		w.opens(n)
		w.says(ada, n, "/batch")
	}
	for _, test := range []struct {
		failing []string
		reads   int
	}{
		{[]string{"ListUpdatedMRs", "ReadMR"}, 3},
		{[]string{"ListUpdatedMRs"}, applied},
		{[]string{"ReadMR"}, applied},
	} {
		*w.steps = steps{failing: test.failing}
		if _, err := w.looker().RunOnce(context.Background(), w.rows.repos[0]); !errors.Is(err, errDown) {
			t.Errorf("with %v failing the look ends with %v", test.failing, err)
		}
		if n := w.steps.count("ReadMR"); n != test.reads {
			t.Errorf("with %v failing %d merge requests are asked for, want %d", test.failing, n, test.reads)
		}
	}
}
