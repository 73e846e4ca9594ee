package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/batchbot/batchbot/config"
)

// demoedBot is the bot of the demo.
type demoedBot interface {
	// address is where it takes webhooks.
	address() string
	// begin lets rounds start.
	begin()
	// stir is called all the time while the story goes on; now it knows the bot has looked at the repository. It returns what happened to the bot
	// meanwhile, "" if nothing did. An error says that the bot is gone for good.
	stir(now time.Time, known bool) (happened string, err error)
	// calm lets the bot live from now on.
	calm()
	// killed is how often the bot was killed.
	killed() int
	// wait returns when the bot ended or ctx did; an error says how it ended.
	wait(ctx context.Context) error
	close()
}

// innerBot is the bot within the demo's own process.
type innerBot struct {
	*program
	rounds chan struct{} // closing it lets rounds start
	stop   context.CancelFunc
	done   chan struct{}
	err    error // of the run; read after done
}

// startInnerBot builds and runs the bot.
func startInnerBot(ctx context.Context, settings config.Settings, log *slog.Logger) (*innerBot, error) {
	p, err := build(ctx, settings, log)
	if err != nil {
		return nil, err
	}
	b := &innerBot{program: p, rounds: make(chan struct{}), done: make(chan struct{})}
	p.roundsAfter = b.rounds
	running, stop := context.WithCancel(ctx)
	b.stop = stop
	go func() {
		defer close(b.done)
		b.err = p.run(running)
	}()
	return b, nil
}

func (b *innerBot) address() string { return b.url }

func (b *innerBot) begin() { close(b.rounds) }

func (b *innerBot) stir(time.Time, bool) (string, error) {
	select {
	case <-b.done:
		return "", errors.Join(errors.New("the bot ended"), b.err)
	default:
		return "", nil
	}
}

func (b *innerBot) calm() {}

func (b *innerBot) killed() int { return 0 }

func (b *innerBot) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-b.done:
		return errors.Join(errors.New("the bot ended"), b.err)
	}
}

func (b *innerBot) close() {
	b.stop()
	<-b.done
	_ = b.program.close() // nothing more is wanted of it
}
