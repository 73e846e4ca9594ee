package outbox

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/fault"
	"github.com/batchbot/batchbot/bot/message"
)

// do does one errand. A panic is the errand's own failure.
func (s *Sender) do(ctx context.Context, e bot.Errand) (err error) {
	defer func() {
		if caught := recover(); caught != nil {
			err = fmt.Errorf("%s %s panicked: %v", e.Kind, e.Target, caught)
		}
	}()
	host, ok := s.config.Hosts[e.Repository.Host]
	if !ok {
		return fmt.Errorf("the host %q is not in the configuration", e.Repository.Host)
	}
	links := message.LinksOf(e.Repository, host)
	switch e.Kind {
	case bot.ErrandSticky:
		err = s.sticky(ctx, host, e, links)
	case bot.ErrandNotice:
		err = s.notice(ctx, host, e, links)
	case bot.ErrandReply:
		err = s.comment(ctx, host, e, message.ReplyMarker(e.Target), message.ReplyMarker(e.Target)+"\n"+e.Payload.Body)
	case bot.ErrandReaction:
		err = host.React(ctx, e.Repository, e.Number, e.Payload.Kind, e.Payload.Comment, e.Payload.Reaction)
	case bot.ErrandCommitStatus:
		err = s.commitStatus(ctx, host, e, links)
	case bot.ErrandBatchReport:
		err = s.batchReport(ctx, host, e, links)
	case bot.ErrandDeleteBranch:
		err = s.deleteBranch(ctx, host, e)
	case bot.ErrandCloseMember:
		err = s.closeMember(ctx, host, e, links)
	case bot.ErrandBatchMR:
		err = s.batchMR(ctx, e)
	case bot.ErrandBatchNotice:
		err = s.batchNotice(ctx, host, e)
	case bot.ErrandReminder:
		err = s.reminder(ctx, host, e, links)
	default:
		err = fmt.Errorf("errand kind %d is not known to this version: %w", e.Kind, errPointless)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", e.Kind, e.Target, err)
	}
	return nil
}

// comment writes a comment of its own, or edits it when an earlier try wrote it.
func (s *Sender) comment(ctx context.Context, host bot.Host, e bot.Errand, marker, body string) error {
	_, err := host.UpsertComment(ctx, e.Repository, e.Number, marker, body, 0)
	return err
}

func (s *Sender) sticky(ctx context.Context, host bot.Host, e bot.Errand, links message.Links) error {
	id, err := number(e)
	if err != nil {
		return err
	}
	view, err := s.config.Store.StickyView(ctx, id)
	if err != nil {
		return fmt.Errorf("reading what it shows: %w", err)
	}
	known := view.MergeRequest.StickyCommentID
	comment, err := host.UpsertComment(ctx, e.Repository, e.Number, message.StatusMarker, message.Sticky(view, links), known)
	if err != nil || comment == known {
		return err
	}
	if err := s.config.Store.SaveSticky(ctx, id, comment); err != nil {
		return fmt.Errorf("storing its id: %w", err)
	}
	return nil
}

func (s *Sender) notice(ctx context.Context, host bot.Host, e bot.Errand, links message.Links) error {
	id, err := number(e)
	if err != nil {
		return err
	}
	entry, err := s.config.Store.HistoryEntry(ctx, id)
	if err != nil {
		return fmt.Errorf("reading what happened: %w", err)
	}
	body := message.Notice(entry, links)
	if body == "" {
		return nil
	}
	return s.comment(ctx, host, e, message.NoticeMarker(entry), body)
}

func (s *Sender) commitStatus(ctx context.Context, host bot.Host, e bot.Errand, links message.Links) error {
	view, err := s.config.Store.OperationView(ctx, e.Target)
	if err != nil {
		return fmt.Errorf("reading the operation: %w", err)
	}
	// The pinned head and no other: on a commit that was pushed later it would speak of something nobody applied.
	return host.SetCommitStatus(ctx, e.Repository, view.Operation.HeadSHA, message.CommitStatus(view, links))
}

func (s *Sender) batchReport(ctx context.Context, host bot.Host, e bot.Errand, links message.Links) error {
	id, err := number(e)
	if err != nil {
		return err
	}
	view, err := s.config.Store.BatchView(ctx, id)
	if err != nil {
		return fmt.Errorf("reading the batch: %w", err)
	}
	if view.Batch.MRNumber == 0 {
		return nil // it never had an MR: there is no place to report to
	}
	e.Number = view.Batch.MRNumber
	return s.comment(ctx, host, e, message.ReportMarker(view.Batch), message.BatchReport(view, links))
}

// batchMR has the MR of a batch that is over looked at.
func (s *Sender) batchMR(ctx context.Context, e bot.Errand) error {
	id, err := number(e)
	if err != nil {
		return err
	}
	return s.config.Revisit(ctx, id)
}

// batchNotice says that a batch is blocked, if it still is: who has to act is told once each time.
func (s *Sender) batchNotice(ctx context.Context, host bot.Host, e bot.Errand) error {
	id, _, _ := strings.Cut(e.Target, "/")
	batchID, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return fmt.Errorf("its target does not begin with the id of a batch: %w", errPointless)
	}
	view, err := s.config.Store.BatchView(ctx, batchID)
	if err != nil {
		return fmt.Errorf("reading the batch: %w", err)
	}
	if view.Batch.Status != bot.BatchBlocked {
		return nil
	}
	return s.comment(ctx, host, e, message.BlockedMarker(view.Batch, e.Target), message.Blocked(view.Batch, e.Target))
}

// reminder says that somebody lets others wait, if that is still so: the same state, entered the same way, still with reminders wanted of it. What became
// due before the quiet hours, and comes into them because the host could not be reached, is said when they end.
func (s *Sender) reminder(ctx context.Context, host bot.Host, e bot.Errand, links message.Links) error {
	target, ok := bot.ParseReminderTarget(e.Target)
	if !ok || s.config.Reminders == nil {
		return fmt.Errorf("its target is not a reminder's: %w", errPointless)
	}
	view, err := s.config.Reminders.ReminderView(ctx, target.OperationID)
	if err != nil {
		return fmt.Errorf("reading what it reminds of: %w", err)
	}
	policy := view.Operation.Queue.Settings.Reminders
	if view.State == 0 || view.Entry != target.Entry || policy.After(view.State) <= 0 {
		return nil
	}
	if end := policy.Quiet.End(view.Now); end.After(view.Now) {
		return putOff{end.Sub(view.Now), "it is due in quiet hours"}
	}
	return s.comment(ctx, host, e, message.ReminderMarker(e.Target), message.Reminder(view, e.Target, links))
}

func (s *Sender) deleteBranch(ctx context.Context, host bot.Host, e bot.Errand) error {
	id, err := number(e)
	if err != nil {
		return err
	}
	view, err := s.config.Store.BatchView(ctx, id)
	if err != nil {
		return fmt.Errorf("reading the batch: %w", err)
	}
	if view.Batch.Status.Active() {
		return putOff{time.Minute, "the batch is still active"}
	}
	heads, err := s.config.Store.RecordedHeads(ctx, id)
	if err != nil {
		return fmt.Errorf("reading the heads of the batch: %w", err)
	}
	if len(heads) == 0 {
		return nil // nothing was ever pushed
	}
	remote, err := host.GitRemote(ctx, e.Repository)
	if err != nil {
		return fmt.Errorf("getting git access: %w", err)
	}
	branch := view.Batch.Branch(view.Queue.Target)
	// A push that was refused may have left the branch at the batch's base, which holds nobody's work.
	if base := view.Batch.BaseSHA; base != "" {
		heads = append(heads, base)
	}
	fault.Before(fault.Cleanup)
	outcome, err := s.config.Git.DeleteBranch(ctx, remote, branch, heads)
	fault.After(fault.Cleanup)
	switch {
	case err != nil:
		return err
	case outcome.Result == bot.PushForeign:
		return fmt.Errorf("%s stands at %s, which the bot did not put there, so it stays: %w", branch, bot.ShortSHA(outcome.Found), errPointless)
	case outcome.Result == bot.PushRefused:
		return fmt.Errorf("the host refuses to delete %s (%s); delete it by hand: %w", branch, outcome.Message, errPointless)
	}
	return closeStrays(ctx, host, e, view.Batch, branch)
}

// closeStrays closes merge requests of a batch's branch that the batch does not know: an instance that slept before it opened one, and died before it
// could close it, leaves it behind. With the branch gone no other one can be opened.
func closeStrays(ctx context.Context, host bot.Host, e bot.Errand, batch bot.Batch, branch string) error {
	found, err := host.FindMRs(ctx, e.Repository, branch)
	if err != nil {
		return fmt.Errorf("looking for merge requests of %s: %w", branch, err)
	}
	for _, mr := range found {
		if mr.Number == batch.MRNumber || mr.State != bot.MROpen {
			continue
		}
		if err := host.CloseMR(ctx, e.Repository, mr.Number); err != nil {
			return fmt.Errorf("closing !%d, which batch %d does not know: %w", mr.Number, batch.ID, err)
		}
	}
	return nil
}

// closeMember ends a landed member that the host did not mark as merged, if everything it holds now is in the target. The errand
// is made due only after the host had time to mark it.
func (s *Sender) closeMember(ctx context.Context, host bot.Host, e bot.Errand, links message.Links) error {
	view, err := s.config.Store.OperationView(ctx, e.Target)
	if err != nil {
		return fmt.Errorf("reading the operation: %w", err)
	}
	op := view.Operation
	if op.Status != bot.OperationMerged {
		return nil // applied again meanwhile
	}
	mr, err := host.ReadMR(ctx, e.Repository, op.Number)
	switch {
	case errors.Is(err, bot.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("reading the merge request: %w", err)
	case mr.State != bot.MROpen || mr.Target != op.Target:
		return nil
	}
	remote, err := host.GitRemote(ctx, e.Repository)
	if err != nil {
		return fmt.Errorf("getting git access: %w", err)
	}
	found, err := s.config.Git.Inspect(ctx, remote, bot.InspectSpec{Target: op.Target, Heads: []string{mr.HeadSHA}})
	if err != nil {
		return fmt.Errorf("asking what %s contains: %w", op.Target, err)
	}
	if !found.Contained[mr.HeadSHA] {
		if mr.HeadSHA == op.HeadSHA {
			return nil // recorded by force of an operator: nothing can be said of commits that are not there
		}
		return s.comment(ctx, host, e, message.ClosingMarker(op), message.LandedNewer(view, mr.HeadSHA, links))
	}
	// Said first: a crash in between leaves an open merge request with the explanation, and the next try closes it.
	if err := s.comment(ctx, host, e, message.ClosingMarker(op), message.LandedClosing(view, links)); err != nil {
		return err
	}
	return host.CloseMR(ctx, e.Repository, op.Number)
}

// number reads a target that is the id of a row.
func number(e bot.Errand) (int64, error) {
	id, err := strconv.ParseInt(e.Target, 10, 64)
	if err != nil || id <= 0 {
		return 0, fmt.Errorf("its target is not the id of a row: %w", errPointless)
	}
	return id, nil
}
