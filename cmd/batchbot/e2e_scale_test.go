package main

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/config"
	"github.com/batchbot/batchbot/githost/fakehost"
)

// What becomes of the thirty: on the host, in the rows, and why.
const (
	landed      = "merged MERGED landed"
	conflicts   = "open FAILED conflict"
	red         = "open FAILED ci_red"
	notApproved = "open PENDING_APPROVAL applied"
)

// thirty are the merge requests of the scale test, and what must become of each, whatever the weather.
type thirty struct {
	numbers []int
	fate    map[int]string
	rivals  [][2]int // of two that contradict each other one lands, the other conflicts
}

// TestThirtyMergeRequestsEndTheSameInAnyWeather runs two instances on one database through thirty merge requests: most land, some conflict with
// the target, some with each other, one breaks CI, one is never approved. How reliably webhooks arrive must change nothing but the time it takes.
func TestThirtyMergeRequestsEndTheSameInAnyWeather(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind     string
		name     string
		weather  weather
		passedOn func(received int, answers map[int]int) bool // whether the weather was what it should be
	}{
		{config.GitHub, "every webhook arrives once", fine, allOnce},
		{config.GitHub, "half of all webhooks are lost", halfLost(), aboutHalf},
		{config.GitHub, "every webhook arrives twice and out of order", twiceInAnyOrder(), allTwice},
		{config.GitLab, "half of all webhooks are lost", halfLost(), aboutHalf},
		{config.GitLab, "every webhook arrives twice and out of order", twiceInAnyOrder(), allTwice},
	} {
		t.Run(test.kind+": "+test.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, test.kind, "--ci", "delay", "--ci-delay", "50ms")
			all := openThirty(t, s)
			if code, stdout, stderr := command(t, nil, "migrate", "--config", s.instance(t, "one", "")); code != exitDone {
				t.Fatalf("migrate exits %d: %s%s", code, stdout, stderr)
			}
			var servers []string
			for _, name := range []string{"one", "two"} {
				_, address := startServe(t, s.dir, s.instance(t, name, "look: {interval: 1s, max_interval: 1s}\nrounds: {poll: 500ms}\n"))
				servers = append(servers, s.webhook(address))
			}
			r := startRelay(t, test.weather, servers...)
			if err := s.client.SetWebhook(t.Context(), r.url, hookSecret); err != nil {
				t.Fatal(err)
			}
			all.ask(t, s)

			var got map[int]string
			defer func() {
				if t.Failed() {
					received, answers := r.counted()
					t.Logf("what became of them: %v; %d webhooks were answered with %v", got, received, answers)
				}
			}()
			looks := 0
			within(t, 3*time.Minute, "thirty fates and silence", func() bool {
				checkOneActive(t, s)
				if looks++; looks%5 != 0 {
					return false // a dump of the host holds up everybody
				}
				state := s.state(t)
				checkOneOpen(t, state)
				got = fates(t, s, state)
				return all.fulfilled(got) && s.quiet(t) && r.idle()
			})
			// What is still on its way after the end must change nothing.
			within(t, time.Minute, "the last webhook", func() bool {
				received, answers := r.counted()
				return r.idle() && s.quiet(t) && test.passedOn(received, answers)
			})
			if got = fates(t, s, s.state(t)); !all.fulfilled(got) {
				t.Error("the last webhooks changed what became of them")
			}
			if n := count(t, s.db, `SELECT COUNT(*) FROM delivery WHERE status = 4`); n != 0 {
				t.Errorf("%d deliveries were given up", n)
			}
			if n := count(t, s.db, `SELECT COUNT(*) FROM outbox WHERE status = 3`); n != 0 {
				t.Errorf("%d errands were given up", n)
			}
			s.checkLanded(t)
			checkSaidOnce(t, s.state(t))
		})
	}
}

func allOnce(received int, answers map[int]int) bool { return answers[http.StatusAccepted] == received }

func aboutHalf(received int, answers map[int]int) bool {
	return answers[http.StatusAccepted] > received/4 && answers[http.StatusAccepted] < received*3/4
}

func allTwice(received int, answers map[int]int) bool {
	return answers[http.StatusAccepted]+answers[http.StatusOK] == 2*received && answers[http.StatusOK] > received/2
}

// openThirty makes the repository and the merge requests, before any instance knows of them.
func openThirty(t *testing.T, s stage) thirty {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.client.AddRepository(t.Context(), fakehost.NewRepository{
		Owner: "acme", Name: "app", Generate: 30,
		Files: map[string]string{
			".batchbot.yml": "queues:\n  - branch: main\n    max_batch_size: 10\n    checks: {required: [ci]}\n",
			"prices.txt":    "as it was\n", "one.txt": "1\n", "two.txt": "2\n", "three.txt": "3\n",
		},
		Permissions: map[string]string{"ada": fakehost.RoleWrite, "ben": fakehost.RoleWrite, "cleo": fakehost.RoleRead, "rita": fakehost.RoleMaintain},
	}))
	all := thirty{fate: make(map[int]string)}
	authors := []string{"ada", "ben", "cleo"}
	for i := range 30 {
		files, fate := map[string]string{fmt.Sprintf("feature-%d.txt", i): "new\n"}, landed
		switch i {
		case 3, 11, 17, 28:
			files["prices.txt"], fate = fmt.Sprintf("as %d wants it\n", i), conflicts
		case 5, 6, 10, 20, 14, 29:
			files[map[int]string{5: "one.txt", 6: "one.txt", 10: "two.txt", 20: "two.txt", 14: "three.txt", 29: "three.txt"}[i]] = fmt.Sprintf("from %d\n", i)
			fate = ""
		case 8:
			files["ci.fail.txt"], fate = "breaks the build\n", red
		case 23:
			fate = notApproved
		}
		number, err := s.client.OpenMR(t.Context(), e2eRepo, fakehost.NewMR{
			Author: authors[i%3], Head: fmt.Sprintf("feature-%d", i), Title: fmt.Sprintf("Feature %d", i), Files: files, Fork: i%9 == 0,
		})
		must(err)
		all.numbers = append(all.numbers, number)
		if fate != "" {
			all.fate[number] = fate
		}
	}
	for _, pair := range [][2]int{{5, 6}, {10, 20}, {14, 29}} {
		all.rivals = append(all.rivals, [2]int{all.numbers[pair[0]], all.numbers[pair[1]]})
	}
	_, err := s.client.Commit(t.Context(), fakehost.PushRequest{
		Repo: e2eRepo, Branch: "main", Author: "rita", Message: "Raise all prices", Files: map[string]string{"prices.txt": "higher\n"},
	})
	must(err)
	return all
}

// ask has everybody write /batch and a reviewer approve all but one, the two in any order.
func (all thirty) ask(t *testing.T, s stage) {
	t.Helper()
	authors := []string{"ada", "ben", "cleo"}
	for i, number := range all.numbers {
		steps := []func() error{
			func() error {
				_, err := s.client.Comment(t.Context(), e2eRepo, number, authors[i%3], "/batch")
				return err
			},
			func() error {
				if all.fate[number] == notApproved {
					return nil
				}
				_, err := s.client.Review(t.Context(), e2eRepo, number, "rita", fakehost.Approved, "")
				return err
			},
		}
		if i%2 == 1 {
			slices.Reverse(steps)
		}
		for _, step := range steps {
			if err := step(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// fulfilled compares what became of them with what should.
func (all thirty) fulfilled(got map[int]string) bool {
	for number, fate := range all.fate {
		if got[number] != fate {
			return false
		}
	}
	for _, pair := range all.rivals {
		ends := []string{got[pair[0]], got[pair[1]]}
		slices.Sort(ends)
		if !slices.Equal(ends, []string{landed, conflicts}) {
			return false
		}
	}
	return len(got) == len(all.numbers)
}

// fates is what became of every merge request that was applied: its state on the host, and of its operations status and reason.
func fates(t *testing.T, s stage, state fakehost.State) map[int]string {
	t.Helper()
	got := make(map[int]string)
	rows, err := s.db.QueryContext(t.Context(), `SELECT m.number, o.status, o.reason FROM operation o JOIN merge_request m ON m.id = o.merge_request_id ORDER BY o.created_at`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var number int
		var status bot.OperationStatus
		var reason string
		if err := rows.Scan(&number, &status, &reason); err != nil {
			t.Fatal(err)
		}
		got[number] += fmt.Sprintf(" %s %s", status, reason)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for _, mr := range state.MergeRequests {
		if _, ok := got[mr.Number]; ok {
			got[mr.Number] = mr.State + got[mr.Number]
		}
	}
	return got
}

// checkOneActive is the promise to a reader of the table.
func checkOneActive(t *testing.T, s stage) {
	t.Helper()
	if n := count(t, s.db, `SELECT COALESCE(MAX(n), 0) FROM (SELECT COUNT(*) AS n FROM merge_batch WHERE status IN (1, 4) GROUP BY queue_id) AS active`); n > 1 {
		t.Fatalf("%d batches of one queue are active", n)
	}
}

// checkOneOpen is the promise to a reader of the host.
func checkOneOpen(t *testing.T, state fakehost.State) {
	t.Helper()
	var open []int
	for _, mr := range state.MergeRequests {
		if mr.State == "open" && strings.HasPrefix(mr.Branch, bot.BatchBranchPrefix) {
			open = append(open, mr.Number)
		}
	}
	if len(open) > 1 {
		t.Fatalf("the batch merge requests %v are open at once", open)
	}
}

var commentMarker = regexp.MustCompile(`^<!-- batchbot:\S+( \S+)? -->`)

// checkSaidOnce wants something said on every one of thirty merge requests, and nothing twice.
func checkSaidOnce(t *testing.T, s fakehost.State) {
	t.Helper()
	if said := checkNothingTwice(t, s); said < 30 {
		t.Errorf("the bot wrote %d comments, want at least one on each merge request", said)
	}
}

// checkNothingTwice wants every comment of the bot to have a marker of its own, and no two on one merge request to say the same. It returns
// how many there are.
func checkNothingTwice(t *testing.T, s fakehost.State) (said int) {
	t.Helper()
	for _, mr := range s.MergeRequests {
		times := make(map[string]int)
		for _, c := range mr.Comments {
			if c.Author != demoBot && c.Author != gitlabBot {
				continue
			}
			said++
			marker := commentMarker.FindString(c.Body)
			if marker == "" {
				t.Errorf("a comment on !%d has no marker: %s", mr.Number, c.Body)
				continue
			}
			times[marker]++
			times[strings.TrimSpace(strings.TrimPrefix(c.Body, marker))]++
		}
		for what, n := range times {
			if n > 1 {
				t.Errorf("on !%d this is said %d times: %s", mr.Number, n, what)
			}
		}
	}
	return said
}
