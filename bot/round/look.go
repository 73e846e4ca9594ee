package round

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/mutant"
)

// view is all that a decision rests on. What a phase does not need is left zero.
type view struct {
	queue   bot.Queue
	waiting bot.WaitingSet // slot free

	obstacle string // slot free and something waits: why no batch can land on the target

	active  bool
	batch   bot.Batch
	members []bot.Operation

	mr         bot.MRSnapshot // batch MR; State 0: there is none yet
	branchTip  string         // BUILT: where the batch branch stands on the host; empty: absent
	branchGone bool           // OPENED, LANDING: the batch branch does not exist
	targetTip  string         // OPENED, LANDING, BLOCKED
	headKnown  bool           // the batch MR's head is one recorded for this batch
	headLanded bool           // the target contains the batch head
	checks     bot.CIJudgement
	decision   bot.HostDecision // OPENED with NEEDS_APPROVAL: what the host says of the batch MR's reviews

	looked bool       // the members were read again just now
	moves  []bot.Move // what that look says must change first
}

// tick is a view with the means to act on it.
type tick struct {
	view
	repo bot.Repository
	host bot.Host

	by, source string // an operator, when one settles the batch; empty: the bot itself
}

// errTargetGone says the queue's target branch does not exist any more.
var errTargetGone = errors.New("the target branch does not exist on the host")

// look reads the rows of a queue and, as far as the batch's phase needs it, the host.
func (d *Driver) look(ctx context.Context, queueID int64) (t tick, err error) {
	t.queue, t.repo, err = d.Store.ReadQueue(ctx, queueID)
	if err != nil {
		return t, fmt.Errorf("reading queue %d: %w", queueID, err)
	}
	host, ok := d.Hosts[t.repo.Host]
	if !ok {
		return t, fmt.Errorf("queue %d belongs to host %q, which is not configured: add it to hosts, or end the queue's repository", queueID, t.repo.Host)
	}
	t.host = host
	t.batch, t.members, t.active, err = d.Store.ActiveBatch(ctx, queueID)
	if err != nil {
		return t, fmt.Errorf("reading the active batch of queue %d: %w", queueID, err)
	}
	if !t.active {
		t.waiting, err = d.Store.Waiting(ctx, queueID)
		if err != nil {
			return t, fmt.Errorf("reading what waits in queue %d: %w", queueID, err)
		}
		if t.queue.State != bot.QueueOpen || t.waiting.Empty() {
			return t, nil
		}
		// Rules change while requests wait: a batch that could not land is not begun.
		rules, err := t.host.ReadTargetRules(ctx, t.repo, t.queue.Target)
		if err != nil {
			return t, fmt.Errorf("reading the rules of %s of %s: %w", t.queue.Target, t.repo.Path, err)
		}
		t.obstacle = bot.LandingObstacle(t.queue.Settings.Landing, rules)
		return t, nil
	}
	switch {
	case t.batch.Code.Fails() && t.batch.Status == bot.BatchRunning:
		return t, nil // the failure is decided; settlement reads what it needs
	case t.batch.Status == bot.BatchBlocked:
		return t, d.lookBlocked(ctx, &t)
	case t.batch.Phase == bot.PhaseBuilt && len(t.members) > 0:
		return t, d.lookBranch(ctx, &t)
	case t.batch.Phase == bot.PhaseOpened, t.batch.Phase == bot.PhaseLanding:
		return t, d.lookOpened(ctx, &t)
	}
	return t, nil
}

// lookOpened reads the batch MR, the target and, while CI is awaited, the checks.
func (d *Driver) lookOpened(ctx context.Context, t *tick) error {
	if err := d.lookMR(ctx, t); err != nil {
		return err
	}
	if t.mr.State == bot.MRMerged {
		return nil
	}
	if err := d.lookTarget(ctx, t); err != nil {
		return err
	}
	// Whether the head landed matters only when the MR is shut or the target is not where the batch was built.
	if t.mr.State == bot.MRClosed || t.targetTip != t.batch.BaseSHA {
		if err := d.lookLanded(ctx, t); err != nil {
			return err
		}
	}
	// Some hosts close an MR whose branch is deleted, others leave it open and broken.
	if err := d.lookBranch(ctx, t); err != nil {
		return err
	}
	if t.batch.Phase != bot.PhaseOpened || t.mr.State != bot.MROpen || t.mr.HeadSHA != t.batch.HeadSHA || t.targetTip != t.batch.BaseSHA || t.branchGone {
		return nil
	}
	if t.batch.Code == bot.CodeNeedsApproval {
		approvals, err := t.host.ReadApprovals(ctx, t.repo, t.batch.MRNumber)
		if err != nil {
			return fmt.Errorf("reading the approvals of the MR !%d of batch %d: %w", t.batch.MRNumber, t.batch.ID, err)
		}
		t.decision = approvals.Decision
	}
	return d.lookChecks(ctx, t)
}

// lookBlocked reads what may have resolved a blocked batch.
func (d *Driver) lookBlocked(ctx context.Context, t *tick) error {
	if t.batch.MRNumber == 0 {
		if err := d.lookBranch(ctx, t); err != nil {
			return err
		}
	} else if err := d.lookMR(ctx, t); err != nil {
		return err
	}
	if t.mr.State == bot.MRMerged {
		return nil
	}
	if err := d.lookTarget(ctx, t); err != nil {
		return err
	}
	if t.mr.State == bot.MRClosed || t.targetTip != t.batch.BaseSHA {
		return d.lookLanded(ctx, t)
	}
	return nil
}

// lookBranch reads where the batch branch stands.
func (d *Driver) lookBranch(ctx context.Context, t *tick) (err error) {
	t.branchTip, err = t.host.ReadBranch(ctx, t.repo, t.batch.Branch(t.queue.Target))
	t.branchGone = errors.Is(err, bot.ErrNotFound)
	if err != nil && !t.branchGone {
		return fmt.Errorf("reading the branch of batch %d: %w", t.batch.ID, err)
	}
	return nil
}

func (d *Driver) lookMR(ctx context.Context, t *tick) (err error) {
	t.mr, err = t.host.ReadMR(ctx, t.repo, t.batch.MRNumber)
	if err != nil {
		return fmt.Errorf("reading the MR !%d of batch %d: %w", t.batch.MRNumber, t.batch.ID, err)
	}
	heads, err := d.Store.RecordedHeads(ctx, t.batch.ID)
	if err != nil {
		return fmt.Errorf("reading the heads of batch %d: %w", t.batch.ID, err)
	}
	t.headKnown = slices.Contains(heads, t.mr.HeadSHA)
	return nil
}

func (d *Driver) lookTarget(ctx context.Context, t *tick) (err error) {
	t.targetTip, err = t.host.ReadBranch(ctx, t.repo, t.queue.Target)
	if errors.Is(err, bot.ErrNotFound) {
		return fmt.Errorf("%s: %w", t.queue.Target, errTargetGone)
	}
	if err != nil {
		return fmt.Errorf("reading the target %s: %w", t.queue.Target, err)
	}
	return nil
}

// lookLanded asks git whether the target contains the batch head. A build in which nobody merged has no head but its base, which is in
// the target and says nothing.
func (d *Driver) lookLanded(ctx context.Context, t *tick) error {
	if t.batch.HeadSHA == "" || t.batch.HeadSHA == t.batch.BaseSHA {
		return nil
	}
	found, err := d.inspect(ctx, *t, bot.InspectSpec{Target: t.queue.Target, Heads: []string{t.batch.HeadSHA}})
	if err != nil {
		return err
	}
	t.headLanded = found.Contained[t.batch.HeadSHA]
	return nil
}

func (d *Driver) lookChecks(ctx context.Context, t *tick) error {
	sha := t.batch.HeadSHA
	if mutant.Is(mutant.OwnVerdict) {
		sha = d.mutantHead(ctx, t.batch)
	}
	report, err := t.host.ReadChecks(ctx, t.repo, sha, t.queue.Target)
	if err != nil {
		return fmt.Errorf("reading the checks of batch %d: %w", t.batch.ID, err)
	}
	quiet, err := d.Store.ObserveChecks(ctx, t.batch.ID, report.Fingerprint())
	if err != nil {
		return fmt.Errorf("noting the checks of batch %d: %w", t.batch.ID, err)
	}
	t.batch.ChecksQuiet = quiet
	t.checks = bot.JudgeChecks(t.queue.Settings.Checks, report, t.batch.PhaseAge, quiet)
	return nil
}

// lookMembers reads every member again: open, head, target, draft, approval. It fills moves with what must change before the
// batch may land.
func (d *Driver) lookMembers(ctx context.Context, t *tick) error {
	moves := make([]*bot.Move, len(t.members))
	err := eachMember(t.members, func(i int, member bot.Operation) error {
		mr, err := t.host.ReadMR(ctx, t.repo, member.Number)
		if errors.Is(err, bot.ErrNotFound) {
			mr, err = bot.MRSnapshot{Number: member.Number, State: bot.MRClosed}, nil
		}
		if err != nil {
			return fmt.Errorf("reading member !%d: %w", member.Number, err)
		}
		verdict, err := d.judge(ctx, *t, mr)
		if err != nil {
			return err
		}
		if move, needed := bot.Reconcile(member, mr, verdict, &t.batch); needed {
			moves[i] = &move
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, m := range moves {
		if m != nil {
			t.moves = append(t.moves, *m)
		}
	}
	t.looked = true
	return nil
}

// judge reads who approved a merge request at its head.
func (d *Driver) judge(ctx context.Context, t tick, mr bot.MRSnapshot) (bot.ApprovalVerdict, error) {
	approvals, err := bot.ReadApprovals(ctx, d.Git, t.host, t.repo, &mr)
	if err != nil && !errors.Is(err, bot.ErrNotFound) {
		return bot.ApprovalVerdict{}, err
	}
	return bot.JudgeMR(t.queue.Settings.Approvals, mr, approvals), nil
}

// approvers reads who approved each member at its pinned head, by operation id, for the batch MR's table.
func (d *Driver) approvers(ctx context.Context, t tick) (map[string][]string, error) {
	names := make([][]string, len(t.members))
	err := eachMember(t.members, func(i int, member bot.Operation) error {
		verdict, err := d.judge(ctx, t, bot.MRSnapshot{Number: member.Number, Author: member.Author, HeadSHA: member.HeadSHA})
		names[i] = verdict.Approvers
		return err
	})
	byOperation := make(map[string][]string, len(t.members))
	for i, member := range t.members {
		byOperation[member.ID] = names[i]
	}
	return byOperation, err
}

// eachMember calls do for every member, a few at a time, and joins the errors.
func eachMember(members []bot.Operation, do func(i int, member bot.Operation) error) error {
	var wg sync.WaitGroup
	slots := make(chan struct{}, 8)
	errs := make([]error, len(members))
	for i, member := range members {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			errs[i] = do(i, member)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (d *Driver) inspect(ctx context.Context, t tick, question bot.InspectSpec) (bot.Inspection, error) {
	remote, err := t.host.GitRemote(ctx, t.repo)
	if err != nil {
		return bot.Inspection{}, fmt.Errorf("getting git access to %s: %w", t.repo.Path, err)
	}
	found, err := d.Git.Inspect(ctx, remote, question)
	if err != nil {
		return bot.Inspection{}, fmt.Errorf("inspecting %s of %s: %w", question.Target, t.repo.Path, err)
	}
	return found, nil
}
