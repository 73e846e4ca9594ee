package outbox

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// A repository whose host never answers has more errands than a sender claims at once; what is to be said elsewhere is said as soon as it comes.
func TestARepositoryThatHangsDelaysNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.sender = New(Config{Store: d.rows, Hosts: map[string]bot.Host{"git": d.host}, Git: d.git})
		var stuck []*row
		for range 100 {
			stuck = append(stuck, d.wants(bot.ErrandReaction, "hang"))
		}
		ctx, cancel := context.WithCancel(context.Background())
		var ended sync.WaitGroup
		ended.Go(func() { d.sender.Run(ctx) })
		for minute := range 10 {
			d.wants(bot.ErrandReaction, "hang")
			said := d.wants(bot.ErrandReply, "git:issue:99:1")
			d.rows.mu.Lock()
			said.Repository.ID, said.Repository.ExternalID = 2, 4712
			d.rows.mu.Unlock()
			d.sender.Nudge()
			time.Sleep(5 * time.Second)
			synctest.Wait()
			if !d.done(said) {
				t.Errorf("minute %d: not said within five seconds", minute)
			}
			time.Sleep(55 * time.Second)
		}
		cancel()
		ended.Wait()
		d.rows.mu.Lock()
		defer d.rows.mu.Unlock()
		for _, r := range stuck {
			if r.done || r.givenUp {
				t.Fatalf("an errand of the repository that hangs ended: %+v", r)
			}
		}
	})
}
