package outbox

import (
	"context"
	"fmt"
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

// A host in trouble is no fault of an errand: it is tried until the host is well, however long that takes.
func TestNoErrandIsGivenUpForAHostInTrouble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.host.refuses = fmt.Errorf("502: %w", bot.ErrUnavailable)
		e := d.wants(bot.ErrandReply, "git:issue:99:1")
		for range 50 {
			d.sends()
			time.Sleep(40 * time.Minute)
		}
		if e.givenUp || e.done || e.Attempts != 50 {
			t.Errorf("after fifty tries it is %+v", e)
		}
		d.host.refuses = nil
		d.sends()
		if !e.done {
			t.Errorf("with the host well it is %+v", e)
		}
	})
}
