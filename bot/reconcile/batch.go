package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/batchbot/batchbot/bot"
)

// batch compares the active batch of a queue with its MR and branch.
func (f *finder) batch(ctx context.Context, host bot.Host, q bot.QueueOverview) {
	batch, _, ok, err := f.config.Store.ActiveBatch(ctx, q.Queue.ID)
	if f.fails(err) || !ok || batch.PhaseAge < f.calm {
		return
	}
	before := len(f.found)
	f.batchMR(ctx, host, q, batch)
	if len(f.found) == before {
		return
	}
	// Its driver may have been at it: what changed since is no difference.
	now, _, ok, err := f.config.Store.ActiveBatch(ctx, q.Queue.ID)
	if f.fails(err) || !ok || now.Guard() != batch.Guard() {
		f.found = f.found[:before]
	}
}

func (f *finder) batchMR(ctx context.Context, host bot.Host, q bot.QueueOverview, batch bot.Batch) {
	branch := batch.Branch(q.Queue.Target)
	differ := func(kind Kind, rows, found string) {
		d := about(kind, q.Repository)
		d.Queue, d.Batch, d.MR, d.Rows, d.Found = q.Queue.Target, batch.ID, batch.MRNumber, rows, found
		d.Remedy = "its queue does the next step"
		d.task = fmt.Sprintf("tick %d", q.Queue.ID)
		d.mend = func(ctx context.Context, _ Actor) error { return f.carryOn(ctx, q.Queue.ID, batch.ID) }
		f.add(d)
	}
	says := fmt.Sprintf("%s %s", batch.Status, batch.Phase)
	if batch.MRNumber == 0 {
		if batch.Build == 0 {
			return // nothing of it is on the host
		}
		list, err := host.FindMRs(ctx, q.Repository, branch)
		if f.fails(err) {
			return
		}
		if len(list) > 0 {
			differ(BatchStale, says+", no MR recorded", fmt.Sprintf("!%d is %s", list[0].Number, list[0].State))
		}
		return
	}
	mr, err := host.ReadMR(ctx, q.Repository, batch.MRNumber)
	if errors.Is(err, bot.ErrNotFound) {
		differ(BatchStale, says, "its MR is gone")
		return
	}
	if f.fails(err) {
		return
	}
	heads, err := f.config.Store.RecordedHeads(ctx, batch.ID)
	if f.fails(err) {
		return
	}
	switch {
	case mr.State != bot.MROpen:
		differ(BatchStale, says, "its MR is "+mr.State.String())
		return
	case mr.Target != q.Queue.Target:
		differ(BatchStale, says+" into "+q.Queue.Target, "its MR has the target "+mr.Target)
	case !slices.Contains(heads, mr.HeadSHA):
		differ(BatchStale, says+" at "+bot.ShortSHA(batch.HeadSHA), "its MR stands at "+bot.ShortSHA(mr.HeadSHA)+", which the bot did not push")
	}
	if batch.Phase != bot.PhaseOpened && batch.Phase != bot.PhaseLanding {
		return // its branch is being built
	}
	switch tip, err := host.ReadBranch(ctx, q.Repository, branch); {
	case errors.Is(err, bot.ErrNotFound):
		differ(BranchMissing, "branch "+branch, "no such branch")
	case f.fails(err):
	case tip != batch.HeadSHA && slices.Contains(heads, tip):
		differ(BranchMissing, "branch at "+bot.ShortSHA(batch.HeadSHA), "it stands at "+bot.ShortSHA(tip))
	}
}

// carryOn ticks a queue until there is nothing more to do now about its batch. It starts no other batch.
func (f *finder) carryOn(ctx context.Context, queueID, batchID int64) error {
	for range 50 {
		batch, _, ok, err := f.config.Store.ActiveBatch(ctx, queueID)
		if err != nil || !ok || batch.ID != batchID {
			return err
		}
		again, err := f.config.Round(ctx, queueID)
		if err != nil || !again {
			return err
		}
	}
	return errors.New("the queue does not come to rest")
}

// ended compares what is left on the host of a queue's batches that are over.
func (f *finder) ended(ctx context.Context, host bot.Host, q bot.QueueOverview) {
	list, err := f.config.Store.EndedBatches(ctx, q.Queue.ID, f.config.Recent, mostBatches)
	if f.fails(err) {
		return
	}
	question := bot.InspectSpec{Target: q.Queue.Target}
	for _, ended := range list {
		if ctx.Err() != nil {
			return
		}
		f.endedMR(ctx, host, q, ended)
		f.endedBranch(ctx, host, q, ended)
		if ended.Batch.Status == bot.BatchSucceeded && ended.Batch.LandedSHA != "" {
			question.Heads = append(question.Heads, ended.Batch.LandedSHA)
		}
	}
	if len(question.Heads) == 0 {
		return
	}
	answer, err := f.inspect(ctx, host, q.Repository, question)
	if errors.Is(err, bot.ErrNotFound) || f.fails(err) {
		return // a target that is gone parks its queue at the next tick
	}
	for _, ended := range list {
		landed := ended.Batch.LandedSHA
		if landed == "" || !slices.Contains(question.Heads, landed) || answer.Contained[landed] {
			continue
		}
		d := f.over(TargetMovedBack, q, ended.Batch)
		d.Rows, d.Found = "SUCCEEDED as "+bot.ShortSHA(landed), fmt.Sprintf("%s stands at %s without it", q.Queue.Target, bot.ShortSHA(answer.Tip))
		d.Remedy = "nothing is undone: find out who moved the target back; its members can be applied again once they have new commits"
		f.add(d)
	}
}

// over begins a difference about a batch that is over.
func (f *finder) over(kind Kind, q bot.QueueOverview, batch bot.Batch) Difference {
	d := about(kind, q.Repository)
	d.Queue, d.Batch, d.MR = q.Queue.Target, batch.ID, batch.MRNumber
	return d
}

func (f *finder) endedMR(ctx context.Context, host bot.Host, q bot.QueueOverview, ended bot.EndedBatch) {
	batch := ended.Batch
	if batch.MRNumber == 0 || ended.MRDue {
		return
	}
	mr, err := host.ReadMR(ctx, q.Repository, batch.MRNumber)
	if errors.Is(err, bot.ErrNotFound) || f.fails(err) {
		return
	}
	late := mr.State == bot.MRMerged && batch.Status == bot.BatchFailed && !ended.LandedLate
	if mr.State != bot.MROpen && !late {
		return
	}
	d := f.over(BatchReopened, q, batch)
	d.Rows, d.Found, d.Remedy = batch.Status.String(), "its MR is "+mr.State.String(), "it is closed again"
	if late {
		d.Remedy = "what it landed is recorded"
	}
	d.task = fmt.Sprintf("batch mr %d", batch.ID)
	d.mend = func(ctx context.Context, by Actor) error {
		_, err := f.config.Applier.ReconcileMR(ctx, q.Repository, batch.MRNumber, by.Source)
		return err
	}
	f.add(d)
}

func (f *finder) endedBranch(ctx context.Context, host bot.Host, q bot.QueueOverview, ended bot.EndedBatch) {
	batch := ended.Batch
	if batch.Build == 0 || ended.BranchDue {
		return
	}
	branch := batch.Branch(q.Queue.Target)
	tip, err := host.ReadBranch(ctx, q.Repository, branch)
	if errors.Is(err, bot.ErrNotFound) || f.fails(err) {
		return
	}
	heads, err := f.config.Store.RecordedHeads(ctx, batch.ID)
	if f.fails(err) {
		return
	}
	d := f.over(BranchLeft, q, batch)
	d.Rows, d.Found, d.Remedy = batch.Status.String(), branch+" stands at "+bot.ShortSHA(tip), "it is deleted"
	if !slices.Contains(heads, tip) && tip != batch.BaseSHA {
		d.Remedy = "the bot did not put that commit there: see what it is, then delete the branch by hand"
		f.add(d)
		return
	}
	d.task = fmt.Sprintf("branch %d", batch.ID)
	d.mend = func(ctx context.Context, by Actor) error {
		errand := bot.Errand{Kind: bot.ErrandDeleteBranch, Target: strconv.FormatInt(batch.ID, 10), Repository: q.Repository, Number: batch.MRNumber}
		return f.config.Store.WantErrand(ctx, errand, by.By, by.Source)
	}
	f.add(d)
}
