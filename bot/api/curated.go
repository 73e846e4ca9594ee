package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/curated"
)

type set struct {
	ID        int64  `json:"id"`
	Queue     int64  `json:"queue"`
	QueueName string `json:"queue_name"`
	MR        int    `json:"mr"` // it was drafted on; 0: through the API
	Status    string `json:"status"`
	Version   int64  `json:"version"`
	Drafter   string `json:"drafter"`
	Decider   string `json:"decider"`
	Reason    string `json:"reason"`
	Committed bool   `json:"committed"`
	Rows      []row  `json:"rows"`
	CreatedAt string `json:"created_at"`
	UpdatedAt string `json:"updated_at"`
}

type row struct {
	RowNo     int    `json:"row_no"`
	MR        int    `json:"mr"`
	HeadSHA   string `json:"head_sha,omitempty"`
	Operation string `json:"operation,omitempty"`
}

func setOf(v bot.CuratedView) set {
	c := v.Curated
	s := set{
		ID: c.ID, Queue: c.QueueID, QueueName: nameOf(v.Queue, v.Repository), MR: c.Number, Status: c.Status.String(), Version: c.Version, Drafter: c.Drafter,
		Decider: c.Decider, Reason: c.Reason, Committed: c.Committed, Rows: make([]row, 0, len(c.Rows)), CreatedAt: when(c.CreatedAt), UpdatedAt: when(c.UpdatedAt),
	}
	for _, r := range c.Rows {
		s.Rows = append(s.Rows, row{RowNo: r.RowNo, MR: r.Number, HeadSHA: r.HeadSHA, Operation: r.OperationID})
	}
	return s
}

func curatedPath(id int64) string { return fmt.Sprintf("/api/v1/curated/%d", id) }

func showSet(v bot.CuratedView, status int) answer {
	ans := answer{status: status, value: setOf(v), version: v.Curated.Version}
	if status == http.StatusCreated {
		ans.location = curatedPath(v.Curated.ID)
	}
	return ans
}

func (a *API) listCurated(ctx context.Context, q *request) (answer, error) {
	filter, p := queryOf(q, "live")
	if p != nil {
		return answer{}, p
	}
	sets, err := a.Desk.List(ctx, bot.CuratedFilter{QueueID: filter.queue, Live: filter.flag, Limit: filter.limit})
	return listed(sets, filter.limit, setOf), err
}

func (a *API) readCurated(ctx context.Context, q *request) (answer, error) {
	id, p := idOf(q, "id", "a curated batch")
	if p != nil {
		return answer{}, p
	}
	return a.setNow(ctx, id, http.StatusOK)
}

// setNow shows a set as it is now.
func (a *API) setNow(ctx context.Context, id int64, status int) (answer, error) {
	view, ok, err := a.Desk.Read(ctx, id)
	if err != nil {
		return answer{}, err
	}
	if !ok {
		return answer{}, notFound.because(fmt.Sprintf("there is no curated batch %d", id))
	}
	return showSet(view, status), nil
}

// asker is who asks at the desk. The role of a token stands for write access.
func (q *request) asker(name *bot.APIRequest, given bool) curated.Asker {
	return curated.Asker{Name: q.actor(), May: q.token.Role.includes(RoleWrite), Source: name.ID, Request: remembered(name, given)}
}

// expectedVersion reads If-Match: the version the client saw; 0: whatever it is.
func expectedVersion(q *request) (int64, *problem) {
	given := q.Header.Values("If-Match")
	if len(given) == 0 || len(given) == 1 && given[0] == "*" {
		return 0, nil
	}
	text, quotedLeft := strings.CutPrefix(given[0], `"`)
	text, quotedRight := strings.CutSuffix(text, `"`)
	version, err := strconv.ParseInt(text, 10, 64)
	if len(given) != 1 || !quotedLeft || !quotedRight || err != nil || version < 1 {
		return 0, malformed.because(`If-Match holds one ETag of the curated batch as it was answered, such as "7"`)
	}
	return version, nil
}

func (a *API) createCurated(ctx context.Context, q *request) (answer, error) {
	var draft curated.Draft
	o, p := parse(q.body, "queue", "rows")
	if p == nil {
		draft.QueueID, p = o.integer("queue", 1, 1<<53)
	}
	if p == nil {
		draft.Rows, p = o.rows("rows")
	}
	if p != nil {
		return answer{}, p
	}
	if _, _, err := a.Store.ReadQueue(ctx, draft.QueueID); err != nil {
		if a.IsMissing(err) {
			return answer{}, refuse("queue", fmt.Sprintf("is %d, and there is no such queue: GET /api/v1/queues lists them", draft.QueueID))
		}
		return answer{}, err
	}
	return a.once(ctx, q, "", func(name *bot.APIRequest, given bool) (answer, error) {
		result, err := a.Desk.Save(ctx, q.asker(name, given), draft)
		return decided(result, err, http.StatusCreated)
	}, func(handled bot.HandledRequest) (answer, error) {
		var id int64
		if _, err := fmt.Sscanf(handled.Resource, "/api/v1/curated/%d", &id); err != nil {
			return answer{}, fmt.Errorf("the request made %q, which is no curated batch", handled.Resource)
		}
		return a.setNow(ctx, id, http.StatusCreated)
	})
}

// replaceRows is a PUT of the whole set, so it says which version it replaces: of two edits of what was read at once, the second would undo the first
// unseen.
func (a *API) replaceRows(ctx context.Context, q *request) (answer, error) {
	id, p := idOf(q, "id", "a curated batch")
	if p != nil {
		return answer{}, p
	}
	version, p := expectedVersion(q)
	if p != nil {
		return answer{}, p
	}
	if len(q.Header.Values("If-Match")) == 0 {
		return answer{}, versionNeeded.because("send If-Match with the ETag of the curated batch as it was read, or with * to replace its rows whatever they are")
	}
	draft := curated.Draft{ID: id, Version: version}
	o, p := parse(q.body, "rows")
	if p == nil {
		draft.Rows, p = o.rows("rows")
	}
	if p != nil {
		return answer{}, p
	}
	name, given, p := a.apiRequest(q, curatedPath(draft.ID))
	if p != nil {
		return answer{}, p
	}
	result, err := a.Desk.Save(ctx, q.asker(name, given), draft)
	return decided(result, err, http.StatusOK)
}

func (a *API) submitCurated(ctx context.Context, q *request) (answer, error) {
	return a.act(ctx, q, func(who curated.Asker, id, version int64, _ string) (curated.Result, error) {
		return a.Desk.Submit(ctx, who, id, version)
	})
}

func (a *API) approveCurated(ctx context.Context, q *request) (answer, error) {
	return a.act(ctx, q, func(who curated.Asker, id, version int64, _ string) (curated.Result, error) {
		return a.Desk.Approve(ctx, who, id, version)
	})
}

func (a *API) rejectCurated(ctx context.Context, q *request) (answer, error) {
	return a.act(ctx, q, func(who curated.Asker, id, version int64, reason string) (curated.Result, error) {
		return a.Desk.Reject(ctx, who, id, version, reason)
	}, "reason")
}

func (a *API) cancelCurated(ctx context.Context, q *request) (answer, error) {
	return a.act(ctx, q, func(who curated.Asker, id, version int64, _ string) (curated.Result, error) {
		return a.Desk.Cancel(ctx, who, id, version)
	})
}

// act takes a set one step further, once per key.
func (a *API) act(ctx context.Context, q *request, do func(who curated.Asker, id, version int64, reason string) (curated.Result, error), keys ...string) (answer, error) {
	id, p := idOf(q, "id", "a curated batch")
	if p != nil {
		return answer{}, p
	}
	version, p := expectedVersion(q)
	if p != nil {
		return answer{}, p
	}
	o, p := parse(q.body, keys...)
	reason := ""
	if p == nil {
		reason, p = o.text("reason", 0, 1000)
	}
	if p != nil {
		return answer{}, p
	}
	return a.once(ctx, q, curatedPath(id), func(name *bot.APIRequest, given bool) (answer, error) {
		result, err := do(q.asker(name, given), id, version, reason)
		return decided(result, err, http.StatusOK)
	}, func(bot.HandledRequest) (answer, error) { return a.setNow(ctx, id, http.StatusOK) })
}

// decided translates what the desk did.
func decided(result curated.Result, err error, status int) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	now := result.View.Curated
	switch result.Outcome {
	case curated.Done:
		return showSet(result.View, status), nil
	case curated.Refused:
		return answer{}, refusedSet(result)
	case curated.Forbidden:
		return answer{}, mayNotDecide.because(result.Reason)
	case curated.NotFound:
		return answer{}, notFound.because("there is no curated batch of this number")
	case curated.Changed:
		return answer{}, changed.because(fmt.Sprintf("it is at version %d now: read it again, and decide anew", now.Version))
	case curated.AlreadySubmitted:
		return answer{}, alreadySubmitted.because("it was submitted before: it waits for an approval, or is rejected first to be edited")
	case curated.AlreadyDecided:
		remedy := ""
		if now.Status == bot.CuratedRejected {
			remedy = ": PUT " + curatedPath(now.ID) + "/rows makes it a draft again, to be submitted anew"
		}
		return answer{}, alreadyDecided.because("it is " + now.Status.String() + remedy)
	case curated.NotSubmitted:
		return answer{}, notSubmitted.because("it is " + now.Status.String() + ": submit it first")
	case curated.Duplicate:
		return answer{}, errDuplicate
	case curated.RetryLater:
		return answer{}, retryLater.because("somebody wrote at the same moment: send the request again")
	}
	return answer{}, fmt.Errorf("the desk of curated batches answered %d", result.Outcome)
}

// refusedSet lists what the checks found, all of it. When nothing is wrong with the set and its members are merely busy, that is said by a type of
// its own: it passes.
func refusedSet(result curated.Result) *problem {
	k, found := busy, make([]finding, 0, len(result.Problems))
	for _, p := range result.Problems {
		switch p.Kind {
		case bot.ProblemBusy:
		case bot.ProblemRows:
			k = invalid
		default:
			k = checksFailed
		}
		found = append(found, finding{Row: p.RowNo, MR: p.Number, Kind: string(p.Kind), Message: p.Text})
	}
	return k.because(fmt.Sprintf("%d of its checks failed and nothing was written: problems says which", len(found)), found...)
}
