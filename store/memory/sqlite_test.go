package memory

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/intake"
	"github.com/batchbot/batchbot/bot/job"
	"github.com/batchbot/batchbot/bot/outbox"
	"github.com/batchbot/batchbot/bot/round"
	"github.com/batchbot/batchbot/store"
)

// ports is all that is asked of a store.
type ports interface {
	round.Store
	intake.Inbox
	intake.Records
	job.Records
	outbox.Store
	RevisitBatch(ctx context.Context, batchID int64) error
	PauseQueue(ctx context.Context, queueID int64, by, reason string) (bool, error)
	ResumeQueue(ctx context.Context, queueID int64, by string) (bool, error)
}

var (
	_ ports = (*Store)(nil)
	_ ports = (*store.Store)(nil)
)

// The same calls have the same answers here and on SQLite, and leave the same rows: every column of every table, after every call. The
// bubble's clock is the clock of both.
func TestSQLiteSaysTheSame(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "batchbot.db")
			synctest.Test(t, func(t *testing.T) {
				real, err := store.Open(t.Context(), store.Options{Driver: store.SQLite, Path: path})
				if err != nil {
					t.Fatal(err)
				}
				defer real.Close()
				if err := real.Migrate(t.Context()); err != nil {
					t.Fatal(err)
				}
				rows, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
				if err != nil {
					t.Fatal(err)
				}
				defer rows.Close()
				db := New()
				p := &pair{t: t, rng: rand.New(rand.NewPCG(seed, 1)), real: real, here: db.Open(nil), db: db, rows: rows}
				for range 160 {
					p.step()
				}
				if p.changed < 60 {
					t.Errorf("only %d of the calls changed anything", p.changed)
				}
			})
		})
	}
}

// pair is both stores, and what was read from them so far, to make calls of that are not all stale.
type pair struct {
	t    *testing.T
	rng  *rand.Rand
	real *store.Store
	here *Store
	db   *Database
	rows *sql.DB

	story      []string
	changed    int
	repos      []bot.Repository
	queues     []bot.Queue
	operations []bot.Operation
	batches    []bot.Batch
	members    map[int64][]bot.Operation
	deliveries []bot.Delivery
	errands    []bot.Errand
	n          int
}

// both makes one call on both stores, compares the answers and then the rows, and returns the answer.
func both[A any](p *pair, name string, call func(s ports) (A, error)) (A, bool) {
	p.t.Helper()
	before := p.db.dump()
	want, wantErr := call(p.real)
	got, err := call(p.here)
	p.story = append(p.story, fmt.Sprintf("%s: %.60v %v", name, want, wantErr))
	if (err == nil) != (wantErr == nil) {
		p.fail("%s: error %v, SQLite says %v", name, err, wantErr)
	}
	if err == nil && !reflect.DeepEqual(got, want) {
		p.fail("%s: answer\n%+v\nSQLite says\n%+v", name, got, want)
	}
	after := p.db.dump()
	if !reflect.DeepEqual(before, after) {
		p.changed++
	}
	for table, lines := range p.sqlite() {
		if !slices.Equal(lines, after[table]) {
			p.fail("%s: table %s is\n%s\nSQLite has\n%s", name, table, difference(after[table], lines), difference(lines, after[table]))
		}
	}
	return want, err == nil
}

func (p *pair) fail(format string, args ...any) {
	p.t.Helper()
	p.t.Fatalf("%s\nafter %d calls, the last:\n%s", fmt.Sprintf(format, args...), len(p.story), strings.Join(p.story[max(0, len(p.story)-8):], "\n"))
}

// difference lists the lines of a that are not in b.
func difference(a, b []string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(a), func(line string) bool { return slices.Contains(b, line) }), "\n")
}

func (p *pair) sqlite() map[string][]string {
	p.t.Helper()
	out := make(map[string][]string)
	for _, table := range []string{
		"repository", "queue", "merge_request", "operation", "binding", "binding_history", "merge_batch_request", "merge_batch",
		"merge_batch_member", "audit", "idempotency", "delivery", "outbox",
	} {
		out[table] = p.lines(table)
	}
	return out
}

// lines reads a table of SQLite, without the generated column.
func (p *pair) lines(table string) (lines []string) {
	p.t.Helper()
	must := func(err error) {
		p.t.Helper()
		if err != nil {
			p.t.Fatal(err)
		}
	}
	rows, err := p.rows.QueryContext(p.t.Context(), `SELECT * FROM `+table)
	must(err)
	defer rows.Close()
	columns, err := rows.Columns()
	must(err)
	for rows.Next() {
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new(any)
		}
		must(rows.Scan(values...))
		var texts []string
		for i, v := range values {
			if columns[i] == "active_slot" {
				continue
			}
			switch v := (*v.(*any)).(type) {
			case nil:
				texts = append(texts, "NULL")
			case []byte:
				texts = append(texts, string(v))
			default:
				texts = append(texts, fmt.Sprint(v))
			}
		}
		lines = append(lines, strings.Join(texts, " | "))
	}
	must(rows.Err())
	slices.Sort(lines)
	return lines
}

func pick[T any](p *pair, from []T) (T, bool) {
	var none T
	if len(from) == 0 {
		return none, false
	}
	return from[p.rng.IntN(len(from))], true
}

func (p *pair) sha() string { return fmt.Sprintf("%040x", p.rng.IntN(12)+1) }

func (p *pair) text() string {
	texts := []string{"", "a word", "a, b", strings.Repeat("long ", 450)}
	return texts[p.rng.IntN(len(texts))]
}

func (p *pair) command() bot.CommandRef {
	id := int64(p.n + 1)
	if p.rng.IntN(6) == 0 {
		id = int64(p.rng.IntN(p.n + 1)) // an older one again
	}
	return bot.CommandRef{
		RequestID: fmt.Sprintf("hub:issue:%d:1", id), Order: bot.CommandOrder{At: id * 10, ID: id}, By: "ada", Verb: "apply", Source: "delivery",
	}
}

// step makes one call of a random kind.
func (p *pair) step() {
	p.n++
	if p.rng.IntN(4) > 0 {
		time.Sleep(time.Duration(p.rng.IntN(90)) * time.Second)
	}
	if p.rng.IntN(60) == 0 {
		time.Sleep(8 * 24 * time.Hour)
	}
	ctx := p.t.Context()
	if len(p.queues) == 0 {
		repo, _ := both(p, "UpsertRepository", func(s ports) (bot.Repository, error) {
			return s.UpsertRepository(ctx, bot.RepositoryRef{Host: "hub", ExternalID: 7, Path: "acme/app", Installation: 1, DefaultBranch: "main"})
		})
		p.repos = []bot.Repository{repo}
		for _, branch := range []string{"main", "release"} {
			queue, _ := both(p, "UpsertQueue", func(s ports) (bot.Queue, error) {
				return s.UpsertQueue(ctx, repo.ID, bot.DefaultQueueSettings(branch), "")
			})
			p.queues = append(p.queues, queue)
		}
		return
	}
	queue := p.queues[p.rng.IntN(len(p.queues))]
	switch p.rng.IntN(24) {
	case 0, 1, 2, 3:
		p.apply(ctx, queue)
	case 4, 5:
		p.claim(ctx, queue)
	case 6, 7:
		p.read(ctx, queue)
	case 8, 9, 10:
		p.move(ctx)
	case 11, 12:
		p.recordBuild(ctx)
	case 13, 14:
		p.changeBatch(ctx)
	case 15, 16:
		p.settle(ctx)
	case 17:
		p.answer(ctx, queue)
	case 18, 19:
		p.deliver(ctx)
	case 20, 21:
		p.send(ctx)
	case 22:
		p.operate(ctx, queue)
	default:
		p.look(ctx, queue)
	}
}

func (p *pair) apply(ctx context.Context, queue bot.Queue) {
	a := bot.Application{
		OperationID: fmt.Sprintf("00000000-0000-4000-8000-%012d", p.n), QueueID: queue.ID, Repository: p.repos[0], Admit: p.rng.IntN(3) > 0,
		Detail: p.text(), Lane: bot.Lane(p.rng.IntN(4)), ExpiresIn: time.Duration(p.rng.IntN(3)) * 24 * time.Hour, Command: p.command(),
		MR: bot.MRSnapshot{
			Number: p.rng.IntN(9) + 1, Title: p.text(), Author: bot.Actor{ID: 5, Login: "ada"}, State: bot.MROpen, HeadSHA: p.sha(), Target: queue.Target,
		},
	}
	result, ok := both(p, "Apply", func(s ports) (bot.ApplyResult, error) { return s.Apply(ctx, a) })
	if ok && result.Operation.ID != "" {
		p.operations = append(p.operations, result.Operation)
	}
}

func (p *pair) claim(ctx context.Context, queue bot.Queue) {
	spec := bot.ClaimSpec{QueueID: queue.ID, Kind: bot.BatchFresh, Limit: p.rng.IntN(5) + 1, Token: fmt.Sprintf("%08x", p.n), Why: p.text(), Timeout: time.Hour}
	if b, ok := pick(p, p.batches); ok && p.rng.IntN(2) == 0 {
		spec.Kind, spec.Cohort = bot.BatchProbe, b.ID
	}
	result, _ := both(p, "Claim", func(s ports) (bot.ClaimResult, error) { return s.Claim(ctx, spec) })
	if result.Outcome == bot.ClaimDone {
		p.saw(result.Batch, result.Members)
	}
}

// saw keeps a batch as it was read.
func (p *pair) saw(b bot.Batch, members []bot.Operation) {
	p.batches = append(p.batches, b)
	if p.members == nil {
		p.members = make(map[int64][]bot.Operation)
	}
	if members != nil {
		p.members[b.ID] = members
		p.operations = append(p.operations, members...)
	}
}

// recent is rather one of the last things read than an old one.
func recent[T any](p *pair, from []T) (T, bool) {
	if len(from) > 3 && p.rng.IntN(4) > 0 {
		from = from[len(from)-3:]
	}
	return pick(p, from)
}

type active struct {
	Batch   bot.Batch
	Members []bot.Operation
	OK      bool
}

func (p *pair) read(ctx context.Context, queue bot.Queue) {
	found, _ := both(p, "ActiveBatch", func(s ports) (active, error) {
		b, members, ok, err := s.ActiveBatch(ctx, queue.ID)
		return active{b, members, ok}, err
	})
	if found.OK {
		p.saw(found.Batch, found.Members)
	}
	operations, _ := both(p, "FollowedOperations", func(s ports) ([]bot.Operation, error) { return s.FollowedOperations(ctx, p.repos[0].ID) })
	p.operations = append(p.operations, operations...)
}

func (p *pair) move(ctx context.Context) {
	op, ok := recent(p, p.operations)
	if !ok {
		return
	}
	m := bot.Move{
		OperationID: op.ID, From: op.Status, Version: op.Version, To: bot.OperationStatus(p.rng.IntN(9) + 1), Reason: bot.ReasonHeadMoved,
		Detail: p.text(), Notify: p.rng.IntN(2) == 0, By: "ada", Source: "look",
	}
	if p.rng.IntN(2) == 0 {
		m.HeadSHA = p.sha()
	}
	if p.rng.IntN(4) == 0 {
		c := p.command()
		m.Command = &c
	}
	if b, ok := recent(p, p.batches); ok && op.Status == bot.OperationBatched {
		g := b.Guard()
		m.Batch = &g
	}
	both(p, "Move", func(s ports) (bot.MoveResult, error) { return s.Move(ctx, m) })
}

func (p *pair) outcomes(b bot.Batch, all bool) []bot.MemberOutcome {
	var out []bot.MemberOutcome
	to := []bot.OperationStatus{bot.OperationMerged, bot.OperationWaiting, bot.OperationFailed, bot.OperationPendingApproval, bot.OperationClosed}
	for _, op := range p.members[b.ID] {
		if all || p.rng.IntN(4) == 0 {
			out = append(out, bot.MemberOutcome{
				OperationID: op.ID, To: to[p.rng.IntN(len(to))], Reason: bot.ReasonConflict, Detail: p.text(), Notify: p.rng.IntN(2) == 0,
				Cohort: int64(p.rng.IntN(2)) * b.ID, HeadSHA: []string{"", p.sha()}[p.rng.IntN(2)],
			})
		}
	}
	return out
}

type answered struct {
	Batch bot.Batch
	OK    bool
}

func (p *pair) recordBuild(ctx context.Context) {
	b, ok := recent(p, p.batches)
	if !ok {
		return
	}
	record := bot.BuildRecord{Result: bot.BuildResult{BaseSHA: p.sha(), HeadSHA: p.sha()}, Timeout: time.Hour, Moves: p.outcomes(b, false)}
	for _, op := range p.members[b.ID] {
		record.Result.Members = append(record.Result.Members, bot.MemberBuild{
			BuildMember: bot.BuildMember{OperationID: op.ID, Number: op.Number, HeadSHA: op.HeadSHA}, Fate: bot.MemberFate(p.rng.IntN(3) + 1),
		})
	}
	got, _ := both(p, "RecordBuild", func(s ports) (answered, error) {
		b, ok, err := s.RecordBuild(ctx, b.Guard(), record)
		return answered{b, ok}, err
	})
	if got.OK {
		p.saw(got.Batch, nil)
	}
	both(p, "RecordedHeads", func(s ports) ([]string, error) { return s.RecordedHeads(ctx, b.ID) })
}

func (p *pair) changeBatch(ctx context.Context) {
	b, ok := recent(p, p.batches)
	if !ok {
		return
	}
	c := bot.BatchChange{
		Status: []bot.BatchStatus{0, 0, 0, bot.BatchRunning, bot.BatchBlocked, bot.BatchFailed}[p.rng.IntN(6)], Phase: bot.BatchPhase(p.rng.IntN(5)),
		MRNumber: p.rng.IntN(2) * (100 + p.n), Code: []bot.Code{"", bot.CodeManual}[p.rng.IntN(2)], Message: p.text(), Refusals: p.rng.IntN(3),
		By: []string{"", "ops"}[p.rng.IntN(2)], Restored: p.rng.IntN(3) == 0,
		CIConclusion: "success", ExtendBy: time.Duration(p.rng.IntN(2)) * time.Hour,
	}
	got, _ := both(p, "ChangeBatch", func(s ports) (answered, error) {
		b, ok, err := s.ChangeBatch(ctx, b.Guard(), c)
		return answered{b, ok}, err
	})
	if got.OK {
		p.saw(got.Batch, nil)
	}
	fingerprint := p.sha()[38:]
	both(p, "ObserveChecks", func(s ports) (time.Duration, error) { return s.ObserveChecks(ctx, b.ID, fingerprint) })
}

func (p *pair) settle(ctx context.Context) {
	b, ok := recent(p, p.batches)
	if !ok {
		return
	}
	s := bot.Settlement{
		Guard: b.Guard(), Status: []bot.BatchStatus{bot.BatchSucceeded, bot.BatchFailed, bot.BatchBlocked}[p.rng.IntN(3)], Code: bot.CodeCIRed, Message: p.text(),
		LandedSHA: p.sha(), LandedDiffers: p.rng.IntN(2) == 0, Members: p.outcomes(b, p.rng.IntN(8) > 0), FreeCohort: b.Cohort * int64(p.rng.IntN(2)),
		ParkQueue: []string{"", "CODE: reason"}[p.rng.IntN(2)], DeleteBranch: p.rng.IntN(2) == 0,
		CloseMR: p.rng.IntN(3) == 0, By: []string{"", "ops"}[p.rng.IntN(2)],
	}
	both(p, "Settle", func(on ports) (bool, error) { return on.Settle(ctx, s) })
	both(p, "RevisitBatch", func(on ports) (int, error) { return 0, on.RevisitBatch(ctx, b.ID) })
	var riders []string
	for _, op := range p.members[b.ID] {
		if p.rng.IntN(3) == 0 {
			riders = append(riders, op.ID)
		}
	}
	both(p, "LandedLate", func(on ports) (bool, error) { return on.LandedLate(ctx, b.ID, s.LandedSHA, riders) })
}

func (p *pair) answer(ctx context.Context, queue bot.Queue) {
	a := bot.Answer{
		Command: p.command(), TakesTurn: p.rng.IntN(2) == 0, Repository: p.repos[0], Number: p.rng.IntN(12) + 1, Reply: p.text(),
		Comment: bot.Comment{Kind: bot.CommentIssue, ID: int64(p.n), Number: 3}, Reaction: []bot.Reaction{"", bot.ReactionSeen}[p.rng.IntN(2)],
	}
	both(p, "Answer", func(s ports) (bool, error) { return s.Answer(ctx, a) })
	known, why := p.command().RequestID, p.text()
	both(p, "Handled", func(s ports) (bool, error) { return s.Handled(ctx, known) })
	both(p, "Acknowledge", func(s ports) (int, error) { return 0, s.Acknowledge(ctx, p.repos[0], a.Comment, bot.ReactionDone) })
	both(p, "ParkQueue", func(s ports) (int, error) { return 0, s.ParkQueue(ctx, queue.ID, why) })
}

func (p *pair) deliver(ctx context.Context) {
	key, payload, limit := fmt.Sprint("delivery-", p.rng.IntN(p.n)), []byte(p.sha()), p.rng.IntN(3)+1
	both(p, "InsertDelivery", func(s ports) (bool, error) { return s.InsertDelivery(ctx, "hub", key, "push", payload) })
	taken, _ := both(p, "ClaimDeliveries", func(s ports) ([]bot.Delivery, error) { return s.ClaimDeliveries(ctx, limit, time.Minute) })
	p.deliveries = append(p.deliveries, taken...)
	if d, ok := recent(p, p.deliveries); ok {
		outcome := bot.DeliveryOutcome{Status: bot.DeliveryStatus(p.rng.IntN(4) + 1), Error: p.text(), RetryIn: time.Duration(p.rng.IntN(20)) * time.Second}
		both(p, "FinishDelivery", func(s ports) (bool, error) { return s.FinishDelivery(ctx, d.ID, d.Attempts, outcome) })
	}
}

func (p *pair) send(ctx context.Context) {
	taken, _ := both(p, "ClaimErrands", func(s ports) ([]bot.Errand, error) { return s.ClaimErrands(ctx, 6, 2*time.Minute) })
	p.errands = append(p.errands, taken...)
	for range 3 {
		e, ok := recent(p, p.errands)
		switch {
		case !ok:
		case p.rng.IntN(3) > 0:
			both(p, "FinishErrand", func(s ports) (int, error) { return 0, s.FinishErrand(ctx, e) })
		default:
			d := time.Duration(p.rng.IntN(3)) * time.Minute
			both(p, "PostponeErrand", func(s ports) (int, error) { return 0, s.PostponeErrand(ctx, e, d, "a reason") })
		}
	}
}

func (p *pair) operate(ctx context.Context, queue bot.Queue) {
	switch p.rng.IntN(6) {
	case 0:
		why := p.text()
		both(p, "PauseQueue", func(s ports) (bool, error) { return s.PauseQueue(ctx, queue.ID, "ops", why) })
	case 1, 2:
		both(p, "ResumeQueue", func(s ports) (bool, error) { return s.ResumeQueue(ctx, queue.ID, "ops") })
	case 3:
		settings := bot.DefaultQueueSettings(queue.Target)
		settings.MaxBatchSize = p.rng.IntN(3) + 1
		blob := p.sha()
		both(p, "UpsertQueue", func(s ports) (bot.Queue, error) { return s.UpsertQueue(ctx, p.repos[0].ID, settings, blob) })
	case 4:
		both(p, "DeactivateRepositories", func(s ports) (int, error) {
			return 0, s.DeactivateRepositories(ctx, "hub", 1, []int64{7}, "gone")
		})
		p.find(ctx)
		ref := p.repos[0].RepositoryRef
		both(p, "UpsertRepository", func(s ports) (bot.Repository, error) { return s.UpsertRepository(ctx, ref) })
	default:
		both(p, "SaveWatermark", func(s ports) (int, error) { return 0, s.SaveWatermark(ctx, p.repos[0].ID, time.Now().Add(-time.Hour)) })
		both(p, "ExpireOperations", func(s ports) (int, error) { return s.ExpireOperations(ctx, 3) })
		both(p, "PurgeOld", func(s ports) (int, error) { return 0, s.PurgeOld(ctx) })
	}
}

func (p *pair) find(ctx context.Context) {
	type found struct {
		Repo bot.Repository
		OK   bool
	}
	both(p, "FindRepository", func(s ports) (found, error) {
		r, ok, err := s.FindRepository(ctx, "hub", 7)
		return found{r, ok}, err
	})
	both(p, "ActiveRepositories", func(s ports) ([]bot.Repository, error) { return s.ActiveRepositories(ctx, "hub") })
}

// look makes every call that only reads.
func (p *pair) look(ctx context.Context, queue bot.Queue) {
	type readQueue struct {
		Queue bot.Queue
		Repo  bot.Repository
		OK    bool
	}
	p.find(ctx)
	both(p, "ReadQueue", func(s ports) (readQueue, error) {
		q, r, err := s.ReadQueue(ctx, queue.ID)
		return readQueue{q, r, true}, err
	})
	both(p, "FindQueue", func(s ports) (readQueue, error) {
		q, ok, err := s.FindQueue(ctx, p.repos[0].ID, queue.Target)
		return readQueue{Queue: q, OK: ok}, err
	})
	both(p, "QueuesWithWork", func(s ports) ([]int64, error) { return s.QueuesWithWork(ctx) })
	both(p, "Waiting", func(s ports) (bot.WaitingSet, error) { return s.Waiting(ctx, queue.ID) })
	sha := []string{"", p.sha()}[p.rng.IntN(2)]
	both(p, "QueuesWatching", func(s ports) ([]int64, error) { return s.QueuesWatching(ctx, p.repos[0].ID, sha) })
	number := p.rng.IntN(10) + 1
	both(p, "CurrentOperations", func(s ports) ([]bot.OperationView, error) { return s.CurrentOperations(ctx, p.repos[0].ID, number) })
	both(p, "StickyView", func(s ports) (bot.StickyView, error) { return s.StickyView(ctx, int64(number)) })
	both(p, "SaveSticky", func(s ports) (int, error) { return 0, s.SaveSticky(ctx, int64(number), int64(p.n)) })
	both(p, "HistoryEntry", func(s ports) (bot.HistoryEntry, error) { return s.HistoryEntry(ctx, int64(number)*3) })
	if op, ok := recent(p, p.operations); ok {
		both(p, "OperationView", func(s ports) (bot.OperationView, error) { return s.OperationView(ctx, op.ID) })
	}
	if b, ok := recent(p, p.batches); ok {
		both(p, "BatchView", func(s ports) (bot.BatchView, error) { return s.BatchView(ctx, b.ID) })
		both(p, "BatchMR", func(s ports) (answered, error) {
			b, ok, err := s.BatchMR(ctx, p.repos[0].ID, b.MRNumber)
			return answered{b, ok}, err
		})
	}
}
