package gitmerge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/batchbot/batchbot/bot"
)

// change says how a branch of the remote may move.
type change struct {
	to    string   // the commit it shall stand at; empty: it shall be gone
	from  []string // where it may stand before; empty text: it may be absent
	lease bool     // force the move from exactly where it stands; otherwise only forwards
	env   []string // where git finds the objects to send
}

// FastForward implements bot.Git. A target that is gone is bot.ErrNotFound.
func (m *Merger) FastForward(ctx context.Context, from bot.GitRemote, target, base, head string) (outcome bot.PushOutcome, err error) {
	mirror, to, err := m.open(from)
	if err == nil {
		err = errors.Join(checkBranch("the target branch", target), checkObjectID("the base", base), checkObjectID("the head", head))
	}
	if err == nil {
		err = mirror.repaired(ctx, func() (err error) {
			outcome, err = mirror.fastForward(ctx, to, target, base, head)
			return err
		})
	}
	if err != nil {
		return bot.PushOutcome{}, fmt.Errorf("fast-forwarding %s to %s: %w", target, head, err)
	}
	return outcome, nil
}

func (m *mirror) fastForward(ctx context.Context, to remote, target, base, head string) (bot.PushOutcome, error) {
	found, err := m.fetch(ctx, to, target, nil) // git wants to see for itself that the move is forwards
	switch {
	case err != nil:
		return bot.PushOutcome{}, err
	case found.tip == head:
		return bot.PushOutcome{Result: bot.PushDone}, nil
	case found.tip != base:
		return bot.PushOutcome{Result: bot.PushForeign, Found: found.tip}, nil
	}
	if err := m.need(ctx, to, "the head", head); err != nil {
		return bot.PushOutcome{}, err
	}
	return m.moveBranch(ctx, to, target, change{to: head, from: []string{base}})
}

// DeleteBranch implements bot.Git.
func (m *Merger) DeleteBranch(ctx context.Context, from bot.GitRemote, branch string, heads []string) (bot.PushOutcome, error) {
	mirror, to, err := m.open(from)
	if err == nil {
		var lock *lockFile
		if lock, err = mirror.lock(ctx); err == nil { // git push wants a repository, even an empty one
			lock.release()
		}
	}
	if err != nil {
		return bot.PushOutcome{}, fmt.Errorf("deleting %s: %w", branch, err)
	}
	return mirror.moveBranch(ctx, to, branch, change{from: heads, lease: true})
}

// moveBranch looks where the branch stands, moves it from there, and after a refusal looks again: the remote's words alone do not tell
// "somebody was faster" from "not allowed". A move that is done already is done, so an interrupted one can be repeated.
func (m *mirror) moveBranch(ctx context.Context, to remote, branch string, wanted change) (bot.PushOutcome, error) {
	fail := func(err error) (bot.PushOutcome, error) {
		return bot.PushOutcome{}, fmt.Errorf("moving %s on the remote: %w", branch, err)
	}
	if err := wanted.check(branch); err != nil {
		return fail(err)
	}
	var before string
	var no *refusal
	for range 4 {
		found, err := m.look(ctx, to, branch)
		switch {
		case err != nil:
			return fail(err)
		case found == wanted.to:
			return bot.PushOutcome{Result: bot.PushDone}, nil
		case !slices.Contains(wanted.from, found):
			return bot.PushOutcome{Result: bot.PushForeign, Found: found}, nil
		case no != nil && found == before && no.local:
			return fail(fmt.Errorf("git will not push: %s", no.message))
		case no != nil && found == before && no.passing():
			return fail(fmt.Errorf("the remote could not: %s", no.message))
		case no != nil && found == before:
			return bot.PushOutcome{Result: bot.PushRefused, Message: no.message}, nil
		}
		before = found
		no, err = m.push(ctx, to, branch, found, wanted)
		if err != nil {
			return fail(err)
		}
		if no == nil {
			return bot.PushOutcome{Result: bot.PushDone}, nil
		}
	}
	return fail(errors.New("it moves faster than it can be looked at"))
}

func (c change) check(branch string) error {
	if err := checkBranch("the branch", branch); err != nil {
		return err
	}
	for _, id := range append([]string{c.to}, c.from...) {
		if id == "" {
			continue // absent
		}
		if err := checkObjectID("a head of the branch", id); err != nil {
			return err
		}
	}
	return nil
}

// look asks the remote where a branch stands; empty if there is none.
func (m *mirror) look(ctx context.Context, at remote, branch string) (string, error) {
	ref := "refs/heads/" + branch
	c := call{args: []string{"ls-remote", "--heads", "--quiet", "--end-of-options", at.url, ref}}
	got, err := m.over(ctx, at, c)
	if err != nil {
		return "", err
	}
	if got.code != 0 {
		return "", remoteFailure(c, got, at)
	}
	for line := range strings.Lines(string(got.stdout)) {
		if id, name, _ := strings.Cut(strings.TrimSpace(line), "\t"); name == ref { // the pattern matches x/refs/heads/… too
			return id, checkObjectID("the remote's answer", id)
		}
	}
	return "", nil
}

// refusal is a push that was answered with no.
type refusal struct {
	local   bool   // git itself would not send it
	reason  string // in lower case
	message string // reason and the remote's words, clean
}

// passing reports whether the refusal is trouble on the remote that can pass, not a rule.
func (r *refusal) passing() bool {
	if strings.Contains(r.reason, "refusing to allow") {
		return false // what follows names files, whose names may hold any of these words
	}
	for _, sign := range []string{
		"unpacker error", "failed to update ref", "cannot lock ref", "failed to lock", "unable to", "internal", "timeout", "timed out",
		"remote failure", "failed to report status", "missing necessary objects", "temporar",
	} {
		if strings.Contains(r.reason, sign) {
			return true
		}
	}
	return false
}

// push sends one change. A nil refusal means that it was taken; an error that there was no answer.
func (m *mirror) push(ctx context.Context, to remote, branch, found string, wanted change) (*refusal, error) {
	ref := "refs/heads/" + branch
	args := []string{"push", "--porcelain", "--no-verify", "--no-signed"}
	if wanted.lease {
		args = append(args, "--force-with-lease="+ref+":"+found)
	}
	c := call{args: append(args, "--end-of-options", to.url, wanted.to+":"+ref), env: wanted.env}
	got, err := m.over(ctx, to, c)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(got.stdout)) {
		flag, rest, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		refs, summary, _ := strings.Cut(rest, "\t")
		if !ok || len(flag) != 1 || !strings.HasSuffix(refs, ":"+ref) {
			continue
		}
		if flag != "!" {
			if got.code != 0 {
				break
			}
			return nil, nil
		}
		return newRefusal(summary, got.stderr, to), nil
	}
	return nil, remoteFailure(c, got, to)
}

// newRefusal reads "[remote rejected] (pre-receive hook declined)" and what the remote said before.
func newRefusal(summary, stderr string, from remote) *refusal {
	said := []string{strings.TrimPrefix(summary, "[remote rejected] ")}
	for line := range strings.Lines(stderr) {
		if words, ok := strings.CutPrefix(line, "remote:"); ok {
			said = append(said, strings.TrimSpace(words))
		}
	}
	return &refusal{
		local:   strings.HasPrefix(summary, "[rejected]"),
		reason:  strings.ToLower(summary),
		message: clean(strings.Join(said, " "), from.secret),
	}
}
