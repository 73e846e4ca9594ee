package explore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/mutant"
)

// access is the host as one instance reaches it: bot.Host.
type access struct {
	*host
	in *instance
}

var _ bot.Host = access{}

// call stops at the gate and then does something on the host.
func (a access) call(ctx context.Context, what kind, name string, do func(v verdict) error) error {
	v, err := a.in.pass(ctx, what, name)
	if err != nil {
		return err
	}
	if err := a.refused(what); err != nil {
		return err
	}
	if v.fault == limited {
		return &bot.RateLimitedError{RetryAfter: 7 * time.Second}
	}
	a.mu.Lock()
	err = do(v)
	a.mu.Unlock()
	switch v.fault {
	case dieAfter:
		a.in.kill()
		return errDead
	case errAfter:
		return errLost
	}
	return err
}

func (a access) ReadMR(ctx context.Context, _ bot.Repository, number int) (mr bot.MRSnapshot, err error) {
	err = a.call(ctx, lookHost, fmt.Sprint("read !", number), func(v verdict) error {
		m := a.mr(number)
		if m == nil {
			return bot.ErrNotFound
		}
		mr = shown(m.versions, v.lag).MRSnapshot
		if told, ok := a.told[actorOf(ctx)]; ok && told.Number == number && mutant.Is(mutant.ReadAgain) {
			mr = told
		}
		return nil
	})
	return mr, err
}

func (a access) HeadRef(number int) string { return pullRef(number) }

func (a access) ListUpdatedMRs(ctx context.Context, _ bot.Repository, since time.Time) (list []bot.MRSnapshot, err error) {
	err = a.call(ctx, lookHost, "list merge requests", func(verdict) error {
		for _, m := range a.mrs {
			if m.State == bot.MROpen && !m.UpdatedAt.Before(since) {
				list = append(list, m.MRSnapshot)
			}
		}
		slices.SortStableFunc(list, func(x, y bot.MRSnapshot) int { return y.UpdatedAt.Compare(x.UpdatedAt) })
		return nil
	})
	return list, err
}

func (a access) Permission(ctx context.Context, _ bot.Repository, actor bot.Actor) (p bot.Permission, err error) {
	err = a.call(ctx, lookHost, "read the permission of "+actor.Login, func(verdict) error {
		p = bot.PermissionWrite
		return nil
	})
	return p, err
}

func (a access) ReadApprovals(ctx context.Context, _ bot.Repository, number int) (approvals bot.Approvals, err error) {
	err = a.call(ctx, lookHost, fmt.Sprint("read the approvals of !", number), func(v verdict) error {
		m := a.mr(number)
		if m == nil {
			return bot.ErrNotFound
		}
		state := shown(m.versions, v.lag)
		approvals = bot.Approvals{Reviews: slices.Clone(state.reviews), Decision: bot.HostDecisionNone}
		a.in.saw(actorOf(ctx), number, state)
		return nil
	})
	return approvals, err
}

func (a access) ReadChecks(ctx context.Context, _ bot.Repository, sha, _ string) (report bot.ChecksReport, err error) {
	err = a.call(ctx, lookHost, "read the checks of "+bot.ShortSHA(sha), func(verdict) error {
		if r := a.runs[sha]; r != nil {
			report.Checks = append(report.Checks, bot.Check{Name: "ci", Source: "runner", State: r.state})
		}
		return nil
	})
	return report, err
}

// SetCommitStatus and React change nothing that anything rests on: no schedule spends a step on them.
func (a access) SetCommitStatus(context.Context, bot.Repository, string, bot.CommitStatus) error {
	return nil
}

func (a access) FindMRs(ctx context.Context, _ bot.Repository, source string) (found []bot.MRSnapshot, err error) {
	err = a.call(ctx, lookHost, "find the merge requests of "+source, func(verdict) error {
		for _, m := range slices.Backward(a.mrs) {
			if m.SourceBranch == source {
				found = append(found, m.MRSnapshot)
			}
		}
		return nil
	})
	return found, err
}

func (a access) OpenMR(ctx context.Context, _ bot.Repository, mr bot.NewMR) (opened bot.MRSnapshot, err error) {
	err = a.call(ctx, writeHost, "open a merge request from "+mr.Source, func(verdict) error {
		if a.git.refs[heads(mr.Source)] == "" {
			return errors.New("there is no such branch")
		}
		for _, m := range a.mrs {
			if m.SourceBranch == mr.Source && m.State == bot.MROpen && !mutant.Is(mutant.Findable) {
				opened = m.MRSnapshot
				return nil
			}
		}
		opened = a.open(theBot, mr.Title, mr.Body, mr.Source, mr.Target).MRSnapshot
		return nil
	})
	return opened, err
}

func (a access) EditMR(ctx context.Context, _ bot.Repository, number int, title, body string) error {
	return a.call(ctx, writeHost, fmt.Sprint("edit !", number), func(verdict) error {
		a.mr(number).Title, a.mr(number).text = title, body
		return nil
	})
}

func (a access) MergeMR(ctx context.Context, _ bot.Repository, number int, head, _, _ string) (answer bot.MergeAnswer, err error) {
	err = a.call(ctx, writeHost, fmt.Sprint("merge !", number), func(v verdict) error {
		m := a.mr(number)
		switch {
		case m.State == bot.MRMerged:
			answer = bot.MergeAnswer{Outcome: bot.MergeDone, SHA: m.MergeSHA}
		case m.State == bot.MRClosed:
			answer = bot.MergeAnswer{Outcome: bot.MergeClosed}
		case m.HeadSHA != head:
			answer = bot.MergeAnswer{Outcome: bot.MergeHeadMoved}
		case v.fault == notReady:
			answer = bot.MergeAnswer{Outcome: bot.MergeNotReady}
		case v.fault == sayRefused:
			answer = bot.MergeAnswer{Outcome: bot.MergeRefused, Message: "not now"}
		default:
			if words := a.merge(m, "merge"); words != "" {
				answer = bot.MergeAnswer{Outcome: bot.MergeRefused, Message: words}
			} else {
				answer = bot.MergeAnswer{Outcome: bot.MergeDone, SHA: m.MergeSHA}
			}
		}
		return nil
	})
	return answer, err
}

func (a access) CloseMR(ctx context.Context, _ bot.Repository, number int) error {
	return a.call(ctx, writeHost, fmt.Sprint("close !", number), func(verdict) error {
		if m := a.mr(number); m.State == bot.MROpen {
			m.State = bot.MRClosed
			m.ClosedBy = theBot.Login
			a.changed(m)
		}
		return nil
	})
}

func (a access) UpsertComment(ctx context.Context, _ bot.Repository, number int, marker, body string, known int64) (id int64, err error) {
	err = a.call(ctx, writeHost, fmt.Sprintf("comment on !%d %s", number, marker), func(verdict) error {
		for i := range a.said {
			if s := &a.said[i]; (s.id == known && known != 0) || (s.number == number && s.marker == marker) {
				s.body = body
				id = s.id
				return nil
			}
		}
		a.lastID++
		id = a.lastID
		a.said = append(a.said, said{id: id, number: number, marker: marker, body: body})
		return nil
	})
	return id, err
}

func (a access) HasComment(ctx context.Context, _ bot.Repository, number int, id int64) (found bool, err error) {
	err = a.call(ctx, lookHost, fmt.Sprintf("look for comment %d on !%d", id, number), func(verdict) error {
		found = slices.ContainsFunc(a.said, func(s said) bool { return s.number == number && s.id == id })
		return nil
	})
	return found, err
}

func (a access) React(context.Context, bot.Repository, int, bot.CommentKind, int64, bot.Reaction) error {
	return nil
}

func (a access) ListComments(ctx context.Context, _ bot.Repository, since time.Time) (list []bot.Comment, err error) {
	err = a.call(ctx, lookHost, "list comments", func(verdict) error {
		for _, c := range a.comments {
			if !c.CreatedAt.Before(since) {
				list = append(list, c)
			}
		}
		return nil
	})
	return list, err
}

func (a access) ListReviewComments(context.Context, bot.Repository, int) ([]bot.Comment, error) {
	return nil, nil
}

func (a access) ListRepositories(context.Context) ([]bot.RepositoryRef, error) {
	return []bot.RepositoryRef{theRepo}, nil
}

func (a access) ReadRepository(context.Context, bot.Repository) (bot.HostRepository, error) {
	return bot.HostRepository{RepositoryRef: theRepo, MergeCommits: true}, nil
}

func (a access) ReadTargetRules(context.Context, bot.Repository, string) (bot.TargetRules, error) {
	return bot.TargetRules{BotBypasses: true}, nil
}

func (a access) ReadBranch(ctx context.Context, _ bot.Repository, branch string) (tip string, err error) {
	err = a.call(ctx, lookHost, "read the branch "+branch, func(v verdict) error {
		versions := a.branches[branch]
		if len(versions) > 0 {
			tip = shown(versions, v.lag)
		}
		if tip == "" {
			return bot.ErrNotFound
		}
		return nil
	})
	return tip, err
}

func (a access) ReadFile(_ context.Context, _ bot.Repository, branch, _ string) ([]byte, string, error) {
	if err := a.refused(lookHost); err != nil {
		return nil, "", err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if branch != target || a.git.at(heads(target)) == nil {
		return nil, "", bot.ErrNotFound
	}
	return a.file, objectID("blob", a.file), nil
}

func (a access) MRURL(_ bot.Repository, number int) string {
	return fmt.Sprintf("https://hub.test/%d", number)
}
func (a access) MRMark() string { return "#" }

func (a access) GitRemote(context.Context, bot.Repository) (bot.GitRemote, error) {
	return bot.GitRemote{Key: "hub/4711", URL: "memory"}, nil
}

// gitAccess is git as one instance reaches it: bot.Git behind gates.
type gitAccess struct {
	access
	git bot.Git
}

func (g gitAccess) Build(ctx context.Context, remote bot.GitRemote, spec bot.BuildSpec) (made bot.Build, err error) {
	err = g.call(ctx, lookHost, "build", func(verdict) (err error) {
		made, err = g.git.Build(ctx, remote, spec)
		return err
	})
	if err != nil {
		return nil, err
	}
	return gatedBuild{g, made}, nil
}

type gatedBuild struct {
	gitAccess
	bot.Build
}

func (b gatedBuild) Push(ctx context.Context, branch string, known []string) (out bot.PushOutcome, err error) {
	err = b.call(ctx, writeHost, "push "+branch, func(verdict) (err error) {
		out, err = b.Build.Push(ctx, branch, known)
		return err
	})
	return out, err
}

func (b gatedBuild) PushBase(ctx context.Context, branch string, known []string) (out bot.PushOutcome, err error) {
	err = b.call(ctx, writeHost, "push the base to "+branch, func(verdict) (err error) {
		out, err = b.Build.PushBase(ctx, branch, known)
		return err
	})
	return out, err
}

func (g gitAccess) FastForward(ctx context.Context, remote bot.GitRemote, branch, base, head string) (out bot.PushOutcome, err error) {
	err = g.call(ctx, writeHost, "fast-forward "+branch, func(verdict) (err error) {
		from := g.host.git.refs[heads(branch)]
		out, err = g.git.FastForward(ctx, remote, branch, base, head)
		if to := g.host.git.refs[heads(branch)]; from != to && branch == target {
			g.onLanding("push", from, to)
		}
		return err
	})
	return out, err
}

func (g gitAccess) DeleteBranch(ctx context.Context, remote bot.GitRemote, branch string, known []string) (out bot.PushOutcome, err error) {
	err = g.call(ctx, writeHost, "delete "+branch, func(verdict) (err error) {
		out, err = g.git.DeleteBranch(ctx, remote, branch, known)
		return err
	})
	return out, err
}

func (g gitAccess) ChangedPaths(ctx context.Context, remote bot.GitRemote, branch string, m bot.BuildMember) (paths []string, known bool, err error) {
	err = g.call(ctx, lookHost, "list changed paths", func(verdict) (err error) {
		paths, known, err = g.git.ChangedPaths(ctx, remote, branch, m)
		return err
	})
	return paths, known, err
}

func (g gitAccess) Inspect(ctx context.Context, remote bot.GitRemote, q bot.InspectSpec) (found bot.Inspection, err error) {
	err = g.call(ctx, lookHost, fmt.Sprint("inspect ", q.Target, " for ", q.Heads), func(verdict) (err error) {
		found, err = g.git.Inspect(ctx, remote, q)
		return err
	})
	return found, err
}
