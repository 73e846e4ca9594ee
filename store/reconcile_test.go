package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/store"
	"github.com/batchbot/batchbot/store/storetest"
)

// leftovers is a database with a repository, and what reconcile asks it.
type leftovers struct {
	*testing.T
	db    storetest.Database
	store *store.Store
	repo  bot.Repository
	queue bot.Queue
}

func onBoth(t *testing.T, test func(l leftovers)) {
	t.Helper()
	for name, open := range map[string]func(testing.TB) storetest.Database{"sqlite": newSQLite, "mysql": mysqlServer.database} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := leftovers{T: t, db: open(t)}
			l.store = l.db.Open(t)
			var err error
			l.repo, err = l.store.UpsertRepository(t.Context(), bot.RepositoryRef{Host: "forge", ExternalID: 4711, Path: "fruit/basket", DefaultBranch: "main"})
			l.must(err)
			l.queue, err = l.store.UpsertQueue(t.Context(), l.repo.ID, bot.DefaultQueueSettings("main"), "")
			l.must(err)
			test(l)
		})
	}
}

func (l leftovers) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

func (l leftovers) audits(action string) (n int) {
	l.Helper()
	l.must(l.db.SQL.QueryRowContext(l.Context(), fmt.Sprintf(`SELECT COUNT(*) FROM audit WHERE action = '%s' AND actor = 'ada' AND source = 'reconcile'`, action)).Scan(&n))
	return n
}

func TestErrandsThatWereGivenUpAreTriedAgainWhenAsked(t *testing.T) {
	t.Parallel()
	onBoth(t, func(l leftovers) {
		ctx := l.Context()
		sticky := bot.Errand{Kind: bot.ErrandSticky, Target: "7", Repository: l.repo, Number: 3}
		l.must(l.store.WantErrand(ctx, sticky, "ada", "reconcile"))
		if due, err := l.store.ErrandDue(ctx, bot.ErrandSticky, "7"); err != nil || !due {
			l.Errorf("wanted and not due: %v", err)
		}
		claimed, err := l.store.ClaimErrands(ctx, 10, time.Minute)
		if err != nil || len(claimed) != 1 {
			l.Fatalf("claimed %d, %v", len(claimed), err)
		}
		l.must(l.store.PostponeErrand(ctx, claimed[0], 0, "the host forbids it"))
		for where, want := range map[int64]int{0: 1, l.repo.ID: 1, l.repo.ID + 1: 0} {
			list, err := l.store.GivenUpErrands(ctx, where, 10)
			if err != nil || len(list) != want {
				l.Fatalf("in repository %d: %+v, %v", where, list, err)
			}
			if want == 1 && (list[0].Reason != "the host forbids it" || list[0].Errand.Kind != bot.ErrandSticky || list[0].Errand.Repository.Path != "fruit/basket") {
				l.Errorf("listed as %+v", list[0])
			}
		}
		for try, want := range []bool{true, false} {
			if changed, err := l.store.RetryErrand(ctx, claimed[0].ID, "ada", "reconcile"); err != nil || changed != want {
				l.Errorf("retry %d: %v, %v", try, changed, err)
			}
		}
		again, err := l.store.ClaimErrands(ctx, 10, time.Minute)
		if err != nil || len(again) != 1 || again[0].Attempts != 1 {
			l.Errorf("claimed again: %+v, %v", again, err)
		}
		// Whoever gave it up in its earlier life cannot end this one.
		l.must(l.store.FinishErrand(ctx, claimed[0]))
		if due, err := l.store.ErrandDue(ctx, bot.ErrandSticky, "7"); err != nil || !due {
			l.Errorf("finished by its earlier life: %v", err)
		}
		if l.audits("want errand") != 1 || l.audits("retry errand") != 1 {
			l.Errorf("%d and %d entries in the audit", l.audits("want errand"), l.audits("retry errand"))
		}
		if err := l.store.WantErrand(ctx, bot.Errand{Kind: bot.ErrandReply, Target: "x", Repository: l.repo}, "ada", "reconcile"); err == nil {
			l.Error("a reply without words is wanted")
		}
	})
}

func TestDeliveriesThatFailedAreTriedAgainWhenAsked(t *testing.T) {
	t.Parallel()
	onBoth(t, func(l leftovers) {
		ctx := l.Context()
		for _, key := range []string{"one", "two"} {
			_, err := l.store.InsertDelivery(ctx, "forge", key, "push", []byte("{}"))
			l.must(err)
		}
		claimed, err := l.store.ClaimDeliveries(ctx, 10, time.Minute)
		l.must(err)
		for _, d := range claimed {
			_, err := l.store.FinishDelivery(ctx, d.ID, d.Attempts, bot.DeliveryOutcome{Status: bot.DeliveryFailed, Error: "poison"})
			l.must(err)
		}
		_, err = l.db.SQL.ExecContext(ctx, `UPDATE delivery SET payload = NULL WHERE delivery_key = 'two'`)
		l.must(err)
		list, err := l.store.FailedDeliveries(ctx, 10)
		if err != nil || len(list) != 2 || list[0].Delivery.Key != "one" || list[0].Reason != "poison" || list[0].Purged || !list[1].Purged {
			l.Fatalf("listed %+v, %v", list, err)
		}
		for try, want := range []bool{true, false} {
			if changed, err := l.store.RetryDelivery(ctx, list[0].Delivery.ID, "ada", "reconcile"); err != nil || changed != want {
				l.Errorf("retry %d: %v, %v", try, changed, err)
			}
		}
		if changed, err := l.store.RetryDelivery(ctx, list[1].Delivery.ID, "ada", "reconcile"); err != nil || changed {
			l.Errorf("one without a payload: %v, %v", changed, err)
		}
		again, err := l.store.ClaimDeliveries(ctx, 10, time.Minute)
		if err != nil || len(again) != 1 || again[0].Key != "one" || again[0].Attempts != 2 {
			l.Errorf("claimed again: %+v, %v", again, err)
		}
		if l.audits("retry delivery") != 1 {
			l.Errorf("%d entries in the audit", l.audits("retry delivery"))
		}
	})
}

func TestBatchesThatAreOverSayWhatIsOpen(t *testing.T) {
	t.Parallel()
	onBoth(t, func(l leftovers) {
		ctx := l.Context()
		var batches []bot.Batch
		for n := range 3 {
			head := fmt.Sprintf("%040x", n+1)
			result, err := l.store.Apply(ctx, bot.Application{
				OperationID: fmt.Sprintf("00000000-0000-4000-8000-%012d", n), QueueID: l.queue.ID, Repository: l.repo, Admit: true, Lane: bot.LaneNormal, ExpiresIn: time.Hour,
				MR:      bot.MRSnapshot{Number: n + 1, State: bot.MROpen, HeadSHA: head, Target: "main"},
				Command: bot.CommandRef{RequestID: fmt.Sprint("forge:issue:", n), Order: bot.CommandOrder{At: int64(n + 1), ID: int64(n + 1)}, By: "ada", Verb: "batch"},
			})
			if err != nil || result.Outcome != bot.ApplyDone {
				l.Fatalf("apply: %+v, %v", result, err)
			}
			claim, err := l.store.Claim(ctx, bot.ClaimSpec{QueueID: l.queue.ID, Kind: bot.BatchFresh, Limit: 9, Token: "0badcafe", Timeout: time.Hour})
			if err != nil || claim.Outcome != bot.ClaimDone {
				l.Fatalf("claim: %+v, %v", claim, err)
			}
			batches = append(batches, claim.Batch)
			if n == 2 {
				break // active
			}
			batch, ok, err := l.store.ChangeBatch(ctx, claim.Batch.Guard(), bot.BatchChange{MRNumber: 40 + n, Code: bot.CodeNone})
			if err != nil || !ok {
				l.Fatal(ok, err)
			}
			ok, err = l.store.Settle(ctx, bot.Settlement{
				Guard: batch.Guard(), Status: bot.BatchFailed, Code: bot.CodeCIRed, DeleteBranch: n == 0,
				Members: []bot.MemberOutcome{{OperationID: result.Operation.ID, To: bot.OperationFailed, Reason: bot.ReasonCIRed}},
			})
			if err != nil || !ok {
				l.Fatal(ok, err)
			}
		}
		_, err := l.store.LandedLate(ctx, batches[1].ID, strings.Repeat("a", 40), nil)
		l.must(err)
		l.must(l.store.RevisitBatch(ctx, batches[1].ID))
		list, err := l.store.EndedBatches(ctx, l.queue.ID, time.Hour, 10)
		if err != nil || len(list) != 2 {
			l.Fatalf("%d batches, %v", len(list), err)
		}
		newest, oldest := list[0], list[1]
		if newest.Batch.ID != batches[1].ID || !newest.LandedLate || newest.BranchDue || !newest.MRDue {
			l.Errorf("the newest is %+v", newest)
		}
		if oldest.Batch.ID != batches[0].ID || oldest.LandedLate || !oldest.BranchDue || oldest.MRDue {
			l.Errorf("the oldest is %+v", oldest)
		}
		if list, err := l.store.EndedBatches(ctx, l.queue.ID, time.Hour, 1); err != nil || len(list) != 1 || list[0].Batch.ID != batches[1].ID {
			l.Errorf("the newest one only: %+v, %v", list, err)
		}
		if list, err := l.store.EndedBatches(ctx, l.queue.ID, 0, 10); err != nil || len(list) != 0 {
			l.Errorf("of no time at all: %+v, %v", list, err)
		}
	})
}
