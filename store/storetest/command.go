package storetest

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/store"
)

var commandTests = tests{
	"an answer is said once, by whoever comes first":     answeredOnce,
	"an answer may be words, a reaction, both or none":   answerForms,
	"a comment gets each reaction once":                  acknowledged,
	"an endless reply is cut":                            endlessReply,
	"a cancel without anything to cancel takes its turn": emptyCancel,
}

func (w *world) answer(reply string, reaction bot.Reaction) bot.Answer {
	return bot.Answer{
		Command:    bot.CommandRef{RequestID: "forge:issue:31:2", Order: bot.CommandOrder{At: 1, ID: 31}, By: "ann", Verb: "help", Source: "look"},
		Repository: w.repo, Number: 4, Reply: reply, Reaction: reaction,
		Comment: bot.Comment{Kind: bot.CommentIssue, ID: 31, Number: 4},
	}
}

func answeredOnce(t *testing.T, db Database) {
	w := newWorld(t, db)
	a := w.answer("Try `/batch`.", bot.ReactionConfused)
	if handled, err := w.store.Handled(t.Context(), a.Command.RequestID); err != nil || handled {
		t.Errorf("handled before: %v, %v", handled, err)
	}
	var answered atomic.Int32
	each(w, 8, func(s *store.Store, _ int) {
		fresh, err := s.Answer(t.Context(), a)
		if err != nil {
			t.Error(err)
		}
		if fresh {
			answered.Add(1)
		}
	})
	if answered.Load() != 1 {
		t.Errorf("answered by %d", answered.Load())
	}
	if handled, err := w.store.Handled(t.Context(), a.Command.RequestID); err != nil || !handled {
		t.Errorf("handled after: %v, %v", handled, err)
	}
	errands := w.claimErrands()
	if len(errands) != 2 || errands[bot.ErrandReply].Payload.Body != a.Reply || errands[bot.ErrandReply].Target != a.Command.RequestID ||
		errands[bot.ErrandReply].Number != 4 || errands[bot.ErrandReply].Repository != w.repo {
		t.Errorf("errands %+v", errands)
	}
	if p := errands[bot.ErrandReaction].Payload; p != (bot.ErrandPayload{Kind: bot.CommentIssue, Comment: 31, Reaction: bot.ReactionConfused}) {
		t.Errorf("reaction %+v", p)
	}
	if n := w.value(`SELECT MAX(wanted) FROM outbox`); n != 1 {
		t.Errorf("wanted %d times", n)
	}
}

func answerForms(t *testing.T, db Database) {
	w := newWorld(t, db)
	for i, form := range []struct {
		reply    string
		reaction bot.Reaction
		errands  int
	}{{"words", "", 1}, {"", bot.ReactionSeen, 1}, {"both", bot.ReactionDone, 2}, {"", "", 0}} {
		a := w.answer(form.reply, form.reaction)
		a.Command.RequestID += strings.Repeat("x", i+1)
		if fresh, err := w.store.Answer(t.Context(), a); err != nil || !fresh {
			t.Fatal(fresh, err)
		}
		if got := len(w.claimErrands()); got != form.errands {
			t.Errorf("%+v: %d errands", form, got)
		}
	}
	a := w.answer("", "")
	a.Command.RequestID = ""
	if _, err := w.store.Answer(t.Context(), a); err == nil {
		t.Error("answered a command without a name")
	}
}

func acknowledged(t *testing.T, db Database) {
	w := newWorld(t, db)
	comment := bot.Comment{Kind: bot.CommentReview, ID: 31, Number: 4}
	for _, r := range []bot.Reaction{bot.ReactionSeen, bot.ReactionSeen, bot.ReactionDone} {
		w.must(w.store.Acknowledge(t.Context(), w.repo, comment, r))
	}
	comment.Kind = bot.CommentIssue // the same id of another kind is another comment
	w.must(w.store.Acknowledge(t.Context(), w.repo, comment, bot.ReactionSeen))
	errands, err := w.store.ClaimErrands(t.Context(), 10, 0)
	w.must(err)
	var got []bot.ErrandPayload
	for _, e := range errands {
		got = append(got, e.Payload)
	}
	want := []bot.ErrandPayload{
		{Kind: bot.CommentReview, Comment: 31, Reaction: bot.ReactionSeen},
		{Kind: bot.CommentReview, Comment: 31, Reaction: bot.ReactionDone},
		{Kind: bot.CommentIssue, Comment: 31, Reaction: bot.ReactionSeen},
	}
	if len(got) != 3 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("got %+v", got)
	}
}

func endlessReply(t *testing.T, db Database) {
	w := newWorld(t, db)
	if _, err := w.store.Answer(t.Context(), w.answer(strings.Repeat("<\x00>", 50_000), "")); err != nil {
		t.Fatal(err)
	}
	if body := w.claimErrands()[bot.ErrandReply].Payload.Body; len(body) < 9_000 || !strings.HasSuffix(body, "…") {
		t.Errorf("%d bytes", len(body))
	}
}

// claimErrands claims all that is due, one of each kind.
func (w *world) claimErrands() map[bot.ErrandKind]bot.Errand {
	w.Helper()
	errands, err := w.store.ClaimErrands(w.Context(), 100, lease)
	w.must(err)
	byKind := make(map[bot.ErrandKind]bot.Errand)
	for _, e := range errands {
		byKind[e.Kind] = e
	}
	return byKind
}

// A cancel overtook the application it was meant for: when that arrives, it is too late.
func emptyCancel(t *testing.T, db Database) {
	w := newWorld(t, db)
	application := w.application(w.queue, 4, true)
	application.Command.Order = bot.CommandOrder{At: 10, ID: 10}
	if _, err := w.store.RecordMR(t.Context(), w.repo.ID, application.MR); err != nil {
		t.Fatal(err)
	}
	cancel := w.answer("There is nothing to cancel.", "")
	cancel.TakesTurn, cancel.Command.Order = true, bot.CommandOrder{At: 20, ID: 20}
	if _, err := w.store.Answer(t.Context(), cancel); err != nil {
		t.Fatal(err)
	}
	result, err := w.store.Apply(t.Context(), application)
	w.must(err)
	if result.Outcome != bot.ApplySuperseded {
		t.Errorf("an application older than a cancel: outcome %d", result.Outcome)
	}
	application.Command.Order, application.Command.RequestID = bot.CommandOrder{At: 30, ID: 30}, "forge:issue:30:1"
	if result, err = w.store.Apply(t.Context(), application); err != nil || result.Outcome != bot.ApplyDone {
		t.Errorf("an application after the cancel: outcome %d, %v", result.Outcome, err)
	}
}
