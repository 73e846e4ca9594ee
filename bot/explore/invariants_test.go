package explore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/store/memory"
)

// watch is what the invariants remember.
type watch struct {
	tested     map[string]bool // trees that CI passed
	batches    map[int64]bot.Batch
	operations map[string]bot.Operation
	differs    map[int64]string // batch → untested commit it landed, until it says so
	rewound    bool             // somebody took commits off the target
	landing    map[string]bool  // heads that rode in a batch that was LANDING
	ever       set              // commits that were on the target at any time, whoever took them off
}

func newWatch() watch {
	return watch{
		tested: make(map[string]bool), batches: make(map[int64]bot.Batch), operations: make(map[string]bot.Operation),
		differs: make(map[int64]string), landing: make(map[string]bool),
	}
}

// wrote notes that a transaction took effect.
func (w *world) wrote(in *instance, _, _ string) {
	w.writer.Store(in)
	w.dirty.Store(true)
}

// check holds the rows to the invariants after every write.
func (w *world) check() {
	if !w.dirty.Swap(false) {
		return
	}
	rows := w.look()
	w.checkRows(rows)
	w.checkHistory(rows)
	w.checkHost()
}

// checkRows looks at one moment: I1, I2, I4, I5.
func (w *world) checkRows(rows memory.Rows) {
	active := make(map[int64]int64)
	batches := make(map[int64]bot.Batch)
	for _, b := range rows.Batches {
		batches[b.ID] = b
		if !b.Status.Active() {
			continue
		}
		if other := active[b.QueueID]; other != 0 {
			w.violate("I1: batches %d and %d of queue %d are both active", other, b.ID, b.QueueID)
		}
		active[b.QueueID] = b.ID
		if rows.Claimed[b.ID] != b.Size || b.Size == 0 {
			w.violate("batch %d claimed %d members and says %d", b.ID, rows.Claimed[b.ID], b.Size)
		}
	}
	operations := make(map[string]bot.Operation)
	for _, o := range rows.Operations {
		operations[o.ID] = o
	}
	requests := make(map[string]bool)
	for _, r := range rows.Requests {
		o := operations[r.OperationID]
		if requests[r.OperationID] {
			w.violate("I4: operation %s of !%d is admitted twice", r.OperationID, o.Number)
		}
		requests[r.OperationID] = true
		if r.BatchID != 0 && active[r.QueueID] != r.BatchID {
			w.violate("I2: !%d rides in batch %d, which is %s", o.Number, r.BatchID, batches[r.BatchID].Status)
		}
		want := bot.OperationWaiting
		if r.BatchID != 0 {
			want = bot.OperationBatched
		}
		if o.Status != want {
			w.violate("I2: the request of !%d says %s and its operation %s", o.Number, want, o.Status)
		}
	}
	for _, o := range rows.Operations {
		if (o.Status == bot.OperationWaiting || o.Status == bot.OperationBatched) && !requests[o.ID] {
			w.violate("!%d is %s and has no request", o.Number, o.Status)
		}
	}
	bound := make(map[string]bool)
	open := make(map[int]string)
	for _, b := range rows.Bindings {
		key := fmt.Sprint(b.SubjectID, b.Target)
		if bound[key] {
			w.violate("I5: two bindings of merge request row %d and %s", b.SubjectID, b.Target)
		}
		bound[key] = true
		if o := operations[b.OperationID]; o.Status != b.Status || b.LastHistory != b.Status {
			w.violate("I5: the binding of !%d says %s, its operation %s and its history %s", o.Number, b.Status, o.Status, b.LastHistory)
		}
	}
	for _, o := range rows.Operations {
		if o.Status.Open() {
			if other := open[o.Number]; other != "" {
				w.violate("I4: !%d has two operations on their way, %s and %s", o.Number, other, o.ID)
			}
			open[o.Number] = o.ID
		}
	}
}

// checkHistory compares with the moment before: I6, I7.
func (w *world) checkHistory(rows memory.Rows) {
	landing := make(map[int64]bool) // active both before and after, and LANDING before
	for _, b := range rows.Batches {
		before, known := w.watch.batches[b.ID]
		w.watch.batches[b.ID] = b
		landing[b.ID] = b.Status.Active() && before.Status.Active() && before.Phase == bot.PhaseLanding
		if !known {
			for _, id := range w.untoldDiffers() {
				w.violate("I7: batch %d began before batch %d said that it landed the untested %s", b.ID, id, bot.ShortSHA(w.watch.differs[id]))
			}
			continue
		}
		if b.Version < before.Version {
			w.violate("I6: batch %d went back from version %d to %d", b.ID, before.Version, b.Version)
		}
		if !before.Status.Active() && (b.Version != before.Version || b.Status != before.Status || b.Code != before.Code) {
			w.violate("I6: batch %d changed from %s %s to %s %s after its end", b.ID, before.Status, before.Code, b.Status, b.Code)
		}
		if b.LandedDiffers {
			delete(w.watch.differs, b.ID)
		}
		if before.Status.Active() && !b.Status.Active() {
			w.counts.ends[string(b.Code)]++
		}
		if b.Phase == bot.PhaseLanding && before.Phase != bot.PhaseLanding {
			w.checkConsent(rows, b)
		}
	}
	for _, o := range rows.Operations {
		before, known := w.watch.operations[o.ID]
		w.watch.operations[o.ID] = o
		if before.BatchID != 0 && o.BatchID != before.BatchID && landing[before.BatchID] {
			w.violate("I7: !%d left batch %d, which was LANDING, and is %s", o.Number, before.BatchID, o.Status)
		}
		if known && o.Version < before.Version {
			w.violate("I6: the operation of !%d went back from version %d to %d", o.Number, before.Version, o.Version)
		}
		if known && o.Status != before.Status && o.Version == before.Version+1 && !before.Status.CanBecome(o.Status) {
			w.violate("I6: !%d went from %s to %s", o.Number, before.Status, o.Status)
		}
		if known && o.HeadSHA != before.HeadSHA && !w.stale {
			all := w.host.mr(o.Number).heads
			if lastIndex(all, o.HeadSHA) < slices.Index(all, before.HeadSHA) {
				w.violate("I6: !%d went back from %s to the older %s", o.Number, bot.ShortSHA(before.HeadSHA), bot.ShortSHA(o.HeadSHA))
			}
		}
		if o.Status == bot.OperationMerged && before.Status != bot.OperationMerged && !w.watch.ever.has(w.host.git.commits[o.HeadSHA].index) && !w.mergedElsewhere(o) {
			w.violate("I7: !%d is recorded as merged because %q, but the target never contained %s", o.Number, o.Reason, bot.ShortSHA(o.HeadSHA))
		}
	}
}

// mergedElsewhere reports whether the host itself calls the merge request merged: by a person, with other commits or into another branch.
func (w *world) mergedElsewhere(o bot.Operation) bool {
	return o.Reason == bot.ReasonMergedOutside && w.host.mr(o.Number).State == bot.MRMerged
}

func lastIndex(all []string, wanted string) int {
	for i, s := range slices.Backward(all) {
		if s == wanted {
			return i
		}
	}
	return -1
}

// checkConsent wants every member of a batch that is about to land to have been approved at its pinned head when whoever lands it looked last.
func (w *world) checkConsent(rows memory.Rows, b bot.Batch) {
	in := w.writer.Load()
	for _, o := range rows.Operations {
		if o.BatchID != b.ID {
			continue
		}
		w.nudges.Lock()
		read := in.reads[fmt.Sprint(loops[roundLoop], o.Number)]
		w.nudges.Unlock()
		w.watch.landing[o.HeadSHA] = true
		if read.HeadSHA = o.HeadSHA; !approvedAt(read, in.wants) {
			w.violate("I7: %s lands batch %d with !%d at %s, which was not approved when it looked last", in, b.ID, o.Number, bot.ShortSHA(o.HeadSHA))
		}
	}
}

// landing looks at every move of the target: I7.
func (w *world) landing(who, from, to string) {
	git := w.host.git
	before, after := git.commits[from], git.commits[to]
	defer func() { w.watch.ever = w.watch.ever.with(after.past) }()
	w.log("the target goes from %s to %s by %s", bot.ShortSHA(from), bot.ShortSHA(to), who)
	if before != nil && !after.contains(before) {
		w.violate("I7: %s took %s off the target", who, bot.ShortSHA(from))
		return
	}
	if tested := w.watch.tested[after.tree]; who == "push" || (who == "merge" && tested) {
		w.checkLanded(before, after)
	}
	if after.red() {
		w.flaked = true // whatever is built on it fails
	}
	if w.watch.tested[after.tree] {
		return
	}
	if who == "push" {
		w.violate("I7: %s was pushed onto the target, and its tree was not tested", bot.ShortSHA(to))
		return
	}
	// Merged by the host, for the bot or for a person: the batch it belongs to has to say so. A person who merges a batch MR before CI is done
	// lands what was built, and knows it.
	for _, m := range w.host.mrs {
		if m.MergeSHA != to || m.Author != theBot || (who == "person" && git.commits[m.HeadSHA].tree == after.tree) {
			continue
		}
		if id := batchOf(m.SourceBranch); w.watch.batches[id].Status.Active() {
			w.watch.differs[id] = to
		}
	}
}

// checkLanded wants of everything the bot itself lands that it was not there before, and rode in a batch whose row says LANDING, or that went back from
// there because the host refused: of two instances that called at once it may refuse one and let the other. Where somebody put
// the target back to where that batch was built, an instance that slept in its landing call since may land it when it is over: no host can tell.
func (w *world) checkLanded(before, after *commit) {
	rows := w.look()
	landing := make(map[int64]bool)
	for _, b := range rows.Batches {
		landing[b.ID] = b.Status.Active() && (b.Phase == bot.PhaseLanding || (b.Phase == bot.PhaseOpened && b.Refusals > 0))
	}
	rides := make(map[string]bool)
	for _, o := range rows.Operations {
		rides[o.HeadSHA] = rides[o.HeadSHA] || landing[o.BatchID]
	}
	for _, c := range w.host.git.ordered {
		if !after.past.has(c.index) || w.watch.ever.has(c.index) || len(c.parents) < 2 || !strings.Contains(c.raw, identity) {
			continue
		}
		head := c.parents[1]
		switch {
		case before.contains(head):
			w.violate("I7: %s landed twice", bot.ShortSHA(head.id))
		case !rides[head.id] && !(w.watch.rewound && w.watch.landing[head.id]):
			w.violate("I7: the bot landed %s, which rides in no batch that is LANDING", bot.ShortSHA(head.id))
		}
	}
}

// untoldDiffers lists the batches that landed something untested and have not said so.
func (w *world) untoldDiffers() []int64 {
	var ids []int64
	for id := range w.watch.differs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// batchOf reads the id out of a batch branch's name.
func batchOf(branch string) int64 {
	rest, _ := strings.CutPrefix(branch, bot.BatchBranchPrefix)
	digits, _, _ := strings.Cut(rest, "-")
	id, _ := strconv.ParseInt(digits, 10, 64)
	return id
}

// checkHost looks at what the bot made there: I8.
func (w *world) checkHost() {
	branches, open := make(map[int64]string), make(map[int64]int)
	for _, m := range w.host.mrs {
		if m.Author != theBot {
			continue
		}
		id := batchOf(m.SourceBranch)
		if branches[id] != "" && branches[id] != m.SourceBranch {
			w.violate("I8: batch %d has two branches, %s and %s", id, branches[id], m.SourceBranch)
		}
		branches[id] = m.SourceBranch
		if m.State != bot.MROpen {
			continue
		}
		if open[id] != 0 {
			w.violate("I8: batch %d has two merge requests, !%d and !%d", id, open[id], m.Number)
		}
		open[id] = m.Number
	}
	comments := make(map[string]bool)
	for _, s := range w.host.said {
		key := fmt.Sprint(s.number, s.marker)
		if comments[key] {
			w.violate("I8: said twice on !%d: %s", s.number, s.marker)
		}
		comments[key] = true
	}
}

// unsettled says what is still on its way, "" if nothing is: everything rests that does not wait for a person.
func (w *world) unsettled() string {
	rows := w.look()
	switch {
	case rows.DueInbox > 0:
		return fmt.Sprintf("%d deliveries are due", rows.DueInbox)
	case rows.DueErrands > 0:
		return fmt.Sprintf("%d errands are due", rows.DueErrands)
	}
	open := make(map[int64]bool)
	for _, q := range rows.Queues {
		open[q.ID] = q.State == bot.QueueOpen
		if !open[q.ID] && q.Reason == "" {
			w.violate("I9: queue %d is %s and does not say why", q.ID, q.State)
		}
	}
	busy := make(map[int64]bool)
	for _, b := range rows.Batches {
		if !b.Status.Active() {
			continue
		}
		busy[b.QueueID] = true
		switch {
		case b.Status == bot.BatchBlocked && b.Code != "" && b.Message != "":
		case b.Status == bot.BatchBlocked:
			w.violate("I9: batch %d is BLOCKED and does not say why", b.ID)
		case !open[b.QueueID] && (b.Phase == bot.PhaseOpened):
		case b.Code == bot.CodeManual, b.Code == bot.CodeNeedsApproval:
		default:
			return fmt.Sprintf("batch %d is %s %s %s: %s", b.ID, b.Status, b.Phase, b.Code, b.Message)
		}
	}
	for _, r := range rows.Requests {
		if r.BatchID == 0 && open[r.QueueID] && !busy[r.QueueID] {
			return fmt.Sprintf("the request of operation %s waits in an open queue without a batch", r.OperationID)
		}
	}
	for _, o := range rows.Operations {
		if words := w.astray(o); words != "" {
			return words
		}
	}
	return ""
}

// astray says how an operation differs from what the host shows, "" if it does not.
func (w *world) astray(o bot.Operation) string {
	m := w.host.mr(o.Number)
	if !o.Status.Followed() {
		return ""
	}
	approved := approvedAt(mrState{m.MRSnapshot, m.reviews}, w.wanted(o.QueueID)) && !m.Draft
	riding := o.Status == bot.OperationBatched
	switch {
	case m.State != bot.MROpen && !riding:
		return fmt.Sprintf("!%d is %s on the host and %s here", m.Number, m.State, o.Status)
	case m.Target != o.Target && o.Status != bot.OperationFailed && !riding:
		return fmt.Sprintf("!%d is for %s by now and %s here", m.Number, m.Target, o.Status)
	case m.HeadSHA != o.HeadSHA && m.State == bot.MROpen && m.Target == o.Target && !riding:
		return fmt.Sprintf("!%d stands at %s and is %s at %s here", m.Number, bot.ShortSHA(m.HeadSHA), o.Status, bot.ShortSHA(o.HeadSHA))
	case o.Status == bot.OperationPendingApproval && approved:
		return fmt.Sprintf("!%d is approved and %s here: %s", m.Number, o.Status, o.Detail)
	case o.Status == bot.OperationWaiting && !approved:
		return fmt.Sprintf("!%d is not approved and %s here", m.Number, o.Status)
	}
	return ""
}

// wanted is how many approvals a queue wants.
func (w *world) wanted(queueID int64) int {
	for _, q := range w.look().Queues {
		if q.ID == queueID {
			return q.Settings.Approvals.Count
		}
	}
	return 0
}

// help is what an operator does when all that is left waits for a person: resumes the queue, ends what is blocked. false: there is nothing to do.
func (w *world) help() bool {
	rows := w.look()
	if did := w.landByHand(); did != "" {
		w.log("people: %s", did)
		return true
	}
	for _, b := range rows.Batches {
		if b.Status != bot.BatchBlocked {
			continue
		}
		m := w.batchMR(b)
		if m != nil && m.State == bot.MRMerged && m.Target == target {
			if did := w.putBack(m.MergeSHA); did != "" {
				w.log("people: %s, for the blocked batch %d", did, b.ID)
				return true
			}
		}
		if m != nil && m.State == bot.MROpen {
			w.log("people: close the MR !%d of the blocked batch %d: %s", m.Number, b.ID, b.Code)
			m.ClosedBy = reviewer.Login
			w.setState(m, bot.MRClosed)
			return true
		}
		branch := b.Branch(target)
		if b.MRNumber == 0 && w.host.git.refs[heads(branch)] != "" {
			w.log("people: delete %s of the blocked batch %d: %s", branch, b.ID, b.Code)
			w.host.git.move(heads(branch), "")
			return true
		}
	}
	return w.resume() != ""
}

// final looks at the end, when everything rests and operators have done what they were asked for.
func (w *world) final() {
	rows := w.look()
	for _, b := range rows.Batches {
		for _, m := range w.host.mrs {
			if !b.Status.Active() && isBatch(m) && isOpen(m) && m.SourceBranch == b.Branch(target) && m.Number != b.MRNumber && !m.reopened && w.host.git.refs[heads(m.SourceBranch)] == "" {
				w.violate("I8: batch %d is over (%s), and !%d, which it does not know, is still open", b.ID, b.Code, m.Number)
			}
		}
		if b.Status.Active() {
			w.violate("I9: batch %d is still %s %s after people did what it asked for: %s %s", b.ID, b.Status, b.Phase, b.Code, b.Message)
		}
	}
	for _, o := range rows.Operations {
		switch {
		case o.Status == bot.OperationWaiting || o.Status == bot.OperationBatched:
			w.violate("I9: !%d is still %s", o.Number, o.Status)
		case o.Status == bot.OperationFailed && o.Reason == bot.ReasonCIRed && !w.flaked && !w.host.git.commits[o.HeadSHA].red():
			w.violate("!%d was rejected for red CI, and its commits are good", o.Number)
		}
	}
}
