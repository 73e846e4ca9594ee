package curated

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/batchbot/batchbot/bot"
)

// member is a row with its merge request as the host shows it now.
type member struct {
	row       bot.CuratedRow
	mr        bot.MRSnapshot
	mergeable bool // there is something to merge at a head that is known: it takes part in the dry merge
}

// findings collects problems.
type findings struct {
	mu   sync.Mutex
	list []bot.CuratedProblem
}

func (f *findings) add(kind bot.ProblemKind, row bot.CuratedRow, format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, bot.CuratedProblem{Kind: kind, RowNo: row.RowNo, Number: row.Number, Text: fmt.Sprintf(format, args...)})
}

// sorted lists the problems of the set, then those of its rows in order.
func (f *findings) sorted() []bot.CuratedProblem {
	slices.SortStableFunc(f.list, func(a, b bot.CuratedProblem) int {
		return cmp.Or(cmp.Compare(a.RowNo, b.RowNo), strings.Compare(string(a.Kind), string(b.Kind)))
	})
	return f.list
}

// checkNumbers refuses rows that no table could hold: it is what a draft is held to. A row number that is missing arrives as 0.
func checkNumbers(rows []bot.CuratedRow) []bot.CuratedProblem {
	var found findings
	if len(rows) > bot.MaxCurated {
		found.add(bot.ProblemSize, bot.CuratedRow{}, "the set has %d rows, and %d is the most", len(rows), bot.MaxCurated)
	}
	seen := make(map[int]bool, len(rows))
	for i, r := range rows {
		switch {
		case r.RowNo < 1 || r.RowNo > math.MaxInt32:
			found.add(bot.ProblemRows, r, "the %s row has the row number %d: number the rows from 1", ordinal(i+1), r.RowNo)
		case seen[r.RowNo]:
			found.add(bot.ProblemRows, r, "the row number %d is there twice: number the rows differently", r.RowNo)
		}
		seen[r.RowNo] = true
		if r.Number < 1 {
			found.add(bot.ProblemRows, r, "the %s row names no merge request: give its number", ordinal(i+1))
		}
	}
	return found.sorted()
}

func ordinal(n int) string {
	suffix := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return fmt.Sprint(n, suffix)
}

// check runs every check on a set as it was read, and writes nothing. pinned: its rows have heads, and each member needs its own approvals there.
// Members are in the order of the rows.
func (d *Desk) check(ctx context.Context, view bot.CuratedView, pinned bool) ([]member, []bot.CuratedProblem, error) {
	host, err := d.host(view)
	if err != nil {
		return nil, nil, err
	}
	rows := slices.SortedFunc(slices.Values(view.Curated.Rows), func(a, b bot.CuratedRow) int { return cmp.Compare(a.RowNo, b.RowNo) })
	found := &findings{list: checkNumbers(rows)}
	checkSize(found, view.Queue.Settings, len(rows))
	members := make([]member, len(rows))
	firstOf := make(map[int]int, len(rows)) // merge request → its row
	var read []int                          // one row of each
	for i, r := range rows {
		members[i].row = r
		if first, twice := firstOf[r.Number]; twice {
			found.add(bot.ProblemTwice, r, "is in row %d as well: name it once", first)
			continue
		}
		firstOf[r.Number] = r.RowNo
		if r.Number > 0 {
			read = append(read, i)
		}
	}
	err = eachOf(read, func(i int) error { return d.checkMember(ctx, found, host, view, &members[i], pinned) })
	if err != nil {
		return nil, nil, err
	}
	if err := d.dryMerge(ctx, found, host, view, members); err != nil {
		return nil, nil, err
	}
	return members, found.sorted(), nil
}

// checkSize holds the number of rows against what the queue takes.
func checkSize(found *findings, settings bot.QueueSettings, rows int) {
	switch {
	case rows < MinRows:
		found.add(bot.ProblemSize, bot.CuratedRow{}, "a set has at least %d members: a merge request by itself lands with /batch, together with whatever else waits", MinRows)
	case rows > settings.MaxBatchSize:
		found.add(bot.ProblemSize, bot.CuratedRow{}, "the set has %d members and max_batch_size of its queue is %d: make it smaller, or raise that in .batchbot.yml", rows, settings.MaxBatchSize)
	}
}

// checkMember checks one row against the host and the rows of its merge request. The rows come before the host, as everywhere: what is moved in
// between has another version, and the write finds out.
func (d *Desk) checkMember(ctx context.Context, found *findings, host bot.Host, view bot.CuratedView, m *member, pinned bool) error {
	known, err := d.Store.CurrentOperations(ctx, view.Repository.ID, m.row.Number)
	if err != nil {
		return fmt.Errorf("reading the operations of !%d: %w", m.row.Number, err)
	}
	m.mr, err = host.ReadMR(ctx, view.Repository, m.row.Number)
	if errors.Is(err, bot.ErrNotFound) {
		found.add(bot.ProblemThere, m.row, "is no merge request of %s: correct the number", view.Repository.Path)
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading !%d: %w", m.row.Number, err)
	}
	mr := m.mr
	if obstacle := bot.Obstacle(mr); obstacle != "" {
		found.add(bot.ProblemOpen, m.row, "%s", strings.TrimPrefix(obstacle, "it "))
	}
	if strings.HasPrefix(mr.SourceBranch, bot.BatchBranchPrefix) && !mr.FromFork {
		found.add(bot.ProblemBatchMR, m.row, "is a batch that the bot made: name its members instead")
	}
	if mr.Target != view.Queue.Target {
		found.add(bot.ProblemTarget, m.row, "is for %s and the set is for %s: change its target, or leave it out", mr.Target, view.Queue.Target)
	}
	switch {
	case mr.State != bot.MROpen:
	case mr.HeadSHA == "":
		found.add(bot.ProblemHead, m.row, "has no head that the host shows yet: try again in a moment")
	case pinned && mr.HeadSHA != m.row.HeadSHA:
		found.add(bot.ProblemHead, m.row, "was pushed to since the set was submitted: it stands at %s and was submitted at %s; reject or cancel the set, and submit it anew",
			bot.ShortSHA(mr.HeadSHA), bot.ShortSHA(m.row.HeadSHA))
	default:
		m.mergeable = mr.Target == view.Queue.Target
	}
	if held := busy(known, view.Queue, mr.HeadSHA); held != "" {
		found.add(bot.ProblemBusy, m.row, "%s", held)
	}
	if !pinned || mr.State != bot.MROpen || mr.HeadSHA != m.row.HeadSHA {
		return nil // approvals are asked for at the pinned head
	}
	approvals, err := bot.ReadApprovals(ctx, d.Git, host, view.Repository, &m.mr)
	if err != nil {
		return err
	}
	if verdict := bot.JudgeMR(view.Queue.Settings.Approvals, m.mr, approvals); !verdict.Sufficient {
		found.add(bot.ProblemApprovals, m.row, "is not approved by itself: %s", verdict.Missing)
	}
	return nil
}

// busy says what keeps a merge request from being admitted as a member, or "" if nothing does: an application that waits for its approvals and holds no
// seat does not, it becomes the member's.
func busy(known []bot.OperationView, queue bot.Queue, head string) string {
	for _, v := range known {
		op := v.Operation
		if op.QueueID != queue.ID {
			continue
		}
		switch bot.Reapply(op.Status, op.HeadSHA, head) {
		case bot.ReapplyReset:
			continue
		case bot.ReapplyNeedsRetry:
			return "failed and awaits /batch retry: comment /batch cancel there first"
		case bot.ReapplyLanded:
			return "landed at this very commit: leave it out"
		}
		switch {
		case op.Status == bot.OperationBatched:
			return fmt.Sprintf("rides in batch %d: wait for what becomes of it, or comment /batch cancel there first", op.BatchID)
		case op.Status == bot.OperationWaiting && op.Cohort < 0:
			return fmt.Sprintf("waits as a member of curated batch %d: comment /batch cancel there first, which takes that set out", bot.CuratedCohort(op.Cohort))
		case op.Status == bot.OperationWaiting:
			return "waits for the next batch by itself: comment /batch cancel there first"
		case v.Seat != nil:
			return fmt.Sprintf("holds a seat on the train %s: comment /batch leave there first", v.Seat.Train.Name)
		}
	}
	return ""
}

// eachOf calls do for every index, a few at a time, and joins the errors.
func eachOf(indexes []int, do func(i int) error) error {
	var wg sync.WaitGroup
	slots := make(chan struct{}, 8)
	errs := make([]error, len(indexes))
	for at, i := range indexes {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			errs[at] = do(i)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
