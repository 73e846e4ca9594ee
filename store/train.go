package store

import (
	"context"
	"fmt"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// A train as it is read everywhere. Whether boarding is over and whether it is due is judged by the database's clock, which is read with it.
const (
	trainColumns = `{now}, t.id, t.queue_id, t.name, t.status, t.scheduled, t.departs_at, t.closes_at, t.seats, t.capacity, t.confirmed_count, t.version`
	// A locking read is made without the line: a count beside it would be as old as the wait for the lock.
	trainLine = `(SELECT COUNT(*) FROM train_seat s WHERE s.train_id = t.id AND s.status = 2)`
)

// scanTrain scans trainColumns and what more a query selects after them.
func scanTrain(scan scan, t *bot.Train, more ...any) error {
	var now, departs, closes instant
	fields := []any{&now, &t.ID, &t.QueueID, &t.Name, &t.Status, &t.Scheduled, &departs, &closes, &t.Seats, &t.Capacity, &t.Confirmed, &t.Version}
	err := scan(append(fields, more...)...)
	t.DepartsAt, t.ClosesAt = departs.Time, closes.Time
	t.Closed = t.Status != bot.TrainOpen || !now.Before(closes.Time)
	t.Due = t.Status == bot.TrainOpen && !now.Before(departs.Time)
	return err
}

// listTrains reads trains; rest follows the table's alias t.
func listTrains(ctx context.Context, from source, rest string, args ...any) ([]bot.Train, error) {
	var trains []bot.Train
	err := from.each(ctx, `SELECT `+trainColumns+`, `+trainLine+` FROM train t `+rest, args, func(scan scan) error {
		var t bot.Train
		err := scanTrain(scan, &t, &t.Waiting)
		trains = append(trains, t)
		return err
	})
	return trains, err
}

// readTrain reads one train.
func readTrain(ctx context.Context, from source, id int64) (train bot.Train, found bool, err error) {
	trains, err := listTrains(ctx, from, `WHERE t.id = ?`, id)
	if err != nil || len(trains) == 0 {
		return bot.Train{}, false, err
	}
	return trains[0], true, nil
}

// heldTrain is a train whose row this transaction has locked. Seats of a train, and operations that hold a live one, are written under it only.
type heldTrain struct {
	bot.Train
	nextSeq int64
}

// holdTrain locks a train's row first of all that belongs to it, so that joining, leaving and departing come one after another per train.
func (t *tx) holdTrain(ctx context.Context, id int64) (train heldTrain, found bool, err error) {
	err = t.each(ctx, `SELECT `+trainColumns+`, t.next_seq FROM train t WHERE t.id = ? {lock}`, []any{id}, func(scan scan) error {
		found = true
		return scanTrain(scan, &train.Train, &train.nextSeq)
	})
	return train, found, err
}

// saveTrain writes a held train. Nobody else can have written it since it was locked.
func (t *tx) saveTrain(ctx context.Context, train *heldTrain) error {
	train.Capacity = max(train.Seats, train.Confirmed)
	at := t.store.dialect.moment
	n, err := t.exec(ctx, `UPDATE train SET status = ?, scheduled = ?, departs_at = ?, closes_at = ?, seats = ?, capacity = ?, confirmed_count = ?, next_seq = ?,
		version = version + 1, updated_at = {now} WHERE id = ? AND version = ?`,
		train.Status, train.Scheduled, at(train.DepartsAt), at(train.ClosesAt), train.Seats, train.Capacity, train.Confirmed, train.nextSeq, train.ID, train.Version)
	if err != nil {
		return err
	}
	if n != 1 {
		return t.fail(fmt.Errorf("train %d changed under the lock of its row: the database was written by something else", train.ID))
	}
	train.Version++
	return nil
}

// moment is a point in time as a time column takes it.
func (d dialect) moment(at time.Time) any {
	if d.name == mysqlDialect.name {
		return at.UTC()
	}
	return at.UnixMicro()
}

// trainAudit is the audit key of the change that gave a train this version.
func trainAudit(id, version int64) string { return fmt.Sprintf("train:%d:%d", id, version) }

// trainResource is the path under which the API shows a train.
func trainResource(id int64) string { return fmt.Sprintf("/api/v1/trains/%d", id) }

// checkTrain refuses what no train can be.
func checkTrain(seats int, departs, closes time.Time) error {
	switch {
	case seats < 0 || seats > bot.MaxSeats:
		return fmt.Errorf("a train has 0 to %d seats, not %d", bot.MaxSeats, seats)
	case departs.IsZero() || closes.IsZero():
		return fmt.Errorf("a train needs a departure and an end of boarding")
	case closes.After(departs):
		return fmt.Errorf("boarding ends at %s, after the departure at %s", closes.UTC().Format(time.RFC3339), departs.UTC().Format(time.RFC3339))
	}
	return nil
}

// OpenTrain opens a train; of one queue and name at most one is open. One that is there is returned as it is and stays so.
func (s *Store) OpenTrain(ctx context.Context, spec bot.TrainSpec) (bot.TrainResult, error) {
	name := fmt.Sprintf("open train %q of queue %d", spec.Name, spec.QueueID)
	if !bot.IsTrainName(spec.Name) {
		return bot.TrainResult{}, fmt.Errorf("%s: a train's name is one word of 1 to %d letters, digits and . _ -", name, bot.MaxTrainName)
	}
	if err := checkTrain(spec.Seats, spec.DepartsAt, spec.ClosesAt); err != nil {
		return bot.TrainResult{}, fmt.Errorf("%s: %w", name, err)
	}
	var outcome bot.TrainOutcome
	var id int64
	err := s.write(ctx, job{name: name, run: func(tx *tx) error {
		var err error
		if id, outcome, err = tx.openTrain(ctx, spec); err == nil && outcome != bot.TrainWritten {
			return errRollback
		}
		return err
	}, landed: func(ctx context.Context) (bool, error) {
		return s.exists(ctx, `SELECT 1 FROM audit WHERE dedupe_key = ? AND actor = ? AND source = ?`, trainAudit(id, 1), clip(spec.By, 255), clip(spec.Source, 255))
	}})
	if err != nil {
		return bot.TrainResult{}, err
	}
	if outcome == bot.TrainDuplicate {
		return s.trainOfRequest(ctx, *spec.Request)
	}
	return s.trainResult(ctx, bot.TrainResult{Outcome: outcome}, id)
}

func (t *tx) openTrain(ctx context.Context, spec bot.TrainSpec) (id int64, outcome bot.TrainOutcome, err error) {
	if spec.Request != nil {
		handled, err := t.requestHandled(ctx, *spec.Request)
		if err != nil || handled {
			return 0, bot.TrainDuplicate, err
		}
	}
	there := func() (bool, error) {
		return one(ctx, t, `SELECT id FROM train WHERE queue_id = ? AND open_name = ?`, []any{spec.QueueID, spec.Name}, &id)
	}
	if found, err := there(); err != nil || found {
		return id, bot.TrainThere, err
	}
	if found, err := one(ctx, t, `SELECT id FROM queue WHERE id = ?`, []any{spec.QueueID}, &id); err != nil || !found {
		return 0, 0, t.fail(missing(err, fmt.Sprintf("queue %d", spec.QueueID)))
	}
	id, fresh, err := t.insertTrain(ctx, spec.QueueID, spec.Name, spec.Scheduled, spec.DepartsAt, spec.ClosesAt, spec.Seats, 0, 1)
	if err != nil {
		return 0, 0, err
	}
	if !fresh {
		// Somebody opened it at this moment, and the duplicate key waited for that to be over.
		if found, err := there(); err != nil || !found {
			return 0, 0, t.fail(missing(err, "the train somebody else just opened"))
		}
		return id, bot.TrainThere, nil
	}
	if fresh, err := t.recordRequest(ctx, spec.Request, "", trainResource(id)); err != nil || !fresh {
		return 0, bot.TrainDuplicate, err
	}
	return id, bot.TrainWritten, t.audit(ctx, auditEntry{dedupe: trainAudit(id, 1), actor: spec.By, action: "open train", queueID: spec.QueueID, source: spec.Source,
		detail: fmt.Sprintf("%s: %d seats, departs at %s", spec.Name, spec.Seats, spec.DepartsAt.UTC().Format(time.RFC3339))})
}

// insertTrain inserts an OPEN train. fresh false: one of this queue and name is open.
func (t *tx) insertTrain(ctx context.Context, queueID int64, name string, scheduled bool, departs, closes time.Time, seats, confirmed int, nextSeq int64) (id int64, fresh bool, err error) {
	at := t.store.dialect.moment
	return t.insert(ctx, &keyOpenTrain, `INSERT INTO train
		(queue_id, name, status, scheduled, departs_at, closes_at, seats, capacity, confirmed_count, next_seq, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, {now}, {now})`,
		queueID, name, bot.TrainOpen, scheduled, at(departs), at(closes), seats, max(seats, confirmed), confirmed, nextSeq)
}

// requestHandled looks whether an API request was handled before, within the transaction that would handle it.
func (t *tx) requestHandled(ctx context.Context, r bot.APIRequest) (bool, error) {
	var operationID string
	return one(ctx, t, `SELECT operation_id FROM idempotency WHERE request_id = ?`, []any{r.ID}, &operationID)
}

// trainOfRequest answers an API request that was handled before with the train it made or changed, as that is now.
func (s *Store) trainOfRequest(ctx context.Context, r bot.APIRequest) (bot.TrainResult, error) {
	handled, ok, err := s.HandledRequest(ctx, r.ID)
	if err != nil || !ok {
		return bot.TrainResult{}, missing(err, "API request "+r.ID)
	}
	var id int64
	if _, err := fmt.Sscanf(handled.Resource, "/api/v1/trains/%d", &id); err != nil {
		return bot.TrainResult{}, fmt.Errorf("API request %s was about %s, which is no train", r.ID, handled.Resource)
	}
	return s.trainResult(ctx, bot.TrainResult{Outcome: bot.TrainDuplicate}, id)
}

func (s *Store) trainResult(ctx context.Context, result bot.TrainResult, id int64) (bot.TrainResult, error) {
	train, found, err := readTrain(ctx, s, id)
	if err != nil || !found {
		return bot.TrainResult{}, missing(err, fmt.Sprintf("train %d", id))
	}
	result.Train = train
	return result, nil
}

// ChangeTrain changes an OPEN train. More seats promote in order in the same transaction; fewer take nobody's seat away. What changes nothing
// writes nothing, and is TrainWritten all the same. A word of the repository file (FromFile) does not change a train that follows a person's: TrainThere.
func (s *Store) ChangeTrain(ctx context.Context, c bot.TrainChange) (bot.TrainResult, error) {
	name := fmt.Sprintf("change train %d", c.TrainID)
	timed := !c.DepartsAt.IsZero() || !c.ClosesAt.IsZero()
	if timed || c.Seats != nil {
		departs, closes, seats := c.DepartsAt, c.ClosesAt, 0
		if !timed {
			departs = time.Unix(0, 0)
			closes = departs
		}
		if c.Seats != nil {
			seats = *c.Seats
		}
		if err := checkTrain(seats, departs, closes); err != nil {
			return bot.TrainResult{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	var result bot.TrainResult
	var version int64
	var story string
	err := s.write(ctx, job{name: name, run: func(tx *tx) error {
		var err error
		if result, version, story, err = tx.changeTrain(ctx, c); err == nil && result.Outcome != bot.TrainWritten {
			return errRollback
		}
		return err
	}, landed: func(ctx context.Context) (bool, error) {
		return s.exists(ctx, `SELECT 1 FROM audit WHERE dedupe_key = ? AND actor = ? AND source = ? AND detail = ?`, trainAudit(c.TrainID, version),
			clip(c.By, 255), clip(c.Source, 255), story)
	}})
	if err != nil {
		return bot.TrainResult{}, err
	}
	if result.Outcome == bot.TrainDuplicate {
		return s.trainOfRequest(ctx, *c.Request)
	}
	return s.trainResult(ctx, result, c.TrainID)
}

// changeTrain returns with the outcome the version that the change gives the train, and the audit's words for it.
func (t *tx) changeTrain(ctx context.Context, c bot.TrainChange) (result bot.TrainResult, version int64, story string, err error) {
	as := func(outcome bot.TrainOutcome, err error) (bot.TrainResult, int64, string, error) {
		return bot.TrainResult{Outcome: outcome}, 0, "", err
	}
	if fresh, err := t.recordRequest(ctx, c.Request, "", trainResource(c.TrainID)); err != nil || !fresh {
		return as(bot.TrainDuplicate, err)
	}
	train, found, err := t.holdTrain(ctx, c.TrainID)
	switch {
	case err != nil || !found:
		return as(0, t.fail(missing(err, fmt.Sprintf("train %d", c.TrainID))))
	case train.Status != bot.TrainOpen:
		return as(bot.TrainOver, nil)
	case c.FromFile && !train.Scheduled:
		return as(bot.TrainThere, nil)
	}
	before := train.Train
	if c.Seats != nil {
		train.Seats = *c.Seats
	}
	if !c.DepartsAt.IsZero() {
		train.DepartsAt, train.ClosesAt = c.DepartsAt.UTC().Truncate(time.Microsecond), c.ClosesAt.UTC().Truncate(time.Microsecond)
	}
	train.Scheduled = train.Scheduled && c.FromFile
	story = fmt.Sprintf("%s: %d seats, departs at %s", train.Name, train.Seats, train.DepartsAt.Format(time.RFC3339))
	result.Outcome = bot.TrainWritten
	var changes []change
	switch {
	case c.Cancel:
		train.Status, story = bot.TrainCancelled, train.Name+": cancelled"
		var seats []bot.Seat
		if seats, err = liveSeats(ctx, t, train.ID); err == nil {
			changes, err = t.clear(ctx, &train, seats, bot.ReasonTrainOver, c.By)
		}
	case train.Seats == before.Seats && train.Scheduled == before.Scheduled && train.DepartsAt.Equal(before.DepartsAt) && train.ClosesAt.Equal(before.ClosesAt):
		return result, 0, "", nil
	default:
		result.Promoted, changes, err = t.fill(ctx, &train)
	}
	if err != nil {
		return as(0, err)
	}
	if err := t.saveTrain(ctx, &train); err != nil {
		return as(0, err)
	}
	if err := t.moveSeated(ctx, train, changes); err != nil {
		return as(0, err)
	}
	if err := t.audit(ctx, auditEntry{dedupe: trainAudit(train.ID, train.Version), actor: c.By, action: "change train", queueID: train.QueueID, source: c.Source, detail: story}); err != nil {
		return as(0, err)
	}
	if err := t.tell(ctx, changes); err != nil || train.Status != bot.TrainOpen || train.DepartsAt.Equal(before.DepartsAt) {
		return result, train.Version, story, err
	}
	return result, train.Version, story, t.tellSeated(ctx, train)
}

// tellSeated has the status comments of everybody on a train written anew: they name the departure.
func (t *tx) tellSeated(ctx context.Context, train heldTrain) error {
	var repositoryID int64
	if found, err := one(ctx, t, `SELECT repository_id FROM queue WHERE id = ?`, []any{train.QueueID}, &repositoryID); err != nil || !found {
		return t.fail(missing(err, fmt.Sprintf("queue %d", train.QueueID)))
	}
	seats, err := liveSeats(ctx, t, train.ID)
	if err != nil {
		return err
	}
	errands := make([]errand, 0, len(seats))
	for _, s := range seats {
		errands = append(errands, stickyErrand(repositoryID, s.MergeRequestID, s.Number))
	}
	return t.arm(ctx, errands...)
}
