package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/batchbot/batchbot/bot"
)

// operations compares the operations that are followed with their merge requests, their targets and their status comments. Only those of the given
// queues count unless everything is looked at.
func (f *finder) operations(ctx context.Context, host bot.Host, repo bot.Repository, queues []bot.QueueOverview) {
	followed, err := f.config.Store.FollowedOperations(ctx, repo.ID)
	if f.fails(err) {
		return
	}
	followed = slices.DeleteFunc(followed, func(op bot.Operation) bool {
		return !slices.ContainsFunc(queues, func(q bot.QueueOverview) bool { return q.Queue.ID == op.QueueID })
	})
	landed := f.landed(ctx, host, repo, followed)
	seen := make(map[int]bool)
	for _, op := range followed {
		if seen[op.Number] || ctx.Err() != nil {
			continue
		}
		seen[op.Number] = true
		mr, moves, err := f.config.Applier.Compare(ctx, repo, op.Number)
		switch {
		case errors.Is(err, bot.ErrNotFound):
			d := of(about(OperationStale, repo), op)
			d.Rows, d.Found, d.Remedy = stands(op), "no such merge request", "say who deleted it; its batch finds out by git"
			f.add(d)
			continue
		case f.fails(err):
			if isLimited(err) {
				return // whatever else is asked now makes it worse
			}
			continue
		}
		for _, move := range moves {
			i := slices.IndexFunc(followed, func(o bot.Operation) bool { return o.ID == move.OperationID })
			if i < 0 || landed[move.OperationID] {
				continue
			}
			d := of(about(OperationStale, repo), followed[i])
			d.Rows, d.Found = stands(followed[i]), shows(mr, move)
			d.Remedy = fmt.Sprintf("it becomes %s: %s", move.To, move.Reason)
			d.task = fmt.Sprintf("mr %d %d", repo.ID, op.Number)
			d.mend = func(ctx context.Context, by Actor) error {
				_, err := f.config.Applier.ReconcileMR(ctx, repo, op.Number, by.Source)
				return err
			}
			f.add(d)
		}
		f.sticky(ctx, host, repo, op)
	}
}

// landed finds operations whose pinned head is in the target although nothing says so. Those that ride are read when their batch is settled.
func (f *finder) landed(ctx context.Context, host bot.Host, repo bot.Repository, followed []bot.Operation) map[string]bool {
	waiting := make(map[string][]bot.Operation) // by target
	for _, op := range followed {
		if op.Status != bot.OperationBatched {
			waiting[op.Target] = append(waiting[op.Target], op)
		}
	}
	found := make(map[string]bool)
	for target, ops := range waiting {
		question := bot.InspectSpec{Target: target}
		for _, op := range ops {
			question.Heads = append(question.Heads, op.HeadSHA)
		}
		answer, err := f.inspect(ctx, host, repo, question)
		if errors.Is(err, bot.ErrNotFound) || f.fails(err) {
			continue // a target that is gone parks its queue at the next tick
		}
		for _, op := range ops {
			if !answer.Contained[op.HeadSHA] {
				continue
			}
			found[op.ID] = true
			d := of(about(OperationLanded, repo), op)
			d.Rows, d.Found, d.Remedy = stands(op), target+" contains "+bot.ShortSHA(op.HeadSHA), "it becomes MERGED"
			d.task = "landed " + op.ID
			d.mend = func(ctx context.Context, by Actor) error {
				result, err := f.config.Store.Move(ctx, bot.Move{
					OperationID: op.ID, From: op.Status, Version: op.Version, To: bot.OperationMerged, Reason: bot.ReasonContained, By: by.By, Source: by.Source,
				})
				if err == nil && result != bot.MoveDone {
					err = errors.New("it changed meanwhile: reconcile again")
				}
				return err
			}
			f.add(d)
		}
	}
	return found
}

func (f *finder) inspect(ctx context.Context, host bot.Host, repo bot.Repository, question bot.InspectSpec) (bot.Inspection, error) {
	remote, err := host.GitRemote(ctx, repo)
	if err != nil {
		return bot.Inspection{}, fmt.Errorf("getting git access to %s: %w", repo.Path, err)
	}
	return f.config.Git.Inspect(ctx, remote, question)
}

// sticky looks for the status comment of a merge request.
func (f *finder) sticky(ctx context.Context, host bot.Host, repo bot.Repository, op bot.Operation) {
	target := strconv.FormatInt(op.MergeRequestID, 10)
	view, err := f.config.Store.StickyView(ctx, op.MergeRequestID)
	if f.fails(err) {
		return
	}
	comment := view.MergeRequest.StickyCommentID
	if comment != 0 {
		has, err := host.HasComment(ctx, repo, op.Number, comment)
		if f.fails(err) || has {
			return
		}
	}
	if due, err := f.config.Store.ErrandDue(ctx, bot.ErrandSticky, target); f.fails(err) || due {
		return
	}
	d := about(StickyMissing, repo)
	d.MR, d.Rows, d.Found, d.Remedy = op.Number, "no status comment was written", "none", "it is written"
	if comment != 0 {
		d.Rows, d.Found, d.Remedy = fmt.Sprintf("its status comment is %d", comment), "no such comment", "it is written anew"
	}
	d.task = "sticky " + target
	d.mend = func(ctx context.Context, by Actor) error {
		return f.config.Store.WantErrand(ctx, bot.Errand{Kind: bot.ErrandSticky, Target: target, Repository: repo, Number: op.Number}, by.By, by.Source)
	}
	f.add(d)
}

// of makes a difference one of an operation.
func of(d Difference, op bot.Operation) Difference {
	d.Queue, d.MR, d.Operation, d.Batch = op.Target, op.Number, op.ID, op.BatchID
	return d
}

// stands says what the rows say of an operation.
func stands(op bot.Operation) string { return op.Status.String() + " at " + bot.ShortSHA(op.HeadSHA) }

// shows says what the host shows, as far as it is the reason of a move.
func shows(mr bot.MRSnapshot, move bot.Move) string {
	switch move.Reason {
	case bot.ReasonHeadMoved:
		return "head " + bot.ShortSHA(mr.HeadSHA)
	case bot.ReasonRetargeted:
		return "target " + mr.Target
	case bot.ReasonDrafted:
		return "a draft"
	case bot.ReasonApproved:
		return "approved"
	case bot.ReasonUnapproved:
		return "not approved: " + move.Detail
	}
	return mr.State.String()
}

func isLimited(err error) bool {
	_, ok := errors.AsType[*bot.RateLimitedError](err)
	return ok
}
