package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// How many elements a list has: at most, and where nobody says.
const (
	mostListed  = 200
	usualListed = 50
)

// idOf reads a number in the path.
func idOf(q *request, name, of string) (int64, *problem) {
	text := q.PathValue(name)
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 || strconv.FormatInt(id, 10) != text {
		return 0, notFound.because(of + " has a number from 1 on")
	}
	return id, nil
}

// query reads the parameters of a list. Those that are not known are refused: a misspelled filter would list everything.
type query struct {
	queue int64
	flag  bool
	limit int
}

func queryOf(q *request, flag string) (query, *problem) {
	result := query{limit: usualListed}
	values, err := url.ParseQuery(q.URL.RawQuery)
	if err != nil {
		return result, malformed.because("the query cannot be read")
	}
	for name, given := range values {
		wrong := func(want string) (query, *problem) {
			return query{}, malformed.because("the parameter " + shown(name) + " " + want)
		}
		if len(given) != 1 {
			return wrong("is there more than once")
		}
		n, err := strconv.ParseInt(given[0], 10, 64)
		switch {
		case name == "limit":
			if err != nil || n < 1 || n > mostListed {
				return wrong(fmt.Sprintf("is not a number from 1 to %d", mostListed))
			}
			result.limit = int(n)
		case name == "queue" && flag != "":
			if err != nil || n < 1 {
				return wrong("is not the number of a queue: GET /api/v1/queues lists them")
			}
			result.queue = n
		case name == flag && flag != "":
			if given[0] != "true" && given[0] != "false" {
				return wrong("is neither true nor false")
			}
			result.flag = given[0] == "true"
		default:
			return wrong("is not known here")
		}
	}
	return result, nil
}

func (a *API) document(context.Context, *request) (answer, error) {
	return answer{status: http.StatusOK, text: a.Document, media: "application/yaml"}, nil
}

// list is what every list is answered with.
type list[T any] struct {
	Items []T `json:"items"`
}

func listed[T, U any](rows []T, limit int, show func(T) U) answer {
	l := list[U]{Items: make([]U, 0, len(rows))}
	for _, r := range rows[:min(len(rows), limit)] {
		l.Items = append(l.Items, show(r))
	}
	return answer{status: http.StatusOK, value: l}
}

func shows(value any) answer { return answer{status: http.StatusOK, value: value} }

func (a *API) listQueues(ctx context.Context, q *request) (answer, error) {
	filter, p := queryOf(q, "")
	if p != nil {
		return answer{}, p
	}
	queues, err := a.Store.ListQueues(ctx)
	return listed(queues, filter.limit, queueOf), err
}

func (a *API) readQueue(ctx context.Context, q *request) (answer, error) {
	id, p := idOf(q, "id", "a queue")
	if p != nil {
		return answer{}, p
	}
	queues, err := a.Store.ListQueues(ctx)
	if err != nil {
		return answer{}, err
	}
	for _, v := range queues {
		if v.Queue.ID == id {
			return shows(queueOf(v)), nil
		}
	}
	return answer{}, notFound.because(fmt.Sprintf("there is no queue %d: GET /api/v1/queues lists them", id))
}

func (a *API) listBatches(ctx context.Context, q *request) (answer, error) {
	filter, p := queryOf(q, "active")
	if p != nil {
		return answer{}, p
	}
	batches, err := a.Store.ListBatches(ctx, bot.BatchFilter{QueueID: filter.queue, Active: filter.flag, Limit: filter.limit})
	return listed(batches, filter.limit, func(b bot.BatchOverview) batch { return batchOf(b.Batch, b.QueueName()) }), err
}

func (a *API) readBatch(ctx context.Context, q *request) (answer, error) {
	id, p := idOf(q, "id", "a batch")
	if p != nil {
		return answer{}, p
	}
	view, err := a.Store.BatchView(ctx, id)
	if err != nil {
		return answer{}, err
	}
	b := batchOf(view.Batch, nameOf(view.Queue, view.Repository))
	b.Members = make([]member, 0, len(view.Members))
	for _, m := range view.Members {
		b.Members = append(b.Members, member{
			MR: m.Operation.Number, Operation: m.Operation.ID, HeadSHA: m.HeadSHA, Event: m.Event.String(), Reason: string(m.Reason), Detail: m.Detail,
			Status: m.Operation.Status.String(),
		})
	}
	return shows(b), nil
}

func (a *API) readOperation(ctx context.Context, q *request) (answer, error) {
	id := q.PathValue("id")
	if len(id) > 36 {
		return answer{}, notFound.because("an operation has a UUID")
	}
	view, err := a.Store.OperationView(ctx, id)
	if err != nil {
		return answer{}, err
	}
	_, repo, err := a.Store.ReadQueue(ctx, view.Operation.QueueID)
	if err != nil {
		return answer{}, err
	}
	return shows(operationOf(view, repo)), nil
}

func nameOf(q bot.Queue, r bot.Repository) string {
	return bot.QueueOverview{Queue: q, Repository: r}.Name()
}

// when shows a time; zero: none.
func when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

type queue struct {
	ID              int64  `json:"id"`
	Name            string `json:"name"`
	Target          string `json:"target"`
	State           string `json:"state"`
	Reason          string `json:"reason"`
	Waiting         int    `json:"waiting"`
	PendingApproval int    `json:"pending_approval"`
	Batch           *batch `json:"batch,omitempty"` // the active one
}

func queueOf(v bot.QueueOverview) queue {
	result := queue{
		ID: v.Queue.ID, Name: v.Name(), Target: v.Queue.Target, State: v.Queue.State.String(), Reason: v.Queue.Reason, Waiting: v.Waiting,
		PendingApproval: v.PendingApproval,
	}
	if v.Batch != nil {
		b := batchOf(*v.Batch, v.Name())
		result.Batch = &b
	}
	return result
}

type batch struct {
	ID        int64    `json:"id"`
	Queue     int64    `json:"queue"`
	QueueName string   `json:"queue_name"`
	Status    string   `json:"status"`
	Phase     string   `json:"phase"`
	Kind      string   `json:"kind"`
	Code      string   `json:"code"`
	Message   string   `json:"message"`
	Why       string   `json:"why"`
	MR        int      `json:"mr"`
	BaseSHA   string   `json:"base_sha"`
	HeadSHA   string   `json:"head_sha"`
	LandedSHA string   `json:"landed_sha"`
	Size      int      `json:"size"`
	CreatedAt string   `json:"created_at"`
	UpdatedAt string   `json:"updated_at"`
	Members   []member `json:"members,omitempty"`
}

func batchOf(b bot.Batch, queueName string) batch {
	return batch{
		ID: b.ID, Queue: b.QueueID, QueueName: queueName, Status: b.Status.String(), Phase: b.Phase.String(), Kind: b.Kind.String(), Code: string(b.Code),
		Message: b.Message, Why: b.Why, MR: b.MRNumber, BaseSHA: b.BaseSHA, HeadSHA: b.HeadSHA, LandedSHA: b.LandedSHA, Size: b.Size,
		CreatedAt: when(b.CreatedAt), UpdatedAt: when(b.UpdatedAt),
	}
}

type member struct {
	MR        int    `json:"mr"`
	Operation string `json:"operation"`
	Status    string `json:"status"`
	HeadSHA   string `json:"head_sha"`
	Event     string `json:"event"`
	Reason    string `json:"reason"`
	Detail    string `json:"detail"`
}

type operation struct {
	ID        string `json:"id"`
	Status    string `json:"status"`
	Reason    string `json:"reason"`
	Detail    string `json:"detail"`
	Queue     int64  `json:"queue"`
	QueueName string `json:"queue_name"`
	MR        int    `json:"mr"`
	Title     string `json:"title"`
	Author    string `json:"author"`
	Requester string `json:"requester"`
	HeadSHA   string `json:"head_sha"`
	Position  int    `json:"position"`
	CreatedAt string `json:"created_at"`
	Batch     *batch `json:"batch,omitempty"`
	Seat      *seat  `json:"seat,omitempty"`
}

func operationOf(v bot.OperationView, repo bot.Repository) operation {
	op, name := v.Operation, nameOf(v.Queue, repo)
	result := operation{
		ID: op.ID, Status: op.Status.String(), Reason: string(op.Reason), Detail: op.Detail, Queue: op.QueueID, QueueName: name, MR: op.Number, Title: op.Title,
		Author: op.Author.Login, Requester: op.Requester, HeadSHA: op.HeadSHA, Position: v.Position, CreatedAt: when(op.CreatedAt),
	}
	if v.Batch != nil {
		b := batchOf(*v.Batch, name)
		result.Batch = &b
	}
	if v.Seat != nil {
		s := seatOf(v.Seat.Seat)
		result.Seat = &s
	}
	return result
}
