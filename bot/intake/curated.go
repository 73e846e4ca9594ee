package intake

import (
	"context"
	"fmt"
	"slices"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/command"
	"github.com/batchbot/batchbot/bot/curated"
	"github.com/batchbot/batchbot/bot/message"
)

// CuratedDesk is where the commands about curated batches go. Implemented by curated.Desk.
type CuratedDesk interface {
	// Of finds the set drafted on a merge request that is not over; ok false: there is none.
	Of(ctx context.Context, mergeRequestID int64) (set bot.Curated, ok bool, err error)
	// Save makes a draft, or replaces the rows of one.
	Save(ctx context.Context, who curated.Asker, draft curated.Draft) (curated.Result, error)
	// Submit commits a draft, if every check passes.
	Submit(ctx context.Context, who curated.Asker, id, version int64) (curated.Result, error)
	// Approve admits a submitted set, if every check passes again.
	Approve(ctx context.Context, who curated.Asker, id, version int64) (curated.Result, error)
	// Cancel ends a set that is not approved.
	Cancel(ctx context.Context, who curated.Asker, id, version int64) (curated.Result, error)
}

// asker is who gave the command, at the desk.
func (o order) asker() curated.Asker {
	return curated.Asker{Name: o.ref.By, Actor: o.comment.Author, Source: o.ref.Source, Command: &o.ref}
}

// curate carries out a command about the set of a merge request.
func (a *Applier) curate(ctx context.Context, o order, r *reading) error {
	if a.Curated == nil {
		return a.answer(ctx, o, bot.ReactionConfused, message.NoCurated())
	}
	if o.verb == command.With {
		return a.with(ctx, o, r)
	}
	set, ok, err := a.Curated.Of(ctx, r.row.ID)
	if err != nil {
		return err
	}
	if !ok {
		return a.answer(ctx, o, bot.ReactionConfused, message.NoSet())
	}
	if err := a.accept(ctx, o); err != nil {
		return err
	}
	do := a.Curated.Submit
	if o.verb == command.Approve {
		do = a.Curated.Approve
	}
	result, err := do(ctx, o.asker(), set.ID, 0)
	if err != nil {
		return err
	}
	return a.curatedAnswer(ctx, o, result)
}

// with drafts a set on a merge request, or replaces its rows: the merge request itself comes first, unless the command says where.
func (a *Applier) with(ctx context.Context, o order, r *reading) error {
	host, err := a.host(o.repo.Host)
	if err != nil {
		return err
	}
	numbers, others := command.Numbers(o.args, host.MRMark(), func(n int) string { return host.MRURL(o.repo, n) })
	var twice []int
	for i, n := range numbers {
		if slices.Contains(numbers[:i], n) && !slices.Contains(twice, n) {
			twice = append(twice, n)
		}
	}
	if len(numbers) == 0 || len(others) > 0 || len(twice) > 0 {
		return a.answer(ctx, o, bot.ReactionConfused, message.WithUsage(others, twice, a.links(o.repo)))
	}
	if !slices.Contains(numbers, o.comment.Number) {
		numbers = slices.Insert(numbers, 0, o.comment.Number)
	}
	found, err := a.queue(ctx, o.repo, r.mr.Target)
	if err != nil {
		return err
	}
	if found.refusal != "" {
		return a.answer(ctx, o, bot.ReactionRefused, found.refusal)
	}
	draft := curated.Draft{QueueID: found.queue.ID, MergeRequestID: r.row.ID}
	for i, n := range numbers {
		draft.Rows = append(draft.Rows, bot.CuratedRow{RowNo: i + 1, Number: n})
	}
	if err := a.accept(ctx, o); err != nil {
		return err
	}
	result, err := a.Curated.Save(ctx, o.asker(), draft)
	if err != nil {
		return err
	}
	return a.curatedAnswer(ctx, o, result)
}

// curatedAnswer says what became of a command at the desk.
func (a *Applier) curatedAnswer(ctx context.Context, o order, result curated.Result) error {
	set, links := result.View.Curated, a.links(o.repo)
	switch result.Outcome {
	case curated.Done:
		return a.said(ctx, o, message.CuratedDone(set, result.View.Queue, links))
	case curated.Refused:
		return a.answer(ctx, o, bot.ReactionRefused, message.CuratedRefused(string(o.verb), set, result.Problems, links))
	case curated.Forbidden:
		return a.answer(ctx, o, bot.ReactionRefused, message.CuratedForbidden(o.comment.Author.Login, result.Reason))
	case curated.NotFound:
		return a.answer(ctx, o, bot.ReactionConfused, message.NoSet())
	case curated.Changed:
		return a.answer(ctx, o, bot.ReactionRefused, message.CuratedChanged(set, links))
	case curated.AlreadySubmitted:
		return a.answer(ctx, o, bot.ReactionRefused, message.CuratedSubmittedAlready(set))
	case curated.AlreadyDecided:
		return a.answer(ctx, o, bot.ReactionRefused, message.CuratedDecidedAlready(set))
	case curated.NotSubmitted:
		return a.answer(ctx, o, bot.ReactionRefused, message.CuratedNotSubmitted(set))
	case curated.Duplicate:
		return nil
	case curated.Superseded:
		return a.answer(ctx, o, "", message.Superseded())
	case curated.RetryLater:
		return errLater
	}
	return fmt.Errorf("the desk of curated batches answered %d", result.Outcome)
}

// said tells what a command did that is recorded already. After a crash right before, it is told by the status comment alone.
func (a *Applier) said(ctx context.Context, o order, text string) error {
	o.ref.RequestID += ":said"
	return a.answer(ctx, o, "", text)
}

// cancelSet ends the set drafted on a merge request unless it is approved: then it ends with the merge request's own operation. also: that is going
// to be cancelled by the same command, which is recorded there. over: there is nothing left to cancel or to answer.
func (a *Applier) cancelSet(ctx context.Context, o order, r *reading, also bool) (over bool, err error) {
	if a.Curated == nil {
		return false, nil
	}
	set, ok, err := a.Curated.Of(ctx, r.row.ID)
	if err != nil || !ok || set.Status == bot.CuratedApproved {
		return false, err
	}
	if err := a.accept(ctx, o); err != nil {
		return false, err
	}
	who := o.asker()
	who.May = true // as the author of the merge request, or with write access: asked just now
	if also {
		first := o.ref
		first.RequestID += ":set"
		who.Command = &first
	}
	result, err := a.Curated.Cancel(ctx, who, set.ID, 0)
	if err != nil {
		return false, err
	}
	switch result.Outcome {
	case curated.Done, curated.Duplicate:
		if also {
			return false, nil
		}
	case curated.AlreadyDecided, curated.NotFound:
		return false, nil // approved meanwhile: its operation is there now
	}
	return true, a.curatedAnswer(ctx, o, result)
}
