package intake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/message"
)

// join takes a seat on a train, or a place in line. Without a name it is the only train that is open.
func (a *Applier) join(ctx context.Context, o order, r *reading) error {
	if a.Trains == nil {
		return a.answer(ctx, o, bot.ReactionConfused, message.NoTrains())
	}
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
	trains, err := a.boarding(ctx, found.queue)
	if err != nil {
		return err
	}
	name := ""
	if len(o.args) > 0 {
		name = o.args[0]
	}
	train, ok := pickTrain(trains, name)
	switch {
	case len(trains) == 0:
		return a.answer(ctx, o, bot.ReactionRefused, message.NoTrain(r.mr.Target))
	case !ok:
		return a.answer(ctx, o, bot.ReactionConfused, message.WhichTrain(name, trains, found.queue))
	}
	// A failure right here leaves a reaction only; what follows is one transaction.
	if err := a.accept(ctx, o); err != nil {
		return err
	}
	result, missing, err := a.board(ctx, r, found.queue, train, o.ref, nil)
	if err != nil {
		return err
	}
	switch result.Outcome {
	case bot.BoardingDuplicate:
		return nil
	case bot.BoardingDone:
		// The seat is recorded with the command's id, and so is the status comment: the answer has an id of its own. After a crash right
		// here the status comment is what says it.
		said := o
		said.ref.RequestID += ":seat"
		if err := a.answer(ctx, said, "", message.Joined(bot.SeatView{Seat: result.Seat, Train: result.Train}, found.queue, missing)); err != nil {
			return err
		}
		return a.noteSettings(ctx, o, found)
	}
	refusal, err := a.boardingRefusal(ctx, r, found.queue, result)
	if err != nil {
		return err
	}
	return a.answer(ctx, o, "", refusal)
}

// boarding lists the open trains of a queue, those its file names opened first.
func (a *Applier) boarding(ctx context.Context, queue bot.Queue) ([]bot.Train, error) {
	if a.OpenTrains != nil && len(queue.Settings.Trains) > 0 {
		if err := a.OpenTrains(ctx, queue); err != nil {
			return nil, fmt.Errorf("opening the trains of queue %d: %w", queue.ID, err)
		}
	}
	trains, err := a.Trains.OpenTrains(ctx, queue.ID)
	if err != nil {
		return nil, fmt.Errorf("listing the trains of queue %d: %w", queue.ID, err)
	}
	return trains, nil
}

// pickTrain finds the train somebody named, or the only one there is.
func pickTrain(trains []bot.Train, name string) (bot.Train, bool) {
	if name == "" {
		if len(trains) != 1 {
			return bot.Train{}, false
		}
		return trains[0], true
	}
	for _, same := range []func(string) bool{
		func(s string) bool { return s == name },
		func(s string) bool { return strings.EqualFold(s, name) },
	} {
		if i := slices.IndexFunc(trains, func(t bot.Train) bool { return same(t.Name) }); i >= 0 {
			return trains[i], true
		}
	}
	return bot.Train{}, false
}

// board asks for a seat with what was read of the merge request just now. missing is what its approval lacks.
func (a *Applier) board(ctx context.Context, r *reading, queue bot.Queue, train bot.Train, ref bot.CommandRef, request *bot.APIRequest) (result bot.BoardingResult, missing string, err error) {
	verdict, err := a.verdict(ctx, r, queue.Settings.Approvals)
	if err != nil {
		return result, "", err
	}
	result, err = a.Trains.Board(ctx, bot.Boarding{
		TrainID: train.ID, Request: request,
		Application: bot.Application{
			OperationID: a.NewID(), QueueID: queue.ID, Repository: r.repo, MR: r.mr, Admit: verdict.Sufficient, Detail: verdict.Missing,
			Lane: bot.LaneNormal, Command: ref,
			// An approval is due at the departure, which may be far; only then does it begin to be late.
			ExpiresIn: a.ExpiresIn + max(time.Until(train.DepartsAt), 0),
		},
	})
	switch {
	case err != nil:
		return result, "", fmt.Errorf("taking a seat on train %d: %w", train.ID, err)
	case result.Outcome == bot.BoardingRetryLater:
		return result, "", errLater
	case result.Outcome == bot.BoardingDone:
		a.NudgeOutbox()
		a.Logger.Info("a merge request joined a train", "host", r.repo.Host, "repo", r.repo.Path, "mr", r.mr.Number, "queue", queue.ID,
			"train", result.Train.ID, "name", result.Train.Name, "seat", result.Seat.Status.String(), "operation", result.Operation.ID, "by", ref.By, "delivery", ref.Source)
	}
	return result, verdict.Missing, nil
}

// boardingRefusal says in words why a boarding gave no seat, or that it changed nothing; empty: it did, now or before.
func (a *Applier) boardingRefusal(ctx context.Context, r *reading, queue bot.Queue, result bot.BoardingResult) (string, error) {
	links := a.links(r.repo)
	seat := bot.SeatView{Seat: result.Seat, Train: result.Train}
	switch result.Outcome {
	case bot.BoardingHeld:
		return message.Seated(seat, queue), nil
	case bot.BoardingElsewhere:
		other, err := a.Trains.ReadTrain(ctx, result.Seat.TrainID)
		if err != nil {
			return "", fmt.Errorf("reading train %d: %w", result.Seat.TrainID, err)
		}
		seat.Train = other.Train
		return message.SeatedElsewhere(seat, other.Queue), nil
	case bot.BoardingClosed:
		return message.BoardingOver(result.Train, queue), nil
	case bot.BoardingSuperseded:
		return message.Superseded(), nil
	case bot.BoardingRides, bot.BoardingNeedsRetry, bot.BoardingLanded:
	default:
		return "", nil
	}
	views, err := a.current(ctx, r.repo, r.mr.Number)
	if err != nil {
		return "", err
	}
	view := bot.OperationView{Operation: result.Operation}
	if i := slices.IndexFunc(views, func(v bot.OperationView) bool { return v.Operation.ID == result.Operation.ID }); i >= 0 {
		view = views[i]
	}
	switch result.Outcome {
	case bot.BoardingNeedsRetry:
		return message.NeedsRetry(view, links), nil
	case bot.BoardingLanded:
		return message.AlreadyLanded(view, links), nil
	}
	return message.RidesAlready(view, links), nil
}

// leave gives up the seat of a merge request.
func (a *Applier) leave(ctx context.Context, o order, r *reading, views []bot.OperationView) error {
	if a.Trains == nil {
		return a.answer(ctx, o, bot.ReactionConfused, message.NoTrains())
	}
	for range 5 {
		view, ok := pickSeated(views, r.mr.Target, 0)
		if !ok {
			var latest *bot.OperationView
			if len(views) > 0 {
				latest = &views[0]
			}
			return a.answer(ctx, o, bot.ReactionConfused, message.NotSeated(latest, a.links(o.repo)))
		}
		done, err := a.leaves(ctx, o, view)
		if err != nil || done {
			return err
		}
		if views, err = a.current(ctx, o.repo, o.comment.Number); err != nil {
			return err
		}
	}
	return errBusy
}

// leaves gives up one seat because of a command. done false: the rows were no longer as read.
func (a *Applier) leaves(ctx context.Context, o order, view bot.OperationView) (done bool, err error) {
	if err := a.accept(ctx, o); err != nil {
		return false, err
	}
	result, err := a.giveUp(ctx, o.repo, view, bot.Leaving{By: o.ref.By, Source: o.ref.Source, Command: &o.ref})
	if err != nil {
		return false, err
	}
	switch result.Result {
	case bot.MoveDone, bot.MoveDuplicate:
		return true, nil
	case bot.MoveSuperseded:
		return true, a.answer(ctx, o, "", message.Superseded())
	}
	return false, nil
}

// giveUp ends the operation that holds a seat, with whoever moves up.
func (a *Applier) giveUp(ctx context.Context, repo bot.Repository, view bot.OperationView, leaving bot.Leaving) (bot.LeavingResult, error) {
	op := view.Operation
	leaving.OperationID, leaving.Version = op.ID, op.Version
	result, err := a.Trains.Leave(ctx, leaving)
	if err != nil {
		return result, fmt.Errorf("giving up the seat of operation %s: %w", op.ID, err)
	}
	if result.Result == bot.MoveDone {
		a.NudgeOutbox()
		log := a.Logger.With("host", repo.Host, "repo", repo.Path, "queue", op.QueueID, "train", view.Seat.Train.ID)
		log.Info("a merge request left its train", "mr", op.Number, "operation", op.ID, "by", leaving.By, "delivery", leaving.Source)
		if p := result.Promoted; p != nil {
			log.Info("a merge request moved up to a seat", "mr", p.Number, "operation", p.OperationID)
		}
	}
	return result, nil
}

// pickSeated finds the operation that holds a live seat, rather of the target the merge request has now; trainID 0: on any train.
func pickSeated(views []bot.OperationView, target string, trainID int64) (view bot.OperationView, ok bool) {
	for _, v := range views {
		if v.Seat == nil || !v.Seat.Seat.Status.Live() || (trainID != 0 && v.Seat.Train.ID != trainID) {
			continue
		}
		if !ok || (v.Operation.Target == target && view.Operation.Target != target) {
			view, ok = v, true
		}
	}
	return view, ok
}

// Join is the join of one who may, other than by a comment: actor wants a seat for a merge request on a train. refusal says in words for people
// why there is none; empty: result says which seat or place in line it has, now or since before (BoardingHeld, BoardingDuplicate).
// BoardingNotFound: the host has no such merge request.
func (a *Applier) Join(ctx context.Context, repo bot.Repository, number int, trainID int64, actor string, request *bot.APIRequest) (result bot.BoardingResult, refusal string, err error) {
	if a.Trains == nil {
		return result, message.NoTrains(), nil
	}
	train, err := a.Trains.ReadTrain(ctx, trainID)
	if err != nil {
		return result, "", fmt.Errorf("reading train %d: %w", trainID, err)
	}
	ref := bot.CommandRef{By: actor, Verb: "join", Source: sourceOf(request)}
	host, err := a.host(repo.Host)
	if err != nil {
		return result, "", err
	}
	known, err := a.current(ctx, repo, number)
	if err != nil {
		return result, "", err
	}
	mr, err := host.ReadMR(ctx, repo, number)
	if errors.Is(err, bot.ErrNotFound) {
		return bot.BoardingResult{Outcome: bot.BoardingNotFound}, fmt.Sprintf("there is no merge request %d in %s", number, repo.Path), nil
	}
	if err != nil {
		return result, "", fmt.Errorf("reading %s#%d: %w", repo.Path, number, err)
	}
	if strings.HasPrefix(mr.SourceBranch, bot.BatchBranchPrefix) && !mr.FromFork {
		return result, message.BatchMRCommand(), nil
	}
	r := &reading{repo: repo, mr: mr}
	if _, _, err := a.reconcile(ctx, r, known, ref.Source); err != nil {
		return result, "", err
	}
	if obstacle := bot.Obstacle(r.mr); obstacle != "" {
		return result, message.Refused(obstacle), nil
	}
	if train.Queue.RepositoryID != repo.ID || train.Queue.Target != r.mr.Target {
		return result, message.OtherTrain(train.Train, train.Queue, r.mr.Target), nil
	}
	found, err := a.queue(ctx, repo, r.mr.Target)
	if err != nil || found.refusal != "" {
		return result, found.refusal, err
	}
	if result, _, err = a.board(ctx, r, found.queue, train.Train, ref, request); err != nil {
		return result, "", err
	}
	switch result.Outcome {
	case bot.BoardingDone, bot.BoardingHeld, bot.BoardingDuplicate:
		return result, "", nil
	}
	refusal, err = a.boardingRefusal(ctx, r, found.queue, result)
	return result, refusal, err
}

// Leave is the leave of one who may, other than by a comment. refusal says in words for people why nothing was given up; empty: the seat was, and
// result.Promoted says who moved up. Leaving twice is refused the second time: then there is no seat to give up.
func (a *Applier) Leave(ctx context.Context, repo bot.Repository, number int, trainID int64, actor string, request *bot.APIRequest) (result bot.LeavingResult, refusal string, err error) {
	if a.Trains == nil {
		return result, message.NoTrains(), nil
	}
	for range 5 {
		views, err := a.current(ctx, repo, number)
		if err != nil {
			return result, "", err
		}
		view, ok := pickSeated(views, "", trainID)
		if !ok {
			if other, elsewhere := pickSeated(views, "", 0); elsewhere {
				return result, fmt.Sprintf("its seat is on another train, %s: give it up at /api/v1/trains/%d/seats/%d", other.Seat.Train.Name, other.Seat.Train.ID, number), nil
			}
			var latest *bot.OperationView
			if len(views) > 0 {
				latest = &views[0]
			}
			return result, message.NotSeated(latest, a.links(repo)), nil
		}
		result, err = a.giveUp(ctx, repo, view, bot.Leaving{By: actor, Source: sourceOf(request)})
		if err != nil || result.Result == bot.MoveDone {
			return result, "", err
		}
	}
	return result, "", errBusy
}

// sourceOf is where a request through the API came from, for the audit.
func sourceOf(request *bot.APIRequest) string {
	if request == nil {
		return "api"
	}
	return request.ID
}

// SeatApproval looks at the merge request of a live seat and brings its operation in line, as any hint would. approved: it holds its seat, and is
// approved as of the version that is returned.
func (a *Applier) SeatApproval(ctx context.Context, repo bot.Repository, seat bot.Seat, source string) (approval bot.SeatApproval, approved bool, err error) {
	known, err := a.current(ctx, repo, seat.Number)
	if err != nil {
		return approval, false, err
	}
	host, err := a.host(repo.Host)
	if err != nil {
		return approval, false, err
	}
	mr, err := host.ReadMR(ctx, repo, seat.Number)
	if errors.Is(err, bot.ErrNotFound) {
		a.Logger.Warn("a merge request that holds a seat is not found", "host", repo.Host, "repo", repo.Path, "mr", seat.Number, "operation", seat.OperationID)
		return approval, false, nil
	}
	if err != nil {
		return approval, false, fmt.Errorf("reading %s#%d: %w", repo.Path, seat.Number, err)
	}
	views, _, err := a.reconcile(ctx, &reading{repo: repo, mr: mr}, known, source)
	if err != nil {
		return approval, false, err
	}
	i := slices.IndexFunc(views, func(v bot.OperationView) bool { return v.Operation.ID == seat.OperationID })
	if i < 0 || views[i].Seat == nil || !views[i].Seat.Seat.Approved {
		return approval, false, nil
	}
	return bot.SeatApproval{OperationID: seat.OperationID, Version: views[i].Operation.Version}, true, nil
}
