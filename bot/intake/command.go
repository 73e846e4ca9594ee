package intake

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/command"
	"github.com/batchbot/batchbot/bot/message"
)

// errLater makes a delivery come back: somebody applied the same merge request at this moment and is not visible yet.
var errLater = errors.New("somebody applied it at the same moment")

// holdsCommand reports whether a comment is worth a look: by a person, and with a command in it.
func holdsCommand(c bot.Comment) bool {
	if c.Author.Bot || message.IsOwn(c.Body) {
		return false
	}
	commands, _ := command.Parse(c.Body)
	return len(commands) > 0
}

// Comment carries out the commands of one comment, in order, each once: those handled before are passed over. It returns how many
// were new. source is the delivery it came from, or "look".
func (a *Applier) Comment(ctx context.Context, repo bot.Repository, c bot.Comment, source string) (handled int, err error) {
	if !holdsCommand(c) || c.Number == 0 {
		return 0, nil
	}
	commands, more := command.Parse(c.Body)
	for _, cmd := range commands {
		o := order{repo: repo, comment: c, verb: cmd.Verb, args: cmd.Args, ref: bot.CommandRef{
			RequestID: requestID(repo, c, fmt.Sprint(cmd.Line)),
			Order:     bot.CommandOrder{At: c.CreatedAt.UnixMicro(), ID: c.ID},
			By:        c.Author.Login,
			Verb:      string(cmd.Verb),
			Source:    source,
		}}
		done, err := a.Records.Handled(ctx, o.ref.RequestID)
		if err != nil {
			return handled, fmt.Errorf("looking up command %s: %w", o.ref.RequestID, err)
		}
		if done {
			continue
		}
		if err := a.carryOut(ctx, o); err != nil {
			return handled, fmt.Errorf("carrying out %q by %s on %s#%d: %w", "/batch "+string(cmd.Verb), c.Author.Login, repo.Path, c.Number, err)
		}
		handled++
	}
	if more {
		o := order{repo: repo, comment: c, ref: bot.CommandRef{RequestID: requestID(repo, c, "more"), By: c.Author.Login, Source: source}}
		return handled, a.answer(ctx, o, "", message.TooMany(command.MaxCommands))
	}
	return handled, nil
}

// requestID names one line of one comment: whoever brings it, it is handled once.
func requestID(repo bot.Repository, c bot.Comment, line string) string {
	return fmt.Sprintf("%s:%s:%d:%s", repo.Host, c.Kind, c.ID, line)
}

// order is one command with what it needs.
type order struct {
	repo    bot.Repository
	comment bot.Comment
	verb    command.Verb
	args    []string
	ref     bot.CommandRef
}

// takesTurn reports whether the command changes states: when it finds nothing to change, an earlier command that arrives later must not
// change anything either.
func (o order) takesTurn() bool {
	switch o.verb {
	case command.Cancel, command.Retry, command.Leave, command.With, command.Submit, command.Approve:
		return true
	}
	return false
}

// answer stores what is said to a command that changes nothing.
func (a *Applier) answer(ctx context.Context, o order, reaction bot.Reaction, text string) error {
	_, err := a.Records.Answer(ctx, bot.Answer{
		Command: o.ref, Repository: o.repo, Number: o.comment.Number, Comment: o.comment, Reaction: reaction, Reply: text,
		TakesTurn: o.takesTurn(),
	})
	if err != nil {
		return fmt.Errorf("storing the answer: %w", err)
	}
	a.NudgeOutbox()
	return nil
}

// accept acknowledges a command just before it is carried out: repeated, it is the same reaction.
func (a *Applier) accept(ctx context.Context, o order) error {
	if err := a.Records.Acknowledge(ctx, o.repo, o.comment, bot.ReactionSeen); err != nil {
		return fmt.Errorf("storing the reaction: %w", err)
	}
	return nil
}

// carryOut handles one command. Whatever may fail comes before the one transaction that records it.
func (a *Applier) carryOut(ctx context.Context, o order) error {
	switch o.verb.Standing() {
	case command.Unknown:
		return a.answer(ctx, o, bot.ReactionConfused, message.Unknown(string(o.verb), string(o.verb.Nearest())))
	case command.Later:
		return a.answer(ctx, o, bot.ReactionConfused, message.NotYet(string(o.verb)))
	}
	if o.verb == command.Help {
		return a.answer(ctx, o, bot.ReactionSeen, message.Help())
	}
	host, err := a.host(o.repo.Host)
	if err != nil {
		return err
	}
	known, err := a.current(ctx, o.repo, o.comment.Number)
	if err != nil {
		return err
	}
	mr, err := host.ReadMR(ctx, o.repo, o.comment.Number)
	if errors.Is(err, bot.ErrNotFound) {
		return a.answer(ctx, o, bot.ReactionConfused, message.NotMergeRequest())
	}
	if err != nil {
		return fmt.Errorf("reading it: %w", err)
	}
	if o.verb == command.Unblock {
		return a.unblock(ctx, host, o)
	}
	may, err := a.may(ctx, host, o, mr)
	if err != nil {
		return err
	}
	if !may {
		return a.answer(ctx, o, bot.ReactionRefused, message.Outsider(o.comment.Author.Login))
	}
	if strings.HasPrefix(mr.SourceBranch, bot.BatchBranchPrefix) && !mr.FromFork {
		return a.answer(ctx, o, bot.ReactionConfused, message.BatchMRCommand())
	}
	// What the host shows comes first: after a lost webhook the rows would make the answer wrong.
	r := &reading{repo: o.repo, mr: mr}
	views, _, err := a.reconcile(ctx, r, known, o.ref.Source)
	if err != nil {
		return err
	}
	if o.takesTurn() {
		// The row keeps which command was last, also when there is nothing to cancel yet.
		if r.row, err = a.Records.RecordMR(ctx, o.repo.ID, r.mr); err != nil {
			return fmt.Errorf("recording it: %w", err)
		}
	}
	switch o.verb {
	case command.Cancel:
		return a.cancel(ctx, o, r, views)
	case command.Retry:
		return a.retry(ctx, o, r, views)
	case command.Status:
		return a.status(ctx, o, r, views)
	case command.Join:
		return a.join(ctx, o, r)
	case command.Leave:
		return a.leave(ctx, o, r, views)
	case command.With, command.Submit, command.Approve:
		return a.curate(ctx, o, r)
	}
	return a.apply(ctx, o, r)
}

// may asks the host, at the moment of use: the author of a merge request, and everybody with write access.
func (a *Applier) may(ctx context.Context, host bot.Host, o order, mr bot.MRSnapshot) (bool, error) {
	if o.comment.Author.ID != 0 && o.comment.Author.ID == mr.Author.ID {
		return true, nil
	}
	permission, err := host.Permission(ctx, o.repo, o.comment.Author)
	if errors.Is(err, bot.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the permission of %s: %w", o.comment.Author.Login, err)
	}
	return permission.AtLeast(bot.PermissionWrite), nil
}

// unblock takes an operator's word about the blocked batch that the merge request is, or rides in.
func (a *Applier) unblock(ctx context.Context, host bot.Host, o order) error {
	permission, err := host.Permission(ctx, o.repo, o.comment.Author)
	if err != nil && !errors.Is(err, bot.ErrNotFound) {
		return fmt.Errorf("reading the permission of %s: %w", o.comment.Author.Login, err)
	}
	if !permission.AtLeast(bot.PermissionMaintain) {
		return a.answer(ctx, o, bot.ReactionRefused, message.NotOperator(o.comment.Author.Login))
	}
	if a.Order == nil {
		return a.answer(ctx, o, bot.ReactionConfused, message.NotYet(string(o.verb)))
	}
	if len(o.args) != 1 || !slices.Contains([]bot.OperatorWord{bot.WordMerged, bot.WordFailed, bot.WordResume}, bot.OperatorWord(strings.ToLower(o.args[0]))) {
		return a.answer(ctx, o, bot.ReactionConfused, message.UnblockUsage())
	}
	batch, ok, err := a.Records.BatchMR(ctx, o.repo.ID, o.comment.Number)
	if err != nil {
		return fmt.Errorf("looking up its batch: %w", err)
	}
	if !ok {
		views, err := a.current(ctx, o.repo, o.comment.Number)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(views, func(v bot.OperationView) bool { return v.Operation.Status == bot.OperationBatched && v.Batch != nil })
		if i < 0 {
			return a.answer(ctx, o, bot.ReactionConfused, message.NothingToUnblock())
		}
		batch = *views[i].Batch
	}
	if err := a.accept(ctx, o); err != nil {
		return err
	}
	// A crash between the order and its answer has it carried out twice: the second time finds the batch no longer blocked, and says so.
	answer, err := a.Order(ctx, bot.OperatorOrder{
		BatchID: batch.ID, Word: bot.OperatorWord(strings.ToLower(o.args[0])), Unblock: true, By: o.ref.By, Source: o.ref.Source,
	})
	if err != nil {
		return fmt.Errorf("ruling about batch %d: %w", batch.ID, err)
	}
	reaction := bot.ReactionDone
	if !answer.Done {
		reaction = bot.ReactionRefused
	}
	a.Nudge(batch.QueueID)
	return a.answer(ctx, o, reaction, message.Ruled(answer))
}

func (a *Applier) apply(ctx context.Context, o order, r *reading) error {
	if obstacle := bot.Obstacle(r.mr); obstacle != "" {
		return a.answer(ctx, o, bot.ReactionRefused, message.Refused(obstacle))
	}
	found, err := a.queue(ctx, o.repo, r.mr.Target)
	if err != nil {
		return err
	}
	if found.refusal != "" {
		return a.answer(ctx, o, bot.ReactionRefused, found.refusal)
	}
	verdict, err := a.verdict(ctx, r, found.queue.Settings.Approvals)
	if err != nil {
		return err
	}
	if err := a.accept(ctx, o); err != nil {
		return err
	}
	result, err := a.Records.Apply(ctx, bot.Application{
		OperationID: a.NewID(), QueueID: found.queue.ID, Repository: o.repo, MR: r.mr, Admit: verdict.Sufficient, Detail: verdict.Missing,
		Lane: bot.LaneNormal, ExpiresIn: a.ExpiresIn, Command: o.ref,
	})
	if err != nil {
		return fmt.Errorf("applying it: %w", err)
	}
	links := a.links(o.repo)
	switch result.Outcome {
	case bot.ApplyDuplicate:
		return nil
	case bot.ApplyDone:
		a.NudgeOutbox()
		if result.Operation.Status == bot.OperationWaiting {
			a.Nudge(found.queue.ID)
		}
		a.Logger.Info("a merge request was applied", "host", o.repo.Host, "repo", o.repo.Path, "mr", r.mr.Number, "queue", found.queue.ID,
			"operation", result.Operation.ID, "status", result.Operation.Status.String(), "by", o.ref.By, "delivery", o.ref.Source)
		return a.noteSettings(ctx, o, found)
	case bot.ApplyRetryLater:
		return errLater
	case bot.ApplySuperseded:
		return a.answer(ctx, o, "", message.Superseded())
	}
	view, err := a.view(ctx, o, result.Operation)
	if err != nil {
		return err
	}
	switch result.Outcome {
	case bot.ApplyNeedsRetry:
		return a.answer(ctx, o, "", message.NeedsRetry(view, links))
	case bot.ApplyLanded:
		return a.answer(ctx, o, "", message.AlreadyLanded(view, links))
	}
	if err := a.answer(ctx, o, "", message.AlreadyActive(view, links)); err != nil {
		return err
	}
	return a.noteSettings(ctx, o, found)
}

// noteSettings says that the repository file is broken, to the first who applies under it: the note has an id made of what it says, so that
// another mistake is said too, and the same one not at every command. The command itself is recorded already; after a crash right here the
// next one says it.
func (a *Applier) noteSettings(ctx context.Context, o order, found foundQueue) error {
	if found.note == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(found.note))
	o.ref.RequestID = fmt.Sprintf("%s:settings:%d:%x", o.repo.Host, found.queue.ID, sum[:12])
	return a.answer(ctx, o, "", found.note)
}

// view is where an operation stands, for an answer.
func (a *Applier) view(ctx context.Context, o order, op bot.Operation) (bot.OperationView, error) {
	views, err := a.current(ctx, o.repo, o.comment.Number)
	if err != nil {
		return bot.OperationView{}, err
	}
	for _, v := range views {
		if v.Operation.ID == op.ID {
			return v, nil
		}
	}
	return bot.OperationView{Operation: op}, nil
}

func (a *Applier) links(repo bot.Repository) message.Links {
	host, ok := a.Hosts[repo.Host]
	if !ok {
		return message.Links{}
	}
	return message.LinksOf(repo, host)
}

// pick chooses the operation a command is about: one that wanted says yes to, rather of the target the merge request has now. Without
// any, latest is the newest one, nil if there never was one.
func pick(views []bot.OperationView, target string, wanted func(bot.OperationStatus) bool) (view bot.OperationView, ok bool, latest *bot.OperationView) {
	for _, v := range views {
		if !wanted(v.Operation.Status) {
			continue
		}
		if !ok || (v.Operation.Target == target && view.Operation.Target != target) {
			view, ok = v, true
		}
	}
	if len(views) > 0 {
		latest = &views[0]
	}
	return view, ok, latest
}

// errBusy makes a delivery come back: the rows changed under every try.
var errBusy = errors.New("its operation kept changing")

func (a *Applier) cancel(ctx context.Context, o order, r *reading, views []bot.OperationView) error {
	for range 5 {
		view, ok, latest := pick(views, r.mr.Target, bot.OperationStatus.Followed)
		if over, err := a.cancelSet(ctx, o, r, ok); err != nil || over {
			return err
		}
		if !ok {
			return a.answer(ctx, o, bot.ReactionConfused, message.NothingToCancel(latest, a.links(o.repo)))
		}
		op := view.Operation
		if view.Seat != nil && a.Trains != nil {
			done, err := a.leaves(ctx, o, view)
			if err != nil || done {
				return err
			}
			if views, err = a.current(ctx, o.repo, o.comment.Number); err != nil {
				return err
			}
			continue
		}
		move := bot.Move{
			OperationID: op.ID, From: op.Status, Version: op.Version, To: bot.OperationCancelled, Reason: bot.ReasonCancelled,
			By: o.ref.By, Source: o.ref.Source, Command: &o.ref,
		}
		if op.Status == bot.OperationBatched && view.Batch != nil && view.Batch.Status.Active() {
			if view.Batch.Phase == bot.PhaseLanding {
				return a.answer(ctx, o, bot.ReactionRefused, message.Landing(*view.Batch, a.links(o.repo)))
			}
			guard := view.Batch.Guard()
			move.Batch = &guard
		}
		// A member without an active batch was read between two transactions: read again.
		if op.Status != bot.OperationBatched || move.Batch != nil {
			done, err := a.commanded(ctx, o, op, move)
			if err != nil || done {
				return err
			}
		}
		var err error
		if views, err = a.current(ctx, o.repo, o.comment.Number); err != nil {
			return err
		}
	}
	return errBusy
}

func (a *Applier) retry(ctx context.Context, o order, r *reading, views []bot.OperationView) error {
	for range 5 {
		view, ok, latest := pick(views, r.mr.Target, func(s bot.OperationStatus) bool { return s == bot.OperationFailed })
		if !ok {
			if i := slices.IndexFunc(views, func(v bot.OperationView) bool { return v.Operation.Status.Open() }); i >= 0 {
				latest = &views[i]
			}
			return a.answer(ctx, o, bot.ReactionConfused, message.NothingToRetry(latest, a.links(o.repo)))
		}
		if obstacle := bot.Obstacle(r.mr); obstacle != "" {
			return a.answer(ctx, o, bot.ReactionRefused, message.Refused(obstacle))
		}
		verdict, err := a.verdict(ctx, r, view.Queue.Settings.Approvals)
		if err != nil {
			return err
		}
		op := view.Operation
		done, err := a.commanded(ctx, o, op, bot.Move{
			OperationID: op.ID, From: op.Status, Version: op.Version, To: bot.OperationPendingApproval, Reason: bot.ReasonRetried, Detail: verdict.Missing,
			By: o.ref.By, Source: o.ref.Source, Command: &o.ref,
		})
		if err != nil {
			return err
		}
		if done {
			// Approved still, it goes straight on. Should this fail, the next event or look does it.
			if _, err := a.ReconcileMR(ctx, o.repo, o.comment.Number, o.ref.Source); err != nil {
				a.Logger.Warn("a retried operation is not admitted yet", "operation", op.ID, "error", err)
			}
			return nil
		}
		if views, err = a.current(ctx, o.repo, o.comment.Number); err != nil {
			return err
		}
	}
	return errBusy
}

// commanded makes the move a command asked for. done false: the rows were no longer as read.
func (a *Applier) commanded(ctx context.Context, o order, op bot.Operation, move bot.Move) (done bool, err error) {
	if err := a.accept(ctx, o); err != nil {
		return false, err
	}
	result, err := a.Records.Move(ctx, move)
	if err != nil {
		return false, fmt.Errorf("moving operation %s to %s: %w", op.ID, move.To, err)
	}
	switch result {
	case bot.MoveDone:
		a.moved(o.repo, op, move)
		return true, nil
	case bot.MoveDuplicate:
		return true, nil
	case bot.MoveSuperseded:
		return true, a.answer(ctx, o, "", message.Superseded())
	}
	return false, nil
}

func (a *Applier) status(ctx context.Context, o order, r *reading, views []bot.OperationView) error {
	known, err := a.Records.RecordMR(ctx, o.repo.ID, r.mr)
	if err != nil {
		return fmt.Errorf("recording it: %w", err)
	}
	view := bot.StickyView{MergeRequest: known, Repository: o.repo, Operations: views}
	if a.Curated != nil {
		set, ok, err := a.Curated.Of(ctx, known.ID)
		if err != nil {
			return err
		}
		if ok {
			view.Curated = &set
		}
	}
	return a.answer(ctx, o, bot.ReactionSeen, message.Status(view, a.links(o.repo)))
}
