package intake

import (
	"context"
	"slices"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// fakeRows are rows in memory: as much of what the store promises as the tests of this room lean on. The store's own tests hold
// what a database does.
type fakeRows struct {
	Records
	steps       *steps
	repos       []bot.Repository
	queues      []bot.Queue
	ops         []bot.Operation // oldest first; the last of a merge request and target is current
	batch       *bot.Batch
	batchMRs    map[int]bot.Batch
	handled     map[string]bool
	lastCommand map[int]bot.CommandOrder
	answers     []bot.Answer
	reactions   []bot.Reaction
	moves       []bot.Move
	watching    []int64
	watched     string  // what QueuesWatching was asked about
	revisited   []int64 // batches whose MR is to be looked at
}

func (r *fakeRows) find(is func(bot.Operation) bool) int {
	for i, op := range slices.Backward(r.ops) {
		if is(op) {
			return i
		}
	}
	return -1
}

func (r *fakeRows) UpsertRepository(_ context.Context, ref bot.RepositoryRef) (repo bot.Repository, err error) {
	err = r.steps.do("UpsertRepository", func() error {
		for i := range r.repos {
			if r.repos[i].Host == ref.Host && r.repos[i].ExternalID == ref.ExternalID {
				r.repos[i].RepositoryRef, r.repos[i].Active = ref, true
				repo = r.repos[i]
				return nil
			}
		}
		repo = bot.Repository{ID: int64(len(r.repos) + 1), RepositoryRef: ref, Active: true}
		r.repos = append(r.repos, repo)
		return nil
	})
	return repo, err
}

func (r *fakeRows) FindRepository(_ context.Context, host string, externalID int64) (bot.Repository, bool, error) {
	for _, repo := range r.repos {
		if repo.Host == host && repo.ExternalID == externalID {
			return repo, true, r.steps.do("FindRepository", nil)
		}
	}
	return bot.Repository{}, false, r.steps.do("FindRepository", nil)
}

func (r *fakeRows) ActiveRepositories(_ context.Context, host string) (list []bot.Repository, err error) {
	for _, repo := range r.repos {
		if repo.Host == host && repo.Active {
			list = append(list, repo)
		}
	}
	return list, r.steps.do("ActiveRepositories", nil)
}

func (r *fakeRows) DeactivateRepositories(_ context.Context, host string, installation int64, ids []int64, _ string) error {
	return r.steps.do("DeactivateRepositories", func() error {
		for i, repo := range r.repos {
			if repo.Host == host && repo.Installation == installation && (ids == nil || slices.Contains(ids, repo.ExternalID)) {
				r.repos[i].Active = false
			}
		}
		return nil
	})
}

func (r *fakeRows) FindQueue(_ context.Context, _ int64, target string) (bot.Queue, bool, error) {
	for _, q := range r.queues {
		if q.Target == target {
			return q, true, r.steps.do("FindQueue", nil)
		}
	}
	return bot.Queue{}, false, r.steps.do("FindQueue", nil)
}

func (r *fakeRows) UpsertQueue(_ context.Context, repositoryID int64, settings bot.QueueSettings, blob string) (queue bot.Queue, err error) {
	err = r.steps.do("UpsertQueue", func() error {
		for i := range r.queues {
			if r.queues[i].Target == settings.Branch {
				r.queues[i].Settings, r.queues[i].SettingsBlob = settings, blob
				queue = r.queues[i]
				return nil
			}
		}
		queue = bot.Queue{ID: int64(len(r.queues) + 1), RepositoryID: repositoryID, Target: settings.Branch, State: bot.QueueOpen, Settings: settings, SettingsBlob: blob}
		r.queues = append(r.queues, queue)
		return nil
	})
	return queue, err
}

func (r *fakeRows) RecordMR(_ context.Context, repositoryID int64, mr bot.MRSnapshot) (bot.MergeRequest, error) {
	return bot.MergeRequest{ID: int64(mr.Number), RepositoryID: repositoryID, Number: mr.Number}, r.steps.do("RecordMR", nil)
}

func (r *fakeRows) CurrentOperations(_ context.Context, _ int64, number int) (views []bot.OperationView, err error) {
	seen := make(map[string]bool)
	for _, op := range slices.Backward(r.ops) {
		if op.Number != number || seen[op.Target] {
			continue
		}
		seen[op.Target] = true
		v := bot.OperationView{Operation: op, Queue: r.queues[op.QueueID-1]}
		if op.BatchID != 0 && r.batch != nil {
			b := *r.batch
			v.Batch = &b
		}
		views = append(views, v)
	}
	return views, r.steps.do("CurrentOperations", nil)
}

func (r *fakeRows) FollowedOperations(context.Context, int64) (list []bot.Operation, err error) {
	for _, op := range r.ops {
		if op.Status.Followed() {
			list = append(list, op)
		}
	}
	return list, r.steps.do("FollowedOperations", nil)
}

func (r *fakeRows) QueuesWatching(_ context.Context, _ int64, sha string) ([]int64, error) {
	r.watched = sha
	return r.watching, r.steps.do("QueuesWatching", nil)
}

func (r *fakeRows) BatchMR(_ context.Context, _ int64, number int) (bot.Batch, bool, error) {
	b, ok := r.batchMRs[number]
	return b, ok, r.steps.do("BatchMR", nil)
}

func (r *fakeRows) RevisitBatch(_ context.Context, batchID int64) error {
	return r.steps.do("RevisitBatch", func() error {
		r.revisited = append(r.revisited, batchID)
		return nil
	})
}

func (r *fakeRows) Apply(_ context.Context, a bot.Application) (result bot.ApplyResult, err error) {
	err = r.steps.do("Apply", func() error {
		if r.handled[a.Command.RequestID] {
			result.Outcome = bot.ApplyDuplicate
			return nil
		}
		if a.Command.Order.Before(r.lastCommand[a.MR.Number]) {
			result.Outcome = bot.ApplySuperseded
			return nil
		}
		if i := r.find(func(op bot.Operation) bool { return op.Number == a.MR.Number && op.Target == a.MR.Target }); i >= 0 {
			result.Operation = r.ops[i]
			switch bot.Reapply(r.ops[i].Status, r.ops[i].HeadSHA, a.MR.HeadSHA) {
			case bot.ReapplyActive:
				result.Outcome = bot.ApplyActive
				return nil
			case bot.ReapplyNeedsRetry:
				result.Outcome = bot.ApplyNeedsRetry
				return nil
			case bot.ReapplyLanded:
				result.Outcome = bot.ApplyLanded
				return nil
			}
		}
		op := bot.Operation{
			ID: a.OperationID, Status: bot.OperationPendingApproval, Version: 1, QueueID: a.QueueID, RepositoryID: a.Repository.ID, Target: a.MR.Target,
			Number: a.MR.Number, Author: a.MR.Author, Requester: a.Command.By, HeadSHA: a.MR.HeadSHA, Reason: bot.ReasonApplied, Detail: a.Detail,
		}
		if a.Admit {
			op.Status = bot.OperationWaiting
		}
		r.ops = append(r.ops, op)
		r.handled[a.Command.RequestID], r.lastCommand[a.MR.Number] = true, a.Command.Order
		result = bot.ApplyResult{Outcome: bot.ApplyDone, Operation: op}
		return nil
	})
	return result, err
}

func (r *fakeRows) Move(_ context.Context, m bot.Move) (result bot.MoveResult, err error) {
	err = r.steps.do("Move", func() error {
		i := r.find(func(op bot.Operation) bool { return op.ID == m.OperationID })
		op := &r.ops[i]
		switch {
		case m.Command != nil && r.handled[m.Command.RequestID]:
			result = bot.MoveDuplicate
			return nil
		case m.Command != nil && m.Command.Order.Before(r.lastCommand[op.Number]):
			result = bot.MoveSuperseded
			return nil
		case op.Status != m.From || op.Version != m.Version, m.From == bot.OperationBatched && *m.Batch != r.batch.Guard():
			result = bot.MoveStale
			return nil
		}
		if m.Command != nil {
			r.handled[m.Command.RequestID], r.lastCommand[op.Number] = true, m.Command.Order
		}
		op.Status, op.Reason, op.Detail, op.Version, op.BatchID = m.To, m.Reason, m.Detail, op.Version+1, 0
		if m.HeadSHA != "" {
			op.HeadSHA = m.HeadSHA
		}
		if m.From == bot.OperationBatched {
			r.batch.Phase, r.batch.Version = bot.PhaseClaimed, r.batch.Version+1
		}
		r.moves = append(r.moves, m)
		result = bot.MoveDone
		return nil
	})
	return result, err
}

func (r *fakeRows) Answer(_ context.Context, a bot.Answer) (fresh bool, err error) {
	err = r.steps.do("Answer", func() error {
		if fresh = !r.handled[a.Command.RequestID]; fresh {
			r.handled[a.Command.RequestID] = true
			r.answers = append(r.answers, a)
		}
		return nil
	})
	return fresh, err
}

func (r *fakeRows) Handled(_ context.Context, requestID string) (bool, error) {
	return r.handled[requestID], r.steps.do("Handled", nil)
}

func (r *fakeRows) Acknowledge(_ context.Context, _ bot.Repository, _ bot.Comment, reaction bot.Reaction) error {
	return r.steps.do("Acknowledge", func() error {
		r.reactions = append(r.reactions, reaction)
		return nil
	})
}

func (r *fakeRows) SaveWatermark(_ context.Context, id int64, seen time.Time) error {
	return r.steps.do("SaveWatermark", func() error {
		r.repos[id-1].CommentsSeenAt = seen
		return nil
	})
}
