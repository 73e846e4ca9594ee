package round_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/round"
)

// hangingStore has ten queues of a repository whose ticks never end, one of another repository, and one of another host.
type hangingStore struct {
	round.Store
	mu    sync.Mutex
	looks map[int64]int
}

const stuckQueues, elsewhereQueue, otherHostQueue = 10, 11, 12

func (s *hangingStore) QueuesWithWork(context.Context) (ids []int64, err error) {
	for id := range int64(otherHostQueue) {
		ids = append(ids, id+1)
	}
	return ids, nil
}

func (s *hangingStore) ReadQueue(_ context.Context, id int64) (bot.Queue, bot.Repository, error) {
	queue, repo := bot.Queue{ID: id, RepositoryID: 1, State: bot.QueueOpen}, bot.Repository{RepositoryRef: bot.RepositoryRef{Host: "hub"}}
	switch id {
	case elsewhereQueue:
		queue.RepositoryID = 2
	case otherHostQueue:
		repo.Host = "lab"
	}
	return queue, repo, nil
}

func (s *hangingStore) ActiveBatch(ctx context.Context, id int64) (bot.Batch, []bot.Operation, bool, error) {
	s.mu.Lock()
	s.looks[id]++
	s.mu.Unlock()
	if id <= stuckQueues {
		<-ctx.Done() // as a host that never answers makes it
		return bot.Batch{}, nil, false, ctx.Err()
	}
	return bot.Batch{}, nil, false, nil
}

func (s *hangingStore) Waiting(context.Context, int64) (bot.WaitingSet, error) {
	return bot.WaitingSet{}, nil
}

func (s *hangingStore) counted(id int64) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.looks[id]
}

// However many queues of a repository hang, those of others are looked at when they are due; and a tick that hangs ends.
func TestARepositoryThatHangsDelaysNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		s := &hangingStore{looks: make(map[int64]int)}
		driver := round.New(round.Config{
			Store: s, Locks: grantingLocks{}, Hosts: map[string]bot.Host{"hub": nil, "lab": nil}, TickLimit: 10 * time.Minute,
		})
		ended := make(chan error, 1)
		go func() { ended <- driver.Run(ctx) }()
		time.Sleep(9 * time.Minute)
		synctest.Wait()
		for _, id := range []int64{elsewhereQueue, otherHostQueue} {
			if n := s.counted(id); n < 36 || n > 37 {
				t.Errorf("queue %d was looked at %d times in nine minutes, want every quarter of a minute", id, n)
			}
		}
		stuck := func() (n int) {
			for id := range int64(stuckQueues) {
				n += s.counted(id + 1)
			}
			return n
		}
		if n := stuck(); n != 4 {
			t.Errorf("%d ticks of the repository that hangs, want half of its host's slots", n)
		}
		time.Sleep(2 * time.Minute)
		if n := stuck(); n != 8 {
			t.Errorf("%d ticks of the repository that hangs after the first four were given up, want four more", n)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
