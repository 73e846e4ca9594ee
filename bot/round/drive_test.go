package round_test

import (
	"testing"

	"github.com/batchbot/batchbot/bot"
)

// What a sweep asks for: queues are taken as far as they go now, and one that cannot be ticked keeps no other from it.
func TestDriveTakesQueuesAsFarAsTheyGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	number := w.waiting(map[string]string{"one.txt": "1\n"})
	const unknown = 4711
	if err := w.driver.Drive(t.Context(), []int64{unknown, w.queue.ID}); err == nil {
		t.Error("a queue that does not exist was ticked")
	}
	w.wantStatus(number, bot.OperationMerged, bot.ReasonLanded)
	if err := w.driver.Drive(t.Context(), []int64{w.queue.ID}); err != nil {
		t.Error(err)
	}
}
