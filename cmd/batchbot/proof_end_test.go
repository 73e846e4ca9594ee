//go:build faultpoints

package main

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/fakehost"
)

// townState is what host and rows say of a town.
type townState struct {
	host       fakehost.State
	mrs        map[int]fakehost.MR
	operations map[int][]townOperation // by merge request, oldest first
	batches    []townBatch
}

type townOperation struct {
	id     string
	status bot.OperationStatus
	reason bot.Reason
	head   string
}

type townBatch struct {
	id                 int64
	token              string
	status             bot.BatchStatus
	base, head, landed string
	differs            bool
	code               bot.Code
	heads              []string // ever recorded
}

// state reads a town: the rows first, so that what the host shows is no older.
func (w *town) state(t *testing.T, db *sql.DB) (n townState, err error) {
	t.Helper()
	n = townState{mrs: make(map[int]fakehost.MR), operations: make(map[int][]townOperation)}
	read := func(query string, row func(scan func(...any) error) error) {
		if err != nil {
			return
		}
		var rows *sql.Rows
		if rows, err = db.QueryContext(t.Context(), query, w.kind); err != nil {
			return
		}
		defer rows.Close()
		for rows.Next() && err == nil {
			err = row(rows.Scan)
		}
		if err == nil {
			err = rows.Err()
		}
	}
	read(`SELECT m.number, o.operation_id, o.status, o.reason, o.head_sha FROM operation o JOIN merge_request m ON m.id = o.merge_request_id
		JOIN repository r ON r.id = o.repository_id WHERE r.host = ? ORDER BY o.created_at`, func(scan func(...any) error) error {
		var number int
		var o townOperation
		err := scan(&number, &o.id, &o.status, &o.reason, &o.head)
		n.operations[number] = append(n.operations[number], o)
		return err
	})
	read(`SELECT b.id, b.token, b.status, b.base_sha, b.head_sha, b.landed_sha, b.landed_differs, b.code FROM merge_batch b JOIN queue q ON q.id = b.queue_id
		JOIN repository r ON r.id = q.repository_id WHERE r.host = ? ORDER BY b.id`, func(scan func(...any) error) error {
		var b townBatch
		err := scan(&b.id, &b.token, &b.status, &b.base, &b.head, &b.landed, &b.differs, &b.code)
		n.batches = append(n.batches, b)
		return err
	})
	read(`SELECT m.batch_id, m.head_sha FROM merge_batch_member m JOIN merge_batch b ON b.id = m.batch_id JOIN queue q ON q.id = b.queue_id
		JOIN repository r ON r.id = q.repository_id WHERE r.host = ? AND m.event = 7`, func(scan func(...any) error) error {
		var id int64
		var head string
		err := scan(&id, &head)
		for i := range n.batches {
			if n.batches[i].id == id {
				n.batches[i].heads = append(n.batches[i].heads, head)
			}
		}
		return err
	})
	if err != nil {
		return n, err
	}
	n.host, err = w.host.State(e2eRepo)
	for _, mr := range n.host.MergeRequests {
		n.mrs[mr.Number] = mr
	}
	return n, err
}

// unfinished lists the merge requests that are not where their fates want them.
func (w *town) unfinished(n townState) (list []string) {
	for _, v := range w.wishes {
		if wrong := v.ended(w, n); wrong != "" {
			list = append(list, w.kind+": "+wrong)
		}
	}
	return list
}

// judge compares the end of a town with what was promised.
func (w *town) judge(t *testing.T, n townState, found *violations) (differs int) {
	t.Helper()
	say := func(format string, args ...any) { found.add(w.kind+": "+format, args...) }
	for _, wrong := range w.unfinished(n) {
		found.add("lost: %s", wrong)
	}
	green := make(map[string]bool)
	for _, run := range n.host.CIRuns {
		green[run.SHA] = green[run.SHA] || run.Conclusion == "success"
	}
	parents := make(map[string][]string) // every commit of the target
	for line := range strings.Lines(gitOutput(t, w.repo, "rev-list", "--parents", "main")) {
		fields := strings.Fields(line)
		parents[fields[0]] = fields[1:]
	}
	merged := make(map[string]int) // head → how often it was merged
	for _, p := range parents {
		for _, head := range p[min(1, len(p)):] {
			merged[head]++
		}
	}
	history := strings.Fields(gitOutput(t, w.repo, "rev-list", "--first-parent", "main"))
	ours := make(map[string]int64) // commit of the first-parent history → the batch that put it there
	for _, b := range n.batches {
		switch b.status {
		case bot.BatchSucceeded:
			if !green[b.head] {
				say("I7: batch %d landed %s, on which CI was never green", b.id, b.head)
			}
			if tree(t, w.repo, b.head) != tree(t, w.repo, b.landed) {
				differs++
				if !b.differs || b.code != bot.CodeLandedDiffers || w.landing == bot.LandByPush {
					say("I7: batch %d landed the untested tree of %s, and says %s", b.id, b.landed, b.code)
				}
			}
			put := []string{b.landed}
			if w.landing == bot.LandByPush {
				put = strings.Fields(gitOutput(t, w.repo, "rev-list", "--first-parent", b.base+".."+b.head))
			}
			for _, c := range put {
				if other := ours[c]; other != 0 {
					say("I7: batches %d and %d both landed %s", other, b.id, c)
				}
				ours[c] = b.id
			}
		case bot.BatchFailed:
			for _, head := range b.heads {
				if _, there := parents[head]; there && head != b.base {
					say("I7: batch %d ended as FAILED %s and its head %s is in the target", b.id, b.code, head)
				}
			}
		default:
			say("I9: batch %d is %s at the end", b.id, b.status)
		}
	}
	for _, c := range history[:len(history)-1] {
		if ours[c] == 0 && !w.pushed[c] {
			say("I7: %s is on the target and nobody put it there", c)
		}
		delete(ours, c)
	}
	for c, id := range ours {
		say("I7: batch %d landed as %s, which is not on the target", id, c)
	}
	w.judgeMembers(n, parents, merged, say)
	w.judgeHost(n, say)
	return differs
}

// judgeMembers looks at each merge request: landed once, at an approved head, or not at all.
func (w *town) judgeMembers(n townState, parents map[string][]string, merged map[string]int, say func(string, ...any)) {
	for _, v := range w.wishes {
		mr := n.mrs[v.number]
		landedAt := make(map[string]bool)
		for _, op := range n.operations[v.number] {
			if op.status != bot.OperationMerged {
				continue
			}
			landedAt[op.head] = true
			if !slices.ContainsFunc(mr.Reviews, func(r fakehost.Review) bool { return r.SHA == op.head && r.State == fakehost.Approved }) {
				say("I7: !%d landed at %s, where nobody approved it", v.number, op.head)
			}
			if merged[op.head] != 1 {
				say("I7: !%d is MERGED at %s, which the target merged %d times", v.number, op.head, merged[op.head])
			}
		}
		if _, there := parents[mr.Head]; there && !landedAt[mr.Head] {
			say("I7: !%d is in the target and not MERGED", v.number)
		}
	}
}

// judgeHost looks at what the bot left on the host: one MR a batch, each thing said once, no branch.
func (w *town) judgeHost(n townState, say func(string, ...any)) {
	branches := make(map[string]int)
	for _, mr := range n.host.MergeRequests {
		if strings.HasPrefix(mr.Branch, bot.BatchBranchPrefix) {
			if branches[mr.Branch]++; branches[mr.Branch] > 1 {
				say("I8: the batch branch %s has two merge requests", mr.Branch)
			}
			if mr.State == "open" {
				say("I8: the batch merge request !%d is open at the end", mr.Number)
			}
		}
		markers := make(map[string]bool)
		said := 0
		for _, c := range mr.Comments {
			if c.Author != w.bot() {
				continue
			}
			said++
			marker := commentMarker.FindString(c.Body)
			if marker == "" || markers[marker] {
				say("I8: on !%d this is said without a marker, or twice: %s", mr.Number, headline(c.Body))
			}
			markers[marker] = true
		}
		if said == 0 && !(strings.HasPrefix(mr.Branch, bot.BatchBranchPrefix)) {
			say("lost: nothing is said on !%d", mr.Number)
		}
	}
	tokens := make(map[string]bool)
	for _, b := range n.batches {
		tokens[fmt.Sprintf("%s%d-%s/main", bot.BatchBranchPrefix, b.id, b.token)] = true
	}
	for branch := range branches {
		if !tokens[branch] {
			say("I8: the branch %s belongs to no batch", branch)
		}
	}
	for branch := range n.host.Branches {
		if strings.HasPrefix(branch, bot.BatchBranchPrefix) {
			say("I8: the branch %s is left", branch)
		}
	}
}
