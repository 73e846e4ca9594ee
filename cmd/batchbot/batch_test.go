package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/fakehost"
)

// blockedBatch has somebody push to a batch branch, and returns the batch's number and that of its MR.
func (b *bench) blockedBatch(t *testing.T) (id string, mr int) {
	t.Helper()
	branch := b.batchUnderTest(t)
	within(t, benchLimit, "the batch MR", func() bool {
		return count(t, b.db, `SELECT COUNT(*) FROM merge_batch WHERE status = 1 AND phase = 3`) == 1
	})
	_, err := b.host.Commit(e2eRepo, branch, "", "ben", "Help the bot", map[string]string{"smuggled.txt": "x\n"})
	b.must(t, err)
	within(t, benchLimit, "a blocked batch", func() bool { return count(t, b.db, `SELECT COUNT(*) FROM merge_batch WHERE status = 4`) == 1 })
	return strconv.Itoa(count(t, b.db, `SELECT id FROM merge_batch WHERE status = 4`)), count(t, b.db, `SELECT mr_number FROM merge_batch WHERE status = 4`)
}

// batch runs `batchbot batch …`.
func (b *bench) batch(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return command(t, nil, append([]string{"batch", "--config", b.file}, args...)...)
}

// A batch that is blocked is found, understood and ended from the command line, while the server runs.
func TestAnOperatorEndsABlockedBatch(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchSettings{ci: fakehost.CI{Mode: fakehost.CIManual}})
	number := b.opened(t, "one")
	id, mr := b.blockedBatch(t)
	b.answered(t, mr, "**Batch "+id+" is blocked and needs a person: somebody pushed to the batch branch.**", "`/batch unblock failed`")

	code, stdout, stderr := b.batch(t, "list")
	if code != exitDone {
		t.Errorf("list exits %d: %s", code, stderr)
	}
	contains(t, "batch list", stdout, "BATCH", "github/acme/app:main", "BLOCKED", "OPENED for ", "1 of 1", "FOREIGN_PUSH", "somebody pushed")
	code, stdout, _ = b.batch(t, "list", "acme/app:main", "--active", "--json")
	var lines []batchDetail
	if err := json.Unmarshal([]byte(stdout), &lines); err != nil || code != exitDone || len(lines) != 1 || lines[0].MR != mr || lines[0].Code != "FOREIGN_PUSH" || lines[0].Riding != 1 {
		t.Errorf("list --json exits %d: %v %+v", code, err, lines)
	}
	code, stdout, _ = b.batch(t, "show", id)
	if code != exitDone {
		t.Errorf("show exits %d", code)
	}
	contains(t, "batch show", stdout, "BLOCKED FOREIGN_PUSH", "IN THE BATCH", "BUILT", "BATCHED", "ada")

	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"unblock", id, "failed"}, exitFailed, fmt.Sprintf("batch %s: its MR %d reads open: close it first", id, mr)},
		{[]string{"unblock", id, "merged"}, exitFailed, "main does not contain the batch's head"},
		{[]string{"unblock", id, "resume"}, exitFailed, "which the bot did not put there"},
		{[]string{"settle", "99", "failed"}, exitFailed, "no batch 99: `batchbot batch list` shows them"},
		{[]string{"show", "99"}, exitFailed, "no batch 99: `batchbot batch list` shows them"},
		{[]string{"show", "x"}, exitUsage, `"x" is not the number of a batch`},
		{[]string{"show"}, exitUsage, "wants the number of one batch"},
		{[]string{"settle", id, "resume"}, exitUsage, `"resume" is none of merged, failed`},
		{[]string{"unblock", id}, exitUsage, "wants the number of a batch and one of merged, failed, resume"},
		{[]string{"list", "--limit", "0"}, exitUsage, "1 or more batches can be listed"},
		{[]string{"list", "acme/app:nowhere"}, exitFailed, `no queue "acme/app:nowhere"`},
	} {
		code, stdout, stderr := b.batch(t, c.args...)
		if code != c.code || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, c.says) {
			t.Errorf("%v exits %d and says %q %q, want %d and %q", c.args, code, stdout, stderr, c.code, c.says)
		}
	}
	code, stdout, _ = b.batch(t, "unblock", id, "failed", "--force", "--dry-run")
	if want := "would settle it as failed; its members wait again and its queue parks\n"; code != exitDone || stdout != want {
		t.Errorf("a dry run exits %d and says %q, want %q", code, stdout, want)
	}
	code, stdout, stderr = b.batch(t, "unblock", id, "failed", "--force", "--json")
	var line orderLine
	if err := json.Unmarshal([]byte(stdout), &line); err != nil || code != exitDone || !line.Done || !strings.Contains(line.Text, "ended as failed: its members wait again") {
		t.Errorf("unblock exits %d: %v %+v %s", code, err, line, stderr)
	}
	if op := b.operation(t, number); op.Status != bot.OperationWaiting || op.Reason != bot.ReasonBatchFailed {
		t.Errorf("its member is %+v", op)
	}
	if n := count(t, b.db, `SELECT COUNT(*) FROM audit WHERE action = 'change batch' AND source = 'cli' AND actor <> 'batchbot'`); n != 1 {
		t.Errorf("%d entries in the audit", n)
	}

	// Who reopens it finds it closed again, with a word about why.
	b.must(t, b.host.ReopenMR(e2eRepo, mr, "ben"))
	b.answered(t, mr, "Batch "+id+" is over, so its merge request is closed again")
	within(t, benchLimit, "the MR to be closed again", func() bool {
		now, err := b.host.MR(e2eRepo, mr)
		b.must(t, err)
		return now.State == "closed"
	})

	// And the queue goes on by a round of the operator's own.
	if code, stdout, stderr := command(t, nil, "queue", "--config", b.file, "resume", "acme/app:main"); code != exitDone {
		t.Fatalf("resume exits %d: %s %s", code, stdout, stderr)
	}
	code, stdout, stderr = command(t, nil, "round", "--config", b.file, "acme/app:main")
	if code != exitDone || stdout == "" {
		t.Errorf("round exits %d: %q %q", code, stdout, stderr)
	}
	within(t, benchLimit, "a second batch under test", func() bool {
		n, err := b.host.FinishCI("")
		b.must(t, err)
		return n > 0
	})
	b.becomes(t, number, bot.OperationMerged)
}

// A maintainer unblocks a batch by a comment on it; nobody else may.
func TestABatchIsUnblockedByAComment(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"github", "gitlab"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, benchSettings{kind: kind, ci: fakehost.CI{Mode: fakehost.CIManual}})
			number := b.opened(t, "one")
			_, mr := b.blockedBatch(t)
			b.say(t, mr, "ben", "/batch unblock failed")
			b.answered(t, mr, "ben: only people who maintain this repository")
			b.say(t, mr, "rita", "/batch unblock failed")
			b.answered(t, mr, "reads open: close it first")
			var head string
			b.must(t, b.db.QueryRowContext(t.Context(), `SELECT head_sha FROM merge_batch`).Scan(&head))
			b.must(t, b.host.SetBranch(e2eRepo, "main", head, "ben"))
			b.say(t, mr, "rita", "/batch unblock merged")
			b.becomes(t, number, bot.OperationMerged)
			within(t, benchLimit, "the batch to be over", func() bool { return count(t, b.db, `SELECT COUNT(*) FROM merge_batch WHERE status = 2`) == 1 })
		})
	}
}

// Somebody closes a batch, puts its branch back, reopens its merge request and merges it before the bot has closed it again: its members have landed, late.
func TestABatchThatLandedLateIsRecorded(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"github", "gitlab"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, benchSettings{kind: kind, ci: fakehost.CI{Mode: fakehost.CIManual}})
			number := b.opened(t, "one")
			branch := b.batchUnderTest(t)
			within(t, benchLimit, "the batch MR", func() bool {
				return count(t, b.db, `SELECT COUNT(*) FROM merge_batch WHERE status = 1 AND phase = 3`) == 1
			})
			mr := count(t, b.db, `SELECT mr_number FROM merge_batch`)
			var head string
			b.must(t, b.db.QueryRowContext(t.Context(), `SELECT head_sha FROM merge_batch`).Scan(&head))
			b.must(t, b.host.CloseMR(e2eRepo, mr, "ben"))
			within(t, benchLimit, "the batch to fail and its branch to go", func() bool {
				return count(t, b.db, `SELECT COUNT(*) FROM merge_batch WHERE status = 3 AND code = 'CLOSED_BY_PERSON' AND message LIKE 'ben %'`) == 1 &&
					count(t, b.db, `SELECT COUNT(*) FROM outbox WHERE kind = 7 AND status = 2`) == 1
			})
			b.must(t, b.host.SetBranch(e2eRepo, branch, head, "ben"))
			b.must(t, b.host.ReopenMR(e2eRepo, mr, "ben"))
			_, err := b.host.MergeMR(e2eRepo, mr, "rita")
			b.must(t, err)
			b.becomes(t, number, bot.OperationMerged)
			within(t, benchLimit, "the late landing to be on record", func() bool {
				return count(t, b.db, `SELECT COUNT(*) FROM audit WHERE action = 'landed late'`) == 1 &&
					count(t, b.db, `SELECT COUNT(*) FROM merge_batch_member WHERE event = 8`) == 1
			})
			b.answered(t, mr, "was over when it was merged: its members are recorded as landed")
			if n := count(t, b.db, `SELECT COUNT(*) FROM merge_batch WHERE status = 3`); n != 1 {
				t.Error("the batch that was over changed")
			}
		})
	}
}
