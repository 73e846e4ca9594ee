package round

import (
	"context"
	"fmt"
	"strings"

	"github.com/batchbot/batchbot/bot"
)

// pushRefused finds out whom a refused push is about, and takes them out; the rest is built again. Hosts name the files or commits they
// object to. Where the words name nobody and the host would take the branch without members, one half of them waits for the next batch,
// until one is left and it is that one. Where the host does not take even that, it is nobody's fault.
func (d *Driver) pushRefused(ctx context.Context, t tick, built bot.Build, heads []string, said string) (Result, error) {
	riders := riding(t.members, built.Result())
	var moves []bot.Move
	for _, member := range riders {
		named, err := names(ctx, built, member, said)
		if err != nil {
			return Result{}, err
		}
		if named {
			moves = append(moves, refusedMove(member, said))
		}
	}
	if len(moves) > 0 {
		return d.evictAll(ctx, t, moves)
	}
	branch := t.batch.Branch(t.queue.Target)
	outcome, err := built.PushBase(ctx, branch, heads)
	if err != nil {
		return Result{}, fmt.Errorf("pushing %s without members: %w", branch, err)
	}
	if outcome.Result != bot.PushDone {
		return d.act(ctx, t, action{verb: fail, code: bot.CodePushRefused, why: "the host refused the push of the batch branch: " + said + "; let the bot push to batchbot/**, then resume the queue"})
	}
	if len(riders) == 1 {
		return d.evictAll(ctx, t, []bot.Move{refusedMove(riders[0], said)})
	}
	if t.batch.Kind == bot.BatchCurated { // there is no smaller batch to try
		return d.evictAll(ctx, t, []bot.Move{refusedMove(riders[0], said+" (which member is meant, the host does not say)")})
	}
	for _, member := range riders[(len(riders)+1)/2:] {
		move := refusedMove(member, said)
		move.To, move.Notify = bot.OperationWaiting, false
		moves = append(moves, move)
	}
	return d.evictAll(ctx, t, moves)
}

// riding lists the members that are in a build, in order.
func riding(members []bot.Operation, result bot.BuildResult) []bot.Operation {
	merged := make(map[string]bool, len(members))
	for _, m := range result.Members {
		merged[m.OperationID] = m.Fate == bot.FateMerged
	}
	var riders []bot.Operation
	for _, m := range members {
		if merged[m.ID] {
			riders = append(riders, m)
		}
	}
	return riders
}

// names reports whether a host's words name a file or a commit that a member brings.
func names(ctx context.Context, built bot.Build, member bot.Operation, said string) (bool, error) {
	brings, err := built.Contribution(ctx, bot.BuildMember{OperationID: member.ID, Number: member.Number, HeadSHA: member.HeadSHA})
	if err != nil {
		return false, fmt.Errorf("asking what !%d brings: %w", member.Number, err)
	}
	for _, file := range brings.Files {
		if namesPath(said, file) {
			return true, nil
		}
	}
	for _, commit := range brings.Commits {
		if strings.Contains(said, commit) {
			return true, nil
		}
	}
	return false, nil
}

// namesPath finds a path in a text as a word of its own: "ci.yml" is not named by "old-ci.yml" or "ci.yml2". A path that may be a word of the
// language, such as "a" or "update", counts only in quotes.
func namesPath(text, path string) bool {
	if !strings.ContainsAny(path, "./_-") {
		for _, quote := range []string{"`", "'", `"`} {
			if strings.Contains(text, quote+path+quote) {
				return true
			}
		}
		return false
	}
	for rest := text; ; {
		before, after, found := strings.Cut(rest, path)
		if !found {
			return false
		}
		goesOn := strings.TrimLeft(after, ".") // a full stop ends a sentence, unless a name goes on behind it
		if (before == "" || !inPath(before[len(before)-1])) && (goesOn == "" || !inPath(goesOn[0])) {
			return true
		}
		rest = rest[len(before)+1:]
	}
}

func inPath(c byte) bool {
	return c == '_' || c == '-' || c == '/' || c == '.' || c >= 0x80 ||
		'0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func refusedMove(member bot.Operation, said string) bot.Move {
	return bot.Move{
		OperationID: member.ID, From: member.Status, Version: member.Version, To: bot.OperationFailed,
		Reason: bot.ReasonPushRefused, Detail: said, Notify: true, By: "batchbot",
	}
}

// evictAll performs moves out of the batch one after the other. Each write takes the batch one version further; when something else did
// so meanwhile, what is left is found again by the next tick.
//
// Out of a curated batch one goes, and takes all the others along in the same write.
func (d *Driver) evictAll(ctx context.Context, t tick, moves []bot.Move) (Result, error) {
	if t.batch.Kind == bot.BatchCurated {
		moves = moves[:1]
	}
	guard := t.batch.Guard()
	for _, move := range moves {
		now := guard
		move.Batch = &now
		result, err := d.Store.Move(ctx, move)
		if err != nil {
			return Result{}, fmt.Errorf("evicting %s from batch %d: %w", move.OperationID, t.batch.ID, err)
		}
		if result != bot.MoveDone {
			return stale, nil
		}
		guard.Version++
		guard.Phase = bot.PhaseClaimed
	}
	d.NudgeOutbox()
	return Result{Did: fmt.Sprintf("evicted %d: %s", len(moves), moves[0].Reason), Again: true}, nil
}
