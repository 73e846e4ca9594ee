package store

import (
	"cmp"
	"context"
	"fmt"

	"github.com/batchbot/batchbot/bot"
)

// Board gives a merge request a seat, or a place in line, in one transaction with the idempotency row of its command or request. Whatever it does
// not do leaves no trace, as with Apply: only BoardingDone records the command. Of a boarding through the API, Application.Command names who
// asks (By, Source) and has no request id.
func (s *Store) Board(ctx context.Context, b bot.Boarding) (bot.BoardingResult, error) {
	a := b.Application
	requestID := a.Command.RequestID
	if b.Request != nil {
		requestID = b.Request.ID
	}
	if err := checkCommand(bot.CommandRef{RequestID: requestID}); err != nil {
		return bot.BoardingResult{}, err
	}
	if a.OperationID == "" || a.MR.HeadSHA == "" {
		return bot.BoardingResult{}, fmt.Errorf("command %s: a boarding needs an operation id and a head to pin", requestID)
	}
	// The operation a command made tells a repetition from a seat that somebody else asked for.
	if winner, handled, err := s.winner(ctx, requestID); err != nil || handled {
		if err != nil {
			return bot.BoardingResult{}, err
		}
		return s.boarded(ctx, bot.BoardingDuplicate, b.TrainID, winner)
	}
	mr, err := s.RecordMR(ctx, a.Repository.ID, a.MR)
	if err != nil {
		return bot.BoardingResult{}, err
	}
	for range applyTries {
		outcome, current, err := s.board(ctx, b, mr)
		if err != nil {
			return bot.BoardingResult{}, err
		}
		switch outcome {
		case bot.BoardingRetryLater:
			continue // the winner's rows are read now
		case bot.BoardingDuplicate:
			winner, handled, err := s.winner(ctx, requestID)
			if err != nil {
				return bot.BoardingResult{}, err
			}
			if !handled {
				continue
			}
			current = winner
		}
		return s.boarded(ctx, outcome, b.TrainID, current)
	}
	return bot.BoardingResult{Outcome: bot.BoardingRetryLater}, nil
}

// boarded reads what stands now: the operation the answer is about, its seat, and that seat's train or else the one that was asked for.
func (s *Store) boarded(ctx context.Context, outcome bot.BoardingOutcome, trainID int64, operationID string) (bot.BoardingResult, error) {
	result := bot.BoardingResult{Outcome: outcome}
	var found bool
	var err error
	if operationID != "" {
		if result.Operation, found, err = readOperation(ctx, s, operationID); err != nil || !found {
			return bot.BoardingResult{}, missing(err, "operation "+operationID)
		}
		seat, live, err := liveSeat(ctx, s, operationID)
		if err == nil && !live {
			// Left or departed since: the row it had on this train says so.
			seats, readErr := listSeats(ctx, s, `s.train_id = ? AND s.subject_id = ? AND s.operation_id = ?`, trainID, result.Operation.MergeRequestID, operationID)
			if err = readErr; len(seats) > 0 {
				seat = seats[0]
			}
		}
		if err == nil {
			seat.Position, err = placeInLine(ctx, s, seat.Seat)
		}
		if err != nil {
			return bot.BoardingResult{}, fmt.Errorf("read the seat of operation %s: %w", operationID, err)
		}
		result.Seat = seat.Seat
	}
	id := cmp.Or(result.Seat.TrainID, trainID)
	if result.Train, found, err = readTrain(ctx, s, id); err != nil || !found {
		return bot.BoardingResult{}, missing(err, fmt.Sprintf("train %d", id))
	}
	return result, nil
}

// board tries once. current is the operation the answer is about; BoardingRetryLater: somebody was faster, look again.
func (s *Store) board(ctx context.Context, b bot.Boarding, mr bot.MergeRequest) (outcome bot.BoardingOutcome, current string, err error) {
	var entry auditEntry
	name := fmt.Sprintf("seat merge request %d of %s on train %d", b.Application.MR.Number, b.Application.Repository.Path, b.TrainID)
	err = s.write(ctx, job{name: name, run: func(tx *tx) error {
		var err error
		if outcome, current, entry, err = tx.board(ctx, b, mr); err == nil && outcome != bot.BoardingDone {
			return errRollback
		}
		return err
	}, landed: func(ctx context.Context) (bool, error) {
		return s.exists(ctx, `SELECT 1 FROM audit WHERE dedupe_key = ? AND action = ? AND actor = ? AND source = ?`,
			entry.dedupe, entry.action, clip(entry.actor, 255), clip(entry.source, 255))
	}})
	return outcome, current, err
}

func (t *tx) board(ctx context.Context, b bot.Boarding, mr bot.MergeRequest) (outcome bot.BoardingOutcome, current string, entry auditEntry, err error) {
	a := b.Application
	refuse := func(as bot.BoardingOutcome, operationID string, err error) (bot.BoardingOutcome, string, auditEntry, error) {
		return as, operationID, auditEntry{}, err
	}
	target, err := t.targetOf(ctx, a)
	if err != nil {
		return refuse(0, "", t.fail(err))
	}
	old, bound, err := t.bindingOf(ctx, mr.ID, target)
	if err != nil {
		return refuse(0, "", err)
	}
	current = a.OperationID
	keeps := bound && old.status == bot.OperationPendingApproval
	if keeps {
		current = old.operationID
	}
	if b.Request != nil {
		if fresh, err := t.recordRequest(ctx, b.Request, current, trainResource(b.TrainID)); err != nil || !fresh {
			return refuse(bot.BoardingDuplicate, "", err)
		}
	} else {
		if fresh, err := t.recordCommand(ctx, a.Command.RequestID, current); err != nil || !fresh {
			return refuse(bot.BoardingDuplicate, "", err)
		}
		if ok, err := t.takeTurn(ctx, mr.ID, a.Command.Order); err != nil || !ok {
			return refuse(bot.BoardingSuperseded, "", err)
		}
	}

	train, found, err := t.holdTrain(ctx, b.TrainID)
	if err != nil || !found {
		return refuse(0, "", t.fail(missing(err, fmt.Sprintf("train %d", b.TrainID))))
	}
	if train.QueueID != a.QueueID {
		return refuse(0, "", t.fail(fmt.Errorf("it is of queue %d, and the merge request is for queue %d", train.QueueID, a.QueueID)))
	}
	if bound {
		switch bot.Reapply(old.status, old.head, a.MR.HeadSHA) {
		case bot.ReapplyNeedsRetry:
			return refuse(bot.BoardingNeedsRetry, old.operationID, nil)
		case bot.ReapplyLanded:
			return refuse(bot.BoardingLanded, old.operationID, nil)
		case bot.ReapplyActive:
			if !keeps {
				return refuse(bot.BoardingRides, old.operationID, nil)
			}
			seat, seated, err := liveSeat(ctx, t, old.operationID)
			switch {
			case err != nil:
				return refuse(0, "", err)
			case seated && seat.TrainID == train.ID:
				return refuse(bot.BoardingHeld, old.operationID, nil)
			case seated:
				return refuse(bot.BoardingElsewhere, old.operationID, nil)
			}
		}
	}
	if train.Closed {
		return refuse(bot.BoardingClosed, "", nil)
	}

	op := bot.Operation{ID: a.OperationID, Status: bot.OperationPendingApproval, RepositoryID: a.Repository.ID, QueueID: a.QueueID,
		MergeRequestID: mr.ID, Number: mr.Number, HeadSHA: a.MR.HeadSHA, Reason: bot.ReasonJoined}
	place, err := t.takePlace(ctx, &train)
	if err != nil {
		return refuse(0, "", err)
	}
	version := int64(1)
	var joined []change
	var ok bool
	if keeps {
		op, found, err = readOperation(ctx, t, old.operationID)
		if err != nil || !found || op.Status != bot.OperationPendingApproval {
			return refuse(bot.BoardingRetryLater, "", err)
		}
		version = op.Version + 1
		joined = []change{{op: op, version: op.Version, to: bot.OperationPendingApproval, headSHA: a.MR.HeadSHA, reason: bot.ReasonJoined, detail: a.Detail, by: a.Command.By}}
		if ok, err = t.transition(ctx, joined); err == nil && ok {
			// It waits for the departure now, and for as long as an application made for it.
			_, err = t.exec(ctx, `UPDATE binding SET expires_at = {later} WHERE id = ?`, micros(cmp.Or(a.ExpiresIn, defaultExpiry)), old.id)
		}
	} else {
		ok, err = t.bind(ctx, a, op, target, old)
	}
	if err != nil || !ok {
		return refuse(bot.BoardingRetryLater, "", err)
	}
	if err := t.seat(ctx, place, mr.ID, op.ID, a.Admit); err != nil {
		return refuse(0, "", err)
	}
	entry = auditEntry{dedupe: operationAudit(op.ID, version), actor: a.Command.By, action: "join", queueID: op.QueueID, operationID: op.ID,
		source: a.Command.Source, detail: fmt.Sprintf("train %d, %s", train.ID, train.Name)}
	if err := t.audit(ctx, entry); err != nil {
		return refuse(0, "", err)
	}
	if keeps {
		return bot.BoardingDone, op.ID, entry, t.tell(ctx, joined)
	}
	return bot.BoardingDone, op.ID, entry, t.arm(ctx, stickyErrand(op.RepositoryID, mr.ID, mr.Number), statusErrand(op))
}

// takePlace takes the next place of a held train: a seat while one is free, else the tail of the line.
func (t *tx) takePlace(ctx context.Context, train *heldTrain) (bot.Seat, error) {
	place := bot.Seat{TrainID: train.ID, Status: bot.SeatWaiting, Seq: train.nextSeq}
	if train.Confirmed < train.Seats {
		place.Status = bot.SeatConfirmed
		train.Confirmed++
	}
	train.nextSeq++
	return place, t.saveTrain(ctx, train)
}

// seat puts an operation in its place, under the guarded write of the operation. A merge request that was on this train before gets its row again.
func (t *tx) seat(ctx context.Context, place bot.Seat, mergeRequestID int64, operationID string, approved bool) error {
	n, err := t.exec(ctx, `UPDATE train_seat SET operation_id = ?, status = ?, approved = ?, queue_seq = ?, version = version + 1, updated_at = {now}
		WHERE train_id = ? AND subject_id = ? AND status = ?`, operationID, place.Status, approved, place.Seq, place.TrainID, mergeRequestID, bot.SeatCancelled)
	if err != nil || n == 1 {
		return err
	}
	_, _, err = t.insert(ctx, nil, `INSERT INTO train_seat (train_id, subject_id, operation_id, status, approved, queue_seq, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, {now}, {now})`, place.TrainID, mergeRequestID, operationID, place.Status, approved, place.Seq)
	return err
}

// Leave gives a live seat up and promotes the first in line in the same transaction. An operation that holds none is MoveStale.
func (s *Store) Leave(ctx context.Context, l bot.Leaving) (bot.LeavingResult, error) {
	result, promoted, err := s.performMove(ctx, bot.Move{OperationID: l.OperationID, From: bot.OperationPendingApproval, Version: l.Version,
		To: bot.OperationCancelled, Reason: bot.ReasonLeft, By: l.By, Source: l.Source, Command: l.Command})
	if err != nil {
		return bot.LeavingResult{}, err
	}
	return bot.LeavingResult{Result: result, Promoted: promoted}, nil
}

// giveUp lets a move decide about the live seat its operation holds, under the lock of the seat's train: a move that stays says whether it is approved, a
// move that ends gives the seat up, and who moves up is among the changes for transition. ok false: the seat is not as it was read.
func (t *tx) giveUp(ctx context.Context, seat seatRow, m bot.Move) (promoted []bot.Seat, changes []change, ok bool, err error) {
	train, found, err := t.holdTrain(ctx, seat.TrainID)
	if err != nil || !found {
		return nil, nil, false, err
	}
	status, approved := seat.Status, m.Reason == bot.ReasonApproved
	if m.To != bot.OperationPendingApproval {
		status, approved = bot.SeatCancelled, seat.Approved
	}
	n, err := t.exec(ctx, `UPDATE train_seat SET status = ?, approved = ?, version = version + 1, updated_at = {now} WHERE id = ? AND status = ? AND version = ?`,
		status, approved, seat.id, seat.Status, seat.Version)
	if err != nil || n != 1 {
		return nil, nil, false, err
	}
	if status.Live() || seat.Status != bot.SeatConfirmed {
		return nil, nil, true, nil
	}
	train.Confirmed--
	if promoted, changes, err = t.fill(ctx, &train); err != nil {
		return nil, nil, false, err
	}
	return promoted, changes, true, t.saveTrain(ctx, &train)
}
