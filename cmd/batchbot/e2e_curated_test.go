package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/message"
	"github.com/batchbot/batchbot/config"
	"github.com/batchbot/batchbot/githost/fakehost"
)

// TestACuratedBatchLandsTogether drafts a set by comments, mends what its submission finds, has it approved and broken by a push, and lands it in
// the second attempt, on both hosts.
func TestACuratedBatchLandsTogether(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{config.GitHub, config.GitLab} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, benchSettings{kind: kind, ci: fakehost.CI{Mode: fakehost.CIManual, BranchPrefix: bot.BatchBranchPrefix}})
			home := b.open(t, fakehost.NewMR{Head: "home"})
			second := b.open(t, fakehost.NewMR{Head: "second", Draft: true})
			third := b.open(t, fakehost.NewMR{Head: "third"})
			other := b.open(t, fakehost.NewMR{Head: "other"})
			for _, n := range []int{home, second, third, other} {
				b.approve(t, n, "rita")
			}

			b.say(t, home, "ada", "/batch submit")
			b.answered(t, home, "No curated batch was drafted on this merge request.")
			b.say(t, home, "ada", fmt.Sprintf("/batch with #%d and #%d", second, third))
			b.answered(t, home, "These are no merge requests of this repository: and. Nothing was drafted.")
			b.say(t, home, "ada", fmt.Sprintf("/batch with #%d, %d", second, third))
			b.answered(t, home, "Curated batch 1 into `main` is a draft.")
			b.answered(t, home, message.StatusMarker, "**Curated batch 1: a draft**")
			b.say(t, home, "ada", "/batch approve")
			b.answered(t, home, "Curated batch 1 is still a draft")

			b.say(t, home, "ada", "/batch submit")
			b.answered(t, home, "is not submitted, and stays a draft as it is", "is a draft; mark it ready first.")
			b.must(t, b.host.SetDraft(e2eRepo, second, "ada", false))
			b.say(t, home, "ada", "/batch submit")
			b.answered(t, home, "Curated batch 1 into `main` is submitted, waiting for approval.", "| 1 |", "| 2 |", "| 3 |")
			b.say(t, home, "ben", "/batch submit")
			b.answered(t, home, "Curated batch 1 was submitted already")
			b.say(t, home, "ada", "/batch approve")
			b.answered(t, home, "Sorry, ada: whoever drafted a set does not approve it")
			b.say(t, home, "ben", "/batch approve")
			b.answered(t, home, "Curated batch 1 into `main` is approved by ben, on its way.")
			b.answered(t, second, message.StatusMarker, "curated batch 1")

			// A push to one of them, approved or not, takes all of them out.
			b.batchUnderTest(t)
			b.say(t, other, "ada", "/batch")
			_, err := b.host.PushTo(e2eRepo, third, map[string]string{"more.txt": "more\n"})
			b.must(t, err)
			b.approve(t, third, "rita")
			for _, n := range []int{home, second, third} {
				b.becomes(t, n, bot.OperationRejected)
			}
			b.answered(t, home, "**Taken out of batch 1 with its curated batch.**", fmt.Sprintf("lost: %d was pushed to", third), "together or not at all")
			b.answered(t, third, "**Taken out of batch 1 with its curated batch.** New commits were pushed.")
			b.answered(t, home, message.StatusMarker, "**Curated batch 1: not on its way", fmt.Sprintf("`/batch with #%d #%d #%d`", home, second, third))

			b.say(t, home, "ben", fmt.Sprintf("/batch with #%d #%d #%d", third, home, second))
			b.setIs(t, bot.CuratedDraft, "ben")
			b.say(t, home, "ben", "/batch submit")
			b.setIs(t, bot.CuratedPendingApproval, "ben")
			b.say(t, home, "ada", "/batch approve") // now it is ben's
			b.setIs(t, bot.CuratedApproved, "ben")
			b.host.SetCI(fakehost.CI{Mode: fakehost.CIImmediate})
			_, err = b.host.FinishCI("")
			b.must(t, err)
			for _, n := range []int{home, second, third, other} {
				b.becomes(t, n, bot.OperationMerged)
			}
			b.answered(t, home, "Curated batch 1 into `main` is approved by ada, on its way.")
			within(t, benchLimit, "silence", func() bool { return b.quiet(t) })

			if n := count(t, b.db, `SELECT COUNT(*) FROM approval_request WHERE status = 4`); n != 1 {
				t.Errorf("%d sets are done", n)
			}
			var order []string
			rows, err := b.db.QueryContext(t.Context(), `SELECT m.number FROM merge_batch b JOIN merge_batch_member h ON h.batch_id = b.id AND h.event = 4
				JOIN operation o ON o.operation_id = h.operation_id JOIN merge_request m ON m.id = o.merge_request_id WHERE b.kind = 4 ORDER BY h.position`)
			b.must(t, err)
			defer rows.Close()
			for rows.Next() {
				var n int
				b.must(t, rows.Scan(&n))
				order = append(order, fmt.Sprint(n))
			}
			b.must(t, rows.Err())
			if want := fmt.Sprint(third, home, second); strings.Join(order, " ") != want {
				t.Errorf("the set landed as %v, want %s", order, want)
			}
			status := 0
			for _, body := range b.said(t, home) {
				if strings.HasPrefix(body, message.StatusMarker) {
					status++
				}
			}
			if status != 1 {
				t.Errorf("%d status comments", status)
			}
			b.nothingLost(t)
		})
	}
}

// TestACuratedBatchIsCancelled ends a set that waits for its approval, and the application of its merge request with it.
func TestACuratedBatchIsCancelled(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchSettings{ci: fakehost.CI{Mode: fakehost.CIImmediate}})
	home, second := b.open(t, fakehost.NewMR{Head: "home"}), b.open(t, fakehost.NewMR{Head: "second"})
	b.say(t, home, "ada", "/batch") // it waits for its approval
	b.becomes(t, home, bot.OperationPendingApproval)
	b.say(t, home, "ada", fmt.Sprintf("/batch with #%d", second))
	b.setIs(t, bot.CuratedDraft, "ada")
	b.say(t, home, "ada", "/batch submit")
	b.answered(t, home, "is submitted, waiting for approval")
	b.say(t, home, "ben", "/batch approve")
	b.answered(t, home, "is not approved, and still waits", "is not approved by itself: needs 1 more approval")
	b.say(t, home, "ada", "/batch cancel")
	b.becomes(t, home, bot.OperationCancelled)
	if n := count(t, b.db, `SELECT COUNT(*) FROM approval_request WHERE status = 6`); n != 1 {
		t.Errorf("%d sets are cancelled", n)
	}
	b.say(t, home, "ada", fmt.Sprintf("/batch with #%d", second))
	b.answered(t, home, "Curated batch 2 into `main` is a draft.")
	b.say(t, home, "ada", "/batch cancel")
	b.answered(t, home, "Curated batch 2 is cancelled.")
	b.nothingLost(t)
}

// setIs waits until there is a set in a state, drafted by login.
func (b *bench) setIs(t *testing.T, status bot.CuratedStatus, login string) {
	t.Helper()
	within(t, benchLimit, fmt.Sprintf("a set of %s's that is %s", login, status), func() bool {
		return count(t, b.db, fmt.Sprintf(`SELECT COUNT(*) FROM approval_request WHERE status = %d AND drafter = '%s'`, status, login)) == 1
	})
}
