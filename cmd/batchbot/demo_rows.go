package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/fakehost"
)

// demoRows reads the bot's database beside the bot, as an operator with a SQL shell would.
type demoRows struct{ db *sql.DB }

func openDemoRows(path string) (*demoRows, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	pragmas := url.Values{"_pragma": {"busy_timeout(5000)", "query_only(1)"}}
	// The store registers the driver.
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: absolute}).EscapedPath()+"?"+pragmas.Encode())
	if err != nil {
		return nil, fmt.Errorf("opening %s to look at it: %w", path, err)
	}
	return &demoRows{db}, nil
}

func (r *demoRows) close() { _ = r.db.Close() }

// snapshot is what the host and the rows say at one moment.
type snapshot struct {
	operations []demoOperation // by number
	batches    []demoBatch     // by id
	unsaid     int             // errands still to do
	unheard    int             // deliveries still to apply
	looked     bool            // the bot has looked at the repository
	seats      []demoSeat      // by train, in the order of joining
	promoted   []int           // moved up from a line
	sets       []demoSet       // curated batches, by id
	mrs        []fakehost.MR
	ci         []fakehost.CIRun
}

type demoOperation struct {
	Number int
	Status bot.OperationStatus
	Reason bot.Reason
	Detail string
}

// demoSeat is a row of train_seat with its train's state.
type demoSeat struct {
	Train       int64
	TrainStatus bot.TrainStatus
	Number      int
	Status      bot.SeatStatus
	Approved    bool
	Seq         int64
}

// demoSet is a curated batch with its rows, drafted or committed.
type demoSet struct {
	ID      int64
	Status  bot.CuratedStatus
	Numbers []int
}

type demoBatch struct {
	bot.Batch
	Members []demoMember // in the order of their history
}

type demoMember struct {
	Number int
	Event  bot.MemberEvent
	Reason bot.Reason
	Detail string
}

// riding lists the members that did not leave, in batch order.
func (b demoBatch) riding() []int {
	numbers := []int{}
	for _, m := range b.Members {
		switch m.Event {
		case bot.MemberClaimed:
			numbers = append(numbers, m.Number)
		case bot.MemberEvicted, bot.MemberReturned, bot.MemberFailed:
			numbers = slices.DeleteFunc(numbers, func(n int) bool { return n == m.Number })
		}
	}
	return numbers
}

// tested lists the members of a batch that is over when it ended: those that rode on, and those it gave back or failed.
func (b demoBatch) tested() []int {
	numbers := []int{}
	for _, m := range b.Members {
		switch m.Event {
		case bot.MemberClaimed:
			numbers = append(numbers, m.Number)
		case bot.MemberEvicted:
			numbers = slices.DeleteFunc(numbers, func(n int) bool { return n == m.Number })
		}
	}
	return numbers
}

// left lists the members that were claimed and left before the batch ended.
func (b demoBatch) left() []int {
	tested, numbers := b.tested(), []int{}
	for _, m := range b.Members {
		if m.Event == bot.MemberClaimed && !slices.Contains(tested, m.Number) {
			numbers = append(numbers, m.Number)
		}
	}
	return numbers
}

func (r *demoRows) read(ctx context.Context) (n snapshot, err error) {
	read := func(query string, row func(scan func(...any) error) error) {
		if err != nil {
			return
		}
		var rows *sql.Rows
		if rows, err = r.db.QueryContext(ctx, query); err != nil {
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
	read(`SELECT m.number, o.status, o.reason, o.detail FROM binding b JOIN operation o ON o.operation_id = b.operation_id
		JOIN merge_request m ON m.id = o.merge_request_id ORDER BY m.number`, func(scan func(...any) error) error {
		var o demoOperation
		err := scan(&o.Number, &o.Status, &o.Reason, &o.Detail)
		n.operations = append(n.operations, o)
		return err
	})
	read(`SELECT id, kind, status, phase, build, base_sha, head_sha, landed_sha, landed_differs, mr_number, code, message, ci_conclusion, size
		FROM merge_batch ORDER BY id`, func(scan func(...any) error) error {
		var b demoBatch
		err := scan(&b.ID, &b.Kind, &b.Status, &b.Phase, &b.Build, &b.BaseSHA, &b.HeadSHA, &b.LandedSHA, &b.LandedDiffers, &b.MRNumber,
			&b.Code, &b.Message, &b.CIConclusion, &b.Size)
		n.batches = append(n.batches, b)
		return err
	})
	read(`SELECT h.batch_id, m.number, h.event, h.reason, h.detail FROM merge_batch_member h JOIN operation o ON o.operation_id = h.operation_id
		JOIN merge_request m ON m.id = o.merge_request_id ORDER BY h.batch_id, h.id`, func(scan func(...any) error) error {
		var id int64
		var m demoMember
		err := scan(&id, &m.Number, &m.Event, &m.Reason, &m.Detail)
		for i := range n.batches {
			if n.batches[i].ID == id {
				n.batches[i].Members = append(n.batches[i].Members, m)
			}
		}
		return err
	})
	read(`SELECT t.id, t.status, m.number, s.status, s.approved, s.queue_seq FROM train_seat s JOIN train t ON t.id = s.train_id
		JOIN merge_request m ON m.id = s.subject_id ORDER BY t.id, s.queue_seq`, func(scan func(...any) error) error {
		var s demoSeat
		err := scan(&s.Train, &s.TrainStatus, &s.Number, &s.Status, &s.Approved, &s.Seq)
		n.seats = append(n.seats, s)
		return err
	})
	read(fmt.Sprintf(`SELECT m.number FROM binding_history h JOIN binding b ON b.id = h.binding_id JOIN merge_request m ON m.id = b.subject_id
		WHERE h.reason = '%s' ORDER BY h.id`, bot.ReasonPromoted), func(scan func(...any) error) error {
		var number int
		err := scan(&number)
		n.promoted = append(n.promoted, number)
		return err
	})
	read(`SELECT a.id, a.status, r.number FROM approval_request a JOIN (SELECT approval_request_id, row_no, number FROM draft_row
		UNION SELECT approval_request_id, row_no, number FROM curated_row) r ON r.approval_request_id = a.id ORDER BY a.id, r.row_no`, func(scan func(...any) error) error {
		var s demoSet
		var number int
		err := scan(&s.ID, &s.Status, &number)
		if last := len(n.sets) - 1; last < 0 || n.sets[last].ID != s.ID {
			n.sets = append(n.sets, s)
		}
		n.sets[len(n.sets)-1].Numbers = append(n.sets[len(n.sets)-1].Numbers, number)
		return err
	})
	// A landed member that the host does not mark as merged is closed after a while. This host marks them at once: nothing to wait for.
	read(fmt.Sprintf(`SELECT (SELECT COUNT(*) FROM outbox WHERE status = 1 AND kind <> %d), (SELECT COUNT(*) FROM delivery WHERE status = 1)`,
		bot.ErrandCloseMember), func(scan func(...any) error) error {
		return scan(&n.unsaid, &n.unheard)
	})
	read(`SELECT COUNT(*) FROM repository WHERE comments_seen_at > 0`, func(scan func(...any) error) error {
		var looks int
		err := scan(&looks)
		n.looked = looks > 0
		return err
	})
	return n, err
}

func (n snapshot) operation(number int) demoOperation {
	for _, o := range n.operations {
		if o.Number == number {
			return o
		}
	}
	return demoOperation{Number: number}
}

func (n snapshot) status(number int) bot.OperationStatus { return n.operation(number).Status }

// state is the host's word on a merge request.
func (n snapshot) state(number int) string {
	for _, m := range n.mrs {
		if m.Number == number {
			return m.State
		}
	}
	return ""
}

// settled reports whether the story is over: nothing is on its way, nothing left to hear or to say.
func (n snapshot) settled() bool {
	for i, c := range demoChanges {
		want, state := bot.OperationPendingApproval, "open"
		switch c.fate {
		case fateLands:
			want, state = bot.OperationMerged, "merged"
		case fateConflicts, fateBreaks:
			want = bot.OperationFailed
		}
		if n.status(i+1) != want || n.state(i+1) != state {
			return false
		}
	}
	return n.quiet()
}

// quiet reports whether no batch is on its way and nothing left to hear or to say.
func (n snapshot) quiet() bool {
	for _, b := range n.batches {
		if b.Status.Active() {
			return false
		}
	}
	return n.unsaid == 0 && n.unheard == 0
}

// seat finds the seat of a merge request on the newest train it joined.
func (n snapshot) seat(number int) (found demoSeat, ok bool) {
	for _, s := range n.seats {
		if s.Number == number {
			found, ok = s, true
		}
	}
	return found, ok
}

// summary says where everything stands, in one line.
func (n snapshot) summary() string {
	var words []string
	for _, o := range n.operations {
		words = append(words, fmt.Sprintf("#%d %s", o.Number, o.Status))
	}
	for _, b := range n.batches {
		words = append(words, fmt.Sprintf("batch %d %s/%s %s", b.ID, b.Status, b.Phase, b.Message))
	}
	return fmt.Sprintf("%s; %d to say, %d to hear", strings.Join(words, ", "), n.unsaid, n.unheard)
}
