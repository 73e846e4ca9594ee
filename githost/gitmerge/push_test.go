package gitmerge_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchbot/batchbot/bot"
)

const batchBranch = "batchbot/7-0a1b2c3d/main"

func TestPushWithALease(t *testing.T) {
	t.Parallel()
	o, i := newOrigin(t), newInstance(t)
	root := o.commit("refs/heads/main", files{"a": "0\n"})
	members := []bot.BuildMember{o.pull(1, files{"b": "1\n"}, root), o.pull(2, files{"c": "1\n"}, root)}
	whole, half := i.build(o, spec(members...)), i.build(o, spec(members[0]))
	wholeHead, halfHead := whole.Result().HeadSHA, half.Result().HeadSHA

	t.Run("absent", func(t *testing.T) {
		wantPush(t, i.push(whole, batchBranch), bot.PushDone)
	})
	t.Run("already there", func(t *testing.T) {
		wantPush(t, i.push(whole, batchBranch), bot.PushDone)
	})
	t.Run("at a head we know, backwards too", func(t *testing.T) {
		wantPush(t, i.push(half, batchBranch, wholeHead), bot.PushDone)
		if at := o.at(batchBranch); at != halfHead {
			t.Errorf("the branch stands at %s, want %s", at, halfHead)
		}
	})
	t.Run("at a head we do not know", func(t *testing.T) {
		foreign := o.commit("refs/heads/"+batchBranch, files{"person": "was here\n"}, halfHead)
		outcome := i.push(whole, batchBranch, wholeHead, halfHead)
		wantPush(t, outcome, bot.PushForeign)
		if outcome.Found != foreign || o.at(batchBranch) != foreign {
			t.Errorf("found %s, branch at %s, want %s untouched", outcome.Found, o.at(batchBranch), foreign)
		}
	})
	t.Run("deleted by a person and pushed again", func(t *testing.T) {
		o.git("update-ref", "-d", "refs/heads/"+batchBranch)
		wantPush(t, i.push(whole, batchBranch, wholeHead), bot.PushDone)
	})
}

func TestAnotherInstanceRebuildsAfterACrash(t *testing.T) {
	t.Parallel()
	o, dead, heir := newOrigin(t), newInstance(t), newInstance(t)
	root := o.commit("refs/heads/main", files{"a": "0\n"})
	s := spec(o.pull(1, files{"b": "1\n"}, root))
	first := dead.build(o, s)
	dead.push(first, batchBranch)

	again := heir.build(o, s)
	if again.Result().HeadSHA != first.Result().HeadSHA {
		t.Fatal("the heir built another commit")
	}
	o.hook("pre-receive", "exit 1") // a push that sends anything would be refused
	wantPush(t, heir.push(again, batchBranch), bot.PushDone)
}

// A person pushes between the look and the push: the wrapper does it when git push starts.
func TestAPersonIsFasterThanTheLease(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	root := o.commit("refs/heads/main", files{"a": "0\n"})
	i := newWrapped(t, `case "$1" in push) env -u GIT_DIR -u GIT_OBJECT_DIRECTORY git -C `+o.dir+` update-ref refs/heads/`+batchBranch+` `+root+`;; esac`)
	b := i.build(o, spec(o.pull(1, files{"b": "1\n"}, root)))
	outcome := i.push(b, batchBranch)
	wantPush(t, outcome, bot.PushForeign)
	if outcome.Found != root || o.at(batchBranch) != root {
		t.Errorf("found %s, branch at %s, want %s", outcome.Found, o.at(batchBranch), root)
	}
}

func TestTheHostRefuses(t *testing.T) {
	t.Parallel()
	o, i := newOrigin(t), newInstance(t)
	root := o.commit("refs/heads/main", files{"a": "0\n"})
	b := i.build(o, spec(o.pull(1, files{"b": "1\n"}, root)))
	o.hook("pre-receive", `printf 'GL-HOOK-ERR: no workflows \033[31mtoday\033[0m\n' >&2; exit 1`)
	outcome := i.push(b, batchBranch)
	wantPush(t, outcome, bot.PushRefused)
	for _, word := range []string{"pre-receive hook declined", "GL-HOOK-ERR: no workflows"} {
		if !strings.Contains(outcome.Message, word) {
			t.Errorf("message %q does not say %q", outcome.Message, word)
		}
	}
	if strings.ContainsAny(outcome.Message, "\x1b\n") {
		t.Errorf("control characters in %q", outcome.Message)
	}
	if at := o.at(batchBranch); at != "" {
		t.Errorf("the branch stands at %s", at)
	}
}

func TestTroubleOnTheHostIsAnError(t *testing.T) {
	t.Parallel()
	o, i := newOrigin(t), newInstance(t)
	root := o.commit("refs/heads/main", files{"a": "0\n"})
	b := i.build(o, spec(o.pull(1, files{"b": "1\n"}, root)))
	lock := filepath.Join(o.dir, "refs/heads", batchBranch+".lock")
	if err := os.MkdirAll(filepath.Dir(lock), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	outcome, err := b.Push(t.Context(), batchBranch, nil)
	mustContain(t, err, "the remote could not", batchBranch)
	if outcome != (bot.PushOutcome{}) {
		t.Errorf("outcome %+v beside the error", outcome)
	}
}

func TestARemoteThatIsNotThere(t *testing.T) {
	t.Parallel()
	o, i := newOrigin(t), newInstance(t)
	root := o.commit("refs/heads/main", files{"a": "0\n"})
	s := spec(o.pull(1, files{"b": "1\n"}, root))
	b := i.build(o, s)
	if err := os.Rename(o.dir, o.dir+".moved"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Push(t.Context(), batchBranch, nil); !errors.Is(err, bot.ErrGone) {
		t.Errorf("push: %v, want bot.ErrGone", err)
	}
	if _, err := i.Build(t.Context(), o.remote(), s); !errors.Is(err, bot.ErrGone) {
		t.Errorf("build: %v, want bot.ErrGone", err)
	}
}

func TestFastForward(t *testing.T) {
	t.Parallel()
	o, builder, other := newOrigin(t), newInstance(t), newInstance(t)
	base := o.commit("refs/heads/main", files{"a": "0\n"})
	b := builder.build(o, spec(o.pull(1, files{"b": "1\n"}, base)))
	head := b.Result().HeadSHA
	builder.push(b, batchBranch)
	forward := func(base, head string) bot.PushOutcome {
		t.Helper()
		outcome, err := other.FastForward(t.Context(), o.remote(), "main", base, head) // has never seen the head
		if err != nil {
			t.Fatal(err)
		}
		return outcome
	}

	o.hook("update", "echo not without a review >&2; exit 1")
	refused := forward(base, head)
	wantPush(t, refused, bot.PushRefused)
	if !strings.Contains(refused.Message, "not without a review") {
		t.Errorf("message %q", refused.Message)
	}
	o.hook("update", "exit 0")
	wantPush(t, forward(base, head), bot.PushDone)
	wantPush(t, forward(base, head), bot.PushDone)
	if at := o.at("main"); at != head {
		t.Fatalf("main stands at %s, want %s", at, head)
	}

	moved := o.commit("refs/heads/main", files{"z": "1\n"}, head)
	outcome := forward(base, head)
	wantPush(t, outcome, bot.PushForeign)
	if outcome.Found != moved || o.at("main") != moved {
		t.Errorf("found %s, main at %s, want %s untouched", outcome.Found, o.at("main"), moved)
	}

	aside := o.commit("refs/heads/aside", files{"y": "1\n"}, base)
	_, err := other.FastForward(t.Context(), o.remote(), "main", moved, aside)
	mustContain(t, err, "non-fast-forward", "main")
	o.git("update-ref", "-d", "refs/heads/main")
	if _, err := other.FastForward(t.Context(), o.remote(), "main", moved, head); !errors.Is(err, bot.ErrNotFound) {
		t.Errorf("a target that is gone: %v, want bot.ErrNotFound", err)
	}
}

// The target moves after the look and before the push.
func TestFastForwardLosesTheRace(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	base := o.commit("refs/heads/main", files{"a": "0\n"})
	rival := o.commit("refs/heads/rival", files{"r": "0\n"}, base)
	ours := o.commit("refs/heads/"+batchBranch, files{"b": "0\n"}, base)
	i := newWrapped(t, `case "$1" in push) env -u GIT_DIR git -C `+o.dir+` update-ref refs/heads/main `+rival+`;; esac`)
	outcome, err := i.FastForward(t.Context(), o.remote(), "main", base, ours)
	if err != nil {
		t.Fatal(err)
	}
	wantPush(t, outcome, bot.PushForeign)
	if outcome.Found != rival || o.at("main") != rival {
		t.Errorf("found %s, main at %s, want %s", outcome.Found, o.at("main"), rival)
	}
}

func TestDeleteBranch(t *testing.T) {
	t.Parallel()
	o, i := newOrigin(t), newInstance(t)
	head := o.commit("refs/heads/"+batchBranch, files{"a": "0\n"})
	remove := func(heads ...string) bot.PushOutcome {
		t.Helper()
		outcome, err := i.DeleteBranch(t.Context(), o.remote(), batchBranch, heads)
		if err != nil {
			t.Fatal(err)
		}
		return outcome
	}
	foreign := remove(strings.Repeat("1", 40))
	wantPush(t, foreign, bot.PushForeign)
	if foreign.Found != head || o.at(batchBranch) != head {
		t.Errorf("found %s, branch at %s, want %s untouched", foreign.Found, o.at(batchBranch), head)
	}
	wantPush(t, remove(), bot.PushForeign)
	wantPush(t, remove(strings.Repeat("1", 40), head), bot.PushDone)
	if at := o.at(batchBranch); at != "" {
		t.Errorf("the branch still stands at %s", at)
	}
	wantPush(t, remove(head), bot.PushDone)
}
