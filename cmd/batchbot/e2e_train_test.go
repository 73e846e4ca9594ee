package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/message"
	"github.com/batchbot/batchbot/config"
	"github.com/batchbot/batchbot/githost/fakehost"
)

// TestATrainDeparts seats four merge requests on two seats, loses some of them on the way, and lets the rest depart and land.
func TestATrainDeparts(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{config.GitHub, config.GitLab} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			// Half a day away from any departure, whenever this runs: the departure comes when the test says.
			hour := time.Now().UTC().Add(12 * time.Hour).Format("15")
			b := newBench(t, benchSettings{kind: kind, ci: fakehost.CI{Mode: fakehost.CIImmediate}, files: map[string]string{
				".batchbot.yml": "queues:\n  - branch: main\n    checks: {required: [ci]}\n    trains:\n" +
					"      - {name: nightly, schedule: \"0 " + hour + " * * *\", time_zone: Europe/Berlin, seats: 2, boarding_closes: 5m}\n",
			}})
			joins := func(number int, answer string) {
				t.Helper()
				b.say(t, number, "ada", "/batch join")
				b.answered(t, number, answer)
			}
			var mrs [5]int // from 1
			for i, answer := range []string{"It has a seat on train `nightly`", "It has a seat on", "it is number 1 in line", "it is number 2 in line"} {
				mrs[i+1] = b.open(t, fakehost.NewMR{Head: fmt.Sprint("change-", i+1)})
				joins(mrs[i+1], answer)
			}

			b.say(t, mrs[1], "ada", "/batch leave")
			b.answered(t, mrs[3], "**A seat became free.** It has a seat on train `nightly`, which departs ", "in Europe/Berlin")
			_, err := b.host.PushTo(e2eRepo, mrs[2], map[string]string{"more.txt": "more\n"})
			b.must(t, err)
			b.answered(t, mrs[2], "**Its place on train `nightly` is lost.** New commits were pushed. Comment `/batch join nightly`")
			b.answered(t, mrs[4], "**A seat became free.**")
			b.say(t, mrs[2], "ada", "/batch join nightly")
			b.answered(t, mrs[2], "it is number 1 in line")

			for _, n := range mrs[2:] {
				b.approve(t, n, "rita")
			}
			within(t, benchLimit, "three approvals of seats", func() bool {
				return count(t, b.db, `SELECT COUNT(*) FROM train_seat WHERE status IN (1, 2) AND approved = 1`) == 3
			})
			if n := count(t, b.db, `SELECT COUNT(*) FROM merge_batch_request`) + count(t, b.db, `SELECT COUNT(*) FROM merge_batch`); n != 0 {
				t.Errorf("%d requests and batches came before the departure", n)
			}
			trains, err := b.store.OpenTrains(t.Context(), 0)
			b.must(t, err)
			if len(trains) != 1 || trains[0].Name != "nightly" || trains[0].Confirmed != 2 || trains[0].Waiting != 1 {
				t.Fatalf("open trains: %+v", trains)
			}
			now, err := b.store.Clock(t.Context())
			b.must(t, err)
			moves := func(departs time.Time) {
				t.Helper()
				_, refusal, err := b.trains.Change(t.Context(), bot.TrainChange{TrainID: trains[0].ID, DepartsAt: departs, ClosesAt: departs, By: "rita"})
				if err != nil || refusal != "" {
					t.Fatalf("the departure does not move: %q, %v", refusal, err)
				}
			}
			moves(now.Add(25 * time.Hour))
			for _, n := range mrs[2:] {
				b.answered(t, n, message.StatusMarker, now.Add(25*time.Hour).UTC().Format("Mon 2 Jan 2006 15:04")+" UTC")
			}
			moves(now.Add(time.Second))
			// Whether this tick lets it depart, or the one of the job.
			within(t, benchLimit, "the departure", func() bool {
				_, err := b.trains.Tick(t.Context())
				b.must(t, err)
				return count(t, b.db, `SELECT COUNT(*) FROM train WHERE status = 2`) == 1
			})

			for _, n := range mrs[3:] {
				b.becomes(t, n, bot.OperationMerged)
				within(t, benchLimit, "the host to show it", func() bool {
					state, err := b.host.State(e2eRepo)
					b.must(t, err)
					for _, mr := range state.MergeRequests {
						if mr.Number == n {
							return mr.State == "merged"
						}
					}
					return false
				})
			}
			b.answered(t, mrs[2], "**Carried over.** Its train departed without it. It has a seat on train `nightly`")
			if op := b.operation(t, mrs[1]); op.Status != bot.OperationCancelled || op.Reason != bot.ReasonLeft {
				t.Errorf("who left is %+v", op)
			}
			if op := b.operation(t, mrs[2]); op.Status != bot.OperationPendingApproval || op.Reason != bot.ReasonCarriedOver {
				t.Errorf("who was carried over is %+v", op)
			}
			next, err := b.store.OpenTrains(t.Context(), 0)
			b.must(t, err)
			if len(next) != 1 || !next[0].Scheduled || next[0].Confirmed != 1 || next[0].DepartsAt.Before(now.Add(time.Hour)) {
				t.Errorf("next are %+v", next)
			}
			within(t, benchLimit, "silence", func() bool { return b.quiet(t) })
			for _, n := range mrs[1:] {
				status := 0
				for _, body := range b.said(t, n) {
					if strings.HasPrefix(body, message.StatusMarker) {
						status++
					}
				}
				if status != 1 {
					t.Errorf("!%d has %d status comments", n, status)
				}
			}
			b.nothingLost(t)
		})
	}
}
